"""The index of one folder: what it holds, quick to ask and safe to delete. The files are the only truth."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from memsheaf.errors import Busy, StoreFailed
from memsheaf.guard.paths import fold
from memsheaf.index.catalog import MAX_BYTES, Page
from memsheaf.index.database import (
    IN_MEMORY,
    LISTED,
    RANK_ORDER,
    ROW_COLUMNS,
    UNUSABLE,
    Embedding,
    Match,
    Row,
    can_compare,
    connect,
    count_memories,
    delete,
    is_kept,
    of_other_versions,
    shrink,
    tally,
    to_row,
    writing,
)
from memsheaf.index.lexical import enough, rank_by_words
from memsheaf.index.refresh import Refresher
from memsheaf.index.rows import find_alike, where_kind, wipe_rows
from memsheaf.index.scoring import score_by_both, score_by_words
from memsheaf.memory import Memory
from memsheaf.store import Commit, Version
from memsheaf.store.folder import FolderStore

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    from memsheaf.encode import Encoder
    from memsheaf.index.vectors import SemanticSearch

T = TypeVar("T")

IN_MEMORY_SECONDS = 60.0  # until a database that could not be written is tried again
MAX_RIVALS = 20  # near-duplicates that are compared with a text, the likeliest first

_OF_PARENTS: list[sqlite3.Connection | None] = []
_ASKED = threading.local()


@contextmanager
def asked_at(moment: float) -> Iterator[None]:
    """In this thread, answer what was asked at that moment (`time.monotonic`): many may share one look since then."""
    _ASKED.at = moment
    try:
        yield
    finally:
        del _ASKED.at


class Index:
    """The index of one folder. Several processes and threads may share it.

    `embedder` is asked for one at the first search; without, or when it has none, search goes by words alone. Where
    there is no place for the database, it is kept in memory, without vectors.
    """

    def __init__(
        self,
        store: FolderStore,
        database: str,
        *,
        read_only: bool = False,
        embedder: Callable[[], Encoder | None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._database = database
        self._embedder = embedder
        self._clock = clock
        self._semantic: SemanticSearch | None = None
        self._guard = threading.RLock()
        self._refresher = Refresher(store, read_only=read_only, clock=clock)
        self.publisher = self._refresher.catalog
        self._looked_at = 0.0
        self._db: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._forget_all()

    def look(self) -> bool:
        """Notice what changed since the last look, journal it, and bring the catalog up to date.

        A look takes the stamp of every file, about 6 µs each. Inside `asked_at`, a look that began after that moment
        is enough.
        """
        with self._guard:
            began = time.monotonic()
            if began > self._in_memory_until:
                self.close()
            if self._looked_at > getattr(_ASKED, "at", began) and self._refresher.has_looked:
                return False
            changed = self.query(self._refresher.look)
            self._refresher.has_looked = True
            self._looked_at = began
            return changed

    @contextmanager
    def reporting(self, report: Callable[[int], None]) -> Iterator[None]:
        """As `report_to`, meanwhile."""
        self.report_to(report)
        try:
            yield
        finally:
            del self._refresher.reports[threading.get_ident()]

    def report_to(self, report: Callable[[int], None]) -> None:
        """From now on, a look of this thread that reads many files tells how many; what it raises ends the look."""
        self._refresher.reports[threading.get_ident()] = report

    def follow(self, commit: Commit, parsed: Mapping[str, Memory]) -> None:
        """Take over a commit of our own."""
        with self._guard:
            try:
                self._refresher.follow(self._connection(), commit, parsed)
            except (sqlite3.DatabaseError, StoreFailed, Busy):  # the commit stands; the next look heals the index
                self._refresher.has_looked = False

    def ready(self) -> None:
        """Look once, if not yet done: answers about names need the whole folder."""
        if not self._refresher.has_looked:
            self.look()

    def notice(self, paths: Iterable[str]) -> bool:
        """Look at just these files: what a person did to them goes in the journal before what we do."""
        files = list(paths)
        return self.query(lambda db: self._refresher.notice(db, files))

    def query(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what a function finds in the database; with one that is damaged, start over.

        While another process writes for long, or was stopped as it did, a database in memory takes the place.
        """
        with self._guard:
            has_looked = self._refresher.has_looked
            try:
                return work(self._connection())
            except sqlite3.DatabaseError as error:
                self._discard(is_sound=_is_full(error) or _is_busy(error))
                if has_looked:  # an empty database would answer "nothing"
                    self._refresher.look(self._connection())
                return work(self._connection())

    def rows(self, where: str = "1", *values: object) -> list[Row]:
        """Return all rows that match, in the order of their paths."""
        sql = f"SELECT {ROW_COLUMNS} FROM entry WHERE version <> '' AND {where} ORDER BY path"
        return [to_row(row) for row in self._select(sql, *values)]

    def ranked(self, kind: str, limit: int, offset: int = 0) -> list[Row]:
        """Return what the catalog may show, most important first; `kind` narrows it, "other" to all unknown types."""
        where, values = where_kind(kind)
        sql = f"SELECT {ROW_COLUMNS} FROM entry WHERE listed = {LISTED}{where} ORDER BY {RANK_ORDER} LIMIT ? OFFSET ?"
        return [to_row(row) for row in self._select(sql, *values, limit, offset)]

    def total(self, kind: str = "") -> int:
        """Return how many the catalog may show, of one kind or of all."""
        where, values = where_kind(kind)
        [(count,)] = self._select(f"SELECT count(*) FROM entry WHERE listed = {LISTED}{where}", *values)
        return int(count)

    def named(self, kind: str, name: str) -> str:
        """Return the path of the memory with exactly this name, "" when there is none."""
        sql = "SELECT ifnull(min(path), '') FROM entry WHERE name = ? AND kind = ? AND version <> ''"
        [(path,)] = self._select(sql, name, kind)
        return str(path)

    def same_file(self, path: str) -> list[str]:
        """Return the paths that are one file with this on a file system that folds case or normalises."""
        sql = (
            "SELECT path FROM entry WHERE path = ?1 AND fold = ?1 AND version <> '' "
            "UNION ALL SELECT path FROM entry WHERE fold = ?1 AND fold <> path AND version <> ''"
        )
        return [other for (other,) in self._select(sql, fold(path))]

    def _select(self, sql: str, *values: object) -> list[Any]:
        return self.query(lambda db: db.execute(sql, values).fetchall())

    def alike(self, words: Collection[str]) -> list[tuple[str, Version]]:
        """Return the paths and versions of memories that may be near-duplicates of these words, likely ones first."""
        return self.query(lambda db: find_alike(db, words, MAX_RIVALS))

    def catalog(self, max_bytes: int = MAX_BYTES) -> Page:
        """Return the catalog as MEMORY.md holds it; with fewer bytes, the best that fit."""
        return self.query(lambda db: self.publisher.page(db, max_bytes))

    def search(self, query: str, limit: int, *, among: Collection[str] | None = None) -> list[Match]:
        """Return memories that hold words of the query or lie near it in meaning, best first.

        With `among`, these files are weighed and no others, however many would be better; 10,000 of them at most.
        """
        query = query.encode("utf-8", "replace").decode()
        question = None
        if self._embedder and self.query(can_compare) and (vectors := self._vectors()):
            question = vectors.prepare(query)  # it may take long, so nobody holds the index meanwhile
        return self.query(lambda db: self._search(db, query, question, among))[:limit]

    def embedding(self) -> Embedding:
        """Return how far the vectors are."""
        if vectors := self._vectors():
            return self.query(vectors.status)
        problem = "search by meaning needs numpy, which cannot be imported" if self._embedder else ""
        return Embedding("", 0, self.query(count_memories), running=False, problem=problem)

    def embed_all(
        self, progress: Callable[[int, int], None] | None = None, *, seconds: float = float("inf")
    ) -> Embedding:
        """Make all missing vectors in this thread; `progress` is called with done and total.

        It ends after about so many seconds, and may be interrupted at any time: what was made is kept.
        """
        vectors = self._vectors()
        if vectors and self.query(is_kept):
            vectors.embed_all(progress, seconds=seconds)
        return self.embedding()

    def close(self) -> None:
        """Let the database go."""
        self._leave_parent()
        if self._semantic:
            self._semantic.stop()
        with self._guard:
            if self._db:
                self._db.close()
            self._forget_all()

    def delete(self) -> None:
        """Throw everything away, vectors included; the next question builds it again. Raises StoreFailed, Busy."""
        self.close()
        try:
            delete(self._database)
        except OSError as error:
            raise StoreFailed(f"the index cannot be removed: {error}") from error

    def purge(self, names: Collection[str]) -> None:
        """Remove what is known of some memories so that no byte of it is left, their vectors included.

        A database in which it cannot be done is thrown away.
        """
        with self._guard:
            for path in of_other_versions(self._database):
                with suppress(OSError):
                    os.unlink(path)
            try:
                db = self._connection()
                with writing(db):
                    wipe_rows(db, names)
                    self._refresher.publish(db)
                shrink(db)
            except (sqlite3.DatabaseError, OSError, Busy):
                self._discard()

    def files(self) -> list[str]:
        """Return the files that the index is kept in."""
        own = [self._database + suffix for suffix in ("", "-wal", "-shm")]
        return own + of_other_versions(self._database)

    def _vectors(self) -> SemanticSearch | None:
        """Return the vectors of this index; None without an embedder, or where numpy is not installed."""
        with self._guard:
            self._leave_parent()
            if self._semantic is None and self._embedder:
                with suppress(ImportError):
                    from memsheaf.index.vectors import SemanticSearch

                    self._semantic = SemanticSearch(
                        self._store, self._database, self._embedder, self.query, clock=self._clock
                    )
            return self._semantic

    def _forget_all(self) -> None:
        self._db = None
        self._in_memory_until = float("inf")
        self._refresher.reset()
        if self._semantic:
            self._semantic.forget()

    def _leave_parent(self) -> None:
        """In a child that was forked, begin anew: SQLite forbids to use a parent's connection, or to close it."""
        if self._process != os.getpid():
            self._process = os.getpid()
            _OF_PARENTS.append(self._db)
            self._semantic = None
            self._forget_all()

    def _connection(self) -> sqlite3.Connection:
        self._leave_parent()
        if self._db is None:
            self._db = self._open()
        return self._db

    def _open(self) -> sqlite3.Connection:
        """Connect to the database, to a new one where it is damaged, or to one in memory where there is no place."""
        with suppress(OSError, Busy):
            os.makedirs(os.path.dirname(self._database), 0o700, exist_ok=True)
            for _ in range(2):
                try:
                    return connect(self._database, self._store.root)
                except sqlite3.DatabaseError as error:
                    if _is_full(error) or _is_busy(error):
                        break
                    delete(self._database)
        self._in_memory_until = time.monotonic() + IN_MEMORY_SECONDS
        return connect(IN_MEMORY)

    def _discard(self, *, is_sound: bool = False) -> None:
        """Throw the database away; one that is sound, or cannot be removed, is replaced by one in memory."""
        if self._db:
            self._db.close()
        self._forget_all()
        with suppress(OSError):
            if not is_sound:
                delete(self._database)
                return
        self._db = connect(IN_MEMORY)
        self._in_memory_until = time.monotonic() + IN_MEMORY_SECONDS

    def _search(
        self,
        db: sqlite3.Connection,
        query: str,
        question: NDArray[float32] | None,
        among: Collection[str] | None,
    ) -> list[Match]:
        """Return all matches, best first."""
        near = None
        if self._semantic and question is not None:
            near = self._semantic.compare(db, question)
        entries = near.nearest if near else []
        if among is not None:
            sql = "SELECT id FROM entry WHERE path = ?"
            entries = [entry for path in among for (entry,) in db.execute(sql, (path,))]
        total = sum(tally(db))
        ranked = rank_by_words(db, query, total=total, also=entries)
        hits = {hit.row: hit for hit in ranked if among is None or hit.row in entries}
        cosines = near.cosines_of(list(hits)) if near else {}
        marks = ", ".join("?" * len(hits))
        sql = (
            f"SELECT id, ifnull(used.day, 0), {ROW_COLUMNS} FROM entry LEFT JOIN used USING (path)"
            f" WHERE id IN ({marks}) AND version NOT IN ('', '{UNUSABLE}')"
        )
        matches = []
        for entry, day, *row in db.execute(sql, list(hits)):
            hit = hits[entry]
            if near and entry in cosines:
                score = score_by_both(hit, cosines[entry], near.calibration)
            elif hit.common:  # also one that has no vector yet
                score = score_by_words(hit, enough(total))
            else:
                continue
            matches.append(Match(to_row(row), *score, day))
        return sorted(matches, key=lambda match: (-match.score, match.row.path))


def _is_busy(error: sqlite3.DatabaseError) -> bool:
    """Return True if another process is in the way: then the database is sound."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _is_full(error: sqlite3.DatabaseError) -> bool:
    """Return True if there is no room on the disk: then the database is sound."""
    return getattr(error, "sqlite_errorcode", 0) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
