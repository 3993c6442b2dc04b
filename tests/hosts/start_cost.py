"""What the start of a conversation costs in Claude Code, in tokens of four bytes: `python tests/hosts/start_cost.py`.

It runs the hook and the server as the client does, in a home with so many memories, and counts all that reaches the
model: the context of the hook, the instructions and the tools of the server, skill and commands.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from memsheaf.hosts.plugin import plugin_files
from memsheaf.memory import compose

COUNTS = (5, 200, 1_500)
SUBJECTS = ("deploy", "release", "staging database", "invoice service", "login page", "nightly import", "price table")
FACTS = (
    "The {} of part {} runs on the second host since March, because the first one has too little memory",
    "I want the {} of part {} reviewed by two people before it is merged",
    "We keep the {} of part {} in UTC and in whole cents",
    "Ana Silva owns the {} of part {} and is asked before it changes",
)


def tokens(text: str) -> int:
    """Return the size of a text in tokens of four bytes."""
    return -(-len(text.encode()) // 4)


def fill(home: Path, project: Path, count: int, environment: dict[str, str]) -> None:
    """Save memories, every third of them about the user."""
    shown = json.loads(run(["scopes", "--json"], environment, project))
    roots = {one["scope"]: Path(one["root"]) for one in shown["scopes"]}
    for number in range(count):
        fact = FACTS[number % len(FACTS)].format(SUBJECTS[number % len(SUBJECTS)], number)
        kind = "user" if number % 3 == 0 else "project"
        day = f"2026-10-{number % 28 + 1:02}"
        memory = compose(name=fact[:48], description=fact, kind=kind, body=fact, created=day, updated=day)
        roots[kind].mkdir(parents=True, exist_ok=True)
        (roots[kind] / f"{kind}_part-{number}.md").write_text(memory.text, encoding="utf-8")
    run(["list"], environment, project)


def run(words: list[str], environment: dict[str, str], cwd: Path, data: str = "") -> str:
    """Run memsheaf, and return what it printed."""
    line = [sys.executable, "-m", "memsheaf", *words]
    return subprocess.run(
        line, env=environment, cwd=cwd, input=data, capture_output=True, text=True, check=True
    ).stdout


def measure(base: Path, count: int) -> dict[str, int]:
    """Return the tokens of each part with so many memories."""
    home, project = base / "home", base / "shop"
    (home / ".claude").mkdir(parents=True)
    (project / ".git").mkdir(parents=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MEMSHEAF_", "CLAUDE"))}
    environment = kept | {"HOME": str(home), "MEMSHEAF_EMBEDDER": "none"}
    fill(home, project, count, environment)
    run(["install", "claude-code", "--yes"], environment, project)
    event = {"session_id": "s1", "source": "startup", "cwd": str(project), "hook_event_name": "SessionStart"}
    answer = json.loads(run(["hook", "claude-code", "SessionStart"], environment, project, json.dumps(event)))
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "claude-code", "version": "2"},
    }
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
    ]
    lines = run(["mcp"], environment, project, "".join(f"{json.dumps(one)}\n" for one in asked)).splitlines()
    found = {one["id"]: one["result"] for one in map(json.loads, lines) if "id" in one}
    tools = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in found[2]["tools"]]
    listed = {"skill": "", "commands": ""}
    for name, text in plugin_files(["memsheaf"]).items():
        description = re.search(r"(?m)^description: (.*)$", text)
        if description and "disable-model-invocation: true" not in text:
            listed["skill" if name.startswith("skills/") else "commands"] += f"- {name}: {description[1]}\n"
    parts = {
        "context": tokens(answer["hookSpecificOutput"]["additionalContext"]),
        "instructions": tokens(found[1].get("instructions", "")),
        "skill": tokens(listed["skill"]),
        "commands": tokens(listed["commands"]),
        "tools": tokens(json.dumps(tools, ensure_ascii=False)),
    }
    return parts | {"all": sum(parts.values())}


if __name__ == "__main__":
    rows = []
    for number in COUNTS:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            rows.append((number, measure(Path(folder), number)))
    print("| memories | " + " | ".join(rows[0][1]) + " |")
    print("|--:|" + "--:|" * len(rows[0][1]))
    for number, found in rows:
        print(f"| {number:,} | " + " | ".join(f"{value:,}" for value in found.values()) + " |")
