"""What tests of the MCP server over HTTP share: a server process, the official client, and raw requests to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Route

from forks import Program
from mcp_server.mcp_peer import PATIENCE, Place
from memsheaf.mcp.http import HttpTransport, OpenOffer
from memsheaf.mcp.http_bind import Endpoint
from memsheaf.mcp.http_server import HttpServer
from memsheaf.mcp.protocol import WATCH_SECONDS, Service

ACCEPTED = ("Accept", "application/json, text/event-stream")
JSON = ("Content-Type", "application/json")


@contextmanager
def http_server(open_offer: OpenOffer, *, watch: float = WATCH_SECONDS) -> Iterator[Callable[..., Any]]:
    """A server in a thread of this process, without the access check; gives what makes clients of it."""
    transport = HttpTransport(Service("1"), open_offer, watch_seconds=watch)
    app = Starlette(routes=[Route("/mcp", transport)], lifespan=transport.lifespan)
    ready = threading.Event()
    with Endpoint(port=0).listen() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        server = HttpServer(
            app, Endpoint(), listener, seconds=5, lifespan=True, ready=ready.set, ending=transport.close
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        assert ready.wait(PATIENCE)
        try:
            yield lambda mode, **callbacks: Client(streamable_http_client(url), mode=mode, **callbacks)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


class Heard(NamedTuple):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    body: bytes


class Site(NamedTuple):
    """A server process, where it is, and what opens it."""

    process: Program
    told: dict[str, str]
    token: str
    log: Path

    @property
    def url(self) -> str:
        return self.told["url"]

    @property
    def netloc(self) -> str:
        """Host and port, as a request names them."""
        return urlsplit(self.url).netloc

    @property
    def bearer(self) -> tuple[str, str]:
        return "Authorization", f"Bearer {self.token}"

    def ask(
        self,
        method: str = "POST",
        path: str = "/mcp",
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        *,
        host: Sequence[str] | None = None,
    ) -> Heard:
        """One raw request with exactly these headers, and a Host unless others are given."""
        connection = http.client.HTTPConnection(self.netloc, timeout=PATIENCE)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name in [self.netloc] if host is None else host:
                connection.putheader("Host", name)
            for key, value in headers:
                connection.putheader(key, value)
            if body or method == "POST":
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return Heard(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def greet(self) -> Heard:
        """Begin a conversation of the handshake, with the token."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        return self.ask(headers=[self.bearer, ACCEPTED, JSON], body=json.dumps(message).encode())

    @asynccontextmanager
    async def client(self, mode: str = "auto", **callbacks: Any) -> AsyncIterator[Client]:
        """The official client."""
        async with (
            httpx2.AsyncClient(headers=dict([self.bearer]), timeout=PATIENCE) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode, **callbacks) as client,
        ):
            yield client

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and give the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextmanager
def site(place: Place, *options: str, told: Mapping[str, str] | None = None, quiet: bool = True) -> Iterator[Site]:
    """A server over HTTP on a free port; it is gone in the end, and must not have complained."""
    log = place.folder / f"http-{os.urandom(4).hex()}"
    with open(log, "wb") as complaints:
        process = Program(
            place.words("--http", "--port", "0", "--json", *options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=os.environ | place.environment | dict(told or {}),
            cwd=place.folder,
        )
    try:
        line = process.stdout.readline()
        assert line, log.read_text("utf-8")
        where = json.loads(line)
        token = (told or {}).get("MEMSHEAF_MCP_TOKEN") or Path(where["token_file"]).read_text("ascii").strip()
        yield Site(process, where, token, log)
        if process.poll() is None:
            process.terminate()
            assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    if quiet:
        assert log.read_text("utf-8") == ""


def said(result: types.CallToolResult) -> str:
    """The text of a tool's answer."""
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text
