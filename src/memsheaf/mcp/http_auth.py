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
from memsheaf.mcp.protocol import MESSAGE_BYTES

Admit = Callable[[str, list[tuple[bytes, bytes]]], Awaitable[bool]]  # checks a bearer token; an error is sent as 503
FastPath = Callable[[list[tuple[bytes, bytes]], bytes, Receive], Awaitable[bytes | None]]

PATH, HEALTH = "/mcp", "/health"
BODY_SECONDS = 30.0
TOO_SLOW, TOO_LARGE = 408, 413  # as a status says it


class AccessCheck:
    """Checks every request, in this order: Host, Origin, method, token, type and size of its body.

    `know` is told the address of whoever may come in; plain calls are answered by `quick`. When the server ends,
    streams that would stay open for ever are closed here, and nobody else is let in.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        admit: Admit,
        version: str,
        know: Callable[[tuple[str, int]], None],
        quick: FastPath,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._admit = admit
        self._health = json.dumps({"status": "ok", "version": version})
        self._know = know
        self._quick = quick
        self._ending = anyio.Event()

    def close(self) -> None:
        """Refuse new requests, and end the streams on which clients wait for changes."""
        self._ending.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or let it in."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        answer = await self._answered(scope)
        if answer is not None:
            return await answer(scope, receive, send)
        if scope.get("client"):
            self._know(scope["client"])
        if scope["method"] == "GET":
            return await self._streaming(scope, receive, send)
        if scope["method"] == "POST":
            body = await _body(scope, receive)
            if isinstance(body, Response):
                return await body(scope, receive, send)
            if scope["path"] == PATH and (result := await self._quick(scope["headers"], body, receive)) is not None:
                return await Response(result, media_type="application/json")(scope, receive, send)
            return await self._app(scope, _again(body, receive), send)
        return await self._app(scope, receive, send)

    async def _answered(self, scope: Scope) -> Response | None:
        """What is said at the door; None for a request that may come in."""
        method, named = scope["method"], header_values(scope, "host")
        if len(named) != 1 or named[0].lower() not in self._hosts:
            return _said(421, "this server is not known under that host; --allow-host NAME adds one")
        if not is_same_site(scope, self._hosts):
            return _said(403, "requests from pages of other sites are refused")
        if self._ending.is_set():
            return _said(503, "the server is ending", {"connection": "close"})
        if method not in ("GET", "HEAD", "POST", "DELETE"):
            return _said(405, "GET, POST and DELETE only", {"allow": "GET, POST, DELETE"})
        if scope["path"] == HEALTH and method in ("GET", "HEAD"):
            return Response(self._health, media_type="application/json")
        try:
            token = _bearer(header_values(scope, "authorization"))
            if not (token and await self._admit(token, scope["headers"])):
                challenge = 'Bearer error="invalid_token"' if token else "Bearer"
                return _said(401, "a token is needed: Authorization: Bearer TOKEN", {"www-authenticate": challenge})
        except Refused as error:
            return _said(400, str(error))
        except MemsheafError as error:
            return _said(503, str(error), {"retry-after": "1"})
        if method == "POST" and not _is_json(header_values(scope, "content-type")):
            return _said(415, "Content-Type: application/json only")
        return None

    async def _streaming(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream of news until the client hangs up, or the server ends."""
        state = ""

        async def received() -> Message:
            message: Message = {"type": "http.disconnect"}
            async with anyio.create_task_group() as group:

                async def watch() -> None:
                    await self._ending.wait()
                    group.cancel_scope.cancel()

                group.start_soon(watch)
                message = await receive()
                group.cancel_scope.cancel()
            return message

        async def sent(message: Message) -> None:
            nonlocal state
            is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
            state = "done" if is_last else "begun"
            await send(message)

        await self._app(scope, received, sent)
        if state == "begun":  # ended in the middle: the client sees a whole answer, and asks elsewhere
            await send({"type": "http.response.body", "body": b""})


async def _body(scope: Scope, receive: Receive) -> bytes | Response:
    """Read the whole body; an error response when it is too large or too slow."""
    body = await read_body(scope, receive, MESSAGE_BYTES)
    if body == TOO_SLOW:
        return _said(TOO_SLOW, "the body did not arrive in time", {"connection": "close"})
    return _said(body, f"a message may have {MESSAGE_BYTES:,} bytes") if isinstance(body, int) else body


async def read_body(scope: Scope, receive: Receive, most: int) -> bytes | int:
    """Read the whole body; the status of an error when it is too large or too slow."""
    length = (header_values(scope, "content-length") or ["0"])[0]
    if not (length.isascii() and length.isdigit() and len(length) < 10) or int(length) > most:
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
    """Whether a request comes from a program, or from a page of one of these very hosts."""
    if not all(site in ("none", "same-origin") for site in header_values(scope, "sec-fetch-site")):
        return False
    parts = [origin.lower().partition("://") for origin in header_values(scope, "origin")]
    return all(scheme in ("http", "https") and host in hosts for scheme, _, host in parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that replays a body which was read already."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


def _bearer(given: list[str]) -> str:
    """The token that a request shows, "" when it shows none."""
    scheme, _, shown = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    return shown.strip() if scheme.lower() == "bearer" else ""


def header_values(scope: Scope, name: str) -> list[str]:
    """All values of a header."""
    wanted = name.encode()
    return [value.decode("latin-1") for key, value in scope["headers"] if key == wanted]


def _is_json(types: list[str]) -> bool:
    return len(types) == 1 and types[0].partition(";")[0].strip().lower() == "application/json"


def _said(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return Response(f"{why}\n", status, headers, media_type="text/plain")
