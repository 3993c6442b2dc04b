"""The home page: numbers of all scopes, a year of changes, and the newest memories."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from markupsafe import Markup
from starlette.responses import Response

from memsheaf.index.browse import RowCounts
from memsheaf.index.search import asked_at
from memsheaf.learn.inbox import Inbox
from memsheaf.learn.review_queue import ReviewQueue
from memsheaf.llm.spend import Ledger
from memsheaf.memory import KINDS, plural
from memsheaf.scope import KnownScope
from memsheaf.sheaf import Sheaf
from memsheaf.store import CommitSummary
from memsheaf.web.activity import SHOWN_DAYS, local_day
from memsheaf.web.page import AUTHORS, PageRequest, format_day

LOOK_SECONDS = 1.0  # a look at the files may be this old
MAX_NEW_MEMORIES = 8
CALENDAR_WEEKS = 53
CELL_PIXELS = 14
SQUARE_PIXELS = 11
LEFT_PIXELS = 32  # for the names of weekdays
TOP_PIXELS = 18  # for the names of months


class NewMemory(NamedTuple):
    """A memory that was added lately: when, and by whom."""

    path: str
    name: str
    kind: str
    at: str
    by: str


class ScopeNumbers(NamedTuple):
    """The counts of one scope, how many memories wait for a decision, and how many turns to be learned from."""

    scope: KnownScope
    rows: RowCounts
    waiting: int
    inbox: int

    @property
    def total(self) -> int:
        """The number of memories."""
        return sum(self.rows.kinds.values())


def show_home(page: PageRequest) -> Response:
    """Show all numbers; each leads to the list that it counts."""
    today = date.today()
    week_ago = str(today - timedelta(6))
    new: list[tuple[str, NewMemory]] = []
    days: dict[str, Counter[str]] = {}
    scopes = []
    with asked_at(time.monotonic() - LOOK_SECONDS):
        for scope, sheaf in page.select("").items():
            commits = sheaf.own.summaries(str(today - timedelta(SHOWN_DAYS)))
            for commit in commits:
                days.setdefault(local_day(commit.at), Counter())[commit.by] += 1
            new += [(scope.key, memory) for memory in find_new(sheaf, commits, week_ago)]
            numbers = count_scope(scope, sheaf)
            if numbers.total or numbers.waiting or numbers.inbox:
                scopes.append(numbers)
    new.sort(key=lambda entry: entry[1].at, reverse=True)
    return page.show(
        "home.html",
        added=len(new),
        tokens=Ledger.of(page.scopes.settings.state).spent().tokens,
        new=new[:MAX_NEW_MEMORIES],
        calendar=_draw_calendar(days, today),
        shares=[(scope, _share_out(scope)) for scope in scopes],
        total=sum(scope.total for scope in scopes),
        waiting=sum(scope.waiting for scope in scopes),
        inbox=sum(scope.inbox for scope in scopes),
        outdated=sum(scope.rows.drifted for scope in scopes),
    )


def find_new(sheaf: Sheaf, commits: Sequence[CommitSummary], since: str) -> list[NewMemory]:
    """Return the memories that were added since a day, and are still there."""
    added = {
        step.path: commit
        for commit in commits
        if local_day(commit.at) >= since
        for step in commit.steps
        if step.what == "added"
    }
    present = sheaf.own.names(added)
    return [NewMemory(path, *present[path], added[path].at, added[path].by) for path in present]


def count_scope(scope: KnownScope, sheaf: Sheaf) -> ScopeNumbers:
    """Return the numbers of one scope."""
    rows = sheaf.own.count_rows()
    state = sheaf.own.state
    waiting = len(ReviewQueue(state).all()) + rows.unconfirmed + rows.changed
    return ScopeNumbers(scope, rows, waiting, Inbox(state).count_waiting())


def _share_out(scope: ScopeNumbers) -> list[tuple[str, int, float, float]]:
    """Return the types of a scope, each with its count, and its place and width in a bar of 100."""
    counts: dict[str, int] = {kind: scope.rows.kinds.get(kind, 0) for kind in KINDS}
    counts["other"] = scope.total - sum(counts.values())
    shares = []
    start = 0.0
    for kind, count in counts.items():
        if count:
            width = 100 * count / scope.total
            shares.append((kind, count, round(start, 2), round(width, 2)))
            start += width
    return shares


def _draw_calendar(days: Mapping[str, Counter[str]], today: date) -> Markup:
    """Draw a year of days as SVG, one square each, which is a link where something changed.

    A column is a week. Days with changes have one of four shades: the quartiles of all such days.
    """
    first = today - timedelta(today.weekday() + 7 * (CALENDAR_WEEKS - 1))
    totals = sorted(counts.total() for day, counts in days.items() if day >= first.isoformat())
    quartiles = [totals[len(totals) * part // 4] for part in (1, 2, 3)] if totals else []
    names = [
        f'<text x="0" y="{TOP_PIXELS + CELL_PIXELS * row + 9}">{name}</text>'
        for row, name in ((0, "Mon"), (2, "Wed"), (4, "Fri"))
    ]
    empty = []
    links = []
    for number in range((today - first).days + 1):
        day = first + timedelta(number)
        x = number // 7 * CELL_PIXELS + LEFT_PIXELS
        y = number % 7 * CELL_PIXELS + TOP_PIXELS
        if day.day == 1:
            names.append(f'<text x="{x}" y="11">{day:%b}</text>')
        counts = days.get(day.isoformat())
        if not counts:
            empty.append(f"M{x} {y}h{SQUARE_PIXELS}v{SQUARE_PIXELS}h-{SQUARE_PIXELS}z")
            continue
        heat = 1 + sum(counts.total() > limit for limit in quartiles)
        authors = ", ".join(f"{AUTHORS.get(name, name)} {count:,}" for name, count in counts.most_common(4))
        label = Markup.escape(f"{format_day(day)}: {plural(counts.total(), 'change')} ({authors})")
        links.append(
            f'<a href="/activity?day={day}" aria-label="{label}"><rect class="heat-{heat}" x="{x}" y="{y}" '
            f'width="{SQUARE_PIXELS}" height="{SQUARE_PIXELS}" rx="2.5"><title>{label}</title></rect></a>'
        )
    width = CALENDAR_WEEKS * CELL_PIXELS + LEFT_PIXELS
    height = 7 * CELL_PIXELS + TOP_PIXELS
    return Markup(
        f'<svg class="days" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<g class="names" aria-hidden="true">{"".join(names)}</g>'
        f'<path class="heat-0" aria-hidden="true" d="{"".join(empty)}"/>{"".join(links)}</svg>'
    )
