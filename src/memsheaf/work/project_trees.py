"""The working trees of projects in MEMSHEAF_HOME, so that a tree that was moved finds its project again.

Such a project is named after the path of its tree. `trees/DEVICE-INODE.json` in the state directory says which
project a folder has, and a folder keeps that number when it is renamed.
"""

from __future__ import annotations

import os
from contextlib import suppress

from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.scope import find_repository, named_folders, private_root, project_root, project_tree
from memsheaf.scope_opening import state_of
from memsheaf.store.state import State
from memsheaf.values import parse_json

TREE = "tree.json"  # in a project's state: the path of its tree
MAX_ENTRY_NAMES = 16  # of a tree, by which it is told from another folder that got the same number later


def record_tree(settings: Settings, cwd: str) -> None:
    """Record the working tree of the project around a folder, unless another project was moved here with it."""
    with suppress(MemsheafError, OSError):
        root, tree, trees, name = _look_around(settings, cwd)
        record = {"root": root, "tree": tree}
        known = trees.load(name)
        is_known = isinstance(known, dict) and record.items() <= known.items()
        if is_known or not os.path.isdir(root) or not is_about(root, tree, settings.home):
            return
        state_of(root, settings).save(TREE, tree)
        if not find_moved(settings, cwd):
            trees.save(name, {**record, "entries": sorted(os.listdir(tree))[:MAX_ENTRY_NAMES]})


def find_moved(settings: Settings, cwd: str) -> str:
    """Return the folder of a project in MEMSHEAF_HOME whose working tree was moved here, "" if there is none."""
    with suppress(MemsheafError, OSError):
        root, tree, trees, name = _look_around(settings, cwd)
        data = trees.read(name) or b""
        if os.fsencode(f'"root": "{root}"') in data:  # as it nearly always is; nothing has to be parsed
            return ""
        match parse_json(data):
            case {"root": str(other), "tree": str(before), "entries": list(entries)}:
                common = set(os.listdir(tree)).intersection(entries)
                is_same = 2 * len(common) >= len(entries) and is_about(root, tree, settings.home)
                if is_same and os.path.isdir(other) and not os.path.isdir(before):
                    return other
        if not os.path.isdir(root):
            return _find_namesake(settings, root)
    return ""


def describe_moved(settings: Settings, cwd: str) -> str:
    """Return a line about the memory of a project that was moved here, "" if there is none."""
    root = find_moved(settings, cwd)
    count = sum(name.endswith(".md") for _, _, names in os.walk(root) for name in names)
    if not count:
        return ""
    restore = "`memsheaf restore` brings it here"
    return f"this folder was moved, and its memory is in {root} (Markdown files: {count:,}); {restore}"


def is_about(root: str, tree: str, home: str) -> bool:
    """Return True if a project in MEMSHEAF_HOME is the one of this working tree."""
    return private_root(home, find_repository(tree, home)[1]) == root


def _look_around(settings: Settings, cwd: str) -> tuple[str, str, State, str]:
    """The project of a folder, its tree, and the place of that tree's record. Raises MemsheafError, OSError."""
    places = settings.places(cwd)
    tree = project_tree(places)
    number = os.stat(tree)
    root = project_root(places)
    states = os.path.dirname(state_of(root, settings).folder)
    return root, tree, State(os.path.join(states, "trees")), f"{number.st_dev}-{number.st_ino}.json"


def _find_namesake(settings: Settings, root: str) -> str:
    """Return the only project of the same name whose tree is gone: a folder gets a new number on another disk."""
    projects, own = os.path.split(root)
    others = [os.path.join(projects, name) for name in named_folders(projects) if name[:-16] == own[:-16]]
    trees = {other: state_of(other, settings).load(TREE) for other in others}
    gone = [other for other, tree in trees.items() if isinstance(tree, str) and not os.path.isdir(tree)]
    return gone[0] if len(gone) == 1 else ""
