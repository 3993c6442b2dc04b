"""A working tree on disk, read-only, as citations are checked against it; and what git knows of it.

Git says which files there are and which words they hold, if it is there and answers in time; otherwise the folder is
walked. Nothing that a repository brings along is run: no hook, no monitor, no program of its own called git.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from threading import Timer
from typing import IO, NamedTuple

from memsheaf.errors import CitationRefused, PathRefused
from memsheaf.guard.citations import is_inside, lines_of, parse
from memsheaf.guard.symbols import word
from memsheaf.scope import FOLDER, around
from memsheaf.store import HISTORY
from memsheaf.store.folder import FolderStore
from memsheaf.store.safe_dir import Folder, read_file, walk
from memsheaf.text.neutralize import plain_name

MAX_FILE_BYTES = 1 << 20
MAX_FILES = 20_000
MAX_DEPTH = 40
MAX_CACHED_BYTES = 16 << 20
MAX_ANSWER_BYTES = 64 << 20
MAX_NAMED_OBJECTS = 20  # of those with an erased text
QUESTION_SECONDS = 2.0
PROMPT_SECONDS = 0.5  # somebody waits for a prompt
SEARCH_SECONDS = 15.0  # for all of a repository
_SKIPPED = frozenset({"node_modules", "bower_components", "__pycache__", "site-packages", "venv"})
_QUIET = [
    *("--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.untrackedCache=false", "-c", "submodule.recurse=false", "-c", "log.showSignature=false"),
]
_LIST = ["ls-files", "-z", "-t", "--stage", "--cached", "--others", "--deleted", "--exclude-standard"]
_GREP = ["grep", "--untracked", "-F", "-w", "-I", "-h", "-o", "--no-color", "--no-line-number", "--no-column"]
_LOG = ["log", "-z", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--format=%x01%an", "--name-only"]
_ALL_LOG = ["log", "HEAD", "--branches", "--remotes", "--tags", "-z", "--format=", "--name-only", "--no-renames"]
_OBJECTS = [
    *("cat-file", "--batch-all-objects", "--unordered", "--buffer"),
    "--batch=%(objectname) %(objecttype) %(objectsize)",
]


class _Listing(NamedTuple):
    """The files of a tree, and those of the repositories within it, which git does not look into."""

    files: Sequence[str]
    nested: Sequence[str]
    is_whole: bool


class WorkingTree:
    """A working tree. Files are read once; open another to see changes.

    >>> with WorkingTree.open(around(".")) as tree:                              # doctest: +SKIP
    ...     print(check(Citation("src/app.py", 12), tree).said)
    """

    def __init__(self, root: Folder, git: _Git | None, apart: Iterable[str]) -> None:
        self.root = root.path
        self._root = root
        self._git = git
        self._apart = tuple(f"{path}/" for path in apart)
        self._texts: dict[str, list[bytes] | None] = {}
        self._room = MAX_CACHED_BYTES

    @classmethod
    def open(cls, folder: str, *, memories: str = "", environment: Mapping[str, str] = os.environ) -> WorkingTree:
        """Open a working tree, without the folder `memories`, which is no evidence. Raises CitationRefused."""
        path = os.path.realpath(folder)
        try:
            root = Folder.open(path)
        except OSError as error:
            raise CitationRefused(f"the folder {path!r} cannot be read: {error.strerror}") from None
        apart = {FOLDER, _relative(os.path.realpath(memories), path) if memories else ""}
        return cls(root, _Git.at(path, environment), filter(is_inside, apart))

    def close(self) -> None:
        """Let the folder go."""
        self._root.close()

    def __enter__(self) -> WorkingTree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lines(self, path: str) -> Sequence[bytes] | None:
        """Return the lines of a text; None for what is not there, no text, over 1 MiB, or behind a link."""
        if path in self._texts:
            return self._texts[path]
        data = self._read(path)
        lines = None if data is None else lines_of(data)
        if (size := len(data or b"")) <= self._room:
            self._room -= size
            self._texts[path] = lines
        return lines

    def has(self, path: str) -> bool:
        """Return True if something is there; also when a link or a closed folder keeps us from seeing it."""
        if not is_inside(path):
            return False
        try:
            with walk(self._root, path) as (folder, name):
                folder.stat(name)
        except PathRefused as error:
            return os.path.islink(error.path)
        except (OSError, ValueError) as error:
            return isinstance(error, PermissionError)
        return True

    def files(self) -> Sequence[str]:
        """Return the paths of the files: those git knows or would add, and those of repositories within."""
        return self._listing.files

    @property
    def whole(self) -> bool:
        """True if `files` are all there are."""
        return self._listing.is_whole

    @cached_property
    def _listing(self) -> _Listing:
        files, folders = self._git.list_files() if self._git else (None, [])
        if files is None:  # it failed or was too slow, and would be again
            self._git = None
            files, folders = [], [""]
        walks = [self._walk(folder) for folder in folders if not folder or is_inside(folder[:-1])]
        nested = [path for paths, _ in walks for path in paths]
        every = sorted(path for path in (*files, *nested) if is_inside(path) and not path.startswith(self._apart))
        is_whole = all(ended for _, ended in walks) and len(every) <= MAX_FILES
        return _Listing(every[:MAX_FILES], nested, is_whole)

    def absent(self, words: Collection[str]) -> Collection[str]:
        """Return those of the words that are in no text; none when the tree is too large to tell."""
        listing = self._listing
        left = self._git.find_absent(words, self._apart) if self._git else None
        files = listing.files if left is None else listing.nested
        waiting = set(words if left is None else left)
        room = MAX_ANSWER_BYTES
        for path in files:
            data = self._read(path) or b""
            room -= len(data)
            if not waiting or room < 0:
                break
            waiting -= {each for each in waiting if each.encode() in data and word(each).search(data)}
        return waiting if room >= 0 and (listing.is_whole or not files) else set()

    def spelled(self, text: str, cwd: str) -> str:
        """A citation that was typed in a folder of the tree, as it is written from the root."""
        inside = _relative(os.path.join(os.path.realpath(cwd), text), self.root)
        citation = parse(inside, typed=True)
        return inside if citation and self.has(citation.path) else text

    def _read(self, path: str) -> bytes | None:
        if not is_inside(path):
            return None
        try:
            with walk(self._root, path) as (folder, name):
                data = read_file(folder, name, MAX_FILE_BYTES + 1)
        except (OSError, ValueError, PathRefused):
            return None
        return data if len(data) <= MAX_FILE_BYTES and b"\0" not in data else None

    def _walk(self, start: str) -> tuple[list[str], bool]:
        """Return the files below a folder without those that tools made, and True if all; no link is followed."""
        files: list[str] = []
        waiting = [start]
        seen = 0
        while waiting:
            prefix = waiting.pop()
            with suppress(OSError, ValueError, PathRefused), walk(self._root, f"{prefix}any") as (folder, _):
                for entry in folder.scan():
                    seen += 1
                    if seen > 2 * MAX_FILES or len(files) > MAX_FILES:
                        return files, False
                    if entry.is_file(follow_symlinks=False):
                        files.append(prefix + entry.name)
                    elif entry.is_dir(follow_symlinks=False) and not (
                        entry.name.startswith(".") or entry.name in _SKIPPED or prefix.count("/") >= MAX_DEPTH
                    ):
                        waiting.append(f"{prefix}{entry.name}/")
        return files, True


def committers(root: str, files: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return who last committed these files (path, version) of a folder, "" for none; {} without an answer."""
    tree = around(root)
    git = _Git.at(tree)
    below = _relative(os.path.realpath(root), tree)
    places = {file: f"{below}/{file[0]}" for file in files}
    wanted = [f":(top,literal){place}" for place in places.values()]
    answer = git.ask(*_LOG, "-n", "2000", "--", *wanted, seconds=PROMPT_SECONDS) if git else None
    if answer is None:
        return {}
    authors: dict[str, str] = {}
    for commit in answer.split("\1"):
        who, *names = commit.split("\0")
        for name in names:
            authors.setdefault(name.lstrip("\n"), plain_name(who))
    return {file: authors.get(place, "") for file, place in places.items()}


class _Git:
    """Git, asked about one working tree, and kept from running anything it finds there."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment

    @classmethod
    def at(cls, root: str, environment: Mapping[str, str] = os.environ, *, bare: bool = False) -> _Git | None:
        """Return git for a checkout, or a bare repository; None when this is none, or no git is installed."""
        path = environment.get("PATH", "")
        program = _find_program(path, root)
        if not program or not os.path.lexists(os.path.join(root, "HEAD" if bare else ".git")):
            return None
        own = {
            "PATH": path,
            "HOME": environment.get("HOME", ""),
            "LC_ALL": "C",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",  # objects that are missing would be fetched by a program of its choice
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_CEILING_DIRECTORIES": os.path.dirname(root),  # a repository further out is not this one
        }
        return cls((program, *_QUIET, "-C", root, "--git-dir=." if bare else f"--work-tree={root}"), own)

    def list_files(self) -> tuple[list[str] | None, list[str]]:
        """Return the files that are there, None without an answer; and the folders of repositories within."""
        answer = self.ask(*_LIST)
        if answer is None:
            return None, []
        kinds: dict[str, str] = {}
        for entry in answer.split("\0"):
            tag, _, rest = entry.partition(" ")
            mode, _, path = ("", "", rest) if tag == "?" else rest.partition("\t")
            if tag == "R" or mode.startswith("120000"):
                kinds[path] = "removed or a link"
            elif path.endswith("/") or mode.startswith("160000"):
                kinds[path] = "repository"
            elif path:
                kinds.setdefault(path, "file")
        folders = [f"{path.rstrip('/')}/" for path, kind in kinds.items() if kind == "repository"]
        return [path for path, kind in kinds.items() if kind == "file"], folders

    def find_absent(self, words: Collection[str], apart: Sequence[str]) -> set[str] | None:
        """Return those of the words that are in no file outside the folders `apart`; None without an answer."""
        wanted = [part for word in words for part in ("-e", word)]
        places = ("--", ":(top)", *(f":(top,exclude,literal){folder}" for folder in apart))
        answer = self.ask(*_GREP, *wanted, *places, codes=(0, 1))
        return None if answer is None else set(words).difference(answer.split("\n"))

    def lines(self, *words: str) -> list[str] | None:
        """Return what git prints, cut at zeros; None without an answer."""
        answer = self.ask(*words)
        return None if answer is None else answer.split("\0")[:-1]

    def ask(self, *words: str, seconds: float = QUESTION_SECONDS, codes: Collection[int] = (0,)) -> str | None:
        """Return what git prints; None when it takes too long or ends with another code."""
        try:
            with self._running(*words, seconds=seconds) as (output, wait):
                answer = output.read(MAX_ANSWER_BYTES)
                return os.fsdecode(answer) if wait() in codes else None
        except OSError:
            return None

    def search(self, pieces: Collection[bytes]) -> tuple[list[tuple[str, str]], bool]:
        """Return the kind and the name of objects that hold a piece, and True if all were searched."""
        wanted = re.compile(b"|".join(map(re.escape, sorted(pieces))))
        objects: list[tuple[str, str]] = []
        try:
            with self._running(*_OBJECTS, seconds=SEARCH_SECONDS) as (output, wait):
                while line := output.readline():
                    name, kind, size = line.decode().split()
                    data = output.read(int(size) + 1)
                    if kind != "tree" and wanted.search(data):
                        objects.append((kind, name))
                    if len(objects) > MAX_NAMED_OBJECTS:
                        return objects, False
                return objects, wait() == 0
        except (OSError, ValueError):
            return objects, False

    @contextmanager
    def _running(self, *words: str, seconds: float) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
        """Run git with a time-out: its output, and a function that waits for its exit code."""
        from subprocess import DEVNULL, PIPE, Popen

        command = [*self._command, *words]
        with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=self._environment) as process:
            assert process.stdout is not None
            timer = Timer(seconds, process.kill)
            timer.start()
            try:
                yield process.stdout, process.wait
            finally:
                process.kill()
                timer.cancel()


def tracked(checkout: str, root: str) -> list[str] | None:
    """Return the files below a root that git has in its index, by their paths there; None without an answer."""
    git = _Git.at(os.path.realpath(checkout)) if checkout else None
    if git is None:
        return None
    below = _relative(os.path.realpath(root), os.path.realpath(checkout))
    paths = git.lines("ls-files", "-z", "--cached", "--", f":(top,literal){below}")
    return None if paths is None else [path.removeprefix(f"{below}/") for path in paths]


def in_other_commits(checkout: str, root: str, paths: Collection[str]) -> set[str]:
    """Return the files below a root that a branch or tag of git has, and the present commit has not."""
    git = _Git.at(os.path.realpath(checkout)) if checkout else None
    if git is None:
        return set()
    below = _relative(os.path.realpath(root), os.path.realpath(checkout))
    committed = set(git.lines(*_ALL_LOG, "--", f":(top,literal){below}") or ())
    present = tracked(checkout, root) or ()
    return {path for path in paths if f"{below}/{path}" in committed and path not in present}


def tracked_private(checkout: str, root: str) -> list[str]:
    """Return the private files that git tracks, by their paths in the checkout: journals, sessions, logs."""
    below = _relative(os.path.realpath(root), os.path.realpath(checkout)) if checkout else "."
    return [
        os.path.normpath(f"{below}/{path}")
        for path in tracked(checkout, root) or ()
        if HISTORY in path.split("/") or path.partition("/")[0] in ("sessions", "logs")
    ]


def bring_journal(store: FolderStore) -> None:
    """Move a journal that an earlier version kept among the memories to its place, unless it came with a commit."""
    if tracked(store.checkout, os.path.join(store.root, HISTORY)) == []:
        store.bring_journal()


def find_in_checkout(checkout: str, root: str, pieces: Collection[bytes]) -> list[str]:
    """Return where git still has a piece of these texts: commits, other objects, the working tree."""
    git = _Git.at(checkout)
    if git is None:
        return ["git's history, which was not searched: there is no git to ask"]
    if not pieces:
        return []
    objects, is_whole = git.search(pieces)
    places = [] if is_whole else ["git's history, which was not searched to the end"]
    for kind, name in objects[:MAX_NAMED_OBJECTS]:
        commits: list[str] | None = [name[:12]]
        if kind == "blob":
            words = ("--all", "--reflog", "--format=%h of %cs", "-n", "3", f"--find-object={name}")
            commits = git.lines("log", "-z", *words)
        places += [f"git's commit {commit}" for commit in commits or ()]
        places += [] if commits else [f"git's object {name[:12]}, in no commit"]
    until = time.monotonic() + SEARCH_SECONDS
    with WorkingTree.open(checkout, memories=root) as tree:
        for path in tree.files():
            text = b"\n".join(tree.lines(path) or ())
            if any(piece in text for piece in pieces):
                places.append(f"the working tree: {path}")
            if time.monotonic() > until:
                places.append("the working tree, which was not searched to the end")
                break
    return list(dict.fromkeys(places))


def find_in_bare(repository: str, pieces: Collection[bytes]) -> str:
    """Return why a bare repository may still have a piece of some texts, "" when it has none."""
    if not pieces or not os.path.lexists(repository):
        return ""
    git = _Git.at(repository, bare=True)
    objects, is_whole = git.search(pieces) if git else ([], False)
    if objects:
        return "git has it"
    return "" if is_whole else "it was not searched"


def _find_program(path: str, root: str) -> str:
    """Return the git that is installed; one inside the tree does not count, nor one that depends on where we are."""
    for folder in path.split(os.pathsep):
        real = os.path.realpath(folder)
        if os.path.isabs(folder) and os.path.commonpath([real, root]) != root:
            program = os.path.join(folder, "git")
            if os.path.isfile(program) and os.access(program, os.X_OK):
                return program
    return ""


def _relative(path: str, root: str) -> str:
    return os.path.relpath(os.path.normpath(path), root).replace(os.sep, "/")
