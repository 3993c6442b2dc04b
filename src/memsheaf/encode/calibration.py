"""How a cosine becomes a probability; a module of its own, because the encoder and its package both need it."""

from __future__ import annotations

from typing import NamedTuple


class Calibration(NamedTuple):
    """How a cosine becomes the probability that a memory matters: a sigmoid with this scale and bias."""

    scale: float
    bias: float
