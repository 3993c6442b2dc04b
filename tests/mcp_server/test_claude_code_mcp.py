"""The real Claude Code against a fake API on loopback: the tools are there in the first request, and they work.

The configuration is the one that `memsheaf mcp --print-config claude-code` gives.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from memsheaf.config import Settings
from memsheaf.hosts.clients import describe_client
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change
from memsheaf.tools import TOOLS

pytestmark = pytest.mark.long  # `make clients` fetches the client
FOLDER = Path(__file__).resolve().parent / "claude"
MEMORY = {
    "name": "Prefers tabs",
    "type": "user",
    "description": "Indentation of code",
    "content": "Tabs in every file, never spaces.",
}
CALLS: list[tuple[str, dict[str, str]]] = [("memory_write", MEMORY), ("memory_list", {})]
USAGE = {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


class Claude(NamedTuple):
    """The client, its environment, and what it asked the API."""

    program: str
    environment: dict[str, str]
    requests: list[dict[str, Any]]

    def run(self, *words: str) -> str:
        """Run the client in an empty project; gives what it printed."""
        result = subprocess.run(
            [self.program, *words],
            env=self.environment,
            cwd=self.environment["HOME"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout


@pytest.fixture
def claude(npm: Callable[[Path], Path], tmp_path: Path) -> Iterator[Claude]:
    """Claude Code in a home of its own, with an API that has the model save a memory, list all, and say so."""
    requests: list[dict[str, Any]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), answering(requests))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {f"MEMSHEAF_{name.upper()}": str(tmp_path / name) for name in ("cache", "state")}
    environment |= {
        "MEMSHEAF_HOME": str(tmp_path / "my memories"),
        "MEMSHEAF_EMBEDDER": "none",
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "CLAUDE_CONFIG_DIR": str(tmp_path / ".claude"),
        "ANTHROPIC_API_KEY": "sk-ant-none",
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_port}",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    }
    program = npm(FOLDER) / "node_modules" / ".bin" / "claude"
    yield Claude(str(program), environment, requests)
    server.shutdown()
    server.server_close()


def answering(requests: list[dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    """Anthropic's API as far as one conversation needs it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None: ...

        def do_HEAD(self) -> None:
            self.send_error(404)

        do_GET = do_HEAD

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if self.path.partition("?")[0] != "/v1/messages":
                return self.send_error(404)
            requests.append(body)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for kind, data in events(body):
                line = f"event: {kind}\ndata: {json.dumps({'type': kind} | data)}\n\n"
                self.wfile.write(line.encode())
            self.close_connection = True
            return None

    return Handler


def events(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A streamed answer: two tools are called, and after that there is nothing more to do."""
    done = sum(message["role"] == "assistant" for message in body["messages"])
    called = done >= len(CALLS)
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": "Saved."}
    if not called:
        name, arguments = CALLS[done]
        block = {"type": "tool_use", "id": f"toolu_{done}", "name": f"mcp__memsheaf__{name}", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
    message = {"id": f"msg_{done}", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    yield "message_start", {"message": message | {"stop_reason": None, "stop_sequence": None, "usage": USAGE}}
    yield "content_block_start", {"index": 0, "content_block": block}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    reason = {"stop_reason": "end_turn" if called else "tool_use", "stop_sequence": None}
    yield "message_delta", {"delta": reason, "usage": {"output_tokens": 1}}
    yield "message_stop", {}


def test_the_tools_are_in_the_first_request_and_save_a_memory(claude: Claude, tmp_path: Path) -> None:
    settings = Settings(str(tmp_path / "my memories"), str(tmp_path / "cache"), state=str(tmp_path / "state"))
    with Sheaf.open("user", settings=settings) as sheaf:
        texts = [f"---\nname: N{n}\ndescription: House {n}\ntype: user\n---\nIt is red.\n" for n in range(250)]
        made = [Change(f"user_house-{n}.md", text.encode(), ABSENT) for n, text in enumerate(texts)]
        sheaf.own.change_many(made, "houses", by="user")
        sheaf.catalog()
    config = tmp_path / "mcp.json"
    config.write_text(
        describe_client("claude-code", words=[sys.executable, "-m", "memsheaf", "mcp", "--scope", "user"])["config"]
    )

    said = claude.run("-p", "I like tabs", "--mcp-config", str(config), "--allowedTools", "mcp__memsheaf")

    first, *_, last = claude.requests
    offered = {tool["name"] for tool in first["tools"]}
    assert {f"mcp__memsheaf__{tool.__name__}" for tool in TOOLS} <= offered
    assert "Memory that outlives this conversation" in json.dumps(first)
    assert "more: `memory_view` shows the catalog.)" in json.dumps(first)  # the last line of the instructions
    assert "(page 1 of 2)" in json.dumps(last["messages"])  # of which structured content would show nothing
    assert "Memory saved: user_prefers-tabs.md" in json.dumps(last["messages"])
    assert said.strip() == "Saved."
    [kept] = (tmp_path / "my memories").rglob("user_prefers-tabs.md")
    assert "never spaces" in kept.read_text(encoding="utf-8")


def test_the_printed_line_adds_a_server_that_connects(claude: Claude, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "memsheaf", "mcp", "--scope", "user", "--home", str(tmp_path / 'a "b" c')]
    line = describe_client("claude-code", words=words, system="Linux")["command"]
    here = {"PATH": f"{Path(claude.program).parent}{os.pathsep}{os.environ['PATH']}"}

    subprocess.run(line, shell=True, env=claude.environment | here, cwd=tmp_path, check=True, capture_output=True)

    assert "Connected" in claude.run("mcp", "get", "memsheaf")
