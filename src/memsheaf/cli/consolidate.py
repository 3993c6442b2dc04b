"""Commands that consolidate: what says the same becomes one, what no longer holds goes; and when that is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from memsheaf.cli.call import plural
from memsheaf.cli.command import Argument, Usage, filled, takes
from memsheaf.cli.learn import MODEL
from memsheaf.errors import Busy

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call
    from memsheaf.learn.consolidate import ConsolidationReport
    from memsheaf.learn.merge_plan import PlanGroup
    from memsheaf.learn.schedule import Gate


@takes(
    Argument("--apply", "do it, as one commit that `memsheaf undo` takes back"),
    Argument("--dry-run", "only show what would be done; so it is without --apply, too"),
    Argument("--include-mine", "also what you wrote yourself, each group after a look at it"),
    Argument("--yes", "do not ask about what you wrote"),
    MODEL,
)
def consolidate(call: Call) -> int:
    """Merge memories that say the same, retire what no longer holds, make dates absolute.

    Without --apply it shows the plan. Without a model, near-duplicates are merged and what expired is retired; with
    one in the settings, it also looks at memories about the same subject. Nothing is deleted: the journal keeps what
    is retired. What is pinned is never touched, what you wrote yourself only with --include-mine, which asks about
    each group before it is done. No more than two memories or a tenth are retired at once. The exit code is 1 when
    the model failed or a cap was reached; the rest is done all the same.

    examples:
      memsheaf consolidate
      memsheaf consolidate --apply
      memsheaf consolidate --apply --include-mine
      memsheaf consolidate --apply --model none --json
    """
    options, console = call.options, call.console
    if options.apply and options.dry_run:
        raise Usage("give --apply or --dry-run, not both")
    if options.yes and not (options.apply and options.include_mine):
        raise Usage("--yes goes with --apply and --include-mine")
    with call.changing() if options.apply else call.reading() as sheaf, console.progress("Asking") as progress:
        report = sheaf.consolidate(
            options.model,
            apply=options.apply,
            progress=progress,
            mine=_approving(call) if options.include_mine else None,
        )
    console.answer(_report_json(report, apply=options.apply), _told(report, apply=options.apply))
    return 1 if report.notes else 0


@takes(
    Argument("what", "show whether it is due, or do it if it is", "WHAT", choices=("status", "run")),
    MODEL,
)
def dream(call: Call) -> int:
    """Show when memories are consolidated by themselves, or do it now if it is due.

    `status` prints every gate, open or closed, and why. `run` consolidates when all are open, and else says which is
    not; that is no error. The settings under [dream] say how much is needed.

    examples:
      memsheaf dream status
      memsheaf dream run
      memsheaf dream run --model none --json
    """
    console = call.console
    is_run = call.options.what == "run"
    if call.options.model and not is_run:
        raise Usage("--model goes with run")
    with call.changing() if is_run else call.reading() as sheaf, console.progress("Asking") as progress:
        if not is_run:
            return _show_gates(call, sheaf.gates())
        try:
            found, report = sheaf.dream(call.options.model, progress=progress)
        except Busy as error:  # somebody began in the same instant
            return console.answer({"done": False, "why": [str(error)]}, [f"Not now: {error}."])
    if report is None:
        why = [f"{gate.name}: {gate.why}" for gate in found if not gate.is_open]
        return console.answer({"done": False, "why": why}, ["Not now:", *(f"  {line}" for line in why)])
    value = {"done": True, **_report_json(report, apply=True)}
    console.answer(value, _told(report, apply=True))
    return 1 if report.notes else 0


@takes(
    Argument("question", "what somebody will ask", "QUESTION", convert=filled),
    Argument("file", "the memory that answers it", "FILE", complete="files"),
    Argument("--drop", "forget this question", "QUESTION", convert=filled),
)
def expect(call: Call) -> int:
    """Store a question with its answer, which no consolidation may then make harder to find.

    Before a consolidation is done, stored questions are asked of the memories as they would be. What would keep one
    from finding its answer among the first five is not done. Without a question, those that are stored are shown.

    examples:
      memsheaf expect
      memsheaf expect "which port has the proxy?" reference_ports.md
      memsheaf expect --drop "which port has the proxy?"
    """
    from memsheaf.learn import rehearsal

    options, console = call.options, call.console
    if options.question and (options.drop or not options.file):
        raise Usage("give a question and a file, or --drop with a question, or nothing")
    with call.reading() as sheaf:
        state = sheaf.state
        if options.question:
            path = sheaf.read(options.file).path
            rehearsal.expect(state, options.question, path)
            if path not in [match.row.path for match in sheaf.matches(options.question, limit=rehearsal.FIRST)]:
                console.note(f"now it does not find {path} among the first {rehearsal.FIRST}: it counts once it does")
        elif options.drop and not rehearsal.unexpect(state, options.drop):
            raise Usage("there is no such question; `memsheaf expect` shows them")
        stored = rehearsal.expectations(state)
    if console.json:
        return console.answer({"expected": [pair._asdict() for pair in stored]})
    if not stored:
        console.say("No questions are stored.")
    console.table([(pair.path, pair.question) for pair in stored], ("bold",))
    return 0


def _approving(call: Call) -> Callable[[PlanGroup], bool]:
    """Ask whether a group may be done that touches what a person wrote; without a terminal they say so by --yes."""

    def approve(group: PlanGroup) -> bool:
        for line in _group_lines(group):
            call.console.say(line)
        return call.console.confirm("Do this to what you wrote?")

    if call.options.yes or not call.options.apply:
        return lambda group: True
    if not call.console.interactive:
        raise Usage("this changes what you wrote; confirm it with --yes where nobody can be asked")
    return approve


def _show_gates(call: Call, gates: Iterable[Gate]) -> int:
    found = list(gates)
    is_due = all(gate.is_open for gate in found)
    if call.console.json:
        value = [{"name": gate.name, "open": gate.is_open, "why": gate.why} for gate in found]
        return call.console.answer({"due": is_due, "gates": value})
    call.console.table([(gate.name, "open" if gate.is_open else "closed", gate.why) for gate in found], ("bold",))
    call.console.say(
        "A consolidation is due: `memsheaf dream run` does it." if is_due else "No consolidation is due."
    )
    return 0


def _told(report: ConsolidationReport, *, apply: bool) -> Iterator[str]:
    if not report.groups and not report.mine:
        yield "There is nothing to consolidate."
    for group in report.groups:
        yield from _group_lines(group)
    if report.dropped:
        yield "Left as it is:"
        yield from (f"  {one.group.action} of {', '.join(one.group.paths)}: {one.why}" for one in report.dropped)
    if report.mine:
        left = f"{plural(len(report.mine), 'group is', 'groups are')} left alone because you wrote them"
        yield f"{left}; --include-mine proposes them for review."
    yield from (f"Note: {note}" for note in report.notes)
    if report.groups:
        count = plural(report.retired, "memory", "memories")
        yield (
            f"Done: {count} retired. `memsheaf undo {report.commit}` takes it back."
            if apply
            else f"Nothing was changed. With --apply, {count} would be retired."
        )


def _group_lines(group: PlanGroup) -> Iterator[str]:
    yield f"{group.action}{' of what you wrote' if group.mine else ''}: {group.why}"
    if group.keeper and group.retired:
        yield f"  keeps {group.keeper}, retires {', '.join(group.retired)}"
    yield from (f"  {line}" for line in group.diff().splitlines())
    yield ""


def _report_json(report: ConsolidationReport, *, apply: bool) -> dict[str, object]:
    return {
        "applied": apply,
        "commit": report.commit,
        "retired": report.retired,
        "groups": [_group_json(group) for group in report.groups],
        "dropped": [{**_group_json(one.group), "because": one.why} for one in report.dropped],
        "notes": list(report.notes),
        "mine": [_group_json(group) for group in report.mine],
    }


def _group_json(group: PlanGroup) -> dict[str, object]:
    return {
        "action": group.action,
        "why": group.why,
        "files": list(group.paths),
        "keeper": group.keeper,
        "retired": list(group.retired),
        "model": group.model,
        "mine": group.mine,
        "diff": group.diff(),
    }
