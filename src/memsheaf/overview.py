"""One scope at a glance: counts, and what its map is made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from memsheaf.index.browse import MapRow, first_vectors, index_stamp, map_rows
from memsheaf.writer import Writer

TYPE_CHECKING = False  # known to type checkers by this name; the journal is summarized when somebody asks
if TYPE_CHECKING:
    from memsheaf.history import CommitLog


class ScopeOverview:
    """Answers questions about all of a scope at once; what others do to its files is noticed by `stamp`."""

    def __init__(self, writer: Writer, clock: Callable[[], float]) -> None:
        self._store = writer.store
        self._index = writer.index
        self._clock = clock
        self._commits: CommitLog | None = None

    @property
    def root(self) -> str:
        """The folder that holds the files."""
        return self._store.root

    def stamp(self) -> tuple[int, ...]:
        """Numbers that differ once a memory or a vector changed."""
        self._index.look()
        return self._index.query(index_stamp)

    @property
    def commits(self) -> CommitLog:
        """What happened in the last year."""
        if self._commits is None:
            from memsheaf.history import CommitLog

            self._commits = CommitLog(self._store, self._clock)
        return self._commits

    def kinds(self, paths: Collection[str] | None = None) -> dict[str, str]:
        """The type of each memory, or of these as far as they are there, by path."""
        some = f" AND path IN ({', '.join('?' * len(paths))})" if paths is not None else ""
        sql = f"SELECT path, kind FROM entry WHERE version <> ''{some}"
        return self._index.query(lambda db: dict(db.execute(sql, tuple(paths or ())).fetchall()))

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
