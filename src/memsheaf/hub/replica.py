"""A replica: a folder whose changes a hub puts in order.

A commit is checked here, pushed, which decides it, and then placed as in any folder. Killed in between, the next pull
brings it. What a person saves in the folder, and what is changed while the hub does not answer, is a commit of this
journal that is `pending`: `sync` pushes it later with the same check. Where both sides changed one memory, the hub's
text stands at its path and the other one beside it under a free name; no text is ever merged by guesswork.

What is pulled is compared by versions, not by what was pulled before: a pull that comes twice, or that a crash cut
short, ends in the same files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from memsheaf.errors import (
    Busy,
    Changed,
    HubRefused,
    HubRestored,
    HubUnreachable,
    MemsheafError,
    NotFound,
    PathRefused,
    Ref,
)
from memsheaf.hub import Erasure, Hub, HubCommit, HubSettings, Pulled, deadline, time_left
from memsheaf.hub.erasures import Erasures, without_erased
from memsheaf.hub.exchange import attribute, for_hub, may_push
from memsheaf.hub.merge import NOT_TAKEN, Merge
from memsheaf.hub.replica_state import (
    ReplicaState,
    Synced,
    add_ahead,
    has_another_hub,
    note_pending,
    read_ahead,
    read_state,
    write_state,
)
from memsheaf.state.trust import TrustLedger
from memsheaf.store import ABSENT, Change, Commit, Erased, Version
from memsheaf.store.folder import FolderStore
from memsheaf.store.transaction import Transaction

AT_ONCE = 100  # commits that are pushed together
REFUSED = 5  # memories that a hub does not take, after which the rest waits
ROUNDS = 5  # of pulling and pushing in one sync, while others push
CATCH_UP = 2.0  # seconds that a refused change waits for the one that was faster
RETRY_AFTER = 15.0  # seconds in which a hub that did not answer is not asked again by a change
_LOCAL_LOCKS = ("turn", "hub")


class _PendingFirst(MemsheafError):
    """A file was edited outside: that has to be pushed before what builds on it."""


class Replica(FolderStore):
    """One machine's folder of a scope that has a hub."""

    def __init__(self, root: str, settings: HubSettings, hub: Hub, **options: object) -> None:
        super().__init__(root, **options)  # type: ignore[arg-type]  # those of FolderStore
        self.settings = settings
        self.hub = hub
        self.announce = self._announce
        self._agree = self._push
        self._agreed: set[str] = set()  # commits that the hub has
        self.erasures = Erasures(settings, hub, self.state, self._change_state, self.transaction, self._now)
        self._only_here = False  # what is erased is what the hub erased
        self._gone: list[str] = []  # what was erased here since the last sync, as others erased it
        self._is_behind = False  # the hub refused a change: it has a text that is not here
        self.was_cut_short = False  # the hub did not answer within the deadline of a change that waits now
        self.eraser: Callable[[str], Sequence[str]] | None = self._erase_file
        """Erases a memory wherever this machine has it, and gives what was left; None while that has to wait."""
        self.ledger: TrustLedger | None = None
        """On a scope of several members: what this one wrote or accepted; the rest is shared."""

    # changing

    def commit(self, changes: Sequence[Change], *, by: str, why: str = "", undoes: str = "") -> Commit:
        """Make all the changes or none: the hub decides.

        Raises:
            Changed: somebody was faster, here or elsewhere; what they wrote is here by now.
            HubUnreachable, HubRefused, HubRestored: the hub did not take it, and changes are not queued.
            As FolderStore.commit.
        """
        self.settings.check_address()
        for last in (False, True):
            try:
                if self.state().pending:  # what waits goes first, as this change may build on it
                    self._try_sync()
                return super().commit(changes, by=by, why=why, undoes=undoes)
            except Changed as error:
                if self._is_behind:
                    self._catch_up(error.ref.path)
                # a hub that queues and fails has not said what replaced the text: the change is kept as pending
                if last or not (self.settings.queues and self._is_down(self.state())):
                    raise
            except _PendingFirst:
                if last:
                    raise Busy("the files are edited faster than the hub takes them") from None
        raise AssertionError("the second time is the last")

    def _try_sync(self) -> None:
        """Sync in the time of a change, unless the hub failed a moment ago; `hub status` tells what went wrong.

        Raises HubRefused, HubRestored when changes are not queued.
        """
        tolerated = (MemsheafError,) if self.settings.queues else (HubUnreachable, Busy)
        if not self._is_down(self.state()):
            with suppress(*tolerated), deadline(self.settings.time_for(0)):
                self.sync()

    def _push(self, transaction: Transaction, commit: Commit) -> None:
        """Ask the hub for a commit that was checked and staged. The lock is held."""
        merge = self._merge(transaction)
        state = merge.state
        if not state.joined or has_another_hub(transaction.history, self.settings):
            return  # what it has by now gets it with the next sync
        try:
            if self._is_down(state):
                raise HubUnreachable(f"the hub {self.settings.shown} did not answer a moment ago")
            waits = {step.path for one in merge.waiting() for step in one.revisions}
            waits &= {step.path for step in commit.revisions}
            if waits - state.held.keys():
                raise HubUnreachable(f"the hub {self.settings.shown} has not taken what waits")
            if waits or not may_push(commit):
                merge.note_edited(commit)
                return  # it builds on what is held here, or the next sync holds or splits it
            with deadline(self.settings.time_for(sum(len(step.new or b"") for step in commit.revisions))):
                self.hub.push(for_hub(commit))
        except Changed:
            if merge.note_edited(commit):
                raise _PendingFirst from None
            self._is_behind = True
            raise
        except PathRefused:
            raise  # another name is needed
        except MemsheafError as error:
            is_silent = isinstance(error, HubUnreachable | Busy)
            if not (is_silent or self.settings.queues):
                raise
            merge.note_edited(commit)
            if not self._is_down(state):
                self.was_cut_short = is_silent
                merge.save(self._failing(error, merge.state), durable=False)
            if not self.settings.queues:
                raise HubUnreachable(f"{error}; nothing was saved here") from error
            return
        self._agreed.add(commit.id)
        add_ahead(transaction.history, commit.id, [step.path for step in commit.revisions])
        if state.down_at:
            merge.save(state._replace(down_at=0.0, failed=""), durable=False)

    def _failing(self, error: MemsheafError, state: ReplicaState) -> ReplicaState:
        """The state after the hub failed with this error, which `hub status` shows until it works again."""
        if self.settings.queues and error.hint == HubUnreachable.hint:
            error.hint = "Reading goes on, and changes are kept here until it answers."
        state = state._replace(failed=f"{error}. {error.hint}")
        is_of_commit = getattr(error, "is_of_commit", False)
        if isinstance(error, HubUnreachable | Busy) or (self.settings.queues and not is_of_commit):
            return state._replace(down_at=self._clock())
        return state

    def _is_down(self, state: ReplicaState) -> bool:
        """Return True if the hub failed a moment ago: whoever waits for a change is not made to wait again."""
        return state.down_at > 0 and 0 <= self._clock() - state.down_at < RETRY_AFTER

    def _announce(self, transaction: Transaction, commit: Commit) -> None:
        """Note that a commit is pending before its line is written, unless the hub has it."""
        if commit.id in self._agreed:
            return
        if self.ledger:
            self.ledger.add_outside(commit)
        note_pending(transaction.history, commit)

    def _catch_up(self, path: str) -> None:
        """Bring what was faster than a change of ours, as far as the hub tells by now."""
        self._is_behind = False
        before = self._version_here(path)
        ends = time.monotonic() + CATCH_UP
        while True:
            self._try_sync()
            if self._version_here(path) != before or time.monotonic() > ends or self._is_down(self.state()):
                break
            time.sleep(0.05)

    def _version_here(self, path: str) -> Version:
        with suppress(MemsheafError):
            return self.read(path).version
        return ABSENT

    # syncing

    def state(self) -> ReplicaState:
        """Return what is remembered of the hub."""
        return self._ask_folder(read_state, ReplicaState())

    @property
    def member(self) -> str:
        """The name that this machine's user has on the hub, "" where it cannot tell."""
        return self.state().member

    def waiting(self) -> list[Commit]:
        """The commits that the hub has not seen, oldest first."""
        with self.transaction() as transaction:
            return self._merge(transaction).waiting()

    def unsent(self) -> dict[str, str]:
        """The memories that the hub does not have as they are here, by path, and why."""
        if not (state := self.state()).pending:
            return {}
        waits = {step.path: "waits for the hub" for one in self.waiting() for step in one.revisions}
        return waits | {path: f"not sent to the hub: {why}" for path, why in state.held.items()}

    def sync(self, *, again: bool = False) -> Synced:
        """Bring what others pushed, and push what waits here; `again` as if it were the first time.

        Raises:
            HubUnreachable, HubRefused, HubRestored.
            Busy: another process is at it.
        """
        self.settings.check_address()
        pulled: list[HubCommit] = []
        pushed: list[Commit] = []
        whole, is_through = False, True
        refused: HubRefused | None = None
        before = self.state()
        with self.lock("hub", wait=time_left(self.wait)):
            with self.transaction() as transaction:
                if has_another_hub(transaction.history, self.settings):
                    raise HubRefused("this scope has another hub by now; open it again")
            try:
                for _ in range(ROUNDS):
                    with suppress(HubRefused):  # who may not write reads all the same
                        self.erasures.tell_hub()
                    came = self._pull(again)
                    again = False
                    if self.eraser and not is_through and not (came.commits or came.whole):  # the cursor is wrong
                        came = self._pull(again=True)
                    pulled += came.commits
                    whole |= came.whole
                    sent, refused, is_through = self._send()
                    pushed += sent
                    if is_through:
                        break
            except Busy:
                raise
            except MemsheafError as error:  # most syncs have nobody to tell: `hub status` does
                self._change_state(partial(self._failing, error))
                raise
        why = f"{refused}. {refused.hint}" if refused else ""
        lacking = why if refused and refused.lacks_permission else ""
        failed = "" if lacking else why
        if (lacking, failed) != (before.refused, before.failed):
            self._change_state(lambda now: now._replace(refused=lacking, failed=failed))
        state = self.state()
        fresh = tuple(one for one in state.told if one not in before.told)
        gone, self._gone = tuple(self._gone), []
        told = len(state.pending) - len(state.held), fresh, state.held, state.left, gone
        return Synced(tuple(pulled), tuple(pushed), *told, whole, why, bool(lacking))

    def rejoin(self) -> Synced:
        """Merge both sides again, as at first: no text is lost on either, and what waits here goes on waiting.

        What was erased is erased again where a hub has it back. Where this member may not write, the hub's texts
        are put back instead; ours stay in the journal, and memories that the hub never had stay here.
        """
        with suppress(HubRestored):
            if self.state().refused and self.sync().lacks_permission:
                with self.lock("hub"), self.transaction() as transaction:
                    self._merge(transaction).withdraw()
                return self.sync()
        return self.sync(again=True)

    def _pull(self, again: bool = False) -> Pulled:
        """Bring what is new on the hub; `again` and at first merge all that it has. Changes nothing if it fails."""
        before, sent = self.state(), self._ahead()
        state = before._replace(joined=before.joined and not again)
        cursor = state.cursor if state.joined else ""
        if cursor and any(map(self._can_place, state.left)):
            self.hub.pull(cursor)  # raises HubRestored: a hub that was emptied does not say what was removed
            cursor = ""
        pulled = attribute(self.hub.pull(cursor), self.ledger, self.settings)
        if state.joined and not pulled.whole and not sent.keys() <= {one.commit.id for one in pulled.commits}:
            raise HubRestored(f"{self.settings.shown} lacks what was pushed to it before")
        if state.joined and not (pulled.commits or pulled.erasures or pulled.whole or state.down_at):
            return pulled
        if not state.joined:
            pulled, erased_again = without_erased(pulled, state.erased)
            if erased_again:
                self.erasures.queue(erased_again)
        done = {one.id for one in state.erased}
        erasures = [one for one in pulled.erasures if one.id not in done]
        if state.joined and not cursor:  # they are known, but for those that could not be carried out
            erasures = [one for one in erasures if not state.left.keys().isdisjoint(one.names)]
        if erasures and self.eraser is None:
            return Pulled((), state.cursor)  # a sync of the whole scope brings it: more than the folder has the text
        if pulled.whole and state.left:
            self._change_state(lambda now: now._replace(left={}))
        if erasures and state.joined and not pulled.whole and self._send()[0]:
            return self._pull()  # what may stay: an erasure takes from the rest what it was made from
        for erasure in erasures:
            self._erase_pulled(erasure, is_joining=not state.joined)
        if pulled.whole and state.joined and self._send()[0]:
            return self._pull()  # a push whose answer was lost may have arrived, which a whole pull does not show
        with self.transaction() as transaction:
            merge = self._merge(transaction)
            if (merge.state.joined, merge.state.cursor) != (before.joined, before.cursor):
                raise Busy("the hub of this scope was changed in this moment")
            if state.joined:
                merge.apply(pulled, sent)
            else:
                found = (entry.path for entry in self.scan() if not entry.problem)
                merge.join(pulled, (*(path for path in found if path and path[-1] != "/"), *self.events()))
            state = merge.state._replace(joined=True, cursor=pulled.cursor, member=self.hub.me, down_at=0.0)
            merge.save(state._replace(pulled_at=self._now()))
        return pulled

    def _ahead(self) -> dict[str, list[str]]:
        return self._ask_folder(read_ahead, {})

    def _can_place(self, path: str) -> bool:
        """Return True if what stood in the way of a memory is gone."""
        with suppress(MemsheafError), self.transaction() as transaction:
            transaction.present(path)
            return True
        return False

    def _send(self) -> tuple[list[Commit], HubRefused | None, bool]:
        """Tell erasures and push what waits: what went, why the hub does not take it, and whether that was all."""
        pushed: list[Commit] = []
        try:
            self.erasures.tell_hub()
            return pushed, None, self._push_pending(pushed)
        except HubRefused as error:
            return pushed, error, True

    def _push_pending(self, pushed: list[Commit]) -> bool:
        """Push what waits, in order, and add it to `pushed`; gives whether the hub took all that may go."""
        if not self.state().pending:
            return True
        with self.transaction() as transaction:
            merge = self._merge(transaction)
            waiting, state = merge.hold(), merge.state
            known = {one.id for one in waiting}
            merge.save(state._replace(pending=tuple(name for name in state.pending if name in known)))
        kept = {path for path, why in state.held.items() if not why.startswith(NOT_TAKEN)}
        free = [one for one in waiting if kept.isdisjoint(step.path for step in one.revisions)]
        groups = [free[start : start + AT_ONCE] for start in range(0, len(free), AT_ONCE)]
        refused = 0
        while groups:
            group = groups.pop(0)
            paths = [step.path for one in group for step in one.revisions]
            try:
                to_push = [one for one in map(for_hub, group) if one.revisions]
                if to_push:
                    self.hub.push(*to_push)
            except (Changed, PathRefused, HubRefused) as error:
                if middle := len(group) // 2:  # the halves show which one is refused
                    groups[:0] = [group[:middle], group[middle:]]
                    continue
                if not isinstance(error, HubRefused):
                    return False
                if not error.is_of_commit:
                    raise
                with self.transaction() as transaction:
                    now = read_state(transaction.history)
                    held = {**now.held, **dict.fromkeys(paths, f"{NOT_TAKEN}{error}")}
                    write_state(transaction.history, now._replace(held=held))
                if len(paths) > 1:
                    return self._push_pending(pushed)  # each alone
                refused += 1
                if refused == REFUSED and groups:
                    raise  # the rest waits for the same reason
                continue
            with self.transaction() as transaction:
                now = read_state(transaction.history)
                for commit in to_push:
                    add_ahead(transaction.history, commit.id, [step.path for step in commit.revisions])
                pending = tuple(name for name in now.pending if not any(name == one.id for one in group))
                held = {path: why for path, why in now.held.items() if path not in paths}
                write_state(transaction.history, now._replace(pending=pending, held=held, down_at=0.0))
            pushed += group
        return True

    # erasing

    def erase(self, path: str, *, by: str) -> Erased:
        """Remove a text and every older version of it, here and on the hub, which tells all other machines to.

        Raises:
            NotFound: neither the folder nor the journal knows it.
            Changed: another text came from the hub, which nobody here has seen; nothing was erased.
            HubUnreachable: nothing was erased.
        """
        self.settings.check_address()
        if self._only_here:
            return super().erase(path, by=by)
        path = self.spelling(path)
        seen = self._version_here(path)
        self.sync()
        if self._version_here(path) not in (seen, ABSENT):
            raise Changed(Ref(self.scope, path))
        if self._version_here(path) == ABSENT and not any(self.history(path)):
            raise NotFound(Ref(self.scope, path))
        known = {version for one in self.history(path) for version in one.revisions[0][1:3]} - {ABSENT}
        first = Erasure(os.urandom(6).hex(), (path,), tuple(known))  # the hub may have lost the oldest
        self.hub.erase(first)  # the decision: killed behind it, the next pull tells this machine, too
        erased = super().erase(path, by=by)
        self.erasures.note(first._replace(names=erased.names, versions=erased.versions), "")
        if len(erased.names) > 1:
            rest = Erasure(os.urandom(6).hex(), erased.names, erased.versions)
            self.erasures.queue(rest)
            self.erasures.note(rest, "")
            with suppress(HubUnreachable):  # the next sync tells it
                self.erasures.tell_hub()
        return erased

    def _erase_pulled(self, erasure: Erasure, *, is_joining: bool) -> None:
        unseen = None if is_joining else {*self.state().pending, *self._ahead()}
        self._only_here = True
        try:
            eraser = self.eraser or self._erase_file
            self._gone += self.erasures.carry_out(erasure, self, eraser, self.waiting(), unseen)
        finally:
            self._only_here = False

    def _erase_file(self, path: str) -> Sequence[str]:
        super().erase(path, by="hub")
        return ()

    def _change_state(self, change: Callable[[ReplicaState], ReplicaState]) -> None:
        with self.transaction() as transaction:
            write_state(transaction.history, change(read_state(transaction.history)))

    def _merge(self, transaction: Transaction) -> Merge:
        return Merge(transaction, self._now, self._agreed, self.ledger)

    # the rest

    @contextmanager
    def lock(self, name: str, *, wait: float | None = None) -> Iterator[None]:
        """Let one process at a time do the work called `name`, on all machines. Raises Busy, HubUnreachable."""
        with super().lock(name, wait=wait), ExitStack() as held:
            if name not in _LOCAL_LOCKS and self.state().joined:
                held.enter_context(self.hub.lock(name, wait=wait or 0.0))
            yield

    def prune(self) -> int:
        """Drop retired texts that are past retention, unless something waits for the hub: it may need them."""
        return 0 if self.state().pending else super().prune()

    def close(self) -> None:
        """As FolderStore.close; the connection is let go."""
        if not self.state().pending:
            super().close()
        self.hub.close()
