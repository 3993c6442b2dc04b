"""What a user asks to keep, or states for good, where no model is asked.

A request to remember is known by its phrases (`prompts/phrases.md`, by language), what is merely stated by the
classifier. Only the user's own sentences are read: what is pasted or quoted is left out, and so is a question, and
what holds for the moment only. Better nothing than something else than was said: the sentence is kept as it stands,
with days beside its dates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

from memsheaf.guard.worth import ephemeral
from memsheaf.learn.corrections import CORRECTION, corrects_something
from memsheaf.learn.pasted import OTHERS, OwnWords, read_own_words
from memsheaf.learn.statements import read_statement
from memsheaf.recall.ignore import asks_not_to_store
from memsheaf.recall.turns import Proposal, Turn
from memsheaf.text import tokenizer
from memsheaf.text.classifier import classify
from memsheaf.text.dates import absolute
from memsheaf.text.phrases import (
    PhraseBook,
    compiled,
    guess_languages,
    lexicon,
    sentence_border,
)
from memsheaf.text.similarity import compared_words
from memsheaf.text.spoken import SHOWN
from memsheaf.text.summary import leading_request, make_description, make_name

LASTING = 0.5  # least probability that a sentence is worth keeping, unless somebody asks for it
PASTED = 0.8  # the same in a long message, which may be pasted
EXPLAINING = 0.2  # the same for a sentence that is kept together with the one before it
TELLING = 2  # least words of a sentence with a pronoun that is kept without the one before it
ASIDE = 6  # most words before a request to remember; with more, their sentence is meant
SHORT = 300  # characters of a message that was surely typed
CLAUSES = 6  # clauses of a sentence that are read, besides the first
LONGEST = 400  # characters of a sentence; a longer one was pasted
MOST = 100  # sentences that are read at the beginning of a message, and at its end

# Titles in braces are lists of a language: what may stand before a phrase, what makes a clause a question, a doubt or
# a report, and what stands between two clauses, with spaces between words and without.
_BEFORE = r"{before}[\s,:，、.!-]*+"
_TURNED = "{turned round}.*"
_JOINTS = (r"[，、,；：;:]\s*|\s+(?={joined})", r"[,;:–—]\s+|\s-+\s+|\s+(?={joined})")
_CONTINUES = r"(?i)\b(?:that|this) way\b|\bthat's why\b|^so\b|^(?:deshalb|donc|por eso|所以|だから)"
_POINTS = r"(?i)(?<![/\w])(?:it|that|those|them|this|anything)\b(?! (?:you|i|we|the|when)\b)"
_OPEN = (
    r"(?i)(?:if|imagine|suppose|what|why|how|when|who|do|does|did|should|is|are|can|could|would|maybe|perhaps|pretend"
    r"|explain|translate|summari[sz]e|i (?:think|guess|heard|wonder)|wenn|falls|si|如果|もし)\b"
)
_POINTING = r"(?i)(?:it|this|that|them|those)\b(?:\W*$| (?:for|when|until|next|too|as|in case|please)\b)"
_LAST_CLAUSE = r"\s*(?:[,;，；]|\s[-–—]+\s)\s*([^,;，；]+)$"
_STOPS = " .,!?。，！？;；~–—-"
_QUOTES = "\"'„“«「『《‘>/<{-(=\\"  # and the beginnings of comments and elements
_BULLET = r"(?:[-*•–]|\d{1,2}[.)])\s+"
_ASKED = r"[?？]\W*$|(?:[吗呢]|ですか|ますか|でしょうか|かな|っけ)\W*$"
_ABOUT_THIS = (
    r"\b(?:this|that) (?:time|case|run|summary|file|function|line|test|variable|method|branch|commit|pr|page|tab"
    r"|loop|block|one|answer|reply|question|message)\b|\bfor this\W*$"
    r"|\bthe (?:first|second|third|last) (?:one|function|option)\b|\besta (?:ocasión|respuesta)\b|\bdieser antwort\b"
    r"|この質問"
    r"|\b(?:dieser?|diese[mns]?) (?:datei|funktion|zeile)\b|\bce fichier\b|\beste archivo\b|[这這]个?(?:文件|函数|行)"
    r"|この(?:ファイル|関数|行)"
)


class Sentence(NamedTuple):
    """One sentence of the user, the same with quotations masked, where it stands, and whether it is in a list."""

    text: str
    spoken: str
    at: int = 0
    is_item: bool = False


class PhraseMatch(NamedTuple):
    """What is to be kept of a sentence that a phrase fits, and where in it the clause begins that says it."""

    start: int
    end: int
    clause: int


def find_stated_facts(turn: Turn, today: date, *, corrections: bool = False) -> list[Proposal]:
    """What the user asks to keep or states in a turn, each fact once.

    With `corrections`, also what is not worth keeping but says that something changed: a memory may say how it was.

    >>> from memsheaf.recall.turns import Message
    >>> turn = Turn("c", (Message("user", "From now on, answer in English. Thanks!"),))
    >>> [(each.kind, each.content) for each in find_stated_facts(turn, date(2026, 11, 15))]
    [('feedback', 'From now on, answer in English.')]
    """
    found: dict[str, Proposal] = {}
    for message in turn.messages:
        if message.role != "user" or asks_not_to_store(message.text):
            continue
        earlier, before, is_dictated = Sentence("", ""), "", False
        own = read_own_words(message.text)
        for said in _sentences(own):
            least = LASTING if len(message.text) <= SHORT else PASTED
            is_dictated = (is_dictated and said.is_item) or _dictates(said)
            if is_dictated and said.is_item:
                proposal = _draft(said.text, classify(said.spoken)[0], True, today)
            else:
                proposal = _find_request(said, earlier, today) or _find_lasting(said, today, least)
            if proposal is None and corrections and len(message.text) <= SHORT:
                proposal = _find_correction(said, today)
            if before and _continues(said, found[before], proposal):
                found[before] = _joined(found[before], said, today)
                proposal = None
            elif proposal and not proposal.explicit and _dangles(said.spoken):
                proposal, before = None, ""
            elif not proposal:
                before = ""
            if proposal and (proposal.explicit or said.at < own.sign):
                key = " ".join(compared_words(proposal.content))
                before = key if proposal.why != CORRECTION else ""
                doubt = own.doubt(said.at + len(said.spoken), asked=proposal.explicit)
                proposal = proposal._replace(conversation=turn.label, doubt=doubt)
                known = found.get(key)
                found[key] = proposal if known is None or proposal.explicit else known
            earlier = said
    return list(found.values())


def _dictates(said: Sentence) -> bool:
    """Whether a line asks to remember the list below it: *remember:*."""
    if not said.spoken.endswith((":", "：")):
        return False
    return any(_find(language, f"{said.spoken} x", "remember") for language in _lexicons(said.spoken))


def _dangles(sentence: str) -> bool:
    """Whether a sentence says too little without the one before it: *don't propose it again*."""
    telling = [word for word in tokenizer.words(sentence) if not tokenizer.is_weak(word)]
    return len(telling) < TELLING and bool(re.search(_POINTS, re.split("[,，]", sentence)[0]))


def _continues(said: Sentence, kept: Proposal, proposal: Proposal | None) -> bool:
    """Whether a sentence explains the one that was kept before it, and is none to keep for itself."""
    if re.search(_ASKED, said.spoken) or ephemeral(said.text) or (proposal and proposal.explicit):
        return False
    if _dangles(said.spoken) or re.search(_CONTINUES, said.spoken):
        return bool(proposal)
    shared = set(tokenizer.words(said.spoken)) & set(tokenizer.words(kept.content))
    is_statement = proposal is not None or classify(_told(said))[1] >= EXPLAINING
    is_about_it = any(not tokenizer.is_weak(word) for word in shared)
    return is_statement and is_about_it and read_statement(said.text).change < 2


def _joined(kept: Proposal, said: Sentence, today: date) -> Proposal:
    return kept._replace(content=f"{kept.content} {absolute(said.text.strip(), today)}")


def _lexicons(sentence: str) -> list[PhraseBook]:
    """The phrases of the languages that a sentence may be in."""
    return [lexicon("phrases", language) for language in guess_languages(sentence)]


def _sentences(own: OwnWords) -> list[Sentence]:
    """The user's own sentences, one after the other; of very many the first and the last."""
    found, start = [], 0
    borders = (match.span() for match in sentence_border().finditer(own.spoken))
    for end in [*borders, (len(own.spoken), len(own.spoken))]:
        sentence, original, at = own.spoken[start : end[0]], own.text[start : end[0]], start
        start = end[1]
        is_cut = OTHERS in (own.spoken[at - 1 : at], own.spoken[end[0] : end[0] + 1])
        if is_cut or len(sentence) > LONGEST or not re.search(r"\w", sentence):
            continue
        bullet = re.match(rf"\s*({_BULLET})?", sentence)
        cut, is_item = (bullet.end(), bool(bullet[1])) if bullet else (0, False)
        found.append(Sentence(original[cut:].rstrip(), sentence[cut:].rstrip(), at + cut, is_item))
    return found if len(found) <= 2 * MOST else found[:MOST] + found[-MOST:]


def _find_request(said: Sentence, earlier: Sentence, today: date) -> Proposal | None:
    """The memory that a sentence asks for, if it asks for one."""
    if said.spoken.endswith((":", "：")):
        return None
    for language in _lexicons(said.spoken):
        starts = _starts(language, said.spoken, len(said.spoken))
        if any(language.compiled(_TURNED).fullmatch(said.spoken, start) for start in starts):
            continue
        if re.search(_ASKED, said.spoken) and not _is(language, said.spoken, "polite"):
            continue
        if _is(language, said.spoken, "remember that"):
            return _draft(earlier.text, classify(earlier.spoken)[0], True, today)
        if (last := re.search(_LAST_CLAUSE, said.spoken)) and _is(language, last[1], "remember that"):
            meant = Sentence(said.text[: last.start()], said.spoken[: last.start()])
            meant = earlier if earlier.text and _dangles(meant.spoken) else meant
            return _draft(meant.text, classify(meant.spoken)[0], True, today)
        if found := _find(language, said.spoken, "remember"):
            meant = _meant(said, found, starts, earlier)
            return _draft(meant.text, classify(meant.spoken)[0], True, today)
    if (start := leading_request(said.spoken)) and not re.search(_ASKED, said.spoken):  # in another language
        return _draft(said.text[start:], classify(said.spoken[start:])[0], True, today)
    return None


def _meant(said: Sentence, found: PhraseMatch, starts: Sequence[int], earlier: Sentence) -> Sentence:
    """What is to be remembered: what follows the request, the sentence that it is in, or what was said before."""
    end = found.end if said.spoken[found.end :].strip(_STOPS) else len(said.spoken)  # its full stop belongs to it
    start = 0 if found.start in starts else found.start  # "please always …" has no request to cut off
    is_pointing = re.match(_POINTING, said.spoken[start:]) and len(said.spoken[start:].split()) <= ASIDE
    if is_pointing and earlier.text:
        return earlier
    start = max(start, leading_request(said.spoken))  # "remember that if …"
    kept = Sentence(said.text[start:end], said.spoken[start:end])
    if len(said.spoken[: found.start].split()) > ASIDE:  # "we chose A, please remember, the review insisted"
        return Sentence(said.text, said.spoken)
    return kept


def _find_lasting(said: Sentence, today: date, least: float) -> Proposal | None:
    """The fact that a sentence tells, or a clause of it, where the classifier holds it for worth keeping."""
    language = _lexicons(said.spoken)[0]
    if ephemeral(said.text) or (re.search(_ASKED, said.spoken) and not _is(language, said.spoken, "polite")):
        return None
    end = len(said.spoken.rstrip(_STOPS))
    start = _starts(language, said.spoken, end)[-1]
    for place in (start, *_clauses(language, said.spoken, start, end)):
        kind, worth = classify(_told(said, place, end))
        if worth >= least:
            return _draft(said.text, kind, False, today)
    return None


def _find_correction(said: Sentence, today: date) -> Proposal | None:
    """What a sentence says has changed, if it does."""
    if re.search(_ASKED, said.spoken) or ephemeral(said.text) or not corrects_something(said.text):
        return None
    starts = _starts(_lexicons(said.spoken)[0], said.spoken, len(said.spoken))
    if any(re.match(_OPEN, said.spoken[at:]) for at in starts):
        return None
    proposal = _draft(said.text, classify(said.spoken)[0], False, today)
    return proposal._replace(why=CORRECTION) if proposal else None


def _told(said: Sentence, start: int = 0, end: int | None = None) -> str:
    """A sentence from a place on, without what is quoted in it; code and addresses stay."""
    text = said.text[start:]

    def told(run: re.Match[str]) -> str:
        original = text[slice(*run.span())]
        return "…" if original[0] in _QUOTES else original

    return re.sub(f"{SHOWN}+", told, said.spoken[start:end])


def _is(language: PhraseBook, sentence: str, title: str) -> bool:
    """Whether a phrase of this list is all of a sentence."""
    found = _find(language, sentence, title)
    return found is not None and found.clause == found.start


def _find(language: PhraseBook, sentence: str, title: str) -> PhraseMatch | None:
    """The first phrase of a list that is all of a sentence, but for what may stand before it."""
    end = len(sentence.rstrip(_STOPS))
    starts = _starts(language, sentence, end)
    clauses = _clauses(language, sentence, starts[-1], end)
    fitting = list(language.candidates((title,), sentence))
    for places in (starts, clauses):
        for _, phrase, pattern in fitting:
            for place in places if places is starts or not phrase.startswith("...") else ():
                if match := pattern.fullmatch(sentence, place, end):
                    if "kept" in pattern.groupindex:
                        return PhraseMatch(*match.span("kept"), match.start("kept"))
                    return PhraseMatch(place if places is starts else starts[-1], end, place)
    return None


def _starts(language: PhraseBook, sentence: str, end: int) -> list[int]:
    """Where the first clause may begin: at the beginning, and behind words such as *please*."""
    starts = [0]
    while len(starts) < 4 and (before := language.compiled(_BEFORE).match(sentence, starts[-1], end)):
        starts.append(before.end())
    return starts


def _clauses(language: PhraseBook, sentence: str, start: int, end: int) -> list[int]:
    """Where the other clauses begin, up to one that follows on a report or a supposition."""
    found: list[int] = []
    for joint in language.compiled(_JOINTS[language.is_spaced]).finditer(sentence, start, end):
        if len(found) == CLAUSES or language.compiled("{spoils}").search(sentence, start, joint.start()):
            break
        place = joint.end()
        while before := language.compiled(_BEFORE).match(sentence, place, end):
            place = before.end()
        if not language.compiled(_TURNED).fullmatch(sentence, place, end):
            found.append(place)
    return found


def draft_fact(text: str, today: date, kind: str = "") -> Proposal:
    """Return the memory that a sentence makes: the words as they were said, with days in brackets behind its dates.

    >>> draft_fact("no emojis in commit messages", date(2026, 11, 15)).content
    'no emojis in commit messages'
    >>> draft_fact("I freeze the branch tomorrow.", date(2026, 11, 15)).content
    'I freeze the branch tomorrow (2026-11-16).'
    """
    content = absolute(text.strip(), today)
    return Proposal(make_name(content), make_description(content), kind or classify(text)[0], content)


def _draft(text: str, kind: str, explicit: bool, today: date) -> Proposal | None:
    """Return the memory, or None if nothing is left of the sentence, or it is of the moment and nobody asked for it.

    What the user asked to keep is never dropped here: the checks before a save refuse it with a reason.
    """
    text = text.strip(" \t\n,:;-，：、；")
    bare = text.rstrip(_STOPS)
    if not explicit and (len(bare.encode()) < 6 or ephemeral(text) or compiled(_ABOUT_THIS).search(text)):
        return None
    if not bare:
        return None
    why = "the user said so" if explicit else "the user's own words"
    return draft_fact(text, today, kind)._replace(explicit=explicit, why=why)
