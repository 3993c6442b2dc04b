"""What is compared when it is asked how well the right memories are found: baselines, words, meaning, and both.

The hybrid is put together from the product's own pieces, since a folder for each question would take hours;
`tests/test_recall_quality.py` holds it against `Sheaf.matches`.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy
from numpy import float32
from numpy.typing import NDArray

from benchmarks.embedders import embedder, usual_of
from memsheaf.embed import Embedder
from memsheaf.index import lexical
from memsheaf.index.database import WORD_TABLES
from memsheaf.index.scoring import DIGITS, estimate_usual, fuse
from memsheaf.index.vectors import NEAREST, common_lengths, passages, quantize, shares
from memsheaf.memory import Memory

DEEPEST = 50

Ask = Callable[[str], list[int]]
Build = Callable[["Corpus"], Ask]


class Corpus:
    """Memories that are searched together, by their numbers; what several rankers need is made once."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self.memories = memories
        self._near: dict[str, Space] = {}

    @cached_property
    def words(self) -> sqlite3.Connection:
        """The words of all memories, as the index keeps them."""
        db = sqlite3.connect(":memory:")
        for statement in WORD_TABLES.split(";\n"):
            db.execute(statement)
        for number, memory in enumerate(self.memories):
            lexical.put_words(db, number, memory)
        return db

    def space(self, one: Embedder) -> Space:
        """The vectors of all memories, as the index keeps them."""
        if one.identity not in self._near:
            self._near[one.identity] = Space(self.memories, one)
        return self._near[one.identity]


class Space:
    """The vectors of some memories."""

    def __init__(self, memories: Sequence[Memory], one: Embedder) -> None:
        self._one = one
        texts = [(number, text) for number, memory in enumerate(memories) for text in passages(memory)]
        self._owners = numpy.array([number for number, _ in texts])
        records = quantize(one.encode([text for _, text in texts]))
        self._rows, self._scales = records["row"], records["scale"]
        self._parts: Sequence[int] = getattr(one, "sections", ())
        self._shares = shares(self._rows, self._parts)
        self._count = len(memories)

    def cosines(self, question: str) -> NDArray[float32]:
        """The cosine of each passage with a question."""
        asked = self._one.encode([question])[0]
        found: NDArray[float32] = (self._rows.astype(float32) @ asked) * self._scales
        return found / common_lengths(self._shares, shares(asked[None], self._parts))[:, 0]

    def best(self, cosines: NDArray[float32]) -> list[float]:
        """The cosine of the best passage of each memory."""
        found = numpy.full(self._count, -1.0, float32)
        numpy.maximum.at(found, self._owners, cosines)
        return [round(float(cosine), DIGITS) for cosine in found]


def keyword_overlap(corpus: Corpus) -> Ask:
    """The documents' fallback: how many words of the question occur in the text."""
    texts = [set(re.findall(r"\w+", _whole(memory).lower())) for memory in corpus.memories]

    def ask(question: str) -> list[int]:
        asked = set(re.findall(r"\w+", question.lower()))
        scores = [(len(asked & text), -number) for number, text in enumerate(texts)]
        return [-number for score, number in sorted(scores, reverse=True)[:DEEPEST] if score]

    return ask


def full_text(corpus: Corpus) -> Ask:
    """SQLite's FTS5 with its own stemming and BM25, any word of the question."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = 'porter unicode61')")
    db.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", enumerate(map(_whole, corpus.memories)))

    def ask(question: str) -> list[int]:
        match = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        sql = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid LIMIT ?"
        return [row for (row,) in db.execute(sql, (match, DEEPEST))] if match else []

    return ask


def words(corpus: Corpus) -> Ask:
    """memsheaf without an embedder."""
    db = corpus.words

    def ask(question: str) -> list[int]:
        hits = lexical.rank_by_words(db, question, total=len(corpus.memories))
        return _ordered(corpus, {hit.row: hit.score for hit in hits})

    return ask


def meaning(one: Embedder) -> Build:
    """An embedder alone."""

    def build(corpus: Corpus) -> Ask:
        space = corpus.space(one)
        return lambda question: _ordered(corpus, dict(enumerate(space.best(space.cosines(question)))))[:DEEPEST]

    return build


def hybrid(one: Embedder) -> Build:
    """memsheaf with an embedder."""

    def build(corpus: Corpus) -> Ask:
        db, space = corpus.words, corpus.space(one)

        def ask(question: str) -> list[int]:
            cosines = space.cosines(question)
            usual = estimate_usual(
                len(cosines), float(cosines.mean(dtype=float)), float(cosines.std(dtype=float)), usual_of(one)
            )
            near = space.best(cosines)
            nearest = sorted(range(len(near)), key=lambda number: -near[number])[:NEAREST]
            hits = lexical.rank_by_words(db, question, total=len(near), also=nearest)
            return _ordered(corpus, {hit.row: fuse(hit.share, near[hit.row], usual) for hit in hits})

        return ask

    return build


def rankers(cache: str) -> Mapping[str, Callable[[], Build]]:
    """All rankers by name; one whose embedder is not installed raises EmbedderFailed when it is called for."""
    return {
        "overlap": lambda: keyword_overlap,
        "fts5": lambda: full_text,
        "words": lambda: words,
        "static": lambda: meaning(embedder("static", cache)),
        "semantic": lambda: meaning(embedder("semantic", cache)),
        "hybrid-static": lambda: hybrid(embedder("static", cache)),
        "hybrid-semantic": lambda: hybrid(embedder("semantic", cache)),
    }


def _ordered(corpus: Corpus, scores: Mapping[int, float]) -> list[int]:
    return sorted(scores, key=lambda number: (-scores[number], corpus.memories[number].path))


def _whole(memory: Memory) -> str:
    return f"{memory.name}\n{memory.description}\n{memory.body}"
