"""The levels of compaction: what becomes of each message, and the text that stands for what is left out.

Long tool output is cut (1); it becomes one line with a pointer (2); what the agent has answered since is dropped (3);
all before the tail is taken out (4); only what stands, the bullets and as much of the tail as fits are left (5).
All of it is pure: the same conversation gives the same bytes.

The summary of what is taken out are the session notes, which need no model; else the bullets of a model, which is
asked once, in a schema, with a time limit, and sees the messages as data, without secrets.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from memsheaf.errors import ModelFailed
from memsheaf.guard.secrets import without_secrets
from memsheaf.learn import spill as spills
from memsheaf.learn.spill import Spill
from memsheaf.llm import Model, Question, answer, object_schema
from memsheaf.prompts import read_prompt
from memsheaf.recall.turns import Message, TranscriptEntry
from memsheaf.text.neutralize import cut_bytes, for_prompt, one_line
from memsheaf.work.compaction.messages import LINE, MeasuredConversation, Ruling, find_rulings, is_text, size, tokens

LEVELS = (
    "nothing had to be done",
    "long tool output is cut",
    "tool output is one line each",
    "tool output that was answered is dropped",
    "all before the tail is taken out",
    "only the bullets and what fits of the tail are left",
)
"""What each level means, in words."""

LONG, HEAD, TAIL = 4_096, 2_048, 1_024  # bytes: output with more is long; so many of its beginning and end are kept
FIRST, LAST = 8, 16  # sentences of the user that are quoted; in at most a quarter of the budget
ITEM = 500  # characters that are shown of one thing that stands
KEPT, CUT, LINED, DROPPED, SPILLED = "kept", "cut", "one line", "dropped", "spilled"
_LEFT_OUT = {CUT: "cut in the middle", LINED: "in one line", DROPPED: "dropped", SPILLED: "spilled"}

# Notes serve instead of a model when what they stand for has so many tokens, and so many messages with text.
RICH_TOKENS, RICH_TEXTS = 10_000, 5
NOTES_MOST = 40_000  # tokens of notes that are taken in at most
WAIT = 15.0  # seconds that a model has
LEAST = 500  # with less room than so many tokens a model is not asked
BULLETS, BULLET = 20, 300  # how many a model may give, and how many characters of each are taken
SHOWN, SHOWN_EACH, SHOWN_TOOL = 160_000, 4_000, 300  # bytes that a model is shown: of all, of a message, of a tool

_SCHEMA = object_schema({"bullets": {"type": "array", "maxItems": BULLETS, "items": {"type": "string"}}})


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


class Summary(NamedTuple):
    """A summary: its text, where it is from (`notes`, `model` or ""), and what went wrong with a model."""

    text: str = ""
    source: str = ""
    problem: str = ""


NO_SUMMARY = Summary()


class LevelPlan(NamedTuple):
    """One level: the text that each message has there, None where nothing is left of it; and its fate."""

    level: int
    texts: list[str | None]
    fates: list[str]

    @property
    def taken(self) -> list[int]:
        """The messages that are not there whole."""
        return [at for at, fate in enumerate(self.fates) if fate != KEPT]

    def left(self, entries: Sequence[TranscriptEntry]) -> tuple[TranscriptEntry, ...]:
        """The messages that are there, as they are there."""
        both = zip(entries, self.texts, strict=True)
        return tuple(entry._replace(text=text) for entry, text in both if text is not None)


class Ladder:
    """One conversation on its way down; `where` is the folder of spilled files, "" without one."""

    def __init__(
        self,
        conversation: Sequence[TranscriptEntry | Message],
        budget: int,
        standing: Standing,
        trigger: str,
        where: str,
    ) -> None:
        self._measured = MeasuredConversation.of(conversation, budget)
        self.entries = self._measured.entries
        self.before = sum(self._measured.sizes)
        self._budget = budget
        self._standing = standing
        self._trigger = trigger
        self._where = where
        self._lines: dict[int, str] = {}

    def unchanged(self) -> Compacted:
        """Level 0: nothing is done."""
        fits, fates = self.before <= self._budget, (KEPT,) * len(self.entries)
        return Compacted(self._trigger, 0, fits, self._budget, self.before, self.before, "", self.entries, fates)

    def at(self, level: int) -> LevelPlan:
        """Levels 1 to 3: tool output before the tail is cut, becomes a line, is dropped. 4: all before it is out.

        Where large output makes a tail of few messages, level 4 has some more before it, with output in one line.
        """
        tail, near = self._measured.tail, self._measured.near
        return self._plan(level, (near, 4), (tail, 2)) if level == 4 else self._plan(level, (tail, level))

    def reset(self) -> LevelPlan:
        """Level 5: tool output in the tail is cut, then becomes a line; then the tail gets shorter.

        The last that is tried is the user's last message, with the last message and what tools answered to it.
        """
        tail, end = self._measured.tail, len(self.entries)
        plan = self._plan(5, (tail, 4), (end, 1))
        if self.after(plan) <= self._budget:
            return plan
        starts = [start for start in self._measured.starts if start >= tail] or [0]

        def fits(start: int) -> bool:
            return self.after(self._plan(5, (start, 4), (end, 2))) <= self._budget

        first = bisect_left(starts[:-1], True, key=fits)
        return self._plan(5, (starts[first], 4), (end, 2))

    def after(self, plan: LevelPlan, summary: Summary = NO_SUMMARY) -> int:
        """How many tokens a plan leaves."""
        left = sum(
            self._measured.sizes[at] if fate == KEPT else tokens(plan.texts[at] or "")
            for at, fate in enumerate(plan.fates)
        )
        return left + tokens(self._text(plan, self._bullets(plan, spills.BLANK), summary))

    def done(self, plan: LevelPlan, summary: Summary = NO_SUMMARY) -> Compacted:
        """What comes of a plan."""
        after = self.after(plan, summary)
        spill = spills.make_spill(self.entries, plan.taken) if self._where else None
        bullets = self._bullets(plan, spill.name if spill else "")
        return Compacted(
            trigger=self._trigger,
            level=plan.level,
            fits=after <= self._budget,
            budget=self._budget,
            before=self.before,
            after=after,
            text=self._text(plan, bullets, summary),
            messages=plan.left(self.entries),
            fates=tuple(plan.fates),
            bullets=bullets,
            spill=spill,
            summary=summary.source,
            problem=summary.problem,
        )

    def _plan(self, level: int, *zones: tuple[int, int]) -> LevelPlan:
        """Each zone ends before a message, and says how short its messages get; what is behind the last is kept."""
        plan = LevelPlan(level, [entry.text for entry in self.entries], [KEPT] * len(self.entries))
        start = 0
        for end, rung in zones:
            for at in range(start, end):
                if at != self._measured.asked:
                    plan.texts[at], plan.fates[at] = self._shortened(at, rung)
            start = end
        return plan

    def _shortened(self, at: int, rung: int) -> tuple[str | None, str]:
        """A message as short as a rung has it, and its fate; what would get no shorter stays."""
        entry, length = self.entries[at], self._measured.sizes[at]
        if rung == 4:
            return None, SPILLED if self._where else DROPPED
        if entry.role != "tool":
            return entry.text, KEPT
        if rung == 3 and self._answered[at]:
            return None, DROPPED
        if 4 * length > (LONG if rung == 1 else LINE):
            text = _cut_output(entry, self._place(at)) if rung == 1 else self._line(at)
            if tokens(text) < length:
                return text, CUT if rung == 1 else LINED
        return entry.text, KEPT

    @cached_property
    def _answered(self) -> list[bool]:
        """Whether the agent said something after each message, before the user did."""
        found = [False] * len(self.entries)
        is_answered = False
        for at, entry in reversed(list(enumerate(self.entries))):
            found[at] = is_answered
            if entry.role != "tool" and entry.text.strip():
                is_answered = entry.role == "assistant"
        return found

    def _line(self, at: int) -> str:
        """A line in place of a tool's output: which tool, how it begins, its size, and where it is."""
        if at not in self._lines:
            text, tool = self.entries[at].text, one_line(for_prompt(self.entries[at].tool), 60) or "a tool"
            first = cut_bytes(text.lstrip(), ITEM).partition("\n")[0]
            begins, place = one_line(for_prompt(without_secrets(first)), 120), self._place(at)
            self._lines[at] = f"[output of {tool}, {size(text):,} bytes; the whole: {place}; it begins: {begins}]"
        return self._lines[at]

    def _place(self, at: int) -> str:
        """Where the whole of a message is found."""
        if self._where:
            return f"message {at + 1} in the spilled file"
        name = self.entries[at].id
        return f"message {one_line(name, 80)}" if name else f"message {at + 1} of the conversation"

    def _text(self, plan: LevelPlan, bullets: Sequence[str], summary: Summary) -> str:
        """What stands before the messages that are left."""
        head = read_prompt("compacted").replace("{taken}", f"{len(plan.taken):,}")
        head = head.replace("{total}", f"{len(self.entries):,}")
        return "\n".join([head, *(f"- {bullet}" for bullet in bullets), "", summary.text]).rstrip() + "\n"

    def _bullets(self, plan: LevelPlan, file: str) -> tuple[str, ...]:
        """What stands, what the user said, what was left out, and where it is; always in this order."""
        stands = self._standing
        found = [("Phase", stands.phase)] if stands.phase.strip() else []
        found += [("Blocker", text) for text in stands.blockers]
        found += [("Decision", text) for text in stands.decisions]
        found += [("Constraint", text) for text in stands.constraints]
        found += [("Layer", text) for text in stands.pointers]
        bullets = [f"{name}: {for_prompt(one_line(without_secrets(text), ITEM))}" for name, text in found]
        bullets += self._quotes(plan)
        counts = Counter(plan.fates)
        left_out = (f"{counts[fate]:,} {said}" for fate, said in _LEFT_OUT.items() if counts[fate])
        bullets.append(f"Messages that are not whole: {', '.join(left_out)}")
        if self._where:
            bullets.append(f"Spilled file, with whole messages by their number: {os.path.join(self._where, file)}")
        return tuple(bullets)

    def _quotes(self, plan: LevelPlan) -> list[str]:
        """What the user decided and asked for, in messages that are no longer there."""
        if not any(self.entries[at].role == "user" for at in plan.taken):
            return []
        quotes = [one.bullet for one in self._rulings if plan.fates[one.at] != KEPT]
        kept: list[str] = []
        room = self._budget  # a quarter of the budget, in bytes
        for quote in reversed(quotes if len(quotes) <= FIRST + LAST else quotes[:FIRST] + quotes[-LAST:]):
            room -= size(quote) + 3
            if room < 0:
                break
            kept.append(quote)
        others = f"Other decisions and requests of the user, not quoted here: {len(quotes) - len(kept):,}"
        return [*reversed(kept), *([others] if len(kept) < len(quotes) else [])]

    @cached_property
    def _rulings(self) -> list[Ruling]:
        return find_rulings(self.entries)


def _cut_output(entry: TranscriptEntry, place: str) -> str:
    """The beginning and the end of a tool's output."""
    head = cut_bytes(entry.text, HEAD)
    tail = entry.text[-TAIL:].encode("utf-8", "replace")[-TAIL:].decode("utf-8", "ignore")
    left = size(entry.text) - size(head) - size(tail)
    return f"{for_prompt(head)}\n[{left:,} bytes are left out here; the whole: {place}]\n{for_prompt(tail)}"


def summarize(
    entries: Sequence[TranscriptEntry], room: int, *, notes: str, model: Model | None, wait: float = WAIT
) -> Summary:
    """A summary of these messages, in at most `room` tokens."""
    has_notes = bool(re.search(r"\w", re.sub(r"(?s)<!--.*?-->", "", notes)))
    rich = sum(tokens(one.text) for one in entries) >= RICH_TOKENS and sum(map(is_text, entries)) >= RICH_TEXTS
    problem = ""
    if model is not None and room >= LEAST and not (has_notes and rich):
        try:
            return Summary(_enveloped("summary", "\n".join(_asked(entries, model, wait)), room), "model")
        except ModelFailed as error:
            problem = f"{model.name}: {error}"
    text = _enveloped("session-notes", notes, room) if has_notes else ""
    return Summary(text, "notes" if text else "", problem)


def _enveloped(name: str, text: str, room: int) -> str:
    """The text between marks it cannot close, cut to what there is room for; "" when that is too little."""
    shown = for_prompt(without_secrets(text).strip())
    most = 4 * min(room, NOTES_MOST) - size(name) * 2 - 16
    if size(shown) > most:
        kept = cut_bytes(shown, most - 40).rpartition("\n")[0] or cut_bytes(shown, most - 40)
        shown = f"{kept}\n({size(shown):,} bytes, cut here)" if most >= LEAST else ""
    return f"<{name}>\n{shown}\n</{name}>\n" if shown else ""


def _asked(entries: Sequence[TranscriptEntry], model: Model, wait: float) -> list[str]:
    """The bullets of a model. Raises ModelFailed."""
    system = read_prompt("compact").replace("{most}", str(BULLETS))
    said = answer(model, Question(system, _dialogue(entries), _SCHEMA, max_tokens=2_000), wait)
    bullets = said.get("bullets") if isinstance(said, dict) else None
    if not isinstance(bullets, list) or not all(isinstance(one, str) for one in bullets):
        raise ModelFailed("its answer is not a list of bullets")
    lines = [line for one in bullets[:BULLETS] if (line := one_line(one.lstrip("-*• "), BULLET))]
    if not lines:
        raise ModelFailed("its answer says nothing")
    return [f"- {line}" for line in lines]


def _dialogue(entries: Sequence[TranscriptEntry]) -> str:
    """What a model is shown: the messages between marks that no text can know, the last ones if need be."""
    nonce = os.urandom(8).hex()
    shown: list[str] = []
    room = SHOWN
    for number, entry in reversed(list(enumerate(entries, 1))):
        most = SHOWN_TOOL if entry.role == "tool" else SHOWN_EACH
        text = cut_bytes(for_prompt(without_secrets(cut_bytes(entry.text, 16 * most))), most)
        part = f"<message-{nonce} number={number} from={entry.role}>\n{text}\n</message-{nonce}>"
        room -= size(part)
        if room < 0:
            shown.append(f"({number} earlier messages are not shown)")
            break
        shown.append(part)
    return "\n".join(reversed(shown))
