"""Spill files: the messages that compaction takes out of a conversation, in the state directory.

Secrets are taken out first, and turns off the record or without memory are left out. The name of a file is a hash of
its content: the same messages are the same file. It is a copy for a while; the host's own transcript has the rest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from memsheaf.guard.secrets import without_secrets
from memsheaf.learn.erasure_filter import make_erasure_filter
from memsheaf.recall.turns import TranscriptEntry
from memsheaf.state import State
from memsheaf.text.requests import asks_not_to_store, follow_privacy, is_silent

DAYS = 30.0  # days that a file is kept after it was last written, unless the settings say otherwise
_FILE_PREFIX, _FILE_SUFFIX = "spill-", ".txt"
_MESSAGE_MARK = "=== message "
BLANK = f"{_FILE_PREFIX}{'0' * 24}{_FILE_SUFFIX}"  # as long as every name of such a file


class Spill(NamedTuple):
    """A file for messages that were taken out: its name, its text, and the number of messages."""

    name: str
    text: str
    messages: int


def make_spill(entries: Sequence[TranscriptEntry], taken: Iterable[int]) -> Spill:
    """Return these messages of a conversation as a file. Nothing is written yet.

    A turn that is not to be written down reaches from what the user says to what they say next.
    """
    silent, privacy, is_ignoring = set(), "", False
    for at, entry in enumerate(entries):
        if entry.role == "user":
            privacy, is_ignoring = follow_privacy(privacy, entry.text), asks_not_to_store(entry.text)
        if is_ignoring or is_silent(privacy):
            silent.add(at)
    parts = []
    for at in taken:
        entry = entries[at]
        tool = f" ({entry.tool})" if entry.tool else ""
        body = "(not kept: the user wanted this off the record)"
        if at not in silent:
            body = without_secrets(entry.text.encode("utf-8", "replace").decode())
        # no line of a message looks like the head of another
        body = f"\n{body}".replace(f"\n{_MESSAGE_MARK}", f"\n {_MESSAGE_MARK}")
        parts.append(without_secrets(f"{_MESSAGE_MARK}{at + 1}: {entry.role}{tool} ===") + body + "\n")
    text = "\n".join(parts)
    return Spill(f"{_FILE_PREFIX}{sha256(text.encode()).hexdigest()[:24]}{_FILE_SUFFIX}", text, len(parts))


def write_spill(state: State, spill: Spill, *, now: float, days: float = DAYS) -> None:
    """Write a file, and remove those older than this many days. Raises StoreFailed."""
    state.write(spill.name, spill.text.encode())
    for name in _list_names(state):
        with suppress(OSError):  # another process was faster
            if os.lstat(os.path.join(state.folder, name)).st_mtime < now - days * 86_400 and name != spill.name:
                state.remove(name)


def forget(state: State, texts: Sequence[bytes]) -> None:
    """Remove the files in which a message says what erased memories said in any text. Raises StoreFailed."""
    may_stay = make_erasure_filter(texts)
    for name in _list_names(state):
        parts = (state.read(name) or b"").decode("utf-8", "replace").split(f"\n{_MESSAGE_MARK}")
        if name.startswith("draft-") or not all(map(may_stay, parts)):
            state.remove(name)


def _list_names(state: State) -> list[str]:
    """Return the names of the spilled files, and of what a crash left of one."""
    return [name for name in state.names(drafts=True) if name.removeprefix("draft-").startswith(_FILE_PREFIX)]
