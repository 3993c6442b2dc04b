"""Markdown by its headings: the sections of a text, the entries in them, and edits that leave all other bytes alone.

A heading inside a fence of code is none. Below a heading may stand one line in italics that says what belongs there,
the guide; it is nobody's note.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from memsheaf.memory import Memory
from memsheaf.text.sentences import shown_description

BYTES_PER_TOKEN = 4
SESSION_FILE = "session.md"  # notes of a session; `blank` in its header is the digest of the template

BULLET = r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+"
_HEADING = r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*\r?"
_FENCE = r"\s*(?:[-*+][ \t]+)?(`{3,}(?=[^`]*$)|~{3,})"  # a bullet may begin with one
_GUIDE = r"([_*])(?![_*\s])(?:(?!\1).)*\1"


class Section(NamedTuple):
    """A heading and the lines below it. The text before the first heading has the title "" and the level 0."""

    title: str
    level: int
    first: int  # the number of the first line below the heading, from 0
    lines: list[str]

    @property
    def text(self) -> str:
        """The lines as one text, without empty lines around it."""
        return "\n".join(self.lines).strip()

    @property
    def guide(self) -> list[str]:
        """The line in italics that stands first, with the empty lines before it; [] without one."""
        first = next((number for number, line in enumerate(self.lines) if line.strip()), 0)
        is_guide = self.lines and re.fullmatch(_GUIDE, self.lines[first].strip())
        return self.lines[: first + 1] if is_guide else []


class Entry(NamedTuple):
    """A bullet without its mark, a paragraph, or a block of code; its lines are `first` up to `end`."""

    first: int
    end: int
    text: str


def sections(text: str, depth: int = 6) -> list[Section]:
    """Return the sections of a text, in order; headings deeper than `depth` do not begin one.

    >>> [(section.title, section.text) for section in sections("# Notes\\n\\n## Now\\n- ship it\\n")]
    [('Notes', ''), ('Now', '- ship it')]
    """
    parts = [Section("", 0, 0, [])]
    for number, (line, is_code) in enumerate(_mark_code(text)):
        heading = None if is_code else re.fullmatch(_HEADING, line)
        if heading and len(heading[1]) <= depth:
            parts.append(Section(heading[2], len(heading[1]), number + 1, []))
        else:
            parts[-1].lines.append(line)
    return parts if parts[0].lines else parts[1:]


def fence_after(line: str, fence: str) -> str:
    """Return the mark of the block of code that is open after a line, given the one before it; "" for none."""
    if not fence:
        opened = re.match(_FENCE, line)
        return opened[1] if opened else ""
    mark = line.strip()
    return "" if set(mark) == {fence[0]} and len(mark) >= len(fence) else fence


def find_section(text: str, title: str, depth: int = 6) -> Section | None:
    """Return the first section of this title, upper and lower case aside."""
    wanted = fold_title(title)
    return next((part for part in sections(text, depth) if part.level and fold_title(part.title) == wanted), None)


def fold_title(title: str) -> str:
    """Return a heading as it is compared: words and digits alone.

    >>> fold_title("Errors & Corrections") == fold_title("errors and corrections")
    True
    """
    return " ".join(re.findall(r"\w+", title.casefold().replace("&", " and ")))


def entries(section: Section) -> list[Entry]:
    """Return the entries of a section; a bullet has the indented lines below it."""
    starts: list[int] = []
    ends: list[int] = []
    is_apart, was_code = True, False
    for number, (line, is_code) in enumerate(_mark_code("\n".join(section.lines))):
        is_new = is_apart or is_code != was_code or bool(re.match(BULLET, line))
        if (is_code and was_code) or (line.strip() and starts and (line[0].isspace() or not is_new)):
            ends[-1] = number + 1
        elif line.strip():
            starts.append(number)
            ends.append(number + 1)
        is_apart, was_code = not line.strip(), is_code
    result = []
    for start, end in zip(starts, ends, strict=True):
        first, *more = [line.rstrip() for line in section.lines[start:end]]
        text = "\n".join([re.sub(f"^{BULLET}", "", first), *(line.removeprefix("  ") for line in more)])
        result.append(Entry(section.first + start, section.first + end, text.strip()))
    return result


def bullet(entry: str) -> list[str]:
    """Return a text as the lines of one bullet.

    >>> bullet("one\\ntwo")
    ['- one', '  two']
    """
    first, *more = [line.rstrip() for line in entry.strip().replace("\r\n", "\n").split("\n")]
    return [f"- {first}", *(f"  {line}" if line else "" for line in more)]


def replace_lines(text: str, section: Section, lines: Sequence[str]) -> str:
    """Return the text with other lines in a section, in its own line ends; one empty line stays before the next."""
    end = "\r" if "\r\n" in text else ""
    before = text.split("\n")
    after = before[section.first + len(section.lines) :]
    changed = [line.removesuffix("\r") + end for line in lines]
    return "\n".join([*before[: section.first], *changed, *([end, *after] if after else [""])])


def append_bullet(text: str, title: str, entry: str, depth: int = 6) -> str:
    """Return the text with one more bullet at the end of the section of this title; made when it is not there.

    >>> append_bullet("## One\\n- a\\n\\n## Two\\n", "One", "b")
    '## One\\n- a\\n- b\\n\\n## Two\\n'
    """
    section = find_section(text, title, depth)
    if section is None:
        return append_section(text, title, "\n".join(bullet(entry)))
    lines = trim(section.lines)
    is_list = not lines or lines[-1][:1].isspace() or re.match(BULLET, lines[-1])
    return replace_lines(text, section, [*lines, *([] if is_list else [""]), *bullet(entry)])


def append_section(text: str, title: str, below: str = "") -> str:
    """Return the text with one more section at its end."""
    end = "\r\n" if "\r\n" in text else "\n"
    before = [text.rstrip(), ""] if text.strip() else []
    return end.join([*before, f"## {title}", *below.split("\n")]).rstrip() + end


def trim(lines: Sequence[str]) -> list[str]:
    """Return the lines without the blank ones at the end."""
    end = next((number for number in range(len(lines), 0, -1) if lines[number - 1].strip()), 0)
    return list(lines[:end])


def lower_headings(text: str) -> str:
    """Return a text that can stand below a heading of ours: its headings two levels deeper, its last fence closed.

    >>> lower_headings("# Plan\\nfirst\\n```\\n# code")
    '### Plan\\nfirst\\n```\\n# code\\n```'
    """
    lines, fence = [], ""
    for line, is_code in _mark_code(text.strip().replace("\r\n", "\n")):
        is_heading = not is_code and re.fullmatch(_HEADING, line)
        lines.append(f"##{line}" if is_heading else line)
        fence = fence_after(line, fence)
    return "\n".join([*lines, fence] if fence else lines)


def _mark_code(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and True if it belongs to a block of code."""
    fence = ""
    for line in text.split("\n"):
        before, fence = fence, fence_after(line, fence)
        yield line, bool(before or fence)


def count_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text.

    >>> count_tokens("Use tabs.")
    3
    """
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def searched_texts(memory: Memory) -> tuple[str, str, str]:
    """Return the name, description and text by which a memory is found; "" for what nobody said."""
    name, description = memory.name, shown_description(memory)
    if not _has_template(memory):
        return name, description, memory.body
    if is_blank(memory):
        return "", "", ""
    usual = untitled(memory.created)
    return name.replace(usual, ""), description.replace(usual, ""), _noted(memory.body, with_titles=False)


def shown_text(memory: Memory) -> str:
    """Return the text of a memory as it stands beside a message."""
    return _noted(memory.body, with_titles=True) if _has_template(memory) else memory.body


def is_blank(memory: Memory) -> bool:
    """Return True if the text is still that of the template."""
    return memory.page.get("blank") == digest(memory.body)


def digest(body: str) -> str:
    """Return a hash of a text, line ends and empty lines around it aside."""
    return sha256(body.replace("\r\n", "\n").strip().encode("utf-8", "replace")).hexdigest()[:16]


def untitled(day: str) -> str:
    """Return the default title of a session that began on this day."""
    return f"Session of {day}"


def _has_template(memory: Memory) -> bool:
    # the name first: this is asked of every memory that is saved
    return memory.path.rpartition("/")[2] == SESSION_FILE and bool(memory.page.get("blank"))


def _noted(body: str, *, with_titles: bool) -> str:
    """Return what stands below the headings, without guides and empty sections."""
    pieces = []
    for part in sections(body.replace("\r\n", "\n")):
        lines = "\n".join(part.lines[len(part.guide) :]).strip()
        title = f"{'#' * part.level} {part.title}\n" if with_titles and part.level else ""
        if lines:
            pieces.append(title + lines)
    return "\n\n".join(pieces)
