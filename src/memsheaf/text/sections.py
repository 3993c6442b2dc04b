"""A Markdown text as sections under headings, changed without touching a byte of the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memsheaf.text.headings import headings
from memsheaf.values import NamedTuple

_BULLET = re.compile(r"[-*+][ \t]+")


class Section(NamedTuple):
    """A heading and the lines below it, up to the next heading.

    `start` is the number of its heading's line, from 0; the text before the first heading has the title "" and the
    level 0, and its lines begin at `start`.
    """

    title: str
    level: int
    start: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """What stands there, without blank lines around it."""
        return "\n".join(self.lines).strip()

    @property
    def bullets(self) -> tuple[str, ...]:
        """Its bullets, each with the indented lines that belong to it."""
        found: list[list[str]] = []
        for line in self.lines:
            if bullet := _BULLET.match(line):
                found.append([line[bullet.end() :]])
            elif found and line.strip() and line[:1].isspace():
                found[-1].append(line.strip())
        return tuple("\n".join(lines).strip() for lines in found)


def sections(text: str) -> list[Section]:
    """The sections of a text, in order; a heading inside a fence of code is none.

    >>> [(one.title, one.bullets) for one in sections("# Notes\\n\\n## Now\\n- ship it\\n")]
    [('Notes', ()), ('Now', ('ship it',))]
    """
    lines = text.split("\n")
    heads = [(0, 0, ""), *headings(lines)]
    if len(heads) > 1 and heads[1][0] == 0:
        del heads[0]
    found = []
    for (start, level, title), following in zip(heads, [*heads[1:], (len(lines), 0, "")], strict=True):
        found.append(Section(title, level, start, tuple(lines[start + bool(level) : following[0]])))
    return found


def section(text: str, title: str) -> Section | None:
    """The first section of this title, upper and lower case aside; None without one."""
    wanted = folded(title)
    return next((one for one in sections(text) if one.level and folded(one.title) == wanted), None)


def titles(text: str) -> list[str]:
    """The headings below the first level."""
    return [one.title for one in sections(text) if one.level > 1]


def folded(title: str) -> str:
    """A heading as it is compared: words and digits alone.

    >>> folded("Errors & Corrections") == folded("errors and corrections")
    True
    """
    return " ".join(re.findall(r"\w+", title.casefold().replace("&", " and ")))


def with_lines(text: str, found: Section, lines: Sequence[str]) -> str:
    """The text with other lines in a section, in its own line ends; one blank line stays before the next."""
    end = "\r" if "\r\n" in text else ""
    before = text.split("\n")
    begin = found.start + bool(found.level)
    after = before[begin + len(found.lines) :]
    changed = [line.removesuffix("\r") + end for line in lines]
    return "\n".join([*before[:begin], *changed, *([end, *after] if after else [""])])


def bullet(entry: str) -> list[str]:
    """A text as the lines of one bullet.

    >>> bullet("one\\ntwo")
    ['- one', '  two']
    """
    first, *more = [line.rstrip() for line in entry.strip().replace("\r\n", "\n").split("\n")]
    return [f"- {first}", *(f"  {line}" if line else "" for line in more)]
