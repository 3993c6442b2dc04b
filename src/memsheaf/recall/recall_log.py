"""The recall log: which memories were recalled for which message, and when.

The state of a scope has the last 500 recalls. A message is cut to 200 bytes, without secrets; one that is off the
record, or that memory is ignored for, is not logged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from memsheaf.errors import Busy, StoreFailed
from memsheaf.guard import without_secrets
from memsheaf.state import State
from memsheaf.state.old_files import encodable
from memsheaf.store.folder import USE_WAIT_SECONDS
from memsheaf.text.neutralize import cut_bytes
from memsheaf.text.spoken import unwrapped

MAX_RECORDS = 500
MAX_MESSAGE_BYTES = 200
MAX_SEARCHED_CHARS = 16_384  # for secrets: half a secret would not be recognised
CUT_MARK = "…"
TAIL_CHARS = 12  # at the end of a message that was cut, by which the begin of an erased text is found


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
    row = state.name, at, encodable(text), json.dumps(list(paths))
    with suppress(StoreFailed, Busy), state.writing(durable=False, wait=USE_WAIT_SECONDS) as db:
        db.execute("INSERT INTO recall (folder, at, message, paths) VALUES (?, ?, ?, ?)", row)
        db.execute(
            "DELETE FROM recall WHERE folder = ?1 AND id <="
            " (SELECT id FROM recall WHERE folder = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
            (state.name, MAX_RECORDS),
        )


def recall_records(state: State) -> list[RecallRecord]:
    """Return the recalls that are logged, oldest first."""
    return [record for _, record in _numbered_records(state)]


def _numbered_records(state: State) -> list[tuple[int, RecallRecord]]:
    rows = state.query("SELECT id, at, message, paths FROM recall WHERE folder = ? ORDER BY id", state.name)
    return [(id, RecallRecord(at, message, tuple(json.loads(paths)))) for id, at, message, paths in rows]


def forget(state: State, texts: Sequence[bytes], keep: Callable[[str], bool], names: Collection[str] = ()) -> None:
    """Drop recalls of erased memories, by their `names`, and messages that say the same. Raises StoreFailed."""
    erased = [_fold(text.decode("utf-8", "replace")) for text in texts]

    def may_stay(record: RecallRecord) -> bool:
        if not keep(record.message) or not set(names).isdisjoint(record.paths):
            return False
        tail = _fold(record.message.removesuffix(CUT_MARK))[-TAIL_CHARS:]
        return not record.message.endswith(CUT_MARK) or not any(tail in text for text in erased)

    with state.writing() as db:
        gone = [(id,) for id, record in _numbered_records(state) if not may_stay(record)]
        db.executemany("DELETE FROM recall WHERE id = ?", gone)


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()
