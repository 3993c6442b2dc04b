"""One scope at a glance: counts, what is new, and what happened."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from memsheaf.index.browse import (
    RowCounts,
    count_rows,
    database_state,
    named_rows,
)
from memsheaf.writer import Writer

if TYPE_CHECKING:
    from memsheaf.history import CommitLog

NEWEST = 20  # new memories that are told by name


class NewMemory(NamedTuple):
    """A memory that was added lately: when, and by whom."""

    path: str
    name: str
    kind: str
    at: str
    by: str


class ScopeCounts(NamedTuple):
    """What a scope holds, how many memories are new, and the newest of them first."""

    rows: RowCounts
    added: int
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
    def commits(self) -> CommitLog:
        """What happened in the last year."""
        if self._commits is None:
            from memsheaf.history import CommitLog

            self._commits = CommitLog(self._store, self._clock)
        return self._commits

    def counts(self, since: str) -> ScopeCounts:
        """How many memories there are, and those added since a day and still there; cached until the next write."""
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
            newest = islice((path for path in added if path in found), NEWEST)
            new = [NewMemory(path, *found[path], added[path].at, added[path].by) for path in newest]
            self._counts = state, ScopeCounts(self._index.query(count_rows), len(found), new)
        return self._counts[1]

    def named(self, paths: Collection[str] | None = None) -> dict[str, tuple[str, str]]:
        """The name and the type of each file, or of these as far as they are there, by path."""
        return self._index.query(lambda db: named_rows(db, paths))
