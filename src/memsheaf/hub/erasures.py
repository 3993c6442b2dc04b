"""What an erasure on a hub means for a replica: what has to go, what came later, and what came back."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from memsheaf.errors import NotFound
from memsheaf.hub import Erasure, Pulled
from memsheaf.store import ABSENT, Commit, Revision, Version, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.transaction import Transaction


def without_erased(pulled: Pulled, erased: Iterable[Erasure]) -> tuple[Pulled, Erasure | None]:
    """What was pulled without what was erased here once; and the erasure that tells the hub to do it again."""
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


def recreation(store: FolderStore, path: str, erased: Collection[Version], unseen: Collection[str]) -> Commit | None:
    """The commit that makes the memory at a path anew, None when it has to go.

    It stays when it goes back to no erased text, and was made by one of the commits that no pull has brought yet.
    """
    try:
        data = store.read(path).data
    except NotFound:
        return None
    version = version_of(data)
    for commit in store.history(path):
        step = commit.revisions[0]
        if {step.before, step.after, version} & {*erased}:
            return None
        if step.before == ABSENT:
            if commit.id not in unseen:
                return None
            return commit._replace(revisions=(Revision(path, ABSENT, version, None, data),), undoes="")
    return None


@contextmanager
def kept_aside(
    memory: Commit | None, transaction: Callable[[], AbstractContextManager[Transaction]], at: str
) -> Iterator[None]:
    """Have a memory under another name while its own is erased: a machine that dies in between has it there."""
    if memory is None:
        yield
        return
    (step,) = memory.revisions
    stem, dot, ending = step.path.rpartition(".")
    copy = f"{stem}-{os.urandom(4).hex()}{dot}{ending}"
    with transaction() as opened:
        opened.carry_out(_moved(memory, step.path, copy, at))
    with suppress(NotFound):
        yield
    with transaction() as opened:
        opened.carry_out(_moved(memory, copy, step.path, at))


def _moved(memory: Commit, source: str, target: str, at: str) -> Commit:
    (step,) = memory.revisions
    steps = Revision(source, step.after, ABSENT, step.new), Revision(target, ABSENT, step.after, None, step.new)
    return memory._replace(id=os.urandom(6).hex(), at=at, revisions=steps)
