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
from unicodedata import normalize

from memsheaf.errors import BadHeader, TextRefused, hinted
from memsheaf.frontmatter import edited, join, split
from memsheaf.memory import DESCRIPTION_LIMIT, clean_field
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import add_part, append_lines, bullet, fence_after, part, sections
from memsheaf.values import NamedTuple
from memsheaf.work.events import is_trace_id

TASK = "TASK.md"
ACTIVE, DONE, DROPPED = STATUSES = ("active", "done", "dropped")
MOST_PHASES = 999
_GOAL, _NOTES, _LOG = "Goal", "Notes", "Log"
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_DATED = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}):\s")

VERIFIED_TABLE = "verified.md"
VERIFIED, REGRESSED = "VERIFIED", "REGRESSED"
_COLUMNS = ("id", "description", "first", "last", "status")
_HEAD = ("| " + " | ".join(_COLUMNS) + " |", "|---|---|---|---|---|")
_ID = re.compile(r"[^\s|\\]{1,64}")
_ABOUT_IDS = "1 to 64 characters without spaces, | and \\"
_EDGE = re.compile(r"(?<!\\)\|")


class DatedLine(NamedTuple):
    """A line on a task, and the day it was written; "" when it does not say."""

    date: str
    text: str


class TaskState(NamedTuple):
    """What TASK.md says. `phases` is 0 when nobody said how many there are."""

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


# TASK.md


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
    """What a text says; `place` is where it stands, for the message.

    Raises:
        BadHeader: its header is not that of a task.
    """
    page = split(text)
    numbers = {key: page.get(key) for key in ("phase", "iteration", "phases")}
    wrong = [key for key, value in numbers.items() if not _NUMBER.fullmatch(value) and (value or key != "phases")]
    why = page.problem
    if not page.head:
        why = why or "there is none"
    elif page.get("status") not in STATUSES:
        why = why or f"status has to be one of {', '.join(STATUSES)}"
    elif wrong:
        why = why or f"{wrong[0]} has to be a whole number, 1 or more"
    elif not is_trace_id(page.get("trace_id")):
        why = why or "trace_id has to be the UUIDv4 that the task began with; `memsheaf log` knows it"
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


# verified.md


def read_items(text: str) -> list[VerifiedItem]:
    """The items of a table, in its order.

    Raises:
        TextRefused: a line cannot be read; the message names it.
    """
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
    if not _ID.fullmatch(given):
        error = TextRefused(f"the id {shown!r} is not allowed: it is {_ABOUT_IDS}")
        raise hinted(error, "Take one word, such as login or api-2.")
    return given


def _rows(text: str) -> dict[int, VerifiedItem]:
    """The items by the number of their line, from 0."""
    found: dict[int, VerifiedItem] = {}
    names: set[str] = set()
    above = 0  # lines of the table's head that were seen
    for number, line in enumerate(text.split("\n")):
        line = line.strip()
        if not line or (above == 0 and "|" not in line):
            continue
        try:
            cells = _cells(line)
            if above < len(_HEAD):
                _check_head(cells, above)
                above += 1
                continue
            item = _item(cells)
            if item.id in names:
                raise ValueError(f"the id {item.id!r} stands there twice")
        except ValueError as error:
            raise _unreadable(f"{VERIFIED_TABLE}, line {number + 1}: {error}") from None
        names.add(item.id)
        found[number] = item
    if above == 1:
        raise _unreadable(f"{VERIFIED_TABLE}: below the names of the columns stands {_HEAD[1]}")
    return found


def _cells(line: str) -> list[str]:
    first, *cells, last = _EDGE.split(line) if len(_EDGE.findall(line)) > 1 else ("?", "?")
    if first or last:
        raise ValueError("it is no row of the table, which begins and ends with |")
    return [cell.strip().replace("\\|", "|") for cell in cells]


def _check_head(cells: list[str], number: int) -> None:
    if number == 0 and [cell.lower() for cell in cells] != list(_COLUMNS):
        raise ValueError(f"the columns are {', '.join(_COLUMNS)}")
    if number == 1 and not (len(cells) == len(_COLUMNS) and all(re.fullmatch(":?-+:?", cell) for cell in cells)):
        raise ValueError(f"below the names of the columns stands {_HEAD[1]}")


def _item(cells: list[str]) -> VerifiedItem:
    if len(cells) != len(_COLUMNS):
        raise ValueError(f"there are {len(cells)} cells, not {len(_COLUMNS)}; a | inside one is written \\|")
    name, description, first, last, status = cells
    name = normalize("NFC", name)
    if not _ID.fullmatch(name):
        raise ValueError(f"the id is {_ABOUT_IDS}")
    if not description:
        raise ValueError("there is no description")
    if not (_NUMBER.fullmatch(first) and _NUMBER.fullmatch(last) and int(first) <= int(last)):
        raise ValueError("first and last are iterations: whole numbers from 1 on, the first not after the last")
    if status not in (VERIFIED, REGRESSED):
        raise ValueError(f"the status is {VERIFIED} or {REGRESSED}")
    return VerifiedItem(name, description, int(first), int(last), status)


def _unreadable(why: str) -> TextRefused:
    advice = f"Fix it in {VERIFIED_TABLE} of the task, with `memsheaf edit` or any editor: a row has five cells."
    return hinted(TextRefused(why), advice)
