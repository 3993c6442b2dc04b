"""What tests of the page share: a `memsheaf web` process, and raw requests to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from forks import Program

PATIENCE = 120  # seconds; a busy machine is slow
LOGS = ("Traceback", "ERROR", "Exception")
Headers = Sequence[tuple[str, str]]


Process = Program | subprocess.Popen[bytes]


class Answer(NamedTuple):
    """What the server answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class Site:
    """A server process: where it is, and what opens it."""

    def __init__(self, process: Process, url: str, home: Path, log: Path) -> None:
        self.process = process
        self.url = url  # with the token, as a person opens it first
        self.home = home
        self.log = log
        parts = urlsplit(url)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.netloc = parts.netloc
        self._cookie = ""
        self._connection = http.client.HTTPConnection(self.netloc, timeout=PATIENCE)

    @property
    def cookie(self) -> str:
        """What a browser sends once the address with the token was opened: NAME=VALUE."""
        if not self._cookie:
            answer = self.ask("GET", self.url.removeprefix(self.origin), cookie="")
            assert "set-cookie" in answer.headers, answer
            self._cookie = answer.headers["set-cookie"].partition(";")[0]
        return self._cookie

    def ask(
        self,
        method: str,
        path: str,
        form: Mapping[str, str] | bytes | None = None,
        headers: Headers = (),
        *,
        host: str | None = None,
        cookie: str | None = None,
    ) -> Answer:
        """One request as the browser sends it, with the cookie unless another is given; nothing is followed."""
        body = (
            form
            if isinstance(form, bytes)
            else urlencode(form or {}, errors="surrogatepass").encode()
            if method == "POST"
            else b""
        )
        sent = {name.lower() for name, _ in headers}
        usual = [
            ("Host", self.netloc if host is None else host),
            ("Cookie", self.cookie if cookie is None else cookie),
        ]
        if method == "POST":
            usual += [("Origin", self.origin), ("Content-Type", "application/x-www-form-urlencoded")]
            usual.append(("Content-Length", str(len(body))))
        given = [*(one for one in usual if one[0].lower() not in sent), *headers]
        try:
            return self._send(method, path, given, body)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            self._connection.close()  # the server closed it after the last answer
            return self._send(method, path, given, body)

    def _send(self, method: str, path: str, headers: Headers, body: bytes) -> Answer:
        connection = self._connection
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers:
            if value or name == "Host":
                connection.putheader(name, value)
        connection.endheaders(body or None)
        answer = connection.getresponse()
        found = Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
        if answer.status >= 400:
            connection.close()  # it may not have read what was sent
        return found

    def close(self) -> None:
        """Close the connection that requests share."""
        self._connection.close()

    def end(self, number: int = signal.SIGINT) -> int:
        """Send a signal, as Ctrl-C does, and give the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def environment_of(home: Path) -> dict[str, str]:
    """A home of its own, search by words."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MEMSHEAF_", "CLAUDE", "XDG_"))}
    return kept | {"MEMSHEAF_HOME": str(home), "MEMSHEAF_EMBEDDER": "none", "HOME": str(home.parent)}


@contextmanager
def serve(
    home: Path, *options: str, cwd: Path | None = None, start: Callable[..., Process] = Program
) -> Iterator[Site]:
    """Run `memsheaf web` on a free port; it is gone in the end, with 0, and its log holds no traceback."""
    home.mkdir(parents=True, exist_ok=True)
    log = home.parent / f"web-{os.urandom(4).hex()}.log"
    with log.open("wb") as complaints:
        process = start(
            [sys.executable, "-m", "memsheaf", "web", "--json", "--port", "0", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment_of(home),
            cwd=cwd or home.parent,
        )
    assert process.stdout
    try:
        line = process.stdout.readline()  # comes once it listens
        assert line, log.read_text("utf-8")
        site = Site(process, json.loads(line)["url"], home, log)
        yield site
        site.close()
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    said = log.read_text("utf-8", "replace")
    assert not any(word in said for word in LOGS), said


def csrf_of(site: Site) -> str:
    """What a form of this site has to bring."""
    found = re.search(r'name="csrf" value="([^"]+)"|data-csrf="([^"]+)"', site.ask("GET", "/").text)
    assert found
    return found[1] or found[2]
