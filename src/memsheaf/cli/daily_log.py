"""The command that keeps and shows the daily log."""

from __future__ import annotations

from collections.abc import Sequence

from memsheaf.cli.call import BY, here, insisting, plural
from memsheaf.cli.command import ALLOW_SECRET, Argument, Usage, takes
from memsheaf.memory import Allow

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call
    from memsheaf.learn.daily_log import DailyLog, Day


def day(value: str) -> str:
    """Let a day through, as the log has it.

    >>> day("2026-11-15")
    '2026-11-15'
    """
    from datetime import date

    try:
        if date.fromisoformat(value).isoformat() == value:
            return value
    except ValueError:
        pass
    raise ValueError("give a day such as 2026-11-15")


@takes(
    Argument("text", "what to note; - reads it from standard input; with --show, the day to show (today)", "TEXT"),
    Argument("--show", "print what was logged on a day"),
    Argument("--since", "print what was logged on this day and later", "DAY", convert=day),
    Argument("--list", "list the days that were logged"),
    Argument("--undo", "take back what was logged last"),
    ALLOW_SECRET,
)
def diary(call: Call) -> int:
    """Note something in the daily log, or show what was logged.

    The log is plain Markdown in the scope's folder, logs/YYYY/MM/YYYY-MM-DD.md: your notes, and with the policy "log"
    what you say to your agents. It is only ever added to. `memsheaf extract` makes memories of it. --undo takes back
    what was logged last, which `memsheaf undo` does not reach; what is older, you take out in an editor.

    examples:
      memsheaf diary "Remember that our releases go out on Fridays."
      git log -1 --format=%s | memsheaf diary -
      memsheaf diary --show
      memsheaf diary --show 2026-11-15
      memsheaf diary --since 2026-11-01 --json
      memsheaf diary --list
      memsheaf diary --undo
    """
    options = call.options
    chosen = [bool(one) for one in (options.show, options.since, options.list, options.undo)]
    if sum(chosen) > 1:
        raise Usage("give one of --show, --since, --list and --undo")
    if options.allow_secret and any(chosen):
        raise Usage("--allow-secret goes with a note")
    if options.text is not None and any(chosen[1:]):
        raise Usage("a note cannot be taken and the log be shown or changed at once")
    if not any(chosen):
        return _note(call)
    if options.undo:
        return _undo(call)
    first = options.since or (_shown_day(call) if options.show else "")
    found = _log(call).days(first, first if options.show else "")
    return _list(call, found) if options.list else _show(call, found, first)


def _log(call: Call) -> DailyLog:
    from memsheaf.learn.daily_log import DailyLog
    from memsheaf.scope import Scope, checkout_of, resolve
    from memsheaf.store.state import State
    from memsheaf.store.trust import TrustLedger

    settings = call.settings()
    root = resolve(Scope.parse(call.scope()), settings.places(here()))
    state = State.of(root, settings.state)
    checkout = checkout_of(root, settings.home)
    return DailyLog(root, state, ledger=TrustLedger(state, checkout) if checkout else None)


def _note(call: Call) -> int:
    text = call.given_text(call.options.text)
    with _log(call) as log, insisting():
        path = log.note(text, by=BY, allow=Allow(secrets=call.options.allow_secret))
    return call.console.answer(
        {"path": f"logs/{path}"}, [f"Noted in logs/{path}; `memsheaf diary --undo` takes it back"]
    )


def _undo(call: Call) -> int:
    with _log(call) as log:
        path = log.undo(by=BY)
    return call.console.answer({"path": f"logs/{path}"}, [f"Took back what was logged last, in logs/{path}"])


def _shown_day(call: Call) -> str:
    import time

    if call.options.text is None:
        return time.strftime("%Y-%m-%d")
    try:
        return day(call.options.text)
    except ValueError as error:
        raise Usage(f"{call.options.text!r} is no day: {error}") from None


def _show(call: Call, days: Sequence[Day], first: str) -> int:
    if call.console.json:
        shown = [{"day": one.day, "entries": [entry._asdict() for entry in one.entries]} for one in days]
        return call.console.answer({"days": shown})
    for one in days:
        call.console.say(one.text.rstrip() + ("\n" if one is not days[-1] else ""))
    if not days:
        since = " or later" if call.options.since else ""
        call.console.say(f"nothing was logged on {first}{since}")
    return 0


def _list(call: Call, days: Sequence[Day]) -> int:
    if call.console.json:
        return call.console.answer({"days": [{"day": one.day, "entries": len(one.entries)} for one in days]})
    if not days:
        call.console.say("nothing was logged yet")
        return 0
    call.console.table([("DAY", "ENTRIES"), *((one.day, f"{len(one.entries):,}") for one in days)], ("bold",))
    call.console.say(plural(len(days), "day"), style="dim")
    return 0
