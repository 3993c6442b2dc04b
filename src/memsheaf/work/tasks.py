"""Tasks: pieces of work, each in a folder of its own.

    TASK.md                    title, goal, notes and outcome; in the header status, phase, iteration, trace_id
    revisions.md               how the plan changed, and why
    verified.md                what was shown to hold, and whether it still does
    phases/phase-1.md          what each phase came to
    deliverables/NAME.md       what the task is to bring
    observability/SLUG.ndjson  events, for those who look into it later

Each function here makes a file from a template or adds to one. A task cannot be done as long as an item in
verified.md is REGRESSED; nothing else holds it up.

>>> with Sheaf.open(by="user") as memory:                                       # doctest: +SKIP
...     task = start_task(memory, "Feature X", goal="Users can log in")
...     task.verify("login", "One can log in")
...     print(task.summary())
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple
from uuid import uuid4

from memsheaf.errors import (
    BadHeader,
    Exists,
    NotFound,
    Refused,
    ScopeRefused,
    SecretFound,
    TextRefused,
)
from memsheaf.frontmatter import edit_text, join, split
from memsheaf.gates import add_dates
from memsheaf.guard.paths import check_path
from memsheaf.guard.secrets import find_secrets, without_secrets
from memsheaf.memory import DESCRIPTION_LIMIT, Memory, clean_field, utc_time
from memsheaf.open_scope import Look, retry
from memsheaf.scope import check_label, parse_object
from memsheaf.sheaf import Sheaf
from memsheaf.store import Change, Commit, version_of
from memsheaf.text.neutralize import cut_bytes, one_line
from memsheaf.text.sections import append_bullet, append_section, lower_headings, sections

TASK_FILE = "TASK.md"
REVISIONS_FILE = "revisions.md"
VERIFIED_FILE = "verified.md"
PHASE_FOLDER = "phases/"
DELIVERABLE_FOLDER = "deliverables/"
EVENT_FOLDER = "observability/"

VERIFIED, REGRESSED = "VERIFIED", "REGRESSED"
MAX_SLUG_CHARS = 60
MAX_LINE_CHARS = 200
MAX_EVENT_BYTES = 16 * 1024
MAX_EVENT_FILE_BYTES = 32 * 1024  # a file is read and written whole

StepPlan = Callable[[Look, str], Mapping[str, str]]
"""Given a way to look at files and the text of TASK.md: the files that a step writes."""


class VerifiedItem(NamedTuple):
    """Something that was shown to hold: in which iteration first and last, and its status, VERIFIED or REGRESSED."""

    id: str
    description: str
    first: int
    last: int
    status: str


class Task:
    """One task; every step is one commit. `commit` is the id of the last, "" when there was none.

    `status` is one of active, done and dropped; `phase` is the phase that the work is in, and `iteration` how often
    the plan was made, both from 1. All events of the task have its `trace_id`. Raises BadHeader.
    """

    def __init__(self, sheaf: Sheaf) -> None:
        self.sheaf = sheaf
        self.slug = sheaf.scope.name
        self._load(None)

    def _load(self, commit: Commit | None) -> None:
        self.commit = commit.id if commit else ""
        file = self.sheaf.read(TASK_FILE)
        self.title = file.name
        self.body = file.body
        self.status = file.page.get("status")
        self.trace_id = file.page.get("trace_id")
        self.phase = _number(file.text, "phase", self.slug)
        self.iteration = _number(file.text, "iteration", self.slug)

    def items(self) -> list[VerifiedItem]:
        """Return what was shown to hold, whether or not it still does. Raises TextRefused if a row is unreadable."""
        return read_items(self._text(VERIFIED_FILE))

    def regressed(self) -> list[VerifiedItem]:
        """Return the items that held once and do not any more."""
        return [item for item in self.items() if item.status == REGRESSED]

    def revisions(self) -> list[str]:
        """Return the changes of the plan, a line each, the oldest first."""
        parts = sections(self._text(REVISIONS_FILE), depth=2)
        lines = (" ".join(f"{part.title}: {part.text}".split()) for part in parts if part.level == 2)
        return [one_line(line.replace("**Reason:** ", ""), MAX_LINE_CHARS) for line in lines]

    def files(self) -> list[str]:
        """Return the paths of the files beside TASK.md, but for events."""
        return [path for path in [row.path for row in self.sheaf.list()] if path != TASK_FILE]

    def state(self) -> dict[str, object]:
        """Return all that a program needs to go on after a reset, ready for JSON."""
        items = self.items()
        return {
            "task": self.slug,
            "title": self.title,
            "status": self.status,
            "phase": self.phase,
            "iteration": self.iteration,
            "trace_id": self.trace_id,
            "text": self.body,
            "verified": [item._asdict() for item in items if item.status == VERIFIED],
            "regressed": [item._asdict() for item in items if item.status == REGRESSED],
            "revisions": self.revisions(),
            "files": self.files(),
        }

    def summary(self) -> str:
        """Return where the task stands: what is in the way first, then TASK.md, and where the rest is."""
        items = sorted(self.items(), key=lambda item: (item.status != REGRESSED, -item.last))
        lines = [
            f"Task {self.slug}: {self.title}",
            f"{self.status}, phase {self.phase}, iteration {self.iteration}",
            *(f"{item.status} {item.id}: {item.description}" for item in items),
        ]
        lines = [one_line(line, MAX_LINE_CHARS) for line in lines]
        lines += ["", self.body.strip(), "", *(f"File: {path}" for path in self.files())]
        return "\n".join([*lines, f"`memsheaf show FILE --scope {self.sheaf.scope}` prints a file of it."])

    def note(self, text: str) -> None:
        """Note something worth knowing."""
        text = self._prepare("note", text)
        space = "\n" if text.startswith(("```", "~~~")) else " "  # behind a date, a fence would be none
        entry = f"{self.sheaf.today}:{space}{text}"

        def plan(look: Look, task: str) -> Mapping[str, str]:
            return {TASK_FILE: self._edit(task, append_bullet(split(task).body, "Notes", entry, depth=2))}

        self._step(plan, "note")

    def revise(self, reason: str, text: str = "") -> None:
        """Change the plan: another iteration begins."""
        reason = " ".join(self._prepare("reason", reason).split())
        revision = f"\n**Reason:** {reason}\n\n{self._prepare('', text)}"

        def plan(look: Look, task: str) -> Mapping[str, str]:
            number = _number(task, "iteration", self.slug) + 1
            title = f"Revision {number}, {self.sheaf.today}"
            revisions = append_section(look(REVISIONS_FILE) or "# Revisions", title, revision)
            return {TASK_FILE: self._edit(task, iteration=str(number)), REVISIONS_FILE: revisions}

        self._step(plan, "revise the plan")

    def verify(self, id: str, description: str = "", *, regressed: bool = False) -> VerifiedItem:
        """Record that an item holds in this iteration, or with `regressed` that it does not any more.

        The first time it needs a description. Returns the item as it is now.
        """
        if not re.fullmatch(_ID_PATTERN, id):
            raise _refusal(f"the id {id[:80]!r} is not allowed: it is 1 to 64 characters without spaces, | and \\")
        id = clean_field("id", id)
        if description:
            description = clean_field("description", " ".join(self._prepare("", description).split()))
        item = VerifiedItem(id, description, 0, 0, REGRESSED if regressed else VERIFIED)

        def plan(look: Look, task: str) -> Mapping[str, str]:
            nonlocal item
            iteration = _number(task, "iteration", self.slug)
            table = look(VERIFIED_FILE) or _EMPTY_TABLE
            known = {known.id: known for known in read_items(table)}
            if id in known:
                item = item._replace(description=description or known[id].description, first=known[id].first)
            elif description:
                item = item._replace(first=iteration)
            else:
                raise _refusal(f"{id!r} is new: it needs a description")
            item = item._replace(last=max(item.first, iteration))
            return {VERIFIED_FILE: _with_item(table, item)}

        self._step(plan, f"verify {id}")
        return item

    def report(self, text: str, phase: int = 0) -> str:
        """Append a report on a phase, the present one unless another is given, and return the path of its file.

        The phase after it is the present one from then on.
        """
        number = phase or self.phase  # of two who report at once, both mean the phase that they saw
        path = f"{PHASE_FOLDER}phase-{number}.md"
        text = self._prepare("report", text)

        def plan(look: Look, task: str) -> Mapping[str, str]:
            report = append_section(look(path) or f"# Phase {number}", f"Report, {self.sheaf.today}", f"\n{text}")
            return {path: report, TASK_FILE: self._edit(task, phase=str(number + 1))}

        self._step(plan, f"report on phase {number}")
        return path

    def deliver(self, name: str, text: str) -> str:
        """Save something that the task is to bring, in the place of what has this name, and return its path."""
        path = check_path(f"{DELIVERABLE_FOLDER}{name.strip().removesuffix('.md')}.md")
        if not text.strip():
            raise _refusal("the deliverable is empty")

        def plan(look: Look, task: str) -> Mapping[str, str]:
            look(path)
            return {path: text.removesuffix("\n") + "\n"}

        self._step(plan, "deliver")
        return path

    def done(self, summary: str = "") -> None:
        """End the task. Raises Refused as long as something is REGRESSED."""
        self._end("done", self._prepare("", summary))

    def drop(self, reason: str) -> None:
        """End the task without having done it."""
        self._end("dropped", self._prepare("reason", reason))

    def _end(self, status: str, outcome: str) -> None:
        def plan(look: Look, task: str) -> Mapping[str, str]:
            items = read_items(look(VERIFIED_FILE) or "") if status == "done" else ()
            if bad := [item.id for item in items if item.status == REGRESSED]:
                why = f"the task {self.slug!r} is not done: {', '.join(bad)} REGRESSED; verify that first"
                raise Refused(why, hint="`memsheaf task status` shows what stands in the way.")
            body = append_section(split(task).body, f"{status.capitalize()}, {self.sheaf.today}", f"\n{outcome}")
            return {TASK_FILE: self._edit(task, body, status=status)}

        self._step(plan, f"the task is {status}")

    def _step(self, plan: StepPlan, why: str) -> None:
        def plan_files(look: Look) -> Mapping[str, str]:
            task = look(TASK_FILE)
            if task is None:
                raise NotFound(str(self.sheaf.scope))
            return plan(look, task)

        self._load(self.sheaf.own.change_files(plan_files, why))

    def _edit(self, task: str, body: str | None = None, **fields: str) -> str:
        return edit_text(task, fields={**fields, "updated": self.sheaf.today}, body=body)

    def _prepare(self, label: str, text: str) -> str:
        """Return a text as it is stored: dates beside days such as "tomorrow", headings below ours.

        Raises TextRefused when it is empty and has a label.
        """
        if label and not text.strip():
            raise _refusal(f"the {label} is empty")
        return lower_headings(add_dates(text, self.sheaf.today))

    def _text(self, path: str) -> str:
        memory = self.sheaf.own.find(path)
        return memory.text if memory else ""

    def event(self, event: Mapping[str, object]) -> dict[str, object]:
        """Append an event, with time, agent, phase and trace filled in, and return it.

        Raises:
            TextRefused: a field is not what it has to be, or the event is too long.
            SecretFound: there is a secret in it.
        """
        sheaf = self.sheaf
        ts = utc_time(sheaf.clock(), milliseconds=True)
        complete = {"trace_id": self.trace_id, "ts": ts, "agent": sheaf.by, "phase": self.phase, **event}
        line = _encode_event(complete, self.trace_id)
        sheaf.own.require_writable()

        def append() -> Commit:
            number = len(self._event_files()) or 1
            path = self._event_file(number)
            present = self._event_bytes(path)
            if present and len(present) + len(line) > MAX_EVENT_FILE_BYTES:
                path, present = self._event_file(number + 1), b""
            before = present.removesuffix(b"\n") + b"\n" if present else b""  # an editor may have left the line open
            change = Change(path, before + line, version_of(present or None))
            return sheaf.own.store.commit([change], by=sheaf.by, why=f"event {complete['event_type']}")

        self._load(retry(append, busy=f"the events of {sheaf.scope} change faster than they can be read"))
        return complete

    def events(self) -> list[tuple[str, Mapping[str, object] | None]]:
        """Return every line of events, the newest first, each with its event; None for a line that is no JSON object.

        Events are for whoever looks into them. Nothing is decided by what is in them.
        """
        data = b"\n".join(map(self._event_bytes, self._event_files()))
        lines = data.decode("utf-8", "replace").split("\n")
        return [(line, parse_object(line)) for line in reversed(lines) if line.strip()]

    def _event_files(self) -> list[str]:
        """Return the files of events, the oldest first: each is full when the next begins."""
        return sorted(self.sheaf.own.store.events(), key=lambda path: (len(path), path))

    def _event_file(self, number: int) -> str:
        return f"{EVENT_FOLDER}{self.slug}{f'-{number}' if number > 1 else ''}.ndjson"

    def _event_bytes(self, path: str) -> bytes:
        try:
            return self.sheaf.own.store.read(path).data
        except NotFound:
            return b""


def start_task(layers: Sheaf, title: str, *, goal: str = "", slug: str = "") -> Task:
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
        error.hint = "The title is one short line; --goal TEXT says more."
        raise
    except ScopeRefused as error:
        error.hint = "--slug NAME chooses the name: letters, digits and hyphens."
        raise
    sheaf = layers.only(f"task/{name}")
    text = new_task(title, add_dates(goal, sheaf.today), today=sheaf.today, by=sheaf.by)

    def plan(look: Look) -> Mapping[str, str]:
        if look(TASK_FILE) is not None:
            hint = f"`memsheaf task status -s task/{name}` shows it; another title has another name."
            raise Exists(str(sheaf.scope), hint=hint)
        return {TASK_FILE: text}

    sheaf.own.change_files(plan, "start the task")
    return Task(sheaf)


def open_task(layers: Sheaf, slug: str = "") -> Task:
    """Return the task that is meant: the one named, the one chosen at the start, or the only active one.

    Raises:
        NotFound: there is none.
        ScopeRefused: several could be meant.
    """
    advice = "`memsheaf task status --all` shows which there are, `memsheaf task start TITLE` begins one."
    try:
        name = layers.work.choose("task", slug)
    except ScopeRefused as error:
        error.hint = advice
        raise
    except NotFound:
        raise NotFound("task/", "there is no active task", hint=advice) from None
    if name not in layers.work.names("task"):  # to look at a task that is not there makes nothing
        raise NotFound(f"task/{name}", f"there is no task {name!r}", hint=advice)
    return Task(layers.only(f"task/{name}"))


def list_tasks(layers: Sheaf) -> list[Memory]:
    """Return the file TASK.md of each task of the project."""
    files = (layers.only(f"task/{slug}").own.find(TASK_FILE) for slug in layers.work.names("task"))
    return [memory for memory in files if memory]


def make_slug(title: str) -> str:
    """Return a title as the name of a task's folder.

    >>> make_slug("Feature X: log in, log out!"), make_slug("登录")
    ('feature-x-log-in-log-out', 'task-1e2df9')
    """
    plain = unicodedata.normalize("NFKD", title.casefold()).encode("ascii", "ignore").decode()
    label = "-".join(re.findall("[a-z0-9]+", plain))[:MAX_SLUG_CHARS].rstrip("-")
    return label or f"task-{sha256(title.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"


def new_task(title: str, goal: str, *, today: str, by: str) -> str:
    """Return the text of a task that begins."""
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
    return join(fields, f"## Goal\n\n{lower_headings(goal) or title}\n\n## Notes\n")


def _number(task: str, key: str, slug: str) -> int:
    """Return a number of the header of TASK.md. Raises BadHeader."""
    page = split(task)
    value = page.get(key)
    if not re.fullmatch("[1-9][0-9]{0,8}", value):
        why = page.problem or f"{key} has to be a whole number, 1 or more"
        hint = f"`memsheaf edit --scope task/{slug} {TASK_FILE}` opens it."
        raise BadHeader(f"task/{slug}/{TASK_FILE}", why, hint=hint)
    return int(value)


# verified.md is a Markdown table. A person may edit it, so it is read strictly: a row that cannot be read is an error
# that names its line. To skip it would be to forget a regression.

_EMPTY_TABLE = "# Verified\n\n| id | description | first | last | status |\n|---|---|---|---|---|\n"
_HEAD_LINE = r"(?i)\|\s*id\s*\|\s*description\s*\|\s*first\s*\|\s*last\s*\|\s*status\s*\||\|(?:\s*:?-+:?\s*\|){5}"
_ID_PATTERN = r"[^\s|\\]{1,64}"
_ROW_PATTERN = (
    rf"\|\s*({_ID_PATTERN})\s*\|\s*(\S(?:[^|]|(?<=\\)\|)*?)\s*"
    r"\|\s*([1-9][0-9]{0,8})\s*\|\s*([1-9][0-9]{0,8})\s*\|\s*(VERIFIED|REGRESSED)\s*\|"
)


def read_items(text: str) -> list[VerifiedItem]:
    """Return the items of a table. Raises TextRefused for an unreadable line."""
    items: dict[str, VerifiedItem] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if "|" not in line or re.fullmatch(_HEAD_LINE, line):
            continue
        row = re.fullmatch(_ROW_PATTERN, line)
        if row is None or row[1] in items:
            why = "is no row such as | login | One can log in | 1 | 3 | VERIFIED |, or its id stands there twice"
            raise TextRefused(
                f"{VERIFIED_FILE}, line {number} {why}",
                hint=f"Fix it in {VERIFIED_FILE} of the task, with `memsheaf edit` or any editor.",
            )
        items[row[1]] = VerifiedItem(row[1], row[2].replace("\\|", "|"), int(row[3]), int(row[4]), row[5])
    return list(items.values())


def _with_item(table: str, item: VerifiedItem) -> str:
    """Return the table with an item in its row, or in a new one at the end; every other line as it was."""
    description = item.description.replace("|", "\\|")
    row = f"| {item.id} | {description} | {item.first} | {item.last} | {item.status} |"
    changed, count = re.subn(rf"(?m)^\s*\|\s*{re.escape(item.id)}\s*\|[^\r\n]*", lambda old: row, table)
    return changed if count else f"{table.rstrip()}\n{row}\n"


def _refusal(why: str) -> TextRefused:
    return TextRefused(why, hint="`memsheaf help task` has examples.")


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
        text = json.dumps(event, allow_nan=False)  # ASCII: some programs take other characters for the end of a line
    except (TypeError, ValueError, RecursionError) as error:
        raise _refused_event(f"a value in it cannot be JSON: {error}") from None
    if len(text) >= MAX_EVENT_BYTES:
        raise _refused_event(f"it is {len(text) + 1} bytes long; {MAX_EVENT_BYTES} is the most: put it in a file")
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
    return TextRefused(f"the event cannot be stored: {why}", hint="`memsheaf help task event` has an example.")
