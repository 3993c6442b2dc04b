"""Differences between versions of a memory, and which commit wrote each line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, unified_diff

from memsheaf.store import Commit
from memsheaf.values import NamedTuple


class Blamed(NamedTuple):
    """One line of a memory and the commit it came with; an empty `commit` is older than the journal."""

    line: str
    commit: str
    at: str
    by: str


def diff(path: str, old: str, new: str, *, labels: tuple[str, str] = ("before", "after")) -> str:
    """Show how one text became another, as `diff -u` does; "" when they are the same."""
    lines = unified_diff(
        old.split("\n"), new.split("\n"), f"{path}  {labels[0]}", f"{path}  {labels[1]}", lineterm=""
    )
    return "\n".join(lines)


def blame(present: str, commits: Iterable[Commit]) -> list[Blamed]:
    """Say for each line of the present text which commit brought it. `commits` come newest first."""
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
