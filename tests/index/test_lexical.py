"""Words as people search them, and which memories share them with a question."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memsheaf.index.database import WORD_TABLES
from memsheaf.index.lexical import put_words, rank_by_words
from memsheaf.memory import Memory, parse
from memsheaf.sheaf import Sheaf
from memsheaf.text.tokenizer import stem, words
from memsheaf.transfer import take_in

# stems


@pytest.mark.parametrize(
    "forms",
    [
        ("deploy", "deploys", "deployed", "deploying", "deployment", "deployments"),
        ("test", "tests", "tested", "testing"),
        ("configure", "configured", "configuring"),
        ("index", "indexed", "indexing"),
        ("policy", "policies"),
        ("migrate", "migrated", "migration", "migrations"),
    ],
    ids=lambda forms: forms[0],
)
def test_forms_of_a_word_are_one(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


# words


@given(st.text())
def test_words_are_letters_and_digits_whatever_the_text(text: str) -> None:
    for word in words(text):
        assert word
        assert " " not in word
        assert '"' not in word
        assert all(not letter.isascii() or letter.isalnum() for letter in word)


# which memories share them

Ask = Callable[..., list[tuple[str, float]]]


def memory(name: str, description: str = "d", body: str = "b", path: str = "") -> Memory:
    text = f"---\nname: {name}\ndescription: {description}\ntype: user\n---\n{body}\n"
    return parse(path or f"{name.lower().replace(' ', '-')}.md", text.encode())


@pytest.fixture
def ask() -> Iterator[Ask]:
    """Put memories in a new index and ask it; the answers by name."""
    db = sqlite3.connect(":memory:")
    for statement in WORD_TABLES.split(";\n"):
        db.execute(statement)

    def answer(question: str, *memories: Memory, limit: int = 50) -> list[tuple[str, float]]:
        db.execute("DELETE FROM words")
        for number, one in enumerate(memories):
            put_words(db, number, one)
        hits = rank_by_words(db, question, total=len(memories))[:limit]
        return [(memories[hit.row].name, hit.common) for hit in hits]

    yield answer
    db.close()


def names(answer: list[tuple[str, float]]) -> list[str]:
    return [name for name, _ in answer]


def test_what_is_in_common_is_counted_in_telling_words(ask: Ask) -> None:
    zebras = [memory(f"Zebra {number}", body="zebra") for number in range(20)]
    assert {round(common, 1) for _, common in ask("how is the zebra?", *zebras)} == {0.9}
    assert ask("thanks, works great", memory("Pipeline", "how it works"))[0][1] < 0.2
    assert ask("rotate kafka certificates", memory("Rotate Kafka certificates"))[0][1] > 2.5
    assert ask("weather tomorrow", memory("Tabs")) == []
    assert ask("the of and", memory("Tabs")) == []
    assert ask("", memory("Tabs")) == []


def test_the_beginning_of_a_word_finds_it_when_nothing_else_does(ask: Ask) -> None:
    assert names(ask("certif", memory("Rotate certificates"), memory("Tabs"))) == ["Rotate certificates"]


@pytest.mark.parametrize("query", ["日", "本", "語", "日本", "本語", "日本語", "日本語の"])
def test_any_piece_of_a_text_without_blanks_is_found(ask: Ask, query: str) -> None:
    assert names(ask(query, memory("Note", body="日本語"), memory("Other", body="中文"))) == ["Note"]


@pytest.mark.parametrize(
    "query", ['"', "a OR b", "NEAR(a b)", "name : x", "x*", "^kafka", "-kafka", "(kafka", "kafka\x00"]
)
def test_no_question_is_a_command_to_the_database(ask: Ask, query: str) -> None:
    assert names(ask(query, memory("Tabs", body="tabs"))) == []


WORDS = ["kafka", "redis", "deploy", "index", "auth", "token", "cache", "queue", "shard", "merge"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@settings(max_examples=60)
@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=25), TEXTS)
def test_what_is_found_is_what_weighing_every_memory_would_find(
    texts: list[tuple[str, str, str]], query: str
) -> None:
    db = sqlite3.connect(":memory:")
    for statement in WORD_TABLES.split(";\n"):
        db.execute(statement)
    memories = [memory(name or "x", description or "d", body) for name, description, body in texts]
    for number, one in enumerate(memories):
        put_words(db, number, one)

    found = rank_by_words(db, query, total=len(memories))

    expected = {number: worth for number, one in enumerate(memories) if (worth := weighed(one, query, memories))}
    assert {hit.row: round(hit.score, 9) for hit in found} == {
        row: round(worth, 9) for row, worth in expected.items()
    }
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    db.close()


def weighed(one: Memory, query: str, memories: list[Memory]) -> float:
    """BM25 as the book has it."""
    fields = [(4, words(one.name)), (2, words(one.description)), (1, words(one.body))]
    length = sum(len(field) for _, field in fields)
    score = 0.0
    rarest = log(1 + (len(memories) - 0.5) / 1.5)
    for term in dict.fromkeys(words(query)):
        holding = sum(term in words(f"{m.name} {m.description} {m.body}") for m in memories)
        idf = log(1 + (len(memories) - holding + 0.5) / (holding + 0.5))
        often = sum(weight * field.count(term) for weight, field in fields)
        score += idf * often / (often + 0.9 * (0.6 + 0.4 * length / 60)) if often else 0.0
    return score / rarest


# through the sheaf


def test_a_search_finds_what_was_saved_imported_and_laid_there(sheaf: Sheaf, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for number in range(20):
        (source / f"imported-{number}.md").write_text(memory(f"Imported {number}", body="zebra").text)
    sheaf.write("Saved", "d", "user", "zebra")
    take_in(sheaf.own, str(source))
    sheaf.write("Saved later", "d", "user", "zebra")
    Path(sheaf.root, "laid.md").write_text(memory("Laid", body="zebra").text)

    found = {row.memory.name for row in sheaf.search("zebras", limit=50)}

    assert found == {"Saved", "Saved later", "Laid", *(f"Imported {number}" for number in range(20))}


def test_a_changed_or_removed_memory_is_found_by_what_it_says_now(sheaf: Sheaf) -> None:
    one = sheaf.write("One", "d", "user", "zebra")
    two = sheaf.write("Two", "d", "user", "zebra")
    assert len(sheaf.search("zebra")) == 2
    sheaf.revise(one.path, "zebra", "giraffe")
    sheaf.forget(two.path)

    assert sheaf.search("zebra") == []
    assert [row.ref.path for row in sheaf.search("giraffe")] == [one.path]
    sheaf.undo()
    assert [row.ref.path for row in sheaf.search("zebra")] == [two.path]
