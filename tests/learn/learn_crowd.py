"""Lets many processes use one inbox or daily log at once, or kills one at every system call, and counts the losses.

    python tests/learn/learn_crowd.py inbox           several processes append to an inbox while one reads
    python tests/learn/learn_crowd.py log             several processes note and log while one learns
    python tests/learn/learn_crowd.py strike-inbox    kill one that uses an inbox, later and later
    python tests/learn/learn_crowd.py strike-log      kill one that uses a daily log before each call to the disk, and
                                                      half-way in each write
    python tests/learn/learn_crowd.py full            an inbox on a disk that takes no more

Each prints what it counted, and fails if anything was lost, doubled, half done, or left where it was erased.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from memsheaf.errors import StoreFailed
from memsheaf.learn.daily_log import DailyLog
from memsheaf.learn.inbox import Batch, Inbox
from memsheaf.recall.turns import Message, Turn
from memsheaf.state import State

LONG = bool(os.environ.get("MEMSHEAF_LONG"))
EACH = 15 if LONG else 6
WRITERS = 8 if LONG else 3
STEP = 1 if LONG else 6  # calls between two strikes; four times as many ticks
TICK = 0.000_05  # seconds
NOON = 1_794_744_000.0
SECRET = "The vault opens at noon."
CALLS = ("open", "write", "replace", "unlink", "fsync", "fdatasync", "ftruncate")


def inbox_at(place: str) -> Inbox:
    return Inbox(State(os.path.join(place, "state")))


def log_at(place: str) -> DailyLog:
    return DailyLog(os.path.join(place, "root"), State(os.path.join(place, "state")), clock=lambda: NOON)


def text(who: str, number: int) -> str:
    return f"{who} says what nobody said before: {number}"


def turn(who: str, number: int, conversation: str = "") -> Turn:
    """A turn whose messages nobody else has."""
    said = (
        Message(role, f"{text(who, number)}", f"{who}-{role}-{number:08}-of-this-host") for role in ("user", "tool")
    )
    return Turn(conversation or f"conversation of {who}", tuple(said), "2026-11-15T12:00:00Z")


def long_turn() -> Turn:
    """A turn that takes several files."""
    more = (Message("tool", "x" * 5_000, f"main-more-{number:08}-of-this-host") for number in range(7))
    return turn("main", 3)._replace(messages=(*turn("main", 3).messages, *more))


def names(batch: Batch) -> list[str]:
    return [message.id for turn in batch.turns for message in turn.messages]


def drained(inbox: Inbox, most: int = 300) -> Iterator[Batch]:
    """All that waits, batch by batch."""
    while (batch := inbox.next_batch(most)).turns:
        yield batch
        inbox.finish(batch)


def handed(place: str) -> list[str]:
    """The texts in the inbox, which is empty afterwards."""
    batches = drained(inbox_at(place))
    return [message.text for batch in batches for one in batch.turns for message in one.messages]


def logged(place: str) -> list[str]:
    return [entry.text for day in log_at(place).days() for entry in day.entries]


# many at once


def write_inbox(place: str, who: str) -> None:
    """Append each turn twice, as after a resume."""
    for number in range(EACH):
        assert inbox_at(place).append(turn(who, number))
        assert not inbox_at(place).append(turn(who, number, "resumed"))


def write_log(place: str, who: str) -> None:
    """Notes take no lock of the inbox, turns do."""
    with log_at(place) as log:
        for number in range(EACH):
            if number % 2:
                log.note(text(who, number))
            else:
                assert log.append(turn(who, number))


def written(worker: str, place: str, count: int, read: Callable[[], None]) -> None:
    """Let so many processes write, and one read until they are done."""
    command = [sys.executable, __file__, worker, place]
    writers = [subprocess.Popen([*command, f"writer{number}"]) for number in range(count)]
    while any(writer.poll() is None for writer in writers):
        read()
        time.sleep(0.01)
    read()
    assert all(writer.returncode == 0 for writer in writers)


def crowd_inbox(place: str) -> str:
    inbox = inbox_at(place)
    read: list[str] = []
    written(
        "write_inbox", place, WRITERS, lambda: read.extend(name for batch in drained(inbox) for name in names(batch))
    )
    for number in range(WRITERS):
        mine = [message.id for i in range(EACH) for message in turn(f"writer{number}", i).messages]
        assert [name for name in read if name.startswith(f"writer{number}-")] == mine
    assert (inbox.count_learned(), inbox.count_waiting()) == (WRITERS, 0)
    return f"{len(read)} messages read, {len(read) - len(set(read))} doubled"


def crowd_log(place: str) -> str:
    read: list[str] = []
    written("write_log", place, WRITERS, lambda: read.extend(handed(place)))
    told = {text(f"writer{number}", i) for number in range(WRITERS) for i in range(EACH)}
    assert told <= set(read)
    for number in range(WRITERS):
        mine = [text(f"writer{number}", i) for i in range(EACH)]
        assert [one for one in logged(place) if one in mine] == mine
    return f"{len(logged(place))} logged, {len(read) - len(set(read))} doubled"


# killed at each call


def strike(place: str, works: dict[str, Callable[[str], object]], judge: Callable[[str, str, bool], None]) -> str:
    """Kill a process at each of its calls, in each kind of work, and let another go on."""
    struck = 0
    for name, work in works.items():
        prepared = os.path.join(place, name)
        prepare(prepared, name)
        for how in ("before", "half") if name.startswith("log") else ("timer",):
            for number in range(1, 1_000, STEP if how != "timer" or LONG else 4 * STEP):
                scene = os.path.join(place, f"{name}-{how}-{number}")
                shutil.copytree(prepared, scene)
                child = os.fork()
                if not child:
                    arm(how, number)
                    work(scene)
                    os._exit(0)
                killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
                judge(scene, name, killed)
                shutil.rmtree(scene)
                if not killed:
                    break
                struck += 1
    return f"{struck} strikes, 0 doubled"


def prepare(place: str, name: str) -> None:
    for earlier in range(3):
        if not name.startswith("log"):
            inbox_at(place).append(turn("main", earlier))
            continue
        with log_at(place) as log:
            log.append(turn("main", earlier))
            if name == "log purge":
                log.note(SECRET)
    if name == "done":
        inbox_at(place).next_batch(500)


def arm(how: str, number: int) -> None:
    """Make this process kill itself at its `number`-th call that touches the disk, half-way in it, or later."""
    left = number
    if how == "timer":
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # which ends it wherever it is, also inside of SQLite
        signal.setitimer(signal.ITIMER_REAL, number * TICK)

    def armed(call: Callable[..., Any]) -> Callable[..., Any]:
        def struck(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left:
                return call(*arguments, **options)
            if how == "half":
                call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError

        return struck

    for name in {"before": CALLS, "half": ("write",), "timer": ()}[how]:
        if hasattr(os, name):
            setattr(os, name, armed(getattr(os, name)))


def purge_inbox(place: str) -> None:
    """One message of the first turn, and all of the second."""
    first = turn("main", 0).messages[0].text
    inbox_at(place).purge(lambda said: not said.endswith(": 1") and said != first)


INBOX_WORKS: dict[str, Callable[[str], object]] = {
    "append": lambda place: inbox_at(place).append(long_turn()),
    "done": lambda place: inbox_at(place).finish(inbox_at(place).next_batch(500)),
    "purge": purge_inbox,
}


def judge_inbox(place: str, name: str, killed: bool) -> None:
    """What was left must be sound: each message is read once, whatever the host tells again."""
    inbox = inbox_at(place)
    expected = [message.id for earlier in range(3) for message in turn("main", earlier).messages]
    if name == "purge":
        purge_inbox(place)
        expected = expected[4:]
    last = long_turn()
    inbox.append(last)  # the host tells it again
    read = [one for batch in drained(inbox, 500) for one in names(batch)]
    expected += [message.id for message in last.messages]
    handed_out = expected[: len(expected) - len(read)] if name == "done" else []  # done, and then it was killed
    assert handed_out in ([], expected[:2], expected[:4], expected[:6]), (place, read)
    assert [*handed_out, *read] == expected, (place, read)
    assert not any(inbox.append(told) for told in (*(turn("main", earlier) for earlier in range(3)), last))
    assert inbox.count_waiting() == 0, place


LOG_WORKS: dict[str, Callable[[str], object]] = {
    "log append": lambda place: log_at(place).append(turn("main", 3)),
    "log purge": lambda place: log_at(place).purge(lambda said: SECRET not in said),
}


def judge_log(place: str, name: str, killed: bool) -> None:
    """What was there is there, what was told again is learned from once, and what was erased is nowhere."""
    expected = Counter(text("main", earlier) for earlier in range(3))
    LOG_WORKS[name](place)  # again, because nobody heard that it was done
    if name == "log append":
        expected[text("main", 3)] = max(1, logged(place).count(text("main", 3)))
        assert expected[text("main", 3)] <= 2  # a crash may have it logged twice; it is learned from once
    assert Counter(logged(place)) == expected, (place, logged(place), expected)
    if name == "log purge":
        for path in log_at(place).files():
            with open(path, "rb") as file:
                assert SECRET.encode() not in file.read(), path
    inbox_at(place).purge(lambda said: said != SECRET)
    assert Counter(handed(place)) == Counter(set(expected)), (place, expected)


# a full disk


def full(place: str) -> str:
    """Append when the disk takes no more, and again when it does."""
    import resource

    inbox = inbox_at(place)
    assert inbox.append(turn("main", 0))
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, allowed[1]))
    batch = Batch("x", "c", tuple(inbox.turns()), 1, (1,))
    refused = 0
    attempts: list[Callable[[], object]] = [
        lambda: inbox.append(long_turn()), inbox.next_batch, lambda: inbox.finish(batch)
    ]  # fmt: skip
    for attempt in attempts:
        try:
            attempt()
        except StoreFailed:
            refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert inbox.turns() == list(batch.turns)
    assert inbox.append(long_turn())
    read = [name for batch in drained(inbox) for name in names(batch)]
    assert read == [message.id for told in (turn("main", 0), long_turn()) for message in told.messages]
    return f"{refused} refused, nothing half done"


SHOWS: dict[str, Callable[[str], str]] = {
    "inbox": crowd_inbox,
    "log": crowd_log,
    "strike-inbox": lambda place: strike(place, INBOX_WORKS, judge_inbox),
    "strike-log": lambda place: strike(place, LOG_WORKS, judge_log),
    "full": full,
}

if __name__ == "__main__":
    show, *rest = sys.argv[1:]
    if show in ("write_inbox", "write_log"):
        globals()[show](*rest)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            print(SHOWS[show](scratch))
