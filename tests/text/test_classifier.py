"""The classifiers, on sentences that they were not trained on: floors, and what hostile text does to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsheaf.learn.corrections import SURE, is_corrected
from memsheaf.learn.sentences import LASTING
from memsheaf.learn.statements import read_statement
from memsheaf.text.classifier import BITS, CLASSES, classify, concerns, load, replaces

TRAINING = Path(__file__).parents[2] / "training"
LABELS = dict(zip("-FUPR", CLASSES, strict=True))


def held_out() -> list[tuple[str, str]]:
    lines = (TRAINING / "sentences" / "held-out.txt").read_text(encoding="utf-8").splitlines()
    return [(LABELS[line[0]], line[2:]) for line in lines if line[1:2] == " "]


def held_out_pairs() -> list[tuple[bool, str, str]]:
    lines = (TRAINING / "pairs" / "held-out.jsonl").read_text(encoding="utf-8").splitlines()
    return [(bool(one["same"]), one["old"], one["new"]) for one in map(json.loads, lines)]


def test_what_lasts_is_told_from_what_does_not_by_a_writer_it_was_not_trained_on() -> None:
    judged = [(kind, *classify(text)) for kind, text in held_out()]
    kept = [(kind, found) for kind, found, worth in judged if worth >= LASTING]
    right = [kind == found for kind, found in kept if kind]

    assert len(right) / sum(bool(kind) for kind, *_ in judged) >= 0.88
    assert len(right) / len(kept) >= 0.8
    assert sum(right) / len(right) >= 0.8


def test_a_message_about_the_users_own_things_is_told_from_any_other() -> None:
    lines = (TRAINING / "messages" / "held-out.txt").read_text(encoding="utf-8").splitlines()
    own = [concerns(line[2:]) >= 0.5 for line in lines if line[0] == "M"]
    others = [concerns(line[2:]) >= 0.5 for line in lines if line[0] != "M"]

    assert sum(own) / len(own) >= 0.9
    assert sum(others) / len(others) <= 0.15


def test_no_other_fact_is_taken_for_a_correction() -> None:
    judged = [(same, is_corrected(old, read_statement(new))) for same, old, new in held_out_pairs()]

    assert sum(found for same, found in judged if not same) == 0  # in doubt both stay


def test_a_fact_takes_no_place_of_one_that_is_about_something_else() -> None:
    pairs = held_out_pairs()
    olds, news = [old for _, old, _ in pairs[:80]], [read_statement(new) for _, _, new in pairs[:80]]
    wrong = [
        (old, said.text)
        for at, old in enumerate(olds)
        for number, said in enumerate(news)
        if at // 2 != number // 2 and olds[number] != old and is_corrected(old, said)
    ]

    assert len(wrong) <= 1, wrong  # of 6,000


@pytest.mark.parametrize(
    "text", ["오늘 날씨가 좋네요", "مرحبا كيف حالك", "Привет, как дела?", "asdkjh qwoeiu zxmcnb", "", "!!!", "😀😀"]
)
def test_what_it_cannot_read_is_not_worth_keeping(text: str) -> None:
    assert classify(text)[1] < LASTING / 2


@given(st.text(st.characters(), max_size=300), st.text(st.characters(), max_size=300))
def test_any_text_has_a_type_and_a_likelihood(one: str, other: str) -> None:
    kind, worth = classify(one)

    assert kind in CLASSES[1:]
    assert 0 <= worth <= 1
    assert 0 <= replaces(one, other) <= 1


def test_sentences_that_share_no_word_have_nothing_to_do_with_each_other() -> None:
    assert replaces("Deploys go out on Tuesdays.", "Kim owns billing now.") == 0
    assert replaces("Deploys go out on Tuesdays.", "We deploy on Wednesdays now.") > SURE / 4


def test_the_tables_are_whole() -> None:
    for name, classes in (("sentences", len(CLASSES)), ("corrections", 2), ("messages", 5)):
        assert [len(weights) for weights in load(name).weights] == [1 << BITS] * classes
