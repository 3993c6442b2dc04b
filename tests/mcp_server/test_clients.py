"""What is printed for a client is what that client reads: parsed again, nothing is lost, and no token is in it."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from itertools import product
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from mcp_server import generate
from memsheaf.errors import Refused
from memsheaf.hosts.clients import CLIENTS, TOKEN, describe_client, render_client
from memsheaf.mcp.http_bind import VARIABLE

URL = "http://127.0.0.1:8377/mcp"
READERS = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
HOSTILE = [
    "/opt/my tools/memsheaf",
    r"C:\Users\José P\App Data\new\table\memsheaf.exe",
    "/home/李/🧠/memsheaf",
    "/tmp/a'b\"c`d$(e)${F}%G%;h&i|j>k#l",
    "/tmp/one\nmcpServers: {}\r\ttwo",
    "/tmp/\u202egro.\x7f\x85\u2028\ufeff\x1b[31mred",
    "/home/مستخدم/ذاكرة",
    "- yes: no # null",
]


def parsed(told: dict[str, Any]) -> Any:
    return READERS[told["format"]](told["config"])


def texts(value: object) -> list[str]:
    """Every text in a parsed document, in order."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def test_a_path_comes_out_of_every_settings_file_as_it_went_in() -> None:
    for client, path in product(CLIENTS, HOSTILE):
        words = [path, "mcp", "--scope", path]
        told = describe_client(client, words=words)
        found = texts(parsed(told))
        assert any(found[start : start + 4] == words for start in range(len(found))), (client, path)
        assert all(char.isprintable() or char == "\n" for char in told["config"]), (client, path)


def test_the_variable_is_the_one_that_the_server_reads_too() -> None:
    assert TOKEN == VARIABLE


def test_a_client_that_starts_its_servers_itself_takes_no_url() -> None:
    with pytest.raises(Refused, match="Claude Desktop") as refused:
        describe_client("claude-desktop", words=["memsheaf", "mcp"], url=URL)
    assert "--print-config claude-desktop" in refused.value.hint


def test_an_unknown_client_is_told_which_are_known() -> None:
    with pytest.raises(Refused) as refused:
        render_client("emacs\n", words=["memsheaf"])
    assert "claude-code, codex" in refused.value.hint


@pytest.mark.parametrize("word", ["/tmp/\udcff", "a\0b"])
def test_what_is_no_text_is_refused(word: str) -> None:
    with pytest.raises(Refused, match="is no text"):
        describe_client("codex", words=[word])


def test_what_is_made_from_the_tools_and_clients_is_as_they_are_now() -> None:
    assert generate.PAGE.read_text(encoding="utf-8") == generate.page(), "run: make docs"
    assert generate.LISTING.read_text(encoding="utf-8") == generate.listing(), "run: make docs"


def test_the_texts_are_made_without_a_server() -> None:
    code = (
        "import sys, memsheaf.hosts.clients as c; c.render_client('codex', words=['memsheaf']);"
        "print([name for name in ('mcp', 'sqlite3', 'asyncio', 'memsheaf.sheaf') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
