"""Pages of the rows of an index, filtered, sorted and counted by SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from memsheaf.index.catalog import LINE_COLUMNS, MAX_LINES, MAX_PINNED, SHARED_LINES, Owners
from memsheaf.index.database import (
    HIDDEN,
    LISTED,
    RANK_ORDER,
    ROW_COLUMNS,
    UNUSABLE,
    WAITING,
    Row,
    tally,
    to_row,
    writing,
)
from memsheaf.index.rows import where_kind
from memsheaf.store import Version
from memsheaf.store.history import OTHERS
from memsheaf.text.neutralize import plain_name

if TYPE_CHECKING:
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
    is_kind, kinds = where_kind(wanted.kind)
    condition = f"version <> ''{is_kind}"
    values = [*kinds]
    comparisons = {
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


def divide(db: sqlite3.Connection, ledger: TrustLedger, outdated: Collection[str]) -> Owners:
    """Tell apart what this machine wrote and what others did; as much of both as a catalog has room for."""
    sql = f"SELECT version, pinned, {LINE_COLUMNS} FROM entry WHERE listed = {LISTED} ORDER BY {RANK_ORDER}"
    rows = db.execute(sql, ("\n".join(("", *outdated, "")),)).fetchall()
    unknown = ledger.find_unknown((path, version) for version, _, path, *_ in rows)
    theirs = [path for _, _, path, *_ in rows if path in unknown]
    own = [row for row in rows if row[2] not in unknown]
    pinned = [line for _, is_pinned, *line in own if is_pinned]
    others = [line for _, is_pinned, *line in own if not is_pinned]
    best = pinned[:MAX_PINNED] + others[:MAX_LINES]
    return Owners(best, theirs[:SHARED_LINES], len(rows) - len(theirs), len(theirs), tally(db)[WAITING])


def find_members(store: FolderStore, files: set[tuple[str, Version]]) -> dict[str, str]:
    """Return which member of a team saved these versions of files, by path, as far as the history has it."""
    members = {}
    nobody: dict[tuple[str, Version], str] = {}
    for (path, _), author in store.ask_history(lambda past: past.authors(files), nobody).items():
        member = author and getattr(store, "member", "")  # maybe on another machine
        if author.startswith(OTHERS):
            member = author[1:]
        if name := plain_name(member):
            members[path] = name
    return members
