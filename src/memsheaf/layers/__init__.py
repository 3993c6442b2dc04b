"""Layers: what an agent knows where it works, from the nearest to the widest.

    task        what one piece of work has found, decided and verified
    session     scratch notes of one conversation
    project     NOTES.md, facts and memories of the repository
    user        what holds everywhere

At the start one reads NOTES.md and the session; to look something up one asks task, session, project and user, in
this order. Each layer is a scope of its own (`scope.py`): plain files, a journal, undo.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from memsheaf import config
from memsheaf.errors import NotFound, ScopeRefused
from memsheaf.scope import Scope, check_label, project_root, resolve, unused_folder
from memsheaf.sheaf import Sheaf
from memsheaf.values import NamedTuple

# Known to type checkers under this name: each layer is imported when it is asked for.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.flow.compact.ladder import Compacted
    from memsheaf.flow.compact.talk import Entry
    from memsheaf.flow.session import Session
    from memsheaf.flow.turns import Message
    from memsheaf.index.table import Row
    from memsheaf.llm import Model

ORDER = ("task", "session", "project", "user")
"""In which order layers are asked."""


class Found(NamedTuple):
    """What was looked up, and the layer that it came from."""

    layer: str
    scope: str
    row: Row


class Layers:
    """The layers around a working directory. What is opened is closed with it.

    >>> with Layers.open(by="user") as layers:                                   # doctest: +SKIP
    ...     print(layers.brief())
    """

    def __init__(
        self,
        settings: config.Settings,
        cwd: str,
        *,
        by: str = "agent",
        task: str = "",
        session: str = "",
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.by = by
        self.read_only = read_only
        self._cwd = cwd
        self._chosen = {"task": task or settings.task, "session": session or settings.session}
        self.clock = clock
        self._open: dict[str, Sheaf] = {}
        self._stack = ExitStack()

    @classmethod
    def open(
        cls,
        *,
        settings: config.Settings | None = None,
        cwd: str = "",
        by: str = "agent",
        task: str = "",
        session: str = "",
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> Layers:
        """The layers around a working directory, of the task and the session that are named, if any are."""
        return cls(
            settings or config.load(),
            cwd or os.getcwd(),
            by=by,
            task=task,
            session=session,
            read_only=read_only,
            clock=clock,
        )

    def notices(self) -> Sequence[str]:
        """What a person should look at before it is used: a `.memory` nobody accepted, files that changed there."""
        unused = unused_folder(self.settings.places(self._cwd))
        return [*([unused] if unused else []), *self.project.notices()]

    def looking(self) -> Layers:
        """The same layers once more, to look and nothing else."""
        chosen = self._chosen
        return Layers(self.settings, self._cwd, by=self.by, **chosen, read_only=True, clock=self.clock)

    def close(self) -> None:
        """Make everything safe on disk and let go."""
        self._open.clear()
        self._stack.close()

    def __enter__(self) -> Layers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sheaf(self, scope: str) -> Sheaf:
        """The memory of a scope, opened once. Raises ScopeRefused."""
        parsed = Scope.parse(scope)
        name = str(parsed)
        if name not in self._open:
            root = resolve(parsed, self.settings.places(self._cwd))
            is_closed = os.path.isdir(root) and not os.access(root, os.W_OK)
            opened = Sheaf.open(
                parsed,
                settings=self.settings,
                cwd=self._cwd,
                by=self.by,
                read_only=self.read_only or is_closed,
                clock=self.clock,
            )
            if self.read_only and not is_closed:
                opened.store.recover()  # what a crash left half done would look as if something were gone
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

    def scopes(self) -> list[str]:
        """The scopes that are asked, in order: a task and a session only where it is clear which one is meant.

        Raises:
            NotFound, ScopeRefused: one was named, and is not there or is no name.
        """
        found = []
        for layer in ORDER[:2]:
            if name := self._chosen[layer]:
                if check_label(name, layer) not in self.names(layer):
                    raise NotFound(f"{layer}/{name}")
                found.append(f"{layer}/{check_label(name, layer)}")
            elif len(going := self.going(layer)) == 1:
                found.append(f"{layer}/{going[0]}")
        return [*found, "project", "user"]

    def going(self, layer: str) -> list[str]:
        """The tasks that are active, or the sessions that are open, in order."""
        from memsheaf.layers import sessions, tasks

        return tasks.active_tasks(self) if layer == "task" else sessions.open_sessions(self)

    def unclear(self) -> list[str]:
        """What is not asked because several could be meant, in words."""
        return [
            f"{len(going)} {layer}s are {word}, and none was asked: name one with --{layer} ({', '.join(going)})"
            for layer, word in (("task", "active"), ("session", "open"))
            if not self._chosen[layer] and len(going := self.going(layer)) > 1
        ]

    def look_up(self, query: str, *, limit: int = 10) -> list[Found]:
        """What the layers say about a query: the nearest layer first, in each at most `limit`, the best first."""
        found: list[Found] = []
        for scope in self.scopes():
            rows = self.sheaf(scope).search(query, limit=limit)
            found += [Found(scope.partition("/")[0], scope, row) for row in rows]
        return found

    def session(self, *, model: Model | None = None, deadline: float = 5.0, tree: str = "") -> Session:
        """The memory side of one conversation over all layers, the nearest first. The project learns from it."""
        from memsheaf.flow.session import Session

        return Session(
            [self.sheaf(scope) for scope in self.scopes()],
            model=self.project.metered("select", model) if model else None,
            deadline=deadline,
            used=lambda scope, paths: self.sheaf(scope).used(*paths),
            prompt=self.prompt,
            learn=self.project.learn,
            tree=tree,
            memories=self.project.root,
            clock=self.clock,
        )

    def prompt(self) -> str:
        """The section for a system prompt: project and user. Notes of tasks and sessions are not loaded."""
        return f"{self.project.prompt()}\n{self.user.prompt()}"

    def brief(self) -> str:
        """Where the work stands, from the files alone: NOTES.md, the task, the session; "" when there is nothing."""
        from memsheaf.layers import standing

        return standing.brief(self)

    def standing(self) -> dict[str, object]:
        """As `brief`, for programs."""
        from memsheaf.layers import standing

        return standing.standing(self)

    def compact(
        self,
        conversation: Sequence[Entry | Message],
        budget: int = 50_000,
        *,
        trigger: str = "budget",
        notes: str = "",
        model: Model | str | None = None,
        name: str = "",
        approve: bool = False,
        dry_run: bool = False,
    ) -> Compacted:
        """Make a conversation fit so many tokens: phase, blockers and decisions of the layers survive.

        The session's notes serve as the summary, unless others are given. `name` is what the conversation is called.
        With `dry_run` nothing is written; with `approve` one that failed three times in a row is tried again.

        Raises:
            Refused: it failed three times in a row; or there is no such trigger, or no budget.
            StoreFailed: what was taken out could not be written.
        """
        from memsheaf.flow import compact
        from memsheaf.layers import standing

        survives, noted = standing.surviving(self)
        metered, state = self.project.metered("compact", model), self.project.state
        if dry_run:
            return compact.compact(
                conversation, budget, standing=survives, trigger=trigger, notes=notes or noted, model=metered,
                where=state.folder,
            )  # fmt: skip
        if approve:
            compact.approve(conversation, state=state, name=name)
        return compact.run(
            conversation, budget, standing=survives, trigger=trigger, notes=notes or noted, model=metered, name=name,
            state=state, now=self.clock(), days=self.settings.retention_days,
        )  # fmt: skip

    def names(self, layer: str) -> list[str]:
        """The names of the tasks, or sessions, that have a folder here, in order."""
        folder = os.path.join(project_root(self.settings.places(self._cwd)), f"{layer}s")
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

    def chosen(self, layer: str, name: str = "", *, among: Callable[[], list[str]]) -> str:
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
