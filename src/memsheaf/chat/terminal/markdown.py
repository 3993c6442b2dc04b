"""Markdown in answers, rendered with rich: block by block, as an answer streams in.

It comes with `pip install 'memsheaf[chat]'`; without it importing this fails, and answers are plain text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.theme import Theme

# What would leave text out (HTML, link definitions), name a picture instead of its address, or bring characters in
# after the text was made safe (entities) is shown as it was written.
_LEFT_OUT = ["html_block", "html_inline", "reference", "image", "entity", "autolink"]
_THEME = Theme(
    {"markdown.h1": "bold underline", "markdown.code": "cyan", "markdown.link": "underline"}
    | {f"markdown.{name}": "bold" for name in ("h2", "h3", "h4", "h5", "h6", "table.header")}
    | {f"markdown.{name}": "dim" for name in ("block_quote", "hr", "table.border", "link_url")}
    | {f"markdown.item.{name}": "none" for name in ("bullet", "number")}
)
_LONG = 10_000  # characters of a block that is not rendered again with each piece
_CLOSED = re.compile(r"(\*\*|\*|`+|~~)(?=\S)(?:(?!\n\n).)+?\1|\[[^\]\n]*\]\([^)\n]*\)|\A\s*[-*+] ", re.DOTALL)
_OPEN = re.compile(r"[*`~\[|]|\n\s*[-=]")
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_TRAILING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
_NOTHING = re.compile(r"\x1b\[[0-9;]+m\x1b\[0m")
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class _PlainHeading(Heading):
    """A heading at the left margin."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _IndentedCode(CodeBlock):
    """Code without a frame or a background. A long line stays one line, so that it can be copied."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        longest = max((cell_len(line) for line in code.split("\n")), default=0)
        syntax = Syntax(code, self.lexer_name, theme="ansi_dark", background_color="default", code_width=longest + 1)
        yield from console.render(Padding(syntax, (0, 0, 0, 2)), options.update(width=longest + 3))


class _Answer(Markdown):
    """Markdown that is parsed already."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements, "heading_open": _PlainHeading, "fence": _IndentedCode, "code_block": _IndentedCode,
    }  # fmt: skip

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__("", hyperlinks=False)  # the address is shown, and nothing is hidden behind a text
        for token in (inner for outer in tokens for inner in outer.children or ()):
            token.type = token.type.replace("softbreak", "hardbreak")
        self.parsed = tokens


class MarkdownBlocks:
    """Text that comes in pieces, rendered line by line: what is shown does not change any more.

    A line waits for the end of a bold text, a link or a table that is open. The text is safe for a terminal already,
    and nothing in it can become a control character by being rendered.
    """

    def __init__(self, width: Callable[[], int], *, colour: bool) -> None:
        self._width = width
        self._colour = colour
        self._parser = MarkdownIt().enable(["strikethrough", "table"]).disable(_LEFT_OUT)
        self._line = ""
        self._block: list[str] = []
        self._fence = ""  # what ends the code block that is open
        self._is_after_blank = self._has_gap = False  # the next line, and the block
        self._is_first = True
        self._shown = 0  # lines of the block
        self.tail = ""  # the line that is not finished, to be shown for the time being

    def piece(self, text: str) -> str:
        """What is complete of the text so far and was not shown yet."""
        *lines, self._line = (self._line + text).split("\n")
        return "".join(map(self._take, lines)) + self._growing(is_line_end=bool(lines))

    def rest(self) -> str:
        """What was not complete yet, at the end."""
        shown = (self._take(self._line) if self._line else "") + self._close()
        self._line = self._fence = self.tail = ""
        self._is_after_blank = False
        self._is_first = True
        return shown

    def _take(self, line: str) -> str:
        """Take one more line; gives what is complete with it."""
        if self._fence:
            self._block.append(line)
            if not line.strip().startswith(self._fence) or line.strip(" `~"):
                return ""
            self._fence = ""
            return "" if self._is_item() else self._close()
        if not line.strip():
            self._is_after_blank = True
            return "" if self._is_item() else self._close()  # an item may go on
        shown = ""
        fence = _FENCE.match(line)
        is_flush = not line.startswith((" ", "\t"))
        if is_flush and (fence or line.startswith("#") or _ITEM.match(line) or self._is_item()):
            shown = self._close()
        if not self._block:
            self._has_gap = self._is_after_blank and not self._is_first
        elif self._is_after_blank:
            self._block.append("")
        self._block.append(line)
        self._is_after_blank = False
        self._fence = fence[1] if fence else ""
        return shown + self._close() if re.match(r"#{1,6}\s", line) else shown

    def _growing(self, *, is_line_end: bool) -> str:
        """The lines of an unfinished block that nothing can change any more; the one after them is the `tail`."""
        is_own = self._fence or not self._block or (self._line[:1].isalnum() and not self._is_item())
        text = "\n".join([*self._block, self._line if is_own or self._line.startswith("  ") else ""])
        self.tail = self._line
        if len(text) > _LONG or not text.strip():
            return ""
        if self._fence:  # each line of code is as it stays
            return self._new(self._render("\n".join(self._block))) if is_line_end and len(self._block) > 1 else ""
        if _OPEN.search(_CLOSED.sub("", text)):
            return ""
        lines = self._render(text)
        self.tail = _STYLE.sub("", lines[-1]) if is_own and lines else self._line
        return self._new(lines[:-1])

    def _is_item(self) -> bool:
        return bool(self._block and _ITEM.match(self._block[0]))

    def _close(self) -> str:
        """The rest of the block."""
        if not self._block:
            return ""
        shown = self._new(self._render("\n".join(self._block)))
        self._block = []
        self._shown = 0
        self._is_first = False
        return shown

    def _render(self, text: str) -> list[str]:
        drawn = io.StringIO()
        console = Console(
            file=drawn, width=max(self._width(), 20), color_system="standard" if self._colour else None,
            force_terminal=self._colour, theme=_THEME, legacy_windows=False, _environ={},
        )  # fmt: skip
        console.print(_Answer(self._parser.parse(text)), crop=False)
        shown = _NOTHING.sub("", _TRAILING.sub(r"\1", drawn.getvalue())).strip("\n")
        return shown.split("\n") if shown else []

    def _new(self, lines: list[str]) -> str:
        """What was not shown yet of a block's lines, with an empty line before it where there was one."""
        has_gap = self._has_gap if self._block else self._is_after_blank and not self._is_first
        new = [*[""] * (has_gap and not self._shown and bool(lines)), *lines[self._shown :]]
        self._shown = max(self._shown, len(lines))
        return "".join(f"{line}\n" for line in new)
