"""Lines that `install`, `mcp --print-config` or a plugin of an earlier version wrote are still understood."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable

import pytest

from memsheaf.cli.commands import find_command, load
from memsheaf.cli.parser import parse

Run = Callable[..., tuple[int, str, str]]

SERVERS: dict[str, dict[str, object]] = {
    "mcp": {},
    "mcp --home /home/user/.memsheaf": {"home": "/home/user/.memsheaf"},
    "mcp --scope user --read-only": {"scope": ["user"], "read_only": True},
    "mcp --agent helper --home /srv/m --project /srv/p": {"agent": ["helper"], "home": "/srv/m", "project": "/srv/p"},
    "mcp --http --port 8377": {"http": True, "port": 8377},
    "worker --hub postgresql://h/m --team shop --once": {"hub": "postgresql://h/m", "team": ["shop"], "once": True},
    "web --json": {"json": True},
}
"""In settings of clients, and of services."""
COMMANDS = ('why "how do we deploy?"', "review --json", "undo", "log", "doctor", "off", "on", "list --json")
"""In the texts of the plugin."""


@pytest.mark.parametrize("line", SERVERS)
def test_a_line_of_a_server_means_what_it_meant(line: str) -> None:
    name, rest = find_command(shlex.split(line))
    given = parse(load(name), rest)
    assert {key: given[key] for key in SERVERS[line]} == SERVERS[line]
    assert name == line.split(" ")[0]


def test_a_line_of_the_plugin_runs(run: Run) -> None:
    run("remember", "We deploy on Fridays")
    for line in COMMANDS:
        code, out, err = run(*shlex.split(line))
        assert (code, bool(out)) == (0, True), (line, err)


def test_what_the_plugin_learned_is_decided_with_its_line(run: Run) -> None:
    for text in ("bugs are tracked in Linear", "our proxy listens on port 8080"):
        run("learn", "-", stdin=f"User: Remember that {text}.\n", more={"MEMSHEAF_POLICY": "suggest"})
    first, second = (one["id"] for one in json.loads(run("review", "--json")[1])["proposals"])
    assert run("review", "--approve", first, "--reject", second)[0] == 0


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"])
def test_a_hook_answers_its_host(event: str, environment: dict[str, str]) -> None:
    asked = json.dumps({"session_id": "s1", "prompt": "when do we deploy?", "hook_event_name": event})
    line = [sys.executable, "-P", "-m", "memsheaf", "hook", "claude-code", event]
    done = subprocess.run(line, env=environment, input=asked, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_an_action_of_a_named_agent_or_task_is_about_its_scope(run: Run) -> None:
    assert run("remember", "--agent", "writer", "Short sentences are better")[0] == 0
    assert "Short sentences" in run("list", "-s", "agent/writer")[1]
    run("task", "start", "Login")
    assert run("task", "note", "--task", "login", "Sessions live in Redis")[0] == 0
    assert "Sessions live in Redis" in run("show", "TASK.md", "-s", "task/login")[1]
