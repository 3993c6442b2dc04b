"""What goes over the wire to a model, watched: an HTTP client that follows nobody and reads only so much."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from memsheaf.llm.reading import ANSWER_BYTES

_CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key", "openai-organization", "openai-project")


class Wire:
    """One exchange. `status` is what the server answered with, and `trouble` why its answer was not taken.

    With a `key`, no other goes out: a provider's code may find one in the environment that is not for this address.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._family = ""
        self.status: int | None = None
        self.trouble = ""

    def client(self, family: str, is_here: bool) -> Any:
        """A client of `httpx` or `httpx2`, as the provider's code wants it; to this machine without a proxy."""
        self._family = family
        return import_module(family).AsyncClient(
            timeout=3600.0,  # the deadline of the question is the shorter one
            follow_redirects=False,
            trust_env=not is_here,
            event_hooks={"request": [self._sent], "response": [self._came]},
        )

    async def _sent(self, request: Any) -> None:
        request.headers["accept-encoding"] = "identity"
        for name in _CREDENTIALS:
            if self._key and self._key not in request.headers.get(name, self._key):
                del request.headers[name]

    async def _came(self, response: Any) -> None:
        """Read an answer to its end, as far as it may be long, before anybody makes something of it."""
        self.status = response.status_code
        if response.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise self._refused("sent a packed answer, which nobody asked for")
        data = bytearray()
        async for part in response.stream:
            data += part
            if len(data) > ANSWER_BYTES:
                raise self._refused(f"sent more than {ANSWER_BYTES // 1_000_000} MB")
        await response.stream.aclose()
        response.stream = import_module(self._family).ByteStream(bytes(data))

    def _refused(self, what: str) -> OSError:
        self.trouble = what
        return OSError(what)
