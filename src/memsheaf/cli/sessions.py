"""The command for the notes of one conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from memsheaf.cli.call import plural
from memsheaf.cli.command import SESSION, Argument, Usage, filled, place, takes

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call
    from memsheaf.work.sessions import Ended, SessionState

NAMES = ("start", "note", "show", "end", "list")
BELONGS = {
    "id": ("start",),
    "template": ("start",),
    "long": ("start",),
    "section": ("note",),
    "replace": ("note",),
    "all": ("list",),
    "yes": ("end",),
    "session": ("note", "show", "end"),
    "text": ("start", "note", "show", "end"),
}
"""Which action takes which option."""


@takes(
    Argument("action", "what to do", "ACTION", required=True, choices=NAMES),
    Argument(
        "text",
        "start: a title; note: what to note, - reads it from standard input; show, end: which session",
        "TEXT",
        convert=filled,
    ),
    SESSION,
    Argument("--id", "start: a name for it, instead of the day and a random number", "ID", convert=filled),
    Argument("--template", "start: a Markdown file with the headings", "PATH", convert=place, complete="paths"),
    Argument("--long", "start: with ten sections instead of five"),
    Argument("--section", "note: under which heading, or how it begins; else Worklog", "NAME", convert=filled),
    Argument("--replace", "note: in the place of what stands there, as for Current State"),
    Argument("--yes", "end: do not ask, though something could still be promoted"),
    Argument("--all", "list: those that have ended, too"),
    scoped=False,
)
def session(call: Call) -> int:
    """Keep notes of one conversation, which outlive its compaction.

    `start` begins a session: a file with headings, which stay as they are. `note` puts a bullet under one, with the
    time in the Worklog. `show` prints the notes, `list` the sessions; no prompt loads them. `end` moves all to the
    archive of the session; what could be promoted is counted first, and on a terminal you are asked. `memsheaf undo
    --scope session/ID` brings an ended session back. A template of your own can be session.md in ~/.memsheaf.

    A finding that the project should keep is best noted in two lines, so that `memsheaf promote` asks nothing more:

      Subject: fact, see FILE:LINE
      Why: what it is good for

    examples:
      memsheaf session start "Move the login to OAuth"
      memsheaf session note "The tests run in 40 s"
      memsheaf session note --section current --replace "Phase 2 of 3; last: callback; next: refresh token"
      printf 'Test command: make check, see Makefile:12\\nWhy: CI runs it' | memsheaf session note --section key -
      memsheaf session note --section err "Do not mock the clock: it hides the time zone"
      memsheaf session show 2026-11-15-ab12
      memsheaf session list --all --json
      memsheaf session end --yes
    """
    options = call.options
    for name, takers in BELONGS.items():
        if getattr(options, name) and options.action not in takers:
            shown = "TEXT" if name == "text" else f"--{name}"
            raise Usage(f"{shown} goes with {', '.join(takers)}, not with {options.action}")
    return ACTIONS[options.action](call)


def _start(call: Call) -> int:
    from memsheaf.work import sessions

    options = call.options
    if options.template and options.long:
        raise Usage("give --template or --long, not both")
    with call.layers() as layers:
        template = sessions.template_of(layers.settings, options.template or "", long=options.long)
        notes = sessions.start(layers, options.text or "", id=options.id or "", template=template)
        state, root = notes.state(), notes.sheaf.root
        others = len(sessions.open_sessions(layers)) - 1
    call.console.answer({**_json(state), "folder": root}, [f"Began session {state.id}: {state.title}"])
    if others:
        told = f"{plural(others, 'other session is', 'other sessions are')} open"
        call.console.note(f"{told}: name this one with --session, or in MEMSHEAF_SESSION")
    return 0


def _note(call: Call) -> int:
    from memsheaf.text.sections import SECTION_TOKENS, count_tokens, find_section
    from memsheaf.work import sessions

    options = call.options
    text = call.given_text(options.text)
    with call.layers(session=options.session) as layers:
        notes = sessions.of(layers)
        noted = notes.note(text, section=options.section or "", replace=options.replace)
        size = count_tokens(find_section(notes.body, noted.section).text)
    value = {"id": notes.id, **noted._asdict(), "tokens": size}
    told = f"Noted under {noted.section} ({size:,} of {SECTION_TOKENS:,} tokens)"
    return call.console.answer(value, [told])


def _show(call: Call) -> int:
    from memsheaf.text.sections import sections
    from memsheaf.work import sessions

    with call.layers(session=_named(call), read_only=True) as layers:
        notes = sessions.of(layers)
        state, body = notes.state(), notes.body
    if call.console.json:
        found = [{"title": one.title, "text": one.text} for one in sections(body) if one.level]
        return call.console.answer({**_json(state), "sections": found, "text": body})
    ended = "" if state.is_open else ", ended"
    call.console.say(f"{state.title} ({state.id}, since {_minute(state.started)}{ended})", style="bold")
    call.console.say()
    call.console.say(body.strip("\n"))
    return 0


def _end(call: Call) -> int:
    from memsheaf.work import promotion, sessions

    options, console = call.options, call.console
    with call.layers(session=_named(call)) as layers:
        notes = sessions.of(layers)
        waiting = len(promotion.promising(layers, notes.sheaf)) if notes.state().is_open else 0
        next_step = _next_step(notes.id, waiting)
        if waiting and console.interactive and not (options.yes or console.json):
            console.note(next_step)
            if not console.confirm("End it now?"):
                console.note("Nothing was changed.")
                return 1
        ended = notes.end()
    value = {"id": notes.id, "waiting": waiting, **ended._asdict()}
    return console.answer(value, [*_told(notes.id, ended), f"  {next_step}"])


def _list(call: Call) -> int:
    from memsheaf.work import sessions

    console = call.console
    with call.layers(read_only=True) as layers:
        ids = sessions.open_sessions(layers) + (sessions.ended_sessions(layers) if call.options.all else [])
        found = [sessions.of(layers, id).state() for id in ids]
    found.sort(key=lambda state: (not state.is_open, state.started, state.id))
    if console.json:
        return console.answer({"sessions": [_json(state) for state in found]})
    if not found:
        console.say("No session is open; `memsheaf session start` begins one.")
        return 0
    head = ("ID", "STARTED", "CHANGED", "TOKENS", "STATE", "TITLE")
    console.table([head, *map(_cells, found)], ("bold", "dim", "dim"))
    return 0


def _named(call: Call) -> str:
    """The session that the line names, with --session or without."""
    options = call.options
    if options.text and options.session:
        raise Usage("the session is named twice")
    return str(options.text or options.session or "")


def _next_step(id: str, waiting: int) -> str:
    if not waiting:
        return "nothing waits to be promoted; `memsheaf brief` says where the work stands"
    offered = "it" if waiting == 1 else "them"
    return f"{plural(waiting, 'item')} could be promoted: `memsheaf promote --session {id}` offers {offered}"


def _told(id: str, ended: Ended) -> Iterator[str]:
    count = plural(len(ended.archived), "file")
    kept = f"{count} moved to its archive" if ended.archived else "nothing had been noted"
    yield f"Ended session {id}: {kept}"
    if ended.left:
        yield f"  stayed where they are: {', '.join(ended.left)}"
    yield f"  `memsheaf undo --scope session/{id}` brings it back"


def _cells(state: SessionState) -> tuple[str, ...]:
    stands = "ended" if not state.is_open else "blank" if state.is_blank else "open"
    return (state.id, _minute(state.started), _minute(state.changed), f"{state.tokens:,}", stands, state.title)


def _minute(moment: str) -> str:
    """A time as people read it.

    >>> _minute("2026-11-15T14:32:05Z")
    '2026-11-15 14:32 UTC'
    """
    day, _, time = moment.partition("T")
    return f"{day} {time[:5]} UTC" if time.endswith("Z") else moment


def _json(state: SessionState) -> dict[str, object]:
    return {
        "id": state.id,
        "title": state.title,
        "started": state.started,
        "changed": state.changed,
        "tokens": state.tokens,
        "blank": state.is_blank,
        "open": state.is_open,
    }


ACTIONS: dict[str, Callable[[Call], int]] = dict(zip(NAMES, (_start, _note, _show, _end, _list), strict=True))
