"""Audit of a scope: a list of checks, each a function that yields what a person should look at; and `verify`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from shlex import join, quote
from typing import NamedTuple

from memsheaf.errors import Blocked, MemsheafError, NotFound
from memsheaf.frontmatter import edited
from memsheaf.gates import content_of
from memsheaf.guard import citations
from memsheaf.guard.citations import Tree
from memsheaf.guard.evidence import Evidence, Named, examine, gone, named_in
from memsheaf.guard.paths import CATALOG, is_fact
from memsheaf.guard.secrets import without_secrets
from memsheaf.index.catalog import MAX_BYTES, MAX_LINES
from memsheaf.memory import Allow, Memory, parse, plural
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.sheaf import TOGETHER, Sheaf
from memsheaf.store import ABSENT, Change, Commit
from memsheaf.text.dates import parse_day
from memsheaf.text.neutralize import one_line
from memsheaf.text.sections import fold_title
from memsheaf.text.similarity import fact, group_alike, telling
from memsheaf.text.summary import make_description
from memsheaf.text.topics import lists_topics
from memsheaf.work.notes import ARCHIVE
from memsheaf.work.notes_text import problems
from memsheaf.work.sessions import of, open_sessions
from memsheaf.worktree import tracked_private

DRIFTED = ("drifted", "missing")  # states of a citation that does not hold any more
MAX_BLANK_SESSION_DAYS = 1
MAX_UNTOUCHED_SESSION_DAYS = 14
NEAR_CAP_RATIO = 0.8  # of the lines or bytes that the catalog may have
MAX_SEARCHED_CITATIONS = 20  # whose place is looked for in all files, which takes longer than a moment each
MAX_PROBLEM_CHARS = 300
MIN_CROWD_ENTRIES = 5  # on one subject

ERROR, WARNING, INFO = LEVELS = ("error", "warning", "info")
SECTIONS = {
    "duplicates": ("duplicate", "crowded"),
    "citations": ("stale-citation", "gone"),
    "pollution": ("tracked", "unreadable", "notes", "session", "catalog"),
    "waiting": ("unconfirmed", "expired", "edited"),
}
"""The sections of an audit, each with its kinds of findings."""

Progress = Callable[[int, int], None]


class Finding(NamedTuple):
    """One thing to know. `level` is `error` (something does not work), `warning` or `info`.

    `kind` is one of those in `SECTIONS`, "" outside an audit. `others` are the memories that it is about besides the
    one at `path`; those of a `duplicate` are candidates for natural decay.
    """

    level: str
    path: str
    problem: str
    advice: str
    kind: str = ""
    others: tuple[str, ...] = ()


class Audit(NamedTuple):
    """The findings of an audit; `files` is how many were looked at."""

    scope: str
    files: int
    findings: tuple[Finding, ...]

    def section(self, name: str) -> list[Finding]:
        """Return the findings of a section."""
        return [finding for finding in self.findings if finding.kind in SECTIONS[name]]


def audit(
    sheaf: Sheaf,
    *,
    today: str,
    layers: Sheaf | None = None,
    tree: Tree | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Look at every memory of a scope.

    With `layers`, the sheaf around it, look at its sessions, too; with a `tree`, at the places that memories name.
    """
    rows = sheaf.list()
    context = _Context(sheaf, tree, date.fromisoformat(today), layers)
    findings: list[Finding] = []
    for number, row in enumerate(rows):
        if progress and number % 100 == 0:
            progress(number, len(rows))
        try:
            if row.state not in ("ok", "free"):
                findings.append(context.report_unreadable(row.path, row.problem, is_copy=row.state == "copy"))
            else:
                findings += _check_memory(sheaf.read(row.path), context)
        except NotFound:  # somebody was faster
            continue
        except MemsheafError as error:
            findings.append(context.report_unreadable(row.path, str(error)))
    if progress and rows:
        progress(len(rows), len(rows))
    for check in AUDIT_CHECKS:
        findings += check(context)
    kinds = [kind for section in SECTIONS.values() for kind in section]
    findings = [_without_secrets(finding) for finding in findings]
    findings.sort(key=lambda found: (LEVELS.index(found.level), kinds.index(found.kind), found.path, found.problem))
    return Audit(str(sheaf.scope), len(rows), tuple(findings))


def _without_secrets(finding: Finding) -> Finding:
    """Return a finding in one line, which repeats no secret that a memory holds."""
    return finding._replace(problem=one_line(without_secrets(finding.problem), MAX_PROBLEM_CHARS))


@dataclass(slots=True)
class _Context:
    """What the checks of an audit need; of each memory no more is kept than what is needed at the end."""

    sheaf: Sheaf
    tree: Tree | None
    today: date
    layers: Sheaf | None
    compared: list[ComparedMemory] = field(default_factory=list)
    named: list[tuple[str, Named]] = field(default_factory=list)
    searches: int = MAX_SEARCHED_CITATIONS

    def days_since(self, day: str) -> int:
        """Return how many days ago that was; 0 for what is no day."""
        return max(0, (self.today - (parse_day(day) or self.today)).days)

    def command(self, *words: str) -> str:
        """Return what to type, as it stands."""
        scope = [] if self.sheaf.scope.layer == "project" else ["--scope", str(self.sheaf.scope)]
        return f"`{join(['memsheaf', *words, *scope])}`"

    def how_to_correct(self, path: str) -> str:
        """Return advice about a memory that is outdated."""
        if is_fact(path) and self.sheaf.scope.layer == "project":
            return f"`memsheaf fact supersede {quote(path)} FACT --reason TEXT`"
        return f"{self.command('edit', path)}, if it is outdated"

    def report_unreadable(self, path: str, problem: str, *, is_copy: bool = False) -> Finding:
        """Return a finding about a file that cannot be used."""
        if is_copy:
            return Finding(WARNING, path, problem, "compare the two and remove one", "unreadable")
        return Finding(ERROR, path, problem, f"{self.command('edit', path)}, or look at the file", "unreadable")


def _check_memory(memory: Memory, context: _Context) -> Iterator[Finding]:
    """Judge one memory by itself, and note what is compared later."""
    if memory.path in (NOTES, CONTEXT) or memory.path.startswith(ARCHIVE.removesuffix(".md")):
        return  # no memories, though they may say what one says
    yield from _check_state(memory, context)
    # from here on texts are quoted: what is said of them holds no secret, however it is cut and joined
    if (text := without_secrets(memory.text)) != memory.text:
        memory = parse(memory.path, text.encode("utf-8", "replace"))
    context.compared.append(prepare(memory))
    if context.tree is not None:
        yield from _check_citations(memory, context, context.tree)
        named = named_in(memory.body)
        if named.paths or named.symbols:
            context.named.append((memory.path, named))


def _check_state(memory: Memory, context: _Context) -> Iterator[Finding]:
    path, ends = memory.path, parse_day(memory.expires)
    if memory.trust == "unconfirmed":
        problem = f"unconfirmed for {plural(context.days_since(memory.updated or memory.created), 'day')}"
        advice = f"{context.command('review', '--approve', path)} if it is right; --reject if not"
        yield Finding(INFO, path, problem, advice, "unconfirmed")
    if ends and ends < context.today:
        advice = f"{context.command('forget', path)}, or say until when it holds"
        yield Finding(WARNING, path, f"expired on {ends.isoformat()}", advice, "expired")


def _check_citations(memory: Memory, context: _Context, tree: Tree) -> Iterator[Finding]:
    for text in memory.citations:
        citation = citations.parse(text)
        if citation is None:
            continue
        verdict = citations.check(citation, tree, elsewhere=False)
        if verdict.state not in DRIFTED:
            continue
        if not verdict.place and context.searches:
            context.searches -= 1
            verdict = citations.check(citation, tree)
        advice = context.how_to_correct(memory.path)
        if verdict.place and not is_fact(memory.path):
            advice = f"{context.command('cite', verdict.place, '--memory', memory.path)}, if it still holds"
        problem = f"{verdict.said} Stale citation: candidate for a superseding fact"
        yield Finding(WARNING, memory.path, problem, advice, "stale-citation")


def _check_duplicates(context: _Context) -> Iterator[Finding]:
    for keeper, others in group_duplicates(context.compared):
        problem = f"{len(others) + 1} entries have nearly the same words: {keeper.subject}"
        advice = f"keep {keeper.path}, the most specific and recent; the others are candidates for natural decay"
        yield Finding(WARNING, keeper.path, problem, advice, "duplicate", tuple(others))
    crowds: dict[str, list[str]] = defaultdict(list)
    for memory in context.compared:
        crowds[memory.subject].append(memory.path)
    for subject, (first, *more) in sorted(crowds.items()):
        if subject and len(more) + 1 >= MIN_CROWD_ENTRIES:
            problem = f"{len(more) + 1} entries on one subject: {subject}"
            yield Finding(INFO, first, problem, "see which of them are still needed", "crowded", tuple(more))


def _check_named_places(context: _Context) -> Iterator[Finding]:
    lost = gone([named for _, named in context.named], context.tree) if context.tree else []
    for (path, _), names in zip(context.named, lost, strict=True):
        for name in names:
            problem = f"`{name}` is named in the text, and is not in the working tree"
            yield Finding(INFO, path, problem, context.how_to_correct(path), "gone")


def _check_edited_facts(context: _Context) -> Iterator[Finding]:
    """Compare each fact with its first text: it was written to stay as it is."""
    for path, first in _first_texts(context.sheaf).items():
        memory = context.sheaf.own.find(path)
        if memory and memory.state == "ok" and content_of(parse(path, first)) != content_of(memory):
            problem = "a fact that was edited in place; it was written to stay as it is"
            advice = f"{context.command('log', path)} shows by whom; correct a fact by another that supersedes it"
            yield Finding(WARNING, path, problem, advice, "edited")


def _first_texts(sheaf: Sheaf) -> dict[str, bytes]:
    first: dict[str, bytes] = {}
    begun: set[str] = set()
    for commit in sheaf.log():
        for step in commit.revisions:
            if is_fact(step.path) and step.path not in begun:
                # from the newest back to where this fact began: an older one of this name was another
                if ABSENT in (step.before, step.after):
                    begun.add(step.path)
                oldest = step.old if step.old is not None and step.after != ABSENT else step.new
                if oldest is not None:
                    first[step.path] = oldest
    return first


def _check_notes(context: _Context) -> Iterator[Finding]:
    with suppress(MemsheafError):  # there are no notes, or they are told of as unreadable
        notes = context.sheaf.read(NOTES)
        for problem in problems(notes.text, context.today.isoformat()) if notes.state in ("ok", "free") else ():
            where = f"line {problem.line}: " if problem.line else ""
            yield Finding(WARNING, NOTES, f"{where}{problem.what}", problem.advice, "notes")


def _check_catalog(context: _Context) -> Iterator[Finding]:
    page, merge = context.sheaf.catalog(), context.command("consolidate")
    lines, size = page.text.count("\n"), len(page.text.encode())
    if page.shown < page.total:
        problem = f"over its cap: {page.total - page.shown:,} of {page.total:,} memories are not in it"
        yield Finding(WARNING, CATALOG, problem, f"{merge} merges; pin what must be seen", "catalog")
    elif lines >= NEAR_CAP_RATIO * MAX_LINES or size >= NEAR_CAP_RATIO * MAX_BYTES:
        problem = f"near its cap: {lines} of {MAX_LINES} lines, {size:,} of {MAX_BYTES:,} bytes"
        yield Finding(INFO, CATALOG, problem, f"{merge} merges what says the same", "catalog")


def _check_sessions(context: _Context) -> Iterator[Finding]:
    if context.layers is None:
        return
    for name in open_sessions(context.layers):
        path = f"sessions/{name}"
        try:
            state = of(context.layers, name).state()
        except (NotFound, Blocked):  # it ended meanwhile
            continue
        except MemsheafError as error:
            yield context.report_unreadable(path, str(error))
            continue
        days = context.days_since(state.changed)
        if days > MAX_UNTOUCHED_SESSION_DAYS or (state.is_blank and days > MAX_BLANK_SESSION_DAYS):
            problem = f"an open session, {'blank' if state.is_blank else 'untouched'} for {plural(days, 'day')}"
            advice = f"`memsheaf session end --session {name}` archives it"
            yield Finding(INFO, path, problem, advice, "session")


def check_tracked(sheaf: Sheaf) -> Iterator[Finding]:
    """Yield the private files that git tracks."""
    problem = "git tracks it: whoever gets the repository can read what was forgotten or said in private"
    for path in tracked_private(sheaf.checkout, sheaf.root):
        advice = f"git rm --cached {quote(path)}; if it was pushed, `git filter-repo` takes it out of the history"
        yield Finding(ERROR, path, problem, advice, "tracked")


class ComparedMemory(NamedTuple):
    """A memory as it is compared with others; the greatest of several that say the same is the keeper."""

    is_confirmed: bool
    specific: int
    day: str
    path: str
    subject: str
    words: tuple[str, ...]


def prepare(memory: Memory) -> ComparedMemory:
    """Return a memory as it is compared, with shared words, so that a hundred thousand of them fit."""
    return ComparedMemory(
        memory.trust == "confirmed",
        len(telling(memory.body)) + len(memory.citations),
        memory.updated or memory.created,
        memory.path,
        fold_title(memory.name),
        tuple(sorted(map(sys.intern, set(fact(memory))))),
    )


def group_duplicates(memories: Iterable[ComparedMemory]) -> list[tuple[ComparedMemory, list[str]]]:
    """Return each keeper with the paths of those that have nearly its words, its numbers and its denials.

    The most specific and recent memories come first.
    """
    ranked = sorted(memories, reverse=True)
    groups = group_alike([memory.words for memory in ranked], lambda keeper, other: True)
    return [(ranked[first], sorted(ranked[other].path for other in others)) for first, *others in groups]


AUDIT_CHECKS: tuple[Callable[[_Context], Iterable[Finding]], ...] = (
    _check_duplicates,
    _check_named_places,
    lambda context: check_tracked(context.sheaf),
    _check_notes,
    _check_catalog,
    _check_sessions,
    _check_edited_facts,
)


def has_drifted(evidence: Evidence) -> bool:
    """Return True if a citation does not hold any more."""
    return any(verdict.state in DRIFTED for _, verdict in evidence.citations)


def verify(
    sheaf: Sheaf, tree: Tree, paths: Sequence[str] = (), *, elsewhere: bool = True, body: bool = True
) -> list[tuple[Memory, Evidence]]:
    """Return what a working tree says about these memories, or all that can be understood, as `examine` does.

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
        examined.append((memory, examine(memory, tree, elsewhere=elsewhere, body=body)))
    cited = [(memory, evidence) for memory, evidence in examined if evidence.citations]
    sheaf.own.record_drift([(memory.path, memory.version, has_drifted(evidence)) for memory, evidence in cited])
    return examined


def fix_descriptions(layers: Sheaf, *, apply: bool) -> tuple[list[tuple[str, str]], list[Commit]]:
    """Describe by their first sentence the memories that an earlier version described by topics.

    Facts and what others wrote stay as they are. Each scope gets one commit, and one `undo` takes them back together.
    Without `apply` nothing is changed. Return the memories with their new descriptions, and the commits.
    """
    described: list[tuple[str, str]] = []
    commits: list[Commit] = []
    for sheaf in layers.lasting().each():
        own = (sheaf.read(row.path) for row in sheaf.list() if row.trust != "shared" and not is_fact(row.path))
        was = {memory.path: memory for memory in own if lists_topics(memory)}
        described += ((layers.name(sheaf.home, path), make_description(was[path].body)) for path in was)
        if was and apply:
            changes = []
            for path, memory in was.items():
                text = edited(memory.text, fields={"description": make_description(memory.body)})
                changes.append(Change(path, text.encode(), memory.version))
            why = f"describe by the first sentence{TOGETHER + commits[0].id if commits else ''}"
            commits.append(sheaf.own.commit(changes, why, was=was, allow=Allow(anyway=True)))
    return described, commits
