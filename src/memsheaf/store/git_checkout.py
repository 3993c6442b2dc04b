"""A git checkout by its files alone: its HEAD, the folder for journals, what git ignores. Nothing is run."""

from __future__ import annotations

import os
import re
from contextlib import suppress

from memsheaf.errors import PathRefused
from memsheaf.guard.paths import CATALOG
from memsheaf.scope import JOURNALS_FOLDER, foreign_owner
from memsheaf.store import HISTORY
from memsheaf.store.safe_dir import Folder, read_file, stage, walk

IGNORED = f"{HISTORY}/\nsessions/\nlogs/\n{CATALOG}\n"
"""The files that git leaves out of a repository's memory: the history, what lasts one conversation, what you said,
and the catalog: a file that each save changes would keep git from switching branches."""
ITSELF_TOO = f".gitignore\n{CATALOG}\n"  # the same for a checkout that nobody prepared; also ignores itself
_LARGEST = 16 << 20  # of packed refs
_WORKTREE = r"(?m)^\s*worktree\s*=\s*(.+?)\s*$"


def head_of(checkout: str) -> str:
    """Return the branch and commit that a checkout is at; "" if that cannot be told, or git is at work there."""
    git = _find_git(checkout)
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
    """Return the folder for the history of a root, in the folder of git that belongs to the checkout around it.

    The root itself when that folder cannot be told, or is on another file system, from where nothing can be renamed.
    """
    git = _git_folder(checkout) if checkout else ""
    place = os.path.realpath(root)
    below = os.path.relpath(place, os.path.realpath(checkout)) if git else ".."
    if below.partition(os.sep)[0] == "..":
        return root
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    if os.stat(git).st_dev != os.stat(place).st_dev:
        return root
    return os.path.normpath(os.path.join(git, JOURNALS_FOLDER, below))


def keep_out_of_git(folder: Folder, ignored: str = "*\n") -> bool:
    """Give a folder an ignore file where it has none of its own, and say whether that was so.

    A private folder has its own, with all in it: whatever else is checked out around it, it is never committed.
    """
    try:
        if ignored != IGNORED or read_file(folder, ".gitignore", 64) != ITSELF_TOO.encode():
            folder.stat(".gitignore")
            return False
        folder.unlink(".gitignore")
    except FileNotFoundError:
        pass
    with suppress(FileExistsError):
        stage(folder, ".gitignore", ignored.encode(), mode=0o644)
    return True


def remove_empty(root: str) -> None:
    """Remove the folders below a root, and the root, that hold nothing but our ignore file."""
    ours = ("*\n", IGNORED, ITSELF_TOO)
    for folder, _, files in os.walk(root, topdown=False):
        with suppress(OSError, UnicodeDecodeError):
            place = os.path.join(folder, ".gitignore")
            if files == [".gitignore"]:
                with open(place, encoding="utf-8") as file:
                    text = file.read(256)
                if text in ours and os.listdir(folder) == [".gitignore"]:
                    os.unlink(place)
            os.rmdir(folder)


def _find_git(checkout: str) -> str:
    """Return the folder of git that a checkout names; "" if it names none."""
    git = os.path.join(checkout, ".git")
    if not os.path.isfile(git):
        return git
    target = _read(checkout, ".git").partition("gitdir:")[2].strip()
    return os.path.join(checkout, target) if target else ""


def _git_folder(checkout: str) -> str:
    """Return the folder that git has for a checkout; "" for another user's, or one of no checkout."""
    git = os.path.join(checkout, ".git")
    if foreign_owner(git) is not None or os.path.islink(git):
        return ""
    if os.path.isdir(git):
        return git
    private = os.path.realpath(_find_git(checkout) or git)
    named = re.search(_WORKTREE, _read(private, "config"))  # of a submodule
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
