"""The memory side of one chat: the catalog it began with, what is recalled, the tools, and what is learned behind it.

Without named scopes it is the layers around the working directory: task, session, project and user. Tools write to
the project then, otherwise to the first scope that was named; they read and change what is in the others, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress

from memsheaf.adapters.beside import Distiller
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError, NoSuchCommit
from memsheaf.flow.inject import words
from memsheaf.flow.learn import AT_IT, Distilled
from memsheaf.flow.recall import Recall
from memsheaf.flow.turns import Turn
from memsheaf.layers import Layers
from memsheaf.llm import Model
from memsheaf.scope import around
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Revision
from memsheaf.tools import READING, Answer, Tools

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memsheaf.flow.compact.ladder import Compacted
    from memsheaf.flow.compact.talk import Entry
    from memsheaf.flow.inject import Shown
    from memsheaf.flow.session import Session

PATIENCE = 0.5
"""Seconds that a first request waits for memories that are ranked here; for a model that chooses it does not wait."""

NEWS = 20
"""So many changed lines of the catalog are told at once."""

PLANNING = "Error: plan mode: nothing is written, memory included. Say what you would save."


class Mind:
    """What a chat remembers with. Close it."""

    def __init__(
        self,
        sheaves: Sequence[Sheaf],
        session: Session,
        *,
        home: Sheaf,
        layers: Layers | None = None,
        selecting: bool = False,
        stack: ExitStack | None = None,
    ) -> None:
        self.sheaves = tuple(sheaves)
        self.session = session
        self.home = home
        self.learning = Learning(home)
        self._layers = layers
        self._selecting = selecting
        self._stack = stack or ExitStack()
        self._tools = {str(sheaf.scope): Tools(sheaf, session=session) for sheaf in self.sheaves}
        self._told = ""

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        cwd: str,
        scopes: Sequence[str] = (),
        by: str = "agent",
        selector: Model | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Mind:
        """Open the memory of a chat in this folder. With a `selector`, that model chooses what is recalled.

        Raises:
            ScopeRefused, NotFound, StoreFailed.
        """
        tree = around(cwd)
        with ExitStack() as stack:
            if not scopes and settings.scope == "project":
                layers = stack.enter_context(Layers.open(settings=settings, cwd=cwd, by=by, clock=clock))
                sheaves = [layers.sheaf(scope) for scope in layers.scopes()]
                session = layers.session(model=selector, tree=tree)
                home: Sheaf = layers.project
                return cls(
                    sheaves, session, home=home, layers=layers, selecting=bool(selector), stack=stack.pop_all()
                )
            named = list(dict.fromkeys(scopes or (settings.scope,)))
            sheaves = [
                stack.enter_context(Sheaf.open(scope, settings=settings, cwd=cwd, by=by, clock=clock))
                for scope in named
            ]
            session = sheaves[0].session(*sheaves[1:], model=selector, tree=tree)
            return cls(sheaves, session, home=sheaves[0], selecting=bool(selector), stack=stack.pop_all())

    def close(self) -> None:
        """Let everything go."""
        self._stack.close()

    @property
    def by(self) -> str:
        """Who makes the changes that tools make."""
        return self.home.by

    @by.setter
    def by(self, who: str) -> None:
        for sheaf in self.sheaves:
            sheaf.by = who

    # what stands in the prompt, and beside a message

    def prompt(self) -> str:
        """The section for the system prompt, as memory is now; from here on, changes are told as news."""
        self._told = self._now()
        return self._told

    def _now(self) -> str:
        own, *others = [self.home, *(s for s in self.sheaves if s is not self.home and s.scope.layer not in _NOTED)]
        return "\n".join([own.prompt(), *(other.prompt(also=True) for other in others)])

    def news(self) -> str:
        """How the catalog has changed since this was last asked for, ready to stand beside a message; or ""."""
        told, self._told = self._told, self._now()
        before, now = _lines(told), _lines(self._told)
        came = [f"+ {line}" for line in now if line not in before]
        went = [f"- {line}" for line in before if line not in now]
        if not came and not went:
            return ""
        shown = [*came, *went][:NEWS]
        more = len(came) + len(went) - len(shown)
        rest = [f"({more} more; memory_view shows all)"] if more else []
        return "\n".join([words("changed").rstrip("\n"), *shown, *rest])

    def begin(self, message: str, *, ignore: bool = False, tools: Sequence[str] = ()) -> Recall | None:
        """Begin to recall for a message. Gives what was recalled too late for the last one, if anything was."""
        late = None if self.session.ignoring else self.session.collect()
        if late and not all(self._holds(one) for one in late.memories):
            self.session.give_back(late)
            late = None
        self.session.prefetch(message, ignore=ignore, tools=tools)
        return None if self.session.ignoring else late

    def _holds(self, shown: Shown) -> bool:
        """Whether a memory is still as it was when it was recalled."""
        sheaf = next((one for one in self.sheaves if str(one.scope) == shown.scope), self.home)
        try:
            return sheaf.read(shown.memory.path).version == shown.memory.version
        except MemsheafError:
            return False

    def recalled(self, *, first: bool) -> Recall | None:
        """What was recalled, if it is there; once. Before the first request a moment is waited for it."""
        return self.session.collect(wait=PATIENCE if first and not self._selecting else 0.0)

    @property
    def ignoring(self) -> bool:
        """Whether the user asked to do without memory in this turn."""
        return self.session.ignoring

    # tools

    def schemas(self) -> list[dict[str, Any]]:
        """The memory tools, as an API takes them."""
        return self._tools[str(self.home.scope)].schemas()

    def answer(self, name: str, arguments: Mapping[str, object]) -> Answer:
        """Run a memory tool where its file is: in the scope that is written to, else in the nearest that has it."""
        named = arguments.get("filename")
        if name in ("memory_view", "memory_list", "memory_search"):
            return self._everywhere(name, arguments)
        if isinstance(named, str) and named:
            for sheaf in (self.home, *self.sheaves):
                if _has(sheaf, named):
                    return self._tools[str(sheaf.scope)].answer(name, arguments)
        return self._tools[str(self.home.scope)].answer(name, arguments)

    def found(self, name: str) -> tuple[str, str]:
        """The scope that a tool would find a file in, and its text; the first scope and "" when it is nowhere."""
        for sheaf in (self.home, *self.sheaves):
            with suppress(MemsheafError):
                return str(sheaf.scope), sheaf.read(name).text
        return str(self.home.scope), ""

    def _everywhere(self, name: str, arguments: Mapping[str, object]) -> Answer:
        """What every scope says, those besides the first under their names, unless they have nothing to say."""
        first = self._tools[str(self.home.scope)].answer(name, arguments)
        if first.failed or (name == "memory_view" and arguments.get("target") == "context"):
            return first
        texts = [first.text.rstrip("\n")]
        for sheaf in self.sheaves:
            if sheaf is self.home or not sheaf.best(1):
                continue
            found = self._tools[str(sheaf.scope)].answer(name, arguments)
            if not found.failed and (found.rows is None or found.rows):
                texts.append(f"In the scope {sheaf.scope}:\n{found.text.rstrip(chr(10))}")
        return Answer("\n\n".join(texts))

    # learning and fitting

    def learn(self, turn: Turn, *, later: bool = False) -> None:
        """Keep a finished turn, and begin to distil it, unless that is left for `later`. Raises StoreFailed, Busy."""
        if self.session.learn(turn) and not later:
            self.learning.distiller.start()

    def compact(self, conversation: Sequence[Entry], budget: int, *, by_user: bool, name: str) -> Compacted:
        """Make a conversation fit so many tokens; what the layers say survives. Raises Refused, StoreFailed."""
        from memsheaf.flow import compact

        trigger = "task" if by_user else "budget"
        if self._layers:
            return self._layers.compact(conversation, budget, trigger=trigger, name=name, approve=by_user)
        model, state = self.home.metered("compact"), self.home.state
        if by_user:
            compact.approve(conversation, state=state, name=name)
        return compact.run(
            conversation, budget, trigger=trigger, model=model, name=name, state=state, now=time.time()
        )

    def undo(self) -> str:
        """Take the last change back, in whichever scope it was; says what became of it. Raises MemsheafError."""
        found = []
        for sheaf in self.sheaves:
            with suppress(NoSuchCommit):
                found.append((sheaf.store.last_standing(except_by="outside", events=False), sheaf))
        if not found:
            raise NoSuchCommit("nothing is left to undo")
        commit, sheaf = max(found, key=lambda one: one[0].at)
        return "\n".join(_undone(revision) for revision in sheaf.undo(commit.id).revisions)


class Learning:
    """What is learned behind a chat, kept until it is told."""

    def __init__(self, sheaf: Sheaf) -> None:
        self.distiller = Distiller(sheaf, self._heard)
        self._guard = threading.Lock()
        self._names: list[str] = []
        self._queued = 0
        self._problem = ""
        self._told = ""  # the problem that the user knows of

    def names(self) -> tuple[str, ...]:
        """The names of what was learned and not told yet."""
        with self._guard:
            told, self._names = tuple(self._names), []
            return told

    def asides(self) -> list[str]:
        """What waits for a person, and what went wrong, in words; the same trouble is told once."""
        with self._guard:
            queued, problem = self._queued, self._problem
            self._queued, self._problem = 0, ""
            is_new, self._told = problem != self._told, problem or self._told
        waiting = [f"{queued} wait for your yes: /review"] if queued else []
        return [*waiting, *([f"what was said waits, and is learned later: {problem}"] if problem and is_new else [])]

    def _heard(self, came: Distilled) -> None:
        with self._guard:
            self._names += [one.proposal.name for one in came.of("saved")]
            self._queued += len(came.of("queued"))
            if came.problem != AT_IT:
                self._problem = came.problem
                self._told = self._told if came.problem else ""  # it works again: the next problem is news


_NOTED = ("task", "session")  # their notes are read when they are asked for, and stand in no prompt


def _undone(revision: Revision) -> str:
    """What an undo did to one memory, in words."""
    if revision.after == ABSENT:
        return f"Taken back: {revision.path} was saved last, and is gone again."
    return f"Taken back: {revision.path} is {'there again' if revision.before == ABSENT else 'as it was before'}."


def _lines(prompt: str) -> dict[str, None]:
    """The lines of a catalog that name a memory, in their order."""
    return dict.fromkeys(line[2:] for line in prompt.split("\n") if line.startswith("- ["))


def _has(sheaf: Sheaf, name: str) -> bool:
    try:
        sheaf.read(name)
    except MemsheafError:
        return False
    return True


def reading(schemas: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the memory tools that change nothing."""
    return [one for one in schemas if one["name"] in READING]
