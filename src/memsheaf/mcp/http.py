"""The MCP server over HTTP: start-up, signals, graceful shutdown, and a fast path for plain tool calls."""

from __future__ import annotations

import hmac
import json
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from memsheaf.adapters import missing

try:
    import anyio
    import uvicorn  # noqa: F401 - tells what is missing
    from mcp.server.transport_security import TransportSecuritySettings
    from starlette.routing import Route
    from starlette.types import Receive
except ImportError as error:
    raise missing("mcp", error) from None

from memsheaf.mcp.answers import called
from memsheaf.mcp.http_auth import PATH, AccessCheck, Admit
from memsheaf.mcp.http_bind import Endpoint, Listener
from memsheaf.mcp.http_server import HttpServer
from memsheaf.mcp.protocol import CAN_KEY, CLIENT_KEY, INTERNAL, MESSAGE_BYTES, MODERN, VERSION_KEY, listed, modern
from memsheaf.mcp.sdk_server import SdkServer
from memsheaf.mcp.subscriptions import Clients, ignore_progress
from memsheaf.tools import READING
from memsheaf.values import parse_object

Message = dict[str, Any]

SESSIONS, IDLE_SECONDS = 1_000, 2 * 3_600  # conversations of the handshake: so many, and dropped after so long
ENDING_SECONDS = 10  # for what runs when the server is told to end
CALL = "tools/call"
_HEADERS = (b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"accept")


def serve(
    clients: Clients,
    site: Endpoint,
    listener: Listener,
    admit: Admit,
    *,
    version: str,
    reading: bool = False,
    tools: bool = True,
    head: Callable[[int], str] | None = None,
    stateless: bool = False,
    routes: Sequence[Route] = (),
    ready: Callable[[str], None] = lambda url: None,
) -> int:
    """Serve on what `site.listen()` gave until a signal says to end, and give its number. `ready` is told the URL.

    Then nobody new is let in, and what runs is finished and answered, within some seconds. A second signal ends all
    at once; what was answered is kept even so. A `stateless` one keeps no sessions, so that another may answer next.
    """
    hosts = site.hosts(listener.getsockname()[1])
    url = f"{'https' if site.certificate else 'http'}://{hosts[0]}{PATH}"
    server = SdkServer(clients, version, listed(reading=reading, tools=tools), head)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MESSAGE_BYTES,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=SESSIONS,
        stateless_http=stateless,
        custom_starlette_routes=list(routes),
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the door does it
    )
    quick = FastPath(server.clients, {"name": server.name, "title": server.title, "version": version})
    door = AccessCheck(
        app, hosts=frozenset(hosts), admit=admit, version=version, know=listener.know, quick=quick.answer
    )

    def ending() -> None:
        door.close()
        server.clients.hang_up()

    web = HttpServer(
        door, site, listener, seconds=ENDING_SECONDS, lifespan=True, ready=lambda: ready(url), ending=ending
    )
    web.run(sockets=[listener])
    return web.signal


def admit_token(token: str) -> Admit:
    """Admit requests with this token."""

    async def admit(shown: str, headers: object) -> bool:
        return hmac.compare_digest(shown.encode(), token.encode())

    return admit


class FastPath:
    """A fast path for plain tool calls that bypasses the official SDK; `info` is the server's name and version.

    It takes plain calls of the modern era only: those with the required headers and fields and no others. Anything
    unusual or invalid is left to the SDK, so that there is one place that refuses.
    """

    def __init__(self, clients: Clients, info: Message) -> None:
        self._clients = clients
        self._info = info

    async def answer(self, headers: list[tuple[bytes, bytes]], body: bytes, receive: Receive) -> bytes | None:
        """The answer to a plain call; None for any other request, of which nothing was done."""
        message = _plain(headers, body)
        if message is None:
            return None
        try:
            offer = await self._clients.shared_offer()
        except Exception:  # noqa: BLE001 - the SDK's way opens it again, and reports the error
            return None
        params = message["params"]
        writes = params["name"] not in READING
        answer: Message = {}
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                group.cancel_scope.cancel()  # what has not begun is not done

            group.start_soon(watch)
            try:
                result = await self._clients.turns.run(called, offer, params, ignore_progress, writes=writes)
                answer = {"result": modern(result, CALL, self._info)}
            except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the server
                traceback.print_exc()
                answer = {"error": {"code": INTERNAL, "message": f"Internal error: {type(error).__name__}"}}
            finally:
                if writes:
                    self._clients.wake()
            group.cancel_scope.cancel()
        return json.dumps({"jsonrpc": "2.0", "id": message["id"]} | answer, separators=(",", ":")).encode()


def _plain(headers: list[tuple[bytes, bytes]], body: bytes) -> Message | None:
    """Parse a call with the required headers and fields and no others; None for any other request."""
    given = [(key, value) for key, value in headers if key in _HEADERS or key.startswith(b"mcp-")]
    said = dict(given)
    accepted = {kind.strip() for kind in said.get(b"accept", b"").split(b",")}
    if len(given) != len(_HEADERS) or said.get(b"mcp-protocol-version") != MODERN.encode():
        return None
    if said.get(b"mcp-method") != CALL.encode() or not accepted >= {b"application/json", b"text/event-stream"}:
        return None
    message = parse_object(body)
    name = said.get(b"mcp-name", b"").decode("latin-1")
    return message if name.isascii() and name.isidentifier() and _is_plain(message, name) else None


def _is_plain(message: object, name: str) -> bool:
    if not isinstance(message, dict) or message.keys() != {"jsonrpc", "id", "method", "params"}:
        return False
    params = message["params"]
    if (message["jsonrpc"], message["method"]) != ("2.0", CALL) or type(message["id"]) not in (int, str):
        return False
    if not isinstance(params, dict) or params.keys() - {"arguments"} != {"name", "_meta"} or params["name"] != name:
        return False
    meta = params["_meta"]
    if not isinstance(meta, dict) or not isinstance(params.get("arguments", {}), dict):
        return False
    client = meta.get(CLIENT_KEY, {"name": "", "version": ""})
    return (
        meta.keys() <= {VERSION_KEY, CAN_KEY, CLIENT_KEY}
        and meta.get(VERSION_KEY) == MODERN
        and meta.get(CAN_KEY) == {}  # the SDK checks any other
        and isinstance(client, dict)
        and client.keys() == {"name", "version"}
        and all(isinstance(value, str) for value in client.values())
    )
