"""Read what other tools remember: `TOOLS` has them by the name that `memsheaf import --from` takes.

A reader yields memories and what it leaves out, and writes nothing. A file of another shape is refused; a row or line
that cannot be understood is left out and named. A file of instructions is split: each bullet is a fact, and so is the
other text below a heading. Whatever came with a repository belongs to the project, and is nobody's word until a
person confirms it.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from memsheaf.errors import PathRefused, Refused, ScopeRefused
from memsheaf.memory import MAX_MEMORY_BYTES
from memsheaf.scope import open_plain, refuse_links, repository_around
from memsheaf.store.safe_dir import Folder, read_file, walk
from memsheaf.text.dates import parse_day
from memsheaf.text.sections import fence_after, sections
from memsheaf.transfer import LINK_REASON, NO_MARKDOWN_REASON, list_folder

MAX_EXPORT_BYTES = 64 << 20
MAX_TABLE_ROWS = 200_000
MAX_TABLE_SECONDS = 60.0
MIN_FACT_BYTES = 6
INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
USER_ENTITIES = ("default_user", "user", "me", "the user")  # names that server-memory's users give to themselves

_SQLITE_MAGIC = b"SQLite format 3\0"
_BULLET = re.compile(r"[-*+][ \t]+(?:\[[ xX]\][ \t]+)?")
_COMMENT = re.compile(r"(?s)<!--.*?-->")
_RULE_HEADER = re.compile(r"(?s)---[ \t]*\r?\n(.*?\n)?---[ \t]*(?:\r?\n|$)")
_REFERENCE = re.compile(r"\s*@([\w./~-]+)\s*")  # Claude Code and Gemini load the file that such a line names
_POINTER = re.compile(rf"\s*(?:{_BULLET.pattern})?\[[^\]]*\]\(([^)\s]+\.md)\).*")

Fields = Mapping[str, object]


class ForeignMemory(NamedTuple):
    """One thing that another tool remembers; `where` says where it stood there.

    With `text` it is a whole file of the name `path`, whose header is kept; else `body` is all there is. `heading` is
    the one that it stood under, `day` when it was last changed. `scope` is where it belongs, if the source says so;
    `is_shared` says that it came with a repository.
    """

    where: str
    body: str = ""
    text: str = ""
    path: str = ""
    name: str = ""
    description: str = ""
    kind: str = ""
    heading: str = ""
    day: str = ""
    conversation: str = ""
    scope: str = ""
    is_shared: bool = False


class LeftOut(NamedTuple):
    """Something that is not imported, and why."""

    where: str
    why: str


Foreign = Iterator[ForeignMemory | LeftOut]


class Surroundings(NamedTuple):
    """The working directory and the environment of an import."""

    cwd: str
    environment: Mapping[str, str]

    def at_home(self, *names: str, variable: str = "") -> str:
        """Return a place in the user's home, unless a variable names another for the first folder."""
        given = self.environment.get(variable) if variable else ""
        home = self.environment.get("HOME") or os.path.expanduser("~")
        return os.path.join(given, *names[1:]) if given else os.path.join(home, *names)

    @property
    def checkout(self) -> str:
        """The main working tree around the working directory, else that directory."""
        return repository_around(self.cwd)[0] or os.path.realpath(self.cwd)


def read_foreign(what: str, source: str, place: Surroundings) -> Foreign:
    """Read what a tool remembers, from a place or with "" from its usual ones.

    Raises:
        Refused: there is nothing, or it is not what that tool writes.
    """
    tool = TOOLS[what]
    if source and not (os.path.isdir(source) or os.path.isfile(source)):
        raise _nothing(f"file or folder {source!r}")
    start = os.path.realpath(source) if source else tool.find(place)
    is_shared = tool.is_shared or bool(source and _is_in_repository(start))
    is_empty = True
    for memory in tool.read(start, place):
        is_empty = False
        if isinstance(memory, ForeignMemory) and (is_shared or memory.is_shared):
            memory = memory._replace(scope="project", is_shared=True)
        yield memory
    if is_empty:
        raise _nothing(f"memory of {what} in {start!r}")


def _nothing(place: str) -> Refused:
    return Refused(f"there is no {place}", hint="Name the file or folder to import.")


def _is_in_repository(path: str) -> bool:
    real = os.path.realpath(path)
    return bool(repository_around(real if os.path.isdir(real) else os.path.dirname(real))[0])


def day_of(*values: object) -> str:
    """Return the day in the first of these that is a time stamp, "" when none is.

    >>> day_of(None, "2026-11-17T06:54:10.897439+00:00")
    '2026-11-17'
    """
    for value in values:
        if isinstance(value, str) and (day := parse_day(value)):
            return day.isoformat()
    return ""


# Text files


def _read_folder(folder: str) -> Foreign:
    """Yield the text files of a folder, without hidden ones. Raises Refused."""
    for name, load in list_folder(folder):
        if not any(part.startswith(".") for part in name.split("/")):
            try:
                yield _to_text(folder, name, load(MAX_MEMORY_BYTES + 1)) if load else LeftOut(name, LINK_REASON)
            except (OSError, PathRefused) as error:
                yield LeftOut(name, str(error))


def _read_below(folder: str, *paths: str) -> Foreign:
    """Yield those text files below a trusted folder that are there, reached without following a link."""
    for path in paths:
        try:
            with Folder.open(folder) as opened, walk(opened, path) as (inner, name):
                yield _to_text(folder, path, read_file(inner, name, MAX_MEMORY_BYTES + 1))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PathRefused:
            yield LeftOut(path, LINK_REASON)
        except OSError as error:
            yield LeftOut(path, str(error))


def _to_text(folder: str, name: str, data: bytes) -> ForeignMemory | LeftOut:
    if len(data) > MAX_MEMORY_BYTES:
        return LeftOut(name, f"it is larger than {MAX_MEMORY_BYTES >> 10} KiB")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return LeftOut(name, "it is not UTF-8 text")
    if not text.strip() or "\0" in text:
        return LeftOut(name, "it is empty, or holds zero bytes")
    changed = time.localtime(os.lstat(os.path.join(folder, name)).st_mtime)
    return ForeignMemory(name, text=text, path=name, day=time.strftime("%Y-%m-%d", changed))


def claude_memory_folder(place: Surroundings) -> str:
    """Return the folder that Claude Code gives a project: named after its main working tree."""
    name = re.sub(r"[^A-Za-z0-9]", "-", place.checkout)
    return place.at_home(".claude", "projects", name, "memory", variable="CLAUDE_CONFIG_DIR")


def read_claude_memory(folder: str, _: Surroundings | None = None) -> Foreign:
    """Yield the memories that Claude Code made by itself."""
    memories = list(_read_notes(folder)) if os.path.isdir(folder) else []
    files = {memory.where for memory in memories}
    is_shared = os.path.islink(folder) and _is_in_repository(folder)
    for memory in memories:
        if isinstance(memory, LeftOut):
            yield memory
        elif memory.where == "MEMORY.md":  # in which a line may point to a file
            lines = memory.text.split("\n")
            lines = ["" if (to := _POINTER.fullmatch(line)) and to[1] in files else line for line in lines]
            for fact in _split([memory._replace(text="\n".join(lines))]):
                yield fact if isinstance(fact, LeftOut) else fact._replace(is_shared=is_shared)
        else:
            yield memory._replace(is_shared=is_shared)


def _read_codex(folder: str, _: Surroundings) -> Foreign:
    yield from _split(_read_below(folder, "AGENTS.md", "AGENTS.override.md"), scope="user")
    yield from _split(_read_below(folder, "memories/MEMORY.md"))


def _read_notes(folder: str, _: Surroundings | None = None) -> Foreign:
    """Yield Markdown files, each a memory."""
    if os.path.isdir(folder):
        for file in _read_folder(folder):
            is_note = isinstance(file, LeftOut) or file.path.endswith(".md")
            yield file if is_note else LeftOut(file.where, NO_MARKDOWN_REASON)


def _read_cursor_rules(root: str, place: Surroundings) -> Foreign:
    if os.path.isfile(root):
        yield from _read_rules(_read_below(*os.path.split(root)))
        return
    rules = os.path.join(root, ".cursor", "rules")
    try:
        refuse_links(root, rules)
        if not os.path.isdir(rules) and root != place.checkout:
            rules = root  # a folder of rules was named
        if os.path.isdir(rules):
            yield from _read_rules(_read_folder(rules))
    except ScopeRefused:
        yield LeftOut(".cursor/rules", LINK_REASON)
    yield from _split(_read_below(root, ".cursorrules"))


def _read_rules(files: Foreign) -> Foreign:
    """Yield rules of Cursor: a header of plain lines, whose globs no YAML reader takes, and the rule."""
    for file in files:
        if isinstance(file, LeftOut):
            yield file
            continue
        header = _RULE_HEADER.match(file.text)
        body = file.text[header.end() if header else 0 :].strip()
        if not body or not file.path.endswith((".mdc", ".md")):
            yield LeftOut(file.where, "it is empty, or no rule: its name does not end in .mdc")
        else:
            lines = (line.partition(":") for line in (header[1] or "").splitlines()) if header else ()
            fields = {key.strip(): value.strip().strip("\"'[]") for key, _, value in lines}
            globs = f"in {fields['globs']}" if fields.get("globs") else ""
            name = re.sub(r"[-_\s]+", " ", os.path.splitext(os.path.basename(file.path))[0]).strip()
            when = ", ".join(filter(None, (fields.get("description"), globs)))
            yield ForeignMemory(file.where, body, name=name, description=when, kind="feedback", day=file.day)


def _read_instructions(root: str, _: Surroundings) -> Foreign:
    if os.path.isfile(root):
        yield from _split(_read_below(*os.path.split(root)))
    else:
        yield from _split(_read_below(root, *INSTRUCTIONS))


def _split(files: Iterable[ForeignMemory | LeftOut], *, scope: str = "") -> Foreign:
    """Yield the facts of files of instructions: each bullet with its sub-items, and the rest of each section."""
    for file in files:
        if isinstance(file, LeftOut):
            yield file
            continue
        text = file.text.replace("\r\n", "\n")
        text = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
        above: list[tuple[int, str]] = []
        for section in sections(text):
            above = [title for title in above if title[0] < section.level]
            if section.level > 1:
                above.append((section.level, section.title))
            heading = ": ".join(title for _, title in above)
            for number, body in _blocks(section.lines, section.first + 1):
                where = f"{file.where}:{number}"
                if reference := _REFERENCE.fullmatch(body):
                    yield LeftOut(where, f"it names another file, {reference[1]}, which is to be imported by itself")
                elif len(body.encode()) < MIN_FACT_BYTES:
                    yield LeftOut(where, "it is too short to say something")
                else:
                    yield ForeignMemory(where, body, heading=heading, day=file.day, scope=scope)


def _blocks(lines: Iterable[str], first: int) -> Iterator[tuple[int, str]]:
    """Yield lines that name a file, the other text and the bullets of a section, each with its first line number.

    A line that only leads to the bullets, such as "Always:", is dropped.
    """
    bullets: list[tuple[int, list[str]]] = []
    rest: list[tuple[int, str]] = []
    fence, is_inside = "", False
    for number, line in enumerate(lines, first):
        bullet = None if fence else _BULLET.match(line)
        fence = fence_after(line, fence)
        is_inside = bool(bullet) or (is_inside and (line[:1].isspace() or not line.strip()))
        if bullet:
            bullets.append((number, [line[bullet.end() :]]))
        elif is_inside:
            bullets[-1][1].append(line)
        elif _REFERENCE.fullmatch(line):
            yield number, line
        elif line.strip() or rest:
            rest.append((number, line))
    text = "\n".join(line for _, line in rest).strip()
    if text and not (bullets and text.endswith(":") and "\n" not in text):
        yield rest[0][0], text
    for number, item in bullets:
        yield number, "\n".join(item).strip()


# Databases and exports


def _read_claude_mem(file: str, place: Surroundings) -> Foreign:
    """Yield the observations that claude-mem made in this project, and what its summaries say was learned."""
    project = os.path.basename(place.checkout)
    others: Counter[str] = Counter()
    for table, what in (("observations", "observation"), ("session_summaries", "summary")):
        for row in _rows(file, "claude-mem", table, ("id", "project", "created_at", "memory_session_id")):
            if project not in (row["project"], row.get("merged_into_project")):
                others[str(row["project"])] += 1
                continue
            text = _text(row, "narrative", "text", "learned")
            facts = "\n".join(f"- {fact}" for fact in _list_in(row.get("facts")))
            if not text and not facts:
                yield LeftOut(f"{what} {row['id']}", "it says nothing")
                continue
            yield ForeignMemory(
                f"{what} {row['id']} {_text(row, 'type')}".strip(),
                "\n\n".join(filter(None, (text, facts))),
                name=_text(row, "title"),
                description=_text(row, "subtitle", "request"),
                kind="project",
                day=day_of(row["created_at"]),
                conversation=_text(row, "memory_session_id"),
            )
    for name, count in sorted(others.items()):
        yield LeftOut(f"project {name}", f"{count:,} entries of another project; import them there")


def _read_mem0(file: str, _: Surroundings) -> Foreign:
    """Yield the memories of mem0: what `get_all` gives as JSON, or the last texts in its history database."""
    entries: object
    if _is_database(file):
        history = _rows(file, "mem0", "history", ("memory_id", "new_memory", "event", "updated_at"))
        last = {row["memory_id"]: row for row in sorted(history, key=lambda row: str(row["updated_at"]))}
        entries = [{"id": key, "memory": row["new_memory"], **row} for key, row in last.items()]
    else:
        entries = _parse(_read_text(file))
        if isinstance(entries, dict):
            entries = entries.get("results", entries.get("memories"))
    if not isinstance(entries, list):
        raise _wrong_shape(file, "mem0", "`json.dump(memory.get_all(…), file)` makes one.")
    for number, entry in enumerate(entries, 1):
        row = entry if isinstance(entry, dict) else {}
        where = f"memory {row.get('memory_id') or row.get('id') or number}"
        if text := _text(row, "memory", "text"):
            yield ForeignMemory(where, text, day=day_of(row.get("updated_at"), row.get("created_at")))
        else:
            yield LeftOut(where, "it was deleted there" if row.get("event") == "DELETE" else "it has no text")


def _read_server_memory(file: str, _: Surroundings) -> Foreign:
    """Yield the graph of @modelcontextprotocol/server-memory: an entity with its relations is a memory."""
    if not file:
        raise Refused("MEMORY_FILE_PATH does not say where the file is", hint="Name its memory.jsonl.")
    kinds: dict[str, str] = {}
    facts: dict[str, list[str]] = {}
    for number, line in enumerate(_read_text(file).splitlines(), 1):
        if not line.strip():
            continue
        value = _parse(line)
        entry: Fields = value if isinstance(value, dict) else {}
        if entry.get("type") == "entity" and (name := _text(entry, "name")):
            kinds[name] = _text(entry, "entityType")
            facts.setdefault(name, [])[:0] = map(str, _list_in(entry.get("observations")))
        elif entry.get("type") == "relation" and (name := _text(entry, "from")):
            facts.setdefault(name, []).append(f"{entry.get('relationType')} [[{entry.get('to')}]]")
        else:
            yield LeftOut(f"line {number}", "it is neither an entity nor a relation")
    if not facts:
        raise _wrong_shape(file, "server-memory", "It has a JSON object in each line.")
    for name, lines in facts.items():
        if not lines:
            yield LeftOut(f"entity {name}", "nothing is observed of it")
            continue
        yield ForeignMemory(
            f"entity {name}",
            "\n".join(f"- {line}" for line in lines),
            name=name.replace("_", " "),
            description=f"{kinds.get(name, '')} {name}: {lines[0]}".strip(),
            kind="user" if name.lower() in USER_ENTITIES else "project",
        )


def _rows(file: str, tool: str, table: str, needed: Sequence[str]) -> Iterator[dict[str, object]]:
    """Yield the rows of a table that has these columns; the database is only read. Raises Refused."""
    if not _is_database(file):
        raise _wrong_shape(file, tool, "Name its SQLite database.")
    path = os.path.abspath(file).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    deadline = time.monotonic() + MAX_TABLE_SECONDS
    columns = "SELECT c.name FROM sqlite_schema s, pragma_table_info(s.name) c WHERE s.type = 'table' AND s.name = ?"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 4 * MAX_MEMORY_BYTES)
            database.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
            database.execute("PRAGMA trusted_schema=OFF")
            there = {row["name"] for row in database.execute(columns, (table,))}
            if absent := [name for name in needed if name not in there]:
                raise _wrong_shape(file, tool, f"Its table {table} has no {', '.join(absent)}.")
            query = f"SELECT * FROM {table} ORDER BY {needed[0]} LIMIT {MAX_TABLE_ROWS}"
            yield from map(dict, database.execute(query))
    except sqlite3.Error as error:
        raise Refused(f"{file!r} cannot be read: {error}") from None


def _is_database(file: str) -> bool:
    return _read_start(file, len(_SQLITE_MAGIC)) == _SQLITE_MAGIC


def _read_start(file: str, size: int) -> bytes:
    try:
        with open_plain(file) as opened:
            return opened.read(size)
    except OSError as error:
        why = f"{file!r} cannot be read: {error.strerror or error}"
        raise Refused(why, hint="Name the file to import.") from None


def _read_text(file: str) -> str:
    data = _read_start(file, MAX_EXPORT_BYTES + 1)
    if len(data) > MAX_EXPORT_BYTES:
        raise Refused(f"{file!r} is larger than {MAX_EXPORT_BYTES >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused(f"{file!r} is not UTF-8 text") from None


def _parse(text: str) -> object:
    """Return the value of a JSON text; None when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _list_in(value: object) -> Sequence[object]:
    """Return a list, or one that is written as JSON in a text."""
    value = _parse(value) if isinstance(value, str) else value
    return value if isinstance(value, list) else ()


def _text(row: Fields, *keys: str) -> str:
    """Return the first text that stands under one of these keys."""
    texts = (value.strip() for key in keys if isinstance(value := row.get(key), str))
    return next(filter(None, texts), "")


def _wrong_shape(file: str, tool: str, hint: str) -> Refused:
    return Refused(f"{file!r} is not what {tool} writes", hint=hint)


class ForeignTool(NamedTuple):
    """A tool, the usual place of its memories, and the function that reads them; `is_shared` in a repository."""

    find: Callable[[Surroundings], str]
    read: Callable[[str, Surroundings], Foreign]
    is_shared: bool = False


def _at_home(*names: str, variable: str) -> Callable[[Surroundings], str]:
    return lambda place: place.at_home(*names, variable=variable)


TOOLS: Mapping[str, ForeignTool] = {
    "claude-code": ForeignTool(claude_memory_folder, read_claude_memory),
    "codex": ForeignTool(_at_home(".codex", variable="CODEX_HOME"), _read_codex),
    "claude-mem": ForeignTool(
        _at_home(".claude-mem", "claude-mem.db", variable="CLAUDE_MEM_DATA_DIR"), _read_claude_mem
    ),
    "basic-memory": ForeignTool(_at_home("basic-memory", variable="BASIC_MEMORY_HOME"), _read_notes),
    "mem0": ForeignTool(_at_home(".mem0", "history.db", variable="MEM0_DIR"), _read_mem0),
    "server-memory": ForeignTool(lambda place: place.environment.get("MEMORY_FILE_PATH", ""), _read_server_memory),
    "cursor-rules": ForeignTool(lambda place: place.checkout, _read_cursor_rules, is_shared=True),
    "agents-md": ForeignTool(lambda place: place.checkout, _read_instructions, is_shared=True),
}
