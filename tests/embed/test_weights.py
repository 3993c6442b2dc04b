"""Only the weights we know are used, and the small file made from them mends itself."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import each_case
from memsheaf.embed import minilm
from memsheaf.embed.minilm import FILE, MiniLM, ModelArchive, read
from memsheaf.embed.tensors import Array
from memsheaf.errors import EmbedderFailed

TEXTS = ["the memory", "staging database", ""]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def vectors(source: ModelArchive, cache: Path) -> list[list[float]]:
    found: list[list[float]] = MiniLM(source, str(cache)).encode(TEXTS).tolist()
    return found


def test_the_second_start_reads_what_the_first_one_kept(source: ModelArchive, cache: Path) -> None:
    first = vectors(source, cache)
    os.unlink(source.archive)
    assert vectors(source, cache) == first
    assert os.listdir(cache) == [FILE]


@each_case("place", [0, 31, 32, 39, 60, 2000, -1, b"", b"\0" * 32, b"\0" * 5000, None])
def test_a_damaged_file_is_made_anew(source: ModelArchive, cache: Path, place: int | bytes | None) -> None:
    """With one bit turned at a place, with other bytes instead, or cut short."""
    first = vectors(source, cache)
    whole = (cache / FILE).read_bytes()
    damaged = bytearray(whole[: len(whole) // 2] if place is None else whole)
    if isinstance(place, int):
        damaged[place] ^= 1
    (cache / FILE).write_bytes(place if isinstance(place, bytes) else damaged)

    assert vectors(source, cache) == first
    assert len((cache / FILE).read_bytes()) == len(whole)


def test_a_file_made_from_other_weights_is_made_anew(
    source: ModelArchive,
    package: Callable[[str, dict[str, Array]], ModelArchive],
    published: dict[str, Array],
    cache: Path,
) -> None:
    words = "embeddings.word_embeddings.weight"
    old = vectors(source, cache)
    new = vectors(package("other.zip", {words: -published[words]}), cache)
    assert new != old
    assert vectors(source, cache) == old


@pytest.mark.parametrize("changed", ["weights", "tokenizer"])
def test_weights_we_do_not_know_are_refused_and_nothing_is_kept(
    source: ModelArchive, cache: Path, changed: str
) -> None:
    other = source._replace(**{changed: "0" * 64})
    with pytest.raises(EmbedderFailed, match="expected SHA-256") as caught:
        vectors(other, cache)
    assert "memsheaf[semantic]" in caught.value.hint
    assert not cache.exists()


def test_a_damaged_archive_is_refused_wherever_the_damage_is(source: ModelArchive, cache: Path) -> None:
    data = Path(source.archive).read_bytes()
    for place in [*range(26, 200, 13), *range(200, len(data) - 2000, len(data) // 10)]:
        Path(source.archive).write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        with pytest.raises(EmbedderFailed):
            read(source)


def test_an_archive_that_would_unpack_to_too_much_is_refused(
    source: ModelArchive, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minilm, "_MEMBER_LIMIT", 1000)
    with zipfile.ZipFile(source.archive, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.safetensors", bytes(1001))
    with pytest.raises(EmbedderFailed, match="larger than it can be"):
        read(source)
