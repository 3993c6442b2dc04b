"""The phrases of `prompts/phrases.md`, by language, as patterns.

That file says how its phrases are written. A phrase becomes a pattern when a sentence has its words, not before:
there are many, and compiling all of them takes longer than reading a conversation.
"""

from __future__ import annotations

import re
from functools import cache

from memsheaf.text.spoken import SHOWN
from memsheaf.values import NamedTuple

LANGUAGES = ("English", "Chinese", "Japanese", "German", "French", "Spanish")
BUILT_IN = {
    "{shown}": rf"{SHOWN}+\s?",
    "{number}": r"\b[vq]?\d[\w./:-]*+\s?+",
    "{name}": r"(?<=[\w,] )(?-i:[A-Z])\w++\s?+",
}
"""What stands in the phrases for something that is no list of words."""

WHOLE = (
    *("polite", "remember that", "underlined", "remember", "work", "rule", "owner", "place", "person", "preference"),
    *("decision", "correction", "day", "self"),
)
"""The lists whose phrases are all of a clause."""

_TOKEN = r"<\.\.\.>|\{[^}]+\}|\.\.\.|!\(|[()\[\]|]|[^\s()\[\]{}|<>]+"
_OPENS, _CLOSES = ("(", "[", "!("), (")", "]")
_SENTENCE = (
    r"\n|(?<=[。！？；])|(?<=[^\W\d][.!?;])\s+|(?<=\d[!?;])\s+|(?<=[)\]…\ufffc][.!?;])\s+"
    r"|(?<=\d\.)\s+(?!jan|feb|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez)"
)


class Phrase(NamedTuple):
    """A phrase, and groups of words: a sentence that it fits has one of each group."""

    text: str
    needles: list[frozenset[str]]


class Language(NamedTuple):
    """The phrases of one language; those that are of one kind as the text of one pattern."""

    name: str
    has_blanks: bool
    phrases: dict[str, list[Phrase]]
    before: str
    turned: str
    clause: str
    spoils: str
    corrects: str
    signs: list[str]
    passing: str
    request: str
    told: list[tuple[str, str]]

    def pattern(self, phrase: Phrase) -> str:
        """A phrase as the text of a pattern."""
        return _pattern(phrase.text, self.name)


def languages(sentence: str) -> list[Language]:
    """Those a sentence may be in, by its letters and its little words."""
    wide = any("\u3040" <= letter <= "\u9fff" for letter in sentence)
    words = set(re.findall(r"\w+", sentence.lower()))
    common = {name: len(words.intersection(_lists(name).get("common", []))) for name in LANGUAGES}
    most = max(common.values())
    return [
        _language(name)
        for name in LANGUAGES
        if (name in ("Chinese", "Japanese")) is wide and (wide or common[name] == most)
    ]


@cache
def border() -> str:
    """What ends a sentence, or begins another in its midst: *btw* and the like."""
    return (
        rf"{_SENTENCE}|\ufffb+|(?<![^\s,;，、–—-]){any_of('aside')}[\s,:，：、–—-]*+(?!(?:so|and|but|pls|please)\b)"
    )


@cache
def any_of(title: str) -> str:
    """A pattern for any phrase of a list, in any language."""
    return f"(?:{'|'.join(_one_of(title, name) for name in LANGUAGES)})"


@cache
def _language(name: str) -> Language:
    lists = _lists(name)
    told = (phrase.partition(" => ") for phrase in lists.get("of the user", []))
    joint = r"[,;:–—]\s+|\s-+\s+" if _has_blanks(name) else r"[，、,；：;:]\s*"
    return Language(
        name=name,
        has_blanks=_has_blanks(name),
        phrases={title: [Phrase(each, _needles(each, name)) for each in lists.get(title, [])] for title in WHOLE},
        before=rf"{_one_of('before', name)}[\s,:，、.!-]*+",
        turned=rf"{_one_of('turned round', name)}.*",
        clause=rf"{joint}|\s+(?={_one_of('joined', name)})",
        spoils=_one_of("spoils", name),
        corrects=_one_of("corrects", name),
        signs=[_pattern(f"({each})", name) for each in lists.get("signs", [])],
        passing=_one_of("passing", name),
        request=_one_of("request", name),
        told=[(begins, instead) for begins, _, instead in told],
    )


def phrases(language: str) -> dict[str, list[str]]:
    """What `prompts/phrases.md` says of one language: each list by its name."""
    from memsheaf.prompts import read_prompt

    section = read_prompt("phrases").partition(f"\n## {language}\n")[2].partition("\n## ")[0].replace("\n  ", " ")
    lists = (part.partition("\n") for part in section.split("\n### ")[1:])
    return {
        name: [phrase.strip() for line in re.findall(r"(?m)^- (.+)$", text) for phrase in line.split(" / ")]
        for name, _, text in lists
    }


@cache
def _lists(language: str) -> dict[str, list[str]]:
    return phrases(language)


def _has_blanks(language: str) -> bool:
    return "spaces" not in _lists(language)


@cache
def _pattern(phrase: str, language: str) -> str:
    """A phrase as the text of a pattern."""
    pattern, closing = "", [""]
    for token in compiled(_TOKEN).findall(phrase):
        if token in BUILT_IN:
            pattern += BUILT_IN[token]
        elif token in (".", ".."):
            pattern += _few(language) + ("{1,4}?" if token == ".." else "")
        elif token.startswith("{"):
            pattern += _one_of(token[1:-1], language)
        elif token == "!(":
            pattern += "+(?!" if pattern.endswith(")?") else "(?!"  # else what may be missing is left out to get past
            closing.append(")")
        elif token in _OPENS:
            pattern += "(?:"
            closing.append(")?" if token == "[" else ")")
        elif token in ")]":
            pattern += closing.pop()
        elif token == "|":
            pattern += token
        elif token == "<...>":
            pattern += "(?P<kept>.+)"
        else:
            pattern += ".+?" if token == "..." else _word(token, language)
    return pattern


@cache
def _one_of(title: str, language: str) -> str:
    """A pattern for any phrase of a list; one that fits nothing where the language has no such list."""
    return f"(?:{'|'.join(_pattern(each, language) for each in _lists(language).get(title, [])) or '(?!)'})"


def _few(language: str) -> str:
    """A word that may be a name, or part of one."""
    if not _has_blanks(language):
        return r"(?:[^，、,。：:\s]{1,3}\s?)"
    return rf"(?:(?!{_one_of('no subject', language)})(?:[^\s,;:']|'(?!s\b))++\s?+)"


def _word(word: str, language: str) -> str:
    """Each word takes the blank behind it along, so that optional ones need no blanks of their own."""
    pattern = re.escape(word).replace(r"\*", r"\w*")
    if not _has_blanks(language):
        return rf"{pattern}\s?+"
    before = r"\b" if word[0].isalnum() else ""
    after = r"\b" if word[-1].isalnum() or word[-1] == "*" else ""
    return rf"{before}{pattern}{after}\s?+"


def _needles(phrase: str, language: str) -> list[frozenset[str]]:
    """Groups of words (of characters, where there are no blanks): what fits the phrase has one of each group."""
    found: list[frozenset[str]] = []
    depth, group = 0, ""
    for token in compiled(_TOKEN).findall(phrase):
        depth += (token in _OPENS) - (token in _CLOSES)
        if depth or token in _CLOSES:
            group += f" {token}"
            if not depth:
                found += _first_words(tuple(_choices(group)), language) if token == ")" and group[1] == "(" else []
                group = ""
        elif token in BUILT_IN or "*" in token:
            continue
        elif token.startswith("{"):
            found += _first_words(tuple(_lists(language)[token[1:-1]]), language)
        elif word := re.search(r"\w+" if _has_blanks(language) else r"\w", token.lower()):
            found.append(frozenset([word[0]]))
    return found


@cache
def _first_words(choices: tuple[str, ...], language: str) -> list[frozenset[str]]:
    """The words of which each of these phrases has one, as a group; no group where that is not sure."""
    needed = [_needles(choice, language) for choice in choices]
    return [frozenset().union(*(each[0] for each in needed))] if all(needed) else []


def _choices(group: str) -> list[str]:
    """The phrases between the bars of a group."""
    choices, depth = [""], 0
    for token in compiled(_TOKEN).findall(group)[1:-1]:
        depth += (token in _OPENS) - (token in _CLOSES)
        if token == "|" and not depth:
            choices.append("")
        else:
            choices[-1] += f" {token}"
    return choices


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern that fits capital and small letters alike."""
    return re.compile(pattern, re.DOTALL | re.IGNORECASE)
