from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsheaf.text.sections import (
    add_part,
    append_lines,
    fold_title,
    lower_headings,
    part,
    parts,
    replace_lines,
    section,
    sections,
    titles,
)

NOTES = "# Notes\n\nbefore\n\n## Now\n- one\n  more of it\n- two\n\n## Later\n"


def test_a_section_ends_at_the_next_heading_of_any_level() -> None:
    found = sections("intro\n# A\na\n### B\nb\n## C")

    assert [(one.title, one.level, one.text) for one in found] == [
        ("", 0, "intro"),
        ("A", 1, "a"),
        ("B", 3, "b"),
        ("C", 2, ""),
    ]


def test_a_bullet_has_the_indented_lines_below_it() -> None:
    now = section(NOTES, "now")

    assert now is not None
    assert now.bullets == ("one\nmore of it", "two")


def test_a_heading_in_a_fence_is_code() -> None:
    text = "## A\n```sh\n## not one\n~~~\n## nor this\n```\n## B\n~~~\n# a comment\n~~~\n## C\n"

    assert titles(text) == ["A", "B", "C"]


def test_a_bullet_may_begin_with_a_fence_and_a_longer_fence_holds_a_shorter_one() -> None:
    text = "## A\n- ```py\n  ## not one\n  ```\n## B\n````\n```\n## nor this\n````\n## C\n```inline```\n## D\n"

    assert titles(text) == ["A", "B", "C", "D"]


def test_headings_are_compared_by_their_words() -> None:
    for title in ("Errors & Corrections", "errors and corrections", "ERRORS  & CORRECTIONS"):
        assert fold_title(title) == "errors and corrections"


def test_lines_that_are_put_in_end_as_the_others_do() -> None:
    text = "## A\r\n- w\r\n\r\n## B\r\n"
    found = section(text, "a")
    assert found is not None

    assert replace_lines(text, found, ["- w", "- x"]) == "## A\r\n- w\r\n- x\r\n\r\n## B\r\n"


def test_the_lines_of_a_section_are_replaced_and_no_others() -> None:
    now = section(NOTES, "Now")
    assert now is not None

    assert replace_lines(NOTES, now, ["- new"]) == "# Notes\n\nbefore\n\n## Now\n- new\n\n## Later\n"


@given(st.text(alphabet="#-* ab\n`~\r", max_size=80))
def test_the_sections_of_any_text_hold_all_its_lines_once(text: str) -> None:
    lines = text.split("\n")
    found = sections(text)

    told = [line for one in found for line in ([lines[one.start]] if one.level else []) + list(one.lines)]
    assert told == lines


# texts below headings of ours


HOSTILE = [
    "", "# One\n## Two\n### Three\n###### Six", "## Ours", "```", "~~~\n```\n## Ours", "````\n## Ours\n```",
    "text\n```python\n# comment\n```\n## Ours", "    ```\n## Ours", "##", "#no heading", "标题\n## 目标\n",
    "a\r\n## Ours\r\nb",
]  # fmt: skip


def test_whatever_is_given_stays_in_its_part() -> None:
    for known in ("", "# Title\n", "# Title\r\n\r\n## First\r\ntext\r\n", "open\n```\n"):
        for given_text in HOSTILE:
            text = add_part(add_part(known, "Mine", given_text), "Next", "the next one")

            found = parts(text)[-2:]
            assert [one.title for one in found] == ["Mine", "Next"]
            assert found[0].text == lower_headings(given_text)
            assert text.startswith(known.rstrip())
            assert "\r\n" not in known or text.count("\n") == text.count("\r\n")
            assert not [one for one in sections(lower_headings(given_text)) if 0 < one.level <= 2]


def test_lines_go_to_the_end_of_their_part_in_its_own_line_ends() -> None:
    for text, wanted in {
        "## A\n- x\n\n\n## B\n": "## A\n- x\n- y\n\n## B\n",
        "## A\n": "## A\n\n- y\n",
        "## A": "## A\n\n- y\n",
        "## A\n### Deep\n- x": "## A\n### Deep\n- x\n- y\n",
        "## A\r\n- x": "## A\r\n- x\r\n- y\r\n",
        "## A\r\n- x\r\n## B": "## A\r\n- x\r\n- y\r\n\r\n## B",
    }.items():
        found = part(text, "A")
        assert found is not None
        assert append_lines(text, found, ["- y"]) == wanted


def test_a_part_ends_where_another_begins_or_the_title_of_the_file_stands() -> None:
    text = "before\n## A\none\n### deep\ntwo\n# Title\nthree\n## B\n"

    assert [(one.title, one.text) for one in parts(text)] == [("A", "one\n### deep\ntwo"), ("B", "")]
    assert parts("no heading") == []
