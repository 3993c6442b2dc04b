"""The working trees of projects in MEMSHEAF_HOME, so that a tree that was moved finds its project again.

Such a project is named after the path of its tree. `trees/DEVICE-INODE.json` in the state directory says which
project a folder has, and a folder keeps that number when it is renamed.
"""

from __future__ import annotations

import os
import re

from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.scope import find_repository, named_folders, private_root, project_root, project_tree
from memsheaf.store.state import State

TREE = "tree.json"  # in a project's state: the path of its tree
MAX_ENTRY_NAMES = 16  # of a tree, by which it is told from another folder that got the same number later


def record_tree(settings: Settings, cwd: str, *, replace: bool = False) -> None:
    """Record the working tree of the project around a folder, where that can be told.

    A project that was moved here keeps its record until it is restored; `replace` gives that up.
    """
    try:
        places = settings.places(cwd)
        root, tree = project_root(places), project_tree(places)
        if not (replace or os.path.isdir(root)) or not is_about(root, tree, settings.home):
            return
        state = State.of(root, settings.state)
        if os.path.isdir(root) and state.load(TREE) != tree:
            state.save(TREE, tree)
        trees, name = _record_of(settings, tree)
        known = trees.load(name)
        is_known = isinstance(known, dict) and (known.get("root"), known.get("tree")) == (root, tree)
        if not is_known and (replace or not find_moved(settings, cwd)):
            trees.save(name, {"root": root, "tree": tree, "entries": sorted(os.listdir(tree))[:MAX_ENTRY_NAMES]})
    except (MemsheafError, OSError):
        return  # it is recorded the next time


def find_moved(settings: Settings, cwd: str) -> str:
    """Return the folder of a project in MEMSHEAF_HOME whose working tree was moved here, "" if there is none."""
    try:
        places = settings.places(cwd)
        root, tree = project_root(places), project_tree(places)
        if not is_about(root, tree, settings.home):
            return ""
        trees, name = _record_of(settings, tree)
        known = trees.load(name)
        if isinstance(known, dict) and _is_moved(known, root, tree):
            return str(known["root"])
        return "" if os.path.isdir(root) else _find_namesake(settings, root)
    except (MemsheafError, OSError, KeyError, TypeError):
        return ""


def describe_moved(settings: Settings, cwd: str) -> str:
    """Return a line about the memory of a project that was moved here, "" if there is none."""
    root = find_moved(settings, cwd)
    count = sum(name.endswith(".md") for _, _, names in os.walk(root) for name in names) if root else 0
    restore = "`memsheaf restore` brings it here"
    return (
        f"this folder was moved, and its memory is in {root} (Markdown files: {count:,}); {restore}" if count else ""
    )


def is_about(root: str, tree: str, home: str) -> bool:
    """Return True if a project in MEMSHEAF_HOME is the one of this working tree."""
    return private_root(home, find_repository(tree, home)[1]) == root


def _record_of(settings: Settings, tree: str) -> tuple[State, str]:
    found = os.stat(tree)
    return State(os.path.join(settings.state, "trees")), f"{found.st_dev}-{found.st_ino}.json"


def _is_moved(known: dict[str, object], root: str, tree: str) -> bool:
    other, before, entries = str(known["root"]), str(known["tree"]), known["entries"]
    if other == root or not os.path.isdir(other) or not isinstance(entries, list):
        return False
    if os.path.isdir(before) and os.path.samefile(before, tree):
        return False
    present = [name for name in entries if os.path.lexists(os.path.join(tree, str(name)))]
    return 2 * len(present) >= len(entries)


def _find_namesake(settings: Settings, root: str) -> str:
    """Return the only project of the same name whose tree is gone: a folder gets a new number on another disk."""
    projects, own = os.path.split(root)
    same = [name for name in named_folders(projects) if re.sub("-[0-9a-f]{16}$", "", name) == own[:-17]]
    gone = []
    for other in (os.path.join(projects, name) for name in same):
        tree = State.of(other, settings.state).load(TREE)
        if isinstance(tree, str) and not os.path.isdir(tree):
            gone.append(other)
    return gone[0] if len(gone) == 1 else ""
