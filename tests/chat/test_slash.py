"""Slash commands, on a real agent with real memories."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("hello", "hello"),
        ("  hello\nworld ", "hello\nworld"),
        ("//memory is a folder", "/memory is a folder"),
        ("/etc/hosts looks odd", "/etc/hosts looks odd"),
        ("and /or", "and /or"),
    ],
)
def test_what_is_no_command_is_a_message(scene: Scene, line: str, message: str) -> None:
    with opened(scene) as chat:
        assert chat.do(line) == NextStep(message)


def test_an_unknown_command_is_told_with_the_nearest_and_sends_nothing(scene: Scene) -> None:
    with opened(scene) as chat:
        assert chat.do("/memry list") == NextStep()
        assert "there is no command /memry; did you mean /memory?" in chat.paper.text
        assert chat.do("/xyzzy") == NextStep()
        assert "there is no command /xyzzy\n" in chat.paper.text + "\n"


def test_memories_are_listed_shown_edited_and_searched_where_they_are(scene: Scene) -> None:
    with opened(scene) as chat:
        for line in (
            "/memory",
            "/memory show user:user_tabs.md",
            "/memory edit nobody.md",
            "/memory why it's Bob's day?",
            "/memory search tabs or spaces",
            "/memory undo",
        ):
            assert chat.do(line) == NextStep()

        assert chat.ran == [
            ["list"],
            ["show", "--", "user:user_tabs.md"],
            ["edit", "--", "nobody.md"],
            ["why", "--", "it's Bob's day?"],
            ["search", "--", "tabs or spaces"],
        ]
        assert "nothing is left to undo" in chat.paper.text


@pytest.mark.parametrize(
    "line", ["/memory show", "/memory why", "/memory dance", "/remember", "/forget", "/recall", "/ignore", "/allow x"]
)
def test_a_command_that_lacks_something_says_what_and_does_nothing(scene: Scene, line: str) -> None:
    with opened(scene) as chat:
        assert chat.do(line) == NextStep()
        assert chat.ran == []
        assert line.split()[0] in chat.paper.text


def test_remember_forget_and_ignore_become_messages(scene: Scene) -> None:
    with opened(scene) as chat:
        assert chat.do("/remember I prefer tabs").message == "Remember this: I prefer tabs"
        assert "the old database" in chat.do("/forget the old database").message
        assert chat.do("/ignore what is 2+2?") == NextStep("what is 2+2?", ignore=True)


def test_a_file_is_forgotten_at_once(scene: Scene) -> None:
    with opened(scene) as chat:
        assert chat.do("/forget user:user_tabs.md") == NextStep()
        assert chat.do("/forget notes (old).md") == NextStep()
        assert chat.ran == [["forget", "--", "user:user_tabs.md"], ["forget", "--", "notes (old).md"]]


def test_commands_of_the_line_run_as_they_do_there(scene: Scene) -> None:
    with opened(scene) as chat:
        for line in (
            "/notes --help",
            "/notes set --objective 'Ship it'",
            "/task list",
            "/promote",
            "/review",
            "/dream status",
            "/recall how do we deploy?",
            "/recall --help",
            "/notes it's unbalanced",
        ):
            chat.do(line)

        assert chat.ran == [
            ["notes", "--help"],
            ["notes", "set", "--objective", "Ship it"],
            ["task", "list"],
            ["promote"],
            ["review"],
            ["dream", "status"],
            ["recall", "--", "how do we deploy?"],
            ["recall", "--help"],
            ["notes", "it's", "unbalanced"],
        ]


def test_plan_mode_goes_on_and_off(scene: Scene) -> None:
    with opened(scene) as chat:
        chat.do("/plan")
        assert chat.agent.permission.planning
        chat.do("/plan")
        assert not chat.agent.permission.planning
        chat.do("/plan on")
        chat.do("/plan on")
        assert chat.agent.permission.planning


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


def test_an_error_of_a_command_is_one_line_and_its_hint(scene: Scene) -> None:
    with opened(scene) as chat:
        assert chat.do("/model nobody:x") == NextStep()
        assert len(chat.paper.lines) in (1, 2)


def test_the_cost_of_the_conversation_comes_before_that_of_all(scene: Scene) -> None:
    with opened(scene) as chat:
        chat.do("/cost")
        assert "this conversation: nothing was asked of a model" in chat.paper.text
        chat.agent.spent = chat.agent.spent._replace(
            requests=2, input=12_345, output=950, cached=8_000, dollars=0.0421
        )
        chat.do("/cost")
        assert "12.3k tokens in (8.0k cached), 950 out · $0.04" in chat.paper.text
        chat.do("/cost --days 7")
        assert chat.ran == [["cost"], ["cost"], ["cost", "--days", "7"]]


@pytest.mark.parametrize(("line", "number"), [("/expand", 1), ("/expand 3", 3), ("/expand x", 1), ("/expand ³", 1)])
def test_a_call_is_shown_in_full(scene: Scene, line: str, number: int) -> None:
    with opened(scene) as chat:
        chat.do(line)
        assert chat.paper.expanded == [number]


def test_help_names_every_command_and_the_keys(scene: Scene) -> None:
    with opened(scene) as chat:
        chat.do("/help")
        for name, command in COMMANDS.items():
            assert f"/{name}" in chat.paper.text
            assert command.help in chat.paper.text
        assert "Alt-Enter" in chat.paper.text
        assert max(map(len, chat.paper.lines)) <= 110


@pytest.mark.parametrize("line", ["/exit", "/quit", "/EXIT"])
def test_one_can_leave(scene: Scene, line: str) -> None:
    with opened(scene) as chat:
        assert chat.do(line) == NextStep(leave=True)


def test_a_conversation_that_is_short_is_not_made_shorter(scene: Scene) -> None:
    with opened(scene) as chat:
        chat.do("/compact")
        assert chat.paper.lines


@pytest.mark.parametrize(
    ("text", "found"),
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
def test_what_may_stand_there_is_completed(scene: Scene, text: str, found: list[str]) -> None:
    with opened(scene) as chat:
        assert chat.commands.candidates(text) == found


def test_every_command_is_there_and_takes_nothing_for_an_answer(scene: Scene) -> None:
    with opened(scene) as chat:
        for name in COMMANDS:
            chat.do(f"/{name}")  # no error of ours


def test_odd_lines_are_split_without_a_mistake() -> None:
    for line in ("", "/", "/ ", "//", "\x00", "/\n", "/🙂"):
        split(line)
