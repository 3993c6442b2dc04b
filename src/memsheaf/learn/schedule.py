"""When memories are consolidated by themselves: gates, each with its reason, and who is at it.

Gates only look. They read small files of the state directory and take no lock that anybody needs in order to work:
who consolidates holds the lock `dream`, and beside it, as a sign, the lock `dreaming`. A look tries the sign for an
instant, and only when somebody left word of being at work. So it can neither keep anybody from beginning nor take the
word of a process that died: the kernel frees the sign with its holder, however it ended.

What is remembered survives a restart. It moves on only after a consolidation came to its end, so a failure leaves it
where it was. A time that lies in the future, because a clock was wrong, counts as no time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from memsheaf.config import Dream
from memsheaf.errors import Busy, StoreFailed
from memsheaf.store.state import State
from memsheaf.values import NamedTuple

LOCK, SIGN = "dream", "dreaming"
MEMORY, LOOKED, WORKER = "dream.json", "dream-looked.json", "dreaming.json"
GLANCE = 0.05  # seconds that a look gives another look to let go of the sign
SIGN_WAIT = 5.0

_HOUR = 3600.0


class Gate(NamedTuple):
    """One condition: whether it lets a consolidation through, and why or why not."""

    name: str
    is_open: bool
    why: str


class Past(NamedTuple):
    """What is remembered of the last consolidation that came to its end.

    `learned` is how many conversations had been learned from by then. A model looks at memories in the order of their
    paths and goes on behind `cursor`; what it saw already, as it is, stands in `settled`.
    """

    at: float = 0.0
    learned: int = 0
    cursor: str = ""
    settled: tuple[str, ...] = ()


def gates(
    state: State,
    dream: Dream,
    *,
    files: int,
    learned: int,
    now: float,
    planning: bool = False,
    logging: bool = False,
) -> tuple[Gate, ...]:
    """Every gate, in the order in which they are asked. Nothing is changed, and nothing held.

    `files` is how many memories there are, `learned` how many conversations were ever learned from, `planning`
    that the agent only plans and may change nothing, and `logging` that the scope keeps a daily log.
    """
    past = load(state)
    return (
        _enabled(dream, logging=logging),
        _enough("files", files, dream.files, "memory", "memories", "there"),
        Gate("not planning", not planning, "the agent only plans" if planning else "the agent may change things"),
        _old_enough("last time", past.at, dream.hours * _HOUR, now, "the last consolidation was"),
        _old_enough("last look", _looked(state), dream.scan_minutes * 60, now, "it was last looked at"),
        _enough(
            "conversations",
            since(past, learned),
            dream.conversations,
            "conversation",
            "conversations",
            "learned from since",
        ),
        _nobody(state),
    )


def since(past: Past, learned: int) -> int:
    """How many conversations were learned from since; all, when they were counted anew."""
    return learned - past.learned if learned >= past.learned else learned


def load(state: State) -> Past:
    """What is remembered; what cannot be understood of it is begun again."""
    found = state.load(MEMORY)
    if not isinstance(found, dict):
        return Past()
    learned, cursor, settled = found.get("learned"), found.get("cursor"), found.get("settled")
    return Past(
        _time(found.get("at")),
        learned if type(learned) is int and learned > 0 else 0,
        cursor if isinstance(cursor, str) else "",
        tuple(one for one in settled if isinstance(one, str)) if isinstance(settled, list) else (),
    )


def save(state: State, past: Past) -> None:
    """Remember that a consolidation came to its end. Only who is at work may."""
    state.save(MEMORY, past._asdict())


def look(state: State, now: float) -> None:
    """Remember that it was looked at whether a consolidation is due."""
    state.save(LOOKED, {"at": now})


@contextmanager
def at_work(state: State, now: float) -> Iterator[None]:
    """Be the only one that consolidates. Raises Busy, StoreFailed."""
    with ExitStack() as held:
        try:
            held.enter_context(state.lock(LOCK))
        except Busy:
            raise Busy(f"{_who(state) or 'another process'} is consolidating already") from None
        with suppress(Busy):  # a look lets go of the sign at once; without it, we are only not seen
            held.enter_context(state.lock(SIGN, wait=SIGN_WAIT))
        state.save(WORKER, {"process": os.getpid(), "since": now})
        try:
            yield
        finally:
            with suppress(StoreFailed):
                state.remove(WORKER)


def _nobody(state: State) -> Gate:
    who = _who(state)
    if who:
        try:
            with state.lock(SIGN, wait=GLANCE):
                who = ""  # the word of somebody who died at it
        except StoreFailed:
            who = ""
        except Busy:
            pass
    return Gate("nobody at it", not who, f"{who} is consolidating" if who else "nobody else is consolidating")


def _who(state: State) -> str:
    """Who left word of being at work, in words; "" when nobody did."""
    found = state.load(WORKER)
    if not isinstance(found, dict):
        return ""
    begun = time.strftime("%H:%M", time.localtime(_time(found.get("since"))))
    return f"process {found.get('process')}, since {begun},"


def _looked(state: State) -> float:
    found = state.load(LOOKED)
    return _time(found.get("at")) if isinstance(found, Mapping) else 0.0


def _time(value: object) -> float:
    """A time as it was saved; 0.0 for what is none."""
    return float(value) if isinstance(value, int | float) and 0 < value < 1e11 else 0.0


def _enabled(dream: Dream, *, logging: bool) -> Gate:
    if logging:
        return Gate("enabled", False, "the daily log mode is on; `memsheaf consolidate` does it when asked")
    return Gate("enabled", dream.enabled, f"the settings say {'on' if dream.enabled else 'off'}")


def _enough(name: str, count: int, least: int, one: str, many: str, what: str) -> Gate:
    said = f"{count:,} {one if count == 1 else many} {what}, {least:,} needed"
    return Gate(name, count >= least, said)


def _old_enough(name: str, then: float, least: float, now: float, what: str) -> Gate:
    if not then:
        return Gate(name, True, "never yet")
    if then > now:
        return Gate(name, True, f"{what} at a time that has not come yet; the clock was wrong")
    return Gate(name, now - then >= least, f"{what} {_span(now - then)} ago, {_span(least)} needed")


def _span(seconds: float) -> str:
    """A length of time in words.

    >>> _span(30), _span(600), _span(86_400), _span(260_000)
    ('30 s', '10 min', '24 h', '3 days')
    """
    for length, name in ((72 * _HOUR, ""), (_HOUR, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {name}" if name else f"{seconds / (24 * _HOUR):.0f} days"
    return f"{seconds:.0f} s"
