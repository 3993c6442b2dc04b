"""Undo: one commit of one scope, from the notice after a change or from the timeline."""

from __future__ import annotations

from starlette.responses import Response

from memsheaf.web.page import PageRequest, post


@post("/undo")
def undo(page: PageRequest) -> Response:
    """Take a commit back; the notice that follows takes this back."""
    key = page.form["key"]
    commit = page.scopes.sheaf(key).undo(page.form["commit"])
    names = ", ".join(step.path for step in commit.revisions[:3])
    return page.go(page.back(), page.fill(page.t.undo.done, name=names), commit=commit, key=key)
