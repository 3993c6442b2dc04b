"""Add words of other languages to the table, each with the number of the English word that is nearest in meaning.

python training/translate.py src/memsheaf/embed/static.table

The words are the pieces of the universal sentence encoder's vocabulary, which is multilingual, and so is its measure
of what is near. English words are those of the table that MiniLM's vocabulary has, too. Takes about five minutes.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from tempfile import gettempdir

import numpy

from memsheaf.embed import minilm, use
from memsheaf.embed.tensors import Array, Tensors, Vocabulary, dump, pack, parse

LEAST = 0.6  # the cosine that a word has with its English one


def words_of(arrays: dict[str, Array]) -> list[str]:
    """The pieces of a vocabulary, in the order of their numbers."""
    text, starts = arrays["pieces"].tobytes(), arrays["starts"].tolist()
    return [text[start:end].decode() for start, end in pairwise(starts)]


def foreign(pieces: list[str], known: set[str]) -> list[str]:
    """Pieces that are letters and not known; of Latin ones those that begin a word, and have four letters."""
    found = {}
    for piece in pieces:
        word = piece.lstrip("▁").lower()
        is_short = word.isascii() and (len(word) < 4 or not piece.startswith("▁"))
        if word.isalpha() and word not in known and not is_short:
            found[word] = True
    return list(found)


def main(path: str) -> None:
    """Rewrite the table; words that were added before are replaced."""
    with open(path, "rb") as file:
        table = parse(file.read())
    kept = {name: array for name, array in table.arrays.items() if name != "english" and "." not in name}
    words, multilingual = words_of(kept), use.read(use.installed())
    small = Vocabulary(minilm.read(minilm.installed()))
    is_target = [word.isascii() and word.isalpha() and len(word) > 2 and small[word] >= 0 for word in words]
    targets = numpy.flatnonzero(is_target)
    others = foreign(words_of(multilingual), set(words))
    encoder = use.UniversalSentenceEncoder(use.installed(), gettempdir())
    english = encoder.encode([words[number] for number in targets])
    nearest, cosines = [], []
    for start in range(0, len(others), 2_000):
        products = encoder.encode(others[start : start + 2_000]) @ english.T
        nearest.append(products.argmax(axis=1))
        cosines.append(products.max(axis=1))
    is_near = numpy.concatenate(cosines) >= LEAST
    added = pack([word for word, near in zip(others, is_near, strict=True) if near])
    arrays = kept | {f"others.{name}": array for name, array in added.items()}
    arrays["english"] = targets[numpy.concatenate(nearest)[is_near]].astype(numpy.uint32)
    data = dump(Tensors(arrays, table.about))
    with open(path, "wb") as file:
        file.write(data)
    print(f"{is_near.sum():,} words of other languages, {len(data):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1])
