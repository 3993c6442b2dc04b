"""The erasure filter: whether a text says what an erased memory said."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from memsheaf.memory import Memory, parse
from memsheaf.text.similarity import SAME, coverage, words
from memsheaf.text.tokenizer import UNSPACED

ANYWHERE = 5  # words: a line that has so many is found wherever it stands
TITLE = 3  # words that a name or a description must have to say something by itself
MANY = 12  # words: so many of a fact are not together in a text by chance
MORE = 3  # words that may stand around a short fact in the sentence that says it

_SENTENCE = r"[.!?;](?=\s|$)|[。！？；]|\n\s*\n|\n(?=\s*[-*+>#|])"
_SPACED = rf"(?<=[{UNSPACED}])\s+(?=[{UNSPACED}])"
_MARKS = " \t\r\n>*_#-+`\"'“”„«».,:;!?()[]。、！？"
_LABEL = r"^\s*\*\*[^*\n]{1,40}:?\*\*:?"


def make_erasure_filter(texts: Sequence[bytes]) -> Callable[[str], bool]:
    """A predicate: whether a text may stay, when memories with these texts were erased.

    >>> keep = make_erasure_filter([b"---\\nname: Tabs\\ndescription: Indentation\\ntype: user\\n---\\nUse tabs.\\n"])
    >>> keep("Please remember: use tabs."), keep("The team will use browser tabs, and Maria owns the migration.")
    (False, True)
    """
    given = frozenset(texts)
    return lambda text: _predicate(given)(text)  # most erasures meet no text to judge


@lru_cache(maxsize=1)
def _predicate(texts: frozenset[bytes]) -> Callable[[str], bool]:
    erased = [parse("", text) for text in sorted(texts)]
    # versions of one memory have most of their lines in common
    lines = {_bare(re.sub(_LABEL, "", line)) for line in {line for one in erased for line in _lines(one)}} - {""}
    bodies = {_bare(one.body) for one in erased} - {""}
    pieces = sorted(line for line in lines if len(words(line)) >= ANYWHERE)
    alone = bodies | {line for line in lines if " " in line}
    sayings = [(frozenset(words(_even(one.body))), 2) for one in erased]
    sayings += [(frozenset(words(title)), TITLE) for one in erased for title in (one.name, one.description)]
    facts = [found for found, least in sayings if len(found) >= least]

    def keep(text: str) -> bool:
        even = _even(text)
        folded = even.casefold()
        if any(piece in folded and re.search(rf"(?<!\w){re.escape(piece)}(?!\w)", folded) for piece in pieces):
            return False
        if not alone.isdisjoint(map(_bare, [text, *text.split("\n")])):
            return False
        every = frozenset(words(even))
        likely = [one for one in facts if coverage(one, every) >= SAME]
        if not likely:
            return True
        sentences = [frozenset(words(_even(sentence))) for sentence in re.split(_SENTENCE, text)]
        return not any(len(one) >= MANY or _is_said(one, sentences) for one in likely)

    return keep


def _lines(memory: Memory) -> list[str]:
    """What a memory says line by line, without what only shapes a text: fences, headings, labels."""
    body = [line for line in memory.body.split("\n") if not line.lstrip().startswith(("```", "~~~", "#", "|--"))]
    return [*body, memory.name, memory.description]


def _is_said(one: frozenset[str], sentences: Sequence[frozenset[str]]) -> bool:
    """Whether a sentence says this and little else."""
    room = len(one) + max(MORE, len(one))
    return any(len(said) <= room and coverage(one, said) >= SAME for said in sentences)


def _even(text: str) -> str:
    """A text on one line, with single spaces, and none between the characters of a script that has none."""
    return re.sub(_SPACED, "", " ".join(text.split()))


def _bare(line: str) -> str:
    return _even(line).casefold().strip(_MARKS)
