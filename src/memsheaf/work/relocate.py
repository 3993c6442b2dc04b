"""Move a project's memory between home and a repository, with its tasks, sessions, logs and journals."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, suppress
from itertools import count
from typing import NamedTuple

from memsheaf.errors import ScopeRefused, StoreFailed
from memsheaf.guard.paths import CATALOG, fold, with_suffix
from memsheaf.index.database import abandoned, remove
from memsheaf.scope import checkout_of, has_hub, inside, list_roots
from memsheaf.state import State
from memsheaf.store import ABSENT, HISTORY, Change, version_of
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


def move(places: Locations, switch: Callable[[], None], *, keep: Collection[str] = ()) -> MovedProject:
    """Move a project's folder with all its roots, journals, and what is kept about them in the state directory.

    `switch` makes the target the project's memory. A folder at home is renamed where nothing is in the way. Else
    everything is copied without touching a text that is there; then comes the switch, then the source is removed,
    except what is in `keep`: until the switch the old place is complete, and from there on the new one. After a
    crash, the same call completes it. What others committed to a repository does not leave it.

    Raises:
        StoreFailed, Busy: it could not be done; the source is as it was.
        ScopeRefused: it has a hub, which can move only with the whole folder.
    """
    source, target = places.source, places.target
    refuse_hub(places)
    try:
        if not os.path.isdir(source):
            switch()
            moved = MovedProject(())
        elif _is_in_the_way(places):
            moved = _merge(places, switch, keep)
        else:
            moved = _rename(places, switch)
    except OSError as error:
        raise StoreFailed(f"{source!r} cannot be moved: {error.strerror or error}") from error
    for root in list_roots(target):
        old, new = os.path.join(source, root), os.path.join(target, root)
        State.of(new, places.state).absorb(State.of(old, places.state))
    remove(abandoned(places.cache))  # the index of a root that is no more holds texts
    return moved


def refuse_hub(places: Locations) -> None:
    """Raise ScopeRefused when a hub would not know of the move. A folder that is renamed at home takes it along."""
    source, target, home = places[:3]
    is_other_place = checkout_of(target, home) or os.path.lexists(target)
    if is_other_place and (has_hub(source, home) or has_hub(target, home)):
        hint = "`memsheaf hub remove -s project` takes it away: in a renamed folder under the old name; they stay."
        raise ScopeRefused("this project's memory has a hub, which would not know of the move", hint=hint)


def contents(folder: str) -> list[str]:
    """Return the files of all roots of a project's folder."""
    return [
        inside(root, path) for root in list_roots(folder) for path in list_files(open_root(folder, root, "")).files
    ]


def _is_in_the_way(places: Locations) -> bool:
    """Return True unless one rename moves the folder: nothing is there yet, and both are on one file system."""
    if os.path.lexists(places.target) or os.path.lexists(places.open_target("").journals):
        return True
    if checkout_of(places.source, places.home):
        return True
    return os.stat(places.source).st_dev != os.stat(os.path.dirname(places.target)).st_dev


def _rename(places: Locations, switch: Callable[[], None]) -> MovedProject:
    """Move a folder at home in one step."""
    files = contents(places.source)
    for root in list_roots(places.source):
        if ledger := find_ledger(places.target, root, places):
            present = list_files(places.open_source(root)).files
            ledger.add([(path, version_of(data)) for path, data in present.items()])
    switch()  # before the rename: as long as the target is not there, the source counts
    os.rename(places.source, places.target)
    for root in list_roots(places.target):
        if (store := places.open_target(root)).left_journal:  # it is ours, whatever git says of the place
            store.bring_journal()
    return MovedProject(tuple(files))


def _merge(places: Locations, switch: Callable[[], None], keep: Collection[str]) -> MovedProject:
    """Copy every root, switch, and remove what was copied."""
    copies: dict[str, dict[str, str]] = {}
    with ExitStack() as locks:
        for root in list_roots(places.source):
            store = places.open_source(root)
            store.adopt(None)
            locks.enter_context(store.transaction())
            copies[root] = _copy_root(root, places)
        switch()
        left = [found for root in reversed(copies) for found in _clear_root(places, root, copies[root], keep)]
    pairs: list[tuple[str, str]] = []
    for root, names in copies.items():
        pairs += [(inside(root, path), inside(root, name)) for path, name in names.items()]
    renamed = tuple((path, name) for path, name in pairs if path != name)
    return MovedProject(tuple(name for _, name in pairs), renamed, tuple(left))


def _copy_root(root: str, places: Locations) -> dict[str, str]:
    """Bring the files of a root and their past into another, as one commit; return the name of each there.

    A file whose name another text has there gets a number behind its name.
    """
    store, target = places.open_source(root), places.open_target(root)
    source_ledger = find_ledger(places.source, root, places)
    target_ledger = find_ledger(places.target, root, places)
    target.recover()
    present = list_files(target).files
    taken = {fold(path): path for path in present}
    names: dict[str, str] = {}
    changes: list[Change] = []
    for path, data in list_files(store).files.items():
        if source_ledger and not source_ledger.knows(path, version_of(data)):
            continue
        for name in (path if number == 1 else with_suffix(path, f"-{number}") for number in count(1)):
            other = taken.setdefault(fold(name), name)
            if other == name and name not in present:
                present[name] = data
                changes.append(Change(name, data, ABSENT))
            if other == name and present[name] == data:
                names[path] = name
                break
    target.graft(select_steps(reversed(list(store.history())), names.keys(), names), store.buried_all())
    if changes:
        target.commit(changes, by="user", why=f"move from {places.source}")
        stamps = store.stamps(names)
        with Folder.open(target.root) as folder:
            for path, name in names.items():
                if stamp := stamps[path]:  # when it was last changed
                    with walk(folder, name) as (within, base):
                        os.utime(os.path.join(within.path, base), ns=(stamp[0], stamp[0]), follow_symlinks=False)
    if target_ledger:
        target_ledger.add([(name, version_of(present[name])) for name in names.values()])
    for path, day in store.uses_noted().items():
        target.add_uses(day, [names.get(path, path)])
    target.close()
    return names


def _clear_root(
    places: Locations, root: str, names: dict[str, str], keep: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Remove what was copied from a root, with its journal; yield what stays, and why."""
    store, target = places.open_source(root), places.open_target(root)
    listed = list_files(store)
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
    shutil.rmtree(os.path.join(store.journals, HISTORY), ignore_errors=True)
    for place in (store.root, store.journals):
        remove_empty(place)
