"""The recall log: which memories were recalled for which message, and when.

`recalls` in the state directory of a scope has a line for each recall, the last 500 of them. A message is cut to 200
bytes, without secrets; one that is off the record, or that memory is ignored for, is not logged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from memsheaf.errors import Busy, StoreFailed
from memsheaf.guard import without_secrets
from memsheaf.store.state import State, line
from memsheaf.text.neutralize import cut_bytes
from memsheaf.text.spoken import unwrapped

NAME = "recalls"
MOST = 500
MESSAGE_BYTES = 200
CHECKED = 16_384  # characters that are searched for secrets: half a secret would not be recognised
MANY_BYTES = 1 << 18  # from here on the oldest lines go
CUT = "…"
TAIL = 12  # characters at the end of a message that was cut, by which the begin of an erased text is found
LOCK_SECONDS = 10.0


class RecallRecord(NamedTuple):
    """One recall: when, for which message, and the memories that were shown."""

    at: str
    message: str
    paths: tuple[str, ...]


def log_recall(state: State, at: str, message: str, paths: Sequence[str]) -> None:
    """Add a recall; write errors are ignored."""
    whole = without_secrets(unwrapped(message)[:CHECKED]).strip()
    kept = cut_bytes(whole, MESSAGE_BYTES)
    record = {"at": at, "message": kept if kept == whole else kept + CUT, "paths": list(paths)}
    with suppress(StoreFailed, Busy):
        if state.add(NAME, line(record), durably=False) > MANY_BYTES:
            with state.lock(NAME):
                _write(state, recall_records(state))


def recall_records(state: State) -> list[RecallRecord]:
    """The recalls that are logged, oldest first."""
    found = []
    for one in state.lines(NAME):
        match one:
            case {"at": str(at), "message": str(message), "paths": list(paths)}:
                found.append(RecallRecord(at, message, tuple(map(str, paths))))
    return found[-MOST:]


def forget(state: State, texts: Sequence[bytes], keep: Callable[[str], bool], names: Collection[str] = ()) -> None:
    """Drop recalls of erased memories, by their `names`, and messages that say the same. Raises StoreFailed."""
    if not (known := recall_records(state)):
        return
    said = [" ".join(text.decode("utf-8", "replace").split()).casefold() for text in texts]

    def is_cut_short(message: str) -> bool:
        tail = " ".join(message.removesuffix(CUT).split()).casefold()[-TAIL:]
        return message.endswith(CUT) and any(tail in text for text in said)

    with state.lock(NAME, wait=LOCK_SECONDS):
        known = recall_records(state)
        kept = [
            one
            for one in known
            if keep(one.message) and not is_cut_short(one.message) and not any(name in names for name in one.paths)
        ]
        if len(kept) < len(known):
            _write(state, kept)


def _write(state: State, records: Sequence[RecallRecord]) -> None:
    state.write(NAME, b"".join(line(one._asdict()) for one in records))
