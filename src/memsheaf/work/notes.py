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
from collections.abc import Callable, Sequence

from memsheaf.errors import NotFound, Refused, TextRefused, hinted
from memsheaf.memory import clean_field
from memsheaf.recall.inject import NOTES
from memsheaf.sheaf import Look, Plan, Sheaf
from memsheaf.text.sections import Section, bullet, fold_title, replace_lines, sections
from memsheaf.text_edits import dated
from memsheaf.work import notes_text
from memsheaf.work.notes_text import (
    BLOCKERS,
    OBJECTIVE,
    PENDING,
    PHASE,
    ArchivedEntry,
    NotesEntry,
    Problem,
    Pruned,
    entries_below,
    meant,
    said_below,
    trimmed,
)

ARCHIVE = "NOTES-archive.md"
ENTRY_BYTES = 300
CLEARED = {"objective": OBJECTIVE, "phase": PHASE}  # what can be cleared, and the heading that it stands under
_CALLED = {OBJECTIVE: "the objective", PHASE: "the phase", BLOCKERS: "the blocker", PENDING: "what is pending"}
_SHORTER = "Say it in one short line; what explains it belongs to the task."


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
        """What stands there; "" when there are none."""
        try:
            return self._sheaf.read(NOTES).text
        except NotFound:
            return ""

    def problems(self, text: str | None = None) -> list[Problem]:
        """What is not as it should be; with a text, what would not be."""
        return notes_text.problems(self.text if text is None else text, self._sheaf.today)

    def set(self, *, objective: str = "", phase: str = "") -> str:
        """Say what the work is for now, or which phase it is in. Gives the notes."""
        wanted = {OBJECTIVE: objective, PHASE: phase}
        lines = {title: self._one_line(title, value) for title, value in wanted.items() if value}

        def edit(text: str) -> str:
            for title, line in lines.items():
                if said_below(text, title) == line:
                    continue
                text, part = _with_section(text, title)
                blank = [""] if part.text and not part.lines[0].strip() else []  # that a person left
                text = replace_lines(text, part, [*blank, line])
                if [one.text for one in entries_below(text, title)] != [line]:
                    advice = "Begin with a plain word, and keep one heading for it."
                    raise hinted(TextRefused(f"{_CALLED[title]} would not be told from the rest of {NOTES}"), advice)
            return text

        return self._change(edit, f"notes: {' and '.join(lines)}".lower())

    def clear(self, which: str) -> str:
        """Move the objective, or the phase, to the archive; gives what it said. Raises Refused when there is none."""
        title, said = CLEARED[which], ""

        def plan(look: Look) -> dict[str, str]:
            nonlocal said
            text = look(NOTES) or ""
            said = said_below(text, title)
            if not said:
                raise hinted(Refused(f"there is no {which} in {NOTES}"), "`memsheaf notes` shows what there is.")
            lines, others = text.split("\n"), (part for part in sections(text) if meant(part) != title)
            ends = ((one.start, one.start + bool(one.level) + len(one.lines)) for one in others)
            kept = [line for start, end in ends for line in lines[start:end]]
            left = "\n".join([*trimmed(kept), ""])
            return {NOTES: left if left.strip() else notes_text.EMPTY} | self._archive(
                look, [ArchivedEntry(title, said)]
            )

        self._commit(plan, f"notes: clear the {which}")
        return said

    def block(self, text: str) -> str:
        """Note what stands in the way, or may go wrong. Gives the notes."""
        return self._add(BLOCKERS, text)

    def pend(self, text: str) -> str:
        """Note what waits to be decided; one thing at a time. Gives the notes."""
        return self._add(PENDING, text)

    def unblock(self, which: str | int) -> str:
        """Move a blocker, or what is pending, to the archive as done; by its words, or by its number from 1.

        Raises Refused when there is no such entry, or several could be meant.
        """
        today, chosen = self._sheaf.today, which

        def plan(look: Look) -> dict[str, str]:
            nonlocal chosen
            text = look(NOTES) or ""
            one = _chosen(text, chosen)
            chosen = one.text  # a number means another entry once somebody else has ended one
            lines = text.split("\n")
            kept = "\n".join(lines[: one.first] + lines[one.end :])
            return {NOTES: kept} | self._archive(look, [ArchivedEntry(one.heading, f"{one.text} (DONE {today})")])

        self._commit(plan, "notes: done")
        return str(chosen)

    def prune(self, *, apply: bool = False, days: int = notes_text.STALE_DAYS) -> Pruned:
        """Move to the archive what is not active any more; without `apply`, only say what would be."""
        today = self._sheaf.today
        if not apply:
            return notes_text.pruned(self.text, today, days=days)
        done = Pruned("", (), ())

        def plan(look: Look) -> dict[str, str]:
            nonlocal done
            text = look(NOTES) or ""
            done = notes_text.pruned(text, today, days=days)
            return {} if done.text == text else {NOTES: done.text} | self._archive(look, done.moved)

        self._commit(plan, "notes: prune")
        return done

    def _add(self, title: str, entry: str) -> str:
        line = self._one_line(title, entry)
        if not re.match(f"{notes_text.DAY}:", line):
            line = f"{self._sheaf.today}: {line}"

        def edit(text: str) -> str:
            if any(_words_of(one.text) == _words_of(line) for one in entries_below(text, title)):
                return text
            text, part = _with_section(text, title)
            return replace_lines(text, part, [*trimmed(part.lines), *bullet(line)])

        return self._change(edit, f"notes: {title}".lower())

    def _one_line(self, title: str, value: str) -> str:
        called = _CALLED[title]
        try:
            value = dated(clean_field(called, value), self._sheaf.today)
        except TextRefused as error:
            raise hinted(TextRefused(str(error)), _SHORTER) from None
        if not value:
            raise hinted(TextRefused(f"{called} says nothing"), _SHORTER)
        if (size := len(value.encode())) > ENTRY_BYTES:
            raise hinted(TextRefused(f"{called} is {size} bytes long; {ENTRY_BYTES} are the most"), _SHORTER)
        return value

    def _change(self, edit: Callable[[str], str], why: str) -> str:
        text = ""

        def plan(look: Look) -> dict[str, str]:
            nonlocal text
            was = look(NOTES) or ""
            text = edit(was or notes_text.EMPTY)
            _refuse_worse(was, text, self._sheaf.today)
            return {NOTES: text} if text != (was or notes_text.EMPTY) else {}

        self._commit(plan, why)
        return text

    def _archive(self, look: Look, moved: Sequence[ArchivedEntry]) -> dict[str, str]:
        return {ARCHIVE: notes_text.archived(look(ARCHIVE) or "", self._sheaf.today, moved)} if moved else {}

    def _commit(self, plan: Plan, why: str) -> None:
        made = self._sheaf.change_files(plan, why)
        self.commit = made.id if made else ""


def _refuse_worse(was: str, text: str, today: str) -> None:
    """Raise TextRefused when a change breaks a rule that was kept, or breaks it further."""
    old = Counter(one.rule for one in notes_text.problems(was, today))
    for one in notes_text.problems(text, today):
        old[one.rule] -= 1
        is_longer = one.rule == "length" and notes_text.length(text) > notes_text.length(was)
        if old[one.rule] < 0 or is_longer:
            raise hinted(TextRefused(f"{NOTES} would not be in order: {one.what}"), one.advice)


def _chosen(text: str, which: str | int) -> NotesEntry:
    """The entry that is meant: by its number, its words, or a part of them."""
    found = [one for title in (BLOCKERS, PENDING) for one in entries_below(text, title)]
    there = "; ".join(f"{number} {one.text}" for number, one in enumerate(found, 1)) or "There are none."
    if isinstance(which, int):
        same = found[which - 1 : which] if which > 0 else []
    else:
        wanted = fold_title(which)
        same = [one for one in found if which == one.text or _words_of(one.text) == _words_of(which)]
        same = same or [one for one in found if wanted and wanted in fold_title(one.text)]
    if len(same) == 1:
        return same[0]
    raise hinted(Refused(f"{'several entries' if same else 'no entry'} of {NOTES} could be {which!r}"), there)


def _with_section(text: str, title: str) -> tuple[str, Section]:
    """The text with this heading in it, at its place if it was not there, and the section that it heads."""
    for part in sections(text):
        if meant(part) == title:
            return text, part
    later = notes_text.HEADINGS[notes_text.HEADINGS.index(title) + 1 :]
    end = "\r" if "\r\n" in text else ""
    lines = [line.removesuffix("\r") + end for line in trimmed(text.split("\n"))]
    at = next((part.start for part in sections(text) if meant(part) in later), len(lines))
    before = [end] if at and lines[at - 1].strip() else []
    after = [end] if at < len(lines) else []
    made = "\n".join([*lines[:at], *before, f"## {title}{end}", *after, *lines[at:], ""])
    for part in sections(made):
        if meant(part) == title:
            return made, part
    raise hinted(TextRefused(f"a block of code in {NOTES} does not end"), notes_text.PRUNE)


def _words_of(text: str) -> str:
    """An entry as it is compared: without its day, by its words."""
    said = re.sub(rf"^{notes_text.DAY}:\s*", "", text)
    return fold_title(said) or said
