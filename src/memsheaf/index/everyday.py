"""Everyday messages (greetings, small talk, general knowledge, short commands), which need no memory.

A message is about something remembered when it is nearer to a memory than such messages are. How near they are
differs from store to store and from embedder to embedder, so it is measured: their vectors are compared with those of
the store. `everyday.txt` has them, one a line, with a blank line between two kinds.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy
from numpy import bool_, float32
from numpy.typing import NDArray

from memsheaf.values import sha256

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "everyday.txt")
NEIGHBOURS = 3
WEIGHT = 0.6
"""What being near to an everyday message takes from being near to a memory."""

SILENT = 0.95  # of everyday messages that recall nothing, kinds that are not among them included
EVERY = 3  # one in so many is compared with the store: enough for a share

Floats = NDArray[float32]


def kinds() -> list[list[str]]:
    """The messages of each kind."""
    with open(FILE, encoding="utf-8") as file:
        return [part.splitlines() for part in file.read().strip().split("\n\n")]


class Everyday:
    """The vectors of everyday messages, and how near each is to those of the other kinds.

    Its own kind is left out, as if nobody had thought of it: the threshold then holds for kinds that are not here.
    """

    def __init__(self, vectors: Floats, near: Floats) -> None:
        self._vectors = vectors
        self._near = near

    def within(self, known: NDArray[bool_]) -> Everyday:
        """The same in some of the dimensions: a text in another language may have no others."""
        vectors = self._vectors * known
        vectors /= numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
        return Everyday(vectors, _near_others(vectors, kinds()))

    def handicap(self, question: Floats) -> float:
        """What a message must be nearer to a memory because of its nearness to them."""
        return WEIGHT * float(_nearest(self._vectors @ question))

    def threshold(self, best: Callable[[Floats], Floats]) -> float:
        """What few of them reach: the cosine with the best memory, less their nearness to each other.

        `best` gives for each of some vectors the highest cosine with a memory.
        """
        reached = best(self._vectors[::EVERY]) - float32(WEIGHT) * self._near[::EVERY]
        return round(float(numpy.quantile(reached, SILENT)), 4)


def load(identity: str, dimensions: int, encode: Callable[[Sequence[str]], Floats], folder: str) -> Everyday:
    """The messages as an embedder sees them, from a file in the cache folder, or embedded and kept there."""
    every = kinds()
    digest = sha256(f"{dimensions} {identity} {every}".encode()).hexdigest()[:16]
    path = os.path.join(folder, f"everyday-{digest}")
    data = b""
    with suppress(OSError), open(path, "rb") as file:
        data = file.read()
    if zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little") or not data:
        data = _embed(every, encode)
        with suppress(OSError):  # no room, or not ours to write: then the next process makes them anew
            draft = f"{path}.{os.getpid()}"
            with open(draft, "wb") as file:
                file.write(data)
            os.replace(draft, path)
    rows = numpy.frombuffer(data, numpy.float16, offset=4).reshape(-1, dimensions + 1).astype(float32)
    return Everyday(rows[:, 1:], rows[:, 0])


def _embed(every: Sequence[Sequence[str]], encode: Callable[[Sequence[str]], Floats]) -> bytes:
    """A checksum, then for each message its nearness to those of other kinds and its vector, as float16."""
    vectors = numpy.concatenate([encode(messages) for messages in every])
    made = numpy.column_stack([_near_others(vectors, every), vectors]).astype(numpy.float16).tobytes()
    return zlib.crc32(made).to_bytes(4, "little") + made


def _near_others(vectors: Floats, every: Sequence[Sequence[str]]) -> Floats:
    """How near each is to those of other kinds."""
    of_kind = numpy.repeat(numpy.arange(len(every)), [len(messages) for messages in every])
    cosines = vectors @ vectors.T
    return numpy.array([_nearest(row[of_kind != kind]) for kind, row in zip(of_kind, cosines, strict=True)], float32)


def _nearest(cosines: Floats) -> Floats:
    """The mean of the highest few."""
    found: Floats = numpy.partition(cosines, -NEIGHBOURS)[-NEIGHBOURS:].mean()
    return found
