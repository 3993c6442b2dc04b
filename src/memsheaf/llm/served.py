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
from collections.abc import Mapping
from contextlib import AsyncExitStack
from inspect import signature

from memsheaf.embed.http import parse_address
from memsheaf.errors import BadSettings, ModelFailed
from memsheaf.llm.http_client import Wire
from memsheaf.llm.json_answer import read
from memsheaf.llm.message_format import sendable
from memsheaf.llm.model import Answer, Question, failed
from memsheaf.llm.providers import DOCS, PROVIDERS, Choice, choose, key_of, require
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

_MESSAGE = 200
_TOOL = "answer"
NO_KEY = "none"
"""What is sent where a client insists on a key and none is needed."""


class Served:
    """A model that a provider serves. Nothing is sent before the first question; threads may share it.

    Each question has a client of its own, in a thread and an event loop of its own, and all of it is gone with the
    answer: so it can be asked from anywhere, from inside a running event loop too.
    """

    def __init__(
        self, name: str, *, url: str = "", key: str = "", environment: Mapping[str, str] = os.environ
    ) -> None:
        self._choice = chosen(name, url=url, key=key, environment=environment)
        self._environment = environment

    @property
    def name(self) -> str:
        """Which model this is, and where, if not at the provider's own address."""
        return called(self._choice)

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


def chosen(name: str, *, url: str, key: str, environment: Mapping[str, str]) -> Choice:
    """A choice for which all is here. Raises BadSettings, ModelFailed."""
    choice = choose(name, url=url, key=key, environment=environment)
    require(choice, environment)
    if choice.provider not in PROVIDERS:
        _known_elsewhere(choice)
    return choice


def called(choice: Choice) -> str:
    """Which model this is, and where, if not at the provider's own address."""
    return f"{choice.name} at {choice.place}" if choice.place else choice.name


_LOADING = threading.Lock()
"""Held by the thread that imports pydantic-ai: threads that import it side by side may see half of it."""


async def opened(choice: Choice, key: str, wire: Wire, stack: AsyncExitStack) -> TheirModel:
    """The model with a client of its own, which is closed with the stack. Raises ModelFailed, and what clients do."""
    with _LOADING:
        return await _opened(choice, key, wire, stack)


async def _opened(choice: Choice, key: str, wire: Wire, stack: AsyncExitStack) -> TheirModel:
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
        return one_line(text.replace(key, "…") if key else text, _MESSAGE)

    if wire.trouble:
        return failed(f"{name} {wire.trouble}")
    status = getattr(error, "status_code", None) or wire.status
    said = clean(_said(getattr(error, "body", None)))
    if isinstance(status, int) and 300 <= status < 400:
        return failed(f"{name} answered {status}, a redirect, which is not followed", DOCS)
    if isinstance(status, int) and status >= 400:
        wait = getattr(error, "retry_after", None)
        later = f"; it asks for a pause of {wait:g} seconds" if isinstance(wait, int | float) else ""
        return failed(f"{name} answered {status}{': ' + said if said else ''}{later}", _hint(error, status))
    if isinstance(error, ImportError):
        return failed(f"{name} needs a package that cannot be imported: {clean(str(error))}")
    chain = _chain(error)
    names = " ".join(type(one).__name__ for one in chain)
    reason = clean(str(chain[-1]) or type(chain[-1]).__name__)
    if "Timeout" in names:
        return failed(f"{name} gave no answer in time")
    if wire.status:
        cut = "RemoteProtocolError" in names or "ReadError" in names
        what = (
            "hung up before its answer was whole" if cut else f"gave an answer that cannot be used: {said or reason}"
        )
        return failed(f"{name} {what}")
    if is_unreachable(error):
        return failed(f"{name} cannot be reached: {reason}", "Is it running there? `memsheaf models` looks.")
    return failed(f"{name} cannot be asked: {reason}", DOCS)


def is_unreachable(error: Exception) -> bool:
    """Whether it failed on the way there."""
    names = " ".join(type(one).__name__ for one in _chain(error))
    return "ConnectError" in names or "ReadError" in names or "RemoteProtocolError" in names


def _hint(error: Exception, status: int) -> str:
    """What to do about an error that a server answered with; "" when there is nothing to say."""
    if any("ContextWindow" in one.__name__ for one in type(error).__mro__):
        return "What was sent is longer than this model reads: make it shorter, or choose another model."
    return _HINTS.get(status, "")


_LIKE_OPENAI = {"openai", "openai-chat", "openai-compatible", "lmstudio", "llama-cpp"}
"""Those that are reached through OpenAI's chat completions when they have an address of their own."""

_HINTS = {
    401: "The key is not accepted there: look at the variable that holds it; `memsheaf models` names it.",
    403: "The key is not allowed to do this: look at its rights at the provider.",
    404: "The model or the address is not known there: check model.name and model.url.",
    429: "Try again later; what needs no model went on without it.",
    529: "Many ask it at the moment: try again later; what needs no model went on without it.",
}


def _known_elsewhere(choice: Choice) -> None:
    """Make sure that pydantic-ai knows a provider that we do not. Raises BadSettings, ModelFailed."""
    from pydantic_ai.providers import infer_provider_class

    try:
        infer_provider_class(choice.provider)
    except ValueError:
        error = BadSettings(f"there is no provider {choice.provider!r}; some are {', '.join(PROVIDERS)}")
        error.hint = DOCS
        raise error from None
    except ImportError as error:
        hint = f"`pip install 'pydantic-ai-slim[{choice.provider}]'` brings it."
        raise failed(
            f"{choice.name} needs a package that is not installed: {one_line(str(error), _MESSAGE)}", hint
        ) from None


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


def _said(body: object) -> str:
    """What an error says, first line, wherever a provider puts it."""
    for _ in range(6):
        if isinstance(body, list):
            body = body[0] if body else ""
        elif isinstance(body, Mapping):
            found = [body[name] for name in ("error", "message", "detail", "msg") if body.get(name)]
            body = found[0] if found else ""
    text = body.strip() if isinstance(body, str) else ""
    return "" if text.startswith(("<", "{", "[")) else text.partition("\n")[0]


def _chain(error: BaseException) -> list[BaseException]:
    """An error and what brought it about, the deepest last."""
    found = [error]
    while (cause := found[-1].__cause__ or found[-1].__context__) and len(found) < 20:
        found.append(cause)
    return found
