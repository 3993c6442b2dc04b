from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsheaf.chat.offline.phrases import lists, says
from memsheaf.chat.offline.requests import KINDS, LONGEST, Wanted, chosen, requested, spoken_in
from memsheaf.text.phrases import LANGUAGES

CORPORA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "corpora")
with open(os.path.join(CORPORA, "offline.json"), encoding="utf-8") as file:
    CASES: list[dict[str, Any]] = json.load(file)["cases"]
NOTHING = ("other", "state")
HARMLESS = ("know", "list", "index", "both", "search", "help", "thanks", "greeting", *NOTHING)


def case_name(case: dict[str, Any]) -> str:
    return str(case["text"])[:60]


def one(text: str) -> Wanted:
    found = requested(text)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_a_message_asks_for_what_the_corpus_says(case: dict[str, Any]) -> None:
    wanted = one(case["text"])

    held = {name: case.get(name, "") for name in ("fact", "about", "file", "sort")}
    assert wanted.kind == case["kind"]
    assert {name: getattr(wanted, name) for name in held} == held
    assert wanted.also is case.get("also", False)
    if case["kind"] not in NOTHING:
        assert (wanted.subject, wanted.language) == (case.get("subject", ""), case["language"])


def test_the_corpus_has_every_request_in_every_language() -> None:
    for language in LANGUAGES:
        kinds = {case["kind"] for case in CASES if case["language"] == language}
        assert kinds >= {"remember", "know", "update", "forget", "list", "index", "search", "undo", "create", "other"}
    assert len(CASES) >= 120


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_list_and_every_answer(language: str) -> None:
    needed = {*KINDS, "before", "polite", "also", "hollow", "lead", "yes", "no", "new", "every", "first", "last"}
    assert needed <= set(lists(language))
    assert set(says(language)) == set(says("English"))
    for name, text in says(language).items():
        assert set(re.findall(r"\{(\w+)\}", text)) == set(re.findall(r"\{(\w+)\}", says("English")[name]))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_phrase_names_only_lists_that_exist(language: str) -> None:
    for title, phrases in lists(language).items():
        for phrase in phrases if title != "says" else ():
            named = set(re.findall(r"\{([^}]+)\}", phrase)) - {"file", "path"}
            assert named <= set(lists(language)), f"{language}, {title}: {phrase}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_requests_that_help_proposes_are_understood(language: str) -> None:
    examples = re.findall(r"(?m)^- (.+)$", says(language)["help"])
    assert len(examples) >= 7
    assert not [example for example in examples if one(example).kind in NOTHING]
    assert [one(example).language for example in examples] == [language] * len(examples)


# what is to be kept


def test_nothing_of_a_fact_is_lost() -> None:
    text = "Remember: deploys need two approvals.\nAsk Mira first: `make ship` is hers.\n\nNobody else runs it!"
    assert one(text).fact == text.removeprefix("Remember: ")


def test_a_courtesy_and_a_question_are_no_part_of_a_fact() -> None:
    assert one("Hello! We use pnpm. Is that fine? Please remember that. Thanks!").fact == "We use pnpm."


def test_code_in_a_fact_stays_as_it_is() -> None:
    assert one('Remember that `git push --force` needs "two" approvals.').fact == (
        '`git push --force` needs "two" approvals.'
    )


def test_a_condition_is_no_request() -> None:
    for text in (
        "If it rains, forget that.",
        "When you are done, remember that.",
        "Don't delete the memory about tea.",
    ):
        assert one(text).kind in NOTHING, text


def test_several_requests_are_all_found_in_their_order() -> None:
    found = requested("Forget that I live in Berlin. Remember that I live in Hamburg.")
    assert [(each.kind, each.subject or each.fact) for each in found] == [
        ("forget", "I live in Berlin"),
        ("remember", "I live in Hamburg."),
    ]


def test_a_question_about_remembering_is_no_request_to_remember() -> None:
    assert one("Remember the alamo?").kind == "other"
    assert one("Will you remember that I live in Berlin?").kind == "remember"


def test_what_is_pasted_or_quoted_is_never_a_request() -> None:
    for text in (
        "```\nForget that I live in Berlin.\n```",
        "> Delete the memory about Berlin",
        'The page says "forget everything".',
        "2026-11-15 12:00:00 remember that the disk is full",
    ):
        assert one(text).kind in NOTHING, text


# answers to a question


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("2", ("2",)),
        ("The second, please.", ("2",)),
        ("delete the first one", ("1",)),
        ("1 and 3", ("1", "3")),
        ("the last one", ("last",)),
        ("both", ("every",)),
        ("Yes", ("yes",)),
        ("none of them", ("no",)),
        ("new", ("new",)),
        ("user_tabs.md", ("user_tabs.md",)),
        ("I mean `user_tabs.md`", ("user_tabs.md",)),
        ("die zweite", ("2",)),
        ("beide", ("every",)),
        ("le deuxième", ("2",)),
        ("los dos", ("every",)),
        ("第二个", ("2",)),
        ("二つ目", ("2",)),
        ("What is the second law?", ()),
        ("Remember that I live in Berlin", ()),
        ("", ()),
    ],
)
def test_an_answer_is_understood_or_it_is_none(text: str, means: tuple[str, ...]) -> None:
    assert chosen(text) == means


# whatever is said


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in values for text in strings(each)]


@pytest.mark.parametrize("name", sorted(each.name for each in Path(CORPORA).glob("*.json")))
def test_no_text_of_the_corpora_is_too_much(name: str) -> None:
    for text in sorted(set(strings(json.loads(Path(CORPORA, name).read_text(encoding="utf-8"))))):
        assert requested(text)
        chosen(text)


def test_talk_of_developers_asks_for_no_deletion() -> None:
    for name in ("phrases.json", "worth.json", "ignore.json", "dates.json"):
        cases = json.loads(Path(CORPORA, name).read_text(encoding="utf-8"))["cases"]
        for text in (case["text"] for case in cases if "text" in case):
            kinds = [wanted.kind for wanted in requested(text)]
            says_so = re.search("(?i)forget|vergiss|erinnerung|oublie|olvida|忘|记忆", text)
            assert "forget" not in kinds or says_so, text
            assert "undo" not in kinds or text == "revert that"


@given(st.text(max_size=300))
def test_any_text_is_read_and_says_the_same_twice(text: str) -> None:
    assert requested(text) == requested(text) != ()
    assert set(spoken_in(text)) <= set(LANGUAGES)
    assert isinstance(chosen(text), tuple)


WORDS = sorted({word for case in CASES for word in str(case["text"]).split()})


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_words_of_requests_in_any_order_are_read(text: str) -> None:
    for wanted in requested(text):
        assert wanted.kind in (*HARMLESS, "remember", "update", "forget", "undo", "create")
        assert wanted.fact == "" or wanted.fact.strip() == wanted.fact


def test_a_long_message_is_read_in_no_time_that_grows_with_its_square() -> None:
    long = "remember that " + "we and you, please " * 20_000
    assert one(long).kind == "remember"
    assert len(one(long).fact) > LONGEST
    assert requested("a " * 100_000)
    assert requested("delete " * 50_000)
    assert requested("Remember that. " * 20_000)
    assert len(one("Remember: " + "We use it. " * 30_000).fact) > 300_000
    assert requested("`a.py` " * 50_000)
    assert len(one("Forget that " + "tea " * 100_000).subject) <= LONGEST
