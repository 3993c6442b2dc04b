"""The trained decision whether a new sentence takes the place of an older one, or is a fact beside it.

Two models compare the sentences, one after the other:

1. A logistic regression over hashed n-grams of roles. The role of a word is SHARED if both sentences have it, itself
   if it is common, else the sort of word it is. So it learns words of change: "not S", "moved to", "as well".
2. Boosted trees over `measure`: how much of each sentence the other covers, whether the words that only one of them
   has are akin (two numbers, two names, two words of one cluster), where they stand, and what the regression says.

A cluster stands for the meaning of a word: "tuesdays" and "wednesdays" are in one. Nothing here is made for one
language. `training/replacements.py` makes the table from labelled pairs.
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise, takewhile
from typing import NamedTuple

from memsheaf.text import classifier, tokenizer
from memsheaf.text.classifier import BITS, SCALE
from memsheaf.text.tokenizer import HALF_WIDTH_KANA, HAN_AND_KANA

# On writers who were left out, 0.3% of 2,000 near facts reach 0.927 and 1% reach 0.864, and of their 1,673 hard
# corrections 9% and 19%; 9% and 46% reach 0.5. Of the 20 short corrections and 20 other facts in
# tests/learn/pairs.json, 12 and none reach REPLACE_FROM, 18 and 2 reach LINK_FROM. `corrections.py` refuses more.
REPLACE_FROM = 0.91
LINK_FROM = 0.6
SHARED = "S"
SIGNS = frozenset("`@/0")  # code, addresses, paths and numbers, as `classifier.words` writes them
CLUSTER_BITS, COARSE_SHIFT = 17, 10  # of the hash by which a cluster is found, and of the fine cluster
AKIN, CLOSE = 1, 2  # words of one coarse cluster, and of one fine cluster

_SORTS = frozenset("~X`@/0")
_UNSPACED = f"[{HAN_AND_KANA}{HALF_WIDTH_KANA}]"
_HIRAGANA = "[\u3041-\u309f]"
_DIGIT = r"\d+"
_SENTENCE_END = r"[.!?;]\s|[。！？；]\s*\b"


class ComparedWord:
    """A word or sign of one sentence, as it is compared with those of the other."""

    def __init__(
        self, word: str, key: str, is_content: bool, is_telling: bool, is_name: bool, is_unspaced: bool
    ) -> None:
        self.word = word  # in lower case; one of SIGNS for a number, a path, code or an address
        self.key = key  # the stem, by which it is known in the other sentence
        self.is_content = is_content  # no function word
        self.is_telling = is_telling  # and no word of any talk
        self.is_name = is_name
        self.is_unspaced = is_unspaced  # of a script without blanks
        self.is_shared = False
        self.kinship = 0  # with the nearest word that only the other sentence has

    @property
    def is_alone(self) -> bool:
        """Return True for a word that tells something and that only this sentence has."""
        return self.is_telling and not self.is_shared


class DecisionTree(NamedTuple):
    """A full binary tree, level by level: the measure and the limit of each node, then the leaves."""

    measures: list[int]
    limits: list[float]
    leaves: list[float]


class ReplacementTable(NamedTuple):
    """Everything that is trained. The file holds a line of JSON with the trees, then the weights and the clusters."""

    base: float
    trees: list[DecisionTree]
    weights: memoryview
    clusters: memoryview


def replaces(old: str, new: str) -> float:
    """Return how likely a sentence takes the place of an older one, from 0 to 1; 0 where they share no word.

    >>> replaces("Deploys go out on Tuesdays.", "Deploys go out on Wednesdays now.") > REPLACE_FROM
    True
    """
    was, now = compare(old, new)
    if not any(word.is_content and word.is_shared for word in now):
        return 0.0
    table = load_table()
    places = hash_roles(was, now)
    hint = sum(table.weights[place] for place in places) / (SCALE * math.sqrt(len(places)))
    values = [*measure(was, now, old, new), hint]
    score = table.base
    for measures, limits, leaves in table.trees:
        node, size = 0, len(measures)
        while node < size:
            node = 2 * node + 1 + (values[measures[node]] > limits[node])
        score += leaves[node - size]
    return 1 / (1 + math.exp(-score))


@cache
def load_table() -> ReplacementTable:
    """Return the table, read once."""
    with open(os.path.join(os.path.dirname(__file__), "corrections.table"), "rb") as file:
        line, _, data = file.read().partition(b"\n")
    trained = json.loads(line)
    weights, clusters = memoryview(data)[: 1 << BITS], memoryview(data)[1 << BITS :]
    trees = [DecisionTree(*tree) for tree in trained["trees"]]
    return ReplacementTable(trained["base"], trees, weights.cast("b"), clusters.cast("H"))


def compare(old: str, new: str) -> tuple[list[ComparedWord], list[ComparedWord]]:
    """Return the words of both sentences, each with what it has to do with the other sentence."""
    was, now = _read_words(old), _read_words(new)
    for words, others in ((was, now), (now, was)):
        keys = {other.key for other in others if not other.is_unspaced}
        stems = [other.key for other in others if _is_plain(other)]
        pairs = {one.key + two.key for one, two in pairwise(others) if one.is_unspaced and two.is_unspaced}
        for word in words:
            word.is_shared = word.key in keys or (_is_plain(word) and any(_is_form(word.key, stem) for stem in stems))
        for one, two in pairwise(words):
            if one.key + two.key in pairs:
                one.is_shared = two.is_shared = True
    for words, others in ((was, now), (now, was)):
        rest = [other for other in others if other.is_alone]
        for word in words:
            word.kinship = max((_find_kinship(word, other) for other in rest), default=0)
    return was, now


def _read_words(text: str) -> list[ComparedWord]:
    words = []
    for number, (word, written) in enumerate(classifier.words(text)):
        is_unspaced = not written.isascii() and bool(re.match(_UNSPACED, written))
        stems = tokenizer.words(written) if word[0].isalpha() and not is_unspaced else []
        key = stems[0] if stems else written.lower().rstrip(".,:")
        is_content = word in SIGNS or bool(stems)
        if is_unspaced:
            is_content = not re.match(_HIRAGANA, written)
        is_telling = is_content and (not stems or not tokenizer.is_weak(key))
        is_name = number > 0 and word[0].isalpha() and written[0].isupper()
        words.append(ComparedWord(word, key, is_content, is_telling, is_name, is_unspaced))
    return words


def _is_plain(word: ComparedWord) -> bool:
    return word.is_telling and word.word not in SIGNS and not word.is_unspaced


def _is_form(one: str, two: str) -> bool:
    """Return True for two forms of one word: one holds the other, or they begin alike for most of their letters."""
    if min(len(one), len(two)) < 4:
        return False
    return one in two or two in one or _count_alike(one, two) >= max(4, 0.6 * max(len(one), len(two)))


def _count_alike(one: Sequence[str], two: Sequence[str]) -> int:
    """Return how many items at the beginning are the same."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False)))


def _find_kinship(one: ComparedWord, two: ComparedWord) -> int:
    """Return CLOSE or AKIN where two words may be values of one thing, else 0."""
    if one.word in SIGNS or two.word in SIGNS:
        if one.word != two.word:
            return 0
        return CLOSE if re.sub(_DIGIT, "0", one.key) == re.sub(_DIGIT, "0", two.key) else AKIN
    here, there = find_cluster(one.word), find_cluster(two.word)
    if here and here == there:
        return CLOSE
    is_near = here > 0 and here >> COARSE_SHIFT == there >> COARSE_SHIFT
    return AKIN if is_near or (one.is_name and two.is_name) else 0


def find_cluster(word: str) -> int:
    """Return the cluster of a word, 0 if it has none: the coarse one in the upper six bits, the fine one below."""
    return load_table().clusters[zlib.crc32(word.encode("utf-8", "replace")) >> (32 - CLUSTER_BITS)]


def measure(was: Sequence[ComparedWord], now: Sequence[ComparedWord], old: str, new: str) -> list[float]:
    """Return the numbers that the trees ask about, in the order of the table, without the regression's hint."""
    common = classifier.load("sentences").common

    def weigh(words: Sequence[ComparedWord]) -> float:
        return sum(0.5 if word.is_unspaced or word.word in common else 1.0 for word in words)

    values: list[float] = [classifier.classify(new)[1], len(re.findall(_SENTENCE_END, old.strip()))]
    neighbours = []
    for words in (was, now):
        rest = [place for place, word in enumerate(words) if word.is_alone]
        shared = [place for place, word in enumerate(words) if word.is_telling and word.is_shared]
        alone = [words[place] for place in rest]
        first, last = (shared[0], shared[-1]) if shared else (len(words), -1)
        covered = weigh([words[place] for place in shared])
        keys = ["^", *(word.key for word in words), "$"]
        neighbours.append(({keys[place] for place in rest}, {keys[place + 2] for place in rest}))
        values += [
            len(words),
            covered,
            weigh(alone),
            covered / max(0.5, covered + weigh(alone)),
            sum(word.is_shared for word in words) / max(1, len(words)),
            sum(word.kinship > 0 for word in alone),
            sum(word.kinship == CLOSE for word in alone),
            sum(word.kinship == 0 for word in alone),
            sum(word.word == "0" for word in alone),
            sum(word.is_name for word in alone),
            sum(word.is_content and not word.is_telling and not word.is_shared for word in words),
            sum(word.word in ",;:，；、" for word in words),
            sum(place < first for place in rest),
            sum(place > last for place in rest),
            max((place / len(words) for place in rest if words[place].kinship), default=-1.0),
            any(words[place].word == "0" and place - 1 in shared for place in rest),
        ]
    values += [len(ours & theirs) for ours, theirs in zip(*neighbours, strict=True)]
    before, after = ([word.key for word in words] for words in (was, now))
    alike = _count_alike(before, after)
    values += [alike, _count_alike(before[alike:][::-1], after[alike:][::-1])]
    ours, theirs = ({word.word for word in words} & common for words in (was, now))
    return [*values, len(ours & theirs) / max(1, len(ours | theirs))]


def hash_roles(was: Sequence[ComparedWord], now: Sequence[ComparedWord]) -> set[int]:
    """Return the hashed n-grams of the roles of two sentences."""
    relations = _relate([_find_role(word, "o") for word in was], [_find_role(word, "n") for word in now])
    return {zlib.crc32(relation.encode("utf-8", "replace")) >> (32 - BITS) for relation in relations}


def _find_role(word: ComparedWord, mark: str) -> str:
    """Return the role of a word; that of one which is akin to a word of the other sentence alone ends in "+"."""
    if word.is_telling and word.is_shared:
        return SHARED
    if word.word not in SIGNS:
        if not word.word[0].isalpha() or (word.word in classifier.load("sentences").common and not word.kinship):
            return word.word
        mark += "X" if word.is_name else "~"
    else:
        mark += word.word
    return mark + "+" if word.kinship else mark


def _relate(old: list[str], new: list[str]) -> Iterator[str]:
    """Yield n-grams up to three of the roles, and words of the new sentence beside how much each one has alone."""
    for mark, roles in (("o", ["^", *old, "$"]), ("n", ["^", *new, "$"])):
        for length in (1, 2, 3):
            for at in range(len(roles) - length + 1):
                yield f"{mark} {' '.join(roles[at : at + length])}"
        yield from (f"{mark} {one} _ {two}" for one, two in zip(roles, roles[2:], strict=False))
    ours, theirs = ([role for role in roles if role[1:2] in _SORTS] for roles in (old, new))
    strangers = [min(2, sum(role[-1] != "+" for role in roles)) for roles in (ours, theirs)]
    state = f"{strangers} {any(role[-1] == '+' for role in theirs)}"
    yield state
    yield f"{min(4, new.count(SHARED))} {min(4, len(ours))} {min(4, len(theirs))}"
    yield from (f"rest {one} {two}" for one in set(ours) or {"-"} for two in set(theirs) or {"-"})
    yield from (f"both {role}" for role in set(old) & set(new))
    yield from (f"gone {role}" for role in set(old) - set(new))
    for role in set(new) - set(old):
        yield f"only {role}"
        yield f"only {role} {state}"
    yield from (f"{one} {two} {state}" for one, two in pairwise(new))
