"""A transaction under a folder's lock: check versions, stage, write the journal, replace files; crash recovery."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress

from memsheaf.errors import Changed, MemsheafError, PathRefused, Ref, StoreFailed
from memsheaf.guard.paths import CATALOG
from memsheaf.store import ABSENT, Change, Commit, Revision, Version, catalogs, lost, version_of
from memsheaf.store.atomic_replace import READ_LIMIT, Placing
from memsheaf.store.commit_queries import steps_before_renaming
from memsheaf.store.journal import Head, Journal
from memsheaf.store.journal_lines import encode, needle_of
from memsheaf.store.safe_dir import FLUSH, Folder, draft_name, flush, read_file, stamp_at, walk

PAGE = 4096
_SAVED_MEANWHILE = "saved while memsheaf was writing"
_STAYS = "edited while {} was being written: the edit stays"
MANY = 8  # from here on, one flush of the file system is cheaper than one for each file


class Transaction:
    """An open root, its `.history` and its journal, with the lock held by the caller."""

    announce: Callable[[Transaction, Commit], None] | None = None
    """Called with each commit right before its line is written, by those who share a scope with other machines."""

    def __init__(
        self, root: Folder, history: Folder, journal: Journal, boot: str, placing: Placing, scope: str = ""
    ) -> None:
        self.root = root
        self.history = history
        self.journal = journal
        self.boot = boot
        self.placing = placing
        self.scope = scope

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
        drafts = [_draft(commit, number) for number in range(len(commit.revisions))]
        try:
            for revision, draft in zip(commit.revisions, drafts, strict=True):
                self.placing.stage(revision, draft)
            if agree:
                agree(self, commit)
            self.note(commit)
        except (OSError, MemsheafError):
            self._discard(drafts)
            raise
        placed = time.time()
        theirs: dict[str, list[Revision]] = {}
        try:
            for revision, draft in zip(commit.revisions, drafts, strict=True):
                try:
                    if met := self.placing.place(revision, draft):
                        theirs[revision.path] = met
                except PathRefused:  # a link was put in the way: that path is left alone
                    theirs[revision.path] = []
        except OSError as error:
            self._take_back(commit, error)
        if theirs:
            self._discard(drafts)
            self._answer(commit, theirs, _STAYS.format(commit.id))
            raise Changed(Ref(self.scope, next(iter(theirs))))
        self._take_off_lost(commit.revisions)
        self.finish(commit)
        return commit._replace(placed=placed)

    def make_room(self) -> None:
        """Begin another segment of the journal when this one is large."""
        if self.journal.full():
            self.settle()
            self.journal.seal()

    def note(self, commit: Commit) -> None:
        """Put a commit in the journal: from here on it will be carried out, whatever happens."""
        if self.announce:
            self.announce(self, commit)
        self.journal.append(encode(commit, self.boot, self.journal.ends_with), durable=True)

    def finish(self, *commits: Commit) -> None:
        """Mark commits as in place, at once. If that fails they are all the same: the next writer will see."""
        marks = "".join(f'{{"done": "{commit.id}", "boot": "{self.boot}"}}\n' for commit in commits)
        with suppress(OSError):
            self.journal.append(marks.encode(), durable=False)

    def note_outside(self, revisions: tuple[Revision, ...], at: str, why: str = "") -> Commit:
        """Journal what others did; it is in place already."""
        if any(step.after == ABSENT for step in revisions):
            self.list_lost()
        commit = Commit(os.urandom(6).hex(), at, "outside", why, revisions)
        self.note(commit)
        self._take_off_lost(step for step in revisions if step.after != ABSENT)
        self.finish(commit)
        return commit

    def settle(self) -> None:
        """Flush every file that the journal does not call safe yet, then call it so."""
        paths, last = self.journal.unsettled()
        if len(paths) <= MANY or not self.root.sync_everything():
            for path in paths:
                self._flush(path)
        if last:
            self.journal.append(f'{{"safe": "{last}"}}\n'.encode(), durable=False)

    def outside(self, paths: Collection[str] | None) -> Iterator[Revision]:
        """The steps that others made: from where the journal left each path to what is there now.

        With None, those that removed what the journal knows. The journal is asked, not the caller: whoever lost track
        can do no harm.
        """
        heads = self.journal.heads(paths)
        for path in sorted(heads if paths is None else paths):
            if paths is None and stamp_at(self.root, path):
                continue
            if step := self._step(path, heads.get(path)):
                yield step

    def list_lost(self, *, only_marked: bool = False) -> None:
        """List the files that went with the folder, if not one of those that the journal knows is left."""
        is_marked = stamp_at(self.history, lost.MARK) is not None
        if only_marked and not is_marked:
            return
        journals = os.path.dirname(self.history.path)
        files = lost.find(self.journal, is_emptied=is_marked or lost.is_outer_emptied(self.root.path, journals))
        has_inner = is_marked and os.listdir(journals) != [os.path.basename(self.history.path)]
        if (files or has_inner) and not any(stamp_at(self.root, path) for path in files):
            lost.add(self.history, files)
        if is_marked:
            self.history.unlink(lost.MARK)

    def _take_off_lost(self, revisions: Iterable[Revision]) -> None:
        with suppress(OSError):  # they are listed, and not missing
            lost.take_away(self.history, {step.path for step in revisions})

    def _step(self, path: str, head: Head | None) -> Revision | None:
        try:
            new = self.present(path)
        except MemsheafError:
            return None  # a link, unreadable, or too large to be kept: listed with its problem
        after = version_of(new)
        if after == (head.version if head else ABSENT):
            return None
        # what is derived tells what has not changed; a step begins where the journal itself ends
        last = self.journal.last_step(path, head) if head else None
        before = last.after if last else ABSENT
        return None if before == after else Revision(path, before, after, last.new if last else None, new)

    def forget(self, path: str) -> tuple[set[str], dict[Version, bytes]]:
        """Remove a file and its lines from the journal; give the names it had, and what was removed by version."""
        texts: dict[Version, bytes] = {}
        present = self.present(path)
        if present is not None:
            texts[version_of(present)] = present
        renamed = set(steps_before_renaming(self.journal, path))  # another text may have an older name by now
        names = self._former_names(path) | {name for _, name in renamed if self.present(name) is None}

        def without(commit: Commit) -> Commit | None:
            gone = [one for one in commit.revisions if one.path in names or (commit.id, one.path) in renamed]
            if not gone:
                return commit
            for revision in gone:
                texts.setdefault(revision.before, revision.old or b"")
                texts.setdefault(revision.after, revision.new or b"")
            kept = tuple(one for one in commit.revisions if one not in gone)
            return commit._replace(revisions=kept) if kept else None

        self.journal.rewrite(without, [needle_of(name) for name in names | {name for _, name in renamed}])
        self.journal.drop_heads(names)
        if present is not None:
            with walk(self.root, path) as (folder, name):
                folder.unlink(name)
                folder.sync()
        texts.pop(ABSENT, None)
        return names, texts

    def _former_names(self, path: str) -> set[str]:
        """The names a text has had: its own, and removed ones that ended with the text another began with."""
        names, waiting = {path}, [path]
        for commit in self.journal.commits(needle_of(path)):
            touched = {step.path for step in commit.revisions}
            if CATALOG in touched and path in touched and self.present(CATALOG) is None:
                names.add(CATALOG)  # the hand-written catalog that `path` is a copy of
        while waiting:
            made = [step.after for step in self._steps(waiting.pop()) if step.before == ABSENT]
            if not made:
                continue
            begun = made[-1]
            ended = f'"before": "{begun}", "after": ""'.encode()
            removed = {
                step.path
                for commit in self.journal.commits(ended)
                for step in commit.revisions
                if (step.before, step.after) == (begun, ABSENT)
            }
            more = [
                name
                for name in removed - names
                if next((step.before for step in self._steps(name) if step.after == ABSENT), "") == begun
                and self.present(name) is None
            ]
            names.update(more)
            waiting += more
        return names

    def _steps(self, path: str) -> Iterator[Revision]:
        return (step for commit in self.journal.history(path) for step in commit.revisions)

    def recover(self) -> None:
        """Complete the commit that a dead process decided, and after a reboot verify those before it."""
        tail = self.journal.tail()
        if tail.state == "torn":
            self.journal.cut_torn_line()
            tail = self.journal.tail()
        if tail.is_settled(self.boot):
            return
        found = self.journal.unsafe()
        rebooted = not found.boot or found.boot != self.boot
        steps = [step for commit in found.unfinished for step in self._rescued(commit)]
        steps += self._redo(found.commits if rebooted else found.unfinished, rebooted=rebooted)
        if tail.state == "open":
            self.finish(*found.unfinished or [Commit("", "", "", "", ())])
        for step in steps:
            self.note_outside((step,), found.commits[-1].at if found.commits else "", _SAVED_MEANWHILE)
        if rebooted:
            self.settle()

    def _rescued(self, commit: Commit) -> list[Revision]:
        """Put back what a person had saved and a commit displaced, when its process died before it could look."""
        found = []
        for number, step in enumerate(commit.revisions):
            with suppress(FileNotFoundError, PathRefused):
                data = read_file(self.history, _draft(commit, number), READ_LIMIT)
                half = _is_torn(data, step.new or b"") or _is_torn(data, step.old or b"")
                if not half and version_of(data) not in (step.before, step.after):
                    theirs = Revision(step.path, step.after, version_of(data), step.new, data)
                    found += [theirs, *self._apply(theirs)]
        return found

    def set_aside(self, name: str, shown: bytes, at: str) -> tuple[Commit | None, str | None]:
        """Remove a text that is not ours, and keep what it says beyond `shown` in a file beside it, as one commit.

        Gives that commit, and the path that it is kept at: "" when nothing had to be kept, None when the text stays.
        One that the journal knows was brought back by somebody, and stays.
        """
        found = self.present(name)
        if head := self.journal.heads({name}).get(name):
            last = self.journal.last_step(name, head)
            if head.version != version_of(found):
                step = Revision(name, head.version, version_of(found), last.new if last else None, found)
                self.note_outside((step,), at)
            return None, None if found is not None else ""
        if found is None:
            return None, ""
        kept = catalogs.keep_lines(found, shown, self.present)
        steps = [Revision(name, version_of(found), ABSENT, found), *([kept] if kept else [])]
        why = f"{name} is generated" + (f": what stood there is in {kept.path}" if kept else "")
        commit = Commit(os.urandom(6).hex(), at, "outside", why, tuple(steps), "", self.journal.last)
        return self.carry_out(commit), kept.path if kept else ""

    def sweep(self, now: float) -> None:
        """Remove drafts that no commit owns: their writer died before it decided."""
        for name in self.history.names():
            if name.startswith(("draft-", "derived-")):
                with suppress(OSError):
                    if name.startswith("draft-") or self.history.stat(name).st_mtime < now - 3600:
                        self.history.unlink(name)

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

    def present(self, path: str) -> bytes | None:
        """The text at `path` now, None when there is none. Raises as `Placing.present`."""
        return self.placing.present(path)

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
        if revision.before == revision.after or (revision.new is None and revision.after != ABSENT):
            return []  # there already; or past retention, when what is there is all there is
        with suppress(MemsheafError):
            if version_of(self.present(revision.path)) == revision.after:
                return []
        draft = draft_name()
        self.placing.stage(revision, draft)
        try:
            return self.placing.place(revision, draft)
        except PathRefused:
            return []  # a link: not ours to replace
        finally:
            self._discard([draft])

    def _discard(self, drafts: list[str]) -> None:
        for draft in drafts:
            self.placing.discard(draft)

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
        self.note(answer)  # from here on the answer is what the next writer would complete
        for revision in back:
            if revision.path not in theirs:
                more += self._apply(revision)
        self.finish(commit, answer)
        for step in more:
            self.note_outside((step,), commit.at, _SAVED_MEANWHILE)

    def _take_back(self, commit: Commit, error: OSError) -> None:
        """The disk failed half-way: undo what was done, or say that the next writer will complete it."""
        try:
            theirs: dict[str, list[Revision]] = {}
            for step in self._rescued(commit):
                theirs.setdefault(step.path, []).append(step)
            self._answer(commit, theirs, f"taken back: {error.strerror}")
        except OSError:
            message = f"{error.strerror}, after the change was decided; the next writer completes it"
            raise StoreFailed(message) from error
        self._discard([_draft(commit, number) for number in range(len(commit.revisions))])
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


def _draft(commit: Commit, number: int) -> str:
    """The draft of a commit's text; by its name a crashed commit finds it again."""
    return f"draft-{commit.id}-{number}"


def _is_torn(present: bytes | None, whole: bytes) -> bool:
    """Whether a file looks as a power cut leaves one: missing, empty, or with pages that never arrived.

    >>> _is_torn(b"", b"text"), _is_torn(bytes(4096), b"x" * 5000), _is_torn(b"edited", b"text")
    (True, True, False)
    """
    if not (present or b"").strip(b"\0"):
        return True
    data = present or b""
    if data == whole or (len(data) % PAGE and len(data) != len(whole)):
        return False
    starts = range(0, len(data), PAGE)
    pages = ((data[at : at + PAGE], whole[at : at + PAGE]) for at in starts)
    return all(page == meant[: len(page)] or not page.strip(b"\0") for page, meant in pages)
