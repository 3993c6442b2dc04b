"""Models of a provider, through pydantic-ai: one request, one answer.

Texts leave the process here. So it is strict, as with embedders: https, but for this machine; no redirect is
followed; the key is read when it is needed, sent to one address, and shown to nobody. A client's own retries are off:
who wants to ask again asks again, and pays again.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from functools import cache
from importlib import import_module
from inspect import signature

from memsheaf.embed.http import error_message, parse_address
from memsheaf.errors import BadSettings, ModelFailed
from memsheaf.llm.json_answer import ANSWER_BYTES, read
from memsheaf.llm.messages import sendable
from memsheaf.llm.model import Answer, Question, failed
from memsheaf.llm.providers import DOCS, Choice, choose, key_of
from memsheaf.text.neutralize import one_line
from memsheaf.timeouts import TimeUp, within

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model as TheirModel
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.providers import Provider
    from pydantic_ai.settings import ModelSettings

_TOOL = "answer"
NO_KEY = "none"
"""What is sent where a client insists on a key and none is needed."""

_DONE, _END = b"[DONE]", 32  # how OpenAI and its kin end a stream, and how far back that can be
_CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key", "openai-organization", "openai-project")
_LIKE_OPENAI = {"openai", "openai-chat", "openai-compatible", "lmstudio", "llama-cpp"}
"""Those that are reached through OpenAI's chat completions when they have an address of their own."""

_HINTS = {
    401: "The key is not accepted there: look at the variable that holds it; `memsheaf models` names it.",
    403: "The key is not allowed to do this: look at its rights at the provider.",
    404: "The model or the address is not known there: check model.name and model.url.",
    429: "Try again later; what needs no model went on without it.",
    529: "Many ask it at the moment: try again later; what needs no model went on without it.",
}
_TOO_LONG = "What was sent is longer than this model reads: make it shorter, or choose another model."

_LOADING = threading.Lock()
"""Held by the thread that imports pydantic-ai: threads that import it side by side may see half of it."""


class Served:
    """A model that a provider serves. Nothing is sent before the first question; threads may share it.

    Each question has a client of its own, in a thread and an event loop of its own, and all of it is gone with the
    answer: so it can be asked from anywhere, from inside a running event loop too.
    """

    def __init__(
        self, name: str, *, url: str = "", key: str = "", environment: Mapping[str, str] = os.environ
    ) -> None:
        self._choice = choose(name, url=url, key=key, environment=environment)
        self._environment = environment

    @property
    def name(self) -> str:
        """Which model this is, and where, if not at the provider's own address."""
        return self._choice.title

    def ask(self, question: Question, *, deadline: float) -> Answer:
        """Give the answer, in at most `deadline` seconds.

        Raises:
            ModelFailed: there is none, in time and in its shape.
        """
        import asyncio

        key = key_of(self._choice, self._environment)
        end = time.monotonic() + deadline - min(0.1, deadline / 10)  # time to hang up properly
        wire = Wire(key or NO_KEY if self._choice.place else "")

        async def work() -> Answer:
            async with asyncio.timeout(max(end - time.monotonic(), 0)):
                return await self._answer(question, key, wire, deadline)

        try:
            return within(deadline, lambda: asyncio.run(work()), name="memsheaf-model")
        except (TimeUp, TimeoutError):
            raise failed(f"{self.name} gave no answer within {deadline:g} seconds") from None
        except (ModelFailed, BadSettings):
            raise
        except Exception as error:  # noqa: BLE001 - a guest among other people's clients, which raise what they like
            raise told(error, self.name, key, wire) from None

    async def _answer(self, question: Question, key: str, wire: Wire, timeout: float) -> Answer:
        async with AsyncExitStack() as stack:
            model = await opened(self._choice, key, wire, stack)
            from pydantic_ai.direct import model_request
            from pydantic_ai.messages import ModelRequest, UserPromptPart

            text, system = sendable(question.text), sendable(question.system)
            request = ModelRequest(parts=[UserPromptPart(text)], instructions=system or None)
            response = await model_request(
                model,
                [request],
                model_settings=_settings(model, question, timeout),
                model_request_parameters=_parameters(model, question),
            )
        try:
            value = _value(response, question)
        except ValueError as error:
            raise failed(f"{self.name} gave an answer that cannot be used: {error}") from None
        return Answer(value, response.usage.input_tokens, response.usage.output_tokens)


async def opened(choice: Choice, key: str, wire: Wire, stack: AsyncExitStack) -> TheirModel:
    """The model with a client of its own, which is closed with the stack. Raises ModelFailed, and what clients do."""
    with _LOADING:
        import pydantic_ai.direct  # noqa: F401 - all that comes after it needs no lock
        from pydantic_ai.models import infer_model

        if choice.place and choice.provider in _LIKE_OPENAI:
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai import OpenAIProvider

            provider: Provider[Any] = await _provider(choice, OpenAIProvider, key, wire, stack)
            model: TheirModel = OpenAIChatModel(choice.model, provider=provider)
        else:
            from pydantic_ai.providers import infer_provider_class

            provider = await _provider(choice, infer_provider_class(choice.provider), key, wire, stack)
            model = infer_model(f"{choice.provider}:{choice.model}", lambda _: provider)
    try:
        if provider.base_url.startswith("http"):
            parse_address(provider.base_url.rstrip("/"))
    except ValueError as error:  # it came from a variable that the client reads itself
        raise failed(f"{choice.name} has no address that can be used: {error}", DOCS) from None
    return model


async def _provider(choice: Choice, kind: type[Any], key: str, wire: Wire, stack: AsyncExitStack) -> Provider[Any]:
    """The provider, made with as much of address, key and HTTP client as it takes."""
    takes = signature(kind).parameters
    given: dict[str, object] = {"name": "openai-compatible"} if "name" in takes else {}
    if "api_key" in takes and (key or choice.place):
        given["api_key"] = key or NO_KEY
    if choice.place:
        if "base_url" not in takes:
            raise failed(f"the provider {choice.provider!r} has one address only", DOCS)
        given["base_url"] = str(choice.place)
    if "http_client" in takes:
        is_old = "httpx.AsyncClient" in str(takes["http_client"].annotation).split(" | ")
        here = choice.place is not None and choice.place.is_here
        given["http_client"] = await stack.enter_async_context(wire.client("httpx" if is_old else "httpx2", here))
    provider: Provider[Any] = kind(**given)
    return await stack.enter_async_context(provider)


def told(error: Exception, name: str, key: str, wire: Wire) -> ModelFailed:
    """What happened, in one line, without the key that a server may repeat."""

    def clean(text: str) -> str:
        return one_line(text.replace(key, "…") if key else text, 200)

    if wire.trouble:
        return failed(f"{name} {wire.trouble}")
    status = getattr(error, "status_code", None) or wire.status
    said = clean(error_message(getattr(error, "body", None)))
    if isinstance(status, int) and 300 <= status < 400:
        return failed(f"{name} answered {status}, a redirect, which is not followed", DOCS)
    if isinstance(status, int) and status >= 400:
        wait = getattr(error, "retry_after", None)
        later = f"; it asks for a pause of {wait:g} seconds" if isinstance(wait, int | float) else ""
        is_too_long = any("ContextWindow" in kind.__name__ for kind in type(error).__mro__)
        hint = _TOO_LONG if is_too_long else _HINTS.get(status, "")
        return failed(f"{name} answered {status}{': ' + said if said else ''}{later}", hint)
    if isinstance(error, ImportError):
        return failed(f"{name} needs a package that cannot be imported: {clean(str(error))}")
    chain = _chain(error)
    names = " ".join(type(one).__name__ for one in chain)
    reason = clean(str(chain[-1]) or type(chain[-1]).__name__)
    if "Timeout" in names:
        return failed(f"{name} gave no answer in time")
    if wire.status and ("RemoteProtocolError" in names or "ReadError" in names):
        return failed(f"{name} hung up before its answer was whole")
    if wire.status:
        return failed(f"{name} gave an answer that cannot be used: {said or reason}")
    if is_unreachable(error):
        return failed(f"{name} cannot be reached: {reason}", "Is it running there? `memsheaf models` looks.")
    return failed(f"{name} cannot be asked: {reason}", DOCS)


def is_unreachable(error: Exception) -> bool:
    """Whether it failed on the way there."""
    names = " ".join(type(one).__name__ for one in _chain(error))
    return "ConnectError" in names or "ReadError" in names or "RemoteProtocolError" in names


def _chain(error: BaseException) -> list[BaseException]:
    """An error and what brought it about, the deepest last."""
    found = [error]
    while (cause := found[-1].__cause__ or found[-1].__context__) and len(found) < 20:
        found.append(cause)
    return found


def _settings(model: TheirModel, question: Question, timeout: float) -> ModelSettings:
    """Settings as this model takes them: one that it only warns about is left out."""
    wanted: dict[str, object] = {"max_tokens": question.max_tokens, "max_retries": 0, "thinking": False}
    wanted["timeout"] = timeout  # our own deadline is the one that holds, but some clients refuse to go without
    profile: Mapping[str, object] = model.profile
    if not (profile.get("openai_supports_reasoning") or profile.get("anthropic_disallows_sampling_settings")):
        wanted["temperature"] = question.temperature
    if model.system == "openai":
        wanted["openai_store"] = False
    return {name: value for name, value in wanted.items() if name not in model.unsupported_settings}  # type: ignore[return-value]


def _parameters(model: TheirModel, question: Question) -> ModelRequestParameters:
    """The shape of the answer: by the provider's own JSON schema where it has one, else as a tool to be called."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    schema: dict[str, Any] = {**question.schema}
    if model.profile.get("supports_json_schema_output"):
        return ModelRequestParameters(
            output_mode="native", output_object=OutputObjectDefinition(schema, name=_TOOL), allow_text_output=True
        )
    tool = ToolDefinition(name=_TOOL, description="Give the answer.", parameters_json_schema=schema, kind="output")
    return ModelRequestParameters(output_mode="tool", output_tools=[tool], allow_text_output=False)


def _value(response: ModelResponse, question: Question) -> object:
    """What a response says. Raises ValueError when it says nothing, or not in the shape that was asked for."""
    if response.finish_reason == "length":
        raise ValueError(f"it did not end within {question.max_tokens} tokens")
    if calls := response.tool_calls:
        if len(calls) > 1 or calls[0].tool_name != _TOOL:
            raise ValueError("it calls tools that do not exist")
        arguments = calls[0].args
        return read(json.dumps(arguments) if isinstance(arguments, dict) else arguments or "", question.schema)
    if not response.text:
        raise ValueError("it is empty")
    return read(response.text, question.schema)


class Wire:
    """One exchange. `status` is what the server answered with, and `trouble` why its answer was not taken.

    With a `key`, no other goes out: a provider's code may find one in the environment that is not for this address.
    One that `streams` hands an answer on as it comes; any other reads it to its end first. `moved` is when something
    came or went last, by the clock that only goes forward, and infinite before; `is_done` says whether a stream said
    that it is over.
    """

    def __init__(self, key: str, *, streams: bool = False, most: int = ANSWER_BYTES) -> None:
        self._key = key
        self._family = ""
        self._streams = streams
        self._most = most
        self.status: int | None = None
        self.trouble = ""
        self.moved = float("inf")
        self.is_done = False

    def client(self, family: str, is_here: bool) -> Any:
        """A client of `httpx` or `httpx2`, as the provider's code wants it; to this machine without a proxy."""
        self._family = family
        return import_module(family).AsyncClient(
            timeout=3600.0,  # the deadline of the question is the shorter one
            follow_redirects=False,
            trust_env=not is_here,
            verify=_ssl_context(family, not is_here),
            event_hooks={"request": [self._sent], "response": [self._came]},
        )

    async def _sent(self, request: Any) -> None:
        self.moved = time.monotonic()
        request.headers["accept-encoding"] = "identity"
        for name in _CREDENTIALS:
            if self._key and self._key not in request.headers.get(name, self._key):
                del request.headers[name]

    async def _came(self, response: Any) -> None:
        """Take an answer as far as it may be long: whole, before anybody makes something of it, or as it comes."""
        self.status, self.moved = response.status_code, time.monotonic()
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise self._refused("sent a packed answer, which nobody asked for")
        if self._streams and response.status_code == 200:
            response.stream = self._handed_on(response.stream)
            return
        data = bytearray()
        async for part in response.stream:
            data += part
            if len(data) > ANSWER_BYTES:
                raise self._refused(f"sent more than {ANSWER_BYTES // 1_000_000} MB")
        await response.stream.aclose()
        response.stream = import_module(self._family).ByteStream(bytes(data))

    def _handed_on(self, stream: Any) -> Any:
        """The stream in the shape that the client wants, watched while it goes by."""
        wire = self

        class Watched(import_module(self._family).AsyncByteStream):  # type: ignore[misc]
            async def __aiter__(self) -> AsyncIterator[bytes]:
                async for part in wire._watched(stream):
                    yield part

            async def aclose(self) -> None:
                await stream.aclose()

        return Watched()

    async def _watched(self, stream: Any) -> AsyncIterator[bytes]:
        length, end = 0, b""
        async for part in stream:
            self.moved = time.monotonic()
            length += len(part)
            if length > self._most:
                raise self._refused(f"sent more than {self._most / 1_000_000:g} MB")
            end = (end + part[-_END:])[-_END:]
            self.is_done = _DONE in end
            yield part

    def _refused(self, what: str) -> OSError:
        self.trouble = what
        return OSError(what)


@cache
def _ssl_context(family: str, trust_env: bool) -> Any:
    """What a client checks certificates with, made once: it takes longer than all else about a client."""
    return import_module(family).create_ssl_context(trust_env=trust_env)
