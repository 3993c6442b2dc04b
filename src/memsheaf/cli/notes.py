"""Commands for the state of the work (`notes`, `brief`), and for facts, which are superseded and not edited."""

from __future__ import annotations

from memsheaf.cli.call import Call, here, insisting, pick, plural
from memsheaf.cli.command import ALLOW_SECRET, ANYWAY, Argument, Usage, group, takes
from memsheaf.cli.output import Note, Table
from memsheaf.memory import KINDS, Memory
from memsheaf.recall.inject import NOTES
from memsheaf.work import notes as work_notes
from memsheaf.work.brief import brief as describe_work
from memsheaf.work.facts import Fact, Facts
from memsheaf.work.notes import BLOCKERS, OBJECTIVE, PENDING, PHASE, Problem, noted_under, problems


@takes(scoped=False)
def brief(call: Call) -> int:
    """Show where the work stands: NOTES.md, the task, and the notes of the session.

    It is made of the files alone, so it is what an agent needs to go on after its context was lost. Where several
    tasks are active or several sessions open, they are listed; MEMSHEAF_TASK and MEMSHEAF_SESSION name one.

    examples:
      memsheaf brief
      memsheaf brief --json
    """
    nothing = Note("there are no notes, no task and no session here yet; `memsheaf task start` begins one", "")
    with call.layers(read_only=True) as layers:
        text = describe_work(layers)
    return call.answer({"brief": text}, text.encode() if text else nothing)


notes = group(
    """Show or change where the work stands: NOTES.md, which every agent reads first.

    What would make the notes longer than 20 lines, or a history of the work, is refused. Any editor changes them,
    too. What is over, marked with DONE and the day, goes to NOTES-archive.md.

    examples:
      memsheaf notes
      memsheaf notes set --objective "Move the importer to the new API" --phase "2 of 6: the parser"
      memsheaf notes set --blocker "The vendor has not sent the key"
      memsheaf notes prune --apply
    """,
    default="show",
    scoped=False,
)


@notes.action()
def show_notes(call: Call) -> int:
    """Print the notes."""
    with call.layers(read_only=True) as layers:
        text = work_notes.read_notes(layers.only("project"))
    nothing = Note("there are no notes; `memsheaf notes set --objective TEXT` begins them", "")
    return call.answer(_notes_json(text), text.rstrip() if text else nothing)


@notes.action(
    Argument("--objective", "what the work is for now", "TEXT"),
    Argument("--phase", "which phase it is in", "TEXT"),
    Argument("--blocker", "what stands in the way, or may go wrong; added to those that are there", "TEXT"),
    Argument("--pending", "the one thing that waits to be decided", "TEXT"),
)
def set_notes(call: Call) -> int:
    """Say what the work is for, what phase it is in, what blocks it and what is pending."""
    options = call.options
    lines = {OBJECTIVE: options.objective, PHASE: options.phase, BLOCKERS: options.blocker, PENDING: options.pending}
    if not any(lines.values()):
        raise Usage("set needs --objective, --phase, --blocker or --pending")
    with call.layers() as layers:
        text, commit = work_notes.set_notes(layers.only("project"), lines)
    return call.answer({**_notes_json(text), "commit": commit}, text.rstrip())


@notes.action(Argument("--apply", "do it, as one commit that `memsheaf undo` undoes"))
def prune_notes(call: Call) -> int:
    """Show what is over and would be moved to the archive, or move it."""
    apply = call.options.apply
    with call.layers(read_only=not apply) as layers:
        project = layers.only("project")
        if apply:
            done, commit = work_notes.archive_notes(project)
        else:
            done, commit = work_notes.prune(work_notes.read_notes(project), layers.today), ""
        left = problems(done.text, layers.today)
    moved = [pick(entry, ("heading", "text")) for entry in done.moved]
    value = {
        **pick(done, ("review", "text")),
        "moved": moved,
        "applied": apply,
        "commit": commit,
        "problems": left,
    }
    count = plural(len(done.moved), "piece")
    said = f"Moved {count} to the archive." if apply else f"With --apply, {count} would be moved to the archive."
    return call.answer(
        value,
        (f"{entry.heading or 'Above the headings'}: {entry.text}" for entry in done.moved),
        said if done.moved else "There is nothing to move.",
        ["To be fixed by hand:", *map(_problem_line, left)] if left else None,
    )


def _problem_line(one: Problem) -> str:
    return (f"line {one.line}: " if one.line else "") + f"{one.what}. {one.advice}"


def _notes_json(text: str) -> dict[str, object]:
    return {
        "path": NOTES,
        "objective": "\n".join(noted_under(text, OBJECTIVE)),
        "phase": "\n".join(noted_under(text, PHASE)),
        "blockers": noted_under(text, BLOCKERS),
        "pending": noted_under(text, PENDING),
        "text": text,
    }


fact = group(
    """Keep facts of the repository: sentences that can be false, with the places that show them.

    A fact needs a subject, one or two sentences, at least one place with a line or a symbol, a reason and a category.
    It is never edited. When it has become wrong, `supersede` stores what is true now and retires the old one in the
    same commit.

    examples:
      memsheaf fact
      memsheaf fact add Tests "Tests run with make test." --cite Makefile:3 --reason "asked often" --category project
      memsheaf fact supersede project_tests.md "Tests run with make check." --reason "the target was renamed"
    """,
    default="list",
    scoped=False,
)

_SUBJECT = Argument("what", "what it is about, in a few words", "SUBJECT", required=True)
_FACT = Argument("what", "the subject or the file of a fact", "SUBJECT|FILE", required=True)
_TEXT = Argument("text", "the fact, in one or two sentences; - reads it from standard input", "FACT")
_CITE = Argument(
    "--cite",
    "a place that shows it: PATH:LINE, PATH:LINE-LINE or PATH#SYMBOL; may be repeated",
    "PLACE",
    repeated=True,
)
_REASON = Argument("--reason", "why it is worth keeping", "TEXT")


@fact.action()
def list_facts(call: Call) -> int:
    """List the facts."""
    with call.layers(read_only=True) as layers:
        facts = Facts(layers.only("project"))
        found = facts.all()
        rows = [(memory.path, memory.name, facts.of(memory).fact) for memory in found]
        value = {"facts": [_fact_json(facts, memory) for memory in found]}
    return call.answer(value, Table(rows, ("bold",), empty="there are no facts; `memsheaf fact add` stores one"))


@fact.action(
    _SUBJECT,
    _TEXT,
    _CITE,
    _REASON,
    Argument("--category", "what it is about", "TYPE", choices=KINDS),
    Argument("--supersedes", "the fact that it corrects, which is retired", "FILE"),
    ALLOW_SECRET,
    ANYWAY,
)
def add_fact(call: Call) -> int:
    """Store a fact."""
    options = call.options
    return _store_fact(call, supersedes=options.supersedes or "", category=options.category or "")


@fact.action(_FACT, _TEXT, _CITE, _REASON, ALLOW_SECRET, ANYWAY)
def supersede_fact(call: Call) -> int:
    """Store what is true now, with the old subject and category, and retire the old fact."""
    return _store_fact(call)


def _store_fact(call: Call, *, supersedes: str = "", category: str | None = None) -> int:
    """Store a fact: one of its own where a category is given, else the successor of the one that is named."""
    options = call.options
    text, reason = call.given_text(options.text), options.reason or ""
    allow = call.allow()
    with call.layers() as layers, call.tree(layers.only("project").root) as tree, insisting():
        project = layers.only("project")
        facts = Facts(project)
        places = tuple(tree.spell_from_root(place, here()) for place in options.cite or ())
        if category is None:
            memory = facts.supersede(options.what, text, reason=reason, citations=places, tree=tree, allow=allow)
        else:
            fresh = Fact(options.what, text, places, reason, category)
            memory = facts.add(fresh, supersedes=supersedes, tree=tree, allow=allow)
        commit = next(project.log(memory.path, limit=1)).id
    value = {**pick(memory, ("path", "version", "supersedes")), "commit": commit}
    retired = f", which supersedes {', '.join(memory.supersedes)}" if memory.supersedes else ""
    return call.answer(value, f"Saved {memory.path}{retired}")


def _fact_json(facts: Facts, memory: Memory) -> dict[str, object]:
    fields = {**facts.of(memory)._asdict(), "supersedes": memory.supersedes}
    return {**pick(memory, ("path", "version", "created", "trust")), **fields}
