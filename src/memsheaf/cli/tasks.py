"""Commands for tasks: one piece of work, its plan, what was verified, and what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from memsheaf.cli.call import pick, plural
from memsheaf.cli.command import TASK, Argument, Usage, group, positive, text
from memsheaf.cli.output import Note, Table
from memsheaf.errors import MemsheafError
from memsheaf.text.neutralize import one_line
from memsheaf.work import events, promotion, tasks
from memsheaf.work.notes import Notes
from memsheaf.work.notes_text import objective_of

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call
    from memsheaf.work.events import EventLine
    from memsheaf.work.layers import Layers
    from memsheaf.work.task import Task
    from memsheaf.work.task_files import VerifiedItem
    from memsheaf.work.tasks import ListedTask

LIMIT = 20

_SLUG = Argument("slug", "which task, as --task says it", "SLUG", complete="tasks")
TEXT = Argument("text", "what to note; - reads standard input, which is also the way when it is left out", "TEXT")

task = group(
    """Keep what belongs to one piece of work: its plan, phases, verified items and events.

    Each step is one commit: `memsheaf undo --scope task/SLUG` takes it back, an event only when its commit is named.

    examples:
      memsheaf task start "Feature X" --goal "Users can log in" --phases 6
      memsheaf task verify login "One can log in with a password"
      memsheaf task verify login --regressed
      memsheaf task phase --report "The schema is there; migrations run."
      memsheaf task revise --reason "The API is rate limited" "Ask in batches of 50."
      echo '{"event_type": "discovery", "payload": {"found": "two caches"}}' | memsheaf task event -
      memsheaf task status feature-x --json
      memsheaf task done --summary "Users can log in."
    """,
    scoped=False,
)


@task.action(
    Argument("title", "what the task is called", "TITLE", required=True),
    Argument("--goal", "what shall be true when it is done", "TEXT"),
    Argument("--phases", "how many phases there are", "N", convert=positive),
    Argument("--slug", "the name of its folder, instead of one made from the title", "SLUG"),
)
def start_task(call: Call) -> int:
    """Begin a task."""
    options = call.options
    with call.layers() as layers:
        found = tasks.start(
            layers, options.title, goal=options.goal or "", phases=options.phases or 0, slug=options.slug or ""
        )
        others = len(tasks.active_tasks(layers)) - 1
    value = pick(found, ("title", "goal", "status", "phase", "iteration", "trace_id"))
    return call.answer(
        {**_step(found), **value, "phases": found.phases or None, "folder": found.sheaf.root},
        f"Started {found.slug}: {found.title}",
        f"  its files are in {found.sheaf.root}",
        others_note(others, "task", "active"),
    )


@task.action(TEXT, TASK)
def note_task(call: Call) -> int:
    """Note what is worth knowing for the task."""
    text = call.given_text(call.options.text)
    with _open_task(call) as (_, found):
        found.note(text)
    return call.answer(_step(found), f"Noted in {found.slug}")


@task.action(
    Argument("text", "what the plan is now; - reads standard input", "TEXT"),
    TASK,
    Argument("--reason", "why the plan changes", "TEXT", required=True),
    Argument("--phases", "how many phases there are now", "N", convert=positive),
)
def revise_task(call: Call) -> int:
    """Change the plan, and begin another iteration."""
    options = call.options
    text = call.given_text(options.text) if options.text else ""
    with _open_task(call) as (_, found):
        found.revise(options.reason, text, phases=options.phases or 0)
        value = {"iteration": found.iteration, "phases": found.phases or None}
    return call.answer(_step(found) | value, f"Revised {found.slug}: iteration {found.iteration} begins")


@task.action(
    Argument("id", "a short name for what was verified", "ID", required=True),
    Argument("text", "what holds; - reads standard input", "DESCRIPTION", convert=text),
    TASK,
    Argument("--regressed", "it does not hold any more"),
)
def verify_task(call: Call) -> int:
    """Record that something holds, or no longer does, which blocks `task done`."""
    options = call.options
    description = call.given_text(options.text) if options.text else ""
    with _open_task(call) as (_, found):
        item, was = found.verify(options.id, description, regressed=options.regressed)
        bad = found.regressed()
    is_changed = bool(was) and was != item.status
    said = f"{item.id}: {item.status} in iteration {item.last}"
    if is_changed:
        said = f"{item.id} was {was} and is now {item.status}, in iteration {item.last}"
    value = {**item._asdict(), "was": was, "changed": is_changed, "regressed": [one.id for one in bad]}
    return call.answer(_step(found) | value, said, _warning(bad))


def _phase_number(text: str) -> int:
    try:
        return positive(text)
    except ValueError as error:
        raise ValueError(f"{error}; --task SLUG names a task") from None


@task.action(
    Argument("number", "the phase to go to, or to report on", "N", convert=_phase_number),
    TASK,
    Argument("--report", "what the phase came to; goes on to the next; - reads standard input", "TEXT"),
)
def phase_task(call: Call) -> int:
    """Show the present phase, go to another, or report on it and go on to the next."""
    options = call.options
    number, text = options.number or 0, call.given_text(options.report) if options.report else ""
    with _open_task(call, read_only=not (number or text)) as (layers, found):
        said, path, bad = [], "", found.regressed()  # first: what cannot be read is told before anything is written
        if text:
            report = found.report(text, number)
            said, path = [f"Wrote the report on phase {report.phase}: {report.path}"], report.path
            if report.phase == found.phases:
                said.append("It was the last phase: `memsheaf task done` ends the task")
        elif number:
            found.go_to(number)
        noted = _update_notes(call, layers, found) if text or number else ""
        waiting, offer = _promotable(layers, found) if text else (0, None)
    value = {"phase": found.phase, "phases": found.phases or None, "report": path, "notes": noted, "waiting": waiting}
    return call.answer(
        _step(found) | value | {"regressed": [one.id for one in bad]},
        said,
        f"{found.slug} is in phase {found.phase}{f' of {found.phases}' if found.phases else ''}",
        _warning(bad),
        f"NOTES.md says so: {noted}" if noted else None,
        offer,
    )


@task.action(
    Argument("name", "the document's file name", "NAME", required=True),
    TEXT._replace(
        help="the document; - reads standard input, which is also the way when it is left out", convert=text
    ),
    TASK,
)
def deliver_task(call: Call) -> int:
    """Keep a document that the task produced."""
    text = call.given_text(call.options.text)
    with _open_task(call) as (_, found):
        path = found.deliver(call.options.name, text)
    return call.answer(_step(found) | {"path": path}, f"Delivered {path} of {found.slug}")


@task.action(
    Argument("event", "an event to add, as JSON; - reads standard input", "JSON"),
    TASK,
    Argument("--limit", f"how many are shown, the newest first ({LIMIT})", "N", convert=positive),
)
def event_task(call: Call) -> int:
    """Add an event to what happened in the task, or show the events."""
    options = call.options
    if options.event is not None:
        if options.limit:
            raise Usage("--limit goes with `task event` alone, which shows events")
        given = events.read_json(call.given_text(options.event))
        with _open_task(call) as (_, found):
            event = found.event(given)
        said = f"Added {event['event_type']} to the events of {found.slug}"
        return call.answer({**event, "commit": found.commit}, said)
    with _open_task(call, read_only=True) as (_, found):
        every = list(events.lines(found.sheaf))
    shown = every[: options.limit or LIMIT]
    more = Note(f"{plural(len(every), 'event')} in all; --limit shows more.")
    return call.answer(
        {"task": found.slug, "total": len(every), "events": map(_event_json, shown)},
        map(_event_line, shown),
        more if len(every) > len(shown) else None if shown else Note("there are no events yet", ""),
    )


@task.action(_SLUG, TASK)
def status_task(call: Call) -> int:
    """Show how the task stands, for whoever goes on with it."""
    with _open_task(call, read_only=True) as (_, found):
        return call.answer(found.state, found.summary())


@task.action()
def list_task(call: Call) -> int:
    """List the tasks of the project."""
    with call.layers(read_only=True) as layers:
        found = tasks.every_task(layers)
    nothing = "there are no tasks; `memsheaf task start TITLE` begins one"
    table = Table(map(_task_row, found), ("bold", "", "dim"), empty=nothing)
    return call.answer({"tasks": map(_listed_json, found)}, table)


@task.action(_SLUG, TASK, Argument("--summary", "what came of it", "TEXT"))
def done_task(call: Call) -> int:
    """End the task as done, once nothing in it is regressed."""

    def end(found: Task) -> tuple[dict[str, object], list[str]]:
        missing = found.unreported()  # first: what cannot be read is told before anything is written
        found.done(call.options.summary or "")
        verb, count = "has" if len(missing) == 1 else "have", plural(found.phases, "phase")
        said = f"{len(missing)} of {count} {verb} no report; the first is phase {missing[0]}" if missing else ""
        return {"unreported": missing}, [f"Done: {found.title}", *[said] * bool(said)]

    return _end_task(call, end)


@task.action(_SLUG, TASK, Argument("--reason", "why it is dropped", "TEXT", required=True))
def drop_task(call: Call) -> int:
    """End the task without a result."""

    def end(found: Task) -> tuple[dict[str, object], list[str]]:
        found.drop(call.options.reason)
        return {}, [f"Dropped: {found.title}"]

    return _end_task(call, end)


@contextmanager
def _open_task(call: Call, *, read_only: bool = False) -> Iterator[tuple[Layers, Task]]:
    """Open the layers, and the task that a line is about: by its slug, --task, or because it is the only one."""
    named, slug = call.options.task or "", getattr(call.options, "slug", None)
    if slug and named and slug.lower() != named.lower():
        raise Usage(f"{slug[:80]!r} and --task {named[:80]!r} are two tasks; name one")
    with call.layers(task=named or slug, read_only=read_only) as layers:
        yield layers, tasks.of(layers)


def _end_task(call: Call, end: Callable[[Task], tuple[dict[str, object], list[str]]]) -> int:
    """End a task, and answer with what is to be done next."""
    with _open_task(call) as (layers, found):
        value, said = end(found)
        noted = _update_notes(call, layers, found)
        waiting, offer = _promotable(layers, found)
        next_steps = _after_end(layers, offered=bool(offer))
    return call.answer(
        {**_step(found), "status": found.status, "notes": noted, "waiting": waiting, **value},
        said,
        f"NOTES.md says so: {noted}" if noted else None,
        offer,
        next_steps,
    )


def _after_end(layers: Layers, *, offered: bool) -> list[str]:
    """What to do when a task has ended: another one, an objective that is over, or a new task."""
    if others := tasks.active_tasks(layers):
        status = f"`memsheaf task status {others[0]}` tells how the other active task stands"
        return [status if len(others) == 1 else f"`memsheaf task list` shows the {len(others)} that are still active"]
    objective = ""
    with suppress(MemsheafError):  # that it cannot be read was told already
        objective = objective_of(Notes(layers.project).text)
    if objective:
        return [
            f"NOTES.md still has the objective: {one_line(objective, 80)}",
            "`memsheaf notes set --objective TEXT` says what is next, `memsheaf notes clear objective` takes it out",
        ]
    return [] if offered else ["`memsheaf task start TITLE` begins the next"]


def _update_notes(call: Call, layers: Layers, found: Task) -> str:
    """The phase as NOTES.md has it now. That it could not be said there undoes nothing."""
    try:
        return tasks.record_phase_in_notes(layers, found)
    except MemsheafError as error:
        call.console.note(f"NOTES.md was left as it is: {error}", style="yellow")
        return ""


def _promotable(layers: Layers, found: Task) -> tuple[int, str | None]:
    """How many notes of a task may be of use beyond it, and a line about them."""
    count = len(promotion.promising(layers, found.sheaf))
    said = f"{plural(count, 'note')} could be promoted: `memsheaf promote --task {found.slug}` shows the checklist"
    return count, said if count else None


def _step(found: Task) -> dict[str, object]:
    """Which task a step was made in, and the commit that it is."""
    return {"task": found.slug, "commit": found.commit}


def _warning(bad: list[VerifiedItem]) -> str | None:
    ids = ", ".join(item.id for item in bad)
    return f"REGRESSED: {ids}; the task cannot be done before it is verified again" if bad else None


def others_note(others: int, what: str, state: str) -> Note | None:
    """A line that other tasks or sessions are open, too, so that one has to be named."""
    count = plural(others, f"other {what} is", f"other {what}s are")
    return (
        Note(f"{count} {state}: name this one with --{what}, or in MEMSHEAF_{what.upper()}", "") if others else None
    )


def _event_line(one: EventLine) -> str:
    return one.text if one.event is not None else f"{one.path}, line {one.number} is no event: {one.text}"


def _event_json(line: EventLine) -> object:
    """An event, or what stands in its place."""
    return line.event if line.event is not None else {"path": line.path, "line": line.number, "problem": line.text}


def _task_row(one: ListedTask) -> tuple[str, str, str, str]:
    state = one.state
    return (
        (one.slug, state.status, f"phase {state.phase}", state.title) if state else (one.slug, "?", "", one.problem)
    )


def _listed_json(one: ListedTask) -> dict[str, object]:
    if one.state is None:
        return {"task": one.slug, "problem": one.problem}
    names = ("title", "status", "phase", "iteration", "trace_id")
    return {"task": one.slug, **pick(one.state, names), "phases": one.state.phases or None}
