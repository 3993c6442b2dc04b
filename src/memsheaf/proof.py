"""Proof of an erasure: look at every byte that is left, and say what was looked at."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

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
    pieces = _pieces(erased)
    left: list[str] = []
    elsewhere: list[str] = []
    files = size = 0
    for place in [*_files(root), *others]:
        try:
            with open(place, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            continue
        files, size = files + 1, size + len(data)
        name = os.path.relpath(place, root) if place.startswith(root) else os.path.basename(place)
        if place.endswith(".jsonl"):
            left += [
                f"{name}:{number}"
                for number, line in enumerate(data.split(b"\n"), 1)
                if _in_journal(line, erased, pieces)
            ]
        elif any(piece in data for piece in pieces):
            is_memory = name.endswith(".md") and not name.startswith(".") and name != "MEMORY.md"
            (elsewhere if is_memory else left).append(name)
    return Proof(erased.path, len(erased.versions), files, size, tuple(left), tuple(elsewhere))


def _pieces(erased: Erased) -> set[bytes]:
    """Pieces of the erased texts that are long enough to be telling."""
    lines = {line.strip() for text in erased.texts for line in text.split(b"\n")}
    own = {f"]({erased.path})".encode()}
    return own | {line for line in lines if len(line) >= SHORTEST and not line.startswith(_COMMON)}


_COMMON = (b"type:", b"created:", b"updated:", b"source:", b"trust:", b"pinned:", b"expires:", b"**")


def _in_journal(line: bytes, erased: Erased, pieces: set[bytes]) -> bool:
    commit = decode(line)
    if commit is None:
        return any(piece in line for piece in pieces)
    return any(revision.path == erased.path for revision in commit.revisions) or erased.path in commit.why


def _files(root: str) -> Iterable[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in ("tasks", "sessions", "logs")]
        for name in names:
            yield os.path.join(folder, name)
