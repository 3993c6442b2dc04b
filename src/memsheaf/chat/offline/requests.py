"""Requests about memory in plain words, found by the patterns of `languages.toml`.

A message is read sentence by sentence. A sentence is a request when a pattern fits all of it, in the first language
that has one; so "don't delete the memory about tea" is none. Only the user's own sentences are read: nothing that is
pasted or quoted is a request.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from memsheaf.encode.judge import judge_sentence
from memsheaf.guard.pasted import read_own_words
from memsheaf.guard.secrets import without_secrets
from memsheaf.guard.worth import ephemeral
from memsheaf.learn.sentences import as_typed, find_asked
from memsheaf.text.requests import SaveRequest
from memsheaf.text.sentences import find_sentences, is_question, lacks_subject
from memsheaf.text.spoken import SHOWN, spoken
from memsheaf.text.tokenizer import is_unspaced, is_weak, words

MAX_REQUEST_CHARS = 400  # of a sentence: a request stands at its beginning
MAX_SENTENCES = 100
COURTESIES = ("thanks", "fine", "greeting", "resume")
MAX_BARE_WORDS = 2  # of a correction that says nothing without its subject
MIN_WORTH_OF_CORRECTION = 0.15  # probability from which what follows "No," is a fact; "run the tests first" is below

FILE_NAME = r"(?:[a-z]+(?:/[a-z0-9-]+)?:)?(?:user|feedback|project|reference)_[\w.-]*\.md"
FILE = rf"[`'\"“]?(?P<file>{FILE_NAME})[`'\"”]?"
_QUOTED_FILE = r"(?<!\w)[`'\"“][\w./\\~:-]*[\w-]\.\w{1,8}[`'\"”]"
_STOPS = " \t\n.,!?。，！？;；~–—-…"
_VERBS = ("remember", "forget", "delete", "update", "search", "merke", "vergiss", "oublie", "recuerda", "olvida")


class MemoryRequest(NamedTuple):
    """A request: its `kind` is one of those in `languages.toml`, or "other": then the subject is all that was said.

    `subject` is what it is about and `fact` what is to be kept, in the user's words; both are "" where the user
    points at an earlier message. `about` is "all" or the type of memories that the subject stands for.
    """

    kind: str
    subject: str = ""
    fact: str = ""
    about: str = ""
    file: str = ""
    language: str = "English"

    @property
    def deletes_all(self) -> bool:
        """True if all memories, or all of a type, are to be deleted."""
        return self.kind == "forget" and bool(self.about)


class _Sentence(NamedTuple):
    """Where a sentence stands; if it is a request, its kind, its language and where its parts are."""

    start: int
    end: int
    kind: str = ""
    language: str = "English"
    spans: Mapping[str, tuple[int, int]] = {}


@cache
def read_languages() -> dict[str, Any]:
    """Return `languages.toml`: the patterns and replies of each language, and words of all of them."""
    return tomllib.loads(files(__package__).joinpath("languages.toml").read_text(encoding="utf-8"))


def say(name: str, language: str = "English", **values: str) -> str:
    """Return a reply with these values filled in, secrets removed.

    >>> say("already", "German", file="user_tea.md", what="Tee")
    'Das ist schon gemerkt, in user_tea.md: Tee'
    """
    replies = read_languages()[language]["replies"]
    masked = {place: without_secrets(value) for place, value in values.items()}
    return str(replies[name]).format(model=replies["model"], **masked)


def has_words(name: str, text: str, *, whole: bool = False) -> bool:
    """Return True if a text has words of this name in `languages.toml`, or with `whole` is nothing else."""
    pattern = re.compile(read_languages()["words"][name], re.IGNORECASE)
    return bool(pattern.fullmatch(text) if whole else pattern.search(text))


def find_telling_words(text: str) -> set[str]:
    """Return the words that say what a text is about: none of any talk, none that only say that it is a memory.

    >>> sorted(find_telling_words("the auth service decision is outdated"))
    ['auth', 'servic']
    """
    return {word for word in find_words(text) if not is_weak(word)}


def find_words(text: str) -> set[str]:
    """Return the words of a text but those that ask, point at the user or say that it is a memory."""
    return set(words(re.sub(read_languages()["words"]["hollow"], " ", text, flags=re.IGNORECASE)))


def find_requests(text: str) -> list[MemoryRequest]:
    """Return what a message asks for, in that order; never an empty list.

    >>> [(each.kind, each.fact) for each in find_requests("We use pnpm. Remember that.")]
    [('remember', 'We use pnpm.')]
    >>> [(each.kind, each.subject) for each in find_requests("Forget that I live in Berlin.")]
    [('forget', 'I live in Berlin')]
    """
    return read_message(text)[0]


def read_message(text: str) -> tuple[list[MemoryRequest], str]:
    """Return what a message asks for, and the rest of it, in which facts may be stated.

    >>> read_message("I use pnpm. Forget the npm token.")[1]
    'I use pnpm.'
    """
    typed = text.encode("utf-8", "replace").decode()
    text = unicodedata.normalize("NFC", typed).replace("’", "'")
    sentences = list(_split_sentences(text))
    own = read_own_words(text)
    requests = [
        _read_request(text, sentences, place, own.sign)
        for place, sentence in enumerate(sentences)
        if sentence.kind and not own.doubt(sentence.start, asked=True)
    ]
    asked = [each for each in requests if each.kind not in COURTESIES]
    used = "\n".join(f"{each.fact}\n{each.subject}" for each in asked)
    rest = typed if len(typed) == len(text) else text
    for sentence in reversed(sentences):
        if sentence.kind or text[sentence.start : sentence.end].strip(_STOPS) in used:
            rest = rest[: sentence.start] + rest[sentence.end :]
    if not asked and (rest.strip(_STOPS) or not requests):
        return [MemoryRequest("other", typed)], ""
    requests = [each._replace(fact=as_typed(each.fact, typed)) for each in asked or requests[:1]]
    return list(dict.fromkeys(requests)), rest.strip()


def correct_spelling(text: str) -> str:
    """Return a message with its first word put right where that makes it a request, else an empty string.

    >>> correct_spelling("remeber that I like tea"), correct_spelling("I like tea")
    ('remember that I like tea', '')
    """
    first, _, rest = text.strip().partition(" ")
    for verb in get_close_matches(first.lower(), _VERBS, n=1, cutoff=0.8):
        if verb[0] == first[0].lower() and find_requests(f"{verb} {rest}")[0].kind != "other":
            return f"{verb} {rest}"
    return ""


def deletes_all(text: str, before: str) -> bool:
    """Return True if a message asks to delete all memories, or agrees to that after the one before asked for it."""
    return find_requests(text)[0].deletes_all or (find_requests(before)[0].deletes_all and is_agreement(text))


def is_agreement(text: str) -> bool:
    """Return True if a whole message says yes."""
    return has_words("yes", text.strip(_STOPS), whole=True)


def choose(text: str, count: int) -> list[int]:
    """Return which of so many listed things a message chooses, as places in the list; none if it is no choice.

    >>> choose("both", 2), choose("Forget the second one please", 2), choose("1 and 3", 3), choose("the third", 2)
    ([0, 1], [1], [0, 2], [])
    """
    words = read_languages()["choices"]
    bare = " ".join(re.sub(words["around"], " ", text.strip(_STOPS).lower()).split())
    if re.fullmatch(words["all"], bare):
        return list(range(count))
    if count == 1 and (is_agreement(text) or re.fullmatch(words["only"], bare)):
        return [0]
    chosen = []
    for part in re.split(words["and"], bare):
        ordinals = enumerate([*words["ordinals"][:count], words["last"]])
        chosen += [min(place, count - 1) for place, ordinal in ordinals if re.fullmatch(ordinal, part)]
    return chosen


def _split_sentences(text: str) -> Iterator[_Sentence]:
    """Yield the sentences of a message, each with its request.

    A line that ends with a colon goes on in the next, and so does a "No." alone.
    """
    letters = list(spoken(text))
    for name in re.finditer(_QUOTED_FILE, text):
        letters[name.start() : name.end()] = name[0]
    shown = "".join(letters)
    places = list(find_sentences(shown.replace(SHOWN, "x")))  # so that what is quoted is no blank
    count = 0
    start = -1
    for number, (first, end) in enumerate(places, 1):
        start = first if start < 0 else start
        sentence = shown[start:end]
        goes_on = sentence.endswith((":", "：")) or has_words("no", sentence.strip(_STOPS), whole=True)
        if goes_on and number < len(places):
            continue
        count += 1
        first = start + len(sentence) - len(sentence.lstrip(" \t\n¿¡-*•"))
        yield _match_request(shown, first, end) if count <= MAX_SENTENCES else _Sentence(start, end)
        start = -1


def _match_request(shown: str, start: int, end: int) -> _Sentence:
    """Return a sentence with the first request that all of it is, perhaps behind words that lead up to one."""
    request = find_asked(shown[start:end]) or SaveRequest(0, end - start, points_back=True)
    first, stop = (start, end) if request.points_back else (start + request.start, start + request.end)
    is_asked = is_question(shown[start:stop])
    last = start + len(shown[start:stop].rstrip(_STOPS))
    is_eastern = is_unspaced(shown[start:last])
    for language in ("Chinese", "Japanese", "English") if is_eastern else ("English", "German", "French", "Spanish"):
        for kind, pattern in _list_patterns(language):
            match = pattern.fullmatch(shown, start, last)
            if match is None:
                continue
            spans = {name: match.span(name) for name, part in match.groupdict().items() if part}
            is_change = kind.startswith(("remember", "update", "forget", "undo"))
            # "Remember the Alamo?" is a question, and "Remember: where are bugs tracked?" is a request
            if "polite" in spans or not is_asked or not is_change or (kind == "remember" and first > start):
                return _Sentence(start, end, kind, language, spans)
    if not request.points_back and first < last:  # in a language without patterns, or behind the fact
        parts = ("fact", "polite") if stop < end else ("fact",)
        return _Sentence(start, end, "remember", spans=dict.fromkeys(parts, (first, last)))
    opening = re.compile(read_languages()["words"]["correction"], re.IGNORECASE).match(shown, start, last)
    corrected = shown[opening.end() : last] if opening and not is_asked else ""
    if not find_telling_words(corrected) or ephemeral(corrected):
        return _Sentence(start, end)
    is_fact = lacks_subject(shown[start:last]) or judge_sentence(corrected).worth >= MIN_WORTH_OF_CORRECTION
    return _Sentence(start, end, "update", spans={"fact": (start, last)}) if is_fact else _Sentence(start, end)


@cache
def _list_patterns(language: str) -> list[tuple[str, re.Pattern[str]]]:
    lead = read_languages()[language]["lead"]
    compiled = []
    for kind, patterns in read_languages()[language]["requests"].items():
        for pattern in patterns:
            whole = f"(?:{lead}){{0,4}}(?:{pattern.replace('FILE', FILE)})"
            compiled.append((kind, re.compile(whole, re.IGNORECASE | re.DOTALL)))
    return compiled


def _read_request(text: str, sentences: Sequence[_Sentence], place: int, sign: int) -> MemoryRequest:
    """Return the request of one sentence, with what it points at."""
    sentence = sentences[place]
    spans = sentence.spans
    parts = {name: text[start:end].strip() for name, (start, end) in spans.items()}
    kind, _, points = sentence.kind.partition(" ")
    before = _find_said_before(text, sentences[:place]) if points else ""
    subject = parts.get("subject") or (before if kind == "forget" and find_telling_words(before) else "")
    subject = " ".join(subject[:MAX_REQUEST_CHARS].split()).strip(f"{_STOPS}:：")
    fact = before if kind != "forget" else ""
    if "fact" in parts:
        fact = _find_whole_fact(text, sentences[place:], sign)
    if kind in ("update", "change") and "file" not in parts and has_words("work", subject):
        return MemoryRequest("other", text)
    is_bare = fact.isascii() and len(fact.split()) <= MAX_BARE_WORDS
    if kind == "update" and subject and (is_bare or lacks_subject(fact)):
        fact = text[spans["subject"][0] : spans["fact"][0]] + fact  # alone nobody would understand it
    about = next((each for each in ("all", "user", "project") if has_words(each, subject, whole=True)), "")
    return MemoryRequest(
        kind=kind,
        subject=subject,
        fact=fact.strip(),
        about="all" if "all" in parts else about,
        file=parts.get("path") or parts.get("file", ""),
        language=sentence.language,
    )


def _find_whole_fact(text: str, sentences: Sequence[_Sentence], sign: int) -> str:
    """Return the fact of the first sentence with those behind it, up to a question, a request or a paste.

    Behind "Remember:" and a line break all of it was announced, questions included.
    """
    first = sentences[0]
    start, end = first.spans["fact"]
    if text[end : first.end].strip(_STOPS) or ("polite" in first.spans and is_question(text[start : first.end])):
        return text[start:end]
    is_announced = text[first.start : start].rstrip().endswith((":", "："))
    stop = first.end
    for sentence in sentences[1:]:
        is_pasted = stop <= sign < sentence.end and "\n\n" in text[stop : sentence.start]
        is_apart = is_pasted or is_question(text[sentence.start : sentence.end])
        if sentence.kind or (is_apart and not is_announced):
            break
        stop = sentence.end
    return text[start:stop]


def _find_said_before(text: str, sentences: Sequence[_Sentence]) -> str:
    """Return the last sentences that say something, back to a question or another request."""
    start = end = 0
    for sentence in reversed(sentences):
        if not sentence.kind and not is_question(text[sentence.start : sentence.end]):
            start = sentence.start
            end = end or sentence.end
        elif end or sentence.kind not in ("", *COURTESIES):
            break
    return text[start:end].strip()
