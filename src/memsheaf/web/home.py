"""The first page: what is remembered, what happened, what is new, what waits, and what it cost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from memsheaf.memory import KINDS
from memsheaf.web.dates import say_day
from memsheaf.web.page import PageRequest, Site, get
from memsheaf.web.texts import PageTexts, fill
from memsheaf.work.overview import HomeNumbers, Overview, ScopeNumbers

WEEKS = 53
CELL, SIZE = 14, 11  # of the calendar, in pixels
NEW = 8  # memories that are shown
SECONDS = 1.0  # that a look at the files may be old


@get("/")
def home(page: PageRequest) -> Response:
    """Show all numbers; each leads to what it counts."""
    numbers = page.site.shared(Overview, lambda: Overview(page.scopes)).numbers(page.site.known(), seconds=SECONDS)
    return page.show("home.html", body=page.site.shared(HomeBody, lambda: HomeBody(page.site)).render(numbers))


class HomeBody:
    """The page as it was last rendered: it is the same until a number changes, or the minute."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._rendered: tuple[object, Markup] = None, Markup()

    def render(self, numbers: HomeNumbers) -> Markup:
        """All below the title."""
        state = int(time.time() // 60), numbers
        if self._rendered[0] != state:
            calendar = _draw_calendar(self._site.t, numbers.days, date.today())
            values = {"numbers": numbers, "calendar": calendar, "most": NEW}
            made = self._site.render("home_body.html", {**values, **_totals(numbers)})
            self._rendered = state, Markup(made.decode())  # of our own template, which escapes
        return self._rendered[1]


def _totals(numbers: HomeNumbers) -> dict[str, Any]:
    scopes = [one for one in numbers.scopes if one.total or one.waiting or one.inbox]
    return {
        "since": date.today() - timedelta(6),
        "shown": [(one, _shares(one)) for one in scopes],
        "total": sum(one.total for one in scopes),
        "waiting": sum(one.waiting for one in scopes),
        "inbox": sum(one.inbox for one in scopes),
        "drifted": sum(one.counts.rows.drifted for one in scopes),
    }


def _shares(one: ScopeNumbers) -> list[tuple[str, int, float, float]]:
    """The types of a scope, each with its number and its place in a bar of 100."""
    kinds = one.counts.rows.kinds
    counts: list[tuple[str, int]] = [(kind, kinds.get(kind, 0)) for kind in KINDS]
    counts.append(("other", one.total - sum(count for _, count in counts)))
    found, start = [], 0.0
    for kind, count in counts:
        if count:
            width = 100 * count / one.total
            found.append((kind, count, round(start, 2), round(width, 2)))
            start += width
    return found


def _draw_calendar(t: PageTexts, days: Mapping[str, Counter[str]], today: date) -> Markup:
    """A year of days as SVG, one square each: a link for each day on which something happened."""
    first = today - timedelta(today.weekday() + 7 * (WEEKS - 1))
    counts = sorted(one.total() for day, one in days.items() if day >= first.isoformat())
    steps = [counts[len(counts) * part // 4] for part in (1, 2, 3)] if counts else []
    empty, squares, months = [], [], []
    for number in range((today - first).days + 1):
        day = first + timedelta(number)
        x, y = number // 7 * CELL + 32, number % 7 * CELL + 18
        if day.day == 1:
            months.append(f'<text x="{x}" y="11">{t.calendar.months.split()[day.month - 1]}</text>')
        found = days.get(day.isoformat())
        if not found:
            empty.append(f"M{x} {y}h{SIZE}v{SIZE}h-{SIZE}z")
            continue
        heat = 1 + sum(found.total() > step for step in steps)
        label = Markup.escape(fill(t.calendar.day, found.total(), day=say_day(day), who=_by_whom(found)))
        squares.append(
            f'<a href="/timeline?day={day}" aria-label="{label}"><rect class="heat-{heat}" x="{x}" y="{y}" '
            f'width="{SIZE}" height="{SIZE}" rx="2.5"><title>{label}</title></rect></a>'
        )
    names = "".join(
        f'<text x="0" y="{18 + CELL * row + 9}">{t.calendar.weekdays.split()[row]}</text>' for row in (0, 2, 4)
    )
    wide, high = WEEKS * CELL + 32, 7 * CELL + 18
    return Markup(
        f'<svg class="days" viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">'
        f'<g class="names" aria-hidden="true">{names}{"".join(months)}</g>'
        f'<path class="heat-0" aria-hidden="true" d="{"".join(empty)}"/>{"".join(squares)}</svg>'
    )


def _by_whom(counts: Counter[str]) -> str:
    return ", ".join(f"{by} {count:,}" for by, count in counts.most_common(4))
