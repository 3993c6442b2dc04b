"""A transaction under a folder's lock: check versions, stage, decide, replace files; recovery after a crash."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import dropwhile, zip_longest

from memsheaf.errors import Changed, MemsheafError, PathRefused, Ref, StoreFailed
from memsheaf.guard.paths import CATALOG
from memsheaf.memory import utc_time
from memsheaf.store import ABSENT, Change, Commit, Revision, Version, catalogs, lost, version_of
from memsheaf.store.atomic_replace import READ_LIMIT, Placing
from memsheaf.store.history import History, is_path
from memsheaf.store.old_journal import OldFiles
from memsheaf.store.safe_dir import FLUSH, Folder, flush, read_file, stage, stamp_at, walk
from memsheaf.store.sqlite_file import DatabaseFailed

PAGE = 4096
_SAVED_MEANWHILE = "saved while memsheaf was writing"
_STAYS = "edited while {} was being written: the edit stays"
MANY = 8  # from here on, one flush of the file system is cheaper than one for each file


_NAMES_BEFORE = """
SELECT path FROM changes WHERE after = '' AND before = (
  SELECT after FROM changes WHERE path = ?1 AND before = '' ORDER BY n LIMIT 1)
AND NOT EXISTS (SELECT 1 FROM changes AS later WHERE later.path = changes.path AND later.n > changes.n)"""
"""Paths that ended with the text that another began with."""


class Transaction(Placing):
    """An open root, its `.history` and its past, with the lock held by the caller."""

    def __init__(
        self,
        root: Folder,
        history: Folder,
        past: History,
        boot: str,
        patience: float = 0.05,
        scope: str = "",
        announce: Callable[[Transaction, Commit], None] | None = None,
    ) -> None:
        super().__init__(root, history, patience, past)
        self.past = past
        self.boot = boot
        self.scope = scope
        self._announce = announce  # called with each commit right before it is decided

    def revision(self, change: Change) -> Revision:
        """Return what a change would do. Raises Changed when it was made for another version."""
        old = self.present(change.path)
        before = version_of(old)
        if before != change.expect:
            raise Changed(Ref(self.scope, change.path))
        return Revision(change.path, before, version_of(change.data), old, change.data)

    def carry_out(self, commit: Commit, agree: Callable[[Transaction, Commit], None] | None = None) -> Commit:
        """Stage, decide, place; give the commit with the time it was placed. Who has to `agree` is asked in between.

        Raises:
            Changed: a person saved the same file in that very moment.
        """
        drafts = _drafts_of(commit)
        try:
            for revision, draft in zip(commit.revisions, drafts, strict=True):
                self.stage(revision, draft)
            if agree:
                agree(self, commit)
            self.note(commit)
        except (OSError, MemsheafError) as error:
            # a flush that failed leaves open whether the commit is decided: the next writer sees, by its drafts
            if not (isinstance(error, DatabaseFailed) and error.errno == errno.EIO):
                self._discard(drafts)
            raise
        placed = time.time()
        theirs: dict[str, list[Revision]] = {}
        try:
            for revision, draft in zip(commit.revisions, drafts, strict=True):
                try:
                    if met := self.place(revision, draft):
                        theirs[revision.path] = met
                except PathRefused:  # a link was put in the way: that path is left alone
                    theirs[revision.path] = []
        except OSError as error:
            self._take_back(commit, error)
        if theirs:
            self._answer(commit, theirs, _STAYS.format(commit.id))
            raise Changed(Ref(self.scope, next(iter(theirs))))
        self._take_off_lost(commit.revisions)
        return commit._replace(placed=placed)

    def note(self, commit: Commit) -> None:
        """Decide a commit: from here on it will be carried out, whatever happens."""
        if self._announce:
            self._announce(self, commit)
        self.past.add(commit, self.boot)

    def note_outside(self, revisions: tuple[Revision, ...], at: str, why: str = "") -> Commit:
        """Make a commit of what others did; it is in place already."""
        if any(step.after == ABSENT for step in revisions):
            self.list_lost()
        commit = Commit(os.urandom(6).hex(), at, "outside", why, revisions)
        self.note(commit)
        self._take_off_lost(step for step in revisions if step.after != ABSENT)
        return commit

    def settle(self) -> None:
        """Flush every file that the history does not call flushed yet, then call it so."""
        paths = self.past.paths_to_flush()
        if len(paths) <= MANY or not self.root.sync_everything():
            for path in filter(is_path, paths):
                self._flush(path)
        self.past.mark_flushed()

    def outside(self, paths: Collection[str] | None) -> Iterator[Revision]:
        """Yield the steps that others made: from where the history left each path to what is there now.

        With None, those that removed what the history knows. The history is asked, not the caller: whoever lost track
        can do no harm.
        """
        heads = self.past.heads(paths)
        for path in sorted(heads if paths is None else paths):
            if paths is None and stamp_at(self.root, path):
                continue
            if step := self._step(path, heads.get(path, ABSENT)):
                yield step

    def list_lost(self, *, only_marked: bool = False) -> None:
        """List the files that went with the folder, if not one of those that the history knows is left."""
        is_marked = stamp_at(self.history, lost.MARK) is not None
        if only_marked and not is_marked:
            return
        journals = os.path.dirname(self.history.path)
        files = lost.find(self.past, is_emptied=is_marked or lost.is_outer_emptied(self.root.path, journals))
        has_inner = is_marked and os.listdir(journals) != [os.path.basename(self.history.path)]
        if (files or has_inner) and not any(stamp_at(self.root, path) for path in files):
            lost.add(self.history, files)
        if is_marked:
            self.history.unlink(lost.MARK)

    def _take_off_lost(self, revisions: Iterable[Revision]) -> None:
        with suppress(OSError):  # they are listed, and not missing
            lost.take_away(self.history, {step.path for step in revisions})

    def _step(self, path: str, head: Version) -> Revision | None:
        try:
            new = self.present(path)
        except MemsheafError:
            return None  # a link, unreadable, or too large to be kept: listed with its problem
        after = version_of(new)
        if after == head:
            return None
        return Revision(path, head, after, self.past.text(head), new)

    def forget(self, path: str) -> tuple[set[str], dict[Version, bytes]]:
        """Remove a file and its past; give the names it had, and what was removed by version."""
        present = self.present(path)
        renamed = set(self.past.steps_before_renaming(path))  # another text may have an older name by now
        names = self._former_names(path) | {name for _, name in renamed if self.present(name) is None}
        texts = self.past.forget(renamed, names)
        if present is not None:
            texts[version_of(present)] = present
            with walk(self.root, path) as (folder, name):
                folder.unlink(name)
                folder.sync()
        return names, texts

    def _former_names(self, path: str) -> set[str]:
        """Return the names that a text has had: its own, and removed ones that ended as another began."""
        names, waiting = {path}, [path]
        with_catalog = (
            "SELECT 1 FROM changes JOIN changes AS others USING (n) WHERE changes.path = ? AND others.path = ?"
        )
        if self.past.rows(with_catalog, path, CATALOG) and self.present(CATALOG) is None:
            names.add(CATALOG)  # the hand-written catalog that `path` is a copy of
        while waiting:
            for (name,) in self.past.rows(_NAMES_BEFORE, waiting.pop()):
                if name not in names and is_path(name) and self.present(name) is None:
                    names.add(name)
                    waiting.append(name)
        return names

    def recover(self) -> None:
        """Complete the commit that a dead process decided, and after a reboot verify those before it.

        The drafts of a commit are gone when all its texts are in place. Those of no commit had a writer who died
        before it decided. After a reboot a draft says nothing, as it was not flushed.
        """
        files = [entry.name for entry in self.history.scan() if not entry.is_dir(follow_symlinks=False)]
        drafts = {name for name in files if name.startswith("draft-")}
        rebooted = self.past.is_suspect(self.boot)
        if rebooted and (problem := self.past.find_damage()):  # such as a copy of the database and of a later log
            raise OSError(errno.EIO, problem)
        if drafts or rebooted:
            commits = self.past.to_flush()
            if not rebooted:
                commits = list(dropwhile(lambda commit: drafts.isdisjoint(_drafts_of(commit)), commits))
            steps = [step for commit in commits for step in self._rescued(commit)]
            steps += self._redo(commits, rebooted=rebooted)
            for step in steps:
                self.note_outside((step,), commits[-1].at, _SAVED_MEANWHILE)
            if rebooted:
                self.settle()
            self._discard(drafts)

    def _rescued(self, commit: Commit) -> list[Revision]:
        """Put back what a person had saved and a commit displaced, when its process died before it could look."""
        found = []
        for step, draft in zip(commit.revisions, _drafts_of(commit), strict=True):
            with suppress(FileNotFoundError, PathRefused):
                data = read_file(self.history, draft, READ_LIMIT)
                half = _is_torn(data, step.new or b"") or _is_torn(data, step.old or b"")
                if not half and version_of(data) not in (step.before, step.after):
                    theirs = Revision(step.path, step.after, version_of(data), step.new, data)
                    found += [theirs, *self._apply(theirs)]
        return found

    def set_aside(self, name: str, shown: bytes, at: str) -> tuple[Commit | None, str | None]:
        """Remove a text that is not ours, and keep what it says beyond `shown` in a file beside it, as one commit.

        Gives that commit, and the path that it is kept at: "" when nothing had to be kept, None when the text stays.
        One that the history knows was brought back by somebody, and stays.
        """
        found = self.present(name)
        if head := self.past.heads({name}).get(name):
            if head != version_of(found):
                self.note_outside((Revision(name, head, version_of(found), self.past.text(head), found),), at)
            return None, None if found is not None else ""
        if found is None:
            return None, ""
        kept = catalogs.keep_lines(found, shown, self.present)
        steps = [Revision(name, version_of(found), ABSENT, found), *([kept] if kept else [])]
        why = f"{name} is generated" + (f": what stood there is in {kept.path}" if kept else "")
        commit = Commit(os.urandom(6).hex(), at, "outside", why, tuple(steps), "", self.past.last_id())
        return self.carry_out(commit), kept.path if kept else ""

    def remove_old_files(self, cutoff: str = "") -> None:
        """Remove the files of earlier versions, which were taken in; with a cutoff, if all were written before."""
        old = OldFiles(self.history)
        newest = max((self.history.stat(name).st_mtime for name in old.sizes), default=0.0)
        if old.sizes and (not cutoff or utc_time(newest, milliseconds=True) < cutoff):
            old.remove(self.past)

    def drop_derived(self, *names: str) -> None:
        """Remove our derived texts from the root, and every file that one was or will be kept in."""
        for name in names:
            with suppress(FileNotFoundError, MemsheafError):
                if self.present(name) is None:
                    self.root.unlink(name)
        for name in self.history.names():
            if name.startswith("derived-"):
                with suppress(FileNotFoundError):
                    self.history.unlink(name)

    def _redo(self, commits: list[Commit], *, rebooted: bool) -> list[Revision]:
        """Bring each path to its last version, unless it holds a foreign text; gives concurrent edits."""
        met: list[Revision] = []
        last: dict[str, Revision] = {}
        ours: dict[str, set[Version]] = {}
        for commit in commits:
            for revision in commit.revisions:
                last[revision.path] = revision
                ours.setdefault(revision.path, set()).update((revision.before, revision.after))
        for path, revision in last.items():
            try:
                present = self.present(path)
            except MemsheafError:
                continue  # a link, unreadable, or too large: not ours to replace
            lost = rebooted and _is_torn(present, revision.new or b"")
            if lost or version_of(present) in ours[path]:
                met += self._apply(Revision(path, version_of(present), revision.after, present, revision.new))
        return met

    def _apply(self, revision: Revision) -> list[Revision]:
        """Bring a file from one version to another, provided it is at the first by then; give what was met."""
        if revision.new is None and revision.after != ABSENT:
            return []  # past retention, when what is there is all there is
        with suppress(MemsheafError):
            if version_of(self.present(revision.path)) == revision.after:
                return []
        draft = f"draft-{os.urandom(8).hex()}"
        self.stage(revision, draft)
        try:
            return self.place(revision, draft)
        except PathRefused:
            return []  # a link: not ours to replace
        finally:
            self._discard([draft])

    def _discard(self, drafts: Iterable[str]) -> None:
        for draft in drafts:
            self.discard(draft)

    def _answer(self, commit: Commit, theirs: Mapping[str, list[Revision]], why: str) -> None:
        """Take a commit back, as a commit: what others saved is in place; the rest returns to what it was."""
        back, more = [], []
        for step in commit.revisions:
            if step.path not in theirs:
                back.append(Revision(step.path, step.after, step.before, step.new, step.old))
            elif theirs[step.path]:
                back.append(theirs[step.path][0])
                more += theirs[step.path][1:]
        by = "outside" if theirs else commit.by
        answer = Commit(os.urandom(6).hex(), commit.at, by, why, tuple(back), undoes=commit.id)
        if back:
            stage(self.history, _drafts_of(answer)[0], b"")
        self.note(answer)  # from here on the answer is what the next writer would complete
        for revision in back:
            if revision.path not in theirs:
                more += self._apply(revision)
        self._discard(_drafts_of(commit) + _drafts_of(answer))
        for step in more:
            self.note_outside((step,), commit.at, _SAVED_MEANWHILE)

    def _take_back(self, commit: Commit, error: OSError) -> None:
        """Take back what was done when the disk failed half-way, or say that the next writer will complete it."""
        try:
            theirs: dict[str, list[Revision]] = {}
            for step in self._rescued(commit):
                theirs.setdefault(step.path, []).append(step)
            self._answer(commit, theirs, f"taken back: {error.strerror}")
        except OSError:
            message = f"{error.strerror}, after the change was decided; the next writer completes it"
            raise StoreFailed(message) from error
        raise error

    def _flush(self, path: str) -> None:
        # what is gone, or no longer ours to open, has nothing of ours to flush
        with suppress(FileNotFoundError, PermissionError, PathRefused), walk(self.root, path) as (folder, name):
            try:
                fd = folder.open_file(name, FLUSH)
                try:
                    flush(fd)
                finally:
                    os.close(fd)
            finally:
                folder.sync()


def _drafts_of(commit: Commit) -> list[str]:
    """Return the names of a commit's drafts, one for each of its changes."""
    return [f"draft-{commit.id}-{number}" for number in range(len(commit.revisions))]


def _is_torn(present: bytes | None, whole: bytes) -> bool:
    """Return True for a file as a power cut leaves one: missing, empty, or with pages that never arrived.

    >>> _is_torn(b"", b"text"), _is_torn(bytes(4096), b"x" * 5000), _is_torn(b"edited", b"text")
    (True, True, False)
    """
    data = present or b""
    if not data.strip(b"\0"):
        return True
    if data == whole or (len(data) % PAGE and len(data) != len(whole)):
        return False
    return all(byte in (0, meant) for byte, meant in zip_longest(data, whole, fillvalue=0))
