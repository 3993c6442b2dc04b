"""A browser, pages that are watched, and servers for them.

    def test_it(sample_site, open_page):
        page = open_page(sample_site, "/memories", width=PHONE, dark=True)

A page fails its test when a request leaves the server, when the console has an error (a violation of the content
security policy is one), when a dialog opens, or when something sets `window.__xss`.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    expect,
    sync_playwright,
)

from npm_packages import install_modules
from web.sample import PRESENT, build
from web.web_site import PATIENCE, Site, serve

DESKTOP, PHONE = 1280, 360
AXE = "axe-core@4.14.0"
CHROMIUM = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    # a process for each page, another one in store, and the suggestions of the address bar, which are pages
    # themselves, take half of the tests' time
    "--renderer-process-limit=1",
    "--disable-features=RenderDocument,SpareRendererForSitePerProcess,WebUIOmniboxPopup,WebUIOmniboxAimPopup",
]  # fmt: skip
RUN_AXE = "only => axe.run(document, {resultTypes: ['violations'], ...only}).then(result => result.violations)"
MARKER = "Object.defineProperty(window, '__xss', {set() { console.error('window.__xss was set') }})"


OpenPage = Callable[..., Page]
"""Opens a page of a server in a context of its own, logged in.

`errors` is a pattern of what the console may say: an error page is an error to the browser.
"""


@pytest.fixture(scope="session")
def chromium() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop]]:
    """One browser a process of tests; it is used through `browser`."""
    playwright = sync_playwright().start()
    expect.set_options(timeout=PATIENCE * 1000)  # its own five seconds are short on a busy machine
    loop = asyncio.get_running_loop()
    names = ("chromium-headless-shell", "chromium", "google-chrome")  # the first costs a third less
    program = next(filter(None, map(shutil.which, names)), None)
    browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM, timeout=PATIENCE * 1000)
    asyncio._set_running_loop(None)
    yield browser, loop
    asyncio._set_running_loop(loop)
    browser.close()
    playwright.stop()


@pytest.fixture
def browser(chromium: tuple[Browser, asyncio.AbstractEventLoop]) -> Iterator[Browser]:
    """The browser, for one test: Playwright leaves its loop running, and tests with `asyncio.run` come later."""
    browser, loop = chromium
    asyncio._set_running_loop(loop)
    yield browser
    asyncio._set_running_loop(None)


class Watch:
    """Notes what a page must not do."""

    def __init__(self, origin: str, errors: str) -> None:
        self.found: list[str] = []
        self._origin = origin
        self._allowed = errors

    def follow(self, context: BrowserContext) -> None:
        context.on("request", self._request)
        context.on("console", self._console)
        context.on("dialog", self._dialog)
        context.on("weberror", lambda error: self.found.append(f"uncaught: {error.error}"))
        context.add_init_script(MARKER)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self._origin}/", "data:", "blob:", "about:")):
            self.found.append(f"request to {request.url[:200]}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not (self._allowed and re.search(self._allowed, message.text)):
            self.found.append(f"console: {message.text[:500]} ({message.location.get('url', '')})")

    def _dialog(self, dialog: Dialog) -> None:
        self.found.append(f"dialog: {dialog.message[:200]}")
        dialog.dismiss()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    opened: list[tuple[BrowserContext, Watch]] = []

    def open_page(
        site: Site,
        path: str = "/",
        *,
        width: int = DESKTOP,
        dark: bool = False,
        javascript: bool = True,
        errors: str = "",
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 740 if width == PHONE else 900},
            is_mobile=width == PHONE,
            has_touch=width == PHONE,
            color_scheme="dark" if dark else "light",
            java_script_enabled=javascript,
            reduced_motion="reduce",
            locale="en-GB",
        )
        watch = Watch(site.origin, errors)
        opened.append((context, watch))
        context.set_default_timeout(PATIENCE * 1000)
        watch.follow(context)
        name, _, value = site.cookie.partition("=")
        context.add_cookies(
            [{"name": name, "value": value, "url": site.origin, "httpOnly": True, "sameSite": "Strict"}]
        )
        page = context.new_page()
        page.goto(site.origin + path, wait_until="load")
        return page

    yield open_page
    for context, _ in opened:
        context.close()
    assert [problem for _, watch in opened for problem in watch.found] == []


@pytest.fixture(scope="session")
def axe_source() -> str:
    return (install_modules("axe", AXE) / "axe-core" / "axe.min.js").read_text("utf-8")


@pytest.fixture
def check_accessibility(axe_source: str) -> Callable[..., None]:
    """Let axe-core look at a page: it finds nothing, and nothing is wider than the window."""

    def check(page: Page, *rules: str) -> None:
        if not page.evaluate("'axe' in window"):
            page.evaluate(axe_source)
        found: list[dict[str, Any]] = page.evaluate(RUN_AXE, {"runOnly": list(rules)} if rules else {})
        told = [
            {"rule": one["id"], "help": one["help"], "where": [node["html"][:200] for node in one["nodes"]][:4]}
            for one in found
        ]
        assert told == [], f"{page.url}\n{json.dumps(told, indent=1)}"
        wide, window = page.evaluate("document.documentElement.scrollWidth"), page.viewport_size
        assert window  # and not innerWidth, which grows with the page on a phone
        assert wide <= window["width"], f"{page.url} is {wide} px wide in a window of {window['width']}"

    return check


Serving = Callable[..., Site]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """Start a server on a home of its own: `serving()`, `serving("--read-only", cwd=project)`."""
    with ExitStack() as stack:

        def start(*options: str, home: Path | None = None, cwd: Path | None = None) -> Site:
            return stack.enter_context(serve(home or tmp_path / "home", *options, cwd=cwd))

        yield start


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The folder of the sample (`sample.py`), written once for all processes; for tests that change nothing."""
    base = tmp_path_factory.getbasetemp()
    place = (base if worker_id == "master" else base.parent) / "web-sample"
    with place.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            build(place)
    return place


@pytest.fixture(scope="session")
def sample_site(sample: Path) -> Iterator[Site]:
    """A server on the sample, one a process of tests; for tests that change nothing."""
    with serve(sample / "home", cwd=sample / PRESENT, start=subprocess.Popen) as site:
        yield site
