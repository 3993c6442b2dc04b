"""Output of a turn: for a person at a terminal with rich, as plain text for a pipe, as JSON for a program.

Whatever a model, a tool or a memory says passes `for_terminal` here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import StringIO
from typing import ClassVar, Literal, TextIO

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.text import Text as StyledText

from memsheaf.chat.events import Called, Calling, Event, Failed, Notice, Text, TurnEnded, as_json
from memsheaf.memory import plural
from memsheaf.text.neutralize import for_terminal, one_line

MAX_CALLS = 200  # that can be shown in full
MAX_OUTCOME_CHARS = 60  # of a tool's answer that stands in its line
MAX_NAMES = 5  # memories that are named in one line
MIN_SHOWN_SECONDS = 0.1  # that a call takes

# Markdown that leaves text out or names a picture instead of its address is shown as it was written.
_SHOWN_AS_WRITTEN = ["html_block", "html_inline", "reference", "image", "entity", "autolink"]
_STYLE_OF_CHANGE = {"+": "green", "-": "red", "@": "cyan"}


class _PlainHeading(Heading):
    """A heading at the left margin."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.stylize("bold")
        yield self.text


class AnswerMarkdown(Markdown):
    """The Markdown of an answer, with nothing left out of it."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _PlainHeading}

    def __init__(self, text: str) -> None:
        super().__init__("", code_theme="ansi_dark", hyperlinks=False)  # nothing is hidden behind a text
        parser = MarkdownIt().enable(["strikethrough", "table"]).disable(_SHOWN_AS_WRITTEN)
        self.parsed = parser.parse(text)
        for token in (inner for outer in self.parsed for inner in outer.children or ()):
            token.type = token.type.replace("softbreak", "hardbreak")


class Screen:
    """The output of a turn. With a person before it, all stands on one terminal.

    Otherwise only the answer goes to `out`, and all else to `err`.
    """

    def __init__(self, out: TextIO, err: TextIO, *, is_live: bool = False) -> None:
        self.is_live = is_live
        self.is_verbatim = False  # whether an answer is shown as it is, and not as Markdown
        self.console = Console(file=out, highlight=False, markup=False, emoji=False)
        self._notes = self.console
        if not is_live:
            self._notes = Console(file=err, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._calls: list[tuple[Calling, Called | None]] = []
        self._text = ""  # of a block that is not complete
        self._has_gap = False  # between the block that was printed last and the next one
        self._is_aside = False
        self._live: Live | None = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """Show below all else the text that is not complete yet, while a turn goes on."""
        if not self.is_live:
            yield
            return
        with Live("…", console=self.console, transient=True, vertical_overflow="crop") as self._live:
            yield
        self._live = None

    @contextmanager
    def interlude(self) -> Iterator[None]:
        """Let something else use the terminal in the middle of a turn."""
        self._end_text()
        if self._live:
            self._live.stop()
        yield
        if self._live:
            self._live.start()

    def draw(self, event: Event) -> None:
        """Draw an event."""
        if isinstance(event, Text):
            self._draw_text(event)
        elif isinstance(event, Calling):
            self._end_text()
            self._calls = [*self._calls[1 - MAX_CALLS :], (event, None)]
        elif isinstance(event, Called):
            self._draw_called(event)
        elif isinstance(event, Notice):
            self.note(event.line, event.hint)
        elif isinstance(event, Failed):
            self.note(event.line, event.hint, style="red")
        elif isinstance(event, TurnEnded):
            self._end_text()
            if event.interrupted:
                self.note("stopped")

    def say(self, text: str, style: str = "") -> None:
        """Print a text of our own."""
        self.console.print(StyledText(for_terminal(text), style))

    def note(self, line: str, hint: str = "", style: str = "dim") -> None:
        """Print what is no part of an answer."""
        self._end_text()
        self._notes.print(StyledText(for_terminal(one_line(line, 2_000)), style))
        if hint:
            self._notes.print(StyledText(for_terminal(hint), "dim"))

    def expand(self, number: int = 1) -> None:
        """Show a call with its arguments and its answer in full, the last one or an earlier one."""
        if not 0 < number <= len(self._calls):
            self.note(f"there are {len(self._calls)} calls to show" if self._calls else "no tool was called yet")
            return
        calling, called = self._calls[-number]
        self.say(f"· {calling.line}", "bold")
        for name, value in calling.arguments.items():
            self.say(f"{name}: {value}", "dim")
        self.say(called.answer if called else "(no answer)")

    def ask(self, line: str, detail: str, *, is_diff: bool, max_lines: int) -> int:
        """Draw what a tool wants to do, and return how many lines of the detail are left out.

        The detail is indented: nothing in it can look like a line of ours.
        """
        self.say(one_line(line, 2_000), "bold")
        lines = for_terminal(detail).rstrip("\n").split("\n") if detail.strip() else []
        shown = lines[:max_lines] if max_lines else lines
        for each in shown:
            style = _STYLE_OF_CHANGE.get(each[:1], "") if is_diff else ""
            self.console.print(Padding(StyledText(each.expandtabs(4), style), (0, 0, 0, 4)))
        return len(lines) - len(shown)

    def _draw_text(self, event: Text) -> None:
        if event.aside and not self.is_live:
            return
        if event.aside != self._is_aside:
            self._end_text()
        self._is_aside = event.aside
        self._text += event.text
        place = 0 if self.is_verbatim else find_block_end(self._text)
        if place:
            complete = self._text[:place]
            self._text = self._text[place:]
            self._print_text(complete)
            self._has_gap = True
        if self._live:
            self._live.update(StyledText(for_terminal(self._text)[-2_000:] or "…", "dim" if self._is_aside else ""))

    def _end_text(self) -> None:
        text = self._text
        self._text = ""
        if text.strip():
            self._print_text(text)
        self._has_gap = False
        if self._live:
            self._live.update("…")

    def _print_text(self, text: str) -> None:
        safe = for_terminal(text).strip("\n")
        if self._has_gap:
            self.console.print()
        if self._is_aside:
            self.console.print(StyledText(safe, "dim"))
        elif self.console.is_terminal and not self.is_verbatim:
            self._print_markdown(safe)
        else:
            self.console.print(safe, soft_wrap=not self.console.is_terminal)

    def _print_markdown(self, text: str) -> None:
        """Print a block without the empty lines and the blanks that rich puts around it."""
        drawn = StringIO()
        colours: Literal["standard"] | None = "standard" if self.console.color_system else None
        Console(file=drawn, width=self.console.width, force_terminal=True, color_system=colours).print(
            AnswerMarkdown(text)
        )
        lines = [StyledText.from_ansi(line) for line in drawn.getvalue().split("\n")]
        full = [number for number, line in enumerate(lines) if line.plain.strip()]
        for line in lines[full[0] : full[-1] + 1] if full else ():
            line.rstrip()
            self.console.print(line, soft_wrap=True)

    def _draw_called(self, event: Called) -> None:
        places = [place for place, (calling, _) in enumerate(self._calls) if calling.id == event.id]
        line = event.tool
        if places:
            calling, _ = self._calls[places[-1]]
            self._calls[places[-1]] = (calling, event)
            line = calling.line
        mark = "·" * (1 + event.id.count("/"))  # two for a call of a second agent
        self.note(f"{mark} {one_line(line, 100)} — {describe_outcome(event)}")


class JsonScreen:
    """Events as JSON, one a line."""

    is_live = False

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def working(self) -> AbstractContextManager[object]:
        """Show nothing."""
        return nullcontext()

    def draw(self, event: Event) -> None:
        """Print one event."""
        self.print(as_json(event))

    def print(self, value: object) -> None:
        """Print one value."""
        self._out.write(json.dumps(value, ensure_ascii=True, default=str) + "\n")
        self._out.flush()

    def note(self, line: str, hint: str = "", style: str = "dim") -> None:
        """Print a notice."""
        self.draw(Notice(line, hint))

    def say(self, text: str, style: str = "") -> None:
        """Print a notice."""
        self.draw(Notice(text))

    def expand(self, number: int = 1) -> None:
        """Print nothing: each event was printed whole."""


def find_block_end(text: str) -> int:
    """Return where the last complete block of a Markdown text ends: behind an empty line outside of code.

    >>> find_block_end("One.\\n\\nTwo"), find_block_end("```\\na\\n\\nb")
    (6, 0)
    """
    end = 0
    is_code = False
    for line in re.finditer(r".*\n", text):
        if line[0].lstrip().startswith(("```", "~~~")):
            is_code = not is_code
        if not is_code and not line[0].strip():
            end = line.end()
    return end


def describe_memory(ended: TurnEnded | None, learned: Sequence[str] = ()) -> str:
    """Say in one line what memory did; "" when it did nothing.

    >>> describe_memory(TurnEnded("", recalled=("user/a.md", "user/b.md")), ["Prefers single quotes"])
    '[memory: 2 recalled, 1 learned: Prefers single quotes]'
    """
    if ended and ended.ignored:
        return "[memory: left out of this turn]"
    names = list(dict.fromkeys((*(ended.saved if ended else ()), *learned)))
    parts = [f"{len(ended.recalled)} recalled"] if ended and ended.recalled else []
    if names:
        shown = ", ".join(one_line(name, 60) for name in names[:MAX_NAMES])
        more = ", …" if len(names) > MAX_NAMES else ""
        parts.append(f"{len(names)} learned: {shown}{more}")
    return f"[memory: {', '.join(parts)}]" if parts else ""


def describe_outcome(event: Called) -> str:
    """Say in a few words what came of a call: the reason when it failed, a short answer itself, else how long it is.

    >>> describe_outcome(Called("1", "read", "a\\nb\\n", False, 0.41))
    '2 lines, 0.4 s'
    """
    lines = event.answer.strip().splitlines()
    if event.failed:
        errors = [line for line in lines[:1] if line.startswith("Error: ")] or lines[-1:]  # as a shell ends
        return one_line("".join(errors).removeprefix("Error: ") or "failed", 2 * MAX_OUTCOME_CHARS)
    seconds = f", {event.seconds:.1f} s" if event.seconds >= MIN_SHOWN_SECONDS else ""
    if len(lines) == 1 and len(lines[0]) <= MAX_OUTCOME_CHARS:
        return f"{one_line(lines[0], MAX_OUTCOME_CHARS).rstrip('.')}{seconds}"
    return plural(len(lines), "line") + seconds
