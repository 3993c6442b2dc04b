"""Commands that learn from conversations: the inbox, extraction, review, and the daily log."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import date

from memsheaf.cli.call import BY, Call, insisting, pick, plural
from memsheaf.cli.changes import edited_text
from memsheaf.cli.command import ALLOW_SECRET, CONVERSATION, MODEL, Argument, Usage, group, takes
from memsheaf.cli.output import Part, Styled, Table
from memsheaf.errors import MemsheafError
from memsheaf.learn.daily_log import DailyLog
from memsheaf.learn.extract import JudgedProposal
from memsheaf.learn.inbox import Inbox
from memsheaf.learn.learner import Distilled
from memsheaf.memory import Allow
from memsheaf.open_scope import diff, new_group
from memsheaf.recall.turns import Turn
from memsheaf.scope import Scope, checkout_of
from memsheaf.sheaf import load_metered_model
from memsheaf.state.trust import TrustLedger
from memsheaf.text.neutralize import one_line
from memsheaf.work.review import CHANGED, PROPOSED, UNCONFIRMED, Review, ReviewCard, WaitingItem

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
        {"turns": len(turns), "conversations": listed, "learned": found.count_learned()},
        Table(rows, ("bold", "", "dim"), ("CONVERSATION", "TURNS", "SINCE", "FIRST WORDS")),
        Styled(count, "dim") if turns else "nothing is waiting to be learned from",
    )


@inbox.action(CONVERSATION._replace(required=True))
def add_inbox(call: Call) -> int:
    """Put a transcript in."""
    turns = call.transcript(call.options.source, [call.root()])
    with call.console.waiting("taking in"):
        added = Inbox(call.state()).extend(turns)
    return call.answer({"turns": len(turns), "added": added}, f"Took in {added:,} of {plural(len(turns), 'turn')}")


@inbox.action(Argument("--yes", "do not ask before dropping it"))
def clear_inbox(call: Call) -> int:
    """Drop what is waiting, unread."""
    found = Inbox(call.state())
    waiting = found.count_waiting()
    question = f"Drop {plural(waiting, 'turn')} that nothing was learned from?"
    if waiting and not call.confirm(question, without="what is waiting would be lost", left="Nothing was dropped."):
        return 1
    dropped = found.clear()
    return call.answer({"dropped": dropped}, f"Dropped {plural(dropped, 'turn')}")


@takes(CONVERSATION, MODEL)
def extract(call: Call) -> int:
    """Make memories of what was said: of the turns in the inbox, or of a conversation in a file.

    With a model in the settings it reads the conversation; without one, your own sentences are kept that you asked to
    remember, or that are surely worth it ("We deploy on Fridays"). What was read once is not read again. The policy
    of the scope decides whether a memory is saved or waits for `memsheaf review`. The exit code is 1 when something
    has to wait because the model failed or a cap was reached: nothing is lost, and the next run goes on.

    examples:
      memsheaf extract
      memsheaf extract conversation.jsonl
      memsheaf extract notes.txt --model none --json
    """
    options, console = call.options, call.console
    with call.memory() as memories:
        turns = call.transcript(options.source, [memories.root]) if options.source else []
        model = load_metered_model(memories.settings, "extract", options.model)
        added = memories.learning.inbox.extend(turns) if turns else 0
        with console.progress("Reading turns") as progress:
            done = memories.learning.distil(model, progress=progress)
        if options.source and not added and not done.turns:
            console.note("all of it was read before")
    fields = ("name", "description", "kind", "content", "conversation", "trust")
    verdicts = [
        {
            **pick(one, ("outcome", "why")),
            **pick(one.proposal, fields),
            "path": _verdict_name(call, one),
            "replaces": call.label(one.proposal.replaces) if one.proposal.replaces else "",
        }
        for one in done.verdicts
    ]
    return call.answer(
        {**pick(done, ("turns", "left", "problem")), "verdicts": verdicts},
        _distilled_lines(call, done, hint=model is None and not options.model),
        code=1 if done.problem else 0,
    )


def _verdict_name(call: Call, verdict: JudgedProposal) -> str:
    """Return the id of what waits for review, else the name of the memory; "" when nothing was kept."""
    return verdict.id or (call.label(verdict.ref) if verdict.ref else "")


def _distilled_lines(call: Call, done: Distilled, *, hint: bool) -> Iterator[str]:
    counts = ", ".join(f"{len(done.of(one))} {one}" for one in ("saved", "queued", "dropped"))
    summary = counts if done.verdicts else "nothing to keep."
    yield f"Read {plural(done.turns, 'turn')}: {summary}"
    for verdict in done.verdicts:
        why = verdict.why and f" ({verdict.why})"
        yield f"  {verdict.outcome}: {_verdict_name(call, verdict)}{why}"
        yield f"    {one_line(verdict.proposal.content, 200)}"
    if done.problem:
        yield f"{plural(done.left, 'turn is', 'turns are')} waiting: {done.problem}"
    command = next(filter(shutil.which, ("claude", "codex")), "") if hint and done.turns else ""
    if command:
        yield f"Rules read this; your own `{command}` finds more: `memsheaf extract --model {command}`."


@takes(
    Argument("--approve", "save this proposal, or confirm this memory; all: every one", "ID", repeated=True),
    Argument("--reject", "refuse this one: it is not learned again; all: every one", "ID", repeated=True),
    Argument("--reason", "why it is rejected", "TEXT"),
    Argument("--edit", "open this one in your editor, and save what you make of it", "ID"),
    Argument("--undo", "undo the decision about this one: it waits again; last: the last decision", "ID"),
)
def review(call: Call) -> int:
    """Decide what is waiting for review: proposals, unconfirmed and changed memories.

    In a terminal each is shown and you are asked: the words it was learned from, the memory that it would replace,
    and memories that say nearly the same. With flags, or where nobody can be asked, nothing is asked. An ID is the
    first characters of a proposal's, or the file of a memory. To reject what an agent changed brings back the text
    from before. The last 50 decisions can be undone.

    examples:
      memsheaf review
      memsheaf review --json
      memsheaf review --approve 3f2a --reject 91bc --reason "not ours"
      memsheaf review --undo 91bc
    """
    options, console = call.options, call.console
    if options.reason and not options.reject:
        raise Usage("--reason goes with --reject")
    with call.memory() as memories:
        for sheaf in map(memories.only, memories.scopes()):
            sheaf.own.index.look()
        queue = Review(memories)
        waiting = queue.waiting()
        for scope in sorted(memories.teams):
            if count := len(memories.only(scope).learning.queue.all()):
                console.note(f"{plural(count, 'proposal')} for {scope}: `memsheaf review --scope {scope}`")
        names = [one.id for one in waiting]
        flags = {
            "approve": options.approve,
            "reject": options.reject,
            "edit": [options.edit] if options.edit else [],
            "undo": [options.undo] if options.undo else [],
        }
        if any(flags.values()):
            queue.also = new_group()
            done = [
                {"id": name, "done": _DONE[verb], "path": _decide(call, queue, verb, name)}
                for verb, given in flags.items()
                for name in (names if given == ["all"] and verb != "undo" else given or ())
            ]
            return call.answer({"done": done}, (f"{one['done']}: {one['path'] or one['id']}" for one in done))
        if console.json or not console.interactive or not names:
            return _list_waiting(call, queue, waiting)
        for number, name in enumerate(names):
            call.answer(None, Styled(f"\n{number + 1} of {len(names)}", "dim"), _card_parts(call, queue.card(name)))
            verb = _VERBS[console.choose("approve, edit, reject, undo the last, skip or quit?", "aerusq", "yn")]
            if verb == "quit":
                break
            try:
                path = _decide(call, queue, verb, "last" if verb == "undo" else name) if verb else ""
                console.say(f"{_DONE[verb]}: {path or name}" if verb else "skipped")
            except MemsheafError as error:
                console.note(f"{error}. {error.hint}", style="red")
    return 0


_VERBS = {"a": "approve", "y": "approve", "e": "edit", "r": "reject", "u": "undo", "s": "", "n": "", "q": "quit"}
_DONE = {"approve": "approved", "edit": "approved", "reject": "rejected", "undo": "waits again"}


def _decide(call: Call, queue: Review, verb: str, name: str) -> str:
    """Approve, edit or reject one, or undo that; gives the path of what is stored."""
    if verb == "undo":
        undone = queue.undo("" if name == "last" else name)
        return undone.id
    if verb == "reject":
        queue.reject(name, reason=call.options.reason or "")
        return ""
    content = ""
    if verb == "edit":
        file = name.rpartition("/")[2].removesuffix(".md") + ".md"
        content = edited_text(call.environment, file, queue.card(name).content)
    decision = queue.approve(name, content=content)
    return call.label(decision.ref) if decision.ref else ""


def _list_waiting(call: Call, queue: Review, waiting: Sequence[WaitingItem]) -> int:
    found: dict[str, list[object]] = {PROPOSED: [], UNCONFIRMED: [], CHANGED: []}
    for one in waiting if call.console.json else ():
        found[one.state].append(_card_json(call, queue.card(one.id)))
    found["proposals"] = found.pop(PROPOSED)
    found["decided"] = [
        {**pick(one, ("id", "outcome", "reason", "commit")), "path": call.label(one.ref) if one.ref else ""}
        for one in queue.decisions()
    ]
    rows = [(one.id, one.kind, one.name, one.why) for one in waiting]
    table = Table(rows, ("bold",), ("ID", "TYPE", "NAME", "WHY"))
    return call.answer(found, table if rows else "Nothing is waiting for review.")


def _card_json(call: Call, card: ReviewCard) -> dict[str, object]:
    item = card.item
    path = {"path": item.id} if item.state != PROPOSED else {}
    fields = ("description", "scope", "content", "before", "quote", "conversation", "problems")
    replaces = call.label(card.replaces) if card.replaces else ""
    value = {**pick(item, ("id", "at", "why", "name", "kind")), **path, **pick(card, fields)}
    return {**value, "replaces": replaces}


def _card_parts(call: Call, card: ReviewCard) -> Iterator[Part]:
    item = card.item
    yield Styled(f"{item.id} [{item.kind}] {item.name}", "bold")
    yield Styled(f"{card.description} ({item.why})", "dim")
    yield [Styled(said, "yellow") for said in card.problems]
    if card.quote:
        yield Styled(f"learned from: {one_line(card.quote, 300)}", "dim")
    if card.replaces:
        labels = ("before", "now") if item.state == CHANGED else ("now", "proposed")
        yield diff(call.label(card.replaces), card.before + "\n", card.content + "\n", labels=labels)
    else:
        yield card.content


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
    return call.answer({"path": f"logs/{path}"}, f"Noted in logs/{path}. Undo with `memsheaf diary undo`.")


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
def undo_diary(call: Call) -> int:
    """Take back what was logged last, which `memsheaf undo` does not reach."""
    with _daily_log(call) as log:
        path = log.undo(by=BY)
    return call.answer({"path": f"logs/{path}"}, f"Took back what was logged last, in logs/{path}")


def _daily_log(call: Call) -> DailyLog:
    root, state = call.root(), call.state()
    settings = call.settings()
    learns = settings.policy_of(Scope.parse(call.scope())) != "manual"
    checkout = checkout_of(root, settings.home)
    return DailyLog(root, state, ledger=TrustLedger(state, checkout) if checkout else None, learns=learns)
