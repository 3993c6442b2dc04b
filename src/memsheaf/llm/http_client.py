"""An HTTP client for models: no redirects, a limit on what is read, activity recorded."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import cache
from importlib import import_module

from memsheaf.llm.json_answer import ANSWER_BYTES

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DONE, _END = b"[DONE]", 32  # how OpenAI and its kin end a stream, and how far back that can be
_CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key", "openai-organization", "openai-project")


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
            verify=_context(family, not is_here),
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
def _context(family: str, trust_env: bool) -> Any:
    """What a client checks certificates with, made once: it takes longer than all else about a client."""
    return import_module(family).create_ssl_context(trust_env=trust_env)
