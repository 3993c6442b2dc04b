"""Train a reader: mpnet, which reads a message and a memory side by side, to teach the encoder what matters for what.

    python training/reader.py WORK --out reader-0 --fold 0     # writes WORK/reader-0.npz; then folds 1 and 2

A reader is too slow to be shipped: it reads every memory anew for every message. Each of three readers learns from
two thirds of the English training worlds. Its file has its scores for each message and memory of the other third,
which it has not seen: `encoder.py tune --readers` learns from them.
"""

from __future__ import annotations

import argparse
import math
import os
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from encoder import DEVICE, Encoder, average_precision, cycle, is_foreign, key_of, load, origin_of, say, top_five
from torch import Tensor, nn
from torch.nn import functional as F

import data

SEED = 20261119
FOLDS = 3
WORLDS_PER_STEP = 1
MAX_PAIR_TOKENS = 160
PAIRS_AT_ONCE = 2048
PAIRS_IN_STEP = 128


class Reader(nn.Module):
    """A score for a message and a memory: mpnet over both, then one linear layer."""

    def __init__(self, work: str) -> None:
        super().__init__()
        self.encoder: Encoder = load(work, "mpnet")
        self.score = nn.Linear(self.encoder.model.config.hidden_size, 1).to(DEVICE)

    def forward(self, messages: Sequence[str], memories: Sequence[str]) -> Tensor:
        """Return the score of each pair; pairs of about one length go together, so that little is padded."""
        tokens = self.encoder.tokens(messages, memories, MAX_PAIR_TOKENS)
        order = sorted(range(len(tokens)), key=lambda place: len(tokens[place][0]))
        pooled = []
        for start in range(0, len(order), PAIRS_IN_STEP):
            places = order[start : start + PAIRS_IN_STEP]
            pooled.append(self.encoder.pool([tokens[place] for place in places]))
        scores: Tensor = self.score(torch.cat(pooled)).squeeze(1)
        return scores[torch.tensor(np.argsort(order), device=DEVICE)]

    @torch.no_grad()
    def all_scores(self, world: dict[str, Any]) -> np.ndarray:
        """Return the score of each message with each memory."""
        self.eval()
        pairs = [(message["text"], memory["text"]) for message in world["messages"] for memory in world["memories"]]
        scores = []
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            messages, memories = zip(*pairs[start : start + PAIRS_AT_ONCE], strict=True)
            scores.append(self(messages, memories).float().cpu().numpy())
        return np.concatenate(scores).reshape(len(world["messages"]), len(world["memories"]))


def truth_of(world: dict[str, Any]) -> np.ndarray:
    """Return which memory each message needs."""
    return np.array(
        [[memory["id"] in each["relevant"] for memory in world["memories"]] for each in world["messages"]]
    )


def world_loss(reader: Reader, worlds: Sequence[dict[str, Any]], positive: float) -> Tensor:
    """Return how badly the reader tells what each message of some worlds needs."""
    pairs = [
        (message["text"], memory["text"], world)
        for world in worlds
        for message in world["messages"]
        for memory in world["memories"]
    ]
    scores = reader([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    loss, place = torch.zeros((), device=DEVICE), 0
    for world in worlds:
        truth = torch.from_numpy(truth_of(world).astype(np.float32)).to(DEVICE)
        of_world = scores[place : place + truth.numel()].view_as(truth)
        place += truth.numel()
        entropy = F.binary_cross_entropy_with_logits(of_world, truth, reduction="none")
        weight = 1 + (positive - 1) * truth
        loss = loss + 2 * (entropy * weight).sum() / weight.sum()
        has = truth.sum(1) > 0
        order = -(torch.log_softmax(of_world[has], 1) * truth[has]).sum(1) / truth[has].sum(1)
        loss = loss + 0.3 * order.mean()
    return loss / len(worlds)


def train(work: str, options: argparse.Namespace) -> None:
    """Learn from two thirds of the English training worlds, report, and save the scores of the others."""
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    reader = Reader(work)
    english = [world for world in data.worlds("training") if not is_foreign(world)]
    worlds = [world for place, world in enumerate(english) if place % FOLDS != options.fold]
    others = english[options.fold :: FOLDS]
    optimizer = torch.optim.AdamW(reader.parameters(), lr=options.rate, weight_decay=0.01)
    steps = options.epochs * math.ceil(len(worlds) / WORLDS_PER_STEP)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.rate, total_steps=steps + 1, pct_start=0.1)
    batches = cycle(worlds, WORLDS_PER_STEP, rng)
    for step in range(steps):
        reader.train()
        loss = world_loss(reader, next(batches), options.positive)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            say(f"{options.out}: step {step} of {steps}, loss {loss.item():.3f}")
    report(options.out, reader)
    scores = {key_of(world): reader.all_scores(world) for world in others}
    np.savez(os.path.join(work, f"{options.out}.npz"), **scores)


def report(name: str, reader: Reader) -> None:
    """Print average precision on development worlds, where at most five memories are shown for each message."""
    groups: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    ranks: dict[str, list[float]] = {}
    for world in data.worlds("development"):
        scores, truth = reader.all_scores(world), truth_of(world)
        is_shown = np.zeros_like(truth)
        np.put_along_axis(is_shown, np.argsort(-scores, 1)[:, :5], True, 1)
        for key in (origin_of(world["file"]), "foreign" if is_foreign(world) else "english", "all"):
            groups.setdefault(key, []).append((np.where(is_shown, scores, -99.0).ravel(), truth.ravel()))
            ranks.setdefault(key, []).extend(top_five(scores, truth))
    for key in sorted(groups):
        scores, gold = (np.concatenate(each) for each in zip(*groups[key], strict=True))
        average, recalls = average_precision(scores, gold)
        at = " ".join(f"{recall:.2f}" for recall in recalls)
        say(f"{name}: {key:8} AP {average:.3f}, recall at P .5/.55/.6 {at}, R@5 {np.mean(ranks[key]):.3f}")


def main() -> None:
    """Train one of the readers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("--out", default="reader")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--fold", type=int, choices=range(FOLDS), required=True, help="the third that is left out")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=2e-5)
    parser.add_argument("--positive", type=float, default=3.0)
    options = parser.parse_args()
    train(options.work, options)


if __name__ == "__main__":
    main()
