"""What a client may not do to the server: path tricks in every parameter, large and slow bodies, many open pages."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from html import unescape
from itertools import count
from pathlib import Path
from shutil import copytree
from urllib.parse import quote, urlencode

import pytest

from memsheaf import Sheaf
from memsheaf.web.markdown import render_markdown
from memsheaf.web.text_changes import compare_texts
from web.conftest import Serving
from web.routes import crawl, route_of, routes
from web.sample import PRESENT
from web.test_access import assert_locked, digest, settings_of
from web.web_site import PATIENCE, Site, csrf_of, serve

VALUES = {"key": "user", "path": "feedback_emoji-commit-messages.md"}
OUTSIDE = "outside the scope"
TABS = 200


OWN = (
    *("", "..", "../outside.md", "../../outside.md", "/outside.md", "..\\outside.md", "user/../outside.md"),
    *("%2e%2e/outside.md", "\0", "a\0.md", "x" * 5_000, "\udcff.md", "\ud800", "\u202e", "user~", "project~x~task~y"),
    *("task~../..", "agent~..", "-1", "0", "999999999999", "nan", "2026-99-99", "' OR 1=1 --", "{{7*7}}"),
    *("MEMORY.md", ".history/lock"),
)


def tricks(*, all: bool) -> list[str]:
    """What may stand in a parameter: our own, and of the traversal corpus."""
    corpus = json.loads((Path(__file__).parent.parent / "corpora" / "traversal.json").read_text("utf-8"))
    given = [case["input"] for case in corpus["cases"] if isinstance(case.get("input"), str)]
    return [*OWN, *(given if all else ())]


def sent(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


@pytest.fixture
def own(sample: Path, tmp_path: Path) -> Iterator[Site]:
    """A sample of its own, for pressing every button."""
    place = Path(copytree(sample, tmp_path / "place", symlinks=True))
    for folder in (place, place / "home", place / "home" / "projects"):
        (folder / "outside.md").write_text(f"---\nname: Outside\n---\n{OUTSIDE}\n", "utf-8")
    with serve(place / "home", cwd=place / PRESENT) as site:
        yield site


def ask_tricks(site: Site, wanted: list[str], step: int) -> None:
    """Put every `step`th, another one each time, into each parameter of each route, query and form."""
    found, token = crawl(site, each=3), csrf_of(site)
    queries = {route_of(path): (path, names) for path, names in found.queries().items() if names}
    forms = {route_of(action, "POST"): (action, fields) for way, action, fields in found.forms if way == "post"}
    every = {name: "x" for _, fields in forms.values() for name in fields}
    for route in routes("POST"):  # some are on a page only after something else was done
        forms.setdefault(route.path, (route.fill(VALUES), every))
    turn = count()
    for route in routes():
        for name in route.parameters:
            values = {**VALUES, name: "TRICK"}
            for trick in wanted[next(turn) % step :: step]:
                raw = quote(trick.encode("utf-8", "replace"), safe="/.%~")
                for how in {sent(trick), raw} if step == 1 else (sent(trick) if next(turn) % 2 else raw,):
                    check(site, route.method, route.fill(values).replace("TRICK", how), token)
    for path, names in queries.values():
        for trick in wanted[next(turn) % step :: step]:
            check(site, "GET", f"{path}?" + "&".join(f"{sent(name)}={sent(trick)}" for name in names), token)
    for action, fields in forms.values():
        for name in fields:
            for trick in wanted[next(turn) % step :: step] if name != "csrf" else ():
                check(site, "POST", quote(action, safe="/~%"), token, {**fields, name: trick, "csrf": token})
    assert OUTSIDE in (site.home / "outside.md").read_text("utf-8")
    assert OUTSIDE in (site.home.parent / "outside.md").read_text("utf-8")


def test_no_parameter_of_any_page_leads_outside_or_breaks_it(own: Site) -> None:
    ask_tricks(own, tricks(all=False), step=40)


@pytest.mark.long
def test_no_parameter_with_the_whole_corpus_does_either(own: Site) -> None:
    ask_tricks(own, tricks(all=True), step=1)


def check(site: Site, method: str, path: str, token: str, form: dict[str, str] | None = None) -> None:
    answer = site.ask(method, path, {"csrf": token, **(form or {})} if method == "POST" else None)
    assert answer.status < 500, (method, path, answer.text[-2000:])
    assert OUTSIDE not in answer.text, path
    if answer.status != 400 or "content-security-policy" in answer.headers:  # what is no HTTP is refused before us
        assert_locked(answer, site)


def test_a_form_of_ten_megabytes_is_refused(sample_site: Site) -> None:
    before, token = digest(sample_site.home), csrf_of(sample_site)
    body = urlencode({"csrf": token, "text": "x" * 10_000_000}).encode()
    for route in routes("POST")[:3]:
        path = route.fill({"key": "user", "path": "x.md"})
        assert sample_site.ask("POST", path, body[:100], [("Content-Length", str(len(body)))]).status == 413
        with connect(sample_site) as wire:
            wire.sendall(head(sample_site, path, "Transfer-Encoding: chunked"))
            refused = send_chunks(wire, body)
            assert b" 413 " in refused
    many = urlencode({"csrf": token}).encode() + b"&a=1" * 100_000
    assert sample_site.ask("POST", "/undo", many).status in (400, 413)
    assert digest(sample_site.home) == before
    assert sample_site.ask("GET", "/").status == 200


def connect(site: Site) -> socket.socket:
    host, _, port = site.netloc.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE)


def head(site: Site, path: str, *more: str, method: str = "POST") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        f"Host: {site.netloc}",
        f"Cookie: {site.cookie}",
        f"Origin: {site.origin}",
        "Content-Type: application/x-www-form-urlencoded",
        *more,
        "\r\n",
    ]
    return "\r\n".join(lines).encode()


def send_chunks(wire: socket.socket, body: bytes) -> bytes:
    """Send a body in chunks until it is answered, and give the beginning of the answer."""
    try:
        for at in range(0, len(body), 65_536):
            part = body[at : at + 65_536]
            wire.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    except (BrokenPipeError, ConnectionResetError):
        pass
    return wire.recv(1000)


def test_slow_bodies_hold_up_nobody(sample_site: Site) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            wire = stack.enter_context(connect(sample_site))
            wire.sendall(head(sample_site, "/undo", "Content-Length: 1000") + b"csrf=")
        began = time.monotonic()
        assert sample_site.ask("GET", "/").status == 200
        assert time.monotonic() - began < 20  # and not the 30 s that a slow body has


@pytest.mark.long
def test_a_slow_body_is_given_up(sample_site: Site) -> None:
    with connect(sample_site) as wire:
        wire.sendall(head(sample_site, "/undo", "Content-Length: 1000") + b"csrf=")
        assert b" 408 " in wire.recv(1000)


def next_number(wire: socket.socket, above: int = -1) -> int:
    """The number of a change that a stream of events tells next."""
    heard, end = b"", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        got = wire.recv(4096)
        assert got, heard
        heard += got
        assert b" 200 " in heard[:20] or not heard.startswith(b"HTTP"), heard
        found = [
            int(line[6:]) for line in heard.split(b"\n") if line.startswith(b"data: ") and line[6:].strip().isdigit()
        ]
        if found and found[-1] > above:
            return found[-1]
    raise AssertionError(f"no change was told: {heard!r}")


# what was typed


@pytest.mark.parametrize("was_whole", [False, True])
def test_what_was_typed_is_kept_when_a_header_is_broken_or_mended_meanwhile(
    serving: Serving, tmp_path: Path, was_whole: bool
) -> None:
    home = tmp_path / "home"
    with Sheaf.open("user", settings=settings_of(home), by="user") as sheaf:
        path = sheaf.write("Harbour", "when it opens", "user", "The harbour opens at eight.").path
        file = Path(sheaf.root) / path
    sound = file.read_text("utf-8")
    broken = sound.replace("type: user", "type: [")
    file.write_text(broken if was_whole else sound, "utf-8")
    site = serving()
    token = csrf_of(site)
    version = re.findall(r'name="version" value="(.*?)"', site.ask("GET", f"/memory/user/{path}/edit").text)[0]
    file.write_text(sound if was_whole else broken, "utf-8")
    fields = {"name": "Harbour", "description": "when it opens", "kind": "user", "body": "It opens at ten."}
    whole = {"text": sound.replace("The harbour opens at eight.", "It opens at ten.")}
    typed = {"csrf": token, "version": version, **(whole if was_whole else fields)}
    conflict = site.ask("POST", f"/memory/user/{path}/edit", typed)
    assert conflict.status == 409
    shown = dict(re.findall(r'<input[^>]* name="(\w+)" value="(.*?)"', conflict.text.partition("<main")[2]))
    areas = dict(re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>\n(.*?)</textarea>', conflict.text, re.DOTALL))
    answer = site.ask(
        "POST", f"/memory/user/{path}/edit", {name: unescape(value) for name, value in (shown | areas).items()}
    )
    assert answer.status == 303, answer.text
    with Sheaf.open("user", settings=settings_of(home), by="user") as sheaf:
        memory = sheaf.read(path)
    assert (memory.state, memory.name, memory.body.strip()) == ("ok", "Harbour", "It opens at ten.")


def test_no_text_of_a_memory_takes_long() -> None:
    assert render_markdown("![" * 100_000).startswith("<pre")
    assert compare_texts("\n" * 3_900, "\n" * 250_000)[1][0].is_changed
