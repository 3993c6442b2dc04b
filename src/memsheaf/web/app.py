"""The application: all routes, worker threads, error pages, style and script."""

from __future__ import annotations

import gzip
import os
import sys
import traceback
from contextlib import nullcontext
from functools import cache
from importlib import import_module

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memsheaf.errors import Busy, Changed, Exists, MemsheafError, NotFound, ReadOnly, Refused, StoreFailed
from memsheaf.reader import existing_vectors
from memsheaf.web.live import Live
from memsheaf.web.page import ROUTES, PageRequest, Site, Work

THREADS = 4
MODULES = (
    "home", "browse", "edit", "memory", "timeline", "work", "settings", "review",
    "recall_lab", "dream",
)  # fmt: skip
"""The route files, in the order in which their routes are tried."""

_STATUS: tuple[tuple[type[MemsheafError], int], ...] = (
    (NotFound, 404),
    (ReadOnly, 403),
    (Changed, 409),
    (Exists, 409),
    (Busy, 503),
    (Refused, 422),
    (StoreFailed, 500),
)
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def make_app(site: Site, live: Live) -> Starlette:
    """The application of a site."""
    for name in MODULES:
        import_module(f"memsheaf.web.{name}")
    slots, writing = anyio.CapacityLimiter(THREADS), anyio.Lock()

    async def run(work: Work, request: Request, *, writes: bool) -> Response:
        if not writes:
            return await anyio.to_thread.run_sync(_answer, work, request, site, limiter=slots)
        async with writing:
            answer = await anyio.to_thread.run_sync(_answer, work, request, site, limiter=slots)
        site.forget_known()
        live.wake()
        return answer

    async def nothing(request: Request, error: Exception) -> Response:
        return site.error_page(404, site.t.error.missing, site.t.error.no_page)

    async def wrong_method(request: Request, error: Exception) -> Response:
        return site.error_page(405, site.t.error.refused, site.t.access.method)

    routes = [Route("/static/{name}", _static, name="static"), Route("/live", live.stream, name="live"), *ROUTES]
    app = Starlette(routes=routes, exception_handlers={404: nothing, 405: wrong_method})
    app.state.run = run
    return app


def _answer(work: Work, request: Request, site: Site) -> Response:
    """Call a route; what it raises becomes a page."""
    try:
        with nullcontext() if site.read_only else existing_vectors():  # `Live` makes those that are missing
            return work(PageRequest(request, site))
    except MemsheafError as error:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
        return site.error_page(status, _title(site, error), str(error), getattr(error, "hint", ""))
    except Exception:  # noqa: BLE001 - a mistake of ours must not end the server, nor tell anything to the browser
        traceback.print_exc(file=sys.stderr)
        return site.error_page(500, site.t.error.ours, site.t.error.ours_text)


def _title(site: Site, error: MemsheafError) -> str:
    t = site.t
    titles = (
        (NotFound, t.error.missing),
        (Changed, t.error.changed),
        (Busy, t.error.busy),
        (Refused, t.error.refused),
    )
    return str(next((title for kind, title in titles if isinstance(error, kind)), t.error.failed))


async def _static(request: Request) -> Response:
    """Style, script or picture; compressed once."""
    found = _files().get(request.path_params["name"])
    if found is None:
        return Response(status_code=404)
    data, small, kind = found
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(small, headers={"content-encoding": "gzip"}, media_type=kind)
    return Response(data, media_type=kind)


@cache
def _files() -> dict[str, tuple[bytes, bytes, str]]:
    folder = os.path.join(os.path.dirname(__file__), "static")
    found = {}
    for name in os.listdir(folder):
        if kind := _TYPES.get(os.path.splitext(name)[1]):
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            found[name] = data, gzip.compress(data, mtime=0), kind
    return found
