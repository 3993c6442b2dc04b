from __future__ import annotations

from memsheaf.learn.erasure_filter import make_erasure_filter


def memory(body: str, name: str = "N", description: str = "d") -> bytes:
    return f"---\nname: {name}\ndescription: {description}\ntype: project\n---\n{body}\n".encode()


def test_a_short_description_is_no_reason_unless_it_is_the_whole_line() -> None:
    keep = make_erasure_filter([memory("Ada owns it.", description="the migration")])

    assert keep("Anna leads the migration of billing to Oslo.")
    assert not keep("first\nThe migration.\nlast")


def test_a_line_of_the_body_goes_wherever_it_stands_in_whichever_case() -> None:
    keep = make_erasure_filter([memory("The vault in Zürich opens at noon.\nAsk Kim.")])

    assert not keep(
        "as i said, THE VAULT IN ZÜRICH OPENS AT NOON, and so it is, whatever else you may have been told"
    )
    assert keep("Ask Kim about lunch.")


def test_a_long_fact_is_known_by_its_words_over_several_sentences() -> None:
    body = "Deploys run on Tuesdays, from the blue runner in Oslo, never before nine, and Maria signs each of them."
    said = (
        "So: deploys run on Tuesdays. From the blue runner in Oslo, never before nine. And Maria signs each of them!"
    )

    assert not make_erasure_filter([memory(body)])(said)
    assert make_erasure_filter([memory(body)])("Deploys run on Tuesdays.")


GOES = [
    ("Use tabs.", "Use tabs."),
    ("Use tabs.", "Please remember: use tabs."),
    ("Use tabs.", "It is late. Use tabs! And good night."),
    ("Use tabs.", "USE TABS"),
    ("Ann sleeps with her boss Bob.", "Ann sleeps with\nher boss Bob."),
    (
        "Ann sleeps with her boss Bob.",
        "I heard that Ann sleeps with her boss  Bob, says Eve, who knows it from Kim and Lee.",
    ),
    ("Swordfish", "Swordfish!"),
    ("安娜患有糖尿病", "安娜 患有 糖尿病"),
]
STAYS = [
    ("Use tabs.", "Meeting: the design team will use browser tabs in the mock-up; Maria owns the migration."),
    ("Use tabs.", "We use forms. Nobody likes the tabs of the old page."),
    ("Use tabs.", "tabs"),
    ("Use it so:\n```typescript\nlet x = 1;\n```", "Decided: launch on 12 May.\n```typescript\nlet y = 2;\n```"),
    ("Ask Kim.\n**How to apply:**\nalways", "We go on.\n**How to apply:** carefully, in all cases but two."),
    ("# Background\nBob did it.", "## Background task queue\nIt is empty."),
    ("Run make test.", "Run make test now and see whether it fails on CI, then tell the others."),
    ("", "first\n\nlast"),
]


def test_a_text_that_says_an_erased_fact_goes_and_one_that_only_has_its_words_or_shape_stays() -> None:
    assert [text for body, text in GOES if make_erasure_filter([memory(body)])(text)] == []
    assert [text for body, text in STAYS if not make_erasure_filter([memory(body)])(text)] == []
    assert make_erasure_filter([])("anything")
    assert make_erasure_filter([b""])("anything")


def test_a_name_that_says_something_by_itself_goes() -> None:
    keep = make_erasure_filter([memory("See the file.", name="Anna HIV positive")])
    said = [
        "- Anna HIV positive",
        "Heute: Anna HIV positive - psst",
        "Anna HIV positive?",
        "> anna  hiv\npositive",
    ]

    assert [text for text in said if keep(text)] == []
