"""A trained decision: does a sentence take the place of an older one?

One hidden layer on the vectors of both sentences, their product and their difference. `training/replacements.py`
makes its weights from labelled pairs. Where the encoder cannot run, nothing is replaced.
"""

from __future__ import annotations

import os
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from memsheaf.encode import built_in
from memsheaf.errors import EmbedderFailed

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

WEIGHTS_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "replacement.npz")


@lru_cache(maxsize=256)
def replaces(old: str, new: str) -> float:
    """Return how likely a sentence takes the place of an older one, from 0 to 1.

    >>> replaces("Deploys go out on Tuesdays.", "Deploys go out on Wednesdays now.") > 0.5
    True
    """
    encoder = built_in()
    if encoder is None:
        return 0.0
    import numpy

    try:
        features = combine(*encoder.encode([old, new]))
    except EmbedderFailed:
        return 0.0
    weights = _load()
    hidden = numpy.maximum(features @ weights["hidden"] + weights["hidden_bias"], 0)
    score = float((hidden @ weights["out"])[0] + weights["out_bias"][0])
    return 1 / (1 + float(numpy.exp(-score)))


def combine(before: NDArray[float32], after: NDArray[float32]) -> NDArray[float32]:
    """Return what is judged, from the vectors of two sentences, or from rows of them.

    Vectors have the length 1; their numbers are made about 1, so that products are no smaller than differences.
    """
    import numpy

    before, after = (vector * vector.shape[-1] ** 0.5 for vector in (before, after))
    return numpy.concatenate([before, after, before * after, abs(before - after)], axis=-1)


@cache
def _load() -> dict[str, NDArray[float32]]:
    import numpy

    with numpy.load(WEIGHTS_FILE) as file:
        return {name: file[name].astype(numpy.float32) for name in file.files}
