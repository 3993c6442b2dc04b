"""What a turn looks like: on a terminal, in a pipe, and for a program."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cases import each_case
from memsheaf.chat.events import Called, Calling, Event, Failed, Notice, Text, TurnEnded
from memsheaf.chat.screen import JsonScreen, Screen, find_block_end


def draw(events: Iterable[Event], *, width: int = 60, is_terminal: bool = True) -> tuple[str, str]:
    """What stands on standard output and standard error afterwards; on a terminal all is on the first."""
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err, is_live=False)
    screen.console = Console(
        file=out, width=width, force_terminal=is_terminal, color_system=None, highlight=False, markup=False
    )
    for event in events:
        screen.draw(event)
    return out.getvalue(), err.getvalue()


def answer(text: str) -> str:
    pieces = [Text(text[at : at + 7]) for at in range(0, len(text), 7)]
    return draw([*pieces, TurnEnded(text)])[0]


@each_case(
    "text, shown",
    [
        ("# Plan\n\nSome **bold** words.", "Plan\n\nSome bold words.\n"),
        ("One.\nTwo.", "One.\nTwo.\n"),
        ("See [docs](https://example.com/a).", "See docs (https://example.com/a).\n"),
        ("- a\n- b", " • a\n • b\n"),
        ("<b>stays</b> &amp; ![pic](x.png)", "<b>stays</b> &amp; !pic (x.png)\n"),
        ("[x]: http://example.com", "[x]: http://example.com\n"),
        ("a [red]tag[/red] :smile:", "a [red]tag[/red] :smile:\n"),
        ("word " * 20, "word " * 11 + "word\n" + "word " * 7 + "word\n"),
        ("\x1b[31mred\u202e", "<U+001B>[31mred<U+202E>\n"),
    ],
)
def test_markdown_is_rendered_and_nothing_is_left_out(text: str, shown: str) -> None:
    assert answer(text) == shown


def test_code_is_shown_whole_and_its_empty_lines_end_no_block() -> None:
    shown = answer("Look:\n\n```python\ndef f():\n\n    pass\n```\n\nDone.")
    assert [line.strip() for line in shown.split("\n")] == ["Look:", "", "def f():", "", "pass", "", "Done.", ""]


@given(st.text(max_size=200))
def test_any_answer_is_drawn_and_drives_no_terminal(text: str) -> None:
    assert not set(answer(text)) & set("\x1b\x07\x9b\u202e\r")


def test_in_a_pipe_only_the_answer_is_on_standard_output() -> None:
    events: list[Event] = [
        Text("thinking", aside=True),
        Text("**Yes** " * 30),
        Calling("1", "read", "read a.txt", {}),
        Called("1", "read", "one\ntwo\n", False, 0.5),
        Notice("a notice", "a hint"),
        Failed("it failed"),
        TurnEnded(""),
    ]
    out, err = draw(events, is_terminal=False)
    assert out == "**Yes** " * 30 + "\n"
    assert err == "· read a.txt — 2 lines, 0.5 s\na notice\na hint\nit failed\n"


def test_a_call_is_shown_in_full_when_it_is_asked_for() -> None:
    out = io.StringIO()
    screen = Screen(out, out, is_live=True)
    screen.expand()
    screen.draw(Calling("1", "shell", "shell ls", {"command": "ls"}))
    screen.draw(Called("1", "shell", "a\nb\x1b[2J\n", False, 0.0))
    screen.expand()
    screen.expand(2)
    text = out.getvalue()
    assert "no tool was called yet" in text
    assert "command: ls\na\nb<U+001B>[2J\n" in text
    assert "there are 1 calls to show" in text


def test_events_are_one_line_of_json_each() -> None:
    out = io.StringIO()
    screen = JsonScreen(out)
    screen.draw(Text("a\nb"))
    screen.note("odd", "why")
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["text", "noted"]


def test_a_block_ends_behind_an_empty_line() -> None:
    assert find_block_end("a\n\nb") == 3
    assert find_block_end("a\nb") == 0
    assert find_block_end("```\na\n\n```\n\nb") == 12
