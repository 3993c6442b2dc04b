"""Fuse lexical and vector scores; all tuned constants are here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from memsheaf.embed import Usual
from memsheaf.index.lexical import TEXT_WEIGHT, WordHit

NEAR_WEIGHT = 0.25
USUAL = Usual(mean=0.1, spread=0.1)  # for an embedder that has none of its own
WORD, WORDS_FREE = 0.08, 0.5  # what each telling word in common beyond the first half adds to a fit
SAMPLE = 50  # so many vectors count as much as what is usual
DIGITS = 5  # what follows depends on the order in which vectors were stored


class Near(NamedTuple):
    """The usual cosines, the one from which a question is about a memory, the nearest rows, and all cosines."""

    usual: Usual
    enough: float
    nearest: Sequence[int]
    cosines_of: Callable[[Sequence[int]], Mapping[int, float]]


def estimate_usual(count: int, mean: float, spread: float, usual: Usual = USUAL) -> Usual:
    """The mean and spread of a question's cosines, pulled towards the usual ones when there are few.

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


def fit(common: float, near: float, enough: float) -> float:
    """How clearly a question is about a memory: from 1 on it is worth recalling something.

    >>> fit(0.0, 0.4, enough=0.4), fit(1.75, 0.3, enough=0.4), fit(0.4, 0.3, enough=0.4)
    (1.0, 1.0, 0.9)
    """
    return round(1 + near - enough + word_share(common), DIGITS)


def word_share(common: float) -> float:
    """What words in common add to a fit."""
    return WORD * max(0.0, common - WORDS_FREE)


def score_both(
    hits: Iterable[WordHit], cosines: Mapping[int, float], usual: Usual, *, enough: float, least: float
) -> dict[int, tuple[float, float, float, float]]:
    """Score, common, near and fit of each row that has a vector or shares words with the question."""
    found = {}
    for hit in hits:
        cosine = cosines.get(hit.row)
        if cosine is not None:
            score = fuse(hit.share, cosine, usual)
            found[hit.row] = (score, hit.common, cosine, fit(hit.common, cosine, enough))
        elif hit.common:  # one that has no vector yet is neither near nor far
            score = fuse(hit.share, usual.mean, usual)
            found[hit.row] = (score, hit.common, 0.0, hit.common / least)
    return found
