"""One scope at a glance: counts, what is new, what happened, and what its map is made of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from memsheaf.index.browse import (
    MapRow,
    RowCounts,
    count_rows,
    database_state,
    first_vectors,
    index_stamp,
    map_rows,
    named_rows,
)
from memsheaf.values import NamedTuple
from memsheaf.writer import Writer

TYPE_CHECKING = False  # known to type checkers by this name; the journal is summarized when somebody asks
if TYPE_CHECKING:
    from memsheaf.history import CommitLog


class NewMemory(NamedTuple):
    """A memory that was added lately: when, and by whom."""

    path: str
    name: str
    kind: str
    at: str
    by: str


class ScopeCounts(NamedTuple):
    """What a scope holds, and which memories are new, newest first."""

    rows: RowCounts
    new: Sequence[NewMemory]


class ScopeOverview:
    """Answers questions about all of a scope at once."""

    def __init__(self, writer: Writer, clock: Callable[[], float]) -> None:
        self._store = writer.store
        self._index = writer.index
        self._clock = clock
        self._commits: CommitLog | None = None
        self._counts: tuple[object, ScopeCounts] | None = None

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

    def counts(self, since: str) -> ScopeCounts:
        """How many memories there are, and those added since a day that are still there.

        It is kept until somebody writes to the index, as every commit does.
        """
        self._index.look()
        state = since, self._index.query(database_state)
        if self._counts is None or self._counts[0] != state:
            added = {
                step.path: commit
                for commit in self.commits.since(since)
                for step in commit.steps
                if step.what == "added"
            }
            found = self._index.query(lambda db: named_rows(db, added, memories=True))
            new = [
                NewMemory(path, *found[path], commit.at, commit.by) for path, commit in added.items() if path in found
            ]
            self._counts = state, ScopeCounts(self._index.query(count_rows), new)
        return self._counts[1]

    def kinds(self, paths: Collection[str] | None = None) -> dict[str, str]:
        """The type of each memory, or of these as far as they are there, by path."""
        found = self._index.query(lambda db: named_rows(db, paths))
        return {path: kind for path, (_, kind) in found.items()}

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
