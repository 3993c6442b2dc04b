"""The read-eval-print loop of the chat: messages in, turns out, and the one key that answers a question."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.styles import Style

from memsheaf.chat.agent import Agent
from memsheaf.chat.conversations import InputHistory
from memsheaf.chat.events import Event, Failed, TurnEnded
from memsheaf.chat.permissions import PermissionRequest
from memsheaf.chat.screen import JsonScreen, Screen, describe_memory
from memsheaf.chat.slash import Commands, describe_cost
from memsheaf.errors import MemsheafError
from memsheaf.guard.secrets import without_secrets
from memsheaf.text.neutralize import one_line

if sys.platform != "win32":
    import termios

LEARNED_WITHIN_SECONDS = 0.3  # after an answer, in which what was learned is shown below it
MAX_LEARNING_SECONDS = 60.0  # that the end of a chat waits for what is being learned
PROMPT = "> "
MAX_DETAIL_LINES = 16
KEYS = {"y": "once", "a": "always", "n": "no", "N": "never", "d": "details", "c-c": "no", "c-d": "no"}


def take_turn(
    agent: Agent, screen: Screen | JsonScreen, message: str, *, wait: float = LEARNED_WITHIN_SECONDS
) -> TurnEnded | None:
    """Answer a message and draw it; None when it failed, which is drawn, too."""
    failures: list[Failed] = []

    def draw(event: Event) -> None:
        screen.draw(event)
        if isinstance(event, Failed):
            failures.append(event)

    if isinstance(screen, Screen):
        screen.is_verbatim = agent.model is None
    try:
        with screen.working():
            ended = agent.turn(message, draw)
    except BrokenPipeError:
        raise
    except MemsheafError as error:
        draw(Failed(without_secrets(str(error)), error.hint))
        return None
    except Exception as error:  # noqa: BLE001 - other people's clients and tools; the chat goes on
        line = without_secrets(f"the turn failed: {type(error).__name__}: {error}")
        draw(Failed(line, "Nothing that was said is lost."))
        return None
    tell_learned(agent, screen, ended if agent.model else None, wait)
    return None if failures else ended


def tell_learned(agent: Agent, screen: Screen | JsonScreen, ended: TurnEnded | None, wait: float = 0.0) -> None:
    """Print what memory did in a turn, and what was learned behind it."""
    learning = agent.memory.learning
    learning.distiller.wait(wait)
    names, lines = learning.collect()
    if isinstance(screen, JsonScreen):
        if names:
            screen.print({"event": "learned", "names": names})
    elif line := describe_memory(ended, names):
        screen.note(line)
    for line in lines:
        screen.note(line)


class Repl(Completer):
    """A chat at a terminal."""

    def __init__(self, agent: Agent, screen: Screen, commands: Commands, history: InputHistory) -> None:
        self._agent = agent
        self._screen = screen
        self._commands = commands
        self._history = history
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            history=InMemoryHistory(history.all()),
            completer=self,
            multiline=True,
            prompt_continuation=" " * len(PROMPT),
            key_bindings=self._bind_keys(),
            bottom_toolbar=self.status,
            style=Style.from_dict({"bottom-toolbar": "noreverse dim", "bottom-toolbar.text": "dim"}),
            enable_suspend=True,
        )

    def run(self, first: str = "") -> None:
        """Answer the first message, if there is one, and then what is typed, until the user leaves."""
        if first:
            self._screen.say(f"{PROMPT}{first}")
        count_interrupts = 0
        while True:
            try:
                tell_learned(self._agent, self._screen, None)
                if count_interrupts > 1:
                    self._screen.note("Ctrl-D or /exit leaves")
                typed = first or self._session.prompt()
                first = ""
                count_interrupts = 0
                if not self._answer(typed.encode("utf-8", "replace").decode()):  # half characters were no UTF-8
                    break
            except KeyboardInterrupt:
                count_interrupts += 1
            except EOFError:
                break
        self._finish()

    def _answer(self, text: str) -> bool:
        """Answer a message or do a command; False when the user leaves."""
        if not text.strip():
            return True
        self._history.add(text, self._agent.memory.session.privacy)
        step = self._commands.do(text)
        if step.message:
            with without_echo():
                take_turn(self._agent, self._screen, step.message)
        return not step.leaves

    def _finish(self) -> None:
        """Wait for what is being learned."""
        try:
            if self._agent.memory.learning.distiller.is_busy:
                self._screen.note("learning from what was said; Ctrl-C leaves it for later")
            tell_learned(self._agent, self._screen, None, MAX_LEARNING_SECONDS)
        except KeyboardInterrupt:
            self._screen.note("left for later")

    def status(self) -> str:
        """Return who answers, where is remembered, and what it cost so far."""
        agent = self._agent
        plan = "plan mode" if agent.permission.planning else ""
        parts = [agent.model_name, agent.scope, describe_cost(agent), plan]
        return " · ".join(one_line(part, 60) for part in parts if part)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield what may stand for the word at the cursor of a slash command."""
        text = document.text_before_cursor
        with suppress(MemsheafError):
            for candidate in self._commands.list_candidates(text):
                yield Completion(candidate, start_position=-len(text.split(" ")[-1]))

    def _bind_keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter", eager=True)
        def send(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("c-j", eager=True)
        @keys.add("escape", "enter", eager=True)
        def begin_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-o", eager=True)
        def show_call(event: KeyPressEvent) -> None:
            run_in_terminal(self._screen.expand)

        return keys


def describe_greeting(agent: Agent, counts: Iterable[tuple[str, int]]) -> list[str]:
    """Return the first screen: who answers, what is remembered, and where help is."""
    who = f"model: {agent.model_name}"
    if agent.model is None:
        who = "no model: offline; --model NAME starts with a model"
    remembered = ", ".join(f"{scope} ({count:,})" for scope, count in counts)
    return [
        "memsheaf chat, an agent that remembers",
        who,
        f"memories: {remembered}",
        "/help lists the commands; Ctrl-D leaves",
    ]


class PermissionPrompt:
    """Puts to the user what a tool wants to do, and returns the answer that `Permission` expects."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def __call__(self, wish: PermissionRequest) -> str:
        """Ask until one of the keys is pressed; Ctrl-C and Ctrl-D are no."""
        line = f"outside the working directory: {wish.line}" if wish.outside else wish.line
        max_lines = MAX_DETAIL_LINES
        with self._screen.interlude():
            while True:
                left = self._screen.ask(line, wish.detail, is_diff=wish.reach == "write", max_lines=max_lines)
                more = f" (d shows {left:,} more lines)" if left else ""
                answer = read_key(f"y once, a always, n no, N never?{more} ")
                if answer != "details":
                    self._screen.note(answer)
                    return answer
                max_lines = 0


def read_key(question: str) -> str:
    """Return the meaning of the key that is pressed. What was typed before, or is pasted, is no answer."""
    keys = KeyBindings()

    @keys.add(Keys.Any, eager=True)
    @keys.add(Keys.BracketedPaste, eager=True)
    @keys.add("enter", eager=True)
    def ignore(event: KeyPressEvent) -> None:
        """Wait for one of the keys."""

    for key, meaning in KEYS.items():

        @keys.add(key, eager=True)
        def answer(event: KeyPressEvent, meaning: str = meaning) -> None:
            together = [press.key for press in event.key_processor.input_queue]
            if all(each in ("c-m", "c-j", Keys.CPRResponse) for each in together):  # else it is pasted
                event.app.exit(result=meaning)

    session: PromptSession[str] = PromptSession(question, key_bindings=keys)
    clear_typeahead(session.input)
    if sys.platform != "win32":
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    answered = session.prompt(in_thread=True)
    clear_typeahead(session.input)
    return answered


@contextmanager
def without_echo() -> Iterator[None]:
    """Let what is typed meanwhile not stand in the middle of an answer; it is there at the next prompt."""
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
