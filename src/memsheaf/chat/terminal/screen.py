"""Output of a turn: for a person at a terminal, as plain text for a pipe, as JSON for a program.

Whatever a model, a tool or a memory says passes `for_terminal` here, piece by piece while it streams.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from textwrap import TextWrapper
from typing import TYPE_CHECKING, TextIO

from memsheaf.chat.turn import Called, Calling, Event, Failed, Notice, Text, TurnEnded, as_json
from memsheaf.memory import plural
from memsheaf.text.neutralize import SafeStream, columns, for_terminal, one_line

if TYPE_CHECKING:
    from memsheaf.chat.terminal.markdown import MarkdownBlocks

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}
KEPT_CALLS = 200
_SIGN = "…"  # something goes on
_ANSWER = 60  # columns of a tool's answer that stand in its line
_WORTH_TELLING = 0.1  # seconds that a call takes
_NAMES = 5  # memories that are named in one line

_STYLE_OF_CHANGE = {"+": "green", "-": "red", "@": "cyan"}


class OutputClosed(Exception):
    """The screen cannot be written to; without a message, because its reader has had enough."""


class WrappedLines:
    """Plain text that comes in pieces, shown line by line, broken between words."""

    tail = ""  # nothing is shown for the time being

    def __init__(self, fill: Callable[[str], str]) -> None:
        self._fill = fill
        self._line = ""

    def piece(self, text: str) -> str:
        """Return the lines that the next piece completes."""
        *lines, self._line = (self._line + text).split("\n")
        return "".join(f"{self._fill(line)}\n" for line in lines)

    def rest(self) -> str:
        """Return the last line, at the end."""
        line = self._line
        self._line = ""
        return self._fill(line)


class Screen:
    """Where a turn is drawn. A `live` one is a terminal with a person before it: all stands in one column of text.

    Otherwise the answer alone goes to `out`, and all else to `err`. On a terminal, text is `wrapped` at words, and
    answers are rendered as `markdown` where rich is installed.
    """

    def __init__(
        self,
        out: TextIO,
        err: TextIO,
        *,
        live: bool = False,
        colour: bool = False,
        width: Callable[[], int] = lambda: 80,
        wrapped: bool = False,
        markdown: bool = False,
    ) -> None:
        self.out = out
        self.live = live
        self.calls: list[tuple[Calling, Called | None]] = []
        self.width = width
        self._err = err
        self._colour = colour
        self._flow = SafeStream()
        self._wrapped = wrapped
        self._markdown = markdown
        self._layout: WrappedLines | MarkdownBlocks | None = None  # of what is being said
        self._column = 0
        self._aside = False
        self._open = ""  # the call whose line is not finished yet
        self._is_working = False
        self._sign = ""  # what stands at the start of the line for the time being

    @contextmanager
    def working(self) -> Iterator[None]:
        """Show at the start of a line that something goes on, while it does."""
        self._is_working = self.live and self.out.isatty()
        self._show_sign()
        try:
            yield
        finally:
            self._is_working = False
            self._erase_sign()

    @contextmanager
    def interlude(self) -> Iterator[None]:
        """Let something else be said in the middle of a turn, from the start of a line."""
        self._erase_sign()
        self._end_line()
        self._open = ""
        yield

    def draw(self, event: Event) -> None:
        """Draw what happened."""
        if isinstance(event, Text):
            self._text(event)
        elif isinstance(event, Calling):
            self._calling(event)
        elif isinstance(event, Called):
            self._called(event)
        elif isinstance(event, Notice):
            self.note(event.line, event.hint)
        elif isinstance(event, Failed):
            self.note(event.line, event.hint, style="red")
        elif isinstance(event, TurnEnded):
            self._end_text()
            self._end_line()
            self._open = ""
            if event.interrupted:
                self.note("stopped")
        self._show_sign()

    def say(self, text: str = "", style: str = "") -> None:
        """Print a whole line, or several, of our own."""
        self._end_line()
        self._put("\n".join(self.styled(line, style) for line in self._broken(for_terminal(text)).split("\n")) + "\n")

    def note(self, line: str, hint: str = "", style: str = "dim") -> None:
        """Tell something that is no part of an answer."""
        self._end_line()
        self._aside_line(one_line(line, 2_000), style)
        for one in hint.split("\n") if hint else ():
            self._aside_line(one, "dim")

    def memory(self, ended: TurnEnded | None, learned: Sequence[str] = ()) -> None:
        """Say in one line what memory did: what was recalled in a turn, and what was learned behind it."""
        if line := memory_line(ended, learned):
            self.note(line)

    def expand(self, number: int = 1) -> None:
        """Show a call with its arguments and its answer in full, the last one or an earlier one."""
        if not 0 < number <= len(self.calls):
            self.note(f"there are {len(self.calls)} calls to show" if self.calls else "no tool was called yet")
            return
        calling, called = self.calls[-number]
        self.say(f"· {calling.line or calling.tool}", "bold")
        for name, value in calling.arguments.items():
            text = value if isinstance(value, str) else repr(value)
            self.say(f"{name}: {text}" if "\n" not in text else f"{name}:\n{text}", "dim")
        self.say(called.answer if called else "(no answer)")

    def ask(self, line: str, detail: str, keys: str, *, is_diff: bool = False, most: int = 0) -> None:
        """Draw a question: what is wanted, all of it behind a rule at the left, and which keys there are.

        Nothing in the detail can stand at the left margin, also where a line is longer than the screen. Of a detail
        that takes many more lines than `most`, only so many are drawn, and one of the keys shows all.
        """
        room = max(self.width() - 3, 20)
        first, *more = wrap_line(one_line(line, 4 * room), room)
        lines = for_terminal(detail).rstrip("\n").split("\n") if detail.strip() else []
        rows = [
            (part, _STYLE_OF_CHANGE.get(each[:1], "") if is_diff else "")
            for each in lines
            for part in wrap_line(each.expandtabs(4), room)
        ]
        left = len(rows) - most if most and len(rows) > most + 2 else 0
        self.say(first, "bold")
        for part, its_style in [*((part, "bold") for part in more), *rows[: len(rows) - left]]:
            self._put(f"{self.styled('│', 'dim')} {self.styled(part, its_style)}\n")
        if left:
            self._put(self.styled(f"… {left:,} more lines", "dim") + "\n")
        self._put(self.styled(f"{keys}{', d shows all' if left else ''}?", "cyan") + " ")

    def answered(self, word: str) -> None:
        """Show how a question was answered."""
        self._put(f"{word}\n")

    def styled(self, text: str, style: str) -> str:
        """A text in a colour, where there are colours."""
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style and text and self._colour else text

    def _text(self, event: Text) -> None:
        if event.aside and not self.live:
            return
        if event.aside != self._aside:
            self._end_text()
            self._end_line()
        if self._open:
            self._end_line()
            self._open = ""
        self._aside = event.aside
        text = self._flow.piece(event.text)
        if self._wrapped:
            self._layout = self._layout or self._new_layout()
            text = self._layout.piece(text)
        self._put(text, style="dim" if event.aside else "")

    def _new_layout(self) -> WrappedLines | MarkdownBlocks:
        if self._markdown and not self._aside:
            with suppress(ImportError):  # an extra that is not installed
                from memsheaf.chat.terminal.markdown import MarkdownBlocks

                return MarkdownBlocks(self.width, colour=self._colour)
        return WrappedLines(self._broken)

    def _end_text(self) -> None:
        """Show what was held back of what is being said."""
        text = self._flow.rest()
        style = "dim" if self._aside else ""
        layout = self._layout
        self._layout = None
        self._put(layout.piece(text) + layout.rest() if layout else text, style=style)

    def _broken(self, text: str) -> str:
        """Return a text with its long lines broken between words."""
        if not self._wrapped:
            return text
        wrap = TextWrapper(self.width(), break_long_words=False, break_on_hyphens=False)
        return "\n".join(map(wrap.fill, text.split("\n")))

    def _calling(self, event: Calling) -> None:
        self._end_text()
        self._end_line()
        self.calls = [*self.calls[1 - KEPT_CALLS :], (event, None)]
        if self.live:
            self._put(self._call_line(event), style="dim")
            self._open = event.id

    def _called(self, event: Called) -> None:
        at = next((at for at, (each, _) in reversed(list(enumerate(self.calls))) if each.id == event.id), -1)
        said = f"— {render_outcome(event)}"
        if self._open == event.id:
            room = max(self.width() - self._column - 1, 20)
            self._put(f" {one_line(said, room - 1)}\n", style="dim")
        else:
            self._end_line()
            line = self._call_line(self.calls[at][0]) if at >= 0 else f"· {one_line(event.tool, 40)}"
            self._aside_line(f"{line} {one_line(said, 100)}", "dim")
        if at >= 0:
            self.calls[at] = (self.calls[at][0], event)
        self._open = ""

    def _call_line(self, event: Calling) -> str:
        """What a call will do, in one line with room for what comes of it; that of a second agent is indented."""
        indent = "  " * event.id.count("/")
        room = max(self.width() - 32, 24) if self.live else 200
        return f"{indent}· {one_line(for_terminal(event.line or event.tool), room)}"

    def _end_line(self) -> None:
        if self._layout:
            self._end_text()
        if self._column:
            self._put("\n")

    def _aside_line(self, text: str, style: str) -> None:
        line = for_terminal(text)
        line = "\n".join(self.styled(one, style) for one in (self._broken(line) if self.live else line).split("\n"))
        line += "\n"
        if self.live:
            self._put(line)
        else:
            with suppress(OutputClosed):  # there is nobody else to tell
                _deliver(self._err, line)

    def _put(self, text: str, style: str = "") -> None:
        """Write text that is safe, and keep count of the column it ends in."""
        if not text:
            return
        tail = text.rpartition("\n")[2] if "\n" in text else text
        column = columns(tail) + (0 if "\n" in text else self._column)
        self._erase_sign()
        self._column = column
        _deliver(self.out, "\n".join(self.styled(line, style) for line in text.split("\n")))

    def _show_sign(self) -> None:
        """Show that something goes on: the line that is being said, as far as it is there, or a sign."""
        sign = _SIGN
        if self._layout and self._layout.tail:
            *_, sign = wrap_line(self._layout.tail.expandtabs(4), max(self.width() - 1, 1))
        if self._is_working and not self._column and sign != self._sign:
            if not sign.startswith(self._sign):
                self._erase_sign()
            _deliver(self.out, sign[len(self._sign) :])
            self._sign = sign

    def _erase_sign(self) -> None:
        if self._sign:
            _deliver(self.out, "\b \b" if self._sign == _SIGN else "\r\x1b[K")
            self._sign = ""


class JsonScreen:
    """Events as JSON, one a line."""

    live = False

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def working(self) -> AbstractContextManager[object]:
        """Show nothing."""
        return nullcontext()

    def draw(self, event: Event) -> None:
        """Print one event."""
        self._print(as_json(event))

    def memory(self, ended: TurnEnded | None, learned: Sequence[str] = ()) -> None:
        """Print what was learned behind the turns."""
        if learned:
            self._print({"event": "learned", "names": list(learned)})

    def note(self, line: str, hint: str = "", style: str = "dim") -> None:
        """Print what else is to be told."""
        self.draw(Notice(line, hint))

    def say(self, text: str = "", style: str = "") -> None:
        """Print what else is to be told."""
        self.draw(Notice(text))

    def expand(self, number: int = 1) -> None:
        """Print nothing: each event was printed whole."""

    def _print(self, value: object) -> None:
        _deliver(self._out, json.dumps(value, ensure_ascii=True, default=str) + "\n")


def memory_line(ended: TurnEnded | None, learned: Sequence[str] = ()) -> str:
    """What memory did, in one line; "" when it did nothing.

    >>> memory_line(TurnEnded("", recalled=("user/a.md", "user/b.md")), ["Prefers single quotes"])
    '[memory: 2 recalled, 1 learned: Prefers single quotes]'
    """
    if ended and ended.ignored:
        return "[memory: left out of this turn]"
    names = list(dict.fromkeys((*(ended.saved if ended else ()), *learned)))
    parts = [f"{len(ended.recalled)} recalled"] if ended and ended.recalled else []
    if names:
        shown = ", ".join(one_line(name, 60) for name in names[:_NAMES]) + ", …" * (len(names) > _NAMES)
        parts.append(f"{len(names)} learned: {shown}")
    return f"[memory: {', '.join(parts)}]" if parts else ""


def render_outcome(event: Called) -> str:
    """What came of a call, in a few words: the reason when it failed, a short answer itself, else how long it is.

    >>> render_outcome(Called("1", "read", "a\\nb\\n", False, 0.41))
    '2 lines, 0.4 s'
    """
    lines = event.answer.strip().splitlines()
    if event.failed:
        why = next((line for line in lines[:1] if line.startswith("Error: ")), "".join(lines[-1:]))  # as a shell ends
        return one_line(why.removeprefix("Error: ") or "failed", 2 * _ANSWER)
    took = f", {event.seconds:.1f} s" if event.seconds >= _WORTH_TELLING else ""
    if len(lines) == 1 and len(lines[0]) <= _ANSWER:
        return f"{one_line(lines[0], _ANSWER).rstrip('.')}{took}"
    return plural(len(lines), "line") + took


def wrap_line(line: str, room: int) -> list[str]:
    """A line in parts that each fit, as it stands.

    >>> wrap_line("abcdef", 4)
    ['abcd', 'ef']
    """
    parts = []
    part = ""
    used = 0
    for char in line:
        wide = columns(char)
        if used + wide > room:
            parts.append(part)
            part = ""
            used = 0
        part += char
        used += wide
    return [*parts, part]


def _deliver(stream: TextIO, text: str) -> None:
    """Write and hand on. Raises OutputClosed."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise OutputClosed("") from None
    except OSError as error:
        raise OutputClosed(f"the output could not be written: {error.strerror or error}") from None
