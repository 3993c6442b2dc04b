"""Search by meaning: a search makes missing vectors for a short while, and a thread makes the rest beside it.

Nothing here is needed for an answer. Whatever fails, search goes on by words, and `Embedding.problem` says why.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from math import inf
from typing import Any, TypeVar

import numpy
from numpy import float32
from numpy.typing import NDArray

from memsheaf.encode import Encoder
from memsheaf.errors import Busy, EmbedderFailed, MemsheafError
from memsheaf.index.database import Embedding, base_of, count_memories, is_kept, locked, makes_vectors
from memsheaf.index.scoring import DIGITS, UNCALIBRATED, Near
from memsheaf.index.vectors import VectorTable, passages, quantize
from memsheaf.limits import TimeUp, within
from memsheaf.memory import parse
from memsheaf.store.folder import FolderStore

T = TypeVar("T")

SEARCH_SECONDS = 1.0  # that a search spends on missing vectors
BATCH_MEMORIES = 32  # memories that become findable at once
MAX_WAITING_LISTED = 1_000  # memories without vectors that are asked for at once
MAX_CACHED_QUESTIONS = 64
QUESTION_SECONDS = 5.0  # that a search waits for the vector of its question
PAUSE_SECONDS = 300.0  # until an embedder that failed is asked again
STOP_SECONDS = 2.0  # to wait for the thread; it ends by itself after the batch it is at
MAX_VECTOR_LENGTH = 1.1  # of a vector that should have the length 1
HARMLESS_TEXT = "memory"  # a text that no embedder refuses

Progress = Callable[[int, int], None]


class SemanticSearch:
    """The vectors of one index. `query` runs a function on its database, while nobody else uses that."""

    def __init__(
        self,
        store: FolderStore,
        database: str,
        embedder: Callable[[], Encoder | None] | None,
        query: Callable[[Callable[[sqlite3.Connection], Any]], Any],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._base = base_of(database)
        self._ask = embedder
        self._query = query
        self._clock = clock
        self._embedder: Encoder | None = None
        self._table: VectorTable | None = None
        self._questions: dict[str, NDArray[float32]] = {}
        self._off_until = 0.0
        self._problem = ""
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def forget(self) -> None:
        """Forget the vectors of a database that is closed."""
        self._table = None

    def prepare(self, text: str) -> NDArray[float32] | None:
        """Embed a question, and for a short while the memories that wait; None when words must do."""
        with self._tolerant():
            table = self._ready()
            if table is None or not any(map(str.isalnum, text)) or not self._is_known(text):  # signs mean nothing
                return None
            question = self._embed_question(text)
            if makes_vectors():
                until = time.monotonic() + SEARCH_SECONDS
                self._catch_up(table, lambda: time.monotonic() >= until)
                if self._query(lambda db: table.waiting(db, 1)):
                    self._start()
            return question
        return None

    def compare(self, db: sqlite3.Connection, question: NDArray[float32]) -> Near | None:
        """Return what a question is near to; None while most memories have no vectors yet."""
        table = self._table
        if table is None or (table.waiting(db, 1) and 2 * table.count(db) < count_memories(db)):
            return None
        cosines = table.cosines(db, question)
        return Near(
            getattr(self._embedder, "calibration", UNCALIBRATED),
            table.nearest(cosines),
            lambda entries: table.best_of(entries, cosines, DIGITS),
        )

    def status(self, db: sqlite3.Connection) -> Embedding:
        """Return how far the vectors are."""
        total = count_memories(db)
        if not is_kept(db):
            return Embedding("", 0, total, running=False, problem="there is no place to keep vectors")
        done = 0
        name = ""
        with self._tolerant():
            table = self._ready() or self._table
            if table and self._embedder:
                done = table.count(db)
                name = self._embedder.identity
        return Embedding(name, done, total, self._is_alive(), self._problem)

    def embed_all(self, progress: Progress | None = None, *, seconds: float = inf) -> None:
        """Make missing vectors in this thread, for at most this many seconds; waits for another process."""
        self.stop()
        self._off_until = 0.0
        until = time.monotonic() + seconds
        with suppress(Busy), self._tolerant(), locked(self._base, "embedding", wait=seconds):
            if table := self._ready():
                self._catch_up(table, lambda: time.monotonic() >= until, progress)

    def stop(self) -> None:
        """Let the thread end; what it has made so far is kept."""
        self._stop.set()
        if self._thread:
            self._thread.join(STOP_SECONDS)
        self._thread = None

    def _start(self) -> None:
        if self._is_alive():
            return
        self._stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(self._stop,), name="memsheaf-vectors", daemon=True)
        with suppress(RuntimeError):  # there are too many, or the process ends
            thread.start()
            self._thread = thread

    def _run(self, stop: threading.Event) -> None:
        # if this thread cannot go on, the next search starts another
        with suppress(Busy, sqlite3.DatabaseError), self._tolerant(), locked(self._base, "embedding", wait=0):
            if self._table:
                self._catch_up(self._table, stop.is_set)

    def _is_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _ready(self) -> VectorTable | None:
        """Return the vectors of the embedder; None when there is none, or it failed a short while ago."""
        if self._clock() < self._off_until:
            return None
        if self._ask:
            self._embedder = _translate(self._ask)
            self._ask = None
        embedder = self._embedder
        if self._table is None and embedder:
            identity, dimensions = _in_time(embedder, lambda: (embedder.identity, int(embedder.dimensions)))
            self._table = VectorTable(identity, dimensions)
        return self._table

    def _is_known(self, text: str) -> bool:
        """Return True if the encoder can make something of a text, as far as it says."""
        knows: Callable[[str], bool] = getattr(self._embedder, "knows", lambda text: True)
        return knows(text)

    def _embed_question(self, text: str) -> NDArray[float32]:
        """Return the question; it is embedded once. Raises EmbedderFailed, also after the time-out."""
        embedder = self._embedder
        assert embedder
        if text not in self._questions:
            if len(self._questions) >= MAX_CACHED_QUESTIONS:
                self._questions = {}
            self._questions[text] = _in_time(embedder, lambda: _encode(embedder, [text]))[0]
        return self._questions[text]

    def _catch_up(self, table: VectorTable, is_over: Callable[[], bool], progress: Progress | None = None) -> None:
        """Make missing vectors, batch by batch, until all are made or it is over. Then those of others can go."""
        waiting = self._query(lambda db: table.waiting(db, MAX_WAITING_LISTED))
        while waiting:
            for start in range(0, len(waiting), BATCH_MEMORIES):
                if is_over():
                    return
                vectors = self._embed(waiting[start : start + BATCH_MEMORIES])
                self._query(partial(table.add, vectors=vectors))
                if progress:
                    progress(*self._query(lambda db: (table.count(db), count_memories(db))))
            waiting = self._query(lambda db: table.waiting(db, MAX_WAITING_LISTED))
            if not waiting:
                self._query(table.delete_others)

    def _embed(self, memories: Sequence[tuple[int, str]]) -> dict[int, bytes]:
        """Return the stored vectors of some memories; of one that is gone meanwhile, or refused, there are none."""
        passages_of: dict[int, list[str]] = {entry: [] for entry, _ in memories}
        for entry, path in memories:
            with suppress(MemsheafError):
                passages_of[entry] = passages(parse(path, self._store.read(path).data))
        texts = list(dict.fromkeys(chain.from_iterable(passages_of.values())))
        vectors = self._embed_texts(texts) if texts else {}
        return {entry: b"".join(vectors.get(text, b"") for text in some) for entry, some in passages_of.items()}

    def _embed_texts(self, texts: Sequence[str]) -> dict[str, bytes]:
        """Return the stored vectors of texts, but for those that are refused: one must not stop all."""
        assert self._embedder
        try:
            records = quantize(_encode(self._embedder, texts))
            return {text: record.tobytes() for text, record in zip(texts, records, strict=True)}
        except EmbedderFailed:
            _encode(self._embedder, [HARMLESS_TEXT])  # raises where it is the embedder that fails, and not a text
        if len(texts) == 1:
            return {}
        return {text: data for single in texts for text, data in self._embed_texts([single]).items()}

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        """Go on without vectors when they fail, and remember why."""
        try:
            yield
            if self._clock() >= self._off_until:
                self._problem = ""
        except Busy:
            raise
        except (MemsheafError, OSError) as error:
            self._problem = _message(error)
            self._off_until = self._clock() + PAUSE_SECONDS


def _encode(embedder: Encoder, texts: Sequence[str]) -> NDArray[float32]:
    """Return the vectors of some texts. Raises EmbedderFailed, whatever else went wrong."""
    rows = _translate(lambda: numpy.asarray(embedder.encode(texts), float32))
    is_sound = rows.shape == (len(texts), embedder.dimensions)
    if not is_sound or not (numpy.linalg.norm(rows, axis=1) < MAX_VECTOR_LENGTH).all():
        raise EmbedderFailed(f"{embedder.identity} gave vectors of another size or length than it should")
    return rows


def _translate(work: Callable[[], T]) -> T:
    """Call an embedder, which may be anybody's and raise anything. Raises EmbedderFailed."""
    try:
        return work()
    except EmbedderFailed:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        raise EmbedderFailed(_message(error)) from None


def _in_time(embedder: Encoder, work: Callable[[], T]) -> T:
    """Call an embedder, with a time-out if it is `remote`. Raises EmbedderFailed."""
    if not getattr(embedder, "remote", False):
        return _translate(work)
    try:
        return within(QUESTION_SECONDS, lambda: _translate(work), name="memsheaf-question")
    except TimeUp:
        problem = f"the embedder gave no vector for the question within {QUESTION_SECONDS:g} seconds"
        raise EmbedderFailed(problem) from None


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, MemsheafError) else f"{type(error).__name__}: {error}"
