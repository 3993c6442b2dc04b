"""A private socket of the running MCP server: a hook is answered by what is open already.

It is in a folder that only this user can enter, one socket for a project. A hook that finds none, or gets no answer
in time, does the work itself. This is the hook's end, which it loads first: it imports nothing of the package. The
server's end is in `mcp/hooks.py`. Who can reach the socket can also run `memsheaf hook`, and so it answers the same.
"""

from __future__ import annotations

import os
import socket
import stat
from binascii import crc32

MESSAGE_BYTES = 16 << 20
PIECE = 1 << 16


def work_folder() -> str:
    """The folder that a host works in: the one it names, else the current one."""
    try:
        return os.environ.get("CLAUDE_PROJECT_DIR") or os.getcwd()
    except FileNotFoundError:  # it was deleted meanwhile
        return os.environ.get("PWD") or os.sep


def key_of(cwd: str) -> bytes:
    """Return what a hook and the server of the same project, user and settings agree on."""
    folder = here = os.path.realpath(cwd)
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            folder = here
            break
        folder = parent
    names = (name for name in sorted(os.environ) if name.startswith("MEMSHEAF_") and "_HOOK" not in name)
    own = [f"{name}={os.environ[name]}" for name in names]
    return "\n".join([folder, os.path.expanduser("~"), *own]).encode("utf-8", "surrogateescape")


def socket_path(key: bytes, *, create: bool = False) -> str:
    """Return where the socket is; "" where no folder is for this user alone, or the system has no such sockets."""
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
