"""How well the right memories are found: ours against baselines, on public sets and on one of our own.

python -m benchmarks.recall_quality                          # what is there of all sets
python -m benchmarks.recall_quality --data FOLDER --sets coding,locomo
python -m benchmarks.recall_quality --half test              # the half of our set that nothing was tuned on

The public sets are not part of this repository. `--data` names a folder that holds `locomo7.json.gz` (LoCoMo,
Maharana et al. 2024, github.com/snap-research/locomo, CC BY-NC 4.0: for evaluation only) and
`longmemeval_s_dev.jsonl.gz` (LongMemEval-S, Wu et al. 2024, github.com/xiaowu0162/LongMemEval, MIT). Recall says
whether the evidence is found; it does not say whether a model would then answer well.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log2
from random import Random
from statistics import fmean
from typing import Any, NamedTuple

from benchmarks import coding_set
from memsheaf.index import lexical
from memsheaf.memory import Memory, parse

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "..", "shared", "data")
DEEPEST = 50
RESAMPLES = 1_000
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single-hop", 5: "adversarial"}

Ask = Callable[[str], list[int]]
Build = Callable[[Sequence[Memory]], Ask]


class Case(NamedTuple):
    """One question to one collection: which of its memories answer it, and what kind of question it is."""

    question: str
    gold: frozenset[int]
    kind: str


class Collection(NamedTuple):
    """Memories that are searched together, and the questions that are asked of them."""

    memories: list[Memory]
    cases: list[Case]


class Score(NamedTuple):
    """How one question went: whether any and all of its gold is among the first 1, 5 and 10, nDCG@10, 1/rank."""

    kind: str
    any_1: float
    any_5: float
    any_10: float
    all_5: float
    all_10: float
    ndcg: float
    mrr: float


COLUMNS = Score._fields[1:]


# the rankers


def keyword_overlap(memories: Sequence[Memory]) -> Ask:
    """The documents' fallback: how many words of the question occur in the text."""
    texts = [set(re.findall(r"\w+", _whole(memory).lower())) for memory in memories]

    def ask(question: str) -> list[int]:
        asked = set(re.findall(r"\w+", question.lower()))
        scores = [(len(asked & text), -number) for number, text in enumerate(texts)]
        return [-number for score, number in sorted(scores, reverse=True)[:DEEPEST] if score]

    return ask


def full_text(memories: Sequence[Memory]) -> Ask:
    """SQLite's FTS5 with its own stemming and BM25, any word of the question."""
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE t USING fts5 (x, tokenize = 'porter unicode61')")
    db.executemany(
        "INSERT INTO t (rowid, x) VALUES (?, ?)", ((n, _whole(memory)) for n, memory in enumerate(memories))
    )

    def ask(question: str) -> list[int]:
        match = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))
        sql = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t), rowid LIMIT ?"
        return [row for (row,) in db.execute(sql, (match, DEEPEST))] if match else []

    return ask


def ours(memories: Sequence[Memory]) -> Ask:
    """memsheaf, by words."""
    db = sqlite3.connect(":memory:")
    for statement in lexical.TABLES.split(";\n"):
        db.execute(statement)
    for number, memory in enumerate(memories):
        lexical.put_words(db, number, memory)
    lexicon = lexical.Lexicon()

    def ask(question: str) -> list[int]:
        return [hit.row for hit in lexicon.ask(db, question, total=len(memories), last=0)]

    return ask


RANKERS: Mapping[str, Build] = {"keyword overlap": keyword_overlap, "FTS5": full_text, "memsheaf, words": ours}


# the sets


def coding(_: str, half: str) -> Iterator[Collection]:
    """Our own set: what people ask a coding agent, in other words than the memory has."""
    found = coding_set.load()
    memories = list(found.memories)
    place = {memory.path: number for number, memory in enumerate(memories)}
    cases = [
        Case(query.query, frozenset(place[path] for path in query.gold), query.kind)
        for query in (found.half("test") if half == "test" else found.half("development"))
        if query.gold
    ]
    yield Collection(memories, cases)


def locomo(data: str, _: str) -> Iterator[Collection]:
    """LoCoMo: one memory a turn of a long conversation; without the adversarial questions."""
    for collection in _locomo(data):
        yield collection._replace(cases=[case for case in collection.cases if case.kind != CATEGORIES[5]])


def locomo_adversarial(data: str, _: str) -> Iterator[Collection]:
    """LoCoMo's questions that name the wrong person: the turn they are about, nevertheless."""
    for collection in _locomo(data):
        yield collection._replace(cases=[case for case in collection.cases if case.kind == CATEGORIES[5]])


def _locomo(data: str) -> Iterator[Collection]:
    with gzip.open(os.path.join(data, "locomo7.json.gz"), "rt", encoding="utf-8") as file:
        samples = json.load(file)
    for sample in samples:
        place: dict[str, int] = {}
        memories: list[Memory] = []
        for key, turns in sample["conversation"].items():
            if re.fullmatch(r"session_\d+", key):
                for turn in turns:
                    place[turn["dia_id"]] = len(memories)
                    memories.append(_memory(len(memories), f"{turn['speaker']}: {turn['text']}"))
        cases = []
        for asked in sample["qa"]:
            gold = frozenset(place[one] for one in asked.get("evidence", ()) if one in place)
            if gold:
                cases.append(Case(asked["question"], gold, CATEGORIES[asked["category"]]))
        yield Collection(memories, cases)


def longmemeval_turns(data: str, _: str) -> Iterator[Collection]:
    """LongMemEval-S: one memory a turn of the user."""
    for asked in _longmemeval(data):
        memories: list[Memory] = []
        gold = set()
        for session in asked["haystack_sessions"]:
            for turn in session:
                if turn["role"] == "user":
                    if turn.get("has_answer"):
                        gold.add(len(memories))
                    memories.append(_memory(len(memories), turn["content"]))
        if gold:
            yield Collection(memories, [Case(asked["question"], frozenset(gold), asked["question_type"])])


def longmemeval_sessions(data: str, _: str) -> Iterator[Collection]:
    """LongMemEval-S: one memory a session, the words of the user in it."""
    for asked in _longmemeval(data):
        memories = []
        for number, session in enumerate(asked["haystack_sessions"]):
            memories.append(_memory(number, "\n".join(turn["content"] for turn in session if turn["role"] == "user")))
        places = {name: number for number, name in enumerate(asked["haystack_session_ids"])}
        gold = frozenset(places[name] for name in asked["answer_session_ids"] if name in places)
        if gold and not asked["question_id"].endswith("_abs"):
            yield Collection(memories, [Case(asked["question"], gold, asked["question_type"])])


SETS: Mapping[str, Callable[[str, str], Iterator[Collection]]] = {
    "coding": coding,
    "locomo": locomo,
    "locomo-adversarial": locomo_adversarial,
    "longmemeval-turns": longmemeval_turns,
    "longmemeval-sessions": longmemeval_sessions,
}


# measuring


def score(ranked: Sequence[int], case: Case) -> Score:
    """Hold a ranking against its gold.

    >>> score([3, 1, 2], Case("q", frozenset({1}), "k"))[1:]
    (0.0, 1.0, 1.0, 1.0, 1.0, 0.6309297535714575, 0.5)
    """
    gold = case.gold
    gains = [1 / log2(place + 2) for place, one in enumerate(ranked[:10]) if one in gold]
    ideal = sum(1 / log2(place + 2) for place in range(min(10, len(gold))))
    first = next((place for place, one in enumerate(ranked) if one in gold), None)
    one, five, ten = (set(ranked[:depth]) for depth in (1, 5, 10))
    return Score(
        case.kind,
        any_1=float(bool(gold & one)),
        any_5=float(bool(gold & five)),
        any_10=float(bool(gold & ten)),
        all_5=float(gold <= five),
        all_10=float(gold <= ten),
        ndcg=sum(gains) / ideal,
        mrr=1 / (first + 1) if first is not None else 0.0,
    )


def interval(values: Sequence[float], seed: int = 1) -> tuple[float, float]:
    """Between which means 95% of resampled sets lie."""
    random = Random(seed)
    means = sorted(fmean(random.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return means[int(RESAMPLES * 0.025)], means[int(RESAMPLES * 0.975)]


def measure(name: str, data: str, half: str) -> dict[str, list[Score]]:
    """Every ranker on one set, each question in its turn."""
    found: dict[str, list[Score]] = {ranker: [] for ranker in RANKERS}
    for collection in SETS[name](data, half):
        for ranker, build in RANKERS.items():
            ask = build(collection.memories)
            found[ranker] += [score(ask(case.question), case) for case in collection.cases]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the arguments ask for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall_quality", description="How well recall finds.")
    parser.add_argument("--data", default=DATA, help="the folder with the public sets")
    parser.add_argument("--sets", default=",".join(SETS), help="which sets, with commas (default: all)")
    parser.add_argument("--half", default="development", choices=("development", "test"), help="of our own set")
    parser.add_argument("--by-kind", action="store_true", help="also by kind of question")
    parser.add_argument("--json", default="", metavar="FILE", help="write the numbers there too")
    given = parser.parse_args(arguments)
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name in given.sets.split(","):
        if name not in SETS:
            parser.error(f"there is no set {name!r}; there are {', '.join(SETS)}")
        try:
            found = measure(name, given.data, given.half)
        except FileNotFoundError as error:
            print(f"{name}: not measured, {os.path.basename(error.filename)} is not in --data; see --help\n")
            continue
        results[name] = {ranker: _means(scores) for ranker, scores in found.items()}
        _print(name, found, by_kind=given.by_kind)
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    return 0


def _print(name: str, found: Mapping[str, list[Score]], *, by_kind: bool) -> None:
    count = len(next(iter(found.values())))
    print(f"{name}: {count} questions (any@5 with the interval that holds 95% of resampled sets)")
    print(f"  {'':34}" + "".join(f"{column.replace('_', '@'):>9}" for column in COLUMNS))
    for ranker, scores in found.items():
        low, high = interval([one.any_5 for one in scores])
        print(f"  {ranker:34}" + _numbers(_means(scores)) + f"   [{low:.3f}, {high:.3f}]")
        for kind in sorted({one.kind for one in scores}) if by_kind else ():
            some = [one for one in scores if one.kind == kind]
            print(f"    {f'{kind} ({len(some)})':32}" + _numbers(_means(some)))
    print(flush=True)


def _numbers(means: Mapping[str, float]) -> str:
    return "".join(f"{means[column]:9.3f}" for column in COLUMNS)


def _means(scores: Sequence[Score]) -> dict[str, float]:
    return {column: fmean(getattr(one, column) for one in scores) for column in COLUMNS}


def _longmemeval(data: str) -> Iterator[dict[str, Any]]:
    with gzip.open(os.path.join(data, "longmemeval_s_dev.jsonl.gz"), "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _memory(number: int, text: str) -> Memory:
    return parse(f"{number}.md", text.encode("utf-8", "replace")[:250_000] or b" ")


def _whole(memory: Memory) -> str:
    return f"{memory.name}\n{memory.description}\n{memory.body}"


if __name__ == "__main__":
    sys.exit(main())
