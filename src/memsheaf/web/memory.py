"""One memory: its text and header, where it came from, what it cites, its history, and what can be done with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from starlette.responses import Response

from memsheaf.errors import MemsheafError, NotFound
from memsheaf.guard.citations import Verdict, parse
from memsheaf.guard.paths import is_fact
from memsheaf.history import diff
from memsheaf.memory import Memory
from memsheaf.sheaf import Sheaf
from memsheaf.store import Commit, Revision
from memsheaf.text.topics import shown_description
from memsheaf.web.markdown import memory_link, render_markdown
from memsheaf.web.page import PageRequest, get, post
from memsheaf.web.text_changes import DiffLine, diff_lines
from memsheaf.work.browse import check_places
from memsheaf.work.move import change_together, erase_everywhere
from memsheaf.worktree import WorkingTree

RECALLS = 5
STEPS = 20
LINES = 40  # of a cited place
COMPARED = 3_000  # lines of a text, in its history
_SHOWN_APART = {"name", "description", "type", "conversation", "citations", "supersedes", "pinned", "trust"}


class CitedPlace(NamedTuple):
    """A citation, what became of it, and the lines that are there now; `first` is the number of the first line."""

    text: str
    verdict: Verdict
    first: int
    lines: Sequence[str]


class HistoryStep(NamedTuple):
    """One commit of a memory: what it changed, and whether the text before and after it is kept."""

    commit: Commit
    step: Revision
    lines: list[DiffLine]


@get("/memory/{key}/{path:path}/history")
def show_history(page: PageRequest) -> Response:
    """The steps of a memory, newest first, each with what it changed."""
    sheaf, at = page.sheaf, page.number("page")
    found = list(islice(sheaf.log(page.path), (at - 1) * STEPS, at * STEPS + 1))
    if not found and at == 1:
        raise NotFound(page.path)
    memory = sheaf.reader.find(page.path)
    steps = [
        HistoryStep(commit, commit.revisions[0], _changed_lines(commit.revisions[0])) for commit in found[:STEPS]
    ]
    return page.show(
        "history.html",
        memory=memory,
        title=memory.name if memory else page.path,
        steps=steps,
        at=at,
        more=len(found) > STEPS,
    )


def _changed_lines(step: Revision) -> list[DiffLine]:
    texts = ((text or b"").decode("utf-8", "replace").split("\n") for text in (step.old, step.new))
    # thousands of lines take long to compare, hostile ones minutes
    old, new = ("\n".join(lines[:COMPARED] + ["…"] * (len(lines) > COMPARED)) for lines in texts)
    is_known = all(
        not version or text is not None for version, text in ((step.before, step.old), (step.after, step.new))
    )
    return diff_lines(diff(step.path, old, new)) if is_known else []


@get("/memory/{key}/{path:path}/erase")
def ask_erase(page: PageRequest, problem: str = "") -> Response:
    """Ask before a memory is erased for good."""
    page.require_writable()
    memory = page.sheaf.reader.find(page.path)
    if memory is None and not page.sheaf.reader.has_history(page.path):
        raise NotFound(page.path)
    name = memory.name if memory else page.path
    return page.show("erase.html", 422 if problem else 200, name=name, problem=problem)


@post("/memory/{key}/{path:path}/erase")
def erase_memory(page: PageRequest) -> Response:
    """Erase a memory and all its versions, when its whole name was typed, and show the proof."""
    sheaf = page.sheaf
    memory = sheaf.reader.find(page.path)
    name = memory.name if memory else page.path
    if " ".join(page.form["name"].split()) != " ".join(name.split()):
        return ask_erase(page, page.t.erase.wrong)
    proof = erase_everywhere(sheaf, page.path, page.scopes.every())
    page.site.forget_all()
    return page.show("erased.html", proof=proof)


@get("/memory/{key}/{path:path}")
def show_memory(page: PageRequest) -> Response:
    """One memory."""
    sheaf = page.sheaf
    memory = sheaf.reader.find(page.path)
    if memory is None:
        return _show_missing(page)
    return page.show(
        "memory.html",
        memory=memory,
        description=shown_description(memory),
        body=render_markdown(memory.body, lambda path: memory_link(page.key, path)),
        fields=_list_fields(memory),
        warnings=[*memory.warnings, *sheaf.caveats(memory)],
        citations=_list_citations(page, memory) if memory.citations else [],
        older=[(path, _find(sheaf, path)) for path in memory.supersedes],
        newer=sheaf.newer(memory.path),
        recalls=sheaf.recalled(memory.path)[:RECALLS],
        scope=page.scope(page.key),
        is_fact=is_fact(memory.path),
    )


def _find(sheaf: Sheaf, path: str) -> Memory | None:
    """A memory that another names, None when there is none, or the name is not one that a memory can have."""
    with suppress(MemsheafError):
        return sheaf.reader.find(path)
    return None


def _show_missing(page: PageRequest) -> Response:
    """Lead on to the name that a memory has now, or show the history of one that was removed."""
    last = next(iter(page.sheaf.log(page.path, limit=1)), None)
    if last is None:
        raise NotFound(page.path)
    steps = page.sheaf.reader.last_change(last.id).revisions
    came, went = ([step.path for step in steps if not getattr(step, side)] for side in ("before", "after"))
    if went == [page.path] and len(came) == 1 and page.sheaf.reader.find(came[0]):
        said = page.query["said"]
        return page.go(memory_link(page.key, came[0]) + (f"?said={said}" if said.isalnum() else ""))
    return show_history(page)


def _list_fields(memory: Memory) -> list[tuple[str, str]]:
    """The header fields that the page does not show elsewhere."""
    fields = [(field.key, field.value) for field in memory.page.fields if field.key not in _SHOWN_APART]
    return [(key, value if isinstance(value, str) else ", ".join(map(str, value))) for key, value in fields]


def _list_citations(page: PageRequest, memory: Memory) -> list[CitedPlace]:
    folder = page.scopes.tree(page.key)
    if folder:
        with suppress(MemsheafError), WorkingTree.open(folder, memories=page.sheaf.root) as tree:
            found = check_places(page.sheaf, memory, tree)
            return [CitedPlace(text, verdict, *_read_lines(tree, text)) for text, verdict in found]
    unknown = Verdict("unchecked", page.t.memory.no_tree)
    return [CitedPlace(text, unknown, 0, []) for text in memory.citations]


def _read_lines(tree: WorkingTree, text: str) -> tuple[int, list[str]]:
    """The lines that a citation names by number, as they are now, and the number of the first."""
    place = parse(text)
    lines = tree.lines(place.path) if place and place.first else None
    if not place or not lines:
        return 0, []
    cited = lines[place.first - 1 : place.first - 1 + min(place.size, LINES)]
    return place.first, [line.decode("utf-8", "replace") for line in cited]


@post("/memory/{key}/{path:path}/change")
def change_memory(page: PageRequest) -> Response:
    """Forget, confirm, pin, unpin or move one memory."""
    do, sheaf = page.form["do"], page.sheaf
    if do not in ("forget", "confirm", "pin", "unpin", "move"):
        raise NotFound(do)
    target = page.scopes.sheaf(page.form["to"]) if do == "move" else None
    done = change_together({sheaf: [(page.path, page.form["version"])]}, do, target)
    said = page.fill(page.t.browse_done[do] if done else page.t.browse.unchanged, 1)
    where = memory_link(page.key, page.path)
    if do == "forget":
        where = "/browse"
    elif do == "move" and done:
        where = memory_link(page.form["to"], done[1].revisions[0].path)
    key = page.key_of(done[0]) if done else page.key
    return page.go(where, said, commit=done[1] if done else None, key=key)


@post("/memory/{key}/{path:path}/restore")
def restore_memory(page: PageRequest) -> Response:
    """Bring back an older text of a memory, which may be there already: another tab was faster."""
    commit = page.sheaf.restore(page.path, page.form["version"])
    if not commit.revisions:
        return page.go(memory_link(page.key, page.path), page.t.edit.unchanged)
    return page.go(memory_link(page.key, commit.revisions[0].path), page.t.memory.restored, commit=commit)
