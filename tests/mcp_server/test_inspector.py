"""The MCP inspector's command line against `memsheaf mcp` over stdio, in both eras of the protocol."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memsheaf.mcp.offer import PROMPTS
from memsheaf.tools import TOOLS

sys.path.append(str(Path(__file__).parent))
from mcp_server.mcp_peer import Place

FOLDER = Path(__file__).resolve().parent / "inspector"
Inspect = Callable[..., tuple[int, Any]]

pytestmark = pytest.mark.long


@pytest.fixture(params=["legacy", "modern"])
def inspect(request: pytest.FixtureRequest, npm: Callable[[Path], Path], tmp_path: Path) -> Inspect:
    """Run the inspector with these words; gives its exit status and what it printed as JSON, of an error that."""
    place, installed = Place(tmp_path), npm(FOLDER)
    node = str(next(installed.glob("node_modules/node-linux-*/bin/node"), "node"))  # it wants 22 or later
    program = str(installed / "node_modules" / ".bin" / "mcp-inspector")
    environment = os.environ | place.environment | {"HOME": str(tmp_path)}
    variables = [word for key, value in place.environment.items() for word in ("-e", f"{key}={value}")]

    def inspect(method: str, *words: str) -> tuple[int, Any]:
        line = [node, program, "--cli", *variables, *place.words(), "--method", method, *words]
        line += ["--protocol-era", request.param, "--cwd", str(tmp_path), "--format", "json", "--quiet"]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60, check=False)
        found = json.loads(done.stdout or done.stderr)
        return done.returncode, found.get("result", found)

    return inspect


def call(inspect: Inspect, tool: str, **arguments: object) -> tuple[int, str]:
    code, found = inspect("tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
    return code, found["content"][0]["text"]


def test_the_inspector_lists_calls_and_reads_all_there_is(inspect: Inspect) -> None:
    code, found = inspect("tools/list", "--strict")  # 6 when a schema is not portable
    assert code == 0
    assert [tool["name"] for tool in found["tools"]] == [tool.__name__ for tool in TOOLS]

    fact = {"name": "Prefers tabs", "description": "Indentation", "type": "user", "content": "Indent with tabs."}
    assert call(inspect, "memory_write", **fact) == (0, "Memory saved: user_prefers-tabs.md")
    assert "Indent with tabs." in call(inspect, "memory_recall", message="Should I indent with tabs or spaces?")[1]
    assert call(inspect, "memory_read", filename="no.md")[0] == 5  # isError

    code, found = inspect("resources/list")
    assert [one["uri"].rpartition("/")[2] for one in found["resources"]] == [
        "catalog",
        "context",
        "user_prefers-tabs.md",
    ]
    code, found = inspect("resources/read", "--uri", found["resources"][2]["uri"])
    assert "Indent with tabs." in found["contents"][0]["text"]
    assert inspect("resources/read", "--uri", "memory://file/no.md")[0] != 0
    assert inspect("resources/templates/list")[1]["resourceTemplates"][0]["uriTemplate"] == "memory://file/{+path}"

    assert [one["name"] for one in inspect("prompts/list")[1]["prompts"]] == list(PROMPTS)
    code, found = inspect("prompts/get", "--prompt-name", "recall", "--prompt-args", "query=tabs or spaces?")
    assert "Indent with tabs." in found["messages"][0]["content"]["text"]
