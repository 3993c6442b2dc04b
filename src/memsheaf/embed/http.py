"""A small HTTP client for embedders: one address, a timeout and a size limit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing, suppress
from threading import Event, Timer

from memsheaf.values import NamedTuple

TYPE_CHECKING = False  # known to type checkers by this name; `typing` is slow to import
if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

ANSWER_BYTES = 50_000_000
PAUSE = 0.5
"""Seconds before another try, where the server names none."""

_MESSAGE_BYTES = 65_536
_URL = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(?::([0-9]{1,5}))?((?:/[\w.~%+:-]+)*)/?", re.A | re.I)


class ServerAddress(NamedTuple):
    """The address of a server. A host of IPv6 keeps its brackets."""

    scheme: str
    host: str
    port: int | None
    path: str

    @property
    def is_here(self) -> bool:
        """Whether it is this machine, by its name."""
        return self.host in ("localhost", "[::1]") or bool(re.fullmatch(r"127(\.[0-9]{1,3}){3}", self.host))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{'' if self.port is None else f':{self.port}'}{self.path}"


class HttpAnswer(NamedTuple):
    """What a server said: the text, for how many seconds to pause before another try, and where else it points."""

    status: int
    data: bytes
    wait: float
    location: str


def parse_address(url: str) -> ServerAddress:
    """Read an address: https, or http on this machine. Raises ValueError, which does not show a password in it.

    >>> str(parse_address("https://Host.example:8443/v1/"))
    'https://host.example:8443/v1'
    """
    found = _URL.fullmatch(url)
    port = int(found[3]) if found and found[3] else None
    if not found or (port or 0) > 65535:
        raise ValueError("an address is like https://host/v1, without user, '?' or '#'")
    place = ServerAddress(found[1].lower(), found[2].lower(), port, found[4])
    if place.scheme == "http" and not place.is_here:
        raise ValueError(f"{place} would show texts and key to the network; http:// is for this machine only")
    return place


def error_message(body: object) -> str:
    """What an error says, first line, wherever a provider puts it.

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
    """Ask once, at a path below the address. A redirect is an answer like any other, and not followed.

    A socket's own timeout begins anew with every byte, so a timer cuts the connection when `timeout` is over.

    Raises:
        TimeoutError: the answer was not whole in time.
        ConnectionResetError: the other side hung up.
        OSError: anything else that is not an answer.
    """
    from http.client import HTTPException, IncompleteRead
    from socket import SHUT_RDWR, socket

    connection = _connection(place, timeout)
    is_late = Event()
    sockets: list[socket] = []  # a connection forgets its socket once the answer begins

    def cut() -> None:
        is_late.set()
        with suppress(OSError, AttributeError):
            socket.shutdown(sockets[0] if sockets else connection.sock, SHUT_RDWR)

    timer = Timer(timeout, cut)
    timer.daemon = True
    timer.start()
    try:
        with closing(connection):
            connection.connect()
            sockets.append(connection.sock)
            if is_late.is_set():
                raise TimeoutError
            connection.request("POST", place.path + to, body, dict(headers))
            with connection.getresponse() as response:
                answer = _read(response)
        if is_late.is_set():
            raise TimeoutError
        return answer
    except (OSError, HTTPException) as error:
        if is_late.is_set():
            raise TimeoutError from None
        if isinstance(error, IncompleteRead):
            raise ConnectionResetError from None
        if isinstance(error, HTTPException):
            raise OSError("what came is no HTTP") from None
        raise
    finally:
        timer.cancel()


def _connection(place: ServerAddress, timeout: float) -> HTTPConnection:
    """A connection that is not open yet: through the proxy of the environment, but never to this machine."""
    from http.client import HTTPConnection, HTTPSConnection

    host = place.host.strip("[]")
    if place.scheme == "http":
        return HTTPConnection(host, place.port, timeout=timeout)
    from ssl import create_default_context
    from urllib.request import getproxies, proxy_bypass

    context = create_default_context()
    proxy = "" if place.is_here or proxy_bypass(host) else getproxies().get("https", "")
    if not proxy:
        return HTTPSConnection(host, place.port, timeout=timeout, context=context)
    near, port, headers = _proxy(proxy)
    tunnel = HTTPSConnection(near, port, timeout=timeout, context=context)
    tunnel.set_tunnel(host, place.port or 443, headers)
    return tunnel


def _proxy(url: str) -> tuple[str, int, dict[str, str]]:
    """Host and port of a proxy, and the header that lets us pass. Raises OSError when it is none we can use."""
    from base64 import b64encode
    from urllib.parse import unquote, urlsplit

    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host = None
    if not host or parts.scheme != "http":
        raise OSError("the proxy of the environment is not an http:// one")
    if not parts.username:
        return host, port, {}
    both = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return host, port, {"Proxy-Authorization": f"Basic {b64encode(both).decode()}"}


def _read(response: HTTPResponse) -> HttpAnswer:
    """An answer, whole if it is a good one; of any other, enough to say what is wrong."""
    from http.client import HTTPException

    data = b""
    if response.status == 200:
        whole = bytearray()
        while part := response.read(1 << 16):
            whole += part
            if len(whole) > ANSWER_BYTES:
                raise OSError(f"its answer is larger than {ANSWER_BYTES // 1_000_000} MB")
        if response.length:
            raise ConnectionResetError
        data = bytes(whole)
    else:
        with suppress(OSError, HTTPException):
            data = response.read(_MESSAGE_BYTES)
    wait = _seconds(response.headers.get("Retry-After", ""))
    return HttpAnswer(response.status, data, wait, response.headers.get("Location", ""))


def _seconds(text: str) -> float:
    return float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) else PAUSE
