"""Commands for tasks, which are pieces of work, and for sessions, the notes of one conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from memsheaf.cli.call import Call, local_minute, pick, plural
from memsheaf.cli.command import SESSION, TASK, Argument, Usage, group
from memsheaf.cli.output import Note, Styled, Table
from memsheaf.sheaf import Sheaf
from memsheaf.text.sections import sections
from memsheaf.work import promotion, sessions, tasks
from memsheaf.work.tasks import Task, VerifiedItem

LIMIT = 20

_SLUG = Argument("slug", "which task, as --task says it", "SLUG")
_TEXT = Argument("text", "what to note; - reads standard input, which is also the way when it is left out", "TEXT")

task = group(
    """Keep what belongs to one piece of work: its plan, phases, verified items and events.

    Each step is one commit: `memsheaf undo --scope task/SLUG` undoes it, an event only when its commit is named.

    examples:
      memsheaf task start "Feature X" --goal "Users can log in"
      memsheaf task verify login "One can log in with a password"
      memsheaf task verify login --regressed
      memsheaf task phase --report "The schema is there; migrations run."
      memsheaf task revise --reason "The API is rate limited" "Ask in batches of 50."
      echo '{"event_type": "discovery", "payload": {"found": "two caches"}}' | memsheaf task event -
      memsheaf task status feature-x --json
      memsheaf task done --summary "Users can log in."
    """,
    default="list",
    scoped=False,
)


@task.action(
    Argument("title", "what the task is called", "TITLE", required=True),
    Argument("--goal", "what shall be true when it is done", "TEXT"),
    Argument("--slug", "the name of its folder, instead of one made from the title", "SLUG"),
)
def start_task(call: Call) -> int:
    """Begin a task."""
    options = call.options
    with call.layers() as layers:
        found = tasks.start_task(layers, options.title, goal=options.goal or "", slug=options.slug or "")
        others = len(layers.work.going("task")) - 1
    value = pick(found, ("title", "status", "phase", "iteration", "trace_id"))
    return call.answer(
        {**_step(found), **value, "folder": found.sheaf.root},
        f"Started {found.slug}: {found.title}",
        f"  its files are in {found.sheaf.root}",
        _others_note(others, "task", "active"),
    )


@task.action(_TEXT, TASK)
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
)
def revise_task(call: Call) -> int:
    """Change the plan, and begin another iteration."""
    options = call.options
    text = call.given_text(options.text) if options.text else ""
    with _open_task(call) as (_, found):
        found.revise(options.reason, text)
    number = found.iteration
    return call.answer(_step(found) | {"iteration": number}, f"Revised {found.slug}: iteration {number} begins")


@task.action(
    Argument("id", "a short name for what was verified", "ID", required=True),
    Argument("text", "what holds; - reads standard input", "DESCRIPTION"),
    TASK,
    Argument("--regressed", "it does not hold any more"),
)
def verify_task(call: Call) -> int:
    """Record that something holds, or no longer does, which blocks `task done`."""
    options = call.options
    description = call.given_text(options.text) if options.text else ""
    with _open_task(call) as (_, found):
        item = found.verify(options.id, description, regressed=options.regressed)
        bad = found.regressed()
    value = {**item._asdict(), "regressed": [one.id for one in bad]}
    return call.answer(_step(found) | value, f"{item.id}: {item.status} in iteration {item.last}", _warning(bad))


@task.action(
    Argument("number", "the phase to report on, instead of the present one", "N"),
    TASK,
    Argument("--report", "what the phase came to; - reads standard input", "TEXT"),
)
def phase_task(call: Call) -> int:
    """Show the present phase, or report on it and go on to the next."""
    options = call.options
    if options.number and not options.report:
        raise Usage("a phase is named to report on it: --report TEXT")
    text = call.given_text(options.report) if options.report else ""
    with _open_task(call, read_only=not text) as (_, found):
        said, bad = [], found.regressed()  # first: what cannot be read is told before anything is written
        path = found.report(text, options.number or 0) if text else ""
        waiting, offer = _promotable(found) if text else (0, None)
    if path:
        said = [f"Wrote the report: {path}"]
    return call.answer(
        _step(found)
        | {"phase": found.phase, "report": path, "waiting": waiting, "regressed": [one.id for one in bad]},
        said,
        f"{found.slug} is in phase {found.phase}",
        _warning(bad),
        offer,
    )


@task.action(
    Argument("name", "the document's file name", "NAME", required=True),
    _TEXT._replace(help="the document; - reads standard input, which is also the way when it is left out"),
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
    Argument("--limit", f"how many are shown, the newest first ({LIMIT})", "N"),
)
def event_task(call: Call) -> int:
    """Add an event to what happened in the task, or show the events."""
    options = call.options
    if options.event is not None:
        if options.limit:
            raise Usage("--limit goes with `task event` alone, which shows events")
        given = tasks.read_event(call.given_text(options.event))
        with _open_task(call) as (_, found):
            event = found.event(given)
        said = f"Added {event['event_type']} to the events of {found.slug}"
        return call.answer({**event, "commit": found.commit}, said)
    with _open_task(call, read_only=True) as (_, found):
        every = list(found.events())
    shown = every[: options.limit or LIMIT]
    events_json = [event or {"problem": line} for line, event in shown]
    more = Note(f"{plural(len(every), 'event')} in all; --limit shows more.")
    return call.answer(
        {"task": found.slug, "total": len(every), "events": events_json},
        (line if event else f"this is no event: {line}" for line, event in shown),
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
        found = tasks.list_tasks(layers)
    keys = ("status", "phase", "iteration", "trace_id")
    listed = [
        {"task": memory.scope.partition("/")[2], "title": memory.name, **{key: memory.page.get(key) for key in keys}}
        for memory in found
    ]
    rows = ((one["task"], one["status"] or "?", f"phase {one['phase']}", one["title"]) for one in listed)
    nothing = "there are no tasks; `memsheaf task start TITLE` begins one"
    return call.answer({"tasks": listed}, Table(rows, ("bold", "", "dim"), empty=nothing))


@task.action(_SLUG, TASK, Argument("--summary", "what came of it", "TEXT"))
def done_task(call: Call) -> int:
    """End the task as done, once nothing in it is regressed."""
    with _open_task(call) as (layers, found):
        found.done(call.options.summary or "")
        return _answer_end(call, layers, found, f"Done: {found.title}")


@task.action(_SLUG, TASK, Argument("--reason", "why it is dropped", "TEXT", required=True))
def drop_task(call: Call) -> int:
    """End the task without a result."""
    with _open_task(call) as (layers, found):
        found.drop(call.options.reason)
        return _answer_end(call, layers, found, f"Dropped: {found.title}")


@contextmanager
def _open_task(call: Call, *, read_only: bool = False) -> Iterator[tuple[Sheaf, Task]]:
    """Open the memories, and the task that a line is about: by its slug, --task, or because it is the only one."""
    named, slug = call.options.task or "", getattr(call.options, "slug", None)
    if slug and named and slug.lower() != named.lower():
        raise Usage(f"{slug[:80]!r} and --task {named[:80]!r} are two tasks; name one")
    with call.layers(task=named or slug, read_only=read_only) as layers:
        yield layers, tasks.open_task(layers)


def _answer_end(call: Call, layers: Sheaf, found: Task, said: str) -> int:
    waiting, offer = _promotable(found)
    active = len(layers.work.going("task"))
    return call.answer(
        {**_step(found), "status": found.status, "waiting": waiting},
        said,
        offer,
        f"`memsheaf task list` shows {plural(active, 'task that is', 'tasks that are')} still active"
        if active
        else None,
    )


def _promotable(found: Task) -> tuple[int, str | None]:
    """How many notes of a task may be of use beyond it, and a line about them."""
    count = len(promotion.items(found.sheaf))
    said = f"{plural(count, 'note')} could be promoted: `memsheaf promote --task {found.slug}` shows the checklist"
    return count, said if count else None


def _step(found: Task) -> dict[str, object]:
    """Which task a step was made in, and the commit that it is."""
    return {"task": found.slug, "commit": found.commit}


def _warning(bad: Sequence[VerifiedItem]) -> str | None:
    ids = ", ".join(item.id for item in bad)
    return f"REGRESSED: {ids}; the task cannot be done before it is verified again" if bad else None


def _others_note(others: int, what: str, state: str) -> Note | None:
    """A line that other tasks or sessions are open, too, so that one has to be named."""
    count = plural(others, f"other {what} is", f"other {what}s are")
    said = f"{count} {state}: name this one with --{what}, or in MEMSHEAF_{what.upper()}"
    return Note(said, "") if others else None


_ID = Argument("id", "which session, as --session says it", "ID")

session = group(
    """Keep notes of one conversation, which outlive its compaction.

    A session is a file with headings, which no prompt loads. `memsheaf undo --scope session/ID` opens one
    that ended again. A template of your own can be session.md in ~/.memsheaf.

    examples:
      memsheaf session start "Move the login to OAuth"
      memsheaf session note "The tests run in 40 s"
      memsheaf session note --section current --replace "Phase 2 of 3; last: callback; next: refresh token"
      memsheaf session note --section err "Do not mock the clock: it hides the time zone"
      memsheaf session show 2026-11-15-ab12
      memsheaf session list --all --json
      memsheaf session end --yes
    """,
    default="list",
    scoped=False,
)


@session.action(
    Argument("title", "what the conversation is about", "TITLE"),
    Argument("--id", "a name for it, instead of the day and a random number", "ID"),
    Argument("--long", "with ten sections instead of five"),
)
def start_session(call: Call) -> int:
    """Begin a session."""
    options = call.options
    with call.layers() as layers:
        template = sessions.read_template(layers.settings, long=options.long)
        notes = sessions.start_session(layers, options.title or "", id=options.id or "", template=template)
        state, root = notes.state(), notes.sheaf.root
        others = len(layers.work.going("session")) - 1
    return call.answer(
        {**_session_json(state), "folder": root},
        f"Began session {state.id}: {state.title}",
        _others_note(others, "session", "open"),
    )


@session.action(
    _TEXT,
    SESSION,
    Argument("--section", "under which heading, or how it begins; else Worklog", "NAME"),
    Argument("--replace", "replace what is there, as for Current State"),
)
def note_session(call: Call) -> int:
    """Add a bullet under a heading, with the time in the Worklog."""
    options = call.options
    text = call.given_text(options.text)
    with call.layers(session=options.session) as layers:
        notes = sessions.open_session(layers)
        section = notes.note(text, section=options.section or "", replace=options.replace)
    return call.answer({"id": notes.id, "section": section}, f"Noted under {section}")


@session.action(_ID, SESSION)
def show_session(call: Call) -> int:
    """Print the notes of a session."""
    with call.layers(session=_session_id(call), read_only=True) as layers:
        notes = sessions.open_session(layers)
        state, body = notes.state(), notes.body
    found = [{"title": one.title, "text": one.text} for one in sections(body) if one.level]
    ended = "" if state.is_open else ", ended"
    return call.answer(
        {**_session_json(state), "sections": found, "text": body},
        Styled(f"{state.title} ({state.id}, since {local_minute(state.started)}{ended})", "bold"),
        "",
        body.strip("\n"),
    )


@session.action(_ID, SESSION, Argument("--yes", "do not ask, though something could still be promoted"))
def end_session(call: Call) -> int:
    """Move the notes of a session to its archive, after counting what could be promoted."""
    options, console = call.options, call.console
    with call.layers(session=_session_id(call)) as layers:
        notes = sessions.open_session(layers)
        waiting = len(promotion.items(notes.sheaf)) if notes.state().is_open else 0
        next_step = "nothing is waiting to be promoted; `memsheaf brief` says where the work stands"
        if waiting:
            count, offered = plural(waiting, "item"), "it" if waiting == 1 else "them"
            next_step = f"{count} could be promoted: `memsheaf promote --session {notes.id}` offers {offered}"
        if waiting and console.interactive and not (options.yes or console.json):
            console.note(next_step)
            if not console.confirm("End it now?"):
                console.note("Nothing was changed.")
                return 1
        is_blank, commit = notes.is_blank, notes.end()
    moved = "nothing had been noted" if is_blank else "its notes are in the archive"
    return call.answer(
        {"id": notes.id, "waiting": waiting, "blank": is_blank, "commit": commit},
        f"Ended session {notes.id}: {moved}",
        f"  Undo with `memsheaf undo --scope session/{notes.id}`.",
        f"  {next_step}",
    )


@session.action(Argument("--all", "those that have ended, too"))
def list_session(call: Call) -> int:
    """List the sessions of the project."""
    with call.layers(read_only=True) as layers:
        ids = layers.work.going("session") + (sessions.list_ended(layers) if call.options.all else [])
        found = [sessions.open_session(layers, id).state() for id in ids]
    found.sort(key=lambda state: (not state.is_open, state.started, state.id))
    head = ("ID", "STARTED", "CHANGED", "TOKENS", "STATE", "TITLE")
    rows = []
    for one in found:
        stands = "blank" if one.is_blank else "open"
        times = local_minute(one.started), local_minute(one.changed)
        rows.append((one.id, *times, f"{one.tokens:,}", stands if one.is_open else "ended", one.title))
    return call.answer(
        {"sessions": map(_session_json, found)},
        Table(rows, ("bold", "dim", "dim"), head),
        None if found else "No session is open; `memsheaf session start` begins one.",
    )


def _session_id(call: Call) -> str:
    """The session that the line names, with --session or without."""
    if call.options.id and call.options.session:
        raise Usage("the session is named twice")
    return str(call.options.id or call.options.session or "")


def _session_json(state: sessions.SessionState) -> dict[str, object]:
    value = pick(state, ("id", "title", "started", "changed", "tokens"))
    return {**value, "blank": state.is_blank, "open": state.is_open}
