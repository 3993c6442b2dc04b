"""Atomic replacement of one file, detecting a concurrent edit.

Between the check of a version and the rename there is time for a person to save. So the draft and the file
change places in one step, and what came out is looked at: if it is not the text that was checked, it is put
back, and the caller is told. Where a system cannot exchange two files, the old one is held open instead.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

from memsheaf.errors import PathRefused, StoreFailed, TextRefused
from memsheaf.guard.paths import CATALOG
from memsheaf.memory import MAX_MEMORY_BYTES
from memsheaf.store import ABSENT, Revision, catalogs, version_of
from memsheaf.store.history import History
from memsheaf.store.safe_dir import READ, Folder, read_all, read_file, stage, walk

READ_LIMIT = 4 * MAX_MEMORY_BYTES  # a larger file is listed, and neither loaded nor changed
ATTEMPTS = 3
JUST_NOW = 2.0  # seconds; a file that has been empty for longer is simply empty
PATIENT_SWAPS = 100  # nobody saves faster than this for longer


class Placing:
    """An open root and its `.history`, where drafts wait; the past knows the catalogs that are ours."""

    def __init__(self, root: Folder, history: Folder, patience: float, past: History | None = None) -> None:
        self.root = root
        self.history = history
        self._past = past
        self.patience = patience

    def present(self, path: str) -> bytes | None:
        """Return the text at `path` now, None if there is none; a catalog that we published counts as none.

        Raises:
            PathRefused: a step of it is a link, or it is not a plain file.
            StoreFailed: it may not be read.
            TextRefused: it is too large for the history, so it may not be changed.
        """
        try:
            with walk(self.root, path) as (folder, name):
                data = read_patiently(folder, name, path, self.patience)
        except FileNotFoundError:
            return None
        if len(data) > READ_LIMIT:
            raise TextRefused(f"{path!r} is larger than {READ_LIMIT >> 10} KiB; it can only be changed by hand")
        return None if path == CATALOG and catalogs.is_ours(self._past, data) else data

    def stage(self, revision: Revision, draft: str) -> None:
        """Write what a revision brings as a draft, with the mode of the file it will replace.

        The draft is there until the file is in place; that of a file that goes is empty.
        """
        mode = 0o600 if revision.new is None else self._mode(revision)
        stage(self.history, draft, revision.new or b"", mode=mode)

    def place(self, revision: Revision, draft: str) -> list[Revision]:
        """Put a draft in place, provided the file still is at `before`.

        Otherwise give the steps from our text to those that others saved meanwhile: the last of them is in
        place, and ours is not.
        """
        with walk(self.root, revision.path, create=revision.new is not None) as (folder, name):
            try:
                if revision.new is None:
                    folder.rename(name, self.history, draft)
                elif revision.before == ABSENT:
                    if revision.path == CATALOG and self.present(CATALOG) is None:
                        with suppress(FileNotFoundError):
                            folder.unlink(name)  # ours, which makes room for theirs
                    self.history.rename_new(draft, folder, name)
                    return []
                elif not self.history.swap(draft, folder, name):
                    return self._replace(revision, draft, folder, name)
            except FileNotFoundError:  # somebody removed it in this moment
                if revision.new is None:
                    self.discard(draft)
                    return []
                return [Revision(revision.path, revision.after, ABSENT, revision.new)]
            except FileExistsError:  # somebody made it in this moment
                return _met(revision, read_patiently(folder, name, revision.path, self.patience))
            return self._look_at_displaced(revision, draft, folder, name)

    def discard(self, draft: str) -> None:
        """Remove a draft, if it is there."""
        with suppress(OSError):
            self.history.unlink(draft)

    def _look_at_displaced(self, revision: Revision, draft: str, folder: Folder, name: str) -> list[Revision]:
        try:
            met = _met(revision, read_patiently(self.history, draft, revision.path, self.patience))
        except (PathRefused, StoreFailed, OSError):
            # a link, a folder, or a disk that fails: what cannot be judged goes back where it was
            if revision.new is None or not self.history.swap(draft, folder, name):
                self.history.rename(draft, folder, name)
            raise
        if not met:
            self.history.unlink(draft)
        elif revision.new is None:
            with suppress(FileExistsError):  # saved once more: the newest stays
                self.history.rename_new(draft, folder, name)
        else:
            met += self._put_back(met[0], draft, folder, name)
        return met

    def _put_back(self, met: Revision, draft: str, folder: Folder, name: str) -> list[Revision]:
        """Exchange again until what comes out is what we had put in: any other text is a newer save, and stays."""
        more: list[Revision] = []
        ours = met.before
        for _ in range(PATIENT_SWAPS):
            self.history.swap(draft, folder, name)
            out = read_patiently(self.history, draft, met.path, self.patience)
            if version_of(out) == ours:
                break
            last = more[-1] if more else met
            more.append(Revision(met.path, last.after, version_of(out), last.new, out))
            ours = last.after
        return more

    def _replace(self, revision: Revision, draft: str, folder: Folder, name: str) -> list[Revision]:
        """Replace a file where two cannot be exchanged: look just before, and again at what was held open."""
        met = _met(revision, read_patiently(folder, name, revision.path, self.patience))
        if met:
            return met
        if os.name == "nt":  # there an open file cannot be replaced
            self.history.rename(draft, folder, name)
            return []
        held = folder.open_file(name, READ)
        try:
            self.history.rename(draft, folder, name)
            data = read_all(held, READ_LIMIT)
            for _ in range(ATTEMPTS):
                if data or revision.old == b"":
                    break
                time.sleep(self.patience)
                data = read_all(held, READ_LIMIT)
        finally:
            os.close(held)
        met = _met(revision, data)
        if met:
            stage(self.history, draft, data)
            self.history.rename(draft, folder, name)
        return met

    def _mode(self, revision: Revision) -> int:
        """Return the mode of the file there, for the text that takes its place."""
        if revision.before == ABSENT:
            return 0o600
        try:
            with walk(self.root, revision.path) as (folder, name):
                return stat.S_IMODE(folder.stat(name).st_mode) & 0o777
        except (FileNotFoundError, PathRefused):
            return 0o600


def read_patiently(folder: Folder, name: str, path: str, patience: float) -> bytes:
    """Read a file; when it is empty, again: an editor truncates before it writes, and empty never means gone."""
    try:
        data = read_file(folder, name, READ_LIMIT + 1)
        for _ in range(ATTEMPTS):
            if data or time.time() - folder.stat(name).st_mtime > JUST_NOW:
                break
            time.sleep(patience)
            data = read_file(folder, name, READ_LIMIT + 1)
    except PermissionError:
        raise StoreFailed(f"{path!r} may not be read by this user") from None
    return data


def _met(revision: Revision, found: bytes) -> list[Revision]:
    """Return the step from our text to another's, if the text we met is not the one we had checked."""
    if version_of(found) == revision.before:
        return []
    return [Revision(revision.path, revision.after, version_of(found), revision.new, found)]
