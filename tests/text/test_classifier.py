"""The classifiers, on sentences that they were not trained on: floors, and what hostile text does to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsheaf.learn.sentences import MIN_WORTH
from memsheaf.text.classifier import BITS, CLASSES, classify, concerns, load

TRAINING = Path(__file__).parents[2] / "training"
LABELS = dict(zip("-FUPR", CLASSES, strict=True))


def held_out() -> list[tuple[str, str]]:
    lines = (TRAINING / "sentences" / "held-out.txt").read_text(encoding="utf-8").splitlines()
    return [(LABELS[line[0]], line[2:]) for line in lines if line[1:2] == " "]


def test_what_lasts_is_told_from_what_does_not_by_a_writer_it_was_not_trained_on() -> None:
    judged = [(kind, *classify(text)) for kind, text in held_out()]
    kept = [(kind, found) for kind, found, worth in judged if worth >= MIN_WORTH]
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


@pytest.mark.parametrize(
    "text", ["오늘 날씨가 좋네요", "مرحبا كيف حالك", "Привет, как дела?", "asdkjh qwoeiu zxmcnb", "", "!!!", "😀😀"]
)
def test_what_it_cannot_read_is_not_worth_keeping(text: str) -> None:
    assert classify(text)[1] < MIN_WORTH / 2


@given(st.text(st.characters(), max_size=300))
def test_any_text_has_a_type_and_a_likelihood(text: str) -> None:
    kind, worth = classify(text)

    assert kind in CLASSES[1:]
    assert 0 <= worth <= 1


def test_the_tables_are_whole() -> None:
    for name, classes in (("sentences", len(CLASSES)), ("messages", 5)):
        assert [len(weights) for weights in load(name).weights] == [1 << BITS] * classes
