"""Lets many processes use one inbox at once, or kills one at every system call, and counts what is lost or doubled.

    python tests/learn/inbox_crowd.py crowd            8 processes append while one reads
    python tests/learn/inbox_crowd.py strike   kill -9 before each call to the disk, and half-way in each write
    python tests/learn/inbox_crowd.py full             a disk that takes no more

Each prints what it counted, and fails if anything was lost, doubled or half done.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from memsheaf.errors import StoreFailed
from memsheaf.learn.inbox import Batch, Inbox
from memsheaf.recall.turns import Message, Turn
from memsheaf.store.state import State

WRITERS, EACH = 8, 25
CALLS = ("open", "write", "replace", "unlink", "fsync", "fdatasync", "ftruncate")


def turn(who: str, number: int, conversation: str = "") -> Turn:
    """A turn whose messages nobody else has."""
    said = tuple(
        Message(
            role, f"{role} {who} says what nobody said before: {number}", f"{who}-{role}-{number:08}-of-this-host"
        )
        for role in ("user", "assistant")
    )
    return Turn(conversation or f"conversation of {who}", said, "2026-11-15T12:00:00Z")


def names(batch: Batch) -> list[str]:
    return [message.id for turn in batch.turns for message in turn.messages]


def drained(inbox: Inbox, most: int = 300) -> Iterator[Batch]:
    """All that waits, batch by batch."""
    while (batch := inbox.pending(most)).turns:
        yield batch
        inbox.done(batch)


# many at once


def append(folder: str, who: str) -> None:
    inbox = Inbox(State(folder))
    for number in range(EACH):
        assert inbox.append(turn(who, number))
        assert not inbox.append(turn(who, number, "resumed"))


def crowd(folder: str) -> str:
    """Eight append, each turn twice, while one reads what is there."""
    inbox = Inbox(State(folder))
    command = [sys.executable, __file__, "append", folder]
    writers = [subprocess.Popen([*command, f"writer{number}"]) for number in range(WRITERS)]
    read: list[str] = []
    during = 0
    while any(writer.poll() is None for writer in writers):
        for batch in drained(inbox):
            read += names(batch)
            during += 1
    for batch in drained(inbox):
        read += names(batch)
    assert all(writer.returncode == 0 for writer in writers)
    told = {message.id for n in range(WRITERS) for i in range(EACH) for message in turn(f"writer{n}", i).messages}
    for number in range(WRITERS):
        mine = [name for name in read if name.startswith(f"writer{number}-")]
        assert mine == [message.id for i in range(EACH) for message in turn(f"writer{number}", i).messages]
    doubled = len(read) - len(set(read))
    left = [name for name in os.listdir(folder) if name.startswith(("inbox-", "draft-"))]
    assert (inbox.learned(), left) == (WRITERS, [])
    assert during > 1, "nobody read while others wrote"
    return f"{len(read)} messages read, {len(told - set(read))} lost, {doubled} doubled"


# killed at each call


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


def _append_long(inbox: Inbox) -> None:
    """So long that it takes several files."""
    inbox.append(_long())


def _long() -> Turn:
    told = turn("main", 3)
    more = (Message("tool", "x" * 5_000, f"main-tool-{number:08}-of-this-host") for number in range(7))
    return told._replace(messages=(*told.messages, *more))


def _finish(inbox: Inbox) -> None:
    inbox.done(inbox.pending(500))


def _purge(inbox: Inbox) -> None:
    """One message of the first turn, and all of the second."""
    inbox.purge(lambda text: not text.endswith(": 1") and text != turn("main", 0).messages[0].text)


WORKS: dict[str, Callable[[Inbox], None]] = {
    "append": _append_long,
    "done": _finish,
    "purge": _purge,
}


def _prepared(place: str) -> str:
    """A folder in which three turns wait, to be copied."""
    folder = os.path.join(place, "prepared")
    if not os.path.exists(folder):
        inbox = Inbox(State(folder))
        for earlier in range(3):
            inbox.append(turn("main", earlier))
    return folder


def _struck(folder: str, work: Callable[[Inbox], None], how: str, number: int) -> bool:
    """Whether a process that was to be killed at its `number`-th call was; what it left must be sound."""
    shutil.copytree(_prepared(os.path.dirname(folder)), folder)
    inbox = Inbox(State(folder))
    first = inbox.pending(500) if work is _finish else Batch()
    child = os.fork()
    if not child:
        _arm(how, number)
        work(Inbox(State(folder)))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    read: dict[str, list[str]] = {}  # by batch: whoever dies in `done` may get the same one again, and only that
    if first.turns:
        read[first.id] = names(first)
    expected = [message.id for earlier in range(3) for message in turn("main", earlier).messages]
    if work is _purge:
        work(inbox)
        expected = [expected[1], *expected[4:]]
    last = _long() if work is _append_long else turn("main", 3)
    inbox.append(last)  # the host tells it again
    for batch in drained(inbox, 500):
        assert read.setdefault(batch.id, names(batch)) == names(batch)
    expected += [message.id for message in last.messages]
    found = [name for part in read.values() for name in part]
    assert found == expected, (folder, how, number, found)
    assert not any(inbox.append(told) for told in (*(turn("main", earlier) for earlier in range(3)), last))
    left = [name for name in os.listdir(folder) if name.startswith(("inbox-", "draft-"))]
    assert left == [], (folder, left)
    shutil.rmtree(folder)
    return os.WIFSIGNALED(status)


def _arm(how: str, number: int) -> None:
    """Make this process kill itself at its `number`-th call that touches the disk, or half-way in that write."""
    left = number

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

    for name in CALLS if how == "before" else ("write",):
        if hasattr(os, name):
            setattr(os, name, armed(getattr(os, name)))


# a full disk


def full(folder: str) -> str:
    """Append when the disk takes no more, and again when it does."""
    import resource

    inbox = Inbox(State(folder))
    assert inbox.append(turn("main", 0))
    before = {name: os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)}
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, allowed[1]))
    handed = Batch("x", "c", tuple(inbox.turns()), 1, (1,))
    refused = 0
    attempts: list[Callable[[], object]] = [lambda: inbox.append(_long()), inbox.pending, lambda: inbox.done(handed)]
    for attempt in attempts:
        try:
            attempt()
        except StoreFailed:
            refused += 1
    resource.setrlimit(resource.RLIMIT_FSIZE, allowed)
    assert {name: os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder)} == before
    assert inbox.append(_long())
    read = [name for batch in drained(inbox) for name in names(batch)]
    assert read == [message.id for told in (turn("main", 0), _long()) for message in told.messages]
    return f"{refused} refused, nothing half done"


if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    if name == "append":
        append(*rest)
    else:
        with tempfile.TemporaryDirectory() as scratch:
            shows: dict[str, Callable[[], str]] = {
                "crowd": lambda: crowd(os.path.join(scratch, "state")),
                "strike": lambda: strike(scratch),
                "full": lambda: full(os.path.join(scratch, "state")),
            }
            print(shows[name]())
