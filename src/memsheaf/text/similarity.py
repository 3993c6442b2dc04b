"""Text similarity: whether texts say the same, and whether one still says what another said.

Two texts are compared by their words: lower case, punctuation turned into spaces. `likeness` is the share of words
that both have among all that either has, `coverage` the share of one text's words that the other has. Both are judged
by the three levels below. Where the words are the same but a number is not, they are two facts, or a fact and its
correction; so are a sentence and its negation, or the same words in another order.

Whether something gets lost is a comparison of pieces, not of meaning: every telling word, number, path, address and
piece of code, and who did it to whom. It refuses much that a reader would let pass, which is the wanted side to be
wrong on: what it refuses stays as it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from struct import pack
from zlib import crc32

from memsheaf.memory import Memory
from memsheaf.text import tokenizer
from memsheaf.text.tokenizer import UNSPACED

SAME = 0.85
"""Two texts are near-duplicates. This level alone refuses a save, or lets one text stand for the other."""
LIKELY = 0.6
"""Most of a text is in the other, so it comes from there. This refuses nothing."""
RELATED = 0.34
"""Two texts are about the same thing: one is shown beside the other, or lends it its doubt."""

SHARED = 3  # of the 16 traces; of texts with a fifth of their words in common, one pair in a hundred has so many
MIN_FACT_WORDS = 8  # a text of fewer words says too little without its name
MAX_COMPARED_KEEPERS = 100  # for each rare word that a text shares with them

# A letter of a script without spaces; pairs of such letters, one of them alone, or a word of another script.
_LETTER = rf"(?![\W_])[{UNSPACED}]"
_WORD = rf"(?=((?:{_LETTER}){{2}})){_LETTER}|((?<!{_LETTER}){_LETTER}(?!{_LETTER})|[^\W_{UNSPACED}]+)"
_SIGNS = r"(?<!\w)[a-z](?:\+\+|#)|[=!<>]=+|[<>](?!\w)|[€$£¥]"
_COMMON = (
    " a an and are as at be by do for from how if in is it its no not of on or our so that the their then there "
    "these they this to use used uses using was we when which why will with you your apply all any always "
)
_NEGATIONS = (
    " not no never none without cannot neither nor dont doesnt isnt arent wont cant shouldnt mustnt "
    "nicht kein keine keinen nie niemals ohne ne pas jamais sans aucun nunca sin tampoco "
)
_LOWER = "".join(chr(code).lower() if chr(code).isalnum() else " " for code in range(128))
_NEGATING = "不没別别无無勿非ぬず"


@lru_cache(maxsize=8)  # what is saved is looked at several times
def words(text: str) -> list[str]:
    """Return the words of a text as they are compared, then the signs that make two words or two sums differ.

    A script without spaces gives pairs of characters.

    >>> words("Don't use `snake_case`, ever."), words("C++ costs 5 €"), words("日本語 R")
    (['dont', 'use', 'snake', 'case', 'ever'], ['c', 'costs', '5', 'c++', '€'], ['日本', '本語', 'r'])
    """
    signs = re.findall(_SIGNS, text.lower())
    if text.isascii():
        return text.replace("'", "").translate(_LOWER).split() + signs
    plain = unicodedata.normalize("NFKC", text).replace("’", "'").casefold().replace("'", "")
    return [pair or word for pair, word in re.findall(_WORD, plain)] + signs


def telling(text: str) -> frozenset[str]:
    """Return the words of a text, each once, without those that are in every text."""
    return frozenset(words(text)).difference(_COMMON.split())


def likeness(a: Collection[object], b: Collection[object]) -> float:
    """Return the share of words, or of their prints, that both have; 0.0 when there are none at all.

    >>> likeness(words("Releases go out on Fridays."), words("releases: go out, on Fridays!"))
    1.0
    """
    first, second = frozenset(a), frozenset(b)
    both = len(first & second)
    return both / (len(first) + len(second) - both) if both else 0.0


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
    is_reordered = list(a) != list(b) and sorted(a) == sorted(b)
    return 0.0 if is_reordered else likeness(a, b)  # "Bob reports to Anna" is not "Anna reports to Bob"


def group_alike(facts: Sequence[Collection[str]], joins: Callable[[int, int], bool]) -> list[list[int]]:
    """Return the groups of facts that say the same, each by their numbers, the keeper first.

    Each fact joins the first keeper before it that has nearly its words, its numbers and its denials, and for which
    `joins(keeper, fact)` is true; without one it is a keeper itself. What is like a member of a group, and not like
    its keeper, is not in the group. Only those are compared that share a rare word: of 20 words, near-duplicates
    differ in at most 3, so they have one of their four rarest in common.
    """
    often = Counter(word for fact in facts for word in set(fact))
    holders: dict[tuple[object, ...], list[int]] = {}
    groups: list[list[int]] = []
    for number, fact in enumerate(facts):
        each = sorted(set(fact), key=lambda word: (often[word], word))
        keys = [(numbers(each), denials(each), word) for word in each[: int(len(each) * (1 - SAME)) + 1]]
        near = {group for key in keys for group in holders.get(key, ())[-MAX_COMPARED_KEEPERS:]}
        for group in sorted(near):
            keeper = groups[group][0]
            if likeness(facts[keeper], fact) >= SAME and joins(keeper, number):
                groups[group].append(number)
                break
        else:
            for key in keys:
                holders.setdefault(key, []).append(len(groups))
            groups.append([number])
    return [group for group in groups if len(group) > 1]


def has_order(a: Sequence[str], b: Sequence[str]) -> bool:
    """Return True if the words that both facts have come in the same order in both."""
    shared = set(a).intersection(b)
    orders = [list(dict.fromkeys(word for word in fact if word in shared)) for fact in (a, b)]
    return orders[0] == orders[1]


def prints(found: Collection[str]) -> list[int]:
    """Return the words as numbers, each once."""
    return sorted(set(map(crc32, " ".join(found).encode("utf-8", "replace").split())))


def traces(found: Collection[str]) -> list[int]:
    """Return a few numbers by which a near-duplicate is known: it has at least `SHARED` of them, hardly another text.

    The words fall by the highest bits of their numbers into 64 bins, of which each keeps the least; an empty one
    takes that of the next. Two texts agree in as large a share of bins as they have of their words in common. Four
    bins make a trace.
    """
    numbers = prints(found)
    least = {number >> 26: number for number in reversed(numbers)}
    last = numbers[0] if numbers else 0
    bins: list[int] = []
    for place in reversed(range(64)):
        last = least.get(place, (last + 1) & 0xFFFFFFFF)
        bins.append(last)
    data = pack("<64I", *reversed(bins))
    return [crc32(data[at : at + 16], at) for at in range(0, len(data), 16)]


def numbers(found: Collection[str]) -> frozenset[str]:
    """Return the words that are numbers or signs, or hold one."""
    return frozenset(word for word in found if not word.isalpha())


def denials(found: Sequence[str]) -> int:
    """Return how many of these words deny something."""
    return sum(f" {word} " in _NEGATIONS or not set(_NEGATING).isdisjoint(word) for word in found)


MAX_NAMED_PIECES = 5  # in a reason
MAX_ORDERED_NAMES = 20  # of a sentence, whose order is compared

# Small words that turn a rule into another; search leaves most of them out.
_QUALIFYING = """
after always before every except first if last least less may more most must only should unless until
nur immer muss bis wenn außer seulement toujours sauf avant après solo siempre salvo hasta antes después
"""
_EDGES = ".,;:!?()[]{}<>\"'“”‘’«»。，、；：！？（）「」"
_SENTENCE_END = r"[.!?;]\s|[\n。！？；]"
_NAME = r"\b[A-Z][\w-]*[a-z][\w-]*"
_CODE = r"(?<!`)`+[^`\n]+`+"
# addresses, paths, and names with a dot or an at sign inside
_PLACE = r"[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`]+|[\w.@~-]*[/\\@][\w./\\@~#:-]+|\w[\w-]*(?:\.\w[\w-]*)+"
_NUMBER = r"(?<!\w)[-+]?\d(?:[\d.,:/-]*\d)?(?:%|[A-Za-z]{1,3}\b)?"


def lost(before: Iterable[str | Memory], after: Memory) -> str:
    """Return what of some texts is no longer said by a memory, in words; "" when all is.

    >>> from memsheaf.memory import parse
    >>> lost(["The proxy listens on 8080."], parse("a.md", b"The proxy listens on 8081."))
    'it loses 8080'
    """
    missing: list[str] = []
    now = _ordered_names(after.body)
    for text in before:
        missing += _find_missing(_whole(text), _whole(after))
        was = _ordered_names(text if isinstance(text, str) else text.body)
        turned = sorted(pair for pair in was - now if pair[::-1] in now - was)
        missing += [f"that {first} comes before {second}" for first, second in turned]
    return _name_pieces("it loses", missing)


def _find_missing(text: str, other: str) -> list[str]:
    """Return the pieces of a text that the other does not have: those that must stand there exactly, then words."""
    flat = " ".join(other.split())
    missing = []
    for piece in sorted(_exact_pieces(text) - _exact_pieces(other)):
        exactly = re.escape(" ".join(piece.split()))
        if not re.search(rf"(?<![\w./-]){exactly}(?![\w/-]|\.\w)", flat):
            missing.append(piece)
    return missing + sorted(_telling_pieces(text) - _telling_pieces(other))


def _exact_pieces(text: str) -> set[str]:
    """Return the numbers, paths, addresses and pieces of code of a text.

    >>> sorted(_exact_pieces("Never run `make deploy` on port 8080, see src/app.py"))
    ['8080', 'make deploy', 'src/app.py']
    """
    code = {piece.strip("`").strip() for piece in re.findall(_CODE, text)}
    places = {piece.strip(_EDGES) for piece in re.findall(_PLACE, text)}
    return code.union(places, re.findall(_NUMBER, text)) - {""}


def _telling_pieces(text: str) -> set[str]:
    """Return the telling words; where a sentence denies something, "not deploy" is not said by "deploy"."""
    pieces: set[str] = set()
    for sentence in re.split(_SENTENCE_END, text):
        plain = words(sentence)
        telling = {word for word in tokenizer.words(sentence) if len(word) > 1 and not tokenizer.is_weak(word)}
        prefix = "not " if denials(plain) else ""
        pieces |= {prefix + word for word in telling | set(plain).intersection(_QUALIFYING.split())}
    return pieces


def _ordered_names(text: str) -> set[tuple[str, str]]:
    """Return the pairs of names that stand in this order in a sentence."""
    pairs: set[tuple[str, str]] = set()
    for sentence in re.split(_SENTENCE_END, text):
        names = list(dict.fromkeys(re.findall(_NAME, sentence)))[:MAX_ORDERED_NAMES]
        pairs.update(combinations(names, 2))
    return pairs


def _whole(text: str | Memory) -> str:
    """Return all that a memory says to a reader."""
    if isinstance(text, str):
        return text
    return "\n".join((text.name, text.description, text.body, *text.citations))


def _name_pieces(verb: str, pieces: Iterable[str]) -> str:
    each = [piece[:60] for piece in dict.fromkeys(pieces)]
    if len(each) > MAX_NAMED_PIECES:
        each[MAX_NAMED_PIECES - 1 :] = [f"{each[MAX_NAMED_PIECES - 1]} and {len(each) - MAX_NAMED_PIECES} more"]
    return f"{verb} {', '.join(each)}" if each else ""
