"""Compaction: make a conversation fit a budget of tokens.

The ladder has five levels, and a conversation goes down only as far as the budget needs. Long tool output is cut (1);
it becomes one line with a pointer (2); what the agent has answered since is dropped (3); all before the tail is
spilled into a file (4); only what stands, the bullets and as much of the tail as fits are left (5).

`compact` is pure: the same conversation gives the same bytes, and nothing is written. `run` writes what is spilled,
and minds the circuit breaker. Tokens are counted as bytes of UTF-8 divided by four, rounded up, message by message.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

from memsheaf.errors import ModelFailed, Refused, StoreFailed, hinted
from memsheaf.guard.secrets import without_secrets
from memsheaf.learn import spill as spills
from memsheaf.learn.spill import Spill
from memsheaf.llm import Model, Question, answer, object_schema
from memsheaf.prompts import read_prompt
from memsheaf.recall.turns import Message, TranscriptEntry
from memsheaf.store.state import State
from memsheaf.text.neutralize import cut_bytes, for_prompt, one_line
from memsheaf.text.sections import count_tokens

Conversation = Sequence[TranscriptEntry | Message]

BUDGET = 50_000  # tokens of a conversation, by default
TRIGGERS = {"budget": 0, "phase": 3, "task": 4}
"""Reasons to compact a conversation, each with the level that is gone to even if it fits: what a phase has done with
is dropped at its end, and all before the tail at the end of a task."""
LEVELS = (
    "nothing had to be done",
    "long tool output is cut",
    "tool output is one line each",
    "tool output that was answered is dropped",
    "all before the tail is taken out",
    "only the bullets and what fits of the tail are left",
)
"""Each level in words."""

# Tool output: what is long is cut to its two ends; what is longer than a line becomes one.
LONG_OUTPUT_BYTES, HEAD_BYTES, TAIL_BYTES = 4_096, 2_048, 1_024
LINE_BYTES = 400
# The tail grows until it has the least and enough messages with text, and never beyond the most.
MIN_TAIL_TOKENS, MAX_TAIL_TOKENS, MIN_TAIL_TEXTS = 10_000, 40_000, 5
# Messages of the user that are quoted, in at most an eighth of the budget.
FIRST_QUOTES, LAST_QUOTES, MAX_QUOTE_CHARS = 8, 16, 240
MAX_STANDING_CHARS = 500
# Notes serve instead of a model when what they stand for has so many tokens, and so many messages with text.
RICH_TOKENS, RICH_TEXTS, MAX_NOTES_TOKENS = 10_000, 5, 40_000
MODEL_SECONDS, MIN_MODEL_TOKENS = 15.0, 500  # with less room a model is not asked
MAX_BULLETS, MAX_BULLET_CHARS = 20, 300
MAX_SHOWN_BYTES, MAX_SHOWN_MESSAGE_BYTES, MAX_SHOWN_OUTPUT_BYTES = 160_000, 4_000, 300
FIRST_NOTES_TOKENS, MORE_NOTES_TOKENS, MORE_NOTES_CALLS = 10_000, 5_000, 3
MAX_FAILURES = 3  # in a row, until a person has to approve

KEPT, CUT, LINED, DROPPED, SPILLED = "kept", "cut", "one line", "dropped", "spilled"
_LEFT_OUT = {CUT: "cut in the middle", LINED: "in one line", DROPPED: "dropped", SPILLED: "spilled"}
_EARLIER_QUOTE = r'(?m)^- The user said: "(.+)" \(message [0-9]+\)$'
_SCHEMA = object_schema({"bullets": {"type": "array", "maxItems": MAX_BULLETS, "items": {"type": "string"}}})


class Standing(NamedTuple):
    """State that survives in any case. `pointers` name the scopes with more: `task/feature-x`, `session/ab12`."""

    phase: str = ""
    blockers: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    pointers: tuple[str, ...] = ()


NOTHING = Standing()


class Summary(NamedTuple):
    """A summary: its text, where it is from (`notes`, `model` or ""), and what went wrong with a model."""

    text: str = ""
    source: str = ""
    problem: str = ""


NO_SUMMARY = Summary()


class Compacted(NamedTuple):
    """The outcome of a compaction. `text` stands before the `messages` that are left; it is "" at level 0.

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
        """The shortened conversation: the text as a message of the user, and the messages that are left."""
        return (TranscriptEntry("user", self.text), *self.messages) if self.text else self.messages

    @property
    def counts(self) -> dict[str, int]:
        """Return how many messages had which fate."""
        return dict(Counter(self.fates))


def compact(
    conversation: Conversation,
    budget: int = BUDGET,
    *,
    standing: Standing = NOTHING,
    trigger: str = "budget",
    notes: str = "",
    model: Model | None = None,
    where: str = "",
    wait: float = MODEL_SECONDS,
) -> Compacted:
    """Make a conversation fit into this many tokens. Nothing is written.

    `notes` are the session notes. `where` is the folder of spilled files; without one, pointers name messages of the
    conversation itself. The user's last message is kept in any case, and with it at least the last message and what
    tools answered to it: where that is too much, `fits` is False.

    Raises Refused when there is no such trigger, or no budget.
    """
    if trigger not in TRIGGERS:
        raise Refused(f"there is no trigger {trigger!r}; there are {', '.join(TRIGGERS)}")
    if budget < 1:
        raise Refused("the budget must be 1 token or more")
    ladder = Ladder(conversation, budget, standing=standing, where=where)
    levels: Iterable[int] = range(TRIGGERS[trigger] or 1, 5)
    most = budget
    if ladder.before <= budget:  # what fits is touched only to make it smaller
        levels, most = [TRIGGERS[trigger]] if TRIGGERS[trigger] else [], ladder.before - 1
    for level in levels:
        draft = ladder.go_down(level)
        room = most - ladder.measure(draft)
        if room >= 0:
            gone = [ladder.entries[at] for at in draft.taken]
            summary = summarize(gone, room - 1, notes=notes, model=model, wait=wait) if level == 4 else NO_SUMMARY
            return ladder.finish(draft, level, trigger, summary)
    if ladder.before <= budget:
        return ladder.finish(ladder.draft(), 0, trigger)
    done = ladder.finish(ladder.go_down(5), 5, trigger)
    if done.after >= done.before:
        done = ladder.finish(ladder.draft(), 5, trigger)  # nothing can be taken out
    if done.fits:
        return done
    return done._replace(problem=f"what cannot be left out takes {done.after:,} tokens, and {budget:,} are allowed")


def run(
    conversation: Conversation,
    budget: int = BUDGET,
    *,
    state: State,
    now: float,
    name: str = "",
    days: float = spills.DAYS,
    **options: Any,
) -> Compacted:
    """Compact a conversation for real, with the options of `compact`: write what is spilled, count failures in a row.

    It failed when it does not fit, when a model was asked and was of no use, or when the disk refused. `name` is what
    the conversation is called; without one it is known by its first message. Spilled files stay for `days`.

    Raises:
        Refused: it failed three times in a row, and waits for a person; or there is no such trigger, or no budget.
        StoreFailed: what was taken out could not be written. Go on with the conversation as it was.
    """
    breaker = _breaker(conversation, name)
    count, why = count_failures(state, breaker)
    if count >= MAX_FAILURES:
        error = Refused(f"waiting for approval: compaction failed {count} times in a row, last because {why}")
        raise hinted(error, "Look at why; then `memsheaf compact FILE --approve` lets it go on.")
    done = compact(conversation, budget, where=state.folder, **options)
    try:
        if done.spill:
            spills.write_spill(state, done.spill, now=now, days=days)
    except StoreFailed as error:
        _record_result(state, breaker, str(error))
        raise
    _record_result(state, breaker, done.problem)
    return done


def approve(conversation: Conversation, *, state: State, name: str = "") -> None:
    """Let a conversation be compacted again: a person says so."""
    _record_result(state, _breaker(conversation, name), "")


# The circuit breaker: after three failures in a row, a conversation waits for a person's approval. The count is a
# small file of the state directory, one for each conversation that failed, so a restart does not forget it. It goes
# when a compaction succeeds or a person approves.


def _breaker(conversation: Conversation, name: str) -> str:
    """Return the name of the file with the count; a conversation without a name is known by its first message."""
    known_by = name or "".join(message.text for message in conversation[:1])
    return f"breaker-{sha256(known_by.encode('utf-8', 'replace')).hexdigest()[:24]}.json"


def count_failures(state: State, breaker: str) -> tuple[int, str]:
    """Return how many failures there were since the last success, and why the last one was.

    A count that cannot be read is taken for one less than the limit: one more try is let through, and only its
    success makes it good again.
    """
    if breaker not in state.names():
        return 0, ""
    match state.load(breaker):
        case {"failures": int(count), "why": str(why)} if count > 0 and count is not True:
            return count, why
    return MAX_FAILURES - 1, "the count of failures cannot be read"


def _record_result(state: State, breaker: str, problem: str) -> None:
    """Count a failure; without a problem begin again. Raises StoreFailed, Busy."""
    if not problem and breaker not in state.names():
        return
    with state.lock("breaker", wait=5.0):
        if problem:
            count = count_failures(state, breaker)[0] + 1
            state.save(breaker, {"failures": count, "why": one_line(without_secrets(problem), 300)})
        else:
            state.remove(breaker)


def notes_due(tokens: int, written_at: int | None, tool_calls_since: int, last_turn_had_tools: bool) -> bool:
    """Return True if session notes should be written now; `written_at` is how long the conversation was last time.

    First at 10,000 tokens; then after 5,000 more, and 3 calls of tools or a turn without any.

    >>> notes_due(9_999, None, 50, True), notes_due(10_000, None, 0, True), notes_due(15_000, 10_000, 2, False)
    (False, True, True)
    """
    if written_at is None:
        return tokens >= FIRST_NOTES_TOKENS
    is_pause = tool_calls_since >= MORE_NOTES_CALLS or not last_turn_had_tools
    return is_pause and tokens - written_at >= MORE_NOTES_TOKENS


class Draft(NamedTuple):
    """A conversation at one level: the text that each message has there, None where it is left out; and its fate."""

    texts: list[str | None]
    fates: list[str]

    @property
    def taken(self) -> list[int]:
        """The messages that are not there whole."""
        return [at for at, fate in enumerate(self.fates) if fate != KEPT]


class Ladder:
    """One conversation on its way down; `where` is the folder of spilled files, "" without one.

    `starts` are the places where it may be cut, the first is 0. `tail` is where the tail begins that stays whole, at
    most three quarters of the budget; `near` is before it where that has too few texts.
    """

    def __init__(
        self, conversation: Conversation, budget: int, *, standing: Standing = NOTHING, where: str = ""
    ) -> None:
        self.entries = tuple(TranscriptEntry(*message) for message in conversation)
        self.sizes = [count_tokens(entry.text) for entry in self.entries]
        self.before = sum(self.sizes)
        self.starts = _find_starts(self.entries)
        self.budget = budget
        self._standing = standing
        self._where = where
        questions = [at for at, entry in enumerate(self.entries) if entry.role == "user" and entry.text.strip()]
        self._last_question = questions[-1] if questions else -1
        self.tail = self._find_tail(self.sizes, MIN_TAIL_TOKENS)
        short = [
            min(size, LINE_BYTES // 4) if entry.role == "tool" and at < self.tail else size
            for at, (entry, size) in enumerate(zip(self.entries, self.sizes, strict=True))
        ]
        self.near = min(self.tail, self._find_tail(short, 0))

    def _find_tail(self, sizes: Sequence[int], least: int) -> int:
        """Return where the tail begins: from the end, until it is enough, or the next piece would be too much."""
        most = min(MAX_TAIL_TOKENS, 3 * self.budget // 4)
        end = len(self.entries)
        taken = texts = 0
        for start in reversed(self.starts):
            piece = sum(sizes[start:end])
            is_enough = taken >= least and texts >= MIN_TAIL_TEXTS
            if end < len(self.entries) and (is_enough or taken + piece > most):
                return end
            taken += piece
            texts += sum(map(is_text, self.entries[start:end]))
            end = start
        return 0

    def draft(self) -> Draft:
        """Return the conversation as it is: level 0."""
        return Draft([entry.text for entry in self.entries], [KEPT] * len(self.entries))

    def cut_output(self, draft: Draft, start: int, end: int) -> None:
        """Level 1: cut long tool output to its beginning and its end."""
        for at in self._outputs(start, end, LONG_OUTPUT_BYTES):
            text = self.entries[at].text
            head = cut_bytes(text, HEAD_BYTES)
            tail = text[-TAIL_BYTES:].encode("utf-8", "replace")[-TAIL_BYTES:].decode("utf-8", "ignore")
            left = count_bytes(text) - count_bytes(head + tail)
            pointer = f"[{left:,} bytes are left out here; the whole: {self._place(at)}]"
            self._replace(draft, at, for_prompt(f"{head}\n{pointer}\n{tail}"), CUT)

    def line_output(self, draft: Draft, start: int, end: int) -> None:
        """Level 2: put a line in place of tool output: which tool, its size, where it is, and how it begins."""
        for at in self._outputs(start, end, LINE_BYTES):
            entry = self.entries[at]
            tool = one_line(for_prompt(entry.tool), 60) or "a tool"
            first = cut_bytes(entry.text.lstrip(), 500).partition("\n")[0]
            size = f"{count_bytes(entry.text):,} bytes"
            begins = one_line(for_prompt(without_secrets(first)), 120)
            line = f"[output of {tool}, {size}; the whole: {self._place(at)}; it begins: {begins}]"
            self._replace(draft, at, line, LINED)

    def drop_answered(self, draft: Draft, start: int, end: int) -> None:
        """Level 3: leave out tool output after which the agent said something, before the user did."""
        self.line_output(draft, start, end)
        is_answered = False
        for at in reversed(range(len(self.entries))):
            entry = self.entries[at]
            if entry.role == "tool" and is_answered and start <= at < end:
                draft.texts[at], draft.fates[at] = None, DROPPED
            if is_text(entry):
                is_answered = entry.role == "assistant"

    def spill(self, draft: Draft, start: int, end: int) -> None:
        """Level 4: leave out everything but the user's last message; a file has it, where there is one."""
        for at in range(start, end):
            if at != self._last_question:
                draft.texts[at], draft.fates[at] = None, SPILLED if self._where else DROPPED

    def reset(self) -> Draft:
        """Level 5: cut tool output in the tail, then put a line in its place; then make the tail shorter.

        The last that is tried is the user's last message, with the last message and what tools answered to it.
        """
        end = len(self.entries)
        draft = self.draft()
        self.spill(draft, 0, self.tail)
        self.cut_output(draft, self.tail, end)
        if self.measure(draft) <= self.budget:
            return draft

        def keep_from(start: int) -> Draft:
            shorter = self.draft()
            self.line_output(shorter, start, end)
            self.spill(shorter, 0, start)
            return shorter

        starts = [start for start in self.starts if start >= self.tail] or [0]
        first = bisect_left(starts[:-1], True, key=lambda start: self.measure(keep_from(start)) <= self.budget)
        return keep_from(starts[first])

    def go_down(self, level: int) -> Draft:
        """Return the conversation at a level from 1 to 5, made from the whole one.

        Where large output makes a tail of few messages, level 4 has some more before it, with output in one line.
        """
        draft = self.draft()
        if level == 1:
            self.cut_output(draft, 0, self.tail)
        elif level == 2:
            self.line_output(draft, 0, self.tail)
        elif level == 3:
            self.drop_answered(draft, 0, self.tail)
        elif level == 4:
            self.spill(draft, 0, self.near)
            self.line_output(draft, self.near, self.tail)
        else:
            draft = self.reset()
        return draft

    def _outputs(self, start: int, end: int, least: int) -> list[int]:
        """Return the tool outputs of a part of the conversation that are longer than so many bytes."""
        return [at for at in range(start, end) if self.entries[at].role == "tool" and 4 * self.sizes[at] > least]

    def _replace(self, draft: Draft, at: int, text: str, fate: str) -> None:
        """Put another text in a message, unless it would be no shorter."""
        if count_tokens(text) < self.sizes[at]:
            draft.texts[at], draft.fates[at] = text, fate

    def _place(self, at: int) -> str:
        return f"message {at + 1} {'in the spilled file' if self._where else 'of the conversation'}"

    def measure(self, draft: Draft) -> int:
        """Return how many tokens a draft leaves, without a summary."""
        return count_all([*draft.texts, self._write(draft, self._bullets(draft, spills.BLANK), NO_SUMMARY)])

    def finish(self, draft: Draft, level: int, trigger: str, summary: Summary = NO_SUMMARY) -> Compacted:
        """Return the outcome of a draft; one that takes nothing leaves the conversation as it is."""
        spill = spills.make_spill(self.entries, draft.taken) if self._where and draft.taken else None
        bullets = self._bullets(draft, spill.name if spill else "")
        text = self._write(draft, bullets, summary)
        after = count_all([*draft.texts, text])
        pairs = zip(self.entries, draft.texts, strict=True)
        return Compacted(
            trigger=trigger,
            level=level,
            fits=after <= self.budget,
            budget=self.budget,
            before=self.before,
            after=after,
            text=text,
            messages=tuple(entry._replace(text=left) for entry, left in pairs if left is not None),
            fates=tuple(draft.fates),
            bullets=bullets,
            spill=spill,
            summary=summary.source,
            problem=summary.problem,
        )

    def _write(self, draft: Draft, bullets: Sequence[str], summary: Summary) -> str:
        """Return what stands before the messages that are left."""
        if not bullets:
            return ""
        head = read_prompt("compacted").replace("{taken}", f"{len(draft.taken):,}")
        head = head.replace("{total}", f"{len(self.entries):,}")
        return "\n".join([head, *(f"- {bullet}" for bullet in bullets), "", summary.text]).rstrip() + "\n"

    def _bullets(self, draft: Draft, file: str) -> tuple[str, ...]:
        """Return what stands, what the user said, what was left out, and where it is; always in this order."""
        if not draft.taken:
            return ()
        standing = self._standing
        bullets = [
            f"{name}: {for_prompt(one_line(without_secrets(text), MAX_STANDING_CHARS))}"
            for name, texts in (
                ("Phase", (standing.phase,)),
                ("Blocker", standing.blockers),
                ("Decision", standing.decisions),
                ("Constraint", standing.constraints),
                ("Layer", standing.pointers),
            )
            for text in texts
            if text.strip()
        ]
        quotes = [
            f'The user said: "{quote}" (message {at + 1})' for at, quote in self._quotes if draft.texts[at] is None
        ]
        shown = quotes[:FIRST_QUOTES] + quotes[FIRST_QUOTES:][-LAST_QUOTES:]
        while count_bytes("\n- ".join(shown)) > self.budget // 2:  # in bytes, which is an eighth of it
            del shown[0]
        bullets += shown
        if len(shown) < len(quotes):
            bullets.append(f"Other messages of the user, not quoted here: {len(quotes) - len(shown):,}")
        counts = Counter(draft.fates)
        left_out = (f"{counts[fate]:,} {words}" for fate, words in _LEFT_OUT.items() if counts[fate])
        bullets.append(f"Messages that are not whole: {', '.join(left_out)}")
        if self._where:
            bullets.append(f"Spilled file, with whole messages by their number: {os.path.join(self._where, file)}")
        return tuple(bullets)

    @cached_property
    def _quotes(self) -> list[tuple[int, str]]:
        """How each message of the user begins; of an earlier compaction, what it quoted."""
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


def _find_starts(entries: Sequence[TranscriptEntry]) -> list[int]:
    """Return where it may be cut: never before a tool's answer, and never between a call and the answer to it."""
    pending_change = [0] * (len(entries) + 1)  # +1 behind a call, -1 behind its answer
    caller: dict[str, int] = {}
    for at, entry in enumerate(entries):
        for call in entry.calls:
            if entry.role != "tool":
                caller[call] = at
            elif call in caller:
                pending_change[caller[call] + 1] += 1
                pending_change[at + 1] -= 1
    starts = []
    pending = 0
    for at, entry in enumerate(entries):
        pending += pending_change[at]
        if at == 0 or (entry.role != "tool" and not pending):
            starts.append(at)
    return starts


def summarize(
    entries: Sequence[TranscriptEntry], room: int, *, notes: str, model: Model | None, wait: float = MODEL_SECONDS
) -> Summary:
    """Summarize these messages in at most `room` tokens: by the session notes, which need no model, or by a model.

    A model is asked once, in a schema, with a time limit, and sees the messages as data, without secrets.
    """
    has_notes = bool(re.search(r"\w", re.sub(r"(?s)<!--.*?-->", "", notes)))
    is_long = count_all(entry.text for entry in entries) >= RICH_TOKENS
    is_rich = is_long and sum(map(is_text, entries)) >= RICH_TEXTS
    problem = ""
    if model is not None and room >= MIN_MODEL_TOKENS and not (has_notes and is_rich):
        try:
            return Summary(_wrap("summary", _ask(entries, model, wait), room), "model")
        except ModelFailed as error:
            problem = f"{model.name}: {error}"
    text = _wrap("session-notes", notes, room) if has_notes else ""
    return Summary(text, "notes" if text else "", problem)


def _wrap(name: str, text: str, room: int) -> str:
    """Return the text between marks it cannot close, cut to what there is room for; "" when that is too little."""
    text = for_prompt(without_secrets(text).strip())
    most = 4 * min(room, MAX_NOTES_TOKENS) - count_bytes(name) * 2 - 16
    if count_bytes(text) > most:
        if most < 500:
            return ""
        head = cut_bytes(text, most - 40)
        head = head.rpartition("\n")[0] or head
        text = f"{head}\n({count_bytes(text):,} bytes, cut here)"
    return f"<{name}>\n{text}\n</{name}>\n" if text else ""


def _ask(entries: Sequence[TranscriptEntry], model: Model, wait: float) -> str:
    """Return the bullets of a model. Raises ModelFailed."""
    system = read_prompt("compact").replace("{most}", str(MAX_BULLETS))
    match answer(model, Question(system, _show(entries), _SCHEMA, max_tokens=2_000), wait):
        case {"bullets": list(bullets)} if all(isinstance(bullet, str) for bullet in bullets):
            lines = [one_line(bullet.lstrip("-*• "), MAX_BULLET_CHARS) for bullet in bullets[:MAX_BULLETS]]
        case _:
            raise ModelFailed("its answer is not a list of bullets")
    if not any(lines):
        raise ModelFailed("its answer says nothing")
    return "\n".join(f"- {line}" for line in lines if line)


def _show(entries: Sequence[TranscriptEntry]) -> str:
    """Return what a model is shown: the messages between marks that no text can know, the last ones if need be."""
    nonce = os.urandom(8).hex()
    parts: list[str] = []
    room = MAX_SHOWN_BYTES
    for number, entry in reversed(list(enumerate(entries, 1))):
        most = MAX_SHOWN_OUTPUT_BYTES if entry.role == "tool" else MAX_SHOWN_MESSAGE_BYTES
        text = cut_bytes(for_prompt(without_secrets(cut_bytes(entry.text, 16 * most))), most)
        part = f"<message-{nonce} number={number} from={entry.role}>\n{text}\n</message-{nonce}>"
        room -= count_bytes(part)
        if room < 0:
            parts.append(f"({number} earlier messages are not shown)")
            break
        parts.append(part)
    return "\n".join(reversed(parts))
