"""The work queue and the streams of the stdio server: requests in order, bounded, for one worker thread."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO

from memsheaf.errors import Refused, hinted
from memsheaf.mcp.protocol import meta_of

if TYPE_CHECKING:
    Message = dict[str, Any]

LIMIT = 100  # requests; with so many, no more are read
END = object()


class Cancelled(Exception):
    """The client cancelled the request."""


class PendingRequest:
    """One request that is being answered."""

    def __init__(self, number: object, method: str, params: Message) -> None:
        self.id = number
        self.method = method
        self.params = params
        self.cancelled = False

    @property
    def token(self) -> object:
        """What the client wants progress to be told under, None when it does not."""
        token = meta_of(self.params).get("progressToken")
        return token if isinstance(token, str | int) and not isinstance(token, bool) else None


class WorkQueue:
    """Requests that wait for the worker thread, in order. `put` blocks while the queue is full."""

    def __init__(self) -> None:
        self._tasks: deque[object] = deque()
        self._some = threading.Semaphore(0)
        self._room = threading.Semaphore(LIMIT)
        self._requests = self._finished = 0  # each is changed by one thread alone

    @property
    def is_full(self) -> bool:
        """Whether the queue is full."""
        return len(self._tasks) >= LIMIT

    def put(self, task: object) -> None:
        """Queue this for the worker thread, once there is room; None asks it to look for changes."""
        self._room.acquire()
        self._requests += task is not None
        self._tasks.append(task)
        self._some.release()

    def finish(self) -> None:
        """Note that a request was done, for `has_requests`."""
        self._finished += 1

    @property
    def has_requests(self) -> bool:
        """Whether a request waits or is being done."""
        return self._requests > self._finished

    def end(self) -> None:
        """Let the working thread end once it is through."""
        self._tasks.append(END)
        self._some.release()

    def get(self) -> object:
        """Wait for the next thing to do."""
        self._some.acquire()
        self._room.release()
        return self._tasks.popleft()


def is_hung_up(source: BinaryIO) -> bool:
    """Whether the other end was closed, though there may be more to read; False where that cannot be known."""
    import select

    if not hasattr(select, "poll"):
        return False
    closed = select.POLLHUP | getattr(select, "POLLRDHUP", 0)
    asked = select.poll()
    asked.register(source, closed)
    return any(event & closed for _, event in asked.poll(0))


@contextmanager
def own_streams() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Stdin and stdout, which nothing else in this process can reach meanwhile. Raises Refused without them."""
    if sys.__stdin__ is None or sys.__stdout__ is None:
        hint = "A client starts it with both; `memsheaf mcp --print-config CLIENT` tells how."
        raise hinted(Refused("there is no stdin or no stdout to talk over"), hint)
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        yield source, sink
    finally:
        source.close()
        with suppress(OSError):  # what nobody reads any more
            sink.close()
