"""Keep notes of one conversation, which outlive its compaction.

A session is a file with headings, which no prompt loads. `memsheaf undo -s session/ID` opens one that ended again. A
template of your own can be session.md in ~/.memsheaf. -s session/ID says which session a command is about; else
MEMSHEAF_SESSION does, else it is the only open one.
"""

from memsheaf.cli.call import Call, Result, local_minute, pick, plural
from memsheaf.cli.output import Styled, Table
from memsheaf.text.sections import sections
from memsheaf.work import promotion, sessions


def show(call: Call, *, all: bool = False) -> Result:
    """Print the notes of a session, or list the sessions where it is not clear which one is meant.

    arguments:
      --all: list all of them, those that have ended too

    examples:
      memsheaf session show -s session/2026-11-15-ab12
      memsheaf session show --all --json
    """
    with call.layers(read_only=True) as layers:
        going = layers.work.going("session")
        if all or (len(going) != 1 and not layers.work.chosen["session"]):
            return _list_sessions(
                [sessions.open_session(layers, one).state() for one in going + sessions.list_ended(layers) * all]
            )
        notes = sessions.open_session(layers)
        state, body = notes.state(), notes.body
    parts = [{"title": one.title, "text": one.text} for one in sections(body) if one.level]
    ended = "" if state.is_open else ", ended"
    return Result(
        {**_session_json(state), "sections": parts, "text": body},
        Styled(f"{state.title} ({state.id}, since {local_minute(state.started)}{ended})", "bold"),
        "",
        body.strip("\n"),
    )


def _list_sessions(found: list[sessions.SessionState]) -> Result:
    found.sort(key=lambda state: (not state.is_open, state.started, state.id))
    rows = []
    for one in found:
        stands = "ended" if not one.is_open else "blank" if one.is_blank else "open"
        times = local_minute(one.started), local_minute(one.changed)
        rows.append((one.id, *times, f"{one.tokens:,}", stands, one.title))
    return Result(
        {"sessions": [_session_json(one) for one in found]},
        Table(rows, ("bold", "dim", "dim"), ("ID", "STARTED", "CHANGED", "TOKENS", "STATE", "TITLE"))
        if rows
        else None,
        None if rows else "No session is open; `memsheaf session start` begins one.",
    )


def start(call: Call, title: str = "", *, long: bool = False) -> Result:
    """Begin a session, named by the day and a random number, or by -s session/NAME.

    arguments:
      TITLE: what the conversation is about
      --long: with ten sections instead of five

    examples:
      memsheaf session start "Move the login to OAuth"
    """
    id = dict(scope.partition("/")[::2] for scope in call.named).get("session", "")
    with call.memory(scopes=()) as layers:
        template = sessions.read_template(layers.settings, long=long)
        notes = sessions.start_session(layers, title, id=id, template=template)
        state, root = notes.state(), notes.sheaf.root
        others = len(layers.work.going("session")) - 1
    return Result(
        {**_session_json(state), "folder": root},
        f"Began session {state.id}: {state.title}",
        call.others_note(others, "session", state.id),
    )


def note(call: Call, text: str = "", *, section: str = "", replace: bool = False) -> Result:
    """Add a bullet under a heading, with the time in the Worklog.

    arguments:
      TEXT: what to note; - reads standard input, which is also the way when it is left out
      --section NAME: under which heading, or how it begins; else Worklog
      --replace: replace what is there, as for Current State

    examples:
      memsheaf session note "The tests run in 40 s"
      memsheaf session note --section current --replace "Phase 2 of 3; last: callback; next: refresh token"
    """
    said = call.given_text(text)
    with call.layers() as layers:
        notes = sessions.open_session(layers)
        noted = notes.note(said, section=section, replace=replace)
    return Result({"id": notes.id, "section": noted}, f"Noted under {noted}")


def end(call: Call) -> Result:
    """Move the notes of a session to its archive, after counting what could be promoted.

    examples:
      memsheaf session end --yes
    """
    console = call.console
    with call.layers() as layers:
        notes = sessions.open_session(layers)
        waiting = len(promotion.items(notes.sheaf)) if notes.state().is_open else 0
        next_step = "nothing is waiting to be promoted; `memsheaf notes` says where the work stands"
        if waiting:
            line = f"`memsheaf promote -s session/{notes.id}` shows the checklist"
            next_step = f"{plural(waiting, 'item')} could be promoted: {line}"
        if waiting and console.interactive and not (call.yes or console.json):
            console.note(next_step)
            call.confirm("End it now?", without="", left="Nothing was changed.")
        is_blank, commit = notes.is_blank, notes.end()
    moved = "nothing had been noted" if is_blank else "its notes are in the archive"
    return Result(
        {"id": notes.id, "waiting": waiting, "blank": is_blank, "commit": commit},
        f"Ended session {notes.id}: {moved}",
        f"  Undo with `memsheaf undo -s session/{notes.id}`.",
        f"  {next_step}",
    )


def _session_json(state: sessions.SessionState) -> dict[str, object]:
    value = pick(state, ("id", "title", "started", "changed", "tokens"))
    return {**value, "blank": state.is_blank, "open": state.is_open}
