"""Two texts beside each other, in pieces that say which words differ."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import NamedTuple

MAX_COMPARED_PIECES = 4_000

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LINES = re.compile(r"[^\n]*\n?")


class TextPiece(NamedTuple):
    """A piece of a text; `is_changed` if the other text has something else there."""

    text: str
    is_changed: bool


def compare_texts(old: str, new: str) -> tuple[list[TextPiece], list[TextPiece]]:
    """Return both texts in pieces.

    Short texts are compared word by word, longer ones line by line, and very long ones not at all: each is then one
    changed piece.

    >>> [piece.text for piece in compare_texts("on Mondays.", "on Fridays.")[1] if piece.is_changed]
    ['Fridays']
    """
    split = _WORDS if len(old) + len(new) < 2 * MAX_COMPARED_PIECES else _LINES
    before, after = split.findall(old), split.findall(new)
    if max(len(before), len(after)) >= MAX_COMPARED_PIECES:
        return [TextPiece(old, True)], [TextPiece(new, True)]
    left, right = [], []
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        left.append(TextPiece("".join(before[i1:i2]), tag != "equal"))
        right.append(TextPiece("".join(after[j1:j2]), tag != "equal"))
    return [piece for piece in left if piece.text], [piece for piece in right if piece.text]
