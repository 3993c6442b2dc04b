"""The command that makes a conversation fit."""

from __future__ import annotations

from collections.abc import Iterator

from memsheaf.cli.call import Call, pick, plural
from memsheaf.cli.command import SESSION, TASK, Argument, Usage, place, positive, takes
from memsheaf.cli.learn import MODEL, TRANSCRIPT
from memsheaf.errors import TextRefused, hinted

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.recall.turns import Message, TranscriptEntry
    from memsheaf.work.compaction.levels import Compacted

NOTES = 1 << 20  # bytes


@takes(
    Argument(
        "source",
        "a conversation: Claude Code's JSONL, JSON messages or plain text; - is standard input",
        "FILE",
        required=True,
        convert=place,
        complete="paths",
    ),
    Argument(
        "--budget", "how many tokens it may have, 4 bytes each; 50000", "TOKENS", default=50_000, convert=positive
    ),
    Argument("--trigger", "why it is compacted", "WHY", choices=("budget", "phase", "task"), default="budget"),
    TASK,
    SESSION,
    Argument("--notes", "the summary, instead of the session's notes", "FILE", convert=place, complete="paths"),
    MODEL,
    Argument("--print", "print what there is to go on with, as JSON lines; the report goes to standard error"),
    Argument("--approve", "go on with a conversation that failed three times in a row"),
    Argument("--dry-run", "write nothing, neither what is spilled nor whether it failed"),
    scoped=False,
)
def compact(call: Call) -> int:
    """Make a conversation fit a budget: what is kept, dropped, spilled, and what stands for it.

    As far as the budget needs and no further: long tool output is cut, becomes one line, is dropped once it was
    answered; then all before the last 10,000 to 40,000 tokens is spilled into a file of the state directory, without
    secrets, and the session's notes, a model or bullets alone stand for it. Phase, blockers and decisions are taken
    from NOTES.md and the task, and survive whatever goes. At the end of a phase or a task more goes than the
    budget needs. The exit code is 1 when it does not fit, or when it failed three times in a row and waits for
    --approve.

    examples:
      memsheaf compact conversation.jsonl
      memsheaf compact conversation.jsonl --budget 20000 --task feature-x --print
      memsheaf compact - --trigger phase --dry-run --json
    """
    import os

    options = call.options
    if options.approve and options.dry_run:
        raise Usage("--approve writes something, and --dry-run nothing")
    said, name = _conversation(call, options.source)
    notes = call.file_text(options.notes, NOTES) if options.notes else ""
    with (
        call.layers(task=options.task, session=options.session) as layers,
        call.console.waiting("compacting"),
    ):
        for line in layers.unclear():
            call.console.note(line)
        done = layers.compact(
            said,
            options.budget,
            trigger=options.trigger,
            notes=notes,
            model=options.model,
            name=name,
            approve=options.approve,
            dry_run=options.dry_run,
        )
        folder = layers.project.state.folder
    return _answered(call, done, os.path.join(folder, done.spill.name) if done.spill else "")


def _answered(call: Call, done: Compacted, file: str) -> int:
    console, dry_run = call.console, call.options.dry_run
    if console.json:
        fields = ("trigger", "level", "fits", "budget", "before", "after", "counts", "summary", "problem", "text")
        value = {**pick(done, fields), "bullets": [*done.bullets], "spilled": file, "dry_run": dry_run}
        console.answer({**value, "messages": [_message(one) for one in done.conversation]})
    elif call.options.print:
        for line in _report(done, file, dry_run=dry_run):
            console.note(line)
        _print(call, done)
    else:
        for line in _report(done, file, dry_run=dry_run):
            console.say(line)
        for bullet in done.bullets:
            console.say(f"  - {bullet}")
    return 0 if done.fits else 1


def _print(call: Call, done: Compacted) -> None:
    """The conversation in lines of JSON: in plain text, a message could look like several."""
    import json

    for one in done.conversation:
        call.console.say(json.dumps(_message(one)))


def _message(entry: TranscriptEntry) -> dict[str, str]:
    return {"role": entry.role, "content": entry.text, **({"id": entry.id} if entry.id else {})}


def _report(done: Compacted, file: str, *, dry_run: bool) -> Iterator[str]:
    from memsheaf.work.compaction.levels import LEVELS

    fits = "" if done.fits else f"; it does not fit: {done.problem}"
    yield f"{done.before:,} tokens before, {done.after:,} after, {done.budget:,} allowed{fits}"
    yield f"level {done.level}: {LEVELS[done.level]}"
    counts = ", ".join(f"{count:,} {fate}" for fate, count in done.counts.items())
    yield f"{plural(len(done.fates), 'message')}: {counts}"
    if done.summary:
        yield f"summary from: {done.summary}"
    if done.fits and done.problem:
        yield f"no summary from the model: {done.problem}"
    if file:
        yield f"{'would be written' if dry_run else 'written'}: {file}"


def _conversation(call: Call, source: str) -> tuple[list[Message], str]:
    """The messages of a conversation, and what it calls itself."""
    from memsheaf.learn.transcripts import read

    found = read(call.file_text(source, TRANSCRIPT))
    if found.skipped:
        call.console.note(f"{plural(found.skipped, 'line')} could not be understood")
    if not found.turns:
        hint = "Give a transcript: Claude Code's JSONL, messages in JSON, or plain text with User: and Assistant:."
        raise hinted(TextRefused("there is no message in it"), hint)
    return [message for turn in found for message in turn.messages], found.turns[-1].conversation
