"""Pages of the rows of an index, filtered, sorted and counted by SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from memsheaf.index.catalog import MAX_LINES, MAX_PINNED, SHARED_LINES
from memsheaf.index.database import HIDDEN, LISTED, RANK, UNUSABLE, writing
from memsheaf.index.rows import where_kind
from memsheaf.store import Version
from memsheaf.store.commit_queries import OTHERS, commit_authors
from memsheaf.text.neutralize import plain_name

if TYPE_CHECKING:
    from memsheaf.index.search import Index
    from memsheaf.store.folder import FolderStore
    from memsheaf.store.trust import TrustLedger

_FIT = f"state IN ('ok', 'free') AND listed <> {HIDDEN} AND version NOT IN ('', '{UNUSABLE}')"

MANY = 900  # paths that a statement names
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
    """Which memories are wanted; what is left empty does not matter.

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
    """Some of the rows that are wanted, in their order; with `among` only these."""
    where, values = _where(wanted, among)
    key, order = SORTS[sort]
    sql = f"SELECT {key}, path, version FROM entry WHERE {where} ORDER BY {order} LIMIT ? OFFSET ?"
    return [Place(*row) for row in db.execute(sql, (*values, limit, offset))]


class Counts:
    """How many rows pass a filter; cached until the next write to the database."""

    def __init__(self) -> None:
        self._known: dict[Filter, int] = {}
        self._state: object = None

    def count(self, db: sqlite3.Connection, wanted: Filter) -> int:
        """How many rows are wanted."""
        state = database_state(db)
        if state != self._state:
            self._known, self._state = {}, state
        if wanted not in self._known:
            where, values = _where(wanted)
            self._known[wanted] = db.execute(f"SELECT count(*) FROM entry WHERE {where}", values).fetchone()[0]
        return self._known[wanted]


def set_drift(db: sqlite3.Connection, found: Iterable[tuple[str, Version, bool]]) -> None:
    """Store for these versions whether one of their citations drifted."""
    with writing(db):
        db.execute("DELETE FROM drift WHERE path NOT IN (SELECT path FROM entry)")
        db.executemany("INSERT OR REPLACE INTO drift VALUES (?, ?, ?)", found)


def _where(wanted: Filter, among: Collection[str] | None = None) -> tuple[str, Sequence[str]]:
    parts, values = ["version <> ''"], list[str]()
    if wanted.kind == "other":
        condition, kinds = where_kind(wanted.kind)
        parts.append(condition.removeprefix(" AND "))
        values += kinds
    for value, condition in (
        (wanted.kind if wanted.kind != "other" else "", "kind = ?"),
        (wanted.trust, "trust = ?"),
        (wanted.source, "source = ?"),
        (wanted.since, "updated >= ?"),
        (wanted.until, "updated <= ?"),
    ):
        if value:
            parts.append(condition)
            values.append(value.encode("utf-8", "replace").decode())
    if wanted.pinned:
        parts.append("pinned = 1")
    if wanted.drifted:
        parts.append("(path, version) IN (SELECT path, version FROM drift WHERE state)")
    if among is not None:
        parts.append(f"path IN ({', '.join('?' * len(among))})")
        values += among
    return " AND ".join(parts), values


class RowCounts(NamedTuple):
    """How many memories there are of each type; how many are unconfirmed, changed by others, and drifted."""

    kinds: dict[str, int]
    unconfirmed: int
    changed: int
    drifted: int


def count_rows(db: sqlite3.Connection) -> RowCounts:
    """Count the memories by what a person has to decide about them."""
    kinds = dict(db.execute(f"SELECT kind, count(*) FROM entry WHERE {_FIT} GROUP BY kind").fetchall())
    changed = "line LIKE '%(changed by %' AND trust <> 'unconfirmed'"
    drifted = "(path, version) IN (SELECT path, version FROM drift WHERE state)"
    sql = f"SELECT total(trust = 'unconfirmed'), total({changed}), total({drifted}) FROM entry WHERE {_FIT}"
    return RowCounts(kinds, *map(int, db.execute(sql).fetchone()))


class Owners:
    """The best of what this machine wrote and of what others did, told apart once for each state of the index."""

    def __init__(self) -> None:
        self._state: object = None
        self._found: tuple[list[str], list[Place], int, int] = [], [], 0, 0

    def divide(self, db: sqlite3.Connection, ledger: TrustLedger) -> tuple[list[str], list[Place], int, int]:
        """Own memories and those of others, as many as a catalog has room for, best first; and how many there are."""
        state = database_state(db), ledger.stamp
        if state != self._state:
            sql = f"SELECT pinned, path, version FROM entry WHERE listed = {LISTED} ORDER BY {RANK}"
            rows = db.execute(sql).fetchall()
            shared = ledger.find_unknown((path, version) for _, path, version in rows)
            own = [row for row in rows if row[1] not in shared] if shared else rows
            pins = sum(row[0] for row in own)  # they come first
            best = [path for _, path, _ in own[: min(pins, MAX_PINNED)] + own[pins : pins + MAX_LINES]]
            theirs = [*islice((Place(*row) for row in rows if row[1] in shared), SHARED_LINES)]
            self._state, self._found = state, (best, theirs, len(own), len(shared))
        return self._found


def database_state(db: sqlite3.Connection) -> object:
    """What differs once anybody wrote to the database."""
    return id(db), db.total_changes, db.execute("PRAGMA data_version").fetchone()


def named_rows(
    db: sqlite3.Connection, paths: Collection[str] | None = None, *, memories: bool = False
) -> dict[str, tuple[str, str]]:
    """The name and the type of each file, or of these as far as they are there, by path; or of `memories` alone."""
    where = _FIT if memories else "version <> ''"
    sql = f"SELECT path, name, kind FROM entry WHERE {where}"
    if paths is None or len(paths) > MANY:
        rows = db.execute(sql).fetchall()
    else:
        rows = db.execute(f"{sql} AND path IN ({', '.join('?' * len(paths))})", tuple(paths)).fetchall()
    return {path: (name, kind) for path, name, kind in rows if paths is None or path in paths}


def find_authors(index: Index, files: set[File], ask: Callable[[set[File]], Mapping[File, str]], /) -> dict[str, str]:
    """Who committed or saved these versions of files, by path, as far as `ask` can tell.

    Its answer, "" for nobody, stays with the row of a file as long as that has this text and its commit is done.
    """
    sql = "SELECT author FROM entry WHERE path = ? AND version = ? AND author IS NOT NULL"
    put = "UPDATE entry SET author = ? WHERE path = ? AND version = ? AND pending = 0"

    def keep(db: sqlite3.Connection) -> None:
        with writing(db):
            db.executemany(put, ((who, *file) for file, who in told.items()))

    found = index.query(lambda db: {file: who for file in files for (who,) in db.execute(sql, file)})
    if unknown := files - found.keys():
        told = {file: who.encode("utf-8", "replace").decode() for file, who in ask(unknown).items()}
        index.query(keep)
        found |= {file: told[file] for file in unknown if file in told}
    return {path: who for (path, _), who in found.items() if who}


def find_members(index: Index, store: FolderStore, files: set[File]) -> dict[str, str]:
    """Which member of a team saved these versions of files, by path, as the journal has it.

    When it has to be asked, it is asked for all files that it was not asked for yet.
    """

    def ask(unknown: set[File]) -> dict[File, str]:
        sql = "SELECT path, version FROM entry WHERE author IS NULL AND version <> ''"
        wanted = unknown | index.query(lambda db: {*db.execute(sql).fetchall()})
        nobody: dict[File, str] = {}
        return dict.fromkeys(wanted, "") | store.ask_journal(lambda journal: commit_authors(journal, wanted), nobody)

    found = find_authors(index, files, ask)
    has_own = any(by[:1] != OTHERS for by in found.values())  # saved by this member, maybe elsewhere
    own = getattr(store, "member", "") if has_own else ""
    names = {path: plain_name(by[1:] if by[:1] == OTHERS else own) for path, by in found.items()}
    return {path: name for path, name in names.items() if name}
