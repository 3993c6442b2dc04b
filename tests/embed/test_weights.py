"""Only the weights we know are used, and the small file made from them mends itself."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from cases import each_case
from memsheaf.embed import minilm, tensors
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


def test_nothing_is_kept_before_a_text_comes(source: ModelArchive, cache: Path) -> None:
    MiniLM(source, str(cache))
    assert not cache.exists()


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


def test_a_file_that_nobody_wrote_to_is_not_read_again(
    source: ModelArchive, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = vectors(source, cache)
    hashed: list[int] = []

    def counted(data: memoryview) -> Any:
        hashed.append(len(data))
        return sha256(data)

    monkeypatch.setattr(tensors, "sha256", counted)
    assert vectors(source, cache) == first
    assert hashed == []
    os.utime(cache / FILE)
    assert vectors(source, cache) == vectors(source, cache) == first
    assert hashed == [(cache / FILE).stat().st_size - 32]


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


def test_a_cache_that_cannot_be_written_is_done_without(source: ModelArchive, tmp_path: Path, cache: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    assert vectors(source, tmp_path / "file" / "cache") == vectors(source, cache)


def test_a_folder_in_the_way_is_done_without(source: ModelArchive, cache: Path) -> None:
    (cache / FILE).mkdir(parents=True)
    assert len(vectors(source, cache)) == len(TEXTS)


def test_the_draft_of_a_process_that_died_is_taken_over(source: ModelArchive, cache: Path) -> None:
    cache.mkdir()
    (cache / f"{FILE}.draft").write_bytes(b"half" * 10**7)
    first = vectors(source, cache)
    assert os.listdir(cache) == [FILE]
    assert vectors(source, cache) == first


def test_two_processes_that_write_a_draft_at_once_do_each_other_no_harm(source: ModelArchive, cache: Path) -> None:
    cache.mkdir()
    with (cache / f"{FILE}.{os.getpid() + 1}.draft").open("wb") as other:
        other.write(b"half")
        other.flush()
        first = vectors(source, cache)
        other.write(b"half")  # it goes on, and finds that another was faster
        other.flush()
    assert os.listdir(cache) == [FILE]
    assert vectors(source, cache) == first


@pytest.mark.parametrize("changed", ["weights", "tokenizer"])
def test_weights_we_do_not_know_are_refused_and_nothing_is_kept(
    source: ModelArchive, cache: Path, changed: str
) -> None:
    other = source._replace(**{changed: "0" * 64})
    with pytest.raises(EmbedderFailed, match="expected SHA-256") as caught:
        vectors(other, cache)
    assert "memsheaf[semantic]" in caught.value.hint
    assert not cache.exists()


def test_an_archive_that_is_none_is_refused(source: ModelArchive, cache: Path) -> None:
    Path(source.archive).write_bytes(b"PK but no archive")
    with pytest.raises(EmbedderFailed, match="cannot be read"):
        read(source)
    with zipfile.ZipFile(source.archive, "w") as archive:
        archive.writestr("readme", "nothing here")
    with pytest.raises(EmbedderFailed, match="cannot be read"):
        read(source)
    os.unlink(source.archive)
    with pytest.raises(EmbedderFailed, match="cannot be read"):
        read(source)


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
