"""File search by name and by regular expression, below a folder; links are not followed.

What tools made, what git keeps and what memories are in is passed over, and so is what `.gitignore` plainly names.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from heapq import nlargest
from typing import Any

from memsheaf.chat.tools import regex_worker
from memsheaf.chat.tools.files import AT_ONCE, BOM, LARGEST, ResolvedPath, fetch, folder_at, open_file, quote_path
from memsheaf.errors import MemsheafError, Refused
from memsheaf.guard.secrets import REMOVED, find_secrets
from memsheaf.llm.process_group import listen
from memsheaf.scope import FOLDER
from memsheaf.store.safe_dir import Folder, read_all, read_file

MOST_FILES = 200
MOST_LINES = 200
MOST_CONTEXT = 20
PATIENCE = 10.0  # seconds that a search may take

_SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", FOLDER}
)
_MOST_ENTRIES = 200_000
_MOST_DEPTH = 60
_LONGEST = 1_000  # characters of a pattern or an expression
_MOST_WAYS = 64  # to read a pattern with braces
_MOST_TEXT = 32 << 20  # bytes that are searched
_WIDEST = 500  # characters of a line that is shown
_SHOWN = 30_000  # characters of all of them
_AROUND = 100  # lines beside one that is shown, that are searched for a secret

GlobState = frozenset[tuple[str, ...]]  # the rest of the pattern, for each way to match the names so far


def start_glob(pattern: str) -> GlobState:
    """Begin to match a pattern such as `src/**/*.{py,md}`, name by name, in bounded time. Raises Refused."""
    if len(pattern) > _LONGEST:
        raise Refused(f"a pattern has at most {_LONGEST} characters")
    ways = [tuple(step for step in way.split("/") if step not in ("", ".")) for way in _expand_braces(pattern)]
    if any(".." in way for way in ways):
        raise Refused("a pattern must not hold '..' behind a wildcard; say in path where to look")
    return _with_empty(ways)


def match_name(state: GlobState, name: str) -> GlobState:
    """What is left of a pattern behind one more name of a path; nothing, if the path does not fit."""
    return _with_empty(
        way if way[0] == "**" else way[1:] for way in state if way and (way[0] == "**" or fnmatchcase(name, way[0]))
    )


def split_pattern(pattern: str) -> tuple[str, str]:
    """A pattern as the folder that it names for certain, and the rest.

    >>> split_pattern("src/lib/**/*.py"), split_pattern("*.py"), split_pattern("/etc/hosts")
    (('src/lib', '**/*.py'), ('', '*.py'), ('/etc', 'hosts'))
    """
    steps = pattern.replace(os.sep, "/").split("/")
    plain = 0
    while plain < len(steps) - 1 and not set(steps[plain]) & set("*?[{"):
        plain += 1
    return "/".join(steps[:plain]) or ("/" if plain else ""), "/".join(steps[plain:])


def _with_empty(ways: Iterable[tuple[str, ...]]) -> GlobState:
    """The ways, and what is behind each leading `**`, which may stand for nothing."""
    found: set[tuple[str, ...]] = set()
    for way in ways:
        found.add(way)
        while way[:1] == ("**",):
            way = way[1:]
            found.add(way)
    return frozenset(found)


def _expand_braces(pattern: str) -> list[str]:
    """The ways to read a pattern with braces, innermost first. Raises Refused for too many.

    >>> _expand_braces("*.{py,md}")
    ['*.py', '*.md']
    """
    stop = pattern.find("}")
    start = pattern.rfind("{", 0, max(stop, 0))
    if start < 0:
        return [pattern]
    ways: list[str] = []
    for choice in pattern[start + 1 : stop].split(","):
        ways += _expand_braces(pattern[:start] + choice + pattern[stop + 1 :])
        if len(ways) > _MOST_WAYS:
            raise Refused(f"a pattern has at most {_MOST_WAYS} ways to be read; use fewer braces")
    return ways


class Walk:
    """A walk through the files below a folder, in order. It stops when there are too many, or it takes too long."""

    def __init__(self, root: str, keep_out: Sequence[str] = (), *, most: int = _MOST_ENTRIES) -> None:
        names, paths = _read_gitignore(root)
        self._names = _SKIPPED | names
        self._paths = {os.path.join(root, path) for path in paths} | set(keep_out)
        self._end = time.monotonic() + PATIENCE
        self._left = most
        self.is_stopped = False

    def files(self, folder: Folder, pattern: str) -> Iterator[tuple[str, Folder, os.DirEntry[str]]]:
        """The files that fit, each with the open folder that it is in; folders, too, if the pattern has no `**`."""
        yield from self._below(folder, "", start_glob(pattern), "**" not in pattern, 0)

    def _below(
        self, folder: Folder, prefix: str, state: GlobState, lists_folders: bool, depth: int
    ) -> Iterator[tuple[str, Folder, os.DirEntry[str]]]:
        for entry in self._entries(folder):
            here = match_name(state, entry.name)
            path = os.path.join(folder.path, entry.name)
            if not here or entry.name in self._names or path in self._paths:
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if () in here and (lists_folders or not is_folder):
                yield f"{prefix}{entry.name}{'/' * is_folder}", folder, entry
            if is_folder and depth < _MOST_DEPTH:
                with suppress(OSError, MemsheafError), folder.folder(entry.name) as inner:
                    yield from self._below(inner, f"{prefix}{entry.name}/", here, lists_folders, depth + 1)

    def _entries(self, folder: Folder) -> list[os.DirEntry[str]]:
        """What is in a folder; nothing, once too much was seen."""
        found: list[os.DirEntry[str]] = []
        for entry in folder.scan():
            self._left -= 1
            if self._left < 0 or time.monotonic() > self._end:
                self.is_stopped = True
                break
            found.append(entry)
        return sorted(found, key=lambda entry: entry.name)


def _read_gitignore(root: str) -> tuple[set[str], set[str]]:
    """What the `.gitignore` of a root plainly names: names anywhere, and paths from the root."""
    names: set[str] = set()
    paths: set[str] = set()
    with suppress(OSError, MemsheafError):
        found = fetch(root, ResolvedPath(".gitignore", os.path.join(root, ".gitignore"), False))
        for line in found.data.decode("utf-8", "replace").splitlines() if found else ():
            name = line.strip().rstrip("/")
            if name.startswith("!"):
                names.discard(name[1:])
            elif name and not set(name) & set("*?[\\#"):
                (paths if "/" in name else names).add(name.strip("/"))
    return names, paths


def find_files(root: str, base: ResolvedPath, pattern: str, keep_out: Sequence[str]) -> str:
    """The files below a folder whose paths fit, newest first.

    Raises:
        Refused: the pattern is none, or the folder cannot be reached.
        OSError: it is no folder.
    """
    walk = Walk(root, keep_out)
    found: list[tuple[float, str]] = []
    with folder_at(root, base) as folder:
        for path, _, entry in walk.files(folder, pattern):
            with suppress(OSError):
                found.append((entry.stat(follow_symlinks=False).st_mtime, path))
    shown = [_join_path(base, path) for _, path in nlargest(MOST_FILES, found)]
    notes = []
    if len(found) > len(shown):
        notes.append(f"({len(found) - len(shown)} older ones are left out; a narrower pattern shows them)")
    if walk.is_stopped:
        notes.append("(not all folders were searched: there is too much; say in path where to look)")
    return "\n".join([*(shown or ["No file fits."]), *notes])


def find_lines(
    root: str,
    base: ResolvedPath,
    expression: str,
    *,
    names: str = "",
    context: int = 0,
    keep_out: Sequence[str] = (),
    patience: float = PATIENCE,
) -> str:
    """The lines of the files at a path, or below it, that match, each with its file and number.

    Raises:
        Refused: the expression is none, or takes too long; or the path cannot be reached.
        OSError: it is not there.
    """
    if len(expression) > _LONGEST:
        raise Refused(f"an expression has at most {_LONGEST} characters")
    texts, notes = _read_texts(root, base, names, keep_out)
    answer = _search(expression, [data for _, data in texts], patience)
    if wrong := answer.get("wrong"):
        raise Refused(f"the expression cannot be read: {wrong}. It is one of Python's; write \\( for a plain (")
    if not answer["lines"]:
        return "\n".join(["No line matches.", *notes])
    hits: dict[int, dict[int, int]] = {}
    for number, line, column in answer["found"]:
        hits.setdefault(number, {})[line] = column
    shown, count = _render_hits(base, texts, hits, context)
    if count < answer["lines"]:
        total = f"{answer['lines']} lines match, in {answer['files']} files"
        notes.append(f"({total}; the first {count} are shown: narrow it with path or glob)")
    return "\n".join([*shown, *notes])


def mask_secrets(text: str) -> str:
    """The text without its secrets, with as many lines as before."""
    for secret in reversed(find_secrets(text)):
        breaks = "\n" * text.count("\n", secret.start, secret.end)
        text = f"{text[: secret.start]}{REMOVED}{secret.kind}]{breaks}{text[secret.end :]}"
    return text


def mask_lines(lines: Sequence[str], wanted: Collection[int]) -> dict[int, str]:
    """The lines of a text that are wanted, by their numbers, without the secrets that they are a part of."""
    found: dict[int, str] = {}
    for first, last in _stretches(sorted(wanted), len(lines)):
        shown = mask_secrets("\n".join(lines[first:last])).split("\n")
        found |= {at: shown[at - first] for at in sorted(wanted) if first <= at < last}
    return found


def _stretches(wanted: Sequence[int], end: int) -> list[tuple[int, int]]:
    """The lines to search for secrets: those wanted and those around them."""
    found: list[tuple[int, int]] = []
    for at in wanted:
        first = max(0, at - _AROUND)
        last = min(end, at + _AROUND + 1)
        if found and first <= found[-1][1]:
            first = found.pop()[0]
        found.append((first, last))
    return found


def _read_texts(
    root: str, base: ResolvedPath, names: str, keep_out: Sequence[str]
) -> tuple[list[tuple[str, bytes]], list[str]]:
    """The texts to search by their paths, and what is to be said about those that are not searched."""
    if os.path.isfile(base.real):
        with open_file(root, base) as fd:
            data = read_all(fd, _MOST_TEXT)
        if b"\0" in data[:AT_ONCE]:
            raise Refused(f"{quote_path(base.shown)} is binary")
        return [("", data)], [f"(only the first {_MOST_TEXT >> 20} MiB were searched)"] * (len(data) == _MOST_TEXT)
    walk = Walk(root, keep_out)
    found: list[tuple[str, bytes]] = []
    room = _MOST_TEXT
    large = 0
    with folder_at(root, base) as folder:
        for path, inner, entry in walk.files(folder, names if "/" in names else f"**/{names or '*'}"):
            data = b""
            with suppress(OSError, MemsheafError):
                if stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
                    data = read_file(inner, entry.name, LARGEST + 1)
            if len(data) > LARGEST:
                large += 1
            elif b"\0" not in data:
                room -= len(data)
                if room < 0:
                    walk.is_stopped = True
                    break
                found.append((path, data))
    notes = []
    if large:
        notes.append(f"({large} files are larger than {LARGEST >> 10} KiB and were not searched; name one in path)")
    if walk.is_stopped:
        notes.append("(not all was searched: there is too much; narrow it with path or glob)")
    return found, notes


def _search(expression: str, texts: Sequence[bytes], patience: float) -> Mapping[str, Any]:
    """Search in a process of its own, which can be killed. Raises Refused when it has to be."""
    asked = json.dumps({"expression": expression, "sizes": list(map(len, texts)), "most": MOST_LINES})
    program = (sys.executable, "-I", "-S", regex_worker.__file__)
    text = b"".join((asked.encode(), b"\n", *texts))
    printed = bytearray()
    try:
        listen(program, printed.extend, folder=os.sep, environment=os.environ, deadline=patience, text=text)
        found: Mapping[str, Any] = json.loads(printed)
    except (TimeoutError, ValueError):  # or it ran out of memory, or somebody killed it
        raise Refused(
            f"the search was given up after {patience:g} seconds: make the expression simpler, or narrow it with path"
        ) from None
    return found


def _render_hits(
    base: ResolvedPath, texts: Sequence[tuple[str, bytes]], hits: Mapping[int, Mapping[int, int]], context: int
) -> tuple[list[str], int]:
    """Lines with their places, as many as fit, and how many of them match."""
    shown: list[str] = []
    count = size = 0
    for number, columns in hits.items():
        inner, data = texts[number]
        path = _join_path(base, inner)
        raw = data.decode("utf-8", "replace").removeprefix(BOM).removesuffix("\n").split("\n")
        lines = [_cut_line(line.removesuffix("\r"), columns.get(at, 0)) for at, line in enumerate(raw)]
        wanted = {near for at in columns for near in range(max(0, at - context), min(len(raw), at + context + 1))}
        last = -1
        for at, line in mask_lines(lines, wanted).items():
            if context and shown and at != last + 1:
                shown.append("--")
            mark = ":" if at in columns else "-"
            shown.append(f"{path}{mark}{at + 1}{mark}{line}")
            count += at in columns
            size += len(shown[-1])
            last = at
            if size > _SHOWN:
                return shown, count
    return shown, count


def _cut_line(line: str, column: int) -> str:
    """A line that may be shown, with the place that matches in it."""
    if len(line) <= _WIDEST:
        return line
    start = max(0, min(column - _WIDEST // 4, len(line) - _WIDEST))
    return f"{'…' * (start > 0)}{line[start : start + _WIDEST]}{'…' * (start + _WIDEST < len(line))}"


def _join_path(base: ResolvedPath, path: str) -> str:
    """A path below a folder, as it is named elsewhere."""
    prefix = "" if base.shown == "." else base.shown.rstrip("/")
    whole = f"{prefix}/{path}" if path and (prefix or base.outside) else f"{prefix}{path}"
    return whole if whole.isprintable() else ascii(whole)
