"""Take back what was done in several scopes together: a move, or a change of many memories."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import takewhile

from memsheaf.errors import NoSuchCommit
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Commit

TOGETHER = ", together with "  # in a commit's reason, before the id of the first commit
MOVE = "move "  # how the reason of a move begins, in both scopes
APART = timedelta(hours=1)  # at most, between commits that were made together


def undo_together(sheaf: Sheaf, commit_id: str, others: Iterable[Sheaf] = ()) -> list[tuple[Sheaf, Commit]]:
    """Take back a commit, and those that still stand of what was made together with it in other scopes.

    That an undo of them can be undone in the same way, too. `others` may repeat scopes.

    Raises:
        NoSuchCommit: there is none, or several begin with that id.
        Changed: a memory was changed again since.
    """
    commit = sheaf.reader.last_change(commit_id)
    group = _group(sheaf, commit)
    since = str(datetime.fromisoformat(commit.at) - APART).replace(" ", "T")
    wanted = [(sheaf, commit)]
    for other in {**{one.root: one for one in others}, sheaf.root: sheaf}.values():
        for one in _standing(takewhile(lambda one: one.at >= since, other.log())):
            if one.id != commit.id and _group(other, one) == group:
                wanted.append((other, one))
    # what was removed comes back before its copy elsewhere goes: whatever fails in between, it is in one place
    wanted.sort(key=lambda one: any(step.before == ABSENT for step in one[1].revisions))
    return [(where, where.undo(one.id)) for where, one in wanted]


def is_move(sheaf: Sheaf, commit: Commit) -> bool:
    """Whether a commit, or the one that it undoes, moved memories to or from another scope."""
    return _origin(sheaf, commit)[0].why.startswith(MOVE)


def _standing(commits: Iterable[Commit]) -> Iterator[Commit]:
    """Those of the commits, newest first, that were not undone since."""
    undone: set[str] = set()
    for commit in commits:
        if commit.id not in undone:
            undone.add(commit.undoes)
            yield commit


def _group(sheaf: Sheaf, commit: Commit) -> tuple[str, int]:
    """What commits that were made together have in common: the id of the first, and how often it was undone."""
    origin, times = _origin(sheaf, commit)
    _, sign, first = origin.why.rpartition(TOGETHER)
    return first if sign else origin.id, times


def _origin(sheaf: Sheaf, commit: Commit) -> tuple[Commit, int]:
    """The commit that an undo, or an undo of that, goes back to."""
    times = 0
    with suppress(NoSuchCommit):
        while commit.undoes:
            commit, times = sheaf.reader.last_change(commit.undoes), times + 1
    return commit, times
