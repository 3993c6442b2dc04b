"""Train `memsheaf.learn.corrections`, and tell how good it is on writers left out.

python training/replacements.py             # writes src/memsheaf/learn/corrections.table; three minutes on one core
python training/replacements.py --try       # only tells: a quarter of the writers is left out in turn
python training/replacements.py --held-out  # only tells what the table makes of held-out.jsonl
python training/replacements.py --clusters  # makes the clusters of words anew first, from the static table

`pairs/*.jsonl` are labelled, one file a writer: `same` is 1 where the newer sentence takes the place of the older
one, 0 where both stay true, 0.3 where it corrects only a part of it. `plain.jsonl` was made from frames and lists of
words, `mined.jsonl` are memories of one person, all of them true. `held-out.jsonl` is never trained on.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
from memsheaf.embed.static import Static
from numpy.typing import NDArray

from memsheaf.learn import corrections
from memsheaf.text import classifier

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(os.path.dirname(corrections.__file__), "corrections.table")
HELD_OUT, MINED, PLAIN = "held-out", "mined", "plain"  # the last two are not by a writer
FOLDS = 4
FINE_CLUSTERS, COARSE_CLUSTERS, CLUSTER_STEPS = 512, 63, 12
STEPS, RATE, DECAY = 150, 0.5, 1e-5  # of the regression
TREES, DEPTH, LEARNING_RATE, SMOOTHING, LEAST_WEIGHT = 300, 4, 0.06, 5.0, 3.0
ROW_SHARE, MEASURE_SHARE, BINS = 0.8, 0.5, 32
NEAR_WEIGHT = 2.5  # of a pair of different facts that is near: to replace one by mistake is worse than to keep both
PLAIN_WEIGHT = 0.5
FALSE_RATES = (0.003, 0.01, 0.03, 0.1)

Numbers = NDArray[Any]


class Pairs(NamedTuple):
    """Labelled pairs, ready to train on. Rows without a shared word are left out: they are never replaced."""

    labels: Numbers
    folds: Numbers
    kinds: Numbers  # MINED, PLAIN, or "" for a writer
    places: list[Numbers]
    measures: Numbers


def read_pairs(with_held_out: bool = False) -> Pairs:
    """Read the pairs of all writers, or those that are held out."""
    labels, folds, kinds, places, rows = [], [], [], [], []
    for number, path in enumerate(sorted(glob.glob(os.path.join(HERE, "pairs", "*.jsonl")))):
        name = os.path.splitext(os.path.basename(path))[0]
        if (name == HELD_OUT) != with_held_out:
            continue
        with open(path, encoding="utf-8") as file:
            pairs = [json.loads(line) for line in file if line.strip()]
        for pair in pairs:
            was, now = corrections.compare(pair["old"], pair["new"])
            labels.append(pair["same"])
            kinds.append(name if name in (MINED, PLAIN) else "")
            folds.append({MINED: zlib.crc32(pair["old"].encode()) % FOLDS, PLAIN: FOLDS}.get(name, number % FOLDS))
            places.append(numpy.array(sorted(corrections.hash_roles(was, now))))
            measured = corrections.measure(was, now, pair["old"], pair["new"])
            is_comparable = any(word.is_content and word.is_shared for word in now)
            rows.append(measured if is_comparable else [numpy.nan] * len(measured))
    return Pairs(numpy.array(labels, float), numpy.array(folds), numpy.array(kinds), places, numpy.array(rows, float))


# the regression


def fit_weights(pairs: Pairs, rows: Numbers) -> NDArray[numpy.int8]:
    """Return the weights of the hashed n-grams: logistic regression with all examples at each step (Adam)."""
    lengths = [len(pairs.places[row]) for row in rows]
    place = numpy.concatenate([pairs.places[row] for row in rows])
    of_row = numpy.repeat(numpy.arange(len(rows)), lengths)
    starts = numpy.cumsum([0, *lengths[:-1]])
    part = 1 / numpy.sqrt(lengths)
    size = 1 << classifier.BITS
    weights, mean, square = (numpy.zeros(size) for _ in range(3))
    for step in range(1, STEPS + 1):
        likely = 1 / (1 + numpy.exp(-numpy.add.reduceat(weights[place], starts) * part))
        wrong = (likely - pairs.labels[rows]) * part / len(rows)
        slope = numpy.bincount(place, wrong[of_row], size) + DECAY * weights
        mean += 0.1 * (slope - mean)
        square += 0.01 * (slope**2 - square)
        spread = numpy.sqrt(square / (1 - 0.99**step)) + 1e-8
        weights -= RATE * (1 - step / (STEPS + 1)) * mean / (1 - 0.9**step) / spread
    return numpy.clip(numpy.rint(weights * classifier.SCALE), -128, 127).astype(numpy.int8)


def hints(pairs: Pairs, rows: Numbers, weights: NDArray[numpy.int8]) -> list[float]:
    """Return what the regression says of some pairs."""
    sums = [int(weights[pairs.places[row]].sum(dtype=int)) for row in rows]
    return [total / (classifier.SCALE * len(pairs.places[row]) ** 0.5) for total, row in zip(sums, rows, strict=True)]


def add_hints(pairs: Pairs, rows: Numbers) -> Numbers:
    """Return the measures of some pairs, each with a hint of a regression that has not seen its writer."""
    hint = numpy.zeros(len(pairs.labels))
    for fold in set(pairs.folds[rows]):
        inside = rows[pairs.folds[rows] == fold]
        hint[inside] = hints(pairs, inside, fit_weights(pairs, rows[pairs.folds[rows] != fold]))
    return numpy.column_stack([pairs.measures[rows], hint[rows]])


# the trees


def fit_trees(values: Numbers, labels: Numbers, weights: Numbers) -> tuple[float, list[corrections.DecisionTree]]:
    """Return the start and the boosted trees: Newton steps of the logistic loss, on shares of rows and measures."""
    random = numpy.random.default_rng(1)
    shares = numpy.linspace(0, 1, BINS + 1)[1:-1]
    limits = [numpy.unique(numpy.quantile(column, shares, method="nearest")) for column in values.T]
    binned = numpy.stack([numpy.searchsorted(each, column) for each, column in zip(limits, values.T, strict=True)], 1)
    base = float(numpy.log((weights * labels).sum() / (weights * (1 - labels)).sum()))
    scores, trees = numpy.full(len(labels), base), []
    for _ in range(TREES):
        likely = 1 / (1 + numpy.exp(-scores))
        slope, bend = weights * (likely - labels), weights * likely * (1 - likely)
        rows = numpy.flatnonzero(random.random(len(labels)) < ROW_SHARE)
        some = numpy.sort(random.choice(values.shape[1], int(values.shape[1] * MEASURE_SHARE), replace=False))
        node = numpy.zeros(len(labels), int)
        measures: list[int] = []
        bounds: list[float] = []
        for level in range(DEPTH):
            width, cells = 1 << level, len(some) * BINS
            cell = (node[rows, None] * cells + binned[rows[:, None], some] + numpy.arange(len(some)) * BINS).ravel()
            shape = (width, len(some), BINS)
            left_slope, left_bend = (
                numpy.bincount(cell, numpy.repeat(each[rows], len(some)), width * cells).reshape(shape).cumsum(2)
                for each in (slope, bend)
            )
            all_slope, all_bend = left_slope[:, :1, -1:], left_bend[:, :1, -1:]
            right_slope, right_bend = all_slope - left_slope, all_bend - left_bend
            gain = left_slope**2 / (left_bend + SMOOTHING) + right_slope**2 / (right_bend + SMOOTHING)
            gain -= all_slope**2 / (all_bend + SMOOTHING)
            gain[(left_bend < LEAST_WEIGHT) | (right_bend < LEAST_WEIGHT)] = 0
            best = gain.reshape(width, -1).argmax(1)
            is_split = gain.reshape(width, -1).max(1) > 0
            chosen, bound = some[best // BINS], numpy.where(is_split, best % BINS, BINS)
            measures += [int(each) for each in chosen]
            for measure, at in zip(chosen, bound, strict=True):
                bounds.append(float(limits[measure][at]) if at < len(limits[measure]) else 1e9)
            node = 2 * node + (binned[numpy.arange(len(labels)), chosen[node]] > bound[node])
        leaves = 1 << DEPTH
        down, curve = (numpy.bincount(node[rows], each[rows], leaves) for each in (slope, bend))
        values_of_leaves = numpy.round(-LEARNING_RATE * down / (curve + SMOOTHING), 4)
        trees.append(
            corrections.DecisionTree(measures, [round(each, 6) for each in bounds], values_of_leaves.tolist())
        )
        scores += values_of_leaves[node]
    return base, trees


def score(base: float, trees: Sequence[corrections.DecisionTree], values: Numbers) -> Numbers:
    """Return what the trees say of some pairs, before the logistic function."""
    scores = numpy.full(len(values), base)
    for tree in trees:
        measures, limits = numpy.array(tree.measures), numpy.array(tree.limits)
        node = numpy.zeros(len(values), int)
        for _ in range(DEPTH):
            node = 2 * node + 1 + (values[numpy.arange(len(values)), measures[node]] > limits[node])
        scores += numpy.array(tree.leaves)[node - len(measures)]
    return scores


def train(pairs: Pairs, rows: Numbers) -> tuple[float, list[corrections.DecisionTree], NDArray[numpy.int8]]:
    """Return the start, the trees and the weights that some pairs give."""
    rows = rows[~numpy.isnan(pairs.measures[rows, 0])]
    weights = numpy.where((pairs.labels[rows] == 0) & (pairs.kinds[rows] == ""), NEAR_WEIGHT, 1.0)
    weights[pairs.kinds[rows] == PLAIN] = PLAIN_WEIGHT
    base, trees = fit_trees(add_hints(pairs, rows), pairs.labels[rows], weights)
    return base, trees, fit_weights(pairs, rows)


def judge(
    pairs: Pairs, rows: Numbers, base: float, trees: list[corrections.DecisionTree], weights: Numbers
) -> Numbers:
    """Return how likely each pair is a correction."""
    values = numpy.column_stack([pairs.measures[rows], hints(pairs, rows, weights)])
    likely = 1 / (1 + numpy.exp(-score(base, trees, values)))
    return numpy.where(numpy.isnan(pairs.measures[rows, 0]), 0.0, likely)


def tell(name: str, pairs: Pairs, rows: Numbers, likely: Numbers) -> None:
    """Print how many replacements are found where so many different facts are taken for one."""
    written, mined = pairs.kinds[rows] == "", pairs.kinds[rows] == MINED
    labels = numpy.where(written, pairs.labels[rows], -1)
    near = numpy.sort(likely[labels == 0])[::-1]
    print(f"{name}: {(labels == 1).sum()} replacements, {len(near)} near facts, {mined.sum()} mined")
    limits = [numpy.nextafter(near[int(rate * len(near))], 1) for rate in FALSE_RATES]
    for limit in (*limits, corrections.REPLACE_FROM, corrections.LINK_FROM):
        false = numpy.mean(near >= limit)
        whole, part, far = (
            (likely[each] >= limit).sum() / max(1, each.sum())
            for each in (labels == 1, (labels > 0) & (labels < 1), mined)
        )
        print(f"  from {limit:.3f}, false {false:.4f}: found {whole:.3f}, in part {part:.3f}, mined {far:.4f}")


# the clusters of words


def make_clusters() -> NDArray[numpy.uint16]:
    """Return the cluster of each hashed word of the static table: spherical k-means, twice."""
    arrays = Static()._load()  # the table as it is stored
    words, rows, _ = arrays
    vocabulary = words._numbers
    starts, pieces = vocabulary._starts, bytes(vocabulary._pieces)
    names = [pieces[starts[at] : starts[at + 1]].decode("utf-8", "replace") for at in range(len(starts) - 1)]
    numbers = [at for at, name in enumerate(names) if len(name) > 1 and name.isalpha()]
    packed = numpy.asarray(rows[numbers])
    vectors = numpy.stack((packed & 15, packed >> 4), axis=2).reshape(len(numbers), -1).astype(numpy.float32) - 8
    vectors /= numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
    fine, centres = find_means(vectors, FINE_CLUSTERS)
    coarse, _ = find_means(centres, COARSE_CLUSTERS)
    codes = {
        number: (int(coarse[at]) + 1) << corrections.COARSE_SHIFT | int(at)
        for number, at in zip(numbers, fine, strict=True)
    }
    clusters = numpy.zeros(1 << corrections.CLUSTER_BITS, numpy.uint16)
    others = words._others
    foreign_starts, foreign_pieces = others._starts, bytes(others._pieces)
    foreign = [
        (foreign_pieces[foreign_starts[at] : foreign_starts[at + 1]].decode("utf-8", "replace"), words._english[at])
        for at in range(len(foreign_starts) - 1)
    ]
    for name, number in [*foreign, *((names[number], number) for number in reversed(numbers))]:
        if number in codes:
            clusters[zlib.crc32(name.encode()) >> (32 - corrections.CLUSTER_BITS)] = codes[number]
    return clusters


def find_means(vectors: Numbers, count: int) -> tuple[Numbers, Numbers]:
    """Return the cluster of each vector, and the centres."""
    random = numpy.random.default_rng(1)
    centres = vectors[random.choice(len(vectors), count, replace=False)]
    for _ in range(CLUSTER_STEPS):
        nearest = (vectors @ centres.T).argmax(1)
        sums = numpy.zeros_like(centres)
        numpy.add.at(sums, nearest, vectors)
        length = numpy.linalg.norm(sums, axis=1, keepdims=True)
        centres = numpy.where(length > 0, sums / numpy.maximum(length, 1e-9), centres)
    return (vectors @ centres.T).argmax(1), centres


def write(
    base: float, trees: list[corrections.DecisionTree], weights: NDArray[numpy.int8], clusters: Numbers
) -> None:
    """Write the table as `memsheaf.learn.corrections` reads it."""
    line = json.dumps({"base": round(base, 4), "trees": trees}, separators=(",", ":"))
    with open(TABLE, "wb") as file:
        file.write(line.encode() + b"\n" + weights.tobytes() + clusters.astype("<u2").tobytes())
    corrections.load_table.cache_clear()


def main(arguments: Sequence[str] | None = None) -> None:
    """Train or tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--try", action="store_true", dest="trial", help="only tell, with writers left out")
    parser.add_argument("--held-out", action="store_true", help="only tell what the table makes of held-out.jsonl")
    parser.add_argument("--clusters", action="store_true", help="make the clusters of words anew")
    options = parser.parse_args(arguments)
    if options.clusters:
        write(0.0, [], numpy.zeros(1 << classifier.BITS, numpy.int8), make_clusters())
    pairs = read_pairs(with_held_out=options.held_out)
    everything = numpy.arange(len(pairs.labels))
    table = corrections.load_table()
    if options.held_out:
        likely = judge(pairs, everything, table.base, table.trees, numpy.array(table.weights))
        tell(HELD_OUT, pairs, everything, likely)
    elif options.trial:
        likely = numpy.zeros(len(pairs.labels))
        for fold in range(FOLDS):
            inside = pairs.folds == fold
            likely[inside] = judge(pairs, everything[inside], *train(pairs, everything[~inside]))
        tell("writers left out", pairs, everything, likely)
    else:
        write(*train(pairs, everything), numpy.array(table.clusters))


if __name__ == "__main__":
    main()
