"""Where a git checkout is at, and where its journals are, by its files alone: nothing is run, no link is followed."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from memsheaf.errors import PathRefused
from memsheaf.store.safe_dir import Folder, read_file, walk
from memsheaf.trusted_repositories import foreign_owner

JOURNALS = "memsheaf"
"""The folder beside git's own files for journals: no commit can put a file there, and no checkout replaces one."""
_LARGEST = 16 << 20  # of packed refs
_WORKTREE = re.compile(r"(?m)^\s*worktree\s*=\s*(.+?)\s*$")


def head_of(checkout: str) -> str:
    """Which branch and commit a checkout is at; "" when that cannot be told, or git is at work there."""
    git = os.path.join(checkout, ".git")
    if os.path.isfile(git):
        target = _read(checkout, ".git").partition("gitdir:")[2].strip()
        git = os.path.join(checkout, target) if target else ""
    if not git or os.path.lexists(os.path.join(git, "index.lock")):
        return ""
    head = _read(git, "HEAD").strip()
    name = head.partition("ref: ")[2]
    if not name:
        return head
    common = os.path.join(git, _read(git, "commondir").strip() or ".")
    if not name.startswith("refs/") or ".." in name:
        return ""
    loose = _read(git, name) or _read(common, name)
    packed = (line for line in _read(common, "packed-refs").split("\n") if line.endswith(f" {name}"))
    return f"{name} {loose.strip() or next(packed, '') or _read(common, 'reftable/tables.list')}"


def journals_of(root: str, checkout: str) -> str:
    """The folder for the journal of a root, in the folder of git that belongs to the checkout around it.

    The root itself when that folder cannot be told, or is on another file system, from where nothing can be renamed.
    """
    git = _git_folder(checkout) if checkout else ""
    place = os.path.realpath(root)
    below = os.path.relpath(place, os.path.realpath(checkout)) if git else ".."
    if below.partition(os.sep)[0] == "..":
        return root
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    return os.path.normpath(os.path.join(git, JOURNALS, below)) if _device(git) == _device(place) else root


def _device(path: str) -> int:
    return os.stat(path).st_dev


def _git_folder(checkout: str) -> str:
    """The folder in which git keeps what it knows of a checkout; "" for another user's, or one of no checkout."""
    git = os.path.join(checkout, ".git")
    if foreign_owner(git) is not None:
        return ""
    if os.path.isdir(git) and not os.path.islink(git):
        return git
    target = _read(checkout, ".git").partition("gitdir:")[2].strip()
    private = os.path.realpath(os.path.join(checkout, target)) if target else ""
    named = _WORKTREE.search(_read(private, "config")) if private else None  # of a submodule
    back = os.path.dirname(_read(private, "gitdir").strip()) or (named[1] if named else "")
    known = bool(back) and os.path.realpath(os.path.join(private, back)) == os.path.realpath(checkout)
    return private if known else ""


def _read(folder: str, path: str) -> str:
    with (
        suppress(OSError, PathRefused, ValueError),
        Folder.open(folder) as opened,
        walk(opened, path) as (inner, name),
    ):
        return os.fsdecode(read_file(inner, name, _LARGEST))
    return ""
