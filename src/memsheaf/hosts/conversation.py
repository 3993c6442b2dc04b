"""The state of a host's conversation: what was shown in it, and how far its transcript was read.

One small JSON file each in `hooks/` of the state directory, by host and conversation id: several hosts in one project
share memories and not state. A transcript is noted by its size when a turn ends, and read later, from a byte cursor:
the text of the turn stays where the host keeps it until then.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from stat import S_ISREG
from typing import Any

from memsheaf.scope import parse_object
from memsheaf.store.safe_dir import Folder, kernel_lock, replace

FOLDER = "hooks"
KEPT_DAYS = 30.0
PATIENCE = 3.0  # seconds to wait for another hook of the conversation
TAIL = 64 << 10  # bytes of a transcript that are read when its beginning was not seen


class HostConversation:
    """What is known of one conversation. Change it inside `open_conversation`, which saves it."""

    def __init__(self, path: str, data: dict[str, Any]) -> None:
        self.path = path
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
        """Whether a turn that ended was not read yet."""
        return self.number("captured") > self.number("cursor")


def size_of(path: str) -> int:
    """The size of a file, 0 when there is none; a folder or a pipe is none."""
    try:
        found = os.stat(path)
    except OSError:
        return 0
    return found.st_size if S_ISREG(found.st_mode) else 0


def path_of(state: str, host: str, conversation: str) -> str:
    """The file of a conversation."""
    name = sha256(f"{host}\n{conversation}".encode("utf-8", "replace")).hexdigest()[:24]
    return os.path.join(state, FOLDER, f"{name}.json")


@contextmanager
def open_conversation(path: str, *, durably: bool = False) -> Iterator[HostConversation]:
    """Be the only one who changes a conversation; what was changed is saved at the end, and not after an error.

    Raises Busy: the tools of a server wait behind its hooks.
    """
    folder, name = os.path.split(path)
    with Folder.open(folder, create=True) as within, kernel_lock(within, f"{name}.lock", wait=PATIENCE):
        found = HostConversation(path, load(path))
        before = json.dumps(found.data)
        yield found
        if json.dumps(found.data) != before:
            found.data["at"] = int(time.time())
            replace(within, name, json.dumps(found.data).encode(), durable=durably)


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


def conversations(state: str) -> list[str]:
    """The files of all conversations."""
    folder = os.path.join(state, FOLDER)
    try:
        return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".json"))
    except OSError:
        return []


def prune(state: str, now: float) -> None:
    """Remove conversations without a turn for a month, and drafts that a crash left."""
    folder = os.path.join(state, FOLDER)
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            age = now - entry.stat(follow_symlinks=False).st_mtime
            if age > KEPT_DAYS * 86_400 or (entry.name.startswith("draft-") and age > 3_600):
                with suppress(OSError):
                    os.unlink(entry.path)
