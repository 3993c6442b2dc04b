from __future__ import annotations

import pytest

from memsheaf.learn.forgetting import keeping


def memory(body: str, name: str = "N", description: str = "d") -> bytes:
    return f"---\nname: {name}\ndescription: {description}\ntype: project\n---\n{body}\n".encode()


@pytest.mark.parametrize(
    "text",
    [
        "Use tabs.",
        "Please remember: use tabs.",
        "It is late. Use tabs! And good night.",
        "USE TABS",
    ],
)
def test_a_sentence_that_says_a_short_fact_goes(text: str) -> None:
    assert not keeping([memory("Use tabs.")])(text)


@pytest.mark.parametrize(
    "text",
    [
        "Meeting: the design team will use browser tabs in the mock-up; Maria owns the migration.",
        "We use forms. Nobody likes the tabs of the old page.",
        "tabs",
    ],
)
def test_a_text_that_happens_to_have_its_words_stays(text: str) -> None:
    assert keeping([memory("Use tabs.")])(text)


def test_a_short_description_is_no_reason_unless_it_is_the_whole_line() -> None:
    keep = keeping([memory("Ada owns it.", description="the migration")])

    assert keep("Anna leads the migration of billing to Oslo.")
    assert not keep("first\nThe migration.\nlast")


def test_a_line_of_the_body_goes_wherever_it_stands_in_whichever_case() -> None:
    keep = keeping([memory("The vault in Zürich opens at noon.\nAsk Kim.")])

    assert not keep(
        "as i said, THE VAULT IN ZÜRICH OPENS AT NOON, and so it is, whatever else you may have been told"
    )
    assert keep("Ask Kim about lunch.")


def test_a_long_fact_is_known_by_its_words_over_several_sentences() -> None:
    body = "Deploys run on Tuesdays, from the blue runner in Oslo, never before nine, and Maria signs each of them."
    said = (
        "So: deploys run on Tuesdays. From the blue runner in Oslo, never before nine. And Maria signs each of them!"
    )

    assert not keeping([memory(body)])(said)
    assert keeping([memory(body)])("Deploys run on Tuesdays.")


def test_nothing_was_erased_nothing_goes() -> None:
    assert keeping([])("anything")
    assert keeping([b""])("anything")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("Use it so:\n```typescript\nlet x = 1;\n```", "Decided: launch on 12 May.\n```typescript\nlet y = 2;\n```"),
        ("Ask Kim.\n**How to apply:**\nalways", "We go on.\n**How to apply:** carefully, in all cases but two."),
        ("# Background\nBob did it.", "## Background task queue\nIt is empty."),
        ("Run make test.", "Run make test now and see whether it fails on CI, then tell the others."),
    ],
)
def test_what_only_shapes_a_text_is_no_reason_to_drop_another(body: str, text: str) -> None:
    assert keeping([memory(body)])(text)


@pytest.mark.parametrize(
    "text",
    [
        "- Anna HIV positive",
        "Heute: Anna HIV positive - tell nobody",
        "Anna HIV positive?",
        "> anna  hiv\npositive",
    ],
)
def test_a_name_that_says_something_by_itself_goes(text: str) -> None:
    assert not keeping([memory("See the file.", name="Anna HIV positive")])(text)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("Ann sleeps with her boss Bob.", "Ann sleeps with\nher boss Bob."),
        (
            "Ann sleeps with her boss Bob.",
            "I heard that Ann sleeps with her boss  Bob, says Eve, who knows it from Kim and Lee.",
        ),
        ("Swordfish", "Swordfish!"),
        ("安娜患有糖尿病", "安娜 患有 糖尿病"),
    ],
)
def test_blanks_line_breaks_and_length_hide_nothing(body: str, text: str) -> None:
    assert not keeping([memory(body)])(text)


def test_a_memory_without_a_text_takes_nothing_with_it() -> None:
    assert keeping([memory("")])("first\n\nlast")
