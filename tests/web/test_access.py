"""Who may come in: token, cookie, Host, Origin, CSRF, read-only, on every route there is."""

from __future__ import annotations

import hashlib
import http.client
import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from databases import contents
from memsheaf import Settings, Sheaf
from memsheaf.memory import Allow
from web.conftest import Serving
from web.routes import KnownRoute, routes
from web.web_site import PATIENCE, Answer, Site, csrf_of, environment_of

SECRET = "the lighthouse is painted green"
VALUES = {"key": "user", "path": "project_lighthouse.md"}


def write_memory(home: Path) -> None:
    with Sheaf.open("user", settings=settings_of(home), by="user") as sheaf:
        sheaf.write("Lighthouse", SECRET, "project", SECRET, allow=Allow(anyway=True))


def settings_of(home: Path) -> Settings:
    return Settings(str(home), str(home / "cache"), state=str(home / "state"), embedder="none")


@pytest.fixture
def site(serving: Serving, tmp_path: Path) -> Site:
    write_memory(tmp_path / "home")
    return serving()


def digest(home: Path) -> dict[str, str]:
    """Every file below a home but those of the cache, which nothing depends on."""
    files = contents(home, skip="cache").items()
    return {os.path.relpath(path, home): hashlib.sha256(data).hexdigest() for path, data in files}


def assert_locked(answer: Answer, site: Site) -> None:
    """The headers of every answer; and it tells neither the token nor a traceback."""
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "base-uri 'none'" in policy
    assert "form-action 'self'" in policy
    assert "unsafe" not in policy
    assert "http:" not in policy
    assert "*" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] in ("same-origin", "no-referrer")
    assert "access-control-allow-origin" not in answer.headers
    assert "server" not in answer.headers
    assert "Traceback" not in answer.text
    assert site.url.partition("token=")[2] not in answer.text


def refused(answer: Answer, status: int, site: Site) -> None:
    assert answer.status == status, answer
    assert SECRET not in answer.text
    assert "set-cookie" not in answer.headers
    assert_locked(answer, site)


def ask_all(site: Site, status: int, *, method: str = "", **how: object) -> None:
    for route in [*routes(method), *([KnownRoute("GET", "/live")] if method != "POST" else [])]:
        refused(site.ask(route.method, route.fill(VALUES), **how), status, site)  # type: ignore[arg-type]


def test_without_the_cookie_nothing_is_told(site: Site) -> None:
    name = site.cookie.partition("=")[0]
    for cookie in ("", f"{name}=", f"{name}=wrong", f'{name}=\x7f;;="', f"other={site.cookie.partition('=')[2]}"):
        ask_all(site, 401, cookie=cookie)
    assert site.ask("GET", "/").status == 200


def test_the_token_is_exchanged_for_a_cookie_once_and_only_the_right_one(site: Site) -> None:
    token = site.url.partition("token=")[2]
    for wrong in ("", "x", token[:-1], token + "x", token.swapcase(), f"{token}&token={token}", "%00", "%ff" * 50):
        refused(site.ask("GET", f"/memories?token={wrong}", cookie=""), 401, site)
    answer = site.ask("GET", f"/?token={token}", cookie="")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    flags = [part.strip().lower() for part in answer.headers["set-cookie"].split(";")[1:]]
    assert {"httponly", "samesite=strict", "path=/"} <= set(flags)
    assert not any(flag.startswith(("domain", "expires", "max-age")) for flag in flags)
    assert token not in answer.headers["set-cookie"]
    assert_locked(answer, site)
    refused(site.ask("GET", f"/?token={token}", cookie=""), 401, site)
    assert token not in site.log.read_text("utf-8")


def test_the_address_may_be_a_link_in_another_page(serving: Serving, browser: Browser) -> None:
    site = serving()
    context = browser.new_context()
    page = context.new_page()
    page.set_content(f'<a href="{site.url}">memsheaf</a>')
    page.get_by_role("link").click()
    page.wait_for_url(f"{site.origin}/")
    assert page.title() == "Home · memsheaf"
    context.close()


def test_cookies_of_other_programs_do_not_matter(sample_site: Site) -> None:
    for other in ('prefs={"theme": "dark"}', "=", "a b c", 'x="', sample_site.cookie.partition("=")[0] + "=1", "ü=é"):
        theirs = other.encode().decode("latin-1")
        answer = sample_site.ask("GET", "/memories", cookie=f"{theirs}; {sample_site.cookie}; last=[1")
        assert answer.status == 200, other
        refused(sample_site.ask("GET", "/memories", cookie=theirs), 401, sample_site)


def test_another_host_is_refused(sample_site: Site) -> None:
    port = sample_site.netloc.rpartition(":")[2]
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.", "0.0.0.0", ""):
        ask_all(sample_site, 421, host=f"{host}:{port}")
    for host in ("127.0.0.1", "127.0.0.1:1", "localhost", f"user@{sample_site.netloc}"):
        ask_all(sample_site, 421, host=host)


def test_two_hosts_or_none_are_refused(sample_site: Site) -> None:
    for hosts in ([], [sample_site.netloc, "evil.example"], ["evil.example", sample_site.netloc]):
        connection = http.client.HTTPConnection(sample_site.netloc, timeout=PATIENCE)
        connection.putrequest("GET", "/", skip_host=True)
        for host in hosts:
            connection.putheader("Host", host)
        connection.putheader("Cookie", sample_site.cookie)
        connection.endheaders()
        assert connection.getresponse().status in (400, 421)
        connection.close()


def test_another_origin_is_refused(sample_site: Site) -> None:
    other = f"http://localhost.evil.example:{sample_site.netloc.rpartition(':')[2]}"
    for origin in ("http://evil.example", "null", other, sample_site.origin + ".evil.example", "file://"):
        ask_all(sample_site, 403, headers=[("Origin", origin)])
    ask_all(sample_site, 403, method="POST", headers=[("Origin", "")])  # a form of ours always says it
    for kind in ("cross-site", "same-site"):
        ask_all(sample_site, 403, headers=[("Sec-Fetch-Site", kind)])


def test_no_change_without_the_csrf_token(site: Site) -> None:
    token, before = csrf_of(site), digest(site.home)
    for form in ({}, {"csrf": ""}, {"csrf": "x"}, {"csrf": token[:-1]}, {"CSRF": token}):
        ask_all(site, 403, method="POST", form=form)
    ask_all(site, 403, method="POST", form=f"csrf={token}&csrf={token}".encode())
    for route in routes("POST"):
        path = f"{route.fill(VALUES)}?csrf={token}"
        refused(site.ask("POST", path, {}), 403, site)
        as_json = [("Content-Type", "application/json")]
        refused(site.ask("POST", route.fill(VALUES), b'{"csrf": "%s"}' % token.encode(), as_json), 415, site)
        as_text = [("Content-Type", "text/plain")]
        refused(site.ask("POST", route.fill(VALUES), b"csrf=" + token.encode(), as_text), 415, site)
    assert digest(site.home) == before


def test_read_only_refuses_every_change_and_makes_none(serving: Serving, tmp_path: Path) -> None:
    home = tmp_path / "home"
    write_memory(home)
    before = digest(home)
    site = serving("--read-only")
    assert 'method="post"' not in site.ask("GET", "/").text.lower()
    token = csrf_of(site) if "csrf" in site.ask("GET", "/").text else "x"
    ask_all(site, 403, method="POST", form={"csrf": token, "commit": "", "key": "user"})
    shown = {route.path: site.ask("GET", route.fill(VALUES)) for route in routes("GET")}
    assert [path for path, answer in shown.items() if answer.status >= 500] == []
    assert [path for path, answer in shown.items() if 'method="post"' in answer.text.lower()] == []
    assert digest(home) == before


def test_other_methods_are_refused(sample_site: Site) -> None:
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"):
        refused(sample_site.ask(method, "/"), 405, sample_site)
    for route in routes("POST"):
        if not any(one.matches(route.fill(VALUES)) for one in routes("GET")):
            refused(sample_site.ask("GET", route.fill(VALUES)), 405, sample_site)


def test_files_of_the_package_are_not_served(sample_site: Site) -> None:
    for name in (
        "../app.py",
        "..%2fapp.py",
        "%2e%2e/app.py",
        "....//app.py",
        "/etc/passwd",
        "%00",
        "style.css/..",
        ".",
    ):
        answer = sample_site.ask("GET", f"/static/{name}", cookie="")
        assert answer.status in (401, 404), name
        assert b"import" not in answer.body
    style = sample_site.ask("GET", "/static/style.css", cookie="")
    assert (style.status, style.headers["content-type"].partition(";")[0]) == (200, "text/css")
    assert_locked(style, sample_site)


def test_other_machines_cannot_be_listened_to(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "memsheaf", "web", "--json", "--port", "0", "--host", "0.0.0.0"]
    environment = environment_of(tmp_path / "home")
    done = subprocess.run(
        words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, "there is no option --host" in done.stderr) == (2, True)
    assert os.listdir(tmp_path) == []
