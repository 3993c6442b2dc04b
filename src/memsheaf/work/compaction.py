"""Compaction: make a conversation fit a budget of tokens.

The ladder has five levels, and a conversation goes down only as far as the budget needs:

    1  long tool output is cut in the middle
    2  tool output becomes one line with a pointer
    3  tool output that the agent has answered is dropped
    4  everything before the tail is taken out, and a summary stands in its place
    5  the tail gets shorter: first its tool output, then its oldest messages

`compact` is pure: the same conversation gives the same bytes, and nothing is written. `run` also writes the messages
that were taken out to a file, and counts failures. A token is four bytes of UTF-8, rounded up for each message.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

from memsheaf.errors import ModelFailed, Refused
from memsheaf.guard.secrets import without_secrets
from memsheaf.learn import spill as spills
from memsheaf.learn.spill import Spill
from memsheaf.llm import Model, Question, answer, object_schema
from memsheaf.prompts import read_prompt
from memsheaf.recall.inject import render_file
from memsheaf.recall.turns import Message, TranscriptEntry
from memsheaf.state import State
from memsheaf.text.neutralize import cut_bytes, for_prompt, one_line
from memsheaf.text.sections import BYTES_PER_TOKEN, count_tokens

Conversation = Sequence[TranscriptEntry | Message]

BUDGET_TOKENS = 50_000
TRIGGERS = {"budget": 0, "phase": 3, "task": 4}
"""Reasons to compact a conversation, each with the level that it goes to even if it fits."""
LEVELS = (
    "nothing had to be done",
    "long tool output is cut",
    "tool output is one line each",
    "tool output that was answered is dropped",
    "all before the tail is taken out",
    "the tail is shorter, too",
)

MAX_OUTPUT_BYTES = 4_096  # of a tool; of longer output, the first half and the last quarter of this stay at level 1
MAX_LINE_BYTES = 400  # of output that no line takes the place of
MIN_TAIL_TOKENS, MAX_TAIL_TOKENS, MIN_TAIL_TEXTS = 10_000, 40_000, 5
MAX_STANDING_CHARS = 500
FIRST_QUOTES, LAST_QUOTES, MAX_QUOTE_CHARS = 8, 16, 240
MIN_SUMMARY_TOKENS = 500  # with less room there is no summary
MAX_BULLETS, MAX_BULLET_CHARS = 20, 300
MAX_MODEL_INPUT_CHARS, MAX_MODEL_MESSAGE_BYTES = 160_000, 4_000
MODEL_SECONDS = 15.0
MAX_FAILURES = 3  # in a row, until a person has to approve

KEPT, SHORTENED, TAKEN_OUT = "kept", "shortened", "taken out"
_EARLIER_QUOTE = r'(?m)^- The user said: "(.+)" \(message [0-9]+\)$'
_SCHEMA = object_schema({"bullets": {"type": "array", "maxItems": MAX_BULLETS, "items": {"type": "string"}}})


class Compacted(NamedTuple):
    """The outcome of a compaction. `text` stands before the `messages` that are left; it is "" at level 0.

    `fates` says of each message of the conversation whether it was `kept`, `shortened` or `taken out`. `before`,
    `after` and `budget` are tokens. `spill` is the file that the pointers lead to. `summary` says where the summary
    is from: `notes`, `model` or "". `problem` says why a model was of no use, or why the conversation does not fit.
    """

    level: int
    budget: int
    before: int
    after: int
    text: str
    messages: tuple[TranscriptEntry, ...]
    fates: tuple[str, ...]
    spill: Spill | None = None
    summary: str = ""
    problem: str = ""

    @property
    def fits(self) -> bool:
        """True unless what cannot be left out is longer than the budget."""
        return self.after <= self.budget

    @property
    def conversation(self) -> tuple[TranscriptEntry, ...]:
        """The shortened conversation: the text as a message of the user, and the messages that are left."""
        if not self.text:
            return self.messages
        return (TranscriptEntry("user", self.text), *self.messages)


def compact(
    conversation: Conversation,
    budget: int = BUDGET_TOKENS,
    *,
    standing: Sequence[str] = (),
    trigger: str = "budget",
    notes: str = "",
    model: Model | None = None,
    where: str = "",
    wait: float = MODEL_SECONDS,
) -> Compacted:
    """Make a conversation fit into this many tokens. Nothing is written.

    `standing` are lines that survive in any case: the phase, blockers, decisions, constraints, and where there is
    more. `notes` are the session notes. `where` is the folder of spilled files; without one nothing is spilled. The
    user's last message is kept in any case, and with it the last message and what tools answered to it: where that is
    too much, the result does not fit.

    Raises Refused when there is no such trigger, or no budget.
    """
    if trigger not in TRIGGERS:
        raise Refused(f"there is no trigger {trigger!r}; there are {', '.join(TRIGGERS)}")
    if budget < 1:
        raise Refused("the budget must be 1 token or more")
    ladder = Ladder(conversation, budget, standing, where)
    level = ladder.go_down(TRIGGERS[trigger])
    summary = source = problem = ""
    if ladder.measure() >= ladder.before:  # nothing became shorter
        ladder = Ladder(conversation, budget, standing, where)
        level = 5 if ladder.before > budget else 0
    elif level >= 4:
        taken_out = [entry for entry, text in zip(ladder.entries, ladder.texts, strict=True) if text is None]
        room = min(budget, ladder.before - 1) - ladder.measure() - 1
        summary, source, problem = summarize(taken_out, room, notes=notes, model=model, wait=wait)
    fates = ladder.fates()
    changed = [at for at, fate in enumerate(fates) if fate != KEPT]
    spill = spills.make_spill(ladder.entries, changed) if where and changed else None
    text = ladder.write(spill.name if spill else "", summary)
    after = count_all([*ladder.texts, text])
    if after > budget:
        problem = f"what cannot be left out takes {after:,} tokens, and {budget:,} are allowed"
    pairs = zip(ladder.entries, ladder.texts, strict=True)
    messages = tuple(entry._replace(text=left) for entry, left in pairs if left is not None)
    return Compacted(level, budget, ladder.before, after, text, messages, tuple(fates), spill, source, problem)


def run(
    conversation: Conversation,
    budget: int = BUDGET_TOKENS,
    *,
    state: State,
    now: float,
    name: str = "",
    days: float = spills.DAYS,
    approve: bool = False,
    **options: Any,
) -> Compacted:
    """Compact a conversation with the options of `compact`, write what is spilled, and count failures in a row.

    A compaction fails when the result does not fit, when a model was asked in vain, or when the disk refuses. After
    three failures in a row, the conversation waits for a person, who calls it with `approve`. The count is part
    of the state; a conversation without a `name` is known by its first message. Spilled files stay for `days`.

    Raises:
        Refused: it waits for a person; or there is no such trigger, or no budget.
        StoreFailed: what was taken out could not be written. Go on with the conversation as it was.
    """
    identity = name or "".join(message.text for message in conversation[:1])
    breaker = f"breaker-{sha256(identity.encode('utf-8', 'replace')).hexdigest()[:24]}"
    count, why = 0, ""
    match state.load(breaker):
        case {"failures": int(failures), "why": str(reason)} if not approve:
            count, why = failures, reason
    if count >= MAX_FAILURES:
        error = Refused(f"waiting for approval: compaction failed {count} times in a row, last because {why}")
        error.hint = "Look at why; then `memsheaf compact FILE --yes` lets it go on."
        raise error
    done = compact(conversation, budget, where=state.folder, **options)
    problem = "the disk refused"
    try:
        if done.spill:
            spills.write_spill(state, done.spill, now=now, days=days)
        problem = done.problem
    finally:
        if problem:
            state.save(breaker, {"failures": count + 1, "why": one_line(without_secrets(problem), 300)})
        else:
            state.save(breaker, None)
    return done


class Ladder:
    """One conversation on its way down. `texts` has what each message says by now, None where it is taken out.

    `starts` are the places where the conversation may be cut: never before what a tool answered. `tail` is the one
    where the part begins that stays whole down to level 4.
    """

    def __init__(
        self, conversation: Conversation, budget: int, standing: Sequence[str] = (), where: str = ""
    ) -> None:
        self.entries = tuple(TranscriptEntry(*message) for message in conversation)
        self.texts: list[str | None] = [entry.text for entry in self.entries]
        self.sizes = [count_tokens(entry.text) for entry in self.entries]
        self.before = sum(self.sizes)
        self.budget = budget
        self.standing = standing
        self.where = where
        self.starts = [at for at, entry in enumerate(self.entries) if at == 0 or entry.role != "tool"]
        self.tail = self._find_tail()

    def _find_tail(self) -> int:
        """Return where the tail begins: it has enough texts, and grows to enough tokens, but not to too many."""
        most = min(MAX_TAIL_TOKENS, 3 * self.budget // 4)
        end = len(self.entries)
        size = texts = 0
        for start in reversed(self.starts):
            piece = sum(self.sizes[start:end])
            if texts >= MIN_TAIL_TEXTS and (size >= MIN_TAIL_TOKENS or size + piece > most):
                break
            size += piece
            texts += sum(map(is_text, self.entries[start:end]))
            end = start
        return end

    def go_down(self, least: int) -> int:
        """Go down to level `least`, and from there until the conversation fits; return the level."""
        levels = (self.cut_output, self.line_output, self.drop_answered, self.take_out, self.shorten_tail)
        for level, step in enumerate(levels):
            if level >= least and self.measure() <= self.budget:
                return level
            step(0, self.tail)
        return len(levels)

    def cut_output(self, start: int, end: int) -> None:
        """Level 1: cut long tool output to its beginning and its end."""
        for at in self._long_outputs(start, end, MAX_OUTPUT_BYTES):
            data = self.entries[at].text.encode("utf-8", "replace")
            head = data[: MAX_OUTPUT_BYTES // 2].decode("utf-8", "ignore")
            tail = data[-MAX_OUTPUT_BYTES // 4 :].decode("utf-8", "ignore")
            missing = len(data) - count_bytes(head + tail)
            pointer = f"[{missing:,} bytes are left out here; the whole: message {at + 1}]"
            self._shorten(at, for_prompt(f"{head}\n{pointer}\n{tail}"))

    def line_output(self, start: int, end: int) -> None:
        """Level 2: put a line in place of tool output: which tool, its size, where it is, and how it begins."""
        for at in self._long_outputs(start, end, MAX_LINE_BYTES):
            entry = self.entries[at]
            tool = one_line(for_prompt(entry.tool), 60) or "a tool"
            first_line = cut_bytes(entry.text.lstrip(), 500).partition("\n")[0]
            begins = one_line(for_prompt(without_secrets(first_line)), 120)
            size = f"{count_bytes(entry.text):,} bytes"
            self._shorten(at, f"[output of {tool}, {size}; the whole: message {at + 1}; it begins: {begins}]")

    def drop_answered(self, start: int, end: int) -> None:
        """Level 3: take out tool output after which the agent said something, before the user did."""
        speaker = ""
        for at in reversed(range(start, len(self.entries))):
            entry = self.entries[at]
            if is_text(entry):
                speaker = entry.role
            elif entry.role == "tool" and speaker == "assistant" and at < end:
                self.texts[at] = None

    def take_out(self, start: int, end: int) -> None:
        """Level 4: take out everything except the user's last message."""
        questions = [at for at, entry in enumerate(self.entries) if entry.role == "user" and is_text(entry)]
        for at in range(start, end):
            if at not in questions[-1:]:
                self.texts[at] = None

    def shorten_tail(self, start: int, end: int) -> None:
        """Level 5: put a line in place of tool output in the tail, too, then take out its oldest part.

        What remains at least is the user's last message, and the last message with what tools answered to it.
        """
        self.line_output(end, len(self.entries))
        whole = self.texts

        def begin_at(place: int) -> bool:
            """Take out what is before a place; return True if the rest fits."""
            self.texts = whole.copy()
            self.take_out(start, place)
            return self.measure() <= self.budget

        places = [place for place in self.starts if place >= end] or [end]
        begin_at(places[bisect_left(places[:-1], True, key=begin_at)])

    def _long_outputs(self, start: int, end: int, most: int) -> list[int]:
        """Return the tool outputs of a part of the conversation that are longer than so many bytes."""
        return [
            at
            for at in range(start, end)
            if self.entries[at].role == "tool" and BYTES_PER_TOKEN * self.sizes[at] > most
        ]

    def _shorten(self, at: int, text: str) -> None:
        if count_tokens(text) < self.sizes[at]:
            self.texts[at] = text

    def fates(self) -> list[str]:
        """Return what became of each message."""
        fates = [KEPT] * len(self.entries)
        for at, text in enumerate(self.texts):
            if text is None:
                fates[at] = TAKEN_OUT
            elif text != self.entries[at].text:
                fates[at] = SHORTENED
        return fates

    def measure(self) -> int:
        """Return how many tokens are left by now, without a summary."""
        return count_all([*self.texts, self.write(spills.BLANK)])

    def write(self, file: str, summary: str = "") -> str:
        """Return the text that stands before the messages that are left.

        It is what stands, what the user said in messages that are taken out, and where the whole messages are; always
        in this order.
        """
        fates = self.fates()
        shortened, taken_out = fates.count(SHORTENED), fates.count(TAKEN_OUT)
        if not shortened + taken_out:
            return ""
        bullets = [for_prompt(one_line(without_secrets(text), MAX_STANDING_CHARS)) for text in self.standing]
        quotes = [
            f'The user said: "{quote}" (message {at + 1})' for at, quote in self._quotes if self.texts[at] is None
        ]
        shown = quotes[:FIRST_QUOTES] + quotes[FIRST_QUOTES:][-LAST_QUOTES:]
        while count_all(shown) > self.budget // 8:
            del shown[0]
        bullets += shown
        if len(shown) < len(quotes):
            bullets.append(f"Other messages of the user, not quoted here: {len(quotes) - len(shown):,}")
        bullets.append(f"Of {len(self.entries):,} messages: {shortened:,} {SHORTENED}, {taken_out:,} {TAKEN_OUT}")
        if self.where:
            bullets.append(f"Spilled file, with whole messages by their number: {os.path.join(self.where, file)}")
        lines = [read_prompt("compacted"), *(f"- {bullet}" for bullet in bullets), "", summary]
        return "\n".join(lines).rstrip() + "\n"

    @cached_property
    def _quotes(self) -> list[tuple[int, str]]:
        """The beginning of each message of the user; of an earlier compaction, the quotes in it."""
        quotes = []
        for at, entry in enumerate(self.entries):
            if entry.role == "user" and entry.text.startswith(read_prompt("compacted").partition("\n")[0]):
                earlier = re.findall(_EARLIER_QUOTE, entry.text.partition("\n<")[0])  # behind that, others speak
                quotes += [(at, quote) for quote in earlier]
            elif entry.role == "user" and entry.text.strip():
                quotes.append((at, one_line(for_prompt(without_secrets(entry.text[:8_000])), MAX_QUOTE_CHARS)))
        return quotes


def count_bytes(text: str) -> int:
    """Return how many bytes of UTF-8 a text has."""
    return len(text.encode("utf-8", "replace"))


def count_all(texts: Iterable[str | None]) -> int:
    """Return how many tokens these texts count as, one by one."""
    return sum(count_tokens(text) for text in texts if text)


def is_text(entry: TranscriptEntry) -> bool:
    """Return True if the user or the agent says something in it."""
    return entry.role != "tool" and bool(entry.text.strip())


def summarize(
    entries: Sequence[TranscriptEntry], room: int, *, notes: str, model: Model | None, wait: float
) -> tuple[str, str, str]:
    """Summarize these messages in at most `room` tokens: by the session notes, else by a model.

    Return the summary, where it is from (`notes`, `model` or ""), and what went wrong with a model.
    """
    if room < MIN_SUMMARY_TOKENS:
        return "", "", ""
    if re.search(r"\w", re.sub(r"(?s)<!--.*?-->", "", notes)):
        return _wrap("session-notes", notes, room), "notes", ""
    if model is None:
        return "", "", ""
    try:
        return _wrap("summary", _ask(entries, model, wait), room), "model", ""
    except ModelFailed as error:
        return "", "", f"{model.name}: {error}"


def _wrap(name: str, text: str, room: int) -> str:
    """Return the text between marks it cannot close, cut to what there is room for."""
    max_bytes = BYTES_PER_TOKEN * room - 150  # the marks, and the line that says it is cut
    return f"<{name}>\n{render_file(name, without_secrets(text).strip(), max_bytes)}\n</{name}>\n"


def _ask(entries: Sequence[TranscriptEntry], model: Model, wait: float) -> str:
    """Return the bullets of a model. Raises ModelFailed.

    It is asked once, in a schema, and sees what was said last, as data without secrets; no text can pose as another
    message.
    """
    short = []
    for entry in filter(is_text, entries):
        short.append(entry._replace(text=cut_bytes(without_secrets(entry.text), MAX_MODEL_MESSAGE_BYTES)))
    shown = for_prompt(spills.make_spill(short, range(len(short))).text)[-MAX_MODEL_INPUT_CHARS:]
    system = read_prompt("compact").replace("{most}", str(MAX_BULLETS))
    match answer(model, Question(system, shown, _SCHEMA, max_tokens=2_000), wait):
        case {"bullets": list(bullets)} if all(isinstance(bullet, str) for bullet in bullets):
            lines = [one_line(bullet.lstrip("-*• "), MAX_BULLET_CHARS) for bullet in bullets[:MAX_BULLETS]]
        case _:
            raise ModelFailed("its answer is not a list of bullets")
    if not any(lines):
        raise ModelFailed("its answer says nothing")
    return "\n".join(f"- {line}" for line in lines if line)
