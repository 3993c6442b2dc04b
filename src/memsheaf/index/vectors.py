"""The vectors of an index: which passages of a memory are embedded, and how their vectors are stored and compared.

A memory has one row in the table `vector`, and a second one while an embedder takes the place of another. It holds a
record for each passage: a scale, and whole numbers from -127 to 127. The row goes with the memory's row in `entry`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy
from numpy import float32, int64
from numpy.typing import NDArray

from memsheaf.index.database import IS_EMBEDDABLE, state_of, writing
from memsheaf.memory import Memory
from memsheaf.text.sections import searched_texts

FIRST_PASSAGE_CHARS = 600
NEXT_PASSAGE_CHARS = 800
MAX_PASSAGES = 16
MAX_NEAREST = 50
BLOCK_VECTORS = 512  # vectors that are multiplied at once: they stay in the processor's cache

Floats = NDArray[float32]


def passages(memory: Memory) -> list[str]:
    """Return the texts that stand for a memory, one vector each; the best of them counts. [] if it says nothing.

    >>> from memsheaf.memory import parse
    >>> header = "---\\nname: Ports\\ndescription: Which are taken\\ntype: project\\n---\\n"
    >>> passages(parse("ports.md", f"{header}8080 is the proxy.\\n".encode()))
    ['Ports\\nWhich are taken\\n8080 is the proxy.']
    >>> long = passages(parse("ports.md", (header + "A port is taken. " * 100).encode()))
    >>> [len(text) for text in long], long[1][:20]
    ([618, 804, 309], 'Ports\\nport is taken.')
    """
    name, description, body = searched_texts(memory)
    name = name[:200]
    first, rest = _cut(
        body[: 2 * FIRST_PASSAGE_CHARS + MAX_PASSAGES * NEXT_PASSAGE_CHARS].strip(), FIRST_PASSAGE_CHARS
    )
    lines = [first]
    # a line that the text below it repeats is left out
    if not _says(body, description[:500]):
        lines.insert(0, description[:500])
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
        if not len(cosines):
            return []
        take = min(MAX_PASSAGES * MAX_NEAREST, len(cosines))  # enough even if all are as long as can be
        places = numpy.argpartition(cosines, len(cosines) - take)[len(cosines) - take :]
        best = places[numpy.lexsort((places, -cosines[places]))]
        return list(dict.fromkeys(self._entries[best].tolist()))[:MAX_NEAREST]

    def best_of(self, entries: Sequence[int], cosines: Floats, digits: int) -> dict[int, float]:
        """Return the cosine of the best passage of each of these entries that has any."""
        places = numpy.flatnonzero(numpy.isin(self._entries, entries))
        best: dict[int, float] = {}
        for entry, cosine in zip(self._entries[places].tolist(), cosines[places].tolist(), strict=True):
            best[entry] = max(best.get(entry, -2.0), round(cosine, digits))
        return best

    def _refresh(self, db: sqlite3.Connection) -> None:
        """Read the vectors that came since; if some are gone, all of them."""
        if self._state == state_of(db):
            return
        self._state = state_of(db)
        sql = "SELECT id, entry, data FROM vector WHERE embedder = ? AND id > ? ORDER BY id"
        rows = db.execute(sql, (self._embedder, self._last)).fetchall()
        if self._count + len(rows) != self.count(db):
            self._count = self._last = 0
            self._entries = self._entries[:0]
            self._records = self._records[:0]
            rows = db.execute(sql, (self._embedder, 0)).fetchall()
        if not rows:
            return
        entries: list[int] = []
        for _, entry, data in rows:
            size, rest = divmod(len(data), self._records.itemsize)
            if rest:
                raise sqlite3.DatabaseError("a vector has not the length that it should have")
            entries += [entry] * size
        self._last = rows[-1][0]
        self._count += len(rows)
        records = numpy.frombuffer(b"".join(data for *_, data in rows), self._records.dtype)
        self._entries = numpy.concatenate([self._entries, numpy.array(entries, int64)])
        self._records = numpy.concatenate([self._records, records])


def _says(text: str, line: str) -> bool:
    """Return True if a text holds a line, whatever its case; one that was shortened ends in "…"."""
    return line.rstrip("….").casefold() in text.casefold()


def _cut(text: str, size: int) -> tuple[str, str]:
    """Return the beginning of a text, up to a paragraph or a space, and the rest."""
    if len(text) <= size:
        return text, ""
    end = text.rfind("\n\n", size // 2, size)
    if end < 0:
        end = max(text.rfind(space, size // 2, size) for space in " \n\t")
    end = end if end > 0 else size
    return text[:end].rstrip(), text[end:].lstrip()
