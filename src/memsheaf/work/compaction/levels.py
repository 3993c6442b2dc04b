"""The levels of compaction: what becomes of each message, and the text that stands for what is left out.

Long tool output is cut (1); it becomes one line with a pointer (2); what the agent has answered since is dropped (3);
all before the tail is taken out (4); only what stands, the bullets and as much of the tail as fits are left (5).
All of it is pure: the same conversation gives the same bytes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from memsheaf.guard.secrets import without_secrets
from memsheaf.learn import spill as spills
from memsheaf.learn.spill import Spill
from memsheaf.prompts import read_prompt
from memsheaf.recall.turns import TranscriptEntry
from memsheaf.text.neutralize import cut_bytes, for_prompt, one_line
from memsheaf.values import NamedTuple
from memsheaf.work.compaction.decisions import Ruling, find_rulings
from memsheaf.work.compaction.messages import TAIL_TEXTS, MeasuredConversation, is_text, size, tokens
from memsheaf.work.compaction.summary import NO_SUMMARY, Summary

LEVELS = (
    "nothing had to be done",
    "long tool output is cut",
    "tool output is one line each",
    "tool output that was answered is dropped",
    "all before the tail is taken out",
    "only what stands, the bullets and what fits of the tail are left",
)
"""What each level means, in words."""

LONG, HEAD, TAIL = 4_096, 2_048, 1_024
"""Tool output with more bytes than the first is long; so many are kept of its beginning, and of its end."""

LINE = 400
"""Tool output with at most so many bytes is no longer than the line that would stand for it."""

FIRST, LAST = 8, 16
"""How many sentences of the user are quoted, of the first and of the last; in at most a quarter of the budget."""

ITEM = 500
"""How many characters are shown of one thing that stands."""

KEPT, CUT, LINED, DROPPED, SPILLED = "kept", "cut", "one line", "dropped", "spilled"
_LEFT_OUT = {CUT: "cut in the middle", LINED: "in one line", DROPPED: "dropped", SPILLED: "spilled"}


class Standing(NamedTuple):
    """What survives whatever happens. `pointers` tell where the layers are: `task/feature-x`, `session/ab12`."""

    phase: str = ""
    blockers: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    pointers: tuple[str, ...] = ()


class Compacted(NamedTuple):
    """What became of a conversation. `text` stands before the `messages` that are left; it is "" at level 0.

    `fates` says of each message of the conversation what became of it: `kept`, `cut`, `one line`, `dropped` or
    `spilled`. `before`, `after` and `budget` are tokens. `bullets` are those in the text. `spill` is what has to be
    written for its pointers to lead somewhere. `summary` is where the summary comes from: `notes`, `model` or "".
    `problem` says why a model was of no use, or why it does not fit.
    """

    trigger: str
    level: int
    fits: bool
    budget: int
    before: int
    after: int
    text: str
    messages: tuple[TranscriptEntry, ...]
    fates: tuple[str, ...]
    bullets: tuple[str, ...] = ()
    spill: Spill | None = None
    summary: str = ""
    problem: str = ""

    @property
    def conversation(self) -> tuple[TranscriptEntry, ...]:
        """What there is to go on with: the text as a message of the user, and the messages that are left."""
        return (TranscriptEntry("user", self.text), *self.messages) if self.text else self.messages

    @property
    def counts(self) -> dict[str, int]:
        """How many messages had which fate."""
        return dict(Counter(self.fates))


class LevelPlan(NamedTuple):
    """One level: what becomes of each message; None where nothing is left of it."""

    level: int
    forms: list[TranscriptEntry | None]
    fates: list[str]

    @property
    def taken(self) -> list[int]:
        """The messages that are not there whole."""
        return [at for at, fate in enumerate(self.fates) if fate != KEPT]


class Ladder:
    """One conversation on its way down."""

    def __init__(
        self, conversation: MeasuredConversation, budget: int, standing: Standing, trigger: str, where: str
    ) -> None:
        self.conversation = conversation
        self.before = sum(conversation.sizes)
        self._budget = budget
        self._standing = standing
        self._trigger = trigger
        self._where = where
        self._answered = _answered(conversation.entries)
        self._rulings: list[Ruling] | None = None
        self._lines: dict[int, str] = {}

    def unchanged(self) -> Compacted:
        """Level 0: nothing is done."""
        fits, fates = self.before <= self._budget, (KEPT,) * len(self.conversation.entries)
        return Compacted(
            self._trigger, 0, fits, self._budget, self.before, self.before, "", self.conversation.entries, fates
        )

    def at(self, level: int) -> LevelPlan:
        """Levels 1 to 3: tool output before the tail is cut, becomes a line, is dropped. 4: all before it is out.

        Where large output makes a tail of few messages, level 4 has some more before it, with output in one line.
        """
        tail = self.conversation.tail
        near = self._near() if level == 4 else 0
        plan = self._without(near, level)
        for at in self.conversation.older(tail):
            if at >= near:
                self._shorten(plan, at, level if level < 4 else 2)
        return plan

    def reset(self) -> LevelPlan:
        """Level 5: tool output in the tail is cut, then becomes a line; then the tail gets shorter.

        The last that is tried is the user's last message, with the last message and what tools answered to it.
        """
        for plan in (self._bare(self.conversation.tail, rung) for rung in (1, 2)):
            if self.after(plan) <= self._budget:
                return plan
        starts = [start for start in self.conversation.starts if start > self.conversation.tail] or [
            self.conversation.last
        ]
        low, high = 0, len(starts) - 1
        while low < high:
            middle = (low + high) // 2
            if self.after(self._bare(starts[middle], 2)) <= self._budget:
                high = middle
            else:
                low = middle + 1
        return self._bare(starts[high], 2)

    def after(self, plan: LevelPlan, summary: Summary = NO_SUMMARY) -> int:
        """How many tokens a plan leaves."""
        left = sum(
            self.conversation.sizes[at] if plan.fates[at] == KEPT else tokens(form.text)
            for at, form in enumerate(plan.forms)
            if form is not None
        )
        return left + tokens(self._text(plan, self._bullets(plan, spills.BLANK), summary))

    def done(self, plan: LevelPlan, summary: Summary = NO_SUMMARY) -> Compacted:
        """What comes of a plan."""
        after = self.after(plan, summary)
        spill = spills.make_spill(self.conversation.entries, plan.taken) if self._where else None
        bullets = self._bullets(plan, spill.name if spill else "")
        return Compacted(
            trigger=self._trigger,
            level=plan.level,
            fits=after <= self._budget,
            budget=self._budget,
            before=self.before,
            after=after,
            text=self._text(plan, bullets, summary),
            messages=tuple(form for form in plan.forms if form is not None),
            fates=tuple(plan.fates),
            bullets=bullets,
            spill=spill,
            summary=summary.source,
            problem=summary.problem,
        )

    def _near(self) -> int:
        """Where what is near the end begins: the tail, and messages before it until it has enough with text."""
        conversation, near = self.conversation, self.conversation.tail
        room = conversation.most - sum(conversation.sizes[near:])
        texts = sum(map(is_text, conversation.entries[near:]))
        for start in reversed([start for start in conversation.starts if start < near]):
            if texts >= TAIL_TEXTS:
                break
            room -= sum(min(conversation.sizes[at], tokens(self._lined(at))) for at in range(start, near))
            if room < 0:
                break
            texts += sum(map(is_text, conversation.entries[start:near]))
            near = start
        return near

    def _without(self, tail: int, level: int) -> LevelPlan:
        """Everything, but for what stands before a tail."""
        plan = LevelPlan(level, [*self.conversation.entries], [KEPT] * len(self.conversation.entries))
        for at in self.conversation.older(tail):
            plan.forms[at], plan.fates[at] = None, SPILLED if self._where else DROPPED
        return plan

    def _bare(self, tail: int, rung: int) -> LevelPlan:
        plan = self._without(tail, 5)
        for at in range(tail, len(plan.forms)):
            self._shorten(plan, at, rung)
        return plan

    def _shorten(self, plan: LevelPlan, at: int, level: int) -> None:
        """Make a tool's output as short as a level has it; what would get no shorter stays."""
        entry = self.conversation.entries[at]
        if entry.role != "tool":
            return
        if level == 3 and self._answered[at]:
            plan.forms[at], plan.fates[at] = None, DROPPED
            return
        is_long = 4 * self.conversation.sizes[at] > (LONG if level == 1 else LINE)
        text = (_cut(entry, self._place(at)) if level == 1 else self._lined(at)) if is_long else entry.text
        if tokens(text) < self.conversation.sizes[at]:
            plan.forms[at], plan.fates[at] = entry._replace(text=text), CUT if level == 1 else LINED

    def _lined(self, at: int) -> str:
        """A message in one line, if it is a tool's."""
        entry = self.conversation.entries[at]
        if entry.role == "tool" and at not in self._lines:
            self._lines[at] = _line(entry, self._place(at))
        return self._lines.get(at, entry.text)

    def _place(self, at: int) -> str:
        """Where the whole of a message is found."""
        if self._where:
            return f"message {at + 1} in the spilled file"
        name = self.conversation.entries[at].id
        return f"message {one_line(name, 80)}" if name else f"message {at + 1} of the conversation"

    def _text(self, plan: LevelPlan, bullets: Sequence[str], summary: Summary) -> str:
        """What stands before the messages that are left."""
        head = read_prompt("compacted").replace("{taken}", f"{len(plan.taken):,}")
        head = head.replace("{total}", f"{len(self.conversation.entries):,}")
        return "\n".join([head, *(f"- {bullet}" for bullet in bullets), "", summary.text]).rstrip() + "\n"

    def _bullets(self, plan: LevelPlan, file: str) -> tuple[str, ...]:
        """What stands, what the user said, what was left out, and where it is; always in this order."""
        stands = self._standing
        found = [("Phase", stands.phase)] if stands.phase.strip() else []
        found += [("Blocker", text) for text in stands.blockers]
        found += [("Decision", text) for text in stands.decisions]
        found += [("Constraint", text) for text in stands.constraints]
        found += [("Layer", text) for text in stands.pointers]
        bullets = [f"{name}: {_item(text)}" for name, text in found]
        bullets += self._quotes(plan)
        counts = Counter(fate for fate in plan.fates if fate != KEPT)
        left_out = (f"{counts[fate]:,} {said}" for fate, said in _LEFT_OUT.items() if counts[fate])
        bullets.append(f"Messages that are not whole: {', '.join(left_out)}")
        if self._where:
            bullets.append(f"Spilled file, with whole messages by their number: {os.path.join(self._where, file)}")
        return tuple(bullets)

    def _quotes(self, plan: LevelPlan) -> list[str]:
        """What the user decided and asked for, in messages that are no longer there."""
        if all(plan.fates[at] == KEPT for at, one in enumerate(self.conversation.entries) if one.role == "user"):
            return []
        if self._rulings is None:
            self._rulings = find_rulings(self.conversation.entries)
        gone = [one for one in self._rulings if plan.fates[one.at] != KEPT]
        quotes = [one.bullet for one in gone]
        kept: list[str] = []
        room = self._budget  # a quarter of the budget, in bytes
        for quote in reversed(quotes if len(quotes) <= FIRST + LAST else quotes[:FIRST] + quotes[-LAST:]):
            room -= size(quote) + 3
            if room < 0:
                break
            kept.append(quote)
        others = f"Other decisions and requests of the user, not quoted here: {len(quotes) - len(kept):,}"
        return [*reversed(kept), *([others] if len(kept) < len(quotes) else [])]


def _answered(entries: Sequence[TranscriptEntry]) -> list[bool]:
    """Whether the agent said something after each message, before the user did."""
    found = [False] * len(entries)
    is_answered = False
    for at in reversed(range(len(entries))):
        found[at] = is_answered
        if entries[at].role != "tool" and entries[at].text.strip():
            is_answered = entries[at].role == "assistant"
    return found


def _item(text: str) -> str:
    return for_prompt(one_line(without_secrets(text), ITEM))


def _cut(entry: TranscriptEntry, place: str) -> str:
    """The beginning and the end of a tool's output."""
    head = cut_bytes(entry.text, HEAD)
    tail = _last_bytes(entry.text, TAIL)
    left = size(entry.text) - size(head) - size(tail)
    return f"{for_prompt(head)}\n[{left:,} bytes are left out here; the whole: {place}]\n{for_prompt(tail)}"


def _line(entry: TranscriptEntry, place: str) -> str:
    """A line that stands for a tool's output: which tool, how it begins, how large it was, and where it is."""
    first = cut_bytes(entry.text.lstrip(), ITEM).partition("\n")[0]
    begins = one_line(for_prompt(without_secrets(first)), 120)
    tool = one_line(for_prompt(entry.tool), 60)
    return f"[output of {tool or 'a tool'}, {size(entry.text):,} bytes; the whole: {place}; it begins: {begins}]"


def _last_bytes(text: str, limit: int) -> str:
    """The end of a text, at most `limit` bytes of UTF-8, never half a character."""
    if text.isascii():
        return text[-limit:]
    data = text[-limit:].encode("utf-8", "replace")
    return data[-limit:].decode("utf-8", "ignore")
