"""What waits for a person: proposals in a queue, each in a file of its own, until it is approved or rejected."""

from __future__ import annotations

from memsheaf.errors import NotFound
from memsheaf.recall.turns import Proposal
from memsheaf.store.state import State
from memsheaf.values import NamedTuple, sha256

_PREFIX, _SUFFIX = "proposal-", ".json"


class QueuedProposal(NamedTuple):
    """A proposal that waits, since when, and why a person is asked."""

    id: str
    at: str
    why: str
    proposal: Proposal


class Queue:
    """The proposals of one scope that wait for a person, in the order in which they came."""

    def __init__(self, state: State) -> None:
        self._state = state

    def put(self, proposal: Proposal, *, at: str, why: str) -> str:
        """Queue a proposal and give its id; the same proposal has the same id, so it waits once."""
        name = sha256("\0".join(map(str, proposal[:6])).encode("utf-8", "replace")).hexdigest()[:8]
        if self._load(name) is None:
            self._state.save(f"{_PREFIX}{name}{_SUFFIX}", {**proposal._asdict(), "at": at, "asked": why})
        return name

    def all(self) -> list[QueuedProposal]:
        """All that wait, the oldest first."""
        names = [name for name in self._state.names() if name.startswith(_PREFIX) and name.endswith(_SUFFIX)]
        found = [self._load(name[len(_PREFIX) : -len(_SUFFIX)]) for name in names]
        return sorted((one for one in found if one), key=lambda one: (one.at, one.id))

    def get(self, name: str) -> QueuedProposal:
        """The one whose id begins so. Raises NotFound when there is none, or more than one."""
        found = [one for one in self.all() if name and one.id.startswith(name)]
        if len(found) != 1:
            raise NotFound(name)
        return found[0]

    def remove(self, name: str) -> None:
        """Let one go: it was decided."""
        self._state.remove(f"{_PREFIX}{name}{_SUFFIX}")

    def _load(self, name: str) -> QueuedProposal | None:
        found = self._state.load(f"{_PREFIX}{name}{_SUFFIX}")
        if not isinstance(found, dict):
            return None
        values = {key: found.get(key, "") for key in Proposal._fields}
        explicit = values.pop("explicit") is True
        if not all(isinstance(value, str) for value in (found.get("at"), found.get("asked"), *values.values())):
            return None
        return QueuedProposal(name, found["at"], found["asked"], Proposal(**values, explicit=explicit))
