"""uvicorn as the MCP server and the web page run it: quiet, on our listener, with signals and shutdown in order."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from memsheaf.mcp.http_bind import Endpoint, Listener

KEPT_SECONDS = 75  # an open connection that asks nothing
_SIGNALS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGBREAK] if hasattr(signal, "SIGBREAK") else [])]


class HttpServer(uvicorn.Server):
    """Serves until a signal: the first ends in order, within `seconds`; the second at once.

    `ready` is called when it listens, `ending` when it begins to end. `signal` is the number of the signal.
    """

    def __init__(
        self,
        app: ASGIApp,
        endpoint: Endpoint,
        listener: Listener,
        *,
        seconds: int,
        lifespan: bool,
        ready: Callable[[], None],
        ending: Callable[[], None] = lambda: None,
    ) -> None:
        config = uvicorn.Config(
            app,
            loop="asyncio",  # which asks the listener for each connection
            http="h11",
            ws="none",
            lifespan="on" if lifespan else "off",
            log_config=None,
            log_level="error",  # what strangers send is not worth a line each
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEPT_SECONDS,
            timeout_graceful_shutdown=seconds,
            ssl_certfile=endpoint.certificate or None,
            ssl_keyfile=endpoint.key or None,
        )
        super().__init__(config)
        self._listener = listener
        self._ready = ready
        self._ending = ending
        self.signal = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Drop connections without a token once a second."""
        if counter % 10 == 0:
            self._listener.drop_strangers()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say that it ends, then wait for what runs."""
        self._ending()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals meanwhile."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._take_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _take_signal(self, number: int, frame: object) -> None:
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)
        self.signal = number
        self.should_exit = True
