"""Relative dates such as *tomorrow*, with the day that they mean beside them.

The words stay; the day is added in brackets. A wrong date is worse than none, so what may be a habit ("on Fridays"),
a term ("invoices are due in 30 days"), a title or code is left alone. "In 30 days" counts only where the sentence
tells of one thing to come ("the audit starts", "we will ship"). The words are in `prompts/dates.md`.

Weekdays are read so:

- *by Friday*, *this Friday*: the next one, today included
- *next Friday*: that of the next week; weeks begin on Monday
- *last Friday*: the latest before today
- French *vendredi prochain*, Spanish *el próximo viernes*, German *kommenden Freitag*: the next one after today
- Chinese and Japanese with *this*, *next* or *last week*: the one of that week

A week is given by its Monday, a month as 2026-11, a quarter as 2026-Q4, a year as 2026.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from datetime import date, timedelta
from functools import cache, lru_cache
from heapq import merge
from itertools import islice
from typing import NamedTuple

from memsheaf.prompts import read_prompt
from memsheaf.text.spoken import spoken

MOST = 1_000  # relative dates of a text that are read: no note has as many

# No relative date does without one of these, so most texts cost a few substring tests.
_STEMS = (
    "day", "tomorrow", "tonight", "week", "month", "year", "quarter", " ago", "this morn", "this after",
    "this even",
    "last night", "heute", "morgen", "gestern", "woche", "monat", "jahr", "quartal", "tagen", "ntag", "stag", "itag",
    "mittwoch", "jourd", "demain", "hier ", "hier,", "depuis", "undi", "mardi", "credi", "jeudi", "dredi", "medi",
    "manche",
    "semaine", "mois", "trimestre", "ce soir", "ce matin", "jour", "année", "l'an ", "l’an ", "hoy", "mañana",
    "ayer",
    "anoche", "esta ", "antier", "lunes", "martes", "rcoles", "jueves", "viernes", "bado", "domingo", "semana",
    " mes",
    "días", "dias", "año",
)  # fmt: skip
_STEMS_UNSPACED = ("天", "日", "周", "週", "星期", "礼拜", "月", "年", "晚", "晩", "夜", "曜", "季", "四半期")

_WEEKDAYS = (
    ("monday", "montag", "lundi", "lunes", "月曜", "一"),
    ("tuesday", "dienstag", "mardi", "martes", "火曜", "二"),
    ("wednesday", "mittwoch", "mercredi", "miércoles", "水曜", "三"),
    ("thursday", "donnerstag", "jeudi", "jueves", "木曜", "四"),
    ("friday", "freitag", "vendredi", "viernes", "金曜", "五"),
    ("saturday", "samstag", "samedi", "sábado", "土曜", "六"),
    ("sunday", "sonntag", "dimanche", "domingo", "日曜", "日天"),
)
_NUMBERS = (
    (1, "a an one einer einem un une una 一"),
    (2, "two zwei deux dos 二 两 兩"),
    (3, "three drei trois tres 三"),
    (4, "four vier quatre cuatro 四"),
    (5, "five fünf cinq cinco 五"),
    (6, "six sechs seis 六"),
    (7, "seven sieben sept siete 七"),
    (8, "eight acht huit ocho 八"),
    (9, "nine neun neuf nueve 九"),
    (10, "ten zehn dix diez 十"),
)
_NUMBER = {word: number for number, words in _NUMBERS for word in words.split()}


class _Rule(NamedTuple):
    """One way to say a date, as `prompts/dates.md` describes it."""

    unit: str
    steps: int
    words: str
    is_doubtful: bool


_MONTHS_IN = {"month": 1, "quarter": 3, "year": 12}
_LETTERS = "0-9A-Za-z_À-ɏ"
_HABIT = (
    r"\b(?:every|each|always|usually|normally|never|weekly|monthly|daily|typically|generally|who(?:ever)?|anyone"
    r"|the next|jede[nrs]?|immer|nie"
    r"|chaque|toujours|jamais|tous les|toutes les|cada|siempre|nunca|todos los|todas las)\b"
    r"|[每毎]|总是|總是|いつも"
)
# What is going to happen, and what is a span, a habit or over: "in two weeks" may be how long something takes.
_COMING = (
    r"\b(?:will|'ll|going to|due|deadline|launch\w*|releas\w*|ship\w*|freez\w*|demo|goes? live|start\w*|ends?|meet\w*"
    r"|mov(?:e|es|ing)|leav\w+|back|away|migrat\w+|audit|exam|wedding|holiday|vacation|trip|wird|werden|beginnt|endet|abgabe"
    r"|livraison|commence|sera|allons|vais|sort|empieza|será|vamos|entrega|lanza\w*|sale)\b|’ll\b"
    r"|发布|發布|上线|截止|开始|開始|会议|搬|リリース|締切|締め切り|公開|始ま|移行|予定|会議"
)
_SPAN = (
    r"\b(?:\w+ed|was|were|had|did|went|met|took|built|wrote|done|token\w*|retention|ttl|cach\w+|certificat\w+|cookie\w*"
    r"|per|delet\w+|purg\w+|rotat\w+|after|within|if|when|than|like|such as|wurde|war|abläuft|été|fue|expir\w+"
    r"|caduca\w*)\b|过期|過期|删除|刪除|自动|自動|失效|期限切れ|削除|経過"
)
# What has a term instead of a day, whenever it begins: "the invoice is due in 30 days".
_TERM = (
    r"\b(?:due|must|payable|invoices?|payments?|refunds?|trials?|sessions?|links?|passwords?|warrant(?:y|ies)|fällig"
    r"|zahlbar|ungültig|rechnung|link|factures?|payée?s?|échéance|facturas?|vencen?|prueba)\b|到期|付款|试用|支払|必要"
    r"|(?:\A|(?<=[.!?;\n。！？；]))[\s*•-]*(?:an?|you|les|los|las)\b"  # "a token ends", "you will get"
)
# A sentence about things of a kind, which may happen any number of times: "reports are due by Friday".
_GENERIC = (
    r"[\s*•-]*(?:(?:any|all|most|alle|tous|toute?s?|tod[ao]s?)\b"
    r"|(?!(?:the|our|my|your|his|her|their|these|those|both|this|die|diese|sie|unsere|meine)\b)(?:[\w-]{1,40} )?"
    r"(?:\w{1,40}[^\Ws]s (?:are|have|do|get|go|come|start|begin|end|ship|run|close|open|arrive|leave|must|will|\w+ed)"
    r"|\w{1,40}(?:en|e|n|s|er) (?:sind|werden|laufen|enden|beginnen|müssen|verfallen))\b)"
)
_EVENT_BEFORE = r"(?<=[^\W们我将会在于はが])"  # 发布三天后, リリースの3日後: "three days after the release"
_MONTHS = (
    r"jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|fév|avr|juin|juil|aoû|déc|ene|abr|agosto|dic"
)
_DATE_BEHIND = (
    r"[\s,:：(（\[=–—-]{0,4}(?:(?:the|den|dem|le|el|on|am|vom|i\.e\.|week of|also)\s+)*"
    rf"(?:\d{{4}}(?:[-/.年]|\b)|\d{{1,2}}[./-]\d|\d{{1,2}}(?:st|nd|rd|th)\b|\d{{1,2}}\.?\s(?:of |de )?(?:{_MONTHS})"
    rf"|(?:{_MONTHS})[a-zéûä]*\.?\s\d|\d{{1,2}}月)"
)
_DATE_BEFORE = (
    rf"(?:\d{{4}}-\d\d(?:-\d\d)?|\d{{1,2}}月\d{{1,2}}[日号]|\b(?:{_MONTHS})[a-z]*\.? \d{{1,2}})[\s,(（=:]{{0,3}}$"
)
_NAMED_BEFORE = r"(?:\bthe|\bthan|\bof last|[\"'“‘「]) ?$"
_SENTENCE_END = r"[.!?;\n。！？；]"
_EVENTS = (
    r"['’]s (?:outage|incident|release|deploy\w*|meeting|demo|stand-?up|deadline|call|review|freeze|launch|budget"
    r"|plan|talk|workshop|migration|maintenance|session)\b"
)


def absolute(text: str, today: date) -> str:
    """The text with the day beside each relative date.

    >>> absolute("we freeze tomorrow, see `tomorrow.md`", date(2026, 11, 15))
    'we freeze tomorrow (2026-11-16), see `tomorrow.md`'
    """
    dated = _dated(text, today)
    while dated != text:  # a date in brackets may set words apart that had run together
        text, dated = dated, _dated(dated, today)
    return dated


def _dated(text: str, today: date) -> str:
    pieces: list[str] = []
    done = 0
    for end, words, rule in _relative(text):
        pieces += (
            text[done:end],
            (" ({})" if rule in _rules("spaced") else "（{}）").format(_meant(rule, words, today)),
        )
        done = end
    return "".join([*pieces, text[done:]])


def _relative(text: str) -> Iterator[tuple[int, str, _Rule]]:
    """Each relative date: where it ends, its words in small letters, and how it is read."""
    lowered = _lower(text)
    if not any(stem in lowered for stem in _STEMS + _STEMS_UNSPACED):
        return
    said = spoken(lowered)
    found = _matches("spaced", _STEMS, said)
    if not text.isascii():
        found = merge(found, _matches("unspaced", _STEMS_UNSPACED, said), key=lambda each: each[0].start())
    places: dict[str, list[int]] = {}
    for match, rule in islice(found, MOST):
        if _is_meant(text, said, match, rule, places):
            end = match.end()
            yield end + 2 * (said[end : end + 2] in ("'s", "’s")), match[0], rule


@cache
def _rules(title: str) -> tuple[_Rule, ...]:
    """The ways to say a date in scripts with spaces, or in those without."""
    section = read_prompt("dates").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    items = re.findall(r"(?m)^- ([a-z ]+?) ([+-]\d)( doubtful)?: (.+)$", section)
    return tuple(_Rule(unit, int(steps), words, bool(doubtful)) for unit, steps, doubtful, words in items)


def _lower(text: str) -> str:
    """In small letters, each in its place: a few letters would become two."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


def _matches(title: str, stems: tuple[str, ...], said: str) -> Iterator[tuple[re.Match[str], _Rule]]:
    """What the rules find, line by line: most lines have no stem, and cost next to nothing."""
    start, stems = 0, tuple(stem for stem in stems if stem in said)
    for line in said.split("\n") if stems else ():
        if any(stem in line for stem in stems):
            for match in _pattern(title).finditer(said, start, start + len(line)):
                yield match, _rules(title)[(match.lastindex or 1) - 1]
        start += len(line) + 1


def _is_meant(text: str, said: str, match: re.Match[str], rule: _Rule, places: dict[str, list[int]]) -> bool:
    """Whether the words at a position mean one day, and its date is not given beside them.

    `places` remembers where in the text words stand that decide this: each is looked for once.
    """
    start, end = match.span()
    if re.compile(_DATE_BEHIND).match(said, end) or re.search(_DATE_BEFORE, said[max(0, start - 40) : start]):
        return False
    if _is_title(text, start, end) or re.search(_NAMED_BEFORE, said[max(0, start - 12) : start]):
        return False
    is_period = rule.unit.startswith("week") or rule.is_doubtful
    if is_period and re.compile(r"\s+(?:of|des|der|du|de|del)\b").match(said, end):
        return False
    if said[end : end + 2] in ("'s", "’s") and not re.compile(_EVENTS).match(said, end):
        return False

    first = _next(places, _SENTENCE_END, said, start, -1) + 1
    last = _next(places, _SENTENCE_END, said, end, 0)

    def holds(pattern: str) -> bool:
        """Return True if the sentence, as far as it is near, has such a word."""
        return _next(places, pattern, said, max(first, start - 200), 0) < min(last, end + 200)

    if holds(_HABIT):
        return False
    is_counted = "{n}" in rule.words
    may_recur = rule.is_doubtful or rule.unit.startswith(("weekday from", "end of"))
    if may_recur and re.compile(_GENERIC).match(said, first):
        return False
    if rule.is_doubtful:
        if is_counted and (holds(_TERM) or re.compile(_EVENT_BEFORE).match(said, start)):
            return False
        return holds(_COMING) and not holds(_SPAN)
    return not is_counted or not holds(r"\b(?:than|like|such as|e\.g\.|if|when|from)\b")


def _next(places: dict[str, list[int]], pattern: str, said: str, at: int, step: int) -> int:
    """Where a pattern is next found from a place on, or with step -1 last before it; else an end of the text."""
    if pattern not in places:
        places[pattern] = [-1, *(match.start() for match in re.finditer(pattern, said)), len(said)]
    return places[pattern][bisect_left(places[pattern], at) + step]


def _is_title(text: str, start: int, end: int) -> bool:
    """Whether the words are a name, such as *Edge of Tomorrow*, or a greeting, such as *Morgen!*"""
    words = text[start:end]
    if not words[:1].isupper():
        return False
    before = text[max(0, start - 80) : start].rstrip(" \t*_#->•([")
    if before and before[-1] not in "\n.!?:;。！？":
        return True
    after = text[end : end + 2]
    return words.isupper() or (" " not in words and (after[1:].isupper() or (words == "Morgen" and after[:1] != " ")))


@lru_cache(maxsize=256)
def _meant(rule: _Rule, words: str, today: date) -> str:
    """What the words mean, as it is written beside them."""
    steps = rule.steps * (_number(words) if "{n}" in rule.words else 1)
    unit = rule.unit
    if unit == "day":
        return _shifted(today, steps)
    if unit == "seven days":
        return _shifted(today, 7 * steps)
    if unit == "week":
        return "week of " + _shifted(today, 7 * steps - today.weekday())
    if unit.startswith("weekday"):
        return _shifted(today, _days_to(unit, steps, _weekday(words), today))
    months = today.year * 12 + today.month - 1 + steps * _MONTHS_IN.get(unit.removeprefix("end of "), 1)
    year, month = max(1, min(months // 12, 9999)), months % 12 + 1
    quarter = (month + 2) // 3
    if unit.startswith("end of "):
        last = {"end of year": 12, "end of quarter": quarter * 3}.get(unit, month)
        if last == 12:
            return f"{year:04}-12-31"
        return (date(year, last + 1, 1) - timedelta(days=1)).isoformat()
    return {"year": f"{year:04}", "quarter": f"{year:04}-Q{quarter}", "month": f"{year:04}-{month:02}"}[unit]


def _shifted(day: date, days: int) -> str:
    try:
        return (day + timedelta(days=days)).isoformat()
    except OverflowError:
        return day.isoformat()


def _days_to(unit: str, weeks: int, weekday: int, today: date) -> int:
    ahead = weekday - today.weekday()
    if unit == "weekday of week":
        return ahead + 7 * weeks
    if unit == "weekday from":
        return ahead % 7
    return ahead % 7 or 7 if unit == "weekday after" else -(-ahead % 7 or 7)


def _weekday(words: str) -> int:
    """Which day of the week is named, Monday being 0; of a Chinese one the last character tells."""
    for number, names in enumerate(_WEEKDAYS):
        if any(name in words for name in names[:-1]) or words[-1] in names[-1]:
            return number
    raise AssertionError(words)


def _number(words: str) -> int:
    digits = re.search(r"\d+", words)
    if digits:
        return int(digits[0])
    tens, ten, ones = "".join(sign for sign in words if sign in _NUMBER).partition("十")
    if ten:
        return 10 * _NUMBER.get(tens, 1) + _NUMBER.get(ones, 0)
    named = [_NUMBER[word] for word in words.split() if word in _NUMBER]  # the last: French says "il y a trois jours"
    return named[-1] if named else _NUMBER.get(tens[:1], 1)


@cache
def _pattern(title: str) -> re.Pattern[str]:
    """One pattern for all rules, a group each."""
    spaced = title == "spaced"
    names = "|".join(name for names in _WEEKDAYS for name in names[slice(0, 4) if spaced else slice(4, 5)])
    numbers = "|".join(word for word in _NUMBER if ("a" <= word < "ÿ") is spaced)
    count = rf"(?:\d{{1,3}}|{numbers})" if spaced else r"(?<![\d第])(?:\d{1,3}|[一二两兩三四五六七八九十]{1,3})"
    groups = "|".join(
        f"({rule.words})".replace("{day}", f"(?:{names})").replace("{n}", count).replace("{han}", "一二三四五六日天")
        for rule in _rules(title)
    )
    edges = (r"(?=[0-9\u2e80-\U0003ffff])", "")
    if spaced:  # every rule begins with a letter or a number
        edges = rf"(?=[{_LETTERS}])(?<![{_LETTERS}/@#$.\\-])", rf"(?![{_LETTERS}/@#\\]|[-.][{_LETTERS}])"
    return re.compile(f"{edges[0]}(?:{groups}){edges[1]}")


def parse_day(text: str) -> date | None:
    """The day that a header names, such as 2026-11-15; None for anything else."""
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None
