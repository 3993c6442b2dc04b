"""Access checks of the HTTP server: exact Host, same origin, bearer token, JSON only.

A page in a browser on this machine reaches 127.0.0.1 as well as any program does; this is what keeps it out.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection

from memsheaf.adapters import missing

try:
    import anyio
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise missing("mcp", error) from None

from memsheaf.errors import MemsheafError, Refused
from memsheaf.mcp.protocol import MAX_MESSAGE_BYTES

Admit = Callable[[str, list[tuple[bytes, bytes]]], Awaitable[bool]]  # checks a bearer token; an error is sent as 503

PATH, HEALTH = "/mcp", "/health"
BODY_SECONDS = 30.0
TOO_SLOW, TOO_LARGE = 408, 413  # as a status says it


class AccessCheck:
    """Checks every request, in this order: Host, Origin, method, token, type and size of its body.

    `know` is told the address of whoever may come in.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        admit: Admit,
        version: str,
        know: Callable[[tuple[str, int]], None],
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._admit = admit
        self._health = json.dumps({"status": "ok", "version": version})
        self._know = know
        self._is_closing = False

    def close(self) -> None:
        """Refuse new requests."""
        self._is_closing = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or let it in."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        response = await self._check(scope)
        if response is None:
            if scope.get("client"):
                self._know(scope["client"])
            body = await read_body(scope, receive, MAX_MESSAGE_BYTES)
            if isinstance(body, bytes):
                return await self._app(scope, _replay(body, receive), send)
            if body == TOO_SLOW:
                response = _refuse(TOO_SLOW, "the body did not arrive in time", {"connection": "close"})
            else:
                response = _refuse(body, f"a message may have {MAX_MESSAGE_BYTES:,} bytes")
        return await response(scope, receive, send)

    async def _check(self, scope: Scope) -> Response | None:
        """Return the answer to a request that may not come in, else None."""
        method, named = scope["method"], header_values(scope, "host")
        if len(named) != 1 or named[0].lower() not in self._hosts:
            return _refuse(421, "this server is not known under that host; --allow-host NAME adds one")
        if not is_same_site(scope, self._hosts):
            return _refuse(403, "requests from pages of other sites are refused")
        if self._is_closing:
            return _refuse(503, "the server is ending", {"connection": "close"})
        if scope["path"] == HEALTH and method in ("GET", "HEAD"):
            return Response(self._health, media_type="application/json")
        if method not in ("GET", "POST", "DELETE"):
            return _refuse(405, "GET, POST and DELETE only", {"allow": "GET, POST, DELETE"})
        try:
            token = _bearer(header_values(scope, "authorization"))
            if not (token and await self._admit(token, scope["headers"])):
                challenge = 'Bearer error="invalid_token"' if token else "Bearer"
                return _refuse(401, "a token is needed: Authorization: Bearer TOKEN", {"www-authenticate": challenge})
        except Refused as error:
            return _refuse(400, str(error))
        except MemsheafError as error:
            return _refuse(503, str(error), {"retry-after": "1"})
        if method == "POST" and not _is_json(header_values(scope, "content-type")):
            return _refuse(415, "Content-Type: application/json only")
        return None


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes | int:
    """Read the whole body; the status of an error when it is too large or too slow."""
    length = (header_values(scope, "content-length") or ["0"])[0]
    if not (length.isdecimal() and len(length) < 10) or int(length) > most:
        return TOO_LARGE
    body = bytearray()
    with anyio.move_on_after(BODY_SECONDS):
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if len(body) > most:
                return TOO_LARGE
            if not message.get("more_body", False):
                return bytes(body)
    return TOO_SLOW


def is_same_site(scope: Scope, hosts: Collection[str]) -> bool:
    """Return True if a request comes from a program, or from a page of one of these very hosts."""
    if not all(site in ("none", "same-origin") for site in header_values(scope, "sec-fetch-site")):
        return False
    parts = [origin.lower().partition("://") for origin in header_values(scope, "origin")]
    return all(scheme in ("http", "https") and host in hosts for scheme, _, host in parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that begins with a body which was read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _bearer(given: list[str]) -> str:
    """Return the token that a request shows, "" when it shows none."""
    scheme, _, shown = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return shown.strip() if scheme.lower() == "bearer" else ""


def header_values(scope: Scope, name: str) -> list[str]:
    """Return all values of a header."""
    wanted = name.encode()
    return [value.decode("latin-1") for key, value in scope["headers"] if key == wanted]


def _is_json(types: list[str]) -> bool:
    return len(types) == 1 and types[0].partition(";")[0].strip().lower() == "application/json"


def _refuse(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return Response(f"{why}\n", status, headers, media_type="text/plain")
