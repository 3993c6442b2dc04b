"""Texts that somebody gave, each below a heading of ours: goals, revisions, reports.

    # Revisions

    ## Revision 2, 2026-11-15

    The text.

Its own headings are moved two levels down, so that none is taken for one of ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from memsheaf.text.headings import fence_after
from memsheaf.text.sections import sections
from memsheaf.values import NamedTuple

OURS = 2  # the level of the headings that we write; above it stands the title of the file
_DEEPEST = 6


class Part(NamedTuple):
    """A heading of ours and all that stands below it, up to the line `end`, counted from 0."""

    title: str
    end: int
    text: str


def parts(text: str) -> list[Part]:
    """The parts of a text, in order.

    >>> [(one.title, one.text) for one in parts("# Log\\n\\n## One\\n\\n### Deep\\n\\n## Two\\nend\\n")]
    [('One', '### Deep'), ('Two', 'end')]
    """
    lines = text.replace("\r\n", "\n").split("\n")
    heads = [one for one in sections(text) if 0 < one.level <= OURS]
    ends = [one.start for one in heads[1:]] + [len(lines)] * bool(heads)
    return [
        Part(one.title, end, "\n".join(lines[one.start + 1 : end]).strip())
        for one, end in zip(heads, ends, strict=True)
        if one.level == OURS
    ]


def part(text: str, title: str) -> Part | None:
    """The first part of this very title."""
    return next((one for one in parts(text) if one.title == title), None)


def with_part(text: str, title: str, given: str) -> str:
    """The text with one more part at its end."""
    end = "\r\n" if "\r\n" in text else "\n"
    below = f"\n{lowered(given)}\n" if given.strip() else ""
    added = f"## {title}\n{below}".replace("\n", end)
    return f"{_closed(text.rstrip())}{end}{end}{added}" if text.strip() else added


def with_lines(text: str, found: Part, more: Sequence[str]) -> str:
    """The text with more lines at the end of a part, in its own line ends; nothing else is touched.

    >>> text = "## One\\n\\n- a\\n\\n## Two\\n"
    >>> with_lines(text, parts(text)[0], ["- b"])
    '## One\\n\\n- a\\n- b\\n\\n## Two\\n'
    """
    carriage = "\r" if "\r\n" in text else ""
    lines = text.split("\n")
    before, after = lines[: found.end], lines[found.end :]
    while not before[-1].strip():
        before.pop()
    before[-1] = before[-1].removesuffix("\r") + carriage
    added = [line + carriage for line in ([] if found.text else [""]) + list(more)]
    return "\n".join([*before, *added, *([carriage, *after] if after else [""])])


def lowered(given: str) -> str:
    """A text that can stand in a part: no heading of it is as high as ours, and no fence of code stays open.

    >>> lowered("# Plan\\nfirst\\n```\\n# code")
    '### Plan\\nfirst\\n```\\n# code\\n```'
    """
    given = given.strip().replace("\r\n", "\n")
    lines = given.split("\n")
    for one in sections(given):
        if one.level:
            line = lines[one.start]
            lines[one.start] = "#" * min(one.level + OURS, _DEEPEST) + line[one.level :]
    return _closed("\n".join(lines))


def _closed(text: str) -> str:
    """The text without an open fence: behind it, a heading would be code."""
    fence = ""
    for line in text.split("\n"):
        fence = fence_after(line, fence)
    return f"{text}\n{fence}" if fence else text
