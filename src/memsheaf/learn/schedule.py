"""The schedule of consolidation: gates, each with its reason, and the lock of the worker.

Gates only look: they read small state files, and try for an instant the lock `dream`, which the worker holds. The
worker waits longer than that for it, so that a look never keeps it from starting.

What is remembered moves on only after a consolidation has finished. A time in the future, because a clock was wrong,
counts as none.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from memsheaf.config import Dream
from memsheaf.errors import Busy, StoreFailed
from memsheaf.memory import plural
from memsheaf.store.state import State

LOCK = "dream"
MEMORY, LOOKED = "dream.json", "dream-looked.json"
LOOK_SECONDS, WORKER_SECONDS = 0.05, 1.0  # to wait for the lock

_HOUR = 3600.0


class Gate(NamedTuple):
    """One condition: whether it lets a consolidation through, and why or why not."""

    name: str
    is_open: bool
    why: str


class Past(NamedTuple):
    """What is remembered of the last consolidation that finished.

    `learned` is how many conversations had been learned from by then. `settled` are the clusters of memories that a
    model saw and left as they are.
    """

    at: float = 0.0
    learned: int = 0
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
    team: bool = False,
) -> tuple[Gate, ...]:
    """Every gate, in the order in which they are asked. Nothing is changed, and no lock stays held.

    `files` is how many memories there are, `learned` how many conversations were ever learned from, `planning`
    that the agent only plans and may change nothing, `logging` that the scope keeps a daily log, and `team` that
    it is a team's, about which a person decides.
    """
    past = load(state)
    looked = _read_time(state.load(LOOKED))
    since = learned - past.learned if learned >= past.learned else learned  # or they were counted from zero again
    enabled = f"the settings say {'on' if dream.enabled else 'off'}"
    if logging:
        enabled = "the daily log mode is on; `memsheaf consolidate` does it when asked"
    if team:
        enabled = "a team's memories are consolidated by a person, unless its policy is auto: `memsheaf consolidate`"
    many, some = plural(files, "memory", "memories"), plural(since, "conversation")
    is_busy = _is_busy(state)
    return (
        Gate("enabled", dream.enabled and not logging and not team, enabled),
        Gate("files", files >= dream.files, f"{many} there, {dream.files:,} needed"),
        Gate("not planning", not planning, "the agent only plans" if planning else "the agent may change things"),
        _age_gate("last time", past.at, dream.hours * _HOUR, now, "the last consolidation was"),
        _age_gate("last look", looked, dream.scan_minutes * 60, now, "it was last looked at"),
        Gate(
            "conversations",
            since >= dream.conversations,
            f"{some} learned from since, {dream.conversations:,} needed",
        ),
        Gate("lock", not is_busy, f"{'another process' if is_busy else 'nobody else'} is consolidating"),
    )


def load(state: State) -> Past:
    """What is remembered; a value that cannot be understood starts from zero."""
    stored = state.load(MEMORY)
    past = Past(_read_time(stored))
    match stored:
        case {"learned": int(learned)} if type(learned) is int and learned > 0:
            past = past._replace(learned=learned)
    match stored:
        case {"settled": [*clusters]}:
            past = past._replace(settled=tuple(cluster for cluster in clusters if isinstance(cluster, str)))
    return past


def save(state: State, past: Past) -> None:
    """Remember that a consolidation has finished. Only the worker may."""
    state.save(MEMORY, past._asdict())


def look(state: State, now: float) -> None:
    """Remember that it was checked whether a consolidation is due."""
    state.save(LOOKED, {"at": now})


@contextmanager
def at_work(state: State) -> Iterator[None]:
    """Be the only process that consolidates. Raises Busy, StoreFailed."""
    with ExitStack() as held:
        try:
            held.enter_context(state.lock(LOCK, wait=WORKER_SECONDS))
        except Busy:
            raise Busy("another process is consolidating already") from None
        yield


def _is_busy(state: State) -> bool:
    """Whether a process consolidates now."""
    if not os.path.isdir(state.folder):
        return False
    try:
        with state.lock(LOCK, wait=LOOK_SECONDS):
            return False
    except StoreFailed:
        return False
    except Busy:
        return True


def _read_time(stored: object) -> float:
    """Return the time `at` of a saved object; 0.0 if it has none."""
    match stored:
        case {"at": int() | float() as value} if 0 < value < 1e11:
            return float(value)
    return 0.0


def _age_gate(name: str, then: float, least: float, now: float, what: str) -> Gate:
    if not then:
        return Gate(name, True, "never yet")
    if then > now:
        return Gate(name, True, f"{what} at a time that has not come yet; the clock was wrong")
    return Gate(name, now - then >= least, f"{what} {_duration(now - then)} ago, {_duration(least)} needed")


def _duration(seconds: float) -> str:
    """A length of time in words.

    >>> _duration(30), _duration(600), _duration(86_400), _duration(260_000)
    ('30 s', '10 min', '24 h', '3 days')
    """
    if seconds >= 72 * _HOUR:
        return f"{seconds / (24 * _HOUR):.0f} days"
    for length, unit in ((_HOUR, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
