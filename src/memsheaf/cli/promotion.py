"""The command that promotes what a session or a task found to a wider scope."""

from collections.abc import Iterator, Sequence

from memsheaf.cli.call import Call, Result, here, plural
from memsheaf.cli.output import Note, Part, Styled
from memsheaf.cli.parser import Kind, Usage, Words
from memsheaf.errors import NotFound, Refused
from memsheaf.guard.secrets import without_secrets
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


def promote(
    call: Call,
    item: str = "",
    *,
    to: str = "",
    name: str = "",
    cite: Words = (),
    reason: str = "",
    type: Kind = "",
    replaces: str = "",
    anyway: str = "",
) -> Result:
    """Promote what a session or a task found, by a checklist.

    Without an item, all that wait are listed with the steps that they do not pass, and nothing is written; -s names
    one task or session. You judge what only a reader can: what the code or its history says, what is of the moment
    and what is tied to one task stays where it is, and a procedure is rather a skill. To name the item is to say that
    it is none of these. What is known there already is skipped or superseded; for the project, the five fields of a
    fact must be complete; no secret goes anywhere, and nothing to a team without --yes. What was promoted is marked
    where it was noted.

    arguments:
      ITEM: the item, by its id or how that begins
      --to SCOPE: where it goes: project, user, task/SLUG or team/NAME
      --name NAME: what it is about, in a few words
      --cite PLACE: a place that shows it: PATH:LINE, PATH#SYMBOL; may be repeated
      --reason TEXT: why it is worth keeping
      -t, --type TYPE: which type it has
      --replaces MEMORY: the memory there that it replaces
      --anyway RATIONALE: keep it although a step would stop it, and why

    examples:
      memsheaf promote
      memsheaf promote 3f2a1c --name "Test command" --cite Makefile:12 --reason "asked in each session"
      memsheaf promote 3f2a1c -s session/2026-11-15-ab12 --to task/feature-x
      memsheaf promote 91bc04 --to project --replaces facts/project_test-command.md --json
    """
    given = {"--name": name, "--cite": cite, "--reason": reason, "--type": type, "--replaces": replaces}
    if not item and (about_one := [key for key, value in given.items() if value]):
        raise Usage(f"{about_one[0]} is about one item; name it, as `memsheaf promote` lists it")
    target = Scope.parse(to) if to else None
    if target:
        require_target(target)
    source = dict(scope.split("/", 1) for scope in call.named if "/" in scope)
    with call.layers(read_only=True) as layers, call.tree(layers.only("project").root) as tree:
        if target and target.layer == "task":
            tasks.open_task(layers, target.name)
        try:
            sources = promotion.sources(layers, session=source.get("session", ""), task=source.get("task", ""))
        except NotFound as error:
            hint = "`memsheaf session show --all` and `memsheaf task status --all` show what there is."
            error.hint = hint
            raise error from None
        items = [each for scope in sources for each in promotion.items(layers.only(scope))]
        if item:
            chosen = _find_item(items, item)
            places = tuple(tree.spell_from_root(place, here()) for place in cite)
            kind = type or ("user" if to == "user" else chosen.kind)
            chosen = chosen._replace(
                subject=name or chosen.subject,
                reason=reason or chosen.reason,
                citations=places or chosen.citations,
                kind=kind,
            )
            items = [chosen]
        choice = PromotionChoice(replaces, anyway, call.yes)
        with call.console.waiting("examining"):
            goal = layers.only(to or "project")
            examined = [examine(each, goal, choice=choice, tree=tree) for each in items]
        if not item:
            value = {"items": [_json(one) for one in examined], "questions": QUESTIONS}
            return Result(value, list(_list_parts(examined)))
        (one,) = examined
        if one.recommend != "yes":
            return _refuse(one)
        with call.layers() as changing:
            origin, goal = changing.only(one.item.scope), changing.only(one.target)
            memory = promotion.promote(one.item, origin, goal, choice=choice, tree=tree)
            commit = next(goal.log(memory.path, limit=1)).id
    return Result(
        {**_json(one), "promoted": memory.path, "version": memory.version, "commit": commit},
        list(_examination_parts(one)),
        f"Promoted to {one.target}: {memory.path}",
        f"Undo with `memsheaf undo {commit} -s {one.target}`, and the mark with `memsheaf undo -s {one.item.scope}`.",
    )


def _find_item(found: Sequence[PromotionItem], wanted: str) -> PromotionItem:
    fitting = [item for item in found if item.id.startswith(wanted.lower())]
    if len(fitting) > 1:
        raise Usage(f"several items begin with {wanted!r}: {', '.join(item.id for item in fitting)}")
    if not fitting:
        hint = "`memsheaf promote` lists the items; what was promoted is not offered again."
        raise Refused(f"no item that waits begins with {wanted!r}", hint=hint)
    return fitting[0]


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


def _refuse(one: Examination) -> Result:
    """Say why an item was not promoted, and what to type instead."""
    reasons = "; ".join(f"{step.name}: {step.said}" for step in one.steps)
    why = Note(f"memsheaf: it was not promoted; {reasons}", "red")
    return Result({**_json(one), "promoted": "", "commit": ""}, list(_examination_parts(one)), why, code=1)
