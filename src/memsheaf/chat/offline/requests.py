"""Memory requests in plain words, found by the phrases of `prompts/offline.md` where no model is there to understand.

Only the user's own sentences are read: what is pasted or quoted is never a request. What is not understood is none:
better nothing than something else than was asked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from difflib import get_close_matches
from typing import NamedTuple

from memsheaf.learn.pasted import read_own_words
from memsheaf.learn.rules import as_typed, find_stated_facts
from memsheaf.recall.turns import Message, Turn
from memsheaf.text import phrases
from memsheaf.text.neutralize import visible
from memsheaf.text.phrases import LANGUAGES, Dialect, PhraseBook, compiled, guess_languages, sentence_border
from memsheaf.text.spoken import SHOWN, spoken
from memsheaf.text.summary import find_requested

KINDS = (
    *("both", "list", "index", "undo", "forget that", "forget", "update that", "update", "remember that", "remember"),
    *("search", "know", "create", "help", "thanks", "greeting"),
)
"""The lists of requests, in the order in which they are tried."""

CHANGES = ("remember", "update", "forget")
TYPES = ("user", "feedback", "project", "reference")
WIDE = ("Chinese", "Japanese")  # the languages that are written without spaces
LONGEST = 400  # characters of a sentence that are read: a request stands at its beginning
END = " \t.,!?。，！？;；~–—-…"  # what may end a sentence
_MOST_SENTENCES = 100
_BARE = 2  # words of a correction that does not say what it is about
_ASKED = r"[?？][\s!.)\"”]*$|(?:吗|么|呢|ですか|ますか|でしょうか)[。\s]*$"
_QUOTED_NAME = r"(?<!\w)[`'\"“][\w./\\~-]*[\w-]\.\w{1,8}[`'\"”]"
_FILE = r"(?:[a-z]+(?:/[a-z0-9-]+)?:)?(?:user|feedback|project|reference)_[\w.-]*\.md"
_DIALECT = Dialect(
    gap=".*?",
    gap_unspaced=".*?",
    named=(
        ("{file}", rf"[`'\"“]?(?P<file>{_FILE})[`'\"”]?\s?+"),
        ("{path}", r"[`'\"“]?(?P<path>[\w./\\~-]*[\w-]\.[A-Za-z0-9]{1,8})(?![A-Za-z0-9_])[`'\"”]?\s?+"),
    ),
)


class MemoryRequest(NamedTuple):
    """What a message asks for.

    The `kind` is one of `KINDS`, "state" for something that is only said, or "other". `subject` is what it is about
    and `fact` what is to be kept, in the user's words; both are "" where the user points at something said before.
    `about` is the type of memories that the subject stands for, or "all"; `file` a file that is named; `type` the one
    that the user called it; with `also`, a correction goes beside what is known.
    """

    kind: str
    subject: str = ""
    fact: str = ""
    about: str = ""
    file: str = ""
    type: str = ""
    also: bool = False
    language: str = "English"


class _Sentence(NamedTuple):
    """Where a sentence stands; and if it is a request, which, where it begins, and where the parts of it are."""

    start: int
    end: int
    title: str = ""
    language: str = ""
    begin: int = 0
    held: Mapping[str, tuple[int, int]] = {}


def find_requests(text: str) -> list[MemoryRequest]:
    """What a message asks for, in the order in which it does; never nothing.

    >>> [(each.kind, each.fact) for each in find_requests("We use pnpm. Remember that.")]
    [('remember', 'We use pnpm.')]
    >>> [(each.kind, each.subject) for each in find_requests("Forget that I live in Berlin.")]
    [('forget', 'I live in Berlin')]
    """
    typed = text.encode("utf-8", "replace").decode()
    text = unicodedata.normalize("NFC", typed).replace("’", "'")
    sentences = list(_sentences(text))
    own = read_own_words(visible(text))
    is_hiding = len(visible(text)) < len(text)  # the reply to a request to remember says so; no other is read
    found = [
        _request(text, sentences, place, own.sign)
        for place, each in enumerate(sentences)
        if each.title and not own.doubt(each.start, asked=True) and (each.title == "remember" or not is_hiding)
    ]
    found = [each._replace(fact=as_typed(each.fact, typed)) for each in found]
    asked = [each for each in found if each.kind not in ("thanks", "greeting")]
    narrow = [each for each in asked if each.kind != "know" or each.subject or each.file]
    if chosen := list(dict.fromkeys(narrow or asked[:1] or found[:1])):
        return chosen
    language = likely_languages(text)[0]
    return [MemoryRequest("state" if _is_statement(text, language) else "other", typed, language=language)]


def likely_languages(text: str) -> list[str]:
    """The languages a text may be in, the likeliest first: of few words it cannot be told."""
    names = guess_languages(text)
    if names[0] in WIDE:
        return ["Japanese" if re.search("[\u3041-\u30ff]", text) else "Chinese"]
    return list(dict.fromkeys([*names, "English", *(name for name in LANGUAGES if name not in WIDE)]))


def lexicon(language: str) -> PhraseBook:
    """The lists of `prompts/offline.md` in one language."""
    return phrases.lexicon("offline", language, _DIALECT)


def list_pattern(name: str, language: str) -> re.Pattern[str]:
    """A pattern for any phrase of a list; one that fits nothing where there is no such list."""
    return compiled(lexicon(language).one_of(name))


def is_agreement(text: str, language: str) -> bool:
    """Whether a whole message says yes."""
    return bool(list_pattern("yes", language).fullmatch(text.strip(END)))


def wants_all(wanted: MemoryRequest) -> bool:
    """Whether all memories, or all of a type, are to be deleted."""
    is_named = wanted.file or wanted.kind != "forget"
    is_all = wanted.about or list_pattern("everything", wanted.language).fullmatch(wanted.subject)
    return not is_named and bool(is_all)


def deletes_all(text: str, before: str) -> bool:
    """Whether a message asks to delete all memories, or agrees to that after the one before asked for it."""
    asked = find_meant_requests(before)[0][0]
    return wants_all(find_meant_requests(text)[0][0]) or (wants_all(asked) and is_agreement(text, asked.language))


def find_meant_requests(text: str) -> tuple[list[MemoryRequest], str]:
    """What a message asks for; if that is nothing, what it would without a misspelt word, and how it then reads."""
    found = find_requests(text)
    meant = corrected(text) if found[0].kind in ("state", "other") else ""
    return (find_requests(meant), meant) if meant else (found, "")


def corrected(text: str) -> str:
    """A message with a misspelt word put right where that makes it a request; "" where it does not.

    >>> corrected("remeber that I like tea"), corrected("I like tea")
    ('remember that I like tea', '')
    """
    language = likely_languages(text)[0]
    if language in WIDE:
        return ""
    lists = lexicon(language).lists
    names = ("keep", "drop", "mend", *KINDS)
    known = {word for name in names for line in lists.get(name, ()) for word in re.findall(r"[^\W\d_]{5,}", line)}
    for word in re.findall(r"[^\W\d_]{5,}", " ".join(text.split()[:4])):
        for close in get_close_matches(word.lower(), known, 3, 0.8) if word.lower() not in known else ():
            said = text.replace(word, close, 1)
            if find_requests(said)[0].kind not in ("state", "other"):
                return said
    return ""


def is_question(text: str) -> bool:
    """Whether a text ends as a question does."""
    return bool(re.search(_ASKED, text[-LONGEST:]))


def _sentences(text: str) -> Iterator[_Sentence]:
    """The sentences of a message, each with its request if it is one. Files in quotation marks are read, too."""
    letters = list(spoken(text))
    for name in re.finditer(_QUOTED_NAME, text):
        letters[name.start() : name.end()] = name[0]
    shown = "".join(letters)
    start = count = 0
    for end, following in [*(each.span() for each in sentence_border().finditer(shown)), (len(shown), len(shown))]:
        sentence = shown[start:end]
        if sentence.rstrip().endswith((":", "：")) and end < len(shown):
            continue  # what was announced is below
        if sentence.strip():
            count += 1
            first = start + len(sentence) - len(sentence.lstrip(" \t\n¿¡-*•"))
            is_read = count <= _MOST_SENTENCES and re.search(r"\w", sentence)
            yield _read(shown, first, end) if is_read else _Sentence(start, end)
        start = following


def _read(shown: str, start: int, end: int) -> _Sentence:
    """A sentence, and the first request that it is."""
    first, stop = (start + place for place in find_requested(shown[start:end]))
    is_asked = is_question(shown[start:stop])
    last = start + len(shown[start:stop].rstrip(END))
    cut = min(last, start + LONGEST)
    for language in likely_languages(shown[start:cut]):
        for begin in _starts(language, shown, start, cut):
            polite = list_pattern("polite", language).search(shown[start : cut if language in WIDE else begin])
            titles = [
                title for title in KINDS if polite or not is_asked or title.removesuffix(" that") not in CHANGES
            ]
            for title, _, pattern in lexicon(language).candidates(titles, shown[begin:cut]):
                if match := pattern.fullmatch(shown, begin, cut):
                    held = {name: match.span(name) for name, value in match.groupdict().items() if value}
                    reaching = [name for name, span in held.items() if not shown[span[1] : cut].strip()]
                    is_whole = cut == last or reaching  # what was cut off belongs to the part that reaches there
                    if is_whole and all(re.search(rf"[\w{SHOWN}]", match[name]) for name in held):
                        held |= {name: (held[name][0], last) for name in reaching}
                        return _Sentence(start, end, title, language, begin, held)
    if first > start and not is_asked:  # in a language without phrases
        return _Sentence(start, end, "remember", "English", start, {"fact": (first, last)})
    return _Sentence(start, end)


def _starts(language: str, text: str, start: int, end: int) -> list[int]:
    """Where a request may begin: at the beginning, and behind words such as *please*."""
    starts = [start]
    words = compiled(rf"{lexicon(language).one_of('before')}[\s,:，、.!¿¡-]*+")
    while len(starts) < 5 and (before := words.match(text, starts[-1], end)) and before.end() > starts[-1]:
        starts.append(before.end())
    return starts


def _request(text: str, sentences: Sequence[_Sentence], place: int, sign: int) -> MemoryRequest:
    """The request of one sentence, with what it points at."""
    said = sentences[place]
    language, kind = said.language, said.title.removesuffix(" that")
    held = {name: text[start:end].strip() for name, (start, end) in said.held.items()}
    subject, fact = _clean(held.get("subject", "")), held.get("fact", "")
    if said.title in ("remember that", "update that"):
        fact = _said_before(text, sentences, place)
    elif said.title == "forget that":
        subject = _outdated(text, sentences, place)
    elif fact:
        fact = _whole_fact(text, sentences, place, sign)
    if kind == "update" and subject and len(fact.split()) <= _BARE and language not in WIDE:
        fact = f"{subject}: {fact}"  # alone it would say nothing
    kinds = ("all", "user", "project", "reference")
    about = next((each for each in kinds if list_pattern(f"about {each}", language).fullmatch(subject)), "")
    return MemoryRequest(
        kind=kind,
        subject=subject,
        fact=fact.strip(),
        about=_everything(text, said) if said.title == "forget" and not held else about,
        file=held.get("path") or held.get("file", ""),
        type=_type(text, said) if kind in ("remember", "list") else "",
        also=kind == "update" and bool(list_pattern("also", language).search(fact)),
        language=language,
    )


def _everything(text: str, said: _Sentence) -> str:
    is_user = list_pattern("everything user", said.language).search(text[said.begin : said.end])
    return "user" if is_user else "all"


def _type(text: str, said: _Sentence) -> str:
    """The type that the words of a request name, apart from those of the fact."""
    start, end = said.held.get("fact", (said.end, said.end))
    words = f"{text[said.begin : start]} {text[end : said.end]}"
    return next((kind for kind in TYPES if list_pattern(kind, said.language).search(words)), "")


def _whole_fact(text: str, sentences: Sequence[_Sentence], place: int, sign: int) -> str:
    """The fact that a request names, and what is said of it behind its sentence: all of it where it was announced."""
    said = sentences[place]
    start, end = said.held["fact"]
    if request := find_requested(text[said.begin : end])[0]:
        start = said.begin + request
    if text[end : said.end].strip(END) or is_question(text[start : said.end]):
        return text[start:end]
    is_announced = text[said.begin : start].rstrip().endswith((":", "："))
    stop = said.end
    for each in sentences[place + 1 :]:
        is_pasted = stop <= sign < each.end and "\n\n" in text[stop : each.start]
        is_apart = is_pasted or is_question(text[each.start : each.end])
        if each.title or (is_apart and not is_announced):
            break
        stop = each.end
    return text[start:stop]


def _said_before(text: str, sentences: Sequence[_Sentence], place: int, most: int = _MOST_SENTENCES) -> str:
    """The sentences before one that say something: back to a question or another request."""

    def says_something(at: int) -> bool:
        return not sentences[at].title and not is_question(text[sentences[at].start : sentences[at].end])

    while place and not says_something(place - 1) and sentences[place - 1].title in ("", "thanks", "greeting"):
        place -= 1
    first = place
    while first and place - first < most and says_something(first - 1):
        first -= 1
    return text[sentences[first].start : sentences[place - 1].end].strip() if first < place else ""


def _outdated(text: str, sentences: Sequence[_Sentence], place: int) -> str:
    """What the sentence before a request to forget is about."""
    sentence = _said_before(text, sentences, place, most=1).strip(END)[:LONGEST]
    for _, _, pattern in lexicon(sentences[place].language).candidates(["outdated"], sentence):
        if match := pattern.fullmatch(sentence):
            return _clean(match.groupdict().get("subject", ""))
    return _clean(sentence)


def _clean(subject: str) -> str:
    return " ".join(subject[:LONGEST].split()).strip(END + ":：")


def _is_statement(text: str, language: str) -> bool:
    """Whether a message says something that the rules may keep, with or without an *also* in it."""
    if is_question(text):
        return False
    alone = list_pattern("also", language).sub("", text, count=1)
    turns = (Turn("", (Message("user", said),)) for said in dict.fromkeys((text, alone)))
    return any(not each.doubt for turn in turns for each in find_stated_facts(turn, date(2000, 1, 1)))
