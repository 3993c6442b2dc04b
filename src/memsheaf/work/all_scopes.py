"""Every scope of a person, with a key for each: user, projects with their tasks and sessions, agents, teams.

user   agent~NAME   team~NAME
project                              the project of the working directory
project~NAME-HASH                    another one
task~SLUG   session~ID               of the present project
project~NAME-HASH~task~SLUG          of another one
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from memsheaf import trusted_repositories
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError, NotFound
from memsheaf.scope import (
    FOLDER,
    Scope,
    around,
    named_folders,
    project_name,
    project_root,
    refuse_links,
    resolve,
)
from memsheaf.sheaf import Sheaf
from memsheaf.store.folder import FolderStore
from memsheaf.work.layers import Layers
from memsheaf.work.project_trees import is_about, read_tree, record_tree
from memsheaf.work.scopes import SCRATCH


class KnownScope(NamedTuple):
    """A scope that has a folder. `project` is the key of the project that it is or belongs to, "" if none."""

    key: str
    title: str
    layer: str
    root: str
    project: str


class AllScopes:
    """Every scope of this person, opened on demand and closed together. Threads may share it."""

    def __init__(
        self,
        settings: Settings,
        cwd: str,
        *,
        by: str = "user",
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.cwd = cwd
        self._given = {"by": by, "read_only": read_only, "clock": clock}
        self._present = project_root(settings.places(cwd))
        self._layers: dict[str, Layers] = {}
        self._sheaves: dict[str, Sheaf] = {}
        self._making, self._opening = threading.Lock(), threading.Lock()
        self._stack = ExitStack()
        if not read_only:
            record_tree(settings, cwd)

    def close(self) -> None:
        """Make everything safe on disk and let go."""
        self._layers.clear()
        self._sheaves.clear()
        self._stack.close()

    def __enter__(self) -> AllScopes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def list(self) -> list[KnownScope]:
        """The scopes: user, the present project, other projects, each with its tasks and sessions; agents, teams."""
        home = self.settings.home
        others = {key: root for key, root in self._projects().items() if root != self._present}
        names = {key: re.sub("-[0-9a-f]{16}$", "", key.partition("~")[2]) for key in others}
        names["project"] = os.path.basename(around(self.cwd))
        often = Counter(names.values())
        found = [KnownScope("user", "user", "user", os.path.join(home, "user"), "")]
        for key, root in {"project": self._present, **others}.items():
            more = f" ({self.tree(key) or key[-16:]})" if often[names[key]] > 1 else ""
            title = names[key] + more
            found.append(KnownScope(key, title, "project", root, key))
            before, said = ("", "") if key == "project" else (f"{key}~", f"{title}: ")
            for layer in SCRATCH:
                for name, place in _named(root, f"{layer}s"):
                    shown = f"{said}{layer}/{name}"
                    found.append(KnownScope(f"{before}{layer}~{name}", shown, layer, place, key))
        for layer, folder in (("agent", "agents"), ("team", "team")):
            for name, place in _named(home, folder):
                found.append(KnownScope(f"{layer}~{name}", f"{layer}/{name}", layer, place, ""))
        return found

    def layers(self, key: str) -> Layers:
        """The layers around a scope: those of its project, or the scope alone. Raises NotFound."""
        return self._layers_around(*self._parse(key))

    def _layers_around(self, project: str, scope: Scope) -> Layers:
        with self._making:
            name = f"{project} {scope}"
            if name not in self._layers:
                self._layers[name] = self._make(project, scope)
            return self._layers[name]

    def sheaf(self, key: str) -> Sheaf:
        """The memory of a scope; each root is opened once, however many layers show it. Raises NotFound."""
        project, scope = self._parse(key)
        return self._layers_around(project, scope).sheaf(str(scope))

    def opened(self) -> Sequence[Sheaf]:
        """The scopes that are open now."""
        return tuple(self._sheaves.values())

    def every(self) -> Iterator[Sheaf]:
        """Every scope, opened; those that cannot be are left out."""
        for known in self.list():
            with suppress(MemsheafError, OSError):
                yield self.sheaf(known.key)

    def tree(self, key: str) -> str:
        """The working tree for the citations of a scope, "" when unknown or outside of projects."""
        project = self._parse(key)[0]
        if not project:
            return ""
        if project == self._present:
            return around(self.cwd)
        if os.path.basename(project) == FOLDER:
            return os.path.dirname(project)
        trees = [_absolute(folder) for folder, root in self.settings.projects if _absolute(root) == project]
        recorded = read_tree(project, self.settings)
        if recorded and is_about(project, recorded, self.settings.home):
            trees.append(recorded)
        return next(filter(os.path.isdir, trees), "")

    def _make(self, project: str, scope: Scope) -> Layers:
        settings = self.settings
        given: dict[str, object] = dict(self._given)
        if project and project != self._present:
            settings = settings._replace(project=project, task="", session="", teams=())
        if scope.layer in SCRATCH:
            given[scope.layer] = scope.name
        elif scope.layer != "project":
            given["scopes"] = (str(scope),)
        made = Layers(settings, self.cwd, **given)  # type: ignore[arg-type]
        made.share(self._sheaves, self._stack, self._opening)
        return made

    def _parse(self, key: str) -> tuple[str, Scope]:
        """The root of the project that a key names, "" for none, and the scope there. Raises NotFound."""
        parts, project = key.split("~"), self._present
        if parts[0] == "project" and len(parts) in (2, 4):
            project = self._projects().get("~".join(parts[:2]), "")
            parts = parts[2:] or ["project"]
        try:
            scope = Scope.parse("/".join(parts))
            if not project or str(scope) != "/".join(parts):
                raise NotFound(key)
            if scope.layer not in ("project", *SCRATCH):
                project = ""
            root = resolve(scope, self.settings.places(self.cwd)._replace(project=project or self._present))
        except MemsheafError:
            raise NotFound(key, f"there is no scope {key[:200]!r}") from None
        if scope.name and not os.path.isdir(root):
            raise NotFound(key, f"there is no scope {key!r}")
        return project, scope

    def _projects(self) -> dict[str, str]:
        """The roots of all projects, by key, whether they are kept in MEMSHEAF_HOME or elsewhere."""
        home = os.path.join(self.settings.home, "projects")
        found = {f"project~{name}": os.path.join(home, name) for name in named_folders(home)}
        for root in self._roots_elsewhere():
            if os.path.isdir(root) and root not in found.values():
                found[f"project~{project_name(root)}"] = root
        return found

    def _roots_elsewhere(self) -> Iterator[str]:
        for checkout in trusted_repositories.read(self.settings.home) or {}:
            with suppress(MemsheafError):
                if trusted_repositories.is_accepted(self.settings.home, checkout):
                    root = os.path.join(checkout, FOLDER)
                    refuse_links(checkout, root)
                    yield root
        for _, root in self.settings.projects:
            yield _absolute(root)


def scope_name(scope: KnownScope) -> str:
    """A scope as --scope names it from here; "" for one of another project."""
    return scope.key.replace("~", "/") if scope.project in ("", "project") else ""


def count_memories(root: str) -> int:
    """How many Markdown files a store holds, without opening its index."""
    return sum(1 for entry in FolderStore(root).scan() if entry.path and not entry.path.endswith("/"))


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _named(root: str, folder: str) -> Iterator[tuple[str, str]]:
    """The scopes of a layer that have a folder there, with their places; what links lead to has none."""
    parent = os.path.join(root, folder)
    with suppress(MemsheafError, OSError):
        refuse_links(root, parent)
        yield from ((name, os.path.join(parent, name)) for name in named_folders(parent))
