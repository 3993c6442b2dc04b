"""Audit of a scope, read-only: what a person should look at.

Four sections: what says the same or the opposite; what its evidence no longer shows; what is in the way; and what
waits for somebody to decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from shlex import join, quote

from memsheaf.errors import Blocked, MemsheafError, NotFound
from memsheaf.fact_rules import content_of
from memsheaf.guard import citations
from memsheaf.guard.citations import Tree, Verdict
from memsheaf.guard.evidence import Named, gone, named_in
from memsheaf.guard.paths import CATALOG, is_fact
from memsheaf.guard.secrets import without_secrets
from memsheaf.index.catalog import MAX_BYTES, MAX_LINES
from memsheaf.memory import Memory, parse
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT
from memsheaf.text.neutralize import one_line
from memsheaf.values import NamedTuple
from memsheaf.work.duplicates import CROWD, ComparedMemory, compare, prepare
from memsheaf.work.layers import Layers
from memsheaf.work.notes import ARCHIVE, problems
from memsheaf.work.sessions import of, open_sessions
from memsheaf.worktree import tracked_private

CHANGES = 5  # commits of one memory
LATELY = 30  # days in which so many are many; and in which a memory could have been of use
BLANK_AFTER = 1  # days that a session may be blank
UNTOUCHED_AFTER = 14  # and days that it may rest
NEAR_CAP = 0.8
SEARCHED = 20  # citations whose place is looked for in all files, which takes longer than a moment each
SAID = 300

ERROR, WARNING, NOTE = LEVELS = ("error", "warning", "note")

Progress = Callable[[int, int], None]


class AuditFinding(NamedTuple):
    """One thing to know. `others` are the memories that it is about besides the one at `path`.

    `kind` is `duplicate`, `contradicts` or `crowded`; `stale-citation` or `gone`; `tracked`, `unreadable`, `notes`,
    `restless`, `unused`, `session` or `catalog`; `unconfirmed`, `expired` or `edited`. `level` is `error`, `warning`
    or `note`.
    """

    kind: str
    level: str
    path: str
    said: str
    advice: str
    others: tuple[str, ...] = ()


class Audit(NamedTuple):
    """What was found in a scope, section by section; `files` is how many were looked at.

    In `duplicates` the path is the keeper's, and the others are candidates for natural decay.
    """

    scope: str
    files: int
    duplicates: tuple[AuditFinding, ...]
    citations: tuple[AuditFinding, ...]
    pollution: tuple[AuditFinding, ...]
    waiting: tuple[AuditFinding, ...]

    @property
    def clean(self) -> bool:
        """Whether there is nothing to say."""
        return not any(self.findings())

    def findings(self) -> Iterator[AuditFinding]:
        """All of it, one finding a file: each candidate of a group of duplicates by itself."""
        for found in self.duplicates:
            if found.kind != "duplicate":
                yield found
            for path in found.others if found.kind == "duplicate" else ():
                said = f"says the same as {found.path}: candidate for natural decay"
                advice = f"keep {found.path}, the most specific and recent, and let this one go"
                yield found._replace(path=path, said=said, advice=advice, others=(found.path,))
        yield from (*self.citations, *self.pollution, *self.waiting)


def audit(
    sheaf: Sheaf,
    *,
    today: str,
    layers: Layers | None = None,
    tree: Tree | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Look at every memory of a scope; with `layers` at its sessions, with a `tree` at what is cited and named."""
    rows = sheaf.list()
    past = _past(sheaf, today)
    judge = _Judge(sheaf, past, tree, date.fromisoformat(today))
    for number, row in enumerate(rows):
        if progress and number % 100 == 0:
            progress(number, len(rows))
        if row.state not in ("ok", "free"):
            judge.pollution.append(_unreadable(sheaf, row.path, row.problem, is_copy=row.state == "copy"))
            continue
        try:
            judge.see(sheaf.read(row.path))
        except NotFound:  # somebody was faster
            continue
        except MemsheafError as error:
            judge.pollution.append(_unreadable(sheaf, row.path, str(error)))
    if progress and rows:
        progress(len(rows), len(rows))
    pollution = [
        *_tracked(sheaf),
        *judge.pollution,
        *_notes(sheaf, today),
        *_catalog(sheaf),
        *_sessions(layers, today),
    ]
    return Audit(
        scope=str(sheaf.scope),
        files=len(rows),
        duplicates=tuple(_alike(judge.entries)),
        citations=_sorted([*judge.stale, *judge.named_in_vain()]),
        pollution=_sorted(pollution),
        waiting=_sorted(judge.waiting),
    )


class _Past(NamedTuple):
    """What journal and uses tell: changes of late, how facts were first written, which memories were of use."""

    changes: Counter[str]
    first: dict[str, bytes]
    used: dict[str, str]
    counted_since: str


class _Judge:
    """Looks at one memory after the other, and keeps of each no more than what is needed at the end."""

    def __init__(self, sheaf: Sheaf, past: _Past, tree: Tree | None, today: date) -> None:
        self.entries: list[ComparedMemory] = []
        self.stale: list[AuditFinding] = []
        self.pollution: list[AuditFinding] = []
        self.waiting: list[AuditFinding] = []
        self._sheaf = sheaf
        self._is_scratch = sheaf.scope.layer in ("task", "session")
        self._past = past
        self._tree = tree
        self._today = today
        self._named: list[tuple[str, Named]] = []
        self._searches = SEARCHED

    def see(self, memory: Memory) -> None:
        """Judge one memory by itself."""
        if memory.path in (NOTES, CONTEXT) or memory.path.startswith(ARCHIVE.removesuffix(".md")):
            return  # no memories, though they may say what one says
        self.pollution += self._pollution(memory)
        self.waiting += self._waiting(memory)
        # from here on texts are quoted: what is said of them holds no secret, however it is cut and joined
        if (text := without_secrets(memory.text)) != memory.text:
            memory = parse(memory.path, text.encode("utf-8", "replace"))
        named = named_in(memory.body)
        self.entries.append(prepare(memory, named))
        if self._tree is not None:
            self.stale += self._citations(memory, self._tree)
            if named.paths or named.symbols:
                self._named.append((memory.path, named))

    def named_in_vain(self) -> Iterator[AuditFinding]:
        """What texts name and the tree does not have, looked up for all at once."""
        if self._tree is None:
            return
        lost = gone([named for _, named in self._named], self._tree)
        for (path, _), names in zip(self._named, lost, strict=True):
            for name in names:
                said = f"`{name}` is named in the text, and is not in the working tree"
                yield _finding("gone", NOTE, path, said, _correct(self._sheaf, path))

    def _citations(self, memory: Memory, tree: Tree) -> Iterator[AuditFinding]:
        for text in memory.citations:
            citation = citations.parse(text)
            verdict = self._verdict(citation, tree) if citation else None
            if verdict and verdict.state in ("drifted", "missing"):
                said = f"{verdict.said} Stale citation: candidate for a superseding fact"
                yield _finding("stale-citation", WARNING, memory.path, said, _cite(self._sheaf, memory.path, verdict))

    def _verdict(self, citation: citations.Citation, tree: Tree) -> Verdict:
        verdict = citations.check(citation, tree, elsewhere=False)
        if verdict.state in ("drifted", "missing") and not verdict.place and self._searches:
            self._searches -= 1
            return citations.check(citation, tree)
        return verdict

    def _pollution(self, memory: Memory) -> Iterator[AuditFinding]:
        path, changes = memory.path, self._past.changes[memory.path]
        if memory.state != "ok" or self._is_scratch:
            return
        if changes >= CHANGES:
            said = f"changed {changes} times in {LATELY} days: what changes so often is a state, not a fact"
            yield _finding("restless", NOTE, path, said, "keep what holds, and the rest in NOTES.md or the task")
        since = max(memory.created or memory.updated, self._past.counted_since)[:10]
        if self._past.used and path not in self._past.used and memory.trust == "confirmed":
            days = self._days_since(since)
            if days > LATELY:
                said = f"neither recalled nor read in {days} days"
                yield _finding("unused", NOTE, path, said, f"{_line(self._sheaf, 'forget', path)} if nobody needs it")

    def _waiting(self, memory: Memory) -> Iterator[AuditFinding]:
        path, ends = memory.path, _day(memory.expires)
        if memory.trust == "unconfirmed":
            said = f"unconfirmed for {_plural(self._days_since(memory.updated or memory.created), 'day')}"
            advice = f"{_line(self._sheaf, 'review', '--approve', path)} if it is right; --reject if not"
            yield _finding("unconfirmed", NOTE, path, said, advice)
        if ends and ends < self._today:
            said = f"expired on {ends.isoformat()}"
            advice = f"{_line(self._sheaf, 'forget', path)}, or say until when it holds"
            yield _finding("expired", WARNING, path, said, advice)
        first = self._past.first.get(path)
        if is_fact(path) and first is not None and content_of(parse(path, first)) != content_of(memory):
            said = "a fact that was edited in place; it was written to stay as it is"
            shown = _line(self._sheaf, "log", path)
            advice = f"{shown} shows by whom; correct a fact by another that supersedes it"
            yield _finding("edited", WARNING, path, said, advice)

    def _days_since(self, day: str) -> int:
        """How many days ago that was; 0 for what is no day."""
        return max(0, (self._today - (_day(day) or self._today)).days)


def _past(sheaf: Sheaf, today: str) -> _Past:
    since = (date.fromisoformat(today) - timedelta(days=LATELY)).isoformat()
    changes: Counter[str] = Counter()
    first: dict[str, bytes] = {}
    begun: set[str] = set()
    for commit in sheaf.log():
        is_late = commit.at[:10] > since
        for step in commit.revisions:
            if is_late:
                changes[step.path] += 1
            if is_fact(step.path) and step.path not in begun:
                # from the newest back to where this fact began: an older one of this name was another
                if ABSENT in (step.before, step.after):
                    begun.add(step.path)
                oldest = step.old if step.old is not None and step.after != ABSENT else step.new
                if oldest is not None:
                    first[step.path] = oldest
    return _Past(changes, first, *sheaf.reader.uses())


def _alike(entries: Sequence[ComparedMemory]) -> Iterator[AuditFinding]:
    found = compare(entries)
    for group in found.groups:
        said = f"{len(group.others) + 1} entries say the same about {group.about}"
        advice = f"keep {group.keeper}, the most specific and recent; the others are candidates for natural decay"
        yield _finding("duplicate", WARNING, group.keeper, said, advice, group.others)
    for pair in found.opposed:
        said = f"contradicts {pair.other}: {pair.why}"
        yield _finding("contradicts", WARNING, pair.path, said, "read both, and correct the wrong one", (pair.other,))
    for crowd in found.crowds:
        said = f"{CROWD}+ entries on one subject: {len(crowd.paths)} on {crowd.about}"
        first, *others = crowd.paths
        yield _finding("crowded", NOTE, first, said, "see which of them are still needed", tuple(others))


def _notes(sheaf: Sheaf, today: str) -> Iterator[AuditFinding]:
    try:
        memory = sheaf.read(NOTES)
    except MemsheafError:  # there are none, or they are told of as unreadable
        return
    for problem in problems(memory.text, today) if memory.state in ("ok", "free") else ():
        said = f"line {problem.line}: {problem.what}" if problem.line else problem.what
        yield _finding("notes", WARNING, NOTES, said, problem.advice)


def _tracked(sheaf: Sheaf) -> Iterator[AuditFinding]:
    for path in tracked_private(sheaf.checkout, sheaf.root):
        said = "git tracks it: whoever gets the repository can read what was forgotten or said in private"
        yield _finding("tracked", ERROR, path, said, f"git rm --cached {quote(path)}")


def _catalog(sheaf: Sheaf) -> Iterator[AuditFinding]:
    page, merge = sheaf.catalog(), _line(sheaf, "consolidate")
    lines, size = page.text.count("\n"), len(page.text.encode())
    if page.shown < page.total:
        said = f"over its cap: {page.total - page.shown:,} of {page.total:,} memories are not in it"
        yield _finding("catalog", WARNING, CATALOG, said, f"{merge} merges; pin what must be seen")
    elif lines >= NEAR_CAP * MAX_LINES or size >= NEAR_CAP * MAX_BYTES:
        said = f"near its cap: {lines} of {MAX_LINES} lines, {size:,} of {MAX_BYTES:,} bytes"
        yield _finding("catalog", NOTE, CATALOG, said, f"{merge} merges what says the same")


def _sessions(layers: Layers | None, today: str) -> Iterator[AuditFinding]:
    if layers is None:
        return
    for name in open_sessions(layers):
        try:
            state = of(layers, name).state()
        except (NotFound, Blocked):  # it ended meanwhile
            continue
        except MemsheafError as error:
            yield _unreadable(layers.project, f"sessions/{name}", str(error))
            continue
        changed = _day(state.changed)
        days = (date.fromisoformat(today) - changed).days if changed else 0
        if days > UNTOUCHED_AFTER or (state.is_blank and days > BLANK_AFTER):
            said = f"an open session, {'blank' if state.is_blank else 'untouched'} for {_plural(days, 'day')}"
            advice = f"`memsheaf session end --session {name}` archives it"
            yield _finding("session", NOTE, f"sessions/{name}", said, advice)


def _unreadable(sheaf: Sheaf, path: str, problem: str, *, is_copy: bool = False) -> AuditFinding:
    advice = "compare the two and remove one" if is_copy else f"{_line(sheaf, 'edit', path)}, or look at the file"
    return _finding("unreadable", WARNING if is_copy else ERROR, path, problem, advice)


def _correct(sheaf: Sheaf, path: str) -> str:
    if is_fact(path) and sheaf.scope.layer == "project":
        return f"`memsheaf fact supersede {quote(path)} FACT --reason TEXT`"
    return f"{_line(sheaf, 'edit', path)}, if it is outdated"


def _cite(sheaf: Sheaf, path: str, verdict: Verdict) -> str:
    if is_fact(path) or not verdict.place:
        return _correct(sheaf, path)
    return f"{_line(sheaf, 'cite', verdict.place, '--memory', path)}, if it still holds"


def _line(sheaf: Sheaf, *words: str) -> str:
    """What to type, as it stands."""
    scope = [] if sheaf.scope.layer == "project" else ["--scope", str(sheaf.scope)]
    return f"`{join(['memsheaf', *words, *scope])}`"


def _finding(kind: str, level: str, path: str, said: str, advice: str, others: tuple[str, ...] = ()) -> AuditFinding:
    """A finding in one line, which repeats no secret that a memory holds."""
    return AuditFinding(kind, level, path, one_line(without_secrets(said), SAID), advice, others)


def _sorted(found: Sequence[AuditFinding]) -> tuple[AuditFinding, ...]:
    return tuple(sorted(found, key=lambda one: (LEVELS.index(one.level), one.kind, one.path, one.said)))


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return None
