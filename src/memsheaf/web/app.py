"""The application: the address of every page, worker threads, error pages, style and script."""

from __future__ import annotations

import gzip
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import cache

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memsheaf.errors import Busy, Changed, Exists, MemsheafError, NotFound, ReadOnly, Refused, StoreFailed
from memsheaf.index.database import existing_vectors
from memsheaf.web import activity, edit, home, memories, memory, recall_lab, review, settings
from memsheaf.web.live import Live
from memsheaf.web.page import Handler, PageRequest, Site

THREADS = 4
# tried in this order: the address of one memory would match those above it, too
ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/", home.show_home),
    ("GET", "/memories", memories.list_memories),
    ("POST", "/memories", memories.change_memories),
    ("POST", "/memories/verify", memories.check_citations),
    ("GET", "/new", edit.show_new),
    ("POST", "/new", edit.save_new),
    ("POST", "/preview", edit.show_preview),
    ("GET", "/memory/{key}/{path:path}/edit", edit.show_edit),
    ("POST", "/memory/{key}/{path:path}/edit", edit.save_edit),
    ("GET", "/memory/{key}/{path:path}/history", memory.show_history),
    ("GET", "/memory/{key}/{path:path}/erase", memory.ask_erase),
    ("POST", "/memory/{key}/{path:path}/erase", memory.erase_memory),
    ("POST", "/memory/{key}/{path:path}/change", memory.change_memory),
    ("POST", "/memory/{key}/{path:path}/restore", memory.restore_memory),
    ("GET", "/memory/{key}/{path:path}", memory.show_memory),
    ("GET", "/review", review.show_review),
    ("GET", "/review/edit", review.edit_proposal),
    ("POST", "/review/approve", review.approve),
    ("POST", "/review/reject", review.reject),
    ("POST", "/review/undo", review.undo_decision),
    ("GET", "/activity", activity.show_activity),
    ("POST", "/undo", activity.undo),
    ("GET", "/recall", recall_lab.show_recall),
    ("GET", "/settings", settings.show_settings),
    ("POST", "/settings", settings.save_settings),
    ("POST", "/settings/agents", settings.test_agents),
    ("POST", "/settings/hubs", settings.sync_hubs),
)
ERRORS: tuple[tuple[type[MemsheafError], int, str], ...] = (
    (NotFound, 404, "Not found"),
    (ReadOnly, 403, "Not possible"),
    (Changed, 409, "Changed meanwhile"),
    (Exists, 409, "That failed"),
    (Busy, 503, "Busy"),
    (Refused, 422, "Not possible"),
    (StoreFailed, 500, "That failed"),
    (MemsheafError, 400, "That failed"),
)
STATIC_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def make_app(site: Site, live: Live) -> Starlette:
    """Return the application of a site."""
    slots = anyio.CapacityLimiter(THREADS)
    writing = anyio.Lock()

    def endpoint(handler: Handler, method: str) -> Callable[[Request], Awaitable[Response]]:
        async def read(request: Request) -> Response:
            return await anyio.to_thread.run_sync(_answer, handler, request, site, limiter=slots)

        async def write(request: Request) -> Response:
            async with writing:
                response = await read(request)
            site.forget_known()
            live.wake()
            return response

        return write if method == "POST" else read

    async def show_missing(request: Request, error: Exception) -> Response:
        return site.error_page(404, "Not found", "There is no page at this address.")

    async def show_wrong_method(request: Request, error: Exception) -> Response:
        return site.error_page(405, "Not possible", "Only GET and POST are supported.")

    pages = [Route(path, endpoint(handler, method), methods=[method]) for method, path, handler in ROUTES]
    routes = [Route("/static/{name}", _send_static), Route("/live", live.stream), *pages]
    return Starlette(routes=routes, exception_handlers={404: show_missing, 405: show_wrong_method})


def _answer(handler: Handler, request: Request, site: Site) -> Response:
    """Call a handler, and turn an exception into a page."""
    try:
        with nullcontext() if site.read_only else existing_vectors():  # `Live` makes those that are missing
            return handler(PageRequest(request, site))
    except MemsheafError as error:
        status, title = next((status, title) for kind, status, title in ERRORS if isinstance(error, kind))
        return site.error_page(status, title, str(error), getattr(error, "hint", ""))
    except Exception:  # noqa: BLE001 - a bug of ours must not end the server, nor tell the browser anything
        traceback.print_exc(file=sys.stderr)
        text = "This is a bug in memsheaf. Saved memories are safe; see the terminal that runs memsheaf web."
        return site.error_page(500, "Internal error", text)


async def _send_static(request: Request) -> Response:
    files = _read_static()
    name = request.path_params["name"]
    if name not in files:
        return Response(status_code=404)
    data, compressed, media_type = files[name]
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(compressed, headers={"content-encoding": "gzip"}, media_type=media_type)
    return Response(data, media_type=media_type)


@cache
def _read_static() -> dict[str, tuple[bytes, bytes, str]]:
    """Return style, script and icon by name: the bytes, the same compressed, and the media type."""
    folder = os.path.join(os.path.dirname(__file__), "static")
    files = {}
    for name in os.listdir(folder):
        if media_type := STATIC_TYPES.get(os.path.splitext(name)[1]):
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            files[name] = data, gzip.compress(data, mtime=0), media_type
    return files
