"""The state of a home: what is kept about its folders outside of them, in the state directory of the platform.

`state.db` there has it for all roots. A folder for each root has spilled texts, conversations of `memsheaf chat`, the
copy of a hub, and what versions before `state.db` wrote. Losing the state costs what has not been learned yet and who
is trusted, never a memory.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from shutil import rmtree
from typing import Any

from memsheaf.errors import Busy, PathRefused, StoreFailed
from memsheaf.scope import parse_json
from memsheaf.state.old_files import OldFile, find_pending, find_reader, take_in
from memsheaf.store.safe_dir import Folder, append, kernel_lock, read_file, replace
from memsheaf.store.sqlite_file import (
    LOCK_SECONDS,
    SIDE_FILES,
    Damaged,
    Database,
    DatabaseFailed,
    Outdated,
    find_set_aside,
    is_in_hook,
)

LIMIT = 64 * 1024 * 1024
DATABASE = "state.db"
LOCK = f"{DATABASE}.lock"
DATABASE_FILES = (DATABASE, *(DATABASE + suffix for suffix in SIDE_FILES))
MAX_OPEN_DATABASES = 8
IMPORT_WAIT_SECONDS = 0.2  # of a reader, for others that write; then it reads the older files for itself
MAX_HOOK_IMPORT_BYTES = 524_288  # of older files that a hook reads; more wait for a command or the worker
_NAME = 24  # digits of the hash that names a root's folder

MIGRATIONS = (
    """
CREATE TABLE old_file (
  folder TEXT, name TEXT, inode INTEGER, mtime INTEGER, size INTEGER, done INTEGER, is_appended INTEGER,
  PRIMARY KEY (folder, name)) WITHOUT ROWID;
CREATE TABLE spend (
  id TEXT PRIMARY KEY, day TEXT NOT NULL, purpose TEXT NOT NULL, model TEXT NOT NULL, open INTEGER DEFAULT 1,
  input INTEGER NOT NULL, output INTEGER NOT NULL, failures INTEGER DEFAULT 0, seconds REAL DEFAULT 0);
CREATE INDEX spend_by_day ON spend (day)""",
    """
CREATE TABLE note (folder TEXT, name TEXT, value TEXT NOT NULL, PRIMARY KEY (folder, name)) WITHOUT ROWID;
CREATE TABLE recall (
  id INTEGER PRIMARY KEY, folder TEXT NOT NULL, at TEXT NOT NULL, message TEXT NOT NULL, paths TEXT NOT NULL);
CREATE INDEX recall_by_folder ON recall (folder, id)""",
    """
CREATE TABLE turn (
  number INTEGER PRIMARY KEY AUTOINCREMENT, folder TEXT NOT NULL, conversation TEXT NOT NULL, at TEXT NOT NULL,
  saved INTEGER NOT NULL, part_of INTEGER NOT NULL, messages TEXT NOT NULL, keys TEXT NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0, old_number INTEGER);
CREATE INDEX turn_by_folder ON turn (folder, number);
CREATE TABLE known_message (id INTEGER PRIMARY KEY, folder TEXT, digest TEXT, UNIQUE (folder, digest));
CREATE TABLE heard (
  folder TEXT, conversation TEXT, latest TEXT NOT NULL DEFAULT '', learned INTEGER NOT NULL DEFAULT 0,
  first TEXT NOT NULL DEFAULT '', before TEXT NOT NULL DEFAULT '', after TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (folder, conversation)) WITHOUT ROWID;
CREATE TABLE proposal (
  folder TEXT, id TEXT, value TEXT NOT NULL, PRIMARY KEY (folder, id)) WITHOUT ROWID;
CREATE TABLE decision (
  folder TEXT, id TEXT, at REAL NOT NULL, value TEXT NOT NULL, PRIMARY KEY (folder, id)) WITHOUT ROWID""",
    "CREATE INDEX recall_by_time ON recall (folder, at)",
    """
CREATE TABLE trusted (
  id INTEGER PRIMARY KEY AUTOINCREMENT, folder TEXT NOT NULL, path TEXT NOT NULL, version TEXT NOT NULL,
  UNIQUE (folder, path, version));
CREATE INDEX trusted_by_folder ON trusted (folder, id)""",
)
"""The scripts that make the tables, one for each version of the schema. Add to them, and change none."""

TABLES_BY_FOLDER = ("old_file", "note", "recall", "turn", "known_message", "heard", "proposal", "decision", "trusted")


class _StateDatabase(Database):
    """The tables of all roots."""

    name = DATABASE
    migrations = MIGRATIONS


class _Shared:
    """The `state.db` of a state directory, opened once for each process. Threads take turns."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.path = os.path.join(directory, DATABASE)
        self.lock = threading.RLock()
        self.known: _StateDatabase | None = None

    def open(self, *, replace: bool) -> _StateDatabase:
        """Return the database; it is made if there is none, and a damaged one is replaced.

        Raises:
            Busy, StoreFailed.
            Damaged: it is, and was not to be replaced.
        """
        if self.known and self.known.is_changing:
            return self.known
        with _told(f"{self.path} cannot be written"), Folder.open(self.directory, create=True) as folder:
            try:
                self.known = _StateDatabase.open(folder, self.known)
            except Damaged as error:
                if not replace and not isinstance(error, Outdated):
                    raise
            if self.known is None or not self.known.identity:
                with kernel_lock(folder, LOCK, wait=LOCK_SECONDS):
                    self.known = _StateDatabase.open(folder, self.known, create=True)
        assert self.known
        return self.known

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Say in our own words why the database cannot be written, and set it aside if it is damaged."""
        try:
            yield
        except DatabaseFailed as error:
            if self.known and self.known.is_damaged:
                self.open(replace=True)
                raise StoreFailed(f"{self.path} was damaged, and set aside for a new one: {error}") from error
            raise StoreFailed(f"{self.path} cannot be written: {error.strerror}") from error

    def is_writable(self) -> bool:
        """Return True if there is a file that can be written."""
        return os.path.isfile(self.path) and os.access(self.path, os.W_OK)

    def close(self) -> None:
        """Close the database."""
        if self.known:
            self.known.close()
        self.known = None


_DATABASES: OrderedDict[tuple[int, str], _Shared] = OrderedDict()  # by process, as a fork must not share one


def _database_at(directory: str) -> _Shared:
    key = os.getpid(), directory
    database = _DATABASES.setdefault(key, _Shared(directory))
    _DATABASES.move_to_end(key)
    for oldest in list(_DATABASES.values())[:-MAX_OPEN_DATABASES]:
        if oldest.lock.acquire(blocking=False):
            oldest.close()
            oldest.lock.release()
    return database


def check(directory: str) -> Iterator[tuple[str, str, str]]:
    """Yield a path, a problem and an advice for what is damaged or was."""
    path = os.path.join(directory, DATABASE)
    with suppress(FileNotFoundError), Folder.open(directory) as folder:
        try:
            known = _StateDatabase.open(folder, None)
            problem = known.find_damage() if known else ""
        except Outdated:
            problem = ""
        except Damaged as error:
            problem = str(error)
        except (OSError, PathRefused) as error:
            problem = ""
            advice = "the memories are not affected; let this user write it, or move it away"
            yield path, f"it cannot be used: {error}", advice
        if problem:
            yield path, f"it is damaged: {problem}", "the memories are not affected; the next change sets it aside"
        for name in find_set_aside(folder):
            damaged = os.path.join(directory, name)
            advice = f"`sqlite3 {damaged} .recover` shows what can be recovered; then remove it"
            yield damaged, "the state was damaged, and begun again: inbox, review queue, spending, trust", advice


class State:
    """The state of one root: rows in `state.db`, and a folder of files.

    Nothing is created before something is written. What cannot be read is nothing, never an error: a state that was
    lost or damaged is begun again.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @classmethod
    def of(cls, root: str, state: str) -> State:
        """Return the state of a root, in the state directory."""
        name = sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:_NAME]
        return cls(os.path.join(state, name))

    def beside(self) -> list[State]:
        """Return the states of all roots that are kept in the same directory, this one among them."""
        directory = os.path.dirname(self.folder)
        names = {name for table in TABLES_BY_FOLDER for (name,) in self.query(f"SELECT DISTINCT folder FROM {table}")}
        with suppress(OSError), os.scandir(directory) as entries:
            names |= {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        return [State(os.path.join(directory, name)) for name in sorted(names) if len(name) == _NAME]

    @property
    def name(self) -> str:
        """The name of the folder, by which `state.db` knows what is about this root."""
        return os.path.basename(self.folder)

    def query(self, sql: str, *values: object) -> list[Any]:
        """Return rows of `state.db`, and of what an earlier version left; none if it is damaged. Raises Busy."""
        database = self._database
        with database.lock, suppress(OSError, StoreFailed, Damaged):
            if database.is_writable():
                db = database.open(replace=False)
                pending = [] if db.is_changing else self._find_pending(db)
                if pending:
                    with suppress(Busy, StoreFailed):
                        with self.writing(durable=False, wait=IMPORT_WAIT_SECONDS):
                            pass  # it takes them in
                        pending = []
                if not pending:
                    try:
                        return db.rows(sql, *values)
                    finally:
                        db.is_damaged = False  # only who writes replaces it
            copy = _StateDatabase.in_memory()
            with suppress(DatabaseFailed), Folder.open(database.directory) as folder:
                copy = _StateDatabase.copy(folder)
            with copy.writing() as connection:
                take_in(connection, self.folder, self._find_pending(copy))
            return copy.rows(sql, *values)
        return []

    @contextmanager
    def writing(self, *, durable: bool = True, wait: float = LOCK_SECONDS) -> Iterator[sqlite3.Connection]:
        """Change `state.db` in one transaction, with what an earlier version left. Raises StoreFailed, Busy.

        What is not `durable` may get lost with the power, but never a part of it.
        """
        database = self._database
        with database.lock, database.translated():
            db = database.open(replace=True)
            with db.writing(durable=durable, wait=wait) as connection:
                take_in(connection, self.folder, self._find_pending(db))
                yield connection

    def load(self, name: str) -> Any:
        """Return what was noted under a name; None if there is nothing."""
        rows = self.query("SELECT value FROM note WHERE folder = ? AND name = ?", self.name, name)
        return parse_json(rows[0][0]) if rows else None

    def load_all(self) -> dict[str, Any]:
        """Return all that was noted, by name."""
        rows = self.query("SELECT name, value FROM note WHERE folder = ?", self.name)
        return {name: parse_json(value) for name, value in rows}

    def save(self, name: str, value: object, *, durable: bool = True) -> None:
        """Note a value that JSON can have; None removes it. Raises StoreFailed, Busy."""
        with self.writing(durable=durable) as db:
            if value is None:
                db.execute("DELETE FROM note WHERE folder = ? AND name = ?", (self.name, name))
            else:
                db.execute("INSERT OR REPLACE INTO note VALUES (?, ?, ?)", (self.name, name, json.dumps(value)))

    def stamp(self) -> object:
        """Return a value that differs once something else waits, to be learned from or for review."""
        return self.query(
            "SELECT (SELECT group_concat(number) FROM turn WHERE folder = ?1),"
            " (SELECT group_concat(id) FROM proposal WHERE folder = ?1),"
            " (SELECT group_concat(id) FROM decision WHERE folder = ?1)",
            self.name,
        )

    def empty_log(self) -> bool:
        """Empty the log of `state.db`, which has what was deleted; return False if another process reads it."""
        database = self._database
        with database.lock, database.translated():
            return database.open(replace=True).empty_log()

    def purge_notes(self, may_stay: Callable[[object], bool]) -> None:
        """Drop the values of objects that may not stay. Raises StoreFailed, Busy."""
        with self.writing():
            for name, known in self.load_all().items():
                if isinstance(known, dict) and not all(map(may_stay, known.values())):
                    self.save(name, {key: value for key, value in known.items() if may_stay(value)})

    def find_traces(self, pieces: Collection[bytes]) -> str:
        """Write `state.db` anew without what was deleted; return why it may still have a piece, "" if it has none."""
        database = self._database
        try:
            with database.lock, database.translated():
                if not database.is_writable():
                    return ""
                db = database.open(replace=True)
                db.rows("VACUUM")
                if not self.empty_log():
                    return "another process reads it, and its log cannot be emptied meanwhile"
                data = db.serialize()
        except (Busy, StoreFailed) as error:
            return str(error)
        return "it has the text" if any(piece in data for piece in pieces) else ""

    def _find_pending(self, db: Database) -> list[OldFile]:
        """Return the files of an earlier version that are to be read first."""
        pending = find_pending(db.rows, self.folder)
        is_too_much = sum(file.size for file in pending) > MAX_HOOK_IMPORT_BYTES
        return [] if is_too_much and is_in_hook() else pending

    @property
    def _database(self) -> _Shared:
        return _database_at(os.path.dirname(self.folder))

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file, None if it is not there or cannot be read."""
        try:
            with Folder.open(self.folder) as folder:
                return read_file(folder, name, LIMIT)
        except (OSError, PathRefused):
            return None

    def write(self, name: str, data: bytes) -> None:
        """Put a whole file in place, durably: a reader sees the old or the new one. Raises StoreFailed."""
        with _told(f"{name} in {self.folder!r} cannot be written"), Folder.open(self.folder, create=True) as folder:
            replace(folder, name, data)

    def add(self, name: str, data: bytes, *, durably: bool = True) -> int:
        """Add bytes to a file, in one write; gives its size. A later durable one vouches for all before it.

        Raises StoreFailed.
        """
        with _told(f"{name} in {self.folder!r} cannot be written"), Folder.open(self.folder, create=True) as folder:
            if not (size := append(folder, name, data, durable=durably)):
                folder.sync()
        return size + len(data)

    def lines(self, name: str) -> Iterator[object]:
        """Yield the values that were added to a file, oldest first; lines that cannot be understood are left out."""
        for line in (self.read(name) or b"").split(b"\n"):
            with suppress(ValueError, RecursionError):
                yield json.loads(line)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there. Raises StoreFailed."""
        with (
            _told(f"{name} in {self.folder!r} cannot be removed"),
            suppress(FileNotFoundError),
            Folder.open(self.folder) as folder,
        ):
            folder.unlink(name)

    def names(self, *, drafts: bool = False) -> list[str]:
        """Return the files that are there, sorted, without locks, and with drafts if asked for."""
        try:
            with Folder.open(self.folder) as folder:
                found = sorted(entry.name for entry in folder.scan() if not entry.is_dir(follow_symlinks=False))
        except OSError:
            return []
        found = [name for name in found if not name.endswith(".lock")]
        return found if drafts else [name for name in found if not name.startswith("draft-")]

    def tidy(self, now: float) -> None:
        """Remove drafts that a crash left behind a day ago or earlier."""
        with suppress(OSError), Folder.open(self.folder) as folder:
            for entry in [entry for entry in folder.scan() if entry.name.startswith("draft-")]:
                with suppress(FileNotFoundError):
                    if now - entry.stat(follow_symlinks=False).st_mtime > 86_400:
                        folder.unlink(entry.name)

    def absorb(self, other: State) -> None:
        """Take over all that another state has, which is then gone. Raises StoreFailed, Busy.

        Where both have a value, this state's stands; lists and objects are joined. Doing it again after a crash
        completes it.
        """
        with self.writing() as db, other.writing():
            for name, text in db.execute("SELECT name, value FROM note WHERE folder = ?", (other.name,)).fetchall():
                self._join(name, json.loads(text))
            for table in TABLES_BY_FOLDER:
                db.execute(f"UPDATE OR IGNORE {table} SET folder = ? WHERE folder = ?", (self.name, other.name))
                db.execute(f"DELETE FROM {table} WHERE folder = ?", (other.name,))
        with (
            _told(f"the state in {self.folder!r} cannot be moved"),
            suppress(FileNotFoundError),
            Folder.open(other.folder) as theirs,
        ):
            with Folder.open(self.folder, create=True) as ours:
                for name in other.names():
                    if find_reader(name, other.name):
                        continue  # it was taken in
                    if name not in self.names():
                        theirs.rename(name, ours, name)
                    elif (data := other.read(name)) and data != self.read(name):
                        self.add(name, b"\n" + data)
                ours.sync()
            rmtree(other.folder, ignore_errors=True)  # locks, drafts, and the copy of a hub, which is fetched again

    def drop_old_files(self) -> None:
        """Take in what is left of earlier versions' files, and delete them. Raises StoreFailed, Busy."""
        with self.writing():
            pass
        for name in self.names():
            if find_reader(name, self.name):
                self.remove(name)
        with self.writing() as db:
            db.execute("DELETE FROM old_file WHERE folder = ?", (self.name,))

    def _join(self, name: str, theirs: object) -> None:
        """Put a value that another state has to what this one has."""
        ours = self.load(name)
        if isinstance(ours, list) and isinstance(theirs, list):
            self.save(name, ours + [item for item in theirs if item not in ours])
        elif isinstance(ours, dict) and isinstance(theirs, dict):
            self.save(name, theirs | ours)

    @contextmanager
    def lock(self, name: str, *, wait: float = 0.0) -> Iterator[None]:
        """Be the only process that does this; the kernel frees it when its holder dies. Raises Busy, StoreFailed."""
        with ExitStack() as held:
            with _told(f"the state directory {self.folder!r} cannot be used"):
                folder = held.enter_context(Folder.open(self.folder, create=True))
                held.enter_context(kernel_lock(folder, f"{name}.lock", wait=wait))
            yield


def line(value: object) -> bytes:
    """One line of JSON. Half characters, which a host's text may hold, come back as they were."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode("utf-8", "surrogatepass") + b"\n"


@contextmanager
def _told(trouble: str) -> Iterator[None]:
    """Say in our own words what the disk refused."""
    try:
        yield
    except OSError as error:
        raise StoreFailed(f"{trouble}: {error.strerror or error}") from error
    except PathRefused as error:
        raise StoreFailed(f"{trouble}: {error.why}") from error
