"""Measure the hooks of coding agents: CPU against bare Python that is started in the same run.

python -m benchmarks.hooks                      # 1,000 and 10,000 memories; about three minutes
python -m benchmarks.hooks --sizes 1000 --times 5
python -m benchmarks.hooks --peers              # and the hooks of other projects, beside 1,000 memories
python -m benchmarks.hooks --out benchmarks/results/hooks.md
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.hook_peers import cpu_of, peer_hooks
from benchmarks.measure import installed
from benchmarks.memories import fill, query
from memsheaf.config import load
from memsheaf.scope import Scope, resolve

SIZES = "1000,10000"
PEERS_UP_TO = 1000  # memories: others take them one by one
TRANSCRIPT_MB = 50
SERVER_TARGET = 4.0  # times bare Python, if a running server answers
TARGETS = {"start": 12.0, "end of a turn": 12.0, "message, by words": 12.0, "message, by meaning": 30.0}


@dataclass
class Case:
    """One thing to measure: how it is called, and what it cost in milliseconds."""

    name: str
    call: Callable[[int], tuple[float, float]]
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    theirs: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table a size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hooks", description="What hooks cost.")
    parser.add_argument("--sizes", default=SIZES, help="how many memories (default %(default)s)")
    parser.add_argument("--times", type=int, default=15, help="repetitions (default %(default)s)")
    parser.add_argument("--peers", action="store_true", help="install and measure the hooks of other projects, too")
    parser.add_argument("--cache", default=".cache/peers", help="where peers are installed (default %(default)s)")
    parser.add_argument("--out", help="a file to write the tables to")
    given = parser.parse_args(arguments)
    tables = []
    for size in map(int, given.sizes.split(",")):
        work = tempfile.mkdtemp(prefix="hooks-")
        try:
            peers = os.path.abspath(given.cache) if given.peers and size <= PEERS_UP_TO else ""
            tables.append(table(size, *measure_hooks(work, size, given.times, peers)))
        finally:
            shutil.rmtree(work)
        print(tables[-1])
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.write("# What hooks cost\n\n" + "\n".join(tables))
    return 0


def table(size: int, cases: Sequence[Case], notes: Sequence[str] = ()) -> str:
    """The medians, and how often bare Python they are; what is to be said of peers below."""
    bare = median(cases[0].cpu)
    lines = [f"## {size:,} memories, a transcript of {TRANSCRIPT_MB} MB", ""]
    lines += ["| | CPU ms | times bare Python | target | wall ms |", "|---|--:|--:|--:|--:|"]
    for case in cases:
        cpu, wall = median(case.cpu), median(case.wall)
        wanted = next((f"{limit:g}" for name, limit in TARGETS.items() if case.name.startswith(name)), "")
        if "server answers" in case.name or "mcp_tool" in case.name:
            wanted = f"{SERVER_TARGET:g}"
        wanted = "" if case.theirs else wanted
        lines.append(f"| {case.name} | {cpu:.1f} | {cpu / bare:.1f} | {wanted} | {wall:.0f} |")
    return "\n".join(lines + [""] * bool(notes) + [*notes]) + "\n"


def measure_hooks(work: str, size: int, times: int, peers: str = "") -> tuple[list[Case], list[str]]:
    """Measure all cases in turn, so that all meet the same noise; the first round warms the caches.

    Peers are installed in the folder `peers`, if one is given. Returns the cases, and notes on peers.
    """
    project = os.path.join(work, "project")
    os.makedirs(os.path.join(project, ".git"))
    environment = _environment(work)
    settings = load(environment)
    for scope, count in (("project", size * 9 // 10), ("user", size // 10)):
        fill(resolve(Scope.parse(scope), settings.places(project)), count)
    transcript = _transcript(work)
    run = _Runner(project, environment)
    run.memsheaf("list")
    run.memsheaf("hook", "work", project)
    event = {"transcript_path": transcript, "cwd": project, "last_assistant_message": "done"}

    def hook(name: str, **more: str) -> Callable[[int], tuple[float, float]]:
        def call(number: int) -> tuple[float, float]:
            said = {"session_id": f"{number}-{time.time()}", "prompt": f"what about {query(number)}?"}
            stable = {"session_id": "one"} if name == "Stop" else {}
            return run.hook(name, {**event, **said, **stable, "source": "startup"}, **more)

        return call

    cases = [
        Case("bare Python", lambda number: run.measure([sys.executable, "-c", "pass"], b"", {})),
        Case("start", hook("SessionStart")),
        Case("end of a turn", hook("Stop")),
        Case("message, by words, no server runs", hook("UserPromptSubmit", MEMSHEAF_EMBEDDER="none")),
        Case("message, by meaning, no server runs", hook("UserPromptSubmit")),
    ]
    hook("Stop")(0)
    reading, _ = run.measure([run.script, "hook", "work", project], b"", {})
    notes = [
        f"- The worker that reads turns later (here the last ones) and learns took {reading:.0f} ms CPU, in no row."
    ]
    others: list[Case] = []
    with ExitStack() as stack:
        if peers:
            calls, told = stack.enter_context(peer_hooks(peers, work, project, event, size))
            notes += told
            others = [Case(name, call, theirs=True) for name, call in calls.items()]
        _repeat(cases + others, times)
    for embedder, name in (("none", "by words"), ("auto", "by meaning")):
        with _server(project, environment | {"MEMSHEAF_EMBEDDER": embedder}) as server:
            served = [
                Case("start, the server answers", server.around(hook("SessionStart", MEMSHEAF_EMBEDDER=embedder))),
                Case("end of a turn, the server answers", server.around(hook("Stop", MEMSHEAF_EMBEDDER=embedder))),
                Case(
                    f"message, {name}, the server answers",
                    server.around(hook("UserPromptSubmit", MEMSHEAF_EMBEDDER=embedder)),
                ),
                Case(f"message, {name}, as an mcp_tool hook", server.around(server.call)),
            ]
            _repeat(served, times)
        cases += served if embedder == "none" else served[2:]
    return cases + others, notes


def _repeat(cases: Sequence[Case], times: int) -> None:
    for number in range(times + 1):
        for case in cases:
            cpu, wall = case.call(number)
            if number:
                case.cpu.append(cpu)
                case.wall.append(wall)


class _Runner:
    """Starts commands in the project, and measures them with all that they start and wait for."""

    def __init__(self, project: str, environment: dict[str, str]) -> None:
        self.project = project
        self.environment = environment
        self.script = os.path.join(os.path.dirname(sys.executable), "memsheaf")

    def memsheaf(self, *words: str) -> None:
        subprocess.run(
            [self.script, *words], cwd=self.project, env=self.environment, check=True, stdout=subprocess.DEVNULL
        )

    def hook(self, event: str, payload: dict[str, str], **more: str) -> tuple[float, float]:
        return self.measure([self.script, "hook", "claude-code", event], json.dumps(payload).encode(), more)

    def measure(self, command: list[str], data: bytes, more: dict[str, str]) -> tuple[float, float]:
        before, began = _children(), time.perf_counter()
        environment = self.environment | more
        subprocess.run(command, input=data, cwd=self.project, env=environment, check=True, stdout=subprocess.PIPE)
        return 1000 * (_children() - before), 1000 * (time.perf_counter() - began)


def _children() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


class _Server:
    """A running MCP server, and the CPU time it takes while something else is measured."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.number = 0
        client = {"name": "bench", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self.ask("tools/call", name="memory_search", arguments={"query": "warm"})

    def ask(self, method: str, **params: Any) -> None:
        self.number += 1
        assert self.process.stdin
        assert self.process.stdout
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        while json.loads(self.process.stdout.readline()).get("id") != self.number:
            pass

    def call(self, number: int) -> tuple[float, float]:
        """A message as Claude Code sends it to a server that runs."""
        began = time.perf_counter()
        event = {"host": "claude-code", "hook_event_name": "UserPromptSubmit", "session_id": f"c{time.time()}"}
        self.ask("tools/call", name="memory_hook", arguments={**event, "prompt": f"what about {query(number)}?"})
        return 0.0, 1000 * (time.perf_counter() - began)

    def cpu(self) -> float:
        return cpu_of(self.process.pid)

    def around(self, call: Callable[[int], tuple[float, float]]) -> Callable[[int], tuple[float, float]]:
        """A call with what the server spent on it."""

        def measured(number: int) -> tuple[float, float]:
            before = self.cpu()
            cpu, wall = call(number)
            return cpu + self.cpu() - before, wall

        return measured


@contextmanager
def _server(project: str, environment: dict[str, str]) -> Iterator[_Server]:
    script = os.path.join(os.path.dirname(sys.executable), "memsheaf")
    process = subprocess.Popen(
        [script, "mcp"], cwd=project, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield _Server(process)
    finally:
        process.terminate()
        process.wait()


def _environment(work: str) -> dict[str, str]:
    inherited = installed(os.path.join(work, "bytecode"))
    kept = {key: value for key, value in inherited.items() if not key.startswith(("MEMSHEAF_", "CLAUDE"))}
    runtime = os.path.join(work, "run")
    os.mkdir(runtime, 0o700)
    home = os.path.join(work, "home")
    return kept | {"MEMSHEAF_HOME": home, "MEMSHEAF_EMBEDDER": "auto", "XDG_RUNTIME_DIR": runtime}


def _transcript(work: str) -> str:
    path = os.path.join(work, "transcript.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for number in range(TRANSCRIPT_MB * 100):
            for role in ("user", "assistant"):
                message = {"role": role, "content": f"{role} {number} " + "x" * 4_800}
                record = {"type": role, "uuid": f"{role}-{number:020}", "sessionId": "one", "message": message}
                file.write(json.dumps(record) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
