"""Write the rows of the index: one a file, with its catalog line, its words and its traces of near-duplicates."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import date
from functools import lru_cache
from itertools import chain

from memsheaf.guard import without_secrets
from memsheaf.guard.paths import fold
from memsheaf.index.catalog import line_text
from memsheaf.index.database import HIDDEN, LISTED, UNUSABLE, WAITING
from memsheaf.index.lexical import put_words
from memsheaf.memory import KINDS, Memory
from memsheaf.store import Stamp, Version
from memsheaf.text import similarity
from memsheaf.text.sentences import lists_topics, shown_description

COARSE_TICK_SECONDS = 2.0
TICK_SECONDS = 0.05  # no clock of a file system that tells more than seconds ticks slower
MAX_SOURCE_CHARS = 200
DESCRIBING_CHARS = 4_096  # of a text, in which its description is looked for

_NOT_LISTED = ("CONTEXT.md", "NOTES.md", "NOTES-archive.md")  # in every prompt in full, or archived out of it
_COLUMNS = (
    "path, fold, mtime, ctime, size, inode, version, pending, state, kind, name, description, trust, pinned, problem,"
    " listed, line, supersedes, source, ends, updated, day, time"
)
_PUT_ENTRY = f"INSERT OR REPLACE INTO entry ({_COLUMNS}) VALUES (?{', ?' * _COLUMNS.count(',')})"
_UPDATE_STAMP = (
    "UPDATE entry SET mtime = ?, ctime = ?, size = ?, inode = ?, updated = ?, day = ?, time = ? WHERE path = ?"
)
_SELECT_LIKELY = (
    "SELECT entry.path, version FROM json_each(?) AS likely CROSS JOIN entry ON entry.id = likely.value"
    " WHERE version <> '' ORDER BY likely.key"
)
_SELECT_HOLDERS = f"SELECT entry FROM trace WHERE number IN (?{', ?' * 15})"


def put(
    db: sqlite3.Connection,
    memory: Memory,
    stamp: Stamp,
    *,
    pending: bool,
    usable: bool = True,
    by_text: bool = False,
) -> None:
    """Write the row of a file under a new id.

    `pending` rows are what others did and the journal does not know yet. The rank is `by_text` alone where the same
    files must give the same catalog on every machine, and at any time.
    """
    path = memory.path
    description = memory.description
    if not memory.problem and (lists_topics(memory) or not memory.page.get("description")):
        # what is taken from the text is shown without its secrets
        masked = memory.page._replace(body=without_secrets(memory.body[:DESCRIBING_CHARS]))
        description = shown_description(memory._replace(page=masked))
    listed = WAITING if memory.trust == "unconfirmed" else LISTED
    if not usable or (listed == LISTED and (memory.state == "copy" or path in _NOT_LISTED)):
        listed = HIDDEN
    older = "\n".join(memory.supersedes)
    values = (
        path,
        fold(path),
        *stamp,
        memory.version if usable else UNUSABLE,
        pending,
        memory.state,
        memory.type,
        memory.name,
        description,
        memory.trust,
        memory.pinned,
        memory.problem,
        listed,
        line_text(memory.name, path, memory.summary.removesuffix(memory.description) + description),
        f"\n{older}\n" if older else "",
        memory.source[:MAX_SOURCE_CHARS],
        memory.expires[:10],
        *_rank(db, memory, stamp, by_text=by_text),
    )
    entry = db.execute(_PUT_ENTRY, values).lastrowid
    if usable:
        put_words(db, entry, memory)
    if usable and memory.state in ("ok", "free"):
        traces = similarity.traces(similarity.fact(memory))
        db.executemany("INSERT OR IGNORE INTO trace VALUES (?, ?)", [(trace, entry) for trace in traces])


def touch(db: sqlite3.Connection, memory: Memory, stamp: Stamp, *, by_text: bool) -> None:
    """Note the new stamp of a file whose text is as its row says."""
    db.execute(_UPDATE_STAMP, (*stamp, *_rank(db, memory, stamp, by_text=by_text), memory.path))


def mark_gone(db: sqlite3.Connection, path: str) -> bool:
    """Keep the row of a removed file until the journal knows of it; return False when it has none."""
    sql = f"UPDATE entry SET version = '', listed = {HIDDEN}, pending = 1 WHERE path = ? AND version <> ''"
    return db.execute(sql, (path,)).rowcount > 0


def wipe_rows(db: sqlite3.Connection, paths: Iterable[str]) -> None:
    """Remove the rows of some paths, and all that came with them."""
    for path in paths:
        for table in ("entry", "used", "drift"):
            db.execute(f"DELETE FROM {table} WHERE path = ?", (path,))
    db.execute("DELETE FROM trace WHERE entry NOT IN (SELECT id FROM entry)")
    db.execute("INSERT INTO words (words) VALUES ('optimize')")  # or words stay in the index of the full text


def wipe_all(db: sqlite3.Connection) -> None:
    """Remove everything that is known of the files."""
    for table in ("entry", "used", "drift", "trace"):
        db.execute(f"DELETE FROM {table}")
    db.execute("DELETE FROM note WHERE name <> 'root'")


def find_alike(db: sqlite3.Connection, words: Collection[str], limit: int) -> list[tuple[str, Version]]:
    """Return the paths and versions of texts that may be near-duplicates of one with these words, likely first."""
    # counted here, as grouping in SQL takes 3 times as long
    shared = Counter(chain.from_iterable(db.execute(_SELECT_HOLDERS, similarity.traces(words))))
    likely = [entry for entry, count in shared.most_common(limit) if count >= similarity.MIN_SHARED_TRACES]
    return db.execute(_SELECT_LIKELY, (json.dumps(likely),)).fetchall()


def put_uses(db: sqlite3.Connection, days: Mapping[str, str], today: int, *, by_text: bool) -> None:
    """Note when memories were last of use, never past today, and move them up to that day unless ranked `by_text`."""
    rows = []
    for path, day in days.items():
        with suppress(ValueError):
            rows.append((path, min(_days_since_epoch(day), today)))
    put = "INSERT INTO used VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET day = max(day, excluded.day)"
    db.executemany(put, rows)
    if not by_text:
        db.executemany("UPDATE entry SET day = max(day, ?2) WHERE path = ?1", rows)


def where_kind(kind: str) -> tuple[str, tuple[str, ...]]:
    """Return the condition for one kind, "other" for all unknown ones, and its values."""
    if not kind:
        return "", ()
    if kind in KINDS:
        return " AND kind = ?", (kind,)
    return f" AND kind NOT IN ({', '.join('?' * len(KINDS))})", KINDS


def is_racy(stamp: Stamp, now: float) -> bool:
    """Return True if a further edit could leave the same stamp: clocks of file systems tick in 4 ms, or in 2 s.

    A time that somebody set, far ahead of now as well, is not told by a clock that ticks.
    """
    return any(
        abs(now - time_ns / 1e9) < (TICK_SECONDS if time_ns % 1_000_000 else COARSE_TICK_SECONDS)
        for time_ns in stamp[:2]
    )


def was_written_after(stamp: Stamp, moment: float) -> bool:
    """Return True if a file may have been written after that moment; a clock of whole seconds tells nothing."""
    return stamp[0] >= (moment - TICK_SECONDS) * 1e9 or stamp[0] % 1_000_000 == 0


def as_unsure(stamp: Stamp) -> Stamp:
    """Return a stamp that no file has, so that the next look reads the file again."""
    return stamp[0], -1, *stamp[2:]


def _rank(db: sqlite3.Connection, memory: Memory, stamp: Stamp, *, by_text: bool) -> tuple[str, int, int]:
    """Return the day of the last change as text, and the day and the time by which the catalog ranks a memory.

    The day is as the header says, but never after the file itself was changed; a later use counts as well.
    """
    written = int(stamp[0] // 86_400_000_000_000)
    claim = (memory.updated or memory.created)[:10]
    try:
        claimed = _days_since_epoch(claim)
    except (ValueError, OverflowError):
        claimed = None
        claim = time.strftime("%Y-%m-%d", time.gmtime(written * 86_400))
    if by_text:
        return claim, claimed or 0, 0
    day = written if claimed is None else min(claimed, written + 1)
    used = db.execute("SELECT day FROM used WHERE path = ?", (memory.path,)).fetchone()
    return claim, max(day, *used) if used else day, stamp[0]


@lru_cache(maxsize=256)
def _days_since_epoch(day: str) -> int:
    return date.fromisoformat(day).toordinal() - 719_163
