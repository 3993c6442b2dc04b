"""Tasks: pieces of work, each in a folder of its own.

    TASK.md                    title, goal, status, phase, iteration, notes, outcome
    revisions.md               how the plan changed, and why
    verified.md                what was shown to hold, and whether it still does
    phases/phase-1.md          what each phase came to
    deliverables/NAME.md       what the task is to bring
    observability/SLUG.ndjson  events, for those who look into it later

Whoever goes on with it, a person or a model that forgot everything, needs nothing else.

>>> with Sheaf.open(by="user") as memory:                                       # doctest: +SKIP
...     task = start_task(memory, "Feature X", goal="Users can log in", phases=6)
...     task.verify("login", "One can log in")
...     print("\\n".join(task.summary()))
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple
from uuid import uuid4

from memsheaf.errors import (
    BadHeader,
    Exists,
    MemsheafError,
    NotFound,
    Refused,
    ScopeRefused,
    SecretFound,
    TextRefused,
    hinted,
)
from memsheaf.frontmatter import edit_text, join, split
from memsheaf.gates import add_dates
from memsheaf.guard.paths import check_path
from memsheaf.guard.secrets import find_secrets, without_secrets
from memsheaf.limits import retry
from memsheaf.memory import DESCRIPTION_LIMIT, clean_field, utc_time
from memsheaf.open_scope import Look
from memsheaf.scope import check_label, parse_object
from memsheaf.sheaf import Sheaf
from memsheaf.store import Change, Commit, version_of
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import append_bullet, append_section, entries, find_section, lower_headings, sections

TASK_FILE = "TASK.md"
REVISIONS_FILE = "revisions.md"
VERIFIED_FILE = "verified.md"
PHASE_FOLDER = "phases/"
DELIVERABLE_FOLDER = "deliverables/"
EVENT_FOLDER = "observability/"

VERIFIED, REGRESSED = "VERIFIED", "REGRESSED"
MAX_PHASES = 999
MAX_SLUG_CHARS = 60
MAX_SUMMARY_LINE_CHARS = 200
MAX_SUMMARY_ENTRIES = 6  # of each kind
MAX_EVENT_BYTES = 16 * 1024
MAX_EVENT_FILE_BYTES = 32 * 1024  # a file is read and written whole

_REASON_MARK = "**Reason:** "
_NUMBER_PATTERN = "[1-9][0-9]{0,8}"
_HEADER_RULES = {
    "status": ("active|done|dropped", "one of active, done, dropped"),
    "phase": (_NUMBER_PATTERN, "a whole number, 1 or more"),
    "iteration": (_NUMBER_PATTERN, "a whole number, 1 or more"),
    "phases": (f"(?:{_NUMBER_PATTERN})?", "a whole number, 1 or more"),
    "trace_id": (
        "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
        "the UUIDv4 that the task began with; `memsheaf log` knows it",
    ),
}

StepPlan = Callable[[Look, str, "TaskState"], Mapping[str, str]]
"""Given a way to look at files, the text of TASK.md and its state: the files that a step writes."""


class TaskState(NamedTuple):
    """The content of TASK.md. `phases` is 0 when their number is unknown. Notes begin with a day."""

    title: str
    goal: str
    status: str
    phase: int
    phases: int
    iteration: int
    trace_id: str
    notes: list[str]


class VerifiedItem(NamedTuple):
    """Something that was shown to hold: in which iteration first and last, and its status, VERIFIED or REGRESSED."""

    id: str
    description: str
    first: int
    last: int
    status: str


class Task:
    """One task, as its files are; `now` is the content of TASK.md as of the opening, or of the last change.

    Every step is one commit; `commit` is the id of the last, "" when there was none, or it changed nothing.
    """

    def __init__(self, sheaf: Sheaf, commit: Commit | None = None) -> None:
        self.sheaf = sheaf
        self.slug = sheaf.scope.name
        self._load(commit)

    def _load(self, commit: Commit | None) -> None:
        self.commit = commit.id if commit else ""
        self.now = read_task(self.sheaf.read(TASK_FILE).text, self.slug)

    def items(self) -> list[VerifiedItem]:
        """Return what was shown to hold, whether or not it still does. Raises TextRefused if a row is unreadable."""
        return list(_read_table(self._text(VERIFIED_FILE)).values())

    def regressed(self) -> list[VerifiedItem]:
        """Return the items that held once and do not any more."""
        return [item for item in self.items() if item.status == REGRESSED]

    def revisions(self) -> list[str]:
        """Return the changes of the plan, a line each, the oldest first."""
        return _section_lines(self._text(REVISIONS_FILE))

    def reports(self) -> list[str]:
        """Return a line for each phase that has a report: its file, and how the last report on it begins."""
        lines = []
        for path in sorted(self.sheaf.own.files(PHASE_FOLDER), key=lambda path: (len(path), path)):
            if reports := _section_lines(self._text(path)):
                lines.append(f"{path}: {reports[-1]}")
        return lines

    def deliverables(self) -> list[str]:
        """Return the paths of what the task is to bring."""
        return list(self.sheaf.own.files(DELIVERABLE_FOLDER))

    def state(self) -> dict[str, object]:
        """Return all that a program needs to go on after a reset, ready for JSON."""
        return {
            "task": self.slug,
            **self.now._asdict(),
            "phases": self.now.phases or None,
            "verified": [item._asdict() for item in self.items() if item.status == VERIFIED],
            "regressed": [item._asdict() for item in self.regressed()],
            "revisions": self.revisions(),
            "reports": self.reports(),
            "deliverables": self.deliverables(),
            "events": len(self.events()),
        }

    def summary(self) -> list[str]:
        """Return the task in at most 60 lines: what stands in the way, then the newest of the rest."""
        now = self.now
        phase = f"{now.phase} of {now.phases}" if now.phases else str(now.phase)
        lines = [
            one_line(f"Task {self.slug}: {now.title}", MAX_SUMMARY_LINE_CHARS),
            f"{now.status}, phase {phase}, iteration {now.iteration}",
        ]
        items: dict[str, list[str]] = {VERIFIED: [], REGRESSED: []}
        for item in sorted(self.items(), key=lambda item: item.last):
            items[item.status].append(f"{item.id}: {item.description} (iterations {item.first} to {item.last})")
        for title, path, texts in (
            ("Goal", TASK_FILE, now.goal.split("\n")[::-1]),
            ("REGRESSED, to be verified before the task is done", VERIFIED_FILE, items[REGRESSED]),
            ("Verified", VERIFIED_FILE, items[VERIFIED]),
            ("Reports, newest first", PHASE_FOLDER, self.reports()),
            ("Revisions of the plan, newest first", REVISIONS_FILE, self.revisions()),
            ("Deliverables", DELIVERABLE_FOLDER, self.deliverables()),
            ("Notes, newest first", TASK_FILE, now.notes),
        ):
            if texts:
                lines.append(f"{title}:")
            newest = texts[: -MAX_SUMMARY_ENTRIES - 1 : -1]
            lines += [f"- {one_line(text, MAX_SUMMARY_LINE_CHARS)}" for text in newest]
            if len(texts) > len(newest):
                lines.append(f"({len(texts) - len(newest)} more in {path})")
        return [*lines, f"`memsheaf show FILE --scope {self.sheaf.scope}` prints a file of it."]

    def note(self, text: str) -> None:
        """Note something worth knowing, also when the task has ended."""
        text = self._prepare("note", text)
        space = "\n" if text.startswith(("```", "~~~")) else " "  # behind a date, a fence would be none
        entry = f"{self.sheaf.today}:{space}{text}"

        def plan(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            return {TASK_FILE: self._edit(task, append_bullet(split(task).body, "Notes", entry, depth=2))}

        self._step(plan, "note", ended=True)

    def revise(self, reason: str, text: str = "") -> None:
        """Change the plan: another iteration begins."""
        reason = self._prepare_line("reason", reason)
        revision = f"\n{_REASON_MARK}{reason}\n\n{self._prepare('', text)}"

        def plan(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            number = now.iteration + 1
            title = f"Revision {number}, {self.sheaf.today}"
            revisions = append_section(look(REVISIONS_FILE) or "# Revisions", title, revision)
            return {TASK_FILE: self._edit(task, iteration=str(number)), REVISIONS_FILE: revisions}

        self._step(plan, "revise the plan")

    def verify(self, id: str, description: str = "", *, regressed: bool = False) -> tuple[VerifiedItem, str]:
        """Record that an item holds in this iteration, or with `regressed` that it does not any more.

        The first time it needs a description. Returns the item as it is now, and the status it had before; "" when
        it is new.
        """
        id = require_id(id)
        if description:
            description = self._prepare_line("description", description)
        item, before = VerifiedItem(id, description, 0, 0, ""), ""

        def plan(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            nonlocal item, before
            table = look(VERIFIED_FILE) or ""
            known = {item.id: item for item in _read_table(table).values()}
            if id not in known and not description:
                raise _refused(f"{id!r} is new: it needs a description")
            old = known.get(id) or VerifiedItem(id, description, now.iteration, now.iteration, "")
            item = VerifiedItem(
                id,
                description or old.description,
                old.first,
                max(old.first, now.iteration),
                REGRESSED if regressed else VERIFIED,
            )
            before = old.status
            return {VERIFIED_FILE: _with_item(table, item)}

        self._step(plan, f"verify {id}")
        return item, before

    def report(self, text: str, phase: int = 0) -> str:
        """Append a report on a phase, the present one unless another is given, and return the path of its file.

        A report on the present phase goes on to the next one.
        """
        number = phase or self.now.phase  # of two who report at once, both mean the phase that they saw
        path = f"{PHASE_FOLDER}phase-{number}.md"
        text = self._prepare("report", text)

        def plan(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            _require_phase(number, now.phases)
            files = {
                path: append_section(look(path) or f"# Phase {number}", f"Report, {self.sheaf.today}", f"\n{text}")
            }
            if number == now.phase and number < (now.phases or MAX_PHASES):
                files[TASK_FILE] = self._edit(task, phase=str(number + 1))
            return files

        self._step(plan, f"report on phase {number}")
        return path

    def go_to(self, phase: int) -> None:
        """Go to another phase, forward or back."""

        def plan(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            _require_phase(phase, now.phases)
            return {TASK_FILE: self._edit(task, phase=str(phase))} if phase != now.phase else {}

        self._step(plan, f"go to phase {phase}")

    def deliver(self, name: str, text: str) -> str:
        """Save something that the task is to bring, in the place of what has this name, and return its path."""
        path = check_path(f"{DELIVERABLE_FOLDER}{name.strip().removesuffix('.md')}.md")
        if not text.strip():
            raise _refused("the deliverable is empty")

        def plan(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            look(path)
            return {path: text.removesuffix("\n") + "\n"}

        self._step(plan, "deliver", ended=True)
        return path

    def done(self, summary: str = "") -> None:
        """End the task. Raises Refused as long as something is REGRESSED."""
        self._end("done", self._prepare("", summary))

    def drop(self, reason: str) -> None:
        """End the task without having done it."""
        self._end("dropped", self._prepare("reason", reason))

    def _end(self, status: str, outcome: str) -> None:
        def plan(look: Look, task: str, now: TaskState) -> Mapping[str, str]:
            if status == "done":
                items = _read_table(look(VERIFIED_FILE) or "").values()
                if bad := [item.id for item in items if item.status == REGRESSED]:
                    why = f"the task {self.slug!r} is not done: {', '.join(bad)} REGRESSED; verify that first"
                    raise hinted(Refused(why), "`memsheaf task status` shows what stands in the way.")
            body = append_section(split(task).body, f"{status.capitalize()}, {self.sheaf.today}", f"\n{outcome}")
            return {TASK_FILE: self._edit(task, body, status=status)}

        self._step(plan, f"the task is {status}")

    def _step(self, plan: StepPlan, why: str, *, ended: bool = False) -> None:
        """Make a step, one commit; with `ended` also when the task has."""

        def plan_files(look: Look) -> Mapping[str, str]:
            task = look(TASK_FILE)
            if task is None:
                raise NotFound(str(self.sheaf.scope))
            now = read_task(task, self.slug)
            if now.status != "active" and not ended:
                hint = f"Undo with `memsheaf undo --scope {self.sheaf.scope}`; `memsheaf task start` begins another."
                raise hinted(Refused(f"the task {self.slug!r} is {now.status}"), hint)
            return plan(look, task, now)

        self._load(self.sheaf.own.change_files(plan_files, why))

    def _edit(self, task: str, body: str | None = None, **fields: str) -> str:
        return edit_text(task, fields={**fields, "updated": self.sheaf.today}, body=body)

    def _prepare(self, label: str, text: str) -> str:
        """Return a text as it is stored: dates beside days such as "tomorrow", headings below ours.

        Raises TextRefused when it is empty and has a label.
        """
        if label and not text.strip():
            raise _refused(f"the {label} is empty")
        return lower_headings(add_dates(text, self.sheaf.today))

    def _prepare_line(self, label: str, text: str) -> str:
        return clean_field(label, " ".join(self._prepare(label, text).split()))

    def _text(self, path: str) -> str:
        memory = self.sheaf.own.find(path)
        return memory.text if memory else ""

    def event(self, event: Mapping[str, object]) -> dict[str, object]:
        """Append an event, with time, agent, phase and trace filled in, and return it.

        Raises:
            TextRefused: a field is not what it has to be, or the event is too long.
            SecretFound: there is a secret in it.
        """
        sheaf, now = self.sheaf, self.now
        ts = utc_time(sheaf.clock(), milliseconds=True)
        complete = {"trace_id": now.trace_id, "ts": ts, "agent": sheaf.by, "phase": now.phase, **event}
        line = _encode_event(complete, now.trace_id)
        sheaf.own.require_writable()

        def append() -> Commit:
            number = max(self._event_numbers(), default=1)
            present = self._event_bytes(number)
            if present and len(present) + len(line) > MAX_EVENT_FILE_BYTES:
                number, present = number + 1, b""
            # an editor may have left the last line open
            end = b"\n" if present and not present.endswith(b"\n") else b""
            change = Change(self._event_path(number), present + end + line, version_of(present or None))
            return sheaf.own.store.commit([change], by=sheaf.by, why=f"event {complete['event_type']}")

        self.commit = retry(append, busy=f"the events of {sheaf.scope} change faster than they can be read").id
        return complete

    def events(self) -> list[tuple[str, Mapping[str, object] | None]]:
        """Return every line of events, the newest first, each with its event; None for a line that is no JSON object.

        Events are for whoever looks into them. Nothing is decided by what is in them.
        """
        data = b"\n".join(map(self._event_bytes, self._event_numbers()))
        lines = data.decode("utf-8", "replace").split("\n")
        return [(line, parse_object(line)) for line in reversed(lines) if line.strip()]

    def _event_numbers(self) -> list[int]:
        """Return the numbers of the files of events, in order; the first has none in its name."""
        name = re.compile(rf"{EVENT_FOLDER}{self.slug}(?:-([2-9]|[1-9][0-9]{{1,3}}))?\.ndjson")
        return sorted(int(match[1] or 1) for match in map(name.fullmatch, self.sheaf.own.store.events()) if match)

    def _event_path(self, number: int) -> str:
        return f"{EVENT_FOLDER}{self.slug}{f'-{number}' if number > 1 else ''}.ndjson"

    def _event_bytes(self, number: int) -> bytes:
        try:
            return self.sheaf.own.store.read(self._event_path(number)).data
        except NotFound:
            return b""


def start_task(layers: Sheaf, title: str, *, goal: str = "", phases: int = 0, slug: str = "") -> Task:
    """Begin a task; its slug is made from the title unless one is given.

    Raises:
        Exists: there is a task of that slug.
        ScopeRefused, TextRefused, SecretFound: the title, the slug or the goal may not be stored.
    """
    for secret in find_secrets(f"{title}\n{slug}"):
        raise SecretFound(secret.kind, "the title")
    try:
        title = clean_field("name", title)
        name = check_label(slug.rstrip("-") or make_slug(title), "task")
    except TextRefused as error:
        raise hinted(error, "The title is one short line; --goal TEXT says more.") from None
    except ScopeRefused as error:
        raise hinted(error, "--slug NAME chooses the name: letters, digits and hyphens.") from None
    sheaf = layers.only(f"task/{name}")
    text = new_task(title, add_dates(goal, sheaf.today), phases=phases, today=sheaf.today, by=sheaf.by)

    def plan(look: Look) -> Mapping[str, str]:
        if look(TASK_FILE) is not None:
            hint = f"`memsheaf task status --task {name}` shows it; --slug NAME chooses another name for a new one."
            raise hinted(Exists(str(sheaf.scope)), hint)
        return {TASK_FILE: text}

    return Task(sheaf, sheaf.own.change_files(plan, "start the task"))


def open_task(layers: Sheaf, slug: str = "") -> Task:
    """Return the task that is meant: the one named, the one chosen at the start, or the only active one.

    Raises:
        NotFound: there is none.
        ScopeRefused: several could be meant.
        BadHeader: its TASK.md is not understood.
    """
    advice = "`memsheaf task list` shows which there are, `memsheaf task start TITLE` begins one."
    try:
        name = layers.work.choose("task", slug)
    except ScopeRefused as error:
        raise hinted(error, advice) from None
    except NotFound:
        raise hinted(NotFound("task/", "there is no active task"), advice) from None
    if name not in layers.work.names("task"):  # to look at a task that is not there makes nothing
        raise hinted(NotFound(f"task/{name}", f"there is no task {name!r}"), advice)
    return Task(layers.only(f"task/{name}"))


def list_tasks(layers: Sheaf) -> list[tuple[str, TaskState | None, str]]:
    """Return each task of the project: its slug and its state, or None and why it cannot be read."""
    tasks: list[tuple[str, TaskState | None, str]] = []
    for slug in layers.work.names("task"):
        try:
            tasks.append((slug, Task(layers.only(f"task/{slug}")).now, ""))
        except NotFound:
            continue  # a scope that somebody keeps memories in, and no task
        except MemsheafError as error:
            tasks.append((slug, None, str(error)))
    return tasks


def make_slug(title: str) -> str:
    """Return a title as the name of a task's folder.

    >>> make_slug("Feature X: log in, log out!"), make_slug("登录")
    ('feature-x-log-in-log-out', 'task-1e2df9')
    """
    plain = unicodedata.normalize("NFKD", title.casefold()).encode("ascii", "ignore").decode()
    label = "-".join(re.findall("[a-z0-9]+", plain))[:MAX_SLUG_CHARS].rstrip("-")
    return label or f"task-{sha256(title.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"


# TASK.md is a header with status, phase, iteration and trace id, and the sections Goal, Notes, and how it ended.


def new_task(title: str, goal: str, *, phases: int, today: str, by: str) -> str:
    """Return the text of a task that begins. Raises TextRefused, Refused."""
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
        "status": "active",
        "phase": "1",
        "iteration": "1",
        "trace_id": str(uuid4()),
    }
    if phases:
        _require_phase(phases, MAX_PHASES)
        fields["phases"] = str(phases)
    return join(fields, f"## Goal\n\n{lower_headings(goal) or title}\n\n## Notes\n")


def read_task(text: str, slug: str) -> TaskState:
    """Parse TASK.md. Raises BadHeader when its header is not that of a task."""
    page = split(text)
    why = page.problem
    if not why and not page.head:
        why = "there is none"
    for name, (pattern, rule) in _HEADER_RULES.items():
        if not why and not re.fullmatch(pattern, page.get(name)):
            why = f"{name} has to be {rule}"
    if why:
        raise hinted(
            BadHeader(f"task/{slug}/{TASK_FILE}", why), f"`memsheaf edit --scope task/{slug} {TASK_FILE}` opens it."
        )
    goal = find_section(page.body, "Goal", depth=2)
    notes = find_section(page.body, "Notes", depth=2)
    return TaskState(
        title=page.get("name"),
        goal=goal.text if goal else "",
        status=page.get("status"),
        phase=int(page.get("phase")),
        phases=int(page.get("phases") or 0),
        iteration=int(page.get("iteration")),
        trace_id=page.get("trace_id"),
        notes=[entry.text for entry in entries(notes)] if notes else [],
    )


def _section_lines(text: str) -> list[str]:
    """Return the sections of a file, a line each."""
    lines = []
    for part in sections(text.replace("\r\n", "\n"), depth=2):
        if part.level == 2:
            below = part.text.removeprefix(_REASON_MARK).replace("\n\n", ": ")
            lines.append(one_line(f"{part.title}: {below}", MAX_SUMMARY_LINE_CHARS))
    return lines


def _require_phase(phase: int, last: int) -> None:
    """Raise Refused if there is no such phase; `last` is 0 when their number is unknown."""
    last = last or MAX_PHASES
    if not 1 <= phase <= last:
        error = Refused(f"there is no phase {phase}: the phases are 1 to {last}")
        raise hinted(error, "`memsheaf task status` shows the phases.")


# verified.md is a Markdown table. A person may edit it, so it is read strictly: a row that cannot be read is an error
# that names its line. To skip it would be to forget a regression.

_TABLE_HEAD = "| id | description | first | last | status |\n|---|---|---|---|---|"
_HEAD_LINE = r"(?i)\|\s*id\s*\|\s*description\s*\|\s*first\s*\|\s*last\s*\|\s*status\s*\||\|(?:\s*:?-+:?\s*\|){5}"
_ID_PATTERN = r"[^\s|\\]{1,64}"
_ROW_PATTERN = (
    rf"\|\s*({_ID_PATTERN})\s*\|\s*(\S(?:[^|]|(?<=\\)\|)*?)\s*"
    rf"\|\s*({_NUMBER_PATTERN})\s*\|\s*({_NUMBER_PATTERN})\s*\|\s*(VERIFIED|REGRESSED)\s*\|"
)


def _read_table(text: str) -> dict[int, VerifiedItem]:
    """Return the items of a table by the number of their line, from 0. Raises TextRefused for an unreadable line."""
    rows: dict[int, VerifiedItem] = {}
    for number, line in enumerate(text.split("\n")):
        line = line.strip()
        if "|" not in line or re.fullmatch(_HEAD_LINE, line):
            continue
        row = re.fullmatch(_ROW_PATTERN, line)
        if row is None or row[1] in [item.id for item in rows.values()]:
            why = "is no row such as | login | One can log in | 1 | 3 | VERIFIED |, or its id stands there twice"
            error = TextRefused(f"{VERIFIED_FILE}, line {number + 1} {why}")
            raise hinted(error, f"Fix it in {VERIFIED_FILE} of the task, with `memsheaf edit` or any editor.")
        rows[number] = VerifiedItem(row[1], row[2].replace("\\|", "|"), int(row[3]), int(row[4]), row[5])
    return rows


def _with_item(text: str, item: VerifiedItem) -> str:
    """Return the table with an item in its row, or in a new one at the end; every other line as it was."""
    end = "\r\n" if "\r\n" in text else "\n"
    description = item.description.replace("|", "\\|")
    row = f"| {item.id} | {description} | {item.first} | {item.last} | {item.status} |"
    lines = text.rstrip().split(end)
    numbers = {old.id: number for number, old in _read_table(text).items()}
    if item.id in numbers:
        lines[numbers[item.id]] = row
    elif numbers:
        lines.append(row)
    else:
        lines = [text.rstrip() or "# Verified", "", *_TABLE_HEAD.split("\n"), row]
    return end.join([*lines, ""])


def require_id(given: str) -> str:
    """Return an id as it is stored. Raises TextRefused."""
    with suppress(TextRefused):
        id = unicodedata.normalize("NFC", clean_field("id", given))
        if re.fullmatch(_ID_PATTERN, id):
            return id
    error = TextRefused(f"the id {given[:80]!r} is not allowed: it is 1 to 64 characters without spaces, | and \\")
    raise hinted(error, "Take one word, such as login or api-2.")


def _refused(why: str) -> TextRefused:
    return hinted(TextRefused(why), "`memsheaf help task` has examples.")


# Events are NDJSON, append-only. Each field has words for what it has to be, and a pattern that its JSON must match.

_AGENT_RULE = ("the name of an agent: 1 to 64 letters, digits and hyphens", '"[A-Za-z0-9-]{1,64}"')
_OBJECT_RULE = ("a JSON object", r"\{.*\}")
_OPTIONAL_OBJECT_RULE = ("a JSON object, or left out", r"(?:\{.*\})?")
_TEXT_RULE = ("a text that says something", r'".*\S.*"')
_TRACE_RULE = ("the trace id of the task", '".*"')


def _one_of(*values: str) -> tuple[str, str]:
    return f"one of {', '.join(values)}", f'"(?:{"|".join(values)})"'


_EVENT_FIELDS = {
    "trace_id": _TRACE_RULE,
    "ts": (
        "a time in UTC with milliseconds, such as 2026-11-15T09:30:00.000Z",
        r'"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z"',
    ),
    "agent": _AGENT_RULE,
    "phase": ("a whole number, 0 or more, or null", r"\d+|null"),
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
    "payload": _OBJECT_RULE,
}
_GATE_FIELDS = {
    "schema_version": _one_of("1.1.0"),
    "agent": _AGENT_RULE,
    "event_type": _one_of(
        "PLAN_GATE", "PREFLECT_GATE", "PHASE_REVIEW_GATE", "HIGH_RISK_APPROVAL_GATE", "COMPLETION_GATE"
    ),
    "workflow_state": _one_of("PLANNING", "ACTING", "REVIEWING", "WAITING_APPROVAL", "COMPLETE"),
    "phase_id": ("a whole number, 1 or more, or null", r"[1-9]\d*|null"),
    "decision": _one_of("GO", "REPLAN", "ABSTAIN", "BLOCKED"),
    "confidence": ("a number from 0 to 1", r"[01](?:\.0)?|0\.\d+|\d(?:\.\d+)?e-\d+"),
    "requires_human_approval": ("true or false", "true|false"),
    "reason": _TEXT_RULE,
    "next_action": _TEXT_RULE,
    "trace_id": _TRACE_RULE,
    "iteration_index": ("a whole number, 0 or more", r"\d+"),
    "max_iterations": ("a whole number from 1 to 5", "[1-5]"),
    "safety_checks": _OPTIONAL_OBJECT_RULE,
    "verifier_statuses": _OPTIONAL_OBJECT_RULE,
    "diagnosis_packet": _OPTIONAL_OBJECT_RULE,
}


def read_event(text: str) -> dict[str, object]:
    """Parse an event. Raises TextRefused when it is no JSON object."""
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused_event(f"it is not JSON: {error}") from None
    if not isinstance(event, dict):
        raise _refused_event('it is not a JSON object, such as {"event_type": "discovery", "payload": {}}')
    return event


def _encode_event(event: Mapping[str, object], trace_id: str) -> bytes:
    """Return the line of an event. Raises TextRefused, SecretFound."""
    try:
        text = json.dumps(event, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused_event(f"a value in it cannot be JSON: {error}") from None
    if not text.isprintable():  # what some programs take for the end of a line is spelt out
        text = json.dumps(event)
        size = len(text)
    if size >= MAX_EVENT_BYTES:
        raise _refused_event(f"it is {size + 1} bytes long; {MAX_EVENT_BYTES} is the most: put the rest in a file")
    plain = json.dumps(event, ensure_ascii=False, indent=0).replace('\\"', '"').replace("\\n", "\n")
    for secret in find_secrets(plain):
        raise SecretFound(secret.kind, "the event")
    _check_fields("", event, _EVENT_FIELDS, trace_id)
    payload = event["payload"]
    if event["event_type"] == "gate_event" and isinstance(payload, Mapping):
        _check_fields("payload.", payload, _GATE_FIELDS, trace_id)
    return f"{text}\n".encode()


def _check_fields(
    where: str, values: Mapping[str, object], rules: Mapping[str, tuple[str, str]], trace_id: str
) -> None:
    """Raise TextRefused when a field is missing, unknown or wrong; the message names it and what is allowed."""
    for name in values:
        if name not in rules:
            shown = without_secrets(str(name))[:80]
            raise _refused_event(f"{where}{shown} is no field of it; there are {', '.join(rules)}")
    for name, (rule, pattern) in rules.items():
        text = json.dumps(values[name], ensure_ascii=False) if name in values else ""
        if not re.fullmatch(pattern, text, re.ASCII | re.DOTALL):
            problem = "has to be" if name in values else "is missing: it is"
            raise _refused_event(f"{where}{name} {problem} {rule}")
    if values["trace_id"] != trace_id:
        raise _refused_event(f"{where}trace_id has to be the task's: {trace_id}")


def _refused_event(why: str) -> TextRefused:
    return hinted(TextRefused(f"the event cannot be stored: {why}"), "`memsheaf help task event` has an example.")
