"""Teach a small table of words what two large models know about meaning.

    python training/train.py embed  WORK --teachers DIR DIR    # once: what the teachers say about every text
    python training/train.py static WORK --out static.npz      # a vector a word

WORK holds `texts.jsonl.xz` from `collect.py`. Each teacher is a folder with a sentence-transformers model. Needs
torch, transformers and a GPU; see README.md for what the table in the package was made with.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing import Pool

import numpy
import torch
from torch import Tensor, nn
from torch.nn import functional

SEED = 20261115
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WORDS = 52_000  # whole words in the vocabulary, as common as they are in the texts
DIMENSIONS = 256
TEXT_TOKENS = 160
SPLIT = re.compile(r"[a-z0-9]+|[^\sa-z0-9]")


# pairs of texts that belong together


def pairs(path: str, seed: int = SEED) -> list[tuple[str, str]]:
    """What one may ask, and what would answer: titles and their paragraphs, sentences and what stands around them."""
    chance = random.Random(seed)
    found: list[tuple[str, str]] = []
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            document = json.loads(line)
            title, paragraphs = document["t"], document["p"]
            for place, paragraph in enumerate(paragraphs):
                if len(title.split()) >= 2 or document["s"] == "wordnet-base":
                    told = f"{title}. {paragraph}" if chance.random() < 0.3 else paragraph
                    if place < 4 or chance.random() < 0.2:
                        found.append((asked(title, chance), told[:700]))
                sentences = [one for one in re.split(r"(?<=[.!?;])\s+", paragraph) if len(one.split()) >= 4]
                if len(sentences) >= 2 and chance.random() < 0.7:
                    number = chance.randrange(len(sentences))
                    rest = " ".join(sentences[:number] + sentences[number + 1 :])
                    found.append((cut(sentences[number], chance), (f"{title}. {rest}" if title else rest)[:700]))
                elif place + 1 < len(paragraphs) and chance.random() < 0.3:
                    found.append((cut(paragraph, chance), paragraphs[place + 1][:700]))
    return found


def asked(title: str, chance: random.Random) -> str:
    """A title as somebody would type it."""
    form = chance.random()
    plain = title[:1].lower() + title[1:] if title[1:2].islower() else title
    if form < 0.15:
        return f"how do I {plain}?"
    if form < 0.30:
        return f"what about {plain}?"
    if form < 0.40:
        return f"where is {plain} described?"
    return plain[:200]


def cut(text: str, chance: random.Random) -> str:
    """A text, or a stretch of it: people leave out most of a sentence."""
    words = text.split()
    if chance.random() < 0.5 and len(words) > 6:
        count = chance.randrange(3, min(12, len(words)))
        start = chance.randrange(len(words) - count + 1)
        words = words[start : start + count]
    return " ".join(words)[:300]


# vocabulary


def split(text: str) -> list[str]:
    """The pieces that a vocabulary is looked up by: lower case, names in code taken apart."""
    return SPLIT.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower())


def _counted(texts: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(set(split(text)))
    return counts


def vocabulary(texts: list[str], pieces: list[str], workers: int = 16) -> list[str]:
    """The most common words, and the pieces that all others are put together from."""
    with Pool(workers) as pool:
        parts = pool.map(_counted, [texts[place :: workers * 4] for place in range(workers * 4)])
    counts: Counter[str] = sum(parts, Counter())
    words = [word for word, _ in counts.most_common(WORDS * 2) if word.isascii() and len(word) <= 24][:WORDS]
    letters = [piece for piece in pieces if piece.startswith("##") and piece[2:].isascii()]
    single = [chr(code) for code in range(33, 127) if chr(code).lower() == chr(code)]
    return list(dict.fromkeys(["[UNK]", "[CLS]", "[SEP]", *words, *single, *letters]))


class Greedy:
    """The longest known beginning, again and again: what `memsheaf.embed.wordpiece` does."""

    def __init__(self, words: list[str]) -> None:
        self.numbers = {word: number for number, word in enumerate(words)}
        self.known: dict[str, tuple[int, ...]] = {}

    def __call__(self, text: str) -> list[int]:
        """The numbers of a text."""
        found: list[int] = []
        for word in split(text):
            if word not in self.known:
                self.known[word] = tuple(self._pieces(word))
            found += self.known[word]
        return found[:TEXT_TOKENS]

    def _pieces(self, word: str) -> list[int]:
        found: list[int] = []
        start, mark = 0, ""
        while start < len(word):
            for end in range(len(word), start, -1):
                if (number := self.numbers.get(mark + word[start:end])) is not None:
                    break
            else:
                return [0]
            found.append(number)
            start, mark = end, "##"
        return found


_greedy: Greedy | None = None


def _begin(words: list[str]) -> None:
    global _greedy  # one a process of the pool
    _greedy = Greedy(words)


def _numbers(texts: list[str]) -> list[list[int]]:
    assert _greedy is not None
    return [_greedy(text) or [0] for text in texts]


def tokenised(texts: list[str], words: list[str], workers: int = 16) -> tuple[numpy.ndarray, numpy.ndarray]:
    """All tokens one after the other, and where each text begins."""
    chunks = [texts[place : place + 5_000] for place in range(0, len(texts), 5_000)]
    with Pool(workers, _begin, (words,)) as pool:
        rows = [row for chunk in pool.imap(_numbers, chunks) for row in chunk]
    starts = numpy.cumsum([0, *map(len, rows)]).astype(numpy.int64)
    return numpy.concatenate([numpy.asarray(row, numpy.int32) for row in rows]), starts


# what the teachers say


@torch.no_grad()
def taught(folder: str, texts: list[str]) -> Tensor:
    """Every text as a teacher places it: rows of length 1, in half precision."""
    from transformers import AutoModel, AutoTokenizer

    words = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.bfloat16).to(DEVICE).eval()
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    made: Tensor | None = None
    started = time.time()
    for begin in range(0, len(order), 65_536):
        chunk = order[begin : begin + 65_536]
        tokens = words([texts[place] for place in chunk], truncation=True, max_length=TEXT_TOKENS)["input_ids"]
        for at in range(0, len(chunk), 1_024):
            rows = tokens[at : at + 1_024]
            length = -(-max(map(len, rows)) // 8) * 8
            ids = torch.full((len(rows), length), words.pad_token_id)
            for number, row in enumerate(rows):
                ids[number, : len(row)] = torch.tensor(row)
            ids = ids.to(DEVICE, non_blocking=True)
            mask = ids != words.pad_token_id
            state = model(input_ids=ids, attention_mask=mask).last_hidden_state.float() * mask[..., None]
            vector = functional.normalize(state.sum(1), dim=1).half()
            if made is None:
                made = torch.empty(len(texts), vector.shape[1], dtype=torch.float16, device=DEVICE)
            made[torch.tensor(chunk[at : at + 1_024], device=DEVICE)] = vector
        print(f"{folder}: {begin + len(chunk):,} of {len(order):,}, {time.time() - started:.0f} s", flush=True)
    assert made is not None
    return made


def embed(work: str, teachers: list[str]) -> None:
    """Everything that does not depend on the student: pairs, tokens, vocabulary, vectors of the teachers."""
    found = pairs(os.path.join(work, "texts.jsonl.xz"))
    texts = list(dict.fromkeys(text for pair in found for text in pair))
    place = {text: number for number, text in enumerate(texts)}
    links = numpy.array([(place[one], place[other]) for one, other in found])
    print(f"{len(found):,} pairs of {len(texts):,} texts", flush=True)
    with open(os.path.join(teachers[0], "tokenizer.json"), encoding="utf-8") as file:
        pieces = list(json.load(file)["model"]["vocab"])
    words = vocabulary(texts, pieces)
    flat, starts = tokenised(texts, words)
    print(f"{len(words):,} words in the vocabulary, {len(flat):,} tokens", flush=True)
    numpy.savez(os.path.join(work, "texts.npz"), links=links, flat=flat, starts=starts, words=numpy.array(words))
    for number, folder in enumerate(teachers):
        torch.save(taught(folder, texts), os.path.join(work, f"teacher{number}.pt"))


# students


class Static(nn.Module):
    """The sum of a text's words, each once, brought to length 1."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(words, DIMENSIONS) * 0.05)
        self.bits = 0

    def weights(self) -> Tensor:
        """The table, as it will be when it is kept in whole numbers of so many bits."""
        if not self.bits:
            return self.table
        most = 2 ** (self.bits - 1) - 1
        scale = self.table.abs().amax(1, keepdim=True).clamp_min(1e-8) / most
        return self.table + ((self.table / scale).round().clamp(-most, most) * scale - self.table).detach()

    def forward(self, flat: Tensor, starts: Tensor) -> Tensor:
        """A row of length 1 a text."""
        made = functional.embedding_bag(flat, self.weights(), starts, mode="sum")
        return functional.normalize(made, dim=1)


def batches(count: int, size: int, run: int, seed: int) -> Iterator[Tensor]:
    """Pairs for a step: stretches of neighbours, which are hard to tell apart, from many places."""
    chance = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(0, count - run, (size // run,), generator=chance)
        yield (starts[:, None] + torch.arange(run)).flatten()


def train(work: str, out: str, *, steps: int, size: int, check: str, bits: int) -> None:
    """Bring the student's cosines to the mean of the teachers'."""
    torch.manual_seed(SEED)
    with numpy.load(os.path.join(work, "texts.npz")) as kept:
        links, words = torch.from_numpy(kept["links"]).to(DEVICE), kept["words"].tolist()
        flat = torch.from_numpy(kept["flat"].astype(numpy.int64)).to(DEVICE)
        begins = torch.from_numpy(kept["starts"]).to(DEVICE)
    teachers = [torch.load(os.path.join(work, name)).to(DEVICE) for name in ("teacher0.pt", "teacher1.pt")]
    model = Static(len(words)).to(DEVICE)
    heads = nn.ModuleList(nn.Linear(DIMENSIONS, teacher.shape[1]) for teacher in teachers).to(DEVICE)
    optimiser = torch.optim.Adam(
        [{"params": model.parameters(), "lr": 0.01}, {"params": heads.parameters(), "lr": 0.001}]
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / 300) * max(0.02, 1 - step / steps)
    )
    started = time.time()
    for step, batch in enumerate(batches(len(links), size, 64, SEED)):
        if step == steps:
            break
        if step == steps * 2 // 3:
            model.bits = bits
        chosen = links[batch.to(DEVICE)]
        sides = [_gathered(flat, begins, chosen[:, side]) for side in (0, 1)]
        one, other = (model(*side) for side in sides)
        loss = torch.zeros((), device=DEVICE)
        wanted = torch.zeros(len(batch), len(batch), device=DEVICE)
        alike = torch.zeros(len(batch), len(batch), device=DEVICE)
        for teacher, head in zip(teachers, heads, strict=True):
            theirs = [teacher[chosen[:, side]].float() for side in (0, 1)]
            wanted += theirs[0] @ theirs[1].T / len(teachers)
            alike += theirs[1] @ theirs[1].T / len(teachers)
            for ours, their in zip((one, other), theirs, strict=True):
                loss = loss + 1 - functional.cosine_similarity(head(ours), their).mean()
        ours = one @ other.T
        loss = loss + 4 * (_apart(ours, wanted) + _apart(ours.T, wanted.T))
        loss = loss + 20 * (ours - wanted).square().mean() + 20 * (other @ other.T - alike).square().mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 500 == 0 or step == steps - 1:
            told = _checked(model, words, check) if check else ""
            print(f"step {step} loss {loss.item():.4f} {time.time() - started:.0f} s {told}", flush=True)
    numpy.savez(out, table=model.weights().detach().half().cpu().numpy(), words=numpy.array(words))


def _apart(ours: Tensor, theirs: Tensor, heat: float = 0.05) -> Tensor:
    wanted = functional.log_softmax(theirs / heat, dim=1)
    found = functional.log_softmax(ours / heat, dim=1)
    return functional.kl_div(found, wanted, log_target=True, reduction="batchmean")


def _gathered(flat: Tensor, begins: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The tokens of some texts one after the other, each once a text, and where each text begins."""
    first = begins[chosen]
    lengths = begins[chosen + 1] - first
    starts = torch.cumsum(lengths, 0) - lengths
    rows = torch.repeat_interleave(torch.arange(len(chosen), device=flat.device), lengths)
    places = torch.arange(int(lengths.sum()), device=flat.device) - starts[rows] + first[rows]
    pairs = torch.unique(rows * 2**20 + flat[places])
    rows, tokens = pairs >> 20, pairs & (2**20 - 1)
    return tokens, torch.searchsorted(rows, torch.arange(len(chosen), device=flat.device))


@torch.no_grad()
def _checked(model: Static, words: list[str], path: str) -> str:
    """How often one of the right memories is among the first five, for questions that are held out."""
    with open(path, encoding="utf-8") as file:
        held = json.load(file)
    greedy = Greedy(words)

    def encode(texts: list[str]) -> Tensor:
        rows = [sorted(set(greedy(text))) or [0] for text in texts]
        starts = numpy.cumsum([0, *map(len, rows)])[:-1]
        flat = torch.tensor([token for row in rows for token in row], device=DEVICE)
        return model(flat, torch.tensor(starts, device=DEVICE))

    memories = encode([f"{one['name']}. {one['description']}. {one['body'][:600]}" for one in held["mem"]])
    place = {one["path"]: number for number, one in enumerate(held["mem"])}
    questions = [one for one in held["q"] if one["gold"]]
    best = (encode([one["q"] for one in questions]) @ memories.T).topk(10).indices.tolist()
    hits = [[place[path] for path in one["gold"]] for one in questions]
    rows = list(zip(best, hits, strict=True))
    shares = {depth: sum(bool({*row[:depth]} & {*gold}) for row, gold in rows) / len(rows) for depth in (1, 5, 10)}
    return " ".join(f"@{depth} {share:.3f}" for depth, share in shares.items())


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("embed", "static"))
    parser.add_argument("work")
    parser.add_argument("--teachers", nargs=2, default=())
    parser.add_argument("--out", default="")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=4_096, help="pairs a step")
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--check", default="", help="a held-out set to watch")
    given = parser.parse_args()
    if given.command == "embed":
        embed(given.work, list(given.teachers))
    else:
        options = {"steps": given.steps, "size": given.size, "check": given.check, "bits": given.bits}
        train(given.work, given.out, **options)


if __name__ == "__main__":
    main()
