"""Where the headings of a Markdown text stand, and what somebody wrote below them.

Below a heading may stand one line in italics that says what belongs there, the guide. It is nobody's note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r"\s*(?:[-*+][ \t]+)?(`{3,}(?=[^`]*$)|~{3,})")  # a bullet may begin with one
_GUIDE = re.compile(r"([_*])(?![_*\s])(?:(?!\1).)*\1")


def headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """The number of each heading's line, from 0, its level and its title; inside a fence of code is none."""
    fence = ""
    for number, line in enumerate(lines):
        before, fence = fence, fence_after(line, fence)
        if before or fence:
            continue
        if line.startswith("#") and (found := _HEADING.fullmatch(line.removesuffix("\r"))):
            yield number, len(found[1]), found[2]


def fence_after(line: str, fence: str) -> str:
    """The mark of the block of code that is open after a line, from the one that was open before it; "" for none."""
    if not fence:
        opened = _FENCE.match(line)
        return opened[1] if opened else ""
    mark = line.strip()
    return "" if set(mark) == {fence[0]} and len(mark) >= len(fence) else fence


def guide(lines: Sequence[str]) -> list[str]:
    """The line in italics that stands first below a heading, with the blank lines before it; [] without one."""
    for number, line in enumerate(lines):
        if line.strip():
            return list(lines[: number + 1]) if _GUIDE.fullmatch(line.strip()) else []
    return []


def content(lines: Sequence[str]) -> list[str]:
    """The lines below a heading and its guide, without blank lines around them."""
    lines = lines[len(guide(lines)) :]
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return list(lines[filled[0] : filled[-1] + 1]) if filled else []


def written(text: str, *, titled: bool = True) -> str:
    """What somebody wrote below the headings: without guides, empty sections and, unless `titled`, the headings.

    >>> text = "## Now\\n_What is done._\\n\\n- build\\n\\n## Later\\n_What comes._\\n"
    >>> written(text), written(text, titled=False)
    ('## Now\\n- build', '- build')
    """
    lines = text.replace("\r\n", "\n").split("\n")
    edges = [-1, *(number for number, _, _ in headings(lines)), len(lines)]
    pieces = []
    for head, end in pairwise(edges):
        if said := content(lines[head + 1 : end]):
            title = lines[head : head + 1] if titled and head >= 0 else []
            pieces.append("\n".join([*title, *said]))
    return ("\n\n" if titled else "\n").join(pieces)
