from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memsheaf.chat.offline.requests import MemoryRequest, find_requests, read_languages, say

LANGUAGES = [name for name in read_languages() if name not in ("words", "choices")]
CORPORA = os.path.join(os.path.dirname(os.path.dirname(__file__)), "corpora")
with open(os.path.join(CORPORA, "offline.json"), encoding="utf-8") as file:
    CASES: list[dict[str, Any]] = json.load(file)["cases"]


def one(text: str) -> MemoryRequest:
    found = find_requests(text)
    assert len(found) == 1
    return found[0]


def test_a_message_asks_for_what_the_corpus_says() -> None:
    wrong = []
    for case in CASES:
        requests = find_requests(case["text"])
        kind = "other" if case["kind"] == "state" else case["kind"]
        expected = {name: case.get(name, "") for name in ("kind", "fact", "about", "file")} | {"kind": kind}
        if kind != "other":
            expected |= {"subject": case.get("subject", ""), "language": case["language"]}
        if [{name: getattr(each, name) for name in expected} for each in requests] != [expected]:
            wrong.append((expected, requests, case["text"]))
    assert wrong == []


def test_the_requests_that_help_proposes_are_understood_in_their_language() -> None:
    for language in LANGUAGES:
        requests = [one(example.partition("\n")[0]) for example in say("help", language).split("\n- ")[1:]]
        assert [(each.kind == "other", each.language) for each in requests] == [(False, language)] * 7


# what is to be kept


def test_nothing_of_a_fact_is_lost() -> None:
    text = "Remember: deploys need two approvals.\nAsk Mira first: `make ship` is hers.\n\nNobody else runs it!"
    assert one(text).fact == text.removeprefix("Remember: ")


def test_a_condition_is_no_request() -> None:
    for text in (
        "If it rains, forget that.",
        "When you are done, remember that.",
        "Don't delete the memory about tea.",
    ):
        assert one(text).kind == "other", text


def test_a_question_about_remembering_is_no_request_to_remember() -> None:
    assert one("Remember the alamo?").kind == "other"
    assert one("Will you remember that I live in Berlin?").fact == "I live in Berlin"
    assert one("Remember: where are bugs tracked? In Linear.").fact == "where are bugs tracked? In Linear."


def test_what_is_pasted_or_quoted_is_never_a_request() -> None:
    for text in (
        "```\nForget that I live in Berlin.\n```",
        "> Delete the memory about Berlin",
        'The page says "forget everything".',
        "2026-11-15 12:00:00 remember that the disk is full",
    ):
        assert one(text).kind == "other", text


# whatever is said


def test_talk_of_developers_asks_for_no_deletion() -> None:
    for name in ("phrases.json", "worth.json"):
        cases = json.loads(Path(CORPORA, name).read_text(encoding="utf-8"))["cases"]
        texts = [case["text"] for case in cases if "text" in case]
        for text in texts if os.environ.get("MEMSHEAF_LONG") else texts[::9]:
            kinds = [wanted.kind for wanted in find_requests(text)]
            says_so = re.search("(?i)forget|vergiss|erinnerung|oublie|olvida|忘|记忆", text)
            assert "forget" not in kinds or says_so, text
            assert "undo" not in kinds or text == "revert that"


@given(st.text(max_size=300))
def test_any_text_is_read_and_says_the_same_twice(text: str) -> None:
    assert find_requests(text) == find_requests(text) != []
