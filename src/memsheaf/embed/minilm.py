"""all-MiniLM-L6-v2: 384 dimensions, English best, the first 256 tokens of a text.

numpy is all it needs. In bulk onnxruntime takes over where it is installed, as long as its vectors are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock

import numpy
from numpy import float32

from memsheaf.embed.network import Floats, Network, assemble, forward
from memsheaf.embed.threads import one_thread
from memsheaf.embed.weights import FORMAT, Source, load
from memsheaf.embed.wordpiece import WordPiece
from memsheaf.values import NamedTuple

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.embed.onnx import Runtime

_BATCH = 1024  # tokens at a time: more is no faster, and takes more memory
_RUNTIME_BATCH = 256  # the same for onnxruntime, where longer texts make the shorter ones wait
_MANY = 8  # texts at once that are bulk, and not a question
_WORTH = 4096  # tokens in bulk after which onnxruntime starts; it has made up for that after 2,700 to 4,300
_SAME = 0.999  # the least cosine of two vectors of one text


class _Ready(NamedTuple):
    words: WordPiece
    network: Network


class MiniLM:
    """Texts as vectors. The weights are read when the first text comes; threads may share it."""

    dimensions = 384

    def __init__(self, source: Source, cache: str) -> None:
        self.identity = f"all-MiniLM-L6-v2 {source.weights[:12]} {FORMAT}"
        self.engine = "numpy"
        self._source = source
        self._cache = cache
        self._lock = Lock()
        self._ready: _Ready | None = None
        self._bulk = 0
        self._runtime: Runtime | None = None

    def encode(self, texts: Sequence[str]) -> Floats:
        """One row of length 1 a text, in their order. `engine` tells what computes them, and why not onnxruntime.

        Raises:
            EmbedderFailed: the weights cannot be read, or are not the ones we know.
        """
        words, network = self._load()
        tokens = [words.encode(text) for text in texts]
        made = numpy.empty((len(texts), network.dimensions), float32)
        runtime = self._faster(tokens, network)
        if runtime is not None:
            try:
                for places in _batches([len(found) for found in tokens], _RUNTIME_BATCH):
                    made[places] = runtime.forward([tokens[place] for place in places])
                return made
            except Exception as error:  # noqa: BLE001 - a library that is broken may raise anything
                self._give_up(error)
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

    def _faster(self, tokens: Sequence[Sequence[int]], network: Network) -> Runtime | None:
        """onnxruntime, if it runs. It is started once, when there has been enough for it to do."""
        with self._lock:
            before = self._bulk
            if len(tokens) >= _MANY:
                self._bulk += sum(map(len, tokens))
            if before < _WORTH <= self._bulk:
                try:
                    self._runtime = self._started(tokens[:2], network)
                    self.engine = "onnxruntime"
                except Exception as error:  # noqa: BLE001 - a library that is broken may raise anything
                    if not (isinstance(error, ModuleNotFoundError) and error.name == "onnxruntime"):
                        self._give_up(error)
            return self._runtime

    def _started(self, sample: Sequence[Sequence[int]], network: Network) -> Runtime:
        from memsheaf.embed.onnx import Runtime

        runtime = Runtime(load(self._source, self._cache))
        with one_thread():
            expected = forward(network, sample)
        cosine = float((runtime.forward(sample) * expected).sum(axis=1).min())
        if not cosine >= _SAME:
            raise ValueError(f"its vectors are others, by a cosine of {cosine:.3f}")
        return runtime

    def _give_up(self, error: Exception) -> None:
        self._runtime = None
        self.engine = f"numpy, because onnxruntime failed: {type(error).__name__}: {error}"


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
