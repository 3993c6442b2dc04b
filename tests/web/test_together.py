"""Several at once: two browsers and an agent, an edit conflict, a server that is killed while it saves, Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path

from playwright.sync_api import expect

from memsheaf import Sheaf
from memsheaf.memory import Allow
from web.conftest import OpenPage, Serving
from web.test_access import settings_of
from web.test_limits import connect, head, next_number
from web.web_site import serve

ANYWAY = Allow(anyway=True)
AGENT_WRITES = 15


def agent(home: Path) -> Sheaf:
    return Sheaf.open("user", settings=settings_of(home), by="agent")


def remember(sheaf: Sheaf, name: str, text: str) -> str:
    return sheaf.write(name, f"About {name}", "user", text, allow=ANYWAY).path


def body_of(home: Path, path: str) -> str:
    with agent(home) as sheaf:
        return sheaf.read(path).body.strip()


def test_two_browsers_and_an_agent_write_at_once(serving: Serving, open_page: OpenPage, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with agent(home) as sheaf:
        left, right = remember(sheaf, "Left", "left before"), remember(sheaf, "Right", "right before")
    site = serving()
    watching = open_page(site, "/memories?scope=user")
    editors = [(open_page(site, f"/memory/user/{path}/edit"), f"{path} after") for path in (left, right)]

    def write() -> None:
        with agent(home) as sheaf:
            for number in range(AGENT_WRITES):
                remember(sheaf, f"Agent {number}", f"What the agent found, number {number}.")

    writing = threading.Thread(target=write)
    writing.start()
    for page, text in editors:
        page.get_by_label("Text", exact=False).first.fill(text)
        page.locator("main form button.main").click()
        page.wait_for_url("**/memory/user/**said=**")
    writing.join()
    expect(watching.get_by_text(f"Agent {AGENT_WRITES - 1}").first).to_be_visible()  # without a reload
    assert (body_of(home, left), body_of(home, right)) == (f"{left} after", f"{right} after")
    with agent(home) as sheaf:
        assert len(sheaf.list()) == AGENT_WRITES + 2


def test_control_c_ends_it_with_open_pages(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with agent(home) as sheaf:
        remember(sheaf, "Tide", "High water at six.")
    with serve(home) as site, connect(site) as live, connect(site) as slow:
        slow.sendall(head(site, "/undo", "Content-Length: 1000") + b"csrf=")  # and no more
        live.sendall(head(site, "/live", method="GET"))
        next_number(live)
        began = time.monotonic()
        assert site.end(signal.SIGINT) == 0
        assert time.monotonic() - began < 60
        while live.recv(4096):
            pass  # the stream ends
    with serve(home) as site:
        assert site.ask("GET", "/").status == 200
        assert site.end(signal.SIGTERM) == 0
