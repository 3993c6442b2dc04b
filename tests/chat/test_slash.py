"""Slash commands, on a real agent with real memories."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from chat.scene import Scene
from memsheaf.chat.agent import Agent
from memsheaf.chat.terminal.screen import Screen
from memsheaf.chat.terminal.slash import COMMANDS, Commands, NextStep, split


class Paper(Screen):
    """Where commands print."""

    def __init__(self) -> None:
        super().__init__(io.StringIO(), io.StringIO(), live=True)
        self.expanded: list[int] = []

    def expand(self, number: int = 1) -> None:
        self.expanded.append(number)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def text(self) -> str:
        assert isinstance(self.out, io.StringIO)
        return self.out.getvalue()


class Chat:
    """An agent, its commands, what they printed, and which lines of `memsheaf` they ran."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.paper = Paper()
        self.ran: list[list[str]] = []
        self.commands = Commands(
            agent,
            self.paper,
            self._run,
            files=lambda: ["project_db.md", "user:user_tabs.md", "notes (old).md"],
            conversations=lambda: ["20261115-2241-3f9a", "20261114-0800-aaaa"],
            complete=lambda words: ["set", "show", "--json"] if words[0] == "notes" else [],
        )

    def _run(self, words: Sequence[str]) -> int:
        self.ran.append(list(words))
        return 0

    def do(self, line: str) -> NextStep:
        return self.commands.do(line)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@contextmanager
def opened(scene: Scene, *script: object, **more: object) -> Iterator[Chat]:
    with scene.chat(list(script), **more) as agent:  # type: ignore[arg-type]
        yield Chat(agent)


@pytest.fixture
def chat(scene: Scene) -> Iterator[Chat]:
    with opened(scene) as chat:
        yield chat


def test_what_is_no_command_is_a_message(chat: Chat) -> None:
    for line, message in (
        ("hello", "hello"),
        ("  hello\nworld ", "hello\nworld"),
        ("//memory is a folder", "/memory is a folder"),
        ("/etc/hosts looks odd", "/etc/hosts looks odd"),
        ("and /or", "and /or"),
        ("/remember I prefer tabs", "Remember this: I prefer tabs"),
        ("/forget the old database", "Forget what you know about the old database"),
    ):
        assert chat.do(line) == NextStep(message)
    assert chat.do("/ignore what is 2+2?") == NextStep("what is 2+2?", ignore=True)
    for line in ("/exit", "/quit", "/EXIT", "exit", "Quit"):
        assert chat.do(line) == NextStep(leave=True)
    for line in ("", "/", "/ ", "//", "\x00", "/\n", "/🙂"):
        split(line)


def test_an_unknown_command_is_told_with_the_nearest_and_sends_nothing(chat: Chat) -> None:
    assert chat.do("/forgt tea") == NextStep(failed=True)
    assert "there is no command /forgt; did you mean /forget tea?" in chat.paper.text
    assert chat.do("/memory udno") == NextStep()
    assert "/memory has no udno; did you mean /memory undo?" in chat.paper.text
    assert chat.ran == []
    assert chat.do("/xyzzy") == NextStep(failed=True)
    assert "there is no command /xyzzy\n" in chat.paper.text + "\n"


def test_commands_of_the_line_run_as_they_do_there(chat: Chat) -> None:
    for line, ran in {
        "/memory": ["list"],
        "/memory show user:user_tabs.md": ["show", "--", "user:user_tabs.md"],
        "/memory edit nobody.md": ["edit", "--", "nobody.md"],
        "/memory why it's Bob's day?": ["why", "--", "it's Bob's day?"],
        "/memory search tabs or spaces": ["search", "--", "tabs or spaces"],
        "/forget user:user_tabs.md": ["forget", "--", "user:user_tabs.md"],
        "/forget notes (old).md": ["forget", "--", "notes (old).md"],
        "/notes --help": ["notes", "--help"],
        "/notes set --objective 'Ship it'": ["notes", "set", "--objective", "Ship it"],
        "/task list": ["task", "list"],
        "/promote": ["promote"],
        "/review": ["review"],
        "/dream status": ["dream", "status"],
        "/recall how do we deploy?": ["recall", "--", "how do we deploy?"],
        "/recall --help": ["recall", "--help"],
        "/notes it's unbalanced": ["notes", "it's", "unbalanced"],
        "/cost --days 7": ["cost", "--days", "7"],
    }.items():
        assert chat.do(line) == NextStep()
        assert chat.ran == [ran], line
        chat.ran.clear()
    chat.do("/memory undo")
    assert chat.ran == [["undo"]]


def test_every_command_is_there_and_takes_nothing_for_an_answer(chat: Chat) -> None:
    for line in (*(f"/{name}" for name in COMMANDS), "/model nobody:x", "/expand 3", "/expand x"):
        chat.do(line)  # no error of ours
    assert chat.paper.expanded == [1, 3, 1]
