"""The state of a host's conversation: what was shown in it, and how far its transcript was read.

It is known by host and conversation id: several hosts in one project share memories and not state. A transcript is
noted by its size when a turn ends, and read later, from a byte cursor: the text of the turn stays where the host
keeps it until then. The folder `hooks` of the state directory has small files of the hooks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from stat import S_ISREG
from typing import Any

from memsheaf.scope import parse_object
from memsheaf.state import State
from memsheaf.store.safe_dir import Folder, replace

FOLDER = "hooks"
KEPT_DAYS = 30.0
PATIENCE = 3.0  # seconds to wait for others that write
TAIL = 64 << 10  # bytes of a transcript that are read when its beginning was not seen


class HostConversation:
    """All that is known of one conversation. Change it inside `open_conversation`, which saves it."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def number(self, name: str) -> int:
        """A number that was noted, 0 when there is none."""
        value = self.data.get(name)
        return value if isinstance(value, int) and value > 0 else 0

    def text(self, name: str) -> str:
        """A text that was noted, "" when there is none."""
        value = self.data.get(name)
        return value if isinstance(value, str) else ""

    def follow(self, transcript: str, *, from_end: bool) -> None:
        """Read this transcript from its end or, as its start may have been missed, from shortly before."""
        if self.text("transcript") != transcript:
            size = size_of(transcript)
            self.data |= {
                "transcript": transcript,
                "cursor": size if from_end else max(0, size - TAIL),
                "captured": 0,
            }

    def capture(self, transcript: str) -> None:
        """Note that all a transcript holds now is to be read."""
        self.follow(transcript, from_end=False)
        self.data["captured"] = size_of(transcript)

    def pass_over(self, transcript: str) -> None:
        """Mark the transcript, from the last captured turn to its end, as not to be read."""
        self.follow(transcript, from_end=True)
        cursor = self.number("cursor")
        begin = self.number("off_from") if cursor < self.number("off_to") else max(cursor, self.number("captured"))
        self.data |= {"off_from": begin, "off_to": size_of(transcript)}

    @property
    def has_more(self) -> bool:
        """Return True if a turn that ended was not read yet."""
        return self.number("captured") > self.number("cursor")


def size_of(path: str) -> int:
    """The size of a file, 0 when there is none; a folder or a pipe is none."""
    try:
        found = os.stat(path)
    except OSError:
        return 0
    return found.st_size if S_ISREG(found.st_mode) else 0


def name_conversation(host: str, conversation: str) -> str:
    """Return the name under which a conversation is noted."""
    return sha256(f"{host}\n{conversation}".encode("utf-8", "replace")).hexdigest()[:24]


def hook_state(state: str) -> State:
    """Return what is noted of the conversations of all hosts."""
    return State(os.path.join(state, FOLDER))


@contextmanager
def open_conversation(
    state: str, name: str, *, durably: bool = False, wait: float = PATIENCE
) -> Iterator[HostConversation]:
    """Be the only one who changes a conversation; what was changed is saved at the end, and not after an error.

    Nobody else can write meanwhile, so do not think in it. Raises Busy, StoreFailed.
    """
    notes = hook_state(state)
    with notes.writing(durable=durably, wait=wait):
        known = notes.load(name) or {}
        found = HostConversation(dict(known))
        yield found
        if found.data != known:
            found.data["at"] = int(time.time())
            notes.save(name, found.data)


def conversations(state: str) -> dict[str, HostConversation]:
    """Return all conversations by their names."""
    notes = hook_state(state).load_all()
    return {name: HostConversation(data) for name, data in notes.items() if isinstance(data, dict)}


def load(path: str) -> dict[str, Any]:
    """The JSON object in a file; {} when there is none that can be read."""
    try:
        with open(path, "rb") as file:
            return parse_object(file.read()) or {}
    except OSError:
        return {}


def save(path: str, data: bytes, *, durable: bool = False) -> None:
    """Replace a file as a whole."""
    folder, name = os.path.split(path)
    with Folder.open(folder, create=True) as within:
        replace(within, name, data, durable=durable)


def prune(state: str, now: float) -> None:
    """Forget conversations without a turn for a month, and remove files of the hooks that are as old."""
    notes = hook_state(state)
    oldest = now - KEPT_DAYS * 86_400
    for name, conversation in conversations(state).items():
        if conversation.number("at") < oldest:
            notes.save(name, None, durable=False)
    with suppress(OSError):
        for entry in list(os.scandir(notes.folder)):
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(entry.path)
