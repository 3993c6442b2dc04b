"""Files found by their names and by their lines, below a folder; no link is followed.

What tools made, what git keeps and what memories are in is passed over, and so is what `.gitignore` plainly names.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from memsheaf.chat.tools.files import AT_ONCE, LARGEST, Place, fetch, folder_at, named, opened
from memsheaf.chat.tools.glob import LONGEST, Pattern, State
from memsheaf.errors import MemsheafError, Refused
from memsheaf.guard.secrets import REMOVED, find_secrets
from memsheaf.scope import FOLDER
from memsheaf.store.safe_dir import READ, Folder, read_all
from memsheaf.values import NamedTuple

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_FILES = 200
MOST_LINES = 200
MOST_CONTEXT = 20
PATIENCE = 10.0
"""Seconds that a search may take."""

_SKIPPED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", FOLDER}
)
_MOST_ENTRIES = 200_000
_MOST_DEPTH = 60
_MOST_TEXT = 32 << 20  # bytes that are searched
_WIDEST = 500  # characters of a line that is shown
_SHOWN = 30_000  # characters of all of them
_AROUND = 100  # lines beside one that is shown, that are looked at for a secret

Passed = Callable[[str, str], bool]
"""Whether a search passes over a name in a folder."""


class Walk:
    """A way through the files below a folder, in order. It gives up when there are too many, or it takes too long."""

    def __init__(self, passed: Passed, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._passed = passed
        self._clock = clock
        self._end = clock() + PATIENCE
        self._left = _MOST_ENTRIES
        self.stopped = False

    def below(self, folder: Folder, pattern: Pattern) -> Iterator[tuple[str, Folder, os.DirEntry[str]]]:
        """The files that fit, each with the open folder that it is in; folders, too, if the pattern lists."""
        yield from self._below(folder, "", pattern, pattern.begin, 0)

    def _below(
        self, folder: Folder, prefix: str, pattern: Pattern, state: State, depth: int
    ) -> Iterator[tuple[str, Folder, os.DirEntry[str]]]:
        for entry in self._entries(folder):
            here = pattern.step(state, entry.name)
            if not here or self._passed(folder.path, entry.name):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if pattern.is_end(here) and (pattern.lists or not is_folder):
                yield f"{prefix}{entry.name}{'/' * is_folder}", folder, entry
            if is_folder and depth < _MOST_DEPTH:
                with suppress(OSError, MemsheafError), folder.folder(entry.name) as inner:
                    yield from self._below(inner, f"{prefix}{entry.name}/", pattern, here, depth + 1)

    def _entries(self, folder: Folder) -> list[os.DirEntry[str]]:
        """What is in a folder; nothing, once too much was seen."""
        found: list[os.DirEntry[str]] = []
        for entry in folder.scan():
            self._left -= 1
            if self._left < 0 or self._clock() > self._end:
                self.stopped = True
                break
            found.append(entry)
        return sorted(found, key=lambda entry: entry.name)


def passing(root: str, keep_out: Sequence[str]) -> Passed:
    """What a search below a root passes over."""
    names, paths = _ignored(root)
    apart = {os.path.join(root, path) for path in paths} | set(keep_out)
    return lambda folder, name: name in _SKIPPED or name in names or os.path.join(folder, name) in apart


def files_named(root: str, base: Place, pattern: str, keep_out: Sequence[str]) -> str:
    """The files below a folder whose paths fit, newest first.

    Raises:
        Refused: the pattern is none, or the folder cannot be reached.
        OSError: it is no folder.
    """
    from heapq import nlargest

    walk = Walk(passing(root, keep_out))
    found: list[tuple[float, str]] = []
    with folder_at(root, base) as folder:
        for path, _, entry in walk.below(folder, Pattern(pattern)):
            with suppress(OSError):
                found.append((entry.stat(follow_symlinks=False).st_mtime, path))
    shown = [_shown(base, path) for _, path in nlargest(MOST_FILES, found)]
    notes = []
    if len(found) > len(shown):
        notes.append(f"({len(found) - len(shown)} older ones are left out; a narrower pattern shows them)")
    if walk.stopped:
        notes.append("(not all folders were looked at: there is too much; say in path where to look)")
    return "\n".join([*(shown or ["No file fits."]), *notes])


def lines_matching(
    root: str,
    base: Place,
    expression: str,
    *,
    names: str = "",
    context: int = 0,
    keep_out: Sequence[str] = (),
    patience: float = PATIENCE,
) -> str:
    """The lines of the files at a place, or below it, that match, each with its file and number.

    Raises:
        Refused: the expression is none, or takes too long; or the place cannot be reached.
        OSError: it is not there.
    """
    if len(expression) > LONGEST:
        raise Refused(f"an expression has at most {LONGEST} characters")
    texts, notes = _texts(root, base, names, keep_out)
    answer = _sift(expression, [data for _, data in texts], patience)
    if wrong := answer.get("wrong"):
        raise Refused(f"the expression cannot be read: {wrong}. It is one of Python's; write \\( for a plain (")
    if not answer["lines"]:
        return "\n".join(["No line matches.", *notes])
    hits: dict[int, dict[int, int]] = {}
    for number, line, column in answer["found"]:
        hits.setdefault(number, {})[line] = column
    shown, count = _listed(base, texts, hits, context)
    total = f"{answer['lines']} lines match, in {answer['files']} files"
    if count < answer["lines"]:
        notes.append(f"({total}; the first {count} are shown: narrow it with path or glob)")
    return "\n".join([*shown, *notes])


def masked(text: str) -> str:
    """The text without its secrets, with as many lines as before."""
    for secret in reversed(find_secrets(text)):
        breaks = "\n" * text.count("\n", secret.start, secret.end)
        text = f"{text[: secret.start]}{REMOVED}{secret.kind}]{breaks}{text[secret.end :]}"
    return text


def safe_lines(
    lines: Sequence[str], wanted: Collection[int], shown: Callable[[int], str] | None = None
) -> dict[int, str]:
    """The lines of a text that are wanted, by their numbers, without the secrets that they are a part of.

    With `shown`, a line is not taken as it is, but as that gives it.
    """
    found: dict[int, str] = {}
    for first, last in _ranges(sorted(wanted), len(lines)):
        near = [shown(at) if shown else lines[at] for at in range(first, last)]
        for at, line in enumerate(masked("\n".join(near)).split("\n"), first):
            if at in wanted:
                found[at] = line
    return found


# what is searched


class _Text(NamedTuple):
    path: str
    data: bytes


def _texts(root: str, base: Place, names: str, keep_out: Sequence[str]) -> tuple[list[_Text], list[str]]:
    """The texts to search, and what is to be said about those that are not searched."""
    if os.path.isfile(base.real):
        with opened(root, base) as fd:
            data = read_all(fd, _MOST_TEXT)
        if b"\0" in data[:AT_ONCE]:
            raise Refused(f"{named(base.shown)} is binary")
        cut = [f"(only the first {_MOST_TEXT >> 20} MiB were searched)"] * (len(data) == _MOST_TEXT)
        return [_Text("", data)], cut
    walk = Walk(passing(root, keep_out))
    pattern = Pattern(names if "/" in names else f"**/{names or '*'}")
    found: list[_Text] = []
    room, large = _MOST_TEXT, 0
    with folder_at(root, base) as folder:
        for path, inner, entry in walk.below(folder, pattern):
            data = _text(inner, entry)
            large += len(data) > LARGEST
            if len(data) > LARGEST or b"\0" in data:
                continue
            room -= len(data)
            if room < 0:
                walk.stopped = True
                break
            found.append(_Text(path, data))
    notes = [f"({large} files are larger than {LARGEST >> 10} KiB and were not searched; name one in path)"] * (
        large > 0
    )
    notes += ["(not all was searched: there is too much; narrow it with path or glob)"] * walk.stopped
    return found, notes


def _text(folder: Folder, entry: os.DirEntry[str]) -> bytes:
    """The bytes of a file, a little more than may be searched; b"" for what is no plain file or may not be read."""
    with suppress(OSError, MemsheafError):
        if stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode):
            fd = folder.open_file(entry.name, READ)
            try:
                return read_all(fd, LARGEST + 1)
            finally:
                os.close(fd)
    return b""


def _sift(expression: str, texts: Sequence[bytes], patience: float) -> Mapping[str, Any]:
    """Ask the process that can be given up. Raises Refused when it has to be."""
    from subprocess import DEVNULL, PIPE, TimeoutExpired, run

    from memsheaf.chat.tools import regex_worker

    asked = {"expression": expression, "sizes": list(map(len, texts)), "most": MOST_LINES, "seconds": patience + 2}
    line = json.dumps(asked).encode() + b"\n"
    program = (sys.executable, "-I", "-S", regex_worker.__file__)
    try:
        done = run(program, input=b"".join((line, *texts)), stdout=PIPE, stderr=DEVNULL, timeout=patience)
        found: Mapping[str, Any] = json.loads(done.stdout)
    except TimeoutExpired:
        raise Refused(
            f"the search was given up after {patience:g} seconds: make the expression simpler, or narrow it with path"
        ) from None
    except ValueError:  # it ran out of memory, or somebody killed it
        raise Refused("the search came to no end: make the expression simpler, or narrow it with path") from None
    return found


# how it is shown


def _listed(
    base: Place, texts: Sequence[_Text], hits: Mapping[int, Mapping[int, int]], context: int
) -> tuple[list[str], int]:
    """Lines with their places, as many as fit, and how many of them match."""
    shown: list[str] = []
    count = size = 0
    for number, columns in hits.items():
        path = _shown(base, texts[number].path)
        lines = _visible(texts[number].data, columns, context)
        last = -1
        for at, line in lines.items():
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


def _visible(data: bytes, columns: Mapping[int, int], context: int) -> dict[int, str]:
    """The lines to show of a text, by their numbers."""
    lines = data.decode("utf-8", "replace").removeprefix("\ufeff").removesuffix("\n").split("\n")
    wanted = {near for at in columns for near in range(max(0, at - context), min(len(lines), at + context + 1))}
    return safe_lines(lines, wanted, lambda at: _cut(lines[at].removesuffix("\r"), columns.get(at, 0)))


def _ranges(wanted: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    """The lines to look at for secrets: those wanted and those around them, in stretches."""
    start = stop = -1
    for at in wanted:
        if at - _AROUND > stop:
            if stop >= 0:
                yield start, stop
            start = max(0, at - _AROUND)
        stop = min(end, at + _AROUND + 1)
    if stop >= 0:
        yield start, stop


def _cut(line: str, column: int) -> str:
    """A line that may be shown, with the place that matches in it."""
    if len(line) <= _WIDEST:
        return line
    start = max(0, min(column - _WIDEST // 4, len(line) - _WIDEST))
    return f"{'…' * (start > 0)}{line[start : start + _WIDEST]}{'…' * (start + _WIDEST < len(line))}"


def _shown(base: Place, path: str) -> str:
    """A path below a folder, as it is named elsewhere."""
    prefix = "" if base.shown == "." else base.shown.rstrip("/")
    whole = f"{prefix}/{path}" if prefix and path else f"{prefix}{path}"
    if base.outside and not prefix:
        whole = f"/{path}"
    return whole if whole.isprintable() else ascii(whole)


def _ignored(root: str) -> tuple[set[str], set[str]]:
    """What the `.gitignore` of a root plainly names: names anywhere, and paths from the root."""
    names: set[str] = set()
    paths: set[str] = set()
    try:
        found = fetch(root, Place(".gitignore", os.path.join(root, ".gitignore"), False))
    except (OSError, MemsheafError):
        return names, paths
    for line in found.data.decode("utf-8", "replace").splitlines() if found else ():
        line = line.rstrip()
        name = line.rstrip("/")
        if line.startswith("!"):
            names.discard(name[1:])
        elif name and not set(name) & set("*?[\\#"):
            (paths if "/" in name else names).add(name.strip("/"))
    return names, paths
