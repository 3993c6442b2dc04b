"""Formatting for Anthropic's memory tool: paths, numbered lines, listings and errors.

Our files end in `.md`, those of a model often do not. Each name has one file, and each file one name:

>>> [stored(name) for name in ("user_tabs.md", "notes.txt", "todo")]
['user_tabs.md', 'notes.txt.md', 'todo.file.md']
>>> [shown(path) for path in ("user_tabs.md", "notes.txt.md", "todo.file.md")]
['user_tabs.md', 'notes.txt', 'todo']
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

from memsheaf.errors import (
    BadHeader,
    Busy,
    Changed,
    CreateOnly,
    Duplicate,
    MemsheafError,
    NotWorth,
    PathRefused,
    Refused,
    SecretFound,
)
from memsheaf.guard.paths import CATALOG, is_reserved
from memsheaf.guard.secrets import without_secrets
from memsheaf.index.database import Row
from memsheaf.tool_errors import shortened

ROOT = "/memories"
LISTED = 500  # lines of a folder that are shown at once
ECHOED = 1_000  # characters of a model's own text that an error repeats

COMMANDS = {
    "view": ("path",),
    "create": ("path", "file_text"),
    "str_replace": ("path", "old_str", "new_str"),
    "insert": ("path", "insert_line", "insert_text"),
    "delete": ("path",),
    "rename": ("old_path", "new_path"),
}
"""Each command and what it takes; `view` may have a `view_range`, too."""

_TEXTS = (".txt", ".xml", ".json", ".jsonl", ".yaml", ".yml", ".toml", ".csv", ".html", ".log")
_OTHER = ".file.md"


def asked(given: object) -> tuple[str, list[object]]:
    """The command that a model gave, and its arguments in their order. Raises Refused for what is none.

    >>> asked({"command": "insert", "path": "/memories/todo", "insert_line": 0, "insert_text": "Buy milk."})
    ('insert', ['/memories/todo', 0, 'Buy milk.'])
    """
    values = {str(name): value for name, value in given.items()} if isinstance(given, Mapping) else {}
    command = values.get("command")
    if not isinstance(command, str) or command not in COMMANDS:
        raise Refused(f"Unknown command: {cut(str(command))}. There are {', '.join(COMMANDS)}.")
    for name in COMMANDS[command]:
        wanted = int if name == "insert_line" else str
        if not isinstance(values.get(name), wanted) or isinstance(values[name], bool):
            raise Refused(f"{command} needs {name}, {'a whole number' if wanted is int else 'a text'}.")
    arguments = [values[name] for name in COMMANDS[command]]
    return command, [*arguments, _range(values.get("view_range"))] if command == "view" else arguments


def stored(name: str) -> str:
    """The file that a model means by a name."""
    if name.endswith(".md"):
        return name
    return name + (".md" if name.endswith(_TEXTS) else _OTHER)


def shown(path: str) -> str:
    """The name by which a model knows a file: the one that `stored` turns into it."""
    for ending in (_OTHER, ".md"):
        if path.endswith(ending) and stored(name := path.removesuffix(ending)) == path:
            return name
    return path


def located(path: str) -> str:
    """What a path says below /memories; "" for that folder itself. Raises Refused for one that leads elsewhere.

    >>> located("/memories/projects/"), located("/memories/projects/..")
    ('projects', '')
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise Refused(f"Path must start with {ROOT}, got: {cut(path)}")
    whole = posixpath.normpath(path)
    if whole == ROOT:
        return ""
    if not whole.startswith(f"{ROOT}/"):
        raise Refused(f"Path {cut(path)} would escape {ROOT} directory")
    name = unicodedata.normalize("NFC", path.removeprefix(f"{ROOT}/").rstrip("/"))  # `..` is refused as in any name
    if name != CATALOG and is_reserved(posixpath.basename(name)):
        raise PathRefused(path, "it is not a memory: it is generated, or loaded as instructions")
    return name


def inside(path: str, folder: str) -> str:
    """A path as seen from a folder that it is in, however that was spelled; "" is the root.

    >>> inside("a/b/c.md", "A"), inside("a/b/c.md", "")
    ('b/c.md', 'a/b/c.md')
    """
    return "/".join(path.split("/")[folder.count("/") + 1 if folder else 0 :])


def folder_of(path: str, folder: str) -> str:
    """A folder as it is spelled in a path that is in it.

    >>> folder_of("a/b/c.md", "A")
    'a'
    """
    return "/".join(path.split("/")[: folder.count("/") + 1])


def numbered(path: str, text: str, view_range: Sequence[int]) -> str:
    """A file, or the lines of it that were asked for, as the model views it."""
    lines = text.split("\n")
    first, last = _bounds(view_range, len(lines))
    return f"Here's the content of {path} with line numbers:\n" + _lines(lines, first, last)


def snippet(text: str, line: int) -> str:
    """The lines around one, which is counted from 0."""
    lines = text.split("\n")
    return _lines(lines, max(0, line - 2), min(len(lines), line + 3))


def listing(path: str, folder: str, rows: Sequence[Row], view_range: Sequence[int]) -> str:
    """What is in a folder, two levels deep; a folder has the size of all that is in it.

    Of more than 500 lines, the first 500 are shown, or those from the beginning of `view_range` on.
    """
    sizes: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        parts = shown(inside(row.path, folder)).split("/")
        for depth in range(1, min(len(parts), 2) + 1):
            # a last part of "" makes it a folder: it ends in "/" when joined, and stands before what is in it
            sizes[*parts[:depth], *[""] * (len(parts) > depth)] += row.size
    entries = sorted(sizes)
    first, last = _bounds(view_range, len(entries))
    last = min(last, first + LISTED)
    here = f"{ROOT}/{folder_of(rows[0].path, folder)}" if folder else ROOT
    lines = [f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"]
    lines += [f"{_size(sum(row.size for row in rows))}\t{here}"]
    lines += [f"{_size(sizes[entry])}\t{here}/{'/'.join(entry)}" for entry in entries[first:last]]
    if last < len(entries):
        more = f"view_range [{last + 1}, {last + LISTED}] shows the next; {ROOT}/{CATALOG} lists what matters most"
        lines += [f"({max(0, last - first)} of {len(entries)} are shown; {more})"]
    return "\n".join(lines)


def explained(error: MemsheafError) -> str:
    """An error in the words that a model can act on, with the names it knows."""
    hint = error.hint if isinstance(error, SecretFound | NotWorth | Duplicate | Busy) else ""
    if isinstance(error, PathRefused):
        hint = f"Use a plain name such as {ROOT}/notes.md."
    elif isinstance(error, CreateOnly):
        how = "the same name in its header, citations, a reason, and 'supersedes:' with the old file"
        hint = f"To correct it, create a new file below {ROOT}/facts: {how}."
    elif isinstance(error, NotWorth):
        hint += " Repeat the command to keep it all the same."
    elif isinstance(error, BadHeader):
        hint = "A person has to fix it; create another file instead."
    elif isinstance(error, Changed):
        hint = "View it, and repeat the change on its present text."
    said = shortened(str(error))
    if type(error) is not Refused:  # else it is ours, and may repeat what the model said
        said = re.sub(r"'([^'\n]+\.md)'", lambda found: f"{ROOT}/{shown(found[1])}", said)
    text = f"{said}. {hint}" if hint else said
    return without_secrets(text).encode("utf-8", "replace").decode()


def cut(text: str) -> str:
    """A text that a model gave, as far as an error repeats it."""
    return text if len(text) <= ECHOED else f"{text[:ECHOED]}…"


def _range(value: object) -> Sequence[int]:
    if value is None or value == []:
        return ()
    if isinstance(value, list | tuple) and len(value) == 2 and all(type(number) is int for number in value):
        return value
    raise Refused("view_range is two whole numbers: the first line and the last, or -1 for the end.")


def _bounds(view_range: Sequence[int], count: int) -> tuple[int, int]:
    """The start and end of a range of lines, counted from 1, within the number of lines."""
    if not view_range:
        return 0, count
    first, last = view_range
    return max(1, first) - 1, count if last < 0 else min(last, count)


def _lines(lines: Sequence[str], first: int, last: int) -> str:
    return "\n".join(f"{number + 1:6}\t{lines[number]}" for number in range(first, last))


def _size(size: int) -> str:
    """A size in the unit that fits: 0B, 900B, 1.5K, 2M."""
    unit = min((max(size, 1).bit_length() - 1) // 10, 3)
    amount = size / 1024**unit
    return (f"{amount:.0f}" if amount.is_integer() else f"{amount:.1f}") + "BKMG"[unit]
