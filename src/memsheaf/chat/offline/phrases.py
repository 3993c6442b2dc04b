"""The phrases and the answers of `prompts/offline.md`, by language.

That file says how its phrases are written. A phrase becomes a pattern when a sentence begins as it does, not before.
"""

from __future__ import annotations

import re
from functools import cache

from memsheaf.text.phrases import compiled
from memsheaf.values import NamedTuple

WIDE = ("Chinese", "Japanese")
"""The languages that are written without blanks."""

END = " \t.,!?。，！？;；~–—-…"
"""What may stand at the end of a sentence."""

_FILE = r"[`'\"“]?(?P<file>(?:[a-z]+(?:/[a-z0-9-]+)?:)?(?:user|feedback|project|reference)_[\w.-]*\.md)[`'\"”]?\s?+"
_PATH = r"[`'\"“]?(?P<path>[\w./\\~-]*[\w-]\.[A-Za-z0-9]{1,8})(?![A-Za-z0-9_])[`'\"”]?\s?+"
_BUILT_IN = {"{file}": _FILE, "{path}": _PATH}
_TOKEN = r"<\w+>|\{[^}]+\}|\.\.\.|!\(|[()\[\]|]|[^\s()\[\]{}|<>]+"
_BRACKETS = {"(": ("(?:", ")"), "[": ("(?:", ")?"), "!(": ("(?!", ")")}


@cache
def lists(language: str) -> dict[str, list[str]]:
    """What `prompts/offline.md` says of one language: each list by its name."""
    return {
        name: [phrase.strip() for line in re.findall(r"(?m)^- (.+)$", text) for phrase in line.split(" / ")]
        for name, text in _section(language).items()
    }


@cache
def says(language: str) -> dict[str, str]:
    """What is answered in one language: each text by its name."""
    lines = re.findall(r"(?m)^- ([\w ]+): (.+)$", _section(language)["says"])
    return {name: text.replace(" // ", "\n") for name, text in lines}


def turned(language: str, subject: str) -> str:
    """A subject as the other one says it.

    >>> turned("English", "my preferences")
    'your preferences'
    """
    words = dict(pair.split(" => ", 1) for pair in lists(language).get("turned", ()))
    edge = "" if language in WIDE else r"\b"
    found = f"{edge}(?:{'|'.join(map(re.escape, words))}){edge}"
    return re.sub(found, lambda match: words[match[0].lower()], subject, flags=re.IGNORECASE) if words else subject


def holds(title: str, language: str, text: str) -> bool:
    """Whether a word or phrase of a list is somewhere in a text."""
    return bool(compiled(one_of(title, language)).search(text))


def is_all(title: str, language: str, text: str) -> bool:
    """Whether a phrase of a list is all of a text."""
    return bool(compiled(one_of(title, language)).fullmatch(text.strip(END + "'\"")))


def spans(title: str, language: str, text: str) -> list[tuple[int, int]]:
    """Where words of a list are in a text."""
    return [match.span() for match in compiled(one_of(title, language)).finditer(text)]


def is_wide(language: str) -> bool:
    """Whether a language is written without blanks."""
    return language in WIDE


def _section(language: str) -> dict[str, str]:
    """The lists of one language as they are written."""
    from memsheaf.prompts import read_prompt

    section = read_prompt("offline").partition(f"\n## {language}\n")[2].partition("\n## ")[0].replace("\n  ", " ")
    return {name: text for name, _, text in (part.partition("\n") for part in section.split("\n### ")[1:])}


@cache
def pattern(phrase: str, language: str) -> str:
    """A phrase as the text of a pattern."""
    made, closing = "", [""]
    for token in compiled(_TOKEN).findall(phrase):
        if token in _BUILT_IN:
            made += _BUILT_IN[token]
        elif token.startswith("{"):
            made += one_of(token[1:-1], language)
        elif token in _BRACKETS:
            opened, closed = _BRACKETS[token]
            made += opened
            closing.append(closed)
        elif token in (")", "]"):
            made += closing.pop()
        elif token == "|":
            made += token
        elif token.startswith("<"):
            made += rf"(?P{token}\S.*?)\s*"
        else:
            made += ".*?" if token == "..." else _word(token, language)
    return made


@cache
def one_of(title: str, language: str) -> str:
    """A pattern for any phrase of a list, the longest first; one that fits nothing where there is no such list."""
    phrases = sorted(lists(language).get(title, ()), key=len, reverse=True)
    return f"(?:{'|'.join(pattern(each, language) for each in phrases) or '(?!)'})"


def _word(word: str, language: str) -> str:
    """Each word takes the blanks behind it along, so that optional ones need no blanks of their own."""
    made = re.escape(word).replace(r"\*", r"\w*")
    if is_wide(language):
        return rf"{made}\s*+"
    before = r"\b" if word[0].isalnum() else ""
    after = r"\b" if word[-1].isalnum() or word[-1] == "*" else ""
    return rf"{before}{made}{after}\s*+"


@cache
def first_words(phrase: str, language: str) -> tuple[str, ...] | None:
    """What a phrase may begin with, so that others need not be compiled; None where that is not sure."""
    opening = _opening(compiled(_TOKEN).findall(phrase), language)
    return None if opening is None or opening.may_miss else tuple(opening.words)


class _Opening(NamedTuple):
    """The words that a row of tokens may begin with, and whether all of it may be missing."""

    words: frozenset[str]
    may_miss: bool


def _opening(tokens: list[str], language: str) -> _Opening | None:
    """How a row of tokens begins; None where it may be with any word."""
    words: frozenset[str] = frozenset()
    at = 0
    while at < len(tokens):
        end = _closing(tokens, at) if tokens[at] in _BRACKETS else at
        if tokens[at] != "!(":
            opening = _begun(tokens[at], tokens[at + 1 : end], language)
            if opening is None:
                return None
            words |= opening.words
            if not opening.may_miss:
                return _Opening(words, may_miss=False)
        at = end + 1
    return _Opening(words, may_miss=True)


def _begun(token: str, inside: list[str], language: str) -> _Opening | None:
    """How a word, a group or a list begins."""
    if token in ("(", "["):
        choices = _choices(inside)
    elif token.startswith("{") and token not in _BUILT_IN:
        choices = [compiled(_TOKEN).findall(each) for each in lists(language).get(token[1:-1], ())]
    elif token.startswith(("<", "{", "*", "...")):
        return None
    else:
        return _Opening(frozenset([token.partition("*")[0].casefold()]), may_miss=False)
    openings = [_opening(choice, language) for choice in choices]
    known = [each for each in openings if each is not None]
    if len(known) < len(openings):
        return None
    words = frozenset().union(*(each.words for each in known))
    return _Opening(words, may_miss=token == "[" or any(each.may_miss for each in known))


def _closing(tokens: list[str], at: int) -> int:
    """Where the group ends that begins here."""
    depth = 0
    for place in range(at, len(tokens)):
        depth += (tokens[place] in _BRACKETS) - (tokens[place] in (")", "]"))
        if not depth:
            return place
    return len(tokens)


def _choices(tokens: list[str]) -> list[list[str]]:
    """What stands between the bars of a group."""
    found: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in _BRACKETS) - (token in (")", "]"))
        if token == "|" and not depth:
            found.append([])
        else:
            found[-1].append(token)
    return found
