"""NOTES.md as text: its entries, the rules it must keep, and pruning. Nothing is opened here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date
from typing import NamedTuple

from memsheaf.frontmatter import BOM, split
from memsheaf.text.sections import Section, bullet, fence_after, fold_title, sections

LINES = 20
BULLETS = 3  # in a row
STALE_DAYS = 14
REVIEW = "[MANUAL REVIEW NEEDED]"

OBJECTIVE, PHASE, BLOCKERS, PENDING = HEADINGS = ("Active objective", "Phase", "Blockers and risks", "Pending")

EMPTY = "# Notes\n"
PRUNE = "`memsheaf notes prune --apply` moves what is over to the archive."
_MEANT = {fold_title(title): title for title in HEADINGS} | {
    "objective": OBJECTIVE,
    "current objective": OBJECTIVE,
    "current phase": PHASE,
    "blockers": BLOCKERS,
    "risks": BLOCKERS,
    "unresolved blockers and risks": BLOCKERS,
    "pending decision": PENDING,
}
DAY = r"(?<![0-9])[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])"
_CLOSED = r"(?<![A-Za-z])(?:DONE|SUPERSEDED|DEFERRED)(?![A-Za-z])"
_HISTORY = r"(?i)(?<![a-z])(?:iterations?|verdicts?)(?![a-z])|(?<![a-z])phase-[0-9]+-"
_BULLET = r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]+"


class Problem(NamedTuple):
    """What is not as it should be: the number of the line, 0 for the whole file; which rule, and what to do."""

    line: int
    rule: str
    what: str
    advice: str


class ArchivedEntry(NamedTuple):
    """What goes to the archive, and the heading that it stood under."""

    heading: str
    text: str


class Pruned(NamedTuple):
    """The notes without what is over: what was moved, and what a person has to decide."""

    text: str
    moved: tuple[ArchivedEntry, ...]
    review: tuple[str, ...]


class NotesEntry(NamedTuple):
    """A bullet, a paragraph or a block of code, without the mark before it; its lines are `first` up to `end`."""

    heading: str
    first: int
    end: int
    text: str

    @property
    def closed(self) -> str:
        """The word that marks it as over: DONE, SUPERSEDED or DEFERRED; "" when it is not."""
        found = re.search(_CLOSED, self.text)
        return found[0] if found else ""

    def days_closed(self, today: str) -> int | None:
        """How many days ago the last day was that it names; None where it names none."""
        ago = []
        for day in re.findall(DAY, self.text):
            with suppress(ValueError):
                ago.append((date.fromisoformat(today) - date.fromisoformat(day)).days)
        return min(ago, default=None)


def objective_of(text: str) -> str:
    """What the work is for now; "" when the notes do not say."""
    return said_below(text, OBJECTIVE)


def phase_of(text: str) -> str:
    """The phase that the work is in; "" when the notes do not say.

    >>> phase_of("# Notes\\n\\n## Phase\\n2 of 6: the parser\\n")
    '2 of 6: the parser'
    """
    return said_below(text, PHASE)


def blockers_of(text: str) -> list[str]:
    """What stands in the way or may go wrong; not what is marked as over."""
    return [one.text for one in entries_below(text, BLOCKERS) if not one.closed]


def pending_of(text: str) -> list[str]:
    """What waits to be decided; there should be one at most."""
    return [one.text for one in entries_below(text, PENDING)]


def problems(text: str, today: str, *, days: int = STALE_DAYS) -> list[Problem]:
    """What keeps notes from being short and present, in the order of the lines; [] for good ones."""
    return sorted([*_problems_of_lines(text), *_problems_of_entries(text, today, days)], key=lambda one: one.line)


def _problems_of_lines(text: str) -> Iterator[Problem]:
    if (count := length(text)) > LINES:
        yield Problem(0, "length", f"there are {count} lines; {LINES} are the most", PRUNE)
    fence = ""
    for number, line in enumerate(text.split("\n"), 1):
        if found := re.search(_HISTORY, line):
            what = f"{found[0]!r} tells the history of the work"
            yield Problem(number, "history", what, "Say where the work stands; how it went belongs to its task.")
        before, fence = fence, fence_after(line, fence)
        if fence and not before:
            yield Problem(number, "code", "there is a block of code", "Name the file that the code is in.")


def _problems_of_entries(text: str, today: str, days: int) -> Iterator[Problem]:
    pending = 0
    for part in sections(text):
        row = 0
        for number, line in enumerate(part.lines, part.start + bool(part.level) + 1):
            is_bullet = bool(re.match(_BULLET, line))
            is_between = not is_bullet and bool(line.strip()) and not line[0].isspace()
            row = 0 if is_between else row + is_bullet
            if is_bullet and row > BULLETS:
                what = f"more than {BULLETS} bullets in a row below {part.title!r}"
                yield Problem(number, "bullets", what, "Keep the most important; `memsheaf notes done` ends one.")
        for one in _entries(part):
            pending += meant(part) == PENDING
            if meant(part) == PENDING and pending > 1:
                what = "more than one thing is pending"
                yield Problem(one.first + 1, "pending", what, "`memsheaf notes done` ends one.")
            since = one.days_closed(today)
            if one.closed and since is None:
                what = f"it is {one.closed}, and does not say since when"
                yield Problem(one.first + 1, "ambiguous", what, "Put the day beside it, or take it out.")
            elif one.closed and (since or 0) > days:
                yield Problem(one.first + 1, "stale", f"it is {one.closed} for more than {days} days", PRUNE)


def pruned(text: str, today: str, *, days: int = STALE_DAYS) -> Pruned:
    """The notes with what is active: objective, phase, blockers that are not stale, one thing pending.

    All else is moved. What is closed without a day stays, and is marked once for a person to look at. To do it
    twice changes nothing more.
    """
    page = split(text.removeprefix(BOM))  # a header is not ours to move
    lines = page.body.split("\n")
    moved: list[ArchivedEntry] = []
    review: list[str] = []
    gone: set[int] = set()
    pending, is_titled = 0, False
    for part in sections(page.body):
        if not meant(part):
            is_title = part.level == 1 and not is_titled
            is_titled |= is_title
            if part.text or (part.level and not is_title):
                moved.append(ArchivedEntry(part.title, part.text))
                gone.update(range(part.start + is_title, part.start + bool(part.level) + len(trimmed(part.lines))))
            continue
        for one in _entries(part):
            is_pending, since = meant(part) == PENDING, one.days_closed(today)
            is_stale = bool(one.closed) and (since or 0) > days
            if is_stale or one.text.startswith(("```", "~~~")) or (is_pending and pending):
                moved.append(ArchivedEntry(part.title, one.text))
                gone.update(range(one.first, one.end))
                continue
            pending += is_pending
            if one.closed and since is None:
                review.append(one.text)
                if REVIEW not in one.text:
                    at = next(at for at in range(one.first, one.end) if re.search(_CLOSED, lines[at]))
                    bare = lines[at].rstrip()
                    lines[at] = f"{bare} {REVIEW}{lines[at][len(bare) :].lstrip(' ')}"
    if not gone and lines == page.body.split("\n") and length(text) <= LINES:
        return Pruned(text, (), tuple(review))
    kept: list[str] = []
    for number, line in enumerate(lines):  # with one empty line where several were
        if number not in gone and (line.strip() or (kept and kept[-1].strip())):
            kept.append(line)
    left = "\n".join([*trimmed(kept), ""]) if kept else ""
    return Pruned(page.head + (left if left or not moved else EMPTY), tuple(moved), tuple(review))


def archived(text: str, today: str, moved: Sequence[ArchivedEntry]) -> str:
    """The archive with more at its end, under the heading of the day."""
    text = (text or "# Notes, archived\n").rstrip() + "\n"
    last = re.findall(r"(?m)^## ([0-9-]+)\r?$", text)[-1:]
    lines = [] if last == [today] else ["", f"## {today}", ""]
    for one in moved:
        between = "\n" if "\n" in one.text or re.match(_BULLET, one.text) else ": "
        lines += bullet(f"{one.heading}{between}{one.text}" if one.heading else one.text)
    return text + "\n".join([*lines, ""])


def meant(part: Section) -> str:
    """Which of our headings a section's is; "" for another."""
    return _MEANT.get(fold_title(part.title), "") if part.level else ""


def said_below(text: str, title: str) -> str:
    """All that stands below one of our headings."""
    return "\n".join(one.text for one in entries_below(text, title))


def entries_below(text: str, title: str) -> list[NotesEntry]:
    """The entries below one of our headings."""
    return [one for part in sections(text) if meant(part) == title for one in _entries(part)]


def _entries(part: Section) -> list[NotesEntry]:
    """What stands below a heading: bullets with the lines that belong to them, paragraphs, blocks of code."""
    found: list[list[int]] = []
    fence, is_apart = "", True
    for at, line in enumerate(part.lines):
        before, fence = fence, fence_after(line, fence)
        begins = is_apart or bool(fence) or bool(re.match(_BULLET, line))
        if before or (line.strip() and found and (line[0].isspace() or not begins)):
            found[-1][1] = at + 1
        elif line.strip():
            found.append([at, at + 1])
        is_apart = not line.strip() or bool(before and not fence)
    begin = part.start + bool(part.level)
    entries = []
    for start, end in found:
        first, *more = (line.rstrip() for line in part.lines[start:end])
        mark = re.match(_BULLET, first)
        text = "\n".join([first[mark.end() if mark else 0 :].strip(), *more])
        entries.append(NotesEntry(part.title, begin + start, begin + end, text))
    return entries


def trimmed(lines: Sequence[str]) -> list[str]:
    """The lines without the blank ones at the end."""
    end = next((at for at in range(len(lines), 0, -1) if lines[at - 1].strip()), 0)
    return list(lines[:end])


def length(text: str) -> int:
    """How many lines there are, without the blank ones at the end."""
    return len(text.rstrip().split("\n"))
