"""Corrections: the memory whose place a new fact takes.

The nearest memories are compared with the new fact by a trained decision (`replaces`). A memory is replaced only if
that is sure and the memory says nothing else; the new sentence then stands in its place, as it was said. Where it is
merely likely, both stay, and the new one names the other as superseded.

    The port is 8443           The port is 9443 now             replaced
    Use npm for installs       Use pnpm, not npm                replaced
    The API port is 9443       The API now returns 404          both stay
    Anna leads QA, Bob ops     Carla now leads QA               both stay

Two models compare the sentences, one after the other:

1. A logistic regression over hashed n-grams of roles. The role of a word is SHARED if both sentences have it, itself
   if it is common, else the sort of word it is. So it learns words of change: "not S", "moved to", "as well".
2. Boosted trees over `measure`: how much of each sentence the other covers, whether the words that only one of them
   has are akin (two numbers, two names, two words of one cluster), where they stand, and what the regression says.

A cluster stands for the meaning of a word: "tuesdays" and "wednesdays" are in one. `training/replacements.py` makes
the table from labelled pairs.
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise, takewhile
from typing import Any, NamedTuple, Protocol

from memsheaf.errors import MemsheafError, Ref
from memsheaf.memory import Memory
from memsheaf.open_scope import OpenScope, find_matches
from memsheaf.recall.turns import Proposal
from memsheaf.text import classifier, tokenizer
from memsheaf.text.classifier import BITS, SCALE
from memsheaf.text.sentences import find_sentences, is_made_from, is_question, make_description, make_name
from memsheaf.text.similarity import SAME, alike, coverage
from memsheaf.text.similarity import words as split_words
from memsheaf.text.tokenizer import HALF_WIDTH_KANA, HAN_AND_KANA

MAX_COMPARED = 12  # nearest memories that a new fact is compared with
MAX_LINKED = 2
LONG_BODY_WORDS = 15  # a model's text does not replace so many telling words, unless it has nearly all

_CHANGE = (
    r"(?i)\b(?:now|nowadays|these days|any ?more|no longer|not|instead|over|rather than|no more|actually|correction"
    r"|from now on|as of|since|switched|changed|moved|renamed|replaced|migrated|dropped|forget|scrap|gone|again"
    r"|jetzt|nun|nicht mehr|nicht|sondern|statt|stattdessen|ab sofort|seit|umgestellt|gewechselt|umgezogen"
    r"|maintenant|désormais|ne .{1,20} plus|plus de|au lieu|remplacé|passés?|changé|pas"
    r"|ahora|ya no|en lugar|en vez|cambi\w+|pasamos|desde|no"
    r"|adesso|ora|non più|invece|agora|em vez|nu|niet meer|teraz|już nie)\b|→|->"
    r"|现在|现已|改|不再|不是|而是|换成|換成|已经|今は|現在|もう|ではなく|じゃなく|変わ|変更|やめ|移行"
)
_ADDITION = (
    r"(?i)\b(?:too|also|as well|additionally|besides|another|second|both|auch|außerdem|zusätzlich|aussi|également"
    r"|también|además|anche|também|ook|też)\b|也|还|還|另外|も(?!う)|また"
)
_DENIALS = r"not|no|instead|rather|over|nicht|statt|pas|plus|non|niet|nie"
_LEFT = r"\b(?:switched|moved|migrated|changed|went) from\b"
_PURPOSE = r"(?i)\b(?:for|für|pour|para|per|voor|dla)\b"


class Memories(Protocol):
    """The memories that are there; `Sheaf` is one."""

    def open_scopes(self) -> Sequence[OpenScope]:
        """Return the scopes that they are in."""

    def read(self, where: Ref) -> Memory:
        """Return one memory as it is now."""

    def label(self, ref: Ref) -> str:
        """Return the name under which a memory is shown."""


def find_corrected(target: Memories, proposal: Proposal) -> Proposal:
    """Return a proposal with the memory that it replaces, if there is one, or those that it may correct.

    A memory that says the same is named as replaced, too; nothing changes with it.
    """
    if proposal.replaces:
        return _keep_rest(proposal, target.read(proposal.replaces))
    content = proposal.content
    candidates: list[tuple[float, Memory]] = []
    for match in find_matches(target.open_scopes(), f"{proposal.name}\n{content}", limit=MAX_COMPARED):
        if match.row.state != "ok" or match.row.trust != "confirmed":
            continue
        try:
            old = target.read(match.row.ref)
        except MemsheafError:
            continue
        if old.type == proposal.kind and split_words(old.body) == split_words(content):
            return proposal._replace(replaces=old.ref, version=old.version)
        if old.is_item:  # those are for their program to change
            continue
        is_cut_from_text = proposal.name.rstrip("…").casefold() in content.casefold()  # two facts may begin alike
        if (old.type, old.name) == (proposal.kind, proposal.name) and not is_cut_from_text:
            return _keep_rest(proposal._replace(replaces=old.ref, version=old.version), old)
        candidates.append((replaces(old.body.strip(), content), old))
    candidates.sort(key=lambda candidate: -candidate[0])
    sure = [old for chance, old in candidates if chance >= REPLACE_FROM and _may_be_lost(old.body, content)][:1]
    likely = [old.ref for chance, old in candidates if _may_link(chance, old.body, content) and old not in sure]
    proposal = proposal._replace(supersedes=tuple(likely[:MAX_LINKED]))
    return _take_place(proposal, sure[0]) if sure else proposal


def correct_written(target: Memories, proposal: Proposal) -> tuple[Memory | None, dict[str, Any]]:
    """Return the memory that one which an agent writes corrects, if there is one, and how the new one is stored then.

    What a person wrote or pinned stays, and the new one names it as superseded.
    """
    corrected = find_corrected(target, proposal)
    old = target.read(corrected.replaces) if corrected.replaces else None
    if (
        old is None
        or old.name == proposal.name
        or alike(split_words(old.body), split_words(proposal.content)) >= SAME
    ):
        return None, {"supersedes": corrected.supersedes}
    if old.pinned or old.source == "user":
        return None, {"supersedes": (old.ref,)}
    return old, {"path": old.ref, "replace": True, "expect": old.version}


def drop_retracted(by_turn: Iterable[Sequence[Proposal]]) -> list[Proposal]:
    """Return what is proposed turn by turn, without what a later turn says again or takes back: the last word counts.

    Sentences of one turn stand beside each other. What may be pasted takes nothing back.
    """
    lasting: list[Proposal] = []
    for proposals in by_turn:
        lasting = [old for old in lasting if not any(takes_back(new, old) for new in proposals)]
        lasting += proposals
    return lasting


def takes_back(new: Proposal, old: Proposal) -> bool:
    """Return True if a sentence surely takes the place of an older one, with which nothing else is lost."""
    if new.doubt and not old.doubt:
        return False
    is_sure = replaces(old.content, new.content) >= REPLACE_FROM and _may_be_lost(old.content, new.content)
    return is_sure or new.content == old.content


def has_word_of_change(text: str) -> bool:
    """Return True if a sentence has a word that says that something changed: "now", "moved", "no longer"."""
    return bool(re.search(_CHANGE, text))


def telling_words(text: str) -> set[str]:
    """Return the words of a text that say what it is about: neither common words nor numbers."""
    return {word for word in tokenizer.words(text) if not tokenizer.is_weak(word) and not any(map(str.isdigit, word))}


def _take_place(proposal: Proposal, old: Memory) -> Proposal:
    """Return a proposal in the place of a memory, with that one's type, and its name where it still fits."""
    content = proposal.content
    gone = set(tokenizer.words(old.body)) - set(tokenizer.words(content))

    def still_fits(line: str) -> bool:
        """Return True if a line was written by hand, and names nothing that is gone from the text."""
        is_derived = is_made_from(old.body, line) or line.casefold().rstrip("….") in old.body.casefold()
        return not is_derived and gone.isdisjoint(tokenizer.words(line))

    return proposal._replace(
        replaces=old.ref,
        version=old.version,
        kind=old.type,
        name=old.name if still_fits(old.name) else make_name(content),
        description=old.description if still_fits(old.description) else make_description(content),
    )


class _Difference(NamedTuple):
    """The words that a new sentence lacks and adds, and whether it says where, when or for what else something holds.

    The old sentence stays true beside such an exception.
    """

    lost: set[str]
    new: set[str]
    denies: bool
    is_exception: bool
    added: int  # places; "GitHub Actions" is one


def _compare(body: str, content: str) -> _Difference:
    before, now = _subject_words(body), _subject_words(re.sub(_CHANGE, " ", content))
    lost, new = before - now, now - before
    tokens = re.findall(r"[\w-]+", re.sub(_LEFT, " not ", content.casefold()))
    places = {place for place, token in enumerate(tokens) if token in new}
    added = sum(place - 1 not in places for place in places)
    denials = [place for place, token in enumerate(tokens) if re.fullmatch(_DENIALS, token)]
    denies = any(not before.isdisjoint(tokens[place + 1 : place + 4]) for place in denials)
    has_purpose = re.search(_PURPOSE, body) and re.search(_PURPOSE, content)
    is_exception = added > 1 if denies else added > 0 and bool(has_purpose or not lost)
    return _Difference(lost, new, denies, is_exception, added)


def _subject_words(text: str) -> set[str]:
    """Return the words that a sentence is about: no common ones, and no numbers."""
    return {
        word
        for word in re.findall(r"[^\W\d_][\w-]*", text.casefold())
        # "evening" is not the common word "even"
        if any(not tokenizer.is_weak(stem) or len(word) - len(stem) > 2 for stem in tokenizer.words(word))
    }


def _may_be_lost(body: str, content: str) -> bool:
    """Return True if a memory is one sentence, and nothing true is lost when the new one takes its place.

    The trained decision is mistaken where a second fact looks like the first, and that must never cost a memory. So
    the new sentence has to say that something changed, or to differ in numbers alone, and it may change one thing:

        My daughter is called Mia    My daughter is called Lea                no word of change
        The timeout is 30s           The timeout is 60s on staging now        adds "staging"
        Tests run on Python 3.11     They run on 3.12 too now                 an addition
        We use Jest for unit tests   Use Playwright, not Jest, for e2e tests  changes two things
        We use Redis for caching     We use Redis for queues now              another purpose
    """
    if len(list(find_sentences(body))) != 1 or re.search(_ADDITION, content):
        return False
    has_cue = has_word_of_change(content)
    if tokenizer.is_unspaced(body):
        return has_cue  # no words to count
    if not has_cue:
        before, now = ({word for word in tokenizer.words(text) if not word.isdigit()} for text in (body, content))
        return before == now
    difference = _compare(body, content)
    if difference.is_exception:
        return False
    return difference.denies or difference.added <= len(difference.lost) < 2


def _may_link(chance: float, body: str, content: str) -> bool:
    """Return True if recall should show a memory only beside the new sentence, which may correct it."""
    difference = _compare(body, content)
    if chance < LINK_FROM or difference.is_exception or is_question(body):
        return False
    return chance >= REPLACE_FROM or min(len(difference.lost), len(difference.new)) < 2


def _keep_rest(proposal: Proposal, old: Memory) -> Proposal:
    """Return a model's proposal with the text that it replaces below its own, where much of that would be lost."""
    known = telling_words(old.body)
    if len(known) < LONG_BODY_WORDS or coverage(known, telling_words(proposal.content)) >= SAME:
        return proposal
    day = (old.updated or old.created)[:10]
    heading = f"Before that, as of {day}:" if day else "Before that:"
    return proposal._replace(content=f"{proposal.content.strip()}\n\n{heading}\n\n{old.body.strip()}")


# the trained decision

# On writers who were left out, 0.3% of 2,000 near facts reach 0.927 and 1% reach 0.864, and of their 1,673 hard
# corrections 9% and 19%; 9% and 46% reach 0.5. Of the 20 short corrections and 20 other facts in
# tests/learn/pairs.json, 12 and none reach REPLACE_FROM, 18 and 2 reach LINK_FROM.
REPLACE_FROM = 0.91
LINK_FROM = 0.6
SHARED = "S"
SIGNS = frozenset("`@/0")  # code, addresses, paths and numbers, as `classifier.words` writes them
CLUSTER_BITS, COARSE_SHIFT = 17, 10  # of the hash by which a cluster is found, and of the fine cluster
AKIN, CLOSE = 1, 2  # words of one coarse cluster, and of one fine cluster

_SORTS = frozenset("~X`@/0")
_UNSPACED = f"[{HAN_AND_KANA}{HALF_WIDTH_KANA}]"
_HIRAGANA = "[\u3041-\u309f]"
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

    @property
    def is_plain(self) -> bool:
        """Return True for a telling word that has forms."""
        return self.is_telling and self.word not in SIGNS and not self.is_unspaced


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
    view, size = memoryview(data), 1 << BITS
    trees = [DecisionTree(*tree) for tree in trained["trees"]]
    return ReplacementTable(trained["base"], trees, view[:size].cast("b"), view[size:].cast("H"))


def compare(old: str, new: str) -> tuple[list[ComparedWord], list[ComparedWord]]:
    """Return the words of both sentences, each with what it has to do with the other sentence."""
    was, now = _read_words(old), _read_words(new)
    both = ((was, now), (now, was))
    for words, others in both:
        keys = {other.key for other in others if not other.is_unspaced}
        stems = [other.key for other in others if other.is_plain]
        pairs = {one.key + two.key for one, two in pairwise(others) if one.is_unspaced and two.is_unspaced}
        for word in words:
            word.is_shared = word.key in keys or (word.is_plain and any(_is_form(word.key, stem) for stem in stems))
        for one, two in pairwise(words):
            if one.key + two.key in pairs:
                one.is_shared = two.is_shared = True
    for words, others in both:
        alone = [other for other in others if other.is_alone]
        for word in words:
            word.kinship = max((_find_kinship(word, other) for other in alone), default=0)
    return was, now


def _read_words(text: str) -> list[ComparedWord]:
    words = []
    for number, (word, written) in enumerate(classifier.words(text)):
        is_unspaced = not written.isascii() and bool(re.match(_UNSPACED, written))
        stems = tokenizer.words(written) if word[0].isalpha() and not is_unspaced else []
        key = stems[0] if stems else written.lower().rstrip(".,:")
        is_content = not re.match(_HIRAGANA, written) if is_unspaced else word in SIGNS or bool(stems)
        is_telling = is_content and (not stems or not tokenizer.is_weak(key))
        is_name = number > 0 and word[0].isalpha() and written[0].isupper()
        words.append(ComparedWord(word, key, is_content, is_telling, is_name, is_unspaced))
    return words


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
        shapes = {re.sub(r"\d+", "0", each.key) for each in (one, two)}
        return CLOSE if len(shapes) == 1 else AKIN
    here, there = find_cluster(one.word), find_cluster(two.word)
    if here and here == there:
        return CLOSE
    is_near = here > 0 and here >> COARSE_SHIFT == there >> COARSE_SHIFT
    return AKIN if is_near or (one.is_name and two.is_name) else 0


def find_cluster(word: str) -> int:
    """Return the cluster of a word, 0 if it has none: the coarse one in the upper six bits, the fine one below."""
    return load_table().clusters[_hash(word, CLUSTER_BITS)]


def _hash(text: str, bits: int) -> int:
    return zlib.crc32(text.encode("utf-8", "replace")) >> (32 - bits)


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
    return {_hash(relation, BITS) for relation in relations}


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
