"""Text similarity: whether texts say the same, and whether one still says what another said.

Two texts are compared by their words: lower case, punctuation turned into spaces, the share of words that both have
among all that either has. From 0.85 on they are near-duplicates. Where the words are the same but a number is not,
they are two facts, or a fact and its correction; so are a sentence and its negation, or the same words in another
order.

Whether something gets lost is a comparison of pieces, not of meaning: every telling word, number, path, address and
piece of code, and who did it to whom. It refuses much that a reader would let pass, which is the wanted side to be
wrong on: what it refuses stays as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from struct import Struct
from typing import NamedTuple, TypeVar
from zlib import crc32

from memsheaf.memory import Memory
from memsheaf.text import tokenizer
from memsheaf.values import compiled

T = TypeVar("T")

LIKE = 0.85
BINS, BAND, _SHIFT = 64, 4, 26
_PLACES, _BANDS, _PACK = range(BINS - 1, -1, -1), range(0, 4 * BINS, 4 * BAND), Struct(f"<{BINS}I").pack
SHARED = 3  # of the 16 traces; of texts with a fifth of their words in common, one pair in a hundred has so many
TELLING = 8  # a text of fewer words says too little without its name

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = r"[^\W_]+"
_SIGNS = r"(?<!\w)[a-z](?:\+\+|#)|[=!<>]=+|[<>](?!\w)|[€$£¥]"
_SCRIPT, _SCRIPT_START = f"[{_UNSPACED}]+|[^{_UNSPACED}]+", f"[{_UNSPACED}]"
_USUAL = (
    "a an and are as at be by do for from how if in is it its no not of on or our so that the their then there these "
    "they this to use used uses using was we when which why will with you your apply all any always"
)
_DENYING = (
    "not no never none without cannot neither nor dont doesnt isnt arent wont cant shouldnt mustnt "
    "nicht kein keine keinen nie niemals ohne ne pas jamais sans aucun nunca sin tampoco"
)
_COMMON, _NEGATIONS = frozenset(_USUAL.split()), frozenset(_DENYING.split())
_LOWER = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
_NEGATING = "不没別别无無勿非ぬず"


def words(text: str) -> list[str]:
    """The words of a text, in order, as they are compared; a script without spaces gives pairs of characters.

    >>> words("Don't use `snake_case`, ever.")
    ['dont', 'use', 'snake', 'case', 'ever']
    """
    if text.isascii():
        return text.replace("'", "").translate(_LOWER).split()
    text = unicodedata.normalize("NFKC", text).replace("’", "'")
    found = compiled(_WORD).findall(text.casefold().replace("'", ""))
    return [piece for word in found for piece in _pieces(word)]


def tokens(text: str) -> frozenset[str]:
    """The words of a text, each once."""
    return frozenset(words(text))


def telling(text: str) -> frozenset[str]:
    """The words of a text, each once, without those that are in every text."""
    return tokens(text) - _COMMON


def likeness(a: Collection[T], b: Collection[T]) -> float:
    """The share of words, or of their prints, that both have; 0.0 when there are none at all.

    >>> likeness(tokens("Releases go out on Fridays."), tokens("releases: go out, on Fridays!"))
    1.0
    """
    first, second = frozenset(a), frozenset(b)
    both = len(first & second)
    return both / (len(first) + len(second) - both) if both else 0.0


def fact(memory: Memory) -> list[str]:
    """The words that a memory is compared by: those of its text, and of its name when these are few."""
    found = compared_words(memory.body)
    return found if len(set(found)) >= TELLING else words(memory.name) + found


@lru_cache(maxsize=8)  # what is saved is looked at several times
def compared_words(text: str) -> list[str]:
    """Return the words of a text, and the signs that make two words or two sums differ.

    >>> compared_words("I like C++"), compared_words("costs 5 €")
    (['i', 'like', 'c', 'c++'], ['costs', '5', '€'])
    """
    return words(text) + re.findall(_SIGNS, text.lower())


def alike(a: Sequence[str], b: Sequence[str]) -> float:
    """How alike two facts are; 0.0 with other numbers, or when one denies what the other does not: two facts.

    >>> alike(words("the service listens on port 8080"), words("the service listens on port 8081"))
    0.0
    """
    if numbers(a) != numbers(b) or denials(a) != denials(b):
        return 0.0
    is_reordered = list(a) != list(b) and sorted(a) == sorted(b)
    return 0.0 if is_reordered else likeness(a, b)  # "Bob reports to Anna" is not "Anna reports to Bob"


def same(a: Memory, b: Memory) -> float:
    """How alike two memories are, 0.0 unless one can stand for the other.

    The words that both have come in the same order, and nothing is denied in one that is not denied in the other.
    """
    first, second = fact(a), fact(b)
    if _order(first, second) != _order(second, first):
        return 0.0
    return alike(first, second)


def prints(found: Collection[str]) -> list[int]:
    """The words as numbers, each once."""
    return sorted(set(map(crc32, " ".join(found).encode("utf-8", "replace").split())))


def traces(found: Collection[str]) -> list[int]:
    """A few numbers by which a near-duplicate is known: it has at least `SHARED` of them, and hardly another text.

    The words fall by their numbers into bins, of which each keeps the least; an empty one takes that of the next. Two
    texts agree in as large a share of bins as they have of their words in common. Four bins make a trace.
    """
    return _traces(tuple(found))


@lru_cache(maxsize=8)  # what is saved is looked for first, and then indexed
def _traces(found: tuple[str, ...]) -> list[int]:
    numbers = prints(found)
    least = {number >> _SHIFT: number for number in reversed(numbers)}
    last = numbers[0] if numbers else 0
    bins = [last := least[place] if place in least else last + 1 & 0xFFFFFFFF for place in _PLACES]
    data = _PACK(*reversed(bins))
    return [crc32(data[at : at + 4 * BAND], at) for at in _BANDS]


def _pieces(word: str) -> list[str]:
    pieces = []
    for part in compiled(_SCRIPT).findall(word):
        if len(part) < 2 or not compiled(_SCRIPT_START).match(part):
            pieces.append(part)
        else:
            pieces += [part[at : at + 2] for at in range(len(part) - 1)]
    return pieces


def numbers(found: Collection[str]) -> frozenset[str]:
    """The words that are numbers, or hold one."""
    return frozenset(word for word in found if not word.isalpha())


def denials(found: Sequence[str]) -> int:
    """How many of these words deny something."""
    return sum(word in _NEGATIONS or not set(_NEGATING).isdisjoint(word) for word in found)


def _order(found: Sequence[str], other: Sequence[str]) -> list[str]:
    """The words that the other has, too, in the order in which they first come here."""
    known = frozenset(other)
    return list(dict.fromkeys(word for word in found if word in known))


SAID = 5  # so many missing pieces a reason names
NAMES = 20  # of a sentence, whose order is compared

# Small words that turn a rule into another; search leaves most of them out.
_SMALL = """
after always before every except first if last least less may more most must only should unless until
nur immer muss bis wenn außer seulement toujours sauf avant après solo siempre salvo hasta antes después
"""
_QUALIFYING = frozenset(_SMALL.split())
_EDGES = ".,;:!?()[]{}<>\"'“”‘’«»。，、；：！？（）「」"
_SENTENCE_END = r"[.!?;]\s|[\n。！？；]"
_NAME = r"\b[A-Z][\w-]*[a-z][\w-]*"
_CODE = r"(?<!`)`+[^`\n]+`+"
# addresses, paths, and names with a dot or an at sign inside
_PLACE = r"[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`]+|[\w.@~-]*[/\\@][\w./\\@~#:-]+|\w[\w-]*(?:\.\w[\w-]*)+"
_NUMBER = r"(?<!\w)[-+]?\d(?:[\d.,:/-]*\d)?(?:%|[A-Za-z]{1,3}\b)?"


class _Pieces(NamedTuple):
    """What a text says, as far as it can be told from its pieces: telling words, and what must stand there exactly.

    A word of a sentence that denies something is another word: "not deploy" is not said by "deploy".
    """

    words: frozenset[str]
    exact: frozenset[str]


def _pieces_of(text: str) -> _Pieces:
    """The pieces of a text that must not get lost.

    >>> sorted(_pieces_of("Never run `make deploy` on port 8080, see src/app.py").exact)
    ['8080', 'make deploy', 'src/app.py']
    """
    exact = {piece.strip("`").strip() for piece in compiled(_CODE).findall(text)}
    exact |= {piece.strip(_EDGES) for piece in compiled(_PLACE).findall(text)}
    exact |= set(compiled(_NUMBER).findall(text))
    telling = (word for sentence in compiled(_SENTENCE_END).split(text) for word in _telling(sentence))
    return _Pieces(frozenset(telling), frozenset(exact - {""}))


def says_more(one: str | Memory, than: Memory) -> bool:
    """Whether one says something that the other does not."""
    return bool(lost([one], than))


def lost(before: Iterable[str | Memory], after: Memory) -> str:
    """What of some texts is no longer said by a memory, in words; "" when all is.

    >>> from memsheaf.memory import parse
    >>> lost(["The proxy listens on 8080."], parse("a.md", b"The proxy listens on 8081."))
    'it loses 8080'
    """
    now, whole = _pieces_of(_whole(after)), _flat(_whole(after))
    missing: list[str] = []
    for one in before:
        was = _pieces_of(_whole(one))
        missing += sorted(piece for piece in was.exact - now.exact if not _stands(piece, whole))
        missing += sorted(was.words - now.words)
        body = one if isinstance(one, str) else one.body
        missing += [f"that {first} comes before {second}" for first, second in _turned(body, after.body)]
    return f"it loses {_named(missing)}" if missing else ""


def _turned(before: str, after: str) -> list[tuple[str, str]]:
    """Names that stand in one order in every sentence of a text, and in the other in every sentence of another."""
    was, now = _pairs(before), _pairs(after)
    return sorted(pair for pair in was - now if pair[::-1] in now - was)


def _pairs(text: str) -> set[tuple[str, str]]:
    pairs = set()
    for sentence in compiled(_SENTENCE_END).split(text):
        names = list(dict.fromkeys(compiled(_NAME).findall(sentence)))[:NAMES]
        pairs |= {(first, second) for at, first in enumerate(names) for second in names[at + 1 :]}
    return pairs


def invented(before: Sequence[Memory], after: Memory) -> str:
    """What a memory says that none of its sources said, in words; "" when there is nothing."""
    sources = "\n".join(map(_whole, before))
    was, now, whole = _pieces_of(sources), _pieces_of(_whole(after)), _flat(sources)
    new = sorted(piece for piece in now.exact - was.exact if not _stands(piece, whole))
    new += sorted(now.words - was.words)
    return f"it adds {_named(new)}" if new else ""


def _telling(sentence: str) -> Iterable[str]:
    plain = words(sentence)
    telling = [word for word in tokenizer.words(sentence) if len(word) > 1 and not tokenizer.is_weak(word)]
    telling += [word for word in plain if word in _QUALIFYING]
    denied = "not " if denials(plain) else ""
    return [denied + word for word in telling]


def _whole(one: str | Memory) -> str:
    """All that a memory says to a reader."""
    if isinstance(one, str):
        return one
    return "\n".join((one.name, one.description, one.body, *one.citations))


def _flat(text: str) -> str:
    return f" {' '.join(text.split())} "


def _stands(piece: str, whole: str) -> bool:
    """Whether a piece stands in a text with nothing on either side that would make it another."""
    return bool(re.search(rf"(?<![\w./-]){re.escape(' '.join(piece.split()))}(?![\w/-]|\.\w)", whole))


def _named(pieces: Sequence[str]) -> str:
    each = list(Counter(pieces))
    more = f" and {len(each) - SAID} more" if len(each) > SAID else ""
    return ", ".join(piece[:60] for piece in each[:SAID]) + more


def split_code(text: str) -> tuple[str, list[str]]:
    """A text without its blocks of code, and the lines of these."""
    kept: list[str] = []
    code: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = line.lstrip()[:3]
        if fence and mark == fence:
            fence = ""
        elif fence:
            code.append(line)
        elif mark in ("```", "~~~"):
            fence = mark
        else:
            kept.append(line)
    return "\n".join(kept), code
