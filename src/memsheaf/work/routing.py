"""Route what is learned to the scope it belongs to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from memsheaf.text.phrases import compiled
from memsheaf.work.layers import Layers

# Known to type checkers under this name, so that a start imports no more than it needs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.memory import Memory
    from memsheaf.recall.turns import Proposal
    from memsheaf.sheaf import Sheaf
    from memsheaf.store import Change, Commit
    from memsheaf.store.tombstones import Tombstone

_EVERYWHERE = (
    r"\b(?:always|everywhere|in general|generally|(?:all|any|every|each)(?: of)?(?: my| our)? "
    r"(?:projects?|repos?|repositor(?:y|ies))|across (?:all |my )?(?:projects|repos\w*)"
    r"|immer|überall|generell|grundsätzlich|(?:allen?|jedem)(?: meinen)? (?:projekten?|repos\w*)"
    r"|toujours|partout|en général|(?:tous|chacun de) (?:mes|les) (?:projets|dépôts)|chaque projet"
    r"|siempre|en todas partes|en general|todos (?:mis|los) (?:proyectos|repositorios)|cada proyecto)\b"
    r"|总是|始终|一律|一般来说|(?:所有|任何|每个)(?:的)?(?:项目|仓库)"
    r"|いつも|常に|どこでも|(?:すべて|全て|あらゆる|どの)の?プロジェクト"
)
_HERE = (
    r"\b(?:here|th(?:is|e) (?:project|repo\w*|codebase|package|service|team|folder)"
    r"|hier|(?:diese[ms]|das) (?:projekt|repo\w*)|ici|ce (?:projet|dépôt)|aquí|este (?:proyecto|repositorio))\b"
    r"|这里|(?:本|此|这个)(?:项目|仓库)|ここ|この(?:プロジェクト|リポジトリ)"
)


def holds_everywhere(text: str) -> bool:
    """Whether feedback is said to hold in every project, and not only in this one; its reasons do not count.

    >>> holds_everywhere("Always answer in English."), holds_everywhere("Always run make check in this repository.")
    (True, False)
    """
    said = text.partition("**Why:**")[0].partition("**How to apply:**")[0]
    return bool(compiled(_EVERYWHERE).search(said)) and not compiled(_HERE).search(said)


class Router:
    """The keepers of several scopes as one, for learning: each proposal is kept in the scope that it belongs to.

    Paths are names as the layers show them.
    """

    def __init__(self, layers: Layers) -> None:
        self._layers = layers

    def policy(self, name: str) -> str:
        """How the scope of a name learns; that of the home scope for ""."""
        return self._layers.settings.policy_of(self._place(name)[0].scope)

    def draft(
        self, proposal: Proposal, taken: Collection[str], *, by: str = "extraction"
    ) -> tuple[Change, Memory, Memory | None]:
        """The change that a proposal makes, the memory after it, and the one before; nothing is written."""
        layers = self._layers
        if proposal.replaces:
            sheaf, path = layers.place(proposal.replaces)
        else:
            scopes, wanted = layers.scopes(), f"{proposal.name}\n{proposal.content}"
            scope = proposal.scope if proposal.scope in scopes else layers.scope_for(proposal.kind, wanted)
            sheaf, path = layers.sheaf(scope), ""
        here = [path for place, path in map(self._place, taken) if place is sheaf]
        with layers.naming(sheaf):
            change, memory, was = sheaf.writer.draft(proposal._replace(replaces=path), here, by=by)
        name = layers.name(sheaf, memory.path)
        return change._replace(path=name), memory._replace(path=name), was and was._replace(path=name)

    def judge(self, memory: Memory, was: Memory | None) -> None:
        """Raise what a change would be refused with, a duplicate in a wider scope included."""
        sheaf, path = self._place(memory.path)
        with self._layers.naming(sheaf):
            sheaf.writer.judge(memory._replace(path=path), was and was._replace(path=path))
        if was is None:
            self._layers.refuse_known(memory, sheaf)

    def buried(self, memory: Memory) -> Tombstone | None:
        """The tombstone that stands in the way of learning this."""
        return self._place(memory.path)[0].writer.buried(memory)

    def change_many(self, changes: Sequence[Change], why: str, *, by: str) -> Commit:
        """Make changes of one scope as one commit. Raises Changed."""
        sheaf, _ = self._place(changes[0].path)
        bare = [change._replace(path=self._place(change.path)[1]) for change in changes]
        with self._layers.naming(sheaf):
            return sheaf.writer.change_many(bare, why, by=by)

    def accept(self, change: Change, was: Memory | None, why: str) -> None:
        """Make a change that a person has seen and wants. Raises Changed, SecretFound."""
        sheaf, path = self._place(change.path)
        with self._layers.naming(sheaf):
            sheaf.writer.accept(change._replace(path=path), was and was._replace(path=path), why)

    def bury(self, memory: Memory) -> None:
        """Note that a person rejected this: it is not learned again."""
        self._place(memory.path)[0].writer.bury(memory)

    def _place(self, name: str) -> tuple[Sheaf, str]:
        """The scope of a name that we made, and the path in it; the file need not be there."""
        scope, sign, path = name.rpartition(":")
        return (self._layers.sheaf(scope), path) if sign else (self._layers.own, path)
