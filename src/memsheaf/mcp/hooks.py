"""Hooks of the client's host, answered by the server that it has started: as an unlisted tool, and through a socket.

No Python has to start for it, and the vectors are loaded already.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from memsheaf.hosts.answer import HookAnswers
from memsheaf.hosts.local_socket import MESSAGE_BYTES, PIECE, key_of, socket_path
from memsheaf.sheaf import Sheaf

MAX_CONNECTIONS = 32
REQUEST_SECONDS = 3.0  # for all of a request: a hook waits no longer for its answer
NEWS_SECONDS = 1.0  # that a start waits for a hub: a hook gives its server little more
RETRY = 30.0  # seconds until it is looked again whether the server that listens has ended


class ServerHooks:
    """The hooks of one server, in the folder that it was started in."""

    def __init__(self, cwd: str, layers: Sheaf, news: Callable[[float], object]) -> None:
        self._cwd = cwd
        self._answers = HookAnswers(layers, cwd, lambda seconds: news(min(seconds, NEWS_SECONDS)))
        self._working = threading.Lock()
        self._socket = HookSocket(cwd, self._answer)
        self._tried = 0.0

    def call(self, arguments: object) -> str:
        """Return what to recall for a message as hook output. It is `{}` for nothing: Claude Code shows the model an
        empty text as the success of a hook."""
        with self._working:
            answer = self._answers.recall(arguments if isinstance(arguments, dict) else {})
        return answer.decode() or "{}"

    def _answer(self, host: str, event: str, cwd: str, data: bytes) -> bytes:
        with self._working:
            return self._answers.answer(host, event, cwd, data)

    def listen(self) -> None:
        """Answer through the socket of this project, unless another server does."""
        if time.monotonic() - self._tried > RETRY:
            self._tried = time.monotonic()
            if self._socket.open():
                threading.Thread(target=self._socket.serve, name="memsheaf-hooks", daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()


class HookSocket:
    """The server's end of the socket of a project. Each hook is answered in a thread of its own.

    A caller that is slow, sends too much or something else than a request is hung up on, and a hook that gets no
    answer does the work itself.
    """

    def __init__(self, cwd: str, handler: Callable[[str, str, str, bytes], bytes]) -> None:
        self._key = key_of(cwd)
        self._handler = handler
        self._path = socket_path(self._key, create=True)
        self._link: socket.socket | None = None
        self._free = threading.Semaphore(MAX_CONNECTIONS)

    def open(self) -> bool:
        """Listen, unless another server of this project does already."""
        if not self._path or self._link:
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            problem = probe.connect_ex(self._path)
        if problem == errno.ECONNREFUSED:
            self._unlink()  # its server was killed
        elif problem != errno.ENOENT:
            return False  # another server listens, or is busy
        link = socket.socket(socket.AF_UNIX)
        try:
            link.bind(self._path)
            os.chmod(self._path, 0o600)
            link.listen(MAX_CONNECTIONS)
        except OSError:
            link.close()
            return False
        self._link = link
        return True

    def serve(self) -> None:
        """Answer until `close`."""
        while link := self._link:
            try:
                caller, _ = link.accept()
            except OSError:
                time.sleep(0.1)  # too many files are open, or it was closed
                continue
            if self._free.acquire(blocking=False):
                threading.Thread(target=self._serve_caller, args=(caller,), daemon=True).start()
            else:
                caller.close()

    def _serve_caller(self, caller: socket.socket) -> None:
        try:
            with caller, suppress(OSError):
                head, _, data = _read_request(caller).partition(b"\0\0")
                key, *words = head.split(b"\0")
                if key == self._key and len(words) == 3:
                    host, event, cwd = map(os.fsdecode, words)
                    caller.sendall(b"+" + self._handler(host, event, cwd, data))
        finally:
            self._free.release()

    def close(self) -> None:
        """Stop listening."""
        if link := self._link:
            self._link = None
            self._unlink()
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()

    def _unlink(self) -> None:
        with suppress(OSError):
            os.unlink(self._path)


def _read_request(caller: socket.socket) -> bytes:
    """Return all that a caller sends. Raises TimeoutError after `REQUEST_SECONDS`, OSError where it is too much."""
    deadline = time.monotonic() + REQUEST_SECONDS
    data = bytearray()
    while len(data) <= MESSAGE_BYTES:
        caller.settimeout(max(0.001, deadline - time.monotonic()))
        piece = caller.recv(PIECE)
        data += piece
        if not piece:
            return bytes(data)
    raise OSError("the request is too long")
