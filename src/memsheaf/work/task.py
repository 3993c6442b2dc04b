"""One task: a piece of work in a folder of its own.

    TASK.md                    title, goal, status, phase, iteration, notes, log
    revisions.md               how the plan changed, and why
    verified.md                what was shown to hold, and whether it still does
    phases/phase-1.md          what each phase came to
    deliverables/NAME.md       what the task is to bring
    observability/SLUG.ndjson  events, for those who look into it later

Whoever goes on with it, a person or a model that forgot everything, needs nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from memsheaf.errors import BadHeader, Blocked, MemsheafError, NotFound, PathRefused, TextRefused, hinted
from memsheaf.guard.paths import check_path
from memsheaf.memory import clean_field
from memsheaf.sheaf import Sheaf
from memsheaf.text.neutralize import for_prompt, one_line
from memsheaf.text.sections import add_part, lower_headings, parts
from memsheaf.text_edits import dated
from memsheaf.values import utc_time
from memsheaf.work import events
from memsheaf.work.commit_retry import Look, commit, refuse_secrets_in
from memsheaf.work.task_files import (
    ACTIVE,
    DONE,
    DROPPED,
    MOST_PHASES,
    REGRESSED,
    TASK,
    VERIFIED,
    VERIFIED_TABLE,
    TaskState,
    VerifiedItem,
    change_task,
    checked_id,
    read_items,
    read_task,
    with_item,
)

REVISIONS = "revisions.md"
PHASES = "phases/"
DELIVERABLES = "deliverables/"

_REASON = "**Reason:** "
_REVISION = re.compile(r"Revision ([1-9][0-9]{0,8}), ([0-9]{4}-[0-9]{2}-[0-9]{2})")
_REPORT = re.compile(rf"{PHASES}phase-([1-9][0-9]{{0,2}})\.md")
_WIDTH = 200  # characters of a line in a summary

TaskChange = Callable[[Look, str, TaskState], Mapping[str, str]]  # the files that a step changes


class PlanRevision(NamedTuple):
    """A change of plan: the iteration that began with it, its day, why; how the text begins, and where it is."""

    number: int
    date: str
    reason: str
    first_line: str
    path: str

    @property
    def summary(self) -> str:
        """Why the plan changed, and to what."""
        return f"{self.reason.rstrip('.:;')}: {self.first_line}" if self.first_line else self.reason


class PhaseReport(NamedTuple):
    """What a phase came to: the first line of it, and where the rest is."""

    phase: int
    first_line: str
    path: str


class Task:
    """One task, as its files are; what is read from TASK.md is as of the opening, or of the last change.

    Every step is one commit; `commit` is the id of the last, "" when there was none, or it changed nothing.
    """

    def __init__(self, sheaf: Sheaf) -> None:
        self.sheaf = sheaf
        self.slug = sheaf.scope.name
        self.commit = ""
        self._read()

    def _read(self) -> None:
        now = self._state_of(self.sheaf.read(TASK).text)
        self.title, self.goal, self.status = now.title, now.goal, now.status
        self.phase, self.phases, self.iteration = now.phase, now.phases, now.iteration
        self.trace_id, self.notes, self.log = now.trace_id, now.notes, now.log

    def items(self) -> list[VerifiedItem]:
        """What was shown to hold, whether or not it still does. Raises TextRefused when a row cannot be read."""
        return read_items(self._text(VERIFIED_TABLE))

    def regressed(self) -> list[VerifiedItem]:
        """What held once and does not any more."""
        return [item for item in self.items() if item.status == REGRESSED]

    def revisions(self) -> list[PlanRevision]:
        """How often the plan changed, and why."""
        revisions = []
        for one in parts(self._text(REVISIONS)):
            if found := _REVISION.fullmatch(one.title):
                reason, _, text = one.text.removeprefix(_REASON).partition("\n")
                revisions.append(PlanRevision(int(found[1]), found[2], reason, _first_line(text), REVISIONS))
        return revisions

    def reports(self) -> list[PhaseReport]:
        """What each phase came to, in the order of the phases."""
        found = filter(None, map(_REPORT.fullmatch, self.sheaf.reader.files(PHASES)))
        return sorted(PhaseReport(int(one[1]), _last_report(self._text(one[0])), one[0]) for one in found)

    def unreported(self) -> list[int]:
        """The phases without a report; [] when the number of phases is unknown."""
        reported = {one.phase for one in self.reports()}
        return [number for number in range(1, self.phases + 1) if number not in reported]

    def deliverables(self) -> list[str]:
        """The paths of what the task is to bring."""
        return list(self.sheaf.reader.files(DELIVERABLES))

    def state(self) -> dict[str, object]:
        """All that a program needs to go on after a reset, ready for JSON."""
        found = self.items()
        return {
            "task": self.slug,
            "title": self.title,
            "goal": self.goal,
            "status": self.status,
            "phase": self.phase,
            "phases": self.phases or None,
            "iteration": self.iteration,
            "trace_id": self.trace_id,
            "verified": [item._asdict() for item in found if item.status == VERIFIED],
            "regressed": [item._asdict() for item in found if item.status == REGRESSED],
            "revisions": [one._asdict() for one in self.revisions()],
            "reports": [one._asdict() for one in self.reports()],
            "deliverables": self.deliverables(),
            "notes": [note._asdict() for note in self.notes],
            "log": [line._asdict() for line in self.log],
            "events": sum(1 for _ in events.lines(self.sheaf)),
        }

    def lines(self) -> list[str]:
        """The summary as data for the prompt of a model that goes on with the task."""
        return [for_prompt(line) for line in self.summary()]

    def summary(self) -> list[str]:
        """The task in at most 60 lines, the same for the same files: what stands in the way, then the newest."""
        found = self.items()
        bad = [_item_line(item) for item in found if item.status == REGRESSED]
        good = sorted((item for item in found if item.status == VERIFIED), key=lambda item: -item.last)
        reports = [f"phase {one.phase}: {one.first_line} ({one.path})" for one in self.reports()[::-1]]
        revisions = [f"{one.number}, {one.date}: {one.summary}" for one in self.revisions()[::-1]]
        notes, log = (
            [f"{line.date}: {line.text}" if line.date else line.text for line in lines[::-1]]
            for lines in (self.notes, self.log)
        )
        of = f" of {self.phases}" if self.phases else ""
        return [
            one_line(f"Task {self.slug}: {self.title}", _WIDTH),
            f"{self.status}, phase {self.phase}{of}, iteration {self.iteration}",
            *_listed("Goal", [line for line in self.goal.split("\n") if line.strip()], 5, TASK, mark="  "),
            *_listed("REGRESSED, to be verified before the task is done", bad, 8, VERIFIED_TABLE),
            *_listed("Verified", list(map(_item_line, good)), 6, VERIFIED_TABLE),
            *_listed("Reports, newest first", reports, 6, PHASES),
            *_listed("Revisions of the plan, newest first", revisions, 3, REVISIONS),
            *_listed("Deliverables", self.deliverables(), 4, DELIVERABLES),
            *_listed("Notes, newest first", notes, 7, TASK),
            *_listed("Log, newest first", log, 2, TASK),
            f"`memsheaf show FILE --scope {self.sheaf.scope}` prints a file of it.",
        ]

    def note(self, text: str) -> None:
        """Keep something worth knowing, also when the task has ended."""
        text, today = lower_headings(self._dated(text)), self.sheaf.today
        if not text:
            raise _refused("there is nothing to note")
        self._commit(lambda _, task, now: {TASK: change_task(task, today, note=text)}, "note", ended=True)

    def revise(self, reason: str, text: str = "", *, phases: int = 0) -> None:
        """Change the plan: another iteration begins. `phases` is how many there are from now on."""
        reason = _one_line("reason", self._dated(reason))
        given, today = self._dated(text), self.sheaf.today

        def change(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            number = now.iteration + 1
            fields = {"iteration": str(number)}
            if phases:
                checked_phase(now.phase, checked_phase(phases))
                fields["phases"] = str(phases)
            known = look(REVISIONS) or "# Revisions\n"
            return {
                TASK: change_task(task, today, fields=fields),
                REVISIONS: add_part(known, f"Revision {number}, {today}", f"{_REASON}{reason}\n\n{given}"),
            }

        self._commit(change, "revise the plan")

    def verify(self, name: str, description: str = "", *, regressed: bool = False) -> tuple[VerifiedItem, str]:
        """Say that an item holds in this iteration, or with `regressed` that it does not any more.

        The first time it needs a description. When what was seen differs from before, the log says so. Gives the item
        as it is now, and the status it had before; "" when it is new.
        """
        name = checked_id(name)
        description = _one_line("description", self._dated(description)) if description else ""
        status = REGRESSED if regressed else VERIFIED
        done: list[tuple[VerifiedItem, str]] = []

        def change(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            table = look(VERIFIED_TABLE) or ""
            was = next((item for item in read_items(table) if item.id == name), None)
            if was is None and not description:
                raise _refused(f"{name!r} is new: it needs a description")
            before = was or VerifiedItem(name, description, now.iteration, now.iteration, "")
            last = max(before.first, now.iteration)
            item = VerifiedItem(name, description or before.description, before.first, last, status)
            done.append((item, before.status))
            changes = {VERIFIED_TABLE: with_item(table, item)}
            if status != (before.status or VERIFIED):
                said = f"{name} was {before.status}, and is {status}" if was else f"{name} is {status}"
                changes[TASK] = change_task(task, self.sheaf.today, log=f"{said}: {item.description}")
            return changes

        self._commit(change, f"verify {name}")
        return done[-1]

    def report(self, text: str, phase: int = 0) -> PhaseReport:
        """Write what a phase came to, the present one unless another is meant; after the present one comes the next.

        What was reported before about the same phase stays.
        """
        number = phase or self.phase  # of two who report at once, both mean the phase that they saw
        path, given, today = f"{PHASES}phase-{number}.md", self._dated(text), self.sheaf.today
        if not given.strip():
            raise _refused("there is nothing in the report")

        def change(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            checked_phase(number, now.phases)
            changes = {path: add_part(look(path) or f"# Phase {number}\n", f"Report, {today}", given)}
            if number == now.phase and number != (now.phases or MOST_PHASES):
                changes[TASK] = change_task(task, today, fields={"phase": str(number + 1)})
            return changes

        self._commit(change, f"report on phase {number}")
        return PhaseReport(number, _last_report(self._text(path)), path)

    def go_to(self, phase: int) -> None:
        """Go to another phase, forward or back."""
        today = self.sheaf.today

        def change(_: Look, task: str, now: TaskState) -> Mapping[str, str]:
            fields = {"phase": str(checked_phase(phase, now.phases))}
            return {TASK: change_task(task, today, fields=fields)} if phase != now.phase else {}

        self._commit(change, f"go to phase {phase}")

    def deliver(self, name: str, text: str) -> str:
        """Keep something that the task is to bring, in the place of what has this name. Gives its path."""
        stem = name.strip().removesuffix(".md")
        refuse_secrets_in(stem, "the name")
        if "/" in stem:
            raise PathRefused(name, "the name of a deliverable has no folders")
        path = check_path(f"{DELIVERABLES}{stem}.md")
        with suppress(NotFound):
            path = self.sheaf.read(path).path  # some systems tell upper from lower case, others do not
        if not text.strip():
            raise _refused("there is nothing to deliver")

        def change(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            look(path)
            return {path: text if text.endswith("\n") else f"{text}\n"}

        self._commit(change, "deliver", ended=True)
        return path

    def done(self, summary: str = "") -> None:
        """End the task. Raises Blocked as long as something is REGRESSED."""
        self._end(DONE, f"Done: {summary}" if summary.strip() else "Done")

    def drop(self, reason: str) -> None:
        """End the task without having done it."""
        self._end(DROPPED, f"Dropped: {_one_line('reason', reason)}")

    def event(self, given: Mapping[str, object], *, clock: Callable[[], float] = time.time) -> dict[str, object]:
        """Add an event, with time, agent, phase and trace filled in, and give it. Raises TextRefused, SecretFound."""
        event = events.completed(
            given,
            trace_id=self.trace_id,
            ts=utc_time(clock(), milliseconds=True),
            agent=self.sheaf.by,
            phase=self.phase,
        )
        self.commit = events.append(self.sheaf, event).id
        return event

    def _end(self, status: str, line: str) -> None:
        line, today = lower_headings(self._dated(line)), self.sheaf.today

        def change(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            found = read_items(look(VERIFIED_TABLE) or "") if status == DONE else []
            if bad := [item.id for item in found if item.status == REGRESSED]:
                raise Blocked(f"the task {self.slug!r} is not done: {', '.join(bad)} REGRESSED; verify that first")
            return {TASK: change_task(task, today, log=line, fields={"status": status})}

        self._commit(change, f"the task is {status}")

    def _commit(self, change: TaskChange, why: str, *, ended: bool = False) -> None:
        """Make a step, one commit; with `ended` also when the task has."""

        def plan(look: Look) -> Mapping[str, str]:
            task = look(TASK)
            if task is None:
                raise NotFound(str(self.sheaf.scope))
            now = self._state_of(task)
            if now.status != ACTIVE and not ended:
                undo = f"Undo with `memsheaf undo --scope {self.sheaf.scope}`"
                error = Blocked(f"the task {self.slug!r} is {now.status}")
                raise hinted(error, f"{undo}; `memsheaf task start` begins another.")
            return change(look, task, now)

        made = commit(self.sheaf, plan, why)
        self.commit = made.id if made else ""
        self._read()

    def _state_of(self, text: str) -> TaskState:
        try:
            return read_task(text, f"{self.sheaf.scope}/{TASK}")
        except BadHeader as error:
            raise hinted(error, f"`memsheaf edit --scope {self.sheaf.scope} {TASK}` opens it.") from None

    def _dated(self, text: str) -> str:
        return dated(text, self.sheaf.today)

    def _text(self, path: str) -> str:
        try:
            return self.sheaf.read(path).text
        except NotFound:
            return ""


def checked_phase(phase: int, most: int = 0) -> int:
    """Let the number of a phase through; `most` is how many there are, 0 when unknown. Raises Blocked."""
    if not 1 <= phase <= (most or MOST_PHASES):
        raise Blocked(f"there is no phase {phase}: the phases are 1 to {most or MOST_PHASES}")
    return phase


def _one_line(label: str, text: str) -> str:
    """A text that stands in one line, its line breaks as spaces. Raises TextRefused."""
    if line := clean_field(label, " ".join(text.split())):
        return line
    raise _refused(f"the {label} is empty")


def _last_report(text: str) -> str:
    """The first line of the last report in a file."""
    found = parts(text)
    return _first_line(found[-1].text if found else text)


def _first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip().lstrip("# ") for line in text.split("\n") if line.strip()), "")


def _item_line(item: VerifiedItem) -> str:
    return f"{item.id}: {item.description} (iterations {item.first} to {item.last})"


def _listed(title: str, found: list[str], most: int, path: str, *, mark: str = "- ") -> list[str]:
    """A heading, a limited number of lines below it, and where the rest is; [] without lines."""
    shown = [f"{mark}{one_line(line, _WIDTH)}" for line in found[:most]]
    more = [f"({len(found) - most} more in {path})"] if len(found) > most else []
    return [f"{title}:", *shown, *more] if found else []


def _refused(why: str) -> MemsheafError:
    return hinted(TextRefused(why), "`memsheaf help task` has examples.")
