"""Set the numbers of `memsheaf.index.scoring` on development worlds: what a cosine and shared words say of a memory.

    python training/calibrate.py                  # two minutes on two cores; prints the fit and a table of thresholds
    python training/calibrate.py --part test      # what was kept aside, once at the end

Every world is a folder of memories, and every message is searched there as recall does it. A logistic regression over
cosine and shared words gives the scale, the bias and the weight of words; the table says what is shown from which
threshold on.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import data
from memsheaf.config import Settings
from memsheaf.encode import Calibration
from memsheaf.index import scoring, search
from memsheaf.index.lexical import WordHit
from memsheaf.memory import compose
from memsheaf.sheaf import Sheaf
from memsheaf.text.sentences import make_description, make_name

MAX_SHOWN = 5


class Sample(NamedTuple):
    """A message and a memory: which message, the cosine, the share of words, and whether the memory matters."""

    message: int
    cosine: float
    share: float
    matters: bool


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


def collect(worlds: Sequence[dict]) -> tuple[list[Sample], list[bool]]:
    """Search each message of each world; return the samples, and which messages need something."""
    recorder = Recorder()
    search.score_by_both = recorder
    samples, needs = [], []
    for world in worlds:
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
            for message in world["messages"]:
                recorder.seen.clear()
                for match in sheaf.own.matches(message["text"][-2000:], limit=50):
                    cosine, share = recorder.seen[int(match.score)] if match.near else (0.0, 0.0)
                    samples.append(Sample(len(needs), cosine, share, int(match.row.path[:-3]) in message["relevant"]))
                needs.append(bool(message["relevant"]))
    return samples, needs


def fit(samples: Sequence[Sample], steps: int = 400) -> np.ndarray:
    """Logistic regression by Newton's method: weights of the cosine, of the shared words, and a bias."""
    features = np.array([[sample.cosine, sample.share, 1.0] for sample in samples])
    wanted = np.array([sample.matters for sample in samples], float)
    weights = np.zeros(3)
    for _ in range(min(steps, 40)):
        likely = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (likely - wanted) + 1e-3 * weights
        curve = features.T @ (features * (likely * (1 - likely))[:, None]) + 1e-3 * np.eye(3)
        weights -= np.linalg.solve(curve, slope)
    return weights


def show(samples: Sequence[Sample], needs: Sequence[bool], weights: np.ndarray) -> None:
    """Print what is shown from which threshold on, with at most five and none far below the best."""
    likely = [1 / (1 + np.exp(-(weights @ [sample.cosine, sample.share, 1.0]))) for sample in samples]
    by_message: dict[int, list[tuple[float, bool]]] = {}
    for sample, chance in zip(samples, likely, strict=True):
        by_message.setdefault(sample.message, []).append((chance, sample.matters))
    total = sum(sample.matters for sample in samples)
    for share in (0.35, 0.5, 0.65):
        for threshold in (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5):
            shown = right = quiet = 0
            for number, pairs in by_message.items():
                pairs = sorted(pairs, reverse=True)[:MAX_SHOWN]
                kept = [matters for chance, matters in pairs if chance >= max(threshold, share * pairs[0][0])]
                shown += len(kept)
                right += sum(kept)
                quiet += not kept and not needs[number]
            silent = quiet / max(1, len(needs) - sum(needs))
            line = (
                f"share {share} from {threshold}: precision {right / max(1, shown):.3f}, recall {right / total:.3f}"
            )
            print(f"{line}, silent {silent:.3f}")


def main() -> None:
    """Fit on development worlds, or show another part with today's numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="development")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--save", default="")
    options = parser.parse_args()
    os.environ.setdefault("TMPDIR", "/dev/shm")
    samples, needs = collect(data.worlds(options.part)[:: options.every])
    if options.save:
        np.save(options.save, np.array(samples, float))
    weights = fit(samples)
    print(f"{len(needs)} messages, {len(samples)} pairs")
    print(f"cosine {weights[0]:.2f}, words {weights[1]:.2f}, bias {weights[2]:.2f}")
    show(samples, needs, weights)


if __name__ == "__main__":
    main()
