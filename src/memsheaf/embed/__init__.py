"""What memsheaf asks of an embedder: texts in, vectors out, close together where the texts mean the same.

An embedder is optional everywhere. Whatever uses one has an answer of its own for when there is none, or it fails.
"""

from __future__ import annotations

from collections.abc import Sequence

from memsheaf.errors import EmbedderFailed
from memsheaf.values import NamedTuple, Protocol

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
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

    One that has an attribute `quick` that is true takes less than a millisecond for a text; a search then embeds more
    before it answers. One that is `remote` may not answer at all; a search then waits for it only so long.
    """

    @property
    def identity(self) -> str:
        """Which vectors these are. It changes whenever they would: vectors of two identities do not compare."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has.

        Raises:
            EmbedderFailed: only an answer can tell, and there is none.
        """
        ...

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        """One row of length 1 a text, in their order. The product of two rows is their cosine.

        Raises:
            EmbedderFailed: it cannot be used after all.
        """
        ...


def find(cache: str, *, name: str = "auto", url: str = "", key: str = "") -> Embedder | None:
    """The embedder of that name, or None. `cache` is the folder where it may keep what it derives.

    "auto" is the best that is installed, or None: "minilm", which the extra brings and which works together with
    "static", or "static" alone, which comes with the package; both need numpy. "none" is None. "provider:model" is
    one that a server runs, with its `url` and the variable that holds its `key` where they are not the provider's
    own; no text is sent to one not named so.

    Raises:
        EmbedderFailed: one was asked for by name, and is not there.
    """
    if name == "none":
        return None
    if name in ("", "auto"):
        found = next((each for each, parts in _INSTALLED.items() if not _missing(*parts)), "")
        return _installed(found, cache) if found else None
    if name in _INSTALLED:
        if missing := _missing(*_INSTALLED[name]):
            raise EmbedderFailed(f"the embedder {name!r} needs {' and '.join(missing)}, which cannot be imported")
        return _installed(name, cache)
    from memsheaf.embed.api import PROVIDERS, ServedEmbedder

    if name.partition(":")[0] not in PROVIDERS:
        known = ", ".join(("auto", "none", *_INSTALLED))
        raise EmbedderFailed(
            f"there is no embedder {name!r}, only {known}, and provider:model with one of {', '.join(PROVIDERS)}",
            "docs/embeddings.md says what each is.",
        )
    if _missing("numpy"):
        raise EmbedderFailed(f"the embedder {name!r} needs numpy, which cannot be imported", "`pip install numpy`")
    return ServedEmbedder(name, url=url, key=key)


_INSTALLED = {"minilm": ("numpy", "all_minilm_l6_v2"), "static": ("numpy",)}
"""What each needs, the better one first."""


def _missing(*parts: str) -> list[str]:
    from importlib.util import find_spec

    return [part for part in parts if find_spec(part) is None]


def _installed(name: str, cache: str) -> Embedder:
    from memsheaf.embed.static import Static

    if name == "minilm":
        from memsheaf.embed.minilm import Concatenated, MiniLM
        from memsheaf.embed.weights import installed

        return Concatenated(MiniLM(installed(), cache), Static(), Usual(mean=0.055, spread=0.06))
    return Static()
