"""Access checks of the web page: exact Host, same origin, a cookie that a token gives once, CSRF, sizes, headers.

A page of any other site in the same browser reaches 127.0.0.1 as well as this one does; this is what keeps it out.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from hashlib import sha256
from urllib.parse import parse_qs, parse_qsl

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memsheaf.mcp.http_auth import TOO_SLOW, header_values, is_same_site, read_body

FORM_BYTES = 4 * 1024 * 1024  # a memory has at most 256 KiB, and percent-encoding makes up to nine times that
FIELDS = 20_000
FORM = "application/x-www-form-urlencoded"
FORM_KEY = "memsheaf.form"

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # with no-referrer a browser sends "Origin: null" with its own forms
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
NO_COOKIE = "Open the link that memsheaf web printed in your terminal. If you just did, go to the home page."
USED_LINK = (
    "This link was used before, or its server has ended. Press Enter in the terminal where memsheaf web runs to get "
    "a new link, or run memsheaf web again. If you opened the link in this browser, go to the home page."
)
FOREIGN_FORM = "The form is not from this page, or the server was restarted since. Reload the page and try once more."
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

ErrorPage = Callable[[int, str], Response]  # makes the page for a status and an explanation


class WebAccess:
    """Checks every request, in this order: Host, origin, method, token or cookie, size and CSRF token of a form.

    `know` is told the address of whoever may come in. Style and script are given to everybody: they tell nothing.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: frozenset[str],
        csrf: str,
        read_only: bool,
        secure: bool,
        refuse: ErrorPage,
        know: Callable[[tuple[str, int]], None] = lambda address: None,
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._unused: set[bytes] = set()  # digests of tokens
        self._session = secrets.token_urlsafe(32)
        self._csrf = csrf.encode()
        self._read_only = read_only
        self._secure = secure
        self._refuse = refuse
        self._know = know

    def add_token(self) -> str:
        """Return a new token, which lets one browser in, once."""
        token = secrets.token_urlsafe(32)
        self._unused.add(sha256(token.encode()).digest())
        return token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or let it in."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        answer = self._refuse_request(scope)
        if answer is None and scope.get("client"):
            self._know(tuple(scope["client"][:2]))
        if answer is None and scope["method"] == "POST":
            answer = await self._read_form(scope, receive)
        return await (answer or self._app)(scope, receive, sent)

    def _refuse_request(self, scope: Scope) -> Response | None:
        """The answer to a request that may not come in; None for one that may."""
        method, given = scope["method"], header_values(scope, "host")
        if len(given) != 1 or given[0].lower() not in self._hosts:
            return self._refuse(421, "The host name is wrong. Open the link that memsheaf web printed.")
        if method not in ("GET", "HEAD", "POST"):
            return self._refuse(405, "Only GET and POST are supported.")
        if scope["path"].startswith("/static/") and method != "POST":
            return None
        shown = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=None).get("token", [])
        if shown and method == "GET" and not _is_prefetch(scope):
            return self._enter(scope, shown)
        if not self._is_ours(scope):
            return self._refuse(403, "Requests from other sites are refused.")
        if not self._has_cookie(scope):
            return self._refuse(401, NO_COOKIE)
        return None

    def _enter(self, scope: Scope, shown: list[str]) -> Response:
        """Exchange an unused token for a cookie; the address that follows has no token in it.

        A browser that is in may open its link again; for all others it is of no more use.
        """
        answer: Response = RedirectResponse("/", 303)
        digest = sha256("&".join(shown).encode("utf-8", "replace")).digest()
        if digest not in self._unused:
            is_inside = self._is_ours(scope) and self._has_cookie(scope)
            return answer if is_inside else self._refuse(401, USED_LINK)
        self._unused.remove(digest)
        if not is_same_site(scope, self._hosts):
            # a link in another page was followed: the browser takes a redirect for that page's, and sends no cookie
            answer = Response(headers={"refresh": "0;url=/"}, media_type="text/html")
        answer.set_cookie(
            _cookie_name(scope), self._session, httponly=True, samesite="strict", path="/", secure=self._secure
        )
        return answer

    def _is_ours(self, scope: Scope) -> bool:
        """Return True if a person or this page made the request. Our forms always send their origin."""
        says_where = scope["method"] != "POST" or len(header_values(scope, "origin")) == 1
        return says_where and is_same_site(scope, self._hosts)

    def _has_cookie(self, scope: Scope) -> bool:
        """Return True if one of the cookies is ours; those of other programs on this machine may be anything."""
        wanted = f"{_cookie_name(scope)}={self._session}".encode()
        given = (
            one.strip().encode("utf-8", "replace")
            for line in header_values(scope, "cookie")
            for one in line.split(";")
        )
        return any(hmac.compare_digest(one, wanted) for one in given)

    async def _read_form(self, scope: Scope, receive: Receive) -> Response | None:
        """Read a form into the scope; an error page for one that is too large, too slow, foreign or not wanted."""
        if self._read_only:
            return self._refuse(403, "This page was started with --read-only: nothing can be changed here.")
        types = header_values(scope, "content-type")
        if len(types) != 1 or types[0].partition(";")[0].strip().lower() != FORM:
            return self._refuse(415, "Only forms are accepted here.")
        body = await read_body(scope, receive, FORM_BYTES)
        if body == TOO_SLOW:
            return self._refuse(TOO_SLOW, "The form did not arrive in time.")
        if isinstance(body, int):
            return self._refuse(body, "The form is too large.")
        return self._check_form(scope, body)

    def _check_form(self, scope: Scope, body: bytes) -> Response | None:
        try:
            pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS)
        except ValueError:
            return self._refuse(400, "The form could not be read.")
        given = [value for name, value in pairs if name == "csrf"]
        if len(given) != 1 or not hmac.compare_digest(given[0].encode("utf-8", "replace"), self._csrf):
            return self._refuse(403, FOREIGN_FORM)
        scope[FORM_KEY] = pairs
        return None


def _is_prefetch(scope: Scope) -> bool:
    """Return True if a browser asks before anybody opened the link; the token is for whoever opens it."""
    names = ("sec-purpose", "purpose", "x-purpose", "x-moz")
    return any("pre" in value.lower() for name in names for value in header_values(scope, name))


def _cookie_name(scope: Scope) -> str:
    """A name of its own for each port: browsers keep cookies by host alone."""
    server = scope.get("server")
    return f"memsheaf-{server[1] if server else 0}"
