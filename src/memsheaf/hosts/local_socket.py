"""A private socket of the running MCP server: a hook is answered by what is open already.

It is in a folder that only this user can enter, one socket for a project. A hook that finds none, or gets no answer
in time, does the work itself. This module is what a hook loads first: it imports nothing of the package.
"""

from __future__ import annotations

import os
import stat
from binascii import crc32

TYPE_CHECKING = False  # known to type checkers by this name; `typing` is slow to import
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    Handler = Callable[[str, str, str, bytes], bytes]
    """Answers a host's event in a folder: host, event, folder, what the host said on standard input."""
else:
    try:  # a fifth of the import of `socket`
        import _socket as socket
    except ImportError:
        import socket

MESSAGE_BYTES = 16 << 20
PIECE = 1 << 16


def work_folder() -> str:
    """The folder that a host works in: the one it names, else the current one."""
    try:
        return os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()
    except FileNotFoundError:  # it was deleted meanwhile
        return os.environ.get("PWD") or os.sep


def key_of(cwd: str) -> bytes:
    """What a hook and the server of the same project, user and settings agree on."""
    folder = here = os.path.realpath(cwd)
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            folder = here
            break
        folder = parent
    own = [f"{name}={value}" for name, value in sorted(os.environ.items()) if _counts(name)]
    return "\n".join([folder, os.path.expanduser("~"), *own]).encode("utf-8", "surrogateescape")


def _counts(name: str) -> bool:
    """Whether a variable says which memories are meant and how they are used."""
    return name.startswith("MEMSHEAF_") and not name.startswith("MEMSHEAF_HOOK")


def socket_path(key: bytes, *, create: bool = False) -> str:
    """Where the socket is; "" where no folder is for this user alone, or the system has no such sockets."""
    if not hasattr(socket, "AF_UNIX"):
        return ""
    base = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"
    folder = os.path.join(base, f"memsheaf-{os.getuid()}")
    try:
        if create:
            os.makedirs(folder, 0o700, exist_ok=True)
        found = os.lstat(folder)
    except OSError:
        return ""
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        return ""
    path = os.path.join(folder, f"{crc32(key):08x}{crc32(key[::-1]):08x}")
    return path if len(os.fsencode(path)) < 100 else ""


def ask(host: str, event: str, cwd: str, data: bytes, seconds: float) -> bytes | None:
    """Send a hook to the running server and give its answer; None without a server, or after the time-out."""
    key = key_of(cwd)
    path = socket_path(key)
    if not path or not os.path.lexists(path):
        return None
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        link.settimeout(seconds)
        link.connect(path)
        head = b"\0".join([key, host.encode(), event.encode(), os.fsencode(cwd)])
        link.sendall(head + b"\0\0" + data)
        link.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := link.recv(PIECE):
            answer += piece
    except OSError:
        return None
    finally:
        link.close()
    return answer[1:] if answer.startswith(b"+") else None


class HookSocket:
    """The server's end. It answers one hook after the other, in a thread that the server gives it."""

    def __init__(self, cwd: str, handler: Handler) -> None:
        self._key = key_of(cwd)
        self._handler = handler
        self._path = socket_path(self._key, create=True)
        self._link: socket.socket | None = None

    def open(self) -> bool:
        """Listen, unless another server of this project does already."""
        if not self._path or self._link:
            return False
        if os.path.lexists(self._path):
            probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                probe.settimeout(1)
                probe.connect(self._path)
                return False
            except OSError:
                _unlink(self._path)  # its server was killed
            finally:
                probe.close()
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.bind(self._path)
            os.chmod(self._path, 0o600)
            link.listen(16)
        except OSError:
            link.close()
            return False
        self._link = link
        return True

    def serve(self) -> None:
        """Answer until `close`."""
        while link := self._link:
            try:
                fd, _ = link._accept() if hasattr(link, "_accept") else (link.accept()[0].detach(), None)
            except OSError:
                return
            caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fd)
            try:
                self._answer(caller)
            except OSError:
                pass  # the hook went away: it does the work itself
            finally:
                caller.close()

    def _answer(self, caller: socket.socket) -> None:
        caller.settimeout(5)
        said = b""
        while (piece := caller.recv(PIECE)) and len(said) <= MESSAGE_BYTES:
            said += piece
        head, _, data = said.partition(b"\0\0")
        key, *words = head.split(b"\0")
        if key == self._key and len(words) == 3:
            host, event, cwd = words
            caller.sendall(b"+" + self._handler(host.decode(), event.decode(), os.fsdecode(cwd), data))

    def close(self) -> None:
        """Stop listening."""
        if link := self._link:
            self._link = None
            _unlink(self._path)
            try:  # noqa: SIM105  a hook has no time to import contextlib
                link.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            link.close()


def _unlink(path: str) -> None:
    try:  # noqa: SIM105
        os.unlink(path)
    except OSError:
        pass
