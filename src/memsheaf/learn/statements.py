"""Statements: a sentence as clauses with a subject, a verb and a value, and what it says of a change."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple

from memsheaf.text import tokenizer as indexed
from memsheaf.text.phrases import PhraseBook, compiled, guess_languages, lexicon
from memsheaf.text.similarity import words
from memsheaf.text.tokenizer import stem

SHORT = 4  # words of a name that takes the place of another

_DAYS = (
    "monday tuesday wednesday thursday friday saturday sunday january february march april june july august "
    "september october november december montag dienstag mittwoch donnerstag freitag samstag sonntag lundi mardi "
    "mercredi jeudi vendredi samedi dimanche lunes martes miercoles jueves viernes sabado domingo week month year "
    "today tomorrow montags dienstags mittwochs donnerstags freitags"
)
_COUNTED = "one two three four five six seven eight nine ten twelve zwei drei vier fünf deux trois quatre dos tres"
_JOINT = r"[;,:.]\s+|[(—，；：、]\s*|\s-+\s|\s(?:and|but|und|aber|et|mais|y|pero)\s"
_SENTENCE = r"(?<=[^\W\d][.!?])\s+|(?<=[\d`)][.!?])\s+(?=[A-Z])|(?<=[。！？])|\n+"
FOR = r"\b(?:for|für|para|pour)\s+(?!\d)(\D+?)(?=\s+(?:on|at|in|to|from|with|now|is|are)\b|[.,;]|$)"
_ADDED = rf"(?<![,:] ){FOR}"
_PIVOT = r":\s|\s(?:on|at|in|to|from|with|within|under|below|via|up|um|auf|sur|en|per)\s|(?<!\w)\d"
_MOVE = r"(?i)(?!to\b)(.+?)\s+(?:from\s.+\s)?(?:to|auf|à|a)\s+(.+)"
_PREPOSITION = r"(?i)\s*(?:\w+\s+){0,2}?(on|at|in|to|from|with|under|via|by|into|auf|bei|mit|en|sur|con|dans)\b"
_NUMBER = rf"(?<![\w.-])v?(\d[\d.,:/]*|(?:{_COUNTED.replace(' ', '|')})\b)\s*([^\W\d_]+|%)?"
_THE_USER = r"(?i)^\s*the user(?:'s\b|\s*$|(?= (?:is|has|does|was|would|can|will|never|always|\w+(?:s|ed))\b))"
_LETTER = r"(?<=\w )[A-Z]\b(?!['’])"
_WEEKDAY = "(?:周|週|星期|礼拜)[一二三四五六日天]|[月火水木金土日]曜"
MOVED = frozenset(("upgrad", "downgrad", "move", "switch", "migrat", "renam", "chang", "port", "convert"))
_ACTS = "deploy deployen desplegamo releas ship rotat listen meet expir livr review publish"


class Clause(NamedTuple):
    """What a clause says of what: stems of its subject and of its value, its verb, the sorts of its values, and how
    these are joined: *on*, *from*."""

    subject: frozenset[str]
    verb: str
    value: frozenset[str]
    sorts: frozenset[str]
    how: str = ""


class Statement(NamedTuple):
    """A sentence: all its stems, its clauses, how surely it says that something changed, and what for what.

    `change` is 1 for a word of change, 2 for a word that takes something back, 3 for a change of mind.
    """

    text: str
    stems: frozenset[str]
    clauses: tuple[Clause, ...]
    change: int
    out: str
    into: str


def sentences(body: str) -> list[str]:
    """The sentences of a text."""
    return [one for one in re.split(_SENTENCE, body.strip()) if re.search(r"\w", one)]


@lru_cache(maxsize=256)
def read_statement(text: str) -> Statement:
    """A sentence as its clauses, and what it says of a change."""
    book = lexicon("corrections", "Japanese" if re.search("[\u3040-\u30ff]", text) else guess_languages(text)[0])
    text = re.sub(r" \((?:week of )?\d{4}-\d\d(?:-\d\d)?\)", "", text)  # ours
    led = book.compiled(r"\s*(?:{lead}\s*)+").match(text)
    bare = text[led.end() :].lstrip(" ,:;-") if led and re.search(r"\w", text[led.end() :]) else text
    bare = bare.strip()
    out, into = _read_swap(book, bare.rstrip(" .!。！"))
    is_strong = (out and into) or book.compiled("{strong}").search(text)
    change = 2 if is_strong else 1 if book.compiled("{weak}").search(text) else 0
    change = 3 if book.compiled("{undone}").search(text) else change
    return Statement(bare, frozenset(stems(bare)), tuple(_read_clauses(book, bare)), change, out, into)


def _read_swap(book: PhraseBook, text: str) -> tuple[str, str]:
    """What is no longer so, and what is so instead; each "" where the sentence does not say."""
    for phrase in book.lists.get("swap", ()):
        rest = r"(?:[,;，].*)?" if phrase.endswith(">") else ".*"
        if match := compiled(book.pattern(phrase) + rest).fullmatch(text):
            named = match.groupdict()
            out = named.get("out") or ""  # before its verb it is the last piece, behind one the first
            out = re.split(_JOINT, out)[-1] if "<out> (" in phrase else out
            return _trim(book, out), _trim(book, named.get("in") or "")
    return "", ""


def _trim(book: PhraseBook, text: str) -> str:
    """A name without what stands around it; "" when it is a whole sentence."""
    text = re.split(rf"{_JOINT}|\.\s", text.strip())[0]
    text = (
        book.compiled(r"\s+(?:{weak}|{strong}|{reason}|please|for\b|in\b|on\b|at\b)(?:\s.*)?$")
        .sub("", f" {text}")
        .strip()
    )
    return text if len(text.split()) <= SHORT else ""


def _read_clauses(book: PhraseBook, text: str) -> Iterable[Clause]:
    """The clauses of a sentence; a piece without a verb belongs to the value before it, a reason to nothing."""
    said = book.compiled(r"(?<=\w)[,，]?\s+{reason}.*$|[,，]\s*{reason}.*$").sub("", text)
    verbs = book.compiled("{owns}|{verbs}")
    held: list[str] = []
    last: set[str] = set()
    for one in sentences(said) or [said]:
        begun = len(held)
        for piece in filter(str.strip, re.split(_JOINT, one)):
            if len(held) > begun and not verbs.search(piece):
                held[-1] += f"{',' if verbs.search(held[-1]) else ' :'} {piece}"
            else:
                held.append(piece)
    for piece in held:
        piece = re.sub(_THE_USER, " ", piece) if book.is_spaced else book.compiled("{weak}").sub("", piece)
        verb = verbs.search(piece)
        is_verb = bool(verb)
        if not verb or (not piece[: verb.start()].strip() and not re.search(r"\w", piece[verb.end() :])):
            verb = compiled(_PIVOT).search(piece)
        start, end = (verb.start(), verb.end() - verb[0][-1:].isdigit()) if verb else (0, 0)
        before, after = piece[:start], piece[end:]
        if verb and book.compiled("{owns}").fullmatch(verb[0].strip() + " "):
            before, after = after, before
        elif verb and stem(verb[0].strip().lower()) in MOVED and (moved := re.fullmatch(_MOVE, after)):
            before, after = f"{before} {moved[1]}", moved[2]
        elif verb and book.is_spaced:
            before += " ".join(f" {one}" for one in compiled(_ADDED).findall(after))
            after = compiled(_ADDED).sub(" ", after)
        before = book.compiled("{weak}|{strong}").sub(" ", before)
        inherits = re.match(r"(?i)\s*(?:and\s+)?(?:he|she|it|they)(?:'|\b)", piece) or (
            is_verb and not before.strip()
        )
        letters = {f"#{letter.lower()}" for letter in re.findall(_LETTER, before)}
        about = {word for word in stems(before) if word not in generic_words()} | letters
        about |= last if inherits else set()
        about |= set() if about else set(stems(verb[0] if verb else "")) & set(_ACTS.split())
        value = frozenset(stems(after) or indexed.words(book.compiled("{weak}|{strong}").sub(" ", after)))
        last = about
        joined = re.match(_PREPOSITION, after)
        how, said = joined[1].lower() if joined else "", verb[0].strip().lower() if verb and is_verb else ""
        yield Clause(frozenset(about), said, value, sorts_of(after), how)


def stems(text: str) -> list[str]:
    """The stems of the words that tell something, and all numbers."""
    found = indexed.words(re.sub(_THE_USER, " ", text))
    return [
        one for one in found if has_digit(one) or not (indexed.is_weak(one) or (len(one) == 1 and not one.isascii()))
    ]


def has_digit(word: str) -> bool:
    """Whether a word is a number or holds one."""
    return any(letter.isdigit() for letter in word)


def is_value_word(word: str) -> bool:
    """Whether it is a number or a day."""
    return has_digit(word) or word in _days()


def sorts_of(text: str) -> frozenset[str]:
    """Which sorts of values a text holds: days, times, numbers of something."""
    days = {"day"} if any(stem(word) in _days() for word in words(text)) or re.search(_WEEKDAY, text) else set()
    found = set()
    for number, unit in compiled(_NUMBER).findall(text):
        if ":" in number or unit.lower() in ("am", "pm", "uhr", "h"):
            found.add("time")
        else:
            found |= {"number", *(f"number:{word}" for word in indexed.words(unit))}
    return frozenset(days | found)


@cache
def generic_words() -> frozenset[str]:
    """Stems of nouns that tell no two things apart."""
    return frozenset(stem(word) for word in lexicon("corrections", "English").lists["generic"])


@cache
def _days() -> frozenset[str]:
    return frozenset(stem(word) for word in _DAYS.split())
