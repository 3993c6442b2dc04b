"""Open a folder store: its root, the folder of its journal, the lock, and a transaction under it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from memsheaf.errors import PathRefused, StoreFailed, hinted
from memsheaf.guard.paths import CATALOG, RESERVED_FOLDERS, check_path, check_stored, fold, listable, shown
from memsheaf.store import HISTORY, HUB, Change, Commit, ScanEntry, Stamp, lost
from memsheaf.store.git_checkout import ITSELF_TOO, journals_of, keep_out_of_git
from memsheaf.store.history import (
    DATABASE,
    DATABASE_FILES,
    Damaged,
    History,
    in_memory,
    open_history,
    read_only_copy,
)
from memsheaf.store.old_journal import OldFiles
from memsheaf.store.safe_dir import Folder, append, kernel_lock, stamp_at, stamp_of, walk
from memsheaf.store.sqlite_file import DAMAGED_MARK, SIDE_FILES

if TYPE_CHECKING:
    from memsheaf.store.transaction import Transaction

DEPTH = 4


def boot_id() -> str:
    """Tell this boot from the last, or "" where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read(13)
    except OSError:
        return ""


class StoreAccess:
    """How one root is opened: where its journal is, how long to wait for the lock, and which boot this is."""

    def __init__(
        self,
        root: str,
        *,
        clock: Callable[[], float],
        wait: float = 30.0,
        patience: float = 0.05,
        boot: str | None = None,
        portable: bool | None = None,
        checkout: str = "",
        private: str = "",
        scope: str = "",
    ) -> None:
        self.scope = scope
        self.root = os.path.abspath(root)
        self.wait = wait
        self.patience = patience
        self.boot = boot_id() if boot is None else boot
        self.checkout = checkout
        self.journals = journals_of(self.root, checkout)
        self._past: History | None = None
        self._copied: tuple[object, History] | None = None
        self._complete: History | None = None  # has what is in the files of earlier versions
        self._old_stamps: dict[str, Stamp | None] = {}  # of those to which an earlier version would write next
        self._clock = clock
        self._options = {} if portable is None else {"portable": portable}
        self._private = private
        self._swept = False
        self.announce: Callable[[Transaction, Commit], None] | None = None

    def open_root(self, *, create: bool = False) -> Folder:
        """Open the directory of the texts. Raises OSError."""
        return Folder.open(self.root, create=create, **self._options)

    def make_history(self, root: Folder) -> Folder:
        """The journal's folder, made when it is not there; what is private here is kept out of git."""
        history = self.open_history(create=True)
        if self.journals == self.root:
            keep_out_of_git(history)
        if self.checkout and stamp_at(root, ".gitignore") is None:
            append(history, lost.MARK, b"")
        if self._private:
            with suppress(FileNotFoundError), Folder.open(self._private, **self._options) as private:
                keep_out_of_git(private)
        if self.checkout:
            keep_out_of_git(root, ITSELF_TOO)
        return history

    def open_history(self, *, create: bool = False) -> Folder:
        """Open the journal's folder, which in a checkout is where no commit reaches, and outlives the root.

        Raises OSError, PathRefused.
        """
        with Folder.open(self.journals, create=create, **self._options) as journals:
            return journals.folder(HISTORY, create=create)

    @property
    def left_journal(self) -> bool:
        """Whether a journal lies among the texts of a checkout, and none where it is kept."""
        old, new = (os.path.join(place, HISTORY) for place in (self.root, self.journals))
        return old != new and os.path.isdir(old) and not os.path.islink(old) and not os.path.lexists(new)

    def bring_journal(self) -> None:
        """Move the journal that lies among the texts of a checkout to where no commit reaches. Raises StoreFailed.

        It is one rename, with the lock held. Only a journal that was written on this machine may be brought.
        """
        self.close()
        try:
            with (
                suppress(FileNotFoundError),  # somebody was faster
                self.open_root() as root,
                root.folder(HISTORY) as history,
                Folder.open(self.journals, create=True, **self._options) as journals,
                kernel_lock(history, "lock", wait=self.wait),
            ):
                root.rename(HISTORY, journals, HISTORY)
                journals.sync()
                root.sync()
        except OSError as error:
            raise StoreFailed(failure(error, self.root)) from error

    @contextmanager
    def locked(self, name: str, wait: float | None = None) -> Iterator[Folder]:
        """Hold a lock of the journal's folder, which is given. Raises Busy, StoreFailed."""
        with ExitStack() as held:
            try:
                root = held.enter_context(self.open_root(create=True))
                history = held.enter_context(self.make_history(root))
                held.enter_context(kernel_lock(history, name, wait=self.wait if wait is None else wait))
            except OSError as error:
                raise StoreFailed(failure(error, self.root)) from error
            yield history

    @contextmanager
    def reading(self) -> Iterator[History | None]:
        """The history without the lock, None when there is none. Raises StoreFailed."""
        try:
            with self.open_history() as folder:
                yield self._past_to_read(folder)
        except FileNotFoundError:
            yield None
        except OSError as error:
            raise StoreFailed(f"the history of {self.root!r} cannot be read: {error.strerror}") from error

    def _past_to_read(self, folder: Folder) -> History | None:
        """The history, or a copy in memory of what cannot be opened without writing, or was not taken in yet."""
        old = OldFiles(folder)
        try:
            self._past = open_history(folder, self._past)
            if old.must_wait(self._past) or not old.find_new(self._past):
                return self._past
            copy = partial(read_only_copy, folder) if self._past else in_memory
        except (Damaged, PathRefused):
            self._past, copy = None, in_memory
        except OSError:
            self._past, copy = None, partial(read_only_copy, folder)
        stamps = [stamp_at(folder, name) for name in (*DATABASE_FILES, *old.sizes)]
        if self._copied is None or self._copied[0] != stamps:
            history = copy()
            old.take_in(history)
            self._copied = stamps, history
        return self._copied[1]

    def past_to_change(self, folder: Folder) -> History:
        """The history, made if there is none, with what an earlier version wrote. The caller holds the lock."""
        self._copied = None
        self._past = past = open_history(folder, self._past, create=True)
        assert past
        if self._complete is not past or any(stamp_at(folder, name) != was for name, was in self._old_stamps.items()):
            old = OldFiles(folder)
            old.take_in(past)
            self._complete = past
            self._old_stamps = {name: stamp_at(folder, name) for name in old.watched()}
        return past

    def close(self) -> None:
        """Close the history; it is opened again when it is needed."""
        if self._past:
            self._past.close()
        self._past = self._copied = None

    def find_damage(self) -> list[tuple[str, str]]:
        """What is wrong with the history, or was with an earlier one: a file, and the problem. Raises StoreFailed."""
        found: list[tuple[str, str]] = []
        with self.reading() as past:
            if past is None:
                return found
            if problem := past.find_damage():
                found.append((DATABASE, f"it is damaged: {problem}"))
            for name, skipped in past.rows("SELECT name, skipped FROM old_files WHERE skipped > 0"):
                found.append((name, f"{skipped} lines of it could not be read"))
            with self.open_history() as folder:
                for name in sorted(folder.names()):
                    if DAMAGED_MARK in name and not name.endswith(SIDE_FILES):
                        found.append((name, "the history was damaged, and begun again"))
        return found

    @contextmanager
    def noting(self, folder: Folder) -> Iterator[History]:
        """The history, to note something beside the commits; the lock is taken only to make it."""
        past = None
        with suppress(Damaged):  # to set it aside, the lock is needed
            past = open_history(folder, self._past)
        if past:
            self._past = past
            yield past
            return
        with kernel_lock(folder, "lock", wait=self.wait):
            yield self.past_to_change(folder)

    @contextmanager
    def transaction(self, wait: float | None = None) -> Iterator[Transaction]:
        """Make changes with the lock held, the history sound, and what a crash left completed."""
        from memsheaf.store.atomic_replace import Placing
        from memsheaf.store.transaction import Transaction

        try:
            with (
                self.open_root(create=True) as root,
                self.make_history(root) as folder,
                kernel_lock(folder, "lock", wait=self.wait if wait is None else wait),
            ):
                self._refuse_hub(folder)
                try:
                    past = self.past_to_change(folder)
                    past.is_in_use = True
                    opened = Transaction(
                        root, folder, past, self.boot, Placing(root, folder, self.patience, past), self.scope
                    )
                    opened.announce = self.announce
                    opened.list_lost(only_marked=True)
                    opened.recover()
                    if not self._swept:
                        opened.sweep(self._clock())
                        self._swept = True
                    yield opened
                finally:
                    if self._past:
                        self._past.is_in_use = False
                    if self._past and self._past.is_damaged:  # the next change finds a new history
                        self._past = open_history(folder, self._past, create=True)
        except OSError as error:
            raise StoreFailed(failure(error, self.root)) from error

    def _refuse_hub(self, history: Folder) -> None:
        """Raise StoreFailed when this folder got a hub since it was opened."""
        if self.announce is None and self.journals == self.root:
            with suppress(FileNotFoundError):
                history.stat(HUB)
                error = StoreFailed(f"{self.root!r} has got a hub since it was opened, so nothing was changed")
                raise hinted(error, "Start the program that uses it again.")

    def stamps(self, paths: Iterable[str]) -> dict[str, Stamp | None]:
        """The stamps of these files and folders now, None for what is not there. Raises StoreFailed."""
        try:
            root = self.open_root()
        except FileNotFoundError:
            return dict.fromkeys(paths)
        except OSError as error:
            raise StoreFailed(f"{self.root!r} cannot be looked into: {error.strerror}") from error
        with root:
            return {path: stamp_at(root, path) for path in paths}

    def spelling(self, path: str) -> str:
        """The path as the folder spells it: normalised, unless a file was made elsewhere with another form."""
        safe = check_stored(path)
        return path if safe != path and self.stamps([path])[path] else safe

    def admitted(self, changes: Sequence[Change], *, undoing: bool) -> list[Change]:
        """The changes with their paths as the folder spells them. Raises PathRefused."""
        seen: dict[str, str] = {}
        admitted = []
        for change in changes:
            path = change.path if undoing and change.path == CATALOG else self.spelling(change.path)
            if other := seen.get(fold(path)):
                raise PathRefused(path, f"it is the same file as {other!r} on some file systems")
            seen[fold(path)] = path
            admitted.append(change._replace(path=path) if path != change.path else change)
        return admitted

    def scan(self) -> Iterator[ScanEntry]:
        """Every Markdown file, in no order. Raises OSError for the root."""
        waiting = [""]
        with self.open_root() as root:
            while waiting:
                prefix = waiting.pop()
                try:
                    with walk(root, f"{prefix}any") as (folder, _):
                        for entry in folder.scan():
                            name = entry.name
                            if listable(name):
                                if prefix or name != CATALOG:
                                    yield _scanned(entry, prefix)
                            elif not _is_folder_of_ours(entry, prefix):
                                continue
                            elif problem := _name_problem(f"{prefix}{name}/any.md"):
                                yield ScanEntry(shown(prefix + name), (0, 0, 0, 0), problem)
                            else:
                                waiting.append(f"{prefix}{name}/")
                except (OSError, PathRefused):
                    if not prefix:
                        raise
                    yield ScanEntry(prefix.rstrip("/"), (0, 0, 0, 0), "cannot be looked into")


def _is_folder_of_ours(entry: os.DirEntry[str], prefix: str) -> bool:
    if entry.name.startswith(".") or entry.name.endswith(".md") or not entry.is_dir(follow_symlinks=False):
        return False
    return prefix.count("/") < DEPTH and (bool(prefix) or entry.name.casefold() not in RESERVED_FOLDERS)


def _scanned(entry: os.DirEntry[str], prefix: str) -> ScanEntry:
    path = prefix + entry.name
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError as error:
        return ScanEntry(shown(path), (0, 0, 0, 0), f"cannot be looked at: {error.strerror}")
    if not stat.S_ISREG(found.st_mode):
        problem = "is a link, which is not followed" if stat.S_ISLNK(found.st_mode) else "is not a plain file"
    else:
        problem = _name_problem(path)
    return ScanEntry(shown(path) if problem else path, stamp_of(found), problem)


@lru_cache(maxsize=1 << 14)
def _name_problem(path: str) -> str:
    try:
        check_path(path)
    except PathRefused as error:
        return f"has a name that is not allowed: {error.why}"
    return ""


def failure(error: OSError, root: str) -> str:
    """Why a store could not be changed."""
    reason = {errno.ENOSPC: "the disk is full", errno.EROFS: "the file system is read-only"}.get(error.errno or 0)
    return f"the store {root!r} could not be changed: {reason or error.strerror or error}"
