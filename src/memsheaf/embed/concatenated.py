"""Several embedders as one: they err differently, so that together they find more than the best of them alone.

Those that know English alone say nothing about a text in another language: there the multilingual one counts alone.
What a text is in is told by the two tokenizers: one that knows English alone cuts another language into more pieces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy
from numpy import float32
from numpy.typing import NDArray

from memsheaf.embed.embedder import Embedder, Usual

ENGLISH, OTHER = 1.2, 1.5  # tokens of the English model per token of the other: English up to, and not from

_READ = 300  # characters of a text that tell its language: less than what either tokenizer cuts off
_FAR = re.compile(r"[^\W\d_\x00-\u036f]")  # letters that are not Latin; the English tokenizer knows many of them


def english(text: str, one: Callable[[str], int], other: Callable[[str], int]) -> float:
    """How far a text is English, from 0 to 1, by how many pieces an English and a multilingual tokenizer make of it.

    >>> english("four words of it", lambda text: 4, lambda text: 4), english("四個字", lambda text: 3, lambda text: 2)
    (1.0, 0.0)
    """
    text = text[:_READ]
    ratio = (one(text) + len(_FAR.findall(text))) / other(text)
    return min(1.0, max(0.0, (OTHER - ratio) / (OTHER - ENGLISH)))


class WeightedEmbedder(NamedTuple):
    """An embedder, how much it counts, and whether it knows no language but English."""

    embedder: Embedder
    weight: float
    is_english: bool


class Concatenated:
    """The vectors of several embedders side by side, weighted."""

    def __init__(self, parts: Sequence[WeightedEmbedder], english: Callable[[str], float], usual: Usual) -> None:
        self.identity = " and ".join(f"{part.weight:g} {part.embedder.identity}" for part in parts)
        self.sections = [part.embedder.dimensions for part in parts]
        self.dimensions = sum(self.sections)
        self.usual = usual
        self.parts = parts
        self.english = english

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        """One row of length 1 a text. Raises EmbedderFailed when one of them does."""
        share = numpy.array([self.english(text) for text in texts], float32)
        made = []
        for part in self.parts:
            rows = numpy.zeros((len(texts), part.embedder.dimensions), float32)
            weights = part.weight * (share if part.is_english else numpy.ones_like(share))
            counts = numpy.flatnonzero(weights).tolist()
            if counts:
                rows[counts] = part.embedder.encode([texts[place] for place in counts])
            made.append(rows * numpy.sqrt(weights)[:, None])
        found: NDArray[float32] = numpy.concatenate(made, axis=1)
        found /= numpy.linalg.norm(found, axis=1, keepdims=True)
        return found
