"""Text similarity: whether texts say the same.

Two texts are compared by their words: lower case, punctuation turned into spaces. `likeness` is the share of words
that both have among all that either has, `coverage` the share of one text's words that the other has. Both are judged
by the three levels below. Where the words are the same but a number is not, they are two facts, or a fact and its
correction; so are a sentence and its negation, or the same words in another order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from struct import pack
from zlib import crc32

from memsheaf.memory import Memory
from memsheaf.text.tokenizer import UNSPACED

SAME = 0.85
"""Two texts are near-duplicates. This level alone refuses a save, or lets one text stand for the other."""
LIKELY = 0.6
"""Most of a text is in the other, so it comes from there. This refuses nothing."""
RELATED = 0.34
"""Two texts are about the same thing: one is shown beside the other, or lends it its doubt."""

MIN_SHARED_TRACES = 3  # of 16; of texts with a fifth of their words in common, one pair in a hundred has so many
MIN_FACT_WORDS = 8  # a text of fewer words says too little without its name
MAX_COMPARED_KEEPERS = 100  # for each trace that a text shares with them

# A letter of a script without spaces; pairs of such letters, one of them alone, or a word of another script.
_UNSPACED_LETTER = rf"(?![\W_])[{UNSPACED}]"
_COMPARED_WORD = (
    rf"(?=((?:{_UNSPACED_LETTER}){{2}})){_UNSPACED_LETTER}"
    rf"|((?<!{_UNSPACED_LETTER}){_UNSPACED_LETTER}(?!{_UNSPACED_LETTER})|[^\W_{UNSPACED}]+)"
)
_TELLING_SIGN = r"(?<!\w)[a-z](?:\+\+|#)|[=!<>]=+|[<>](?!\w)|[€$£¥]"
_COMMON_WORDS = (
    " a an and are as at be by do for from how if in is it its no not of on or our so that the their then there "
    "these they this to use used uses using was we when which why will with you your apply all any always "
)
_NEGATING_WORDS = (
    " not no never none without cannot neither nor dont doesnt isnt arent wont cant shouldnt mustnt "
    "nicht kein keine keinen nie niemals ohne ne pas jamais sans aucun nunca sin tampoco "
)
_LOWER_ASCII = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
_NEGATING_SIGNS = "不没別别无無勿非ぬず"
_PUNCTUATION = ".,;:!?()[]{}<>\"'“”‘’«»。，、；：！？（）「」*_#"


@lru_cache(maxsize=8)  # what is saved is looked at several times
def words(text: str) -> list[str]:
    """Return the words of a text as they are compared, then the signs that make two words or two sums differ.

    A script without spaces gives pairs of characters.

    >>> words("Don't use `snake_case`, ever."), words("C++ costs 5 €"), words("日本語 R")
    (['dont', 'use', 'snake', 'case', 'ever'], ['c', 'costs', '5', 'c++', '€'], ['日本', '本語', 'r'])
    """
    signs = re.findall(_TELLING_SIGN, text.lower())
    if text.isascii():
        return text.replace("'", "").translate(_LOWER_ASCII).split() + signs
    plain = re.sub("['’]", "", unicodedata.normalize("NFKC", text)).casefold()
    return [pair or word for pair, word in re.findall(_COMPARED_WORD, plain)] + signs


def telling(text: str) -> frozenset[str]:
    """Return the words of a text, each once, without those that are in every text."""
    return frozenset(words(text)).difference(_COMMON_WORDS.split())


def likeness(a: Collection[object], b: Collection[object]) -> float:
    """Return the share of words, or of their prints, that both have; 0.0 when there are none at all.

    >>> likeness(words("Releases go out on Fridays."), words("releases: go out, on Fridays!"))
    1.0
    """
    first = frozenset(a)
    return len(first.intersection(b)) / max(1, len(first.union(b)))


def coverage(part: Collection[str], whole: Collection[str]) -> float:
    """Return the share of a text's words that another has; 1.0 where there is nothing to cover."""
    needed = frozenset(part)
    return len(needed.intersection(whole)) / len(needed) if needed else 1.0


def fact(memory: Memory) -> list[str]:
    """Return the words that a memory is compared by: those of its text, and of its name when these are few."""
    body = words(memory.body)
    return body if len(set(body)) >= MIN_FACT_WORDS else words(memory.name) + body


def alike(a: Sequence[str], b: Sequence[str]) -> float:
    """Return how alike two facts are; 0.0 with other numbers, or when one denies what the other does not: two facts.

    >>> alike(words("the service listens on port 8080"), words("the service listens on port 8081"))
    0.0
    """
    if numbers(a) != numbers(b) or denials(a) != denials(b):
        return 0.0
    if list(a) != list(b) and sorted(a) == sorted(b):  # "Bob reports to Anna" is not "Anna reports to Bob"
        return 0.0
    return likeness(a, b)


def group_alike(facts: Sequence[Sequence[str]], joins: Callable[[int, int], bool]) -> list[list[int]]:
    """Return the groups of facts that say the same, each by their numbers, the keeper first.

    Each fact joins the first keeper before it that has nearly its words, its numbers and its denials, and for which
    `joins(keeper, fact)` is true; without one it is a keeper itself. What is like a member of a group, and not like
    its keeper, is not in the group. Only those are compared that have one of their `traces` in common.
    """
    groups: list[list[int]] = []
    holders: dict[tuple[object, ...], list[list[int]]] = {}  # the groups whose keeper has these
    for number, fact in enumerate(facts):
        keys = [(numbers(fact), denials(fact), trace) for trace in traces(fact)]
        near = [group for key in keys for group in holders.get(key, ())[-MAX_COMPARED_KEEPERS:]]
        for group in sorted(near):  # by the numbers of their keepers
            keeper = group[0]
            if likeness(facts[keeper], fact) >= SAME and joins(keeper, number):
                group.append(number)
                break
        else:
            groups.append([number])
            for key in keys:
                holders.setdefault(key, []).append(groups[-1])
    return [group for group in groups if len(group) > 1]


def has_order(a: Sequence[str], b: Sequence[str]) -> bool:
    """Return True if the words that both facts have come in the same order in both."""
    first = [word for word in dict.fromkeys(a) if word in b]
    second = [word for word in dict.fromkeys(b) if word in a]
    return first == second


def prints(words: Collection[str]) -> list[int]:
    """Return the words as numbers, each once."""
    return sorted(set(map(crc32, " ".join(words).encode("utf-8", "replace").split())))


def traces(words: Collection[str]) -> list[int]:
    """Return 16 numbers by which a near-duplicate is known: it has `MIN_SHARED_TRACES` of them, hardly another text.

    The words fall by the highest bits of their numbers into 64 bins, of which each keeps the least; an empty one
    takes that of the next and adds 1. Two texts agree in as large a share of bins as they have of their words in
    common. Four bins make a trace.
    """
    numbers = prints(words)
    least = {number >> 26: number for number in reversed(numbers)}
    bins = [numbers[0] if numbers else 0]
    for place in reversed(range(64)):
        bins.append(least.get(place, (bins[-1] + 1) & 0xFFFFFFFF))
    data = pack("<64I", *bins[:0:-1])
    return [crc32(data[start : start + 16], start) for start in range(0, len(data), 16)]


def numbers(words: Collection[str]) -> frozenset[str]:
    """Return the words that are numbers or signs, or hold one."""
    return frozenset(word for word in words if not word.isalpha())


def denials(words: Sequence[str]) -> int:
    """Return how many of these words deny something."""
    return sum(f" {word} " in _NEGATING_WORDS or not set(_NEGATING_SIGNS).isdisjoint(word) for word in words)


def sentences(text: str) -> set[tuple[str, ...]]:
    """Return the sentences of a text, each as its words in small letters, without punctuation around them.

    >>> sentences("Ask Priya. Never on 1.2!") == sentences("- ask Priya\\n(never on 1.2)")
    True
    """
    compared = set()
    for sentence in re.split(r"(?<=[.!?;])\s|[\n。！？；]", text):
        bare = re.sub(r"^\s*[-*•]\s", "", sentence)
        compared.add(tuple(filter(None, (word.strip(_PUNCTUATION).casefold() for word in bare.split()))))
    return compared - {()}


def sentences_of(memory: Memory) -> set[tuple[str, ...]]:
    """Return the sentences of all that a memory says to a reader."""
    return sentences("\n".join((memory.name, memory.description, memory.body, *memory.citations)))
