"""all-MiniLM-L6-v2 in numpy: 384 dimensions, English best, the first 256 tokens of a text.

The tokens of a batch lie one after the other, without padding. Most of BERT's arithmetic treats each alone; only
attention and the mean at the end need to know where a text begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from threading import Lock

import numpy
from numpy import float32
from numpy.typing import NDArray

from memsheaf.embed.embedder import Embedder, Usual
from memsheaf.embed.threads import one_thread
from memsheaf.embed.weights import FORMAT, Array, ModelArchive, load
from memsheaf.embed.wordpiece import WordPiece
from memsheaf.values import NamedTuple

Floats = NDArray[float32]

HEAD = 32
"""How many dimensions one head of attention looks at."""

_EPSILON = float32(1e-12)
_ROWS = 64  # gelu takes several steps over its numbers; this many rows of them stay near the processor

# erfc(x) = (c1 t + c2 t² + … + c5 t⁵) exp(-x²) with t = 1 / (1 + p x), to 1.5e-7: Abramowitz and Stegun, 7.1.26.
_P = 0.3275911
_C = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_BATCH = 1024  # tokens at a time: more is no faster, and takes more memory


class Linear(NamedTuple):
    """A matrix from inputs to outputs, and what is added to its product."""

    weight: Floats
    bias: Floats


class Layer(NamedTuple):
    """Attention, then two matrices with a bend between; each ends in a norm, given by its weight and bias."""

    attention: Linear
    out: Linear
    out_norm: Linear
    up: Linear
    down: Linear
    down_norm: Linear


class Network(NamedTuple):
    """All that is known about words, places and their meaning. A row of `words` counts times its scale."""

    words: Array
    scales: Floats
    places: Floats
    norm: Linear
    layers: tuple[Layer, ...]

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return int(self.words.shape[1])


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
        made = numpy.empty((len(texts), network.dimensions), float32)
        for places in _batches([len(found) for found in tokens], _BATCH):
            with one_thread():
                made[places] = forward(network, [tokens[place] for place in places])
        return made

    def _load(self) -> _Ready:
        with self._lock:
            if self._ready is None:
                arrays = load(self._source, self._cache)
                vocabulary = arrays["vocabulary"].tobytes().decode().split("\n")
                self._ready = _Ready(WordPiece(vocabulary), assemble(arrays))
            return self._ready


class Concatenated:
    """The vectors of two embedders side by side; a cosine is then the mean of theirs.

    They err differently, so that together they find more than the better one alone.
    """

    def __init__(self, one: Embedder, other: Embedder, usual: Usual) -> None:
        self.identity = f"{one.identity} and {other.identity}"
        self.usual = usual
        self._parts = (one, other)

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return sum(part.dimensions for part in self._parts)

    def encode(self, texts: Sequence[str]) -> NDArray[float32]:
        """One row of length 1 a text. Raises EmbedderFailed when one of them does."""
        rows: NDArray[float32] = numpy.concatenate([part.encode(texts) for part in self._parts], axis=1)
        rows *= float32(0.5**0.5)
        return rows


def assemble(arrays: Mapping[str, Array]) -> Network:
    """A network from its arrays by name, the scales multiplied out but for words, of which a text has few.

    All are copies: what they were read from can go. Raises KeyError when one is missing.
    """

    def linear(name: str) -> Linear:
        weight = arrays[f"{name}.weight"] * arrays.get(f"{name}.scale", float32(1))
        return Linear(weight, arrays[f"{name}.bias"].copy())

    count = sum(name.endswith(".attention.weight") for name in arrays)
    layers = (Layer(*(linear(f"{number}.{part}") for part in Layer._fields)) for number in range(count))
    words = arrays["words.weight"].copy()
    scales = arrays.get("words.scale", float32(1)) * numpy.ones((len(words), 1), float32)
    return Network(words, scales, arrays["places"].copy(), linear("norm"), tuple(layers))


def forward(network: Network, batch: Sequence[Sequence[int]]) -> Floats:
    """A vector of length 1 for each list of tokens. No list is empty; equal lengths beside each other go together.

    Raises:
        IndexError: there is no such token, or there are more than the network has places for.
    """
    lengths = [len(tokens) for tokens in batch]
    flat = numpy.concatenate([numpy.asarray(tokens, numpy.intp) for tokens in batch])
    state: Floats = network.words[flat] * network.scales[flat]
    state += network.places[numpy.concatenate([numpy.arange(length) for length in lengths])]
    state = _normed(state, network.norm)
    for layer in network.layers:
        seen = _attention(_linear(state, layer.attention), lengths)
        state = _normed(state + _linear(seen, layer.out), layer.out_norm)
        wide = _gelu(_linear(state, layer.up))
        state = _normed(state + _linear(wide, layer.down), layer.down_norm)
    starts = numpy.cumsum([0, *lengths[:-1]])
    sums: Floats = numpy.add.reduceat(state, starts, axis=0)
    sums /= numpy.linalg.norm(sums, axis=1, keepdims=True)
    return sums


def _linear(state: Floats, by: Linear) -> Floats:
    made = state @ by.weight
    made += by.bias
    return made


def _normed(state: Floats, by: Linear) -> Floats:
    state = state - state.mean(axis=1, keepdims=True)
    spread = numpy.einsum("ij,ij->i", state, state)[:, None] / float32(state.shape[1])
    state /= numpy.sqrt(spread + _EPSILON)
    state *= by.weight
    state += by.bias
    return state


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
