"""Models of a provider, through pydantic-ai: one request, one answer.

Texts leave the process here. So it is strict, as with embedders: https, but for this machine; no redirect is
followed; the key is read when it is needed, sent to one address, and shown to nobody. A client's own retries are off:
who wants to ask again asks again, and pays again.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any

from memsheaf.errors import BadSettings, ModelFailed
from memsheaf.limits import TimeUp, within
from memsheaf.llm.http import error_message
from memsheaf.llm.json_answer import ANSWER_BYTES, UnusableAnswer
from memsheaf.llm.model import Answer, Question
from memsheaf.llm.providers import CHOOSE, NO_KEY, choose
from memsheaf.text.neutralize import one_line

_STREAM_END = b"[DONE]"  # of OpenAI and its kin
_STREAM_END_BYTES = 32  # in which it stands
_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "openai-organization", "openai-project")
_HINTS = {
    401: "The key is not accepted there: look at the variable that holds it; `memsheaf doctor` names it.",
    403: "The key is not allowed to do this: look at its rights at the provider.",
    404: "The model or the address is not known there: check model.name and model.url.",
    429: "Try again later; what needs no model went on without it.",
    529: "It is overloaded: try again later; what needs no model went on without it.",
}
_TOO_LONG = "What was sent is longer than this model reads: make it shorter, or choose another model."

LOADING = Lock()  # held while pydantic-ai is imported: concurrent imports may see a partial module


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
        """Return which model this is, and where, if not at the provider's own address."""
        return self._choice.title

    def ask(self, question: Question, *, deadline: float) -> Answer:
        """Return the answer, in at most `deadline` seconds. Raises ModelFailed."""
        key = self._choice.read_key(self._environment)
        end = time.monotonic() + deadline - min(0.1, deadline / 10)  # time to hang up properly
        wire = Wire(key or NO_KEY if self._choice.place else "")

        def work() -> Answer:
            with LOADING:
                from memsheaf.llm.pydantic_client import ask
            return ask(self._choice, key, wire.client, question, end - time.monotonic())

        try:
            return within(deadline, work, name="memsheaf-model")
        except (TimeUp, TimeoutError):
            raise ModelFailed(f"{self.name} gave no answer within {deadline:g} seconds") from None
        except (ModelFailed, BadSettings):
            raise
        except UnusableAnswer as error:
            raise ModelFailed(f"{self.name} gave an answer that cannot be used: {error}") from None
        except Exception as error:  # noqa: BLE001 - a guest among other people's clients, which raise what they like
            raise explain_failure(error, self.name, key, wire) from None


def explain_failure(error: Exception, name: str, key: str, wire: Wire) -> ModelFailed:
    """Return what happened, in one line, without the key that a server may repeat."""

    def clean(text: str) -> str:
        return one_line(text.replace(key, "…") if key else text, 200)

    if wire.trouble:
        return ModelFailed(f"{name} {wire.trouble}")
    status = getattr(error, "status_code", None) or wire.status
    message = clean(error_message(getattr(error, "body", None)))
    if isinstance(status, int) and 300 <= status < 400:
        return ModelFailed(f"{name} answered {status}, a redirect, which is not followed", hint=CHOOSE)
    if isinstance(status, int) and status >= 400:
        wait = getattr(error, "retry_after", None)
        later = f"; it asks for a pause of {wait:g} seconds" if isinstance(wait, int | float) else ""
        is_too_long = any("ContextWindow" in kind.__name__ for kind in type(error).__mro__)
        hint = _TOO_LONG if is_too_long else _HINTS.get(status, "")
        return ModelFailed(f"{name} answered {status}{': ' + message if message else ''}{later}", hint=hint)
    if isinstance(error, ImportError):
        return ModelFailed(f"{name} needs a package that cannot be imported: {clean(str(error))}")
    chain = _chain(error)
    names = " ".join(type(each).__name__ for each in chain)
    reason = clean(str(chain[-1]) or type(chain[-1]).__name__)
    if "Timeout" in names:
        return ModelFailed(f"{name} gave no answer in time")
    if wire.status and ("RemoteProtocolError" in names or "ReadError" in names):
        return ModelFailed(f"{name} closed the connection before its answer was complete")
    if wire.status:
        return ModelFailed(f"{name} gave an answer that cannot be used: {message or reason}")
    if is_unreachable(error):
        return ModelFailed(
            f"{name} cannot be reached: {reason}", hint="Is it running there? `memsheaf doctor` looks."
        )
    return ModelFailed(f"{name} cannot be asked: {reason}", hint=CHOOSE)


def is_unreachable(error: Exception) -> bool:
    """Return True if it failed on the way there."""
    names = " ".join(type(each).__name__ for each in _chain(error))
    return "ConnectError" in names or "ReadError" in names or "RemoteProtocolError" in names


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and what brought it about, the deepest last."""
    chain = [error]
    while (cause := chain[-1].__cause__ or chain[-1].__context__) and len(chain) < 20:
        chain.append(cause)
    return chain


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
        """Return a client of `httpx` or `httpx2`, as the provider's code wants; to this machine without a proxy."""
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
        for name in _KEY_HEADERS:
            if self._key and self._key not in request.headers.get(name, self._key):
                del request.headers[name]

    async def _came(self, response: Any) -> None:
        """Take an answer as far as it may be long: whole, before anybody makes something of it, or as it comes."""
        self.status, self.moved = response.status_code, time.monotonic()
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise self._refused("sent a compressed answer, which was not requested")
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
        """Return the stream in the shape that the client wants, watched while it goes by."""
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
            end = (end + part[-_STREAM_END_BYTES:])[-_STREAM_END_BYTES:]
            self.is_done = _STREAM_END in end
            yield part

    def _refused(self, what: str) -> OSError:
        self.trouble = what
        return OSError(what)


@cache
def _ssl_context(family: str, trust_env: bool) -> Any:
    """Return what a client checks certificates with, made once: it takes longer than all else about a client."""
    return import_module(family).create_ssl_context(trust_env=trust_env)
