"""Opening the SQLite databases that are kept for good: private, durable, and with the tables of this version.

Write-ahead logging is used where the file system can share memory between processes, a rollback journal elsewhere.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TypeVar
from urllib.parse import quote

from memsheaf.errors import Busy, PathRefused
from memsheaf.store.safe_dir import CREATE, Folder, kernel_lock

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
"""What SQLite says where a log needs memory that processes share, and there is none."""

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


def open_database(path: str, migrations: Sequence[str]) -> sqlite3.Connection:
    """Open a database, and make it or its missing tables.

    `migrations` are SQL scripts, of which `user_version` says how many were run.

    Raises:
        sqlite3.DatabaseError: it cannot be opened; `is_damage` tells whether it is damaged.
        Busy, OSError, PathRefused.
    """
    folder, name = os.path.split(path)
    if not os.path.lexists(path):
        with Folder.open(folder, create=True) as opened, kernel_lock(opened, f"{name}.lock", wait=LOCK_SECONDS):
            if not os.path.lexists(path):
                make_file(opened, name)
    elif not os.path.isfile(path) or os.path.islink(path):
        raise PathRefused(path, "it is not a plain file")
    db = connect(path)
    try:
        if _user_version(db) < len(migrations):
            with Folder.open(folder) as opened, kernel_lock(opened, f"{name}.lock", wait=LOCK_SECONDS):
                if not _user_version(db):
                    db = use_log(db, path)
                migrate(db, migrations)
    except BaseException:
        db.close()
        raise
    return db


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
            if (getattr(error, "sqlite_errorcode", 0) & 0xFF) != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > ends:
                raise Busy(f"another process has been writing for more than {wait:g} seconds") from None


def copy_to_memory(path: str, memory: sqlite3.Connection) -> bool:
    """Copy a database, also where nothing can be written; return False if it cannot be read."""
    ends = time.monotonic() + LOCK_SECONDS

    def stop_if_late(*_: int) -> None:
        if time.monotonic() > ends:  # SQLite would try for ever while another process holds the file
            raise sqlite3.OperationalError("database is locked")

    for options in ("mode=ro", "mode=ro&immutable=1"):  # the second passes over a log that only a writer can read
        uri = f"file:{quote(path)}?{options}"
        with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as source:
            source.backup(memory, progress=stop_if_late)
            return True
    return False


def is_damage(error: sqlite3.Error) -> bool:
    """Return True if an error says that the file is no database, or a damaged one."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _DAMAGE_CODES


def make_file(folder: Folder, name: str) -> None:
    """Make the empty file of a new database. Raises OSError."""
    for suffix in SIDE_FILES:  # SQLite would take those of a database that was deleted for its own
        with suppress(FileNotFoundError):
            folder.unlink(name + suffix)
    os.close(folder.open_file(name, CREATE))


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
