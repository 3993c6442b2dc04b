"""`memsheaf scopes`, `init`, `doctor`, `index`, `export` and `import`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
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
    assert [found["scopes"][5][key] for key in ("key", "title")] == ["project~another", "another"]
    assert found["scopes"][2]["root"] == str(tmp_path / "home" / "agents" / "writer")
    assert "(another)     1 memory    " in run("scopes")[1]


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


def test_init_names_what_it_cannot_merge_and_leaves_it(run: Run, project: Path) -> None:
    Path(".memory").mkdir()
    (project / "picture.png").write_bytes(b"png")

    code, out, _ = run("init", "--yes")

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


def test_doctor_prunes_what_is_past_retention(run: Run, tabs: str, environment: dict[str, str]) -> None:
    run("update", tabs, "--old", "tabs.", "--new", "spaces.")
    version = json.loads(run("log", tabs, "--json")[1])["commits"][1]["changes"][0]["after"]
    environment["MEMSHEAF_RETENTION_DAYS"] = "0"

    assert "Dropped 0" not in run("doctor", "--prune")[1]
    assert run("restore", tabs, version)[0] == 1
    assert "Use spaces." in run("show", tabs)[1]


def test_doctor_tells_of_indexes_that_nobody_needs_and_removes_them_on_request(run: Run, tmp_path: Path) -> None:
    run(*FACT, "--agent", "gone")
    shutil.rmtree(tmp_path / "home" / "agents" / "gone")

    assert "are of scopes that are gone" in run("doctor", "--scope", "user")[1]
    findings = json.loads(run("doctor", "--scope", "user", "--fix", "--json")[1])["findings"]

    assert "they were removed" in [finding["advice"] for finding in findings]
    assert "are of scopes that are gone" not in run("doctor", "--scope", "user")[1]


MEMORY_TEXT = "---\nname: N\ndescription: d\ntype: user\n---\nText.\n"


@pytest.mark.parametrize("target", ["backup.zip", "backup"])
def test_everything_goes_out_and_comes_back_into_a_fresh_home(
    run: Run, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    for folder in ("shop", "blog"):
        subprocess.run(["git", "init", "-q", str(tmp_path / folder)], check=True)
        monkeypatch.chdir(tmp_path / folder)
        run("remember", f"The {folder} is deployed on Fridays")
    run("remember", "I prefer pnpm")
    run(
        "add", "--agent", "writer", "Style", "Short sentences.", "--description", "How to write", "--type", "feedback"
    )
    run("task", "start", "Feature X", "--goal", "Users can log in")
    run("init", "--yes")  # the blog keeps its memory in the repository
    run("forget", "pnpm")
    run("undo")

    code, out, err = run("export", "--history", str(tmp_path / target))

    lines = [re.sub("-[0-9a-f]{16}:", ":", line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert set(lines[1:]) == {
        "  user: 1 memory", "  projects/blog: 1 memory", "  projects/shop: 1 memory", "  agents/writer: 1 memory",
        "It is with the history.",
    }  # fmt: skip
    other = {"MEMSHEAF_HOME": str(tmp_path / "other"), "MEMSHEAF_CACHE": str(tmp_path / "other cache")}
    code, out, _ = run("import", "--history", str(tmp_path / target), more=other)
    assert (code, "of their past came along" in out) == (0, True)
    for folder in ("shop", "blog"):
        monkeypatch.chdir(tmp_path / folder)
        listed = run("list", "--paths", more=other)[1].split()
        assert {f"project_{folder}-deployed-fridays.md", "user:user_pnpm.md"} <= set(listed)
    assert "feature-x" in run("task", "list", more=other)[1]
    assert run("show", "feedback_style.md", "--agent", "writer", more=other)[0] == 0
    assert "remember I prefer pnpm" in run("log", "--scope", "user", more=other)[1]
    again = json.loads(run("import", str(tmp_path / target), "--json")[1])
    assert (again["added"], again["replaced"], again["refused"]) == ([], [], [])


def test_init_shows_what_it_would_move_and_asks(run: Run, project: Path, tree: Tree) -> None:
    before = tree()
    code, out, err = run("init", screen=True, stdin="n\n")
    assert code == 1
    assert "  user_fact.md\n" in out
    assert "/.memory, where they can be committed with the code? [y/N] Nothing was moved." in err.replace(
        "\x1b[0m", ""
    )
    code, _, err = run("init")
    assert code == 2
    assert "into the repository, and `memsheaf init --dry-run` shows which; confirm it with --yes" in err
    assert tree() == before

    assert run("init", screen=True, stdin="y\n")[0] == 0
    assert Path(".memory", "user_fact.md").is_file()
    assert run("init")[0] == 0, "there is nothing to ask about"


def test_what_goes_out_comes_back_the_same(run: Run, tabs: str, tmp_path: Path) -> None:
    target = str(tmp_path / "out.zip")

    said = f"Exported 1 file to {target}:\n  project: 1 memory\nIt is without the history; --history adds it.\n"
    assert run("export", "--scope", "project", target)[:2] == (0, said)
    assert run("import", target, "--agent", "writer")[1].startswith("1 added, 0 replaced")
    came = run("show", tabs)[1].replace("source: user", "source: import")
    assert run("show", tabs, "--agent", "writer")[1] == came
    assert run("import", target)[:2] == (0, "0 added, 0 replaced, 1 unchanged, 0 refused\n")


def test_a_dry_run_says_what_would_happen_and_changes_nothing(
    run: Run, tabs: str, tmp_path: Path, tree: Tree
) -> None:
    run("export", "--scope", "project", str(tmp_path / "out"))
    run("update", tabs, "--old", "tabs.", "--new", "spaces.")
    (tmp_path / "out" / "new.md").write_text(MEMORY_TEXT)
    before = tree()

    code, out, _ = run("import", str(tmp_path / "out"), "--replace", "--dry-run")

    assert code == 0
    assert out == f"1 to add, 1 to replace, 0 unchanged, 0 refused\n  2 to the project\n  + new.md\n  ~ {tabs}\n"
    assert tree() == before


def test_what_is_refused_is_named_and_the_rest_comes_in(run: Run, tabs: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.md").write_text(MEMORY_TEXT)
    (tmp_path / "in" / "bad.md").write_bytes(b"\xff")
    (tmp_path / "in" / tabs).write_text(MEMORY_TEXT)

    code, out, _ = run("import", str(tmp_path / "in"))

    assert code == 1
    assert out.startswith("1 added, 0 replaced, 0 unchanged, 2 refused\n")
    assert "refused bad.md: 'bad.md' is not UTF-8" in out
    assert f"refused {tabs}: '{tabs}' exists already" in out
    assert "Use tabs." in run("show", tabs)[1]


def test_an_export_never_replaces_a_file(run: Run, tabs: str, tmp_path: Path, tree: Tree) -> None:
    (tmp_path / "mine.zip").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.zip").symlink_to(tmp_path / "not there")
    before = tree()

    for name in ("mine.zip", "folder", "link.zip", "no/such/folder.zip"):
        code, _, err = run("export", "--scope", "project", str(tmp_path / name))
        assert code == 1, name
        assert "Unpack" not in err
    assert run("export", "")[0] == 2
    assert tree() == before


def test_what_is_no_archive_is_refused(run: Run, tabs: str, tmp_path: Path, tree: Tree) -> None:
    source = tmp_path / "in.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("caf\u00e9.md", MEMORY_TEXT * 100)
    whole = source.read_bytes()
    for data in (b"not an archive", b"", whole[:-30], whole.replace("caf\u00e9".encode(), b"caf\xff\xfe")):
        source.write_bytes(data)
        before = tree()
        code, _, err = run("import", str(source))
        assert (code, err[:10]) == (1, "memsheaf: "), data[:20]
        assert tree() == before


def test_what_cannot_be_exported_is_named(run: Run, tabs: str, tmp_path: Path, environment: dict[str, str]) -> None:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "link.md").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")

    code, out, _ = run("export", "--scope", "project", str(tmp_path / "out"))

    assert code == 1
    assert out.startswith("Exported 1 file to ")
    assert "  left out link.md: " in out
    assert [path.name for path in (tmp_path / "out").iterdir()] == [tabs]


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
    assert run("list", "--paths", "--scope", "project", more=other)[1] == "", "an import is undone first"
    again = json.loads(run("import", target, "--history", "--json", more=other)[1])
    assert (again["commits"], again["refused"]) == (0, [])


def paths(said: dict[str, Any]) -> list[str]:
    return [row["path"] for row in said["list"]["memories"]]


def test_an_archive_of_a_project_is_refused_file_by_file_where_its_layers_have_no_place(
    run: Run, project: Path, tmp_path: Path
) -> None:
    run("export", "--scope", "project", str(tmp_path / "out.zip"))

    code, out, _ = run("import", str(tmp_path / "out.zip"), "--agent", "writer")

    assert code == 1
    assert "refused tasks/feature-x/TASK.md: 'tasks/feature-x/TASK.md' belongs to a project" in out
    assert "user_fact.md" in run("list", "--agent", "writer")[1]


def test_a_past_with_a_secret_comes_without_it(run: Run, tmp_path: Path, environment: dict[str, str]) -> None:
    key = "The key is AKIAQ3EGSJ5LKRWTXBFY."
    run("add", "Key", key, "--description", "d", "--type", "reference", "--allow-secret")
    run("update", "reference_key.md", "--old", "AKIAQ3EGSJ5LKRWTXBFY", "--new", "in the vault")
    run("export", "--scope", "project", str(tmp_path / "out"), "--history")

    run("import", str(tmp_path / "out"), "--history", "--agent", "writer")

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


class Served(BaseHTTPRequestHandler):
    """An embedder of two dimensions, as servers offer them."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
        data = [{"index": number, "embedding": [1.0, 0.0]} for number in range(len(texts))]
        answer = json.dumps({"data": data, "model": "toy", "embeddings": [[1.0, 0.0]] * len(texts)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """An embedder that a server on this machine runs, named in the environment."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Served) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        environment |= {"MEMSHEAF_EMBEDDER": "ollama:toy", "MEMSHEAF_EMBEDDER_URL": url}
        yield environment
        server.shutdown()


def test_without_an_embedder_it_says_that_search_goes_by_words(run: Run, tabs: str) -> None:
    code, out, err = run("index")

    assert (code, err) == (0, "")
    assert "memories  1\n" in out
    assert "embedder  none: search goes by words\n" in out
    assert "vectors" not in out


@pytest.mark.parametrize("name", ["static", "semantic", "minilm", "auto"])
def test_an_embedder_of_an_earlier_version_in_config_toml_is_the_encoder_of_the_package(
    run: Run, tabs: str, environment: dict[str, str], name: str
) -> None:
    del environment["MEMSHEAF_EMBEDDER"]
    Path(environment["MEMSHEAF_HOME"], "config.toml").write_text(f'[embedder]\nname = "{name}"\n')

    code, out, err = run("index")

    assert (code, err) == (0, "")
    assert "embedder  memsheaf encoder" in out
    assert "vectors   1 of 1 memories" in out


def test_it_embeds_what_waits_and_says_where_it_is(run: Run, tabs: str, served: dict[str, str]) -> None:
    before = json.loads(run("index", "--status", "--json")[1])
    assert (before["done"], before["total"]) == (0, 1)

    assert run("index", screen=True)[2] == "\rEmbedding: 1 of 1\n"
    code, out, err = run("index")

    assert (code, err) == (0, "")
    assert "vectors   1 of 1 memories\n" in out
    after = json.loads(run("index", "--status", "--json")[1])
    assert (after["memories"], after["done"], after["running"], after["problem"]) == (1, 1, False, "")
    assert all(Path(file["path"]).stat().st_size == file["bytes"] for file in after["files"])

    (file,) = Path(served["MEMSHEAF_CACHE"]).glob("*.sqlite")
    old = file.stat().st_ino, file.read_bytes()
    assert run("index", "--rebuild", screen=True)[2] == "\rEmbedding: 1 of 1\n"
    assert (file.stat().st_ino, file.read_bytes()) != old


def test_an_embedder_that_cannot_be_reached_is_told_of(run: Run, tabs: str, served: dict[str, str]) -> None:
    served["MEMSHEAF_EMBEDDER_URL"] = "http://127.0.0.1:1"

    code, out, _ = run("index")

    assert code == 1
    assert "problem " in out
    assert run("search", "tabs")[0] == 0


def test_what_is_imported_is_embedded_at_once(run: Run, environment: dict[str, str], tmp_path: Path) -> None:
    environment["MEMSHEAF_EMBEDDER"] = "auto"
    folder = tmp_path / "others"
    folder.mkdir()
    for number in range(30):
        text = (
            f"---\nname: Ship {number}\ndescription: How releases go out\ntype: project\n---\nOne image a commit.\n"
        )
        (folder / f"project_ship-{number}.md").write_text(text)
    code, out, err = run("import", str(folder))

    assert (code, err) == (0, "")
    assert "30 added" in out
    _, out, _ = run("index", "--status", "--json")
    assert (json.loads(out)["done"], json.loads(out)["total"]) == (30, 30)
