"""One memory: its text and header, its origin, what it cites, its history, and the actions on it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

from starlette.responses import Response

from memsheaf.errors import MemsheafError, NotFound
from memsheaf.guard.citations import Verdict, parse
from memsheaf.guard.paths import is_fact
from memsheaf.memory import Memory
from memsheaf.open_scope import diff
from memsheaf.sheaf import Sheaf
from memsheaf.store import Commit, Revision
from memsheaf.text.sentences import shown_description
from memsheaf.transfer import erase
from memsheaf.web.markdown import memory_link, render_markdown
from memsheaf.web.memories import apply_action
from memsheaf.web.page import PageRequest
from memsheaf.work.checks import verify
from memsheaf.worktree import WorkingTree

MAX_RECALLS = 5
STEPS_PER_PAGE = 20
MAX_CITED_LINES = 40
MAX_COMPARED_LINES = 3_000  # more take long to compare, hostile ones minutes
FIELDS_SHOWN_APART = {
    *("name", "description", "type", "conversation", "citations", "supersedes", "pinned", "trust"),
}
FIELD_TITLES = {
    "created": "Created",
    "updated": "Updated",
    "expires": "Valid until",
    "source": "Source",
    "changed_by": "Last changed by",
    "reason": "Reason",
}


class CitedPlace(NamedTuple):
    """A citation, its verdict, and the present lines of the place; `first` is the number of the first line."""

    text: str
    verdict: Verdict
    first: int = 0
    lines: Sequence[str] = ()


class HistoryStep(NamedTuple):
    """One commit of a memory, and the lines of its diff; no lines where a text is no longer known."""

    commit: Commit
    step: Revision
    lines: list[str]


def show_history(page: PageRequest) -> Response:
    """Show the steps of a memory, newest first, each with its diff."""
    start = (page.number - 1) * STEPS_PER_PAGE
    commits = list(islice(page.sheaf.log(page.path), start, start + STEPS_PER_PAGE + 1))
    if not commits and page.number == 1:
        raise NotFound(page.path)
    memory = page.sheaf.own.find(page.path)
    steps = [(commit, commit.revisions[0]) for commit in commits[:STEPS_PER_PAGE]]
    return page.show(
        "history.html",
        memory=memory,
        title=memory.name if memory else page.path,
        steps=[HistoryStep(commit, step, _diff_step(step)) for commit, step in steps],
        at=page.number,
        more=len(commits) > STEPS_PER_PAGE,
    )


def _diff_step(step: Revision) -> list[str]:
    texts = []
    for version, data in ((step.before, step.old), (step.after, step.new)):
        if version and data is None:
            return []
        lines = (data or b"").decode("utf-8", "replace").split("\n")
        if len(lines) > MAX_COMPARED_LINES:
            lines[MAX_COMPARED_LINES:] = ["…"]
        texts.append("\n".join(lines))
    lines = diff(step.path, *texts).removesuffix("\n").split("\n")
    return [line for line in lines if not line.startswith(("--- ", "+++ "))]


def ask_erase(page: PageRequest, problem: str = "") -> Response:
    """Ask before a memory is erased for good."""
    page.require_writable()
    memory = page.sheaf.own.find(page.path)
    if memory is None and not page.sheaf.own.has_history(page.path):
        raise NotFound(page.path)
    name = memory.name if memory else page.path
    return page.show("erase.html", 422 if problem else 200, name=name, problem=problem)


def erase_memory(page: PageRequest) -> Response:
    """Erase a memory and all its versions, if its whole name was typed, and show the proof."""
    memory = page.sheaf.own.find(page.path)
    name = memory.name if memory else page.path
    if page.form["name"].split() != name.split():
        return ask_erase(page, "That is not the whole name. Nothing was erased.")
    proof = erase(page.sheaf.own, page.path, others=page.scopes.every())
    page.site.forget_all()
    return page.show("erased.html", proof=proof)


def show_memory(page: PageRequest) -> Response:
    """Show one memory."""
    sheaf = page.sheaf
    memory = sheaf.own.find(page.path)
    if memory is None:
        return _show_missing(page)
    fields = [(field.key, field.value) for field in memory.page.fields if field.key not in FIELDS_SHOWN_APART]
    return page.show(
        "memory.html",
        memory=memory,
        description=shown_description(memory),
        body=render_markdown(memory.body, lambda path: memory_link(page.key, path)),
        fields=[(key, value if isinstance(value, str) else ", ".join(map(str, value))) for key, value in fields],
        titles=FIELD_TITLES,
        warnings=[*memory.warnings, *sheaf.own.caveats(memory)],
        citations=_list_citations(page, memory) if memory.citations else [],
        older=[(path, _find(sheaf, path)) for path in memory.supersedes],
        recalls=sheaf.own.recalled(memory.path)[:MAX_RECALLS],
        scope=page.scope(page.key),
        is_fact=is_fact(memory.path),
    )


def _find(sheaf: Sheaf, path: str) -> Memory | None:
    """Return a memory that another names; None if there is none, or no memory can have that name."""
    with suppress(MemsheafError):
        return sheaf.own.find(path)
    return None


def _show_missing(page: PageRequest) -> Response:
    """Redirect to the present name of a renamed memory, or show the history of a removed one."""
    last = next(iter(page.sheaf.log(page.path, limit=1)), None)
    if last is None:
        raise NotFound(page.path)
    steps = page.sheaf.own.last_change(last.id).revisions
    added = [step.path for step in steps if not step.before]
    removed = [step.path for step in steps if not step.after]
    if removed == [page.path] and len(added) == 1 and page.sheaf.own.find(added[0]):
        notice = page.query["said"]
        return page.go(memory_link(page.key, added[0]) + (f"?said={notice}" if notice.isalnum() else ""))
    return show_history(page)


def _list_citations(page: PageRequest, memory: Memory) -> list[CitedPlace]:
    folder = page.scopes.tree(page.scope(page.key))
    if folder:
        with suppress(MemsheafError), WorkingTree(folder, memories=page.sheaf.root) as tree:
            [(_, evidence)] = verify(page.sheaf, tree, [memory.path], body=False)
            return [CitedPlace(text, verdict, *_read_lines(tree, text)) for text, verdict in evidence.citations]
    unknown = Verdict("unchecked", "The working tree of this scope is not known here.")
    return [CitedPlace(text, unknown) for text in memory.citations]


def _read_lines(tree: WorkingTree, text: str) -> tuple[int, list[str]]:
    """Return the number of the first line that a citation names, and the present lines."""
    place = parse(text)
    lines = tree.lines(place.path) if place and place.first else None
    if not place or not lines:
        return 0, []
    start = place.first - 1
    cited = lines[start : start + min(place.size, MAX_CITED_LINES)]
    return place.first, [line.decode("utf-8", "replace") for line in cited]


def change_memory(page: PageRequest) -> Response:
    """Forget, confirm, pin, unpin or move one memory."""
    notice, commit, key = apply_action(page, {page.sheaf.own: [(page.path, page.form["version"])]})
    url = memory_link(page.key, page.path)
    if page.form["do"] == "forget":
        url = "/memories"
    elif page.form["do"] == "move" and commit:
        url = memory_link(page.form["to"], commit.revisions[0].path)
    return page.go(url, notice, commit=commit, key=key)


def restore_memory(page: PageRequest) -> Response:
    """Bring back an older text of a memory, unless another tab did that first."""
    commit = page.sheaf.own.restore(page.path, page.form["version"])
    if not commit.revisions:
        return page.go(memory_link(page.key, page.path), "Nothing was changed.")
    return page.go(memory_link(page.key, commit.revisions[0].path), "Older text restored.", commit=commit)
