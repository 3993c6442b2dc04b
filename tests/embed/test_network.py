"""The arithmetic, against one that is slow and plain."""

from __future__ import annotations

import math
from typing import Any

import numpy
from numpy import float32, float64

from memsheaf.embed.minilm import HEAD, ModelArchive, assemble, forward, read
from memsheaf.embed.tensors import Array

BATCH = [[2, 3], [2, 40, 3], [2, 41, 3], [2, *range(5, 60), 3], [2, *[44] * 254, 3]]


def plain(published: dict[str, Array], tokens: list[int]) -> Any:
    """One text through BERT as it is described: float64, one head after the other, the exact error function."""
    p = {name: array.astype(float64) for name, array in published.items()}

    def linear(x: Any, name: str) -> Any:
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        deviation = numpy.sqrt(x.var(axis=1, keepdims=True) + 1e-12)
        return (x - x.mean(axis=1, keepdims=True)) / deviation * p[f"{name}.weight"] + p[f"{name}.bias"]

    x = p["embeddings.word_embeddings.weight"][tokens]
    x = x + p["embeddings.position_embeddings.weight"][: len(tokens)]
    x = norm(x + p["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for number in range(2):
        layer = f"encoder.layer.{number}"
        query, key, value = (linear(x, f"{layer}.attention.self.{part}") for part in ("query", "key", "value"))
        heads = []
        for start in range(0, x.shape[1], HEAD):
            part = slice(start, start + HEAD)
            scores = numpy.exp(query[:, part] @ key[:, part].T / math.sqrt(HEAD))
            heads.append(scores / scores.sum(axis=1, keepdims=True) @ value[:, part])
        seen = linear(numpy.concatenate(heads, axis=1), f"{layer}.attention.output.dense")
        x = norm(x + seen, f"{layer}.attention.output.LayerNorm")
        wide = linear(x, f"{layer}.intermediate.dense")
        wide = wide * 0.5 * (1 + numpy.vectorize(math.erf)(wide / math.sqrt(2)))
        x = norm(x + linear(wide, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    mean = x.mean(axis=0)
    return mean / numpy.linalg.norm(mean)


def test_vectors_are_those_of_the_plain_arithmetic(source: ModelArchive, published: dict[str, Array]) -> None:
    found = forward(assemble(read(source)), BATCH)
    assert found.dtype == float32
    assert numpy.abs(found - [plain(published, tokens) for tokens in BATCH]).max() < 1e-5


def test_a_vector_does_not_depend_on_its_neighbours(source: ModelArchive) -> None:
    network = assemble(read(source))
    together = forward(network, BATCH)
    for tokens, row in zip(BATCH, together, strict=True):
        assert numpy.abs(forward(network, [tokens])[0] - row).max() < 1e-5
