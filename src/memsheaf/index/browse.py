"""Pages of the rows of an index, filtered, sorted and counted by SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from memsheaf.index.catalog import MAX_LINES, MAX_PINNED, SHARED_LINES
from memsheaf.index.database import HIDDEN, LISTED, RANK_ORDER, UNUSABLE, state_of, writing
from memsheaf.index.rows import where_kind
from memsheaf.store import Version
from memsheaf.store.commit_queries import OTHERS, commit_authors
from memsheaf.text.neutralize import plain_name

if TYPE_CHECKING:
    from memsheaf.index.search import Index
    from memsheaf.state.trust import TrustLedger
    from memsheaf.store.folder import FolderStore

_HAS_DRIFTED = "(path, version) IN (SELECT path, version FROM drift WHERE state)"
_IS_SOUND = f"state IN ('ok', 'free') AND listed <> {HIDDEN} AND version NOT IN ('', '{UNUSABLE}')"

SORTS = {
    "newest": ("updated || char(9) || time", "updated DESC, time DESC, path"),
    "oldest": ("updated || char(9) || time", "updated, time, path DESC"),
    "name": ("lower(name)", "lower(name), path"),
    "type": ("kind || char(9) || lower(name)", "kind || char(9) || lower(name), path"),
    "path": ("path", "path"),
}
"""Orders of a list: what is compared, and how."""

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


class Place(NamedTuple):
    """A row in its order: what it is sorted by, its path and version."""

    key: str | float
    path: str
    version: Version


def places(
    db: sqlite3.Connection, wanted: Filter, sort: str, limit: int, offset: int, among: Collection[str] | None = None
) -> list[Place]:
    """Return some of the rows that are wanted, in their order; with `among` only these."""
    where, values = _where(wanted, among)
    key, order = SORTS[sort]
    sql = f"SELECT {key}, path, version FROM entry WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"
    return [Place(*row) for row in db.execute(sql, (*values, limit, offset))]


def count_wanted(db: sqlite3.Connection, wanted: Filter) -> int:
    """Return how many rows are wanted."""
    where, values = _where(wanted)
    return int(db.execute(f"SELECT count(*) FROM entry WHERE {where}", values).fetchone()[0])


def set_drift(db: sqlite3.Connection, found: Iterable[tuple[str, Version, bool]]) -> None:
    """Store for these versions whether one of their citations drifted."""
    with writing(db):
        db.execute("DELETE FROM drift WHERE path NOT IN (SELECT path FROM entry)")
        db.executemany("INSERT OR REPLACE INTO drift VALUES (?, ?, ?)", found)


def _where(wanted: Filter, among: Collection[str] | None = None) -> tuple[str, Sequence[str]]:
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
    if among is not None:
        condition += f" AND path IN ({', '.join('?' * len(among))})"
        values += among
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
        self._divided: tuple[list[str], list[Place], int, int] = [], [], 0, 0

    def divide(self, db: sqlite3.Connection, ledger: TrustLedger) -> tuple[list[str], list[Place], int, int]:
        """Return own memories and those of others, as many as a catalog has room for, and how many there are of each.

        The best come first.
        """
        state = state_of(db), ledger.stamp
        if state != self._state:
            sql = f"SELECT pinned, path, version FROM entry WHERE listed = {LISTED} ORDER BY {RANK_ORDER}"
            rows = [Place(*row) for row in db.execute(sql)]
            unknown = ledger.find_unknown((row.path, row.version) for row in rows)
            theirs = [row for row in rows if row.path in unknown]
            own = [row for row in rows if row.path not in unknown]
            pinned = [row.path for row in own if row.key]
            others = [row.path for row in own if not row.key]
            best = pinned[:MAX_PINNED] + others[:MAX_LINES]
            self._state = state
            self._divided = best, theirs[:SHARED_LINES], len(own), len(theirs)
        return self._divided


def named_rows(
    db: sqlite3.Connection, paths: Collection[str] | None = None, *, memories: bool = False
) -> dict[str, tuple[str, str]]:
    """Return the name and the type of each file, or of these as far as they are there, by path; or of memories."""
    condition = _IS_SOUND if memories else "version <> ''"
    if paths is None:
        rows = db.execute(f"SELECT path, name, kind FROM entry WHERE {condition}")
        return {path: (name, kind) for path, name, kind in rows}
    sql = f"SELECT name, kind FROM entry WHERE path = ? AND {condition}"
    return {path: row for path in paths for row in db.execute(sql, (path,))}


def find_authors(index: Index, files: set[File], ask: Callable[[set[File]], Mapping[File, str]], /) -> dict[str, str]:
    """Return who committed or saved these versions of files, by path, as far as `ask` can tell.

    Its answer, "" for nobody, stays with the row of a file as long as that has this text and its commit is done.
    """
    sql = "SELECT author FROM entry WHERE path = ? AND version = ? AND author IS NOT NULL"
    known = index.query(lambda db: {file: who for file in files for (who,) in db.execute(sql, file)})
    if unknown := files - known.keys():
        answers = {file: who.encode("utf-8", "replace").decode() for file, who in ask(unknown).items()}
        index.query(lambda db: _put_authors(db, answers))
        known |= {file: answers[file] for file in unknown if file in answers}
    return {path: who for (path, _), who in known.items() if who}


def _put_authors(db: sqlite3.Connection, authors: Mapping[File, str]) -> None:
    sql = "UPDATE entry SET author = ? WHERE path = ? AND version = ? AND pending = 0"
    with writing(db):
        db.executemany(sql, [(who, *file) for file, who in authors.items()])


def find_members(index: Index, store: FolderStore, files: set[File]) -> dict[str, str]:
    """Return which member of a team saved these versions of files, by path, as the journal has it."""
    nobody: dict[File, str] = {}

    def ask(unknown: set[File]) -> dict[File, str]:
        asked = store.ask_journal(lambda journal: commit_authors(journal, unknown), nobody)
        return dict.fromkeys(unknown, "") | asked

    members = {}
    for path, by in find_authors(index, files, ask).items():
        # others are named in the journal; the rest was saved by this member, maybe elsewhere
        name = plain_name(by[1:] if by.startswith(OTHERS) else getattr(store, "member", ""))
        if name:
            members[path] = name
    return members
