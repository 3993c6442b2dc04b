"""The rankers that are compared: keyword overlap, FTS5, MiniLM, both of them fused, and memsheaf itself.

memsheaf is asked through `Sheaf.recall` on a real folder. The others have no threshold: they show their first five.
"""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import numpy

from benchmarks.minilm import cached_minilm, cached_ours
from memsheaf.config import Settings
from memsheaf.index.vectors import passages
from memsheaf.memory import Memory
from memsheaf.sheaf import Sheaf

MAX_RANKED = 50
MAX_SHOWN = 5
FUSION_RANK = 60  # added to every rank, as in the paper on reciprocal-rank fusion
NOW = 1_794_700_000.0  # a day in November 2026: the age of a memory counts for a little


class Answer(NamedTuple):
    """The best memories with their scores, best first, and those that are shown."""

    ranked: list[tuple[int, float]]
    shown: list[int]


Ask = Callable[[str], Answer]
Ranker = Callable[[Sequence[Memory], str], AbstractContextManager[Ask]]


@contextmanager
def keyword_overlap(memories: Sequence[Memory], _: str) -> Iterator[Ask]:
    """Count the words of the question that occur in the text."""
    texts = [set(re.findall(r"\w+", _whole(memory).lower())) for memory in memories]
    yield lambda question: _best(
        {number: float(len(text & set(re.findall(r"\w+", question.lower())))) for number, text in enumerate(texts)}
    )


@contextmanager
def full_text(memories: Sequence[Memory], _: str) -> Iterator[Ask]:
    """Ask SQLite's FTS5 with its own stemming and BM25 for any word of the question."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = 'porter unicode61')")
    db.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", enumerate(map(_whole, memories)))

    def ask(question: str) -> Answer:
        match = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question)) or '""'
        sql = "SELECT rowid, -bm25(t) FROM t WHERE t MATCH ? ORDER BY 2 DESC, 1 LIMIT ?"
        return _best(dict(db.execute(sql, (match, MAX_RANKED))))

    yield ask
    db.close()


@contextmanager
def minilm(memories: Sequence[Memory], cache: str) -> Iterator[Ask]:
    """Compare the vectors of MiniLM, of the same passages as ours."""
    encoder = cached_minilm(cache)
    texts = [(number, text) for number, memory in enumerate(memories) for text in passages(memory)]
    rows = encoder.encode([text for _, text in texts])

    def ask(question: str) -> Answer:
        cosines = rows @ encoder.encode([question])[0]
        best = numpy.full(len(memories), -1.0)
        numpy.maximum.at(best, [number for number, _ in texts], cosines)
        return _best(dict(enumerate((best + 1).tolist())))

    yield ask


@contextmanager
def fused(memories: Sequence[Memory], cache: str) -> Iterator[Ask]:
    """Fuse the ranks of MiniLM and FTS5."""
    with minilm(memories, cache) as by_meaning, full_text(memories, cache) as by_words:

        def ask(question: str) -> Answer:
            scores: dict[int, float] = {}
            for answer in (by_meaning(question), by_words(question)):
                for rank, (number, _) in enumerate(answer.ranked, 1):
                    scores[number] = scores.get(number, 0.0) + 1 / (FUSION_RANK + rank)
            return _best(scores)

        yield ask


@contextmanager
def memsheaf(memories: Sequence[Memory], cache: str) -> Iterator[Ask]:
    """Ask `Sheaf.recall`, with the built-in encoder."""
    places = {memory.path: number for number, memory in enumerate(memories)}
    # only to be read: what is shown would count as used, and weigh in the next question
    with (
        stored(memories) as settings,
        Sheaf.open(
            "user", settings=settings, embedder=cached_ours(cache), read_only=True, clock=lambda: NOW
        ) as sheaf,
    ):
        sheaf.own.index.look()
        state = sheaf.own.index.embed_all()
        if state.done != state.total:
            raise SystemExit(f"vectors are missing: {state}")

        def ask(question: str) -> Answer:
            recalled = sheaf.recall(question)
            ranked = [(places[candidate.row.path], candidate.likely) for candidate in recalled.candidates]
            return Answer(ranked, [places[shown.memory.path] for shown in recalled.memories])

        yield ask
        if problem := sheaf.own.index.embedding().problem:
            raise SystemExit(f"words answered alone: {problem}")


RANKERS: Mapping[str, Ranker] = {
    "memsheaf": memsheaf,
    "overlap": keyword_overlap,
    "fts5": full_text,
    "minilm": minilm,
    "minilm+rrf": fused,
}


@contextmanager
def stored(memories: Sequence[Memory]) -> Iterator[Settings]:
    """Make a home that holds some memories in the scope `user`."""
    with tempfile.TemporaryDirectory(prefix="memsheaf-recall-") as folder:
        settings = Settings(home=os.path.join(folder, "home"), cache=os.path.join(folder, "cache"))
        root = os.path.join(settings.home, "user")
        os.makedirs(root)
        for memory in memories:
            with open(os.path.join(root, memory.path), "wb") as file:
                file.write(memory.data)
        yield settings


def _best(scores: Mapping[int, float]) -> Answer:
    order = sorted((number for number in scores if scores[number] > 0), key=lambda number: (-scores[number], number))
    return Answer([(number, scores[number]) for number in order[:MAX_RANKED]], order[:MAX_SHOWN])


def _whole(memory: Memory) -> str:
    return f"{memory.name}\n{memory.description}\n{memory.body}"
