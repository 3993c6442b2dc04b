"""The real program, forked: one process imports what a command needs once, and becomes a program on request.

    code, out, err = run_program(["chat", "-p", "Hello"], environment, folder)  # out and err are bytes
    server = Program([sys.executable, "-m", "memsheaf", "web"], env=environment, cwd=folder)  # as subprocess.Popen

Importing the SDKs of models and of MCP takes seconds, which each program would pay anew.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import gc
import importlib
import io
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from memsheaf.cli import main
from memsheaf.hosts.hook import run as run_hook

UVICORN = tuple(f"uvicorn.{name}" for name in ("lifespan.on", "loops.auto", "protocols.http.auto"))
IMPORTED = {
    "chat": (
        *("memsheaf.cli.talk", "memsheaf.chat.model_turn"),
        *("pydantic_ai.models.anthropic", "pydantic_ai.models.openai"),
    ),
    "hook": ("memsheaf.hosts.hook", "memsheaf.hosts.worker", "memsheaf.sheaf", "memsheaf.encode.encoder"),
    "mcp": (
        *("memsheaf.cli.mcp", "memsheaf.mcp.stdio", "memsheaf.mcp.http", "memsheaf.mcp.http_hub"),
        *("memsheaf.hub.server_replicas", "memsheaf.encode.encoder"),
        *("memsheaf.hub.service", "memsheaf.mcp.offer", "memsheaf.hub.upkeep", *UVICORN),
    ),
    "web": (
        *("memsheaf.cli.web", "memsheaf.web.server", "memsheaf.hub.upkeep"),
        *("memsheaf.encode.encoder", *UVICORN),
    ),
}
MESSAGES = ("Hello", "Remember that I like tea.", "What do you know about tea?", "Forget that I like tea.")
_asking = threading.Lock()
_kinds: dict[int, str] = {}  # of each process


@functools.cache
def _server(kind: str) -> socket.socket:
    """The process that forks programs of a kind; it ends with this one."""
    ours, theirs = socket.socketpair()
    words = [sys.executable, "-P", __file__, str(theirs.fileno()), kind]
    process = subprocess.Popen(words, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL)
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _ask(kind: str, asked: object, descriptors: Sequence[int] = ()) -> object:
    with _asking:
        server = _server(kind)
        socket.send_fds(server, [json.dumps(asked).encode()], descriptors)
        return json.loads(server.recv(1 << 16))


def start_program(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: str | Path,
    descriptors: Sequence[int],
    *,
    limit: int | None = None,
    without: Sequence[str] = (),
) -> int:
    """Start `memsheaf` with these words, in a session of its own; gives its process.

    `limit` is how large a file may be that it writes, `without` names modules that it cannot import.
    """
    asked = {"words": list(words), "environment": dict(environment), "folder": str(folder), "limit": limit}
    kind = words[0] if words[0] in IMPORTED else "chat"
    process = int(str(_ask(kind, {**asked, "without": list(without)}, descriptors)))
    _kinds[process] = kind
    return process


def exit_code(process: int) -> int | None:
    """How a program ended; None while it runs."""
    code = _ask(_kinds[process], {"wait": process})
    return None if code is None else int(str(code))


def run_program(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    input: bytes = b"",
    limit: int | None = None,
) -> tuple[int, bytes, bytes]:
    """Run `memsheaf` to its end: its exit code, what it printed, and its errors."""
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    with tempfile.TemporaryFile() as stdin, ThreadPoolExecutor() as readers:
        stdin.write(input)
        stdin.seek(0)
        process = start_program(words, environment, folder, [stdin.fileno(), to_out, to_err], limit=limit)
        os.close(to_out)
        os.close(to_err)
        printed = [readers.submit(Path(f"/dev/fd/{fd}").read_bytes) for fd in (out, err)]
        texts = [each.result(120) for each in printed]
    os.close(out)
    os.close(err)
    while (code := exit_code(process)) is None:
        time.sleep(0.01)
    return code, texts[0], texts[1]


class Program:
    """A forked `memsheaf`, started and used as a subprocess.Popen; its output is a pipe, and its input may be one."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | Path = ".",
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: IO[bytes] | None = None,
    ) -> None:
        assert ([*words[:3]], stdout) == ([sys.executable, "-m", "memsheaf"], subprocess.PIPE)
        out, theirs = os.pipe()
        self.stdin: IO[bytes] | None = None
        source = os.open(os.devnull, os.O_RDONLY)
        if stdin == subprocess.PIPE:
            os.close(source)
            source, sink = os.pipe()
            self.stdin = open(sink, "wb")  # noqa: SIM115
        self.pid = start_program(
            words[3:], env, os.path.abspath(cwd), [source, theirs, stderr.fileno() if stderr else 2]
        )
        os.close(source)
        os.close(theirs)
        self.stdout: IO[bytes] = open(out, "rb")  # noqa: SIM115
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = exit_code(self.pid)
        return self.returncode

    def wait(self, timeout: float = 600) -> int:
        end = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < end, f"{self.pid} still runs"
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _serve(ours: socket.socket, kind: str) -> None:
    gc.disable()
    for name in IMPORTED[kind]:
        with suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as home:  # what a first answer compiles is there, too
        for message in MESSAGES if kind == "chat" else ():
            nowhere, environment = io.StringIO(), {"MEMSHEAF_HOME": home, "MEMSHEAF_EMBEDDER": "none", "HOME": home}
            main(["chat", "-p", message], environment=environment, stdout=nowhere, stderr=nowhere)
    tempfile.tempdir = None  # each has its own
    gc.freeze()
    gc.enable()
    codes: dict[int, int] = {}
    while True:
        data, descriptors, *_ = socket.recv_fds(ours, 1 << 20, 3)
        if not data:
            return
        asked = json.loads(data)
        answer: int | None
        if "wait" in asked:
            answer = asked["wait"]
            if answer not in codes and (found := os.waitpid(answer, os.WNOHANG))[0]:
                codes[answer] = os.waitstatus_to_exitcode(found[1])
            answer = codes.get(answer)
        else:
            answer = os.fork()
            if not answer:
                ours.close()
                _be_program(asked, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
        ours.send(json.dumps(answer).encode())


def _be_program(asked: dict[str, Any], descriptors: Sequence[int]) -> NoReturn:
    os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # the terminal is its own, so that Ctrl-C reaches it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    for name in asked["without"]:
        sys.modules[name] = None  # type: ignore[assignment]
    if asked["limit"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["limit"], asked["limit"]))
    if os.environ.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    code = run_hook(asked["words"][1:]) if asked["words"][0] == "hook" else main(asked["words"])
    threading._shutdown()  # type: ignore[attr-defined] # wait for threads, as an interpreter does at its end
    sys.stdout.flush()
    os._exit(code)  # taking all down that was imported takes a second


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
