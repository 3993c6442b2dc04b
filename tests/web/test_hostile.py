"""Hostile memories on every page, in a real browser: no script runs, no request leaves, no markup is theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from web.conftest import OpenPage
from web.hostile import PAYLOADS, build_hostile
from web.routes import Crawl, crawl, route_of, routes
from web.web_site import Site, csrf_of, serve

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


def reflected(found: Crawl) -> list[str]:
    """Addresses that hold payloads themselves: in a parameter of a page, or of a memory that is not there."""
    made = [
        f"{path}?" + "&".join(f"{name}={quote(payload)}" for name in sorted(names))
        for path, names in found.queries().items()
        for payload in PAYLOADS[1:6:2]
        if names
    ]
    return made + [f"/memory/user/{quote(payload)}" for payload in PAYLOADS[:6]] + [f"/{quote(PAYLOADS[1])}"]


def test_hostile_texts_run_nothing_on_any_page(tmp_path: Path, open_page: OpenPage) -> None:
    here = build_hostile(tmp_path / "place")
    with serve(tmp_path / "place" / "home", cwd=here) as site:
        found = crawl(site, each=5, most=900)
        page = open_page(site, errors="status of 4")
        asked = [(url, site.ask("GET", url).text) for url in reflected(found)]
        assert page.evaluate(INSPECT_TEXT, [*found.pages.items(), *asked, *previews(site)]) == []
        for url in choose_pages(found):
            page.goto(site.origin + url)
            assert page.evaluate(f"({INSPECT})(document, [], location.href)") == []
        page.close()  # before the server ends, whose live updates it listens to


def previews(site: Site) -> Iterator[tuple[str, str]]:
    """What the preview shows of each payload, in all fields of a memory."""
    token = csrf_of(site)
    for payload in PAYLOADS:
        fields = dict.fromkeys(("name", "description", "kind", "body", "expires", "version"), payload)
        answer = site.ask("POST", "/preview", {**fields, "to": "user", "csrf": token})
        assert answer.status == 200
        yield payload, answer.text


def choose_pages(found: Crawl) -> Iterator[str]:
    """Some addresses of each route, and more of memories."""
    by_route: dict[str, list[str]] = {}
    for url in found.pages:
        by_route.setdefault(route_of(url), []).append(url)
    assert [one.path for one in routes("GET") if one.path not in by_route] == []
    for route, urls in by_route.items():
        yield from urls[:: max(1, len(urls) // (8 if route == "/memory/{key}/{path:path}" else 1))]
