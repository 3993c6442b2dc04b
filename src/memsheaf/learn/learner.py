"""Learning from conversations: turns are appended as they end, and distilled later, one process at a time.

    sheaf.learn(turn)      # in the agent's way for a write, and no longer
    sheaf.distil()         # whenever there is time: what waits becomes memories, proposals, or nothing

The cursor moves only when a batch is through. A process that was killed in between does the same batch again, and
sees by the journals in which scopes it was committed already. What belongs to several scopes is one commit in each;
the scope that learns comes last.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import date

from memsheaf.errors import Busy, CapReached, Changed, Exists, ModelFailed
from memsheaf.learn.consolidate import ConsolidationReport
from memsheaf.learn.corrections import Memories
from memsheaf.learn.daily_log import DailyLog
from memsheaf.learn.extract import BadAnswer, JudgedProposal, ProposalWriter, decide, propose, save, scope_of
from memsheaf.learn.forgetting import keeping
from memsheaf.learn.inbox import Batch, Inbox
from memsheaf.learn.review import Queue
from memsheaf.llm import Model
from memsheaf.memory import Memory
from memsheaf.recall.turns import Proposal, Turn
from memsheaf.store import Commit
from memsheaf.store.state import State
from memsheaf.store.trust import TrustLedger
from memsheaf.values import NamedTuple, Protocol

ATTEMPTS = 3  # so often a model may answer nonsense about a batch before rules alone read it
GIVEN_UP = 86_400.0  # seconds after which they do so, too, when it gives no answer at all
ROUNDS = 5  # to decide anew because somebody changed a memory meanwhile
LOOK_BACK = 500  # commits, among which one of a batch that was done already is found
AT_IT = "another process is at it"
"""The problem that is none: what waits is being read."""

_WANTED, _TRIED = "wanted", "tried.json"


class LearningScope(Memories, Protocol):
    """The scope that learns; `Sheaf` is one."""

    @property
    def root(self) -> str:
        """The folder that holds its files."""
        ...

    def log(self, *, limit: int | None = None) -> Iterable[Commit]:
        """Its commits, newest first; those of other scopes name them in their paths."""
        ...


class Distilled(NamedTuple):
    """What came of the conversations that waited.

    `turns` were read. `problem` says why the rest, `left` turns, has to wait: the model failed, a cap was reached, or
    another process is at it. `report` says how memories were consolidated afterwards, if they were.
    """

    turns: int = 0
    verdicts: tuple[JudgedProposal, ...] = ()
    left: int = 0
    problem: str = ""
    report: ConsolidationReport | None = None

    def of(self, outcome: str) -> tuple[JudgedProposal, ...]:
        """Those that were `saved`, `queued` or `dropped`."""
        return tuple(one for one in self.verdicts if one.outcome == outcome)


class Learner:
    """How one scope learns: its inbox, its daily log, what waits for review, and the policy.

    `policy` tells that of the scope of a path, or of this one for "". With `auto` and `log` what passes the gates is
    saved, with `suggest` it waits for a person. The daily log is read unless the policy is `manual`.
    """

    def __init__(
        self,
        scope: LearningScope,
        keeper: ProposalWriter,
        state: State,
        *,
        policy: Callable[[str], str] = lambda path: "auto",
        ledger: TrustLedger | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._scope = scope
        self._keeper = keeper
        self._state = state
        self._reads_log = policy("") != "manual"
        self._policy = policy
        self._clock = clock
        self.inbox = Inbox(state, clock=clock)
        self.daily = DailyLog(scope.root, state, ledger=ledger, clock=clock)
        self.queue = Queue(state)

    def distil(
        self,
        model: Model | None = None,
        *,
        deadline: float = 60.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Distilled:
        """Read what was logged and what waits, batch by batch.

        Whoever comes while another process is at it leaves the work to it.
        """
        done = Distilled()
        while True:
            self._state.save(_WANTED, True)  # first: the one who is at it looks for this when it ends
            try:
                with self._state.lock("distil"):
                    self._state.remove(_WANTED)
                    done = self._work(done, model, deadline, progress)
            except Busy:
                return done._replace(left=self.inbox.left(), problem=AT_IT)
            if done.problem or self._state.load(_WANTED) is None:
                return done

    def forget(self, texts: Sequence[bytes]) -> None:
        """Drop what waits or was logged and says what an erased memory said, in any of its texts, in any case."""
        keep = keeping(texts)
        self.daily.purge(keep)  # first: it could be handed over once more
        _forget(self.inbox, self.queue, keep)

    def files(self) -> list[str]:
        """All files that are kept about this scope outside of it, and those of its daily log."""
        outside = [os.path.join(self._state.folder, name) for name in self._state.names(drafts=True)]
        return [*outside, *self.daily.files()]

    def waiting(self) -> list[Turn]:
        """All that the next `distil` will read, in order. Nothing is handed out or changed."""
        return [*self.inbox.turns(), *(self.daily.waiting() if self._reads_log else ())]

    def rehearse(
        self, turns: Sequence[Turn], model: Model | None = None, *, deadline: float = 60.0
    ) -> list[JudgedProposal]:
        """What would come of these turns; nothing is written. Raises ModelFailed."""
        turns = self.inbox.prepared(turns)
        proposals = propose(self._scope, turns, model, date.fromtimestamp(self._clock()), deadline=deadline)
        decided = decide(self._scope, self._keeper, proposals, turns, policy=self._policy)
        return [verdict for verdict, _ in decided]

    def approve(self, name: str, *, content: str = "") -> Memory:
        """Save a proposal that waits, as it is or with another content: a person has seen it.

        Raises:
            NotFound: no proposal has an id that begins so.
            Changed: the memory that it would replace is not as it was then.
        """
        waiting = self.queue.get(name)
        proposal = waiting.proposal._replace(trust="", content=content or waiting.proposal.content)
        change, memory, was = self._keeper.draft(proposal, (), by="user")
        if was and proposal.version not in ("", was.version):
            raise Changed(was.path)
        self._keeper.accept(change, was, f"approve {memory.name}")
        self.queue.remove(waiting.id)
        return memory

    def reject(self, name: str) -> Proposal:
        """Refuse a proposal that waits; it is not learned again. Raises NotFound."""
        waiting = self.queue.get(name)
        _, memory, _ = self._keeper.draft(waiting.proposal._replace(replaces=""), ())
        self._keeper.bury(memory)
        self.queue.remove(waiting.id)
        return waiting.proposal

    def _work(
        self, done: Distilled, model: Model | None, deadline: float, progress: Callable[[int, int], None] | None
    ) -> Distilled:
        self._state.tidy(self._clock())
        if self._reads_log:
            self.daily.hand_over()
        left = self.inbox.left()
        while (batch := self.inbox.pending()).turns:
            left = max(left, len(batch.turns))
            if progress:
                progress(done.turns, done.turns + left)
            try:
                verdicts = self._one(batch, model, deadline)
            except ModelFailed as error:
                return done._replace(left=self.inbox.left(), problem=str(error))
            if verdicts is None:
                continue
            self.inbox.done(batch)
            left -= len(batch.turns)
            done = done._replace(turns=done.turns + len(batch.turns), verdicts=(*done.verdicts, *verdicts))
        if progress and done.turns:
            progress(done.turns, done.turns)
        return done

    def _one(self, batch: Batch, model: Model | None, deadline: float) -> list[JudgedProposal] | None:
        """What comes of a batch; None when it is not what it was, because somebody erased from it meanwhile."""
        why = f"learn {batch.id[:16]}"
        if batch.tries > 1 and "" in self._saved_in(why):
            return []  # it was saved, and then something kept us from saying so
        proposals = self._proposed(batch, model, deadline)
        if not self.inbox.holds(batch):
            return None
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        done: list[JudgedProposal] = []
        for again in range(ROUNDS):
            saved = self._saved_in(why) if again or batch.tries > 1 else frozenset()
            decided = [
                (verdict, change)
                for verdict, change in decide(self._scope, self._keeper, proposals, batch.turns, policy=self._policy)
                if not change or scope_of(change.path) not in saved
            ]
            # first: once the commit is made, the batch counts as done
            for number, (verdict, _) in enumerate(decided):
                if verdict.outcome == "queued":
                    name = self.queue.put(verdict.proposal, at=at, why=verdict.why)
                    decided[number] = verdict._replace(path=name), None
            scopes = {scope_of(change.path) if change else "" for _, change in decided}
            try:
                for scope in sorted(scopes, reverse=True):
                    part = [one for one in decided if (scope_of(one[1].path) if one[1] else "") == scope]
                    done += save(self._keeper, part, why)
                return done
            except (Changed, Exists):  # somebody else was faster: it is looked at as it is now
                continue
        raise Busy("the memories change faster than they can be read")

    def _saved_in(self, why: str) -> frozenset[str]:
        """The scopes in which a batch was committed already; the one that learns is ""."""
        commits = (commit for commit in self._scope.log(limit=LOOK_BACK) if commit.why == why)
        return frozenset(scope_of(step.path) for commit in commits for step in commit.revisions)

    def _proposed(self, batch: Batch, model: Model | None, deadline: float) -> list[Proposal]:
        """What is proposed of a batch; by rules alone once a model has failed often enough. Raises ModelFailed."""
        today = date.fromtimestamp(self._clock())
        try:
            return propose(self._scope, batch.turns, model, today, deadline=deadline)
        except CapReached:
            raise
        except ModelFailed as error:
            count, since = self._tries(batch)
            patience = 0.0 if isinstance(error, BadAnswer) else GIVEN_UP
            if count < ATTEMPTS or self._clock() - since < patience:
                raise
        return propose(self._scope, batch.turns, None, today)

    def _tries(self, batch: Batch) -> tuple[int, float]:
        """How often a model failed at this batch, this time included, and since when."""
        found, now = self._state.load(_TRIED), self._clock()
        count, since = 0, now
        if isinstance(found, dict) and found.get("batch") == batch.id:
            count = found["count"] if isinstance(found.get("count"), int) else 0
            since = found["since"] if isinstance(found.get("since"), int | float) else now
        self._state.save(_TRIED, {"batch": batch.id, "count": count + 1, "since": since})
        return count + 1, min(since, now)


def forget_waiting(state: State, texts: Sequence[bytes], *, clock: Callable[[], float] = time.time) -> None:
    """Drop what waits in a scope, to be learned or for a person, and says what erased memories said."""
    _forget(Inbox(state, clock=clock), Queue(state), keeping(texts))


def _forget(inbox: Inbox, queue: Queue, keep: Callable[[str], bool]) -> None:
    inbox.purge(keep)
    for waiting in queue.all():
        proposal = waiting.proposal
        if not keep(f"{proposal.name}\n{proposal.description}\n{proposal.content}"):
            queue.remove(waiting.id)
