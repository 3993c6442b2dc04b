"""Rules that find what a user asks to keep, where no model is asked.

The words are in `prompts/phrases.md`, by language. A clause that is such a phrase is enough; in a short message so is
a statement with signs that it lasts. Only the user's own sentences are read: what is pasted or quoted is left out,
and so is a question, a supposition, and what holds for the moment only. Better nothing than something else than was
said: the sentence is kept as it stands, with days beside its dates.
"""

from __future__ import annotations

import re
from datetime import date

from memsheaf.guard.worth import ephemeral
from memsheaf.learn.corrections import corrects_something, states_value
from memsheaf.learn.pasted import OTHERS, OwnWords, read_own_words
from memsheaf.learn.statements import read_statement
from memsheaf.recall.ignore import asks_to_ignore, is_private
from memsheaf.recall.turns import Proposal, Turn
from memsheaf.text import tokenizer
from memsheaf.text.dates import absolute, has_relative
from memsheaf.text.phrases import (
    PhraseBook,
    compiled,
    guess_languages,
    lexicon,
    make_title,
    occasion,
    sentence_border,
)
from memsheaf.values import NamedTuple

KINDS = {
    "rule": "feedback",
    "owner": "project",
    "place": "reference",
    "person": "user",
    "preference": "user",
    "decision": "project",
    "correction": "project",
    "day": "project",
}
"""Which type of memory each list of phrases gives; the first list that fits decides."""

REMEMBERED = {"work": "feedback", **KINDS, "self": "user"}
"""The same for what the user asks to remember: there a word is enough."""

CORRECTION = "the user corrects it"
"""The `why` of a proposal that is worth nothing without the memory that it corrects."""

SIGNS = 2
"""How many signs make a statement one that is kept, where no phrase fits it."""

TELLING = 2
"""How many words a sentence has that stands without the one before it, where it points at something."""

ASIDE = 6
"""How many words may stand before a request to remember; with more, it is their sentence that is meant."""

SHORT = 300
"""How long a message may be, in characters, whose statements need no phrase: what is longer may be pasted."""

CLAUSES = 6
"""How many clauses of a sentence are looked at, besides the first."""

LONGEST = 400
"""How long a sentence may be, in characters; what is longer was pasted."""

MOST = 100
"""How many sentences are read at the beginning of a message, and at its end."""

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
_ENDED = r"[.!?。！？]$|(?:://|\bwww\.)\S*$"
_POINTING = r"(?i)(?:it|this|that|them|those)\b(?:\W*$| (?:for|when|until|next|too|as|in case|please)\b)"
_LAST_CLAUSE = r"\s*(?:[,;，；]|\s[-–—]+\s)\s*([^,;，；]+)$"
_BULLET = r"(?:[-*•–]|\d{1,2}[.)])\s+"
_ASKED = r"[?？]\W*$|(?:[吗呢]|ですか|ますか|でしょうか|かな|っけ)\W*$"
_HERE = r"(?<!from )\b(?:here|yet|hier|ici|aquí)\b"
_ABOUT_THIS = (
    r"\b(?:this|that) (?:time|case|run|summary|file|function|line|test|variable|method|branch|commit|pr|page|tab"
    r"|loop|block|one|answer|reply|question|message)\b|\bfor this\W*$"
    r"|\bthe (?:first|second|third|last) (?:one|function|option)\b|\besta (?:ocasión|respuesta)\b|\bdieser antwort\b"
    r"|この質問"
    r"|\b(?:dieser?|diese[mns]?) (?:datei|funktion|zeile)\b|\bce fichier\b|\beste archivo\b|[这這]个?(?:文件|函数|行)"
    r"|この(?:ファイル|関数|行)"
)
_DAY = (
    r"\d|\b(?:jan|feb|mar|apr|may|june|july|aug|sep|oct|nov|dec|mon|tues|wednes|thurs|fri|satur|sun|mär|mai|jun|jul|okt"
    r"|dez|mont|dienst|mittw|donnerst|freit|lun|mar|mer|jeu|ven|janv|fév|avr|août|déc|ene|abr|ago|dic|juev|viern)"
    r"|[一二三四五六七八九十]月|[周曜]"
)


class Sentence(NamedTuple):
    """One sentence of the user, the same with quoted text masked, character by character, and where it stands."""

    text: str
    spoken: str
    at: int = 0


class PhraseMatch(NamedTuple):
    """Which list fits a sentence, what is to be kept of it, and where in it the clause begins that says it."""

    title: str
    start: int
    end: int
    clause: int


def find_stated_facts(turn: Turn, today: date) -> list[Proposal]:
    """What the user explicitly asks to keep in a turn, each fact once.

    >>> from memsheaf.recall.turns import Message
    >>> turn = Turn("c", (Message("user", "From now on, answer in English. Thanks!"),))
    >>> [(each.kind, each.content) for each in find_stated_facts(turn, date(2026, 11, 15))]
    [('feedback', 'From now on, answer in English.')]
    """
    found: dict[str, Proposal] = {}
    for message in turn.messages:
        if message.role != "user" or asks_to_ignore(message.text) or is_private(message.text):
            continue
        earlier, before = Sentence("", ""), ""
        own = read_own_words(message.text)
        for said in _sentences(own):
            proposal = _find_request(said, earlier, today)
            if proposal is None and len(message.text) <= SHORT:
                proposal = _find_statement(said, today)
            if before and _continues(said, found[before], proposal):
                found[before] = _joined(found[before], said, today)
                proposal = None
            elif proposal and not proposal.explicit and _dangles(said.spoken):
                proposal, before = None, ""
            elif not proposal:
                before = ""
            if proposal and (proposal.explicit or said.at < own.sign):
                before = proposal.content
                doubt = own.doubt(said.at + len(said.spoken), asked=proposal.explicit)
                proposal = proposal._replace(conversation=turn.conversation, doubt=doubt)
                known = found.get(proposal.content)
                found[proposal.content] = proposal if known is None or proposal.explicit else known
            earlier = said
    return list(found.values())


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
    is_statement = proposal is not None or not lexicon("phrases", "English").compiled("{request}").match(said.spoken)
    return (
        is_statement and any(not tokenizer.is_weak(word) for word in shared) and read_statement(said.text).change < 2
    )


def _joined(kept: Proposal, said: Sentence, today: date) -> Proposal:
    text = absolute(" ".join(said.text.split()).strip(" ,:-"), today)
    more = text[:1].upper() + text[1:]
    return kept._replace(content=f"{kept.content} {more}{'' if re.search(_ENDED, more) else '.'}")


def find_corrections(turn: Turn, today: date) -> list[Proposal]:
    """What the user says has changed: each is worth keeping only if a memory says how it was before."""
    found = []
    for message in turn.messages:
        if message.role != "user" or asks_to_ignore(message.text) or is_private(message.text):
            continue
        own = read_own_words(message.text)
        for said in _sentences(own) if len(message.text) <= SHORT else ():
            if re.search(_ASKED, said.spoken) or ephemeral(said.text) or not corrects_something(said.text):
                continue
            language = _lexicons(said.spoken)[0]
            if not any(re.match(_OPEN, said.spoken[at:]) for at in _starts(language, said.spoken, len(said.spoken))):
                proposal = _proposal(language, said.text, _kind_of(said.spoken), False, today)
                doubt = own.doubt(said.at + len(said.spoken), asked=False)
                is_whole = read_statement(said.text).change > 1 and states_value(said.text)
                is_fleeting = language.compiled("{fleeting}|{spoils}").search(said.spoken)
                why = "the user's own words" if is_whole and not is_fleeting else CORRECTION
                found += [proposal._replace(conversation=turn.conversation, doubt=doubt, why=why)] if proposal else []
    return found


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
        bullet = re.match(rf"\s*(?:{_BULLET})?", sentence)
        cut = bullet.end() if bullet else 0
        found.append(Sentence(original[cut:].rstrip(), sentence[cut:].rstrip(), at + cut))
    return found if len(found) <= 2 * MOST else found[:MOST] + found[-MOST:]


def _find_request(said: Sentence, earlier: Sentence, today: date) -> Proposal | None:
    """The memory that a sentence asks for, if it asks for one."""
    if ephemeral(said.text) or said.spoken.endswith((":", "：")):
        return None
    for language in _lexicons(said.spoken):
        starts = _starts(language, said.spoken, len(said.spoken))
        if any(language.compiled(_TURNED).fullmatch(said.spoken, start) for start in starts):
            continue
        if re.search(_ASKED, said.spoken) and not _is(language, said.spoken, "polite"):
            continue
        if _is(language, said.spoken, "remember that"):
            return _proposal(language, earlier.text, _kind_of(earlier.spoken), True, today)
        if (last := re.search(_LAST_CLAUSE, said.spoken)) and _is(language, last[1], "remember that"):
            meant = Sentence(said.text[starts[-1] : last.start()], said.spoken[starts[-1] : last.start()])
            meant = earlier if earlier.text and _dangles(meant.spoken) else meant
            return _proposal(language, meant.text, _kind_of(meant.spoken), True, today)
        if _is(language, said.spoken, "underlined") and _is(language, earlier.spoken, "work"):
            return _proposal(language, earlier.text, "feedback", False, today)
        if found := _find(language, said.spoken, ("remember",)):
            meant = _meant(said, found, starts[-1], earlier)
            return _proposal(language, meant.text, _kind_of(meant.spoken), True, today)
        if found := _find(language, said.spoken, tuple(KINDS)):
            if found.title == "day" and not (re.search(_DAY, said.spoken, re.IGNORECASE) or has_relative(said.text)):
                continue
            kept, clause = said.text[found.start : found.end], said.text[found.clause : found.end]
            return _proposal(language, kept, KINDS[found.title], False, today, clause)
    return None


def _meant(said: Sentence, found: PhraseMatch, start: int, earlier: Sentence) -> Sentence:
    """What is to be remembered: what follows the request, the sentence that it is in, or what was said before."""
    kept = Sentence(said.text[found.start : found.end], said.spoken[found.start : found.end])
    if len(said.spoken[: found.start].split()) > ASIDE:  # "we chose A, please remember, the review insisted"
        return Sentence(said.text[start:], said.spoken[start:])
    return earlier if earlier.text and re.match(_POINTING, kept.spoken) else kept


def _find_statement(said: Sentence, today: date) -> Proposal | None:
    """The fact that a statement tells which fits no phrase: it has signs that it lasts, and none of the moment."""
    if re.search(_ASKED, said.spoken) or ephemeral(said.text):
        return None
    for language in _lexicons(said.spoken):
        start = _starts(language, said.spoken, len(said.spoken))[-1]
        if language.compiled(_TURNED).match(said.spoken, start) or language.compiled("{request}").match(
            said.spoken, start
        ):
            continue
        head = re.split(r"[,，;]\s*", said.spoken[start:])[0]
        shape = states_value(said.text[start : start + len(head)])
        if language.compiled("{fleeting}|{spoils}" if shape else "{passing}").search(
            head if shape else said.spoken[start:]
        ):
            continue
        signs = (compiled(language.pattern(f"({each})")) for each in language.lists.get("signs", ()))
        count = sum(bool(sign.search(said.spoken, start)) for sign in signs)
        if count + shape >= SIGNS:
            return _proposal(language, said.text[start:], "project", False, today)
    return None


def _is(language: PhraseBook, sentence: str, title: str) -> bool:
    """Whether a phrase of this list is all of a sentence."""
    found = _find(language, sentence, (title,))
    return found is not None and found.clause == found.start


def _find(language: PhraseBook, sentence: str, titles: tuple[str, ...]) -> PhraseMatch | None:
    """The first phrase of these lists that is all of a sentence, but for what may stand before it."""
    end = len(sentence.rstrip(" .,!?。，！？;；~–—-"))
    starts = _starts(language, sentence, end)
    clauses = _clauses(language, sentence, starts[-1], end)
    fitting = list(language.candidates(titles, sentence))
    for places in (starts, clauses):
        for title, phrase, pattern in fitting:
            for place in places if places is starts or not phrase.startswith("...") else ():
                if match := pattern.fullmatch(sentence, place, end):
                    if "kept" in pattern.groupindex:
                        return PhraseMatch(title, *match.span("kept"), match.start("kept"))
                    return PhraseMatch(title, place if places is starts else starts[-1], end, place)
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


def _kind_of(sentence: str) -> str:
    """The type of what is to be remembered: that of the first list it fits, else project."""
    for language in _lexicons(sentence):
        if found := _find(language, sentence, tuple(REMEMBERED)):
            return REMEMBERED[found.title]
    return "project"


def _proposal(
    language: PhraseBook, text: str, kind: str, explicit: bool, today: date, clause: str = ""
) -> Proposal | None:
    """The memory, unless what is left of the sentence is of the moment, or next to nothing."""
    text = " ".join(text.split()).strip(" ,:-，：、")
    if len(text.encode()) < 6 or ephemeral(text) or compiled(_ABOUT_THIS).search(text):
        return None
    if kind == "feedback" and compiled(_HERE).search(text):
        return None
    content = _render_fact(language, text, today, kind)
    return Proposal(
        name=make_title(_render_fact(language, clause, today, kind) if clause else content),
        description=occasion(content),
        kind=kind,
        content=content
        if re.search(_ENDED, content)
        else content + ("。" if "\u3000" < content[-1] < "\uffff" else "."),
        explicit=explicit,
        why="the user said so" if explicit else "the user's own words",
    )


def _render_fact(language: PhraseBook, text: str, today: date, kind: str) -> str:
    """What was said, with days beside its dates; of the user in the third person, where English allows."""
    text = absolute(" ".join(text.split()).strip(" ,:-，：、"), today)
    for phrase in language.lists.get("of the user", ()) if kind == "user" else ():
        begins, _, told = phrase.partition(" => ")
        rest = text[len(begins) :]
        if text.lower().startswith(begins + " "):
            if re.search(r"\b(?:i|me|my|mine|we|our)\b", rest, re.IGNORECASE):
                break
            return told + rest
    return text[:1].upper() + text[1:]
