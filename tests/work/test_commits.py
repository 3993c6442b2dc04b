from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from memsheaf import Settings, Sheaf
from memsheaf.errors import Busy, PathRefused, SecretFound, TextRefused
from memsheaf.open_scope import Look
from memsheaf.work import sessions, tasks
from memsheaf.work.notes import BLOCKERS, noted_under, read_notes

NOTER = """
import sys
from memsheaf import Sheaf, Settings
from memsheaf.work import sessions, tasks
from memsheaf.work.notes import BLOCKERS, set_notes
home, cache, who = sys.argv[1:]
with Sheaf(Settings(home, cache, embedder="none"), home, by=who) as layers:
    set_notes(layers.only("project"), {BLOCKERS: who})
    for number in range(5):
        tasks.open_task(layers).note(f"{who} {number}")
        tasks.open_task(layers).verify(f"{who}-{number}", "holds")
        sessions.open_session(layers).note(f"{who} {number}", section="key")
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "home").mkdir()
    return Settings(home=str(tmp_path / "home"), cache=str(tmp_path / "cache"), embedder="none")


@pytest.fixture
def sheaf(settings: Settings) -> Iterator[Sheaf]:
    with Sheaf.open("session/one", settings=settings, cwd=settings.home) as sheaf:
        yield sheaf


def test_several_files_change_as_one_commit_that_undo_takes_back(sheaf: Sheaf) -> None:
    sheaf.own.change_files(lambda look: {"a.md": "one\n"}, "begin")

    done = sheaf.own.change_files(lambda look: {"a.md": (look("a.md") or "") + "two\n", "b.md": "new\n"}, "go on")

    assert done is not None
    assert [step.path for step in done.revisions] == ["a.md", "b.md"]
    assert sheaf.read("a.md").text == "one\ntwo\n"
    sheaf.undo()
    assert [row.path for row in sheaf.list()] == ["a.md"]
    assert sheaf.read("a.md").text == "one\n"


def test_a_plan_is_asked_again_when_somebody_was_faster(sheaf: Sheaf) -> None:
    sheaf.own.change_files(lambda look: {"a.md": "one\n"}, "begin")
    asked = []

    def plan(look: Look) -> Mapping[str, str | None]:
        text = look("a.md") or ""
        asked.append(text)
        if len(asked) == 1:
            Path(sheaf.root, "a.md").write_text("from an editor\n")
        return {"a.md": text + "two\n"}

    sheaf.own.change_files(plan, "add")

    assert asked == ["one\n", "from an editor\n"]
    assert sheaf.read("a.md").text == "from an editor\ntwo\n"


def test_a_file_that_nobody_looked_at_is_not_overwritten(sheaf: Sheaf) -> None:
    sheaf.own.change_files(lambda look: {"a.md": "one\n"}, "begin")

    with pytest.raises(Busy):
        sheaf.own.change_files(lambda look: {"a.md": "two\n"}, "blindly")
    assert sheaf.read("a.md").text == "one\n"


def mixed(path: str, text: str, look: Look) -> Mapping[str, str | None]:
    return {"fine.md": "fine\n", path: text}


def test_what_may_not_be_stored_is_refused_whole(sheaf: Sheaf) -> None:
    for path, text, error in (
        ("../a.md", "x", PathRefused),
        ("observability/x.ndjson", "x", PathRefused),
        ("a.md", "the key is sk-ant-api03-" + "Zk3" * 30, SecretFound),
        ("a.md", "x" * 300_000, TextRefused),
        ("a.md", "---\nname: broken\n", TextRefused),
    ):
        with pytest.raises(error):
            sheaf.own.change_files(partial(mixed, path, text), "mixed")
        assert not Path(sheaf.root, "fine.md").exists()


def test_two_processes_that_note_at_once_lose_nothing(settings: Settings) -> None:
    with Sheaf(settings, settings.home, by="user") as layers:
        tasks.start_task(layers, "Feature X")
        sessions.start_session(layers, id="one")
        command = [sys.executable, "-c", NOTER, settings.home, settings.cache]
        running = [subprocess.Popen([*command, who]) for who in ("ann", "bob")]

        assert [process.wait() for process in running] == [0, 0]

        wanted = [f"{who} {number}" for who in ("ann", "bob") for number in range(5)]
        task, body = tasks.open_task(layers), sessions.open_session(layers).body
        assert [task.summary().count(f": {one}\n") for one in wanted] == [1] * 10
        assert sorted(item.id for item in task.items()) == sorted(one.replace(" ", "-") for one in wanted)
        assert [body.count(f"- {one}\n") for one in wanted] == [1] * 10
        blockers = noted_under(read_notes(layers.only("project")), BLOCKERS)
        assert sorted(blocker.partition(": ")[2] for blocker in blockers) == ["ann", "bob"]
