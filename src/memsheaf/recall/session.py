"""Sessions: the memory side of one conversation, with a recall in the background.

    session = sheaf.session()
    session.prefetch(message)          # starts, and returns at once
    …                                  # the first call of the agent's own model
    if recall := session.collect():    # polled, never waited for; once
        message += recall.text

A recall that comes late is there at the next step. Two conversations share nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from memsheaf.errors import MemsheafError
from memsheaf.llm import Model
from memsheaf.memory import Memory
from memsheaf.recall.recall import QUERY_TEXTS, Occasion, Recall, RecallSource, recall
from memsheaf.text.requests import asks_to_ignore, follow_privacy, is_silent
from memsheaf.text.spoken import unwrapped
from memsheaf.worktree import WorkingTree

if TYPE_CHECKING:
    from memsheaf.index.database import Row
    from memsheaf.recall.turns import Turn

IGNORED = "the user asked to ignore memory in this turn"
PRIVATE = "the user asked not to store anything of this turn"


class SessionMemory(Protocol):
    """The memory that a session recalls from, and learns for; `Sheaf` is one."""

    home: str
    clock: Callable[[], float]

    @property
    def root(self) -> str:
        """Return the folder of the home scope."""

    def open_scopes(self) -> Sequence[RecallSource]:
        """Return the scopes, the nearest first."""

    def prompt(self) -> str:
        """Return the section for a system prompt."""

    def learn(self, turn: Turn) -> bool:
        """Keep a finished turn until it is distilled."""


class Session:
    """The memory side of one conversation, over all scopes of a sheaf.

    `tree` is the working folder: what a memory cites and names is looked up there. `spent` is how many bytes of
    memories this conversation has seen. In a turn in which the user asked to do without memory it is `ignoring`:
    `prompt` is empty, `learn` keeps nothing, and `Tools` with this session refuse to be called. `texts` are the last
    messages, and `privacy` is how far the user's wish not to store anything reaches: see `follow_privacy`.
    """

    def __init__(
        self, memory: SessionMemory, *, model: Model | None = None, deadline: float = 5.0, tree: str = ""
    ) -> None:
        self._memory = memory
        self._sources = memory.open_scopes()
        self._model = model
        self._deadline = deadline
        self._tree = tree
        self._guard = threading.Lock()
        self.texts: list[str] = []
        self._surfaced: set[tuple[str, str, str]] = set()
        self._ignored: set[str] = set()
        self._running: _BackgroundRecall | None = None
        self.spent = 0
        self.ignoring = False
        self.privacy = ""

    def prompt(self) -> str:
        """Return the section for the system prompt in this turn, every scope after the other; "" while ignoring."""
        return "" if self.ignoring else self._memory.prompt()

    def learn(self, turn: Turn) -> bool:
        """Keep the finished turn until it is distilled, in the nearest scope. False for one that ignores memory."""
        texts = {message.text for message in turn.messages if message.role == "user"}
        is_ignored = self.ignoring or not self._ignored.isdisjoint(texts)
        self._ignored -= texts  # it was the turn of that message; the same words may come again
        if is_ignored and not turn.unkept:  # that the user wants it is noted, and nothing else
            return False
        return self._memory.learn(turn)

    def refusal(self, is_reading: bool) -> str:
        """Return why a tool may not be called in this turn, "" when it may: nothing of a private turn is written."""
        if self.ignoring:
            return f"{IGNORED}; answer without it."
        return f"{PRIVATE}; answer without saving." if is_silent(self.privacy) and not is_reading else ""

    def recall(
        self, message: str, *, ignore: bool = False, is_new_turn: bool = True, is_query: bool = False
    ) -> Recall:
        """Recall for a message, now. With `ignore`, or when the user asks for it, nothing is read.

        A question of the agent's own is no new turn. With `is_query` a person asks the memory itself, and may do so
        with a single word.
        """
        if is_new_turn:
            self._begin(message, ignore=ignore)
        if self.ignoring:
            return Recall(gate=IGNORED)
        occasion = self._occasion(message)._replace(is_query=is_query)
        return self._count_shown(self._recall(occasion), message)

    def show(self, rows: Sequence[Row]) -> Recall:
        """Return these memories as a recall, each once in the conversation; nothing while ignoring."""
        if self.ignoring:
            return Recall(gate=IGNORED)
        return self._count_shown(self._recall(self._occasion("", keep=False)._replace(rows=rows)), "")

    def why(self, message: str) -> Recall:
        """Return what `recall` would give for a person's query now, and why; nothing is counted as shown."""
        if asks_to_ignore(message):
            return Recall(gate=IGNORED)
        return self._recall(self._occasion(message, keep=False)._replace(is_query=True))

    def verdicts(self, memory: Memory) -> list[str]:
        """Say whether the citations of a memory hold in the working folder, and what it names that is gone."""
        with ExitStack() as stack:
            return list(self._checker(stack)(memory))

    def prefetch(self, message: str, *, ignore: bool = False, tools: Sequence[str] = ()) -> None:
        """Begin to recall for a message, beside whatever else goes on. One that still runs is cancelled.

        `tools` are those the agent has just used: how to use them need not be recalled.
        """
        self._begin(message, ignore=ignore)
        if not self.ignoring:
            occasion = self._occasion(message, tools)
            self._running = _BackgroundRecall(message, lambda: self._recall(occasion))

    def collect(self, *, wait: float = 0.0) -> Recall | None:
        """Return what was prefetched, once; None before it is there and afterwards. Waits at most `wait` seconds."""
        run = self._running
        if run is None or not run.is_finished(wait):
            return None
        self._running = None
        return self._count_shown(run.outcome, run.message)

    def give_back(self, shown: Recall) -> None:
        """Take it that a recall was not shown after all: its memories may be recalled again."""
        with self._guard:
            self.spent -= shown.size
            self._surfaced -= _versions(shown)

    def cancel(self) -> None:
        """Forget what is being prefetched: the turn was aborted, or is over."""
        self._running = None

    def state(self) -> dict[str, object]:
        """Return what is needed to go on later, as JSON can keep it: what was shown, and how much room is used."""
        shown = sorted(map(list, self._surfaced))
        return {"spent": self.spent, "surfaced": shown, "privacy": self.privacy}

    def resume(self, state: Mapping[str, object]) -> None:
        """Go on from a saved state; what cannot be understood of it is left out, and at worst shown again."""
        self.privacy = str(state.get("privacy") or "")
        spent, surfaced = state.get("spent"), state.get("surfaced")
        self.spent = max(0, spent) if isinstance(spent, int) else 0
        self._surfaced = set()
        for version in surfaced if isinstance(surfaced, list) else []:
            match version:
                case [str(scope), str(path), str(digest)]:
                    self._surfaced.add((scope, path, digest))

    def _begin(self, message: str, *, ignore: bool) -> None:
        self.cancel()
        self.ignoring = ignore or asks_to_ignore(message)
        if self.ignoring:
            self._ignored.add(message)
        self.privacy = follow_privacy(self.privacy, unwrapped(message))

    def _occasion(self, message: str, tools: Sequence[str] = (), *, keep: bool = True) -> Occasion:
        with self._guard:
            texts = [*self.texts, message][-QUERY_TEXTS:]
            if keep:
                self.texts = texts
            return Occasion(
                texts=texts,
                today=time.strftime("%Y-%m-%d", time.localtime(self._memory.clock())),
                nonce=os.urandom(8).hex(),
                surfaced=frozenset(self._surfaced),
                spent=self.spent,
                tools=tools,
                home=self._memory.home,
            )

    def _recall(self, occasion: Occasion) -> Recall:
        with ExitStack() as stack:
            occasion = occasion._replace(check=self._checker(stack))
            return recall(self._sources, occasion, model=self._model, deadline=self._deadline)

    def _count_shown(self, shown: Recall, message: str) -> Recall:
        with self._guard:
            self.spent += shown.size
            self._surfaced |= _versions(shown)
        if is_silent(self.privacy):
            message = ""
        for source in self._sources:
            paths = [each.memory.path for each in shown.memories if each.scope == str(source.scope)]
            if paths:
                source.count_use(paths, message)
        return shown

    def _checker(self, stack: ExitStack) -> Callable[[Memory], Sequence[str]]:
        """Return a function that looks up in the working folder what a memory cites and names.

        The folder is opened for the first memory that does.
        """
        trees: list[WorkingTree] = []

        def check(memory: Memory) -> list[str]:
            if not self._tree:
                return []
            from memsheaf.guard.evidence import examine, named_in

            if not memory.citations and not any(named_in(memory.body)):
                return []
            try:
                if not trees:
                    trees.append(stack.enter_context(WorkingTree(self._tree, memories=self._memory.root)))
                evidence = examine(memory, trees[0])
            except MemsheafError as error:
                return [f"its citations were not checked: {error}"]
            notes = [f"citation {verdict.state}: {verdict.said}" for _, verdict in evidence.citations]
            if evidence.gone:
                notes.append(f"not in the working tree any more: {', '.join(evidence.gone)}")
            return notes

        return check


def _versions(shown: Recall) -> set[tuple[str, str, str]]:
    return {(each.scope, each.memory.path, each.memory.version) for each in shown.memories}


class _BackgroundRecall:
    """A recall in a thread of its own, which ends with the process at the latest."""

    def __init__(self, message: str, work: Callable[[], Recall]) -> None:
        self.message = message
        self.outcome = Recall()
        self._work = work
        self._thread = threading.Thread(target=self._run, name="memsheaf-recall", daemon=True)
        self._thread.start()

    def is_finished(self, wait: float) -> bool:
        """Return True if it is done, or becomes so within `wait` seconds."""
        self._thread.join(wait)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.outcome = self._work()
        except MemsheafError as error:
            self.outcome = Recall(gate=f"memory cannot be read: {error}")
