"""Whether a text says what an erased memory said: then it goes, too, and nothing else does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from memsheaf.guard.duplicates import LIKE, fact, words
from memsheaf.memory import parse

LINE = 12  # characters: a shorter line is in every conversation
TITLE = 24  # and a name or a description that is shorter than this
MANY = 12  # words: so many of a fact are not together in a text by chance
MORE = 3  # words that may stand around a short fact in the sentence that says it

_SENTENCE = r"[.!?;](?=\s|$)|[\n。！？；]"


def keeping(texts: Sequence[bytes]) -> Callable[[str], bool]:
    """What tells whether a text may stay, when memories with these texts were erased.

    >>> keep = keeping([b"---\\nname: Tabs\\ndescription: Indentation\\ntype: user\\n---\\nUse tabs.\\n"])
    >>> keep("Please remember: use tabs."), keep("The team will use browser tabs, and Maria owns the migration.")
    (False, True)
    """
    erased = [parse("", text) for text in texts]
    titles = {_bare(title) for one in erased for title in (one.name, one.description)}
    pieces = {line for one in erased for line in map(_bare, one.body.split("\n")) if len(line) >= LINE}
    pieces |= {title for title in titles if len(title) >= TITLE}
    lines = {title for title in titles if LINE <= len(title) < TITLE}
    told = [frozenset(words(one.body)) for one in erased]
    facts = [body if len(body) > 1 else frozenset(fact(one)) for one, body in zip(erased, told, strict=True)]
    facts = [one for one in facts if one]

    def keep(text: str) -> bool:
        folded = text.casefold()
        if any(piece in folded for piece in pieces) or not lines.isdisjoint(map(_bare, folded.split("\n"))):
            return False
        every = frozenset(words(text))
        if not any(len(every & one) >= LIKE * len(one) for one in facts):
            return True
        said = [frozenset(words(sentence)) for sentence in re.split(_SENTENCE, text)]
        return not any(_is_said(one, every, said) for one in facts)

    return keep


def _is_said(one: frozenset[str], every: frozenset[str], sentences: Sequence[frozenset[str]]) -> bool:
    """Whether a sentence says this fact and little else, or the whole text has all of a long one."""
    enough, room = LIKE * len(one), len(one) + max(MORE, len(one))
    if len(one) >= MANY and len(every & one) >= enough:
        return True
    return any(len(said & one) >= enough and len(said) <= room for said in sentences)


def _bare(line: str) -> str:
    return line.strip().casefold().rstrip(".")
