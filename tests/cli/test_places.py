from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
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

    assert listed.stdout.split() == [".memory/.gitignore", ".memory/MEMORY.md", ".memory/project_fact.md"]


def test_init_tells_of_memories_that_are_elsewhere_and_how_to_bring_them(run: Run, repository: Path) -> None:
    run(*FACT)

    _, out, _ = run("init")

    assert "1 memory in " in out
    assert run("list")[1] == ""
    assert run(*out.partition("`memsheaf ")[2].partition("`")[0].split())[0] == 0
    assert "project_fact.md" in run("list")[1]


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
