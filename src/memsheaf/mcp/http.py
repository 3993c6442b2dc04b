"""The MCP server over HTTP: start-up, signals and graceful shutdown."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memsheaf.adapters import missing

try:
    import uvicorn
    from mcp.server.transport_security import TransportSecuritySettings
except ImportError as error:
    raise missing("mcp", error) from None

from memsheaf.mcp.http_auth import PATH, AccessCheck
from memsheaf.mcp.http_fast_path import FastPath
from memsheaf.mcp.protocol import MESSAGE_BYTES
from memsheaf.mcp.sdk_server import make_sdk_server

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.mcp.http_bind import Endpoint, Listener
    from memsheaf.mcp.subscriptions import Opened

SESSIONS, IDLE_SECONDS = 1_000, 2 * 3_600  # conversations of the handshake: so many, and dropped after so long
ENDING_SECONDS = 10  # for what runs when the server is told to end
KEPT_SECONDS = 75  # an open connection that asks nothing
_SIGNALS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGBREAK] if hasattr(signal, "SIGBREAK") else [])]


def serve(
    opened: Opened,
    site: Endpoint,
    listener: Listener,
    token: str,
    *,
    version: str,
    reading: bool = False,
    tools: bool = True,
    ready: Callable[[str], None] = lambda url: None,
) -> int:
    """Serve on what `site.listen()` gave until a signal says to end, and give its number. `ready` is told the URL.

    Then nobody new is let in, and what runs is finished and answered, within some seconds. A second signal ends all
    at once; what was answered is kept even so.
    """
    hosts = site.hosts(listener.getsockname()[1])
    url = f"{'https' if site.certificate else 'http'}://{hosts[0]}{PATH}"
    server = make_sdk_server(opened, version=version, reading=reading, tools=tools)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MESSAGE_BYTES,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=SESSIONS,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the door does it
    )
    quick = FastPath(server.clients, {"name": server.name, "title": server.title, "version": version})
    door = AccessCheck(app, hosts=frozenset(hosts), token=token, version=version, know=listener.know, quick=quick)

    def ending() -> None:
        door.close()
        server.clients.hang_up()

    web = _Web(_configured(door, site), lambda: ready(url), listener.drop_strangers, ending)
    web.run(sockets=[listener])
    return web.signal


def _configured(app: AccessCheck, site: Endpoint) -> uvicorn.Config:
    """How uvicorn serves: quietly, with what this needs and no more."""
    return uvicorn.Config(
        app,
        loop="asyncio",  # which asks the listener for each connection
        http="h11",
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # what strangers send is not worth a line each
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEPT_SECONDS,
        timeout_graceful_shutdown=ENDING_SECONDS,
        ssl_certfile=site.certificate or None,
        ssl_keyfile=site.key or None,
    )


class _Web(uvicorn.Server):
    """uvicorn, with signals as we want them: the first ends in order, the second at once."""

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[], None],
        tidy: Callable[[], None],
        ending: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._tidy = tidy
        self._ending = ending
        self.signal = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Tidy once a second."""
        if counter % 10 == 0:
            self._tidy()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the door and the streams, then wait for the rest."""
        self._ending()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals meanwhile."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._signalled) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, frame: object) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        self.signal = number
        self.should_exit = True
