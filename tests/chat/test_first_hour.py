"""The first hour with the chat, without a model: what a new user says, and what is kept and answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cases import each_case
from chat.scene import run
from memsheaf.chat.agent import Agent
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


def test_all_that_one_message_saved_is_taken_back_with_one_undo(user: User) -> None:
    answer = user.say("Remember:\n- I prefer tabs over spaces\n- in this project we deploy on Fridays")
    assert user.bodies == ["I prefer tabs over spaces", "in this project we deploy on Fridays"]
    assert answer.count("`/undo`") == 1

    user.say("undo")

    assert user.bodies == []


def test_what_one_message_forgot_and_saved_is_taken_back_with_one_undo(user: User) -> None:
    user.say("Remember that I live in Berlin.")

    user.say("Forget that I live in Berlin. Remember that I like green tea.")
    assert user.bodies == ["I like green tea."]
    user.say("undo")

    assert user.bodies == ["I live in Berlin."]


def test_forget_that_asks_which_one_if_several_were_saved(user: User) -> None:
    user.say("- my cat is Miso\n- my dog is Taro")

    assert user.say("forget that").startswith("Which one")
    assert len(user.bodies) == 2
    user.say("the first")
    assert len(user.bodies) == 1


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
        assert new in user.bodies
        assert new in answer
        assert old not in answer or answer.index(new) < answer.index(old)
    finally:
        user.agent.close(wait=60.0)


@each_case(
    "said, body",
    [
        ("Update the port: it is 7001", "the port: it is 7001"),
        ("Update the port: it is 7001. It changed in May.", "the port: it is 7001. It changed in May."),
        ("Correct my editor: vim", "my editor: vim"),
        ("Change the release day: that one is Monday", "the release day: that one is Monday"),
        ("Update the deployment day: we deploy on Fridays now", "we deploy on Fridays now"),
        ("Change my editor to helix", "Change my editor to helix"),
        ("Aktualisiere den Port: er ist 7001", "den Port: er ist 7001"),
        ("Actualiza el puerto: es 7001", "el puerto: es 7001"),
        ("更新端口：它是 7001", "端口：它是 7001"),
    ],
)
def test_an_update_is_stored_with_the_words_that_say_what_it_is_about(tmp_path: Path, said: str, body: str) -> None:
    user = open_user(tmp_path / str(abs(hash(said))))
    try:
        answer = user.say(said)
        assert user.bodies == [body]
        assert body in answer
    finally:
        user.agent.close(wait=60.0)


def test_a_named_file_does_not_get_a_text_that_nobody_understands_alone(user: User) -> None:
    user.say("Remember that the port of the api is 8443")
    (row,) = user.agent.memory.layers.list()

    answer = user.say(f"Update {user.agent.memory.layers.label(row.ref)}: it is 7001")

    assert user.bodies == ["the port of the api is 8443"]
    assert "Say in one message what it is about." in answer


# answers


def test_a_near_miss_is_no_answer_and_is_marked(user: User) -> None:
    user.say("My cat is called Miso", "My dog is called Taro", "The staging database is wiped every Sunday")
    for question in ("What is my bird called?", "Which port does staging use?", "What is the wifi password of Taro?"):
        answer = user.say(question)
        assert answer.startswith(NO_ANSWER), question
        assert answer.count("\n- ") <= 2
    answer = user.say("What is my cat called?")
    assert not answer.startswith(NO_ANSWER)
    assert "Miso" in answer
    assert "Taro" not in answer


def test_a_question_is_about_its_telling_words_in_every_language(user: User) -> None:
    user.say("my name is Ines", "Mein Hund heißt Rex", "Mi perro se llama Toby")
    assert "Ines" in user.say("what's my name?")
    assert "Rex" in user.say("Wie heißt mein Hund?")
    assert "Toby" in user.say("¿Cómo se llama mi perro?")
    for question in ("Wie heißt meine Katze?", "¿Cómo se llama mi gato?"):
        assert user.say(question).startswith(NO_ANSWER)


def test_a_question_that_nothing_is_near_to_is_answered_plainly(user: User) -> None:
    user.say("My cat is called Miso")
    answer = user.say("What is the capital of Mongolia?")
    assert answer.startswith(NO_ANSWER)
    assert "Miso" not in answer


@each_case("said", ["ok?", "hm", "hm?", "hmm", "thanks", "thx!", "really?", "why?", "and?", "lol", "👍", "...", "?"])
def test_a_word_that_asks_for_nothing_lists_no_memory(tmp_path: Path, said: str) -> None:
    user = open_user(tmp_path / str(abs(hash(said))), embedder="auto")
    try:
        user.say("My cat is called Miso", "Remember that I really like tea")
        answer = user.say(said)
        assert ".md" not in answer
        assert answer
        assert len(user.bodies) == 2
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
        assert said in user.bodies
    finally:
        user.agent.close(wait=60.0)


# lists


@each_case(
    "said",
    [
        "- my cat is Miso\n- my dog is Taro\n- I work at Acme",
        "my cat is Miso\nmy dog is Taro\nI work at Acme",
        "Remember:\n- my cat is Miso\n- my dog is Taro\n- I work at Acme",
        "Remember that my cat is Miso\nmy dog is Taro\nI work at Acme",
        "Please remember these:\n\n* my cat is Miso\n* my dog is Taro\n* I work at Acme",
    ],
)
def test_lines_of_facts_become_a_memory_each(tmp_path: Path, said: str) -> None:
    user = open_user(tmp_path / str(abs(hash(said))))
    try:
        user.say(said)
        assert user.bodies == ["I work at Acme", "my cat is Miso", "my dog is Taro"]
        user.say("undo")
        assert user.bodies == []
    finally:
        user.agent.close(wait=60.0)


@each_case("said", ["- I work at Acme\n- the sky is blue", "Hello! I work at Acme. the sky is blue"])
def test_what_is_not_kept_of_a_message_is_named(tmp_path: Path, said: str) -> None:
    user = open_user(tmp_path / str(abs(hash(said))))
    try:
        answer = user.say(said)
        assert [body.strip(".") for body in user.bodies] == ["I work at Acme"]
        assert "Not kept: the sky is blue. “Remember that …” keeps it." in answer
    finally:
        user.agent.close(wait=60.0)


def test_a_list_with_commas_stays_one_sentence(user: User) -> None:
    user.say("my cat is Miso, my dog is Taro, I work at Acme")
    assert user.bodies == ["my cat is Miso, my dog is Taro, I work at Acme"]


def test_facts_of_two_scopes_that_were_stated_in_one_message_are_taken_back_together(user: User) -> None:
    user.say("I prefer tabs over spaces. We deploy on Fridays.")
    assert user.bodies == ["I prefer tabs over spaces.", "We deploy on Fridays."]

    user.say("undo")

    assert user.bodies == []
