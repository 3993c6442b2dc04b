"""The SQLite database of the index: one row a file, rebuilt whenever it is doubted."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from typing import NamedTuple

from memsheaf.errors import Busy
from memsheaf.guard import without_secrets
from memsheaf.guard.paths import CATALOG
from memsheaf.store import Stamp, Version
from memsheaf.store.safe_dir import Folder, kernel_lock

SCHEMA = 19
HIDDEN, LISTED, WAITING = 0, 1, 2  # classes of `listed`: not for the catalog, in the catalog, unconfirmed
COUNTS = ("tally:0", "tally:1", "tally:2")
RANK = "pinned DESC, day DESC, time DESC, path"
PATIENCE = 5.0  # seconds to wait for another process; then one does without it

BLOCK = 512  # vectors that a block repeats, to be read at once; they stay in the processor's cache
_TALLY = "tally:"
_CATALOG_STAMP = f"mark:{CATALOG}"

WORD_TABLES = """
CREATE VIRTUAL TABLE words
  USING fts5 (name, description, body, tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* Co'");
"""
INDEXES = """
CREATE INDEX by_fold ON entry (fold) WHERE fold <> path;
CREATE INDEX by_name ON entry (name);
CREATE INDEX by_rank ON entry (listed, pinned DESC, day DESC, time DESC, path, version);
CREATE INDEX is_pending ON entry (id) WHERE pending = 1;
CREATE INDEX is_superseding ON entry (path) WHERE supersedes <> '';
CREATE INDEX by_update ON entry (updated DESC, time DESC, path, kind, trust, source, pinned) WHERE version <> '';
CREATE INDEX is_learned ON entry (conversation) WHERE conversation <> '';
"""
ADDED = f"""
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
  problem TEXT NOT NULL, listed INTEGER NOT NULL, day INTEGER NOT NULL, time INTEGER NOT NULL, line TEXT NOT NULL,
  traces BLOB NOT NULL, supersedes TEXT NOT NULL, source TEXT NOT NULL, conversation TEXT NOT NULL,
  author TEXT);
{INDEXES}
CREATE TABLE origin (root BLOB);
CREATE TABLE note (name TEXT PRIMARY KEY, a INTEGER, b INTEGER, c INTEGER, d INTEGER) WITHOUT ROWID;
INSERT INTO note (name, a) VALUES ('{_TALLY}0', 0), ('{_TALLY}1', 0), ('{_TALLY}2', 0), ('last', 0);
CREATE TABLE trace (number INTEGER, entry INTEGER, PRIMARY KEY (number, entry)) WITHOUT ROWID;
CREATE TABLE used (path TEXT PRIMARY KEY, day INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE drift (path TEXT PRIMARY KEY, version TEXT NOT NULL, state INTEGER NOT NULL) WITHOUT ROWID;
{WORD_TABLES}
CREATE TABLE vector (
  id INTEGER PRIMARY KEY AUTOINCREMENT, embedder INTEGER NOT NULL, entry INTEGER, key BLOB NOT NULL,
  scale REAL NOT NULL, data BLOB NOT NULL);
CREATE INDEX vector_by_entry ON vector (entry, embedder);
CREATE TABLE vector_block (number INTEGER, embedder INTEGER, data BLOB, PRIMARY KEY (number, embedder));
CREATE TRIGGER vector_removed AFTER DELETE ON vector BEGIN
  DELETE FROM vector_block WHERE number = old.id / {BLOCK}; END;
{ADDED}
CREATE TRIGGER entry_moved AFTER UPDATE OF listed ON entry WHEN old.listed <> new.listed BEGIN
  UPDATE note SET a = a + 1 WHERE name = '{_TALLY}' || new.listed;
  UPDATE note SET a = a - 1 WHERE name = '{_TALLY}' || old.listed; END;
CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
  UPDATE note SET a = a - 1 WHERE name = '{_TALLY}' || old.listed;
  DELETE FROM words WHERE rowid = old.id;
  UPDATE vector SET entry = NULL WHERE entry = old.id; END;
PRAGMA user_version = {SCHEMA};
"""

UNUSABLE = "-"  # the version of what is there and cannot be used: a link, a folder, a name that is not allowed
ROW = "path, kind, name, description, updated, state, trust, pinned, size, version, problem"


class IndexNotes:
    """What the index remembers beside its rows, as it was when this was made."""

    def __init__(self, rows: Iterable[tuple[str, int, int, int, int]]) -> None:
        self._rows: dict[str, tuple[int, int, int, int]] = {row[0]: row[1:] for row in rows}

    @property
    def catalog_stamp(self) -> Stamp | None:
        """The stamp of MEMORY.md as it was published, or as somebody else's was accepted."""
        return self._rows.get(_CATALOG_STAMP)

    @property
    def tally(self) -> list[int]:
        """How many rows are hidden, listed and waiting. Raises sqlite3.DatabaseError without counts."""
        try:
            return [self._rows[name][0] for name in COUNTS]
        except KeyError as error:
            raise sqlite3.DatabaseError(f"the note {error} is lost") from None

    @property
    def rows(self) -> int:
        """How many files there are."""
        return sum(self.tally)

    def fact(self, name: str) -> int:
        """A number by name, 0 when it is not known: the last commit that was followed, which ids were seen to."""
        return self._rows.get(name, (0,))[0]


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

    def masked(self) -> Row:
        """As a model is shown it: what others wrote, unconfirmed or not, passed no gate: its secrets are removed."""
        if self.trust == "confirmed":
            return self
        name, description, kind = map(without_secrets, (self.name, self.description, self.kind))
        return self._replace(name=name, description=description, kind=kind)


MIN_HIT_FIT, MIN_HIT_COSINE = 0.9, 0.15
"""With these, recall@5 of the coding sets is what it is without; with less, "zzzz" finds something."""


class Match(NamedTuple):
    """A memory that shares words with a query, or lies near it in meaning.

    `score` is for the order. `common` is that of `lexical.Hit`, and `near` the cosine of the best passage, 0.0
    without vectors; from these two, `fit` says whether there is anything to it: 1 and more is worth showing unasked.
    `used` is the day it was last of use, in days since 1970, 0 when it was not.
    """

    row: Row
    score: float
    common: float
    near: float
    fit: float
    used: int

    @property
    def is_hit(self) -> bool:
        """Return True if somebody who searches would call it found: by a word, or clearly by its meaning."""
        return self.common > 0 or (self.fit >= MIN_HIT_FIT and self.near >= MIN_HIT_COSINE)


def ids_of(db: sqlite3.Connection, paths: Iterable[str]) -> set[int]:
    """The rows of these files."""
    return {row for path in paths for (row,) in db.execute("SELECT id FROM entry WHERE path = ?", (path,))}


def row_of(found: tuple[object, ...]) -> Row:
    """A row as `ROW` selects it."""
    return Row(*found[:7], bool(found[7]), *found[8:])  # type: ignore[arg-type, call-arg]


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
    """Remove the database with all its files: open connections keep working, new ones find nothing.

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
    """Whether no process writes to the database now."""
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


def shrink(db: sqlite3.Connection) -> None:
    """Write the database anew without the pages that are free, which may hold what was removed."""
    db.execute("VACUUM")
    if db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        raise sqlite3.OperationalError("somebody reads the log of the database, and it cannot be emptied")


def notes(db: sqlite3.Connection) -> IndexNotes:
    """Everything the index remembers beside its rows."""
    return IndexNotes(db.execute("SELECT * FROM note"))


def set_catalog_stamp(db: sqlite3.Connection, stamp: Stamp) -> None:
    """Remember the stamp of MEMORY.md."""
    db.execute("INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?, ?)", (_CATALOG_STAMP, *stamp))


def set_facts(db: sqlite3.Connection, **facts: int) -> None:
    """Remember numbers by name."""
    rows = [(name, number, 0, 0, 0) for name, number in facts.items()]
    db.executemany("INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?, ?)", rows)


def as_number(boot: str) -> int:
    """A boot as a number; where boots cannot be told, none is the one before."""
    return int.from_bytes(sha256(boot.encode()).digest()[:6], "big") if boot else time.time_ns()


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
    for statement in statements(_TABLES):
        db.execute(statement)
    db.execute("COMMIT")


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one."""
    piece = ""
    for text in script.split("\n"):
        piece += text + "\n"
        if piece.strip() and sqlite3.complete_statement(piece):
            yield piece
            piece = ""


_LOCAL = threading.local()


@contextmanager
def existing_vectors() -> Iterator[None]:
    """In this thread, search with existing vectors only and make none."""
    _LOCAL.makes_none = True
    try:
        yield
    finally:
        del _LOCAL.makes_none


def can_compare(db: sqlite3.Connection) -> bool:
    """Whether a search of this thread uses vectors: an embedder without any yet may be slow to load."""
    return bool(makes_vectors() or db.execute("SELECT 1 FROM vector LIMIT 1").fetchone()) and is_kept(db)


def makes_vectors() -> bool:
    """Whether a search of this thread makes vectors that are missing."""
    return not getattr(_LOCAL, "makes_none", False)


def database_for(root: str, cache: str) -> str:
    """Return where the index of a root lives: in the cache directory, never beside files that are synced."""
    name = sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:24]
    return os.path.join(cache, f"{name}-{SCHEMA}.sqlite")
