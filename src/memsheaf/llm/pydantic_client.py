"""Requests to models through pydantic-ai: its clients, messages and responses. Imported with the first request."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from inspect import signature
from threading import Lock
from typing import Any

from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from memsheaf.errors import ModelFailed
from memsheaf.llm.http import parse_address
from memsheaf.llm.json_answer import UnusableAnswer, read
from memsheaf.llm.model import Answer, Question, Request, Said, Spoken, Step, ToolCall, sendable
from memsheaf.llm.providers import CHOOSE, LIKE_OPENAI, NO_KEY, Choice

Connect = Callable[[str, bool], Any]  # makes an HTTP client of `httpx` or `httpx2`, as `Wire.client` does
Give = Callable[[Spoken | Step], None]

_ANSWER_NAME = "answer"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_UNFIT_LETTER = re.compile(r"[^A-Za-z0-9_-]")  # of a tool's name
_MAX_NAME_CHARS = 64
_NO_ANSWER = "(no answer: it was interrupted)"
_EMPTY_ANSWER = "(nothing)"
_LOADING = Lock()  # a provider's modules: threads that import them side by side may see half of them


def ask(choice: Choice, key: str, connect: Connect, question: Question, timeout: float) -> Answer:
    """Ask one question, in an event loop of its own. Raises TimeoutError, UnusableAnswer, and what clients do."""

    async def work() -> Answer:
        async with asyncio.timeout(max(timeout, 0)), AsyncExitStack() as stack:
            model = await _open_model(choice, key, connect, stack)
            text, system = sendable(question.text), sendable(question.system)
            response = await model_request(
                model,
                [ModelRequest(parts=[UserPromptPart(text)], instructions=system or None)],
                model_settings=_ask_settings(model, question, timeout),
                model_request_parameters=_ask_parameters(model, question),
            )
        return Answer(_value(response, question), response.usage.input_tokens, response.usage.output_tokens)

    return asyncio.run(work())


def load(choice: Choice, key: str, connect: Connect) -> None:
    """Import what a request needs. Raises what clients do."""

    async def work() -> None:
        async with AsyncExitStack() as stack:
            await _open_model(choice, key, connect, stack)

    asyncio.run(work())


async def stream(
    choice: Choice,
    key: str,
    connect: Connect,
    request: Request,
    *,
    kept: Mapping[Said, ModelResponse],
    idle: float,
    give: Give,
) -> tuple[Said, ModelResponse]:
    """Hand on what is said, as it comes; what was said and called, and the whole response. Raises what clients do."""
    async with AsyncExitStack() as stack:
        model = await _open_model(choice, key, connect, stack)
        async with model_request_stream(
            model,
            messages(request.conversation, kept),
            model_settings=_talk_settings(model, request, idle),
            model_request_parameters=_talk_parameters(request),
        ) as streamed:
            text = await _relay_text(streamed, give)
        response = streamed.get()
    return Said("assistant", text, _calls(response)), response


async def _open_model(choice: Choice, key: str, connect: Connect, stack: AsyncExitStack) -> Model:
    """Return the model with a client that is closed with the stack. Raises ModelFailed, and what clients do."""
    with _LOADING:
        if choice.place and choice.provider in LIKE_OPENAI:
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai import OpenAIProvider

            provider: Provider[Any] = await _provider(choice, OpenAIProvider, key, connect, stack)
            model: Model = OpenAIChatModel(choice.model, provider=provider)
        else:
            provider = await _provider(choice, infer_provider_class(choice.provider), key, connect, stack)
            model = infer_model(f"{choice.provider}:{choice.model}", lambda _: provider)
    try:
        if provider.base_url.startswith("http"):
            parse_address(provider.base_url.rstrip("/"))
    except ValueError as error:  # it came from a variable that the client reads itself
        raise ModelFailed(f"{choice.name} has no address that can be used: {error}", hint=CHOOSE) from None
    return model


async def _provider(
    choice: Choice, kind: type[Any], key: str, connect: Connect, stack: AsyncExitStack
) -> Provider[Any]:
    """Return the provider, made with as much of address, key and HTTP client as it takes."""
    takes = signature(kind).parameters
    given: dict[str, object] = {"name": "openai-compatible"} if "name" in takes else {}
    if "api_key" in takes and (key or choice.place):
        given["api_key"] = key or NO_KEY
    if choice.place:
        if "base_url" not in takes:
            raise ModelFailed(f"the provider of {choice.title} has one address only", hint=CHOOSE)
        given["base_url"] = str(choice.place)
    if "http_client" in takes:
        is_old = "httpx.AsyncClient" in str(takes["http_client"].annotation).split(" | ")
        here = choice.place is not None and choice.place.is_here
        given["http_client"] = await stack.enter_async_context(connect("httpx" if is_old else "httpx2", here))
    provider: Provider[Any] = kind(**given)
    return await stack.enter_async_context(provider)


def _ask_settings(model: Model, question: Question, timeout: float) -> ModelSettings:
    """Return settings as this model takes them: one that it only warns about is left out."""
    wanted: dict[str, object] = {"max_tokens": question.max_tokens, "max_retries": 0, "thinking": False}
    wanted["timeout"] = timeout  # our own deadline is the one that holds, but some clients refuse to go without
    profile: Mapping[str, object] = model.profile
    if not (profile.get("openai_supports_reasoning") or profile.get("anthropic_disallows_sampling_settings")):
        wanted["temperature"] = question.temperature
    if model.system == "openai":
        wanted["openai_store"] = False
    return {name: value for name, value in wanted.items() if name not in model.unsupported_settings}  # type: ignore[return-value]


def _ask_parameters(model: Model, question: Question) -> ModelRequestParameters:
    """Return the shape of the answer: by the provider's own JSON schema where it has one, else as a tool."""
    schema: dict[str, Any] = {**question.schema}
    if model.profile.get("supports_json_schema_output"):
        return ModelRequestParameters(
            output_mode="native",
            output_object=OutputObjectDefinition(schema, name=_ANSWER_NAME),
            allow_text_output=True,
        )
    tool = ToolDefinition(
        name=_ANSWER_NAME, description="Give the answer.", parameters_json_schema=schema, kind="output"
    )
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)


def _value(response: ModelResponse, question: Question) -> object:
    """Return what a response says. Raises UnusableAnswer when that is nothing, or not in the shape asked for."""
    if response.finish_reason == "length":
        raise UnusableAnswer(f"it did not end within {question.max_tokens} tokens")
    if calls := response.tool_calls:
        if len(calls) > 1 or calls[0].tool_name != _ANSWER_NAME:
            raise UnusableAnswer("it calls tools that do not exist")
        arguments = calls[0].args
        return read(json.dumps(arguments) if isinstance(arguments, dict) else arguments or "", question.schema)
    if not response.text:
        raise UnusableAnswer("it is empty")
    return read(response.text, question.schema)


def messages(conversation: Sequence[Said], kept: Mapping[Said, ModelResponse]) -> list[ModelMessage]:
    """Return a conversation as alternating requests and responses, every call answered; `kept` ones as they came."""
    listed: list[ModelMessage] = []
    calls: dict[str, ToolCallPart] = {}
    heard, taken = list[Said](), set[str]()
    for message in conversation:
        if message.role != "assistant":
            heard.append(message)
            continue
        parts: list[ModelResponsePart] = [TextPart(sendable(message.text))] if message.text.strip() else []
        if not parts and not message.calls:
            continue
        listed += _request(heard, calls)
        heard, calls = [], {}
        for call in message.calls:
            tool = _UNFIT_LETTER.sub("_", call.tool)[:_MAX_NAME_CHARS] or "_"
            calls[call.id] = ToolCallPart(tool, sendable(call.arguments), _id(call.id, taken))
        as_it_came = kept.get(message) if all(id == call.tool_call_id for id, call in calls.items()) else None
        listed.append(as_it_came or ModelResponse(parts=[*parts, *calls.values()]))
    return listed + _request(heard, calls)


def _request(heard: Sequence[Said], calls: Mapping[str, ToolCallPart]) -> list[ModelMessage]:
    """Return what users and tools say after a message of a model: answers to its calls first, then texts."""
    answers, texts = dict[str, str](), list[str]()
    for message in heard:
        if message.role == "tool" and message.answers in calls and message.answers not in answers:
            answers[message.answers] = message.text
        else:
            texts.append(message.text)
        texts.append(message.beside)
    order = [*answers, *(id for id in calls if id not in answers)]
    parts: list[ModelRequestPart] = [
        ToolReturnPart(
            calls[id].tool_name, sendable(answers.get(id, _NO_ANSWER)) or _EMPTY_ANSWER, calls[id].tool_call_id
        )
        for id in order
    ]
    if texts := [sendable(text) for text in texts if text.strip()]:
        parts.append(UserPromptPart("\n\n".join(texts)))
    return [ModelRequest(parts=parts)] if parts else []


def _id(id: str, taken: set[str]) -> str:
    """Return an id that every provider takes, and that no other call of the conversation has."""
    fit = id if _ID.fullmatch(id) and id not in taken else f"call_{len(taken)}"
    while fit in taken:
        fit += "_"
    taken.add(fit)
    return fit


async def _relay_text(stream: StreamedResponse, give: Give) -> str:
    """Hand on what is said, as it comes, and return all of it that is no thought."""
    pieces: list[str] = []
    async for event in stream:
        text, aside = "", False
        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart | ThinkingPart):
            text, aside = event.part.content, isinstance(event.part, ThinkingPart)
            if text and pieces and not aside and not pieces[-1][-1].isspace():
                text = f"\n\n{text}"  # another block begins
        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta | ThinkingPartDelta):
            text, aside = event.delta.content_delta or "", isinstance(event.delta, ThinkingPartDelta)
        if text := sendable(text):
            give(Spoken(text, aside))
            pieces += [] if aside else [text]
    return "".join(pieces)


def _calls(response: ModelResponse) -> tuple[ToolCall, ...]:
    """Return the calls of a response, each with an id of its own."""
    calls: list[ToolCall] = []
    for part in response.tool_calls:
        arguments = part.args if isinstance(part.args, str) else json.dumps(part.args or {}, ensure_ascii=False)
        taken = {call.id for call in calls}
        id = sendable(part.tool_call_id)
        id = id if id and id not in taken else f"call_{len(calls)}_{id}"
        calls.append(ToolCall(id, sendable(part.tool_name), sendable(arguments) or "{}"))
    return tuple(calls)


def _talk_settings(model: Model, request: Request, idle: float) -> ModelSettings:
    """Return settings as this model takes them; with marks for a cache where the provider wants to be told."""
    wanted: dict[str, object] = {"max_tokens": request.max_tokens, "max_retries": 0, "timeout": idle + 5.0}
    if model.system == "openai":
        wanted["openai_store"] = False
    if model.system == "anthropic":
        wanted |= dict.fromkeys(("anthropic_cache_tool_definitions", "anthropic_cache_instructions"), True)
        wanted["anthropic_cache"] = True  # the end of the conversation; marked beside it, so that its bytes stay
    return {name: value for name, value in wanted.items() if name not in model.unsupported_settings}  # type: ignore[return-value]


def _talk_parameters(request: Request) -> ModelRequestParameters:
    """Return what stays the same from step to step: the system prompt, and the tools as they are described."""
    tools = [
        ToolDefinition(
            name=str(tool["name"]),
            description=str(tool.get("description", "")),
            parameters_json_schema=dict(tool["input_schema"]),  # type: ignore[call-overload]
            strict=False,  # else some of them would be rewritten
        )
        for tool in request.tools
    ]
    system = sendable(request.system)
    return ModelRequestParameters(
        function_tools=tools, instruction_parts=[InstructionPart(content=system)] if system else None
    )
