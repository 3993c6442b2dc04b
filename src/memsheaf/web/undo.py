"""Undo: a commit, with those that were made together with it, from the notice after a change or from the timeline."""

from __future__ import annotations

from starlette.responses import Response

from memsheaf.web.page import PageRequest, post
from memsheaf.work.move import undo_together


@post("/undo")
def undo(page: PageRequest) -> Response:
    """Take a commit back; the notice that follows takes this back."""
    key = page.form["key"]
    undone = undo_together(page.scopes.sheaf(key), page.form["commit"], page.scopes.opened())
    names = ", ".join(step.path for step in undone[0][1].revisions[:3])
    commit = undone[0][1] if len(undone) == 1 else None
    return page.go(page.back(), page.fill(page.t.undo.done, name=names), commit=commit, key=key)
