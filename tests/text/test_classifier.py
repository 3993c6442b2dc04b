"""The classifiers, on sentences that they were not trained on: floors, and what hostile text does to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsheaf.learn.sentences import MIN_WORTH
from memsheaf.text.classifier import CLASSES, classify, concerns, guess_scope

TRAINING = Path(__file__).parents[2] / "training"
LABELS = dict(zip("-FUPR", CLASSES, strict=True))


def held_out() -> list[tuple[str, str]]:
    return [(LABELS[label[0]], text) for label, text in labelled("sentences")]


def labelled(folder: str) -> list[tuple[str, str]]:
    lines = (TRAINING / folder / "held-out.txt").read_text(encoding="utf-8").splitlines()
    return [(label, text) for label, sign, text in (line.partition(" ") for line in lines) if sign]


def test_what_lasts_is_told_from_what_does_not_by_a_writer_it_was_not_trained_on() -> None:
    judged = [(kind, *classify(text)) for kind, text in held_out()]
    kept = [(kind, found) for kind, found, worth in judged if worth >= MIN_WORTH]
    right = [kind == found for kind, found in kept if kind]

    assert len(right) / sum(bool(kind) for kind, *_ in judged) >= 0.88
    assert len(right) / len(kept) >= 0.8
    assert sum(right) / len(right) >= 0.8


@pytest.mark.parametrize(("folder", "least"), [("sentences", 0.85), ("scopes", 0.9)])
def test_what_is_about_the_person_is_told_from_what_is_about_the_work(folder: str, least: float) -> None:
    usual = {"F": "u", "U": "u", "P": "p", "R": "p"}
    scopes = [(label[1:] or usual.get(label, label), guess_scope(text)) for label, text in labelled(folder)]
    users = [scope == "user" for label, scope in scopes if label == "u"]
    projects = [scope == "project" for label, scope in scopes if label == "p"]

    assert sum(users) / len(users) >= least
    assert sum(projects) / len(projects) >= least


def test_the_reason_behind_a_rule_does_not_decide_whose_it_is() -> None:
    rule = "Keep your answers short."
    reason = "**Why:** in this repository the release pipeline of the billing service prints 900 lines a run."

    assert guess_scope(f"{rule}\n\n{reason}") == guess_scope(f"{rule}\n{reason}") == "user"
    assert guess_scope(f"# The deploy of the billing service\n\n{rule}\n\n{reason}") == "user"


def test_in_doubt_a_fact_that_was_given_a_type_of_the_work_stays_with_it() -> None:
    for text in ("", "x", "Text", "Alpha", "Fridays."):
        assert guess_scope(text, "project") == "project"


def test_what_is_of_the_type_user_is_the_persons_whatever_it_says() -> None:
    assert guess_scope("Staging is wiped every Sunday.", "user") == "user"
    assert guess_scope("Staging is wiped every Sunday.", "feedback") == "project"


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
    assert guess_scope(text) in ("user", "project")
