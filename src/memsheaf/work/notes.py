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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import NamedTuple

from memsheaf.errors import NotFound, Refused, TextRefused, hinted
from memsheaf.frontmatter import BOM, split
from memsheaf.gates import add_dates
from memsheaf.memory import clean_field
from memsheaf.open_scope import Look, Plan
from memsheaf.recall.inject import NOTES
from memsheaf.sheaf import Sheaf
from memsheaf.text.sections import (
    BULLET_MARK,
    Section,
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
MAX_ENTRY_BYTES = 300
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
_PRUNE_ADVICE = "`memsheaf notes prune --apply` moves what is over to the archive."
_ENTRY_RULES = {
    "pending": ("more than one thing is pending", "`memsheaf notes done` ends one."),
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


class Notes:
    """The notes of a repository, changed so that they stay in order.

    What would break a rule of `problems` is refused with TextRefused, and its `hint` says what to do. A file that
    breaks one already may be made better. Every change is one commit; `commit` is the id of the last, "" when there
    was none, or it changed nothing.
    """

    def __init__(self, sheaf: Sheaf) -> None:
        self._sheaf = sheaf
        self.commit = ""

    @property
    def text(self) -> str:
        """The text of the file; "" when there is none."""
        try:
            return self._sheaf.read(NOTES).text
        except NotFound:
            return ""

    def set(self, *, objective: str = "", phase: str = "") -> str:
        """Say what the work is for now, or which phase it is in, and return the notes."""
        lines = {OBJECTIVE: objective, PHASE: phase}
        lines = {title: self._clean(title, line) for title, line in lines.items() if line}

        def edit(text: str) -> str:
            for title, line in lines.items():
                section = _find(text, title)
                if section is None:
                    text = append_section(text, title, line)
                elif section.text != line:
                    text = replace_lines(text, section, [line])
                if noted_under(text, title) != [line]:
                    why = f"the line {line!r} would not be told from the rest of {NOTES}"
                    raise hinted(TextRefused(why), "Begin with a plain word, and keep one heading for it.")
            return text

        return self._change(edit, f"notes: {' and '.join(lines)}".lower())

    def block(self, text: str) -> str:
        """Note what stands in the way, or may go wrong, and return the notes."""
        return self._add(BLOCKERS, text)

    def pend(self, text: str) -> str:
        """Note what waits to be decided, one thing at a time, and return the notes."""
        return self._add(PENDING, text)

    def finish(self, which: str) -> str:
        """Move an entry to the archive as done, by its words or by its number from 1, and return it.

        Blockers come first, then what is pending, the objective and the phase.

        Raises Refused when there is no such entry, or several could be meant.
        """
        chosen = which.strip()

        def take_out(text: str) -> Pruned:
            nonlocal chosen
            entry = _choose(text, chosen)
            chosen = entry.text  # a number means another entry once somebody else has ended one
            lines = text.split("\n")
            del lines[entry.first : entry.end]
            done = entry._replace(text=f"{entry.text} (DONE {self._sheaf.today})")
            return Pruned("\n".join(lines) or _EMPTY_NOTES, [done], [])

        self._archive(take_out, "notes: done")
        return chosen

    def prune(self, *, apply: bool = False) -> Pruned:
        """Move to the archive what is not active any more; without `apply`, only return what would be."""
        if apply:
            return self._archive(lambda text: prune(text, self._sheaf.today), "notes: prune")
        return prune(self.text, self._sheaf.today)

    def _archive(self, change: Callable[[str], Pruned], why: str) -> Pruned:
        """Take something out of the notes, and add it to the archive in the same commit."""
        pruned = Pruned("", [], [])

        def plan(look: Look) -> Mapping[str, str]:
            nonlocal pruned
            old = look(NOTES) or ""
            pruned = change(old)
            files = {NOTES: pruned.text} if pruned.text != old else {}
            if pruned.moved:
                files[ARCHIVE_FILE] = archive(look(ARCHIVE_FILE) or "", self._sheaf.today, pruned.moved)
            return files

        self._commit(plan, why)
        return pruned

    def _add(self, title: str, entry: str) -> str:
        line = self._clean(title, entry)
        if not re.match(f"{_DATE}:", line):
            line = f"{self._sheaf.today}: {line}"

        def edit(text: str) -> str:
            section = _find(text, title)
            if _fold_entry(line) in map(_fold_entry, noted_under(text, title)):
                return text
            return append_bullet(text, section.title if section else title, line)

        return self._change(edit, f"notes: {title}".lower())

    def _clean(self, title: str, value: str) -> str:
        shorter = "Say it in one short line; what explains it belongs to the task."
        try:
            value = add_dates(clean_field(title, value), self._sheaf.today)
        except TextRefused as error:
            raise hinted(TextRefused(str(error)), shorter) from None
        size = len(value.encode())
        if not 0 < size <= MAX_ENTRY_BYTES:
            raise hinted(TextRefused(f"{title} is {size} bytes long, and not 1 to {MAX_ENTRY_BYTES}"), shorter)
        return value

    def _change(self, edit: Callable[[str], str], why: str) -> str:
        text = ""

        def plan(look: Look) -> Mapping[str, str]:
            nonlocal text
            old = look(NOTES) or _EMPTY_NOTES
            text = edit(old)
            _refuse_worse(old, text, self._sheaf.today)
            return {NOTES: text} if text != old else {}

        self._commit(plan, why)
        return text

    def _commit(self, plan: Plan, why: str) -> None:
        commit = self._sheaf.own.change_files(plan, why)
        self.commit = commit.id if commit else ""


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
            yield Problem(number, "bullets", what, "Keep the most important; `memsheaf notes done` ends one.")


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


def _refuse_worse(old: str, text: str, today: str) -> None:
    """Raise TextRefused when a change breaks a rule that was kept, or breaks it further."""
    allowed = Counter(problem.rule for problem in problems(old, today))
    if _count_lines(text) > _count_lines(old):
        del allowed["length"]
    for problem in problems(text, today):
        allowed[problem.rule] -= 1
        if allowed[problem.rule] < 0:
            raise hinted(TextRefused(f"{NOTES} would not be in order: {problem.what}"), problem.advice)


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


def _choose(text: str, which: str) -> NotesEntry:
    """Return the entry that is meant: by its number, or by a part of its heading and its words."""
    known = []
    for title in (BLOCKERS, PENDING, OBJECTIVE, PHASE):
        known += [entry for entry in _entries(text) if entry.meaning == title]
    if which in map(str, range(1, len(known) + 1)):
        return known[int(which) - 1]
    fitting = [entry for entry in known if entry.text == which]
    if not fitting and (wanted := fold_title(which)):
        fitting = [entry for entry in known if wanted in fold_title(f"{entry.heading} {entry.text}")]
    if len(fitting) == 1:
        return fitting[0]
    there = "; ".join(f"{number} {entry.text}" for number, entry in enumerate(known, 1)) or "There are none."
    count = "several entries" if fitting else "no entry"
    raise hinted(Refused(f"{count} of {NOTES} could be {which!r}"), there)


def _find(text: str, title: str) -> Section | None:
    """Return the first section under one of our headings, whichever of its names it has."""
    return next((part for part in sections(text) if _MEANINGS.get(fold_title(part.title)) == title), None)


def _entries(text: str) -> list[NotesEntry]:
    return [NotesEntry(part.title, *entry) for part in sections(text) for entry in entries(part)]


def _fold_entry(text: str) -> str:
    """Return an entry as it is compared: without its day, by its words."""
    undated = re.sub(rf"^{_DATE}:\s*", "", text)
    return fold_title(undated) or undated


def _count_lines(text: str) -> int:
    return len(text.rstrip().split("\n"))
