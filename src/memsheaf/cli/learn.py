"""Commands that learn from conversations: what is worth keeping of them, and what a person says to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memsheaf.cli.call import Call, pick, plural
from memsheaf.cli.command import Argument, filled, place, takes
from memsheaf.errors import MemsheafError, NotFound
from memsheaf.memory import Allow

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.index.database import Row
    from memsheaf.learn.extract import JudgedProposal
    from memsheaf.learn.learner import Distilled, QueuedProposal
    from memsheaf.llm import Model
    from memsheaf.memory import Memory
    from memsheaf.recall.turns import Proposal, Turn
    from memsheaf.work.layers import Layers

TRANSCRIPT = 1 << 28  # bytes

MODEL = Argument(
    "--model", "ask this model instead of the one in the settings; none: rules alone", "NAME", convert=filled
)


@takes(
    Argument(
        "source",
        "a conversation: Claude Code's JSONL, JSON messages or plain text; - is standard input",
        "FILE",
        convert=place,
        complete="paths",
    ),
    MODEL,
    Argument("--dry-run", "only show what would come of it"),
)
def extract(call: Call) -> int:
    """Make memories of what was said: of the turns in the inbox, or of a conversation in a file.

    With a model in the settings it reads the conversation; without one, rules catch what was asked for in so many
    words ("remember that", "from now on", "we decided"). What was read once is not read again. The policy of the
    scope decides whether a memory is saved or waits for `memsheaf review`. The exit code is 1 when something has to
    wait because the model failed or a cap was reached: nothing is lost, and the next run goes on.

    examples:
      memsheaf extract
      memsheaf extract conversation.jsonl --dry-run
      memsheaf extract notes.txt --model none --json
    """
    options, console = call.options, call.console
    with call.memory() as memories:
        turns = _turns(call, options.source, memories.root) if options.source else []
        model = memories.metered("extract", options.model)
        if options.dry_run:
            done = _rehearsed(memories, turns if options.source else memories.learning.waiting(), model)
        else:
            kept = memories.learning.inbox.extend(turns) if turns else 0
            with console.progress("Reading turns") as progress:
                done = memories.learning.distil(model, progress=progress)
            if options.source and not kept and not done.turns:
                console.note("all of it was read before")
    value = {
        "turns": done.turns,
        "left": done.left,
        "problem": done.problem,
        "dry_run": options.dry_run,
        "verdicts": [_verdict_json(one) for one in done.verdicts],
    }
    console.answer(value, _told(done, dry_run=options.dry_run))
    return 1 if done.problem else 0


@takes(
    Argument(
        "--approve", "save this proposal, or confirm this memory; all: every one", "ID", repeated=True, convert=filled
    ),
    Argument(
        "--reject", "refuse this one: it is not learned again; all: every one", "ID", repeated=True, convert=filled
    ),
    Argument("--edit", "open this one in your editor, and save what you make of it", "ID", convert=filled),
)
def review(call: Call) -> int:
    """Decide what waits for you: proposals, unconfirmed memories, and what an agent changed.

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
        waiting, doubted = memories.learning.queue.all(), _doubted(memories)
        if console.json or not console.interactive:
            return _listed(call, waiting, doubted)
        if not waiting and not doubted:
            console.say("Nothing waits for you.")
        return _one_by_one(call, memories, [*waiting, *doubted])


def _turns(call: Call, source: str, folder: str) -> list[Turn]:
    """The turns of a conversation in a file or on standard input."""
    from os.path import basename

    from memsheaf.learn.transcripts import read

    text, name = call.file_text(source, TRANSCRIPT), "stdin" if source == "-" else basename(source)
    found = read(text, conversation=name, folders=[folder])
    if found.skipped:
        call.console.note(f"{plural(found.skipped, 'line')} could not be understood")
    return list(found)


def _rehearsed(memories: Layers, turns: Sequence[Turn], model: Model | None) -> Distilled:
    """What would come of some turns; nothing is written but what the model cost."""
    from memsheaf.learn.learner import Distilled

    return Distilled(len(turns), tuple(memories.learning.rehearse(turns, model)))


def _told(done: Distilled, *, dry_run: bool) -> Iterator[str]:
    counts = [f"{len(done.of(one))} {one}" for one in ("saved", "queued", "dropped")]
    told = ", ".join(counts) + (", if it were done" if dry_run else "") if done.verdicts else "nothing to keep."
    yield f"Read {plural(done.turns, 'turn')}: {told}"
    for one in done.verdicts:
        said = {"saved": "saved", "queued": "waits for review"}.get(one.outcome, "dropped")
        said = f"would be {one.outcome}" if dry_run else said
        yield f"  {said}: {one.path or one.proposal.name}" + (f" ({one.why})" if one.why else "")
    if done.problem:
        yield f"{plural(done.left, 'turn')} wait: {done.problem}"


def _verdict_json(one: JudgedProposal) -> dict[str, object]:
    fields = ("name", "description", "kind", "content", "replaces", "conversation", "trust")
    return {"outcome": one.outcome, "path": one.path, "why": one.why, **pick(one.proposal, fields)}


def _by_flags(call: Call, memories: Layers) -> int:
    options = call.options
    done = []
    for name in _named(options.approve, memories):
        done.append({"id": name, "done": "approved", "path": _approve(memories, name).path})
    for name in _named(options.reject, memories):
        _reject(memories, name)
        done.append({"id": name, "done": "rejected", "path": ""})
    if options.edit:
        done.append({"id": options.edit, "done": "approved", "path": _edited(call, memories, options.edit).path})
    return call.console.answer({"done": done}, (f"{one['done']}: {one['path'] or one['id']}" for one in done))


def _named(names: Sequence[str] | None, memories: Layers) -> list[str]:
    if names != ["all"]:
        return list(names or ())
    return [one.id for one in memories.learning.queue.all()] + [row.path for row in _doubted(memories)]


def _doubted(memories: Layers) -> list[Row]:
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
    from memsheaf.memory import parse

    sheaf, path = memories.place(name)
    memory = sheaf.read(path)
    if memory.trust == "unconfirmed" or memory.changed_by in ("", "user"):
        return ""
    for commit in sheaf.log(memory.path):
        for step in commit.revisions:
            if step.old and parse(step.path, step.old).changed_by in ("", "user"):
                return step.before
    return ""


def _edited(call: Call, memories: Layers, name: str) -> Memory:
    from memsheaf.cli.edit import edited_text

    if name.endswith(".md"):
        memory = memories.read(name)
        text = edited_text(call.environment, memory.path.rpartition("/")[2], memory.text)
        memories.put(memory.path, text, expect=memory.version, allow=Allow(anyway=True))
        return memories.confirm(memory.path)
    waiting = memories.learning.queue.get(name)
    content = edited_text(call.environment, f"{waiting.id}.md", waiting.proposal.content)
    return memories.learning.approve(name, content=content)


def _listed(call: Call, waiting: Sequence[QueuedProposal], doubted: Sequence[Row]) -> int:
    if call.console.json:
        proposals = [{"id": one.id, "at": one.at, "why": one.why, **_proposal_json(one.proposal)} for one in waiting]
        fields = ("path", "name", "description", "kind", "updated")
        unconfirmed = [pick(row, fields) for row in doubted if row.trust == "unconfirmed"]
        changed = [pick(row, fields) for row in doubted if row.trust != "unconfirmed"]
        return call.console.answer({"proposals": proposals, "unconfirmed": unconfirmed, "changed": changed})
    if not waiting and not doubted:
        call.console.say("Nothing waits for you.")
        return 0
    rows = [(one.id, one.proposal.kind, one.proposal.name, one.why) for one in waiting]
    said = {True: "unconfirmed", False: "changed by an agent"}
    rows += [(row.path, row.kind, row.name, said[row.trust == "unconfirmed"]) for row in doubted]
    call.console.table([("ID", "TYPE", "NAME", "WHY"), *rows], ("bold",))
    return 0


def _proposal_json(proposal: Proposal) -> dict[str, object]:
    return {**proposal._asdict()}


def _one_by_one(call: Call, memories: Layers, waiting: Sequence[QueuedProposal | Row]) -> int:
    console = call.console
    for number, one in enumerate(waiting, 1):
        console.say(f"\n{number} of {len(waiting)}", style="dim")
        name = _shown(call, memories, one)
        while True:
            answer = console.choose("approve, edit, reject, skip or quit?", "aersq")
            try:
                if answer == "a":
                    console.say(f"saved: {_approve(memories, name).path}", style="green")
                elif answer == "e":
                    console.say(f"saved: {_edited(call, memories, name).path}", style="green")
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


def _shown(call: Call, memories: Layers, one: QueuedProposal | Row) -> str:
    """Show what waits, and give the name it is decided by."""
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
