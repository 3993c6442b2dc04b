"""Every route of the page, from its own table: what a test walks cannot forget one that is new."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from html.parser import HTMLParser
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from memsheaf.web.app import ROUTES
from web.web_site import Site


class KnownRoute(NamedTuple):
    """A route: its method, and its address with `{parameters}`."""

    method: str
    path: str

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"{(\w+)", self.path)

    def fill(self, values: Mapping[str, str], default: str = "x") -> str:
        """The address with its parameters filled in, percent-encoded."""
        return re.sub(r"{(\w+)(?::\w+)?}", lambda found: quote(values.get(found[1], default), safe="/~"), self.path)

    def matches(self, path: str) -> bool:
        pattern = re.sub(r"{\w+:path}", ".+", re.sub(r"{\w+}", "[^/]+", self.path))
        return re.fullmatch(pattern, path) is not None


@cache
def routes(method: str = "") -> list[KnownRoute]:
    """All routes, or those of a method."""
    return [KnownRoute(verb, path) for verb, path, _ in ROUTES if method in ("", verb)]


def route_of(url: str, method: str = "GET") -> str:
    """The route of an address: of several that match the longest; the address itself when there is none."""
    path = url.partition("?")[0]
    return max((one.path for one in routes(method) if one.matches(path)), key=len, default=path)


class _Names(HTMLParser):
    """The links of a page, and its forms: method, action, and the fields with their values."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[tuple[str, str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "form":
            self.forms.append((given.get("method", "get").lower(), given.get("action", ""), {}))
        elif tag in ("input", "textarea", "select", "button") and self.forms:
            method, _, fields = self.forms[-1]
            if given.get("name"):
                fields.setdefault(given["name"], given.get("value", ""))
            if given.get("formaction"):
                self.forms.append((given.get("formmethod", method).lower(), given["formaction"], fields))


class Crawl(NamedTuple):
    """What following every link of the site leads to."""

    pages: dict[str, str]  # by address
    forms: list[tuple[str, str, dict[str, str]]]  # as `_Names` has them, the action whole
    broken: list[str]  # addresses that are linked and not there

    def queries(self) -> dict[str, set[str]]:
        """The names that stand in the query of each address."""
        found: dict[str, set[str]] = {}
        for url in self.pages:
            parts = urlsplit(url)
            found.setdefault(parts.path, set()).update(re.findall(r"(?:^|&)([^=&]+)=", parts.query))
        for method, action, fields in self.forms:
            if method == "get":
                found.setdefault(action, set()).update(fields)
        return found


def crawl(site: Site, *, most: int = 400, each: int = 12) -> Crawl:
    """Follow links from the first page; of one route at most `each` addresses are opened."""
    opened: dict[str, int] = {}
    waiting, found = ["/"], Crawl({}, [], [])
    while waiting and len(found.pages) < most:
        url = waiting.pop(0)
        path = urlsplit(url).path
        route = route_of(path)
        if (
            url in found.pages
            or url in found.broken
            or opened.get(route, 0) >= each
            or path in ("/live",)
            or path.startswith("/static")
        ):
            continue
        opened[route] = opened.get(route, 0) + 1
        answer = site.ask("GET", url)
        if answer.status >= 400:
            found.broken.append(url)
            continue
        found.pages[url] = answer.text
        if answer.headers.get("content-type", "").startswith("text/html"):
            names = _Names()
            names.feed(answer.text)
            found.forms.extend((method, urlsplit(urljoin(url, action)).path, f) for method, action, f in names.forms)
            waiting += [one for one in _inside(url, names.links) if one not in found.pages]
    return found


def _inside(url: str, links: list[str]) -> Iterator[str]:
    for link in links:
        parts = urlsplit(urljoin(f"http://here{url}", link))
        if parts.netloc == "here":
            yield parts.path + (f"?{parts.query}" if parts.query else "")
