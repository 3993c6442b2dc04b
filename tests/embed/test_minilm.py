"""The embedder through its door, small and real. `vectors.json` has what the reference says about the real one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy import float32

from memsheaf.embed import Embedder
from memsheaf.embed.minilm import MiniLM, ModelArchive
from memsheaf.embed.threads import one_thread, thread_switch

TEXTS = 1000 if os.environ.get("MEMSHEAF_LONG") else 24


@pytest.fixture
def small(source: ModelArchive, tmp_path: Path) -> MiniLM:
    return MiniLM(source, str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def embedder(real: ModelArchive, real_cache: str) -> Embedder:
    return MiniLM(real, real_cache)


def test_texts_become_rows_of_length_one_in_their_order(small: MiniLM) -> None:
    texts = ["the memory", "", "deployment of staging " * 200, "the memory", "數據庫"]
    found = small.encode(texts)
    assert found.dtype == float32
    assert found.shape == (5, 64)
    assert numpy.abs(numpy.linalg.norm(found, axis=1) - 1).max() < 1e-5
    for text, row in zip(texts, found, strict=True):
        assert numpy.abs(small.encode([text])[0] - row).max() < 1e-5


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(texts=st.lists(st.text(st.characters(exclude_categories=[]), max_size=400), max_size=4))
def test_any_text_has_a_vector(small: MiniLM, texts: list[str]) -> None:
    found = small.encode(texts)
    assert found.shape == (len(texts), 64)
    assert numpy.isfinite(found).all()


def test_the_identity_tells_weights_apart(source: ModelArchive) -> None:
    other = source._replace(weights="0" * 64)
    assert MiniLM(source, "").identity != MiniLM(other, "").identity


def test_vectors_are_those_of_the_reference(embedder: Embedder, vector_rows: dict[str, Any]) -> None:
    found = embedder.encode([text for text, _ in vector_rows["rows"][:TEXTS]])
    first = numpy.array([numbers for _, numbers in vector_rows["rows"][:TEXTS]])
    assert numpy.abs(found[:, :8] - first).max() < 1e-5
    for row, expected in zip(found, vector_rows["cosines"], strict=False):
        assert numpy.abs(found[: len(expected)] @ row - expected).max(initial=0) < 1e-4


def test_what_means_the_same_is_closer(embedder: Embedder) -> None:
    question, answer, other = "Who do I ask about invoices?", "Ana owns the billing service.", "Bananas are rich."
    asked, near, far = embedder.encode([question, answer, other])
    assert asked @ near > asked @ far + 0.1


def test_one_thread_is_used_and_the_number_is_put_back_also_after_a_failure() -> None:
    before, during = thread_switch().read(), []

    def fail() -> None:
        with one_thread():
            during.append(thread_switch().read())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (during, thread_switch().read()) == ([1], before)
