"""The first words of a new user in the chat without a model: what is said, what is kept, and what is answered."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]
Talk = Callable[..., list[str]]


@pytest.fixture
def talk(run: Run) -> Talk:
    """Say one thing after the other in one chat; gives the answer to each."""

    def talk(*messages: str) -> list[str]:
        code, out, err = run("chat", "--json", stdin="\n".join(messages))
        assert code == 0, err
        events = [json.loads(line) for line in out.splitlines()]
        return [event["answer"] for event in events if event["event"] == "ended"]

    return talk


@pytest.fixture
def remembered(run: Run) -> Callable[[], list[str]]:
    """Gives the texts that are remembered in all scopes."""

    def remembered() -> list[str]:
        _, out, _ = run("list", "--json")
        texts = []
        for row in json.loads(out)["memories"]:
            _, shown, _ = run("show", row["path"], "--json")
            texts.append(json.loads(shown)["body"].strip())
        return sorted(texts)

    return remembered


def test_each_fact_said_in_passing_that_is_kept_is_named_in_the_answer(
    talk: Talk, remembered: Callable[[], list[str]]
) -> None:
    said = "I prefer pnpm over npm. We deploy on Fridays. The lead of the billing team is Marta. Nice weather!"
    (answer,) = talk(said)

    facts = ["I prefer pnpm over npm.", "The lead of the billing team is Marta.", "We deploy on Fridays."]
    assert remembered() == facts
    assert all(answer.count(fact) == 1 for fact in facts)
    assert "weather" not in answer
    assert "/undo" in answer


def test_an_answer_names_nothing_where_nothing_was_kept(talk: Talk, remembered: Callable[[], list[str]]) -> None:
    off, again, twice = talk("Off the record: I live in Berlin.", "We deploy on Fridays.", "We deploy on Fridays.")

    assert "Saved" not in off
    assert "Berlin" not in off
    assert "Saved" in again
    assert twice.startswith("That is remembered already, in ")
    assert remembered() == ["We deploy on Fridays."]


def test_a_correction_of_nothing_is_kept_as_it_was_said_and_talk_is_not(
    talk: Talk, remembered: Callable[[], list[str]]
) -> None:
    talk("No, we deploy on Mondays.", "Nein, die Leiterin ist Nadia.", "Actually, I moved to Hamburg.")
    kept = ["Actually, I moved to Hamburg.", "Nein, die Leiterin ist Nadia.", "No, we deploy on Mondays."]
    assert remembered() == kept

    vague = talk("No, that's wrong.", "No", "Actually, where do I live?", "No, not now.", "No, it's Nadia.")
    assert remembered() == kept
    assert vague[-1] == "Say in one message what it is about."


def test_a_secret_said_in_passing_is_refused_with_the_reason_and_not_repeated(
    talk: Talk, remembered: Callable[[], list[str]]
) -> None:
    alone, beside = talk("my password is hunter2horse", "I prefer pnpm over npm. My password is hunter2horse.")

    for answer in (alone, beside):
        assert "holds a password" in answer
        assert "hunter2" not in answer
        assert "Remember that" not in answer
    assert "I prefer pnpm over npm." in beside
    assert remembered() == ["I prefer pnpm over npm."]


def test_an_answer_shows_only_memories_that_have_to_do_with_the_question(run: Run) -> None:
    facts = (
        "I prefer pnpm over npm",
        "We deploy on Fridays",
        "The lead of the billing team is Marta",
        "I live in Berlin",
        "The staging database is wiped every Sunday",
        "The auth service runs on PostgreSQL",
    )
    for fact in facts:
        run("remember", fact)
    for question, answer in (
        ("Where do I live?", "I live in Berlin"),
        ("When is staging wiped?", "The staging database is wiped every Sunday"),
        ("What do you know about the billing team?", "The lead of the billing team is Marta"),
        ("When do we deploy?", "We deploy on Fridays"),
    ):
        _, out, _ = run("chat", "-p", question, more={"MEMSHEAF_EMBEDDER": ""})
        assert [fact for fact in facts if fact in out] == [answer], question
    _, out, _ = run("chat", "-p", "What's for lunch?", more={"MEMSHEAF_EMBEDDER": ""})
    assert not out.startswith("Without a model I can only say what is remembered:")
