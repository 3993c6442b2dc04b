"""Review: what waits for a person, with everything that a decision needs, and the decisions.

Three things wait: proposals of the home scope, memories that are unconfirmed, and memories that an agent changed. A
proposal has an id of eight digits, a memory the name under which it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from memsheaf.errors import Changed, HubUnreachable, MemsheafError, Ref
from memsheaf.frontmatter import edit_text
from memsheaf.guard.secrets import without_secrets
from memsheaf.learn.review_queue import APPROVED, REJECTED, Decision, QueuedProposal, ReviewQueue
from memsheaf.memory import Allow, parse
from memsheaf.sheaf import Sheaf
from memsheaf.store import Version
from memsheaf.text.sentences import shown_description

PROPOSED, UNCONFIRMED, CHANGED = "proposed", "unconfirmed", "changed"
_REASONS = {UNCONFIRMED: "unconfirmed", CHANGED: "changed by an agent"}
HUB_IDS = "hub-proposals"  # the ids of what came from the hub and still waits


class WaitingItem(NamedTuple):
    """Something that waits: its id, what it is (`proposed`, `unconfirmed`, `changed`), and since when and why."""

    id: str
    state: str
    name: str
    kind: str
    at: str
    why: str


class ReviewCard(NamedTuple):
    """A change that waits, with everything that a decision needs.

    `content` is the text that it would have, `before` the one it has now or that of the memory it `replaces`. `quote`
    are the words it was learned from, in that `conversation`. `problems` say what an approval would do wrong.
    `version` is that of a memory; a proposal has none, as it does not change.
    """

    item: WaitingItem
    description: str
    scope: str
    content: str
    replaces: Ref | None = None
    before: str = ""
    quote: str = ""
    conversation: str = ""
    problems: tuple[str, ...] = ()
    version: Version = ""


class Review:
    """The review of all scopes of a sheaf, or of one `scope`. Proposals wait in the home scope."""

    def __init__(self, layers: Sheaf, *, scope: str = "") -> None:
        self._layers = layers
        self._scope = scope
        self._learning = layers.learning
        self.also = ""
        """Ends the reason of each commit: decisions with the same one are undone together."""
        if layers.own.replica and not layers.read_only:
            fetch_proposals(layers.only(layers.home))

    def waiting(self) -> list[WaitingItem]:
        """Return everything that waits, as far as a quick look tells: proposals, unconfirmed and changed memories."""
        items: list[WaitingItem] = []
        if self._scope in ("", self._layers.home):
            items += map(_describe_proposal, self._learning.queue.all())
        for scope in [self._scope] if self._scope else self._layers.scopes():
            sheaf = self._layers.only(scope)
            states = {row.path: (row, UNCONFIRMED) for row in sheaf.list(unconfirmed=True)}
            for row in sheaf.own.changed_by_others():
                states.setdefault(row.path, (row, CHANGED))
            for row, state in states.values():
                label = self._layers.label(row.ref)
                items.append(WaitingItem(label, state, row.name, row.type, row.updated, _REASONS[state]))
        return items

    def card(self, name: str) -> ReviewCard:
        """Return all about one that waits. Raises NotFound."""
        if name.endswith(".md"):
            return self._memory_card(name)
        waiting = self._learning.queue.get(name)
        proposal = waiting.proposal
        replaced = None
        try:
            _, replaced, problem = self._learning.preview(waiting.id)
        except MemsheafError as error:
            problem = str(error)
        return ReviewCard(
            _describe_proposal(waiting),
            proposal.description,
            proposal.scope or self._layers.home,
            proposal.content,
            replaced.ref if replaced else None,
            replaced.body.strip() if replaced else "",
            proposal.quote,
            proposal.conversation,
            (problem,) if problem else (),
        )

    def _memory_card(self, name: str) -> ReviewCard:
        ref = self._layers.resolve(name)
        scope, memory = self._layers.open_scope(ref.scope), self._layers.read(ref)
        state = UNCONFIRMED if memory.trust == "unconfirmed" else CHANGED
        why = "; ".join(scope.caveats(memory)) or _REASONS[state]
        version = self._find_version_before(ref)
        before = parse(ref.path, scope.text_at(ref.path, version).encode()).body.strip() if version else ""
        return ReviewCard(
            WaitingItem(name, state, memory.name, memory.type, memory.updated or memory.created, why),
            shown_description(memory),
            ref.scope,
            memory.body.strip(),
            ref if version else None,
            before,
            conversation=memory.conversation,
            version=memory.version,
        )

    def approve(self, name: str, *, content: str = "", expect: Version = "") -> Decision:
        """Save a proposal, or confirm a memory: as it is, or with another content.

        Raises NotFound; and Changed, also for a memory that is no longer at the version `expect`.
        """
        if not name.endswith(".md"):
            self._learning.approve(name, content=content, also=self.also)
            return self._tell_hub(name)
        ref, last = self._resolve(name, expect)
        if content:
            memory = self._layers.read(ref)
            body = content.strip("\n") + "\n"
            text = edit_text(memory.text, fields={"trust": "confirmed", "changed_by": None}, body=body)
            why = f"edit{self.also}"
            self._layers.put(ref, text, expect=memory.version, why=why, allow=Allow(anyway=True))
        self._layers.open_scope(ref.scope).confirm([(ref.path, "")], also=self.also)
        return self._record(ref, APPROVED, last)

    def reject(self, name: str, *, reason: str = "", expect: Version = "") -> Decision:
        """Refuse a proposal or remove a memory: it is not learned again. What an agent changed gets its old text.

        Raises NotFound; and Changed for a memory that is no longer at the version `expect`.
        """
        if not name.endswith(".md"):
            self._learning.reject(name, reason=reason)
            return self._tell_hub(name)
        ref, last = self._resolve(name, expect)
        reason = without_secrets(reason.strip())
        if before := self._find_version_before(ref):
            self._layers.open_scope(ref.scope).restore(ref.path, before)
        else:
            self._layers.forget(ref, why=(f"rejected: {reason}" if reason else "rejected") + self.also)
        return self._record(ref, REJECTED, last, reason)

    def _tell_hub(self, name: str) -> Decision:
        """Return the decision about a proposal, and tell the hub if the proposal came from one."""
        decision = self._learning.queue.decided(name)
        if self._layers.own.replica:
            fetch_proposals(self._layers.only(self._layers.home))
        return decision

    def _resolve(self, name: str, expect: Version) -> tuple[Ref, str]:
        """Return a memory and its last commit. Raises Changed when it is not at the version `expect`."""
        ref = self._layers.resolve(name)
        last = self._last_commit(ref)
        if expect and self._layers.read(ref).version != expect:
            raise Changed(ref)
        return ref, last

    def undo(self, name: str = "") -> Decision:
        """Undo the decision about this one, or the last decision. Raises NotFound, Changed."""
        return self._learning.reopen(name)

    def decisions(self) -> Sequence[Decision]:
        """Return the last decisions, newest first; each can be undone."""
        return self._learning.queue.decisions()

    def _record(self, ref: Ref, outcome: str, last: str, reason: str = "") -> Decision:
        commit = self._last_commit(ref)
        if commit == last:  # a memory of a repository is confirmed without one
            commit = ""
        decision = Decision(self._layers.label(ref), self._layers.clock(), outcome, reason, ref, commit)
        self._learning.queue.decide(decision)
        return decision

    def _last_commit(self, ref: Ref) -> str:
        return next((commit.id for commit in self._layers.log(ref, limit=1)), "")

    def _find_version_before(self, ref: Ref) -> Version:
        """Return the version that a confirmed memory had before others changed it; "" for none, or when unknown."""
        memory = self._layers.read(ref)
        if memory.trust == "unconfirmed" or memory.changed_by in ("", "user"):
            return ""
        for commit in self._layers.log(ref):
            for step in commit.revisions:
                if step.old and parse(step.path, step.old).changed_by in ("", "user"):
                    return step.before
        return ""


def _describe_proposal(waiting: QueuedProposal) -> WaitingItem:
    return WaitingItem(waiting.id, PROPOSED, waiting.proposal.name, waiting.proposal.kind, waiting.at, waiting.why)


def fetch_proposals(sheaf: Sheaf) -> None:
    """Bring what waits on the hub of a scope, tell it what was decided here, and drop what was decided elsewhere.

    While the hub does not answer, what came before waits. Raises HubRefused.
    """
    hub: Any = sheaf.own.replica.hub if sheaf.own.replica else None
    if not hasattr(hub, "proposals"):  # nor has git any
        return
    state, queue = sheaf.own.state, ReviewQueue(sheaf.own.state)
    with suppress(HubUnreachable):
        there = {
            name: {**value, "scope": str(sheaf.scope), "asked": f"{value.get('asked')}; proposed for {member}"}
            for name, value, member in hub.proposals()
            if isinstance(value, dict)
        }
        for decision in queue.decisions():
            if decision.id in there:
                hub.decide(decision.id, decision.outcome)
                del there[decision.id]
        known = state.load(HUB_IDS)
        queue.receive(there, known if isinstance(known, list) else ())
        if known != [*there]:
            state.save(HUB_IDS, [*there])


def share_proposals(sheaf: Sheaf) -> dict[str, str]:
    """Move the proposals of a scope to its hub, since a server does not keep them.

    Returns, by id, what a person decided before about the same; "" where it waits. Raises HubUnreachable.
    """
    hub: Any = sheaf.own.replica.hub if sheaf.own.replica else None
    queue = ReviewQueue(sheaf.own.state)
    decided = {}
    for waiting in queue.all():
        decided[waiting.id] = hub.propose(waiting.id, waiting.to_json())
        queue.remove(waiting.id)
    return decided
