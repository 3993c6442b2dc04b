from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsheaf.memory import Memory, compose
from memsheaf.text.similarity import (
    LIKE,
    SHARED,
    alike,
    fact,
    likeness,
    prints,
    same,
    telling,
    tokens,
    traces,
    words,
)

DAY = "2026-11-15"


def memory(body: str, name: str = "A name") -> Memory:
    return compose(name=name, description="D", kind="project", body=body, created=DAY, updated=DAY)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Use tabs, not spaces!", ["use", "tabs", "not", "spaces"]),
        ("state-of-the-art", ["state", "of", "the", "art"]),
        ("snake_case CamelCase", ["snake", "case", "camelcase"]),
        ("Don't. Don’t.", ["dont", "dont"]),
        ("STRASSE straße", ["strasse", "strasse"]),
        ("Ｆｕｌｌ width", ["full", "width"]),
        ("用制表符缩进", ["用制", "制表", "表符", "符缩", "缩进"]),
        ("用 tabs 缩", ["用", "tabs", "缩"]),
        ("تاريخ الإصدار", ["تاريخ", "الإصدار"]),
        ("🎉 party 🎉", ["party"]),
        ("…—!", []),
    ],
)
def test_words_are_compared_without_case_and_punctuation(text: str, found: list[str]) -> None:
    assert words(text) == found


def test_punctuation_becomes_a_blank_so_that_near_duplicates_do_not_slip_under() -> None:
    first = "Deploys go through CI/CD: build, test, stage, ship; never by hand, never on Friday afternoon."
    second = "Deploys go through CI CD - build test stage ship - never by hand never on Friday afternoon"

    assert likeness(tokens(first), tokens(second)) == 1.0
    glued = [frozenset("".join(c for c in text if c.isalnum() or c == " ").split()) for text in (first, second)]
    assert likeness(*glued) < LIKE  # what happens when it is deleted instead


def test_nothing_is_like_nothing() -> None:
    assert likeness((), ()) == 0.0
    assert likeness(("a",), ()) == 0.0


def test_other_numbers_make_another_fact() -> None:
    first, second = (
        memory("The gateway listens on port 8080 behind the proxy."),
        memory("The gateway listens on port 8081 behind the proxy."),
    )

    assert alike(fact(first), fact(second)) == 0.0
    assert same(first, second) == 0.0
    assert alike(fact(first), fact(first)) == 1.0


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Use tabs and never use spaces when you indent.", "Use spaces and never use tabs when you indent."),
        ("Always squash a branch before you merge it.", "Do not always squash a branch before you merge it."),
        ("提交之前总是运行全部测试再推送", "提交之前不总是运行全部测试再推送"),
        ("Nachts wird die Datenbank gesichert.", "Nachts wird die Datenbank nicht gesichert."),
    ],
)  # fmt: skip
def test_a_contradiction_is_not_the_same(first: str, second: str) -> None:
    assert same(memory(first), memory(second)) == 0.0


def test_a_few_more_words_are_the_same() -> None:
    text = "The nightly import of orders runs at two in the morning on the small worker and takes an hour"

    assert same(memory(text), memory(text + " usually.")) >= LIKE


def test_a_short_text_counts_with_its_name() -> None:
    assert same(memory("Fridays.", "Release day"), memory("Fridays.", "Day off")) < LIKE
    long = "Releases go out on Fridays after the tests of the night have passed."
    assert same(memory(long, "Release day"), memory(long, "When we ship")) == 1.0


def test_the_most_usual_words_tell_nothing() -> None:
    assert telling("The release is on Friday") == {"release", "friday"}


@pytest.mark.parametrize("size", [1, 2, 5, 8, 12, 20, 33, 60, 120, 400])
def test_near_duplicates_share_their_traces(size: int) -> None:
    random = Random(size)
    known = [f"word{number}" for number in range(20_000)]
    for _ in range(200):
        first = set(random.sample(known, size))
        second = set(first)
        while second and likeness(first, second) >= LIKE:
            last = set(second)
            second = (
                second - {random.choice(sorted(second))} if random.random() < 0.5 else second | {random.choice(known)}
            )
        assert likeness(first, last) >= LIKE
        common = zip(traces(first), traces(last), strict=True)
        assert sum(one == other for one, other in common) >= SHARED


def test_texts_with_a_fifth_of_their_words_in_common_hardly_ever_do() -> None:
    random = Random("fifth")
    known = [f"word{number}" for number in range(20_000)]
    found = 0
    for size in (20, 40, 80, 160):
        for _ in range(250):
            both = set(random.sample(known, size // 3))
            first, second = (both | set(random.sample(known, size - len(both))) for _ in range(2))
            assert 0.15 < likeness(first, second) < 0.25
            found += len(set(traces(first)) & set(traces(second))) >= SHARED
    assert found < 20


@given(st.text(max_size=200))
def test_any_text_has_words(text: str) -> None:
    assert all(word and word == word.strip() for word in words(text))
    prints(words(text))
    assert len(traces(words(text))) == 16
