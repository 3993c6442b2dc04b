"""The command that carries on what a session or a task found."""

from __future__ import annotations

import shlex

from memsheaf.cli.call import Call, here, hinted, plural
from memsheaf.cli.command import Argument, Usage, filled, takes
from memsheaf.errors import NotFound, Refused
from memsheaf.memory import KINDS

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.layers import Layers
    from memsheaf.layers.checklist import Choice, Examination, Item, Step
    from memsheaf.tree import WorkingTree

_STYLES = {"pass": "", "ask": "yellow", "stop": "red"}


@takes(
    Argument("item", "the item, by its id or how that begins; without one, all are listed", "ITEM", convert=filled),
    Argument("--session", "only what this session noted", "ID", convert=filled, complete="sessions"),
    Argument("--task", "only what this task noted", "SLUG", convert=filled, complete="tasks"),
    Argument(
        "--to", "where it goes: project, user, task/SLUG or team/NAME", "SCOPE", convert=filled, complete="scopes"
    ),
    Argument("--subject", "what it is about, in a few words", "TEXT", convert=filled),
    Argument(
        "--fact", "what is so, in one or two sentences, instead of the note's own words", "TEXT", convert=filled
    ),
    Argument("--cite", "a place that shows it: PATH:LINE, PATH#SYMBOL", "PLACE", repeated=True, convert=filled),
    Argument("--reason", "why it is worth keeping", "TEXT", convert=filled),
    Argument("--category", "which type it has", "TYPE", choices=KINDS),
    Argument("--supersede", "the memory there that gives way to it", "FILE", convert=filled, complete="files"),
    Argument("--anyway", "keep it although a step would stop it, and why", "RATIONALE", convert=filled),
    Argument("--convention", "it is a convention of the team, though it came as feedback"),
    Argument("--yes", "you want the team to have it; do not ask"),
)
def promote(call: Call) -> int:
    """Promote what a session or a task found, by a checklist whose verdicts you see.

    Without an item, all that wait are listed with their verdicts, and nothing is written. What the code or its
    history says, what is of the moment and what is tied to one task stays where it is; what is known there already is
    skipped or superseded; for the project, the five fields of a fact must be complete. A step that says `ask` waits
    for an option, or in a terminal for your answer. What was promoted is marked where it was noted.

    examples:
      memsheaf promote
      memsheaf promote 3f2a1c --subject "Test command" --cite Makefile:12 --reason "asked in each session"
      memsheaf promote 3f2a1c --session 2026-11-15-ab12 --to task/feature-x
      memsheaf promote 91bc04 --to project --supersede facts/project_test-command.md --json
    """
    from memsheaf.layers import promotion
    from memsheaf.layers.checklist import UNDECIDED, require_target
    from memsheaf.scope import Scope
    from memsheaf.tree import WorkingTree, around

    options = call.options
    if options.session and options.task:
        raise Usage("an item comes from a session or from a task; give one of --session and --task")
    if not options.item and (given := [name for name in _FOR_ONE if getattr(options, name)]):
        raise Usage(f"--{given[0]} is about one item; name it, as `memsheaf promote` lists it")
    if options.to:
        require_target(Scope.parse(options.to))
    with (
        call.layers(read_only=True) as layers,
        WorkingTree.open(around(here()), memories=layers.project.root, environment=call.environment) as tree,
    ):
        found = [item for scope in _sources(call, layers) for item in promotion.items(layers.sheaf(scope))]
        names = promotion.task_names(layers)
        if not options.item:
            with call.console.waiting("examining"):
                return _list(call, [_examined(call, layers, item, UNDECIDED, names, tree) for item in found])
        return _promote_one(call, layers, _meant(found, options.item), names, tree)


_FOR_ONE = ("subject", "fact", "cite", "reason", "category", "supersede", "anyway", "convention", "yes")


def _sources(call: Call, layers: Layers) -> list[str]:
    from memsheaf.layers.promotion import sources

    try:
        return sources(layers, session=call.options.session or "", task=call.options.task or "")
    except NotFound as error:
        raise hinted(error, "`memsheaf session list --all` and `memsheaf task list` show what there is.") from None


def _meant(found: list[Item], wanted: str) -> Item:
    fitting = [item for item in found if item.id.startswith(wanted.lower())]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise Usage(f"several items begin with {wanted!r}: {', '.join(item.id for item in fitting)}")
    raise hinted(
        Refused(f"no item that waits begins with {wanted!r}"),
        "`memsheaf promote` lists the items; what was promoted is not offered again.",
    )


def _examined(
    call: Call, layers: Layers, item: Item, choice: Choice, names: list[str], tree: WorkingTree
) -> Examination:
    from memsheaf.layers.checklist import examine
    from memsheaf.layers.promotion import usual_target

    target = layers.sheaf(call.options.to or usual_target(item))
    return examine(item, target, choice=choice, names=names, tree=tree)


# all that wait


def _list(call: Call, found: list[Examination]) -> int:
    console = call.console
    if console.json:
        return console.answer({"items": [_json(call, one) for one in found]})
    for one in found:
        _show(call, one)
        if one.recommend != "no":
            console.say(f"  type: {_next(call, one)}", style="cyan")
        console.say()
    if not found:
        console.say("Nothing waits to be promoted.")
        return 0
    counts = [f"{sum(one.recommend == word for one in found)} {word}" for word in ("yes", "defer", "no")]
    console.say(f"{plural(len(found), 'item')}: {', '.join(counts)}. Nothing was written.")
    return 0


def _show(call: Call, one: Examination) -> None:
    from memsheaf.guard.secrets import without_secrets
    from memsheaf.guard.text import one_line

    item = one.item
    is_named = item.subject and not item.text.startswith(item.subject)
    said = one_line(without_secrets(f"{item.subject}: {item.text}" if is_named else item.text), 160)
    call.console.say(f"{item.id}  {one.recommend}  {said}", style="bold")
    call.console.say(f"  {item.origin} > {one.target}", style="dim")
    width = max(len(step.name) for step in one.steps)
    for step in one.steps:
        call.console.say(f"  {step.verdict:<4}  {step.name:<{width}}  {step.said}", style=_STYLES[step.verdict])
    if one.diff and _step(one, "duplicate").verdict != "pass":
        for line in one.diff.splitlines():
            call.console.say(f"    {line}")


def _next(call: Call, one: Examination) -> str:
    """The line to type for an item: what was typed already, and a word in capitals for what is still missing."""
    item, options = one.item, call.options
    layer, _, name = item.scope.partition("/")
    words = ["memsheaf", "promote", item.id, f"--{layer}", name, "--to", one.target]
    for option in ("subject", "fact", "reason", "category"):
        if given := getattr(options, option):
            words += [f"--{option}", shlex.quote(given)]
    words += [f"--cite {shlex.quote(place)}" for place in options.cite or ()]
    if _step(one, "five fields").verdict != "pass":
        lacking = {"--subject TEXT": item.subject, "--cite PLACE": item.citations, "--reason TEXT": item.reason}
        words += [option for option, value in lacking.items() if not value] or ["--fact TEXT"]
    if _step(one, "duplicate").verdict == "ask":
        words += ["--supersede", shlex.quote(one.supersedes)]
    if one.target.startswith("team/"):
        words += ["--convention"] * ("feedback" in (item.kind, item.own)) + ["--yes"]
    return " ".join(words)


def _step(one: Examination, name: str) -> Step:
    return next(step for step in one.steps if step.name == name)


def _json(call: Call, one: Examination) -> dict[str, object]:
    from memsheaf.guard.secrets import without_secrets

    item = one.item
    return {
        "id": item.id,
        "subject": without_secrets(item.title),
        "proposed_classification": item.kind,
        "evidence_pointer": without_secrets(", ".join(item.citations) or item.origin),
        "recommend_promote": one.recommend,
        "text": without_secrets(item.text),
        "reason": without_secrets(item.reason),
        "origin": item.origin,
        "to": one.target,
        "supersedes": one.supersedes,
        "diff": one.diff,
        "steps": [step._asdict() for step in one.steps],
        "next": _next(call, one) if one.recommend != "no" else "",
    }


# one of them


def _promote_one(call: Call, layers: Layers, item: Item, names: list[str], tree: WorkingTree) -> int:
    from memsheaf.layers.checklist import Choice
    from memsheaf.layers.promotion import promote

    console, options = call.console, call.options
    item = item._replace(
        subject=options.subject or item.subject,
        text=options.fact or item.text,
        citations=tuple(tree.spelled(place, here()) for place in options.cite or ()) or item.citations,
        reason=options.reason or item.reason,
        kind=options.category or item.kind,
    )
    choice = Choice(options.supersede or "", options.anyway or "", options.convention, options.yes)
    one = _examined(call, layers, item, choice, names, tree)
    if console.interactive and not console.json and one.recommend == "defer":
        _show(call, one)
        answered = _asked(call, one, choice, tree)
        if answered is None:
            console.say("Skipped: nothing was written.")
            return 0
        item, choice = answered
        one = _examined(call, layers, item, choice, names, tree)
    if not console.json:
        _show(call, one)
    if one.recommend != "yes":
        return _told_why_not(call, one)
    with call.layers() as changing:
        source, target = changing.sheaf(item.scope), changing.sheaf(one.target)
        memory = promote(one.item, source, target, choice=choice, names=names, tree=tree)
    value = {**_json(call, one), "next": "", "promoted": memory.path, "version": memory.version}
    return console.answer(
        value,
        [
            f"Promoted to {one.target}: {memory.path}",
            f"`memsheaf undo --scope {one.target}` takes it back, `memsheaf undo --scope {item.scope}` its mark.",
        ],
    )


def _told_why_not(call: Call, one: Examination) -> int:
    waiting = [f"{step.name}: {step.said}" for step in one.steps if step.verdict != "pass"]
    if call.console.json:
        call.console.document({**_json(call, one), "promoted": ""})
    call.console.note(f"memsheaf: it was not promoted; {'; '.join(waiting)}", style="red")
    if one.recommend == "defer":
        call.console.note(f"Type: {_next(call, one)}")
    else:
        call.console.note("It stays where it was noted. --anyway RATIONALE insists, where a step is only a guess.")
    return 1


def _asked(call: Call, one: Examination, choice: Choice, tree: WorkingTree) -> tuple[Item, Choice] | None:
    """Ask a person for what the steps wait for: what gives way, missing fields, their word. None: it is skipped."""
    item, console = one.item, call.console
    if _step(one, "duplicate").verdict == "ask":
        answer = console.choose("supersede it (u), create another beside it (c), or skip (s)?", "ucs")
        if answer == "s":
            return None
        if answer == "u":
            choice = choice._replace(supersedes=one.supersedes)
        else:
            choice = choice._replace(anyway=console.ask("Why are both needed?"))
            item = item._replace(subject=console.ask("And what is this one about, in a few words?") or item.subject)
    if _step(one, "five fields").verdict == "ask":
        item = item._replace(
            subject=item.subject or console.ask("What is it about, in a few words?"),
            citations=item.citations
            or _places(console.ask("Which place shows it (PATH:LINE or PATH#SYMBOL)?"), tree),
            reason=item.reason or console.ask("Why is it worth keeping?"),
        )
    if one.target.startswith("team/"):
        if "feedback" in (item.kind, item.own) and not choice.convention:
            choice = choice._replace(convention=console.confirm("Is it a convention of the team?"))
        if not choice.confirmed:
            choice = choice._replace(confirmed=console.confirm(f"Shall everybody in {one.target} read it?"))
    return item, choice


def _places(said: str, tree: WorkingTree) -> tuple[str, ...]:
    return tuple(tree.spelled(place, here()) for place in said.replace(",", " ").split())
