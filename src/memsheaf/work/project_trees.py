"""The working trees of projects in MEMSHEAF_HOME, so that the memory of a tree that was moved can be named.

Such a project is named after the path of its tree. `tree.json` in the state of a project has that path, and the times
at which some files and folders in the tree were changed. Where a tree has no record yet, it is compared with those
that are gone: a folder keeps these times when it is moved, and two projects do not share them. A person decides:
`memsheaf restore --from PATH` brings the memory, and `--dismiss` leaves it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from shlex import quote

from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.scope import find_repository, named_folders, private_root, project_root, project_tree
from memsheaf.scope_opening import state_of

RECORD = "tree.json"
MAX_RECORDED_ENTRIES = 16


def record_tree(settings: Settings, cwd: str, *, decided: bool = False) -> None:
    """Record the working tree of the project around a folder, unless it is to be `decided` where it came from."""
    with suppress(MemsheafError, OSError):
        root, tree = _look_around(settings, cwd)
        if not (decided or os.path.isdir(root)) or not is_about(root, tree, settings.home):
            return
        state, times = state_of(root, settings), _read_times(tree)
        match state.load(RECORD):
            case {"tree": str(before), "times": dict(recorded)}:
                if before == tree and 4 * len(times.items() & recorded.items()) >= 3 * len(times):
                    return
            case None if not decided and describe_moved(settings, cwd):
                return
        state.save(RECORD, {"tree": tree, "times": times})


def read_tree(root: str, settings: Settings) -> str:
    """Return the path of the working tree that was recorded for a project, "" without one."""
    match state_of(root, settings).load(RECORD):
        case str(tree) | {"tree": str(tree)}:
            return tree
    return ""


def find_project(settings: Settings, tree: str) -> str:
    """Return the folder of the project in MEMSHEAF_HOME that has or had this working tree, "" if there is none."""
    roots = [os.path.join(settings.home, "projects", name) for name in named_folders(f"{settings.home}/projects")]
    named = private_root(settings.home, tree)
    return next((root for root in roots if root == named or read_tree(root, settings) == tree), "")


def describe_moved(settings: Settings, cwd: str) -> str:
    """Return a line about the memory of a tree that may have been moved here, "" if there is none."""
    with suppress(MemsheafError, OSError):
        root, tree = _look_around(settings, cwd)
        if state_of(root, settings).load(RECORD) or not is_about(root, tree, settings.home):
            return ""
        here, projects = _read_times(tree), os.path.dirname(root)
        for other in (os.path.join(projects, name) for name in named_folders(projects)):
            match state_of(other, settings).load(RECORD):
                case {"tree": str(before), "times": dict(times)} if times and not os.path.lexists(before):
                    count = sum(name.endswith(".md") for _, _, names in os.walk(other) for name in names)
                    if count and 2 * len(here.items() & times.items()) >= len(times):
                        bring = f"`memsheaf restore --from {quote(before)}` brings it here"
                        return f"memory of {before}, which is gone, may belong here (files: {count:,}); {bring}"
    return ""


def is_about(root: str, tree: str, home: str) -> bool:
    """Return True if a project in MEMSHEAF_HOME is the one of this working tree."""
    return private_root(home, find_repository(tree, home)[1]) == root


def _look_around(settings: Settings, cwd: str) -> tuple[str, str]:
    """Return the folder of the project around a folder, and its tree. Raises MemsheafError, OSError."""
    places = settings.places(cwd)
    return project_root(places), project_tree(places)


def _read_times(tree: str) -> dict[str, int]:
    with os.scandir(tree) as entries:
        times = {entry.name: entry.stat(follow_symlinks=False).st_mtime_ns for entry in entries}
    times.pop(".git", None)  # each use of git changes it
    return dict(sorted(times.items())[:MAX_RECORDED_ENTRIES])
