"""Other memory servers, each installed from its registry into an environment of its own and used as it documents.

They run in a scratch home, with telemetry, updates and downloads of models switched off, and with a proxy that is
not there for whatever tries the network all the same.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.conversation import Conversation
from benchmarks.memories import fill, memory, query
from benchmarks.processes import Unmeasured
from benchmarks.served import Server

LOADING = 120.0  # seconds that memories are written one by one; how many there are then is told
INSTALLING = 1_200.0
NOWHERE = "http://127.0.0.1:9"
SERVER_MEMORY = "@modelcontextprotocol/server-memory"


class Peer(NamedTuple):
    """One other server: how to install it, and how to make it a server with memories in it.

    `requirements` are tried in turn: where an index lacks what the newest version needs, an older one is measured.
    """

    name: str
    install: Callable[[str, Sequence[str]], None]
    requirements: Sequence[str]
    prepare: Callable[[str, str, int], Server]


def peer_server(peer: Peer, cache: str, work: str, size: int, say: Callable[[str], None]) -> Server:
    """The server of a peer, installed now unless it is in `cache` already.

    It holds `size` memories, or as many as can be loaded in reasonable time.

    Raises:
        Unmeasured: it cannot be installed, or does not take memories.
    """
    folder = peer.name.rpartition("/")[2]
    place = os.path.join(cache, folder)
    install_once(place, lambda: peer.install(place, peer.requirements), say)
    say(f"loading {peer.name}")
    home = os.path.join(work, folder)
    os.makedirs(home)
    return peer.prepare(place, home, size)


def install_once(place: str, install: Callable[[], None], say: Callable[[str], None]) -> None:
    """Install into the folder `place`, unless that was done before."""
    done = os.path.join(place, "installed")  # written last: half an installation is none
    if not os.path.exists(done):
        say(f"installing {os.path.basename(place)}")
        shutil.rmtree(place, ignore_errors=True)
        install()
        with open(done, "x", encoding="utf-8"):
            pass


def install_from_pypi(at_least: tuple[int, int]) -> Callable[[str, Sequence[str]], None]:
    def install(place: str, requirements: Sequence[str]) -> None:
        run_installer([_interpreter(at_least), "-m", "venv", place])
        for requirement in requirements:
            try:
                return run_installer([os.path.join(place, "bin", "pip"), "install", "-q", requirement])
            except Unmeasured as problem:
                refused = problem
        raise refused

    return install


def install_from_npm(place: str, requirements: Sequence[str]) -> None:
    npm = shutil.which("npm")
    if not npm:
        raise Unmeasured("it takes npm, which is not installed")
    run_installer(
        [npm, "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", place, *requirements]
    )


def run_installer(command: Sequence[str], cwd: str | None = None) -> None:
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, timeout=INSTALLING, check=False)
    except (OSError, subprocess.TimeoutExpired):
        raise Unmeasured("it could not be installed in time") from None
    if done.returncode:
        raise Unmeasured(f"its installation ended with status {done.returncode}")


def _interpreter(at_least: tuple[int, int]) -> str:
    """A Python that is new enough; one that can load SQLite extensions before others, which some peers need."""
    named = [shutil.which(f"python3.{minor}") for minor in range(14, 9, -1)]
    found = [
        *filter(None, named),
        "/usr/bin/python3",
        *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3*/bin/python"))),
    ]
    ask = (
        f"import sys, sqlite3; old = sys.version_info < {at_least}; "
        "sys.exit(4 if old else 0 if hasattr(sqlite3.Connection, 'load_extension') else 3)"
    )
    fits: dict[int, str] = {}
    for python in found:
        try:
            status = subprocess.run([python, "-c", ask], capture_output=True, check=False).returncode
        except OSError:
            continue
        fits.setdefault(status, python)
    for status in (0, 3):
        if status in fits:
            return fits[status]
    raise Unmeasured(f"it takes Python {at_least[0]}.{at_least[1]} or later, which was not found")


def offline_environment(home: str, **more: str) -> dict[str, str]:
    """No more of the user's environment than a program needs to start."""
    offline = {
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), NOWHERE),
    }
    return {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", **offline, **more}


def version_of(place: str, package: str) -> str:
    ask = f"from importlib.metadata import version; print(version({package!r}))"
    python = os.path.join(place, "bin", "python")
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def _basic_memory(place: str, home: str, size: int) -> Server:
    """Its truth are Markdown files, as ours; it takes 90 ms to take one in, so it gets at most 1,000."""
    size = min(size, 1_000)
    notes = os.path.join(home, "notes")
    environment = offline_environment(
        home,
        BASIC_MEMORY_HOME=notes,
        BASIC_MEMORY_CONFIG_DIR=os.path.join(home, "config"),
        BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED="false",
        BASIC_MEMORY_AUTO_UPDATE="false",
        BASIC_MEMORY_NO_PROMOS="1",
        FASTMCP_CHECK_FOR_UPDATES="off",
        FASTMCP_SHOW_SERVER_BANNER="false",
    )
    program = os.path.join(place, "bin", "basic-memory")
    fill(os.path.join(notes, "user"), size)
    done = subprocess.run(
        [program, "reindex", "--full", "--search"], env=environment, capture_output=True, check=False
    )
    if done.returncode:
        raise Unmeasured(f"`reindex` ended with status {done.returncode}")

    def write(number: int) -> tuple[str, dict[str, object]]:
        made = memory(number)
        return "write_note", {"title": made.name, "content": made.content, "directory": "user"}

    return Server(
        "basic-memory",
        (program, "mcp"),
        environment,
        version=version_of(place, "basic-memory"),
        size=size,
        calls={
            "read": lambda n: ("read_note", {"identifier": f"user/{memory(n).file.removesuffix('.md')}"}),
            "search": lambda n: ("search_notes", {"query": query(n)}),
            "write": write,
        },
        nothing="No results found",
        note="search by words; its vectors are off, because they need a model from the network",
    )


def service_environment(home: str, **more: str) -> dict[str, str]:
    """An environment in which mcp-memory-service runs without its model."""
    return offline_environment(
        home,
        MCP_MEMORY_OFFLINE="1",
        MCP_MEMORY_ONNX_ALLOW_DOWNLOAD="0",
        MCP_MEMORY_ALLOW_HASH_EMBEDDINGS="1",
        MCP_MDNS_ENABLED="false",
        **more,
    )


def _mcp_memory_service(place: str, home: str, size: int) -> Server:
    environment = service_environment(home)
    command = (os.path.join(place, "bin", "memory"), "server")

    def write(number: int) -> tuple[str, dict[str, object]]:
        made = memory(number)
        return "memory_store", {"content": f"{made.name}\n{made.description}\n{made.content}"}

    def load(number: int) -> tuple[str, dict[str, object]]:
        tool, arguments = write(number)
        return tool, {**arguments, "conversation_id": "load"}  # looks for no similar ones

    return Server(
        "mcp-memory-service",
        command,
        environment,
        version=version_of(place, "mcp-memory-service"),
        size=_load(command, environment, load, size),
        calls={
            "read": lambda n: ("memory_search", {"query": memory(n).name, "mode": "exact", "limit": 1}),
            "search": lambda n: ("memory_search", {"query": query(n), "limit": 10}),
            "write": write,
        },
        nothing="No memories found",
        note="vectors are hashes: its model would come from the network; it has no read, so that is an exact search",
    )


def _server_memory(place: str, home: str, size: int) -> Server:
    folder = os.path.join(place, "node_modules", "@modelcontextprotocol", "server-memory")
    node = shutil.which("node")
    if not node:
        raise Unmeasured("it takes node, which is not installed")
    environment = offline_environment(home, MEMORY_FILE_PATH=os.path.join(home, "memory.jsonl"))
    command = (node, os.path.join(folder, "dist", "index.js"))

    def entity(number: int) -> dict[str, object]:
        made = memory(number)
        return {"name": made.name, "entityType": made.kind, "observations": [made.description, made.content]}

    with Conversation(command, environment) as host:
        host.greet()
        host.call("create_entities", {"entities": [entity(number) for number in range(size)]})
    ask = f"console.log(require({os.path.join(folder, 'package.json')!r}).version)"
    return Server(
        SERVER_MEMORY,
        command,
        environment,
        version=subprocess.run([node, "-e", ask], capture_output=True, text=True, check=True).stdout.strip(),
        size=size,
        calls={
            "read": lambda n: ("open_nodes", {"names": [memory(n).name]}),
            "search": lambda n: ("search_nodes", {"query": query(n)}),
            "write": lambda n: ("create_entities", {"entities": [entity(n)]}),
        },
        nothing='"entities": []',
        note="one JSON file, read whole for every call; search is by substring",
    )


def _load(
    command: Sequence[str],
    environment: dict[str, str],
    write: Callable[[int], tuple[str, dict[str, object]]],
    size: int,
) -> int:
    """Write memories one by one for as long as that is reasonable, and tell how many there are."""
    with Conversation(command, environment) as host:
        host.greet()
        started = time.monotonic()
        for number in range(size):
            if time.monotonic() - started > LOADING:
                return number
            host.call(*write(number))
    return size


PEERS = (
    Peer("basic-memory", install_from_pypi((3, 12)), ("basic-memory", "basic-memory==0.23.2"), _basic_memory),
    Peer("mcp-memory-service", install_from_pypi((3, 10)), ("mcp-memory-service",), _mcp_memory_service),
    Peer(SERVER_MEMORY, install_from_npm, (SERVER_MEMORY,), _server_memory),
)
