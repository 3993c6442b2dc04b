"""How many requests a second a server answers over HTTP, asked over many connections at once."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from benchmarks.conversation import META, MODERN, cpu_of, leave, memory_of, result_of, text_of
from benchmarks.processes import Unmeasured

CONNECTIONS = (32, 128)  # at once, in two runs
STARTING = 30.0  # seconds until the server says where it is
_URL = re.compile(r"http://127\.0\.0\.1:[0-9]+(/\w+)*(?=\s)")

Ask = Callable[[int], tuple[str, dict[str, object]]]


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server is, and the token that it wants to see."""

    url: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """What a server under load answered: the seconds that each request waited, and how many were not answered.

    `memory` is resident and proportional, in MB, after all that.
    """

    connections: int
    waited: tuple[float, ...]
    per_second: float
    cpu_ms: float
    errors: int
    memory: tuple[float, float]

    @property
    def wall_ms(self) -> float:
        """The median wait."""
        return median(self.waited) * 1000

    @property
    def wall_p99_ms(self) -> float:
        """The wait that one in a hundred exceeds."""
        return sorted(self.waited)[-(-99 * len(self.waited) // 100) - 1] * 1000

    @property
    def wall_worst_ms(self) -> float:
        """The longest wait."""
        return max(self.waited) * 1000


def measure_load(
    command: Sequence[str],
    environment: Mapping[str, str],
    ask: Ask,
    *,
    seconds: float,
    token: str = "",
    connections: int,
) -> Load:
    """Start a server over HTTP, let all connections ask for so many seconds, and count.

    Raises:
        Unmeasured: it did not come up, or did not answer the first request.
    """
    with _running(command, environment) as (process, url):
        return asyncio.run(_all(Site(url, token), process.pid, ask, seconds, connections))


@contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server, and the address that it prints. What it says goes to a file: nobody empties a pipe under load."""
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise Unmeasured(error.strerror or "it cannot be started") from None
        try:
            yield process, _address(process, said.fileno())
        finally:
            process.terminate()
            leave(process)


def _address(process: subprocess.Popen[bytes], output: int) -> str:
    """Where the server says it is."""
    until = time.monotonic() + STARTING
    while time.monotonic() < until and process.poll() is None:
        said = os.pread(output, 1 << 16, 0).decode(errors="replace")
        if found := _URL.search(said):
            return found[0] if urlsplit(found[0]).path else found[0] + "/mcp"
        time.sleep(0.02)
    raise Unmeasured("it did not say where it serves")


async def _all(site: Site, process: int, ask: Ask, seconds: float, connections: int) -> Load:
    opened = [await _Connection.open(site) for _ in range(connections)]
    try:
        numbers = count()
        for connection in opened:
            text_of(await connection.call(*ask(next(numbers))), "the first request")
        waits: list[float] = []
        cpu, started = cpu_of(process), time.perf_counter()
        until = started + seconds
        errors = await asyncio.gather(*(_ask(connection, ask, numbers, until, waits) for connection in opened))
        wall, cpu = time.perf_counter() - started, cpu_of(process) - cpu
    finally:
        for connection in opened:
            connection.close()
    each_ms = cpu / len(waits) * 1000
    return Load(connections, tuple(waits), len(waits) / wall, each_ms, sum(errors), memory_of(process))


async def _ask(connection: _Connection, ask: Ask, numbers: Iterator[int], until: float, waits: list[float]) -> int:
    """Ask until time is up, add what each answer took, and tell how many were none."""
    errors = 0
    while (started := time.perf_counter()) < until:
        tool, arguments = ask(next(numbers))
        try:
            text_of(await connection.call(tool, arguments), tool)
        except Unmeasured:
            errors += 1
        waits.append(time.perf_counter() - started)
    return errors


class _Connection:
    """One connection that is kept, for one request at a time, in the newer era: there is no handshake."""

    def __init__(self, site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        parts = urlsplit(site.url)
        lines = [
            f"POST {parts.path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"MCP-Protocol-Version: {MODERN}",
            "Mcp-Method: tools/call",
        ]
        if site.token:
            lines.append(f"Authorization: Bearer {site.token}")
        self._head = "".join(f"{line}\r\n" for line in lines)

    @classmethod
    async def open(cls, site: Site) -> _Connection:
        parts = urlsplit(site.url)
        return cls(site, *await asyncio.open_connection(parts.hostname, parts.port))

    def close(self) -> None:
        self._writer.close()

    async def call(self, tool: str, arguments: Mapping[str, object]) -> dict[str, Any]:
        """The result of one call.

        Raises:
            Unmeasured: anything but a result came back.
        """
        request = {"name": tool, "arguments": arguments, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": request}).encode()
        head = f"{self._head}Mcp-Name: {tool}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        try:
            status, answer = await self._answer()
        except (asyncio.IncompleteReadError, ConnectionError):
            raise Unmeasured("the connection was closed") from None
        if status != 200:
            raise Unmeasured(f"it answered with status {status}")
        if answer.startswith((b"event:", b"data:")):
            answer = next(line[5:] for line in answer.splitlines() if line.startswith(b"data:"))
        try:
            return result_of(json.loads(answer), tool)
        except ValueError:
            raise Unmeasured("its answer is not JSON") from None

    async def _answer(self) -> tuple[int, bytes]:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        status = int(head.split(" ", 2)[1])
        if length := re.search(r"\r\ncontent-length: *([0-9]+)", head):
            return status, await self._reader.readexactly(int(length[1]))
        body = b""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)
        return status, body
