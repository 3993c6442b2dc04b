"""Lets many processes add to one daily log at once, or kills one at every system call, and counts what is lost.

    python tests/learn/daily_crowd.py crowd            4 processes note and log, and one reads meanwhile
    python tests/learn/daily_crowd.py strike   kill -9 before each call to the disk, and half-way in each write

Each prints what it counted, and fails if anything was lost, handed over twice, or left where it was erased.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable

from inbox_crowd import _arm as arm
from inbox_crowd import drained

from memsheaf.learn.daily_log import DailyLog
from memsheaf.learn.inbox import Inbox
from memsheaf.recall.turns import Message, Turn
from memsheaf.store.state import State

WRITERS, EACH = 4, 15
NOON = 1_794_744_000.0
SECRET = "The vault opens at noon."


def log_at(place: str) -> DailyLog:
    return DailyLog(os.path.join(place, "root"), State(os.path.join(place, "state")), clock=lambda: NOON)


def text(who: str, number: int) -> str:
    return f"{who} says what nobody said before: {number}"


def turn(who: str, number: int) -> Turn:
    return Turn(f"conversation of {who}", (Message("user", text(who, number), f"{who}-{number:08}-of-this-host"),))


def handed(place: str) -> list[str]:
    """What the inbox holds, taken out of it."""
    inbox = Inbox(State(os.path.join(place, "state")))
    return [message.text for batch in drained(inbox) for one in batch.turns for message in one.messages]


def logged(place: str) -> list[str]:
    return [entry.text for day in log_at(place).days() for entry in day.entries]


# many at once


def write(place: str, who: str) -> None:
    """Notes take no lock of the inbox, turns do."""
    with log_at(place) as log:
        for number in range(EACH):
            if number % 2:
                log.note(text(who, number))
            else:
                assert log.append(turn(who, number))


def crowd(place: str) -> str:
    """Some write while one hands over what is there."""
    command = [sys.executable, __file__, "write", place]
    writers = [subprocess.Popen([*command, f"writer{number}"]) for number in range(WRITERS)]
    read: list[str] = []
    while any(writer.poll() is None for writer in writers):
        log_at(place).hand_over()
        read += handed(place)
    log_at(place).hand_over()
    read += handed(place)
    assert all(writer.returncode == 0 for writer in writers)
    for number in range(WRITERS):
        mine = [text(f"writer{number}", i) for i in range(EACH)]
        assert [one for one in logged(place) if one in mine] == mine
    told = {text(f"writer{n}", i) for n in range(WRITERS) for i in range(EACH)}
    return f"{len(logged(place))} logged, {len(told - set(read))} lost, {len(read) - len(set(read))} doubled"


# killed at each call


def _append(log: DailyLog) -> None:
    log.append(turn("main", 3))


def _hand_over(log: DailyLog) -> None:
    log.hand_over()


def _purge(log: DailyLog) -> None:
    log.purge(lambda said: SECRET not in said)


WORKS: dict[str, Callable[[DailyLog], None]] = {
    "append": _append,
    "hand over": _hand_over,
    "purge": _purge,
}


def strike(place: str) -> str:
    """Kill a process at each of its calls, in each kind of work, and let another go on."""
    struck = 0
    for name, work in WORKS.items():
        for how in ("before", "half"):
            number = 1
            while _struck(os.path.join(place, f"{name}-{how}-{number}"), work, how, number):
                number += 1
            struck += number - 1
            assert number > 1, f"{name}: nothing was struck"
    return f"{struck} strikes, 0 lost, 0 doubled"


def _struck(place: str, work: Callable[[DailyLog], None], how: str, number: int) -> bool:
    """Whether a process that was to be killed at its `number`-th call was; what it left must be sound."""
    prepared = os.path.join(os.path.dirname(place), f"prepared for {work.__name__}")
    if not os.path.exists(prepared):
        with log_at(prepared) as log:
            for earlier in range(3):
                log.append(turn("main", earlier))
            if work is _purge:
                log.note(SECRET)
                log.note(f"And again: {SECRET}")
    shutil.copytree(prepared, place)
    page = _page(place)
    child = os.fork()
    if not child:
        arm(how, number)
        work(log_at(place))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status)
    expected = Counter(text("main", earlier) for earlier in range(3))
    if work is not _purge:
        assert _page(place).startswith(page), (place, "what was there is not what it was")
    if work is _append:  # the host tells it again, because it never heard that it was kept
        log_at(place).append(turn("main", 3))
        expected[text("main", 3)] = max(1, logged(place).count(text("main", 3)))
        assert expected[text("main", 3)] <= 2  # a crash may have it logged twice; it is handed over once
    else:
        work(log_at(place))
    assert Counter(logged(place)) == expected, (place, logged(place), expected)
    if work is _purge:
        for path in log_at(place).files():
            with open(path, "rb") as file:
                assert SECRET.encode() not in file.read(), path
    else:
        log_at(place).hand_over()
        log_at(place).hand_over()
        assert Counter(handed(place)) == Counter(set(expected)), (place, expected)
    shutil.rmtree(place)
    return killed


def _page(place: str) -> bytes:
    (path,) = (path for path in log_at(place).files() if path.endswith(".md"))
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    if name == "write":
        write(*rest)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            print({"crowd": crowd, "strike": strike}[name](scratch))
