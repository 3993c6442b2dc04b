"""Bring the rows of the index up to date with the files, the journal and MEMORY.md.

A look takes the stamp of every file and reads those whose stamp differs from that of their row. A file that changed
so recently that a second edit could carry the same stamp gets a row with an unsure stamp, and the next look reads it
once more. What others did to the files is put in the journal.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from memsheaf.errors import Busy, MemsheafError, PathRefused, StoreFailed
from memsheaf.guard.paths import CATALOG, listable
from memsheaf.index.catalog import SHORT_WAIT_SECONDS, CatalogPublisher
from memsheaf.index.database import UNUSABLE, notes, set_notes, state_of, writing
from memsheaf.index.rows import (
    as_unsure,
    is_racy,
    mark_gone,
    put,
    put_uses,
    touch,
    was_written_after,
    wipe_all,
)
from memsheaf.memory import Memory, parse
from memsheaf.store import ABSENT, Commit, ScanEntry, Stamp
from memsheaf.store.folder import FolderStore
from memsheaf.store.git_checkout import head_of

FILES_PER_REPORT = 200

_READ_FAILED = "it could not be read when it was last checked"
_SELECT_STAMPS = f"SELECT path, mtime, ctime, size, inode FROM entry WHERE version <> '{ABSENT}'"


class Refresher:
    """Looks at one folder and updates the rows of its index. Its owner calls it from one thread at a time."""

    def __init__(self, store: FolderStore, *, read_only: bool, clock: Callable[[], float]) -> None:
        self._store = store
        self._read_only = read_only
        self._clock = clock
        self._by_text = bool(store.checkout)
        self.reports: dict[int, Callable[[int], None]] = {}
        """Called, by thread, with the number of files that a look has read; an exception ends the look."""
        self.catalog = CatalogPublisher(store)
        self.reset()

    def reset(self) -> None:
        """Forget what is cached in this process."""
        self.has_looked = False
        self._state: object = None
        self._stamps: dict[str, Stamp] = {}

    def look(self, db: sqlite3.Connection) -> bool:
        """Notice what changed since the last look, journal it, and bring the catalog up to date."""
        known = notes(db)
        present = self._store.stamps([CATALOG, ""])
        has_folder = present[""] is not None
        changed = False
        if not has_folder or known.get("by_text", self._by_text) != self._by_text:
            # somebody removed the whole folder, which is no change of its files; or it came into a checkout
            known = {}
            if db.execute("SELECT 1 FROM entry LIMIT 1").fetchone():
                changed = True
                with writing(db):
                    wipe_all(db)
        has_new_catalog = str(present[CATALOG] or "") != known.get("catalog", "")
        self.catalog.is_foreign = bool(known.get("is_foreign")) or (self._read_only and has_new_catalog)
        entries = {entry.path: entry for entry in self._store.scan()}  # none where nothing was remembered yet
        rows = self._read_stamps(db)
        suspects = [path for path, entry in entries.items() if rows.get(path) != entry.stamp]
        suspects += rows.keys() - entries.keys()
        is_writable = has_folder and not self._read_only
        last_commit = known.get("journal", "")
        has_new_commits = is_writable and self._store.last_id() != last_commit
        has_news = is_writable and (has_new_catalog or self._has_news(db, known))
        if not (suspects or has_new_commits or has_news):
            return changed
        with writing(db):
            head = self._head()
            # another history than the last time, such as an older copy of it
            if has_new_commits and self._store.ask_history(lambda past: not past.find_all([last_commit]), False):
                db.execute("UPDATE entry SET pending = 1 WHERE version NOT IN ('', ?)", (UNUSABLE,))
            changed |= self._examine(db, entries, suspects)
            set_notes(db, by_text=self._by_text)
            if self._read_only or self._store.problem:  # a damaged history is set aside when a memory is changed
                return changed
            set_notes(db, is_published=False)
            # a disk that is full, or a writer at work, hides nothing; what is not recorded stays pending
            with suppress(StoreFailed, PathRefused, Busy):
                changed |= self._journal(db, has_new_commits=has_new_commits)
                # an index that is built anew must come to the catalog that was there
                uses = self._take_uses(db, known, take_all=changed and bool(self._stamps))
                set_notes(db, uses=uses, boot=self._store.boot, head=head)
                self.publish(db)
        return changed

    def notice(self, db: sqlite3.Connection, paths: Sequence[str]) -> bool:
        """Look at just these files, and journal what others did to them."""
        if self._read_only:
            return False
        sql = f"SELECT mtime, ctime, size, inode FROM entry WHERE version <> '{ABSENT}' AND path = ?"
        stamps = self._store.stamps(paths)
        suspects = [path for path in paths if db.execute(sql, (path,)).fetchone() != stamps[path]]
        if not suspects:
            return False
        with writing(db):
            changed = self._examine(db, self._entries_of(suspects), suspects)
            if changed:
                with suppress(StoreFailed, PathRefused, Busy):
                    self._journal(db)
                self.publish(db)
        return changed

    def follow(self, db: sqlite3.Connection, commit: Commit, parsed: Mapping[str, Memory]) -> None:
        """Take over a commit of our own."""
        with writing(db):
            revisions = [step for step in commit.revisions if _is_memory(step.path)]
            stamps = self._store.stamps([revision.path for revision in revisions])
            for revision in revisions:
                path = revision.path
                stamp = stamps[path]
                if revision.new is None or stamp is None:
                    db.execute("DELETE FROM entry WHERE path = ?", (path,))
                    continue
                if was_written_after(stamp, commit.placed):
                    stamp = as_unsure(stamp)  # somebody may have saved it since
                memory = parsed.get(path) or parse(path, revision.new)
                put(db, memory, stamp, pending=False, by_text=self._by_text)
            known = notes(db)
            journal = known.get("journal", "")
            if commit.id and journal == commit.follows:  # else a commit of others came between
                journal = commit.id
            uses = self._take_uses(db, known, take_all=True)
            set_notes(db, journal=journal, by_text=self._by_text, uses=uses)
            self.publish(db)

    def _read_stamps(self, db: sqlite3.Connection) -> dict[str, Stamp]:
        state = state_of(db)
        if state != self._state:
            self._stamps = {
                path: (mtime, ctime, size, inode) for path, mtime, ctime, size, inode in db.execute(_SELECT_STAMPS)
            }
            self._state = state
        return self._stamps

    def _has_news(self, db: sqlite3.Connection, known: Mapping[str, Any]) -> bool:
        """Return True if there is something to do though every file is as its row says."""
        boot = self._store.boot
        return (
            bool(_pending(db))
            or self._head() != known.get("head", "")
            or not known.get("is_published", True)
            # a power cut may spoil the catalog and leave its stamp
            or (not self.has_looked and (not boot or known.get("boot") != boot))
        )

    def publish(self, db: sqlite3.Connection) -> None:
        """Publish the catalog; a foreign text that stood there is taken in as the file that it was moved to."""
        while (moved := self.catalog.publish(db)) is not None:
            if moved:
                self._examine(db, self._entries_of([moved]), [moved])

    def _entries_of(self, paths: Iterable[str]) -> dict[str, ScanEntry]:
        """Return the entries of those files that are there."""
        return {path: ScanEntry(path, stamp) for path, stamp in self._store.stamps(paths).items() if stamp}

    def _head(self) -> str:
        """Return the commit that git has checked out; "" outside of a checkout, and while git is at work."""
        return head_of(self._store.checkout) if self._store.checkout else ""

    def _examine(self, db: sqlite3.Connection, entries: Mapping[str, ScanEntry], paths: Collection[str]) -> bool:
        """Compare some files with their rows; a path without an entry was not there."""
        report = self.reports.get(threading.get_ident(), bool)
        changed = False
        for count, path in enumerate(paths):
            if count and count % FILES_PER_REPORT == 0:
                report(count)
            if path in entries:
                changed |= self._compare(db, entries[path])
            # a folder could not be looked into before; and another process may have just saved this file
            elif not _is_memory(path) or self._store.stamps([path])[path] is None:
                changed |= mark_gone(db, path)
        return changed

    def _compare(self, db: sqlite3.Connection, entry: ScanEntry) -> bool:
        """Read a file that may differ from its row, and bring the row up to date."""
        memory, usable, stamp = self._read(entry)
        sql = "SELECT ifnull(max(version), '') FROM entry WHERE path = ?"
        (version,) = db.execute(sql, (entry.path,)).fetchone()
        if usable and version == memory.version:
            touch(db, memory, stamp, by_text=self._by_text)
            return False
        put(db, memory, stamp, pending=usable, usable=usable, by_text=self._by_text)
        return usable or version != UNUSABLE

    def _read(self, entry: ScanEntry) -> tuple[Memory, bool, Stamp]:
        """Return what is in a file, whether it can be used, and the stamp to remember it by."""
        stamp = as_unsure(entry.stamp) if is_racy(entry.stamp, self._clock()) else entry.stamp
        problem = entry.problem
        if not problem:
            try:
                return parse(entry.path, self._store.read(entry.path).data), True, stamp
            except StoreFailed:  # the disk, not the file: it is read again at the next look
                problem, stamp = _READ_FAILED, as_unsure(stamp)
            except MemsheafError as error:
                problem = str(error)
        return parse(entry.path, b"\0")._replace(problem=problem), False, stamp

    def _journal(self, db: sqlite3.Connection, *, has_new_commits: bool = False) -> bool:
        """Put what others did in the journal, which may have commits that this index did not follow.

        Raises StoreFailed, PathRefused, Busy.
        """
        pending = _pending(db)
        # a file that git removed with a change of branch was not removed by hand
        head = self._head()
        bury = not self._store.checkout or (head != "" and head == notes(db).get("head"))
        self._store.adopt(pending, wait=SHORT_WAIT_SECONDS, bury=bury)
        if has_new_commits:  # they may name files that went before this index saw them
            self._store.adopt(None, wait=SHORT_WAIT_SECONDS, bury=bury)
        if pending or has_new_commits:
            set_notes(db, journal=self._store.last_id())
        if pending:
            db.execute(f"DELETE FROM entry WHERE version = '{ABSENT}'")
            db.execute("UPDATE entry SET pending = 0 WHERE pending = 1")
        return bool(pending)

    def _take_uses(self, db: sqlite3.Connection, known: Mapping[str, Any], *, take_all: bool) -> int:
        """Rank by what was of use: all that is noted by now, or what the catalog was written with."""
        days, end = self._store.uses_from(known.get("uses", 0), take_all=take_all)
        if days:
            put_uses(db, days, int(self._clock() // 86_400), by_text=self._by_text)
        return end


def _is_memory(path: str) -> bool:
    """Return False for what a store keeps besides memories."""
    return path != CATALOG and listable(path.rpartition("/")[2])


def _pending(db: sqlite3.Connection) -> list[str]:
    """Return the files that others changed and the journal does not know yet."""
    return [path for (path,) in db.execute("SELECT path FROM entry WHERE pending = 1")]
