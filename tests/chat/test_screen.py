"""What a person sees of a turn, and what a program reads of it."""

from __future__ import annotations

import io
import json
import random

import pytest

from cases import each_case
from memsheaf.chat.terminal.screen import (
    JsonScreen,
    OutputClosed,
    Screen,
    memory_line,
    render_outcome,
)
from memsheaf.chat.turn import Called, Calling, Event, Failed, Notice, Recalled, Text, TurnEnded
from memsheaf.text.neutralize import SafeStream, for_terminal

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eabc\r\nline\rover\x08\x7f👩\u200d💻 می\u200cخواهم \ud800 \U000e0041"


def drawn(*events: Event, live: bool = True, colour: bool = False, width: int = 80) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(out, err, live=live, colour=colour, width=lambda: width)
    for event in events:
        screen.draw(event)
    return out.getvalue(), err.getvalue()


@each_case("seed", range(20))
def test_text_in_pieces_comes_out_as_the_whole_would(seed: int) -> None:
    chance = random.Random(seed)
    flow, text, pieces = SafeStream(), HOSTILE * 2, []
    while text:
        cut = chance.randint(1, 4)
        pieces.append(text[:cut])
        text = text[cut:]

    shown = "".join(map(flow.piece, pieces)) + flow.rest()

    assert shown == for_terminal(HOSTILE * 2)


def test_hostile_text_is_spelt_out_wherever_it_comes_from() -> None:
    events: list[Event] = [
        Text(HOSTILE, aside=True),
        Text(HOSTILE),
        Calling("1", HOSTILE, HOSTILE, {"x": HOSTILE}),
        Called("1", HOSTILE, HOSTILE, True, 0.1),
        Notice(HOSTILE, HOSTILE),
        Failed(HOSTILE, HOSTILE),
        TurnEnded(HOSTILE, saved=(HOSTILE,)),
    ]
    for live in (True, False):
        out, err = io.StringIO(), io.StringIO()
        screen = Screen(out, err, live=live)
        for event in events:
            screen.draw(event)
        screen.memory(TurnEnded("", saved=(HOSTILE,)), [HOSTILE])
        screen.expand()
        screen.ask(HOSTILE, HOSTILE, "y")

        for shown in (out.getvalue(), err.getvalue()):
            assert not set(shown) & set("\x1b\x07\x9b\u202e\r\x08\x7f\ud800"), live


def test_a_call_and_what_came_of_it_stand_in_one_line() -> None:
    out, err = drawn(
        Text("Let me look."),
        Calling("1", "shell", "shell pytest -q", {"command": "pytest -q"}),
        Called("1", "shell", "a\nb\nc\n", False, 0.44),
        Text("All pass."),
        TurnEnded("Let me look.\nAll pass."),
    )

    assert out == "Let me look.\n· shell pytest -q — 3 lines, 0.4 s\nAll pass.\n"
    assert err == ""


def test_a_call_that_was_asked_about_is_named_again_with_what_came_of_it() -> None:
    out = io.StringIO()
    screen = Screen(out, io.StringIO(), live=True)
    screen.draw(Calling("1", "shell", "shell ls", {}))
    with screen.interlude():
        screen.ask("run: ls", "ls", "y")
        screen.answered("once")
    screen.draw(Called("1", "shell", "a.py", False, 0.0))

    assert out.getvalue() == "· shell ls\nrun: ls\n│ ls\ny? once\n· shell ls — a.py\n"


def test_calls_of_a_second_agent_stand_indented_below_it() -> None:
    out, _ = drawn(
        Calling("1", "agent", "agent find it", {}),
        Calling("1/2", "grep", "grep it", {}),
        Called("1/2", "grep", "x\ny", False, 0.0),
        Called("1", "agent", "It is in x.", False, 2.0),
        TurnEnded(""),
    )

    assert out.splitlines() == [
        "· agent find it",
        "  · grep it — 2 lines",
        "· agent find it — It is in x, 2.0 s",
    ]


@each_case("width", [40, 80, 200])
def test_a_long_call_keeps_to_one_line(width: int) -> None:
    out, _ = drawn(
        Calling("1", "shell", "shell " + "x" * 500, {}), Called("1", "shell", "y" * 500, True, 0.0), width=width
    )

    assert len(out.splitlines()) == 1
    assert len(out.rstrip("\n")) <= max(width, 60)


def test_the_answer_alone_goes_to_the_output_of_a_script() -> None:
    out, err = drawn(
        Recalled(("user/a.md",)),
        Text("thinking", aside=True),
        Text("The answer."),
        Calling("1", "read", "read a.py", {}),
        Called("1", "read", "x", False, 0.0),
        Notice("a trouble", "what to do"),
        TurnEnded("The answer."),
        live=False,
    )

    assert out == "The answer.\n"
    assert err == "· read a.py — x\na trouble\nwhat to do\n"


def test_what_a_model_thinks_is_dim_and_apart_from_the_answer() -> None:
    out, _ = drawn(Text("hm", aside=True), Text("Yes."), TurnEnded("Yes."), colour=True)

    assert out == "\x1b[2mhm\x1b[0m\nYes.\n"


@each_case(
    "ended, learned, line",
    [
        (TurnEnded(""), (), ""),
        (None, (), ""),
        (TurnEnded("", recalled=("user/a.md",)), (), "[memory: 1 recalled]"),
        (TurnEnded(""), ("Tabs",), "[memory: 1 learned: Tabs]"),
        (
            TurnEnded("", recalled=("a", "b"), saved=("x.md",)),
            ("Tabs",),
            "[memory: 2 recalled, 2 learned: x.md, Tabs]",
        ),
        (TurnEnded("", recalled=("a",), ignored=True), (), "[memory: left out of this turn]"),
        (None, "abcdefg", "[memory: 7 learned: a, b, c, d, e, …]"),
    ],
)
def test_one_line_says_what_memory_did(ended: TurnEnded | None, learned: tuple[str, ...], line: str) -> None:
    assert memory_line(ended, learned) == line


def test_a_call_can_be_shown_in_full_and_an_earlier_one_too() -> None:
    out = io.StringIO()
    screen = Screen(out, io.StringIO(), live=True)
    for number in "12":
        screen.draw(Calling(number, "shell", f"shell {number}", {"command": f"echo {number}\nls", "seconds": 3}))
        screen.draw(Called(number, "shell", f"answer {number}\nmore", False, 0.0))
    before = len(out.getvalue())

    screen.expand()
    assert out.getvalue()[before:] == "· shell 2\ncommand:\necho 2\nls\nseconds: 3\nanswer 2\nmore\n"
    screen.expand(2)
    assert "answer 1" in out.getvalue()
    screen.expand(3)
    assert out.getvalue().endswith("there are 2 calls to show\n")


def test_a_long_line_of_a_question_never_reaches_the_left_margin() -> None:
    out = io.StringIO()
    screen = Screen(out, io.StringIO(), live=True, width=lambda: 40)

    screen.ask("run: x", "echo" + " " * 100 + "y once?\n" + "表" * 60, "y")

    question, *detail, last = out.getvalue().splitlines()
    assert (question, last) == ("run: x", "y? ")
    assert all(line.startswith("│ ") for line in detail)
    assert len(detail) > 4


def test_an_event_is_one_line_of_ascii() -> None:
    out = io.StringIO()
    printed = JsonScreen(out)
    printed.draw(Text("größer\n\x1b"))
    printed.draw(Calling("1", "x", "y", {"odd": {1}}))
    printed.memory(TurnEnded(""), ["Tabs"])
    printed.memory(TurnEnded(""))

    assert out.getvalue().isascii()
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["text", "calling", "learned"]
    assert events[0]["text"] == "größer\n\x1b"
    assert events[2]["names"] == ["Tabs"]


def test_a_screen_that_is_gone_is_told_from_all_else() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    with pytest.raises(OutputClosed):
        Screen(Gone(), io.StringIO()).draw(Text("x"))
    Screen(io.StringIO(), Gone()).note("nobody is there to be told")


@each_case(
    "answer, failed, said",
    [
        ("", False, "0 lines"),
        ("", True, "failed"),
        ("one\ntwo\nexit code 1", True, "exit code 1"),
        ("Error: not allowed.\nmore", True, "not allowed."),
    ],
)
def test_what_came_of_a_call_is_said_in_a_few_words(answer: str, failed: bool, said: str) -> None:
    assert render_outcome(Called("1", "x", answer, failed, 0.0)) == said


def test_the_sign_that_something_goes_on_leaves_no_trace() -> None:
    class Watched(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Watched()
    screen = Screen(out, io.StringIO(), live=True)
    with screen.working():
        assert out.getvalue() == "…"
        for event in (Text("One."), Calling("1", "x", "x y", {}), Called("1", "x", "z", False, 0.0), TurnEnded("")):
            screen.draw(event)
        assert out.getvalue().endswith("\n…")
    assert out.getvalue().replace("…\b \b", "") == "One.\n· x y — z\n"
