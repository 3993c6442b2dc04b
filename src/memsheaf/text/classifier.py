"""Three linear classifiers: is a sentence of a user worth keeping, is it about the person or about the work, and is a
message about the user's own things?

Features are n-grams of a sentence's words, and of its shape, in which a rare word is replaced by its ending, or by a
mark for a name or a number. Features are hashed; each hash has one weight a class. `training/classifiers.py` makes
the tables from labelled sentences.
"""

from __future__ import annotations

import math
import os
import re
import zlib
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple

from memsheaf.text.tokenizer import HALF_WIDTH_KANA, HAN_AND_KANA

CLASSES = ("", "feedback", "user", "project", "reference")  # types of memories; "" is not worth keeping

BITS = 16  # of a hash
LONGEST = 600  # characters of a message that are read, at its end
SCALE = 8.0  # a weight of 1 in the table, whose numbers go from -128 to 127
FOLDER = os.path.dirname(__file__)
MIN_WORK_SCORES = {"user": 1 << 20, "project": -37}  # by type; 0 where it says nothing of the scope

_UNSPACED = HAN_AND_KANA + HALF_WIDTH_KANA
_TOKEN = (
    rf"(?P<code>`[^`]*`)|(?P<address>https?://\S+|\S+@\S+\.\w+)|(?P<path>[\w.~-]*(?:/[\w.*-]+)+/?)"
    rf"|(?P<number>[$€£]?\d[\w.,:%]*)|[{_UNSPACED}]|[^\W\d_{_UNSPACED}]+(?:['’][^\W\d_{_UNSPACED}]+)*"
    r"|\.{3}|…|[—–]|-+(?=\s)|[,;:?!()=，。；：？！、（）]"
)
_ASCII_TOKEN = _TOKEN.replace(f"|[{_UNSPACED}]", "").replace(_UNSPACED, "")  # the ranges take long to compile
_STANDS_FOR = {"code": "`", "address": "@", "path": "/", "number": "0"}
_ENDINGS = ("ing", "ed", "ly", "tion", "ment", "er", "est", "able", "s")


class WeightTable(NamedTuple):
    """The words that stand for themselves in the shape of a sentence, and the weights, class by class."""

    common: frozenset[str]
    weights: tuple[memoryview, ...]


@lru_cache(maxsize=64)  # a new sentence is compared with several memories
def classify(text: str) -> tuple[str, float]:
    """Return the type of memory that a sentence would make, and how likely it is worth keeping, from 0 to 1.

    A fact about the person is of the type `user`, any other fact of the type `project`, so that type and scope agree.

    >>> kind, worth = classify("Please never use tabs.")
    >>> kind, worth > 0.5
    ('feedback', True)
    """
    likely = dict(zip(CLASSES, _score("sentences", hashed_features(text, load("sentences").common)), strict=True))
    worth = 1 - likely.pop("")
    kind = max(likely, key=likely.__getitem__)
    return (guess_scope(text, kind.removeprefix("user")) if kind in ("user", "project") else kind), worth


def guess_scope(text: str, kind: str = "") -> Literal["user", "project"]:
    """Return whose a memory is: the person's, known in every project, or the project's.

    The text decides, except that type `user` is always the person's, and that `project` is the project's in doubt.
    Only the first paragraph is judged: the reason behind a rule often names the project in which it was learned.

    >>> guess_scope("Keep your answers short."), guess_scope("The staging database is wiped every Sunday.")
    ('user', 'project')
    """
    score = sum(map(load("scopes").weights[0].__getitem__, scope_features(text)))
    return "project" if score >= MIN_WORK_SCORES.get(kind, 0) else "user"


def scope_features(text: str) -> set[int]:
    """Return the hashed features of the first paragraph: its words, pairs of words, and beginnings of words."""
    rule = re.sub(r"(?s)\A\s*(?:#[^\n]*\n\s*)?|(?:\n\s*\n|\*\*(?:Why|How to apply):).*", "", text)
    plain = ["^", *(word for word, _ in words(rule)), "$"]
    beginnings = (word[:length] for word in plain for length in (3, 4, 5))
    return {_hash(each) for each in (*plain, *map(" ".join, pairwise(plain)), *beginnings)}


def concerns(message: str) -> float:
    """How likely a message is about the user's own things, from 0 to 1: not small talk, not what anybody might ask.

    >>> concerns("who do I ask about the invoices?") > 0.5 > concerns("how do I reverse a list in python?")
    True
    """
    return _score("messages", hashed_features(message[-LONGEST:], load("messages").common))[1]


def _score(name: str, found: Collection[int]) -> list[float]:
    """How likely each class is; the first where nothing was found."""
    table = load(name).weights
    if not found:
        return [1.0] + [0.0] * (len(table) - 1)
    part = 1 / (SCALE * math.sqrt(len(found)))
    scores = [sum(weights[each] for each in found) * part for weights in table]
    top = max(scores)
    likely = [math.exp(score - top) for score in scores]
    return [each / sum(likely) for each in likely]


@cache
def load(name: str) -> WeightTable:
    """A table, read once."""
    with open(os.path.join(FOLDER, f"{name}.table"), "rb") as file:
        words, _, data = file.read().partition(b"\n")
    view, size = memoryview(data).cast("b"), 1 << BITS
    return WeightTable(
        frozenset(words.decode().split()), tuple(view[at : at + size] for at in range(0, len(data), size))
    )


def hashed_features(text: str, common: frozenset[str]) -> set[int]:
    """The hashed features of a sentence."""
    return {_hash(each) for each in _features(text, common)}


def _hash(feature: str) -> int:
    return zlib.crc32(feature.encode("utf-8", "replace")) >> (32 - BITS)


def words(text: str) -> list[tuple[str, str]]:
    """The words and signs of a sentence, each as it is compared and as it is written."""
    found = []
    for match in re.finditer(_ASCII_TOKEN if text.isascii() else _TOKEN, text):
        kept = _STANDS_FOR.get(match.lastgroup or "") or match[0].lower().replace("'", "").replace("’", "")
        found.append(("-" if set(kept) <= set("-–—") else kept, match[0]))
    return found


def _features(text: str, common: frozenset[str]) -> Iterator[str]:
    """A sentence's words, its pairs of words, and the n-grams of two to four in its shape."""
    read = words(text)
    plain = ["^", *(word for word, _ in read), "$"]
    shape = ["^", *(_shape(word, said, not at, common) for at, (word, said) in enumerate(read)), "$"]
    yield f"n {min(12, len(read) // 3)}"
    yield from (f"w {word}" for word in plain)
    yield from (f"p {one} {two}" for one, two in pairwise(plain))
    yield from (f"s {one} {two}" for one, two in zip(shape, shape[2:], strict=False))
    for length in (2, 3, 4):
        for at in range(len(shape) - length + 1):
            yield " ".join(shape[at : at + length])


def _shape(word: str, said: str, is_first: bool, common: frozenset[str]) -> str:
    """A word in the shape of a sentence: itself if it is common, else its word class."""
    if word in common or not word[0].isalpha() or (len(word) == 1 and not word.isascii()):
        return word
    if said[0].isupper() and not is_first:
        return "X"
    return next((f"~{each}" for each in _ENDINGS if word.endswith(each) and len(word) > len(each) + 2), "~")
