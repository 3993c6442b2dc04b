"""A month of conversations with a coding agent, and what of it is worth keeping: see `data/month/README.md`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from memsheaf.recall.turns import Message, Turn

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
MONTHS = ("month", "month2", "month3", "month4")  # month2 is held out
KINDS = ("user", "feedback", "project", "reference")
JUNK = ("once", "chatter", "code", "quoted", "private", "planted", "secret")
MINUTES = 4  # between two turns of a conversation

How = Literal["explicit", "implicit", "saved"]

_ROLES = {"u": "user", "a": "assistant", "t": "tool"}
_FACT = re.compile(r"(f\d+) (\w+) (\w+): (.+?)(?: @([\d-]+))?(?: > (f\d+))?")
_DAY = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")


class Fact(NamedTuple):
    """Something that was said and should be known later.

    A text holds it if it has one word of each of `needles`. `how` tells whether the user asked to keep it, said it in
    passing, or the agent saved it itself. `day` is the absolute day of a relative one.
    """

    id: str
    kind: str
    how: How
    needles: tuple[tuple[str, ...], ...]
    turn: int
    day: str = ""
    corrects: str = ""

    def is_in(self, text: str) -> bool:
        """Whether a text says it, as far as its words can tell.

        >>> fact = Fact("f1", "project", "explicit", (("deploy",), ("10", "ten")), 0)
        >>> fact.is_in("Deployments at 10:00"), fact.is_in("Deployed on 2026-09-10")
        (True, False)
        """
        return all(any(has(text, word) for word in words) for words in self.needles)


class Never(NamedTuple):
    """Something that was said or read and should not be kept: all of `needles`, and why not, one of `JUNK`."""

    kind: str
    needles: tuple[str, ...]
    turn: int

    def is_in(self, text: str) -> bool:
        """Whether a text has all its needles."""
        return all(has(text, word) for word in self.needles)


class Saved(NamedTuple):
    """A memory that the agent writes by itself in a turn."""

    kind: str
    name: str
    description: str
    content: str


class Step(NamedTuple):
    """One turn as it is replayed; `number` is its place in the month.

    `restates` are facts it says again. After it the agent saves `saved`, and the user has what holds the facts of
    `rejects` removed.
    """

    number: int
    turn: Turn
    saved: Saved | None = None
    rejects: tuple[str, ...] = ()
    restates: tuple[str, ...] = ()


class Conversation(NamedTuple):
    """Turns that belong together. `replayed` are older ones, which its host hands over again before them."""

    name: str
    replayed: tuple[Turn, ...]
    steps: tuple[Step, ...]


class Month:
    """All conversations in their order, the facts by their ids, and what must not be kept."""

    def __init__(
        self, conversations: tuple[Conversation, ...], facts: tuple[Fact, ...], nevers: tuple[Never, ...]
    ) -> None:
        self.conversations = conversations
        self.facts = {fact.id: fact for fact in facts}
        self.nevers = nevers

    def first(self, count: int) -> Month:
        """Only the first conversations, and what was said in them."""
        some = self.conversations[:count]
        end = some[-1].steps[-1].number + 1 if some else 0
        facts = tuple(fact for fact in self.facts.values() if fact.turn < end)
        return Month(some, facts, tuple(never for never in self.nevers if never.turn < end))

    @cached_property
    def corrections(self) -> dict[str, str]:
        """By the id of a fact that no longer holds, the one that took its place."""
        return {fact.corrects: fact.id for fact in self.facts.values() if fact.corrects}

    @cached_property
    def rejected(self) -> frozenset[str]:
        """The facts that the user did not want to be kept."""
        return frozenset(one for each in self.conversations for step in each.steps for one in step.rejects)

    @cached_property
    def turns(self) -> int:
        """How many turns there are, without those replayed."""
        return sum(len(each.steps) for each in self.conversations)

    def later(self, id: str) -> Iterator[Fact]:
        """What took the place of a fact, one after the other."""
        while id := self.corrections.get(id, ""):
            yield self.facts[id]


def has(text: str, word: str) -> bool:
    """Whether a word stands in a text: at the beginning of a word, and a number as a whole one, days aside.

    >>> has("two approvals", "approval"), has("disapproval", "approval"), has("145 days", "45"), has("用英文", "英文")
    (True, False, False, True)
    """
    word = word.casefold()
    text = text.casefold() if _DAY.search(word) else _without_days(text)
    if word not in text or not word.isascii():
        return word in text
    before = r"(?<![a-z0-9])" if word[0].isalnum() else ""
    after = r"(?![0-9])" if word[-1].isdigit() else ""
    return re.search(before + re.escape(word) + after, text) is not None


@lru_cache(maxsize=1_000)
def _without_days(text: str) -> str:
    return _DAY.sub(" ", text.casefold())


def load(folder: str = MONTHS[0]) -> Month:
    """Read a month as it is written in `week-*.txt` of a folder in `data`."""
    folder = os.path.join(DATA, folder)
    reader = _Reader()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".txt"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                for line in file:
                    reader.take(line.rstrip("\n").replace("¦", ""))
    return reader.month()


class _Reader:
    """Puts a month together line by line."""

    def __init__(self) -> None:
        self._conversations: dict[str, Conversation] = {}
        self._facts: list[Fact] = []
        self._nevers: list[Never] = []
        self._name = self._host_name = ""
        self._at = datetime.min
        self._replayed: tuple[Turn, ...] = ()
        self._steps: list[Step] = []
        self._count = 0

    def take(self, line: str) -> None:
        mark, _, rest = line.partition(" ")
        if not line:
            return
        if mark == "==":
            self._begin(rest)
        elif mark == "":
            self._continue(line.removeprefix("  "))
        elif mark[:-1] in _ROLES and mark.endswith(":"):
            self._say(mark[:-1], rest)
        elif mark == "+":
            self._facts.append(_fact(rest, self._count - 1))
        elif mark == "-":
            kind, _, words = rest.partition(": ")
            self._nevers.append(Never(kind, tuple(words.split("; ")), self._count - 1))
        elif mark == "*":
            kind, name, description, content = rest.split(" | ")
            step = self._steps[-1]
            saved = Saved(kind, name, description, content)
            self._steps[-1] = step._replace(turn=step.turn._replace(saved=True), saved=saved)
        elif mark == "x":
            self._steps[-1] = self._steps[-1]._replace(rejects=(*self._steps[-1].rejects, rest))
        elif mark == "=":
            self._steps[-1] = self._steps[-1]._replace(restates=(*self._steps[-1].restates, rest))
        else:
            raise ValueError(f"not understood: {line!r}")

    def month(self) -> Month:
        self._end()
        return Month(tuple(self._conversations.values()), tuple(self._facts), tuple(self._nevers))

    def _begin(self, rest: str) -> None:
        self._end()
        self._name, day, hour, *replay = rest.split(" ")
        self._at = datetime.fromisoformat(f"{day} {hour}").replace(tzinfo=UTC)
        self._host_name, self._replayed, self._steps = self._name, (), []
        if replay:
            how, older = replay
            turns = tuple(step.turn for step in self._conversations[older].steps)
            if how == "again":  # the host goes on with the same conversation
                self._host_name, self._replayed = older, turns
            else:  # it begins a new one, with the old messages in front
                self._replayed = tuple(turn._replace(conversation=self._name) for turn in turns)

    def _end(self) -> None:
        if self._steps:
            self._conversations[self._name] = Conversation(self._name, self._replayed, tuple(self._steps))

    def _say(self, mark: str, text: str) -> None:
        if mark == "u":
            at = self._at + timedelta(minutes=MINUTES * len(self._steps))
            self._steps.append(Step(self._count, Turn(self._host_name, (), at.isoformat())))
            self._count += 1
        step = self._steps[-1]
        said = step.turn.messages
        message = Message(_ROLES[mark], text, f"{self._name}-{len(self._steps)}-{len(said) + 1}")
        self._steps[-1] = step._replace(turn=step.turn._replace(messages=(*said, message)))

    def _continue(self, text: str) -> None:
        step = self._steps[-1]
        *said, last = step.turn.messages
        longer = last._replace(text=f"{last.text}\n{text}")
        self._steps[-1] = step._replace(turn=step.turn._replace(messages=(*said, longer)))


def _fact(text: str, turn: int) -> Fact:
    found = _FACT.fullmatch(text)
    if not found:
        raise ValueError(f"not a fact: {text!r}")
    id, kind, how, needles, day, corrects = found.groups()
    if how not in ("explicit", "implicit", "saved"):
        raise ValueError(f"not a way to say a fact: {how!r}")
    words = tuple(tuple(one.split("|")) for one in needles.split("; "))
    return Fact(id, kind, how, words, turn, day or "", corrects or "")  # type: ignore[arg-type]
