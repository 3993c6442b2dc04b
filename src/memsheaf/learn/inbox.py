"""The inbox: a durable queue of conversation turns that were not learned from yet.

A turn is queued in one transaction with digests of its messages, so that a message that a host sends again (after a
compaction, a resume or a crash) is not queued again. A batch is marked when it is handed out, and its turns are
deleted when it is done: after a crash the same batch is handed out again.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from memsheaf.guard.secrets import without_secrets
from memsheaf.recall.turns import ROLES, Message, Turn
from memsheaf.state import State
from memsheaf.state.old_files import encodable
from memsheaf.text.neutralize import cut_bytes
from memsheaf.text.spoken import unwrapped

MAX_MESSAGE_BYTES = {"user": 16_384, "assistant": 16_384, "tool": 4_096}
BATCH_BYTES = 24_000
MAX_BATCH_TURNS = 64
MIN_UNIQUE_ID_CHARS = 16  # a shorter message id may be a number that other conversations use, too
MAX_KNOWN_MESSAGES = 1_000_000  # whose digests are kept
DIGEST_CHARS = 16

_OF_OLDEST_CONVERSATION = (
    "conversation = (SELECT oldest.conversation FROM turn AS oldest WHERE oldest.folder = turn.folder"
    " ORDER BY oldest.number LIMIT 1)"
)


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


class Inbox:
    """The turns of one root that wait. Several processes may append while one learns."""

    def __init__(self, state: State, *, clock: Callable[[], float] = time.time) -> None:
        self._state = state
        self._clock = clock

    def append(self, turn: Turn, *, log: Callable[[Turn], None] | None = None) -> bool:
        """Queue a turn that just ended, durably; return False if nothing in it is new. Raises StoreFailed, Busy.

        A turn in which the user asks to do without memory is not stored, nor what follows it as far as that wish
        reaches. A message without an id is recognized by conversation, role and text; but the user may say the same
        again in a later turn. What is new of the turn is passed to `log`, too; where that fails, nothing is queued.
        """
        with self._state.writing() as db:
            stored = _prepare(turn, {}, self._clock(), is_silent=self._follow_privacy(db, turn))
            new: Sequence[str] = self._find_new(stored.keys)
            ids = [message.id for message in turn.messages if message.role == "user"]
            if ids and not ids[-1] and not self._is_latest(stored):
                new = stored.keys  # said again
            return self._add(db, stored, new, log)

    def extend(self, turns: Iterable[Turn]) -> int:
        """Queue what is new in a conversation that is given from its beginning; return how many turns are.

        Messages without an id are numbered by how often their text occurred before. Raises StoreFailed, Busy.
        """
        added = 0
        for stored in _prepare_all(turns, self._clock()):
            if not self._find_new(stored.keys):
                continue
            with self._state.writing() as db:
                added += self._add(db, stored, self._find_new(stored.keys))
        return added

    def next_batch(self, most: int = BATCH_BYTES) -> Batch:
        """Return the next turns of one conversation; the same until they are done. Raises StoreFailed, Busy."""
        if not self.count_waiting():
            return Batch()
        with self._state.writing() as db:
            batch = self._load("tries > 0") or self._collect(most)
            numbers = [(number,) for number in batch]
            db.executemany("UPDATE turn SET tries = tries + 1 WHERE number = ?", numbers)
            tries = self._query("SELECT max(tries) FROM turn WHERE folder = ?")[0][0]
        if not batch:
            return Batch()
        turns = tuple(stored.turn for stored in batch.values())
        keys = [key for stored in batch.values() for key in stored.keys]
        return Batch(_digest("batch", *keys), turns[0].conversation, turns, tries, tuple(batch))

    def holds(self, batch: Batch) -> bool:
        """Return True if a batch is unchanged since it was handed out: nothing was erased from it."""
        return batch.turns == tuple(stored.turn for stored in self._load_batch(batch).values())

    def finish(self, batch: Batch) -> None:
        """Advance behind a batch, for good, and delete what was said in it. Raises StoreFailed, Busy."""
        with self._state.writing() as db:
            if not self._load_batch(batch):
                return
            name = _digest("conversation", batch.conversation)
            _hear(db, self._state, name, learned=1)
            db.executemany("DELETE FROM turn WHERE number = ?", [(number,) for number in batch.numbers])
            newest = "SELECT max(id) FROM known_message"
            db.execute(f"DELETE FROM known_message WHERE id <= ({newest}) - ?", (MAX_KNOWN_MESSAGES,))
        self._state.empty_log()

    def turns(self) -> list[Turn]:
        """Return all that waits, in order. Nothing is handed out or changed."""
        return [stored.turn for stored in self._load().values()]

    def count_waiting(self) -> int:
        """Return how many turns wait."""
        return sum(count for (count,) in self._query("SELECT count(*) FROM turn WHERE folder = ?"))

    def count_learned(self) -> int:
        """Return how many conversations were learned from."""
        return sum(count for (count,) in self._query("SELECT count(*) FROM heard WHERE folder = ? AND learned"))

    def purge(self, keep: Callable[[str], bool]) -> None:
        """Drop the waiting messages whose text is not to be kept; they are not queued again.

        Raises StoreFailed, Busy.
        """
        with self._state.writing() as db:
            for number, stored in self._load().items():
                messages = tuple(message for message in stored.turn.messages if keep(message.text))
                if not messages:
                    db.execute("DELETE FROM turn WHERE number = ?", (number,))
                elif messages != stored.turn.messages:
                    db.execute("UPDATE turn SET messages = ? WHERE number = ?", (json.dumps(messages), number))
        self._state.empty_log()

    def clear(self) -> int:
        """Drop all that waits, unread; return how many turns. Raises StoreFailed, Busy."""
        count = self.count_waiting()
        self.purge(lambda text: False)
        return count

    def _follow_privacy(self, db: sqlite3.Connection, turn: Turn) -> bool:
        """Return True if a turn may not be stored, and note how far the user's wish for that reaches.

        A conversation has a digest of its last message, and how far the wish reached before and after it: a host that
        sends the message again, now with its answer, means the same turn.
        """
        name = _digest("conversation", _label(turn.conversation))
        texts = [message.text for message in turn.messages if message.role == "user"]
        first = _digest("first", texts[0]) if texts else ""
        sql = "SELECT first, before, after FROM heard WHERE folder = ? AND conversation = ?"
        wishes = self._query(sql, name) or [("", "", "")]
        latest, before, after = wishes[0]
        if first != latest:
            before = after
        is_silent, reach = turn.follow_privacy(before)
        if before or reach not in ("", "turn"):
            _hear(db, self._state, name, first=first, before=before, after=reach)
        elif wishes[0] != ("", "", ""):
            _hear(db, self._state, name, first="", before="", after="")
        return is_silent

    def _add(
        self,
        db: sqlite3.Connection,
        stored: _StoredTurn,
        new: Sequence[str],
        log: Callable[[Turn], None] | None = None,
    ) -> bool:
        """Write what is new of a turn, and `log` it; return True if anything is."""
        if not new:
            return False
        turn, folder = stored.turn, self._state.name
        pairs = [pair for pair in zip(turn.messages, stored.keys, strict=False) if pair[1] in new]
        for part in _split(pairs) if pairs else ():
            messages, keys = zip(*part, strict=True)
            db.execute(
                "INSERT INTO turn (folder, conversation, at, saved, part_of, messages, keys)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (folder, turn.conversation, turn.at, turn.saved, turn.number, *map(json.dumps, (messages, keys))),
            )
        rows = [(folder, key) for key in new]
        db.executemany("INSERT OR IGNORE INTO known_message (folder, digest) VALUES (?, ?)", rows)
        _hear(db, self._state, _digest("conversation", turn.conversation), latest=_digest("turn", *stored.keys))
        if pairs and log:
            log(turn._replace(messages=tuple(message for message, _ in pairs)))
        return bool(pairs)

    def _find_new(self, keys: Sequence[str]) -> list[str]:
        """Return those of the digests of messages that were not seen."""
        sql = "SELECT digest FROM known_message WHERE folder = ? AND digest IN (SELECT value FROM json_each(?))"
        known = {digest for (digest,) in self._query(sql, json.dumps(keys))}
        return [key for key in keys if key not in known]

    def _is_latest(self, stored: _StoredTurn) -> bool:
        """Return True if a turn is the latest that was noted of its conversation, or none was."""
        sql = "SELECT latest FROM heard WHERE folder = ? AND conversation = ? AND latest <> ''"
        latest = self._query(sql, _digest("conversation", stored.turn.conversation))
        return latest in ([], [(_digest("turn", *stored.keys),)])

    def _collect(self, most: int) -> dict[int, _StoredTurn]:
        """Return the next turns of the conversation that waits longest, as many as there is room for."""
        batch: dict[int, _StoredTurn] = {}
        for number, stored in self._load(_OF_OLDEST_CONVERSATION, limit=MAX_BATCH_TURNS).items():
            most -= _size(stored.turn.messages)
            if batch and most < 0:
                break
            batch[number] = stored
        return batch

    def _load_batch(self, batch: Batch) -> dict[int, _StoredTurn]:
        return {number: stored for number, stored in self._load().items() if number in batch.numbers}

    def _load(self, which: str = "true", limit: int = -1) -> dict[int, _StoredTurn]:
        """Return the turns that wait, by number, the oldest first."""
        columns = "number, conversation, at, saved, part_of, messages, keys"
        turns = {}
        sql = f"SELECT {columns} FROM turn WHERE folder = ? AND {which} ORDER BY number LIMIT ?"
        for number, *row in self._query(sql, limit):
            name, at, saved, part_of, messages, keys = row
            messages = tuple(Message(*message) for message in json.loads(messages))
            turns[number] = _StoredTurn(Turn(name, messages, at, bool(saved), part_of), tuple(json.loads(keys)))
        return turns

    def _query(self, sql: str, *values: object) -> list[Any]:
        return self._state.query(sql, self._state.name, *values)


def _hear(db: sqlite3.Connection, state: State, conversation: str, **values: object) -> None:
    """Note something about a conversation, by the digest of its name."""
    db.execute("INSERT OR IGNORE INTO heard (folder, conversation) VALUES (?, ?)", (state.name, conversation))
    changes = ", ".join(f"{name} = ?" for name in values)
    db.execute(
        f"UPDATE heard SET {changes} WHERE folder = ? AND conversation = ?",
        (*values.values(), state.name, conversation),
    )


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
        text = cut_message(whole, MAX_MESSAGE_BYTES[role])
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


def cut_message(text: str, limit: int) -> str:
    """Return the text without secrets, at most about `limit` bytes; what is cut says so."""
    head = text[: 2 * limit]
    if len(head) < len(text):
        head = head.rsplit(None, 1)[0]  # half a secret is not recognized
    clean = without_secrets(head)
    cut = cut_bytes(clean, limit)
    if cut == clean and head == text:
        return cut
    return f"{cut}\n(cut here: {len(cut.encode()):,} of {len(text.encode()):,} bytes were kept)"


def _label(name: str) -> str:
    """Return a name that a host gave; it may be long, and may hold a secret."""
    return cut_bytes(without_secrets(encodable(name[:400])), 200)


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
