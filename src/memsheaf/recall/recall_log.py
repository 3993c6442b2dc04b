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

FILE = "recalls"
MAX_RECORDS = 500
MAX_MESSAGE_BYTES = 200
MAX_SEARCHED_CHARS = 16_384  # for secrets: half a secret would not be recognised
MAX_FILE_BYTES = 1 << 18  # then the oldest lines go
CUT_MARK = "…"
TAIL_CHARS = 12  # at the end of a message that was cut, by which the begin of an erased text is found
LOCK_SECONDS = 10.0


class RecallRecord(NamedTuple):
    """One recall: when, for which message, and the memories that were shown."""

    at: str
    message: str
    paths: tuple[str, ...]


def log_recall(state: State, at: str, message: str, paths: Sequence[str]) -> None:
    """Add a recall; write errors are ignored."""
    whole = without_secrets(unwrapped(message)[:MAX_SEARCHED_CHARS]).strip()
    text = cut_bytes(whole, MAX_MESSAGE_BYTES)
    if text != whole:
        text += CUT_MARK
    with suppress(StoreFailed, Busy):
        record = line({"at": at, "message": text, "paths": list(paths)})
        if state.add(FILE, record, durably=False) > MAX_FILE_BYTES:
            with state.lock(FILE):
                _write(state, recall_records(state))


def recall_records(state: State) -> list[RecallRecord]:
    """Return the recalls that are logged, oldest first."""
    records = []
    for record in state.lines(FILE):
        match record:
            case {"at": str(at), "message": str(message), "paths": list(paths)}:
                records.append(RecallRecord(at, message, tuple(map(str, paths))))
    return records[-MAX_RECORDS:]


def forget(state: State, texts: Sequence[bytes], keep: Callable[[str], bool], names: Collection[str] = ()) -> None:
    """Drop recalls of erased memories, by their `names`, and messages that say the same. Raises StoreFailed."""
    if not recall_records(state):
        return
    erased = [_fold(text.decode("utf-8", "replace")) for text in texts]

    def may_stay(record: RecallRecord) -> bool:
        if not keep(record.message) or not set(names).isdisjoint(record.paths):
            return False
        tail = _fold(record.message.removesuffix(CUT_MARK))[-TAIL_CHARS:]
        return not record.message.endswith(CUT_MARK) or not any(tail in text for text in erased)

    with state.lock(FILE, wait=LOCK_SECONDS):
        records = recall_records(state)
        left = list(filter(may_stay, records))
        if left != records:
            _write(state, left)


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()


def _write(state: State, records: Sequence[RecallRecord]) -> None:
    state.write(FILE, b"".join(line(record._asdict()) for record in records))
