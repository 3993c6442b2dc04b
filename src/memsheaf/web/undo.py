"""Undo: a commit, with those that were made together with it, from the notice after a change or from the timeline."""

from __future__ import annotations

from starlette.responses import Response

from memsheaf.web.page import PageRequest, post
from memsheaf.work.undo import undo_together


@post("/undo")
def undo(page: PageRequest) -> Response:
    """Take a commit back; the notice that follows takes this back."""
    undone = undo_together(page.scopes.sheaf(page.form["key"]), page.form["commit"], page.scopes.every())
    where, commit = undone[0]
    paths = dict.fromkeys(step.path for _, one in undone for step in one.revisions)
    names = ", ".join([*paths][:3]) + (", …" if len(paths) > 3 else "")
    return page.go(page.back(), page.fill(page.t.undo.done, name=names), commit=commit, key=page.key_of(where))
