"""The server of the page: start-up, signals, graceful shutdown."""

from __future__ import annotations

import logging
from collections.abc import Callable

from memsheaf.adapters import missing

try:
    import anyio
    import jinja2  # noqa: F401 - tells what is missing before anything is opened
    import markdown_it  # noqa: F401
    import nh3  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    raise missing("web", error) from None

from memsheaf.mcp.http_bind import Endpoint, Listener
from memsheaf.mcp.http_server import HttpServer
from memsheaf.web.access import WebAccess
from memsheaf.web.app import make_app
from memsheaf.web.links import NewLink
from memsheaf.web.live import Live
from memsheaf.web.page import Site

ENDING_SECONDS = 5


def serve(site: Site, endpoint: Endpoint, listener: Listener, ready: Callable[[NewLink], None]) -> int:
    """Serve until a signal, and return its number; `ready` gets a function that makes links."""
    hosts = endpoint.hosts(listener.getsockname()[1])
    live = Live(site)
    access = WebAccess(
        make_app(site, live),
        hosts=frozenset(hosts),
        csrf=site.csrf,
        read_only=site.read_only,
        secure=bool(endpoint.certificate) or endpoint.proxied,
        refuse=site.refuse,
        know=listener.know,
    )

    def new_link() -> str:
        return f"{'https' if endpoint.certificate else 'http'}://{hosts[0]}/?token={access.add_token()}"

    server = _PageServer(
        access, endpoint, listener, seconds=ENDING_SECONDS, lifespan=False, ready=lambda: ready(new_link)
    )
    server.live = live
    server.run(sockets=[listener])
    return server.signal


class _PageServer(HttpServer):
    """The server, with the work beside it."""

    live: Live

    async def main_loop(self) -> None:
        """Serve, and look for changes meanwhile."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.live.watch)
            group.start_soon(self.live.work_apart)
            await super().main_loop()
            logging.getLogger("uvicorn.error").disabled = True  # a request that the end cuts off is no error
            self.live.end()
