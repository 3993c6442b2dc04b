"""Commands that make memory and conversations smaller."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated

from memsheaf.cli.call import Call, Result, pick, plural
from memsheaf.cli.output import Table
from memsheaf.cli.parser import Place, Positive, Usage
from memsheaf.errors import Busy
from memsheaf.learn.consolidate import (
    MAX_ANSWERS,
    ConsolidationReport,
    Expectation,
    Gate,
    PlanGroup,
    expectations,
    unexpect,
)
from memsheaf.learn.consolidate import expect as expect_answer
from memsheaf.sheaf import Consolidation, Sheaf, find_memory
from memsheaf.work.brief import compact as compact_conversation
from memsheaf.work.compaction import LEVELS

Trigger = Annotated[str, ("budget", "phase", "task")]
_COMPACTED = ("level", "fits", "budget", "before", "after", "fates", "summary", "problem", "text")


def consolidate(
    call: Call,
    memory: str = "",
    *,
    apply: bool = False,
    if_due: bool = False,
    expect: str = "",
) -> Result:
    """Merge memories that say the same, retire what no longer holds, make dates absolute.

    Without --apply it shows the plan. Without a model, near-duplicates are merged and what expired is retired; with
    one in the settings, it also looks at memories about the same subject. Nothing is deleted: the history keeps what
    is retired. What is pinned, and what you wrote yourself, is never touched. No more than two memories or a tenth
    are changed at once. The exit code is 1 when the model failed or a cap was reached; the rest is done.

    With --if-due it shows the gates of an automatic consolidation, as the settings under [dream] have them, and does
    it with --apply when all are open. A question that is stored with --expect is asked of the memories as they would
    be: what would keep it from finding its MEMORY among the first five is not done.

    arguments:
      MEMORY: with --expect, the memory that answers the question
      --apply: do it, as one commit that `memsheaf undo` undoes
      --if-due: show the gates, and do nothing while one is closed
      --expect QUESTION: store a question that must go on finding its memory; without a MEMORY, forget it

    examples:
      memsheaf consolidate
      memsheaf consolidate --apply
      memsheaf consolidate --if-due --apply
      memsheaf consolidate --expect "which port has the proxy?" reference_ports.md
    """
    if memory and not expect:
        raise Usage("a MEMORY goes with --expect QUESTION, which it answers")
    with call.memory(scopes=[call.scope()]) if apply else call.reading() as sheaf:
        if expect:
            return _store_question(call, sheaf, expect, memory)
        consolidation = Consolidation(sheaf)
        if if_due:
            gates = consolidation.gates()
            if not (apply and all(gate.is_open for gate in gates)):
                return _describe_gates(gates, expectations(sheaf.own.state))
        with call.console.progress("Asking") as progress:
            if if_due:
                try:
                    gates, report = consolidation.run_if_due(progress=progress)
                except Busy as error:  # another process began in the same instant
                    return Result({"done": False, "why": [str(error)]}, f"Not now: {error}.")
                if report is None:
                    return _describe_gates(gates, [])
            else:
                report = consolidation.run(apply=apply, progress=progress)
    value = {
        **pick(report, ("commit", "retired", "notes")),
        "applied": apply,
        "done": apply,
        "groups": [_group_json(group) for group in report.groups],
        "dropped": [{**_group_json(dropped), "because": why} for dropped, why in report.dropped],
    }
    return Result(value, list(_report_lines(report, apply=apply)), code=1 if report.notes else 0)


def _describe_gates(gates: Sequence[Gate], stored: Sequence[Expectation]) -> Result:
    """Say whether a consolidation is due, which gate is closed and why."""
    is_due = all(gate.is_open for gate in gates)
    rows = [(gate.name, "open" if gate.is_open else "closed", gate.why) for gate in gates]
    listed = [{"name": gate.name, "open": gate.is_open, "why": gate.why} for gate in gates]
    return Result(
        {"due": is_due, "done": False, "gates": listed, "expected": stored},
        Table(rows, ("bold",)),
        [f"expected to find {one.path}: {one.question}" for one in stored],
        "A consolidation is due: --apply does it." if is_due else "No consolidation is due.",
    )


def _store_question(call: Call, sheaf: Sheaf, question: str, memory: str) -> Result:
    """Store a question with the memory that answers it, or forget one."""
    state = sheaf.own.state
    if memory:
        path = sheaf.read(find_memory(sheaf, memory)).path
        sheaf.own.require_writable()
        expect_answer(state, question, path)
        if path not in [match.row.path for match in sheaf.own.matches(question, limit=MAX_ANSWERS)]:
            call.console.note(f"now it does not find {path} among the first {MAX_ANSWERS}: it counts once it does")
    elif not unexpect(state, question):
        raise Usage("there is no such question; `memsheaf consolidate --if-due` shows them")
    stored = expectations(state)
    rows = [(one.path, one.question) for one in stored]
    return Result({"expected": stored}, Table(rows, ("bold",)) if rows else "No questions are stored.")


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


def compact(call: Call, source: Place, *, budget: Positive = 50_000, trigger: Trigger = "budget") -> Result:
    """Make a conversation fit a token budget, and report what was kept, dropped and spilled.

    Only as far as the budget needs: long tool output is cut, becomes one line, is dropped once it was answered; then
    all before the last 10,000 to 40,000 tokens is spilled into a file of the state directory, without secrets, and
    replaced by a summary: the session's notes, a model's, or bullets alone. Phase, blockers and decisions are taken
    from NOTES.md and the task, and always stay. At the end of a phase or a task more goes than the budget needs. The
    exit code is 1 when it does not fit, or when it failed three times in a row and needs --yes. -s names a task
    or a session; --json has the messages to go on with.

    arguments:
      FILE: a conversation: Claude Code's JSONL, JSON messages or plain text; - is standard input
      --budget TOKENS: how many tokens it may have, 4 bytes each (50,000)
      --trigger WHY: why it is compacted

    examples:
      memsheaf compact conversation.jsonl
      memsheaf compact conversation.jsonl --budget 20000 -s task/feature-x
      memsheaf compact - --trigger phase --json
    """
    turns = call.transcript(source)
    with call.layers() as layers, call.console.waiting("compacting"):
        for line in layers.work.unclear():
            call.console.note(line)
        done = compact_conversation(
            layers,
            [message for turn in turns for message in turn.messages],
            budget,
            trigger=trigger,
            name=turns[-1].conversation,
            approve=call.yes,
        )
        folder = layers.only("project").own.state.folder
    file = os.path.join(folder, done.spill.name) if done.spill else ""
    messages = [
        {"role": one.role, "content": one.text, **({"id": one.id} if one.id else {})} for one in done.conversation
    ]
    counts = ", ".join(f"{count:,} {fate}" for fate, count in Counter(done.fates).items())
    failed = "no summary from the model" if done.fits else "it does not fit"
    return Result(
        {**pick(done, _COMPACTED), "spilled": file, "messages": messages},
        f"{done.before:,} tokens before, {done.after:,} after, {done.budget:,} allowed",
        f"level {done.level}: {LEVELS[done.level]}",
        f"{plural(len(done.fates), 'message')}: {counts}",
        f"summary from: {done.summary}" if done.summary else None,
        f"{failed}: {done.problem}" if done.problem else None,
        f"written: {file}" if file else None,
        ["", done.text.rstrip()] if done.text else None,
        code=0 if done.fits else 1,
    )
