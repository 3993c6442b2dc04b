"""Audit of a scope, read-only: what a person should look at; and `fix`, which does what a finding advises.

Four sections: what has nearly the same words; what its evidence no longer shows; what is in the way; and what waits
for somebody to decide.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from hashlib import sha256
from shlex import join, quote
from typing import NamedTuple

from memsheaf.errors import Blocked, Changed, MemsheafError, NotFound, Refused
from memsheaf.fact_rules import content_of
from memsheaf.frontmatter import edited
from memsheaf.guard import citations
from memsheaf.guard.citations import Tree
from memsheaf.guard.evidence import Named, gone, named_in
from memsheaf.guard.paths import CATALOG, is_fact
from memsheaf.guard.secrets import without_secrets
from memsheaf.index.catalog import MAX_BYTES, MAX_LINES
from memsheaf.memory import Allow, Memory, parse
from memsheaf.recall.inject import CONTEXT, NOTES
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change, Commit, Version
from memsheaf.text.dates import parse_day
from memsheaf.text.neutralize import one_line
from memsheaf.text.sections import fold_title
from memsheaf.text.similarity import LIKE, SHARED, alike, denials, fact, numbers, telling, traces
from memsheaf.text.summary import make_description
from memsheaf.text.topics import lists_topics
from memsheaf.values import plural
from memsheaf.work.layers import Layers
from memsheaf.work.notes import ARCHIVE, Notes
from memsheaf.work.notes_text import PRUNE, problems
from memsheaf.work.sessions import of, open_sessions
from memsheaf.work.undo import TOGETHER
from memsheaf.worktree import tracked_private

CHANGES = 5  # commits of one memory
LATELY = 30  # days in which so many are many; and in which a memory could have been of use
BLANK_AFTER = 1  # days that a session may be blank
UNTOUCHED_AFTER = 14  # and days that it may rest
NEAR_CAP = 0.8
SEARCHED = 20  # citations whose place is looked for in all files, which takes longer than a moment each
SAID = 300
MIN_CROWD_ENTRIES = 5  # on one subject
MAX_COMPARED_KEEPERS = 100  # for each trace that a memory shares with them

ERROR, WARNING, NOTE = LEVELS = ("error", "warning", "note")

Progress = Callable[[int, int], None]


class AuditFix(NamedTuple):
    """What would settle a finding, for `fix`: `do` is `forget`, `confirm`, `cite`, `prune` or `end`, "" for nothing.

    `targets` are the memories with the versions that were looked at, or the session to end. `cite` puts a citation of
    `place` where `instead` stands.
    """

    do: str = ""
    targets: tuple[tuple[str, Version], ...] = ()
    place: str = ""
    instead: str = ""

    def encode(self) -> str:
        """As one line of text, for a form."""
        return json.dumps(self)

    @classmethod
    def decode(cls, text: str) -> AuditFix:
        """What `encode` gave. Raises Refused."""
        try:
            do, targets, *more = json.loads(text)
            place, instead = map(str, more)
            return cls(str(do), tuple((str(path), str(version)) for path, version in targets), place, instead)
        except (ValueError, TypeError, RecursionError):
            raise Refused("this is no fix that an audit proposes") from None


NOTHING = AuditFix()


class AuditFinding(NamedTuple):
    """One thing to know. `others` are the memories that it is about besides the one at `path`.

    `kind` is `duplicate` or `crowded`; `stale-citation` or `gone`; `tracked`, `unreadable`, `notes`,
    `restless`, `unused`, `session` or `catalog`; `unconfirmed`, `expired` or `edited`. `level` is `error`, `warning`
    or `note`.
    """

    kind: str
    level: str
    path: str
    said: str
    advice: str
    others: tuple[str, ...] = ()
    fix: AuditFix = NOTHING

    @property
    def id(self) -> str:
        """What it is called by in `memsheaf audit --fix`, the same as long as the memories are; "" without a fix."""
        named = json.dumps([self.kind, self.path, *self.others, self.fix])
        return sha256(named.encode()).hexdigest()[:8] if self.fix.do else ""


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
                continue
            for target in found.fix.targets:
                path, fix = target[0], found.fix._replace(targets=(target,))
                said = f"has nearly the same words as {found.path}: candidate for natural decay"
                advice = f"keep {found.path}, the most specific and recent, and let this one go"
                yield found._replace(path=path, said=said, advice=advice, others=(found.path,), fix=fix)
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
    auditor = _Auditor(sheaf, tree, date.fromisoformat(today))
    for number, row in enumerate(rows):
        if progress and number % 100 == 0:
            progress(number, len(rows))
        if row.state not in ("ok", "free"):
            auditor.tell_unreadable(row.path, row.problem, is_copy=row.state == "copy")
            continue
        try:
            auditor.see(sheaf.read(row.path))
        except NotFound:  # somebody was faster
            continue
        except MemsheafError as error:
            auditor.tell_unreadable(row.path, str(error))
    if progress and rows:
        progress(len(rows), len(rows))
    auditor.see_together()
    if layers:
        auditor.see_sessions(layers)
    found = auditor.found
    return Audit(
        scope=str(sheaf.scope),
        files=len(rows),
        duplicates=tuple(found["duplicates"]),
        citations=_sorted(found["citations"]),
        pollution=_sorted(found["pollution"]),
        waiting=_sorted(found["waiting"]),
    )


def fix(found: AuditFix, sheaf: Sheaf, *, layers: Layers, tree: Tree | None = None) -> tuple[Sheaf, str]:
    """Do what settles a finding of the audit of this scope; the scope it was done in, and the commit, to be undone.

    Raises:
        Changed, NotFound: a memory is not what the audit saw; nothing was done.
        Refused: there is nothing to do, or no tree to cite from.
    """
    path, version = found.targets[0] if found.targets else ("", "")
    if found.do == "end" and path:
        session = of(layers, path)
        return session.sheaf, session.end().commit
    if found.do == "prune":
        notes = Notes(sheaf)
        notes.prune(apply=True)
        return sheaf, notes.commit
    if found.do == "forget" and path:
        return sheaf, sheaf.forget_many(found.targets, why="forget, as the audit proposes").id
    if found.do in ("confirm", "cite") and path:
        memory = sheaf.read(path)
        if memory.version != version:
            raise Changed(path)
        if found.do == "confirm":
            sheaf.confirm(path)
        elif tree is None:
            raise Refused("the working tree that is cited is not known here")
        else:
            citation = citations.make(tree, found.place)
            text = citations.cited(memory, citation, instead=found.instead)
            sheaf.put(path, text, expect=version, why=f"cite {citation}")
        return sheaf, next((commit.id for commit in sheaf.log(path, limit=1)), "")
    raise Refused("it cannot be fixed automatically: it takes an edit")


def fix_descriptions(layers: Layers, *, apply: bool) -> tuple[list[tuple[str, str]], list[Commit]]:
    """Describe by their first sentence the memories that an earlier version described by topics.

    Facts and what others wrote stay as they are. Each scope gets one commit, and one `undo` takes them back together.
    Without `apply` nothing is changed. Return the memories with their new descriptions, and the commits.
    """
    described: list[tuple[str, str]] = []
    commits: list[Commit] = []
    for sheaf in layers.lasting().sheaves():
        own = (sheaf.read(row.path) for row in sheaf.list() if row.trust != "shared" and not is_fact(row.path))
        was = {memory.path: memory for memory in own if lists_topics(memory)}
        described += ((layers.name(sheaf, path), make_description(was[path].body)) for path in was)
        if was and apply:
            changes = []
            for path, memory in was.items():
                text = edited(memory.text, fields={"description": make_description(memory.body)})
                changes.append(Change(path, text.encode(), memory.version))
            why = f"describe by the first sentence{TOGETHER + commits[0].id if commits else ''}"
            commits.append(sheaf.writer.commit(changes, why, was=was, allow=Allow(anyway=True)))
    return described, commits


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

    The most specific and recent memories come first. Each is compared with the keepers before it that share enough
    traces of words with it, and becomes a keeper itself if none is alike. So what is like a member of a group, and
    not like its keeper, is not in the group.
    """
    groups: list[tuple[ComparedMemory, list[str]]] = []
    holders: dict[int, list[int]] = {}
    for memory in sorted(memories, reverse=True):
        salt = hash((numbers(memory.words), denials(memory.words)))  # what differs in these is not alike
        keys = [trace ^ salt for trace in traces(memory.words)]
        near = Counter(number for key in keys for number in holders.get(key, ())[-MAX_COMPARED_KEEPERS:])
        for number, shared in sorted(near.items()):
            keeper, others = groups[number]
            if shared >= SHARED and alike(keeper.words, memory.words) >= LIKE:
                others.append(memory.path)
                break
        else:
            for key in keys:
                holders.setdefault(key, []).append(len(groups))
            groups.append((memory, []))
    return [(keeper, sorted(others)) for keeper, others in groups if others]


class _Auditor:
    """Looks at one memory after the other, and keeps of each no more than what is needed at the end."""

    def __init__(self, sheaf: Sheaf, tree: Tree | None, today: date) -> None:
        self.found: dict[str, list[AuditFinding]] = defaultdict(list)
        self._sheaf = sheaf
        self._tree = tree
        self._today = today
        self._changes, self._first = _past(sheaf, today)
        self._used, self._counted_since = sheaf.reader.uses()
        self._compared: list[ComparedMemory] = []
        self._named: list[tuple[str, Named]] = []
        self._searches = SEARCHED
        self._versions: dict[str, Version] = {}

    def see(self, memory: Memory) -> None:
        """Judge one memory by itself."""
        self._versions[memory.path] = memory.version
        if memory.path in (NOTES, CONTEXT) or memory.path.startswith(ARCHIVE.removesuffix(".md")):
            return  # no memories, though they may say what one says
        if memory.state == "ok" and self._sheaf.scope.layer not in ("task", "session"):
            self._see_use(memory)
        self._see_state(memory)
        # from here on texts are quoted: what is said of them holds no secret, however it is cut and joined
        if (text := without_secrets(memory.text)) != memory.text:
            memory = parse(memory.path, text.encode("utf-8", "replace"))
        self._compared.append(prepare(memory))
        if self._tree is not None:
            self._see_citations(memory, self._tree)
            named = named_in(memory.body)
            if named.paths or named.symbols:
                self._named.append((memory.path, named))

    def see_together(self) -> None:
        """Judge what can only be told of all memories, and the files that are none."""
        self._see_alike()
        lost = gone([named for _, named in self._named], self._tree) if self._tree else []
        for (path, _), names in zip(self._named, lost, strict=True):
            for name in names:
                said = f"`{name}` is named in the text, and is not in the working tree"
                self._tell("citations", "gone", NOTE, path, said, self._how_to_correct(path))
        for path in tracked_private(self._sheaf.checkout, self._sheaf.root):
            said = "git tracks it: whoever gets the repository can read what was forgotten or said in private"
            self._tell("pollution", "tracked", ERROR, path, said, f"git rm --cached {quote(path)}")
        with suppress(MemsheafError):  # there are no notes, or they are told of as unreadable
            notes = self._sheaf.read(NOTES)
            for one in problems(notes.text, self._today.isoformat()) if notes.state in ("ok", "free") else ():
                said = f"line {one.line}: {one.what}" if one.line else one.what
                do = AuditFix("prune") if one.advice == PRUNE else NOTHING
                self._tell("pollution", "notes", WARNING, NOTES, said, one.advice, fix=do)
        self._see_catalog()

    def see_sessions(self, layers: Layers) -> None:
        """Judge how long sessions are open."""
        for name in open_sessions(layers):
            path = f"sessions/{name}"
            try:
                state = of(layers, name).state()
            except (NotFound, Blocked):  # it ended meanwhile
                continue
            except MemsheafError as error:
                self.tell_unreadable(path, str(error))
                continue
            days = self._days_since(state.changed)
            if days > UNTOUCHED_AFTER or (state.is_blank and days > BLANK_AFTER):
                said = f"an open session, {'blank' if state.is_blank else 'untouched'} for {plural(days, 'day')}"
                advice = f"`memsheaf session end --session {name}` archives it"
                self._tell("pollution", "session", NOTE, path, said, advice, fix=AuditFix("end", ((name, ""),)))

    def tell_unreadable(self, path: str, problem: str, *, is_copy: bool = False) -> None:
        """Tell of a file that cannot be used."""
        fix = "compare the two and remove one" if is_copy else f"{self._line('edit', path)}, or look at the file"
        self._tell("pollution", "unreadable", WARNING if is_copy else ERROR, path, problem, fix)

    def _see_use(self, memory: Memory) -> None:
        path, changes = memory.path, self._changes[memory.path]
        if changes >= CHANGES:
            said = f"changed {changes} times in {LATELY} days: what changes so often is a state, not a fact"
            advice = "keep what holds, and the rest in NOTES.md or the task"
            self._tell("pollution", "restless", NOTE, path, said, advice)
        if self._used and path not in self._used and memory.trust == "confirmed":
            days = self._days_since(max(memory.created or memory.updated, self._counted_since))
            if days > LATELY:
                said, advice = (
                    f"neither recalled nor read in {days} days",
                    f"{self._line('forget', path)} if nobody needs it",
                )
                self._tell("pollution", "unused", NOTE, path, said, advice, fix=self._fix("forget", path))

    def _see_state(self, memory: Memory) -> None:
        path, ends = memory.path, parse_day(memory.expires)
        if memory.trust == "unconfirmed":
            said = f"unconfirmed for {plural(self._days_since(memory.updated or memory.created), 'day')}"
            advice = f"{self._line('review', '--approve', path)} if it is right; --reject if not"
            self._tell("waiting", "unconfirmed", NOTE, path, said, advice, fix=self._fix("confirm", path))
        if ends and ends < self._today:
            advice = f"{self._line('forget', path)}, or say until when it holds"
            said = f"expired on {ends.isoformat()}"
            self._tell("waiting", "expired", WARNING, path, said, advice, fix=self._fix("forget", path))
        first = self._first.get(path)
        if first is not None and content_of(parse(path, first)) != content_of(memory):
            said = "a fact that was edited in place; it was written to stay as it is"
            advice = f"{self._line('log', path)} shows by whom; correct a fact by another that supersedes it"
            self._tell("waiting", "edited", WARNING, path, said, advice)

    def _see_citations(self, memory: Memory, tree: Tree) -> None:
        version = self._versions[memory.path]
        for text in memory.citations:
            citation = citations.parse(text)
            if citation is None:
                continue
            verdict = citations.check(citation, tree, elsewhere=False)
            if verdict.state not in ("drifted", "missing"):
                continue
            if not verdict.place and self._searches:
                self._searches -= 1
                verdict = citations.check(citation, tree)
            said = f"{verdict.said} Stale citation: candidate for a superseding fact"
            advice, do = self._how_to_correct(memory.path), NOTHING
            if verdict.place and not is_fact(memory.path):
                advice = f"{self._line('cite', verdict.place, '--memory', memory.path)}, if it still holds"
            if verdict.state == "drifted" and not is_fact(memory.path) and memory.version == version:
                do = self._fix("cite", memory.path)._replace(place=verdict.place or str(citation.place), instead=text)
            self._tell("citations", "stale-citation", WARNING, memory.path, said, advice, fix=do)

    def _see_alike(self) -> None:
        for keeper, others in group_duplicates(self._compared):
            said = f"{len(others) + 1} entries have nearly the same words: {keeper.subject}"
            advice = f"keep {keeper.path}, the most specific and recent; the others are candidates for natural decay"
            fix = self._fix("forget", *others)
            self._tell("duplicates", "duplicate", WARNING, keeper.path, said, advice, tuple(others), fix)
        crowds: dict[str, list[str]] = defaultdict(list)
        for memory in self._compared:
            crowds[memory.subject].append(memory.path)
        for subject, (first, *more) in sorted(crowds.items()):
            if subject and len(more) + 1 >= MIN_CROWD_ENTRIES:
                said = f"{len(more) + 1} entries on one subject: {subject}"
                advice = "see which of them are still needed"
                self._tell("duplicates", "crowded", NOTE, first, said, advice, tuple(more))

    def _see_catalog(self) -> None:
        page, merge = self._sheaf.catalog(), self._line("consolidate")
        lines, size = page.text.count("\n"), len(page.text.encode())
        if page.shown < page.total:
            said = f"over its cap: {page.total - page.shown:,} of {page.total:,} memories are not in it"
            self._tell("pollution", "catalog", WARNING, CATALOG, said, f"{merge} merges; pin what must be seen")
        elif lines >= NEAR_CAP * MAX_LINES or size >= NEAR_CAP * MAX_BYTES:
            said = f"near its cap: {lines} of {MAX_LINES} lines, {size:,} of {MAX_BYTES:,} bytes"
            self._tell("pollution", "catalog", NOTE, CATALOG, said, f"{merge} merges what says the same")

    def _how_to_correct(self, path: str) -> str:
        if is_fact(path) and self._sheaf.scope.layer == "project":
            return f"`memsheaf fact supersede {quote(path)} FACT --reason TEXT`"
        return f"{self._line('edit', path)}, if it is outdated"

    def _line(self, *words: str) -> str:
        """What to type, as it stands."""
        scope = [] if self._sheaf.scope.layer == "project" else ["--scope", str(self._sheaf.scope)]
        return f"`{join(['memsheaf', *words, *scope])}`"

    def _fix(self, do: str, *paths: str) -> AuditFix:
        return AuditFix(do, tuple((path, self._versions[path]) for path in paths))

    def _tell(
        self,
        section: str,
        kind: str,
        level: str,
        path: str,
        said: str,
        advice: str,
        others: tuple[str, ...] = (),
        fix: AuditFix = NOTHING,
    ) -> None:
        """Keep a finding in one line, which repeats no secret that a memory holds."""
        said = one_line(without_secrets(said), SAID)
        self.found[section].append(AuditFinding(kind, level, path, said, advice, others, fix))

    def _days_since(self, day: str) -> int:
        """How many days ago that was; 0 for what is no day."""
        return max(0, (self._today - (parse_day(day) or self._today)).days)


def _past(sheaf: Sheaf, today: date) -> tuple[Counter[str], dict[str, bytes]]:
    """How often each memory changed lately, and how each fact was first written."""
    since = (today - timedelta(days=LATELY)).isoformat()
    changes: Counter[str] = Counter()
    first: dict[str, bytes] = {}
    begun: set[str] = set()
    for commit in sheaf.log():
        is_late = commit.at[:10] > since
        for step in commit.revisions:
            changes[step.path] += is_late
            if is_fact(step.path) and step.path not in begun:
                # from the newest back to where this fact began: an older one of this name was another
                if ABSENT in (step.before, step.after):
                    begun.add(step.path)
                oldest = step.old if step.old is not None and step.after != ABSENT else step.new
                if oldest is not None:
                    first[step.path] = oldest
    return changes, first


def _sorted(found: Sequence[AuditFinding]) -> tuple[AuditFinding, ...]:
    return tuple(sorted(found, key=lambda one: (LEVELS.index(one.level), one.kind, one.path, one.said)))
