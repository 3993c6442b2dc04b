"""A folder whose past an earlier version wrote: all of it is told, before and after the first save; nothing is lost.

`tests/earlier/journal.json` has such a folder, with archived, appended, removed and forgotten texts, and what that
version told of it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from base64 import b64decode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from databases import history
from memsheaf.errors import Busy
from memsheaf.store import ABSENT, Change, Commit, Revision, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.old_journal import MAX_HOOK_BYTES, encode
from memsheaf.store.sqlite_file import in_hook

EARLIER = json.loads((Path(__file__).parent.parent / "earlier" / "journal.json").read_text(encoding="utf-8"))
SEGMENT = "journal-000005.jsonl"
DAY = 86_400.0


class Earlier(NamedTuple):
    """A folder as the earlier version left it, and a store of this version."""

    root: Path
    store: FolderStore

    def append(self, *lines: bytes) -> None:
        """Add lines as a process of the earlier version does that is still at work."""
        with open(self.root / ".history" / SEGMENT, "ab") as file:
            file.writelines(lines)


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[Earlier]:
    root = tmp_path / "user"
    for path, data in EARLIER["root"].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b64decode(data))
    store = FolderStore(str(root), patience=0, clock=lambda: 1_797_000_000.0)
    yield Earlier(root, store)
    store.close()


def check_told(store: FolderStore, *, after: int = 0) -> None:
    """The store tells what the earlier version told; every text that was there is there."""
    expected: dict[str, Any] = EARLIER["expected"]
    log = list(store.history())[after:]
    assert [(one.id, one.at, one.by, one.why, one.undoes) for one in log] == [
        tuple(line[:5]) for line in expected["log"]
    ]
    for one, line in zip(log, expected["log"], strict=True):
        assert [step[:3] for step in one.revisions] == [tuple(step[:3]) for step in line[5]]
        for step, (_, _, _, old, new) in zip(one.revisions, line[5], strict=True):
            assert old is None or step.old == b64decode(old)
            assert new is None or step.new == b64decode(new)
    assert [stone.path for stone in store.buried_all()] == expected["stones"]
    assert store.uses_noted() == expected["uses"][0]
    assert store.is_published("MEMORY.md")


def test_all_is_told_before_anything_is_written(earlier: Earlier) -> None:
    before = sorted(os.listdir(earlier.root / ".history"))

    check_told(earlier.store)

    assert sorted(os.listdir(earlier.root / ".history")) == before
    assert earlier.store.find(EARLIER["expected"]["log"][0][0][:6]).revisions


def test_all_is_told_after_the_first_save_and_can_be_undone(earlier: Earlier) -> None:
    earlier.store.commit([Change("new.md", b"new\n", ABSENT)], by="user")

    check_told(earlier.store, after=1)
    assert (earlier.root / ".history" / SEGMENT).exists(), "the old files stay"
    assert earlier.store.adopt(None) is None
    earlier.store.undo(by="user")
    assert earlier.store.undo(by="user").revisions[0].path == "last.md"
    with FolderStore(str(earlier.root)).lock("work"):
        check_told(FolderStore(str(earlier.root)), after=3)


def test_what_was_read_before_the_first_save_is_taken_in_all_the_same(earlier: Earlier) -> None:
    step = Revision("theirs.md", ABSENT, version_of(b"theirs\n"), None, b"theirs\n")
    for number in range(3):
        store = FolderStore(str(earlier.root))
        assert store.last_id()
        store.commit([Change(f"{number}.md", b"new\n", ABSENT)], by="user")

        with closing(sqlite3.connect(history(earlier.root))) as db:
            (last,) = db.execute("SELECT id FROM commits ORDER BY n DESC LIMIT 1").fetchone()
            (count,) = db.execute("SELECT count(*) FROM commits").fetchone()
        assert last == store.last_id()
        assert count == len(EARLIER["expected"]["log"]) + 2 * number + 1
        store.close()
        line = encode(Commit(f"0a{number}", "2026-12-10T00:00:00.000Z", "agent", "meanwhile", (step,)))
        earlier.append(line, b'{"done": "0a%d", "boot": ""}\n' % number)


def test_what_the_earlier_version_appends_is_taken_in(earlier: Earlier) -> None:
    earlier.store.commit([Change("new.md", b"new\n", ABSENT)], by="user")
    text = b"theirs\n"
    (earlier.root / "theirs.md").write_bytes(text)
    step = Revision("theirs.md", ABSENT, version_of(text), None, text)
    earlier.append(
        encode(Commit("0a0b0c", "2026-12-10T00:00:00.000Z", "agent", "meanwhile", (step,))),
        b'{"done": "0a0b0c", "boot": ""}\n',
    )

    assert [one.why for one in earlier.store.history("theirs.md")] == ["meanwhile"]
    earlier.store.commit([Change("newer.md", b"newer\n", ABSENT)], by="user")
    assert [one.why for one in FolderStore(str(earlier.root)).history("theirs.md")] == ["meanwhile"]
    assert earlier.store.adopt(["theirs.md"]) is None
    assert len({one.id for one in earlier.store.history()}) == len(list(earlier.store.history()))


@pytest.mark.parametrize("is_placed", [False, True])
def test_what_a_dead_process_of_the_earlier_version_decided_is_completed(earlier: Earlier, is_placed: bool) -> None:
    old = (earlier.root / "last.md").read_bytes()
    if is_placed:
        (earlier.root / "last.md").write_bytes(b"decided\n")
    step = Revision("last.md", version_of(old), version_of(b"decided\n"), old, b"decided\n")
    line = encode(Commit("0a0b0c", "2026-12-10T00:00:00.000Z", "agent", "", (step,)))
    earlier.append(line, line[:50])  # and the next line is torn

    earlier.store.recover()

    assert earlier.store.read("last.md").data == b"decided\n"
    assert earlier.store.last_id() == "0a0b0c"
    earlier.store.commit([Change("new.md", b"new\n", ABSENT)], by="user")
    check_told(earlier.store, after=2)


def test_a_line_that_rotted_is_counted_and_hides_no_other(earlier: Earlier) -> None:
    segment = earlier.root / ".history" / SEGMENT
    segment.write_bytes(segment.read_bytes().replace(b'"new": "last', b'"new": "lost'))

    earlier.store.commit([Change("new.md", b"new\n", ABSENT)], by="user")

    assert earlier.store.damaged() == [(SEGMENT, "1 lines of it could not be read")]
    assert len(list(earlier.store.history())) == len(EARLIER["expected"]["log"])
    assert earlier.store.read("last.md").data == b"last\n"


def test_half_a_character_in_a_line_stops_no_save(earlier: Earlier) -> None:
    line = encode(Commit("0badb007", "2026-11-17T00:00:00.000Z", "agent", "why", ()))
    earlier.append(line.replace(b'"boot": ""', rb'"boot": "\ud800"'))

    earlier.store.commit([Change("new.md", b"new\n", ABSENT)], by="user")

    assert earlier.store.find("0badb007").why == "why"


def test_the_old_files_go_with_retention_and_with_what_is_erased(earlier: Earlier, tmp_path: Path) -> None:
    for name in os.listdir(earlier.root / ".history"):
        os.utime(earlier.root / ".history" / name, (1_797_000_000.0, 1_797_000_000.0))
    late = FolderStore(str(earlier.root), clock=lambda: 1_797_000_000.0 + 40 * DAY)
    early = FolderStore(str(earlier.root), clock=lambda: 1_797_000_000.0 + 20 * DAY)

    early.prune()
    assert (earlier.root / ".history" / SEGMENT).exists()
    late.prune()
    assert not any(name.endswith(".jsonl") for name in os.listdir(earlier.root / ".history"))
    assert len(list(late.history())) == len(EARLIER["expected"]["log"])


def test_erasing_leaves_nothing_in_the_old_files(earlier: Earlier) -> None:
    earlier.store.erase("log.md", by="user")

    assert list(earlier.store.history("log.md")) == []
    for path in (path for path in earlier.root.rglob("*") if path.is_file()):
        assert b"of a page that is only added to" not in path.read_bytes()


# hooks


def test_a_hook_leaves_a_long_import_to_the_next_command(earlier: Earlier) -> None:
    earlier.append(b'{"done": "0", "boot": ""}\n' * (MAX_HOOK_BYTES // 26))
    with in_hook():
        assert list(earlier.store.history()) == []
        with pytest.raises(Busy):
            earlier.store.commit([Change("new.md", b"new\n", ABSENT)], by="agent")
    assert not (earlier.root / "new.md").exists()
    check_told(earlier.store)

    earlier.store.commit([Change("new.md", b"new\n", ABSENT)], by="user")
    with in_hook():
        check_told(FolderStore(str(earlier.root)), after=1)


def test_a_hook_reads_the_history_as_far_as_it_was_taken_in(earlier: Earlier) -> None:
    earlier.store.commit([Change("new.md", b"new\n", ABSENT)], by="user")
    earlier.append(b'{"done": "0", "boot": ""}\n' * (MAX_HOOK_BYTES // 26))
    with in_hook():
        check_told(earlier.store, after=1)
    earlier.store.commit([Change("newer.md", b"newer\n", ABSENT)], by="user")
    with in_hook():
        assert earlier.store.commit([Change("newest.md", b"newest\n", ABSENT)], by="agent").id


def test_a_hook_takes_in_a_short_journal(earlier: Earlier) -> None:
    with in_hook():
        check_told(earlier.store)
        earlier.store.commit([Change("new.md", b"new\n", ABSENT)], by="agent")
        check_told(earlier.store, after=1)
