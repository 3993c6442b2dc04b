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
from memsheaf.store import ABSENT, HISTORY, Change, Version, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.git_checkout import remove_empty
from memsheaf.store.safe_dir import Folder, walk
from memsheaf.store.state import State
from memsheaf.transfer import Locations, find_ledger, list_files, select_steps
from memsheaf.worktree import open_root


class MovedProject(NamedTuple):
    """What a move did: the files that are in their new place, those that got another name there because theirs was
    taken by another text, and those that were left behind, with why."""

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
    moved = MovedProject(())
    if os.path.isdir(source):
        moved = (_renamed(places, switch) if keep is None else None) or _merged(places, switch, keep or ())
    else:
        switch()
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
    """The files of all roots of a project's folder."""
    return [
        inside(root, path) for root in list_roots(folder) for path in list_files(open_root(folder, root, "")).files
    ]


def _renamed(places: Locations, switch: Callable[[], None]) -> MovedProject | None:
    """Move the folder in one step; None when the target is there, or on another file system."""
    source, target = places.source, places.target
    try:
        if os.path.lexists(target) or os.stat(source).st_dev != os.stat(os.path.dirname(target)).st_dev:
            return None
        files: list[str] = []
        if os.path.lexists(places.open_target("").journals):  # of a folder that somebody removed
            return None
        for root in list_roots(source):
            found = list_files(places.open_source(root)).files
            files += (inside(root, path) for path in found)
            if ledger := find_ledger(target, root, places):
                ledger.add([(path, version_of(data)) for path, data in found.items()], "user")
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
        raise StoreFailed(f"{source!r} cannot be moved: {error.strerror or error}") from error
    return MovedProject(tuple(files))


def _merged(places: Locations, switch: Callable[[], None], keep: Collection[str]) -> MovedProject:
    files: list[str] = []
    renamed: list[tuple[str, str]] = []
    left: list[tuple[str, str]] = []
    with ExitStack() as held:
        copied: dict[str, dict[str, str]] = {}
        for root in list_roots(places.source):
            store = places.open_source(root)
            store.adopt(None)
            held.enter_context(store.still())
            names = copied[root] = _copied(root, places)
            files += [inside(root, name) for name in names.values()]
            renamed += [(inside(root, path), inside(root, name)) for path, name in names.items() if path != name]
        switch()
        for root, names in reversed(copied.items()):
            left += _cleared(places, root, names, keep)
    return MovedProject(tuple(files), tuple(renamed), tuple(left))


def _copied(root: str, places: Locations) -> dict[str, str]:
    """Bring the files of a root and their past into another, as one commit; gives the name of each there."""
    store, target = places.open_source(root), places.open_target(root)
    ours, theirs = find_ledger(places.source, root, places), find_ledger(places.target, root, places)
    target.recover()
    present = list_files(target).files
    taken = {fold(path): path for path in present}
    names: dict[str, str] = {}
    changes: list[Change] = []
    written: list[tuple[str, Version]] = []
    for path, data in list_files(store).files.items():
        if ours and not ours.knows(path, version_of(data)):
            continue
        for name in _alternatives(path):
            if (other := taken.get(fold(name))) is None:
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
        _keep_times(store, target, names)
    if theirs:
        theirs.add(written, "user")
    for path, day in store.uses_noted()[0].items():
        target.add_uses(day, [names.get(path, path)])
    target.close()
    return names


def _keep_times(store: FolderStore, target: FolderStore, names: Mapping[str, str]) -> None:
    """Let files say that they were last changed when they were."""
    stamps = store.stamps(names)
    with suppress(OSError, PathRefused), Folder.open(target.root) as folder:
        for path, name in names.items():
            if stamp := stamps[path]:
                with walk(folder, name) as (within, base):
                    os.utime(os.path.join(within.path, base), ns=(stamp[0], stamp[0]), follow_symlinks=False)


def _alternatives(path: str) -> Iterator[str]:
    """A path, and the names it can have where that is taken.

    >>> from itertools import islice
    >>> list(islice(_alternatives("NOTES.md"), 3))
    ['NOTES.md', 'NOTES-2.md', 'NOTES-3.md']
    """
    yield path
    stem, dot, suffix = path.rpartition(".")
    yield from (f"{stem}-{number}{dot}{suffix}" for number in count(2))


def _cleared(
    places: Locations, root: str, names: Mapping[str, str], keep: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Remove what was copied from a root, with its journal; gives what stays, and why."""
    store, arrived = places.open_source(root), places.open_target(root)
    found = list_files(store)
    try:
        with Folder.open(store.root) as folder:
            for path, data in found.files.items():
                if inside(root, path) in keep:
                    continue
                if path not in names:
                    yield inside(root, path), "it was not written here; `memsheaf trust` accepts it"
                elif data != arrived.read(names[path]).data:
                    yield inside(root, path), "it was changed meanwhile; do it again to bring that, too"
                else:
                    with walk(folder, path) as (within, base):
                        within.unlink(base)
            yield from ((inside(root, path), why) for path, why in found.unfit)
            if inside(root, CATALOG) not in keep and store.is_published(CATALOG):
                with suppress(FileNotFoundError):
                    folder.unlink(CATALOG)
    except OSError as error:
        raise StoreFailed(f"{store.root!r} cannot be cleared: {error.strerror or error}") from error
    shutil.rmtree(os.path.join(store.journals, HISTORY), ignore_errors=True)
    for place in (store.root, store.journals):
        remove_empty(place)


def _forget_index(root: str, cache: str) -> None:
    """Remove the index of a root that is no more: it holds texts."""
    begin = os.path.basename(database_for(root, cache)).partition("-")[0]
    for place in glob(f"{escape(cache)}/{begin}*"):
        with suppress(OSError):
            os.unlink(place)
