from __future__ import annotations

import pytest

from cases import each_case
from memsheaf.llm.json_answer import read

OBJECT = {"type": "object", "required": ["found"]}


@each_case(
    "text",
    [
        '{"found": [1]}',
        ' \n{"found": [1]}\n ',
        '```json\n{"found": [1]}\n```',
        '```\n{"found": [1]}\n```\n',
        '```JSON\r\n{"found": [1]}\n  ```',
    ],
)
def test_json_is_read_bare_or_as_the_one_fenced_block_that_is_all(text: str) -> None:
    assert read(text, OBJECT) == {"found": [1]}


@each_case(
    "text",
    [
        "",
        "[memory]",
        'Here it is: {"found": []}',
        '{"found": []} I hope this helps.',
        'First:\n```json\n{"found": []}\n```',
        '```json\n{"found": []}\n```\nand\n```json\n{"found": [1]}\n```',
        '{"found": []}{"found": []}',
        '{"found": NaN}',
        '{"found": Infinity}',
        '{"found": [}',
        '{"found": "\ud800"}',
        '{"found": "\\ud800"}',
        '{"found": ' + "[" * 100_000,
        '{"found": ' + "9" * 10_000 + "}",
        '{"wanted": []}',
        "[1]",
        "null",
        "true",
        '"found"',
    ],
)
def test_anything_else_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^it (is|has|holds) ") as caught:
        read(text, OBJECT)
    assert "hope" not in str(caught.value)


def test_text_in_any_script_comes_through_as_it_is() -> None:
    assert read('{"found": ["用戶偏好", "مرحبا", "👩‍👩‍👧"]}', OBJECT) == {"found": ["用戶偏好", "مرحبا", "👩‍👩‍👧"]}


@each_case("kind, text", [("array", "[]"), ("string", '"x"'), ("integer", "3"), ("number", "0.5")])
def test_other_outer_types_are_known(kind: str, text: str) -> None:
    read(text, {"type": kind})
    with pytest.raises(ValueError, match="not of the type"):
        read("true", {"type": kind})
