"""Activity: the changes of all scopes by day, and undo, from there or from the notice after a change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import groupby
from typing import NamedTuple

from starlette.responses import Response

from memsheaf.memory import KINDS
from memsheaf.open_scope import TOGETHER, local_day, names_in, tell_commit
from memsheaf.sheaf import Sheaf, undo_together
from memsheaf.store.commit_queries import CommitStep, CommitSummary
from memsheaf.web.page import PageRequest

COMMITS_PER_PAGE = 40
MAX_SHOWN_CHANGES = 12  # of one commit
MAX_NAMES_IN_NOTICE = 3
WHO = ("user", "agent", "extraction", "consolidation", "import", "outside")
WHAT = ("added", "changed", "removed")


class TimelineFilter(NamedTuple):
    """The commits that are wanted; "" does not matter. `who` may be "other" for all other programs.

    `text` is a part of a path, a reason or the id of a commit; `day` and `since` are local days.
    """

    who: str = ""
    what: str = ""
    kind: str = ""
    text: str = ""
    day: str = ""
    since: str = ""


class ShownChange(NamedTuple):
    """One memory that a commit changed: what happened to it, and how it is called."""

    what: str
    path: str
    name: str
    kind: str
    is_there: bool


class ShownCommit(NamedTuple):
    """A commit as a person reads it. `state` is that of `CommitLog.undo_states`; `more` changes are not shown."""

    scope: str
    id: str
    at: str
    day: str
    by: str
    why: str
    told: str
    state: str
    undoes: str
    changes: Sequence[ShownChange]
    more: int


def show_activity(page: PageRequest) -> Response:
    """Show the commits that the filter selects, newest first, day by day."""
    sheaves = {scope.key: sheaf for scope, sheaf in page.select(page.query["scope"]).items()}
    for sheaf in sheaves.values():
        sheaf.own.index.look()
    wanted = TimelineFilter(*(page.query[name] for name in ("who", "what", "type", "q", "day", "since")))
    offset = (page.number - 1) * COMMITS_PER_PAGE
    commits, total = timeline(sheaves, wanted, limit=COMMITS_PER_PAGE, offset=offset)
    days = groupby(commits, key=lambda commit: commit.day)
    return page.show(
        "activity.html",
        days=[(day, list(commits)) for day, commits in days],
        total=total,
        wanted=wanted,
        titles={scope.key: scope.title for scope in page.site.known()},
        who=(*WHO, "other"),
        what=WHAT,
        kinds=KINDS,
        at=page.number,
        last=-(-total // COMMITS_PER_PAGE),
    )


def timeline(
    sheaves: Mapping[str, Sheaf], wanted: TimelineFilter, *, limit: int, offset: int = 0
) -> tuple[list[ShownCommit], int]:
    """Return some of the commits of these scopes, by their keys, in the last year, and how many are wanted."""
    by_scope = []
    for key, sheaf in sheaves.items():
        kinds = {path: kind for path, (_, kind) in sheaf.own.names().items()} if wanted.kind else {}
        commits = sheaf.own.commits.commits()
        by_scope.append([(key, commit) for commit in commits if _is_wanted(commit, wanted, kinds)])
    page = list(merge(*by_scope, key=lambda entry: entry[1].at, reverse=True))[offset : offset + limit]
    shown: dict[tuple[str, str], ShownCommit] = {}
    for key in {key for key, _ in page}:
        for commit in _describe(key, sheaves[key], [commit for where, commit in page if where == key]):
            shown[key, commit.id] = commit
    return [shown[key, commit.id] for key, commit in page], sum(map(len, by_scope))


def _is_wanted(commit: CommitSummary, wanted: TimelineFilter, kinds: Mapping[str, str]) -> bool:
    who, what, kind, text, day, since = wanted
    if who == "other" and commit.by in WHO:
        return False
    if who not in ("", "other", commit.by):
        return False
    if day not in ("", local_day(commit.at)) or (since and local_day(commit.at) < since):
        return False
    if what and not any(step.what == what for step in commit.steps):
        return False
    if kind and not any(_kind_of(step, kinds) == kind for step in commit.steps):
        return False
    searched = "\n".join([commit.id, commit.why, *(step.path for step in commit.steps)])
    return text.casefold() in searched.casefold()


def _kind_of(step: CommitStep, kinds: Mapping[str, str]) -> str:
    start = step.path.rpartition("/")[2].partition("_")[0]
    return kinds.get(step.path) or (start if start in KINDS else "")


def _describe(key: str, sheaf: Sheaf, commits: Sequence[CommitSummary]) -> Iterator[ShownCommit]:
    log = sheaf.own.commits
    every = {commit.id: commit for commit in log.commits()}
    states = log.undo_states()
    # many texts are slow to read
    texts = log.find({commit.id for commit in commits if len(commit.steps) <= MAX_SHOWN_CHANGES})
    present = sheaf.own.names({step.path for commit in commits for step in commit.steps[:MAX_SHOWN_CHANGES]})
    for commit in commits:
        known = names_in(texts[commit.id]) if commit.id in texts else present
        names = {path: name for path, (name, _) in known.items()}
        changes = []
        for step in commit.steps[:MAX_SHOWN_CHANGES]:
            name, kind = known.get(step.path, ("", ""))
            changes.append(ShownChange(step.what, step.path, name, kind, step.path in present))
        why = commit.why.partition(TOGETHER)[0]
        if commit.undoes or any(change.name and change.name in why for change in changes):
            why = ""  # it repeats the sentence about the commit
        yield ShownCommit(
            scope=key,
            id=commit.id,
            at=commit.at,
            day=local_day(commit.at),
            by=commit.by,
            why=why,
            told=tell_commit(commit, names, every.get(commit.undoes)),
            state=states[commit.id],
            undoes=commit.undoes,
            changes=changes,
            more=len(commit.steps) - len(changes),
        )


def undo(page: PageRequest) -> Response:
    """Undo a commit, with those that were made together with it; the notice that follows undoes this."""
    undone = undo_together(page.open(page.form["key"]).own, page.form["commit"], page.scopes.every())
    scope, commit = undone[0]
    paths = list(dict.fromkeys(step.path for _, change in undone for step in change.revisions))
    names = ", ".join(paths[:MAX_NAMES_IN_NOTICE])
    if len(paths) > MAX_NAMES_IN_NOTICE:
        names += ", …"
    return page.go(page.back(), f"Undone: {names}.", commit=commit, key=page.key_of(scope))
