"""The lock belongs to who took it, and to nobody else for a moment longer."""

from __future__ import annotations

import os
import signal
import time
import warnings
from pathlib import Path

import pytest

from memsheaf.errors import Busy
from memsheaf.store import ABSENT, Change
from memsheaf.store.folder import FolderStore


def test_a_child_forked_while_the_lock_was_held_does_not_keep_it(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path), wait=1.0)
    with store.lock("work"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is the point here
        child = os.fork()
        if not child:
            signal.pause()
            os._exit(0)
    try:
        with FolderStore(str(tmp_path), wait=0.2).lock("work"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_lock_that_is_held_too_long_is_busy(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path))
    with store.lock("work"), pytest.raises(Busy), FolderStore(str(tmp_path)).lock("work", wait=0.05):
        pass


def test_what_was_saved_is_not_called_failed_because_closing_had_to_wait(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path), wait=0.05)
    store.commit([Change("a.md", b"text", ABSENT)], by="agent")
    started = time.monotonic()
    history = os.open(tmp_path / ".history" / "lock", os.O_RDWR)
    import fcntl

    fcntl.flock(history, fcntl.LOCK_EX)
    store.close()
    os.close(history)

    assert time.monotonic() - started < 30
    assert FolderStore(str(tmp_path)).read("a.md").data == b"text"


@pytest.mark.parametrize(
    "line",
    [
        '{"done": "ffffffffffffffffffffffff", "boot": ""}',
        '{"commit": ["a"], "at": "", "by": "", "why": "", "boot": "", "changes": []}',
        '{"commit": "0a", "at": 5, "by": "", "why": "", "boot": "", "changes": []}',
        '{"commit": "0a", "at": "", "by": "", "why": [], "boot": "", "changes": []}',
        '{"commit": "0a", "at": "", "by": "", "why": "", "undoes": [], "boot": "", "changes": []}',
        '{"commit": "0a", "at": "", "by": "", "why": "", "boot": "", "changes": [{"path": "a.md", "before": []}]}',
    ],
)
def test_a_journal_that_came_with_a_repository_stops_nobody(tmp_path: Path, line: str) -> None:
    (tmp_path / ".history").mkdir()
    (tmp_path / ".history" / "journal-000001.jsonl").write_text(f'{line}\n{{"safe": ""}}\n')
    store = FolderStore(str(tmp_path), retention_days=0)

    commit = store.commit([Change("a.md", b"text", ABSENT)], by="agent")
    store.adopt(None)
    store.prune()

    assert [found.id for found in store.history()] == [commit.id]
    assert store.erase("a.md", by="user").path == "a.md"
