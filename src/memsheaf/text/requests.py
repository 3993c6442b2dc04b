"""Requests of users about memory: to remember something, to do without memory, and not to store what is said.

The patterns are data, in `requests.txt`.

**To remember.** A request is cut off in front of what it asks to keep ("remember that …"), with mere courtesies
before it ("ok, and please"); everything else stays as it was typed. Where a sentence says something before its
request ("we chose A, please remember, the review insisted"), all of it is meant. A request that only points back
("remember that") asks for the sentence before it.

**To ignore memory for one turn, or not to store.** A message is read clause by clause, without quotations, code and
logs. A request is a clause that begins with a pattern, perhaps behind words such as *please* or *could you*. So
"don't ignore memory", "he said ignore memory" and "how do I make you ignore memory?" are none: there the clause
begins otherwise. Some patterns may also follow an order ("explain monads without using your memory"), but no report
or question. A sentence that begins with "remember" asks to remember, whatever it speaks of: "remember that we do not
store this". In other doubt a request is assumed: a turn without memory loses little.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import NamedTuple

from memsheaf.memory import INVISIBLE
from memsheaf.text.spoken import spoken

MAX_REQUEST_CHARS = 400  # how far into a sentence a request to remember is looked for
MAX_TAG_CHARS = 40  # of a question at the end of a request
MAX_SPAN_WORDS = 6  # of a clause before a request, such as "for the rest of this chat"
MAX_END_CHARS = 2_000  # of a long message, as much is read at its beginning and at its end


@cache
def read_patterns(module: str = __file__) -> dict[str, dict[str, str]]:
    """Return the patterns beside a module, for each language by name; several of one name are alternatives."""
    languages: dict[str, dict[str, str]] = {}
    with open(f"{module.removesuffix('.py')}.txt", encoding="utf-8") as file:
        joined = file.read().replace("\n    ", "")
    for language, name, pattern in re.findall(r"(?m)^\[(.+)\]$|^(\w[\w ]*) = (.+)", joined):
        if language:
            patterns = languages.setdefault(language, {})
        else:
            patterns[name] = f"{patterns[name]}|{pattern}" if name in patterns else pattern
    return languages


def _expand(pattern: str, words: dict[str, str]) -> str:
    """Return a pattern with the words that it names in braces; words may name other words."""
    return re.sub(r"\{([a-z]+)\}", lambda name: f"(?:{_expand(words[name[1]], words)})", pattern)


# Requests to remember

_PLEASE_WORDS = (
    "(?:please|pls|plz|kindly|bitte|por favor|s['’]il (?:te|vous) pla[iî]t|stp|per favore|пожалуйста|proszę)"
)
_ASKED_POLITELY = (
    r"(?P<polite>(?:(?:can|could|would|will) you|k[aö]nn(?:te)?st du|peux-tu|pourrais-tu|puedes|podrías)\s+"
    rf"(?:{_PLEASE_WORDS}\s+)?)?"
)
_COURTESY_WORDS = (
    r"(?:(?:ok|okay|hey|hi|hello|and|also|so|but|oh|ah|well|yes|yep|great|thanks|perfect|btw|by the way|fyi|first"
    r"|one more thing|before (?:anything|we (?:start|begin))|important|und|ach ja|übrigens|et|au fait|y|por cierto)"
    r"\b[\s,:.!–-]*)*"
)
_CLAUSE_START = r"(?:^\W*|[,:;.!–—，、：；]\s*|\s-\s+|\b(?:and|also|but|so|ok|und|et|y)\s+)"
_QUESTION_TAG = (
    r"(?i)\s?[,;，–—-]\s*(?:ok|okay|alright|all right|please|will you|would you|could you|can you|ja|gut|verstanden"
    r"|d['’]accord|vale|entendido|好吗|好嗎|可以吗)\s*[?？][?？!.\s]*$"
)
_QUESTION_MARK = r"\s*[?？][?？!\s]*$"
# Requests that stand behind the fact, as is usual in Japanese.
_REQUEST_AT_END = (
    r"(?:こと|の|と|って)を?(?:覚えて(?:おいて)?|記憶して|メモして|忘れないで)(?:ください|下さい|ね)?\W*$"
)
_CONDITION_START = r"(?i)\W*(?:when|if|once|after|before|wenn|falls|sobald|quand|si|cuando)\b"
# A sentence in ASCII without one of these holds no request. The patterns take longer to compile than most saves.
_ASCII_STEMS = (
    "rem|memor|mind|note|forget|for the record|reference|next time|you to know|save|store|keep|bookmark|write|merk"
    "|vergiss|vergess|beachte|denk|notier|souvien|souven|rappelle|retien|reten|oublie|sache|pour info|recuerda"
    "|recordar|en cuenta|anota|olvides|ricorda|a mente|lembr|onthoud|vergeet"
)
# In front of a fact, without one of these, stands its topic ("recipe cards: …").
_ASCII_LEAD_STEMS = (
    rf"{_ASCII_STEMS}|\b(?:log|pin|jot|memo|take|record|hang|hold|retain|put|add|know|file|learn|burn|engrave|fyi|lesson|update)"
    r"|aufschreib|schreib|guarda|apunta|memo|tieni|ricord|zapisz|zapami|onthou|hafiza|unutma|registr"
)
_LIST_REQUEST = (
    r"(?is).*\b(?:remember|memori[sz]e|keep\b.*\bin mind|merke?n?|beachten?|retiens|retenez|mémorise|recuerda"
    r"|memoriza|anota|ricorda|zapamiętaj|запомни)\b.*[:：]\W*|.*(?:记住|記住|记下|覚えて|記憶して|メモして).*[:：]\W*"
)


_FORGET_REQUEST = (
    r"(?i)\W*(?:(?:please|bitte|por favor),? )?(?:forget (?:that|i|the fact that|what i (?:said|told)"
    r"|(?:about|my)\b(?=[^,;:.!\n]*[.!]? *(?:\n|$)))"
    r"|vergiss(?: bitte)?,? dass|oublie[zs]? que|olvida que|dimentica che|esque[çc]a que|zapomnij,? że"
    r"|забудь,? что)\b|\W*请?忘[记掉](?:我|关于)"
    r"|.*(?:こと|の)は?を?忘れて(?:ください|下さい|ね)?\W*$"
)


class SaveRequest(NamedTuple):
    """A request to remember the part of a sentence from `start` to `end`, or the sentence before it."""

    start: int
    end: int
    points_back: bool = False


def _pointing() -> re.Pattern[str]:
    return _save_pattern("save it", rf"\W*{_COURTESY_WORDS}", rf"[\s,]*{_PLEASE_WORDS}?\W*")


def find_request(sentence: str) -> SaveRequest | None:
    """Return what a sentence asks to remember, or None if it holds no request.

    The end is before a question that belongs to the request: "can you remember that … ?", "remember that …, ok?".

    >>> find_request("ok, please remember: we use pnpm"), find_request("I remember that day")
    (SaveRequest(start=21, end=32, points_back=False), None)
    >>> find_request("Remember that.").points_back
    True
    """
    if sentence.isascii() and not re.search(_ASCII_STEMS, sentence.lower()):
        return None
    end = len(sentence)
    is_short = end <= MAX_REQUEST_CHARS
    if is_short and _pointing().fullmatch(sentence):
        return SaveRequest(0, end, points_back=True)
    match = _save_pattern("save", _CLAUSE_START, r"\s*(?=\S)").search(sentence[:MAX_REQUEST_CHARS])
    if match is None or not re.search(r"\w", sentence[match.end() :]):
        return _find_behind(sentence) if is_short else None
    ending = _QUESTION_MARK if match["polite"] else _QUESTION_TAG
    tag = re.compile(ending).search(sentence, max(match.end(), end - MAX_TAG_CHARS))
    if tag:
        end = tag.start()
    if match.start() and re.search(_QUESTION_MARK, sentence[match.end() : end]):
        return None  # "… , remember that one?"
    if re.fullmatch(rf"(?i)\W*{_COURTESY_WORDS}", sentence[: match.start()]):
        return SaveRequest(match.end(), end)
    return SaveRequest(0, end)


def _find_behind(sentence: str) -> SaveRequest | None:
    """Return the part of a sentence in front of a request at its end: "We use pnpm, remember that"."""
    if re.search(_REQUEST_AT_END, sentence):
        return SaveRequest(0, len(sentence))
    joint = re.match(r"(?s)(.*\S)(?:\s*[,;:，；：–—]\s*|\s-\s)", sentence)
    if not joint or re.search(_QUESTION_MARK, sentence) or re.match(_CONDITION_START, sentence):
        return None
    if _pointing().fullmatch(sentence, joint.end()):
        return SaveRequest(0, joint.end(1))
    return None


def may_be_request(lead: str) -> bool:
    """Return True if the words in front of a fact may ask to remember it, and are not its topic.

    >>> may_be_request("one for your notes:"), may_be_request("recipe cards:")
    (True, False)
    """
    return not lead.isascii() or bool(re.search(_ASCII_LEAD_STEMS, lead.lower()))


def announces_list(line: str) -> bool:
    """Return True if a line asks to remember the lines below it.

    >>> announces_list("Please remember these rules:"), announces_list("The rules are:")
    (True, False)
    """
    return len(line) <= MAX_REQUEST_CHARS and bool(re.fullmatch(_LIST_REQUEST, line))


def asks_to_forget(text: str) -> bool:
    """Return True for a request to forget something that was said before.

    >>> asks_to_forget("Forget that I live in Linz"), asks_to_forget("forget about my diet")
    (True, True)
    >>> asks_to_forget("Forget about Jenkins, we use Buildkite now")
    False
    """
    return bool(re.match(_FORGET_REQUEST, text))


@cache
def _save_pattern(name: str, before: str, behind: str) -> re.Pattern[str]:
    """Return the requests of this name in all languages as one pattern, perhaps asked for with a "please"."""
    patterns = "|".join(_expand(words[name], words) for words in read_patterns().values() if name in words)
    return re.compile(rf"(?i){before}(?:{_PLEASE_WORDS}[\s,]+)?{_ASKED_POLITELY}(?:{patterns}){behind}")


# Requests to ignore memory, and not to store

_APOSTROPHES = str.maketrans("´ʼ′‘’", "'''''")
_ACCENTS = r"[\u0300-\u036f]"
_LOG_LINE = (
    r"(?im)^[ \t]*(?:[|$+]|\[?\d{4}-\d\d-\d\d|\[?\d\d?:\d\d"
    r"|\[?(?:user|human|assistant|system|trace|debug|info|warn|warning|error) ?[]:]).*"
)
_EMPHASIS_MARKS = r"[*~]+|(?<!\w)_+|_+(?!\w)"
_LIST_MARK = r"(?m)^ *(?:[-•–]|\d{1,2}[.)]) +"
_QUOTED_WORD = r"(?i)[\"'“„«「『‘](memor(?:y|ies)|gedächtnis|memoria|mémoire|记忆|記憶|メモリ)[\"'“”»」』’]"
_SENTENCE_END = r"(?<=[!?;。])|(?<=\.)(?=\s)|\n\s*\n"
_SUBORDINATE_COMMA = r",(?= (?:was|woran|dass|ohne|als|wenn|que|ce)\b)"
_CLAUSE_END = (
    r"[\n,:;!?()\[\]。、—–¿¡\u2190-\u2bff\U0001f000-\U0001faff]|\.(?=\s|$)|\s-+\s"
    r"|\s(?=(?:and|but|und|aber|et|mais|y|e|pero)\s(?!me\b|le\b|tu\b))"
)
_CUT_MARK = "\0"  # for the middle of a long message: no word, and no edge of a clause
# Letters that nobody types. They stand in a text for words of these names, which makes the patterns short.
_MARK_OF = {"memory": "ᚠ", "turn": "ᚢ"}
_LETTERS_OF = {"Chinese": "[\u4e00-\u9fff]", "Japanese": "[\u3041-\u30ff]", "Korean": "[\uac00-\ud7a3]"}


def asks_to_ignore(message: str) -> bool:
    """Return True if the user asks that memory be neither used nor changed in this turn.

    >>> asks_to_ignore("Ignore your memory for this one: what would you cook?")
    True
    >>> asks_to_ignore("Please don't ignore memory."), asks_to_ignore("Ignore memory leaks in this test.")
    (False, False)
    """
    return bool(_find_clause(message, "ignore"))


def is_private(message: str) -> bool:
    """Return True if the user asks not to store what the message says.

    >>> is_private("Off the record: the salary band is 52 to 58 thousand.")
    True
    >>> is_private("Do not store it in localStorage."), is_private("Remember that we do not store this.")
    (False, False)
    """
    return bool(_find_clause(message, "private"))


def asks_not_to_store(message: str) -> bool:
    """Return True if nothing of a turn with this message may be stored."""
    return is_private(message) or asks_to_ignore(message)


def follow_privacy(before: str, message: str) -> str:
    """Return how far the user's wish not to store anything reaches, once this message is said.

    "" stores the message, "turn" does not, "next" covers the next message too, and "rest" all of the conversation
    that follows, until the user says "you can remember again". "asked" stores a message in such a rest, because the
    user asks to remember it; the rest goes on behind it. `before` is what was returned for the user's message before
    this one, "" for the first.

    >>> follow_privacy("", "Don't save anything in this conversation.")
    'rest'
    >>> follow_privacy("rest", "I live in Bergen."), follow_privacy("rest", "Remember that I use vim.")
    ('rest', 'asked')
    >>> follow_privacy("rest", "ok, you can remember again.")
    ''
    >>> follow_privacy("next", "I live in Bergen."), follow_privacy("turn", "I live in Bergen.")
    ('turn', '')
    """
    request = _find_clause(message, "private")
    reach = request or _find_clause(message, "ignore")
    spans = read_patterns()["all"]
    asks_to_remember = not reach and any(map(find_request, re.split(_SENTENCE_END, spoken(message))))
    if re.search(spans["conversation"], reach):
        return "rest"
    if re.search(spans["no longer private"], _read(message)):
        return ""
    if before in ("rest", "asked"):
        return "asked" if asks_to_remember else "rest"
    if re.search(spans["next message"], request):
        return "next"
    if request or (before == "next" and not asks_to_remember):
        return "turn"
    return ""


def is_silent(privacy: str) -> bool:
    """Return True if the message for which `follow_privacy` returned this may not be stored."""
    return privacy in ("turn", "next", "rest")


def _find_clause(message: str, kind: str) -> str:
    """Return the clause that is a request of this kind, else ""; one before it that says how long is part of it."""
    text = _read(message)
    languages = [
        name
        for name, patterns in read_patterns().items()
        if any(stem in text for stem in patterns.get(f"{kind} stems", _CUT_MARK * 2).split("|"))
    ]
    before = ""
    for sentence in re.split(_SENTENCE_END, text):
        for language in languages:
            if request := _find_in_sentence(language, kind, sentence.replace("\n", " "), before):
                return request
        before += sentence
    return ""


def _find_in_sentence(language: str, kind: str, sentence: str, before: str) -> str:
    """Return the clause of a sentence that is a request of this kind, else ""."""
    has_spaces = language not in _LETTERS_OF
    if not has_spaces and not re.search(_LETTERS_OF[language], sentence):
        return ""
    sentence = re.sub(_SUBORDINATE_COMMA, "", sentence)
    if kind == "ignore" and has_spaces:
        for name, mark in _MARK_OF.items():
            sentence = _compile(language, name).sub(mark, sentence)
    names_turn = _MARK_OF["turn"] in sentence
    is_remembering = False
    span = ""
    for clause in re.split(_CLAUSE_END, sentence):
        before += clause
        clause = re.sub(r"\s+", " " if has_spaces else "", clause).strip(" @")
        rest = _compile(language, "leads", kind).sub("", clause, 1)
        if _compile(language, "remember").match(rest):
            is_remembering = True
        elif _compile(language, "but").match(clause):
            is_remembering = False
        names_hardware = kind == "ignore" and not names_turn and _compile(language, "hardware").search(before)
        if is_remembering or _CUT_MARK in clause or names_hardware:
            continue
        if _is_request(language, kind, rest, names_turn=names_turn):
            return span + clause
        is_short = len(clause.split()) <= MAX_SPAN_WORDS
        names_span = is_short and re.search(read_patterns()["all"]["conversation"], clause)
        span = f"{clause}, " if names_span else ""
    return ""


def _is_request(language: str, kind: str, clause: str, *, names_turn: bool) -> bool:
    """Return True if a clause without its leads is a request of this kind."""
    if _compile(language, kind, kind).match(clause):
        return True
    if kind != "ignore" or _compile(language, "reports").search(clause):
        return False
    if names_turn and _compile(language, "forget", kind).match(clause):
        return True
    return bool(_compile(language, "within", kind).search(clause))


def _read(message: str) -> str:
    """Return what a user says at the beginning and at the end of a message, in one spelling for what reads the same.

    There are no quotations, code, logs or emphasis; no capitals, accents, wide letters or hidden characters.
    """
    visible = re.sub(f"[{INVISIBLE}]", "", message)
    text = re.sub(_LOG_LINE, "", spoken(re.sub(_QUOTED_WORD, r"\1", visible)))
    text = re.sub(_EMPHASIS_MARKS, "", re.sub(_LIST_MARK, ";", text))
    if len(text) > 2 * MAX_END_CHARS:
        text = text[:MAX_END_CHARS] + _CUT_MARK + text[-MAX_END_CHARS:]
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text.translate(_APOSTROPHES)).casefold()
    return unicodedata.normalize("NFKC", re.sub(_ACCENTS, "", text))


@cache
def _compile(language: str, name: str, kind: str = "") -> re.Pattern[str]:
    """Return the pattern of this name, one that fits nothing where a language has none.

    For the kind "ignore", words for memory and for this turn are marks, as they are in the text.
    """
    words = read_patterns()[language]
    pattern = words.get(name, "(?!)")
    if kind == "ignore" and language not in _LETTERS_OF:
        words = {**words, **_MARK_OF}
    pattern = _expand(pattern, words)
    if name in _MARK_OF:
        pattern = rf"\b(?:{pattern})"
    elif name == "leads":
        pattern = rf"^(?:(?:{pattern})(?: |$))*+"
    elif name == kind and language in _LETTERS_OF:  # words without spaces have no leads
        pattern = rf".{{0,40}}?(?:{pattern})"
    return re.compile(pattern)
