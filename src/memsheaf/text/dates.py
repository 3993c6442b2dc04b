"""Relative dates such as *tomorrow*, with the day that they mean beside them.

The words stay; the day is added in brackets. A wrong date is worse than none, so what may be a habit ("on Fridays"),
a span ("expires in 30 days"), a title or code is left alone. Weekdays are read so:

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

from memsheaf.text.spoken import spoken
from memsheaf.values import NamedTuple

MOST = 1_000
"""How many relative dates of a text are looked at: no note has as many."""

# No relative date does without one of these, so most texts cost a few substring tests.
_STEMS = (
    "day", "tomorrow", "tonight", "week", "month", "year", "quarter", " ago", "this morn", "this after",
    "this even",
    "last night", "heute", "morgen", "gestern", "woche", "monat", "jahr", "quartal", "tagen", "ntag", "stag", "itag",
    "mittwoch", "jourd", "demain", "hier ", "hier,", "depuis", "undi", "mardi", "credi", "jeudi", "dredi", "medi",
    "manche",
    "semaine", "mois", "trimestre", "ce soir", "ce matin", "jour", "année", "l'an ", "l’an ", "hoy", "mañana",
    " ayer",
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
    """One way to say a date: what it counts in, from where, and the words, with {day} and {n} for their lists.

    `unit` is day, seven days, week, month, quarter or year; the end of one; or a weekday: from today on, after it,
    before it, of a week. Rules that count (`{n}`) take the number from the words. `steps` is how many units away it
    is. What is `doubtful` may be a habit or a span: it counts only where the sentence tells of something to come.
    """

    unit: str
    steps: int
    words: str
    doubtful: bool = False


# An earlier rule wins where two begin at the same place, so the longer words come first.
_SPACED = (
    _Rule("day", 2, "(?:the )?day after tomorrow|übermorgen|après-demain|pasado mañana"),
    _Rule("day", -2, "(?:the )?day before yesterday|vorgestern|avant-hier|anteayer|antier"),
    _Rule("day", 0, "today|tonight|this (?:morning|afternoon|evening)|heute(?: abend| morgen| nacht| nachmittag)?"),
    _Rule("day", 0, "aujourd['’]hui|ce (?:soir|matin)|hoy|esta (?:mañana|tarde|noche)"),
    _Rule(
        "day",
        1,
        "tomorrow(?: (?:morning|afternoon|evening|night))?|(?<!heute )(?<!gestern )(?<!jeden )(?<!guten )morgen",
    ),
    _Rule("day", 1, "demain(?: matin| soir)?|(?<!la )(?<!esta )(?<!cada )(?<!una )(?<!de )mañana"),
    _Rule(
        "day", -1, "yesterday(?: (?:morning|afternoon|evening))?|last night|gestern(?: abend| morgen)?|ayer|anoche"
    ),
    _Rule("day", -1, "(?<=depuis )hier|hier (?:soir|matin)|hier(?=,? (?:nous|on|j['’]|ils?|elles?|l[ea]s?|l['’]))"),
    _Rule("end of month", 0, "(?:the )?end of (?:the|this) month|ende (?:des|dieses) monats|monatsende"),
    _Rule("end of month", 0, "fin (?:du|de ce) mois|fin(?:al|ales)? de(?: este)? mes"),
    _Rule("end of month", 1, "(?:the )?end of next month|ende (?:des )?nächsten monats|fin du mois prochain"),
    _Rule(
        "end of quarter",
        0,
        "(?:the )?end of (?:the|this) quarter|ende (?:des|dieses) quartals|fin (?:du|de ce) trimestre",
    ),
    _Rule("end of year", 0, "(?:the )?end of (?:the|this) year|ende (?:des|dieses) jahres|jahresende"),
    _Rule("end of year", 0, "fin de (?:l['’]année|cette année)|fin(?:al|ales)? de(?: este)? año"),
    _Rule("weekday of week", 1, "next {day}|nächste[nrs]? {day}"),
    _Rule("weekday after", 0, "kommende[nrs]? {day}|{day} prochain|(?:el )?próximo {day}|(?:el )?{day} que viene"),
    _Rule(
        "weekday before", 0, "last {day}|letzte[nrs]? {day}|vergangene[nrs]? {day}|{day} dernier|(?:el )?{day} pasado"
    ),
    _Rule("weekday from", 0, "(?:by|until|till|before|due|due on|this) {day}|(?:bis|diesen) {day}"),
    _Rule("weekday from", 0, "(?:d['’]ici|avant|jusqu['’]à|ce) {day}|(?:antes del?|para el|hasta el|este) {day}"),
    _Rule("weekday from", 0, "on {day}|am {day}|le {day}|el {day}", doubtful=True),
    _Rule("day", 1, "in {n} days?|in {n} tag(?:en)?|dans {n} jours?|(?:dentro de|en) {n} días?", doubtful=True),
    _Rule("day", -1, "{n} days? ago|vor {n} tag(?:en)?|il y a {n} jours?|hace {n} d[ií]as?"),
    _Rule(
        "seven days",
        1,
        "in {n} weeks?|in {n} wochen?|dans {n} semaines?|(?:dentro de|en) {n} semanas?",
        doubtful=True,
    ),
    _Rule("seven days", -1, "{n} weeks? ago|vor {n} wochen?|il y a {n} semaines?|hace {n} semanas?"),
    _Rule(
        "month", 1, "in {n} months?|in {n} monat(?:en)?|dans {n} mois|(?:dentro de|en) {n} mes(?:es)?", doubtful=True
    ),
    _Rule("month", -1, "{n} months? ago|vor {n} monat(?:en)?|il y a {n} mois|hace {n} mes(?:es)?"),
    _Rule("week", 1, "next week|nächste[rn]? woche|kommende[rn]? woche|la semaine prochaine"),
    _Rule("week", 1, "la próxima semana|la semana que viene"),
    _Rule("week", 0, "this week|diese[rn]? woche|cette semaine|esta semana"),
    _Rule(
        "week",
        -1,
        "last week|letzte[rn]? woche|vergangene[rn]? woche|la semaine (?:dernière|passée)|la semana pasada",
    ),
    _Rule(
        "month",
        1,
        "next month|nächste[nrs]? monats?|kommenden monat|le mois prochain|el mes que viene|el próximo mes",
    ),
    _Rule("month", 0, "this month|diese[nms] monats?|ce mois-ci|este mes"),
    _Rule("month", -1, "last month|letzte[nrs]? monats?|vergangenen monat|le mois dernier|el mes pasado"),
    _Rule("quarter", 1, "next quarter|nächste[ns]? quartal|le trimestre prochain|el próximo trimestre"),
    _Rule("quarter", 0, "this quarter|diese[sm] quartal|ce trimestre|este trimestre"),
    _Rule("quarter", -1, "last quarter|letzte[ns]? quartal|le trimestre dernier|el trimestre pasado"),
    _Rule(
        "year", 1, "next year|nächste[ns]? jahr|l['’]année prochaine|l['’]an prochain|el año que viene|el próximo año"
    ),
    _Rule("year", 0, "this year|diese[sm] jahr|cette année|este año"),
    _Rule(
        "year", -1, "last year|letzte[ns]? jahr|vergangene[ns] jahr|l['’]année dernière|l['’]an dernier|el año pasado"
    ),
)
_UNSPACED = (
    _Rule("day", 2, "明後日|(?:后天|後天)(?!性|免疫|培|的性格)"),
    _Rule("day", -2, "一昨日|前天"),
    _Rule("day", 0, "今天(?:早上|上午|下午|晚上)?(?!的标准|的標準)|今晚|今晩|今夜|今日(?!の|では)|本日"),
    _Rule("day", 1, "明天(?:早上|上午|下午|晚上)?|明晚|明日(?!への)"),
    _Rule("day", -1, "昨天(?:早上|上午|下午|晚上)?|昨晚|昨晩|昨夜|昨日"),
    _Rule("weekday of week", 1, "下个?(?:周|星期|礼拜)[{han}]|下個?(?:週|星期|禮拜)[{han}]|来週の?{day}日?"),
    _Rule("weekday of week", -1, "上个?(?:周|星期|礼拜)[{han}]|上個?(?:週|星期|禮拜)[{han}]|先週の?{day}日?"),
    _Rule(
        "weekday of week",
        0,
        "[这本](?:个)?(?:周|星期|礼拜)[{han}]|[這本](?:個)?(?:週|星期|禮拜)[{han}]|今週の?{day}日?",
    ),
    _Rule("weekday from", 0, "(?:周|週|星期|礼拜)[{han}](?=之?前)|{day}日?(?=まで)"),
    _Rule("week", 1, "下个?(?:周|星期)(?![{han}期])|下個?[週](?!期)|来週"),
    _Rule("week", -1, "上个?(?:周|星期)(?![{han}期])|上個?[週](?!期)|先週"),
    _Rule("week", 0, "[这本](?:个)?(?:周|星期)(?![{han}期])|[這本](?:個)?[週](?!期)|今週"),
    _Rule("end of month", 1, "下个?月底|下個?月底|来月末"),
    _Rule("end of month", 0, "(?<![每个個])(?:本|这个|這個)?月底|今月末"),
    _Rule("end of year", 0, "(?:今年|本年)底|(?<![每\\d一二三四五六七八九])年底(?!奖)"),
    _Rule("day", -1, "{n}\\s?(?:天|日)(?:以|之)?前"),
    _Rule("day", 1, "{n}\\s?(?:天|日)(?:以|之)?(?:后|後)", doubtful=True),
    _Rule("seven days", -1, "{n}\\s?个?(?:周|週|星期|週間)(?:以|之)?前"),
    _Rule("seven days", 1, "{n}\\s?个?(?:周|週|星期|週間)(?:以|之)?(?:后|後)", doubtful=True),
    _Rule("month", -1, "{n}\\s?(?:个月|個月|か月|ヶ月|ヵ月|カ月)(?:以|之)?前"),
    _Rule("month", 1, "{n}\\s?(?:个月|個月|か月|ヶ月|ヵ月|カ月)(?:以|之)?(?:后|後)", doubtful=True),
    _Rule("month", 1, "下个月|下個月|(?<![\\d一二三四五六七八九十])下月|来月"),
    _Rule("month", -1, "上个月|上個月|(?<![\\d一二三四五六七八九十])上月|先月"),
    _Rule("month", 0, "这个月|這個月|本月|今月"),
    _Rule("quarter", 1, "下(?:个|個)?季度|来四半期"),
    _Rule("quarter", -1, "上(?:个|個)?季度|前四半期"),
    _Rule("quarter", 0, "(?:本|这个|這個)季度|今四半期"),
    _Rule("year", 1, "明年|来年"),
    _Rule("year", -1, "去年|昨年"),
    _Rule("year", 0, "今年|本年度"),
)

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
    r"|mov(?:e|es|ing)|leav\w+|back|migrat\w+|audit|exam|wedding|holiday|vacation|trip|wird|werden|beginnt|endet|abgabe"
    r"|livraison|commence|sera|allons|vais|sort|empieza|será|vamos|entrega|lanza\w*|sale)\b|’ll\b"
    r"|发布|發布|上线|截止|开始|開始|会议|搬|リリース|締切|締め切り|公開|始ま|移行|予定|会議"
)
_SPAN = (
    r"\b(?:\w+ed|was|were|had|did|went|met|took|built|wrote|done|token\w*|retention|ttl|cach\w+|certificat\w+|cookie\w*"
    r"|per|delet\w+|purg\w+|rotat\w+|after|within|if|when|than|like|such as|wurde|war|abläuft|été|fue|expir\w+"
    r"|caduca\w*)\b|过期|過期|删除|刪除|自动|自動|失效|期限切れ|削除|経過"
)
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


def has_relative(text: str) -> bool:
    """Whether a text says when something is in a way that only its own day explains."""
    return any(True for _ in _relative(text))


def _dated(text: str, today: date) -> str:
    pieces: list[str] = []
    done = 0
    for end, words, rule in _relative(text):
        pieces += text[done:end], _brackets(rule).format(_meant(rule, words, today))
        done = end
    return "".join([*pieces, text[done:]])


def _relative(text: str) -> Iterator[tuple[int, str, _Rule]]:
    """Each relative date: where it ends, its words in small letters, and how it is read."""
    lowered = _lower(text)
    stems = _STEMS if text.isascii() else _STEMS + _STEMS_UNSPACED
    if not any(map(lowered.__contains__, stems)):
        return
    said = spoken(lowered)
    found = _matches(_SPACED, _STEMS, said)
    if not text.isascii():
        found = merge(found, _matches(_UNSPACED, _STEMS_UNSPACED, said), key=lambda each: each[0].start())
    places: dict[str, list[int]] = {}
    for match, rule in islice(found, MOST):
        if _is_meant(text, said, match, rule, places):
            end = match.end()
            yield end + 2 * (said[end : end + 2] in ("'s", "’s")), match[0], rule


@cache
def _brackets(rule: _Rule) -> str:
    return " ({})" if rule in _SPACED else "（{}）"


def _lower(text: str) -> str:
    """In small letters, each in its place: a few letters would become two."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


def _matches(rules: tuple[_Rule, ...], stems: tuple[str, ...], said: str) -> Iterator[tuple[re.Match[str], _Rule]]:
    """What the rules find, line by line: most lines have no stem, and cost next to nothing."""
    start, stems = 0, tuple(stem for stem in stems if stem in said)
    for line in said.split("\n") if stems else ():
        if any(stem in line for stem in stems):
            for match in _pattern(rules is _SPACED).finditer(said, start, start + len(line)):
                yield match, rules[(match.lastindex or 1) - 1]
        start += len(line) + 1


def _is_meant(text: str, said: str, match: re.Match[str], rule: _Rule, places: dict[str, list[int]]) -> bool:
    """Whether the words at a place mean one day, and nobody wrote it beside them.

    `places` remembers where in the text words stand that decide this: each is looked for once.
    """
    start, end = match.span()
    if _compiled(_DATE_BEHIND).match(said, end) or _compiled(_DATE_BEFORE).search(said[max(0, start - 40) : start]):
        return False
    if _is_title(text, start, end) or _compiled(_NAMED_BEFORE).search(said[max(0, start - 12) : start]):
        return False
    if rule.unit.startswith("week") and _compiled(r"\s+(?:of|des|der|du|de|del)\b").match(said, end):
        return False
    if said[end : end + 2] in ("'s", "’s") and not _compiled(_EVENTS).match(said, end):
        return False

    def holds(pattern: str) -> bool:
        """Whether the sentence, as far as it is near, has such a word."""
        first = _next(places, _SENTENCE_END, said, start, -1) + 1
        last = _next(places, _SENTENCE_END, said, end, 0)
        return _next(places, pattern, said, max(first, start - 200), 0) < min(last, end + 200)

    if holds(_HABIT):
        return False
    if rule.doubtful:
        return holds(_COMING) and not holds(_SPAN)
    return "{n}" not in rule.words or not holds(r"\b(?:than|like|such as|e\.g\.|if|when|from)\b")


def _next(places: dict[str, list[int]], pattern: str, said: str, at: int, step: int) -> int:
    """Where a pattern is next found from a place on, or with step -1 last before it; else an end of the text."""
    if pattern not in places:
        places[pattern] = [-1, *(match.start() for match in _compiled(pattern).finditer(said)), len(said)]
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
    if unit == "end of year":
        return f"{year:04}-12-31"
    if unit.startswith("end of "):
        return _last_day(year, quarter * 3 if unit == "end of quarter" else month)
    return {"year": f"{year:04}", "quarter": f"{year:04}-Q{quarter}", "month": f"{year:04}-{month:02}"}[unit]


def _last_day(year: int, month: int) -> str:
    from calendar import monthrange

    return date(year, month, monthrange(year, month)[1]).isoformat()


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
    digits = _compiled(r"\d+").search(words)
    if digits:
        return int(digits[0])
    tens, ten, ones = "".join(sign for sign in words if sign in _NUMBER).partition("十")
    if ten:
        return 10 * _NUMBER.get(tens, 1) + _NUMBER.get(ones, 0)
    named = [_NUMBER[word] for word in words.split() if word in _NUMBER]  # the last: French says "il y a trois jours"
    return named[-1] if named else _NUMBER.get(tens[:1], 1)


@cache
def _pattern(spaced: bool) -> re.Pattern[str]:
    """One pattern for all rules, a group each."""
    names = "|".join(name for names in _WEEKDAYS for name in names[slice(0, 4) if spaced else slice(4, 5)])
    numbers = "|".join(word for word in _NUMBER if ("a" <= word < "ÿ") is spaced)
    count = rf"(?:\d{{1,3}}|{numbers})" if spaced else r"(?<![\d第])(?:\d{1,3}|[一二两兩三四五六七八九十]{1,3})"
    groups = "|".join(
        f"({rule.words})".replace("{day}", f"(?:{names})").replace("{n}", count).replace("{han}", "一二三四五六日天")
        for rule in (_SPACED if spaced else _UNSPACED)
    )
    edges = (r"(?=[0-9\u2e80-\U0003ffff])", "")
    if spaced:  # every rule begins with a letter or a number
        edges = rf"(?=[{_LETTERS}])(?<![{_LETTERS}/@#$.\\-])", rf"(?![{_LETTERS}/@#\\]|[-.][{_LETTERS}])"
    return re.compile(f"{edges[0]}(?:{groups}){edges[1]}")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
