from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsheaf.memory import Memory, compose
from memsheaf.text.similarity import (
    SAME,
    alike,
    coverage,
    fact,
    group_alike,
    has_order,
    likeness,
    prints,
    traces,
    words,
)

DAY = "2026-11-15"


def memory(body: str, name: str = "A name") -> Memory:
    return compose(name=name, description="D", kind="project", body=body, created=DAY, updated=DAY)


def test_words_are_compared_without_case_and_punctuation() -> None:
    for text, found in [
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
    ]:
        assert words(text) == found


def test_punctuation_becomes_a_blank_so_that_near_duplicates_do_not_slip_under() -> None:
    first = "Deploys go through CI/CD: build, test, stage, ship; never by hand, never on Friday afternoon."
    second = "Deploys go through CI CD - build test stage ship - never by hand never on Friday afternoon"

    assert likeness(words(first), words(second)) == 1.0
    glued = [frozenset("".join(c for c in text if c.isalnum() or c == " ").split()) for text in (first, second)]
    assert likeness(*glued) < SAME  # what happens when it is deleted instead


def test_nothing_is_like_nothing() -> None:
    assert likeness((), ()) == 0.0
    assert likeness(("a",), ()) == 0.0


def test_other_numbers_make_another_fact() -> None:
    first, second = (
        memory("The gateway listens on port 8080 behind the proxy."),
        memory("The gateway listens on port 8081 behind the proxy."),
    )

    assert alike(fact(first), fact(second)) == 0.0
    assert alike(fact(first), fact(first)) == 1.0


def test_a_contradiction_is_not_the_same() -> None:
    for first, second in [
        ("Use tabs and never use spaces when you indent.", "Use spaces and never use tabs when you indent."),
        ("Always squash a branch before you merge it.", "Do not always squash a branch before you merge it."),
        ("提交之前总是运行全部测试再推送", "提交之前不总是运行全部测试再推送"),
        ("Nachts wird die Datenbank gesichert.", "Nachts wird die Datenbank nicht gesichert."),
    ]:
        assert alike(fact(memory(first)), fact(memory(second))) == 0.0, first


def test_a_few_more_words_are_the_same() -> None:
    text = "The nightly import of orders runs at two in the morning on the small worker and takes an hour"

    assert alike(fact(memory(text)), fact(memory(text + " usually."))) >= SAME


def test_a_short_text_counts_with_its_name() -> None:
    short = [fact(memory("Fridays.", name)) for name in ("Release day", "Day off")]
    assert alike(*short) < SAME
    long = "Releases go out on Fridays after the tests of the night have passed."
    assert alike(*(fact(memory(long, name)) for name in ("Release day", "When we ship"))) == 1.0


def test_words_that_changed_places_are_another_order_even_beside_a_new_word() -> None:
    before = words("the parser calls the lexer first")

    assert has_order(before, words("the parser calls the lexer first, always"))
    assert not has_order(before, words("the lexer calls the parser first, always"))


def test_coverage_asks_for_the_words_of_one_side_only() -> None:
    assert coverage(words("tabs in Go"), words("we use tabs in all Go files")) == 1.0
    assert coverage(words("tabs in Go"), words("tabs in Python")) == 2 / 3
    assert coverage((), words("anything")) == 1.0


def test_each_fact_joins_the_first_keeper_that_it_may_join() -> None:
    texts = [
        "releases go out on fridays",
        "lunch is at noon",
        "releases go out on fridays",
        "releases go out on fridays",
    ]
    facts = list(map(words, texts))

    assert group_alike(facts, lambda keeper, other: True) == [[0, 2, 3]]
    assert group_alike(facts, lambda keeper, other: keeper == 2) == [[2, 3]]


@given(st.text(max_size=200))
def test_any_text_has_words(text: str) -> None:
    assert all(word and word == word.strip() for word in words(text))
    prints(words(text))
    assert len(traces(words(text))) == 16
