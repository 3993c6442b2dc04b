"""Requests to ignore memory for one turn, and to keep something off the record, in the user's own words.

The words are in `prompts/ignore.md`, by language. Here is how a message is read: what is pasted or quoted is left
out, the rest is taken sentence by sentence, and a phrase counts where a request can stand and nothing turns it
round. Nothing is kept between two calls, so the next turn is normal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from memsheaf.text.neutralize import INVISIBLE
from memsheaf.text.phrases import LANGUAGES, Dialect, PhraseBook, compiled, lexicon
from memsheaf.text.spoken import SHOWN, spoken

HEAD = TAIL = 2_000
REQUEST = 160
"""How many characters of a clause are read for a request that something is not kept."""

# No request does without one of these, so most messages cost a few substring tests, and the file is not opened.
STEMS = {
    "English": (
        "memory", "memorie", "memoris", "memoriz", "remember", "about me", "fresh context", "notes.md",
        "your notes", "my notes", "our notes", "session notes", "project notes", "task notes",
    ),
    "Chinese": (
        "记忆", "記憶", "记住", "記住", "记得", "記得", "记下", "記下", "我的了解", "关于我", "關於我", "memory",
    ),
    "Japanese": ("記憶", "メモリ", "覚えて", "について知って"),
    "German": (
        "gedachtnis", "gedaechtnis", "erinner", "gemerkt", "uber mich", "ueber mich", "dein memory", "deine memor",
    ),
    "French": ("memoire", "souven", "souvien", "memoris", "sur moi", "sais de moi", "savez de moi", "rien de moi"),
    "Spanish": (
        "memori", "recuerd", "recorda", "sobre mi", "acerca de mi", "sabes de mi", "sabe de mi", "nada de mi",
    ),
}  # fmt: skip

# The same for what is not to be kept.
UNKEPT = (
    "record", "between", "keep", "store", "save", "note", "remember", "memor", "log ", "learn ", "write", "forget",
    "confiden", "unter uns", "nicht", "speicher", "notier", "schreib", "vertraulich", "behalt", "entre no",
    "entre tu", "ne ", "garde", "no guard", "no re", "no ap", "no an", "no mem", "no lo", "extraof",
    "记", "記", "存", "私下", "悄悄", "保密", "外传", "你知我知", "之间",
    "オフレコ", "ここだけ", "ないで", "内緒", "秘密",
)  # fmt: skip

# These stand for phrases of three lists, for a quotation, and for the middle of a long message. None is a word or the
# edge of a clause. The last is ASCII, so that it does not make plain text costly.
_SURELY, _PERHAPS, _TURN, _QUOTATION, _CUT = "\ue000\ue001\ue002\ue003\0"

_ACCENTS = str.maketrans("´ʼ′", "'''")  # typed for an apostrophe; folding would make a space of the first
_APOSTROPHES = str.maketrans("‘’", "''")
_UNSEEN = rf"[\u0300-\u036f\ue000-\ue003{INVISIBLE}]"  # marks over letters, our own marks, what draws nothing
_PASTED = (
    r"(?m)^[ \t]*(?:[|$+]|\[?\d{4}-\d\d-\d\d|\[?\d\d?:\d\d"
    r"|\[?(?:user|human|assistant|system|trace|debug|info|warn|warning|error) ?[]:]).*"
)
# quotation marks around the one word for memory
_WORDS = "|".join(re.escape(stem) for stems in STEMS.values() for stem in stems if " " not in stem)
_EMPHASISED = rf"[\"'“„«「『‘]((?:{_WORDS})\w{{0,2}})[\"'“”»」』’]"
_BULLET = r"(?m)^ *(?:[-•–]|\d{1,2}[.)]) +"
_EMPHASIS = r"[*~]+|(?<!\w)_+|_+(?!\w)"
_SYMBOL = "[\u2190-\u2bff\U0001f000-\U0001faff]"
_SENTENCE = r"(?<=[!?;。])|(?<=\.)(?=\s)"
_KANA, _HAN = "[\u3041-\u30ff]", "[\u4e00-\u9fff]"
_JOINED = r"\b(?:but|and|aber|und|mais|et|pero|y)\s"
_CLAUSE = r"[\n,:;!?()\[。、—–¿¡]|\s-+\s"
_JOINT = rf"{_CLAUSE}|{{joins}}"
_LEAD = "(?:{before}){1,6}$"


def fold(text: str) -> str:
    """One spelling for what reads the same: no capitals, accents, wide letters or hidden characters."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKD", text.translate(_ACCENTS)).casefold()
    return unicodedata.normalize("NFKC", re.sub(_UNSEEN, "", text))


DIALECT = Dialect(
    gap=r"((?:[\w'-]+,?\s){0,4}?)",
    gap_unspaced=r"([^\n,.:;!?、。]{0,8}?)",
    named=(
        ("{memory}", rf"[{_SURELY}{_PERHAPS}]\s*+"),
        ("{surely}", rf"{_SURELY}\s*+"),
        ("{this turn}", rf"{_TURN}\s*+"),
    ),
    fold=fold,
)
"""How the phrases of `prompts/ignore.md` are read: what they are searched in has marks for three lists."""


def asks_to_ignore(message: str) -> bool:
    """Whether the user asks that memory be neither used nor changed in this turn.

    >>> asks_to_ignore("Ignore your memory for this one: what would you cook?")
    True
    >>> asks_to_ignore("Please don't ignore memory.")
    False
    >>> asks_to_ignore("Ignore memory leaks in this test.")
    False
    """
    text = fold(_ends(message))[: 2 * (HEAD + TAIL)]  # one ligature may unfold to a line
    spoken = [name for name, stems in STEMS.items() if any(stem in text for stem in stems)]
    return bool(spoken) and any(_asks(spoken, said, sentence) for said, sentence in _sentences(text))


def is_private(message: str) -> bool:
    """Whether the user says, as a clause of its own, that this is not to be kept.

    >>> is_private("Off the record: the salary band is 52 to 58 thousand.")
    True
    >>> is_private("Do not store it in localStorage."), is_private("The contract between us and Acme ends.")
    (False, False)
    """
    text = fold(_ends(message.replace("’", "'")))[: 2 * (HEAD + TAIL)]
    return any(stem in text for stem in UNKEPT) and any(
        _private().fullmatch(part.strip(" .")[:REQUEST])
        for _, sentence in _sentences(text)
        for clause in re.split(_CLAUSE, sentence)
        for part in (clause, *re.split(_JOINED, clause)[1:])
    )


def _ends(message: str) -> str:
    """The beginning and the end of a long message, joined so that code and quoted lines stay what they are."""
    end = len(message) - TAIL
    if end <= HEAD:
        return message
    seam = "\n```\n" if message.count("```", HEAD, end) % 2 else ""
    line = message.rfind("\n", 0, end) + 1
    if line > HEAD:
        seam += "\n" + message[line : line + 3].strip()[:1]
    return message[:HEAD] + seam + _CUT + message[end:]


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """Each sentence in the user's own words, after what was said before it in the same paragraph."""
    own = spoken(spoken(re.sub(_EMPHASISED, r"\1", text)))  # there are quotations within quotations
    own = re.sub(_PASTED, "", own.translate(_APOSTROPHES))
    for paragraph in re.split(r"\n[^\S\n]*\n", re.sub(f"{SHOWN}+", _QUOTATION, own)):
        paragraph = re.sub(_EMPHASIS, "", re.sub(_BULLET, "", paragraph))
        paragraph = re.sub(r"[^\S\n]+", " ", re.sub(_SYMBOL, ",", paragraph))
        said = ""
        for sentence in re.split(_SENTENCE, paragraph):
            yield said, sentence.strip()
            said += sentence


def _asks(spoken: list[str], said: str, sentence: str) -> bool:
    """Whether a sentence asks in one of these languages, and none of them turns it into something else.

    Related languages share words: what asks in Italian may be a Spanish question.
    """
    spoken = [name for name in spoken if any(stem in sentence for stem in STEMS[name])]
    if "Chinese" in spoken and (re.search(_KANA, sentence) or not re.search(_HAN, sentence)):
        spoken.remove("Chinese")
    languages = [lexicon("ignore", name, DIALECT) for name in spoken]
    return any(_asks_in(language, languages, said, sentence) for language in languages)


def _asks_in(language: PhraseBook, languages: list[PhraseBook], said: str, sentence: str) -> bool:
    if not language.is_spaced:
        sentence = sentence.replace(" ", "")
    for title, mark in ("memory", _SURELY), ("memory or hardware", _PERHAPS), ("this turn", _TURN):
        sentence = _replace_phrases(language.one_of(title), mark, sentence)
    for title in ("asks", "asks anywhere"):
        for found in _request(language, title).finditer(sentence):
            earlier = sentence[max(0, found.start() - 300) : found.start()]
            clause = language.compiled(_JOINT).split(earlier)[-1].lstrip()
            led = language.compiled(_LEAD).search(clause)
            misplaced = not led if clause else sentence.startswith("?", found.end())
            if (misplaced and title == "asks") or _CUT in clause:
                continue
            before = clause[: led.start()] if led else clause
            if not any(_turned(other, said, earlier, before, found) for other in languages):
                return True
    return False


def _replace_phrases(pattern: str, mark: str, sentence: str) -> str:
    """The sentence with a mark for each phrase; spaces behind one stay."""
    return compiled(pattern).sub(lambda phrase: mark + phrase[0][len(phrase[0].rstrip()) :], sentence)


def _turned(language: PhraseBook, said: str, earlier: str, before: str, found: re.Match[str]) -> bool:
    """Whether what stands around a phrase makes it a negation, a question, a report, a mention, or hardware."""

    def holds(title: str, text: str) -> bool:
        return bool(language.compiled(f"{{{title}}}").search(text))

    later = found.string[found.end() :]
    if any(holds("turned round", text) for text in (before, *filter(None, found.groups()))):
        return True
    if language.compiled("{turned round}$").search(earlier[-40:]) or holds("mentioned", earlier):
        return True
    if holds("turned round after", language.compiled(_JOINT).split(later, maxsplit=1)[0]):
        return True
    if _PERHAPS not in found[0]:
        return False
    near = earlier + found[0] + (" ".join(later.split()[:5]) if language.is_spaced else later[:12])
    return holds("hardware", near if _TURN in found.string else said + near)


@cache
def _request(language: PhraseBook, title: str) -> re.Pattern[str]:
    """What ends in dots may be followed by anything; the rest by the end of a clause or what is in `after`."""
    phrases = language.lists[title]
    opened = language.any_phrase(phrase.removesuffix("...") for phrase in phrases if phrase.endswith("..."))
    closed = language.any_phrase(phrase for phrase in phrases if not phrase.endswith("..."))
    edge = r"[.,:;!?)\]]+(?!\w)|-+\s" if language.is_spaced else r"[.,:;!?)\]。、~]"
    follows = rf"(?:(?<=\n)|(?=$|[\n—–]|{edge}|{language.one_of('after')}))"
    return compiled(f"{closed}{follows}|{opened}")


@cache
def _private() -> re.Pattern[str]:
    """A clause that says that something is not for the record."""
    said, beside = [], []
    for name in LANGUAGES:
        words = lexicon("ignore", name, DIALECT)
        for phrase in words.lists["private"]:
            said.append(words.pattern(phrase.removesuffix("...")) + ".*" * phrase.endswith("..."))
        beside.append(words.one_of("courtesy"))
    around = "|".join(beside)
    return compiled(rf"(?:{around})*+(?:{'|'.join(said)})(?:{around})*+")
