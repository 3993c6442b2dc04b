"""What an index holds at a glance: counts by type and trust, and the rows and vectors that a map is made of."""

from __future__ import annotations

from memsheaf.index.database import HIDDEN, UNUSABLE, notes
from memsheaf.values import NamedTuple, sqlite3

_FIT = f"state IN ('ok', 'free') AND listed <> {HIDDEN} AND version NOT IN ('', '{UNUSABLE}')"
_MAIN = "SELECT embedder FROM vector WHERE entry IS NOT NULL GROUP BY embedder ORDER BY count(*) DESC LIMIT 1"


class MapRow(NamedTuple):
    """A memory to be placed on a map; `embedder` is 0 when it has no vector."""

    path: str
    kind: str
    name: str
    description: str
    version: str
    supersedes: str
    embedder: int


def index_stamp(db: sqlite3.Connection) -> tuple[int, ...]:
    """Numbers that differ once a row or a vector came, changed or went."""
    known = notes(db)
    vectors = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'vector'").fetchone()
    return (known.fact("last"), *known.tally, known.fact("vectors removed"), vectors[0] if vectors else 0)


def count_rows(db: sqlite3.Connection) -> dict[tuple[str, str], int]:
    """How many memories there are of each type and trust."""
    sql = f"SELECT kind, trust, count(*) FROM entry WHERE {_FIT} GROUP BY kind, trust"
    return {(kind, trust): count for kind, trust, count in db.execute(sql)}


def map_rows(db: sqlite3.Connection) -> list[MapRow]:
    """Every memory, in the order of the paths."""
    embedder = (db.execute(_MAIN).fetchone() or (0,))[0]
    has = "CASE WHEN id IN (SELECT entry FROM vector WHERE embedder = ?1) THEN ?1 ELSE 0 END"
    sql = f"SELECT path, kind, name, description, version, supersedes, {has} FROM entry WHERE {_FIT} ORDER BY path"
    return [MapRow(*row) for row in db.execute(sql, (embedder,))]


def first_vectors(db: sqlite3.Connection, embedder: int) -> dict[str, bytes]:
    """The vector of each memory's first passage, by path: whole numbers from -127 to 127."""
    joined = "vector JOIN entry ON entry.id = vector.entry"
    sql = f"SELECT path, data, min(vector.id) FROM {joined} WHERE embedder = ? GROUP BY vector.entry"
    return {path: data for path, data, _ in db.execute(sql, (embedder,))}
