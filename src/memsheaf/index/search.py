"""The index: what a folder holds, quick to ask and safe to delete.

The files are the truth. A row follows each file by its stamp; a file whose stamp differs is read again, and
one that changed so recently that a second edit could carry the same stamp is read once more. What others did
to the files is put in the journal on the way, and MEMORY.md follows.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from types import MappingProxyType

from memsheaf.errors import Busy, Changed, MemsheafError, PathRefused, StoreFailed, TextRefused
from memsheaf.guard.paths import CATALOG, fold, listable
from memsheaf.index.catalog import MAX_LINES, MAX_PINNED, Page, Ranking, Sheet, section_of
from memsheaf.index.database import (
    LISTED,
    RANK,
    ROW,
    SCHEMA,
    UNUSABLE,
    WAITING,
    Filling,
    Notes,
    Row,
    Stale,
    alike,
    base_of,
    connect,
    connect_alone,
    delete,
    forget_folders,
    is_free,
    is_kept,
    keep_vectors,
    line,
    mark_gone,
    notes,
    put,
    put_uses,
    set_facts,
    set_marks,
    set_origin,
    shrink,
    tidy,
    wipe_rows,
    writing,
)
from memsheaf.index.lexical import TEXT_WEIGHT, WEIGHED, Hit, Lexicon, enough, put_words
from memsheaf.memory import KINDS, Memory, parse
from memsheaf.store import ABSENT, Commit, ScanEntry, Stamp, Version
from memsheaf.store.folder import FolderStore
from memsheaf.store.git_checkout import head_of
from memsheaf.values import NamedTuple, sha256

# Known to type checkers under this name: nothing of vectors is loaded before somebody searches.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from memsheaf.embed import Embedder
    from memsheaf.index.embedding import Embedding, Near, Vectors

    T = TypeVar("T")

WATCHED = 200  # files that every look examines: all of a small folder, what the catalog shows of a large one
SCAN_AT_WILL = 5_000
SWEEP_SHARE = 100  # a sweep of everything takes at most 1/100 of the time
LEAST = MAX_LINES + MAX_PINNED  # lines of the ranking, below which more are read
KEPT = LEAST + 100
STAT_NS = 6_000  # what a sweep pays for each file, before one was ever timed
FEW = 8  # so many memories of one commit wait with their words until somebody searches
TICK = 0.05  # seconds; no clock of a file system that tells more than seconds ticks slower
RIVALS = 20  # so many near-duplicates are looked at, the likeliest first
READ_AGAIN = 100  # so many new files a look reads once more; the next looks read the next
SHORT_WAIT = 1.0  # seconds that a question waits for a writer before it goes on without telling the journal
TRIES = 3  # to look at vectors while nobody moves one
REPORTED = 200  # so many files are read between two reports
ALONE = 60.0  # seconds that an index of this process's own is used before the shared one is tried again

GONE = "SELECT 1 FROM place WHERE entry < 0 LIMIT 1"  # vectors that the next search wipes

_FAILED = "the disk did not give it when it was last looked at"
_OF_PARENTS: list[sqlite3.Connection | None] = []
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

Known = tuple[int, int, int, int, int, str, int]
_KNOWN = "mtime, ctime, size, inode, id, version, pending"


_ASKED = threading.local()


@contextmanager
def asked_at(moment: float) -> Iterator[None]:
    """In this thread, answer what was asked at that moment (`time.monotonic`): many may share one look since then."""
    _ASKED.at = moment
    try:
        yield
    finally:
        del _ASKED.at


def database_for(root: str, cache: str) -> str:
    """Where the index of a root lives: in the cache directory, never beside files that are synced."""
    name = sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:24]
    return os.path.join(cache, f"{name}-{SCHEMA}.sqlite")


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


class Index:
    """The index of one folder. Several processes and threads may share it.

    `embedder` is asked for one at the first search; without, or when it has none, search goes by words alone.
    """

    kept: list[str]
    """Files that somebody else's MEMORY.md was moved to since this was opened."""

    swept_by_others = False
    """Whether a thread looks now and then with `sweep`, so that nobody who asks has to wait for it."""

    _ranking: Ranking | None
    _watched: dict[str, Stamp] | None
    _lexicon: Lexicon
    _alone_since: float

    def __init__(
        self,
        store: FolderStore,
        database: str,
        *,
        read_only: bool = False,
        embedder: Callable[[], Embedder | None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._database = database
        self._read_only = read_only
        self._embedder = embedder
        self._clock = clock
        self._by_text = bool(store.checkout)
        self._made: Vectors | None = None
        self._guard = threading.RLock()
        self._reports: dict[int, Callable[[int], None]] = {}
        self.kept = []
        self._committing = 0
        self._looked_at = 0.0
        self._db: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._forget_all()

    def look(self, *, thorough: bool = False, sweep: bool = False) -> bool:
        """Notice what changed since the last look, journal it, and bring the catalog up to date.

        A look examines the folders, and up to 200 files: all of a small scope, those the catalog shows of a
        large one. It examines everything when a file came or went, on first use and when `thorough` (up to 5,000
        files), and from time to time: so often that it takes one hundredth of the time. Where somebody else sees to
        that (`swept_by_others`), in a large scope it is left to a look that is to `sweep`. Inside `asked_at`, a look
        that began after that moment is enough.
        """
        with self._guard:
            began = time.monotonic()
            if self._looked_at > getattr(_ASKED, "at", began) and self._looked and not (thorough or sweep):
                return False
            if self._alone_since and abs(self._clock() - self._alone_since) > ALONE:
                self._alone_since = self._clock()
                if is_free(self._database):
                    self.close()
            changed = self._healing(lambda db: self._look(db, thorough, sweep))
            self._looked_at = began
            return changed

    @contextmanager
    def reporting(self, report: Callable[[int], None]) -> Iterator[None]:
        """Meanwhile, a look of this thread that reads many files tells how many; what `report` raises ends it."""
        self.report_to(report)
        try:
            yield
        finally:
            del self._reports[threading.get_ident()]

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Meanwhile a commit of ours changes folders: a look takes that for no reason to examine everything.

        If somebody else changed them, too, the first look after it finds out.
        """
        with self._guard:
            self._committing += 1
        try:
            yield
        finally:
            with self._guard:
                self._committing -= 1

    def report_to(self, report: Callable[[int], None]) -> None:
        """As `reporting`, from now on."""
        self._reports[threading.get_ident()] = report

    def follow(self, commit: Commit, before: Mapping[str, Stamp | None], parsed: Mapping[str, Memory]) -> None:
        """Take over a commit of our own. `before` are the stamps of its folders from just before it."""
        with self._guard:
            try:
                self._follow(self._connection(), commit, before, parsed)
            except (sqlite3.DatabaseError, StoreFailed):  # the commit stands; the next look heals the index
                self._ranking = self._watched = None
                self._looked = False

    @property
    def publishes(self) -> bool:
        """Whether MEMORY.md is ours, as far as the last look saw."""
        return not self._theirs

    def used(self) -> None:
        """Take over, with the next change, what the store was told to have been of use."""
        self._used = True

    def ready(self) -> None:
        """Look once, if nobody did yet: answers about names need the whole folder to be known."""
        if not self._looked:
            self.look()

    def notice(self, paths: Iterable[str]) -> bool:
        """Look at just these files: what a person did to them goes in the journal before what we do."""
        found = list(paths)
        return self._healing(lambda db: self._notice(db, found))

    def folders_of(self, paths: Iterable[str]) -> dict[str, Stamp | None]:
        """The present stamps of the folders that hold these paths."""
        return self._store.stamps(list({path[: path.rfind("/") + 1] for path in paths}))

    def rows(self, where: str = "1", *values: object) -> list[Row]:
        """All rows that match, in the order of their paths."""
        return self._ask(f"SELECT {ROW} FROM entry WHERE version <> '' AND {where} ORDER BY path", *values)

    def part(self, kind: str, limit: int, offset: int) -> tuple[list[Row], int]:
        """Some rows in the order of their paths, and how many there are; `kind` narrows it as in `ranked`."""
        where, values = (" AND kind = ?", (kind,)) if kind and kind != "other" else _of_kind(kind)
        rows = self._ask(
            f"SELECT {ROW} FROM entry WHERE version <> ''{where} ORDER BY path LIMIT ? OFFSET ?",
            *values,
            limit,
            offset,
        )
        sql = f"SELECT count(*) FROM entry WHERE version <> ''{where}"
        return rows, self._healing(lambda db: int(db.execute(sql, values).fetchone()[0]))

    def ranked(self, kind: str, limit: int, offset: int) -> list[Row]:
        """What the catalog may show, most important first; `kind` narrows it, "other" to all unknown types."""
        where, values = _of_kind(kind)
        sql = f"SELECT {ROW} FROM entry WHERE listed = {LISTED}{where} ORDER BY {RANK} LIMIT ? OFFSET ?"
        return self._ask(sql, *values, limit, offset)

    def lines(self) -> tuple[dict[str, str], int]:
        """What the catalog says of each memory that it may show, by path; and how many are unconfirmed."""
        sql = f"SELECT path, line FROM entry WHERE listed = {LISTED}"
        return self._healing(lambda db: (dict(db.execute(sql).fetchall()), notes(db).tally[WAITING]))

    def total(self, kind: str = "") -> int:
        """How many the catalog may show, of one kind or of all."""
        if not kind:
            return self._healing(lambda db: notes(db).tally[LISTED])
        where, values = _of_kind(kind)
        sql = f"SELECT count(*) FROM entry WHERE listed = {LISTED}{where}"
        return self._healing(lambda db: int(db.execute(sql, values).fetchone()[0]))

    def named(self, kind: str, name: str) -> str:
        """The path of the memory that bears this very name, "" when there is none."""
        sql = "SELECT path FROM entry WHERE name = ? AND kind = ? AND version <> '' ORDER BY path"
        return self._healing(lambda db: str((db.execute(sql, (name, kind)).fetchone() or ("",))[0]))

    def same_file(self, path: str) -> list[str]:
        """Paths that are one file with this on a file system that folds case or normalises."""
        sql = "SELECT path FROM entry WHERE fold = ? AND version <> ''"
        return self._healing(lambda db: [found for (found,) in db.execute(sql, (fold(path),))])

    def alike(self, words: Collection[str], *, limit: int = RIVALS) -> list[tuple[str, Version]]:
        """The paths and versions of memories that may be near-duplicates of these words, likely ones first."""
        return self._healing(lambda db: alike(db, words, limit))

    def catalog(self) -> Page:
        """The catalog as MEMORY.md holds it."""
        return self._healing(self._rendered)

    def search(self, query: str, limit: int, *, among: Collection[str] | None = None) -> list[Match]:
        """Memories that hold words of the query or lie near it in meaning, best first.

        With `among`, these files are weighed and no others, however many would be better; 10,000 of them at most.
        """
        query = query.encode("utf-8", "replace").decode()
        if self._embedder and self._healing(is_kept):
            with self._guard:
                vectors = self._vectors()
            vectors.prepare(query)
        with self._guard:
            wanted = self._embedder or self._healing(lambda db: db.execute(GONE).fetchone())
            near = self._vectors().near if wanted else None
            for _ in range(2):
                with suppress(Stale):
                    return self._healing(lambda db: self._search(db, query, limit, near, among))
                self.close()
                self.look()
            return self._healing(lambda db: self._search(db, query, limit, None, among))

    def embedding(self) -> Embedding:
        """How far the vectors are."""
        return self._healing(lambda db: self._vectors().status(db))

    def embed_all(
        self, progress: Callable[[int, int], None] | None = None, *, seconds: float = float("inf")
    ) -> Embedding:
        """Make all vectors that are missing, in this thread; `progress` is told how many of how many are done.

        It ends after about so many seconds, and may be interrupted at any time: what was made is kept.
        """
        if self._healing(is_kept):
            self._vectors().embed_all(progress, seconds=seconds)
        return self.embedding()

    def close(self) -> None:
        """Let the database go."""
        with self._guard:
            self._leave_parent()
            if self._made:
                self._made.stop()
            if self._db:
                self._db.close()
            self._forget_all()

    def delete(self) -> None:
        """Throw everything away, vectors included; the next question builds it again. Raises StoreFailed, Busy."""
        from memsheaf.index import vector_rows

        with self._guard:
            try:
                self._discard()
                vector_rows.remove_all(base_of(self._database))
            except OSError as error:
                raise StoreFailed(f"the index cannot be removed: {error}") from error

    def purge(
        self,
        names: Collection[str],
        texts: Collection[bytes],
        before: Mapping[str, Stamp | None] = MappingProxyType({}),
    ) -> None:
        """Remove what is known of some memories so that no byte of it is left, their vectors included.

        `before` are the stamps of the folders from just before they were erased: if the index knows these, nothing
        else has changed. A database in which it cannot be done is thrown away.
        """
        from memsheaf.index import caches, vector_rows
        from memsheaf.index.vectors import key_of, passages

        base = base_of(self._database)
        told = [parse(name, text) for name in names for text in texts] if vector_rows.files(base) else []
        keys = {key_of(one) for memory in told for one in passages(memory)}
        with self._guard:
            caches.remove(caches.of_other_versions(self._database))
            try:
                db = self._connection()
                wipe_rows(db, names)
                with writing(db):
                    self._ranking = self._watched = None
                    known = notes(db)
                    quiet = [path for path, stamp in known.marks.items() if before.get(path) == stamp]
                    facts = {"journal": int(self._store.last_id() or "0", 16)} if quiet else {}
                    self._publish(db, known.tally, unspoilt=False, folders=quiet, facts=facts)
                vector_rows.wipe(db, base)
                vector_rows.forget(db, base, keys)
                shrink(db)
            except (sqlite3.DatabaseError, OSError, Busy):
                with suppress(OSError, Busy):
                    self._discard()
                    vector_rows.forget(None, base, keys)
            self._ranking = self._watched = None

    def files(self) -> list[str]:
        """The files the index is kept in."""
        from memsheaf.index import caches, vector_rows

        database = [self._database + suffix for suffix in ("", "-wal", "-shm")]
        others = [path for one in caches.of_other_versions(self._database) for path in one.files]
        return [*database, *vector_rows.files(base_of(self._database)).values(), *others]

    def _discard(self) -> None:
        """Throw the database away. The vectors stay: their texts need not be embedded again."""
        self.close()
        with suppress(FileNotFoundError):
            delete(self._database)

    def _vectors(self) -> Vectors:
        self._leave_parent()
        if self._made is None:
            from memsheaf.index.embedding import Vectors

            boot = _number(self._store.boot)
            self._made = Vectors(self._store, self._database, self._embedder, boot=boot, clock=self._clock)
        return self._made

    def _forget_all(self) -> None:
        self._db = None
        self._looked = False
        self._data_version = -1
        self._ranking = None
        self._watched = None
        self._published = b""
        self._theirs = False
        self._used = False
        self._alone_since = 0.0
        self._lexicon = Lexicon()

    def _leave_parent(self) -> None:
        """In a child that was forked, begin anew: SQLite forbids to use a parent's connection, or to close it."""
        if self._process != os.getpid():
            self._process = os.getpid()
            _OF_PARENTS.append(self._db)
            self._made = None
            self._forget_all()

    def _connection(self) -> sqlite3.Connection:
        self._leave_parent()
        if self._db is None:
            try:
                os.makedirs(os.path.dirname(self._database), 0o700, exist_ok=True)
                self._db = connect(self._database)
            except (OSError, Busy, sqlite3.OperationalError):
                self._db = connect_alone()  # no place to keep it: built for this process alone
        return self._db

    def _notice_others(self, db: sqlite3.Connection) -> None:
        """Forget what is kept in this process when another one wrote."""
        version = db.execute("PRAGMA data_version").fetchone()[0]
        if version != self._data_version:
            self._data_version, self._ranking, self._watched = version, None, None

    def _healing(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do it; with a database that is damaged start over, and where none can be had do without."""
        with self._guard, self._made.hushed() if self._made else nullcontext():
            looked = self._looked
            try:
                return work(self._connection())
            except sqlite3.DatabaseError as error:
                is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY
            try:
                if not is_busy:
                    self._discard()
                    return work(self._informed(self._connection(), looked))
            except (sqlite3.DatabaseError, OSError, Busy):
                pass
            db = self._alone()
            self._alone_since = self._clock() if is_busy else 0.0
            return work(self._informed(db, looked))

    def _informed(self, db: sqlite3.Connection, looked: bool) -> sqlite3.Connection:
        """A new database that knows what the one did whose place it takes: an empty one would answer "nothing"."""
        if looked:
            self._look(db, thorough=False, sweep=False)
        return db

    def _alone(self) -> sqlite3.Connection:
        """An index of this process's own: the shared one is kept by another, or cannot be mended."""
        self.close()
        self._db = connect_alone()
        return self._db

    def _ask(self, sql: str, *values: object) -> list[Row]:
        return self._healing(lambda db: [_row(found) for found in db.execute(sql, values)])

    def _notice(self, db: sqlite3.Connection, paths: Sequence[str]) -> bool:
        if self._read_only or not paths:
            return False
        stamps = self._store.stamps(paths)
        verified = notes(db).fact("verified")
        suspects = []
        for path in paths:
            row = db.execute(f"SELECT {_KNOWN} FROM entry WHERE path = ?", (path,)).fetchone()
            if not row or row[4] > verified or row[:4] != stamps[path]:
                suspects.append(path)
        if not suspects:
            return False
        with writing(db):
            self._notice_others(db)
            self._ranking = self._watched = None
            changed = self._examine(db, suspects)
            if changed:
                self._journal(db)
                self._publish_alone(db)
        return changed

    def _look(self, db: sqlite3.Connection, thorough: bool, sweep: bool) -> bool:
        self._notice_others(db)
        known = notes(db)
        self._theirs = bool(known.fact("theirs"))
        if self._read_only:
            self._theirs |= self._store.stamps([CATALOG])[CATALOG] != known.marks.get(CATALOG)
        if self._store.stamps([""])[""] is None:
            return self._has_no_root(db, known)
        if known.rows and known.fact("by_text") != self._by_text:
            try:
                self._discard()  # ranked otherwise: the folder was not in a checkout then, or is not any more
            except (OSError, Busy):
                self._alone()
            return self._look(self._connection(), thorough, sweep)
        head = self._head()
        thorough = (thorough or not self._looked) and known.rows <= SCAN_AT_WILL
        sweep = sweep or not self.swept_by_others or known.rows <= SCAN_AT_WILL
        suspects = None if thorough or self._sweep_is_due(known, sweep) else self._suspects(db, known)
        news = not self._read_only and head != known.fact("head")
        if (suspects == [] and not news) or (suspects == [CATALOG] and self._read_only):
            self._looked = True
            return False
        with writing(db):
            set_origin(db, self._store.root)
            set_facts(db, by_text=self._by_text)
            due = _due(db, known)
            changed = self._sweep(db, due) if suspects is None else self._examine(db, suspects)
            self._verify(db, due if due < known.fact("last") else sys.maxsize)
            if changed or notes(db).fact("last") != known.fact("last"):
                self._ranking = self._watched = None
            if not self._read_only:
                # an index that is built anew must come to the catalog that was there
                self._take_uses(db, take_all=changed and bool(known.fact("swept")))
                changed |= self._journal(db)
                if not db.execute("SELECT 1 FROM entry WHERE pending = 1").fetchone():
                    set_facts(db, head=head)
                self._publish_alone(db)
                set_facts(db, boot=_number(self._store.boot))  # a power cut may spoil it and leave its stamp
        self._looked = True
        return changed

    def _head(self) -> int:
        """Where git's HEAD is, as a number; 0 outside of a checkout, and while git is at work."""
        head = head_of(self._store.checkout) if self._store.checkout else ""
        return _number(head) if head else 0

    def _buries(self, db: sqlite3.Connection) -> bool:
        """Whether a file that is gone was removed by somebody, and not by git with a change of branch."""
        head = self._head()
        return not self._store.checkout or (head != 0 and head == notes(db).fact("head"))

    def _has_no_root(self, db: sqlite3.Connection, known: Notes) -> bool:
        """Nothing was remembered yet, or somebody removed the whole folder; looking creates nothing."""
        self._looked = True
        if not known.rows:
            return False
        try:
            self.delete()
        except (StoreFailed, Busy):
            self._alone()
        return True

    def _sweep_is_due(self, known: Notes, sweep: bool) -> bool:
        if not known.fact("swept") or not sweep:
            return not known.fact("swept")
        pause = max(SWEEP_SHARE * known.fact("cost"), 500_000_000)
        return self._clock() * 1e9 - known.fact("swept") > pause

    def _suspects(self, db: sqlite3.Connection, known: Notes) -> list[str] | None:
        """The paths to read again, [] when nothing looks different; None when everything must be looked at."""
        marks = known.marks
        stamps = self._store.stamps(marks)
        if not self._committing and any(stamps[path] != marks[path] for path in marks if path != CATALOG):
            return None
        if self._watched is None:
            order = f"AND listed = {LISTED} ORDER BY {RANK}" if known.rows > WATCHED else ""
            where = f"WHERE version NOT IN ('', '{UNUSABLE}') {order}"
            sql = f"SELECT path, mtime, ctime, size, inode FROM entry {where} LIMIT {WATCHED}"
            self._watched = {path: (a, b, c, d) for path, a, b, c, d in db.execute(sql)}
        present = self._store.stamps(self._watched)
        suspects = [path for path, stamp in self._watched.items() if present[path] != stamp]
        news = f"SELECT path FROM entry WHERE id > ? AND id <= ? AND version NOT IN ('', '{UNUSABLE}')"
        suspects += [path for (path,) in db.execute(news, (known.fact("verified"), _due(db, known)))]
        if not self._read_only:
            suspects += [path for (path,) in db.execute("SELECT path FROM entry WHERE pending = 1")]
        doubted = not self._looked and known.fact("boot") != _number(self._store.boot)
        if doubted or CATALOG not in marks or stamps[CATALOG] != marks[CATALOG]:
            suspects.append(CATALOG)
        return suspects

    def _examine(self, db: sqlite3.Connection, paths: Iterable[str]) -> bool:
        """Compare some files with their rows."""
        changed = False
        for path in set(paths) - {CATALOG}:
            row = db.execute(f"SELECT {_KNOWN} FROM entry WHERE path = ?", (path,)).fetchone()
            stamp = self._store.stamps([path])[path]
            if stamp is not None:
                changed |= self._compare(db, ScanEntry(path, stamp), row)
            elif row and row[5] != ABSENT:
                mark_gone(db, path)
                changed = True
        return changed

    def _sweep(self, db: sqlite3.Connection, due: int) -> bool:
        """Compare every file with its row, and read again what is new, up to the row `due`."""
        started, now = time.perf_counter_ns(), self._clock()
        known = {row[0]: row[1:] for row in db.execute(f"SELECT path, {_KNOWN} FROM entry")}
        filling = None if known else Filling(db, by_text=self._by_text)
        self._put_words(db, _unworded(db))
        if not self._read_only:
            self._catch_up(db)
        tidy(db, notes(db))
        verified = notes(db).fact("verified")
        folders: dict[str, Stamp | None] = {}
        changed = False
        read, report = 0, self._reports.get(threading.get_ident())
        for entry in self._store.scan():
            if not entry.path or entry.path.endswith("/"):
                folders[entry.path] = entry.stamp
                continue
            row = known.pop(entry.path, None)
            if row is None or verified < row[4] <= due or row[:4] != entry.stamp:
                if filling:
                    memory, entry, usable = self._taken(entry)
                    filling.put(memory, entry.stamp, usable=usable)
                    changed = True
                else:
                    changed |= self._compare(db, entry, row, worded=True)
                read += 1
                if report and read % REPORTED == 0:
                    report(read)
        for path, row in known.items():
            if row[5] != ABSENT:
                mark_gone(db, path)
                changed = True
        if filling:
            filling.close()
        forget_folders(db)
        cost = time.perf_counter_ns() - started
        set_marks(db, folders, swept=int(now * 1e9), cost=cost, worded=notes(db).fact("last"))
        return changed

    def _catch_up(self, db: sqlite3.Connection) -> None:
        """Journal removals of files that this index never saw, when others wrote to the journal."""
        last = self._store.last_id()
        if last and notes(db).fact("journal") != int(last, 16):
            with suppress(StoreFailed, PathRefused, Busy):
                self._store.adopt(None, wait=SHORT_WAIT, bury=self._buries(db))
                set_facts(db, journal=int(self._store.last_id() or "0", 16))

    def _compare(self, db: sqlite3.Connection, entry: ScanEntry, row: Known | None, *, worded: bool = False) -> bool:
        """Read a file that may differ from its row, and bring the row up to date."""
        memory, entry, usable = self._taken(entry)
        same = row is not None and row[5] == (memory.version if usable else UNUSABLE)
        if same and row is not None:
            if row[:4] != entry.stamp:
                put(
                    db,
                    memory,
                    entry.stamp,
                    pending=bool(row[6]),
                    usable=usable,
                    worded=worded,
                    by_text=self._by_text,
                )
                keep_vectors(db, row[4], entry.path)
            return False
        put(db, memory, entry.stamp, pending=usable, usable=usable, worded=worded, by_text=self._by_text)
        return True

    def _taken(self, entry: ScanEntry) -> tuple[Memory, ScanEntry, bool]:
        """What is in a file, the stamp to remember it by, and whether it can be used."""
        memory, usable = self._read(entry)
        if memory.problem == _FAILED:  # the disk, not the file: it is read again at the next look
            entry = entry._replace(stamp=(0, 0, 0, 0))
        return memory, entry, usable

    def _verify(self, db: sqlite3.Connection, due: int) -> None:
        """Call verified what was due and has been read late enough that its stamp is telling."""
        now = self._clock()
        verified = notes(db).fact("verified")
        sql = "SELECT id, mtime, ctime FROM entry WHERE id > ? AND id <= ? ORDER BY id"
        for number, *times in db.execute(sql, (verified, due)).fetchall():
            if _is_racy((*times, 0, 0), now):
                break
            verified = number
        set_facts(db, verified=verified)

    def _read(self, entry: ScanEntry) -> tuple[Memory, bool]:
        """What is in a file, and whether it can be used."""
        problem = entry.problem
        if not problem:
            try:
                return parse(entry.path, self._store.read(entry.path).data), True
            except StoreFailed:
                problem = _FAILED
            except MemsheafError as error:
                problem = str(error)
        return parse(entry.path, b"\0")._replace(problem=problem), False

    def _journal(self, db: sqlite3.Connection) -> bool:
        """Put what others did in the journal."""
        waiting = [path for (path,) in db.execute("SELECT path FROM entry WHERE pending = 1")]
        try:
            if waiting and (commit := self._store.adopt(waiting, wait=SHORT_WAIT, bury=self._buries(db))):
                set_facts(db, journal=int(commit.id, 16))
        except (StoreFailed, PathRefused, Busy):
            return False  # a disk that is full, or a writer at work, hides nothing; they stay pending
        if waiting:
            db.execute("DELETE FROM entry WHERE version = ''")
            db.execute("UPDATE entry SET pending = 0 WHERE pending = 1")
        return bool(waiting)

    def _follow(
        self,
        db: sqlite3.Connection,
        commit: Commit,
        before: Mapping[str, Stamp | None],
        parsed: Mapping[str, Memory],
    ) -> None:
        with writing(db):
            set_origin(db, self._store.root)
            self._notice_others(db)
            # a store keeps more than memories
            names = (one for one in commit.revisions if one.path != CATALOG)
            revisions = [one for one in names if listable(one.path[one.path.rfind("/") + 1 :])]
            stamps = self._store.stamps([CATALOG, *(revision.path for revision in revisions)])
            many = len(revisions) > FEW
            if many:
                known = notes(db)
                self._put_words(db, _unworded(db))
            for revision in revisions:
                path, stamp, entry = revision.path, stamps[revision.path], None
                if revision.new is None or stamp is None:
                    db.execute("DELETE FROM entry WHERE path = ?", (path,))
                else:
                    memory = parsed.get(path) or parse(path, revision.new)
                    entry = put(db, memory, stamp, pending=False, worded=many, by_text=self._by_text)
                if self._ranking and not self._ranking.replace(path, entry):
                    self._ranking = None
            if many:
                set_facts(db, worded=notes(db).fact("last"))
                if known.fact("verified") == known.fact("last"):
                    set_facts(db, verified=_untouched(db, known.fact("last"), commit.placed))
            self._watched = None
            if self._used:
                self._take_uses(db, take_all=True)
            was_empty = many and not known.rows
            known = notes(db)
            marks = known.marks
            quiet = [path for path, stamp in marks.items() if before.get(path) == stamp]
            # unless a commit of others came between
            alone = commit.id and known.fact("journal") == int(commit.follows or "0", 16)
            facts: dict[str, int] = {"by_text": self._by_text}
            facts |= {"journal": int(commit.id, 16)} if alone else {}
            if was_empty and "" in before and before[""] is None:
                # this commit made the folder: all that is in it is known
                quiet.append("")
                facts |= {"swept": int(self._clock() * 1e9), "cost": len(revisions) * STAT_NS}
            unspoilt = stamps[CATALOG] == marks.get(CATALOG)
            self._publish(db, known.tally, unspoilt=unspoilt, folders=quiet, facts=facts)

    def _take_uses(self, db: sqlite3.Connection, *, take_all: bool) -> None:
        found = self._store.uses_from(notes(db).fact("uses"), take_all=take_all)
        if found.days:
            put_uses(db, found.days, int(self._clock() // 86_400), by_text=self._by_text)
            self._ranking = self._watched = None
        set_facts(db, uses=found.end)
        self._used = found.more

    def _publish_alone(self, db: sqlite3.Connection) -> None:
        """Publish when no commit of ours has just changed the root."""
        known, present = notes(db), self._store.stamps([CATALOG, ""])
        marks = known.marks
        folders = [""] if present[""] == marks.get("") else []
        self._publish(db, known.tally, unspoilt=present[CATALOG] == marks.get(CATALOG), folders=folders)

    def _publish(
        self,
        db: sqlite3.Connection,
        tally: Sequence[int],
        *,
        unspoilt: bool,
        folders: Sequence[str],
        facts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Write MEMORY.md unless it is there and right, and remember the stamps that this changed, and `facts`.

        It is `unspoilt` when nobody else touched it; `folders` are those that only we have changed.
        """
        data = self._sheet(db, tally).data
        if unspoilt and self._theirs:
            set_marks(db, self._store.stamps([CATALOG, *folders]), **facts)
            return
        trusted = self._published if unspoilt and self._published else self._store.published(CATALOG)
        try:
            if data != trusted:
                stamps = self._store.publish(CATALOG, data, also=folders, sure=unspoilt)
            else:
                stamps = self._store.stamps([CATALOG, *folders])
                if not unspoilt and not self._store.is_published(CATALOG):
                    self._store.recognise(data)  # the same as ours: a clone's, or the record was lost
            if self._theirs:
                self._store.set_aside(CATALOG, data, wait=SHORT_WAIT)  # it was removed; the journal is told
            self._theirs = False
        except Changed:
            if self._set_aside(db, data):
                self._publish(db, notes(db).tally, unspoilt=False, folders=folders, facts=facts)
                return
            stamps = self._store.stamps([CATALOG, *folders]) if self._theirs else {}
        except (StoreFailed, PathRefused, Busy):
            stamps, data = {}, b""  # a catalog that cannot be written hides no memory; the next look tries again
        self._published = data or self._published
        set_marks(db, stamps, theirs=int(self._theirs), **facts)

    def _set_aside(self, db: sqlite3.Connection, data: bytes) -> bool:
        """Keep what somebody else wrote in the place of the catalog beside it; False when it stays, or is in work."""
        try:
            kept = self._store.set_aside(CATALOG, data, wait=SHORT_WAIT)
        except (PathRefused, TextRefused):
            kept = None  # a link, a folder, or too large: it stays
        except (StoreFailed, Busy, Changed):
            return False  # the next look tries again
        self._theirs = kept is None
        if kept:
            self._examine(db, [kept])
            self._ranking = self._watched = None
            self.kept.append(kept)
        return kept is not None

    def _rendered(self, db: sqlite3.Connection) -> Page:
        self._notice_others(db)
        tally = notes(db).tally
        sheet = self._sheet(db, tally)
        return Page(sheet.data.decode(), sheet.shown, tally[LISTED])

    def _sheet(self, db: sqlite3.Connection, tally: Sequence[int]) -> Sheet:
        ranking = self._ranking
        if ranking is None or (not ranking.complete and len(ranking.lines) < LEAST):
            start = f"SELECT kind, pinned, day, time, path, line FROM entry WHERE listed = {LISTED} AND pinned ="
            # pins beyond those the catalog takes are left out, so that the newest are always among the kept
            rows = db.execute(f"{start} 1 ORDER BY {RANK} LIMIT ?", (MAX_PINNED + 1,)).fetchall()
            rows += db.execute(f"{start} 0 ORDER BY {RANK} LIMIT ?", (KEPT,)).fetchall()
            ranking = self._ranking = Ranking((line(*row) for row in rows), complete=len(rows) == tally[LISTED])
        return ranking.sheet(tally[LISTED], tally[WAITING])

    def _search(
        self,
        db: sqlite3.Connection,
        query: str,
        limit: int,
        look: Callable[[sqlite3.Connection, str], Near | None] | None,
        among: Collection[str] | None = None,
    ) -> list[Match]:
        self._take_in_words(db)
        for _ in range(TRIES):
            near = look(db, query) if look else None
            if near is None:
                break
            if (found := self._matches(db, query, limit, near, among)) is not None:
                return found
        return self._matches(db, query, limit, None, among) or []

    def _matches(
        self, db: sqlite3.Connection, query: str, limit: int, near: Near | None, among: Collection[str] | None
    ) -> list[Match] | None:
        """The best by words, and by what they are near to; None when vectors moved meanwhile."""
        known = notes(db)
        most, also = (WEIGHED, near.nearest) if near else (limit, ())
        chosen = _ids(db, among) if among is not None else None
        if chosen is not None:
            most, also = WEIGHED, [*chosen]
        hits = self._lexicon.ask(db, query, total=known.rows, last=known.fact("last"), limit=most, also=also)
        if chosen is not None:
            hits = [hit for hit in hits if hit.row in chosen and (near or hit.common)]
        marks = ", ".join("?" * len(hits))
        used = "ifnull((SELECT day FROM used WHERE used.path = entry.path), 0)"
        sql = f"SELECT id, {used}, {ROW} FROM entry WHERE id IN ({marks}) AND version NOT IN ('', '{UNUSABLE}')"
        rows = {found[0]: (_row(found[2:]), found[1]) for found in db.execute(sql, [hit.row for hit in hits])}
        hits = [hit for hit in hits if hit.row in rows]
        least = enough(known.rows)
        scores = _by_words(hits, least)
        if near:
            cosines = near.of(db, list(rows))
            if cosines is None:
                return None
            scores = _by_both(hits, near, cosines, least)
        found = [Match(rows[row][0], *numbers, rows[row][1]) for row, numbers in scores.items()]
        return sorted(found, key=lambda match: (-match.score, match.row.path))[:limit]

    def _take_in_words(self, db: sqlite3.Connection) -> None:
        """Bring the full text up to date: a single save does not, whoever searches does."""
        if waiting := _unworded(db):
            with writing(db):
                self._put_words(db, waiting)

    def _put_words(self, db: sqlite3.Connection, waiting: Iterable[tuple[int, str]]) -> None:
        worded = 0
        for number, path in waiting:
            with suppress(MemsheafError):
                put_words(db, number, parse(path, self._store.read(path).data))
            worded = number
        if worded:
            set_facts(db, worded=worded)


class _Numbers(NamedTuple):
    score: float
    common: float
    near: float
    fit: float


def _by_words(hits: Iterable[Hit], least: float) -> dict[int, _Numbers]:
    return {hit.row: _Numbers(TEXT_WEIGHT * hit.share, hit.common, 0.0, hit.common / least) for hit in hits}


def _by_both(hits: Iterable[Hit], near: Near, cosines: Mapping[int, float], least: float) -> dict[int, _Numbers]:
    """The numbers of the rows that share words with the question or stand out as near to it."""
    from memsheaf.index.vectors import NEAR_ENOUGH, fit, fused

    found, usual = {}, near.usual
    for hit in hits:
        cosine = cosines.get(hit.row)
        if cosine is not None and (hit.common or cosine >= usual.mean + NEAR_ENOUGH * usual.spread):
            score = fused(hit.share, cosine, usual)
            found[hit.row] = _Numbers(score, hit.common, cosine, fit(hit.common, cosine, near.enough))
        elif cosine is None and hit.common:  # one that has no vector yet is neither near nor far
            score = fused(hit.share, usual.mean, usual)
            found[hit.row] = _Numbers(score, hit.common, 0.0, hit.common / least)
    return found


def _due(db: sqlite3.Connection, known: Notes) -> int:
    """The last of the new rows that this look reads once more."""
    sql = "SELECT max(id) FROM (SELECT id FROM entry WHERE id > ? ORDER BY id LIMIT ?)"
    return int(db.execute(sql, (known.fact("verified"), READ_AGAIN)).fetchone()[0] or known.fact("last"))


def _untouched(db: sqlite3.Connection, last: int, placed: float) -> int:
    """The row up to which the files behind `last` are older than the moment they were put in place."""
    limit = int((placed - TICK) * 1e9)
    # a clock that tells only seconds tells nothing here
    sql = "SELECT min(id) FROM entry WHERE id > ? AND (mtime >= ? OR mtime % 1000000 = 0)"
    younger = db.execute(sql, (last, limit)).fetchone()[0]
    return int(younger - 1 if younger else db.execute("SELECT max(id) FROM entry").fetchone()[0] or last)


def _unworded(db: sqlite3.Connection) -> list[tuple[int, str]]:
    """The rows whose words the full text does not know yet."""
    sql = "SELECT id, path FROM entry WHERE id > ? AND version <> '' ORDER BY id"
    return db.execute(sql, (notes(db).fact("worded"),)).fetchall()


def _ids(db: sqlite3.Connection, paths: Iterable[str]) -> set[int]:
    """The rows of these files."""
    return {row for path in paths for (row,) in db.execute("SELECT id FROM entry WHERE path = ?", (path,))}


def _row(found: tuple[object, ...]) -> Row:
    return Row(*found[:7], bool(found[7]), *found[8:])  # type: ignore[arg-type, call-arg]


def _of_kind(kind: str) -> tuple[str, tuple[str, ...]]:
    if not kind:
        return "", ()
    if section_of(kind):
        return " AND kind = ?", (kind,)
    return f" AND kind NOT IN ({', '.join('?' * len(KINDS))})", KINDS


def _number(boot: str) -> int:
    """A boot as a number; where boots cannot be told, none is the one before."""
    return int.from_bytes(sha256(boot.encode()).digest()[:6], "big") if boot else time.time_ns()


def _is_racy(stamp: Stamp, now: float) -> bool:
    """Whether a further edit could leave the same stamp: clocks of file systems tick in 4 ms, or in 2 s.

    A time that somebody set, far ahead of now as well, is not told by a clock that ticks.
    """
    return any(abs(now - told / 1e9) < (2.0 if told % 1_000_000 == 0 else TICK) for told in stamp[:2])
