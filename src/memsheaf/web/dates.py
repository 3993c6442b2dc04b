"""Dates as people say them, with the exact one on hover."""

from __future__ import annotations

from datetime import UTC, date, datetime

from markupsafe import Markup, escape

from memsheaf.web.texts import PageTexts, fill

_STEPS = ((60, 1, "now"), (3600, 60, "minutes"), (86_400, 3600, "hours"))


def moment_of(value: object) -> datetime | date | None:
    """A day, a time of the journal, or seconds since 1970; None for anything else."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    try:
        text = str(value)
        return date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


def say_when(value: object, now: datetime, t: PageTexts) -> str:
    """A day or a moment in words, seen from `now`."""
    then = moment_of(value)
    if then is None:
        return str(value)
    if isinstance(then, datetime):
        then = then.replace(tzinfo=then.tzinfo or UTC).astimezone()
        seconds = (now - then).total_seconds()
        for limit, unit, name in _STEPS:
            if 0 <= seconds < limit and then.astimezone(now.tzinfo).date() == now.date():
                return fill(t[name], int(seconds // unit))
        then = then.astimezone(now.tzinfo).date()
    days = (now.date() - then).days
    if days in (-1, 0, 1):
        return str((t.today, t.yesterday, t.tomorrow)[days])
    if 1 < days < 14:
        return fill(t.days, days)
    if -14 < days < -1:
        return fill(t.in_days, -days)
    if 14 <= days < 60:
        return fill(t.weeks, days // 7)
    if 60 <= days < 365:
        return fill(t.months, days // 30)
    return say_day(then)


def say_day(day: date) -> str:
    """A day in full, in figures that everybody reads alike.

    >>> say_day(date(2026, 3, 1))
    '1 March 2026'
    """
    return f"{day.day} {day.strftime('%B %Y')}"


def time_element(value: object, now: datetime, t: PageTexts) -> Markup:
    """A <time> element: words, and the exact moment on hover and for programs."""
    then = moment_of(value)
    if then is None:
        return escape(value)
    exact = say_day(then)
    if isinstance(then, datetime):
        local = then.replace(tzinfo=then.tzinfo or UTC).astimezone()
        exact = f"{say_day(local)}, {local.strftime('%H:%M:%S')}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(then.isoformat(), exact, say_when(value, now, t))
