"""Commands that a model runs: what it hears of them, and that nothing of them stays."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cases import each_case
from memsheaf.chat.permissions import Permission
from memsheaf.chat.tools import FolderTools
from memsheaf.chat.tools.shell import run_command
from memsheaf.tools import ToolAnswer

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups are a thing of POSIX")

Shell = Callable[..., ToolAnswer]
ENVIRONMENT = {"PATH": os.environ.get("PATH", os.defpath)}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "root").mkdir()
    workshop = FolderTools(str(tmp_path / "root"), Permission(allow=("shell",)), environment=ENVIRONMENT)
    return lambda command, **more: workshop.answer("shell", {"command": command, **more})


class Alive:
    """A pipe that commands hold open for writing: it ends when the last of them is dead."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def heard(self) -> bytes:
        """What was written until now, once there is something; b"" when all who could write are gone."""
        assert select.select([self._fd], [], [], 60)[0], "a process is still there"
        return os.read(self._fd, 1000)

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
def alive(tmp_path: Path) -> Iterator[Alive]:
    alive = Alive(tmp_path / "alive")
    yield alive
    alive.close()


@each_case(
    "command, text",
    [
        ("echo one; echo two >&2; echo three; exit 3", "one\ntwo\nthree\n(exit code 3)"),
        ("true", "(no output)\n(exit code 0)"),
        ("kill -9 $$", "(no output)\n(ended by signal 9)"),
        (r"printf 'a\377b\n'", "a\ufffdb\n(exit code 0)"),
        (r"printf 'ghp_%s\n' 16C7e42F292c6912E7710c838347Ae178B4a", "[removed: a GitHub token]\n(exit code 0)"),
    ],
)
def test_what_is_printed_comes_in_order_with_errors_and_how_it_ended(shell: Shell, command: str, text: str) -> None:
    assert shell(command) == ToolAnswer(text, failed="(exit code 0)" not in text)


def test_a_command_runs_in_the_working_directory_without_input_and_without_a_terminal(
    shell: Shell, tmp_path: Path
) -> None:
    assert shell("pwd; cat; test -t 0 || echo no terminal; (cat </dev/tty) 2>/dev/null || echo none").text == (
        f"{tmp_path / 'root'}\nno terminal\nnone\n(exit code 0)"
    )


def test_a_command_that_prints_for_ever_is_ended_and_fills_no_memory(shell: Shell) -> None:
    tracemalloc.start()
    try:
        answer = shell("yes", seconds=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.failed
    assert "did not finish within 1 seconds" in answer.text
    assert peak < 5_000_000


@pytest.mark.parametrize(
    "command",
    [
        "(sleep 1000; echo) & exec sleep 1000",
        "trap '' TERM INT HUP; sleep 1000; sleep 1000",
        "sh -c 'sleep 1000' & sleep 1000",
    ],
)
def test_when_time_is_up_all_that_a_command_started_is_gone(
    shell: Shell, alive: Alive, tmp_path: Path, command: str
) -> None:
    started = tmp_path / "started"
    for seconds in (1, 10, 100):  # a busy machine may take longer than the first to start it
        answer = shell(f"exec 9>{alive.path}; echo x >&9; > {started}; {command}", seconds=seconds)
        assert answer.failed
        assert "killed with its child processes" in answer.text
        if started.exists():
            break
    assert alive.heard() == b"x\n"
    assert alive.heard() == b""


@pytest.mark.parametrize("command", ["sh -c 'sleep 1000' &", "yes &", "sleep 1000 >/dev/null 2>&1 &"])
def test_what_a_command_leaves_in_the_background_ends_with_it(shell: Shell, alive: Alive, command: str) -> None:
    answer = shell(f"exec 9>{alive.path}; echo x >&9; {command} echo done", seconds=60)
    assert not answer.failed
    assert "(exit code 0)" in answer.text
    assert alive.heard() == b"x\n"
    assert alive.heard() == b""


PROGRAM = """
import sys
from memsheaf.chat.permissions import Permission
from memsheaf.chat.tools import FolderTools
try:
    FolderTools(".", Permission(allow=("shell",))).answer("shell", {"command": sys.argv[1]})
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_command_is_gone_when_we_are_interrupted(tmp_path: Path, alive: Alive) -> None:
    command = f"exec 9>{alive.path}; sleep 1000 & sh -c 'echo x >&9; sleep 1000'"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, command], stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert alive.heard() == b"x\n"
        while len(os.listdir(f"/proc/{process.pid}/task")) < 2:  # until it listens to the command
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == b"interrupted\n"
    assert alive.heard() == b""


def test_keys_are_not_passed_on(tmp_path: Path) -> None:
    environment = {
        **ENVIRONMENT, "ANTHROPIC_API_KEY": "k1", "OPENAI_API_KEY": "k2", "HF_TOKEN": "k3", "my_secret": "k4",
        "AWS_SECRET_ACCESS_KEY": "k5", "LANG": "C", "MONKEY": "stays",
    }  # fmt: skip
    outcome = run_command("env", folder=str(tmp_path), environment=environment, seconds=60)
    names = {line.partition("=")[0] for line in outcome.text.splitlines()}
    assert {"PATH", "LANG", "MONKEY"} <= names
    assert not names & {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "HF_TOKEN", "my_secret", "AWS_SECRET_ACCESS_KEY"}


@each_case(
    "arguments, said",
    [
        ({"command": ""}, "must not be empty"),
        ({"command": " \n"}, "must not be empty"),
        ({"command": "echo \0"}, "NUL"),
        ({"command": "echo \ud800"}, "unpaired surrogates"),
        ({"command": "true", "seconds": 601}, "between 1 and 600"),
        ({"command": "true", "seconds": -1}, "between 1 and 600"),
        ({"command": ["true"]}, "must be a text"),
        ({"command": "true", "background": True}, "takes no argument 'background'; it takes command, seconds"),
        ({}, "needs command"),
        ({"command": "x" * 3_000_000}, "could not be done"),
    ],
)
def test_a_wrong_call_is_an_answer_that_says_what_is_right(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    answer = FolderTools(str(tmp_path), Permission(allow=("shell",))).answer("shell", arguments)
    assert answer.failed
    assert answer.text.startswith("Error: ")
    assert said in answer.text
