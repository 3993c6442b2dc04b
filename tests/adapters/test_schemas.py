"""The tools in the shapes that the SDKs of OpenAI, Anthropic and MCP take, sent through the real clients."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anthropic
import openai
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

CORPORA = Path(__file__).resolve().parent.parent / "corpora"
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


def test_an_unknown_shape_is_an_error_of_the_program(tools: Tools) -> None:
    with pytest.raises(ValueError, match="'gemini'; there are: anthropic, openai, openai-responses, mcp"):
        tools.schemas("gemini")


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


def test_a_file_too_large_to_be_loaded_is_not_poured_into_an_answer(tools: Tools) -> None:
    sheaf = tools.seen.memory
    sheaf.put("notes.md", "Some notes.", free=True)
    Path(sheaf.root, "large.md").write_text("x\n" * 200_000)

    for name in ("memory_read", "memory_write", "memory_update", "memory_insert"):
        given = {"content": "New.", "old_text": "x", "new_text": "y", "line": 0, "text": "z", "filename": "large.md"}
        offered = next(one for one in tools.schemas() if one["name"] == name)["input_schema"]["properties"]
        answer = tools.call(name, {key: value for key, value in given.items() if key in offered})
        assert answer.startswith("Error:")
        assert "larger than 256 KiB" in answer
        assert len(answer) < 500


@pytest.mark.parametrize("broken", [b"---\nname: [broken\n---\nPrecious.\n", b"\xff\xfe Precious."])
def test_a_file_that_is_not_understood_is_read_and_not_replaced(tools: Tools, broken: bytes) -> None:
    sheaf = tools.seen.memory
    sheaf.put("notes.md", "Some notes.", free=True)
    Path(sheaf.root, "broken.md").write_bytes(broken)

    assert "Precious." in tools.call("memory_read", {"filename": "broken.md"})
    assert tools.call("memory_write", {"filename": "broken.md", "content": "New."}).startswith("Error: 'broken.md'")
    assert Path(sheaf.root, "broken.md").read_bytes() == broken


@pytest.mark.parametrize("name", ["memory_read", "memory_delete", "memory_view"])
def test_an_error_does_not_repeat_all_that_a_model_said(name: str, tools: Tools) -> None:
    answer = tools.call(name, {"target" if name == "memory_view" else "filename": "a" * 1_000_000})
    assert answer.startswith("Error: ")
    assert len(answer) < 2_100


# conversations through the real clients


class Api:
    """Answers as the three APIs do: with a call of a tool, or with a text. Keeps what it was asked."""

    def __init__(self) -> None:
        self.script: list[tuple[str, dict[str, Any]] | str] = []
        self.asked: list[dict[str, Any]] = []
        self.url = ""

    def reply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        step = self.script.pop(0)
        name, given = step if isinstance(step, tuple) else ("", {})
        return {"/v1/messages": _message, "/chat/completions": _completion, "/responses": _response}[path](
            name, given, step if isinstance(step, str) else ""
        )


def _message(name: str, given: dict[str, Any], text: str) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "toolu_1", "name": name, "input": given}
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "stop_sequence": None,
        "content": [call if name else {"type": "text", "text": text}],
        "stop_reason": "tool_use" if name else "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


def _completion(name: str, given: dict[str, Any], text: str) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]} if name else {
        "role": "assistant", "content": text
    }  # fmt: skip
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if name else "stop"}
    return {"id": "c1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}


def _response(name: str, given: dict[str, Any], text: str) -> dict[str, Any]:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": json.dumps(given)}
    part = {"type": "output_text", "text": text, "annotations": []}
    said = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": "r1", "object": "response", "created_at": 1, "model": "scripted", "status": "completed",
        "output": [call if name else said], "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
    }  # fmt: skip


@pytest.fixture
def api() -> Iterator[Api]:
    served = Api()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *_: object) -> None: ...

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            data = json.dumps(served.reply(self.path, body)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


def with_messages(url: str, tools: Tools, said: str) -> str:
    client = anthropic.Anthropic(base_url=url, api_key="none")
    messages: list[Any] = [{"role": "user", "content": said}]
    while True:
        shapes: Any = tools.schemas("anthropic")
        reply = client.messages.create(model="scripted", max_tokens=100, tools=shapes, messages=messages)
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in reply.content if block.type == "text")
        answers = [
            {"type": "tool_result", "tool_use_id": call.id, "content": tools.call(call.name, call.input)}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": answers}]


def with_completions(url: str, tools: Tools, said: str) -> str:
    client = openai.OpenAI(base_url=url, api_key="none")
    messages: list[Any] = [{"role": "user", "content": said}]
    while True:
        shapes: Any = tools.schemas("openai")
        reply = client.chat.completions.create(model="scripted", tools=shapes, messages=messages).choices[0].message
        if not reply.tool_calls:
            return reply.content or ""
        messages.append(reply)
        for call in reply.tool_calls:
            assert call.type == "function"
            answer = tools.call(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": answer})


def with_responses(url: str, tools: Tools, said: str) -> str:
    client = openai.OpenAI(base_url=url, api_key="none")
    messages: list[Any] = [{"role": "user", "content": said}]
    while True:
        shapes: Any = tools.schemas("openai-responses")
        reply = client.responses.create(model="scripted", tools=shapes, input=messages)
        calls = [item for item in reply.output if item.type == "function_call"]
        if not calls:
            return reply.output_text
        messages += reply.output
        for call in calls:
            answer = tools.call(call.name, call.arguments)
            messages.append({"type": "function_call_output", "call_id": call.call_id, "output": answer})


CONVERSATIONS = {"anthropic": with_messages, "openai": with_completions, "openai-responses": with_responses}


@pytest.mark.parametrize("shape", CONVERSATIONS)
def test_what_is_saved_in_one_conversation_is_recalled_in_another(shape: str, api: Api, tmp_path: Path) -> None:
    api.script = [
        ("memory_write", FACT),
        "Noted.",
        ("memory_read", {"filename": "project_release-day.md"}),
        "Fridays.",
    ]

    def talk(said: str) -> str:
        with Sheaf.open("user", settings=settings_in(tmp_path)) as sheaf:
            return CONVERSATIONS[shape](api.url, Tools(sheaf), said)

    assert talk("We ship on Fridays.") == "Noted."
    assert "Memory saved: project_release-day.md" in json.dumps(api.asked[1])
    assert talk("When do we ship?") == "Fridays."
    assert "We ship on Fridays." in json.dumps(api.asked[3])

    with Sheaf.open("user", settings=settings_in(tmp_path)) as sheaf:
        assert all(asked["tools"] == Tools(sheaf).schemas(shape) for asked in api.asked)
