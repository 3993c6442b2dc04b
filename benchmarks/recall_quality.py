"""Measure how well recall finds and what it leaves out, beside keyword overlap, FTS5, and MiniLM.

    python -m benchmarks.recall_quality                          # development data, all but the public sets
    python -m benchmarks.recall_quality --data FOLDER            # with samples of the public sets; --whole: all
    python -m benchmarks.recall_quality --half test              # data that nothing was chosen on
    python -m benchmarks.recall_quality --sets worlds-ab,speed --rankers memsheaf,minilm

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from statistics import fmean
from time import monotonic
from typing import Any, NamedTuple

import numpy

from benchmarks import encoder_checks
from benchmarks.machine import code, facts
from benchmarks.minilm import CACHE, NotInstalled, cached_minilm
from benchmarks.rankers import MAX_SHOWN, RANKERS, Answer
from benchmarks.recall_sets import DATA, SETS, Case, Collection, Source

STARTED = monotonic()


class Outcome(NamedTuple):
    """A message, its answer, and how many memories there were."""

    case: Case
    answer: Answer
    size: int

    @property
    def first_five(self) -> set[int]:
        """The five best memories."""
        return {number for number, _ in self.answer.ranked[:MAX_SHOWN]}


Outcomes = Sequence[Outcome]


def average_precision(outcomes: Outcomes) -> float:
    """Order all pairs of message and memory by score, of each message the five best before the rest.

    >>> case = Case("q", frozenset({1}), "world")
    >>> average_precision([Outcome(case, Answer([(0, 0.9), (1, 0.8)], []), 3)])
    0.5
    """
    scores, gold = [], []
    for outcome in outcomes:
        best = dict(outcome.answer.ranked[:MAX_SHOWN])
        scores += [best.get(number, -inf) for number in range(outcome.size)]
        gold += [number in outcome.case.gold for number in range(outcome.size)]
    ordered = numpy.array(gold)[numpy.argsort(-numpy.array(scores), kind="stable")]
    precision = numpy.cumsum(ordered) / numpy.arange(1, len(ordered) + 1)
    return float(precision[ordered].mean())


def precision_shown(outcomes: Outcomes) -> float:
    """Of all that is shown, return the share that matters."""
    return _share([number in outcome.case.gold for outcome in outcomes for number in outcome.answer.shown])


def recall_shown(outcomes: Outcomes) -> float:
    """Of all that matters, return the share that is shown."""
    return _share([number in outcome.answer.shown for outcome in outcomes for number in outcome.case.gold])


def silence(outcomes: Outcomes) -> float:
    """Of the messages that need nothing, return the share that gets nothing."""
    return _share([not outcome.answer.shown for outcome in outcomes if not outcome.case.gold])


def any_shown(outcomes: Outcomes) -> float:
    """Of the messages with an answer, return the share that is shown one."""
    return _share([bool(outcome.case.gold & set(outcome.answer.shown)) for outcome in outcomes if outcome.case.gold])


def any_in_five(outcomes: Outcomes) -> float:
    """Of the messages with an answer, return the share that has one among its first five."""
    return _share([bool(outcome.case.gold & outcome.first_five) for outcome in outcomes if outcome.case.gold])


def all_in_five(outcomes: Outcomes) -> float:
    """Of the messages with an answer, return the share that has all of it among its first five."""
    return _share([outcome.case.gold <= outcome.first_five for outcome in outcomes if outcome.case.gold])


def recall_in_five(outcomes: Outcomes) -> float:
    """Return the mean share of the gold among the first five."""
    gold = [outcome for outcome in outcomes if outcome.case.gold]
    return _share([len(outcome.case.gold & outcome.first_five) / len(outcome.case.gold) for outcome in gold])


class Row(NamedTuple):
    """A line of the table: of which set and kinds of messages, by which metric, and the targets."""

    title: str
    name: str
    metric: Callable[[Outcomes], float]
    must: str = ""
    hope: str = ""
    kinds: tuple[str, ...] = ()


ROWS = (
    Row("worlds a and b: average precision", "worlds-ab", average_precision, ".62", ".66", ("world",)),
    Row("– precision of what is shown", "worlds-ab", precision_shown, ".55", ".60", ("world",)),
    Row("– recall of what is shown", "worlds-ab", recall_shown, ".50", ".55", ("world",)),
    Row("worlds c to h: average precision", "worlds-ch", average_precision, ".33", ".40", ("world",)),
    Row("– precision of what is shown", "worlds-ch", precision_shown, kinds=("world",)),
    Row("– recall of what is shown", "worlds-ch", recall_shown, kinds=("world",)),
    Row("new worlds: average precision", "worlds-new", average_precision, kinds=("world",)),
    Row("– precision of what is shown", "worlds-new", precision_shown, kinds=("world",)),
    Row("– recall of what is shown", "worlds-new", recall_shown, kinds=("world",)),
    Row("needs nothing, gets nothing: worlds a and b", "worlds-ab", silence, ".88", ".92", ("world",)),
    Row("– worlds c to h", "worlds-ch", silence, ".88", ".92", ("world",)),
    Row("– new worlds", "worlds-new", silence, ".88", ".92", ("world",)),
    Row("– small talk", "size-200", silence, ".95", ".98", ("small talk",)),
    Row("– general programming", "size-200", silence, ".88", ".92", ("programming", "unrelated_hard")),
    Row("– work of others, pasted texts", "size-200", silence, ".88", ".92", ("other_work", "pasted")),
    Row("– messages of another world, a and b", "worlds-ab", silence, ".88", ".92", ("other work",)),
    Row("– messages of another world, c to h", "worlds-ch", silence, ".88", ".92", ("other work",)),
    Row("– messages of another world, new", "worlds-new", silence, ".88", ".92", ("other work",)),
    Row("coding R@5, 200 memories", "coding", any_in_five, ".84", ".88"),
    Row("coding R@5, among 1,040", "coding-among", any_in_five, ".58", ".65"),
    Row("workshop R@5, 40 memories", "workshop", any_in_five, ".84", ".88"),
    Row("workshop R@5, among 1,040", "workshop-among", any_in_five, ".58", ".65"),
    Row("LoCoMo R@5", "locomo", recall_in_five, ".60", ".65"),
    Row("LongMemEval sessions, any@5", "longmemeval", any_in_five, ".98", ".99"),
    Row("LongMemEval sessions, all@5", "longmemeval", all_in_five, ".94", ".96"),
    Row("question in another language, @5", "languages", any_in_five, ".83", ".93"),
    Row("– shown", "languages", any_shown, ".65", ".75"),
    Row("gold shown at 5 memories", "size-5", any_shown, ".85", ".90"),
    Row("– at 40", "size-40", any_shown, ".65", ".75"),
    Row("– at 200", "size-200", any_shown, ".50", ".60"),
    Row("– at 1,040", "size-1040", any_shown, ".35", ".45"),
)

CHECKS: Mapping[str, Callable[[Source, str], Iterator[encoder_checks.Check]]] = {
    "scopes": encoder_checks.check_scopes,
    "corrections": encoder_checks.check_corrections,
    "speed": encoder_checks.check_speed,
    "wheel": encoder_checks.check_wheel,
}


def measure(collections: Iterator[Collection], rankers: Sequence[str], cache: str) -> dict[str, list[Outcome]]:
    """Ask every ranker every message; return nothing where there is no message."""
    outcomes: dict[str, list[Outcome]] = {}
    for number, collection in enumerate(collections, 1):
        _report(f"  {number}: {len(collection.memories):,} memories")
        for name in rankers:
            with RANKERS[name](collection.memories, cache) as ask:
                for case in collection.cases:
                    outcome = Outcome(case, ask(case.question), len(collection.memories))
                    outcomes.setdefault(name, []).append(outcome)
    return outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the arguments ask for, and print it as a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall_quality", description="How well recall finds.")
    parser.add_argument("--half", default="development", choices=("development", "test"))
    parser.add_argument("--data", default=DATA, help="the folder with the public sets (default %(default)s)")
    parser.add_argument("--whole", action="store_true", help="read the public sets as a whole")
    parser.add_argument("--sets", default=",".join((*SETS, *CHECKS)), help="with commas (default: %(default)s)")
    parser.add_argument("--rankers", default=",".join(RANKERS), help="with commas (default: %(default)s)")
    parser.add_argument("--cache", default=CACHE, help="where vectors are kept (default %(default)s)")
    parser.add_argument("--json", default="", metavar="FILE", help="write the numbers there, too")
    given = parser.parse_args(arguments)
    names, rankers = given.sets.split(","), given.rankers.split(",")
    for wanted, known in ((names, [*SETS, *CHECKS]), (rankers, list(RANKERS))):
        for name in wanted:
            if name not in known:
                parser.error(f"there is no {name!r}; there are {', '.join(known)}")
    try:
        if any(name.startswith("minilm") for name in rankers):
            cached_minilm(given.cache)
    except NotInstalled as problem:
        _report(str(problem))
        rankers = [name for name in rankers if not name.startswith("minilm")]
    source = Source(given.half, given.data, given.whole)
    values: dict[str, dict[str, Any]] = {}
    table, missing = _measure_sets(names, rankers, source, given.cache, values)
    print(f"\ncode {code()}, {given.half} data; {', '.join(f'{key} {value}' for key, value in facts('.').items())}")
    print("Only memsheaf decides what it shows; the others show their first five.", *missing)
    if not given.whole:
        print("The public sets are sampled: 3 of LoCoMo's conversations, every fourth question of LongMemEval.")
    print("\n| | set | messages | must | hope |", *(f"{name} |" for name in rankers))
    print("|---|---|--:|--:|--:|" + "--:|" * len(rankers))
    print("\n".join(table), flush=True)
    print("\n| | measured | must | hope |\n|---|--:|--:|--:|")
    for name in (name for name in CHECKS if name in names):
        _report(name)
        for check in CHECKS[name](source, given.cache):
            values[check.title] = {"measured": check.measured, "number": check.number}
            print(f"| {check.title} | {check.measured} | {check.must} | {check.hope} |", flush=True)
    _report("done")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump(values, file, indent=1)
    return 0


def _measure_sets(
    names: Sequence[str], rankers: Sequence[str], source: Source, cache: str, values: dict[str, dict[str, Any]]
) -> tuple[list[str], list[str]]:
    """Return the lines of the table, in its order, and which sets are missing."""
    lines: dict[Row, str] = {}
    missing = []
    for name in (name for name in SETS if name in names):
        _report(name)
        try:
            outcomes = measure(SETS[name](source), rankers, cache)
        except FileNotFoundError as error:
            missing.append(
                f"{name} is not measured: {os.path.basename(error.filename)} is not in --data (see --help)."
            )
            continue
        for row in (row for row in ROWS if row.name == name):
            wanted = {
                ranker: [outcome for outcome in some if not row.kinds or outcome.case.kind in row.kinds]
                for ranker, some in outcomes.items()
            }
            messages = _count(row, next(iter(wanted.values()), []))
            if messages:
                shares = {ranker: row.metric(some) for ranker, some in wanted.items()}
                values[f"{name}: {row.title}"] = {"messages": messages, **shares}
                numbers = " ".join(f"{share:.2f} |" for share in shares.values())
                lines[row] = f"| {row.title} | {name} | {messages:,} | {row.must} | {row.hope} | {numbers}"
    return [lines[row] for row in ROWS if row in lines], missing


def _count(row: Row, outcomes: Outcomes) -> int:
    if row.metric is silence:
        return sum(not outcome.case.gold for outcome in outcomes)
    if row.metric in (average_precision, precision_shown):
        return len(outcomes)
    return sum(bool(outcome.case.gold) for outcome in outcomes)


def _share(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _report(text: str) -> None:
    print(f"[{monotonic() - STARTED:.0f} s] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
