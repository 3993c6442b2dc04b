"""Memories in a repository, with real git: pull, rebase, stash, checkout and worktrees, while processes save."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command_line import environment_in, run_command
from databases import history
from memsheaf import Sheaf
from memsheaf.config import Settings
from memsheaf.memory import Allow
from memsheaf.store.git_checkout import journals_of
from memsheaf.transfer import erase
from memsheaf.work.checks import audit, examine
from trees import git


def status(at: Path) -> list[str]:
    return git(at, "status", "--porcelain", "--untracked-files=all").splitlines()


Opened = Callable[[Path], Sheaf]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """The memory in a checkout's .memory, each checkout with an index of its own."""
    sheaves = []

    def of(app: Path) -> Sheaf:
        home, cache = str(tmp_path / "home"), str(tmp_path / "cache")
        settings = Settings(home=home, cache=cache, project=str(app / ".memory"), embedder="none")
        sheaves.append(Sheaf.open("project", settings=settings, cwd=str(app)))
        return sheaves[-1]

    yield of
    for sheaf in sheaves:
        sheaf.close()


@pytest.fixture
def app(tmp_path: Path) -> Path:
    place = tmp_path / "app"
    place.mkdir()
    git(place, "init", "-q", "-b", "main")
    (place / "code.py").write_text("one\n")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "code")
    return place


def commit_all(at: Path, message: str) -> None:
    git(at, "add", "-A")
    git(at, "commit", "-q", "-m", message)


# what git sees


def test_journal_sessions_logs_and_catalog_are_not_committed_wherever_the_folder_came_from(
    app: Path, opened: Opened, tmp_path: Path
) -> None:
    sheaf = opened(app)
    sheaf.write("Tabs", "Indentation", "project", "Use tabs.")
    settings = Settings(home=str(tmp_path / "h"), cache=str(tmp_path / "c"), project=sheaf.root, embedder="none")
    with Sheaf.open("session/one", settings=settings) as session:
        session.write("Note", "Of this conversation", "project", "Only now.")
    with Sheaf.open("task/port", settings=settings) as task:
        task.write("Step", "Of this task", "project", "Port the parser.")
    from memsheaf.learn.daily_log import DailyLog
    from memsheaf.recall.turns import Message, Turn

    with DailyLog(sheaf.root, sheaf.own.state) as log:
        assert log.append(Turn("c", (Message("user", "The parser is ported."),)), by="user")
    sheaf.forget("project_tabs.md")

    git(app, "add", "-A")

    assert git(app, "ls-files", ".memory").split() == [".memory/tasks/port/project_step.md"]


def test_the_ignore_file_of_a_private_folder_comes_back_with_the_next_write(app: Path, tmp_path: Path) -> None:
    settings = Settings(home=str(tmp_path), cache=str(tmp_path / "c"), project=str(app / ".memory"), embedder="none")
    with Sheaf.open("session/one", settings=settings) as sheaf:
        sheaf.write("Tabs", "Indentation", "project", "Use tabs.")
        ignore = app / ".memory" / "sessions" / ".gitignore"
        ignore.unlink()

        sheaf.write("Tea", "Drink", "project", "Green tea.")

        assert ignore.read_text() == "*\n"
        assert [row.path for row in sheaf.list()] == ["project_tabs.md", "project_tea.md"]


def test_looking_leaves_a_tracked_catalog_clean(app: Path, opened: Opened, tmp_path: Path) -> None:
    """The same files give the same bytes in another checkout, whatever the clock says and whatever was of use."""
    sheaf = opened(app)
    numbers = list(range(205))
    random.Random(7).shuffle(numbers)
    for number in numbers:
        sheaf.write(f"Name {number}", "D", "project", f"Text {number}.", allow=Allow(anyway=True))
    sheaf.list()
    git(app, "add", "-f", ".memory/MEMORY.md")
    commit_all(app, "tracked")
    git(tmp_path, "clone", "-q", str(app), "other")
    other = tmp_path / "other"
    for path in (other / ".memory").glob("*.md"):
        os.utime(path, (1_000_000_000 + hash(path) % 100_000_000,) * 2)

    with opened(other) as theirs:
        theirs.list()
        theirs.own.count_use(["project_name-1.md", "project_name-204.md"])
        theirs.own.index.delete()
        theirs.list()
        theirs.prompt()
        theirs.write("One more", "D", "project", "Text.", allow=Allow(anyway=True))
        theirs.forget("project_one-more.md")

    assert status(other) == []
    assert status(app) == []


@pytest.mark.parametrize("tracked", [True, False])
def test_branches_switch_whatever_was_looked_at(app: Path, opened: Opened, tracked: bool) -> None:
    sheaf = opened(app)
    sheaf.write("Shared", "On both", "project", "x")
    if tracked:
        git(app, "add", "-f", ".memory/MEMORY.md")
    commit_all(app, "one")
    git(app, "checkout", "-q", "-b", "side")
    sheaf.write("Side", "Only there", "project", "y")
    commit_all(app, "two")
    for branch in ("main", "side", "main", "side"):
        git(app, "checkout", "-q", branch)
        sheaf.list()
        sheaf.prompt()
        assert status(app) == []
        assert ("project_side.md" in sheaf.catalog().text) == (branch == "side")
    assert not (app / ".memory" / "MEMORY-kept.md").exists()


def test_a_branch_that_ignores_nothing_and_one_that_does_switch(app: Path, opened: Opened) -> None:
    """The ignore file that is made where a branch has none does not stand in the way of one that is committed."""
    git(app, "checkout", "-q", "-b", "side")
    (app / ".memory").mkdir()
    (app / ".memory" / ".gitignore").write_text(".history/\nMEMORY.md\n")
    commit_all(app, "ignored")
    git(app, "checkout", "-q", "main")
    with opened(app) as sheaf:
        sheaf.write("Tabs", "Indentation", "project", "Use tabs.")
        assert status(app) == ["?? .memory/project_tabs.md"]
        git(app, "checkout", "-q", "side")
        sheaf.list()
        git(app, "checkout", "-q", "main")
        sheaf.write("Tea", "Drink", "project", "Green tea.")
    git(app, "checkout", "-q", "side")


SAVE = """
import sys
from memsheaf import Allow, Sheaf
from memsheaf.config import Settings
home, cache, root, name, count = sys.argv[1:]
settings = Settings(home=home, cache=cache, project=root, embedder="none")
with Sheaf.open("project", settings=settings) as sheaf:
    print("ready", flush=True)
    for number in range(int(count)):
        said = f"{name} says {number}."
        sheaf.write(f"{name} {number}", "Saved meanwhile", "project", said, allow=Allow(anyway=True))
        print(number, flush=True)
"""


def test_pull_rebase_stash_checkout_and_worktrees_while_processes_save(
    app: Path, opened: Opened, tmp_path: Path
) -> None:
    """Nothing aborts because of MEMORY.md, no acknowledged memory is lost, and the catalog is right in the end."""
    with opened(app) as sheaf:
        sheaf.write("Shared", "On both", "project", "x")
    commit_all(app, "one")
    git(tmp_path, "clone", "-q", str(app), "mine")
    mine = tmp_path / "mine"
    root, count = str(mine / ".memory"), 25
    words = [sys.executable, "-c", SAVE, str(tmp_path / "home"), str(tmp_path / "cache"), root]
    savers = [
        subprocess.Popen([*words, name, str(count)], stdout=subprocess.PIPE, text=True) for name in ("Ann", "Bob")
    ]
    for saver in savers:
        assert saver.stdout
        assert saver.stdout.readline() == "ready\n"
    for number in range(5):
        (app / "code.py").write_text(f"{number}\n")
        (app / ".memory" / f"project_theirs-{number}.md").write_text(
            f"---\nname: Theirs {number}\ndescription: d\ntype: project\n---\nNumber {number}.\n"
        )
        commit_all(app, f"theirs {number}")
        commit_all(mine, f"mine {number}") if status(mine) else None
        git(mine, "pull", "-q", "--rebase", "--autostash")
        git(mine, "checkout", "-q", "-b", f"side{number}")
        git(mine, "commit", "-q", "--allow-empty", "-m", "on the side")
        git(mine, "checkout", "-q", "main")
        (mine / "code.py").write_text("in work\n")  # what is untracked, git may remove under a writer's hands
        git(mine, "stash", "-q")
        git(mine, "stash", "pop", "-q")
        git(mine, "checkout", "-q", "--", "code.py")
        git(mine, "worktree", "add", "-q", str(tmp_path / f"tree{number}"), f"side{number}")
        with opened(tmp_path / f"tree{number}") as tree:
            tree.list()
        assert not [line for line in status(tmp_path / f"tree{number}") if "MEMORY" in line]
    for saver in savers:
        assert saver.communicate()[0].split() == [str(number) for number in range(count)]
        assert saver.returncode == 0

    with opened(mine) as sheaf:
        names = {row.name for row in sheaf.list()}
        assert {f"{who} {number}" for who in ("Ann", "Bob") for number in range(count)} <= names
        assert {f"Theirs {number}" for number in range(5)} <= names
        assert all(f"]({row.path})" in sheaf.catalog().text for row in sheaf.list())
        assert (mine / ".memory" / "MEMORY.md").read_text() == sheaf.own.index.catalog().text
    assert not [line for line in status(mine) if "MEMORY" in line or ".history" in line]


# what git has that it should not


@pytest.mark.parametrize("folder", [".history", "sessions", "logs", "tasks/port/.history"])
def test_doctor_and_lint_find_a_tracked_journal(app: Path, opened: Opened, folder: str) -> None:
    sheaf = opened(app)
    sheaf.write("Tabs", "Indentation", "project", "Use tabs.")
    private = app / ".memory" / folder
    private.mkdir(parents=True, exist_ok=True)
    (private / "journal-000009.jsonl").write_text("private\n")
    assert [one for one in examine(sheaf) if "git tracks" in one.problem] == []
    git(app, "add", "-f", f".memory/{folder}/journal-000009.jsonl")

    [found] = [one for one in examine(sheaf) if "git tracks" in one.problem]
    assert (found.level, found.path) == ("error", f".memory/{folder}/journal-000009.jsonl")
    [linted] = [one for one in audit(sheaf, today="2026-11-16").findings if one.kind == "tracked"]
    assert (linted.level, linted.path) == ("error", found.path)


SECRET = "The door code of the office is on the whiteboard."


def erased(app: Path, *words: str) -> tuple[int, str]:
    command = ["erase", "project_door.md", "--yes", "--project", str(app / ".memory"), *words]
    code, out, _ = run_command(command, environment_in(app.parent))
    return code, out


@pytest.mark.parametrize("held", ["commit", "branch", "stash", "index", "dangling", "message"])
def test_erase_says_what_git_has_of_it_and_how_to_remove_that(app: Path, opened: Opened, held: str) -> None:
    with opened(app) as sheaf:
        sheaf.write("Door", "Where the code is", "project", SECRET)
    if held == "message":
        git(app, "commit", "-q", "--allow-empty", "-m", SECRET)
    else:
        git(app, "checkout", "-q", "-b", "side")
        git(app, "add", "-A")
    if held in ("commit", "branch", "dangling"):
        git(app, "commit", "-q", "-m", "told")
    if held in ("branch", "dangling"):
        git(app, "checkout", "-q", "main")
        with opened(app) as sheaf:
            sheaf.write("Door", "Where the code is", "project", SECRET)
    if held == "dangling":
        git(app, "branch", "-q", "-D", "side")
        git(app, "reflog", "expire", "--expire=now", "--all")
    if held == "stash":
        git(app, "stash", "-q")
        git(app, "stash", "apply", "-q")

    code, said = erased(app, "--json")

    proof = json.loads(said)
    assert (code, proof["gone"], proof["left"]) == (1, False, [])
    assert proof["git"]
    assert SECRET not in said
    assert "--path .memory/project_door.md" in " ".join(proof["remedy"])
    expected = "in no commit" if held in ("index", "dangling") else "git's commit"
    assert any(expected in line for line in proof["git"])


def test_erase_without_a_trace_in_git_says_so(app: Path, opened: Opened) -> None:
    with opened(app) as sheaf:
        sheaf.write("Door", "Where the code is", "project", SECRET)
    code, said = erased(app)
    assert code == 0
    assert "no trace is left" in said


# tombstones


def buried(sheaf: Sheaf) -> int:
    return len(sheaf.own.store.buried_all())


def learns(sheaf: Sheaf, said: str) -> bool:
    """Whether something that is said in passing is learned, and not taken for what somebody removed."""
    from memsheaf.memory import compose
    from memsheaf.text.similarity import fact

    memory = compose(name=said, description="d", kind="project", body=said, created="", updated="")
    return sheaf.own.store.buried(fact(memory)) is None


FACT = "The parser lives in the folder app and is generated"


def with_side(app: Path, sheaf: Sheaf) -> None:
    commit_all(app, "one") if status(app) else None
    git(app, "checkout", "-q", "-b", "side")
    sheaf.write(FACT, "d", "project", FACT)
    commit_all(app, "two")


@pytest.mark.parametrize("kind", ["checkout", "worktree", "packed", "detached"])
def test_a_change_of_branch_buries_nothing(app: Path, opened: Opened, tmp_path: Path, kind: str) -> None:
    if kind == "worktree":
        git(app, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "base")
        app = tmp_path / "tree"
    start = git(app, "branch", "--show-current").strip()
    sheaf = opened(app)
    with_side(app, sheaf)
    if kind == "packed":
        git(app, "pack-refs", "--all")
    sheaf.list()

    git(app, "checkout", "-q", *(["--detach"] if kind == "detached" else []), start)

    assert sheaf.list() == []
    assert buried(sheaf) == 0
    assert learns(sheaf, FACT)


def test_what_somebody_removes_in_a_checkout_is_buried_once_and_lifted_when_it_comes_back(
    app: Path, opened: Opened
) -> None:
    sheaf = opened(app)
    with_side(app, sheaf)
    sheaf.list()
    (row,) = sheaf.list()
    file = app / ".memory" / row.path
    for _ in range(2):
        file.unlink()
        assert sheaf.list() == []
        assert buried(sheaf) == 1
        assert not learns(sheaf, FACT)
        git(app, "checkout", "-q", "--", ".memory")
        assert len(sheaf.list()) == 1
        assert buried(sheaf) == 0
        assert learns(sheaf, FACT)


@pytest.mark.parametrize("way", ["undo", "restore"])
def test_undo_and_restore_lift_the_stone_of_what_was_forgotten(app: Path, opened: Opened, way: str) -> None:
    sheaf = opened(app)
    memory = sheaf.write(FACT, "d", "project", FACT)
    commit = sheaf.forget(memory.path)
    assert buried(sheaf) == 1

    sheaf.undo(commit.id) if way == "undo" else sheaf.own.restore(memory.path, memory.version)

    assert buried(sheaf) == 0
    sheaf.forget(memory.path)
    assert buried(sheaf) == 1


def test_files_that_go_at_once_or_get_another_name_are_not_buried(opened: Opened, tmp_path: Path) -> None:
    """Also outside of git."""
    sheaf = opened(tmp_path / "plain")
    for number in range(8):
        sheaf.write(f"{FACT} {number}", "d", "project", f"{FACT} {number}", allow=Allow(anyway=True))
    first, second, *others = [Path(sheaf.root, row.path) for row in sheaf.list()]
    for path in others:
        path.unlink()
    sheaf.list()
    first.rename(first.with_name("renamed.md"))
    sheaf.list()
    assert buried(sheaf) == 0

    second.unlink()
    sheaf.list()
    assert buried(sheaf) == 1


def test_the_stone_of_a_removed_file_goes_with_retention_and_that_of_a_forgotten_one_stays(tmp_path: Path) -> None:
    now = 1_900_000_000.0
    settings = Settings(home=str(tmp_path / "home"), cache=str(tmp_path / "cache"), embedder="none")
    with Sheaf.open("user", settings=settings, clock=lambda: now) as sheaf:
        for name in ("Removed by hand", "Forgotten on request"):
            sheaf.write(name, "d", "user", f"{name} because it was wrong.")
        sheaf.list()
        Path(sheaf.root, "user_removed-hand.md").unlink()
        sheaf.list()
        sheaf.forget("user_forgotten-request.md")
        assert buried(sheaf) == 2
        now += 31 * 86_400
        sheaf.own.store.prune()
        assert buried(sheaf) == 1
        assert [stone.path for stone in sheaf.own.store.buried_all()] == ["user_forgotten-request.md"]


# where the journal is


def test_the_journal_is_where_git_keeps_what_it_knows_of_a_checkout(app: Path, tmp_path: Path) -> None:
    """Beside git's own files, which no commit reaches; a `.git` that may be another checkout's is left alone."""
    git(app, "worktree", "add", "-q", str(tmp_path / "linked"))
    git(app, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(app), "vendored")
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / ".git").write_text(f"gitdir: {app}/.git\n")
    apart = tmp_path / "apart"
    git(tmp_path, "init", "-q", "--separate-git-dir", str(tmp_path / "store.git"), str(apart))

    def kept(checkout: Path, folder: str = ".memory") -> Path:
        return Path(journals_of(str(checkout / folder), str(checkout)))

    assert kept(app) == app / ".git" / "memsheaf" / ".memory"
    assert kept(app, ".memory/tasks/port") == app / ".git" / "memsheaf" / ".memory" / "tasks" / "port"
    assert kept(app, ".") == app / ".git" / "memsheaf"
    assert kept(tmp_path / "linked") == app / ".git" / "worktrees" / "linked" / "memsheaf" / ".memory"
    assert kept(app / "vendored") == app / ".git" / "modules" / "vendored" / "memsheaf" / ".memory"
    assert kept(hostile) == hostile / ".memory"
    assert kept(apart) == apart / ".memory"
    assert kept(app, "../elsewhere") == app / ".." / "elsewhere"
    (app / ".memory").symlink_to(tmp_path)
    assert kept(app) == app / ".memory"


def test_an_erasure_in_a_checkout_looks_at_the_journals_among_the_files_of_git(app: Path, opened: Opened) -> None:
    sheaf = opened(app)
    sheaf.write("Canary", "Of the mine", "project", "The canary sings in shaft nine.")
    journals = Path(sheaf.own.store.journals)
    assert any(b"shaft nine" in (step.new or b"") for one in sheaf.own.store.history() for step in one.revisions)
    for place in ("forgotten", "tasks/port/.history/journal-000001.jsonl"):
        (journals / place).parent.mkdir(parents=True, exist_ok=True)
        (journals / place).write_text("The canary sings in shaft nine.\n")

    proof = erase(sheaf.own, "project_canary.md")

    assert proof.left == ("forgotten",)
    assert proof.elsewhere == ("tasks/port/.history/journal-000001.jsonl",)
    assert b"shaft nine" not in history(journals).read_bytes()
