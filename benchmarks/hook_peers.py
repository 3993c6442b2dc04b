"""Hooks of other projects, installed from their registries and run as their own hooks.json says."""

from __future__ import annotations

import glob
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks import peers
from benchmarks.memories import memory, query
from benchmarks.processes import Unmeasured

EVENTS = {"SessionStart": "start", "Stop": "end of a turn", "UserPromptSubmit": "message"}
KEY = "bench"


def cpu_of(pid: int) -> float:
    """Milliseconds that the threads of a running process spent so far."""
    spent = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path, encoding="ascii") as file:
            spent += int(file.read().split()[0])
    return spent / 1e6


@dataclass
class HookPeer:
    """A plugin with a scratch HOME, by which the worker that its hooks start in the background is found."""

    name: str
    hooks: dict[str, Any]
    environment: dict[str, str]
    url: str  # where its worker takes memories
    bodies: Callable[[int], Iterable[dict[str, Any]]]  # to post there, for a number of memories
    note: str
    project: str = ""
    payload: dict[str, str] = field(default_factory=dict)
    shown: str = ""  # by the last event

    def begin(self, size: int) -> str:
        """Start the worker by a first start hook, fill it, and tell what that start cost."""
        before = self.cpu()
        _, wall = self.run("SessionStart", 0)
        time.sleep(2)  # what the worker does after it was found healthy
        cpu = self.cpu() - before
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        for body in self.bodies(size):
            direct.open(urllib.request.Request(self.url, json.dumps(body).encode(), headers)).close()
        time.sleep(10)  # what it does after it answered
        self.run("SessionStart", 0)
        if not any(memory(number).name in self.shown for number in range(size)):
            raise Unmeasured("its start hook shows no memory")
        return f"A start that also starts its worker took {cpu:.0f} ms CPU, {wall:.0f} ms wall (once)."

    def run(self, event: str, number: int) -> tuple[float, float]:
        """CPU and wall milliseconds of an event's commands, started at once as the host does."""
        said = {"hook_event_name": event, "session_id": f"s{number}", "source": "startup"}
        data = json.dumps({**self.payload, **said, "prompt": f"what about {query(number)}?"}).encode()

        def start(hook: dict[str, str]) -> str:
            how: dict[str, Any] = {"cwd": self.project, "env": self.environment, "capture_output": True}
            done = subprocess.run(["bash", "-c", hook["command"]], input=data, check=False, **how)
            if done.returncode:
                raise Unmeasured(f"a {event} hook ended with status {done.returncode}: {done.stderr[-200:]!r}")
            return str(done.stdout.decode())

        before, began = self.cpu(), time.perf_counter()
        with ThreadPoolExecutor() as pool:
            self.shown = "".join(pool.map(start, self.hooks[event][0]["hooks"]))
        return self.cpu() - before, 1000 * (time.perf_counter() - began)

    def workers(self) -> Iterator[int]:
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    if f"HOME={self.environment['HOME']}".encode() in file.read().split(b"\0"):
                        yield int(path.split("/")[2])
            except OSError:
                continue  # it ended, or is another user's

    def cpu(self) -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (children.ru_utime + children.ru_stime) + sum(map(cpu_of, self.workers()))


def _claude_mem(cache: str, home: str, port: str) -> HookPeer:
    place = os.path.join(cache, "claude-mem")
    root = os.path.join(place, "package", "plugin")

    def fetch() -> None:
        peers.install_from_npm(place, ("bun", "zod", "shell-quote"))
        _unpack(place, ("npm", "pack", "--silent", "claude-mem"))

    peers.install_once(place, fetch, print)
    bun = min(glob.glob(os.path.join(place, "node_modules", "@oven", "*", "bin")), key=len)
    direct = {"NO_PROXY": "127.0.0.1,localhost", "PATH": f"{bun}:{os.environ['PATH']}"}
    plugin = {"CLAUDE_PLUGIN_ROOT": root, "CLAUDE_MEM_WORKER_PORT": port}

    def bodies(size: int) -> Iterable[dict[str, Any]]:
        # as its model would have written them: a start shows no observation without type and concept
        began: dict[str, Any] = {
            "at": time.strftime("%FT%T.000Z", time.gmtime()),
            "at_epoch": 1_000 * int(time.time()),
        }
        common: dict[str, Any] = {
            "memory_session_id": "m",
            "project": "project",
            "type": "discovery",
            "concepts": '["pattern"]',
        }
        common |= {f"{verb}_{key}": value for verb in ("created", "started") for key, value in began.items()}
        texts = [{"title": made.name, "narrative": made.content} for made in map(memory, range(size))]
        session = {**common, "content_session_id": "c", "status": "completed"}
        yield {"sessions": [session], "observations": [{**common, **text} for text in texts]}

    return HookPeer(
        f"claude-mem {_read(root, 'package.json')['version']}",
        _read(root, "hooks/hooks.json")["hooks"],
        peers.offline_environment(home, **direct, **plugin),
        f"http://127.0.0.1:{port}/api/import",
        bodies,
        "without Claude and Chroma, so a turn is only queued; a message gets no memories by default.",
    )


def _mcp_memory_service(cache: str, home: str, port: str) -> HookPeer:
    name = "mcp-memory-service"
    place, source = os.path.join(cache, name), os.path.join(cache, f"{name}-hooks")
    service = next(peer for peer in peers.PEERS if peer.name == name)
    peers.install_once(place, lambda: service.install(place, service.requirements), print)
    version = peers.version_of(place, name)
    pip = (f"{place}/bin/pip", "download", "-q", "--no-deps", "--no-binary", name, f"{name}=={version}")
    peers.install_once(source, lambda: _unpack(source, pip), print)
    root = glob.glob(os.path.join(source, "*", "claude-hooks"))[0]
    config = _read(root, "config.json")
    config["memoryService"]["http"] |= {"endpoint": f"http://127.0.0.1:{port}", "apiKey": KEY}
    os.makedirs(os.path.join(home, ".claude", "hooks"))
    with open(os.path.join(home, ".claude", "hooks", "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    plugin = {"PATH": f"{place}/bin:{os.environ['PATH']}", "CLAUDE_PLUGIN_ROOT": root}
    return HookPeer(
        f"{name} {version}",
        _read(root, ".claude-plugin/hooks.json")["hooks"],
        peers.service_environment(home, MCP_HTTP_PORT=port, MCP_API_KEY=KEY, **plugin),
        f"http://127.0.0.1:{port}/api/memories",
        lambda size: ({"content": memory(n).text, "tags": ["project"], "conversation_id": "c"} for n in range(size)),
        "with hashes for vectors, without its model; its message hook looks up no memories by default.",
    )


@contextmanager
def peer_hooks(
    cache: str, work: str, project: str, payload: dict[str, str], size: int
) -> Iterator[tuple[dict[str, Callable[[int], tuple[float, float]]], list[str]]]:
    """What to measure, by name, and a note on each project; workers are stopped at the end."""
    calls: dict[str, Callable[[int], tuple[float, float]]] = {}
    notes, running = [], []
    try:
        for name, prepare in (("claude-mem", _claude_mem), ("mcp-memory-service", _mcp_memory_service)):
            home = os.path.join(work, name)
            os.makedirs(home)
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = str(free.getsockname()[1])
            try:
                peer = prepare(cache, home, port)
                running.append(peer)
                peer.project, peer.payload = project, payload
                notes.append(f"- {peer.name} runs {peer.note} {peer.begin(size)}")
            except (Unmeasured, OSError) as problem:
                notes.append(f"- {name}: not measured: {problem}.")
            else:
                calls |= {f"{said}, {peer.name}": partial(peer.run, on) for on, said in EVENTS.items()}
        yield calls, notes
    finally:
        for pid in [pid for peer in running for pid in peer.workers()]:
            os.kill(pid, signal.SIGKILL)


def _read(root: str, path: str) -> Any:
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return json.load(file)


def _unpack(place: str, fetch: Sequence[str]) -> None:
    """Unpack the archive that a command writes to its working folder."""
    folder = os.path.join(place, "archive")
    os.makedirs(folder)
    peers.run_installer(fetch, cwd=folder)
    shutil.unpack_archive(os.path.join(folder, os.listdir(folder)[0]), place, "gztar", filter="data")
