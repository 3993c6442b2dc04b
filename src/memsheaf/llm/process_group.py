"""A child process group that is killed when this process exits.

The program begins as a shell that leaves a watcher behind and then becomes the program. Both are in a process group
of their own. The watcher waits on a pipe of which we alone hold the other end: when we let go of it, or die, even by
`kill -9`, the pipe ends, and the watcher kills the group. Some programs make groups of their own: on Linux, where one
can see who belongs to a session, the whole session is killed. Only what leaves it on purpose gets away.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from subprocess import TimeoutExpired

from memsheaf.values import NamedTuple

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from selectors import DefaultSelector
    from subprocess import Popen

# $1 is the number of the descriptor with the text for the program, which may have two digits: hence /dev/fd.
# The watcher goes through the session more than once, for what is started while others are killed.
_SHELL = """
exec 3<&0
(
    read -r _ <&3
    read -r self _ </proc/self/stat
    for again in 1 2 3 4 5; do
        for each in /proc/[0-9]*; do
            read -r line <"$each/stat" || continue
            set -- ${line##*) }
            [ "$4" != $$ ] || [ "$each" = "/proc/$self" ] || kill -KILL "${each#/proc/}"
        done
    done
    kill -KILL 0
) >/dev/null 2>&1 &
text=$1
shift
exec "$@" </dev/fd/"$text" 3<&-
"""
_CHUNK = 1 << 16
_SWEEPS = 20
_REST = 1.0  # seconds to hear what is left once the program has ended, should something it started go on printing
_LOOK = 0.05  # seconds between looks whether the program has ended, should something it started hold its output


class Ran(NamedTuple):
    """How a program ended, and what it printed."""

    code: int
    out: bytes
    err: bytes


class TooMuch(Exception):
    """The program printed more than it may."""


def run(
    line: Sequence[str], text: bytes, *, folder: str, environment: Mapping[str, str], deadline: float, limit: int
) -> Ran:
    """Run a program in a folder, with a text on its standard input. Nothing of it is left when this returns.

    Raises:
        TimeoutError: it had not ended when the time was up.
        TooMuch: it printed more than `limit` bytes.
        OSError: it could not be started.
    """
    end = time.monotonic() + deadline
    with leashed(line, folder=folder, environment=environment) as (process, inlet):
        out, err = _converse(process, inlet, text, end, limit)
        try:
            return Ran(process.wait(max(end - time.monotonic(), 0)), out, err)
        except TimeoutExpired:
            raise TimeoutError from None


def listen(
    line: Sequence[str],
    hear: Callable[[bytes], object],
    *,
    folder: str,
    environment: Mapping[str, str],
    deadline: float,
) -> int:
    """Run a program with nothing on its standard input, and hear what it prints, errors and all, as it comes.

    Gives how it ended. Nothing of it is left when this returns.

    Raises:
        TimeoutError: it had not ended when the time was up.
        OSError: it could not be started.
    """
    end = time.monotonic() + deadline
    with leashed(line, folder=folder, environment=environment, together=True) as (process, inlet):
        os.close(inlet)
        assert process.stdout is not None
        has_ended = False
        with DefaultSelector() as selector:
            selector.register(process.stdout.fileno(), EVENT_READ)
            while (left := end - time.monotonic()) > 0:
                if not has_ended and process.poll() is not None:
                    has_ended, end = True, min(end, time.monotonic() + _REST)
                ready = selector.select(0 if has_ended else min(left, _LOOK))
                part = os.read(process.stdout.fileno(), _CHUNK) if ready else b""
                hear(part)
                if not part and (ready or has_ended):
                    break  # what it started may hold its output for ever
        try:
            return process.wait(max(end - time.monotonic(), 0))
        except TimeoutExpired:
            raise TimeoutError from None


@contextmanager
def leashed(
    line: Sequence[str], *, folder: str, environment: Mapping[str, str], together: bool = False
) -> Iterator[tuple[Popen[bytes], int]]:
    """A program at work, and the descriptor to write to what it reads: whoever takes it closes it.

    It ends with the block, and all it started with it. `together`: its errors come with what it prints.
    """
    held, leash = os.pipe()
    outlet, inlet = os.pipe()
    process = None
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", _SHELL, "memsheaf", str(outlet), *line],
            stdin=held,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if together else subprocess.PIPE,
            cwd=folder,
            env=dict(environment),
            pass_fds=(outlet,),
            start_new_session=True,
        )
        inlet, writing = -1, inlet
        yield process, writing
    finally:
        for descriptor in (leash, held, outlet, inlet):
            if descriptor >= 0:
                os.close(descriptor)
        if process is not None:
            _end(process)


def _end(process: Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # the watcher is about to, and this does not wait for it
    empty = 0
    for _ in range(_SWEEPS):
        left = _session(process.pid)
        empty = 0 if left else empty + 1
        if empty == 2:  # what was started while its parent was killed can be missed once
            break
        for each in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe:
            pipe.close()


def _session(leader: int) -> list[int]:
    """The living processes of a session: also those with a group of their own, as `timeout` makes one (Linux)."""
    found = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        with suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                state, _, _, session, *_ = file.read().rpartition(b")")[2].split()
            if int(session) == leader and state not in (b"Z", b"X"):
                found.append(int(name))
    return found


def _converse(process: Popen[bytes], inlet: int, text: bytes, end: float, limit: int) -> tuple[bytes, bytes]:
    """Write to the program and read from it, whichever it is ready for, until it has ended."""
    assert process.stdout is not None
    assert process.stderr is not None
    heard = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with DefaultSelector() as selector:
        for descriptor in heard:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, EVENT_READ)
        os.set_blocking(inlet, False)
        selector.register(inlet, EVENT_WRITE)
        rest = memoryview(text)
        try:
            while heard.keys() & selector.get_map().keys():
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                has_ended = process.poll() is not None
                ready = selector.select(0 if has_ended else min(left, _LOOK))
                for key, _ in ready:
                    if key.fd == inlet:
                        rest = _write(inlet, rest)
                        if not rest:
                            selector.unregister(inlet)
                            os.close(inlet)
                            inlet = -1
                    else:
                        _read(key.fd, heard[key.fd], selector)
                if sum(map(len, heard.values())) > limit:
                    raise TooMuch
                if has_ended and not any(key.fd in heard for key, _ in ready):
                    break  # what it started may hold its output for ever
        finally:
            if inlet >= 0:
                os.close(inlet)
    out, err = heard.values()
    return bytes(out), bytes(err)


def _read(descriptor: int, heard: bytearray, selector: DefaultSelector) -> None:
    with suppress(BlockingIOError):
        part = os.read(descriptor, _CHUNK)
        heard += part
        if not part:
            selector.unregister(descriptor)


def _write(inlet: int, rest: memoryview) -> memoryview:
    """Write what fits, and give what is left; nothing is, once nobody reads."""
    try:
        return rest[os.write(inlet, rest[:_CHUNK]) :]
    except BlockingIOError:
        return rest
    except BrokenPipeError:
        return rest[:0]
