"""What a client may not do to the server: path tricks in every parameter, large and slow bodies, many open pages."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from memsheaf import Sheaf
from web.conftest import Serving
from web.routes import crawl, routes
from web.sample import PRESENT, build
from web.test_access import assert_locked, csrf_of, digest, settings_of, write_memory
from web.web_site import PATIENCE, Site, serve

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


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A sample of its own: these tests press every button."""
    place = tmp_path_factory.mktemp("limits") / "place"
    build(place)
    for folder in (place, place / "home", place / "home" / "projects"):
        (folder / "outside.md").write_text(f"---\nname: Outside\n---\n{OUTSIDE}\n", "utf-8")
    with serve(place / "home", cwd=place / PRESENT) as site:
        yield site


def ask_tricks(site: Site, wanted: list[str], *, often: int) -> int:
    """Put each into every parameter of every route and of every query; gives how many requests that were."""
    queries, token, asked = crawl(site, each=3).queries(), csrf_of(site), 0
    places = [(route, name) for route in routes() for name in route.parameters]
    for number, trick in enumerate(wanted):
        encoded = (sent(trick), quote(trick.encode("utf-8", "replace"), safe="/.%~"))
        for at, (route, name) in enumerate(places):
            values = {"key": "user", "path": "feedback_no-emoji-in-commit-messages.md", name: "TRICK"}
            for how in encoded if often > 1 else encoded[(number + at) % 2 :][:1]:
                check(site, route.method, route.fill(values).replace("TRICK", how), token)
                asked += 1
        for path, names in queries.items():
            check(site, "GET", f"{path}?" + "&".join(f"{sent(name)}={sent(trick)}" for name in names), token)
            asked += 1
    return asked


def test_no_parameter_of_any_route_leads_outside_or_breaks_a_page(own: Site) -> None:
    assert ask_tricks(own, tricks(all=False), often=1) >= len(OWN)


@pytest.mark.long
def test_no_parameter_with_the_whole_corpus_does_either(own: Site) -> None:
    assert ask_tricks(own, tricks(all=True), often=2) >= len(OWN)


def check(site: Site, method: str, path: str, token: str, form: dict[str, str] | None = None) -> None:
    answer = site.ask(method, path, {"csrf": token, **(form or {})} if method == "POST" else None)
    assert answer.status < 500, (method, path, answer.text[-2000:])
    assert OUTSIDE not in answer.text, path
    if answer.status != 400 or "content-security-policy" in answer.headers:  # what is no HTTP is refused before us
        assert_locked(answer, site)


def test_no_field_of_any_form_leads_outside_or_breaks_a_page(own: Site) -> None:
    token = csrf_of(own)
    forms = {
        (action, tuple(sorted(fields))): fields
        for method, action, fields in crawl(own, each=4).forms
        if method == "post"
    }
    for number, ((action, _), fields) in enumerate(forms.items()):
        for at, name in enumerate(fields):
            for trick in OWN[(number + at) % 4 :: 4] if name != "csrf" else ():
                check(own, "POST", quote(action, safe="/~%"), token, {**fields, name: trick, "csrf": token})
    assert OUTSIDE in (own.home / "outside.md").read_text("utf-8")
    assert OUTSIDE in (own.home.parent / "outside.md").read_text("utf-8")


def test_a_form_of_ten_megabytes_is_refused(own: Site) -> None:
    before, token = digest(own.home), csrf_of(own)
    body = urlencode({"csrf": token, "text": "x" * 10_000_000}).encode()
    for route in routes("POST")[:3]:
        path = route.fill({"key": "user", "path": "x.md"})
        assert own.ask("POST", path, body[:100], [("Content-Length", str(len(body)))]).status == 413
        with connect(own) as wire:
            wire.sendall(head(own, path, "Transfer-Encoding: chunked"))
            refused = send_chunks(wire, body)
            assert b" 413 " in refused
    many = urlencode({"csrf": token}).encode() + b"&a=1" * 100_000
    assert own.ask("POST", "/undo", many).status in (400, 413)
    assert digest(own.home) == before
    assert own.ask("GET", "/").status == 200


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


def test_slow_bodies_hold_up_nobody(own: Site) -> None:
    with ExitStack() as stack:
        for _ in range(20):
            wire = stack.enter_context(connect(own))
            wire.sendall(head(own, "/undo", "Content-Length: 1000") + b"csrf=")
        began = time.monotonic()
        assert own.ask("GET", "/").status == 200
        assert time.monotonic() - began < 20  # and not the 30 s that a slow body has


@pytest.mark.long
def test_a_slow_body_is_given_up(own: Site) -> None:
    with connect(own) as wire:
        wire.sendall(head(own, "/undo", "Content-Length: 1000") + b"csrf=")
        assert b" 408 " in wire.recv(1000)


def test_two_hundred_open_pages_are_told_of_a_change(serving: Serving, tmp_path: Path) -> None:
    write_memory(tmp_path / "home")
    site = serving()
    site.ask("POST", "/undo", {"csrf": csrf_of(site), "key": "user", "commit": "none"})  # opens the scope
    with ExitStack() as stack:
        wires = []
        for _ in range(TABS):
            wire = stack.enter_context(connect(site))
            wire.sendall(head(site, "/live", method="GET"))
            wires.append(wire)
        numbers = [next_number(wire) for wire in wires]
        with Sheaf.open("user", settings=settings_of(site.home), by="agent") as sheaf:
            sheaf.remember("Harbour", "What the harbour is called", "project", "The harbour is called Kristianopel.")
        for wire, number in zip(wires, numbers, strict=True):
            assert next_number(wire, above=number) > number
        assert site.ask("GET", "/").status == 200
    assert site.ask("GET", "/").status == 200


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
