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
from memsheaf.memory import Allow, Memory, parse
from memsheaf.open_scope import find_matches
from memsheaf.sheaf import Sheaf
from memsheaf.store import Version
from memsheaf.text.sentences import shown_description
from memsheaf.text.similarity import RELATED, SAME, fact, likeness

PROPOSED, UNCONFIRMED, CHANGED = "proposed", "unconfirmed", "changed"
HUB_IDS = "hub-proposals.json"  # the ids of what came from the hub and still waits
NEAR = 4  # memories that are shown as similar


class WaitingItem(NamedTuple):
    """Something that waits: its id, what it is (`proposed`, `unconfirmed`, `changed`), and since when and why."""

    id: str
    state: str
    name: str
    kind: str
    at: str
    why: str


class NearMemory(NamedTuple):
    """A memory that says nearly the same: the share of words in common, and how near it is in meaning."""

    memory: Memory
    words: float
    meaning: float


class ReviewCard(NamedTuple):
    """What waits, with everything that a decision needs.

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
    near: tuple[NearMemory, ...] = ()
    problems: tuple[str, ...] = ()
    version: Version = ""


class Review:
    """The review of all scopes of a sheaf, or of one `scope`. Proposals wait in the home scope."""

    def __init__(self, layers: Sheaf, *, scope: str = "") -> None:
        self._layers = layers
        self._scope = scope
        self._learning = layers.learning
        if layers.own.replica and not layers.read_only:
            fetch_proposals(layers.only(layers.home))

    def waiting(self) -> list[WaitingItem]:
        """Everything that waits, as far as a quick look tells: proposals, unconfirmed and changed memories."""
        found: list[WaitingItem] = []
        if self._scope in ("", self._layers.home):
            found += map(_proposed, self._learning.queue.all())
        for sheaf in (
            [self._layers.only(self._scope)] if self._scope else map(self._layers.only, self._layers.scopes())
        ):
            unconfirmed = sheaf.list(unconfirmed=True)
            changed = sheaf.own.changed_by_others()
            rows = [(row, UNCONFIRMED) for row in unconfirmed]
            rows += [(row, CHANGED) for row in changed if row.trust != "unconfirmed"]
            for row, state in rows:
                name = self._layers.label(row.ref)
                found.append(WaitingItem(name, state, row.name, row.type, row.updated, _why(state)))
        return found

    def card(self, name: str) -> ReviewCard:
        """All about one that waits. Raises NotFound."""
        if name.endswith(".md"):
            return self._memory_card(name)
        waiting = self._learning.queue.get(name)
        one, memory, was = waiting.proposal, None, None
        try:
            memory, was, problem = self._learning.preview(waiting.id)
        except MemsheafError as error:
            problem = str(error)
        return ReviewCard(
            _proposed(waiting),
            one.description,
            one.scope or self._layers.home,
            one.content,
            was.ref if was else None,
            was.body.strip() if was else "",
            one.quote,
            one.conversation,
            self._near(memory, was),
            (problem,) if problem else (),
        )

    def _memory_card(self, name: str) -> ReviewCard:
        ref = self._layers.resolve(name)
        scope, memory = self._layers.open_scope(ref.scope), self._layers.read(ref)
        state = UNCONFIRMED if memory.trust == "unconfirmed" else CHANGED
        before = self._before_change(ref)
        old = parse(ref.path, scope.text_at(ref.path, before).encode()).body.strip() if before else ""
        at = memory.updated or memory.created
        return ReviewCard(
            WaitingItem(name, state, memory.name, memory.type, at, "; ".join(scope.caveats(memory)) or _why(state)),
            shown_description(memory),
            ref.scope,
            memory.body.strip(),
            ref if before else None,
            old,
            conversation=memory.conversation,
            near=self._near(memory, memory),
            version=memory.version,
        )

    def _near(self, memory: Memory | None, itself: Memory | None) -> tuple[NearMemory, ...]:
        """The memories that say nearly what this one says."""
        if memory is None:
            return ()
        found, said = [], set(fact(memory))
        for match in find_matches(self._layers.open_scopes(), f"{memory.name}\n{memory.body}"[:500], limit=NEAR + 1):
            if itself and match.row.ref == itself.ref:
                continue
            with suppress(MemsheafError):
                other = self._layers.read(match.row.ref)
                share = likeness(said, set(fact(other)))
                if share >= RELATED or match.near >= SAME:
                    found.append(NearMemory(other, share, match.near))
        return tuple(found[:NEAR])

    def approve(self, name: str, *, content: str = "", expect: Version = "") -> Decision:
        """Save a proposal, or confirm a memory: as it is, or with another content.

        Raises NotFound; and Changed, also for a memory that is no longer at the version `expect`.
        """
        if not name.endswith(".md"):
            self._learning.approve(name, content=content)
            return self._told(self._learning.queue.decided(name))
        ref = self._layers.resolve(name)
        last = self._last_commit(ref)
        self._require_version(ref, expect)
        if content:
            memory = self._layers.read(ref)
            body = content.strip("\n") + "\n"
            text = edit_text(memory.text, fields={"trust": "confirmed", "changed_by": None}, body=body)
            self._layers.put(ref, text, expect=memory.version, allow=Allow(anyway=True))
        self._layers.confirm(ref)
        return self._decided(ref, APPROVED, last)

    def reject(self, name: str, *, reason: str = "", expect: Version = "") -> Decision:
        """Refuse a proposal or remove a memory: it is not learned again. What an agent changed gets its old text.

        Raises NotFound; and Changed for a memory that is no longer at the version `expect`.
        """
        if not name.endswith(".md"):
            self._learning.reject(name, reason=reason)
            return self._told(self._learning.queue.decided(name))
        ref = self._layers.resolve(name)
        last = self._last_commit(ref)
        self._require_version(ref, expect)
        if before := self._before_change(ref):
            self._layers.open_scope(ref.scope).restore(ref.path, before)
        else:
            why = f"rejected: {reason.strip()}" if reason.strip() else "rejected"
            self._layers.forget(ref, why=without_secrets(why))
        return self._decided(ref, REJECTED, last, without_secrets(reason.strip()))

    def _told(self, decision: Decision) -> Decision:
        """Tell the hub, if the proposal came from one."""
        if self._layers.own.replica:
            fetch_proposals(self._layers.only(self._layers.home))
        return decision

    def _require_version(self, ref: Ref, expect: Version) -> None:
        """Raise Changed when a person decided about another text than the one that is there."""
        if expect and self._layers.read(ref).version != expect:
            raise Changed(ref)

    def undo(self, name: str = "") -> Decision:
        """Undo the decision about this one, or the last decision. Raises NotFound, Changed."""
        return self._learning.reopen(name)

    def decisions(self) -> Sequence[Decision]:
        """The last decisions, newest first; each can be undone."""
        return self._learning.queue.decisions()

    def _decided(self, ref: Ref, outcome: str, last: str, reason: str = "") -> Decision:
        made = self._last_commit(ref)
        commit = made if made != last else ""  # a memory of a repository is confirmed without one
        decision = Decision(self._layers.label(ref), self._layers.clock(), outcome, reason, ref, commit)
        self._learning.queue.decide(decision)
        return decision

    def _last_commit(self, ref: Ref) -> str:
        return next((commit.id for commit in self._layers.log(ref, limit=1)), "")

    def _before_change(self, ref: Ref) -> str:
        """The version that a confirmed memory had before others changed it; "" when it is not that, or unknown."""
        memory = self._layers.read(ref)
        if memory.trust == "unconfirmed" or memory.changed_by in ("", "user"):
            return ""
        for commit in self._layers.log(ref):
            for step in commit.revisions:
                if step.old and parse(step.path, step.old).changed_by in ("", "user"):
                    return step.before
        return ""


def _proposed(one: QueuedProposal) -> WaitingItem:
    return WaitingItem(one.id, PROPOSED, one.proposal.name, one.proposal.kind, one.at, one.why)


def _why(state: str) -> str:
    return "unconfirmed" if state == UNCONFIRMED else "changed by an agent"


def fetch_proposals(sheaf: Sheaf) -> None:
    """Bring what waits on the hub of a scope, tell it what was decided here, and drop what was decided elsewhere.

    While the hub does not answer, what came before waits. Raises HubRefused.
    """
    hub: Any = sheaf.own.replica.hub if sheaf.own.replica else None
    if not hasattr(hub, "proposals"):  # nor has git any
        return
    state, queue = sheaf.state, ReviewQueue(sheaf.state)
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
    """Move what waits for review in a scope to its hub: what a server keeps does not last. Returns, by id, what a
    person decided before about the same, "" where it waits. Raises HubUnreachable."""
    hub: Any = sheaf.own.replica.hub if sheaf.own.replica else None
    queue, decided = ReviewQueue(sheaf.state), {}
    for one in queue.all():
        decided[one.id] = hub.propose(one.id, one.to_json())
        queue.remove(one.id)
    return decided
