"""The read-eval-print loop of the chat: messages in, turns out, and the one key that answers a question.

With `pip install 'memsheaf[chat]'` messages are edited with prompt_toolkit; otherwise `input` reads plain lines.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import NamedTuple, Protocol, TextIO

from memsheaf.chat.agent import Agent
from memsheaf.chat.conversations import InputHistory
from memsheaf.chat.permissions import PermissionRequest
from memsheaf.chat.terminal.screen import JsonScreen, OutputClosed, Screen
from memsheaf.chat.terminal.slash import Commands, NextStep, render_cost
from memsheaf.chat.turn import Event, Failed, TurnEnded
from memsheaf.errors import MemsheafError
from memsheaf.guard.secrets import without_secrets
from memsheaf.text.neutralize import one_line

if sys.platform != "win32":
    import termios
    import tty


LEARNED_WITHIN = 0.3  # seconds after an answer in which what was learned is shown on the same line
LAST_WAIT = 60.0  # seconds that the end of a chat waits for what is being learned
PROMPT = "> "
DETAIL_LINES = 16
CHOICE = "y once, a always, n no, N never"
_ANSWERS = {"y": "once", "a": "always", "n": "no", "N": "never"}
_AT_ONCE = 1_024  # bytes of what is pasted into a question
_STOPS_WITHIN = 1.0  # seconds that a turn has to stop in, before Ctrl-C is taken again
_TOGETHER = 0.03  # seconds between characters that nobody types one by one


class TurnOutcome(NamedTuple):
    """How a turn went."""

    failed: bool = False
    stopped: bool = False


def take_turn(
    agent: Agent, screen: Screen | JsonScreen, message: str, *, ignore: bool = False, wait: float = LEARNED_WITHIN
) -> TurnOutcome:
    """Answer a message and print it, or the failure. Ctrl-C stops the turn and is not passed on.

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


class Reader(Protocol):
    """Reads messages. `shows_status` says whether the status stands on the screen meanwhile."""

    shows_status: bool

    def read(self) -> str:
        """The next message. Raises EOFError at the end, KeyboardInterrupt for Ctrl-C."""


class Repl:
    """A chat at a terminal."""

    def __init__(self, agent: Agent, screen: Screen, stdin: TextIO, commands: Commands) -> None:
        self._agent = agent
        self._screen = screen
        self._stdin = stdin
        self._commands = commands
        self._news: list[str] = []
        self._asides: list[str] = []

    def run(self, reader: Reader, history: InputHistory | None = None, *, first: str = "") -> None:
        """Answer the first message, if there is one, and then what is typed, until the user leaves."""
        interrupted = 0
        if first:
            self._screen.say(f"{PROMPT}{first}")
        while True:
            try:
                if interrupted > 1:
                    self._screen.note("Ctrl-D or /exit leaves")
                # bytes that are no UTF-8 are half characters
                text = (first or reader.read()).encode("utf-8", "replace").decode()
                first = ""
                interrupted = 0
                if text.strip() and history:
                    history.add(text, self._agent.memory.session.privacy)
                if text.strip() and not self._goes_on(text, shows_status=reader.shows_status):
                    break
            except KeyboardInterrupt:  # at the prompt, or in a moment when nobody else heard it
                interrupted += 1
            except EOFError:
                break
        try:
            if self._agent.busy():
                self._screen.note("learning from what was said; Ctrl-C leaves it for later")
            self._news += self._agent.learned(LAST_WAIT)
            self._asides += self._agent.asides()
            self.tell_news()
        except KeyboardInterrupt:
            self._screen.note("left for later")

    def _goes_on(self, text: str, *, shows_status: bool) -> bool:
        try:
            then = self._commands.do(text)
        except KeyboardInterrupt:
            self._screen.note("stopped")
            return True
        if then.message:
            self._answer(then)
            if not shows_status and (render_cost(self._agent) or self._agent.permission.planning):
                self._screen.note(self.status())
        return not then.leave

    def _answer(self, then: NextStep) -> None:
        with without_echo(self._stdin), interrupted_once():
            try:
                take_turn(self._agent, self._screen, then.message, ignore=then.ignore)
            except KeyboardInterrupt:  # once more, after the turn was stopped
                with self._screen.interlude():
                    pass

    def complete(self, text: str) -> list[str]:
        """What may stand for the last word of a text."""
        try:
            return self._commands.candidates(text)
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
        self._asides += self._agent.asides()
        return bool(self._news or self._asides) or (False if is_busy else None)

    def tell_news(self) -> None:
        """Print what was learned meanwhile, and what else came of it."""
        news = self._news
        asides = self._asides
        self._news = []
        self._asides = []
        self._screen.memory(None, news)
        for line in asides:
            self._screen.note(line)

    def expand(self) -> None:
        """Show the last tool call in full."""
        self._screen.expand()


def render_greeting(agent: Agent, counts: Iterable[tuple[str, int]]) -> list[str]:
    """The first screen: what this is, who answers, what is remembered, and where help is."""
    who = f"model: {agent.talker.name}"
    if agent.talker.name == "offline":
        who = "no model: offline mode keeps, finds and answers from memories; --model NAME starts with a model"
    remembered = ", ".join(f"{scope} ({count:,})" for scope, count in counts)
    return [
        "memsheaf chat, an agent that remembers",
        who,
        f"memories: {remembered}",
        "/help lists the commands; Ctrl-D leaves",
    ]


class PlainReader:
    """Reads a line with `input`; where the interpreter has readline, with what was typed before."""

    shows_status = False

    def __init__(self, history: InputHistory, repl: Repl) -> None:
        self._repl = repl
        with suppress(ImportError):  # Windows has none
            import readline

            for text in history.all():
                readline.add_history(text)

    def read(self) -> str:
        """The next message; news that arrived meanwhile are printed before it."""
        if self._repl.has_news():
            self._repl.tell_news()
        try:
            return input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            print()
            raise


class PermissionPrompt:
    """Puts to the user what a tool wants to do, and gives the answer that `Permission` wants."""

    def __init__(self, screen: Screen, keys: Callable[[], AbstractContextManager[Callable[[], str]]]) -> None:
        self._screen = screen
        self._keys = keys

    def __call__(self, wish: PermissionRequest) -> str:
        """Ask until one of the keys is pressed; Ctrl-C and Ctrl-D are no."""
        line = f"outside the working directory: {wish.line}" if wish.outside else wish.line
        most = DETAIL_LINES
        with self._screen.interlude(), self._keys() as pressed:
            while True:
                try:
                    self._screen.ask(line, wish.detail, CHOICE, is_diff=wish.reach == "write", most=most)
                    key = pressed()
                except KeyboardInterrupt:
                    key = ""
                if not key or key in _ANSWERS:
                    answer = _ANSWERS.get(key, "no")
                    self._screen.answered(answer)
                    return answer
                self._screen.answered("")
                most = 0 if key == "d" else most


@contextmanager
def read_keys(stdin: TextIO) -> Iterator[Callable[[], str]]:
    """Read single keys; "" at the end of input.

    What was typed before is thrown away: it is no answer to what is asked now. Several characters at once, such as
    what is pasted, come as they are, and are no key.
    """
    if sys.platform == "win32":
        yield input
        return
    terminal = stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSAFLUSH)
    try:
        yield lambda: _pressed(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def _pressed(terminal: int) -> str:
    data = os.read(terminal, _AT_ONCE)
    while data and len(data) < _AT_ONCE and select.select([terminal], [], [], _TOGETHER)[0]:
        if not (more := os.read(terminal, _AT_ONCE)):
            break
        data += more
    text = data.decode("utf-8", "replace")
    return "" if text == "\x04" else text.rstrip("\r\n") or text


@contextmanager
def without_echo(stdin: TextIO) -> Iterator[None]:
    """Let what is typed meanwhile not stand in the middle of an answer; it is there at the next prompt, as typed."""
    if sys.platform == "win32" or not stdin.isatty():
        yield
        return
    terminal = stdin.fileno()
    before = termios.tcgetattr(terminal)
    quiet = [before[0] & ~termios.ICRNL, *before[1:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(terminal, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, before)


@contextmanager
def interrupted_once(*, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Handle Ctrl-C once while something stops: a second one would interrupt the cleanup."""
    heard = clock() - _STOPS_WITHIN

    def hear() -> None:
        nonlocal heard
        if (now := clock()) - heard >= _STOPS_WITHIN:
            heard = now
            raise KeyboardInterrupt

    with on_interrupt(hear):
        yield


@contextmanager
def on_interrupt(call: Callable[[], None]) -> Iterator[None]:
    """Call this for Ctrl-C; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: call())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)
