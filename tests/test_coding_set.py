"""What the README of `benchmarks/data/coding` promises, so that a measurement on that set means something."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

from memsheaf.guard.paths import is_memory_path
from memsheaf.memory import Memory, check

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from benchmarks.coding_set import (  # noqa: E402
    ANSWERED,
    FOLDER,
    SPLITS,
    UNRELATED,
    CodingSet,
    Query,
    content_words,
    load,
)

LANGUAGES = {"en", "zh", "ja", "de", "es", "fr"}


@pytest.fixture(scope="module")
def coding() -> CodingSet:
    return load()


@pytest.fixture(scope="module")
def asked(coding: CodingSet) -> list[Query]:
    return [query for query in coding.queries if query.kind in ANSWERED]


@pytest.fixture(scope="module")
def unrelated(coding: CodingSet) -> list[Query]:
    return [query for query in coding.queries if query.kind in UNRELATED]


@pytest.fixture(scope="module")
def by_file(coding: CodingSet) -> dict[str, Memory]:
    return {memory.path: memory for memory in coding.memories}


def head_words(memory: Memory) -> frozenset[str]:
    return content_words(f"{memory.name} {memory.description}")


def all_words(memory: Memory) -> frozenset[str]:
    return head_words(memory) | content_words(memory.body)


def plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def test_every_memory_may_be_stored_under_the_name_it_has(coding: CodingSet) -> None:
    for memory in coding.memories:
        assert check(memory.path, memory.text).warnings == ()
        assert is_memory_path(memory.path)
        assert memory.path.startswith(f"{memory.type}_")
        assert 1 <= len(memory.body.splitlines()) <= 12, memory.path


def test_there_are_as_many_memories_and_queries_as_promised(
    coding: CodingSet, asked: list[Query], unrelated: list[Query]
) -> None:
    assert len(coding.memories) >= 200
    assert len(asked) >= 200
    assert len(unrelated) >= 80
    assert sum(query.hard for query in unrelated) >= 25
    assert {memory.type for memory in coding.memories} == {"user", "feedback", "project", "reference"}


def test_every_query_has_an_id_of_its_own_and_a_known_kind_and_language(coding: CodingSet) -> None:
    assert [query.id for query in coding.queries] == [f"q{number:03}" for number in range(1, len(coding.queries) + 1)]
    assert {query.kind for query in coding.queries} == {*ANSWERED, *UNRELATED}
    assert {query.language for query in coding.queries} == LANGUAGES


def test_gold_exists_where_something_should_be_recalled_and_only_there(
    coding: CodingSet, by_file: dict[str, Memory]
) -> None:
    for query in coding.queries:
        assert bool(query.gold) == (query.kind in ANSWERED), query
        assert set(query.gold) <= set(by_file), query
        assert len(set(query.gold)) == len(query.gold), query


def test_odd_ids_are_for_development_and_even_ones_for_the_test(coding: CodingSet) -> None:
    for query in coding.queries:
        assert query.split == SPLITS[(int(query.id[1:]) + 1) % 2], query
    assert {*coding.half("development"), *coding.half("test")} == set(coding.queries)


def test_no_memory_is_gold_in_both_halves(coding: CodingSet) -> None:
    development, test = ({file for query in coding.half(split) for file in query.gold} for split in SPLITS)
    assert development.isdisjoint(test)


def test_a_claim_of_no_overlap_holds_and_is_made_wherever_it_holds(
    asked: list[Query], by_file: dict[str, Memory]
) -> None:
    for query in asked:
        shared = content_words(query.query) & frozenset().union(*(head_words(by_file[file]) for file in query.gold))
        assert query.no_overlap == (not shared), (query, sorted(shared))


def test_no_query_copies_a_name_or_description(coding: CodingSet) -> None:
    for query in coding.queries:
        asked = plain(query.query)
        for memory in coding.memories:
            for said in (plain(memory.name), plain(memory.description)):
                assert f" {asked} " not in f" {said} ", query
                assert f" {said} " not in f" {asked} ", query


def test_nothing_in_it_looks_like_a_credential_or_a_real_address(coding: CodingSet) -> None:
    texts = [memory.text for memory in coding.memories] + [query.query for query in coding.queries]
    credential = re.compile(r"(?i)\b(?:sk|ghp|xox[bp]|akia)[-_a-z0-9]{16,}|BEGIN [A-Z ]*KEY|[0-9a-f]{32}")
    made_up = re.compile(r"(?:.*\.)?(?:example|test|example\.(?:com|org|net))")
    for text in texts:
        for host in re.findall(r"https?://([\w.-]+)|[\w.+-]+@([\w.-]+\.\w+)", text):
            assert made_up.fullmatch("".join(host).rstrip(".")), text
        assert not credential.search(text), text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The deployments were deployed", {"deplo"}),
        ("a series of things", {"ser"}),
        ("split_digits in maxBatchSize", {"split", "digit", "max", "batch", "siz"}),
        ("Die Größe der Anträge", {"gros", "antrag"}),
        ("为什么库存", {"么库", "库存"}),
    ],
)
def test_content_words_are_stems_without_stop_words(text: str, words: set[str]) -> None:
    assert content_words(text) == words


def test_the_readme_counts_what_is_there(coding: CodingSet, by_file: dict[str, Memory]) -> None:
    page = (Path(FOLDER) / "README.md").read_text(encoding="utf-8")
    for kind, count in Counter(query.kind for query in coding.queries).items():
        assert re.search(rf"^\| `{kind}` \| {count} \|", page, re.MULTILINE), kind
    queries = Counter(query.language for query in coding.queries if query.gold)
    nothing = Counter(query.language for query in coding.queries if not query.gold)
    for language in LANGUAGES:
        row = rf"^\| {language} \| \d+ \| {queries[language]} \| {nothing[language]} \|"
        assert re.search(row, page, re.MULTILINE), language
    assert f"{sum(query.no_overlap for query in coding.queries)} of the {sum(queries.values())}" in page
    apart = [
        query
        for query in coding.queries
        if query.no_overlap and not any(content_words(query.query) & all_words(by_file[file]) for file in query.gold)
    ]
    assert f"for {len(apart)} of the {sum(queries.values())} not even that does" in page
    for kind, count in Counter(memory.type for memory in coding.memories).items():
        assert re.search(rf"\b{count}\b[^.]* `{kind}`", page), kind
