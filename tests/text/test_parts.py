from __future__ import annotations

import pytest

from memsheaf.text.sections import add_part, append_lines, lower_headings, part, parts, sections

HOSTILE = [
    "",
    "# One\n## Two\n### Three\n###### Six",
    "## Ours",
    "```",
    "~~~\n```\n## Ours",
    "````\n## Ours\n```",
    "text\n```python\n# comment\n```\n## Ours",
    "    ```\n## Ours",
    "##",
    "#no heading",
    "标题\n## 目标\n",
    "a\r\n## Ours\r\nb",
]


@pytest.mark.parametrize("given", HOSTILE)
@pytest.mark.parametrize("known", ["", "# Title\n", "# Title\r\n\r\n## First\r\ntext\r\n", "open\n```\n"])
def test_whatever_is_given_stays_in_its_part(known: str, given: str) -> None:
    text = add_part(add_part(known, "Mine", given), "Next", "the next one")

    found = parts(text)[-2:]
    assert [one.title for one in found] == ["Mine", "Next"]
    assert found[0].text == lower_headings(given)
    assert text.startswith(known.rstrip())
    assert "\r\n" not in known or text.count("\n") == text.count("\r\n")


@pytest.mark.parametrize("given", HOSTILE)
def test_what_is_lowered_has_no_heading_of_ours(given: str) -> None:
    assert not [one for one in sections(lower_headings(given)) if 0 < one.level <= 2]


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
