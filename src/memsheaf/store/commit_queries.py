"""Questions about commits, newest first: which one is meant, which is not undone, which text a version was.

Summaries are commits without their texts, read from the lines by patterns: many times as fast as by JSON.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import dropwhile, islice
from typing import NamedTuple, Protocol

from memsheaf.errors import NoSuchCommit, PathRefused, VersionGone
from memsheaf.guard.paths import check_journalled
from memsheaf.store import ABSENT, Commit, Version
from memsheaf.store.journal import Journal
from memsheaf.store.journal_lines import CHANGED, decode

_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_HEAD = re.compile(
    rb'\{"commit": "([0-9a-f]{1,15})", "at": "([^"\\]*)", "by": ('
    + _TEXT
    + rb'), "why": ('
    + _TEXT
    + rb'), "boot": '
    + _TEXT
    + rb'(?:, "undoes": "([0-9a-f]{1,15})")?'
)
_STEP = re.compile(CHANGED + rb', "before": "([0-9a-f]*)", "after": "([0-9a-f]*)"(, "(?:old|new|append))?')


class CommitSource(Protocol):
    """What remembers commits."""

    def history(self, path: str | None = None, /) -> Iterator[Commit]:
        """What happened, newest first; with `path`, to that text only."""

    def find(self, commit_id: str, /) -> Commit:
        """The commit with this id. Raises NoSuchCommit."""


OTHERS = "@"  # how the author of a commit begins that another member of a team made: `@ana`
HUB, JOINED = "hub", "joined the hub"  # author of a commit that merges with a hub; reason of the first one
ERASED = "erased a memory"  # the reason of a commit that left the journal without others
RENAMING = ("rename ", "replace ")  # how the reasons of commits begin that give a memory another name


def last_standing(commits: Iterable[Commit], *, except_by: str, events: bool) -> Commit:
    """The newest commit that was not undone, nor is an undo, nor came from a hub, nor was replaced by one that did.

    Raises NoSuchCommit.
    """
    undone: set[str] = set()
    came: set[str] = set()
    for commit in commits:
        paths = {step.path for step in commit.revisions}
        if commit.id in undone:
            continue
        if commit.undoes:
            undone.add(commit.undoes)
        elif commit.by == HUB or commit.by.startswith(OTHERS):
            came |= paths
        elif commit.by == except_by or commit.why == JOINED:
            continue
        elif paths and came.isdisjoint(paths) and (events or any(path.endswith(".md") for path in paths)):
            return commit
    raise NoSuchCommit("nothing is left to undo")


def without_known(commits: Sequence[Commit], known: Collection[str]) -> list[Commit]:
    """The commits that a journal lacks, without the paths whose past it has from others of these already."""
    had = {step.path for one in commits if one.id in known for step in one.revisions}
    fresh = [one for one in commits if one.id not in known]
    kept = [one._replace(revisions=tuple(step for step in one.revisions if step.path not in had)) for one in fresh]
    return [one for one, was in zip(kept, fresh, strict=True) if one.revisions or not was.revisions]


def find_version(commits: Iterable[Commit], path: str, version: Version) -> bytes:
    """The text of the version that begins like this. Raises VersionGone."""
    found: dict[Version, bytes] = {}
    for commit in commits:
        for revision in commit.revisions:
            for name, text in ((revision.after, revision.new), (revision.before, revision.old)):
                if text is not None and name == version:
                    return text
                if text is not None and name.startswith(version):
                    found[name] = text
    if len(found) == 1:
        return found.popitem()[1]
    known = f"{len(found)} versions" if found else "no version"
    raise VersionGone(f"the journal holds {known} {version[:12]!r} of {path!r}")


def trail(past: CommitSource, path: str) -> Iterator[Commit]:
    """The commits of one text, newest first, also from when it had other names: each with that one step."""
    name, steps = path, past.history(path)
    while name:
        path, name = name, ""
        for commit in steps:
            yield commit
            if commit.revisions[0].before == ABSENT and (name := _name_before(path, commit.id, past)):
                steps = _before(past.history(name), commit.id)
                break


def steps_before_renaming(past: CommitSource, path: str) -> Iterator[tuple[str, str]]:
    """The steps of a text under its older names: the id of each commit, and the name."""
    for commit in trail(past, path):
        step = commit.revisions[0]
        if step.path != path:
            yield commit.id, step.path
        if step.before == ABSENT and (older := _name_before(step.path, commit.id, past)):
            yield commit.id, older  # where it ended


def _before(commits: Iterator[Commit], commit_id: str) -> Iterator[Commit]:
    return islice(dropwhile(lambda one: one.id != commit_id, commits), 1, None)


def _name_before(path: str, commit_id: str, past: CommitSource) -> str:
    """The name from which a commit moved a text to this path; "" when it did not."""
    try:
        commit = made = past.find(commit_id)
        while made.undoes:
            made = past.find(made.undoes)
    except NoSuchCommit:
        return ""
    came = [step.path for step in commit.revisions if step.before == ABSENT]
    went = [step.path for step in commit.revisions if step.after == ABSENT]
    return went[0] if made.why.startswith(RENAMING) and came == [path] and len(went) == 1 else ""


class CommitStep(NamedTuple):
    """What a commit did to one path; `has_text` is False past retention."""

    path: str
    before: Version
    after: Version
    has_text: bool

    @property
    def what(self) -> str:
        """`added`, `changed` or `removed`."""
        return "added" if not self.before else "changed" if self.after else "removed"


class CommitSummary(NamedTuple):
    """A commit without texts."""

    id: str
    at: str
    by: str
    why: str
    undoes: str
    steps: tuple[CommitStep, ...]


def read_summaries(journal: Journal, *, after: str = "", since: str = "") -> tuple[list[CommitSummary], bool]:
    """The commits about Markdown files behind the commit `after`, newest first; and whether that one was met.

    When something was erased since, it is not: what was known may be gone.
    With `since`, only those from that moment on.
    """
    found: list[CommitSummary] = []
    is_erased = False
    for line, _ in journal.finished(b""):
        head = _HEAD.match(line)
        if not head:
            continue
        id, at = head[1].decode(), head[2].decode("utf-8", "replace")
        is_erased |= head[4] == f'"{ERASED}"'.encode()
        if id == after and not is_erased:
            return found, True
        if at < since:
            break
        with suppress(ValueError, PathRefused):  # rotten, or hostile
            steps = tuple(_step(*step) for step in _STEP.findall(line, head.end()))
            steps = tuple(step for step in steps if step.path.endswith(".md"))
            if steps:
                words = json.loads(head[3]), json.loads(head[4]), (head[5] or b"").decode()
                found.append(CommitSummary(id, at, *words, steps))
    return found, False


def _step(path: bytes, before: bytes, after: bytes, text: bytes) -> CommitStep:
    name = json.loads(path)
    check_journalled(name)
    return CommitStep(name, before.decode(), after.decode(), bool(text))


def commit_authors(journal: Journal, files: Collection[tuple[str, Version]]) -> dict[tuple[str, Version], str]:
    """Who made the last commit that brought each of these versions of a path, as far as the journal knows.

    What a folder had when it joined a hub was written before.
    """
    found: dict[tuple[str, Version], str] = {}
    wanted = {*files}
    for line, _ in journal.finished(b"") if wanted else ():
        head = _HEAD.match(line)
        if not head or (head[3], head[4]) == (b'"user"', f'"{JOINED}"'.encode()):
            continue
        for path, _, after, _ in _STEP.findall(line, head.end()):
            with suppress(ValueError):  # rotten, or hostile
                if (key := (json.loads(path), after.decode())) in wanted:
                    found[key] = json.loads(head[3])
                    wanted.remove(key)
        if not wanted:
            break
    return found


def read_commits(journal: Journal, ids: Collection[str]) -> dict[str, Commit]:
    """These commits with their texts, as far as they are there, in one pass from the newest on."""
    found: dict[str, Commit] = {}
    wanted = {id.encode() for id in ids}
    for line, texts in journal.finished(b"") if wanted else ():
        head = _HEAD.match(line)
        if head and head[1] in wanted:
            if commit := decode(line, texts):
                found[commit.id] = commit
            wanted.remove(head[1])
            if not wanted:
                break
    return found
