"""The memory side of one chat: the catalog it began with, what is recalled, the tools, and what is learned behind it.

All of it is over `Layers`: those around the working directory, or the scopes that were named.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from memsheaf.adapters.background import Distiller
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError
from memsheaf.learn.learner import AT_IT, Distilled
from memsheaf.llm import Model
from memsheaf.prompts import read_prompt
from memsheaf.recall.recall import Recall
from memsheaf.recall.turns import Turn
from memsheaf.scope import around
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Revision
from memsheaf.tools import READING, Answer, Tools
from memsheaf.work.layers import Layers

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memsheaf.recall.inject import Shown
    from memsheaf.recall.turns import TranscriptEntry
    from memsheaf.work.compaction.levels import Compacted

PATIENCE = 0.5
"""Seconds that a first request waits for memories that are ranked here; for a model that chooses it does not wait."""

NEWS = 20
"""So many changed lines of the catalog are told at once."""

PLANNING = "Error: plan mode: nothing is written, memory included. Say what you would save."


class Mind:
    """What a chat remembers with. Close it."""

    def __init__(self, layers: Layers, *, selector: Model | None = None, tree: str = "") -> None:
        self.layers = layers
        self.session = layers.session(model=selector, tree=tree)
        self.learning = Learning(layers)
        self._selecting = selector is not None
        self._tools = Tools(layers, session=self.session)
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
        with ExitStack() as stack:
            opened = Layers.open(settings=settings, cwd=cwd, scopes=scopes, by=by, clock=clock)
            layers = stack.enter_context(opened)
            mind = cls(layers, selector=selector, tree=around(cwd))
            stack.pop_all()  # from here on whoever has it closes it
        return mind

    def close(self) -> None:
        """Let everything go."""
        self.layers.close()

    @property
    def home(self) -> Sheaf:
        """The scope that is learned in, and whose conversations are kept."""
        return self.layers.own

    @property
    def sheaves(self) -> Sequence[Sheaf]:
        """All scopes, the nearest first."""
        return self.layers.sheaves()

    @property
    def by(self) -> str:
        """Who makes the changes that tools make."""
        return self.layers.by

    @by.setter
    def by(self, who: str) -> None:
        self.layers.by = who

    # what stands in the prompt, and beside a message

    def prompt(self) -> str:
        """The section for the system prompt, as memory is now; from here on, changes are told as news."""
        self._told = self.layers.prompt()
        return self._told

    def news(self) -> str:
        """How the catalog has changed since this was last asked for, ready to stand beside a message; or ""."""
        told, self._told = self._told, self.layers.prompt()
        before, now = _lines(told), _lines(self._told)
        came = [f"+ {line}" for line in now if line not in before]
        went = [f"- {line}" for line in before if line not in now]
        if not came and not went:
            return ""
        shown = [*came, *went][:NEWS]
        more = len(came) + len(went) - len(shown)
        rest = [f"({more} more; memory_view shows all)"] if more else []
        return "\n".join([read_prompt("changed").rstrip("\n"), *shown, *rest])

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
        try:
            return self.layers.read(shown.name).version == shown.memory.version
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
        return self._tools.schemas()

    def answer(self, name: str, arguments: Mapping[str, object]) -> Answer:
        """Run a memory tool."""
        return self._tools.answer(name, arguments)

    def found(self, name: str) -> tuple[str, str]:
        """The name that a file is shown by, and its text; "" when it is nowhere."""
        try:
            memory = self.layers.read(name)
        except MemsheafError:
            return name, ""
        return memory.path, memory.text

    # learning and fitting

    def learn(self, turn: Turn, *, later: bool = False) -> None:
        """Keep a finished turn, and begin to distil it, unless that is left for `later`. Raises StoreFailed, Busy."""
        if self.session.learn(turn) and not later:
            self.learning.distiller.start()

    def compact(self, conversation: Sequence[TranscriptEntry], budget: int, *, by_user: bool, name: str) -> Compacted:
        """Make a conversation fit so many tokens; what the layers say survives. Raises Refused, StoreFailed."""
        trigger = "task" if by_user else "budget"
        return self.layers.compact(conversation, budget, trigger=trigger, name=name, approve=by_user)

    def undo(self) -> str:
        """Take the last change back, in whichever scope it was; says what became of it. Raises MemsheafError."""
        _, commit = self.layers.undo()
        return "\n".join(map(_undone, commit.revisions))


class Learning:
    """What is learned behind a chat, kept until it is told."""

    def __init__(self, layers: Layers) -> None:
        self.distiller = Distiller(layers, self._heard)
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


def _undone(revision: Revision) -> str:
    """What an undo did to one memory, in words."""
    if revision.after == ABSENT:
        return f"Taken back: {revision.path} was saved last, and is gone again."
    return f"Taken back: {revision.path} is {'there again' if revision.before == ABSENT else 'as it was before'}."


def _lines(prompt: str) -> dict[str, None]:
    """The lines of a catalog that name a memory, in their order."""
    return dict.fromkeys(line[2:] for line in prompt.split("\n") if line.startswith("- ["))


def reading(schemas: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the memory tools that change nothing."""
    return [one for one in schemas if one["name"] in READING]
