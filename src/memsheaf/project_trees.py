"""The scopes that a person has, and the working trees of projects: the memory of a tree that was moved can be named.

Such a project is named after the path of its tree. `tree.json` in the state of a project has that path, and the times
at which some files and folders in the tree were changed. Where a tree has no record yet, it is compared with those
that are gone: a folder keeps these times when it is moved, and two projects do not share them. A person decides:
`memsheaf restore --from PATH` brings the memory, and `--dismiss` leaves it.

Each scope has a key, which stands in addresses of the web page:

    user   agent~NAME   team~NAME
    project                              the project of the working directory
    project~NAME-HASH                    another one
    task~SLUG   session~ID               of the present project
    project~NAME-HASH~task~SLUG          of another one
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from shlex import quote
from typing import NamedTuple

from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.scope import (
    FOLDER,
    around,
    find_repository,
    is_accepted,
    named_folders,
    private_root,
    project_name,
    project_root,
    project_tree,
    read_repositories,
    refuse_links,
)
from memsheaf.store.folder import FolderStore
from memsheaf.store.state import State

RECORD = "tree.json"
MAX_RECORDED_ENTRIES = 16


class KnownScope(NamedTuple):
    """A scope that has a folder. `project` is the folder of the project that it is or belongs to, "" if none."""

    key: str
    title: str
    layer: str
    root: str
    project: str = ""

    @property
    def name(self) -> str:
        """The scope as commands name it, within its project."""
        return self.layer if self.layer in ("user", "project") else f"{self.layer}/{os.path.basename(self.root)}"


def list_scopes(settings: Settings, cwd: str) -> list[KnownScope]:
    """Return user, the present project, other projects, each with its tasks and sessions; then agents and teams."""
    present = project_root(settings.places(cwd))
    others = {key: root for key, root in list_projects(settings).items() if root != present}
    names = {key: re.sub("-[0-9a-f]{16}$", "", key.partition("~")[2]) for key in others}
    names["project"] = os.path.basename(around(cwd))
    counts = Counter(names.values())
    scopes = [KnownScope("user", "user", "user", os.path.join(settings.home, "user"))]
    for key, root in {"project": present, **others}.items():
        scope = KnownScope(key, names[key], "project", root, root)
        if counts[names[key]] > 1:
            where = find_tree(scope, settings, cwd) or key[-16:]
            scope = scope._replace(title=f"{names[key]} ({where})")
        scopes.append(scope)
        for layer in ("task", "session"):
            for inner in _list_named(root, layer, f"{layer}s"):
                if key != "project":
                    inner = inner._replace(key=f"{key}~{inner.key}", title=f"{scope.title}: {inner.title}")
                scopes.append(inner._replace(project=root))
    return [*scopes, *_list_named(settings.home, "agent", "agents"), *_list_named(settings.home, "team", "team")]


def _list_named(root: str, layer: str, folder: str) -> Iterator[KnownScope]:
    """Yield the scopes of a layer that have a folder there; where links lead to is none."""
    parent = os.path.join(root, folder)
    with suppress(MemsheafError, OSError):
        refuse_links(root, parent)
        for name in named_folders(parent):
            yield KnownScope(f"{layer}~{name}", f"{layer}/{name}", layer, os.path.join(parent, name))


def list_projects(settings: Settings) -> dict[str, str]:
    """Return the folders of all projects, in MEMSHEAF_HOME or elsewhere, by the keys that they have from outside."""
    home = os.path.join(settings.home, "projects")
    projects = {f"project~{name}": os.path.join(home, name) for name in named_folders(home)}
    elsewhere = []
    for checkout in read_repositories(settings.home) or {}:
        with suppress(MemsheafError):
            if is_accepted(settings.home, checkout):
                root = os.path.join(checkout, FOLDER)
                refuse_links(checkout, root)
                elsewhere.append(root)
    for root in [*elsewhere, *(_absolute(root) for _, root in settings.projects)]:
        if os.path.isdir(root) and root not in projects.values():
            projects[f"project~{project_name(root)}"] = root
    return projects


def find_tree(scope: KnownScope, settings: Settings, cwd: str) -> str:
    """Return the working tree for the citations of a scope, "" when unknown or outside of projects."""
    project = scope.project
    if not project:
        return ""
    if project == project_root(settings.places(cwd)):
        return around(cwd)
    if os.path.basename(project) == FOLDER:
        return os.path.dirname(project)
    trees = [_absolute(folder) for folder, root in settings.projects if _absolute(root) == project]
    recorded = read_tree(project, settings)
    if recorded and is_about(project, recorded, settings.home):
        trees.append(recorded)
    return next(filter(os.path.isdir, trees), "")


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def count_memories(root: str) -> int:
    """Return how many Markdown files a store holds, without opening its index."""
    return sum(1 for entry in FolderStore(root).scan() if entry.path and not entry.path.endswith("/"))


def state_of(root: str, settings: Settings) -> State:
    """Return the state that is kept about a folder outside of it."""
    return State.of(root, settings.state or os.path.join(settings.home, "state"))


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
