"""What `open_page` notices: each thing that a page must not do, on a server that serves just that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser

from web.conftest import Watch

QUIET = '<!doctype html><html lang="en"><title>Page</title><main><h1>Page</h1>'
PAGES = {
    "/quiet": QUIET,
    "/request": QUIET + '<img alt="" src="http://elsewhere.example/beacon.png">',
    "/console": QUIET + "<script>console.error('broken')</script>",
    "/uncaught": QUIET + "<script>throw new Error('thrown')</script>",
    "/policy": QUIET + "<script>document.title = 'ran'</script>",
    "/dialog": QUIET + "<script>alert('hello')</script>",
    "/marker": QUIET + "<script>window.__xss = 1</script>",
    "/unlabelled": QUIET + '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">',
    "/wide": QUIET + '<div style="width: 5000px">x</div>',
}


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path in PAGES else 204)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        if self.path == "/policy":
            self.send_header("Content-Security-Policy", "default-src 'none'")
        self.end_headers()
        self.wfile.write(PAGES.get(self.path, "").encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_a_page_must_not_do_is_noticed(browser: Browser, origin: str) -> None:
    watch = Watch(origin, "Failed to load resource")
    context = browser.new_context()
    watch.follow(context)
    page = context.new_page()
    for path, told in (
        ("/quiet", ""),
        ("/request", "request to http://elsewhere.example/beacon.png"),
        ("/console", "console: broken"),
        ("/uncaught", "uncaught: thrown"),
        ("/policy", "Content Security Policy"),
        ("/dialog", "dialog: hello"),
        ("/marker", "window.__xss was set"),
    ):
        watch.found.clear()
        page.goto(origin + path)
        page.evaluate("1")  # what was told before has arrived by now
        assert len(watch.found) == bool(told), path
        assert told in "".join(watch.found)
    context.close()


def test_axe_and_the_width_are_checked(
    browser: Browser, origin: str, check_accessibility: Callable[..., None]
) -> None:
    page = browser.new_page()
    page.goto(f"{origin}/quiet")
    check_accessibility(page)
    page.goto(f"{origin}/unlabelled")
    with pytest.raises(AssertionError, match="image-alt"):
        check_accessibility(page)
    page.goto(f"{origin}/wide")
    with pytest.raises(AssertionError, match=r"50.. px wide"):
        check_accessibility(page)
    page.close()
