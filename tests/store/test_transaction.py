"""A person saves a file in the very moment we write it: the person wins, and we are told."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memsheaf.errors import Changed
from memsheaf.store import ABSENT, Change, Commit, version_of
from memsheaf.store.folder import FolderStore
from memsheaf.store.history import History
from memsheaf.store.safe_dir import Folder
from memsheaf.store.transaction import Transaction

OURS, OLD, THEIRS = b"what we write\n", b"what was there\n", b"what the person saved\n"


@contextmanager
def transaction_at(root: Path, *, portable: bool) -> Iterator[Transaction]:
    """Someone between the check of the versions and the placing of the texts."""
    with Folder.open(str(root), portable=portable) as folder, folder.folder(".history", create=True) as history:
        past = History.open(history, None, create=True)
        assert past
        yield Transaction(folder, history, past, "boot", 0.001)
        past.close()


def save_in_place(path: Path) -> None:
    path.write_bytes(THEIRS)


def save_by_rename(path: Path) -> None:
    path.with_name("editor.tmp").write_bytes(THEIRS)
    os.replace(path.with_name("editor.tmp"), path)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("save", [save_in_place, save_by_rename])
@pytest.mark.parametrize("new", [OURS, None], ids=["update", "delete"])
def test_a_save_between_check_and_rename_stays_and_the_writer_is_told(
    tmp_path: Path, portable: bool, save: object, new: bytes | None
) -> None:
    store = FolderStore(str(tmp_path))
    first = store.commit([Change("a.md", OLD, ABSENT), Change("b.md", OLD, ABSENT)], by="agent")
    assert first.id
    with transaction_at(tmp_path, portable=portable) as transaction:
        changes = [Change("b.md", OURS, version_of(OLD)), Change("a.md", new, version_of(OLD))]
        revisions = tuple(transaction.revision(change) for change in changes)
        assert callable(save)
        save(tmp_path / "a.md")

        with pytest.raises(Changed):
            transaction.carry_out(Commit("0123456789ab", "2026-11-15T00:00:00.000Z", "agent", "", revisions))

    assert (tmp_path / "a.md").read_bytes() == THEIRS
    assert (tmp_path / "b.md").read_bytes() == OLD, "the rest of the commit is taken back"
    assert FolderStore(str(tmp_path)).version("a.md", version_of(THEIRS)) == THEIRS
    assert [entry.name for entry in (tmp_path / ".history").iterdir() if entry.name.startswith("draft")] == []


@pytest.mark.parametrize("portable", [False, True])
def test_a_file_created_between_check_and_rename_stays_and_the_writer_is_told(tmp_path: Path, portable: bool) -> None:
    with transaction_at(tmp_path, portable=portable) as transaction:
        revision = transaction.revision(Change("a.md", OURS, ABSENT))
        (tmp_path / "a.md").write_bytes(THEIRS)

        with pytest.raises(Changed):
            transaction.carry_out(Commit("0123456789ab", "2026-11-15T00:00:00.000Z", "agent", "", (revision,)))

    assert (tmp_path / "a.md").read_bytes() == THEIRS


@pytest.mark.parametrize("portable", [False, True])
def test_a_link_put_in_the_way_is_left_alone_and_leads_nowhere(tmp_path: Path, portable: bool) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside.md"
    outside.write_bytes(THEIRS)
    store = FolderStore(str(root))
    store.commit([Change("a.md", OLD, ABSENT)], by="agent")
    with transaction_at(root, portable=portable) as transaction:
        revision = transaction.revision(Change("a.md", OURS, version_of(OLD)))
        (root / "a.md").unlink()
        (root / "a.md").symlink_to(outside)

        with pytest.raises(Changed):
            transaction.carry_out(Commit("0123456789ab", "2026-11-15T00:00:00.000Z", "agent", "", (revision,)))

    assert outside.read_bytes() == THEIRS
    assert (root / "a.md").is_symlink()
    FolderStore(str(root)).commit([Change("c.md", OURS, ABSENT)], by="agent")  # and the store goes on


def test_each_change_has_a_draft_until_its_file_is_in_place(tmp_path: Path) -> None:
    """By it whoever comes after a crash knows what is left to be done, also of a removal."""
    FolderStore(str(tmp_path)).commit([Change("a.md", OLD, ABSENT), Change("b.md", OLD, ABSENT)], by="agent")
    seen: list[list[str]] = []
    with transaction_at(tmp_path, portable=False) as transaction:
        changes = [
            Change("a.md", OURS, version_of(OLD)),
            Change("b.md", None, version_of(OLD)),
            Change("c.md", OURS, ABSENT),
        ]
        commit = Commit(
            "0123456789ab", "2026-11-15T00:00:00.000Z", "agent", "", tuple(map(transaction.revision, changes))
        )
        transaction.carry_out(commit, lambda transaction, commit: seen.append(drafts_in(tmp_path)))

    assert seen == [[f"draft-0123456789ab-{number}" for number in range(3)]]
    assert drafts_in(tmp_path) == []


def drafts_in(root: Path) -> list[str]:
    return sorted(path.name for path in (root / ".history").glob("draft-*"))


def test_a_deletion_by_a_person_is_not_undone_by_our_write(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path))
    store.commit([Change("a.md", OLD, ABSENT)], by="agent")
    with transaction_at(tmp_path, portable=False) as transaction:
        revision = transaction.revision(Change("a.md", OURS, version_of(OLD)))
        (tmp_path / "a.md").unlink()

        with pytest.raises(Changed):
            transaction.carry_out(Commit("0123456789ab", "2026-11-15T00:00:00.000Z", "agent", "", (revision,)))

    assert not (tmp_path / "a.md").exists()


READ = """
import sys
from memsheaf.store.folder import FolderStore
sys.stdout.buffer.write(FolderStore(sys.argv[1]).read("a.md").data)
"""


def test_a_file_that_is_saved_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    """The kernel holds the first read of another process until the file was saved."""
    root, trace = tmp_path / "root", tmp_path / "trace"
    FolderStore(str(root)).commit([Change("a.md", OLD, ABSENT)], by="user")
    held = [
        "strace",
        "-qq",
        "-o",
        str(trace),
        "-P",
        str(root / "a.md"),
        "-e",
        "inject=read:delay_exit=1000000:when=1",
    ]
    with subprocess.Popen([*held, sys.executable, "-c", READ, str(root)], stdout=subprocess.PIPE) as process:
        while not trace.exists() or "read(" not in trace.read_text():
            assert process.poll() is None
            time.sleep(0.01)
        save_in_place(root / "a.md")
        assert process.communicate()[0] == THEIRS
    assert trace.read_text().count("read(") > 1


ADD = """
import sys
from memsheaf.store import ABSENT, Change
from memsheaf.store.folder import FolderStore
FolderStore(sys.argv[1]).commit([Change("a.md", b"new", ABSENT)], by="agent")
"""


@pytest.mark.parametrize("number", range(1, 13))
def test_after_a_flush_that_failed_the_next_writer_finds_files_and_history_agree(tmp_path: Path, number: int) -> None:
    """A commit whose flush failed may be decided all the same: SQLite cannot know."""
    root = tmp_path / "root"
    root.mkdir()
    fault = f"inject=fdatasync:error=EIO:when={number}+"
    command = [
        "strace",
        "-f",
        "-qq",
        "-o",
        str(tmp_path / "trace"),
        "-e",
        fault,
        sys.executable,
        "-c",
        ADD,
        str(root),
    ]
    failed = subprocess.run(command, capture_output=True, check=False).returncode != 0

    store = FolderStore(str(root))
    store.commit([Change("b.md", b"b", ABSENT)], by="agent")

    steps = [step for commit in store.history("a.md") for step in commit.revisions]
    assert store.read("a.md").data == b"new" if steps else failed
    assert [step.after for step in steps] in ([], [version_of(b"new")])
    store.close()
