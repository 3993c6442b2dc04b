"""The inbox: a durable queue of conversation turns that were not learned from yet, each in a file of its own.

A turn is written whole under the next number; that decides. Digests of its messages are then added to `inbox.known`,
so that a message that a host sends again (after a compaction, a resume or a crash) is not queued again. A batch is
recorded in `inbox.json` before it is handed out, and again when it is done: after a crash the same batch is handed
out again, or the rest of its files is removed. The lock is held while files are written, never while somebody learns.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import NamedTuple

from memsheaf.guard.secrets import without_secrets
from memsheaf.recall.turns import ROLES, Message, Turn
from memsheaf.store.state import State
from memsheaf.text.neutralize import cut_bytes
from memsheaf.text.spoken import unwrapped

MAX_MESSAGE_BYTES = {"user": 16_384, "assistant": 16_384, "tool": 4_096}
BATCH_BYTES = 24_000
MAX_CONVERSATIONS = 1_024  # the latest ones, which are counted once
MAX_LOOK_AHEAD = 64  # turns among which those of one conversation are collected
LOCK_SECONDS = 10.0
MIN_UNIQUE_ID_CHARS = 16  # a shorter message id may be a number that other conversations use, too
MAX_KNOWN_LINES = 131_072  # digests of messages; then the older half is dropped
DIGEST_CHARS = 16

_CURSOR_FILE, _KNOWN_FILE, _PRIVACY_FILE = "inbox.json", "inbox.known", "inbox.private"


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
    """A turn as it is stored, and a digest for each of its messages; one off the record has no messages."""

    turn: Turn
    keys: tuple[str, ...]


class _Cursor(NamedTuple):
    """The turns of the latest batch, and the conversations that were learned from."""

    open: tuple[int, ...] = ()
    is_done: bool = False
    tries: int = 0
    learned: int = 0
    conversations: tuple[str, ...] = ()


class Inbox:
    """The turns of one root that wait. Several processes may append while one learns."""

    def __init__(self, state: State, *, clock: Callable[[], float] = time.time) -> None:
        self._state = state
        self._clock = clock

    def append(self, turn: Turn, *, store: Callable[[Turn], bool] | None = None) -> bool:
        """Queue a turn that just ended, durably; return False if nothing in it is new. Raises StoreFailed, Busy.

        A turn in which the user asks to do without memory is not stored, nor what follows it as far as that wish
        reaches. A message without an id is recognized by conversation, role and text; but the user may say the same
        again in a later turn. With `store`, what is new of the turn is passed to that instead of the queue, and its
        answer is returned.
        """
        with self._locked():
            stored = _prepare(turn, {}, self._clock(), is_silent=self._follow_privacy(turn))
            known = self._load_known()
            new: Sequence[str] = known.find_new(stored.keys)
            ids = [message.id for message in turn.messages if message.role == "user"]
            if ids and not ids[-1] and not known.is_latest(stored):
                new = stored.keys  # said again
            return self._add(stored, new, known, store)

    def extend(self, turns: Iterable[Turn]) -> int:
        """Queue what is new in a conversation that is given from its beginning; return how many turns are.

        Messages without an id are numbered by how often their text occurred before. Raises StoreFailed, Busy.
        """
        added = 0
        for stored in self._prepare_unseen(turns):
            with self._locked():
                known = self._load_known()
                added += self._add(stored, known.find_new(stored.keys), known)
        return added

    def find_unseen(self, turns: Iterable[Turn]) -> list[Turn]:
        """Return those turns of a conversation, given from its beginning, that `extend` would queue."""
        return [stored.turn for stored in self._prepare_unseen(turns) if stored.turn.messages]

    def next_batch(self, most: int = BATCH_BYTES) -> Batch:
        """Return the next turns of one conversation; the same until they are done. Raises StoreFailed, Busy."""
        if not os.path.isdir(self._state.folder):
            return Batch()
        with self._locked() as cursor:
            batch = self._load_all(cursor.open)
            tries = cursor.tries + 1 if batch else 1
            batch = batch or self._collect(most)
            if batch or cursor.open:
                self._save(cursor._replace(open=tuple(batch), is_done=False, tries=tries))
        if not batch:
            return Batch()
        turns = tuple(stored.turn for stored in batch.values())
        keys = [key for stored in batch.values() for key in stored.keys]
        return Batch(_digest("batch", *keys), turns[0].conversation, turns, tries, tuple(batch))

    def holds(self, batch: Batch) -> bool:
        """Return True if a batch is unchanged since it was handed out: nothing was erased from it."""
        return batch.turns == tuple(stored.turn for stored in self._load_all(batch.numbers).values())

    def finish(self, batch: Batch) -> None:
        """Advance behind a batch, for good, and delete what was said in it. Raises StoreFailed, Busy."""
        with self._locked() as cursor:
            if not self._load_all(batch.numbers):
                return
            self._flush_known()
            name = _digest("conversation", batch.conversation)
            others = tuple(other for other in cursor.conversations if other != name)
            learned = cursor.learned + (name not in cursor.conversations)
            self._save(_Cursor(batch.numbers, True, 0, learned, (*others, name)[-MAX_CONVERSATIONS:]))
            self._remove_done()

    def turns(self) -> list[Turn]:
        """Return all that waits, in order. Nothing is handed out or changed."""
        return [stored.turn for stored in self._load_all(self._waiting()).values()]

    def count_waiting(self) -> int:
        """Return how many turns wait, by the names of their files alone: quick, however many there are."""
        return len(self._waiting())

    def count_learned(self) -> int:
        """Return how many conversations were learned from. One that goes on after 1,024 others counts again."""
        return self._load_cursor().learned

    def purge(self, keep: Callable[[str], bool]) -> None:
        """Drop the waiting messages whose text is not to be kept, and unreadable files. Raises StoreFailed, Busy.

        What was dropped is not queued again.
        """
        if not self._state.names():
            return
        with self._locked():
            self._flush_known()
            self._state.tidy(self._clock(), of="inbox")
            for number in self._numbers():
                turn, keys = self._load(number) or _StoredTurn(Turn("", ()), ())
                messages = tuple(message for message in turn.messages if keep(message.text))
                if not messages:
                    self._state.remove(_name(number))
                elif messages != turn.messages:
                    self._write(number, turn._replace(messages=messages), keys)

    def clear(self) -> int:
        """Drop all that waits, unread; return how many turns. Raises StoreFailed, Busy."""
        count = self.count_waiting()
        self.purge(lambda text: False)
        return count

    @contextmanager
    def _locked(self) -> Iterator[_Cursor]:
        """Hold the lock of those who write. What was interrupted is completed first."""
        with self._state.lock("inbox", wait=LOCK_SECONDS):
            yield self._remove_done()

    def _remove_done(self) -> _Cursor:
        """Return the cursor, once the files of a batch that is done are gone."""
        cursor = self._load_cursor()
        if cursor.is_done:
            for number in cursor.open:
                self._state.remove(_name(number))
        return cursor

    def _follow_privacy(self, turn: Turn) -> bool:
        """Return True if a turn may not be stored, and note how far the user's wish for that reaches.

        For each conversation with such a wish the file has a digest of the last message, and how far the wish reached
        before and after it: a host that sends the message again, now with its answer, means the same turn.
        """
        name = _digest("conversation", _label(turn.conversation))
        texts = [message.text for message in turn.messages if message.role == "user"]
        first = _digest("first", texts[0]) if texts else ""
        stored = self._state.load(_PRIVACY_FILE)
        wishes = stored if isinstance(stored, dict) else {}
        wish = wishes.pop(name, None)
        latest, before, after = wish or ("", "", "")
        if first != latest:
            before = after
        is_silent, reach = turn.follow_privacy(before)
        if before or reach not in ("", "turn"):
            wishes[name] = [first, before, reach]
        if wishes.get(name) != wish:
            self._state.save(_PRIVACY_FILE, dict([*wishes.items()][-MAX_CONVERSATIONS:]))
        return is_silent

    def _prepare_unseen(self, turns: Iterable[Turn]) -> list[_StoredTurn]:
        known = _KnownMessages(self._state)
        return [stored for stored in _prepare_all(turns, self._clock()) if known.find_new(stored.keys)]

    def _add(
        self,
        stored: _StoredTurn,
        new: Sequence[str],
        known: _KnownMessages,
        store: Callable[[Turn], bool] | None = None,
    ) -> bool:
        """Write what is new of a turn, or let `store` do it; return True if anything is."""
        if not new:
            return False
        turn = stored.turn
        pairs = [pair for pair in zip(turn.messages, stored.keys, strict=False) if pair[1] in new]
        is_stored = bool(pairs)
        if pairs and store:
            is_stored = store(turn._replace(messages=tuple(message for message, _ in pairs)))
        elif pairs:
            last = max([*self._numbers(), *self._load_cursor().open, 0])
            for number, part in enumerate(_split(pairs), last + 1):
                messages, keys = zip(*part, strict=True)
                self._write(number, turn._replace(messages=messages), keys)
        known.add(stored, new)
        return is_stored

    def _load_known(self) -> _KnownMessages:
        """Return the known messages, with those of waiting turns that a crash kept from being noted."""
        known = _KnownMessages(self._state)
        for stored in map(self._load, reversed(self._numbers())):
            if stored and not known.find_new(stored.keys):
                break
            if stored:
                known.add(stored, stored.keys)
        return known

    def _flush_known(self) -> None:
        """Write the digests of messages to disk: they must outlast the messages."""
        self._state.add(_KNOWN_FILE, b"")

    def _collect(self, most: int) -> dict[int, _StoredTurn]:
        """Return the oldest turn, and those of the same conversation for which there is room."""
        self._state.tidy(self._clock(), of="inbox")
        waiting = self._load_all(self._waiting()[:MAX_LOOK_AHEAD])
        batch: dict[int, _StoredTurn] = {}
        for number, stored in waiting.items():
            if batch and stored.turn.conversation != next(iter(batch.values())).turn.conversation:
                continue
            most -= _size(stored.turn.messages)
            if batch and most < 0:
                break
            batch[number] = stored
        return batch

    def _numbers(self) -> list[int]:
        names = (re.fullmatch(r"inbox-([0-9]{12,})\.json", name) for name in self._state.names())
        return sorted(int(match[1]) for match in names if match)

    def _waiting(self) -> list[int]:
        cursor = self._load_cursor()
        return [number for number in self._numbers() if not cursor.is_done or number not in cursor.open]

    def _load_all(self, numbers: Iterable[int]) -> dict[int, _StoredTurn]:
        return {number: stored for number in numbers if (stored := self._load(number))}

    def _load(self, number: int) -> _StoredTurn | None:
        """Return the turn of this number; None when it is not there, or is not a turn."""
        match self._state.load(_name(number)):
            case {"conversation": str(name), "at": str(at), "messages": [*rows], "keys": [*keys], **more}:
                messages = tuple(Message(*row) for row in rows)
                count = more.get("number")  # earlier versions wrote none
                turn_number = count if isinstance(count, int) else 0
                return _StoredTurn(Turn(name, messages, at, more.get("saved") is True, turn_number), tuple(keys))
        return None

    def _write(self, number: int, turn: Turn, keys: Sequence[str]) -> None:
        self._state.save(_name(number), {**turn._asdict(), "keys": keys})

    def _load_cursor(self) -> _Cursor:
        """Return the cursor as it was saved; a new one when it cannot be understood."""
        match self._state.load(_CURSOR_FILE):
            case {
                "open": [*numbers],
                "tries": int(tries),
                "learned": int(learned),
                "conversations": [*names],
                **more,
            }:
                return _Cursor(tuple(numbers), more.get("is_done") is True, tries, learned, tuple(names))
        return _Cursor()

    def _save(self, cursor: _Cursor) -> None:
        self._state.save(_CURSOR_FILE, cursor._asdict())


class _KnownMessages:
    """The file of digests. A line is that of a message, or `@` and those of a conversation and of its latest turn.

    Lines are added without a flush: what a power cut takes can be restored from the turns that wait.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._data = state.read(_KNOWN_FILE) or b""

    def find_new(self, keys: Sequence[str]) -> list[str]:
        """Return those of these digests that were not seen."""
        return [key for key in keys if f"\n{key}\n".encode() not in self._data]

    def is_latest(self, stored: _StoredTurn) -> bool:
        """Return True if a turn is the latest that was noted of its conversation, or none was."""
        name = _digest("conversation", stored.turn.conversation)
        at = self._data.rfind(f"\n@{name}".encode())
        return at < 0 or self._data.startswith(f"\n@{name}{_digest('turn', *stored.keys)}\n".encode(), at)

    def add(self, stored: _StoredTurn, new: Sequence[str]) -> None:
        """Note a turn, of which these messages are `new`. Raises StoreFailed."""
        latest = f"@{_digest('conversation', stored.turn.conversation)}{_digest('turn', *stored.keys)}"
        lines = "\n".join(["", *new, latest, ""]).encode()
        self._data += lines
        if len(self._data) <= MAX_KNOWN_LINES * (DIGEST_CHARS + 1):
            self._state.add(_KNOWN_FILE, lines, durably=False)
            return
        digests = [line for line in self._data.split(b"\n") if len(line) == DIGEST_CHARS]
        self._data = b"\n".join([b"", *digests[-MAX_KNOWN_LINES // 2 :], b""])
        self._state.write(_KNOWN_FILE, self._data)


def prepare(turns: Iterable[Turn], now: float = 0.0) -> list[Turn]:
    """Return turns as they would be stored: without secrets, wrappers of hosts, and what is off the record."""
    return [stored.turn for stored in _prepare_all(turns, now or time.time()) if stored.turn.messages]


def _prepare_all(turns: Iterable[Turn], now: float) -> Iterator[_StoredTurn]:
    """Yield turns as they may be stored, given from the beginning of their conversations."""
    counts: dict[str, int] = {}
    reach: dict[str, str] = {}
    for turn in turns:
        is_silent, reach[turn.conversation] = turn.follow_privacy(reach.get(turn.conversation, ""))
        yield _prepare(turn, counts, now, is_silent=is_silent)


def _prepare(turn: Turn, counts: dict[str, int], now: float, *, is_silent: bool) -> _StoredTurn:
    """Return a turn as it may be stored, with its digests. `counts` is how often each text came before."""
    conversation = _label(turn.conversation)
    messages, keys = [], []
    for role, whole, name in turn.messages:
        whole = unwrapped(whole) if role in ROLES else ""
        if not whole:
            continue
        text = _clean(whole, MAX_MESSAGE_BYTES[role])
        if name:
            owner = "" if len(name) >= MIN_UNIQUE_ID_CHARS else conversation
            key = _digest("id", owner, name, role, text, str(len(whole)))
        else:
            same = _digest("text", conversation, role, text, str(len(whole)))
            counts[same] = counts.get(same, 0) + 1
            key = _digest(same, str(counts[same]))
        messages.append(Message(role, text, _label(name)))
        keys.append(key)
    at = turn.at or time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(now))
    stored = () if is_silent else tuple(messages)
    return _StoredTurn(Turn(conversation, stored, _label(at), turn.saved, turn.number), tuple(keys))


def _digest(*parts: str) -> str:
    """Return a one-way hash of several texts, kept apart.

    >>> _digest("users", "es") == _digest("user", "ses")
    False
    """
    hashed = blake2b(digest_size=DIGEST_CHARS // 2)
    for part in parts:
        data = part.encode("utf-8", "replace")
        hashed.update(b"%d:%s" % (len(data), data))
    return hashed.hexdigest()


def _name(number: int) -> str:
    return f"inbox-{number:012}.json"


def _clean(text: str, limit: int) -> str:
    """Return the text without secrets, at most about `limit` bytes; what is cut says so."""
    head = text[: 2 * limit]
    if len(head) < len(text):
        head = head.rsplit(None, 1)[0]  # half a secret is not recognized
    clean = without_secrets(head)
    cut = cut_bytes(clean, limit)
    if len(cut) == len(clean) and len(head) == len(text):
        return cut
    return f"{cut}\n(cut here: {len(cut.encode()):,} of {len(text.encode()):,} bytes were kept)"


def _label(name: str) -> str:
    """Return a name that a host gave; it may be long, and may hold a secret."""
    return cut_bytes(without_secrets(name[:400]), 200)


def _split(pairs: Iterable[tuple[Message, str]]) -> list[list[tuple[Message, str]]]:
    """Return the messages of a turn in parts that each fit into a batch."""
    parts: list[list[tuple[Message, str]]] = [[]]
    for pair in pairs:
        if parts[-1] and _size(message for message, _ in [*parts[-1], pair]) > BATCH_BYTES:
            parts.append([])
        parts[-1].append(pair)
    return parts


def _size(messages: Iterable[Message]) -> int:
    return sum(len(message.text.encode()) for message in messages)
