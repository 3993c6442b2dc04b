"""Train `memsheaf.encode.replacement`, and tell how good it is on writers left out.

    python training/replacements.py WORK              # writes src/memsheaf/encode/replacement.npz
    python training/replacements.py WORK --try        # only tells: a quarter of the writers is left out in turn
    python training/replacements.py WORK --held-out   # only tells of held-out.jsonl: once, at the end

The vectors of all sentences are made once and kept in WORK: five minutes on one core; training takes a minute. Of
`pairs/*.jsonl`, `plain` was made from frames and is always trained on, `mined` are near memories of one person.
"""

from __future__ import annotations

import argparse
import json
import os
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

import data
from memsheaf.encode import built_in
from memsheaf.encode.replacement import WEIGHTS_FILE, combine

FOLDS = 4
HIDDEN = 128
DROPOUT = 0.3
EPOCHS = 8
BATCH = 256
RATE, DECAY = 1e-3, 0.02
NEAR_WEIGHT = 2.0  # of a pair of different facts that is near: to replace one by mistake is worse than to keep both
PLAIN_WEIGHT = 0.5  # of a pair made from frames
FALSE_RATES = (0.003, 0.01, 0.03, 0.1)
SEED = 20261118

Floats = NDArray[np.float32]


class Pair(NamedTuple):
    """An older and a newer sentence; the newer one replaces it as a whole (1), in part (.3) or not (0)."""

    file: str
    same: float
    old: str
    new: str

    @property
    def weight(self) -> float:
        """Return how much the pair counts in training."""
        if self.file in data.GENERATED:
            return PLAIN_WEIGHT if self.file == "plain" else 1.0
        return NEAR_WEIGHT if self.same == 0 else 1.0


def read_pairs() -> list[Pair]:
    """Return the pairs of all files; those of "held-out" are kept aside."""
    pairs = []
    for part in ("training", "development", "test"):
        for path in data.files("pairs", part, "jsonl"):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    pair = json.loads(line)
                    pairs.append(Pair(os.path.basename(path)[:-6], pair["same"], pair["old"], pair["new"]))
    return pairs


def read_vectors(work: str, texts: Sequence[str]) -> dict[str, Floats]:
    """Return the vector of each text; those that were made before are read from a folder."""
    path = os.path.join(work, "vectors.npz")
    known: list[str] = []
    rows = np.zeros((0, 384), np.float32)
    if os.path.exists(path):
        with np.load(path) as file:
            known, rows = json.loads(str(file["texts"])), file["rows"]
    if missing := sorted(set(texts) - set(known)):
        encoder = built_in()
        assert encoder is not None
        known, rows = known + missing, np.concatenate([rows, encoder.encode(missing)])
        np.savez(path, texts=json.dumps(known), rows=rows)
    return dict(zip(known, rows, strict=True))


def features_of(pairs: Sequence[Pair], vectors: dict[str, Floats]) -> Floats:
    """Return what is judged of each pair, one row each."""
    before, after = (np.stack([vectors[pair[place]] for pair in pairs]) for place in (2, 3))
    return combine(before, after)


def fold_of(pair: Pair, files: Sequence[str]) -> int:
    """Return the fold in which a pair is left out; FOLDS for one that never is."""
    if pair.file == "plain":
        return FOLDS
    return zlib.crc32(pair.old.encode()) % FOLDS if pair.file == "mined" else files.index(pair.file) % FOLDS


def train(features: Floats, pairs: Sequence[Pair]) -> nn.Sequential:
    """Return the trained layers."""
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    inputs = torch.from_numpy(features)
    labels = torch.tensor([float(pair.same == 1) for pair in pairs])
    weights = torch.tensor([pair.weight for pair in pairs])
    layers = nn.Sequential(
        nn.Dropout(DROPOUT),
        nn.Linear(inputs.shape[1], HIDDEN),
        nn.ReLU(),
        nn.Dropout(DROPOUT),
        nn.Linear(HIDDEN, 1),
    )
    optimizer = torch.optim.AdamW(layers.parameters(), lr=RATE, weight_decay=DECAY)
    steps = EPOCHS * -(-len(pairs) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for _ in range(EPOCHS):
        for rows in torch.from_numpy(rng.permutation(len(pairs))).split(BATCH):
            scores = layers(inputs[rows])[:, 0]
            loss = F.binary_cross_entropy_with_logits(scores, labels[rows], weights[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return layers.eval()


@torch.no_grad()
def judge(layers: nn.Sequential, features: Floats) -> Floats:
    """Return how likely each pair is a replacement."""
    likely: Floats = torch.sigmoid(layers(torch.from_numpy(features))[:, 0]).numpy()
    return likely


def tell(pairs: Sequence[Pair], likely: Floats) -> None:
    """Print how many replacements are found where so many different facts are taken for one."""
    written = np.array([pair.file not in data.GENERATED for pair in pairs])
    same = np.array([pair.same for pair in pairs])
    near = np.sort(likely[written & (same == 0)])[::-1]
    print(f"{(written & (same == 1)).sum()} replacements, {len(near)} near facts")
    for rate in FALSE_RATES:
        limit = near[int(rate * len(near))]
        kinds = {
            "replaced": written & (same == 1),
            "in part": written & (same == 0.3),
            "mined": ~written & (same == 0),
        }
        shares = [f"{kind} {(likely[rows] > limit).mean():.4f}" for kind, rows in kinds.items() if rows.any()]
        print(f"  from {limit:.3f}, false {rate}: {', '.join(shares)}")


def main() -> None:
    """Train, or tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("--try", action="store_true", dest="trial", help="leave writers out, and tell")
    parser.add_argument("--held-out", action="store_true", help="tell of what was kept aside")
    options = parser.parse_args()
    torch.set_num_threads(1)
    every = read_pairs()
    vectors = read_vectors(options.work, [text for pair in every for text in (pair.old, pair.new)])
    kept_aside = [pair for pair in every if pair.file == "held-out"]
    pairs = [pair for pair in every if pair.file != "held-out"]
    features = features_of(pairs, vectors)
    if options.trial:
        files = sorted({pair.file for pair in pairs})
        folds = np.array([fold_of(pair, files) for pair in pairs])
        likely = np.zeros(len(pairs), np.float32)
        for fold in range(FOLDS):
            outside = [pair for pair, number in zip(pairs, folds, strict=True) if number != fold]
            likely[folds == fold] = judge(train(features[folds != fold], outside), features[folds == fold])
        tell(pairs, likely)
        return
    layers = train(features, pairs)
    if options.held_out:
        tell(kept_aside, judge(layers, features_of(kept_aside, vectors)))
        return
    arrays = {
        "hidden": layers[1].weight.T,
        "hidden_bias": layers[1].bias,
        "out": layers[4].weight.T,
        "out_bias": layers[4].bias,
    }
    halves = {name: tensor.detach().numpy().astype(np.float16) for name, tensor in arrays.items()}
    np.savez_compressed(WEIGHTS_FILE, **halves)


if __name__ == "__main__":
    main()
