"""Our tokens are the reference's: `tokens.json` has what it says for a made-up vocabulary, and for the real one."""

from __future__ import annotations

import json
import unicodedata
import zipfile
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from memsheaf.embed.minilm import ModelArchive
from memsheaf.embed.tensors import Array, Vocabulary, pack
from memsheaf.embed.wordpiece import WordPiece


def wordpiece(pieces: list[str]) -> WordPiece:
    return WordPiece(Vocabulary(pack(pieces)))


SMALL = wordpiece(["[UNK]", "[CLS]", "[SEP]", "[", "]", "sep", "a", "b", "##b", "ab", "x", "東"])


def tokens(text: str) -> list[int]:
    return SMALL.encode(text)[1:-1]


def test_every_text_has_the_tokens_of_the_reference(token_rows: dict[str, Any]) -> None:
    words = wordpiece(token_rows["vocabulary"])
    assert len(token_rows["rows"]) == 200
    for text, expected, _ in token_rows["rows"]:
        assert words.encode(text) == expected, ascii(text[:60])


def test_the_real_vocabulary_is_in_order_and_gives_the_tokens_of_the_reference(
    token_rows: dict[str, Any], real: ModelArchive, real_arrays: dict[str, Array]
) -> None:
    words = WordPiece(Vocabulary(real_arrays))
    for text, _, expected in token_rows["rows"]:
        assert words.encode(text) == expected, ascii(text[:60])
    with zipfile.ZipFile(real.archive) as archive:
        vocabulary = json.loads(archive.read("tokenizer.json"))["model"]["vocab"]
    numbers = Vocabulary(real_arrays)
    assert {piece: numbers[piece] for piece in vocabulary} == vocabulary


@pytest.mark.skipif(
    find_spec("tokenizers") is None, reason="compares with the package tokenizers where it is installed"
)
def test_any_text_has_the_tokens_of_the_reference(token_rows: dict[str, Any]) -> None:
    tokenizers: Any = import_module("tokenizers")
    vocabulary = {piece: number for number, piece in enumerate(token_rows["vocabulary"])}
    reference = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    reference.normalizer = tokenizers.normalizers.BertNormalizer()
    reference.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    words = wordpiece(token_rows["vocabulary"])

    # Python's tables know more of Unicode than the reference's: letters and marks that came later are left out.
    characters = st.characters(exclude_categories=["Cs", "Cn"]).filter(
        lambda character: unicodedata.ucd_3_2_0.category(character) == unicodedata.category(character)
    )

    @given(st.text(st.one_of(characters, st.sampled_from("ab .,中e\u0301\t\x00")), max_size=60))
    def compare(text: str) -> None:
        assert words.encode(text)[1:-1] == reference.encode(text).ids

    compare()


@each_case(
    "text, expected",
    [
        ("a[SEP]b", [6, 3, 5, 4, 7]),  # a mark in a text is brackets and letters
        ("a\x00\u200b\ud800b", [9]),  # what is removed glues
        ("a\u00a0b", [6, 7]),  # what separates splits
        ("a\u3000b", [6, 7]),
        ("Ä\u0301B", [9]),  # case and accents do not matter
        ("a東b", [6, 11, 7]),  # an ideograph is a word of its own
        ("abbb abq", [9, 8, 8, 0]),  # a word whose rest is unknown is unknown as a whole
        ("a" + "b" * 99, [9] + [8] * 98),
        ("a" + "b" * 100, [0]),  # longer than any word
    ],
)
def test_a_text_has_these_tokens(text: str, expected: list[int]) -> None:
    assert tokens(text) == expected
