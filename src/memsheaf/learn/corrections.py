"""Corrections: the memory whose place a new fact takes.

The nearest memories are compared with the new fact by the judge (`encode/judge.py`). What it is sure of decides:

    The port is 8443                   The port is 9443 now        replaced: the old text goes to the history
    Deploys: Thursdays, after standup  Deploys are Tuesdays now    one memory, the new sentence above the old one
    Anna leads QA, Bob ops             Carla might lead QA         both stay; the new one names the other

The new sentence is stored as it was said in each case. An older sentence of which a part may still be true stays
below it, under the day of which it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

from memsheaf.encode.judge import UNRELATED, Replacement, cosine, judge_replacement, judge_sentence
from memsheaf.errors import MemsheafError, Ref
from memsheaf.memory import Memory
from memsheaf.open_scope import OpenScope, find_matches
from memsheaf.recall.turns import Proposal
from memsheaf.store import Commit
from memsheaf.text import tokenizer
from memsheaf.text.sentences import (
    WAS_RIGHT,
    current_part,
    find_sentences,
    is_made_from,
    lacks_subject,
    make_description,
    make_name,
    without_opening,
)
from memsheaf.text.similarity import SAME, alike, coverage
from memsheaf.text.similarity import words as split_words

REPLACE_FROM = 0.957  # likelihood from which a sentence is replaced
KEEP_BELOW_FROM = 0.8  # that at least a part is obsolete, from which both become one memory
LINK_FROM = 0.5  # that at least a part is obsolete, from which the new memory names the other
MAX_COMPARED = 12  # nearest memories that a new fact is compared with
MAX_LINKED = 2
MIN_PERSONAL = 0.1  # of what may replace a memory about the person; what is less is surely about the work
MIN_NEAR_IN_PART = 0.4  # of one of which a part stays true
MIN_NEAR_WITH_WORDS = 0.33  # cosine of a memory that may be corrected and shares words with a new fact
MIN_NEAR = 0.45  # of one that shares none
LONG_BODY_WORDS = 15  # a model's text does not replace so many telling words, unless it has nearly all
MIN_WORDS_OF_TWO_FACTS = 8  # in one sentence, of which one may still be true
_CLAUSE_JOINT = r"[,;] | (?:and|und|et|y|e) |[，；、]"
_DAY = r" \(\d{4}-\d\d-\d\d\)"  # as `text/dates.py` puts it behind "yesterday"


class LearningScopes(Protocol):
    """The scope that learns, with those around it; `Sheaf` is one."""

    home: str

    def scopes(self) -> Sequence[str]:
        """Return the names of all scopes."""

    def open_scope(self, name: str) -> OpenScope:
        """Return one of them."""

    def open_scopes(self) -> Sequence[OpenScope]:
        """Return all of them."""

    def read(self, where: Ref) -> Memory:
        """Return one memory as it is now."""

    def label(self, ref: Ref) -> str:
        """Return the name under which a memory is shown."""

    def log(self, *, limit: int | None = None) -> Iterable[Commit]:
        """Return the commits of all scopes, newest first."""

    def undo(self, commit: str, /) -> object:
        """Take a commit back. Raises NotInHistory, Changed."""


def find_corrected(target: LearningScopes, proposal: Proposal, beside: Collection[Ref] = ()) -> Proposal:
    """Return a proposal with the memory that it replaces, if there is one, or those that it may correct.

    A memory that says the same is named as replaced, too; nothing changes with it. Memories `beside` it were said in
    the same message, and are not corrected by it.
    """
    if proposal.replaces:
        return _keep_rest(proposal, target.read(proposal.replaces))
    likely: list[tuple[Memory, Replacement]] = []
    is_sentence = tokenizer.is_unspaced(proposal.content) or len(proposal.content.split()) > 1
    said = re.sub(_DAY, "", proposal.content)
    for match in find_matches(target.open_scopes(), f"{proposal.name}\n{said}", limit=MAX_COMPARED):
        if match.row.state != "ok" or match.row.trust != "confirmed" or match.row.ref in beside:
            continue
        try:
            old = target.read(match.row.ref)
        except MemsheafError:
            continue
        current = current_part(old.body)
        if _without_marks(current) == _without_marks(proposal.content):
            return proposal._replace(content=old.body, replaces=old.ref, version=old.version)
        if old.is_item:  # those are for their program to change
            continue
        is_cut_from_text = proposal.name.rstrip("…").casefold() in proposal.content.casefold()  # may begin alike
        if (old.type, old.name) == (proposal.kind, proposal.name) and not is_cut_from_text:
            return _keep_rest(proposal._replace(replaces=old.ref, version=old.version), old)
        near = match.near or cosine(current, said)  # without vectors in the index, it is made here
        if is_sentence and near >= (MIN_NEAR_WITH_WORDS if match.common else MIN_NEAR):
            judged = _judge(current, without_opening(said))
            is_sure = judged.whole >= judged.part or near >= MIN_NEAR_IN_PART
            likely += [(old, judged)] if judged.any >= LINK_FROM and is_sure else []
    likely.sort(key=lambda pair: (-round(pair[1].any, 1), -pair[1].whole))
    is_for_work = len(target.open_scopes()) > 1 and judge_sentence(proposal.content).personal < MIN_PERSONAL
    if is_for_work:  # what holds here is an exception from what holds for the person everywhere
        likely = [(old, judged) for old, judged in likely if old.scope != "user"]
    for old, judged in likely[:1]:
        is_obsolete = _is_obsolete(old.body, proposal.content, judged)
        meant = [each for _, each in likely if each.whole >= LINK_FROM]  # of several, nobody knows which
        if is_obsolete and len(meant) == 1 and not lacks_subject(proposal.content):
            return _take_place(proposal, old)
        if is_obsolete or judged.any >= KEEP_BELOW_FROM:
            return _take_place(proposal, old, "Still true in part" if judged.part > judged.whole else "Before that")
    return proposal._replace(supersedes=tuple(old.ref for old, _ in likely[:MAX_LINKED]))


def corrects(sentence: str, old: Memory) -> bool:
    """Return True if a sentence that lacks its subject ("it's 9090 now") corrects a memory that was just named."""
    value = re.sub(WAS_RIGHT, "", without_opening(sentence))  # "sorry, 3001"
    return lacks_subject(sentence) and judge_replacement(current_part(old.body), f"it's {value}").any >= LINK_FROM


def correct_written(target: LearningScopes, proposal: Proposal) -> tuple[Memory | None, dict[str, Any]]:
    """Return the memory that one which an agent writes corrects, if there is one, and how the new one is stored then.

    What a person wrote or pinned stays, and the new one names it as superseded. So does what says something else too.
    """
    corrected = find_corrected(target, proposal)
    if not corrected.replaces:
        return None, {"supersedes": corrected.supersedes}
    old = target.read(corrected.replaces)
    if old.name == proposal.name or alike(split_words(old.body), split_words(proposal.content)) >= SAME:
        return None, {}
    if old.pinned or old.source == "user" or corrected.content != proposal.content:
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
    if new.content == old.content:
        return True
    shared = set(tokenizer.words(old.content)).intersection(tokenizer.words(new.content))
    if all(map(tokenizer.is_weak, shared)):
        return False  # not worth asking: a conversation has many pairs of sentences
    return _is_obsolete(old.content, new.content, _judge(old.content, new.content))


def _judge(old: str, new: str) -> Replacement:
    """Return what the judge says, but for sentences that differ in so little that both may well be true.

    They have the same number of words. In several numbers: it is another thing ("Bus 7: 8:10", "Bus 9: 9:20"). In one
    word, perhaps with its version: it may be one more ("We use ruff", "We use mypy"; "The shop uses Django 5", "The
    shop uses Redis 7"), and the new sentence only names the other.
    """
    judged = judge_replacement(old, new)
    before, after = ([word.strip(".,;:!?") for word in text.casefold().split()] for text in (old, new))
    if len(before) != len(after) or len(before) == 1:
        return judged
    places = [place for place, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    has_number = [bool(re.search(r"\d", after[place])) for place in places]
    if len(places) > 1 and all(has_number):
        return UNRELATED
    has_version = has_number == [False, True] and places[1] == places[0] + 1
    if has_number == [False] or has_version:
        return Replacement(0.0, min(judged.any, LINK_FROM))
    return judged


def _without_marks(text: str) -> list[str]:
    """Return the words of a text in small letters without punctuation; signs such as `<` and `+` stay."""
    return re.sub(r"[.,;:!?…。，！？'\"]", " ", text.casefold()).split()


def _is_obsolete(body: str, new: str, judged: Replacement) -> bool:
    """Return True if a memory can go to the history: it says one thing, and that is surely no longer true."""
    is_long = len(body.split()) >= MIN_WORDS_OF_TWO_FACTS
    if len(list(find_sentences(body))) > 1 or (is_long and re.search(_CLAUSE_JOINT, body)):
        return False
    return judged.whole >= REPLACE_FROM


def _take_place(proposal: Proposal, old: Memory, title: str = "") -> Proposal:
    """Return a proposal in the place of a memory, with that one's type, and its name where it still fits.

    With a title the old text stays below it, and it is called by both: "it's 10 MB now (before: The limit is 5 MB)".
    """
    said = proposal.content
    if title:
        proposal = _put_above(proposal, old, title)
    shown = f"{said}\n{make_description(proposal.content)}"
    gone = set(tokenizer.words(old.body)) - set(tokenizer.words(shown))

    def still_fits(line: str) -> bool:
        """Return True if a line was written by hand, and names nothing that is gone from the text."""
        is_derived = is_made_from(old.body, line) or line.casefold().rstrip("….") in old.body.casefold()
        return not is_derived and " (before: " not in line and gone.isdisjoint(tokenizer.words(line))

    return proposal._replace(
        replaces=old.ref,
        version=old.version,
        kind=old.type,
        name=old.name if still_fits(old.name) else make_name(proposal.content),
        description=old.description if still_fits(old.description) else make_description(proposal.content),
    )


def _keep_rest(proposal: Proposal, old: Memory) -> Proposal:
    """Return a proposal with the text that it replaces below its own, where that is lost or says what it is about."""
    if lacks_subject(proposal.content):
        return _take_place(proposal, old, "Before that")
    known = _telling_words(old.body)
    if len(known) < LONG_BODY_WORDS or coverage(known, _telling_words(proposal.content)) >= SAME:
        return proposal
    return _put_above(proposal, old, "Before that")


def _put_above(proposal: Proposal, old: Memory, title: str) -> Proposal:
    """Return a proposal with the text of an older memory below its own.

    Of several sentences that lack their subject ("it's 10 MB", "it's 20 MB") the last stays.
    """
    content = proposal.content.strip()
    below = old.body.strip()
    if lacks_subject(content) and lacks_subject(below) and (rest := below.removeprefix(current_part(below))):
        return proposal._replace(content=content + rest)
    day = (old.updated or old.created)[:10] or "an unknown day"
    return proposal._replace(content=f"{content}\n\n{title}, as of {day}:\n\n{below}")


def _telling_words(text: str) -> set[str]:
    """Return the words of a text that say what it is about, and not the common ones."""
    return {word for word in tokenizer.words(text) if not tokenizer.is_weak(word)}
