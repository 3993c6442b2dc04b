"""What a host waits for and pays when it uses an MCP server, over its standard input and output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from random import Random
from statistics import median

from benchmarks.conversation import LEGACY, MODERN, Conversation
from benchmarks.http_load import Load
from benchmarks.measure import NOTHING, Sample
from benchmarks.memories import memory
from benchmarks.processes import Unmeasured

OURS, BARE, SDK = "memsheaf", "bare loop", "official SDK, empty"
FIRST = ("read", "search", "view")  # what a first call may be
WARM = ("read", "search", "write")
BLOCK = 20  # warm calls of one server before the next has its turn
TOKEN_BYTES = 4
BUDGET = 30.0  # seconds of warm calls of one kind, after the first block

Call = Callable[[int], tuple[str, dict[str, object]]]
"""The tool and the arguments that read, search for or write the made-up memory of a number."""


@dataclass(frozen=True, slots=True)
class Server:
    """How to start a server, how many memories it holds, and how it is asked for them.

    `nothing` is what it says when a search finds nothing; `note` is what a reader of its numbers should know.
    """

    name: str
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    size: int = 0
    calls: Mapping[str, Call] = field(default_factory=dict)
    eras: Sequence[str] = (LEGACY,)
    nothing: str = ""
    note: str = ""


@dataclass(slots=True)
class Served:
    """What was measured of one server; when it failed, `why` says at what, and nothing else counts."""

    server: Server
    launch: Sample = NOTHING
    modern: Sample = NOTHING
    first: dict[str, Sample] = field(default_factory=dict)
    warm: dict[str, Sample] = field(default_factory=dict)
    memory: list[tuple[float, float]] = field(default_factory=list)
    list_bytes: int = 0
    http: list[Load] = field(default_factory=list)
    http_why: str = ""
    why: str = ""

    @property
    def list_tokens(self) -> float:
        """What the list of tools costs a model, about."""
        return self.list_bytes / TOKEN_BYTES

    @property
    def resident_mb(self) -> float:
        """Memory of the process after its first call."""
        return median(each[0] for each in self.memory)

    @property
    def proportional_mb(self) -> float:
        """The same, with what it shares with other processes divided among them."""
        return median(each[1] for each in self.memory)


@dataclass(frozen=True, slots=True)
class Asking:
    """How often servers are asked."""

    launches: int = 10
    calls: int = 300
    http_seconds: float = 5.0


FEW = Asking(launches=3, calls=20, http_seconds=0.5)


def measure_served(servers: Sequence[Server], asking: Asking, say: Callable[[str], None]) -> list[Served]:
    """Launch all servers in turn, many times, and then ask each of them often."""
    all_found = [Served(server) for server in servers]
    for number in range(asking.launches + 1):
        say(f"servers: launch {number} of {asking.launches}")
        for kind in FIRST:
            for found in all_found:
                if kind in found.server.calls or kind == FIRST[0]:
                    with _noting(found):
                        _launch(found, kind, number)
        for found in all_found:
            if MODERN in found.server.eras:
                with _noting(found):
                    _launch_modern(found)
        if not number:  # the first round warms the caches
            for found in all_found:
                found.launch, found.modern = NOTHING, NOTHING
                found.first.clear()
                found.memory.clear()
    say("servers: calls")
    _ask_often([found for found in all_found if found.server.calls], asking.calls)
    return all_found


@contextmanager
def _noting(found: Served) -> Iterator[None]:
    """Note why a server cannot be measured, once it is so, and go on with the others."""
    try:
        yield
    except Unmeasured as problem:
        found.why = found.why or str(problem)


def _launch(found: Served, kind: str, number: int) -> None:
    """From the launch to the answered `tools/list`, and on to the first answered call."""
    server = found.server
    if found.why:
        return
    with Conversation(server.command, server.environment) as host:
        host.greet()
        listed = host.ask("tools/list")
        found.launch += Sample((host.cpu,), (host.wall,))
        found.list_bytes = len(json.dumps(listed, ensure_ascii=False, separators=(",", ":")).encode())
        if kind in server.calls:
            _call(host, server, kind, _numbers(server, kind, number + 1)[number])
            found.first[kind] = found.first.get(kind, NOTHING) + Sample((host.cpu,), (host.wall,))
        if kind == FIRST[0]:
            found.memory.append(host.memory)


def _launch_modern(found: Served) -> None:
    """The same in the newer era, which asks for the list at once."""
    if found.why:
        return
    with Conversation(found.server.command, found.server.environment, era=MODERN) as host:
        host.ask("tools/list")
        found.modern += Sample((host.cpu,), (host.wall,))


def _ask_often(all_found: Sequence[Served], calls: int) -> None:
    """Blocks of calls, every server in turn, so that all meet the same noise."""
    with ExitStack() as stack:
        hosts: list[tuple[Served, Conversation]] = []
        for found in (each for each in all_found if not each.why):
            with _noting(found):
                host = stack.enter_context(Conversation(found.server.command, found.server.environment))
                host.greet()
                hosts.append((found, host))
        for kind in WARM:
            for start in range(0, calls, BLOCK):
                for found, host in hosts:
                    if kind in found.server.calls and not found.why:
                        with _noting(found):
                            _block(host, found, kind, _numbers(found.server, kind, calls)[start : start + BLOCK])


def _block(host: Conversation, found: Served, kind: str, numbers: Sequence[int]) -> None:
    """Some calls of one kind, unless these took long enough already."""
    sample = found.warm.get(kind, NOTHING)
    if sum(sample.wall) < BUDGET:
        for number in numbers:
            sample += _call(host, found.server, kind, number)
        found.warm[kind] = sample


def _numbers(server: Server, kind: str, count: int) -> list[int]:
    """Memories that are there, at random; new ones to write."""
    if kind == "write":
        return list(range(server.size, server.size + count))
    random = Random(kind)
    return [random.randrange(max(1, server.size)) for _ in range(count)]


def _call(host: Conversation, server: Server, kind: str, number: int) -> Sample:
    """One call, and what it took; an answer that is none counts as a failure."""
    tool, arguments = server.calls[kind](number)
    cpu, wall = host.cpu, host.wall
    text = host.call(tool, arguments)
    took = Sample((host.cpu - cpu,), (host.wall - wall,))
    if kind == "read" and server.size and memory(number).content[:40] not in text:
        raise Unmeasured(f"{tool} did not give the memory")
    if kind == "search" and server.nothing and server.nothing in text:
        raise Unmeasured(f"{tool} found nothing")
    return took
