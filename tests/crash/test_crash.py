"""Whatever happens to a process or to the power, a commit is whole or absent, and an acknowledged one is there.

The faults are real ones: `strike.py` and `power.py`, beside this file, kill the process or fail its system calls
with strace. Where strace cannot trace, these tests fail: not looking proves nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from databases import leave_unplaced
from memsheaf.store import ABSENT, Change, version_of
from memsheaf.store.folder import FolderStore

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(HERE)
from power import cut  # noqa: E402 - a script beside this file
from strike import Victims, strike  # noqa: E402

COUNTS = re.compile(r"aimed +(\d+) +hit +(\d+) +acknowledged +(\d+)")


def counts(script: str) -> tuple[int, int, int]:
    """Run a script that must find nothing wrong: faults aimed, faults that hit, commits acknowledged."""
    command = [sys.executable, os.path.join(HERE, script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = [tuple(map(int, numbers)) for numbers in COUNTS.findall(done.stdout)]
    aimed, hit, acknowledged = map(sum, zip(*found, strict=True))
    return aimed, hit, acknowledged


STRIKES = (
    ("kill", 180, ("first", "create", "update", "delete", "undo", "adopt", "publish", "settle", "recover")),
    ("kill", 300, ("batch", "import", "append", "prune", "taken", "raced")),
    ("kill", 900, ("remember", "report", "supersede", "end", "tidy")),
    ("full", 200, ("create", "undo", "publish", "taken", "raced", "report", "supersede")),
    ("broken", 200, ("update", "batch", "raced")),
)


def test_struck_at_any_system_call_a_commit_is_whole_or_absent(tmp_path: Path) -> None:
    with Victims() as victims:
        for number, (fault, every, works) in enumerate(STRIKES):
            found = [strike(work, fault, str(tmp_path / f"{number}{work}"), victims, every=every) for work in works]

            assert [wrong for report in found for wrong in report.wrong] == []
            aimed = sum(report.aimed for report in found)
            hit = sum(report.hit for report in found)
            assert hit >= 0.9 * aimed  # a run may take a system call less than the one that was counted
            assert aimed >= len(works)
            assert sum(report.acknowledged for report in found) < aimed


def test_after_a_power_cut_every_acknowledged_commit_is_there(tmp_path: Path) -> None:
    with Victims() as victims:
        for work in ("first", "update", "batch", "settle", "erase"):
            report = cut(work, str(tmp_path / work), victims, every=900)

            assert report.wrong == []
            assert report.aimed > report.acknowledged >= 1


@pytest.mark.long
def test_every_fault_at_every_call_of_every_work() -> None:
    aimed, hit, _ = counts("strike.py")
    print(f"{hit} faults hit, of {aimed}")

    assert hit == aimed > 3000


@pytest.mark.long
def test_every_power_cut_at_every_call_of_every_work() -> None:
    aimed, _, acknowledged = counts("power.py")
    print(f"{aimed} power cuts, {acknowledged} of them after the acknowledgement")

    assert aimed > 5000


TEXTS = (b"first\n", b"second, and longer than the first\n", b"third\n" * 1000)
DAMAGES: dict[str, Callable[[bytes | None, bytes], bytes | None]] = {
    "kept": lambda old, new: new,
    "missing": lambda old, new: None,
    "empty": lambda old, new: b"",
    "zeros": lambda old, new: bytes(len(new)),
    "old": lambda old, new: old,
}


@given(
    damages=st.lists(st.sampled_from(sorted(DAMAGES)), min_size=4, max_size=4),
    writes=st.lists(st.tuples(st.integers(0, 3), st.sampled_from((*TEXTS, None))), min_size=1, max_size=9),
    torn=st.sampled_from([b"", b"\0" * 300, b"\xff" * 5000]),
)
@settings(max_examples=40, derandomize=True)
def test_files_that_were_never_flushed_are_put_back_from_the_history(
    tmp_path_factory: pytest.TempPathFactory, damages: list[str], writes: list[tuple[int, bytes | None]], torn: bytes
) -> None:
    root = str(tmp_path_factory.mktemp("power"))
    store = FolderStore(root, boot="one", patience=0)
    now: dict[str, bytes] = {}
    was: dict[str, bytes | None] = {}
    for number, data in writes:
        path = f"folder/{number}.md"
        store.commit([Change(path, data, version_of(now.get(path)))], by="agent")
        if now.get(path) != data:
            was[path] = now.pop(path, None)
        if data is not None:
            now[path] = data

    for number, damage in enumerate(damages):
        path = f"folder/{number}.md"
        if path in now:
            _replace(root, path, DAMAGES[damage](was[path], now[path]))
        elif path in was and damage == "old":
            _replace(root, path, was[path])
    with open(os.path.join(root, ".history", "history.db-wal"), "ab") as file:
        file.write(torn)

    reopened = FolderStore(root, boot="two", patience=0)
    reopened.recover()

    assert {entry.path: reopened.read(entry.path).data for entry in reopened.scan() if entry.path[-1:] == "d"} == now
    assert reopened.damaged() == []


def _replace(root: str, path: str, data: bytes | None) -> None:
    place = os.path.join(root, path)
    if os.path.exists(place):
        os.unlink(place)
    if data is not None:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as file:
            file.write(data)


def test_what_a_person_saved_before_the_power_cut_is_not_overwritten(tmp_path: object) -> None:
    root = str(tmp_path)
    FolderStore(root, boot="one").commit([Change("a.md", b"ours\n", ABSENT)], by="agent")
    _replace(root, "a.md", b"a person's\n")

    reopened = FolderStore(root, boot="two")
    reopened.recover()
    reopened.commit([Change("b.md", b"next\n", ABSENT)], by="agent")

    assert reopened.read("a.md").data == b"a person's\n"


def test_a_removal_that_a_dead_process_decided_is_completed(tmp_path: Path) -> None:
    root = str(tmp_path)
    store = FolderStore(root, boot="one")
    store.commit([Change("a.md", b"old\n", ABSENT), Change("b.md", b"old\n", ABSENT)], by="agent")
    store.commit([Change(path, None, version_of(b"old\n")) for path in ("a.md", "b.md")], by="agent")
    store.close()
    leave_unplaced(root)
    _replace(root, "a.md", b"old\n")
    _replace(root, "b.md", b"a person's\n")

    FolderStore(root, boot="one").recover()

    assert not (tmp_path / "a.md").exists()
    assert (tmp_path / "b.md").read_bytes() == b"a person's\n"
    assert list((tmp_path / ".history").glob("draft-*")) == []


def test_a_folder_with_the_name_of_a_draft_completes_nothing(tmp_path: Path) -> None:
    root = str(tmp_path)
    store = FolderStore(root, boot="one")
    store.commit([Change("a.md", b"old\n", ABSENT)], by="agent")
    commit = store.commit([Change("a.md", b"new\n", version_of(b"old\n"))], by="agent")
    (tmp_path / ".history" / f"draft-{commit.id}-0").mkdir()
    (tmp_path / "a.md").write_bytes(b"old\n")

    FolderStore(root, boot="one").commit([Change("b.md", b"b\n", ABSENT)], by="agent")

    assert (tmp_path / "a.md").read_bytes() == b"old\n", "a person's edit"


def test_what_a_person_saved_after_a_crash_is_not_overwritten_by_completing_the_commit(tmp_path: object) -> None:
    root = str(tmp_path)
    store = FolderStore(root, boot="one")
    paths = ("a.md", "b.md", "c.md")
    store.commit([Change(path, b"old\n", ABSENT) for path in paths], by="agent")
    commit = store.commit([Change(path, b"new\n", version_of(b"old\n")) for path in paths], by="agent")
    store.close()
    leave_unplaced(root)
    _replace(root, "a.md", b"a person's\n")
    _replace(root, "b.md", b"old\n")
    _replace(root, f".history/draft-{commit.id}-2", b"displaced\n")  # c.md changed places, and nobody looked yet

    FolderStore(root, boot="one").recover()

    assert [FolderStore(root).read(path).data for path in paths] == [b"a person's\n", b"new\n", b"displaced\n"]
