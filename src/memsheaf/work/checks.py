"""Checks of a scope: lists of functions, each of which yields findings. No memory is changed by them.

`audit` tells what a person should look through: duplicates, stale citations, pollution and what waits. `examine` is
the health of a scope for `memsheaf doctor`. Both read every memory once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from shlex import join, quote
from typing import NamedTuple

from memsheaf.errors import MemsheafError, NotFound
from memsheaf.guard import citations
from memsheaf.guard.citations import Tree
from memsheaf.guard.evidence import Evidence
from memsheaf.guard.evidence import examine as examine_evidence
from memsheaf.guard.paths import CATALOG, is_fact
from memsheaf.guard.secrets import find_secrets, without_secrets
from memsheaf.index.database import Row, abandoned, remove
from memsheaf.learn.consolidate import group_duplicates
from memsheaf.memory import Memory, plural
from memsheaf.recall.inject import CONTEXT, NOTES, days_between
from memsheaf.sheaf import Sheaf, list_notices
from memsheaf.state import check as check_state
from memsheaf.store import HISTORY
from memsheaf.store.sqlite_file import DAMAGED_MARK
from memsheaf.text.dates import parse_day
from memsheaf.text.neutralize import one_line
from memsheaf.work.notes import ARCHIVE_FILE, problems
from memsheaf.worktree import list_tracked_private

DRIFTED_STATES = ("drifted", "missing")  # states of a citation that does not hold any more
MAX_PROBLEM_CHARS = 300
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "fuse.sshfs", "ncpfs", "ceph", "glusterfs"}
)

ERROR, WARNING, INFO = LEVELS = ("error", "warning", "info")
AUDIT_SECTIONS = {
    "duplicates": ("duplicate",),
    "citations": ("stale-citation",),
    "pollution": ("tracked", "unreadable", "notes", "catalog"),
    "waiting": ("unconfirmed", "expired"),
}
"""The sections of an audit, each with its kinds of findings."""


class Finding(NamedTuple):
    """One thing to know. `level` is `error` (something does not work), `warning` or `info`.

    `others` are further files that it is about.
    """

    level: str
    path: str
    problem: str
    advice: str = ""
    kind: str = ""
    others: tuple[str, ...] = ()


class Audit(NamedTuple):
    """The findings in the files of a scope, worst first, and how many files were looked at."""

    scope: str
    files: int
    findings: tuple[Finding, ...]

    def section(self, name: str) -> list[Finding]:
        """Return the findings of a section."""
        return [finding for finding in self.findings if finding.kind in AUDIT_SECTIONS[name]]


@dataclass(slots=True)
class Context:
    """A scope under examination. `tree` is the working tree that memories cite."""

    sheaf: Sheaf
    today: date
    tree: Tree | None = None
    compared: list[Memory] = field(default_factory=list)

    def command(self, *words: str) -> str:
        """Return what to type, as it stands."""
        scope = [] if self.sheaf.scope.layer == "project" else ["--scope", str(self.sheaf.scope)]
        return f"`{join(['memsheaf', *words, *scope])}`"


MemoryCheck = Callable[[Memory, Context], Iterable[Finding]]
ScopeCheck = Callable[[Context], Iterable[Finding]]


def audit(
    sheaf: Sheaf,
    *,
    today: str,
    tree: Tree | None = None,
) -> Audit:
    """Look at every memory of a scope; with a `tree`, also at the places that memories cite."""
    rows = sheaf.list()
    context = Context(sheaf, date.fromisoformat(today), tree)
    findings = run_checks(rows, AUDIT_OF_MEMORY, AUDIT_OF_SCOPE, context)
    return Audit(str(sheaf.scope), len(rows), tuple(findings))


def examine(sheaf: Sheaf) -> list[Finding]:
    """Look at the health of the files, the history and the place they are kept in; worst first."""
    context = Context(sheaf, date.fromisoformat(sheaf.today))
    return run_checks(sheaf.list(), HEALTH_OF_MEMORY, HEALTH_OF_SCOPE, context)


def run_checks(
    rows: Sequence[Row],
    memory_checks: Sequence[MemoryCheck],
    scope_checks: Sequence[ScopeCheck],
    context: Context,
) -> list[Finding]:
    """Return the findings of these checks, worst first, without secrets."""
    findings: list[Finding] = []
    for row in rows:
        try:
            findings += list(_check_row(row, memory_checks, context))
        except NotFound:  # somebody was faster
            continue
        except MemsheafError as error:
            findings.append(_report_unreadable(row, str(error), context))
    for check in scope_checks:
        findings += check(context)
    kinds = [kind for section in AUDIT_SECTIONS.values() for kind in section] + [""]
    findings.sort(key=lambda each: (LEVELS.index(each.level), kinds.index(each.kind), each.path))
    return [each._replace(problem=one_line(without_secrets(each.problem), MAX_PROBLEM_CHARS)) for each in findings]


def _check_row(row: Row, checks: Sequence[MemoryCheck], context: Context) -> Iterator[Finding]:
    if row.state not in ("ok", "free"):
        yield _report_unreadable(row, row.problem, context)
    if row.state != "held":
        memory = context.sheaf.read(row.path)
        for check in checks:
            yield from check(memory, context)


def _report_unreadable(row: Row, problem: str, context: Context) -> Finding:
    if row.state == "copy":
        advice = "compare it with the memory of the same name, keep what is right, and remove the copy"
        return Finding(WARNING, row.path, problem, advice, "unreadable")
    advice = f"{context.command('edit', row.path)}, or look at the file; until then it stays as it is"
    return Finding(ERROR, row.path, problem, advice, "unreadable")


# Checks of one memory


def check_unconfirmed(memory: Memory, context: Context) -> Iterator[Finding]:
    """Yield a finding for a memory that no person has confirmed."""
    if memory.trust == "unconfirmed":
        days = days_between(memory.updated or memory.created, str(context.today)) or 0
        problem = f"unconfirmed for {plural(days, 'day')}, so it stays out of the catalog"
        advice = f"{context.command('review', '--approve', memory.path)} if it is right; --reject if not"
        yield Finding(INFO, memory.path, problem, advice, "unconfirmed")


def check_expiry(memory: Memory, context: Context) -> Iterator[Finding]:
    """Yield a finding for a memory whose last day has passed."""
    last_day = parse_day(memory.expires)
    if last_day and last_day < context.today:
        advice = f"{context.command('forget', memory.path)}, or say until when it holds"
        yield Finding(WARNING, memory.path, f"expired on {last_day.isoformat()}", advice, "expired")


def check_citations(memory: Memory, context: Context) -> Iterator[Finding]:
    """Yield a finding for each place that a memory cites and that is gone or has changed."""
    if context.tree is None:
        return
    for citation in filter(None, map(citations.parse, memory.citations)):
        verdict = citations.check(citation, context.tree)
        if verdict.state in DRIFTED_STATES:
            advice = f"{context.command('edit', memory.path)}, if it is outdated"
            if is_fact(memory.path) and context.sheaf.scope.layer == "project":
                advice = f"`memsheaf remember FACT --reason TEXT --replaces {quote(memory.path)}`"
            problem = f"{verdict.said} Stale citation: candidate for a superseding fact"
            yield Finding(WARNING, memory.path, problem, advice, "stale-citation")


def check_secrets(memory: Memory, context: Context) -> Iterator[Finding]:
    """Yield a finding for each secret in a memory."""
    for secret in find_secrets(memory.text):
        problem = f"line {memory.text.count(chr(10), 0, secret.start) + 1} holds {secret.kind}"
        erase = context.command("erase", memory.path)
        advice = f"change it where it is in use; save the rest under another name, then {erase}"
        yield Finding(WARNING, memory.path, problem, advice)


def check_warnings(memory: Memory, context: Context) -> Iterator[Finding]:
    """Yield what is odd about the header of a memory that can be used."""
    for warning in memory.warnings if memory.state in ("ok", "free") else ():
        yield Finding(WARNING, memory.path, warning, context.command("edit", memory.path))


def collect(memory: Memory, context: Context) -> Iterator[Finding]:
    """Note a memory for `check_duplicates`; notes are none, though they may say what one says."""
    if memory.path not in (NOTES, CONTEXT) and not memory.path.startswith(ARCHIVE_FILE.removesuffix(".md")):
        context.compared.append(memory)
    return iter(())


# Checks of a scope


def check_duplicates(context: Context) -> Iterator[Finding]:
    """Yield the groups of memories that say the same."""
    for keeper, *others in group_duplicates(context.compared):
        problem = f"{len(others) + 1} entries have nearly the same words"
        advice = f"keep {keeper.path}, the most specific and recent; the others are candidates for natural decay"
        paths = tuple(sorted(memory.path for memory in others))
        yield Finding(WARNING, keeper.path, problem, advice, "duplicate", paths)


def check_tracked(context: Context) -> Iterator[Finding]:
    """Yield the private files that git tracks."""
    problem = "git tracks it: whoever gets the repository can read what was forgotten or said in private"
    for path in list_tracked_private(context.sheaf.own.store.checkout, context.sheaf.root):
        advice = f"git rm --cached {quote(path)}; if it was pushed, `git filter-repo` takes it out of the history"
        yield Finding(ERROR, path, problem, advice, "tracked")


def check_notes(context: Context) -> Iterator[Finding]:
    """Yield what breaks the rules of NOTES.md."""
    with suppress(MemsheafError):  # there are no notes, or they are told of as unreadable
        notes = context.sheaf.read(NOTES)
        for problem in problems(notes.text, context.today.isoformat()) if notes.state in ("ok", "free") else ():
            where = f"line {problem.line}: " if problem.line else ""
            yield Finding(WARNING, NOTES, f"{where}{problem.what}", problem.advice, "notes")


def check_catalog(context: Context) -> Iterator[Finding]:
    """Yield a finding if the catalog does not show all memories."""
    page = context.sheaf.catalog()
    if page.shown < page.total:
        problem = f"over its cap: {page.total - page.shown:,} of {page.total:,} memories are not in it"
        advice = f"{context.command('consolidate')} merges; pin what must be seen"
        yield Finding(WARNING, CATALOG, problem, advice, "catalog")


def check_place(context: Context) -> Iterator[Finding]:
    """Yield what is wrong with the folder and the file system that it is on."""
    sheaf, root = context.sheaf, context.sheaf.root
    if not os.path.isdir(root):
        if not list_notices(sheaf):
            problem = "nothing has been remembered here yet"
            yield Finding(INFO, root, problem, "`memsheaf remember TEXT` saves the first")
        return
    if (kind := file_system(root)) in NETWORK_FILE_SYSTEMS:
        problem = f"it is on a network file system ({kind}), where locks do not hold"
        yield Finding(ERROR, root, problem, "keep it on a local disk")
    if not os.access(root, os.W_OK):
        yield Finding(ERROR, root, "this user may not write here", "check the owner and mode of the folder")
    if os.name == "posix" and os.stat(root).st_mode & 0o002:
        yield Finding(WARNING, root, "everybody may write here", f"chmod o-w {quote(root)}")


def file_system(path: str, mounts: str = "/proc/self/mounts") -> str:
    """Return the type of file system that a path is on, "" where the system does not say."""
    real, types = os.path.realpath(path), {"": ""}
    with suppress(OSError), open(mounts, encoding="utf-8", errors="replace") as file:
        for line in file:
            _, point, kind, *_ = line.split()
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point)
            if f"{real}/".startswith(f"{point.rstrip('/')}/"):
                types[point] = kind
    return types[max(types, key=len)]


def check_own_files(context: Context) -> Iterator[Finding]:
    """Yield what is wrong with the history and the catalog."""
    store, root = context.sheaf.own.store, context.sheaf.root
    history = os.path.relpath(os.path.join(store.journals, HISTORY), root)
    for name, problem in store.damaged():
        advice = "the memories are not affected; what it lacks can no longer be undone"
        if DAMAGED_MARK in name:
            place = os.path.join(store.journals, HISTORY, name)
            advice = f"`sqlite3 {place} .recover` shows what can be recovered; then remove it"
        yield Finding(WARNING, f"{history}/{name}", problem, advice)
    if store.journals != store.root and os.path.lexists(os.path.join(store.root, HISTORY)):
        problem = f"this is not the history in use, which is in {store.journals}"
        yield Finding(WARNING, HISTORY, problem, "look at it; remove it, and keep it out of the repository")
    if os.path.lexists(os.path.join(root, CATALOG)) and not store.is_published(CATALOG):
        problem = "it was not written by memsheaf, and stays as it is; the catalog is in the prompt, and in no file"
        yield Finding(WARNING, CATALOG, problem, "remove or rename it, and the catalog is written there again")


def check_notices(context: Context) -> Iterator[Finding]:
    """Yield what a person is told at the start of a session."""
    for notice in list_notices(context.sheaf):
        path = next((name for name in (CONTEXT, NOTES) if notice.startswith(name)), "")
        yield Finding(WARNING, path or context.sheaf.root, notice, "`memsheaf trust`" if path else "")


AUDIT_OF_MEMORY: Sequence[MemoryCheck] = (check_unconfirmed, check_expiry, check_citations, collect)
AUDIT_OF_SCOPE: Sequence[ScopeCheck] = (check_duplicates, check_tracked, check_notes, check_catalog)
HEALTH_OF_MEMORY: Sequence[MemoryCheck] = (check_unconfirmed, check_secrets, check_warnings)
HEALTH_OF_SCOPE: Sequence[ScopeCheck] = (
    check_place,
    check_own_files,
    check_tracked,
    check_notices,
)


# Checks of what is beside the scopes


def examine_cache(cache: str, state: str, *, fix: bool) -> Iterator[Finding]:
    """Look for damage of the state, and for indexes that nobody uses any more; with `fix` remove these."""
    yield from (Finding(WARNING, *damage) for damage in check_state(state))
    if indexes := abandoned(cache):
        problem = f"{len(indexes):,} indexes in the cache are of scopes that are gone, or of other versions"
        if fix:
            remove(indexes)
        yield Finding(INFO, cache, problem, "they were removed" if fix else "`memsheaf doctor --fix` removes them")


def has_drifted(evidence: Evidence) -> bool:
    """Return True if a citation does not hold any more."""
    return any(verdict.state in DRIFTED_STATES for _, verdict in evidence.citations)


def verify(
    sheaf: Sheaf, tree: Tree, paths: Sequence[str] = (), *, body: bool = True
) -> list[tuple[Memory, Evidence]]:
    """Return what a working tree says about these memories, or all that can be understood.

    Lists that ask for drifted memories know the verdicts from then on. Raises NotFound for a path that is named.
    """
    examined = []
    for path in paths or [row.path for row in sheaf.list() if row.state in ("ok", "free")]:
        try:
            memory = sheaf.read(path)
        except MemsheafError:
            if paths:
                raise
            continue  # somebody was faster
        examined.append((memory, examine_evidence(memory, tree, body=body)))
    cited = [(memory, evidence) for memory, evidence in examined if evidence.citations]
    sheaf.own.record_drift([(memory.path, memory.version, has_drifted(evidence)) for memory, evidence in cited])
    return examined
