"""A project in transit: exported and imported with all its layers, and moved between home and a repository.

A project's folder holds several roots, each with a journal of its own: the project's, `tasks/SLUG`, `sessions/ID`,
and `logs` in any of these. What is said here about a root holds for each of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import count

from memsheaf import archive
from memsheaf.archive import HISTORY, INNER, LOGS, Member, apart, inside
from memsheaf.editing import checked_import, refuse_secrets, vouched
from memsheaf.errors import (
    ArchiveRefused,
    CreateOnly,
    Exists,
    MemsheafError,
    PathRefused,
    SecretFound,
    StoreFailed,
    TextRefused,
)
from memsheaf.frontmatter import edited
from memsheaf.guard.paths import CATALOG, fold, is_fact, shown
from memsheaf.index.search import database_for
from memsheaf.memory import STRICT, Allow, Memory, parse
from memsheaf.scope import checkout_of
from memsheaf.store import ABSENT, Change, Commit, Version, version_of
from memsheaf.store.atomic_replace import READ_LIMIT
from memsheaf.store.folder import FolderStore, remove_empty
from memsheaf.store.journal import decode, encode
from memsheaf.store.safe_dir import Folder, walk
from memsheaf.store.state import State
from memsheaf.store.tombstones import Tombstone, from_lines, to_lines
from memsheaf.store.trust import TrustLedger
from memsheaf.values import NamedTuple
from memsheaf.worktree import bring_journal
from memsheaf.writer import Writer

SEGMENT = f"{HISTORY}/journal-000001.jsonl"
STONES = f"{HISTORY}/tombstones"


class Imported(NamedTuple):
    """What an import did: paths that came in, that were the same already, and that were refused, with why.

    `commits` is how many steps of the past came along.
    """

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    same: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]
    commits: int = 0


class Exported(NamedTuple):
    """What an export did: how many files were written, and which were left out, with why."""

    written: int
    left_out: tuple[tuple[str, str], ...]


class Moved(NamedTuple):
    """What a move did: the files that are in their new place, those that got another name there because theirs was
    taken by another text, and those that were left behind, with why."""

    files: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...] = ()
    left: tuple[tuple[str, str], ...] = ()


def roots(root: str) -> list[str]:
    """The roots in a project's folder, "" for its own; no link is followed.

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
    with suppress(OSError, PathRefused), ExitStack() as held:
        folder = held.enter_context(Folder.open(root))
        for step in filter(None, prefix.split("/")):
            folder = held.enter_context(folder.folder(step))
        return sorted(entry.name for entry in folder.scan() if entry.is_dir(follow_symlinks=False))
    return []


class _Found(NamedTuple):
    """The files of one root with their bytes, and those that cannot be carried, with why."""

    files: dict[str, bytes]
    unfit: list[tuple[str, str]]


def _look(store: FolderStore) -> _Found:
    files: dict[str, bytes] = {}
    unfit: list[tuple[str, str]] = []
    entries = [(entry.path, entry.problem) for entry in store.scan()]
    for path, problem in [*entries, *((path, "") for path in store.events())]:
        if problem:
            unfit.append((path, problem))
        elif path and not path.endswith("/"):
            try:
                files[path] = store.read(path).data
            except MemsheafError as error:
                unfit.append((path, str(error)))
                continue
            if len(files[path]) > READ_LIMIT:
                del files[path]
                unfit.append((path, f"it is larger than {READ_LIMIT >> 10} KiB"))
    others = _others(store.root) - files.keys() - {path for path, _ in unfit}
    unfit += [(path, "it is no Markdown") for path in others]
    return _Found(dict(sorted(files.items())), sorted(unfit))


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


# out


def export(places: Places, target: str, *, history: bool = False) -> Exported:
    """Write every file of every layer to a new zip, tar or folder, with `history` also the journals.

    What cannot be read whole is left out and named. What came with a repository is named for who imports it.

    Raises:
        ArchiveRefused: the target exists already.
        StoreFailed: it cannot be written.
    """
    left_out: list[tuple[str, str]] = []
    count = archive.write(target, _outgoing(places, history, left_out))
    return Exported(count, tuple(left_out))


def shared(places: Places) -> Iterator[str]:
    """The files of all roots of a project's folder that came with a repository: not written here, nor accepted."""
    for root in roots(places.source):
        if ledger := _ledger(places.source, root, places):
            files = _look(places.leaving(root)).files
            yield from (
                inside(root, path) for path, data in files.items() if not ledger.knows(path, version_of(data))
            )


def _outgoing(places: Places, history: bool, left_out: list[tuple[str, str]]) -> Iterator[tuple[str, bytes]]:
    for prefix in roots(places.source):
        store = places.leaving(prefix)
        found = _look(store)
        left_out += [(inside(prefix, path), why) for path, why in found.unfit]
        yield from ((inside(prefix, path), data) for path, data in found.files.items())
        if history:
            lines = [encode(commit, "") for commit in store.history()]
            yield from ((inside(prefix, SEGMENT), b"".join(reversed(lines))) for _ in lines[:1])
            stones = to_lines(store.buried_all())
            yield from ((inside(prefix, STONES), stones) for _ in stones[:1])
    if theirs := list(shared(places)):
        yield archive.SHARED, json.dumps(theirs, ensure_ascii=False).encode()


# in


def take_in(
    keeper: Writer,
    source: str,
    *,
    replace: bool = False,
    dry_run: bool = False,
    allow: Allow = STRICT,
    history: bool = False,
) -> Imported:
    """Import a folder or an archive, one commit a root. What is refused stays out and is named.

    What a memory of the scope says already is refused, too, unless `allow` says otherwise; whether it is worth
    keeping was decided where it comes from. With `history`, the past of what comes in comes along.

    Raises:
        ArchiveRefused: it reaches outside, or is too large; nothing was imported.
    """
    why = f"import {os.path.basename(os.path.abspath(source))}"
    if not allow.secrets:
        refuse_secrets(None, None, why)
    by_root: dict[str, list[Member]] = {"": []}
    for member in archive.read(source, history=history):
        by_root.setdefault(member.root, []).append(member)
    theirs = _taken_out(by_root[""])
    importing = [_Import(keeper, root, replace=replace, allow=allow) for root in by_root]
    for one in importing:
        one.shared = theirs
        one.plan(by_root[one.root])
    commits = sum(one.carry_out(why) for one in importing) if not dry_run else 0
    outcome = ([inside(one.root, path) for one in importing for path in one.outcome[what]] for what in _OUTCOMES)
    added, replaced, same = map(tuple, outcome)
    return Imported(added, replaced, same, tuple(pair for one in importing for pair in one.refused), commits)


_OUTCOMES = ("added", "replaced", "same")


def _taken_out(members: list[Member]) -> frozenset[str]:
    """The names of what came with a repository, from the member that lists them, which is taken out."""
    listed = [member for member in members if member.path == archive.SHARED]
    try:
        members[:] = [member for member in members if member not in listed]
        return frozenset(name for member in listed for name in json.loads(member.data))
    except (ValueError, TypeError, RecursionError):
        raise ArchiveRefused(f"its {archive.SHARED} cannot be understood") from None


class _Import:
    """What an import does to one root: the scope's own, where every gate of its memories stands, or one inside it."""

    def __init__(self, keeper: Writer, root: str, *, replace: bool, allow: Allow) -> None:
        self.root = root
        self.outcome: dict[str, list[str]] = {what: [] for what in _OUTCOMES}
        self.refused: list[tuple[str, str]] = []
        self.shared: Collection[str] = ()
        self._keeper = keeper
        own = keeper.store
        self._store = _store(own.root, root, own.checkout) if root else own
        if root and not keeper.read_only:
            self._store.recover()
        self._is_layer = bool(root) or keeper.scope.layer in ("task", "session")
        self._replace, self._allow = replace, allow
        self._changes: list[Change] = []
        self._parsed: dict[str, Memory] = {}
        self._past: list[Commit] = []
        self._stones: list[Tombstone] = []

    def plan(self, members: Sequence[Member]) -> None:
        """Look at each file, and decide."""
        keeper, facts = self._keeper, None
        keeper.index.ready()
        has_some = bool(keeper.index.total() or keeper.index.rows("trust = 'unconfirmed'"))
        for member in members:
            path, data = member.path, member.data
            try:
                if member.why:
                    raise TextRefused(member.why)
                if path.startswith(f"{HISTORY}/"):
                    self._take_past(member)
                    continue
                if not self.root.startswith(LOGS) and self.root and keeper.scope.layer != "project":
                    raise TextRefused(f"{member.name!r} belongs to a project; import it into one")
                found = self._find(path)
                memory = self._admitted(found.path if found else path, data, found)
                if member.name in self.shared and not (found and found.data == data):
                    memory = _doubted(memory)
                data = memory.data if found is None or found.data != data else data
                if not self.root:
                    keeper.refuse_context(memory.path, "import")
                if memory.source == "user" and not (found and found.data == data):  # nobody can say that for you
                    memory = vouched(memory, None, "import")
                    data = memory.data
                if found and found.data != data:
                    if not self._replace:
                        raise Exists(found.path)
                    if not self.root:
                        keeper.refuse_other_spelling(path, found)
                        keeper.refuse_rewriting(memory, found)
                retired: list[str] = []
                if not self.root and found is None:
                    if is_fact(memory.path):
                        facts = keeper.facts() if facts is None else facts
                        keeper.refuse_superseded(memory, [one for one in facts if one.path not in memory.supersedes])
                    retired = keeper.superseded_by(memory)
                    if retired and not self._replace:
                        raise Exists(retired[0], f"{memory.path!r} would retire it")
                if not self._allow.secrets:
                    refuse_secrets(memory, found)
                if has_some and not (self.root or found or self._allow.anyway) and memory.state == "ok":
                    keeper.refuse_duplicate(memory)
            except (TextRefused, Exists, CreateOnly, PathRefused) as error:
                self.refused.append((_named(member.name, error), str(error)))
                continue
            self.outcome["same" if found and found.data == data else "replaced" if found else "added"].append(path)
            self.outcome["replaced"] += retired
            self._changes.append(Change(memory.path, data, found.version if found else ABSENT))
            self._parsed[memory.path] = memory
        self._drop_superseded()

    def carry_out(self, why: str) -> int:
        """Do it; gives how many steps of the past came along."""
        self._keeper.require_writable()
        if not self._changes and not self._stones:
            return 0
        there = {change.path for change in self._changes}
        commits = self._store.graft(_of_these(self._past, there), self._stones) if self._past or self._stones else 0
        own = [change for change in self._changes if not self.root and change.path.endswith(".md")]
        if own:  # each was looked at
            self._keeper.commit(own, why, by="import", parsed=self._parsed, allow=Allow(secrets=True, anyway=True))
        if others := [change for change in self._changes if change not in own]:
            self._store.commit(others, by="import", why=why)
        return commits

    def _find(self, path: str) -> Memory | None:
        if not self.root and path.endswith(".md"):
            return self._keeper.find(path)
        with suppress(MemsheafError):
            return parse(path, self._store.read(path).data)
        return None

    def _admitted(self, path: str, data: bytes, found: Memory | None) -> Memory:
        """The memory, or the file of a layer, that these bytes are. Raises TextRefused."""
        own = self._is_layer or not path.endswith(".md")  # what a layer's file lacks, it lacked where it was made
        return checked_import(path, data, found or parse(path, data) if own else found)

    def _take_past(self, member: Member) -> None:
        if member.path == STONES:
            self._stones += from_lines(member.data)
            return
        lines = [line for line in member.data.split(b"\n") if line.startswith(b'{"commit"')]
        found = [commit for line in lines if (commit := decode(line))]
        self._past += found if self._allow.secrets else map(_without_secrets, found)
        if len(found) < len(lines):
            self.refused.append((member.name, f"{len(lines) - len(found)} lines of it cannot be read"))

    def _drop_superseded(self) -> None:
        """Leave out the facts that others of this import supersede."""
        facts = [one for one in self._parsed.values() if is_fact(one.path)]
        superseded = {path for one in facts for path in one.supersedes if is_fact(path)}
        for change in [one for one in self._changes if one.path in superseded]:
            self._changes.remove(change)
            for paths in self.outcome.values():
                paths[:] = [path for path in paths if path != change.path]
            self.refused.append((inside(self.root, change.path), "another fact of this import supersedes it"))


def _doubted(memory: Memory) -> Memory:
    """A memory that nobody here vouched for, as unconfirmed. Raises TextRefused when it has no header to say so."""
    if memory.state != "ok":
        raise TextRefused(f"{memory.path!r} came with a repository, and has no header to say so")
    return parse(memory.path, edited(memory.text, fields={"trust": "unconfirmed"}).encode())


def _of_these(past: Iterable[Commit], there: Collection[str], names: Mapping[str, str] | None = None) -> list[Commit]:
    """The steps of texts that are there or were removed for good; under other `names` where they got some.

    A text that the past ends with and that is not there would be taken for one that somebody removed.
    """
    commits = list(past)
    ends: dict[str, Version] = {}
    for commit in commits:
        ends.update((step.path, step.after) for step in commit.revisions)
    kept = []
    for commit in commits:
        steps = [step for step in commit.revisions if step.path in there or ends[step.path] == ABSENT]
        renamed = tuple(step._replace(path=(names or {}).get(step.path, step.path)) for step in steps)
        if renamed:
            kept.append(commit._replace(revisions=renamed))
    return kept


def _without_secrets(commit: Commit) -> Commit:
    """A commit of another journal without the texts that hold secrets: as if they were past retention."""
    from memsheaf.guard.secrets import new_secrets

    def clean(data: bytes | None) -> bytes | None:
        return None if data and any(new_secrets(data.decode("utf-8", "replace"), "")) else data

    steps = tuple(step._replace(old=clean(step.old), new=clean(step.new)) for step in commit.revisions)
    return commit._replace(why="" if any(new_secrets(commit.why, "")) else commit.why, revisions=steps)


def _named(path: str, error: MemsheafError) -> str:
    """The name of a file that was refused; when that is for a secret, without one."""
    if not isinstance(error, SecretFound):
        return path
    from memsheaf.guard.secrets import without_secrets

    return without_secrets(path)


# from one place to another


class Places(NamedTuple):
    """Where a project's folder is and shall be, and the directories beside it."""

    source: str
    target: str
    home: str
    state: str
    cache: str

    def leaving(self, root: str) -> FolderStore:
        """The store of a root where it is."""
        return _store(self.source, root, checkout_of(self.source, self.home))

    def arriving(self, root: str) -> FolderStore:
        """The store of a root where it shall be."""
        return _store(self.target, root, checkout_of(self.target, self.home))


def move(places: Places, switch: Callable[[], None], *, keep: Collection[str] | None = None) -> Moved:
    """Move a project's folder with all its roots, journals, and what is kept about them in the state directory.

    `switch` makes the target the project's memory. A target that is not there yet is made by one rename. Into one
    that is, everything is copied without touching a text of it; then comes the switch, then the source is removed,
    except what is in `keep`: until the switch the old place is complete, and from there on the new one. After a
    crash, the same call completes it. What others committed to a repository does not leave it.

    Raises:
        StoreFailed, Busy: it could not be done; the source is as it was.
    """
    source, target = places.source, places.target
    moved = Moved(())
    if os.path.isdir(source):
        moved = (_renamed(places, switch) if keep is None else None) or _merged(places, switch, keep or ())
    else:
        switch()
    for root in roots(target):
        old, new = os.path.join(source, root), os.path.join(target, root)
        State.of(new, places.state).absorb(State.of(old, places.state))
        _forget_index(old, places.cache)
    return moved


def contents(folder: str) -> list[str]:
    """The files of all roots of a project's folder."""
    return [inside(root, path) for root in roots(folder) for path in _look(_store(folder, root, "")).files]


def _store(folder: str, root: str, checkout: str) -> FolderStore:
    place = os.path.join(folder, root)
    private = place if _is_log(root) else os.path.dirname(place) if root.startswith("sessions/") else ""
    store = FolderStore(place, checkout=checkout, private=private)
    if store.left_journal:
        bring_journal(store)
    return store


def _ledger(folder: str, root: str, places: Places) -> TrustLedger | None:
    """Where it is recorded what this machine wrote in a root; None where nobody else writes."""
    checkout = checkout_of(folder, places.home)
    if not checkout:
        return None
    owner = root.removesuffix(LOGS).rstrip("/") if _is_log(root) else root
    ledger = TrustLedger(State.of(os.path.join(folder, owner), places.state), checkout)
    return ledger.below(f"{LOGS}/") if _is_log(root) else ledger


def _is_log(root: str) -> bool:
    return root == LOGS or root.count("/") == 2


def _renamed(places: Places, switch: Callable[[], None]) -> Moved | None:
    """Move the folder in one step; None when the target is there, or on another file system."""
    source, target = places.source, places.target
    try:
        if os.path.lexists(target) or os.stat(source).st_dev != os.stat(os.path.dirname(target)).st_dev:
            return None
        files: list[str] = []
        if os.path.lexists(places.arriving("").journals):  # of a folder that somebody removed
            return None
        for root in roots(source):
            found = _look(places.leaving(root)).files
            files += (inside(root, path) for path in found)
            if ledger := _ledger(target, root, places):
                ledger.add([(path, version_of(data)) for path, data in found.items()], "user")
        switch()  # before the rename: as long as the target is not there, the source counts
        os.rename(source, target)
        for folder in {os.path.dirname(source), os.path.dirname(target)}:
            with Folder.open(folder) as opened:
                opened.sync()
        for root in roots(target):
            store = FolderStore(os.path.join(target, root), checkout=checkout_of(target, places.home))
            if store.left_journal:  # it is ours, whatever git says of the place
                store.bring_journal()
    except OSError as error:
        raise StoreFailed(f"{source!r} cannot be moved: {error.strerror or error}") from error
    return Moved(tuple(files))


def _merged(places: Places, switch: Callable[[], None], keep: Collection[str]) -> Moved:
    files: list[str] = []
    renamed: list[tuple[str, str]] = []
    left: list[tuple[str, str]] = []
    with ExitStack() as held:
        copied: dict[str, dict[str, str]] = {}
        for root in roots(places.source):
            store = places.leaving(root)
            store.adopt(None)
            held.enter_context(store.still())
            names = copied[root] = _copied(root, places)
            files += [inside(root, name) for name in names.values()]
            renamed += [(inside(root, path), inside(root, name)) for path, name in names.items() if path != name]
        switch()
        for root, names in reversed(copied.items()):
            left += _cleared(places, root, names, keep)
    return Moved(tuple(files), tuple(renamed), tuple(left))


def _copied(root: str, places: Places) -> dict[str, str]:
    """Bring the files of a root and their past into another, as one commit; gives the name of each there."""
    store, target = places.leaving(root), places.arriving(root)
    ours, theirs = _ledger(places.source, root, places), _ledger(places.target, root, places)
    target.recover()
    present = _look(target).files
    taken = {fold(path): path for path in present}
    names: dict[str, str] = {}
    changes: list[Change] = []
    written: list[tuple[str, Version]] = []
    for path, data in _look(store).files.items():
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
    target.graft(_of_these(past, names.keys(), names), store.buried_all())
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


def _cleared(places: Places, root: str, names: Mapping[str, str], keep: Collection[str]) -> Iterator[tuple[str, str]]:
    """Remove what was copied from a root, with its journal; gives what stays, and why."""
    store, arrived = places.leaving(root), places.arriving(root)
    found = _look(store)
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
    import shutil

    shutil.rmtree(os.path.join(store.journals, HISTORY), ignore_errors=True)
    for place in (store.root, store.journals):
        remove_empty(place)


def _forget_index(root: str, cache: str) -> None:
    """Remove the index of a root that is no more: it holds texts."""
    begin = os.path.basename(database_for(root, cache)).partition("-")[0]
    with suppress(OSError), os.scandir(cache) as entries:
        for entry in entries:
            if entry.name.startswith(begin):
                with suppress(OSError):
                    os.unlink(entry.path)
