"""Usage records: which memories were used, and on which day.

A catalog that followed each use would change the prompt although no memory changed. So a use counts from the next
change of a memory on, when the catalog is written anyway; a mark, a row without a path, says how far that went, so
that whoever builds the index again comes to the same catalog.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memsheaf.store.history import History
from memsheaf.store.sqlite_file import LOCK_SECONDS


def add(history: History, uses: Iterable[tuple[str, str]], *, wait: float = LOCK_SECONDS) -> None:
    """Note days and paths that were of use, or marks. Raises Busy after `wait` seconds."""
    with history.writing(durable=False, wait=wait) as db:
        db.executemany("INSERT INTO uses (day, path) VALUES (?, ?)", uses)


def take(history: History, start: int, take_all: bool) -> tuple[dict[str, str], int]:
    """Return the last day of each path that was noted from a place on, up to the last mark, and where that is.

    To `take_all`, a mark is set behind all.
    """
    ((end, last),) = history.rows("SELECT ifnull(max(n) FILTER (WHERE path = ''), 0), max(n) FROM uses")
    if take_all and (last or 0) > end:
        add(history, [("", "")])
        return take(history, start, take_all=False)
    # a start behind the end is one of another history
    where = "n > iif(?1 > ?2, 0, ?1) AND n <= ?2 AND path <> ''"
    return dict(history.rows(f"SELECT path, max(day) FROM uses WHERE {where} GROUP BY path", start, end)), end


def noted(history: History) -> dict[str, str]:
    """Return the last day of each path, whether a catalog was written with it or not."""
    return dict(history.rows("SELECT path, max(day) FROM uses WHERE path <> '' GROUP BY path"))


def bring_together(history: History, *, without: Collection[str] = ()) -> None:
    """Keep one row of a path before the last mark and one behind it, and none of those in `without`."""
    mark = "ifnull((SELECT max(n) FROM uses WHERE path = ''), 0)"
    with history.writing(durable=False) as db:
        db.executemany("DELETE FROM uses WHERE path = ?", [(path,) for path in without])
        db.execute(
            f"DELETE FROM uses WHERE n <> {mark} AND n NOT IN ("
            f"SELECT n FROM (SELECT n, max(day) FROM uses GROUP BY path, n > {mark}))"
        )
