"""Set the numbers that say how likely a memory matters: in `needs.npy`, `encode/encoder.py` and `index/scoring.py`.

    python training/calibrate.py                  # ten minutes on two cores; prints the fit and a table of thresholds
    python training/calibrate.py --save OUT       # writes OUT/needs.npy, too

The first fit is on vectors of messages of the training part: does a message need any memory? Then every development
world is a folder of memories, and every message is searched there as recall does it, beside some messages of another
world, which need nothing here. A logistic regression over the cosine, its distance to the nearest one's, the words
in common and the answer of the first fit gives the weights; the table says what is shown from which threshold on.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import data
from memsheaf.config import Settings
from memsheaf.encode import Calibration
from memsheaf.encode.encoder import BuiltInEncoder
from memsheaf.index import scoring, search
from memsheaf.index.lexical import WordHit
from memsheaf.memory import compose
from memsheaf.sheaf import Sheaf
from memsheaf.text.sentences import make_description, make_name

MAX_SHOWN = 5
MAX_CHARS = 2_000  # of a message, as in recall
FOREIGN_MESSAGES = 8
SEED = 7

Array = NDArray[Any]


class Sample(NamedTuple):
    """A message and a memory: which message, what is known of both, and whether the memory matters.

    `gap` is how far the cosine is below that of the nearest memory.
    """

    message: int
    matters: bool
    cosine: float
    gap: float
    share: float
    need: float


class Recorder:
    """Takes the place of `score_by_both`, and remembers what it was given."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []
        self.original = scoring.score_by_both

    def __call__(self, hit: WordHit, cosine: float, calibration: Calibration) -> scoring.Score:
        """Score as usual, with the number of the sample as score."""
        score = self.original(hit, cosine, calibration)
        self.seen.append((cosine, min(1.0, hit.share)))
        return score._replace(score=float(len(self.seen) - 1))


def fit_needs(encode: Callable[[Sequence[str]], Array], count: int) -> Array:
    """Return the weights and the bias that say of the vector of a message whether it needs a memory."""
    messages = [message for world in data.worlds("training") for message in world["messages"]]
    Random(SEED).shuffle(messages)
    vectors = encode([message["text"][-MAX_CHARS:] for message in messages[:count]])
    wanted = np.array([bool(message["relevant"]) for message in messages[:count]], float)
    return regress(np.c_[vectors, np.ones(len(vectors))], wanted, ridge=1.0)


def collect(
    worlds: Sequence[dict], needs: Array, encode: Callable[[Sequence[str]], Array]
) -> tuple[list[Sample], list[bool]]:
    """Search each message of each world; return the samples, and which messages need something there."""
    recorder = Recorder()
    search.score_by_both = recorder
    samples, has_gold = [], []
    for number, world in enumerate(worlds):
        with (
            tempfile.TemporaryDirectory() as home,
            Sheaf.open("user", settings=Settings(home=home, cache=os.path.join(home, "cache"))) as sheaf,
        ):
            os.makedirs(sheaf.own.store.root, exist_ok=True)
            for memory in world["memories"]:
                text = memory["text"]
                made = compose(
                    name=make_name(text),
                    description=make_description(text),
                    kind=memory["type"],
                    body=text,
                    created="2026-11-01",
                    updated="2026-11-01",
                )
                with open(os.path.join(sheaf.own.store.root, f"{memory['id']}.md"), "w", encoding="utf-8") as file:
                    file.write(made.text)
            sheaf.own.index.look()
            sheaf.own.index.embed_all()
            elsewhere = worlds[number - len(worlds) // 2]["messages"]
            foreign = [{**message, "relevant": []} for message in elsewhere if message["relevant"]][:FOREIGN_MESSAGES]
            for message in (*world["messages"], *foreign):
                recorder.seen.clear()
                text = message["text"][-MAX_CHARS:]
                matches = [match for match in sheaf.own.matches(text, limit=50) if match.near]
                need = float(encode([text])[0] @ needs[:-1] + needs[-1])
                nearest = max((match.near for match in matches), default=0.0)
                for match in matches:
                    cosine, share = recorder.seen[int(match.score)]
                    matters = int(match.row.path[:-3]) in message["relevant"]
                    samples.append(Sample(len(has_gold), matters, cosine, nearest - cosine, share, need))
                has_gold.append(bool(message["relevant"]))
    return samples, has_gold


def regress(features: Array, wanted: Array, ridge: float, steps: int = 25) -> Array:
    """Return the weights of a logistic regression, by Newton's method."""
    weights = np.zeros(features.shape[1])
    for _ in range(steps):
        likely = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (likely - wanted) + ridge * weights
        curve = features.T @ (features * (likely * (1 - likely))[:, None]) + ridge * np.eye(len(weights))
        weights -= np.linalg.solve(curve, slope)
    return weights


def show(samples: Sequence[Sample], has_gold: Sequence[bool], likely: Array) -> None:
    """Print what is shown from which threshold on, with at most five and none far below the best."""
    by_message: dict[int, list[tuple[float, bool]]] = {}
    for sample, chance in zip(samples, likely, strict=True):
        by_message.setdefault(sample.message, []).append((chance, sample.matters))
    total = sum(sample.matters for sample in samples)
    for share in (0.35, 0.5, 0.65):
        for threshold in (0.2, 0.24, 0.26, 0.28, 0.3, 0.32, 0.36, 0.4):
            shown = right = quiet = 0
            for number, pairs in by_message.items():
                pairs = sorted(pairs, reverse=True)[:MAX_SHOWN]
                kept = [matters for chance, matters in pairs if chance >= max(threshold, share * pairs[0][0])]
                shown += len(kept)
                right += sum(kept)
                quiet += not kept and not has_gold[number]
            silent = quiet / max(1, len(has_gold) - sum(has_gold))
            line = (
                f"share {share} from {threshold}: precision {right / max(1, shown):.3f}, recall {right / total:.3f}"
            )
            print(f"{line}, silent {silent:.3f}")


def main() -> None:
    """Fit on development worlds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=7_000, help="of the training part (default %(default)s)")
    parser.add_argument("--save", default="", help="a folder for needs.npy")
    options = parser.parse_args()
    os.environ.setdefault("TMPDIR", "/dev/shm")
    encode = BuiltInEncoder().encode
    needs = fit_needs(encode, options.messages)
    samples, has_gold = collect(data.worlds("development"), needs, encode)
    table = np.array(samples, float)
    features = np.c_[table[:, 2:], np.ones(len(table))]
    weights = regress(features, table[:, 1], ridge=0.1)
    cosine, gap, share, need, bias = weights
    print(f"{len(has_gold)} messages, {len(samples)} pairs")
    print(f"cosine {cosine:.2f}, gap {-gap:.2f}, words {share:.2f}, need {need:.3f}, bias {bias:.2f}")
    show(samples, has_gold, 1 / (1 + np.exp(-features @ weights)))
    if options.save:
        folded = need * needs + np.append(np.zeros(len(needs) - 1), bias)
        np.save(os.path.join(options.save, "needs.npy"), folded.astype(np.float32))


if __name__ == "__main__":
    main()
