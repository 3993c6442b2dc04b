"""A host's side of a talk with an MCP server over its standard input and output, with the server's own clocks."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from benchmarks.processes import Unmeasured

LEGACY = "2025-06-18"  # begins with a handshake
MODERN = "2026-07-28"  # every request says who asks
CLIENT = {"name": "benchmark", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
PATIENCE = 120.0  # seconds for one answer
LEAVING = 2.0  # seconds to end in, first when there is no more to read, then when asked to


def initialize() -> dict[str, Any]:
    """What a client of the older era says first."""
    return {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT}


class Conversation:
    """One server process, from its launch to its end.

    Raises:
        Unmeasured: it cannot be started, ended early, was silent for too long or answered with an error.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], *, era: str = LEGACY) -> None:
        self._era = era
        self._number = 0
        self._read = b""
        self._started = time.perf_counter()
        try:
            self._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        except OSError as error:
            raise Unmeasured(error.strerror or "it cannot be started") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        leave(self._process)
        self._process.stdout.close()

    def greet(self) -> None:
        """Shake hands, where the era does."""
        if self._era == LEGACY:
            self.ask("initialize", initialize())
            self._send({"method": "notifications/initialized"})

    def ask(self, method: str, parameters: Mapping[str, object] | None = None) -> dict[str, Any]:
        """Ask one thing and give the result; what the server sends meanwhile is passed over."""
        self._number += 1
        said = dict(parameters or {}) | ({"_meta": META} if self._era == MODERN else {})
        self._send({"id": self._number, "method": method, "params": said})
        while True:
            try:
                answer = json.loads(self._line())
            except ValueError:
                continue  # some print a banner
            if isinstance(answer, dict) and answer.get("id") == self._number and "method" not in answer:
                return result_of(answer, method)

    def call(self, tool: str, arguments: Mapping[str, object]) -> str:
        """Call a tool and give the text of its answer."""
        return text_of(self.ask("tools/call", {"name": tool, "arguments": arguments}), tool)

    @property
    def wall(self) -> float:
        """Seconds since the launch."""
        return time.perf_counter() - self._started

    @property
    def cpu(self) -> float:
        """Seconds of CPU that the process used so far."""
        return cpu_of(self._process.pid)

    @property
    def memory(self) -> tuple[float, float]:
        """Resident and proportional memory now, in MB."""
        return memory_of(self._process.pid)

    def _send(self, message: dict[str, object]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Unmeasured("it ended before it was asked") from None

    def _line(self) -> bytes:
        assert self._process.stdout
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._read:
            if not select.select([pipe], [], [], PATIENCE)[0]:
                raise Unmeasured(f"no answer in {PATIENCE:g} seconds")
            more = os.read(pipe, 1 << 20)
            if not more:
                raise Unmeasured("it ended without an answer")
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line


def leave(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a server; one that does not take the hint is told, and then ended."""
    for end in (process.terminate, process.kill):
        try:
            process.wait(LEAVING)
        except subprocess.TimeoutExpired:
            end()
    process.wait()


def cpu_of(process: int) -> float:
    """Seconds of CPU that all threads of a process used so far.

    `/proc/PID/stat` counts in hundredths of a second. This is the clock that clock_getcpuclockid(3) names, for which
    Python has no call.

    Raises:
        Unmeasured: the process has ended, or this is not Linux.
    """
    try:
        return time.clock_gettime((~process << 3) | 2)
    except OSError:
        raise Unmeasured("its CPU clock cannot be read") from None


def memory_of(process: int) -> tuple[float, float]:
    """Resident and proportional memory of a process now, in MB.

    Raises:
        Unmeasured: the process has ended, or this is not Linux.
    """
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
            kilobytes = {line.split(":")[0]: line.split()[1] for line in file if line.endswith("kB\n")}
    except OSError:
        raise Unmeasured("its memory cannot be seen") from None
    return int(kilobytes["Rss"]) / 1024, int(kilobytes["Pss"]) / 1024


def result_of(answer: Mapping[str, Any], method: str) -> dict[str, Any]:
    """The result in an answer.

    Raises:
        Unmeasured: the answer is an error.
    """
    if "error" in answer:
        raise Unmeasured(f"{method} failed: {_no_paths(answer['error'].get('message', ''))}")
    result: dict[str, Any] = answer["result"]
    return result


def text_of(result: Mapping[str, Any], tool: str) -> str:
    """The text that a tool answered with.

    Raises:
        Unmeasured: the tool failed.
    """
    text = "".join(part.get("text", "") for part in result["content"])
    if result.get("isError"):
        raise Unmeasured(f"{tool} failed: {_no_paths(text)}")
    return text


def _no_paths(text: str) -> str:
    """
    >>> _no_paths("cannot open /var/data/store.db:\\nlocked")
    'cannot open (path) locked'
    """
    return re.sub(r"\S*[/\\]\S*", "(path)", " ".join(text.split()))[:80]
