"""Usage records: which memories were used, and on which day.

`.history/uses` holds one line a use, oldest first:

    2026-11-15 user_prefers-tabs.md
    =                                   the catalog was written with all that stands above

A catalog that followed each use would change the prompt although no memory changed. So a use counts from the next
change of a memory on, when the catalog is written anyway; the mark says how far that went, so that whoever
builds the index again comes to the same catalog.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from memsheaf.store.safe_dir import Folder, append, read_file, replace

NAME = "uses"
MANY_BYTES = 1 << 18  # from here on the lines are brought together
_MARK = b"=\n"
_LINE = re.compile(rb"(?m)^([0-9]{4}-[0-9]{2}-[0-9]{2}) ([^\n]+)$")


class Uses(NamedTuple):
    """The last day of each path that the catalog was written with, where these end, and whether more follow."""

    days: dict[str, str]
    end: int
    more: bool


def add(history: Folder, day: str, paths: Iterable[str]) -> None:
    """Note that these were of use on a day, in one write."""
    append(history, NAME, "".join(f"{day} {path}\n" for path in paths).encode("utf-8", "surrogateescape"))


def take(history: Folder, start: int, take_all: bool) -> Uses:
    """Return what was noted from a place on, up to the last mark; from the beginning when that place is not there.

    To `take_all`, a mark is set behind what was noted since the last one.
    """
    data = _read(history)
    if start > len(data):
        start = 0  # the lines were brought together meanwhile
    end = max(start, _marked(data))
    has_more = _LINE.search(data, end) is not None
    if take_all and has_more:
        append(history, NAME, _MARK)
        return take(history, start, take_all=False)
    return Uses(_days(data[start:end]), end, has_more)


def noted(history: Folder) -> tuple[dict[str, str], str]:
    """The last day of each path, whether a catalog was written with it or not; and the first day of all."""
    data = _read(history)
    return _days(data), min((day.decode() for day, _ in _LINE.findall(data)), default="")


def bring_together(history: Folder, *, without: Collection[str] = ()) -> None:
    """Keep one line a path, and none of those in `without`.

    The caller holds the lock of the folder. A use that is noted in this very moment may be lost, which costs
    nothing but its place in the catalog.
    """
    data = _read(history)
    if not without and len(data) < MANY_BYTES:
        return
    end = _marked(data)
    parts = []
    for part, ending in ((data[:end], _MARK), (data[end:], b"")):
        days = {path: day for path, day in _days(part).items() if path not in without}
        lines = [f"{day} {path}\n" for path, day in sorted(days.items(), key=lambda item: (item[1], item[0]))]
        parts.append("".join(lines).encode("utf-8", "surrogateescape") + ending * bool(part))
    replace(history, NAME, b"".join(parts), durable=False)


def _days(data: bytes) -> dict[str, str]:
    days: dict[str, str] = {}
    for day, path in _LINE.findall(data):
        name = path.decode("utf-8", "surrogateescape")
        days[name] = max(days.get(name, ""), day.decode())
    return days


def _marked(data: bytes) -> int:
    """Where the last mark ends, 0 when there is none."""
    if data.startswith(_MARK) and b"\n" + _MARK not in data:
        return len(_MARK)
    at = data.rfind(b"\n" + _MARK)
    return at + 1 + len(_MARK) if at >= 0 else 0


def _read(history: Folder) -> bytes:
    try:
        return read_file(history, NAME, 64 * MANY_BYTES)
    except FileNotFoundError:
        return b""
