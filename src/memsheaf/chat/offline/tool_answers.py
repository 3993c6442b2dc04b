"""What memory tools answered and what stands beside a message, read as values; whether it fits what was asked."""

from __future__ import annotations

import re

from memsheaf.chat.offline.phrases import is_wide, lists
from memsheaf.frontmatter import split
from memsheaf.text.tokenizer import is_weak, words
from memsheaf.values import NamedTuple

_ROW = r"(?m)^(\S[^\n]*?)  \[([^\]\n]*)\]  ([^\n]*?)  \(updated: ([^)\n]*)\)"
_BESIDE = r"(?m)^<memories-([0-9a-z]{8,64})>$"


class Row(NamedTuple):
    """One line of a list of memories."""

    file: str
    kind: str
    description: str
    day: str

    @property
    def line(self) -> str:
        """All of it, to look for words in."""
        return f"{self.file} {self.description}"


class Known(NamedTuple):
    """A memory as a tool showed it: `day` is when it was changed, `notes` what is said of it beside its text."""

    file: str
    kind: str
    day: str
    body: str
    name: str = ""
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """All of it, to look for words in."""
        return f"{self.file}\n{self.name}\n{self.body}"

    def shown(self) -> str:
        """The memory as it is told to a person: its file, its type and day, its text."""
        about = ", ".join(filter(None, (self.kind, self.day)))
        text = "\n".join([self.body.strip(), *self.notes]).strip().replace("\n", "\n  ")
        return f"- {self.file}{f' ({about})' if about else ''}: {text}"


class Fit(NamedTuple):
    """How many of the words that were asked for a text has."""

    has: int
    of: int
    spare: int = 0

    @property
    def is_all(self) -> bool:
        """Whether it has all of them, but for those that can be spared."""
        return self.has > 0 and self.has + self.spare >= self.of

    @property
    def is_half(self) -> bool:
        """Whether it has half of them."""
        return self.has > 0 and self.has * 2 >= self.of


def rows(answer: str) -> list[Row]:
    """The memories that `memory_list` or `memory_search` named; none where it failed.

    >>> rows("user_tabs.md  [user]  Use tabs  (updated: 2026-11-15)")
    [Row(file='user_tabs.md', kind='user', description='Use tabs', day='2026-11-15')]
    """
    return [] if answer.startswith("Error:") else [Row(*found) for found in re.findall(_ROW, answer)]


def known(file: str, answer: str) -> Known:
    """What `memory_read` gave."""
    page = split(answer)
    updated = page.get("updated") or page.get("created") or ""
    return Known(file, page.get("type") or "", updated, page.body.strip("\n"), page.get("name") or "")


def recalled(beside: str) -> list[Known]:
    """The memories that stand beside a message, out of their envelopes.

    A text cannot know the mark that its envelope ends with, so whatever it holds stays its own text.
    """
    found: list[Known] = []
    for opening in re.finditer(_BESIDE, beside):
        mark = re.escape(opening[1])
        head = rf'<memory-{mark} file="([^"\n]*)" type="([^"\n]*)"[^\n]*? saved="([^"\n]*)">'
        pattern = rf"(?s){head}\n(.*?)\n</memory-{mark}>"
        for file, kind, saved, text in re.findall(pattern, beside[opening.end() :]):
            title, _, body = text.partition("\n\n")
            name, *notes = title.split("\n")
            found.append(Known(file, kind, saved, body, name, tuple(notes)))
    return list({one.file: one for one in found}.values())


def fit(subject: str, language: str, text: str) -> Fit:
    """How well a text fits a subject: by the words of the subject that say something."""
    asked = _telling(subject, language)
    # where there are no blanks these are pairs of characters, and some of them reach over the end of a word
    return Fit(len(asked.intersection(words(text))), len(asked), len(asked) // 5 if is_wide(language) else 0)


def _telling(subject: str, language: str) -> set[str]:
    """The words of a subject without those that are in any request; all of them where nothing else is left."""
    hollow = lists(language).get("hollow", [])
    if is_wide(language):
        bare = re.sub("|".join(map(re.escape, sorted(hollow, key=len, reverse=True))), " ", subject)
        return {word for word in words(bare) if len(word) > 1} or set(words(subject))
    said = set(words(subject))
    empty = {word for each in hollow for word in words(each)}
    return {word for word in said if word not in empty and not is_weak(word)} or said - empty or said
