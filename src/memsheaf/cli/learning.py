"""Commands that learn from conversations, and decide about what was learned."""

import shutil
from collections.abc import Iterator, Sequence

from memsheaf.cli.call import Call, Result, pick, plural
from memsheaf.cli.changes import edited_text
from memsheaf.cli.output import Part, Styled, Table
from memsheaf.cli.parser import Place, Usage, Words
from memsheaf.errors import MemsheafError
from memsheaf.learn.extract import JudgedProposal
from memsheaf.learn.inbox import Inbox
from memsheaf.learn.learner import Distilled
from memsheaf.open_scope import diff, new_group
from memsheaf.recall.turns import Turn
from memsheaf.sheaf import load_metered_model
from memsheaf.text.neutralize import one_line
from memsheaf.work.review import CHANGED, PROPOSED, UNCONFIRMED, Review, ReviewCard, WaitingItem

_VERBS = {"a": "approve", "y": "approve", "e": "edit", "r": "reject", "u": "undo", "s": "", "n": "", "q": "quit"}
_DONE = {"approve": "approved", "edit": "approved", "reject": "rejected", "undo": "waits again"}


def learn(
    call: Call,
    source: Place = "",
    *,
    model: str = "",
    waiting: bool = False,
    later: bool = False,
    drop: bool = False,
) -> Result:
    """Make memories of what was said: of the turns that wait in the inbox, or of a conversation in a file.

    With a model in the settings it reads the conversation; without one, your own sentences are kept that you asked to
    remember, or that are surely worth it ("We deploy on Fridays"). What was read once is not read again, and secrets
    are taken out before anything is kept. The policy of the scope decides whether a memory is saved or waits for
    `memsheaf review`. The exit code is 1 when something has to wait because the model failed or a cap was reached:
    nothing is lost, and the next run goes on.

    arguments:
      FILE: a conversation: Claude Code's JSONL, JSON messages or plain text; - is standard input
      --model NAME: ask this model instead of the one in the settings; none: rules alone
      --waiting: only list the conversations that wait to be learned from
      --later: put the conversation into the inbox, and learn from it the next time
      --drop: drop what waits, unread

    examples:
      memsheaf learn
      memsheaf learn conversation.jsonl
      memsheaf learn --waiting
    """
    if later and not source:
        raise Usage("--later takes the conversation in FILE")
    if waiting or drop or later:
        inbox = Inbox(call.state())
        if waiting:
            return _list_inbox(inbox)
        return _drop_inbox(call, inbox) if drop else _take_in(call, inbox, source)
    with call.memory() as memories:
        turns = call.transcript(source, [memories.root]) if source else []
        talker = load_metered_model(memories.settings, "extract", model or None)
        added = memories.learning.inbox.extend(turns) if turns else 0
        with call.console.progress("Reading turns") as progress:
            done = memories.learning.distil(talker, progress=progress)
        if source and not added and not done.turns:
            call.console.note("all of it was read before")
    fields = ("name", "description", "kind", "content", "conversation", "trust")
    verdicts = []
    for verdict in done.verdicts:
        replaces = call.label(verdict.proposal.replaces) if verdict.proposal.replaces else ""
        about = {**pick(verdict, ("outcome", "why")), **pick(verdict.proposal, fields)}
        verdicts.append({**about, "path": _verdict_name(call, verdict), "replaces": replaces})
    return Result(
        {**pick(done, ("turns", "left", "problem")), "verdicts": verdicts},
        list(_distilled_lines(call, done, has_hint=talker is None and not model)),
        code=1 if done.problem else 0,
    )


def _list_inbox(inbox: Inbox) -> Result:
    """List the conversations that are waiting."""
    turns = inbox.turns()
    conversations: dict[str, list[Turn]] = {}
    for turn in turns:
        conversations.setdefault(turn.conversation, []).append(turn)
    values, rows = [], []
    for name, said in conversations.items():
        messages = [message for turn in said for message in turn.messages]
        size = sum(len(message.text.encode()) for message in messages)
        first = one_line(next((one for one in messages if one.role == "user"), messages[0]).text, 80)
        values.append({"conversation": name, "turns": len(said), "bytes": size, "since": said[0].at, "first": first})
        rows.append((one_line(name, 40) or "(unnamed)", f"{len(said):,}", said[0].at[:16], first))
    count = f"{plural(len(turns), 'turn')} in {plural(len(conversations), 'conversation')}"
    return Result(
        {"turns": len(turns), "conversations": values, "learned": inbox.count_learned()},
        Table(rows, ("bold", "", "dim"), ("CONVERSATION", "TURNS", "SINCE", "FIRST WORDS")) if rows else None,
        Styled(count, "dim") if turns else "nothing is waiting to be learned from",
    )


def _take_in(call: Call, inbox: Inbox, source: str) -> Result:
    """Put a conversation into the inbox."""
    turns = call.transcript(source, [call.root()])
    with call.console.waiting("taking in"):
        added = inbox.extend(turns)
    return Result({"turns": len(turns), "added": added}, f"Took in {added:,} of {plural(len(turns), 'turn')}")


def _drop_inbox(call: Call, inbox: Inbox) -> Result:
    """Drop what is waiting, unread."""
    count = inbox.count_waiting()
    question = f"Drop {plural(count, 'turn')} that nothing was learned from?"
    if count:
        call.confirm(question, without="what is waiting would be lost", left="Nothing was dropped.")
    dropped = inbox.clear()
    return Result({"dropped": dropped}, f"Dropped {plural(dropped, 'turn')}")


def _verdict_name(call: Call, verdict: JudgedProposal) -> str:
    """Return the id of what waits for review, else the name of the memory; "" when nothing was kept."""
    return verdict.id or (call.label(verdict.ref) if verdict.ref else "")


def _distilled_lines(call: Call, done: Distilled, *, has_hint: bool) -> Iterator[str]:
    counts = ", ".join(f"{len(done.of(one))} {one}" for one in ("saved", "queued", "dropped"))
    yield f"Read {plural(done.turns, 'turn')}: {counts if done.verdicts else 'nothing to keep.'}"
    for verdict in done.verdicts:
        why = verdict.why and f" ({verdict.why})"
        yield f"  {verdict.outcome}: {_verdict_name(call, verdict)}{why}"
        yield f"    {one_line(verdict.proposal.content, 200)}"
    if done.problem:
        yield f"{plural(done.left, 'turn is', 'turns are')} waiting: {done.problem}"
    command = next(filter(shutil.which, ("claude", "codex")), "") if has_hint and done.turns else ""
    if command:
        yield f"Rules read this; your own `{command}` finds more: `memsheaf learn --model {command}`."


def review(call: Call, *, approve: Words = (), reject: Words = (), undo: str = "") -> Result:
    """Decide what is waiting for review: proposals, unconfirmed and changed memories.

    In a terminal each is shown and you are asked: the words it was learned from, the memory that it would replace,
    and memories that say nearly the same. With flags, or where nobody can be asked, nothing is asked. An ID is the
    first characters of a proposal's, or the file of a memory. To reject what an agent changed brings back the text
    from before. The last 50 decisions can be undone.

    arguments:
      --approve ID: save this proposal, or confirm this memory; all: every one; may be repeated
      --reject ID: refuse this one: it is not learned again; all: every one; may be repeated
      --undo ID: undo the decision about this one: it waits again; last: the last decision

    examples:
      memsheaf review
      memsheaf review --json
      memsheaf review --approve 3f2a --reject 91bc
      memsheaf review --undo 91bc
    """
    console = call.console
    with call.memory() as memories:
        for sheaf in map(memories.only, memories.scopes()):
            sheaf.own.index.look()
        queue = Review(memories)
        waiting = queue.waiting()
        for scope in sorted(memories.teams):
            if count := len(memories.only(scope).learning.queue.all()):
                console.note(f"{plural(count, 'proposal')} for {scope}: `memsheaf review -s {scope}`")
        names = [one.id for one in waiting]
        if approve or reject or undo:
            queue.also = new_group()
            lines = [("approve", name) for name in (names if approve == ["all"] else approve)]
            lines += [("reject", name) for name in (names if reject == ["all"] else reject)]
            lines += [("undo", undo)] if undo else []
            done = [
                {"id": name, "done": _DONE[verb], "path": _decide(call, queue, verb, name)} for verb, name in lines
            ]
            return Result({"done": done}, [f"{one['done']}: {one['path'] or one['id']}" for one in done])
        if console.json or not console.interactive or not names:
            return _list_waiting(call, queue, waiting)
        for number, name in enumerate(names):
            console.show(Styled(f"\n{number + 1} of {len(names)}", "dim"), _card_parts(call, queue.card(name)))
            verb = _VERBS[console.choose("approve, edit, reject, undo the last, skip or quit?", "aerusq", "yn")]
            if verb == "quit":
                break
            try:
                path = _decide(call, queue, verb, "last" if verb == "undo" else name) if verb else ""
                console.say(f"{_DONE[verb]}: {path or name}" if verb else "skipped")
            except MemsheafError as error:
                console.note(f"{error}. {error.hint}", style="red")
    return Result(None)


def _decide(call: Call, queue: Review, verb: str, name: str) -> str:
    """Approve, edit or reject one, or undo that; return the path of what is stored."""
    if verb == "undo":
        return queue.undo("" if name == "last" else name).id
    if verb == "reject":
        queue.reject(name)
        return ""
    content = ""
    if verb == "edit":
        file = name.rpartition("/")[2].removesuffix(".md") + ".md"
        content = edited_text(call.environment, file, queue.card(name).content)
    decision = queue.approve(name, content=content)
    return call.label(decision.ref) if decision.ref else ""


def _list_waiting(call: Call, queue: Review, waiting: Sequence[WaitingItem]) -> Result:
    def cards(state: str) -> list[object]:
        return [_card_json(call, queue.card(one.id)) for one in waiting if one.state == state]

    decided = []
    for decision in queue.decisions():
        path = call.label(decision.ref) if decision.ref else ""
        decided.append({**pick(decision, ("id", "outcome", "reason", "commit")), "path": path})
    value: dict[str, object] = {}
    if call.console.json:
        value = {state: cards(state) for state in (UNCONFIRMED, CHANGED)}
        value |= {"proposals": cards(PROPOSED), "decided": decided}
    rows = [(one.id, one.kind, one.name, one.why) for one in waiting]
    table = Table(rows, ("bold",), ("ID", "TYPE", "NAME", "WHY"))
    return Result(value, table if rows else "Nothing is waiting for review.")


def _card_json(call: Call, card: ReviewCard) -> dict[str, object]:
    item = card.item
    path = {"path": item.id} if item.state != PROPOSED else {}
    fields = ("description", "scope", "content", "before", "quote", "conversation", "problems")
    replaces = call.label(card.replaces) if card.replaces else ""
    return {**pick(item, ("id", "at", "why", "name", "kind")), **path, **pick(card, fields), "replaces": replaces}


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
