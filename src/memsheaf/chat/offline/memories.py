"""Turns and memories as the offline talker reads them out of a conversation, and drafts of new memories."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from memsheaf.chat.offline.requests import WIDE, lexicon
from memsheaf.frontmatter import split
from memsheaf.index.database import Row
from memsheaf.learn.rules import draft_fact
from memsheaf.llm.model import Said
from memsheaf.text.summary import NO_SENTENCE_END
from memsheaf.text.tokenizer import is_weak, words
from memsheaf.values import parse_object

CALL_PREFIX = "offline-"  # prefix of the ids of calls that were made here
NOT_RUN = Said("tool", "Error: it was not run.")
_ROW = r"(?m)^(\S[^\n]*?)  \[([^\]\n]*)\]  ([^\n]*?)  \(updated: ([^)\n]*)\)"
_RECALLED = r"(?m)^<memories-([0-9a-z]{8,64})>$"
_SENTENCE_END = rf"(?<=[^\W\d][.!?])(?i:{NO_SENTENCE_END})\s+|(?<=[。！？])|\n+"
_TABS_OR_SPACES = (
    r"(?i)(?P<tabs>\btabs?\b|tabulat|制表符|タブ)|\b(?:spaces|leerzeichen|espaces|espacios)\b|空格|スペース"
)


class PastTurn(NamedTuple):
    """A turn: what was recalled `beside` it, the answers to the calls made here, which files were written or seen."""

    text: str
    beside: str
    rounds: list[list[Said]]
    saved: list[str]
    seen: set[str]


class ShownMemory(NamedTuple):
    """A memory as a tool showed it: `day` is when it was changed, `notes` what is said of it beside its text."""

    file: str
    type: str
    day: str
    body: str
    name: str = ""
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """All of it, to look for words in."""
        return f"{self.file}\n{self.name}\n{self.body}"

    @property
    def indentation(self) -> str:
        """How it wants code to be indented: by what it names first of tabs and spaces; "" where it does not say."""
        found = re.search(_TABS_OR_SPACES, self.body)
        return "" if not found else "\t" if found["tabs"] else "    "

    def render(self) -> str:
        """The memory for a person: its file, its type and day, its text."""
        about = ", ".join(filter(None, (self.type, self.day)))
        text = "\n".join([self.body.strip(), *self.notes]).strip().replace("\n", "\n  ")
        return f"- {self.file}{f' ({about})' if about else ''}: {text}"


class MemoryChanges(NamedTuple):
    """Changes of memory without a tool, because the user explicitly asked for them.

    `undo` takes the last change back and says so. `offer` gives the memories of some types, or all, by scope, and
    `forget` deletes those that were offered last.
    """

    undo: Callable[[], str]
    offer: Callable[[Sequence[str]], Mapping[str, Sequence[Row]]]
    forget: Callable[[], Mapping[str, Sequence[Row]]]


class Draft(NamedTuple):
    """A memory to be written, as the tool takes it."""

    content: str
    name: str
    description: str
    type: str


def read_rows(answer: str) -> list[ShownMemory]:
    """The memories that `memory_list` or `memory_search` named, with their descriptions."""
    return [ShownMemory(file, type, day, about) for file, type, about, day in re.findall(_ROW, answer)]


def read_shown(file: str, answer: str) -> ShownMemory:
    """What `memory_read` gave."""
    page = split(answer)
    updated = page.get("updated") or page.get("created") or ""
    return ShownMemory(file, page.get("type") or "", updated, page.body.strip("\n"), page.get("name") or "")


def touched_file(answer: Said, action: str) -> str:
    """The file that a tool did this to, or found in its way; "" for none."""
    return next((one.path for one in answer.touched if one.action == action), "")


def read_recalled(beside: str) -> list[ShownMemory]:
    """The memories that stand beside a message, out of their envelopes.

    A text cannot know the mark that its envelope ends with, so whatever it holds stays its own text.
    """
    found: dict[str, ShownMemory] = {}
    for opening in re.finditer(_RECALLED, beside):
        mark = re.escape(opening[1])
        head = rf'<memory-{mark} file="([^"\n]*)" type="([^"\n]*)"[^\n]*? saved="([^"\n]*)">'
        for file, type, saved, text in re.findall(rf"(?s){head}\n(.*?)\n</memory-{mark}>", beside[opening.end() :]):
            title, _, body = text.partition("\n\n")
            name, *notes = title.split("\n")
            found[file] = ShownMemory(file, type, saved, body, name, tuple(notes))
    return list(found.values())


def telling_words(subject: str, language: str) -> set[str]:
    """The words of a subject without those that are in any request; all of them where nothing else is left."""
    hollow = lexicon(language).lists["hollow"]
    if language in WIDE:
        bare = re.sub("|".join(map(re.escape, sorted(hollow, key=len, reverse=True))), " ", subject)
        return {word for word in words(bare) if len(word) > 1} or set(words(subject))
    said = set(words(subject))
    empty = {word for each in hollow for word in words(each)}
    return {word for word in said if word not in empty and not is_weak(word)} or said - empty or said


def draft_memory(fact: str, type: str, today: date) -> Draft:
    """Return the memory that a user asks for, in their own words.

    >>> draft_memory("I live in Berlin", "", date(2026, 11, 15))
    Draft(content='I live in Berlin', name='I live in Berlin', description='I live in Berlin', type='user')
    """
    drafted = draft_fact(fact, today, type)
    return Draft(drafted.content, drafted.name, drafted.description, drafted.kind)


def replace_sentence(body: str, fact: str) -> tuple[str, str]:
    """A memory's text with a fact in the place of the sentence that is most like it; and that sentence.

    >>> replace_sentence("We deploy on Thursdays. Mira approves.", "We deploy on Fridays now.")
    ('We deploy on Fridays now. Mira approves.', 'We deploy on Thursdays.')
    """
    ends = [match.span() for match in re.finditer(_SENTENCE_END, body)]
    pieces = zip([0, *(end for _, end in ends)], [*(start for start, _ in ends), len(body)], strict=True)
    spans = [(start, end) for start, end in pieces if body[start:end].strip()]
    if not spans:
        return fact, ""
    asked = set(words(fact))
    start, end = max(spans, key=lambda span: len(asked.intersection(words(body[span[0] : span[1]]))))
    return body[:start] + fact + body[end:], body[start:end]


def split_turns(conversation: Sequence[Said]) -> list[PastTurn]:
    """The turns of a conversation."""
    turns: list[list[Said]] = []
    for said in conversation:
        if said.role == "user":
            turns.append([said])
        elif turns:
            turns[-1].append(said)
    return [_read_turn(turn) for turn in turns]


def _read_turn(turn: Sequence[Said]) -> PastTurn:
    answers = {said.answers: said for said in turn if said.role == "tool"}
    asking = [said.calls for said in turn if said.role == "assistant" and said.calls]
    own = [calls for calls in asking if all(call.id.startswith(CALL_PREFIX) for call in calls)]
    rounds = [[answers.get(call.id, NOT_RUN) for call in calls] for calls in own]
    saved = [file for said in turn if said.tool == "memory_write" and (file := touched_file(said, "saved"))]
    given = (parse_object(call.arguments) for calls in asking for call in calls if call.tool == "memory_read")
    read = {name for one in given if one and isinstance(name := one.get("filename"), str) and name}
    return PastTurn(turn[0].text, turn[0].beside, rounds, saved, {*saved, *read})
