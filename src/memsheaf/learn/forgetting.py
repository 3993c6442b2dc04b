"""Whether a text says what an erased memory said: then it goes, too, and nothing else does."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from memsheaf.memory import Memory, parse
from memsheaf.text.similarity import LIKE, words

ANYWHERE = 5  # words: a line that has so many is found wherever it stands
TITLE = 3  # words that a name or a description must have to say something by itself
MANY = 12  # words: so many of a fact are not together in a text by chance
MORE = 3  # words that may stand around a short fact in the sentence that says it

_SENTENCE = r"[.!?;](?=\s|$)|[。！？；]|\n\s*\n|\n(?=\s*[-*+>#|])"
_SPACED = r"(?<=[\u3040-\u30ff\u3400-\u9fff])\s+(?=[\u3040-\u30ff\u3400-\u9fff])"
_MARKS = " \t\r\n>*_#-+`\"'“”„«».,:;!?()[]。、！？"
_LABEL = r"^\s*\*\*[^*\n]{1,40}:?\*\*:?"


def keeping(texts: Sequence[bytes]) -> Callable[[str], bool]:
    """What tells whether a text may stay, when memories with these texts were erased.

    >>> keep = keeping([b"---\\nname: Tabs\\ndescription: Indentation\\ntype: user\\n---\\nUse tabs.\\n"])
    >>> keep("Please remember: use tabs."), keep("The team will use browser tabs, and Maria owns the migration.")
    (False, True)
    """
    given = frozenset(texts)
    return lambda text: _judge(given)(text)  # most erasures meet no text to judge


@lru_cache(maxsize=1)
def _judge(texts: frozenset[bytes]) -> Callable[[str], bool]:
    erased = [parse("", text) for text in sorted(texts)]
    # versions of one memory have most of their lines in common
    lines = {_bare(re.sub(_LABEL, "", line)) for line in {line for one in erased for line in _lines(one)}} - {""}
    pieces = {line for line in lines if len(words(line)) >= ANYWHERE}
    anywhere = re.compile("|".join(rf"(?<!\w){re.escape(piece)}(?!\w)" for piece in sorted(pieces)) or "(?!)")
    told = [frozenset(words(_even(one.body))) for one in erased]
    told += [frozenset(words(title)) for one in erased for title in (one.name, one.description)]
    bodies = {_bare(one.body) for one in erased} - {""}
    facts = [one for number, one in enumerate(told) if len(one) >= (2 if number < len(erased) else TITLE)]
    may_say = _screening([*facts, *(frozenset(words(line)) for line in lines | bodies)])

    def keep(text: str) -> bool:
        if not may_say(text):
            return True
        even = _even(text)
        if anywhere.search(even.casefold()):
            return False
        whole = {_bare(line) for line in [text, *text.split("\n")]}
        if not whole.isdisjoint(bodies) or not whole.isdisjoint(line for line in lines if " " in line):
            return False
        every = frozenset(words(even))
        if not any(len(every & one) >= LIKE * len(one) for one in facts):
            return True
        said = [frozenset(words(_even(sentence))) for sentence in re.split(_SENTENCE, text)]
        return not any(_is_said(one, every, said) for one in facts)

    return keep


def _screening(sayings: Iterable[frozenset[str]]) -> Callable[[str], bool]:
    """What tells quickly that a text says none of these, because it lacks too many of the words; most texts do."""
    plain = {one: sorted((word for word in one if word.isascii()), key=len, reverse=True) for one in sayings}

    def may_say(text: str) -> bool:
        if not text.isascii():
            text = unicodedata.normalize("NFKC", text).replace("’", "")
        text = text.casefold().replace("'", "")
        return any(_has_most(text, telling, len(one)) for one, telling in plain.items())

    return may_say


def _has_most(text: str, telling: Sequence[str], count: int) -> bool:
    """Whether a text has enough of so many words, if it has all those that are not among the telling ones."""
    left = count
    for word in telling:
        if word not in text:
            left -= 1
            if left < LIKE * count:
                return False
    return True


def _lines(memory: Memory) -> list[str]:
    """What a memory says line by line, without what only shapes a text: fences, headings, labels."""
    body = [line for line in memory.body.split("\n") if not line.lstrip().startswith(("```", "~~~", "#", "|--"))]
    return [*body, memory.name, memory.description]


def _is_said(one: frozenset[str], every: frozenset[str], sentences: Sequence[frozenset[str]]) -> bool:
    """Whether a sentence says this and little else, or the whole text has all of a long one."""
    enough, room = LIKE * len(one), len(one) + max(MORE, len(one))
    if len(one) >= MANY and len(every & one) >= enough:
        return True
    return any(len(said & one) >= enough and len(said) <= room for said in sentences)


def _even(text: str) -> str:
    """A text on one line, with single blanks, and none between the characters of a script that has none."""
    return re.sub(_SPACED, "", " ".join(text.split()))


def _bare(line: str) -> str:
    return _even(line).casefold().strip(_MARKS)
