"""Readers of what other tools keep in databases and exports: claude-mem, mem0, the reference MCP server.

A file of another shape is refused; a row or a line that cannot be understood is left out and named. Databases are
opened for reading only.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

from memsheaf.errors import ArchiveRefused, hinted
from memsheaf.hosts.foreign import Foreign, ForeignMemory, LeftOut, Surroundings, day_of
from memsheaf.memory import LIMIT
from memsheaf.values import open_plain, parse_json, parse_object

LARGEST = 64 << 20  # bytes of one export
MOST_ROWS = 200_000
PATIENCE = 60.0  # seconds for one table
_STEPS = 100_000  # of SQLite's machine, between two looks at the clock
_MAGIC = b"SQLite format 3\0"
_COLUMNS = "SELECT c.name FROM sqlite_schema s, pragma_table_info(s.name) c WHERE s.type = 'table' AND s.name = ?"
_THE_USER = ("default_user", "user", "me", "the user")

Fields = Mapping[str, object]


def read_claude_mem(source: str, place: Surroundings) -> Foreign:
    """The observations that claude-mem made in this project, and what its summaries say was learned."""
    file = source or place.at_home(".claude-mem", "claude-mem.db", variable="CLAUDE_MEM_DATA_DIR")
    project = os.path.basename(place.checkout)
    others: Counter[str] = Counter()
    for table, what in (("observations", "observation"), ("session_summaries", "summary")):
        for row in _rows(file, "claude-mem", table, ("id", "project", "created_at", "memory_session_id")):
            if project not in (row["project"], row.get("merged_into_project")):
                others[str(row["project"])] += 1
                continue
            facts = "\n".join(f"- {fact}" for fact in _list_in(row.get("facts")))
            said = _text(row, "narrative") or _text(row, "text") or _text(row, "learned")
            if body := "\n\n".join(filter(None, (said, facts))):
                yield ForeignMemory(
                    f"{what} {row['id']} {_text(row, 'type')}".strip(),
                    body,
                    name=_text(row, "title"),
                    description=_text(row, "subtitle") or _text(row, "request"),
                    kind="project",
                    day=day_of(row["created_at"]),
                    conversation=_text(row, "memory_session_id"),
                )
            else:
                yield LeftOut(f"{what} {row['id']}", "it says nothing")
    for name, count in sorted(others.items()):
        yield LeftOut(f"project {name}", f"{count:,} entries of another project; import them there")


def read_mem0(source: str, place: Surroundings) -> Foreign:
    """The memories of mem0: what `get_all` gives as JSON, or the last texts in its history database."""
    file = source or place.at_home(".mem0", "history.db", variable="MEM0_DIR")
    if _is_database(file):
        history = _rows(file, "mem0", "history", ("memory_id", "new_memory", "event", "updated_at"))
        last = {row["memory_id"]: row for row in sorted(history, key=lambda row: str(row["updated_at"]))}
        found: Sequence[object] = [{"id": key, "memory": row["new_memory"], **row} for key, row in last.items()]
    else:
        value = parse_json(_read_text(file))
        if value is None:
            raise ArchiveRefused(f"{file!r} is not valid JSON")
        for key in ("results", "memories"):
            value = value[key] if isinstance(value, dict) and key in value else value
        if not isinstance(value, list):
            raise _wrong_shape(file, "mem0", "`json.dump(memory.get_all(…), file)` makes one.")
        found = value
    for number, entry in enumerate(found, 1):
        row = entry if isinstance(entry, dict) else {}
        where = f"memory {row.get('memory_id') or row.get('id') or number}"
        if text := _text(row, "memory") or _text(row, "text"):
            yield ForeignMemory(where, text, day=day_of(row.get("updated_at"), row.get("created_at")))
        else:
            yield LeftOut(where, "it was deleted there" if row.get("event") == "DELETE" else "it has no text")


def read_server_memory(source: str, place: Surroundings) -> Foreign:
    """The graph of @modelcontextprotocol/server-memory: an entity with its observations and relations is a memory."""
    file = source or place.environment.get("MEMORY_FILE_PATH") or ""
    if not file:
        raise hinted(ArchiveRefused("MEMORY_FILE_PATH does not say where the file is"), "Name its memory.jsonl.")
    entities: dict[str, Fields] = {}
    relations: list[tuple[str, Fields]] = []
    for where, value in _entries_of_graph(_read_text(file)):
        if value.get("type") == "entity" and (name := _text(value, "name")):
            entities[name] = value
        elif value.get("type") == "relation" and _text(value, "from"):
            relations.append((where, value))
        else:
            yield LeftOut(where, "it is neither an entity nor a relation")
    if not entities:
        raise _wrong_shape(file, "server-memory", "It has a JSON object in each line.")
    for where, relation in relations:
        if relation["from"] not in entities:
            yield LeftOut(where, "it begins at an entity that is not there")
    for name, entity in entities.items():
        said = [str(each) for each in _list_in(entity.get("observations"))]
        said += [f"{one.get('relationType')} [[{one.get('to')}]]" for _, one in relations if one["from"] == name]
        if not said:
            yield LeftOut(f"entity {name}", "nothing is observed of it")
            continue
        yield ForeignMemory(
            f"entity {name}",
            "\n".join(f"- {line}" for line in said),
            name=name.replace("_", " "),
            description=f"{_text(entity, 'entityType')} {name}: {said[0]}".strip(),
            kind="user" if name.lower() in _THE_USER else "project",
        )


def _entries_of_graph(text: str) -> Iterator[tuple[str, Fields]]:
    """The entities and relations of a file, each with where it stands: a line each, or one object with two lists."""
    whole = parse_json(text)
    if isinstance(whole, dict) and "entities" in whole:
        for kind, key in (("entity", "entities"), ("relation", "relations")):
            for number, one in enumerate(_list_in(whole.get(key)), 1):
                yield f"{kind} {number}", {**one, "type": kind} if isinstance(one, dict) else {}
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield f"line {number}", parse_object(line) or {}


def _rows(file: str, tool: str, table: str, needed: Sequence[str]) -> Iterator[dict[str, object]]:
    """The rows of a table that has these columns. Raises ArchiveRefused."""
    if not _is_database(file):
        raise _wrong_shape(file, tool, "Name its SQLite database.")
    path = os.path.abspath(file).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    due = time.monotonic() + PATIENCE
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4 * LIMIT)
            database.set_progress_handler(lambda: time.monotonic() > due, _STEPS)
            database.execute("PRAGMA trusted_schema=OFF")
            there = {row["name"] for row in database.execute(_COLUMNS, (table,))}
            if missing := [name for name in needed if name not in there]:
                raise _wrong_shape(file, tool, f"Its table {table} has no {', '.join(missing)}.")
            yield from map(dict, database.execute(f"SELECT * FROM {table} ORDER BY {needed[0]} LIMIT {MOST_ROWS}"))
    except sqlite3.Error as error:
        raise ArchiveRefused(f"{file!r} cannot be read: {error}") from None


def _is_database(file: str) -> bool:
    return _read_start(file, len(_MAGIC)) == _MAGIC


def _read_start(file: str, size: int) -> bytes:
    try:
        with open_plain(file) as opened:
            return opened.read(size)
    except OSError as error:
        why = f"{file!r} cannot be read: {error.strerror or error}"
        raise hinted(ArchiveRefused(why), "Name the file to import.") from None


def _read_text(file: str) -> str:
    data = _read_start(file, LARGEST + 1)
    if len(data) > LARGEST:
        raise ArchiveRefused(f"{file!r} is larger than {LARGEST >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ArchiveRefused(f"{file!r} is not UTF-8 text") from None


def _list_in(value: object) -> Sequence[object]:
    """A list, or one that is written as JSON in a text."""
    value = parse_json(value) if isinstance(value, str) else value
    return value if isinstance(value, list) else ()


def _text(row: Fields, key: str) -> str:
    value = row.get(key)
    return value.strip() if isinstance(value, str) else ""


def _wrong_shape(file: str, tool: str, hint: str) -> ArchiveRefused:
    return hinted(ArchiveRefused(f"{file!r} is not what {tool} writes"), hint)
