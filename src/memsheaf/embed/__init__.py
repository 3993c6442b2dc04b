"""What memsheaf asks of an embedder: texts in, vectors out, close together where the texts mean the same.

An embedder is optional everywhere. Whatever uses one has an answer of its own for when there is none, or it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from memsheaf.errors import EmbedderFailed

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray


class Embedder(Protocol):
    """Something that places texts in a space of meaning."""

    @property
    def identity(self) -> str:
        """Which vectors these are. It changes whenever they would: vectors of two identities do not compare."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        """One row of length 1 a text, in their order. The product of two rows is their cosine.

        Raises:
            EmbedderFailed: it cannot be used after all.
        """
        ...


def find(cache: str, *, name: str = "") -> Embedder | None:
    """The embedder that is installed, or None. `cache` is the folder where it may keep what it derives.

    Raises:
        EmbedderFailed: one was asked for by name, and is not there.
    """
    if name not in ("", "minilm"):
        raise EmbedderFailed(f"there is no embedder {name!r}, only 'minilm'")
    from importlib.util import find_spec

    missing = [part for part in ("numpy", "all_minilm_l6_v2") if find_spec(part) is None]
    if not missing:
        from memsheaf.embed.minilm import MiniLM
        from memsheaf.embed.weights import installed

        return MiniLM(installed(), cache)
    if name:
        raise EmbedderFailed(f"the embedder {name!r} needs {' and '.join(missing)}, which cannot be imported")
    return None
