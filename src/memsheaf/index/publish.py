"""Write MEMORY.md from the rows of the index, and never over what a person wrote there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from memsheaf.errors import Busy, Changed, PathRefused, StoreFailed, TextRefused
from memsheaf.guard.paths import CATALOG
from memsheaf.index.catalog import MAX_LINES, MAX_PINNED, Line, Page, Ranking, Sheet
from memsheaf.index.database import LISTED, RANK, WAITING, IndexNotes, notes, set_marks
from memsheaf.index.rows import line
from memsheaf.store.folder import FolderStore

LEAST = MAX_LINES + MAX_PINNED  # lines of the ranking, below which more are read
KEPT = LEAST + 100
SHORT_WAIT = 1.0  # seconds that a question waits for a writer before it goes on without writing the journal


class CatalogPublisher:
    """The catalog of one folder, kept as a ranking in memory and as MEMORY.md on disk."""

    def __init__(self, store: FolderStore, index_file: Callable[[sqlite3.Connection, str], object]) -> None:
        self._store = store
        self._index_file = index_file
        self.moved: list[str] = []
        """Files that somebody else's MEMORY.md was moved to since this was opened."""
        self.reset()

    def reset(self) -> None:
        """Forget what is cached in this process."""
        self._ranking: Ranking | None = None
        self._published = b""
        self.is_foreign = False
        """Whether MEMORY.md is somebody else's and stays, as far as the last look saw."""

    def invalidate(self) -> None:
        """Read the ranking again with the next question."""
        self._ranking = None

    def replace(self, path: str, entry: Line | None) -> None:
        """Take over the changed line of one memory, None when it has none any more."""
        if self._ranking and not self._ranking.replace(path, entry):
            self._ranking = None

    def page(self, db: sqlite3.Connection) -> Page:
        """The catalog as MEMORY.md holds it."""
        tally = notes(db).tally
        sheet = self._sheet(db, tally)
        return Page(sheet.data.decode(), sheet.shown, tally[LISTED])

    def publish_unchanged_root(self, db: sqlite3.Connection) -> None:
        """Publish when no commit of ours has just changed the root."""
        known, present = notes(db), self._store.stamps([CATALOG, ""])
        marks = known.marks
        folders = [""] if present[""] == marks.get("") else []
        self.publish(db, known, untouched=present[CATALOG] == marks.get(CATALOG), folders=folders)

    def publish(
        self,
        db: sqlite3.Connection,
        known: IndexNotes,
        *,
        untouched: bool,
        folders: Sequence[str],
        facts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Write MEMORY.md unless it is there and right, and remember the stamps that this changed, and `facts`.

        It is `untouched` when nobody else changed it; `folders` are those that only we have changed.
        """
        data = self._sheet(db, known.tally).data
        if untouched and self.is_foreign:
            set_marks(db, self._store.stamps([CATALOG, *folders]), known, **facts)
            return
        trusted = self._published if untouched and self._published else self._store.published(CATALOG)
        try:
            if data != trusted:
                stamps = self._store.publish(CATALOG, data, also=folders, sure=untouched)
            else:
                stamps = self._store.stamps([CATALOG, *folders])
                if not untouched and not self._store.is_published(CATALOG):
                    self._store.recognise(data)  # the same as ours: a clone's, or the record was lost
            if self.is_foreign:
                self._store.set_aside(CATALOG, data, wait=SHORT_WAIT)  # it was removed; the journal is told
            self.is_foreign = False
        except Changed:
            if self._set_aside(db, data):
                self.publish(db, notes(db), untouched=False, folders=folders, facts=facts)
                return
            stamps = self._store.stamps([CATALOG, *folders]) if self.is_foreign else {}
        except (StoreFailed, PathRefused, Busy):
            stamps, data = {}, b""  # a catalog that cannot be written hides no memory; the next look tries again
        self._published = data or self._published
        set_marks(db, stamps, known, theirs=int(self.is_foreign), **facts)

    def _set_aside(self, db: sqlite3.Connection, data: bytes) -> bool:
        """Move somebody else's MEMORY.md to a file beside it; False when it stays, or another process is at it."""
        try:
            moved = self._store.set_aside(CATALOG, data, wait=SHORT_WAIT)
        except (PathRefused, TextRefused):
            moved = None  # a link, a folder, or too large: it stays
        except (StoreFailed, Busy, Changed):
            return False  # the next look tries again
        self.is_foreign = moved is None
        if moved:
            self._index_file(db, moved)
            self._ranking = None
            self.moved.append(moved)
        return moved is not None

    def _sheet(self, db: sqlite3.Connection, tally: Sequence[int]) -> Sheet:
        ranking = self._ranking
        if ranking is None or (not ranking.complete and len(ranking.lines) < LEAST):
            start = f"SELECT kind, pinned, day, time, path, line FROM entry WHERE listed = {LISTED} AND pinned ="
            # pins beyond those the catalog takes are left out, so that the newest are always among the kept
            rows = db.execute(f"{start} 1 ORDER BY {RANK} LIMIT ?", (MAX_PINNED + 1,)).fetchall()
            rows += db.execute(f"{start} 0 ORDER BY {RANK} LIMIT ?", (KEPT,)).fetchall()
            ranking = self._ranking = Ranking((line(*row) for row in rows), complete=len(rows) == tally[LISTED])
        return ranking.sheet(tally[LISTED], tally[WAITING])
