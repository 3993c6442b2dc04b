"""Pages of the rows of an index, filtered, sorted and counted by SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from memsheaf.index.catalog import MAX_LINES, MAX_PINNED, SHARED_LINES
from memsheaf.index.database import HIDDEN, LISTED, RANK_ORDER, ROW_COLUMNS, UNUSABLE, Row, state_of, to_row, writing
from memsheaf.index.rows import where_kind
from memsheaf.store import Version
from memsheaf.store.history import OTHERS
from memsheaf.text.neutralize import plain_name

if TYPE_CHECKING:
    from memsheaf.index.search import Index
    from memsheaf.state.trust import TrustLedger
    from memsheaf.store.folder import FolderStore

_HAS_DRIFTED = "(path, version) IN (SELECT path, version FROM drift WHERE state)"
_IS_SOUND = f"state IN ('ok', 'free') AND listed <> {HIDDEN} AND version NOT IN ('', '{UNUSABLE}')"

SORTS = {
    "newest": "updated || char(9) || time",
    "oldest": "updated || char(9) || time",
    "name": "lower(name)",
    "type": "kind || char(9) || lower(name)",
    "path": "path",
}
"""Orders of a list: what is compared."""

File = tuple[str, Version]


class Filter(NamedTuple):
    """A choice of memories; what is left empty does not matter.

    `kind` may be "other" for all unknown types. `text` is searched for, and then the best come first. `since` and
    `until` are days of the last change. `drifted` means that a citation did not hold when it was last verified.
    """

    text: str = ""
    kind: str = ""
    trust: str = ""
    source: str = ""
    since: str = ""
    until: str = ""
    pinned: bool = False
    drifted: bool = False


EVERYTHING = Filter()


def select(db: sqlite3.Connection, wanted: Filter, sort: str) -> list[tuple[str, Row]]:
    """Return the rows that are wanted, each with what it is sorted by, in the order of the paths."""
    where, values = _where(wanted)
    sql = f"SELECT {SORTS[sort]}, {ROW_COLUMNS} FROM entry WHERE {where} ORDER BY path"
    return [(key, to_row(row)) for key, *row in db.execute(sql, values)]


def set_drift(db: sqlite3.Connection, found: Iterable[tuple[str, Version, bool]]) -> None:
    """Store for these versions whether one of their citations drifted."""
    with writing(db):
        db.execute("DELETE FROM drift WHERE path NOT IN (SELECT path FROM entry)")
        db.executemany("INSERT OR REPLACE INTO drift VALUES (?, ?, ?)", found)


def _where(wanted: Filter) -> tuple[str, Sequence[str]]:
    condition = "version <> ''"
    values: list[str] = []
    if wanted.kind == "other":
        unknown, kinds = where_kind(wanted.kind)
        condition += unknown
        values += kinds
    comparisons = {
        "kind =": "" if wanted.kind == "other" else wanted.kind,
        "trust =": wanted.trust,
        "source =": wanted.source,
        "updated >=": wanted.since,
        "updated <=": wanted.until,
    }
    for comparison, value in comparisons.items():
        if value:
            condition += f" AND {comparison} ?"
            values.append(value)
    if wanted.pinned:
        condition += " AND pinned = 1"
    if wanted.drifted:
        condition += f" AND {_HAS_DRIFTED}"
    return condition, [value.encode("utf-8", "replace").decode() for value in values]


class RowCounts(NamedTuple):
    """The number of memories of each type, and how many are unconfirmed, changed by others, and drifted."""

    kinds: dict[str, int]
    unconfirmed: int
    changed: int
    drifted: int


def count_rows(db: sqlite3.Connection) -> RowCounts:
    """Count the memories by what a person has to decide about them."""
    kinds = dict(db.execute(f"SELECT kind, count(*) FROM entry WHERE {_IS_SOUND} GROUP BY kind").fetchall())
    changed = "line LIKE '%(changed by %' AND trust <> 'unconfirmed'"
    sql = f"SELECT total(trust = 'unconfirmed'), total({changed}), total({_HAS_DRIFTED}) FROM entry WHERE {_IS_SOUND}"
    return RowCounts(kinds, *map(int, db.execute(sql).fetchone()))


class Owners:
    """The best of what this machine wrote and of what others did, told apart once for each state of the index."""

    def __init__(self) -> None:
        self._state: object = None
        self._divided: tuple[list[str], list[str], int, int] = [], [], 0, 0

    def divide(self, db: sqlite3.Connection, ledger: TrustLedger) -> tuple[list[str], list[str], int, int]:
        """Return own memories and those of others, as many as a catalog has room for, and how many there are of each.

        The best come first.
        """
        state = state_of(db), ledger.stamp
        if state != self._state:
            sql = f"SELECT pinned, path, version FROM entry WHERE listed = {LISTED} ORDER BY {RANK_ORDER}"
            rows = db.execute(sql).fetchall()
            unknown = ledger.find_unknown((path, version) for _, path, version in rows)
            theirs = [path for _, path, _ in rows if path in unknown]
            own = [(is_pinned, path) for is_pinned, path, _ in rows if path not in unknown]
            pinned = [path for is_pinned, path in own if is_pinned]
            others = [path for is_pinned, path in own if not is_pinned]
            best = pinned[:MAX_PINNED] + others[:MAX_LINES]
            self._state = state
            self._divided = best, theirs[:SHARED_LINES], len(own), len(theirs)
        return self._divided


def find_members(index: Index, store: FolderStore, files: set[File]) -> dict[str, str]:
    """Return which member of a team saved these versions of files, by path, as the history has it.

    The answer, "" for nobody, stays with the row of a file as long as that has this text and its commit is done.
    """
    sql = "SELECT author FROM entry WHERE path = ? AND version = ? AND author IS NOT NULL"
    known = index.query(lambda db: {file: who for file in files for (who,) in db.execute(sql, file)})
    if unknown := files - known.keys():
        asked = store.ask_history(lambda past: past.authors(unknown), dict[File, str]())
        answers = {file: asked.get(file, "").encode("utf-8", "replace").decode() for file in unknown}
        index.query(lambda db: _put_authors(db, answers))
        known |= answers
    members = {}
    for (path, _), by in known.items():
        # others are named in the history; the rest was saved by this member, maybe elsewhere
        by = by[1:] if by.startswith(OTHERS) else by and getattr(store, "member", "")
        if name := plain_name(by):
            members[path] = name
    return members


def _put_authors(db: sqlite3.Connection, authors: Mapping[File, str]) -> None:
    sql = "UPDATE entry SET author = ? WHERE path = ? AND version = ? AND pending = 0"
    with writing(db):
        db.executemany(sql, [(who, *file) for file, who in authors.items()])
