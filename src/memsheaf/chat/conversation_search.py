"""Search the text of stored conversations: words in any order, case and accents aside."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import takewhile

from memsheaf.llm.model import Said
from memsheaf.text.neutralize import one_line
from memsheaf.text.tokenizer import words
from memsheaf.values import NamedTuple

LINES = 3  # of a conversation that are shown
WIDTH, BEFORE = 160, 60  # characters of a line, and of those before what was found

# What stands on a letter: accents, points of Hebrew and Arabic, the marks of kana.
_MARK = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u0652\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u3099\u309a]")


class QueryWord(NamedTuple):
    """One word that is looked for: as it was typed, its stems, and what no text that has those lacks."""

    typed: str
    stems: tuple[str, ...]
    starts: tuple[str, ...]


class MessageQuery:
    """A question, to be held against messages.

    >>> MessageQuery("straße DEPLOYED").find_lines([Said("user", "We deploy to the Strasse.")])
    ['user: We deploy to the Strasse.']
    """

    def __init__(self, query: str) -> None:
        typed = [_word(word) for word in dict.fromkeys(query.split())]
        self._words = [word for word in typed if word.stems] or typed  # small words count when there are no others

    def __bool__(self) -> bool:
        return bool(self._words)

    def find_lines(self, said: Iterable[Said]) -> list[str]:
        """Lines of the messages that have all the words, a few; those that people and models said come first."""
        first: list[str] = []
        behind: list[str] = []
        for one in said:
            lines = first if one.role != "tool" else behind
            if len(lines) < LINES and self._fits(one.text):
                lines += self._lines(one)
        return [*first, *behind][:LINES]

    def _fits(self, text: str) -> bool:
        folded = _fold(text)
        rest = [word for word in self._words if word.typed not in folded]
        if not all(word.stems and all(start in folded for start in word.starts) for word in rest):
            return False
        known = frozenset(words(text)) if rest else frozenset()
        return all(known.issuperset(word.stems) for word in rest)

    def _lines(self, said: Said) -> list[str]:
        """The lines of a message that have one of the words."""
        found = []
        for line in said.text.split("\n"):
            at = self._place(line)
            if at is not None:
                start = max(0, at - BEFORE) if len(line) > WIDTH else 0
                cut = ("…" if start else "") + line[start : start + 2 * WIDTH]
                found.append(f"{said.tool or said.role}: {one_line(cut, WIDTH)}")
        return found[:LINES]

    def _place(self, line: str) -> int | None:
        """About where in a line one of the words stands; None when none does."""
        folded = _fold(line)
        places = [at for word in self._words if (at := folded.find(word.typed)) >= 0]
        if places:
            return min(places)
        known = frozenset(words(line))
        return 0 if any(word.stems and known.issuperset(word.stems) for word in self._words) else None


def _word(typed: str) -> QueryWord:
    folded, stems = _fold(typed), tuple(words(typed))
    return QueryWord(folded, stems, tuple(_start(folded, stem) for stem in stems))


def _start(typed: str, stem: str) -> str:
    """How every word of a stem begins, by one of them: as both do, but for the last letter.

    >>> _start("happiness", "happi")
    'happ'
    """
    pairs = zip(typed, stem, strict=False)
    return "".join(letter for letter, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))[:-1]


def _fold(text: str) -> str:
    """A text without case and accents."""
    if text.isascii():
        return text.lower()
    return _MARK.sub("", unicodedata.normalize("NFKD", text.casefold())).casefold()
