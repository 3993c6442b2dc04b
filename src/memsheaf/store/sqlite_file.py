"""SQLite databases that are kept for good: private, durable, with the tables of this version, replaced when damaged.

Write-ahead logging is used where the file system can share memory between processes, a rollback journal elsewhere.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import quote
from weakref import WeakSet

from memsheaf.errors import Busy, PathRefused
from memsheaf.store.safe_dir import CREATE, Folder

BUSY_SECONDS = 0.1  # that SQLite waits by itself, and no signal is handled
LOCK_SECONDS = 10.0
SIDE_FILES = ("-wal", "-shm", "-journal")
DAMAGED_MARK = ".damaged-"
_DAMAGE_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNSHARED_CODES = (
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR_SHMLOCK,
    sqlite3.SQLITE_IOERR_SHMMAP,
    sqlite3.SQLITE_IOERR_SHMOPEN,
)
"""Errors of SQLite where a log needs memory that processes share, and there is none."""

_SEQUENCES = "CREATE TABLE sqlite_sequence(name,seq)"  # where SQLite keeps the last number of AUTOINCREMENT
_ERRORS = {sqlite3.SQLITE_FULL: errno.ENOSPC, sqlite3.SQLITE_READONLY: errno.EROFS}

Result = TypeVar("Result")
_HOOK = threading.local()


@contextmanager
def in_hook() -> Iterator[None]:
    """In this thread, take in no more of older files than a hook has time for."""
    _HOOK.runs = True
    try:
        yield
    finally:
        del _HOOK.runs


def is_in_hook() -> bool:
    """Return True if this thread answers a hook, and has little time."""
    return hasattr(_HOOK, "runs")


class DatabaseFailed(OSError):
    """A database cannot be read or written."""


class Damaged(Exception):
    """The file is damaged, or no database of ours."""


class Outdated(Damaged):
    """Tables are missing that an earlier version did not make."""


class Database:
    """One connection to a database of ours, for any thread: they take turns."""

    name: ClassVar[str]
    migrations: ClassVar[tuple[str, ...]]
    """The scripts that make the tables, one for each version of the schema. Add to them, and change none."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.identity: tuple[int, ...] = ()  # of the file, if it is one
        self.is_damaged = False
        self.is_in_use = False  # a change is half-way
        self._db = db
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
        """Return the rows of a query. Raises Busy, DatabaseFailed."""
        with self._lock:
            try:
                return retry_while_busy(lambda: self._db.execute(sql, values).fetchall())
            except sqlite3.Error as error:
                if not hasattr(error, "sqlite_errorcode") and self._db.text_factory is str:
                    self._db.text_factory = _decode_damaged  # a text is not UTF-8, which hides no other
                    return self.rows(sql, *values)
                raise self._translate(error) from error

    @contextmanager
    def writing(self, *, durable: bool = True, wait: float = LOCK_SECONDS) -> Iterator[sqlite3.Connection]:
        """Change rows in one transaction, or in the one that this thread has begun. Raises Busy, DatabaseFailed.

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
                retry_while_busy(lambda: self._db.execute("COMMIT"), wait)
            except sqlite3.Error as error:
                raise self._translate(error) from error
            finally:
                if self._db.in_transaction:
                    with suppress(sqlite3.Error):
                        self._db.execute("ROLLBACK")

    @property
    def is_changing(self) -> bool:
        """True inside a transaction."""
        return bool(self.identity) and self._db.in_transaction

    def empty_log(self) -> bool:
        """Empty SQLite's log, which has what was deleted; return False while another process reads it."""
        return not self.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]

    def find_damage(self) -> str:
        """Return what is wrong with the database, "" if nothing is."""
        try:
            problem = str(self.rows("PRAGMA quick_check(1)")[0][0]).splitlines()[-1]
        except DatabaseFailed as error:
            return str(error.strerror) if self.is_damaged else ""
        self.is_damaged = problem != "ok"
        return problem if self.is_damaged else ""

    def serialize(self) -> bytes:
        """Return all bytes of the database."""
        with self._lock:
            return self._db.serialize()

    def _translate(self, error: sqlite3.Error) -> DatabaseFailed:
        self.is_damaged |= _is_damage(error)
        code = _ERRORS.get(_code_of(error), errno.EIO)
        return DatabaseFailed(code, f"{self.name}: {error}")

    # Opening

    @classmethod
    def in_memory(cls) -> Self:
        """Return an empty one that nobody keeps."""
        db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        migrate(db, cls.migrations)
        return cls(db)

    @classmethod
    def copy(cls, folder: Folder) -> Self:
        """Return a copy in memory, also where nothing can be written, or none of what is not ours.

        Raises:
            DatabaseFailed: it cannot be read.
        """
        copy = cls.in_memory()
        ends = time.monotonic() + LOCK_SECONDS

        def stop_if_late(*_: int) -> None:
            if time.monotonic() > ends:  # SQLite would try for ever while another process holds the file
                raise sqlite3.OperationalError("database is locked")

        for options in ("mode=ro", "mode=ro&immutable=1"):  # the second passes over a log that only a writer can read
            uri = f"file:{quote(os.fsencode(folder.name_for_others(cls.name)))}?{options}"
            with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as source:
                source.backup(copy._db, progress=stop_if_late)
                if copy._is_outdated():
                    migrate(copy._db, cls.migrations)
                return copy if copy._is_ours() else cls.in_memory()
        raise DatabaseFailed(errno.EIO, f"{cls.name} cannot be read")

    @classmethod
    def identify(cls, folder: Folder) -> tuple[int, ...]:
        """Tell the database in a folder, and its log, from others; () if there is none.

        Raises:
            PathRefused: it is a link.
        """
        try:
            status = folder.stat(cls.name)
        except FileNotFoundError:
            return ()
        if stat.S_ISLNK(status.st_mode):
            raise PathRefused(cls.name, "it is a link")
        with suppress(FileNotFoundError):
            return status.st_dev, status.st_ino, folder.stat(f"{cls.name}-wal").st_ino
        return status.st_dev, status.st_ino, 0

    @classmethod
    def open(
        cls, folder: Folder, known: Self | None, *, create: bool = False, is_suspect: bool = False
    ) -> Self | None:
        """Return the database in a folder: the known one if that is still it, or else it is opened; None without one.

        To `create` it or its missing tables, and to set aside what is damaged, the caller holds a lock. One that
        `is_suspect` is checked as a whole.

        Raises:
            OSError, PathRefused, Busy.
            Damaged: it cannot be used as it is.
        """
        identity = cls.identify(folder)
        is_suspect |= known is not None and known.is_damaged
        if known and identity and known.identity == identity and not is_suspect:
            return known
        if known:
            is_log_removed = known.identity[:2] == identity[:2] and identity[2:] == (0,)
            if is_log_removed:  # it is open here still; where somebody has begun a new one, it is too late
                with suppress(OSError):
                    known.rows("PRAGMA wal_checkpoint")
            known.close()
            if is_log_removed and create:
                with suppress(FileNotFoundError):
                    folder.unlink(f"{cls.name}-shm")  # others have the index of the removed log in it
        if not identity:
            if not create:
                return None
            _make_file(folder, cls.name)
        try:
            return cls._open(folder, create=create, is_suspect=is_suspect)
        except Damaged:
            if not create:
                raise
        with suppress(Damaged):
            return cls._open(folder, create=create, is_suspect=True)  # one read may fail that does not fail again
        rename_damaged(folder, cls.name)
        return cls.open(folder, None, create=True)

    @classmethod
    def check_files(cls, folder: Folder, *, create: bool) -> None:
        """Raise Damaged for files that SQLite must not open."""

    @classmethod
    def _open(cls, folder: Folder, *, create: bool, is_suspect: bool) -> Self:
        cls.check_files(folder, create=create)
        try:
            path = folder.name_for_others(cls.name)
            opened = cls(connect(path))
            try:
                problem = opened._prepare(path, create=create)
            except BaseException:
                opened.close()
                raise
        except sqlite3.Error as error:
            if _is_damage(error):
                raise Damaged(str(error)) from error
            raise DatabaseFailed(_ERRORS.get(_code_of(error), errno.EIO), f"{cls.name}: {error}") from error
        opened.identity = cls.identify(folder)
        if is_suspect:
            problem = problem or opened.find_damage()
        if problem:
            opened.close()
            raise Damaged(problem)
        return opened

    def _prepare(self, path: str, *, create: bool) -> str:
        """Make the tables that are missing, and return why the database cannot be used, "" if it can."""
        if self._is_outdated():
            if not create:
                raise Outdated(f"{self.name} has the tables of an earlier version")
            if not _user_version(self._db):
                self._db = use_log(self._db, path)
                self._db.execute("PRAGMA trusted_schema = OFF")
            migrate(self._db, self.migrations)
        return "" if self._is_ours() else "its tables are not ours"

    def _is_outdated(self) -> bool:
        """Return True for the tables of an earlier version, or none at all."""
        version = _user_version(self._db)
        is_earlier = version < len(self.migrations)
        return is_earlier and _read_schema(self._db).keys() == _statements(self.migrations[:version])

    def _is_ours(self) -> bool:
        """Return True for our tables, which in a later version may have more columns, and others beside."""
        schema, ours = _read_schema(self._db), _statements(self.migrations)
        parts = [statement.rpartition(")") for statement in ours]
        has_ours = all(any(sql.startswith(head) and sql.endswith(tail) for sql in schema) for head, _, tail in parts)
        is_later = _user_version(self._db) > len(self.migrations) and has_ours
        return all(schema.values()) and (is_later or schema.keys() == ours)


_OPEN: WeakSet[Database] = WeakSet()


def _close_before_fork() -> None:
    """Close the connections: a child that has one would take the locks of its parent for its own."""
    for database in list(_OPEN):
        if database.identity and not database.is_in_use and database._lock.acquire(timeout=BUSY_SECONDS):
            if not database.is_changing:
                database.close()
            database._lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_before_fork)


def _code_of(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _is_damage(error: sqlite3.Error) -> bool:
    return _code_of(error) in _DAMAGE_CODES


def _read_schema(db: sqlite3.Connection) -> dict[str, bool]:
    """Return the statements that made the schema, and False for those that made neither a table nor an index."""
    rows = db.execute("SELECT CAST(sql AS BLOB), type IN ('table', 'index') FROM sqlite_schema WHERE sql IS NOT NULL")
    schema = {_decode_damaged(sql): bool(is_table) for sql, is_table in rows}
    schema.pop(_SEQUENCES, None)
    return schema


def _statements(scripts: Sequence[str]) -> set[str]:
    return {statement.strip() for script in scripts for statement in script.split(";")}


def _decode_damaged(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")  # no path has a backslash


def _make_file(folder: Folder, name: str) -> None:
    try:
        for suffix in SIDE_FILES:  # SQLite would take those of a database that was deleted for its own
            with suppress(FileNotFoundError):
                folder.unlink(name + suffix)
    except (IsADirectoryError, PermissionError):  # a folder, for which systems have either error
        rename_damaged(folder, name)
    os.close(folder.open_file(name, CREATE))
    folder.sync()


def migrate(db: sqlite3.Connection, migrations: Sequence[str]) -> None:
    """Run the scripts that were not run yet; a database of a later version stays as it is."""
    for number, script in enumerate(migrations, 1):
        if _user_version(db) < number:
            db.executescript(f"BEGIN IMMEDIATE; {script}; PRAGMA user_version = {number}; COMMIT")


def retry_while_busy(run: Callable[[], Result], wait: float = LOCK_SECONDS) -> Result:
    """Return the result of a function that needs a lock of SQLite's. Raises Busy after `wait` seconds."""
    ends = time.monotonic() + wait
    while True:
        try:
            return run()
        except sqlite3.OperationalError as error:
            if _code_of(error) != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > ends:
                raise Busy(f"another process has been writing for more than {wait:g} seconds") from None


def find_set_aside(folder: Folder) -> list[str]:
    """Return the names of damaged databases that were set aside."""
    return sorted(name for name in folder.names() if DAMAGED_MARK in name and not name.endswith(SIDE_FILES))


def rename_damaged(folder: Folder, name: str) -> None:
    """Give a database and its log a name that says that it is damaged. Raises OSError."""
    new = f"{name}{DAMAGED_MARK}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    while new in folder.names():  # set aside in the same second
        new += "+"
    for suffix in (*SIDE_FILES, ""):
        with suppress(FileNotFoundError):
            folder.rename(name + suffix, folder, new + suffix)


def connect(path: str) -> sqlite3.Connection:
    """Open a database for writing; without a log where no memory can be shared. Raises sqlite3.Error, Busy."""
    db = _open_connection(path)
    try:
        retry_while_busy(lambda: _user_version(db))
    except sqlite3.OperationalError as error:
        db.close()
        if error.sqlite_errorcode not in _UNSHARED_CODES:
            raise
        # no memory can be shared here: alone on the file, SQLite needs none to read the log
        db = _open_connection(path)
        try:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.execute("PRAGMA journal_mode = TRUNCATE")
            db.execute("PRAGMA locking_mode = NORMAL")
            retry_while_busy(lambda: _user_version(db))
        except BaseException:
            db.close()  # it may hold the file
            raise
    return db


def use_log(db: sqlite3.Connection, path: str) -> sqlite3.Connection:
    """Let a new database have a log, if memory can be shared here, and return a new connection."""
    with suppress(sqlite3.OperationalError):
        db.execute("PRAGMA journal_mode = WAL")  # it may succeed, and the next statement fail
    db.close()
    return connect(path)


def _open_connection(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA secure_delete = ON")
    return db


def _user_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
