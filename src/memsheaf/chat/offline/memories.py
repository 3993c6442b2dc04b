"""Memories as tools show them to the offline talker."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from memsheaf.chat.offline.requests import find_telling_words
from memsheaf.frontmatter import split
from memsheaf.index.database import Row
from memsheaf.llm.model import Said, Touched
from memsheaf.text.tokenizer import is_unspaced, words

_ROW = r"(?m)^(\S[^\n]*?)  \[[^\]\n]*\]  [^\n]*?  \(updated: [^)\n]*\)"


class ShownMemory(NamedTuple):
    """A memory as a tool showed it; `day` is when it was changed."""

    file: str
    type: str
    day: str
    name: str
    body: str

    def render(self) -> str:
        """Return the memory for a person: its file, its type and day, its text."""
        text = self.body.replace("\n", "\n  ")
        return f"- {self.file} ({self.type or 'text'}, {self.day or 'undated'}): {text}"

    def count_shared(self, subject: str) -> float:
        """Return the share of a subject's words that it has: 1 for all of them.

        A subject without spaces is compared by pairs of characters, some of which reach over the end of a word: there
        a fifth may be missing.
        """
        telling = find_telling_words(subject) or set(words(subject))
        shared = len(telling.intersection(words(f"{self.file}\n{self.name}\n{self.body}")))
        pairs = [word for word in telling if is_unspaced(word)]
        return min(1.0, (shared + len(pairs) // 5) / len(telling)) if shared else 0.0


class LearnedFact(NamedTuple):
    """A fact that the user stated, and what became of it: a reply of `languages.toml`, and the values in it.

    The `outcome` is "saved", "updated", "already", "queued" or "unkept". `rivals` are memories that it may correct.
    """

    outcome: str
    values: dict[str, str]
    touched: tuple[Touched, ...] = ()
    rivals: tuple[ShownMemory, ...] = ()


class MemoryChanges(NamedTuple):
    """Changes of memory without a tool, because the user explicitly asked for them.

    `undo` takes the last change back and says so. `offer` gives the memories of some types, or all, and `forget`
    deletes those that were offered last. `learn` keeps what a text states, or gives None where that happens later.
    """

    undo: Callable[[], str]
    offer: Callable[[Sequence[str]], Sequence[Row]]
    forget: Callable[[], Sequence[Row]]
    learn: Callable[[str], Sequence[LearnedFact] | None] = lambda text: None


def find_files(answer: str) -> list[str]:
    """Return the files that `memory_list` or `memory_search` named."""
    return re.findall(_ROW, answer)


def find_recalled(beside: str) -> list[str]:
    """Return the files of the memories that stand beside a message.

    A text cannot know the mark of the envelopes around it, so it adds no file to them.
    """
    mark = re.search(r"(?m)^<memories-([0-9a-z]{8,64})>$", beside)
    return re.findall(rf'(?m)^<memory-{mark[1]} file="([^"\n]*)"', beside) if mark else []


def read_shown(file: str, answer: str) -> ShownMemory:
    """Return the memory that `memory_read` gave."""
    page = split(answer)
    day = page.get("updated") or page.get("created") or ""
    return ShownMemory(file, page.get("type") or "", day, page.get("name") or "", page.body.strip("\n"))


def touched_file(answer: Said, *actions: str) -> str:
    """Return the file that a tool did one of these to, or found in its way; "" for none."""
    return next((each.path for each in answer.touched if each.action in actions), "")
