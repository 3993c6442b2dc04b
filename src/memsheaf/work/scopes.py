"""The scopes around a working directory, opened on demand, and which task and session are meant."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from memsheaf import config
from memsheaf.errors import MemsheafError, NotFound, ScopeRefused
from memsheaf.guard.paths import fold
from memsheaf.memory import Memory
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.scope import Scope, check_label, project_root, resolve, shown
from memsheaf.sheaf import Sheaf

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

Names = list[str]
Sheaves = list[Sheaf]

SCRATCH = ("task", "session")
"""Layers whose notes are read on demand: they are in no prompt, and nothing is learned there."""

OF_EACH = tuple(map(fold, (CONTEXT, NOTES)))
"""Files that every scope has for itself."""


class OpenScopes:
    """Scopes that are opened when they are asked for, and closed together."""

    def __init__(
        self,
        settings: config.Settings,
        cwd: str,
        *,
        by: str = "agent",
        scopes: Sequence[str] = (),
        task: str = "",
        session: str = "",
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
        on_open: Callable[[Sheaf], object] | None = None,
    ) -> None:
        self.settings = settings
        self.read_only = read_only
        self._by = by
        self._cwd = cwd
        self.given = tuple(dict.fromkeys(str(Scope.parse(scope)) for scope in scopes))
        self.home = self.given[0] if self.given else "project"
        self._chosen = {"task": task or settings.task, "session": session or settings.session}
        self.clock = clock
        self._on_open = on_open
        self._open: dict[str, Sheaf] = {}
        self._opening = threading.Lock()
        self._stack = ExitStack()

    def close(self) -> None:
        """Make everything safe on disk and let go."""
        self._open.clear()
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sheaf(self, scope: str) -> Sheaf:
        """The memory of a scope, opened once. Raises ScopeRefused."""
        name = str(parsed := Scope.parse(scope))
        if name in self._open:
            return self._open[name]
        with self._opening:
            if name in self._open:
                return self._open[name]
            root = resolve(parsed, self.settings.places(self._cwd))
            is_closed = os.path.isdir(root) and not os.access(root, os.W_OK)
            read_only = self.read_only or is_closed
            opened = Sheaf.open(
                parsed, settings=self.settings, cwd=self._cwd, by=self.by, read_only=read_only, clock=self.clock
            )
            if self.read_only and not is_closed:
                opened.writer.recover()  # what a crash left half done would look as if something were gone
            if self._on_open:
                self._on_open(opened)
            opened.writer.around = lambda: (each.writer for each in self.sheaves())
            self._open[name] = self._stack.enter_context(opened)
        return self._open[name]

    @property
    def project(self) -> Sheaf:
        """The repository's layer."""
        return self.sheaf("project")

    @property
    def user(self) -> Sheaf:
        """What holds everywhere."""
        return self.sheaf("user")

    @property
    def own(self) -> Sheaf:
        """The home scope: its names are bare, and what is said is learned from its inbox."""
        return self.sheaf(self.home)

    def sheaves(self) -> Sheaves:
        """The scopes that are asked, opened, the nearest first."""
        return [self.sheaf(scope) for scope in self.scopes()]

    @property
    def by(self) -> str:
        """Who makes the changes."""
        return self._by

    @by.setter
    def by(self, who: str) -> None:
        self._by = who
        for sheaf in self._open.values():
            sheaf.by = who

    def scopes(self) -> Names:
        """The scopes that are asked, in order: a task and a session only where it is clear which one is meant.

        Raises:
            NotFound, ScopeRefused: one was named, and is not there or is no name.
        """
        if self.given:
            return list(self.given)
        found = []
        for layer in SCRATCH:
            if name := self._chosen[layer]:
                if check_label(name, layer) not in self.names(layer):
                    raise NotFound(f"{layer}/{name}")
                found.append(f"{layer}/{check_label(name, layer)}")
            elif len(going := self.going(layer)) == 1:
                found.append(f"{layer}/{going[0]}")
        return [*found, "project", "user"]

    def going(self, layer: str) -> Names:
        """The tasks that are active, or the sessions that are open, in order."""
        if not self.names(layer):
            return []
        from memsheaf.work import sessions, tasks

        return tasks.active_tasks(self) if layer == "task" else sessions.open_sessions(self)

    def unclear(self) -> Names:
        """What is not asked because several could be meant, in words."""
        return [
            f"{len(going)} {layer}s are {word}, and none was asked: name one with --{layer} ({', '.join(going)})"
            for layer, word in (("task", "active"), ("session", "open"))
            if not self.given and not self._chosen[layer] and len(going := self.going(layer)) > 1
        ]

    # names

    def place(self, name: str) -> tuple[Sheaf, str]:
        """The scope that a shown name is of, and the file's path in it.

        A bare name is of the home scope; where that does not have it, of the nearest scope that does. Every scope has
        a CONTEXT.md and NOTES.md of its own, so these bare names are always of the home scope.
        """
        return self._locate(name)[:2]

    def _locate(self, name: str) -> tuple[Sheaf, str, Memory | None]:
        """As `place`, with the memory if it was read on the way."""
        scope, sign, path = name.partition(":")
        others = [one for one in self.scopes() if one != self.home]
        if sign and scope in (self.home, *others):
            return self.sheaf(scope), path, None
        if name and others and fold(name) not in OF_EACH:
            for sheaf in (self.own, *map(self.sheaf, others)):
                with suppress(NotFound):
                    return sheaf, name, sheaf.read(name)
        return self.own, name, None

    def name(self, sheaf: Sheaf, path: str) -> str:
        """The name under which a file of a scope is shown."""
        return shown(str(sheaf.scope), path, self.home)

    @contextmanager
    def naming(self, sheaf: Sheaf) -> Iterator[None]:
        """Errors about a file of this scope call it by the name under which it is shown."""
        try:
            yield
        except MemsheafError as error:
            path = getattr(error, "path", "")
            if path and str(sheaf.scope) != self.home:
                error.path = self.name(sheaf, path)  # type: ignore[attr-defined]
                error.args = (str(error).replace(repr(path), repr(self.name(sheaf, path))),)
            raise

    # which task, which session

    def names(self, layer: str) -> Names:
        """The names of the tasks, or sessions, that have a folder here, in order."""
        project = self._open.get("project")  # then nobody has to look for the repository again
        root = project.root if project else project_root(self.settings.places(self._cwd))
        folder = os.path.join(root, f"{layer}s")
        try:
            with os.scandir(folder) as entries:
                return sorted(
                    one.name for one in entries if one.is_dir(follow_symlinks=False) and _is_label(one.name)
                )
        except OSError:
            return []

    def is_named(self, layer: str) -> bool:
        """Whether somebody said which task, or session, is meant."""
        return bool(self._chosen[layer])

    def chosen(self, layer: str, name: str = "", *, among: Callable[[], Names]) -> str:
        """The task, or session, that is meant: the one named, the one chosen at the start, or the only one.

        Raises:
            ScopeRefused: several could be meant, or the name is not allowed.
            NotFound: there is none.
        """
        if named := name or self._chosen[layer]:
            return check_label(named, layer)
        found = among()
        if len(found) == 1:
            return found[0]
        if not found:
            raise NotFound(f"{layer}/")
        raise ScopeRefused(f"several could be meant: {', '.join(found)}; name one with --{layer} NAME")


def _is_label(name: str) -> bool:
    try:
        return check_label(name, "name") == name
    except ScopeRefused:
        return False
