"""Train the encoder: a small multilingual model that places a message near the memories that a colleague would want.

    python training/encoder.py student WORK          # MiniLM with a larger vocabulary, taught by translations
    python training/encoder.py teacher WORK          # mpnet, tuned on the worlds: the second teacher
    python training/encoder.py tune WORK --base NAME --out NAME [--teacher NAME] [--readers NAME,NAME] …
    python training/encoder.py average WORK NAME … --out NAME     # of the weights of several models
    python training/encoder.py measure WORK NAME …   # on development data; --part test for what was kept aside

WORK holds `minilm/`, `mpnet/`, `translations.json.xz` and `english.json.xz` (by `texts.py`), `tokenizer.json` (by
`vocabulary.py`), and perhaps `eval.json`, questions to other sets that are only measured. Trained models are saved
there, too, as NAME.pt. `README.md` has the versions, seeds, times and results.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import judge
import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AutoModel

import data

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STARTED = time.time()
SEED = 20261118
MAX_TRAINING_TOKENS = 128  # of a message or a memory
MAX_TOKENS = 256  # of a text that is measured
MAX_TRANSLATION_TOKENS = 64
MAX_PUBLIC_VOCABULARY = 40_000  # word pieces; a model with more has the tokenizer of `vocabulary.py`
WORLDS_PER_STEP = 8
DIALOGUES_PER_STEP = 4
TRANSLATIONS_PER_STEP = 192
OTHER_LANGUAGE_SHARE = 0.5  # of the worlds that are translated

HEADS = {
    "sentences": (data.sentences, len(data.SENTENCES)),
    "scopes": (data.scopes, len(data.SCOPES)),
    "messages": (data.messages, len(data.MESSAGES)),
    "pairs": (data.pairs, len(data.REPLACES)),
}
HEAD_WIDTH = 128

Tokens = tuple[list[int], list[int]]  # ids and types


def say(*words: object) -> None:
    """Print with the seconds since the start."""
    print(f"[{time.time() - STARTED:.0f}s]", *words, flush=True)


class Encoder(nn.Module):
    """A model that averages the token vectors of a text; `scale` and `bias` make a probability of a cosine."""

    def __init__(self, model: nn.Module, tokenizer: Tokenizer, *, vocabulary: int = 0) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.scale = nn.Parameter(torch.tensor(math.log(20.0)))
        self.bias = nn.Parameter(torch.tensor(-10.0))
        if vocabulary:
            self.enlarge(vocabulary)
        width = self.model.config.hidden_size
        self.heads = nn.ModuleDict(
            {
                name: nn.Sequential(nn.Linear(width, HEAD_WIDTH), nn.GELU(), nn.Linear(HEAD_WIDTH, size))
                for name, (_, size) in HEADS.items()
            }
        )

    def enlarge(self, vocabulary: int) -> None:
        """Add random vectors for word pieces that the model does not have."""
        old = self.model.embeddings.word_embeddings.weight.data
        words = nn.Embedding(vocabulary, old.shape[1], padding_idx=0)
        words.weight.data[: len(old)] = old
        words.weight.data[len(old) :] = old.mean(0) + 0.02 * torch.randn(vocabulary - len(old), old.shape[1])
        self.model.embeddings.word_embeddings = words
        self.model.config.vocab_size = vocabulary

    def tokens(
        self, texts: Sequence[str], others: Sequence[str] = (), length: int = MAX_TRAINING_TOKENS
    ) -> list[Tokens]:
        """Return token and type ids of each text; with `others`, of each pair."""
        inputs = list(zip(texts, others, strict=True)) if others else list(texts)
        tokens = []
        for encoding in self.tokenizer.encode_batch(inputs):
            ids, types = encoding.ids, encoding.type_ids
            if len(ids) > length:
                ids, types = [*ids[: length - 1], ids[-1]], types[:length]
            tokens.append((ids, types))
        return tokens

    def pool(self, tokens: Sequence[Tokens]) -> Tensor:
        """Return the mean token vector of each text."""
        width = max(len(ids) for ids, _ in tokens)
        packed = np.zeros((3, len(tokens), width), np.int64)
        for row, (ids, types) in enumerate(tokens):
            packed[0, row, : len(ids)] = ids
            packed[1, row, : len(ids)] = types
            packed[2, row, : len(ids)] = 1
        ids, types, mask = torch.from_numpy(packed).to(DEVICE, non_blocking=True)
        return self.pool_tensors(ids, types, mask)

    def pool_tensors(self, ids: Tensor, types: Tensor, mask: Tensor) -> Tensor:
        """Return the mean token vectors of texts that are on the device."""
        extra = {} if self.model.config.model_type == "mpnet" else {"token_type_ids": types}
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            hidden = self.model(input_ids=ids, attention_mask=mask, **extra).last_hidden_state
        weight = mask.unsqueeze(-1).float()
        return (hidden.float() * weight).sum(1) / weight.sum(1)

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Return one vector of length 1 for each text."""
        return F.normalize(self.pool(self.tokens(texts)), dim=-1)

    @torch.no_grad()
    def embed(self, texts: Sequence[str], length: int = MAX_TOKENS) -> Tensor:
        """Return the vectors of many texts, without gradients."""
        self.eval()
        tokens = self.tokens(texts, length=length)
        order = sorted(range(len(texts)), key=lambda place: len(tokens[place][0]))
        vectors = torch.zeros(len(texts), self.model.config.hidden_size, device=DEVICE)
        for start in range(0, len(order), 512):
            places = order[start : start + 512]
            vectors[places] = F.normalize(self.pool([tokens[place] for place in places]), dim=-1)
        return vectors

    def judge(self, head: str, batch: Sequence[data.Labelled]) -> Tensor:
        """Return the scores of each class of a head, for texts or for pairs."""
        texts = [each.text for each in batch]
        tokens = self.tokens([each.other for each in batch], texts) if head == "pairs" else self.tokens(texts)
        return self.heads[head](self.pool(tokens))


# learning from worlds


class Batch:
    """The texts of some worlds, which memory each message needs, and which belong to the same world.

    `opinions` are what readers think of each pair of message and memory, as far as they know the world.
    """

    def __init__(
        self,
        worlds: Sequence[dict[str, Any]],
        silent: Sequence[str] = (),
        readers: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        memories = [(number, memory) for number, world in enumerate(worlds) for memory in world["memories"]]
        messages = [(number, message) for number, world in enumerate(worlds) for message in world["messages"]]
        ids = np.array([memory["id"] for _, memory in memories])
        of_memory = np.array([number for number, _ in memories])
        relevant = np.zeros((len(messages) + len(silent), len(memories)), np.float32)
        same = np.zeros_like(relevant, bool)
        opinions = np.full_like(relevant, np.nan)
        for number, world in enumerate(worlds):
            of_world = (readers or {}).get(key_of(world))
            if of_world is not None:
                rows = [row for row, (other, _) in enumerate(messages) if other == number]
                opinions[np.ix_(rows, np.flatnonzero(of_memory == number))] = of_world
        for row, (number, message) in enumerate(messages):
            same[row] = of_memory == number
            relevant[row] = same[row] & np.isin(ids, message["relevant"])
        self.messages = [message["text"] for _, message in messages] + list(silent)
        self.memories = [memory["text"] for _, memory in memories]
        self.relevant = torch.from_numpy(relevant).to(DEVICE)
        self.same = torch.from_numpy(same).to(DEVICE)
        self.opinions = torch.from_numpy(opinions).to(DEVICE)


def relevance_loss(
    encoder: Encoder, base: Encoder | None, teacher: Encoder | None, batch: Batch, options: argparse.Namespace
) -> Tensor:
    """Return how badly messages find their memories.

    It is the sum of four: the contrast between the memories that a message needs and all others in the batch; the
    cross entropy of each pair of message and memory, weighted so that the few pairs that matter count more and those
    of two worlds less; the distance from the vectors of the base; and the distance from the order and probabilities
    of a teacher. A memory of another world that the base finds close might help after all: such pairs are left out.
    """
    q, d = encoder(batch.messages), encoder(batch.memories)
    logits = encoder.scale.exp() * (q @ d.T)
    doubtful = torch.zeros_like(batch.same)
    keep: Tensor | float = 0.0
    if base is not None:
        with torch.no_grad():
            q0, d0 = base(batch.messages), base(batch.memories)
        doubtful = ~batch.same & (q0 @ d0.T > options.doubt)
        keep = (1 - (q * q0).sum(1)).mean() + (1 - (d * d0).sum(1)).mean()
    has = batch.relevant.sum(1) > 0
    wanted = batch.relevant[has]
    contrast = -(torch.log_softmax(logits[has].masked_fill(doubtful[has], -1e4), 1) * wanted).sum(1) / wanted.sum(1)
    weight = torch.where(batch.relevant > 0, options.positive, torch.where(batch.same, 1.0, options.across))
    weight = weight * ~doubtful
    entropy = F.binary_cross_entropy_with_logits(logits + encoder.bias, batch.relevant, reduction="none")
    loss = contrast.mean() + 5 * (entropy * weight).sum() / weight.sum() + options.keep * keep
    if teacher is not None:
        with torch.no_grad():
            theirs = teacher.scale.exp() * (teacher(batch.messages) @ teacher(batch.memories).T)
            likely = torch.sigmoid(theirs + teacher.bias)
        own_order, their_order = torch.log_softmax(logits, 1), torch.log_softmax(theirs, 1)
        order = F.kl_div(own_order, their_order, log_target=True, reduction="batchmean")
        alike = F.binary_cross_entropy_with_logits(logits + encoder.bias, likely, reduction="none")
        weight = 0.02 + likely
        loss = loss + options.teach * (order + 5 * (alike * weight).sum() / weight.sum())
    return loss + options.read * reader_loss(logits, encoder.bias, batch.opinions) if options.read else loss


def reader_loss(logits: Tensor, bias: Tensor, opinions: Tensor) -> Tensor:
    """Return how far order and probabilities of the memories of a message's own world are from the readers'."""
    is_known = ~opinions.isnan()
    rows = is_known.any(1)
    if not rows.any():
        return torch.zeros((), device=DEVICE)
    is_known, logits, opinions = is_known[rows], logits[rows], opinions[rows].nan_to_num()
    own_order = torch.log_softmax(logits.masked_fill(~is_known, -1e4), 1)
    their_order = torch.log_softmax(opinions.masked_fill(~is_known, -1e4), 1)
    likely = torch.sigmoid(opinions)
    needs_any = 1 - torch.prod(1 - likely * is_known, 1)
    order = (their_order.exp() * (their_order - own_order) * is_known).sum(1)
    alike = F.binary_cross_entropy_with_logits(logits + bias, likely, reduction="none")
    weight = (0.05 + likely) * is_known
    return (order * needs_any).sum() / needs_any.sum() + 5 * (alike * weight).sum() / weight.sum()


def dialogue_loss(encoder: Encoder, dialogues: Sequence[dict[str, Any]]) -> Tensor:
    """Return how badly questions find the turns that answer them, among all turns of some dialogues."""
    places, texts, questions = {}, [], []
    for number, dialogue in enumerate(dialogues):
        for turn in dialogue["turns"]:
            places[number, turn["id"]] = len(texts)
            texts.append(f"{turn['speaker']}: {turn['text']}")
        questions += [(number, question) for question in dialogue["questions"]]
    wanted = torch.zeros(len(questions), len(texts))
    for row, (number, question) in enumerate(questions):
        for turn in question["evidence"]:
            wanted[row, places[number, turn]] = 1 / len(question["evidence"])
    logits = encoder.scale.exp() * encoder([question["text"] for _, question in questions]) @ encoder(texts).T
    return -(torch.log_softmax(logits, 1) * wanted.to(DEVICE)).sum(1).mean()


def head_loss(encoder: Encoder, head: str, batch: Sequence[data.Labelled]) -> Tensor:
    """Return the cross entropy of a head."""
    labels = torch.tensor([each.label for each in batch], device=DEVICE)
    return F.cross_entropy(encoder.judge(head, batch), labels)


def cycle(items: Sequence[Any], size: int, rng: random.Random) -> Iterator[list[Any]]:
    """Yield batches without end; each item comes once before any comes again."""
    while True:
        order = rng.sample(list(items), len(items))
        for start in range(0, max(1, len(order) - size + 1), size):
            yield order[start : start + size]


def mixed_pairs(rng: random.Random, size: int) -> Iterator[list[data.Labelled]]:
    """Yield batches of pairs: half of them written by hand, half made from frames or mined."""
    written = cycle(data.pairs("training", generated=False), size // 2, rng)
    generated = cycle(data.pairs("training", generated=True), size // 2, rng)
    return (by_hand + others for by_hand, others in zip(written, generated, strict=True))


def tune(work: str, options: argparse.Namespace) -> None:
    """Learn from worlds, dialogues and labelled sentences, save the model, and report."""
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    encoder, base = load(work, options.base), load(work, options.base)
    base.requires_grad_(False).eval()
    teacher = load(work, options.teacher).requires_grad_(False).eval() if options.teacher else None
    training = data.worlds("training")
    readers = read_opinions(work, [name for name in options.readers.split(",") if name])
    translated = data.translated_worlds()
    encoder.model.embeddings.word_embeddings.requires_grad_(not options.keep_words)
    silent = [each.text for each in data.messages("training") if data.MESSAGES[each.label] != "M"]
    quiet = cycle(silent, options.silent, rng)
    dialogues = cycle(data.dialogues("training"), DIALOGUES_PER_STEP, rng)
    heads = {
        name: cycle(read("training"), options.batch, rng) for name, (read, _) in HEADS.items() if name != "pairs"
    }
    pairs = mixed_pairs(rng, 2 * options.batch)
    translations = Translations(work, encoder.tokenizer) if options.translations else None
    named = [each for each in encoder.named_parameters() if each[0].startswith("model.")]
    inner = [value for _, value in named if value.requires_grad]
    groups = [
        {"params": inner, "lr": options.rate},
        {"params": [encoder.scale, encoder.bias], "lr": 1e-3},
        {"params": [*encoder.heads.parameters()], "lr": 1e-3},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.01)
    steps = options.epochs * math.ceil(len(training) / WORLDS_PER_STEP)
    rates = [group["lr"] for group in groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=steps, pct_start=0.1)
    step = 0
    for _ in range(options.epochs):
        rng.shuffle(training)
        for start in range(0, len(training), WORLDS_PER_STEP):
            encoder.train()
            worlds = [mix_languages(world, translated, rng) for world in training[start : start + WORLDS_PER_STEP]]
            batch = Batch(worlds, next(quiet) if options.silent else (), readers)
            loss = relevance_loss(encoder, base, teacher, batch, options)
            if options.dialogues:
                loss = loss + options.dialogues * dialogue_loss(encoder, next(dialogues))
            if options.heads:
                for name, batches in heads.items():
                    loss = loss + options.heads * head_loss(encoder, name, next(batches))
            if options.pairs:
                loss = loss + options.pairs * head_loss(encoder, "pairs", next(pairs))
            if translations:
                loss = loss + options.translations * translations.alignment(encoder, TRANSLATIONS_PER_STEP, rng)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(inner, 1.0)
            optimizer.step()
            schedule.step()
            if step % 100 == 0:
                say(f"step {step} of {steps}, loss {loss.item():.3f}")
            step += 1
    if options.out:
        torch.save(encoder.state_dict(), os.path.join(work, f"{options.out}.pt"))
    report(work, options.out or "tuned", encoder)


def key_of(world: dict[str, Any]) -> str:
    """Return what a world is called in a file of scores and among translations."""
    return f"{world['file']}/{world['world']}"


def read_opinions(work: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Return what readers think of each message and memory, by world."""
    opinions: dict[str, np.ndarray] = {}
    for name in names:
        with np.load(os.path.join(work, f"{name}.npz")) as file:
            opinions |= {key: file[key] for key in file}
    return opinions


def mix_languages(
    world: dict[str, Any], translated: Mapping[str, dict[str, Any]], rng: random.Random
) -> dict[str, Any]:
    """Return a world in which messages, memories, or both are in another language, where there is a translation."""
    other = translated.get(key_of(world))
    if other is None:
        return world
    mixed = dict(world)
    for kind in ("messages", "memories"):
        if rng.random() < OTHER_LANGUAGE_SHARE:
            pairs = zip(world[kind], other[kind], strict=True)
            mixed[kind] = [{**original, "text": text} for original, text in pairs]
    return mixed


def average(work: str, names: Sequence[str], out: str) -> None:
    """Save the mean of the weights of some models that were tuned from the same one, and report."""
    saved = [torch.load(os.path.join(work, f"{name}.pt"), map_location="cpu") for name in names]
    mean = {key: torch.stack([each[key].float() for each in saved]).mean(0) for key in saved[0]}
    torch.save(mean, os.path.join(work, f"{out}.pt"))
    report(work, out, load(work, out))


# learning from translations


class Translations:
    """English texts, their translations into 20 languages, and further English texts, as tokens on the device."""

    def __init__(self, work: str, tokenizer: Tokenizer) -> None:
        with lzma.open(os.path.join(work, "translations.json.xz"), "rt", encoding="utf-8") as file:
            content = json.load(file)
        self.english: list[str] = content["en"]
        rows = content["rows"]
        self.goal = torch.tensor([row[1] for row in rows], device=DEVICE)
        self.translated = _pack(tokenizer, [row[2] for row in rows])
        self.originals = _pack(tokenizer, self.english)
        say(f"{len(self.english):,} English texts, {len(rows):,} translations")

    def alignment(self, encoder: Encoder, count: int, rng: random.Random) -> Tensor:
        """Return how far translations are from where the encoder itself puts the original."""
        rows = torch.tensor(rng.sample(range(len(self.goal)), count), device=DEVICE)
        with torch.no_grad():
            goal = _vectors(encoder, self.originals[self.goal[rows]])
        return _distance(_vectors(encoder, self.translated[rows]), goal, contrast=0.3)


def _distance(vectors: Tensor, goal: Tensor, *, contrast: float) -> Tensor:
    """Return how far each vector is from its goal, and, so much weighted, how much nearer other goals are."""
    own = torch.arange(len(goal), device=DEVICE)
    return (1 - (vectors * goal).sum(1)).mean() + contrast * F.cross_entropy(20 * vectors @ goal.T, own)


def _pack(tokenizer: Tokenizer, texts: Sequence[str], length: int = MAX_TRANSLATION_TOKENS) -> Tensor:
    """Return token ids, filled up with zeros."""
    ids = np.zeros((len(texts), length), np.int32)
    for start in range(0, len(texts), 50_000):
        for row, encoding in enumerate(tokenizer.encode_batch(list(texts[start : start + 50_000])), start):
            tokens = encoding.ids
            if len(tokens) > length:
                tokens = [*tokens[: length - 1], tokens[-1]]
            ids[row, : len(tokens)] = tokens
    return torch.from_numpy(ids).to(DEVICE)


def _vectors(encoder: Encoder, ids: Tensor) -> Tensor:
    ids = ids[:, : int((ids > 0).sum(1).max())].long()
    return F.normalize(encoder.pool_tensors(ids, torch.zeros_like(ids), (ids > 0).long()), dim=-1)


def teach_languages(work: str, options: argparse.Namespace) -> None:
    """Put each translation where MiniLM puts the original, and English where MiniLM puts it."""
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    teacher = load(work, "minilm").eval()
    report(work, "minilm", teacher)
    tokenizer = Tokenizer.from_file(os.path.join(work, "tokenizer.json"))
    minilm = AutoModel.from_pretrained(os.path.join(work, "minilm"), dtype=torch.float32)
    student = Encoder(minilm, tokenizer, vocabulary=tokenizer.get_vocab_size()).to(DEVICE)
    texts = Translations(work, tokenizer)
    with lzma.open(os.path.join(work, "english.json.xz"), "rt", encoding="utf-8") as file:
        english: list[str] = json.load(file)
    for world in data.worlds("training"):
        english += [each["text"] for each in (*world["memories"], *world["messages"])]
    for read in (data.sentences, data.messages, data.scopes):
        english += [each.text for each in read("training")]
    for dialogue in data.dialogues("training"):
        english += [f"{turn['speaker']}: {turn['text']}" for turn in dialogue["turns"]]
    english = [text for text in english if sum(character.isascii() for character in text) > 0.97 * len(text)]
    goals = teacher.embed(texts.english, MAX_TRANSLATION_TOKENS).half()
    more, more_goals = _pack(tokenizer, english), teacher.embed(english, MAX_TRANSLATION_TOKENS).half()
    say(f"{len(english):,} more English texts, teacher's vectors made")

    def loss_of(count: int) -> Tensor:
        rows = torch.tensor(rng.sample(range(len(texts.goal)), count), device=DEVICE)
        foreign = _distance(_vectors(student, texts.translated[rows]), goals[texts.goal[rows]].float(), contrast=0.3)
        rows = torch.tensor(rng.sample(range(len(english)), count), device=DEVICE)
        return foreign + _distance(_vectors(student, more[rows]), more_goals[rows].float(), contrast=0.1)

    stages = (("embeddings", options.steps // 5, 3e-3, False), ("all", options.steps, 3e-4, True))
    for name, steps, rate, is_whole in stages:
        for key, value in student.model.named_parameters():
            value.requires_grad_(is_whole or "word_embeddings" in key)
        parameters = [value for value in student.model.parameters() if value.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps, pct_start=0.1)
        student.train()
        for step in range(steps):
            loss = loss_of(512)
            optimizer.zero_grad()
            loss.backward()
            if not is_whole:  # MiniLM's own word pieces stay as they are at first
                student.model.embeddings.word_embeddings.weight.grad[: options.own] = 0
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            if step % 500 == 0:
                say(f"{name} {step} of {steps}, loss {loss.item():.3f}")
    torch.save(student.state_dict(), os.path.join(work, "student.pt"))
    report(work, "student", student)


# loading and measuring


def load(work: str, name: str) -> Encoder:
    """Return a public model (`minilm`, `mpnet`), the shipped one (`shipped`), or one that was trained here."""
    state = os.path.join(work, f"{name}.pt")
    saved = torch.load(state, map_location="cpu") if os.path.exists(state) else None
    if name.startswith("shipped"):
        encoder = Encoder(judge.make_model(judge.read_shipped()), judge.shipped_tokenizer())
        if saved:
            encoder.load_state_dict(saved)
        return encoder.to(DEVICE)
    is_mpnet = name.startswith("mpnet")
    base = os.path.join(work, "mpnet" if is_mpnet else "minilm")
    vocabulary = len(saved["model.embeddings.word_embeddings.weight"]) if saved else 0
    if is_mpnet or vocabulary <= MAX_PUBLIC_VOCABULARY:
        vocabulary = 0  # that of the public model
    tokenizer = Tokenizer.from_file(os.path.join(work if vocabulary else base, "tokenizer.json"))
    encoder = Encoder(AutoModel.from_pretrained(base, dtype=torch.float32), tokenizer, vocabulary=vocabulary)
    if saved:
        encoder.load_state_dict(saved)
    return encoder.to(DEVICE)


def average_precision(scores: np.ndarray, gold: np.ndarray) -> tuple[float, list[float]]:
    """Return average precision over all pairs, and the highest recall at precisions of .5, .55 and .6."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(gold[order])
    precision, recall = hits / np.arange(1, len(hits) + 1), hits / gold.sum()
    recalls = [float(max(recall[precision >= least], default=0.0)) for least in (0.5, 0.55, 0.6)]
    return float(precision[gold[order]].mean()), recalls


def top_five(cosine: np.ndarray, truth: np.ndarray) -> list[float]:
    """Return which share of the gold of each message with gold is among its first five."""
    order = np.argsort(-cosine, 1)
    return [truth[row, order[row, :5]].sum() / truth[row].sum() for row in range(len(truth)) if truth[row].any()]


def cosines(encoder: Encoder, texts: Sequence[str], others: Sequence[str]) -> np.ndarray:
    """Return the cosine of each text with each of the others."""
    return (encoder.embed(texts) @ encoder.embed(others).T).cpu().numpy()


def report(work: str, name: str, encoder: Encoder, part: str = "development") -> None:
    """Print what an encoder is worth on worlds, dialogues, labelled sentences, and the sets in `eval.json`."""
    encoder.eval()
    report_worlds(name, encoder, part)
    results = [f"dialogues R@5 {np.mean(measure_dialogues(encoder, part)):.3f}"]
    path = os.path.join(work, "eval.json")
    if part == "development" and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            sets = json.load(file)
        for each in sets:
            truth = np.zeros((len(each["queries"]), len(each["docs"])), bool)
            for row, (_, gold) in enumerate(each["queries"]):
                truth[row, gold] = True
            cosine = cosines(encoder, [query for query, _ in each["queries"]], each["docs"])
            results.append(f"{each['name']} {np.mean(top_five(cosine, truth)):.3f}")
    say(f"{name:16}", ", ".join(results))
    report_heads(name, encoder, part)


def report_worlds(name: str, encoder: Encoder, part: str) -> None:
    """Print average precision and recall, where at most five memories are shown for each message."""
    groups: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    ranks: dict[str, list[float]] = {}
    for world in data.worlds(part):
        messages, memories = world["messages"], world["memories"]
        cosine = cosines(encoder, [each["text"] for each in messages], [each["text"] for each in memories])
        truth = np.array([[memory["id"] in message["relevant"] for memory in memories] for message in messages])
        is_shown = np.zeros_like(truth)
        np.put_along_axis(is_shown, np.argsort(-cosine, 1)[:, :5], True, 1)
        for key in (origin_of(world["file"]), "foreign" if is_foreign(world) else "english", "all"):
            groups.setdefault(key, []).append((np.where(is_shown, cosine, -1.0).ravel(), truth.ravel()))
            ranks.setdefault(key, []).extend(top_five(cosine, truth))
    for key in sorted(groups):
        scores, gold = (np.concatenate(each) for each in zip(*groups[key], strict=True))
        average, recalls = average_precision(scores, gold)
        at = " ".join(f"{recall:.2f}" for recall in recalls)
        worlds = f"{key:8} {len(groups[key]):3} worlds"
        say(f"{name:16} {worlds}: AP {average:.3f}, recall at P .5/.55/.6 {at}, R@5 {np.mean(ranks[key]):.3f}")


def origin_of(file: str) -> str:
    """Return the group of files that a file of worlds belongs to."""
    if file in ("worlds-a", "worlds-b"):
        return "ab"
    return "c-h" if file.startswith("worlds-") else "new"


def measure_dialogues(encoder: Encoder, part: str) -> list[float]:
    """Return which share of the turns that answer a question is among its first five, for each question."""
    shares = []
    for dialogue in data.dialogues(part):
        places = {turn["id"]: number for number, turn in enumerate(dialogue["turns"])}
        truth = np.zeros((len(dialogue["questions"]), len(places)), bool)
        for row, question in enumerate(dialogue["questions"]):
            truth[row, [places[turn] for turn in question["evidence"]]] = True
        questions = [question["text"] for question in dialogue["questions"]]
        turns = [f"{turn['speaker']}: {turn['text']}" for turn in dialogue["turns"]]
        shares += top_five(cosines(encoder, questions, turns), truth)
    return shares


def report_heads(name: str, encoder: Encoder, part: str) -> None:
    """Print how often each head is right, and how many replacements are found at a low rate of false ones."""
    results = []
    for head, (read, _) in HEADS.items():
        labelled = read(part)
        batches = [labelled[start : start + 256] for start in range(0, len(labelled), 256)]
        with torch.no_grad():
            logits = torch.cat([encoder.judge(head, batch) for batch in batches])
        labels = torch.tensor([each.label for each in labelled])
        results.append(f"{head} {(logits.argmax(1).cpu() == labels).float().mean():.3f}")
        if head == "pairs":
            likely = torch.softmax(logits, 1)[:, 1].cpu()
            others = torch.sort(likely[labels != 1], descending=True).values
            for share in (0.01, 0.03):
                least = others[int(share * len(others))]
                results.append(f"found at {share:.0%} false {(likely[labels == 1] > least).float().mean():.2f}")
    calibration = f"scale {encoder.scale.exp().item():.2f}, bias {encoder.bias.item():.2f}"
    say(f"{name:16} heads:", ", ".join(results), calibration)


def is_foreign(world: dict[str, Any]) -> bool:
    """Return True if a world is not in English, or not only."""
    text = " ".join(each["text"] for each in (*world["memories"], *world["messages"]))
    return sum(not character.isascii() and character.isalpha() for character in text) > 0.004 * len(text)


OPTIONS = {
    "rate": 4e-5,  # of learning
    "keep": 1.0,  # weight of the nearness to the base
    "doubt": 0.45,  # cosine of the base from which a memory of another world is left out
    "positive": 4.0,  # weight of a pair that matters
    "across": 0.2,  # weight of a pair of two worlds
    "teach": 1.0,  # weight of the teacher
    "dialogues": 0.5,  # weights of what else is learned; with 0 it is left out
    "heads": 0.2,
    "pairs": 0.5,
    "translations": 0.0,
    "read": 1.0,  # weight of the readers
}
"""Numbers of `tune` that may be set on the command line."""


def main() -> None:
    """Run one of the steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("student", "teacher", "tune", "average", "measure"))
    parser.add_argument("work")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--base", default="student")
    parser.add_argument("--out", default="")
    parser.add_argument("--teacher", default="")
    parser.add_argument("--readers", default="", help="files of scores by reader.py, separated by commas")
    parser.add_argument("--keep-words", action="store_true", help="word vectors stay as they are")
    parser.add_argument("--part", default="development")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--steps", type=int, default=4000, help="of the student")
    parser.add_argument("--own", type=int, default=30522, help="word pieces of MiniLM")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=48, help="sentences of each head in a step")
    parser.add_argument("--silent", type=int, default=32, help="messages in a step that need nothing")
    for name, default in OPTIONS.items():
        parser.add_argument(f"--{name}", type=float, default=default)
    options = parser.parse_args()
    if options.step == "student":
        teach_languages(options.work, options)
    elif options.step == "average":
        average(options.work, options.names, options.out)
    elif options.step == "measure":
        for name in options.names:
            report(options.work, name, load(options.work, name), options.part)
    else:
        tune(options.work, options)


if __name__ == "__main__":
    main()
