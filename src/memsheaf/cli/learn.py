"""Commands that learn from conversations: the inbox, extraction, review, and the daily log."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import date

from memsheaf.cli.call import BY, TRANSCRIPT_HINT, Call, insisting, pick, plural
from memsheaf.cli.command import ALLOW_SECRET, CONVERSATION, DRY_RUN, MODEL, Argument, Usage, group, takes, text
from memsheaf.cli.output import Styled, Table
from memsheaf.errors import MemsheafError, NotFound, TextRefused, hinted
from memsheaf.learn.inbox import Inbox
from memsheaf.memory import Allow, parse
from memsheaf.scope import checkout_of
from memsheaf.text.neutralize import one_line

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.index.database import Row
    from memsheaf.learn.daily_log import DailyLog
    from memsheaf.learn.extract import JudgedProposal
    from memsheaf.learn.inbox import Inbox
    from memsheaf.learn.learner import Distilled, QueuedProposal
    from memsheaf.memory import Memory
    from memsheaf.recall.turns import Turn
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
    rewritten={"--add": "add", "--clear": "clear"},
)


@inbox.action()
def show_inbox(call: Call) -> int:
    """List the conversations that are waiting."""
    found = _inbox(call)
    turns = found.turns()
    conversations: dict[str, list[Turn]] = {}
    for turn in turns:
        conversations.setdefault(turn.conversation, []).append(turn)
    listed = [_conversation_json(name, said) for name, said in conversations.items()]
    value = {"turns": len(turns), "conversations": listed, "learned": found.learned()}
    if not turns:
        return call.answer(value, "nothing is waiting to be learned from")
    head = ("CONVERSATION", "TURNS", "SINCE", "FIRST WORDS")
    count = f"{plural(len(turns), 'turn')} in {plural(len(conversations), 'conversation')}"
    rows = map(_conversation_row, conversations.values())
    return call.answer(value, Table(rows, ("bold", "", "dim"), head), Styled(count, "dim"))


@inbox.action(CONVERSATION._replace(required=True))
def add_inbox(call: Call) -> int:
    """Put a transcript in."""
    transcript = call.transcript(call.options.source, [call.root()])
    if not transcript.turns:
        raise hinted(TextRefused("there is no message in it; nothing was taken in"), TRANSCRIPT_HINT)
    with call.console.waiting("taking in"):
        added = _inbox(call).extend(transcript)
    value = {"format": transcript.format, "turns": len(transcript.turns), "added": added}
    said = f"Took in {added:,} of {plural(len(transcript.turns), 'turn')}"
    return call.answer({**value, "skipped": transcript.skipped}, said)


@inbox.action(Argument("--yes", "do not ask before dropping it"))
def clear_inbox(call: Call) -> int:
    """Drop what is waiting, unread."""
    found = _inbox(call)
    waiting = found.left()
    question = f"Drop {plural(waiting, 'turn')} that nothing was learned from?"
    if waiting and not call.confirm(question, without="what is waiting would be lost", left="Nothing was dropped."):
        return 1
    dropped = found.clear()
    return call.answer({"dropped": dropped}, f"Dropped {plural(dropped, 'turn')}")


def _inbox(call: Call) -> Inbox:
    return Inbox(call.state())


def _conversation_row(turns: list[Turn]) -> tuple[str, ...]:
    name = turns[0].conversation or "(unnamed)"
    return name if len(name) <= 40 else f"{name[:39]}…", f"{len(turns):,}", turns[0].at[:16], _first_words(turns)


def _first_words(turns: list[Turn]) -> str:
    messages = [message for turn in turns for message in turn.messages]
    first = next((message for message in messages if message.role == "user"), messages[0])
    return one_line(first.text, 80)


def _conversation_json(name: str, turns: list[Turn]) -> dict[str, object]:
    size = sum(len(message.text.encode()) for turn in turns for message in turn.messages)
    value = {"conversation": name, "turns": len(turns), "bytes": size}
    return {**value, "since": turns[0].at, "first": _first_words(turns)}


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
    from memsheaf.learn.learner import Distilled

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
    value = {**pick(done, ("turns", "left", "problem")), "dry_run": options.dry_run}
    return call.answer(
        {**value, "verdicts": map(_verdict_json, done.verdicts)},
        _distilled_lines(done, dry_run=options.dry_run),
        code=1 if done.problem else 0,
    )


def _distilled_lines(done: Distilled, *, dry_run: bool) -> Iterator[str]:
    counts = ", ".join(f"{len(done.of(one))} {one}" for one in ("saved", "queued", "dropped"))
    summary = counts + (", if it were done" if dry_run else "") if done.verdicts else "nothing to keep."
    yield f"Read {plural(done.turns, 'turn')}: {summary}"
    for one in done.verdicts:
        outcome = {"saved": "saved", "queued": "waiting for review"}.get(one.outcome, "dropped")
        outcome = f"would be {one.outcome}" if dry_run else outcome
        yield f"  {outcome}: {one.path or one.proposal.name}" + (f" ({one.why})" if one.why else "")
    if done.problem:
        yield f"{plural(done.left, 'turn is', 'turns are')} waiting: {done.problem}"


def _verdict_json(one: JudgedProposal) -> dict[str, object]:
    fields = ("name", "description", "kind", "content", "replaces", "conversation", "trust")
    return {"outcome": one.outcome, "path": one.path, "why": one.why, **pick(one.proposal, fields)}


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
        if options.approve or options.reject or options.edit:
            return _by_flags(call, memories)
        waiting, doubted = memories.learning.queue.all(), _list_doubtful(memories)
        if console.json or not console.interactive or not (waiting or doubted):
            return _list_waiting(call, waiting, doubted)
        return _one_by_one(call, memories, [*waiting, *doubted])


def _by_flags(call: Call, memories: Layers) -> int:
    options = call.options
    done = []
    for name in _expand_names(options.approve, memories):
        done.append({"id": name, "done": "approved", "path": _approve(memories, name).path})
    for name in _expand_names(options.reject, memories):
        _reject(memories, name)
        done.append({"id": name, "done": "rejected", "path": ""})
    if options.edit:
        done.append({"id": options.edit, "done": "approved", "path": _edit(call, memories, options.edit).path})
    return call.answer({"done": done}, (f"{one['done']}: {one['path'] or one['id']}" for one in done))


def _expand_names(names: Sequence[str] | None, memories: Layers) -> list[str]:
    if names != ["all"]:
        return list(names or ())
    return [one.id for one in memories.learning.queue.all()] + [row.path for row in _list_doubtful(memories)]


def _list_doubtful(memories: Layers) -> list[Row]:
    """The memories that a person should look at."""
    unconfirmed = memories.list(unconfirmed=True)
    return [*unconfirmed, *(row for row in memories.changed_by_others() if row.trust != "unconfirmed")]


def _approve(memories: Layers, name: str) -> Memory:
    return memories.confirm(name) if name.endswith(".md") else memories.learning.approve(name)


def _reject(memories: Layers, name: str) -> None:
    if name.endswith(".md") and (before := _before_change(memories, name)):
        sheaf, path = memories.place(name)
        sheaf.restore(path, before)
    elif name.endswith(".md"):
        memories.forget(name, why="rejected")
    else:
        memories.learning.reject(name)


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


def _edit(call: Call, memories: Layers, name: str) -> Memory:
    from memsheaf.cli.write import edited_text

    if name.endswith(".md"):
        memory = memories.read(name)
        text = edited_text(call.environment, memory.path.rpartition("/")[2], memory.text)
        memories.put(memory.path, text, expect=memory.version, allow=Allow(anyway=True))
        return memories.confirm(memory.path)
    waiting = memories.learning.queue.get(name)
    content = edited_text(call.environment, f"{waiting.id}.md", waiting.proposal.content)
    return memories.learning.approve(name, content=content)


def _list_waiting(call: Call, waiting: Sequence[QueuedProposal], doubted: Sequence[Row]) -> int:
    fields = ("path", "name", "description", "kind", "updated")
    is_new = {row.path: row.trust == "unconfirmed" for row in doubted}
    value = {
        "proposals": [{"id": one.id, "at": one.at, "why": one.why, **one.proposal._asdict()} for one in waiting],
        "unconfirmed": [pick(row, fields) for row in doubted if is_new[row.path]],
        "changed": [pick(row, fields) for row in doubted if not is_new[row.path]],
    }
    rows = [(one.id, one.proposal.kind, one.proposal.name, one.why) for one in waiting]
    said = {True: "unconfirmed", False: "changed by an agent"}
    rows += [(row.path, row.kind, row.name, said[is_new[row.path]]) for row in doubted]
    table = Table(rows, ("bold",), ("ID", "TYPE", "NAME", "WHY"))
    return call.answer(value, table if rows else "Nothing is waiting for review.")


def _one_by_one(call: Call, memories: Layers, waiting: Sequence[QueuedProposal | Row]) -> int:
    console = call.console
    for number, one in enumerate(waiting, 1):
        console.say(f"\n{number} of {len(waiting)}", style="dim")
        name = _show_waiting(call, memories, one)
        while True:
            answer = console.choose("approve, edit, reject, skip or quit?", "aersq")
            try:
                if answer == "a":
                    console.say(f"saved: {_approve(memories, name).path}", style="green")
                elif answer == "e":
                    console.say(f"saved: {_edit(call, memories, name).path}", style="green")
                elif answer == "r":
                    _reject(memories, name)
                    console.say("rejected", style="yellow")
                elif answer == "q":
                    return 0
            except MemsheafError as error:
                console.note(f"{error}. {error.hint}", style="red")
                continue
            break
    return 0


def _show_waiting(call: Call, memories: Layers, one: QueuedProposal | Row) -> str:
    """Show one thing that is waiting for review, and give the name it is decided by."""
    from memsheaf.learn.learner import QueuedProposal

    console = call.console
    if not isinstance(one, QueuedProposal):
        console.say(f"{one.path} [{one.kind}] {one.name}", style="bold")
        sheaf, path = memories.place(one.path)
        memory = sheaf.read(path)
        for said in sheaf.caveats(memory):
            console.say(said, style="dim")
        console.say(sheaf.diff(path) if one.trust != "unconfirmed" else memory.body.strip())
        return one.path
    proposal = one.proposal
    console.say(f"{one.id} [{proposal.kind}] {proposal.name}", style="bold")
    console.say(f"{proposal.description} ({one.why})", style="dim")
    if proposal.replaces:
        from memsheaf.history import diff

        try:
            old = memories.read(proposal.replaces).body
        except NotFound:
            old = ""
        console.say(diff(proposal.replaces, old, proposal.content + "\n", labels=("now", "proposed")))
    else:
        console.say(proposal.content)
    return one.id


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
    rewritten={"--show": "show", "--since": "show --since", "--list": "list", "--undo": "undo"},
)


def day(value: str) -> str:
    """A day, as the log has it.

    >>> day("2026-11-15")
    '2026-11-15'
    """
    try:
        if date.fromisoformat(value).isoformat() == value:
            return value
    except ValueError:
        pass
    raise ValueError("give a day such as 2026-11-15")


@diary.action(Argument("text", "what to note; - reads it from standard input", "TEXT", convert=text), ALLOW_SECRET)
def note_diary(call: Call) -> int:
    """Add a note to today's log."""
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
    options = call.options
    if options.day and options.since:
        raise Usage("give a day or --since, not both")
    first = options.since or options.day or time.strftime("%Y-%m-%d")
    days = _daily_log(call).days(first, "" if options.since else first)
    nothing = f"nothing was logged on {first}{' or later' if options.since else ''}"
    texts = (one.text.rstrip() + ("\n" if one is not days[-1] else "") for one in days)
    return call.answer({"days": [pick(one, ("day", "entries")) for one in days]}, texts if days else nothing)


@diary.action()
def list_diary(call: Call) -> int:
    """List the days that were logged."""
    days = _daily_log(call).days()
    value = {"days": [{"day": one.day, "entries": len(one.entries)} for one in days]}
    if not days:
        return call.answer(value, "nothing was logged yet")
    rows = [(one.day, f"{len(one.entries):,}") for one in days]
    return call.answer(value, Table(rows, ("bold",), ("DAY", "ENTRIES")), Styled(plural(len(days), "day"), "dim"))


@diary.action()
def undo_diary(call: Call) -> int:
    """Take back what was logged last, which `memsheaf undo` does not reach."""
    with _daily_log(call) as log:
        path = log.undo(by=BY)
    return call.answer({"path": f"logs/{path}"}, f"Took back what was logged last, in logs/{path}")


def _daily_log(call: Call) -> DailyLog:
    from memsheaf.learn.daily_log import DailyLog
    from memsheaf.store.trust import TrustLedger

    root, state = call.root(), call.state()
    checkout = checkout_of(root, call.settings().home)
    return DailyLog(root, state, ledger=TrustLedger(state, checkout) if checkout else None)
