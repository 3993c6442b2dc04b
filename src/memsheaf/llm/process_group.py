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
from selectors import EVENT_READ, DefaultSelector
from subprocess import Popen, TimeoutExpired
from threading import Thread

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
_SWEEPS = 20
_REST = 1.0  # seconds to hear what is left once the program has ended, should something it started go on printing
_LOOK = 0.05  # seconds between looks whether the program has ended, should something it started hold its output


def listen(
    line: Sequence[str],
    hear: Callable[[bytes], object],
    *,
    folder: str,
    environment: Mapping[str, str],
    deadline: float,
    text: bytes = b"",
    hear_errors: Callable[[bytes], object] | None = None,
) -> int:
    """Run a program with a text on its standard input, and hear what it prints as it comes; give how it ended.

    Its errors go to `hear`, too, unless `hear_errors` takes them. Nothing of it is left when this returns.

    Raises:
        TimeoutError: it had not ended when the time was up.
        OSError: it could not be started.
    """
    if sys.platform == "win32":
        return listen_without_group(line, hear, folder, environment, deadline, text, hear_errors)
    end = time.monotonic() + deadline
    with _leashed(line, folder, environment, together=hear_errors is None) as (process, inlet):
        Thread(target=_feed, args=(inlet, text), name="memsheaf-feed", daemon=True).start()
        pipes = (process.stdout, hear), (process.stderr, hear_errors or hear)
        heard = {pipe.fileno(): take for pipe, take in pipes if pipe}
        has_ended = False
        with DefaultSelector() as selector:
            for descriptor in heard:
                selector.register(descriptor, EVENT_READ)
            while selector.get_map() and (left := end - time.monotonic()) > 0:
                if not has_ended and process.poll() is not None:
                    has_ended, end = True, min(end, time.monotonic() + _REST)
                ready = selector.select(0 if has_ended else min(left, _LOOK))
                for key, _ in ready:
                    if part := os.read(key.fd, 1 << 16):
                        heard[key.fd](part)
                    else:
                        selector.unregister(key.fd)
                if has_ended and not ready:
                    break  # what it started may hold its output for ever
        try:
            return process.wait(max(end - time.monotonic(), 0))
        except TimeoutExpired:
            raise TimeoutError from None


def listen_without_group(
    line: Sequence[str],
    hear: Callable[[bytes], object],
    folder: str,
    environment: Mapping[str, str],
    deadline: float,
    text: bytes = b"",
    hear_errors: Callable[[bytes], object] | None = None,
) -> int:
    """As `listen`, on Windows: what a program started is ended with it, but not when this process is killed."""
    errors = subprocess.STDOUT if hear_errors is None else subprocess.PIPE
    pipe = subprocess.PIPE
    process = Popen(line, cwd=folder, env=dict(environment), stdin=pipe, stdout=pipe, stderr=errors)
    assert process.stdin
    assert process.stdout
    pipes = [(process.stdout, hear)] + ([(process.stderr, hear_errors)] if process.stderr and hear_errors else [])

    def read(descriptor: int, take: Callable[[bytes], object]) -> None:
        while part := os.read(descriptor, 1 << 16):
            take(part)

    threads = [Thread(target=read, args=(one.fileno(), take), daemon=True) for one, take in pipes]
    for thread in threads:
        thread.start()
    Thread(target=_feed, args=(os.dup(process.stdin.fileno()), text), name="memsheaf-feed", daemon=True).start()
    process.stdin.close()
    try:
        return process.wait(deadline)
    except TimeoutExpired:
        raise TimeoutError from None
    finally:
        with suppress(OSError):
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
        with suppress(OSError):
            process.kill()
        process.wait()
        for thread, (one, _) in zip(threads, pipes, strict=True):
            thread.join(_REST)
            if not thread.is_alive():
                one.close()


def _feed(inlet: int, text: bytes) -> None:
    with suppress(OSError), os.fdopen(inlet, "wb") as file:  # it may end before it has read all
        file.write(text)


@contextmanager
def _leashed(
    line: Sequence[str], folder: str, environment: Mapping[str, str], *, together: bool
) -> Iterator[tuple[Popen[bytes], int]]:
    """A running program, and the descriptor of its standard input, which the caller closes.

    It ends with the block, and all it started with it. `together`: its errors come with what it prints.
    """
    held, leash = os.pipe()
    outlet, inlet = os.pipe()
    process = None
    try:
        process = Popen(
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
