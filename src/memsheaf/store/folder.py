"""The folder store: read, scan, commit, undo, erase and prune, one file per text.

How a commit becomes durable, and why it needs one flush: under the lock, the versions are checked, the new
texts are staged as drafts, and one transaction of the history with all texts is written and flushed. That decides it.
The drafts are then renamed into place. Their own flush may come later (`settle`), because the history is enough
to put them back: after a crash the next writer completes the last commit, after a reboot it verifies every
commit that was not yet marked as flushed. Where the system cannot tell a reboot, every commit settles at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from typing import TypeVar

from memsheaf.errors import Busy, Changed, NoSuchCommit, NotFound, PathRefused, Ref, StoreFailed, VersionGone
from memsheaf.guard.paths import CATALOG
from memsheaf.memory import utc_time
from memsheaf.scope import check_label
from memsheaf.store import (
    ABSENT,
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
from memsheaf.store.access import StoreAccess, failure
from memsheaf.store.atomic_replace import READ_LIMIT, read_patiently
from memsheaf.store.commit_queries import ERASED, find_version, last_standing, without_known
from memsheaf.store.history import History, in_memory
from memsheaf.store.safe_dir import Folder, read_file, stamp_at, walk
from memsheaf.store.transaction import Transaction

T = TypeVar("T")

SETTLE_AFTER = 64
PRUNED = "pruned"  # when retention was last seen to
ADOPTED_AT_ONCE = 1_000  # texts in one commit
USE_WAIT_SECONDS = 0.2  # for another process that writes, since an answer waits for it


class FolderStore:
    """One directory of texts. Any number of processes may use it at once."""

    def __init__(
        self,
        root: str,
        *,
        clock: Callable[[], float] = time.time,
        wait: float = 30.0,
        patience: float = 0.05,
        boot: str | None = None,
        portable: bool | None = None,
        retention_days: float = 30.0,
        checkout: str = "",
        private: str = "",
        scope: str = "",
        announce: Callable[[Transaction, Commit], None] | None = None,
    ) -> None:
        """Give the working tree of git that the root is in, if any, and a folder around it that git must not see."""
        self._access = StoreAccess(
            root,
            clock=clock,
            wait=wait,
            patience=patience,
            boot=boot,
            portable=portable,
            checkout=checkout,
            private=private,
            scope=scope,
        )
        self.scope = scope
        self._access.announce = announce
        self.root = self._access.root
        self.boot = self._access.boot
        self.checkout = checkout
        self.journals = self._access.journals
        """The folder that the journal's is in: the root, or what stands for it among git's own files."""
        self.bring_journal = self._access.bring_journal
        self._clock = clock
        self._retention_days = retention_days
        self._unsettled = 0
        self._agree: Callable[[Transaction, Commit], None] | None = None

    @property
    def left_journal(self) -> bool:
        """Whether a journal lies among the texts of a checkout, and none where it is kept."""
        return self._access.left_journal

    def read(self, path: str) -> Document:
        """Give the text at `path`. An empty file is read again: an editor may be in the middle of saving.

        Raises:
            NotFound: nothing is there.
            PathRefused: `path` leaves the root, or is a link.
        """
        path = self._access.spelling(path)
        try:
            with self._access.open_root() as root, walk(root, path) as (folder, name):
                return Document(path, read_patiently(folder, name, path, self._access.patience))
        except FileNotFoundError:
            raise NotFound(Ref(self.scope, path)) from None
        except OSError as error:
            raise StoreFailed(f"{path!r} cannot be read: {error.strerror}") from error

    def scan(self) -> Iterator[ScanEntry]:
        """List Markdown files, unordered, with their problems."""
        try:
            yield from self._access.scan()
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreFailed(f"{self.root!r} cannot be looked into: {error.strerror}") from error

    def events(self) -> list[str]:
        """The files of events that are kept beside the Markdown, which `scan` does not list."""
        with suppress(OSError, PathRefused), self._access.open_root() as root, root.folder("observability") as folder:
            return sorted(f"observability/{one.name}" for one in folder.scan() if one.name.endswith(".ndjson"))
        return []

    def stamps(self, paths: Iterable[str]) -> dict[str, Stamp | None]:
        """The stamps of these files and folders now, None for what is not there."""
        return self._access.stamps(paths)

    def history(self, path: str | None = None) -> Iterator[Commit]:
        """What happened, newest first; with `path`, to that text only."""
        with self._access.reading() as past:
            yield from past.history(path) if past else ()

    def find(self, commit_id: str) -> Commit:
        """The commit whose id begins like this. Raises NoSuchCommit when none or several do."""
        with self._access.reading() as past:
            return (past or in_memory()).find(commit_id)

    def last_standing(self, *, except_by: str = "", events: bool = True) -> Commit:
        """The newest commit that was not undone, nor is an undo; without `events`, none that only added to them.

        Raises:
            NoSuchCommit: there is none left.
        """
        return last_standing(self.history(), except_by=except_by, events=events)

    def version(self, path: str, version: Version) -> bytes:
        """Give an older text by its version, or the beginning of it.

        Raises:
            VersionGone: retention passed, or it was erased, or it never was, or several begin like this.
        """
        return find_version(self.history(path) if version else (), path, version)

    def ask_history(self, ask: Callable[[History], T], otherwise: T) -> T:
        """The result of a function on the history, or `otherwise` without one, or while it cannot be read."""
        with suppress(StoreFailed, Busy), self._access.reading() as past:
            return ask(past) if past else otherwise
        return otherwise

    def last_id(self) -> str:
        """The id of the last commit, "" when there is none."""
        return self.ask_history(History.last_id, "")

    def damaged(self) -> list[tuple[str, str]]:
        """What is wrong with the history, or was with an earlier one: a file, and the problem."""
        return self._access.find_damage()

    def find_traces(self, versions: Collection[Version], pieces: Collection[bytes]) -> tuple[str, set[str]]:
        """Search the history for erased texts: why it may still have one, "" if not; and whose texts have pieces."""
        nothing: tuple[str, set[str]] = "", set()
        with suppress(Busy), self._access.reading() as past:
            return past.find_traces(versions, pieces) if past else nothing
        return "it is in use", set()

    def commit(self, changes: Sequence[Change], *, by: str, why: str = "", undoes: str = "") -> Commit:
        """Make all the changes or none, durably.

        Raises:
            Changed: a text is not at the version its change expects; nothing was written.
            PathRefused: a path leaves the root, is a link, or two paths are one on some file systems.
            StoreFailed: the disk is full or failing; nothing was written.
        """
        changes = self._access.admitted(changes, undoing=bool(undoes))
        with self._access.transaction() as transaction:
            revisions = [step for step in map(transaction.revision, changes) if step.before != step.after]
            name = os.urandom(6).hex() if revisions else ""
            commit = Commit(name, self._now(), by, why, tuple(revisions), undoes, transaction.past.last_id())
            if revisions:
                commit = transaction.carry_out(commit, self._agree)
                self._settle_if_due(transaction)
            if undoes:
                tombstones.lift(transaction.past, [(step.path, step.new) for step in revisions if step.new])
        return commit

    def adopt(self, paths: Collection[str] | None, *, wait: float | None = None, bury: bool = True) -> Commit | None:
        """Commit what others did to these paths, or with None which of all that the history knows they removed.

        The step is taken from where the history left a path to what is there now, so a path that nobody
        touched changes nothing. Gives the last commit, None when there was nothing to say. What somebody removed
        is not to be learned again, unless it went with many others, or with a change of branch: then do not `bury`.
        """
        commit = None
        with self._access.transaction(wait) as transaction:
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
            NoSuchCommit: there is none such, or nothing is left to undo.
            Changed: a text was changed again since.
            VersionGone: the older text is past retention.
        """
        target = self.find(commit_id) if commit_id else self.last_standing()
        if not target.revisions:
            raise NoSuchCommit(f"the commit {target.id} holds no texts to bring back")
        for step in target.revisions:
            if step.before != ABSENT and step.old is None:
                raise VersionGone(f"the history no longer holds {step.before[:12]!r} of {step.path!r}")
        changes = [Change(step.path, step.old, step.after) for step in target.revisions]
        return self.commit(changes, by=by, why=f"undo {target.id}", undoes=target.id)

    def lost(self) -> dict[str, Version]:
        """Return the files that went with the whole folder and are not back, with their last versions."""
        nothing: dict[str, Version] = {}
        listed = self._ask_folder(lost.read, nothing)
        if not any(self.scan()):
            is_emptied = lost.is_suspect(self.root, self.journals) or lost.is_outer_emptied(self.root, self.journals)
            listed |= self.ask_history(lambda past: lost.find(past, is_emptied=is_emptied), nothing)
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
        with self._access.reading() as past:
            found = {path: past.text(version) for path, version in wanted.items()} if past else {}
        texts = {path: text for path, text in found.items() if text is not None}
        changes = [Change(path, text, ABSENT) for path, text in sorted(texts.items())]
        restored: list[str] = []
        for group in (changes, *([change] for change in changes)):
            if len(restored) < len(changes):
                with suppress(Changed, PathRefused):  # somebody was faster, or put a link there
                    commit = self.commit(group, by=by, why="restore what went with its folder")
                    restored += [step.path for step in commit.revisions]
        self.drop_lost(wanted.keys() - texts.keys())
        return restored

    def drop_lost(self, paths: Collection[str]) -> None:
        """Report these files as lost no longer. Raises Busy, StoreFailed."""
        self.adopt(None, bury=False)
        with self._access.transaction() as transaction:
            lost.take_away(transaction.history, paths, keep_empty=False)

    def erase(self, path: str, *, by: str) -> Erased:
        """Remove a text and every older version of it from the folder and its history.

        Raises:
            NotFound: neither the folder nor the history knows it.
        """
        path = self._access.spelling(path)
        if not os.path.lexists(self.root) and not os.path.lexists(self.journals):
            raise NotFound(Ref(self.scope, path))  # erasing makes nothing
        with self._access.transaction() as transaction:
            transaction.sweep(self._clock())
            names, texts = transaction.forget(path)
            if not texts:
                transaction.past.empty_log()  # it may have been erased before, and that cut short
                raise NotFound(Ref(self.scope, path))
            transaction.drop_derived(CATALOG)
            usage.bring_together(transaction.past, without=names)
            tombstones.take_away(transaction.past, names)
            lost.take_away(transaction.history, names)
            mark = Commit(os.urandom(6).hex(), self._now(), by, ERASED, ())
            transaction.note(mark)
            transaction.finish(mark)
            transaction.settle()
            transaction.remove_old_files()
            transaction.past.empty_log()
        return Erased(path, tuple(sorted(names)), tuple(texts), tuple(filter(None, texts.values())))

    def prune(self) -> int:
        """Drop retired texts past retention from the history, and say how many; current texts and the log stay."""
        return self._drop_retired(self._clock())

    def _drop_retired(self, until: float) -> int:
        cutoff = self._cutoff(until)
        with self._access.transaction() as transaction:
            past = transaction.past
            dropped = past.drop_texts(cutoff)
            tombstones.prune(past, cutoff)
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
        with self._access.transaction() as transaction:
            known = {id for (id,) in transaction.past.rows("SELECT id FROM commits")}
            fresh = without_known(list(commits), known)
            transaction.past.graft(fresh)
            tombstones.add(transaction.past, stones)
        return len(fresh)

    def buried_all(self) -> list[tombstones.Tombstone]:
        """What is not to be learned again, oldest first."""
        return self.ask_history(lambda past: list(tombstones.read(past)), [])

    @contextmanager
    def still(self) -> Iterator[None]:
        """Hold the lock, so that no commits are made meanwhile. Raises Busy, StoreFailed."""
        with self._access.transaction():
            yield

    def publish(self, name: str, data: bytes, *, sure: bool = False) -> Stamp | None:
        """Put a derived text in the root: whole for every reader, not journalled, free to lose.

        Gives its stamp, as it is right after. The caller may be `sure` that what stands there is ours, by its stamp.

        Raises:
            Changed: what stands there was not published by us; it stays.
        """
        try:
            with self._access.open_root(create=True) as root, self._access.make_history(root) as history:
                with self._access.noting(history) as past:
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
        with self._access.transaction(wait) as transaction:
            commit, path = transaction.set_aside(name, shown, self._now())
            if commit:
                self._settle_if_due(transaction)
            return path

    def published(self, name: str) -> bytes | None:
        """Give a derived text back, None when it is not there."""
        try:
            with self._access.open_root() as root:
                return read_file(root, name, READ_LIMIT + 1)
        except (OSError, PathRefused):
            return None

    def recognise(self, data: bytes) -> None:
        """Take a derived text that is there for ours."""
        with (
            suppress(OSError, PathRefused),
            self._access.open_root() as root,
            self._access.make_history(root) as history,
            self._access.noting(history) as past,
        ):
            catalogs.record(past, data)

    def is_published(self, name: str) -> bool:
        """Whether a derived text is there, and is ours."""
        data = self.published(name)
        return data is not None and self.ask_history(lambda past: catalogs.is_ours(past, data), False)

    def add_uses(self, day: str, paths: Iterable[str]) -> None:
        """Note that these texts were of use on a day. Free to lose: where it cannot be noted, it is not."""
        with (
            suppress(OSError, PathRefused, Busy),
            self._access.open_history() as history,
            self._access.noting(history) as past,
        ):
            usage.add(past, [(day, path) for path in paths], wait=USE_WAIT_SECONDS)

    def uses_from(self, start: int, *, take_all: bool) -> usage.Uses:
        """What was of use, noted from `start` on: what the catalog was written with, or all there is by now."""
        return self.ask_history(lambda past: usage.take(past, start, take_all), usage.Uses({}, 0, more=False))

    def uses_noted(self) -> tuple[dict[str, str], str]:
        """The last day on which each text was of use, and the first day on which any was; nothing is changed."""
        nothing: dict[str, str] = {}
        return self.ask_history(usage.noted, (nothing, ""))

    def bury(self, texts: Iterable[tuple[str, bytes]], why: str) -> None:
        """Note that texts are not to be learned again: memories at their paths, or what never was one, at ""."""
        stones = [tombstones.of(path, data, self._now(), why) for path, data in texts]
        with self._access.transaction() as transaction:
            tombstones.add(transaction.past, stones)

    def unbury(self, facts: Iterable[Sequence[str]]) -> None:
        """Note that what says the same as these words is wanted again: it may be learned."""
        stones = self.buried_all()
        wanted = [words for words in facts if tombstones.match(stones, words)] if stones else []
        if wanted:
            with self._access.transaction() as transaction:
                tombstones.lift_alike(transaction.past, wanted)

    def buried(self, words: Sequence[str]) -> tombstones.Tombstone | None:
        """The tombstone of a text with the same words; None without one."""
        return self.ask_history(lambda past: tombstones.match(tombstones.read(past), words), None)

    def doubted(self, words: Sequence[str], path: str) -> bool:
        """Whether something of these words, or at this path, was removed before anybody vouched for it."""
        return self.ask_history(lambda past: tombstones.doubted(past, words, path), False)

    def _ask_folder(self, ask: Callable[[Folder], T], otherwise: T) -> T:
        """The result of a function on the folder of the history, without the lock; `otherwise` without one."""
        with suppress(OSError, PathRefused), self._access.open_history() as history:
            return ask(history)
        return otherwise

    def lock(self, name: str, *, wait: float | None = None) -> AbstractContextManager[object]:
        """Let one process at a time do the work called `name`. Raises Busy after `wait` seconds."""
        return self._access.locked(f"lock-{check_label(name, 'lock')}", wait)

    def recover(self) -> None:
        """Complete what a crash left half done."""
        has_unsettled = self.ask_history(lambda past: bool(past.find_unsettled(self.boot)), otherwise=False)
        if has_unsettled and self.stamps([""])[""]:
            with self._access.transaction():
                pass

    def close(self) -> None:
        """Flush what is in place but not yet marked so, and once a day let go what is past retention.

        What was acknowledged is in the history: if this fails now, a later flush will do.
        """
        if self._unsettled:
            with suppress(StoreFailed, Busy, PathRefused):
                with self._access.transaction() as transaction:
                    transaction.settle()
                    self._unsettled = 0
                    last, now = float(transaction.past.fact(PRUNED) or 0), self._clock()
                if not last <= now < last + 86400:
                    # a clock that runs ahead for once tells no more than a day more than the last time
                    self._drop_retired(min(now, last + 86400))
        self._access.close()

    def _cutoff(self, now: float) -> str:
        return utc_time(now - self._retention_days * 86400, milliseconds=True)

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
