"""What of a memory is embedded, and how meaning and words come to one number.

All that is tuned stands here, at the top.
"""

from __future__ import annotations

from math import log

from memsheaf.embed import Usual
from memsheaf.index.lexical import TEXT_WEIGHT
from memsheaf.index.vector_file import KEY
from memsheaf.memory import Memory
from memsheaf.text.sections import searched_texts
from memsheaf.values import sha256

FIRST, NEXT, MOST = 600, 800, 16
"""Characters of the text in the first passage and in each of the next, and how many passages there are at most."""

NEAR_WEIGHT = 0.25
USUAL = Usual(mean=0.1, spread=0.1)
"""For an embedder that does not say."""

ENOUGH, ENOUGH_MORE = 1.4, 0.78
"""How many spreads above the mean a memory is worth showing: if it is the only one, and how much more the more there
are, by the logarithm, since of many unrelated ones the nearest is nearer. Set so that 1 unrelated in 20 passes."""

MANY = 1_000  # from so many on, it does not grow
WORDS_BESIDE = 3.0
"""How many telling words in common make a memory worth showing whose cosine is 0; `lexical.enough` without one."""

DRAWN = 50  # so many vectors count as much as what is usual
NEAR_ENOUGH = 2.0  # spreads above the mean, for a memory that shares no word with the question
NEAREST = 50
DIGITS = 5  # what follows depends on where in the file a vector stands


def passages(memory: Memory) -> list[str]:
    """The texts that stand for a memory, one vector each; the best of them counts. [] for one that says nothing.

    >>> from memsheaf.memory import parse
    >>> header = "---\\nname: Ports\\ndescription: Which are taken\\ntype: project\\n---\\n"
    >>> passages(parse("ports.md", f"{header}8080 is the proxy.\\n".encode()))
    ['Ports. Which are taken\\n8080 is the proxy.']
    >>> long = passages(parse("ports.md", (header + "A port is taken. " * 100).encode()))
    >>> [len(text) for text in long], long[1][:20]
    ([619, 804, 309], 'Ports\\nport is taken.')
    """
    name, description, body = searched_texts(memory)
    name, rest = name[:200], body[: 2 * FIRST + MOST * NEXT].strip()
    piece, rest = _cut(rest, FIRST)
    head = f"{name}. " if name else ""
    found = [f"{head}{description[:500]}\n{piece}".strip()]
    while rest and len(found) < MOST:
        piece, rest = _cut(rest, NEXT)
        found.append(f"{name}\n{piece}".lstrip("\n"))
    return found if found[0] else []


def key_of(text: str) -> bytes:
    """What a text is found again by."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:KEY]


def drawn(count: int, mean: float, spread: float, usual: Usual = USUAL) -> Usual:
    """What so many cosines of a question say, nearer to what is usual the fewer they are.

    >>> drawn(0, 0.0, 0.0), drawn(50, 0.3, 0.2)
    (Usual(mean=0.1, spread=0.1), Usual(mean=0.2, spread=0.15))
    """
    share = count / (count + DRAWN)
    mean, spread = (share * own + (1 - share) * theirs for own, theirs in zip((mean, spread), usual, strict=True))
    return Usual(round(mean, DIGITS), max(round(spread, DIGITS), 1e-6))


def fused(text: float, near: float, usual: Usual) -> float:
    """One number for the order: how much the words say, and how far the cosine stands out among all.

    >>> fused(0.5, 0.5, Usual(mean=0.1, spread=0.1)), fused(0.0, 0.1, Usual(mean=0.1, spread=0.1))
    (2.0, 0.0)
    """
    return NEAR_WEIGHT * (near - usual.mean) / usual.spread + TEXT_WEIGHT * text


def enough(count: int, usual: Usual) -> float:
    """The cosine from which on one of so many is worth showing even if it shares no word with the question.

    >>> [round(enough(count, Usual(mean=0.07, spread=0.065)), 2) for count in (1, 10, 100, 1_000, 10_000)]
    [0.16, 0.28, 0.39, 0.51, 0.51]
    """
    least = usual.mean + usual.spread * (ENOUGH + ENOUGH_MORE * log(max(1, min(count, MANY))))
    return max(least, 1e-6)  # an embedder may say anything


def fit(common: float, near: float, enough: float) -> float:
    """Whether a memory has to do with a question at all: 1 and more is worth showing.

    >>> fit(0.0, 0.4, enough=0.4), fit(1.5, 0.2, enough=0.4), fit(3.0, -0.1, enough=0.4)
    (1.0, 1.0, 1.0)
    """
    return max(near, 0.0) / enough + common / WORDS_BESIDE


def _cut(text: str, size: int) -> tuple[str, str]:
    """The beginning of a text, up to a paragraph or a blank, and the rest."""
    if len(text) <= size:
        return text, ""
    end = text.rfind("\n\n", size // 2, size)
    if end < 0:
        end = max(text.rfind(blank, size // 2, size) for blank in " \n\t")
    end = end if end > 0 else size
    return text[:end].rstrip(), text[end:].lstrip()
