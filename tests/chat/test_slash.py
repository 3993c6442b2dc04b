"""Slash commands, on a real agent with real memories."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from cases import each_case
from chat.scene import Scene, run
from memsheaf.chat.agent import Agent
from memsheaf.chat.permissions import PermissionRequest
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
    assert chat.do("/forgt tea") == NextStep()
    assert "there is no command /forgt; did you mean /forget tea?" in chat.paper.text
    assert chat.do("/memory udno") == NextStep()
    assert "/memory has no udno; did you mean /memory undo?" in chat.paper.text
    assert chat.ran == []
    assert chat.do("/xyzzy") == NextStep()
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
    assert "nothing is left to undo" in chat.paper.text


@each_case("line", ["/memory show", "/memory dance", "/remember", "/forget", "/recall", "/ignore", "/allow x"])
def test_a_command_that_lacks_something_says_what_and_does_nothing(chat: Chat, line: str) -> None:
    before = len(chat.paper.text)
    assert chat.do(line) == NextStep()
    assert chat.ran == []
    assert f"{line.split()[0]} takes " in chat.paper.text[before:]


def test_plan_mode_goes_on_and_off(chat: Chat) -> None:
    modes = []
    for line in ("/plan", "/plan", "/plan on", "/plan on"):
        chat.do(line)
        modes.append(chat.agent.permission.planning)
    assert modes == [True, False, True, True]


def test_what_was_allowed_is_shown_and_taken_back(scene: Scene) -> None:
    with opened(scene, answer="always") as chat:
        chat.do("/allow")
        assert "nothing was answered with always or never yet" in chat.paper.text
        chat.agent.permission.require(PermissionRequest("shell", "run: ls", reach="run", key="run ls"))
        chat.do("/allow")
        assert "run ls" in chat.paper.text
        chat.do("/allow reset")
        assert chat.agent.permission.rules() == []


def test_a_cleared_conversation_can_be_gone_on_with(scene: Scene) -> None:
    with opened(scene, "Good day.", "Again.") as chat:
        run(chat.agent, "Hello there")
        old = chat.agent.id
        chat.do("/clear")
        assert chat.agent.conversation == []
        run(chat.agent, "Something else")

        chat.do(f"/resume {old}")

        assert chat.agent.id == old
        assert [said.text for said in chat.agent.conversation] == ["Hello there", "Good day."]
        assert f"goes on with {old}: 2 messages" in chat.paper.text
        assert "> Hello there\nGood day." in chat.paper.text


def test_what_cannot_be_resumed_is_told_and_nothing_changes(scene: Scene) -> None:
    with opened(scene, "Good day.") as chat:
        run(chat.agent, "Hello there")
        before = list(chat.agent.conversation)

        assert chat.do("/resume 2099") == NextStep()

        assert "2099" in chat.paper.text
        assert chat.agent.conversation == before
        chat.do("/resume")
        assert chat.ran == [["conversations"]]


def test_the_cost_of_the_conversation_comes_before_that_of_all(scene: Scene) -> None:
    with opened(scene) as chat:
        chat.do("/cost")
        assert "this conversation: nothing was asked of a model" in chat.paper.text
        chat.agent.spent = chat.agent.spent._replace(
            requests=2, input=12_345, output=950, cached=8_000, dollars=0.0421
        )
        chat.do("/cost")
        assert "12,345 tokens in (8,000 cached), 950 out · $0.04" in chat.paper.text


def test_help_names_every_command_and_the_keys(scene: Scene) -> None:
    with opened(scene) as chat:
        chat.do("/help")
        for name, command in COMMANDS.items():
            assert f"/{name}" in chat.paper.text
            assert command.help in chat.paper.text
        assert "Alt-Enter" in chat.paper.text
        assert max(map(len, chat.paper.lines)) <= 110


@each_case(
    "text, found",
    [
        ("/me", ["/memory"]),
        ("/re", ["/remember", "/recall", "/review", "/resume"]),
        ("/memory s", ["show", "search"]),
        ("/memory show us", ["user:user_tabs.md"]),
        ("/memory show ", ["project_db.md", "user:user_tabs.md", "notes (old).md"]),
        ("/forget p", ["project_db.md"]),
        ("/resume 20261114", ["20261114-0800-aaaa"]),
        ("/dream ", ["status", "run"]),
        ("/notes s", ["set", "show"]),
        ("/notes --", ["--json"]),
        ("/allow reset", []),
        ("hello /me", []),
        ("/unknown x", []),
        ("", []),
    ],
)
def test_what_may_stand_there_is_completed(chat: Chat, text: str, found: list[str]) -> None:
    assert chat.commands.candidates(text) == found


def test_every_command_is_there_and_takes_nothing_for_an_answer(chat: Chat) -> None:
    for line in (*(f"/{name}" for name in COMMANDS), "/model nobody:x", "/expand 3", "/expand x"):
        chat.do(line)  # no error of ours
    assert chat.paper.expanded == [1, 3, 1]
