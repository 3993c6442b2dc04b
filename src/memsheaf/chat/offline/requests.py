"""What a user asks of memory in plain words: found by rules, where no model is there to understand it.

The words are in `prompts/offline.md`, by language, and `sayings.py` reads them. A sentence that is such a phrase is a
request. Only the user's own sentences are read: what is pasted or quoted is never one. What is not
understood is no request: better nothing than something else than was asked.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date

from memsheaf.chat.offline.phrases import END, WIDE, first_words, holds, is_all, is_wide, lists, one_of, pattern
from memsheaf.learn.pasted import OTHERS, heard
from memsheaf.learn.rules import captured
from memsheaf.recall.turns import Message, Turn
from memsheaf.text.phrases import LANGUAGES, compiled, guess_languages, sentence_border
from memsheaf.text.spoken import SHOWN, spoken
from memsheaf.values import NamedTuple

CHANGES = ("remember", "update", "forget")
"""The requests after which memory is another."""

KINDS = (
    *("both", "list", "index", "undo", "forget that", "forget", "update that", "update", "remember that", "remember"),
    *("search", "know", "create", "help", "thanks", "greeting"),
)
"""The lists of requests, in the order in which they are tried."""

TYPES = ("user", "feedback", "project", "reference")
LONGEST = 400
"""How much of a sentence is read, in characters: a request stands at its beginning."""

MOST = 100
"""How many sentences of a message are read."""

BARE = 2
"""How many words a correction may have that does not say what it is about."""

_NAMED = r"(?<!\w)[`'\"“][\w./\\~-]*[\w-]\.\w{1,8}[`'\"”]"
_ASKED = r"[?？][\s!.)\"”]*$|(?:吗|么|呢|ですか|ますか|でしょうか)[。\s]*$"
_AND = r"\s*(?:,|，|、|&|\+|\b(?:and|und|et|y)\b|和|と)\s*"
_ANY_FILE = r"[\w./:-]*[\w-]\.md"
_SOME_DAY = date(2000, 1, 1)


class Wanted(NamedTuple):
    """What a message asks for.

    The `kind` is remember, know, list, index, both, search, update, forget, undo, create, help, thanks, greeting;
    "state" for something that is only said, and "other" for the rest. `subject` is what it is about and `fact` what
    is to be kept, in the user's words; both are "" where the user points at something said before. `about` is the
    type of memories that the subject stands for, or "all"; `file` a file that is named; `sort` the type that the user
    called it; `also` says that a correction goes beside what is known.
    """

    kind: str
    subject: str = ""
    fact: str = ""
    about: str = ""
    file: str = ""
    sort: str = ""
    also: bool = False
    language: str = "English"


class Sentence(NamedTuple):
    """Where a sentence stands in a message, and its request: the list, the language, and what its phrase holds."""

    start: int
    end: int
    title: str = ""
    language: str = ""
    held: tuple[tuple[str, int, int], ...] = ()
    begin: int = 0


def requested(text: str) -> tuple[Wanted, ...]:
    """What a message asks for, in the order in which it does; never nothing.

    >>> [(each.kind, each.fact) for each in requested("We use pnpm. Remember that.")]
    [('remember', 'We use pnpm.')]
    >>> [(each.kind, each.subject) for each in requested("Forget that I live in Berlin.")]
    [('forget', 'I live in Berlin')]
    >>> [each.kind for each in requested("I forgot my keys.")]
    ['other']
    """
    text = _normal(text)
    sentences = _sentences(text)
    own = heard(text)
    found = [
        _wanted(text, sentences, place)
        for place, each in enumerate(sentences)
        if each.title and own.spoken[each.start] != OTHERS and not own.piece(each.start).asked
    ]
    asked = [each for each in found if each.kind not in ("thanks", "greeting")]
    narrow = [each for each in asked if each.kind != "know" or each.subject or each.file]
    kept = list(dict.fromkeys(narrow or asked[:1] or found[:1]))
    if kept:
        return tuple(kept)
    language = spoken_in(text)[0]
    return (Wanted("state" if _is_stated(text, language) else "other", text, language=language),)


def chosen(text: str) -> tuple[str, ...]:
    """What somebody answers who was asked which: numbers, files, or yes, no, new, last, every; () for anything else.

    >>> chosen("The second, please."), chosen("both"), chosen("1 and 3"), chosen("Is it raining?")
    (('2',), ('every',), ('1', '3'), ())
    """
    text = _normal(text).strip(END)
    if len(text) > LONGEST:
        return ()
    if whole := _choice(text):
        return (whole,)
    parts = [part.strip(END) for part in re.split(_AND, text) if part.strip(END)]
    found = [(_choice(part), any(is_all("before", name, part) for name in spoken_in(part))) for part in parts]
    return tuple(each for each, _ in found if each) if all(each or courtesy for each, courtesy in found) else ()


def spoken_in(text: str) -> list[str]:
    """The languages a text may be in, the likeliest first: of few words it cannot be told."""
    names = guess_languages(text)
    if names[0] in WIDE:
        return ["Japanese" if re.search("[\u3041-\u30ff]", text) else "Chinese"]
    return list(dict.fromkeys([*names, "English", *(name for name in LANGUAGES if name not in WIDE)]))


def _is_stated(text: str, language: str) -> bool:
    """Whether a message says something that the rules may keep, with or without an *also* in it."""
    if re.search(_ASKED, text):
        return False
    alone = compiled(one_of("also", language)).sub("", text, count=1)
    found = (each for said in (text, alone) for each in captured(Turn("", (Message("user", said),)), _SOME_DAY))
    return any(not each.doubt for each in found)


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode()).replace("’", "'")


def _sentences(text: str) -> list[Sentence]:
    """The sentences of a message, each with its request if it is one."""
    shown = _shown(text)
    found: list[Sentence] = []
    start = 0
    borders = [match.span() for match in sentence_border().finditer(shown)]
    for end, following in [*borders, (len(shown), len(shown))]:
        if shown[start:end].rstrip().endswith((":", "：")) and end < len(shown):
            continue  # what was announced is below
        if re.search(r"\w", shown[start:end]) and len(found) < MOST:
            found.append(_read(shown, start + _blanks(shown[start:]), end))
        elif re.search(r"\S", shown[start:end]):
            found.append(Sentence(start, end))
        start = following
    return found


def _shown(text: str) -> str:
    """The text with all that is only shown blotted out. A file in quotation marks is meant, and stays."""
    blotted, done = spoken(text), 0
    parts: list[str] = []
    for name in re.finditer(_NAMED, text):
        parts += [blotted[done : name.start()], name[0]]
        done = name.end()
    return "".join(parts) + blotted[done:]


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip(" \t\n¿¡-*•"))


def _read(shown: str, start: int, end: int) -> Sentence:
    """A sentence, and the first request that it is."""
    asked = bool(re.search(_ASKED, shown[start:end]))
    last = start + len(shown[start:end].rstrip(END))
    cut = min(last, start + LONGEST)
    for language in spoken_in(shown[start:cut]):
        for begin in _starts(language, shown, start, cut):
            polite = shown[start:cut] if language in WIDE else shown[start:begin]
            for title in KINDS:
                if asked and title.removesuffix(" that") in CHANGES and not holds("polite", language, polite):
                    continue
                if held := _held(title, language, shown, begin, cut, is_cut=cut < last):
                    whole = tuple((name, a, b if shown[b:cut].strip() else last) for name, a, b in held[1:])
                    return Sentence(start, end, title, language, whole, begin)
    return Sentence(start, end)


def _held(
    title: str, language: str, text: str, begin: int, end: int, *, is_cut: bool
) -> tuple[tuple[str, int, int], ...]:
    """What a phrase of this list holds that is all of the sentence, behind a first item of its own; () for none."""
    for phrase in lists(language).get(title, ()):
        first = first_words(phrase, language)
        if first is not None and not text[begin : begin + 40].casefold().startswith(first):
            continue
        match = compiled(pattern(phrase, language)).fullmatch(text, begin, end)
        if match is None:
            continue
        named = [(name, *match.span(name)) for name, value in match.groupdict().items() if value]
        reaches = any(not text[stop:end].strip() for _, _, stop in named)
        if (reaches or not is_cut) and all(re.search(rf"[\w{SHOWN}]", match[name]) for name, _, _ in named):
            return (("", begin, begin), *named)
    return ()


def _starts(language: str, text: str, start: int, end: int) -> list[int]:
    """Where a request may begin: at the beginning, and behind words such as *please*."""
    starts = [start]
    words = compiled(rf"{one_of('before', language)}[\s,:，、.!¿¡-]*+")
    while len(starts) < 5 and (before := words.match(text, starts[-1], end)) and before.end() > starts[-1]:
        starts.append(before.end())
    return starts


def _wanted(text: str, sentences: list[Sentence], place: int) -> Wanted:
    """The request of one sentence, with what it points at."""
    said = sentences[place]
    language, kind = said.language, said.title.removesuffix(" that")
    held = {name: text[start:end].strip() for name, start, end in said.held}
    file = held.get("path") or held.get("file", "")
    subject, fact = _clean(held.get("subject", "")), held.get("fact", "")
    points = said.title.endswith(" that")
    if kind == "update" and is_all("it", language, subject):
        subject = ""
    if points and kind in ("remember", "update"):
        fact = _joined(text, sentences, _before(text, sentences, place))
    elif points:
        subject = _outdated(text, sentences, place, language)
    elif fact:
        fact = _whole(text, sentences, place)
    if kind == "update" and subject and len(fact.split()) <= BARE and not is_wide(language):
        fact = f"{subject}: {fact}"  # alone it would say nothing
    return Wanted(
        kind=kind,
        subject=subject,
        fact=fact.strip(" ,;:–—，；：、\n" + "-" * ("\n" not in fact)),
        about=_about(subject, language) if said.held or points or kind != "forget" else "all",
        file=file,
        sort=_sort(text, said) if kind in ("remember", "list") else "",
        also=kind == "update" and holds("also", language, fact),
        language=language,
    )


def _whole(text: str, sentences: list[Sentence], place: int) -> str:
    """The fact that a request names, and what is said of it behind its sentence."""
    said, tail = sentences[place], _tail(text, sentences[place])
    start, end = next((start, end) for name, start, end in said.held if name == "fact")
    if text[end : said.end].strip(END):
        return text[start:end]
    announced = text[said.begin : start].rstrip().endswith((":", "："))
    return _joined(text, sentences, _after(text, sentences, place, all_of_it=announced), text[start:end] + tail)


def _tail(text: str, said: Sentence) -> str:
    """The stop at the end of a sentence."""
    sentence = text[said.start : said.end].rstrip()
    stop = sentence[len(sentence.rstrip(END)) :]
    return "" if re.search("[?？]", stop) else stop


def _before(text: str, sentences: list[Sentence], place: int) -> list[int]:
    """The sentences before one, back to another request, that are no questions and no courtesies."""
    found: list[int] = []
    for at in range(place - 1, -1, -1):
        if sentences[at].title not in ("", "thanks", "greeting"):
            break
        if not sentences[at].title and not re.search(_ASKED, text[sentences[at].start : sentences[at].end]):
            found.append(at)
    return found[::-1]


def _after(text: str, sentences: list[Sentence], place: int, *, all_of_it: bool) -> list[int]:
    """The sentences behind one that belong to it: up to another request, or else to a question or a blank line."""
    found: list[int] = []
    for at in range(place + 1, len(sentences)):
        each = sentences[at]
        gap = text[sentences[at - 1].end : each.start]
        ended = re.search(_ASKED, text[each.start : each.end]) or re.search(r"\n\s*\n", gap)
        if each.title or (ended and not all_of_it):
            break
        found.append(at)
    return found


def _joined(text: str, sentences: list[Sentence], places: list[int], first: str = "") -> str:
    """Sentences as they were written, with what stands between neighbours."""
    parts, last = [first], places[0] - 1 if first and places else -1
    for at in places:
        parts.append(text[sentences[at - 1].end : sentences[at].start] if at - 1 == last >= 0 else " ")
        parts.append(text[sentences[at].start : sentences[at].end])
        last = at
    return "".join(parts).strip()


def _outdated(text: str, sentences: list[Sentence], place: int, language: str) -> str:
    """What the sentence before a request to forget is about."""
    places = _before(text, sentences, place)
    if not places:
        return ""
    last = sentences[places[-1]]
    sentence = text[last.start : last.end].strip(END)
    for phrase in lists(language)["outdated"]:
        if match := compiled(pattern(phrase, language)).fullmatch(sentence[:LONGEST]):
            return _clean(match.groupdict().get("subject", ""))
    return _clean(sentence)


def _clean(subject: str) -> str:
    return " ".join(subject[:LONGEST].split()).strip(END + ":：")


def _about(subject: str, language: str) -> str:
    kinds = ("all", "user", "project", "reference")
    return next((kind for kind in kinds if subject and is_all(f"about {kind}", language, subject)), "")


def _sort(text: str, said: Sentence) -> str:
    """The type that the words of the request name."""
    kept = next(((start, end) for name, start, end in said.held if name == "fact"), (said.end, said.end))
    request = text[said.begin : kept[0]] + " " + text[kept[1] : said.end]
    return next((kind for kind in TYPES if holds(kind, said.language, request)), "")


def _choice(text: str) -> str:
    """One answer to the question which."""
    if re.fullmatch(rf"[`'\"]?{_ANY_FILE}[`'\"]?", text):
        return text.strip("`'\"")
    numbers = {"first": "1", "second": "2", "third": "3"}
    for language in spoken_in(text):
        starts = _starts(language, text, 0, len(text))
        if picked := compiled(one_of("picked", language)).match(text, starts[-1]):
            starts.append(picked.end())
        for start in starts:
            if re.fullmatch(rf"[`'\"]?{_ANY_FILE}[`'\"]?", text[start:]):
                return text[start:].strip("`'\"")
            for title in ("first", "second", "third", "last", "every", "new", "no", "yes"):
                if text[start:] and is_all(title, language, text[start:]):
                    return numbers.get(title, title)
    number = re.fullmatch(r"[#(]?([1-9])[.):]?", text)
    return number[1] if number else ""
