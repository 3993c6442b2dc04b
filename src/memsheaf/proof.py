"""Proof of an erasure: look at every byte that is left, and say what was looked at."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from memsheaf.guard.names import CATALOG, RESERVED_FOLDERS
from memsheaf.store.folder import Erased
from memsheaf.store.journal import decode

SHORTEST = 12  # a shorter piece of text proves nothing, it is everywhere


@dataclass(frozen=True, slots=True)
class Proof:
    """What was erased, where we looked, and what is left. `left` is empty when it is gone.

    `elsewhere` names other memories that say the same words: they are not this one's to erase.
    """

    path: str
    versions: int
    files: int
    bytes: int
    left: tuple[str, ...]
    elsewhere: tuple[str, ...]

    @property
    def gone(self) -> bool:
        """Whether no trace was found."""
        return not self.left


def examine(root: str, erased: Erased, others: Iterable[str]) -> Proof:
    """Read every file under `root` and each of `others`, and look for the erased memory in them."""
    found = {place: data for place in [*_files(root), *others] if (data := _bytes(place)) is not None}
    memories = {place: data for place, data in found.items() if _is_memory(os.path.relpath(place, root))}
    pieces = _pieces(erased)
    elsewhere = {os.path.relpath(place, root) for place, data in memories.items() if _holds(data, pieces)}
    # what another memory says as well is no trace of this one
    telling = {piece for piece in pieces if not any(piece in data for data in memories.values())}
    left = []
    for place, data in found.items():
        name = os.path.relpath(place, root)
        if place.endswith(".jsonl"):
            for number, line in enumerate(data.split(b"\n"), 1):
                if _in_journal(line, erased, telling):
                    left.append(f"{name}:{number}")
                elsewhere |= _others_in_journal(line, telling)
        elif place not in memories and _holds(data, telling):
            left.append(name)
    size = sum(map(len, found.values()))
    return Proof(erased.path, len(erased.versions), len(found), size, tuple(left), tuple(sorted(elsewhere)))


def _pieces(erased: Erased) -> set[bytes]:
    """Pieces of the erased texts that are long enough to be telling."""
    lines = {line.strip() for text in erased.texts for line in text.split(b"\n")}
    own = {f"]({erased.path})".encode()}
    return own | {line for line in lines if len(line) >= SHORTEST and not line.startswith(_COMMON)}


_COMMON = (b"type:", b"created:", b"updated:", b"source:", b"trust:", b"pinned:", b"expires:")


def _holds(data: bytes, pieces: Iterable[bytes]) -> bool:
    return any(piece in data for piece in pieces)


def _in_journal(line: bytes, erased: Erased, pieces: set[bytes]) -> bool:
    commit = decode(line)
    if commit is None:
        return _holds(line, pieces)
    versions = {version for step in commit.revisions for version in (step.before, step.after)}
    return bool(versions & set(erased.versions)) or any(step.path == erased.path for step in commit.revisions)


def _others_in_journal(line: bytes, pieces: set[bytes]) -> set[str]:
    """Other memories whose journalled texts say the same words."""
    commit = decode(line)
    steps = commit.revisions if commit else ()
    return {step.path for step in steps if _holds((step.old or b"") + b"\n" + (step.new or b""), pieces)}


def _is_memory(name: str) -> bool:
    return name.endswith(".md") and not name.startswith(".") and name != CATALOG


def _bytes(place: str) -> bytes | None:
    try:
        with open(place, "rb") as file:
            return file.read()
    except OSError:
        return None


def _files(root: str) -> Iterable[str]:
    for folder, folders, names in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name.casefold() not in RESERVED_FOLDERS]
        for name in names:
            yield os.path.join(folder, name)
