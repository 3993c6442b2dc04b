"""Consolidation: memories that say the same become one, and what no longer holds is retired.

Plan, check, apply. A plan is made of groups; a group that fails a check is dropped alone, with the reason. What
passes is one commit that names the versions that were read: if a file changed meanwhile, its group is dropped and the
rest is done. Nothing is lost: what is retired stays in the journal, and one `undo` brings all of it back.

    report = run(sheaf, state=sheaf.state, now=time.time())           # what would be done
    report = run(sheaf, state=sheaf.state, now=time.time(), apply=True)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, NamedTuple, Protocol

from memsheaf.errors import Busy, CapReached, Changed, MemsheafError, ModelFailed, Refused, StoreFailed, TextRefused
from memsheaf.guard.paths import CATALOG
from memsheaf.index.database import Row
from memsheaf.learn import model_merges, rehearsal, schedule
from memsheaf.learn.corrections import Memories
from memsheaf.learn.merge_plan import BY, PlanGroup, find_groups, is_usable, without
from memsheaf.llm import Model
from memsheaf.memory import Memory
from memsheaf.recall.inject import CONTEXT
from memsheaf.store import Change, Commit
from memsheaf.store.state import State
from memsheaf.text.similarity import invented, lost
from memsheaf.text_edits import checked, refuse_secrets, refuse_unworthy

if TYPE_CHECKING:
    from memsheaf.embed import Embedder

LEAST, SHARE = 2, 10  # one in ten memories may be retired in a run, and two in any case
READ = 20_000  # memories that a run reads, those that were changed last
NEIGHBOURS = 10
SETTLED = 1_000  # clusters that are remembered as seen by a model
FAILURES = 2  # in a row, after which a model is not asked any more

_ACTIONS = {
    "merge": "merged",
    "rewrite": "rewritten",
    "dates": "dated",
    "contradicted": "no longer so",
    "expired": "expired",
}

Progress = Callable[[int, int], None]
Approve = Callable[[PlanGroup], bool]  # whether a person lets a group be done that touches what they wrote


class Target(Memories, Protocol):
    """The memories that are consolidated; `Sheaf` is one."""

    def list(self) -> Sequence[Row]:
        """Every file, in the order of the paths."""

    def change_many(self, changes: Sequence[Change], why: str, *, by: str) -> Commit:
        """All these changes as one commit, or none. Raises Changed, Refused."""


class Dropped(NamedTuple):
    """A group that is not done, and why."""

    group: PlanGroup
    why: str


class ConsolidationReport(NamedTuple):
    """What a run would do or did: the groups that stand, those that were dropped, and the commit, "" without one.

    `notes` name problems, such as a model that did not answer; `mine` are groups that are left alone because a
    person wrote what they would change.
    """

    groups: tuple[PlanGroup, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    commit: str = ""
    notes: tuple[str, ...] = ()
    mine: tuple[PlanGroup, ...] = ()

    @property
    def retired(self) -> int:
        """How many memories are retired."""
        return sum(len(group.retired) for group in self.groups)


class _Plan(NamedTuple):
    """What a run has found so far, how many memories it may retire, and how far a model has got."""

    memories: Mapping[str, Memory]
    groups: tuple[PlanGroup, ...]
    mine: tuple[PlanGroup, ...]
    most: int
    cursor: str
    settled: tuple[str, ...]
    notes: tuple[str, ...] = ()


def run(
    target: Target,
    *,
    state: State,
    now: float,
    model: Model | None = None,
    apply: bool = False,
    learned: int = 0,
    embedder: Embedder | None = None,
    progress: Progress | None = None,
    mine: Approve | None = None,
    only: Collection[str] | None = None,
) -> ConsolidationReport:
    """Find what can be consolidated, check it, and with `apply` do it.

    Without a model, near-duplicates are merged, what expired is retired, and relative dates become absolute. What a
    person wrote is touched only with `mine`, which is asked about each such group before it is done.
    `learned` is how many conversations were ever learned from: the gate counts from there on. With `only`, a person
    chose groups of an earlier plan by their ids: those are done, and one that has changed is named in a note.

    Raises:
        Busy: another process is consolidating; only with `apply`.
        StoreFailed: nothing was done.
    """
    if only is not None:
        mine = lambda group: True  # noqa: E731
    if not apply:
        return _check(target, _chosen(_plan(target, state, now, model, progress, mine), only), state, embedder)
    with schedule.at_work(state):
        plan = _chosen(_plan(target, state, now, model, progress, mine), only)
        report = _apply(target, _approve(_check(target, plan, state, embedder), mine))
        try:
            rehearsal.follow(state, {old: new for group in report.groups for old, new in group.moved.items()})
            if only is None:
                schedule.save(state, schedule.Past(now, learned, plan.cursor, plan.settled))
        except (StoreFailed, Busy) as error:  # the commit stands
            return report._replace(notes=(*report.notes, f"it was done, but not noted: {error}"))
    return report


def _plan(
    target: Target, state: State, now: float, model: Model | None, progress: Progress | None, mine: Approve | None
) -> _Plan:
    """Everything that might be done, the surest first."""
    today, past = date.fromtimestamp(now), schedule.load(state)
    rows = [
        row
        for row in target.list()
        if row.state == "ok" and row.kind and row.path not in (CATALOG, CONTEXT) and row.trust != "shared"
    ]
    memories = list(_read(target, rows))
    most = max(LEAST, len(rows) // SHARE)
    groups = find_groups(memories, today, most)
    own = find_groups(without(memories, groups), today, most, mine=True)
    plan = _Plan(
        {memory.path: memory for memory in memories},
        tuple(groups + own if mine else groups),
        () if mine else tuple(own),
        most,
        past.cursor,
        past.settled,
    )
    return _ask(target, plan, model, today, progress) if model else plan


def _chosen(plan: _Plan, only: Collection[str] | None) -> _Plan:
    """The plan with the groups that a person chose, and a note for each that is not in it."""
    if only is None:
        return plan
    groups = tuple(group for group in plan.groups if group.id in only)
    late = sorted({*only} - {group.id for group in groups})
    notes = (f"group {one} was not done: its memories were changed since it was planned" for one in late)
    return plan._replace(groups=groups, notes=(*plan.notes, *notes))


def _read(target: Target, rows: Sequence[Row]) -> Iterator[Memory]:
    """The memories as they are now; of very many, those that were changed last."""
    if len(rows) > READ:
        rows = sorted(sorted(rows, key=lambda row: row.updated)[-READ:])
    for row in rows:
        try:
            memory = target.read(row.path)
        except MemsheafError:
            continue  # deleted or unreadable: then it is not touched
        if is_usable(memory) and memory.path == row.path:
            yield memory


def _ask(target: Target, plan: _Plan, model: Model, today: date, progress: Progress | None) -> _Plan:
    """The plan with what a model proposes for memories that are near each other."""

    def near(memory: Memory) -> list[str]:
        found = target.matches(f"{memory.name} {memory.description}", limit=NEIGHBOURS)
        return [match.row.path for match in found if match.fit >= 1]

    free = without(plan.memories.values(), plan.groups)
    firsts = model_merges.in_turn(free, plan.cursor)
    settled = frozenset(plan.settled)
    failed = 0
    clusters = model_merges.find_clusters(firsts, free, near, settled=settled, most=plan.most + 1)
    for number, cluster in enumerate(clusters):
        if number == model_merges.CLUSTERS or failed == FAILURES:
            return plan
        if progress:
            progress(number, model_merges.CLUSTERS)
        first = cluster[0].path
        try:
            proposed = model_merges.ask_model(model, cluster, today)
        except CapReached as error:
            return plan._replace(notes=(*plan.notes, str(error)))
        except ModelFailed as error:
            failed += 1
            note = f"the model's answer about {first} changed nothing: {error}"
            plan = plan._replace(cursor=first, notes=(*plan.notes, note))
            continue
        failed = 0
        plan = plan._replace(groups=(*plan.groups, *proposed), cursor=first)
        if not proposed:
            plan = plan._replace(settled=(*plan.settled, model_merges.cluster_id(cluster))[-SETTLED:])
    return plan._replace(cursor=firsts[-1].path if firsts else "")


def _check(target: Target, plan: _Plan, state: State, embedder: Embedder | None) -> ConsolidationReport:
    """The groups that pass every check, and the others with the reason."""
    standing: list[PlanGroup] = []
    dropped: list[Dropped] = []
    for group in plan.groups:
        if why := _refusal(group) or _over_limit(group, standing, plan.most):
            dropped.append(Dropped(group, why))
        else:
            standing.append(group)

    def rivals(question: str, limit: int) -> list[str]:
        return [match.row.path for match in target.matches(question, limit=limit)]

    worse = rehearsal.find_regressions(
        plan.memories, standing, rehearsal.expectations(state), rivals, embedder=embedder
    )
    dropped += [Dropped(standing[number], why) for number, why in worse.items()]
    kept = tuple(group for number, group in enumerate(standing) if number not in worse)
    mine = tuple(group for group in plan.mine if not _refusal(group))
    return ConsolidationReport(kept, tuple(dropped), notes=plan.notes, mine=mine)


def _refusal(group: PlanGroup) -> str:
    """Why what a group writes may not be stored, or loses or adds something; "" when it may be done."""
    stays = group.was(group.keeper) if group.keeper else None
    if stays and group.text:
        try:
            written = checked(group.keeper, group.text, stays, free=False)
            refuse_secrets(written, stays)
            refuse_unworthy(written, stays)
        except TextRefused as error:
            return str(error)
        if why := lost([stays], written) or (invented(group.seen, written) if group.model else ""):
            return why
        stays = written
    if stays and group.action != "contradicted":
        return lost([group.was(path) for path in group.retired], stays)
    return ""


def _over_limit(group: PlanGroup, standing: Sequence[PlanGroup], most: int) -> str:
    """Why a group goes beyond what one run may do."""
    retired = sum(len(one.retired) for one in standing)
    if group.retired and retired + len(group.retired) > most:
        return f"a run retires at most {most} memories; the next one goes on"
    rewritten = sum(not one.retired for one in standing)
    if not group.retired and rewritten == most:
        return f"a run rewrites at most {most} memories; the next one goes on"
    return ""


def _approve(report: ConsolidationReport, mine: Approve | None) -> ConsolidationReport:
    """The report without the groups that a person wants to stay as they are."""
    refused = [group for group in report.groups if group.mine and not (mine and mine(group))]
    return _drop(report, refused, "you left it as it is")


def _apply(target: Target, report: ConsolidationReport) -> ConsolidationReport:
    """Commit the groups as one. Those whose memories changed meanwhile are dropped, and the rest is done."""
    while report.groups:
        changes = [change for group in report.groups for change in group.changes()]
        try:
            return report._replace(commit=target.change_many(changes, summary(report.groups), by=BY).id)
        except Changed as error:
            late = [group for group in report.groups if error.path in group.paths]
            if not late:
                raise
            report = _drop(report, late, f"{error.path} was changed meanwhile")
        except Refused as error:
            report = _drop(report, report.groups, str(error))
    return report


def _drop(report: ConsolidationReport, groups: Sequence[PlanGroup], why: str) -> ConsolidationReport:
    kept = tuple(group for group in report.groups if group not in groups)
    return report._replace(groups=kept, dropped=(*report.dropped, *(Dropped(group, why) for group in groups)))


def summary(groups: Iterable[PlanGroup]) -> str:
    """What groups do, in one line.

    >>> summary([])
    'consolidate: nothing'
    """
    counts = Counter(_ACTIONS[group.action] for group in groups)
    return "consolidate: " + (", ".join(f"{count} {done}" for done, count in counts.items()) or "nothing")
