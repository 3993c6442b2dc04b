"""Rules for facts: each cites its evidence, is never edited, and is retired only by one that supersedes it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from memsheaf.errors import CreateOnly, Exists, MemsheafError, TextRefused, hinted
from memsheaf.guard.citations import parse as place_of
from memsheaf.guard.paths import FACTS, is_fact
from memsheaf.index.search import Index
from memsheaf.memory import Memory
from memsheaf.store import ABSENT, Change
from memsheaf.store.folder import FolderStore
from memsheaf.text.similarity import words


class FactRules:
    """The rules for the facts of one scope; `find` gives a memory as it is now, None when there is none."""

    def __init__(self, store: FolderStore, index: Index, find: Callable[[str], Memory | None]) -> None:
        self._store = store
        self._index = index
        self._find = find

    def with_retired(self, changes: Sequence[Change], made: Mapping[str, Memory], by: str) -> list[Change]:
        """The changes, with the removal of each fact that a new one supersedes. Raises CreateOnly, TextRefused."""
        named = {
            path
            for change in changes
            if change.expect == ABSENT and change.path in made and is_fact(change.path)
            for path in made[change.path].supersedes
            if is_fact(path)
        }
        for change in changes:
            if is_fact(change.path) and change.expect == ABSENT and change.path in made:
                _refuse_incomplete(made[change.path])
                if by != "import":  # what comes in was looked at file by file
                    self._refuse_twin(made[change.path], named, by)
        given = {change.path for change in changes}
        replaced = {path: found for path in named - given if (found := self._find(path))}
        for change in changes if by != "user" else ():
            self._refuse_other_subject(made.get(change.path))
        for change in changes:
            if not is_fact(change.path) or change.expect == ABSENT:
                continue
            if change.data is not None and (found := self._find(change.path)):
                self.refuse_rewriting(made[change.path], found)
            elif by != "user" and change.data is None and change.path not in named:
                raise CreateOnly(change.path)
        return [*changes, *(Change(found.path, None, found.version) for found in replaced.values())]

    def _refuse_twin(self, memory: Memory, retired: Collection[str], by: str) -> None:
        """Raise Exists for a second fact on one subject; for a machine also in the place of one that was retired."""
        for row in self._index.rows("path LIKE ?", f"{FACTS}%"):
            if row.path not in (memory.path, *retired) and words(row.name) == words(memory.name):
                raise _beside(row.path, "it is about the same")
        if by != "user" and any(self._store.history(memory.path)):
            raise _beside(memory.path, "a fact had this name, and was retired")

    def _refuse_other_subject(self, memory: Memory | None) -> None:
        """Raise CreateOnly when a fact would retire one about something else, and no person says so."""
        for path in memory.supersedes if memory and is_fact(memory.path) else ():
            found = self._find(path) if is_fact(path) else None
            if found and words(found.name) != words(memory.name if memory else ""):
                raise CreateOnly(path)

    def superseded_by(self, memory: Memory) -> list[str]:
        """The facts here that a new memory would retire."""
        return [path for path in memory.supersedes if is_fact(memory.path) and is_fact(path) and self._find(path)]

    def present(self) -> list[Memory]:
        """The facts that are here now."""
        found = []
        for row in self._index.rows("path LIKE ?", f"{FACTS}%"):
            with suppress(MemsheafError):
                if memory := self._find(row.path):
                    found.append(memory)
        return found

    def refuse_superseded(self, memory: Memory, facts: Iterable[Memory]) -> None:
        """Raise Exists when a fact that is gone would come back beside the one that is in its place."""
        for one in facts:
            if memory.path in one.supersedes or (one.path != memory.path and words(one.name) == words(memory.name)):
                raise hinted(
                    Exists(one.path, f"it stands in the place of {memory.path!r}"),
                    "`memsheaf undo` of what superseded it brings the old one back, and takes the new away.",
                )

    def refuse_rewriting(self, memory: Memory, found: Memory) -> None:
        """Raise CreateOnly when a fact would say something else than it does."""
        if is_fact(found.path) and content_of(memory) != content_of(found):
            raise CreateOnly(found.path)

    @staticmethod
    def without_hashes(memory: Memory) -> list[str]:
        """The places of a fact without their hashes, which showed what it said before."""
        return [str(place._replace(hash="")) if (place := place_of(text)) else text for text in memory.citations]


def content_of(memory: Memory) -> tuple[object, ...]:
    """The content of a fact, without its source and trust."""
    return memory.name, memory.description, memory.kind, memory.citations, memory.reason, memory.body, memory.expires


def _refuse_incomplete(memory: Memory) -> None:
    """Raise TextRefused for a new fact that lacks what shows it to be true."""
    places = [place for text in memory.citations if (place := place_of(text)) and (place.first or place.symbol)]
    lacking = [what for what, has in (("a cited place", places), ("a reason", memory.reason)) if not has]
    if memory.state != "ok" or not memory.known:
        lacking.append("a header with name, description and type")
    if lacking:
        raise hinted(
            TextRefused(f"{memory.path!r} is no fact yet: it lacks {', '.join(lacking)}"),
            "`memsheaf fact add` asks for all that a fact needs; elsewhere it can be an ordinary memory.",
        )


def _beside(path: str, why: str) -> Exists:
    hint = "A fact is corrected by one that supersedes it; `memsheaf log` tells what became of a retired one."
    return hinted(Exists(path, why), hint)
