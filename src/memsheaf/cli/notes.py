"""Show or change where the work stands: NOTES.md, which every agent reads first, and the daily log.

What would make the notes longer than 20 lines, or a history of the work, is refused. Any editor changes them, too.
"""

import time

from memsheaf.cli.call import BY, Call, Result, insisting, pick, plural
from memsheaf.cli.output import Note
from memsheaf.cli.parser import Day, Usage
from memsheaf.learn.daily_log import DailyLog
from memsheaf.recall.inject import NOTES
from memsheaf.scope import Scope, checkout_of
from memsheaf.state.trust import TrustLedger
from memsheaf.work import notes as work_notes
from memsheaf.work.brief import brief
from memsheaf.work.notes import BLOCKERS, OBJECTIVE, PENDING, PHASE, noted_under, problems


def show(call: Call) -> Result:
    """Show where the work stands: NOTES.md, the task, and the notes of the session.

    It is made of the files alone, so it is what an agent needs to go on after its context was lost. Where several
    tasks are active or several sessions open, they are listed; -s names one, as do MEMSHEAF_TASK and
    MEMSHEAF_SESSION.

    examples:
      memsheaf notes
      memsheaf notes --json
    """
    with call.layers(read_only=True) as layers:
        text = brief(layers)
        notes = work_notes.read_notes(layers.only("project"))
    nothing = "there are no notes, no task and no session here yet; `memsheaf notes set --objective TEXT` begins them"
    return Result({"brief": text, **_notes_json(notes)}, text.encode() if text else Note(nothing, ""))


def set_(
    call: Call, *, objective: str = "", phase: str = "", blocker: str = "", pending: str = "", prune: bool = False
) -> Result:
    """Say what the work is for, what phase it is in, what blocks it and what is pending.

    With --prune what is over, marked with DONE and the day, goes to NOTES-archive.md: it is shown first, and moved
    once you agree. What only a person can judge is listed.

    arguments:
      --objective TEXT: what the work is for now
      --phase TEXT: which phase it is in
      --blocker TEXT: what stands in the way, or may go wrong; added to those that are there
      --pending TEXT: the one thing that waits to be decided
      --prune: move what is over to the archive

    examples:
      memsheaf notes set --objective "Move the importer to the new API" --phase "2 of 6: the parser"
      memsheaf notes set --blocker "The vendor has not sent the key"
      memsheaf notes set --prune
    """
    if prune:
        return _prune(call)
    lines = {OBJECTIVE: objective, PHASE: phase, BLOCKERS: blocker, PENDING: pending}
    if not any(lines.values()):
        raise Usage("set needs --objective, --phase, --blocker, --pending or --prune")
    with call.layers() as layers:
        text, commit = work_notes.set_notes(layers.only("project"), lines)
    return Result({**_notes_json(text), "commit": commit}, text.rstrip())


def _prune(call: Call) -> Result:
    """Show what is over, and move it to the archive once a person agrees."""
    with call.layers() as layers:
        project = layers.only("project")
        planned = work_notes.prune(work_notes.read_notes(project), layers.today)
        moved = [f"{entry.heading or 'Above the headings'}: {entry.text}" for entry in planned.moved]
        left, commit = problems(planned.text, layers.today), ""
        can_apply = call.yes or (call.console.interactive and not call.console.json)
        if moved and not call.yes:
            call.console.show(moved)
        if moved and can_apply and (call.yes or call.console.confirm(f"Move {plural(len(moved), 'piece')}?")):
            planned, commit = work_notes.archive_notes(project)
    count = plural(len(moved), "piece")
    said = f"Moved {count} to the archive." if commit else f"With --yes, {count} would be moved to the archive."
    advice = [(f"line {one.line}: " if one.line else "") + f"{one.what}. {one.advice}" for one in left]
    return Result(
        {
            **pick(planned, ("review", "text")),
            "moved": [pick(entry, ("heading", "text")) for entry in planned.moved],
            "applied": bool(commit),
            "commit": commit,
            "problems": left,
        },
        said if moved else "There is nothing to move.",
        ["To be fixed by hand:", *advice] if advice else None,
    )


def _notes_json(text: str) -> dict[str, object]:
    return {
        "path": NOTES,
        "objective": "\n".join(noted_under(text, OBJECTIVE)),
        "phase": "\n".join(noted_under(text, PHASE)),
        "blockers": noted_under(text, BLOCKERS),
        "pending": noted_under(text, PENDING),
        "text": text,
    }


def diary(call: Call, text: str = "", *, since: Day = "", undo: bool = False) -> Result:
    """Note something in the daily log, or show what was logged.

    The log is plain Markdown in the scope's folder, logs/YYYY/MM/YYYY-MM-DD.md: your notes, and with the policy "log"
    what you say to your agents. It is append-only. `memsheaf learn` makes memories of it.

    arguments:
      TEXT: what to note; - reads it from standard input; without it, on a terminal, today's notes are shown
      --since DAY: show what was noted on this day, such as 2026-11-15, and later
      --undo: take back what was logged last, which `memsheaf undo` does not reach

    examples:
      memsheaf notes diary "Remember that our releases go out on Fridays."
      git log -1 --format=%s | memsheaf notes diary -
      memsheaf notes diary --since 2026-11-01 --json
    """
    log = _daily_log(call)
    if undo:
        with log:
            path = log.undo(by=BY)
        return Result({"path": f"logs/{path}"}, f"Took back what was logged last, in logs/{path}")
    if since or (not text and call.console.interactive):
        days = log.days(since or time.strftime("%Y-%m-%d"), "")
        texts = [day.text.rstrip() + ("\n" if day is not days[-1] else "") for day in days]
        nothing = f"nothing was logged on {since or 'this day'} or later"
        return Result({"days": [pick(one, ("day", "entries")) for one in days]}, texts or nothing)
    noted = call.given_text(text)
    with log, insisting():
        path = log.note(noted, by=BY)
    return Result({"path": f"logs/{path}"}, f"Noted in logs/{path}. Undo with `memsheaf notes diary --undo`.")


def _daily_log(call: Call) -> DailyLog:
    root, state, settings = call.root(), call.state(), call.settings()
    learns = settings.policy_of(Scope.parse(call.scope())) != "manual"
    checkout = checkout_of(root, settings.home)
    return DailyLog(root, state, ledger=TrustLedger(state, checkout) if checkout else None, learns=learns)
