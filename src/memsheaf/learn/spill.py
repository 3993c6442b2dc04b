"""Spill files: the messages that compaction takes out of a conversation, in the state directory.

Secrets are taken out first, and turns off the record or without memory are left out. The name of a file is a hash of
its content: the same messages are the same file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from memsheaf.guard.secrets import without_secrets
from memsheaf.learn.erasure_filter import make_erasure_filter
from memsheaf.recall.ignore import asks_not_to_store, follow_privacy, is_silent
from memsheaf.recall.turns import TranscriptEntry
from memsheaf.store.state import State

DAYS = 30.0  # days that a file is kept after it was last written, unless the settings say otherwise
_PREFIX, _SUFFIX = "spill-", ".txt"
_MARK = "=== message "
_ERASED = "(erased: it said what an erased memory said)"


class Spill(NamedTuple):
    """A file for messages that were taken out: its name, what it holds, and of how many messages."""

    name: str
    text: str
    messages: int


BLANK = f"{_PREFIX}{'0' * 24}{_SUFFIX}"  # as long as every name of such a file


def make_spill(entries: Sequence[TranscriptEntry], taken: Iterable[int]) -> Spill:
    """These messages of a conversation as a file. Nothing is written yet."""
    silent = _silent(entries)
    parts = []
    for at in taken:
        entry = entries[at]
        head = f"{_MARK}{at + 1}: {entry.role}{f' ({entry.tool})' if entry.tool else ''} ==="
        said = "(not kept: the user wanted this off the record)" if at in silent else _body(entry.text)
        parts.append(f"{without_secrets(head)}\n{said}\n")
    text = "\n".join(parts)
    return Spill(f"{_PREFIX}{sha256(text.encode()).hexdigest()[:24]}{_SUFFIX}", text, len(parts))


def write_spill(state: State, spill: Spill, *, now: float, days: float = DAYS) -> str:
    """Write it, and remove files older than this many days. Gives its path. Raises StoreFailed."""
    state.write(spill.name, spill.text.encode())
    for name in _names(state):
        with suppress(OSError):  # another process was faster
            if os.lstat(os.path.join(state.folder, name)).st_mtime < now - days * 86_400 and name != spill.name:
                state.remove(name)
    return os.path.join(state.folder, spill.name)


def forget(state: State, texts: Sequence[bytes]) -> None:
    """Take out of the files, message by message, what erased memories said in any of their texts. Raises StoreFailed.

    What cannot be looked through goes whole: it is a copy, and the host's own transcript has the rest.
    """
    may_stay = make_erasure_filter(texts)
    for name in _names(state):
        data = state.read(name)
        if data is None or name.startswith("draft-"):
            state.remove(name)
            continue
        first, *parts = f"\n{data.decode('utf-8', 'replace')}".split(f"\n{_MARK}")
        heads = [part.partition("\n")[::2] for part in parts]
        kept = [f"{head}\n{said}" if may_stay(said) else f"{head}\n{_ERASED}\n" for head, said in heads]
        if kept != parts:
            state.write(name, f"\n{_MARK}".join([first, *kept])[1:].encode())


def _silent(entries: Sequence[TranscriptEntry]) -> set[int]:
    """The messages of turns that are not to be written down: from what the user says, to what they say next."""
    silent, privacy, is_ignoring = set(), "", False
    for at, entry in enumerate(entries):
        if entry.role == "user":
            privacy, is_ignoring = follow_privacy(privacy, entry.text), asks_not_to_store(entry.text)
        if is_ignoring or is_silent(privacy):
            silent.add(at)
    return silent


def _body(text: str) -> str:
    """A text without secrets and half characters, in which no line looks like the head of another message."""
    whole = without_secrets(text.encode("utf-8", "replace").decode() if not text.isascii() else text)
    return f"\n{whole}".replace(f"\n{_MARK}", f"\n {_MARK}")[1:]


def _names(state: State) -> list[str]:
    """The spilled files, and what a crash left of one."""
    return [name for name in state.names(drafts=True) if name.removeprefix("draft-").startswith(_PREFIX)]
