"""The files in which versions before `state.db` kept what it holds now: each is read, and stays.

An older version that still runs changes them. A file that differs from what was read is read again, as a whole: what
was taken in already stays as it is.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from memsheaf.errors import PathRefused
from memsheaf.scope import parse_json
from memsheaf.store.safe_dir import Folder, read_file

MAX_FILE_BYTES = 64 << 20
MAX_TOKENS = 10**9  # of a request

Rows = Callable[..., list[tuple[Any, ...]]]
Reader = Callable[[sqlite3.Connection, str, str, bytes], None]


class OldFile(NamedTuple):
    """A file of an earlier version, as it is now."""

    name: str
    inode: int
    mtime: int
    size: int


def find_pending(rows: Rows, folder: str) -> list[OldFile]:
    """Return the files in a folder that were not read as they are now, in the order of their names."""
    name = os.path.basename(folder)
    present = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if find_reader(entry.name, name) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    present.append(OldFile(entry.name, status.st_ino, status.st_mtime_ns, status.st_size))
    except OSError:
        return []
    if not present:
        return []
    known = set(rows("SELECT name, inode, mtime, size FROM old_file WHERE folder = ?", name))
    return sorted(file for file in present if file not in known)


def take_in(db: sqlite3.Connection, folder: str, pending: list[OldFile]) -> None:
    """Read these files into the database. The caller has begun a transaction."""
    name = os.path.basename(folder)
    for file in pending:
        try:
            with Folder.open(folder) as opened:
                data = read_file(opened, file.name, MAX_FILE_BYTES)
        except (OSError, PathRefused):
            continue
        if reader := find_reader(file.name, name):
            reader(db, name, file.name, data)
        db.execute(
            "INSERT OR REPLACE INTO old_file (folder, name, inode, mtime, size) VALUES (?, ?, ?, ?, ?)", (name, *file)
        )


def find_reader(name: str, folder: str) -> Reader | None:
    """Return the function that reads a file of an earlier version, None for other files."""
    path = f"{folder}/{name}"
    if not re.fullmatch("|".join(READERS), path):  # as nearly all files that are there
        return None
    return next(reader for pattern, reader in READERS.items() if re.fullmatch(pattern, path))


def _objects(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in lines; those that cannot be understood are left out."""
    for line in data.split(b"\n"):
        value = parse_json(line)
        if isinstance(value, dict):
            yield value


def _count(value: object) -> int:
    """Return a number that a file gives, 0 if it is none that counts."""
    return min(value, MAX_TOKENS) if isinstance(value, int) and value > 0 else 0


def _read_spend(db: sqlite3.Connection, folder: str, name: str, data: bytes) -> None:
    day = name.removesuffix(".jsonl")
    for line in _objects(data):
        id, costs = line.get("id"), (_count(line.get("input")), _count(line.get("output")))
        if not isinstance(id, str):
            continue
        if "at" in line:
            names = str(line.get("purpose", "")), str(line.get("model", ""))
            db.execute(
                "INSERT OR IGNORE INTO spend (id, day, purpose, model, input, output) VALUES (?, ?, ?, ?, ?, ?)",
                (id, day, *names, *costs),
            )
        else:
            seconds = line.get("seconds")
            took = max(0.0, float(seconds)) if isinstance(seconds, int | float) else 0.0
            db.execute(
                "UPDATE spend SET open = 0, input = ?, output = ?, failures = ?, seconds = ? WHERE id = ?",
                (*costs, line.get("failed") is True, took, id),
            )


def _read_note(db: sqlite3.Connection, folder: str, name: str, data: bytes) -> None:
    value = parse_json(data)
    if value is not None:
        name = name.removesuffix(".json")
        db.execute("INSERT OR REPLACE INTO note VALUES (?, ?, ?)", (folder, name, json.dumps(value)))


def _read_recalls(db: sqlite3.Connection, folder: str, name: str, data: bytes) -> None:
    for line in _objects(data):
        match line:
            case {"at": str(at), "message": str(message), "paths": list(paths)}:
                row = folder, at, encodable(message), json.dumps(list(map(str, paths)))
                db.execute(
                    "INSERT INTO recall (folder, at, message, paths) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS"
                    " (SELECT 1 FROM recall WHERE folder = ?1 AND at = ?2 AND message = ?3 AND paths = ?4)",
                    row,
                )


def _read_turn(db: sqlite3.Connection, folder: str, name: str, data: bytes) -> None:
    match parse_json(data):
        case {"conversation": str(conversation), "at": str(at), "messages": [*messages], "keys": [*keys], **more}:
            number = int(name.removeprefix("inbox-").removesuffix(".json"))
            count = more.get("number")  # the first versions wrote none
            part_of = count if isinstance(count, int) else 0
            rest = more.get("saved") is True, part_of, json.dumps(messages), json.dumps(keys), number
            db.execute("DELETE FROM turn WHERE folder = ? AND old_number = ?", (folder, number))
            db.execute(
                "INSERT INTO turn (folder, conversation, at, saved, part_of, messages, keys, old_number)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (folder, encodable(conversation), encodable(at), *rest),
            )


def _read_cursor(db: sqlite3.Connection, folder: str, name: str, data: bytes) -> None:
    match parse_json(data):
        case {"open": [*numbers], "tries": int(tries), "learned": int(learned), "conversations": [*names], **more}:
            rows = [(folder, number) for number in numbers if isinstance(number, int)]
            if more.get("is_done") is True:
                db.executemany("DELETE FROM turn WHERE folder = ? AND old_number = ?", rows)
            else:
                db.executemany(
                    "UPDATE turn SET tries = ? WHERE folder = ? AND old_number = ?", [(tries, *row) for row in rows]
                )
            # only the latest conversations are named, and all are counted
            unnamed = [f"unnamed {number}" for number in range(len(names), learned)]
            db.executemany(
                "INSERT INTO heard (folder, conversation, learned) VALUES (?, ?, 1)"
                " ON CONFLICT DO UPDATE SET learned = 1",
                [(folder, str(conversation)) for conversation in (*names, *unnamed)],
            )


def _read_known(db: sqlite3.Connection, folder: str, name: str, data: bytes) -> None:
    whole_lines, _, _ = data.decode("ascii", "replace").rpartition("\n")  # the rest is being written
    for line in whole_lines.split():
        if line.startswith("@"):
            db.execute(
                "INSERT INTO heard (folder, conversation, latest) VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET latest = excluded.latest",
                (folder, line[1:17], line[17:]),
            )
        else:
            db.execute("INSERT OR IGNORE INTO known_message (folder, digest) VALUES (?, ?)", (folder, line))


def _read_wishes(db: sqlite3.Connection, folder: str, name: str, data: bytes) -> None:
    wishes = parse_json(data)
    for conversation, wish in wishes.items() if isinstance(wishes, dict) else ():
        match wish:
            case [str(first), str(before), str(after)]:
                db.execute(
                    "INSERT INTO heard (folder, conversation, first, before, after) VALUES (?, ?, ?, ?, ?)"
                    " ON CONFLICT DO UPDATE SET first = excluded.first, before = excluded.before,"
                    " after = excluded.after",
                    (folder, conversation, first, before, after),
                )


def _read_proposal(db: sqlite3.Connection, folder: str, name: str, data: bytes) -> None:
    value = parse_json(data)
    if isinstance(value, dict):
        id = name.removeprefix("proposal-").removesuffix(".json")
        db.execute("INSERT OR REPLACE INTO proposal VALUES (?, ?, ?)", (folder, id, json.dumps(value)))


def _read_decision(db: sqlite3.Connection, folder: str, name: str, data: bytes) -> None:
    value = parse_json(data)
    match value:
        case {"id": str(id), "at": int(at) | float(at)}:
            row = folder, encodable(id), at, json.dumps(value)
            db.execute("INSERT OR REPLACE INTO decision VALUES (?, ?, ?, ?)", row)


def _read_ledger(db: sqlite3.Connection, folder: str, name: str, data: bytes) -> None:
    for line in _objects(data):
        match line:
            case {"path": str(path), "version": str(version)}:
                row = folder, encodable(path), version
                db.execute("INSERT OR IGNORE INTO trusted (folder, path, version) VALUES (?, ?, ?)", row)


def encodable(text: str) -> str:
    """Return a text without half characters, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode()


_ROOT = "[0-9a-f]{24}/"
READERS: dict[str, Reader] = {
    r"spend/[0-9-]{10}\.jsonl": _read_spend,
    rf"{_ROOT}(dream|expected|log|tree|hub-proposals|breaker-[0-9a-f]+)\.json": _read_note,
    r"hooks/[0-9a-f]{24}\.json": _read_note,
    r"install/edits\.json": _read_note,
    rf"{_ROOT}recalls": _read_recalls,
    rf"{_ROOT}ledger": _read_ledger,
    rf"{_ROOT}inbox-[0-9]{{12,18}}\.json": _read_turn,
    rf"{_ROOT}inbox\.json": _read_cursor,  # behind the turns, by name
    rf"{_ROOT}inbox\.known": _read_known,
    rf"{_ROOT}inbox\.private": _read_wishes,
    rf"{_ROOT}proposal-[0-9a-f]{{8}}\.json": _read_proposal,
    rf"{_ROOT}decided-[0-9a-f]+\.json": _read_decision,
}
"""The function for each file, by a pattern for the names of its folder and itself."""
