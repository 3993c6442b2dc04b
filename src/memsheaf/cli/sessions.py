"""Commands for sessions: the notes of one conversation."""

from __future__ import annotations

from memsheaf.cli.call import pick, plural
from memsheaf.cli.command import SESSION, Argument, Usage, group, place
from memsheaf.cli.output import Styled, Table
from memsheaf.cli.tasks import TEXT, others_note
from memsheaf.text.sections import SECTION_TOKENS, count_tokens, find_section, sections
from memsheaf.work import promotion, sessions
from memsheaf.work.sessions import of

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call
    from memsheaf.work.sessions import SessionState

_ID = Argument("id", "which session, as --session says it", "ID", complete="sessions")

session = group(
    """Keep notes of one conversation, which outlive its compaction.

    A session is a file with headings, which no prompt loads. `memsheaf undo --scope session/ID` brings an ended
    session back. A template of your own can be session.md in ~/.memsheaf.

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
    """,
    scoped=False,
)


@session.action(
    Argument("title", "what the conversation is about", "TITLE"),
    Argument("--id", "a name for it, instead of the day and a random number", "ID"),
    Argument("--template", "a Markdown file with the headings", "PATH", convert=place, complete="paths"),
    Argument("--long", "with ten sections instead of five"),
)
def start_session(call: Call) -> int:
    """Begin a session."""
    options = call.options
    if options.template and options.long:
        raise Usage("give --template or --long, not both")
    with call.layers() as layers:
        template = sessions.template_of(layers.settings, options.template or "", long=options.long)
        notes = sessions.start(layers, options.title or "", id=options.id or "", template=template)
        state, root = notes.state(), notes.sheaf.root
        others = len(sessions.open_sessions(layers)) - 1
    return call.answer(
        {**_session_json(state), "folder": root},
        f"Began session {state.id}: {state.title}",
        others_note(others, "session", "open"),
    )


@session.action(
    TEXT,
    SESSION,
    Argument("--section", "under which heading, or how it begins; else Worklog", "NAME"),
    Argument("--replace", "in the place of what stands there, as for Current State"),
)
def note_session(call: Call) -> int:
    """Add a bullet under a heading, with the time in the Worklog."""
    options = call.options
    text = call.given_text(options.text)
    with call.layers(session=options.session) as layers:
        notes = sessions.of(layers)
        noted = notes.note(text, section=options.section or "", replace=options.replace)
        size = count_tokens(find_section(notes.body, noted.section).text)
    said = f"Noted under {noted.section} ({size:,} of {SECTION_TOKENS:,} tokens)"
    return call.answer({"id": notes.id, **noted._asdict(), "tokens": size}, said)


@session.action(_ID, SESSION)
def show_session(call: Call) -> int:
    """Print the notes of a session."""
    with call.layers(session=_session_id(call), read_only=True) as layers:
        notes = of(layers)
        state, body = notes.state(), notes.body
    found = [{"title": one.title, "text": one.text} for one in sections(body) if one.level]
    ended = "" if state.is_open else ", ended"
    return call.answer(
        {**_session_json(state), "sections": found, "text": body},
        Styled(f"{state.title} ({state.id}, since {_minute(state.started)}{ended})", "bold"),
        "",
        body.strip("\n"),
    )


@session.action(_ID, SESSION, Argument("--yes", "do not ask, though something could still be promoted"))
def end_session(call: Call) -> int:
    """Move a session to its archive, after counting what could be promoted."""
    options, console = call.options, call.console
    with call.layers(session=_session_id(call)) as layers:
        notes = sessions.of(layers)
        waiting = len(promotion.promising(layers, notes.sheaf)) if notes.state().is_open else 0
        next_step = "nothing is waiting to be promoted; `memsheaf brief` says where the work stands"
        if waiting:
            count, offered = plural(waiting, "item"), "it" if waiting == 1 else "them"
            next_step = f"{count} could be promoted: `memsheaf promote --session {notes.id}` offers {offered}"
        if waiting and console.interactive and not (options.yes or console.json):
            console.note(next_step)
            if not console.confirm("End it now?"):
                console.note("Nothing was changed.")
                return 1
        ended = notes.end()
    moved = (
        f"{plural(len(ended.archived), 'file')} moved to its archive" if ended.archived else "nothing had been noted"
    )
    return call.answer(
        {"id": notes.id, "waiting": waiting, **ended._asdict()},
        f"Ended session {notes.id}: {moved}",
        f"  stayed where they are: {', '.join(ended.left)}" if ended.left else None,
        f"  `memsheaf undo --scope session/{notes.id}` brings it back",
        f"  {next_step}",
    )


@session.action(Argument("--all", "those that have ended, too"))
def list_session(call: Call) -> int:
    """List the sessions of the project."""
    with call.layers(read_only=True) as layers:
        ids = sessions.open_sessions(layers) + (sessions.ended_sessions(layers) if call.options.all else [])
        found = [sessions.of(layers, id).state() for id in ids]
    found.sort(key=lambda state: (not state.is_open, state.started, state.id))
    head = ("ID", "STARTED", "CHANGED", "TOKENS", "STATE", "TITLE")
    return call.answer(
        {"sessions": map(_session_json, found)},
        Table(map(_session_row, found), ("bold", "dim", "dim"), head),
        None if found else "No session is open; `memsheaf session start` begins one.",
    )


def _session_id(call: Call) -> str:
    """The session that the line names, with --session or without."""
    if call.options.id and call.options.session:
        raise Usage("the session is named twice")
    return str(call.options.id or call.options.session or "")


def _session_row(state: SessionState) -> tuple[str, ...]:
    stands = "ended" if not state.is_open else "blank" if state.is_blank else "open"
    return state.id, _minute(state.started), _minute(state.changed), f"{state.tokens:,}", stands, state.title


def _minute(moment: str) -> str:
    """A time as people read it.

    >>> _minute("2026-11-15T14:32:05Z")
    '2026-11-15 14:32 UTC'
    """
    day, _, time = moment.partition("T")
    return f"{day} {time[:5]} UTC" if time.endswith("Z") else moment


def _session_json(state: SessionState) -> dict[str, object]:
    value = pick(state, ("id", "title", "started", "changed", "tokens"))
    return {**value, "blank": state.is_blank, "open": state.is_open}
