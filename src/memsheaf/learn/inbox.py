"""What was said and has not been learned from yet: turns wait here, each in a file of its own.

A turn is put in place whole, under the next number; that decides. Its messages are then noted as known, by digest, so
that what a host tells again is not read again: after a compaction, a resume, or a crash between the two, which the
next to come makes good. A batch is written down before it is handed out and again when it is done, so whoever dies in
between gets the very same one again. What is done is removed; its digests stay.

The lock is held while files are written, never while somebody learns.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from memsheaf.guard.secrets import without_secrets
from memsheaf.learn.seen_messages import SeenMessages, digest, settle
from memsheaf.recall.turns import ROLES, Message, Turn
from memsheaf.store.state import State
from memsheaf.text.host_wrappers import unwrapped
from memsheaf.text.neutralize import cut_bytes
from memsheaf.values import NamedTuple

MESSAGE_BYTES = {"user": 16_384, "assistant": 16_384, "tool": 4_096}
BATCH_BYTES = 24_000
CONVERSATIONS = 1_024  # how many of the latest count once, however often they go on
LOOK_AHEAD = 64  # turns among which those of one conversation are brought together
PATIENCE = 10.0  # seconds for the lock; it is held for a few flushes
OWN_ID = 16  # characters; a shorter id may be a number that other conversations use, too

GIVEN = 10**11  # what has a higher number is read, but we did not give that one, and do not count on from it

_MINE, _CURSOR, _TURN = "inbox", "inbox.json", "inbox-"


class Batch(NamedTuple):
    """Turns of one conversation, to be learned from at once. No turns: nothing waits.

    `id` is made from the messages; the same batch has the same after a crash. `tries` says how often it was handed
    out, this time included: whoever dies of it again and again may give it up.
    """

    id: str = ""
    conversation: str = ""
    turns: tuple[Turn, ...] = ()
    tries: int = 0
    numbers: tuple[int, ...] = ()


class Backlog(NamedTuple):
    """How much waits: `bytes` of text, `oldest` is when the first of it was said, "" when nothing waits."""

    turns: int = 0
    conversations: int = 0
    bytes: int = 0
    oldest: str = ""


class _Entry(NamedTuple):
    """A turn as it is kept, and a digest for each of its messages."""

    turn: Turn
    keys: tuple[str, ...]


class _Cursor(NamedTuple):
    """Which turns are handed out, which are done and may still lie there, and what was learned from so far."""

    open: tuple[int, ...] = ()
    tries: int = 0
    done: tuple[int, ...] = ()
    last: int = 0
    learned: int = 0
    conversations: tuple[str, ...] = ()


class Inbox:
    """The turns of one root that wait. Several processes may append while one learns."""

    def __init__(self, state: State, *, clock: Callable[[], float] = time.time) -> None:
        self._state = state
        self._clock = clock
        self._ahead: dict[int, _Entry] = {}  # read ahead, to be handed out next
        self._listed: list[int] = []  # numbers behind those, as they were when the folder was last listed

    def append(self, turn: Turn) -> bool:
        """Keep a turn that just ended, durably; False when nothing in it is new. Raises StoreFailed, Busy.

        Secrets, what programs put around a message and what is too long are left out before it reaches the disk. A
        turn in which the user asks to do without memory is not kept at all. A message without an id is known by its
        conversation, its role and its text; but the user may say the same again in a later turn.
        """
        return self._take([turn], live=True) > 0

    def relay(self, turn: Turn, keep: Callable[[Turn], bool]) -> bool:
        """As `append`, but `keep` keeps what is new of the turn, somewhere else, and says whether it did."""
        return self._take([turn], live=True, keep=keep) > 0

    def extend(self, turns: Iterable[Turn]) -> int:
        """Keep what is new in a conversation that is told from its beginning; gives how many turns are.

        Messages without an id are told apart by how often their text was said before. Raises StoreFailed, Busy.
        """
        return self._take(turns, live=False)

    def pending(self, most: int = BATCH_BYTES) -> Batch:
        """The next turns of one conversation, `most` bytes of text; the same again until it is done.

        One turn at least, which may be a little longer. Raises StoreFailed, Busy.
        """
        if not os.path.isdir(self._state.folder):
            return Batch()
        with self._locked():
            cursor = self._swept()
            found = [(number, entry) for number in cursor.open if (entry := self._entry(number))]
            tries = cursor.tries + 1 if found else 1
            found = found or self._next(most, cursor.done)
            numbers = tuple(number for number, _ in found)
            if found or cursor.open:
                self._save(cursor._replace(open=numbers, tries=tries if found else 0))
        if not found:
            return Batch()
        turns = tuple(entry.turn for _, entry in found)
        return Batch(_identity(entry for _, entry in found), turns[0].conversation, turns, tries, numbers)

    def holds(self, batch: Batch) -> bool:
        """Whether a batch that was handed out is still what it was: nobody erased from it meanwhile."""
        entries = [self._entry(number) for number in batch.numbers]
        return batch.id == _identity(entry for entry in entries if entry) and batch.turns == tuple(
            entry.turn for entry in entries if entry
        )

    def done(self, batch: Batch) -> None:
        """Go on behind a batch, for good, and remove what was said in it. Raises StoreFailed, Busy."""
        if not batch.turns:
            return
        with self._locked():
            cursor = self._swept()
            there = tuple(number for number in batch.numbers if self._entry(number))
            if not there:
                return
            settle(self._state)  # what is known must outlast what told it
            name = digest("conversation", batch.conversation)
            rest = tuple(one for one in cursor.conversations if one != name)
            self._save(
                cursor._replace(
                    open=tuple(number for number in cursor.open if number not in there),
                    done=there,
                    last=max(cursor.last, *(number for number in there if number < GIVEN), 0),
                    learned=cursor.learned + (name not in cursor.conversations),
                    conversations=(*rest, name)[-CONVERSATIONS:],
                )
            )
            self._swept()

    def prepared(self, turns: Iterable[Turn]) -> list[Turn]:
        """These turns as they would be kept: without secrets, wrappers, and what is not for the record."""
        return [turn for one in turns if (turn := self._prepared(one, {}).turn).messages]

    def turns(self) -> list[Turn]:
        """All that waits, in order. Nothing is handed out or changed."""
        return [entry.turn for _, entry in self._entries()]

    def waiting(self) -> Backlog:
        """How much waits."""
        turns = self.turns()
        if not turns:
            return Backlog()
        size = sum(_size(turn.messages) for turn in turns)
        return Backlog(len(turns), len({turn.conversation for turn in turns}), size, min(turn.at for turn in turns))

    def left(self) -> int:
        """How many turns wait, by the names of their files alone: quick, however many there are."""
        return len(set(self._numbers()) - set(self._cursor().done))

    def learned(self) -> int:
        """How many conversations have been learned from, ever. One that goes on after 1,024 others counts anew."""
        return self._cursor().learned

    def purge(self, keep: Callable[[str], bool]) -> int:
        """Drop the waiting messages whose text is not to be kept; gives how many. Raises StoreFailed, Busy.

        What waits there and cannot be read as a turn is dropped by the same rule. Nothing that was dropped comes back
        when a host tells it again.
        """
        if not self._state.names():
            return 0
        dropped = 0
        with self._locked():
            settle(self._state)
            self._swept()
            self._state.tidy(self._clock(), of=_MINE)
            for number in self._numbers():
                entry = self._entry(number)
                if entry is None:
                    raw = (self._state.read(_name(number)) or b"").decode("utf-8", "replace")
                    if not keep(raw):
                        self._state.remove(_name(number))
                    continue
                kept = tuple(message for message in entry.turn.messages if keep(message.text))
                dropped += len(entry.turn.messages) - len(kept)
                if not kept:
                    self._state.remove(_name(number))
                elif len(kept) < len(entry.turn.messages):
                    self._write(number, entry._replace(turn=entry.turn._replace(messages=kept)))
        return dropped

    def clear(self) -> int:
        """Drop all that waits, unread; gives how many turns. Raises StoreFailed, Busy."""
        count = len(self.turns())
        self.purge(lambda text: False)
        return count

    def files(self) -> list[str]:
        """The files it is kept in."""
        mine = (name for name in self._state.names() if name.startswith(_MINE))
        return [os.path.join(self._state.folder, name) for name in mine]

    # taking in

    def _take(self, turns: Iterable[Turn], *, live: bool, keep: Callable[[Turn], bool] | None = None) -> int:
        counts: dict[str, int] = {}
        entries = [self._prepared(turn, counts) for turn in turns]
        known: set[str] = set()
        if not live:  # what is known before we have the lock will be so then
            known = SeenMessages(self._state).among([key for entry in entries for key in entry.keys])
        added = 0
        for entry in entries:
            if not known.issuperset(entry.keys):
                with self._locked():
                    added += self._placed(entry, live, keep)
        return added

    def _prepared(self, turn: Turn, counts: dict[str, int]) -> _Entry:
        """A turn as it may be kept, and what its messages are known by. `counts` is what was told before it."""
        conversation = _label(turn.conversation)
        messages, keys = [], []
        for role, said, name in turn.messages:
            said = unwrapped(said) if role in ROLES else ""
            if not said:
                continue
            text = _kept(said, MESSAGE_BYTES[role])
            if name:
                key = digest("id", "" if len(name) >= OWN_ID else conversation, name, role, text, str(len(said)))
            else:
                same = digest("text", conversation, role, text, str(len(said)))
                counts[same] = counts.get(same, 0) + 1
                key = digest(same, str(counts[same]))
            messages.append(Message(role, text, _label(name)))
            keys.append(key)
        at = turn.at or time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(self._clock()))
        kept = () if turn.unkept else tuple(messages)
        return _Entry(Turn(conversation, kept, _label(at), turn.saved), tuple(keys))

    def _placed(self, entry: _Entry, live: bool, keep: Callable[[Turn], bool] | None) -> bool:
        """Put what is new of a turn in place, or let `keep` do it; whether anything is. The caller holds the lock."""
        noted, last = self._mended()
        name = entry.turn.conversation
        known = noted.among(entry.keys)
        new = [key for key in entry.keys if key not in known]
        is_said_again = live and bool(_said_last(entry.turn.messages)) and not noted.is_latest(name, entry.keys)
        if not new and not is_said_again:
            return False
        if not entry.turn.messages:  # the user wants it forgotten, and so it is when it is told again
            noted.note(name, entry.keys, last, new)
            return False
        said = _said_last(entry.turn.messages) if live else ()
        pairs = list(zip(entry.turn.messages, entry.keys, strict=True))
        fresh = [(one, key) for one, key in pairs if key not in known or one in said or not new]
        kept = keep is None or keep(entry.turn._replace(messages=tuple(message for message, _ in fresh)))
        for piece in _pieces(fresh) if keep is None else ():
            messages, keys = zip(*piece, strict=True)
            last += 1
            self._write(last, _Entry(entry.turn._replace(messages=messages), keys))
        noted.note(name, entry.keys, last, new)
        return kept

    def _mended(self) -> tuple[SeenMessages, int]:
        """What is known, and the last number that was given; with what a crash kept from being noted."""
        known = SeenMessages(self._state)
        last = known.last
        if last is None:  # it was lost, or is not there yet
            for number, entry in self._entries():
                known.note(entry.turn.conversation, entry.keys, number)
            last = max([self._cursor().last, *(number for number in self._numbers() if number < GIVEN)])
        while unnoted := self._entry(last + 1):
            last += 1
            known.note(unnoted.turn.conversation, unnoted.keys, last)
        return known, last

    # handing out

    def _next(self, most: int, done: Sequence[int]) -> list[tuple[int, _Entry]]:
        """The oldest turn, and those of the same conversation for which there is room.

        The folder is listed when all that was listed before is read, and each turn is read ahead once: what is handed
        out is read again, as somebody may have erased from it.
        """
        for number in done:
            self._ahead.pop(number, None)
        found: list[tuple[int, _Entry]] = []
        room = most
        for number in self._looked_at(done):
            if found and self._ahead[number].turn.conversation != found[0][1].turn.conversation:
                continue
            entry = self._entry(number)
            if entry is None:
                del self._ahead[number]
                continue
            room -= _size(entry.turn.messages)
            if found and room < 0:
                break
            found.append((number, entry))
        return found

    def _looked_at(self, done: Sequence[int]) -> list[int]:
        """The numbers of the turns that come next, as many as are looked at."""
        if not self._listed and len(self._ahead) < LOOK_AHEAD:
            self._state.tidy(self._clock(), of=_MINE)
            self._listed = [number for number in self._numbers() if number not in {*self._ahead, *done}][::-1]
        while self._listed and len(self._ahead) < LOOK_AHEAD:
            number = self._listed.pop()
            if entry := self._entry(number):
                self._ahead[number] = entry
        return sorted(self._ahead)

    def _swept(self) -> _Cursor:
        """The cursor, once all that is done is gone from the disk. The caller holds the lock."""
        cursor = self._cursor()
        for number in cursor.done:
            self._state.remove(_name(number))
        return cursor

    def _cursor(self) -> _Cursor:
        return _cursor_in(self._state.load(_CURSOR))

    def _save(self, cursor: _Cursor) -> None:
        self._state.save(_CURSOR, cursor._asdict())

    # files

    def _locked(self) -> AbstractContextManager[None]:
        return self._state.lock(_MINE, wait=PATIENCE)

    def _entries(self) -> Iterator[tuple[int, _Entry]]:
        gone = set(self._cursor().done)
        for number in self._numbers():
            if number not in gone and (entry := self._entry(number)):
                yield number, entry

    def _numbers(self) -> list[int]:
        found = (re.fullmatch(rf"{_TURN}([0-9]{{12}})\.json", name) for name in self._state.names())
        return [int(match[1]) for match in found if match]

    def _entry(self, number: int) -> _Entry | None:
        """The turn of this number; None when it is not there, or is no turn."""
        return _entry_in(self._state.load(_name(number)))

    def _write(self, number: int, entry: _Entry) -> None:
        turn = entry.turn
        record = {**turn._asdict(), "messages": [list(one) for one in turn.messages], "keys": list(entry.keys)}
        self._state.save(_name(number), record)


def _identity(entries: Iterable[_Entry]) -> str:
    """The id of a batch, made from its messages."""
    return digest("batch", *(key for entry in entries for key in entry.keys))


def _name(number: int) -> str:
    return f"{_TURN}{number:012}.json"


def _entry_in(found: object) -> _Entry | None:
    """A turn from the JSON of its file; None for anything else."""
    match found:
        case {"conversation": str(name), "at": str(at), "saved": bool(saved), "messages": [*rows], "keys": [*keys]}:
            messages = tuple(Message(*row) for row in rows if _are_texts(row) and len(row) == 3)
            if messages and len(messages) == len(rows) and _are_texts(keys):
                return _Entry(Turn(name, messages, at, saved), tuple(keys))
    return None


def _cursor_in(found: object) -> _Cursor:
    """The cursor from the JSON of its file; one at the beginning for anything else."""
    match found:
        case {
            "open": [*opened], "tries": int(tries), "done": [*done], "last": int(last), "learned": int(learned),
            "conversations": [*names],
        }:  # fmt: skip
            numbers = (*opened, tries, *done, last, learned)
            if all(type(one) is int and 0 <= one < 10**12 for one in numbers) and _are_texts(names):
                return _Cursor(tuple(opened), tries, tuple(done), last, learned, tuple(names))
    return _Cursor()


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(one, str) for one in values)


def _kept(text: str, limit: int) -> str:
    """The text without secrets, at most about `limit` bytes; what is cut says so."""
    head = text[: 2 * limit]
    if len(head) < len(text):
        head = head.rsplit(None, 1)[0]  # half a secret is not known for one
    clean = without_secrets(head)
    kept = cut_bytes(clean, limit)
    if len(kept) == len(clean) and len(head) == len(text):
        return kept
    return f"{kept}\n(cut here: {len(kept.encode()):,} of {len(text.encode()):,} bytes were kept)"


def _label(name: str) -> str:
    """What a host calls something; it may be long, and a file's name may hold a secret as well as a text."""
    return cut_bytes(without_secrets(name[:400]), 200)


def _pieces(messages: list[tuple[Message, str]]) -> Iterator[list[tuple[Message, str]]]:
    """A turn in parts that fit into a batch each."""
    piece: list[tuple[Message, str]] = []
    room = BATCH_BYTES
    for one in messages:
        room -= _size([one[0]])
        if piece and room < 0:
            yield piece
            piece, room = [], BATCH_BYTES - _size([one[0]])
        piece.append(one)
    yield piece


def _size(messages: Iterable[Message]) -> int:
    return sum(len(message.text.encode()) for message in messages)


def _said_last(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The last message of the user, if it has no name: who says the same again means something by it."""
    said = [message for message in messages if message.role == "user"][-1:]
    return tuple(message for message in said if not message.id)
