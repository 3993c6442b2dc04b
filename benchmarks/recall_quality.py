"""How well the right memories are found: ours against baselines, on public sets and on one of our own.

python -m benchmarks.recall_quality --data FOLDER            # what is there of all sets
python -m benchmarks.recall_quality --sets coding,coding-among --rankers words,hybrid-static
python -m benchmarks.recall_quality --sets coding --half test    # the half of our set that nothing was tuned on

The public sets are not part of this repository. `--data` names a folder that holds `locomo7.json.gz` (LoCoMo,
Maharana et al. 2024, github.com/snap-research/locomo, CC BY-NC 4.0: for evaluation only) and
`longmemeval_s_dev.jsonl.gz` (LongMemEval-S, Wu et al. 2024, github.com/xiaowu0162/LongMemEval, MIT). Recall says
whether the evidence is found; it does not say whether a model would then answer well.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from math import log2
from random import Random
from statistics import fmean
from typing import NamedTuple

from benchmarks import shown
from benchmarks.embedders import CACHE
from benchmarks.machine import code
from benchmarks.rankers import Build, Corpus, rankers
from benchmarks.recall_sets import DATA, SETS, Case
from memsheaf.errors import EmbedderFailed

RESAMPLES = 1_000


class Score(NamedTuple):
    """How one question went.

    Whether any and all of its gold is among the first 1, 5 and 10, which share of it among the first 5, nDCG@10, and
    1/rank.
    """

    kind: str
    any_1: float
    any_5: float
    any_10: float
    r_5: float
    all_5: float
    all_10: float
    ndcg: float
    mrr: float


COLUMNS = Score._fields[1:]


def score(ranked: Sequence[int], case: Case) -> Score:
    """Hold a ranking against its gold.

    >>> score([3, 1, 2], Case("q", frozenset({1, 9}), "k"))[1:7]
    (0.0, 1.0, 1.0, 0.5, 0.0, 0.0)
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
        r_5=len(gold & five) / len(gold),
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


def measure(name: str, data: str, half: str, builds: Mapping[str, Build]) -> dict[str, list[Score]]:
    """Every ranker on one set, each question in its turn."""
    found: dict[str, list[Score]] = {ranker: [] for ranker in builds}
    for number, collection in enumerate(SETS[name](data, half)):
        if number % 10 == 0:
            _say(f"{name}: collection {number + 1}")
        corpus = Corpus(collection.memories)
        for ranker, build in builds.items():
            ask = build(corpus)
            found[ranker] += [score(ask(case.question), case) for case in collection.cases]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the arguments ask for, and print it."""
    parser = _parser()
    given = parser.parse_args(arguments)
    names = given.sets.split(",")
    for name in names:
        if name not in SETS:
            parser.error(f"there is no set {name!r}; there are {', '.join(SETS)}")
    builds = _builds(parser, given.rankers.split(",") if given.rankers else [], given.cache)
    results: dict[str, object] = {"code": code()}
    print(f"code {results['code']}, the {given.half} half of our own set\n")
    for name in names:
        try:
            found = measure(name, given.data, given.half, builds)
        except FileNotFoundError as error:
            print(f"{name}: not measured, {os.path.basename(error.filename)} is not in --data; see --help\n")
            continue
        if not any(found.values()):
            continue  # a set of the test half
        results[name] = {ranker: _means(scores) for ranker, scores in found.items()}
        _print(name, found, by_kind=given.by_kind)
    if given.shown:
        found_shown = shown.measure(given.half, given.cache, [int(size) for size in given.shown_sizes.split(",")])
        results["shown"] = {
            name: {str(size): one._asdict() for size, one in by_size.items()} for name, by_size in found_shown.items()
        }
        print("\n".join(shown.lines(found_shown)))
        print("\n".join(shown.languages(given.half, given.cache)))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall_quality", description="How well recall finds.")
    parser.add_argument("--data", default=DATA, help="the folder with the public sets (default %(default)s)")
    parser.add_argument("--sets", default=",".join(SETS), help="which sets, with commas (default: all)")
    parser.add_argument(
        "--rankers", default="", help=f"which rankers, with commas (default: {','.join(rankers(''))})"
    )
    parser.add_argument("--half", default="development", choices=("development", "test"), help="of our own set")
    parser.add_argument("--by-kind", action="store_true", help="also by kind of question")
    parser.add_argument("--shown", action=argparse.BooleanOptionalAction, default=True, help="what `recall` shows")
    parser.add_argument(
        "--shown-sizes", default=",".join(map(str, shown.SIZES)), help="of so many memories (default %(default)s)"
    )
    parser.add_argument("--cache", default=CACHE, help="where vectors are kept (default %(default)s)")
    parser.add_argument("--json", default="", metavar="FILE", help="write the numbers there too")
    return parser


def _builds(parser: argparse.ArgumentParser, names: Sequence[str], cache: str) -> dict[str, Build]:
    """The rankers of these names, or all that can be had."""
    known = rankers(cache)
    made = {}
    for name in names or known:
        if name not in known:
            parser.error(f"there is no ranker {name!r}; there are {', '.join(known)}")
        try:
            made[name] = known[name]()
        except EmbedderFailed as error:
            if names:
                parser.error(str(error))
            _say(f"{name} is left out: {error}")
    return made


def _print(name: str, found: Mapping[str, list[Score]], *, by_kind: bool) -> None:
    count = len(next(iter(found.values())))
    print(f"{name}: {count} questions (any@5 with the interval that holds 95% of resampled sets)")
    print(f"  {'':34}" + "".join(f"{column.replace('_', '@'):>8}" for column in COLUMNS))
    for ranker, scores in found.items():
        low, high = interval([one.any_5 for one in scores])
        print(f"  {ranker:34}" + _numbers(_means(scores)) + f"   [{low:.3f}, {high:.3f}]")
        for kind in sorted({one.kind for one in scores}) if by_kind else ():
            some = [one for one in scores if one.kind == kind]
            print(f"    {f'{kind} ({len(some)})':32}" + _numbers(_means(some)))
    print(flush=True)


def _numbers(means: Mapping[str, float]) -> str:
    return "".join(f"{means[column]:8.3f}" for column in COLUMNS)


def _means(scores: Sequence[Score]) -> dict[str, float]:
    return {column: fmean(getattr(one, column) for one in scores) for column in COLUMNS}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
