"""The folder beside a root: files that are whole or not there, lines that are added, locks that free themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memsheaf.errors import Busy, StoreFailed
from memsheaf.store.state import State

PORTABLE = pytest.mark.skipif(os.name != "posix", reason="POSIX")


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(str(tmp_path / "state"))


def test_looking_creates_nothing(state: State, tmp_path: Path) -> None:
    assert (state.read("a"), state.load("a"), list(state.lines("a")), state.names()) == (None, None, [], [])
    state.remove("a")
    state.tidy(0)

    assert list(tmp_path.iterdir()) == []


def test_roots_have_folders_of_their_own_however_they_are_named(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "root")
    folders = {State.of(str(tmp_path / name), "/state").folder for name in ("root", "link", "root/", "x/../root")}

    assert len(folders) == 1
    assert State.of(str(tmp_path / "other"), "/state").folder not in folders


def test_what_is_saved_is_there_for_the_user_alone(state: State, tmp_path: Path) -> None:
    state.save("a.json", {"b": [1, "语\ud800"]})

    assert state.load("a.json") == {"b": [1, "语\ud800"]}
    assert state.names() == ["a.json"]
    if os.name == "posix":
        assert (tmp_path / "state").stat().st_mode & 0o077 == 0
        assert (tmp_path / "state" / "a.json").stat().st_mode & 0o077 == 0


def test_lines_are_added_and_a_torn_one_spoils_no_other(state: State, tmp_path: Path) -> None:
    state.append("log", {"n": 1})
    with open(tmp_path / "state" / "log", "ab") as file:
        file.write(b'{"n": 2, "torn')
    state.append("log", {"n": 3})
    with open(tmp_path / "state" / "log", "ab") as file:
        file.write(b"\n\xff\0garbage\n" + b"[" * 100_000 + b"\n")
    state.append("log", "a\nb")

    assert list(state.lines("log")) == [{"n": 1}, {"n": 3}, "a\nb"]


def test_bytes_are_added_as_they_are(state: State) -> None:
    state.add("log", b"a", durably=False)
    state.add("log", b"")
    state.add("log", b"b")

    assert state.read("log") == b"ab"


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a": ' * 50_000])
def test_what_cannot_be_understood_is_none(state: State, tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "a").write_bytes(damage)

    assert state.load("a") is None


def test_links_and_folders_are_neither_read_nor_written(state: State, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "link").symlink_to(tmp_path / "victim")
    (tmp_path / "state" / "folder").mkdir()

    for name in ("link", "folder"):
        assert state.read(name) is None
        with pytest.raises(StoreFailed):
            state.append(name, 1)
    with pytest.raises(StoreFailed):
        state.save("folder", 1)
    state.save("link", 1)
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert state.load("link") == 1


def test_what_fails_leaves_no_draft(state: State, tmp_path: Path) -> None:
    (tmp_path / "state" / "folder").mkdir(parents=True)
    with pytest.raises(StoreFailed, match=r"folder in .* cannot be written"):
        state.save("folder", 1)
    assert os.listdir(tmp_path / "state") == ["folder"]


@PORTABLE
def test_a_full_disk_keeps_the_old_file_and_no_draft(state: State, tmp_path: Path) -> None:
    state.save("a", "old")
    program = (
        "import resource, sys; from memsheaf.store.state import State; from memsheaf.errors import StoreFailed\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try: State(sys.argv[1]).save('a', 'x' * 1000)\n"
        "except StoreFailed as error: print(error)"
    )
    command = [sys.executable, "-c", program, state.folder]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert said.startswith(f"a in {state.folder!r} cannot be written: ")
    assert (state.load("a"), os.listdir(tmp_path / "state")) == ("old", ["a"])


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    state = State(str(tmp_path / "file" / "state"))

    with pytest.raises(StoreFailed, match=r"a in .* cannot be written"):
        state.save("a", 1)
    with pytest.raises(StoreFailed, match=r"a in .* cannot be written"):
        state.append("a", 1)
    with pytest.raises(StoreFailed, match=r"the state directory .* cannot be used"), state.lock("x"):
        pass
    assert (state.read("a"), state.names()) == (None, [])


def test_a_lock_is_for_one_and_its_file_is_no_state(state: State) -> None:
    with state.lock("work"):
        with pytest.raises(Busy), State(state.folder).lock("work"):
            pass
        with state.lock("other"):
            assert state.names() == []
    with state.lock("work"):
        pass


def test_what_goes_wrong_under_a_lock_is_not_called_a_trouble_of_the_lock(state: State) -> None:
    with pytest.raises(FileNotFoundError), state.lock("work"):
        os.unlink(os.path.join(state.folder, "nothing"))
    with state.lock("work"):
        pass


@PORTABLE
def test_a_lock_ends_with_the_process_that_held_it(state: State) -> None:
    program = (
        "import sys, os, signal; from memsheaf.store.state import State\n"
        "with State(sys.argv[1]).lock('work'): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, state.folder], check=False).returncode == -9
    with state.lock("work"):
        pass


def test_old_drafts_go_and_those_at_work_stay(state: State, tmp_path: Path) -> None:
    state.save("a", 1)
    for name in ("draft-a-old", "draft-a-new", "draft-b-new"):
        (tmp_path / "state" / name).write_bytes(b"x")
    os.utime(tmp_path / "state" / "draft-a-old", (1_000, 1_000))
    now = (tmp_path / "state" / "draft-a-new").stat().st_mtime

    state.tidy(now)
    assert sorted(os.listdir(tmp_path / "state")) == ["a", "draft-a-new", "draft-b-new"]
    state.tidy(now, of="a")
    assert sorted(os.listdir(tmp_path / "state")) == ["a", "draft-b-new"]


def test_a_state_takes_over_another_and_loses_nothing(tmp_path: Path) -> None:
    ours, theirs = State(str(tmp_path / "ours")), State(str(tmp_path / "theirs"))
    for state, name in ((ours, "ours"), (theirs, "theirs")):
        state.save("inbox-000000000007.json", name)
        state.save("expected.json", [[name, "a.md"], ["both", "b.md"]])
        state.save("gate.json", {"at": name, name: 1})
        state.add("inbox.known", f"\n{name}\n".encode())
    theirs.save("proposal-1.json", "waits")
    with theirs.lock("inbox"):
        pass

    ours.absorb(theirs)
    ours.absorb(theirs)

    assert not (tmp_path / "theirs").exists()
    assert [ours.load(f"inbox-00000000000{number}.json") for number in (7, 8)] == ["ours", "theirs"]
    assert ours.load("expected.json") == [["ours", "a.md"], ["both", "b.md"], ["theirs", "a.md"]]
    assert ours.load("gate.json") == {"at": "ours", "ours": 1, "theirs": 1}
    assert (ours.read("inbox.known") or b"").split() == [b"ours", b"theirs"]
    assert ours.load("proposal-1.json") == "waits"
