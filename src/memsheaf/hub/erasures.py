"""Erasures on a hub scope: telling the hub, carrying out here what others erased, and reporting that it was done."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from types import MappingProxyType

from memsheaf.errors import NotFound, PathRefused, StoreFailed, TextRefused
from memsheaf.guard.paths import is_memory_path, with_suffix
from memsheaf.hub import Erasure, Hub, HubSettings, Machine, Pulled
from memsheaf.hub.replica_state import ERASED, ReplicaState, read_state, write_state
from memsheaf.store import ABSENT, Commit, Revision, Version, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.transaction import Transaction


class Erasures:
    """The erasures that one replica remembers in its state."""

    def __init__(
        self,
        settings: HubSettings,
        hub: Hub,
        state: Callable[[], ReplicaState],
        change_state: Callable[[Callable[[ReplicaState], ReplicaState]], None],
        transaction: Callable[[], AbstractContextManager[Transaction]],
        now: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._hub = hub
        self._state = state
        self._change_state = change_state
        self._transaction = transaction
        self._now = now

    def queue(self, erasure: Erasure) -> None:
        """Have the hub told of an erasure, now or by a later sync."""
        self._change_state(lambda now: now._replace(erasing=(*now.erasing, erasure)))

    def tell_hub(self) -> None:
        """Tell the hub what is queued. Raises HubUnreachable, HubRefused."""
        queued = self._state().erasing
        for erasure in queued:  # to tell it again changes nothing
            self._hub.erase(erasure)
        if queued:
            self._change_state(lambda now: now._replace(erasing=tuple(e for e in now.erasing if e not in queued)))

    def note(self, erasure: Erasure, left: str) -> None:
        """Remember that an erasure was carried out here, and what was left of it."""

        def add(now: ReplicaState) -> ReplicaState:
            return now._replace(erased=(*now.erased, erasure)[-ERASED:], proofs={**now.proofs, erasure.id: left})

        self._change_state(add)

    def carry_out(
        self,
        erasure: Erasure,
        store: FolderStore,
        eraser: Callable[[str], Sequence[str]],
        waiting: Iterable[Commit],
        unseen: Collection[str] | None,
    ) -> list[str]:
        """Erase here what was erased elsewhere, and give the names that went. A memory that has the name since, and
        nothing of it, stays.

        A folder that comes to the hub may have a name that was erased there for a memory of its own.
        """
        erasure = erasure._replace(names=tuple(filter(is_memory_path, erasure.names)))
        gone: list[str] = []
        left: list[str] = []
        blocked: dict[str, str] = {}
        fresh = {step.path for one in waiting for step in one.revisions if step.before == ABSENT}
        renamed = [  # by pending commits
            path for path in fresh if any(older in erasure.names for older in find_older_names(store, path))
        ]
        for name in (*renamed, *erasure.names):
            try:
                if name in renamed or may_have_had(store, name, erasure.versions, unseen):
                    later = None if name in renamed else recreation(store, name, erasure.versions, unseen)
                    with kept_aside(later, self._transaction, self._now()):
                        left += eraser(name)
                        gone += [name] if later is None else []
            except NotFound:
                continue
            except (PathRefused, StoreFailed, TextRefused) as error:  # it is erased when that is out of the way
                blocked[name] = str(error)
        if blocked:
            proof = {erasure.id: ", ".join([*left, *blocked])}
            self._change_state(lambda now: now._replace(left={**now.left, **blocked}, proofs={**now.proofs, **proof}))
        else:
            self.note(erasure, ", ".join(left))
        return gone

    def report(self, clock: float, left: Mapping[str, str] = MappingProxyType({})) -> None:
        """Tell the hub that this machine is there, and what it erased; `left` corrects what was left, by erasure."""
        state = self._state()
        proofs = {**state.proofs, **left}
        if state.erased:  # all of it: the hub may have lost a report, or know it of the machine this was copied from
            before = {one.id: dict(one.erased) for one in self._hub.users()[1]}.get(
                state.machine or self._settings.machine, {}
            )
            proofs = {one.id: before.get(one.id, "") for one in state.erased} | proofs
        here = self._settings.machine, self._settings.machine_name, self._hub.me, self._now()
        self._hub.report(Machine(*here, tuple(proofs.items())))

        def forget_sent(now: ReplicaState) -> ReplicaState:
            return now._replace(
                proofs={name: found for name, found in now.proofs.items() if name not in proofs},
                reported_at=clock,
                machine=self._settings.machine,
            )

        self._change_state(forget_sent)


def without_erased(pulled: Pulled, erased: Iterable[Erasure]) -> tuple[Pulled, Erasure | None]:
    """Return what was pulled without what was erased here once; and the erasure that tells the hub to do it again."""
    gone = {(name, version) for one in erased for name in one.names for version in one.versions}
    back = {(s.path, s.after) for one in pulled.commits for s in one.commit.revisions if (s.path, s.after) in gone}
    if not back:
        return pulled, None
    commits = []
    for one in pulled.commits:
        steps = tuple(step for step in one.commit.revisions if (step.path, step.after) not in back)
        commits.append(one._replace(commit=one.commit._replace(revisions=steps)))
    names, versions = zip(*sorted(back), strict=True)
    return pulled._replace(commits=commits), Erasure(os.urandom(6).hex(), names, versions)


def find_older_names(store: FolderStore, path: str) -> set[str]:
    """Return the names that a text had before it was renamed."""
    nothing: set[str] = set()
    return store.ask_history(lambda past: {name for _, name in past.steps_before_renaming(path)}, nothing)


def may_have_had(store: FolderStore, path: str, erased: Collection[Version], unseen: Collection[str] | None) -> bool:
    """Return True if a path had an erased text here, or may have had it.

    It has not if all that is known of it is `unseen`, the commits that no pull has brought yet, or if the folder is
    about to come to its hub (None).
    """
    commits = list(store.history(path))
    found = {version for commit in commits for version in commit.revisions[0][1:3]}
    with suppress(NotFound):
        found.add(store.read(path).version)
    is_other = unseen is None or (commits and all(commit.id in unseen for commit in commits))
    return not (is_other and found.isdisjoint(erased))


def recreation(
    store: FolderStore, path: str, erased: Collection[Version], unseen: Collection[str] | None
) -> Commit | None:
    """The commit that makes the memory at a path anew, None when it has to go.

    It stays when it goes back to no erased text, and was made by a person in the folder or by a commit that no pull
    has brought yet, one of `unseen` (None: any).
    """
    try:
        data = store.read(path).data
    except NotFound:
        return None
    version = version_of(data)
    made = Commit("", "", "outside", "", (Revision(path, ABSENT, version, None, data),))
    for number, commit in enumerate(store.history(path)):
        step = commit.revisions[0]
        if version in erased or (number == 0 and step.after == ABSENT):
            break
        if step.before in erased or step.after in erased:
            return None
        if step.before == ABSENT:
            is_new = unseen is None or commit.id in unseen
            return made._replace(by=commit.by, why=commit.why) if is_new else None
    return None if version in erased else made


@contextmanager
def kept_aside(
    memory: Commit | None, transaction: Callable[[], AbstractContextManager[Transaction]], at: str
) -> Iterator[None]:
    """Have a memory under another name while its own is erased: a machine that dies in between has it there.

    That name is not pushed unless it does.
    """
    if memory is None:
        yield
        return
    (step,) = memory.revisions
    copy = with_suffix(step.path, f"-{os.urandom(4).hex()}")
    away, back = _move(memory, step.path, copy, at), _move(memory, copy, step.path, at)
    with transaction() as opened:
        opened.carry_out(away)
    with suppress(NotFound):
        yield
    with transaction() as opened:
        opened.carry_out(back)
        alone = memory._replace(id=os.urandom(6).hex(), at=at)
        opened.note(alone)
        state = read_state(opened.history)
        pending = tuple(name for name in state.pending if name not in (away.id, back.id))
        write_state(opened.history, state._replace(pending=pending))


def _move(memory: Commit, source: str, target: str, at: str) -> Commit:
    (step,) = memory.revisions
    steps = Revision(source, step.after, ABSENT, step.new), Revision(target, ABSENT, step.after, None, step.new)
    return memory._replace(id=os.urandom(6).hex(), at=at, revisions=steps)
