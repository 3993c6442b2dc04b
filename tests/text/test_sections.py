from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsheaf.text.sections import fold_title, replace_lines, section, sections, titles

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


@pytest.mark.parametrize("title", ["Errors & Corrections", "errors and corrections", "ERRORS  & CORRECTIONS"])
def test_headings_are_compared_by_their_words(title: str) -> None:
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
