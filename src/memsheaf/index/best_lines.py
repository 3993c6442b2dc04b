"""The best lines of a catalog straight from the index's database: where it is, and how its rows are ranked."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from hashlib import sha256

from memsheaf.values import file_stamp

SCHEMA = 18
HIDDEN, LISTED, WAITING = 0, 1, 2  # classes of `listed`: not for the catalog, in the catalog, unconfirmed
COUNTS = ("tally:0", "tally:1", "tally:2")
RANK = "pinned DESC, day DESC, time DESC, path"
_WAIT = 0.05  # seconds


def database_for(root: str, cache: str) -> str:
    """Where the index of a root lives: in the cache directory, never beside files that are synced."""
    name = sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:24]
    return os.path.join(cache, f"{name}-{SCHEMA}.sqlite")


def best_lines(root: str, cache: str, limit: int) -> tuple[list[tuple[str, str, str]], int]:
    """Path, version and catalog line of the best-ranked memories, and how many the catalog may show.

    Those whose file is not as the index has it are left out: what it says now, nobody has looked at.

    Raises sqlite3.DatabaseError, OSError when there is no index, or it cannot be read.
    """
    database = database_for(root, cache)
    os.stat(database)  # it is not made here
    with closing(sqlite3.connect(database, timeout=_WAIT, isolation_level=None)) as db:
        where = f"listed = {LISTED} AND state = 'ok' AND trust = 'confirmed'"
        sql = (
            f"SELECT path, version, line, mtime, ctime, size, inode FROM entry WHERE {where} ORDER BY {RANK} LIMIT ?"
        )
        rows = db.execute(sql, (limit,)).fetchall()
        counted = db.execute("SELECT a FROM note WHERE name = ?", (COUNTS[LISTED],)).fetchone()
    unchanged = [row[:3] for row in rows if file_stamp(os.path.join(root, row[0])) == row[3:]]
    return unchanged, counted[0] if counted else len(rows)
