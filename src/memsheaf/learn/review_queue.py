"""The review queue of a scope: proposals that wait for a person, and the last decisions, which can be undone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from typing import NamedTuple

from memsheaf.errors import NotFound, Ref
from memsheaf.recall.turns import Proposal
from memsheaf.state import State
from memsheaf.state.old_files import encodable

APPROVED, REJECTED = "approved", "rejected"
MAX_DECISIONS = 50


class QueuedProposal(NamedTuple):
    """A proposal that waits for review, since when, and why a person is asked."""

    id: str
    at: str
    why: str
    proposal: Proposal

    def to_json(self) -> dict[str, object]:
        """Return it as it is kept here, and on a hub."""
        proposal = self.proposal
        refs = {"replaces": _write_ref(proposal.replaces), "supersedes": list(map(_write_ref, proposal.supersedes))}
        return {**proposal._asdict(), **refs, "at": self.at, "asked": self.why}

    @property
    def texts(self) -> list[str]:
        """Return its texts, and the words that it was learned from."""
        proposal = self.proposal
        return [f"{proposal.name}\n{proposal.description}\n{proposal.content}", proposal.quote]


class Decision(NamedTuple):
    """A person's decision about a proposal, or about the memory `ref`, and the commit that it made, if any."""

    id: str
    at: float
    outcome: str
    reason: str = ""
    ref: Ref | None = None
    commit: str = ""
    waiting: QueuedProposal | None = None


class ReviewQueue:
    """The proposals of one scope that wait for review, and the last decisions."""

    def __init__(self, state: State) -> None:
        self._state = state

    def put(self, proposal: Proposal, *, at: str, why: str) -> str:
        """Queue a proposal and return its id; the same proposal has the same id, so it waits once."""
        name = sha256("\0".join(map(str, proposal[:6])).encode("utf-8", "replace")).hexdigest()[:8]
        self.save(QueuedProposal(name, at, why, proposal))
        return name

    def save(self, waiting: QueuedProposal) -> None:
        """Have a proposal wait, unless it does already. Raises StoreFailed, Busy."""
        row = self._state.name, waiting.id, json.dumps(waiting.to_json())
        with self._state.writing() as db:
            db.execute("INSERT OR IGNORE INTO proposal VALUES (?, ?, ?)", row)

    def receive(self, given: Mapping[str, object], known: Collection[str]) -> None:
        """Have those wait that a hub has, by id, and none of the `known` that it has no longer."""
        for name, value in given.items():
            if re.fullmatch(r"[0-9a-f]{8}", name) and (queued := _parse(name, value)):
                self.save(queued)
        for name in set(known).difference(given):
            self.remove(name)

    def all(self) -> list[QueuedProposal]:
        """Return all that wait, the oldest first."""
        rows = self._state.query("SELECT id, value FROM proposal WHERE folder = ?", self._state.name)
        queued = (_parse(name, json.loads(value)) for name, value in rows)
        return sorted(filter(None, queued), key=lambda waiting: (waiting.at, waiting.id))

    def get(self, name: str) -> QueuedProposal:
        """Return the one whose id begins so. Raises NotFound when there is none, or more than one."""
        matches = [waiting for waiting in self.all() if name and waiting.id.startswith(name)]
        if len(matches) != 1:
            raise NotFound(name)
        return matches[0]

    def remove(self, name: str) -> None:
        """Remove one that waits."""
        with self._state.writing() as db:
            db.execute("DELETE FROM proposal WHERE folder = ? AND id = ?", (self._state.name, name))

    def decide(self, decision: Decision) -> None:
        """Keep a decision, so that it can be undone; the proposal waits no longer."""
        value = decision._asdict() | {"waiting": decision.waiting and decision.waiting.to_json()}
        value["path"] = _write_ref(value.pop("ref"))
        folder = self._state.name
        with self._state.writing() as db:
            row = folder, encodable(decision.id), decision.at, json.dumps(value)
            db.execute("INSERT OR REPLACE INTO decision VALUES (?, ?, ?, ?)", row)
            self.remove(decision.id)
            for old in self.decisions()[MAX_DECISIONS:]:
                self._forget(old)

    def decisions(self) -> list[Decision]:
        """Return the last decisions, newest first."""
        decisions = []
        sql = "SELECT value FROM decision WHERE folder = ? ORDER BY at DESC"
        for (text,) in self._state.query(sql, self._state.name):
            value = json.loads(text)
            if isinstance(value, dict) and value.keys() - {"path"} == set(Decision._fields) - {"ref"}:
                ref, waiting = _read_ref(value.pop("path", "")), _parse(value["id"], value.pop("waiting"))
                decisions.append(Decision(**value, ref=ref, waiting=waiting))
        return decisions

    def decided(self, name: str = "") -> Decision:
        """Return the decision about what has this id, or the last one. Raises NotFound."""
        for decision in self.decisions():
            is_proposal = decision.waiting and decision.id.startswith(name)
            if is_proposal or name in ("", decision.id):
                return decision
        raise NotFound(name or "a decision")

    def reopen(self, decision: Decision) -> None:
        """Forget a decision; its proposal waits again."""
        with self._state.writing():
            if decision.waiting:
                self.save(decision.waiting)
            self._forget(decision)

    def purge(self, keep: Callable[[str], bool], names: Collection[str] = ()) -> None:
        """Drop what says something that may not be kept, and decisions about the memories of these names."""
        for waiting in self.all():
            if not all(map(keep, waiting.texts)):
                self.remove(waiting.id)
        for decision in self.decisions():
            texts = [decision.reason]
            if decision.waiting:
                texts += decision.waiting.texts
            if not all(map(keep, texts)) or (decision.ref and decision.ref.path in names):
                self._forget(decision)

    def _forget(self, decision: Decision) -> None:
        with self._state.writing() as db:
            key = self._state.name, encodable(decision.id)
            db.execute("DELETE FROM decision WHERE folder = ? AND id = ?", key)


def _parse(name: str, value: object) -> QueuedProposal | None:
    """Return the proposal that JSON or a hub has; None if it cannot be understood."""
    if not isinstance(value, dict):
        return None
    fields = {key: value.get(key, "") for key in (*Proposal._fields, "at", "asked")}
    superseded, is_explicit = fields.pop("supersedes") or (), fields.pop("explicit") is True
    if not all(isinstance(text, str) for text in fields.values()):
        return None
    at, why, replaces = fields.pop("at"), fields.pop("asked"), _read_ref(fields.pop("replaces"))
    refs = tuple(ref for text in superseded if isinstance(text, str) and (ref := _read_ref(text)))
    proposal = Proposal(**fields, explicit=is_explicit, replaces=replaces, supersedes=refs)
    return QueuedProposal(name, at, why, proposal)


def _write_ref(ref: Ref | None) -> str:
    return f"{ref.scope}:{ref.path}" if ref else ""


def _read_ref(text: str) -> Ref | None:
    """Return the memory that a text names. Earlier versions wrote none of the scope where that is the home scope."""
    scope, _, path = text.rpartition(":")
    return Ref(scope, path) if path else None
