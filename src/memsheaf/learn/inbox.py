"""The inbox: a durable queue of conversation turns that were not learned from yet, each in a file of its own.

A turn is written whole under the next number; that decides. Digests of its messages are then added to `inbox.known`,
so that a message that a host sends again (after a compaction, a resume or a crash) is not queued again. A batch is
recorded before it is handed out and again when it is done: after a crash the same batch is handed out again. What is
done is deleted; its digests stay. The lock is held while files are written, never while somebody learns.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import NamedTuple

from memsheaf.guard.secrets import without_secrets
from memsheaf.recall.turns import ROLES, Message, Turn
from memsheaf.store.state import State
from memsheaf.text.neutralize import cut_bytes
from memsheaf.text.spoken import unwrapped

MESSAGE_BYTES = {"user": 16_384, "assistant": 16_384, "tool": 4_096}
BATCH_BYTES = 24_000
CONVERSATIONS = 1_024  # the latest conversations, which are counted once
LOOK_AHEAD = 64  # turns among which those of one conversation are collected
LOCK_SECONDS = 10.0
OWN_ID = 16  # characters; a shorter message id may be a number that other conversations use, too
SEEN = 65_536  # messages that are recognized, at least; at twice that the file of digests is shortened
FIRST_FOREIGN = 10**11  # turn files with a higher number are read, but were not numbered by us

_CURSOR, _DIGESTS, _PRIVACY = "inbox.json", "inbox.known", "inbox.private"
_LAST = rb"\n#([0-9]{12})(?=\n)"
_LINE = 17  # bytes of a digest and its line end


class Batch(NamedTuple):
    """Turns of one conversation that are learned from at once; empty when nothing waits.

    `id` is made from the messages, and `tries` counts how often it was handed out, this time included.
    """

    id: str = ""
    conversation: str = ""
    turns: tuple[Turn, ...] = ()
    tries: int = 0
    numbers: tuple[int, ...] = ()


class _StoredTurn(NamedTuple):
    """A turn as it is stored, and a digest for each of its messages."""

    turn: Turn
    keys: tuple[str, ...]


class _Cursor(NamedTuple):
    """The turns that are handed out, those that are done but may still be on disk, and what was learned from."""

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
        self._listed: list[int] = []  # the numbers that waited when the folder was last listed
        self._conversations: dict[int, str] = {}  # those of turns that were read ahead

    def append(self, turn: Turn, *, store: Callable[[Turn], bool] | None = None) -> bool:
        """Queue a turn that just ended, durably; False when nothing in it is new. Raises StoreFailed, Busy.

        Secrets, wrappers that programs put around a message and what is too long are left out before it reaches the
        disk. A turn in which the user asks to do without memory is not stored, nor what follows it as far as that
        wish reaches. A message without an id is recognized
        by conversation, role and text; but the user may say the same again in a later turn. With `store`, what is new
        of the turn is passed to that instead of the queue, and its answer is returned.
        """
        new = self._prepare(turn, {}, is_silent=self._follow_privacy(turn))
        return self._add(new, live=True, store=store)

    def extend(self, turns: Iterable[Turn]) -> int:
        """Queue what is new in a conversation that is given from its beginning; returns how many turns are.

        Messages without an id are numbered by how often their text occurred before. Raises StoreFailed, Busy.
        """
        return sum(self._add(one) for one in self._unseen(turns))

    def unseen(self, turns: Iterable[Turn]) -> list[Turn]:
        """Those turns of a conversation, given from its beginning, that `extend` would queue."""
        return [one.turn for one in self._unseen(turns) if one.turn.messages]

    def pending(self, most: int = BATCH_BYTES) -> Batch:
        """The next turns of one conversation; the same until they are done. Raises StoreFailed, Busy."""
        if not os.path.isdir(self._state.folder):
            return Batch()
        with self._locked():
            cursor = self._sweep()
            found = {number: stored for number in cursor.open if (stored := self._load(number))}
            tries = cursor.tries + 1 if found else 1
            found = found or self._next(most, cursor.done)
            if found or cursor.open:
                self._save(cursor._replace(open=tuple(found), tries=tries if found else 0))
        if not found:
            return Batch()
        turns = tuple(stored.turn for stored in found.values())
        return Batch(_identity(found.values()), turns[0].conversation, turns, tries, tuple(found))

    def holds(self, batch: Batch) -> bool:
        """Whether a batch is unchanged since it was handed out: nothing was erased from it."""
        found = [stored for number in batch.numbers if (stored := self._load(number))]
        return batch.id == _identity(found) and batch.turns == tuple(stored.turn for stored in found)

    def done(self, batch: Batch) -> None:
        """Advance behind a batch, for good, and delete what was said in it. Raises StoreFailed, Busy."""
        if not batch.turns:
            return
        with self._locked():
            cursor = self._sweep()
            numbers = tuple(number for number in batch.numbers if self._load(number))
            if not numbers:
                return
            self._state.add(_DIGESTS, b"")  # flushed: they must outlast the messages
            name = _digest("conversation", batch.conversation)
            others = tuple(one for one in cursor.conversations if one != name)
            self._save(
                cursor._replace(
                    open=tuple(number for number in cursor.open if number not in numbers),
                    done=numbers,
                    last=max(cursor.last, *(number for number in numbers if number < FIRST_FOREIGN), 0),
                    learned=cursor.learned + (name not in cursor.conversations),
                    conversations=(*others, name)[-CONVERSATIONS:],
                )
            )
            self._sweep()

    def prepare(self, turns: Iterable[Turn]) -> list[Turn]:
        """These turns as they would be stored: without secrets, wrappers, and what is off the record."""
        return [one.turn for one in self._prepare_all(turns) if one.turn.messages]

    def turns(self) -> list[Turn]:
        """All that waits, in order. Nothing is handed out or changed."""
        done = set(self._cursor().done)
        return [stored.turn for number, stored in self._stored() if number not in done]

    def left(self) -> int:
        """How many turns wait, by the names of their files alone: quick, however many there are."""
        return len(set(self._numbers()) - set(self._cursor().done))

    def learned(self) -> int:
        """How many conversations were learned from, ever. One that goes on after 1,024 others counts again."""
        return self._cursor().learned

    def purge(self, keep: Callable[[str], bool]) -> int:
        """Drop the waiting messages whose text is not to be kept; returns how many. Raises StoreFailed, Busy.

        A file that cannot be read as a turn is dropped by the same rule. What was dropped is not queued again.
        """
        if not self._state.names():
            return 0
        dropped = 0
        with self._locked():
            self._state.add(_DIGESTS, b"")
            self._sweep()
            self._state.tidy(self._clock(), of="inbox")
            for number in self._numbers():
                name, stored = _name(number), self._load(number)
                if stored is None:
                    if not keep((self._state.read(name) or b"").decode("utf-8", "replace")):
                        self._state.remove(name)
                    continue
                messages = stored.turn.messages
                kept = tuple(message for message in messages if keep(message.text))
                dropped += len(messages) - len(kept)
                if not kept:
                    self._state.remove(name)
                elif kept != messages:
                    self._write(number, stored._replace(turn=stored.turn._replace(messages=kept)))
        return dropped

    def clear(self) -> int:
        """Drop all that waits, unread; returns how many turns. Raises StoreFailed, Busy."""
        count = len(self.turns())
        self.purge(lambda text: False)
        return count

    def _follow_privacy(self, turn: Turn) -> bool:
        """Return True if a turn may not be stored, and note how far the user's wish for that reaches.

        For each conversation with such a wish the file has a digest of the last message, and how far the wish reached
        before and after it: a host that sends the message again, now with its answer, means the same turn.
        """
        name = _digest("conversation", _label(turn.conversation))
        first = next((_digest("first", message.text) for message in turn.messages if message.role == "user"), "")
        with self._locked():
            known = self._state.load(_PRIVACY)
            wishes = known if isinstance(known, dict) else {}
            old = wishes.pop(name, None)
            latest, before, after = old if _are_texts(old) and len(old) == 3 else ("", "", "")
            before = before if first == latest else after
            is_silent, reach = turn.follow_privacy(before)
            new = [first, before, reach]
            if before or reach not in ("", "turn"):
                wishes[name] = new
            if old != wishes.get(name):
                self._state.save(_PRIVACY, dict([*wishes.items()][-CONVERSATIONS:]))
        return is_silent

    def _prepare_all(self, turns: Iterable[Turn]) -> list[_StoredTurn]:
        """Turns as they may be stored, given from the beginning of their conversations."""
        counts: dict[str, int] = {}
        reach: dict[str, str] = {}
        prepared = []
        for turn in turns:
            is_silent, reach[turn.conversation] = turn.follow_privacy(reach.get(turn.conversation, ""))
            prepared.append(self._prepare(turn, counts, is_silent=is_silent))
        return prepared

    def _prepare(self, turn: Turn, counts: dict[str, int], *, is_silent: bool) -> _StoredTurn:
        """A turn as it may be stored, with its digests. `counts` is how often each text came before."""
        conversation = _label(turn.conversation)
        messages, keys = [], []
        for role, whole, name in turn.messages:
            whole = unwrapped(whole) if role in ROLES else ""
            if not whole:
                continue
            text = _clean(whole, MESSAGE_BYTES[role])
            if name:
                owner = "" if len(name) >= OWN_ID else conversation
                key = _digest("id", owner, name, role, text, str(len(whole)))
            else:
                same = _digest("text", conversation, role, text, str(len(whole)))
                counts[same] = counts.get(same, 0) + 1
                key = _digest(same, str(counts[same]))
            messages.append(Message(role, text, _label(name)))
            keys.append(key)
        at = turn.at or time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(self._clock()))
        kept = () if is_silent else tuple(messages)
        return _StoredTurn(Turn(conversation, kept, _label(at), turn.saved, turn.number), tuple(keys))

    def _unseen(self, turns: Iterable[Turn]) -> list[_StoredTurn]:
        prepared = self._prepare_all(turns)
        seen = _SeenMessages(self._state).among([key for one in prepared for key in one.keys])
        return [one for one in prepared if not seen.issuperset(one.keys)]

    def _add(self, new: _StoredTurn, *, live: bool = False, store: Callable[[Turn], bool] | None = None) -> bool:
        """Write what is new of a turn, or let `store` do it; whether anything is."""
        with self._locked():
            seen, last = self._recover()
            turn, keys = new
            known = seen.among(keys)
            unknown = [key for key in keys if key not in known]
            said = [message for message in turn.messages if message.role == "user"]
            # who says the same in another turn, without an id, means it again
            repeated = said[-1] if live and said and not said[-1].id else None
            if not unknown and (repeated is None or seen.is_latest(turn.conversation, keys)):
                return False
            if not turn.messages:  # off the record, also when it is sent again
                seen.add(turn.conversation, keys, last, unknown)
                return False
            pairs = zip(turn.messages, keys, strict=True)
            fresh = [(one, key) for one, key in pairs if key not in known or one == repeated or not unknown]
            is_stored = True
            if store:
                is_stored = store(turn._replace(messages=tuple(message for message, _ in fresh)))
            else:
                for part in _parts(fresh):
                    last += 1
                    messages, part_keys = zip(*part, strict=True)
                    self._write(last, _StoredTurn(turn._replace(messages=messages), part_keys))
            seen.add(turn.conversation, keys, last, unknown)
            return is_stored

    def _recover(self) -> tuple[_SeenMessages, int]:
        """The messages that were seen and the last number, with what a crash kept from being noted."""
        seen = _SeenMessages(self._state)
        last = seen.last
        if last is None:  # the file was lost, or is not there yet
            for number, stored in self._stored():
                seen.add(stored.turn.conversation, stored.keys, number)
            last = max([self._cursor().last, *(number for number in self._numbers() if number < FIRST_FOREIGN)])
        while unnoted := self._load(last + 1):
            last += 1
            seen.add(unnoted.turn.conversation, unnoted.keys, last)
        return seen, last

    def _next(self, most: int, done: Sequence[int]) -> dict[int, _StoredTurn]:
        """The oldest turn, and those of the same conversation for which there is room."""
        self._listed = [number for number in self._listed if number not in done]
        found = self._collect(most) if len(self._listed) >= LOOK_AHEAD else {}
        if not found:
            self._state.tidy(self._clock(), of="inbox")
            self._listed = sorted(set(self._numbers()).difference(done))
            found = self._collect(most)
        return found

    def _collect(self, most: int) -> dict[int, _StoredTurn]:
        found: dict[int, _StoredTurn] = {}
        conversation = ""
        for number in self._listed[:LOOK_AHEAD]:
            if found and self._conversations.get(number, conversation) != conversation:
                continue
            if (stored := self._load(number)) is None:
                continue
            self._conversations[number] = stored.turn.conversation
            if found and stored.turn.conversation != conversation:
                continue
            conversation = stored.turn.conversation
            most -= _size(stored.turn.messages)
            if found and most < 0:
                break
            found[number] = stored
        return found

    def _sweep(self) -> _Cursor:
        """The cursor, once all that is done is deleted. The caller holds the lock."""
        cursor = self._cursor()
        for number in cursor.done:
            self._state.remove(_name(number))
        return cursor

    def _locked(self) -> AbstractContextManager[None]:
        return self._state.lock("inbox", wait=LOCK_SECONDS)

    def _numbers(self) -> list[int]:
        found = (re.fullmatch(r"inbox-([0-9]{12})\.json", name) for name in self._state.names())
        return [int(match[1]) for match in found if match]

    def _stored(self) -> Iterator[tuple[int, _StoredTurn]]:
        return ((number, stored) for number in self._numbers() if (stored := self._load(number)))

    def _load(self, number: int) -> _StoredTurn | None:
        """The turn of this number; None when it is not there, or is not a turn."""
        match self._state.load(_name(number)):
            case {"conversation": str(name), "at": str(at), "messages": [*rows], "keys": [*keys], **more}:
                messages = tuple(Message(*row) for row in rows if _are_texts(row) and len(row) == 3)
                if messages and len(messages) == len(rows) and _are_texts(keys):
                    count = more.get("number")
                    turn = Turn(name, messages, at, more.get("saved") is True, count if isinstance(count, int) else 0)
                    return _StoredTurn(turn, tuple(keys))
        return None

    def _write(self, number: int, stored: _StoredTurn) -> None:
        turn = stored.turn
        record = {**turn._asdict(), "messages": [list(one) for one in turn.messages], "keys": list(stored.keys)}
        self._state.save(_name(number), record)

    def _cursor(self) -> _Cursor:
        """The cursor as it was saved; a new one when it cannot be understood."""
        match self._state.load(_CURSOR):
            case {
                "open": [*opened], "tries": tries, "done": [*done], "last": last, "learned": learned,
                "conversations": [*names],
            }:  # fmt: skip
                numbers = (*opened, tries, *done, last, learned)
                if _are_texts(names) and all(type(one) is int and 0 <= one < 10**12 for one in numbers):
                    return _Cursor(tuple(opened), tries, tuple(done), last, learned, tuple(names))
        return _Cursor()

    def _save(self, cursor: _Cursor) -> None:
        self._state.save(_CURSOR, cursor._asdict())


class _SeenMessages:
    """The file of digests, and what was added since it was read. Adding needs the lock of the inbox.

    A line is the digest of a message, or `@` and the digests of a conversation and of its latest turn, or `#` and the
    number of the last turn that was written before. Lines are added without a flush: what a power cut takes can be
    restored from the turns that wait.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._data = state.read(_DIGESTS) or b""

    @property
    def last(self) -> int | None:
        """The number of the last turn that was noted; None when there is none, or the file was lost."""
        marks = re.findall(_LAST, self._data[-64:]) or re.findall(_LAST, self._data)
        return int(marks[-1]) if marks else None

    def among(self, keys: Sequence[str]) -> set[str]:
        """Those of these digests that were seen."""
        if len(keys) < 32:
            return {key for key in keys if f"\n{key}\n".encode() in self._data}
        return set(keys) & set(self._data.decode("ascii", "replace").split("\n"))

    def is_latest(self, conversation: str, keys: Sequence[str]) -> bool:
        """Whether the turn of these messages is the latest that was noted of its conversation."""
        name, turn = _digest("conversation", conversation), _digest("turn", *keys)
        at = self._data.rfind(f"\n@{name}".encode())
        return at < 0 or self._data.startswith(f"\n@{name}{turn}\n".encode(), at)

    def add(self, conversation: str, keys: Sequence[str], last: int, new: Sequence[str] | None = None) -> None:
        """Note a turn of a conversation, of which these messages, or only the `new` ones, were not seen.

        `last` is the number of the last turn that is in place. Raises StoreFailed.
        """
        latest = f"@{_digest('conversation', conversation)}{_digest('turn', *keys)}"
        lines = "\n".join(["", *(keys if new is None else new), latest, f"#{last:012}", ""]).encode()
        self._data += lines
        if len(self._data) <= 2 * SEEN * _LINE:
            self._state.add(_DIGESTS, lines, durably=False)
            return
        digests = [line for line in self._data.split(b"\n") if len(line) == _LINE - 1]
        self._data = b"\n".join([b"", *digests[-SEEN:], b"#%012d" % last, b""])
        self._state.write(_DIGESTS, self._data)


def _digest(*parts: str) -> str:
    """A one-way hash of several texts, kept apart.

    >>> _digest("users", "es") == _digest("user", "ses")
    False
    """
    hashed = blake2b(digest_size=(_LINE - 1) // 2)
    for part in parts:
        data = part.encode("utf-8", "replace")
        hashed.update(b"%d:%s" % (len(data), data))
    return hashed.hexdigest()


def _identity(turns: Iterable[_StoredTurn]) -> str:
    """The id of a batch, made from its messages."""
    return _digest("batch", *(key for stored in turns for key in stored.keys))


def _name(number: int) -> str:
    return f"inbox-{number:012}.json"


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(one, str) for one in values)


def _clean(text: str, limit: int) -> str:
    """The text without secrets, at most about `limit` bytes; what is cut says so."""
    head = text[: 2 * limit]
    if len(head) < len(text):
        head = head.rsplit(None, 1)[0]  # half a secret is not recognized
    clean = without_secrets(head)
    kept = cut_bytes(clean, limit)
    if len(kept) == len(clean) and len(head) == len(text):
        return kept
    return f"{kept}\n(cut here: {len(kept.encode()):,} of {len(text.encode()):,} bytes were kept)"


def _label(name: str) -> str:
    """A name that a host gave; it may be long, and may hold a secret."""
    return cut_bytes(without_secrets(name[:400]), 200)


def _parts(messages: list[tuple[Message, str]]) -> Iterator[list[tuple[Message, str]]]:
    """A turn in parts that each fit into a batch."""
    part: list[tuple[Message, str]] = []
    room = BATCH_BYTES
    for one in messages:
        room -= _size([one[0]])
        if part and room < 0:
            yield part
            part, room = [], BATCH_BYTES - _size([one[0]])
        part.append(one)
    yield part


def _size(messages: Iterable[Message]) -> int:
    return sum(len(message.text.encode()) for message in messages)
