"""The folder store: read, scan, commit, undo, erase and prune, one file per text.

How a commit becomes durable, and why it needs one flush: under the lock, the versions are checked, the new
texts are staged as drafts, and one transaction of the history with all texts is written and flushed. That decides it.
The drafts are then renamed into place. Their own flush may come later (`settle`), because the history is enough
to put them back: after a crash the next writer completes the last commit, after a reboot it verifies every
commit that was not yet marked as flushed. Where the system cannot tell a reboot, every commit settles at once.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import cache, lru_cache, partial
from itertools import islice
from typing import TypeVar

from memsheaf.errors import (
    Busy,
    Changed,
    NotFound,
    NotInHistory,
    PathRefused,
    Ref,
    StoreFailed,
)
from memsheaf.guard.paths import CATALOG, RESERVED_FOLDERS, check_path, check_stored, fold, listable, shown
from memsheaf.memory import utc_time
from memsheaf.scope import check_label
from memsheaf.store import (
    ABSENT,
    HISTORY,
    HUB,
    Change,
    Commit,
    Document,
    Erased,
    ScanEntry,
    Stamp,
    Version,
    catalogs,
    lost,
    tombstones,
    usage,
)
from memsheaf.store.atomic_replace import READ_LIMIT, read_patiently
from memsheaf.store.git_checkout import ITSELF_TOO, journals_of, keep_out_of_git
from memsheaf.store.history import (
    DATABASE,
    DATABASE_FILES,
    ERASED,
    History,
)
from memsheaf.store.old_journal import OldFiles
from memsheaf.store.safe_dir import (
    HAS_DIR_FD,
    Folder,
    append,
    kernel_lock,
    read_file,
    stamp_at,
    stamp_of,
    walk,
)
from memsheaf.store.sqlite_file import Damaged, Outdated, find_set_aside
from memsheaf.store.transaction import Transaction

T = TypeVar("T")

SETTLE_AFTER = 64  # commits
MAX_DEPTH = 4  # of folders with memories
PRUNED = "pruned"  # when retention was last seen to
PRUNE_SECONDS = 0.1  # at the end of a process; the rest waits for the next one
ADOPTED_AT_ONCE = 1_000  # texts in one commit
USE_WAIT_SECONDS = 0.2  # for another process that writes, since an answer waits for it


class FolderStore:
    """One directory of texts. Any number of processes may use it at once.

    `checkout` is the working tree of git that the root is in, if any, and `private` a folder around it that git must
    not see.
    """

    def __init__(
        self,
        root: str,
        *,
        clock: Callable[[], float] = time.time,
        wait: float = 30.0,
        patience: float = 0.05,
        boot: str | None = None,
        portable: bool = not HAS_DIR_FD,
        retention_days: float = 30.0,
        checkout: str = "",
        private: str = "",
        scope: str = "",
        announce: Callable[[Transaction, Commit], None] | None = None,
    ) -> None:
        self.root = os.path.abspath(root)
        self.scope = scope
        self.boot = boot_id() if boot is None else boot
        self.checkout = checkout
        self.journals = journals_of(self.root, checkout)
        """The folder that the history's is in: the root, or what stands for it among git's own files."""
        self.wait = wait
        self.announce = announce
        self._patience = patience
        self._clock = clock
        self._portable = portable
        self._retention_days = retention_days
        self._private = private
        self._past: History | None = None
        self._copied: tuple[object, History] | None = None
        self._unsettled = 0
        self.problem = ""
        """Why only a part of the history could be read when it was last asked, "" if all could."""
        self._agree: Callable[[Transaction, Commit], None] | None = None

    # Opening

    def _open_root(self, *, create: bool = False) -> Folder:
        return Folder.open(self.root, create=create, portable=self._portable)

    def _make_history(self, root: Folder) -> Folder:
        """Return the folder of the history, made if it is not there; what is private here is kept out of git."""
        history = self._open_history(create=True)
        if self.journals == self.root:
            keep_out_of_git(history)
        if self.checkout and stamp_at(root, ".gitignore") is None:
            append(history, lost.MARK, b"")
        if self._private:
            with suppress(FileNotFoundError), Folder.open(self._private, portable=self._portable) as private:
                keep_out_of_git(private)
        if self.checkout:
            keep_out_of_git(root, ITSELF_TOO)
        return history

    def _open_history(self, *, create: bool = False) -> Folder:
        with Folder.open(self.journals, create=create, portable=self._portable) as journals:
            return journals.folder(HISTORY, create=create)

    @property
    def left_journal(self) -> bool:
        """True if a history lies among the texts of a checkout, and none where it is kept."""
        old, new = (os.path.join(place, HISTORY) for place in (self.root, self.journals))
        return old != new and os.path.isdir(old) and not os.path.islink(old) and not os.path.lexists(new)

    def bring_journal(self) -> None:
        """Move the history that lies among the texts of a checkout to where no commit reaches. Raises StoreFailed.

        It is one rename, with the lock held. Only a history that was written on this machine may be brought.
        """
        self._close_history()
        try:
            with (
                suppress(FileNotFoundError),  # somebody was faster
                self._open_root() as root,
                root.folder(HISTORY) as history,
                Folder.open(self.journals, create=True, portable=self._portable) as journals,
                kernel_lock(history, "lock", wait=self.wait),
            ):
                root.rename(HISTORY, journals, HISTORY)
                journals.sync()
                root.sync()
        except OSError as error:
            raise StoreFailed(failure(error, self.root)) from error

    @contextmanager
    def locked(self, name: str, wait: float | None = None) -> Iterator[Folder]:
        """Hold a lock of the history's folder, and give that folder. Raises Busy, StoreFailed."""
        with ExitStack() as held:
            try:
                root = held.enter_context(self._open_root(create=True))
                history = held.enter_context(self._make_history(root))
                held.enter_context(kernel_lock(history, name, wait=self.wait if wait is None else wait))
            except OSError as error:
                raise StoreFailed(failure(error, self.root)) from error
            yield history

    @contextmanager
    def _reading(self) -> Iterator[History]:
        """Open the history without the lock, an empty one if there is none. Raises StoreFailed."""
        try:
            with self._open_history() as folder:
                yield self._past_to_read(folder) or empty_history()
        except FileNotFoundError:
            yield empty_history()
        except OSError as error:
            if self._past and self._past.is_damaged:
                self._past.is_damaged = False  # only who writes replaces it
                self.problem = str(error.strerror)
            raise StoreFailed(f"the history of {self.root!r} cannot be read: {error.strerror}") from error

    def _past_to_read(self, folder: Folder) -> History | None:
        """Return the history, or a copy in memory if it cannot be opened without writing or lacks what waits."""
        old = OldFiles(folder)
        try:
            past = self._open_past(folder)
            if old.must_wait(past) or not old.find_new(past):
                return past
            copy = partial(History.copy, folder) if past else History.in_memory
        except (Outdated, OSError):
            self._past, copy = None, partial(History.copy, folder)
        except (Damaged, PathRefused) as error:
            self._past, copy, self.problem = None, History.in_memory, str(error)
        stamps = [stamp_at(folder, name) for name in (*DATABASE_FILES, *old.sizes)]
        if self._copied is None or self._copied[0] != stamps:
            history = copy()
            old.take_in(history)
            self._copied = stamps, history
        return self._copied[1]

    def _open_past(self, folder: Folder) -> History | None:
        """Return the history as it is now. A problem of one that was replaced since is none any more."""
        past = History.open(folder, self._past)
        if past is not self._past:
            self.problem = ""
        self._past = past
        return past

    def _past_to_change(self, folder: Folder) -> History:
        """Return the history, made if there is none, with what an earlier version wrote. The lock is held."""
        self._copied = None
        self._past = past = History.open(folder, self._past, create=True, is_suspect=bool(self.problem))
        assert past
        self.problem = ""
        OldFiles(folder).take_in(past)
        return past

    def _close_history(self) -> None:
        if self._past:
            self._past.close()
        self._past = self._copied = None

    def damaged(self) -> list[tuple[str, str]]:
        """Return what is wrong with the history, or was with an earlier one: a file, and the problem."""
        with self._reading() as past:
            problem = past.find_damage() or self.problem
            found = [(DATABASE, f"it is damaged: {problem}")]
            if not problem:
                found = past.rows(
                    "SELECT name, skipped || ' lines of it could not be read' FROM old_files WHERE skipped > 0"
                )
        set_aside = self._ask_folder(find_set_aside, list[str]())
        return [*found, *((name, "the history was damaged, and begun again") for name in set_aside)]

    @contextmanager
    def _noting(self, folder: Folder) -> Iterator[History]:
        """Open the history to note something beside the commits; the lock is taken only to make it."""
        past = None
        with suppress(Damaged):  # to set it aside, the lock is needed
            past = self._open_past(folder)
        if past:
            yield past
            return
        with kernel_lock(folder, "lock", wait=self.wait):
            yield self._past_to_change(folder)

    @contextmanager
    def transaction(self, wait: float | None = None) -> Iterator[Transaction]:
        """Make changes with the lock held, the history sound, and what a crash left completed."""
        try:
            with (
                self._open_root(create=True) as root,
                self._make_history(root) as folder,
                kernel_lock(folder, "lock", wait=self.wait if wait is None else wait),
            ):
                self._refuse_hub(folder)
                try:
                    past = self._past_to_change(folder)
                    past.is_in_use = True
                    if wait is not None:  # nor is a program waited for that holds the database alone
                        with past.writing(durable=False, wait=wait):
                            pass
                    opened = Transaction(root, folder, past, self.boot, self._patience, self.scope, self.announce)
                    opened.list_lost(only_marked=True)
                    opened.recover()
                    yield opened
                finally:
                    if self._past:
                        self._past.is_in_use = False
                    if self._past and self._past.is_damaged:  # the next change finds a new history
                        self._past = History.open(folder, self._past, create=True)
        except OSError as error:
            self._close_history()  # perhaps one of its files was removed
            raise StoreFailed(failure(error, self.root)) from error

    def _refuse_hub(self, history: Folder) -> None:
        """Raise StoreFailed when this folder got a hub since it was opened."""
        if self.announce is None and self.journals == self.root:
            with suppress(FileNotFoundError):
                history.stat(HUB)
                raise StoreFailed(
                    f"{self.root!r} has got a hub since it was opened, so nothing was changed",
                    hint="Start the program that uses it again.",
                )

    # Reading

    def read(self, path: str) -> Document:
        """Give the text at `path`. An empty file is read again: an editor may be in the middle of saving.

        Raises:
            NotFound: nothing is there.
            PathRefused: `path` leaves the root, or is a link.
        """
        path = self.spelling(path)
        try:
            with self._open_root() as root, walk(root, path) as (folder, name):
                return Document(path, read_patiently(folder, name, path, self._patience))
        except FileNotFoundError:
            raise NotFound(Ref(self.scope, path)) from None
        except OSError as error:
            raise StoreFailed(f"{path!r} cannot be read: {error.strerror}") from error

    def scan(self) -> Iterator[ScanEntry]:
        """List Markdown files, unordered, with their problems. Raises StoreFailed."""
        try:
            with self._open_root() as root:
                yield from _scan(root)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreFailed(f"{self.root!r} cannot be looked into: {error.strerror}") from error

    def stamps(self, paths: Iterable[str]) -> dict[str, Stamp | None]:
        """Return the stamps of these files and folders now, None for what is not there. Raises StoreFailed."""
        try:
            root = self._open_root()
        except FileNotFoundError:
            return dict.fromkeys(paths)
        except OSError as error:
            raise StoreFailed(f"{self.root!r} cannot be looked into: {error.strerror}") from error
        with root:
            return {path: stamp_at(root, path) for path in paths}

    def events(self) -> list[str]:
        """Return the files of events that are kept beside the Markdown, which `scan` does not list."""
        with suppress(OSError, PathRefused), self._open_root() as root, root.folder("observability") as folder:
            return sorted(f"observability/{name}" for name in folder.names() if name.endswith(".ndjson"))
        return []

    def history(self, path: str | None = None) -> Iterator[Commit]:
        """Yield the commits, newest first; with `path`, those of that text with that one step."""
        yield from self._tell(lambda past: past.history(path))

    def find(self, commit_id: str) -> Commit:
        """Return the commit whose id begins like this. Raises NotInHistory if none or several do."""
        with self._reading() as past:
            return past.find(commit_id)

    def trail(self, path: str) -> Iterator[Commit]:
        """Yield the commits of one text, newest first, also from when it had other names: each with that one step."""
        yield from self._tell(lambda past: past.trail(path))

    def _tell(self, ask: Callable[[History], Iterator[Commit]]) -> Iterator[Commit]:
        """Yield commits; those of a damaged history up to the damage, which `problem` tells then."""
        try:
            with self._reading() as past:
                yield from ask(past)
        except StoreFailed:
            if not self.problem:
                raise

    def last_standing(self, *, except_by: str = "", events: bool = True) -> Commit:
        """Return the newest commit that `undo` can take back; without `events`, none that only added to them.

        Raises:
            NotInHistory: there is none left.
        """
        with self._reading() as past:
            return past.last_standing(except_by=except_by, events=events)

    def version(self, path: str, version: Version) -> bytes:
        """Give an older text by its version, or the beginning of it, also of when it had another name.

        Raises:
            NotInHistory: retention passed, or it was erased, or it never was, or several begin like this.
        """
        with self._reading() as past:
            return past.find_version(path, version)

    def ask_history(self, ask: Callable[[History], T], otherwise: T) -> T:
        """Return the result of a function on the history, or `otherwise` while it cannot be read."""
        with suppress(StoreFailed, Busy), self._reading() as past:
            return ask(past)
        return otherwise

    def last_id(self) -> str:
        """Return the id of the last commit, "" if there is none."""
        return self.ask_history(History.last_id, "")

    def find_traces(self, versions: Collection[Version], pieces: Collection[bytes]) -> tuple[str, set[str]]:
        """Search the history for erased texts: why it may still have one, "" if not; and whose texts have pieces."""
        with suppress(Busy), self._reading() as past:
            return past.find_traces(versions, pieces)
        return "it is in use", set()

    def commit(self, changes: Sequence[Change], *, by: str, why: str = "", undoes: str = "") -> Commit:
        """Make all the changes or none, durably.

        Raises:
            Changed: a text is not at the version its change expects; nothing was written.
            PathRefused: a path leaves the root, is a link, or two paths are one on some file systems.
            StoreFailed: the disk is full or failing; nothing was written.
        """
        changes = self._admitted(changes, undoing=bool(undoes))
        with self.transaction() as transaction:
            revisions = [step for step in map(transaction.revision, changes) if step.before != step.after]
            name = os.urandom(6).hex() if revisions else ""
            commit = Commit(name, self._now(), by, why, tuple(revisions), undoes, transaction.past.last_id())
            if revisions:
                commit = transaction.carry_out(commit, self._agree)
                self._settle_if_due(transaction)
            if undoes:
                tombstones.lift(transaction.past, [(step.path, step.new) for step in revisions if step.new])
        return commit

    def spelling(self, path: str) -> str:
        """Return a path as the folder spells it: normalised, unless a file was made elsewhere with another form."""
        safe = check_stored(path)
        is_there = safe != path and self.stamps([path])[path]
        return path if is_there else safe

    def _admitted(self, changes: Sequence[Change], *, undoing: bool) -> list[Change]:
        """Return the changes with their paths as the folder spells them. Raises PathRefused."""
        seen: dict[str, str] = {}
        admitted = []
        for change in changes:
            path = change.path if undoing and change.path == CATALOG else self.spelling(change.path)
            if other := seen.get(fold(path)):
                raise PathRefused(path, f"it is the same file as {other!r} on some file systems")
            seen[fold(path)] = path
            admitted.append(change._replace(path=path))
        return admitted

    def adopt(self, paths: Collection[str] | None, *, wait: float | None = None, bury: bool = True) -> Commit | None:
        """Commit what others did to these paths, or with None which of all that the history knows they removed.

        The step is taken from where the history left a path to what is there now, so a path that nobody
        touched changes nothing. Gives the last commit, None when there was nothing to say. What somebody removed
        is not to be learned again, unless it went with many others, or with a change of branch: then do not `bury`.
        """
        commit = None
        with self.transaction(wait) as transaction:
            steps = transaction.outside(None if paths is None else set(paths))
            # a catalog that the history does not know is for `set_aside`
            steps = (step for step in steps if step.path != CATALOG or step.before != ABSENT)
            while revisions := tuple(islice(steps, ADOPTED_AT_ONCE)):
                commit = transaction.note_outside(revisions, self._now())
                listed = lost.read(transaction.history)
                tombstones.follow(transaction.past, revisions, commit.at, bury=bury, listed=listed)
        return commit

    def undo(self, commit_id: str = "", *, by: str) -> Commit:
        """Take back one commit, the last that still stands unless one is named, as a commit of its own.

        Raises:
            NotInHistory: there is none such, or nothing is left to undo.
            Changed: a text was changed again since.
            NotInHistory: the older text is past retention.
        """
        target = self.find(commit_id) if commit_id else self.last_standing()
        if not target.revisions:
            raise NotInHistory(f"the commit {target.id} holds no texts to bring back")
        for step in target.revisions:
            if step.before != ABSENT and step.old is None:
                raise NotInHistory(f"the history no longer holds {step.before[:12]!r} of {step.path!r}")
        changes = [Change(step.path, step.old, step.after) for step in target.revisions]
        return self.commit(changes, by=by, why=f"undo {target.id}", undoes=target.id)

    def lost(self) -> dict[str, Version]:
        """Return the files that went with the whole folder and are not back, with their last versions."""
        listed = self._ask_folder(lost.read, dict[str, Version]())
        if not any(self.scan()):
            is_emptied = lost.is_suspect(self.root, self.journals) or lost.is_outer_emptied(self.root, self.journals)
            listed |= self.ask_history(lambda past: lost.find(past, is_emptied=is_emptied), listed)
        stamps = self.stamps(listed)
        return {path: version for path, version in listed.items() if stamps[path] is None}

    def may_have_lost(self) -> bool:
        """Return True if files went with the whole folder, here or perhaps in the tasks, sessions and logs in it."""
        if not lost.is_suspect(self.root, self.journals) and not self.lost():
            for _, _, files in os.walk(self.root):
                if any(name.endswith(".md") and name != CATALOG for name in files):
                    return False
        return os.path.isdir(self.journals)

    def restore_lost(self, *, except_for: Collection[str] = (), by: str) -> list[str]:
        """Bring back the files that went with the whole folder, and return their paths; what is there now stays.

        It is one commit, or one for each file where some of them cannot come back. A text that is past retention
        stays away, and is not listed any more.
        """
        self.adopt(None, bury=False)  # from here on the history has all their texts
        wanted = {path: version for path, version in self.lost().items() if path not in except_for}
        with self._reading() as past:
            texts = {path: past.text(version) for path, version in wanted.items()}
        changes = [Change(path, text, ABSENT) for path, text in sorted(texts.items()) if text is not None]
        restored: list[str] = []
        for group in (changes, *([change] for change in changes)):
            if len(restored) < len(changes):
                with suppress(Changed, PathRefused):  # somebody was faster, or put a link there
                    commit = self.commit(group, by=by, why="restore what went with its folder")
                    restored += [step.path for step in commit.revisions]
        self.drop_lost([path for path, text in texts.items() if text is None])
        return restored

    def drop_lost(self, paths: Collection[str]) -> None:
        """Report these files as lost no longer. Raises Busy, StoreFailed."""
        self.adopt(None, bury=False)
        with self.transaction() as transaction:
            lost.take_away(transaction.history, paths, keep_empty=False)

    def erase(self, path: str, *, by: str) -> Erased:
        """Remove a text and every older version of it from the folder and its history.

        Raises:
            NotFound: neither the folder nor the history knows it.
        """
        path = self.spelling(path)
        if not os.path.lexists(self.root) and not os.path.lexists(self.journals):
            raise NotFound(Ref(self.scope, path))  # erasing makes nothing
        with self.transaction() as transaction:
            names, texts = transaction.forget(path)
            if not texts:
                transaction.past.empty_log()  # it may have been erased before, and that cut short
                raise NotFound(Ref(self.scope, path))
            transaction.drop_derived(CATALOG)
            usage.bring_together(transaction.past, without=names)
            tombstones.remove(transaction.past, lambda stone: stone.path in names)
            lost.take_away(transaction.history, names)
            mark = Commit(os.urandom(6).hex(), self._now(), by, ERASED, ())
            transaction.note(mark)
            transaction.settle()
            transaction.remove_old_files()
            transaction.past.empty_log()
        return Erased(path, tuple(sorted(names)), tuple(texts), tuple(filter(None, texts.values())))

    def prune(self) -> int:
        """Drop retired texts past retention from the history, and say how many; current texts and the log stay."""
        return self._drop_retired(self._clock())

    def _drop_retired(self, until: float, seconds: float = float("inf")) -> int:
        """Drop what was retired so long before a moment; after about so many seconds the rest waits."""
        cutoff = utc_time(until - self._retention_days * 86_400, milliseconds=True)
        ends = time.monotonic() + seconds
        dropped, has_more = 0, True
        while has_more:
            with self.transaction() as transaction:
                count, has_more = transaction.past.drop_texts(cutoff)
            dropped += count
            if has_more and time.monotonic() > ends:
                return dropped
        with self.transaction() as transaction:
            past = transaction.past
            tombstones.remove(past, lambda stone: stone.why == tombstones.REMOVED and stone.at < cutoff)
            usage.bring_together(past)
            catalogs.trim(past)
            transaction.drop_derived()
            transaction.remove_old_files(cutoff)
            past.note_fact(PRUNED, str(self._clock()))
            past.empty_log()
        return dropped

    def graft(self, commits: Iterable[Commit], stones: Iterable[tombstones.Tombstone] = ()) -> int:
        """Add the past of texts that come from another folder, oldest first, and its tombstones; gives how many
        commits were new. No file is changed. Raises StoreFailed, Busy."""
        with self.transaction() as transaction:
            count = transaction.past.graft(list(commits))
            tombstones.add(transaction.past, stones)
        return count

    def buried_all(self) -> list[tombstones.Tombstone]:
        """Return the tombstones, oldest first."""
        return self.ask_history(lambda past: list(tombstones.read(past)), [])

    def publish(self, name: str, data: bytes, *, sure: bool = False) -> Stamp | None:
        """Put a derived text in the root: whole for every reader, not journalled, free to lose.

        Gives its stamp, as it is right after. The caller may be `sure` that what stands there is ours, by its stamp.

        Raises:
            Changed: what stands there was not published by us; it stays.
        """
        try:
            with self._open_root(create=True) as root, self._make_history(root) as history:
                with self._noting(history) as past:
                    catalogs.publish(root, history, past, name, data, sure=sure)
                return stamp_at(root, name)
        except OSError as error:
            raise StoreFailed(failure(error, self.root)) from error

    def set_aside(self, name: str, shown: bytes, *, wait: float | None = None) -> str | None:
        """Make room for a derived text where somebody else's stands: what that says beyond `shown` is kept beside it.

        It is one commit by `outside`, so undoing it brings the text back; one that was brought back so stays. Gives
        the path that it is kept at, "" when nothing had to be kept, and None when the text stays.

        Raises:
            Changed: somebody saved in this moment.
            PathRefused, TextRefused, StoreFailed: it is a link or a folder, too large, or cannot be read; it stays.
        """
        with self.transaction(wait) as transaction:
            commit, path = transaction.set_aside(name, shown, self._now())
            if commit:
                self._settle_if_due(transaction)
            return path

    def published(self, name: str) -> bytes | None:
        """Give a derived text back, None when it is not there."""
        try:
            with self._open_root() as root:
                return read_file(root, name, READ_LIMIT + 1)
        except (OSError, PathRefused):
            return None

    def recognise(self, data: bytes) -> None:
        """Take a derived text that is there for ours."""
        with (
            suppress(OSError, PathRefused),
            self._open_root() as root,
            self._make_history(root) as history,
            self._noting(history) as past,
        ):
            catalogs.record(past, data)

    def is_published(self, name: str) -> bool:
        """Return True if a derived text is there, and is ours."""
        data = self.published(name)
        return data is not None and self.ask_history(lambda past: catalogs.is_ours(past, data), False)

    def add_uses(self, day: str, paths: Iterable[str]) -> None:
        """Note that these texts were of use on a day. Free to lose: where it cannot be noted, it is not."""
        with (
            suppress(OSError, PathRefused, Busy),
            self._open_history() as history,
            self._noting(history) as past,
        ):
            usage.add(past, [(day, path) for path in paths], wait=USE_WAIT_SECONDS)

    def uses_from(self, start: int, *, take_all: bool) -> tuple[dict[str, str], int]:
        """Return the uses noted from `start` on: those that the catalog was written with, or all there are by now.

        The last day of each path, and where they end.
        """
        return self.ask_history(lambda past: usage.take(past, start, take_all), (dict[str, str](), 0))

    def uses_noted(self) -> dict[str, str]:
        """Return the last day on which each text was of use; nothing is changed."""
        return self.ask_history(usage.noted, {})

    def bury(self, texts: Iterable[tuple[str, bytes]], why: str) -> None:
        """Note that texts are not to be learned again: memories at their paths, or what never was one, at ""."""
        stones = [tombstones.of(path, data, self._now(), why) for path, data in texts]
        with self.transaction() as transaction:
            tombstones.add(transaction.past, stones)

    def unbury(self, facts: Iterable[Sequence[str]]) -> None:
        """Note that what says the same as these words is wanted again: it may be learned."""
        stones = self.buried_all()
        wanted = [words for words in facts if tombstones.match(stones, words)] if stones else []
        if wanted:
            with self.transaction() as transaction:
                tombstones.lift_alike(transaction.past, wanted)

    def buried(self, words: Sequence[str]) -> tombstones.Tombstone | None:
        """Return the tombstone of a text with the same words, or None."""
        return self.ask_history(lambda past: tombstones.match(tombstones.read(past), words), None)

    def doubted(self, words: Sequence[str], path: str) -> bool:
        """Return True if something of these words, or at this path, was removed before anybody vouched for it."""
        return self.ask_history(lambda past: tombstones.doubted(past, words, path), False)

    def _ask_folder(self, ask: Callable[[Folder], T], otherwise: T) -> T:
        """Return the result of a function on the folder of the history, without the lock; `otherwise` without one."""
        with suppress(OSError, PathRefused), self._open_history() as history:
            return ask(history)
        return otherwise

    def lock(self, name: str, *, wait: float | None = None) -> AbstractContextManager[object]:
        """Let one process at a time do the work called `name`. Raises Busy after `wait` seconds."""
        return self.locked(f"lock-{check_label(name, 'lock')}", wait)

    def recover(self) -> None:
        """Complete what a crash left half done."""
        has_drafts = any(name.startswith("draft-") for name in self._ask_folder(Folder.names, [""]))
        is_suspect = self.ask_history(lambda past: past.is_suspect(self.boot), otherwise=False)
        if (has_drafts or is_suspect) and self.stamps([""])[""]:
            with self.transaction():
                pass

    def close(self) -> None:
        """Flush what is in place but not yet marked so, and once a day let go what is past retention.

        What was acknowledged is in the history: if this fails now, a later flush will do.
        """
        if self._unsettled:
            with suppress(StoreFailed, Busy, PathRefused):
                with self.transaction() as transaction:
                    transaction.settle()
                    self._unsettled = 0
                    last, now = float(transaction.past.fact(PRUNED) or 0), self._clock()
                if not last <= now < last + 86400:
                    # a clock that runs ahead for once tells no more than a day more than the last time
                    self._drop_retired(min(now, last + 86400), PRUNE_SECONDS)
        self._close_history()

    def _now(self) -> str:
        return utc_time(self._clock(), milliseconds=True)

    def _settle_if_due(self, transaction: Transaction) -> None:
        self._unsettled += 1
        if not self.boot:
            transaction.settle()  # nobody could tell later that it has to be verified, so it is safe now or it failed
        elif self._unsettled >= SETTLE_AFTER:
            with suppress(OSError):  # the history has it: a later flush will do
                transaction.settle()
                self._unsettled = 0


@cache
def empty_history() -> History:
    """Return a history without commits, for folders that have none."""
    return History.in_memory()


def boot_id() -> str:
    """Tell this boot from the last, or "" where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read(13)
    except OSError:
        return ""


def _scan(root: Folder) -> Iterator[ScanEntry]:
    waiting = [""]
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
    return prefix.count("/") < MAX_DEPTH and (bool(prefix) or entry.name.casefold() not in RESERVED_FOLDERS)


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
    """Return a message that a store could not be changed, with the reason."""
    reason = {errno.ENOSPC: "the disk is full", errno.EROFS: "the file system is read-only"}.get(error.errno or 0)
    return f"the store {root!r} could not be changed: {reason or error.strerror or error}"
