"""Requests to remember something: about forty patterns, as data, by language.

A request is cut off in front of what it asks to keep ("remember that …"), with mere courtesies before it ("ok, and
please"); everything else stays as it was typed. Where a sentence says something before its request ("we chose A,
please remember, the review insisted"), all of it is meant. A request that only points back ("remember that") asks for
the sentence before it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

MAX_REQUEST_CHARS = 400  # how far into a sentence a request is looked for

_THAT = r"(?:,?\s+(?:that|this|the\ following|the\ fact\ that)\b(?!\ down\b)\s*[:,]?|\s*[:,]|\s[-–—](?=\s))"

# What stands in front of the fact. A pattern ends where the fact begins.
_IN_FRONT = {
    "English": (
        rf"(?:remember|memori[sz]e|rem(?:em)?ber|remeber|rememeber){_THAT}",
        r"remember\s+(?=(?:i|i['’]m|my|we|our)\b)",
        rf"(?:keep|bear)\ in\ mind(?:{_THAT})?",
        rf"(?:(?:make|take)\ (?:a\ )?(?:mental\ )?)?note{_THAT}",
        r"(?:note\ to\ self|for\ (?:the\ record|future\ reference|next\ time))\s*[:,]",
        rf"(?:don['’]?t|do\ not|never)\ forget{_THAT}",
        r"(?:save|store|add|write|put|commit)\ (?:(?:this|that|the\ following)\ )?(?:to|in|into)\ (?:your\ |the\ )?"
        r"(?:memory|memories|notes)\s*(?:[:,]|\bthat\b)",
        rf"i(?:['’]d\ like|\ want)\ you\ to\ (?:remember|know|keep\ in\ mind)(?:{_THAT})?",
    ),
    "German": (
        r"(?:merke?\ dir|dir\ merken|merken\ sie\ sich)(?:\ bitte)?\s*(?:[,:]\s*(?:dass\b)?|\s+dass\b)",
        r"(?:vergiss(?:\ bitte)?\ nicht|beachte(?:\ bitte)?|denke?\ dar?an|notiere?(?:\ dir)?)\s*(?:,\s*dass\b|:)",
    ),
    "French": (
        r"(?:souviens-toi|rappelle-toi|retiens|te\ souvenir|retenir|mémorise|souvenez-vous)(?:\ bien)?"
        r"(?:\s+(?:que\b|qu['’])|\s*[:,])",
        r"(?:n['’]oublie(?:z)?\ pas|note(?:z)?(?:\ bien)?|garde\ en\ tête|sache)(?:\s+(?:que\b|qu['’])|\s*:)",
        r"pour\ (?:info|mémoire)\s*[:,]|à\ retenir\s*:",
    ),
    "Spanish": (
        r"(?:recuerda|recordar|acuérdate\ de|ten\ en\ cuenta|anota|memoriza)(?:\s+que\b|\s*[:,])",
        r"no\ (?:te\ )?olvides\s*(?:de\s+)?(?:que\b|:)",
    ),
    "Chinese": (
        r"(?:请|請|帮我)?(?:务必)?(?:记住|記住|记下|記下|记一下|记着|牢记)(?:一下)?\s*[:：,，]?(?!(?:这|這|它|了))",
        r"(?:别忘了|不要忘记|请注意|备忘)\s*[:：,，]",
    ),
    "Japanese": (
        r"(?:覚えて(?:おいて)?|記憶して|メモして)(?:ください|下さい|ね)?\s*[:：、]",
        r"(?:メモ|備考)\s*[:：]",
    ),
    "others": (
        r"(?:ricorda(?:ti)?|tieni\ a\ mente|lembre-se|lembra-te|onthoud|vergeet\ niet|zapamiętaj|pamiętaj"
        r"|запомни(?:те)?|имей\ в\ виду)\s*(?:[:,]\s*(?:że|что)?\b|(?:d[ei]\s+)?(?:che|que|dat|że|что)\b)\s*:?",
        r"تذكّ?ر\s+أنّ?\b",
        r"기억해\s*(?:줘|주세요|둬)?\s*[:：,]",
    ),
}

# Sentences that only point back at what was said before.
_POINTING = {
    "English": (
        r"(?:remember|memori[sz]e|save|store|note|keep|bookmark)\ (?:that|this|it)(?:\ down|\ in\ mind|\ please"
        r"|\ for\ (?:later|the\ future|next\ time)|\ (?:to|in)\ (?:your\ )?memory)*",
        r"(?:keep|bear)\ (?:that|this|it)\ in\ mind(?:\ please)?|write\ (?:that|this|it)\ down",
        r"(?:don['’]?t|do\ not)\ forget(?:\ (?:that|this|it))?",
    ),
    "German": (r"merke?\ dir\ (?:das|dies)(?:\ bitte)?|notiere?\ (?:dir\ )?das|vergiss\ das\ nicht",),
    "French": (r"(?:souviens-toi\ de|rappelle-toi|retiens|note|mémorise)\ (?:ça|cela|ceci)",),
    "Spanish": (r"(?:recuerda|anota|memoriza)\ (?:eso|esto)|recuérdalo",),
    "Chinese": (r"(?:请|請)?(?:记住|記住|记下|记一下)(?:这个|这点|这一点|這點|它|这件事)?",),
    "Japanese": (
        r"(?:これ|それ|このこと)(?:を|は)(?:覚えて(?:おいて)?|メモして|記憶して|忘れないで)(?:ください|ね)?",
    ),
}

# Requests that stand behind the fact, as is usual in Japanese.
_CONDITION = r"(?i)\W*(?:when|if|once|after|before|wenn|falls|sobald|quand|si|cuando)\b"
_LAST_CLAUSE = r"\s*[,;:，；：–—]\s*|\s-\s"
_BEHIND = r"(?:こと|の|と|って)を?(?:覚えて(?:おいて)?|記憶して|メモして|忘れないで)(?:ください|下さい|ね)?\W*$"

_POLITE = (
    r"(?:please|pls|plz|kindly|bitte|por\ favor|s['’]il\ (?:te|vous)\ pla[iî]t|stp|per\ favore|пожалуйста|proszę)"
)
_ASKING = (
    r"(?P<polite>(?:(?:can|could|would|will)\ you|k[aö]nn(?:te)?st\ du|peux-tu|pourrais-tu|puedes|podrías)\s+"
    rf"(?:{_POLITE}\s+)?)?"
)
_COURTESIES = (
    r"(?:(?:ok|okay|hey|hi|hello|and|also|so|but|oh|ah|well|yes|yep|great|thanks|perfect|btw|by\ the\ way|fyi|first"
    r"|one\ more\ thing|before\ (?:anything|we\ (?:start|begin))|important|und|ach\ ja|übrigens|et|au\ fait|y"
    r"|por\ cierto)"
    r"\b[\s,:.!–-]*)*"
)
_CLAUSE_START = r"(?:^\W*|[,:;.!–—，、：；]\s*|\s-\s+|\b(?:and|also|but|so|ok|und|et|y)\s+)"
_QUESTION_TAG = (
    r"(?i)\s?[,;，–—-]\s*(?:ok|okay|alright|all right|please|will you|would you|could you|can you|ja|gut|verstanden"
    r"|d['’]accord|vale|entendido|好吗|好嗎|可以吗)\s*[?？][?？!.\s]*$"
)
_QUESTION_MARK = r"\s*[?？][?？!\s]*$"
# A sentence in ASCII without one of these holds no request. The patterns take longer to compile than most saves.
_ASCII_STEMS = (
    "rem|memor|mind|note|forget|for the record|reference|next time|you to know|save|store|keep|bookmark|write|merk"
    "|vergiss|beachte|denk|notier|souvien|souven|rappelle|retien|reten|oublie|sache|pour info|recuerda|recordar"
    "|en cuenta|anota|olvides|ricorda|a mente|lembr|onthoud|vergeet"
)

_LIST_REQUEST = (
    r"(?is).*\b(?:remember|memori[sz]e|keep in mind|merke?n?|beachten?|retiens|retenez|mémorise|recuerda|memoriza"
    r"|anota|ricorda|zapamiętaj|запомни)\b.*[:：]\W*|.*(?:记住|記住|记下|覚えて|記憶して|メモして).*[:：]\W*"
)


class SaveRequest(NamedTuple):
    """A request to remember the part of a sentence from `start` to `end`, or the sentence before it."""

    start: int
    end: int
    points_back: bool = False


def find_request(sentence: str) -> SaveRequest | None:
    """Return what a sentence asks to remember, or None if it holds no request.

    The end is before a question that belongs to the request: "can you remember that … ?", "remember that …, ok?".

    >>> find_request("ok, please remember: we use pnpm"), find_request("I remember that day")
    (SaveRequest(start=21, end=32, points_back=False), None)
    >>> find_request("Remember that.").points_back
    True
    """
    lowered = sentence.lower()
    if sentence.isascii() and not any(stem in lowered for stem in _ASCII_STEMS.split("|")):
        return None
    end = len(sentence)
    if end <= MAX_REQUEST_CHARS and _pointing().fullmatch(sentence):
        return SaveRequest(0, end, points_back=True)
    match = _in_front().search(sentence[:MAX_REQUEST_CHARS])
    if match is None or not re.search(r"\w", sentence[match.end() :]):
        return _find_behind(sentence) if end <= MAX_REQUEST_CHARS else None
    ending = _QUESTION_MARK if match["polite"] else _QUESTION_TAG
    tag = re.compile(ending).search(sentence, max(match.end(), end - 40))
    stop = tag.start() if tag else end
    if re.search(_QUESTION_MARK, sentence[match.end() : stop]) and match.start():
        return None  # "… , remember that one?"
    is_in_front = re.fullmatch(rf"(?ix)\W*{_COURTESIES}", sentence[: match.start()])
    return SaveRequest(match.end() if is_in_front else 0, stop)


def _find_behind(sentence: str) -> SaveRequest | None:
    """Return the part of a sentence in front of a request at its end: "We use pnpm, remember that"."""
    if re.search(_BEHIND, sentence):
        return SaveRequest(0, len(sentence))
    joints = list(re.finditer(_LAST_CLAUSE, sentence))
    if not joints or re.search(_QUESTION_MARK, sentence) or re.match(_CONDITION, sentence):
        return None
    return SaveRequest(0, joints[-1].start()) if _pointing().fullmatch(sentence, joints[-1].end()) else None


def announces_list(line: str) -> bool:
    """Return True if a line asks to remember the lines below it.

    >>> announces_list("Please remember these rules:"), announces_list("The rules are:")
    (True, False)
    """
    return len(line) <= MAX_REQUEST_CHARS and bool(re.fullmatch(_LIST_REQUEST, line))


def without_request(text: str) -> str:
    """Return a text without the request to remember at its beginning; everything else stays as it was typed.

    >>> without_request("Please remember that No. 5 is the test account.")
    'No. 5 is the test account.'
    >>> without_request("no emojis in commit messages"), without_request("Remember to call Kim")
    ('no emojis in commit messages', 'Remember to call Kim')
    """
    request = find_request(text)
    if request is None or request.points_back:
        return text.strip()
    return text[request.start : request.end].strip()


@cache
def _in_front() -> re.Pattern[str]:
    patterns = "|".join(f"(?:{each})" for group in _IN_FRONT.values() for each in group)
    return re.compile(rf"(?ix){_CLAUSE_START}(?:{_POLITE}[\s,]+)?{_ASKING}(?:{patterns})\s*(?=\S)")


@cache
def _pointing() -> re.Pattern[str]:
    patterns = "|".join(f"(?:{each})" for group in _POINTING.values() for each in group)
    return re.compile(rf"(?ix)\W*{_COURTESIES}(?:{_POLITE}[\s,]+)?{_ASKING}(?:{patterns})[\s,]*{_POLITE}?\W*")
