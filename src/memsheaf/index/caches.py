"""The index files in the cache directory, and which of them are stale.

The files of one index begin with the hash of its root and the number of its schema, so that two versions of memsheaf
have each their own.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import NamedTuple
from urllib.parse import quote

from memsheaf.errors import Busy
from memsheaf.index.database import SCHEMA, base_of, locked

AT_REST = 86_400.0  # seconds without a write, after which an index of another version is not in use

_NAME = r"([0-9a-f]{24})(?:-([0-9]{1,6}))?\.[a-z0-9.-]+"


class Cache(NamedTuple):
    """One index: what its names begin with, its files, and their size."""

    base: str
    files: tuple[str, ...]
    size: int


def of_other_versions(database: str) -> list[Cache]:
    """The indexes that other versions of memsheaf have of the same root."""
    folder, own = os.path.split(base_of(database))
    found = [one for one in _all(folder) if os.path.basename(one.base)[:24] == own[:24]]
    return [one for one in found if one.base != base_of(database)]


def abandoned(cache: str, *, clock: Callable[[], float] = time.time) -> list[Cache]:
    """The indexes of roots that are gone, and those of other versions that are not in use."""
    return [one for one in _all(cache) if _is_abandoned(one, clock())]


def remove(caches: list[Cache]) -> None:
    """Remove indexes, except those that are being opened."""
    for one in caches:
        with suppress(OSError, Busy), locked(one.base, "opening", wait=0):
            for path in {*one.files, f"{one.base}.opening.lock"}:
                with suppress(OSError):
                    os.unlink(path)


def _is_abandoned(one: Cache, now: float) -> bool:
    root = _root_of(one) if one.base.endswith(f"-{SCHEMA}") else ""
    try:
        return not os.path.isdir(root) if root else all(os.stat(path).st_mtime < now - AT_REST for path in one.files)
    except OSError:
        return False


def _root_of(one: Cache) -> str:
    """Whose files an index has; "" when it does not say."""
    try:
        with closing(sqlite3.connect(f"file:{quote(one.base)}.sqlite?mode=ro", uri=True, timeout=0)) as db:
            found = db.execute("SELECT root FROM origin").fetchone()
    except sqlite3.DatabaseError:
        return ""
    return os.fsdecode(found[0]) if found else ""


def _all(cache: str) -> list[Cache]:
    try:
        with os.scandir(cache) as entries:
            names = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    except OSError:
        return []
    found: dict[str, list[str]] = {}
    for name in names:
        if match := re.fullmatch(_NAME, name):
            base = match[1] if match[2] is None else f"{match[1]}-{match[2]}"
            found.setdefault(os.path.join(cache, base), []).append(os.path.join(cache, name))
    return [Cache(base, tuple(files), sum(map(_size, files))) for base, files in found.items()]


def _size(path: str) -> int:
    with suppress(OSError):
        return os.lstat(path).st_size
    return 0
