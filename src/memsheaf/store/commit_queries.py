"""Questions about commits, newest first: which one is meant, which is not undone, which text a version was."""

from __future__ import annotations

from collections.abc import Iterable

from memsheaf.errors import NoSuchCommit, VersionGone
from memsheaf.store import Commit, Version


def find_commit(commits: Iterable[Commit], commit_id: str) -> Commit:
    """The commit with this id, or the only one of these. Raises NoSuchCommit."""
    found: list[Commit] = []
    for commit in commits:
        if commit.id == commit_id:
            return commit
        found.append(commit)
    if len(found) == 1:
        return found[0]
    raise NoSuchCommit(f"{len(found) or 'no'} commits begin with {commit_id!r}")


def last_standing(commits: Iterable[Commit], *, except_by: str, events: bool) -> Commit:
    """The newest commit that was not undone, nor is an undo. Raises NoSuchCommit."""
    undone: set[str] = set()
    for commit in commits:
        if commit.id in undone:
            continue
        if commit.undoes:
            undone.add(commit.undoes)
        elif commit.revisions and commit.by != except_by and (events or _is_about_memories(commit)):
            return commit
    raise NoSuchCommit("nothing is left to undo")


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


def _is_about_memories(commit: Commit) -> bool:
    return any(revision.path.endswith(".md") for revision in commit.revisions)
