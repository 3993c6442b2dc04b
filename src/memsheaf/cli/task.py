"""Keep what belongs to one piece of work: its plan, phases, verified items and events.

Each step is one commit: `memsheaf undo -s task/SLUG` undoes it, an event only when its commit is named. -s task/SLUG
says which task a command is about; else MEMSHEAF_TASK does, else it is the only active one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from memsheaf.cli.call import Call, Result, pick, plural
from memsheaf.cli.output import Note, Table
from memsheaf.cli.parser import Usage
from memsheaf.sheaf import Sheaf
from memsheaf.work import promotion, tasks
from memsheaf.work.tasks import Task

MAX_EVENTS = 20  # for people


def status(call: Call, *, all: bool = False) -> Result:
    """Show how the task stands, for whoever goes on with it; or list the tasks where it is not clear which.

    arguments:
      --all: list all tasks of the project

    examples:
      memsheaf task status -s task/feature-x --json
      memsheaf task status --all
    """
    with call.layers(read_only=True) as layers:
        if all or (len(layers.work.going("task")) != 1 and not layers.work.chosen["task"]):
            return _list_tasks(layers)
        task = tasks.open_task(layers)
        return Result(task.state, task.summary())


def _list_tasks(layers: Sheaf) -> Result:
    keys = ("status", "phase", "iteration", "trace_id")
    listed = [
        {"task": memory.scope.partition("/")[2], "title": memory.name, **{key: memory.page.get(key) for key in keys}}
        for memory in tasks.list_tasks(layers)
    ]
    rows = [(one["task"], one["status"] or "?", f"phase {one['phase']}", one["title"]) for one in listed]
    nothing = "there are no tasks; `memsheaf task start TITLE` begins one"
    return Result({"tasks": listed}, Table(rows, ("bold", "", "dim"), empty=nothing))


def start(call: Call, title: str, *, goal: str = "") -> Result:
    """Begin a task.

    arguments:
      TITLE: what the task is called
      --goal TEXT: what shall be true when it is done

    examples:
      memsheaf task start "Feature X" --goal "Users can log in"
    """
    with call.layers() as layers:
        task = tasks.start_task(layers, title, goal=goal)
        others = len(layers.work.going("task")) - 1
    value = pick(task, ("title", "status", "phase", "iteration", "trace_id"))
    return Result(
        {**_step(task), **value, "folder": task.sheaf.root},
        f"Started {task.slug}: {task.title}",
        f"  its files are in {task.sheaf.root}",
        call.others_note(others, "task", task.slug),
    )


def note(call: Call, text: str = "", *, file: str = "") -> Result:
    """Note what is worth knowing for the task, or keep a document that it produced.

    arguments:
      TEXT: what to note, or the document; - reads standard input, which is also the way when it is left out
      --file NAME: keep the text as a document of this name

    examples:
      memsheaf task note "The API is rate limited"
      memsheaf task note --file schema.sql - < schema.sql
    """
    said = call.given_text(text)
    with _open_task(call) as (_, task):
        if file:
            path = task.deliver(file, said)
            return Result(_step(task) | {"path": path}, f"Delivered {path} of {task.slug}")
        task.note(said)
    return Result(_step(task), f"Noted in {task.slug}")


def revise(call: Call, text: str = "", *, reason: str) -> Result:
    """Change the plan, and begin another iteration.

    arguments:
      TEXT: what the plan is now; - reads standard input
      --reason TEXT: why the plan changes

    examples:
      memsheaf task revise --reason "The API is rate limited" "Ask in batches of 50."
    """
    plan = call.given_text(text) if text else ""
    with _open_task(call) as (_, task):
        task.revise(reason, plan)
    number = task.iteration
    return Result(_step(task) | {"iteration": number}, f"Revised {task.slug}: iteration {number} begins")


def verify(call: Call, id: str, text: str = "", *, regressed: bool = False) -> Result:
    """Record that something holds, or no longer does, which blocks `task end`.

    arguments:
      ID: a short name for what was verified
      DESCRIPTION: what holds; - reads standard input
      --regressed: it does not hold any more

    examples:
      memsheaf task verify login "One can log in with a password"
      memsheaf task verify login --regressed
    """
    description = call.given_text(text) if text else ""
    with _open_task(call) as (_, task):
        item = task.verify(id, description, regressed=regressed)
        bad = [one.id for one in task.regressed()]
    value = {**item._asdict(), "regressed": bad}
    return Result(_step(task) | value, f"{item.id}: {item.status} in iteration {item.last}", _warning(bad))


def phase(call: Call, *, report: str = "") -> Result:
    """Show the present phase, or report on it and go on to the next.

    arguments:
      --report TEXT: what the phase came to; - reads standard input

    examples:
      memsheaf task phase --report "The schema is there; migrations run."
    """
    text = call.given_text(report) if report else ""
    with _open_task(call, read_only=not text) as (_, task):
        bad = [one.id for one in task.regressed()]  # first: what cannot be read is told before anything is written
        path = task.report(text) if text else ""
        waiting = _count_promotable(task) if text else 0
    return Result(
        _step(task) | {"phase": task.phase, "report": path, "waiting": waiting, "regressed": bad},
        f"Wrote the report: {path}" if path else None,
        f"{task.slug} is in phase {task.phase}",
        _warning(bad),
        _offer_promotion(task, waiting),
    )


def event(call: Call, event: str = "") -> Result:
    """Add an event to what happened in the task, or show the events, the newest first.

    arguments:
      JSON: an event to add, as JSON; - reads standard input

    examples:
      echo '{"event_type": "discovery", "payload": {"found": "two caches"}}' | memsheaf task event -
      memsheaf task event --json
    """
    if event:
        given = tasks.read_event(call.given_text(event))
        with _open_task(call) as (_, task):
            added = task.event(given)
        said = f"Added {added['event_type']} to the events of {task.slug}"
        return Result({**added, "commit": task.commit}, said)
    with _open_task(call, read_only=True) as (_, task):
        every = task.events()
    shown = every if call.console.json else every[:MAX_EVENTS]
    more = Note(f"{plural(len(every), 'event')} in all; --json has them.")
    return Result(
        {"task": task.slug, "total": len(every), "events": [one or {"problem": line} for line, one in shown]},
        [line if one else f"this is no event: {line}" for line, one in shown],
        more if len(every) > len(shown) else None if shown else Note("there are no events yet", ""),
    )


def end(call: Call, *, summary: str = "", drop: str = "") -> Result:
    """End the task as done, once nothing in it is regressed; or drop it.

    arguments:
      --summary TEXT: what came of it
      --drop REASON: end it without a result, and why

    examples:
      memsheaf task end --summary "Users can log in."
      memsheaf task end -s task/feature-x --drop "Nobody needs it"
    """
    if summary and drop:
        raise Usage("--summary and --drop contradict each other")
    with _open_task(call) as (layers, task):
        if drop:
            task.drop(drop)
        else:
            task.done(summary)
        waiting, active = _count_promotable(task), len(layers.work.going("task"))
    still = f"`memsheaf task status --all` shows {plural(active, 'task that is', 'tasks that are')} still active"
    return Result(
        {**_step(task), "status": task.status, "waiting": waiting},
        f"{'Dropped' if drop else 'Done'}: {task.title}",
        _offer_promotion(task, waiting),
        still if active else None,
    )


@contextmanager
def _open_task(call: Call, *, read_only: bool = False) -> Iterator[tuple[Sheaf, Task]]:
    """Open the memories, and the task that the line is about."""
    with call.layers(read_only=read_only) as layers:
        yield layers, tasks.open_task(layers)


def _count_promotable(task: Task) -> int:
    return len(promotion.items(task.sheaf))


def _offer_promotion(task: Task, count: int) -> str | None:
    said = f"{plural(count, 'note')} could be promoted: `memsheaf promote -s task/{task.slug}` shows the checklist"
    return said if count else None


def _step(task: Task) -> dict[str, object]:
    """Return the task and the commit that a step made."""
    return {"task": task.slug, "commit": task.commit}


def _warning(bad: list[str]) -> str | None:
    return f"REGRESSED: {', '.join(bad)}; the task cannot be done before it is verified again" if bad else None
