"""The first page: what is remembered, and what waits."""

from __future__ import annotations

from starlette.responses import Response

from memsheaf.web.page import PageRequest, get


@get("/")
def home(page: PageRequest) -> Response:
    """Show the scopes."""
    return page.show("home.html")
