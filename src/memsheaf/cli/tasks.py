"""The command for tasks: one piece of work, its plan, what was verified, and what happened."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from memsheaf.cli.call import pick, plural
from memsheaf.cli.command import TASK, Argument, Usage, filled, positive, takes
from memsheaf.errors import MemsheafError
from memsheaf.text.neutralize import one_line
from memsheaf.values import NamedTuple

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call
    from memsheaf.cli.parser import Options
    from memsheaf.work.events import EventLine
    from memsheaf.work.layers import Layers
    from memsheaf.work.task import Task
    from memsheaf.work.task_files import VerifiedItem
    from memsheaf.work.tasks import ListedTask

_ACTIONS = ("start", "note", "revise", "verify", "phase", "deliver", "event", "status", "list", "done", "drop")
LIMIT = 20


@takes(
    Argument("action", "what to do", "ACTION", required=True, choices=_ACTIONS),
    Argument(
        "first",
        "TITLE, TEXT, ID, N, NAME, JSON or SLUG, as the action takes it; - reads standard input",
        "WHAT",
        convert=filled,
    ),
    Argument("second", "a description (verify), or a text (deliver); - reads standard input", "TEXT"),
    TASK,
    Argument("--goal", "start: what shall be so when it is done", "TEXT", convert=filled),
    Argument("--phases", "start, revise: how many phases there are", "N", convert=positive),
    Argument("--slug", "start: the name of its folder, instead of one made from the title", "SLUG", convert=filled),
    Argument("--reason", "revise, drop: why", "TEXT", convert=filled),
    Argument("--regressed", "verify: it does not hold any more"),
    Argument("--report", "phase: what the phase came to; - reads standard input", "TEXT", convert=filled),
    Argument("--summary", "done: what came of it", "TEXT", convert=filled),
    Argument("--limit", f"event: how many are shown, the newest first ({LIMIT})", "N", convert=positive),
    scoped=False,
)
def task(call: Call) -> int:
    """Keep what belongs to one piece of work: its plan, phases, verified items and events.

    start TITLE begins one. note TEXT keeps what is worth knowing. revise --reason TEXT [TEXT] changes the plan and
    begins another iteration. verify ID [DESCRIPTION] says that something holds, with --regressed that it does not
    any more; `done` is blocked until it does again. phase shows the present phase, phase N goes to another, phase
    [N] --report TEXT writes what it came to and goes on to the next. deliver NAME [TEXT] keeps a document. event
    JSON adds to what happened, event alone shows it. status [SLUG] tells how the task stands, for whoever goes on
    with it; done [SLUG] and drop [SLUG] end it. Each is one commit: `memsheaf undo --scope task/SLUG` takes it back,
    an event only when its commit is named.

    examples:
      memsheaf task start "Feature X" --goal "Users can log in" --phases 6
      memsheaf task verify login "One can log in with a password"
      memsheaf task verify login --regressed
      memsheaf task phase --report "The schema is there; migrations run."
      memsheaf task revise --reason "The API is rate limited" "Ask in batches of 50."
      echo '{"event_type": "discovery", "payload": {"found": "two caches"}}' | memsheaf task event -
      memsheaf task status feature-x --json
      memsheaf task done --summary "Users can log in."
    """
    action = _TABLE[call.options.action]
    _check_words(call, action)
    named = call.options.task or (call.options.first if action.takes is _SLUG else "")
    with call.layers(task=named, read_only=action.only_looks(call.options)) as layers:
        return action.run(call, layers)


_SLUG = ("the SLUG of a task",)
"""What actions take that need no text: which task is meant, as --task says it."""


class _Action(NamedTuple):
    """What an action does, what may stand behind it and how much must, its options, and when it only looks."""

    run: Callable[[Call, Layers], int]
    takes: tuple[str, ...]
    needs: int
    options: tuple[str, ...]
    only_looks: Callable[[Options], bool]


def _check_words(call: Call, action: _Action) -> None:
    options, name = call.options, call.options.action
    given = [word for word in (options.first, options.second) if word is not None]
    if len(given) > len(action.takes):
        raise Usage(f"`task {name}` takes {' and '.join(action.takes) or 'no text'}; {given[-1][:80]!r} is too much")
    if len(given) < action.needs:
        raise Usage(f"`task {name}` needs {action.takes[len(given)]}")
    if action.takes is _SLUG and given and options.task and given[0].lower() != options.task.lower():
        raise Usage(f"{given[0][:80]!r} and --task {options.task[:80]!r} are two tasks; name one")
    for option in ("task", "goal", "phases", "slug", "reason", "regressed", "report", "summary", "limit"):
        if getattr(options, option) not in (None, False) and option not in action.options:
            fitting = [one for one, other in _TABLE.items() if option in other.options]
            raise Usage(f"--{option} goes with {', '.join(fitting)}, not with {name}")


def _of(layers: Layers) -> Task:
    from memsheaf.work import tasks

    return tasks.of(layers)


def _start(call: Call, layers: Layers) -> int:
    from memsheaf.work import tasks

    options = call.options
    made = tasks.start(
        layers, options.first, goal=options.goal or "", phases=options.phases or 0, slug=options.slug or ""
    )
    others = len(tasks.active_tasks(layers)) - 1
    said = [f"Started {made.slug}: {made.title}", f"  its files are in {made.sheaf.root}"]
    value = pick(made, ("title", "goal", "status", "phase", "iteration", "trace_id"))
    call.console.answer({**_made(made), **value, "phases": made.phases or None, "folder": made.sheaf.root}, said)
    if others and not call.console.json:
        told = f"{plural(others, 'other task is', 'other tasks are')} active"
        call.console.note(f"{told}: name this one with --task, or in MEMSHEAF_TASK")
    return 0


def _note(call: Call, layers: Layers) -> int:
    text = call.given_text(call.options.first)
    found = _of(layers)
    found.note(text)
    return call.console.answer(_made(found), [f"Noted in {found.slug}"])


def _revise(call: Call, layers: Layers) -> int:
    options = call.options
    if not options.reason:
        raise Usage("say why the plan changes, with --reason TEXT")
    text = call.given_text(options.first) if options.first else ""
    found = _of(layers)
    found.revise(options.reason, text, phases=options.phases or 0)
    value = {"iteration": found.iteration, "phases": found.phases or None}
    return call.console.answer(_made(found) | value, [f"Revised {found.slug}: iteration {found.iteration} begins"])


def _verify(call: Call, layers: Layers) -> int:
    options = call.options
    found = _of(layers)
    description = call.given_text(options.second) if options.second else ""
    item, was = found.verify(options.first, description, regressed=options.regressed)
    said = f"{item.id}: {item.status} in iteration {item.last}"
    if was and was != item.status:
        said = f"{item.id} was {was} and is now {item.status}, in iteration {item.last}"
    value = {**item._asdict(), "was": was, "changed": bool(was) and was != item.status}
    bad = found.regressed()
    return call.console.answer(_made(found) | value | {"regressed": _ids(bad)}, [said, *_warning(bad)])


def _phase(call: Call, layers: Layers) -> int:
    options = call.options
    number = _number(options.first) if options.first else 0
    text = call.given_text(options.report) if options.report else ""
    found = _of(layers)
    said, path, bad = [], "", found.regressed()  # first: what cannot be read is told before anything is written
    if options.report:
        report = found.report(text, number)
        said, path = [f"Wrote the report on phase {report.phase}: {report.path}"], report.path
        if report.phase == found.phases:
            said.append("It was the last phase: `memsheaf task done` ends the task")
    elif number:
        found.go_to(number)
    said += [f"{found.slug} is in phase {found.phase}{f' of {found.phases}' if found.phases else ''}", *_warning(bad)]
    noted = _told_in_notes(call, layers, found) if options.report or number else ""
    said += [f"NOTES.md says so: {noted}"] * bool(noted)
    waiting, offer = _offered(layers, found) if options.report else (0, [])
    said += offer
    value = {"phase": found.phase, "phases": found.phases or None, "report": path, "regressed": _ids(bad)}
    return call.console.answer(_made(found) | value | {"notes": noted, "waiting": waiting}, said)


def _deliver(call: Call, layers: Layers) -> int:
    text = call.given_text(call.options.second)
    found = _of(layers)
    path = found.deliver(call.options.first, text)
    return call.console.answer(_made(found) | {"path": path}, [f"Delivered {path} of {found.slug}"])


def _event(call: Call, layers: Layers) -> int:
    from memsheaf.work import events

    options, console = call.options, call.console
    if options.first is not None:
        if options.limit:
            raise Usage("--limit goes with `task event` alone, which shows events")
        given = events.read_json(call.given_text(options.first))
        found = _of(layers)
        event = found.event(given)
        said = f"Added {event['event_type']} to the events of {found.slug}"
        return console.answer({**event, "commit": found.commit}, [said])
    found = _of(layers)
    every = list(events.lines(found.sheaf))
    shown = every[: options.limit or LIMIT]
    if console.json:
        return console.answer({"task": found.slug, "total": len(every), "events": [_line_json(one) for one in shown]})
    for one in shown:
        console.say(one.text if one.event is not None else f"{one.path}, line {one.number} is no event: {one.text}")
    if not shown:
        console.note("there are no events yet")
    elif len(every) > len(shown):
        console.note(f"{plural(len(every), 'event')} in all; --limit shows more.", style="dim")
    return 0


def _status(call: Call, layers: Layers) -> int:
    found = _of(layers)
    return call.console.answer(found.state()) if call.console.json else call.console.answer(None, found.summary())


def _list(call: Call, layers: Layers) -> int:
    from memsheaf.work import tasks

    found = tasks.every_task(layers)
    if call.console.json:
        return call.console.answer({"tasks": [_listed_json(one) for one in found]})
    rows = [
        (one.slug, one.state.status, f"phase {one.state.phase}", one.state.title)
        if one.state
        else (one.slug, "?", "", one.problem)
        for one in found
    ]
    call.console.table(rows, ("bold", "", "dim"))
    if not rows:
        call.console.note("there are no tasks; `memsheaf task start TITLE` begins one")
    return 0


def _done(call: Call, layers: Layers) -> int:
    found = _of(layers)
    missing, said = found.unreported(), [f"Done: {found.title}"]  # first, as in `_phase`
    found.done(call.options.summary or "")
    if missing:
        verb = "has" if len(missing) == 1 else "have"
        count = plural(found.phases, "phase")
        said.append(f"{len(missing)} of {count} {verb} no report; the first is phase {missing[0]}")
    return _ended(call, layers, found, {"unreported": missing}, said)


def _drop(call: Call, layers: Layers) -> int:
    if not call.options.reason:
        raise Usage("say why it is dropped, with --reason TEXT")
    found = _of(layers)
    found.drop(call.options.reason)
    return _ended(call, layers, found, {}, [f"Dropped: {found.title}"])


def _ended(call: Call, layers: Layers, found: Task, value: dict[str, object], said: list[str]) -> int:
    """Answer that a task has ended, and what is to be done next."""
    noted = _told_in_notes(call, layers, found)
    waiting, offer = _offered(layers, found)
    said += [f"NOTES.md says so: {noted}"] * bool(noted) + offer
    said += _after(layers, offered=bool(offer))
    value = {"status": found.status, "notes": noted, "waiting": waiting, **value}
    return call.console.answer(_made(found) | value, said)


def _after(layers: Layers, *, offered: bool) -> list[str]:
    """What to do when a task has ended: another one, an objective that is over, or a new task."""
    from memsheaf.work import tasks
    from memsheaf.work.notes import Notes, objective_of

    if others := tasks.active_tasks(layers):
        told = f"`memsheaf task status {others[0]}` tells how the other active task stands"
        return [told if len(others) == 1 else f"`memsheaf task list` shows the {len(others)} that are still active"]
    objective = ""
    with suppress(MemsheafError):  # that it cannot be read was told already
        objective = objective_of(Notes(layers.project).text)
    if objective:
        return [
            f"NOTES.md still has the objective: {one_line(objective, 80)}",
            "`memsheaf notes set --objective TEXT` says what is next, `memsheaf notes clear objective` takes it out",
        ]
    return [] if offered else ["`memsheaf task start TITLE` begins the next"]


def _told_in_notes(call: Call, layers: Layers, found: Task) -> str:
    """The phase as NOTES.md has it now. That it could not be said there undoes nothing."""
    from memsheaf.work import tasks

    try:
        return tasks.record_phase_in_notes(layers, found)
    except MemsheafError as error:
        call.console.note(f"NOTES.md was left as it is: {error}", style="yellow")
        return ""


def _offered(layers: Layers, found: Task) -> tuple[int, list[str]]:
    """How many notes of a task may be of use beyond it, and what to say of them."""
    from memsheaf.work import promotion

    count = len(promotion.promising(layers, found.sheaf))
    said = f"{plural(count, 'note')} could be promoted: `memsheaf promote --task {found.slug}` shows the checklist"
    return count, [said] * bool(count)


def _always(options: Options) -> bool:
    return True


def _never(options: Options) -> bool:
    return False


def _alone(options: Options) -> bool:
    return options.first is None and not options.report


_TABLE = {
    "start": _Action(_start, ("a TITLE",), 1, ("goal", "phases", "slug"), _never),
    "note": _Action(_note, ("a TEXT",), 0, ("task",), _never),
    "revise": _Action(_revise, ("a TEXT",), 0, ("task", "reason", "phases"), _never),
    "verify": _Action(_verify, ("an ID", "a DESCRIPTION"), 1, ("task", "regressed"), _never),
    "phase": _Action(_phase, ("the number of a phase",), 0, ("task", "report"), _alone),
    "deliver": _Action(_deliver, ("a NAME", "a TEXT"), 1, ("task",), _never),
    "event": _Action(_event, ("an event in JSON",), 0, ("task", "limit"), _alone),
    "status": _Action(_status, _SLUG, 0, ("task",), _always),
    "list": _Action(_list, (), 0, (), _always),
    "done": _Action(_done, _SLUG, 0, ("task", "summary"), _never),
    "drop": _Action(_drop, _SLUG, 0, ("task", "reason"), _never),
}


def _made(found: Task) -> dict[str, object]:
    """Which task a step was made in, and the commit that it is."""
    return {"task": found.slug, "commit": found.commit}


def _number(text: str) -> int:
    try:
        return positive(text)
    except ValueError as error:
        raise Usage(f"{text[:80]!r} is no phase: {error}; --task SLUG names a task") from None


def _ids(items: list[VerifiedItem]) -> list[str]:
    return [item.id for item in items]


def _warning(bad: list[VerifiedItem]) -> list[str]:
    return [f"REGRESSED: {', '.join(_ids(bad))}; the task cannot be done before it is verified again"] if bad else []


def _line_json(line: EventLine) -> object:
    """An event, or what stands in its place."""
    return line.event if line.event is not None else {"path": line.path, "line": line.number, "problem": line.text}


def _listed_json(one: ListedTask) -> dict[str, object]:
    if one.state is None:
        return {"task": one.slug, "problem": one.problem}
    names = ("title", "status", "phase", "iteration", "trace_id")
    return {"task": one.slug, **pick(one.state, names), "phases": one.state.phases or None}
