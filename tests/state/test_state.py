"""The state of a home: values that are whole or not there, whoever else writes, and files beside them."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from memsheaf.errors import Busy, StoreFailed
from memsheaf.state import MAX_HOOK_IMPORT_BYTES, State, check
from memsheaf.store.sqlite_file import in_hook

PORTABLE = pytest.mark.skipif(os.name != "posix", reason="POSIX")


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(str(tmp_path / "state"))


def test_looking_creates_nothing(state: State, tmp_path: Path) -> None:
    assert (state.read("a"), state.load("a"), list(state.lines("a")), state.names()) == (None, None, [], [])
    assert state.query("SELECT * FROM note") == []
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
    state.save("a", {"b": [1, "语\ud800"]})
    state.write("file", b"text")

    assert state.load("a") == {"b": [1, "语\ud800"]}
    assert state.names() == ["file"]
    assert State(str(tmp_path / "other")).load("a") is None
    if os.name == "posix":
        assert [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o077] == []
    state.save("a", None)
    assert state.load("a") is None


def test_lines_that_cannot_be_understood_are_left_out(state: State) -> None:
    state.write("log", b'\n{"n": 1}\n{"n": 2, "torn\n{"n": 3}\n\n\xff\0garbage\n' + b"[" * 100_000 + b'\n"a b"\n')

    assert list(state.lines("log")) == [{"n": 1}, {"n": 3}, "a b"]


def test_bytes_are_added_as_they_are(state: State) -> None:
    state.add("log", b"a", durably=False)
    state.add("log", b"")
    state.add("log", b"b")

    assert state.read("log") == b"ab"


def test_links_and_folders_are_neither_read_nor_written(state: State, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "link").symlink_to(tmp_path / "victim")
    (tmp_path / "state" / "folder").mkdir()

    for name in ("link", "folder"):
        assert state.read(name) is None
        with pytest.raises(StoreFailed):
            state.add(name, b"1")
    with pytest.raises(StoreFailed, match=r"folder in .* cannot be written"):
        state.write("folder", b"1")
    state.write("link", b"1")
    assert (tmp_path / "victim").read_bytes() == b"precious"
    assert state.read("link") == b"1"


@PORTABLE
def test_a_full_disk_keeps_the_old_value_and_leaves_no_draft(state: State, tmp_path: Path) -> None:
    state.save("a", "old")
    state.write("file", b"old")
    program = (
        "import resource, sys; from memsheaf.state import State; from memsheaf.errors import StoreFailed\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "for write, value in ((State(sys.argv[1]).save, 'x' * 9000), (State(sys.argv[1]).write, b'x' * 9000)):\n"
        "    try: write('a' if write.__name__ == 'save' else 'file', value)\n"
        "    except StoreFailed as error: print(error)"
    )
    command = [sys.executable, "-c", program, state.folder]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert ["cannot be written" in line for line in said] == [True, True]
    assert (state.load("a"), state.read("file"), os.listdir(tmp_path / "state")) == ("old", b"old", ["file"])


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    state = State(str(tmp_path / "file" / "state"))

    with pytest.raises(StoreFailed, match=r"a in .* cannot be written"):
        state.write("a", b"1")
    with pytest.raises(StoreFailed, match=r"state\.db cannot be written"):
        state.save("a", 1)
    with pytest.raises(StoreFailed, match=r"the state directory .* cannot be used"), state.lock("x"):
        pass
    assert (state.read("a"), state.load("a"), state.names()) == (None, None, [])


def test_a_file_where_an_earlier_version_had_its_folder_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"a file")
    state = State(str(tmp_path / "state"))

    state.save("a", 1)

    assert (state.load("a"), (tmp_path / "state").read_bytes()) == (1, b"a file")


# the database


ADD = """
import sys
import threading
from memsheaf.state import State
state = State(sys.argv[1])
for _ in range(50):
    with state.writing(durable=False):
        state.save("count", (state.load("count") or 0) + 1)
"""


def test_processes_at_once_lose_nothing_of_each_other_not_even_while_it_is_made(state: State) -> None:
    running = [subprocess.Popen([sys.executable, "-c", ADD, state.folder]) for _ in range(4)]

    assert [process.wait() for process in running] == [0] * 4
    assert state.load("count") == 200


def test_of_a_transaction_that_fails_or_is_killed_nothing_stays(state: State) -> None:
    state.save("a", 1)
    with pytest.raises(TypeError), state.writing():
        list(map(state.save, ("a", "b"), (2, object())))
    program = (
        "import os, sys; from memsheaf.state import State; state = State(sys.argv[1])\n"
        "with state.writing(): state.save('a', 3); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program, state.folder], check=False).returncode == -9

    assert (state.load("a"), state.load("b")) == (1, None)
    state.save("b", 4)
    assert state.load("b") == 4


def test_where_memory_cannot_be_shared_a_rollback_journal_serves(state: State, tmp_path: Path) -> None:
    (tmp_path / "state.db").touch(0o600)
    (tmp_path / "state.db-shm").symlink_to("nowhere")  # which SQLite refuses: processes have no memory to share
    state.save("a", 1)
    running = [subprocess.Popen([sys.executable, "-c", ADD, state.folder]) for _ in range(2)]
    assert [process.wait() for process in running] == [0] * 2

    assert (state.load("a"), state.load("count")) == (1, 100)
    assert not (tmp_path / "state.db-wal").exists()


def test_with_a_rollback_journal_a_writer_waits_for_who_reads(state: State, tmp_path: Path) -> None:
    (tmp_path / "state.db").touch(0o600)
    (tmp_path / "state.db-shm").symlink_to("nowhere")
    state.save("a", 1)
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None, check_same_thread=False)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM note").fetchall()
        ending = threading.Timer(0.5, reader.execute, ["ROLLBACK"])
        ending.start()
        state.save("a", 2)
        ending.join()

    assert state.load("a") == 2


def test_a_database_from_where_memory_was_shared_opens_where_it_is_not(state: State, tmp_path: Path) -> None:
    state.save("a", 1)
    (tmp_path / "copy").mkdir()
    for name in ("state.db", "state.db-wal"):
        (tmp_path / "copy" / name).write_bytes((tmp_path / name).read_bytes())
    (tmp_path / "copy" / "state.db-shm").symlink_to("nowhere")
    copy = State(str(tmp_path / "copy" / "state"))

    assert copy.load("a") == 1
    copy.save("b", 2)
    assert (copy.load("a"), copy.load("b")) == (1, 2)


def test_a_database_that_went_away_or_was_put_back_is_noticed(state: State, tmp_path: Path) -> None:
    state.save("a", 1)
    (tmp_path / "state.db").rename(tmp_path / "away")
    assert state.load("a") is None
    state.save("b", 2)
    assert (state.load("a"), state.load("b")) == (None, 2)


def test_damage_in_the_middle_is_told_once_and_set_aside(state: State, tmp_path: Path) -> None:
    for number in range(99):
        state.save(f"note {number}", "x" * 999, durable=False)
    assert state.empty_log()
    damaged = State(str(tmp_path / "copy" / "state"))
    (tmp_path / "copy").mkdir()
    data = bytearray((tmp_path / "state.db").read_bytes())
    data[-40_960:] = b"\xa5" * 40_960
    (tmp_path / "copy" / "state.db").write_bytes(data)

    ((_, problem, _),) = check(str(tmp_path / "copy"))
    assert problem.startswith("it is damaged")
    assert [damaged.load(f"note {number}") for number in range(99)].count(None) > 0
    with pytest.raises(StoreFailed, match="was damaged, and set aside"), damaged.writing() as db:
        db.execute("DELETE FROM note")
    damaged.save("a", 1)
    assert damaged.load("a") == 1
    ((path, problem, advice),) = check(str(tmp_path / "copy"))
    assert ".damaged-" in path
    assert "begun again" in problem
    assert f"sqlite3 {path} .recover" in advice


@pytest.mark.parametrize("is_link", [False, True], ids=["folder", "link"])
def test_what_is_no_plain_file_is_told_and_stays(state: State, tmp_path: Path, is_link: bool) -> None:
    place = tmp_path / "state.db"
    if is_link:
        place.symlink_to("elsewhere")
    else:
        place.mkdir()

    ((path, problem, advice),) = check(str(tmp_path))
    assert path == str(place)
    assert problem.startswith("it cannot be used")
    assert "move it away" in advice
    assert state.load("a") is None
    with pytest.raises(StoreFailed):
        state.save("a", 1)

    place.rename(tmp_path / "moved")
    state.save("a", 1)
    assert state.load("a") == 1


def test_a_later_version_of_the_database_is_used_as_it_is(state: State, tmp_path: Path) -> None:
    state.save("a", 1)
    with closing(sqlite3.connect(tmp_path / "state.db")) as other:
        other.executescript("CREATE TABLE later (x); INSERT INTO later VALUES (7); PRAGMA user_version = 999")
    state.save("b", 2)

    program = "import sys; from memsheaf.state import State; print(State(sys.argv[1]).load('b'))"
    done = subprocess.run([sys.executable, "-c", program, state.folder], capture_output=True, check=True)
    assert done.stdout == b"2\n"
    assert state.query("SELECT x FROM later") == [(7,)]


# files of earlier versions


def test_a_hook_leaves_a_long_import_to_others(tmp_path: Path) -> None:
    state = State(str(tmp_path / ("ab" * 12)))
    state.write("recalls", b'{"at": "2026", "message": "m", "paths": ["a.md"]}\n' * (MAX_HOOK_IMPORT_BYTES // 45))
    with in_hook():
        state.save("b", 1)
        assert state.query("SELECT count(*) FROM recall") == [(0,)]
        assert state.load("b") == 1

    assert state.query("SELECT count(*) FROM recall") == [(1,)]


def test_an_import_that_is_killed_is_done_as_a_whole_later(tmp_path: Path) -> None:
    state = State(str(tmp_path / ("ab" * 12)))
    lines = [f'{{"at": "{number}", "message": "m", "paths": []}}\n' for number in range(3_000)]
    state.write("recalls", "".join(lines).encode())
    program = (
        "import signal, sys; from memsheaf.state import State\n"
        "signal.setitimer(signal.ITIMER_REAL, float(sys.argv[2]))\n"
        "State(sys.argv[1]).save('a', 1)"
    )
    killed = 0
    for number in range(1, 99):
        done = subprocess.run([sys.executable, "-c", program, state.folder, str(number / 100)], check=False)
        if done.returncode == 0:
            break
        killed += 1
    assert killed > 0
    assert state.query("SELECT count(*) FROM recall") == [(3_000,)]


# locks


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
        "import sys, os, signal; from memsheaf.state import State\n"
        "with State(sys.argv[1]).lock('work'): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, state.folder], check=False).returncode == -9
    with state.lock("work"):
        pass


def test_old_drafts_go_and_those_at_work_stay(state: State, tmp_path: Path) -> None:
    state.write("a", b"1")
    for name in ("draft-a-old", "draft-a-new"):
        (tmp_path / "state" / name).write_bytes(b"x")
    os.utime(tmp_path / "state" / "draft-a-old", (1_000, 1_000))

    state.tidy((tmp_path / "state" / "draft-a-new").stat().st_mtime)
    assert sorted(os.listdir(tmp_path / "state")) == ["a", "draft-a-new"]


def test_a_state_takes_over_another_and_loses_nothing(tmp_path: Path) -> None:
    ours, theirs = State(str(tmp_path / "ours")), State(str(tmp_path / "theirs"))
    for state, name in ((ours, "ours"), (theirs, "theirs")):
        state.save("expected", [[name, "a.md"], ["both", "b.md"]])
        state.save("gate", {"at": name, name: 1})
        state.add("history", f"\n{name}\n".encode())
        with state.writing() as db:
            for digest in (name, "both"):
                db.execute("INSERT INTO known_message (folder, digest) VALUES (?, ?)", (name, digest))
    theirs.save("only", "waits")
    with theirs.lock("inbox"):
        pass

    ours.absorb(theirs)
    ours.absorb(theirs)

    assert not (tmp_path / "theirs").exists()
    assert ours.load("expected") == [["ours", "a.md"], ["both", "b.md"], ["theirs", "a.md"]]
    assert ours.load("gate") == {"at": "ours", "ours": 1, "theirs": 1}
    assert (ours.read("history") or b"").split() == [b"ours", b"theirs"]
    assert ours.load("only") == "waits"
    rows = ours.query("SELECT folder, digest FROM known_message ORDER BY digest")
    assert rows == [("ours", "both"), ("ours", "ours"), ("ours", "theirs")]
