"""The list of memories: search while typing, filters, orders, pages, and changes of many memories at once."""

from __future__ import annotations

import time
from datetime import date, timedelta

from starlette.responses import Response

from memsheaf.errors import MemsheafError, NotFound, TextRefused
from memsheaf.index.browse import Filter
from memsheaf.index.search import asked_at
from memsheaf.memory import KINDS, plural
from memsheaf.open_scope import OpenScope, list_page, new_group
from memsheaf.sheaf import undo_together
from memsheaf.store import Commit, Version
from memsheaf.web.page import AUTHORS, PageRequest
from memsheaf.work.checks import has_drifted, verify
from memsheaf.worktree import WorkingTree

ROWS_PER_PAGE = 40
LOOK_SECONDS = 0.5  # files are not looked at again within this time
AGES = ("7", "30", "-90", "-365")  # changed in the last so many days; with a minus, not changed for so many
SORTS = {"newest": "Newest first", "oldest": "Oldest first", "name": "By name", "type": "By type"}
TRUST_LEVELS = {"confirmed": "confirmed", "unconfirmed": "unconfirmed", "shared": "from others"}
SOURCES = ("user", "agent", "extraction", "consolidation", "import")
FILTERS = ("q", "kind", "trust", "source", "age", "pinned", "drifted")
DONE = {"forget": "Forgot", "confirm": "Confirmed", "pin": "Pinned", "unpin": "Unpinned", "move": "Moved"}

Selection = dict[OpenScope, list[tuple[str, Version]]]


def list_memories(page: PageRequest) -> Response:
    """Show the memories that the filters select, of one scope or of all but tasks and sessions."""
    query = page.query
    scopes = {sheaf.own: scope for scope, sheaf in page.select(query["scope"]).items()}
    sort = query["sort"] if query["sort"] in SORTS else "newest"
    offset = (page.number - 1) * ROWS_PER_PAGE
    with asked_at(time.monotonic() - LOOK_SECONDS):
        rows, total = list_page(list(scopes), _read_filter(page), sort=sort, limit=ROWS_PER_PAGE, offset=offset)
    return page.show(
        "memories.html",
        rows=[(scopes[scope], row) for scope, row in rows],
        total=total,
        at=page.number,
        last=-(-total // ROWS_PER_PAGE),
        sort=sort,
        has_filter=any(query[name] for name in FILTERS),
        ages=AGES,
        kinds=[(kind, kind) for kind in (*KINDS, "other")],
        trusts=TRUST_LEVELS.items(),
        sources=[(source, AUTHORS.get(source, source)) for source in SOURCES],
        sorts=SORTS.items(),
    )


def _read_filter(page: PageRequest) -> Filter:
    query = page.query
    days = int(query["age"]) if query["age"] in AGES else 0
    day = str(date.today() - timedelta(abs(days)))
    return Filter(
        text=query["q"].strip(),
        kind=query["kind"],
        trust=query["trust"],
        source=query["source"],
        since=day if days > 0 else "",
        until=day if days < 0 else "",
        pinned=bool(query["pinned"]),
        drifted=bool(query["drifted"]),
    )


def change_memories(page: PageRequest) -> Response:
    """Forget, confirm, pin, unpin or move the selected memories."""
    selection: Selection = {}
    for value in dict.fromkeys(page.ticked("m")):  # the key of the scope, the version that was shown, and the path
        key, _, rest = value.partition(" ")
        version, _, path = rest.partition(" ")
        selection.setdefault(page.open(key).own, []).append((path, version))
    if not selection:
        raise TextRefused("no memory is selected: select some first")
    notice, commit, key = apply_action(page, selection)
    return page.go(page.back("/memories"), notice, commit=commit, key=key)


def apply_action(page: PageRequest, selection: Selection) -> tuple[str, Commit | None, str]:
    """Do what the form says with these memories; return a notice, the commit if there is one, and its scope's key."""
    action = page.form["do"]
    if action not in DONE:
        raise NotFound(action)
    change = change_together(selection, action, page.open(page.form["to"]).own if action == "move" else None)
    if change is None:
        return "Nothing had to be changed.", None, page.key
    count = plural(sum(map(len, selection.values())), "memory", "memories")
    return f"{DONE[action]} {count}.", change[1], page.key_of(change[0])


def change_together(selection: Selection, action: str, target: OpenScope | None) -> tuple[OpenScope, Commit] | None:
    """Forget, confirm, pin, unpin or move memories of several scopes, all or none.

    Return the first commit with its scope: `undo_together` takes all of them back by it.
    """
    also = new_group() if len(selection) > 1 else ""
    first: tuple[OpenScope, Commit] | None = None
    try:
        for scope, wanted in selection.items():
            commit: Commit | None = None
            if action == "forget":
                commit = scope.forget(wanted, also=also)
            elif action == "confirm":
                commit = scope.confirm(wanted, also=also)
            elif action in ("pin", "unpin"):
                commit = scope.pin(wanted, action == "pin", also=also)
            elif target and scope is not target:
                commit = scope.move(wanted, target, also=also)[0]
                scope = target
            if commit and not first:
                first = scope, commit
    except MemsheafError:
        if first:
            undo_together(first[0], first[1].id, [*selection, first[0]])
        raise
    return first


def check_citations(page: PageRequest) -> Response:
    """Check all citations of one scope, or of all but tasks and sessions."""
    checked = outdated = 0
    for scope, sheaf in page.select(page.form["scope"]).items():
        if folder := page.scopes.tree(scope):
            with WorkingTree(folder, memories=scope.root) as tree:
                examined = verify(sheaf, tree, body=False)
            checked += sum(bool(evidence.citations) for _, evidence in examined)
            outdated += sum(has_drifted(evidence) for _, evidence in examined)
    notice = f"Checked {plural(checked, 'memory', 'memories')} with references; outdated: {outdated:,}."
    return page.go(page.back("/memories?drifted=1"), notice)
