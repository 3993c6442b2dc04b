"""File search by name and by regular expression, below a folder; links are not followed.

The files that tools made, those of git and of memories, and those that `.gitignore` names are passed over. Lines are
searched by `rg` where it is installed, else by `search_worker.py`: by another program, which can be killed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from heapq import nlargest
from itertools import groupby

from pathspec import GitIgnoreSpec

from memsheaf.chat.tools import search_worker
from memsheaf.chat.tools.files import BOM, ResolvedPath, fetch, folder_at, is_within, open_file
from memsheaf.errors import MemsheafError, Refused
from memsheaf.guard.secrets import REMOVED, find_secrets
from memsheaf.llm.process_group import listen
from memsheaf.scope import FOLDER
from memsheaf.text.neutralize import one_line

MAX_FILES = 200
MAX_LINES = 200
MAX_SEARCH_SECONDS = 10.0
MAX_WALKED_FILES = 200_000
MAX_PATTERN_CHARS = 1_000
MAX_PATTERN_WAYS = 64  # to read a pattern with braces
MAX_LINE_CHARS = 500
MAX_HITS_BYTES = 1 << 20  # of the places that a search prints
MAX_MASKED_CHARS = 4_000  # of a line: more than is shown of it
SECRET_MARGIN_LINES = 100  # beside one that is shown, that are searched for a secret
_SKIPPED = [f"{name}/" for name in (".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", FOLDER)]
_RG = ["--no-config", "--hidden", "--no-require-git", "--no-heading", "--with-filename", "--line-number", "--null"]
_RG += ["--crlf", "--max-columns=1"]  # the lines themselves are read from the files
_HIT = re.compile(r"([^\0]+)\0(\d+):[^\n]*\n")


class Walk:
    """The files below a folder, without those that are passed over. It says when there were too many."""

    def __init__(self, root: str, base: ResolvedPath, keep_out: Sequence[str]) -> None:
        self.base = base.real
        self.is_stopped = False
        self._keep_out = frozenset(keep_out)
        self._prefix = ""
        self._ignored = GitIgnoreSpec.from_lines(_SKIPPED)
        inner = "" if base.real == root else f"{os.path.relpath(base.real, root)}/"
        if not base.outside:
            ignored = GitIgnoreSpec.from_lines([*_SKIPPED, *_read_gitignore(root)])
            if not inner or not ignored.match_file(inner):  # else the user asks for what is ignored
                self._ignored = ignored
                self._prefix = inner

    def passes_over(self, path: str) -> bool:
        """Return True for a path below the folder that is not searched."""
        whole = os.path.join(self.base, path.rstrip("/"))
        return whole in self._keep_out or self._ignored.match_file(self._prefix + path)

    def paths(self, max_depth: int | None = None) -> Iterator[str]:
        """Yield the paths of files and folders, those of folders with a `/` at the end."""
        end = time.monotonic() + MAX_SEARCH_SECONDS
        count = 0
        for folder, folders, files in os.walk(self.base):
            inner = "" if folder == self.base else f"{os.path.relpath(folder, self.base)}/"
            folders[:] = sorted(
                name
                for name in folders
                if not os.path.islink(os.path.join(folder, name)) and not self.passes_over(f"{inner}{name}/")
            )
            yield from (f"{inner}{name}/" for name in folders)
            yield from (f"{inner}{name}" for name in sorted(files) if not self.passes_over(f"{inner}{name}"))
            count += len(files) + len(folders)
            if max_depth is not None and inner.count("/") >= max_depth:
                folders.clear()
            if count > MAX_WALKED_FILES or time.monotonic() > end:
                self.is_stopped = True
                return


def _read_gitignore(root: str) -> list[str]:
    with suppress(OSError, MemsheafError):
        found = fetch(root, ResolvedPath(".gitignore", os.path.join(root, ".gitignore"), False))
        return found.data.decode("utf-8", "replace").splitlines() if found else []
    return []


def find_files(root: str, base: ResolvedPath, pattern: str, keep_out: Sequence[str]) -> str:
    """Return the paths below a folder that fit, newest first.

    Raises:
        Refused: the pattern is none, or the folder cannot be reached.
        OSError: it is no folder.
    """
    fits = compile_glob(pattern)
    lists_folders = "**" not in pattern
    walk = Walk(root, base, keep_out)
    found: list[tuple[float, str]] = []
    with folder_at(root, base):
        for path in walk.paths(pattern.count("/") if lists_folders else None):
            if fits(path.rstrip("/")) and (lists_folders or not path.endswith("/")):
                with suppress(OSError):
                    found.append((os.lstat(os.path.join(base.real, path)).st_mtime, path))
    shown = [_join_path(base, path) for _, path in nlargest(MAX_FILES, found)]
    notes = []
    if len(found) > len(shown):
        notes.append(f"({len(found) - len(shown)} older ones are left out; a narrower pattern shows them)")
    if walk.is_stopped:
        notes.append("(not all folders were searched: there is too much; say in path where to look)")
    return "\n".join([*(shown or ["No file fits."]), *notes])


def compile_glob(pattern: str) -> Callable[[str], bool]:
    """Return a function that says whether a path fits a pattern. Raises Refused.

    >>> [compile_glob("src/**/*.{py,md}")(path) for path in ("src/a.py", "src/b/c.md", "a.py")]
    [True, True, False]
    """
    steps = pattern.split("/")
    if len(pattern) > MAX_PATTERN_CHARS or max(step.count("*") for step in steps) > 3 or steps.count("**") > 3:
        raise Refused(f"a pattern has at most {MAX_PATTERN_CHARS} characters, three '**', and three stars in a name")
    if ".." in steps:
        raise Refused("a pattern must not hold '..' behind a wildcard; say in path where to look")
    return GitIgnoreSpec.from_lines(f"/{way}" for way in _expand_braces(pattern)).match_file


def _expand_braces(pattern: str) -> list[str]:
    """Return the ways to read a pattern with braces, innermost first. Raises Refused for too many.

    >>> _expand_braces("*.{py,md}")
    ['*.py', '*.md']
    """
    ways = [pattern]
    while match := re.search(r"\{([^{}]*)\}", ways[0]):
        ways = [way.replace(match[0], choice, 1) for way in ways for choice in match[1].split(",")]
        if len(ways) > MAX_PATTERN_WAYS:
            raise Refused(f"a pattern has at most {MAX_PATTERN_WAYS} ways to be read; use fewer braces")
    return ways


def split_pattern(pattern: str) -> tuple[str, str]:
    """Return a pattern as the folder that it names for certain, and the rest.

    >>> split_pattern("src/lib/**/*.py"), split_pattern("*.py"), split_pattern("/etc/hosts")
    (('src/lib', '**/*.py'), ('', '*.py'), ('/etc', 'hosts'))
    """
    steps = pattern.split("/")
    plain = 0
    while plain < len(steps) - 1 and not set(steps[plain]) & set("*?[{"):
        plain += 1
    return "/".join(steps[:plain]) or ("/" if plain else ""), "/".join(steps[plain:])


def find_lines(
    root: str,
    base: ResolvedPath,
    expression: str,
    *,
    names: str = "",
    keep_out: Sequence[str] = (),
    patience: float = MAX_SEARCH_SECONDS,
) -> str:
    """Return the lines of the files at a path, or below it, that match, each with its file and number.

    Raises:
        Refused: the expression is none, or takes too long; or the path cannot be reached.
        OSError: it is not there.
    """
    if len(expression) > MAX_PATTERN_CHARS:
        raise Refused(f"an expression has at most {MAX_PATTERN_CHARS} characters")
    rg = _find_rg(root)
    if os.path.isfile(base.real):
        with open_file(root, base):
            hits = [("", line) for _, line in _search(expression, [base.real], patience, rg)]
    else:
        with folder_at(root, base):
            hits = _search_folder(expression, Walk(root, base, keep_out), names, patience, rg)
    shown: list[str] = []
    for path, numbers in groupby(sorted(hits), lambda hit: hit[0]):
        lines = _read_lines(root, ResolvedPath(path, os.path.join(base.real, path).rstrip("/"), base.outside))
        for _, number in numbers:
            if len(shown) < MAX_LINES and number <= len(lines):
                (line,) = mask_lines(lines, number - 1, number)
                cut = "…" if len(line) > MAX_LINE_CHARS else ""
                shown.append(f"{_join_path(base, path)}:{number}:{line[:MAX_LINE_CHARS]}{cut}")
    if len(shown) < len(hits):
        shown.append(f"({len(hits)} lines match; the first {len(shown)} are shown: narrow it with path or glob)")
    return "\n".join(shown or ["No line matches."])


def _find_rg(root: str) -> str:
    """Return the path of `rg`, or "" without one; one inside the working directory is not run."""
    program = os.path.realpath(shutil.which("rg") or root)
    return "" if is_within(program, root) else program


def _search_folder(expression: str, walk: Walk, names: str, patience: float, rg: str) -> list[tuple[str, int]]:
    """Return the places below a folder that match, in files that fit."""
    fits = compile_glob(names if "/" in names else f"**/{names or '*'}")
    targets = [walk.base]
    if not rg:
        targets = [os.path.join(walk.base, path) for path in walk.paths() if fits(path)]
    hits = [(os.path.relpath(path, walk.base), line) for path, line in _search(expression, targets, patience, rg)]
    return [(path, line) for path, line in hits if fits(path) and not walk.passes_over(path)]


def _search(expression: str, targets: Sequence[str], patience: float, rg: str) -> list[tuple[str, int]]:
    """Return the places that match in these files, or with `rg` below a folder. Raises Refused."""
    program = [sys.executable, "-I", "-S", search_worker.__file__, expression]
    text = b"\0".join(map(os.fsencode, targets))
    if rg:
        skipped = [f"--glob=!**/{name}" for name in _SKIPPED]
        program = [rg, *_RG, *skipped, f"--regexp={expression}", "--", *targets]
        text = b""
    printed = bytearray()
    errors = bytearray()
    try:
        code = listen(
            program,
            lambda part: printed.extend(part[: MAX_HITS_BYTES - len(printed)]),
            folder=os.sep,
            environment=os.environ,
            deadline=patience,
            text=text,
            hear_errors=errors.extend,
        )
    except TimeoutError:
        raise Refused(
            f"the search was given up after {patience:g} seconds: make the expression simpler, or narrow it with path"
        ) from None
    if code == 2 and not printed:
        why = one_line(errors.decode("utf-8", "replace").strip().rpartition("\n")[2], 200)
        raise Refused(f"the expression cannot be read: {why}. Write \\( for a plain (")
    return [(path, int(line)) for path, line in _HIT.findall(os.fsdecode(bytes(printed)))]


def _read_lines(root: str, place: ResolvedPath) -> list[str]:
    """Return the lines of a text file; none of any other."""
    with suppress(OSError, MemsheafError):
        content = fetch(root, place)
        if content and b"\0" not in content.data:
            text = content.data.decode("utf-8", "replace").removeprefix(BOM)
            return [line.removesuffix("\r") for line in text.split("\n")]
    return []


def mask_lines(lines: Sequence[str], first: int, last: int) -> list[str]:
    """Return lines of a text, from `first` up to `last`, cut, and without the secrets that they are a part of."""
    before = max(0, first - SECRET_MARGIN_LINES)
    around = [line[:MAX_MASKED_CHARS] for line in lines[before : last + SECRET_MARGIN_LINES]]
    masked = mask_secrets("\n".join(around))
    return masked.split("\n")[first - before : last - before]


def mask_secrets(text: str) -> str:
    """Return the text without its secrets, with as many lines as before."""
    for secret in reversed(find_secrets(text)):
        breaks = "\n" * text.count("\n", secret.start, secret.end)
        text = f"{text[: secret.start]}{REMOVED}{secret.kind}]{breaks}{text[secret.end :]}"
    return text


def _join_path(base: ResolvedPath, path: str) -> str:
    """Return a path below a folder as it is named elsewhere."""
    prefix = "" if base.shown == "." else base.shown.rstrip("/")
    whole = f"{prefix}/{path}" if path and (prefix or base.outside) else f"{prefix}{path}"
    return whole if whole.isprintable() else ascii(whole)
