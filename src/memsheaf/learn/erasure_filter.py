"""The erasure filter: it tells the texts that say what an erased memory said."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from memsheaf.memory import parse
from memsheaf.text.similarity import SAME, coverage, words
from memsheaf.text.tokenizer import UNSPACED

MIN_LINE_WORDS = 5  # a line that has so many is found wherever it stands
MIN_TITLE_WORDS = 3  # that a name or a description must have to say something by itself
MIN_BODY_WORDS = 2
MIN_SCATTERED_WORDS = 12  # so many words of a fact are not together in a text by chance
MAX_WORDS_AROUND = 3  # that may stand around a short fact in the sentence that says it

_SENTENCE_END = r"[.!?;](?=\s|$)|[。！？；]|\n\s*\n|\n(?=\s*[-*+>#|])"
_SPACES_BETWEEN_UNSPACED = rf"(?<=[{UNSPACED}])\s+(?=[{UNSPACED}])"
_OUTER_MARKS = " \t\r\n>*_#-+`\"'“”„«».,:;!?()[]。、！？"
_LABEL_PATTERN = r"^\s*\*\*[^*\n]{1,40}:?\*\*:?"
_SHAPE_PREFIXES = ("```", "~~~", "#", "|--")  # lines that only shape a text begin so


def make_erasure_filter(texts: Sequence[bytes]) -> Callable[[str], bool]:
    """Return a predicate: whether a text may stay, when memories with these texts were erased.

    A text goes that has one of their lines, is one of them, says a fact of theirs in a sentence, or has nearly all
    words of a long one.

    >>> keep = make_erasure_filter([b"---\\nname: Tabs\\ndescription: Indentation\\ntype: user\\n---\\nUse tabs.\\n"])
    >>> keep("Please remember: use tabs."), keep("The team will use browser tabs, and Maria owns the migration.")
    (False, True)
    """
    lines: set[str] = set()
    bodies: set[str] = set()
    facts: set[frozenset[str]] = set()
    for text in texts:
        memory = parse("", text)
        titles = memory.name, memory.description
        body = [line for line in memory.body.split("\n") if not line.lstrip().startswith(_SHAPE_PREFIXES)]
        lines |= {_bare(re.sub(_LABEL_PATTERN, "", line)) for line in (*body, *titles)}
        bodies.add(_bare(memory.body))
        sayings = [(memory.body, MIN_BODY_WORDS), *((title, MIN_TITLE_WORDS) for title in titles)]
        facts |= {fact for said, least in sayings if len(fact := frozenset(words(_even(said)))) >= least}
    long_lines = [line for line in lines if len(words(line)) >= MIN_LINE_WORDS]
    alone = (bodies | {line for line in lines if " " in line}) - {""}

    def may_stay(text: str) -> bool:
        even = _even(text)
        folded = even.casefold()
        for line in long_lines:
            if line in folded and re.search(rf"(?<!\w){re.escape(line)}(?!\w)", folded):
                return False
        if not alone.isdisjoint(map(_bare, [text, *text.split("\n")])):
            return False
        every = frozenset(words(even))
        likely = [fact for fact in facts if coverage(fact, every) >= SAME]
        sentences = [frozenset(words(_even(sentence))) for sentence in re.split(_SENTENCE_END, text)]
        for fact in likely:
            room = len(fact) + max(MAX_WORDS_AROUND, len(fact))
            if len(fact) >= MIN_SCATTERED_WORDS:
                return False
            if any(len(sentence) <= room and coverage(fact, sentence) >= SAME for sentence in sentences):
                return False
        return True

    return may_stay


def _even(text: str) -> str:
    """Return a text on one line, with single spaces, and none within a script that has none."""
    return re.sub(_SPACES_BETWEEN_UNSPACED, "", " ".join(text.split()))


def _bare(line: str) -> str:
    return _even(line).casefold().strip(_OUTER_MARKS)
