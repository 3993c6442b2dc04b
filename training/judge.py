"""Train the judge: a transformer that reads two texts side by side and decides what to remember.

    python training/judge.py train WORK --out NAME [--all]     # 40 minutes on two cores, without an accelerator
    python training/judge.py measure WORK NAME [--part test]

It answers three questions: of which type is a sentence, if it is worth keeping at all, read behind what was said
before it; is it about the person or about the work; and does a sentence take the place of an older one. It begins
with the layers and word vectors of the encoder (`src/memsheaf/encode/encoder.onnx`). The word vectors and the first
layers stay as they are: the package holds the word vectors once, and training is quicker.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel

import data

STARTED = time.time()
SEED = 20261119
ENCODER = os.path.join(data.HERE, "..", "src", "memsheaf", "encode")
MAX_TOKENS = 96
LAYERS = 6
TASKS = {"types": len(data.SENTENCES), "scopes": len(data.SCOPES), "replaces": len(data.REPLACES)}
TASK_WEIGHT = {"types": 1.0, "scopes": 0.5, "replaces": 1.5}
NO_CONTEXT_SHARE = 0.3  # of sentences that are learned without what was said before them
BATCH = 48
BATCHES_SORTED = 16  # by length, together, so that little is padded
NOT_LABELLED = -100
PASSING_MESSAGES = "TGC"  # small talk, general questions, commands of the moment: nothing to keep
FALSE_RATES = (0.005, 0.01, 0.03)

Array = NDArray[np.float32]


def say(*words: object) -> None:
    """Print with the seconds since the start."""
    print(f"[{time.time() - STARTED:.0f}s]", *words, flush=True)


class Row(NamedTuple):
    """Two texts, the older first, and the label of each task that it has one for."""

    before: str
    text: str
    labels: dict[str, int]


class Judge(nn.Module):
    """The encoder's layers over two texts, and a linear head on the mean token vector for each task."""

    def __init__(self, frozen: int) -> None:
        super().__init__()
        arrays = read_arrays(os.path.join(ENCODER, "encoder.onnx"))
        self.model = make_model(arrays)
        self.tokenizer = Tokenizer.from_file(os.path.join(ENCODER, "tokenizer.json"))
        self.dropout = nn.Dropout(0.1)
        self.heads = nn.ModuleDict(
            {task: nn.Linear(self.model.config.hidden_size, size) for task, size in TASKS.items()}
        )
        self.model.embeddings.requires_grad_(False)
        for layer in self.model.encoder.layer[:frozen]:
            layer.requires_grad_(False)

    def tokens(self, before: str, text: str) -> tuple[list[int], list[int]]:
        """Return token and type ids of two texts; of a long first one its end is read."""
        encoding = self.tokenizer.encode(before, text)
        ids, types = encoding.ids, encoding.type_ids
        excess = max(0, len(ids) - MAX_TOKENS)
        return ids[:1] + ids[1 + excess :], types[:1] + types[1 + excess :]

    def pool(self, tokens: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        """Return the mean token vector of each pair."""
        packed = torch.zeros((3, len(tokens), max(len(ids) for ids, _ in tokens)), dtype=torch.int64)
        for row, (ids, types) in enumerate(tokens):
            packed[0, row, : len(ids)] = torch.tensor(ids)
            packed[1, row, : len(ids)] = torch.tensor(types)
            packed[2, row, : len(ids)] = 1
        ids, types, mask = packed
        hidden = self.model(input_ids=ids, token_type_ids=types, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).float()
        return (hidden * weight).sum(1) / weight.sum(1)

    def forward(self, tokens: Sequence[tuple[list[int], list[int]]]) -> dict[str, Tensor]:
        """Return the scores of each class of each task."""
        pooled = self.dropout(self.pool(tokens))
        return {task: head(pooled) for task, head in self.heads.items()}

    @torch.no_grad()
    def likely(self, task: str, rows: Sequence[data.Labelled]) -> Array:
        """Return the probabilities of each class of a task."""
        self.eval()
        tokens = [self.tokens(row.other, row.text) for row in rows]
        order = sorted(range(len(rows)), key=lambda place: len(tokens[place][0]))
        likely = np.zeros((len(rows), TASKS[task]), np.float32)
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            likely[places] = torch.softmax(self([tokens[place] for place in places])[task], 1).numpy()
        return likely


def read_arrays(path: str) -> dict[str, NDArray[np.generic]]:
    """Return the constants of a graph by name."""
    return {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}


def make_model(arrays: dict[str, NDArray[np.generic]]) -> BertModel:
    """Return a model with the weights that `export.py` wrote into a graph."""
    vocabulary, width = arrays["rows"].shape
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=LAYERS,
        num_attention_heads=12,
        intermediate_size=4 * width,
        max_position_embeddings=len(arrays["pos"]),
    )
    model = BertModel(config, add_pooling_layer=False)
    state = model.state_dict()

    def put(name: str, value: NDArray[np.generic]) -> None:
        assert state[name].shape == value.shape, (name, value.shape)
        state[name] = torch.from_numpy(value.astype(np.float32).copy())

    def read_linear(name: str) -> tuple[Array, NDArray[np.generic]]:
        zero, scale = (arrays[f"{name}.w_{part}"].astype(np.float32) for part in ("zero_point", "scale"))
        return ((arrays[f"{name}.w_quantized"].astype(np.float32) - zero) * scale).T, arrays[f"{name}.bias"]

    put("embeddings.word_embeddings.weight", arrays["rows"].astype(np.float32) * arrays["row_scale"])
    put("embeddings.position_embeddings.weight", arrays["pos"])
    put("embeddings.token_type_embeddings.weight", arrays["types"])
    put("embeddings.LayerNorm.weight", arrays["h0.g"])
    put("embeddings.LayerNorm.bias", arrays["h0.b"])
    for layer in range(LAYERS):
        key, name = f"encoder.layer.{layer}.", f"l{layer}."
        weight, bias = read_linear(f"{name}qkv")
        for place, part in enumerate(("query", "key", "value")):
            put(f"{key}attention.self.{part}.weight", weight[place * width : (place + 1) * width])
            put(f"{key}attention.self.{part}.bias", bias[place * width : (place + 1) * width])
        for part, short in {
            "attention.output.dense": "ao",
            "intermediate.dense": "up",
            "output.dense": "down",
        }.items():
            weight, bias = read_linear(name + short)
            put(f"{key}{part}.weight", weight)
            put(f"{key}{part}.bias", bias)
        for part, short in {"attention.output.LayerNorm": "h1", "output.LayerNorm": "h2"}.items():
            put(f"{key}{part}.weight", arrays[f"{name}{short}.g"])
            put(f"{key}{part}.bias", arrays[f"{name}{short}.b"])
    model.load_state_dict(state)
    return model


def read_rows(parts: Sequence[str], rng: random.Random) -> dict[str, list[Row]]:
    """Return what is learned from in one round, by file; rows that are better or rarer are in it more often.

    A sentence has its type and, where that is clear, its scope. Conversations, where each sentence stands behind what
    was said before it, and pairs that were written by hand count more than single sentences and what was made.
    """
    rows: dict[str, list[Row]] = {}
    for part in parts:
        for path in data.sentence_files(part):
            is_conversation = os.path.basename(os.path.dirname(path)) == "conversations"
            rows[path] = []
            for line in data.read_lines(path):
                labels = {"types": data.SENTENCES.index(line.label[0])}
                scope = line.label[1:] or data.USUAL_SCOPE.get(line.label, "")
                if scope in ("u", "p"):
                    labels["scopes"] = data.SCOPES.index(scope)
                for _ in range(3 if is_conversation else 1):
                    context = line.context if rng.random() > NO_CONTEXT_SHARE else ""
                    rows[path].append(Row(context, line.text, labels))
            if is_conversation:
                for pair in data.pairs_within(path):
                    row = Row(pair.other, pair.text, {"replaces": pair.label})
                    rows[path] += [row] * (3 if pair.label else 1)
        rows[f"scopes of {part}"] = [
            Row("", text, {"scopes": data.SCOPES.index(label)}) for label, text in data.scope_lines(part)
        ]
        rows[f"messages of {part}"] = [
            Row("", message.text, {"types": 0})
            for message in data.messages(part)
            if data.MESSAGES[message.label] in PASSING_MESSAGES
        ]
        for path in data.files("pairs", part, "jsonl"):
            pairs = [Row(pair.other, pair.text, {"replaces": pair.label}) for pair in data.read_pairs(path)]
            rows[path] = rng.sample(pairs, len(pairs) // 3) if data.is_generated(path) else pairs * 3
    return rows


def batches(
    judge: Judge, rows: Sequence[Row], rng: random.Random
) -> Iterator[list[tuple[Row, tuple[list[int], list[int]]]]]:
    """Yield each row once, in batches of about one length."""
    rows = rng.sample(rows, len(rows))
    window = BATCH * BATCHES_SORTED
    for start in range(0, len(rows), window):
        chosen = [(row, judge.tokens(row.before, row.text)) for row in rows[start : start + window]]
        chosen.sort(key=lambda each: len(each[1][0]))
        groups = [chosen[place : place + BATCH] for place in range(0, len(chosen), BATCH)]
        yield from rng.sample(groups, len(groups))


def train(judge: Judge, work: str, options: argparse.Namespace) -> None:
    """Learn all tasks side by side, save the weights, and report."""
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    by_file = read_rows(("training", "development") if options.all else ("training",), rng)
    rows: list[Row] = []
    for path, of_file in by_file.items():
        is_new = os.path.splitext(os.path.basename(path))[0] in options.new.split(",")
        rows += of_file if is_new else rng.sample(of_file, int(len(of_file) * options.share))
    counts = {task: sum(task in row.labels for row in rows) for task in TASKS}
    say(f"{len(rows):,} rows:", counts)
    inner = [value for value in judge.model.parameters() if value.requires_grad]
    groups = [{"params": inner, "lr": options.rate}, {"params": judge.heads.parameters(), "lr": 1e-3}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = len(rows) // BATCH + 1
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [options.rate, 1e-3], total_steps=steps, pct_start=0.1)
    sums = dict.fromkeys(TASKS, 0.0)
    for step, batch in enumerate(batches(judge, rows, rng)):
        judge.train()
        scores = judge([tokens for _, tokens in batch])
        loss = torch.zeros(())
        for task in TASKS:
            labels = torch.tensor([row.labels.get(task, NOT_LABELLED) for row, _ in batch])
            total = F.cross_entropy(
                scores[task], labels, label_smoothing=options.smoothing, ignore_index=NOT_LABELLED, reduction="sum"
            )
            sums[task] += total.item()
            loss = loss + TASK_WEIGHT[task] * total / len(batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(inner, 1.0)
        optimizer.step()
        if step + 1 < steps:
            schedule.step()
        if step % 100 == 99:
            share = 100 * BATCH / len(rows)
            means = ", ".join(f"{task} {sums[task] / (share * counts[task]):.3f}" for task in TASKS)
            say(f"step {step + 1} of {steps}, {means}")
            sums = dict.fromkeys(TASKS, 0.0)
            torch.save(judge.state_dict(), os.path.join(work, f"{options.out}.pt"))
    torch.save(judge.state_dict(), os.path.join(work, f"{options.out}.pt"))
    if not options.all:
        report(options.out, judge, "development")


def find_at(rate: float, likely: Array, is_same: NDArray[np.bool_]) -> tuple[float, float]:
    """Return which share of replacements is above a score, and that score, at a rate of false replacements."""
    others = np.sort(likely[~is_same])[::-1]
    least = others[int(rate * len(others))]
    return float((likely[is_same] > least).mean()), float(least)


def area_under_curve(likely: Array, is_same: NDArray[np.bool_]) -> float:
    """Return how likely something that counts scores higher than something that does not."""
    ranks = np.argsort(np.argsort(likely)) + 1
    hits = is_same.sum()
    return float((ranks[is_same].sum() - hits * (hits + 1) / 2) / (hits * (~is_same).sum()))


def report(name: str, judge: Judge, part: str) -> None:
    """Print how good a judge is on data that it did not learn from."""
    sources = {"pairs": data.pairs(part, generated=False), "conversation pairs": data.conversation_pairs(part)}
    for title, pairs in sources.items():
        labels = np.array([row.label for row in pairs])
        if not (labels == 1).any():
            continue
        likely = judge.likely("replaces", pairs)[:, 1]
        whole = labels != 2
        area = area_under_curve(likely[whole], labels[whole] == 1)
        results = []
        for rate in FALSE_RATES:
            share, least = find_at(rate, likely[whole], labels[whole] == 1)
            in_part = float((likely[labels == 2] > least).mean()) if (labels == 2).any() else 0.0
            results.append(f"{share:.2f} at {rate:.3f} (from {least:.3f}; in part {in_part:.2f})")
        say(f"{name}: {title}: area {area:.3f},", ", ".join(results))
    for path in data.sentence_files(part):
        rows = data.sentences(part, path)
        likely, labels = judge.likely("types", rows), np.array([row.label for row in rows])
        alone = 1 - judge.likely("types", [row._replace(other="") for row in rows])[:, 0]
        worth = 1 - likely[:, 0]
        results = []
        for least in (0.3, 0.5, 0.7, 0.8):
            kept = worth > least
            results.append(f"{least}: {kept[labels > 0].mean():.2f}/{(labels[kept] > 0).mean():.2f}")
        kept = (worth > 0.5) & (labels > 0)
        types = (likely[:, 1:].argmax(1) + 1)[kept] == labels[kept]
        area, area_alone = (area_under_curve(each, labels > 0) for each in (worth, alone))
        say(
            f"{name}: {os.path.basename(path)}: found/right from {', '.join(results)}; type {types.mean():.2f},",
            f"area {area:.3f}, without context {area_alone:.3f}",
        )
    rows = data.scopes(part)
    labels = np.array([row.label for row in rows])
    right = judge.likely("scopes", rows).argmax(1) == labels
    say(
        f"{name}: scopes {right.mean():.3f}, the person's {right[labels == 0].mean():.3f},",
        f"the work's {right[labels == 1].mean():.3f}",
    )


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("train", "measure"))
    parser.add_argument("work")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", default="judge")
    parser.add_argument("--part", default="development")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--base", default="", help="a judge that learns on")
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    parser.add_argument("--new", default="", help="files of which all rows are learned, whatever the share")
    parser.add_argument("--frozen", type=int, default=2, help="layers that stay as they are")
    parser.add_argument("--rate", type=float, default=1.5e-4)
    parser.add_argument("--smoothing", type=float, default=0.05)
    parser.add_argument("--all", action="store_true", help="learn from development data, too: for what is shipped")
    options = parser.parse_args()
    judge = Judge(options.frozen)
    if options.base:
        judge.load_state_dict(torch.load(os.path.join(options.work, f"{options.base}.pt")))
    if options.step == "train":
        train(judge, options.work, options)
    for name in options.names:
        judge.load_state_dict(torch.load(os.path.join(options.work, f"{name}.pt")))
        report(name, judge, options.part)


if __name__ == "__main__":
    main()
