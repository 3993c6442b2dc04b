"""Calls that a model writes down as text: found however the answer was cut, and nothing else taken for one."""

from __future__ import annotations

import json

import pytest

from memsheaf.llm.model import ToolCall
from memsheaf.llm.text_tool_calls import Written

TOOLS = {"read", "write"}
CALL = '{"name": "read", "arguments": {"path": "a {\\"b\\"} 用戶"}}'
READ = ("read", {"path": 'a {"b"} 用戶'})


def heard(text: str, size: int) -> tuple[str, str, tuple[ToolCall, ...]]:
    """What was shown while the answer came in pieces of this size, what after it, and the calls."""
    written = Written(TOOLS)
    shown = "".join(written.hear(text[at : at + size]) for at in range(0, len(text), size))
    return (shown, *written.end())


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
@pytest.mark.parametrize(
    "text",
    [
        CALL,
        f"\n  {CALL}\n",
        f"```json\n{CALL}\n```",
        f"```\n{CALL}\n```\n",
        f"<tool_call>\n{CALL}\n</tool_call>",
        CALL.replace('"arguments"', '"parameters"'),
        json.dumps(json.loads(CALL), indent=4, ensure_ascii=False),
    ],
)
def test_a_call_is_found_and_not_shown(text: str, size: int) -> None:
    shown, rest, calls = heard(text, size)

    assert (shown + rest).strip() == ""
    assert [(call.tool, json.loads(call.arguments)) for call in calls] == [READ]


@pytest.mark.parametrize("closing", ["", "\n```", "\n</tool_call>\n"])
@pytest.mark.parametrize("missing", [1, 2])
def test_braces_that_were_forgotten_at_the_end_are_forgiven(closing: str, missing: int) -> None:
    opening = {"": "", "\n```": "```json\n"}.get(closing, "<tool_call>\n")
    _, rest, calls = heard(opening + CALL[:-missing] + closing, 7)

    assert rest == ""
    assert [(call.tool, json.loads(call.arguments)) for call in calls] == [READ]


def test_a_line_break_within_a_text_is_forgiven() -> None:
    _, _, calls = heard('{"name": "write", "arguments": {"content": "a\n\tb"}}', 7)

    assert [json.loads(call.arguments) for call in calls] == [{"content": "a\n\tb"}]


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
@pytest.mark.parametrize("between", ["\n", ",\n", "\n```\n```json\n", "</tool_call><tool_call>"])
def test_several_calls_after_a_text_are_found(between: str, size: int) -> None:
    shown, rest, calls = heard(f"Let me {{look}}.\n\n{CALL}{between}{CALL}", size)

    assert (shown.rstrip(), rest) == ("Let me {look}.", "")
    assert [call.id for call in calls] == ["written_0", "written_1"]


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "Just a text.\nAnd more.\n",
        "```python\nprint({'name': 1})\n```",
        "int main()\n{\n  return 0;\n}\n",
        '```json\n{"names": ["read"]}\n```',
        CALL.replace("read", "remove"),
        f"It is `{CALL}`.",
        f"{CALL}\nThat is how it is done.",
        CALL[:-4],
        '{"name": "read", "arguments": [1]}',
        '{"name": ["read"], "arguments": {}}',
        '{"name": "read", "arguments": ' + "[" * 100_000,
        "\n\n\n",
        "`",
    ],
)
def test_what_is_no_call_is_shown_as_it_is(text: str, size: int) -> None:
    shown, rest, calls = heard(text, size)

    assert shown + rest == text
    assert calls == ()


def test_a_text_is_not_held_back_for_long() -> None:
    written = Written(TOOLS)

    assert written.hear("```python\nx = {") == "```python\nx = {"
    assert written.hear("\n{") == "\n"
    assert written.hear("") == ""
    assert written.hear('"id": 1') == '{"id": 1'


def test_without_tools_nothing_is_a_call() -> None:
    written = Written([])

    assert written.hear(CALL) == CALL
    assert written.end() == ("", ())
