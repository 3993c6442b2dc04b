"""What a user asks to keep, or states for good, where no model is asked.

A request to remember is known by its phrases (`prompts/phrases.md`, by language), what is merely stated by the
classifier. Only the user's own sentences are read: what is pasted or quoted is left out, and so is a question, and
what holds for the moment only. Better nothing than something else than was said: the sentence is kept as it stands,
with days beside its dates.
"""

from __future__ import annotations

import re
import unicodedata
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
from memsheaf.text.summary import find_requested, make_description, make_name

LASTING = 0.5  # least probability that a sentence is worth keeping, unless somebody asks for it
PASTED = 0.8  # the same in a long message, which may be pasted
EXPLAINING = 0.2  # the same for a sentence that is kept together with the one before it
TELLING = 2  # least words of a sentence with a pronoun that is kept without the one before it
ASIDE = 6  # most words before a request to remember; with more, their sentence is meant
SHORT = 300  # characters of a message that was surely typed
CLAUSES = 6  # clauses of a sentence that are read, besides the first
LONGEST = 400  # characters of a sentence that nobody asked to keep; a longer one was pasted
MIN_WRAPPED_CHARS = 50  # of a line that goes on in the next one
ASKED_FOR = "the user said so"
TOLD = "the user's own words"
MOST = 100  # sentences that are read at the beginning of a message, and at its end

# Titles in braces are lists of a language: what may stand before a phrase, what makes a clause a question, a doubt or
# a report, and what stands between two clauses, with spaces between words and without.
_BEFORE = r"{before}[\s,:，、.!-]*+"
_TURNED = "{turned round}.*"
_JOINTS = (r"[，、,；：;:]\s*|\s+(?={joined})", r"[,;:–—]\s+|\s-+\s+|\s+(?={joined})")
# A sentence that begins with one of these leans on the one before it, unless it orders something or ends the talk.
_LEANS = (
    r"(?i)\W*(?:(?:it|its|that|this|these|those|he|she|they|his|her|their)\b(?!['’]s (?:all|it)\b)"
    r"|(?:but|and|or|so|except|unless|otherwise|not|nor)\b"
    r"|(?:er|sie|dies|aber|und|oder|außer|sonst|ansonsten|nicht|deshalb)\b|es\b(?! gibt)"
    r"|das (?:ist|sind|war|gilt|heißt|wird|hat|kann|soll|darf|muss|geht|liegt|bleibt)\b"
    r"|(?:elles?|ils|ça|cela|ceci|c['’]est|mais|et|sauf|sinon|pas|donc)\b|il\b(?! (?:y a|faut))"
    r"|(?:eso|esto|él|ellas?|ellos|pero|y|excepto|salvo|a menos que|si no|por eso)\b"
    r"|[它他她]|[这這那](?:是|样|樣|会|會)|但|不过|不過|除非|除了|否则|否則|而且|并且|所以"
    r"|それ|これ|そこ|その|彼|ただし|でも|しかし|そして|だから|なので"
    r")(?!\W*(?:now|first|then|next|please|sure|yet|working|can|could|would you|will you|let['’]?s|go|run|fix|add"
    r"|write|make|create|update|check|show|help|look|explain|refactor|rename|delete|remove|open|tell|give|try|what|how"
    r"|why|where|who|jetzt|bitte|dann|maintenant|ahora)\b)|.*\b(?:that|this) way\b"
)
_POINTS = r"(?i)(?<![/\w])(?:it|that|those|them|this|anything)\b(?! (?:you|i|we|the|when)\b)"
_OPEN = (
    r"(?i)(?:if|imagine|suppose|what|why|how|when|who|do|does|did|should|is|are|can|could|would|maybe|perhaps|pretend"
    r"|explain|translate|summari[sz]e|i (?:think|guess|heard|wonder)|wenn|falls|si|如果|もし)\b"
)
_THESE = r"(?i)\b(?:these|the following|diese|folgende|ces|estas|estos)\b[\w\s]*\.?$"
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
        earlier = kept = Sentence("", "")
        before, is_dictated = "", False
        own = read_own_words(message.text)
        sentences = _sentences(own)
        is_short = len(message.text) <= SHORT
        for said, following in zip(sentences, [*sentences[1:], *sentences[-1:]], strict=True):
            announces = following is not said and _announces(said.spoken, following)
            is_below = said.is_item or earlier.spoken.endswith((":", "："))
            is_listed = is_dictated and is_below and not re.search(_ASKED, said.spoken)
            is_dictated = (announces and _dictates(said)) or (is_listed and said.is_item)
            wanted = said if is_listed else None
            if not is_listed and not announces:
                wanted = _find_request(said, earlier)
            meant, why, kind = wanted or said, ASKED_FOR, ""
            if not wanted:
                why, kind = _find_reason(said, LASTING if is_short else PASTED, corrections and is_short)
            proposal = _draft(meant, kind, why, message.text, today) if why else None
            is_asked = bool(before) and found[before].explicit
            leans = said.at < own.sign and _leans(own, earlier, said, across_lines=is_asked)
            if before and _continues(said, found[before], proposal, leans=leans):
                meant = _join(own, kept, said)
                content = draft_fact(as_typed(meant.text.strip(), message.text), today).content
                proposal = found.pop(before)._replace(content=content)
            elif proposal and not proposal.explicit and _dangles(said.spoken):
                proposal = None
            before = ""
            if proposal and (proposal.explicit or said.at < own.sign):
                key = " ".join(compared_words(proposal.content))
                before, kept = key if proposal.why != CORRECTION else "", meant
                doubt = own.doubt(said.at + len(said.spoken), asked=proposal.explicit)
                proposal = proposal._replace(conversation=turn.label, doubt=doubt)
                known = found.get(key)
                found[key] = proposal if known is None or proposal.explicit else known
            earlier = _join(own, earlier, said) if leans else said
    return list(found.values())


def _announces(sentence: str, following: Sentence) -> bool:
    """Return True if a sentence ends with a colon, or says "these" before a list."""
    if len(sentence) > LONGEST:
        return False
    return sentence.endswith((":", "：")) or (following.is_item and bool(re.search(_THESE, sentence)))


def _dictates(said: Sentence) -> bool:
    """Whether a line asks to remember the list below it: *remember:*."""
    return any(_find(language, f"{said.spoken} x", "remember") for language in _lexicons(said.spoken))


def _dangles(sentence: str) -> bool:
    """Whether a sentence says too little without the one before it: *don't propose it again*."""
    telling = [word for word in tokenizer.words(sentence) if not tokenizer.is_weak(word)]
    return len(telling) < TELLING and bool(re.search(_POINTS, re.split("[,，]", sentence)[0]))


def _leans(own: OwnWords, earlier: Sentence, said: Sentence, *, across_lines: bool) -> bool:
    """Return True if a sentence directly behind another has no sense without it, or goes on with its line."""
    gap = own.spoken[earlier.at + len(earlier.text) : said.at]
    if not earlier.text or said.is_item or gap.strip() or compiled(_ABOUT_THIS).search(said.spoken):
        return False
    line = earlier.spoken.rpartition("\n")[2]
    is_wrapped = gap == "\n" and len(line) >= MIN_WRAPPED_CHARS and line[-1].isalnum() and said.text[0].islower()
    return is_wrapped or ((across_lines or "\n" not in gap) and bool(compiled(_LEANS).match(said.spoken)))


def _join(own: OwnWords, first: Sentence, last: Sentence) -> Sentence:
    end = last.at + len(last.text)
    return Sentence(own.text[first.at : end], own.spoken[first.at : end], first.at)


def _continues(said: Sentence, kept: Proposal, proposal: Proposal | None, *, leans: bool) -> bool:
    """Return True if a sentence belongs to the one that was kept before it, and is none to keep for itself."""
    if re.search(_ASKED, said.spoken) or ephemeral(said.text) or (proposal and proposal.explicit):
        return False
    if leans or len(said.spoken) > LONGEST:
        return leans
    if _dangles(said.spoken):
        return bool(proposal)
    shared = set(tokenizer.words(said.spoken)) & set(tokenizer.words(kept.content))
    is_statement = proposal is not None or classify(_told(said))[1] >= EXPLAINING
    is_about_it = any(not tokenizer.is_weak(word) for word in shared)
    return is_statement and is_about_it and read_statement(said.text).change < 2


def _lexicons(sentence: str) -> list[PhraseBook]:
    """The phrases of the languages that a sentence may be in."""
    return [lexicon("phrases", language) for language in guess_languages(sentence)]


def _sentences(own: OwnWords) -> list[Sentence]:
    """The user's own sentences, one after the other; of very many the first and the last."""
    found, start = [], 0
    borders = (match.span() for match in sentence_border().finditer(own.spoken))
    for end in [*borders, (len(own.spoken), len(own.spoken))]:
        sentence, original, at = own.spoken[start : end[0]], own.text[start : end[0]], start
        number = re.search(r"(?<!\S)\d{1,2}(?=\.$)", sentence[-4:])
        if number and re.search(rf"(?<!\S){int(number[0]) - 1}\. ", sentence):  # "1. Build 2. Tag" in one line
            continue
        start = end[1]
        is_cut = OTHERS in own.spoken[max(at - 2, 0) : at] + own.spoken[end[0] : end[0] + 2]
        if is_cut or not re.search(r"\w", sentence):
            continue
        bullet = re.match(rf"\s*({_BULLET})?", sentence)
        cut, is_item = (bullet.end(), bool(bullet[1])) if bullet else (0, False)
        found.append(Sentence(original[cut:].rstrip(), sentence[cut:].rstrip(), at + cut, is_item))
    return found if len(found) <= 2 * MOST else found[:MOST] + found[-MOST:]


def _find_request(said: Sentence, earlier: Sentence) -> Sentence | None:
    """Return what a sentence asks to remember, if it does."""
    start, end = find_requested(said.spoken)
    said = said._replace(text=said.text[:end], spoken=said.spoken[:end])
    languages = _lexicons(said.spoken) if end <= LONGEST else []
    for language in languages:
        starts = _starts(language, said.spoken, len(said.spoken))
        if any(language.compiled(_TURNED).fullmatch(said.spoken, place) for place in starts):
            continue
        if re.search(_ASKED, said.spoken) and not _is(language, said.spoken, "polite"):
            continue
        if _is(language, said.spoken, "remember that"):
            return earlier
        if (last := re.search(_LAST_CLAUSE, said.spoken)) and _is(language, last[1], "remember that"):
            meant = said._replace(text=said.text[: last.start()], spoken=said.spoken[: last.start()])
            return earlier if earlier.text and _dangles(meant.spoken) else meant
        if match := _find(language, said.spoken, "remember"):
            return _meant(said, match, starts, earlier)
    if start and not re.search(_ASKED, said.spoken):  # in another language
        return _cut(said, start, end)
    return None


def _meant(said: Sentence, found: PhraseMatch, starts: Sequence[int], earlier: Sentence) -> Sentence:
    """What is to be remembered: what follows the request, the sentence that it is in, or what was said before."""
    end = found.end if said.spoken[found.end :].strip(_STOPS) else len(said.spoken)  # its full stop belongs to it
    start = 0 if found.start in starts else found.start  # "please always …" has no request to cut off
    is_pointing = re.match(_POINTING, said.spoken[start:]) and len(said.spoken[start:].split()) <= ASIDE
    if is_pointing and earlier.text:
        return earlier
    if len(said.spoken[: found.start].split()) > ASIDE:  # "we chose A, please remember, the review insisted"
        return said
    return _cut(said, find_requested(said.spoken)[0] or start, end)  # "remember that if …"


def _cut(said: Sentence, start: int, end: int) -> Sentence:
    return Sentence(said.text[start:end], said.spoken[start:end], said.at + start)


def _find_reason(said: Sentence, least: float, corrections: bool) -> tuple[str, str]:
    """Return why a sentence that nobody asked to keep is kept ("" if it is not), and its type where that is known."""
    language = _lexicons(said.spoken)[0]
    is_question = bool(re.search(_ASKED, said.spoken))
    is_polite = is_question and _is(language, said.spoken, "polite")
    if len(said.spoken) > LONGEST or ephemeral(said.text) or (is_question and not is_polite):
        return "", ""
    end = len(said.spoken.rstrip(_STOPS))
    starts = _starts(language, said.spoken, end)
    for place in (starts[-1], *_clauses(language, said.spoken, starts[-1], end)):
        kind, worth = classify(_told(said, place, end))
        if worth >= least:
            return TOLD, kind
    is_open = is_question or any(re.match(_OPEN, said.spoken[at:]) for at in starts)
    return CORRECTION if corrections and not is_open and corrects_something(said.text) else "", ""


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


def as_typed(piece: str, message: str) -> str:
    """Return a piece of a message that was read in a normalised form as it stands in the message.

    >>> as_typed("don't", "Please don’t.")
    'don’t'
    """
    if piece in message:
        return piece
    pattern = re.sub(
        r"[^\x00-\x7f]", lambda at: f"(?:{at[0]}|{unicodedata.normalize('NFD', at[0])})", re.escape(piece)
    )
    typed = re.search(pattern.replace("'", "['’]"), message)
    return typed[0] if typed else piece


def _draft(said: Sentence, kind: str, why: str, message: str, today: date) -> Proposal | None:
    """Return the memory, or None if nothing is left of the sentence, or it is of the moment and nobody asked for it.

    What the user asked to keep is never dropped here: the checks before a save refuse it with a reason.
    """
    text = said.text.strip()
    bare, explicit = text.strip(_STOPS), why == ASKED_FOR
    if not explicit and (len(bare.encode()) < 6 or ephemeral(text) or compiled(_ABOUT_THIS).search(text)):
        return None
    if not bare:
        return None
    drafted = draft_fact(as_typed(text, message), today, kind or classify(said.spoken)[0])
    return drafted._replace(explicit=explicit, why=why)
