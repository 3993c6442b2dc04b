"""What conversations may cost: an allowance of their own, and what was stopped counts, too. And the scripted one."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path

import pytest

from memsheaf.errors import CapReached, ModelFailed
from memsheaf.limits import Caps, ChatCaps
from memsheaf.llm import Answer, Question
from memsheaf.llm.model import Request, Said, Spoken, Step
from memsheaf.llm.scripted import Scripted
from memsheaf.llm.spend import Ledger, Metered, MeteredTalker, Spent
from memsheaf.state import State
from scripted_talker import ScriptedTalker, TalkerLine

NOON = time.mktime((2026, 11, 15, 12, 0, 0, 0, 0, -1))
ASK = Request("s" * 10, [Said("user", "t" * 10, beside="b" * 10)], (), max_tokens=100)  # 32 bytes: 8 tokens
NOTHING = Said("assistant", "")
WIDE = ChatCaps()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(State(str(tmp_path / "spending")), clock=lambda: NOON)


def metered(ledger: Ledger, *lines: TalkerLine, caps: ChatCaps = WIDE) -> MeteredTalker:
    return MeteredTalker(ScriptedTalker(lines), ledger, caps)


def said(talker: MeteredTalker) -> str:
    return "".join(piece.text for piece in talker.talk(ASK) if isinstance(piece, Spoken))


def test_a_step_comes_through_and_is_in_the_ledger(ledger: Ledger) -> None:
    talker = metered(ledger, ["Yes", ".", Step(NOTHING, 50, 9, 40, 0.25)], ["No.", Step(NOTHING, 60, 3, 50, 0.5)])

    assert (said(talker), said(talker)) == ("Yes.", "No.")

    (row,) = ledger.summary()
    assert row._replace(seconds=0.0) == Spent("2026-11-15", "chat", "scripted", 2, 0, 0, 110, 12)
    assert talker.name == "scripted"


def test_who_is_stopped_pays_what_was_heard(ledger: Ledger) -> None:
    ended: list[str] = []

    class Endless:
        name = "endless"

        def talk(self, request: Request) -> Generator[Spoken | Step, None, None]:
            try:
                while True:
                    yield Spoken("x" * 40)
            finally:
                ended.append("closed")

    talker = MeteredTalker(Endless(), ledger, ChatCaps())
    pieces = talker.talk(ASK)
    next(pieces)
    next(pieces)
    assert ledger.spent().open == 1, "it is written down before it is asked, at the most it can cost"
    assert ledger.spent().tokens == 108
    pieces.close()

    assert ended == ["closed"], "nothing goes on behind it"
    spent = ledger.spent()
    assert (spent.open, spent.failures, spent.input, spent.output) == (0, 1, 8, 20)


@pytest.mark.parametrize("error", [ModelFailed("broke off"), KeyboardInterrupt()])
def test_a_step_that_fails_pays_what_was_heard(ledger: Ledger, error: BaseException) -> None:
    def stop(_: Request) -> str:
        raise error

    talker = metered(ledger, ["x" * 40, error] if isinstance(error, Exception) else stop)

    with pytest.raises(type(error)):
        said(talker)

    assert (ledger.spent().open, ledger.spent().failures, ledger.spent().input) == (0, 1, 8)
    assert ledger.spent().output == (10 if isinstance(error, ModelFailed) else 0)


@pytest.mark.parametrize("caps", [ChatCaps(requests_per_day=1), ChatCaps(tokens_per_day=120)])
def test_nothing_is_asked_beyond_the_caps_of_a_day(ledger: Ledger, caps: ChatCaps) -> None:
    script = ScriptedTalker([["x" * 40], "never"])
    talker = MeteredTalker(script, ledger, caps)
    said(talker)

    with pytest.raises(CapReached, match="a day is reached") as caught:
        said(talker)

    assert "2026-11-16 00:00" in str(caught.value)
    assert caught.value.hint
    assert len(script.asked) == 1
    assert ledger.spent().open == 0
    with pytest.raises(CapReached):
        said(MeteredTalker(ScriptedTalker(["never"]), ledger, caps))


def test_conversations_and_side_queries_do_not_eat_each_others_allowance(ledger: Ledger) -> None:
    question = Question("", "?", {}, max_tokens=10)
    few, chat = Caps(requests_per_day=1), ChatCaps(requests_per_day=1)

    def ask() -> object:
        return Metered(Scripted([Answer("yes")]), ledger, few, "extract").ask(question, deadline=5).value

    assert said(metered(ledger, "Hi.", caps=chat)) == "Hi."
    assert ask() == "yes"
    with pytest.raises(CapReached):
        said(metered(ledger, "Hi.", caps=chat))
    with pytest.raises(CapReached):
        ask()
    assert ledger.spent().requests == 2, "what is shown is all"
    assert (ledger.spent(chat=True).requests, ledger.spent(chat=False).requests) == (1, 1)
    assert [row.purpose for row in ledger.summary()] == ["chat", "extract"]


def test_nothing_is_asked_when_its_cost_cannot_be_noted(tmp_path: Path) -> None:
    (tmp_path / "state.db").mkdir()
    script = ScriptedTalker(["never"])
    talker = MeteredTalker(script, Ledger(State(str(tmp_path / "spending"))), ChatCaps())

    with pytest.raises(ModelFailed, match="was not asked"):
        said(talker)

    assert not script.asked
