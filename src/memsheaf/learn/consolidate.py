"""Consolidation: memories that say the same become one, and what no longer holds is retired.

Plan, check, apply. A plan is made of groups; a group that fails a check is dropped alone, with the reason. What
passes is one commit that names the versions that were read: if a file changed meanwhile, its group is dropped and the
rest is done. Nothing is lost: what is retired stays in the journal, and one `undo` brings all of it back.

    report = run(sheaf, state=sheaf.state, now=time.time())           # what would be done
    report = run(sheaf, state=sheaf.state, now=time.time(), apply=True)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from typing import NamedTuple, Protocol

from memsheaf.errors import Busy, CapReached, Changed, MemsheafError, ModelFailed, Refused, StoreFailed, TextRefused
from memsheaf.gates import find_unworthy, require_no_secret
from memsheaf.guard.paths import CATALOG
from memsheaf.index.database import Row
from memsheaf.learn import rehearsal, schedule
from memsheaf.learn.corrections import Memories
from memsheaf.learn.extract import BadAnswer
from memsheaf.learn.merge_plan import BY, PlanGroup, find_groups, is_usable, without
from memsheaf.learn.model_merges import ask_model, cluster_id, find_clusters
from memsheaf.llm import Model
from memsheaf.memory import Memory
from memsheaf.recall.inject import CONTEXT
from memsheaf.store import Change, Commit
from memsheaf.store.state import State
from memsheaf.text.similarity import invented, lost
from memsheaf.text_edits import checked

MIN_RETIRED, RETIRED_DIVISOR = 2, 10  # one in ten memories may be retired in a run, and two in any case
MAX_READ = 20_000  # memories that a run reads, those that were changed last
MAX_CLUSTERS = 12  # questions to a model in a run
NEIGHBOURS = 10
MAX_SETTLED = 1_000  # clusters that are remembered as seen by a model
MAX_FAILURES = 2  # in a row, after which a model is not asked any more

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


@dataclass(slots=True)
class _Plan:
    """The groups that a run may still do, and what it left out and why."""

    memories: dict[str, Memory]
    max_retired: int
    groups: list[PlanGroup]
    mine: list[PlanGroup]
    settled: list[str]
    dropped: list[Dropped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def drop(self, groups: Collection[PlanGroup], why: str) -> None:
        self.groups = [group for group in self.groups if group not in groups]
        self.dropped += [Dropped(group, why) for group in groups]

    def report(self, commit: str = "") -> ConsolidationReport:
        mine = tuple(group for group in self.mine if not _refusal(group))
        return ConsolidationReport(tuple(self.groups), tuple(self.dropped), commit, tuple(self.notes), mine)


def run(
    target: Target,
    *,
    state: State,
    now: float,
    model: Model | None = None,
    apply: bool = False,
    learned: int = 0,
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
    today = date.fromtimestamp(now)
    with schedule.at_work(state) if apply else nullcontext():
        plan = _make_plan(target, state, today, with_mine=mine is not None or only is not None)
        if model:
            _add_proposals(plan, target, model, today, progress)
        if only is not None:
            late = sorted({*only} - {group.id for group in plan.groups})
            plan.groups = [group for group in plan.groups if group.id in only]
            plan.notes += [f"group {id} was not done: its memories were changed since it was planned" for id in late]
        _check(plan, target, state)
        if not apply:
            return plan.report()
        if only is None:
            refused = [group for group in plan.groups if group.mine and not (mine and mine(group))]
            plan.drop(refused, "you left it as it is")
        commit = _apply(plan, target)
        try:
            rehearsal.follow(state, {old: new for group in plan.groups for old, new in group.moved.items()})
            if only is None:
                schedule.save(state, schedule.Past(now, learned, tuple(plan.settled[-MAX_SETTLED:])))
        except (StoreFailed, Busy) as error:  # the commit stands
            plan.notes.append(f"it was done, but not noted: {error}")
        return plan.report(commit)


def _make_plan(target: Target, state: State, today: date, *, with_mine: bool) -> _Plan:
    """Return everything that rules would do, the surest first."""
    rows = [
        row
        for row in target.list()
        if row.state == "ok" and row.kind and row.path not in (CATALOG, CONTEXT) and row.trust != "shared"
    ]
    max_retired = max(MIN_RETIRED, len(rows) // RETIRED_DIVISOR)
    if len(rows) > MAX_READ:
        rows = sorted(sorted(rows, key=lambda row: row.updated)[-MAX_READ:])
    memories = {}
    for row in rows:
        with suppress(MemsheafError):  # deleted or unreadable: then it is not touched
            memory = target.read(row.path)
            if is_usable(memory) and memory.path == row.path:
                memories[row.path] = memory
    groups = find_groups([*memories.values()], today, max_retired)
    mine = find_groups(without(memories.values(), groups), today, max_retired, mine=True)
    if with_mine:
        groups, mine = groups + mine, []
    return _Plan(memories, max_retired, groups, mine, list(schedule.load(state).settled))


def _add_proposals(plan: _Plan, target: Target, model: Model, today: date, progress: Progress | None) -> None:
    """Add what a model proposes for memories that are near each other."""

    def near(memory: Memory) -> list[str]:
        matches = target.matches(f"{memory.name} {memory.description}", limit=NEIGHBOURS)
        return [match.row.path for match in matches if match.fit >= 1]

    free = without(plan.memories.values(), plan.groups)
    clusters = find_clusters(free, near, settled=frozenset(plan.settled), most=plan.max_retired + 1)
    failures = 0
    for number, cluster in enumerate(islice(clusters, MAX_CLUSTERS)):
        if failures == MAX_FAILURES:
            break
        if progress:
            progress(number, MAX_CLUSTERS)
        proposed: list[PlanGroup] = []
        try:
            proposed = ask_model(model, cluster, today)
            failures = 0
        except CapReached as error:
            plan.notes.append(str(error))
            break
        except ModelFailed as error:
            plan.notes.append(f"the model's answer about {cluster[0].path} changed nothing: {error}")
            failures += 1
            if not isinstance(error, BadAnswer):
                continue
        plan.groups += proposed
        if not proposed:
            plan.settled.append(cluster_id(cluster))


def _check(plan: _Plan, target: Target, state: State) -> None:
    """Drop the groups that fail a check, each with the reason."""
    retired = rewritten = 0
    most = plan.max_retired
    for group in list(plan.groups):
        why = _refusal(group)
        if not why and group.retired and retired + len(group.retired) > most:
            why = f"a run retires at most {most} memories; the next one goes on"
        if not why and not group.retired and rewritten == most:
            why = f"a run rewrites at most {most} memories; the next one goes on"
        if why:
            plan.drop([group], why)
        else:
            retired += len(group.retired)
            rewritten += not group.retired

    def search(question: str, limit: int) -> list[str]:
        return [match.row.path for match in target.matches(question, limit=limit)]

    checked_groups = plan.groups
    worse = rehearsal.find_regressions(plan.memories, checked_groups, rehearsal.expectations(state), search)
    for number, why in worse.items():
        plan.drop([checked_groups[number]], why)


def _refusal(group: PlanGroup) -> str:
    """Why what a group writes may not be stored, or loses or adds something; "" when it may be done."""
    stays = group.was(group.keeper) if group.keeper else None
    if stays and group.text:
        try:
            written = checked(group.keeper, group.text, stays, free=False)
            require_no_secret(written, stays)
            if error := find_unworthy(written, stays):
                raise error
        except TextRefused as error:
            return str(error)
        if why := lost([stays], written) or (invented(group.seen, written) if group.model else ""):
            return why
        stays = written
    if stays and group.action != "contradicted":
        return lost([group.was(path) for path in group.retired], stays)
    return ""


def _apply(plan: _Plan, target: Target) -> str:
    """Commit the groups as one; return the commit's id. A group whose memories changed meanwhile is dropped."""
    while plan.groups:
        changes = [change for group in plan.groups for change in group.changes()]
        try:
            return target.change_many(changes, summary(plan.groups), by=BY).id
        except Changed as error:
            late = [group for group in plan.groups if error.path in group.paths]
            if not late:
                raise
            plan.drop(late, f"{error.path} was changed meanwhile")
        except Refused as error:
            plan.drop(plan.groups, str(error))
    return ""


def summary(groups: Iterable[PlanGroup]) -> str:
    """What groups do, in one line.

    >>> summary([])
    'consolidate: nothing'
    """
    counts = Counter(_ACTIONS[group.action] for group in groups)
    return "consolidate: " + (", ".join(f"{count} {done}" for done, count in counts.items()) or "nothing")
