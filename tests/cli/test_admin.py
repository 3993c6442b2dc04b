"""`memsheaf scopes`, `init`, `doctor`, `export` and `import`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import listing

Run = Callable[..., tuple[int, str, str]]
Standing = Callable[..., dict[str, Any]]
Tree = Callable[[], dict[str, bytes]]
FACT = ("remember", "Text.", "--name", "Fact", "--description", "d", "--type", "project")


@pytest.fixture
def repository(environment: dict[str, str]) -> Path:
    """A git repository, with the working directory in it."""
    here = Path.cwd()
    (here / ".git").mkdir()
    return here


def test_init_keeps_the_memory_in_the_repository_and_again_changes_nothing(
    run: Run, environment: dict[str, str], tree: Tree, tmp_path: Path
) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    here = Path.cwd()
    assert run("init", "--yes")[:2] == (0, f"Made {here}/.memory\n")
    run(*FACT)
    run(*FACT, "--scope", "session/one")

    command = ["git", "ls-files", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    assert listed.stdout.split() == [".memory/.gitignore", ".memory/project_fact.md"]

    (here / ".memory" / ".gitignore").write_text("mine\n")
    before = tree()
    assert run("init", "--yes")[:2] == (0, f"There is already {here}/.memory\n")
    assert tree() == before
    assert "elsewhere" in run("init", "--yes", "--project", str(tmp_path / "kept"))[1]
    os.symlink(tmp_path, here / ".memory" / "tasks")
    assert run("list", "--scope", "task/home")[0] == 1
    assert run("scopes")[0] == 0


def test_init_moves_every_layer_with_its_history_and_undo_brings_it_back(
    run: Run, standing: Standing, project: Path, tree: Tree
) -> None:
    before, files = standing(), tree()
    found = json.loads(run("init", "--dry-run", "--json")[1])
    assert {"user_fact.md", "NOTES.md", "tasks/feature-x/TASK.md"} <= set(found["files"])
    assert tree() == files

    code, out, err = run("init", "--yes")

    assert (code, err) == (0, "")
    assert "with the history" in out
    assert not project.exists()
    assert standing() == before
    assert run("undo")[0] == 0, "the journal came along"
    run("undo", json.loads(run("log", "--json")[1])["commits"][0]["id"])

    assert run("init", "--undo")[0] == 0
    after = standing()
    assert not Path(".memory").exists()
    assert {**after, "log": "", "task log": ""} == {**before, "log": "", "task log": ""}


def test_undoing_an_init_without_memories_says_what_went_and_does_no_harm_twice(run: Run) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    run("init")

    code, out, err = run("init", "--undo")
    assert (code, err) == (0, "")
    assert out == f"Removed {Path('.memory').absolute()}, which held no memories\n"
    assert not Path(".memory").exists()

    assert run("init", "--undo", "--yes") == (0, f"There is nothing to move from {Path('.memory').absolute()}\n", "")


def test_an_export_of_nothing_says_so(run: Run) -> None:
    code, _, err = run("export", "empty.zip")

    assert (code, err) == (0, "there is nothing to export yet; the archive is empty\n")


def test_init_merges_into_what_came_with_the_repository_and_overwrites_nothing(run: Run, project: Path) -> None:
    memory = Path(".memory")
    memory.mkdir()
    theirs = (project / "user_fact.md").read_text().replace("Newer text.", "Their text.")
    (memory / "user_fact.md").write_text(theirs)
    (memory / "NOTES.md").write_bytes((project / "NOTES.md").read_bytes())
    (memory / "tasks" / "feature-x").mkdir(parents=True)
    (memory / "tasks" / "feature-x" / "TASK.md").write_text("theirs\n")
    subprocess.run(["git", "add", "-A"], check=True)

    code, out, _ = run("init", "--yes")

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
    run("init", "--yes")
    shutil.rmtree(".memory")
    run(*FACT, "--scope", "project")
    assert Path(".git", "memsheaf", ".memory", ".history").is_dir()

    assert run("init", "--yes")[0] == 0

    assert not project.exists()
    assert "remember Fact" in run("log", "project_fact.md")[1]
    assert "remember Gone" in run("log", "user_gone.md")[1]
    assert run("init", "--undo")[0] == 0
    assert not Path(".git", "memsheaf", ".memory", ".history").exists()
    assert "remember Gone" in run("log", "user_gone.md")[1]


@pytest.mark.parametrize("there", [False, True])
def test_init_that_is_killed_loses_nothing_and_the_next_completes_it(
    run: Run, standing: Standing, project: Path, environment: dict[str, str], there: bool
) -> None:
    if there:
        Path(".memory").mkdir()
    before = standing()
    command = [sys.executable, "-m", "memsheaf", "init", "--yes"]
    places = (Path.cwd(), Path(environment["MEMSHEAF_HOME"]))
    kept, trace = (Path(environment["HOME"], name) for name in ("kept", "trace"))
    for number, place in enumerate(places):
        shutil.copytree(place, kept / str(number), symlinks=True)
    watched = "rename,renameat,renameat2,unlink,unlinkat,rmdir,mkdir,fsync,fdatasync"
    traced = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={watched}"]
    subprocess.run([*traced, *command], env=environment, check=True)
    steps = len(trace.read_text().splitlines())
    assert steps > 5

    for step in range(2, steps + 1, 1 if os.environ.get("MEMSHEAF_LONG") else steps // 2 + 1):
        for number, place in enumerate(places):
            for path in place.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.copytree(kept / str(number), place, symlinks=True, dirs_exist_ok=True)
        strike = [*traced, "-e", f"inject={watched}:signal=KILL:when={step}", *command]
        subprocess.run(strike, env=environment, capture_output=True, check=False)
        if there:  # the switch is one step; the state follows the folder when it is done again
            assert [row["path"] for row in json.loads(run("list", "--json")[1])["memories"]]
        code, out, err = run("init", "--yes")
        assert code == 0, (step, out, err)
        after = standing()
        assert {**after, "log": "", "task log": ""} == {**before, "log": "", "task log": ""}, step


def test_init_refuses_links_and_touches_nothing_behind_them(
    run: Run, repository: Path, tmp_path: Path, tree: Tree
) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim.txt").write_text("mine")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".gitignore").symlink_to(tmp_path / "victim.txt")
    memory = repository / ".memory"
    makers: list[Callable[[], object]] = [
        lambda: memory.symlink_to(tmp_path / "victim"),
        lambda: memory.symlink_to(tmp_path / "not there"),
        lambda: memory.write_text("a file"),
        lambda: shutil.copytree(tmp_path / "linked", memory, symlinks=True),
    ]
    for number, make in enumerate(makers):
        make()
        before = tree()
        code, _, err = run("init", "--yes")
        assert code == 1, number
        assert "link" in err
        assert tree() == before
        memory.rename(tmp_path / f"was-{number}")


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


def test_doctor_tells_of_indexes_that_nobody_needs_and_removes_them_on_request(run: Run, tmp_path: Path) -> None:
    run(*FACT, "--agent", "gone")
    shutil.rmtree(tmp_path / "home" / "agents" / "gone")

    assert "are of scopes that are gone" in run("doctor", "--scope", "user")[1]
    findings = json.loads(run("doctor", "--scope", "user", "--fix", "--json")[1])["findings"]

    assert "they were removed" in [finding["advice"] for finding in findings]
    assert "are of scopes that are gone" not in run("doctor", "--scope", "user")[1]


MEMORY_TEXT = "---\nname: N\ndescription: d\ntype: user\n---\nText.\n"


def test_everything_goes_out_and_comes_back_into_a_fresh_home(
    run: Run, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("shop", "blog"):
        subprocess.run(["git", "init", "-q", str(tmp_path / folder)], check=True)
        monkeypatch.chdir(tmp_path / folder)
        run("remember", f"The {folder} is deployed on Fridays")
    run("remember", "I prefer pnpm")
    run(
        "remember",
        "-s",
        "agent/writer",
        "Short sentences.",
        "--name",
        "Style",
        "--description",
        "How to write",
        "--type",
        "feedback",
    )
    run("task", "start", "Feature X", "--goal", "Users can log in")
    run("init", "--yes")  # the blog keeps its memory in the repository
    run("forget", "pnpm")
    run("undo")

    code, out, err = run("export", "--history", str(tmp_path / "backup.zip"))

    lines = [re.sub("-[0-9a-f]{16}:", ":", line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert set(lines[1:]) == {
        "  user: 1 memory", "  projects/blog: 1 memory", "  projects/shop: 1 memory", "  agents/writer: 1 memory",
        "It is with the history.",
    }  # fmt: skip
    other = {"MEMSHEAF_HOME": str(tmp_path / "other"), "MEMSHEAF_CACHE": str(tmp_path / "other cache")}
    code, out, _ = run("import", "--history", str(tmp_path / "backup.zip"), more=other)
    assert (code, "of their past came along" in out) == (0, True)
    for folder in ("shop", "blog"):
        monkeypatch.chdir(tmp_path / folder)
        listed = listing(run, more=other).split()
        assert {f"project_{folder}-deployed-fridays.md", "user:user_pnpm.md"} <= set(listed)
    assert "feature-x" in run("task", "status", "--all", more=other)[1]
    assert run("show", "feedback_style.md", "--agent", "writer", more=other)[0] == 0
    assert "remember I prefer pnpm" in run("log", "--scope", "user", more=other)[1]
    again = json.loads(run("import", str(tmp_path / "backup.zip"), "--json")[1])
    assert (again["added"], again["replaced"], again["refused"]) == ([], [], [])


@pytest.mark.parametrize("name", ["out.zip", "the folder itself"])
def test_a_project_travels_with_every_layer_and_its_history(
    run: Run, standing: Standing, project: Path, tmp_path: Path, name: str
) -> None:
    before = standing()
    target = str(project) if name == "the folder itself" else str(tmp_path / name)
    if name != "the folder itself":
        assert run("export", "--scope", "project", target, "--history")[0] == 0
    other = {"MEMSHEAF_HOME": str(tmp_path / "other"), "MEMSHEAF_CACHE": str(tmp_path / "other cache")}

    code, out, _ = run("import", target, "--history", more=other)

    assert code == 0
    assert "of their past came along" in out
    after = standing(**other)
    for what in ("task", "events", "notes", "diary"):
        assert after[what] == before[what], what
    assert paths(after) == paths(before)
    assert (
        run("session", "show", more=other)[1].replace("source: import", "source: user") == run("session", "show")[1]
    )
    past = [(one["why"], one["by"]) for one in after["log"]["commits"]]
    assert past[1:] == [(one["why"], one["by"]) for one in before["log"]["commits"]]
    assert run("undo", more=other)[0] == 0
    assert listing(run, "--scope", "project", more=other) == "", "an import is undone first"
    again = json.loads(run("import", target, "--history", "--json", more=other)[1])
    assert (again["commits"], again["refused"]) == (0, [])


def paths(said: dict[str, Any]) -> list[str]:
    return [row["path"] for row in said["list"]["memories"]]


def test_a_past_with_a_secret_comes_without_it(run: Run, tmp_path: Path, environment: dict[str, str]) -> None:
    key = "The key is AKIAQ3EGSJ5LKRWTXBFY."
    run("remember", key, "--name", "Key", "--description", "d", "--type", "reference", "--allow-secret")
    run("edit", "reference_key.md", "--old", "AKIAQ3EGSJ5LKRWTXBFY", "--new", "in the vault")
    run("export", "--scope", "project", str(tmp_path / "out.zip"), "--history")

    run("import", str(tmp_path / "out.zip"), "--history", "--agent", "writer")

    root = Path(environment["MEMSHEAF_HOME"], "agents", "writer")
    assert "vault" in (root / "reference_key.md").read_text()
    assert not any(b"AKIAQ3EGSJ5LKRWTXBFY" in path.read_bytes() for path in root.rglob("*") if path.is_file())


def test_a_layer_with_a_name_that_is_none_does_not_come_in(
    run: Run, tmp_path: Path, environment: dict[str, str]
) -> None:
    names = "tasks/a b/x.md, tasks/../x.md, tasks/con/x.md, sessions/x/../../y.md, tasks/x/tasks/y/z.md"
    for name in (*names.split(", "), "tasks/x/.history/lock", ".history/journal-²²²²²².jsonl"):
        with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
            archive.writestr(name, MEMORY_TEXT)
        run("import", str(tmp_path / "in.zip"), "--history")
        home = Path(environment["MEMSHEAF_HOME"])
        assert not any(b"Text." in path.read_bytes() for path in home.rglob("*.md")), name
