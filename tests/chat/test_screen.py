"""What a person sees of a turn, and what a program reads of it."""

from __future__ import annotations

import io
import random

from cases import each_case
from memsheaf.chat.terminal.screen import (
    Screen,
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
