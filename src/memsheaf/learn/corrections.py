"""Corrections: finding the memory that a new fact replaces, and what stays of the old text.

To take the wrong memory for the old one would lose it, so both have to speak of the same thing: the same sentence
with other numbers, or a sentence that says itself that something changed and shares its subject with the memory. What
else the old text says stays below the new one, with its day.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache

from memsheaf.errors import MemsheafError
from memsheaf.index.database import Match
from memsheaf.learn.rules import corrects
from memsheaf.memory import Memory
from memsheaf.recall.turns import Proposal
from memsheaf.text import tokenizer as indexed
from memsheaf.text.similarity import alike, fact, likeness, words
from memsheaf.text.tokenizer import stem
from memsheaf.values import Protocol

RIVALS = 8  # memories that may be the one that is corrected
SAME = 0.6  # from here on two sentences are one, but for their numbers
COMMON, SHARE, HALF = 2, 4, 2  # words of the subject in common: two, and a quarter or half of the shorter one
COMMON_WORDS = 0.5  # that two sentences which differ in a number have at least
COVERED = 0.7  # of the old subject; less, and the old text stays below
REST = 2  # words of an old subject beside the one that is rejected
LONG = 15  # words of a subject that a shorter text does not replace without keeping it

_CHOICES = "use prefer run deploy build test write format nutze verwende utilise préfère usa usamos uso prefiero"
_TAKEN = "use prefer switched moved nutze verwende utilise préfère usa usamos uso prefiero"  # one for the other
_DAYS = (
    "monday tuesday wednesday thursday friday saturday sunday january february march april june july august "
    "september october november december montag dienstag mittwoch donnerstag freitag samstag sonntag lundi mardi "
    "mercredi jeudi vendredi samedi dimanche lunes martes miercoles jueves viernes sabado domingo week month year "
    "today tomorrow"
)


class Memories(Protocol):
    """The memories that are there; `Sheaf` is one."""

    def matches(self, query: str, *, limit: int) -> Sequence[Match]:
        """What has to do with a text, best first."""
        ...

    def read(self, path: str) -> Memory:
        """One memory as it is now."""
        ...


def find_corrected(target: Memories, proposal: Proposal) -> Proposal:
    """The proposal with the memory that it corrects as `replaces`, if there is one, and what stays of that text."""
    if proposal.replaces:
        return _keep_rest(proposal, target.read(proposal.replaces), LONG)
    is_correction = corrects(proposal.content)
    is_new = is_correction or bool(_new().search(proposal.content))
    for match in target.matches(f"{proposal.name}\n{proposal.content}", limit=RIVALS):
        if match.row.state != "ok" or match.row.trust != "confirmed":
            continue
        try:
            old = target.read(match.row.path)
        except MemsheafError:
            continue
        if old.is_item:  # it is for its program to change
            continue
        if old.kind == proposal.kind and _differ_in_numbers(proposal.content, old.body, fact(old)):
            return proposal._replace(replaces=old.path, version=old.version)
        if (old.kind, old.name) == (proposal.kind, proposal.name):
            return _keep_rest(proposal._replace(replaces=old.path, version=old.version), old, 0)
        share = SHARE if is_correction else HALF
        if rejects(proposal.content, old.body):
            one = proposal._replace(replaces=old.path, version=old.version, kind=old.kind)
            return _keep_rest(one, old, 0)
        if is_new and (_is_about(proposal.content, old, share) or _is_revalued(proposal.content, old)):
            one = proposal._replace(replaces=old.path, version=old.version, kind=old.kind)
            return _keep_rest(one, old, 0)
    return proposal


def drop_retracted(by_turn: Iterable[Sequence[Proposal]]) -> list[Proposal]:
    """What is proposed turn by turn, without what a later turn says again or takes back: the last word counts.

    Within one turn two sentences that differ in a number are two facts. What may be pasted takes nothing back.
    """
    kept: list[tuple[Proposal, frozenset[str]]] = []
    for several in by_turn:
        new = [(one, frozenset(word for word in words(one.content) if word.isalpha())) for one in several]
        kept = [old for old in kept if not any(_takes_back(one, old) for one in new)] + new
    return [one for one, _ in kept]


def _takes_back(new: tuple[Proposal, frozenset[str]], old: tuple[Proposal, frozenset[str]]) -> bool:
    (one, said), (other, known) = new, old
    if one.kind != other.kind or likeness(said, known) < COMMON_WORDS or (one.doubt and not other.doubt):
        return False
    return one.content == other.content or _differ_in_numbers(one.content, other.content)


def subject(text: str) -> list[str]:
    """What a text is about: its words, as far as they tell, without numbers and days."""
    found = indexed.words(text)
    return [word for word in dict.fromkeys(found) if not indexed.is_weak(word) and not _is_value(word)]


def _differ_in_numbers(text: str, old: str, known: Sequence[str] = ()) -> bool:
    """Whether it is the same sentence with other numbers or days, and not one about something else."""
    first, second = set(subject(text)), set(subject(old))
    if first - second and second - first:
        return False
    said, theirs = words(text), known or words(old)
    plain, others = ([one for one in found if not _is_value(stem(one))] for found in (said, theirs))
    return len(plain) > 2 and likeness(plain, others) >= SAME and not alike(said, theirs)


def _is_about(text: str, old: Memory, share: int) -> bool:
    """Whether two texts share their subject: two telling words, and such a share of the shorter one."""
    new, known = subject(text), subject(f"{old.name}\n{old.body}")
    common = {word for word in set(new) & set(known) if not _new().fullmatch(word)}
    return len(common) >= COMMON and len(common) * share >= min(len(new), len(known))


def rejected_names(text: str) -> list[str]:
    """What a text names as not chosen, a word each.

    >>> rejected_names("Use pnpm, not npm."), rejected_names("We use pnpm.")
    (['npm'], [])
    """
    return [name.rstrip(".") for name in _instead().findall(text)]


def rejects(text: str, old: str) -> bool:
    """Whether a text says that the one thing which an old text is about is not it: *use pnpm, not npm*."""
    verbs, taken, said, theirs = ({stem(word) for word in words(one)} for one in (_CHOICES, _TAKEN, text, old))
    rejected = {word for name in rejected_names(text) for word in subject(name)}
    new, known = (set(subject(one)) - verbs - {"user"} for one in (text, old))
    chosen, rest = new - rejected, known - rejected
    if not rejected & known or not chosen or chosen & known or len(rest) > REST or (rest and len(chosen) > 1):
        return False
    return bool(verbs & said & theirs or (taken & said and taken & theirs))


def _is_revalued(text: str, old: Memory) -> bool:
    """Whether both begin with the same subject and give it a value of the same sort: a day, or a number."""
    new, known = (_clause().split(one.strip(), maxsplit=1)[0] for one in (text, old.body))
    first, second = set(subject(new)), set(subject(known))
    return len(first & second) * 2 >= max(1, min(len(first), len(second))) and bool(_sorts(new) & _sorts(known))


def _keep_rest(proposal: Proposal, old: Memory, least: int) -> Proposal:
    """The proposal with the text that it replaces below its own, when that says much that it does not."""
    known = set(subject(old.body))
    if len(known) < least or len(known & set(subject(proposal.content))) >= COVERED * len(known):
        return proposal
    day = (old.updated or old.created)[:10]
    said = f"Before that, as of {day}:" if day else "Before that:"
    return proposal._replace(content=f"{proposal.content.strip()}\n\n{said}\n\n{old.body.strip()}")


def _is_value(word: str) -> bool:
    return any(letter.isdigit() for letter in word) or word in _days()


def _sorts(text: str) -> set[str]:
    """Which sorts of values a text holds."""
    found = [stem(word) for word in words(text)]
    days = {"day"} if any(word in _days() for word in found) or _weekday().search(text) else set()
    return days | ({"number"} if any(letter.isdigit() for word in found for letter in word) else set())


@cache
def _clause() -> re.Pattern[str]:
    return re.compile(r"[,;:(\n]|[.!?](?:\s|$)|[，；。]|\s(?:since|because|so|but|and|und|weil|car|porque)\s")


@cache
def _instead() -> re.Pattern[str]:
    return re.compile(
        r"(?i)(?:[,;–—-]\s*(?:and |und |et |y )?(?:not|nicht|pas|no)|\b(?:instead of|rather than|over"
        r"|no longer (?:use|prefer)|(?:switched|moved) (?:away )?from|statt|anstatt"
        r"|au lieu d[e']|plutôt que|en (?:vez|lugar) de))\s+([\w.+#/-]+)"
    )


@cache
def _new() -> re.Pattern[str]:
    """A word of change: too weak to say that something known is wrong, unless the subject is much the same."""
    return re.compile(
        r"(?i)\b(?:now|instead|as of|from (?:now|here)|no more|moved|migrat\w*|switch\w*|chang(?:ed)?|replac\w*"
        r"|renam(?:ed)?|drop(?:ped)?|left|new|jetzt|nun|ab sofort|statt|neue\w*|désormais|maintenant|nouve\w+|ahora"
        r"|nuev\w+)\b"
        r"|现在|今は|改|新しい|新的"
    )


@cache
def _weekday() -> re.Pattern[str]:
    return re.compile("(?:周|週|星期|礼拜)[一二三四五六日天]|[月火水木金土日]曜")


@cache
def _days() -> frozenset[str]:
    return frozenset(stem(word) for word in _DAYS.split())
