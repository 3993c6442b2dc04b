"""The SQLite database of the index: its tables, and how it is opened, deleted and written.

There is one row in `entry` for each file. Its id is never used again, so whatever is kept about a text under that id
(words, vectors, traces of near-duplicates) belongs to that very text.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from glob import escape, glob
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import quote

from memsheaf.errors import Ref
from memsheaf.guard import without_secrets
from memsheaf.store import Version
from memsheaf.store.safe_dir import Folder, kernel_lock

SCHEMA = 24
HIDDEN, LISTED, WAITING = 0, 1, 2  # values of `listed`: not for the catalog, in the catalog, unconfirmed
RANK_ORDER = "pinned DESC, day DESC, time DESC, path"
LOCK_SECONDS = 1.0  # to wait for another process that writes; in that time SQLite handles no signal
IN_MEMORY = ":memory:"

UNUSABLE = "-"  # the version of what is there and cannot be used: a link, a folder, a name that is not allowed
IS_EMBEDDABLE = f"state IN ('ok', 'free') AND version NOT IN ('', '{UNUSABLE}')"

WORD_TABLES = """
CREATE VIRTUAL TABLE words
  USING fts5 (name, description, body, tokenize = "unicode61 remove_diacritics 0 categories 'L* M* N* Co'");
"""
_TABLES = f"""
CREATE TABLE entry (
  id INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL UNIQUE, fold TEXT NOT NULL,
  mtime INTEGER NOT NULL, ctime INTEGER NOT NULL, size INTEGER NOT NULL, inode INTEGER NOT NULL,
  version TEXT NOT NULL, pending INTEGER NOT NULL, state TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
  description TEXT NOT NULL, updated TEXT NOT NULL, trust TEXT NOT NULL, pinned INTEGER NOT NULL,
  problem TEXT NOT NULL, listed INTEGER NOT NULL, day INTEGER NOT NULL, time INTEGER NOT NULL, line TEXT NOT NULL,
  supersedes TEXT NOT NULL, source TEXT NOT NULL, ends TEXT NOT NULL);
CREATE INDEX by_fold ON entry (fold) WHERE fold <> path;
CREATE INDEX by_name ON entry (name);
CREATE INDEX by_rank ON entry (listed, pinned DESC, day DESC, time DESC, path, version, kind, line);
CREATE INDEX is_pending ON entry (id) WHERE pending = 1;
CREATE INDEX is_embeddable ON entry (id, path) WHERE {IS_EMBEDDABLE};
CREATE INDEX is_ending ON entry (ends, path) WHERE ends <> '';
CREATE INDEX is_superseding ON entry (path) WHERE supersedes <> '';
CREATE TABLE note (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE tally (listed INTEGER PRIMARY KEY, count INTEGER NOT NULL);
INSERT INTO tally VALUES ({HIDDEN}, 0), ({LISTED}, 0), ({WAITING}, 0);
CREATE TABLE trace (number INTEGER, entry INTEGER, PRIMARY KEY (number, entry)) WITHOUT ROWID;
CREATE TABLE used (path TEXT PRIMARY KEY, day INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE drift (path TEXT PRIMARY KEY, version TEXT NOT NULL, state INTEGER NOT NULL) WITHOUT ROWID;
{WORD_TABLES}
INSERT INTO words (words, rank) VALUES ('hashsize', {1 << 26}); -- bytes that a large transaction holds back
CREATE TABLE vector (
  id INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, embedder INTEGER NOT NULL, data BLOB NOT NULL);
CREATE UNIQUE INDEX by_entry ON vector (entry, embedder);
CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
  UPDATE tally SET count = count + 1 WHERE listed = new.listed; END;
CREATE TRIGGER entry_moved AFTER UPDATE OF listed ON entry WHEN old.listed <> new.listed BEGIN
  UPDATE tally SET count = count + 1 WHERE listed = new.listed;
  UPDATE tally SET count = count - 1 WHERE listed = old.listed; END;
CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
  UPDATE tally SET count = count - 1 WHERE listed = old.listed;
  DELETE FROM words WHERE rowid = old.id;
  DELETE FROM vector WHERE entry = old.id; END;
"""

ROW_COLUMNS = "path, kind, name, description, updated, state, trust, pinned, size, version, problem, supersedes"


class Row(NamedTuple):
    """One file as the index knows it.

    `state` is as in `Memory`; `problem` says why it cannot be used, and `warning` that a newer memory supersedes it.
    `supersedes` holds the paths of those that this one does, each between line breaks.
    """

    path: str
    type: str
    name: str
    description: str
    updated: str
    state: str
    trust: str
    pinned: bool
    size: int
    version: Version
    problem: str
    supersedes: str
    scope: str = ""
    warning: str = ""

    @property
    def ref(self) -> Ref:
        """The identity of the memory."""
        return Ref(self.scope, self.path)

    def masked(self) -> Row:
        """Return the row as a model is shown it: what others wrote passed no gate, so its secrets are removed."""
        if self.trust == "confirmed":
            return self
        name, description, kind = map(without_secrets, (self.name, self.description, self.type))
        return self._replace(name=name, description=description, type=kind)


MIN_HIT_CHANCE = 0.12  # of a memory without a word of the query, to somebody who searches
"""With these, recall@5 of the coding sets is what it is without; with less, "zzzz" finds something."""


class Match(NamedTuple):
    """A memory that shares words with a query, or lies near it in meaning.

    `score` is for the order, and `likely` says how likely it matters, from 0 to 1. `common` is that of
    `lexical.WordHit`, and `near` the cosine of the best passage, 0.0 without vectors. `used` is the day it was last
    of use, in days since 1970, 0 when it was not.
    """

    row: Row
    score: float
    likely: float
    common: float
    near: float
    used: int

    @property
    def is_hit(self) -> bool:
        """Return True if somebody who searches would call it found: by a word, or by its meaning."""
        return self.common > 0 or self.likely >= MIN_HIT_CHANCE


class Embedding(NamedTuple):
    """The state of the vectors: of which embedder ("" for none), how many memories of all, and what is in the way."""

    embedder: str
    done: int
    total: int
    running: bool
    problem: str


def to_row(values: Iterable[Any]) -> Row:
    """Return the row of values that were selected as `ROW_COLUMNS`."""
    row = Row(*values)
    return row._replace(pinned=bool(row.pinned))


_SETTINGS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -8000; -- KiB: what a save touches at 100,000 memories stays at hand
PRAGMA wal_autocheckpoint = 4000; -- a page is rewritten often before it is copied once
PRAGMA recursive_triggers = ON; -- a replaced row leaves the words and the tally, too
"""


def connect(database: str, root: str = "") -> sqlite3.Connection:
    """Open the database of the index of a root, and make its tables if it is new.

    Raises:
        sqlite3.DatabaseError: it is damaged; delete it and try again.
        Busy: another process opens or deletes it, and takes long.
        OSError: there is no place for it.
    """
    if database == IN_MEMORY:
        return _connect(database, root)
    with locked(base_of(database), "opening"):
        return _connect(database, root)


def _connect(database: str, root: str) -> sqlite3.Connection:
    db = sqlite3.connect(database, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        db.executescript(_SETTINGS)
        schema = db.execute("PRAGMA user_version").fetchone()[0]
        if schema == 0:
            db.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT")
            set_notes(db, root=os.fsencode(os.path.realpath(root)))
        elif schema != SCHEMA:
            raise sqlite3.DatabaseError(f"the index has the schema {schema} under the name of {SCHEMA}")
    except sqlite3.DatabaseError:
        db.close()
        raise
    return db


def delete(database: str) -> None:
    """Remove the database with all its files: open connections keep working, new ones find nothing.

    SQLite would take a log that is still there for that of a new database, and mix the two.
    """
    with suppress(FileNotFoundError), locked(base_of(database), "opening"):
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(database + suffix)


def database_for(root: str, cache: str) -> str:
    """Return where the index of a root lives: in the cache directory, never beside files that are synced."""
    name = sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:24]
    return os.path.join(cache, f"{name}-{SCHEMA}.sqlite")


def base_of(database: str) -> str:
    """Return what the names of all files beside a database begin with."""
    return database.removesuffix(".sqlite")


@contextmanager
def locked(base: str, what: str, *, wait: float = LOCK_SECONDS) -> Iterator[None]:
    """Be the only process that does this. Raises Busy."""
    folder, name = os.path.split(base)
    with Folder.open(folder) as opened, kernel_lock(opened, f"{name}.{what}.lock", wait=wait):
        yield


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


def state_of(db: sqlite3.Connection) -> object:
    """Return a value that differs once anybody wrote to the database."""
    return id(db), db.total_changes, db.execute("PRAGMA data_version").fetchone()


def notes(db: sqlite3.Connection) -> dict[str, Any]:
    """Return what the index remembers beside its rows."""
    return dict(db.execute("SELECT name, value FROM note"))


def set_notes(db: sqlite3.Connection, **values: object) -> None:
    """Remember values by name."""
    db.executemany("INSERT OR REPLACE INTO note VALUES (?, ?)", values.items())


def tally(db: sqlite3.Connection) -> list[int]:
    """Return how many rows are hidden, listed and waiting."""
    return [count for (count,) in db.execute("SELECT count FROM tally ORDER BY listed")]


def count_memories(db: sqlite3.Connection) -> int:
    """Return how many memories can have vectors."""
    return int(db.execute(f"SELECT count(*) FROM entry WHERE {IS_EMBEDDABLE}").fetchone()[0])


def is_kept(db: sqlite3.Connection) -> bool:
    """Return True if the database is a file, and not one in memory."""
    return bool(db.execute("PRAGMA database_list").fetchone()[2])


_LOCAL = threading.local()


@contextmanager
def existing_vectors() -> Iterator[None]:
    """In this thread, search with existing vectors only and make none."""
    _LOCAL.makes_none = True
    try:
        yield
    finally:
        del _LOCAL.makes_none


def makes_vectors() -> bool:
    """Return True if a search of this thread makes vectors that are missing."""
    return not getattr(_LOCAL, "makes_none", False)


def can_compare(db: sqlite3.Connection) -> bool:
    """Return True if a search of this thread uses vectors: an embedder without any yet may be slow to load."""
    return is_kept(db) and bool(makes_vectors() or db.execute("SELECT 1 FROM vector LIMIT 1").fetchone())


# The index files in the cache directory, and which of them are stale. The files of one index begin with the hash of
# its root and the number of its schema, so that two versions of memsheaf have each their own.

_HASH = "[0-9a-f]" * 24


def of_other_versions(database: str) -> list[str]:
    """Return the files of the indexes that other versions of memsheaf have of the same root."""
    own = base_of(database)
    files = glob(f"{escape(own.removesuffix(f'-{SCHEMA}'))}[.-]*")
    return [path for path in files if not path.startswith(f"{own}.")]


def abandoned(folder: str) -> list[str]:
    """Return the databases of roots that are gone, and those of other versions, which make theirs anew."""
    return sorted(filter(_is_abandoned, glob(f"{escape(folder)}/{_HASH}*.sqlite")))


def remove(databases: Iterable[str]) -> None:
    """Remove indexes with all their files."""
    for database in databases:
        for path in glob(f"{escape(base_of(database))}.*"):
            with suppress(OSError):
                os.unlink(path)


def _is_abandoned(database: str) -> bool:
    if not base_of(database).endswith(f"-{SCHEMA}"):
        return True
    uri = f"file:{quote(database)}?mode=ro"
    sql = "SELECT value FROM note WHERE name = 'root' AND EXISTS (SELECT 1 FROM entry)"
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(uri, uri=True, timeout=0)) as db:
        return not all(os.path.isdir(os.fsdecode(root)) for (root,) in db.execute(sql))
    return False
