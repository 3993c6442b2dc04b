"""The renderer: a command's answer as text and tables for people, or as one JSON document for programs.

Whatever is printed passes `for_terminal` here: a memory or a file name can neither drive the terminal nor hide what
it says.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from textwrap import fill, wrap
from threading import Timer
from typing import NamedTuple, TextIO

from memsheaf.errors import TextRefused
from memsheaf.text.neutralize import columns, for_terminal

STYLES = {"": "", "bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
MAX_INPUT_BYTES = 1 << 20
WAITING_SECONDS = 1.0  # after which someone who waits wants to know
MIN_COLUMN_WIDTH = 20  # of the last column of a table


class Styled(NamedTuple):
    """A line in a style of its own."""

    text: str
    style: str


class Note(NamedTuple):
    """A line for people that is not the result; it goes to standard error."""

    text: str
    style: str = "dim"


class Table(NamedTuple):
    """Rows in columns. Without rows, what `empty` says goes to standard error."""

    rows: Iterable[Sequence[str]]
    styles: Sequence[str] = ()
    head: Sequence[str] = ()
    empty: str = ""


Part = str | bytes | Styled | Note | Table | Iterable["Part"] | None  # one part of an answer for people


class Result:
    """What a command answers: a value for programs, parts of a text for people, and the exit code.

    A value may be a function, which is called when a program asks. Without `parts` the value is no document of its
    own: the command has printed what there was to print.
    """

    def __init__(self, value: object, *parts: Part, code: int = 0) -> None:
        self.value = value
        self.parts = parts
        self.code = code


class Undelivered(Exception):
    """The output could not be written; without a message, because its reader has had enough."""


class Console:
    """The three streams of a command, and how much of a terminal they are."""

    def __init__(self, stdin: TextIO | None, stdout: TextIO, stderr: TextIO, environment: Mapping[str, str]) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.environment = environment
        self.json = False
        for stream in (stdout, stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure:
                reconfigure(encoding="utf-8", errors="backslashreplace")

    @property
    def interactive(self) -> bool:
        """Whether a person is there who can be asked."""
        return self.stdin is not None and self.stdin.isatty() and self.stderr.isatty()

    def render(self, answer: Result) -> int:
        """Print what a command answers, and return the exit code: the value as JSON if asked for, else the parts.

        JSON is in ASCII, so that nothing in it can break its reader.
        """
        if self.json:
            value = answer.value() if callable(answer.value) else answer.value
            self._write(json.dumps(_plain(value), indent=2) + "\n")
        else:
            self._show(answer.parts)
        return answer.code

    def show(self, *parts: Part) -> None:
        """Print to people what they have to know before they are asked."""
        if not self.json:
            self._show(parts)

    def _show(self, part: Part) -> None:
        if part is None:
            return
        if isinstance(part, str):
            self.say(part)
        elif isinstance(part, Styled):
            self.say(part.text, style=part.style)
        elif isinstance(part, Note):
            self.note(part.text, style=part.style)
        elif isinstance(part, Table):
            self._table(part)
        elif isinstance(part, bytes):
            self._exact(part)
        else:
            for one in part:
                self._show(one)

    def say(self, text: str = "", *, style: str = "") -> None:
        """Print text to people; on a terminal it is wrapped between words."""
        self._write(self._styled(self.stdout, self._wrapped(self.stdout, text), style) + "\n")

    def note(self, text: str, *, style: str = "") -> None:
        """Tell people something that is not the result."""
        with suppress(OSError):  # there is nobody else to tell
            self.stderr.write(self._styled(self.stderr, self._wrapped(self.stderr, text), style) + "\n")

    def _wrapped(self, stream: TextIO, text: str) -> str:
        """Return the text made harmless; for a terminal its long lines are wrapped, and keep their indentation."""
        lines, width = for_terminal(text).split("\n"), self._columns(stream)
        for number, line in enumerate(lines):
            if columns(line) > width:
                indentation = line[: len(line) - len(line.lstrip(" +-"))]
                lines[number] = fill(
                    line,
                    width,
                    subsequent_indent=" " * len(indentation),
                    break_long_words=False,
                    break_on_hyphens=False,
                )
        return "\n".join(lines)

    def _table(self, table: Table) -> None:
        """Print rows in columns; on a terminal the last column is wrapped between words."""
        rows = list(table.rows)
        if not rows:
            if table.empty:
                self.note(table.empty)
            return
        cells = [[for_terminal(cell).replace("\n", " ") for cell in row] for row in (table.head, *rows) if row]
        widths = [max(map(columns, column)) for column in zip(*cells, strict=True)]
        indent = sum(widths[:-1]) + 2 * (len(widths) - 1)
        room = self._columns(self.stdout) - indent
        if room < MIN_COLUMN_WIDTH and len(widths) > 1:  # then the last column has lines of its own
            indent, room = 4, self._columns(self.stdout) - 4
        for *first, last in cells:
            shown = [cell + " " * (width - columns(cell)) for cell, width in zip(first, widths, strict=False)]
            lines = [last]
            if columns(last) > room:
                lines = wrap(last, max(room, 1), break_long_words=False, break_on_hyphens=False)
            if indent == 4 and shown:
                lines.insert(0, "")
            shown.append(f"\n{' ' * indent}".join(lines))
            styled = [self._styled(self.stdout, *pair) for pair in zip_longest(shown, table.styles, fillvalue="")]
            self._write("  ".join(styled).rstrip() + "\n")

    def _exact(self, data: bytes) -> None:
        """Hand bytes on as they are; only a terminal gets them made harmless."""
        buffer = getattr(self.stdout, "buffer", None)
        if self.stdout.isatty() or buffer is None:
            self._write(for_terminal(data.decode("utf-8", "replace")))
            return
        with _delivering():
            self.stdout.flush()
            buffer.write(data)

    def read_all(self, *, most: int = MAX_INPUT_BYTES) -> str:
        """The text on standard input. Raises TextRefused when it is too long, or not UTF-8."""
        if self.stdin is None:
            return ""
        buffer = getattr(self.stdin, "buffer", None)
        data = buffer.read(most) if buffer else self.stdin.read(most).encode()
        if len(data) >= most:
            raise TextRefused(f"standard input is longer than {most // (1 << 20)} MiB")
        try:
            return str(data.decode())
        except UnicodeDecodeError as error:
            raise TextRefused(f"standard input is not UTF-8 at byte {error.start}") from None

    def ask(self, question: str) -> str:
        """Ask a person for a line; "" at the end of input."""
        if self.stdin is None:
            return ""
        self.stderr.write(for_terminal(question) + " ")
        self.stderr.flush()
        return self.stdin.readline()

    def confirm(self, question: str) -> bool:
        """Ask a person; anything but yes is no."""
        return self.ask(f"{question} [y/N]").strip().lower() in ("y", "yes")

    def choose(self, question: str, letters: str, also: str = "") -> str:
        """Ask for a letter until it is one of these, or of those not shown; the last at the end of input."""
        while line := self.ask(f"{question} [{'/'.join(letters)}]"):
            if line.strip()[:1].lower() in set(letters + also):
                return line.strip()[0].lower()
        return letters[-1]

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Say on a terminal that work is going on, once it takes long."""
        if not self.stderr.isatty():
            yield
            return

        timer = Timer(WAITING_SECONDS, self.note, (f"{what} ...",))
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None] | None]:
        """A progress display for a terminal; None where the output is no terminal."""
        if not self.stderr.isatty():
            yield None
            return

        is_open = False

        def tell(done: int, total: int) -> None:
            nonlocal is_open
            is_open = True
            self.stderr.write(f"\r{for_terminal(what)}: {done:,} of {total:,}")
            self.stderr.flush()

        try:
            yield tell
        finally:
            if is_open:
                self.stderr.write("\n")

    def flush(self) -> None:
        """Hand everything on. Raises Undelivered."""
        with _delivering():
            self.stdout.flush()

    @property
    def width(self) -> int:
        """Return how many columns a page has that is laid out for people."""
        return min(self._columns(self.stdout), 80) if self.stdout.isatty() else 80

    def _columns(self, stream: TextIO) -> int:
        """Return how wide the terminal is; for what is no terminal, wide enough for anything."""
        if not stream.isatty():
            return 1_000_000
        try:
            return int(self.environment.get("COLUMNS") or os.get_terminal_size(stream.fileno()).columns) or 80
        except (ValueError, OSError):
            return 80

    def _styled(self, stream: TextIO, text: str, style: str) -> str:
        plain = self.environment.get("NO_COLOR") or self.environment.get("TERM") == "dumb"
        if not style or plain or not stream.isatty():
            return text
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m"

    def _write(self, text: str) -> None:
        with _delivering():
            self.stdout.write(text)


@contextmanager
def _delivering() -> Iterator[None]:
    """Tell a stream that cannot be written to from all else that may fail."""
    try:
        yield
    except BrokenPipeError:
        raise Undelivered("") from None
    except OSError as error:
        raise Undelivered(f"the output could not be written: {error.strerror or error}") from None


def _plain(value: object) -> object:
    """A value as JSON has it: what has named fields is an object, what can be gone through a list."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return value if isinstance(value, str) or not isinstance(value, Iterable) else [_plain(one) for one in value]
