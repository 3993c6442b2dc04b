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
from typing import TYPE_CHECKING

from memsheaf.errors import MemsheafError
from memsheaf.llm import Model
from memsheaf.memory import Memory
from memsheaf.recall.recall import QUERY_TEXTS, Occasion, Recall, RecallSource, recall
from memsheaf.text.requests import asks_to_ignore, follow_privacy, is_silent
from memsheaf.text.spoken import unwrapped

if TYPE_CHECKING:
    from memsheaf.recall.turns import Turn
    from memsheaf.worktree import WorkingTree

IGNORED = "the user asked to ignore memory in this turn"
PRIVATE = "the user asked not to store anything of this turn"
_FORMAT = 1


class Session:
    """The memory side of one conversation, over one or several scopes, the nearest first.

    In `home`, the first of them unless another is named, files are shown by their bare names. `used` is called with
    the memories of a scope that were shown and the message, "" in a turn off the record. `tree` is the working
    folder: what a memory cites and names is looked up there, but not among the `memories` themselves. `spent` is how
    many bytes of memories this conversation has seen. In a turn in which the user asked to do without memory it is
    `ignoring`: `prompt` is empty, `learn` keeps nothing, and `Tools` with this session refuse to be called.
    """

    def __init__(
        self,
        sources: Sequence[RecallSource],
        *,
        home: str = "",
        model: Model | None = None,
        deadline: float = 5.0,
        used: Callable[[str, Sequence[str], str], None] = lambda scope, paths, message: None,
        prompt: Callable[[], str] | None = None,
        learn: Callable[[Turn], bool] | None = None,
        tree: str = "",
        memories: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sources = tuple(sources)
        self._home = home or str(self._sources[0].scope)
        self._model = model
        self._deadline = deadline
        self._used = used
        self._prompt = prompt
        self._learn = learn
        self._tree = tree
        self._memories = memories
        self._clock = clock
        self._guard = threading.Lock()
        self._texts: list[str] = []
        self._surfaced: set[tuple[str, str, str]] = set()
        self._running: _BackgroundRecall | None = None
        self._ignored: set[str] = set()
        self.spent = 0
        self.ignoring = False
        self.privacy = ""  # how far the user's wish not to store anything reaches: see `follow_privacy`

    def prompt(self) -> str:
        """The section for the system prompt in this turn, every scope after the other; "" while ignoring."""
        return self._prompt() if self._prompt and not self.ignoring else ""

    def learn(self, turn: Turn) -> bool:
        """Keep the finished turn until it is distilled, in the nearest scope. False for one that ignores memory."""
        said = {message.text for message in turn.messages if message.role == "user"}
        is_ignored = not self._ignored.isdisjoint(said)
        self._ignored -= said  # it was the turn of that message; the same words may come again
        if (self.ignoring or is_ignored) and not turn.unkept:  # that the user wants it is noted, and nothing else
            return False
        return bool(self._learn and self._learn(turn))

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

    def verdicts(self, memory: Memory) -> list[str]:
        """What the folder of the work says about a memory: whether its citations hold, what it names that is gone."""
        with ExitStack() as stack:
            return list(self._checker(stack)(memory))

    def why(self, message: str) -> Recall:
        """Return what `recall` would give for a person's query now, and why; nothing is counted as shown."""
        if asks_to_ignore(message):
            return Recall(gate=IGNORED)
        return self._recall(self._occasion(message, keep=False)._replace(is_query=True))

    def prefetch(self, message: str, *, ignore: bool = False, tools: Sequence[str] = ()) -> None:
        """Begin to recall for a message, beside whatever else goes on. One that still runs is cancelled.

        `tools` are those the agent has just used: how to use them need not be recalled.
        """
        self._begin(message, ignore=ignore)
        if not self.ignoring:
            occasion = self._occasion(message, tools)
            self._running = _BackgroundRecall(message, lambda: self._recall(occasion))

    def collect(self, *, wait: float = 0.0) -> Recall | None:
        """What was prefetched, once it is there; None until then, and after it was given. Waits `wait` seconds."""
        run = self._running
        if run is None or not run.finished(wait):
            return None
        self._running = None
        return self._count_shown(run.outcome, run.message)

    def give_back(self, found: Recall) -> None:
        """Take it that a recall was not shown after all: its memories may be recalled again."""
        with self._guard:
            self.spent -= found.size
            self._surfaced -= _versions(found)

    def cancel(self) -> None:
        """Forget what is being prefetched: the turn was aborted, or is over."""
        self._running = None

    def state(self) -> dict[str, object]:
        """What is needed to go on later, as JSON can keep it: what was shown, and how much room is used."""
        shown = sorted(map(list, self._surfaced))
        return {"format": _FORMAT, "spent": self.spent, "surfaced": shown, "privacy": self.privacy}

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
            texts = [*self._texts, message][-QUERY_TEXTS:]
            if keep:
                self._texts = texts
            return Occasion(
                texts=texts,
                today=time.strftime("%Y-%m-%d", time.localtime(self._clock())),
                nonce=os.urandom(8).hex(),
                surfaced=frozenset(self._surfaced),
                spent=self.spent,
                tools=tools,
                home=self._home,
            )

    def _recall(self, occasion: Occasion) -> Recall:
        with ExitStack() as stack:
            occasion = occasion._replace(check=self._checker(stack))
            return recall(self._sources, occasion, model=self._model, deadline=self._deadline)

    def _count_shown(self, found: Recall, message: str) -> Recall:
        shown: dict[str, list[str]] = {}
        for each in found.memories:
            shown.setdefault(each.scope, []).append(each.memory.path)
        with self._guard:
            self.spent += found.size
            self._surfaced |= _versions(found)
        for scope, paths in shown.items():
            self._used(scope, paths, "" if is_silent(self.privacy) else message)
        return found

    def _checker(self, stack: ExitStack) -> Callable[[Memory], Sequence[str]]:
        """Looks up in the working folder what memories cite and name; it is opened for the first that does."""
        opened: list[WorkingTree] = []

        def check(memory: Memory) -> list[str]:
            if not self._tree:
                return []
            from memsheaf.guard.evidence import examine, named_in
            from memsheaf.worktree import WorkingTree

            if not memory.citations and not any(named_in(memory.body)):
                return []
            try:
                if not opened:
                    opened.append(stack.enter_context(WorkingTree.open(self._tree, memories=self._memories)))
                found = examine(memory, opened[0])
            except MemsheafError as error:
                return [f"its citations were not checked: {error}"]
            notes = [f"citation {verdict.state}: {verdict.said}" for _, verdict in found.citations]
            return [*notes, f"not in the working tree any more: {', '.join(found.gone)}"] if found.gone else notes

        return check


def _versions(found: Recall) -> set[tuple[str, str, str]]:
    return {(each.scope, each.memory.path, each.memory.version) for each in found.memories}


class _BackgroundRecall:
    """A recall in a thread of its own, which ends with the process at the latest."""

    def __init__(self, message: str, work: Callable[[], Recall]) -> None:
        self.message = message
        self.outcome = Recall()
        self._work = work
        self._thread = threading.Thread(target=self._run, name="memsheaf-recall", daemon=True)
        self._thread.start()

    def finished(self, wait: float) -> bool:
        """Whether it is done, or becomes so within `wait` seconds."""
        self._thread.join(wait)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.outcome = self._work()
        except MemsheafError as error:
            self.outcome = Recall(gate=f"memory cannot be read: {error}")
