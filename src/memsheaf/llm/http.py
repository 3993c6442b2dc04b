"""Addresses and keys of servers, and a small HTTP client for embedders: one address, a timeout and a size limit."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from memsheaf.errors import ModelFailed
from memsheaf.limits import TimeUp, within

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.error import HTTPError

ANSWER_BYTES = 50_000_000
VARIABLE_NAME = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_MESSAGE_BYTES = 65_536
_URL = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]{1,5}))?((?:/[\w.~%+:-]+)*)/?", re.A | re.I)
_PROXY = re.compile(r"(?:http://)?(?:[^@/]*@)?[\w.-]+(?::[0-9]+)?/?", re.A | re.I)


class ServerAddress(NamedTuple):
    """The address of a server. A host of IPv6 keeps its brackets."""

    scheme: str
    host: str
    port: int | None
    path: str

    @property
    def is_here(self) -> bool:
        """Return True if it is this machine, by its name."""
        return self.host in ("localhost", "[::1]") or bool(re.fullmatch(r"127(\.[0-9]{1,3}){3}", self.host))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{'' if self.port is None else f':{self.port}'}{self.path}"


class HttpAnswer(NamedTuple):
    """The answer of a server."""

    status: int
    data: bytes


def parse_address(url: str) -> ServerAddress:
    """Read an address: https, or http on this machine. Raises ValueError, which does not show a password in it.

    >>> str(parse_address("https://Host.example:8443/v1/"))
    'https://host.example:8443/v1'
    """
    match = _URL.fullmatch(url)
    port = int(match[3]) if match and match[3] else None
    if not match or (port or 0) > 65535:
        raise ValueError("an address is like https://host/v1, without user, '?' or '#'")
    place = ServerAddress(match[1].lower(), match[2].lower(), port, match[4])
    if place.scheme == "http" and not place.is_here:
        raise ValueError(f"{place} would show texts and key to the network; http:// is for this machine only")
    return place


def read_key(name: str, variable: str, environment: Mapping[str, str]) -> str:
    """Return the key that an environment variable holds for a model, "" without a variable. Raises ModelFailed."""
    key = environment.get(variable, "").strip() if variable else ""
    if (variable and not key) or not re.fullmatch(r"[!-~]*", key):
        problem = "holds no key" if key else "is not set"
        raise ModelFailed(
            f"{name} needs a key, and the environment variable {variable} {problem}",
            hint="Put the key there; `memsheaf config` shows the setting that names another variable.",
        )
    return key


def error_message(body: object) -> str:
    """Return the first line of what an error says, wherever a provider puts it.

    >>> error_message({"error": {"message": "no such model"}}), error_message({"detail": [{"msg": "too long"}]})
    ('no such model', 'too long')
    """
    for _ in range(6):
        if isinstance(body, list):
            body = body[0] if body else ""
        elif isinstance(body, dict):
            body = next((body[name] for name in ("error", "message", "detail", "msg") if body.get(name)), "")
    text = body.strip() if isinstance(body, str) else ""
    return "" if text.startswith(("<", "{", "[")) else text.partition("\n")[0]


def exchange(place: ServerAddress, to: str, body: bytes, headers: Mapping[str, str], timeout: float) -> HttpAnswer:
    """Ask once, at a path below the address; to this machine without a proxy.

    A redirect is an answer like any other, and not followed. A socket's own timeout begins anew with every byte, so
    the answer is waited for in a thread.

    Raises:
        TimeoutError: the answer was not whole in time.
        ConnectionResetError: the other side hung up.
        OSError: anything else that is not an answer.
    """
    from http.client import HTTPException, IncompleteRead
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener, getproxies

    class Redirects(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            """Follow none."""

    proxies = {} if place.is_here else {"https": getproxies().get("https", "")}
    if proxies.get("https") and not _PROXY.fullmatch(proxies["https"]):
        raise OSError("the proxy of the environment is not an http:// one")
    request = Request(f"{place}{to}", body, dict(headers))
    opener = build_opener(Redirects, ProxyHandler({name: url for name, url in proxies.items() if url}))
    end = time.monotonic() + timeout

    def ask() -> HttpAnswer:
        try:
            with opener.open(request, timeout=timeout) as response:
                return _read(response, end)
        except HTTPError as error:
            with error:
                return _read(error, end)

    try:
        return within(timeout, ask, name="memsheaf-embedder")
    except TimeUp:
        raise TimeoutError from None
    except URLError as error:
        raise (error.reason if isinstance(error.reason, OSError) else OSError(str(error.reason))) from None
    except IncompleteRead:
        raise ConnectionResetError from None
    except HTTPException:
        raise OSError("what came is no HTTP") from None


def _read(response: HTTPResponse | HTTPError, end: float) -> HttpAnswer:
    """Return an answer, whole if it is a good one; of any other, enough to say what is wrong."""
    from http.client import HTTPException

    whole = bytearray()
    if response.status == 200:
        while part := response.read(1 << 16):
            whole += part
            if time.monotonic() > end:
                raise TimeoutError
            if len(whole) > ANSWER_BYTES:
                raise OSError(f"its answer is larger than {ANSWER_BYTES // 1_000_000} MB")
        if getattr(response, "length", 0):
            raise ConnectionResetError
    else:
        with suppress(OSError, HTTPException):
            whole += response.read(_MESSAGE_BYTES)
    return HttpAnswer(response.status or 0, bytes(whole))
