"""One holder of a folder's lock, at work: check, stage, decide, place, and mend what a crash left."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from memsheaf.errors import Changed, MemsheafError, PathRefused, StoreFailed, TextRefused
from memsheaf.memory import LIMIT
from memsheaf.store import ABSENT, Change, Commit, Revision, Version, version_of
from memsheaf.store.confined import FLUSH, READ, Folder, flush, read_all, read_file, stage, walk
from memsheaf.store.journal import Journal, draft_name, encode

READ_LIMIT = 4 * LIMIT  # a larger file is listed, and neither loaded nor changed
MANY = 8  # from here on, one flush of the file system is cheaper than one for each file


@dataclass(frozen=True, slots=True)
class Desk:
    """An open root, its `.history` and its journal, with the lock held by whoever made this."""

    root: Folder
    history: Folder
    journal: Journal
    boot: str
    patience: float

    def revision(self, change: Change) -> Revision:
        """What a change would do. Raises Changed when it was made for another version."""
        old = self.present(change.path)
        before = version_of(old)
        if before != change.expect:
            raise Changed(change.path)
        return Revision(change.path, before, version_of(change.data), old, change.data)

    def carry_out(self, commit: Commit) -> None:
        """Stage, decide, place. Raises Changed when a person saved the same file in that very moment."""
        drafts = self._stage(commit)
        try:
            if self.journal.full():
                self.settle()
                self.journal.seal()
            self.note(commit)
        except OSError:
            self._discard(drafts)
            raise
        theirs: dict[str, Revision | None] = {}
        try:
            for revision, draft in zip(commit.revisions, drafts, strict=True):
                try:
                    if met := self._place(revision, draft):
                        theirs[revision.path] = met
                except PathRefused:  # a link was put in the way: that path is left alone
                    theirs[revision.path] = None
        except OSError as error:
            self._take_back(commit, error)
        if theirs:
            self._discard(drafts)
            self._answer(commit, theirs, f"edited while {commit.id} was being written: the edit stays")
            raise Changed(next(iter(theirs)))
        self.finish(commit)

    def note(self, commit: Commit) -> None:
        """Put a commit in the journal: from here on it will be carried out, whatever happens."""
        self.journal.append(encode(commit, self.boot), durable=True)

    def finish(self, commit: Commit) -> None:
        """Mark a commit as in place. If that fails it is in place all the same: the next writer will see."""
        with suppress(OSError):
            self.journal.append(f'{{"done": "{commit.id}", "boot": "{self.boot}"}}\n'.encode(), durable=False)

    def settle(self) -> None:
        """Flush every file that the journal does not call safe yet, then call it so."""
        commits, _ = self.journal.unsafe()
        paths = {revision.path for commit in commits for revision in commit.revisions}
        if len(paths) <= MANY or not self.root.sync_everything():
            for path in paths:
                self._flush(path)
        if commits:
            self.journal.append(f'{{"safe": "{commits[-1].id}"}}\n'.encode(), durable=False)

    def outside(self, paths: Collection[str] | None) -> list[Revision]:
        """The steps that others made: from where the journal left each path to what is there now.

        The journal is asked, not the caller: whoever lost track can do no harm.
        """
        heads = self.journal.heads(paths)
        steps = (self._step(path, heads.get(path)) for path in sorted(heads if paths is None else paths))
        return [step for step in steps if step]

    def _step(self, path: str, head: Revision | None) -> Revision | None:
        try:
            new = self.present(path)
        except MemsheafError:
            return None  # a link, unreadable, or too large to be kept: listed with its problem
        before, after = head.after if head else ABSENT, version_of(new)
        return None if before == after else Revision(path, before, after, head.new if head else None, new)

    def forget(self, path: str) -> dict[Version, bytes]:
        """Remove a file and its lines from the journal; give back what was removed, by version."""
        texts: dict[Version, bytes] = {}
        present = self.present(path)
        if present is not None:
            texts[version_of(present)] = present
            with walk(self.root, path) as (folder, name):
                folder.unlink(name)
                folder.sync()

        names = self._former_names(path, set(texts))

        def without(commit: Commit) -> Commit | None:
            kept = tuple(revision for revision in commit.revisions if revision.path not in names)
            if len(kept) == len(commit.revisions):
                return commit
            for revision in commit.revisions:
                if revision.path in names:
                    texts.setdefault(revision.before, revision.old or b"")
                    texts.setdefault(revision.after, revision.new or b"")
            return replace(commit, revisions=kept) if kept else None

        self.journal.rewrite(without)
        texts.pop(ABSENT, None)
        return texts

    def _former_names(self, path: str, versions: set[Version]) -> set[str]:
        """The names a text has had: itself, and removed ones that shared a version with it, however remotely."""
        known: dict[str, set[Version]] = {}
        for commit in self.journal.commits():
            for revision in commit.revisions:
                known.setdefault(revision.path, set()).update({revision.before, revision.after} - {ABSENT})
        heads = self.journal.heads()
        removed = {name for name in known if heads[name].after == ABSENT}
        names, versions = {path}, versions | known.get(path, set())
        while more := {name for name in removed - names if known[name] & versions}:
            names |= more
            versions |= {version for name in more for version in known[name]}
        return names

    def prune(self, cutoff: str) -> int:
        """Drop texts that were retired before `cutoff`, and say how many revisions lost one."""
        heads = self.journal.heads()
        dropped = 0

        def trimmed(commit: Commit) -> Commit:
            nonlocal dropped
            if commit.at >= cutoff:
                return commit
            kept = tuple(_without_retired(revision, heads) for revision in commit.revisions)
            dropped += sum(a != b for a, b in zip(kept, commit.revisions, strict=True))
            return commit if kept == commit.revisions else replace(commit, revisions=kept)

        self.journal.rewrite(trimmed)
        return dropped

    def older_than_a_day(self, name: str, now: float) -> bool:
        """Whether a file of the history is missing or was written more than a day ago."""
        try:
            return self.history.stat(name).st_mtime < now - 86400
        except FileNotFoundError:
            return True

    def recover(self) -> None:
        """Complete the commit that a dead process decided, and after a reboot verify those before it."""
        tail = self.journal.tail()
        if tail.state == "torn":
            self.journal.mend()
            tail = self.journal.tail()
        if tail.state == "clean" and (tail.safe or tail.boot == self.boot):
            return
        commits, boot = self.journal.unsafe()
        rebooted = not boot or boot != self.boot
        self._redo(commits if rebooted else commits[-1:], rebooted=rebooted)
        if tail.state == "open":
            self.finish(commits[-1] if commits else Commit("", "", "", "", ()))
        if rebooted:
            self.settle()

    def sweep(self, now: float) -> None:
        """Remove drafts that no commit owns: their writer died before it decided."""
        for entry in list(self.history.scan()):
            with suppress(OSError):
                old = entry.name.startswith("derived-") and entry.stat().st_mtime < now - 3600
                if old or entry.name.startswith("draft-"):
                    self.history.unlink(entry.name)

    def present(self, path: str) -> bytes | None:
        """The text at `path` now, None when there is none.

        Raises:
            PathRefused: a step of it is a link, or it is not a plain file.
            StoreFailed: it may not be read.
            TextRefused: it is too large for the journal, so it may not be changed.
        """
        try:
            if "/" not in path:
                data = read_patiently(self.root, path, path, self.patience)
            else:
                with walk(self.root, path) as (folder, name):
                    data = read_patiently(folder, name, path, self.patience)
        except FileNotFoundError:
            return None
        if len(data) > READ_LIMIT:
            raise TextRefused(f"{path!r} is larger than {READ_LIMIT >> 10} KiB; it can only be changed by hand")
        return data

    def _redo(self, commits: list[Commit], *, rebooted: bool) -> None:
        """Bring each path to its last version, unless it holds a text that is not ours to replace."""
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
            # a power cut leaves new files missing, empty or full of NUL bytes
            lost = rebooted and not (present or b"").strip(b"\0")
            if version_of(present) != revision.after and (lost or version_of(present) in ours[path]):
                self._restore(revision)

    def _restore(self, revision: Revision) -> None:
        if revision.new is None and revision.after != ABSENT:
            return  # past retention: what is there is all there is
        with suppress(MemsheafError):
            if version_of(self.present(revision.path)) == revision.after:
                return
        draft = draft_name()
        if revision.new is not None:
            stage(self.history, draft, revision.new, mode=self._mode(revision.path))
        with walk(self.root, revision.path, create=True) as (folder, name):
            if revision.new is not None:
                self.history.rename(draft, folder, name)
            else:
                with suppress(FileNotFoundError):
                    folder.unlink(name)

    def _stage(self, commit: Commit) -> list[str]:
        drafts: list[str] = []
        try:
            for revision in commit.revisions:
                drafts.append(draft_name() if revision.new is not None else "")
                if revision.new is not None:
                    mode = 0o600 if revision.before == ABSENT else self._mode(revision.path)
                    stage(self.history, drafts[-1], revision.new, mode=mode)
        except OSError:
            self._discard(drafts)
            raise
        return drafts

    def _discard(self, drafts: list[str]) -> None:
        for draft in filter(None, drafts):
            with suppress(OSError):
                self.history.unlink(draft)

    def _mode(self, path: str) -> int:
        """What the file there allows, for the text that takes its place."""
        try:
            with walk(self.root, path) as (folder, name):
                return stat.S_IMODE(folder.stat(name).st_mode) & 0o777
        except (FileNotFoundError, PathRefused):
            return 0o600

    def _place(self, revision: Revision, draft: str) -> Revision | None:
        """Put a draft in place. If another text was there by then, say which, and see that nothing of it is lost."""
        with walk(self.root, revision.path, create=True) as (folder, name):
            try:
                if revision.new is None:
                    draft = draft_name()
                    folder.rename(name, self.history, draft)
                elif revision.before == ABSENT:
                    self.history.rename_new(draft, folder, name)
                    return None
                elif not self.history.swap(draft, folder, name):
                    return self._replace(revision, draft, folder, name)
            except FileNotFoundError:
                # somebody removed it in this moment
                return None if revision.new is None else Revision(revision.path, revision.after, ABSENT, revision.new)
            except FileExistsError:
                return self._met(revision, read_patiently(folder, name, revision.path, self.patience))
            try:
                met = self._met(revision, read_patiently(self.history, draft, revision.path, self.patience))
            except PathRefused:
                self.history.rename(draft, folder, name)
                raise
            if met is None:
                self.history.unlink(draft)
            elif revision.new is not None:
                self.history.swap(draft, folder, name)
            else:
                with suppress(FileExistsError):
                    self.history.rename_new(draft, folder, name)
        return met

    def _replace(self, revision: Revision, draft: str, folder: Folder, name: str) -> Revision | None:
        """Replace a file where two cannot be exchanged: hold the old one open, and look at it afterwards."""
        if os.name == "nt":  # an open file cannot be replaced there: the last look is the one before
            met = self._met(revision, read_patiently(folder, name, revision.path, self.patience))
            if met is None:
                self.history.rename(draft, folder, name)
            return met
        held = folder.open_file(name, READ)
        try:
            self.history.rename(draft, folder, name)
            data = read_all(held, READ_LIMIT)
            for _ in range(3):
                if data or revision.old == b"":
                    break
                time.sleep(self.patience)
                data = read_all(held, READ_LIMIT)
        finally:
            os.close(held)
        return self._met(revision, data)

    def _met(self, revision: Revision, found: bytes) -> Revision | None:
        """The step from our text to another's, if the text we met was not the one we had checked."""
        if version_of(found) == revision.before:
            return None
        return Revision(revision.path, revision.after, version_of(found), revision.new, found)

    def _answer(self, commit: Commit, theirs: Mapping[str, Revision | None], why: str) -> None:
        """Take a commit back, as a commit: put back what others had saved, and what was there before ours."""
        mine = {r.path: Revision(r.path, r.after, r.before, r.new, r.old) for r in commit.revisions}
        back = tuple(revision for revision in {**mine, **theirs}.values() if revision)
        answer = Commit(os.urandom(6).hex(), commit.at, "outside", why, back, undoes=commit.id)
        self.note(answer)  # from here on the answer is what the next writer would complete
        self.finish(commit)
        for revision in back:
            self._restore(revision)
        self.finish(answer)

    def _take_back(self, commit: Commit, error: OSError) -> None:
        """The disk failed half-way: undo what was done, or say that the next writer will complete it."""
        try:
            self._answer(commit, {}, f"taken back: {error.strerror}")
        except OSError:
            raise StoreFailed(
                f"{error.strerror}, after the change was decided; the next writer completes it"
            ) from error
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


def _without_retired(revision: Revision, heads: Mapping[str, Revision]) -> Revision:
    current = revision.path in heads and heads[revision.path].after == revision.after
    return replace(revision, old=None, new=revision.new if current else None)


def read_patiently(folder: Folder, name: str, path: str, patience: float) -> bytes:
    """Read a file; when it is empty, again: an editor truncates before it writes, and empty never means gone."""
    try:
        data = read_file(folder, name, READ_LIMIT + 1)
        for _ in range(3):
            if data:
                break
            time.sleep(patience)
            data = read_file(folder, name, READ_LIMIT + 1)
    except PermissionError:
        raise StoreFailed(f"{path!r} may not be read by this user") from None
    return data
