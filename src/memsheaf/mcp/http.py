"""The MCP server over HTTP, as the protocol's "streamable HTTP" wants it.

A client posts each message to one path. The answer is JSON, or a stream of events once there is progress to tell. In
the era of the handshake a client has a session, which a header names, and a GET opens a stream on which it is told
when memories come or go. In the modern era every request stands alone, and `subscriptions/listen` opens that stream.

Requests that need the memories go to threads, so that the event loop never waits for a disk.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import re
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from memsheaf.adapters import missing

try:
    import anyio
    import anyio.from_thread
    import anyio.to_thread
    import uvicorn  # noqa: F401 - tells what is missing
    from starlette.applications import Starlette
    from starlette.datastructures import Headers
    from starlette.responses import Response
    from starlette.routing import BaseRoute, Route
    from starlette.types import Receive, Scope, Send
except ImportError as error:
    raise missing("mcp", error) from None

from memsheaf.errors import MemsheafError
from memsheaf.index.search import asked_at
from memsheaf.mcp.http_auth import PATH, AccessCheck, Admit
from memsheaf.mcp.http_bind import Endpoint, Listener
from memsheaf.mcp.http_server import HttpServer
from memsheaf.mcp.offer import Offer
from memsheaf.mcp.protocol import (
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    LISTEN,
    METHOD_NOT_FOUND,
    MODERN_VERSION,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    WATCH_SECONDS,
    McpConversation,
    McpRequest,
    ProtocolError,
    Service,
    failure,
    list_changed,
    meta_of,
    parse_message,
    wants_list_changed,
)
from memsheaf.tools import READING

T = TypeVar("T")
Message = dict[str, Any]
OpenOffer = Callable[[bool], Offer]  # for one session (True), or for all requests that stand alone (False)

MAX_SESSIONS, MAX_IDLE_SECONDS = 1_000, 2 * 3_600
MAX_WAITING_REPORTS = 1_000  # of progress, for a client that is slow to read; more are left out
SHUTDOWN_SECONDS = 10  # for what runs when the server is told to end
PING_SECONDS = 15.0  # a proxy may close a stream that is silent for long
SLOT_SECONDS = 0.25  # that a call may hold one of the two slots
REQUEST_CANCELLED = -32800
EVENT_STREAM = {"content-type": "text/event-stream", "cache-control": "no-cache", "x-accel-buffering": "no"}

SESSION, VERSION, METHOD, NAME = "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"
NAMED_PARAM = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that the header `Mcp-Name` repeats, by method."""
STATUSES = {METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 200}
"""The status for an error of the modern era; 400 for all others."""


def serve(
    service: Service,
    open_offer: OpenOffer,
    site: Endpoint,
    listener: Listener,
    admit: Admit,
    *,
    stateless: bool = False,
    routes: Sequence[BaseRoute] = (),
    ready: Callable[[str], None] = lambda url: None,
) -> int:
    """Serve on what `site.listen()` gave until a signal says to end, and return its number. `ready` is told the URL.

    Then nobody new is let in, and what runs is finished and answered, within some seconds. A second signal ends all
    at once; what was answered is kept even so. A `stateless` one keeps no sessions, so that another may answer next.
    """
    hosts = site.hosts(listener.getsockname()[1])
    url = f"{'https' if site.certificate else 'http'}://{hosts[0]}{PATH}"
    transport = HttpTransport(service, open_offer, stateless=stateless)
    app = Starlette(routes=[Route(PATH, transport), *routes], lifespan=transport.lifespan)
    door = AccessCheck(app, hosts=frozenset(hosts), admit=admit, version=service.info["version"], know=listener.know)

    def close() -> None:
        door.close()
        transport.close()

    web = HttpServer(
        door, site, listener, seconds=SHUTDOWN_SECONDS, lifespan=True, ready=lambda: ready(url), ending=close
    )
    web.run(sockets=[listener])
    return web.signal


def admit_token(token: str) -> Admit:
    """Admit requests with this token."""

    async def admit(shown: str, headers: object) -> bool:
        return hmac.compare_digest(shown.encode(), token.encode())

    return admit


class WorkSlots:
    """Limits concurrent work: two calls at a time, first come, first served, and one writer.

    A call that takes longer than SLOT_SECONDS, such as a write that waits for another process, gives up its slot.
    """

    def __init__(self) -> None:
        self._two = anyio.CapacityLimiter(2)
        self._writing = anyio.Lock()

    async def run(self, work: Callable[[], T], *, writes: bool) -> T:
        """Run the work in a worker thread once a slot is free."""
        arrived, holder = time.monotonic(), object()

        def begin() -> T:
            with asked_at(arrived):
                return work()

        def leave() -> None:
            with suppress(RuntimeError):  # it has left already
                self._two.release_on_behalf_of(holder)

        await self._two.acquire_on_behalf_of(holder)
        timer = asyncio.get_running_loop().call_later(SLOT_SECONDS, leave)
        try:
            if not writes:
                return await anyio.to_thread.run_sync(begin)
            if self._writing.locked():
                leave()
            async with self._writing:
                return await anyio.to_thread.run_sync(begin)
        finally:
            timer.cancel()
            leave()


class Refusal(ProtocolError):
    """A request that HTTP answers with a status of its own."""

    def __init__(self, status: int, message: str, *, code: int = INVALID_REQUEST, allow: str = "") -> None:
        super().__init__(code, message)
        self.status = status
        self.headers = {"allow": allow} if allow else {}


class Exchange:
    """One HTTP request and its answer: JSON, or a stream of events if something is written before the end."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.http_method = scope["method"]
        self.headers = Headers(scope=scope)
        self.receive = receive
        self._scope = scope
        self._send = send
        self._is_streaming = False

    def accepts(self, kind: str) -> bool:
        """Return True if the client takes an answer of this media type."""
        accepted = {part.partition(";")[0].strip().lower() for part in self.headers.get("accept", "").split(",")}
        return not accepted.isdisjoint({kind, kind.partition("/")[0] + "/*", "*/*"})

    async def wait_for_disconnect(self) -> None:
        """Wait until the client hangs up."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def begin_stream(self) -> None:
        """Send the head of a stream of events."""
        self._is_streaming = True
        headers = [(key.encode(), value.encode()) for key, value in EVENT_STREAM.items()]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": b"", "more_body": True})

    async def write(self, message: Message | None) -> None:
        """Send a message as an event; None sends something that keeps the connection open."""
        if not self._is_streaming:
            await self.begin_stream()
        event = _event(message) if message else b": ping\n\n"
        await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def end(self, message: Message | None, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Send the last message, if any: as an event where others went before, else as JSON."""
        if self._is_streaming:
            await self._send({"type": "http.response.body", "body": _event(message) if message else b""})
        elif message:
            await Response(_dump(message), status, headers, "application/json")(self._scope, self.receive, self._send)
        else:
            await Response(None, status, headers)(self._scope, self.receive, self._send)


class Client:
    """One client that is told of changes: for as long as its session, or as the stream on which it listens."""

    def __init__(self, conversation: McpConversation) -> None:
        self.conversation = conversation
        self.session_id = uuid4().hex
        self.offer: Offer | None = None
        self.changed = anyio.Event()  # memories came or went, and it was not told yet
        self.is_ended = False
        self.has_stream = False
        self.requests = 0  # that are being answered
        self.used_at = time.monotonic()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the session meanwhile, however long it takes."""
        self.requests += 1
        try:
            yield
        finally:
            self.requests -= 1
            self.used_at = time.monotonic()


class HttpTransport:
    """The ASGI application behind the access check. A `stateless` one has no sessions, and tells of no changes."""

    def __init__(
        self,
        service: Service,
        open_offer: OpenOffer,
        *,
        stateless: bool = False,
        watch_seconds: float = WATCH_SECONDS,
    ) -> None:
        self._service = service
        self._open_offer = open_offer
        self._is_stateless = stateless
        self._watch_seconds = watch_seconds
        self._slots = WorkSlots()
        self._sessions: dict[str, Client] = {}
        self._listening: set[Client] = set()  # of the modern era
        self._shared: Offer | None = None
        self._opening = threading.Lock()
        self._seen: str | None = None  # the last commit that anybody was told of; None while nobody is there
        self._written = anyio.Event()  # something was changed through us

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """Watch for changes as long as the server runs."""
        async with anyio.create_task_group() as group:
            if not self._is_stateless:
                group.start_soon(self._watch)
            yield
            group.cancel_scope.cancel()

    def close(self) -> None:
        """End the streams of those who listen."""
        for client in (*self._sessions.values(), *self._listening):
            _end(client)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        exchange = Exchange(scope, receive, send)
        version = exchange.headers.get(VERSION)
        era = "handshake" if version is None or version in HANDSHAKE_VERSIONS else "modern"
        try:
            if exchange.http_method == "POST":
                await self._post(exchange, era)
            elif era == "modern" or self._is_stateless:
                raise Refusal(405, "POST only", allow="POST")
            elif exchange.http_method == "DELETE":
                _end(self._sessions.pop(self._find_session(exchange).session_id))
                await exchange.end(None)
            else:
                await self._stream_session(exchange, self._find_session(exchange))
        except Refusal as error:
            await exchange.end(failure(None, error), error.status, error.headers)

    async def _post(self, exchange: Exchange, era: str) -> None:
        """Take one message."""
        if not (exchange.accepts("application/json") and exchange.accepts("text/event-stream")):
            raise Refusal(406, "the client must accept application/json and text/event-stream")
        try:
            message = parse_message((await exchange.receive())["body"])
        except ProtocolError as error:
            raise Refusal(400, str(error), code=error.code) from None
        number, method, params = message.get("id"), message.get("method"), message.get("params")
        session = None
        if era == "modern" or self._is_stateless:
            conversation = McpConversation(self._service, era, is_greeted=True)
        elif method == "initialize" and SESSION not in exchange.headers:
            conversation = McpConversation(self._service, era)
        else:
            session = self._find_session(exchange)
            conversation = session.conversation
        if number is None or method is None:
            await self._take_notification(exchange, conversation, session, method, params)
            return await exchange.end(None, 202)
        request = McpRequest(number, method, {} if params is None else params)
        try:
            if era == "modern":
                _check_headers(exchange.headers, request)
            response = conversation.begin(request)
        except ProtocolError as error:
            response = failure(number, error)
        if response is None and method == LISTEN:
            return await self._listen(exchange, conversation, request)
        if response is None:
            response = await self._work(exchange, conversation, session, request)
        if "error" in response:
            code = response["error"]["code"]
            return await exchange.end(response, STATUSES.get(code, 400) if era == "modern" else 200)
        if method == "initialize" and session is None and not self._is_stateless:
            session_id = self._add_session(conversation)
            return await exchange.end(response, headers={SESSION: session_id})
        return await exchange.end(response)

    async def _take_notification(
        self,
        exchange: Exchange,
        conversation: McpConversation,
        session: Client | None,
        method: str | None,
        params: object,
    ) -> None:
        if conversation.era == "modern":
            if method is None:
                raise Refusal(400, "a client is asked nothing, and answers nothing")
            if exchange.headers[VERSION] != MODERN_VERSION:
                raise Refusal(400, "Unsupported protocol version", code=UNSUPPORTED_VERSION)
        elif session and method == "notifications/initialized":
            await self._attend()
        elif method:
            conversation.cancel(method, params)

    def _find_session(self, exchange: Exchange) -> Client:
        session_id = exchange.headers.get(SESSION)
        if session_id is None:
            raise Refusal(400, "the session id is missing")
        if session_id not in self._sessions:
            raise Refusal(404, "there is no such session")
        return self._sessions[session_id]

    def _add_session(self, conversation: McpConversation) -> str:
        self._drop_idle_sessions()
        if len(self._sessions) >= MAX_SESSIONS:
            raise Refusal(503, "too many sessions are open", code=INTERNAL_ERROR)
        client = Client(conversation)
        self._sessions[client.session_id] = client
        return client.session_id

    def _drop_idle_sessions(self) -> None:
        oldest = time.monotonic() - MAX_IDLE_SECONDS
        for client in list(self._sessions.values()):
            if not client.requests and client.used_at < oldest:
                del self._sessions[client.session_id]

    def _offer(self, session: Client | None) -> Offer:
        """Return the memories for a request: those of its session, or those that all others share."""
        if self._is_stateless:
            return self._open_offer(False)
        with self._opening:
            if session:
                session.offer = session.offer or self._open_offer(True)
                return session.offer
            self._shared = self._shared or self._open_offer(False)
            return self._shared

    async def _work(
        self, exchange: Exchange, conversation: McpConversation, session: Client | None, request: McpRequest
    ) -> Message:
        """Return the response to a request that needs the memories, and stream its progress meanwhile.

        A thread that has begun is waited for, even when the client has gone: a write is made, or not made. In the
        modern era a client cancels by hanging up; in the era of the handshake it sends a notification.
        """
        reports, progress = anyio.create_memory_object_stream[Message](MAX_WAITING_REPORTS)
        response: Message | None = None
        writes = request.method == "tools/call" and request.params["name"] not in READING

        def report(message: Message) -> None:  # in the thread, which holds a lock: it must not wait for the client
            with suppress(anyio.WouldBlock):
                anyio.from_thread.run_sync(reports.send_nowait, message)

        def answer(request: McpRequest) -> Message:
            return self._offer(session).answer(request.method, request.params, request.report_progress(report))

        async def run() -> None:
            nonlocal response
            with reports, session.in_use() if session else nullcontext():
                response = await self._slots.run(partial(conversation.perform, request, answer), writes=writes)

        async def watch() -> None:
            await exchange.wait_for_disconnect()
            request.is_cancelled = True

        async with progress, anyio.create_task_group() as group:
            group.start_soon(run)
            if conversation.era == "modern":
                group.start_soon(watch)
            with suppress(anyio.EndOfStream):
                while True:
                    message = None
                    with anyio.move_on_after(PING_SECONDS):
                        message = await progress.receive()
                    await exchange.write(message)
            group.cancel_scope.cancel()
        if writes:
            self._written.set()
        return response or failure(request.id, ProtocolError(REQUEST_CANCELLED, "McpRequest cancelled"))

    async def _stream_session(self, exchange: Exchange, client: Client) -> None:
        """Tell a client of the handshake when memories come or go, until it hangs up."""
        if not exchange.accepts("text/event-stream"):
            raise Refusal(406, "the client must accept text/event-stream")
        if client.has_stream:
            raise Refusal(409, "the session has a stream already")
        client.has_stream = True
        try:
            with client.in_use():
                await exchange.begin_stream()
                await self._follow(exchange, client, lambda: bool(client.offer and client.offer.has_listed), None)
        finally:
            client.has_stream = False
        await exchange.end(None)

    async def _listen(self, exchange: Exchange, conversation: McpConversation, request: McpRequest) -> None:
        """Tell a client of the modern era when memories come or go, until it hangs up."""
        client = Client(conversation)
        self._listening.add(client)
        try:
            await self._attend()
            await exchange.write(conversation.acknowledge(request))
            await self._follow(exchange, client, lambda: wants_list_changed(request), request)
        finally:
            self._listening.discard(client)
        await exchange.end(conversation.end_stream(request))

    async def _follow(
        self, exchange: Exchange, client: Client, wants: Callable[[], bool], request: McpRequest | None
    ) -> None:
        """Tell a client of each change that it wants to know of, until it hangs up or is ended."""
        async with anyio.create_task_group() as group:

            async def watch() -> None:
                await exchange.wait_for_disconnect()
                _end(client)

            group.start_soon(watch)
            while not client.is_ended:
                if not client.changed.is_set():
                    await exchange.write(None)
                else:
                    client.changed = anyio.Event()  # before it is told: what changes meanwhile is told next
                    if wants():
                        await exchange.write(list_changed(request))
                with anyio.move_on_after(PING_SECONDS):
                    await client.changed.wait()
            group.cancel_scope.cancel()

    async def _attend(self) -> None:
        """Note the last commit at the first client, so that later ones are told."""
        if self._seen is None and not self._is_stateless:
            with suppress(MemsheafError):  # the next call says what is wrong
                last = await anyio.to_thread.run_sync(lambda: self._offer(None).last())
                self._seen = self._seen or last

    async def _watch(self) -> None:
        """Tell clients of changes through us at once, and look regularly for those of other processes."""
        looked = time.monotonic()
        while True:
            with anyio.move_on_after(self._watch_seconds):
                await self._written.wait()
            self._written = anyio.Event()
            self._drop_idle_sessions()
            clients = [*self._sessions.values(), *self._listening]
            if not clients:
                self._seen = None
                if self._shared is None:
                    continue
            is_due = time.monotonic() - looked >= self._watch_seconds
            if is_due:
                looked = time.monotonic()
            try:
                is_new, seen = await anyio.to_thread.run_sync(
                    lambda look: self._offer(None).has_new_list(self._seen, look=look), is_due
                )
            except MemsheafError:
                continue  # the next call says what is wrong
            except Exception:  # noqa: BLE001 - a mistake of ours must not end the server; the next look may work
                traceback.print_exc()
                continue
            if clients:
                self._seen = seen
            if is_new:
                for client in clients:
                    client.changed.set()


def _end(client: Client) -> None:
    """End the stream of a client."""
    client.is_ended = True
    client.changed.set()


def _event(message: Message) -> bytes:
    return b"event: message\ndata: " + _dump(message) + b"\n\n"


def _dump(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def _check_headers(headers: Headers, request: McpRequest) -> None:
    """Refuse a request of the modern era whose headers contradict its body."""
    params = request.params if isinstance(request.params, dict) else {}
    expected = {METHOD: request.method}
    if VERSION_KEY in meta_of(params):
        expected[VERSION] = meta_of(params)[VERSION_KEY]
    key = NAMED_PARAM.get(request.method, "")
    if params.get(key) is not None:
        expected[NAME] = params[key]
    for name in (VERSION, METHOD, NAME):
        if len(headers.getlist(name)) > 1:
            raise ProtocolError(HEADER_MISMATCH, f"the header {name} appears more than once")
    for name, value in expected.items():
        if _decode(headers.get(name, "")) != value:
            raise ProtocolError(HEADER_MISMATCH, f"the header {name} does not match the body of the request")


def _decode(value: str) -> str | None:
    """Return the text of a header, which is base64 where it is not plain ASCII, and None if that is malformed.

    >>> _decode("memory_read"), _decode("=?base64?Y2Fmw6k=?="), _decode("=?base64?x?=")
    ('memory_read', 'café', None)
    """
    encoded = re.fullmatch(r"=\?base64\?(.*)\?=", value)
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except ValueError:  # of base64 and of UTF-8
        return None
