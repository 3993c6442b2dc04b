"""Whether two memories say the same.

Two texts are compared by their words: lower case, punctuation turned into blanks, the share of words that both have
among all that either has. From 0.85 on they are near-duplicates. Where the words are the same but a number is not,
they are two facts, or a fact and its correction; so are a sentence and its negation, or the same words in another
order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import cache, lru_cache
from struct import Struct
from zlib import crc32

from memsheaf.memory import Memory

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

LIKE = 0.85
BINS, BAND, _SHIFT = 64, 4, 26
_PLACES, _BANDS, _PACK = range(BINS - 1, -1, -1), range(0, 4 * BINS, 4 * BAND), Struct(f"<{BINS}I").pack
SHARED = 3  # of the 16 traces; of texts with a fifth of their words in common, one pair in a hundred has so many
TELLING = 8  # a text of fewer words says too little without its name

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_USUAL = (
    "a an and are as at be by do for from how if in is it its no not of on or our so that the their then there these "
    "they this to use used uses using was we when which why will with you your apply all any always"
)
_DENYING = (
    "not no never none without cannot neither nor dont doesnt isnt arent wont cant shouldnt mustnt "
    "nicht kein keine keinen nie niemals ohne ne pas jamais sans aucun nunca sin tampoco"
)
_COMMON, _NEGATIONS = frozenset(_USUAL.split()), frozenset(_DENYING.split())
_LOWER = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
_NEGATING = "不没別别无無勿非ぬず"


def words(text: str) -> list[str]:
    """The words of a text, in order, as they are compared; a script without blanks gives pairs of characters.

    >>> words("Don't use `snake_case`, ever.")
    ['dont', 'use', 'snake', 'case', 'ever']
    """
    if text.isascii():
        return text.replace("'", "").translate(_LOWER).split()
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    found = _word().findall(text.casefold().replace("'", ""))
    return [piece for word in found for piece in _pieces(word)]


def tokens(text: str) -> frozenset[str]:
    """The words of a text, each once."""
    return frozenset(words(text))


def telling(text: str) -> frozenset[str]:
    """The words of a text, each once, without those that are in every text."""
    return tokens(text) - _COMMON


def likeness(a: Collection[T], b: Collection[T]) -> float:
    """The share of words, or of their prints, that both have; 0.0 when there are none at all.

    >>> likeness(tokens("Releases go out on Fridays."), tokens("releases: go out, on Fridays!"))
    1.0
    """
    first, second = frozenset(a), frozenset(b)
    both = len(first & second)
    return both / (len(first) + len(second) - both) if both else 0.0


def fact(memory: Memory) -> list[str]:
    """The words that a memory is compared by: those of its text, and of its name when these are few."""
    found = words(memory.body)
    return found if len(set(found)) >= TELLING else words(memory.name) + found


def alike(a: Sequence[str], b: Sequence[str]) -> float:
    """How alike two facts are; 0.0 with other numbers, or when one denies what the other does not: two facts.

    >>> alike(words("the service listens on port 8080"), words("the service listens on port 8081"))
    0.0
    """
    return likeness(a, b) if numbers(a) == numbers(b) and denials(a) == denials(b) else 0.0


def same(a: Memory, b: Memory) -> float:
    """How alike two memories are, 0.0 unless one can stand for the other.

    The words that both have come in the same order, and nothing is denied in one that is not denied in the other.
    """
    first, second = fact(a), fact(b)
    if denials(first) != denials(second) or _order(first, second) != _order(second, first):
        return 0.0
    return alike(first, second)


def prints(found: Collection[str]) -> list[int]:
    """The words as numbers, each once."""
    return sorted(set(map(_print, found)))


@lru_cache(maxsize=16_384)
def _print(word: str) -> int:
    return crc32(word.encode("utf-8", "replace"))


def traces(found: Collection[str]) -> list[int]:
    """A few numbers by which a near-duplicate is known: it has at least `SHARED` of them, and hardly another text.

    The words fall by their numbers into bins, of which each keeps the least; an empty one takes that of the next. Two
    texts agree in as large a share of bins as they have of their words in common. Four bins make a trace.
    """
    return _traces(tuple(found))


@lru_cache(maxsize=8)  # what is saved is looked for first, and then indexed
def _traces(found: tuple[str, ...]) -> list[int]:
    numbers = sorted(set(map(_print, found)), reverse=True)
    least = {number >> _SHIFT: number for number in numbers}
    bins: list[int] = list(map(least.get, _PLACES))  # type: ignore[arg-type]  # filled below
    place = -1
    for _ in range(BINS - len(least)):
        place = bins.index(None, place + 1)  # type: ignore[arg-type]
        bins[place] = (bins[place - 1] if place else (numbers or [0])[-1]) + 1 & 0xFFFFFFFF
    bins.reverse()
    data = _PACK(*bins)
    return [crc32(data[at : at + 4 * BAND], at) for at in _BANDS]


def _pieces(word: str) -> list[str]:
    pieces = []
    for part in _script().findall(word):
        if len(part) < 2 or not _script_start().match(part):
            pieces.append(part)
        else:
            pieces += [part[at : at + 2] for at in range(len(part) - 1)]
    return pieces


def numbers(found: Collection[str]) -> frozenset[str]:
    """The words that are numbers, or hold one."""
    return frozenset(word for word in found if not word.isalpha())


def denials(found: Sequence[str]) -> int:
    """How many of these words deny something."""
    return sum(word in _NEGATIONS or any(letter in _NEGATING for letter in word) for word in found)


def _order(found: Sequence[str], other: Sequence[str]) -> list[str]:
    """The words that the other has, too, in the order in which they first come here."""
    known = frozenset(other)
    return list(dict.fromkeys(word for word in found if word in known))


@cache
def _word() -> re.Pattern[str]:
    return re.compile(r"[^\W_]+")


@cache
def _script() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")


@cache
def _script_start() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]")
