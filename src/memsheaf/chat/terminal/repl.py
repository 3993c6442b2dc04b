"""The read-eval-print loop of the chat."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing

from memsheaf.chat.events import Event, Failed, TurnEnded
from memsheaf.chat.permissions import PermissionRequest
from memsheaf.chat.terminal.line_editor import Reader, interrupted_once, keys, without_echo
from memsheaf.chat.terminal.screen import JsonScreen, OutputClosed, Screen
from memsheaf.chat.terminal.slash import Commands, NextStep, render_cost
from memsheaf.errors import MemsheafError
from memsheaf.guard.secrets import without_secrets
from memsheaf.text.neutralize import one_line
from memsheaf.values import NamedTuple

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from memsheaf.chat.agent import Agent

LEARNED_WITHIN = 0.3
"""Seconds after an answer in which what is learned of it stands in the same line."""

LAST_WAIT = 60.0
"""Seconds that the end of a chat waits for what is being learned."""

DETAIL_LINES = 16
CHOICE = "y once, a always, n no, N never"
_ANSWERS = {"y": "once", "a": "always", "n": "no", "N": "never"}


class TurnOutcome(NamedTuple):
    """How a turn went."""

    failed: bool = False
    stopped: bool = False


def take_turn(
    agent: Agent, screen: Screen | JsonScreen, message: str, *, ignore: bool = False, wait: float = LEARNED_WITHIN
) -> TurnOutcome:
    """Have a message answered and drawn; a failure is told. Ctrl-C stops the turn and is not passed on.

    Raises:
        OutputClosed: there is nowhere to draw it.
    """
    last: Event | None = None
    failed = False
    turn = agent.turn(message, ignore=ignore)
    try:
        with screen.working(), closing(turn):
            for event in turn:
                screen.draw(event)
                failed = failed or isinstance(event, Failed)
                last = event
    except OutputClosed:
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - other people's clients and tools; the chat goes on
        last = _broken_off(error)
        failed = isinstance(last, Failed)
        screen.draw(last)
    ended = last if isinstance(last, TurnEnded) else None
    screen.memory(ended, agent.learned(wait))
    for line in agent.asides():
        screen.note(line)
    return TurnOutcome(failed, bool(ended and ended.interrupted))


def _broken_off(error: BaseException) -> TurnEnded | Failed:
    """How a turn ended that was broken off: stopped, also when Ctrl-C came again while it stopped, or failed."""
    if isinstance(error, KeyboardInterrupt) or isinstance(error.__context__, KeyboardInterrupt):
        return TurnEnded("", interrupted=True)
    if isinstance(error, MemsheafError):
        return Failed(without_secrets(str(error)), error.hint)
    why = without_secrets(f"{type(error).__name__}: {error}")
    return Failed(f"the turn failed: {why}", "Nothing that was said is lost.")


class Repl:
    """A chat at a terminal."""

    def __init__(self, agent: Agent, screen: Screen, stdin: TextIO) -> None:
        self._agent = agent
        self._screen = screen
        self._stdin = stdin
        self._news: list[str] = []
        self.commands: Commands | None = None

    def run(self, reader: Reader, commands: Commands) -> None:
        """Read and answer until the user leaves."""
        self.commands = commands
        interrupted = 0
        while True:
            try:
                if interrupted > 1:
                    self._screen.note("Ctrl-D or /exit leaves")
                text = reader.read()
                interrupted = 0
                if text.strip() and not self._goes_on(commands, text, shows_status=reader.shows_status):
                    break
            except KeyboardInterrupt:  # at the prompt, or in a moment when nobody else heard it
                interrupted += 1
            except EOFError:
                break
        self._leave()

    def _goes_on(self, commands: Commands, text: str, *, shows_status: bool) -> bool:
        try:
            then = commands.do(text)
        except KeyboardInterrupt:
            self._screen.note("stopped")
            return True
        if then.leave:
            return False
        if then.message:
            self._answer(then)
            if not shows_status and (render_cost(self._agent) or self._agent.permission.planning):
                self._screen.note(self.status())
        return True

    def _answer(self, then: NextStep) -> None:
        with without_echo(self._stdin), interrupted_once():
            try:
                take_turn(self._agent, self._screen, then.message, ignore=then.ignore)
            except KeyboardInterrupt:  # once more, after the turn was stopped
                with self._screen.interlude():
                    pass

    def _leave(self) -> None:
        try:
            if self._agent.busy():
                self._screen.note("learning from what was said; Ctrl-C leaves it for later")
            self._screen.memory(None, self._agent.learned(LAST_WAIT))
        except KeyboardInterrupt:
            self._screen.note("left for later")

    # what a reader asks meanwhile

    def complete(self, text: str) -> list[str]:
        """What may stand for the last word of a text."""
        try:
            return self.commands.candidates(text) if self.commands else []
        except MemsheafError:  # no completion is worth a word
            return []

    def status(self) -> str:
        """Who answers, where is remembered, and what it cost so far."""
        agent = self._agent
        parts = [agent.talker.name, agent.scope, render_cost(agent), "plan mode" if agent.permission.planning else ""]
        return " · ".join(one_line(part, 60) for part in parts if part)

    def has_news(self) -> bool | None:
        """Whether something was learned meanwhile; None when nothing more can come."""
        is_busy = self._agent.busy()
        self._news += self._agent.learned()
        return bool(self._news) or (False if is_busy else None)

    def tell_news(self) -> None:
        """Print what was learned meanwhile."""
        news, self._news = self._news, []
        self._screen.memory(None, news)

    def expand(self) -> None:
        """Show the last tool call in full."""
        self._screen.expand()


class PermissionPrompt:
    """Puts to the user what a tool wants to do, and gives the answer that `Permission` wants."""

    def __init__(self, screen: Screen, keys: Callable[[], AbstractContextManager[Callable[[], str]]]) -> None:
        self._screen = screen
        self._keys = keys

    def __call__(self, wish: PermissionRequest) -> str:
        """Ask until one of the keys is pressed; Ctrl-C and Ctrl-D are no."""
        style = _of_a_diff if wish.reach == "write" else _plain
        line = f"outside the working directory: {wish.line}" if wish.outside else wish.line
        most = DETAIL_LINES
        with self._screen.interlude(), self._keys() as pressed:
            while True:
                try:
                    self._screen.ask(line, wish.detail, CHOICE, style=style, most=most)
                    key = pressed()
                except KeyboardInterrupt:
                    key = ""
                if not key or key in _ANSWERS:
                    answer = _ANSWERS.get(key, "no")
                    self._screen.answered(answer)
                    return answer
                self._screen.answered("")
                most = 0 if key == "d" else most


def _of_a_diff(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "cyan"
    return "green" if line.startswith("+") else "red" if line.startswith("-") else ""


def _plain(line: str) -> str:
    return ""


def render_greeting(agent: Agent, counts: Iterable[tuple[str, int]]) -> list[str]:
    """The first screen: what this is, who answers, what is remembered, and where help is."""
    name = agent.talker.name
    if name == "offline":
        who = "no model: offline mode keeps and finds memories and answers from them; --model NAME has one answer"
    else:
        who = f"model: {name}"
    remembered = ", ".join(f"{scope} ({count:,})" for scope, count in counts)
    return [
        "memsheaf chat, an agent that remembers",
        who,
        f"memories: {remembered}",
        "/help lists the commands; Ctrl-D leaves",
    ]


def permission_prompt(screen: Screen, stdin: TextIO) -> PermissionPrompt:
    """Somebody who asks at a terminal."""
    return PermissionPrompt(screen, lambda: keys(stdin))
