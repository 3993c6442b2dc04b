"""What tests of the MCP server share: a place with memories, and the raw other end of a server's two streams."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from forks import Program
from memsheaf.config import Settings
from memsheaf.mcp.offer import Offer
from memsheaf.mcp.protocol import Service
from memsheaf.mcp.stdio import StdioServer
from memsheaf.sheaf import Sheaf

Message = dict[str, Any]
PATIENCE = 60.0  # seconds after which a test gives up; nothing waits for it otherwise
VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
CLIENT = {"name": "test", "version": "1"}
NEVER: Any = object()


class Place(NamedTuple):
    """A folder with one user's memories, as a server and a test beside it find them."""

    folder: Path

    @property
    def root(self) -> Path:
        """Where the memories of the user are."""
        return self.folder / "home" / "user"

    @property
    def environment(self) -> dict[str, str]:
        """What a server has to be told to find them."""
        names = {"HOME": "home", "CACHE": "cache", "STATE": "state"}
        told = {f"MEMSHEAF_{name}": str(self.folder / folder) for name, folder in names.items()}
        return told | {"MEMSHEAF_EMBEDDER": "none", "PYTHONWARNINGS": "error"}

    @property
    def settings(self) -> Settings:
        """The same for a sheaf in this process."""
        home, cache, state = (str(self.folder / name) for name in ("home", "cache", "state"))
        return Settings(home, cache, state=state, embedder="none")

    def sheaf(self, scope: str = "user") -> Sheaf:
        """The memories, as another program has them."""
        return Sheaf.open(scope, settings=self.settings, cwd=str(self.folder))

    def words(self, *options: str) -> list[str]:
        """What starts a server."""
        return [
            sys.executable,
            "-m",
            "memsheaf",
            "mcp",
            *(() if {"--scope", "--agent"} & {*options} else ("--scope", "user")),
            *options,
        ]

    def save(self, name: str, text: str = "Tabs, not spaces.", **options: Any) -> str:
        """Save a memory as another program does, and give its path."""
        with self.sheaf() as sheaf:
            return sheaf.write(name, f"About {name}", "user", text, **options).path

    def fill(self, count: int) -> None:
        """Put memories there as an editor does: plain files."""
        self.root.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            header = f"---\nname: Fact {number}\ndescription: About fact {number}\ntype: user\n---\n"
            (self.root / f"user_fact-{number:05}.md").write_text(f"{header}Fact {number}.\n", "utf-8")


def envelope(can: Mapping[str, Any] | None = None) -> Message:
    """What every request of the modern era carries."""
    return {
        f"{META}protocolVersion": VERSION,
        f"{META}clientInfo": CLIENT,
        f"{META}clientCapabilities": dict(can or {}),
    }


class Wire:
    """The client's end of a server's streams: sends what it is told to, and hands out what comes back."""

    def __init__(self, sink: BinaryIO, source: BinaryIO, *, modern: bool = False) -> None:
        self.modern = modern
        self.said: list[Message] = []  # what came back and nobody asked for yet
        self.can: Message = {}
        self._sink = sink
        self._source = source
        self._came: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._number = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(ValueError):  # it was closed
            for line in self._source:
                self._came.put(line)
        self._came.put(b"")

    def send(self, message: object) -> None:
        """Send a message, or bytes as they are."""
        line = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        self._sink.write(line)
        self._sink.flush()

    def request(self, method: str, params: Message | None = None) -> int:
        """Send a request and give its id."""
        self._number += 1
        params = dict(params or {})
        if self.modern:
            params["_meta"] = envelope(self.can) | params.get("_meta", {})
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def notify(self, method: str, params: Message) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def next(self, **wanted: object) -> Message:
        """The next message with these values, NEVER for a key that it must not have."""
        for place, earlier in enumerate(self.said):
            if _has(earlier, wanted):
                return self.said.pop(place)
        while line := self._came.get(timeout=PATIENCE):
            message: Message = json.loads(line)
            if _has(message, wanted):
                return message
            self.said.append(message)
        raise EOFError(f"the server hung up; before that it said {self.said}")

    def rest(self) -> list[Message]:
        """All that comes until the server hangs up."""
        said, self.said = self.said, []
        while line := self._came.get(timeout=PATIENCE):
            said.append(json.loads(line))
        return said

    def ask(self, method: str, params: Message | None = None) -> Message:
        """Send a request and give what is answered."""
        return self.next(id=self.request(method, params), method=NEVER)

    def call(self, tool: str, /, **arguments: object) -> Message:
        """Call a tool and give its result."""
        result: Message = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        return result

    def text(self, tool: str, /, **arguments: object) -> str:
        """Call a tool and give what it says."""
        said: str = self.call(tool, **arguments)["content"][0]["text"]
        return said

    def open(self, can: Message | None = None) -> None:
        """Begin the conversation."""
        self.can = can or {}
        if self.modern:
            assert VERSION in self.ask("server/discover")["result"]["supportedVersions"]
            return
        params = {"protocolVersion": "2025-11-25", "capabilities": self.can, "clientInfo": CLIENT}
        assert self.ask("initialize", params)["result"]["protocolVersion"] == "2025-11-25"
        self.notify("notifications/initialized", {})


@contextmanager
def running(serve: Callable[[BinaryIO, BinaryIO], None]) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """A server in a thread of this process: what is written to it, and what is read from it."""
    asked, ask = os.pipe()
    hear, tell = os.pipe()
    with (  # closed from below: a reader may wait for its end of file
        open(hear, "rb") as come,
        open(asked, "rb") as source,
        open(tell, "wb") as sink,
        open(ask, "wb") as go,
    ):

        def run() -> None:
            try:
                serve(source, sink)
            finally:
                sink.close()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield go, come
        finally:
            go.close()
            thread.join(PATIENCE)
            assert not thread.is_alive()


@contextmanager
def stdio_server(opened: Callable[[], Offer], *, modern: bool, watch: float = 3600) -> Iterator[Wire]:
    """The small loop in a thread of this process, and the wire to it."""

    def serve(source: BinaryIO, sink: BinaryIO) -> None:
        StdioServer(Service("1"), opened, source, sink, watch_seconds=watch).run()

    with running(serve) as (go, come):
        yield Wire(go, come, modern=modern)


def _has(message: Message, wanted: Mapping[str, object]) -> bool:
    return all(key not in message if value is NEVER else message.get(key) == value for key, value in wanted.items())


class Served(NamedTuple):
    """A server process and the wire to it."""

    process: Program | subprocess.Popen[bytes]
    wire: Wire
    log: Path

    def hang_up(self) -> int:
        """Close its stdin, and give the exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(PATIENCE)


@contextmanager
def served(
    place: Place,
    *options: str,
    modern: bool = False,
    can: Message | None = None,
    complaint: str = "",
    told: Mapping[str, str] | None = None,
    start: Callable[..., Program | subprocess.Popen[bytes]] = Program,
) -> Iterator[Served]:
    """A server process to which one has said hello; it is gone in the end, and has complained of nothing else."""
    log = place.folder / f"stderr-{os.urandom(4).hex()}"
    with open(log, "wb") as complaints:
        process = start(
            place.words(*options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=os.environ | place.environment | dict(told or {}),
            cwd=place.folder,
        )
    assert process.stdin
    assert process.stdout
    wire = Wire(process.stdin, process.stdout, modern=modern)  # type: ignore[arg-type]
    try:
        wire.open(can)
        yield Served(process, wire, log)
    finally:
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    assert log.read_text("utf-8") == complaint
