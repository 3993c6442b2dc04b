"""Texts that are not worth keeping: what holds for the moment only, and what the code and its history say already.

Both are known by their words (`prompts/worth.md`), so both are careful: what may be a durable fact is let through. A
phrase that is quoted or stands in code says nothing, nor does one beside which an end is named ("for now, until
2026-12-01"). A sentence on code is let through where the text gives a reason, a rule or a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from memsheaf.text.phrases import LANGUAGES, Dialect, PhraseIndex, any_of, compiled, lexicon, split_words
from memsheaf.text.spoken import spoken
from memsheaf.values import compiled as exact

LONGEST = 20_000  # characters of a text that are read
_ENDINGS = "py|pyi|ts|tsx|js|jsx|mjs|go|rs|java|kt|c|h|cc|cpp|hpp|rb|php|cs|swift|scala|vue|lua|ex|exs|hs|dart"
_OF_CODE = rf"\.(?:{_ENDINGS})\b"
_LEAD = r"(?:(?:please|now|then|and|so|also|just|okay|ok|let's|can you|could you)\b,?\s*+)*+"
_MANY = r"(?:\d+|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a dozen)"
_PREPOSITIONS = ("by", "at", "of", "around", "during", "until", "before", "about")
_DIALECT = Dialect(
    gap=r"[^\n]{0,80}?\b",
    gap_unspaced=r"[^\n]{0,80}?",
    named=(
        ("{lead}", _LEAD),
        ("{stop}", r"(?=[.!,]|$)"),
        ("{over}", r"[.!]*$"),
        ("{near}", r"[^，。、,.;；\n]{0,14}?"),
        ("{clause}", r"(?:^|(?<=[，,\s]))"),
        ("{no preposition}", "".join(rf"(?<!\b{word} )" for word in _PREPOSITIONS)),
        ("{file}", rf"(?<![\w./-])[`\"]?(?:[\w.-]+/)*[\w-]+{_OF_CODE}[`\"]?\s*+"),
        ("{symbol}", r"[`\"]?\b[\w.:]+?(?:\(\))?[`\"]?(?:\s++|(?=[^\x00-\x7f]))"),
        ("{folder}", r"\b(?:src|lib|app|tests?|pkg|internal|cmd)/[\w./-]*+\s*+"),
        ("{many}", rf"\b{_MANY}\s*+"),
        ("{lines}", r"\d+(?:-\d+)?\s*+"),
        ("{pr}", r"\b(?:pr|pull request|mr|merge request|issue)s? ?[#!]?\d+\s*+"),
        ("{hash}", r"[0-9a-f]{7,40}\b\s*+"),
        ("{figures}", r"\d+\s*+"),
        ("{word}", r"\S+\s++"),
        ("{word or end}", r"\S+"),
    ),
)
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|fév|avr|déc|ene|abr|dic)"
# An end that is named: what holds until then is no longer of the moment.
_END = (
    rf"\b(?:until|till|through|by|before|ends?|expires?|bis|jusqu|hasta|antes)\b[^\n]{{0,40}}?(?:\d{{4}}-\d\d"
    rf"|\b\d{{1,2}}[./]\d{{1,2}}\b|\b\d{{4}}\b|\b{_MONTH}\w*\.? ?\d|\d\.? (?:de )?{_MONTH})"
    r"|\b(?:until|till|bis|jusqu'à|hasta(?: que)?) (?:the |der |die |das |la |le |el |version |v?\d|release|issue|#)"
    r"|\d{4}[-年][^\n]{0,8}(?:まで|之?前|为止|為止|截止)|(?:到|直到|截止|截至)[^\n]{0,4}\d{4}[-年]"
)
_DENIED_BEFORE = (
    r"\b(?:not|nicht|pas|no)\s(?:just |only |merely |nur |seulement |que |s[oó]lo )?$"
    r"|(?:rather|more) than (?:only |just )?$"
    r"|不(?:只|仅|仅仅|僅)?是?$|\b(?:words?|phrase|says?|saying|called|named) $"
)
_DENIED_AFTER = r"\s?(?:でなく|ではなく|じゃなく|に限らず|でない)"


def ephemeral(text: str) -> str:
    """Why a text holds for the moment only, or "" when nothing says so.

    >>> ephemeral("Use the old endpoint for now.")
    "'for now' says that it holds for the moment only; say until when it holds, or leave it out"
    >>> ephemeral("Use the old endpoint for now, until 2026-12-01.")
    ''
    """
    lowered = text[:LONGEST].lower().replace("’", "'")
    moments = _candidates(lowered, "moment", "weak moment", "once", "once anywhere")
    if not moments:
        return ""
    for line in spoken(lowered).split("\n"):
        for sentence in _sentences(line):
            for title, pattern in moments:
                if title.startswith("once"):
                    if found := (pattern.match if title == "once" else pattern.search)(sentence):
                        why = "asks for one thing, once, or reports it; keep what holds every time, or leave it out"
                        return f"{_short(found[0])!r} {why}"
                elif words := _binding(pattern, sentence, line, is_weak=title == "weak moment"):
                    why = "says that it holds for the moment only; say until when it holds, or leave it out"
                    return f"{words!r} {why}"
    return ""


def _binding(pattern: re.Pattern[str], sentence: str, line: str, *, is_weak: bool) -> str:
    """The words that bind a sentence to its moment, if nothing beside them says otherwise."""
    for match in pattern.finditer(sentence):
        if compiled(_END).search(line) or (is_weak and compiled(any_of("worth", "rule", _DIALECT)).search(sentence)):
            return ""
        before = sentence[max(0, match.start() - 40) : match.start()]
        if not (compiled(_DENIED_BEFORE).search(before) or compiled(_DENIED_AFTER).match(sentence, match.end())):
            return match[0].strip()
    return ""


def derivable(text: str, *, cited: bool = False) -> str:
    """Why a text need not be kept, since code, files or version control say it; "" when nothing shows that.

    With `cited`, it may speak of code, for that can be checked; pasted output is still refused.

    >>> derivable("PR #12 was merged.")
    "'pr #12 was merged' can be looked up in the code or its history; keep why it is so, or what follows from it"
    >>> derivable("PR #12 was merged without review, because production was down.")
    ''
    """
    text = text[:LONGEST]
    if pasted := _pasted(text):
        return f"this is {pasted}, which can be looked up at any time; keep in a sentence what it taught"
    if cited:
        return ""
    lowered = text.lower()
    titles = ("lookup", "lookup first", "lookup of file") if compiled(_OF_CODE).search(lowered) else _NO_FILE
    lookups = _candidates(lowered, *titles)
    if not lookups:
        return ""
    told, others = [], 0
    for sentence in _sentences(re.sub(r"(?ms)^```.*?(?:^```|\Z)", "", lowered)):  # code is no statement
        if found := _lookup(sentence, lookups):
            told.append(found)
        else:
            others += len(sentence.split()) > 4 or len(sentence.encode()) > 2 * len(sentence)
    if len(told) <= others or not told or exact(any_of("worth", "reason", _DIALECT)).search(lowered):
        return ""
    return f"{told[0]!r} can be looked up in the code or its history; keep why it is so, or what follows from it"


_NO_FILE = ("lookup", "lookup first")


def _lookup(sentence: str, lookups: list[tuple[str, re.Pattern[str]]]) -> str:
    """The words of a sentence that the code or its history say as well."""
    for title, pattern in lookups:
        if match := (pattern.match if title == "lookup first" else pattern.search)(sentence):
            return _short(match[0].strip())
    return ""


def _candidates(lowered: str, *titles: str) -> list[tuple[str, re.Pattern[str]]]:
    """The phrases of these lists whose words a text has, in all languages, each with its list."""
    words = _words_of(lowered)
    letters = frozenset() if lowered.isascii() else frozenset(lowered)
    spaced, unspaced = _indexes(titles)
    found = [*spaced.find(words), *(unspaced.find(letters) if letters else ())]
    return [(title, pattern) for title, _, pattern in found]


@lru_cache(2)
def _words_of(lowered: str) -> frozenset[str]:
    return frozenset(split_words(lowered))  # asked twice for each text


@cache
def _indexes(titles: tuple[str, ...]) -> tuple[PhraseIndex, PhraseIndex]:
    """The phrases of these lists in the languages with spaces between words, and in those without."""
    books = [lexicon("worth", name, _DIALECT) for name in LANGUAGES]
    spaced, unspaced = ([book for book in books if book.is_spaced is wanted] for wanted in (True, False))
    return PhraseIndex(spaced, titles), PhraseIndex(unspaced, titles)


def _sentences(text: str) -> Iterator[str]:
    for sentence in compiled(r"(?<=[!?;。！？；])|(?<=\.)(?=\s)|\n").split(text):
        bare = sentence.strip(" \t*_#->•")
        if bare:
            yield bare


def _short(words: str) -> str:
    return words if len(words) <= 60 else words[:57].rstrip() + "..."


_CODE = (
    r"\s*(?:@\w|(?:async )?def |class |import |from \S+ import|func |fn |pub |impl |function |export |const |let "
    r"|var |public |private |protected |static |return\b|if\b.*[:{]$|else\b|elif |for\b.*[:{]$|while\b|try\b"
    r"|except\b|catch\b|raise |throw |switch|case |package |use |#include|struct |type |[)}\]]+[;,]?$"
    r"|\w[\w.\[\]]* (?:=|:=|\+=) .+|self\.|this\.|with .+:$|int |void |[\w.]+\(.*\)[;{:]?$|\"\"\"|//|/\*|\*/)"
)
# What people and agents paste, and can have again at any time: what is in it somewhere, and what at least so many of
# its lines look like.
_PASTES = (
    (
        "a diff", 3, r"(?m)^diff --git |^@@ -\d",
        r"diff --git |@@ -|index [0-9a-f]{7,}\.\.|(?:---|\+\+\+) |[+-]|new file mode|[ ]\S|    ",
    ),
    (
        "a git log", 3, r"(?m)^\*?\s?commit [0-9a-f]{7,40}\b|^[*|\\/ ]*\b(?=[a-f]*\d)[0-9a-f]{7,40}\b \S",
        r"\*?\s?commit [0-9a-f]{7,40}\b|(?:Author|Date|Merge|Commit):? +\S|[*|\\/ ]*\b[0-9a-f]{7,40}\b \S|    \S",
    ),
    (
        "git blame", 3, r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
        r"\^?[0-9a-f]{7,40} .*\(.+\d{4}-\d\d-\d\d.*\d+\)",
    ),
    (
        "git status", 3, r"(?m)^On branch |^(?:[ MADRCU?][MADRCU?]|[MADRCU] ) [\w./-]+$",
        r"On branch |Your branch |Changes |Untracked files|nothing to commit|\s+\((?:use|commit)"
        r"|\s+(?:modified|new file|deleted|renamed):|[ MADRCU?]{2} [\w./-]+$|\t\S",
    ),
    (
        "a listing of a folder", 3, r"[├└]|(?m:^[-dl][rwx-]{9})",
        r".*[├└│]|[-dl][rwxs-]{9}[+@.]?\s|total \d+$|\d+ director(?:y|ies), \d+ files?|\.$",
    ),
    (
        "a list of files", 5, r"(?m)^[-*•\d.)`\" ]*[\w@.-]*[/.][\w@./-]*[`\"]?$",
        r"(?:[-*•]|\d+[.)])?\s*[`\"]?(?:\./)?(?:[\w@.-]+/)*[\w@.-]+(?:\.\w{1,5}|/)[`\"]?$",
    ),
    (
        "a stack trace", 3,
        r"Traceback \(most recent call|(?m:^\s+at .+[(:].*\d\)?$)|goroutine \d+ \[|panicked at",
        r"Traceback \(most recent|\s*File \".*\", line \d+|    \S|\s+at .+|\w+(?:\.\w+)*(?:Error|Exception|Warning)\b"
        r"|goroutine \d+ |\s+\S+\.go:\d+|\S+\(.*\)$|Caused by|\s+\.\.\. \d+ more|thread '.*' panicked|\s+\d+: ",
    ),
    (
        "a listing of code", 8,
        r"(?m)^\s*(?:(?:async )?def |class |import |from \S+ import|func |fn |function |export |const |let |public "
        r"|static |#include|package )", _CODE,
    ),
)  # fmt: skip


def _pasted(text: str) -> str:
    """What most lines of a text were pasted from, or "" when they were typed."""
    if text.count("\n") < 2:
        return ""
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("```")]
    for what, least, sure, line in _PASTES:
        if len(lines) >= least:
            count = sum(map(bool, map(exact(line).match, lines)))
            if count >= least and count > 0.6 * len(lines) and exact(sure).search(text):
                return what
    return ""
