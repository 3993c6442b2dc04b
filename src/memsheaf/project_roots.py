"""The roots in a project's folder, each with a journal of its own.

There are its own files, `tasks/SLUG/`, `sessions/ID/`, and in each of these `logs/`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from memsheaf.errors import MemsheafError, PathRefused, ScopeRefused
from memsheaf.guard.paths import CATALOG, shown
from memsheaf.scope import (
    FOLDER,
    check_label,
    checkout_of,
)
from memsheaf.store import ABSENT, Commit
from memsheaf.store.atomic_replace import READ_LIMIT
from memsheaf.store.folder import FolderStore
from memsheaf.store.git_checkout import IGNORED, keep_out_of_git
from memsheaf.store.safe_dir import Folder, walk
from memsheaf.store.state import State
from memsheaf.store.trust import TrustLedger
from memsheaf.worktree import bring_journal, in_other_commits

INNER = ("tasks", "sessions")  # the folders of a project in which each folder is a scope of its own
LOGS = "logs"


def inside(root: str, path: str) -> str:
    """Return a path of a root as it is from the project's folder.

    >>> inside("tasks/login", "TASK.md"), inside("", "a.md")
    ('tasks/login/TASK.md', 'a.md')
    """
    return f"{root}/{path}" if root else path


def apart(name: str) -> tuple[str, str]:
    """Return the root that a file of a project's folder is in, and its path in that. Raises PathRefused.

    >>> apart("tasks/login/facts/a.md"), apart("logs/2026/11/2026-11-15.md"), apart("facts/a.md")
    (('tasks/login', 'facts/a.md'), ('logs', '2026/11/2026-11-15.md'), ('', 'facts/a.md'))
    """
    root, path = "", name
    first, _, rest = path.partition("/")
    label, _, below = rest.partition("/")
    if first in INNER and below:
        try:
            check_label(label, first)
        except ScopeRefused as error:
            raise PathRefused(name, str(error)) from None
        root, path = f"{first}/{label}", below
    if path.startswith(f"{LOGS}/"):
        root, path = inside(root, LOGS), path.removeprefix(f"{LOGS}/")
    return root, path


def roots(root: str) -> list[str]:
    """Return the roots in a project's folder, "" for its own; no link is followed.

    >>> roots("/nowhere")
    ['']
    """
    found = [""]
    for layer in INNER:
        for name in _folders(root, layer):
            with suppress(PathRefused):
                if apart(f"{layer}/{name}/any.md")[0] == f"{layer}/{name}":
                    found.append(f"{layer}/{name}")
    return found + [inside(one, LOGS) for one in found if LOGS in _folders(root, one)]


def _folders(root: str, prefix: str) -> list[str]:
    with suppress(OSError, PathRefused), Folder.open(root) as top, walk(top, inside(prefix, "any")) as (folder, _):
        return sorted(entry.name for entry in folder.scan() if entry.is_dir(follow_symlinks=False))
    return []


class RootFiles(NamedTuple):
    """The files of one root with their bytes, and those that cannot be carried, with why."""

    files: dict[str, bytes]
    unfit: list[tuple[str, str]]


def list_files(store: FolderStore) -> RootFiles:
    """Read all files of a root."""
    problems = {entry.path: entry.problem for entry in store.scan()}
    problems |= dict.fromkeys(store.events(), "")
    files: dict[str, bytes] = {}
    unfit: dict[str, str] = {}
    for path, problem in problems.items():
        if problem:
            unfit[path] = problem
        elif path and not path.endswith("/"):
            try:
                data = store.read(path).data
            except MemsheafError as error:
                unfit[path] = str(error)
                continue
            if len(data) <= READ_LIMIT:
                files[path] = data
            else:
                unfit[path] = f"it is larger than {READ_LIMIT >> 10} KiB"
    for path in _others(store.root) - files.keys() - unfit.keys():
        unfit[path] = "it is no Markdown"
    return RootFiles(dict(sorted(files.items())), sorted(unfit.items()))


def _others(root: str) -> set[str]:
    """The files of a root, by whatever name, without hidden ones, the catalog and what is in other roots."""
    found = set()
    for folder, names, files in os.walk(root):
        prefix = os.path.relpath(folder, root).replace(os.sep, "/") + "/"
        prefix = "" if prefix == "./" else prefix
        hidden = [name for name in names if name.startswith(".") or (not prefix and name in (*INNER, LOGS))]
        names[:] = [name for name in names if name not in hidden]
        found |= {shown(prefix + name) for name in files if not name.startswith(".") and prefix + name != CATALOG}
    return found


class Locations(NamedTuple):
    """Where a project's folder is and shall be, and the directories beside it; for a team its ledger."""

    source: str
    target: str
    home: str
    state: str
    cache: str
    team: TrustLedger | None = None

    def leaving(self, root: str) -> FolderStore:
        """The store of a root where it is."""
        return open_root(self.source, root, checkout_of(self.source, self.home))

    def arriving(self, root: str) -> FolderStore:
        """The store of a root where it shall be."""
        return open_root(self.target, root, checkout_of(self.target, self.home))


def open_root(folder: str, root: str, checkout: str) -> FolderStore:
    """The store of a root in a project's folder."""
    place = os.path.join(folder, root)
    private = place if _is_log(root) else os.path.dirname(place) if root.startswith("sessions/") else ""
    store = FolderStore(place, checkout=checkout, private=private)
    if store.left_journal:
        bring_journal(store)
    return store


class LostFiles(NamedTuple):
    """The files of a folder and its inner roots that went with it, and those of them that git has on a branch."""

    files: tuple[str, ...]
    in_git: tuple[str, ...]


def find_lost(store: FolderStore) -> LostFiles:
    """Return what went with the whole folder of a scope, its tasks, sessions and logs included."""
    files = [inside(root, path) for root, inner in _stores(store) for path in inner.lost()]
    in_git = in_other_commits(store.checkout, store.root, files) if files else ()
    return LostFiles(tuple(files), tuple(sorted(in_git)))


def restore_lost(store: FolderStore, *, by: str, with_git: bool, dismiss: bool) -> list[str]:
    """Bring back what went with the whole folder, or `dismiss` it, and return the files that are back.

    What git has on a branch, and not in the present commit, comes back only `with_git`.
    """
    listed = find_lost(store)
    restored: list[str] = []
    for root, inner in _stores(store) if store.may_have_lost() else ():
        lost = inner.lost()
        if dismiss:
            inner.drop_lost(lost)
            continue
        except_for = [path for path in lost if inside(root, path) in listed.in_git and not with_git]
        restored += [inside(root, path) for path in inner.restore_lost(except_for=except_for, by=by)]
    if restored and store.root == os.path.join(os.path.realpath(store.checkout), FOLDER):
        with Folder.open(store.root) as folder:
            keep_out_of_git(folder, IGNORED)
    return restored


def _stores(store: FolderStore) -> Iterator[tuple[str, FolderStore]]:
    """Yield the stores of the roots within a folder, which may be gone, and then its own."""
    for root in roots(store.journals)[1:]:
        yield root, open_root(store.root, root, store.checkout)
    yield "", store


def ledger_of(folder: str, root: str, places: Locations) -> TrustLedger | None:
    """The ledger of what this machine wrote in a root; None where no other writes."""
    checkout = checkout_of(folder, places.home)
    if not checkout:
        return places.team if not root else None
    owner = root.removesuffix(LOGS).rstrip("/") if _is_log(root) else root
    ledger = TrustLedger(State.of(os.path.join(folder, owner), places.state), checkout)
    return ledger.below(f"{LOGS}/") if _is_log(root) else ledger


def _is_log(root: str) -> bool:
    return root == LOGS or root.count("/") == 2


def steps_of(past: Iterable[Commit], there: Collection[str], names: Mapping[str, str]) -> list[Commit]:
    """The steps of texts that are there or were removed for good; under other `names` where they got some.

    A text that the past ends with and that is not there would be taken for one that somebody removed.
    """
    commits = list(past)
    last = {step.path: step.after for commit in commits for step in commit.revisions}
    there = {*there, *(path for path, version in last.items() if version == ABSENT)}
    renamed = []
    for commit in commits:
        steps = (step for step in commit.revisions if step.path in there)
        revisions = tuple(step._replace(path=names.get(step.path, step.path)) for step in steps)
        if revisions:
            renamed.append(commit._replace(revisions=revisions))
    return renamed
