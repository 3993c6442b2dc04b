"""Search by meaning: a few memories are embedded in the search that needs them, many in a thread beside it.

Nothing here is needed for an answer. Whatever fails, search goes on by words, and `problem` says why.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from memsheaf.embed import Embedder, Usual
from memsheaf.errors import Busy, EmbedderFailed, MemsheafError
from memsheaf.index.database import base_of, can_compare, connect, is_kept, locked, makes_vectors
from memsheaf.index.scoring import DIGITS, USUAL, Near, estimate_usual, merge
from memsheaf.index.vectors import (
    StoredVector,
    VectorTable,
    count_memories,
    delete_orphans,
    key_of,
    passages,
    quantize,
    shares,
)  # fmt: skip
from memsheaf.limits import TimeUp, within
from memsheaf.memory import parse
from memsheaf.store.folder import FolderStore

if TYPE_CHECKING:
    from numpy import bool_, float32
    from numpy.typing import NDArray

    from memsheaf.index.everyday import Everyday


T = TypeVar("T")

FEW = 8  # so many memories a search embeds before it answers
BATCH = 32  # memories that become findable at once
QUICK = 3  # batches that a search makes first with an embedder that says it is quick: 30 ms
AT_ONCE = 2.0  # seconds that a search spends on missing vectors if there is a fallback for the rest
PIECE = 16  # texts between two looks whether to stop
PAUSE = 300.0  # seconds until an embedder that failed is asked again
STOP = 2.0  # seconds to wait for the thread; it ends by itself after the text it is at
REFUSAL = 2.0  # seconds; what takes longer is no refusal of a text
HARMLESS = "memory"  # a text that no embedder refuses
ASKED = 64  # so many questions whose vectors are cached
QUESTION = 5.0  # seconds that a search waits for the vector of its question
GIVE_WAY = 0.05  # seconds that the thread lets a question go first, before each text
WAIT = 0.2  # seconds between two looks whether another process is ready
LONGEST = 1.1  # what the length of a vector of length 1 never comes to, rounded as it is
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)

Progress = Callable[[int, int], None]


class Embedding(NamedTuple):
    """How far the vectors are: of which embedder ("" for none), how many memories of all, and what is in the way."""

    embedder: str
    done: int
    total: int
    running: bool
    problem: str


class Deadline:
    """Says when time is up, as an event would."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def is_set(self) -> bool:
        """Whether time is up."""
        return time.monotonic() >= self._end


class SemanticSearch:
    """The vectors of one index. Its owner calls it from one thread at a time; one more thread works beside it."""

    def __init__(
        self,
        store: FolderStore,
        database: str,
        embedder: Callable[[], Embedder | None] | None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._database = database
        self._base = base_of(database)
        self._ask = embedder
        self._clock = clock
        self._embedder: Embedder | None = None
        self._tables: dict[int, VectorTable] = {}
        self._everyday: dict[tuple[int, bool], Everyday] = {}
        self._off_until = 0.0
        self._problem = ""
        self._asked: dict[str, NDArray[float32]] = {}
        self._asking = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._is_calm = threading.Event()
        self._is_calm.set()

    @contextmanager
    def thread_paused(self) -> Iterator[None]:
        """Let the thread rest meanwhile: of two that work, one waits 5 ms for the other at every look at a file."""
        self._is_calm.clear()
        try:
            yield
        finally:
            self._is_calm.set()

    def prepare(self, question: str) -> None:
        """Ask an embedder that is remote, before anybody holds the index: a save does not wait for its answer."""
        with self._asking, suppress(Busy, sqlite3.DatabaseError), self._tolerant():
            embedder = self._ready() if any(map(str.isalnum, question)) else None
            if embedder is None or not getattr(embedder, "remote", False):
                return
            table = self._table(embedder)
            with closing(connect(self._database)) as db:
                behind = table.count_waiting(db, FEW + 1)
                if behind > FEW and not table.has_half(db):
                    return
                self._vector_of(embedder, question)  # first: one that hangs is not asked for more
                self._everyday_as_seen_by(embedder)
                if behind <= FEW and makes_vectors():
                    self._catch_up(db, embedder, table, most=1)

    def near(self, db: sqlite3.Connection, question: str) -> Near | None:
        """What a question is near to; None when words must do. One that is remote was asked by `prepare`."""
        with self._tolerant():
            if not can_compare(db) or not any(map(str.isalnum, question)):  # signs alone mean nothing
                return None
            embedder = self._ready()
            if embedder is None:
                delete_orphans(db)
                return None
            table = self._table(embedder)
            behind, make = table.count_waiting(db, FEW + 1), makes_vectors()
            if make and behind > FEW and getattr(embedder, "quick", False) and not self._is_alive():
                # so that even commands, which end before the thread gets far, have it done after some
                self._catch_up(db, embedder, table, most=QUICK)
                behind = table.count_waiting(db, FEW + 1)
            if behind > FEW:
                has_other = make and getattr(embedder, "fallback", None) is not None
                near = self._compare_all(db, question, embedder, Deadline(AT_ONCE)) if has_other else None
                delete_orphans(db)
                if make:
                    self._start()
                if near or not table.has_half(db):
                    return near
            if getattr(embedder, "remote", False):
                vector = self._asked.get(question)
                return self._compare(db, embedder, table, vector) if vector is not None else None
            vector = self._vector_of(embedder, question)
            if behind <= FEW and make:
                self._catch_up(db, embedder, table, most=1)
            return self._compare(db, embedder, table, vector)
        return None

    def status(self, db: sqlite3.Connection) -> Embedding:
        """How far the vectors are."""
        total, done, name = count_memories(db), 0, ""
        with self._tolerant():
            if not is_kept(db):
                return Embedding("", 0, total, running=False, problem="there is no place to keep vectors")
            if embedder := self._ready() or self._embedder:
                done = total - self._table(embedder).count_waiting(db)
                name = embedder.identity
        return Embedding(name, done, total, self._is_running(), self._problem)

    def embed_all(self, progress: Progress | None = None, *, seconds: float = inf) -> None:
        """Make missing vectors in this thread, for at most this many seconds; waits for another process."""
        self.stop()
        self._off_until = 0.0
        until = Deadline(seconds)
        while not until.is_set():
            try:
                with self._tolerant(), closing(connect(self._database)) as db:
                    if embedder := self._ready():
                        with locked(self._base, "embedding", wait=0):
                            self._catch_up(db, embedder, self._table(embedder), progress, stop=until)
                return
            except Busy:
                time.sleep(WAIT)

    def stop(self) -> None:
        """Let the thread end; what it has made so far is kept."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(STOP)
        self._thread = None
        self._tables = {}

    def _start(self) -> None:
        if not self._is_alive():
            self._stop = threading.Event()
            thread = threading.Thread(target=self._run, args=(self._stop,), name="memsheaf-vectors", daemon=True)
            with suppress(RuntimeError):  # there are too many, or the process ends
                thread.start()
                self._thread = thread

    def _run(self, stop: threading.Event) -> None:
        embedder = self._embedder
        if embedder is None:
            return
        # if this one cannot go on, the next search starts another
        with (
            suppress(Busy, sqlite3.DatabaseError),
            self._tolerant(),
            closing(connect(self._database)) as db,
            locked(self._base, "embedding", wait=0),
        ):
            self._catch_up(db, embedder, self._table(embedder), stop=stop)

    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _is_running(self) -> bool:
        """Whether this process or another makes vectors now."""
        if self._is_alive():
            return True
        try:
            with locked(self._base, "embedding", wait=0):
                return False
        except Busy:
            return True
        except (OSError, MemsheafError):
            return False

    def _ready(self) -> Embedder | None:
        """The embedder; None when there is none, or it failed a short while ago."""
        if (self._ask is None and self._embedder is None) or self._clock() < self._off_until:
            return None
        if self._embedder is None and self._ask is not None:
            self._embedder = _translated(self._ask)
            self._ask = None
        return self._embedder

    def _table(self, embedder: Embedder) -> VectorTable:
        if id(embedder) not in self._tables:
            identity, dimensions = _in_time(
                embedder, lambda: _translated(lambda: (embedder.identity, int(embedder.dimensions)))
            )
            parts = getattr(embedder, "sections", ())
            self._tables[id(embedder)] = VectorTable(identity, dimensions, self._clock, parts)
        return self._tables[id(embedder)]

    def _catch_up(
        self,
        db: sqlite3.Connection,
        embedder: Embedder,
        table: VectorTable,
        progress: Progress | None = None,
        *,
        stop: threading.Event | Deadline | None = None,
        most: int = sys.maxsize,
    ) -> None:
        """Make missing vectors in at most `most` batches, and delete unused ones."""
        known: dict[bytes, StoredVector] | None = None
        while most and (behind := table.waiting(db, BATCH)):
            most -= 1
            known = table.orphans(db) if known is None else known
            if stop and stop.is_set():
                return
            self._batch(db, embedder, table, behind, known, stop)
            if progress:
                total = count_memories(db)
                progress(total - table.count_waiting(db), total)
        delete_orphans(db)
        if not table.count_waiting(db, 1):
            table.finish(db)

    def _batch(
        self,
        db: sqlite3.Connection,
        embedder: Embedder,
        table: VectorTable,
        behind: Sequence[tuple[int, str]],
        known: Mapping[bytes, StoredVector],
        stop: threading.Event | Deadline | None,
    ) -> None:
        """Embed some memories; those that are done when we are stopped are kept."""
        texts: dict[int, dict[bytes, str]] = {}
        for entry, path in behind:
            self._give_way(stop)
            with suppress(MemsheafError):
                found = passages(parse(path, self._store.read(path).data))
                texts[entry] = {key_of(text): text for text in found}
        missing = {key: text for each in texts.values() for key, text in each.items() if key not in known}
        vectors = dict(known)
        refused: set[bytes] = set()
        keys = list(missing)
        for start in range(0, len(keys), PIECE):
            self._give_way(stop)
            if stop and stop.is_set():
                break
            piece = keys[start : start + PIECE]
            embedded = self._embed(embedder, {key: missing[key] for key in piece})
            vectors |= embedded
            refused.update(key for key in piece if key not in embedded)
        done: dict[int, list[bytes]] = {}
        for entry, _ in behind:
            wanted = [key for key in texts.get(entry, ()) if key not in refused]
            if any(key not in vectors for key in wanted):
                break
            done[entry] = wanted
        table.add(db, done, vectors)

    def _embed(self, embedder: Embedder, texts: Mapping[bytes, str]) -> dict[bytes, StoredVector]:
        """The vectors of some texts, but for those that are refused while others are taken: one must not stop all."""
        started = time.monotonic()
        try:
            return dict(zip(texts, quantize(_encode(embedder, list(texts.values()))), strict=True))
        except EmbedderFailed as error:
            if time.monotonic() - started > REFUSAL:
                raise
            try:
                _encode(embedder, [HARMLESS])
            except EmbedderFailed:
                raise error from None
        single = ({key: text} for key, text in texts.items() if len(texts) > 1)
        return {key: vector for each in single for key, vector in self._embed(embedder, each).items()}

    def _give_way(self, stop: threading.Event | Deadline | None) -> None:
        if isinstance(stop, threading.Event) and not stop.is_set():
            self._is_calm.wait(GIVE_WAY)

    def _vector_of(self, embedder: Embedder, question: str) -> NDArray[float32]:
        """The vector of a question. Raises EmbedderFailed, also after the time-out."""
        if (known := self._asked.get(question)) is not None:
            return known
        rows = _in_time(embedder, lambda: _encode(embedder, [question]))
        if len(self._asked) >= ASKED:
            self._asked = {}
        vector: NDArray[float32] = rows[0]
        self._asked[question] = vector
        return vector

    def _compare(
        self, db: sqlite3.Connection, embedder: Embedder, table: VectorTable, question: NDArray[float32]
    ) -> Near:
        cosines = table.cosines(db, question)
        count = len(cosines)
        given = Usual(*getattr(embedder, "usual", USUAL))
        mean, spread = (float(cosines.mean(dtype=float)), float(cosines.std(dtype=float))) if count else (0.0, 0.0)
        usual = estimate_usual(count, mean, spread, given)
        return Near(
            usual,
            self._enough(db, embedder, table, question),
            table.nearest(db, cosines),
            lambda entries: table.best_of(db, entries, cosines, DIGITS),
        )

    def _compare_all(self, db: sqlite3.Connection, question: str, embedder: Embedder, until: Deadline) -> Near:
        """The same with the fallback's cosines for memories that have no others yet; its vectors are made first."""
        table, fallback = self._table(embedder), getattr(embedder, "fallback", None)
        other = None
        if fallback is not None and table.count_waiting(db, 1):
            other = self._compare_all(db, question, fallback, until)
        with suppress(Busy), locked(self._base, "embedding" if embedder is self._embedder else "fallback", wait=0):
            self._catch_up(db, embedder, table, stop=until)
        one = self._compare(db, embedder, table, _encode(embedder, [question])[0])
        return (merge(one, other) if one.nearest else other) if other else one

    def _enough(
        self, db: sqlite3.Connection, embedder: Embedder, table: VectorTable, question: NDArray[float32]
    ) -> float:
        """The cosine from which on a question is about a memory: more than everyday messages reach."""
        is_partial = not shares(question[None], table.parts).all()
        everyday = self._everyday_as_seen_by(embedder, (question != 0) if is_partial else None)
        return table.threshold(db, "part" if is_partial else "", everyday.threshold) + everyday.handicap(question)

    def _everyday_as_seen_by(self, embedder: Embedder, known: NDArray[bool_] | None = None) -> Everyday:
        key = id(embedder), known is not None
        if key not in self._everyday:
            from memsheaf.index.everyday import load

            folder = os.path.dirname(self._database)
            made = load(embedder.identity, embedder.dimensions, lambda texts: _encode(embedder, texts), folder)
            self._everyday[key] = made if known is None else made.within(known)
        return self._everyday[key]

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        """Go on without vectors when they fail, and remember why."""
        try:
            yield
            self._problem = "" if self._clock() >= self._off_until else self._problem
        except Busy:
            raise
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _BUSY:
                raise
        except (MemsheafError, OSError) as error:
            self._problem = _message(error)
            self._off_until = self._clock() + PAUSE


def _encode(embedder: Embedder, texts: Sequence[str]) -> NDArray[float32]:
    """The vectors of some texts. Raises EmbedderFailed, whatever else went wrong."""

    def encode() -> NDArray[float32]:
        import numpy

        rows = numpy.asarray(embedder.encode(texts), numpy.float32)
        is_sound = rows.shape == (len(texts), embedder.dimensions)
        if not is_sound or not (numpy.linalg.norm(rows, axis=1) < LONGEST).all():
            raise EmbedderFailed(f"{embedder.identity} gave vectors of another size or length than it should")
        return rows

    return _translated(encode)


def _translated(work: Callable[[], T]) -> T:
    """Call an embedder, which may be anybody's and raise anything. Raises EmbedderFailed."""
    try:
        return work()
    except EmbedderFailed:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        raise EmbedderFailed(_message(error)) from None


def _in_time(embedder: Embedder, work: Callable[[], T]) -> T:
    """Do it, with a time-out if the embedder is `remote`. Raises EmbedderFailed."""
    if not getattr(embedder, "remote", False):
        return work()
    try:
        return within(QUESTION, work, name="memsheaf-question")
    except TimeUp:
        raise EmbedderFailed(f"the embedder gave no vector for the question within {QUESTION:g} seconds") from None


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, MemsheafError) else f"{type(error).__name__}: {error}"
