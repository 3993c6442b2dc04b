"""What recall really shows, through `Sheaf.recall` on real folders: the answer, and nothing for everyday messages.

The development half is that of the coding set, with its unrelated questions and general programming questions. The
test half is the workshop set with the messages of another author; nothing was tuned on either.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks import coding_set
from benchmarks.embedders import embedder
from benchmarks.others import others
from memsheaf.config import Settings
from memsheaf.embed import Embedder
from memsheaf.errors import EmbedderFailed
from memsheaf.memory import Memory, parse
from memsheaf.sheaf import Sheaf

NAMES = ("none", "static", "semantic")
SIZES = (5, 40, 200, 1_040)
DRAWS = {5: 40, 40: 8}  # stores of so many memories
NOW = 1_794_700_000.0  # a day in November 2026: how old a memory is counts for a little
DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
RELATED = ("unrelated_hard", "programming", "other_work", "pasted")
"""Kinds of messages that may speak of a stored topic although no memory answers them; the others are small talk."""


class Asked(NamedTuple):
    """A message, the files that should be shown (none for one that needs no memory), and what kind it is."""

    text: str
    gold: frozenset[str]
    kind: str


class Material(NamedTuple):
    """Memories, those that only make a store larger, and messages."""

    memories: list[Memory]
    fill: list[Memory]
    messages: list[Asked]


class Outcome(NamedTuple):
    """What one message got: was its gold shown, was it among the best five, and how many bytes."""

    kind: str
    kept: bool
    ranked: bool
    size: int


class Shares(NamedTuple):
    """Of the messages with gold: their number, how many got it, had it among the best five, and bytes on average.

    `talk` is the share of small talk that got something, `by_kind` the same of each kind, `bytes_talk` its bytes.
    """

    questions: int
    kept: float
    low: float
    high: float
    ranked: float
    bytes_gold: float
    talk: float
    bytes_talk: float
    by_kind: dict[str, float]


def development() -> Material:
    """The development half of the coding set."""
    found = coding_set.load()
    messages = [Asked(one.query, frozenset(one.gold), one.kind) for one in found.half("development")]
    return Material(list(found.memories), list(others()), [*messages, *_silence("a.jsonl")])


def test() -> Material:
    """The workshop set."""
    folder = os.path.join(DATA, "workshop")
    messages = [Asked(one["query"], frozenset(one["gold"]), "question") for one in lines_of(folder, "queries.jsonl")]
    fill = [*coding_set.load().memories[:160], *others()]
    return Material(memories_in(folder), fill, [*messages, *_silence("b.jsonl")])


HALVES = {"development": development, "test": test}


def measure(
    half: str, cache: str, sizes: Sequence[int] = SIZES, names: Sequence[str] = NAMES
) -> dict[str, dict[int, Shares]]:
    """By embedder and by number of memories; an embedder that is not installed is left out."""
    found, embedders = HALVES[half](), installed(names, cache)
    made: dict[str, dict[int, Shares]] = {name: {} for name in embedders}
    for size in sizes:
        print(f"shown: {size} memories", file=sys.stderr, flush=True)
        outcomes: dict[str, list[Outcome]] = {name: [] for name in embedders}
        for memories, messages in _stores(found, size):
            with stored(memories) as settings:
                for name, one in embedders.items():
                    outcomes[name] += _asked(settings, one, messages)
        for name in embedders:
            made[name][size] = summary(outcomes[name])
    return made


def summary(outcomes: Sequence[Outcome]) -> Shares:
    """Add up.

    >>> summary([Outcome("question", True, True, 300), Outcome("question", False, True, 100),
    ...          Outcome("chat", False, False, 0), Outcome("programming", False, False, 90)])[4:]
    (1.0, 200, 0.0, 0, {'chat': 0.0, 'programming': 1.0})
    """
    asked = [one for one in outcomes if one.kind in coding_set.ANSWERED]
    silent = [one for one in outcomes if one.kind not in coding_set.ANSWERED]
    talk = [one for one in silent if one.kind not in RELATED]
    kept = fmean(one.kept for one in asked)
    low, high = wilson(kept, len(asked))
    kinds = dict.fromkeys(one.kind for one in silent)
    return Shares(
        len(asked), kept, low, high,
        fmean(one.ranked for one in asked),
        fmean(one.size for one in asked),
        fmean(one.size > 0 for one in talk),
        fmean(one.size for one in talk),
        {kind: fmean(one.size > 0 for one in silent if one.kind == kind) for kind in kinds},
    )  # fmt: skip


def wilson(share: float, count: int) -> tuple[float, float]:
    """The 95% interval of a share.

    >>> [round(bound, 2) for bound in wilson(0.5, 100)]
    [0.4, 0.6]
    """
    z = 1.96
    middle, spread = share + z * z / (2 * count), z * (share * (1 - share) / count + (z / (2 * count)) ** 2) ** 0.5
    return (middle - spread) / (1 + z * z / count), (middle + spread) / (1 + z * z / count)


def lines(found: Mapping[str, Mapping[int, Shares]]) -> Iterator[str]:
    """A table for people."""
    yield "shown: what `recall` shows (gold shown with its 95% interval; share of messages that get something)"
    head = ("gold shown", "", "in 5", "bytes", "small talk", "bytes")
    yield f"  {'':26}" + "".join(f"{column:>13}" for column in head)
    for name, by_size in found.items():
        for size, one in by_size.items():
            numbers = (f"{one.kept:.2f}", f"[{one.low:.2f}, {one.high:.2f}]", f"{one.ranked:.2f}")
            more = (f"{one.bytes_gold:.0f}", f"{one.talk:.3f}", f"{one.bytes_talk:.0f}")
            yield f"  {f'{name}, {size:,} memories':26}" + "".join(f"{number:>13}" for number in (*numbers, *more))
            yield "    " + ", ".join(f"{kind} {share:.2f}" for kind, share in one.by_kind.items())


def languages(half: str, cache: str, names: Sequence[str] = NAMES) -> Iterator[str]:
    """Questions in one language about a memory in another, and literal CJK terms: among the best five, and shown."""
    folder = os.path.join(DATA, "languages")
    asked = [one for one in lines_of(folder, "queries.jsonl") if one["split"] == half]
    stores = [
        ("languages", memories_in(folder), asked),
        ("literals", memories_in(folder), lines_of(folder, "literals.jsonl")),
    ]
    if half == "test":
        folder = os.path.join(DATA, "workshop")
        stores.append(("workshop", memories_in(folder), lines_of(folder, "languages.jsonl")))
    for title, memories, queries in stores:
        for name, one in installed(names, cache).items():
            messages = [Asked(query["query"], frozenset(query["gold"]), "question") for query in queries]
            with stored(memories) as settings:
                outcomes = list(_asked(settings, one, messages))
            ranked, kept = fmean(each.ranked for each in outcomes), fmean(each.kept for each in outcomes)
            yield f"  {f'{title}, {name}':26}{len(outcomes):>5} questions, in 5 {ranked:.2f}, shown {kept:.2f}"


def installed(names: Sequence[str], cache: str) -> dict[str, Embedder | None]:
    """The embedders of these names that can be had."""
    made: dict[str, Embedder | None] = {}
    for name in names:
        try:
            made[name] = None if name == "none" else embedder(name, cache)
        except EmbedderFailed as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return made


def memories_in(folder: str) -> list[Memory]:
    """The memories of a set."""
    place = os.path.join(folder, "memories")
    return [parse(name, _read(os.path.join(place, name))) for name in sorted(os.listdir(place))]


def lines_of(folder: str, name: str) -> list[dict[str, Any]]:
    """The lines of a JSONL file."""
    return [json.loads(line) for line in _read(os.path.join(folder, name)).decode().splitlines()]


def _silence(name: str) -> list[Asked]:
    return [Asked(one["text"], frozenset(), one["kind"]) for one in lines_of(os.path.join(DATA, "silence"), name)]


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _stores(found: Material, size: int) -> Iterator[tuple[list[Memory], list[Asked]]]:
    """Stores of a size, each with the messages whose gold is in it, and with what needs no memory, in turn."""
    silent = [one for one in found.messages if not one.gold]
    more = size - len(found.memories)
    count = DRAWS.get(size, 1) if more < 0 else 1
    for number in range(count):
        memories = (
            [*found.memories, *found.fill[:more]]
            if more >= 0
            else Random(f"{size} {number}").sample(found.memories, size)
        )
        paths = {memory.path for memory in memories}
        yield memories, [*(one for one in found.messages if one.gold & paths), *silent[number % 8 :: min(count, 8)]]


@contextmanager
def stored(memories: Sequence[Memory]) -> Iterator[Settings]:
    """A folder that holds some memories."""
    with tempfile.TemporaryDirectory(prefix="memsheaf-shown-") as folder:
        settings = Settings(home=os.path.join(folder, "home"), cache=os.path.join(folder, "cache"), embedder="none")
        root = os.path.join(settings.home, "user")
        os.makedirs(root)
        for memory in memories:
            with open(os.path.join(root, memory.path), "wb") as file:
                file.write(memory.data)
        yield settings


def _asked(settings: Settings, one: Embedder | None, messages: Sequence[Asked]) -> Iterator[Outcome]:
    # only to be read: what is shown would count as used, and weigh in the next question
    with Sheaf.open("user", settings=settings, embedder=one, read_only=True, clock=lambda: NOW) as sheaf:
        sheaf.own.index.look()
        state = sheaf.own.index.embed_all() if one else None
        if state and state.done != state.total:
            raise SystemExit(f"vectors are missing: {state}")
        for asked in messages:
            recalled = sheaf.recall(asked.text)
            shown = {each.memory.path for each in recalled.memories}
            best = {each.row.path for each in recalled.candidates[:5]}
            yield Outcome(asked.kind, bool(asked.gold & shown), bool(asked.gold & best), recalled.size)
        if state and (problem := sheaf.own.index.embedding().problem):
            raise SystemExit(f"words answered alone: {problem}")
