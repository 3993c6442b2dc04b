"""Proof of an erasure: look at every byte that is left, and say what was looked at."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from memsheaf.guard.names import CATALOG, RESERVED_FOLDERS
from memsheaf.index.catalog import target
from memsheaf.memory import parse
from memsheaf.store.folder import Erased
from memsheaf.store.journal import decode
from memsheaf.tree import remains
from memsheaf.values import NamedTuple

SHORTEST = 12  # a shorter piece of text proves nothing, it is everywhere
TITLE = 5  # words; nor does a name or a description of fewer, outside of a header
NESTED = ("tasks", "sessions")
"""Folders of a project in which other scopes live: what they say is theirs to erase, and is named."""


class Proof(NamedTuple):
    """What was erased, where we looked, and what is left. `left` is empty when it is gone.

    `names` are those the memory has had: the journal of former ones is erased with it.
    `elsewhere` names other memories that say the same words, and files of tasks and sessions inside: they are not
    this one's to erase. `git` says where the repository around it has the text still, and `remedy` how to remove it.
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

    @property
    def gone(self) -> bool:
        """Whether no trace was found."""
        return not self.left and not self.git


def examine(root: str, erased: Erased, others: Iterable[str], *, checkout: str = "") -> Proof:
    """Read every file under `root` and each of `others`, and look for the erased memory in them.

    When the root lies in a `checkout`, the objects of git are searched, too.
    """
    left: list[str] = []
    found: dict[str, bytes] = {}
    for place in [*_files(root), *others]:
        try:
            with open(place, "rb") as file:
                found[place] = file.read()
        except FileNotFoundError:
            continue
        except OSError:
            left.append(f"{os.path.relpath(place, root)} (cannot be read)")
    memories = {place: data for place, data in found.items() if _is_memory(os.path.relpath(place, root))}
    pieces = _pieces(erased)
    elsewhere = {os.path.relpath(place, root) for place, data in memories.items() if _holds(data, pieces)}
    # what another memory says as well is no trace of this one
    telling = {piece for piece in pieces if not any(piece in data for data in memories.values())}
    if any(place.endswith(".vectors") for place in found):
        telling |= _keys((name, text) for name in erased.names for text in erased.texts)
        telling -= _keys((os.path.relpath(place, root), data) for place, data in memories.items())
    for place, data in found.items():
        name = os.path.relpath(place, root)
        if place.endswith(".jsonl"):
            for number, line in enumerate(data.split(b"\n"), 1):
                others = _others_in_journal(line, telling)
                if _in_journal(line, erased, telling) or (others and _is_reserved(name)):
                    left.append(f"{name}:{number}")
                elsewhere |= set() if _is_reserved(name) else others
        elif place not in memories and _holds(data, telling):
            left.append(name)
    for place in _nested(root):
        try:
            with open(place, "rb") as file:
                found[place] = file.read()
        except OSError:
            continue
        if _holds(found[place], telling):
            elsewhere.add(os.path.relpath(place, root))
    size = sum(map(len, found.values()))
    git = remains(checkout, root, telling) if checkout else []
    return Proof(
        erased.path,
        erased.names,
        len(erased.versions),
        len(found),
        size,
        tuple(left),
        tuple(sorted(elsewhere)),
        tuple(git),
        _remedy(checkout, root, erased) if git else (),
    )


def _remedy(checkout: str, root: str, erased: Erased) -> tuple[str, ...]:
    """How the text is removed from a repository."""
    from shlex import join

    places = (os.path.relpath(os.path.join(os.path.realpath(root), name), checkout) for name in erased.names)
    paths = join(word for place in sorted(places) for word in ("--path", place))
    return (
        f"git filter-repo --invert-paths {paths}   # rewrites every commit that had the file",
        "git filter-repo --replace-text FILE   # for the text in other files and in messages; FILE has its lines",
        "git reflog expire --expire=now --all && git gc --prune=now",
        "git push --force --all && git push --force --tags   # and everybody who has a clone makes it anew",
        "If it was a secret, change it where it is in use: whoever had a copy has it still.",
    )


def _keys(texts: Iterable[tuple[str, bytes]]) -> set[bytes]:
    """What the vectors of some texts are kept under."""
    from memsheaf.index.vectors import key_of, passages

    return {key_of(passage) for path, text in texts for passage in passages(parse(path, text))}


def _pieces(erased: Erased) -> set[bytes]:
    """Pieces of the erased texts that are long enough to be telling, without the keys of header lines."""
    lines = {line.strip() for text in erased.texts for line in text.split(b"\n")}
    values = {line.partition(b": ")[2] for line in lines if line.partition(b":")[0] in _WORDED}
    values = {value for value in values if len(value.split()) >= TITLE}
    lines = {line for line in lines if not line.startswith((b"```", b"~~~", b"#")) and not line.endswith(b":**")}
    own = {f"]({target(name)})".encode() for name in erased.names}
    told = {piece for piece in lines | values if len(piece) >= SHORTEST and not piece.startswith(_COMMON)}
    in_json = set(map(_in_json, told))
    return own | told | in_json | set(map(_in_json, in_json))  # a call's arguments are JSON in a line of JSON


def _in_json(piece: bytes) -> bytes:
    """A piece of text as files of JSON have it."""
    return json.dumps(piece.decode("utf-8", "replace"), ensure_ascii=False)[1:-1].encode("utf-8", "replace")


_WORDED = (b"name", b"description", b"reason")
_COMMON = (b"type:", b"created:", b"updated:", b"source:", b"conversation:", b"trust:", b"pinned:", b"expires:")


def _holds(data: bytes, pieces: Iterable[bytes]) -> bool:
    return any(piece in data for piece in pieces)


def _in_journal(line: bytes, erased: Erased, pieces: set[bytes]) -> bool:
    commit = decode(line)
    if commit is None:
        return _holds(line, pieces)
    versions = {version for step in commit.revisions for version in (step.before, step.after)}
    return bool(versions & set(erased.versions)) or any(step.path in erased.names for step in commit.revisions)


def _others_in_journal(line: bytes, pieces: set[bytes]) -> set[str]:
    """Other memories whose journalled texts say the same words."""
    commit = decode(line)
    steps = commit.revisions if commit else ()
    return {step.path for step in steps if _holds((step.old or b"") + b"\n" + (step.new or b""), pieces)}


def _is_memory(name: str) -> bool:
    return name.endswith(".md") and not name.startswith(".") and name != CATALOG and not _is_reserved(name)


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
        for name in names:
            yield os.path.join(folder, name)
