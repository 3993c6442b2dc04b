"""Usage records: which memories were used, and on which day.

A catalog that followed each use would change the prompt although no memory changed. So a use counts from the next
change of a memory on, when the catalog is written anyway; a mark, a row without a path, says how far that went, so
that whoever builds the index again comes to the same catalog.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from memsheaf.store.history import History
from memsheaf.store.sqlite_file import LOCK_SECONDS

MANY = 4_096  # rows; from here on they are brought together
_LINE = re.compile(r"(?m)^(?:([0-9]{4}-[0-9]{2}-[0-9]{2}) ([^\n]+)|=)$")


class Uses(NamedTuple):
    """The last day of each path that the catalog was written with, where these end, and whether more follow."""

    days: dict[str, str]
    end: int
    more: bool


def add(history: History, uses: Iterable[tuple[str, str]], *, wait: float = LOCK_SECONDS) -> None:
    """Note days and paths that were of use, or marks. Raises Busy after `wait` seconds."""
    with history.writing(durable=False, wait=wait) as db:
        db.executemany("INSERT INTO uses (day, path) VALUES (?, ?)", uses)


def take_in(history: History, lines: bytes) -> None:
    """Add the lines of an earlier version."""
    text = lines.decode("utf-8", "replace")
    add(history, [(found[1] or "", found[2] or "") for found in _LINE.finditer(text)])


def take(history: History, start: int, take_all: bool) -> Uses:
    """Return what was noted from a place on, up to the last mark. To `take_all`, a mark is set behind all."""
    ((end, last),) = history.rows("SELECT max(n) FILTER (WHERE path = ''), max(n) FROM uses")
    end, last = end or 0, last or 0
    if take_all and last > end:
        add(history, [("", "")])
        return take(history, start, take_all=False)
    start = start if start <= end else 0  # it is another history
    sql = "SELECT path, max(day) FROM uses WHERE n > ? AND n <= ? AND path <> '' GROUP BY path"
    return Uses(dict(history.rows(sql, start, end)), end, last > end)


def noted(history: History) -> dict[str, str]:
    """Return the last day of each path, whether a catalog was written with it or not."""
    return dict(history.rows("SELECT path, max(day) FROM uses WHERE path <> '' GROUP BY path"))


def bring_together(history: History, *, without: Collection[str] = ()) -> None:
    """Keep one row of a path, and none of those in `without`, once there are many."""
    with history.writing(durable=False) as db:
        db.executemany("DELETE FROM uses WHERE path = ?", [(path,) for path in without])
        (count,) = db.execute("SELECT count(*) FROM uses").fetchone()
        if count > MANY:
            mark = "(SELECT max(n) FROM uses WHERE path = '')"
            kept = f"SELECT n FROM (SELECT n, max(day) FROM uses GROUP BY path, n > ifnull({mark}, 0))"
            db.execute(f"DELETE FROM uses WHERE n NOT IN ({kept}) AND n <> ifnull({mark}, 0)")
