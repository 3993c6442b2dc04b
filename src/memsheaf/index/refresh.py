"""Bring the rows of the index up to date with the files, the journal and MEMORY.md.

A row follows each file by its stamp. A file whose stamp differs is read again, and one that changed so recently that
a second edit could carry the same stamp is read once more. What others did to the files is put in the journal.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from memsheaf.errors import Busy, MemsheafError, PathRefused, StoreFailed
from memsheaf.guard.paths import CATALOG, listable
from memsheaf.index.catalog import SHORT_WAIT, CatalogPublisher, Page
from memsheaf.index.database import (
    LISTED,
    RANK,
    UNUSABLE,
    IndexNotes,
    as_number,
    forget_folders,
    is_unchanged,
    notes,
    set_facts,
    set_marks,
    set_origin,
    writing,
)  # fmt: skip
from memsheaf.index.lexical import put_words
from memsheaf.index.rows import (
    Filling,
    due_until,
    keep_vectors,
    mark_gone,
    put,
    put_traces,
    put_uses,
    tidy,
    untouched_until,
    unworded,
    verify,
)  # fmt: skip
from memsheaf.memory import Memory, parse
from memsheaf.store import ABSENT, Commit, ScanEntry, Stamp
from memsheaf.store.folder import FolderStore
from memsheaf.store.git_checkout import head_of

WATCHED = 200  # files that every look examines: all of a small folder, what the catalog shows of a large one
SCAN_AT_WILL = 5_000
SWEEP_SHARE = 100  # a sweep of everything takes at most 1/100 of the time
STAT_NS = 6_000  # what a sweep pays for each file, before one was ever timed
FEW = 8  # so many memories of one commit wait with their words until somebody searches
REPORTED = 200  # so many files are read between two reports

_FAILED = "it could not be read when it was last checked"

Known = tuple[int, int, int, int, int, str, int]
_KNOWN = "mtime, ctime, size, inode, id, version, pending"
_STAMPS = "SELECT path, mtime, ctime, size, inode FROM entry"


class Rebuild(Exception):
    """The rows are no use any more: the folder is gone (`root_is_gone`), or they are ranked by another rule."""

    def __init__(self, *, root_is_gone: bool) -> None:
        super().__init__()
        self.root_is_gone = root_is_gone


class Refresher:
    """Looks at one folder and updates the rows of its index. Its owner calls it from one thread at a time."""

    swept_by_others = False
    """Whether a thread looks now and then with `sweep`, so that nobody who asks has to wait for it."""

    def __init__(self, store: FolderStore, *, read_only: bool, clock: Callable[[], float]) -> None:
        self._store = store
        self._read_only = read_only
        self._clock = clock
        self._by_text = bool(store.checkout)
        self._reports: dict[int, Callable[[int], None]] = {}
        self.commits = 0
        """How many commits of ours are under way: a folder they change is no reason to examine everything."""
        self.catalog = CatalogPublisher(store, self._index_moved)
        self.reset()

    def reset(self) -> None:
        """Forget what is cached in this process."""
        self.has_looked = False
        self.has_uses = False
        """Whether the store was told of uses that the rows do not show yet."""
        self._swept = 0
        self._data_version = -1
        self._has_origin = False
        self._watched: dict[str, Stamp] | None = None
        self.catalog.reset()

    def invalidate(self) -> None:
        """Read again what is cached of the rows."""
        self._watched = None
        self.catalog.invalidate()

    def notice_others(self, db: sqlite3.Connection) -> None:
        """Forget what is cached in this process when another one wrote."""
        was, self._data_version = self._data_version, db.execute("PRAGMA data_version").fetchone()[0]
        if was != self._data_version:
            self.invalidate()

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

    def purge(self, db: sqlite3.Connection, before: Mapping[str, Stamp | None]) -> None:
        """Publish the catalog after rows were wiped. `before` are the stamps of the folders from before it."""
        with writing(db):
            self.invalidate()
            known = notes(db)
            quiet = [path for path, stamp in known.marks.items() if before.get(path) == stamp]
            facts = {"journal": int(self._store.last_id() or "0", 16)} if quiet else {}
            self.catalog.publish(db, known, untouched=False, folders=quiet, facts=facts)

    def notice(self, db: sqlite3.Connection, paths: Sequence[str]) -> bool:
        """Look at just these files, and journal what others did to them."""
        if self._read_only:
            return False
        stamps = self._store.stamps(paths)
        verified = notes(db).fact("verified")
        rows = {path: db.execute(f"SELECT {_KNOWN} FROM entry WHERE path = ?", (path,)).fetchone() for path in paths}
        suspects = [path for path, row in rows.items() if not row or row[4] > verified or row[:4] != stamps[path]]
        if not suspects:
            return False
        with writing(db):
            self.notice_others(db)
            self.invalidate()
            changed = self._examine(db, suspects)
            if changed:
                self._journal(db)
                self.catalog.publish_unchanged_root(db)
        return changed

    def look(self, db: sqlite3.Connection, *, thorough: bool = False, sweep: bool = False) -> bool:
        """Notice what changed since the last look, journal it, and bring the catalog up to date.

        Raises:
            Rebuild: the database must be thrown away first.
        """
        self.notice_others(db)
        known = notes(db)
        self.catalog.is_foreign = bool(known.fact("theirs"))
        if self._read_only:
            self.catalog.is_foreign |= self._store.stamps([CATALOG])[CATALOG] != known.marks.get(CATALOG)
        if self._store.stamps([""])[""] is None:
            self.has_looked = True  # nothing was remembered yet, or somebody removed the whole folder
            if known.rows:
                raise Rebuild(root_is_gone=True)
            return False
        if known.rows and known.fact("by_text") != self._by_text:
            raise Rebuild(root_is_gone=False)  # the folder was not in a checkout then, or is not any more
        head = self._head()
        thorough = (thorough or not self.has_looked) and known.rows <= SCAN_AT_WILL
        sweep = sweep or not self.swept_by_others or known.rows <= SCAN_AT_WILL
        suspects = None if thorough or self._sweep_is_due(known, sweep) else self._suspects(db, known)
        news = not self._read_only and head != known.fact("head")
        if (suspects == [] and not news) or (suspects == [CATALOG] and self._read_only):
            self.has_looked = True
            return False
        if suspects is None and not news and self._is_unchanged(db, known):
            self.has_looked = self.has_uses = True  # uses of other processes wait for the next change
            return False
        with writing(db):
            self._set_origin(db)
            set_facts(db, by_text=self._by_text)
            due = due_until(db, known)
            changed = self._sweep(db, due) if suspects is None else self._examine(db, suspects)
            verify(db, due if due < known.fact("last") else sys.maxsize, self._clock())
            if changed or notes(db).fact("last") != known.fact("last"):
                put_traces(db, notes(db))
                self.invalidate()
            if not self._read_only:
                # an index that is built anew must come to the catalog that was there
                self._take_uses(db, take_all=changed and bool(known.fact("swept")))
                changed |= self._journal(db)
                if not db.execute("SELECT 1 FROM entry WHERE pending = 1").fetchone():
                    set_facts(db, head=head)
                self.catalog.publish_unchanged_root(db)
                set_facts(db, boot=as_number(self._store.boot))  # a power cut may spoil it and leave its stamp
        self.has_looked = True
        return changed

    def _head(self) -> int:
        """Where git's HEAD is, as a number; 0 outside of a checkout, and while git is at work."""
        head = head_of(self._store.checkout) if self._store.checkout else ""
        return as_number(head) if head else 0

    def _buries(self, db: sqlite3.Connection) -> bool:
        """Whether a missing file was removed by hand, and not by git with a change of branch."""
        head = self._head()
        return not self._store.checkout or (head != 0 and head == notes(db).fact("head"))

    def _sweep_is_due(self, known: IndexNotes, sweep: bool) -> bool:
        if not known.fact("swept") or not sweep:
            return not known.fact("swept")
        pause = max(SWEEP_SHARE * known.fact("cost"), 500_000_000)
        return self._clock() * 1e9 - max(known.fact("swept"), self._swept) > pause

    def _suspects(self, db: sqlite3.Connection, known: IndexNotes) -> list[str] | None:
        """The paths to read again, [] when nothing looks different; None when everything must be looked at."""
        marks = known.marks
        stamps = self._store.stamps(marks)
        if not self.commits and any(stamps[path] != marks[path] for path in marks if path != CATALOG):
            return None
        if self._watched is None:
            order = f"AND listed = {LISTED} ORDER BY {RANK}" if known.rows > WATCHED else ""
            where = f"WHERE version NOT IN ('', '{UNUSABLE}') {order}"
            sql = f"SELECT path, mtime, ctime, size, inode FROM entry {where} LIMIT {WATCHED}"
            self._watched = {path: (a, b, c, d) for path, a, b, c, d in db.execute(sql)}
        present = self._store.stamps(self._watched)
        suspects = [path for path, stamp in self._watched.items() if present[path] != stamp]
        news = f"SELECT path FROM entry WHERE id > ? AND id <= ? AND version NOT IN ('', '{UNUSABLE}')"
        suspects += [path for (path,) in db.execute(news, (known.fact("verified"), due_until(db, known)))]
        if not self._read_only:
            suspects += [path for (path,) in db.execute("SELECT path FROM entry WHERE pending = 1")]
        doubted = not self.has_looked and known.fact("boot") != as_number(self._store.boot)
        if doubted or CATALOG not in marks or stamps[CATALOG] != marks[CATALOG]:
            suspects.append(CATALOG)
        return suspects

    def _index_moved(self, db: sqlite3.Connection, path: str) -> None:
        self._examine(db, [path])
        self._watched = None

    def _examine(self, db: sqlite3.Connection, paths: Iterable[str]) -> bool:
        """Compare some files with their rows."""
        changed = False
        for path in set(paths) - {CATALOG}:
            row = db.execute(f"SELECT {_KNOWN} FROM entry WHERE path = ?", (path,)).fetchone()
            stamp = self._store.stamps([path])[path]
            if stamp is not None:
                changed |= self._compare(db, ScanEntry(path, stamp), row)
            elif row and row[5] != ABSENT:
                mark_gone(db, path)
                changed = True
        return changed

    def _is_unchanged(self, db: sqlite3.Connection, known: IndexNotes) -> bool:
        """Whether a sweep that only looks finds everything as it was; that counts as a sweep."""
        now = self._clock()
        rows = {path: (a, b, c, d) for path, a, b, c, d in db.execute(_STAMPS)}
        is_same = known.fact("by_text") == self._by_text
        if not is_same or not is_unchanged(db, known, rows, self._store, self._store.last_id()):
            return False
        self._swept = int(now * 1e9)
        return True

    def _sweep(self, db: sqlite3.Connection, due: int) -> bool:
        """Compare every file with its row, and read again what is new, up to the row `due`."""
        started, now = time.perf_counter_ns(), self._clock()
        known = {row[0]: row[1:] for row in db.execute(f"SELECT path, {_KNOWN} FROM entry")}
        filling = None if known else Filling(db, by_text=self._by_text)
        self._put_words(db, unworded(db))
        if not self._read_only:
            self._catch_up(db)
        tidy(db, notes(db))
        verified = notes(db).fact("verified")
        folders: dict[str, Stamp | None] = {}
        changed = False
        read, report = 0, self._reports.get(threading.get_ident())
        for entry in self._store.scan():
            if not entry.path or entry.path.endswith("/"):
                folders[entry.path] = entry.stamp
                continue
            row = known.pop(entry.path, None)
            if row is None or verified < row[4] <= due or row[:4] != entry.stamp:
                if filling:
                    memory, entry, usable = self._taken(entry)
                    filling.put(memory, entry.stamp, pending=usable, usable=usable)
                    changed = True
                else:
                    changed |= self._compare(db, entry, row, worded=True)
                read += 1
                if report and read % REPORTED == 0:
                    report(read)
        for path, row in known.items():
            if row[5] != ABSENT:
                mark_gone(db, path)
                changed = True
        if filling:
            filling.close()
        forget_folders(db)
        cost = time.perf_counter_ns() - started
        set_marks(db, folders, swept=int(now * 1e9), cost=cost, worded=notes(db).fact("last"))
        return changed

    def _catch_up(self, db: sqlite3.Connection) -> None:
        """Journal removals of files that this index never saw, when others wrote to the journal."""
        last = self._store.last_id()
        if last and notes(db).fact("journal") != int(last, 16):
            with suppress(StoreFailed, PathRefused, Busy):
                self._store.adopt(None, wait=SHORT_WAIT, bury=self._buries(db))
                set_facts(db, journal=int(self._store.last_id() or "0", 16))

    def _compare(self, db: sqlite3.Connection, entry: ScanEntry, row: Known | None, *, worded: bool = False) -> bool:
        """Read a file that may differ from its row, and bring the row up to date."""
        memory, entry, usable = self._taken(entry)
        same = row is not None and row[5] == (memory.version if usable else UNUSABLE)
        if same and row is not None:
            if row[:4] != entry.stamp:
                pending = bool(row[6])
                keep_vectors(db, row[4])
                put(db, memory, entry.stamp, pending=pending, usable=usable, worded=worded, by_text=self._by_text)
            return False
        put(db, memory, entry.stamp, pending=usable, usable=usable, worded=worded, by_text=self._by_text)
        return True

    def _taken(self, entry: ScanEntry) -> tuple[Memory, ScanEntry, bool]:
        """What is in a file, the stamp to remember it by, and whether it can be used."""
        memory, usable = self._read(entry)
        if memory.problem == _FAILED:  # the disk, not the file: it is read again at the next look
            entry = entry._replace(stamp=(0, 0, 0, 0))
        return memory, entry, usable

    def _read(self, entry: ScanEntry) -> tuple[Memory, bool]:
        """What is in a file, and whether it can be used."""
        problem = entry.problem
        if not problem:
            try:
                return parse(entry.path, self._store.read(entry.path).data), True
            except StoreFailed:
                problem = _FAILED
            except MemsheafError as error:
                problem = str(error)
        return parse(entry.path, b"\0")._replace(problem=problem), False

    def _journal(self, db: sqlite3.Connection) -> bool:
        """Put what others did in the journal."""
        waiting = [path for (path,) in db.execute("SELECT path FROM entry WHERE pending = 1")]
        try:
            if waiting and (commit := self._store.adopt(waiting, wait=SHORT_WAIT, bury=self._buries(db))):
                set_facts(db, journal=int(commit.id, 16))
        except (StoreFailed, PathRefused, Busy):
            return False  # a disk that is full, or a writer at work, hides nothing; they stay pending
        if waiting:
            db.execute("DELETE FROM entry WHERE version = ''")
            db.execute("UPDATE entry SET pending = 0 WHERE pending = 1")
        return bool(waiting)

    def follow(
        self, db: sqlite3.Connection, commit: Commit, before: Mapping[str, Stamp | None], parsed: Mapping[str, Memory]
    ) -> None:
        """Take over a commit of our own. `before` are the stamps of its folders from just before it."""
        with writing(db):
            self.notice_others(db)
            # a store keeps more than memories
            names = (one for one in commit.revisions if one.path != CATALOG)
            revisions = [one for one in names if listable(one.path[one.path.rfind("/") + 1 :])]
            stamps = self._store.stamps([CATALOG, *(revision.path for revision in revisions)])
            many = len(revisions) > FEW
            if many:
                known = notes(db)
                self._put_words(db, unworded(db))
            filling = Filling(db, by_text=self._by_text) if many and not known.rows else None
            for revision in revisions:
                path, stamp, entry = revision.path, stamps[revision.path], None
                if filling and revision.new is not None and stamp is not None:
                    memory = parsed.get(path) or parse(path, revision.new)
                    filling.put(memory, stamp, pending=False, usable=True)
                    continue
                if revision.new is None or stamp is None:
                    db.execute("DELETE FROM entry WHERE path = ?", (path,))
                else:
                    memory = parsed.get(path) or parse(path, revision.new)
                    entry = put(db, memory, stamp, pending=False, worded=many, by_text=self._by_text)
                self.catalog.replace(path, entry)
            if filling:
                filling.close()
                self.catalog.invalidate()
            if many:
                set_facts(db, worded=notes(db).fact("last"))
                if known.fact("verified") == known.fact("last"):
                    set_facts(db, verified=untouched_until(db, known.fact("last"), commit.placed))
            self._watched = None
            if self.has_uses:
                self._take_uses(db, take_all=True)
            was_empty = many and not known.rows
            self._set_origin(db)
            known = notes(db)
            put_traces(db, known)
            marks = known.marks
            quiet = [path for path, stamp in marks.items() if before.get(path) == stamp]
            # unless a commit of others came between
            alone = commit.id and known.fact("journal") == int(commit.follows or "0", 16)
            facts: dict[str, int] = {"by_text": self._by_text}
            facts |= {"journal": int(commit.id, 16)} if alone else {}
            if was_empty and "" in before and before[""] is None:
                # this commit made the folder: all that is in it is known
                quiet.append("")
                facts |= {"swept": int(self._clock() * 1e9), "cost": len(revisions) * STAT_NS}
            untouched = stamps[CATALOG] == marks.get(CATALOG)
            self.catalog.publish(db, known, untouched=untouched, folders=quiet, facts=facts)

    def _set_origin(self, db: sqlite3.Connection) -> None:
        if not self._has_origin:
            set_origin(db, self._store.root)
            self._has_origin = True

    def _take_uses(self, db: sqlite3.Connection, *, take_all: bool) -> None:
        found = self._store.uses_from(notes(db).fact("uses"), take_all=take_all)
        if found.days:
            put_uses(db, found.days, int(self._clock() // 86_400), by_text=self._by_text)
            self.invalidate()
        set_facts(db, uses=found.end)
        self.has_uses = found.more

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
