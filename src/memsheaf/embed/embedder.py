"""The embedder protocol: texts in, vectors out, close together where the texts mean the same.

An embedder is optional everywhere. Whatever uses one has an answer of its own for when there is none, or it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray


class Usual(NamedTuple):
    """Mean and spread of the cosines between a question and memories that do not answer it.

    An embedder that has an attribute `usual` is read by it, another by what it says about each question.
    """

    mean: float
    spread: float


class Embedder(Protocol):
    """Something that places texts in a space of meaning.

    One that has an attribute `remote` that is true may not answer at all; a search then waits for it only so long.
    """

    @property
    def identity(self) -> str:
        """Which vectors these are. It changes whenever they would: vectors of two identities do not compare."""

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has.

        Raises:
            EmbedderFailed: only an answer can tell, and there is none.
        """

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        """One row of length 1 a text, in their order. The product of two rows is their cosine.

        Raises:
            EmbedderFailed: it cannot be used after all.
        """
