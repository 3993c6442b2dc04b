"""Several scopes at a glance: the numbers of a first page, and their journals as one story."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from heapq import merge
from typing import NamedTuple

from memsheaf.errors import MemsheafError
from memsheaf.history import local_day, names_in, tell_commit
from memsheaf.learn.inbox import Inbox
from memsheaf.llm.spend import Ledger
from memsheaf.memory import KINDS
from memsheaf.overview import NewMemory, ScopeCounts
from memsheaf.reader import asked_at
from memsheaf.sheaf import Sheaf
from memsheaf.store.commit_queries import CommitStep, CommitSummary
from memsheaf.store.state import State
from memsheaf.values import file_stamp
from memsheaf.work.all_scopes import AllScopes, KnownScope
from memsheaf.work.scopes import SCRATCH

WHO = ("user", "agent", "extraction", "consolidation", "import", "outside")
WHAT = ("added", "changed", "removed")
SHOWN = 12  # changes of one commit


class TimelineFilter(NamedTuple):
    """Which commits are wanted; what is left empty does not matter. `who` may be "other" for all other programs.

    `text` is a part of a path, a reason or the id of a commit; `day` and `since` are local days.
    """

    who: str = ""
    what: str = ""
    kind: str = ""
    text: str = ""
    day: str = ""
    since: str = ""


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


class ScopeNumbers(NamedTuple):
    """What a scope holds, and what waits there: for a decision, and to be learned from."""

    key: str
    title: str
    layer: str
    counts: ScopeCounts
    waiting: int
    inbox: int

    @property
    def total(self) -> int:
        """How many memories there are."""
        return sum(self.counts.rows.kinds.values())


class HomeNumbers(NamedTuple):
    """The numbers of all scopes: what was added in the last 7 days, commits by day, tokens spent."""

    scopes: Sequence[ScopeNumbers]
    added: int
    new: Sequence[tuple[str, NewMemory]]
    days: Mapping[str, Counter[str]]
    spent_today: int
    spent_month: int


EVERY_COMMIT = TimelineFilter()


def timeline(
    sheaves: Mapping[str, Sheaf], wanted: TimelineFilter = EVERY_COMMIT, *, limit: int = 50, offset: int = 0
) -> tuple[list[ToldCommit], int]:
    """Some of the commits of these scopes, by their keys, in the last year, and how many are wanted."""
    found = [
        [(commit, key) for commit in sheaf.overview.commits.commits() if _is_wanted(commit, wanted, kinds)]
        for key, sheaf in sheaves.items()
        for kinds in [{path: kind for path, (_, kind) in sheaf.overview.named().items()} if wanted.kind else {}]
    ]
    page = list(merge(*found, key=lambda one: one[0].at, reverse=True))[offset : offset + limit]
    told: dict[tuple[str, str], ToldCommit] = {}
    for key in dict.fromkeys(key for _, key in page):
        for one in _tell(key, sheaves[key], [commit for commit, of in page if of == key]):
            told[key, one.id] = one
    return [told[key, commit.id] for commit, key in page], sum(map(len, found))


def count_days(sheaves: Iterable[Sheaf]) -> dict[str, Counter[str]]:
    """How many commits each day of the last year had, by author."""
    total: dict[str, Counter[str]] = {}
    for sheaf in sheaves:
        for day, counts in sheaf.overview.commits.days().items():
            total.setdefault(day, Counter()).update(counts)
    return total


def _is_wanted(commit: CommitSummary, wanted: TimelineFilter, kinds: Mapping[str, str]) -> bool:
    who, what, kind, text, day, since = wanted
    if who and (commit.by in WHO if who == "other" else commit.by != who):
        return False
    if (day and local_day(commit.at) != day) or (since and local_day(commit.at) < since):
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
    told = [commit for commit in commits if len(commit.steps) <= SHOWN]  # the texts of many are slow to read
    texts = log.find({*(commit.id for commit in told), *(commit.undoes for commit in told if commit.undoes)})
    present = sheaf.overview.named({step.path for commit in commits for step in commit.steps[:SHOWN]})
    for commit in commits:
        known = names_in(texts[commit.id]) if commit.id in texts else present
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


class Overview:
    """Gathers the numbers of all scopes except tasks and sessions, with a cache for unchanged ones."""

    def __init__(self, scopes: AllScopes, clock: Callable[[], float] = time.time) -> None:
        self._scopes = scopes
        self._clock = clock
        self._ledger = Ledger.of(scopes.settings.state, clock=clock)
        self._sheaves: dict[str, Sheaf] = {}
        self._queues: dict[str, tuple[object, tuple[int, int]]] = {}
        self._numbers: tuple[object, HomeNumbers] | None = None
        self._states: dict[str, State] = {}
        self._spent: tuple[object, tuple[int, int]] = None, (0, 0)

    def sheaves(self, known: Iterable[KnownScope]) -> dict[str, Sheaf]:
        """The scopes by key, without tasks and sessions, and without those that cannot be opened."""
        found = {}
        for scope in known:
            if scope.layer not in SCRATCH:
                with suppress(MemsheafError, OSError):
                    if scope.root not in self._sheaves:
                        self._sheaves[scope.root] = self._scopes.sheaf(scope.key)
                    found[scope.key] = self._sheaves[scope.root]
        return found

    def numbers(self, known: Sequence[KnownScope], *, seconds: float = 0.0) -> HomeNumbers:
        """The numbers now, the same object until one changes; a look at files so many seconds ago will do."""
        today = date.fromtimestamp(self._clock())
        since = (today - timedelta(6)).isoformat()
        sheaves = self.sheaves(known)
        scopes = []
        with asked_at(time.monotonic() - seconds):
            for scope in known:
                if sheaf := sheaves.get(scope.key):
                    counts = sheaf.overview.counts(since)
                    proposed, inbox = self._queued(sheaf)
                    waiting = proposed + counts.rows.unconfirmed + counts.rows.changed
                    scopes.append(ScopeNumbers(scope.key, scope.title, scope.layer, counts, waiting, inbox))
        state = today, scopes, self._tokens(today.isoformat())
        if self._numbers is None or self._numbers[0] != state:
            new = [(one.key, memory) for one in scopes for memory in one.counts.new]
            new.sort(key=lambda one: one[1].at, reverse=True)
            added = sum(one.counts.added for one in scopes)
            days = count_days(sheaves.values())
            self._numbers = state, HomeNumbers(scopes, added, new, days, *state[2])
        return self._numbers[1]

    def _queued(self, sheaf: Sheaf) -> tuple[int, int]:
        """How many proposals wait for review, and how many turns to be learned from."""
        state = self._states.get(sheaf.root) or self._states.setdefault(sheaf.root, sheaf.state)
        stamp = file_stamp(state.folder, follow=True)
        if self._queues.get(sheaf.root, ("",))[0] != stamp:
            counts = (len(sheaf.learning.queue.all()), Inbox(state).left()) if stamp else (0, 0)
            self._queues[sheaf.root] = stamp, counts
        return self._queues[sheaf.root][1]

    def _tokens(self, today: str) -> tuple[int, int]:
        """The tokens of today, and of 30 days."""
        folder = os.path.join(self._scopes.settings.state, "spend")
        files = folder, os.path.join(folder, f"{today}.jsonl")
        stamp = today, *(file_stamp(path, follow=True) for path in files)
        if self._spent[0] != stamp:
            rows = self._ledger.summary(30)
            day = self._ledger.today()
            self._spent = stamp, (sum(row.tokens for row in rows if row.day == day), sum(row.tokens for row in rows))
        return self._spent[1]
