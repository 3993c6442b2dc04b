"""The journals of several scopes as one story: commits newest first, filtered, each as a sentence; and by day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import merge

from memsheaf.history import local_day, names_in, tell_commit
from memsheaf.memory import KINDS
from memsheaf.sheaf import Sheaf
from memsheaf.store.commit_queries import CommitStep, CommitSummary
from memsheaf.values import NamedTuple

WHO = ("user", "agent", "extraction", "consolidation", "import", "outside")
WHAT = ("added", "changed", "removed")
SHOWN = 12  # changes of one commit


class TimelineFilter(NamedTuple):
    """Which commits are wanted; what is left empty does not matter. `who` may be "other" for all other programs.

    `text` is a part of a path, a reason or the id of a commit; `day` is a local day.
    """

    who: str = ""
    what: str = ""
    kind: str = ""
    text: str = ""
    day: str = ""


class ToldChange(NamedTuple):
    """One memory that a commit changed: what happened to it, and how it is called."""

    what: str
    path: str
    name: str
    kind: str
    is_there: bool


class ToldCommit(NamedTuple):
    """A commit as a person reads it. `state` is that of `CommitLog.undo_state`; `more` changes are not shown."""

    scope: str
    id: str
    at: str
    day: str
    by: str
    why: str
    told: str
    state: str
    undoes: str
    changes: Sequence[ToldChange]
    more: int


EVERY_COMMIT = TimelineFilter()


def timeline(
    sheaves: Mapping[str, Sheaf], wanted: TimelineFilter = EVERY_COMMIT, *, limit: int = 50, offset: int = 0
) -> tuple[list[ToldCommit], int]:
    """Some of the commits of these scopes, by their keys, in the last year, and how many are wanted."""
    found = [
        [(commit, key) for commit in sheaf.overview.commits.commits() if _is_wanted(commit, wanted, kinds)]
        for key, sheaf in sheaves.items()
        for kinds in [sheaf.overview.kinds() if wanted.kind else {}]
    ]
    page = list(merge(*found, key=lambda one: one[0].at, reverse=True))[offset : offset + limit]
    told: dict[tuple[str, str], ToldCommit] = {}
    for key in dict.fromkeys(key for _, key in page):
        for one in _tell(key, sheaves[key], [commit for commit, of in page if of == key]):
            told[key, one.id] = one
    return [told[key, commit.id] for commit, key in page], sum(map(len, found))


def count_days(sheaves: Iterable[Sheaf]) -> dict[str, Counter[str]]:
    """How many commits each day of the last year had, by whoever made them."""
    total: dict[str, Counter[str]] = {}
    for sheaf in sheaves:
        for day, counts in sheaf.overview.commits.days().items():
            total.setdefault(day, Counter()).update(counts)
    return total


def _is_wanted(commit: CommitSummary, wanted: TimelineFilter, kinds: Mapping[str, str]) -> bool:
    who, what, kind, text, day = wanted
    if who and (commit.by in WHO if who == "other" else commit.by != who):
        return False
    if day and local_day(commit.at) != day:
        return False
    if what and not any(step.what == what for step in commit.steps):
        return False
    if kind and not any(_kind_of(step, kinds) == kind for step in commit.steps):
        return False
    return (
        not text
        or text.casefold() in "\n".join([commit.id, commit.why, *(step.path for step in commit.steps)]).casefold()
    )


def _kind_of(step: CommitStep, kinds: Mapping[str, str]) -> str:
    start = step.path.rpartition("/")[2].partition("_")[0]
    return kinds.get(step.path) or (start if start in KINDS else "")


def _tell(key: str, sheaf: Sheaf, commits: Sequence[CommitSummary]) -> Iterable[ToldCommit]:
    log = sheaf.overview.commits
    every = {commit.id: commit for commit in log.commits()} if any(commit.undoes for commit in commits) else {}
    texts = log.find({*(commit.id for commit in commits), *(commit.undoes for commit in commits if commit.undoes)})
    present = sheaf.overview.kinds({step.path for commit in commits for step in commit.steps[:SHOWN]})
    for commit in commits:
        known = names_in(texts[commit.id]) if commit.id in texts else {}
        names = {path: name for path, (name, _) in known.items()}
        changes = [
            ToldChange(step.what, step.path, names.get(step.path, ""), known.get(step.path, ("", ""))[1],
                       step.path in present)
            for step in commit.steps[:SHOWN]
        ]  # fmt: skip
        yield ToldCommit(
            key, commit.id, commit.at, local_day(commit.at), commit.by, commit.why,
            tell_commit(commit, names, every.get(commit.undoes)), log.undo_state(commit), commit.undoes,
            changes, len(commit.steps) - len(changes),
        )  # fmt: skip
