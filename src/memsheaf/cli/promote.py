"""The command that promotes what a session or a task found to a wider scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memsheaf.cli.call import Call, here, plural
from memsheaf.cli.command import Argument, Usage, takes
from memsheaf.cli.output import Part, Styled
from memsheaf.errors import NotFound, Refused
from memsheaf.guard.secrets import without_secrets
from memsheaf.memory import KINDS
from memsheaf.scope import Scope
from memsheaf.text.neutralize import one_line
from memsheaf.work import promotion, tasks
from memsheaf.work.promotion import (
    QUESTIONS,
    Examination,
    PromotionChoice,
    PromotionItem,
    examine,
    require_target,
)

_STYLES = {"ask": "yellow", "stop": "red"}
_FOR_ONE = ("subject", "fact", "cite", "reason", "category", "supersede", "anyway", "yes")


@takes(
    Argument("item", "the item, by its id or how that begins; without one, all are listed", "ITEM"),
    Argument("--session", "only what this session noted", "ID"),
    Argument("--task", "only what this task noted", "SLUG"),
    Argument("--to", "where it goes: project, user, task/SLUG or team/NAME", "SCOPE"),
    Argument("--subject", "what it is about, in a few words", "TEXT"),
    Argument("--fact", "the fact, in one or two sentences, instead of the note's own words", "TEXT"),
    Argument("--cite", "a place that shows it: PATH:LINE, PATH#SYMBOL", "PLACE", repeated=True),
    Argument("--reason", "why it is worth keeping", "TEXT"),
    Argument("--category", "which type it has", "TYPE", choices=KINDS),
    Argument("--supersede", "the memory there that it replaces", "FILE"),
    Argument("--anyway", "keep it although a step would stop it, and why", "RATIONALE"),
    Argument("--yes", "you want the team to have it"),
    scoped=False,
)
def promote(call: Call) -> int:
    """Promote what a session or a task found, by a checklist.

    Without an item, all that wait are listed with the steps that they do not pass, and nothing is written. You judge
    what only a reader can: what the code or its history says, what is of the moment and what is tied to one task
    stays where it is, and a procedure is rather a skill. To name the item is to say that it is none of these. What is
    known there already is skipped or superseded; for the project, the five fields of a fact must be complete; no
    secret goes anywhere. What was promoted is marked where it was noted.

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
    with call.layers(read_only=True) as layers, call.tree(layers.only("project").root) as tree:
        if target and target.layer == "task":
            tasks.open_task(layers, target.name)
        try:
            sources = promotion.sources(layers, session=options.session or "", task=options.task or "")
        except NotFound as error:
            hint = "`memsheaf session list --all` and `memsheaf task list` show what there is."
            error.hint = hint
            raise
        found = [item for scope in sources for item in promotion.items(layers.only(scope))]
        if options.item:
            found = [_find_item(found, options.item)]
            if options.cite:
                cited = tuple(tree.spell_from_root(place, here()) for place in options.cite)
                found = [found[0]._replace(citations=cited)]
        choice = PromotionChoice(options.supersede or "", options.anyway or "", options.yes)
        with call.console.waiting("examining"):
            examined = [
                examine(
                    _completed(call, item),
                    layers.only(options.to or "project"),
                    choice=choice,
                    tree=tree,
                )
                for item in found
            ]
        if not options.item:
            value = {"items": [_json(one) for one in examined], "questions": QUESTIONS}
            return call.answer(value, _list_parts(examined))
        (one,) = examined
        if one.recommend != "yes":
            return _refuse(call, one)
        with call.layers() as changing:
            source, goal = changing.only(one.item.scope), changing.only(one.target)
            memory = promotion.promote(one.item, source, goal, choice=choice, tree=tree)
            commit = next(goal.log(memory.path, limit=1)).id
    said = [
        f"Promoted to {one.target}: {memory.path}",
        f"Undo with `memsheaf undo {commit} --scope {one.target}`, and the mark with "
        f"`memsheaf undo --scope {one.item.scope}`.",
    ]
    done = {"promoted": memory.path, "version": memory.version, "commit": commit}
    return call.answer({**_json(one), **done}, _examination_parts(one), said)


def _find_item(found: Sequence[PromotionItem], wanted: str) -> PromotionItem:
    fitting = [item for item in found if item.id.startswith(wanted.lower())]
    if len(fitting) > 1:
        raise Usage(f"several items begin with {wanted!r}: {', '.join(item.id for item in fitting)}")
    if not fitting:
        hint = "`memsheaf promote` lists the items; what was promoted is not offered again."
        raise Refused(f"no item that waits begins with {wanted!r}", hint=hint)
    return fitting[0]


def _completed(call: Call, item: PromotionItem) -> PromotionItem:
    options = call.options
    return item._replace(
        subject=options.subject or item.subject,
        text=options.fact or item.text,
        reason=options.reason or item.reason,
        kind=options.category or ("user" if options.to == "user" else item.kind),
    )


def _list_parts(found: Sequence[Examination]) -> Iterator[Part]:
    for one in found:
        yield from _examination_parts(one)
        yield ""
    if found:
        yield "Before you promote one, ask:"
        yield from (f"  {question}" for question in QUESTIONS)
    counts = [f"{sum(one.recommend == word for one in found)} {word}" for word in ("yes", "defer", "no")]
    said = f"{plural(len(found), 'item')}: {', '.join(counts)}. Nothing was written."
    yield said if found else "Nothing is waiting to be promoted."


def _examination_parts(one: Examination) -> Iterator[Part]:
    item = one.item
    said = one_line(without_secrets(item.text), 160)
    yield Styled(f"{item.id}  {one.recommend}  {said}", "bold")
    yield Styled(f"  {item.origin} > {one.target}", "dim")
    if item.citations:
        yield Styled(f"  cites {without_secrets(', '.join(item.citations))}", "dim")
    width = max((len(step.name) for step in one.steps), default=0)
    for step in one.steps:
        yield Styled(f"  {step.verdict:<4}  {step.name:<{width}}  {step.said}", _STYLES[step.verdict])
    if any(step.name == "duplicate" for step in one.steps):
        yield from (f"    {line}" for line in one.diff.splitlines())


def _json(one: Examination) -> dict[str, object]:
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
        "diff": one.diff,
        "steps": one.steps,
    }


def _refuse(call: Call, one: Examination) -> int:
    """Say why an item was not promoted, and what to type instead."""
    waiting = [f"{step.name}: {step.said}" for step in one.steps]
    call.answer({**_json(one), "promoted": "", "commit": ""}, _examination_parts(one))
    call.console.note(f"memsheaf: it was not promoted; {'; '.join(waiting)}", style="red")
    return 1
