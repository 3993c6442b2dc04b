"""Measure `memsheaf mcp` beside a bare loop, an empty server on the official SDK, and other memory servers.

python -m benchmarks.servers                    # ours and the yardsticks, 10,000 memories
python -m benchmarks.servers --peers            # others, too; those not below .cache/peers/ yet are installed there
python -m benchmarks.servers --quick --server mine='python my_server.py'
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import astuple
from importlib.metadata import version

from benchmarks.conversation import LEGACY, MODERN
from benchmarks.http_load import CONNECTIONS, Load, measure_load
from benchmarks.measure import installed
from benchmarks.memories import fill, memory, query
from benchmarks.peers import PEERS, peer_server
from benchmarks.processes import Unmeasured, environment_of
from benchmarks.report import verdict_lines
from benchmarks.report_servers import served_tables
from benchmarks.served import BARE, FEW, OURS, SDK, Asking, Call, Served, Server, measure_served
from benchmarks.targets import judge_servers
from memsheaf import __version__
from memsheaf.config import Settings
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import take_in

SIZE = 10_000
SCOPE = "user"
HERE = os.path.dirname(os.path.abspath(__file__))
PEERS_CACHE = os.path.join(os.path.dirname(HERE), ".cache", "peers")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.servers", description="How fast MCP servers are.")
    parser.add_argument("--peers", action="store_true", help="measure other memory servers, too")
    parser.add_argument("--cache", default=PEERS_CACHE, help="where they are installed (default .cache/peers/)")
    parser.add_argument("--server", action="append", default=[], metavar="NAME=COMMAND", help="one more to launch")
    parser.add_argument("--size", type=int, default=SIZE, help="memories (default %(default)s)")
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--folder", default=os.path.join(os.path.dirname(HERE), "build"), help="where to work")
    given = parser.parse_args(arguments)
    os.makedirs(given.folder, exist_ok=True)
    work = tempfile.mkdtemp(prefix="servers-", dir=given.folder)
    try:
        found = measure_servers(
            work, given.size, FEW if given.quick else Asking(), _say,
            peers=given.peers, cache=given.cache, more=given.server,
        )  # fmt: skip
    finally:
        shutil.rmtree(work)
    print(served_tables(found), end="\n\n")
    for line in verdict_lines(judge_servers(found)):
        print(line)
    return 0


def measure_servers(
    work: str,
    size: int,
    asking: Asking,
    say: Callable[[str], None],
    *,
    peers: bool = False,
    cache: str = PEERS_CACHE,
    more: Sequence[str] = (),
) -> list[Served]:
    """Measure ours, the yardsticks, `more` of the form NAME=COMMAND, and other memory servers if `peers` are wanted.

    What cannot be measured is there with the reason.
    """
    say("servers: writing and importing memories")
    ours = _ours(os.path.join(work, "ours"), size)
    plain = installed(os.path.join(work, "bytecode"))
    servers = [ours, *_yardsticks(plain)]
    for each in more:
        name, _, command = each.partition("=")
        servers.append(Server(name, shlex.split(command), plain))
    absent = []
    for peer in PEERS:
        try:
            if not peers:
                raise Unmeasured("it takes --peers")
            servers.append(peer_server(peer, cache, os.path.join(work, "peers"), size, say))
        except Unmeasured as problem:
            absent.append(Served(Server(peer.name), why=str(problem)))
    found = measure_served(servers, asking, say)
    say("servers: over HTTP")
    _measure_http(found, asking.http_seconds)
    return found + absent


def _ours(folder: str, size: int) -> Server:
    """Our server, with memories taken in as `memsheaf import` does."""
    settings = Settings(
        home=os.path.join(folder, "home"),
        cache=os.path.join(folder, "cache"),
        state=os.path.join(folder, "state"),
        embedder="none",
    )
    source = os.path.join(folder, "documents")
    fill(source, size)
    with Sheaf.open(SCOPE, settings=settings) as sheaf:
        take_in(sheaf.own, source)

    def write(number: int) -> tuple[str, dict[str, object]]:
        name, description, kind, content, _ = astuple(memory(number))
        return "memory_write", {"name": name, "description": description, "type": kind, "content": content}

    return Server(
        OURS,
        (os.path.join(os.path.dirname(sys.executable), "memsheaf"), "mcp"),
        {**environment_of(settings, SCOPE), "MEMSHEAF_STATE": settings.state},
        version=__version__,
        size=size,
        calls={
            "read": lambda n: ("memory_read", {"filename": memory(n).file}),
            "search": lambda n: ("memory_search", {"query": query(n)}),
            "view": lambda n: ("memory_view", {"target": "index"}),
            "write": write,
        },
        eras=(LEGACY, MODERN),
        nothing="Nothing found",
    )


def _yardsticks(environment: dict[str, str]) -> list[Server]:
    nothing: Call = lambda n: ("nothing", {})  # noqa: E731
    bare = (sys.executable, os.path.join(HERE, "bare_server.py"))
    calls = dict.fromkeys(("read", "search", "view", "write"), nothing)
    sdk = (sys.executable, os.path.join(HERE, "sdk_server.py"))
    return [
        Server(BARE, bare, environment, calls=calls, eras=(LEGACY, MODERN)),
        Server(SDK, sdk, environment, version=version("mcp"), eras=(LEGACY, MODERN)),
    ]


def _measure_http(all_found: Sequence[Served], seconds: float) -> None:
    """Ours with reads, searches and writes; the SDK's with nothing to do, as the yardstick."""
    for found in all_found:
        server = found.server
        if found.why or server.name not in (OURS, SDK):
            continue
        try:
            over_http = _ours_over_http if server.name == OURS else _sdk_over_http
            found.http += (over_http(server, seconds, connections) for connections in CONNECTIONS)
        except Unmeasured as problem:
            found.http_why = str(problem)


def _ours_over_http(server: Server, seconds: float, connections: int) -> Load:
    """Of ten calls five read, four search, and one writes what nobody has written before."""

    def ask(number: int) -> tuple[str, dict[str, object]]:
        if number % 10 == 9:
            return server.calls["write"](connections * 10**6 + number)
        return server.calls["search" if number % 2 else "read"](number % server.size)

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command, token = (*server.command, "--http", "--port", str(port)), secrets.token_urlsafe(32)
    environment = {**server.environment, "MEMSHEAF_MCP_TOKEN": token}
    return measure_load(command, environment, ask, seconds=seconds, token=token, connections=connections)


def _sdk_over_http(server: Server, seconds: float, connections: int) -> Load:
    command, nothing = (*server.command, "--http"), ("nothing", dict[str, object]())
    return measure_load(command, server.environment, lambda n: nothing, seconds=seconds, connections=connections)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
