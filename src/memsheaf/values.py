"""Small helpers for files, times, numbers and JSON that any module may use."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from functools import cache
from typing import Any, AnyStr, BinaryIO


def compiled(pattern: AnyStr) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use, and only once."""
    return _compile(pattern)


_compile = cache(re.compile)


def utc_time(seconds: float, *, milliseconds: bool = False) -> str:
    """A moment in UTC, as headers and journals have it.

    >>> utc_time(1_794_744_000), utc_time(0.5, milliseconds=True)
    ('2026-11-15T12:00:00Z', '1970-01-01T00:00:00.500Z')
    """
    whole, rest = divmod(int(seconds * 1_000), 1_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + (f".{rest:03}Z" if milliseconds else "Z")


def file_stamp(path: str, *, follow: bool = False) -> tuple[int, int, int, int] | None:
    """The times, size and inode of a file, which an edit changes; None when it is not there."""
    try:
        found = os.stat(path, follow_symlinks=follow)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


def open_plain(path: str) -> BinaryIO:
    """Open a file that somebody names. Raises OSError for a pipe or a device, of which a read may never end."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return open(fd, "rb")
    os.close(fd)
    raise OSError(errno.EINVAL, "it is not a plain file", path)


def plural(count: int, one: str, many: str = "") -> str:
    """A number with its noun.

    >>> plural(1, "memory", "memories"), plural(1200, "file")
    ('1 memory', '1,200 files')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def parse_json(text: str | bytes) -> object:
    """The value of a JSON text; None when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parse_object(text: str | bytes) -> dict[str, Any] | None:
    """The JSON object that a text is; None when it is none."""
    value = parse_json(text)
    return value if isinstance(value, dict) else None
