"""Corrections: the memory whose place a new fact takes.

The nearest memories are compared with the new fact by a trained decision (`encode/replacement.py`). A memory is
replaced only if that is sure and the memory says nothing else; the new sentence then stands in its place, as it was
said. Where it is merely likely, both stay, and the new one names the other as superseded.

    The port is 8443           The port is 9443 now             replaced
    Use npm for installs       Use pnpm, not npm                replaced
    The API port is 9443       The API now returns 404          both stay
    Anna leads QA, Bob ops     Carla now leads QA               both stay

"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from memsheaf.encode.replacement import replaces
from memsheaf.errors import MemsheafError, Ref
from memsheaf.memory import Memory
from memsheaf.open_scope import OpenScope, find_matches
from memsheaf.recall.turns import Proposal
from memsheaf.text import tokenizer
from memsheaf.text.sentences import find_sentences, is_made_from, is_question, make_description, make_name
from memsheaf.text.similarity import SAME, alike, coverage
from memsheaf.text.similarity import words as split_words

REPLACE_FROM = 0.7  # likelihood from which a memory that says nothing else is replaced
LINK_FROM = 0.6  # from which it is named as superseded
UNSAID_FROM = 0.6  # from which a sentence that differs in one value alone replaces one, without a word of change
PLAIN_FROM = 0.1  # instead of both, where the words already say it: only a number changes, or the old value is denied
MIN_SENTENCE_WORDS = 3  # of one that differs from another in a value alone
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
_NUMBER = r"\d+(?:[-:.,/]\d+)*"  # a day or a time is one
_LAST_NUMBER = (
    rf"({_NUMBER})(?:\W+\w+)?\W*$"  # a value stands at the end; one before that may name a thing: "room 12 is …"
)
_LATIN_NAME = r"[A-Za-z][\w.+#-]*"
_DAY = r"\b\d{4}-\d\d-\d\d\b"
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
        candidates.append((_judge(old.body.strip(), content), old))
    candidates.sort(key=lambda candidate: -candidate[0])
    sure = [old for chance, old in candidates if _is_replaced(chance, old.body, content)][:1]
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
        or not has_word_of_change(proposal.content)  # another name and no such word: another memory
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
    is_sure = _is_replaced(_judge(old.content, new.content), old.content, new.content)
    return is_sure or new.content == old.content


def has_word_of_change(text: str) -> bool:
    """Return True if a sentence has a word that says that something changed: "now", "moved", "no longer"."""
    return bool(re.search(_CHANGE, text))


def telling_words(text: str) -> set[str]:
    """Return the words of a text that say what it is about: neither common words nor numbers."""
    return {word for word in tokenizer.words(text) if not tokenizer.is_weak(word) and not any(map(str.isdigit, word))}


def _judge(old: str, new: str) -> float:
    """Return how likely a sentence takes the place of an older one; 0 where they share no telling word or number.

    Days do not count: those in brackets are ours.
    """
    before, now = ({*tokenizer.words(re.sub(_DAY, " ", text))} for text in (old, new))
    is_akin = any(not tokenizer.is_weak(word) for word in before & now)
    return replaces(old, new) if is_akin else 0.0


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


def _is_replaced(chance: float, body: str, content: str) -> bool:
    """Return True if a memory is one sentence, and nothing true is lost when the new one takes its place.

    The trained decision is mistaken where a second fact looks like the first, and that must never cost a memory. So
    the new sentence has to say that something changed, or to differ in numbers alone, and it may change one thing:

        My daughter is called Mia    My daughter is called Lea                no word of change
        The timeout is 30s           The timeout is 60s on staging now        adds "staging"
        Tests run on Python 3.11     They run on 3.12 too now                 an addition
        Room 101 is Kim's            Room 102 is Kim's now                    another room
        We use Jest for unit tests   Use Playwright, not Jest, for e2e tests  changes two things
        We use Redis for caching     We use Redis for queues now              another purpose
    """
    if chance < PLAIN_FROM or len(list(find_sentences(body))) != 1 or re.search(_ADDITION, content):
        return False
    has_cue = has_word_of_change(content)
    if tokenizer.is_unspaced(body):  # there are no words to count
        names = [set(re.findall(_LATIN_NAME, text)) for text in (body, content)]
        is_same_subject = body[:2] == content[:2] and len(names[1] - names[0]) <= 1
        return has_cue and is_same_subject and chance >= REPLACE_FROM
    before, now = re.findall(_NUMBER, body), re.findall(_NUMBER, content)
    values = [new for old, new in zip(before, now, strict=False) if old != new]
    if len(before) == len(now) and len(values) > 1:
        return False  # two things: "Parcel 1 went to harbour 10", "Parcel 10 went to harbour 73"
    is_value = len(before) == len(now) and len(values) == 1 and values == re.findall(_LAST_NUMBER, content)
    if not has_cue:
        changed = {*tokenizer.words(body)} ^ {*tokenizer.words(content)}
        is_sentence = len(re.findall(r"[^\W\d]+", content)) >= MIN_SENTENCE_WORDS  # "Client 4" is a name
        is_large = is_value and len(values[0]) > 1  # "client 4" is another client
        return is_large and is_sentence and all(word.isdigit() for word in changed) and chance >= UNSAID_FROM
    difference = _compare(body, content)
    if difference.is_exception:
        return False
    if not difference.lost and not difference.new and values:
        return is_value
    if not difference.lost and not values and difference.denies and difference.added == 1:
        return chance >= PLAIN_FROM  # all that it says stands in the new sentence, too: "I prefer yarn, not pnpm"
    return chance >= REPLACE_FROM and (difference.denies or difference.added <= len(difference.lost) < 2)


def _may_link(chance: float, body: str, content: str) -> bool:
    """Return True if recall should show a memory only beside the new sentence, which may correct it."""
    difference = _compare(body, content)
    if difference.is_exception or is_question(body):
        return False
    if difference.denies:
        return chance >= PLAIN_FROM
    is_near = min(len(difference.lost), len(difference.new)) < 2
    return chance >= REPLACE_FROM or (chance >= LINK_FROM and is_near)


def _keep_rest(proposal: Proposal, old: Memory) -> Proposal:
    """Return a model's proposal with the text that it replaces below its own, where much of that would be lost."""
    known = telling_words(old.body)
    if len(known) < LONG_BODY_WORDS or coverage(known, telling_words(proposal.content)) >= SAME:
        return proposal
    day = (old.updated or old.created)[:10]
    heading = f"Before that, as of {day}:" if day else "Before that:"
    return proposal._replace(content=f"{proposal.content.strip()}\n\n{heading}\n\n{old.body.strip()}")
