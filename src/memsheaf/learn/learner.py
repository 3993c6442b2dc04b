"""Learning from conversations: turns are queued as they end, and distilled later by one process at a time.

    sheaf.learn(turn)      # in the agent's way for one write
    sheaf.distil()         # whenever there is time: what waits becomes memories, proposals, or nothing

The cursor moves only when a batch is through. After a crash the same batch is done again; the journals tell what was
saved already. Each memory is one commit, and `undo` takes back those of one batch together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date
from typing import NamedTuple

from memsheaf.errors import Busy, CapReached, Changed, Exists, ModelFailed, Ref, Refused
from memsheaf.gates import written_file
from memsheaf.guard.secrets import without_secrets
from memsheaf.learn.consolidate import ConsolidationReport
from memsheaf.learn.corrections import LearningScopes
from memsheaf.learn.daily_log import DailyLog
from memsheaf.learn.erasure_filter import make_erasure_filter
from memsheaf.learn.extract import (
    BY,
    BadAnswer,
    JudgedProposal,
    covers,
    decide,
    draft,
    propose,
    refuse,
    time_of,
)
from memsheaf.learn.inbox import Batch, Inbox
from memsheaf.learn.review_queue import APPROVED, REJECTED, Decision, ReviewQueue
from memsheaf.llm import Model
from memsheaf.memory import Allow, Memory, utc_time
from memsheaf.open_scope import retry
from memsheaf.recall.turns import Proposal
from memsheaf.state import State
from memsheaf.state.trust import TrustLedger

MAX_TRIES = 3  # with unusable answers of a model about a batch; then rules alone read it
PATIENCE_SECONDS = 86_400.0  # with a model that does not answer at all
MAX_COMMITS_BACK = 500  # among which that of an interrupted batch is found
ALREADY_LEARNING = "another process is learning already"  # no error: the queue is being read


class Distilled(NamedTuple):
    """The result of reading the conversations that waited.

    `turns` were read. `problem` says why the rest, `left` turns, has to wait: the model failed, a cap was reached, or
    another process is learning. `report` says how memories were consolidated afterwards, if they were.
    """

    turns: int = 0
    verdicts: tuple[JudgedProposal, ...] = ()
    left: int = 0
    problem: str = ""
    report: ConsolidationReport | None = None

    def of(self, outcome: str) -> tuple[JudgedProposal, ...]:
        """Return those that were `saved`, `queued` or `dropped`."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome == outcome)


class Learner:
    """The inbox, the daily log and the review queue of the home scope.

    `policy` gives the policy of a scope. With `auto` and `log` what passes the gates is saved, with `suggest` it
    waits for review. Notes in the daily log are learned from unless it is `manual`.
    """

    def __init__(
        self,
        memories: LearningScopes,
        state: State,
        *,
        policy: Callable[[str], str],
        ledger: TrustLedger | None,
        clock: Callable[[], float],
    ) -> None:
        self._memories = memories
        self._state = state
        self._policy = policy
        self._clock = clock
        self.inbox = Inbox(state, clock=clock)
        learns = policy(memories.home) != "manual"
        root = memories.open_scope(memories.home).root
        self.daily = DailyLog(root, state, ledger=ledger, learns=learns, clock=clock)
        self.queue = ReviewQueue(state)
        self.find_saved = self._find_saved

    def distil(
        self,
        model: Model | None = None,
        *,
        deadline: float = 60.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Distilled:
        """Read what waits, batch by batch. If another process is learning, that one does it."""
        done = Distilled()
        while True:
            try:
                with self._state.lock("distil"):
                    done = self._distil(done, model, deadline, progress)
            except Busy:
                return done._replace(left=self.inbox.count_waiting(), problem=ALREADY_LEARNING)
            if done.problem or not self.inbox.count_waiting():  # another process may have left its turns to this one
                return done

    def preview(self, name: str) -> tuple[Memory, Memory | None, str]:
        """Return the memory that an approval would store, the one it would replace, and what speaks against it.

        Raises NotFound, BadHeader, TextRefused.
        """
        waiting = self.queue.get(name)
        memory, was = draft(self._memories, waiting.proposal._replace(trust=""), by="user")
        try:
            refuse(self._memories, memory, was)
        except Refused as error:
            return memory, was, str(error)
        if was and waiting.proposal.version not in ("", was.version):
            return memory, was, f"{was.ref} was changed since this was proposed"
        return memory, was, ""

    def propose(self, proposal: Proposal, why: str) -> str:
        """Have a proposal wait for a person's review; return its id."""
        return self.queue.put(proposal, at=utc_time(self._clock()), why=why)

    def approve(self, name: str, *, content: str = "", also: str = "") -> Memory:
        """Save a proposal that waits, as it is or with another content: a person has seen it. `also` ends the reason.

        Raises:
            NotFound: no proposal has an id that begins so.
            Changed: the memory that it would replace is not as it was then.
        """
        waiting = self.queue.get(name)
        proposal = waiting.proposal._replace(trust="", content=content or waiting.proposal.content)
        memory, was = draft(self._memories, proposal, by="user")
        if was and proposal.version not in ("", was.version):
            raise Changed(was.ref)
        scope = self._memories.open_scope(memory.scope)
        why = f"approve {memory.name}{also}"
        commit = scope.commit([written_file(memory, was)], why, by="user", allow=Allow(anyway=True))
        decision = Decision(waiting.id, self._clock(), APPROVED, ref=memory.ref, commit=commit.id, waiting=waiting)
        self.queue.decide(decision)
        return memory

    def reject(self, name: str, *, reason: str = "") -> Proposal:
        """Refuse a proposal that waits; it is not learned again. Raises NotFound."""
        waiting = self.queue.get(name)
        self._bury(waiting.proposal)
        reason = without_secrets(reason.strip())
        self.queue.decide(Decision(waiting.id, self._clock(), REJECTED, reason, waiting=waiting))
        return waiting.proposal

    def reopen(self, name: str = "") -> Decision:
        """Undo the decision about what has this id, or the last one: a proposal waits again.

        Raises:
            NotFound: there is no such decision.
            Changed: what was approved was changed since.
        """
        decision = self.queue.decided(name)
        if decision.commit and decision.ref:
            try:
                self._memories.open_scope(decision.ref.scope).undo(decision.commit)
            except Changed:
                if all(commit.undoes != decision.commit for commit in self._memories.log(limit=MAX_COMMITS_BACK)):
                    raise
        elif decision.waiting:
            self._bury(decision.waiting.proposal, undo=True)
        self.queue.reopen(decision)
        return decision

    def _bury(self, proposal: Proposal, *, undo: bool = False) -> None:
        """Record that a person rejected a proposal: it is not learned again; with `undo` it may be."""
        memory, _ = draft(self._memories, proposal._replace(replaces=None))
        self._memories.open_scope(memory.scope).reject(memory, undo=undo)

    def _distil(
        self, done: Distilled, model: Model | None, deadline: float, progress: Callable[[int, int], None] | None
    ) -> Distilled:
        self._state.tidy(self._clock())
        while (batch := self.inbox.next_batch()).turns:
            if progress:
                progress(done.turns, done.turns + self.inbox.count_waiting())
            try:
                proposals = self._propose(batch, model, deadline)
            except ModelFailed as error:
                return done._replace(left=self.inbox.count_waiting(), problem=str(error))
            if self.inbox.holds(batch):  # else something was erased from it meanwhile
                verdicts = self._learn(batch, proposals)
                self.inbox.finish(batch)
                done = done._replace(turns=done.turns + len(batch.turns), verdicts=(*done.verdicts, *verdicts))
        if progress and done.turns:
            progress(done.turns, done.turns)
        return done

    def _learn(self, batch: Batch, proposals: Iterable[Proposal]) -> list[JudgedProposal]:
        """Save, queue or drop proposals, each by itself. One that was saved before a crash is passed over."""
        why = f"learn {batch.id[:16]}"
        saved = [data.decode("utf-8", "replace") for data in self.find_saved(why)] if batch.tries > 1 else []
        verdicts: list[JudgedProposal] = []
        for proposal in proposals:
            if any(proposal.content.strip() in text for text in saved):
                continue
            others = [verdict.proposal for verdict in verdicts if verdict.ref and not verdict.proposal.explicit]
            if proposal.explicit and any(covers(other, proposal) for other in others):
                continue  # a model has said it, and it was taken
            verdict = self._learn_one(proposal, batch, why, [each.ref for each in verdicts if each.ref])
            if verdict:
                verdicts.append(verdict)
        return verdicts

    def _learn_one(
        self, proposal: Proposal, batch: Batch, why: str, beside: Collection[Ref]
    ) -> JudgedProposal | None:
        def attempt() -> JudgedProposal | None:
            verdict = decide(self._memories, proposal, batch.turns, policy=self._policy, beside=beside)
            if verdict and verdict.outcome == "queued":
                return verdict._replace(id=self.propose(verdict.proposal, verdict.why))
            if verdict and verdict.ref and verdict.file:
                try:
                    self._memories.open_scope(verdict.ref.scope).change_many([verdict.file], why, by=BY)
                except Exists as error:
                    raise Changed(error.ref) from None
                except Refused as error:
                    return JudgedProposal(proposal, "dropped", None, without_secrets(str(error)))
            return verdict

        return retry(attempt, busy="the memories change faster than they can be read", times=5)

    def _find_saved(self, why: str) -> list[bytes]:
        """Return the texts that commits with this reason saved, in all scopes."""
        commits = [commit for commit in self._memories.log(limit=MAX_COMMITS_BACK) if commit.why == why]
        return [step.new for commit in commits for step in commit.revisions if step.new]

    def _propose(self, batch: Batch, model: Model | None, deadline: float) -> list[Proposal]:
        """Return what is proposed of a batch; by rules alone once a model has failed often enough.

        Raises:
            ModelFailed: it failed, and may do better the next time.
        """
        today = date.fromtimestamp(self._clock())
        try:
            return propose(self._memories, batch.turns, model, today, deadline=deadline)
        except CapReached:
            raise
        except ModelFailed as error:
            is_old = self._clock() - time_of(batch.turns[-1]) > PATIENCE_SECONDS
            if batch.tries < MAX_TRIES or not (is_old or isinstance(error, BadAnswer)):
                raise
        return propose(self._memories, batch.turns, None, today)


def forget_waiting(
    state: State, texts: Sequence[bytes], names: Sequence[str] = (), *, clock: Callable[[], float] = time.time
) -> None:
    """Drop what waits in a scope, in the inbox or for review, or was decided, and says what erased memories said."""
    keep = make_erasure_filter(texts)
    Inbox(state, clock=clock).purge(keep)
    ReviewQueue(state).purge(keep, names)
