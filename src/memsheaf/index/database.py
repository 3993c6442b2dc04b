"""The index's database: one row a file, in SQLite, thrown away and made anew whenever it is doubted."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import date
from functools import lru_cache

from memsheaf.errors import Busy
from memsheaf.guard.paths import CATALOG, fold
from memsheaf.index import lexical
from memsheaf.index.catalog import Line, line_text, section_of
from memsheaf.memory import Memory, first_line
from memsheaf.store import Stamp, Version
from memsheaf.store.safe_dir import Folder, kernel_lock
from memsheaf.text import similarity
from memsheaf.values import NamedTuple

SCHEMA = 9
BEGINNING = 4_096  # characters of a text in which its first line is looked for
PATIENCE = 5.0  # seconds to wait for another process; then one does without it

_TALLY, _MARK = "tally:", "mark:"

_INDEXES = """
CREATE INDEX by_fold ON entry (fold);
CREATE INDEX by_name ON entry (name);
CREATE INDEX by_rank ON entry (listed, pinned DESC, day DESC, time DESC, path);
CREATE INDEX is_pending ON entry (id) WHERE pending = 1;
"""
_ADDED = f"""
CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
  UPDATE note SET a = new.id WHERE name = 'last';
  UPDATE note SET a = a + 1 WHERE name = '{_TALLY}' || new.listed; END;
"""
_TABLES = f"""
CREATE TABLE entry (
  id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, fold TEXT NOT NULL,
  mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, size INTEGER NOT NULL, inode INTEGER NOT NULL,
  version TEXT NOT NULL, pending INTEGER NOT NULL, state TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
  description TEXT NOT NULL, updated TEXT NOT NULL, trust TEXT NOT NULL, pinned INTEGER NOT NULL,
  problem TEXT NOT NULL, listed INTEGER NOT NULL, day INTEGER NOT NULL, time INTEGER NOT NULL, line TEXT NOT NULL);
{_INDEXES}
CREATE TABLE origin (root BLOB);
CREATE TABLE note (name TEXT PRIMARY KEY, a INTEGER, b INTEGER, c INTEGER, d INTEGER) WITHOUT ROWID;
INSERT INTO note (name, a) VALUES ('{_TALLY}0', 0), ('{_TALLY}1', 0), ('{_TALLY}2', 0), ('last', 0);
CREATE TABLE trace (number INTEGER, entry INTEGER, PRIMARY KEY (number, entry)) WITHOUT ROWID;
CREATE TABLE used (path TEXT PRIMARY KEY, day INTEGER NOT NULL) WITHOUT ROWID;
{lexical.TABLES}
CREATE TABLE vector (
  id INTEGER PRIMARY KEY AUTOINCREMENT, embedder INTEGER NOT NULL, entry INTEGER, key BLOB NOT NULL,
  scale REAL NOT NULL, data BLOB NOT NULL);
CREATE INDEX vector_by_entry ON vector (entry, embedder);
{_ADDED}
CREATE TRIGGER entry_moved AFTER UPDATE OF listed ON entry WHEN old.listed <> new.listed BEGIN
  UPDATE note SET a = a + 1 WHERE name = '{_TALLY}' || new.listed;
  UPDATE note SET a = a - 1 WHERE name = '{_TALLY}' || old.listed; END;
CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
  UPDATE note SET a = a - 1 WHERE name = '{_TALLY}' || old.listed;
  DELETE FROM words WHERE rowid = old.id;
  UPDATE vector SET entry = NULL WHERE entry = old.id; END;
PRAGMA user_version = {SCHEMA};
"""

HIDDEN, LISTED, WAITING = 0, 1, 2
"""Classes of `listed`: not for the catalog, in the catalog, unconfirmed."""

UNUSABLE = "-"
"""The version of what is there and cannot be used: a link, a folder, a name that is not allowed."""

ROW = "path, kind, name, description, updated, state, trust, pinned, size, version, problem"
RANK = "pinned DESC, day DESC, time DESC, path"

_COLUMNS = (
    "path", "fold", "mtime", "ctime", "size", "inode", "version", "pending", "state", "kind", "name",
    "description", "updated", "trust", "pinned", "problem", "listed", "day", "time", "line",
)  # fmt: skip
_PUT = (
    f"INSERT OR REPLACE INTO entry (id, {', '.join(_COLUMNS)}) "
    f"VALUES ((SELECT a + 1 FROM note WHERE name = 'last'), {', '.join('?' * len(_COLUMNS))})"
)

_TRACE = "INSERT OR IGNORE INTO trace VALUES (?, ?)"
_TRACES = "INSERT OR IGNORE INTO trace VALUES (?1 >> 31, ?1 & 0x7FFFFFFF)"  # SQLite has 63 bits
_USED = "SELECT day FROM used WHERE path = ?"
AT_ONCE = 1_000  # rows of a new index
_USUAL, _LARGE = 1 << 20, 1 << 26  # bytes of words that the full text holds before it writes them
_COUNTS = (f"{_TALLY}0", f"{_TALLY}1", f"{_TALLY}2")


class IndexNotes:
    """What the index remembers beside its rows, as it was when this was made."""

    def __init__(self, rows: Iterable[tuple[str, int, int, int, int]]) -> None:
        self._rows = {row[0]: row[1:] for row in rows}

    @property
    def marks(self) -> dict[str, Stamp]:
        """The stamps of the folders and of the catalog."""
        return {name[len(_MARK) :]: stamp for name, stamp in self._rows.items() if name.startswith(_MARK)}

    @property
    def tally(self) -> list[int]:
        """How many rows are hidden, listed and waiting. Raises sqlite3.DatabaseError when nobody counted."""
        try:
            return [self._rows[name][0] for name in _COUNTS]
        except KeyError as error:
            raise sqlite3.DatabaseError(f"the note {error} is lost") from None

    @property
    def rows(self) -> int:
        """How many files there are."""
        return sum(self.tally)

    def fact(self, name: str) -> int:
        """A number by name, 0 when it is not known: when the last sweep was, what it took, which ids were seen to."""
        return self._rows[name][0] if name in self._rows else 0


class Row(NamedTuple):
    """One file as the index knows it. `state` is as in `Memory`; `problem` says why it cannot be used."""

    path: str
    kind: str
    name: str
    description: str
    updated: str
    state: str
    trust: str
    pinned: bool
    size: int
    version: Version
    problem: str


def connect(database: str) -> sqlite3.Connection:
    """Open the database, and make its tables if it is new or of another version.

    Raises:
        sqlite3.DatabaseError: it is damaged; delete it and try again.
        Busy: another process opens or deletes it, and takes long.
        OSError: there is no place for it.
    """
    with locked(base_of(database), "opening"):
        return _connect(database)


def connect_alone() -> sqlite3.Connection:
    """A database of this process alone, in its memory."""
    return _connect(":memory:")


def delete(database: str) -> None:
    """Remove the database, so that whoever has it open keeps all of it, and whoever opens it finds none of it.

    SQLite would take a log that is still there for that of a new database, and mix the two.
    """
    with locked(base_of(database), "opening"):
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(database + suffix)


def base_of(database: str) -> str:
    """What the names of all files beside a database begin with."""
    return database.removesuffix(".sqlite")


@contextmanager
def locked(base: str, what: str, *, wait: float = PATIENCE) -> Iterator[None]:
    """Be the only process that does this. Raises Busy."""
    folder, name = os.path.split(base)
    with Folder.open(folder) as opened, kernel_lock(opened, f"{name}.{what}.lock", wait=wait):
        yield


def _connect(database: str) -> sqlite3.Connection:
    db = sqlite3.connect(database, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute(
            "PRAGMA cache_size = -8000"
        )  # KiB: the leaves that a save touches at 100,000 memories stay at hand
        db.execute("PRAGMA wal_autocheckpoint = 4000")  # a small page is rewritten often before it is copied once
        db.execute("PRAGMA recursive_triggers = ON")  # a replaced row leaves the full text and the tally, too
        if _schema(db) != SCHEMA:
            _build(db)
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


def is_free(database: str) -> bool:
    """Whether nobody writes to the database just now."""
    try:
        with (
            locked(base_of(database), "opening", wait=0),
            closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as db,
        ):
            db.execute("BEGIN IMMEDIATE")
            db.execute("ROLLBACK")
    except (sqlite3.DatabaseError, OSError, Busy):
        return False
    return True


def is_kept(db: sqlite3.Connection) -> bool:
    """Whether the database is a file, and not one of this process alone."""
    return bool(db.execute("PRAGMA database_list").fetchone()[2])


def set_origin(db: sqlite3.Connection, root: str) -> None:
    """Note whose files these are: when they are gone, the database can go, too."""
    if not db.execute("SELECT 1 FROM origin").fetchone():
        db.execute("INSERT INTO origin VALUES (?)", (os.fsencode(os.path.realpath(root)),))


@contextmanager
def writing(db: sqlite3.Connection) -> Iterator[None]:
    """Change the database in one piece, or not at all."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def put(
    db: sqlite3.Connection,
    memory: Memory,
    stamp: Stamp,
    *,
    pending: bool,
    usable: bool = True,
    worded: bool = False,
    by_text: bool = False,
) -> Line | None:
    """Write the row of a file under a new id, and give its catalog line, None when it has no place there.

    `pending` rows are what others did and the journal does not know yet. As ids only grow, those above the
    last one that was seen to are what is new: to the check for edits in the same instant, and to the full text
    unless `worded` takes in the words at once. The rank is `by_text` alone where the same files must give the same
    catalog on every machine, and at any time.
    """
    used = (db.execute(_USED, (memory.path,)).fetchone() or (0,))[0]
    values, entry = _values(memory, stamp, pending=pending, usable=usable, by_text=by_text, used=used)
    row = db.execute(_PUT, values).lastrowid or 0
    if usable:
        db.executemany(_TRACE, _traces(memory, row))
    if worded and usable:
        lexical.put_words(db, row, memory)
    return entry


def _traces(memory: Memory, row: int) -> list[tuple[int, int]]:
    found = similarity.traces(similarity.fact(memory)) if memory.state in ("ok", "free") else ()
    return [(number, row) for number in found]


def _values(
    memory: Memory, stamp: Stamp, *, pending: bool, usable: bool, by_text: bool, used: int
) -> tuple[tuple[object, ...], Line | None]:
    """The row of a file, and its catalog line, None when it has no place there."""
    path, kind, trust, pinned, problem = memory.path, memory.kind, memory.trust, memory.pinned, memory.problem
    listed = _class_of(path, memory.state, trust) if usable else HIDDEN
    name, description = memory.name, _description(memory) if listed == LISTED else memory.description
    text = line_text(name, path, memory.summary.removesuffix(memory.description) + description)
    day, updated = _day(memory, stamp)
    day, time = (_claimed(memory) or 0, 0) if by_text else (max(day, used), stamp[0])
    version = memory.version if usable else UNUSABLE
    values = (
        path, fold(path), *stamp, version, pending, memory.state, kind, name, description, updated, trust, pinned,
        problem, listed, day, time, text,
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
        for name in ("by_fold", "by_name", "by_rank", "is_pending"):
            db.execute(f"DROP INDEX {name}")
        db.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (_LARGE,))

    def put(self, memory: Memory, stamp: Stamp, *, pending: bool, usable: bool) -> None:
        """As `put` of a file, words included."""
        self._row += 1
        used = self._used.get(memory.path, 0)
        values, _ = _values(memory, stamp, pending=pending, usable=usable, by_text=self._by_text, used=used)
        self._rows.append((self._row, *values))
        if usable:
            self._traces += [number << 31 | row for number, row in _traces(memory, self._row)]
            self._words.append(lexical.words_of(self._row, memory))
        if len(self._rows) >= AT_ONCE:
            self._flush()

    def close(self) -> None:
        """Put in what is left, and make the index whole again."""
        self._flush()
        self._db.executemany(_TRACES, zip(sorted(self._traces)))
        self._db.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (_USUAL,))
        for statement in _statements(_INDEXES + _ADDED):
            self._db.execute(statement)
        counts = "UPDATE note SET a = (SELECT count(*) FROM entry WHERE listed = ?) WHERE name = ?"
        self._db.executemany(counts, list(enumerate(_COUNTS)))
        set_facts(self._db, last=self._row)

    def _flush(self) -> None:
        marks = ", ".join("?" * (len(_COLUMNS) + 1))
        put = f"INSERT OR REPLACE INTO entry (id, {', '.join(_COLUMNS)}) VALUES ({marks})"
        self._db.executemany(put, self._rows)  # two names that cannot be used may be shown alike
        self._db.executemany(lexical.PUT, self._words)
        self._rows, self._words = [], []


def line(kind: str, pinned: bool, day: int, time: int, path: str, text: str) -> Line:
    """A catalog line with its rank: pinned first, then the last changed."""
    return (not pinned, -day, -time, path), section_of(kind), text.encode()


def alike(db: sqlite3.Connection, words: Collection[str], limit: int) -> list[tuple[str, str]]:
    """The paths and versions of the texts that may be near-duplicates of one with these words, likely ones first."""
    numbers = similarity.traces(words)
    sql = (
        "SELECT path, version FROM (SELECT entry AS alike, count(*) AS common FROM trace "
        f"WHERE number IN ({', '.join('?' * len(numbers))}) GROUP BY entry HAVING common >= {similarity.SHARED}) "
        "CROSS JOIN entry ON id = alike WHERE version <> '' ORDER BY common DESC, path LIMIT ?"
    )
    return db.execute(sql, (*numbers, limit)).fetchall()


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
        db.execute("INSERT INTO words (words) VALUES ('optimize')")  # or words stay in the index of the full text


def shrink(db: sqlite3.Connection) -> None:
    """Write the database anew without the pages that are free, which may hold what was removed."""
    db.execute("VACUUM")
    if db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        raise sqlite3.OperationalError("somebody reads the log of the database, and it cannot be emptied")


def keep_vectors(db: sqlite3.Connection, entry: int) -> None:
    """Give the vectors of a row whose file was only touched to the row that `put` is about to write in its place."""
    db.execute("UPDATE vector SET entry = (SELECT a + 1 FROM note WHERE name = 'last') WHERE entry = ?", (entry,))


def mark_gone(db: sqlite3.Connection, path: str) -> None:
    """Keep the row of a removed file until the journal knows of it."""
    db.execute(f"UPDATE entry SET version = '', listed = {HIDDEN}, pending = 1 WHERE path = ?", (path,))


def notes(db: sqlite3.Connection) -> IndexNotes:
    """Everything the index remembers beside its rows."""
    return IndexNotes(db.execute("SELECT * FROM note"))


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


def set_marks(db: sqlite3.Connection, stamps: Mapping[str, Stamp | None], **facts: int) -> None:
    """Remember stamps of folders and of the catalog, and numbers by name."""
    rows = [(_MARK + path, *stamp) for path, stamp in stamps.items() if stamp]
    rows += [(name, number, 0, 0, 0) for name, number in facts.items()]
    db.executemany("INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?, ?)", rows)


def forget_folders(db: sqlite3.Connection) -> None:
    """Forget the stamps of all folders; that of the catalog stays."""
    db.execute(f"DELETE FROM note WHERE name LIKE '{_MARK}%' AND name <> '{_MARK}{CATALOG}'")


def set_facts(db: sqlite3.Connection, **facts: int) -> None:
    """Remember numbers by name."""
    set_marks(db, {}, **facts)


_APART = ("CONTEXT.md", "NOTES.md", "NOTES-archive.md")
"""What stands in every prompt in full, and what was taken out of it."""


def _description(memory: Memory) -> str:
    """The description that is listed: a first line that passed no gate is told without its secrets."""
    if memory.page.get("description") or memory.problem:
        return memory.description
    from memsheaf.guard.secrets import without_secrets

    return first_line(without_secrets(memory.body[:BEGINNING]))


def _class_of(path: str, state: str, trust: str) -> int:
    if trust == "unconfirmed":
        return WAITING
    return HIDDEN if state == "copy" or path in _APART else LISTED


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


def _schema(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _build(db: sqlite3.Connection) -> None:
    """Make the tables, unless another process has just done so."""
    db.execute("BEGIN IMMEDIATE")
    if _schema(db) == SCHEMA:
        db.execute("ROLLBACK")
        return
    found = db.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall()
    for (name,) in found:
        if not name.startswith("words_"):
            db.execute(f"DROP TABLE IF EXISTS {name}")
    for statement in _statements(_TABLES):
        db.execute(statement)
    db.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    piece = ""
    for text in script.split("\n"):
        piece += text + "\n"
        if piece.strip() and sqlite3.complete_statement(piece):
            yield piece
            piece = ""
