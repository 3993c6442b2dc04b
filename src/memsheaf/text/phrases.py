"""The phrase engine: lists of phrases in `prompts/NAME.md`, by language, compiled to patterns.

A file has a section for each language (`## English`). Each line is `- title: phrase / phrase`; a list may have
several lines, and an indented line continues the one above it. In a phrase

- `(a|b)` is one of these, `[a|b]` one of these or nothing
- `{title}` is a phrase of the list with this title, or one of the patterns that the file's `Dialect` names
- `!(a|b)` means that none of these comes next, `!(!(a|b))` that one of them does
- `...` is anything, as far as the dialect says; `<name>` is anything, as the group `name`
- `.` is one word that may be a name, `..` up to four: none that is in the list `no subject`
- `*` in a word is any of its letters

A language with a list called `spaces` is written without them. How to use it:

    english = lexicon("phrases", "English")                     # cached; reads the file at the first call
    english.lists["aside"]                                      # the phrases as they are written
    english.compiled("{aside}[,:]").search(text)                # any phrase of a list, in a pattern
    for title, phrase, pattern in english.candidates(("rule", "person"), sentence):
        pattern.fullmatch(sentence)                             # compiled only where the sentence has its words

Each word takes the spaces behind it along, so that optional words need none of their own. Repetitions are possessive:
what hostile input costs stays linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from memsheaf.text.sentences import NO_SENTENCE_END
from memsheaf.text.spoken import SHOWN

LANGUAGES = ("English", "Chinese", "Japanese", "German", "French", "Spanish")

_TOKEN = r"<\w+>|\{[^}]+\}|\.\.\.|!\(|[()\[\]|]|[^\s()\[\]{}|<>]+"
_OPENING = {"(": ("(?:", ")"), "[": ("(?:", ")?"), "!(": ("(?!", ")")}
_CLOSING = (")", "]")
# A number with a full stop ends a sentence, unless it begins an item of a list or is a German ordinal.
_NO_ORDINAL = (
    r"(?<!(?m:^)\d\.)(?<!(?m:^)\s\d\.)(?<!\s\s\d\.)(?<![:;.!?]\s\d\.)(?<!\b[ai]m\s\d\.)"
    r"(?<!(?m:^)\d\d\.)(?<!(?m:^)\s\d\d\.)(?<!\s\s\d\d\.)(?<![:;.!?]\s\d\d\.)(?<!\b[ai]m\s\d\d\.)"
    r"(?<!\b(?:de[rnms]|die|das|zum|vom)\s\d\.)(?<!\b(?:de[rnms]|die|das|zum|vom)\s\d\d\.)"
)
_SENTENCE = (
    rf"\n|(?<=[。！？])|(?<=[^\W\d][.!?]){NO_SENTENCE_END}\s+|(?<=\d[!?])\s+|(?<=[)\]…\ufffc][.!?])\s+"
    r"|(?<=\b(?:etc|usw|[ap]\.m)\.)\s+(?=(?-i:[A-ZÄÖÜÉ]))"
    rf"|(?<=\d\.){_NO_ORDINAL}\s+(?!jan|feb|mär|apr|mai|jun|jul|aug|sep|okt|nov|dez)"
)


class Dialect(NamedTuple):
    """What differs between files: the pattern for `...` and those for names in braces."""

    gap: str = ".+?"
    gap_unspaced: str = ".+?"
    named: tuple[tuple[str, str], ...] = ()


PLAIN = Dialect(
    named=(
        ("{shown}", rf"{SHOWN}+\s?"),
        ("{number}", r"\b[vq]?\d[\w./:-]*+\s*+"),
        ("{name}", r"(?<=[\w,] )(?-i:[A-Z])\w++\s*+"),
    )
)
"""`...` is any text, `{shown}` code or an address, `{number}` one in figures, `{name}` a capitalised word."""


class PhraseBook:
    """The lists of one language in one file, and their patterns."""

    def __init__(self, lists: dict[str, list[str]], dialect: Dialect) -> None:
        self.lists = lists
        self.is_spaced = "spaces" not in lists
        self._named = dict(dialect.named)
        self._gap = dialect.gap if self.is_spaced else dialect.gap_unspaced
        self._one_of: dict[str, str] = {}
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._patterns: dict[str, str] = {}
        self._needles: dict[str, list[frozenset[str]]] = {}
        self._indexes: dict[tuple[str, ...], PhraseIndex] = {}

    def one_of(self, title: str) -> str:
        """A pattern for any phrase of a list; one that matches nothing where the language has no such list."""
        if title not in self._one_of:
            self._one_of[title] = f"(?:{'|'.join(map(self.pattern, self.lists.get(title, []))) or '(?!)'})"
        return self._one_of[title]

    def compiled(self, template: str) -> re.Pattern[str]:
        """A pattern in which a title in braces matches any phrase of that list."""
        if template not in self._compiled:
            filled = re.sub(r"\{([a-z ]+)\}", lambda found: self.one_of(found[1]), template)
            self._compiled[template] = compiled(filled)
        return self._compiled[template]

    def candidates(self, titles: Iterable[str], sentence: str) -> Iterator[tuple[str, str, re.Pattern[str]]]:
        """The phrases of some lists whose words a sentence has, each with its list and its pattern."""
        key = tuple(titles)
        if key not in self._indexes:
            self._indexes[key] = PhraseIndex(self, key)
        return self._indexes[key].find(frozenset(split_words(sentence) if self.is_spaced else sentence.lower()))

    def pattern(self, phrase: str) -> str:
        """A phrase as the text of a pattern."""
        if phrase not in self._patterns:
            self._patterns[phrase] = self._translate(phrase)
        return self._patterns[phrase]

    def needles(self, phrase: str) -> list[frozenset[str]]:
        """Groups of words (of characters, without spaces): what matches the phrase has one of each group."""
        if phrase not in self._needles:
            self._needles[phrase] = self._find_needles(phrase)
        return self._needles[phrase]

    def _translate(self, phrase: str) -> str:
        pattern, closing = "", [""]
        for token in _tokens(phrase):
            if token in self._named:
                pattern += self._named[token]
            elif token in (".", ".."):
                pattern += self._few() + ("{1,4}?" if token == ".." else "")
            elif token.startswith("{"):
                pattern += self.one_of(token[1:-1])
            elif token in _OPENING:
                opened, closed = _OPENING[token]
                if token == "!(" and pattern.endswith(")?"):
                    pattern += "+"  # else what may be missing is left out to get past
                pattern += opened
                closing.append(closed)
            elif token in _CLOSING:
                pattern += closing.pop()
            elif token == "|":
                pattern += token
            elif token.startswith("<"):
                pattern += rf"(?P{token}\S.*?)\s*"
            else:
                pattern += self._gap if token == "..." else self._word(token)
        return pattern

    def _few(self) -> str:
        """A word that may be a name, or part of one."""
        if not self.is_spaced:
            return r"(?:[^，、,。：:\s]{1,3}\s?)"
        return rf"(?:(?!{self.one_of('no subject')})(?:[^\s,;:']|'(?!s\b))++\s?+)"

    def _word(self, word: str) -> str:
        pattern = re.escape(word).replace(r"\*", r"\w*")
        if self.is_spaced:
            before = r"\b" if word[0].isalnum() else ""
            after = r"\b" if word[-1].isalnum() or word[-1] == "*" else ""
            pattern = f"{before}{pattern}{after}"
        return rf"{pattern}\s*+"

    def _find_needles(self, phrase: str) -> list[frozenset[str]]:
        found: list[frozenset[str]] = []
        depth, group = 0, ""
        for token in _tokens(phrase):
            depth += (token in _OPENING) - (token in _CLOSING)
            if depth or token in _CLOSING:
                group += f" {token}"
                if not depth:
                    found += self._first_words(_choices(group)) if token == ")" and group[1] == "(" else []
                    group = ""
            elif token in self._named or "*" in token:
                continue
            elif token.startswith("{"):
                found += self._first_words(self.lists[token[1:-1]])
            elif not token.startswith("<") and (
                word := re.search(r"\w+" if self.is_spaced else r"\w", token.lower())
            ):
                found.append(frozenset([word[0]]))
        return found

    def _first_words(self, choices: list[str]) -> list[frozenset[str]]:
        """The words of which each of these phrases has one, as a group; no group where that is not sure."""
        needed = [self.needles(choice) for choice in choices]
        return [frozenset().union(*(each[0] for each in needed))] if all(needed) else []


@cache
def lexicon(file: str, language: str, dialect: Dialect = PLAIN) -> PhraseBook:
    """What a file says of one language."""
    from memsheaf.prompts import read_prompt

    section = read_prompt(file).partition(f"\n## {language}")[2].partition("\n## ")[0]
    lists: dict[str, list[str]] = {}
    for title, phrases in re.findall(r"(?m)^- ([\w ]+): (.+)$", section.replace("\n  ", " ")):
        lists.setdefault(title, []).extend(map(str.strip, phrases.split(" / ")))
    return PhraseBook(lists, dialect)


class PhraseIndex:
    """The phrases of some lists of a book, by a word that each needs."""

    def __init__(self, book: PhraseBook, titles: Iterable[str]) -> None:
        self._book = book
        self._phrases = [(title, phrase) for title in titles for phrase in book.lists.get(title, ())]
        self._by_word: dict[str, list[int]] = {}
        self._wordless = []
        for number, (_, phrase) in enumerate(self._phrases):
            groups = book.needles(phrase)
            for word in min(groups, key=len, default=()):
                self._by_word.setdefault(word, []).append(number)
            self._wordless += [] if groups else [number]

    def find(self, words: frozenset[str]) -> Iterator[tuple[str, str, re.Pattern[str]]]:
        """The phrases whose words are all there, in order, each with its list and its pattern."""
        numbers = {number for word in words if word in self._by_word for number in self._by_word[word]}
        for number in sorted(numbers.union(self._wordless)):
            title, phrase = self._phrases[number]
            if not any(map(words.isdisjoint, self._book.needles(phrase))):
                yield title, phrase, compiled(self._book.pattern(phrase))


def split_words(text: str) -> list[str]:
    """The words of a text in small letters, as phrases are looked up by them."""
    return text.translate(_LOWER).split() if text.isascii() else re.findall(r"\w+", text.lower())


_LOWER = "".join(chr(code).lower() if chr(code).isalnum() or code == 95 else " " for code in range(128))


def guess_languages(sentence: str) -> list[str]:
    """Those a sentence may be in, by its letters and its little words.

    >>> guess_languages("We use pnpm now."), guess_languages("wir nutzen das nicht mehr")
    (['English'], ['German'])
    """
    if any("\u3040" <= letter <= "\u9fff" for letter in sentence):
        return ["Chinese", "Japanese"]
    words = set(split_words(sentence))
    spaced = [name for name in LANGUAGES if name not in ("Chinese", "Japanese")]
    common = {name: len(words.intersection(lexicon("phrases", name).lists["common"])) for name in spaced}
    most = max(common.values())
    return [name for name in spaced if common[name] == most]


@cache
def sentence_border() -> re.Pattern[str]:
    """What ends a sentence, or begins another in its midst: *btw* and the like."""
    asides = "|".join(lexicon("phrases", name).one_of("aside") for name in LANGUAGES)
    aside = rf"(?<![^\s,;，、–—-])(?:{asides})[\s,:，：、–—-]*+(?!(?:so|and|but|pls|please)\b)"
    return compiled(rf"{_SENTENCE}|\ufffb+|{aside}")


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern that matches capital and small letters alike."""
    return re.compile(pattern, re.DOTALL | re.IGNORECASE)


def _tokens(phrase: str) -> list[str]:
    return compiled(_TOKEN).findall(phrase)


def _choices(group: str) -> list[str]:
    """The phrases between the bars of a group."""
    choices, depth = [""], 0
    for token in _tokens(group)[1:-1]:
        depth += (token in _OPENING) - (token in _CLOSING)
        if token == "|" and not depth:
            choices.append("")
        else:
            choices[-1] += f" {token}"
    return choices
