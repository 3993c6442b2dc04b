"""One request of the page: what was asked, the scopes, and how the answer is rendered.

    @get("/browse")
    def browse(page: PageRequest) -> Response:
        return page.show("browse.html", rows=...)

A route is a plain function, run in a worker thread: it parses, calls the library, and renders.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from memsheaf import __version__
from memsheaf.errors import NotFound, ReadOnly
from memsheaf.sheaf import Sheaf
from memsheaf.store import Commit
from memsheaf.web.access import FORM_KEY
from memsheaf.web.dates import time_element
from memsheaf.web.markdown import memory_link
from memsheaf.web.texts import PageTexts, fill, load_texts
from memsheaf.work.all_scopes import AllScopes, KnownScope
from memsheaf.work.layers import Layers
from memsheaf.work.overview import Overview

T = TypeVar("T")
Work = TypeVar("Work", bound=Callable[..., Response])
ROUTES: list[Route] = []  # every route, in the order in which they are tried
PIECES = 4_000  # rows of lists that are kept as they were rendered
NOTICES = 200  # kept for the page after a change


class PageNotice(NamedTuple):
    """What is said after a change, and the commit that "Undo" takes back."""

    text: str
    key: str = ""
    commit: str = ""


class Site:
    """What all requests share: the scopes, the texts, the templates, and what is said after a change."""

    def __init__(self, scopes: AllScopes, *, read_only: bool = False) -> None:
        self.scopes = scopes
        self.read_only = read_only
        self.csrf = secrets.token_urlsafe(32)
        self.t = load_texts()
        self.number = 0  # of the last change that was noticed
        self._notices: OrderedDict[str, PageNotice] = OrderedDict()
        self._shared: dict[type, Any] = {}
        self._scopes: tuple[float, list[KnownScope]] = (0.0, [])
        self._pieces: dict[object, Markup] = {}
        self.templates = _environment(self.t)
        self.templates.globals.update(
            t=self.t, csrf=self.csrf, read_only=read_only, version=__version__, pages=_PAGES
        )

    def shared(self, kind: type[T], make: Callable[[], T]) -> T:
        """The one object of a class that all requests share, made when it is first needed."""
        found: T = self._shared.setdefault(kind, self._shared.get(kind) or make())
        return found

    def known(self) -> list[KnownScope]:
        """The scopes, as they were a moment ago."""
        at, found = self._scopes
        if time.monotonic() - at > 2.0:
            own = str(self.t.layer.user)
            found = [one._replace(title=own) if one.key == "user" else one for one in self.scopes.list()]
            self._scopes = time.monotonic(), found
        return found

    def forget_known(self) -> None:
        """Look for scopes anew next time, and render all rows anew: something was changed, or even erased."""
        self._scopes = 0.0, []
        self._pieces = {}  # a thread that renders has the old one

    def forget_all(self) -> None:
        """Keep nothing of what was computed or said: a memory was erased."""
        self.forget_known()
        self._shared.clear()
        self._notices.clear()

    def keep_notice(self, notice: PageNotice) -> str:
        """Keep what is to be said, and give its id."""
        name = secrets.token_hex(8)
        self._notices[name] = notice
        while len(self._notices) > NOTICES:
            self._notices.popitem(last=False)
        return name

    def notice(self, name: str) -> PageNotice | None:
        """What is to be said under an id."""
        return self._notices.get(name)

    def render(self, template: str, values: Mapping[str, Any]) -> bytes:
        """Render a template."""
        made = self.templates.get_template(template).render(now=datetime.now().astimezone(), **values)
        return made.encode("utf-8", "replace")

    def piece(self, template: str, *values: object) -> Markup:
        """A small template of these values alone, which is kept for the day."""
        key = template, date.today(), *values
        kept = self._pieces
        if (found := kept.get(key)) is None:
            if len(kept) > PIECES:
                kept.clear()
            now = datetime.now().astimezone()
            kept[key] = found = Markup(self.templates.get_template(template).render(now=now, values=values))
        return found

    def error_page(self, status: int, title: str, text: str, hint: str = "") -> Response:
        """A designed page for something that went wrong; it needs no scope."""
        values = {"status": status, "title": title, "text": text, "hint": hint}
        return Response(self.render("error.html", values), status, media_type="text/html")

    def refuse(self, status: int, what: str) -> Response:
        """The page for a request that may not come in."""
        return self.error_page(status, self.t.access.title, getattr(self.t.access, what))


class PageRequest:
    """One request."""

    def __init__(self, request: Request, site: Site) -> None:
        self.request = request
        self.site = site
        self.t: PageTexts = site.t
        self.scopes = site.scopes
        self.url: str = request.url.path
        pairs = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        self._query, self._form = pairs, request.scope.get(FORM_KEY, [])
        self.query, self.form = _Values(pairs), _Values(self._form)

    def all(self, name: str) -> list[str]:
        """All values of a name in the form, or in the address."""
        return [value for key, value in self._form or self._query if key == name]

    def ticked(self, name: str) -> list[str]:
        """The selected items; without a script, "all" means everything that was shown."""
        return self.all(name) or (self.all("shown") if self.form["all"] else [])

    def number(self, name: str, default: int = 1, most: int = 1_000_000) -> int:
        """A number, 1 or more, of the address; the default for anything else."""
        text = self.query[name]
        return (
            min(int(text), most) if text.isascii() and text.isdigit() and 0 < len(text) < 8 and int(text) else default
        )

    @property
    def key(self) -> str:
        """The scope that the address names, "" when it names none."""
        return str(self.request.path_params.get("key", ""))

    @property
    def path(self) -> str:
        """The memory that the address names."""
        return str(self.request.path_params.get("path", ""))

    @property
    def sheaf(self) -> Sheaf:
        """The scope that the address names. Raises NotFound."""
        return self.scopes.sheaf(self.key)

    @property
    def sheaves(self) -> dict[str, Sheaf]:
        """The scope that the query names, or all but tasks and sessions, by key. Raises NotFound."""
        if key := self.query["scope"]:
            return {self.scope(key).key: self.scopes.sheaf(key)}
        return self.site.shared(Overview, lambda: Overview(self.scopes)).sheaves(self.site.known())

    @property
    def layers(self) -> Layers:
        """The layers around the scope that the address names. Raises NotFound."""
        return self.scopes.layers(self.key)

    def require_writable(self) -> None:
        """Raise ReadOnly where a page is only there to change something."""
        if self.site.read_only:
            raise ReadOnly(self.t.access.read_only)

    def scope(self, key: str) -> KnownScope:
        """One scope by its key. Raises NotFound."""
        known = self.site.known()
        by_key = next((one for one in known if one.key == key), None)
        root = self.scopes.sheaf(key).root if by_key is None else ""  # the present project has two names
        found = by_key or next((one for one in known if one.root == root), None)
        if found is None:
            raise NotFound(key)
        return found

    def key_of(self, sheaf: Sheaf) -> str:
        """The key of a scope that is open."""
        return next((known.key for known in self.scopes.list() if known.root == sheaf.root), "")

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Render a whole page."""
        shown = {
            "page": self,
            "url": self.url,
            "number": self.site.number,
            "scopes": self.site.known(),
            "notice": self.site.notice(self.query["said"]) if self.query["said"] else None,
            **values,
        }
        return Response(self.site.render(template, shown), status, media_type="text/html")

    def go(self, url: str, notice: str = "", *, commit: Commit | None = None, key: str = "") -> Response:
        """Redirect after a change, and say what was done, with a button that undoes the commit."""
        if notice:
            kept = PageNotice(notice, key or self.key, commit.id if commit else "")
            url += ("&" if "?" in url else "?") + urlencode({"said": self.site.keep_notice(kept)})
        return RedirectResponse(url, 303)

    def back(self, default: str = "/") -> str:
        """Our own address that the form says to return to."""
        given = self.form["back"]
        inside = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable()
        return quote(given, safe="/?&=%~+:,;@!$*()-._") if inside else default

    def fill(self, text: str, n: int | None = None, **values: object) -> str:
        """Fill in a text."""
        return fill(text, n, **values)

    def link(self, **changes: object) -> str:
        """This address with other values in its query; "" and None remove one."""
        pairs = [
            (name, value) for name, value in self._query if name not in changes and name not in ("said", "token")
        ]
        pairs += [(name, str(value)) for name, value in changes.items() if value not in ("", None)]
        return self.url + (f"?{urlencode(pairs)}" if pairs else "")


class _Values(dict[str, str]):
    """The first value of each name; "" for one that is not there."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        super().__init__(reversed(pairs))

    def __missing__(self, name: str) -> str:
        return ""


def get(path: str) -> Callable[[Work], Work]:
    """Make a function the answer to GET."""
    return lambda work: _register(path, "GET", work)


def post(path: str) -> Callable[[Work], Work]:
    """Make a function the handler of POST, with other changes locked out."""
    return lambda work: _register(path, "POST", work)


def _register(path: str, method: str, work: Work) -> Work:
    async def answer(request: Request) -> Response:
        found: Response = await request.app.state.run(work, request, writes=method == "POST")
        return found

    ROUTES.append(Route(path, answer, methods=[method], name=work.__name__))
    return work


_PAGES = ("home", "browse", "review", "recall", "timeline", "dream", "work", "settings")
"""The pages in the navigation, each at the address of its name."""


def _environment(t: PageTexts) -> jinja2.Environment:
    folder = os.path.join(os.path.dirname(__file__), "templates")
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    @jinja2.pass_context
    def ago(context: jinja2.runtime.Context, value: object) -> object:
        return time_element(value, context["now"], t.when)

    made.filters.update(
        ago=ago,
        fill=fill,
        link=lambda row, key: memory_link(key, row if isinstance(row, str) else row.path),
        number=lambda value: f"{value:,}",
        at_home=_at_home,
    )
    return made


def _at_home(path: str) -> str:
    """A path as people write it."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(home + os.sep) else path
