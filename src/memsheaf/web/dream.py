"""Dream: the plan of a consolidation group by group, before beside after; a person applies some and leaves others."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from memsheaf.learn.consolidate import ConsolidationReport
from memsheaf.learn.merge_plan import PlanGroup
from memsheaf.web.page import PageRequest, get, post
from memsheaf.web.text_changes import TextPiece, compare_texts

RULES = "none"  # the model: rules find the same groups again when one is applied
LARGE = 2_000  # memories of a scope that is planned only when somebody asks: that takes seconds


class PlannedMemory(NamedTuple):
    """A memory of a group: what becomes of it, and its texts before and after in pieces.

    Where only its header changes, these are the lines that do, and `body` is what it says.
    """

    name: str
    path: str
    fate: str
    before: list[TextPiece]
    after: list[TextPiece]
    body: str = ""


class PlannedGroup(NamedTuple):
    """A group of the plan, with its memories."""

    group: PlanGroup
    memories: list[PlannedMemory]


@get("/dream")
def dream(page: PageRequest) -> Response:
    """The plan for one scope, and when a consolidation is due by itself."""
    key = page.query["scope"] or "project"
    known, sheaf = page.scope(key), page.scopes.sheaf(key)
    is_planned = bool(page.query["plan"]) or sheaf.reader.count() <= LARGE
    report = sheaf.consolidate(RULES) if is_planned else ConsolidationReport()
    groups = [_shown(group) for group in (*report.groups, *report.mine)]
    return page.show(
        "dream.html", known=known, groups=groups, dropped=report.dropped, gates=sheaf.gates(), is_planned=is_planned
    )


@post("/dream/apply")
def apply_groups(page: PageRequest) -> Response:
    """Apply the groups that the form names, as one commit."""
    key, chosen = page.form["key"], page.ticked("group")
    back = f"/dream?scope={page.scope(key).key}&plan=1"
    if not chosen:
        return page.go(back, page.t.dream.none)
    sheaf = page.scopes.sheaf(key)
    report = sheaf.consolidate(RULES, apply=True, only=chosen)
    left = [*report.notes, *(one.why for one in report.dropped)]
    said = " ".join([page.fill(page.t.dream.done, len(report.groups)), *left])
    commit = sheaf.reader.last_change(report.commit) if report.commit else None
    return page.go(back, said, commit=commit, key=key)


def _shown(group: PlanGroup) -> PlannedGroup:
    memories = []
    for one in group.seen:
        written = group.written if one.path == group.keeper else None
        fate = "retired" if one.path in group.retired else "rewritten" if written else "kept"
        body, old, new = "", one.body.strip(), written.body.strip() if written else ""
        if written and old == new:
            body = old
            lines = one.text.split("\n"), written.text.split("\n")
            old, new = ("\n".join(line for line in each if line not in other) for each, other in (lines, lines[::-1]))
        before, after = compare_texts(old, new) if written else ([TextPiece(old, False)], [])
        memories.append(PlannedMemory(one.name or one.path, one.path, fate, before, after, body))
    return PlannedGroup(group, memories)
