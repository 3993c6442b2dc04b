"""Commands that make memory and conversations smaller: consolidate, dream, expect, compact."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator

from memsheaf.cli.call import Call, pick, plural
from memsheaf.cli.command import CONVERSATION, MODEL, SESSION, TASK, Argument, Usage, group, place, takes
from memsheaf.cli.output import Note, Part, Table
from memsheaf.errors import Busy
from memsheaf.learn.consolidate import (
    MAX_ANSWERS,
    ConsolidationReport,
    PlanGroup,
    expectations,
    unexpect,
)
from memsheaf.learn.consolidate import expect as expect_answer
from memsheaf.sheaf import Consolidation
from memsheaf.work.brief import compact as compact_conversation
from memsheaf.work.compaction import LEVELS

NOTES = 1 << 20  # bytes
_COMPACTED = (
    "level", "fits", "budget", "before", "after", "fates", "summary", "problem", "text",
)  # fmt: skip


@takes(Argument("--apply", "do it, as one commit that `memsheaf undo` undoes"), MODEL)
def consolidate(call: Call) -> int:
    """Merge memories that say the same, retire what no longer holds, make dates absolute.

    Without --apply it shows the plan. Without a model, near-duplicates are merged and what expired is retired; with
    one in the settings, it also looks at memories about the same subject. Nothing is deleted: the history keeps what
    is retired. What is pinned, and what you wrote yourself, is never touched. No more than two memories or a tenth
    are changed at once. The exit code is 1 when the model failed or a cap was reached; the rest is done.

    examples:
      memsheaf consolidate
      memsheaf consolidate --apply
      memsheaf consolidate --apply --model none --json
    """
    options, console = call.options, call.console
    with call.changing() if options.apply else call.reading() as sheaf, console.progress("Asking") as progress:
        report = Consolidation(sheaf).run(options.model, apply=options.apply, progress=progress)
    return _answer_report(call, report, apply=options.apply)


dream = group(
    """Show when memories are consolidated automatically, or do it now if it is due.

    The settings under [dream] say how much is needed.

    examples:
      memsheaf dream status
      memsheaf dream run
      memsheaf dream run --model none --json
    """,
    default="status",
)


@dream.action()
def status_dream(call: Call) -> int:
    """Print every gate, open or closed, and why."""
    with call.reading() as sheaf:
        found = list(Consolidation(sheaf).gates())
    is_due = all(gate.is_open for gate in found)
    gates = [{"name": gate.name, "open": gate.is_open, "why": gate.why} for gate in found]
    return call.answer(
        {"due": is_due, "gates": gates},
        Table([(gate.name, "open" if gate.is_open else "closed", gate.why) for gate in found], ("bold",)),
        "A consolidation is due: `memsheaf dream run` does it." if is_due else "No consolidation is due.",
    )


@dream.action(MODEL)
def run_dream(call: Call) -> int:
    """Consolidate when all gates are open; else say which is closed, which is no error."""
    with call.changing() as sheaf, call.console.progress("Asking") as progress:
        try:
            found, report = Consolidation(sheaf).run_if_due(call.options.model, progress=progress)
        except Busy as error:  # another process began in the same instant
            return call.answer({"done": False, "why": [str(error)]}, f"Not now: {error}.")
    if report is None:
        why = [f"{gate.name}: {gate.why}" for gate in found if not gate.is_open]
        return call.answer({"done": False, "why": why}, "Not now:", (f"  {line}" for line in why))
    return _answer_report(call, report, apply=True, done=True)


@takes(
    Argument("question", "what somebody will ask", "QUESTION"),
    Argument("file", "the memory that answers it", "FILE"),
    Argument("--drop", "forget this question", "QUESTION"),
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
    options, console = call.options, call.console
    if options.question and (options.drop or not options.file):
        raise Usage("give a question and a file, or --drop with a question, or nothing")
    with call.reading() as sheaf:
        if options.question:
            path = sheaf.read(options.file).path
            sheaf.own.require_writable()
            expect_answer(sheaf.own.state, options.question, path)
            if path not in [match.row.path for match in sheaf.own.matches(options.question, limit=MAX_ANSWERS)]:
                console.note(f"now it does not find {path} among the first {MAX_ANSWERS}: it counts once it does")
        elif options.drop and not unexpect(sheaf.own.state, options.drop):
            raise Usage("there is no such question; `memsheaf expect` shows them")
        stored = expectations(sheaf.own.state)
    table = Table([(pair.path, pair.question) for pair in stored], ("bold",))
    return call.answer({"expected": stored}, table if stored else "No questions are stored.")


def _answer_report(call: Call, report: ConsolidationReport, *, apply: bool, **more: object) -> int:
    value = {
        **more,
        **pick(report, ("commit", "retired", "notes")),
        "applied": apply,
        "groups": map(_group_json, report.groups),
        "dropped": [{**_group_json(dropped), "because": why} for dropped, why in report.dropped],
    }
    return call.answer(value, _report_lines(report, apply=apply), code=1 if report.notes else 0)


def _report_lines(report: ConsolidationReport, *, apply: bool) -> Iterator[str]:
    if not report.groups:
        yield "There is nothing to consolidate."
    for planned in report.groups:
        yield from _group_lines(planned)
    for dropped, why in report.dropped:
        yield f"left as it is: {dropped.action} of {', '.join(dropped.paths)}: {why}"
    yield from (f"Note: {note}" for note in report.notes)
    count = plural(report.retired, "memory", "memories")
    if report.groups and apply:
        yield f"Done: {count} retired. Undo with `memsheaf undo {report.commit}`."
    elif report.groups:
        yield f"Nothing was changed. With --apply, {count} would be retired."


def _group_lines(group: PlanGroup) -> Iterator[str]:
    yield f"{group.action}: {group.why}"
    if group.keeper and group.retired:
        retired = ", ".join(memory.path for memory in group.retired)
        yield f"  keeps {group.keeper.path}, retires {retired}"
    yield from (f"  {line}" for line in group.diff().splitlines())
    yield ""


def _group_json(group: PlanGroup) -> dict[str, object]:
    return {
        "action": group.action,
        "why": group.why,
        "keeper": group.keeper.path if group.keeper else "",
        "retired": [memory.path for memory in group.retired],
        "files": group.paths,
        "diff": group.diff(),
    }


@takes(
    CONVERSATION._replace(required=True),
    Argument("--budget", "how many tokens it may have, 4 bytes each; 50000", "TOKENS", default=50_000),
    Argument("--trigger", "why it is compacted", "WHY", choices=("budget", "phase", "task"), default="budget"),
    TASK,
    SESSION,
    Argument("--notes", "the summary, instead of the session's notes", "FILE", convert=place),
    MODEL,
    Argument("--print", "print what there is to go on with, as JSON lines; the report goes to standard error"),
    Argument("--approve", "go on with a conversation that failed three times in a row"),
    scoped=False,
)
def compact(call: Call) -> int:
    """Make a conversation fit a token budget, and report what was kept, dropped and spilled.

    Only as far as the budget needs: long tool output is cut, becomes one line, is dropped once it was answered; then
    all before the last 10,000 to 40,000 tokens is spilled into a file of the state directory, without secrets, and
    replaced by a summary: the session's notes, a model's, or bullets alone. Phase, blockers and decisions are taken
    from NOTES.md and the task, and always stay. At the end of a phase or a task more goes than the budget needs. The
    exit code is 1 when it does not fit, or when it failed three times in a row and needs --approve.

    examples:
      memsheaf compact conversation.jsonl
      memsheaf compact conversation.jsonl --budget 20000 --task feature-x --print
      memsheaf compact - --trigger phase --json
    """
    options = call.options
    turns = call.transcript(options.source)
    notes = call.file_text(options.notes, NOTES) if options.notes else ""
    with call.layers(task=options.task, session=options.session) as layers, call.console.waiting("compacting"):
        for line in layers.work.unclear():
            call.console.note(line)
        done = compact_conversation(
            layers,
            [message for turn in turns for message in turn.messages],
            options.budget,
            trigger=options.trigger,
            notes=notes,
            model=options.model,
            name=turns[-1].conversation,
            approve=options.approve,
        )
        folder = layers.only("project").own.state.folder
    file = os.path.join(folder, done.spill.name) if done.spill else ""
    messages = [
        {"role": one.role, "content": one.text, **({"id": one.id} if one.id else {})} for one in done.conversation
    ]
    value = {**pick(done, _COMPACTED), "spilled": file, "messages": messages}
    counts = ", ".join(f"{count:,} {fate}" for fate, count in Counter(done.fates).items())
    report = [
        f"{done.before:,} tokens before, {done.after:,} after, {done.budget:,} allowed",
        f"level {done.level}: {LEVELS[done.level]}",
        f"{plural(len(done.fates), 'message')}: {counts}",
        *([f"summary from: {done.summary}"] if done.summary else []),
        *(
            [f"{'no summary from the model' if done.fits else 'it does not fit'}: {done.problem}"]
            if done.problem
            else []
        ),
        *([f"written: {file}"] if file else []),
    ]
    if options.print:  # as lines of JSON: in plain text, a message could look like several
        parts: Part = ([Note(line, "") for line in report], map(json.dumps, messages))
    else:
        parts = (report, ["", done.text.rstrip()] if done.text else [])
    return call.answer(value, parts, code=0 if done.fits else 1)
