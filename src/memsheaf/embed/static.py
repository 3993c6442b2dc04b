"""The built-in embedder: a table of word vectors, summed over a text.

56,878 words and parts of words, 256 numbers of four bits each; `training/` made it. It knows English and the language
of programmers; 64,750 words of 15 other languages stand for the English one that is nearest in meaning, so that texts
in two languages can be compared. A word means the same wherever it stands: order and negation are lost on it.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from threading import Lock
from typing import NamedTuple

import numpy
from numpy import float32
from numpy.typing import NDArray

from memsheaf.embed.embedder import Usual
from memsheaf.embed.tensors import Array, Vocabulary, parse
from memsheaf.embed.wordpiece import WordPiece
from memsheaf.errors import EmbedderFailed

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "static.table")

_LETTERS = re.compile(r"[^\W\d_]+")
_IDEOGRAPHS = "\u2e80"  # from here on, scripts are written without blanks
_INSIDE_NAMES = re.compile(r"(?<=[a-z])(?=[A-Z])")
_UNKNOWN = 0


class _Ready(NamedTuple):
    words: WordPiece
    rows: Array
    scales: Array


class Translating(WordPiece):
    """Tokens of a text in which words of other languages stand for the English one that is nearest to each."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        super().__init__(Vocabulary(arrays))
        self._others, self._english = Vocabulary(arrays, "others."), arrays["english"].data

    def _pieces(self, word: str) -> Iterator[int]:
        translated: list[int] = []

        def translate(match: re.Match[str]) -> str:
            found = self._known_parts(match[0].lower())
            translated.extend(self._english[number] for number in found)
            return " " if found else match[0]

        rest = _LETTERS.sub(translate, word)
        yield from translated
        yield from super()._pieces(rest)

    def _known_parts(self, word: str) -> list[int]:
        """A word that is known, or its longest known beginnings, in turn; unknown ideographs are left out."""
        others = self._others
        if word.isascii() or others[word] >= 0:
            return [others[word]] if others[word] >= 0 else []
        found: list[int] = []
        start = 0
        while start < len(word):
            least = start + (word[start] < _IDEOGRAPHS)
            for end in range(min(len(word), start + others.longest), least, -1):
                if others[word[start:end]] >= 0:
                    found.append(others[word[start:end]])
                    start = end
                    break
            else:
                if word[start] < _IDEOGRAPHS:
                    break
                start += 1
        return found


class Static:
    """Texts as vectors, in microseconds. The table is mapped when the first text comes; threads may share it."""

    dimensions = 256
    identity = "memsheaf-static 2"
    usual = Usual(mean=0.07, spread=0.065)

    def __init__(self, path: str = FILE) -> None:
        self._path = path
        self._lock = Lock()
        self._ready: _Ready | None = None

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        """One row of length 1 a text. Raises EmbedderFailed when the table cannot be read."""
        words, rows, scales = self._load()
        made = numpy.empty((len(texts), self.dimensions), float32)
        for place, text in enumerate(texts):
            known = {*words.encode(_INSIDE_NAMES.sub(" ", text))[1:-1]} - {_UNKNOWN}
            made[place] = _summed(rows, scales, sorted(known)) if known else _alone(text, self.dimensions)
        return made

    def _load(self) -> _Ready:
        with self._lock:
            if self._ready is None:
                try:
                    with open(self._path, "rb") as file:
                        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                    arrays = parse(data).arrays
                    self._ready = _Ready(Translating(arrays), arrays["rows"], arrays["scales"])
                except (OSError, ValueError, KeyError) as error:
                    raise EmbedderFailed(f"the table {self._path} cannot be read: {error}") from None
            return self._ready


def _summed(rows: Array, scales: Array, words: Sequence[int]) -> NDArray[float32]:
    """The sum of some words, at length 1. Two numbers share a byte, each from 1 to 15 for -7 to 7."""
    packed = rows[words]
    halves = numpy.stack((packed & 15, packed >> 4), axis=2).reshape(len(words), -1)
    made: NDArray[float32] = scales[words] @ (halves.astype(float32) - float32(8))
    return made / max(float(numpy.linalg.norm(made)), 1e-9)


def _alone(text: str, dimensions: int) -> NDArray[float32]:
    """A text of which no word is known lies near nothing but itself."""
    seed = int.from_bytes(sha256(text.encode("utf-8", "replace")).digest()[:8], "big")
    made = numpy.random.default_rng(seed).standard_normal(dimensions).astype(float32)
    return made / numpy.linalg.norm(made)
