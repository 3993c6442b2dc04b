"""Machines as real processes: each opens its own folder, does what it is told over a pipe, and may be killed at it.

    python -m hub.victims          takes orders, one line of JSON each; a child does one, and says how it went

An order is answered with the child's process id, and that, sent back, with how the child ended.

With `"stops"` the child stops itself before the work begins, so that whoever traces it sees the work and nothing of
what was made ready. What it had said when it ended comes back as a line of JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from socket import socket, socketpair

import memsheaf.hub.git
import memsheaf.hub.postgres  # noqa: F401 - loaded before any fault
from hub.stations import Line
from memsheaf.errors import Busy, Changed, HubUnreachable, MemsheafError, NotFound
from memsheaf.hub import HubSettings
from memsheaf.hub.opening import open_hub
from memsheaf.hub.replica import Replica
from memsheaf.store import Change, version_of

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class Order:
    """One piece of work of one machine: `commit` (texts by path, None to remove), `sync`, `undo`, `erase`, `rejoin`;
    or `write`, which commits `count` times to a path of its own and says each time that it was told so."""

    do: str
    root: str
    settings: HubSettings
    copy: str
    texts: dict[str, str | None] | None = None
    path: str = ""
    count: int = 0
    stops: bool = False
    timeout: float = 10.0
    is_down: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child ended: killed or not, what it had said, and the calls that were seen."""

    killed: bool
    said: tuple[str, ...]
    trace: str = ""

    @property
    def acknowledged(self) -> bool:
        """Whether whoever asked was told that it is done."""
        return "ok" in self.said


class Machines:
    """A parent of processes that may be killed. Close it."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "hub.victims"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": TESTS},
        )  # fmt: skip

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        self._parent.communicate()

    def start(self, order: Order) -> int:
        """Let a child do it; gives its process id."""
        assert self._parent.stdin
        assert self._parent.stdout
        print(json.dumps([getattr(order, name) for name in order.__slots__]), file=self._parent.stdin, flush=True)
        return int(self._parent.stdout.readline())

    def finish(self, child: int) -> Outcome:
        """Wait for a child."""
        assert self._parent.stdin
        assert self._parent.stdout
        print(child, file=self._parent.stdin, flush=True)
        answer = json.loads(self._parent.stdout.readline())
        return Outcome(os.WIFSIGNALED(answer["status"]), tuple(answer["said"].splitlines()))

    def run(self, order: Order) -> Outcome:
        """Let a child do it, and wait."""
        return self.finish(self.start(order))

    def trace(self, order: Order, log: str, *options: str, children: bool = False) -> Outcome:
        """Let a child do it under strace."""
        child = self.start(order)
        command = ["strace", *["-f"] * children, "-s", "0", "-o", log, *options, "-p", str(child)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr
            attached = tracer.stderr.readline()
            os.kill(child, signal.SIGCONT)
            outcome = self.finish(child)
            rest = tracer.stderr.read()
        if "attached" not in attached:
            raise SystemExit(f"strace cannot trace here, so nothing can be proved: {attached}{rest}")
        with open(log, encoding="ascii", errors="replace") as file:
            return Outcome(outcome.killed, outcome.said, file.read())


def do(replica: Replica, order: Order, said: socket) -> None:
    """Do what was ordered."""
    if order.do == "commit":
        now = {}
        for path in order.texts or {}:
            with suppress(MemsheafError):
                now[path] = replica.read(path).data
        changes = [
            Change(path, None if text is None else text.encode(), version_of(now.get(path)))
            for path, text in (order.texts or {}).items()
        ]
        replica.commit(changes, by="agent")
    elif order.do == "write":
        said.send("".join(f"{mark}\n" for mark in write(replica, order)).encode())
    elif order.do == "undo":
        replica.undo(by="user")
    elif order.do == "erase":
        replica.erase(order.path, by="user")
    elif order.do == "rejoin":
        replica.rejoin()
    else:
        replica.adopt([entry.path for entry in replica.scan() if entry.path[-3:] == ".md"])
        replica.adopt(None)
        replica.sync()


LOG = "log.md"


def write(replica: Replica, order: Order) -> list[str]:
    """Commit again and again, a new memory and a line of what all change in turn, whatever the hub does."""
    marks = []
    for number in range(order.count):
        mark = f"{order.path}{number}"
        path = f"{mark}.md" if number % 2 else LOG
        while True:
            with suppress(NotFound):
                found = replica.read(path)
                if mark in found.text.splitlines():  # it was done, and only the answer was lost
                    break
            try:
                old = found.data if path == LOG else None
                replica.commit([Change(path, (old or b"") + f"{mark}\n".encode(), version_of(old))], by="agent")
                break
            except (Changed, Busy):
                continue
            except HubUnreachable:
                with suppress(HubUnreachable, Busy):
                    replica.sync()
        marks.append(mark)
    return marks


def _child(order: Order, said: socket) -> None:
    hub = open_hub(order.settings, folder=order.copy, timeout=order.timeout)
    line = Line(hub)
    line.is_down = order.is_down
    replica = Replica(order.root, order.settings, line, patience=0)
    with suppress(MemsheafError):
        replica.hub.pull(replica.state().cursor)  # connected
    if order.stops:
        ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1 & (1 << 64) - 1), 0, 0, 0)  # anyone may trace
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        do(replica, order, said)
    except MemsheafError as error:
        said.send(f"{type(error).__name__}\n".encode())
    else:
        said.send(b"ok\n")


def _end(order: Order, said: socket) -> None:
    try:
        _child(order, said)
    except BaseException:  # noqa: BLE001 - what escapes is the finding
        said.send(traceback.format_exc().encode())
        os._exit(1)
    os._exit(0)


def _read(line: str) -> Order:
    values = dict(zip(Order.__slots__, json.loads(line), strict=True))
    return Order(**values | {"settings": HubSettings(*values["settings"])})


def main() -> None:
    """Take orders until there are no more."""
    ears: dict[int, socket] = {}
    for line in sys.stdin:
        if line.strip().isdigit():
            _, status = os.waitpid(int(line), 0)
            with ears.pop(int(line)) as ear, ear.makefile(encoding="utf-8") as said:
                print(json.dumps({"status": status, "said": said.read()}), flush=True)
            continue
        order = _read(line)
        ours, theirs = socketpair()
        child = os.fork()
        if not child:
            _end(order, theirs)
        theirs.close()
        if order.stops:
            os.waitpid(child, os.WUNTRACED)
        ears[child] = ours
        print(child, flush=True)


if __name__ == "__main__":
    main()
