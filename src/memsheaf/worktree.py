"""The working trees of projects: read-only, as citations are checked against them; what git knows of them; and where
they were last seen.

Git says which files there are and which words they hold, if it is there and answers in time; otherwise the folder is
walked. Nothing that a repository brings along is run: no hook, no monitor, no program of its own called git.

A project in no repository of its own folder is named after the path of its tree. `tree.json` in its state has that
path, and the times at which some files and folders in the tree were changed. Where a tree has no record yet, it is
compared with those that are gone: a folder keeps these times when it is moved, and two projects do not share them. A
person decides: `memsheaf restore --from PATH` brings the memory, and `--dismiss` leaves it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from shlex import quote
from threading import Timer
from typing import NamedTuple

from memsheaf.errors import MemsheafError, PathRefused, Refused
from memsheaf.guard.citations import is_inside, lines_of, parse, word
from memsheaf.scope import (
    FOLDER,
    KnownScope,
    Places,
    around,
    find_repository,
    inside,
    is_log_root,
    list_roots,
    named_folders,
    private_root,
    project_root,
    project_tree,
)
from memsheaf.state import State
from memsheaf.store import HISTORY
from memsheaf.store.folder import FolderStore
from memsheaf.store.git_checkout import IGNORED, keep_out_of_git
from memsheaf.store.safe_dir import Folder, read_file, walk

MAX_FILE_BYTES = 1 << 20
MAX_FILES = 20_000
MAX_DEPTH = 40
MAX_ANSWER_BYTES = 64 << 20
MAX_NAMED_OBJECTS = 20  # of those with an erased text
QUESTION_SECONDS = 2.0
SEARCH_SECONDS = 15.0  # for all of a repository
TREE_RECORD = "tree"
MAX_RECORDED_ENTRIES = 16
_SKIPPED = frozenset({"node_modules", "bower_components", "__pycache__", "site-packages", "venv"})
_QUIET = [
    *("--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "core.untrackedCache=false", "-c", "submodule.recurse=false", "-c", "log.showSignature=false"),
]
_LIST = ["ls-files", "-z", "-t", "--stage", "--cached", "--others", "--deleted", "--exclude-standard"]
_GREP = ["grep", "--untracked", "-F", "-w", "-I", "-h", "-o", "--no-color", "--no-line-number", "--no-column"]
_ALL_LOG = ["log", "HEAD", "--branches", "--remotes", "--tags", "-z", "--format=", "--name-only", "--no-renames"]
_OBJECTS = [
    *("cat-file", "--batch-all-objects", "--unordered", "--buffer"),
    "--batch=%(objectname) %(objecttype) %(objectsize)",
]


class WorkingTree:
    """A working tree. Files are read once; open another to see changes.

    >>> with WorkingTree(around(".")) as tree:                              # doctest: +SKIP
    ...     print(check(Citation("src/app.py", 12), tree).said)
    """

    def __init__(self, folder: str, *, memories: str = "", environment: Mapping[str, str] = os.environ) -> None:
        """Open a working tree, without the folder `memories`, which is no evidence. Raises Refused."""
        self.root = os.path.realpath(folder)
        try:
            self._root = Folder.open(self.root)
        except OSError as error:
            why = f"the folder {self.root!r} cannot be read: {error.strerror}"
            raise Refused(why, hint="Name a folder that is there.") from None
        apart = {FOLDER, _relative(os.path.realpath(memories), self.root) if memories else ""}
        self._apart = tuple(f"{path}/" for path in filter(is_inside, apart))
        self._git = _Git.at(self.root, environment)
        self._texts: dict[str, list[bytes] | None] = {}

    def close(self) -> None:
        """Let the folder go."""
        self._root.close()

    def __enter__(self) -> WorkingTree:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lines(self, path: str) -> Sequence[bytes] | None:
        """Return the lines of a text; None for what is not there, no text, over 1 MiB, or behind a link."""
        if path not in self._texts:
            data = self._read(path)
            self._texts[path] = None if data is None else lines_of(data)
        return self._texts[path]

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
        """Return the paths of the files: those that git knows or would add."""
        return self._listing[0]

    @property
    def whole(self) -> bool:
        """True if `files` are all there are."""
        return self._listing[1]

    @cached_property
    def _listing(self) -> tuple[Sequence[str], bool]:
        """The files, and True if these are all: repositories within are not looked into."""
        listed = self._git.list_files() if self._git else None
        if listed is None:  # git failed or was too slow, and would be again
            self._git = None
            listed = self._walk()
        files, is_whole = listed
        inside = sorted(path for path in files if is_inside(path) and not path.startswith(self._apart))
        return inside[:MAX_FILES], is_whole and len(inside) <= MAX_FILES

    def absent(self, words: Collection[str]) -> Collection[str]:
        """Return those of the words that are in no text; none when that cannot be told."""
        files, is_whole = self._listing
        if not is_whole:
            return set()
        if self._git and (absent := self._git.find_absent(words, self._apart)) is not None:
            return absent
        waiting = set(words)
        room = MAX_ANSWER_BYTES
        for path in files:
            data = self._read(path) or b""
            room -= len(data)
            waiting -= {each for each in waiting if each.encode() in data and word(each).search(data)}
            if room < 0:
                return set()
        return waiting

    def spell_from_root(self, text: str, cwd: str) -> str:
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

    def _walk(self) -> tuple[list[str], bool]:
        """Return the files without those that tools made, and True if these are all. No link is followed."""
        files: list[str] = []
        waiting = [""]
        seen = 0
        while waiting:
            prefix = waiting.pop()
            with suppress(OSError, ValueError, PathRefused), walk(self._root, f"{prefix}any") as (folder, _):
                for entry in folder.scan():
                    seen += 1
                    if seen > 2 * MAX_FILES:
                        return files, False
                    is_made = entry.name.startswith(".") or entry.name in _SKIPPED
                    if entry.is_file(follow_symlinks=False):
                        files.append(prefix + entry.name)
                    elif entry.is_dir(follow_symlinks=False) and not is_made and prefix.count("/") < MAX_DEPTH:
                        waiting.append(f"{prefix}{entry.name}/")
        return files, True


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

    def list_files(self) -> tuple[list[str], bool] | None:
        """Return the files that are there, and True if there is no repository within; None without an answer."""
        answer = self.ask(*_LIST)
        if answer is None:
            return None
        files: set[str] = set()
        unlisted: set[str] = set()
        is_whole = True
        for entry in filter(None, answer.split("\0")):
            tag, _, rest = entry.partition(" ")
            mode, _, path = ("", "", rest) if tag == "?" else rest.partition("\t")
            if tag == "R" or mode.startswith("120000"):  # removed, or a link
                unlisted.add(path)
            elif path.endswith("/") or mode.startswith("160000"):
                is_whole = False
            else:
                files.add(path)
        return list(files - unlisted), is_whole

    def find_absent(self, words: Collection[str], apart: Sequence[str]) -> set[str] | None:
        """Return those of the words that are in no file outside the folders `apart`; None without an answer."""
        wanted = [part for word in words for part in ("-e", word)]
        places = ("--", ":(top)", *(f":(top,exclude,literal){folder}" for folder in apart))
        answer = self.ask(*_GREP, *wanted, *places, codes=(0, 1))
        return None if answer is None else set(words).difference(answer.split("\n"))

    def ask(self, *words: str, seconds: float = QUESTION_SECONDS, codes: Collection[int] = (0,)) -> str | None:
        """Return what git prints; None when it takes too long or ends with another code."""
        import subprocess

        command = [*self._command, *words]
        quiet = subprocess.DEVNULL
        try:
            done = subprocess.run(
                command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, env=self._environment, timeout=seconds
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return os.fsdecode(done.stdout) if done.returncode in codes else None

    def search(self, pieces: Collection[bytes]) -> tuple[list[tuple[str, str]], bool]:
        """Return the kind and the name of objects that hold a piece, and True if all were searched."""
        from subprocess import DEVNULL, PIPE, Popen

        wanted = re.compile(b"|".join(map(re.escape, sorted(pieces))))
        objects: list[tuple[str, str]] = []
        command = [*self._command, *_OBJECTS]
        try:
            with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, env=self._environment) as process:
                timer = Timer(SEARCH_SECONDS, process.kill)
                timer.start()
                try:
                    assert process.stdout is not None
                    while line := process.stdout.readline():
                        name, kind, size = line.decode().split()
                        data = process.stdout.read(int(size) + 1)
                        if kind != "tree" and wanted.search(data):
                            objects.append((kind, name))
                        if len(objects) > MAX_NAMED_OBJECTS:
                            return objects, False
                    return objects, process.wait() == 0
                finally:
                    process.kill()
                    timer.cancel()
        except (OSError, ValueError):
            return objects, False


def list_tracked(checkout: str, root: str) -> list[str] | None:
    """Return the files below a root that git has in its index, by their paths there; None without an answer."""
    git = _Git.at(os.path.realpath(checkout)) if checkout else None
    if git is None:
        return None
    below = _relative(os.path.realpath(root), os.path.realpath(checkout))
    answer = git.ask("ls-files", "-z", "--cached", "--", f":(top,literal){below}")
    return None if answer is None else [path.removeprefix(f"{below}/") for path in answer.split("\0")[:-1]]


def list_on_branches(checkout: str, root: str, paths: Collection[str]) -> list[str]:
    """Return the files below a root that a branch or tag of git has, and the present commit has not."""
    git = _Git.at(os.path.realpath(checkout)) if checkout else None
    if git is None or not paths:
        return []
    below = _relative(os.path.realpath(root), os.path.realpath(checkout))
    committed = set((git.ask(*_ALL_LOG, "--", f":(top,literal){below}") or "").split("\0"))
    present = list_tracked(checkout, root) or ()
    return sorted(path for path in paths if f"{below}/{path}" in committed and path not in present)


def list_tracked_private(checkout: str, root: str) -> list[str]:
    """Return the private files that git tracks, by their paths in the checkout: journals, sessions, logs."""
    private = []
    for path in list_tracked(checkout, root) or ():
        steps = path.split("/")
        if HISTORY in steps or steps[0] in ("sessions", "logs"):
            private.append(_relative(os.path.join(os.path.realpath(root), path), os.path.realpath(checkout)))
    return private


def bring_journal(store: FolderStore) -> None:
    """Move a journal that an earlier version kept among the memories to its place, unless it came with a commit."""
    if store.left_journal and list_tracked(store.checkout, os.path.join(store.root, HISTORY)) == []:
        store.bring_journal()


def find_in_checkout(checkout: str, pieces: Collection[bytes]) -> list[str]:
    """Return where git still has a piece of these texts: commits, and other objects."""
    git = _Git.at(checkout)
    if git is None:
        return ["git's history, which was not searched: there is no git to ask"]
    if not pieces:
        return []
    objects, is_whole = git.search(pieces)
    places: dict[str, None] = {}
    if not is_whole:
        places["git's history, which was not searched to the end"] = None
    for kind, name in objects[:MAX_NAMED_OBJECTS]:
        commits = [name[:12]]
        if kind == "blob":
            words = ("--all", "--reflog", "--format=%h of %cs", "-n", "3", f"--find-object={name}")
            commits = (git.ask("log", "-z", *words) or "").split("\0")[:-1]
        for commit in commits:
            places[f"git's commit {commit}"] = None
        if not commits:
            places[f"git's object {name[:12]}, in no commit"] = None
    return list(places)


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


# The stores in a project's folder, and files that went with the whole folder


class LostFiles(NamedTuple):
    """The files of a folder and its inner roots that went with it, and those of them that git has on a branch."""

    files: list[str]
    in_git: list[str]


def open_root(folder: str, root: str, checkout: str) -> FolderStore:
    """Open the store of a root in a project's folder."""
    place = os.path.join(folder, root)
    private = ""
    if is_log_root(root):
        private = place
    elif root.startswith("sessions/"):
        private = os.path.dirname(place)
    store = FolderStore(place, checkout=checkout, private=private)
    bring_journal(store)
    return store


def count_memories(root: str) -> int:
    """Return how many Markdown files a store holds, without opening its index."""
    return sum(1 for entry in FolderStore(root).scan() if entry.path and not entry.path.endswith("/"))


def find_lost(store: FolderStore) -> LostFiles:
    """Return what went with the whole folder of a scope, its tasks, sessions and logs included."""
    files = [inside(root, path) for root, inner in _open_inner(store) for path in inner.lost()]
    return LostFiles(files, list_on_branches(store.checkout, store.root, files))


def restore_lost(store: FolderStore, *, by: str, dismiss: bool) -> list[str]:
    """Bring back what went with the whole folder, or `dismiss` it, and return the files that are back.

    What git has on a branch, and not in the present commit, stays away.
    """
    if not store.may_have_lost():
        return []
    stay_away = find_lost(store).in_git
    restored: list[str] = []
    for root, inner in _open_inner(store):
        lost = inner.lost()
        if dismiss:
            inner.drop_lost(lost)
            continue
        except_for = [path for path in lost if inside(root, path) in stay_away]
        restored += [inside(root, path) for path in inner.restore_lost(except_for=except_for, by=by)]
    if restored and store.root == os.path.join(os.path.realpath(store.checkout), FOLDER):
        with Folder.open(store.root) as folder:
            keep_out_of_git(folder, IGNORED)
    return restored


def _open_inner(store: FolderStore) -> Iterator[tuple[str, FolderStore]]:
    """Yield the stores of the roots within a folder, which may be gone, and then its own."""
    for root in list_roots(store.journals)[1:]:
        yield root, open_root(store.root, root, store.checkout)
    yield "", store


# Where working trees were last seen


def find_tree(scope: KnownScope, places: Places) -> str:
    """Return the working tree for the citations of a scope, "" when unknown or outside of projects."""
    project = scope.project
    if not project:
        return ""
    if project == project_root(places):
        return around(places.cwd)
    if os.path.basename(project) == FOLDER:
        return os.path.dirname(project)
    for folder, root in places.projects:
        tree = os.path.abspath(os.path.expanduser(folder))
        if os.path.abspath(os.path.expanduser(root)) == project and os.path.isdir(tree):
            return tree
    recorded, _ = _read_record(project, places)
    is_there = bool(recorded) and os.path.isdir(recorded)
    return recorded if is_there and _is_about(project, recorded, places.home) else ""


def record_tree(places: Places, *, decided: bool = False) -> None:
    """Record the working tree of the project here, unless it is to be `decided` where it came from."""
    with suppress(MemsheafError, OSError):
        root, tree = project_root(places), project_tree(places)
        if not (decided or os.path.isdir(root)) or not _is_about(root, tree, places.home):
            return
        times = _read_times(tree)
        recorded, recorded_times = _read_record(root, places)
        is_recorded = recorded == tree and 4 * len(times.items() & recorded_times.items()) >= 3 * len(times)
        if is_recorded or (not decided and describe_moved(places)):
            return
        State.of(root, places.state).save(TREE_RECORD, {"tree": tree, "times": times})


def find_project(places: Places, tree: str) -> str:
    """Return the folder of the project in MEMSHEAF_HOME that has or had this working tree, "" if there is none."""
    named = private_root(places.home, tree)
    for root in _list_private(places):
        if root == named or _read_record(root, places)[0] == tree:
            return root
    return ""


def describe_moved(places: Places) -> str:
    """Return a line about the memory of a tree that may have been moved here, "" if there is none."""
    with suppress(MemsheafError, OSError):
        root, tree = project_root(places), project_tree(places)
        if _read_record(root, places)[0] or not _is_about(root, tree, places.home):
            return ""
        here = _read_times(tree)
        for other in _list_private(places):
            before, times = _read_record(other, places)
            if not times or os.path.lexists(before) or 2 * len(here.items() & times.items()) < len(times):
                continue
            if count := sum(name.endswith(".md") for _, _, names in os.walk(other) for name in names):
                bring = f"`memsheaf restore --from {quote(before)}` brings it here"
                return f"memory of {before}, which is gone, may belong here (files: {count:,}); {bring}"
    return ""


def _list_private(places: Places) -> list[str]:
    projects = os.path.join(places.home, "projects")
    return [os.path.join(projects, name) for name in named_folders(projects)]


def _read_record(root: str, places: Places) -> tuple[str, dict[str, int]]:
    """Return the working tree that was recorded for a project, "" without one, and its times."""
    match State.of(root, places.state).load(TREE_RECORD):
        case str(tree):  # an earlier version wrote that
            return tree, {}
        case {"tree": str(tree), "times": dict(times)}:
            return tree, times
    return "", {}


def _is_about(root: str, tree: str, home: str) -> bool:
    """Return True if a project in MEMSHEAF_HOME is the one of this working tree."""
    return private_root(home, find_repository(tree, home)[1]) == root


def _read_times(tree: str) -> dict[str, int]:
    with os.scandir(tree) as entries:
        times = {entry.name: entry.stat(follow_symlinks=False).st_mtime_ns for entry in entries}
    times.pop(".git", None)  # each use of git changes it
    return dict(sorted(times.items())[:MAX_RECORDED_ENTRIES])
