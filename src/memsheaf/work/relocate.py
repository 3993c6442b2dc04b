"""Move a project's memory between home and a repository, with its tasks, sessions, logs and journals."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from glob import escape, glob
from itertools import count
from typing import NamedTuple

from memsheaf.errors import PathRefused, ScopeRefused, StoreFailed, hinted
from memsheaf.guard.paths import CATALOG, fold
from memsheaf.index.database import database_for
from memsheaf.scope import checkout_of, has_hub, inside, list_roots
from memsheaf.state import State
from memsheaf.store import ABSENT, HISTORY, Change, Version, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.git_checkout import remove_empty
from memsheaf.store.safe_dir import Folder, walk
from memsheaf.transfer import Locations, find_ledger, list_files, select_steps
from memsheaf.worktree import open_root


class MovedProject(NamedTuple):
    """The outcome of a move.

    `files` are in their new place, `renamed` those of them that got another name there, because another text has
    theirs. `left` were left behind, each with why.
    """

    files: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...] = ()
    left: tuple[tuple[str, str], ...] = ()


def move(places: Locations, switch: Callable[[], None], *, keep: Collection[str] | None = None) -> MovedProject:
    """Move a project's folder with all its roots, journals, and what is kept about them in the state directory.

    `switch` makes the target the project's memory. A target that is not there yet is made by one rename. Into one
    that is, everything is copied without touching a text of it; then comes the switch, then the source is removed,
    except what is in `keep`: until the switch the old place is complete, and from there on the new one. After a
    crash, the same call completes it. What others committed to a repository does not leave it.

    Raises:
        StoreFailed, Busy: it could not be done; the source is as it was.
        ScopeRefused: it has a hub, which can move only with the whole folder.
    """
    source, target = places.source, places.target
    refuse_hub(places)
    if not os.path.isdir(source):
        switch()
        moved = MovedProject(())
    elif keep is None and _can_rename(places):
        moved = _rename(places, switch)
    else:
        moved = _merge(places, switch, keep or ())
    for root in list_roots(target):
        old, new = os.path.join(source, root), os.path.join(target, root)
        State.of(new, places.state).absorb(State.of(old, places.state))
        _forget_index(old, places.cache)
    return moved


def refuse_hub(places: Locations) -> None:
    """Raise ScopeRefused when a hub would not know of the move. A folder that is renamed at home takes it along."""
    source, target, home = places[:3]
    is_other_place = checkout_of(target, home) or os.path.lexists(target)
    if is_other_place and (has_hub(source, home) or has_hub(target, home)):
        hint = (
            "`memsheaf hub remove project` takes it away, in a renamed folder under the old name; the memories stay."
        )
        raise hinted(ScopeRefused("this project's memory has a hub, which would not know of the move"), hint)


def contents(folder: str) -> list[str]:
    """Return the files of all roots of a project's folder."""
    return [
        inside(root, path) for root in list_roots(folder) for path in list_files(open_root(folder, root, "")).files
    ]


def _can_rename(places: Locations) -> bool:
    """Return True if the target and its journal are not there yet, and the source is on the same file system."""
    try:
        if os.path.lexists(places.target) or os.path.lexists(places.open_target("").journals):
            return False
        return os.stat(places.source).st_dev == os.stat(os.path.dirname(places.target)).st_dev
    except OSError as error:
        raise _failed(places.source, "moved", error) from error


def _rename(places: Locations, switch: Callable[[], None]) -> MovedProject:
    """Move the folder in one step."""
    source, target = places.source, places.target
    files: list[str] = []
    try:
        for root in list_roots(source):
            present = list_files(places.open_source(root)).files
            files += (inside(root, path) for path in present)
            if ledger := find_ledger(target, root, places):
                ledger.add([(path, version_of(data)) for path, data in present.items()], "user")
        switch()  # before the rename: as long as the target is not there, the source counts
        os.rename(source, target)
        for folder in {os.path.dirname(source), os.path.dirname(target)}:
            with Folder.open(folder) as opened:
                opened.sync()
        for root in list_roots(target):
            store = FolderStore(os.path.join(target, root), checkout=checkout_of(target, places.home))
            if store.left_journal:  # it is ours, whatever git says of the place
                store.bring_journal()
    except OSError as error:
        raise _failed(source, "moved", error) from error
    return MovedProject(tuple(files))


def _failed(folder: str, verb: str, error: OSError) -> StoreFailed:
    return StoreFailed(f"{folder!r} cannot be {verb}: {error.strerror or error}")


def _merge(places: Locations, switch: Callable[[], None], keep: Collection[str]) -> MovedProject:
    """Copy every root, switch, and remove what was copied."""
    files: list[str] = []
    renamed: list[tuple[str, str]] = []
    left: list[tuple[str, str]] = []
    with ExitStack() as locks:
        copies: dict[str, dict[str, str]] = {}
        for root in list_roots(places.source):
            store = places.open_source(root)
            store.adopt(None)
            locks.enter_context(store.still())
            copies[root] = _copy_root(root, places)
            for path, name in copies[root].items():
                files.append(inside(root, name))
                if path != name:
                    renamed.append((inside(root, path), inside(root, name)))
        switch()
        for root, names in reversed(copies.items()):
            left += _clear_root(places, root, names, keep)
    return MovedProject(tuple(files), tuple(renamed), tuple(left))


def _copy_root(root: str, places: Locations) -> dict[str, str]:
    """Bring the files of a root and their past into another, as one commit; return the name of each there."""
    store, target = places.open_source(root), places.open_target(root)
    source_ledger = find_ledger(places.source, root, places)
    target_ledger = find_ledger(places.target, root, places)
    target.recover()
    present = list_files(target).files
    taken = {fold(path): path for path in present}
    names: dict[str, str] = {}
    changes: list[Change] = []
    written: list[tuple[str, Version]] = []
    for path, data in list_files(store).files.items():
        if source_ledger and not source_ledger.knows(path, version_of(data)):
            continue
        for name in _alternatives(path):
            other = taken.get(fold(name))
            if other is None:
                taken[fold(name)] = name
                changes.append(Change(name, data, ABSENT))
            elif other != name or present.get(name) != data:
                continue
            names[path] = name
            written.append((name, version_of(data)))
            break
    past = reversed(list(store.history()))
    target.graft(select_steps(past, names.keys(), names), store.buried_all())
    if changes:
        target.commit(changes, by="user", why=f"move from {places.source}")
        _copy_times(store, target, names)
    if target_ledger:
        target_ledger.add(written, "user")
    for path, day in store.uses_noted()[0].items():
        target.add_uses(day, [names.get(path, path)])
    target.close()
    return names


def _copy_times(store: FolderStore, target: FolderStore, names: Mapping[str, str]) -> None:
    """Give the copies the times at which the files were last changed."""
    stamps = store.stamps(names)
    with suppress(OSError, PathRefused), Folder.open(target.root) as folder:
        for path, name in names.items():
            if stamp := stamps[path]:
                with walk(folder, name) as (within, base):
                    os.utime(os.path.join(within.path, base), ns=(stamp[0], stamp[0]), follow_symlinks=False)


def _alternatives(path: str) -> Iterator[str]:
    """Yield a path, and the names it can have where that is taken.

    >>> from itertools import islice
    >>> list(islice(_alternatives("NOTES.md"), 3))
    ['NOTES.md', 'NOTES-2.md', 'NOTES-3.md']
    """
    yield path
    stem, dot, suffix = path.rpartition(".")
    yield from (f"{stem}-{number}{dot}{suffix}" for number in count(2))


def _clear_root(
    places: Locations, root: str, names: Mapping[str, str], keep: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Remove what was copied from a root, with its journal; yield what stays, and why."""
    store, target = places.open_source(root), places.open_target(root)
    listed = list_files(store)
    try:
        with Folder.open(store.root) as folder:
            for path, data in listed.files.items():
                if inside(root, path) in keep:
                    continue
                if path not in names:
                    yield inside(root, path), "it was not written here; `memsheaf trust` accepts it"
                elif data != target.read(names[path]).data:
                    yield inside(root, path), "it was changed meanwhile; do it again to bring that, too"
                else:
                    with walk(folder, path) as (within, base):
                        within.unlink(base)
            yield from ((inside(root, path), why) for path, why in listed.unfit)
            if inside(root, CATALOG) not in keep and store.is_published(CATALOG):
                with suppress(FileNotFoundError):
                    folder.unlink(CATALOG)
    except OSError as error:
        raise _failed(store.root, "cleared", error) from error
    shutil.rmtree(os.path.join(store.journals, HISTORY), ignore_errors=True)
    for place in (store.root, store.journals):
        remove_empty(place)


def _forget_index(root: str, cache: str) -> None:
    """Remove the index of a root that is no more: it holds texts."""
    begin = os.path.basename(database_for(root, cache)).partition("-")[0]
    for place in glob(f"{escape(cache)}/{begin}*"):
        with suppress(OSError):
            os.unlink(place)
