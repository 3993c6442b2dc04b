"""The encoder: a text becomes a vector, near those of the memories that matter for it.

Deferred imports, to start quickly: numpy, onnxruntime and tokenizers with the built-in encoder, HTTP with the others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from memsheaf.encode.calibration import Calibration
from memsheaf.errors import ModelFailed

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    from memsheaf.encode.encoder import BuiltInEncoder

__all__ = ["Calibration", "Encoder", "built_in", "find_encoder", "find_problem"]

BUILT_IN = ("", "auto", "static", "semantic", "minilm")
"""Names of the built-in encoder; the last three are those of its predecessors."""

# onnxruntime reports to its makers unless it is told not to before it is imported; the name depends on its version.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("ORT_TELEMETRY_DISABLED", "1")

_SHARED: dict[int, BuiltInEncoder | None] = {}
"""The built-in encoder of each process. A forked process makes its own: the threads of a session end with a fork."""


class Encoder(Protocol):
    """Something that places texts in a space of meaning.

    One whose attribute `remote` is true may not answer at all; a search then waits for it only so long.
    """

    @property
    def identity(self) -> str:
        """Say which vectors these are. It changes whenever they would: vectors of two identities do not compare."""

    @property
    def dimensions(self) -> int:
        """Return how many numbers a vector has.

        Raises:
            ModelFailed: only an answer can tell, and there is none.
        """

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        """Return one row of length 1 for each text, in their order. The product of two rows is their cosine.

        Raises:
            ModelFailed: it cannot be used after all.
        """


def find_encoder(name: str = "auto", *, url: str = "", key: str = "") -> Encoder | None:
    """Return the encoder of that name; None for "none".

    "auto" is the built-in one. "provider:model" is one that a server runs, with its `url` and the variable that holds
    its `key` where they are not the provider's own; no text is sent to one not named so.

    Raises:
        ModelFailed: there is no encoder of that name, or it needs a library that cannot be imported.
    """
    if name == "none":
        return None
    if name in BUILT_IN:
        if encoder := built_in():
            return encoder
        raise ModelFailed(
            "the built-in encoder needs numpy, onnxruntime and tokenizers, which cannot all be imported",
            hint="`pip install --force-reinstall numpy onnxruntime tokenizers` brings them; till then, words decide.",
        )
    from memsheaf.encode.api import ServedEncoder

    if find_spec("numpy") is None:
        raise ModelFailed(f"the encoder {name!r} needs numpy", hint="`pip install numpy` brings it.")
    return ServedEncoder(name, url=url, key=key)


def find_problem(name: str, url: str, key: str) -> str:
    """Encode a word, and return why that failed and what to do about it; "" if it did not."""
    try:
        if encoder := find_encoder(name, url=url, key=key):
            encoder.encode(["memory"])
    except ModelFailed as error:
        return f"{error}. {error.hint}"
    return ""


def built_in() -> BuiltInEncoder | None:
    """Return the built-in encoder, one for the whole process; None where its libraries cannot be imported."""
    process = os.getpid()
    if process not in _SHARED:
        try:
            from memsheaf.encode.encoder import BuiltInEncoder
        except (ImportError, OSError):
            return _SHARED.setdefault(process, None)
        _SHARED.setdefault(process, BuiltInEncoder())
    return _SHARED[process]
