"""Find memories that say the same and memories that contradict each other, without a model.

Memories are compared when they share rare words, a command, an address or a subject. Of those that say the same, the
most specific and recent one is the keeper, and the others are compared with it alone: what is like one of them and
not like the keeper is no duplicate. Where the words agree and a number or a denial does not, it is a contradiction.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from memsheaf.guard.evidence import Named
from memsheaf.memory import Memory
from memsheaf.text.sections import fold_title
from memsheaf.text.similarity import LIKE, alike, denials, fact, likeness, numbers, telling, things, words
from memsheaf.text.spoken import spoken
from memsheaf.text.tokenizer import stem
from memsheaf.values import NamedTuple

COMPARED = 100  # so many others a memory is compared with for each thing that they share
UNLIKE = 0.25  # share of its telling words that one may have for itself
RARE = 3  # so many of their rarest words two memories share before they are compared for these
ENOUGH = 3  # a body of fewer telling words says too little without its name
CROWD = 5  # from so many entries on, a subject is looked at
LEFT = 3  # words that a description of the same command or address may have for itself
MORE = 12  # words that the keeper may have for itself, before it speaks of something else as well
OPPOSED = 0.6  # share of words in common, from which on another number or a denial is a contradiction

# How one says what a command or an address is for.
_DESCRIBING = """
run execute execution invoke launch start call trigger use via command script suite type verify check validate ensure
verification validation gate pass perform see find open page site board dashboard link url address
运行 执行 使用 命令 测试 実行 ausführen befehl exécuter lancer commande ejecutar comando
"""
# Beside that, these make no difference.
_USUAL = """
entire whole complete full repo repository project root folder directory dir local locally inside within standard
usual official correct way how default terminal shell line package everything developer order simply just please can
should must always all here live located under get got want when whenever file describe description note fact current
currently codebase change work make sure
"""
# What says something else about the same thing.
_OTHERWISE = """
fail fails failing broken breaks flaky slow hang hangs timeout deprecated removed replaced instead avoid forbidden
crash crashes error wrong unsafe
"""
# What says more about it: the keeper may, another must not.
_BESIDES = "need require depend take cost except unless until skip"

THING, SUBJECT, WORDS = range(3)

SharedKey = tuple[int, str]  # a command or address (first), a subject, or rare words that two memories share


class ComparedMemory(NamedTuple):
    """A memory as it is compared: tuples of shared words, so that a hundred thousand of them fit.

    `stems` are the telling words of its text, and `spoken` all words beside the code in it.
    """

    path: str
    rank: tuple[object, ...]
    subject: str
    fact: tuple[str, ...]
    stems: tuple[str, ...]
    numbers: frozenset[str]
    denials: int
    spoken: tuple[str, ...]
    things: frozenset[str]
    paths: frozenset[str]


class Comparison(NamedTuple):
    """What was found, each in order.

    `groups` are memories that say the same: about what, the keeper, the others. `opposed` are two that contradict
    each other, and in what. `crowds` are subjects that many memories are about, and these.
    """

    groups: list[tuple[str, str, tuple[str, ...]]]
    opposed: list[tuple[str, str, str]]
    crowds: list[tuple[str, tuple[str, ...]]]


def prepare(memory: Memory, named: Named) -> ComparedMemory:
    """A memory as it is compared; `named` are the files that its text names."""
    body, told = words(memory.body), telling(memory.body)
    about = things(memory.body) or things(memory.name) or things(memory.description)
    plain = told if len(told) >= ENOUGH else telling(f"{memory.name}\n{memory.body}")
    specific = len(told) + len(memory.citations)
    return ComparedMemory(
        path=memory.path,
        rank=(memory.trust == "confirmed", specific, memory.updated or memory.created, memory.path),
        subject=fold_title(memory.name),
        fact=_shared(fact(memory)),
        stems=_shared(stem(word) for word in plain if word.isalpha() and not denials([word])),
        numbers=numbers(body),
        denials=denials(body),
        spoken=_shared(map(stem, words(spoken(memory.body)))) if about else (),
        things=about,
        paths=frozenset(named.paths),
    )


def compare(entries: Iterable[ComparedMemory]) -> Comparison:
    """Find the memories that say the same, those that contradict each other, and the subjects with many entries."""
    ranked = sorted(entries, key=lambda one: one.rank, reverse=True)
    holders = _holders(ranked)
    groups: dict[int, tuple[str, list[str]]] = {}
    keepers: dict[int, int] = {}
    opposed: dict[tuple[int, int], str] = {}
    for number, other, key in _pairs(ranked, holders):
        one, two = ranked[number], ranked[other]
        if _is_apart(one, two) or keepers.get(other) == number:
            continue
        if number not in keepers and other not in keepers and _says(one, two, key):
            about = key[1] if key[0] != WORDS else one.subject
            groups.setdefault(number, (about, []))[1].append(two.path)
            keepers[other] = number
        elif (number, other) not in opposed and (why := _opposed(one, two, key)):
            opposed[number, other] = why
    pairs: dict[tuple[str, str], str] = {}
    for (number, other), why in opposed.items():  # what contradicts one of a group contradicts the keeper
        path, second = sorted(ranked[keepers.get(at, at)].path for at in (number, other))
        if path != second:
            pairs.setdefault((path, second), why)
    crowds = {
        tuple(sorted(ranked[number].path for number in held)): key[1]
        for key, held in sorted(holders.items(), reverse=True)
        if key[0] != WORDS and len(held) >= CROWD and len({keepers.get(number, number) for number in held}) > 1
    }
    return Comparison(
        sorted((about, ranked[keeper].path, tuple(sorted(others))) for keeper, (about, others) in groups.items()),
        sorted((*pair, why) for pair, why in pairs.items()),
        sorted((about, paths) for paths, about in crowds.items()),
    )


def _holders(ranked: Sequence[ComparedMemory]) -> dict[SharedKey, list[int]]:
    """Which memories have a thing, a subject, a path or a rare word, the best of them first."""
    often = Counter(word for one in ranked for word in one.stems)
    holders: dict[SharedKey, list[int]] = {}
    for number, one in enumerate(ranked):
        # of two texts that are so alike, the rarest words are the same but for a few
        rare = sorted(one.stems, key=lambda word: (often[word], word))
        keys = [(WORDS, word) for word in rare[: int(len(rare) * UNLIKE) + RARE]]
        keys += [(THING, thing) for thing in one.things]
        keys += [(SUBJECT, one.subject)] if one.subject else []
        for key in keys:
            holders.setdefault(key, []).append(number)
    return {key: held for key, held in holders.items() if len(held) > 1}


def _pairs(
    ranked: Sequence[ComparedMemory], holders: Mapping[SharedKey, Sequence[int]]
) -> Iterator[tuple[int, int, SharedKey]]:
    """Each memory with those of lower rank that share something with it; what tells most comes first."""
    shared: list[list[tuple[SharedKey, int]]] = [[] for _ in ranked]
    for key in sorted(holders):
        for place, number in enumerate(holders[key]):
            shared[number].append((key, place))
    for number, keys in enumerate(shared):
        rare: Counter[int] = Counter()
        for key, place in keys:
            others = holders[key][place + 1 : place + 1 + COMPARED]
            if key[0] == WORDS:
                rare.update(others)
            else:
                yield from ((number, other, key) for other in others)
        enough = min(RARE, len(ranked[number].stems))
        for other in sorted(other for other, count in rare.items() if count >= enough):
            yield number, other, (WORDS, "")


def _is_apart(one: ComparedMemory, two: ComparedMemory) -> bool:
    """Whether each names a command, an address or a file that the other does not: these are two facts."""
    return bool(one.things - two.things and two.things - one.things) or bool(
        one.paths - two.paths and two.paths - one.paths
    )


def _says(keeper: ComparedMemory, other: ComparedMemory, key: SharedKey) -> bool:
    """Whether the keeper says what the other says: in the same words, or as another description of one command."""
    sort, thing = key
    if keeper.denials != other.denials or not other.numbers <= keeper.numbers or sort == SUBJECT:
        return False
    if sort == WORDS:
        return alike(keeper.fact, other.fact) >= LIKE
    itself = frozenset(map(stem, words(thing)))
    describing = _stems(_DESCRIBING) | itself  # what a thing is for, or how to use it; not who made it, or when
    if not other.things <= keeper.things or any(describing.isdisjoint(one.spoken) for one in (keeper, other)):
        return False
    about = _stems(_DESCRIBING + _USUAL) | itself
    mine, theirs = frozenset(keeper.stems) - about, frozenset(other.stems) - about
    more, left = mine - theirs, theirs - mine
    if (more | left) & _stems(_OTHERWISE) or left & _stems(_BESIDES) or ("://" in thing and not mine & theirs):
        return False
    return _weight(left) <= LEFT and _weight(more) <= MORE


def _opposed(one: ComparedMemory, two: ComparedMemory, key: SharedKey) -> str:
    """In what one contradicts the other: another number, or a denial; "" when it does not."""
    mine, theirs = one.numbers - two.numbers, two.numbers - one.numbers
    other_number = len(mine) == 1 and len(theirs) == 1
    if not (other_number or (not (mine or theirs) and bool(one.denials) != bool(two.denials))):
        return ""
    if likeness(one.stems, two.stems) < (LIKE if key[0] == WORDS else OPPOSED):
        return ""
    return " against ".join(sorted((*mine, *theirs))) if other_number else "one denies what the other says"


def _weight(found: Iterable[str]) -> float:
    """How many words these are; a pair of characters of a script without spaces is half a word."""
    return sum(1.0 if word.isascii() else 0.5 for word in found)


def _shared(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(map(sys.intern, set(found))))


@cache
def _stems(text: str) -> frozenset[str]:
    """The stems of one of the lists above."""
    return frozenset(map(stem, text.split()))
