"""The embedder through its door, small and real. `vectors.json` has what the reference says about the real one."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy import float32

from memsheaf.embed import Embedder
from memsheaf.embed.minilm import MiniLM, assemble, forward
from memsheaf.embed.weights import Array, ModelArchive, exact
from memsheaf.embed.wordpiece import WordPiece


@pytest.fixture
def small(source: ModelArchive, tmp_path: Path) -> MiniLM:
    return MiniLM(source, str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def embedder(real: ModelArchive, real_cache: str) -> Embedder:
    return MiniLM(real, real_cache)


@pytest.fixture(scope="module")
def in_floats(real: ModelArchive, vector_rows: dict[str, Any]) -> Array:
    """The vectors of all texts with the weights as they were published."""
    arrays = exact(real)
    words = WordPiece(arrays["vocabulary"].tobytes().decode().split("\n"))
    network = assemble(arrays)
    return numpy.concatenate([forward(network, [words.encode(text)]) for text, _ in vector_rows["rows"]])


def test_texts_become_rows_of_length_one_in_their_order(small: MiniLM) -> None:
    texts = ["the memory", "", "deployment of staging " * 200, "the memory", "數據庫"]
    found = small.encode(texts)
    assert found.dtype == float32
    assert found.shape == (5, 64)
    assert numpy.abs(numpy.linalg.norm(found, axis=1) - 1).max() < 1e-5
    for text, row in zip(texts, found, strict=True):
        assert numpy.abs(small.encode([text])[0] - row).max() < 1e-5


def test_no_texts_are_no_rows(small: MiniLM) -> None:
    assert small.encode([]).shape == (0, 64)


def test_many_texts_are_the_same_as_each_alone(small: MiniLM) -> None:
    texts = ["memory " * (number % 40) for number in range(150)]
    found = small.encode(texts)
    assert numpy.abs(found[[3, 43, 83]] - small.encode([texts[3]])).max() < 1e-5


def test_threads_share_one(small: MiniLM) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: small.encode([f"memory {number % 3}"]), range(24)))
    for number, rows in enumerate(found):
        assert numpy.abs(rows - found[number % 3]).max() < 1e-6


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(texts=st.lists(st.text(st.characters(exclude_categories=[]), max_size=400), max_size=4))
def test_any_text_has_a_vector(small: MiniLM, texts: list[str]) -> None:
    found = small.encode(texts)
    assert found.shape == (len(texts), 64)
    assert numpy.isfinite(found).all()


def test_the_identity_tells_weights_apart(source: ModelArchive) -> None:
    other = source._replace(weights="0" * 64)
    assert MiniLM(source, "").identity != MiniLM(other, "").identity


def test_the_words_of_an_embedder_load_no_numpy() -> None:
    code = "import sys, memsheaf.embed, memsheaf.embed.wordpiece; print('numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "False\n"


def test_finding_prints_nothing_and_runs_nothing_of_the_package(real: ModelArchive, real_cache: str) -> None:
    code = f"""
import sys
from memsheaf.embed import find
find({real_cache!r}).encode(["a text"])
assert "all_minilm_l6_v2" not in sys.modules
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == result.stderr == ""


def test_the_real_one_says_what_it_is(embedder: Embedder) -> None:
    assert embedder.identity == "all-MiniLM-L6-v2 53aa51172d14 int8-1"
    assert embedder.dimensions == 384
    assert embedder.encode(["one", "two"]).shape == (2, 384)


def test_float_vectors_are_those_of_the_reference(in_floats: Array, vector_rows: dict[str, Any]) -> None:
    first = numpy.array([numbers for _, numbers in vector_rows["rows"]])
    assert numpy.abs(in_floats[:, :8] - first).max() < 1e-5
    for row, expected in zip(in_floats, vector_rows["cosines"], strict=True):
        assert numpy.abs(in_floats[: len(expected)] @ row - expected).max(initial=0) < 1e-4


def test_small_vectors_are_nearly_those_of_the_reference(
    embedder: Embedder, in_floats: Array, vector_rows: dict[str, Any]
) -> None:
    found = embedder.encode([text for text, _ in vector_rows["rows"]])
    assert (found * in_floats).sum(axis=1).min() > 0.995
    for row, expected in zip(found, vector_rows["cosines"], strict=True):
        assert numpy.abs(found[: len(expected)] @ row - expected).max(initial=0) < 0.02


@pytest.mark.parametrize(
    ("question", "answer", "other"),
    [
        (
            "Should I stub the database in tests?",
            "Integration tests must hit a real PostgreSQL.",
            "Ana owns billing.",
        ),
        ("Who do I ask about invoices?", "Ana owns the billing service.", "Bananas are rich in potassium."),
    ],
)
def test_what_means_the_same_is_closer(embedder: Embedder, question: str, answer: str, other: str) -> None:
    asked, near, far = embedder.encode([question, answer, other])
    assert asked @ near > asked @ far + 0.1
