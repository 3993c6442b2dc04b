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
from typing import Protocol

from memsheaf.errors import MemsheafError
from memsheaf.index.database import Match
from memsheaf.learn.replacement import LINK_FROM, REPLACE_FROM, replaces
from memsheaf.memory import Memory
from memsheaf.recall.turns import Proposal
from memsheaf.text import tokenizer
from memsheaf.text.sentences import find_sentences
from memsheaf.text.similarity import LIKE, alike, compared_words, words
from memsheaf.text.summary import is_made_from, make_description, make_name

MAX_COMPARED = 12  # nearest memories that a new fact is compared with
MAX_LINKED = 2
LONG_BODY_WORDS = 15  # a model's shorter text does not replace so many telling words,
MIN_COVERED = 0.7  # unless it has this share of them


_CHANGE = re.compile(
    r"(?i)\b(?:now|nowadays|these days|any ?more|no longer|not|instead|over|rather than|no more|actually|correction"
    r"|from now on|as of|since|switched|changed|moved|renamed|replaced|migrated|dropped|forget|scrap|gone|again"
    r"|jetzt|nun|nicht mehr|nicht|sondern|statt|stattdessen|ab sofort|seit|umgestellt|gewechselt|umgezogen"
    r"|maintenant|désormais|ne .{1,20} plus|plus de|au lieu|remplacé|passés?|changé|pas"
    r"|ahora|ya no|en lugar|en vez|cambi\w+|pasamos|desde|no"
    r"|adesso|ora|non più|invece|agora|em vez|nu|niet meer|teraz|już nie)\b|→|->"
    r"|现在|现已|改|不再|不是|而是|换成|換成|已经|今は|現在|もう|ではなく|じゃなく|変わ|変更|やめ|移行"
)
_ADDITION = re.compile(
    r"(?i)\b(?:too|also|as well|additionally|besides|another|second|both|auch|außerdem|zusätzlich|aussi|également"
    r"|también|además|anche|também|ook|też)\b|也|还|還|另外|も(?!う)|また"
)
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]")


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
        if old.kind == proposal.kind and compared_words(old.body) == compared_words(proposal.content):
            return _replace(proposal, old)
        if old.is_item:  # those are for their program to change
            continue
        if (old.kind, old.name) == (proposal.kind, proposal.name) and not _is_cut_from_text(proposal):
            return _keep_rest(_replace(proposal, old), old)
        candidates.append((replaces(old.body.strip(), proposal.content), old))
    candidates.sort(key=lambda candidate: -candidate[0])
    sure = [old for chance, old in candidates if chance >= REPLACE_FROM and _may_be_lost(old.body, proposal.content)]
    likely = [old for chance, old in candidates if chance >= LINK_FROM and old not in sure[:1]]
    proposal = proposal._replace(supersedes=tuple(old.path for old in likely[:MAX_LINKED]))
    return _take_place(proposal, sure[0]) if sure else proposal


def correct_written(target: Memories, proposal: Proposal) -> tuple[Memory | None, dict[str, object]]:
    """Return the memory that one which an agent writes corrects, if there is one, and how the new one is stored then.

    What a person wrote or pinned stays, and the new one names it as superseded.
    """
    corrected = find_corrected(target, proposal)
    old = target.read(corrected.replaces) if corrected.replaces else None
    if old is None or old.name == proposal.name or alike(words(old.body), words(proposal.content)) >= LIKE:
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
        lasting = [old for old in lasting if not any(_takes_back(new, old) for new in proposals)]
        lasting += proposals
    return lasting


def _takes_back(new: Proposal, old: Proposal) -> bool:
    if new.doubt and not old.doubt:
        return False
    if new.content == old.content:
        return True
    return replaces(old.content, new.content) >= REPLACE_FROM and _may_be_lost(old.content, new.content)


def telling_words(text: str) -> set[str]:
    """Return the words of a text that say what it is about: neither common words nor numbers."""
    words = tokenizer.words(text)
    return {word for word in words if not tokenizer.is_weak(word) and not any(map(str.isdigit, word))}


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


def _may_be_lost(body: str, content: str) -> bool:
    """Return True if a memory is one sentence, and nothing true is lost when the new one takes its place.

    The trained decision is mistaken where a second fact looks like the first, and that must never cost a memory. So
    the new sentence has to say that something changed, or to differ in numbers alone, and it may add no more telling
    words than it takes away. Otherwise it is a second fact, an exception or an addition:

        My daughter is called Mia    My daughter is called Lea        no word of change
        The timeout is 30s           The timeout is 60s on staging    adds "staging"
        Tests run on Python 3.11     They run on 3.12 too now         an addition
        We use Postgres for auth     Use MySQL, not Postgres, for the reports
    """
    if len(list(find_sentences(body))) != 1 or _ADDITION.search(content):
        return False
    has_cue = bool(_CHANGE.search(content))
    if not body.isascii() and _UNSPACED.search(body):
        return has_cue  # no words to count
    before, now = telling_words(body), telling_words(_CHANGE.sub(" ", content))
    lost, added = before - now, now - before
    if not has_cue:
        return _words_but_numbers(body) == _words_but_numbers(content)
    return len(added) <= max(1, len(lost)) and (len(lost) < 2 or len(added) < 2)


def _keep_rest(proposal: Proposal, old: Memory) -> Proposal:
    """Return a model's proposal with the text that it replaces below its own, where much of that would be lost."""
    known = telling_words(old.body)
    is_covered = len(known & telling_words(proposal.content)) >= MIN_COVERED * len(known)
    if len(known) < LONG_BODY_WORDS or is_covered:
        return proposal
    day = (old.updated or old.created)[:10]
    heading = f"Before that, as of {day}:" if day else "Before that:"
    return proposal._replace(content=f"{proposal.content.strip()}\n\n{heading}\n\n{old.body.strip()}")


def _is_cut_from_text(proposal: Proposal) -> bool:
    """Return True if a name is only the beginning of the text: two facts may begin alike."""
    return proposal.name.rstrip("…").casefold() in proposal.content.casefold()
