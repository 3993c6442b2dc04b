"""`memsheaf hook HOST EVENT`: what a coding agent runs at its events. It is a guest: it never fails its host.

The host's JSON comes on standard input; what the host is to take over goes to standard output. Whatever goes wrong,
and when the deadline passes, it prints nothing, adds a line to `hooks.log` in the state directory, and exits with 0.

Deferred imports, to start quickly: a running MCP server answers through its socket, and then nothing else is loaded.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

from memsheaf.hosts.failure_log import INSIDE, PROBE, note_failure
from memsheaf.hosts.local_socket import MESSAGE_BYTES, PIECE, ask, work_folder

SECONDS = 4.0  # until the host gets an empty answer
SHARE = 0.4  # of them, that the running server has
DEADLINE = "MEMSHEAF_HOOK_MS"


class Expired(BaseException):
    """The deadline passed."""


def run(words: Sequence[str]) -> int:
    """Answer one event of a host, and exit with 0."""
    if words[:1] == ["work"]:
        from memsheaf.hosts.worker import work

        return work(*words[1:2])
    if words[:1] == ["sync"]:
        from memsheaf.hub.upkeep import sync_scopes

        return sync_scopes(*words[1:])
    host, event = [*words, "", ""][:2]
    if os.environ.get(INSIDE):
        return 0
    seconds = _seconds()
    out = b""
    sys.unraisablehook = lambda report: None  # the deadline may pass where nothing can be raised
    try:
        _arm(seconds)
        out = _answer(host, event, seconds)
        _disarm()
    except BaseException as error:  # noqa: BLE001  whatever it is, the host must not see it
        note_failure(host, event, f"{type(error).__name__}: {error}")
        _disarm()
    _print(out)
    return 0


def _answer(host: str, event: str, seconds: float) -> bytes:
    began = time.monotonic()
    data, cwd = _read_input(), work_folder()
    out = None if os.environ.get(PROBE) else ask(host, event, cwd, data, seconds * SHARE)
    if out is None:
        from memsheaf.hosts.answer import HookAnswers

        out = HookAnswers(ends=began + seconds).answer(host, event, cwd, data)
    if os.environ.get(PROBE):
        print(f"memsheaf hook answered in {1000 * (time.monotonic() - began):.0f} ms", file=sys.stderr)
    return out


def _read_input() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    data = bytearray()
    while len(data) <= MESSAGE_BYTES and (piece := os.read(0, PIECE)):
        data += piece
    return bytes(data)


def _print(out: bytes) -> None:
    try:
        while out:
            out = out[os.write(1, out) :]
    except OSError:
        pass  # the host is gone


def _seconds() -> float:
    try:
        return max(0.01, min(60.0, int(os.environ[DEADLINE]) / 1000))
    except (KeyError, ValueError):
        return SECONDS


def _arm(seconds: float) -> None:
    """End when the time is up, also in the middle of something: the store stands a kill at any point."""
    calls: list[int] = []

    def expire(number: int = 0, frame: FrameType | None = None) -> None:
        calls.append(number)
        if len(calls) > 1 or not number:
            os._exit(0)
        raise Expired(f"no answer within {seconds:g} s")

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, expire)
        signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # what holds on to it has half a second more
    else:
        timer = threading.Timer(seconds, expire)
        timer.daemon = True
        timer.start()


def _disarm() -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)
