"""The official TypeScript client does all that a client can: both major versions, both eras, stdio and HTTP.

`node/client.mjs` has one whole conversation with a server and prints what it saw; the tests look at that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from memsheaf import Sheaf
from memsheaf.config import Settings
from memsheaf.index.database import Row
from memsheaf.tools import READING, TOOLS

FOLDER = Path(__file__).resolve().parent / "node"
MEMSHEAF = [sys.executable, "-m", "memsheaf"]
NUMBERED = 120  # memories beside those the conversation is about: an audit tells its progress after each hundred
GUESSED = """---
name: Guessed
description: When the shell matters
type: user
trust: unconfirmed
---
Uses the fish shell everywhere, it seems.
"""
VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
# each transport, library and era once; all combinations in the long run
SHORT = [("stdio", "sdk", "legacy"), ("http", "client", "modern")]
LONG = [
    ("stdio", "client", "legacy"),
    ("stdio", "client", "modern"),
    ("http", "sdk", "legacy"),
    ("http", "client", "legacy"),
]


class Seen(NamedTuple):
    """What the client saw, in which era, and what was kept in the end."""

    era: str
    out: dict[str, Any]
    kept: dict[str, Row]


@pytest.fixture(
    scope="module",
    params=[*SHORT, *(pytest.param(way, marks=pytest.mark.long) for way in LONG)],
    ids="-".join,
)
def seen(
    request: pytest.FixtureRequest,
    npm: Callable[[Path], Path],
    serving: Callable[[Mapping[str, str]], AbstractContextManager[Any]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Seen:
    """One conversation of one client over one transport."""
    transport, library, era = request.param
    folder = tmp_path_factory.mktemp("-".join(request.param))
    home, cache, state = (str(folder / name) for name in ("home", "cache", "state"))
    environment = {"MEMSHEAF_HOME": home, "MEMSHEAF_CACHE": cache, "MEMSHEAF_STATE": state}
    environment |= {"MEMSHEAF_EMBEDDER": "none", "PATH": os.environ["PATH"], "HOME": str(folder)}
    settings = Settings(home, cache, state=state, embedder="none")
    seed(settings)
    texts = ["Drinks mate", "Mate, every morning at seven, before the work begins.", "--description", "Drinks"]
    outside = [*MEMSHEAF, "add", *texts, "--type", "user", "--scope", "user"]
    spec = {"library": library, "era": era, "env": environment, "outside": outside}
    with serving(environment) if transport == "http" else nullcontext() as served:
        stdio = {"command": MEMSHEAF[0], "args": [*MEMSHEAF[1:], "mcp", "--scope", "user"]}
        spec |= served._asdict() if served else stdio
        words = ["node", str(npm(FOLDER) / "client.mjs"), json.dumps(spec)]
        result = subprocess.run(words, capture_output=True, encoding="utf-8", cwd=folder, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    with Sheaf.open("user", settings=settings) as sheaf:
        return Seen(era, json.loads(result.stdout), {row.path: row for row in sheaf.list()})


def seed(settings: Settings) -> None:
    """Some memories as an editor leaves them, and one that nobody has confirmed."""
    with Sheaf.open("user", settings=settings) as sheaf:
        sheaf.put("user_guessed.md", GUESSED)
        for number in range(NUMBERED):
            text = f"---\nname: Number {number}\ndescription: On {number}\ntype: project\n---\nNumber {number}.\n"
            Path(sheaf.root, f"project_number-{number}.md").write_text(text, encoding="utf-8")


def test_the_server_says_who_it_is_and_which_version_it_speaks(seen: Seen) -> None:
    assert seen.out["server"]["name"] == "memsheaf"
    assert seen.out["version"] in (VERSIONS[seen.era], None)  # the first major version does not tell over stdio
    assert "memory_search" in seen.out["instructions"]


def test_every_tool_is_listed_with_what_it_does_to_the_world(seen: Seen) -> None:
    assert [tool["name"] for tool in seen.out["tools"]] == [tool.__name__ for tool in TOOLS]
    for tool in seen.out["tools"]:
        assert tool["annotations"].get("readOnlyHint", False) == (tool["name"] in READING)
        assert tool["inputSchema"]["type"] == "object"


def test_every_tool_can_be_called(seen: Seen) -> None:
    assert {*seen.out["calls"], "memory_delete"} == {tool.__name__ for tool in TOOLS}
    assert [name for name, answer in seen.out["calls"].items() if answer["failed"]] == []
    assert seen.out["calls"]["memory_search"]["text"].startswith("user_prefers-tabs.md")
    assert "user_prefers-tabs.md" in seen.out["calls"]["memory_recall"]["text"]


def test_a_mistake_is_an_answer_that_says_what_to_do(seen: Seen) -> None:
    assert seen.out["missing"]["failed"]
    assert "memory_list" in seen.out["missing"]["text"]
    assert seen.out["wrong"]["failed"]
    assert "must be a text" in seen.out["wrong"]["text"]


def test_resources_are_listed_and_read_and_go_no_further_than_the_memories(seen: Seen) -> None:
    assert seen.out["resources"][:2] == ["memory://catalog", "memory://context"]
    assert [template["uriTemplate"] for template in seen.out["templates"]] == ["memory://file/{+path}"]
    assert "user_prefers-tabs.md" in seen.out["read"]["catalog"]
    assert "# Memory" in seen.out["read"]["context"]
    assert "each file" in seen.out["read"]["file"]
    assert "Makefiles" in seen.out["read"]["file"]
    assert "not allowed" in seen.out["refused"]


def test_every_prompt_says_something(seen: Seen) -> None:
    assert {prompt["name"] for prompt in seen.out["prompts"]} == set(seen.out["said"])
    assert set(seen.out["said"]) == {"recall", "remember", "reflect", "audit", "ignore_memory"}
    assert "Makefiles" in seen.out["said"]["recall"]
    assert "Tea, not coffee" in seen.out["said"]["remember"]
    assert f"all {NUMBERED + 2} memories" in seen.out["said"]["audit"]


def test_a_long_call_tells_how_far_it_is(seen: Seen) -> None:
    steps = [step["progress"] for step in seen.out["progress"]]
    assert steps
    assert steps == sorted(set(steps))
    assert {step["total"] for step in seen.out["progress"]} == {len(seen.kept) - 1}  # one came later


def test_the_client_is_told_what_changed_here_and_elsewhere(seen: Seen) -> None:
    assert seen.out["changes"] >= 2  # the client waited for both
    assert "user_drinks-mate.md" in seen.kept


def test_a_memory_is_deleted(seen: Seen) -> None:
    assert seen.out["deleted"]["text"] == "Memory deleted: user_likes-tea.md"
    assert seen.out["gone"]["failed"]
    assert "user_likes-tea.md" not in seen.kept


def test_no_client_is_asked_to_confirm_a_memory(seen: Seen) -> None:
    assert seen.out["asked"] == []
    assert "fish shell" in seen.out["unconfirmed"]["text"]
    assert seen.kept["user_guessed.md"].trust == "unconfirmed"
