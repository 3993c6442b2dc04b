"""Commands for what is known of a repository: where the work stands, and facts that are superseded, not edited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memsheaf.cli.call import here, insisting, pick, plural
from memsheaf.cli.command import ALLOW_SECRET, ANYWAY, Argument, Usage, filled, takes, whole
from memsheaf.cli.write import KINDS

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call
    from memsheaf.memory import Memory
    from memsheaf.work.facts import Facts
    from memsheaf.work.notes import Notes, Problem, Pruned
    from memsheaf.worktree import WorkingTree

NOTES_TAKE = {
    "text": ("block", "done", "pending", "clear"),
    "objective": ("set",),
    "phase": ("set",),
    "apply": ("prune",),
    "days": ("prune",),
}
FACT_TAKES = {
    "what": ("add", "show", "supersede"),
    "text": ("add", "supersede"),
    "cite": ("add", "supersede"),
    "reason": ("add", "supersede"),
    "category": ("add",),
    "supersedes": ("add",),
    "anyway": ("add", "supersede"),
    "allow_secret": ("add", "supersede"),
}
"""Which action takes what."""


@takes(
    Argument(
        "action",
        "what to do (show)",
        "ACTION",
        choices=("show", "set", "block", "done", "pending", "clear", "check", "prune"),
        default="show",
    ),
    Argument(
        "text",
        "block, pending: what to note; done: its words, or its number from 1; clear: objective or phase",
        "TEXT",
        convert=filled,
    ),
    Argument("--objective", "set: what the work is for now", "TEXT", convert=filled),
    Argument("--phase", "set: which phase it is in", "TEXT", convert=filled),
    Argument("--apply", "prune: do it, as one commit that `memsheaf undo` takes back"),
    Argument("--days", "prune: how old what is DONE may be; 14", "N", convert=whole),
    scoped=False,
)
def notes(call: Call) -> int:
    """Show or change where the work stands: NOTES.md, which every agent reads first.

    `set` says what the work is for and which phase it is in, `block` adds a blocker or a risk, `pending` the one
    thing that waits to be decided, and `done` moves one of these to NOTES-archive.md; numbers count blockers first.
    `clear` moves the objective or the phase there, when it is over and nothing takes its place. What would make the
    notes longer than 20 lines, or a history of the work, is refused. `check` tells what is not in order, with the
    exit code 1. `prune` shows what is over and would be moved to the archive; --apply moves it.

    examples:
      memsheaf notes
      memsheaf notes set --objective "Move the importer to the new API" --phase "2 of 6: the parser"
      memsheaf notes block "The vendor has not sent the key"
      memsheaf notes done 1
      memsheaf notes clear objective
      memsheaf notes check --json
      memsheaf notes prune --apply
      memsheaf notes prune --days 3
    """
    from memsheaf.work.notes import Notes

    _refuse_strangers(call, NOTES_TAKE)
    action, apply = call.options.action, call.options.apply
    looks = {"show": _show_notes, "check": _check_notes, "prune": _prune_notes}
    with call.layers(read_only=action in looks and not apply) as layers:
        found = Notes(layers.project)
        return looks[action](call, found) if action in looks else _change_notes(call, found)


@takes(
    Argument("action", "what to do (list)", "ACTION", choices=("list", "show", "add", "supersede"), default="list"),
    Argument("what", "the subject of a fact, or the file of one that is there", "SUBJECT|FILE", complete="files"),
    Argument("text", "the fact, in one or two sentences; - reads it from standard input", "FACT"),
    Argument(
        "--cite",
        "a place that shows it: PATH:LINE, PATH:LINE-LINE or PATH#SYMBOL; may be repeated",
        "PLACE",
        repeated=True,
        convert=filled,
        complete="paths",
    ),
    Argument("--reason", "why it is worth keeping", "TEXT", convert=filled),
    Argument("--category", "add: what it is about", "TYPE", choices=KINDS),
    Argument("--supersedes", "add: the fact that it corrects, which is retired", "FILE", convert=filled),
    ALLOW_SECRET,
    ANYWAY,
    scoped=False,
)
def fact(call: Call) -> int:
    """Keep facts of the repository: sentences that can be false, with the places that show them.

    A fact needs a subject, one or two sentences, at least one place with a line or a symbol, a reason and a category.
    It is never edited. When it has become wrong, `supersede` stores what is true now and retires the old one in the
    same commit; it takes over subject and category, and the places unless others are given. `show` checks the places
    against the working tree you are in.

    examples:
      memsheaf fact
      memsheaf fact add Tests "Tests run with make test." --cite Makefile:3 --reason "asked often" --category project
      memsheaf fact show Tests
      memsheaf fact supersede project_tests.md "Tests run with make check." --reason "the target was renamed"
    """
    from memsheaf.scope import around
    from memsheaf.work.facts import Facts
    from memsheaf.worktree import WorkingTree

    _refuse_strangers(call, FACT_TAKES)
    action = call.options.action
    if action in FACT_TAKES["what"] and not call.options.what:
        raise Usage(f"{action} needs {'a subject' if action == 'add' else 'the subject or the file of a fact'}")
    with call.layers(read_only=action in ("list", "show")) as layers:
        facts = Facts(layers.project)
        if action == "list":
            return _list_facts(call, facts)
        memories = layers.project.root
        with WorkingTree.open(around(here()), memories=memories, environment=call.environment) as tree:
            return _show_fact(call, facts, tree) if action == "show" else _store_fact(call, facts, tree)


def _refuse_strangers(call: Call, taken: Mapping[str, Sequence[str]]) -> None:
    """Raise Usage for what does not belong to the action."""
    for name, takers in taken.items():
        if getattr(call.options, name) and call.options.action not in takers:
            shown = name.upper() if name in ("text", "what") else f"--{name.replace('_', '-')}"
            raise Usage(f"{shown} goes with {' and '.join(takers)}, not with {call.options.action}")


# notes


def _change_notes(call: Call, notes: Notes) -> int:
    from memsheaf.work.notes import CLEARED

    options = call.options
    if options.action == "set":
        if not (options.objective or options.phase):
            raise Usage("set needs --objective or --phase")
        text = notes.set(objective=options.objective or "", phase=options.phase or "")
        return call.console.answer(_changed_json(notes, text), [text.rstrip()])
    if options.action == "clear":
        if options.text not in CLEARED:
            raise Usage(
                f"clear takes {' or '.join(CLEARED)}; `memsheaf notes done` ends a blocker or what is pending"
            )
        was = notes.clear(options.text)
        return call.console.answer({**_changed_json(notes, notes.text), "cleared": was}, [f"Cleared: {was}"])
    said = call.given_text(options.text)
    if options.action == "done":
        number = said.strip()
        done = notes.unblock(int(number) if number.isascii() and number.isdigit() else said)
        return call.console.answer({**_changed_json(notes, notes.text), "done": done}, [f"Done: {done}"])
    text = notes.block(said) if options.action == "block" else notes.pend(said)
    return call.console.answer(_changed_json(notes, text), [text.rstrip()])


def _show_notes(call: Call, notes: Notes) -> int:
    text = notes.text
    if not text and not call.console.json:
        call.console.note("there are no notes; `memsheaf notes set --objective TEXT` begins them")
        return 0
    return call.console.answer(_notes_json(text), [text.rstrip()])


def _check_notes(call: Call, notes: Notes) -> int:
    found = notes.problems()
    call.console.answer({"problems": _problems_json(found)}, _told(found) or ["The notes are in order."])
    return 1 if found else 0


def _prune_notes(call: Call, notes: Notes) -> int:
    apply = call.options.apply
    days = call.options.days
    done = notes.prune(apply=apply) if days is None else notes.prune(apply=apply, days=days)
    left = notes.problems(done.text)
    value = {
        "applied": apply,
        "commit": notes.commit,
        "moved": [one._asdict() for one in done.moved],
        "review": list(done.review),
        "problems": _problems_json(left),
        "text": done.text,
    }
    return call.console.answer(value, _told_pruned(done, left, apply=apply))


def _told_pruned(done: Pruned, left: Sequence[Problem], *, apply: bool) -> Iterator[str]:
    for one in done.moved:
        yield f"{one.heading or 'Above the headings'}: {one.text}"
    count = plural(len(done.moved), "piece")
    if not done.moved:
        yield "There is nothing to move."
    else:
        yield f"Moved {count} to the archive." if apply else f"With --apply, {count} would be moved to the archive."
    if left:
        yield "What a person has to see to:"
        yield from _told(left)


def _told(found: Sequence[Problem]) -> list[str]:
    return [(f"line {one.line}: " if one.line else "") + f"{one.what}. {one.advice}" for one in found]


def _problems_json(found: Sequence[Problem]) -> list[dict[str, object]]:
    return [one._asdict() for one in found]


def _changed_json(notes: Notes, text: str) -> dict[str, object]:
    return {**_notes_json(text), "commit": notes.commit}


def _notes_json(text: str) -> dict[str, object]:
    from memsheaf.recall.inject import NOTES
    from memsheaf.work.notes import blockers_of, objective_of, pending_of, phase_of

    return {
        "path": NOTES,
        "objective": objective_of(text),
        "phase": phase_of(text),
        "blockers": blockers_of(text),
        "pending": pending_of(text),
        "text": text,
    }


# facts


def _store_fact(call: Call, facts: Facts, tree: WorkingTree) -> int:
    from memsheaf.work.facts import Fact

    options = call.options
    text, reason = call.given_text(options.text), options.reason or ""
    places = tuple(tree.spelled(place, here()) for place in options.cite or ())
    allow = call.allow()
    with insisting():
        if options.action == "supersede":
            memory = facts.supersede(options.what, text, reason=reason, citations=places, tree=tree, allow=allow)
        else:
            fresh = Fact(options.what, text, places, reason, options.category or "")
            memory = facts.add(fresh, supersedes=options.supersedes or "", tree=tree, allow=allow)
    value = {**pick(memory, ("path", "version")), "supersedes": list(memory.supersedes), "commit": facts.commit}
    retired = f", which supersedes {', '.join(memory.supersedes)}" if memory.supersedes else ""
    return call.console.answer(value, [f"Saved {memory.path}{retired}"])


def _list_facts(call: Call, facts: Facts) -> int:
    found = facts.all()
    if call.console.json:
        return call.console.answer({"facts": [_fact_json(facts, memory) for memory in found]})
    call.console.table([(memory.path, memory.name, facts.of(memory).fact) for memory in found], ("bold",))
    if not found:
        call.console.note("there are no facts; `memsheaf fact add` stores one")
    return 0


def _show_fact(call: Call, facts: Facts, tree: WorkingTree) -> int:
    from memsheaf.guard.evidence import examine

    memory = facts.find(call.options.what)
    one, verdicts = facts.of(memory), examine(memory, tree).citations
    lines = [f"{one.subject}: {one.fact}", f"reason: {one.reason}", f"category: {one.category}"]
    lines += [f"supersedes: {path}" for path in memory.supersedes]
    lines += [f"{verdict.state}: {verdict.said}" for _, verdict in verdicts]
    checked = [{"citation": text, **pick(verdict, ("state", "said", "place"))} for text, verdict in verdicts]
    return call.console.answer({**_fact_json(facts, memory), "verdicts": checked}, lines)


def _fact_json(facts: Facts, memory: Memory) -> dict[str, object]:
    fields = {**facts.of(memory)._asdict(), "supersedes": list(memory.supersedes)}
    return {**pick(memory, ("path", "version", "created", "trust")), **fields}
