"""`memsheaf link claude-code`: one folder for both, and a settings file that comes back byte for byte."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from memsheaf.cli import main

SOURCES = Path(__file__).parent / "sources" / "claude-code"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a repository called shop."""
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "shop")
    environment = {
        "MEMSHEAF_HOME": str(tmp_path / "ours"),
        "MEMSHEAF_EMBEDDER": "none",
        "HOME": str(tmp_path / "home"),
        "PATH": os.environ["PATH"],
    }

    def run(*words: str) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        code = main(words, environment=environment, stdin=io.StringIO(), stdout=out, stderr=err)
        return code, out.getvalue(), err.getvalue()

    return run


@pytest.fixture
def old_folder(run: Run, tmp_path: Path) -> Path:
    name = "".join(letter if letter.isalnum() else "-" for letter in str(tmp_path / "shop"))
    folder = tmp_path / "home" / ".claude" / "projects" / name / "memory"
    shutil.copytree(SOURCES, folder)
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


SETTINGS = [
    None,
    "",
    "{}",
    '{\n  "permissions": {"allow": ["Bash(ls)"]}\n}\n',
    '\ufeff{\r\n\t"model": "haiku",\r\n\t"env": {}\r\n}',
    '{"autoMemoryEnabled": true}',
]


@pytest.mark.parametrize("before", SETTINGS)
def test_unlink_brings_back_every_byte(run: Run, before: str | None) -> None:
    file = Path(".claude", "settings.local.json")
    if before is not None:
        file.parent.mkdir()
        file.write_bytes(before.encode())

    assert run("install", "claude-code", "--link", "--dry-run")[0] == 0
    assert (file.read_bytes() if before is not None else None) == (None if before is None else before.encode())
    assert run("install", "claude-code", "--link", "--yes")[0] == 0
    settings = json.loads(file.read_text(encoding="utf-8-sig"))
    root = json.loads(run("scopes", "--json")[1])["scopes"][0]["root"]
    assert settings["autoMemoryDirectory"] == root
    assert os.path.isdir(root)
    linked = file.read_bytes()
    assert "already" in run("install", "claude-code", "--link", "--yes")[1]
    assert file.read_bytes() == linked

    assert run("uninstall", "claude-code", "--yes")[0] == 0
    assert file.exists() == (before is not None)
    assert file.parent.exists() == (before is not None)
    assert before is None or file.read_bytes() == before.encode()
    assert "nothing was changed" in run("uninstall", "claude-code", "--yes")[2]


def test_unlink_leaves_what_was_changed_since(run: Run) -> None:
    file = Path(".claude", "settings.local.json")
    run("install", "claude-code", "--link", "--yes")
    file.write_text(json.dumps({"model": "haiku", **json.loads(file.read_text())}))

    assert run("uninstall", "claude-code", "--yes")[0] == 0
    assert json.loads(file.read_text()) == {"model": "haiku"}


@pytest.mark.parametrize("before", ['{"autoMemoryDirectory": "~/notes"}', '{"model": ', "[]"])
def test_what_is_not_ours_to_change_is_refused(run: Run, before: str) -> None:
    file = Path(".claude", "settings.local.json")
    file.parent.mkdir()
    file.write_text(before)

    code, out, _ = run("install", "claude-code", "--link", "--yes")

    assert code == 1
    assert "settings.local.json was left alone" in out
    assert file.read_text() == before
    assert run("uninstall", "claude-code", "--yes")[0] in (0, 1)
    assert file.read_text() == before


def test_nobody_is_asked_so_nothing_is_done(run: Run, old_folder: Path) -> None:
    assert run("install", "claude-code", "--link")[0] == 2
    assert not Path(".claude").exists()
    assert json.loads(run("list", "--json")[1])["memories"] == []


def test_its_memories_come_along_and_its_folder_stays(run: Run, old_folder: Path) -> None:
    before = snapshot(old_folder)

    assert "3 to add" in run("install", "claude-code", "--link", "--dry-run")[1]
    run("install", "claude-code", "--link", "--yes")

    rows = {row["path"] for row in json.loads(run("list", "--json")[1])["memories"]}
    assert {"user_role.md", "feedback_tests.md"} < rows  # where the client looks: in the project's folder
    assert len(rows) == 3
    run("uninstall", "claude-code", "--yes")
    assert snapshot(old_folder) == before
    assert len(json.loads(run("list", "--json")[1])["memories"]) == 3


def test_what_the_client_writes_is_a_memory_and_its_pointer_is_not(run: Run) -> None:
    run("remember", "We deploy on Thursdays")
    run("install", "claude-code", "--link", "--yes")
    root = Path(json.loads(Path(".claude", "settings.local.json").read_text())["autoMemoryDirectory"])

    for name in ("user_role.md", "feedback_tests.md"):
        shutil.copy(SOURCES / name, root)
        with (root / "MEMORY.md").open("a") as file:
            file.write(f"- [{name}]({name}) — a line of its own words\n")
        code, out, err = run("list", "--json")
        assert (code, err) == (0, "")
        assert name in [row["path"] for row in json.loads(out)["memories"]]
    with (root / "MEMORY.md").open("a") as file:
        file.write("- the pager is Bob's\n- [gone](gone.md) — not there\n")
    run("list")

    assert (root / "MEMORY-kept.md").read_text() == "- the pager is Bob's\n- [gone](gone.md) — not there\n"
    assert "](user_role.md)" in (root / "MEMORY.md").read_text()
