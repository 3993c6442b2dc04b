"""Requests to ignore memory for one turn, and requests not to store what is said, in the user's own words.

A message is read clause by clause, without quotations, code and logs. A request is a clause that begins with a
pattern of `request_patterns.py`, perhaps behind words such as *please* or *could you* (`leads`). So "don't ignore
memory", "he said ignore memory" and "how do I make you ignore memory?" are none: there the clause begins otherwise.
Some patterns may also follow an order ("explain monads without using your memory"), but no report or question.

A sentence that begins with "remember" asks to remember, whatever it speaks of: "remember that we do not store this".
In other doubt a request is assumed: a turn without memory loses little.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from memsheaf.memory import INVISIBLE
from memsheaf.recall.request_patterns import NEXT_MESSAGE, PATTERNS, REST_OF_CONVERSATION, STEMS
from memsheaf.text.spoken import spoken

MAX_SPAN_WORDS = 6  # of a clause before a request, such as "for the rest of this chat"
MAX_END_CHARS = 2_000  # of a long message, as much is read at its beginning and at its end

_ACCENTS = str.maketrans("´ʼ′‘’", "'''''")  # typed for an apostrophe
_UNSEEN = rf"[\u0300-\u036f{INVISIBLE}]"  # marks over letters, and what draws nothing
_LOG_LINE = (
    r"(?m)^[ \t]*(?:[|$+]|\[?\d{4}-\d\d-\d\d|\[?\d\d?:\d\d"
    r"|\[?(?:user|human|assistant|system|trace|debug|info|warn|warning|error) ?[]:]).*"
)
_EMPHASIS = r"[*~]+|(?<!\w)_+|_+(?!\w)|(?m:^ *(?:[-•–]|\d{1,2}[.)]) +)"
_QUOTED_WORD = r"[\"'“„«「『‘](memor(?:y|ies)|gedachtnis|memoria|memoire|记忆|記憶|メモリ)[\"'“”»」』’]"
_SENTENCE_END = r"(?<=[!?;。])|(?<=\.)(?=\s)|\n\s*\n"
_SUBORDINATE = r",(?= (?:was|woran|dass|ohne|als|wenn|que|ce)\b)"
_CLAUSE_END = (
    r"[\n,:;!?()\[\]。、—–¿¡\u2190-\u2bff\U0001f000-\U0001faff]|\.(?=\s|$)|\s-+\s"
    r"|\s(?=(?:and|but|und|aber|et|mais|y|e|pero)\s(?!me\b|le\b|tu\b))"
)
_CUT = "\0"  # for the middle of a long message: no word, and no edge of a clause
MARKS = {"memory": "ᚠ", "turn": "ᚢ"}
"""Letters that nobody types. They stand in a text for words of these names, which makes the patterns short."""
_LETTERS = {"Chinese": "[\u4e00-\u9fff]", "Japanese": "[\u3041-\u30ff]", "Korean": "[\uac00-\ud7a3]"}


def asks_to_ignore(message: str) -> bool:
    """Return True if the user asks that memory be neither used nor changed in this turn.

    >>> asks_to_ignore("Ignore your memory for this one: what would you cook?")
    True
    >>> asks_to_ignore("Please don't ignore memory."), asks_to_ignore("Ignore memory leaks in this test.")
    (False, False)
    """
    return bool(_find_request(message, "ignore"))


def is_private(message: str) -> bool:
    """Return True if the user asks not to store what the message says.

    >>> is_private("Off the record: the salary band is 52 to 58 thousand.")
    True
    >>> is_private("Do not store it in localStorage."), is_private("Remember that we do not store this.")
    (False, False)
    """
    return bool(_find_request(message, "private"))


def asks_not_to_store(message: str) -> bool:
    """Return True if nothing of a turn with this message may be stored."""
    return is_private(message) or asks_to_ignore(message)


def follow_privacy(before: str, message: str) -> str:
    """Return how far the user's wish not to store anything reaches, once this message is said.

    "" stores the message, "turn" does not, "next" covers the next message too, and "rest" all of the conversation
    that follows. "asked" stores a message in such a rest, because the user asks to remember it; the rest goes on
    behind it. `before` is what was returned for the user's message before this one, "" for the first.

    >>> follow_privacy("", "Don't save anything in this conversation.")
    'rest'
    >>> follow_privacy("rest", "I live in Bergen."), follow_privacy("rest", "Remember that I use vim.")
    ('rest', 'asked')
    >>> follow_privacy("next", "I live in Bergen."), follow_privacy("turn", "I live in Bergen.")
    ('turn', '')
    """
    request = _find_request(message, "private")
    reach = request or _find_request(message, "ignore")
    if re.search(REST_OF_CONVERSATION, reach):
        return "rest"
    if request and re.search(NEXT_MESSAGE, request):
        return "rest" if before in ("rest", "asked") else "next"
    if before in ("rest", "asked"):
        return "asked" if not reach and _asks_to_remember(message) else "rest"
    is_covered = before == "next" and not _asks_to_remember(message)
    return "turn" if request or is_covered else ""


def is_silent(privacy: str) -> bool:
    """Return True if the message for which `follow_privacy` returned this may not be stored."""
    return privacy in ("turn", "next", "rest")


def _asks_to_remember(message: str) -> bool:
    """Return True if a sentence of the message begins with a request to remember something, and is no question."""
    sentences = re.split(_SENTENCE_END, spoken(fold(_read_ends(message))))
    for sentence in (each.strip() for each in sentences if not each.endswith("?")):
        for language in PATTERNS:
            lead = _compile(language, "leads", "private").match(sentence)
            rest = sentence[lead.end() :] if lead else sentence
            if _compile(language, "remember").match(rest) or re.match(r"(?:save|store) (?:that|the fact)\b", rest):
                return True
    return False


def _find_request(message: str, kind: str) -> str:
    """Return the clause that is a request of this kind, else ""; one before it that says how long is part of it."""
    text = fold(_read_ends(message))
    languages = [name for name, stems in STEMS[kind].items() if any(stem in text for stem in stems)]
    if not languages:
        return ""
    text = spoken(spoken(re.sub(_QUOTED_WORD, r"\1", text)))  # there are quotations within quotations
    text = re.sub(_EMPHASIS, "", re.sub(_LOG_LINE, "", text))
    before = ""
    for sentence in re.split(_SENTENCE_END, text):
        for unbroken in (sentence, sentence.replace("\n", " ")):
            for language in languages:
                if request := _find_clause(language, kind, unbroken, before):
                    return request
        before += sentence
    return ""


def _find_clause(language: str, kind: str, sentence: str, before: str) -> str:
    """Return the clause of a sentence that is a request of this kind, else ""."""
    if language in _LETTERS and not re.search(_LETTERS[language], sentence):
        return ""
    sentence = re.sub(_SUBORDINATE, "", sentence)
    if kind == "ignore":
        for name, mark in MARKS.items() if language not in _LETTERS else ():
            sentence = _compile(language, name).sub(mark, sentence)
    is_remembering = False
    span = ""
    for clause in re.split(_CLAUSE_END, sentence):
        before += clause
        clause = re.sub(r"\s+", "" if language in _LETTERS else " ", clause).strip(" @")
        lead = _compile(language, "leads", kind).match(clause)
        rest = clause[lead.end() :] if lead else clause
        if _compile(language, "remember").match(rest):
            is_remembering = True
        elif _compile(language, "but").match(clause):
            is_remembering = False
        names_hardware = MARKS["turn"] not in sentence and _compile(language, "hardware").search(before)
        if is_remembering or _CUT in clause or (kind == "ignore" and names_hardware):
            continue
        if _compile(language, kind, kind).match(rest):
            return span + clause
        if kind == "ignore" and not _compile(language, "reports").search(rest):
            is_forgotten = MARKS["turn"] in sentence and _compile(language, "forget", kind).match(rest)
            if is_forgotten or _compile(language, "within", kind).search(rest):
                return span + clause
        is_span = re.search(REST_OF_CONVERSATION, clause) and len(clause.split()) <= MAX_SPAN_WORDS
        span = f"{clause}, " if is_span else ""
    return ""


def fold(text: str) -> str:
    """Return one spelling for what reads the same: no capitals, accents, wide letters or hidden characters."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text.translate(_ACCENTS)).casefold()
    return unicodedata.normalize("NFKC", re.sub(_UNSEEN, "", text))[: 4 * MAX_END_CHARS]


def _read_ends(message: str) -> str:
    """Return the beginning and the end of a long message, joined so that code and quoted lines stay what they are."""
    end = len(message) - MAX_END_CHARS
    if end <= MAX_END_CHARS:
        return message
    seam = "\n```\n" if message.count("```", MAX_END_CHARS, end) % 2 else ""
    line = message.rfind("\n", 0, end) + 1
    if line > MAX_END_CHARS:
        seam += "\n" + message[line : line + 3].strip()[:1]
    return f"{message[:MAX_END_CHARS]}{seam}{_CUT}{message[end:]}"


@cache
def _compile(language: str, name: str, kind: str = "") -> re.Pattern[str]:
    """Return the pattern of this name, one that fits nothing where a language has none.

    For the kind "ignore", words for memory and for this turn are marks, as they are in the text.
    """
    words, ignore, within, private = PATTERNS[language]
    patterns = {"ignore": ignore, "within": within, "private": private}
    pattern = ("|".join(patterns[name]) if name in patterns else words.get(name)) or "(?!)"
    if kind == "ignore" and language not in _LETTERS:
        words = {**words, **MARKS}
    for _ in range(3):  # words may name other words
        pattern = re.sub(r"\{([a-z]+)\}", lambda found: f"(?:{words[found[1]]})", pattern)
    if name in MARKS:
        pattern = rf"\b(?:{pattern})"
    elif name == "leads":
        pattern = rf"(?:(?:{pattern})(?: |$))*+"
    elif name == kind and language in _LETTERS:  # words without spaces have no leads
        pattern = rf".{{0,40}}?(?:{pattern})"
    return re.compile(pattern)
