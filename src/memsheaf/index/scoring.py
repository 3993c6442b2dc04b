"""Fuse lexical and vector scores; all tuned constants are here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import log

from memsheaf.embed import Usual
from memsheaf.index.lexical import TEXT_WEIGHT, Hit

NEAR_WEIGHT = 0.25
USUAL = Usual(mean=0.1, spread=0.1)
"""For an embedder that does not say."""

ENOUGH, ENOUGH_MORE = 1.4, 0.78
"""How many spreads above the mean a memory is worth showing: if it is the only one, and how much more the more there
are, by the logarithm, since of many unrelated ones the nearest is nearer. Set so that 1 unrelated in 20 passes."""

MANY = 1_000  # from so many on, it does not grow
WORDS_BESIDE = 3.0
"""How many telling words in common make a memory worth showing whose cosine is 0; `lexical.enough` without one."""

SAMPLE = 50  # so many vectors count as much as what is usual
NEAR_ENOUGH = 2.0  # spreads above the mean, for a memory that shares no word with the question
DIGITS = 5  # what follows depends on the order in which vectors were stored


def estimate_usual(count: int, mean: float, spread: float, usual: Usual = USUAL) -> Usual:
    """What so many cosines of a question say, nearer to what is usual the fewer they are.

    >>> estimate_usual(0, 0.0, 0.0), estimate_usual(50, 0.3, 0.2)
    (Usual(mean=0.1, spread=0.1), Usual(mean=0.2, spread=0.15))
    """
    share = count / (count + SAMPLE)
    mean, spread = (share * own + (1 - share) * theirs for own, theirs in zip((mean, spread), usual, strict=True))
    return Usual(round(mean, DIGITS), max(round(spread, DIGITS), 1e-6))


def fuse(text: float, near: float, usual: Usual) -> float:
    """One number for the order: how much the words say, and how far the cosine stands out among all.

    >>> fuse(0.5, 0.5, Usual(mean=0.1, spread=0.1)), fuse(0.0, 0.1, Usual(mean=0.1, spread=0.1))
    (2.0, 0.0)
    """
    return NEAR_WEIGHT * (near - usual.mean) / usual.spread + TEXT_WEIGHT * text


def enough_near(count: int, usual: Usual) -> float:
    """The cosine from which on one of so many is worth showing even if it shares no word with the question.

    >>> [round(enough_near(count, Usual(mean=0.07, spread=0.065)), 2) for count in (1, 10, 100, 1_000, 10_000)]
    [0.16, 0.28, 0.39, 0.51, 0.51]
    """
    least = usual.mean + usual.spread * (ENOUGH + ENOUGH_MORE * log(max(1, min(count, MANY))))
    return max(least, 1e-6)  # an embedder may say anything


def fit(common: float, near: float, enough: float) -> float:
    """Whether a memory has to do with a question at all: 1 and more is worth showing.

    >>> fit(0.0, 0.4, enough=0.4), fit(1.5, 0.2, enough=0.4), fit(3.0, -0.1, enough=0.4)
    (1.0, 1.0, 1.0)
    """
    return max(near, 0.0) / enough + common / WORDS_BESIDE


def score_both(
    hits: Iterable[Hit], cosines: Mapping[int, float], usual: Usual, *, enough: float, least: float
) -> dict[int, tuple[float, float, float, float]]:
    """Score, common, near and fit of the rows that share words with the question or stand out as near to it."""
    found = {}
    for hit in hits:
        cosine = cosines.get(hit.row)
        if cosine is not None and (hit.common or cosine >= usual.mean + NEAR_ENOUGH * usual.spread):
            score = fuse(hit.share, cosine, usual)
            found[hit.row] = (score, hit.common, cosine, fit(hit.common, cosine, enough))
        elif cosine is None and hit.common:  # one that has no vector yet is neither near nor far
            score = fuse(hit.share, usual.mean, usual)
            found[hit.row] = (score, hit.common, 0.0, hit.common / least)
    return found
