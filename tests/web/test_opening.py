"""How a browser gets in: by a link that works once, and that no other user of the machine can read."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser

from web.conftest import Serving
from web.web_site import PATIENCE, Site, environment_of

# A browser that writes down what it was asked to open, and stays until that is removed.
FAKE_BROWSER = """#!/bin/sh
echo "$1" > "$FAKE_BROWSER_NOTE.draft"
mv "$FAKE_BROWSER_NOTE.draft" "$FAKE_BROWSER_NOTE"
while [ -e "$FAKE_BROWSER_NOTE" ]; do sleep 0.1; done
"""


def command_lines() -> str:
    """The command lines and what they were given, of all processes, as `ps` shows them."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_text("utf-8", "replace"))
        except OSError:
            continue  # it ended
    return "\n".join(lines)


def wait_for(path: Path) -> str:
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.02)
    return path.read_text("utf-8").strip()


def read_until(terminal: int, pattern: str, count: int = 1) -> list[str]:
    """What a terminal shows that fits a pattern, once there are so many."""
    shown = ""
    while len(matches := re.findall(pattern, shown)) < count:
        shown += os.read(terminal, 4096).decode("utf-8", "replace")
    return matches


@contextmanager
def in_terminal(home: Path, *options: str, **more: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`memsheaf web` as a person starts it, and the person's side of the terminal."""
    home.mkdir(parents=True, exist_ok=True)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "memsheaf", "web", "--port", "0", *options],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment_of(home) | {"TMPDIR": str(home.parent), "COLUMNS": "200"} | more,
        cwd=home.parent,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


LINK = r"http://127\.0\.0\.1:[0-9]+/\?token=[\w-]{20,}(?=\r)"


def test_the_token_is_on_no_command_line_and_in_a_file_for_this_user_alone(tmp_path: Path, browser: Browser) -> None:
    program, note = tmp_path / "browser", tmp_path / "note"
    program.write_text(FAKE_BROWSER)
    program.chmod(0o755)
    given = {"BROWSER": f"{program} %s &", "FAKE_BROWSER_NOTE": str(note)}
    with ExitStack() as ending, in_terminal(tmp_path / "home", **given) as (process, terminal):
        ending.callback(note.unlink, missing_ok=True)  # then the fake browser ends
        (printed,) = read_until(terminal, LINK)
        opened = wait_for(note)
        lines = command_lines()
        assert opened in lines  # so the browser is among them
        page = Path(unquote(urlsplit(opened).path))
        assert opened.startswith("file:///")
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        tokens = [printed.partition("token=")[2], *re.findall(r"token=([\w-]+)", page.read_text())]
        assert len(set(tokens)) == 2  # the printed link is for another browser
        assert not any(token in lines for token in tokens)

        first, second = browser.new_context(), browser.new_context()
        tab = first.new_page()
        tab.goto(opened)
        tab.wait_for_url(re.compile(r"http://127\.0\.0\.1:[0-9]+/$"))
        assert tab.title() == "Home · memsheaf"
        other = second.new_page()
        other.goto(opened)
        other.get_by_text("Press Enter in the terminal").wait_for()
        assert "Home" not in other.title()
        other.goto(printed)
        assert other.title() == "Home · memsheaf"
        first.close()
        second.close()

        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert not page.parent.exists()


def test_enter_in_the_terminal_gives_another_link(tmp_path: Path) -> None:
    with in_terminal(tmp_path / "home") as (process, terminal):
        (first,) = read_until(terminal, LINK)
        os.write(terminal, b"\n")
        (second,) = read_until(terminal, LINK)
        site = Site(process, second, tmp_path / "home", tmp_path / "log")
        token = first.partition("token=")[2]
        assert first != second
        assert site.ask("GET", f"/?token={token}", cookie="").status == 303
        assert site.ask("GET", f"/?token={token}", cookie="").status == 401
        assert site.ask("GET", "/").status == 200
        site.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


def test_a_program_asks_for_another_link_by_a_line(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    line = [sys.executable, "-m", "memsheaf", "web", "--json", "--port", "0"]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe, env=environment_of(home), cwd=tmp_path) as process:
        assert process.stdin
        assert process.stdout
        links = [json.loads(process.stdout.readline())["url"]]
        for _ in range(2):
            process.stdin.write(b"\n")
            process.stdin.flush()
            links.append(json.loads(process.stdout.readline())["url"])
        assert len(set(links)) == 3
        for link in links:
            site = Site(process, link, home, tmp_path / "log")
            assert site.ask("GET", "/").status == 200
            site.close()
        process.stdin.close()
        site = Site(process, links[0], home, tmp_path / "log")
        assert site.ask("GET", "/", cookie="").status == 401  # it still runs
        site.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


def test_a_link_lets_in_once_and_the_next_is_told_how_to_get_another(serving: Serving) -> None:
    site = serving()
    path = site.url.removeprefix(site.origin)
    assert site.ask("GET", "/").status == 200  # the link is used now
    for _ in range(2):
        answer = site.ask("GET", path, cookie="")
        assert (answer.status, "set-cookie" in answer.headers) == (401, False)
        assert "Press Enter in the terminal" in answer.text
        assert path.partition("token=")[2] not in answer.text
    again = site.ask("GET", path)
    assert (again.status, again.headers["location"], "set-cookie" in again.headers) == (303, "/", False)


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("HEAD", []),
        ("POST", []),
        ("GET", [("Sec-Purpose", "prefetch")]),
        ("GET", [("Sec-Purpose", "prefetch;prerender")]),
        ("GET", [("Purpose", "prefetch")]),
        ("GET", [("X-Moz", "prefetch")]),
        ("GET", [("Host", "evil.example")]),
    ],
)
def test_a_request_that_nobody_made_by_opening_the_link_does_not_use_it_up(
    serving: Serving, method: str, headers: list[tuple[str, str]]
) -> None:
    site = serving()
    answer = site.ask(method, site.url.removeprefix(site.origin), headers=headers, cookie="")
    assert answer.status in (401, 403, 421)
    assert "set-cookie" not in answer.headers
    assert site.ask("GET", "/").status == 200


def test_two_servers_do_not_take_each_others_cookies_or_links(serving: Serving) -> None:
    one, other = serving(), serving()
    assert one.cookie.partition("=")[0] != other.cookie.partition("=")[0]
    both = f"{one.cookie}; {other.cookie}"
    assert one.ask("GET", "/", cookie=both).status == other.ask("GET", "/", cookie=both).status == 200
    assert one.ask("GET", "/", cookie=other.cookie).status == 401
    fresh = serving()
    assert one.ask("GET", fresh.url.removeprefix(fresh.origin), cookie="").status == 401
    assert fresh.ask("GET", "/").status == 200
