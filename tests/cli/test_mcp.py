"""What `memsheaf mcp --print-config` tells a client: a line that works, or why there is none."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]


def told(run: Run, *words: str) -> dict[str, Any]:
    code, out, err = run("mcp", "--print-config", "cursor", "--json", *words)
    assert code == 0, err
    server: dict[str, Any] = json.loads(json.loads(out)["config"])["mcpServers"]["memsheaf"]
    return server


@pytest.mark.parametrize(
    ("words", "url"),
    [
        ([], "http://127.0.0.1:8377/mcp"),
        (["--port", "9000"], "http://127.0.0.1:9000/mcp"),
        (["--host", "::1"], "http://[::1]:8377/mcp"),
        (["--allow-host", "127.0.0.1:9000"], "http://127.0.0.1:9000/mcp"),
        (["--allow-host", "memory.example.com"], "https://memory.example.com/mcp"),
        (["--host", "0.0.0.0", "--behind-proxy", "--allow-host", "a.example:444"], "https://a.example:444/mcp"),
    ],
)
def test_the_address_is_one_that_the_server_answers_under(run: Run, words: list[str], url: str) -> None:
    assert told(run, "--http", *words)["url"] == url


def test_the_scope_and_the_places_are_told_on(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    del environment["MEMSHEAF_HOME"]

    assert told(run)["args"] == ["mcp"]
    assert told(run, "--agent", "helper", "--read-only")["args"] == ["mcp", "--scope", "agent/helper", "--read-only"]
    assert told(run, "--home", "h")["args"] == ["mcp", "--home", os.path.abspath("h")]
    environment["MEMSHEAF_HOME"] = str(tmp_path / "home")  # which the client need not hand on
    assert told(run)["args"] == ["mcp", "--home", str(tmp_path / "home")]


def test_a_port_in_use_and_an_address_of_another_machine_are_told_apart(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        code, _, err = run("mcp", "--http", "--port", str(busy.getsockname()[1]))
    assert code == 1
    assert "in use\n" in err
    assert "--port N" in err

    code, _, err = run("mcp", "--http", "--port", "0", "--host", "192.0.2.7", "--behind-proxy")
    assert code == 1
    assert "this machine has no address 192.0.2.7" in err
    assert "--port" not in err
