"""Questions about commits, newest first: which one is meant, which is not undone, which text a version was."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import dropwhile, groupby, islice
from typing import NamedTuple, Protocol

from memsheaf.errors import NotInHistory
from memsheaf.store import ABSENT, Commit, Version
from memsheaf.store.history import History, is_path


class CommitSource(Protocol):
    """What remembers commits."""

    def history(self, path: str | None = None, /) -> Iterator[Commit]:
        """What happened, newest first; with `path`, to that text only."""

    def find(self, commit_id: str, /) -> Commit:
        """The commit with this id. Raises NotInHistory."""


OTHERS = "@"  # how the author of a commit begins that another member of a team made: `@ana`
HUB, JOINED = "hub", "joined the hub"  # author of a commit that merges with a hub; reason of the first one
ERASED = "erased a memory"  # the reason of a commit that left the journal without others
RENAMING = ("rename ", "replace ")  # how the reasons of commits begin that give a memory another name


def last_standing(commits: Iterable[Commit], *, except_by: str, events: bool) -> Commit:
    """The newest commit that was not undone, nor is an undo, nor came from a hub, nor was replaced by one that did.

    Raises NotInHistory.
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
    raise NotInHistory("nothing is left to undo")


def without_known(commits: Sequence[Commit], known: Collection[str]) -> list[Commit]:
    """The commits that a journal lacks, without the paths whose past it has from others of these already."""
    had = {step.path for one in commits if one.id in known for step in one.revisions}
    fresh = [one for one in commits if one.id not in known]
    kept = [one._replace(revisions=tuple(step for step in one.revisions if step.path not in had)) for one in fresh]
    return [one for one, was in zip(kept, fresh, strict=True) if one.revisions or not was.revisions]


def find_version(commits: Iterable[Commit], path: str, version: Version) -> bytes:
    """The text of the version that begins like this. Raises NotInHistory."""
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
    raise NotInHistory(f"the journal holds {known} {version[:12]!r} of {path!r}")


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
    except NotInHistory:
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


def read_summaries(history: History, since: str) -> list[CommitSummary]:
    """Return the commits about Markdown files from a moment on, newest first."""
    sql = """
SELECT commits.n, id, at, author, why, undoes, path, before, after,
  EXISTS (SELECT 1 FROM texts WHERE version IN (before, after))
FROM commits JOIN changes USING (n) WHERE at >= ? AND path LIKE '%.md' ORDER BY commits.n DESC, place"""
    found = []
    for (_, id, at, by, why, undoes), rows in groupby(history.rows(sql, since), key=lambda row: row[:6]):
        steps = tuple(CommitStep(row[6], row[7], row[8], bool(row[9])) for row in rows if is_path(row[6]))
        if steps:
            found.append(CommitSummary(id, at, by, why, undoes, steps))
    return found


def commit_authors(history: History, files: Collection[tuple[str, Version]]) -> dict[tuple[str, Version], str]:
    """Who made the last commit that brought each of these versions of a path, as far as the history knows.

    What a folder had when it joined a hub was written before.
    """
    sql = (
        "SELECT author FROM changes JOIN commits USING (n) WHERE path = ? AND after = ?"
        f" AND NOT (author = 'user' AND why = '{JOINED}') ORDER BY n DESC LIMIT 1"
    )
    return {file: author for file in files for (author,) in history.rows(sql, *file)}
