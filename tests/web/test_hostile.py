"""Hostile memories on every page, in a real browser: no script runs, no request leaves, no markup is theirs."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page

from web.conftest import OpenPage
from web.hostile import PAYLOADS, build_hostile
from web.routes import Crawl, crawl, route_of, routes
from web.test_access import csrf_of
from web.web_site import Site, serve

INSPECT = r"""
(root, problems, at) => {
  const TAGS = ["iframe", "object", "embed", "base", "style", "frame", "marquee", "video", "audio"];
  const ATTRIBUTES = ["style", "srcdoc", "ping", "background", "xlink:href"];
  const FETCHED = ["src", "srcset", "action", "formaction", "poster", "data"];
  const parsed = (url) => new URL(url, location.origin);
  const tell = (element, why) => problems.push(`${at}: ${why}: ${element.outerHTML.slice(0, 200)}`);
  for (const element of root.querySelectorAll("*")) {
    const tag = element.localName, source = element.getAttribute("src") || element.getAttribute("href") || "";
    if (TAGS.includes(tag)) tell(element, tag);
    if (tag === "meta" && element.hasAttribute("http-equiv")) tell(element, tag);
    if (["script", "link"].includes(tag) && !/^\/static\/\w+\.(js|css|svg)$/.test(source)) tell(element, tag);
    for (const { name, value } of element.attributes) {
      if (name.startsWith("on") || ATTRIBUTES.includes(name)) tell(element, name);
      if (FETCHED.includes(name) && parsed(value).origin !== location.origin) tell(element, name);
      if (name === "href" && !["http:", "https:", "mailto:"].includes(parsed(value).protocol)) tell(element, name);
    }
  }
  return problems;
}
"""
INSPECT_TEXT = f"""(pages) => pages.flatMap(([url, text]) =>
  ({INSPECT})(new DOMParser().parseFromString(text, "text/html"), [], url))"""


@pytest.fixture(scope="module")
def hostile_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = tmp_path_factory.mktemp("hostile") / "place"
    here = build_hostile(place)
    with serve(place / "home", cwd=here) as site:
        yield site


@pytest.fixture(scope="module")
def found(hostile_site: Site) -> Crawl:
    return crawl(hostile_site, each=80, most=900)


def inspect(page: Page) -> None:
    problems = page.evaluate(f"({INSPECT})(document, [], location.href)")
    assert problems == []


def reflected(found: Crawl) -> list[str]:
    """Addresses that hold payloads themselves: in a parameter of a page, or of a memory that is not there."""
    made = [
        f"{path}?" + "&".join(f"{name}={quote(payload)}" for name in sorted(names))
        for path, names in found.queries().items()
        for payload in PAYLOADS[1:6:2]
        if names
    ]
    return made + [f"/memory/user/{quote(payload)}" for payload in PAYLOADS[:6]] + [f"/{quote(PAYLOADS[1])}"]


def test_no_page_holds_markup_of_a_memory(hostile_site: Site, found: Crawl, open_page: OpenPage) -> None:
    page = open_page(hostile_site)
    pages = [*found.pages.items(), *((url, hostile_site.ask("GET", url).text) for url in reflected(found))]
    assert page.evaluate(INSPECT_TEXT, pages) == []


def test_every_page_opens_and_nothing_runs(hostile_site: Site, found: Crawl, open_page: OpenPage) -> None:
    by_route: dict[str, list[str]] = {}
    for url in found.pages:
        by_route.setdefault(route_of(url), []).append(url)
    missed = [one.path for one in routes("GET") if one.path not in by_route]
    assert missed == []  # a page that no link leads to is not checked here
    page = open_page(hostile_site, "/", errors="status of 4")
    for route, urls in by_route.items():
        for url in urls[:: max(1, len(urls) // (8 if route.startswith("/memory/") else 1))]:
            page.goto(hostile_site.origin + url)
            inspect(page)


def test_a_preview_of_hostile_text_runs_nothing(hostile_site: Site, open_page: OpenPage) -> None:
    token, pages = csrf_of(hostile_site), []
    for payload in PAYLOADS:
        fields = dict.fromkeys(("name", "description", "kind", "body", "expires", "to", "version"), payload)
        answer = hostile_site.ask("POST", "/preview", {**fields, "to": "user", "csrf": token})
        assert answer.status == 200
        pages.append((payload, answer.text))
    assert open_page(hostile_site).evaluate(INSPECT_TEXT, pages) == []
