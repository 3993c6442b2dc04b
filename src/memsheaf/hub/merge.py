"""Merge what was pulled from a hub with a replica, under the lock of its folder.

For each path three versions are compared: the one here, the one on the hub, and the base of ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count

from memsheaf.errors import Busy, Changed, MemsheafError
from memsheaf.guard.paths import CATALOG, check_stored, fold, with_suffix
from memsheaf.hub import Pulled
from memsheaf.hub.exchange import (
    LARGEST,
    as_local,
    authors_of,
    find_secret,
    first_steps,
    is_sound,
    last_steps,
    portions,
    versions_made,
    without_unsound,
)  # fmt: skip
from memsheaf.hub.replica_state import (
    TOLD,
    Conflict,
    ReplicaState,
    read_ahead,
    read_state,
    write_ahead,
    write_state,
)
from memsheaf.state.trust import TrustLedger
from memsheaf.store import ABSENT, Commit, Revision, Version, lost, tombstones, version_of
from memsheaf.store.history import HUB, JOINED, OTHERS
from memsheaf.store.transaction import Transaction

AT_ONCE = 500  # texts of one commit of a first pull
NOT_TAKEN = "the hub does not take it: "  # how a reason begins for which a text is held, and tried again
LOST = (
    "it went with its folder; `memsheaf restore` brings it back, `memsheaf restore --dismiss` removes it everywhere"
)
MOMENTS = 5  # attempts to replace a file that is being edited


class Merge:
    """A transaction on a replica. `agreed` are the commits that the hub has: what is added is not pending."""

    def __init__(
        self, transaction: Transaction, now: Callable[[], str], agreed: set[str], ledger: TrustLedger | None = None
    ) -> None:
        self._transaction = transaction
        self._now = now
        self._agreed = agreed
        self._ledger = ledger
        self._authors: dict[str, str] = {}  # of what was pulled, by path
        self._queued: dict[str, bytes | None] = {}  # the pending text of each path

    @property
    def state(self) -> ReplicaState:
        """The sync state of the replica."""
        return read_state(self._transaction.history)

    def save(self, state: ReplicaState, *, durable: bool = True) -> None:
        """Write the state."""
        write_state(self._transaction.history, state, durable=durable)

    def waiting(self) -> list[Commit]:
        """Return the pending commits, oldest first; ids of no commit are skipped."""
        pending = self.state.pending
        found = self._transaction.past.find_all(pending)
        waiting = [found[name] for name in pending if name in found]
        self._queued.update((step.path, step.new) for one in waiting for step in one.revisions)
        return waiting

    def hold(self) -> list[Commit]:
        """Return the pending commits, split so that each held path has a commit of its own.

        A file with a new secret is held until the secret is gone, and no text that had one is pushed. A file that
        went with its folder is held until it is back or dismissed. One that the hub did not take is tried again.
        """
        waiting, held, listed = self.waiting(), self.state.held, lost.read(self._transaction.history)
        bases = first_steps(waiting)
        touched = [{step.path for step in one.revisions} for one in waiting]
        alone = [paths for paths in touched if paths & held.keys()]
        is_apart = sorted(map(list, alone)) == sorted([path] for path in held)
        found = {path: why for path, step in bases.items() if (why := self._why_held(path, step.old, held, listed))}
        had = (
            step.path not in found and find_secret(step.new, bases[step.path].old)
            for one in waiting
            for step in one.revisions
            if step.path in bases
        )
        is_small = all(len(one.revisions) <= LARGEST for one in waiting)
        if found == held and is_apart and is_small and not any(had):
            return waiting
        self.rebase(waiting, {})
        return self.waiting()

    def _why_held(self, path: str, base: bytes | None, held: Mapping[str, str], listed: Collection[str]) -> str:
        present, why = self._read_here(path), held.get(path, "")
        if present is None and path in listed:
            return LOST
        return find_secret(present, base) or why * why.startswith(NOT_TAKEN)

    def apply(self, pulled: Pulled, sent: Collection[str]) -> None:
        """Write what was pulled, except to paths that have pending changes or that were pushed from here since.

        `sent` are the commits that the hub had taken from here before it was asked: all are in a whole pull.
        """
        transaction, pulled = self._transaction, without_unsound(pulled)
        self._authors = authors_of(pulled)
        came = {one.commit.id for one in pulled.commits}
        seen = {*came, *(sent if pulled.whole else ())}
        noted = read_ahead(transaction.history)
        ahead = {name: paths for name, paths in noted.items() if name not in seen}
        if noted:
            write_ahead(transaction.history, ahead)
        state = self.state
        if not came.isdisjoint(state.pending):  # the answer was lost
            self.save(state._replace(pending=tuple(name for name in state.pending if name not in came)))
        newer = {path for paths in ahead.values() for path in paths}
        theirs = {path: step for path, step in last_steps(pulled).items() if path not in newer}
        if not theirs.keys().isdisjoint(state.left):
            left = {path: why for path, why in state.left.items() if path not in theirs}
            self.save(self.state._replace(left=left))
        if pulled.whole:
            gone = transaction.past.heads(None).keys() - theirs.keys() - newer - {CATALOG}
            theirs |= {path: Revision(path, ABSENT, ABSENT) for path in gone}
        if outside := tuple(transaction.outside(theirs.keys())):
            transaction.note_outside(outside, self._now())
        waiting = self.waiting()
        arrived = {
            path for path, version in versions_made(waiting) if path in theirs and theirs[path].after == version
        }
        changed = arrived | {
            path for path, base in first_steps(waiting).items() if version_of(self._read_here(path)) != base.before
        }  # not what was changed and undone
        to_come: dict[str, list[Version]] = {}
        for one in pulled.commits:
            for step in one.commit.revisions:
                to_come.setdefault(step.path, []).append(step.after)
        for one in pulled.commits:
            steps = []
            for step in one.commit.revisions:
                is_here = self._version_here(step.path) in to_come[step.path]  # this text, or a later one
                to_come[step.path].pop(0)
                if step.path in theirs and step.path not in changed and not is_here:
                    steps.append(step)
            commit = as_local(one)
            if steps and commit.id in noted and transaction.past.find_all([commit.id]):
                commit = commit._replace(id=os.urandom(6).hex())  # the history has it, for other paths
            self._place(commit, steps)
        if pulled.whole:
            away = Commit(os.urandom(6).hex(), self._now(), HUB, "removed on the hub", ())
            self._place(away, (one for one in theirs.values() if one.after == ABSENT and one.path not in changed))
        waiting = self.waiting()  # with what was edited in this moment
        bases = first_steps(waiting)
        met = {path: theirs[path] for path in bases if path in theirs and theirs[path].after != bases[path].before}
        fresh = {fold(path): path for path, base in bases.items() if base.before == ABSENT}
        if met or any(fresh.get(fold(path), path) != path for path in theirs):
            self.rebase(waiting, met)

    def join(self, pulled: Pulled, here: Iterable[str]) -> None:
        """Merge a folder and a hub without a common base: the same text is kept once, different texts both.

        Where ours replaced or removed the hub's text after the hub got it, it does so there; somebody may also have
        gone back to a text since. What was removed counts as removed only if that waits for the hub.
        """
        transaction, pulled = self._transaction, without_unsound(pulled)
        theirs, self._authors = last_steps(pulled), authors_of(pulled)
        write_ahead(transaction.history, {})
        here = sorted({*here})
        if outside := tuple(transaction.outside(here)):
            transaction.note_outside(outside, self._now())
        ours: dict[str, bytes | None] = {path: data for path in here if (data := self._read_here(path)) is not None}
        if self._ledger and not transaction.past.rows(
            "SELECT 1 FROM commits WHERE author GLOB ? LIMIT 1", f"{OTHERS}*"
        ):  # nobody else wrote
            self._ledger.add([(path, version_of(data)) for path, data in ours.items()])
        replaced = {(step.path, step.before) for one in self.waiting() for step in one.revisions}
        for path, _ in replaced:
            if path in theirs:
                ours.setdefault(path, None)
        groups: dict[str, list[Revision]] = {}
        for one in pulled.commits:
            steps = (step for step in one.commit.revisions if step.path not in ours)
            groups.setdefault(as_local(one).by, []).extend(steps)
        for by, all_steps in groups.items():
            for start in range(0, len(all_steps), AT_ONCE):
                commit = Commit(os.urandom(6).hex(), self._now(), by, JOINED, ())
                self._place(commit, all_steps[start : start + AT_ONCE])
        both = {path: step for path, step in theirs.items() if path in ours and step.after != version_of(ours[path])}
        times = {step.path: one.commit.at for one in pulled.commits for step in one.commit.revisions}
        met = {
            path: step
            for path, step in both.items()
            if (path, step.after) not in replaced and not self._has_replaced(step, times[path])
        }
        none = Revision("", ABSENT, ABSENT)
        revisions = tuple(
            Revision(path, base.after, version_of(data), base.new, data)
            for path, data in ours.items()
            if (base := theirs.get(path, none))
        )
        mine = Commit(os.urandom(6).hex(), self._now(), "user", JOINED, revisions)
        self.rebase([mine], met)

    def rebase(self, waiting: Sequence[Commit], theirs: Mapping[str, Revision]) -> None:
        """Rebase the pending changes on what the hub has now: one commit for each author and reason.

        Where the hub has another text than the one ours was made from, both stay; what was removed on one side and
        changed on the other stays as it was changed. What is held is a commit of its own.
        """
        authors = {step.path: (one.by, one.why) for one in waiting for step in one.revisions}
        ours = versions_made(waiting)
        hub = {path: (step.before, step.old) for path, step in first_steps(waiting).items()}
        told: list[Conflict] = []
        for path, step in theirs.items():
            hub[path] = step.after, step.new
            if (path, step.after) in ours:
                continue  # it had arrived, and what came after it is ours
            if copy := self._keep_both(path, step, told):
                hub[copy], authors[copy] = (ABSENT, None), authors.get(path, ("outside", ""))
        there = self._transaction.past.heads(None)
        new = [path for path in there if path in hub and hub[path][0] == ABSENT]
        names = {fold(path): path for path in there.keys() - {*new}}
        for path in new:  # what is one file with another on some systems gets another name
            if (other := names.setdefault(fold(path), path)) != path:
                none = Revision(path, ABSENT, ABSENT)
                if copy := self._keep_both(path, none, told, other):
                    hub[copy], authors[copy] = (ABSENT, None), authors.get(path, ("outside", ""))
        before, held, listed = self.state.held, dict[str, str](), lost.read(self._transaction.history)
        groups: dict[tuple[str, str, str], list[Revision]] = {}
        for path, (version, text) in hub.items():
            mine = self._read_here(path)
            if version_of(mine) != version:
                if reason := self._why_held(path, text, before, listed):
                    held[path] = reason
                group = groups.setdefault((*authors.get(path, ("outside", "")), path if reason else ""), [])
                group.append(Revision(path, version, version_of(mine), text, mine))
        pending = []
        for by, why, revisions in (
            (by, why, part) for (by, why, _), found in groups.items() for part in portions(found)
        ):
            commit = Commit(os.urandom(6).hex(), self._now(), by, why, revisions)
            self._transaction.note(commit)
            pending.append(commit.id)
        state = self.state
        kept = tuple([*state.told, *told][-TOLD:])
        self.save(state._replace(pending=tuple(pending), held=held, told=kept))

    def note_edited(self, commit: Commit) -> bool:
        """Make what a person edited here a commit of its own, before one on top of it; returns whether they did.

        The hub refuses what builds on a text that it has not seen, so a commit that it takes needs no such look,
        which costs more the more memories there are.
        """
        heads = self._transaction.past.heads([step.path for step in commit.revisions])
        edited = {step.path for step in commit.revisions if step.before != heads.get(step.path, ABSENT)}
        outside = tuple(self._transaction.outside(edited)) if edited else ()
        if outside:
            self._transaction.note_outside(outside, self._now())
        return bool(outside)

    def withdraw(self) -> None:
        """Restore the hub's text at paths whose pending change the hub refuses; ours stays in the history.

        A memory that the hub never had has no other copy: it stays here, and is pending.
        """
        bases = (one for path, one in first_steps(self.waiting()).items() if path not in self.state.held)
        steps = [one._replace(after=one.before, new=one.old) for one in bases if one.before != ABSENT]
        authors = self._transaction.past.authors([(one.path, one.after) for one in steps])
        for one in filter(is_sound, steps):
            by = authors.get((one.path, one.after), HUB)
            self._place(Commit(os.urandom(6).hex(), self._now(), by, "the hub did not take a change", ()), [one])
        self.rebase(self.waiting(), {})

    def _keep_both(self, path: str, step: Revision, told: list[Conflict], other: str = "") -> str:
        """Write the hub's text at a path and keep ours as a copy beside it; returns the path of the copy, or "".

        With `other`, the hub has that path instead, which is the same file on some file systems.

        Raises:
            Busy: it is edited again and again in this very moment.
        """
        for _ in range(MOMENTS):
            mine = self._read_here(path)
            if version_of(mine) == step.after or (step.after == ABSENT and not other):
                return ""
            steps = [Revision(path, version_of(mine), step.after, mine, step.new)]
            if self._is_in_the_way(path):
                self._queued[path], steps = step.new, []
            copy, is_new, why = "", False, f"{path} was changed on the hub"
            if mine is not None:
                copy, is_new = self._name_of_copy(path, mine)
                why = f"kept both: {other or path} is the hub's, {copy} was here"
                steps += [Revision(copy, ABSENT, version_of(mine), None, mine)] * is_new
            by = self._authors.get(path, HUB)
            with suppress(Changed):  # edited in this moment: what is here now is kept
                self._transaction.carry_out(Commit(os.urandom(6).hex(), self._now(), by, why, tuple(steps)))
                if copy and self._ledger and self._ledger.knows(path, version_of(mine)):
                    self._ledger.add([(copy, version_of(mine))])
                told.append(Conflict(self._now(), other or path, copy))
                return copy if is_new else ""
        raise Busy(f"{path} is being edited")

    def _place(self, commit: Commit, steps: Iterable[Revision]) -> None:
        """Apply the changes of the hub to the files; an edit at the same moment is kept as pending."""
        made: list[Revision] = []
        for step in steps:
            if self._is_in_the_way(step.path):
                continue
            if version_of(old := self._read_here(step.path)) != step.after:
                made.append(Revision(step.path, version_of(old), step.after, old, step.new))
        if not made:
            return
        self._agreed.add(commit.id)
        try:
            self._transaction.carry_out(
                commit._replace(revisions=tuple(made), follows=self._transaction.past.last_id())
            )
        except Changed:
            self._place_apart(commit, made)
        tombstones.follow(
            self._transaction.past, made, commit.at, bury=True, listed=lost.read(self._transaction.history)
        )

    def _place_apart(self, commit: Commit, steps: Sequence[Revision]) -> None:
        """Apply again after a concurrent edit: of that file both texts are kept, the others are written."""
        for step in steps:
            if version_of(self._read_here(step.path)) == step.before:
                with suppress(Changed):
                    self._transaction.carry_out(commit._replace(revisions=(step,)))
        met = {step.path: step for step in steps if version_of(self._read_here(step.path)) != step.after}
        self.rebase(self.waiting(), met)

    def _has_replaced(self, theirs: Revision, at: str) -> bool:
        """Return True if our history replaced this text of the hub after it was pushed."""
        sql = "SELECT 1 FROM changes JOIN commits USING (n) WHERE path = ? AND before = ? AND at > ?"
        return bool(self._transaction.past.rows(sql, theirs.path, theirs.after, at))

    def _read_here(self, path: str) -> bytes | None:
        """The text at a path, None when there is none; of a file that cannot be read the pending text."""
        with suppress(MemsheafError):
            return self._transaction.present(path)
        return self._queued.get(path)

    def _version_here(self, path: str) -> Version:
        with suppress(MemsheafError):
            return version_of(self._transaction.present(path))
        return "cannot be read"

    def _is_in_the_way(self, path: str) -> bool:
        """Return True if a link, a folder or a file that is too large stands at a path, which is noted."""
        try:
            self._transaction.present(path)
        except MemsheafError as error:
            state = self.state
            self.save(state._replace(left={**state.left, path: str(error)}))
            return True
        return False

    def _name_of_copy(self, path: str, text: bytes) -> tuple[str, bool]:
        """The name under which a text is kept beside the one that has its path, and whether it is still free: another
        machine that met the same text may have kept it already."""
        names = set(map(fold, self._transaction.past.heads(None)))
        for number in count(2):
            name = with_suffix(path, f"-{number}")
            found = self._read_here(name)
            if found == text or (found is None and fold(name) not in names):
                return check_stored(name), found is None
        raise AssertionError("counting does not end")
