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
                    self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                    self._is_durable = durable
                retry_while_busy(lambda: self._db.execute("BEGIN IMMEDIATE"), wait)
                yield self._db
                retry_while_busy(lambda: self._db.execute("COMMIT"))
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
            problem = str(self.rows("PRAGMA quick_check(1)")[0][0])
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
        """Return a copy in memory, also where nothing can be written. Raises DatabaseFailed."""
        copy = cls.in_memory()
        for options in ("mode=ro", "mode=ro&immutable=1"):  # the second passes over a log that only a writer can read
            uri = f"file:{quote(folder.name_for_others(cls.name))}?{options}"
            with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as source:
                source.backup(copy._db)
                migrate(copy._db, cls.migrations)
                return copy
        raise DatabaseFailed(errno.EIO, f"{cls.name} cannot be read")

    @classmethod
    def identify(cls, folder: Folder) -> tuple[int, ...]:
        """Tell the database in a folder, and its log, from others; () if there is none.

        Raises:
            PathRefused: it is a link, or no plain file.
        """
        try:
            status = folder.stat(cls.name)
        except FileNotFoundError:
            return ()
        if not stat.S_ISREG(status.st_mode):
            raise PathRefused(cls.name, "it is not a plain file")
        with suppress(FileNotFoundError):
            return status.st_dev, status.st_ino, folder.stat(f"{cls.name}-wal").st_ino
        return status.st_dev, status.st_ino, 0

    @classmethod
    def open(cls, folder: Folder, known: Self | None, *, create: bool = False) -> Self | None:
        """Return the database in a folder: the known one if that is still it, or else it is opened; None without one.

        To `create` it or its missing tables, and to set aside what is damaged, the caller holds a lock.

        Raises:
            OSError, PathRefused, Busy.
            Damaged: it cannot be used as it is.
        """
        identity = cls.identify(folder)
        if known and identity and known.identity == identity and not known.is_damaged:
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
    def _open(cls, folder: Folder, *, create: bool, is_suspect: bool) -> Self:
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
        version = _user_version(self._db)
        if version < len(self.migrations):
            if not create:
                raise Outdated(f"{self.name} has the tables of an earlier version")
            if not version:
                with suppress(sqlite3.OperationalError):
                    self._db.execute("PRAGMA journal_mode = WAL")
                self._db.close()
                self._db = connect(path)  # without a log where no memory can be shared
            migrate(self._db, self.migrations)
        schema = self._db.execute("SELECT type, sql FROM sqlite_schema").fetchall()
        ours = {statement.strip() for script in self.migrations for statement in script.split(";")}
        is_ours = version > len(self.migrations) or {sql for _, sql in schema if sql} - {_SEQUENCES} == ours
        if is_ours and {kind for kind, _ in schema} <= {"table", "index"}:
            return ""
        return "its tables are not ours"


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


def _make_file(folder: Folder, name: str) -> None:
    for suffix in SIDE_FILES:  # SQLite would take those of a database that was deleted for its own
        with suppress(FileNotFoundError):
            folder.unlink(name + suffix)
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
            if (error.sqlite_errorcode & 0xFF) != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > ends:
                raise Busy(f"another process has been writing for more than {wait:g} seconds") from None


def find_set_aside(folder: Folder) -> list[str]:
    """Return the names of damaged databases that were set aside."""
    return sorted(name for name in folder.names() if DAMAGED_MARK in name and not name.endswith(SIDE_FILES))


def rename_damaged(folder: Folder, name: str) -> None:
    """Give a database and its log a name that says that it is damaged. Raises OSError."""
    new = f"{name}{DAMAGED_MARK}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
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
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = TRUNCATE")
        db.execute("PRAGMA locking_mode = NORMAL")
        retry_while_busy(lambda: _user_version(db))
    return db


def _open_connection(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA secure_delete = ON")
    return db


def _user_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
