"""The WordPiece tokenizer of BERT.

Special tokens such as [SEP] are no words here: in a text they are brackets and letters, so that no memory speaks to
the model from outside its own text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memsheaf.embed.tensors import Vocabulary

TOKENS = 256  # tokens of a text that the model reads, first and last mark included
_CHARACTERS = 100_000  # what 254 pieces are taken from, unless a text is made of almost nothing
_WORD = 100  # a longer word is unknown as a whole
_CACHED = 32  # longer words hardly return

# What separates words: controls other than these three are removed, and glue together what they stood between.
_WORDS = re.compile("[^\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
_PARTS = re.compile(r"[a-z0-9]+|[^a-z0-9]")
_PLAIN = re.compile(r"[!-~]+")
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip


class WordPiece:
    """Texts as token numbers.

    >>> from memsheaf.embed.tensors import Vocabulary, pack
    >>> words = WordPiece(Vocabulary(pack(["[UNK]", "[CLS]", "[SEP]", "sheaf", "mem", "##sheaf"])))
    >>> words.encode("Memsheaf sheaf"), words.encode("corn")
    ([1, 4, 5, 3, 2], [1, 0, 2])
    """

    def __init__(self, numbers: Vocabulary) -> None:
        self._numbers = numbers
        self._unknown, self._first, self._last = (numbers[mark] for mark in ("[UNK]", "[CLS]", "[SEP]"))
        self._cached = lru_cache(maxsize=16_384)(lambda word: tuple(self._pieces(word)))

    def encode(self, text: str, *, limit: int = TOKENS) -> list[int]:
        """The numbers of a text, between the marks of its begin and end: `limit` at most."""
        return [self._first, *islice(self._all(text[:_CHARACTERS]), limit - 2), self._last]

    def _all(self, text: str) -> Iterator[int]:
        for found in _WORDS.finditer(text):
            word = found[0]
            yield from self._cached(word) if len(word) <= _CACHED else self._pieces(word)

    def _pieces(self, word: str) -> Iterator[int]:
        for part in _PARTS.findall(word.lower()) if _PLAIN.fullmatch(word) else _split(word):
            number = self._numbers[part]
            yield from self._greedy(part) if number < 0 else (number,)

    def _greedy(self, word: str) -> list[int]:
        """The longest known beginning, again and again; unknown as a whole when a rest has none."""
        if len(word) > _WORD:
            return [self._unknown]
        found: list[int] = []
        start, mark = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._numbers.longest), start, -1):
                number = self._numbers[mark + word[start:end]]
                if number >= 0:
                    break
            else:
                return [self._unknown]
            found.append(number)
            start, mark = end, "##"
        return found


def _split(word: str) -> Iterator[str]:
    """What stands between blanks, cleaned, and cut at punctuation and around each ideograph.

    >>> list(_split("Ça\\u200b,東京"))
    ['ca', ',', '東', '京']
    """
    kept: list[str] = []
    clean = "".join(character for character in word if not _removed(character))
    for character in unicodedata.normalize("NFD", clean):
        if unicodedata.category(character) == "Mn":
            continue
        if _alone(character):
            if kept:
                yield "".join(kept)
                kept.clear()
            yield character.lower()
        else:
            kept.append(character.lower())
    if kept:
        yield "".join(kept)


@lru_cache(maxsize=4096)
def _removed(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs") or character == "\ufffd"


@lru_cache(maxsize=4096)
def _alone(character: str) -> bool:
    if character.isascii():
        return not character.isalnum()
    code = ord(character)
    return unicodedata.category(character)[0] == "P" or any(first <= code <= last for first, last in _IDEOGRAPHS)
