"""all-MiniLM-L6-v2, run by numpy alone: 384 dimensions, English best, the first 256 tokens of a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import NamedTuple

import numpy
from numpy import float32

from memsheaf.embed.network import Floats, Network, assemble, forward
from memsheaf.embed.threads import one_thread
from memsheaf.embed.weights import FORMAT, Source, load
from memsheaf.embed.wordpiece import WordPiece

_BATCH = 1024  # tokens at a time: more is no faster, and takes more memory


class _Ready(NamedTuple):
    words: WordPiece
    network: Network


class MiniLM:
    """Texts as vectors. The weights are read when the first text comes; threads may share it."""

    dimensions = 384

    def __init__(self, source: Source, cache: str) -> None:
        self.identity = f"all-MiniLM-L6-v2 {source.weights[:12]} {FORMAT}"
        self._source = source
        self._cache = cache
        self._lock = Lock()
        self._ready: _Ready | None = None

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row of length 1 a text, in their order.

        Raises:
            EmbedderFailed: the weights cannot be read, or are not the ones we know.
        """
        words, network = self._load()
        tokens = [words.encode(text) for text in texts]
        made = numpy.empty((len(texts), network.dimensions), float32)
        for places in _batches([len(found) for found in tokens]):
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


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Which texts go together: the short ones first, so that equal lengths meet.

    >>> list(_batches([600, 2, 600, 2]))
    [[1, 3, 0], [2]]
    """
    batch: list[int] = []
    tokens = 0
    for place in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and tokens + lengths[place] > _BATCH:
            yield batch
            batch, tokens = [], 0
        batch.append(place)
        tokens += lengths[place]
    if batch:
        yield batch
