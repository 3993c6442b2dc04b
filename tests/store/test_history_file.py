"""What happens to `history.db` from outside: copied, synced, restored, removed, read only, replaced by a stranger."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from databases import history, leave_unplaced
from memsheaf.errors import StoreFailed
from memsheaf.store import Change, version_of
from memsheaf.store.folder import FolderStore
from trees import as_nobody

Texts = list[tuple[str, bytes | None]]


def told(store: FolderStore) -> Texts:
    return [(step.path, step.new) for commit in store.history() for step in commit.revisions]


def put(store: FolderStore, path: str, new: bytes, old: bytes | None = None) -> None:
    store.commit([Change(path, new, version_of(old))], by="agent")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FolderStore]:
    store = FolderStore(str(tmp_path / "root"), patience=0)
    put(store, "a.md", b"one\n")
    put(store, "a.md", b"two\n", b"one\n")
    yield store
    store.close()


def test_a_copy_that_is_made_while_the_folder_is_in_use_has_all(store: FolderStore, tmp_path: Path) -> None:
    shutil.copytree(store.root, tmp_path / "copy")

    copy = FolderStore(str(tmp_path / "copy"))

    assert told(copy) == told(store)
    assert copy.undo(by="user").revisions[0].new == b"one\n"
    assert store.read("a.md").data == b"two\n"


def test_of_two_copies_that_were_edited_apart_and_synced_no_text_is_lost(store: FolderStore, tmp_path: Path) -> None:
    store.close()
    shutil.copytree(store.root, tmp_path / "other")
    other = FolderStore(str(tmp_path / "other"))
    put(store, "mine.md", b"mine\n")
    put(other, "theirs.md", b"theirs\n")
    put(other, "a.md", b"three\n", b"two\n")
    other.close()
    shutil.copytree(tmp_path / "other", store.root, dirs_exist_ok=True)  # as a sync program does, while ours is open

    store.adopt(["mine.md", "theirs.md", "a.md"])

    assert {path for path, _ in told(store)} == {"a.md", "mine.md", "theirs.md"}
    assert store.read("mine.md").data == b"mine\n"
    assert store.undo(by="user").revisions
    assert FolderStore(store.root).damaged() == []


def test_after_a_restored_backup_of_the_history_newer_files_are_edits(store: FolderStore, tmp_path: Path) -> None:
    store.close()
    backup = shutil.copy(history(store.root), tmp_path / "backup.db")
    put(store, "a.md", b"three\n", b"two\n")
    store.close()
    shutil.copy(backup, history(store.root))

    store.adopt(["a.md"])

    assert told(store)[0] == ("a.md", b"three\n")
    assert next(store.history()).by == "outside"
    assert store.undo(by="user").revisions[0].new == b"two\n"


@pytest.mark.parametrize(
    "names", [["history.db"], ["history.db-wal", "history.db-shm"], ["history.db", "history.db-wal"]]
)
def test_files_of_the_history_that_are_removed_while_it_is_open_cost_no_memory(
    store: FolderStore, names: list[str]
) -> None:
    for name in names:
        os.unlink(Path(store.root, ".history", name))

    for number in range(3):
        put(store, f"{number}.md", b"after\n")
    put(FolderStore(store.root), "other.md", b"other\n")
    store.close()

    reopened = FolderStore(store.root)
    assert sorted(entry.path for entry in reopened.scan()) == ["0.md", "1.md", "2.md", "a.md", "other.md"]
    assert all(reopened.read(path).data == new for path, new in told(reopened)[:1])
    assert ("other.md", b"other\n") in told(reopened)
    assert reopened.damaged() == []


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "in use elsewhere"])
def test_a_folder_of_a_read_only_medium_tells_its_history(store: FolderStore, is_open: bool) -> None:
    if not is_open:
        store.close()
    folder = history(store.root).parent
    with as_nobody(Path(store.root)):
        for path in (*folder.iterdir(), folder, Path(store.root)):
            os.chmod(path, 0o555 if path.is_dir() else 0o444)

        assert told(FolderStore(store.root)) == [("a.md", b"two\n"), ("a.md", b"one\n")]

        os.chmod(folder, 0o700)
        os.chmod(store.root, 0o700)


def test_a_database_of_a_stranger_is_set_aside_and_runs_nothing(store: FolderStore) -> None:
    store.close()
    with closing(sqlite3.connect(history(store.root), isolation_level=None)) as db:
        db.execute("CREATE TRIGGER evil AFTER INSERT ON commits BEGIN DELETE FROM texts; END")

    assert list(store.history()) == []
    put(store, "b.md", b"b\n")

    assert told(store) == [("b.md", b"b\n")]
    assert store.read("a.md").data == b"two\n"
    [(name, _)] = store.damaged()
    assert name.startswith("history.db.damaged-")


def test_a_hostile_row_brings_no_file_and_no_text(store: FolderStore, tmp_path: Path) -> None:
    store.close()
    with closing(sqlite3.connect(history(store.root), isolation_level=None)) as db:
        db.execute("INSERT INTO commits VALUES (99, '0a', '2026-11-15T00:00:00.000Z', 'user', '', '', 'boot', 0)")
        version = version_of(b"evil\n")
        for place, path in enumerate(("../x.md", "/x.md", ".history/lock", "d/../../x.md", "a\0.md")):
            db.execute("INSERT INTO changes VALUES (99, ?, ?, '', ?)", (place, path, version))
        db.execute("INSERT INTO texts VALUES (?, ?)", (version, b"evil\n"))
        db.execute("UPDATE texts SET data = ? WHERE data = ?", (b"forged\n", b"one\n"))

    store.recover()
    put(store, "b.md", b"b\n")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["root"]
    assert [new for path, new in told(store) if path == "a.md"] == [b"two\n", None]
    assert store.adopt(None) is None


def test_a_lock_that_another_program_holds_on_the_database_is_waited_for(store: FolderStore) -> None:
    with closing(sqlite3.connect(history(store.root), isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        assert told(store)[0] == ("a.md", b"two\n"), "a reader does not wait"
        db.execute("ROLLBACK")
    put(store, "b.md", b"b\n")


def test_where_no_memory_is_shared_the_history_uses_a_rollback_journal(store: FolderStore) -> None:
    store.close()
    with closing(sqlite3.connect(history(store.root), isolation_level=None)) as db:
        assert db.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)

    put(store, "b.md", b"b\n")

    assert told(FolderStore(store.root))[0] == ("b.md", b"b\n")
    assert not os.path.exists(f"{history(store.root)}-wal")


def test_a_child_of_a_process_with_an_open_history_takes_no_lock_for_its_own(store: FolderStore) -> None:
    assert told(store)
    child = os.fork()
    if not child:
        put(store, "child.md", b"child\n")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    put(store, "parent.md", b"parent\n")
    store.close()

    assert [path for path, _ in told(FolderStore(store.root))[:2]] == ["parent.md", "child.md"]


def test_a_damaged_history_completes_nothing_after_a_reboot(store: FolderStore, tmp_path: Path) -> None:
    # such as of a database and a log that were copied at different moments, the folder last
    put(store, "needle.md", b"needle " * 2_000)
    store.close()
    writer = FolderStore(store.root, boot="before")
    put(writer, "a.md", b"three\n", b"two\n")
    shutil.copytree(store.root, tmp_path / "copy")
    with closing(sqlite3.connect(history(tmp_path / "copy"))) as db:
        assert db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() is not None
    data = bytearray(history(tmp_path / "copy").read_bytes())
    page = (data.rindex(b"needle needle") // 4096 - 1) * 4096
    data[page : page + 4096] = bytes(4096)
    history(tmp_path / "copy").write_bytes(data)
    (tmp_path / "copy" / "a.md").write_bytes(b"two\n")  # what an undo made of it, which the copy does not know

    copy = FolderStore(str(tmp_path / "copy"), boot="after")
    with pytest.raises(StoreFailed):
        copy.recover()
    put(copy, "new.md", b"new\n")

    assert copy.read("a.md").data == b"two\n"
    assert [why for _, why in copy.damaged()] == ["the history was damaged, and begun again"]
    writer.close()


def test_drafts_of_a_commit_that_was_lost_with_its_history_complete_nothing(store: FolderStore) -> None:
    store.close()
    backup = history(store.root).read_bytes()
    writer = FolderStore(store.root)
    put(writer, "lost.md", b"lost\n")
    writer.close()
    leave_unplaced(store.root)
    history(store.root).write_bytes(backup)
    put(store, "b.md", b"new\n")
    store.close()
    leave_unplaced(store.root)
    os.unlink(os.path.join(store.root, "b.md"))
    os.unlink(os.path.join(store.root, "lost.md"))

    store.recover()

    assert store.read("b.md").data == b"new\n"
    assert not os.path.exists(os.path.join(store.root, "lost.md"))
