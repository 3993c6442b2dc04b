"""A text as a search for secrets reads it: compatibility forms folded, escapes undone, broken tokens put together.

A view knows where each of its characters comes from, so that what is found in it is found in the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from functools import cache, lru_cache
from operator import itemgetter
from typing import NamedTuple

from memsheaf.guard.secret_values import fits
from memsheaf.memory import INVISIBLE

_START = itemgetter(0)
# one character with the marks and vowels that it composes with
_CLUSTER = r"(?s).[\u0300-\u036f\u1160-\u11ff\u3099\u309a]{0,8}"
_ESCAPE = (
    r"%[2-7][0-9A-Fa-f]|&#[xX]0{0,6}[2-7][0-9A-Fa-f];|\\x[2-7][0-9A-Fa-f]|\\u00[2-7][0-9A-Fa-f]"
    r"|\\[nrt\"'/]|&#0{0,6}[0-9]{2,3};|&(?:amp|quot|apos|lt|gt|colon|equals|lowbar|hyphen|sol|plus);"
)
_NAMED = {
    "amp": "&", "quot": '"', "apos": "'", "lt": "<", "gt": ">", "colon": ":", "equals": "=", "lowbar": "_",
    "hyphen": "-", "sol": "/", "plus": "+",
}  # fmt: skip
# A line break with what indents or quotes the next line, or the seam of two strings, inside a token; what follows it
# in its line, and whether that is all.
_SEAM = (
    # a character to begin with, and no space inside a line: most are passed over quickly
    r"[ \t\\\r\n\"'](?:(?<![ \t])|(?=[ \t\\\r\n]))(?<=[A-Za-z0-9+/_=.~%-]{6}[\s\S])"
    r"(?:(?:(?<=[ \t])[ \t]{0,7}\\?\r?\n|(?<=\\)\r?\n|(?<=\r)\n|(?<=\n))[ \t>#*|]{0,16}"
    r"|(?<=\\)r\\n|(?<=\\)n|(?<=[\"'])[ \t]{0,4}[+\\]?[ \t\r\n]{0,16}[\"'])"
    r"(?=([A-Za-z0-9+/_=.~%-]{2,200}+)([\"'`,;)\]} \t]{0,4}(?:\\?\r?\n|\\n|$))?)"
)


Run = tuple[int, int, int]  # start in the view, start in the text, and step (0: all from one place)


class View(NamedTuple):
    """A text as it is read, the runs it is made of, and the view they come from; without runs, the text itself."""

    text: str
    runs: list[Run] | None = None
    base: View | None = None

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Where a piece of the view stands in the text itself."""
        if self.runs is None:
            return start, end
        start, end = self._origin(self.runs, start), self._origin(self.runs, end - 1) + 1
        return self.base.original(start, end) if self.base else (start, end)

    @staticmethod
    def _origin(runs: list[Run], at: int) -> int:
        start, origin, step = runs[bisect_right(runs, at, key=_START) - 1]
        return origin + (at - start) * step


def normalize(text: str) -> View:
    """The text without what cannot be seen, in compatibility forms."""
    pieces: list[str] = []
    runs: list[Run] = []
    length = 0
    invisible = re.compile(f"[{INVISIBLE}]")
    for cluster in re.finditer(_CLUSTER, text):
        piece = cluster[0]
        if not piece.isascii():
            piece = invisible.sub("", unicodedata.normalize("NFKC", piece))
        if piece:
            pieces.append(piece)
            runs.append((length, cluster.start(), 0))
            length += len(piece)
    return View("".join(pieces), runs)


def undo_escapes(view: View) -> View | None:
    """The text with escapes for ASCII undone: percent, HTML, backslash; None when it has none."""
    text = view.text
    has_escape = "%" in text or "&" in text or "\\" in text
    return _replaced(view, _ESCAPE, lambda match: _character(match[0])) if has_escape else None


@cache
def _character(escape: str) -> str:
    """The character of an escape; the escape itself where that character is invisible."""
    if escape[0] == "&" and escape[1] != "#":
        return _NAMED[escape[1:-1]]
    if escape[0] == "\\" and len(escape) == 2:
        return {"n": "\n", "r": "\r", "t": "\t"}.get(escape[1], escape[1])
    digits = escape.strip("%&#xX\\u;") if escape[0] != "&" else escape[2:-1].strip("xX")
    code = int(digits, 10 if escape[:2] == "&#" and escape[2] not in "xX" else 16)
    return chr(code) if 32 <= code < 127 else escape


@lru_cache(512)  # until the text is scanned
def is_torn(before: str, rest: str, alone: bool) -> bool:
    """Whether what follows a line break, in a line of its own or not, is the rest of the token before it."""
    from memsheaf.guard.secret_formats import begun

    if not fits(rest, "rest" if alone else "token"):
        return False
    longest = max((len(known.needle) for known in begun(before.split()[-1:])), default=0)
    if not alone or longest > 2:
        return longest > (2 if alone else 3)
    return not any(len(known.needle) > 2 and rest.startswith(known.needle) for known in begun([rest]))


def _replaced(view: View, pattern: str, meant: Callable[[re.Match[str]], str]) -> View | None:
    """The view with each match replaced by what it means; None when nothing changes."""
    text, done, length = view.text, 0, 0
    pieces: list[str] = []
    runs: list[Run] = []
    for match in re.finditer(pattern, text):
        if (piece := meant(match)) == match[0]:
            continue
        start, end = match.span()
        if start > done:
            pieces.append(text[done:start])
            runs.append((length, done, 1))
            length += start - done
        if piece:
            pieces.append(piece)
            runs.append((length, end - 1, 0))
            length += len(piece)
        done = end
    if not done:
        return None
    runs.append((length, done, 1))
    return View("".join([*pieces, text[done:]]), runs, view)


def close_seams(view: View) -> View | None:
    """The text with tokens that are broken over two lines or two strings put together; None when it has none."""
    text = view.text

    def meant(match: re.Match[str]) -> str:
        """Nothing, where what follows belongs to the token before it; else the seam as it is."""
        seam, rest, alone = match[0], match[1], match[2] is not None
        if "n" not in seam and "\n" not in seam:
            return ""
        may_be = alone or len(rest) >= 8
        return "" if may_be and is_torn(text[max(0, match.start() - 80) : match.start()], rest, alone) else seam

    return _replaced(view, _SEAM, meant) if any(mark in text for mark in "\n\\\"'") else None
