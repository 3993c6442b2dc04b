"""Search by meaning: a search makes missing vectors for a short while, and a thread makes the rest beside it.

Nothing here is needed for an answer. Whatever fails, search goes on by words, and `Embedding.problem` says why.

A memory has one row in the table `vector`, and a second one while an embedder takes the place of another. It holds a
record for each passage: a scale, and whole numbers from -127 to 127. The row goes with the memory's row in `entry`.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import chain
from math import inf
from typing import Any, TypeVar

import numpy
from numpy import float32, int64
from numpy.typing import NDArray

from memsheaf.encode import Encoder
from memsheaf.errors import Busy, MemsheafError, ModelFailed
from memsheaf.index.database import (
    IS_EMBEDDABLE,
    Embedding,
    base_of,
    count_memories,
    is_kept,
    locked,
    makes_vectors,
    state_of,
    writing,
)
from memsheaf.index.scoring import DIGITS, UNCALIBRATED, Near
from memsheaf.limits import TimeUp, within
from memsheaf.memory import Memory, parse
from memsheaf.store.folder import FolderStore
from memsheaf.text.sections import searched_texts
from memsheaf.text.sentences import is_made_from, split_parts

T = TypeVar("T")

SEARCH_SECONDS = 1.0  # that a search spends on missing vectors
BATCH_MEMORIES = 32  # memories that become findable at once
QUESTION_SECONDS = 5.0  # that a search waits for the vector of its question
PAUSE_SECONDS = 300.0  # until an embedder that failed is asked again
STOP_SECONDS = 2.0  # to wait for the thread; it ends by itself after the batch it is at
MAX_VECTOR_LENGTH = 1.1  # of a vector that should have the length 1
HARMLESS_TEXT = "memory"  # a text that no embedder refuses

Progress = Callable[[int, int], None]

_LATEST_QUESTION: dict[tuple[Encoder, str], Floats] = {}
"""The vector of the latest question in this process, by who made it."""


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
        self._off_until = 0.0
        self._problem = ""
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def forget(self) -> None:
        """Forget the vectors of a database that is closed."""
        self._table = None

    def prepare(self, text: str) -> Floats | None:
        """Embed a question, and for a short while the memories that wait; None when words must do."""
        with self._tolerant():
            table = self._ready()
            embedder = self._embedder
            knows = getattr(embedder, "knows", bool)
            if table is None or embedder is None or not (any(map(str.isalnum, text)) and knows(text)):
                return None
            question = _encode_question(embedder, text)
            if makes_vectors():
                until = time.monotonic() + SEARCH_SECONDS
                self._catch_up(table, lambda: time.monotonic() >= until)
                if self._query(lambda db: table.waiting(db, 1)):
                    self._start()
            return question
        return None

    def compare(self, db: sqlite3.Connection, question: Floats) -> Near | None:
        """Return what a question is near to; None while most memories have no vectors yet."""
        table = self._table
        if table is None or (table.waiting(db, 1) and 2 * table.count(db) < count_memories(db)):
            return None
        cosines = table.cosines(db, question)
        return Near(
            getattr(self._embedder, "calibrate", lambda _: UNCALIBRATED)(question),
            table.nearest(cosines),
            lambda entries: table.best_of(entries, cosines),
        )

    def status(self, db: sqlite3.Connection) -> Embedding:
        """Return how far the vectors are."""
        total = count_memories(db)
        if not is_kept(db):
            return Embedding("", 0, total, running=False, problem="there is no place to keep vectors")
        done = 0
        name = ""
        with self._tolerant():
            self._ready()
            if self._table and self._embedder:
                done = self._table.count(db)
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

    def _catch_up(self, table: VectorTable, is_over: Callable[[], bool], progress: Progress | None = None) -> None:
        """Make missing vectors, batch by batch, until all are made or it is over. Then those of others can go."""
        has_new_vectors = False
        while waiting := self._query(lambda db: table.waiting(db, BATCH_MEMORIES)):
            if is_over():
                return
            vectors = self._embed(waiting)
            self._query(partial(table.add, vectors=vectors))
            has_new_vectors = True
            if progress:
                progress(*self._query(lambda db: (table.count(db), count_memories(db))))
        if has_new_vectors:
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
        except ModelFailed:
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


def _encode_question(embedder: Encoder, text: str) -> Floats:
    """Return the vector of a question, which is asked of one scope after the other. Raises ModelFailed."""
    question = embedder, text
    vector = _LATEST_QUESTION.get(question)
    if vector is None:
        vector = _in_time(embedder, lambda: _encode(embedder, [text]))[0]
        _LATEST_QUESTION.clear()
        _LATEST_QUESTION[question] = vector
    return vector


def _encode(embedder: Encoder, texts: Sequence[str]) -> Floats:
    """Return the vectors of some texts. Raises ModelFailed, whatever else went wrong."""
    rows = _translate(lambda: numpy.asarray(embedder.encode(texts), float32))
    is_sound = rows.shape == (len(texts), embedder.dimensions)
    if not is_sound or not (numpy.linalg.norm(rows, axis=1) < MAX_VECTOR_LENGTH).all():
        raise ModelFailed(f"{embedder.identity} gave vectors of another size or length than it should")
    return rows


def _translate(work: Callable[[], T]) -> T:
    """Call an embedder, which may be anybody's and raise anything. Raises ModelFailed."""
    try:
        return work()
    except ModelFailed:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        raise ModelFailed(_message(error)) from None


def _in_time(embedder: Encoder, work: Callable[[], T]) -> T:
    """Call an embedder, with a time-out if it is `remote`. Raises ModelFailed."""
    if not getattr(embedder, "remote", False):
        return _translate(work)
    try:
        return within(QUESTION_SECONDS, lambda: _translate(work), name="memsheaf-question")
    except TimeUp:
        problem = f"the embedder gave no vector for the question within {QUESTION_SECONDS:g} seconds"
        raise ModelFailed(problem) from None


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, MemsheafError) else f"{type(error).__name__}: {error}"


# Which passages of a memory are embedded, and how their vectors are stored and compared

FIRST_PASSAGE_CHARS = 600
NEXT_PASSAGE_CHARS = 800
MAX_PASSAGES = 16
MAX_NEAREST = 50
BLOCK_VECTORS = 512  # vectors that are multiplied at once: they stay in the processor's cache

Floats = NDArray[float32]


def passages(memory: Memory) -> list[str]:
    """Return the texts that stand for a memory, one vector each; the best of them counts. [] if it says nothing.

    >>> from memsheaf.memory import Memory, parse
    >>> header = "---\\nname: Ports\\ndescription: Which are taken\\ntype: project\\n---\\n"
    >>> passages(parse("ports.md", f"{header}8080 is the proxy.\\n".encode()))
    ['Ports\\nWhich are taken\\n8080 is the proxy.']
    >>> long = passages(parse("ports.md", (header + "A port is taken. " * 100).encode()))
    >>> [len(text) for text in long], long[1][:20]
    ([618, 804, 309], 'Ports\\nport is taken.')
    """
    name, description, body = searched_texts(memory)
    now, *older = split_parts(body)
    if older:  # they begin a passage of their own: one vector for both would be near to neither
        name, description = ("" if is_made_from(body, line) else line for line in (name, description))
    name, description = name[:200], description[:500]
    first, rest = _cut(now, FIRST_PASSAGE_CHARS)
    rest = "\n\n".join([rest, *older]).strip()
    lines = [first]
    # a line that the text below it repeats is left out
    if not _says(body, description):
        lines.insert(0, description)
    if not _says(f"{description}\n{body}", name):
        lines.insert(0, name)
    texts = ["\n".join(lines).strip()]
    while rest and len(texts) < MAX_PASSAGES:
        piece, rest = _cut(rest, NEXT_PASSAGE_CHARS)
        texts.append(f"{name}\n{piece}".lstrip("\n"))
    return texts if texts[0] else []


def quantize(vectors: Floats) -> NDArray[Any]:
    """Return vectors as they are stored: the largest number of each becomes 127."""
    largest = numpy.abs(vectors).max(axis=1, keepdims=True)
    scales = numpy.maximum(largest, float32(1e-30)) / float32(127)
    records = numpy.empty(len(vectors), record_of(vectors.shape[1]))
    records["scale"] = scales[:, 0]
    records["row"] = numpy.rint(vectors / scales)
    return records


def record_of(dimensions: int) -> numpy.dtype[Any]:
    """Return the type of a stored vector."""
    return numpy.dtype([("scale", "<f4"), ("row", "i1", (dimensions,))])


class VectorTable:
    """The vectors of one embedder, cached in memory in the order in which they came."""

    def __init__(self, identity: str, dimensions: int) -> None:
        digest = sha256(f"{dimensions} {identity}".encode()).digest()
        self._embedder = int.from_bytes(digest[:6], "big")
        self._records: NDArray[Any] = numpy.empty(0, record_of(dimensions))
        self._entries: NDArray[int64] = numpy.empty(0, int64)
        self._last = 0  # id of the last row that was read
        self._count = 0  # of rows that were read
        self._state: object = None
        self._complete: object = None

    def waiting(self, db: sqlite3.Connection, limit: int) -> list[tuple[int, str]]:
        """Return memories that have no vectors yet, oldest first: entry and path."""
        if self._complete == state_of(db):
            return []
        embedded = "EXISTS (SELECT 1 FROM vector WHERE vector.entry = entry.id AND embedder = ?)"
        sql = f"SELECT id, path FROM entry WHERE {IS_EMBEDDABLE} AND NOT {embedded} ORDER BY id LIMIT ?"
        rows = db.execute(sql, (self._embedder, limit)).fetchall()
        if not rows:
            self._complete = state_of(db)
        return rows

    def count(self, db: sqlite3.Connection) -> int:
        """Return how many memories have vectors."""
        return int(db.execute("SELECT count(*) FROM vector WHERE embedder = ?", (self._embedder,)).fetchone()[0])

    def add(self, db: sqlite3.Connection, vectors: Mapping[int, bytes]) -> None:
        """Store the vectors of some entries; one that is gone meanwhile gets none, nor one that has some already."""
        sql = "INSERT OR IGNORE INTO vector (entry, embedder, data) SELECT id, ?, ? FROM entry WHERE id = ?"
        with writing(db):
            db.executemany(sql, [(self._embedder, data, entry) for entry, data in vectors.items()])

    def delete_others(self, db: sqlite3.Connection) -> None:
        """Delete the vectors of other embedders: of an earlier version, or of one that was set before."""
        with writing(db):
            db.execute("DELETE FROM vector WHERE embedder <> ?", (self._embedder,))

    def cosines(self, db: sqlite3.Connection, question: Floats) -> Floats:
        """Return the cosine of each stored vector with a question of length 1."""
        self._refresh(db)
        rows, count = self._records["row"], len(self._records)
        cosines = numpy.empty(count, float32)
        floats = numpy.empty((min(BLOCK_VECTORS, count), rows.shape[1]), float32)
        for start in range(0, count, BLOCK_VECTORS):
            part = rows[start : start + BLOCK_VECTORS]
            numpy.copyto(floats[: len(part)], part)
            numpy.dot(floats[: len(part)], question, out=cosines[start : start + BLOCK_VECTORS])
        cosines *= self._records["scale"]
        return cosines

    def nearest(self, cosines: Floats) -> list[int]:
        """Return the entries with the nearest passages, nearest first. `cosines` were just returned."""
        best = numpy.argsort(-cosines, kind="stable")[: MAX_PASSAGES * MAX_NEAREST]  # enough if all are long
        return list(dict.fromkeys(self._entries[best].tolist()))[:MAX_NEAREST]

    def best_of(self, entries: Sequence[int], cosines: Floats) -> dict[int, float]:
        """Return the cosine of the best passage of each of these entries that has any."""
        places = numpy.flatnonzero(numpy.isin(self._entries, entries))
        best: dict[int, float] = {}
        for entry, cosine in zip(self._entries[places].tolist(), cosines[places].tolist(), strict=True):
            best[entry] = max(best.get(entry, -2.0), round(cosine, DIGITS))
        return best

    def _refresh(self, db: sqlite3.Connection) -> None:
        """Read the vectors that came since; if some are gone, all of them."""
        state = state_of(db)
        if self._state == state:
            return
        self._state = state
        sql = "SELECT id, entry, data FROM vector WHERE embedder = ? AND id > ? ORDER BY id"
        rows = db.execute(sql, (self._embedder, self._last)).fetchall()
        if self._count + len(rows) != self.count(db):
            self._count = self._last = 0
            self._entries = self._entries[:0]
            self._records = self._records[:0]
            rows = db.execute(sql, (self._embedder, 0)).fetchall()
        if not rows:
            return
        ids, entries, texts = zip(*rows, strict=True)
        sizes = [len(data) / self._records.itemsize for data in texts]
        if not all(map(float.is_integer, sizes)):
            raise sqlite3.DatabaseError("a vector has not the length that it should have")
        self._last = ids[-1]
        self._count += len(rows)
        records = numpy.frombuffer(b"".join(texts), self._records.dtype)
        self._entries = numpy.concatenate([self._entries, numpy.repeat(entries, numpy.array(sizes, int64))])
        self._records = numpy.concatenate([self._records, records])


def _says(text: str, line: str) -> bool:
    """Return True if a text holds a line, whatever its case; one that was shortened ends in "…"."""
    return line.rstrip("….").casefold() in text.casefold()


def _cut(text: str, size: int) -> tuple[str, str]:
    """Return the beginning of a text, up to a paragraph, a line or a space, and the rest."""
    if len(text) <= size:
        return text, ""
    for border in ("\n\n", "\n", " "):
        end = text.rfind(border, size // 2, size)
        if end > 0:
            break
    else:
        end = size
    return text[:end].rstrip(), text[end:].lstrip()
