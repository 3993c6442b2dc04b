"""The calibration of an encoder, which the encoder and its package both need."""

from __future__ import annotations

from typing import NamedTuple


class Calibration(NamedTuple):
    """The probability that a memory matters, given a cosine: a sigmoid with this scale and bias."""

    scale: float
    bias: float
