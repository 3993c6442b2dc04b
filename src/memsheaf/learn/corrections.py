"""Corrections: the memory whose place a new fact takes.

The nearest memories are compared with the new fact by a trained decision (`learn.replacement.replaces`). A memory is
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

from memsheaf.errors import MemsheafError
from memsheaf.index.database import Match
from memsheaf.learn.replacement import LINK_FROM, REPLACE_FROM, replaces
from memsheaf.memory import Memory
from memsheaf.recall.turns import Proposal
from memsheaf.text import tokenizer
from memsheaf.text.sentences import find_sentences, is_question
from memsheaf.text.similarity import SAME, alike, coverage, words
from memsheaf.text.summary import is_made_from, make_description, make_name

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
_DENIALS = frozenset(
    ("not", "no", "instead", "rather", "over", "nicht", "statt", "pas", "plus", "non", "niet", "nie")
)
_LEFT = r"\b(?:switched|moved|migrated|changed|went) from\b"
_PURPOSE = r"(?i)\b(?:for|für|pour|para|per|voor|dla)\b"


class Memories(Protocol):
    """The memories that are there; `Sheaf` is one."""

    def matches(self, query: str, *, limit: int) -> Sequence[Match]:
        """Return what has to do with a text, best first."""

    def read(self, path: str) -> Memory:
        """Return one memory as it is now."""


def find_corrected(target: Memories, proposal: Proposal) -> Proposal:
    """Return a proposal with the memory that it replaces, if there is one, or those that it may correct.

    A memory that says the same is named as replaced, too; nothing changes with it.
    """
    if proposal.replaces:
        return _keep_rest(proposal, target.read(proposal.replaces))
    candidates: list[tuple[float, Memory]] = []
    for match in target.matches(f"{proposal.name}\n{proposal.content}", limit=MAX_COMPARED):
        if match.row.state != "ok" or match.row.trust != "confirmed":
            continue
        try:
            old = target.read(match.row.path)
        except MemsheafError:
            continue
        if old.kind == proposal.kind and words(old.body) == words(proposal.content):
            return _replace(proposal, old)
        if old.is_item:  # those are for their program to change
            continue
        if (old.kind, old.name) == (proposal.kind, proposal.name) and not _is_cut_from_text(proposal):
            return _keep_rest(_replace(proposal, old), old)
        candidates.append((replaces(old.body.strip(), proposal.content), old))
    candidates.sort(key=lambda candidate: -candidate[0])
    sure = [old for chance, old in candidates if chance >= REPLACE_FROM and _may_be_lost(old.body, proposal.content)]
    likely = [
        old for chance, old in candidates if _is_marked(chance, old.body, proposal.content) and old not in sure[:1]
    ]
    proposal = proposal._replace(supersedes=tuple(old.path for old in likely[:MAX_LINKED]))
    return _take_place(proposal, sure[0]) if sure else proposal


def correct_written(target: Memories, proposal: Proposal) -> tuple[Memory | None, dict[str, Any]]:
    """Return the memory that one which an agent writes corrects, if there is one, and how the new one is stored then.

    What a person wrote or pinned stays, and the new one names it as superseded.
    """
    corrected = find_corrected(target, proposal)
    old = target.read(corrected.replaces) if corrected.replaces else None
    if old is None or old.name == proposal.name or alike(words(old.body), words(proposal.content)) >= SAME:
        return None, {"supersedes": corrected.supersedes}
    if old.pinned or old.source == "user":
        return None, {"supersedes": (old.path,)}
    return old, {"path": old.path, "replace": True, "expect": old.version}


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
    return new.content == old.content or (
        replaces(old.content, new.content) >= REPLACE_FROM and _may_be_lost(old.content, new.content)
    )


def telling_words(text: str) -> set[str]:
    """Return the words of a text that say what it is about: neither common words nor numbers."""
    return {word for word in tokenizer.words(text) if not tokenizer.is_weak(word) and not any(map(str.isdigit, word))}


def _words_but_numbers(text: str) -> set[str]:
    return {word for word in tokenizer.words(text) if not word.isdigit()}


def _replace(proposal: Proposal, old: Memory) -> Proposal:
    return proposal._replace(replaces=old.path, version=old.version)


def _take_place(proposal: Proposal, old: Memory) -> Proposal:
    """Return a proposal in the place of a memory, with that one's type, and its name where it still fits."""
    content = proposal.content
    name = old.name if _still_fits(old.name, old, content) else make_name(content)
    description = old.description if _still_fits(old.description, old, content) else make_description(content)
    return _replace(proposal, old)._replace(name=name, description=description, kind=old.kind)


def _still_fits(line: str, old: Memory, content: str) -> bool:
    """Return True if a name or description was written by hand, and names nothing that is gone from the text."""
    if is_made_from(old.body, line) or line.casefold().rstrip("….") in old.body.casefold():
        return False
    words, before, now = (set(tokenizer.words(text)) for text in (line, old.body, content))
    return not words & (before - now)


class _Difference(NamedTuple):
    """The telling words that a new sentence lacks and adds, in how many places, and whether it denies one."""

    lost: set[str]
    new: set[str]
    added: int
    denies: bool
    has_purpose: bool

    @property
    def is_exception(self) -> bool:
        """True for a sentence that says where, when or for what else something holds. The old one stays true."""
        if self.denies:
            return self.added > 1
        return bool(self.added) and (self.has_purpose or not self.lost)


def _compare(body: str, content: str) -> _Difference:
    before, now = _subject_words(body), _subject_words(re.sub(_CHANGE, " ", content))
    tokens = re.findall(r"[\w-]+", re.sub(_LEFT, " not ", content.casefold()))
    places = [place for place, token in enumerate(tokens) if token in now - before]
    added = sum(place - 1 not in places for place in places)  # "GitHub Actions" is one place
    denied = {
        word for place, token in enumerate(tokens) if token in _DENIALS for word in tokens[place + 1 : place + 4]
    }
    has_purpose = bool(re.search(_PURPOSE, body) and re.search(_PURPOSE, content))
    return _Difference(before - now, now - before, added, bool(denied & before), has_purpose)


def _subject_words(text: str) -> set[str]:
    """Return the words that a sentence is about: no common ones, and no numbers."""
    return {word for word in re.findall(r"[^\W\d_][\w-]*", text.casefold()) if _is_telling(word)}


def _is_telling(word: str) -> bool:
    stems = tokenizer.words(word)
    # "evening" is not the common word "even"
    return any(not tokenizer.is_weak(stem) or len(word) - len(stem) > 2 for stem in stems)


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
    has_cue = bool(re.search(_CHANGE, content))
    if tokenizer.is_unspaced(body):
        return has_cue  # no words to count
    if not has_cue:
        return _words_but_numbers(body) == _words_but_numbers(content)
    difference = _compare(body, content)
    if difference.denies:
        return not difference.is_exception
    return not difference.is_exception and difference.added <= len(difference.lost) < 2


def _is_marked(chance: float, body: str, content: str) -> bool:
    """Return True if recall should show a memory only beside the new sentence, which may correct it."""
    difference = _compare(body, content)
    if chance < LINK_FROM or difference.is_exception or is_question(body):
        return False
    changes_much = len(difference.lost) > 1 and len(difference.new) > 1
    return not changes_much or chance >= REPLACE_FROM


def _keep_rest(proposal: Proposal, old: Memory) -> Proposal:
    """Return a model's proposal with the text that it replaces below its own, where much of that would be lost."""
    known = telling_words(old.body)
    if len(known) < LONG_BODY_WORDS or coverage(known, telling_words(proposal.content)) >= SAME:
        return proposal
    day = (old.updated or old.created)[:10]
    heading = f"Before that, as of {day}:" if day else "Before that:"
    return proposal._replace(content=f"{proposal.content.strip()}\n\n{heading}\n\n{old.body.strip()}")


def _is_cut_from_text(proposal: Proposal) -> bool:
    """Return True if a name is only the beginning of the text: two facts may begin alike."""
    return proposal.name.rstrip("…").casefold() in proposal.content.casefold()
