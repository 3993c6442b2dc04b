"""Erase a memory for good, here and on all machines of a hub, and search all that is left for traces of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from contextlib import suppress
from glob import escape, glob
from shlex import join
from tempfile import gettempdir
from typing import NamedTuple

from memsheaf.errors import HubRefused, HubUnreachable, NotFound, hinted
from memsheaf.guard.paths import CATALOG, RESERVED_FOLDERS
from memsheaf.hub import COPY, Machine
from memsheaf.hub.replica import Replica
from memsheaf.hub.replica_state import Synced
from memsheaf.index.catalog import target
from memsheaf.learn import conversation_file, spill
from memsheaf.learn.consolidate import drop_answer
from memsheaf.learn.erasure_filter import make_erasure_filter
from memsheaf.learn.learner import Learner, forget_waiting
from memsheaf.open_scope import OpenScope
from memsheaf.recall import recall_log
from memsheaf.scope import parse_object
from memsheaf.store import Erased
from memsheaf.store.commit_queries import trail
from memsheaf.store.journal import KEPT
from memsheaf.store.journal_lines import CHANGED
from memsheaf.store.safe_dir import Folder, kernel_lock, read_file, replace
from memsheaf.store.state import State
from memsheaf.worktree import find_in_bare, find_in_checkout

MIN_PIECE_BYTES = 12  # a shorter piece of text proves nothing, it is everywhere
MIN_TITLE_WORDS = 5  # nor does a name or a description of fewer, outside of a header
_STEPS = CHANGED + rb', "before": "([0-9a-f]*)", "after": "([0-9a-f]*)"'
Pieces = Set[bytes]
HOSTS = "hooks"  # folder of the state directory with what is known of hosts' conversations
LIMIT = 64 << 20  # bytes that are read of such a file
LOCK_SECONDS = 5.0
_INDEX = r"[0-9a-f]{24}-[0-9]+\.[a-z.-]+$|\.float32$"  # indexes of other scopes, and weights
NESTED = ("tasks", "sessions")  # folders of other scopes in a project: only named, as they are erased separately


class Proof(NamedTuple):
    """What was erased, where we looked, and what is left. `left` is empty when it is gone.

    `names` are those the memory has had: the journal of former ones is erased with it.
    `elsewhere` names other memories that say the same words, and files of tasks and sessions inside: they are not
    this one's to erase. `git` says where the repository around it has the text still, and `remedy` how to remove it.
    With a hub, `erasures` are the ids under which its `machines` report that they erased it, too.
    """

    path: str
    names: tuple[str, ...]
    versions: int
    files: int
    bytes: int
    left: tuple[str, ...]
    elsewhere: tuple[str, ...]
    git: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    erasures: tuple[str, ...] = ()
    machines: tuple[Machine, ...] = ()

    def joined(self, other: Proof) -> Proof:
        """Return one proof of two erasures, under the path of this one."""
        added = {field: getattr(self, field) + getattr(other, field) for field in self._fields[2:]}
        return self._replace(names=tuple(dict.fromkeys((*self.names, *other.names))), **added)

    @property
    def waiting(self) -> tuple[Machine, ...]:
        """The machines of the hub that have not reported yet that they erased it, and are not lost."""
        open_on = (one for one in self.machines if not {*self.erasures} <= {name for name, _ in one.erased})
        return tuple(one for one in open_on if not one.is_lost)

    @property
    def gone(self) -> bool:
        """Whether no trace was found."""
        return not self.left and not self.git


def erase(path: str, scope: OpenScope, learner: Learner, state: State, *, clock: Callable[[], float]) -> Proof:
    """Remove a memory and all its versions, wherever this machine has them, and search what is left.

    Raises:
        NotFound: neither the files nor the journal know it.
    """
    scope.require_writable()
    store, index, path = scope.store, scope.index, scope.spell(path)
    cache = os.path.dirname(index.files()[0])
    steps = (step for commit in trail(store, path) for step in commit.revisions)
    texts = {data for step in steps for data in (step.old, step.new) if data}
    if present := scope.find(path):
        texts.add(present.data)

    def forget_elsewhere(texts: Sequence[bytes], names: Sequence[str]) -> None:
        """Take what an erased memory said out of what is kept beside the memories, and its names with it."""
        learner.forget(texts)
        for place in glob(f"{escape(cache)}/start-*.json"):  # an earlier version wrote these
            with suppress(FileNotFoundError):
                os.unlink(place)
        _forget_in_hosts(os.path.dirname(state.folder), texts, names)
        for one in state.beside():  # what was said waits in one scope, and is spilled in one, whatever it says
            spill.forget(one, texts)
            conversation_file.forget(one, texts, names)
            forget_waiting(one, texts, names, clock=clock)
            own = names if one.folder == state.folder else ()
            recall_log.forget(one, texts, make_erasure_filter(texts), own)

    forget_elsewhere(sorted(texts), [path] if texts else ())  # first: afterwards nobody knows what to look for
    index.ready()
    try:
        erased = store.erase(path, by=scope.by)
    except NotFound:  # or it was erased, and something kept us from seeing to the rest
        index.purge([path])
        raise
    forget_elsewhere(erased.texts, erased.names)
    for name in erased.names:
        drop_answer(state, name)
    if scope.ledger:
        scope.ledger.forget(erased.names)
    index.purge(erased.names)
    index.look()
    index.close()  # to read the files of an open database would end the locks that SQLite has on them
    copy = os.path.join(state.folder, COPY)
    directory = os.path.dirname(state.folder)
    naming = {*_walk(os.path.join(directory, HOSTS)), *_walk(state.folder), *glob(f"{escape(directory)}/*.log")}
    caches = (place for place in _walk(cache) if not re.search(_INDEX, place))
    drafts = (place for folder in glob(f"{escape(gettempdir())}/memsheaf-*") for place in _walk(folder))
    others = {*index.files(), *learner.files(), *_walk(directory), *caches, *drafts}
    others = {place for place in others if f"{os.sep}{COPY}{os.sep}" not in place}
    return examine(
        store.root, erased, others, journals=store.journals, checkout=store.checkout, copy=copy, naming=naming
    )


def _forget_in_hosts(directory: str, texts: Sequence[bytes], names: Sequence[str]) -> None:
    """Take an erased memory out of what is known of hosts' conversations, and out of the log of failures."""
    keep = make_erasure_filter(texts)

    def may_stay(text: str) -> bool:
        return keep(text) and not any(name in text for name in names)

    with suppress(FileNotFoundError), Folder.open(os.path.join(directory, HOSTS)) as folder:
        for name in [entry.name for entry in folder.scan() if entry.name.endswith(".json")]:
            with kernel_lock(folder, f"{name}.lock", wait=LOCK_SECONDS), suppress(FileNotFoundError):
                known = parse_object(read_file(folder, name, LIMIT)) or {}
                left = {key: value for key, value in known.items() if may_stay(str(value))}
                if left != known:
                    replace(folder, name, json.dumps(left).encode())
    with suppress(FileNotFoundError), Folder.open(directory) as folder:
        for name in [entry.name for entry in folder.scan() if entry.name.endswith(".log")]:
            lines = read_file(folder, name, LIMIT).decode("utf-8", "replace").split("\n")
            if not all(map(may_stay, lines)):
                replace(folder, name, "\n".join(filter(may_stay, lines)).encode())


class _Reader:
    """Reads files for the proof, each once, and counts them; those that cannot be read are named in `left`."""

    def __init__(self, root: str, journals: str) -> None:
        self.files = 0
        self.bytes = 0
        self.left: list[str] = []
        self._root = root
        self._journals = journals

    def name(self, place: str) -> str:
        """Return the path of a file below the journals or the root; from the root for others."""
        for folder in (self._journals, self._root):
            if place.startswith(folder + os.sep):
                return os.path.relpath(place, folder)
        return os.path.relpath(place, self._root)

    def read(self, place: str) -> bytes:
        """Return the bytes of a file, none when it is gone or cannot be read."""
        try:
            with open(place, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return b""
        except OSError:
            self.left.append(f"{os.path.relpath(place, self._root)} (cannot be read)")
            return b""
        self.files += 1
        self.bytes += len(data)
        return data


def examine(
    root: str,
    erased: Erased,
    others: Iterable[str],
    *,
    journals: str,
    checkout: str,
    copy: str,
    naming: Collection[str],
) -> Proof:
    """Read every file under `root` and each of `others` once, and look for the erased memory in them.

    In the files that are `naming` memories its bare name is a trace, too. When the root lies in a `checkout`, its
    `journals` may lie elsewhere, and the objects of git are searched, too. So are those of a hub's `copy`.
    """
    reader = _Reader(root, journals)
    folders = dict.fromkeys((journals, root))
    places = {*others, *(place for folder in folders for place in _files(folder))}
    memories = sorted(place for place in places if _is_memory(reader.name(place)))
    pieces = _pieces(erased)
    names = {form for name in erased.names if len(name) >= MIN_PIECE_BYTES for form in _spellings(name.encode())}
    elsewhere: set[str] = set()
    telling = set(pieces)
    for place in memories:
        if held := _held(reader.read(place), pieces):  # what another memory says as well is no trace of this one
            elsewhere.add(reader.name(place))
            telling.difference_update(held)
    for place in sorted(places.difference(memories)):
        name, data = reader.name(place), reader.read(place)
        if place in naming and _held(data, names):
            reader.left.append(name)
        elif place.endswith((".jsonl", f"{os.sep}{KEPT}")):
            of_it, of_others = _in_journal(data, erased, telling)
            if _is_reserved(name):
                reader.left += (f"{name}:{number}" for number in sorted({*of_it, *of_others}))
            else:
                reader.left += (f"{name}:{number}" for number in of_it)
                elsewhere.update(*of_others.values())
        elif _held(data, telling):
            reader.left.append(name)
    for place in (place for folder in folders for name in NESTED for place in _walk(os.path.join(folder, name))):
        if _held(reader.read(place), telling):
            elsewhere.add(reader.name(place))
    if why := find_in_bare(copy, telling):
        reader.left.append(f"{os.path.relpath(copy, root)} ({why})")
    git = find_in_checkout(checkout, root, telling) if checkout else []
    return Proof(
        erased.path,
        erased.names,
        len(erased.versions),
        reader.files,
        reader.bytes,
        tuple(reader.left),
        tuple(sorted(elsewhere)),
        tuple(git),
        _remedy(checkout, root, erased) if git else (),
    )


def _is_memory(name: str) -> bool:
    is_inside = os.sep in name and _is_reserved(name)
    return name.endswith(".md") and not name.startswith(".") and name != CATALOG and not is_inside


def _remedy(checkout: str, root: str, erased: Erased) -> tuple[str, ...]:
    """How the text is removed from a repository."""
    places = (os.path.relpath(os.path.join(os.path.realpath(root), name), checkout) for name in erased.names)
    paths = join(word for place in sorted(places) for word in ("--path", place))
    return (
        f"git filter-repo --invert-paths {paths}   # rewrites every commit that had the file",
        "git filter-repo --replace-text FILE   # for the text in other files and in messages; FILE has its lines",
        "git reflog expire --expire=now --all && git gc --prune=now",
        "git push --force --all && git push --force --tags   # and everybody who has a clone makes it anew",
        "If it was a secret, change it where it is in use: whoever had a copy has it still.",
    )


def _pieces(erased: Erased) -> Pieces:
    """Pieces of the erased texts that are long enough to be telling, without the keys of header lines."""
    lines = {line.strip() for text in erased.texts for line in text.split(b"\n")}
    values = {line.partition(b": ")[2] for line in lines if line.partition(b":")[0] in _WORDED}
    values = {value for value in values if len(value.split()) >= MIN_TITLE_WORDS}
    lines = {line for line in lines if not line.startswith((b"```", b"~~~", b"#")) and not line.endswith(b":**")}
    own = {f"]({target(name)})".encode() for name in erased.names}
    told = {piece for piece in lines | values if len(piece) >= MIN_PIECE_BYTES and not piece.startswith(_COMMON)}
    return own.union(*map(_spellings, told))


def _spellings(piece: bytes) -> set[bytes]:
    """A piece of text as it is, as JSON spells it with and without escapes, and as JSON in JSON does."""
    found = {piece.decode("utf-8", "replace")}
    for _ in range(2):  # a call's arguments are JSON in a line of JSON
        found |= {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in found for ascii in (True, False)}
    return {text.encode("utf-8", "replace") for text in found} | {piece}


_WORDED = (b"name", b"description", b"reason")
_COMMON = (b"type:", b"created:", b"updated:", b"source:", b"conversation:", b"trust:", b"pinned:", b"expires:")


def _held(data: bytes, pieces: Iterable[bytes]) -> list[bytes]:
    return [piece for piece in pieces if piece in data]


def _in_journal(data: bytes, erased: Erased, pieces: Pieces) -> tuple[list[int], dict[int, set[str]]]:
    """Return the lines of a journal that tell of the erased memory; and those in which others say the same words."""
    traces = {json.dumps(name, ensure_ascii=False).encode() for name in erased.names}
    traces |= {version.encode() for version in erased.versions}
    held = _held(data, pieces)
    of_it: list[int] = []
    of_others: dict[int, set[str]] = {}
    for number, line in enumerate(data.split(b"\n") if held or _held(data, traces) else (), 1):
        steps = list(re.finditer(_STEPS, line))
        ends = [*(step.start() for step in steps[1:]), len(line)]
        if any(not traces.isdisjoint(step.groups()) for step in steps) or (_held(line, held) and not steps):
            of_it.append(number)
        elif _held(line, held):
            pairs = zip(steps, ends, strict=True)
            of_others[number] = {json.loads(step[1]) for step, end in pairs if _held(line[step.start() : end], held)}
    return of_it, of_others


def _is_reserved(name: str) -> bool:
    """Whether it is in a folder that holds no memories of this scope, such as the daily log."""
    return name.replace(os.sep, "/").partition("/")[0].casefold() in RESERVED_FOLDERS


def _walk(folder: str) -> Iterable[str]:
    return (os.path.join(inner, name) for inner, _, names in os.walk(folder) for name in names)


def _files(root: str) -> Iterable[str]:
    for folder, folders, names in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name.casefold() not in RESERVED_FOLDERS]
        yield from (f"{folder}{os.sep}{name}" for name in names)


def synchronize(
    scope: OpenScope, learner: Learner, state: State, *, clock: Callable[[], float], again: bool = False
) -> Synced:
    """Push what waits here and bring what others pushed; `again` as if it were the first time.

    Raises:
        HubUnreachable, HubRefused, HubRestored, Busy.
    """
    store = scope.store
    assert isinstance(store, Replica)
    scope.require_writable()
    scope.index.look()  # what a person edited is in the journal, and so among what waits
    deferring = store.eraser
    store.eraser = lambda name: erase(name, scope, learner, state, clock=clock).left
    try:
        synced = store.rejoin() if again else store.sync()
    finally:
        store.eraser = deferring
    scope.index.look()
    now = store.state()
    is_other = now.machine != store.settings.machine
    if synced.whole or now.proofs or is_other or clock() - now.reported_at > 86_400:  # once a day
        with suppress(HubUnreachable, HubRefused):  # a later sync reports
            store.erasures.report(clock())
    return synced._replace(is_copy=is_other and now.machine != "")


def erase_for_all(
    path: str, scope: OpenScope, learner: Learner, state: State, *, clock: Callable[[], float]
) -> Proof:
    """Erase a memory here and on the hub, report it, and tell which machines have done so.

    Raises:
        NotFound, HubUnreachable, HubRefused: nothing was erased.
    """
    scope.require_person()
    store = scope.store
    if not isinstance(store, Replica):
        return erase(path, scope, learner, state, clock=clock)
    try:
        synchronize(scope, learner, state, clock=clock)
        before = store.state().erased
        proof = erase(path, scope, learner, state, clock=clock)
    except HubUnreachable as error:
        raise hinted(error, "Nothing was erased: what all machines forget, the hub has to know.") from None
    now = store.state()
    erased = tuple(one.id for one in now.erased if one not in before)
    try:
        if now.erasing:
            raise HubUnreachable("the hub does not answer")
        store.erasures.report(clock(), dict.fromkeys(erased, ", ".join(proof.left)))
        return proof._replace(erasures=erased, machines=tuple(store.hub.users()[1]))
    except HubUnreachable as error:
        return proof._replace(left=(*proof.left, f"{store.settings.shown} ({error}; the next sync tells it)"))
