"""Erase a memory for good, and search all that is left for traces of it."""

from __future__ import annotations

import json
import os
import re
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from shlex import join

from memsheaf.errors import NotFound
from memsheaf.guard.paths import CATALOG, RESERVED_FOLDERS
from memsheaf.hub import COPY, Machine
from memsheaf.index.catalog import target
from memsheaf.index.vectors import key_of, passages
from memsheaf.learn import conversation_file, rehearsal, spill
from memsheaf.learn.erasure_filter import make_erasure_filter
from memsheaf.learn.learner import Learner, forget_waiting
from memsheaf.memory import parse
from memsheaf.recall import recall_log
from memsheaf.store import Erased
from memsheaf.store.commit_queries import trail
from memsheaf.store.journal import KEPT
from memsheaf.store.journal_lines import CHANGED
from memsheaf.store.state import State
from memsheaf.values import NamedTuple
from memsheaf.worktree import remains, search_bare
from memsheaf.writer import Writer

SHORTEST = 12  # a shorter piece of text proves nothing, it is everywhere
AT_ONCE = 500  # memories that are searched together
MANY = 50  # pieces, from which on it pays to look at words first
CHUNK = 1 << 15
TITLE = 5  # words; nor does a name or a description of fewer, outside of a header
_STEPS = re.compile(CHANGED + rb', "before": "([0-9a-f]*)", "after": "([0-9a-f]*)"')
Pieces = Mapping[bytes, frozenset[bytes]]
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

    @property
    def waiting(self) -> tuple[Machine, ...]:
        """The machines of the hub that have not reported yet that they erased it, and are not lost."""
        open_on = (one for one in self.machines if not {*self.erasures} <= {name for name, _ in one.erased})
        return tuple(one for one in open_on if not one.is_lost)

    @property
    def gone(self) -> bool:
        """Whether no trace was found."""
        return not self.left and not self.git


def erase(path: str, writer: Writer, learner: Learner, state: State, *, clock: Callable[[], float]) -> Proof:
    """Remove a memory and all its versions, wherever this machine has them, and search what is left.

    Raises:
        NotFound: neither the files nor the journal know it.
    """
    writer.require_writable()
    store, index, path = writer.store, writer.index, writer.spelled(path)
    texts = _texts_of(writer, path)  # first: afterwards nobody knows what to look for
    _forget_elsewhere(learner, state, texts, [path] if texts else (), clock)
    index.ready()
    before = index.folders_of([CATALOG, path])
    try:
        erased = store.erase(path, by=writer.by)
    except NotFound:  # or it was erased, and something kept us from seeing to the rest
        index.purge([path], ())
        raise
    _forget_elsewhere(learner, state, erased.texts, erased.names, clock)
    for name in erased.names:
        rehearsal.disregard(state, name)
    if writer.ledger:
        writer.ledger.forget(erased.names)
    index.purge(erased.names, erased.texts, before)
    index.look()
    index.close()  # to read the files of an open database would end the locks that SQLite has on them
    beside = (os.path.join(one.folder, name) for one in state.beside() for name in one.names(drafts=True))
    others = {*index.files(), *learner.files(), *beside}
    copy = os.path.join(state.folder, COPY)
    return examine(store.root, erased, others, journals=store.journals, checkout=store.checkout, copy=copy)


def _forget_elsewhere(
    learner: Learner, state: State, texts: Sequence[bytes], names: Sequence[str], clock: Callable[[], float]
) -> None:
    """Take what an erased memory said out of what is kept beside the memories."""
    learner.forget(texts)
    for one in state.beside():  # what was said waits in one scope, and is spilled in one, whatever it says
        spill.forget(one, texts)
        conversation_file.forget(one, texts, names)
        forget_waiting(one, texts, names, clock=clock)
        own = names if one.folder == state.folder else ()
        recall_log.forget(one, texts, make_erasure_filter(texts), own)


def _texts_of(writer: Writer, path: str) -> Sequence[bytes]:
    """Every text that a memory has or had, as far as the journal still holds them."""
    steps = (step for commit in trail(writer.store, path) for step in commit.revisions)
    known = {data for step in steps for data in (step.old, step.new) if data}
    present = writer.find(path)
    return sorted(known | ({present.data} if present else set()))


def examine(
    root: str, erased: Erased, others: Iterable[str], *, journals: str = "", checkout: str = "", copy: str = ""
) -> Proof:
    """Read every file under `root` and each of `others` once, and look for the erased memory in them.

    When the root lies in a `checkout`, its `journals` may lie elsewhere, and the objects of git are searched, too. So
    are those of a hub's `copy`.
    """
    within = dict.fromkeys((journals or root, root))
    left: list[str] = []
    elsewhere: set[str] = set()
    count = size = 0
    pieces = _pieces(erased)
    common: set[bytes] = set()
    places = sorted({*others, *(place for folder in within for place in _files(folder))})

    def read(place: str) -> bytes:
        nonlocal count, size
        try:
            data = _read(place)
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

    memories = [place for place in places if _is_memory(name_of(place))]
    for start in range(0, len(memories), AT_ONCE):
        some = {place: read(place) for place in memories[start : start + AT_ONCE]}
        together = b"\0".join(some.values())
        for piece in _held(together, pieces):
            said = {name_of(place) for place, data in some.items() if piece in data}
            elsewhere |= said
            common |= {piece} if said else set()  # what another memory says as well is no trace of this one
    telling = {piece: inner for piece, inner in pieces.items() if piece not in common}
    for place in sorted({*places} - {*memories}):
        name, data = name_of(place), read(place)
        if place.endswith((".jsonl", f"{os.sep}{KEPT}")):
            named, near = _in_journal(data, erased, telling)
            left += [f"{name}:{number}" for number in (sorted({*named, *near}) if _is_reserved(name) else named)]
            elsewhere |= set() if _is_reserved(name) else {path for paths in near.values() for path in paths}
        elif _held(data, telling) or (
            place.endswith((".sqlite", ".sqlite-wal")) and _has_vector(data, root, erased, memories)
        ):
            left.append(name)
    for place in (place for folder in within for place in _nested(folder)):
        if _held(read(place), telling):
            elsewhere.add(name_of(place))
    if found := search_bare(copy, telling.keys()) if copy else "":
        left.append(f"{os.path.relpath(copy, root)} ({found})")
    git = remains(checkout, root, telling.keys()) if checkout else []
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


def _read(place: str) -> bytes:
    """What is in a file, in half the time that an object for it would take."""
    file = os.open(place, os.O_RDONLY)
    try:
        pieces = [os.read(file, CHUNK)]
        while len(pieces[-1]) == CHUNK:
            pieces.append(os.read(file, CHUNK))
    finally:
        os.close(file)
    return b"".join(pieces)


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
    """Pieces of the erased texts that are long enough to be telling, without the keys of header lines.

    Each comes with its inner words, which a text has as words, too, if it has the piece.
    """
    lines = {line.strip() for text in erased.texts for line in text.split(b"\n")}
    values = {line.partition(b": ")[2] for line in lines if line.partition(b":")[0] in _WORDED}
    values = {value for value in values if len(value.split()) >= TITLE}
    lines = {line for line in lines if not line.startswith((b"```", b"~~~", b"#")) and not line.endswith(b":**")}
    own = {f"]({target(name)})".encode() for name in erased.names}
    told = {piece for piece in lines | values if len(piece) >= SHORTEST and not piece.startswith(_COMMON)}
    in_json = set(map(_in_json, told))
    pieces = own | told | in_json | set(map(_in_json, in_json))  # a call's arguments are JSON in a line of JSON
    return {piece: frozenset(piece.split()[1:-1]) for piece in pieces}


def _in_json(piece: bytes) -> bytes:
    """A piece of text as files of JSON have it."""
    return json.dumps(piece.decode("utf-8", "replace"), ensure_ascii=False)[1:-1].encode("utf-8", "replace")


_WORDED = (b"name", b"description", b"reason")
_COMMON = (b"type:", b"created:", b"updated:", b"source:", b"conversation:", b"trust:", b"pinned:", b"expires:")


def _held(data: bytes, pieces: Pieces) -> list[bytes]:
    """The pieces that some data has; of many, only those are searched for whose inner words it has."""
    if len(pieces) < MANY:
        return [piece for piece in pieces if piece in data]
    words = {*data.split()}
    return [piece for piece, inner in pieces.items() if inner <= words and piece in data]


def _holds(data: bytes, pieces: Iterable[bytes]) -> bool:
    return any(piece in data for piece in pieces)


def _in_journal(data: bytes, erased: Erased, pieces: Pieces) -> tuple[list[int], dict[int, set[str]]]:
    """The lines of a journal that tell of the erased memory; and those in which others say the same words."""
    names = {json.dumps(name, ensure_ascii=False).encode() for name in erased.names}
    versions = {version.encode() for version in erased.versions}
    found: list[int] = []
    near: dict[int, set[str]] = {}
    telling = names | versions
    named = not telling.isdisjoint(chain.from_iterable(_STEPS.findall(data)))
    held = _held(data, pieces)
    for number, line in enumerate(data.split(b"\n") if named or held else (), 1):
        steps = _STEPS.findall(line)
        if not telling.isdisjoint(chain.from_iterable(steps)):
            found.append(number)
        if not _holds(line, held):
            continue
        if not steps:
            found.append(number)
        elif others := {path for path, text in _texts(line) if _holds(text, held)}:
            near[number] = others
    return found, near


def _texts(line: bytes) -> Iterator[tuple[str, bytes]]:
    """The paths of a line of the journal, each with all that is said of it."""
    starts = [found.start() for found in _STEPS.finditer(line)]
    for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
        with suppress(ValueError):
            shape, _ = json.JSONDecoder().raw_decode(line[start:end].decode("utf-8", "replace"))
            said = [a2b_base64(text) if key.endswith("64") else text.encode() for key, text in shape.items()]
            yield shape["path"], b"\n".join(said[3:])


def _is_memory(name: str) -> bool:
    is_file = name.endswith(".md") and not name.startswith(".") and name != CATALOG
    return is_file and not (os.sep in name and _is_reserved(name))


def _is_reserved(name: str) -> bool:
    """Whether it is in a folder that holds no memories of this scope, such as the daily log."""
    return name.replace(os.sep, "/").partition("/")[0].casefold() in RESERVED_FOLDERS


def _nested(root: str) -> Iterable[str]:
    for name in NESTED:
        for folder, _, names in os.walk(os.path.join(root, name)):
            yield from (os.path.join(folder, one) for one in names)


def _files(root: str) -> Iterable[str]:
    for folder, folders, names in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name.casefold() not in RESERVED_FOLDERS]
        yield from (f"{folder}{os.sep}{name}" for name in names)
