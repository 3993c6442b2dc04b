"""What a task has shown to hold, as a Markdown table: one row an item, and whether it still holds.

    | id | description | first | last | status |
    |---|---|---|---|---|
    | login | One can log in | 1 | 3 | VERIFIED |

A person may edit it, so it is read strictly: a row that cannot be read is an error that names its line. To pass over
it would be to forget a regression.
"""

from __future__ import annotations

import re
from unicodedata import normalize

from memsheaf.errors import TextRefused
from memsheaf.memory import clean_field
from memsheaf.values import NamedTuple

PATH = "verified.md"
VERIFIED, REGRESSED = "VERIFIED", "REGRESSED"
_COLUMNS = ("id", "description", "first", "last", "status")
_HEAD = ("| " + " | ".join(_COLUMNS) + " |", "|---|---|---|---|---|")
_TITLE = "# Verified"
_ID = re.compile(r"[^\s|\\]{1,64}")
_ABOUT_IDS = "1 to 64 characters without blanks, | and \\"
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
_EDGE = re.compile(r"(?<!\\)\|")


class Item(NamedTuple):
    """Something that was shown to hold: in which iteration first and last, and whether it still did then."""

    id: str
    description: str
    first: int
    last: int
    status: str


def items(text: str) -> list[Item]:
    """The items of a table, in its order.

    Raises:
        TextRefused: a line cannot be read; the message names it.
    """
    return [item for _, item in _rows(text)]


def with_item(text: str, item: Item) -> str:
    """The table with an item in its row, or in a new one at the end; every other line as it was."""
    rows = _rows(text)
    lines = text.rstrip().split("\n") if text.strip() else [_TITLE, ""]
    end = "\r" if "\r\n" in text else ""
    lines = [line.removesuffix("\r") for line in lines]
    at = next((number for number, found in rows if found.id == item.id), None)
    if at is not None:
        lines[at] = _row(item)
    else:
        if not any("|" in line for line in lines):
            lines += [*[""] * bool(lines[-1]), *_HEAD]
        lines.append(_row(item))
    return "\n".join(line + end for line in [*lines, ""]).removesuffix("\r")


def checked_id(given: str) -> str:
    """An id as it is kept. Raises TextRefused."""
    shown = given[:80]
    try:
        given = normalize("NFC", clean_field("id", given))
    except TextRefused:
        given = ""
    if not _ID.fullmatch(given):
        raise _refused(
            f"the id {shown!r} is not allowed: it is {_ABOUT_IDS}", "Take one word, such as login or api-2."
        )
    return given


def _rows(text: str) -> list[tuple[int, Item]]:
    """Each item with the number of its line, from 0."""
    found: list[tuple[int, Item]] = []
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
            raise _refused(f"{PATH}, line {number + 1}: {error}") from None
        names.add(item.id)
        found.append((number, item))
    if above == 1:
        raise _refused(f"{PATH}: below the names of the columns stands {_HEAD[1]}")
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


def _item(cells: list[str]) -> Item:
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
    return Item(name, description, int(first), int(last), status)


def _row(item: Item) -> str:
    cells = (item.id, item.description.replace("|", "\\|"), str(item.first), str(item.last), item.status)
    return f"| {' | '.join(cells)} |"


def _refused(why: str, advice: str = "") -> TextRefused:
    error = TextRefused(why)
    mend = f"Mend it in {PATH} of the task, with `memsheaf edit` or any editor: a row has five cells."
    error.hint = advice or mend
    return error
