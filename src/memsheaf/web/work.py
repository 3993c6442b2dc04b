"""Work: tasks, sessions, notes and facts of a project, and the audit of a scope."""

from __future__ import annotations

import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.responses import Response

from memsheaf.errors import MemsheafError, NotFound, Refused
from memsheaf.index.database import Row
from memsheaf.memory import Memory
from memsheaf.recall.inject import NOTES
from memsheaf.sheaf import Sheaf
from memsheaf.web.markdown import memory_link, render_markdown
from memsheaf.web.page import PageRequest, get, post
from memsheaf.work import audit as auditing
from memsheaf.work import sessions, tasks
from memsheaf.work.layers import Layers
from memsheaf.work.notes_text import problems
from memsheaf.work.scopes import SCRATCH
from memsheaf.work.task_files import TaskState, VerifiedItem
from memsheaf.worktree import WorkingTree

ENDED = 10  # sessions that are over, of which so many are shown
FACTS = 50
AT_ONCE = 1_000  # memories that are audited while one waits
SECTIONS = ("duplicates", "citations", "pollution", "waiting")


class TaskCard(NamedTuple):
    """A task in the list."""

    slug: str
    state: TaskState | None
    verified: list[VerifiedItem]
    regressed: list[VerifiedItem]
    problem: str


@get("/work")
@get("/work/{key}")
def work(page: PageRequest) -> Response:
    """The work of the present project, or of another."""
    key = page.key or "project"
    if page.scope(key).layer != "project":
        raise NotFound(key)
    layers = page.scopes.layers(key)
    text = ""
    with suppress(MemsheafError):
        notes = layers.project.reader.find(NOTES)
        text = notes.body if notes and notes.state in ("ok", "free") else ""
    shown = re.sub(r"(?m)^##(?=#* )", "#", re.sub(r"\A\s*# .*\n", "", text))  # the page has a title of its own
    found = [_card(layers, one) for one in tasks.every_task(layers)]
    rows = layers.project.reader.under("facts", any_case=True)
    return page.show(
        "work.html",
        key=key,
        tasks=sorted(found, key=lambda one: (one.state is not None and one.state.status != "active", one.slug)),
        sessions=_list_sessions(layers),
        notes=notes,
        notes_html=render_markdown(shown, lambda path: memory_link(key, path)),
        problems=problems(text, layers.today) if text else [],
        facts=list(_read(layers.project, rows[:FACTS])),
        more_facts=max(0, len(rows) - FACTS),
    )


def _read(sheaf: Sheaf, rows: Sequence[Row]) -> Iterator[Memory]:
    for row in rows:
        with suppress(MemsheafError):  # somebody was faster
            yield sheaf.read(row.path)


def _card(layers: Layers, one: tasks.ListedTask) -> TaskCard:
    items: list[VerifiedItem] = []
    problem = one.problem
    if one.state:
        try:
            items = tasks.of(layers, one.slug).items()
        except MemsheafError as error:
            problem = str(error)
    held, lost = ([item for item in items if (item.status == "REGRESSED") is bad] for bad in (False, True))
    return TaskCard(one.slug, one.state, held, lost, problem)


def _list_sessions(layers: Layers) -> list[sessions.SessionState]:
    """The open sessions, and the last ones that ended."""
    found = []
    for id in (*sessions.open_sessions(layers), *sessions.ended_sessions(layers)[-ENDED:][::-1]):
        with suppress(MemsheafError):
            found.append(sessions.of(layers, id).state())
    return found


@get("/work/{key}/task/{name}")
def task(page: PageRequest) -> Response:
    """One task: goal, phases, verified items, notes and log."""
    one = tasks.of(page.layers, page.request.path_params["name"])
    return page.show(
        "task.html",
        key=page.key,
        inner=_inner(page.key, "task", one.slug),
        task=one,
        goal=render_markdown(one.goal),
        items=one.items(),
        reports={report.phase: report for report in one.reports()},
    )


class AuditRun:
    """The audit of a scope. One of many memories takes long: it runs in a thread, and what it found is kept."""

    def __init__(self, page: PageRequest) -> None:
        self.report: auditing.Audit | None = None
        self.has_tree = False
        self.problem = ""
        self.done, self.total = 0, page.sheaf.reader.count()
        self.at = time.time()
        self._thread = threading.Thread(target=self._run, args=(page,), name="memsheaf-audit", daemon=True)
        self._thread.start()
        if self.total <= AT_ONCE:
            self._thread.join()

    def _run(self, page: PageRequest) -> None:
        try:
            with _tree(page) as tree:
                self.has_tree = tree is not None
                layers = page.layers if page.scope(page.key).layer == "project" else None
                sheaf = page.sheaf
                self.report = auditing.audit(
                    sheaf, today=sheaf.today, layers=layers, tree=tree, progress=self._progress
                )
        except MemsheafError as error:
            self.problem = str(error)
        except Exception:  # noqa: BLE001 - or the page would wait forever
            traceback.print_exc(file=sys.stderr)
            self.problem = page.t.error.ours_text

    def _progress(self, done: int, total: int) -> None:
        self.done, self.total = done, total

    def settle(self, found: auditing.AuditFix) -> None:
        """Take the finding out that was settled."""
        if self.report:
            left: dict[str, Any] = {
                name: tuple(one for one in getattr(self.report, name) if one.fix != found) for name in SECTIONS
            }
            self.report = self.report._replace(**left)


class AuditRuns(dict[str, AuditRun]):
    """The last audit of each scope, by its key."""


@get("/work/{key}/audit")
def audit(page: PageRequest) -> Response:
    """What a person should look at in a scope; that of a large scope is kept until it is asked for anew."""
    page.scope(page.key)
    runs = page.site.shared(AuditRuns, AuditRuns)
    run = runs.get(page.key)
    if run is None or run.problem or (run.report and (run.total <= AT_ONCE or page.query["again"])):
        run = runs[page.key] = AuditRun(page)
        if page.query["again"]:
            return page.go(page.link(again=None))
    if run.problem:
        raise Refused(run.problem)
    sections = {name: getattr(run.report, name) for name in SECTIONS} if run.report else {}
    is_kept = run.total > AT_ONCE
    answer = page.show("audit.html", key=page.key, run=run, sections=sections, is_kept=is_kept)
    if not run.report:
        answer.headers["refresh"] = "2"
    return answer


@post("/work/{key}/audit")
def fix_finding(page: PageRequest) -> Response:
    """Do what a finding proposes."""
    with _tree(page) as tree:
        found = auditing.AuditFix.decode(page.form["fix"])
        where, id = auditing.fix(found, page.sheaf, layers=page.layers, tree=tree)
    if run := page.site.shared(AuditRuns, AuditRuns).get(page.key):
        run.settle(found)
    keys = {known.root: known.key for known in page.scopes.list()}
    commit = where.reader.last_change(id) if id else None
    done = page.t.audit_done.get(found.do, found.do)
    return page.go(f"/work/{quote(page.key)}/audit", done, commit=commit, key=keys.get(where.root, page.key))


@contextmanager
def _tree(page: PageRequest) -> Iterator[WorkingTree | None]:
    """The working tree that the memories of a project cite; None where there is none."""
    known = page.scope(page.key)
    folder = page.scopes.tree(page.key) if known.layer in ("project", *SCRATCH) else ""
    with WorkingTree.open(folder, memories=known.root) if folder else nullcontext() as tree:
        yield tree


def _inner(key: str, layer: str, name: str) -> str:
    """The key of a task or a session of a project."""
    return f"{layer}~{name}" if key == "project" else f"{key}~{layer}~{name}"
