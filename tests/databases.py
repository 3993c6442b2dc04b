"""What tests read of databases: rows, since SQLite moves them between its files when it likes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

SIDE_FILES = ("-wal", "-shm", "-journal")


def content(path: Path) -> bytes:
    """The bytes of a file, and of a database its rows."""
    if path.suffix != ".db":
        return path.read_bytes()
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        return "\n".join(db.iterdump()).encode()


def contents(folder: str | Path, *, skip: str = "") -> dict[str, bytes]:
    """What is in the plain files under a folder, except in folders of a name."""
    plain = (path for path in sorted(Path(folder).rglob("*")) if path.is_file() and not path.is_symlink())
    wanted = (path for path in plain if not path.name.endswith(SIDE_FILES) and skip not in path.parts)
    return {str(path): content(path) for path in wanted}


def history(root: str | Path) -> Path:
    """The database with the history of a root."""
    return Path(root, ".history", "history.db")


def change_history(root: str | Path, sql: str, *values: object) -> None:
    """Change the rows of a history."""
    with closing(sqlite3.connect(history(root), isolation_level=None)) as db:
        db.execute(sql, values)


def leave_unplaced(root: str | Path) -> None:
    """As if the writer had died before it put its last commit in place: the drafts are there."""
    sql = (
        "SELECT id, place, data FROM commits JOIN changes USING (n) LEFT JOIN texts ON version = after"
        " WHERE n = (SELECT max(n) FROM commits)"
    )
    with closing(sqlite3.connect(history(root))) as db:
        for commit_id, place, data in db.execute(sql):
            history(root).with_name(f"draft-{commit_id}-{place}").write_bytes(data or b"")
    change_history(root, "UPDATE facts SET value = value - 1 WHERE name = 'flushed'")
