"""The vectors of an index: which passages of a memory are embedded, and where their vectors are stored.

Each passage has a row in the table `vector` of the index's database: whole numbers from -127 to 127 with a scale,
under the hash of its text. A row whose memory is gone or changed has no `entry`; the next search gives it to a memory
that has the same passage, or deletes it. Every 512 rows are repeated in one of `vector_block`, which is read at once.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from memsheaf.index.database import BLOCK, UNUSABLE, notes, writing
from memsheaf.memory import Memory
from memsheaf.text.sections import searched_texts

if TYPE_CHECKING:
    from numpy import float32, int8, int64
    from numpy.typing import NDArray

    Best = Callable[[NDArray[float32]], NDArray[float32]]

FIRST, NEXT, MOST = 600, 800, 16  # characters of the first and of later passages; passages at most

KEY = 16  # bytes
NEAREST = 50
MANY = 100  # rows that have their vectors already, from which on the cursor passes over them
AT_ONCE = 1_000  # keys in one statement
SAMPLED = 1_024  # vectors by which a threshold is set
UNUSED = 30  # days that the vectors of another embedder stay

_FIT = f"state IN ('ok', 'free') AND version NOT IN ('', '{UNUSABLE}')"
_WAITING = f"id > ? AND {_FIT} AND NOT EXISTS (SELECT 1 FROM vector WHERE entry = entry.id AND embedder = ?)"
_REMOVED = "vectors removed"


class StoredVector(NamedTuple):
    """A vector as it is stored."""

    scale: float
    data: bytes


def passages(memory: Memory) -> list[str]:
    """The texts that stand for a memory, one vector each; the best of them counts. [] for one that says nothing.

    >>> from memsheaf.memory import parse
    >>> header = "---\\nname: Ports\\ndescription: Which are taken\\ntype: project\\n---\\n"
    >>> passages(parse("ports.md", f"{header}8080 is the proxy.\\n".encode()))
    ['Ports. Which are taken\\n8080 is the proxy.']
    >>> long = passages(parse("ports.md", (header + "A port is taken. " * 100).encode()))
    >>> [len(text) for text in long], long[1][:20]
    ([619, 804, 309], 'Ports\\nport is taken.')
    """
    name, description, body = searched_texts(memory)
    name, rest = name[:200], body[: 2 * FIRST + MOST * NEXT].strip()
    piece, rest = _cut(rest, FIRST)
    head = f"{name}. " if name else ""
    found = [f"{head}{description[:500]}\n{piece}".strip()]
    while rest and len(found) < MOST:
        piece, rest = _cut(rest, NEXT)
        found.append(f"{name}\n{piece}".lstrip("\n"))
    return found if found[0] else []


def key_of(text: str) -> bytes:
    """What the vector of a text is stored under."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:KEY]


def quantize(vectors: NDArray[float32]) -> list[StoredVector]:
    """Vectors as they are stored: the largest number of each becomes 127."""
    import numpy

    largest = numpy.abs(vectors).max(axis=1, keepdims=True)
    scales = numpy.maximum(largest, numpy.float32(1e-30)) / numpy.float32(127)
    rows = numpy.rint(vectors / scales).astype(numpy.int8)
    return [StoredVector(float(scale), row.tobytes()) for scale, row in zip(scales[:, 0], rows, strict=True)]


def count_memories(db: sqlite3.Connection) -> int:
    """How many memories can have vectors."""
    return int(db.execute(f"SELECT count(*) FROM entry WHERE {_FIT}").fetchone()[0])


def delete_orphans(db: sqlite3.Connection) -> None:
    """Delete the vectors, of all embedders, whose memory is gone or changed."""
    if db.execute("SELECT 1 FROM vector WHERE entry IS NULL LIMIT 1").fetchone():
        with writing(db):
            db.execute("DELETE FROM vector WHERE entry IS NULL")
            _count_removal(db)


def delete_texts(db: sqlite3.Connection, keys: Collection[bytes]) -> None:
    """Delete the vectors of some texts, whichever memory has them; one that still does is embedded again."""
    every = list(keys)
    with writing(db):
        for start in range(0, len(every), AT_ONCE):
            part = every[start : start + AT_ONCE]
            same = f"SELECT entry FROM vector WHERE key IN ({', '.join('?' * len(part))})"
            db.execute(f"UPDATE vector SET entry = NULL WHERE entry IN ({same})", part)
        db.execute("DELETE FROM vector WHERE entry IS NULL")
        db.execute("DELETE FROM note WHERE name LIKE 'vectors:%'")
        _count_removal(db)


class VectorTable:
    """The vectors of one embedder. A note has the last row that was seen to, and the day of its last use."""

    def __init__(self, identity: str, dimensions: int, clock: Callable[[], float], parts: Sequence[int] = ()) -> None:
        self.parts = parts  # the dimensions of each of several embedders
        digest = sha256(f"{dimensions} {identity}".encode()).digest()
        self._embedder = int.from_bytes(digest[:6], "big")
        self._dimensions = dimensions
        self._clock = clock
        self._name = f"vectors:{self._embedder:012x}"
        self._matrix: _Matrix | None = None
        self._shares: NDArray[float32]

    def waiting(self, db: sqlite3.Connection, limit: int) -> list[tuple[int, str]]:
        """Memories that have no vectors yet, oldest first: row and path."""
        sql = f"SELECT id, path FROM entry WHERE {_WAITING} ORDER BY id LIMIT ?"
        return db.execute(sql, (self._cursor(db), self._embedder, limit)).fetchall()

    def count_waiting(self, db: sqlite3.Connection, limit: int = -1) -> int:
        """How many memories wait, counted up to `limit`."""
        sql = f"SELECT count(*) FROM (SELECT 1 FROM entry WHERE {_WAITING} LIMIT ?)"
        return int(db.execute(sql, (self._cursor(db), self._embedder, limit)).fetchone()[0])

    def has_half(self, db: sqlite3.Connection) -> bool:
        """Whether at least half of the files have vectors."""
        half = notes(db).rows / 2
        sql = "SELECT count({}) FROM vector WHERE embedder = ? AND entry IS NOT NULL"
        counts = ("*", "DISTINCT entry")  # the first is never less, and quicker
        return all(db.execute(sql.format(what), (self._embedder,)).fetchone()[0] >= half for what in counts)

    def orphans(self, db: sqlite3.Connection) -> dict[bytes, StoredVector]:
        """The vectors whose memory is gone or changed, for another that has the same passage."""
        sql = "SELECT key, scale, data FROM vector WHERE entry IS NULL AND embedder = ?"
        return {key: StoredVector(scale, data) for key, scale, data in db.execute(sql, (self._embedder,))}

    def add(
        self, db: sqlite3.Connection, done: Mapping[int, Sequence[bytes]], vectors: Mapping[bytes, StoredVector]
    ) -> None:
        """Store the vectors of some rows, given by the keys of their passages, and pass over these rows from now on.

        A row that is gone meanwhile, or has got its vectors from another process, gets none.
        """
        if not done:
            return
        with writing(db):
            marks = ", ".join("?" * len(done))
            sql = f"SELECT id FROM entry WHERE id IN ({marks}) AND {_WAITING}"
            alive = {row for (row,) in db.execute(sql, (*done, 0, self._embedder))}
            rows = [
                (self._embedder, entry, key, vectors[key].scale, vectors[key].data)
                for entry, keys in done.items()
                if entry in alive
                for key in keys
            ]
            db.executemany("INSERT INTO vector (embedder, entry, key, scale, data) VALUES (?, ?, ?, ?, ?)", rows)
            self._set_cursor(db, max(done))

    def finish(self, db: sqlite3.Connection) -> None:
        """Once nothing waits: skip rows that have their vectors, and delete those unused for a month."""
        today = self._today()
        last, used = db.execute("SELECT a, b FROM note WHERE name = ?", (self._name,)).fetchone() or (0, 0)
        newest = db.execute("SELECT max(id) FROM entry").fetchone()[0] or 0
        if newest - last <= MANY and used == today:
            return
        with writing(db):
            self._set_cursor(db, newest)
            sql = "SELECT name FROM note WHERE name LIKE 'vectors:%' AND b < ?"
            for (name,) in db.execute(sql, (today - UNUSED,)).fetchall():
                db.execute("DELETE FROM vector WHERE embedder = ?", (int(name.partition(":")[2], 16),))
                db.execute("DELETE FROM note WHERE name = ?", (name,))
                _count_removal(db)

    def cosines(self, db: sqlite3.Connection, question: NDArray[float32]) -> NDArray[float32]:
        """The cosine of each stored vector with a question of length 1, in the order of `ids`."""
        found = self._refreshed(db, self._matrix)
        if found is not self._matrix:
            self._matrix, self._shares = found, shares(found.rows, self.parts)
        return found.cosines(question) / common_lengths(self._shares, shares(question[None], self.parts))[:, 0]

    def nearest(self, db: sqlite3.Connection, cosines: NDArray[float32]) -> list[int]:
        """The rows with the nearest passages, nearest first. `cosines` were just given."""
        import numpy

        ids = self._ids()
        found: list[int] = []
        for take in (4 * NEAREST, MOST * NEAREST):  # the second is enough even if all are as long as can be
            places = numpy.arange(len(cosines))
            if take < len(cosines):
                places = numpy.argpartition(cosines, len(cosines) - take)[len(cosines) - take :]
            best = ids[places[numpy.argsort(-cosines[places], kind="stable")]].tolist()
            marks = ", ".join("?" * len(best))
            sql = f"SELECT id, entry FROM vector WHERE id IN ({marks}) AND entry IS NOT NULL"
            entries = dict(db.execute(sql, best))
            found = list(dict.fromkeys(entries[one] for one in best if one in entries))[:NEAREST]
            if len(found) == NEAREST or take >= len(cosines):
                break
        return found

    def best_of(
        self, db: sqlite3.Connection, entries: Collection[int], cosines: NDArray[float32], digits: int
    ) -> dict[int, float]:
        """The cosine of the best passage of each of these rows that has any."""
        ids = self._ids()
        marks = ", ".join("?" * len(entries))
        sql = f"SELECT entry, id FROM vector WHERE embedder = ? AND entry IN ({marks})"
        found: dict[int, float] = {}
        rows = db.execute(sql, (self._embedder, *entries)).fetchall()
        places = ids.searchsorted([number for _, number in rows])
        for (entry, number), place in zip(rows, places.tolist(), strict=True):
            if place < len(ids) and ids[place] == number:  # otherwise it came after the cosines were taken
                found[entry] = max(found.get(entry, -2.0), round(float(cosines[place]), digits))
        return found

    def threshold(self, db: sqlite3.Connection, kind: str, measure: Callable[[Best], float]) -> float:
        """What `measure` makes of these vectors; it is kept until they change. `cosines` were just given."""
        matrix = self._matrix
        assert matrix is not None
        name = f"threshold:{self._embedder:012x}:{kind}"
        state = int(matrix.ids[-1]) if len(matrix.ids) else 0, len(matrix.ids), matrix.removed
        found = db.execute("SELECT a, b, c, d FROM note WHERE name = ?", (name,)).fetchone()
        if found and found[:3] == state:
            return float(found[3]) / 10_000
        made = measure(self._best) if state[1] else 0.0
        with suppress(sqlite3.OperationalError), writing(db):  # it can be made again
            db.execute("INSERT OR REPLACE INTO note VALUES (?, ?, ?, ?, ?)", (name, *state, round(made * 10_000)))
        return made

    def _best(self, others: NDArray[float32]) -> NDArray[float32]:
        """The highest cosine of each of some other vectors with these; of very many, with some of these."""
        matrix = self._matrix
        assert matrix is not None
        part = slice(None, None, -(-len(matrix.ids) // SAMPLED))
        made = (matrix.rows[part] * matrix.scales[part, None]) @ others.T
        found: NDArray[float32] = (made / common_lengths(self._shares[part], shares(others, self.parts))).max(axis=0)
        return found

    def _ids(self) -> NDArray[int64]:
        assert self._matrix is not None
        return self._matrix.ids

    def _today(self) -> int:
        return int(self._clock() // 86_400)

    def _cursor(self, db: sqlite3.Connection) -> int:
        return _number(db, self._name)

    def _set_cursor(self, db: sqlite3.Connection, last: int) -> None:
        """Pass over the rows up to the last that was seen to, and make the blocks that are missing."""
        update = "ON CONFLICT (name) DO UPDATE SET a = max(a, excluded.a), b = excluded.b"
        sql = f"INSERT INTO note VALUES (?, ?, ?, 0, 0) {update}"
        db.execute(sql, (self._name, last, self._today()))
        known = db.execute("SELECT number FROM vector_block WHERE embedder = ?", (self._embedder,))
        for number in set(range(_newest(db) // BLOCK)).difference(*known):
            block = number, self._embedder, self._packed(db, number)
            db.execute("INSERT INTO vector_block VALUES (?, ?, ?)", block)

    def _refreshed(self, db: sqlite3.Connection, old: _Matrix | None) -> _Matrix:
        """The vectors in the database now: what is cached, without what was deleted, and with what came."""
        import numpy

        removed = _number(db, _REMOVED)
        last = int(old.ids[-1]) if old is not None and len(old.ids) else 0
        if old is not None and old.removed != removed:
            sql = "SELECT id FROM vector WHERE embedder = ? AND id <= ?"
            present = [number for (number,) in db.execute(sql, (self._embedder, last))]
            kept = numpy.isin(old.ids, present)
            old = _Matrix(old.ids[kept], old.scales[kept], old.rows[kept], removed)
        newest = _newest(db)
        if old is not None and last == newest:
            return old
        first = last // BLOCK
        sql = "SELECT number, data FROM vector_block WHERE embedder = ? AND number > ?"
        blocks: dict[int, bytes] = dict(db.execute(sql, (self._embedder, first - (last == 0))))
        numbers = range(first, newest // BLOCK + 1)
        parts = [self._unpacked(blocks.get(number) or self._packed(db, number, last)) for number in numbers]
        if old is not None:
            parts = [old, *(part for part in parts if len(part.ids))]
            if len(parts) == 1:
                return old
        ids, scales, rows = map(numpy.concatenate, zip(*(part[:3] for part in parts), strict=True))
        return _Matrix(ids, scales, rows, removed)

    def _packed(self, db: sqlite3.Connection, number: int, last: int = 0) -> bytes:
        """A block made from its rows behind the `last`: all ids, all scales, all vectors."""
        sql = "SELECT id, scale, data FROM vector WHERE embedder = ? AND id > ? AND id < ? ORDER BY id"
        bounds = max(last, number * BLOCK - 1), (number + 1) * BLOCK
        rows = db.execute(sql, (self._embedder, *bounds)).fetchall()
        if any(len(data) != self._dimensions for _, _, data in rows):
            raise sqlite3.DatabaseError("a vector has not the length that it should have")
        scales = array("f", [scale for _, scale, _ in rows])
        return b"".join([array("q", [number for number, _, _ in rows]), scales, *[data for _, _, data in rows]])

    def _unpacked(self, data: bytes) -> _Matrix:
        import numpy

        count = len(data) // (12 + self._dimensions)
        ids = numpy.frombuffer(data, numpy.int64, count)
        scales = numpy.frombuffer(data, numpy.float32, count, 8 * count)
        rows = numpy.frombuffer(data, numpy.int8, offset=12 * count)
        return _Matrix(ids, scales, rows.reshape(count, self._dimensions), 0)


class _Matrix(NamedTuple):
    """All vectors of an embedder, by their ids, and how often any was removed until then."""

    ids: NDArray[int64]
    scales: NDArray[float32]
    rows: NDArray[int8]
    removed: int

    def cosines(self, question: NDArray[float32]) -> NDArray[float32]:
        import numpy

        from memsheaf.embed.threads import one_thread

        count = len(self.ids)
        made = numpy.empty(count, numpy.float32)
        floats = numpy.empty((min(BLOCK, count), self.rows.shape[1]), numpy.float32)
        with one_thread():
            for start in range(0, count, BLOCK):
                part = self.rows[start : start + BLOCK]
                numpy.copyto(floats[: len(part)], part)
                numpy.dot(floats[: len(part)], question, out=made[start : start + BLOCK])
        made *= self.scales
        return made


def shares(vectors: NDArray[Any], parts: Sequence[int]) -> NDArray[float32]:
    """How much of each vector lies in each of its parts, in squares: 0 where one of the embedders says nothing."""
    import numpy

    starts = [sum(parts[:place]) for place in range(len(parts))]
    if not starts:
        return numpy.ones((len(vectors), 1), numpy.float32)
    squares = numpy.add.reduceat(numpy.square(vectors, dtype=numpy.float32), starts, axis=1)
    found: NDArray[float32] = squares / numpy.maximum(squares.sum(axis=1, keepdims=True), 1e-9)
    return found


def common_lengths(some: NDArray[float32], others: NDArray[float32]) -> NDArray[float32]:
    """The length that each of some vectors and each of others have in the parts that both have."""
    both = (some @ (others > 0).T.astype("float32")) * ((some > 0).astype("float32") @ others.T)
    found: NDArray[float32] = both.clip(1e-6) ** 0.5
    return found


def _newest(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT max(id) FROM vector").fetchone()[0] or 0)


def _number(db: sqlite3.Connection, name: str) -> int:
    found = db.execute("SELECT a FROM note WHERE name = ?", (name,)).fetchone()
    return int(found[0]) if found else 0


def _count_removal(db: sqlite3.Connection) -> None:
    sql = "INSERT INTO note VALUES (?, 1, 0, 0, 0) ON CONFLICT (name) DO UPDATE SET a = a + 1"
    db.execute(sql, (_REMOVED,))


def _cut(text: str, size: int) -> tuple[str, str]:
    """The beginning of a text, up to a paragraph or a space, and the rest."""
    if len(text) <= size:
        return text, ""
    end = text.rfind("\n\n", size // 2, size)
    if end < 0:
        end = max(text.rfind(space, size // 2, size) for space in " \n\t")
    end = end if end > 0 else size
    return text[:end].rstrip(), text[end:].lstrip()
