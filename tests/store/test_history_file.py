"""What happens to `history.db` from outside: copied, synced, restored, removed, read only, replaced by a stranger."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from databases import change_history, history, leave_unplaced
from memsheaf.errors import PathRefused, StoreFailed
from memsheaf.store import Change, sqlite_file, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.history import History
from memsheaf.store.safe_dir import Folder
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


def test_a_copy_that_lacks_commits_of_its_changes_takes_saves(store: FolderStore) -> None:
    put(store, "b.md", b"b\n")
    store.close()
    change_history(store.root, "DELETE FROM commits WHERE n > 1")

    put(store, "c.md", b"c\n")
    put(store, "c.md", b"d\n", b"c\n")

    assert told(store) == [("c.md", b"d\n"), ("c.md", b"c\n"), ("a.md", b"one\n")]
    assert store.undo(by="user").revisions[0].new == b"c\n"
    assert store.adopt(["a.md", "b.md"]) is None


def test_a_number_beyond_all_others_stops_no_save(store: FolderStore) -> None:
    store.close()
    change_history(store.root, "UPDATE commits SET n = 9223372036854775807 WHERE n = 1")

    for name in ("b.md", "c.md"):
        put(store, name, b"b\n")

    assert {"b.md", "c.md"} <= {path for path, _ in told(store)}


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


def test_a_log_that_is_removed_under_several_writers_damages_nothing(store: FolderStore) -> None:
    writers = [store, FolderStore(store.root), FolderStore(store.root)]
    for number in range(60):
        if number % 5 == 4:
            os.unlink(f"{history(store.root)}-wal")
        put(writers[number % 3], f"{number}.md", f"number {number} ".encode() * 2_000)

    assert FolderStore(store.root).damaged() == []
    assert [path for path, _ in told(store)] == [f"{number}.md" for number in reversed(range(60))] + ["a.md", "a.md"]
    for writer in writers:
        writer.close()


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


def test_a_library_finds_a_file_when_the_handle_is_that_of_another_folder(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with Folder.open(str(tmp_path / "first")) as folder:
        found = folder.name_for_others("file")

    with Folder.open(str(tmp_path / "second")):
        assert Path(found).read_text() == "first"


def test_an_answer_does_not_wait_to_note_what_was_of_use(store: FolderStore) -> None:
    with closing(sqlite3.connect(history(store.root), isolation_level=None)) as db:
        db.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        store.add_uses("2026-11-19", ["a.md"])
        assert time.monotonic() - began < 3

    store.add_uses("2026-11-19", ["b.md"])

    assert store.uses_noted() == {"b.md": "2026-11-19"}


def test_where_no_memory_is_shared_the_history_uses_a_rollback_journal(store: FolderStore) -> None:
    store.close()
    with closing(sqlite3.connect(history(store.root), isolation_level=None)) as db:
        assert db.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)

    put(store, "b.md", b"b\n")

    assert told(FolderStore(store.root))[0] == ("b.md", b"b\n")
    assert not os.path.exists(f"{history(store.root)}-wal")


SAVE_THREE = """
import sys
from memsheaf.store import ABSENT, Change
from memsheaf.store.folder import FolderStore

store = FolderStore(sys.argv[1])
for name in "abc":
    store.commit([Change(f"{name}.md", b"text", ABSENT)], by="agent")
    ((level,),) = store.ask_history(lambda past: past.rows("PRAGMA synchronous"), [])
    assert level == 3, "else a power cut could undo it, by bringing the rollback journal back"
"""


def test_on_a_file_system_without_shared_memory_a_new_folder_takes_saves(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / ".history").mkdir(parents=True)
    failing = ["-P", f"{history(root)}-shm", "-e", "trace=mmap", "-e", "inject=mmap:error=ENODEV"]

    subprocess.run(["strace", "-qqfo", os.devnull, *failing, sys.executable, "-c", SAVE_THREE, root], check=True)

    assert [path for path, _ in told(FolderStore(str(root)))] == ["c.md", "b.md", "a.md"]


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


@pytest.fixture
def torn(store: FolderStore) -> FolderStore:
    """A folder with a history of 200 commits, and a page of zeros where the oldest of them were."""
    for number in range(200):
        put(store, f"{number}.md", f"number {number} ".encode() * 50)
    store.close()
    data = bytearray(history(store.root).read_bytes())
    with closing(sqlite3.connect(history(store.root))) as db:
        page = db.execute("SELECT min(pageno) FROM dbstat WHERE name = 'commits' AND pagetype = 'leaf'").fetchone()[0]
    data[(page - 1) * 4096 : page * 4096] = bytes(4096)
    history(store.root).write_bytes(data)
    return store


def test_of_a_damaged_history_is_told_what_can_be_read(torn: FolderStore) -> None:
    commits = list(torn.history())

    assert 100 < len(commits) < 200
    assert [step.path for step in commits[0].revisions] == ["199.md"]
    assert next(torn.trail("199.md")).revisions[0].new == b"number 199 " * 50
    assert torn.problem
    assert [name for name, _ in torn.damaged()] == ["history.db"]


def test_the_last_commit_of_a_damaged_history_can_be_undone(torn: FolderStore) -> None:
    list(torn.history())

    undone = torn.undo(by="user")

    assert [(step.path, step.after) for step in undone.revisions] == [("199.md", "")]
    assert [entry.path for entry in torn.scan() if entry.path == "199.md"] == []
    assert [why for _, why in torn.damaged()] == ["the history was damaged, and begun again"]
    assert [commit.why for commit in torn.history()] == [undone.why]
    assert torn.problem == ""


def test_a_history_that_is_half_there_is_told_as_damaged_and_written_by_no_reader(store: FolderStore) -> None:
    store.close()
    data = history(store.root).read_bytes()
    history(store.root).write_bytes(data[: len(data) // 2 // 4096 * 4096])

    assert isinstance(told(store), list)
    assert "malformed" in store.problem
    assert [name for name, _ in store.damaged()] == ["history.db"]
    assert len(history(store.root).read_bytes()) == len(data) // 2 // 4096 * 4096


def test_a_reader_forgets_the_damage_of_a_history_that_another_process_replaced(torn: FolderStore) -> None:
    other = FolderStore(torn.root)
    list(other.history())
    assert (len(list(torn.history())) > 100, torn.problem != "") == (True, True)

    put(other, "new.md", b"new\n")

    assert [path for path, _ in told(torn)] == ["new.md"]
    assert torn.problem == ""
    other.close()


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


ADDED = Change("p.md", b"one\n", version_of(None))
EDITED = Change("p.md", b"two\n", version_of(b"one\n"))
REMOVED = Change("p.md", None, version_of(b"one\n"))


@pytest.mark.parametrize(
    ("kept", "lost"),
    [
        ([ADDED], [REMOVED]),
        ([ADDED, REMOVED], [ADDED]),
        ([ADDED, EDITED], [EDITED._replace(data=b"one\n", expect=version_of(b"two\n"))]),
    ],
    ids=["forgotten", "brought back", "undone"],
)
def test_a_history_that_lost_its_log_repeats_nothing(
    store: FolderStore, tmp_path: Path, kept: list[Change], lost: list[Change]
) -> None:
    for change in kept:
        store.commit([change], by="agent")
    change_history(store.root, "PRAGMA wal_checkpoint(TRUNCATE)")
    for change in lost:
        store.commit([change], by="agent")
    shutil.copytree(store.root, tmp_path / "copy", ignore=shutil.ignore_patterns("*-wal", "*-shm"))

    copy = FolderStore(str(tmp_path / "copy"), patience=0)
    put(copy, "b.md", b"b\n")

    place = tmp_path / "copy" / "p.md"
    assert (place.read_bytes() if place.exists() else None) == lost[-1].data
    copy.close()


def leave_journal_that_names(victim: Path, database: Path, folder: Path) -> None:
    """Leave what a transaction over several databases leaves when it is cut short: the journal names a third file."""
    shutil.copy(database, folder / "cut.db")
    with closing(sqlite3.connect(folder / "cut.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN IMMEDIATE")
        rows = [(version_of(b"%d" % number), b"%d" % number * 2_000) for number in range(100)]
        db.executemany("INSERT INTO texts VALUES (?, ?)", rows)
        shutil.copy(folder / "cut.db", database)
        journal = (folder / "cut.db-journal").read_bytes()
    name = os.fsencode(victim)
    page, mark = 0x40000000 // 4096 + 1, bytes.fromhex("d9d505f920a163d7")
    named = struct.pack(">I", page) + name + struct.pack(">Ii", len(name), sum(name)) + mark
    database.with_name("history.db-journal").write_bytes(journal + named)


def test_a_journal_of_a_stranger_deletes_no_file_elsewhere(store: FolderStore, tmp_path: Path) -> None:
    store.close()
    (tmp_path / "scratch").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    leave_journal_that_names(victim, history(store.root), tmp_path / "scratch")

    list(FolderStore(store.root).history())
    put(store, "b.md", b"b\n")

    assert victim.read_text() == "mine\n"
    assert told(store)[0] == ("b.md", b"b\n")
    assert not list(history(store.root).parent.glob("*-journal")), "nor when somebody recovers what was set aside"


@pytest.mark.parametrize("is_link", [False, True], ids=["folder", "link"])
@pytest.mark.parametrize("name", ["history.db", "history.db-wal", "history.db-shm", "history.db-journal"])
def test_what_is_no_plain_file_is_set_aside(store: FolderStore, tmp_path: Path, name: str, is_link: bool) -> None:
    store.close()
    place = history(store.root).with_name(name)
    place.unlink(missing_ok=True)
    if is_link:
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()

    assert list(store.history()) == []
    assert store.read("a.md").data == b"two\n"
    if is_link and place.suffix == ".db":
        with pytest.raises(PathRefused):
            put(store, "b.md", b"b\n")
    else:
        put(store, "b.md", b"b\n")
        assert told(store) == [("b.md", b"b\n")]
        assert store.damaged()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["root"]


@pytest.mark.parametrize("number", [0, 1, 70])
@pytest.mark.parametrize("table", ["commits", "bookmarks"])
def test_a_database_of_another_program_is_set_aside(store: FolderStore, number: int, table: str) -> None:
    store.close()
    history(store.root).unlink()
    with closing(sqlite3.connect(history(store.root), isolation_level=None)) as db:
        db.execute(f"CREATE TABLE {table} (x)")
        db.execute(f"PRAGMA user_version = {number}")
    theirs = history(store.root).read_bytes()

    assert list(store.history()) == []
    put(store, "b.md", b"b\n")

    assert told(store) == [("b.md", b"b\n")]
    [aside] = history(store.root).parent.glob("history.db.damaged-*")
    assert aside.read_bytes() == theirs


def test_a_database_whose_tables_are_named_in_no_utf_8_is_set_aside(store: FolderStore) -> None:
    store.close()
    with closing(sqlite3.connect(history(store.root), isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_schema SET sql = CAST(CAST(sql AS BLOB) || x'202d2dff' AS TEXT) WHERE name = 'uses'"
        )

    assert list(store.history()) == []
    put(store, "b.md", b"b\n")

    assert told(store) == [("b.md", b"b\n")]
    assert store.damaged()


@pytest.mark.parametrize("number", [-1, 0, 99])
def test_a_history_with_another_number_of_version_is_used(store: FolderStore, number: int) -> None:
    store.close()
    change_history(store.root, f"PRAGMA user_version = {number}")

    put(store, "b.md", b"b\n")

    assert told(FolderStore(store.root)) == [("b.md", b"b\n"), ("a.md", b"two\n"), ("a.md", b"one\n")]
    assert store.damaged() == []


def test_a_history_without_the_indexes_of_this_version_is_read_and_gets_them_with_a_save(store: FolderStore) -> None:
    store.close()
    for sql in ("DROP INDEX changes_by_before", "DROP INDEX changes_by_after", "PRAGMA user_version = 1"):
        change_history(store.root, sql)

    assert [new for _, new in told(store)] == [b"two\n", b"one\n"]
    assert (store.problem, store.damaged()) == ("", [])
    put(store, "b.md", b"b\n")

    assert len(told(store)) == 3
    with closing(sqlite3.connect(history(store.root))) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(History.migrations),)


def test_a_history_of_a_later_version_may_have_more_columns(store: FolderStore) -> None:
    store.close()
    change_history(store.root, "ALTER TABLE commits ADD COLUMN machine TEXT NOT NULL DEFAULT ''")
    change_history(store.root, "CREATE TABLE signatures (n INTEGER PRIMARY KEY) STRICT")
    change_history(store.root, f"PRAGMA user_version = {len(History.migrations) + 1}")

    put(store, "b.md", b"b\n")

    assert len(told(store)) == 3
    assert store.damaged() == []


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE commits SET why = CAST(x'ff' AS TEXT)",
        "UPDATE changes SET path = CAST(x'ff2e6d64' AS TEXT) WHERE n = 1",
        "UPDATE commits SET at = 5, why = x'00ff', author = 1.5, undoes = x'ff'",
        "UPDATE changes SET before = 5, after = x'ff' WHERE n = 1",
        "UPDATE changes SET path = 5 WHERE n = 1",
        "UPDATE commits SET id = ''",
        "UPDATE commits SET undoes = id",
        "UPDATE changes SET n = CAST(x'ff' AS TEXT) WHERE n = 1",
        "UPDATE texts SET data = 5",
        "INSERT INTO tombstones (line) VALUES (5), ('text'), (x'ff')",
        "INSERT OR REPLACE INTO facts VALUES ('flushed', x'ff'), ('pruned', x'ff')",
    ],
)
def test_values_that_no_version_wrote_hide_no_memory_and_stop_no_save(store: FolderStore, sql: str) -> None:
    store.close()
    with closing(sqlite3.connect(history(store.root), isolation_level=None)) as db:
        tables = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '      ')")
        with closing(sqlite3.connect(history(store.root), isolation_level=None)) as lax:
            lax.execute(sql)
        db.executemany("UPDATE sqlite_schema SET sql = ?2 WHERE name = ?1", tables)

    list(FolderStore(store.root).history())
    store.adopt(None)
    put(store, "b.md", b"b\n")
    store.bury([("c.md", b"c\n")], "no")

    assert told(store)[0] == ("b.md", b"b\n")
    assert store.read("a.md").data == b"two\n"
    assert store.undo(by="user").revisions
    assert store.erase("a.md", by="user")
    store.prune()


def test_names_that_lead_back_to_each_other_are_followed_once(store: FolderStore) -> None:
    put(store, "b.md", b"two\n")
    version = version_of(b"two\n")
    store.close()
    change_history(store.root, "DELETE FROM commits")
    change_history(store.root, "DELETE FROM changes")
    for n, (id, path, other) in enumerate((("b", "b.md", "a.md"), ("a", "a.md", "b.md"), ("b", "b.md", "a.md"))):
        change_history(store.root, "INSERT INTO commits VALUES (?, ?, '', 'user', 'rename x', '', '', 2)", n, id)
        change_history(store.root, "INSERT INTO changes VALUES (?, 0, ?, '', ?)", n, path, version)
        change_history(store.root, "INSERT INTO changes VALUES (?, 1, ?, ?, '')", n, other, version)

    assert len(list(store.trail("a.md"))) < 9
    assert store.erase("a.md", by="user")


def test_what_is_set_aside_in_the_same_second_replaces_nothing(store: FolderStore) -> None:
    for text in (b"first", b"second", b"third"):
        store.close()
        history(store.root).write_bytes(text)
        put(store, f"{text.decode()}.md", text)

    aside = history(store.root).parent.glob("history.db.damaged-*")
    assert sorted(path.read_bytes() for path in aside) == [b"first", b"second", b"third"]


def test_a_catalog_is_published_though_the_history_is_damaged(store: FolderStore) -> None:
    store.close()
    history(store.root).write_bytes(b"no database")

    FolderStore(store.root).publish("MEMORY.md", b"catalog\n")
    FolderStore(store.root).add_uses("2026-11-19", ["a.md"])

    assert store.is_published("MEMORY.md")


def test_a_copy_of_a_database_that_somebody_holds_is_given_up(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.close()
    monkeypatch.setattr(sqlite_file, "LOCK_SECONDS", 0.1)
    change_history(store.root, "PRAGMA journal_mode = DELETE")
    with closing(sqlite3.connect(history(store.root), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with Folder.open(str(history(store.root).parent)) as folder, pytest.raises(OSError, match="cannot be read"):
            History.copy(folder)


def test_a_folder_in_the_place_of_a_log_without_a_database_stops_no_save(store: FolderStore) -> None:
    store.close()
    for path in history(store.root).parent.glob("history.db*"):
        path.unlink()
    for suffix in ("-wal", "-journal"):
        history(store.root).with_name(f"history.db{suffix}").mkdir()

    put(store, "b.md", b"b\n")

    assert told(FolderStore(store.root)) == [("b.md", b"b\n")]


def test_on_a_read_only_medium_the_history_of_a_folder_whose_name_is_not_utf_8_is_read(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"r\xff?%41")
    put(FolderStore(str(root)), "a.md", b"a\n")
    with as_nobody(root):
        os.chmod(history(root), 0o444)
        os.chmod(history(root).parent, 0o555)

        assert told(FolderStore(str(root))) == [("a.md", b"a\n")]

        os.chmod(history(root).parent, 0o700)


@pytest.mark.parametrize("sql", ["", "CREATE VIEW commits AS SELECT 1", "PRAGMA user_version = 70"])
def test_on_a_read_only_medium_a_database_of_another_program_is_no_history(store: FolderStore, sql: str) -> None:
    store.close()
    folder = history(store.root).parent
    history(store.root).unlink()
    change_history(store.root, "PRAGMA journal_mode = WAL")
    change_history(store.root, sql)
    with as_nobody(Path(store.root)):
        for path in (*folder.iterdir(), folder):
            os.chmod(path, 0o555 if path.is_dir() else 0o444)

        assert told(FolderStore(store.root)) == []

        os.chmod(folder, 0o700)


def test_a_history_that_another_process_makes_in_this_moment_is_none_yet(store: FolderStore, tmp_path: Path) -> None:
    store.close()
    root = tmp_path / "new"
    (root / ".history").mkdir(parents=True)
    (root / "a.md").write_bytes(b"text")
    history(root).touch()

    with FolderStore(str(root)).lock("work"):
        reader = FolderStore(str(root))
        assert reader.read("a.md").data == b"text"
        assert list(reader.history()) == []
    assert reader.publish("MEMORY.md", b"# ours\n") is not None
