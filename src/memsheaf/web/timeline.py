"""The timeline: what happened in all scopes as a story; and undo, from there or from the notice after a change."""

from __future__ import annotations

from itertools import groupby

from starlette.responses import Response

from memsheaf.memory import KINDS
from memsheaf.web.page import PageRequest, get, post
from memsheaf.work.overview import WHAT, WHO, TimelineFilter, ToldCommit
from memsheaf.work.overview import timeline as read_timeline
from memsheaf.work.undo import undo_together

COMMITS = 40  # on a page


@get("/timeline")
def timeline(page: PageRequest) -> Response:
    """The commits that are wanted, newest first, day by day."""
    sheaves = page.sheaves
    for sheaf in sheaves.values():
        sheaf.reader.look()
    wanted = TimelineFilter(*(page.query[name] for name in ("who", "what", "type", "q", "day", "since")))
    number = page.number("page")
    found, total = read_timeline(sheaves, wanted, limit=COMMITS, offset=(number - 1) * COMMITS)
    days = [(day, [_shortened(one) for one in commits]) for day, commits in groupby(found, key=lambda one: one.day)]
    titles = {scope.key: scope.title for scope in page.site.known()}
    return page.show(
        "timeline.html", days=days, total=total, wanted=wanted, titles=titles, who=WHO, what=WHAT, kinds=KINDS,
        number_of_page=number, last_page=max(1, -(-total // COMMITS)),
    )  # fmt: skip


def _shortened(commit: ToldCommit) -> ToldCommit:
    """A commit without a reason that says only what its sentence says."""
    is_said = commit.undoes or any(change.name and change.name in commit.why for change in commit.changes)
    return commit._replace(why="") if is_said else commit


@post("/undo")
def undo(page: PageRequest) -> Response:
    """Take a commit back, with those that were made together with it; the notice that follows takes this back."""
    undone = undo_together(page.scopes.sheaf(page.form["key"]), page.form["commit"], page.scopes.every())
    where, commit = undone[0]
    paths = dict.fromkeys(step.path for _, one in undone for step in one.revisions)
    names = ", ".join([*paths][:3]) + (", …" if len(paths) > 3 else "")
    return page.go(page.back(), page.fill(page.t.undo.done, name=names), commit=commit, key=page.key_of(where))
