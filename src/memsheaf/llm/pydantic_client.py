"""Requests to models through pydantic-ai: its clients, messages and responses. Imported with the first request."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any, cast

from pydantic_ai.direct import model_request
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from memsheaf.errors import CapReached, ModelFailed
from memsheaf.limits import ChatCaps
from memsheaf.llm.http import error_message, parse_address
from memsheaf.llm.json_answer import ANSWER_BYTES, UnusableAnswer, read
from memsheaf.llm.model import Answer, Question, sendable
from memsheaf.llm.providers import ANY_SERVER, CHOOSE, LIKE_OPENAI, LOCAL_SERVERS, NO_KEY, Choice
from memsheaf.llm.spend import CHAT, LOCK_SECONDS, Ledger, Spent, count_text_tokens
from memsheaf.text.neutralize import one_line

MAX_SILENCE_SECONDS = 120.0
MAX_LOCAL_SILENCE_SECONDS = 900.0  # of a model on this machine, which is slower
MAX_PAUSE_SECONDS = 20  # that a busy server may ask for before a request is made again
MAX_CHAT_RETRIES = 2  # of a client, while a server is busy
_ANSWER_NAME = "answer"
_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "openai-organization", "openai-project")
_CLOSED = "closed the connection before its answer was complete"
_HINTS = {
    401: "The key is not accepted there: look at the variable that holds it; `memsheaf doctor` names it.",
    403: "The key is not allowed to do this: look at its rights at the provider.",
    404: "The model or the address is not known there: check model.name and model.url.",
    429: "Try again later; what needs no model went on without it.",
    529: "It is overloaded: try again later; what needs no model went on without it.",
}
_PROBLEMS = (  # by a part of the name of an error, or of one that caused it; the first counts
    ("Timeout", "gave no answer in time", "Try again; nothing that was said is lost."),
    ("ConnectError", "cannot be reached: {reason}", "Is it running there? `memsheaf doctor` looks."),
    ("RemoteProtocolError", _CLOSED, ""),
    ("ReadError", _CLOSED, ""),
    ("UnexpectedModelBehavior", "gave an answer that cannot be used: {message}", ""),
    ("APIError", "gave an answer that cannot be used: {message}", ""),
)
_TOO_LONG = "What was sent is longer than this model reads: make it shorter, or choose another model."


def ask(choice: Choice, key: str, question: Question, timeout: float) -> Answer:
    """Ask one question, in an event loop of its own. Raises TimeoutError, ModelFailed, and what clients do."""

    async def work() -> ModelResponse:
        async with asyncio.timeout(max(timeout, 0)), open_model(choice, key) as model:
            system = sendable(question.system) or None
            return await model_request(
                model,
                [ModelRequest(parts=[UserPromptPart(sendable(question.text))], instructions=system)],
                model_settings=_question_settings(model, question, timeout),
                model_request_parameters=_question_parameters(model, question),
            )

    response = asyncio.run(work())
    try:
        value = _read_value(response, question)
    except UnusableAnswer as error:
        raise ModelFailed(f"{choice.title} gave an answer that cannot be used: {error}") from None
    return Answer(value, response.usage.input_tokens, response.usage.output_tokens)


@asynccontextmanager
async def open_model(choice: Choice, key: str) -> AsyncIterator[Model]:
    """Open a model with a client of its own. Raises ModelFailed, and what clients do."""
    async with AsyncExitStack() as stack:
        if choice.place and choice.provider in LIKE_OPENAI:
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai import OpenAIProvider

            provider: Provider[Any] = await _open_provider(choice, OpenAIProvider, key, stack)
            model: Model = OpenAIChatModel(choice.model, provider=provider)
        else:
            provider = await _open_provider(choice, infer_provider_class(choice.provider), key, stack)
            model = infer_model(f"{choice.provider}:{choice.model}", lambda _: provider)
        try:
            if provider.base_url.startswith("http"):
                parse_address(provider.base_url.rstrip("/"))
        except ValueError as error:  # it came from a variable that the client reads itself
            raise ModelFailed(f"{choice.name} has no address that can be used: {error}", hint=CHOOSE) from None
        yield model


async def _open_provider(choice: Choice, kind: type[Any], key: str, stack: AsyncExitStack) -> Provider[Any]:
    """Open the provider, made with as much of address, key and HTTP client as it takes."""
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
        client = _make_client("httpx" if is_old else "httpx2", choice, key)
        given["http_client"] = await stack.enter_async_context(client)
    provider: Provider[Any] = kind(**given)
    return await stack.enter_async_context(provider)


class UnwantedResponse(OSError):
    """A response that is not taken."""


def _make_client(family: str, choice: Choice, key: str) -> Any:
    """Return an HTTP client that sends no other key to an address of the user's, and takes no odd response."""
    is_here = choice.place is not None and choice.place.is_here
    own_key = key or NO_KEY

    async def check_request(request: Any) -> None:
        request.headers["accept-encoding"] = "identity"
        for name in _KEY_HEADERS:
            if choice.place and own_key not in request.headers.get(name, own_key):
                del request.headers[name]

    async def check_response(response: Any) -> None:
        headers = response.headers
        if 300 <= response.status_code < 400:
            raise UnwantedResponse(f"answered {response.status_code}, a redirect, which is not followed")
        if headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise UnwantedResponse("sent a compressed answer, which was not requested")
        pause = headers.get("retry-after", "0")
        if not pause.isdecimal() or int(pause) > MAX_PAUSE_SECONDS:
            headers["x-should-retry"] = "false"  # as the clients of providers read it
        if "event-stream" not in headers.get("content-type", ""):
            response.stream = import_module(family).ByteStream(await _read_whole(response.stream))

    return import_module(family).AsyncClient(
        timeout=3600.0,  # the timeout of the request is the shorter one
        follow_redirects=False,
        trust_env=not is_here,
        verify=_make_ssl_context(family, not is_here),
        event_hooks={"request": [check_request], "response": [check_response]},
    )


async def _read_whole(stream: Any) -> bytes:
    data = bytearray()
    async for part in stream:
        data += part
        if len(data) > ANSWER_BYTES:
            raise UnwantedResponse(f"sent more than {ANSWER_BYTES // 1_000_000} MB")
    await stream.aclose()
    return bytes(data)


@cache
def _make_ssl_context(family: str, trust_env: bool) -> Any:
    """Return the context for certificates, made once: it takes longer than all else about a client."""
    return import_module(family).create_ssl_context(trust_env=trust_env)


def _keep_supported(model: Model, settings: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in settings.items() if name not in model.unsupported_settings}


def _question_settings(model: Model, question: Question, timeout: float) -> ModelSettings:
    settings: dict[str, object] = {"max_tokens": question.max_tokens, "max_retries": 0, "thinking": False}
    settings["timeout"] = timeout  # the caller's deadline is the one that holds, but some clients need one
    profile: Mapping[str, object] = model.profile
    if not (profile.get("openai_supports_reasoning") or profile.get("anthropic_disallows_sampling_settings")):
        settings["temperature"] = question.temperature
    if model.system == "openai":
        settings["openai_store"] = False
    return cast("ModelSettings", _keep_supported(model, settings))


def chat_settings(model: Model, choice: Choice, max_tokens: int) -> dict[str, object]:
    """Return the settings for a step of a conversation, with marks for a cache where the provider wants them."""
    is_here = choice.place is not None and choice.place.is_here
    settings: dict[str, object] = {"max_tokens": max_tokens, "max_retries": MAX_CHAT_RETRIES}
    settings["timeout"] = MAX_LOCAL_SILENCE_SECONDS if is_here else MAX_SILENCE_SECONDS
    if model.system == "openai":
        settings["openai_store"] = False
    if model.system == "anthropic":
        for name in ("anthropic_cache_tool_definitions", "anthropic_cache_instructions", "anthropic_cache"):
            settings[name] = True
    return _keep_supported(model, settings)


def _question_parameters(model: Model, question: Question) -> ModelRequestParameters:
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


def _read_value(response: ModelResponse, question: Question) -> object:
    """Return the JSON of a response. Raises UnusableAnswer."""
    if response.finish_reason == "length":
        raise UnusableAnswer(f"it did not end within {question.max_tokens} tokens")
    if calls := response.tool_calls:
        if len(calls) > 1 or calls[0].tool_name != _ANSWER_NAME:
            raise UnusableAnswer("it calls tools that do not exist")
        return read(calls[0].args_as_json_str(), question.schema)
    if not response.text:
        raise UnusableAnswer("it is empty")
    return read(response.text, question.schema)


@asynccontextmanager
async def open_metered(choice: Choice, key: str, ledger: Ledger, caps: ChatCaps) -> AsyncIterator[Model]:
    """Open a model for a conversation: each request is reserved in the ledger before it is made."""
    async with open_model(choice, key) as model:
        yield MeteredModel(model, choice, ledger, caps)


class MeteredModel(WrapperModel):
    """A model within caps, with every request in the ledger; one that fails costs what was sent and heard.

    It counts for itself: what a model reports can make a request dearer, never cheaper.
    """

    def __init__(self, model: Model, choice: Choice, ledger: Ledger, caps: ChatCaps) -> None:
        super().__init__(model)
        self._name = choice.title
        self._is_free = choice.provider in LOCAL_SERVERS or choice.provider == ANY_SERVER
        self._ledger = ledger
        self._caps = caps

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Ask for a whole response. Raises CapReached, ModelFailed, and what clients do."""
        with self._meter(messages, model_settings, model_request_parameters) as heard:
            response = await super().request(messages, model_settings, model_request_parameters)
            heard.append(lambda: response)
        return response

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: Any = None,
    ) -> AsyncIterator[StreamedResponse]:
        """Ask for a response that streams. Raises as `request` does."""
        with self._meter(messages, model_settings, model_request_parameters) as heard:
            async with super().request_stream(
                messages, model_settings, model_request_parameters, run_context
            ) as stream:
                heard.append(stream.get)
                yield stream
            if stream.get().finish_reason is None and not stream.get().tool_calls:
                raise ModelFailed(f"{self._name} {_CLOSED}")

    @contextmanager
    def _meter(
        self, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> Iterator[list[Callable[[], ModelResponse]]]:
        """Reserve the most that a request may cost, and settle what it did cost by the response that is given."""
        tools = [(tool.name, tool.description, tool.parameters_json_schema) for tool in parameters.function_tools]
        sent = "".join(map(_text_of, messages)) + json.dumps(tools, default=str)
        most = Spent(
            purpose=CHAT,
            model=self._name,
            requests=1,
            input=count_text_tokens(sent),
            output=(settings or {}).get("max_tokens", 0),
            seconds=LOCK_SECONDS,
        )
        try:
            entry = self._ledger.reserve(self._caps, most)
        except CapReached as error:
            error.hint = error.hint.replace("[spend]", "[chat]")
            raise error from None
        began = time.monotonic()
        heard: list[Callable[[], ModelResponse]] = []
        is_whole = False
        try:
            yield heard
            is_whole = True
        finally:
            cost = most._replace(output=0, failures=int(not is_whole), seconds=time.monotonic() - began)
            for response in (get() for get in heard):
                counted = count_text_tokens(_text_of(response))
                usage = response.usage
                cost = cost._replace(
                    input=max(usage.input_tokens, most.input), output=max(usage.output_tokens, counted)
                )
            self._ledger.settle(entry, cost)


def _text_of(message: ModelMessage) -> str:
    """Return the text of a message, as far as it is sent."""
    texts = [str(getattr(part, "content", "")) + str(getattr(part, "args", "") or "") for part in message.parts]
    return "".join([getattr(message, "instructions", None) or "", *texts])


def explain(error: Exception, name: str, key: str) -> ModelFailed:
    """Return what went wrong, in one line, without the key that a server may repeat."""
    if isinstance(error, ModelFailed):
        return error

    def clean(text: str) -> str:
        return one_line(text.replace(key, "…") if key else text, 200)

    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and len(chain) < 20:
        chain.append(cause)
    names = " ".join(kind.__name__ for each in chain for kind in type(each).__mro__)
    reason = clean(str(chain[-1]) or type(chain[-1]).__name__)
    status = next((code for each in chain if isinstance(code := getattr(each, "status_code", None), int)), 0)
    for each in chain:
        if isinstance(each, UnwantedResponse):
            return ModelFailed(f"{name} {each}", hint=CHOOSE)
    if status >= 400:
        message = clean(error_message(next(filter(None, (getattr(each, "body", None) for each in chain)), None)))
        wait = getattr(error, "retry_after", None)
        later = f"; it asks for a pause of {wait:g} seconds" if isinstance(wait, int | float) else ""
        hint = _TOO_LONG if "ContextWindow" in names else _HINTS.get(status, "")
        return ModelFailed(f"{name} answered {status}{': ' + message if message else ''}{later}", hint=hint)
    for kind, problem, hint in _PROBLEMS:
        if kind in names:
            return ModelFailed(f"{name} {problem.format(reason=reason, message=clean(str(error)))}", hint=hint)
    return ModelFailed(f"{name} cannot be asked: {clean(str(error)) or reason}", hint=CHOOSE)
