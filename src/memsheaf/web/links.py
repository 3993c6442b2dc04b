"""Links that let a browser in, each once: printed for a person, or opened without anybody else seeing them."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from html import escape
from pathlib import Path

NewLink = Callable[[], str]

_PAGE = """<!doctype html>
<meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url={link}">
<title>memsheaf</title><a href="{link}">Open memsheaf</a>
"""


def open_link(link: str, folder: str) -> None:
    """Open a link in the browser by way of a file for this user alone: everybody can read a command line."""
    import webbrowser

    path = os.path.join(folder, f"{os.urandom(8).hex()}.html")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(_PAGE.format(link=escape(link)))
    webbrowser.open(Path(path).as_uri())


def hand_out_links(new_link: NewLink, show: Callable[[str], None], *, folder: str, asks: bool) -> None:
    """In a thread, open a link by a file in `folder` unless it is "", then show one for each line of standard input.

    A browser that runs in the terminal has the keys to itself until it ends. In the background reading fails, which
    ends the thread, where the signal would stop the whole process.
    """

    def attend() -> None:
        if folder:
            open_link(new_link(), folder)
        with suppress(OSError):
            while asks and os.read(0, 1024):
                show(new_link())

    if asks and hasattr(signal, "SIGTTIN"):
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)
    threading.Thread(target=attend, daemon=True).start()


def is_pipe(descriptor: int) -> bool:
    """Return True if another program is at the other end of an open file."""
    with suppress(OSError):  # it is closed
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    return False
