"""Whether what a text says is still said by another: every telling word, number, path, address and piece of code, and
who did it to whom.

It is a comparison of pieces, not of meaning, so it refuses much that a reader would let pass. That is the wanted side
to be wrong on: what it refuses stays as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from memsheaf.memory import Memory
from memsheaf.text.similarity import denials, words
from memsheaf.text.tokenizer import is_weak
from memsheaf.text.tokenizer import words as stems
from memsheaf.values import NamedTuple

SAID = 5  # so many missing pieces a reason names
NAMES = 20  # of a sentence, whose order is compared

# Small words that turn a rule into another; search leaves most of them out.
_SMALL = """
after always before every except first if last least less may more most must only should unless until
nur immer muss bis wenn außer seulement toujours sauf avant après solo siempre salvo hasta antes después
"""
_QUALIFYING = frozenset(_SMALL.split())
_EDGES = ".,;:!?()[]{}<>\"'“”‘’«»。，、；：！？（）「」"


class Said(NamedTuple):
    """What a text says, as far as it can be told from its pieces: telling words, and what must stand there exactly.

    A word of a sentence that denies something is another word: "not deploy" is not said by "deploy".
    """

    words: frozenset[str]
    exact: frozenset[str]


def says(text: str) -> Said:
    """The pieces of a text that must not get lost.

    >>> sorted(says("Never run `make deploy` on port 8080, see src/app.py").exact)
    ['8080', 'make deploy', 'src/app.py']
    """
    exact = {piece.strip("`").strip() for piece in _code().findall(text)}
    exact |= {piece.strip(_EDGES) for piece in _place().findall(text)}
    exact |= set(_number().findall(text))
    telling = (word for sentence in _sentence_end().split(text) for word in _telling(sentence))
    return Said(frozenset(telling), frozenset(exact - {""}))


def says_more(one: str | Memory, than: Memory) -> bool:
    """Whether one says something that the other does not."""
    return bool(lost([one], than))


def lost(before: Iterable[str | Memory], after: Memory) -> str:
    """What of some texts is no longer said by a memory, in words; "" when all is.

    >>> from memsheaf.memory import parse
    >>> lost(["The proxy listens on 8080."], parse("a.md", b"The proxy listens on 8081."))
    'it loses 8080'
    """
    now, whole = says(_whole(after)), _flat(_whole(after))
    missing: list[str] = []
    for one in before:
        was = says(_whole(one))
        missing += sorted(piece for piece in was.exact - now.exact if not _stands(piece, whole))
        missing += sorted(was.words - now.words)
        missing += [f"that {first} comes before {second}" for first, second in _turned(_body(one), _body(after))]
    return f"it loses {_named(missing)}" if missing else ""


def _turned(before: str, after: str) -> list[tuple[str, str]]:
    """Names that stand in one order in every sentence of a text, and in the other in every sentence of another."""
    was, now = _pairs(before), _pairs(after)
    return sorted(pair for pair in was - now if pair[::-1] in now - was)


def _pairs(text: str) -> set[tuple[str, str]]:
    pairs = set()
    for sentence in _sentence_end().split(text):
        names = list(dict.fromkeys(_name().findall(sentence)))[:NAMES]
        pairs |= {(first, second) for at, first in enumerate(names) for second in names[at + 1 :]}
    return pairs


def invented(before: Sequence[Memory], after: Memory) -> str:
    """What a memory says that none of its sources said, in words; "" when there is nothing."""
    was = [says(_whole(memory)) for memory in before]
    now = says(_whole(after))
    whole = _flat("\n".join(_whole(memory) for memory in before))
    known = frozenset[str]().union(*(one.exact for one in was))
    new = sorted(piece for piece in now.exact - known if not _stands(piece, whole))
    new += sorted(now.words - frozenset[str]().union(*(one.words for one in was)))
    return f"it adds {_named(new)}" if new else ""


def _telling(sentence: str) -> Iterable[str]:
    plain = words(sentence)
    telling = [word for word in stems(sentence) if not is_weak(word) and (len(word) > 1 or word.isascii())]
    telling += [word for word in plain if word in _QUALIFYING]
    denied = "not " if denials(plain) else ""
    return [denied + word for word in telling]


def _whole(one: str | Memory) -> str:
    """All that a memory says to a reader."""
    if isinstance(one, str):
        return one
    return "\n".join((one.name, one.description, one.body, *one.citations))


def _body(one: str | Memory) -> str:
    return one if isinstance(one, str) else one.body


def _flat(text: str) -> str:
    return f" {' '.join(text.split())} "


def _stands(piece: str, whole: str) -> bool:
    """Whether a piece stands in a text with nothing on either side that would make it another."""
    return bool(re.search(rf"(?<![\w./-]){re.escape(' '.join(piece.split()))}(?![\w/-]|\.\w)", whole))


def _named(pieces: Sequence[str]) -> str:
    each = list(Counter(pieces))
    more = f" and {len(each) - SAID} more" if len(each) > SAID else ""
    return ", ".join(piece[:60] for piece in each[:SAID]) + more


@cache
def _sentence_end() -> re.Pattern[str]:
    return re.compile(r"[.!?;]\s|[\n。！？；]")


@cache
def _name() -> re.Pattern[str]:
    return re.compile(r"\b[A-Z][\w-]*[a-z][\w-]*")


@cache
def _code() -> re.Pattern[str]:
    return re.compile(r"(?<!`)`+[^`\n]+`+")


@cache
def _place() -> re.Pattern[str]:
    """Addresses, paths, and names with a dot or an at sign inside."""
    return re.compile(r"[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`]+|[\w.@~-]*[/\\@][\w./\\@~#:-]+|\w[\w-]*(?:\.\w[\w-]*)+")


@cache
def _number() -> re.Pattern[str]:
    return re.compile(r"(?<!\w)[-+]?\d(?:[\d.,:/-]*\d)?(?:%|[A-Za-z]{1,3}\b)?")
