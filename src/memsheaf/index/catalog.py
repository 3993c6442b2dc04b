"""MEMORY.md: one line a memory, grouped by type, within a budget, and nothing out of reach.

The catalog stands in every system prompt, so it is small, and it is the same text as long as no memory
changed. When not all fit, pinned ones and then the most recently changed are shown, and the last line says
how many are not and where they are. Inside a group the lines are in the order of their paths, so that one
new memory changes one line.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memsheaf.guard.text import for_prompt, link_text, one_line
from memsheaf.memory import KINDS, Memory

MAX_LINES = 200
MAX_BYTES = 25_000
MAX_LINE = 200
MAX_PINNED = 150  # so that pins can never push the newest out
EMPTY = "# Memory\n\n(empty)\n"

SECTIONS = {
    "user": "User",
    "feedback": "Feedback",
    "project": "Project",
    "reference": "Reference",
    "": "Other",
}

Rank = tuple[bool, int, int, str]
"""Not pinned, minus the day, minus the time, the path: smaller comes first."""

Line = tuple[Rank, str, str, int]
"""One memory as the catalog shows it: rank, section ("" for unknown types), text, bytes with the line end."""


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of the catalog: its text, and how many memories it shows of how many there are."""

    text: str
    shown: int
    total: int


def section_of(kind: str) -> str:
    """The group a type is listed under; an unknown one is never dropped.

    >>> section_of("project"), section_of("recipe")
    ('project', '')
    """
    return kind if kind in KINDS else ""


def line_of(memory: Memory) -> str:
    """The catalog's line for a memory: `- [Name](file.md) — description`, at most 200 characters."""
    start = f"- [{link_text(memory.name, 80)}]({target(memory.path)})"
    said = memory.problem or memory.description
    room = MAX_LINE - len(start) - 3
    return f"{start} — {one_line(for_prompt(said), room)}" if said and room > 8 else start


def target(path: str) -> str:
    """A path as the target of a Markdown link."""
    return f"<{path}>" if " " in path or "(" in path or ")" in path else path


class Ranking:
    """The best-ranked lines, kept in order, so that one change costs the same however many there are."""

    def __init__(self, lines: Iterable[Line], *, complete: bool) -> None:
        self.lines = sorted(lines)
        self.complete = complete
        self._by_path = {line[0][3]: line for line in self.lines}

    def replace(self, path: str, line: Line | None) -> bool:
        """Put the line of a path in its place, or take it out; False when the best are no longer known."""
        old = self._by_path.pop(path, None)
        if old is not None:
            del self.lines[bisect_left(self.lines, old)]
        if line is not None and (self.complete or (self.lines and line < self.lines[-1])):
            insort(self.lines, line)
            self._by_path[path] = line
        # of the pins only so many are kept: the one that moves up is not among them
        return self.complete or old is None or old[0][0]


def render(
    lines: Sequence[Line],
    total: int,
    *,
    waiting: int = 0,
    max_lines: int = MAX_LINES,
    max_bytes: int = MAX_BYTES,
) -> Page:
    """Lay out the lines that fit, best first; `total` counts those there are, `waiting` the unconfirmed."""
    tail = [_unconfirmed(waiting)] if waiting else []
    shown = _fitting(lines, tail, max_lines, max_bytes) if total <= max_lines else []
    if len(shown) < total:
        # as many digits as the largest count: whatever is cut in the end, there is room to say so
        shown = _fitting(lines, [_cut(total), *tail], max_lines, max_bytes)
        tail.insert(0, _cut(total - len(shown)))
    return Page(_layout(shown, tail), len(shown), total)


def listing(entries: Sequence[tuple[str, str, str]], number: int, total: int, size: int) -> Page:
    """One page of the whole catalog, from name, path and description of each entry."""
    pages = max(1, -(-total // size))
    lines = [
        f"- [{link_text(name, 80)}]({target(path)}) — {one_line(for_prompt(said), 100)}"
        for name, path, said in entries
    ]
    text = f"# Memory, page {number} of {pages}\n\n" + ("\n".join(lines) or "(empty)") + "\n"
    return Page(text, len(lines), total)


def _fitting(lines: Iterable[Line], tail: Sequence[str], max_lines: int, max_bytes: int) -> list[Line]:
    """The first lines that fit beside the headings, the blank lines and the tail."""
    count = max_lines - 1 - 2 * len(tail)
    room = max_bytes - len("# Memory\n") - sum(len(text.encode()) + 2 for text in tail)
    shown: list[Line] = []
    sections: set[str] = set()
    pinned = 0
    for line in lines:
        (unpinned, _, _, _), section, _, size = line
        count -= 1
        room -= size
        if section not in sections:
            sections.add(section)
            count -= 2
            room -= len(SECTIONS[section]) + 5  # "\n## ", "\n"
        if not unpinned:
            pinned += 1
            if pinned > MAX_PINNED:
                count += 1
                room += size
                continue
        if count < 0 or room < 0:
            break
        shown.append(line)
    return shown


def _layout(shown: Sequence[Line], tail: Sequence[str]) -> str:
    if not shown and not tail:
        return EMPTY
    groups: dict[str, list[tuple[str, str]]] = {section: [] for section in SECTIONS}
    for (_, _, _, path), section, text, _ in shown:
        groups[section].append((path, text))
    out = ["# Memory"]
    for section, lines in groups.items():
        if lines:
            lines.sort()
            out += ["", f"## {SECTIONS[section]}"]
            out += [text for _, text in lines]
    for text in tail:
        out += ["", text]
    return "\n".join(out) + "\n"


def _cut(count: int) -> str:
    return (
        f"({_memories(count, 'more ')} not shown: memory_search finds them, memory_list lists all page by page; "
        "`memsheaf list` for people.)"
    )


def _unconfirmed(count: int) -> str:
    return f"({_memories(count, 'unconfirmed ')} waiting for a person: `memsheaf list --unconfirmed`.)"


def _memories(count: int, which: str) -> str:
    return f"{count:,} {which}memory is" if count == 1 else f"{count:,} {which}memories are"
