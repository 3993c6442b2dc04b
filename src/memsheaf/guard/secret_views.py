"""A text as a search for secrets reads it: compatibility forms folded, escapes undone, broken tokens put together.

A view knows where each of its characters comes from, so that what is found in it is found in the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from html import unescape
from typing import NamedTuple

from memsheaf.guard.secret_formats import formats_in
from memsheaf.guard.secret_values import is_rest_of_token, is_token
from memsheaf.memory import INVISIBLE

# one character with the marks and vowels that it composes with
_COMPOSED_CHARACTER = r"(?s).[\u0300-\u036f\u1160-\u11ff\u3099\u309a]{0,8}"
_ASCII_ESCAPE = (
    r"%[2-7][0-9A-Fa-f]|&#[xX]0{0,6}[2-7][0-9A-Fa-f];|\\x[2-7][0-9A-Fa-f]|\\u00[2-7][0-9A-Fa-f]"
    r"|\\[nrt\"'/]|&#0{0,6}[0-9]{2,3};|&(?:amp|quot|apos|lt|gt|colon|equals|lowbar|hyphen|sol|plus);"
)
# A line break with what indents or quotes the next line, or the seam of two strings, inside a token; what follows it
# in its line, and whether that is all.
_TOKEN_SEAM = (
    # a character to begin with, and no space inside a line: most are passed over quickly
    r"[ \t\\\r\n\"'](?:(?<![ \t])|(?=[ \t\\\r\n]))(?<=[A-Za-z0-9+/_=.~%-]{6}[\s\S])"
    r"(?:(?:(?<=[ \t])[ \t]{0,7}\\?\r?\n|(?<=\\)\r?\n|(?<=\r)\n|(?<=\n))[ \t>#*|]{0,16}"
    r"|(?<=\\)r\\n|(?<=\\)n|(?<=[\"'])[ \t]{0,4}[+\\]?[ \t\r\n]{0,16}[\"'])"
    r"(?=([A-Za-z0-9+/_=.~%-]{2,200}+)([\"'`,;)\]} \t]{0,4}(?:\\?\r?\n|\\n|$))?)"
)
MIN_REST_CHARS = 8  # of a token, where more follows in its line


class View(NamedTuple):
    """A text as it is read, and for each of its characters the place that it has in the text itself."""

    text: str
    origins: Sequence[int]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return where a piece of the view stands in the text itself."""
        return self.origins[start], self.origins[end - 1] + 1


def plain_view(text: str) -> View:
    """Return a text as it stands."""
    return View(text, range(len(text)))


def normalize(text: str) -> str:
    """Return a text without characters that cannot be seen, in compatibility forms."""
    return re.sub(f"[{INVISIBLE}]", "", unicodedata.normalize("NFKC", text))


def normalized_view(text: str) -> View:
    """Return a text as `normalize` does, with the places of its characters."""
    pieces: list[str] = []
    origins: list[int] = []
    for cluster in re.finditer(_COMPOSED_CHARACTER, text):
        piece = cluster[0] if cluster[0].isascii() else normalize(cluster[0])
        pieces.append(piece)
        origins += [cluster.start()] * len(piece)
    return View("".join(pieces), origins)


def undo_escapes(view: View) -> View:
    """Return a text with its escapes for ASCII undone: percent, HTML, backslash."""
    if not any(mark in view.text for mark in "%&\\"):
        return view
    return _replace(view, _ASCII_ESCAPE, _read_escape)


def _read_escape(match: re.Match[str]) -> str:
    """Return the character that an escape stands for; the escape itself where that character is invisible."""
    escape = match[0]
    if escape[0] == "\\" and len(escape) == 2:
        return {"n": "\n", "r": "\r", "t": "\t"}.get(escape[1], escape[1])
    if escape[0] != "&":
        escape = f"&#x{escape[-2:]};"
    character = unescape(escape).replace("\u2010", "-")
    return character if " " <= character <= "~" else match[0]


def close_seams(view: View) -> View:
    """Return a text in which tokens that are broken over two lines or two strings are put together."""

    def join(match: re.Match[str]) -> str:
        if "n" in match[0] or "\n" in match[0]:
            before = view.text[max(0, match.start() - 80) : match.start()]
            if not _is_torn(before, match[1], is_alone=match[2] is not None):
                return match[0]
        return ""

    if not any(mark in view.text for mark in "\n\\\"'"):
        return view
    return _replace(view, _TOKEN_SEAM, join)


def _is_torn(before: str, rest: str, *, is_alone: bool) -> bool:
    """Return True if the rest of a line, all of it or a part, belongs to the token at the end of the line before."""
    if is_alone:
        if not is_rest_of_token(rest):
            return False
    elif len(rest) < MIN_REST_CHARS or not is_token(rest):
        return False
    longest = max((len(known.needle) for known in formats_in(before.split()[-1:])), default=0)
    if not is_alone:
        return longest > 3
    begins_anew = any(rest.startswith(known.needle) for known in formats_in([rest]) if len(known.needle) > 2)
    return longest > 2 or not begins_anew


def _replace(view: View, pattern: str, meaning: Callable[[re.Match[str]], str]) -> View:
    """Return a view in which each match is replaced by its meaning."""
    pieces: list[str] = []
    origins: list[int] = []
    done = 0
    for match in re.finditer(pattern, view.text):
        piece = meaning(match)
        if piece == match[0]:
            continue
        start, end = match.span()
        pieces += view.text[done:start], piece
        origins += view.origins[done:start]
        origins += [view.origins[end - 1]] * len(piece)
        done = end
    if not done:
        return view
    return View("".join([*pieces, view.text[done:]]), [*origins, *view.origins[done:]])
