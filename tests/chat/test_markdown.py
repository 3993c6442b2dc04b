"""Answers on a terminal: wrapped at words, Markdown rendered as it streams in."""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

import pytest

from chat.terminal import Terminal
from memsheaf.text.neutralize import columns, for_terminal

pytest.importorskip("rich")

from memsheaf.chat.terminal.markdown import MarkdownBlocks

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

ANSWER = """# Plan
Use **pnpm** and *not* `npm`, see [the docs](https://pnpm.example/a "t") — it says so in user_prefers_pnpm.md.
The second line stays a line.

1. first, with words enough to be longer than one line of the screen has room for
2. second
   - nested

   ```sh
   ls

   pwd
   ```
9. ninth
Below the list.

```python
def one():

    return "a line of code that is longer than the screen is wide and is left as it is, to be copied"
```

| name | value |
|---|---|
| 日本 | **1** |

> quoted

Generic `Vec<String>`, Vec<String>, <b>html</b>, &#x202e;&lt; and ![a picture](https://pictures.example/1.png).

[1]: https://hidden.example
"""


def rendered(text: str, *, width: int = 60, colour: bool = False, pieces: int = 0) -> str:
    blocks, cuts = MarkdownBlocks(lambda: width, colour=colour), random.Random(pieces)
    shown, at = "", 0
    while at < len(text):
        step = cuts.randint(1, 12) if pieces else len(text)
        shown += blocks.piece(text[at : at + step])
        at += step
    return shown + blocks.rest()


def test_markdown_is_rendered_and_nothing_of_it_is_hidden() -> None:
    shown = rendered(ANSWER)

    lines = shown.splitlines()
    assert lines[:2] == ["Plan", "Use pnpm and not npm, see the docs (https://pnpm.example/a)"]
    assert "The second line stays a line." in lines
    assert lines[5:7] == [" 1 first, with words enough to be longer than one line of", "   the screen has room for"]
    assert {" 2 second", "    • nested", "  9 ninth", "Below the list."} <= set(lines)
    assert "▌ quoted" in lines
    assert re.search(r"(?m)^\s*name\s+value\n\s*─+\n\s*日本\s+1$", shown)
    for kept in ("Vec<String>, Vec<String>, <b>html</b>", "&#x202e;&lt;", "https://pictures.example/1.png", "[1]: "):
        assert kept in " ".join(lines)
    code = [line for line in lines if "left as it is, to be copied" in line]
    assert len(code) == 1  # a long line of code is not broken
    assert all(columns(line) <= 60 for line in lines if line not in code)
    coloured = rendered(ANSWER, colour=True)
    assert "\x1b[1mpnpm\x1b[0m" in coloured
    assert "\x1b[3mnot\x1b[0m" in coloured
    assert "\x1b" not in shown


def test_no_text_drives_the_terminal_through_the_renderer() -> None:
    chosen = random.Random(7)
    parts = [
        *("\x1b[2J", "\x1b]0;owned\x07", "\u202e", "\x9b1m", "&#27;", "&#x202e;", "\\\x1b", "\r", "\x00", "🧑‍🚀"),
        *(
            "**",
            "*",
            "`",
            "```\n",
            "\n",
            "\n\n",
            "- ",
            "1. ",
            "    ",
            "# ",
            "|",
            "|-|\n",
            "[",
            "](",
            ")",
            "<",
            ">",
            "~~",
        ),
        *("word", "日本", "_", "http://a.example", "![x](y)", "---\n", "[a]: b\n", "&amp;", "\t"),
    ]
    for _ in range(80):
        text = for_terminal("".join(chosen.choices(parts, k=chosen.randint(1, 25))))
        for colour in (False, True):
            shown = re.sub(r"\x1b\[[0-9;]*m", "", rendered(text, colour=colour, pieces=chosen.randint(0, 9)))
            assert for_terminal(shown) == shown, text
            assert shown.count("word") == text.count("word"), text


# the real program


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "work").mkdir()
    home = {name: str(tmp_path / name[9:].lower()) for name in ("MEMSHEAF_HOME", "MEMSHEAF_CACHE")}
    return {**home, "MEMSHEAF_EMBEDDER": "none", "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("more", "without"), [({}, ("memsheaf.chat.terminal.markdown",)), ({"TERM": "dumb"}, ()), ({"NO_COLOR": "1"}, ())]
)
def test_without_rich_or_colour_answers_are_wrapped_without_escapes(
    more: dict[str, str], without: tuple[str, ...], environment: dict[str, str], tmp_path: Path
) -> None:
    program = ("prompt_toolkit", "memsheaf.chat.terminal.full_reader", *without)  # it writes escapes of its own
    with Terminal(["chat"], {**environment, **more}, tmp_path / "work", columns=60, without=program) as terminal:
        terminal.prompt()
        answer = terminal.tell("hello").splitlines()
        assert answer[:2] == ["Without a model I keep, find and forget memories. Ask in", "plain words, such as:"]
        if "NO_COLOR" in more or "TERM" in more:
            assert not re.search(rb"\x1b\[[0-9;]*m", terminal.raw)
