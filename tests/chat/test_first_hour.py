"""The first hour with the chat, without a model: what a new user says, and what is kept and answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cases import each_case
from chat.scene import run
from memsheaf.chat.agent import Agent
from memsheaf.chat.offline.requests import find_requests, read_languages, say
from memsheaf.chat.permissions import Permission
from memsheaf.cli.chat_agent import open_agent
from memsheaf.config import Settings

NO_ANSWER = "Nothing that is remembered answers that."


class User:
    """Somebody who types into the chat."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def say(self, *messages: str) -> str:
        """Send messages one after the other, and return the answer to the last."""
        for message in messages:
            _, ended = run(self.agent, message)
        return ended.answer

    @property
    def bodies(self) -> list[str]:
        sheaf = self.agent.memory.layers
        return sorted(sheaf.read(row.ref).body.strip() for row in sheaf.list())


def open_user(folder: Path, embedder: str = "none") -> User:
    (folder / "work").mkdir(parents=True)
    home, cache, state = (str(folder / name) for name in ("home", "cache", "state"))
    settings = Settings(home, cache, state=state, embedder=embedder)
    return User(
        open_agent(settings, cwd=str(folder / "work"), model="offline", permission=Permission(lambda _: "no"))
    )


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    user = open_user(tmp_path)
    yield user
    user.agent.close(wait=60.0)


# one command, one undo


def test_both_that_were_forgotten_at_once_come_back_with_one_undo(user: User) -> None:
    user.say("Remember that tea is good for me.", "Remember that in this project tea is served at four.")
    before = user.bodies
    assert len(before) == 2

    answer = user.say("Forget tea", "both")

    assert user.bodies == []
    assert all(body in answer for body in before)
    assert answer.count("`/undo`") == 1
    assert user.say("undo").count("there again") == 2
    assert user.bodies == before


def test_what_says_more_than_was_named_is_shown_before_it_is_forgotten(user: User) -> None:
    said = "I live in Munich and my sister lives in Hamburg"
    user.say(f"Remember that {said}")

    answer = user.say("forget Munich")
    assert user.bodies == [said]
    assert said in answer
    assert "Nothing is deleted yet" in answer
    assert "`/undo`" in answer
    user.say("no")
    assert user.bodies == [said]

    assert "Deleted" in user.say("forget Munich", "yes")
    assert user.bodies == []
    user.say("undo", f"forget that {said}")
    assert user.bodies == []
    user.say("remember that I like jazz", "forget jazz")
    assert user.bodies == []


def test_what_one_message_forgot_and_saved_is_taken_back_with_one_undo(user: User) -> None:
    user.say("Remember that I live in Berlin.")

    user.say("Forget that I live in Berlin. Remember that I like green tea.")
    assert user.bodies == ["I like green tea."]
    user.say("undo")

    assert user.bodies == ["I live in Berlin."]


# changes


@each_case(
    "old, new, question",
    [
        ("I live in Porto", "Actually I live in Madrid now", "where do I live?"),
        ("I live in Porto", "I moved to Madrid", "where do I live?"),
        ("I live in Porto", "No, I live in Madrid", "Where do I live?"),
        ("My boss is Ana", "My boss is Rui now", "who is my boss?"),
    ],
)
def test_after_a_change_the_new_word_is_answered_first(tmp_path: Path, old: str, new: str, question: str) -> None:
    user = open_user(tmp_path / new.replace(" ", "-"), embedder="auto")
    try:
        answer = user.say(old, new, question)
        assert any(body.startswith(new) for body in user.bodies)
        assert new in answer
        assert old not in answer or answer.index(new) < answer.index(old)
    finally:
        user.agent.close(wait=60.0)


def test_a_text_that_nobody_understands_alone_stands_above_what_it_corrects(user: User) -> None:
    user.say("Remember that the port of the api is 8443")
    (row,) = user.agent.memory.layers.list()

    user.say(f"Update {user.agent.memory.layers.label(row.ref)}: it is 7001")

    (body,) = user.bodies
    assert body.startswith("it is 7001\n\nBefore that, as of ")
    assert body.endswith("the port of the api is 8443")


@each_case(
    "said, shown, correction",
    [
        ("The dev server port is 9080", "", "it's 9090 now"),
        ("We use Postgres 16 in this project", "", "no wait, it's 17"),
        ("The dev server port is 9080", "What is the dev server port?", "sorry, 3001"),
        ("Remember that the limit is 5 MB", "", "it's 10 MB now"),
        ("Remember that my sister is called Anna", "", "No, it's Nadia"),
    ],
)
def test_what_lacks_its_subject_corrects_the_memory_that_was_just_named(
    tmp_path: Path, said: str, shown: str, correction: str
) -> None:
    user = open_user(tmp_path / correction.replace(" ", "-"), embedder="auto")
    try:
        user.say("Remember that we deploy on Fridays", said, *filter(None, [shown]))
        answer = user.say(correction)
        assert f"→ “{correction}”" in answer
        assert len(user.bodies) == 2
        (body,) = [body for body in user.bodies if body.startswith(correction)]
        assert said.removeprefix("Remember that ") in body
        lines = [row.description for row in user.agent.memory.layers.list()]
        assert any(line.endswith(f"(before: {said.removeprefix('Remember that ')})") for line in lines)
    finally:
        user.agent.close(wait=60.0)


@each_case(
    "first, back",
    [
        ("no, it's 9090", "sorry, 8080 was right"),
        ("The API port is 9090 now", "8080 was right after all"),
        ("Nein, er ist 9090", "Nein, 8080 war doch richtig"),
    ],
)
def test_a_correction_is_corrected_back(tmp_path: Path, first: str, back: str) -> None:
    user = open_user(tmp_path / back.replace(" ", "-"), embedder="auto")
    try:
        answer = user.say("API port is 8080", first, back)
        assert f"“{first}” → “{back}”" in answer or f"„{first}“ → „{back}“" in answer
        (body,) = user.bodies
        assert body.startswith(f"{back}\n\nBefore that")
        assert back in user.say("what is the API port?")
    finally:
        user.agent.close(wait=60.0)


@each_case("said", ["sorry, 3001", "it's 10 MB now", "that's Tuesdays now", "They are on Mondays now"])
def test_what_lacks_its_subject_and_corrects_nothing_is_not_kept(tmp_path: Path, said: str) -> None:
    user = open_user(tmp_path / said.replace(" ", "-"), embedder="auto")
    try:
        user.say("Remember that I like jazz", "Thanks", said)
        assert user.bodies == ["I like jazz"]
    finally:
        user.agent.close(wait=60.0)


def test_a_memory_of_two_facts_is_shown_before_one_of_them_is_forgotten(user: User) -> None:
    user.say("Remember that I was born in Linz and my sister is called Eva.", "Remember that I like jazz.")

    answer = user.say("forget that I was born in Linz")

    assert "Nothing is deleted yet." in answer
    assert "my sister is called Eva" in answer
    assert len(user.bodies) == 2
    user.say("yes")
    assert user.bodies == ["I like jazz."]
    user.say("forget jazz")
    assert user.bodies == []


@each_case(
    "said, forget",
    [
        (["Nadia leads payments and Tom leads search"], "forget that Tom leads search"),
        (["Nadia leads payments and Tom leads search"], "forget that tom leads search"),
        (["API port is 8080", "no, it's 9090"], "forget that the API port is 8080"),
    ],
)
def test_a_memory_that_says_more_or_keeps_an_older_text_is_shown_first(
    tmp_path: Path, said: list[str], forget: str
) -> None:
    user = open_user(tmp_path / forget.replace(" ", "-"), embedder="auto")
    try:
        user.say(*said)
        (before,) = user.bodies
        answer = user.say(forget)
        assert "Nothing is deleted yet." in answer
        assert said[0] in answer
        assert user.bodies == [before]
        user.say("yes")
        assert user.bodies == []
    finally:
        user.agent.close(wait=60.0)


def test_forget_what_somebody_likes_names_the_memories_about_them(tmp_path: Path) -> None:
    user = open_user(tmp_path, embedder="auto")
    try:
        user.say("Remember that Tom likes jazz", "Remember that Tom likes tea")
        answer = user.say("forget what Tom likes")
        assert say("which") in answer
        assert "Tom likes jazz" in answer
        assert "Tom likes tea" in answer
        user.say("both")
        assert user.bodies == []
    finally:
        user.agent.close(wait=60.0)


@each_case(
    "said",
    [
        "change the api port to 9090",
        "Ändere den API port auf 9090",
        "Change le API port en 9090",
        "Cambia el API port a 9090",
        "把API port改成9090",
        "API portを9090に変えて",
    ],
)
def test_a_change_that_names_no_sentence_shows_what_may_be_meant(tmp_path: Path, said: str) -> None:
    user = open_user(tmp_path / str(len(said)))
    try:
        answer = user.say("Remember that the API port is 8080", said)
        assert answer.startswith(say("change", find_requests(said)[0].language))
        assert "the API port is 8080" in answer
        assert user.bodies == ["the API port is 8080"]
        user.say("Update project_api-port-8080.md: the API port is 9090")
        assert user.bodies == ["the API port is 9090"]
    finally:
        user.agent.close(wait=60.0)


@each_case(
    "said",
    [
        ["remember"],
        ["which port does the API use?", "remember that"],
        ["which port does the API use", "remember that"],
        ["remember", "remember that"],
        ["merk dir", "merk dir das"],
        ["retiens", "retiens ça"],
        ["recuerda", "recuerda eso"],
    ],
)
def test_where_there_is_nothing_to_remember_the_answer_asks_for_it(tmp_path: Path, said: list[str]) -> None:
    user = open_user(tmp_path / "-".join(said).replace(" ", "-").rstrip("?"))
    try:
        assert user.say(*said) == say("what to remember", find_requests(said[-1])[0].language)
        assert user.bodies == []
    finally:
        user.agent.close(wait=60.0)


def test_only_what_is_about_the_user_is_shown_and_deleted_as_such(tmp_path: Path) -> None:
    user = open_user(tmp_path, embedder="auto")
    try:
        user.say("Tom likes jazz", "In this project, always run make lint before a commit", "I use vim")
        assert len(user.bodies) == 3
        answer = user.say("Was weißt du über mich?")
        assert "I use vim" in answer
        assert "lint" not in answer
        assert "jazz" not in answer
        user.say("delete everything you know about me", "yes")
        assert "I use vim" not in user.bodies
        assert len(user.bodies) == 2
    finally:
        user.agent.close(wait=60.0)


# off the record


def test_what_is_not_to_be_remembered_is_no_failure(user: User) -> None:
    assert user.say("Don't remember this: I hate Mondays") == say("off record")
    assert user.bodies == []


@each_case(
    "stop, again",
    [
        ("stop remembering", "you can remember again"),
        ("Don't save anything in this conversation.", "Ok, start remembering again."),
        ("stop remembering", "Du darfst dir wieder etwas merken."),
    ],
)
def test_a_chat_that_keeps_nothing_says_how_that_ends_and_it_does(tmp_path: Path, stop: str, again: str) -> None:
    user = open_user(tmp_path / again.replace(" ", "-"), embedder="auto")
    try:
        assert "remember again" in user.say(stop)
        user.say("I live in Graz")
        assert user.bodies == []
        assert user.say(again) == say("resume", find_requests(again)[0].language)
        user.say("I live in Vienna")
        assert user.bodies == ["I live in Vienna"]
    finally:
        user.agent.close(wait=60.0)


def test_every_language_has_every_reply() -> None:
    languages = {name: words["replies"] for name, words in read_languages().items() if "replies" in words}

    assert {name: languages["English"].keys() - replies.keys() for name, replies in languages.items()} == {
        name: set() for name in languages
    }


# answers


@each_case(
    "said, question",
    [
        (["I use vim", "I don't use vim any more, I use helix"], "which editor do I use?"),
        (["I use vim", "I don't use vim any more, I use helix"], "what editor do I use"),
        (["Ich wohne in Graz"], "wo wohne ich"),
    ],
)
def test_a_question_is_answered_with_what_is_recalled_and_needs_no_mark(
    tmp_path: Path, said: list[str], question: str
) -> None:
    user = open_user(tmp_path / question.replace(" ", "-"), embedder="auto")
    try:
        user.say(*said)
        answer = user.say(question)
        assert said[-1] in answer
        assert NO_ANSWER not in answer
        assert "not kept" not in answer
    finally:
        user.agent.close(wait=60.0)


def test_beside_what_is_not_kept_stands_what_it_corrects_once_it_is_kept(tmp_path: Path) -> None:
    user = open_user(tmp_path, embedder="auto")
    try:
        answer = user.say("I work at Siemens", "I started at Bosch yesterday")
        assert "I work at Siemens" in answer
        assert "not kept" in answer
        user.say("remember that")
        (body,) = user.bodies
        assert body.startswith("I started at Bosch yesterday")
        assert "I work at Siemens" in body
    finally:
        user.agent.close(wait=60.0)


@each_case("said", ["Thank you " * 40, "thanks thanks, thank you so much!", "Danke danke danke", "Merci merci"])
def test_thanks_are_answered_however_often_they_are_said(tmp_path: Path, said: str) -> None:
    user = open_user(tmp_path / said[:20].replace(" ", "-"))
    try:
        assert user.say(said) == say("thanks", find_requests(said)[0].language)
        assert user.bodies == []
    finally:
        user.agent.close(wait=60.0)


def test_a_change_of_a_change_names_the_text_between(tmp_path: Path) -> None:
    user = open_user(tmp_path, embedder="auto")
    try:
        first = "We use Postgres for the shop, the port is 5432."
        answer = user.say(first, "The port is 5433 now.")
        assert f"“{first}” → “The port is 5433 now.”" in answer
        (row,) = user.agent.memory.layers.list()
        assert row.description == f"The port is 5433 now (before: {first[:-1]})"
        assert "“The port is 5433 now.” → “Actually, the port is 5432.”" in user.say("Actually, the port is 5432.")
        (row,) = user.agent.memory.layers.list()
        assert row.description.startswith("the port is 5432 (before: The port is 5433 now; We use Postgres")
    finally:
        user.agent.close(wait=60.0)


@each_case(
    "said",
    ["The office fridge is quite noisy", "I had a sandwich", "we might move to k8s", "Lunch is at noon"],
)
def test_a_statement_that_is_not_kept_is_answered_with_how_to_keep_it(tmp_path: Path, said: str) -> None:
    user = open_user(tmp_path / said.replace(" ", "-"))
    try:
        user.say("Remember that I like sandwiches")
        answer = user.say(said)
        assert len(user.bodies) == 1
        assert "not kept" in answer
        assert "“Remember that …” keeps it" in answer
        assert NO_ANSWER not in answer
        user.say("Remember that.")
        assert any(body.startswith(said) for body in user.bodies)
    finally:
        user.agent.close(wait=60.0)
