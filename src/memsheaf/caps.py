"""Caps on what models may cost. `llm/spend.py` enforces them."""

from __future__ import annotations

from typing import NamedTuple


class Caps(NamedTuple):
    """The most that may be spent in one run, and in one day by all runs together; a token is about 4 bytes."""

    requests_per_run: int = 20
    tokens_per_run: int = 100_000
    seconds_per_run: float = 300.0
    requests_per_day: int = 300
    tokens_per_day: int = 1_000_000


class ChatCaps(NamedTuple):
    """The most that all conversations of a day may cost together; what else asks models has `Caps` of its own."""

    requests_per_day: int = 2_000
    tokens_per_day: int = 5_000_000
