"""What commits did: differences between versions, which commit wrote each line, and each commit as a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from threading import Lock
from typing import NamedTuple

from memsheaf.memory import parse
from memsheaf.store import Commit, Version
from memsheaf.store.commit_queries import CommitSummary, read_commits, read_summaries
from memsheaf.store.folder import FolderStore

YEAR_SECONDS = 371 * 86_400.0  # 53 weeks


class Blamed(NamedTuple):
    """One line of a memory and the commit it came with; an empty `commit` is older than the journal."""

    line: str
    commit: str
    at: str
    by: str


def diff(path: str, old: str, new: str, *, labels: tuple[str, str] = ("before", "after")) -> str:
    """Show how one text became another, as `diff -u` does; "" when they are the same."""
    from difflib import unified_diff

    lines = unified_diff(
        old.split("\n"), new.split("\n"), f"{path}  {labels[0]}", f"{path}  {labels[1]}", lineterm=""
    )
    return "\n".join(lines)


def blame(present: str, commits: Iterable[Commit]) -> list[Blamed]:
    """Say for each line of the present text which commit brought it. `commits` come newest first."""
    from difflib import SequenceMatcher

    past = list(commits)
    texts = {r.after: r.new for commit in past for r in commit.revisions if r.new is not None}
    lines = text = _lines(present.encode())
    owners: list[Commit | None] = [None] * len(lines)
    open_lines = {number: number for number in range(len(lines))}  # line of the version at hand -> present line
    begun = {commit.id: {r.path: r.before for r in commit.revisions} for commit in past}
    undone: set[str] = set()
    for commit in past:
        if commit.id in undone:
            continue
        if commit.undoes and begun.get(commit.undoes) == {r.path: r.after for r in commit.revisions}:
            undone.add(commit.undoes)  # together they changed nothing
            continue
        for revision in commit.revisions:
            known = revision.old if revision.old is not None else texts.get(revision.before)
            if known is None and revision.before:  # past retention: nobody knows what this commit brought
                return _blamed(lines, owners)
            older = _lines(known)
            kept: dict[int, int] = {}
            for block in SequenceMatcher(None, older, text, autojunk=False).get_matching_blocks():
                for step in range(block.size):
                    if block.b + step in open_lines:
                        kept[block.a + step] = open_lines.pop(block.b + step)
            for number in open_lines.values():
                owners[number] = commit
            open_lines, text = kept, older
    return _blamed(lines, owners)


def _blamed(lines: Sequence[str], owners: Sequence[Commit | None]) -> list[Blamed]:
    return [
        Blamed(line, owner.id, owner.at, owner.by) if owner else Blamed(line, "", "", "")
        for line, owner in zip(lines, owners, strict=True)
    ]


def _lines(data: bytes | None) -> list[str]:
    lines = (data or b"").decode("utf-8", "replace").split("\n")
    return lines if lines[-1] else lines[:-1]


_VERBS = {"extraction": {"added": "learned"}, "import": {"added": "imported"}}
NAMED = 2  # memories that a sentence names; more are counted


def names_in(commit: Commit) -> dict[str, tuple[str, str]]:
    """The name and the type of each memory of a commit, by path, as far as its text is known."""
    found = {}
    for revision in commit.revisions:
        data = revision.new if revision.new is not None else revision.old
        memory = parse(revision.path, data) if data is not None else None
        if memory:
            found[revision.path] = memory.name, memory.type
    return found


def tell_commit(commit: CommitSummary, names: Mapping[str, str], undone: CommitSummary | None = None) -> str:
    """What a commit did, as the rest of a sentence that begins with who did it.

    >>> from memsheaf.store.commit_queries import CommitStep
    >>> step = CommitStep("user_tabs.md", "", "5f", True)
    >>> tell_commit(CommitSummary("a1", "", "user", "", "", (step,)), {"user_tabs.md": "Prefers tabs"})
    "added 'Prefers tabs'"
    >>> tell_commit(CommitSummary("a1", "", "extraction", "", "", (step,) * 3), {})
    'learned 3 memories'
    """
    if commit.undoes and undone and undone.undoes:
        return f"undid an undo: {_tell_steps(commit, names)}"
    if commit.undoes and undone:
        return f"undid: {tell_commit(undone, names)}"
    if commit.undoes:
        return f"undid a change: {_tell_steps(commit, names)}"
    retired = [step for step in commit.steps if not step.after]
    others = [step for step in commit.steps if step.after]
    if commit.by == "consolidation" and retired and len(others) == 1:
        count = len(retired) + (others[0].what == "changed")
        return f"merged {count} memories into {_quoted(others[0].path, names)}"
    return _tell_steps(commit, names)


def _tell_steps(commit: CommitSummary, names: Mapping[str, str]) -> str:
    verbs = _VERBS.get(commit.by, {})
    parts = []
    for what in ("added", "changed", "removed"):
        paths = [step.path for step in commit.steps if step.what == what]
        if paths:
            few = " and ".join(_quoted(path, names) for path in paths) if len(paths) <= NAMED else ""
            parts.append(f"{verbs.get(what, what)} {few or f'{len(paths):,} memories'}")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _quoted(path: str, names: Mapping[str, str]) -> str:
    return f"'{names.get(path) or path}'"


def find_undone(commits: Iterable[CommitSummary]) -> set[str]:
    """The ids of the commits that were undone, and not redone since. `commits` come newest first."""
    undone: set[str] = set()
    for commit in commits:
        if commit.undoes and commit.id not in undone:
            undone.add(commit.undoes)
    return undone


class CommitLog:
    """The commits of a scope in the last year, newest first, without texts; read again when there are new ones."""

    def __init__(self, store: FolderStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._guard = Lock()
        self._last = ""
        self._commits: list[CommitSummary] = []

    def commits(self) -> Sequence[CommitSummary]:
        """Return the commits that changed memories."""
        with self._guard:
            last = self._store.last_id()
            if last != self._last or not last:
                since = datetime.fromtimestamp(self._clock() - YEAR_SECONDS, UTC).isoformat()
                known = self._commits[0].id if self._commits else ""
                nothing: tuple[list[CommitSummary], bool] = [], False
                new, is_known = self._store.ask_journal(
                    lambda journal: read_summaries(journal, after=known, since=since), nothing
                )
                self._commits = [*new, *self._commits] if is_known else new
                self._last = last
            return self._commits

    def since(self, day: str) -> Iterator[CommitSummary]:
        """Yield the commits from a day on."""
        return takewhile(lambda commit: local_day(commit.at) >= day, self.commits())

    def days(self) -> Mapping[str, Counter[str]]:
        """Return how many commits each local day had, by author."""
        days: dict[str, Counter[str]] = {}
        for commit in self.commits():
            days.setdefault(local_day(commit.at), Counter())[commit.by] += 1
        return days

    def undo_states(self) -> dict[str, str]:
        """Return by id `undone`, `can be undone`, `changed since`, or `too old` when the texts are gone."""
        commits = self.commits()
        undone = find_undone(commits)
        newest: dict[str, Version] = {}
        states = {}
        for commit in commits:
            for step in commit.steps:
                newest.setdefault(step.path, step.after)
            if commit.id in undone:
                states[commit.id] = "undone"
            elif any(newest[step.path] != step.after for step in commit.steps):
                states[commit.id] = "changed since"
            else:
                states[commit.id] = "can be undone" if all(step.has_text for step in commit.steps) else "too old"
        return states

    def find(self, ids: Collection[str]) -> dict[str, Commit]:
        """Return these commits with their texts, as far as they are there."""
        return self._store.ask_journal(lambda journal: read_commits(journal, ids), {})


def local_day(at: str) -> str:
    """The day of a moment in UTC, as clocks here have it; "" for what is no moment."""
    try:
        return datetime.fromisoformat(at).astimezone().date().isoformat()
    except (ValueError, OverflowError):
        return ""
