"""Two texts beside each other with the words that differ, and the lines of a diff, for templates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

MOST = 4_000  # words and marks of two texts that are compared; of longer ones, whole lines, if there are fewer

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LINES = re.compile(r"[^\n]*\n?")


class TextPiece(NamedTuple):
    """A piece of a text, and whether the other text has something else there."""

    text: str
    is_changed: bool


class DiffLine(NamedTuple):
    """A line of a diff; `mark` is `ins`, `del`, `place` or ""."""

    text: str
    mark: str


def compare_texts(old: str, new: str) -> tuple[list[TextPiece], list[TextPiece]]:
    """Both texts in pieces.

    >>> [piece.text for piece in compare_texts("on Mondays.", "on Fridays.")[1] if piece.is_changed]
    ['Fridays']
    """
    split = _WORDS if len(old) + len(new) < 2 * MOST else _LINES
    before, after = split.findall(old), split.findall(new)
    small = len(before) < MOST and len(after) < MOST
    steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if small else ()
    if not steps:
        return [TextPiece(old, True)], [TextPiece(new, True)]
    return (
        list(_pieces((before[first:last], tag) for tag, first, last, _, _ in steps)),
        list(_pieces((after[first:last], tag) for tag, _, _, first, last in steps)),
    )


def _pieces(parts: Iterable[tuple[list[str], str]]) -> Iterator[TextPiece]:
    for words, tag in parts:
        if words:
            yield TextPiece("".join(words), tag != "equal")


def diff_lines(diff: str) -> list[DiffLine]:
    """The lines of a unified diff.

    >>> [line.mark for line in diff_lines("--- a\\n+++ b\\n@@ -1 +1 @@\\n-x\\n+y\\n z")]
    ['place', 'del', 'ins', '']
    """
    lines = [line for line in diff.split("\n") if not line.startswith(("--- ", "+++ "))]
    marks = {"+": "ins", "-": "del", "@": "place"}
    return [DiffLine(line, marks.get(line[:1], "")) for line in lines]
