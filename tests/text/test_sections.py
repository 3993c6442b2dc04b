from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memsheaf.text.sections import (
    append_section,
    bullet,
    find_section,
    fold_title,
    lower_headings,
    replace_lines,
    sections,
)


def titles(text: str) -> list[str]:
    return [part.title for part in sections(text)]


def test_a_section_ends_at_the_next_heading_of_any_level_or_of_ours() -> None:
    text = "intro\n# A\na\n### B\nb\n## C"

    assert [(part.title, part.level, part.text) for part in sections(text)] == [
        ("", 0, "intro"),
        ("A", 1, "a"),
        ("B", 3, "b"),
        ("C", 2, ""),
    ]
    assert [part.text for part in sections(text, depth=2)] == ["intro", "a\n### B\nb", ""]


def test_a_heading_in_a_fence_is_code() -> None:
    text = "## A\n```sh\n## not one\n~~~\n## nor this\n```\n## B\n~~~\n# a comment\n~~~\n## C\n"
    longer = "## A\n- ```py\n  ## not one\n  ```\n## B\n````\n```\n## nor this\n````\n## C\n```inline```\n## D\n"

    assert titles(text) == ["A", "B", "C"]
    assert titles(longer) == ["A", "B", "C", "D"]


def test_headings_are_compared_by_their_words() -> None:
    for title in ("Errors & Corrections", "errors and corrections", "ERRORS  & CORRECTIONS"):
        assert fold_title(title) == "errors and corrections"


@given(st.text(alphabet="#-* ab\n`~\r", max_size=80))
def test_the_sections_of_any_text_hold_all_its_lines_once(text: str) -> None:
    lines = text.split("\n")

    again = [line for part in sections(text) for line in ([lines[part.first - 1]] if part.level else []) + part.lines]
    assert again == lines


HOSTILE = [
    "", "# One\n## Two\n### Three\n###### Six", "## Ours", "```", "~~~\n```\n## Ours", "````\n## Ours\n```",
    "text\n```python\n# comment\n```\n## Ours", "    ```\n## Ours", "##", "#no heading", "标题\n## 目标\n",
    "a\r\n## Ours\r\nb",
]  # fmt: skip


def test_whatever_is_given_stays_below_its_heading() -> None:
    for known in ("", "# Title\n", "# Title\r\n\r\n## First\r\ntext\r\n"):
        for given_text in HOSTILE:
            text = append_section(append_section(known, "Mine", lower_headings(given_text)), "Next", "the next one")

            mine, following = sections(text, depth=2)[-2:]
            assert (mine.title, following.title) == ("Mine", "Next")
            assert mine.text.replace("\r", "") == lower_headings(given_text).strip()
            assert text.startswith(known.rstrip())
            assert "\r\n" not in known or text.count("\n") == text.count("\r\n")


def test_the_lines_of_a_section_are_replaced_and_no_others() -> None:
    text = "# Notes\r\n\r\nbefore\r\n\r\n## Now\r\n- one\r\n\r\n## Later\r\n"
    now = find_section(text, "now")
    assert now is not None

    assert replace_lines(text, now, bullet("new")) == text.replace("one", "new")
