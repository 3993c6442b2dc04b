"""NOTES.md: where the work on a repository stands, on one screen.

    # Notes
    ## Active objective
    ## Phase
    ## Blockers and risks
    ## Pending

Whoever begins reads it, so it says what holds now and nothing else: 20 lines at most, and no history of the work,
which belongs to the task. What is over is moved to NOTES-archive.md, never deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import NamedTuple

from memsheaf.errors import NotFound, TextRefused
from memsheaf.frontmatter import BOM, split
from memsheaf.gates import add_dates
from memsheaf.memory import clean_field
from memsheaf.open_scope import Look
from memsheaf.recall.inject import NOTES
from memsheaf.sheaf import Sheaf
from memsheaf.text.sections import (
    BULLET_MARK,
    append_bullet,
    append_section,
    entries,
    fence_after,
    fold_title,
    lower_headings,
    replace_lines,
    sections,
)

ARCHIVE_FILE = "NOTES-archive.md"
MAX_LINES = 20
MAX_BULLETS_IN_A_ROW = 3
MAX_CLOSED_DAYS = 14
REVIEW_MARK = "[MANUAL REVIEW NEEDED]"

OBJECTIVE, PHASE, BLOCKERS, PENDING = "Active objective", "Phase", "Blockers and risks", "Pending"
_MEANINGS = {
    "active objective": OBJECTIVE,
    "objective": OBJECTIVE,
    "current objective": OBJECTIVE,
    "phase": PHASE,
    "current phase": PHASE,
    "blockers and risks": BLOCKERS,
    "blockers": BLOCKERS,
    "risks": BLOCKERS,
    "unresolved blockers and risks": BLOCKERS,
    "pending": PENDING,
    "pending decision": PENDING,
}
_EMPTY_NOTES = "# Notes\n"
_PRUNE_ADVICE = "`memsheaf notes set --prune` moves what is over to the archive."
_ENTRY_RULES = {
    "pending": ("more than one thing is pending", "Write DONE and the day behind what is over."),
    "ambiguous": ("it is {}, and does not say since when", "Put the day beside it, or take it out."),
    "stale": (f"it is {{}} for more than {MAX_CLOSED_DAYS} days", _PRUNE_ADVICE),
}
_DATE = r"(?<![0-9])[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])"
_CLOSED_MARK = r"(?<![A-Za-z])(?:DONE|SUPERSEDED|DEFERRED)(?![A-Za-z])"
_HISTORY_WORD = r"(?i)(?<![a-z])(?:iterations?|verdicts?)(?![a-z])|(?<![a-z])phase-[0-9]+-"


class Problem(NamedTuple):
    """A broken rule: the number of the line, 0 for the whole file, what is wrong, and what to do."""

    line: int
    rule: str
    what: str
    advice: str


class NotesEntry(NamedTuple):
    """A bullet, a paragraph or a block of code under a heading; its lines are `first` up to `end`."""

    heading: str
    first: int
    end: int
    text: str

    @property
    def meaning(self) -> str:
        """The one of our headings that it stands under, whichever of its names that has; "" for another."""
        return _MEANINGS.get(fold_title(self.heading), "")

    @property
    def closed(self) -> str:
        """The word that marks it as over: DONE, SUPERSEDED or DEFERRED; "" when it is not."""
        mark = re.search(_CLOSED_MARK, self.text)
        return mark[0] if mark else ""

    def days_over(self, today: str) -> int | None:
        """Return how many days ago the last day was that it names; None where it names none."""
        ago = []
        for day in re.findall(_DATE, self.text):
            with suppress(ValueError):
                ago.append((date.fromisoformat(today) - date.fromisoformat(day)).days)
        return min(ago, default=None)


class Pruned(NamedTuple):
    """The notes without what is over: what was moved, and what a person has to decide."""

    text: str
    moved: list[NotesEntry]
    review: list[str]


def read_notes(sheaf: Sheaf) -> str:
    """Return the text of the notes; "" when there are none."""
    try:
        return sheaf.read(NOTES).text
    except NotFound:
        return ""


def set_notes(sheaf: Sheaf, lines: Mapping[str, str]) -> tuple[str, str]:
    """Write lines under our headings, and return the notes and the id of the commit, "" when nothing changed.

    A blocker and a risk are added, with the day; any other line takes the place of what stands there. Raises
    TextRefused when notes that are in order would not be so any more.
    """
    text = ""
    lines = {title: add_dates(clean_field(title, line), sheaf.today) for title, line in lines.items() if line}

    def plan(look: Look) -> Mapping[str, str]:
        nonlocal text
        old = text = look(NOTES) or _EMPTY_NOTES
        for title, line in lines.items():
            matches = (part for part in sections(text) if _MEANINGS.get(fold_title(part.title)) == title)
            section = next(matches, None)
            if title == BLOCKERS:
                text = append_bullet(text, section.title if section else title, f"{sheaf.today}: {line}")
            elif section:
                text = replace_lines(text, section, [line])
            else:
                text = append_section(text, title, line)
        if not problems(old, sheaf.today):
            for problem in problems(text, sheaf.today):
                raise TextRefused(f"{NOTES} would not be in order: {problem.what}", hint=problem.advice)
        return {NOTES: text} if text != old else {}

    commit = sheaf.own.change_files(plan, f"notes: {' and '.join(lines)}".lower())
    return text, commit.id if commit else ""


def archive_notes(sheaf: Sheaf) -> tuple[Pruned, str]:
    """Move to the archive what `prune` takes out of the notes, and return it with the id of the commit."""
    pruned = Pruned("", [], [])

    def plan(look: Look) -> Mapping[str, str]:
        nonlocal pruned
        old = look(NOTES) or ""
        pruned = prune(old, sheaf.today)
        files = {NOTES: pruned.text} if pruned.text != old else {}
        if pruned.moved:
            files[ARCHIVE_FILE] = archive(look(ARCHIVE_FILE) or "", sheaf.today, pruned.moved)
        return files

    commit = sheaf.own.change_files(plan, "notes: prune")
    return pruned, commit.id if commit else ""


def noted_under(text: str, title: str) -> list[str]:
    """Return the entries below one of our headings that are not marked as over.

    >>> noted_under("# Notes\\n\\n## Phase\\n2 of 6: the parser\\n", PHASE)
    ['2 of 6: the parser']
    """
    return [entry.text for entry in _entries(text) if entry.meaning == title and not entry.closed]


def problems(text: str, today: str) -> list[Problem]:
    """Return what keeps notes from being short and present, in the order of the lines; [] for good ones."""
    return sorted([*_problems_of_lines(text), *_problems_of_entries(text, today)])


def _problems_of_lines(text: str) -> Iterator[Problem]:
    if (count := _count_lines(text)) > MAX_LINES:
        yield Problem(0, "length", f"there are {count} lines; {MAX_LINES} are the most", _PRUNE_ADVICE)
    fence, row = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        if history := re.search(_HISTORY_WORD, line):
            what = f"{history[0]!r} tells the history of the work"
            yield Problem(number, "history", what, "Say where the work stands; how it went belongs to its task.")
        before, fence = fence, fence_after(line, fence)
        if fence and not before:
            yield Problem(number, "code", "there is a block of code", "Name the file that the code is in.")
        if re.match(BULLET_MARK, line):
            row += 1
        elif line[:1].strip():
            row = 0
        if row > MAX_BULLETS_IN_A_ROW and re.match(BULLET_MARK, line):
            what = f"there are more than {MAX_BULLETS_IN_A_ROW} bullets in a row"
            yield Problem(
                number, "bullets", what, "Keep the most important; Write DONE and the day behind what is over."
            )


def _problems_of_entries(text: str, today: str) -> Iterator[Problem]:
    for entry, rule in _judge(text, today):
        if rule:
            what, advice = _ENTRY_RULES[rule]
            yield Problem(entry.first + 1, rule, what.format(entry.closed), advice)


def _judge(text: str, today: str) -> Iterator[tuple[NotesEntry, str]]:
    """Yield each entry, and the rule of entries that it breaks, "" for none."""
    has_pending = False
    for entry in _entries(text):
        days = entry.days_over(today)
        rule = ""
        if entry.closed and (days or 0) > MAX_CLOSED_DAYS:
            rule = "stale"
        elif entry.meaning == PENDING and has_pending:
            rule = "pending"
        elif entry.closed and days is None:
            rule = "ambiguous"
        has_pending = has_pending or (entry.meaning == PENDING and rule != "stale")
        yield entry, rule


def prune(text: str, today: str) -> Pruned:
    """Return the notes with what is active: objective, phase, blockers that are not stale, one thing pending.

    All else is moved. What is closed without a day stays, and is marked once for a person to look at. To do it
    twice changes nothing more.
    """
    page = split(text.removeprefix(BOM))  # a header is not ours to move
    lines = page.body.split("\n")
    others = [part for part in sections(page.body) if part.level and fold_title(part.title) not in _MEANINGS]
    if others and others[0].level == 1:
        del others[0]  # the title of the file
    gone = {part.first - 1 for part in others}
    moved: list[NotesEntry] = []
    review: list[str] = []
    for entry, rule in _judge(page.body, today):
        is_code = entry.text.startswith(("```", "~~~"))
        if not entry.meaning or is_code or rule in ("pending", "stale"):
            moved.append(entry)
            gone.update(range(entry.first, entry.end))
        elif rule == "ambiguous":
            review.append(entry.text)
            if REVIEW_MARK not in entry.text:
                at = next(at for at in range(entry.first, entry.end) if re.search(_CLOSED_MARK, lines[at]))
                lines[at] = f"{lines[at].rstrip()} {REVIEW_MARK}"
    end = "\r\n" if "\r\n" in text else "\n"
    left = end.join(line.removesuffix("\r") for number, line in enumerate(lines) if number not in gone)
    if left == page.body and _count_lines(text) <= MAX_LINES:
        return Pruned(text, [], review)
    left = re.sub(rf"{end}(?:[ \t]*{end}){{2,}}", end + end, left).strip()
    return Pruned(f"{page.head}{left or _EMPTY_NOTES.strip()}{end}", moved, review)


def archive(text: str, today: str, moved: Sequence[NotesEntry]) -> str:
    """Return the archive with more at its end, under the heading of the day."""
    text = text or "# Notes, archived\n"
    if sections(text)[-1].title != today:
        text = append_section(text, today)
    for entry in moved:
        apart = "\n" if "\n" in entry.text else ": "  # a fence of code has to begin its line
        line = f"{entry.heading}{apart}{entry.text}" if entry.heading else entry.text
        text = append_bullet(text, today, lower_headings(line))
    return text


def _entries(text: str) -> list[NotesEntry]:
    return [NotesEntry(part.title, *entry) for part in sections(text) for entry in entries(part)]


def _count_lines(text: str) -> int:
    return len(text.rstrip().split("\n"))
