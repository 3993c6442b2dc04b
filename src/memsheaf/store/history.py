"""The history of a root: `.history/history.db` has every commit with its texts, and what belongs to them.

A commit is decided when its transaction is on the medium, which is the only flush that it waits for. `state` says
how far it got since: decided, placed (each file is where it belongs), or flushed (no power cut can undo that). That
it is placed is noted with the next commit, and until then in the file `placed`, which costs no flush. The text of a
version is there once, however many changes name it. Where a path was left is the last change of that path.

The files are the only truth about the present. A database that is damaged or no history is set aside for a new one.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Any
from weakref import WeakSet

from memsheaf.errors import NoSuchCommit, PathRefused
from memsheaf.guard.paths import check_journalled
from memsheaf.store import Commit, Revision, Version, version_of
from memsheaf.store.safe_dir import READ, Folder
from memsheaf.store.sqlite_file import (
    LOCK_SECONDS,
    SIDE_FILES,
    connect,
    copy_to_memory,
    is_damage,
    make_file,
    migrate,
    rename_damaged,
    retry_while_busy,
    use_log,
)

DATABASE = "history.db"
DATABASE_FILES = (DATABASE, *(DATABASE + suffix for suffix in SIDE_FILES))
LOG, JOURNAL = f"{DATABASE}-wal", f"{DATABASE}-journal"
SUPER_JOURNAL_MARK = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"  # at the end of a journal that names another file
DECIDED, PLACED, FLUSHED = 0, 1, 2
COMMITS_PER_QUERY = 20
MIGRATIONS = (
    """
CREATE TABLE commits (n INTEGER PRIMARY KEY, id TEXT NOT NULL, at TEXT NOT NULL, author TEXT NOT NULL,
  why TEXT NOT NULL, undoes TEXT NOT NULL, boot TEXT NOT NULL, state INTEGER NOT NULL) STRICT;
CREATE INDEX commits_by_id ON commits (id);
CREATE TABLE changes (n INTEGER NOT NULL, place INTEGER NOT NULL, path TEXT NOT NULL, before TEXT NOT NULL,
  after TEXT NOT NULL, PRIMARY KEY (n, place)) STRICT, WITHOUT ROWID;
CREATE INDEX changes_by_path ON changes (path, n);
CREATE TABLE texts (version TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT;
CREATE TABLE tombstones (n INTEGER PRIMARY KEY, line BLOB NOT NULL) STRICT;
CREATE TABLE uses (n INTEGER PRIMARY KEY, day TEXT NOT NULL, path TEXT NOT NULL) STRICT;
CREATE TABLE catalogs (n INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE old_files (name TEXT PRIMARY KEY, size INTEGER NOT NULL, skipped INTEGER NOT NULL) STRICT;
CREATE TABLE facts (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT""",
)
_ERRORS = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_READONLY: errno.EROFS}
_ID = re.compile(r"[0-9a-f]{1,15}")
_VERSION = re.compile(r"([0-9a-f]{64})?")
_STEP = "SELECT n, place, before, after FROM commits JOIN changes USING (n) WHERE id = ? AND path = ?"
_UNFLUSHED = "n > (SELECT ifnull(max(value), 0) FROM facts WHERE name = 'flushed') AND state < 2"
_ADD_COMMIT = """
INSERT INTO commits (n, id, at, author, why, undoes, boot, state)
SELECT CASE WHEN last < 1 << 62 THEN last + 1 END, ?, ?, ?, ?, ?, ?, ?
FROM (SELECT max(ifnull((SELECT max(n) FROM commits), 0), ifnull((SELECT max(n) FROM changes), 0)) AS last)"""
"""A copy that was made in between may have the changes of commits that it lacks."""
_GIVEN = "(SELECT value FROM json_each(?1))"
_HEAD = "(SELECT after FROM changes WHERE path = {} ORDER BY n DESC, place DESC LIMIT 1)"
_ALL_HEADS = f"""
WITH RECURSIVE known (path) AS (
  SELECT min(path) FROM changes
  UNION ALL SELECT (SELECT min(path) FROM changes WHERE path > known.path) FROM known WHERE path IS NOT NULL)
SELECT path, {_HEAD.format("known.path")} AS version FROM known WHERE path IS NOT NULL"""
_COMMITS = """
SELECT commits.n, id, at, author, why, undoes, path, before, after, old.data, new.data
FROM commits LEFT JOIN changes ON changes.n = commits.n {of_path}
LEFT JOIN texts AS old ON old.version = before LEFT JOIN texts AS new ON new.version = after
WHERE commits.n IN ({chosen}) ORDER BY commits.n {order}, place"""


class Damaged(Exception):
    """What has the name of the history is damaged, or no history of ours."""


_OPEN: WeakSet[History] = WeakSet()


class History:
    """One connection to a history, for any thread. Whoever changes it holds the lock of the store."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.identity: tuple[int, ...] = ()  # of the file, if it is one
        self.is_damaged = False
        self.is_in_use = False  # a change is half-way
        self.placed: list[str] = []  # what the file `placed` says, as far as we wrote it
        self._lock = threading.RLock()
        self._is_durable: bool | None = None
        db.execute("PRAGMA trusted_schema = OFF")
        _OPEN.add(self)

    def close(self) -> None:
        """Close the connection."""
        self.identity = ()
        self._db.close()

    def __del__(self) -> None:
        """Close the connection."""
        self.close()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises Busy, OSError."""
        with self._lock:
            try:
                return retry_while_busy(lambda: self._db.execute(sql, values).fetchall())
            except sqlite3.Error as error:
                if not hasattr(error, "sqlite_errorcode") and self._db.text_factory is str:
                    self._db.text_factory = _decode_damaged  # a text is not UTF-8, which hides no other
                    return self.rows(sql, *values)
                raise self._translated(error) from error

    @contextmanager
    def writing(self, *, durable: bool = True, wait: float = LOCK_SECONDS) -> Iterator[sqlite3.Connection]:
        """Change the history in one transaction, or in the one that this thread has begun. Raises Busy, OSError.

        What is not `durable` may get lost with the power, but never a part of it.
        """
        with self._lock:
            if self._db.in_transaction:
                yield self._db
                return
            try:
                if durable != self._is_durable:
                    self._db.execute(f"PRAGMA synchronous = {'EXTRA' if durable else 'NORMAL'}")
                    self._is_durable = durable
                retry_while_busy(lambda: self._db.execute("BEGIN IMMEDIATE"), wait)
                yield self._db
                retry_while_busy(lambda: self._db.execute("COMMIT"))
            except sqlite3.Error as error:
                raise self._translated(error) from error
            finally:
                if self._db.in_transaction:
                    with suppress(sqlite3.Error):
                        self._db.execute("ROLLBACK")

    def _translated(self, error: sqlite3.Error) -> OSError:
        self.is_damaged |= is_damage(error)
        return _os_error(error)

    # Commits

    def add(self, commit: Commit, boot: str, state: int = DECIDED, *, placed: Iterable[str] = ()) -> None:
        """Add a commit: from here on it will be carried out, whatever happens.

        With it, note which others are placed by now, by their ids.
        """
        words = [_encodable(word) for word in (commit.id, commit.at, commit.by, commit.why, commit.undoes, boot)]
        texts = [
            (version, data)
            for step in commit.revisions
            for version, data in ((step.before, step.old), (step.after, step.new))
            if data is not None
        ]
        with self.writing() as db:
            db.executemany(
                f"UPDATE commits SET state = {PLACED} WHERE id = ? AND state = 0", [(id,) for id in placed]
            )
            n = int(db.execute(_ADD_COMMIT, (*words, state)).lastrowid or 0)
            steps = [(n, place, *step[:3]) for place, step in enumerate(commit.revisions)]
            db.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", steps)
            db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?)", texts)

    def mark_flushed(self) -> None:
        """Note that all is placed, and that no power cut can undo it."""
        with self.writing(durable=False) as db:
            db.execute("INSERT OR REPLACE INTO facts SELECT 'flushed', ifnull(max(n), 0) FROM commits")

    def find_unsettled(self, boot: str) -> list[tuple[str, str]]:
        """Return the ids and boots of commits that may not be placed, or were not flushed in another boot."""
        return self.rows(f"SELECT id, boot FROM commits WHERE {_UNFLUSHED} AND (state = 0 OR boot <> ?)", boot)

    def to_flush(self) -> list[Commit]:
        """Return the commits that a power cut could still undo, oldest first."""
        return [commit for _, commit in self._select(f"SELECT n FROM commits WHERE {_UNFLUSHED}", order="ASC")]

    def paths_to_flush(self) -> set[str]:
        """Return the paths that a power cut could still undo changes of."""
        rows = self.rows(f"SELECT path FROM commits JOIN changes USING (n) WHERE {_UNFLUSHED}")
        return {path for (path,) in rows if is_path(path)}

    def last_id(self) -> str:
        """Return the id of the last commit, "" if there is none."""
        rows = self.rows("SELECT id FROM commits ORDER BY n DESC LIMIT 1")
        return str(rows[0][0]) if rows else ""

    def heads(self, paths: Collection[str] | None = None) -> dict[str, Version]:
        """Return the versions that all paths or these were left at; removed ones are left out."""
        if paths is None:
            rows = self.rows(_ALL_HEADS)
        else:
            rows = [row for path in paths for row in self.rows(f"SELECT ?1, {_HEAD.format('?1')}", path)]
        return {path: version for path, version in rows if version and is_version(version) and is_path(path)}

    def text(self, version: Version) -> bytes | None:
        """Return the text of a version, None if it is not there any more."""
        rows = self.rows("SELECT data FROM texts WHERE version = ?", version)
        return rows[0][0] if rows and _has_version(rows[0][0], version) else None

    def history(self, path: str | None = None, /) -> Iterator[Commit]:
        """What happened, newest first; with `path`, to that text only."""
        chosen, of_path = "SELECT n FROM commits WHERE n < ?1", ""
        if path is not None:
            chosen, of_path = "SELECT DISTINCT n FROM changes WHERE path = ?2 AND n < ?1", "AND path = ?2"
        chosen += f" ORDER BY n DESC LIMIT {COMMITS_PER_QUERY}"
        values = [1 << 62] if path is None else [1 << 62, path]
        while page := self._select(chosen, *values, of_path=of_path):
            yield from (commit for _, commit in page if commit.revisions or path is None)
            values[0] = page[-1][0]

    def find(self, commit_id: str, /) -> Commit:
        """Return the newest commit with this id, or the only one whose id begins like this. Raises NoSuchCommit."""
        rows = self.rows("SELECT max(n) FROM commits WHERE id = ?", commit_id)
        if rows[0][0] is None:
            rows = self.rows("SELECT n FROM commits WHERE id >= ?1 AND id < ?1 || 'g'", _encodable(commit_id))
        found = self._select("SELECT ?", *rows[0]) if len(rows) == 1 else []
        if not found:
            raise NoSuchCommit(f"{len(rows) or 'no'} commits begin with {commit_id!r}")
        return found[0][1]

    def find_all(self, ids: Iterable[str]) -> dict[str, Commit]:
        """Return these commits, as far as they are there."""
        chosen = "SELECT max(n) FROM commits WHERE id = ?"
        return {id: commit for id in ids for _, commit in self._select(chosen, id)}

    def _select(
        self, chosen: str, *values: object, of_path: str = "", order: str = "DESC"
    ) -> list[tuple[int, Commit]]:
        sql = _COMMITS.format(of_path=of_path, chosen=chosen, order=order)
        found = []
        for head, rows in groupby(self.rows(sql, *values), key=lambda row: row[:6]):
            n, *words = head
            id, at, by, why, undoes = map(str, words)
            # a change that bit rot reached, or that somebody forged, is not ours to tell
            steps = tuple(step for row in rows if (step := decode_step(*row[6:])))
            found.append((n, Commit(id, at, by, why, steps, undoes)))
        return found

    def graft(self, commits: Iterable[Commit]) -> None:
        """Add finished commits that another history had, oldest first."""
        with self.writing():
            for commit in commits:
                self.add(commit, "", FLUSHED)

    # Forgetting

    def forget(self, steps: Iterable[tuple[str, str]], names: Collection[str]) -> dict[Version, bytes]:
        """Remove all changes of these names, and these steps: each the id of a commit, and a path.

        Gives the texts that they had. One that another change names as well stays there.
        """
        with self.writing() as db:
            found: set[tuple[int, int, Version, Version]] = set()
            for name in names:
                found.update(db.execute("SELECT n, place, before, after FROM changes WHERE path = ?", (name,)))
            for step in steps:
                found.update(db.execute(_STEP, step))
            versions = json.dumps(
                sorted({version for row in found for version in row[2:] if version and is_version(version)})
            )
            texts: dict[Version, bytes] = dict.fromkeys(json.loads(versions), b"")
            texts.update(db.execute(f"SELECT version, data FROM texts WHERE version IN {_GIVEN}", (versions,)))
            db.executemany("DELETE FROM changes WHERE n = ? AND place = ?", [row[:2] for row in found])
            db.executemany(
                "DELETE FROM commits WHERE n = ?1 AND NOT EXISTS (SELECT 1 FROM changes WHERE n = ?1)",
                {row[:1] for row in found},
            )
            # a number may be given once more, and that commit is not flushed
            db.execute(
                "UPDATE facts SET value = min(value, (SELECT ifnull(max(n), 0) FROM commits)) WHERE name = 'flushed'"
            )
            db.execute(
                f"DELETE FROM texts WHERE version IN {_GIVEN} AND version NOT IN (SELECT before FROM changes"
                f" WHERE before IN {_GIVEN} UNION SELECT after FROM changes WHERE after IN {_GIVEN})",
                (versions,),
            )
        return texts

    def drop_texts(self, cutoff: str) -> int:
        """Drop the texts that were retired before a moment, and return how many."""
        with self.writing() as db:
            newer = db.execute("SELECT n FROM commits WHERE at >= ? ORDER BY n LIMIT 1", (cutoff,)).fetchone()
            return db.execute(
                f"DELETE FROM texts WHERE version NOT IN (SELECT version FROM ({_ALL_HEADS})"
                " UNION SELECT before FROM changes WHERE n >= ?1 UNION SELECT after FROM changes WHERE n >= ?1)",
                newer or (1 << 62,),
            ).rowcount

    def empty_log(self) -> bool:
        """Empty SQLite's log, which has what was deleted; return False while another process reads it."""
        return not self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]

    def find_traces(self, versions: Collection[Version], pieces: Collection[bytes]) -> tuple[str, set[str]]:
        """Search for what was forgotten: why it may still be here, "" if it is not; and whose texts have pieces."""

        def has_piece(data: bytes) -> bool:
            return any(piece in data for piece in pieces)

        with self._lock:
            self._db.create_function("has_piece", 1, has_piece)
            holding = json.dumps(
                [row[0] for row in self.rows("SELECT version FROM texts WHERE has_piece(CAST(data AS BLOB))")]
            )
            sql = f"SELECT DISTINCT path FROM changes WHERE before IN {_GIVEN} OR after IN {_GIVEN}"
            telling = (
                "SELECT DISTINCT path FROM commits LEFT JOIN changes USING (n) WHERE has_piece(CAST(why AS BLOB))"
            )
            others = {path for (path,) in [*self.rows(sql, holding), *self.rows(telling)]}
            if None in others or self.rows(sql, json.dumps(list(versions))):
                return "it has the text", others - {None}
            if not others and has_piece(self._db.serialize()):
                return "it has the text", set()
            return ("" if self.empty_log() else "another process reads it, and its log cannot be emptied"), others

    def find_damage(self) -> str:
        """Return what is wrong with the database, "" if nothing is."""
        try:
            problem = str(self.rows("PRAGMA quick_check(1)")[0][0])
        except OSError as error:
            return str(error.strerror) if self.is_damaged else ""
        self.is_damaged = problem != "ok"
        return problem if self.is_damaged else ""

    # What is noted beside the commits

    def fact(self, name: str) -> str:
        """Return what was noted under a name, "" if nothing was."""
        rows = self.rows("SELECT value FROM facts WHERE name = ?", name)
        return str(rows[0][0]) if rows else ""

    def note_fact(self, name: str, value: str) -> None:
        """Note a value under a name."""
        with self.writing(durable=False) as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))


def is_path(path: object) -> bool:
    """Return False for a path that no change of ours can have: a history that came with a folder may be hostile."""
    with suppress(PathRefused):
        return isinstance(path, str) and check_journalled(path) == path
    return False


def is_commit_id(name: str) -> bool:
    """Return True if a commit can have this id."""
    return _ID.fullmatch(name) is not None


def decode_step(path: str, before: Version, after: Version, old: bytes | None, new: bytes | None) -> Revision | None:
    """Return what was stored of a change, without texts that bit rot reached; None if it is not one of ours."""
    if not is_path(path) or not is_version(before) or not is_version(after):
        return None
    old, new = (data if _has_version(data, version) else None for data, version in ((old, before), (new, after)))
    return Revision(path, before, after, old, new)


def is_version(version: object) -> bool:
    """Return False for what cannot be the version of a text, or of none."""
    return isinstance(version, str) and _VERSION.fullmatch(version) is not None


def _has_version(data: object, version: Version) -> bool:
    return isinstance(data, bytes) and version_of(data) == version


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _decode_damaged(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")  # no path has a backslash


def _os_error(error: sqlite3.Error) -> OSError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return OSError(_ERRORS.get(code, errno.EIO), f"{DATABASE}: {error}")


# Opening


def _close_before_fork() -> None:
    """Close the connections: a child that has one would take the locks of its parent for its own."""
    for history in list(_OPEN):
        if history.identity and not history.is_in_use:
            history.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_before_fork)


def in_memory() -> History:
    """Return an empty history that nobody keeps."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    migrate(db, MIGRATIONS)
    return History(db)


def identify(folder: Folder) -> tuple[int, ...]:
    """Tell the database in a folder, and its log, from others; () if there is none. Raises PathRefused for a link."""
    try:
        found = folder.stat(DATABASE)
    except FileNotFoundError:
        return ()
    if stat.S_ISLNK(found.st_mode):
        raise PathRefused(DATABASE, "it is a link")
    with suppress(FileNotFoundError):
        return found.st_dev, found.st_ino, folder.stat(LOG).st_ino
    return found.st_dev, found.st_ino, 0


def open_history(folder: Folder, known: History | None, *, create: bool = False) -> History | None:
    """Return the history in a folder: the known one if that is still it, or else it is opened; None without one.

    To `create` it, and to set aside what is damaged or no history, the caller holds the lock.

    Raises:
        OSError, PathRefused, Busy.
        Damaged: it cannot be used as it is.
    """
    identity = identify(folder)
    if known and known.identity == identity and not known.is_damaged:
        return known
    is_suspect = known is not None and known.is_damaged
    if known:
        if known.identity[:2] == identity[:2]:  # its log was removed, and is open here still
            with suppress(OSError):
                known.rows("PRAGMA wal_checkpoint")
        known.close()
    if not identity:
        if not create:
            return None
        make_file(folder, DATABASE)
        folder.sync()
    try:
        return _open(folder, create=create, is_suspect=is_suspect)
    except Damaged:
        if not create:
            raise
    with suppress(Damaged):
        return _open(folder, create=create, is_suspect=True)  # one read may fail that does not fail again
    rename_damaged(folder, DATABASE)
    return open_history(folder, None, create=True)


def _check_files(folder: Folder, *, create: bool) -> None:
    """Raise Damaged for files that SQLite must not open: it deletes the file that a journal of a stranger names."""
    for name in DATABASE_FILES:
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(folder.stat(name).st_mode):
                raise Damaged(f"{name} is not a plain file")
    with suppress(FileNotFoundError, PathRefused):
        fd, found = folder.open_stat(JOURNAL, READ)
        try:
            os.lseek(fd, max(0, found.st_size - len(SUPER_JOURNAL_MARK)), os.SEEK_SET)
            if os.read(fd, len(SUPER_JOURNAL_MARK)) == SUPER_JOURNAL_MARK:
                if create:
                    folder.unlink(JOURNAL)
                raise Damaged(f"{JOURNAL} names another file")
        finally:
            os.close(fd)


def _open(folder: Folder, *, create: bool, is_suspect: bool) -> History:
    _check_files(folder, create=create)
    try:
        path = folder.name_for_others(DATABASE)
        db = connect(path)
        history = History(db)
        try:
            version = int(db.execute("PRAGMA user_version").fetchone()[0])
            schema = _read_schema(db)
            if create and version < len(MIGRATIONS) and schema.keys() == _statements(MIGRATIONS[:version]):
                if not version:
                    db = use_log(db, path)
                    history = History(db)
                migrate(db, MIGRATIONS)
                schema = _read_schema(db)
        except BaseException:
            history.close()
            raise
    except sqlite3.Error as error:
        if is_damage(error):
            raise Damaged(str(error)) from error
        raise _os_error(error) from error
    history.identity = identify(folder)
    problem = history.find_damage() if is_suspect else ""
    if not _is_ours(schema, version):
        problem = "its tables are not those of a history"
    if problem:
        history.close()
        raise Damaged(problem)
    return history


def _read_schema(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT sql, type FROM sqlite_schema WHERE sql IS NOT NULL"))


def _statements(scripts: Sequence[str]) -> set[str]:
    return {statement.strip() for script in scripts for statement in script.split(";")}


def _is_ours(schema: Mapping[str, str], version: int) -> bool:
    """Return True for the tables of a history, which in a later version may have more columns, and others beside."""
    ours = _statements(MIGRATIONS)
    parts = [statement.rpartition(")") for statement in ours]
    has_ours = all(any(sql.startswith(head) and sql.endswith(tail) for sql in schema) for head, _, tail in parts)
    is_later = version > len(MIGRATIONS) and has_ours
    return set(schema.values()) <= {"table", "index"} and (is_later or schema.keys() == ours)


def read_only_copy(folder: Folder) -> History:
    """Return a copy in memory of a history, also where nothing can be written. Raises OSError."""
    memory = in_memory()
    if not copy_to_memory(folder.name_for_others(DATABASE), memory._db):
        raise OSError(errno.EIO, f"{DATABASE} cannot be read")
    version = int(memory.rows("PRAGMA user_version")[0][0])
    return memory if _is_ours(_read_schema(memory._db), version) else in_memory()
