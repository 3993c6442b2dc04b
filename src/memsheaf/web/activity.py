"""Activity: the changes of all scopes by day, and undo, from there or from the notice after a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from heapq import merge
from itertools import groupby
from typing import NamedTuple

from starlette.responses import Response

from memsheaf.open_scope import TOGETHER
from memsheaf.sheaf import Sheaf, undo_together
from memsheaf.store import CommitSummary, Version
from memsheaf.web.page import PageRequest

COMMITS_PER_PAGE = 40
MAX_SHOWN_CHANGES = 12  # of one commit
MAX_NAMES_IN_NOTICE = 3
SHOWN_DAYS = 371  # 53 weeks
WHO = ("user", "agent", "extraction", "consolidation", "import", "outside")
WHAT = ("added", "changed", "removed")


class TimelineFilter(NamedTuple):
    """The commits that are wanted; "" does not matter. `who` may be "other" for all other programs.

    `text` is a part of a path, a reason or the id of a commit; `day` is a local day.
    """

    who: str = ""
    what: str = ""
    text: str = ""
    day: str = ""


class ShownChange(NamedTuple):
    """One memory that a commit changed; name and type are "" where it is not there any more."""

    path: str
    name: str
    kind: str


class ShownCommit(NamedTuple):
    """A commit as a person reads it. `state` is that of `find_undo_states`; `more` changes are not shown."""

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
    wanted = TimelineFilter(*(page.query[name] for name in ("who", "what", "q", "day")))
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
        at=page.number,
        last=-(-total // COMMITS_PER_PAGE),
    )


def timeline(
    sheaves: Mapping[str, Sheaf], wanted: TimelineFilter, *, limit: int, offset: int = 0
) -> tuple[list[ShownCommit], int]:
    """Return some of the commits of these scopes, by their keys, in the last year, and how many are wanted."""
    first_day = str(date.today() - timedelta(SHOWN_DAYS))
    every = {key: sheaf.own.summaries(first_day) for key, sheaf in sheaves.items()}
    by_scope = [[(key, commit) for commit in commits if _is_wanted(commit, wanted)] for key, commits in every.items()]
    page = list(merge(*by_scope, key=lambda entry: entry[1].at, reverse=True))[offset : offset + limit]
    shown: dict[tuple[str, str], ShownCommit] = {}
    for key in {key for key, _ in page}:
        for commit in _describe(key, sheaves[key], [commit for where, commit in page if where == key], every[key]):
            shown[key, commit.id] = commit
    return [shown[key, commit.id] for key, commit in page], sum(map(len, by_scope))


def _is_wanted(commit: CommitSummary, wanted: TimelineFilter) -> bool:
    who, what, text, day = wanted
    if who == "other" and commit.by in WHO:
        return False
    if who not in ("", "other", commit.by):
        return False
    if day not in ("", local_day(commit.at)):
        return False
    if what and not any(step.what == what for step in commit.steps):
        return False
    searched = f"{commit.id} {commit.why} {commit.steps}"
    return text.casefold() in searched.casefold()


def _describe(
    key: str, sheaf: Sheaf, commits: Sequence[CommitSummary], every: Sequence[CommitSummary]
) -> Iterator[ShownCommit]:
    by_id = {commit.id: commit for commit in every}
    states = find_undo_states(every)
    present = sheaf.own.names({step.path for commit in commits for step in commit.steps[:MAX_SHOWN_CHANGES]})
    for commit in commits:
        changes = [
            ShownChange(step.path, *present.get(step.path, ("", ""))) for step in commit.steps[:MAX_SHOWN_CHANGES]
        ]
        why = commit.why.partition(TOGETHER)[0]
        if commit.undoes or any(change.name and change.name in why for change in changes):
            why = ""  # it repeats the sentence about the commit
        names = {change.path: change.name for change in changes}
        yield ShownCommit(
            scope=key,
            id=commit.id,
            at=commit.at,
            day=local_day(commit.at),
            by=commit.by,
            why=why,
            told=tell_commit(commit, names, by_id.get(commit.undoes)),
            state=states[commit.id],
            undoes=commit.undoes,
            changes=changes,
            more=len(commit.steps) - len(changes),
        )


def tell_commit(commit: CommitSummary, names: Mapping[str, str], undone: CommitSummary | None) -> str:
    """Say what a commit did, in a sentence that begins with who did it."""
    if undone:
        return f"undid: {tell_commit(undone, names, None)}"
    parts = []
    for what in WHAT:
        paths = [step.path for step in commit.steps if step.what == what]
        if not paths:
            continue
        verb = "learned" if (commit.by, what) == ("extraction", "added") else what
        subject = f"{len(paths):,} memories"
        if len(paths) == 1:
            subject = f"'{names.get(paths[0]) or paths[0]}'"
        parts.append(f"{verb} {subject}")
    if commit.undoes:
        return f"undid a change: {', '.join(parts)}"
    return ", ".join(parts)


def find_undo_states(commits: Iterable[CommitSummary]) -> dict[str, str]:
    """Return by id `undone`, `can be undone`, `changed since`, or `too old` when the texts are gone.

    `commits` come newest first.
    """
    undone: set[str] = set()
    newest: dict[str, Version] = {}
    states = {}
    for commit in commits:
        for step in commit.steps:
            newest.setdefault(step.path, step.after)
        if commit.id in undone:
            states[commit.id] = "undone"
            continue
        undone.add(commit.undoes)
        if any(newest[step.path] != step.after for step in commit.steps):
            states[commit.id] = "changed since"
        else:
            states[commit.id] = "can be undone" if all(step.has_text for step in commit.steps) else "too old"
    return states


def local_day(at: str) -> str:
    """Return the day of a moment in UTC, as clocks here have it; "" for what is no moment."""
    try:
        return datetime.fromisoformat(at).astimezone().date().isoformat()
    except (ValueError, OverflowError):
        return ""


def undo(page: PageRequest) -> Response:
    """Undo a commit, with those that were made together with it; the notice that follows undoes this."""
    undone = undo_together(page.open(page.form["key"]).own, page.form["commit"], page.scopes.every())
    scope, commit = undone[0]
    paths = list(dict.fromkeys(step.path for _, change in undone for step in change.revisions))
    names = ", ".join(paths[:MAX_NAMES_IN_NOTICE])
    if len(paths) > MAX_NAMES_IN_NOTICE:
        names += ", …"
    return page.go(page.back(), f"Undone: {names}.", commit=commit, key=page.key_of(scope))
