"""The index files in the cache directory, and which of them are stale.

The files of one index begin with the hash of its root and the number of its schema, so that two versions of memsheaf
have each their own.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from glob import escape, glob
from urllib.parse import quote

from memsheaf.index.database import SCHEMA, base_of, notes

REST_SECONDS = 86_400.0  # without a write, after which an index of another version is not in use

_HASH = "[0-9a-f]" * 24


def of_other_versions(database: str) -> list[str]:
    """Return the files of the indexes that other versions of memsheaf have of the same root."""
    own = base_of(database)
    files = glob(f"{escape(own.removesuffix(f'-{SCHEMA}'))}[.-]*")
    return [path for path in files if not path.startswith(f"{own}.")]


def abandoned(folder: str, *, clock: Callable[[], float] = time.time) -> list[str]:
    """Return the databases of roots that are gone, and those of other versions that are not in use."""
    databases = glob(f"{escape(folder)}/{_HASH}*.sqlite")
    return [database for database in sorted(databases) if _is_abandoned(database, clock())]


def remove(databases: Iterable[str]) -> None:
    """Remove indexes with all their files."""
    for database in databases:
        for path in glob(f"{escape(base_of(database))}.*"):
            with suppress(OSError):
                os.unlink(path)


def _is_abandoned(database: str, now: float) -> bool:
    with suppress(OSError, sqlite3.DatabaseError, KeyError):
        if not base_of(database).endswith(f"-{SCHEMA}"):
            written = max(os.stat(path).st_mtime for path in glob(f"{escape(database)}*"))
            return written < now - REST_SECONDS
        with closing(sqlite3.connect(f"file:{quote(database)}?mode=ro", uri=True, timeout=0)) as db:
            is_filled = db.execute("SELECT 1 FROM entry LIMIT 1").fetchone()
            return is_filled is not None and not os.path.isdir(os.fsdecode(notes(db)["root"]))
    return False
