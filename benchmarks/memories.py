"""Made-up memories: the same ones on every run, 600 bytes each, in words as unevenly common as real ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random

KINDS = ("user", "feedback", "project", "reference")
TEAM_KINDS = ("feedback", "project", "reference")  # a team keeps nothing about one person
SIZE = 600
VOCABULARY = 8_000
DAY = "2026-11-01"


@dataclass(frozen=True, slots=True)
class Made:
    """One memory that nobody learned."""

    name: str
    description: str
    kind: str
    content: str
    file: str

    @property
    def text(self) -> str:
        """The file as the documents write it."""
        return (
            f"---\nname: {self.name}\ndescription: {self.description}\n"
            f"type: {self.kind}\nupdated: {DAY}\n---\n\n{self.content}\n"
        )


def memory(number: int, kinds: Sequence[str] = KINDS) -> Made:
    """Make up the memory of this number, of one of these kinds.

    Nothing is kept, because a large heap in the harness would slow down both sides.
    """
    random = Random(number)
    words = _pick(random, 90)
    kind = kinds[number % len(kinds)]
    name = f"{words[0].capitalize()} {words[1]} {number}"
    description = " ".join(words[2:9])
    file = f"{kind}_{words[0]}-{words[1]}-{number}.md"
    bare = Made(name, description, kind, "", file)
    return Made(name, description, kind, " ".join(words[9:])[: SIZE - len(bare.text)].rstrip(), file)


def query(number: int) -> str:
    """Ask for a memory in three words of its description, as common or rare as they happen to be."""
    return " ".join(memory(number).description.split()[1:4])


def fill(folder: str, count: int, kinds: Sequence[str] = KINDS) -> None:
    """Write the first `count` memories to a folder."""
    os.makedirs(folder, exist_ok=True)
    for number in range(count):
        made = memory(number, kinds)
        with open(os.path.join(folder, made.file), "x", encoding="utf-8") as file:
            file.write(made.text)


def _pick(random: Random, count: int) -> list[str]:
    words, weights = _vocabulary()
    return random.choices(words, cum_weights=weights, k=count)


@cache
def _vocabulary() -> tuple[list[str], list[float]]:
    """Words, and how common each is: the second half as often as the first, and so on down."""
    random = Random("vocabulary")
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        syllables = [
            random.choice("bdfgklmnprstvz") + random.choice("aeiou") for _ in range(random.choice((2, 3, 4)))
        ]
        words["".join(syllables)] = None
    return list(words), list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
