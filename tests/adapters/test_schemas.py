"""The tools in the shapes that the SDKs of OpenAI, Anthropic and MCP take, sent through the real clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import ToolParam
from hypothesis import given
from hypothesis import strategies as st
from mcp.types import Tool
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from cases import each_case
from memsheaf.config import Settings
from memsheaf.sheaf import Sheaf
from memsheaf.tools import SHAPES, TOOLS, Tools

FACT = {"name": "Release day", "description": "When we ship", "type": "project", "content": "We ship on Fridays."}


@pytest.fixture
def tools(tmp_path: Path) -> Iterator[Tools]:
    with Sheaf.open("user", settings=settings_in(tmp_path)) as sheaf:
        yield Tools(sheaf)


def settings_in(folder: str | Path) -> Settings:
    return Settings(f"{folder}/home", f"{folder}/cache", state=f"{folder}/state", embedder="none")


# shapes


def as_typed(type_: Any) -> Callable[[Any], Any]:
    return TypeAdapter(type_).validate_python


def as_mcp(shape: Any) -> Any:
    return Tool.model_validate(shape).model_dump(by_alias=True, exclude_none=True)


TAKEN: dict[str, Callable[[Any], Any]] = {
    "anthropic": as_typed(ToolParam),
    "openai": as_typed(ChatCompletionFunctionToolParam),
    "openai-responses": as_typed(FunctionToolParam),
    "mcp": as_mcp,
}


def test_every_shape_is_known_to_an_sdk() -> None:
    assert set(TAKEN) == set(SHAPES)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_sdk_takes_every_tool_as_it_is(shape: str, tools: Tools) -> None:
    shapes = tools.schemas(shape)
    assert [TAKEN[shape](one) for one in shapes] == shapes  # nothing is missing, and nothing is unknown to it
    assert [one.get("function", one)["name"] for one in shapes] == [tool.__name__ for tool in TOOLS]


def test_all_shapes_say_the_same(tools: Tools) -> None:
    plain = [(one["name"], one["description"], one["input_schema"]) for one in tools.schemas()]
    chat = [one["function"] for one in tools.schemas("openai")]
    assert plain == [(one["name"], one["description"], one["parameters"]) for one in chat]
    assert plain == [
        tuple(one[key] for key in ("name", "description", "inputSchema")) for one in tools.schemas("mcp")
    ]
    responses = tools.schemas("openai-responses")
    assert plain == [(one["name"], one["description"], one["parameters"]) for one in responses]


def test_nothing_claims_to_be_strict_while_arguments_are_optional(tools: Tools) -> None:
    assert all(one["strict"] is False for one in tools.schemas("openai-responses"))  # it is the default there
    assert not any("strict" in one["function"] for one in tools.schemas("openai"))


# arguments as JSON


def test_arguments_may_be_the_text_that_openai_gives(tools: Tools) -> None:
    assert tools.call("memory_write", json.dumps(FACT)).startswith("Memory saved: project_release-day.md")
    assert "We ship on Fridays." in tools.call("memory_read", '{"filename": "project_release-day.md"}')
    assert tools.call("memory_view", "") == tools.call("memory_view", {})


@each_case(
    "text",
    [
        "no JSON", "[]", "null", "3", '"memory"', "{", "{}{}", '{"filename": NaN}', '{"filename": Infinity}', "\x00",
        '{"filename": "\\ud800"}', "[" * 100_000, '{"a":' * 100_000, '{"a": ' + "9" * 10_000 + "}", " " * 5_000_000,
        '{"filename": "' + "x" * 5_000_000 + '"}', '{"filename": {"a": {"b": []}}}', '{"filename": ["x.md"]}',
        '{"filename": 1e999}', '{"filename": true}', '{"filename": null}', '{"filename": "x.md", "desk": 1}',
    ]
)  # fmt: skip
def test_arguments_that_make_no_sense_are_answered_with_an_error(text: str, tools: Tools) -> None:
    answer = tools.call("memory_read", text)
    assert answer.startswith("Error: ")
    assert len(answer) < 300


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_no_text_of_a_model_raises(same_tools: Tools, text: str) -> None:
    assert same_tools.call("memory_read", text).startswith("Error: ")


@pytest.fixture(scope="module")
def same_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    with Sheaf.open("user", settings=settings_in(tmp_path_factory.mktemp("same"))) as sheaf:
        yield Tools(sheaf)
