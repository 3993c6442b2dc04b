"""Corrections: finding the memory that a new fact replaces, and the text that it gets.

A sentence is read as clauses, each with a subject, a verb and a value. A new fact replaces a memory when both speak
of the same subject and give it a value of the same sort, and the new one says that something changed, or differs in
that value alone. A digit, a letter or a name is part of the subject: *server 1* and *server 2* are two facts. Where
it is not sure, the memory stays, and the new one names it as superseded. The words are in `prompts/corrections.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from memsheaf.errors import MemsheafError
from memsheaf.index.database import Match
from memsheaf.learn.statements import (
    FOR,
    Statement,
    generic_words,
    has_digit,
    is_value_word,
    read_statement,
    sentences,
    sorts_of,
    stems,
)
from memsheaf.memory import Memory
from memsheaf.recall.turns import Proposal
from memsheaf.text import tokenizer as indexed
from memsheaf.text.classifier import replaces
from memsheaf.text.phrases import compiled
from memsheaf.text.similarity import compared_words, words
from memsheaf.text.summary import is_made_from, make_description, make_name

NAMES_OLD_VALUE = 3
SURE, LIKELY = 1.9, 1.2  # from which a memory is replaced, and from which it is only named as superseded
RIVALS = 12  # memories that may be the one that is corrected
LONG, COVERED = 15, 0.7  # words of a subject that a shorter text does not replace, unless it has such a share of them
SAYS = 3  # words of a sentence that speaks of something as *he*, *it* or *we*
REST = 2  # words that an old sentence may have beside the one that is rejected, where the new one has none of them
NAME = 5  # letters of what cannot be meant by chance

CORRECTION = "the user corrects it"  # the `why` of a proposal that only makes sense with the memory it corrects

_BEING = (
    "i is ar are wa was were be can must will stai stay go goe get run live happen begin start call name locat kept "
    "ist sind est sont es son está 是 在 は が"
)


class Memories(Protocol):
    """The memories that are there; `Sheaf` is one."""

    def matches(self, query: str, *, limit: int) -> Sequence[Match]:
        """What has to do with a text, best first."""

    def read(self, path: str) -> Memory:
        """One memory as it is now."""


def find_corrected(target: Memories, proposal: Proposal) -> Proposal:
    """Return the proposal with the memory that it corrects as `replaces`, if there is one, and the new text of that.

    The new sentence is stored as it was said, in the place of the one that it corrects. One that only makes sense
    beside the old one (*not 8443, 9443*) replaces nothing.
    """
    if proposal.replaces:
        return _keep_rest(proposal, target.read(proposal.replaces))
    new = read_statement(proposal.content)
    found: list[tuple[float, Memory, str]] = []
    for match in target.matches(f"{proposal.name}\n{proposal.content}", limit=RIVALS):
        if match.row.state != "ok" or match.row.trust != "confirmed":
            continue
        try:
            old = target.read(match.row.path)
        except MemsheafError:
            continue
        if old.kind == proposal.kind and compared_words(old.body) == compared_words(proposal.content):
            return proposal._replace(replaces=old.path, version=old.version)
        if not old.is_item:  # those are for their program to change
            judge = _corrects if proposal.why == CORRECTION else _judge
            sure, sentence = max(((judge(new, one), one) for one in sentences(old.body)), default=(0.0, ""))
            if (old.kind, old.name) == (proposal.kind, proposal.name) and not _is_cut(proposal):
                return _keep_rest(proposal._replace(replaces=old.path, version=old.version), old)
            found += [(sure, old, sentence)] if sure else []
    found.sort(key=lambda one: -one[0])
    chosen = [old for sure, old, line in found if sure >= SURE and _may_replace(sure, old.body, line, new)]
    if len(chosen) == 1:
        old, content = chosen[0], proposal.content
        name = old.name if _still_says(old.name, old, content) else make_name(content)
        kept = _still_says(old.description, old, content)
        description = old.description if kept else make_description(content)
        kind = old.kind if new.change else proposal.kind
        seen = proposal._replace(replaces=old.path, version=old.version)
        return seen._replace(name=name, description=description, kind=kind)
    likely = [old.path for sure, old, sentence in found if sure >= LIKELY and _is_near(new, sentence)]
    return proposal._replace(supersedes=tuple(path for path in likely if ":" not in path)[:REST])


def _may_replace(sure: float, body: str, sentence: str, new: Statement) -> bool:
    """Return True if nothing but the corrected value is lost with an old memory.

    That has to be one sentence, and the new one makes sense without it. It speaks of all that the old one does,
    numbers and days aside. Where it adds nothing but the new value, part of the subject may be missing, and anything
    where it rejects the old value by name:

        The port is 8443           The port is 9443 now             replaced
        Log retention is 30 days   Retention is 14 days now         replaced
        Use npm for installs       Use pnpm, not npm                replaced
        The API port is 9443       The API now returns 404          both stay
        The job runs at 9          The job now uses 12 cores        both stay
        Anna leads QA, Bob ops     Carla now leads QA               both stay
    """
    if body.strip() != sentence.strip() or is_bare(new):
        return False
    was = read_statement(sentence)
    missing = {word for word in was.stems - new.stems - set(stems(new.out)) if not is_value_word(word)}
    if missing:
        about = {word for clause in was.clauses for word in clause.subject}
        return not _added_words(new, sentence) and (missing <= about or sure >= NAMES_OLD_VALUE)
    units, theirs = ({sort for sort in sorts_of(text) if ":" in sort} for text in (new.text, sentence))
    return bool(theirs) or not units


def _is_near(new: Statement, sentence: str) -> bool:
    """Return True if a sentence may correct another: it adds nothing but a value, or shares much with it."""
    was = read_statement(sentence)
    shared = len(new.stems & was.stems)
    is_close = shared >= REST and 2 * shared >= min(len(new.stems), len(was.stems))
    return is_close or not _added_words(new, sentence)


def _added_words(new: Statement, sentence: str) -> set[str]:
    """Return what a sentence speaks of that an older one does not, its new value aside."""
    fresh = new.stems - read_statement(sentence).stems - set(stems(new.into))
    return {word for word in fresh if not is_value_word(word)}


def _told_words(words: Iterable[str]) -> set[str]:
    """Return the words that are neither numbers nor days, and tell two things apart."""
    return {word for word in words if not is_value_word(word)} - generic_words()


def correct_written(target: Memories, proposal: Proposal) -> tuple[Memory | None, dict[str, object]]:
    """The memory that one which an agent writes corrects, if there is one, and how the new one is stored then.

    What a person wrote or pinned stays, and the new one names it as superseded.
    """
    first = (sentences(proposal.content) or [proposal.content])[0]
    if not read_statement(first).change:
        return None, {}
    found = find_corrected(target, proposal._replace(content=first, name=""))
    old = target.read(found.replaces) if found.replaces else None
    if old is None or old.body.strip() in (first, proposal.content.strip()):
        return None, {"supersedes": found.supersedes}
    if old.pinned or old.source == "user":
        return None, {"supersedes": () if ":" in old.path else (old.path,)}
    return old, {"path": old.path, "replace": True, "expect": old.version}


def drop_retracted(by_turn: Iterable[Sequence[Proposal]]) -> list[Proposal]:
    """What is proposed turn by turn, without what a later turn says again or takes back: the last word counts.

    Within one turn two sentences that differ in a number are two facts. What may be pasted takes nothing back.
    """
    kept: list[Proposal] = []
    for several in by_turn:
        taken = {id(old): one for old in kept for one in several if _takes_back(one, old)}
        several = [one._replace(why="the user's own words") if one in taken.values() else one for one in several]
        kept = [old for old in kept if id(old) not in taken] + list(several)
    return kept


def _takes_back(one: Proposal, other: Proposal) -> bool:
    if one.doubt and not other.doubt:
        return False
    if one.content == other.content:
        return True
    new = read_statement(one.content)
    sure = _judge(new, other.content)
    return sure >= SURE and _may_replace(sure, other.content, other.content, new)


def subject(text: str) -> list[str]:
    """What a text is about: its words, as far as they tell, without numbers and days."""
    found = indexed.words(text)
    return [word for word in dict.fromkeys(found) if not indexed.is_weak(word) and not is_value_word(word)]


def corrects_something(text: str) -> bool:
    """Whether a text says that something changed, and what: only then is it worth looking for a memory."""
    said = read_statement(text)
    return bool(said.change and said.stems and (said.out or any(one.value or one.sorts for one in said.clauses)))


def is_corrected(body: str, said: Statement) -> bool:
    """Return True if a statement surely corrects the first paragraph of a text, and nothing else is lost with it."""
    paragraph = body.partition("\n\n")[0].strip()
    sure = _judge(said, paragraph)
    return sure >= SURE and _may_replace(sure, paragraph, paragraph, said)


def is_bare(said: Statement) -> bool:
    """Return True if a sentence names two values and nothing that has them: *not 8443, 9443*."""
    if not (said.out and said.into) or any(clause.verb for clause in said.clauses):
        return False
    return said.stems <= set(stems(f"{said.out} {said.into}"))


def _judge(new: Statement, sentence: str) -> float:
    """Return how surely a sentence takes the place of another: by rules 2 or 3, else by the classifier, below 2.

    The classifier counts only where the new sentence says that something changed, they share two words that tell
    something, and half of those of the shorter one, and nothing tells them apart: a letter, a number, a word that
    only one subject has. A shared verb is not enough: *the audit log keeps entries 90 days* has nothing to do with
    *it keeps its secrets in vault*.
    """
    sure, was = _corrects(new, sentence), read_statement(sentence)
    about, theirs = ({word for one in each.clauses for word in one.subject} for each in (new, was))
    shared = len(new.stems & was.stems)
    is_near = shared >= REST and 2 * shared >= min(len(new.stems), len(was.stems))
    is_apart = any(map(_tells_apart, about - theirs)) or bool(about - was.stems and theirs - new.stems)
    is_apart = is_apart or len(about - was.stems) >= REST
    is_open = sure < 2 and new.change and is_near and not is_apart and new.stems - was.stems
    return max(sure, 2 * replaces(sentence, new.text)) if is_open else sure


def _corrects(new: Statement, old_text: str) -> int:
    """Return how surely a sentence corrects another: 3 if it rejects the old value by name, 2 surely, 0 not.

    Surely means that both have values of one sort (a day, a time, a number of something) that differ, share a word
    that tells something, and the new one says that something changed, or has no other words.
    """
    was = read_statement(old_text)
    if not new.stems or words(new.text) == words(was.text):
        return 0
    rejected, chosen = set(stems(new.out)), set(stems(new.into))
    about, theirs = ({word for clause in each.clauses for word in clause.subject} for each in (new, was))
    if any(map(_tells_apart, about - rejected - chosen - theirs)) or any(word[0] == "#" for word in theirs - about):
        return 0
    purposes = [set(words(" ".join(compiled(FOR).findall(text)))) for text in (new.text, old_text)]
    if all(purposes) and purposes[0].isdisjoint(purposes[1]):  # for this, and for that
        return 0
    if rejected and rejected <= was.stems and new.stems - was.stems:
        return 3
    shared = _told_words(new.stems & was.stems)
    is_same_sort = bool(sorts_of(new.text) & sorts_of(old_text)) and new.stems != was.stems
    is_told = bool(new.change) or _told_words(new.stems) == _told_words(was.stems)
    return 2 if shared and is_same_sort and is_told else 0


def _tells_apart(word: str) -> bool:
    return word.startswith("#") or has_digit(word)


def _still_says(line: str, old: Memory, content: str) -> bool:
    """Return True if a name or description is not cut from the old text, and names nothing that is gone from it."""
    if line.rstrip("… .").casefold() in old.body.casefold() or is_made_from(old.body, line):
        return False
    return not set(stems(line)) & set(stems(old.body)) - set(stems(content))


def _keep_rest(proposal: Proposal, old: Memory) -> Proposal:
    """The proposal of a model with the text that it replaces below its own, when that says much that it does not."""
    known = set(subject(old.body))
    if len(known) < LONG or len(known & set(subject(proposal.content))) >= COVERED * len(known):
        return proposal
    day = (old.updated or old.created)[:10]
    said = f"Before that, as of {day}:" if day else "Before that:"
    return proposal._replace(content=f"{proposal.content.strip()}\n\n{said}\n\n{old.body.strip()}")


def _is_cut(proposal: Proposal) -> bool:
    """Whether a name is only the beginning of the text: two facts may begin alike."""
    name = proposal.name.rstrip("…").casefold()
    return name in proposal.content.casefold()
