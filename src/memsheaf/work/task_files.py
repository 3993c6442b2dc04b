"""The formats of TASK.md and verified.md, as text: nothing is opened here.

TASK.md is a header with status, phase, iteration and trace id, and three sections: Goal, Notes (what somebody found
worth knowing) and Log (what the steps of the task record themselves). verified.md is a Markdown table:

    | id | description | first | last | status |
    |---|---|---|---|---|
    | login | One can log in | 1 | 3 | VERIFIED |

A person may edit the table, so it is read strictly: a row that cannot be read is an error that names its line. To
skip it would be to forget a regression.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from unicodedata import normalize

from memsheaf.errors import BadHeader, TextRefused, hinted
from memsheaf.frontmatter import edited, join, split
from memsheaf.memory import DESCRIPTION_LIMIT, clean_field
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import add_part, append_lines, bullet, fence_after, part, sections
from memsheaf.work.events import is_trace_id

TASK = "TASK.md"
ACTIVE, DONE, DROPPED = STATUSES = ("active", "done", "dropped")
MOST_PHASES = 999
_GOAL, _NOTES, _LOG = "Goal", "Notes", "Log"
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_DATED = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}):\s")

VERIFIED_TABLE = "verified.md"
VERIFIED, REGRESSED = "VERIFIED", "REGRESSED"
_HEAD = ("| id | description | first | last | status |", "|---|---|---|---|---|")
_TABLE_HEAD = (
    re.compile(r"(?i)\|\s*id\s*\|\s*description\s*\|\s*first\s*\|\s*last\s*\|\s*status\s*\|"),
    re.compile(r"\|(?:\s*:?-+:?\s*\|){5}"),
)
_ID = r"[^\s|\\]{1,64}"
_ROW = re.compile(
    rf"\|\s*({_ID})\s*\|((?:[^|]|(?<=\\)\|)*)\|\s*([1-9][0-9]{{0,8}})\s*\|\s*([1-9][0-9]{{0,8}})\s*\|"
    r"\s*(VERIFIED|REGRESSED)\s*\|"
)


class DatedLine(NamedTuple):
    """A line on a task, and the day it was written; "" when it does not say."""

    date: str
    text: str


class TaskState(NamedTuple):
    """What TASK.md says. `phases` is 0 when their number is unknown."""

    title: str
    goal: str
    status: str
    phase: int
    phases: int
    iteration: int
    trace_id: str
    notes: tuple[DatedLine, ...]
    log: tuple[DatedLine, ...]


class VerifiedItem(NamedTuple):
    """Something that was shown to hold: in which iteration first and last, and whether it still did then."""

    id: str
    description: str
    first: int
    last: int
    status: str


def new_task(title: str, goal: str, *, phases: int, trace_id: str, today: str, by: str) -> str:
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
    return join(fields, add_part(add_part("", _GOAL, goal.strip() or title), _NOTES, ""))


def read_task(text: str, place: str) -> TaskState:
    """Parse TASK.md; `place` is for the message. Raises BadHeader when its header is not that of a task."""
    page = split(text)
    numbers = {key: page.get(key) for key in ("phase", "iteration", "phases")}
    wrong = [key for key, value in numbers.items() if not _NUMBER.fullmatch(value) and (value or key != "phases")]
    why = page.problem or ("" if page.head else "there is none")
    if not why and page.get("status") not in STATUSES:
        why = f"status has to be one of {', '.join(STATUSES)}"
    if not why and wrong:
        why = f"{wrong[0]} has to be a whole number, 1 or more"
    if not why and not is_trace_id(page.get("trace_id")):
        why = "trace_id has to be the UUIDv4 that the task began with; `memsheaf log` knows it"
    if why:
        raise BadHeader(place, why)
    goal = part(page.body, _GOAL)
    return TaskState(
        title=page.get("name"),
        goal=goal.text if goal else "",
        status=page.get("status"),
        phase=int(numbers["phase"]),
        phases=int(numbers["phases"] or 0),
        iteration=int(numbers["iteration"]),
        trace_id=page.get("trace_id"),
        notes=_lines_below(page.body, _NOTES),
        log=_lines_below(page.body, _LOG),
    )


def change_task(text: str, today: str, *, note: str = "", log: str = "", fields: Mapping[str, str] = {}) -> str:
    """The text with other fields, one more note, one more line in the log."""
    body = split(text).body
    for title, line in ((_NOTES, note.strip()), (_LOG, log.strip())):
        if line:
            apart = "\n" if fence_after(line.split("\n")[0], "") else " "  # behind a date, a fence would be none
            lines = bullet(f"{today}:{apart}{line}")
            found = part(body, title)
            body = append_lines(body, found, lines) if found else add_part(body, title, "\n".join(lines))
    return edited(text, fields={**fields, "updated": today}, body=body)


def _lines_below(body: str, title: str) -> tuple[DatedLine, ...]:
    found = part(body, title)
    bullets = [text for below in sections(found.text if found else "") for text in below.bullets]
    dated = [(_DATED.match(text), text) for text in bullets]
    return tuple(DatedLine(day[1], text[day.end() :]) if day else DatedLine("", text) for day, text in dated)


def read_items(text: str) -> list[VerifiedItem]:
    """The items of a table, in its order. Raises TextRefused when a line cannot be read; the message names it."""
    return list(_rows(text).values())


def with_item(text: str, item: VerifiedItem) -> str:
    """The table with an item in its row, or in a new one at the end; every other line as it was."""
    rows = _rows(text)
    lines = text.rstrip().split("\n") if text.strip() else ["# Verified", ""]
    end = "\r" if "\r\n" in text else ""
    lines = [line.removesuffix("\r") for line in lines]
    cells = (item.id, item.description.replace("|", "\\|"), str(item.first), str(item.last), item.status)
    row = f"| {' | '.join(cells)} |"
    at = next((number for number, found in rows.items() if found.id == item.id), None)
    if at is not None:
        lines[at] = row
    elif any("|" in line for line in lines):
        lines.append(row)
    else:
        lines += [*[""] * bool(lines[-1]), *_HEAD, row]
    return "\n".join(line + end for line in [*lines, ""]).removesuffix("\r")


def checked_id(given: str) -> str:
    """An id as it is kept. Raises TextRefused."""
    shown = given[:80]
    try:
        given = normalize("NFC", clean_field("id", given))
    except TextRefused:
        given = ""
    if not re.fullmatch(_ID, given):
        error = TextRefused(f"the id {shown!r} is not allowed: it is 1 to 64 characters without spaces, | and \\")
        raise hinted(error, "Take one word, such as login or api-2.")
    return given


def _rows(text: str) -> dict[int, VerifiedItem]:
    """The items by the number of their line, from 0."""
    found: dict[int, VerifiedItem] = {}
    names: set[str] = set()
    expected = list(_TABLE_HEAD)
    for number, line in enumerate(text.split("\n")):
        line = line.strip()
        if not line or (len(expected) == len(_TABLE_HEAD) and "|" not in line):
            continue
        if expected:
            if not expected.pop(0).fullmatch(line):
                raise _unreadable(number, f"is not the head of the table: {_HEAD[0]}, and {_HEAD[1]} below it")
            continue
        row = _ROW.fullmatch(line)
        if not row or not row[2].strip() or int(row[3]) > int(row[4]):
            raise _unreadable(number, "is no row such as | login | One can log in | 1 | 3 | VERIFIED |")
        name, description = normalize("NFC", row[1]), row[2].strip().replace("\\|", "|")
        if name in names:
            raise _unreadable(number, f"has the id {name!r}, which stands there twice")
        names.add(name)
        found[number] = VerifiedItem(name, description, int(row[3]), int(row[4]), row[5])
    if len(expected) == 1:
        raise _unreadable(text.count("\n"), f"is not the head of the table: {_HEAD[0]}, and {_HEAD[1]} below it")
    return found


def _unreadable(number: int, why: str) -> TextRefused:
    error = TextRefused(f"{VERIFIED_TABLE}, line {number + 1} {why}")
    return hinted(error, f"Fix it in {VERIFIED_TABLE} of the task, with `memsheaf edit` or any editor.")
