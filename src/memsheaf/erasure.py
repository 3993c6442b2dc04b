"""Erase a memory for good, here and on all machines of a hub, and search all that is left for traces of it."""

from __future__ import annotations

import json
import os
import re
from binascii import a2b_base64
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from glob import escape, glob
from itertools import chain
from shlex import join
from tempfile import gettempdir
from typing import NamedTuple

from memsheaf.errors import HubRefused, HubUnreachable, NotFound, hinted
from memsheaf.guard.paths import CATALOG, RESERVED_FOLDERS
from memsheaf.hub import COPY, Machine
from memsheaf.hub.replica import Replica
from memsheaf.hub.replica_state import Synced
from memsheaf.index.catalog import target
from memsheaf.index.vectors import key_of, passages
from memsheaf.learn import conversation_file, rehearsal, spill
from memsheaf.learn.erasure_filter import make_erasure_filter
from memsheaf.learn.learner import Learner, forget_waiting
from memsheaf.memory import parse
from memsheaf.open_scope import OpenScope
from memsheaf.recall import recall_log
from memsheaf.scope import parse_object
from memsheaf.store import Erased
from memsheaf.store.commit_queries import trail
from memsheaf.store.journal import KEPT
from memsheaf.store.journal_lines import CHANGED
from memsheaf.store.safe_dir import Folder, kernel_lock, read_file, replace
from memsheaf.store.state import State
from memsheaf.worktree import remains, search_bare

SHORTEST = 12  # a shorter piece of text proves nothing, it is everywhere
TITLE = 5  # words; nor does a name or a description of fewer, outside of a header
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
        index.purge([path], ())
        raise
    forget_elsewhere(erased.texts, erased.names)
    for name in erased.names:
        rehearsal.disregard(state, name)
    if scope.ledger:
        scope.ledger.forget(erased.names)
    index.purge(erased.names, erased.texts)
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

    In the files that are `naming` memories its bare name is a trace, too.

    When the root lies in a `checkout`, its `journals` may lie elsewhere, and the objects of git are searched, too. So
    are those of a hub's `copy`.
    """
    within = dict.fromkeys((journals, root))
    left: list[str] = []
    elsewhere: set[str] = set()
    count = size = 0
    pieces = _pieces(erased)
    names = {form for name in erased.names if len(name) >= SHORTEST for form in _spellings(name.encode())}
    places = sorted({*others, *(place for folder in within for place in _files(folder))})

    def read(place: str) -> bytes:
        nonlocal count, size
        try:
            with open(place, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return b""
        except OSError:
            left.append(f"{os.path.relpath(place, root)} (cannot be read)")
            return b""
        count, size = count + 1, size + len(data)
        return data

    def name_of(place: str) -> str:
        inside = [len(folder) + 1 for folder in within if place.startswith(folder + os.sep)]
        return place[inside[0] :] if inside else os.path.relpath(place, root)

    memories = []
    for place in places:
        name = name_of(place)
        is_file = name.endswith(".md") and not name.startswith(".") and name != CATALOG
        if is_file and not (os.sep in name and _is_reserved(name)):
            memories.append(place)
    telling = set(pieces)
    for place in memories:
        if held := _held(read(place), pieces):  # what another memory says as well is no trace of this one
            elsewhere.add(name_of(place))
            telling.difference_update(held)
    for place in sorted({*places} - {*memories}):
        name, data = name_of(place), read(place)
        if place in naming and _held(data, names):
            left.append(name)
        elif place.endswith((".jsonl", f"{os.sep}{KEPT}")):
            named, near = _in_journal(data, erased, telling)
            left += [f"{name}:{number}" for number in (sorted({*named, *near}) if _is_reserved(name) else named)]
            elsewhere |= set() if _is_reserved(name) else {path for paths in near.values() for path in paths}
        elif _held(data, telling) or (
            place.endswith((".sqlite", ".sqlite-wal")) and _has_vector(data, root, erased, memories)
        ):
            left.append(name)
    for place in (place for folder in within for name in NESTED for place in _walk(os.path.join(folder, name))):
        if _held(read(place), telling):
            elsewhere.add(name_of(place))
    if found := search_bare(copy, telling):
        left.append(f"{os.path.relpath(copy, root)} ({found})")
    git = remains(checkout, root, telling) if checkout else []
    return Proof(
        erased.path,
        erased.names,
        len(erased.versions),
        count,
        size,
        tuple(left),
        tuple(sorted(elsewhere)),
        tuple(git),
        _remedy(checkout, root, erased) if git else (),
    )


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


def _has_vector(data: bytes, root: str, erased: Erased, memories: Iterable[str]) -> bool:
    """Whether an index has the vector of an erased text that no memory has as well."""
    found = {key for key in _keys((name, text) for name in erased.names for text in erased.texts) if key in data}
    for place in memories if found else ():
        with suppress(OSError), open(place, "rb") as file:
            found -= _keys([(os.path.relpath(place, root), file.read())])
    return bool(found)


def _keys(texts: Iterable[tuple[str, bytes]]) -> set[bytes]:
    """What the vectors of some texts are kept under."""
    return {key_of(passage) for path, text in texts for passage in passages(parse(path, text))}


def _pieces(erased: Erased) -> Pieces:
    """Pieces of the erased texts that are long enough to be telling, without the keys of header lines."""
    lines = {line.strip() for text in erased.texts for line in text.split(b"\n")}
    values = {line.partition(b": ")[2] for line in lines if line.partition(b":")[0] in _WORDED}
    values = {value for value in values if len(value.split()) >= TITLE}
    lines = {line for line in lines if not line.startswith((b"```", b"~~~", b"#")) and not line.endswith(b":**")}
    own = {f"]({target(name)})".encode() for name in erased.names}
    told = {piece for piece in lines | values if len(piece) >= SHORTEST and not piece.startswith(_COMMON)}
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
    """The lines of a journal that tell of the erased memory; and those in which others say the same words."""
    names = {json.dumps(name, ensure_ascii=False).encode() for name in erased.names}
    versions = {version.encode() for version in erased.versions}
    found: list[int] = []
    near: dict[int, set[str]] = {}
    telling = names | versions
    named = not telling.isdisjoint(chain.from_iterable(re.findall(_STEPS, data)))
    held = _held(data, pieces)
    for number, line in enumerate(data.split(b"\n") if named or held else (), 1):
        steps = re.findall(_STEPS, line)
        if not telling.isdisjoint(chain.from_iterable(steps)):
            found.append(number)
        if not _held(line, held):
            continue
        if not steps:
            found.append(number)
        elif others := {path for path, text in _texts(line) if _held(text, held)}:
            near[number] = others
    return found, near


def _texts(line: bytes) -> Iterator[tuple[str, bytes]]:
    """The paths of a line of the journal, each with all that is said of it."""
    starts = [found.start() for found in re.finditer(_STEPS, line)]
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        with suppress(ValueError):
            shape, _ = json.JSONDecoder().raw_decode(line[start:end].decode("utf-8", "replace"))
            said = [a2b_base64(text) if key.endswith("64") else text.encode() for key, text in shape.items()]
            yield shape["path"], b"\n".join(said[3:])


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
