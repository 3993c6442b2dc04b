"""A proxy to a server, as a network that can be cut in the middle of a message, slow, silent or gone."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

RESET = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Trouble:
    """What is wrong with the network from now on: how many more bytes go through `up` to the server and `down` to the
    client before both lose the connection, seconds of `delay` for each message, and whether it does `refuse`, `stall`
    or `swallow` what the server says."""

    up: int = 1 << 40
    down: int = 1 << 40
    delay: float = 0.0
    refuse: bool = False
    stall: bool = False
    swallow: bool = False


@dataclass(slots=True)
class Proxy:
    """Passes on what comes to `port`, in threads that end with the process; the server is at a port or a socket."""

    server: tuple[str, int] | str
    trouble: Trouble = field(default_factory=Trouble)
    passed: dict[str, int] = field(default_factory=lambda: {"up": 0, "down": 0})
    cuts: int = 0
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    def __post_init__(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where clients connect."""
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Take no more connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            if self.trouble.refuse:
                _reset(client)
                return
            try:
                server = self._connect()
            except OSError:
                _reset(client)
                return
            with server:
                self._pass_on(client, server)

    def _connect(self) -> socket.socket:
        if not isinstance(self.server, str):
            return socket.create_connection(self.server)
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.server)
        return server

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        ways = {client: (server, "up"), server: (client, "down")}
        with selectors.DefaultSelector() as selector:
            for source in ways:
                if source.family == socket.AF_INET:
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(source, selectors.EVENT_READ)
            while True:
                found = selector.select(0.05)
                if self.trouble.refuse:
                    return self._cut(client, server)
                if self.trouble.stall:
                    time.sleep(0.02)
                    continue
                for key, _ in found:
                    assert isinstance(key.fileobj, socket.socket)
                    target, way = ways[key.fileobj]
                    trouble = self.trouble  # another may begin meanwhile, which this message is not counted in
                    try:
                        data = key.fileobj.recv(65536)
                        time.sleep(trouble.delay)
                        if way == "down" and trouble.swallow and data:
                            continue
                        left = getattr(trouble, way)
                        self.passed[way] += len(data[:left])
                        target.sendall(data[:left])
                    except OSError:
                        return None
                    if len(data) > left:
                        return self._cut(client, server)
                    setattr(trouble, way, left - len(data))
                    if not data:
                        return None

    def _cut(self, *ends: socket.socket) -> None:
        self.cuts += 1
        for one in ends:
            _reset(one)


def _reset(end: socket.socket) -> None:
    """Close it as a host does that knows nothing of the connection."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    end.close()
