from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
Standing = Callable[..., dict[str, Any]]
Tree = Callable[[], dict[str, bytes]]
FACT = ("add", "Fact", "Text.", "--description", "d", "--type", "project")


@pytest.fixture
def repository(environment: dict[str, str]) -> Path:
    """A git repository, with the working directory in it."""
    here = Path.cwd()
    (here / ".git").mkdir()
    return here


def test_scopes_lists_each_with_its_folder_and_count(run: Run, tabs: str, tmp_path: Path) -> None:
    run(*FACT, "--agent", "writer")
    run(*FACT, "--scope", "team/core")
    run(*FACT, "--scope", "task/login")
    run(*FACT, "--project", str(tmp_path / "home" / "projects" / "another"))

    found = json.loads(run("scopes", "--json")[1])

    assert found["home"] == str(tmp_path / "home")
    assert [(each["scope"], each["memories"]) for each in found["scopes"]] == [
        ("project", 1),
        ("user", 0),
        ("agent/writer", 1),
        ("team/core", 1),
        ("task/login", 1),
        ("", 1),
    ]
    assert found["scopes"][2]["root"] == str(tmp_path / "home" / "agents" / "writer")
    assert run("scopes", "--names")[1].split() == ["project", "user", "agent/writer", "team/core", "task/login"]
    assert "(project)     1 memory    " in run("scopes")[1]


def test_init_keeps_the_memory_in_the_repository(run: Run, repository: Path) -> None:
    assert run("init")[:2] == (0, f"Made {repository}/.memory\n")
    run(*FACT)

    assert (repository / ".memory" / "project_fact.md").exists()


def test_init_again_changes_nothing(run: Run, repository: Path, tree: Tree) -> None:
    run("init")
    (repository / ".memory" / ".gitignore").write_text("mine\n")
    before = tree()

    assert run("init")[:2] == (0, f"There is already {repository}/.memory\n")
    assert tree() == before


def test_git_commits_the_memories_and_not_the_journal(run: Run, environment: dict[str, str]) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    run("init")
    run(*FACT)
    run(*FACT, "--scope", "session/one")

    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"], check=True, capture_output=True, text=True
    )

    assert listed.stdout.split() == [".memory/.gitignore", ".memory/project_fact.md"]


def test_init_moves_every_layer_with_its_history_and_undo_brings_it_back(
    run: Run, standing: Standing, project: Path
) -> None:
    before = standing()

    code, out, err = run("init")

    assert (code, err) == (0, "")
    assert "with their history" in out
    assert not project.exists()
    assert standing() == before
    assert run("undo")[0] == 0, "the journal came along"
    run("undo", json.loads(run("log", "--json")[1])["commits"][0]["id"])

    assert run("init", "--undo")[0] == 0
    after = standing()
    assert not Path(".memory").exists()
    assert {**after, "log": "", "task log": ""} == {**before, "log": "", "task log": ""}


def test_a_trial_of_init_names_what_would_move_and_moves_nothing(run: Run, project: Path, tree: Tree) -> None:
    before = tree()

    found = json.loads(run("init", "--dry-run", "--json")[1])

    assert {"user_fact.md", "NOTES.md", "tasks/feature-x/TASK.md"} <= set(found["files"])
    assert tree() == before


def test_init_merges_into_what_came_with_the_repository_and_overwrites_nothing(run: Run, project: Path) -> None:
    memory = Path(".memory")
    memory.mkdir()
    theirs = (project / "user_fact.md").read_text().replace("Newer text.", "Their text.")
    (memory / "user_fact.md").write_text(theirs)
    (memory / "NOTES.md").write_bytes((project / "NOTES.md").read_bytes())
    (memory / "tasks" / "feature-x").mkdir(parents=True)
    (memory / "tasks" / "feature-x" / "TASK.md").write_text("theirs\n")
    subprocess.run(["git", "add", "-A"], check=True)

    code, out, _ = run("init")

    assert code == 0
    assert "user_fact.md is now user_fact-2.md" in out
    assert (memory / "user_fact.md").read_text() == theirs
    assert "Newer text." in (memory / "user_fact-2.md").read_text()
    assert not (memory / "NOTES-2.md").exists()
    assert [(memory / name / ".gitignore").read_text() for name in ("logs", "sessions")] == ["*\n", "*\n"]
    assert "Users can log in" in (memory / "tasks" / "feature-x" / "TASK-2.md").read_text()
    assert "Newer text." in run("log", "user_fact-2.md", "--json")[1] or run("diff", "user_fact-2.md")[0] == 0
    assert not project.exists()

    assert run("init", "--undo")[0] == 0
    assert (memory / "user_fact.md").read_text() == theirs, "what is committed stays"
    assert not (project / "user_fact.md").exists(), "and was never ours"
    assert "Newer text." in (project / "user_fact-2.md").read_text()
    assert not (memory / "user_fact-2.md").exists()


def test_init_joins_the_past_of_a_folder_that_somebody_removed(run: Run, project: Path) -> None:
    run("init")
    shutil.rmtree(".memory")
    run(*FACT, "--scope", "project")
    assert Path(".git", "memsheaf", ".memory", ".history").is_dir()

    assert run("init")[0] == 0

    assert not project.exists()
    assert "remember Fact" in run("log", "project_fact.md")[1]
    assert "remember Gone" in run("log", "user_gone.md")[1]
    assert run("init", "--undo")[0] == 0
    assert not Path(".git", "memsheaf", ".memory", ".history").exists()
    assert "remember Gone" in run("log", "user_gone.md")[1]


def test_init_names_what_it_cannot_merge_and_leaves_it(run: Run, project: Path) -> None:
    Path(".memory").mkdir()
    (project / "picture.png").write_bytes(b"png")

    code, out, _ = run("init")

    assert code == 1
    assert "left picture.png: it is no Markdown" in out
    assert [path.name for path in project.iterdir()] == ["picture.png"]


@pytest.mark.parametrize("there", [False, True])
def test_init_that_is_killed_loses_nothing_and_the_next_completes_it(
    run: Run, standing: Standing, project: Path, environment: dict[str, str], there: bool
) -> None:
    if there:
        Path(".memory").mkdir()
    before = standing()
    command = [sys.executable, "-m", "memsheaf", "init"]
    places = (Path.cwd(), Path(environment["MEMSHEAF_HOME"]))
    kept, trace = (Path(environment["HOME"], name) for name in ("kept", "trace"))
    for number, place in enumerate(places):
        shutil.copytree(place, kept / str(number), symlinks=True)
    watched = "rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,fsync,fdatasync"
    traced = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={watched}"]
    subprocess.run([*traced, *command], env=environment, check=True)
    steps = len(trace.read_text().splitlines())
    assert steps > 5

    for step in range(1, steps + 1, steps // 10 + 1):
        for number, place in enumerate(places):
            for path in place.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.copytree(kept / str(number), place, symlinks=True, dirs_exist_ok=True)
        strike = [*traced, "-e", f"inject={watched}:signal=KILL:when={step}", *command]
        subprocess.run(strike, env=environment, capture_output=True, check=False)
        if there:  # the switch is one step; the state follows the folder when it is done again
            assert [row["path"] for row in json.loads(run("list", "--json")[1])["memories"]]
        code, out, err = run("init")
        assert code == 0, (step, out, err)
        after = standing()
        assert {**after, "log": "", "task log": ""} == {**before, "log": "", "task log": ""}, step


def test_init_outside_a_repository_is_refused(run: Run, tree: Tree) -> None:
    before = tree()

    code, _, err = run("init")

    assert code == 1
    assert "no repository" in err
    assert "git init" in err
    assert tree() == before


@pytest.mark.parametrize("what", ["folder", "ignore", "file", "dangling"])
def test_init_refuses_links_and_touches_nothing_behind_them(
    run: Run, repository: Path, tmp_path: Path, tree: Tree, what: str
) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim.txt").write_text("mine")
    memory = repository / ".memory"
    if what == "folder":
        memory.symlink_to(tmp_path / "victim")
    elif what == "dangling":
        memory.symlink_to(tmp_path / "not there")
    elif what == "file":
        memory.write_text("a file")
    else:
        memory.mkdir()
        (memory / ".gitignore").symlink_to(tmp_path / "victim.txt")
    before = tree()

    code, _, err = run("init")

    assert code == 1
    assert "link" in err
    assert tree() == before


def test_init_says_when_the_settings_put_the_project_elsewhere(run: Run, repository: Path, tmp_path: Path) -> None:
    assert "elsewhere" in run("init", "--project", str(tmp_path / "kept"))[1]


def test_doctor_is_content_with_a_sound_folder(run: Run, tabs: str) -> None:
    code, out, _ = run("doctor")

    assert code == 0
    assert out.startswith("All is well")


def test_doctor_names_what_is_wrong_and_what_to_do(run: Run, tabs: str, environment: dict[str, str]) -> None:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "broken.md").write_text("---\nname: [unclosed\n---\nText.\n")

    code, out, _ = run("doctor")
    assert code == 1
    assert "error: broken.md: " in out
    assert "`memsheaf edit broken.md`" in out

    code, out, _ = run("doctor", "--json")
    assert code == 1
    assert [finding["path"] for finding in json.loads(out)["findings"]] == ["broken.md"]


def test_doctor_prunes_what_is_past_retention(run: Run, tabs: str, environment: dict[str, str]) -> None:
    run("update", tabs, "--old", "tabs.", "--new", "spaces.")
    version = json.loads(run("log", tabs, "--json")[1])["commits"][1]["changes"][0]["after"]
    environment["MEMSHEAF_RETENTION_DAYS"] = "0"

    assert "Dropped 0" not in run("doctor", "--prune")[1]
    assert run("restore", tabs, version)[0] == 1
    assert "Use spaces." in run("show", tabs)[1]


def test_a_repository_cannot_make_scopes_look_elsewhere(run: Run, repository: Path, tmp_path: Path) -> None:
    run("init")
    os.symlink(tmp_path, repository / ".memory" / "tasks")

    assert run("list", "--scope", "task/home")[0] == 1
    assert run("scopes")[0] == 0


def test_doctor_tells_of_indexes_that_nobody_needs_and_removes_them_on_request(run: Run, tmp_path: Path) -> None:
    run(*FACT, "--agent", "gone")
    shutil.rmtree(tmp_path / "home" / "agents" / "gone")

    assert "are of scopes that are gone" in run("doctor", "--scope", "user")[1]
    removed = json.loads(run("doctor", "--scope", "user", "--fix", "--json")[1])["removed"]

    assert len(removed) == 1
    assert "are of scopes that are gone" not in run("doctor", "--scope", "user")[1]
