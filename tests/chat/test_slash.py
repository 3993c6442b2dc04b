"""Slash commands, on a real agent with real memories."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from chat.scene import Scene
from memsheaf.chat.agent import Agent
from memsheaf.chat.screen import Screen
from memsheaf.chat.slash import COMMANDS, Commands, NextStep, split


class Chat:
    """An agent, its commands, what they printed, and which lines of `memsheaf` they ran."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.out = io.StringIO()
        self.ran: list[list[str]] = []
        self.commands = Commands(
            agent,
            Screen(self.out, self.out, is_live=True),
            self._run,
            files=lambda: ["project_db.md", "user:user_tabs.md", "notes (old).md"],
        )

    @property
    def text(self) -> str:
        return " ".join(self.out.getvalue().split())

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
        ("/ignore what is 2+2?", "Ignore memory: what is 2+2?"),
        ("bye the way, is it late?", "bye the way, is it late?"),
    ):
        assert chat.do(line) == NextStep(message)
    for line in ("/exit", "/EXIT", "exit", "Quit", "bye", "Bye!", "ok, bye bye", "Goodbye."):
        assert chat.do(line) == NextStep(leaves=True)
    assert chat.text.endswith("Goodbye.")
    for line in ("", "/", "/ ", "//", "\x00", "/\n", "/🙂"):
        split(line)


def test_an_unknown_command_is_told_with_the_nearest_and_sends_nothing(chat: Chat) -> None:
    assert chat.do("/forgt tea") == NextStep(failed=True)
    assert "there is no command /forgt; did you mean /forget tea?" in chat.text
    assert chat.do("/memory udno") == NextStep(failed=True)
    assert "/memory takes [list|" in chat.text
    assert chat.ran == []
    assert chat.do("/xyzzy") == NextStep(failed=True)
    assert "there is no command /xyzzy; /help lists them" in chat.text


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
        "/undo": ["undo"],
        "/notes it's unbalanced": ["notes", "it's", "unbalanced"],
        "/cost --days 7": ["cost", "--days", "7"],
    }.items():
        assert chat.do(line) == NextStep()
        assert chat.ran == [ran], line
        chat.ran.clear()


def test_every_command_is_there_and_takes_nothing_for_an_answer(chat: Chat) -> None:
    for line in (*(f"/{name}" for name in COMMANDS), "/model nobody:x", "/expand 3", "/expand x"):
        chat.do(line)  # no error of ours
    assert "no tool was called yet" in chat.text
    assert "/memory takes" not in chat.text


def test_names_of_commands_and_files_are_completed(chat: Chat) -> None:
    complete = chat.commands.list_candidates
    assert complete("/mem") == ["/memory"]
    assert complete("/memory s") == ["show", "search"]
    assert complete("/forget p") == ["project_db.md"]
    assert complete("/memory show user") == ["user:user_tabs.md"]
    assert complete("mem") == complete("/nothing x") == []
