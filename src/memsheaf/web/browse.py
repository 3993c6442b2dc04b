"""Browse: search as one types, filters, orders, pages, and changes of many memories at once."""

from __future__ import annotations

import os
import tempfile
import time
import zipfile
from datetime import date, timedelta
from io import BytesIO

from markupsafe import Markup
from starlette.responses import Response

from memsheaf.errors import NotFound, TextRefused
from memsheaf.reader import SORTS, Filter, asked_at
from memsheaf.sheaf import Sheaf
from memsheaf.store import Version
from memsheaf.web.page import PageRequest, get, post
from memsheaf.work.all_scopes import KnownScope
from memsheaf.work.browse import browse, verify_citations
from memsheaf.work.move import change_together
from memsheaf.work.scopes import SCRATCH
from memsheaf.worktree import WorkingTree

ROWS = 40
RECENT = 0.5  # seconds in which files are not looked at again
AGES = ("7", "30", "-90", "-365")  # days: changed in the last so many; with a minus, not changed for so many
SOURCES = ("user", "agent", "extraction", "consolidation", "import")
TRUSTS = ("confirmed", "unconfirmed", "shared")
SHOWN_SORTS = ("newest", "oldest", "name", "type")

Chosen = dict[Sheaf, list[tuple[str, Version]]]


@get("/browse")
def list_memories(page: PageRequest) -> Response:
    """The memories that are wanted, of one scope or of all but tasks and sessions."""
    asked = page.query
    known = _scopes_meant(page, asked["scope"])
    sheaves = {page.scopes.sheaf(one.key): one.key for one in known}
    sort = asked["sort"] if asked["sort"] in SORTS else "newest"
    at = page.number("page")
    with asked_at(time.monotonic() - RECENT):
        rows, total = browse(list(sheaves), _wanted(page), sort=sort, limit=ROWS, offset=(at - 1) * ROWS)
    titles = {one.key: one.title for one in known}
    pieces = [page.site.piece("browse_row.html", sheaves[of], titles[sheaves[of]], row) for of, row in rows]
    narrowed = any(asked[name] for name in ("q", "kind", "trust", "source", "age", "pinned", "drifted"))
    return page.show(
        "browse.html",
        rows=Markup("".join(pieces)),
        total=total,
        at=at,
        last=max(1, -(-total // ROWS)),
        sort=sort,
        narrowed=narrowed,
        ages=AGES,
        trusts=TRUSTS,
        sources=SOURCES if asked["source"] in ("", *SOURCES) else (*SOURCES, asked["source"]),
        sorts=SHOWN_SORTS,
    )


def _wanted(page: PageRequest) -> Filter:
    asked = page.query
    days = int(asked["age"]) if asked["age"] in AGES else 0
    day = str(date.today() - timedelta(abs(days))) if days else ""
    return Filter(
        text=asked["q"].strip(),
        kind=asked["kind"],
        trust=asked["trust"],
        source=asked["source"],
        since=day if days > 0 else "",
        until=day if days < 0 else "",
        pinned=bool(asked["pinned"]),
        drifted=bool(asked["drifted"]),
    )


@post("/browse")
def change_memories(page: PageRequest) -> Response:
    """Forget, confirm, pin, unpin, move or export what was ticked."""
    do, chosen = page.form["do"], _chosen(page)
    count = sum(map(len, chosen.values()))
    if not count:
        raise TextRefused(page.t.browse.none_chosen)
    if do == "export":
        return _export(page, chosen)
    if do not in ("forget", "confirm", "pin", "unpin", "move"):
        raise NotFound(do)
    target = page.scopes.sheaf(page.form["to"]) if do == "move" else None
    done = change_together(chosen, do, target)
    said = page.fill(page.t.browse_done[do] if done else page.t.browse.unchanged, count)
    key = page.key_of(done[0]) if done else ""
    return page.go(page.back("/browse"), said, commit=done[1] if done else None, key=key)


@post("/browse/verify")
def check_citations(page: PageRequest) -> Response:
    """Check all citations of one scope, or of all but tasks and sessions."""
    cited = drifted = 0
    for known in _scopes_meant(page, page.form["scope"]):
        if folder := page.scopes.tree(known.key):
            with WorkingTree.open(folder, memories=known.root) as tree:
                found = verify_citations(page.scopes.sheaf(known.key), tree)
            cited, drifted = cited + found[0], drifted + found[1]
    said = page.fill(page.t.browse.checked, cited, drifted=drifted)
    return page.go(page.back("/browse?drifted=1"), said)


def _scopes_meant(page: PageRequest, key: str) -> list[KnownScope]:
    return [page.scope(key)] if key else [one for one in page.site.known() if one.layer not in SCRATCH]


def _chosen(page: PageRequest) -> Chosen:
    """What was ticked: the key of the scope, the version that was shown, and the path."""
    chosen: Chosen = {}
    for value in dict.fromkeys(page.ticked("m")):
        key, _, rest = value.partition(" ")
        version, _, path = rest.partition(" ")
        chosen.setdefault(page.scopes.sheaf(key), []).append((path, version))
    return chosen


def _export(page: PageRequest, chosen: Chosen) -> Response:
    """A zip of the files; those of several scopes are in a folder for each."""
    packed = BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for sheaf, wanted in chosen.items():
            key = page.key_of(sheaf)
            target = os.path.join(folder, key)
            sheaf.export(target, only=[path for path, _ in wanted])
            for place, _, names in os.walk(target):
                for name in sorted(names):
                    file = os.path.join(place, name)
                    made.write(file, os.path.relpath(file, target if len(chosen) == 1 else folder))
    headers = {"content-disposition": 'attachment; filename="memories.zip"'}
    return Response(packed.getvalue(), headers=headers, media_type="application/zip")
