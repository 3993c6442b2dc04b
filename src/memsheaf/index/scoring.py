"""The probability that a memory matters for a message: by its meaning, and by the words that both have.

The numbers were set on development worlds by `training/calibrate.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp
from typing import NamedTuple

from memsheaf.encode import Calibration
from memsheaf.index.lexical import WordHit

SHOWN_FROM = 0.3  # how likely a memory must matter to be shown unasked
WORD_WEIGHT = 4.0  # of sharing all that the rare words of a message can give
GAP_WEIGHT = 4.71  # of being less near than another memory: mostly one or two matter for a message
UNCALIBRATED = Calibration(scale=15.0, bias=-7.5)  # for an encoder that says nothing of its cosines
# Of words in common, as a share of those that are enough: a little less than enough is SHOWN_FROM.
WORDS_ALONE = Calibration(scale=4.0, bias=-4.5)
DIGITS = 5  # what follows depends on the order in which vectors were stored


class Near(NamedTuple):
    """The rows that are near a question, the nearest first, and the cosines of any."""

    calibration: Calibration
    nearest: Sequence[int]
    cosines_of: Callable[[Sequence[int]], Mapping[int, float]]


class Score(NamedTuple):
    """`score` is for the order, `likely` for the decision: how likely the memory matters. `near` is its cosine."""

    score: float
    likely: float
    common: float
    near: float


def score_by_words(hit: WordHit, enough: float) -> Score:
    """Score a memory by the words that it shares with a question; with `enough` of them it is shown.

    >>> score_by_words(WordHit(1, score=0.9, common=1.5, share=0.7), enough=1.5)
    Score(score=0.7, likely=0.37754, common=1.5, near=0.0)
    """
    return Score(hit.share, sigmoid(hit.common / enough, WORDS_ALONE), hit.common, 0.0)


def score_by_both(hit: WordHit, cosine: float, calibration: Calibration) -> Score:
    """Score a memory by its nearness in meaning and by the words that it shares with a question.

    It is as likely to matter as if it was the nearest one; see `compare_with_nearest`.
    """
    scale, bias = calibration
    bias += WORD_WEIGHT * min(1.0, hit.share)
    score = sigmoid(cosine, Calibration(scale + GAP_WEIGHT, bias))  # the order that `compare_with_nearest` leads to
    return Score(score, sigmoid(cosine, Calibration(scale, bias)), hit.common, cosine)


def compare_with_nearest(likely: float, gap: float) -> float:
    """Return how much of a probability remains for a memory whose cosine is so far below the nearest one's.

    >>> [round(compare_with_nearest(0.5, gap), 2) for gap in (0.0, 0.1, 0.3)]
    [1.0, 0.77, 0.39]
    """
    return 1 / (likely + (1 - likely) * exp(GAP_WEIGHT * gap))


def sigmoid(value: float, calibration: Calibration) -> float:
    """Return the probability that belongs to a value.

    >>> sigmoid(0.5, Calibration(scale=20.0, bias=-10.0))
    0.5
    """
    return round(1 / (1 + exp(-calibration.scale * value - calibration.bias)), DIGITS)
