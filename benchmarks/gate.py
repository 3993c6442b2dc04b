"""Whether recall knows when to be silent: what it shows for questions that memories answer, and for others.

Through `Sheaf.recall`, on folders that hold the coding set: all of it, and thinned out to fewer memories, since how
much is asked of a memory depends on how many there are.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from statistics import fmean
from typing import NamedTuple

from benchmarks import coding_set
from benchmarks.coding_set import CodingSet, Query, Split
from benchmarks.embedders import embedder
from memsheaf.config import Settings
from memsheaf.embed import Embedder
from memsheaf.errors import EmbedderFailed
from memsheaf.memory import Memory
from memsheaf.recall.recall import MOST
from memsheaf.sheaf import Sheaf

NAMES = ("none", "static", "minilm")
SIZES = (5, 20, 50)
NOW = 1_794_700_000.0  # a day in November 2026: how old a memory is counts for a little


class Answer(NamedTuple):
    """What became of one question: was its gold shown, was it among the best five, was anything shown."""

    kind: str
    kept: bool
    ranked: bool
    anything: bool


class Gate(NamedTuple):
    """Shares over all questions of a half; `kept` and `ranked` of those with gold, the others of those without."""

    questions: int
    kept: float
    ranked: float
    unrelated: float
    unrelated_hard: float


def measure(
    half: Split, cache: str, sizes: Sequence[int] = SIZES, names: Sequence[str] = NAMES
) -> dict[str, dict[int, Gate]]:
    """By embedder and by number of memories; an embedder that is not installed is left out."""
    found, embedders = coding_set.load(), _installed(names, cache)
    made: dict[str, dict[int, Gate]] = {name: {} for name in embedders}
    for size in (*sizes, len(found.memories)):
        print(f"gate: {size} memories", file=sys.stderr, flush=True)
        answers: dict[str, list[Answer]] = {name: [] for name in embedders}
        for memories, queries in _stores(found, half, size):
            with _folder(memories) as settings:
                for name, one in embedders.items():
                    answers[name] += _asked(settings, one, queries, len(memories))
        for name in embedders:
            made[name][size] = summary(answers[name])
    return made


def summary(answers: Sequence[Answer]) -> Gate:
    """Add up.

    >>> summary([Answer("question", True, True, True), Answer("question", False, True, True),
    ...          Answer("unrelated", False, False, True), Answer("unrelated_hard", False, False, False)])
    Gate(questions=2, kept=0.5, ranked=1.0, unrelated=1.0, unrelated_hard=0.0)
    """
    related = [one for one in answers if one.kind in coding_set.ANSWERED]

    def share(some: Sequence[Answer], of: Callable[[Answer], bool]) -> float:
        return fmean(of(one) for one in some) if some else 0.0

    silent = {kind: [one for one in answers if one.kind == kind] for kind in coding_set.UNRELATED}
    return Gate(
        len(related),
        share(related, lambda one: one.kept),
        share(related, lambda one: one.ranked),
        share(silent["unrelated"], lambda one: one.anything),
        share(silent["unrelated_hard"], lambda one: one.anything),
    )


def lines(found: Mapping[str, Mapping[int, Gate]]) -> Iterator[str]:
    """A table for people."""
    yield "gate: what `recall` shows (shares; lost by rank: gold not among the best five; by the gate: not shown)"
    head = ("gold kept", "by rank", "by gate", "unrelated", "hard")
    yield f"  {'':24}" + "".join(f"{column:>11}" for column in head)
    for name, by_size in found.items():
        for size, gate in by_size.items():
            numbers = (gate.kept, 1 - gate.ranked, gate.ranked - gate.kept, gate.unrelated, gate.unrelated_hard)
            yield f"  {f'{name}, {size} memories':24}" + "".join(f"{number:11.3f}" for number in numbers)


def _installed(names: Sequence[str], cache: str) -> dict[str, Embedder | None]:
    made: dict[str, Embedder | None] = {}
    for name in names:
        try:
            made[name] = None if name == "none" else embedder(name, cache)
        except EmbedderFailed as error:
            print(f"gate: {name} is left out: {error}", file=sys.stderr)
    return made


def _stores(found: CodingSet, half: Split, size: int) -> Iterator[tuple[Sequence[Memory], Sequence[Query]]]:
    """All memories with all questions; of fewer, a draw for each question, in which its gold is."""
    if size == len(found.memories):
        yield found.memories, found.half(half)
        return
    for query in found.half(half):
        gold = [memory for memory in found.memories if memory.path in query.gold]
        rest = [memory for memory in found.memories if memory.path not in query.gold]
        yield [*gold, *Random(f"{query.id} {size}").sample(rest, size - len(gold))], [query]


@contextmanager
def _folder(memories: Sequence[Memory]) -> Iterator[Settings]:
    with tempfile.TemporaryDirectory(prefix="memsheaf-gate-") as folder:
        settings = Settings(home=os.path.join(folder, "home"), cache=os.path.join(folder, "cache"), embedder="none")
        root = os.path.join(settings.home, "user")
        os.makedirs(root)
        for memory in memories:
            with open(os.path.join(root, memory.path), "wb") as file:
                file.write(memory.data)
        yield settings


def _asked(settings: Settings, one: Embedder | None, queries: Sequence[Query], count: int) -> Iterator[Answer]:
    # only to be read: what is shown would count as used, and weigh in the next question
    with Sheaf.open("user", settings=settings, embedder=one, read_only=True, clock=lambda: NOW) as sheaf:
        sheaf.index.look()
        state = sheaf.index.embed_all() if one else None
        if state and state.done != count:
            raise SystemExit(f"vectors are missing: {state}")
        for query in queries:
            recalled = sheaf.recall(query.query)
            shown = {each.memory.path for each in recalled.memories}
            best = {each.row.path for each in recalled.candidates[:MOST]}
            gold = set(query.gold)
            yield Answer(query.kind, bool(gold & shown), bool(gold & best), bool(shown))
        if state and (problem := sheaf.index.embedding().problem):
            raise SystemExit(f"words answered alone: {problem}")
