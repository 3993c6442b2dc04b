"""TASK.md: what a task is about, and how far it is.

---
name: Feature X
description: Users can log in
type: project
status: active
phase: "2"
iteration: "1"
trace_id: 0b94c3f2-...
---
## Goal

Users can log in.

## Notes

- 2026-11-15: Sessions live in Redis.

## Log

- 2026-11-16: login was VERIFIED, and is REGRESSED: One can log in

Notes are what somebody found worth knowing; the log is what the steps of the task say of themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from memsheaf.errors import BadHeader, TextRefused
from memsheaf.frontmatter import edited, join, split
from memsheaf.memory import DESCRIPTION_LIMIT, clean_field
from memsheaf.text.headings import fence_after
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.parts import part, with_lines, with_part
from memsheaf.text.sections import bullet, sections
from memsheaf.values import NamedTuple
from memsheaf.work.events import is_trace_id

PATH = "TASK.md"
ACTIVE, DONE, DROPPED = STATUSES = ("active", "done", "dropped")
MOST_PHASES = 999
_GOAL, _NOTES, _LOG = "Goal", "Notes", "Log"
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_DATED = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}):\s")


class Note(NamedTuple):
    """A line on a task, and the day it was written; "" when it does not say."""

    date: str
    text: str


class Card(NamedTuple):
    """What TASK.md says. `phases` is 0 when nobody said how many there are."""

    title: str
    goal: str
    status: str
    phase: int
    phases: int
    iteration: int
    trace_id: str
    notes: tuple[Note, ...]
    log: tuple[Note, ...]


def new(title: str, goal: str, *, phases: int, trace_id: str, today: str, by: str) -> str:
    """The text of a task that begins. Raises TextRefused."""
    title = clean_field("name", title)
    if not title:
        raise TextRefused("a task needs a title")
    fields = {
        "name": title,
        "description": cut_bytes(one_line(goal, DESCRIPTION_LIMIT), DESCRIPTION_LIMIT) or title,
        "type": "project",
        "created": today,
        "updated": today,
        "source": by,
        "pinned": "true",
        "status": ACTIVE,
        "phase": "1",
        **({"phases": str(phases)} if phases else {}),
        "iteration": "1",
        "trace_id": trace_id,
    }
    return join(fields, with_part(with_part("", _GOAL, goal.strip() or title), _NOTES, ""))


def read(text: str, place: str) -> Card:
    """What a text says; `place` is where it stands, for the message.

    Raises:
        BadHeader: its header is not that of a task.
    """
    page = split(text)
    why = page.problem or ("there is none" if not page.head else "")
    numbers = {key: page.get(key) for key in ("phase", "iteration", "phases")}
    if not why and page.get("status") not in STATUSES:
        why = f"status has to be one of {', '.join(STATUSES)}"
    for key, value in numbers.items() if not why else ():
        if not _NUMBER.fullmatch(value) and (value or key != "phases"):
            why = f"{key} has to be a whole number, 1 or more"
    if not why and not is_trace_id(page.get("trace_id")):
        why = "trace_id has to be the UUIDv4 that the task began with; `memsheaf log` knows it"
    if why:
        raise BadHeader(place, why)
    goal = part(page.body, _GOAL)
    return Card(
        title=page.get("name"),
        goal=goal.text if goal else "",
        status=page.get("status"),
        phase=int(numbers["phase"]),
        phases=int(numbers["phases"] or 0),
        iteration=int(numbers["iteration"]),
        trace_id=page.get("trace_id"),
        notes=_below(page.body, _NOTES),
        log=_below(page.body, _LOG),
    )


def changed(text: str, today: str, *, note: str = "", log: str = "", fields: Mapping[str, str] | None = None) -> str:
    """The text with other fields, one more note, one more line in the log."""
    body = split(text).body
    for title, said in ((_NOTES, note.strip()), (_LOG, log.strip())):
        if said:
            apart = "\n" if fence_after(said.split("\n")[0], "") else " "  # behind a date, a fence would be none
            lines = bullet(f"{today}:{apart}{said}")
            found = part(body, title)
            body = with_lines(body, found, lines) if found else with_part(body, title, "\n".join(lines))
    return edited(text, fields={**(fields or {}), "updated": today}, body=body)


def _below(body: str, title: str) -> tuple[Note, ...]:
    found = part(body, title)
    return tuple(_note(one) for below in sections(found.text if found else "") for one in below.bullets)


def _note(text: str) -> Note:
    found = _DATED.match(text)
    return Note(found[1], text[found.end() :]) if found else Note("", text)
