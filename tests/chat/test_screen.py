"""What a person sees of a turn, and what a program reads of it."""

from __future__ import annotations

import io
import json
import random

from cases import each_case
from memsheaf.chat.terminal.screen import (
    JsonScreen,
    Screen,
    memory_line,
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
