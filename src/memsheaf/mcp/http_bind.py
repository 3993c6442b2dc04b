"""Where the HTTP server listens, the hosts that a request may name, and the bearer token of its clients."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import secrets
import socket
import ssl
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from memsheaf.errors import Refused, StoreFailed
from memsheaf.state import State

MOST, RESERVED = 512, 64  # connections at most; and file descriptors for everything else
STRANGER_SECONDS = 10.0  # until a connection must have shown the token

VARIABLE = "MEMSHEAF_MCP_TOKEN"
TOKEN_FILE = "mcp-token"
TOKEN_LEAST, TOKEN_MOST = 32, 512  # characters
_TOKEN = re.compile(rf"[A-Za-z0-9._~+/=-]{{{TOKEN_LEAST},{TOKEN_MOST}}}")  # what a bearer token may be made of
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_NAME = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_PORT = re.compile(r":[0-9]+$")
_TUNNEL = """\
The simplest way from another machine is a tunnel to loopback: ssh -L {port}:127.0.0.1:{port} THIS-MACHINE
Or let a reverse proxy add TLS, with --behind-proxy and --allow-host NAME.
Or serve HTTPS with --tls-cert FILE and --tls-key FILE."""


class Endpoint(NamedTuple):
    """An address to listen at, and its names for clients. `proxied`: another program before it adds TLS."""

    host: str = "127.0.0.1"
    port: int = 8377
    names: tuple[str, ...] = ()
    certificate: str = ""
    key: str = ""
    proxied: bool = False

    @property
    def address(self) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
        """Return what the host resolves to. Raises Refused."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError):
            raise Refused(
                f"there is no address {self.host!r}", hint="--host takes a name or an IP address."
            ) from None
        return found[0][0], found[0][4]

    @property
    def ip(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        """The address to listen on."""
        return ipaddress.ip_address(self.address[1][0].partition("%")[0])

    def check(self) -> None:
        """Raise Refused when others could read what is said there, or no exact host can be asked for."""
        if not (self.ip.is_loopback or self.certificate or self.proxied):
            raise Refused(
                f"other machines reach {self.host}, and whoever is on the way could read the token",
                hint=_TUNNEL.format(port=self.port or "PORT"),
            )
        if self.ip.is_unspecified and not self.names:
            raise Refused(
                f"{self.host} is every address of this machine: say which names clients reach it under",
                hint="--allow-host NAME does, once for each.",
            )
        for name in self.names:
            if not _NAME.fullmatch(name):
                raise Refused(f"{name!r} is no host", hint="--allow-host takes NAME or NAME:PORT, and no pattern.")
        self._check_certificate()

    def _check_certificate(self) -> None:
        try:
            if self.certificate:
                served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                served.load_cert_chain(self.certificate, self.key, password="")  # "": nobody is there to be asked
        except OSError as error:  # SSLError among them
            raise Refused(
                f"the certificate cannot be used: {error.strerror or error}",
                hint="--tls-cert and --tls-key take PEM files: the certificate with its chain, and its key.",
            ) from None

    def listen(self) -> Listener:
        """Open the socket. Raises Refused."""
        self.check()
        family, address = self.address
        try:
            return Listener(socket.create_server(address[:2], family=family), _most_connections())
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise Refused(
                    f"this machine has no address {self.host}",
                    hint="--host takes one that it has, such as 127.0.0.1.",
                ) from None
            why = os.strerror(error.errno) if error.errno else error  # `strerror` says the address once more
            raise Refused(
                f"{self.host}, port {self.port} cannot be listened on: {why}",
                hint="Another server may be running there; --port N takes another port, --port 0 a free one.",
            ) from None

    def hosts(self, port: int) -> list[str]:
        """Return what a request may name as its host, once the port is known; the first is the best known."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        own = [] if self.ip.is_unspecified else [shown]
        own += ["127.0.0.1", "localhost", "[::1]"] if self.ip.is_loopback else []
        usual = port == (443 if self.certificate else 80)
        found = [f"{name}:{port}" for name in own] + own * usual
        for name in self.names:
            found += [name] if _PORT.search(name) else [f"{name}:{port}", name]
        return [host.lower() for host in found]


class Listener(socket.socket):
    """The listening socket, with a limit on open connections.

    Who has shown the token is known. A stranger is dropped after some seconds, and at once when somebody else needs
    the room, the oldest first; when all are known, who comes next is turned away.
    """

    def __init__(self, made: socket.socket, most: int) -> None:
        super().__init__(fileno=made.detach())
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # every connection has it from here
        self._most = most
        self._strangers: dict[tuple[str, int], tuple[socket.socket, float]] = {}
        self._known: dict[tuple[str, int], socket.socket] = {}
        self._dropped: list[socket.socket] = []

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; an OSError that an event loop passes over when there is no room for it."""
        self._forget_closed()
        if self._dropped:
            raise BlockingIOError  # the event loop closes them first, and asks again
        connection, address = super().accept()
        if len(self._strangers) + len(self._known) >= self._most:
            if not self._strangers:
                connection.close()
                raise ConnectionAbortedError
            self._drop(next(iter(self._strangers)))
        self._strangers[address[0], address[1]] = connection, time.monotonic()
        return connection, address

    def know(self, address: tuple[str, int]) -> None:
        """Mark a connection as authenticated."""
        if found := self._strangers.pop(address, None):
            self._known[address] = found[0]

    def drop_strangers(self) -> None:
        """Close the connections that did not authenticate in time."""
        self._forget_closed()
        late = time.monotonic() - STRANGER_SECONDS
        for address in [address for address, (_, since) in self._strangers.items() if since < late]:
            self._drop(address)

    def _drop(self, address: tuple[str, int]) -> None:
        connection, _ = self._strangers.pop(address)
        self._dropped.append(connection)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # who serves it reads the end, and closes it

    def _forget_closed(self) -> None:
        self._strangers = {key: one for key, one in self._strangers.items() if one[0].fileno() >= 0}
        self._known = {key: one for key, one in self._known.items() if one.fileno() >= 0}
        self._dropped = [one for one in self._dropped if one.fileno() >= 0]


def _most_connections() -> int:
    """Return how many connections leave enough file descriptors for memories."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MOST
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if limit < 0 else max(8, min(MOST, limit - RESERVED))


class Token(NamedTuple):
    """A client's secret, the file it is kept in ("" for the environment's), and whether it is shown now."""

    text: str
    file: str = ""
    is_new: bool = False


def load_token(state: str, environment: Mapping[str, str], *, renew: bool = False) -> Token:
    """The token of this user: from the environment, else from the state directory, where it is made at the first use.

    Raises Refused for one that is too short, or that others can read, and StoreFailed.
    """
    if given := environment.get(VARIABLE, ""):
        if renew:
            raise Refused(f"the token comes from {VARIABLE}", hint="Change it there, or remove the variable.")
        if not _TOKEN.fullmatch(given):
            takes = f"it takes {TOKEN_LEAST} to {TOKEN_MOST} letters, digits and ._~+/=-"
            raise Refused(f"{VARIABLE} holds no token: {takes}", hint="`openssl rand -hex 32` makes one.")
        return Token(given)
    kept, file = State(state), os.path.join(state, TOKEN_FILE)
    with kept.lock(TOKEN_FILE, wait=5.0):
        if not renew and (found := _read_token(file)):
            return Token(found, file)
        made = secrets.token_urlsafe(32)
        kept.write(TOKEN_FILE, f"{made}\n".encode())
        return Token(made, file, is_new=True)


def _read_token(file: str) -> str:
    """The token in the file, "" when there is none."""
    try:
        descriptor = os.open(file, _OPEN)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StoreFailed(f"{file} cannot be read: {error.strerror}") from error
    try:
        found, data = os.fstat(descriptor), os.read(descriptor, 2 * TOKEN_MOST)
    except OSError as error:
        raise StoreFailed(f"{file} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if os.name != "nt" and (stat.S_IMODE(found.st_mode) & 0o077 or found.st_uid != os.geteuid()):
        hint = f"Make another with --new-token; or `chmod 600 {file}`, when nobody else can have read it."
        raise Refused(f"the token in {file} can be read by others", hint=hint)
    text = data.decode("ascii", "replace").strip()
    if not stat.S_ISREG(found.st_mode) or not _TOKEN.fullmatch(text):
        raise Refused(f"there is no token in {file}", hint="--new-token makes another.")
    return text
