"""The index of one folder: what it holds, quick to ask and safe to delete. The files are the only truth."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, TypeVar

from memsheaf.errors import Busy, StoreFailed
from memsheaf.guard.paths import fold
from memsheaf.index.catalog import MAX_BYTES, Line, Page, line
from memsheaf.index.database import (
    LISTED,
    RANK,
    ROW,
    UNUSABLE,
    WAITING,
    Match,
    Row,
    can_compare,
    connect,
    connect_alone,
    delete,
    ids_of,
    is_free,
    is_kept,
    notes,
    row_of,
    shrink,
)  # fmt: skip
from memsheaf.index.lexical import TEXT_WEIGHT, WEIGHED, Lexicon, enough
from memsheaf.index.refresh import Rebuild, Refresher
from memsheaf.index.rows import Traces, where_kind, wipe_rows
from memsheaf.memory import Memory, parse
from memsheaf.store import Commit, Version
from memsheaf.store.folder import FolderStore

if TYPE_CHECKING:
    from memsheaf.embed import Embedder
    from memsheaf.index.embedding import Embedding, SemanticSearch
    from memsheaf.index.scoring import Near


T = TypeVar("T")

RIVALS = 20  # so many near-duplicates are looked at, the likeliest first
ORPHANS = "SELECT 1 FROM vector WHERE entry IS NULL LIMIT 1"  # vectors that the next search deletes

_OF_PARENTS: list[sqlite3.Connection | None] = []
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
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

    `embedder` is asked for one at the first search; without, or when it has none, search goes by words alone.
    """

    _lexicon: Lexicon
    _traces: Traces

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
        self._embedder = embedder
        self._clock = clock
        self._semantic: SemanticSearch | None = None
        self._guard = threading.RLock()
        self._refresher = Refresher(store, read_only=read_only, clock=clock)
        self._looked_at = 0.0
        self._db: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._forget_all()

    def look(self) -> bool:
        """Notice what changed since the last look, journal it, and bring the catalog up to date.

        A look takes the stamp of every file, about 5 µs each. Inside `asked_at`, a look that began after that moment
        is enough.
        """
        with self._guard:
            began = time.monotonic()
            if self._looked_at > getattr(_ASKED, "at", began) and self._refresher.has_looked:
                return False
            if self._db and not is_kept(self._db) and is_free(self._database):
                self.close()  # nobody is in the way of the shared database any more
            changed = self._healing(self._look)
            self._looked_at = began
            return changed

    def reporting(self, report: Callable[[int], None]) -> AbstractContextManager[None]:
        """Meanwhile, a look of this thread that reads many files tells how many; what `report` raises ends it."""
        return self._refresher.reporting(report)

    def report_to(self, report: Callable[[int], None]) -> None:
        """As `reporting`, from now on."""
        self._refresher.report_to(report)

    def follow(self, commit: Commit, parsed: Mapping[str, Memory]) -> None:
        """Take over a commit of our own."""
        with self._guard:
            try:
                self._refresher.follow(self._connection(), commit, parsed)
            except (sqlite3.DatabaseError, StoreFailed):  # the commit stands; the next look heals the index
                self._refresher.catalog.invalidate()
                self._refresher.has_looked = False

    @property
    def publishes(self) -> bool:
        """Whether MEMORY.md is ours, as far as the last look saw."""
        return not self._refresher.catalog.is_foreign

    @property
    def kept(self) -> Sequence[str]:
        """Files that a foreign MEMORY.md was moved to since this was opened."""
        return self._refresher.catalog.moved

    def ready(self) -> None:
        """Scan once, if not yet done: answers about names need the whole folder."""
        if not self._refresher.has_looked:
            self.look()

    def notice(self, paths: Iterable[str]) -> bool:
        """Look at just these files: what a person did to them goes in the journal before what we do."""
        found = list(paths)
        return self._healing(lambda db: self._refresher.notice(db, found))

    def rows(self, where: str = "1", *values: object) -> list[Row]:
        """All rows that match, in the order of their paths."""
        return self._ask(f"SELECT {ROW} FROM entry WHERE version <> '' AND {where} ORDER BY path", *values)

    def query(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What a function finds in the database."""
        return self._healing(work)

    def ranked(self, kind: str, limit: int, offset: int) -> list[Row]:
        """What the catalog may show, most important first; `kind` narrows it, "other" to all unknown types."""
        where, values = where_kind(kind)
        sql = f"SELECT {ROW} FROM entry WHERE listed = {LISTED}{where} ORDER BY {RANK} LIMIT ? OFFSET ?"
        return self._ask(sql, *values, limit, offset)

    def lines(self, paths: Sequence[str]) -> tuple[list[Line], int]:
        """What the catalog says of these memories, best first; and how many are unconfirmed."""
        columns, marks = "kind, pinned, day, time, path, line", ", ".join("?" * len(paths))
        sql = f"SELECT {columns} FROM entry WHERE path IN ({marks}) ORDER BY {RANK}"
        return self._healing(lambda db: ([line(*row) for row in db.execute(sql, paths)], notes(db).tally[WAITING]))

    def total(self, kind: str = "") -> int:
        """How many the catalog may show, of one kind or of all."""
        if not kind:
            return self._healing(lambda db: notes(db).tally[LISTED])
        where, values = where_kind(kind)
        sql = f"SELECT count(*) FROM entry WHERE listed = {LISTED}{where}"
        return self._healing(lambda db: int(db.execute(sql, values).fetchone()[0]))

    def named(self, kind: str, name: str) -> str:
        """The path of the memory with exactly this name, "" when there is none."""
        sql = "SELECT ifnull(min(path), '') FROM entry WHERE name = ? AND kind = ? AND version <> ''"
        return self._healing(lambda db: str(db.execute(sql, (name, kind)).fetchone()[0]))

    def same_file(self, path: str) -> list[str]:
        """Paths that are one file with this on a file system that folds case or normalises."""
        sql = (
            "SELECT path FROM entry WHERE path = ?1 AND fold = ?1 AND version <> '' "
            "UNION ALL SELECT path FROM entry WHERE fold = ?1 AND fold <> path AND version <> ''"
        )
        return self._healing(lambda db: [found for (found,) in db.execute(sql, (fold(path),))])

    def alike(self, words: Collection[str]) -> list[tuple[str, Version]]:
        """The paths and versions of memories that may be near-duplicates of these words, likely ones first."""
        return self._healing(lambda db: self._traces.find(db, words, RIVALS))

    def catalog(self, max_bytes: int = MAX_BYTES) -> Page:
        """The catalog as MEMORY.md holds it; with fewer bytes, the best that fit."""
        return self._healing(lambda db: self._refresher.page(db, max_bytes))

    def search(self, query: str, limit: int, *, among: Collection[str] | None = None) -> list[Match]:
        """Memories that hold words of the query or lie near it in meaning, best first.

        With `among`, these files are weighed and no others, however many would be better; 10,000 of them at most.
        """
        query = query.encode("utf-8", "replace").decode()
        if self._embedder and self._healing(can_compare):
            with self._guard:
                vectors = self._vectors()
            vectors.prepare(query)
        with self._guard:
            wanted = self._embedder or self._healing(lambda db: db.execute(ORPHANS).fetchone())
            near = self._vectors().near if wanted else None
            return self._healing(lambda db: self._search(db, query, limit, near, among))

    def embedding(self) -> Embedding:
        """How far the vectors are."""
        return self._healing(lambda db: self._vectors().status(db))

    def embed_all(
        self, progress: Callable[[int, int], None] | None = None, *, seconds: float = float("inf")
    ) -> Embedding:
        """Make all missing vectors in this thread; `progress` is called with done and total.

        It ends after about so many seconds, and may be interrupted at any time: what was made is kept.
        """
        if self._healing(is_kept):
            self._vectors().embed_all(progress, seconds=seconds)
        return self.embedding()

    def close(self) -> None:
        """Let the database go."""
        with self._guard:
            self._leave_parent()
            if self._semantic:
                self._semantic.stop()
            if self._db:
                self._db.close()
            self._forget_all()

    def delete(self) -> None:
        """Throw everything away, vectors included; the next question builds it again. Raises StoreFailed, Busy."""
        with self._guard:
            try:
                self._discard()
            except OSError as error:
                raise StoreFailed(f"the index cannot be removed: {error}") from error

    def purge(self, names: Collection[str], texts: Collection[bytes]) -> None:
        """Remove what is known of some memories so that no byte of it is left, their vectors included.

        A database in which it cannot be done is thrown away.
        """
        from memsheaf.index import caches
        from memsheaf.index.vectors import delete_texts, key_of, passages

        with self._guard:
            caches.remove(caches.of_other_versions(self._database))
            try:
                db = self._connection()
                wipe_rows(db, names)
                self._refresher.purge(db)
                if db.execute("SELECT 1 FROM vector LIMIT 1").fetchone():
                    memories = [parse(name, text) for name in names for text in texts]
                    delete_texts(db, {key_of(one) for memory in memories for one in passages(memory)})
                shrink(db)
            except (sqlite3.DatabaseError, OSError, Busy):
                with suppress(OSError, Busy):
                    self._discard()
            self._refresher.catalog.invalidate()

    def files(self) -> list[str]:
        """The files the index is kept in."""
        from memsheaf.index import caches

        others = [path for one in caches.of_other_versions(self._database) for path in one.files]
        return [*(self._database + suffix for suffix in ("", "-wal", "-shm")), *others]

    def _discard(self) -> None:
        """Throw the database away."""
        self.close()
        with suppress(FileNotFoundError):
            delete(self._database)

    def _vectors(self) -> SemanticSearch:
        self._leave_parent()
        if self._semantic is None:
            from memsheaf.index.embedding import SemanticSearch

            self._semantic = SemanticSearch(self._store, self._database, self._embedder, clock=self._clock)
        return self._semantic

    def _forget_all(self) -> None:
        self._db = None
        self._refresher.reset()
        self._lexicon = Lexicon()
        self._traces = Traces()

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
            try:
                os.makedirs(os.path.dirname(self._database), 0o700, exist_ok=True)
                self._db = connect(self._database)
            except (OSError, Busy, sqlite3.OperationalError):
                self._db = connect_alone()  # there is no place to keep it
        return self._db

    def _healing(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do it; with a database that is damaged start over, and where none can be had, with one in memory."""
        with self._guard, self._semantic.thread_paused() if self._semantic else nullcontext():
            has_looked = self._refresher.has_looked
            try:
                return work(self._connection())
            except sqlite3.DatabaseError as error:
                is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in _BUSY
            if not is_busy:
                with suppress(sqlite3.DatabaseError, OSError, Busy):
                    self._discard()
                    return work(self._filled(has_looked))
            self._use_memory()
            return work(self._filled(has_looked))

    def _filled(self, has_looked: bool) -> sqlite3.Connection:
        """Return a new database that knows what the last one did: an empty one would answer "nothing"."""
        if has_looked:
            self._look(self._connection())
        return self._connection()

    def _look(self, db: sqlite3.Connection) -> bool:
        try:
            return self._refresher.look(db)
        except Rebuild:
            try:
                self._discard()
            except (OSError, Busy):
                self._use_memory()
            self._refresher.look(self._connection())
            return True

    def _use_memory(self) -> None:
        """Go on with a database in memory: another process keeps the shared one, or it cannot be mended."""
        self.close()
        self._db = connect_alone()

    def _ask(self, sql: str, *values: object) -> list[Row]:
        return self._healing(lambda db: [row_of(found) for found in db.execute(sql, values)])

    def _search(
        self,
        db: sqlite3.Connection,
        query: str,
        limit: int,
        look: Callable[[sqlite3.Connection, str], Near | None] | None,
        among: Collection[str] | None = None,
    ) -> list[Match]:
        self._refresher.take_in_words(db)
        near = look(db, query) if look else None
        known = notes(db)
        most, also = (WEIGHED, near.nearest) if near else (limit, ())
        chosen = ids_of(db, among) if among is not None else None
        if chosen is not None:
            most, also = WEIGHED, [*chosen]
        hits = self._lexicon.ask(db, query, total=known.rows, last=known.fact("last"), limit=most, also=also)
        if chosen is not None:
            hits = [hit for hit in hits if hit.row in chosen and (near or hit.common)]
        marks = ", ".join("?" * len(hits))
        used = "ifnull((SELECT day FROM used WHERE used.path = entry.path), 0)"
        sql = f"SELECT id, {used}, {ROW} FROM entry WHERE id IN ({marks}) AND version NOT IN ('', '{UNUSABLE}')"
        rows = {found[0]: (row_of(found[2:]), found[1]) for found in db.execute(sql, [hit.row for hit in hits])}
        hits = [hit for hit in hits if hit.row in rows]
        least = enough(known.rows)
        if near:
            from memsheaf.index.scoring import score_both

            cosines = near.cosines_of(list(rows))
            scores = score_both(hits, cosines, near.usual, enough=near.enough, least=least)
        else:
            scores = {hit.row: (TEXT_WEIGHT * hit.share, hit.common, 0.0, hit.common / least) for hit in hits}
        found = [Match(rows[row][0], *numbers, rows[row][1]) for row, numbers in scores.items()]
        return sorted(found, key=lambda match: (-match.score, match.row.path))[:limit]
