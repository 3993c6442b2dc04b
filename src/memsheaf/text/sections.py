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

BULLET_MARK = r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+"
_HEADING_LINE = r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*\r?"
_FENCE_OPENING = r"\s*(?:[-*+][ \t]+)?(`{3,}(?=[^`]*$)|~{3,})"  # a bullet may begin with one
_GUIDE_LINE = r"([_*])(?![_*\s])(?:(?!\1).)*\1"


class Section(NamedTuple):
    """A heading and the lines below it. The text before the first heading has the title "" and the level 0."""

    title: str
    level: int
    first: int  # the number of the first line below the heading, from 0
    lines: list[str]

    @property
    def text(self) -> str:
        """Return the lines as one text, without empty lines around it."""
        return "\n".join(self.lines).strip()

    @property
    def guide(self) -> list[str]:
        """Return the line in italics that stands first, with the empty lines before it; [] without one."""
        for number, line in enumerate(self.lines):
            if line.strip():
                is_guide = re.fullmatch(_GUIDE_LINE, line.strip())
                return self.lines[: number + 1] if is_guide else []
        return []


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
        heading = None if is_code else re.fullmatch(_HEADING_LINE, line)
        if heading and len(heading[1]) <= depth:
            parts.append(Section(heading[2], len(heading[1]), number + 1, []))
        else:
            parts[-1].lines.append(line)
    return parts if parts[0].lines else parts[1:]


def fence_after(line: str, fence: str) -> str:
    """Return the mark of the block of code that is open after a line, given the one before it; "" for none."""
    if not fence:
        opening = re.match(_FENCE_OPENING, line)
        return opening[1] if opening else ""
    mark = line.strip()
    is_closed = set(mark) == {fence[0]} and len(mark) >= len(fence)
    return "" if is_closed else fence


def find_section(text: str, title: str, depth: int = 6) -> Section | None:
    """Return the first section of this title, upper and lower case aside."""
    wanted = fold_title(title)
    for section in sections(text, depth):
        if section.level and fold_title(section.title) == wanted:
            return section
    return None


def fold_title(title: str) -> str:
    """Return a heading as it is compared: words and digits alone.

    >>> fold_title("Errors & Corrections") == fold_title("errors and corrections")
    True
    """
    return " ".join(re.findall(r"\w+", title.casefold().replace("&", " and ")))


def entries(section: Section) -> list[Entry]:
    """Return the entries of a section; a bullet has the indented lines below it."""
    found: list[Entry] = []
    is_apart = True
    was_code = False
    for number, (line, is_code) in enumerate(_mark_code("\n".join(section.lines)), section.first):
        line = line.rstrip()
        goes_on = is_code and was_code
        if line and found and not goes_on:
            is_new = is_apart or is_code != was_code or re.match(BULLET_MARK, line)
            goes_on = line[0].isspace() or not is_new
        if goes_on:
            entry = found[-1]
            more = "\n" * (number - entry.end) + "\n" + line.removeprefix("  ")
            found[-1] = Entry(entry.first, number + 1, entry.text + more)
        elif line:
            found.append(Entry(number, number + 1, re.sub(f"^{BULLET_MARK}", "", line)))
        is_apart = not line
        was_code = is_code
    return [entry._replace(text=entry.text.strip()) for entry in found]


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
    all_lines = text.split("\n")
    before = all_lines[: section.first]
    after = all_lines[section.first + len(section.lines) :]
    changed = [line.removesuffix("\r") + end for line in lines]
    if after:
        changed.append(end)
    return "\n".join([*before, *changed, *(after or [""])])


def append_bullet(text: str, title: str, entry: str, depth: int = 6) -> str:
    """Return the text with one more bullet at the end of the section of this title; made when it is not there.

    >>> append_bullet("## One\\n- a\\n\\n## Two\\n", "One", "b")
    '## One\\n- a\\n- b\\n\\n## Two\\n'
    """
    section = find_section(text, title, depth)
    if section is None:
        return append_section(text, title, "\n".join(bullet(entry)))
    lines = trim(section.lines)
    if lines and not lines[-1][:1].isspace() and not re.match(BULLET_MARK, lines[-1]):
        lines.append("")
    return replace_lines(text, section, [*lines, *bullet(entry)])


def append_section(text: str, title: str, below: str = "") -> str:
    """Return the text with one more section at its end."""
    end = "\r\n" if "\r\n" in text else "\n"
    before = [text.rstrip(), ""] if text.strip() else []
    return end.join([*before, f"## {title}", *below.split("\n")]).rstrip() + end


def trim(lines: Sequence[str]) -> list[str]:
    """Return the lines without the blank ones at the end."""
    rest = list(lines)
    while rest and not rest[-1].strip():
        rest.pop()
    return rest


def lower_headings(text: str) -> str:
    """Return a text that can stand below a heading of ours: its headings two levels deeper, its last fence closed.

    >>> lower_headings("# Plan\\nfirst\\n```\\n# code")
    '### Plan\\nfirst\\n```\\n# code\\n```'
    """
    lines = []
    fence = ""
    for line in text.strip().replace("\r\n", "\n").split("\n"):
        is_code = fence
        fence = fence_after(line, fence)
        if not is_code and not fence and re.fullmatch(_HEADING_LINE, line):
            line = f"##{line}"
        lines.append(line)
    if fence:
        lines.append(fence)
    return "\n".join(lines)


def _mark_code(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and True if it belongs to a block of code."""
    fence = ""
    for line in text.split("\n"):
        is_inside = fence != ""
        fence = fence_after(line, fence)
        yield line, is_inside or fence != ""


def count_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text.

    >>> count_tokens("Use tabs.")
    3
    """
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def searched_texts(memory: Memory) -> tuple[str, str, str]:
    """Return the name, description and text by which a memory is found; "" for what nobody said."""
    name = memory.name
    description = shown_description(memory)
    if not _has_template(memory):
        return name, description, memory.body
    if is_blank(memory):
        return "", "", ""
    default = untitled(memory.created)
    return (
        name.replace(default, ""),
        description.replace(default, ""),
        _filled_sections(memory.body, with_titles=False),
    )


def shown_text(memory: Memory) -> str:
    """Return the text of a memory as it stands beside a message."""
    if _has_template(memory):
        return _filled_sections(memory.body, with_titles=True)
    return memory.body


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


def _filled_sections(body: str, *, with_titles: bool) -> str:
    """Return what stands below the headings, without guides and empty sections."""
    pieces = []
    for part in sections(body.replace("\r\n", "\n")):
        piece = "\n".join(part.lines[len(part.guide) :]).strip()
        if piece and with_titles and part.level:
            piece = f"{'#' * part.level} {part.title}\n{piece}"
        if piece:
            pieces.append(piece)
    return "\n\n".join(pieces)
