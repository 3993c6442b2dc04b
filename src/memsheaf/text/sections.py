"""Markdown by its headings: sections, notes under headings that stay as they are, texts below headings of ours.

Every change leaves the bytes of the rest alone. Below a heading may stand one line in italics that says what belongs
there, the guide; it is nobody's note. A heading inside a fence of code is none.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from memsheaf.errors import TextRefused, hinted
from memsheaf.frontmatter import split
from memsheaf.memory import Memory
from memsheaf.text.topics import shown_description

SECTION_TOKENS = 2_000
TOTAL_TOKENS = 12_000
TOKEN = 4  # bytes

OUR_LEVEL = 2  # of the headings that we write; above it stands the title of the file
_DEEPEST = 6

SESSION_FILE = "session.md"  # notes of a session; `blank` in its header is the digest of the template

_HEADING = r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*"
_FENCE = r"\s*(?:[-*+][ \t]+)?(`{3,}(?=[^`]*$)|~{3,})"  # a bullet may begin with one
_GUIDE = r"([_*])(?![_*\s])(?:(?!\1).)*\1"
_BULLET = r"[-*+][ \t]+"


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
        """What stands there, without empty lines around it."""
        return "\n".join(self.lines).strip()

    @property
    def guide(self) -> list[str]:
        """The line in italics that stands first below the heading, with the empty lines before it; [] without one."""
        for number, line in enumerate(self.lines):
            if line.strip():
                return list(self.lines[: number + 1]) if re.fullmatch(_GUIDE, line.strip()) else []
        return []

    @property
    def content(self) -> list[str]:
        """The lines below the guide, without empty lines around them."""
        lines = self.lines[len(self.guide) :]
        filled = [number for number, line in enumerate(lines) if line.strip()]
        return list(lines[filled[0] : filled[-1] + 1]) if filled else []

    @property
    def bullets(self) -> tuple[str, ...]:
        """Its bullets, each with the indented lines that belong to it."""
        found: list[list[str]] = []
        for line in self.lines:
            if bullet := re.match(_BULLET, line):
                found.append([line[bullet.end() :]])
            elif found and line.strip() and line[:1].isspace():
                found[-1].append(line.strip())
        return tuple("\n".join(lines).strip() for lines in found)


def sections(text: str) -> list[Section]:
    """The sections of a text, in order.

    >>> [(one.title, one.bullets) for one in sections("# Notes\\n\\n## Now\\n- ship it\\n")]
    [('Notes', ()), ('Now', ('ship it',))]
    """
    lines = text.split("\n")
    heads = [(0, 0, ""), *_headings(lines)]
    if len(heads) > 1 and heads[1][0] == 0:
        del heads[0]
    found = []
    for (start, level, title), following in zip(heads, [*heads[1:], (len(lines), 0, "")], strict=True):
        found.append(Section(title, level, start, tuple(lines[start + bool(level) : following[0]])))
    return found


def _headings(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """The number of each heading's line, from 0, its level and its title."""
    fence = ""
    for number, line in enumerate(lines):
        before, fence = fence, fence_after(line, fence)
        if before or fence:
            continue
        if line.startswith("#") and (found := re.fullmatch(_HEADING, line.removesuffix("\r"))):
            yield number, len(found[1]), found[2]


def fence_after(line: str, fence: str) -> str:
    """The mark of the block of code that is open after a line, from the one that was open before it; "" for none."""
    if not fence:
        opened = re.match(_FENCE, line)
        return opened[1] if opened else ""
    mark = line.strip()
    return "" if set(mark) == {fence[0]} and len(mark) >= len(fence) else fence


def section(text: str, title: str) -> Section | None:
    """The first section of this title, upper and lower case aside; None without one."""
    wanted = fold_title(title)
    return next((one for one in sections(text) if one.level and fold_title(one.title) == wanted), None)


def titles(text: str) -> list[str]:
    """The headings below the first level."""
    return [one.title for one in sections(text) if one.level > 1]


def fold_title(title: str) -> str:
    """A heading as it is compared: words and digits alone.

    >>> fold_title("Errors & Corrections") == fold_title("errors and corrections")
    True
    """
    return " ".join(re.findall(r"\w+", title.casefold().replace("&", " and ")))


def replace_lines(text: str, found: Section, lines: Sequence[str]) -> str:
    """The text with other lines in a section, in its own line ends; one empty line stays before the next."""
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


def count_tokens(text: str) -> int:
    """The estimated number of tokens of a text.

    >>> count_tokens("Use tabs.")
    3
    """
    return -(-len(text.encode("utf-8", "replace")) // TOKEN)


def check_template(text: str) -> str:
    """The headings and guides that notes begin with, provided that each heading can be named. Raises TextRefused."""
    body = split(text.replace("\r\n", "\n")).body.strip("\n") + "\n"
    heads = [fold_title(title) for title in titles(body)]
    if not heads:
        why = "there is no heading below the first level"
    elif "" in heads or len(set(heads)) < len(heads):
        why = "two headings are the same, or one has no words"
    elif count_tokens(body) > TOTAL_TOKENS:
        why = f"it is larger than {TOTAL_TOKENS * TOKEN:,} bytes"
    else:
        return body
    raise refused(
        f"this is no template: {why}", "A template is Markdown with headings below the first level, such as '## Log'."
    )


def find_section(body: str, name: str) -> Section:
    """The section of this title, or the only one whose title, or else a word of it, begins so. Raises TextRefused.

    >>> find_section("## Errors & Corrections\\n- one\\n## Worklog\\n", "err").bullets
    ('one',)
    """
    wanted, known = fold_title(name), {fold_title(title): title for title in titles(body)}
    begun = [one for one in known if wanted and one.startswith(wanted)]
    within = [one for one in known if wanted and f" {wanted}" in one]
    fitting = [wanted] if wanted in known else begun or within
    found = section(body, known[fitting[0]]) if len(fitting) == 1 else None
    if found is None:
        why = "several sections could be" if fitting else "there is no section"
        raise refused(
            f"{why} {name!r}; there are: {', '.join(known.values()) or 'none'}",
            "Name one of them. A heading that was removed can be put back with `memsheaf edit`.",
        )
    return found


def add_note(body: str, found: Section, text: str, *, replace: bool = False) -> str:
    """The body with one more bullet in a section, or with the text instead of what stands there.

    >>> body = "## Now\\n_What is done._\\n"
    >>> add_note(body, find_section(body, "now"), "build")
    '## Now\\n_What is done._\\n\\n- build\\n'

    Raises:
        TextRefused: there is no room left, or the headings would be others.
    """
    lines = [line.rstrip() for line in text.split("\n")] if replace else [*found.content, *bullet(text)]
    if replace and re.fullmatch(_GUIDE, lines[0].strip()) and not found.guide:
        lines[0] = f"- {lines[0]}"  # or it would be taken for a line of the template
    changed = replace_lines(body, found, [*found.guide, "", *lines])
    if _heads(body) != _heads(changed):
        raise refused(
            "headings stay as they are, and this text would change them",
            "Close a code fence that it opens, and indent lines that begin with '#'.",
        )
    _refuse_overfull(body, changed, found)
    return changed


def refused(why: str, hint: str) -> TextRefused:
    """A refusal with a hint that fits notes better than the usual one."""
    return hinted(TextRefused(why), hint)


def _heads(body: str) -> list[tuple[str, int]]:
    """The headings, and whether another could still follow: a fence that is left open would swallow it."""
    return [(one.title, one.level) for one in sections(f"{body}\n# end")]


def _refuse_overfull(body: str, changed: str, was: Section) -> None:
    """Raise TextRefused when a section, or all of them together, would grow past what they may hold."""
    now = next(one for one in sections(changed) if one.start == was.start)
    size, total = count_tokens(now.text), count_tokens(changed)
    over = ""
    if count_tokens(was.text) < size > SECTION_TOKENS:
        over = f"the section {was.title!r} would have {size:,} tokens; {SECTION_TOKENS:,} is the most"
    elif count_tokens(body) < total > TOTAL_TOKENS:
        now = max(sections(changed), key=lambda one: count_tokens(one.text))
        over = f"the notes would have {total:,} tokens; {TOTAL_TOKENS:,} is the most"
    if over:
        raise refused(over, f"Make room: `--section {now.title!r} --replace` with what still matters of it.")


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
    heads = [one for one in sections(text) if 0 < one.level <= OUR_LEVEL]
    ends = [one.start for one in heads[1:]] + [len(lines)] * bool(heads)
    return [
        Part(one.title, end, "\n".join(lines[one.start + 1 : end]).strip())
        for one, end in zip(heads, ends, strict=True)
        if one.level == OUR_LEVEL
    ]


def part(text: str, title: str) -> Part | None:
    """The first part of this very title."""
    return next((one for one in parts(text) if one.title == title), None)


def add_part(text: str, title: str, given: str) -> str:
    """The text with one more part at its end."""
    end = "\r\n" if "\r\n" in text else "\n"
    below = f"\n{lower_headings(given)}\n" if given.strip() else ""
    added = f"## {title}\n{below}".replace("\n", end)
    return f"{_close_fence(text.rstrip())}{end}{end}{added}" if text.strip() else added


def append_lines(text: str, found: Part, more: Sequence[str]) -> str:
    """The text with more lines at the end of a part, in its own line ends; nothing else is touched.

    >>> text = "## One\\n\\n- a\\n\\n## Two\\n"
    >>> append_lines(text, parts(text)[0], ["- b"])
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


def lower_headings(given: str) -> str:
    """A text that can stand in a part: no heading of it is as high as ours, and no fence of code stays open.

    >>> lower_headings("# Plan\\nfirst\\n```\\n# code")
    '### Plan\\nfirst\\n```\\n# code\\n```'
    """
    given = given.strip().replace("\r\n", "\n")
    lines = given.split("\n")
    for one in sections(given):
        if one.level:
            line = lines[one.start]
            lines[one.start] = "#" * min(one.level + OUR_LEVEL, _DEEPEST) + line[one.level :]
    return _close_fence("\n".join(lines))


def _close_fence(text: str) -> str:
    """The text without an open fence: behind it, a heading would be code."""
    fence = ""
    for line in text.split("\n"):
        fence = fence_after(line, fence)
    return f"{text}\n{fence}" if fence else text


def searched_texts(memory: Memory) -> tuple[str, str, str]:
    """The name, description and text by which a memory is found; "" for what nobody said."""
    name, description, body = memory.name, shown_description(memory), memory.body
    if not _has_template(memory):
        return name, description, body
    if is_blank(memory):
        return "", "", ""
    usual = untitled(memory.created)
    return ("" if name == usual else name, "" if description == usual else description, _noted(body, titled=False))


def shown_text(memory: Memory) -> str:
    """The text of a memory as it stands beside a message."""
    return _noted(memory.body, titled=True) if _has_template(memory) else memory.body


def is_blank(memory: Memory) -> bool:
    """Whether the text is still that of the template."""
    given = memory.page.get("blank")
    return bool(given) and given == digest(memory.body)


def digest(body: str) -> str:
    """What tells a text from another, line ends and empty lines around it aside."""
    return sha256(body.replace("\r\n", "\n").strip().encode("utf-8", "replace")).hexdigest()[:16]


def untitled(day: str) -> str:
    """The default title of a session that began on this day."""
    return f"Session of {day}"


def _has_template(memory: Memory) -> bool:
    # the name first: this is asked of every memory that is saved
    return memory.path.rpartition("/")[2] == SESSION_FILE and bool(memory.page.get("blank"))


def _noted(text: str, *, titled: bool) -> str:
    """The notes below the headings, without guides, empty sections and, unless `titled`, the headings."""
    text = text.replace("\r\n", "\n")
    lines = text.split("\n")
    pieces = []
    for one in sections(text):
        if content := one.content:
            title = lines[one.start : one.start + 1] if titled and one.level else []
            pieces.append("\n".join([*title, *content]))
    return ("\n\n" if titled else "\n").join(pieces)
