"""Compaction: make a conversation fit a budget of tokens.

`compact` goes down the ladder only as far as the budget needs, and writes nothing. `run` writes what is spilled, and
minds the circuit breaker.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from memsheaf.errors import Refused, StoreFailed, hinted
from memsheaf.guard.secrets import without_secrets
from memsheaf.learn import spill as spills
from memsheaf.llm import Model
from memsheaf.recall.turns import Message, TranscriptEntry
from memsheaf.store.state import State
from memsheaf.text.neutralize import one_line
from memsheaf.work.compaction.levels import WAIT, Compacted, Ladder, Standing, summarize

BUDGET = 50_000  # tokens of a conversation, by default
TRIGGERS = {"budget": 0, "phase": 3, "task": 4}
"""Why a conversation is compacted, and the level that is gone to even if it fits: what a phase has done with is
dropped at its end, and all before the tail at the end of a task."""

FIRST_NOTES, MORE_NOTES, CALLS = 10_000, 5_000, 3  # tokens until notes are due; then more tokens and tool calls

NOTHING = Standing()

FAILURES = 3  # in a row, until a person has to approve
_COUNT_WAIT = 5.0  # seconds for another process to count


def compact(
    conversation: Sequence[TranscriptEntry | Message],
    budget: int = BUDGET,
    *,
    standing: Standing = NOTHING,
    trigger: str = "budget",
    notes: str = "",
    model: Model | None = None,
    where: str = "",
    wait: float = WAIT,
) -> Compacted:
    """Make a conversation fit into this many tokens. Nothing is written.

    `notes` are the session notes. `where` is the folder of spilled files; without one, pointers name messages of the
    conversation itself. The user's last message is kept in any case, and with it at least the last message and what
    tools answered to it: where that is too much, `fits` is False.

    Raises Refused when there is no such trigger, or no budget.
    """
    if trigger not in TRIGGERS:
        raise Refused(f"there is no trigger {trigger!r}; there are {', '.join(TRIGGERS)}")
    if budget < 1:
        raise Refused("the budget must be 1 token or more")
    ladder = Ladder(conversation, budget, standing, trigger, where)
    least, is_over = TRIGGERS[trigger], ladder.before > budget
    levels = [level for level in (1, 2, 3, 4) if level == least or (level > least and is_over)]
    most = budget if is_over else ladder.before - 1  # what fits is touched only to make it smaller
    for plan in map(ladder.at, levels):
        after = ladder.after(plan)
        if after > most:
            continue
        if plan.level < 4:
            return ladder.done(plan)
        gone = [ladder.entries[at] for at in plan.taken]
        found = summarize(gone, most - after - 1, notes=notes, model=model, wait=wait)
        return ladder.done(plan, found)
    if not is_over:
        return ladder.unchanged()
    plan = ladder.reset()
    done = ladder.done(plan) if plan.taken else ladder.unchanged()._replace(level=plan.level)
    if done.fits:
        return done
    if done.after >= done.before:
        done = ladder.unchanged()._replace(level=plan.level, fits=False)
    return done._replace(problem=f"what cannot be left out takes {done.after:,} tokens, and {budget:,} are allowed")


def run(
    conversation: Sequence[TranscriptEntry | Message],
    budget: int = BUDGET,
    *,
    state: State,
    now: float,
    name: str = "",
    days: float = spills.DAYS,
    **options: Any,
) -> Compacted:
    """Compact a conversation for real, with the options of `compact`: write what is spilled, count failures in a row.

    It failed when it does not fit, when a model was asked and was of no use, or when the disk refused. `name` is what
    the conversation is called; without one it is known by its first message. Spilled files stay for `days`.

    Raises:
        Refused: it failed three times in a row, and waits for a person; or there is no such trigger, or no budget.
        StoreFailed: what was taken out could not be written. Go on with the conversation as it was.
    """
    breaker = CircuitBreaker(state, name or known_as(conversation))
    breaker.require()
    done = compact(conversation, budget, where=state.folder, **options)
    try:
        if done.spill:
            spills.write_spill(state, done.spill, now=now, days=days)
    except StoreFailed as error:
        breaker.fail(str(error))
        raise
    if done.problem:
        breaker.fail(done.problem)
    else:
        breaker.reset()
    return done


def approve(conversation: Sequence[TranscriptEntry | Message], *, state: State, name: str = "") -> None:
    """Let a conversation be compacted again: a person says so."""
    CircuitBreaker(state, name or known_as(conversation)).reset()


def known_as(conversation: Sequence[TranscriptEntry | Message]) -> str:
    """What a conversation without a name is known by: how it begins."""
    first = conversation[0].text if conversation else ""
    return sha256(first.encode("utf-8", "surrogatepass")).hexdigest()


def notes_due(tokens: int, written_at: int | None, tool_calls_since: int, last_turn_had_tools: bool) -> bool:
    """Whether session notes should be written now; `written_at` is how long the conversation was the last time.

    First at 10,000 tokens; then after 5,000 more, and 3 calls of tools or a turn without any.

    >>> notes_due(9_999, None, 50, True), notes_due(10_000, None, 0, True), notes_due(15_000, 10_000, 2, False)
    (False, True, True)
    """
    if written_at is None:
        return tokens >= FIRST_NOTES
    return tokens - written_at >= MORE_NOTES and (tool_calls_since >= CALLS or not last_turn_had_tools)


class CircuitBreaker:
    """The failures of one conversation, in a row: after three it waits for a person's approval.

    The count is a small file of the state directory, one for each conversation that failed, so a restart does not
    forget it. It goes when a compaction succeeds or a person approves. A count that is there and cannot be read is
    taken for one failure less than the limit: one more try is let through, and only its success makes it good again.
    """

    def __init__(self, state: State, conversation: str) -> None:
        self._state = state
        self._name = f"breaker-{sha256(conversation.encode('utf-8', 'replace')).hexdigest()[:24]}.json"

    def failures(self) -> tuple[int, str]:
        """How many there were since the last success, and why the last one was."""
        if self._name not in self._state.names():
            return 0, ""
        match self._state.load(self._name):
            case {"failures": int(count), "why": str(why)} if count > 0 and count is not True:
                return count, why
        return FAILURES - 1, "the count of failures cannot be read"

    def require(self) -> None:
        """Raise Refused when a person has to approve first."""
        count, why = self.failures()
        if count >= FAILURES:
            error = Refused(f"waiting for approval: compaction failed {count} times in a row, last because {why}")
            raise hinted(error, "Look at why; then `memsheaf compact FILE --approve` lets it go on.")

    def fail(self, why: str) -> None:
        """Count a failure. Raises StoreFailed, Busy."""
        with self._state.lock("breaker", wait=_COUNT_WAIT):
            count = self.failures()[0] + 1
            self._state.save(self._name, {"failures": count, "why": one_line(without_secrets(why), 300)})

    def reset(self) -> None:
        """Begin again: it succeeded, or a person approved. Raises StoreFailed, Busy."""
        if self._name in self._state.names():
            with self._state.lock("breaker", wait=_COUNT_WAIT):
                self._state.remove(self._name)
