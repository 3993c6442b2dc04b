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
from threading import Timer
from typing import IO, NamedTuple

from memsheaf.errors import CitationRefused, PathRefused
from memsheaf.guard.citations import is_inside, lines_of, parse
from memsheaf.guard.symbols import word
from memsheaf.limits import TimeUp
from memsheaf.scope import FOLDER, around
from memsheaf.store import HISTORY
from memsheaf.store.folder import FolderStore
from memsheaf.store.safe_dir import Folder, read_file, walk
from memsheaf.text.neutralize import plain_name

FILE_LIMIT = 1 << 20
MAX_FILES = 20_000
MAX_DEPTH = 40
SCAN_LIMIT = 64 << 20  # bytes that are searched for words where git does not do it
KEEP_LIMIT = 16 << 20  # bytes of texts that are cached
PATIENCE = 2.0  # seconds that git may take
THOROUGH = 15.0  # seconds that it may take to look at all of a repository
FOUND = 20  # objects with an erased text that are named
_SKIPPED = frozenset({"node_modules", "bower_components", "__pycache__", "site-packages", "venv"})
_QUIET = (
    "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false",
    "-c", "submodule.recurse=false", "-c", "log.showSignature=false",
)  # fmt: skip
_LIST = ("ls-files", "-z", "-t", "--stage", "--cached", "--others", "--deleted", "--exclude-standard")
_OBJECTS = (
    "cat-file", "--batch-all-objects", "--unordered", "--buffer", "--batch=%(objectname) %(objecttype) %(objectsize)",
)  # fmt: skip
_KINDS = {"160000": "folder", "120000": "link"}
_LOG = ("log", "-z", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--format=%x01%an", "--name-only",
        "-n", "2000", "--")  # fmt: skip
_HURRY = 0.5  # seconds: somebody waits for a prompt
_GREP = ("grep", "--untracked", "-F", "-w", "-I", "-h", "-o", "--no-color", "--no-line-number", "--no-column")


class _Listing(NamedTuple):
    """The files of a tree; those of the repositories within it, which git does not look into; are these all?"""

    files: Sequence[str]
    nested: Sequence[str]
    whole: bool


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
        self._room = KEEP_LIMIT
        self._listing: _Listing | None = None

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
        """The lines of a text; None for what is not there, no text, over 1 MiB, or behind a link."""
        if path in self._texts:
            return self._texts[path]
        data = self._read(path)
        lines = None if data is None else lines_of(data)
        if (size := len(data or b"")) <= self._room:
            self._room -= size
            self._texts[path] = lines
        return lines

    def has(self, path: str) -> bool:
        """Whether something is there; yes also when a link or a closed folder keeps us from seeing it."""
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
        """The paths of the files: those git knows or would add, and those of repositories within."""
        return self._look().files

    @property
    def whole(self) -> bool:
        """Whether `files` are all there are."""
        return self._look().whole

    def absent(self, words: Collection[str]) -> Collection[str]:
        """Those of the words that are in no text; none when the tree is too large to tell."""
        listing = self._look()
        left = self._git.left(words, self._apart) if self._git else None
        if left is None:
            self._git = None  # it failed or was too slow, and would be again
        files = listing.files if left is None else listing.nested
        waiting = set(words if left is None else left)
        room = SCAN_LIMIT
        for path in files:
            if not waiting:
                break
            data = self._read(path) or b""
            room -= len(data)
            if room < 0:
                return set()
            waiting -= {each for each in waiting if each.encode() in data and word(each).search(data)}
        return waiting if listing.whole or not files else set()

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
                data = read_file(folder, name, FILE_LIMIT + 1)
        except (OSError, ValueError, PathRefused):
            return None
        return data if len(data) <= FILE_LIMIT and b"\0" not in data else None

    def _look(self) -> _Listing:
        """See once which files there are."""
        if self._listing is None:
            listed = self._git.listed() if self._git else None
            if listed is None:
                self._git = None
                found, whole = self._walk("")
                nested: list[str] = []
            else:
                found, folders = listed
                walks = [self._walk(f"{folder}/") for folder in folders if is_inside(folder)]
                nested = [path for paths, _ in walks for path in paths]
                whole = all(ended for _, ended in walks)
            files = [path for path in (*found, *nested) if is_inside(path) and not path.startswith(self._apart)]
            self._listing = _Listing(sorted(files)[:MAX_FILES], nested, whole and len(files) <= MAX_FILES)
        return self._listing

    def _walk(self, start: str) -> tuple[list[str], bool]:
        """The files below a folder without those that tools made, and whether they are all; no link is followed."""
        found: list[str] = []
        waiting = [start]
        seen = 0
        while waiting:
            prefix = waiting.pop()
            with suppress(OSError, ValueError, PathRefused), walk(self._root, f"{prefix}any") as (folder, _):
                for entry in folder.scan():
                    seen += 1
                    if seen > 2 * MAX_FILES or len(found) > MAX_FILES:
                        return found, False
                    if entry.is_file(follow_symlinks=False):
                        found.append(prefix + entry.name)
                    elif entry.is_dir(follow_symlinks=False) and not (
                        entry.name.startswith(".") or entry.name in _SKIPPED or prefix.count("/") >= MAX_DEPTH
                    ):
                        waiting.append(f"{prefix}{entry.name}/")
        return found, True


def committers(root: str, files: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Who last committed these files (path, version) of a folder, "" for none; {} without an answer in time."""
    tree = around(root)
    git = _Git.at(tree)
    below = _relative(os.path.realpath(root), tree)
    names = git.committers([f"{below}/{path}" for path, _ in files]) if git else None
    return {} if names is None else {file: names.get(f"{below}/{file[0]}", "") for file in files}


class _Git:
    """Git, asked about one working tree, and kept from running anything it finds there."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = command
        self._environment = environment

    @classmethod
    def at(cls, root: str, environment: Mapping[str, str] = os.environ, *, bare: bool = False) -> _Git | None:
        """Git for a checkout, or for a bare repository; None when this is none, or there is no git outside it."""
        path = environment.get("PATH", "")
        program = _program(path, root)
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

    def listed(self) -> tuple[list[str], list[str]] | None:
        """The files that are there, and the folders that are repositories of their own; None without an answer."""
        answer = self._answer(*_LIST)
        if answer is None:
            return None
        found: dict[str, str] = {}
        deleted: set[str] = set()
        for entry in answer.split("\0"):
            tag, _, rest = entry.partition(" ")
            mode, _, path = ("", "", rest) if tag == "?" else rest.partition("\t")
            if tag == "R":
                deleted.add(path)
            elif path:
                found[path] = "folder" if path[-1] == "/" else _KINDS.get(mode[:6], "file")
        files = [path for path, kind in found.items() if kind == "file" and path not in deleted]
        return files, [path.rstrip("/") for path, kind in found.items() if kind == "folder"]

    def left(self, words: Collection[str], apart: Sequence[str]) -> set[str] | None:
        """Those of the words that are in no file outside the folders `apart`; None without an answer."""
        waiting = {each.encode(): each for each in words}
        wanted = [part for each in words for part in ("-e", each)]
        places = ("--", ":(top)", *(f":(top,exclude,literal){folder}" for folder in apart))
        try:
            with self._running(*_GREP, *wanted, *places) as (output, ended):
                for line in output:
                    if waiting.pop(line.removesuffix(b"\n"), None) and not waiting:
                        return set()
                return set(waiting.values()) if ended() in (0, 1) else None
        except OSError:
            return None

    def committers(self, paths: Sequence[str]) -> dict[str, str] | None:
        """Who committed each of these files last, on one line each; None without an answer in time."""
        answer = self._answer(*_LOG, *(f":(top,literal){path}" for path in paths), seconds=_HURRY, most=FILE_LIMIT)
        if answer is None:
            return None
        found: dict[str, str] = {}
        for commit in answer.split("\1"):
            who, *names = commit.split("\0")
            for name in names:
                found.setdefault(name.lstrip("\n"), plain_name(who))
        return found

    def lines(self, *words: str) -> list[str] | None:
        """What git prints, cut at zeros; None without an answer."""
        answer = self._answer(*words)
        return None if answer is None else answer.split("\0")[:-1]

    def _answer(self, *words: str, seconds: float = PATIENCE, most: int = SCAN_LIMIT) -> str | None:
        try:
            with self._running(*words, seconds=seconds) as (output, ended):
                answer = output.read(most)
                return os.fsdecode(answer) if ended() == 0 else None
        except OSError:
            return None

    def objects(self, seconds: float) -> Iterator[tuple[str, str, bytes]]:
        """The kind, the name and the bytes of every object of the repository. Raises TimeUp, OSError."""
        with self._running(*_OBJECTS, seconds=seconds) as (output, ended):
            while line := output.readline():
                name, kind, size = line.decode().split()
                data = output.read(int(size) + 1)[:-1]
                if len(data) == int(size):
                    yield kind, name, data
            if ended() != 0:
                raise TimeUp

    @contextmanager
    def _running(self, *words: str, seconds: float = PATIENCE) -> Iterator[tuple[IO[bytes], Callable[[], int]]]:
        """Run git with a time-out: its output, and its exit code."""
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
    """The files below a root that git has in its index, as they are called there; None without an answer."""
    git = _Git.at(os.path.realpath(checkout)) if checkout else None
    below = _relative(os.path.realpath(root), os.path.realpath(checkout)) if git else ""
    found = git.lines("ls-files", "-z", "--cached", "--", f":(top,literal){below}") if git else None
    start = "" if below == "." else f"{below}/"
    return None if found is None else [path.removeprefix(start) for path in found]


def in_other_commits(checkout: str, root: str, paths: Collection[str]) -> set[str]:
    """Return the files below a root that a branch or tag of git has, and the present commit has not."""
    git = _Git.at(os.path.realpath(checkout)) if checkout else None
    if git is None:
        return set()
    below = _relative(os.path.realpath(root), os.path.realpath(checkout))
    every = ("log", "HEAD", "--branches", "--remotes", "--tags", "-z", "--format=", "--name-only", "--no-renames")
    committed = git.lines(*every, "--", f":(top,literal){below}") or ()
    present = tracked(checkout, root) or ()
    return {path for path in paths if f"{below}/{path}" in {*committed} and path not in present}


def tracked_private(checkout: str, root: str) -> list[str]:
    """The private files that git tracks, by their paths in the checkout: journals, sessions, logs."""
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


def remains(checkout: str, root: str, pieces: Collection[bytes]) -> list[str]:
    """Where git still has a piece of these texts: commits, index, objects, working tree; or that it stopped early."""
    git = _Git.at(checkout)
    if git is None or not pieces:
        return ["git's history, which was not searched: there is no git to ask"] if git is None else []
    wanted = re.compile(b"|".join(map(re.escape, sorted(pieces))))
    found, said, until = [], [], time.monotonic() + THOROUGH
    try:
        for kind, name, data in git.objects(THOROUGH):
            if kind != "tree" and wanted.search(data):
                found.append((kind, name))
                if len(found) > FOUND or time.monotonic() > until:
                    raise TimeUp
    except (TimeUp, OSError, ValueError):
        said.append("git's history, which was not searched to the end")
    staged = dict(entry.split(" ", 1)[1].split(" ", 1) for entry in git.lines("ls-files", "-z", "--stage") or ())
    for kind, name in found[:FOUND]:
        if time.monotonic() > until + THOROUGH:
            break
        words = ("log", "-z", "--all", "--reflog", "--format=%h of %cs", "-n", "3", f"--find-object={name}")
        commits = (git.lines(*words) if kind == "blob" else [name[:12]]) or []
        said += [f"git's commit {commit}" for commit in commits]
        said += [f"git's index: {staged[name].partition(chr(9))[2]}"] if name in staged else []
        said += [f"git's object {name[:12]}, in no commit"] if not commits and name not in staged else []
    with WorkingTree.open(checkout, memories=root) as tree:
        for path in tree.files():
            if wanted.search(b"\n".join(tree.lines(path) or ())):
                said.append(f"the working tree: {path}")
            if time.monotonic() > until + THOROUGH:
                return [*said, "the working tree, which was not searched to the end"]
    return list(dict.fromkeys(said))


def search_bare(repository: str, pieces: Collection[bytes]) -> str:
    """Why a bare repository may still have a piece of some texts, "" when it has none."""
    if not pieces or not os.path.lexists(repository):
        return ""
    wanted = re.compile(b"|".join(map(re.escape, sorted(pieces))))
    git = _Git.at(repository, bare=True)
    try:
        if git and not any(wanted.search(data) for kind, _, data in git.objects(THOROUGH) if kind != "tree"):
            return ""
    except (TimeUp, OSError, ValueError):
        git = None
    return "git has it" if git else "it was not searched"


def _program(path: str, root: str) -> str:
    """The git that is installed; one inside the tree does not count, nor one that depends on where we are."""
    for folder in path.split(os.pathsep):
        real = os.path.realpath(folder)
        if os.path.isabs(folder) and os.path.commonpath([real, root]) != root:
            program = os.path.join(folder, "git")
            if os.path.isfile(program) and os.access(program, os.X_OK):
                return program
    return ""


def _relative(path: str, root: str) -> str:
    return os.path.relpath(os.path.normpath(path), root).replace(os.sep, "/")
