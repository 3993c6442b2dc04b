"""A child process that is killed with its whole group when its time is up, or when nobody listens any more."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from threading import Thread
from typing import IO

REST_SECONDS = 1.0  # to read what is left in the pipes once the group is killed

Hear = Callable[[bytes], object]

_RUNNING: set[Popen[bytes]] = set()


def listen(
    line: Sequence[str],
    hear: Hear,
    *,
    folder: str,
    environment: Mapping[str, str],
    deadline: float,
    text: bytes = b"",
    hear_errors: Hear | None = None,
) -> int:
    """Run a program with a text on its standard input, hear what it prints as it comes, and return its exit code.

    A thread calls `hear`; what it raises is raised here. Errors of the program go to it, too, unless `hear_errors`
    takes them. The program gets a process group of its own, which is killed before this returns or raises: with it
    dies what the program started, unless that left the group on purpose.

    Raises:
        TimeoutError: it had not ended when the time was up.
        OSError: it could not be started.
    """
    errors = PIPE if hear_errors else STDOUT
    failures: list[Exception] = []
    threads: list[Thread] = []
    # What a signal raises comes to the main thread. In another one no start is cut short and leaves a program.
    with ThreadPoolExecutor(1) as starter:
        starting = starter.submit(
            Popen,
            line,
            cwd=folder,
            env=dict(environment),
            stdin=PIPE,
            stdout=PIPE,
            stderr=errors,
            start_new_session=True,
        )
        try:
            process = starting.result()
            _RUNNING.add(process)
            threads.append(Thread(target=_write, args=(process.stdin, text), daemon=True))
            for pipe, take in ((process.stdout, hear), (process.stderr, hear_errors)):
                if pipe:
                    threads.append(Thread(target=_read, args=(pipe, take, failures), daemon=True))
            for thread in threads:
                thread.start()
            process.wait(deadline)
        except TimeoutExpired:
            failures.append(TimeoutError())
        finally:
            process = starting.result()
            _kill_group(process)
            process.wait()
            _RUNNING.discard(process)
            for thread in filter(Thread.is_alive, threads):
                thread.join(REST_SECONDS)
    if failures:
        raise failures[0]
    return process.returncode


def _write(pipe: IO[bytes], text: bytes) -> None:
    with suppress(OSError), pipe:  # it may end before it has read all
        pipe.write(text)


def _read(pipe: IO[bytes], take: Hear, failures: list[Exception]) -> None:
    with pipe:
        try:
            while part := os.read(pipe.fileno(), 1 << 16):
                take(part)
        except Exception as error:  # noqa: BLE001 - it is raised by the thread that waits
            failures.append(error)


def _kill_group(process: Popen[bytes]) -> None:
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


@atexit.register
def _kill_running() -> None:
    """Kill what a thread waits for that ends with this process, as after Ctrl-C."""
    for process in list(_RUNNING):
        _kill_group(process)
