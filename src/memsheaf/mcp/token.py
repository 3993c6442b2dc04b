"""The token that a client of the HTTP server shows: made once, and kept in a file that only its owner can read."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Mapping

from memsheaf.errors import Refused, StoreFailed, hinted
from memsheaf.store.state import State
from memsheaf.values import NamedTuple

VARIABLE = "MEMSHEAF_MCP_TOKEN"
NAME = "mcp-token"
LEAST, MOST = 32, 512  # characters
_TOKEN = re.compile(rf"[A-Za-z0-9._~+/=-]{{{LEAST},{MOST}}}")  # what a bearer token may be made of
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class Token(NamedTuple):
    """What a client must show, the file it is kept in ("" for the environment's), and whether it is shown now."""

    text: str
    file: str = ""
    is_new: bool = False


def token(state: str, environment: Mapping[str, str], *, renew: bool = False) -> Token:
    """The token of this user: from the environment, else from the state directory, where it is made at the first use.

    Raises Refused for one that is too short, or that others can read, and StoreFailed.
    """
    if given := environment.get(VARIABLE, ""):
        if renew:
            raise hinted(Refused(f"the token comes from {VARIABLE}"), "Change it there, or take the variable away.")
        if not _TOKEN.fullmatch(given):
            error = Refused(f"{VARIABLE} holds no token: it takes {LEAST} to {MOST} letters, digits and ._~+/=-")
            raise hinted(error, "`openssl rand -hex 32` makes one.")
        return Token(given)
    kept, file = State(state), os.path.join(state, NAME)
    with kept.lock(NAME, wait=5.0):
        if not renew and (found := _read(file)):
            return Token(found, file)
        made = secrets.token_urlsafe(32)
        kept.write(NAME, f"{made}\n".encode())
        return Token(made, file, is_new=True)


def _read(file: str) -> str:
    """The token in the file, "" when there is none."""
    try:
        descriptor = os.open(file, _OPEN)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StoreFailed(f"{file} cannot be read: {error.strerror}") from error
    try:
        found, data = os.fstat(descriptor), os.read(descriptor, 2 * MOST)
    except OSError as error:
        raise StoreFailed(f"{file} cannot be read: {error.strerror}") from error
    finally:
        os.close(descriptor)
    if os.name != "nt" and (stat.S_IMODE(found.st_mode) & 0o077 or found.st_uid != os.geteuid()):
        hint = f"Make another with --new-token; or `chmod 600 {file}`, when nobody else can have read it."
        raise hinted(Refused(f"the token in {file} can be read by others"), hint)
    text = data.decode("ascii", "replace").strip()
    if not stat.S_ISREG(found.st_mode) or not _TOKEN.fullmatch(text):
        raise hinted(Refused(f"there is no token in {file}"), "--new-token makes another.")
    return text
