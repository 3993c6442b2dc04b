"""The review queue of a scope: proposals that wait for a person, and the last decisions, which can be undone.

`proposal-ID.json` in the state directory is one that waits, `decided-ID.json` a decision about one or about a memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from memsheaf.errors import NotFound
from memsheaf.recall.turns import Proposal, Turn
from memsheaf.store.state import State
from memsheaf.text.neutralize import cut_bytes
from memsheaf.text.similarity import telling
from memsheaf.text.spoken import unwrapped
from memsheaf.text.tokenizer import stem

APPROVED, REJECTED = "approved", "rejected"
DECISIONS = 50  # that are kept
QUOTE_BYTES = 600
_PROPOSAL, _DECIDED = "proposal-", "decided-"
_SENTENCE = r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+"


class QueuedProposal(NamedTuple):
    """A proposal that waits for review, since when, and why a person is asked."""

    id: str
    at: str
    why: str
    proposal: Proposal

    def to_json(self) -> dict[str, object]:
        """As it is kept in a file, and on a hub."""
        return {**self.proposal._asdict(), "at": self.at, "asked": self.why}


class Decision(NamedTuple):
    """What a person decided about a proposal, or about the memory at a path, and the commit that it made, if any."""

    id: str
    at: float
    outcome: str
    reason: str = ""
    path: str = ""
    commit: str = ""
    waiting: QueuedProposal | None = None


class ReviewQueue:
    """The proposals of one scope that wait for review, and the last decisions, each in a file of its own."""

    def __init__(self, state: State) -> None:
        self._state = state

    def put(self, proposal: Proposal, *, at: str, why: str) -> str:
        """Queue a proposal and return its id; the same proposal has the same id, so it waits once."""
        name = sha256("\0".join(map(str, proposal[:6])).encode("utf-8", "replace")).hexdigest()[:8]
        if self._load(name) is None:
            self._keep(QueuedProposal(name, at, why, proposal))
        return name

    def receive(self, given: Mapping[str, object], known: Collection[str]) -> None:
        """Have those wait that a hub has, by id, and none of the `known` that it has no longer."""
        for name, value in given.items():
            if _parse(name, value) and self._load(name) is None and _is_id(name):
                self._state.save(f"{_PROPOSAL}{name}.json", value)
        for name in set(known).difference(given):
            self.remove(name)

    def all(self) -> list[QueuedProposal]:
        """All that wait, the oldest first."""
        found = map(self._load, self._names(_PROPOSAL))
        return sorted((one for one in found if one), key=lambda one: (one.at, one.id))

    def get(self, name: str) -> QueuedProposal:
        """The one whose id begins so. Raises NotFound when there is none, or more than one."""
        found = [one for one in self.all() if name and one.id.startswith(name)]
        if len(found) != 1:
            raise NotFound(name)
        return found[0]

    def remove(self, name: str) -> None:
        """Remove one that waits."""
        self._state.remove(f"{_PROPOSAL}{name}.json")

    def decide(self, decision: Decision) -> None:
        """Keep a decision, so that it can be undone; the proposal waits no longer."""
        value: dict[str, object] = decision._asdict()
        if one := decision.waiting:
            value["waiting"] = one.to_json()
        self._state.save(_decided(decision.id), value)
        self.remove(decision.id)
        for old in self.decisions()[DECISIONS:]:
            self._state.remove(_decided(old.id))

    def decisions(self) -> list[Decision]:
        """The last decisions, newest first."""
        found = []
        for name in self._names(_DECIDED):
            match self._state.load(f"{_DECIDED}{name}.json"):
                case {
                    "id": str(of), "at": int() | float() as at, "outcome": str(outcome), "reason": str(reason),
                    "path": str(path), "commit": str(commit), "waiting": waiting,
                }:  # fmt: skip
                    found.append(Decision(of, at, outcome, reason, path, commit, _parse(of, waiting)))
        return sorted(found, key=lambda one: -one.at)

    def decided(self, name: str = "") -> Decision:
        """The decision about what has this id, or the last one. Raises NotFound."""
        for one in self.decisions():
            if one.id.startswith(name) if one.waiting else name in ("", one.id):
                return one
        raise NotFound(name or "a decision")

    def reopen(self, decision: Decision) -> None:
        """Forget a decision; its proposal waits again."""
        if one := decision.waiting:
            self._keep(one)
        self._state.remove(_decided(decision.id))

    def purge(self, keep: Callable[[str], bool], names: Collection[str] = ()) -> None:
        """Drop what says something that may not be kept, and decisions about the memories of these names."""
        for waiting in self.all():
            if not all(map(keep, _texts(waiting))):
                self.remove(waiting.id)
        for one in self.decisions():
            said = [one.reason, *(_texts(one.waiting) if one.waiting else ())]
            if not all(map(keep, said)) or one.path.rpartition(":")[2] in names:
                self._state.remove(_decided(one.id))

    def _keep(self, one: QueuedProposal) -> None:
        self._state.save(f"{_PROPOSAL}{one.id}.json", one.to_json())

    def _names(self, prefix: str) -> list[str]:
        names = (name for name in self._state.names() if name.startswith(prefix) and name.endswith(".json"))
        return [name.removeprefix(prefix).removesuffix(".json") for name in names]

    def _load(self, name: str) -> QueuedProposal | None:
        return _parse(name, self._state.load(f"{_PROPOSAL}{name}.json"))


def _parse(name: str, found: object) -> QueuedProposal | None:
    if not isinstance(found, dict):
        return None
    values = {key: found.get(key, "") for key in Proposal._fields}
    explicit, older = values.pop("explicit") is True, values.pop("supersedes") or ()
    if not all(isinstance(value, str) for value in (found.get("at"), found.get("asked"), *values.values())):
        return None
    proposal = Proposal(**values, explicit=explicit, supersedes=tuple(map(str, older)))
    return QueuedProposal(name, found["at"], found["asked"], proposal)


def _is_id(name: str) -> bool:
    return bool(re.fullmatch(r"[0-9a-f]{8}", name))


def _decided(name: str) -> str:
    return f"{_DECIDED}{name if _is_id(name) else sha256(name.encode('utf-8', 'replace')).hexdigest()[:16]}.json"


def _texts(waiting: QueuedProposal) -> list[str]:
    one = waiting.proposal
    return [f"{one.name}\n{one.description}\n{one.content}", one.quote]


def find_quote(proposal: Proposal, turns: Sequence[Turn]) -> str:
    """The words of a conversation that a proposal was learned from: the sentences that share most words with it.

    What the user said comes before what others said.

    >>> from memsheaf.recall.turns import Message
    >>> said = Turn("c", (Message("user", "Hi. From now on we deploy on Fridays. Thanks!"),))
    >>> find_quote(Proposal("Deployment day", "", "project", "We deploy on Fridays."), [said])
    'From now on we deploy on Fridays.'
    """
    claimed = _stems(f"{proposal.name} {proposal.content}")
    best, quote = 0.0, ""
    for message in (message for turn in turns for message in turn.messages):
        sentences = [one.strip() for one in re.split(_SENTENCE, unwrapped(message.text)) if one.strip()]
        shares = [len(_stems(one) & claimed) for one in sentences]
        top = max(shares, default=0)
        if top + (message.role == "user") / 2 > best and top:
            best = top + (message.role == "user") / 2
            quote = " ".join(one for one, share in zip(sentences, shares, strict=True) if share > top / 2)
    return cut_bytes(quote, QUOTE_BYTES)


def _stems(text: str) -> set[str]:
    return set(map(stem, telling(text)))
