"""Hooks that the running MCP server answers: through its socket, and as a tool that it does not list."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hosts.conftest import HookRunner


class Server:
    """An MCP server as a host starts it, and its client."""

    def __init__(self, hooks: HookRunner, *words: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "memsheaf", "mcp", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=hooks.project,
            env=hooks.environment,
        )
        self.number = 0
        client = {"name": "test", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)

    def ask(self, method: str, **params: Any) -> Any:
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        while line := self.process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self.number:
                return answer.get("result") or answer["error"]
        raise AssertionError("the server ended")

    def call(self, name: str, **arguments: Any) -> str:
        return str(self.ask("tools/call", name=name, arguments=arguments)["content"][0]["text"])


@contextmanager
def serving(hooks: HookRunner, *words: str) -> Iterator[Server]:
    server = Server(hooks, *words)
    try:
        server.call("memory_list")
        yield server
    finally:
        assert server.process.stdin
        server.process.stdin.close()
        server.process.wait(30)
        if server.process.stdout:
            server.process.stdout.close()


def sockets(hooks: HookRunner) -> list[Path]:
    return [path for path in hooks.runtime.rglob("*") if path.is_socket()]


def test_the_running_server_answers_hooks_through_a_socket_of_this_user_alone(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    with serving(hooks) as server:
        (path,) = sockets(hooks)
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(path.parent).st_mode & 0o777 == 0o700
        (hooks.home / "config.toml").write_text("learning = 7")  # with this, a process of its own would say nothing
        assert "Fridays" in hooks.context("UserPromptSubmit", prompt="when do we deploy the shop?")
        assert hooks.hook("UserPromptSubmit", prompt="and when do we deploy the shop?") == {}
        assert "(project_we-deploy-the-shop-on-fridays.md)" in hooks.context("SessionStart", source="startup")
        (hooks.home / "config.toml").unlink()
        assert hooks.context("UserPromptSubmit", prompt="when do we deploy?", cwd=hooks.other) == ""
        server.process.kill()
        server.process.wait()
        assert "Fridays" in hooks.context("UserPromptSubmit", prompt="when do we deploy the shop?", session_id="s2")
    with serving(hooks):  # the socket of one that was killed is in nobody's way
        assert len(sockets(hooks)) == 1
    assert sockets(hooks) == []


def test_a_folder_that_others_can_enter_holds_no_socket(hooks: HookRunner) -> None:
    folder = hooks.runtime / f"memsheaf-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o755)
    with serving(hooks):
        assert sockets(hooks) == []


def test_the_hook_tool_answers_and_is_not_listed(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    event = {"host": "claude-code", "hook_event_name": "UserPromptSubmit", "session_id": "s1", "agent_id": ""}
    with serving(hooks) as server:
        assert "memory_hook" not in [tool["name"] for tool in server.ask("tools/list")["tools"]]
        answer = json.loads(server.call("memory_hook", **event, prompt_id="p1", prompt="when do we deploy the shop?"))
        assert "Fridays" in answer["hookSpecificOutput"]["additionalContext"]
        assert answer["systemMessage"] == "memory: 1 recalled"
        assert server.call("memory_hook", **event, prompt_id="p2", prompt="when do we deploy the shop?") == ""
        # the process of the same conversation knows what was shown
        assert hooks.hook("UserPromptSubmit", prompt="tell me when we deploy the shop", prompt_id="p3") == {}
    with serving(hooks, "--read-only") as server:
        assert "there is no tool" in server.call("memory_hook", **event, prompt="when do we deploy the shop?")


def test_a_server_whose_memory_is_off_says_so(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    with serving(hooks) as server:
        assert hooks.run("off").returncode == 0
        assert "memory is off" in server.call("memory_search", query="deploy")
        assert hooks.hook("UserPromptSubmit", prompt="when do we deploy the shop?") == {}
        assert hooks.run("on").returncode == 0
        assert "project_we-deploy" in server.call("memory_search", query="deploy")


def test_a_conversation_that_a_frozen_process_holds_does_not_hold_up_the_tools(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    event = {"host": "claude-code", "hook_event_name": "UserPromptSubmit", "session_id": "s1"}
    with serving(hooks) as server:
        assert "Fridays" in server.call("memory_hook", **event, prompt="when do we deploy the shop?")
        (lock,) = (hooks.home / "state" / "hooks").glob("*.lock")
        with lock.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert server.call("memory_hook", **event, prompt="and when do we deploy the blog?") == ""
            assert "on-fridays" in server.call("memory_search", query="deploy")
        assert "another process has held the lock" in hooks.log


def test_a_server_with_another_home_answers_the_hooks_of_that_home(hooks: HookRunner) -> None:
    hooks.remember("We deploy the shop on Fridays")
    environment = hooks.environment
    hooks.environment = {name: value for name, value in environment.items() if name != "MEMSHEAF_HOME"}
    with serving(hooks, "--home", str(hooks.home)) as server:
        hooks.environment = environment
        (hooks.home / "config.toml").write_text("learning = 7")  # with this, a process of its own would say nothing
        assert "Fridays" in hooks.context("UserPromptSubmit", prompt="when do we deploy the shop?")
        assert server.call("memory_hook", host="claude-code", hook_event_name="Invented") == ""
        assert "unknown event" in hooks.log


def test_a_conversation_that_a_server_answers_is_learned_from(
    hooks: HookRunner, eventually: Callable[[Callable[[], object]], None]
) -> None:
    path = hooks.transcript("s1", ("user", "I prefer tabs over spaces."), ("assistant", "Noted."))
    with serving(hooks):
        hooks.hook("Stop", transcript_path=str(path))
        hooks.hook("SessionEnd", transcript_path=str(path))
    eventually(lambda: any("tabs" in name for name in hooks.listed()))
