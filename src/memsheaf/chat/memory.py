"""The memory of a chat: its catalog, recall, memory tools and learning; and how a conversation is made to fit.

All of it is over `Sheaf`: those around the working directory, or the scopes that were named.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from memsheaf.adapters.background import Distiller
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError, Ref
from memsheaf.hub.upkeep import HubUpkeep, start_upkeep
from memsheaf.learn.conversation_file import UNRECORDED_TEXT
from memsheaf.learn.extract import JudgedProposal
from memsheaf.learn.learner import ALREADY_LEARNING, Distilled
from memsheaf.llm import Model
from memsheaf.llm.model import Said
from memsheaf.prompts import read_prompt
from memsheaf.recall.recall import Recall
from memsheaf.recall.turns import TranscriptEntry, Turn
from memsheaf.scope import around
from memsheaf.sheaf import Sheaf, load_metered_model
from memsheaf.store import ABSENT
from memsheaf.text.neutralize import one_line
from memsheaf.text.requests import follow_privacy, is_silent
from memsheaf.text.sections import count_tokens
from memsheaf.tools import Tools
from memsheaf.work.compaction import Compacted
from memsheaf.worktree import record_tree

PATIENCE_SECONDS = 0.5  # that the first request waits for local ranking; it does not wait for a model
MAX_QUOTED_CHARS = 120  # of an old and a new line
MAX_NEWS_LINES = 20  # changed lines of the catalog that are shown at once


class ChatMemory:
    """The memory of one chat. Close it."""

    def __init__(self, layers: Sheaf, *, selector: Model | None = None, tree: str = "") -> None:
        self.layers = layers
        self.session = layers.session(model=selector, tree=tree)
        self.learning = Learning(layers)
        self._selecting = selector is not None
        self.tools = Tools(layers, session=self.session)
        self._told = ""
        self.has_learned = False
        self._folder = ""
        self._upkeep: HubUpkeep | None = None

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        cwd: str,
        scopes: Sequence[str] = (),
        by: str = "agent",
        selector: Model | None = None,
    ) -> ChatMemory:
        """Open the memory of a chat in this folder. With a `selector`, that model chooses what is recalled.

        Raises:
            ScopeRefused, NotFound, StoreFailed.
        """
        with ExitStack() as stack:
            layers = stack.enter_context(Sheaf.open(settings=settings, cwd=cwd, scopes=scopes, by=by))
            upkeep = start_upkeep(settings, cwd, scopes)
            if upkeep:
                stack.callback(upkeep.close)
                upkeep.wait()
            memory = cls(layers, selector=selector, tree=around(cwd))
            memory._folder = cwd
            memory._upkeep = upkeep
            stack.pop_all()  # from here on whoever has it closes it
        return memory

    def close(self) -> None:
        """Let everything go; what waits for a hub is pushed, if it answers soon."""
        if self._upkeep:
            self._upkeep.close()
        self.layers.close()

    def prompt(self) -> str:
        """The section for the system prompt, as memory is now; later changes are reported as news."""
        self._told = self.layers.prompt()
        return self._told

    def news(self) -> str:
        """Return how the catalog has changed since this was last asked for, to stand beside a message; or ""."""
        before = _read_lines(self._told)
        now = _read_lines(self.prompt())
        changes = [f"+ {line}" for line in now if line not in before]
        changes += [f"- {line}" for line in before if line not in now]
        if len(changes) > MAX_NEWS_LINES:
            left = len(changes) - MAX_NEWS_LINES
            changes[MAX_NEWS_LINES:] = [f"({left} more; memory_view shows all)"]
        return "\n".join([read_prompt("changed").rstrip("\n"), *changes]) if changes else ""

    def begin(self, message: str, *, tools: Sequence[str] = ()) -> None:
        """Begin to recall for a message."""
        self.has_learned = False
        self.session.prefetch(message, tools=tools)

    def collect(self, *, is_first: bool) -> Recall | None:
        """Return what was recalled, if it is there; once. The first request waits a moment for it."""
        return self.session.collect(wait=PATIENCE_SECONDS if is_first and not self._selecting else 0.0)

    def find(self, name: str) -> tuple[str, str]:
        """Return the name that a file is shown by, and its text; "" when it is nowhere."""
        try:
            memory = self.layers.read(name)
        except MemsheafError:
            return name, ""
        return self.layers.label(memory.ref), memory.text

    def learn(self, turn: Turn, *, later: bool = False) -> None:
        """Keep a finished turn, and begin to distil it, unless that is left for `later`. Raises StoreFailed, Busy."""
        if self._folder:
            record_tree(self.layers.settings.places(self._folder))
        if self.session.learn(turn) and not later:
            self.learning.distiller.start()
        if self._upkeep:
            self._upkeep.wake()

    def learn_now(self, turn: Turn) -> list[JudgedProposal] | None:
        """Learn from a turn before it is answered, and return what became of each fact that it states.

        Nothing else is learned from that turn: `has_learned` says so until the next one begins. None when that takes
        a model, or another process is at it: then it is learned behind the turn.

        Raises:
            StoreFailed, Busy.
        """
        try:
            if load_metered_model(self.layers.settings, "extract"):
                return None
        except MemsheafError:
            return None
        self.has_learned = True
        self.learning.distiller.wait()
        is_empty = not any(message.text.strip() for message in turn.messages)
        if is_empty or is_silent(self.session.privacy) or not self.session.learn(turn):
            return []
        distilled = self.layers.distil()
        own = [verdict for verdict in distilled.verdicts if verdict.proposal.conversation == turn.label]
        others = tuple(verdict for verdict in distilled.verdicts if verdict not in own)
        self.learning.take(distilled._replace(verdicts=others))
        return None if distilled.problem else own

    def compact(
        self, conversation: Sequence[Said], budget: int, *, by_user: bool, name: str
    ) -> tuple[Compacted, list[Said]]:
        """Make a conversation fit this many tokens: what became of it, and the messages to go on with.

        What stood beside messages is left out: what matters is recalled again. Nothing of a turn off the record gets
        into the summary.

        Raises:
            Refused: it failed three times in a row, and waits for the user to ask for it.
            StoreFailed: what was taken out could not be written.
        """
        silent = set()
        entries = []
        # what was compacted before may have held the request
        privacy = self.session.privacy if any(map(is_summary, conversation)) else ""
        for number, said in enumerate(conversation):
            if said.role == "user" and not is_summary(said):
                privacy = follow_privacy(privacy, said.text)
            is_left_out = is_silent(privacy) and not is_summary(said)
            silent |= {number} if is_left_out else set()
            calls = tuple(call.id for call in said.calls) or ((said.answers,) if said.answers else ())
            text = UNRECORDED_TEXT if is_left_out else said.text
            entries.append(TranscriptEntry(said.role, text, str(number), said.tool, calls))
        from memsheaf.work.brief import compact

        done = compact(
            self.layers, entries, budget, trigger="task" if by_user else "budget", name=name, approve=by_user
        )
        left = []
        for entry in done.conversation:
            number = int(entry.id) if entry.id else -1
            was = conversation[number] if entry.id else Said(entry.role, entry.text)
            left.append(was._replace(text=was.text if number in silent else entry.text, beside=""))
        return done, [said for said in _pair_calls(left) if said.text or said.calls]

    def undo(self) -> str:
        """Take the last change back, in whichever scope it was; says what became of it. Raises MemsheafError."""
        lines = []
        for commit in self.layers.undo():
            for revision in commit.revisions:
                ends = {revision.before: "there again", revision.after: "gone again"}
                is_now = ends.get(ABSENT, "as it was before")
                file = self.layers.label(Ref(commit.scope, revision.path))
                lines.append(f"Taken back: {file} is {is_now}.")
        return "\n".join(lines)


class Learning:
    """The results of learning during a chat, kept until they are told."""

    def __init__(self, layers: Sheaf) -> None:
        self.distiller = Distiller(layers, self.take)
        self._layers = layers
        self._guard = threading.Lock()
        self._names: list[str] = []
        self._lines: list[str] = []
        self._problem = ""  # that the user knows of

    def collect(self) -> tuple[list[str], list[str]]:
        """Return the names of what was learned, and lines about corrections, reviews and failures; each once."""
        with self._guard:
            collected = self._names, self._lines
            self._names = []
            self._lines = []
        return collected

    def take(self, came: Distilled) -> None:
        """Keep what came of some turns until it is told. The same failure is told once."""
        saved = came.of("saved")
        lines = [self._render_correction(each) for each in saved if each.proposal.replaces]
        if queued := len(came.of("queued")):
            lines.append(f"{queued} waiting for review: /review")
        with self._guard:
            self._names += [each.proposal.name for each in saved]
            self._lines += lines
            if came.problem != ALREADY_LEARNING:
                if came.problem and came.problem != self._problem:
                    self._lines.append(f"what was said waits, and is learned later: {came.problem}")
                self._problem = came.problem

    def _render_correction(self, one: JudgedProposal) -> str:
        """Return which memory was corrected, from what to what."""
        new = one_line(one.proposal.content.partition("\n")[0], MAX_QUOTED_CHARS)
        ref = one.proposal.replaces
        old = one_line(self.find_old_line(ref) if ref else "…", MAX_QUOTED_CHARS)
        return f"corrected {self._layers.label(ref) if ref else ''}: “{old}” → “{new}”; /undo takes it back"

    def find_old_line(self, ref: Ref) -> str:
        """Return the first line that the last change took from the body of a memory, or put its new text above.

        It is "…" if that is not known.
        """
        try:
            lines = self._layers.open_scope(ref.scope).diff(ref.path).split("\n")
        except MemsheafError:
            lines = []
        lines.sort(key=lambda line: line[:1] != "-")
        return next((line[1:] for line in lines if re.match(r"[- ](?!--|[a-z_]+: ).*\S", line)), "…")


def _read_lines(prompt: str) -> list[str]:
    """Return the lines of a catalog that name a memory."""
    return [line[2:] for line in prompt.split("\n") if line.startswith("- [")]


def conversation_size(conversation: Sequence[Said]) -> int:
    """Return the tokens of a conversation, with texts beside its messages and arguments of calls."""
    return sum(
        count_tokens(said.text) + count_tokens(said.beside) + sum(count_tokens(call.arguments) for call in said.calls)
        for said in conversation
    )


def is_summary(said: Said) -> bool:
    """Return True if a message is the summary of an earlier part of the conversation."""
    return said.role == "user" and said.text.startswith(read_prompt("compacted").partition("\n")[0])


def _pair_calls(conversation: Sequence[Said]) -> Iterator[Said]:
    """Yield the messages without unanswered tool calls and without answers whose call is gone."""
    answered = {said.answers for said in conversation if said.answers}
    called = {call.id for said in conversation for call in said.calls}
    for said in conversation:
        if not said.answers or said.answers in called:
            yield said._replace(calls=tuple(call for call in said.calls if call.id in answered))
