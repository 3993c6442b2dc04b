"""The judge: a second small transformer that reads two texts side by side and decides what to remember.

It answers four questions. Is a sentence of the user worth keeping, and as which type of memory? Is it about the
person or about the work? Does it ask to remember something? Does a new sentence take the place of an older one?
`training/judge.py` made it; it shares the word vectors of the encoder. Where it cannot run, nothing is kept in
passing and nothing is replaced, what says "I" or "my" is about the person, and a request is known by its words alone.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from memsheaf.encode import built_in
from memsheaf.errors import ModelFailed

TYPES = ("", "feedback", "user", "project", "reference")  # "" is not worth keeping
MAX_CONTEXT_CHARS = 240  # of what was said before a sentence; as in training
MAX_CHARS = 600  # of a sentence, or of an older text
MIN_PERSONAL = 0.5  # from which a sentence is about the person
USER_WEIGHT = 3.0  # "I prefer pnpm" may be of the type `user` or `feedback`, and is more useful as the first
MIN_PERSONAL_PROJECT = 0.6  # of a sentence of the type `project`, which is the project's in doubt
_TASK_ENDS = (5, 7, 10)  # five types, two scopes, three ways to stand beside an older sentence, three ways to ask
FIRST_PERSON = r"(?i)\b(?:I|me|my|mine|ich|mich|mir|mein\w*|je|moi|mon|ma|mes|yo|mi|mis)\b|我|私|僕"


class Judgement(NamedTuple):
    """The type of memory that a sentence would make, and how likely it is worth keeping and about the person.

    Then how likely it asks to remember what it says, and to remember what another sentence says.
    """

    kind: str
    worth: float
    personal: float
    asks: float = 0.0
    points: float = 0.0


class Replacement(NamedTuple):
    """How likely a new sentence makes an older one obsolete as a whole, or only a part of what that one says."""

    whole: float
    part: float

    @property
    def any(self) -> float:
        """Return how likely something in the older sentence is no longer true."""
        return self.whole + self.part


UNJUDGED_WORTH = 0.25  # without the judge: a fact of its own, but not one that is kept unasked
UNRELATED = Replacement(0.0, 0.0)


@lru_cache(maxsize=256)
def judge_sentence(text: str, before: str = "") -> Judgement:
    """Return what a sentence of the user is, read behind what was said before it.

    >>> judged = judge_sentence("Please never use tabs.")
    >>> judged.kind, judged.worth > 0.5
    ('feedback', True)
    """
    likely = _ask(before[-MAX_CONTEXT_CHARS:], text[:MAX_CHARS])
    if not likely:
        is_personal = bool(re.search(FIRST_PERSON, text))
        return Judgement("user" if is_personal else "project", UNJUDGED_WORTH, float(is_personal))
    types, personal = likely[:5], likely[5]
    types[2] *= USER_WEIGHT
    kind = TYPES[max(range(1, 5), key=types.__getitem__)]
    if kind in ("user", "project"):  # type and scope agree
        is_personal = personal >= (MIN_PERSONAL if kind == "user" else MIN_PERSONAL_PROJECT)
        kind = "user" if is_personal else "project"
    return Judgement(kind, 1 - types[0], personal, *likely[11:])


@lru_cache(maxsize=512)
def judge_replacement(old: str, new: str) -> Replacement:
    """Return how likely a new sentence takes the place of an older one.

    >>> judge_replacement("Deploys go out on Tuesdays.", "Deploys go out on Wednesdays now.").whole > 0.5
    True
    """
    likely = _ask(old[-MAX_CHARS:], new[:MAX_CHARS])
    return Replacement(likely[8], likely[9]) if likely else UNRELATED


def cosine(one: str, other: str) -> float:
    """Return how near two texts are in meaning, up to 1; 0 where the encoder cannot run."""
    encoder = built_in()
    try:
        vectors = encoder.encode([one, other]) if encoder else None
    except ModelFailed:
        return 0.0
    return 0.0 if vectors is None else float(vectors[0] @ vectors[1])


def guess_scope(text: str, kind: str = "") -> Literal["user", "project"]:
    """Return whose a memory is: the person's, known in every project, or the project's.

    The text decides, except that type `user` is always the person's, and that `project` is the project's in doubt.
    The first paragraph counts: the reason behind a rule often names the project in which it was learned.

    >>> guess_scope("Keep your answers short."), guess_scope("The staging database is wiped every Sunday.")
    ('user', 'project')
    """
    if kind == "user":
        return "user"
    rule = re.sub(r"(?s)\A\s*(?:#[^\n]*\n\s*)?|(?:\n\s*\n|\*\*(?:Why|How to apply):).*", "", text)
    personal = judge_sentence(rule).personal
    if kind == "project":
        is_personal = min(personal, judge_sentence(text).personal) >= MIN_PERSONAL_PROJECT
    else:
        is_personal = personal >= MIN_PERSONAL
    return "user" if is_personal else "project"


def _ask(before: str, text: str) -> list[float]:
    """Return the probabilities of all classes, task by task; none where the network cannot run."""
    encoder = built_in()
    if encoder is None:
        return []
    import numpy

    try:
        scores = encoder.judge.run(encoder.judge.tokenize(before, text))
    except ModelFailed:
        return []
    likely: list[float] = []
    for part in numpy.split(scores, _TASK_ENDS):
        exponents = numpy.exp(part - part.max())
        likely += (exponents / exponents.sum()).tolist()
    return likely
