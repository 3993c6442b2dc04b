"""The server of the page: start-up, signals, graceful shutdown."""

from __future__ import annotations

import logging
import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memsheaf.adapters import missing

try:
    import anyio
    import jinja2  # noqa: F401 - tells what is missing before anything is opened
    import markdown_it  # noqa: F401
    import nh3  # noqa: F401
    import uvicorn
except ImportError as error:
    raise missing("web", error) from None

from memsheaf.mcp.http_bind import Endpoint, Listener
from memsheaf.web.access import WebAccess
from memsheaf.web.app import make_app
from memsheaf.web.live import Live
from memsheaf.web.page import Site

ENDING_SECONDS = 5
KEPT_SECONDS = 75  # an open connection that asks nothing
_SIGNALS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGBREAK] if hasattr(signal, "SIGBREAK") else [])]


def serve(site: Site, endpoint: Endpoint, listener: Listener, ready: Callable[[str], None]) -> int:
    """Serve until a signal says to end, and give its number; `ready` is told the address, which has the token."""
    hosts = endpoint.hosts(listener.getsockname()[1])
    token = secrets.token_urlsafe(32)
    live = Live(site)
    app = WebAccess(
        make_app(site, live),
        hosts=frozenset(hosts),
        token=token,
        csrf=site.csrf,
        read_only=site.read_only,
        secure=bool(endpoint.certificate) or endpoint.proxied,
        refuse=site.refuse,
        know=listener.know,
    )
    config = uvicorn.Config(
        app,
        loop="asyncio",  # which asks the listener for each connection
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEPT_SECONDS,
        timeout_graceful_shutdown=ENDING_SECONDS,
        ssl_certfile=endpoint.certificate or None,
        ssl_keyfile=endpoint.key or None,
    )
    url = f"{'https' if endpoint.certificate else 'http'}://{hosts[0]}/?token={token}"
    server = _PageServer(config, live, listener, lambda: ready(url))
    server.run(sockets=[listener])
    return server.signal


class _PageServer(uvicorn.Server):
    """uvicorn, with signals as we want them: the first ends in order, the second at once."""

    def __init__(self, config: uvicorn.Config, live: Live, listener: Listener, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._live = live
        self._listener = listener
        self._ready = ready
        self.signal = 0

    async def main_loop(self) -> None:
        """Serve, and look for changes meanwhile."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._live.watch)
            group.start_soon(self._live.work_apart)
            self._ready()
            await super().main_loop()
            logging.getLogger("uvicorn.error").disabled = True  # a request that the end cuts off is no error
            self._live.end()

    async def on_tick(self, counter: int) -> bool:
        """Drop connections without a token once a second."""
        if counter % 10 == 0:
            self._listener.drop_strangers()
        return await super().on_tick(counter)

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
