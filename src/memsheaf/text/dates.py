"""Relative dates such as *tomorrow*, with the day that they mean beside them.

The words stay; the day is added in brackets. A wrong date is worse than none, so what may be a habit ("on Fridays"),
a term ("invoices are due in 30 days"), a title or code is left alone. "In 30 days" counts only where the sentence
tells of one thing to come ("the audit starts", "we will ship"). The words are in `prompts/dates.md`.

Weekdays are read so:

- *by Friday*, *this Friday*: the next one, today included
- *on Friday*: the same where the sentence says that it is meant once ("we will ship", "I am away"), else every Friday
- *next Friday*: that of the next week; weeks begin on Monday
- *last Friday*: the latest before today
- French *vendredi prochain*, Spanish *el próximo viernes*, German *kommenden Freitag*: the next one after today
- Chinese and Japanese with *this*, *next* or *last week*: the one of that week

A week is given by its Monday, a month as 2026-11, a quarter as 2026-Q4, a year as 2026.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import cache
from typing import NamedTuple

from memsheaf.prompts import read_prompt
from memsheaf.text.spoken import spoken

MAX_TITLE_CHARS = 80  # before a date, in which it may be the end of a title
MAX_CONTEXT_CHARS = 200  # on each side of a date, in which words of its sentence decide what it means

# No relative date does without one of these, and most texts have none: they cost one search.
_DATE_STEMS = (
    "day|tomorrow|tonight|week|month|year|quarter| ago|this morn|this after|this even|last night|heute|morgen|gestern"
    "|woche|monat|jahr|quartal|tagen|ntag|stag|itag|mittwoch|jour|demain|hier |hier,|depuis|undi|mardi|credi|jeudi"
    "|dredi|medi|manche|semaine|mois|trimestre|ce soir|ce matin|année|l'an |l’an |hoy|mañana|ayer|anoche|esta |antier"
    "|lunes|martes|rcoles|jueves|viernes|bado|domingo|semana| mes|dias|días|año"
    "|天|日|周|週|月|年|晚|晩|夜|曜|季|星期|礼拜|四半期"
)
_WEEKDAY_NAMES = (
    "monday|montag|lundi|lunes|月曜|[周週期拜]一",
    "tuesday|dienstag|mardi|martes|火曜|[周週期拜]二",
    "wednesday|mittwoch|mercredi|miércoles|水曜|[周週期拜]三",
    "thursday|donnerstag|jeudi|jueves|木曜|[周週期拜]四",
    "friday|freitag|vendredi|viernes|金曜|[周週期拜]五",
    "saturday|samstag|samedi|sábado|土曜|[周週期拜]六",
    "sunday|sonntag|dimanche|domingo|日曜|[周週期拜][日天]",
)
_NUMBER_WORDS = (
    "a an one einer einem un une una 一|two zwei deux dos 二 两 兩|three drei trois tres 三"
    "|four vier quatre cuatro 四|five fünf cinq cinco 五|six sechs seis 六|seven sieben sept siete 七"
    "|eight acht huit ocho 八|nine neun neuf nueve 九|ten zehn dix diez 十"
)
_NUMBER_OF_WORD = {word: number for number, words in enumerate(_NUMBER_WORDS.split("|"), 1) for word in words.split()}
_MONTHS_IN = {"month": 1, "quarter": 3, "year": 12}
_WORD_CHARS = "0-9A-Za-z_À-ɏ"


class _Rule(NamedTuple):
    """One way to say a date, as `prompts/dates.md` describes it."""

    unit: str
    steps: int
    words: str
    is_doubtful: bool
    is_spaced: bool

    @property
    def is_counted(self) -> bool:
        return "{n}" in self.words


_HABIT_WORDS = (
    r"\b(?:every|each|always|usually|normally|never|weekly|monthly|daily|typically|generally|who(?:ever)?|anyone"
    r"|the next|jede[nrs]?|immer|nie"
    r"|chaque|toujours|jamais|tous les|toutes les|cada|siempre|nunca|todos los|todas las)\b"
    r"|[每毎]|总是|總是|いつも"
)
# What is going to happen, and what is a span, a habit or over: "in two weeks" may be how long something takes.
_EVENT_WORDS = (
    r"\b(?:will|'ll|going to|due|deadline|launch\w*|releas\w*|ship\w*|freez\w*|demo|goes? live|start\w*|ends?|meet\w*"
    r"|mov(?:e|es|ing)|leav\w+|back|away|migrat\w+|audit|exam|wedding|holiday|vacation|trip|wird|werden|beginnt|endet|abgabe"
    r"|livraison|commence|sera|allons|vais|sort|empieza|será|vamos|entrega|lanza\w*|sale)\b|’ll\b"
    r"|发布|發布|上线|截止|开始|開始|会议|搬|リリース|締切|締め切り|公開|始ま|移行|予定|会議"
)
_ONCE_WORDS = (
    r"\b(?:will|won['’]t|going to|away|back|out of office|exam|wedding|holiday|vacation|trip|weg|zurück|urlaub"
    r"|hochzeit|prüfung|será|vamos a)\b|['’]ll\b"
)
_LONG_PERIOD = r"\b(?:weeks?|months?|wochen?|monat\w*|semaines?|mois|semanas?|mes(?:es)?)\b"  # "next week, on Friday"
_SPAN_WORDS = (
    r"\b(?:\w+ed|was|were|had|did|went|met|took|built|wrote|done|token\w*|retention|ttl|cach\w+|certificat\w+|cookie\w*"
    r"|per|delet\w+|purg\w+|rotat\w+|after|within|if|when|than|like|such as|wurde|war|abläuft|été|fue|expir\w+"
    r"|caduca\w*)\b|过期|過期|删除|刪除|自动|自動|失效|期限切れ|削除|経過"
)
# What has a term instead of a day, whenever it begins: "the invoice is due in 30 days".
_TERM_WORDS = (
    r"\b(?:due|must|payable|invoices?|payments?|refunds?|trials?|sessions?|links?|passwords?|warrant(?:y|ies)|fällig"
    r"|zahlbar|ungültig|rechnung|link|factures?|payée?s?|échéance|facturas?|vencen?|prueba)\b|到期|付款|试用|支払|必要"
    r"|(?:\A|(?<=[.!?;\n。！？；]))[\s*•-]*(?:an?|you|les|los|las)\b"  # "a token ends", "you will get"
)
# A sentence about things of a kind, which may happen any number of times: "reports are due by Friday".
_GENERIC_START = (
    r"[\s*•-]*(?:(?:any|all|most|alle|tous|toute?s?|tod[ao]s?)\b"
    r"|(?!(?:the|our|my|your|his|her|their|these|those|both|this|die|diese|sie|unsere|meine)\b)(?:[\w-]{1,40} )?"
    r"(?:\w{1,40}[^\Ws]s (?:are|have|do|get|go|come|start|begin|end|ship|run|close|open|arrive|leave|must|will|\w+ed)"
    r"|\w{1,40}(?:en|e|n|s|er) (?:sind|werden|laufen|enden|beginnen|müssen|verfallen))\b)"
)
_EVENT_BEFORE = r"(?<=[^\W们我将会在于はが])"  # 发布三天后, リリースの3日後: "three days after the release"
_MONTH_NAMES = (
    r"jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|fév|avr|juin|juil|aoû|déc|ene|abr|agosto|dic"
)
_DATE_BEHIND = (
    r"[\s,:：(（\[=–—-]{0,4}(?:(?:the|den|dem|le|el|on|am|vom|i\.e\.|week of|also)\s+)*"
    rf"(?:\d{{4}}(?:[-/.年]|\b)|\d{{1,2}}[./-]\d|\d{{1,2}}(?:st|nd|rd|th)\b"
    rf"|\d{{1,2}}\.?\s(?:of |de )?(?:{_MONTH_NAMES})"
    rf"|(?:{_MONTH_NAMES})[a-zéûä]*\.?\s\d|\d{{1,2}}月)"
)
_DATE_BEFORE = (
    r"(?:\d{4}-\d\d(?:-\d\d)?|\d{1,2}月\d{1,2}[日号]"
    rf"|\b(?:{_MONTH_NAMES})[a-z]*\.? \d{{1,2}})[\s,(（=:]{{0,3}}$"
)
_NAMED_BEFORE = r"(?:\bthe|\bthan|\bof last|[\"'“‘「]) ?$"
_SENTENCE_END = r"[.!?;\n。！？；]"
_EXAMPLE_WORDS = r"\b(?:than|like|such as|e\.g\.|if|when|from)\b"
_POSSESSIVE_EVENT = (
    r"['’]s (?:outage|incident|release|deploy\w*|meeting|demo|stand-?up|deadline|call|review|freeze|launch|budget"
    r"|plan|talk|workshop|migration|maintenance|session)\b"
)


def absolute(text: str, today: date) -> str:
    """Return the text with the day beside each relative date.

    >>> absolute("we freeze tomorrow, see `tomorrow.md`", date(2026, 11, 15))
    'we freeze tomorrow (2026-11-16), see `tomorrow.md`'
    """
    while (dated := _add_days(text, today)) != text:
        text = dated  # a date in brackets may set words apart that had run together
    return text


def _add_days(text: str, today: date) -> str:
    lowered = text.replace("İ", "i").lower()  # the one letter that becomes two
    if not any(map(lowered.__contains__, _DATE_STEMS.split("|"))):
        return text
    said = spoken(lowered)
    pieces: list[str] = []
    start = 0
    for match in _pattern().finditer(said):
        rule = _rules()[(match.lastindex or 1) - 1]
        if not _is_meant(text, said, match, rule):
            continue
        end = match.end()
        if said.startswith(("'s", "’s"), end):
            end += 2
        day = _meaning(rule, match[0], today)
        pieces += text[start:end], f" ({day})" if rule.is_spaced else f"（{day}）"
        start = end
    return "".join([*pieces, text[start:]])


def _is_meant(text: str, said: str, match: re.Match[str], rule: _Rule) -> bool:
    """Return True if the words at a position mean one day, and its date is not given beside them."""
    start, end = match.span()
    before = said[max(0, start - MAX_CONTEXT_CHARS) : start]
    behind = said[end : end + MAX_CONTEXT_CHARS]
    if re.match(_DATE_BEHIND, behind) or re.search(f"(?:{_DATE_BEFORE})|{_NAMED_BEFORE}", before):
        return False
    if _is_title(text[max(0, start - MAX_TITLE_CHARS) : start], text[start:end], text[end : end + 2]):
        return False
    is_period = rule.is_doubtful or rule.unit.startswith("week")
    if is_period and re.match(r"\s+(?:of|des|der|du|de|del)\b", behind):
        return False
    if behind.startswith(("'s", "’s")) and not re.match(_POSSESSIVE_EVENT, behind):
        return False
    sentence = re.split(_SENTENCE_END, before)[-1] + match[0] + re.split(_SENTENCE_END, behind)[0]
    if re.search(_HABIT_WORDS, sentence) or (rule.unit == "weekday from" and re.search(_LONG_PERIOD, sentence)):
        return False
    may_be_generic = rule.is_doubtful or rule.unit.startswith(("weekday from", "end of"))
    if may_be_generic and re.match(_GENERIC_START, sentence):
        return False
    if not rule.is_doubtful:
        return not (rule.is_counted and re.search(_EXAMPLE_WORDS, sentence))
    # one thing to come, rather than a habit, a span or a term
    if re.search(_SPAN_WORDS, sentence):
        return False
    if not rule.is_counted:
        return bool(re.search(_ONCE_WORDS, sentence))
    is_term = re.search(_TERM_WORDS, sentence) or re.compile(_EVENT_BEFORE).match(said, start)
    return not is_term and bool(re.search(_EVENT_WORDS, sentence))


def _is_title(before: str, words: str, behind: str) -> bool:
    """Return True if the words are a name, such as *Edge of Tomorrow*, or a greeting, such as *Morgen!*"""
    if not words[0].isupper():
        return False
    before = before.rstrip(" \t*_#->•([")
    if before and before[-1] not in "\n.!?:;。！？":
        return True
    if words.isupper() or (words == "Morgen" and not behind.startswith(" ")):
        return True
    return " " not in words and behind[1:].isupper()


def _meaning(rule: _Rule, words: str, today: date) -> str:
    """Return the day or the period that the words mean, as it is written beside them."""
    steps = rule.steps * (_number(words) if rule.is_counted else 1)
    try:
        if rule.unit.split()[-1] in _MONTHS_IN:
            return _month_meaning(rule.unit, steps, today)
        return _day_meaning(rule.unit, steps, words, today)
    except (OverflowError, ValueError):  # before the first year, or behind the last
        return today.isoformat()


def _day_meaning(unit: str, steps: int, words: str, today: date) -> str:
    """Return a day or a week, so many steps away."""
    weekdays = [number for number, names in enumerate(_WEEKDAY_NAMES) if re.search(names, words)]
    ahead = (weekdays or [0])[0] - today.weekday()
    days = {
        "day": steps,
        "seven days": 7 * steps,
        "week": 7 * steps - today.weekday(),
        "weekday of week": 7 * steps + ahead,
        "weekday from": ahead % 7,
        "weekday after": (ahead - 1) % 7 + 1,
        "weekday before": ahead % 7 - 7,
    }
    day = (today + timedelta(days[unit])).isoformat()
    return f"week of {day}" if unit == "week" else day


def _month_meaning(unit: str, steps: int, today: date) -> str:
    """Return a month, a quarter, a year, or the last day of one, so many steps away."""
    period = unit.split()[-1]
    length = _MONTHS_IN[period]
    month = today.year * 12 + today.month - 1 + steps * length
    if unit != period:
        following = (month // length + 1) * length
        return (date(following // 12, following % 12 + 1, 1) - timedelta(1)).isoformat()
    first = date(month // 12, month % 12 + 1, 1).isoformat()
    quarter = f"{first[:4]}-Q{month % 12 // 3 + 1}"
    return {"month": first[:7], "quarter": quarter, "year": first[:4]}[period]


def _number(words: str) -> int:
    if digits := re.search(r"\d+", words):
        return int(digits[0])
    named = [_NUMBER_OF_WORD[word] for word in words.split() if word in _NUMBER_OF_WORD]
    if named:
        return named[-1]  # French says "il y a trois jours"
    han = [_NUMBER_OF_WORD[sign] for sign in words if sign in _NUMBER_OF_WORD]  # 三, 十, 十二, 二十, 二十三
    if not han:
        return 1
    if 10 not in han:
        return han[0]
    ten = han.index(10)
    tens = han[0] if ten else 1
    return 10 * tens + sum(han[ten + 1 :])


@cache
def _rules() -> tuple[_Rule, ...]:
    """Return the ways to say a date: those of scripts with spaces first."""
    spaced, _, unspaced = read_prompt("dates").partition("\n## unspaced\n")
    return tuple(
        _Rule(unit, int(steps), words, bool(doubtful), section == spaced)
        for section in (spaced, unspaced)
        for unit, steps, doubtful, words in re.findall(r"(?m)^- ([a-z ]+?) ([+-]\d)( doubtful)?: (.+)$", section)
    )


@cache
def _pattern() -> re.Pattern[str]:
    """Return one pattern for all rules, a group each."""
    days = "|".join(_WEEKDAY_NAMES)
    latin_days = re.sub(r"\|[^|]*[^\0-\xff|][^|]*", "", days)  # a third of the time to compile
    numbers = "|".join(word for word in _NUMBER_OF_WORD if word < "ÿ")
    spaced, unspaced = [], []
    for rule in _rules():
        words = f"({rule.words})"
        if rule.is_spaced:
            spaced.append(words.replace("{day}", f"(?:{latin_days})").replace("{n}", rf"(?:\d{{1,3}}|{numbers})"))
        else:
            words = words.replace("{n}", r"(?<![\d第])(?:\d{1,3}|[一二两兩三四五六七八九十]{1,3})")
            unspaced.append(words.replace("{day}", f"(?:{days})").replace("{han}", "一二三四五六日天"))
    begin = rf"(?=[{_WORD_CHARS}])(?<![{_WORD_CHARS}/@#$.\\-])"
    end = rf"(?![{_WORD_CHARS}/@#\\]|[-.][{_WORD_CHARS}])"
    return re.compile(rf"{begin}(?:{'|'.join(spaced)}){end}|(?=[0-9\u2e80-\U0003ffff])(?:{'|'.join(unspaced)})")


def parse_day(text: str) -> date | None:
    """Return the day that a header names, such as 2026-11-15; None for anything else."""
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None
