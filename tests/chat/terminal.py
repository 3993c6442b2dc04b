"""`memsheaf` in a pseudo-terminal, as a person has it: what is on the screen, and keys to press.

    with Terminal(["chat"], environment, folder) as terminal:
        terminal.prompt()
        terminal.tell("What do you remember?")
        print(terminal.text())

Waiting ends as soon as what is waited for is there, and fails with the screen after `PATIENCE` seconds.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from forks import exit_code, start_program

PATIENCE = 60.0
ENTER, ESCAPE, TAB, UP = "\r", "\x1b", "\t", "\x1b[A"
CTRL_C, CTRL_D, CTRL_J, CTRL_O, CTRL_U = "\x03", "\x04", "\n", "\x0f", "\x15"

_SEQUENCE = re.compile(
    r"\x1b\[([?>=]?)([0-9;]*)([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>78M]"
)


class Cells:
    """A screen of so many rows and columns: enough of a VT100 for a line editor."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self.gone: list[str] = []  # what scrolled out at the top
        self.lines = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.asked = 0  # how often the program asked where the cursor is
        self._rest = ""

    def feed(self, text: str) -> None:
        """Take in what a program writes."""
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._draw(text[at])
                at += 1
            elif found := _SEQUENCE.match(text, at):
                self._obey(found[1], found[2], found[3] or "")
                at = found.end()
            elif len(text) - at < 64:
                self._rest = text[at:]
                return
            else:
                at += 1

    def shown(self) -> list[str]:
        """Every line, those that scrolled away first."""
        return [*self.gone, *("".join(line).rstrip() for line in self.lines)]

    @property
    def place(self) -> int:
        """Which line the cursor is in, counted from the very first."""
        return len(self.gone) + self.row

    def _draw(self, char: str) -> None:
        if char == "\n":
            self._down()
        elif char == "\r":
            self.column = 0
        elif char == "\b":
            self.column = max(min(self.column, self.columns - 1) - 1, 0)
        elif char == "\t":
            self.column = min((self.column // 8 + 1) * 8, self.columns - 1)
        elif char >= " ":
            wide = 1 + (unicodedata.east_asian_width(char) in "WF")
            if self.column + wide > self.columns:
                self.column = 0
                self._down()
            self.lines[self.row][self.column] = char
            if wide == 2:
                self.lines[self.row][self.column + 1] = ""
            self.column += wide

    def _down(self) -> None:
        if self.row < self.rows - 1:
            self.row += 1
            return
        self.gone.append("".join(self.lines.pop(0)).rstrip())
        self.lines.append([" "] * self.columns)

    def _obey(self, mark: str, numbers: str, letter: str) -> None:
        if mark or not letter:
            return
        given = [int(number or 0) for number in numbers.split(";")] if numbers else [0]
        count = max(given[0], 1)
        if letter == "A":
            self.row = max(self.row - count, 0)
        elif letter == "B":
            self.row = min(self.row + count, self.rows - 1)
        elif letter == "C":
            self.column = min(self.column + count, self.columns - 1)
        elif letter == "D":
            self.column = max(self.column - count, 0)
        elif letter in "Hf":
            self.row = min(count, self.rows) - 1
            self.column = min(max(given[1] if len(given) > 1 else 1, 1), self.columns) - 1
        elif letter == "K":
            self._erase_line(given[0])
        elif letter == "J":
            self._erase_line(given[0])
            others = range(self.row + 1, self.rows) if given[0] == 0 else range(self.rows)
            for row in others:
                self.lines[row] = [" "] * self.columns
        elif letter == "n" and given[0] == 6:
            self.asked += 1

    def _erase_line(self, what: int) -> None:
        line = self.lines[self.row]
        begin = 0 if what else self.column
        end = self.column + 1 if what == 1 else self.columns
        line[begin:end] = [" "] * (end - begin)


class Terminal:
    """`memsheaf` with these words, in a terminal of its own. What it wrote, byte for byte, is `raw`."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        folder: str | Path,
        *,
        rows: int = 40,
        columns: int = 100,
        without: Sequence[str] = (),
    ) -> None:
        self.cells = Cells(rows, columns)
        self.raw = b""
        self.patience = PATIENCE
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._answered = 0
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        own = {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows), "LANG": "C.UTF-8"}
        self._process = start_program(words, {**own, **environment}, folder, [theirs] * 3, without=without)
        self._code: int | None = None
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *why: object) -> None:
        if self._poll() is None:
            os.kill(self._process, signal.SIGKILL)
        os.close(self._ours)

    def send(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def text(self) -> str:
        """All that was on the screen, and what scrolled away."""
        return "\n".join(self.cells.shown()).rstrip("\n")

    def wait(self, text: str, *, times: int = 1) -> str:
        """Wait until a text is on the screen, so often; gives all that is there."""
        self.until(lambda: self.text().count(text) >= times, f"{times} times {text!r}" if times > 1 else repr(text))
        return self.text()

    def prompt(self, *, below: int = -1) -> None:
        """Wait until the prompt is there, empty, in a line below that one."""
        self.until(lambda: self.is_at_prompt() and self.cells.place > below, "the prompt")

    def type(self, text: str) -> None:
        """Type something, and wait until it stands at the prompt."""
        self.send(text)
        last = re.split(r"[\n\r\x1b]", text)[-1][-20:]
        self.until(lambda: "".join(self.cells.lines[self.cells.row]).rstrip().endswith(last.rstrip()), last)

    def tell(self, message: str) -> str:
        """Type a message, send it, and wait for the next prompt. Gives what came in between."""
        self.type(message)
        place = self.cells.place
        self.send(ENTER)
        self.prompt(below=place)
        return "\n".join(self.cells.shown()[place + 1 : self.cells.place])

    def end(self) -> int:
        """Wait until the program has ended; gives its exit code."""
        self.until(lambda: self._poll() is not None, "the end")
        while self._read(0.0):
            pass
        return self._code or 0

    def _poll(self) -> int | None:
        self._code = exit_code(self._process) if self._code is None else self._code
        return self._code

    def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Read what the program writes until something is so."""
        deadline = time.monotonic() + self.patience
        while not is_so():
            if not self._read(0.05) and self._poll() is not None and not self._read(0.0):
                if is_so():
                    return
                raise AssertionError(f"{what} did not come before the end; the screen:\n{self.text()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come in {self.patience:g} s; the screen:\n{self.text()}")

    def is_at_prompt(self) -> bool:
        """Whether the cursor is at an empty prompt."""
        cells = self.cells
        return cells.column == 2 and "".join(cells.lines[cells.row]).rstrip() == ">"

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # the other end is closed
            data = b""
        self.raw += data
        self.cells.feed(self._decoder.decode(data))
        while self._answered < self.cells.asked:  # where the cursor is: a real terminal would say so
            self._answered += 1
            self.send(f"\x1b[{self.cells.row + 1};{self.cells.column + 1}R")
        return bool(data)
