"""Everyday commands in processes that lack what Windows lacks: they do the same, in the order of a day."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from command_process import CommandProcess
from memsheaf.hosts.installing import program_words

PREPARED = Path(__file__).parent / "without_posix"


class Machine:
    """A home and a project on a machine without POSIX names."""

    def __init__(self, base: Path) -> None:
        self.project = base / "shop"
        self.home = base / "home"
        for folder in (self.project / ".git", self.home / ".cursor"):
            folder.mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMSHEAF_", "XDG_"))}
        self.environment = kept | {"HOME": str(self.home), "PYTHONPATH": str(PREPARED)}
        self.environment |= {"MEMSHEAF_HOME": str(base / "memories"), "MEMSHEAF_EMBEDDER": "none"}
        self.commands = CommandProcess(self.environment, self.project)

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command and return all that it printed."""
        found, printed = self.commands.run(*words)
        assert found == code, printed
        assert "Traceback" not in printed
        return printed

    def run_program(self, *words: str, data: str) -> str:
        """Run the program as a host does, with these bytes on its standard input."""
        done = subprocess.run(
            [*program_words(), *words],
            env=self.environment,
            cwd=self.project,
            input=data,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    with made.commands:
        yield made


def test_a_memory_is_saved_found_shown_forgotten_and_brought_back(machine: Machine) -> None:
    machine.run("remember", "The staging server is called marlin")
    machine.run("remember", "I prefer pnpm over npm")
    assert "marlin" in machine.run("list")
    (path,) = [
        row["path"] for row in json.loads(machine.run("list", "--json"))["memories"] if "marlin" in row["path"]
    ]
    assert "marlin" in machine.run("show", path)
    assert path in machine.run("search", "staging server")
    assert "marlin" in machine.run("recall", "what is the staging server called?")
    machine.run("forget", path)
    assert path not in machine.run("list")
    machine.run("undo")
    assert path in machine.run("list")
    assert path in machine.run("log")
    machine.run("doctor")
    machine.run("audit")
    machine.run("export", str(machine.home / "all.zip"))


def test_agents_are_installed_in_examined_and_left_again(machine: Machine) -> None:
    mine = machine.home / ".cursor" / "mcp.json"
    mine.write_text('{"mine": 1}')
    machine.run("install", "cursor", "codex", "--yes")
    assert "Cursor" in machine.run("doctor")
    machine.run("install", "cursor", "codex", "--yes")
    machine.run("uninstall", "--yes")
    assert [path for path in machine.home.rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == '{"mine": 1}'


def rpc(number: int, method: str, **params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"


def test_the_server_lists_and_runs_its_tools(machine: Machine) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    entry = {"name": "Staging", "description": "The staging server", "type": "project", "content": "It is marlin."}
    said = machine.run_program(
        "mcp",
        data=rpc(1, "initialize", **hello)
        + rpc(2, "tools/list")
        + rpc(3, "tools/call", name="memory_write", arguments=entry),
    )
    assert '"memory_search"' in said
    assert "project_staging.md" in machine.run("list")


def test_a_hook_answers(machine: Machine) -> None:
    machine.run("remember", "The staging server is called marlin")
    data = json.dumps(
        {"session_id": "s1", "cwd": str(machine.project), "prompt": "what is the staging server called?"}
    )
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"):
        said = machine.run_program("hook", "claude-code", event, data=data)
        assert event in ("Stop", "SessionEnd") or "marlin" in said, event
    assert not list(machine.project.parent.rglob("hooks.log"))


def test_two_who_write_at_once_both_save(machine: Machine) -> None:
    def start(words: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*program_words(), *words], env=machine.environment, cwd=machine.project)

    names = ["marlin", "barracuda"]
    processes = [start(["remember", f"The {name} server runs in Oslo"]) for name in names]
    assert [process.wait() for process in processes] == [0] * len(names)
    said = machine.run("list")
    assert all(name in said for name in names)


def test_a_git_hub_is_joined_and_given_up_when_it_is_silent(machine: Machine) -> None:
    remote = machine.home / "memory.git"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    machine.run("remember", "I prefer pnpm over npm")
    machine.run("hub", "add", str(remote), "-s", "user")
    machine.run("hub", "sync")
    assert (
        "pnpm"
        in subprocess.run(
            ["git", "-C", str(remote), "log", "--all", "-p"], check=True, capture_output=True, text=True
        ).stdout
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"git://127.0.0.1:{silent.getsockname()[1]}/memory.git"
        assert "does not answer" in machine.run("hub", "add", address, "-s", "project", code=1)


IMPORT_ALL = """
import importlib, pkgutil, memsheaf
others = {"__main__", "adapters", "chat", "llm", "mcp", "web"}  # packages of others that would look for Windows
for module in pkgutil.walk_packages(memsheaf.__path__, "memsheaf."):
    if module.name.split(".")[1] not in others:
        importlib.import_module(module.name)
"""


def test_every_module_can_be_imported(machine: Machine) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], env=machine.environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
