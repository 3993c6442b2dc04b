"""Write the rows of the index: one a file, with its catalog line, its words and its traces of near-duplicates."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import date
from functools import lru_cache
from struct import Struct

from memsheaf.guard import without_secrets
from memsheaf.guard.paths import fold
from memsheaf.index import lexical
from memsheaf.index.catalog import Line, line, line_text, section_of
from memsheaf.index.database import (
    ADDED,
    COUNTS,
    HIDDEN,
    INDEXES,
    LISTED,
    UNUSABLE,
    WAITING,
    IndexNotes,
    notes,
    set_facts,
    statements,
    writing,
)  # fmt: skip
from memsheaf.memory import KINDS, Memory
from memsheaf.store import Stamp
from memsheaf.text import similarity
from memsheaf.text.topics import lists_topics, shown_description

TICK = 0.05  # seconds; no clock of a file system that tells more than seconds ticks slower
LONGEST_ID = 200  # characters of a source and a conversation
BEGINNING = 4_096  # characters of a text in which its description is looked for

_COLUMNS = (
    "path", "fold", "mtime", "ctime", "size", "inode", "version", "pending", "state", "kind", "name",
    "description", "updated", "trust", "pinned", "problem", "listed", "day", "time", "line", "traces",
    "supersedes", "source", "conversation",
)  # fmt: skip
_PUT = (
    f"INSERT OR REPLACE INTO entry (id, {', '.join(_COLUMNS)}) "
    f"VALUES ((SELECT a + 1 FROM note WHERE name = 'last'), {', '.join('?' * len(_COLUMNS))})"
)

_TRACES = "INSERT OR IGNORE INTO trace VALUES (?1 >> 31, ?1 & 0x7FFFFFFF)"  # SQLite has 63 bits
_USED = "SELECT day FROM used WHERE path = ?"
_COMMON = (
    f"SELECT entry, count(*) FROM trace WHERE number IN ({', '.join('?' * 16)}) "
    f"GROUP BY entry HAVING count(*) >= {similarity.SHARED}"
)
_NUMBERS = Struct("<16I")
TRACED_AT_ONCE = 64
MOST_ALIKE = 1_000
AT_ONCE = 1_000  # rows of a new index
_USUAL, _LARGE = 1 << 20, 1 << 26  # bytes of words that the full text holds before it writes them


def put(
    db: sqlite3.Connection,
    memory: Memory,
    stamp: Stamp,
    *,
    pending: bool,
    usable: bool = True,
    by_text: bool = False,
) -> Line | None:
    """Write the row of a file under a new id, and give its catalog line, None when it has no place there.

    `pending` rows are what others did and the journal does not know yet. As ids only grow, those above the last one
    whose words the full text has are new to it. The rank is `by_text` alone where the same files must give the same
    catalog on every machine, and at any time.
    """
    used = (db.execute(_USED, (memory.path,)).fetchone() or (0,))[0]
    traces = _NUMBERS.pack(*found) if usable and (found := _traces(memory)) else b""
    values, entry = _values(memory, stamp, pending=pending, usable=usable, by_text=by_text, used=used, traces=traces)
    db.execute(_PUT, values)
    return entry


def _traces(memory: Memory) -> list[int]:
    return similarity.traces(similarity.fact(memory)) if memory.state in ("ok", "free") else []


def _values(
    memory: Memory, stamp: Stamp, *, pending: bool, usable: bool, by_text: bool, used: int, traces: bytes = b""
) -> tuple[tuple[object, ...], Line | None]:
    """The row of a file, and its catalog line, None when it has no place there."""
    path, kind, trust, pinned, problem = memory.path, memory.kind, memory.trust, memory.pinned, memory.problem
    listed = WAITING if trust == "unconfirmed" else LISTED
    if not usable or (listed == LISTED and (memory.state == "copy" or path in _APART)):
        listed = HIDDEN
    name, description = memory.name, _description(memory)
    text = line_text(name, path, memory.summary.removesuffix(memory.description) + description)
    day, updated = _day(memory, stamp)
    day, time = (_claimed(memory) or 0, 0) if by_text else (max(day, used), stamp[0])
    version = memory.version if usable else UNUSABLE
    older = "\n".join(memory.supersedes)
    values = (
        path, fold(path), *stamp, version, pending, memory.state, kind, name, description, updated, trust, pinned,
        problem, listed, day, time, text, traces, f"\n{older}\n" if older else "", memory.source[:LONGEST_ID],
        memory.conversation[:LONGEST_ID],
    )  # fmt: skip
    return values, line(kind, pinned, day, time, path, text) if listed == LISTED else None


class Filling:
    """The rows of an empty index, put in many at a time: a row at a time takes more than twice as long."""

    def __init__(self, db: sqlite3.Connection, *, by_text: bool) -> None:
        self._db = db
        self._by_text = by_text
        self._row = notes(db).fact("last")
        self._rows: list[tuple[object, ...]] = []
        self._words: list[tuple[object, ...]] = []
        self._traces: list[int] = []  # each with its row below it: numbers are sorted faster than pairs
        self._used: dict[str, int] = dict(db.execute("SELECT path, day FROM used"))
        db.execute("DROP TRIGGER entry_added")
        for statement in statements(INDEXES):
            db.execute(f"DROP INDEX {statement.split()[2]}")
        db.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (_LARGE,))

    def put(self, memory: Memory, stamp: Stamp, *, pending: bool, usable: bool) -> None:
        """As `put` of a file, words included."""
        self._row += 1
        used = self._used.get(memory.path, 0)
        values, _ = _values(memory, stamp, pending=pending, usable=usable, by_text=self._by_text, used=used)
        self._rows.append((self._row, *values))
        if usable:
            self._traces += [number << 31 | self._row for number in _traces(memory)]
            self._words.append(lexical.words_of(self._row, memory))
        if len(self._rows) >= AT_ONCE:
            self._flush()

    def close(self) -> None:
        """Put in what is left, and make the index whole again."""
        self._flush()
        self._db.executemany(_TRACES, zip(sorted(self._traces)))
        self._db.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (_USUAL,))
        for statement in statements(INDEXES + ADDED):
            self._db.execute(statement)
        counts = "UPDATE note SET a = (SELECT count(*) FROM entry WHERE listed = ?) WHERE name = ?"
        self._db.executemany(counts, list(enumerate(COUNTS)))
        set_facts(self._db, last=self._row, traced=self._row, worded=self._row)

    def _flush(self) -> None:
        marks = ", ".join("?" * (len(_COLUMNS) + 1))
        put = f"INSERT OR REPLACE INTO entry (id, {', '.join(_COLUMNS)}) VALUES ({marks})"
        self._db.executemany(put, self._rows)  # two names that cannot be used may be shown alike
        self._db.executemany(lexical.PUT, self._words)
        self._rows, self._words = [], []


class Traces:
    """Finds near-duplicates by their traces: in the table, and among the newest rows, which are not in it yet."""

    def __init__(self) -> None:
        self._recent: dict[int, list[int]] = {}
        self._seen = 0

    def find(self, db: sqlite3.Connection, words: Collection[str], limit: int) -> list[tuple[str, str]]:
        """The paths and versions of the texts that may be near-duplicates of one with these words, likely first."""
        self._read_recent(db)
        numbers = similarity.traces(words)
        common: dict[int, int] = {}
        for number in numbers:
            for row in self._recent.get(number, ()):
                common[row] = common.get(row, 0) + 1
        common.update(db.execute(_COMMON, numbers))
        rows = [row for row in common if common[row] >= similarity.SHARED][-MOST_ALIKE:]
        if not rows:
            return []
        sql = f"SELECT id, path, version FROM entry WHERE version <> '' AND id IN ({', '.join('?' * len(rows))})"
        found = sorted(db.execute(sql, rows), key=lambda one: (-common[one[0]], one[1]))
        return [(path, version) for _, path, version in found[:limit]]

    def _read_recent(self, db: sqlite3.Connection) -> None:
        if len(self._recent) > 16 * 4 * TRACED_AT_ONCE:
            self._recent, self._seen = {}, 0
        sql = "SELECT id, traces FROM entry WHERE id > max(?, ifnull((SELECT a FROM note WHERE name = 'traced'), 0))"
        for row, data in db.execute(sql, (self._seen,)):
            self._seen = row
            for number in _NUMBERS.unpack(data) if data else ():
                self._recent.setdefault(number, []).append(row)


def put_traces(db: sqlite3.Connection, known: IndexNotes) -> None:
    """Put the traces of the newest rows into their table, once there are many: each goes to a page of its own."""
    if known.fact("last") - known.fact("traced") < TRACED_AT_ONCE:
        return
    rows = db.execute("SELECT id, traces FROM entry WHERE id > ?", (known.fact("traced"),))
    numbers = [number << 31 | row for row, data in rows if data for number in _NUMBERS.unpack(data)]
    db.executemany(_TRACES, zip(sorted(numbers)))
    set_facts(db, traced=known.fact("last"))


def tidy(db: sqlite3.Connection, known: IndexNotes) -> None:
    """Drop the traces of rows that are gone, once there are many."""
    last = known.fact("last")
    if last - known.fact("tidied") > max(1_000, 2 * known.rows):
        db.execute("DELETE FROM trace WHERE entry NOT IN (SELECT id FROM entry)")
        set_facts(db, tidied=last)


def wipe_rows(db: sqlite3.Connection, paths: Iterable[str]) -> None:
    """Remove the rows of some paths, and all that came with them."""
    with writing(db):
        for path in paths:
            if db.execute("SELECT 1 FROM entry WHERE path = ?", (path,)).fetchone():
                db.execute("DELETE FROM trace WHERE entry IN (SELECT id FROM entry WHERE path = ?)", (path,))
            db.execute("DELETE FROM entry WHERE path = ?", (path,))
            db.execute("DELETE FROM used WHERE path = ?", (path,))
            db.execute("DELETE FROM drift WHERE path = ?", (path,))
        db.execute("INSERT INTO words (words) VALUES ('optimize')")  # or words stay in the index of the full text


def keep_vectors(db: sqlite3.Connection, entry: int) -> None:
    """Give the vectors of a row whose file was only touched to the row that `put` is about to write in its place."""
    db.execute("UPDATE vector SET entry = (SELECT a + 1 FROM note WHERE name = 'last') WHERE entry = ?", (entry,))


def mark_gone(db: sqlite3.Connection, path: str) -> bool:
    """Keep the row of a removed file until the journal knows of it; False when it has none."""
    sql = f"UPDATE entry SET version = '', listed = {HIDDEN}, pending = 1 WHERE path = ? AND version <> ''"
    return db.execute(sql, (path,)).rowcount > 0


def put_uses(db: sqlite3.Connection, days: Mapping[str, str], today: int, *, by_text: bool = False) -> None:
    """Note when memories were last of use, never past today, and move them up to that day unless ranked `by_text`."""
    rows = []
    for path, day in days.items():
        with suppress(ValueError):
            rows.append((path, min(_days_since_epoch(day), today)))
    put = "INSERT INTO used VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET day = max(day, excluded.day)"
    db.executemany(put, rows)
    if not by_text:
        db.executemany("UPDATE entry SET day = max(day, ?2) WHERE path = ?1", rows)


_APART = ("CONTEXT.md", "NOTES.md", "NOTES-archive.md")  # in every prompt in full, or archived out of it


def _description(memory: Memory) -> str:
    """Return the description for the catalog; one that is taken from the text is shown without its secrets."""
    if memory.problem or (memory.page.get("description") and not lists_topics(memory)):
        return memory.description
    masked = memory.page._replace(body=without_secrets(memory.body[:BEGINNING]))
    return shown_description(memory._replace(page=masked))


def _day(memory: Memory, stamp: Stamp) -> tuple[int, str]:
    """The day a memory was last changed: as its header says, but never after the file itself was."""
    written = int(stamp[0] // 86_400_000_000_000)
    claimed = _claimed(memory)
    if claimed is not None:
        return min(claimed, written + 1), (memory.updated or memory.created)[:10]
    return written, time.strftime("%Y-%m-%d", time.gmtime(written * 86_400))


def _claimed(memory: Memory) -> int | None:
    """The day that the header tells, None when it tells none."""
    try:
        return _days_since_epoch((memory.updated or memory.created)[:10])
    except (ValueError, OverflowError):
        return None


@lru_cache(maxsize=256)
def _days_since_epoch(day: str) -> int:
    return date.fromisoformat(day).toordinal() - 719_163


def is_racy(stamp: Stamp, now: float) -> bool:
    """Whether a further edit could leave the same stamp: clocks of file systems tick in 4 ms, or in 2 s.

    A time that somebody set, far ahead of now as well, is not told by a clock that ticks.
    """
    return any(abs(now - told / 1e9) < (2.0 if told % 1_000_000 == 0 else TICK) for told in stamp[:2])


def was_written_after(stamp: Stamp, moment: float) -> bool:
    """Return True if a file may have been written after that moment; a clock of whole seconds tells nothing."""
    return stamp[0] >= (moment - TICK) * 1e9 or stamp[0] % 1_000_000 == 0


def as_unsure(stamp: Stamp) -> Stamp:
    """Return a stamp that no file has, so that the next look reads the file again."""
    return stamp[0], -1, *stamp[2:]


def set_stamp(db: sqlite3.Connection, row: int, stamp: Stamp) -> None:
    """Note the stamp of a file that holds what its row says."""
    db.execute("UPDATE entry SET mtime = ?, ctime = ?, size = ?, inode = ? WHERE id = ?", (*stamp, row))


def unworded(db: sqlite3.Connection) -> list[tuple[int, str]]:
    """The rows whose words the full text does not know yet."""
    sql = "SELECT id, path FROM entry WHERE id > ? AND version <> '' ORDER BY id"
    return db.execute(sql, (notes(db).fact("worded"),)).fetchall()


def where_kind(kind: str) -> tuple[str, tuple[str, ...]]:
    """The condition for one kind, "other" for all unknown ones, and its values."""
    if not kind:
        return "", ()
    if section_of(kind):
        return " AND kind = ?", (kind,)
    return f" AND kind NOT IN ({', '.join('?' * len(KINDS))})", KINDS
