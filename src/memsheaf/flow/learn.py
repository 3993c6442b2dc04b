"""Learning from conversations: turns are appended as they end, and distilled later, one process at a time.

    sheaf.learn(turn)      # in the agent's way for a write, and no longer
    sheaf.distil()         # whenever there is time: what waits becomes memories, proposals, or nothing

The cursor moves only when a batch is through. A process that was killed in between does the same batch again, and
sees by the journal whether it was committed already.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import NamedTuple, Protocol

from memsheaf.errors import Busy, Changed, ModelFailed
from memsheaf.flow.aim import Memories
from memsheaf.flow.consolidate import Report
from memsheaf.flow.extract import BadAnswer, Keeper, Verdict, decide, propose, save
from memsheaf.flow.inbox import Batch, Inbox
from memsheaf.flow.review import Queue
from memsheaf.flow.turns import Proposal, Turn
from memsheaf.guard.duplicates import LIKE, fact, likeness, words
from memsheaf.llm import Model
from memsheaf.memory import Memory, parse
from memsheaf.store import Commit
from memsheaf.store.state import State

ATTEMPTS = 3  # so often a model may answer nonsense about a batch before rules alone read it
TELLING = 12  # characters; a shorter line is in every conversation
LOOK_BACK = 500  # commits, among which one of a batch that was done already is found
_WANTED, _TRIED = "wanted", "tried.json"


class Scope(Memories, Protocol):
    """The scope that learns; `Sheaf` is one."""

    def log(self, path: str = "", *, limit: int | None = None) -> Iterable[Commit]:
        """Its commits, newest first."""
        ...


class Distilled(NamedTuple):
    """What came of the conversations that waited.

    `turns` were read. `problem` says why the rest, `left` turns, has to wait: the model failed, a cap was reached, or
    another process is at it. `report` says how memories were consolidated afterwards, if they were.
    """

    turns: int = 0
    verdicts: tuple[Verdict, ...] = ()
    left: int = 0
    problem: str = ""
    report: Report | None = None

    def of(self, outcome: str) -> tuple[Verdict, ...]:
        """Those that were `saved`, `queued` or `dropped`."""
        return tuple(one for one in self.verdicts if one.outcome == outcome)


class Learner:
    """How one scope learns: its inbox, what waits for review, and the policy (`auto`, `suggest` or `manual`)."""

    def __init__(
        self,
        scope: Scope,
        keeper: Keeper,
        state: State,
        *,
        policy: str = "auto",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._scope = scope
        self._keeper = keeper
        self._state = state
        self._policy = policy
        self._clock = clock
        self.inbox = Inbox(state, clock=clock)
        self.queue = Queue(state)

    def learn(self, turn: Turn) -> bool:
        """Keep a finished turn until it is distilled; False when there is nothing in it that is to be kept."""
        return self._policy != "manual" and self.inbox.append(turn)

    def distil(
        self,
        model: Model | None = None,
        *,
        deadline: float = 60.0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Distilled:
        """Read what waits, batch by batch. Whoever comes while another process is at it leaves the work to it."""
        done = Distilled()
        while True:
            self._state.save(_WANTED, True)  # first: the one who is at it looks for this when it ends
            try:
                with self._state.lock("distil"):
                    self._state.remove(_WANTED)
                    done = self._work(done, model, deadline, progress)
            except Busy:
                return done._replace(left=self.inbox.left(), problem="another process is at it")
            if done.problem or self._state.load(_WANTED) is None:
                return done

    def forget(self, texts: Sequence[bytes]) -> None:
        """Drop what waits and says what an erased memory said, in any of its texts."""
        erased = [parse("", text) for text in texts]
        lines = {line.strip() for one in erased for line in one.body.split("\n") if len(line.strip()) >= TELLING}
        facts = [fact(one) for one in erased]

        def keep(text: str) -> bool:
            return not any(line in text for line in lines) and all(likeness(words(text), one) < LIKE for one in facts)

        self.inbox.purge(keep)
        for waiting in self.queue.all():
            if not keep(waiting.proposal.content):
                self.queue.remove(waiting.id)

    def files(self) -> list[str]:
        """The files in which something waits."""
        return [*self.inbox.files(), *self.queue.files()]

    def rehearse(self, turns: Sequence[Turn], model: Model | None = None, *, deadline: float = 60.0) -> list[Verdict]:
        """What would come of these turns; nothing is written. Raises ModelFailed."""
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
        change, memory, was = self._keeper.draft(proposal, ())
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
        while (batch := self.inbox.pending()).turns:
            left = self.inbox.left()
            if progress:
                progress(done.turns, done.turns + left)
            try:
                verdicts = self._one(batch, model, deadline)
            except ModelFailed as error:
                return done._replace(left=left, problem=str(error))
            self.inbox.done(batch)
            done = done._replace(turns=done.turns + len(batch.turns), verdicts=(*done.verdicts, *verdicts))
        if progress and done.turns:
            progress(done.turns, done.turns)
        return done

    def _one(self, batch: Batch, model: Model | None, deadline: float) -> list[Verdict]:
        why = f"learn {batch.id[:16]}"
        if any(commit.why == why for commit in self._scope.log(limit=LOOK_BACK)):
            return []  # it was saved, and then something kept us from saying so
        today = date.fromtimestamp(self._clock())
        try:
            proposals = propose(self._scope, batch.turns, model, today, deadline=deadline)
        except BadAnswer:
            if self._tries(batch) < ATTEMPTS:
                raise
            proposals = propose(self._scope, batch.turns, None, today)
        decided = decide(self._scope, self._keeper, proposals, batch.turns, policy=self._policy)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        for number, (verdict, _) in enumerate(decided):
            if verdict.outcome == "queued":
                name = self.queue.put(verdict.proposal, at=at, why=verdict.why)
                decided[number] = (verdict._replace(path=name), None)
        return save(self._keeper, decided, why)

    def _tries(self, batch: Batch) -> int:
        """How often this batch was answered with nonsense, this time included."""
        found = self._state.load(_TRIED)
        before = found.get("count", 0) if isinstance(found, dict) and found.get("batch") == batch.id else 0
        count = before + 1 if isinstance(before, int) else 1
        self._state.save(_TRIED, {"batch": batch.id, "count": count})
        return count
