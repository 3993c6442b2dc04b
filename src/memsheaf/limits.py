"""Limits on what models may cost and on how long a call may take."""

import threading
from collections.abc import Callable
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Caps(NamedTuple):
    """The most that may be spent in one run, and in one day by all runs together; a token is about 4 bytes."""

    requests_per_run: int = 20
    tokens_per_run: int = 100_000
    seconds_per_run: float = 300.0
    requests_per_day: int = 300
    tokens_per_day: int = 1_000_000


class ChatCaps(NamedTuple):
    """The most that all conversations of a day may cost together; what else asks models has `Caps` of its own."""

    requests_per_day: int = 2_000
    tokens_per_day: int = 5_000_000


class TimeUp(Exception):
    """The call did not return in time. It goes on in its thread, and its result is dropped."""


def within(seconds: float, work: Callable[[], T], *, name: str) -> T:
    """Run `work` in a thread of this name with a time-out. Raises what it raised, or TimeUp."""
    done: list[T] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            done.append(work())
        except Exception as error:  # noqa: BLE001 - it is raised again, in the thread that waits
            failed.append(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # there are too many already
        return work()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise TimeUp
    return done[0]
