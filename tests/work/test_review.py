"""Review: cards with everything a decision needs, and decisions that can be undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsheaf.config import Settings
from memsheaf.errors import Changed, NotFound
from memsheaf.llm.scripted import Scripted
from memsheaf.recall.turns import Message, Turn
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import erase
from memsheaf.work.review import Review

SAID = "Hello there. Remember that our releases go out on Fridays. What is for lunch?"


@pytest.fixture
def layers(tmp_path: Path) -> Iterator[Sheaf]:
    (tmp_path / "work").mkdir()
    settings = Settings(home=str(tmp_path / "home"), cache=str(tmp_path / "cache"), embedder="none", policy="suggest")
    with Sheaf.open(settings=settings, cwd=str(tmp_path / "work"), by="user") as layers:
        yield layers


def learn(layers: Sheaf, said: str = SAID, conversation: str = "c1", model: Scripted | None = None) -> None:
    layers.learn(Turn(conversation, (Message("user", said),)))
    layers.distil(model or "none")


def update(file: str, content: str) -> Scripted:
    memory = {
        "action": "update", "file": file, "name": "Release day", "description": "When releases go out",
        "type": "project", "content": content, "scope": "persistent", "messages": [1],
    }  # fmt: skip
    return Scripted([{"memories": [memory]}])


def test_a_card_has_the_quoted_words_and_the_replaced_memory(layers: Sheaf) -> None:
    old = layers.write("Release day", "When releases go out", "project", "Our releases go out on Mondays.").path
    learn(layers, model=update(old, "Our releases go out on Fridays."))

    (item,) = Review(layers).waiting()
    card = Review(layers).card(item.id[:4])

    assert (item.state, item.name, item.why) == ("proposed", "Release day", "the policy of this scope is to ask")
    assert card.quote == "Hello there. Remember that our releases go out on Fridays. What is for lunch?"
    assert card.conversation.startswith("c1")
    assert (card.replaces and card.replaces.path, card.before) == (old, "Our releases go out on Mondays.")
    assert card.content == "Our releases go out on Fridays."
    assert card.problems == ()
    layers.revise(old, "Mondays", "Tuesdays")
    assert Review(layers).card(item.id).problems == (f"{old} was changed since this was proposed",)


def test_an_approval_is_undone_and_the_proposal_waits_again(layers: Sheaf) -> None:
    learn(layers)
    review = Review(layers)
    (item,) = review.waiting()

    decision = review.approve(item.id, content="Releases go out on Thursdays.")
    assert (decision.outcome, review.waiting()) == ("approved", [])
    assert layers.read(decision.ref or "").body == "Releases go out on Thursdays.\n"

    assert review.undo().id == item.id
    assert layers.list() == []
    assert review.waiting() == [item]
    assert review.card(item.id).quote
    review.approve(item.id)
    layers.undo()
    assert review.undo().id == item.id, "it was undone already"
    assert (review.waiting(), layers.list()) == ([item], [])
    with pytest.raises(NotFound):
        review.undo(item.id)


def test_an_approval_of_what_was_changed_since_is_not_undone(layers: Sheaf) -> None:
    learn(layers)
    review = Review(layers)
    decision = review.approve(review.waiting()[0].id)
    layers.insert(decision.ref or "", 1, "Or on Sundays.")

    with pytest.raises(Changed):
        review.undo()

    assert (len(review.decisions()), review.waiting()) == (1, [])


def test_a_rejection_keeps_its_reason_and_undoing_it_lifts_the_tombstone(layers: Sheaf) -> None:
    learn(layers)
    review = Review(layers)
    (item,) = review.waiting()

    review.reject(item.id, reason=" not ours; key AKIAIOSFODNN7EXAMPLQ ")
    (decision,) = review.decisions()
    assert decision.reason.startswith("not ours; key [removed")
    assert layers.own.store.buried_all()

    review.undo(item.id)
    assert review.waiting() == [item]
    assert layers.own.store.buried_all() == []


def test_decisions_about_memories_are_undone_by_their_commit(layers: Sheaf) -> None:
    first = layers.write("Wiki", "d", "project", "The wiki says to use staging.", trust="unconfirmed").path
    second = layers.write("Mail", "d", "project", "A page says to mail the ops.", trust="unconfirmed").path
    third = str(layers.write("Port", "d", "user", "The proxy listens on port 8080.").ref)
    with Sheaf.open(settings=layers.settings, cwd=layers.cwd, by="agent") as agent:
        agent.revise(agent.resolve(third), "8080", "9090")
    review = Review(layers)
    assert {(one.id, one.state) for one in review.waiting()} == {
        (first, "unconfirmed"),
        (second, "unconfirmed"),
        (third, "changed"),
    }
    card = review.card(third)
    assert (card.before, card.content) == ("The proxy listens on port 8080.", "The proxy listens on port 9090.")

    review.approve(first, content="The wiki says to use production.")
    review.reject(second, reason="a page")
    review.reject(third)
    assert "production" in layers.read(first).body
    assert "8080" in layers.read(layers.resolve(third)).body
    assert review.waiting() == []
    assert next(iter(layers.log())).why == "rejected: a page"

    for name in (third, second, first):
        assert review.undo().id == name
    assert layers.read(first).trust == "unconfirmed"
    assert "staging" in layers.read(first).body
    assert len(review.waiting()) == 3
    with pytest.raises(NotFound):
        review.undo()


def test_erasing_takes_decisions_away_and_few_are_kept(layers: Sheaf) -> None:
    learn(layers)
    review = Review(layers)
    decision = review.approve(review.waiting()[0].id)
    learn(layers, "Remember that our proxy listens on port 8080.", "c2")
    review.reject(review.waiting()[0].id, reason="Our releases go out on Fridays.")

    proof = erase(layers.own, decision.ref.path if decision.ref else "")

    assert proof.left == ()
    assert review.decisions() == []
    for number in range(55):
        learn(layers, f"Remember that host{number} runs service{number}.", f"d{number}")
        review.reject(review.waiting()[0].id)
    assert len(review.decisions()) == 50


def test_only_what_is_in_one_scope(layers: Sheaf) -> None:
    path = str(layers.write("Tabs", "d", "user", "A page says to use tabs.", trust="unconfirmed").ref)
    learn(layers)
    assert len(Review(layers).waiting()) == 2
    assert [one.state for one in Review(layers, scope="project").waiting()] == ["proposed"]
    assert [one.id for one in Review(layers, scope="user").waiting()] == [path]


def test_a_memory_that_changed_since_its_card_was_shown_is_not_decided_about(layers: Sheaf) -> None:
    path = (
        layers.only("project").write("Mood", "how to answer", "feedback", "Answer briefly.", trust="unconfirmed").path
    )
    review = Review(layers)
    seen = review.card(path).version
    layers.revise(path, "briefly", "at length")
    for decide in (review.approve, review.reject):
        with pytest.raises(Changed):
            decide(path, expect=seen)
    assert layers.read(path).trust == "unconfirmed"
    review.approve(path, expect=review.card(path).version)
    assert layers.read(path).trust == "confirmed"
