"""The real Claude Code, in a fresh home, with memory installed into it or as a plugin."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.real_clients import PROTOCOL, RealClient, learned_preference, open_client, tell_and_ask, wait_for
from memsheaf.tools import TOOLS


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[RealClient]:
    with open_client("claude-code", tmp_path / "home") as client:
        yield client


def test_what_is_told_in_one_repository_is_known_in_another_and_uninstall_leaves_no_trace(
    claude: RealClient, tmp_path: Path
) -> None:
    before = claude.files()
    claude.memsheaf("install", "claude-code", "--yes")

    tell_and_ask(claude, tmp_path)

    claude.memsheaf("uninstall", "claude-code", "--yes")
    assert claude.files() == before


def test_a_sub_agent_has_the_memories_of_its_task_and_a_rule_comes_with_its_file(
    claude: RealClient, tmp_path: Path
) -> None:
    repository = tmp_path / "shop"
    (repository / "src").mkdir(parents=True)
    (repository / "src" / "api.py").write_text("PORT = 8080\n")
    claude.run("git", "init", "-q", str(repository))
    memsheaf = [sys.executable, "-m", "memsheaf"]
    claude.run(*memsheaf, "remember", "We deploy the shop on Fridays", cwd=repository)
    claude.run(*memsheaf, "remember", "Handlers return problem details", cwd=repository)
    [rule] = claude.home.glob(".memsheaf/projects/*/*handlers*.md")
    rule.write_text(rule.read_text().replace("\ntype: ", "\npaths: [src/**]\ntype: "))
    claude.memsheaf("install", "claude-code", "--yes")

    task = {"description": "look", "prompt": "When do we deploy the shop?", "subagent_type": "general-purpose"}
    requests = claude.say(f"CALL Agent {json.dumps(task)}", repository)
    [delegated] = [one for one in requests if "SubagentStart" in one]
    assert "We deploy the shop on Fridays (you" in delegated
    assert PROTOCOL not in delegated.partition("SubagentStart")[2]

    [asked, answered, *_] = claude.say(f'CALL Read {{"file_path": "{repository}/src/api.py"}}', repository)
    assert "Handlers return problem details (you" not in asked
    assert "Handlers return problem details (you" in answered


@pytest.mark.long
def test_the_plugin_does_the_same(claude: RealClient, tmp_path: Path) -> None:
    place = tmp_path / "plugin"
    claude.memsheaf("install", "--plugin", str(place))
    claude.run("claude", "plugin", "validate", "--strict", str(place))
    claude.run("claude", "plugin", "marketplace", "add", str(place))
    claude.run("claude", "plugin", "install", "memsheaf@memsheaf")

    [silent, *_] = claude.say("I prefer pnpm over npm.", tmp_path / "one")
    assert "hook success" not in silent  # nothing is known yet, and an empty answer would be shown to the model
    file = wait_for(lambda: learned_preference(claude))
    [first, *_] = claude.say("/memsheaf:remember I prefer tabs", tmp_path / "two")

    assert PROTOCOL in first
    assert f"(user:{file})" in first
    assert [tool.__name__ for tool in TOOLS if f"mcp__plugin_memsheaf_memsheaf__{tool.__name__}" not in first] == []
    assert "The user asks you to remember this:\\n\\nI prefer tabs" in first
    assert "memsheaf:memsheaf: How the memory of this machine works." in first


@pytest.mark.long
def test_what_is_told_on_one_machine_is_known_on_another_at_its_next_conversation(
    claude: RealClient, tmp_path: Path
) -> None:
    hub = tmp_path / "memory.git"
    claude.run("git", "init", "-q", "--bare", str(hub))
    with open_client("claude-code", tmp_path / "desktop") as desktop:
        for machine in (claude, desktop):
            machine.memsheaf("install", "claude-code", "--yes")
            machine.memsheaf("hub", "add", str(hub), "-s", "user")

        claude.say("I prefer pnpm over npm.", tmp_path / "one")
        file = wait_for(lambda: learned_preference(claude))
        wait_for(lambda: file in claude.run("git", "-C", str(hub), "log", "--all", "--name-only"))
        asked = [one for one in desktop.say("hello", tmp_path / "two") if PROTOCOL in one]

        assert f"(user:{file})" in asked[0]


@pytest.mark.long
def test_a_linked_client_reads_the_catalog_from_our_folder(claude: RealClient, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    claude.run("git", "init", "-q", str(repository))
    memsheaf = [sys.executable, "-m", "memsheaf"]
    claude.run(*memsheaf, "remember", "We deploy on Thursdays", cwd=repository)
    claude.run(*memsheaf, "install", "claude-code", "--link", "--yes", cwd=repository)

    root = json.loads((repository / ".claude" / "settings.local.json").read_text())["autoMemoryDirectory"]
    linked = "".join(claude.say("hello", repository))
    claude.run(*memsheaf, "uninstall", "claude-code", "--yes", cwd=repository)

    assert "[We deploy on Thursdays](project_deploy-thursdays.md)" in linked
    assert root in linked
    assert not (repository / ".claude" / "settings.local.json").exists()
