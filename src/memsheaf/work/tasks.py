"""Tasks: pieces of work, each in a folder of its own.

    TASK.md                    title, goal, status, phase, iteration, notes, log
    revisions.md               how the plan changed, and why
    verified.md                what was shown to hold, and whether it still does
    phases/phase-1.md          what each phase came to
    deliverables/NAME.md       what the task is to bring
    observability/SLUG.ndjson  events, for those who look into it later

Whoever goes on with it, a person or a model that forgot everything, needs nothing else.

>>> with Sheaf.open(by="user") as memory:                                       # doctest: +SKIP
...     task = start(memory, "Feature X", goal="Users can log in", phases=6)
...     task.verify("login", "One can log in")
...     print("\\n".join(task.lines()))
"""

from __future__ import annotations

import json
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple
from uuid import uuid4

from memsheaf.errors import (
    BadHeader,
    Blocked,
    Exists,
    MemsheafError,
    NotFound,
    PathRefused,
    ReadOnly,
    ScopeRefused,
    SecretFound,
    TextRefused,
    hinted,
)
from memsheaf.frontmatter import edited, join, split
from memsheaf.guard.paths import check_path
from memsheaf.guard.secrets import find_secrets, without_secrets
from memsheaf.limits import retry
from memsheaf.memory import DESCRIPTION_LIMIT, clean_field, utc_time
from memsheaf.scope import check_label, parse_object
from memsheaf.sheaf import Look, Sheaf
from memsheaf.store import Change, Commit, version_of
from memsheaf.text.neutralize import cut_bytes, for_prompt, one_line
from memsheaf.text.sections import add_part, append_lines, bullet, fence_after, lower_headings, part, parts, sections
from memsheaf.text_edits import dated

TASK = "TASK.md"
REVISIONS = "revisions.md"
VERIFIED_TABLE = "verified.md"
PHASES = "phases/"
DELIVERABLES = "deliverables/"
EVENTS = "observability/"

ACTIVE, DONE, DROPPED = STATUSES = ("active", "done", "dropped")
VERIFIED, REGRESSED = "VERIFIED", "REGRESSED"
MAX_PHASES = 999
MAX_SLUG_CHARS = 60
MAX_SUMMARY_LINE_CHARS = 200
MAX_EVENT_BYTES = 16 * 1024
MAX_EVENT_FILE_GAP = 100  # files that may be missing between two; what is further off was not written by us
MAX_EVENT_FILE_BYTES = 32 * 1024  # a file is read and written whole

_LETTERS = str.maketrans({"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d"})  # that no decomposition makes ASCII
_REASON = "**Reason:** "
_NUMBER = r"[1-9][0-9]{0,8}"
_UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"

TaskChange = Callable[[Look, str, "TaskState"], Mapping[str, str]]  # the files that a step changes


class TaskState(NamedTuple):
    """The content of TASK.md. `phases` is 0 when their number is unknown. Notes and log lines begin with a day."""

    title: str
    goal: str
    status: str
    phase: int
    phases: int
    iteration: int
    trace_id: str
    notes: tuple[str, ...]
    log: tuple[str, ...]


class ListedTask(NamedTuple):
    """A task among others; when its TASK.md cannot be read there is no state, and the problem says why."""

    slug: str
    state: TaskState | None
    problem: str = ""


class VerifiedItem(NamedTuple):
    """Something that was shown to hold: in which iteration first and last, and its status, VERIFIED or REGRESSED."""

    id: str
    description: str
    first: int
    last: int
    status: str


class Task:
    """One task, as its files are; the content of TASK.md is as of the opening, or of the last change.

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
        """Return what was shown to hold, whether or not it still does. Raises TextRefused if a row is unreadable."""
        return read_items(self._text(VERIFIED_TABLE))

    def regressed(self) -> list[VerifiedItem]:
        """Return the items that held once and do not any more."""
        return [item for item in self.items() if item.status == REGRESSED]

    def revisions(self) -> list[str]:
        """Return the changes of the plan, a line each, the oldest first."""
        return _lines_of(self._text(REVISIONS))

    def reports(self) -> list[str]:
        """Return a line for each phase that has a report: its file, and how the last report on it begins."""
        paths = sorted(self.sheaf.own.files(PHASES), key=lambda path: (len(path), path))
        lines = {path: _lines_of(self._text(path)) for path in paths}
        return [f"{path}: {lines[path][-1]}" for path in paths if lines[path]]

    def deliverables(self) -> list[str]:
        """Return the paths of what the task is to bring."""
        return list(self.sheaf.own.files(DELIVERABLES))

    def state(self) -> dict[str, object]:
        """Return all that a program needs to go on after a reset, ready for JSON."""
        items = self.items()
        return {
            "task": self.slug,
            "title": self.title,
            "goal": self.goal,
            "status": self.status,
            "phase": self.phase,
            "phases": self.phases or None,
            "iteration": self.iteration,
            "trace_id": self.trace_id,
            "verified": [item._asdict() for item in items if item.status == VERIFIED],
            "regressed": [item._asdict() for item in items if item.status == REGRESSED],
            "revisions": self.revisions(),
            "reports": self.reports(),
            "deliverables": self.deliverables(),
            "notes": list(self.notes),
            "log": list(self.log),
            "events": sum(1 for _ in self.events()),
        }

    def lines(self) -> list[str]:
        """Return the summary as data for the prompt of a model that goes on with the task."""
        return [for_prompt(line) for line in self.summary()]

    def summary(self) -> list[str]:
        """Return the task in at most 60 lines: what stands in the way, then the newest of the rest."""
        of = f" of {self.phases}" if self.phases else ""
        lines = [
            one_line(f"Task {self.slug}: {self.title}", MAX_SUMMARY_LINE_CHARS),
            f"{self.status}, phase {self.phase}{of}, iteration {self.iteration}",
        ]
        items = self.items()
        verified = sorted((item for item in items if item.status == VERIFIED), key=lambda item: -item.last)
        regressed = [item for item in items if item.status == REGRESSED]
        for title, entries, most, path in (
            ("Goal", [line for line in self.goal.split("\n") if line.strip()], 5, TASK),
            ("REGRESSED, to be verified before the task is done", _item_lines(regressed), 8, VERIFIED_TABLE),
            ("Verified", _item_lines(verified), 6, VERIFIED_TABLE),
            ("Reports, newest first", self.reports()[::-1], 6, PHASES),
            ("Revisions of the plan, newest first", self.revisions()[::-1], 3, REVISIONS),
            ("Deliverables", self.deliverables(), 4, DELIVERABLES),
            ("Notes, newest first", list(self.notes[::-1]), 7, TASK),
            ("Log, newest first", list(self.log[::-1]), 2, TASK),
        ):
            if entries:
                lines += [f"{title}:", *(f"- {one_line(entry, MAX_SUMMARY_LINE_CHARS)}" for entry in entries[:most])]
            if len(entries) > most:
                lines.append(f"({len(entries) - most} more in {path})")
        return [*lines, f"`memsheaf show FILE --scope {self.sheaf.scope}` prints a file of it."]

    def note(self, text: str) -> None:
        """Keep something worth knowing, also when the task has ended."""
        text, today = lower_headings(self._dated(text)), self.sheaf.today
        if not text:
            raise _refused("there is nothing to note")
        self._commit(lambda _, task, now: {TASK: _change_task(task, today, note=text)}, "note", ended=True)

    def revise(self, reason: str, text: str = "", *, phases: int = 0) -> None:
        """Change the plan: another iteration begins. `phases` is how many there are from now on."""
        reason = _require_line("reason", self._dated(reason))
        plan, today = self._dated(text), self.sheaf.today

        def change(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            number = now.iteration + 1
            fields = {"iteration": str(number)}
            if phases:
                require_phase(now.phase, require_phase(phases))
                fields["phases"] = str(phases)
            revisions = look(REVISIONS) or "# Revisions\n"
            return {
                TASK: _change_task(task, today, fields=fields),
                REVISIONS: add_part(revisions, f"Revision {number}, {today}", f"{_REASON}{reason}\n\n{plan}"),
            }

        self._commit(change, "revise the plan")

    def verify(self, name: str, description: str = "", *, regressed: bool = False) -> tuple[VerifiedItem, str]:
        """Record that an item holds in this iteration, or with `regressed` that it does not any more.

        The first time it needs a description. A change of the status is logged. Returns the item as it is now, and
        the status it had before; "" when it is new.
        """
        name = require_id(name)
        description = _require_line("description", self._dated(description)) if description else ""
        status = REGRESSED if regressed else VERIFIED
        outcome: list[tuple[VerifiedItem, str]] = []

        def change(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            table = look(VERIFIED_TABLE) or ""
            old = next((item for item in read_items(table) if item.id == name), None)
            if old is None and not description:
                raise _refused(f"{name!r} is new: it needs a description")
            before = old or VerifiedItem(name, description, now.iteration, now.iteration, "")
            last = max(before.first, now.iteration)
            item = VerifiedItem(name, description or before.description, before.first, last, status)
            outcome.append((item, before.status))
            changes = {VERIFIED_TABLE: with_item(table, item)}
            if status != (before.status or VERIFIED):
                line = f"{name} was {before.status}, and is {status}" if old else f"{name} is {status}"
                changes[TASK] = _change_task(task, self.sheaf.today, log=f"{line}: {item.description}")
            return changes

        self._commit(change, f"verify {name}")
        return outcome[-1]

    def report(self, text: str, phase: int = 0) -> str:
        """Append a report on a phase, the present one unless another is given, and return the path of its file.

        A report on the present phase goes on to the next one.
        """
        number = phase or self.phase  # of two who report at once, both mean the phase that they saw
        path, text, today = f"{PHASES}phase-{number}.md", self._dated(text), self.sheaf.today
        if not text.strip():
            raise _refused("there is nothing in the report")

        def change(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            require_phase(number, now.phases)
            changes = {path: add_part(look(path) or f"# Phase {number}\n", f"Report, {today}", text)}
            if number == now.phase and number != (now.phases or MAX_PHASES):
                changes[TASK] = _change_task(task, today, fields={"phase": str(number + 1)})
            return changes

        self._commit(change, f"report on phase {number}")
        return path

    def go_to(self, phase: int) -> None:
        """Go to another phase, forward or back."""
        today = self.sheaf.today

        def change(_: Look, task: str, now: TaskState) -> Mapping[str, str]:
            fields = {"phase": str(require_phase(phase, now.phases))}
            return {TASK: _change_task(task, today, fields=fields)} if phase != now.phase else {}

        self._commit(change, f"go to phase {phase}")

    def deliver(self, name: str, text: str) -> str:
        """Keep something that the task is to bring, in the place of what has this name, and return its path."""
        stem = name.strip().removesuffix(".md")
        for secret in find_secrets(stem):
            raise SecretFound(secret.kind, "the name")
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
        self._end(DROPPED, f"Dropped: {_require_line('reason', reason)}")

    def _end(self, status: str, line: str) -> None:
        line, today = lower_headings(self._dated(line)), self.sheaf.today

        def change(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            items = read_items(look(VERIFIED_TABLE) or "") if status == DONE else []
            if bad := [item.id for item in items if item.status == REGRESSED]:
                raise Blocked(f"the task {self.slug!r} is not done: {', '.join(bad)} REGRESSED; verify that first")
            return {TASK: _change_task(task, today, log=line, fields={"status": status})}

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

        step = self.sheaf.change_files(plan, why)
        self.commit = step.id if step else ""
        self._read()

    def event(self, event: Mapping[str, object], *, clock: Callable[[], float] = time.time) -> dict[str, object]:
        """Append an event, with time, agent, phase and trace filled in, and return it.

        Raises:
            TextRefused: a field is not what it has to be, or the event is too long.
            SecretFound: there is a secret in it.
        """
        sheaf = self.sheaf
        ts = utc_time(clock(), milliseconds=True)
        filled = {"trace_id": self.trace_id, "ts": ts, "agent": sheaf.by, "phase": self.phase, **event}
        _check_event(filled, self.trace_id)
        filled = {name: filled[name] for name in _EVENT_FIELDS}
        if sheaf.read_only:
            raise ReadOnly(f"the scope {sheaf.scope} was opened for reading only")
        line = _encode_event(filled)

        def append() -> Commit:
            number = max(self._event_files(), default=1)
            path = self._event_path(number)
            present = self._event_bytes(path)
            # somebody's editor may have left the last line open: ours is not joined with it
            data = (present or b"") + (b"\n" if present and present[-1:] != b"\n" else b"") + line
            if present and len(data) > MAX_EVENT_FILE_BYTES:
                path, present, data = self._event_path(number + 1), None, line
            change = Change(path, data, version_of(present))
            return sheaf.own.store.commit([change], by=sheaf.by, why=f"event {filled['event_type']}")

        self.commit = retry(append, busy=f"the events of {sheaf.scope} change faster than they can be read").id
        return filled

    def events(self) -> Iterator[tuple[str, Mapping[str, object] | None]]:
        """Yield every line of events, the newest first, each with its event; None for a line that is no JSON object.

        Events are for whoever looks into them. Nothing is decided by what is in them.
        """
        for number in reversed(self._event_files()):
            text = (self._event_bytes(self._event_path(number)) or b"").decode("utf-8", "replace")
            for line in reversed(text.split("\n")):
                if line.strip():
                    yield line, parse_object(line)

    def _event_path(self, number: int) -> str:
        return f"{EVENTS}{self.slug}{f'-{number}' if number > 1 else ''}.ndjson"

    def _event_files(self) -> list[int]:
        """Return the numbers of the files of events, in order."""
        name = re.compile(rf"{EVENTS}{re.escape(self.slug)}(?:-([2-9]|[1-9][0-9]{{1,8}}))?\.ndjson")
        numbers: list[int] = []
        for number in sorted(
            {int(match[1] or 1) for match in map(name.fullmatch, self.sheaf.own.store.events()) if match}
        ):
            if number - (numbers[-1] if numbers else 0) <= MAX_EVENT_FILE_GAP:
                numbers.append(number)
        return numbers

    def _event_bytes(self, path: str) -> bytes | None:
        try:
            return self.sheaf.own.store.read(path).data
        except NotFound:
            return None

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


def start(layers: Sheaf, title: str, *, goal: str = "", phases: int = 0, slug: str = "") -> Task:
    """Begin a task; its slug is made from the title unless one is given.

    Raises:
        Exists: there is a task of that slug.
        ScopeRefused, TextRefused, SecretFound: the title, the slug or the goal may not be stored.
    """
    for secret in find_secrets(f"{title}\n{slug}"):
        raise SecretFound(secret.kind, "the title")
    try:
        title = clean_field("name", title)
        name = check_label(slug.rstrip("-"), "task") if slug else slug_of(title)
    except TextRefused as error:
        raise hinted(error, "The title is one short line; --goal TEXT says more.") from None
    except ScopeRefused as error:
        raise hinted(error, "--slug NAME chooses the name: letters, digits and hyphens.") from None
    sheaf = layers.only(f"task/{name}")
    if phases:
        require_phase(phases)
    text = new_task(title, dated(goal, sheaf.today), phases=phases, today=sheaf.today, by=sheaf.by)

    def plan(look: Look) -> Mapping[str, str]:
        if look(TASK) is not None:
            shown = f"`memsheaf task status --task {name}` shows it"
            raise hinted(Exists(str(sheaf.scope)), f"{shown}; --slug NAME chooses another name for a new one.")
        return {TASK: text}

    step = sheaf.change_files(plan, "start the task")
    task = Task(sheaf)
    task.commit = step.id if step else ""
    return task


def of(layers: Sheaf, slug: str = "") -> Task:
    """Return the task that is meant: the one named, the one chosen at the start, or the only active one.

    Raises:
        NotFound: there is none.
        ScopeRefused: several could be meant.
        BadHeader: its TASK.md is not understood.
    """
    name, why = "", "there is no active task"
    advice = "`memsheaf task list` shows which there are, `memsheaf task start TITLE` begins one."
    try:
        with suppress(NotFound):
            name = layers.chosen("task", slug)
            why = f"there is no task {name!r}"
            if name in layers.names("task"):  # to look at a task that is not there makes nothing
                return Task(layers.only(f"task/{name}"))
    except ScopeRefused as error:
        raise hinted(error, advice) from None
    raise hinted(NotFound(f"task/{name}", why), advice)


def every_task(layers: Sheaf) -> list[ListedTask]:
    """Return the tasks of the project, in the order of their slugs, those that cannot be read among them."""
    tasks = []
    for slug in layers.names("task"):
        try:
            text = layers.only(f"task/{slug}").read(TASK).text
            tasks.append(ListedTask(slug, read_task(text, f"task/{slug}/{TASK}")))
        except NotFound:
            continue  # a scope that somebody keeps memories in, and no task
        except MemsheafError as error:
            tasks.append(ListedTask(slug, None, str(error)))
    return tasks


def active_tasks(layers: Sheaf) -> list[str]:
    """Return the slugs of tasks that have not ended, unreadable ones included."""
    return layers.going("task")


def slug_of(title: str) -> str:
    """Return a title as the name of a task's folder.

    >>> slug_of("Feature X: log in, log out!"), slug_of("登录")
    ('feature-x-log-in-log-out', 'task-1e2df9')

    Raises:
        ScopeRefused: it would be a name that Windows keeps for a device.
    """
    plain = unicodedata.normalize("NFKD", title.casefold().translate(_LETTERS)).encode("ascii", "ignore").decode()
    words = re.findall("[a-z0-9]+", plain.lower())
    while len(words) > 1 and len("-".join(words)) > MAX_SLUG_CHARS:
        words.pop()
    if not any(word.strip("0123456789") for word in words):
        digest = sha256(title.encode("utf-8", "surrogatepass")).hexdigest()
        return f"task-{digest[:6]}"
    return check_label("-".join(words)[:MAX_SLUG_CHARS], "task")


# TASK.md is a header with status, phase, iteration and trace id, and three sections: Goal, Notes (what somebody found
# worth knowing) and Log (what the steps of the task record).


def new_task(title: str, goal: str, *, phases: int, today: str, by: str) -> str:
    """Return the text of a task that begins. Raises TextRefused."""
    if not title:
        raise TextRefused("a task needs a title")
    fields = {
        "name": title,
        "description": cut_bytes(one_line(goal, DESCRIPTION_LIMIT), DESCRIPTION_LIMIT) or title,
        "type": "project",
        "created": today,
        "updated": today,
        "source": by,
        "pinned": "true",
        "status": ACTIVE,
        "phase": "1",
        **({"phases": str(phases)} if phases else {}),
        "iteration": "1",
        "trace_id": str(uuid4()),
    }
    return join(fields, add_part(add_part("", "Goal", goal.strip() or title), "Notes", ""))


def read_task(text: str, place: str) -> TaskState:
    """Parse TASK.md; `place` is for the message. Raises BadHeader when its header is not that of a task."""
    page = split(text)
    why = page.problem or ("" if page.head else "there is none")
    for name, pattern, wanted in (
        ("status", "|".join(STATUSES), f"one of {', '.join(STATUSES)}"),
        ("phase", _NUMBER, "a whole number, 1 or more"),
        ("iteration", _NUMBER, "a whole number, 1 or more"),
        ("phases", f"(?:{_NUMBER})?", "a whole number, 1 or more"),
        ("trace_id", _UUID4, "the UUIDv4 that the task began with; `memsheaf log` knows it"),
    ):
        if not why and not re.fullmatch(pattern, page.get(name)):
            why = f"{name} has to be {wanted}"
    if why:
        raise BadHeader(place, why)
    goal = part(page.body, "Goal")
    return TaskState(
        title=page.get("name"),
        goal=goal.text if goal else "",
        status=page.get("status"),
        phase=int(page.get("phase")),
        phases=int(page.get("phases") or 0),
        iteration=int(page.get("iteration")),
        trace_id=page.get("trace_id"),
        notes=_bullets_below(page.body, "Notes"),
        log=_bullets_below(page.body, "Log"),
    )


def _change_task(text: str, today: str, *, note: str = "", log: str = "", fields: Mapping[str, str] = {}) -> str:
    """Return the text with other fields, one more note, one more line in the log."""
    body = split(text).body
    for title, line in (("Notes", note.strip()), ("Log", log.strip())):
        if line:
            apart = "\n" if fence_after(line.split("\n")[0], "") else " "  # behind a date, a fence would be none
            lines = bullet(f"{today}:{apart}{line}")
            section = part(body, title)
            body = append_lines(body, section, lines) if section else add_part(body, title, "\n".join(lines))
    return edited(text, fields={**fields, "updated": today}, body=body)


def _bullets_below(body: str, title: str) -> tuple[str, ...]:
    below = part(body, title)
    return tuple(text for section in sections(below.text if below else "") for text in section.bullets)


def _lines_of(text: str) -> list[str]:
    """Return the parts of a file, a line each."""
    lines = []
    for entry in parts(text):
        paragraphs = entry.text.removeprefix(_REASON).split("\n\n")
        lines.append(one_line(f"{entry.title}: {': '.join(paragraphs)}", MAX_SUMMARY_LINE_CHARS))
    return lines


# verified.md is a Markdown table. A person may edit it, so it is read strictly: a row that cannot be read is an error
# that names its line. To skip it would be to forget a regression.

_TABLE_HEAD = ("| id | description | first | last | status |", "|---|---|---|---|---|")
_HEAD_LINE = r"(?i)\|\s*id\s*\|\s*description\s*\|\s*first\s*\|\s*last\s*\|\s*status\s*\||\|(?:\s*:?-+:?\s*\|){5}"
_ID = r"[^\s|\\]{1,64}"
_ROW = rf"\|\s*({_ID})\s*\|((?:[^|]|(?<=\\)\|)*)\|\s*({_NUMBER})\s*\|\s*({_NUMBER})\s*\|\s*(VERIFIED|REGRESSED)\s*\|"


def read_items(text: str) -> list[VerifiedItem]:
    """Return the items of a table, in its order. Raises TextRefused for an unreadable line; the message names it."""
    return list(_rows(text).values())


def with_item(text: str, item: VerifiedItem) -> str:
    """Return the table with an item in its row, or in a new one at the end; every other line as it was."""
    rows = _rows(text)
    end = "\r" if "\r\n" in text else ""
    lines = [line.removesuffix("\r") for line in text.rstrip().split("\n")] if text.strip() else ["# Verified", ""]
    cells = (item.id, item.description.replace("|", "\\|"), str(item.first), str(item.last), item.status)
    row = f"| {' | '.join(cells)} |"
    at = next((number for number, old in rows.items() if old.id == item.id), None)
    if at is not None:
        lines[at] = row
    elif any("|" in line for line in lines):
        lines.append(row)
    else:
        lines += [*([""] if lines[-1] else []), *_TABLE_HEAD, row]
    return "\n".join(line + end for line in [*lines, ""]).removesuffix("\r")


def _rows(text: str) -> dict[int, VerifiedItem]:
    """Return the items by the number of their line, from 0."""
    rows: dict[int, VerifiedItem] = {}
    is_table = False
    for number, line in enumerate(text.split("\n")):
        line = line.strip()
        is_table = is_table or "|" in line
        if not line or not is_table or re.fullmatch(_HEAD_LINE, line):
            continue
        why = ""
        row = re.fullmatch(_ROW, line)
        if not row or not row[2].strip() or int(row[3]) > int(row[4]):
            why = "is no row such as | login | One can log in | 1 | 3 | VERIFIED |"
        elif (name := unicodedata.normalize("NFC", row[1])) in [item.id for item in rows.values()]:
            why = f"has the id {name!r}, which stands there twice"
        if not row or why:
            error = TextRefused(f"{VERIFIED_TABLE}, line {number + 1} {why}")
            raise hinted(error, f"Fix it in {VERIFIED_TABLE} of the task, with `memsheaf edit` or any editor.")
        rows[number] = VerifiedItem(name, row[2].strip().replace("\\|", "|"), int(row[3]), int(row[4]), row[5])
    return rows


def require_id(given: str) -> str:
    """Return an id as it is stored. Raises TextRefused."""
    try:
        name = unicodedata.normalize("NFC", clean_field("id", given))
    except TextRefused:
        name = ""
    if not re.fullmatch(_ID, name):
        error = TextRefused(
            f"the id {given[:80]!r} is not allowed: it is 1 to 64 characters without spaces, | and \\"
        )
        raise hinted(error, "Take one word, such as login or api-2.")
    return name


def require_phase(phase: int, most: int = 0) -> int:
    """Return the number of a phase; `most` is how many there are, 0 when unknown. Raises Blocked."""
    if not 1 <= phase <= (most or MAX_PHASES):
        raise Blocked(f"there is no phase {phase}: the phases are 1 to {most or MAX_PHASES}")
    return phase


def _require_line(label: str, text: str) -> str:
    """Return a text as one line. Raises TextRefused when it is empty."""
    if line := clean_field(label, " ".join(text.split())):
        return line
    raise _refused(f"the {label} is empty")


def _item_lines(items: list[VerifiedItem]) -> list[str]:
    return [f"{item.id}: {item.description} (iterations {item.first} to {item.last})" for item in items]


def _refused(why: str) -> MemsheafError:
    return hinted(TextRefused(why), "`memsheaf help task` has examples.")


# Events are NDJSON, append-only. Each field has a rule: the words for what it has to be, and a check.

Rule = tuple[str, Callable[[object], bool]]


def _is_number(value: object, least: float, most: float = float("inf")) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def _is_agent(value: object) -> bool:
    with suppress(ScopeRefused):
        return isinstance(value, str) and bool(check_label(value, "agent"))
    return False


def _is_time(value: object) -> bool:
    with suppress(ValueError):
        shape = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"
        return isinstance(value, str) and bool(re.fullmatch(shape, value) and datetime.fromisoformat(value))
    return False


def _one_of(*values: str) -> Rule:
    return f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values


def _whole(least: int, most: float = float("inf"), *, or_null: bool = False) -> Rule:
    wanted = f"a whole number, {least} or more" if most == float("inf") else f"a whole number from {least} to {most}"
    return (
        f"{wanted}, or null" if or_null else wanted,
        lambda value: (or_null and value is None) or (isinstance(value, int) and _is_number(value, least, most)),
    )


_AGENT: Rule = ("the name of an agent: 1 to 64 letters, digits and hyphens", _is_agent)
_OBJECT: Rule = ("a JSON object", lambda value: isinstance(value, dict))
_TEXT: Rule = ("a text that says something", lambda value: isinstance(value, str) and bool(value.strip()))
_TRACE: Rule = ("the trace id of the task", lambda value: isinstance(value, str))

_EVENT_FIELDS: dict[str, Rule] = {
    "trace_id": _TRACE,
    "ts": ("a time in UTC with milliseconds, such as 2026-11-15T09:30:00.000Z", _is_time),
    "agent": _AGENT,
    "phase": _whole(0, or_null=True),
    "event_type": _one_of(
        "delegation",
        "gate_event",
        "execution_report",
        "clarification_request",
        "plan_audit",
        "verdict",
        "discovery",
        "research_findings",
    ),
    "payload": _OBJECT,
}
_GATE_FIELDS: dict[str, Rule] = {
    "schema_version": ('"1.1.0"', lambda value: value == "1.1.0"),
    "agent": _AGENT,
    "event_type": _one_of(
        "PLAN_GATE", "PREFLECT_GATE", "PHASE_REVIEW_GATE", "HIGH_RISK_APPROVAL_GATE", "COMPLETION_GATE"
    ),
    "workflow_state": _one_of("PLANNING", "ACTING", "REVIEWING", "WAITING_APPROVAL", "COMPLETE"),
    "phase_id": _whole(1, or_null=True),
    "decision": _one_of("GO", "REPLAN", "ABSTAIN", "BLOCKED"),
    "confidence": ("a number from 0 to 1", lambda value: _is_number(value, 0, 1)),
    "requires_human_approval": ("true or false", lambda value: isinstance(value, bool)),
    "reason": _TEXT,
    "next_action": _TEXT,
    "trace_id": _TRACE,
    "iteration_index": _whole(0),
    "max_iterations": _whole(1, 5),
}
_OPTIONAL_GATE_FIELDS: dict[str, Rule] = {
    "safety_checks": _OBJECT,
    "verifier_statuses": _OBJECT,
    "diagnosis_packet": _OBJECT,
}


def read_event(text: str) -> dict[str, object]:
    """Parse an event. Raises TextRefused when it is no JSON object."""
    try:
        event = json.loads(text)
    except RecursionError:
        raise _refused_event("it is nested too deeply") from None
    except ValueError as error:
        raise _refused_event(f"it is not JSON: {error}") from None
    if not isinstance(event, dict):
        raise _refused_event('it is not a JSON object, such as {"event_type": "discovery", "payload": {}}')
    return event


def _check_event(event: Mapping[str, object], trace_id: str) -> None:
    """Raise TextRefused when a field is missing, unknown or wrong; the message names it and what is allowed."""
    _check_fields("", event, _EVENT_FIELDS, trace_id)
    payload = event["payload"]
    if event["event_type"] == "gate_event" and isinstance(payload, Mapping):
        present = {name: rule for name, rule in _OPTIONAL_GATE_FIELDS.items() if name in payload}
        _check_fields("payload.", payload, _GATE_FIELDS | present, trace_id)


def _check_fields(where: str, values: Mapping[str, object], rules: Mapping[str, Rule], trace_id: str) -> None:
    for name in values:
        if name not in rules:
            shown = without_secrets(str(name))[:80]
            raise _refused_event(f"{where}{shown} is no field of it; there are {', '.join(rules)}")
    for name, (wanted, holds) in rules.items():
        if name not in values:
            raise _refused_event(f"{where}{name} is missing: it is {wanted}")
        if not holds(values[name]):
            raise _refused_event(f"{where}{name} has to be {wanted}")
    if values["trace_id"] != trace_id:
        raise _refused_event(f"{where}trace_id has to be the task's: {trace_id}")


def _encode_event(event: Mapping[str, object]) -> bytes:
    try:
        text = json.dumps(event, ensure_ascii=False, allow_nan=False)
        data = text.encode()
        if not text.isprintable():  # what some programs take for the end of a line is spelt out
            data = json.dumps(event, allow_nan=False).encode()
    except RecursionError:
        raise _refused_event("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise _refused_event("it holds an unpaired surrogate") from None
    except (TypeError, ValueError):
        raise _refused_event(
            "a value in it cannot be JSON: a number that is not finite, or a Python object"
        ) from None
    if len(data) + 1 > MAX_EVENT_BYTES:
        size = f"it is {len(data) + 1} bytes long; {MAX_EVENT_BYTES} is the most"
        raise _refused_event(f"{size}, so put the rest in a file")
    for secret in find_secrets("\n".join([text, *_texts_in(event)])):
        raise SecretFound(secret.kind, "the event")
    return data + b"\n"


def _texts_in(event: Mapping[str, object]) -> Iterator[str]:
    """Yield all texts of an event as plain text: after their names, without JSON escapes."""
    waiting: list[tuple[str, object]] = [("", event)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(f"{name} {key}".strip(), inner) for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [(name, inner) for inner in value]
        else:
            yield f"{name}: {value}"


def _refused_event(why: str) -> TextRefused:
    return hinted(TextRefused(f"the event cannot be stored: {why}"), "`memsheaf help task event` has an example.")
