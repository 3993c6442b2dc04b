"""What is not worth keeping: what holds for the moment only, and what the code and its history say already.

Both are known by their words (`moments.py`, `lookups.py`), so both are careful: what may be a durable fact is let
through. A phrase that is quoted or stands in code says nothing, nor does one beside which an end is named ("for now,
until 2026-12-01"). A sentence on code is let through where the text gives a reason, a rule or a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from memsheaf.text.spoken import spoken

# Known to type checkers under this name: a start does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.guard.moments import Phrase

LONGEST = 20_000
"""How many characters of a text are read."""


def ephemeral(text: str) -> str:
    """Why a text holds for the moment only, or "" when nothing says so.

    >>> ephemeral("Use the old endpoint for now.")
    "'for now' says that it holds for the moment only; say until when it holds, or leave it out"
    >>> ephemeral("Use the old endpoint for now, until 2026-12-01.")
    ''
    """
    from memsheaf.guard.moments import NEEDLES, PHRASES, REQUESTS

    lowered = text[:LONGEST].lower().replace("’", "'")
    needles = [needle for needle in NEEDLES if needle in lowered]
    if not needles:
        return ""
    phrases = [phrase for phrase in PHRASES if not set(needles).isdisjoint(phrase.needles)]
    requests = [request for request in REQUESTS if not set(needles).isdisjoint(request.needles)]
    for line in spoken(lowered).split("\n"):
        for sentence in _sentences(line):
            for phrase in phrases:
                if words := _binding(phrase, sentence, line):
                    return (
                        f"{words!r} says that it holds for the moment only; say until when it holds, or leave it out"
                    )
            for request in requests:
                if found := _compiled(request.pattern).search(sentence):
                    why = "asks for one thing, once, or reports it; keep what holds every time, or leave it out"
                    return f"{_short(found[0])!r} {why}"
    return ""


def _binding(phrase: Phrase, sentence: str, line: str) -> str:
    """The words that bind a sentence to its moment, if nothing beside them says otherwise."""
    from memsheaf.guard.moments import DENIED_AFTER, DENIED_BEFORE, END, RULE

    for match in _compiled(phrase.pattern).finditer(sentence):
        if _compiled(END).search(line) or (phrase.weak and _compiled(RULE).search(sentence)):
            return ""
        before = sentence[max(0, match.start() - 40) : match.start()]
        if not (_compiled(DENIED_BEFORE).search(before) or _compiled(DENIED_AFTER).match(sentence, match.end())):
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
    from memsheaf.guard.lookups import FILE, NEEDLES, ON_FILES, REASON, SENTENCES

    text = text[:LONGEST]
    if pasted := _pasted(text):
        return f"this is {pasted}, which can be looked up at any time; keep in a sentence what it taught"
    lowered = text.lower()
    if cited:
        return ""
    found = {needle for needle in NEEDLES if needle in lowered}
    patterns = [pattern for needles, pattern in SENTENCES if found and not found.isdisjoint(needles)]
    if _compiled(FILE).search(lowered):
        patterns += [pattern for needles, pattern in ON_FILES if any(map(lowered.__contains__, needles))]
    if not patterns or _compiled(REASON).search(lowered):
        return ""
    told, others = [], 0
    for sentence in _sentences(_without_code(lowered)):
        match = next(filter(None, (_compiled(pattern).search(sentence) for pattern in patterns)), None)
        if match:
            told.append(_short(match[0].strip()))
        else:
            others += len(sentence.split()) > 4 or len(sentence.encode()) > 2 * len(sentence)
    if len(told) <= others or not told:
        return ""
    return f"{told[0]!r} can be looked up in the code or its history; keep why it is so, or what follows from it"


def _pasted(text: str) -> str:
    """What most lines of a text were pasted from, or "" when somebody wrote them."""
    if text.count("\n") < 2:
        return ""
    from memsheaf.guard.lookups import PASTES

    for paste in PASTES:
        if any(map(text.__contains__, paste.needles)) and _compiled(paste.sure).search(text):
            lines = [line for line in text.split("\n") if line.strip() and not line.startswith("```")]
            count = sum(bool(_compiled(paste.line).match(line)) for line in lines)
            if count >= paste.least and count > 0.6 * len(lines):
                return paste.what
    return ""


def _without_code(text: str) -> str:
    return re.sub(r"(?ms)^```.*?(?:^```|\Z)", "", text) if "```" in text else text


def _sentences(text: str) -> Iterator[str]:
    for sentence in _compiled(r"(?<=[!?;。！？；])|(?<=\.)(?=\s)|\n").split(text):
        bare = sentence.strip(" \t*_#->•")
        if bare:
            yield bare


def _short(words: str) -> str:
    return words if len(words) <= 60 else words[:57].rstrip() + "..."


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
