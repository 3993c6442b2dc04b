"""Hooks of the client's host, answered by the server that it has started: as an unlisted tool, and through a socket.

No Python has to start for it, and the vectors are loaded already.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

from memsheaf.hosts.answer import HookAnswers
from memsheaf.hosts.local_socket import HookSocket
from memsheaf.work.layers import Layers

NEWS_SECONDS = 1.0  # that a start waits for a hub: a hook gives its server little more
RETRY = 30.0  # seconds until it is looked again whether the server that listens has ended


class ServerHooks:
    """The hooks of one server, in the folder that it was started in."""

    def __init__(self, cwd: str, layers: Layers, news: Callable[[float], object]) -> None:
        self._cwd = cwd
        self._answers = HookAnswers(layers, cwd, lambda seconds: news(min(seconds, NEWS_SECONDS)))
        self._working = threading.Lock()
        self._socket = HookSocket(cwd, self._answer)
        self._tried = 0.0

    def call(self, arguments: object) -> str:
        """Answer an event that came as a call of a tool, whose arguments are the fields of the event."""
        given = arguments if isinstance(arguments, dict) else {}
        host, event = (str(given.get(name, "")) for name in ("host", "hook_event_name"))
        return self._answer(host, event, self._cwd, json.dumps(given).encode("utf-8", "replace")).decode()

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
