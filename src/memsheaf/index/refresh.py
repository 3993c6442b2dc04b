"""Bring the rows of the index up to date with the files, the journal and MEMORY.md.

A look takes the stamp of every file and reads those whose stamp differs from that of their row. A file that changed
so recently that a second edit could carry the same stamp gets a row with an unsure stamp, and the next look reads it
once more. What others did to the files is put in the journal.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from memsheaf.errors import Busy, MemsheafError, PathRefused, StoreFailed
from memsheaf.guard.paths import CATALOG, listable
from memsheaf.index.catalog import SHORT_WAIT, CatalogPublisher, Page
from memsheaf.index.database import UNUSABLE, IndexNotes, as_number, notes, set_facts, set_origin, writing
from memsheaf.index.lexical import put_words
from memsheaf.index.rows import (
    Filling,
    as_unsure,
    is_racy,
    keep_vectors,
    mark_gone,
    put,
    put_traces,
    put_uses,
    set_stamp,
    tidy,
    unworded,
    was_written_after,
)
from memsheaf.memory import Memory, parse
from memsheaf.store import ABSENT, Commit, ScanEntry, Stamp
from memsheaf.store.folder import FolderStore
from memsheaf.store.git_checkout import head_of

T = TypeVar("T")

MAX_UNWORDED_COMMIT = 8  # memories of one commit whose words wait until somebody searches
FILES_PER_REPORT = 200

_FAILED = "it could not be read when it was last checked"
_STAMPS = f"SELECT path, mtime, ctime, size, inode FROM entry WHERE version <> '{ABSENT}'"


class Rebuild(Exception):
    """The rows are no use any more: the folder is gone, or they are ranked by another rule."""


class Refresher:
    """Looks at one folder and updates the rows of its index. Its owner calls it from one thread at a time."""

    def __init__(self, store: FolderStore, *, read_only: bool, clock: Callable[[], float]) -> None:
        self._store = store
        self._read_only = read_only
        self._clock = clock
        self._by_text = bool(store.checkout)
        self._reports: dict[int, Callable[[int], None]] = {}
        self.catalog = CatalogPublisher(store, lambda db, path: self._examine(db, self._entries_of([path]), [path]))
        self.reset()

    def reset(self) -> None:
        """Forget what is cached in this process."""
        self.has_looked = False
        self._data_version = -1
        self.catalog.reset()

    def notice_others(self, db: sqlite3.Connection) -> None:
        """Forget what is cached in this process when another one wrote."""
        was, self._data_version = self._data_version, db.execute("PRAGMA data_version").fetchone()[0]
        if was != self._data_version:
            self.catalog.invalidate()

    def page(self, db: sqlite3.Connection, max_bytes: int) -> Page:
        """The catalog as MEMORY.md holds it; with fewer bytes, the best that fit."""
        self.notice_others(db)
        return self.catalog.page(db, max_bytes)

    @contextmanager
    def reporting(self, report: Callable[[int], None]) -> Iterator[None]:
        """As `report_to`, meanwhile."""
        self.report_to(report)
        try:
            yield
        finally:
            del self._reports[threading.get_ident()]

    def report_to(self, report: Callable[[int], None]) -> None:
        """From now on, a look of this thread that reads many files tells how many; what it raises ends the look."""
        self._reports[threading.get_ident()] = report

    def look(self, db: sqlite3.Connection) -> bool:
        """Notice what changed since the last look, journal it, and bring the catalog up to date.

        Raises:
            Rebuild: the database must be thrown away first.
        """
        self.notice_others(db)
        known = notes(db)
        stamps = self._store.stamps([CATALOG, ""])
        has_new_catalog = stamps[CATALOG] != known.catalog_stamp
        self.catalog.is_foreign = bool(known.fact("theirs")) or (self._read_only and has_new_catalog)
        if known.rows and (stamps[""] is None or known.fact("by_text") != self._by_text):
            raise Rebuild  # somebody removed the whole folder, or it came into a checkout, or out of one
        last = self._store.last_id()
        has_new_commits = not self._read_only and last != "" and known.fact("journal") != int(last, 16)
        entries = {entry.path: entry for entry in self._store.scan()}  # none where nothing was remembered yet
        rows = {path: (mtime, ctime, size, inode) for path, mtime, ctime, size, inode in db.execute(_STAMPS)}
        suspects = [path for path, entry in entries.items() if rows.get(path) != entry.stamp]
        suspects += rows.keys() - entries.keys()
        is_writable = stamps[""] is not None and not self._read_only
        has_news = is_writable and (has_new_catalog or has_new_commits or self._has_news(db, known))
        changed = False
        if suspects or has_news:
            with writing(db):
                changed = self._update(db, entries, suspects, has_new_commits=has_new_commits)
        self.has_looked = True
        return changed

    def _has_news(self, db: sqlite3.Connection, known: IndexNotes) -> bool:
        """Return True if there is something to do though every file is as its row says."""
        return (
            bool(_pending(db))
            or self._head() != known.fact("head")
            or bool(known.fact("unpublished"))
            # a power cut may spoil the catalog and leave its stamp
            or (not self.has_looked and known.fact("boot") != as_number(self._store.boot))
        )

    def _update(
        self,
        db: sqlite3.Connection,
        entries: Mapping[str, ScanEntry],
        suspects: Collection[str],
        *,
        has_new_commits: bool,
    ) -> bool:
        """Read the suspects, journal what others did to them, and publish the catalog."""
        head, known = self._head(), notes(db)
        set_origin(db, self._store.root)
        set_facts(db, by_text=self._by_text)
        changed = self._examine(db, entries, suspects) if known.rows else self._fill(db, entries.values())
        if changed or notes(db).fact("last") != known.fact("last"):
            put_traces(db, notes(db))
            tidy(db, notes(db))
            self.catalog.invalidate()
        if not self._read_only:
            # an index that is built anew must come to the catalog that was there
            self._take_uses(db, take_all=changed and known.rows > 0)
            changed |= self._journal(db, has_new_commits=has_new_commits)
            if not _pending(db):
                set_facts(db, head=head)
            self.catalog.publish(db)
            set_facts(db, boot=as_number(self._store.boot))
        return changed

    def notice(self, db: sqlite3.Connection, paths: Sequence[str]) -> bool:
        """Look at just these files, and journal what others did to them."""
        if self._read_only:
            return False
        entries = self._entries_of(paths)
        rows = {path: db.execute(f"{_STAMPS} AND path = ?", (path,)).fetchone() for path in paths}
        stamps = {path: (path, *entry.stamp) for path, entry in entries.items()}
        suspects = [path for path in paths if rows[path] != stamps.get(path)]
        if not suspects:
            return False
        with writing(db):
            self.notice_others(db)
            changed = self._examine(db, entries, suspects)
            if changed:
                self.catalog.invalidate()
                self._journal(db)
                self.catalog.publish(db)
        return changed

    def purge(self, db: sqlite3.Connection) -> None:
        """Publish the catalog after rows were wiped."""
        with writing(db):
            self.catalog.invalidate()
            self.catalog.publish(db)

    def _entries_of(self, paths: Iterable[str]) -> dict[str, ScanEntry]:
        """Return the entries of those files that are there."""
        return {path: ScanEntry(path, stamp) for path, stamp in self._store.stamps(paths).items() if stamp}

    def _head(self) -> int:
        """Where git's HEAD is, as a number; 0 outside of a checkout, and while git is at work."""
        head = head_of(self._store.checkout) if self._store.checkout else ""
        return as_number(head) if head else 0

    def _buries(self, db: sqlite3.Connection) -> bool:
        """Whether a missing file was removed by hand, and not by git with a change of branch."""
        head = self._head()
        return not self._store.checkout or (head != 0 and head == notes(db).fact("head"))

    def _fill(self, db: sqlite3.Connection, entries: Collection[ScanEntry]) -> bool:
        """Make the rows of an empty index."""
        if entries:
            filling = Filling(db, by_text=self._by_text)
            for entry in self._reported(entries):
                memory, usable, stamp = self._read(entry)
                filling.put(memory, stamp, pending=usable, usable=usable)
            filling.close()
        return bool(entries)

    def _examine(self, db: sqlite3.Connection, entries: Mapping[str, ScanEntry], paths: Collection[str]) -> bool:
        """Compare some files with their rows; a path without an entry was not there."""
        changed = False
        for path in self._reported(paths):
            if path in entries:
                changed |= self._compare(db, entries[path])
            elif self._store.stamps([path])[path] is None:  # or another process has just saved it
                changed |= mark_gone(db, path)
        return changed

    def _reported(self, items: Iterable[T]) -> Iterator[T]:
        """Yield files that are about to be read, and tell now and then how many were."""
        report = self._reports.get(threading.get_ident())
        for count, item in enumerate(items):
            if report and count and count % FILES_PER_REPORT == 0:
                report(count)
            yield item

    def _compare(self, db: sqlite3.Connection, entry: ScanEntry) -> bool:
        """Read a file that may differ from its row, and bring the row up to date."""
        memory, usable, stamp = self._read(entry)
        sql = "SELECT id, version, mtime, pending FROM entry WHERE path = ?"
        row, version, mtime, pending = db.execute(sql, (entry.path,)).fetchone() or (0, ABSENT, 0, True)
        is_same = version == (memory.version if usable else UNUSABLE)
        if is_same and mtime == stamp[0]:
            set_stamp(db, row, stamp)
            return False
        if is_same:
            keep_vectors(db, row)
        put(db, memory, stamp, pending=usable and (pending or not is_same), usable=usable, by_text=self._by_text)
        return not is_same

    def _read(self, entry: ScanEntry) -> tuple[Memory, bool, Stamp]:
        """Return what is in a file, whether it can be used, and the stamp to remember it by."""
        stamp = as_unsure(entry.stamp) if is_racy(entry.stamp, self._clock()) else entry.stamp
        problem = entry.problem
        if not problem:
            try:
                return parse(entry.path, self._store.read(entry.path).data), True, stamp
            except StoreFailed:  # the disk, not the file: it is read again at the next look
                problem, stamp = _FAILED, as_unsure(stamp)
            except MemsheafError as error:
                problem = str(error)
        return parse(entry.path, b"\0")._replace(problem=problem), False, stamp

    def _journal(self, db: sqlite3.Connection, *, has_new_commits: bool = False) -> bool:
        """Put what others did in the journal, which may have commits that this index did not follow."""
        pending, bury = _pending(db), self._buries(db)
        try:
            if pending:
                self._store.adopt(pending, wait=SHORT_WAIT, bury=bury)
            if has_new_commits:  # they may name files that went before this index saw them
                self._store.adopt(None, wait=SHORT_WAIT, bury=bury)
            if pending or has_new_commits:
                set_facts(db, journal=int(self._store.last_id() or "0", 16))
        except (StoreFailed, PathRefused, Busy):
            return False  # a disk that is full, or a writer at work, hides nothing; they stay pending
        if pending:
            db.execute(f"DELETE FROM entry WHERE version = '{ABSENT}'")
            db.execute("UPDATE entry SET pending = 0 WHERE pending = 1")
        return bool(pending)

    def follow(self, db: sqlite3.Connection, commit: Commit, parsed: Mapping[str, Memory]) -> None:
        """Take over a commit of our own."""
        with writing(db):
            self.notice_others(db)
            # a store keeps more than memories
            names = (revision for revision in commit.revisions if revision.path != CATALOG)
            revisions = [step for step in names if listable(step.path[step.path.rfind("/") + 1 :])]
            stamps = self._store.stamps([revision.path for revision in revisions])
            known = notes(db)
            is_batch = len(revisions) > MAX_UNWORDED_COMMIT
            filling = Filling(db, by_text=self._by_text) if is_batch and not known.rows else None
            for revision in revisions:
                path, stamp, line = revision.path, stamps[revision.path], None
                if revision.new is None or stamp is None:
                    db.execute("DELETE FROM entry WHERE path = ?", (path,))
                else:
                    memory = parsed.get(path) or parse(path, revision.new)
                    if not is_batch or was_written_after(stamp, commit.placed):
                        stamp = as_unsure(stamp)  # somebody may have saved it since
                    if filling:
                        filling.put(memory, stamp, pending=False, usable=True)
                    else:
                        line = put(db, memory, stamp, pending=False, by_text=self._by_text)
                self.catalog.replace(path, line)
            if filling:
                filling.close()
                self.catalog.invalidate()
            elif is_batch:
                self._put_words(db, unworded(db))
            self._take_uses(db, take_all=True)
            set_origin(db, self._store.root)
            set_facts(db, by_text=self._by_text)
            # unless a commit of others came between
            if commit.id and known.fact("journal") == int(commit.follows or "0", 16):
                set_facts(db, journal=int(commit.id, 16))
            put_traces(db, notes(db))
            self.catalog.publish(db)

    def _take_uses(self, db: sqlite3.Connection, *, take_all: bool) -> None:
        found = self._store.uses_from(notes(db).fact("uses"), take_all=take_all)
        if found.days:
            put_uses(db, found.days, int(self._clock() // 86_400), by_text=self._by_text)
            self.catalog.invalidate()
        set_facts(db, uses=found.end)

    def take_in_words(self, db: sqlite3.Connection) -> None:
        """Bring the full-text index up to date, which a single save does not do."""
        if waiting := unworded(db):
            with writing(db):
                self._put_words(db, waiting)

    def _put_words(self, db: sqlite3.Connection, waiting: Iterable[tuple[int, str]]) -> None:
        worded = 0
        for number, path in waiting:
            with suppress(MemsheafError):
                put_words(db, number, parse(path, self._store.read(path).data))
            worded = number
        if worded:
            set_facts(db, worded=worded)


def _pending(db: sqlite3.Connection) -> list[str]:
    """Return the files that others changed and the journal does not know yet."""
    return [path for (path,) in db.execute("SELECT path FROM entry WHERE pending = 1")]
