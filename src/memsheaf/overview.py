"""One scope at a glance: counts, and what its map is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memsheaf.index.overview import MapRow, first_vectors, index_stamp, map_rows
from memsheaf.writer import Writer


class ScopeOverview:
    """Answers questions about all of a scope at once; what others do to its files is noticed by `stamp`."""

    def __init__(self, writer: Writer) -> None:
        self._store = writer.store
        self._index = writer.index

    @property
    def root(self) -> str:
        """The folder that holds the files."""
        return self._store.root

    def stamp(self) -> tuple[int, ...]:
        """Numbers that differ once a memory or a vector changed."""
        self._index.look()
        return self._index.query(index_stamp)

    def map_rows(self) -> Sequence[MapRow]:
        """Every memory, for a map."""
        return self._index.query(map_rows)

    def first_vectors(self, embedder: int) -> dict[str, bytes]:
        """The vector of the first passage of each memory, by path."""
        return self._index.query(lambda db: first_vectors(db, embedder))

    def embed_all(self, progress: Callable[[int, int], None] | None = None, *, seconds: float) -> None:
        """Make the vectors that are missing, for about so many seconds."""
        self._index.embed_all(progress, seconds=seconds)

    def read_bytes(self, path: str) -> bytes:
        """The text of a memory. Raises NotFound, PathRefused."""
        return self._store.read(path).data
