"""Commands that learn from conversations: the inbox, extraction, review, and the daily log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date

from memsheaf.cli.call import BY, TRANSCRIPT_HINT, Call, insisting, pick, plural
from memsheaf.cli.changes import edited_text
from memsheaf.cli.command import ALLOW_SECRET, CONVERSATION, DRY_RUN, MODEL, Argument, Usage, group, takes
from memsheaf.cli.output import Part, Styled, Table
from memsheaf.errors import MemsheafError, NotFound, TextRefused, hinted
from memsheaf.history import diff
from memsheaf.index.database import Row
from memsheaf.learn.daily_log import DailyLog
from memsheaf.learn.inbox import Inbox
from memsheaf.learn.learner import Distilled, QueuedProposal
from memsheaf.memory import Allow, parse
from memsheaf.recall.turns import Turn
from memsheaf.scope import checkout_of
from memsheaf.store.trust import TrustLedger
from memsheaf.text.neutralize import one_line
from memsheaf.work.layers import Layers

inbox = group(
    """Show the conversations that are waiting to be learned from.

    Turns come in when an agent hands them over, or with `inbox add`. Secrets are taken out before they are kept, and
    what was read before, in whichever conversation, is not taken in again. `memsheaf extract` learns from them, and
    then they are removed.

    examples:
      memsheaf inbox
      memsheaf inbox add conversation.jsonl
      memsheaf inbox clear --yes
    """,
    default="show",
)


@inbox.action()
def show_inbox(call: Call) -> int:
    """List the conversations that are waiting."""
    found = Inbox(call.state())
    turns = found.turns()
    conversations: dict[str, list[Turn]] = {}
    for turn in turns:
        conversations.setdefault(turn.conversation, []).append(turn)
    listed, rows = [], []
    for name, said in conversations.items():
        messages = [message for turn in said for message in turn.messages]
        size = sum(len(message.text.encode()) for message in messages)
        first = one_line(next((one for one in messages if one.role == "user"), messages[0]).text, 80)
        value = {"conversation": name, "turns": len(said), "bytes": size, "since": said[0].at, "first": first}
        listed.append(value)
        rows.append((one_line(name, 40) or "(unnamed)", f"{len(said):,}", said[0].at[:16], first))
    count = f"{plural(len(turns), 'turn')} in {plural(len(conversations), 'conversation')}"
    return call.answer(
        {"turns": len(turns), "conversations": listed, "learned": found.learned()},
        Table(rows, ("bold", "", "dim"), ("CONVERSATION", "TURNS", "SINCE", "FIRST WORDS")),
        Styled(count, "dim") if turns else "nothing is waiting to be learned from",
    )


@inbox.action(CONVERSATION._replace(required=True))
def add_inbox(call: Call) -> int:
    """Put a transcript in."""
    transcript = call.transcript(call.options.source, [call.root()])
    if not transcript.turns:
        raise hinted(TextRefused("there is no message in it; nothing was taken in"), TRANSCRIPT_HINT)
    with call.console.waiting("taking in"):
        added = Inbox(call.state()).extend(transcript)
    value = {"format": transcript.format, "turns": len(transcript.turns), "added": added}
    said = f"Took in {added:,} of {plural(len(transcript.turns), 'turn')}"
    return call.answer({**value, "skipped": transcript.skipped}, said)


@inbox.action(Argument("--yes", "do not ask before dropping it"))
def clear_inbox(call: Call) -> int:
    """Drop what is waiting, unread."""
    found = Inbox(call.state())
    waiting = found.left()
    question = f"Drop {plural(waiting, 'turn')} that nothing was learned from?"
    if waiting and not call.confirm(question, without="what is waiting would be lost", left="Nothing was dropped."):
        return 1
    dropped = found.clear()
    return call.answer({"dropped": dropped}, f"Dropped {plural(dropped, 'turn')}")


@takes(CONVERSATION, MODEL, DRY_RUN)
def extract(call: Call) -> int:
    """Make memories of what was said: of the turns in the inbox, or of a conversation in a file.

    With a model in the settings it reads the conversation; without one, rules catch what was asked for explicitly
    ("remember that", "from now on", "we decided"). What was read once is not read again. The policy of the scope
    decides whether a memory is saved or waits for `memsheaf review`. The exit code is 1 when something has to wait
    because the model failed or a cap was reached: nothing is lost, and the next run goes on.

    examples:
      memsheaf extract
      memsheaf extract conversation.jsonl --dry-run
      memsheaf extract notes.txt --model none --json
    """
    options, console = call.options, call.console
    with call.memory() as memories:
        turns = list(call.transcript(options.source, [memories.root])) if options.source else []
        model = memories.metered("extract", options.model)
        if options.dry_run:
            rehearsed = turns if options.source else memories.learning.waiting()
            done = Distilled(len(rehearsed), tuple(memories.learning.rehearse(rehearsed, model)))
        else:
            added = memories.learning.inbox.extend(turns) if turns else 0
            with console.progress("Reading turns") as progress:
                done = memories.learning.distil(model, progress=progress)
            if options.source and not added and not done.turns:
                console.note("all of it was read before")
    fields = ("name", "description", "kind", "content", "replaces", "conversation", "trust")
    verdicts = [{**pick(one, ("outcome", "path", "why")), **pick(one.proposal, fields)} for one in done.verdicts]
    return call.answer(
        {**pick(done, ("turns", "left", "problem")), "dry_run": options.dry_run, "verdicts": verdicts},
        _distilled_lines(done, dry_run=options.dry_run, hint=model is None and not options.model),
        code=1 if done.problem else 0,
    )


def _distilled_lines(done: Distilled, *, dry_run: bool, hint: bool) -> Iterator[str]:
    counts = ", ".join(f"{len(done.of(one))} {one}" for one in ("saved", "queued", "dropped"))
    summary = counts + (", if it were done" if dry_run else "") if done.verdicts else "nothing to keep."
    yield f"Read {plural(done.turns, 'turn')}: {summary}"
    for one in done.verdicts:
        outcome = {"saved": "saved", "queued": "waiting for review"}.get(one.outcome, "dropped")
        outcome = f"would be {one.outcome}" if dry_run else outcome
        yield f"  {outcome}: {one.path or one.proposal.name}" + (f" ({one.why})" if one.why else "")
    if done.problem:
        yield f"{plural(done.left, 'turn is', 'turns are')} waiting: {done.problem}"
    command = next(filter(shutil.which, ("claude", "codex")), "") if hint and done.turns else ""
    if command:
        yield f"Rules read this; your own `{command}` finds more: `memsheaf extract --model {command}`."


@takes(
    Argument("--approve", "save this proposal, or confirm this memory; all: every one", "ID", repeated=True),
    Argument("--reject", "refuse this one: it is not learned again; all: every one", "ID", repeated=True),
    Argument("--edit", "open this one in your editor, and save what you make of it", "ID"),
)
def review(call: Call) -> int:
    """Decide what is waiting for review: proposals, unconfirmed and changed memories.

    In a terminal each is shown and you are asked. With flags, or where nobody can be asked, nothing is asked. An ID
    is the first characters of a proposal's, or the file of a memory. To reject what an agent changed brings back the
    text from before.

    examples:
      memsheaf review
      memsheaf review --json
      memsheaf review --approve 3f2a --reject 91bc
    """
    options, console = call.options, call.console
    with call.memory() as memories:
        waiting, doubted = memories.learning.queue.all(), list(memories.list(unconfirmed=True))
        doubted += [row for row in memories.changed_by_others() if row.trust != "unconfirmed"]
        names = [one.id for one in waiting] + [row.path for row in doubted]
        flags = {"approve": options.approve, "reject": options.reject, "edit": [options.edit] if options.edit else []}
        wanted = [
            (verb, name) for verb, given in flags.items() for name in (names if given == ["all"] else given or ())
        ]
        if any(flags.values()):
            done = [
                {"id": name, "done": _DONE[verb], "path": _decide(call, memories, verb, name)}
                for verb, name in wanted
            ]
            return call.answer({"done": done}, (f"{one['done']}: {one['path'] or one['id']}" for one in done))
        if console.json or not console.interactive or not names:
            return _list_waiting(call, waiting, doubted)
        shown: list[QueuedProposal | Row] = [*waiting, *doubted]
        for number, one in enumerate(shown):
            call.answer(None, Styled(f"\n{number + 1} of {len(names)}", "dim"), _waiting_parts(memories, one))
            verb = _VERBS[console.choose("approve, edit, reject, skip or quit?", "aersq", "yn")]
            if verb == "quit":
                break
            try:
                path = _decide(call, memories, verb, names[number]) if verb else ""
                console.say(f"{_DONE[verb]}: {path or names[number]}" if verb else "skipped")
            except MemsheafError as error:
                console.note(f"{error}. {error.hint}", style="red")
    return 0


_VERBS = {"a": "approve", "y": "approve", "e": "edit", "r": "reject", "s": "", "n": "", "q": "quit"}
_DONE = {"approve": "approved", "edit": "approved", "reject": "rejected"}


def _decide(call: Call, memories: Layers, verb: str, name: str) -> str:
    """Approve, edit or reject a proposal, or a memory by its file; gives the path of what is stored."""
    is_file = name.endswith(".md")
    if verb == "approve":
        return (memories.confirm(name) if is_file else memories.learning.approve(name)).path
    if verb == "edit" and is_file:
        memory = memories.read(name)
        text = edited_text(call.environment, memory.path.rpartition("/")[2], memory.text)
        memories.put(memory.path, text, expect=memory.version, allow=Allow(anyway=True))
        return memories.confirm(memory.path).path
    if verb == "edit":
        waiting = memories.learning.queue.get(name)
        content = edited_text(call.environment, f"{waiting.id}.md", waiting.proposal.content)
        return memories.learning.approve(name, content=content).path
    if not is_file:
        memories.learning.reject(name)
    elif before := _before_change(memories, name):
        sheaf, path = memories.place(name)
        sheaf.restore(path, before)
    else:
        memories.forget(name, why="rejected")
    return ""


def _before_change(memories: Layers, name: str) -> str:
    """The version that a confirmed memory had before others changed it; "" when it is not that, or nobody knows."""
    sheaf, path = memories.place(name)
    memory = sheaf.read(path)
    if memory.trust == "unconfirmed" or memory.changed_by in ("", "user"):
        return ""
    for commit in sheaf.log(memory.path):
        for step in commit.revisions:
            if step.old and parse(step.path, step.old).changed_by in ("", "user"):
                return step.before
    return ""


def _list_waiting(call: Call, waiting: Sequence[QueuedProposal], doubted: Sequence[Row]) -> int:
    fields = ("path", "name", "description", "kind", "updated")
    rows = [(one.id, one.proposal.kind, one.proposal.name, one.why) for one in waiting]
    found: dict[str, list[object]] = {"unconfirmed": [], "changed": []}
    for row in doubted:
        is_new = row.trust == "unconfirmed"
        found["unconfirmed" if is_new else "changed"].append(pick(row, fields))
        rows.append((row.path, row.kind, row.name, "unconfirmed" if is_new else "changed by an agent"))
    proposals = [{"id": one.id, "at": one.at, "why": one.why, **one.proposal._asdict()} for one in waiting]
    table = Table(rows, ("bold",), ("ID", "TYPE", "NAME", "WHY"))
    return call.answer({"proposals": proposals, **found}, table if rows else "Nothing is waiting for review.")


def _waiting_parts(memories: Layers, one: QueuedProposal | Row) -> Iterator[Part]:
    if not isinstance(one, QueuedProposal):
        sheaf, path = memories.place(one.path)
        memory = sheaf.read(path)
        yield Styled(f"{one.path} [{one.kind}] {one.name}", "bold")
        yield [Styled(said, "dim") for said in sheaf.caveats(memory)]
        yield sheaf.diff(path) if one.trust != "unconfirmed" else memory.body.strip()
        return
    proposal, old = one.proposal, ""
    yield Styled(f"{one.id} [{proposal.kind}] {proposal.name}", "bold")
    yield Styled(f"{proposal.description} ({one.why})", "dim")
    if not proposal.replaces:
        yield proposal.content
        return
    with suppress(NotFound):
        old = memories.read(proposal.replaces).body
    yield diff(proposal.replaces, old, proposal.content + "\n", labels=("now", "proposed"))


diary = group(
    """Note something in the daily log, or show what was logged.

    The log is plain Markdown in the scope's folder, logs/YYYY/MM/YYYY-MM-DD.md: your notes, and with the policy "log"
    what you say to your agents. It is append-only. `memsheaf extract` makes memories of it.

    examples:
      memsheaf diary "Remember that our releases go out on Fridays."
      git log -1 --format=%s | memsheaf diary -
      memsheaf diary show
      memsheaf diary show 2026-11-15
      memsheaf diary show --since 2026-11-01 --json
      memsheaf diary list
      memsheaf diary undo
    """,
    default="note",
)


def day(value: str) -> str:
    """A day, as the log has it.

    >>> day("2026-11-15")
    '2026-11-15'
    """
    with suppress(ValueError):
        if date.fromisoformat(value).isoformat() == value:
            return value
    raise ValueError("give a day such as 2026-11-15")


@diary.action(Argument("text", "what to note; - reads it from standard input", "TEXT"), ALLOW_SECRET)
def note_diary(call: Call) -> int:
    """Add a note to today's log; without one, on a terminal, show today's."""
    if call.options.text is None and call.console.interactive:
        return _show_days(call, "", "")
    text = call.given_text(call.options.text)
    with _daily_log(call) as log, insisting():
        path = log.note(text, by=BY, allow=Allow(secrets=call.options.allow_secret))
    return call.answer({"path": f"logs/{path}"}, f"Noted in logs/{path}; `memsheaf diary undo` takes it back")


@diary.action(
    Argument("day", "the day to show (today)", "DAY", convert=day),
    Argument("--since", "show this day and all later ones", "DAY", convert=day),
)
def show_diary(call: Call) -> int:
    """Print what was logged on a day, or since then."""
    if call.options.day and call.options.since:
        raise Usage("give a day or --since, not both")
    return _show_days(call, call.options.day, call.options.since)


def _show_days(call: Call, day: str, since: str) -> int:
    first = since or day or time.strftime("%Y-%m-%d")
    days = _daily_log(call).days(first, "" if since else first)
    nothing = f"nothing was logged on {first}{' or later' if since else ''}"
    texts = (one.text.rstrip() + ("\n" if one is not days[-1] else "") for one in days)
    return call.answer({"days": [pick(one, ("day", "entries")) for one in days]}, texts if days else nothing)


@diary.action()
def list_diary(call: Call) -> int:
    """List the days that were logged."""
    days = _daily_log(call).days()
    rows = [(one.day, f"{len(one.entries):,}") for one in days]
    return call.answer(
        {"days": [{"day": one.day, "entries": len(one.entries)} for one in days]},
        Table(rows, ("bold",), ("DAY", "ENTRIES")),
        Styled(plural(len(days), "day"), "dim") if days else "nothing was logged yet",
    )


@diary.action()
def undo_diary(call: Call) -> int:
    """Take back what was logged last, which `memsheaf undo` does not reach."""
    with _daily_log(call) as log:
        path = log.undo(by=BY)
    return call.answer({"path": f"logs/{path}"}, f"Took back what was logged last, in logs/{path}")


def _daily_log(call: Call) -> DailyLog:
    root, state = call.root(), call.state()
    checkout = checkout_of(root, call.settings().home)
    return DailyLog(root, state, ledger=TrustLedger(state, checkout) if checkout else None)
