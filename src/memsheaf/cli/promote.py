"""The command that promotes what a session or a task found to a wider scope."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from memsheaf.cli.call import Call, here, plural
from memsheaf.cli.command import Argument, Usage, takes
from memsheaf.cli.output import Styled
from memsheaf.errors import NotFound, Refused, hinted
from memsheaf.guard.citations import parse
from memsheaf.guard.secrets import without_secrets
from memsheaf.memory import KINDS
from memsheaf.scope import Scope
from memsheaf.text.neutralize import one_line
from memsheaf.values import NamedTuple
from memsheaf.work import promotion, tasks
from memsheaf.work.checklist import (
    UNDECIDED,
    ChecklistStep,
    Examination,
    PromotionChoice,
    PromotionItem,
    examine,
    require_target,
)
from memsheaf.work.layers import Layers
from memsheaf.worktree import WorkingTree

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.output import Part

_STYLES = {"pass": "", "ask": "yellow", "stop": "red"}
_FOR_ONE = ("subject", "fact", "cite", "reason", "category", "supersede", "anyway", "convention", "yes")
_QUESTIONS = {
    "subject": "What is it about, in a few words?",
    "fact": "What is so, in one or two sentences?",
    "citations": "Which place shows it (PATH:LINE or PATH#SYMBOL)?",
    "reason": "Why is it worth keeping?",
}


class _Around(NamedTuple):
    """What an item is examined with: the line, the layers, what tasks are called, and the working tree."""

    call: Call
    layers: Layers
    names: list[str]
    tree: WorkingTree


@takes(
    Argument("item", "the item, by its id or how that begins; without one, all are listed", "ITEM"),
    Argument("--session", "only what this session noted", "ID", complete="sessions"),
    Argument("--task", "only what this task noted", "SLUG", complete="tasks"),
    Argument("--to", "where it goes: project, user, task/SLUG or team/NAME", "SCOPE", complete="scopes"),
    Argument("--subject", "what it is about, in a few words", "TEXT"),
    Argument("--fact", "what is so, in one or two sentences, instead of the note's own words", "TEXT"),
    Argument("--cite", "a place that shows it: PATH:LINE, PATH#SYMBOL", "PLACE", repeated=True),
    Argument("--reason", "why it is worth keeping", "TEXT"),
    Argument("--category", "which type it has", "TYPE", choices=KINDS),
    Argument("--supersede", "the memory there that gives way to it", "FILE", complete="files"),
    Argument("--anyway", "keep it although a step would stop it, and why", "RATIONALE"),
    Argument("--convention", "it is a convention of the team, though it came as feedback"),
    Argument("--yes", "you want the team to have it; do not ask"),
    scoped=False,
)
def promote(call: Call) -> int:
    """Promote what a session or a task found, by a checklist whose verdicts you see.

    Without an item, all that wait are listed with their verdicts, and nothing is written; a terminal then offers to
    walk through them one by one. What the code or its history says, what is of the moment and what is tied to one
    task stays where it is; what is known there already is skipped or superseded; for the project, the five fields of
    a fact must be complete. A step that says `ask` waits for an option, or in a terminal for your answer. What was
    promoted is marked where it was noted.

    examples:
      memsheaf promote
      memsheaf promote 3f2a1c --subject "Test command" --cite Makefile:12 --reason "asked in each session"
      memsheaf promote 3f2a1c --session 2026-11-15-ab12 --to task/feature-x
      memsheaf promote 91bc04 --to project --supersede facts/project_test-command.md --json
    """
    options = call.options
    if options.session and options.task:
        raise Usage("an item comes from a session or from a task; give one of --session and --task")
    if not options.item and (given := [name for name in _FOR_ONE if getattr(options, name)]):
        raise Usage(f"--{given[0]} is about one item; name it, as `memsheaf promote` lists it")
    target = Scope.parse(options.to) if options.to else None
    if target:
        require_target(target)
    with call.layers(read_only=True) as layers, call.tree(layers.project.root) as tree:
        if target and target.layer == "task":
            tasks.of(layers, target.name)
        found = [item for scope in _sources(call, layers) for item in promotion.items(layers.sheaf(scope))]
        here_and_now = _Around(call, layers, promotion.task_names(layers), tree)
        if options.item:
            return _promote_one(here_and_now, _find_item(found, options.item))
        return _promote_several(here_and_now, found)


def _sources(call: Call, layers: Layers) -> list[str]:
    try:
        return promotion.sources(layers, session=call.options.session or "", task=call.options.task or "")
    except NotFound as error:
        raise hinted(error, "`memsheaf session list --all` and `memsheaf task list` show what there is.") from None


def _find_item(found: list[PromotionItem], wanted: str) -> PromotionItem:
    fitting = [item for item in found if item.id.startswith(wanted.lower())]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise Usage(f"several items begin with {wanted!r}: {', '.join(item.id for item in fitting)}")
    raise hinted(
        Refused(f"no item that waits begins with {wanted!r}"),
        "`memsheaf promote` lists the items; what was promoted is not offered again.",
    )


def _examine(around: _Around, item: PromotionItem, choice: PromotionChoice | None = None) -> Examination:
    target = around.layers.sheaf(around.call.options.to or promotion.usual_target(item))
    return examine(item, target, choice=choice or UNDECIDED, names=around.names, tree=around.tree)


# all that wait


def _promote_several(around: _Around, found: list[PromotionItem]) -> int:
    console = around.call.console
    with console.waiting("examining"):
        examined = [_examine(around, item) for item in found]
    value = {"items": [_json(around, one) for one in examined]} if console.json else None
    around.call.answer(value, _list_parts(around, examined) if found else "Nothing is waiting to be promoted.")
    waiting = [item for item, one in zip(found, examined, strict=True) if one.recommend != "no"]
    offer = f"Walk through the {plural(len(waiting), 'item')} that no step stops, one by one?"
    if waiting and console.interactive and not console.json and console.confirm(offer):
        _walk(around, waiting)
    return 0


def _list_parts(around: _Around, found: Sequence[Examination]) -> Iterator[Part]:
    for one in found:
        yield from _examination_parts(one)
        line = _next(around, one)
        if one.is_there:
            yield Styled(f"  type: memsheaf promote {one.item.id} to mark it", "cyan")
        elif one.recommend == "no":
            yield f"  it stays, or type: {line}" if line else "  it stays where it is"
        else:
            yield Styled(f"  type: {line}", "cyan")
        yield ""
    counts = [f"{sum(one.recommend == word for one in found)} {word}" for word in ("yes", "defer", "no")]
    yield f"{plural(len(found), 'item')}: {', '.join(counts)}. Nothing was written."


def _walk(around: _Around, waiting: Sequence[PromotionItem]) -> None:
    """Go through the items with a person, who promotes, skips or quits."""
    console, promoted = around.call.console, 0
    for item in waiting:
        one = _examine(around, item)  # once more: what was promoted before it may say the same
        around.call.answer(None, "", _examination_parts(one))
        if one.recommend == "no":
            continue
        answer = console.choose("promote it (p), skip it (s), or quit (q)?", "psq")
        if answer == "q":
            break
        settled = _settle(around, one, UNDECIDED) if answer == "p" else None
        if settled is None:
            console.say("Skipped.")
        elif settled[0].recommend == "yes":
            around.call.answer(None, _promote_item(around, *settled)[1])
            promoted += 1
        else:
            _tell_why_not(around, settled[0])
    console.say(f"{promoted} of {plural(len(waiting), 'item')} promoted." if promoted else "Nothing was written.")


# what people and programs see


def _examination_parts(one: Examination) -> Iterator[Part]:
    item = one.item
    is_named = item.subject and not item.text.startswith(item.subject)
    said = one_line(without_secrets(f"{item.subject}: {item.text}" if is_named else item.text), 160)
    yield Styled(f"{item.id}  {one.recommend}  {said}", "bold")
    yield Styled(f"  {item.origin} > {one.target}", "dim")
    if item.citations:
        yield Styled(f"  cites {without_secrets(', '.join(item.citations))}", "dim")
    yield from _step_lines(one.steps)
    if one.diff and _step(one, "duplicate").verdict != "pass":
        yield from (f"    {line}" for line in one.diff.splitlines())


def _step_lines(steps: Sequence[ChecklistStep]) -> Iterator[Part]:
    width = max((len(step.name) for step in steps), default=0)
    for step in steps:
        yield Styled(f"  {step.verdict:<4}  {step.name:<{width}}  {step.said}", _STYLES[step.verdict])


def _next(around: _Around, one: Examination) -> str:
    """The line to type for an item: what was typed already, and a word in capitals for what is still missing.

    For an item that is stopped, it is the line that insists or sends it elsewhere; "" when nothing helps.
    """
    options, stopping = around.call.options, [step for step in one.steps if step.verdict == "stop"]
    if not all(step.help for step in stopping):
        return ""
    layer, _, name = one.item.scope.partition("/")
    words = {f"--{layer}": name, "--to": one.target}
    for option in ("subject", "fact", "reason", "category", "supersede", "anyway"):
        if given := getattr(options, option):
            words[f"--{option}"] = shlex.quote(given)
    if options.cite:
        words["--cite"] = " --cite ".join(map(shlex.quote, options.cite))
    words |= {f"--{flag}": "" for flag in ("convention", "yes") if getattr(options, flag)}
    goes_elsewhere = any("--to" in step.help for step in stopping)
    for step in stopping if goes_elsewhere else one.steps:
        for word in shlex.split(step.help):
            if word.startswith("--"):
                option = word
            words[option] = "" if word == option else _fill_slug(around, shlex.quote(word))
    return " ".join(["memsheaf promote", one.item.id, *(f"{key} {value}".rstrip() for key, value in words.items())])


def _fill_slug(around: _Around, word: str) -> str:
    """The word, with the slug of the task where only one can be meant."""
    active = tasks.active_tasks(around.layers) if word == "task/SLUG" else []
    return f"task/{active[0]}" if len(active) == 1 else word


def _step(one: Examination, name: str) -> ChecklistStep:
    return next(step for step in one.steps if step.name == name)


def _json(around: _Around, one: Examination) -> dict[str, object]:
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
        "steps": one.steps,
        "next": _next(around, one),
    }


# one of them


def _promote_one(around: _Around, item: PromotionItem) -> int:
    console, options = around.call.console, around.call.options
    item = item._replace(
        subject=options.subject or item.subject,
        text=options.fact or item.text,
        citations=tuple(around.tree.spelled(place, here()) for place in options.cite or ()) or item.citations,
        reason=options.reason or item.reason,
        kind=options.category or item.kind,
    )
    choice = PromotionChoice(options.supersede or "", options.anyway or "", options.convention, options.yes)
    one = _examine(around, item, choice)
    if not console.json:
        around.call.answer(None, _examination_parts(one))
        if console.interactive and not one.is_there:
            settled = _settle(around, one, choice)
            if settled is None:
                console.say("Nothing was written.")
                return 0
            one, choice = settled
    if one.recommend != "yes" and not one.is_there:
        if console.json:
            console.answer({**_json(around, one), "promoted": "", "commit": ""})
        _tell_why_not(around, one)
        return 1
    return around.call.answer(*_promote_item(around, one, choice))


def _promote_item(around: _Around, one: Examination, choice: PromotionChoice) -> tuple[dict[str, object], list[str]]:
    """Promote an item; gives the answer for programs, and for people."""
    with around.call.layers() as changing:
        source, target = changing.sheaf(one.item.scope), changing.sheaf(one.target)
        memory = promotion.promote(one.item, source, target, choice=choice, names=around.names, tree=around.tree)
        commit = next(target.log(memory.path, limit=1)).id
    done = {"next": "", "promoted": memory.path, "version": memory.version, "commit": commit}
    if one.is_there:  # the commit that wrote it is somebody else's
        there, undo = f"{memory.path} in {one.target}", f"`memsheaf undo --scope {source.scope}`"
        said = f"Marked: {there} says it already; {undo} takes the mark back"
        return {**_json(around, one), **done, "commit": ""}, [said]
    undo = f"`memsheaf undo {commit} --scope {one.target}`"
    return {**_json(around, one), **done}, [
        f"Promoted to {one.target}: {memory.path}",
        f"{undo} takes it back, `memsheaf undo --scope {source.scope}` its mark.",
    ]


def _tell_why_not(around: _Around, one: Examination) -> None:
    note, line = around.call.console.note, _next(around, one)
    waiting = [f"{step.name}: {step.said}" for step in one.steps if step.verdict != "pass"]
    note(f"memsheaf: it was not promoted; {'; '.join(waiting)}", style="red")
    if one.recommend == "defer":
        note(f"Type: {line}")
        return
    note("It stays where it was noted." + (f" Or type: {line}" if line else ""))
    if line and "--anyway" not in line:
        note("--anyway RATIONALE insists, where a step is only a guess.")


# asking


def _settle(around: _Around, one: Examination, choice: PromotionChoice) -> tuple[Examination, PromotionChoice] | None:
    """Ask a person until no step waits for their word. None: they leave it."""
    while one.recommend == "defer":
        answered = _ask_for_fields(around, one, choice)
        if answered is None:
            return None
        item, choice = answered
        one = _examine(around, item, choice)
        around.call.answer(None, _step_lines([step for step in one.steps if step.verdict == "ask"]))
    return one, choice


def _ask_for_fields(
    around: _Around, one: Examination, choice: PromotionChoice
) -> tuple[PromotionItem, PromotionChoice] | None:
    """Ask a person for what the steps wait for: what gives way, fields, their word. None: they say none."""
    console, item = around.call.console, one.item
    if _step(one, "duplicate").verdict == "ask":
        decided = _ask_about_duplicate(around, one, choice)
        if decided is None:
            return None
        item, choice = decided
    for field in one.lacking:
        answer = console.ask(_QUESTIONS[field])
        if not answer:
            return None
        item = _fill_field(around, item, field, answer)
    if one.target.startswith("team/"):
        if "feedback" in (item.kind, item.own) and not choice.convention:
            choice = choice._replace(convention=console.confirm("Is it a convention of the team?"))
            if not choice.convention:
                return None
        if not choice.confirmed:
            choice = choice._replace(confirmed=console.confirm(f"Shall everybody in {one.target} read it?"))
        if not choice.confirmed:
            return None
    return item, choice


def _ask_about_duplicate(
    around: _Around, one: Examination, choice: PromotionChoice
) -> tuple[PromotionItem, PromotionChoice] | None:
    """What becomes of a memory there that says nearly the same."""
    console, item = around.call.console, one.item
    if choice.anyway:
        subject = console.ask("And what is this one about, in a few words?")
        return (item._replace(subject=subject), choice) if subject else None
    if "--supersede" in _step(one, "duplicate").help:
        answer = console.choose("supersede it (u), create another beside it (c), or skip (s)?", "ucs")
    else:
        answer = console.choose("create another beside it (c), or skip (s)?", "cs")
    if answer == "u":
        return item, choice._replace(supersedes=one.supersedes)
    why = console.ask("Why are both needed?") if answer == "c" else ""
    return (item, choice._replace(anyway=why)) if why else None


def _fill_field(around: _Around, item: PromotionItem, field: str, answer: str) -> PromotionItem:
    if field == "citations":
        return item._replace(citations=_places(answer, around.tree))
    if field == "subject":
        return item._replace(subject=answer)
    return item._replace(reason=answer) if field == "reason" else item._replace(text=answer)


def _places(said: str, tree: WorkingTree) -> tuple[str, ...]:
    """The places that were typed, apart by commas or blanks; one with blanks in it is known by being there."""
    found: list[str] = []
    for piece in said.split(","):
        whole = tree.spelled(piece.strip(" `"), here())
        place = parse(whole, typed=True)
        if place and tree.has(place.path):
            found.append(whole)
        else:
            found += [tree.spelled(word, here()) for word in piece.split()]
    return tuple(found)
