"""Two embedders as one: a text is near another when both say so."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
from numpy import float32
from numpy.typing import NDArray

from memsheaf.embed import Embedder, Usual


class Both:
    """The vectors of two embedders side by side; a cosine is then the mean of theirs.

    They err differently, so that together they find more than the better one alone.
    """

    def __init__(self, one: Embedder, other: Embedder, usual: Usual) -> None:
        self.identity = f"{one.identity} and {other.identity}"
        self.usual = usual
        self._parts = (one, other)

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return sum(part.dimensions for part in self._parts)

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        """One row of length 1 a text, in their order.

        Raises:
            EmbedderFailed: one of them cannot be used after all.
        """
        rows: NDArray[float32] = numpy.concatenate([part.encode(texts) for part in self._parts], axis=1)
        rows *= float32(0.5**0.5)
        return rows
