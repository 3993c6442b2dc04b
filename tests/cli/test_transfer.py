from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
Standing = Callable[..., dict[str, Any]]
Tree = Callable[[], dict[str, bytes]]
FACT = "---\nname: N\ndescription: d\ntype: user\n---\nText.\n"


@pytest.mark.parametrize("name", ["out.zip", "out.tar", "out.tar.gz", "out"])
def test_what_goes_out_comes_back_the_same(run: Run, tabs: str, tmp_path: Path, name: str) -> None:
    target = str(tmp_path / name)

    assert run("export", target)[:2] == (0, f"Exported 1 file to {target}\n")
    assert run("import", target, "--agent", "writer")[1].startswith("1 added, 0 replaced")
    came = run("show", tabs)[1].replace("source: user", "source: import")
    assert run("show", tabs, "--agent", "writer")[1] == came
    assert run("import", target)[:2] == (0, "0 added, 0 replaced, 1 the same already, 0 refused\n")


def test_a_dry_run_says_what_would_happen_and_changes_nothing(
    run: Run, tabs: str, tmp_path: Path, tree: Tree
) -> None:
    run("export", str(tmp_path / "out"))
    run("update", tabs, "--old", "tabs.", "--new", "spaces.")
    (tmp_path / "out" / "new.md").write_text(FACT)
    before = tree()

    code, out, _ = run("import", str(tmp_path / "out"), "--replace", "--dry-run")

    assert code == 0
    assert out == f"1 to add, 1 to replace, 0 the same already, 0 refused\n  + new.md\n  ~ {tabs}\n"
    assert tree() == before


def test_what_is_refused_is_named_and_the_rest_comes_in(run: Run, tabs: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.md").write_text(FACT)
    (tmp_path / "in" / "bad.md").write_bytes(b"\xff")
    (tmp_path / "in" / tabs).write_text(FACT)

    code, out, _ = run("import", str(tmp_path / "in"))

    assert code == 1
    assert out.startswith("1 added, 0 replaced, 0 the same already, 2 refused\n")
    assert "refused bad.md: 'bad.md' is not UTF-8" in out
    assert f"refused {tabs}: '{tabs}' exists already" in out
    assert "Use tabs." in run("show", tabs)[1]


def test_an_import_is_one_commit_and_one_undo(run: Run, tabs: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.md").write_text(FACT)
    run("import", str(tmp_path / "in"))

    assert len(json.loads(run("log", "--json")[1])["commits"]) == 2
    run("undo")
    assert run("list", "--paths")[1] == f"{tabs}\n"


def test_an_export_never_replaces_a_file(run: Run, tabs: str, tmp_path: Path, tree: Tree) -> None:
    (tmp_path / "mine.zip").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.zip").symlink_to(tmp_path / "not there")
    before = tree()

    for name in ("mine.zip", "folder", "link.zip", "no/such/folder.zip"):
        code, _, err = run("export", str(tmp_path / name))
        assert code == 1, name
        assert "Unpack" not in err
    assert run("export", "")[0] == 2
    assert tree() == before


@pytest.mark.parametrize("make", ["missing", "text", "empty", "cut"])
def test_what_is_no_archive_is_refused(run: Run, tabs: str, tmp_path: Path, tree: Tree, make: str) -> None:
    source = tmp_path / "in.zip"
    if make == "text":
        source.write_text("not an archive")
    elif make == "empty":
        source.write_bytes(b"")
    elif make == "cut":
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr("a.md", FACT * 100)
        source.write_bytes(source.read_bytes()[:-30])
    before = tree()

    code, _, err = run("import", str(source))

    assert code == 1
    assert err.startswith("memsheaf: ")
    assert tree() == before


def test_what_cannot_be_exported_is_named(run: Run, tabs: str, tmp_path: Path, environment: dict[str, str]) -> None:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "link.md").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")

    code, out, _ = run("export", str(tmp_path / "out"))

    assert code == 1
    assert out.startswith("Exported 1 file to ")
    assert "  left out link.md: " in out
    assert [path.name for path in (tmp_path / "out").iterdir()] == [tabs]


@pytest.mark.parametrize("name", ["out.zip", "out.tar", "out.tar.gz", "out", "the folder itself"])
def test_a_project_travels_with_every_layer_and_its_history(
    run: Run, standing: Standing, project: Path, tmp_path: Path, name: str
) -> None:
    before = standing()
    target = str(project) if name == "the folder itself" else str(tmp_path / name)
    if name != "the folder itself":
        assert run("export", target, "--history")[0] == 0
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
    run("export", str(tmp_path / "out.zip"))

    code, out, _ = run("import", str(tmp_path / "out.zip"), "--agent", "writer")

    assert code == 1
    assert "refused tasks/feature-x/TASK.md: 'tasks/feature-x/TASK.md' belongs to a project" in out
    assert "user_fact.md" in run("list", "--agent", "writer")[1]


def test_a_past_with_a_secret_comes_without_it(run: Run, tmp_path: Path, environment: dict[str, str]) -> None:
    key = "The key is AKIAQ3EGSJ5LKRWTXBFY."
    run("add", "Key", key, "--description", "d", "--type", "reference", "--allow-secret")
    run("update", "reference_key.md", "--old", "AKIAQ3EGSJ5LKRWTXBFY", "--new", "in the vault")
    run("export", str(tmp_path / "out"), "--history")

    run("import", str(tmp_path / "out"), "--history", "--agent", "writer")

    root = Path(environment["MEMSHEAF_HOME"], "agents", "writer")
    assert "vault" in (root / "reference_key.md").read_text()
    assert not any(b"AKIAQ3EGSJ5LKRWTXBFY" in path.read_bytes() for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "name", ["tasks/a b/x.md", "tasks/../x.md", "tasks/con/x.md", "sessions/x/../../y.md", "tasks/x/.history/lock",
             ".history/journal-²²²²²².jsonl", "tasks/x/tasks/y/z.md"],
)  # fmt: skip
def test_a_layer_with_a_name_that_is_none_does_not_come_in(
    run: Run, tmp_path: Path, environment: dict[str, str], name: str
) -> None:
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr(name, FACT)

    run("import", str(tmp_path / "in.zip"), "--history")

    assert not any(b"Text." in path.read_bytes() for path in Path(environment["MEMSHEAF_HOME"]).rglob("*.md"))


def test_a_zip_whose_member_has_a_broken_name_is_refused(run: Run, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("caf\u00e9.md", FACT)
    data = (tmp_path / "in.zip").read_bytes().replace("caf\u00e9".encode(), b"caf\xff\xfe")
    (tmp_path / "in.zip").write_bytes(data)

    code, _, err = run("import", str(tmp_path / "in.zip"))

    assert code == 1
    assert "cannot be read" in err
