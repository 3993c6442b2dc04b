from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from memsheaf import Settings, Sheaf
from memsheaf.errors import Busy, PathRefused, SecretFound, TextRefused
from memsheaf.work.commits import Look, commit

NOTER = """
import sys
from memsheaf import Settings, Sheaf
from memsheaf.work.commits import commit
home, cache, who = sys.argv[1:]
with Sheaf.open("session/one", settings=Settings(home, cache, embedder="none"), cwd=home, by=who) as sheaf:
    for number in range(25):
        commit(sheaf, lambda look: {"log.md": (look("log.md") or "") + f"- {who} {number}\\n"}, "note")
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
    commit(sheaf, lambda look: {"a.md": "one\n"}, "begin")

    done = commit(sheaf, lambda look: {"a.md": (look("a.md") or "") + "two\n", "b.md": "new\n"}, "go on")

    assert done is not None
    assert [step.path for step in done.revisions] == ["a.md", "b.md"]
    assert sheaf.read("a.md").text == "one\ntwo\n"
    sheaf.undo()
    assert [row.path for row in sheaf.list()] == ["a.md"]
    assert sheaf.read("a.md").text == "one\n"


def test_a_file_can_be_moved(sheaf: Sheaf) -> None:
    commit(sheaf, lambda look: {"a.md": "one\n"}, "begin")

    commit(sheaf, lambda look: {"archive/a.md": look("a.md"), "a.md": None}, "move")

    assert [row.path for row in sheaf.list()] == ["archive/a.md"]


def test_a_plan_that_wants_nothing_changes_nothing(sheaf: Sheaf) -> None:
    assert commit(sheaf, lambda look: {}, "nothing") is None
    assert commit(sheaf, lambda look: {"gone.md": None}, "nothing") is None
    assert not Path(sheaf.root).exists()


def test_a_plan_is_asked_again_when_somebody_was_faster(sheaf: Sheaf) -> None:
    commit(sheaf, lambda look: {"a.md": "one\n"}, "begin")
    asked = []

    def plan(look: Look) -> Mapping[str, str | None]:
        text = look("a.md") or ""
        asked.append(text)
        if len(asked) == 1:
            Path(sheaf.root, "a.md").write_text("from an editor\n")
        return {"a.md": text + "two\n"}

    commit(sheaf, plan, "add")

    assert asked == ["one\n", "from an editor\n"]
    assert sheaf.read("a.md").text == "from an editor\ntwo\n"


def test_who_is_never_fast_enough_is_told(sheaf: Sheaf) -> None:
    commit(sheaf, lambda look: {"a.md": "0\n"}, "begin")
    count = 0

    def plan(look: Look) -> Mapping[str, str | None]:
        nonlocal count
        look("a.md")
        count += 1
        Path(sheaf.root, "a.md").write_text(f"{count}\n")
        return {"a.md": "ours\n"}

    with pytest.raises(Busy):
        commit(sheaf, plan, "add")
    assert sheaf.read("a.md").text == f"{count}\n"


def test_a_file_that_nobody_looked_at_is_not_overwritten(sheaf: Sheaf) -> None:
    commit(sheaf, lambda look: {"a.md": "one\n"}, "begin")

    with pytest.raises(Busy):
        commit(sheaf, lambda look: {"a.md": "two\n"}, "blindly")
    assert sheaf.read("a.md").text == "one\n"


@pytest.mark.parametrize(
    ("path", "text", "error"),
    [
        ("../a.md", "x", PathRefused),
        ("observability/x.ndjson", "x", PathRefused),
        ("a.md", "the key is sk-ant-api03-" + "Zk3" * 30, SecretFound),
        ("a.md", "x" * 300_000, TextRefused),
        ("a.md", "---\nname: broken\n", TextRefused),
    ],
)
def test_what_may_not_be_stored_is_refused_whole(sheaf: Sheaf, path: str, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        commit(sheaf, lambda look: {"fine.md": "fine\n", path: text}, "mixed")
    assert not Path(sheaf.root, "fine.md").exists()


def test_two_processes_that_note_at_once_lose_nothing(sheaf: Sheaf, settings: Settings) -> None:
    command = [sys.executable, "-c", NOTER, settings.home, settings.cache]
    running = [subprocess.Popen([*command, who]) for who in ("ann", "bob")]

    assert [process.wait() for process in running] == [0, 0]

    lines = sheaf.read("log.md").text.splitlines()
    assert sorted(lines) == sorted(f"- {who} {number}" for who in ("ann", "bob") for number in range(25))
