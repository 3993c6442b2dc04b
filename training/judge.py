"""Train the judge: a transformer that reads two texts side by side and decides what to remember.

    python training/judge.py train WORK --out mpnet-1 --rate 3e-5                   # a teacher, from mpnet
    python training/judge.py train WORK --out NAME [--teachers mpnet-1,mpnet-2]
    python training/judge.py average WORK NAME NAME --out NAME                       # the mean of their weights
    python training/judge.py measure WORK NAME [--part test]

It answers four questions: of which type is a sentence, if it is worth keeping at all, read behind what was said
before it; is it about the person or about the work; does a sentence take the place of an older one; and does it ask
to remember something. It begins
with the layers and word vectors of the encoder (`src/memsheaf/encode/encoder.onnx`). The word vectors stay as they
are, because the package holds them once. A name that begins with `mpnet` is that of a larger judge, which serves as
a teacher: it begins with WORK/mpnet. The name `shipped` is that of the judge in the package.
"""

from __future__ import annotations

import argparse
import functools
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
from transformers import AutoModel, BertConfig, BertModel

import data

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STARTED = time.time()
SEED = 20261119
ENCODER = os.path.join(data.HERE, "..", "src", "memsheaf", "encode")
MAX_TOKENS = 96
LAYERS = 6
TASKS = {
    "types": len(data.SENTENCES),
    "scopes": len(data.SCOPES),
    "replaces": len(data.REPLACES),
    "requests": len(data.REQUESTS),
}
TASK_WEIGHT = {"types": 1.0, "scopes": 0.5, "replaces": 1.5, "requests": 0.7}
NO_CONTEXT_SHARE = 0.3  # of sentences that are learned without what was said before them
PAIRS_AT_ONCE = 256  # when nothing is learned
BATCHES_SORTED = 16  # by length, together, so that little is padded
NOT_LABELLED = -100  # a row has no label for a task, but a teacher may have an opinion
NEAR_MEMORIES = 2  # of the same world that each memory is paired with, for a teacher's opinion
ENGLISH_FROM = 0.97  # share of ASCII characters: mpnet knows no other language
PASSING_MESSAGES = "TGC"  # small talk, general questions, commands of the moment: nothing to keep
FALSE_RATES = (0.005, 0.01, 0.03)
PASSING_STEP = 3  # every so many-th passing sentence of a conversation is learned as no request
GREETING_SHARE = 0.3  # of sentences without context that are learned behind a greeting, which says nothing of them
GREETINGS = [
    "Hi!",
    "hi",
    "Hello.",
    "hello again",
    "Hey,",
    "Good morning!",
    "morning",
    "evening",
    "Hi Claude,",
    "ok so",
    "right",
    "Thanks!",
    "Hallo!",
    "moin",
    "danke",
    "Bonjour !",
    "merci",
    "¡Hola!",
    "gracias",
    "bom dia",
    "你好",
    "谢谢",
    "こんにちは",
]

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
    """A transformer over two texts, and a linear head on the mean token vector for each task."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.dropout = nn.Dropout(0.1)
        self.heads = nn.ModuleDict({task: nn.Linear(model.config.hidden_size, size) for task, size in TASKS.items()})
        self.tasks = list(TASKS)  # that it has learned

    @functools.lru_cache(maxsize=500_000)  # noqa: B019  # a program trains few judges
    def tokens(self, before: str, text: str) -> tuple[list[int], list[int]]:
        """Return token and type ids of two texts; of a long first one its end is read."""
        encoding = self.tokenizer.encode(before, text)
        ids, types = encoding.ids, encoding.type_ids
        excess = max(0, len(ids) - MAX_TOKENS)
        return ids[:1] + ids[1 + excess :], types[:1] + types[1 + excess :]

    def pool(self, tokens: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        """Return the mean token vector of each pair."""
        packed = np.zeros((3, len(tokens), max(len(ids) for ids, _ in tokens)), np.int64)
        for row, (ids, types) in enumerate(tokens):
            packed[0, row, : len(ids)] = ids
            packed[1, row, : len(ids)] = types
            packed[2, row, : len(ids)] = 1
        ids, types, mask = torch.from_numpy(packed).to(DEVICE)
        extra = {} if self.model.config.model_type == "mpnet" else {"token_type_ids": types}
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=DEVICE == "cuda"):
            hidden = self.model(input_ids=ids, attention_mask=mask, **extra).last_hidden_state
        weight = mask.unsqueeze(-1).float()
        return (hidden.float() * weight).sum(1) / weight.sum(1)

    def forward(self, tokens: Sequence[tuple[list[int], list[int]]]) -> dict[str, Tensor]:
        """Return the scores of each class of each task."""
        pooled = self.dropout(self.pool(tokens))
        return {task: head(pooled) for task, head in self.heads.items()}

    @torch.no_grad()
    def likely(self, task: str, rows: Sequence[data.Labelled]) -> Array:
        """Return the probabilities of each class of a task."""
        scores = self.all_scores([(row.other, row.text) for row in rows])
        return torch.softmax(torch.from_numpy(scores[task]), 1).numpy()

    @torch.no_grad()
    def all_scores(self, pairs: Sequence[tuple[str, str]]) -> dict[str, Array]:
        """Return the scores of each class of each task for many pairs of texts."""
        self.eval()
        tokens = [self.tokens(*pair) for pair in pairs]
        order = sorted(range(len(pairs)), key=lambda place: len(tokens[place][0]))
        scores = {task: np.zeros((len(pairs), size), np.float32) for task, size in TASKS.items()}
        for start in range(0, len(order), PAIRS_AT_ONCE):
            places = order[start : start + PAIRS_AT_ONCE]
            for task, values in self([tokens[place] for place in places]).items():
                scores[task][places] = values.float().cpu().numpy()
        return scores


def make_judge(work: str, name: str, frozen: int = 0) -> Judge:
    """Return a judge of the kind that a name stands for, with the weights saved under it, if there are any."""
    model: nn.Module
    if name.startswith("mpnet"):
        folder = os.path.join(work, "mpnet")
        model = AutoModel.from_pretrained(folder, dtype=torch.float32)
        tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    else:
        model = make_model(read_shipped_judge() if name == "shipped" else read_shipped())
        model.embeddings.word_embeddings.requires_grad_(False)
        for layer in model.encoder.layer[:frozen]:
            layer.requires_grad_(False)
        tokenizer = shipped_tokenizer()
    judge = Judge(model, tokenizer)
    if name == "shipped":
        put_heads(judge, read_shipped_judge())
    if os.path.exists(path := os.path.join(work, f"{name}.pt")):
        judge.load_state_dict(torch.load(path, map_location="cpu"))
    return judge.to(DEVICE)


def read_arrays(path: str) -> dict[str, NDArray[np.generic]]:
    """Return the constants of a graph by name."""
    return {each.name: numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}


def read_shipped() -> dict[str, NDArray[np.generic]]:
    """Return the constants of the encoder that is shipped."""
    return read_arrays(os.path.join(ENCODER, "encoder.onnx"))


def read_shipped_judge() -> dict[str, NDArray[np.generic]]:
    """Return the constants of the judge that is shipped, whose word vectors are those of the encoder."""
    return read_arrays(os.path.join(ENCODER, "judge.onnx"))


def shipped_tokenizer() -> Tokenizer:
    """Return the tokenizer that is shipped."""
    return Tokenizer.from_file(os.path.join(ENCODER, "tokenizer.json"))


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


def put_heads(judge: Judge, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Give a judge the heads of the one that is shipped, whose graph has them side by side."""
    start = 0
    for task, size in TASKS.items():
        if start == arrays["heads.w"].shape[1]:
            judge.tasks.remove(task)  # it is new
            continue
        head = judge.heads[task]
        head.weight.data = torch.from_numpy(arrays["heads.w"][:, start : start + size].T.astype(np.float32).copy())
        head.bias.data = torch.from_numpy(arrays["heads.bias"][start : start + size].astype(np.float32).copy())
        start += size


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
                    if not context and rng.random() < GREETING_SHARE:
                        context = rng.choice(GREETINGS)
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
        rows[f"requests of {part}"] = request_rows(part)
        for path in data.files("pairs", part, "jsonl"):
            pairs = [Row(pair.other, pair.text, {"replaces": pair.label}) for pair in data.read_pairs(path)]
            rows[path] = rng.sample(pairs, len(pairs) // 3) if data.is_generated(path) else pairs * 3
    return rows


def request_rows(part: str) -> list[Row]:
    """Return the rows of requests to remember, each twice, and of the types and scopes that their facts have."""
    rows = [Row(line.other, line.text, {"requests": line.label}) for line in data.requests(part)] * 2
    for line in data.request_lines(part):
        kind = line.label[1:2]
        if not kind:
            continue
        labels = {"types": data.SENTENCES.index(kind)}
        scope = line.label[2:] or data.USUAL_SCOPE[kind]
        labels["scopes"] = data.SCOPES.index(scope)
        rows.append(Row(line.context, line.text.rpartition(data.CUT)[2], labels))
    for path in data.files("conversations", part, "txt"):
        passing = [line for line in data.read_lines(path) if line.label == "-"]
        rows += [Row(line.context, line.text, {"requests": 0}) for line in passing[::PASSING_STEP]]
    return rows


def unlabelled_rows(rng: random.Random, part: str = "training") -> list[Row]:
    """Return pairs of near memories of one world, of which only a teacher knows what they are."""
    rows = []
    for world in data.worlds(part):
        texts = [memory["text"] for memory in world["memories"]]
        words = [set(text.casefold().split()) for text in texts]
        for place, text in enumerate(texts):
            others = sorted(range(len(texts)), key=lambda other: (-len(words[place] & words[other]), rng.random()))
            for other in [each for each in others if each != place][:NEAR_MEMORIES]:
                rows.append(Row(texts[other], text, {"replaces": NOT_LABELLED}))
    return rows


class Opinions:
    """What teachers think of pairs of texts: the mean of their probabilities for each class of each task."""

    def __init__(self, work: str, teachers: Sequence[str]) -> None:
        self.teachers = {name: make_judge(work, name) for name in teachers}
        self.tasks = [task for task in TASKS if all(task in each.tasks for each in self.teachers.values())]
        self.known: dict[tuple[str, str], dict[str, Array]] = {}

    def form(self, rows: Sequence[Row]) -> None:
        """Ask the teachers about all pairs of texts that are new to them; mpnet is asked about English ones."""
        new = list({(row.before, row.text) for row in rows} - self.known.keys())
        for is_asked_english in (True, False):
            pairs = [pair for pair in new if is_english(pair) == is_asked_english]
            asked = [each for name, each in self.teachers.items() if is_asked_english or not name.startswith("mpnet")]
            if not asked or not pairs:
                continue
            scores = [teacher.all_scores(pairs) for teacher in asked]
            means = {
                task: np.mean([torch.softmax(torch.from_numpy(each[task]), 1).numpy() for each in scores], 0)
                for task in self.tasks
            }
            for place, pair in enumerate(pairs):
                self.known[pair] = {task: means[task][place] for task in self.tasks}

    def target(self, row: Row, task: str, smoothing: float, weight: float) -> Array:
        """Return what a judge should answer: the label, and, so much weighted, what the teachers think."""
        target = np.zeros(TASKS[task], np.float32)
        label = row.labels.get(task)
        if label is None:
            return target
        opinion = self.known.get((row.before, row.text), {}).get(task)
        if label != NOT_LABELLED:
            target[:] = smoothing / len(target)
            target[label] += 1 - smoothing
        if opinion is None:
            return target
        return opinion if label == NOT_LABELLED else (1 - weight) * target + weight * opinion


def is_english(pair: tuple[str, str]) -> bool:
    """Return True for texts that look as if mpnet could read them."""
    text = " ".join(pair)
    return sum(character.isascii() for character in text) >= ENGLISH_FROM * len(text)


def batches(
    judge: Judge, rows: Sequence[Row], size: int, rng: random.Random
) -> Iterator[list[tuple[Row, tuple[list[int], list[int]]]]]:
    """Yield each row once, in batches of about one length."""
    rows = rng.sample(rows, len(rows))
    window = size * BATCHES_SORTED
    for start in range(0, len(rows), window):
        chosen = [(row, judge.tokens(row.before, row.text)) for row in rows[start : start + window]]
        chosen.sort(key=lambda each: len(each[1][0]))
        groups = [chosen[place : place + size] for place in range(0, len(chosen), size)]
        yield from rng.sample(groups, len(groups))


def train(judge: Judge, work: str, options: argparse.Namespace) -> None:
    """Learn all tasks side by side, save the weights, and report."""
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    parts = ("training", "development") if options.all else ("training",)
    opinions = Opinions(work, [name for name in options.teachers.split(",") if name])
    inner = [value for value in judge.model.parameters() if value.requires_grad]
    groups = [{"params": inner, "lr": options.rate}, {"params": judge.heads.parameters(), "lr": 1e-3}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    schedule = None
    for epoch in range(options.epochs):
        rows = [row for of_file in read_rows(parts, rng).values() for row in of_file]
        if opinions.teachers:
            rows += unlabelled_rows(rng)
            opinions.form(rows)
        if schedule is None:
            steps = options.epochs * (len(rows) // options.batch + 2)
            rates = [group["lr"] for group in groups]
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=steps, pct_start=0.1)
        sums = dict.fromkeys(TASKS, 0.0)
        for batch in batches(judge, rows, options.batch, rng):
            judge.train()
            scores = judge([tokens for _, tokens in batch])
            loss = torch.zeros((), device=DEVICE)
            for task in TASKS:
                targets = [opinions.target(row, task, options.smoothing, options.teach) for row, _ in batch]
                goal = torch.from_numpy(np.array(targets)).to(DEVICE)
                total = -(goal * torch.log_softmax(scores[task].float(), 1)).sum()
                sums[task] += total.detach()
                loss = loss + TASK_WEIGHT[task] * total / len(batch)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(inner, 1.0)
            optimizer.step()
            schedule.step()
        counts = {task: sum(task in row.labels for row in rows) for task in TASKS}
        means = ", ".join(f"{task} {float(sums[task]) / counts[task]:.3f}" for task in TASKS)
        say(f"{options.out}: round {epoch + 1} of {options.epochs}, {len(rows):,} rows, {means}")
    torch.save(judge.state_dict(), os.path.join(work, f"{options.out}.pt"))
    if not options.all:
        report(options.out, judge, "development")


def average(work: str, names: Sequence[str], out: str) -> None:
    """Save the mean of the weights of judges that began with the same weights."""
    states = [torch.load(os.path.join(work, f"{name}.pt"), map_location="cpu") for name in names]
    means = {key: torch.stack([state[key].float() for state in states]).mean(0) for key in states[0]}
    torch.save(means, os.path.join(work, f"{out}.pt"))


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
    if requests := data.requests(part):
        likely, labels = judge.likely("requests", requests), np.array([row.label for row in requests])
        for label, title in ((1, "requests with their fact"), (2, "requests that point elsewhere")):
            results = []
            for least in (0.5, 0.8, 0.9, 0.95):
                found = likely[:, label] > least
                is_right = labels == label
                results.append(f"{least}: {found[is_right].mean():.2f}/{is_right[found].mean():.2f}")
            say(f"{name}: {title}: found/right from", ", ".join(results))
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
    parser.add_argument("step", choices=("train", "average", "measure"))
    parser.add_argument("work")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--out", default="judge")
    parser.add_argument("--base", default="", help="a judge that learns on")
    parser.add_argument("--teachers", default="", help="judges, separated by commas")
    parser.add_argument("--part", default="development")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--frozen", type=int, default=0, help="layers that stay as they are")
    parser.add_argument("--rate", type=float, default=1.5e-4)
    parser.add_argument("--smoothing", type=float, default=0.05)
    parser.add_argument("--teach", type=float, default=0.6, help="weight of what the teachers think")
    parser.add_argument("--all", action="store_true", help="learn from development data, too")
    options = parser.parse_args()
    if options.step == "train":
        train(make_judge(options.work, options.base or options.out, options.frozen), options.work, options)
    if options.step == "average":
        average(options.work, options.names, options.out)
        return
    for name in options.names:
        report(name, make_judge(options.work, name), options.part)


if __name__ == "__main__":
    main()
