"""Everyday messages, which need no memory: greetings, small talk, general knowledge, short commands, pasted code.

A message is about something remembered when it is nearer to a memory than such messages are. How near they are
differs from store to store and from embedder to embedder, so it is measured: their vectors are compared with those of
the store. `everyday.txt` has them, one a line, with \\n for a line break and a blank line between two kinds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from zipfile import BadZipFile

import numpy
from numpy import bool_, float32
from numpy.typing import NDArray

from memsheaf.embed.threads import one_thread
from memsheaf.index.vectors import quantize

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "everyday.txt")
NEIGHBOURS = 3
WEIGHT = 0.6  # what being near to an everyday message takes from being near to a memory
SILENT = 0.93  # of small talk of kinds that are not here recalls nothing; of kinds that are here, more
TALK = 7  # kinds that must be silent; the others, pasted code and work on other things, may speak of a stored topic
EVERY = 3  # one in so many is compared with the store: enough for a share

Floats = NDArray[float32]


@cache
def kinds() -> list[list[str]]:
    """The messages of each kind."""
    with open(FILE, encoding="utf-8") as file:
        parts = file.read().strip().split("\n\n")
    return [[line.replace("\\n", "\n").replace("\\t", "\t") for line in part.split("\n")] for part in parts]


class Everyday:
    """The vectors of everyday messages, and how near each is to those of the other kinds.

    Its own kind is left out, as if nobody had thought of it: the threshold then holds for kinds that are not here.
    """

    def __init__(self, vectors: Floats, near: Floats) -> None:
        self._vectors = vectors
        self._near = near
        self._talk = sum(map(len, kinds()[:TALK]))

    def within(self, known: NDArray[bool_]) -> Everyday:
        """The same in some of the dimensions: a text in another language may have no others."""
        vectors = self._vectors * known
        vectors /= numpy.maximum(numpy.linalg.norm(vectors, axis=1, keepdims=True), 1e-6)
        return Everyday(vectors, _near_others(vectors, [len(each) for each in kinds()]))

    def handicap(self, question: Floats) -> float:
        """What a message must be nearer to a memory because of its nearness to them."""
        with one_thread():
            return WEIGHT * float(_nearest(self._vectors @ question))

    def threshold(self, best: Callable[[Floats], Floats]) -> float:
        """What few of them reach: the cosine with the best memory, less their nearness to each other.

        `best` gives for each of some vectors the highest cosine with a memory.
        """
        some = slice(0, self._talk, EVERY)
        with one_thread():
            reached = best(self._vectors[some]) - float32(WEIGHT) * self._near[some]
        return round(float(numpy.quantile(reached, SILENT)), 4)


def load(identity: str, dimensions: int, encode: Callable[[Sequence[str]], Floats], folder: str) -> Everyday:
    """Return the messages as an embedder sees them: from the package or the cache folder, or made now."""
    name = file_name(identity, dimensions)
    for place in (os.path.dirname(FILE), folder):
        # one that is damaged is made anew
        with (
            suppress(OSError, EOFError, KeyError, ValueError, BadZipFile),
            open(os.path.join(place, name), "rb") as file,
            numpy.load(file) as arrays,
        ):
            return Everyday(arrays["row"] * arrays["scale"][:, None], arrays["near"])
    each = [encode(messages) for messages in kinds()]
    vectors = numpy.concatenate(each)
    near = _near_others(vectors, [len(some) for some in each])
    records = quantize(vectors)
    with suppress(OSError):  # no room, or not ours to write: then the next process makes them anew
        draft = os.path.join(folder, f"{name}.{os.getpid()}")
        with open(draft, "wb") as output:
            numpy.savez(output, row=records["row"], scale=records["scale"], near=near)
        os.replace(draft, os.path.join(folder, name))
    return Everyday(records["row"] * records["scale"][:, None], near)


def file_name(identity: str, dimensions: int) -> str:
    """Where the vectors of these messages by an embedder are kept."""
    return f"everyday-{sha256(f'{dimensions} {identity} {kinds()}'.encode()).hexdigest()[:16]}.vectors"


def _near_others(vectors: Floats, sizes: Sequence[int]) -> Floats:
    """How near each is to those of other kinds, of which there are so many each."""
    of_kind = numpy.repeat(numpy.arange(len(sizes)), sizes)
    with one_thread():
        cosines = vectors @ vectors.T
    return numpy.array([_nearest(row[of_kind != kind]) for kind, row in zip(of_kind, cosines, strict=True)], float32)


def _nearest(cosines: Floats) -> Floats:
    """The mean of the highest few."""
    found: Floats = numpy.partition(cosines, -NEIGHBOURS)[-NEIGHBOURS:].mean()
    return found
