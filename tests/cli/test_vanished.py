"""A memory folder that is gone while its history is there: it is reported, and `memsheaf restore` brings it back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from databases import contents
from forks import run_program
from memsheaf import config
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change
from memsheaf.store.folder import FolderStore
from memsheaf.tools import Tools

Run = Callable[..., tuple[int, str, str]]
FACTS = ("We deploy on Fridays with the blue pipeline", "Our staging database is called kestrel")
COMMAND = "`memsheaf restore` brings"


def git(*words: str) -> str:
    command = ("git", "-c", "user.name=A", "-c", "user.email=a@b", *words)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def app(run: Run, environment: dict[str, str]) -> Path:
    """A repository that keeps two memories, a note and a task in .memory, none of them committed."""
    git("init", "-q", "-b", "main")
    Path("main.py").write_text("print()\n")
    git("add", "main.py")
    git("commit", "-qm", "code")
    assert run("init", "--yes")[0] == 0
    for fact in FACTS:
        assert run("remember", fact)[0] == 0
    assert run("task", "start", "Log in with a passkey")[0] == 0
    return Path.cwd()


def files(folder: Path) -> dict[str, bytes]:
    return {os.path.relpath(path, folder): data for path, data in contents(folder).items()}


def hook(environment: dict[str, str], cwd: Path) -> str:
    """What a host is told at the start of a conversation."""
    event = {"hook_event_name": "SessionStart", "session_id": "one", "source": "startup", "cwd": str(cwd)}
    command = ("hook", "claude-code", "SessionStart")
    return run_program(command, environment, cwd, input=json.dumps(event).encode())[1].decode()


WAYS: dict[str, Callable[[], object]] = {
    "git clean": lambda: git("clean", "-fdxq"),
    "git stash": lambda: git("stash", "-uq"),
    "rm": lambda: shutil.rmtree(".memory"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_that_is_gone_is_reported_everywhere_and_comes_back_byte_for_byte(
    run: Run, app: Path, environment: dict[str, str], way: str
) -> None:
    before = files(app / ".memory")
    WAYS[way]()

    told = [run("list")[2], run("notes")[1], run("doctor")[1], hook(environment, app), run("undo")[2]]

    assert [COMMAND in said for said in told] == [True] * 5, told
    assert "All is well" not in told[2]
    assert run("restore")[0] == 0
    assert files(app / ".memory") == before
    assert COMMAND not in run("list")[2]
    assert run("restore")[2] == "nothing is missing\n"


def test_a_save_into_the_emptied_folder_neither_hides_nor_blocks_what_was_there(run: Run, app: Path) -> None:
    before = files(app / ".memory")
    first = next(name for name in before if "kestrel" in name)
    git("clean", "-fdxq")
    assert run("remember", "The cache is redis on port 6380")[0] == 0
    (app / ".memory" / first).write_text("Somebody wrote this meanwhile.\n")

    assert COMMAND in run("list")[2]
    assert run("restore")[0] == 0

    after = files(app / ".memory")
    assert after[first] == b"Somebody wrote this meanwhile.\n"
    assert before.keys() - after.keys() == set()
    assert any("redis" in name for name in after)
    assert COMMAND not in run("list")[2]


def test_a_fact_that_went_with_the_folder_can_be_learned_again(run: Run, app: Path) -> None:
    git("stash", "-uq")
    run("remember", "The cache is redis on port 6380")
    run("list")

    assert run("learn", "--text", FACTS[0])[0] in (0, 2)
    assert not (app / ".git/memsheaf/.memory/.history/tombstones").exists()


def test_a_single_memory_is_missed_when_its_folder_went_and_not_when_somebody_removed_it(
    run: Run, environment: dict[str, str]
) -> None:
    git("init", "-q", "-b", "main")
    run("init", "--yes")
    run("remember", FACTS[0])
    [memory] = Path(".memory").glob("project_*.md")
    text = memory.read_bytes()

    shutil.rmtree(".memory")
    run("remember", FACTS[1])
    assert COMMAND in run("list")[2]
    run("restore")
    assert memory.read_bytes() == text

    memory.unlink()
    assert COMMAND not in run("list")[2]
    for rest in Path(".memory").glob("project_*.md"):
        rest.unlink()
    assert COMMAND not in run("list")[2]


def test_what_was_forgotten_is_not_missed(run: Run, app: Path) -> None:
    for memory in list(Path(".memory").glob("project_*.md")):
        assert run("forget", memory.name)[0] == 0

    assert COMMAND not in run("list")[2]
    shutil.rmtree(".memory")
    run("restore")
    assert list(Path(".memory").glob("project_*.md")) == []


def test_what_is_gone_can_be_let_go(run: Run, app: Path) -> None:
    shutil.rmtree(".memory")

    assert run("restore", "--dismiss")[0] == 0

    assert COMMAND not in run("list")[2]
    assert run("restore")[2] == "nothing is missing\n"


def test_a_branch_without_memories_is_told_and_nothing_is_restored(
    run: Run, app: Path, environment: dict[str, str]
) -> None:
    git("add", "-A")
    git("commit", "-qm", "memories")
    before = files(app / ".memory")
    git("checkout", "-q", "HEAD~1")

    told = run("list")[2], hook(environment, app)

    assert ["branches of git have" in said for said in told] == [True, True], told
    assert COMMAND not in told[0]
    run("restore")
    assert list(Path(".memory").glob("project_*.md")) == []
    git("checkout", "-q", "main")
    assert "branches of git" not in run("list")[2]
    assert {name: data for name, data in files(app / ".memory").items() if name in before} == before


def test_a_committed_memory_that_was_removed_from_the_working_tree_comes_back(run: Run, app: Path) -> None:
    git("add", "-A")
    git("commit", "-qm", "memories")
    shutil.rmtree(".memory")

    assert COMMAND in run("list")[2]
    run("restore")

    assert git("status", "--short") == ""


@pytest.mark.parametrize("kind", ["repository", "folder"])
@pytest.mark.parametrize("across_disks", [False, True])
def test_a_project_that_was_moved_is_reported_and_comes_along_when_somebody_says_so(
    run: Run,
    environment: dict[str, str],
    tmp_path: Path,
    kind: str,
    across_disks: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kind == "repository":
        git("init", "-q", "-b", "main")
    for name in ("main.py", "Makefile", "notes.txt"):
        Path(name).write_text("print()\n")
    for fact in FACTS:
        run("remember", fact)
    run("task", "start", "Log in with a passkey")
    [old] = (tmp_path / "home/projects").iterdir()
    before = files(old)
    if across_disks:  # a copy that keeps the times, as `mv` makes it
        shutil.copytree(tmp_path / "work", tmp_path / "renamed")
        shutil.rmtree(tmp_path / "work")
    else:
        os.rename(tmp_path / "work", tmp_path / "renamed")
    monkeypatch.chdir(tmp_path / "renamed")
    Path("main.py").write_text("changed\n")
    command = f"`memsheaf restore --from {tmp_path / 'work'}` brings it here"

    told = [run("list")[2], run("notes")[1], run("doctor")[1], hook(environment, Path.cwd())]
    assert [command in said for said in told] == [True] * 4, told
    run("remember", "The cache is redis on port 6380")
    assert command in run("list")[2]
    assert run("restore")[2].startswith("nothing is missing")
    code, _, said = run("restore", "--from", str(tmp_path / "work"))

    assert code == 0
    assert str(tmp_path / "work") in said
    assert str(tmp_path / "renamed") in said
    [new] = (tmp_path / "home/projects").iterdir()
    memories = {name: data for name, data in before.items() if ".history" not in name and name != "MEMORY.md"}
    assert {name: data for name, data in files(new).items() if name in memories} == memories
    assert len(run("list")[1].splitlines()) == 4
    assert command not in run("list")[2]


def test_a_folder_of_the_same_name_or_number_gets_nothing_while_the_other_is_away(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("main.py").write_text("print()\n")
    run("remember", FACTS[0])
    before = files(tmp_path / "home/projects")
    os.rename(tmp_path / "work", tmp_path / "unmounted")
    (tmp_path / "other/work").mkdir(parents=True)
    (tmp_path / "other/work/main.py").write_text("print()\n")
    monkeypatch.chdir(tmp_path / "other/work")

    assert run("list")[2] == "no memories in project, user; `memsheaf remember TEXT` saves one\n"
    run("restore")

    assert {name: files(tmp_path / "home/projects").get(name) for name in before} == before
    os.rename(tmp_path / "unmounted", tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    assert len(run("list")[1].splitlines()) == 1


def test_whoever_dismisses_the_memory_of_a_moved_folder_is_not_told_again_and_can_still_have_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("main.py").write_text("print()\n")
    run("remember", FACTS[0])
    os.rename(tmp_path / "work", tmp_path / "renamed")
    monkeypatch.chdir(tmp_path / "renamed")
    assert "restore --from" in run("list")[2]

    assert run("restore", "--dismiss")[0] == 0

    assert "restore --from" not in run("list")[2]
    run("remember", FACTS[1])
    assert "restore --from" not in run("list")[2]
    assert run("restore", "--from", "../work")[0] == 0
    assert len(run("list")[1].splitlines()) == 2


def test_a_project_that_was_brought_here_goes_back_in_the_same_way(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("remember", FACTS[0])
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert run("restore", "--from", "../work")[0] == 0
    assert len(run("list")[1].splitlines()) == 1
    monkeypatch.chdir(tmp_path / "work")
    assert run("restore", "--from", str(tmp_path / "other"))[0] == 0

    assert len(run("list")[1].splitlines()) == 1
    assert run("restore", "--from", str(tmp_path / "nowhere"))[0] == 2


def test_a_repository_that_was_moved_and_cleaned_says_how_its_memory_comes_back(
    run: Run, app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files(app / ".memory")
    git("clean", "-fdxq")
    os.rename(tmp_path / "work", tmp_path / "renamed")
    monkeypatch.chdir(tmp_path / "renamed")

    assert "`memsheaf init` and `memsheaf restore` bring it back" in run("list")[2]
    assert run("init", "--yes")[0] == 0
    assert run("restore")[0] == 0
    assert files(Path(".memory")) == before


@pytest.mark.parametrize("command", [("restore",), ("remember", "The cache is redis on port 6380")])
def test_whoever_is_killed_in_an_emptied_folder_leaves_all_of_it_to_be_restored(
    run: Run, app: Path, environment: dict[str, str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    before = files(app / ".memory")
    git("clean", "-fdxq")
    words = [sys.executable, "-m", "memsheaf", *command]
    watched = "rename,renameat,renameat2,unlink,unlinkat,mkdir,fsync,fdatasync"
    kept, trace = tmp_path / "kept", tmp_path / "trace"
    shutil.copytree(app, kept, symlinks=True)
    traced = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={watched}"]
    subprocess.run([*traced, *words], env=environment, check=True, capture_output=True)
    steps = len(trace.read_text().splitlines())

    for step in range(1, steps + 1, 1 if os.environ.get("MEMSHEAF_LONG") else steps // 3 + 1):
        shutil.rmtree(app / ".memory", ignore_errors=True)
        shutil.rmtree(app / ".git")
        shutil.copytree(kept / ".git", app / ".git", symlinks=True)
        strike = [*traced, "-e", f"inject={watched}:signal=KILL:when={step}", *words]
        subprocess.run(strike, env=environment, capture_output=True, check=False)
        run("list")
        run("restore")
        after = files(app / ".memory")
        memories = [name for name in before if name.endswith(".md") and name != "MEMORY.md"]
        assert {name: after.get(name) for name in memories} == {name: before[name] for name in memories}, step


def test_two_that_restore_at_once_bring_back_each_file_once(run: Run, app: Path, environment: dict[str, str]) -> None:
    before = files(app / ".memory")
    git("clean", "-fdxq")
    words = [sys.executable, "-m", "memsheaf", "restore"]
    both = [
        subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    ]
    answers = [one.communicate()[1] for one in both]

    assert [one.returncode for one in both] == [0, 0], answers
    assert files(app / ".memory") == before


@pytest.mark.parametrize("by_hand", [False, True], ids=["forget", "rm"])
def test_a_memory_that_came_back_and_was_then_removed_is_not_missed(run: Run, app: Path, by_hand: bool) -> None:
    git("add", "-A")
    git("commit", "-qm", "memories")
    git("checkout", "-q", "HEAD~1")
    run("list")
    git("checkout", "-q", "main")
    run("list")
    [memory] = Path(".memory").glob("*kestrel*.md")
    if by_hand:
        memory.unlink()
    else:
        assert run("forget", memory.name)[0] == 0

    assert COMMAND not in run("list")[2]
    run("restore")
    assert not memory.exists()


def test_a_memory_that_was_saved_again_and_then_forgotten_is_not_missed(run: Run, app: Path) -> None:
    git("clean", "-fdxq")
    run("remember", FACTS[1])
    [memory] = Path(".memory").glob("*kestrel*.md")
    assert run("forget", memory.name)[0] == 0

    assert run("restore")[0] == 0

    assert not memory.exists()
    assert list(Path(".memory").glob("project_*.md")) != []


def test_a_memory_that_went_with_its_folder_can_be_erased(run: Run, app: Path) -> None:
    [memory] = Path(".memory").glob("*kestrel*.md")
    shutil.rmtree(".memory")

    assert run("erase", memory.name, "--yes")[0] == 0

    assert not [path for path in app.rglob("*") if path.is_file() and b"kestrel" in path.read_bytes()]
    run("restore")
    assert not memory.exists()
    assert list(Path(".memory").glob("project_*.md")) != []


def test_memories_that_went_without_the_ignore_file_of_their_folder_are_missed(run: Run, app: Path) -> None:
    git("add", ".memory/.gitignore")
    git("commit", "-qm", "ignore file")
    before = files(app / ".memory")
    git("clean", "-fdxq")
    assert os.listdir(".memory") == [".gitignore"]
    run("remember", "The cache is redis on port 6380")

    assert COMMAND in run("list")[2]
    run("restore")
    assert before.keys() - files(app / ".memory").keys() == set()


def test_a_restore_brings_back_what_it_can_where_a_folder_became_a_link(run: Run, app: Path, tmp_path: Path) -> None:
    [memory] = Path(".memory").glob("*kestrel*.md")
    Path(".memory/notes").mkdir()
    Path(".memory/notes/deploy.md").write_text("Deploy by hand.\n")
    run("list")
    shutil.rmtree(".memory")
    Path(".memory").mkdir()
    (tmp_path / "elsewhere").mkdir()
    os.symlink(tmp_path / "elsewhere", ".memory/notes")

    assert run("restore")[0] == 0

    assert memory.exists()
    assert os.listdir(tmp_path / "elsewhere") == []


def test_the_only_page_of_a_private_folder_is_missed_after_another_was_begun(app: Path) -> None:
    """The folder of the diary gets its ignore file from those who keep it private."""
    root = str(app / ".memory/logs")
    store = FolderStore(root, checkout=str(app), private=root)
    store.commit([Change("2026-11-17.md", b"We met the people of the harbour.\n", ABSENT)], by="user")
    shutil.rmtree(".memory")

    store.commit([Change("2026-11-18.md", b"The harbour is closed.\n", ABSENT)], by="user")

    assert list(store.lost()) == ["2026-11-17.md"]
    assert store.restore_lost(by="user") == ["2026-11-17.md"]
    assert store.lost() == {}
    assert (app / ".memory/logs/.gitignore").read_text() == "*\n"


def test_a_reader_that_may_not_write_reports_it_and_changes_nothing(run: Run, app: Path) -> None:
    git("clean", "-fdxq")
    before = files(app / ".git")

    assert COMMAND in run("doctor")[1]

    assert files(app / ".git") == before
    assert not (app / ".memory").exists()


@pytest.fixture
def repository(run: Run, environment: dict[str, str]) -> Path:
    """A repository that keeps its memory in .memory, and has none yet."""
    git("init", "-q", "-b", "main")
    assert run("init", "--yes")[0] == 0
    return Path.cwd()


INNER = {
    "task": ("task", "start", "Log in with a passkey"),
    "diary": ("notes", "diary", "We met the people of the harbour"),
}
FIRST = {
    "nothing": ("list",),
    "init": ("init", "--yes"),
    "memory": ("remember", "The cache is redis on port 6380"),
    "task": ("task", "start", "Ship the importer"),
    "diary": ("notes", "diary", "The harbour is closed"),
}


@pytest.mark.parametrize(
    ("layer", "first"),
    [
        ("task", "nothing"),
        ("diary", "init"),
        ("task", "memory"),
        ("diary", "memory"),
        ("task", "diary"),
        ("diary", "task"),
    ],
)
def test_a_project_with_nothing_but_a_task_or_a_diary_is_missed_whatever_is_done_first(
    run: Run, repository: Path, environment: dict[str, str], layer: str, first: str
) -> None:
    assert run(*INNER[layer])[0] == 0
    generated = ("MEMORY.md", ".gitignore")
    before = {name: data for name, data in files(repository / ".memory").items() if not name.endswith(generated)}
    git("clean", "-fdxq")
    run(*FIRST[first])

    told = [run("list")[2], run("doctor")[1], hook(environment, repository)]

    assert ["`memsheaf restore` brings it back" in said for said in told] == [True] * 3, told
    assert run("restore")[0] == 0
    after = files(repository / ".memory")
    assert {name: after.get(name) for name in before} == before
    assert COMMAND not in run("list")[2]


def test_no_command_reports_what_went_with_its_folder_as_absent(run: Run, app: Path) -> None:
    git("clean", "-fdxq")
    recall = ("recall", "How is the staging database called?")
    shown = (("list",), ("search", "kestrel"), recall, ("show", "kestrel"), ("scopes",), ("show",))
    for words in (*shown, ("export", "copy.zip")):
        _, said, noted = run(*words)

        assert "3 memories were removed with their folder" in said + noted, words
        assert COMMAND in said + noted, words


def test_no_tool_of_an_agent_reports_what_went_with_its_folder_as_absent(
    app: Path, environment: dict[str, str]
) -> None:
    git("clean", "-fdxq")
    with Sheaf.open(settings=config.load(environment), cwd=str(app), by="agent") as layers:
        tools = Tools(layers)
        answers = [
            tools.call("memory_list", {}),
            tools.call("memory_view", {"target": "files"}),
            tools.call("memory_search", {"query": "kestrel"}),
            tools.call("memory_recall", {"message": "How is the staging database called?"}),
            tools.call("memory_read", {"filename": "project_kestrel.md"}),
        ]

    assert [COMMAND in answer for answer in answers] == [True] * 5, answers


@pytest.mark.parametrize("below", ["", "src"])
def test_a_memory_folder_whose_repository_is_gone_is_named_with_what_makes_it_one_again(
    run: Run, app: Path, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.rename(".git", "../gone")
    (app / "src").mkdir()
    monkeypatch.chdir(app / below)

    said = run("list")[2]

    assert f"{app / '.memory'} (Markdown files: 5) is not used" in said
    assert "`git init` there makes it one" in said
    git("init", "-q", str(app))
    assert len(run("list")[1].splitlines()) == 3
