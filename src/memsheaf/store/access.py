"""Open a folder store: its root, the folder of its journal, the lock, and a transaction under it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from memsheaf.errors import PathRefused, StoreFailed, hinted
from memsheaf.guard.paths import CATALOG, RESERVED_FOLDERS, check_path, check_stored, fold, listable, shown
from memsheaf.store import HISTORY, HUB, Change, Commit, ScanEntry, Stamp, lost
from memsheaf.store.git_checkout import ITSELF_TOO, journals_of, keep_out_of_git
from memsheaf.store.journal import Journal
from memsheaf.store.safe_dir import Folder, append, kernel_lock, stamp_at, stamp_of, walk

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
        self.segment = 0
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
    def reading(self) -> Iterator[Journal | None]:
        """The journal without the lock, None when there is none. Raises StoreFailed."""
        try:
            history = self.open_history()
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise StoreFailed(f"the journal of {self.root!r} cannot be read: {error.strerror}") from error
        with history:
            try:
                journal = Journal(history)
                try:
                    yield journal
                finally:
                    journal.close()
            except OSError as error:
                raise StoreFailed(f"the journal of {self.root!r} cannot be read: {error.strerror}") from error

    @contextmanager
    def transaction(self, wait: float | None = None) -> Iterator[Transaction]:
        """Make changes with the lock held, the journal sound, and what a crash left completed."""
        from memsheaf.store.atomic_replace import Placing
        from memsheaf.store.transaction import Transaction

        try:
            with (
                self.open_root(create=True) as root,
                self.make_history(root) as history,
                kernel_lock(history, "lock", wait=self.wait if wait is None else wait),
            ):
                self._refuse_hub(history)
                journal = Journal(history, self.segment)
                opened = Transaction(
                    root, history, journal, self.boot, Placing(root, history, self.patience), self.scope
                )
                opened.announce = self.announce
                try:
                    journal.open()
                    opened.list_lost(only_marked=True)
                    opened.recover()
                    opened.make_room()
                    if not self._swept:
                        opened.sweep(self._clock())
                        self._swept = True
                    yield opened
                finally:
                    self.segment = journal.segment
                    journal.close()
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
