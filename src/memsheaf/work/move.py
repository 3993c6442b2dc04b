"""Move memories to another scope, and change memories of several scopes together; `work.undo` takes it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from memsheaf.erasure import Proof
from memsheaf.errors import BadHeader, Changed, CreateOnly, MemsheafError, ScopeRefused
from memsheaf.frontmatter import edited
from memsheaf.guard.paths import file_name, fold, is_fact
from memsheaf.memory import Allow, Memory
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change, Commit, Version
from memsheaf.work.undo import MOVE, TOGETHER, undo_together


def move_many(
    source: Sheaf, target: Sheaf, wanted: Iterable[tuple[str, Version]], *, first: str = ""
) -> tuple[Commit, Commit]:
    """Move memories to another scope, all or none: each by its path, at this version or with "" at any.

    They are written there first, so that a crash leaves two of them and never none. What came with a repository is
    unconfirmed afterwards. `undo_together` takes both commits back, and with the id of a `first` commit those that
    were made with that one.

    Raises:
        NotFound, Changed, BadHeader, SecretFound, Duplicate, NotWorth, ReadOnly.
        ScopeRefused: it is the same scope. CreateOnly: it is a fact, which belongs to its repository.
    """
    if source.root == target.root:
        raise ScopeRefused(f"the memories are in the scope {source.scope} already")
    source.writer.require_writable()
    memories = [_movable(source, path, version) for path, version in wanted]
    taken: set[str] = set()
    changes = []
    for memory in memories:
        target.writer.refuse_personal(memory)
        target.writer.refuse_duplicate(memory._replace(path=""))
        path = _free_path(memory, target, taken)
        text = edited(memory.text, fields={"trust": "unconfirmed"}) if memory.shared else memory.text
        changes.append(Change(path, text.encode(), ABSENT))
    said = memories[0].name if len(memories) == 1 else f"{len(memories)} memories"
    why = f"{MOVE}{said} from {source.scope}{TOGETHER + first if first else ''}"
    added = target.change_many(changes, why, by=target.by, allow=Allow(anyway=True))
    gone = [Change(memory.path, None, memory.version) for memory in memories]
    why = f"{MOVE}{said} to {target.scope}{TOGETHER}{first or added.id}"
    try:
        return added, source.change_many(gone, why, by=source.by)
    except MemsheafError:
        target.undo(added.id)  # or it would be in both
        raise


def change_together(
    chosen: Mapping[Sheaf, Sequence[tuple[str, Version]]], do: str, target: Sheaf | None = None
) -> tuple[Sheaf, Commit] | None:
    """Forget, confirm, pin, unpin or move memories of several scopes; gives what `undo_together` takes back, if any.

    Raises what these raise: then nothing is done, and what was done in the scopes before is undone.
    """
    done: tuple[Sheaf, Commit] | None = None
    try:
        for sheaf, wanted in chosen.items():
            made = _change(sheaf, wanted, do, target, done[1].id if done else "")
            done = done or made
    except MemsheafError:
        if done:
            undo_together(done[0], done[1].id, [*chosen, *([target] if target else ())])
        raise
    return done


def _change(
    sheaf: Sheaf, wanted: Sequence[tuple[str, Version]], do: str, target: Sheaf | None, first: str
) -> tuple[Sheaf, Commit] | None:
    """Change memories of one scope; what is done together with a commit `first` says so."""
    also = f"{TOGETHER}{first}" if first else ""
    if do == "forget":
        many = f"forget {len(wanted)} memories" if also else ""
        return sheaf, sheaf.forget_many(wanted, why=many + also)
    if do in ("confirm", "pin", "unpin"):
        is_pin = do != "confirm"
        commit = sheaf.pin_many(wanted, do == "pin", also=also) if is_pin else sheaf.confirm_many(wanted, also=also)
        return (sheaf, commit) if commit else None
    if target is None or sheaf is target:
        return None  # it is there already
    return target, move_many(sheaf, target, wanted, first=first)[0]  # where the first of the two commits is


def _movable(source: Sheaf, path: str, version: Version) -> Memory:
    memory = source.read(path)
    if version and version != memory.version:
        raise Changed(memory.path)
    if is_fact(memory.path):
        raise CreateOnly(memory.path)
    if memory.state != "ok":
        raise BadHeader(memory.path, memory.problem or "there is none")
    return memory


def _free_path(memory: Memory, target: Sheaf, taken: set[str]) -> str:
    """The path of a memory in another scope: the one it has, or one like it where that is taken."""

    def is_taken(path: str) -> bool:
        return fold(path) in taken or target.reader.find(path) is not None

    path = memory.path if not is_taken(memory.path) else file_name(memory.kind, memory.name, is_taken)
    taken.add(fold(path))
    return path


def erase_everywhere(sheaf: Sheaf, path: str, others: Iterable[Sheaf]) -> Proof:
    """Erase a memory for good, also from the journals of the scopes that it was moved from, or back from.

    What has had such a text and is there today is another memory: it stays, and the proof names it.
    Raises NotFound.
    """
    steps = (step for commit in sheaf.log(path) for step in commit.revisions)
    versions = {version for step in steps for version in (step.before, step.after) if version}
    proof = sheaf.erase(path)
    for other in {**{one.root: one for one in others}, sheaf.root: sheaf}.values():
        steps = (step for commit in other.log() for step in commit.revisions)
        for name in sorted({step.path for step in steps if not versions.isdisjoint((step.before, step.after))}):
            if other.reader.find(name):
                proof = proof._replace(elsewhere=(*proof.elsewhere, f"{other.scope}:{name}"))
                continue
            try:
                more = other.erase(name)
            except MemsheafError as error:
                proof = proof._replace(left=(*proof.left, f"{other.scope}:{name} ({error})"))
                continue
            added = {field: getattr(proof, field) + getattr(more, field) for field in _ADDED}
            proof = proof._replace(names=tuple(dict.fromkeys((*proof.names, *more.names))), **added)
    return proof


_ADDED = ("versions", "files", "bytes", "left", "elsewhere", "git", "remedy", "erasures", "machines")
