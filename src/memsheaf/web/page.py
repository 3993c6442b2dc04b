"""One request of the page: its values, the scopes, and the rendering of the answer.

    def show_home(page: PageRequest) -> Response:
        return page.show("home.html", total=...)

A handler is a plain function, run in a worker thread: it parses, calls the library, and renders. `app.py` lists
all of them with their addresses.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

import jinja2
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from memsheaf.errors import MemsheafError, ReadOnly
from memsheaf.memory import plural
from memsheaf.open_scope import OpenScope
from memsheaf.scope import KnownScope
from memsheaf.sheaf import SCRATCH, AllScopes, Sheaf
from memsheaf.store import Commit
from memsheaf.web.access import FORM_KEY
from memsheaf.web.markdown import memory_link

SCOPES_SECONDS = 2.0  # the list of scopes may be this old
MAX_NOTICES = 200
AUTHORS = {"user": "you", "extraction": "learned", "outside": "editor", "other": "others"}

Handler = Callable[["PageRequest"], Response]


class PageNotice(NamedTuple):
    """The message after a change, and the commit that its Undo button undoes."""

    text: str
    key: str = ""
    commit: str = ""


class Site:
    """Everything that requests share: scopes, templates, and the notices for the next page."""

    def __init__(self, scopes: AllScopes, *, read_only: bool = False) -> None:
        self.scopes = scopes
        self.read_only = read_only
        self.csrf = secrets.token_urlsafe(32)
        self.number = 0  # counts the changes that were noticed
        self._notices: OrderedDict[str, PageNotice] = OrderedDict()
        self._scopes: tuple[float, list[KnownScope]] = (0.0, [])
        folder = os.path.join(os.path.dirname(__file__), "templates")
        self.templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(folder),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals.update(csrf=self.csrf, read_only=read_only)
        self.templates.filters.update(
            ago=time_element,
            author=lambda name: AUTHORS.get(name, name),
            trust=lambda level: "from others" if level == "shared" else level,
            plural=plural,
            number=lambda value: f"{value:,}",
            link=lambda memory, key: memory_link(key, memory if isinstance(memory, str) else memory.path),
        )

    def known(self) -> list[KnownScope]:
        """Return the scopes, as they were a moment ago."""
        read_at, scopes = self._scopes
        if time.monotonic() - read_at > SCOPES_SECONDS:
            scopes = [scope._replace(title="You") if scope.key == "user" else scope for scope in self.scopes.list()]
            self._scopes = time.monotonic(), scopes
        return scopes

    def forget_known(self) -> None:
        """Read the list of scopes again next time: something was changed."""
        self._scopes = 0.0, []

    def forget_all(self) -> None:
        """Drop everything that was computed or announced: a memory was erased."""
        self.forget_known()
        self._notices.clear()

    def keep_notice(self, notice: PageNotice) -> str:
        """Keep a notice for the next page, and return its id."""
        name = secrets.token_hex(8)
        self._notices[name] = notice
        while len(self._notices) > MAX_NOTICES:
            self._notices.popitem(last=False)
        return name

    def notice(self, name: str) -> PageNotice | None:
        """Return the notice with that id."""
        return self._notices.get(name)

    def render(self, template: str, values: Mapping[str, Any]) -> bytes:
        """Render a template."""
        return self.templates.get_template(template).render(values).encode("utf-8", "replace")

    def error_page(self, status: int, title: str, text: str, hint: str = "") -> Response:
        """Return the page for an error; it needs no scope."""
        values = {"status": status, "title": title, "text": text, "hint": hint}
        return Response(self.render("error.html", values), status, media_type="text/html")

    def refuse(self, status: int, text: str) -> Response:
        """Return the page for a request that may not come in."""
        return self.error_page(status, "Access denied", text)


class PageRequest:
    """One request: the values of its address and form, and the ways to answer it."""

    def __init__(self, request: Request, site: Site) -> None:
        self.site = site
        self.scopes = site.scopes
        self.url: str = request.url.path
        self._query = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        self._form: list[tuple[str, str]] = request.scope.get(FORM_KEY, [])
        self.query = _Values(self._query)
        self.form = _Values(self._form)
        self.key = str(request.path_params.get("key", ""))  # of the scope that the address names
        self.path = str(request.path_params.get("path", ""))  # of the memory that the address names

    def ticked(self, name: str) -> list[str]:
        """Return the selected values; without a script, "all" selects everything that was shown."""
        if self.form["all"] and name not in self.form:
            name = "shown"
        return [value for key, value in self._form if key == name]

    @property
    def number(self) -> int:
        """The number of the page that the address asks for, 1 or more."""
        text = self.query["page"]
        if text.isdecimal() and len(text) < 7:
            return max(1, int(text))
        return 1

    @property
    def sheaf(self) -> Sheaf:
        """The scope that the address names. Raises NotFound."""
        return self.open(self.key)

    def require_writable(self) -> None:
        """Raise ReadOnly for a page that is only there to change something."""
        if self.site.read_only:
            raise ReadOnly("This page was started with --read-only: nothing can be changed here.")

    def scope(self, key: str) -> KnownScope:
        """Return a scope by its key. Raises NotFound."""
        for scope in self.site.known():
            if scope.key == key:
                return scope
        return self.scopes.find(key)

    def open(self, key: str) -> Sheaf:
        """Return the memory of a scope by its key. Raises NotFound."""
        return self.scopes.sheaf(self.scope(key))

    def select(self, key: str) -> dict[KnownScope, Sheaf]:
        """Return the scope with this key, or for "" all that can be opened, without tasks and sessions."""
        if key:
            return {self.scope(key): self.open(key)}
        scopes = {}
        for scope in self.site.known():
            if scope.layer not in SCRATCH:
                with suppress(MemsheafError, OSError):
                    scopes[scope] = self.scopes.sheaf(scope)
        return scopes

    def key_of(self, opened: OpenScope) -> str:
        """Return the key of an open scope."""
        return next((scope.key for scope in self.scopes.list() if scope.root == opened.root), "")

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Render a whole page."""
        shared = {
            "page": self,
            "url": self.url,
            "number": self.site.number,
            "scopes": self.site.known(),
            "notice": self.site.notice(self.query["said"]),
        }
        return Response(self.site.render(template, shared | values), status, media_type="text/html")

    def go(self, url: str, notice: str = "", *, commit: Commit | None = None, key: str = "") -> Response:
        """Redirect after a change, with a notice whose button undoes the commit."""
        if notice:
            name = self.site.keep_notice(PageNotice(notice, key or self.key, commit.id if commit else ""))
            url += ("&" if "?" in url else "?") + urlencode({"said": name})
        return RedirectResponse(url, 303)

    def back(self, default: str = "/") -> str:
        """Return the address of ours that the form asks to return to."""
        url = self.form["back"]
        if not url.startswith("/") or url.startswith(("//", "/\\")) or not url.isprintable():
            return default
        return quote(url, safe="/?&=%~+:,;@!$*()-._")

    def link(self, **changes: object) -> str:
        """Return this address with other values in its query; "" and None remove one."""
        pairs = [
            (name, value) for name, value in self._query if name not in changes and name not in ("said", "token")
        ]
        pairs += [(name, str(value)) for name, value in changes.items() if value not in ("", None)]
        return self.url + (f"?{urlencode(pairs)}" if pairs else "")


class _Values(dict[str, str]):
    """The first value of each name; "" for a name that is missing."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        super().__init__(reversed(pairs))

    def __missing__(self, name: str) -> str:
        return ""


def time_element(value: object) -> Markup:
    """Return a <time> element in relative words, with the exact moment on hover.

    `value` is an ISO day, an ISO time or seconds since 1970; anything else is returned as text.
    """
    moment: date
    try:
        if isinstance(value, int | float):
            moment = datetime.fromtimestamp(value, UTC).astimezone()
        elif len(str(value)) == 10:
            moment = date.fromisoformat(str(value))
        else:
            moment = datetime.fromisoformat(str(value))
            moment = moment.replace(tzinfo=moment.tzinfo or UTC).astimezone()
    except (ValueError, OverflowError):
        return escape(value)
    exact = format_day(moment)
    if isinstance(moment, datetime):
        exact += moment.strftime(", %H:%M:%S")
    words = _describe_age(moment, datetime.now().astimezone())
    return Markup('<time datetime="{}" title="{}">{}</time>').format(moment.isoformat(), exact, words)


def _describe_age(moment: date, now: datetime) -> str:
    """Describe a day or a moment as seen from `now`.

    >>> _describe_age(date(2026, 3, 1), datetime(2026, 3, 15)), _describe_age(date(2026, 3, 2), datetime(2026, 3, 1))
    ('2 weeks ago', 'tomorrow')
    """
    day = moment
    if isinstance(moment, datetime):
        day = moment.date()
        seconds = int((now - moment).total_seconds())
        if day == now.date() and seconds >= 0:
            if seconds < 60:
                return "just now"
            if seconds < 3600:
                return f"{plural(seconds // 60, 'minute')} ago"
            return f"{plural(seconds // 3600, 'hour')} ago"
    days = (now.date() - day).days
    if days in (-1, 0, 1):
        return ("today", "yesterday", "tomorrow")[days]
    if -14 < days < 0:
        return f"in {-days} days"
    if 0 < days < 14:
        return f"{days} days ago"
    if 14 <= days < 60:
        return f"{plural(days // 7, 'week')} ago"
    if 60 <= days < 365:
        return f"{plural(days // 30, 'month')} ago"
    return format_day(day)


def format_day(day: date) -> str:
    """Return a day in a form that is read alike everywhere.

    >>> format_day(date(2026, 3, 1))
    '1 March 2026'
    """
    return f"{day.day} {day:%B %Y}"
