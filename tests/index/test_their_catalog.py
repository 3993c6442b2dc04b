"""A MEMORY.md that somebody else wrote is never displaced unseen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from databases import change_history
from memsheaf import Sheaf
from memsheaf.cli import main
from memsheaf.config import Settings
from memsheaf.errors import Changed
from memsheaf.store.atomic_replace import READ_LIMIT
from memsheaf.store.folder import FolderStore
from memsheaf.transfer import erase
from memsheaf.work.checks import examine

ADD = [
    "remember",
    "Use tabs.",
    "--name",
    "Tabs",
    "--description",
    "Indentation",
    "--type",
    "user",
    "--scope",
    "project",
]
THEIRS = "# What I know\n\n- [Role](user_role.md) — senior\n- Never deploy on Friday: the pager is Bob's.\n"
ROLE = "---\nname: Role\ndescription: who the user is\ntype: user\n---\nA senior developer.\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder as Claude Code keeps one: MEMORY.md by hand, and a file a topic."""
    root = tmp_path / "memory"
    root.mkdir()
    (root / "MEMORY.md").write_text(THEIRS)
    (root / "user_role.md").write_text(ROLE)
    return root


@pytest.fixture
def chosen(tmp_path: Path, place: Path) -> Settings:
    return Settings(home=str(tmp_path / "home"), cache=str(tmp_path / "cache"), project=str(place), embedder="none")


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, place: Path) -> Run:
    def command(*words: str) -> tuple[int, str, str]:
        out, told = StringIO(), StringIO()
        environment = {
            "MEMSHEAF_HOME": str(tmp_path / "home"),
            "MEMSHEAF_CACHE": str(tmp_path / "cache"),
            "MEMSHEAF_STATE": str(tmp_path / "state"),
            "MEMSHEAF_EMBEDDER": "none",
        }
        words = (*words, "--project", str(place))
        code = main(words, environment=environment, stdin=StringIO(), stdout=out, stderr=told)
        return code, out.getvalue(), told.getvalue()

    return command


@pytest.mark.parametrize(
    "command", [["list"], ["show", "--prompt"], ["recall", "who am I?"], ["search", "deploy"], ["doctor"]]
)
def test_any_command_keeps_what_it_said_and_says_so_once(run: Run, place: Path, command: list[str]) -> None:
    code, _, told = run(*command)

    assert code == 0
    assert "MEMORY-kept.md" in told
    assert (place / "MEMORY-kept.md").read_text() == THEIRS
    assert "](user_role.md)" in (place / "MEMORY.md").read_text()
    assert "MEMORY-kept.md" not in run(*command)[2]


def test_it_is_listed_read_and_recalled(run: Run) -> None:
    rows = json.loads(run("list", "--json")[1])["memories"]

    assert "MEMORY-kept.md" in [row["path"] for row in rows]
    assert "pager is Bob's" in run("show", "MEMORY-kept.md")[1]
    assert "pager is Bob's" in run("recall", "may I deploy on Friday?")[1]


def test_undo_brings_it_back_and_it_stays_until_it_is_removed(run: Run, place: Path) -> None:
    run("list")
    commits = json.loads(run("log", "--json")[1])["commits"]
    [commit] = [one for one in commits if any(change["path"] == "MEMORY.md" for change in one["changes"])]
    assert commit["by"] == "outside"

    assert run("undo", commit["id"])[0] == 0
    for command in (["list"], ["show", "--prompt"], ADD, ["list"]):
        assert run(*command)[0] == 0
        assert (place / "MEMORY.md").read_text() == THEIRS
    assert not (place / "MEMORY-kept.md").exists()
    assert "](user_tabs.md)" in run("show", "--prompt")[1]
    assert "MEMORY.md: it was not written by memsheaf" in run("doctor")[1]

    (place / "MEMORY.md").write_text(THEIRS + "- one more\n")
    run("list")
    assert (place / "MEMORY.md").read_text() == THEIRS + "- one more\n"
    (place / "MEMORY.md").unlink()
    run("list")
    assert "](user_tabs.md)" in (place / "MEMORY.md").read_text()
    (place / "MEMORY.md").write_text("- quite another thing\n")
    run("list")
    assert (place / "MEMORY-kept.md").read_text() == "- quite another thing\n"


def test_the_last_change_is_not_undone_in_its_place(run: Run, place: Path) -> None:
    run(*ADD)

    assert run("undo")[0] == 0
    assert not (place / "user_tabs.md").exists()
    assert (place / "MEMORY-kept.md").read_text() == THEIRS


def test_of_our_catalog_the_lines_that_were_added_by_hand_are_kept_in_one_file(chosen: Settings, place: Path) -> None:
    with Sheaf.open("project", settings=chosen) as sheaf:
        sheaf.list()
        for number in range(3):
            catalog = (place / "MEMORY.md").read_text()
            (place / "MEMORY.md").write_text(catalog + f"- line {number}\n")
            sheaf.list()
        assert (place / "MEMORY-kept.md").read_text() == THEIRS + "\n- line 0\n\n- line 1\n\n- line 2\n"
        assert not list(place.glob("MEMORY-kept-*.md"))

        erase(sheaf.own, "MEMORY-kept.md")
    for path in place.rglob("*"):
        assert path.is_dir() or b"pager" not in path.read_bytes()
        assert path.is_dir() or b"- line 1" not in path.read_bytes()


def test_a_name_that_is_taken_is_left_alone(chosen: Settings, place: Path) -> None:
    (place / "MEMORY-kept.md").symlink_to(place / "user_role.md")
    with Sheaf.open("project", settings=chosen) as sheaf:
        sheaf.list()

    assert (place / "MEMORY-kept-2.md").read_text() == THEIRS
    assert (place / "user_role.md").read_text() == ROLE


def test_the_same_text_is_not_kept_twice(chosen: Settings, place: Path) -> None:
    with Sheaf.open("project", settings=chosen) as sheaf:
        sheaf.list()
        (place / "MEMORY.md").write_text(THEIRS)
        sheaf.list()
        assert [row.path for row in sheaf.list()] == ["MEMORY-kept.md", "user_role.md"]
    assert (place / "MEMORY-kept.md").read_text() == THEIRS


def test_reading_only_displaces_nothing(chosen: Settings, place: Path) -> None:
    with Sheaf.open("project", settings=chosen, read_only=True) as sheaf:
        assert "](user_role.md)" in sheaf.prompt()
        sheaf.list()
        (place / "user_second.md").write_text(ROLE.replace("Role", "Second"))
        assert "](user_second.md)" in sheaf.prompt()
    assert sorted(os.listdir(place)) == ["MEMORY.md", "user_role.md", "user_second.md"]


def test_line_ends_stay_as_they_were(chosen: Settings, place: Path) -> None:
    data = THEIRS.replace("\n", "\r\n").encode()
    (place / "MEMORY.md").write_bytes(data)
    with Sheaf.open("project", settings=chosen) as sheaf:
        sheaf.list()
    assert (place / "MEMORY-kept.md").read_bytes() == data


@pytest.mark.parametrize("what", ["link", "folder", "huge"])
def test_what_cannot_be_journalled_stays_and_doctor_says_so(chosen: Settings, place: Path, what: str) -> None:
    file, elsewhere = place / "MEMORY.md", place.parent / "elsewhere"
    file.rename(elsewhere)
    match what:
        case "link":
            file.symlink_to(elsewhere)
        case "folder":
            file.mkdir()
        case _:
            file.write_bytes(b"x" * (READ_LIMIT + 1))
    before = os.lstat(file)
    with Sheaf.open("project", settings=chosen) as sheaf:
        sheaf.list()
        sheaf.write("Tabs", "Indentation", "user", "Use tabs.")
        assert "](user_tabs.md)" in sheaf.prompt()
        sheaf.write("Tea", "Drink", "user", "Green tea.")
        assert "](user_tea.md)" in sheaf.prompt()
        assert "MEMORY.md" in [finding.path for finding in examine(sheaf)]
    after = os.lstat(file)
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)


@pytest.mark.parametrize("name", ["Memory.md", "memory.md"])
def test_another_spelling_stays_and_is_listed_with_its_problem(chosen: Settings, place: Path, name: str) -> None:
    (place / "MEMORY.md").rename(place / name)
    with Sheaf.open("project", settings=chosen) as sheaf:
        assert name in [row.path for row in sheaf.list() if row.problem]
    assert (place / name).read_text() == THEIRS


def test_a_catalog_of_ours_is_known_again_without_index_and_record(chosen: Settings, place: Path) -> None:
    (place / "MEMORY.md").unlink()
    with Sheaf.open("project", settings=chosen) as sheaf:
        sheaf.list()
        sheaf.own.index.delete()
        change_history(place, "DELETE FROM catalogs")
        sheaf.list()
    assert not (place / "MEMORY-kept.md").exists()


def test_what_was_saved_between_a_look_and_the_exchange_goes_back(tmp_path: Path) -> None:
    store = FolderStore(str(tmp_path / "root"))
    store.publish("MEMORY.md", b"# ours\n")
    (tmp_path / "root" / "MEMORY.md").write_text(THEIRS)

    with pytest.raises(Changed):  # the caller was sure, and somebody was faster
        store.publish("MEMORY.md", b"# newer\n", sure=True)

    assert (tmp_path / "root" / "MEMORY.md").read_text() == THEIRS


LOOK = """
import sys
from memsheaf import Sheaf
from memsheaf.config import Settings
home, cache, project = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
with Sheaf.open("project", settings=Settings(home=home, cache=cache, project=project, embedder="none")) as sheaf:
    sheaf.list()
    print("looked", flush=True)
"""


def start(chosen: Settings, cache: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", LOOK, chosen.home, cache, chosen.project]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("shared", [True, False])
def test_of_two_that_meet_it_at_once_one_keeps_it(chosen: Settings, place: Path, shared: bool) -> None:
    processes = [start(chosen, chosen.cache if shared else f"{chosen.cache}{number}") for number in range(3)]
    for process in processes:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.communicate()[0] for process in processes] == ["looked\n"] * 3

    with Sheaf.open("project", settings=chosen) as sheaf:
        assert [row.path for row in sheaf.list()] == ["MEMORY-kept.md", "user_role.md"]
        kept = [one for one in sheaf.log() if any(step.path == "MEMORY.md" for step in one.revisions)]
    assert len(kept) == 1
    assert (place / "MEMORY-kept.md").read_text() == THEIRS
    assert "](user_role.md)" in (place / "MEMORY.md").read_text()


@pytest.mark.parametrize("after", range(0, 30, 6))
def test_killed_anywhere_it_is_somewhere(chosen: Settings, place: Path, after: int) -> None:
    """The text is in its place, or in the journal and beside it; a later look finds it."""
    process = start(chosen, chosen.cache)
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()
    try:
        process.wait(0.02 + after / 300)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.communicate()

    with Sheaf.open("project", settings=chosen) as sheaf:
        sheaf.list()
        assert sheaf.read("MEMORY-kept.md").text == THEIRS
    assert "](user_role.md)" in (place / "MEMORY.md").read_text()
