"""Terminal input: messages, and the one key that answers a question.

With `pip install 'memsheaf[chat]'` messages are edited with prompt_toolkit; otherwise `input` reads plain lines.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from memsheaf.chat.conversations import InputHistory
from memsheaf.values import Protocol

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

PROMPT, CONTINUED = "> ", "  "
NEWS_EVERY = 0.2
_MENU = 6  # lines of completions
_AT_ONCE = 1_024  # bytes of what is pasted into a question
_STOPS_WITHIN = 1.0  # seconds that a turn has to stop in, before Ctrl-C is taken again
_TOGETHER = 0.03  # seconds between characters that nobody types one by one


class Prompter(Protocol):
    """What a reader asks while it waits for somebody to type."""

    def complete(self, text: str) -> list[str]:
        """What may stand for the last word of a text."""
        ...

    def status(self) -> str:
        """One line about where things stand."""
        ...

    def tell_news(self) -> None:
        """Print what has come in meanwhile."""
        ...

    def has_news(self) -> bool | None:
        """Whether there is something to tell; None when nothing more can come."""
        ...

    def expand(self) -> None:
        """Show the last tool call in full."""
        ...


class Reader(Protocol):
    """Reads messages. `shows_status` says whether the status stands on the screen meanwhile."""

    shows_status: bool

    def read(self) -> str:
        """The next message. Raises EOFError at the end, KeyboardInterrupt for Ctrl-C."""
        ...


def open_reader(history: InputHistory, prompter: Prompter, environment: Mapping[str, str]) -> Reader:
    """The best reader there is here."""
    if environment.get("TERM", "dumb") != "dumb" or os.name == "nt":
        with suppress(ImportError):
            return FullReader(history, prompter)
    return PlainReader(history, prompter)


class FullReader:
    """Reads with prompt_toolkit: several lines, a status line, completion, news above it. Raises ImportError."""

    shows_status = True

    def __init__(self, history: InputHistory, prompter: Prompter) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.history import InMemoryHistory
        from prompt_toolkit.styles import Style

        self._history = history
        self._prompter = prompter
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            history=InMemoryHistory(list(history.all())),
            completer=_completer(prompter.complete),
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith("/")),
            reserve_space_for_menu=_MENU,
            multiline=True,
            prompt_continuation=CONTINUED,
            key_bindings=_bindings(prompter.expand, lambda: time.monotonic() - self._changed < _TOGETHER),
            bottom_toolbar=prompter.status,
            style=Style.from_dict({"bottom-toolbar": "noreverse dim", "bottom-toolbar.text": "dim"}),
            enable_suspend=True,
        )
        self._changed = 0.0
        self._session.default_buffer.on_text_changed += self._note_change

    def read(self) -> str:
        """The next message; what comes in meanwhile is told above it."""
        with _on_interrupt(lambda: None):  # it reads Ctrl-C itself, and is not interrupted while it begins to
            text = _whole(self._session.prompt(pre_run=self._begin))
        if text.strip():
            self._history.add(text)
        return text

    def _note_change(self, buffer: object) -> None:
        self._changed = time.monotonic()

    def _begin(self) -> None:
        if self._prompter.has_news() is not None:
            self._session.app.create_background_task(self._tell())

    async def _tell(self) -> None:
        import asyncio

        from prompt_toolkit.application import run_in_terminal

        while (news := self._prompter.has_news()) is not None:
            if news:
                await run_in_terminal(self._prompter.tell_news)
            await asyncio.sleep(NEWS_EVERY)


class PlainReader:
    """Reads a line with `input`; where the interpreter has readline, with what was typed before."""

    shows_status = False

    def __init__(self, history: InputHistory, prompter: Prompter) -> None:
        self._history = history
        self._prompter = prompter
        with suppress(ImportError):  # Windows has none
            import readline

            for text in history.all():
                readline.add_history(text)

    def read(self) -> str:
        """The next message; what came in meanwhile is told before it."""
        if self._prompter.has_news():
            self._prompter.tell_news()
        try:
            text = _whole(input(PROMPT))
        except (EOFError, KeyboardInterrupt):
            print()
            raise
        if text.strip():
            self._history.add(text)
        return text


def _whole(text: str) -> str:
    """Without half characters, which bytes that are no UTF-8 become."""
    return text.encode("utf-8", "replace").decode()


def _completer(complete: Callable[[str], list[str]]) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class Words(Completer):
        def get_completions(self, document: Any, complete_event: object) -> Iterator[Completion]:
            text = document.text_before_cursor
            word = text.split(" ")[-1]
            for found in complete(text):
                yield Completion(found, start_position=-len(word))

    return Words()


def _bindings(expand: Callable[[], None], is_typing: Callable[[], bool]) -> Any:
    """Enter sends; Alt-Enter, Ctrl-J and a backslash before Enter begin a new line; Ctrl-O shows the last call.

    A program that types ends its lines with Ctrl-J, too, but in one go with what stands before it: `is_typing`.
    """
    from prompt_toolkit.application import run_in_terminal
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter", eager=True)
    def send(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("c-j", eager=True)
    def line_feed(event: Any) -> None:
        if is_typing() and not event.key_processor.input_queue:
            send(event)
        else:
            new_line(event)

    @keys.add("escape", "enter", eager=True)
    def new_line(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-o", eager=True)
    def show(event: Any) -> None:
        run_in_terminal(expand)

    return keys


@contextmanager
def without_echo(stdin: TextIO) -> Iterator[None]:
    """Let what is typed meanwhile not stand in the middle of an answer; it is there at the next prompt."""
    try:
        import termios
    except ImportError:
        yield
        return
    try:
        terminal = stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (OSError, ValueError, termios.error):
        yield
        return
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(terminal, termios.TCSANOW, before)


@contextmanager
def interrupted_once(*, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Hear Ctrl-C once while something stops: whoever presses it again at once would break into the tidying up."""
    heard = clock() - _STOPS_WITHIN

    def hear() -> None:
        nonlocal heard
        if (now := clock()) - heard >= _STOPS_WITHIN:
            heard = now
            raise KeyboardInterrupt

    with _on_interrupt(hear):
        yield


@contextmanager
def _on_interrupt(call: Callable[[], None]) -> Iterator[None]:
    """Call this for Ctrl-C; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, frame: call())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)


@contextmanager
def keys(stdin: TextIO) -> Iterator[Callable[[], str]]:
    """What reads one key after the other; "" when there is none any more.

    What was typed before is thrown away: it is no answer to what is asked now. Several characters at once, such as
    what is pasted, come as they are, and are no key.
    """
    try:
        import termios
        import tty
    except ImportError:
        yield _keys_of_windows()
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


def _keys_of_windows() -> Callable[[], str]:
    import msvcrt

    while msvcrt.kbhit():  # type: ignore[attr-defined]
        msvcrt.getwch()  # type: ignore[attr-defined]

    def pressed() -> str:
        key = str(msvcrt.getwch())  # type: ignore[attr-defined]
        if key == "\x03":
            raise KeyboardInterrupt
        return "" if key in ("\x04", "\x1a") else key

    return pressed
