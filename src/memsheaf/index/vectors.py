"""The vectors of an index: which passages of a memory are embedded, and how their vectors are stored and compared.

A memory has one row in the table `vector` for each embedder. It holds a record for each passage: a scale, and whole
numbers from -127 to 127. The row goes with the memory's row in `entry`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy
from numpy import float32, int64
from numpy.typing import NDArray

from memsheaf.embed.threads import one_thread
from memsheaf.index.database import EMBEDDABLE, state_of, writing
from memsheaf.memory import Memory
from memsheaf.text.sections import searched_texts

FIRST_CHARS, NEXT_CHARS, MAX_PASSAGES = 600, 800, 16  # characters of the first passage and of later ones
NEAREST = 50
BLOCK = 512  # vectors that are multiplied at once: they stay in the processor's cache
SAMPLED = 1_024  # vectors by which a threshold is set

Floats = NDArray[float32]


def passages(memory: Memory) -> list[str]:
    """Return the texts that stand for a memory, one vector each; the best of them counts. [] if it says nothing.

    >>> from memsheaf.memory import parse
    >>> header = "---\\nname: Ports\\ndescription: Which are taken\\ntype: project\\n---\\n"
    >>> passages(parse("ports.md", f"{header}8080 is the proxy.\\n".encode()))
    ['Ports. Which are taken\\n8080 is the proxy.']
    >>> long = passages(parse("ports.md", (header + "A port is taken. " * 100).encode()))
    >>> [len(text) for text in long], long[1][:20]
    ([619, 804, 309], 'Ports\\nport is taken.')
    """
    name, description, body = searched_texts(memory)
    name, rest = name[:200], body[: 2 * FIRST_CHARS + MAX_PASSAGES * NEXT_CHARS].strip()
    piece, rest = _cut(rest, FIRST_CHARS)
    head = f"{name}. " if name else ""
    texts = [f"{head}{description[:500]}\n{piece}".strip()]
    while rest and len(texts) < MAX_PASSAGES:
        piece, rest = _cut(rest, NEXT_CHARS)
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

    def __init__(self, identity: str, dimensions: int, parts: Sequence[int] = ()) -> None:
        self.parts = parts  # the dimensions of each of several embedders
        digest = sha256(f"{dimensions} {identity}".encode()).digest()
        self._embedder = int.from_bytes(digest[:6], "big")
        self._records: NDArray[Any] = numpy.empty(0, record_of(dimensions))
        self._entries: NDArray[int64] = numpy.empty(0, int64)
        self._shares: Floats = shares(self._records["row"], parts)
        self._last = self._count = 0  # id of the last row that was read, and the number of rows
        self._thresholds: dict[bool, float] = {}
        self._state: object = None
        self._complete: object = None

    def waiting(self, db: sqlite3.Connection, limit: int) -> list[tuple[int, str]]:
        """Return memories that have no vectors yet, oldest first: entry and path."""
        if self._complete == state_of(db):
            return []
        embedded = "EXISTS (SELECT 1 FROM vector WHERE vector.entry = entry.id AND embedder = ?)"
        sql = f"SELECT id, path FROM entry WHERE {EMBEDDABLE} AND NOT {embedded} ORDER BY id LIMIT ?"
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

    def cosines(self, db: sqlite3.Connection, question: Floats) -> Floats:
        """Return the cosine of each stored vector with a question of length 1."""
        self._refresh(db)
        rows, count = self._records["row"], len(self._records)
        cosines = numpy.empty(count, float32)
        floats = numpy.empty((min(BLOCK, count), rows.shape[1]), float32)
        with one_thread():
            for start in range(0, count, BLOCK):
                part = rows[start : start + BLOCK]
                numpy.copyto(floats[: len(part)], part)
                numpy.dot(floats[: len(part)], question, out=cosines[start : start + BLOCK])
        cosines *= self._records["scale"]
        return cosines / common_lengths(self._shares, shares(question[None], self.parts))[:, 0]

    def nearest(self, cosines: Floats) -> list[int]:
        """Return the entries with the nearest passages, nearest first. `cosines` were just returned."""
        if not len(cosines):
            return []
        take = min(MAX_PASSAGES * NEAREST, len(cosines))  # enough even if all are as long as can be
        places = numpy.argpartition(cosines, len(cosines) - take)[len(cosines) - take :]
        best = places[numpy.lexsort((places, -cosines[places]))]
        return list(dict.fromkeys(self._entries[best].tolist()))[:NEAREST]

    def best_of(self, entries: Sequence[int], cosines: Floats, digits: int) -> dict[int, float]:
        """Return the cosine of the best passage of each of these entries that has any."""
        places = numpy.flatnonzero(numpy.isin(self._entries, entries))
        best: dict[int, float] = {}
        for entry, cosine in zip(self._entries[places].tolist(), cosines[places].tolist(), strict=True):
            best[entry] = max(best.get(entry, -2.0), round(cosine, digits))
        return best

    def threshold(self, is_partial: bool, measure: Callable[[Callable[[Floats], Floats]], float]) -> float:
        """Return what `measure` makes of these vectors; it is cached until they change."""
        if is_partial not in self._thresholds:
            self._thresholds[is_partial] = measure(self._best) if len(self._records) else 0.0
        return self._thresholds[is_partial]

    def _best(self, others: Floats) -> Floats:
        """Return the highest cosine of each of some other vectors with these; of very many, with some of these."""
        part = self._records[:: -(-len(self._records) // SAMPLED)]
        products = (part["row"] * part["scale"][:, None]) @ others.T
        lengths = common_lengths(shares(part["row"], self.parts), shares(others, self.parts))
        best: Floats = (products / lengths).max(axis=0)
        return best

    def _refresh(self, db: sqlite3.Connection) -> None:
        """Read the vectors that came since; if some are gone, all of them."""
        if self._state == state_of(db):
            return
        self._state = state_of(db)
        sql = "SELECT id, entry, data FROM vector WHERE embedder = ? AND id > ? ORDER BY id"
        rows = db.execute(sql, (self._embedder, self._last)).fetchall()
        if self._count + len(rows) != self.count(db):
            self._count, self._entries, self._records = 0, self._entries[:0], self._records[:0]
            rows = db.execute(sql, (self._embedder, 0)).fetchall()
        elif not rows:
            return
        numbers, entries, data = zip(*rows, strict=True) if rows else ((0,), (), ())
        sizes = [len(some) / self._records.itemsize for some in data]
        if not all(map(float.is_integer, sizes)):
            raise sqlite3.DatabaseError("a vector has not the length that it should have")
        self._last, self._count = numbers[-1], self._count + len(rows)
        added = numpy.repeat(numpy.array(entries, int64), numpy.array(sizes, int64))
        self._entries = numpy.concatenate([self._entries, added])
        added = numpy.frombuffer(b"".join(data), self._records.dtype)
        self._records = numpy.concatenate([self._records, added])
        self._shares = shares(self._records["row"], self.parts)
        self._thresholds = {}


def shares(vectors: NDArray[Any], parts: Sequence[int]) -> Floats:
    """Return how much of each vector lies in each of its parts, in squares: 0 where an embedder says nothing."""
    starts = [sum(parts[:place]) for place in range(len(parts))]
    if not starts:
        return numpy.ones((len(vectors), 1), float32)
    squares = numpy.add.reduceat(numpy.square(vectors, dtype=float32), starts, axis=1)
    found: Floats = squares / numpy.maximum(squares.sum(axis=1, keepdims=True), 1e-9)
    return found


def common_lengths(some: Floats, others: Floats) -> Floats:
    """Return the length that each of some vectors and each of others have in the parts that both have."""
    both = (some @ (others > 0).T.astype("float32")) * ((some > 0).astype("float32") @ others.T)
    found: Floats = both.clip(1e-6) ** 0.5
    return found


def _cut(text: str, size: int) -> tuple[str, str]:
    """Return the beginning of a text, up to a paragraph or a space, and the rest."""
    if len(text) <= size:
        return text, ""
    end = text.rfind("\n\n", size // 2, size)
    if end < 0:
        end = max(text.rfind(space, size // 2, size) for space in " \n\t")
    end = end if end > 0 else size
    return text[:end].rstrip(), text[end:].lstrip()
