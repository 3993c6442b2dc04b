"""A listing straight from the indexes: the same as a look would give, or none."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memsheaf.config import Settings
from memsheaf.quick_list import list_unchanged
from memsheaf.work.layers import Layers

Change = Callable[[Path], object]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A user with three memories, one of them in a folder, and a project with one."""
    found = Settings(str(tmp_path / "home"), str(tmp_path / "home" / "cache"), embedder="none")
    with Layers.open(settings=found, cwd=str(tmp_path)) as layers:
        for name in ("tabs", "notes/deep", "vim"):
            layers.user.put(f"{name}.md", f"---\nname: {name}\ndescription: d\ntype: user\n---\nUse {name}.\n")
        layers.remember("Port", "Where it listens", "project", "The server listens on 8080.")
    return found


def look(settings: Settings) -> list[object]:
    """What a full look gives, late enough that the stamps of the files can be trusted."""
    cwd = os.path.dirname(settings.home)
    with Layers.open(settings=settings, cwd=cwd, clock=lambda: time.time() + 10) as layers:
        return list(layers.list())


def quick(settings: Settings, *scopes: str) -> list[object] | None:
    rows = list_unchanged(settings, os.path.dirname(settings.home), scopes)
    return rows if rows is None else [*rows]


def test_what_is_unchanged_is_listed_as_a_look_lists_it(settings: Settings) -> None:
    assert len(look(settings)) == 4
    with Layers.open(settings=settings, cwd="/") as layers:
        layers.user.remember("Shell", "Which shell", "user", "Use fish.")
    assert quick(settings) is None  # the file is too new: a second edit could leave the same stamp
    found = look(settings)

    assert len(found) == 5
    assert quick(settings) == found
    assert [row.path for row in list_unchanged(settings, "/", ["user"]) or ()] == [
        "notes/deep.md",
        "tabs.md",
        "user_shell.md",
        "vim.md",
    ]


def rewrite(root: Path) -> None:
    before = (root / "tabs.md").stat()
    text = (root / "tabs.md").read_text().replace("Use tabs", "Use TABS")
    (root / "tabs.md").write_text(text)
    os.utime(root / "tabs.md", ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_by_link(root: Path) -> None:
    (root / "tabs.md").unlink()
    (root / "tabs.md").symlink_to(root / "vim.md")


def break_journal(root: Path) -> None:
    with (root / ".history" / "journal-000001.jsonl").open("ab") as file:
        file.write(b'{"commit": "5f0c')


def set_note(root: Path, name: str) -> None:
    """Change what the index remembers beside its rows."""
    for path in (root.parent / "cache").glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE note SET a = 1 WHERE name = ?", (name,))


CHANGES: dict[str, Change] = {
    "edited with its old time and size": rewrite,
    "added": lambda root: (root / "new.md").write_text("Something."),
    "added below": lambda root: (root / "notes" / "new.md").write_text("Something."),
    "removed": lambda root: (root / "vim.md").unlink(),
    "renamed": lambda root: (root / "vim.md").rename(root / "vi.md"),
    "replaced by a link": replace_by_link,
    "a folder of a bad name": lambda root: (root / "a:b").mkdir(),
    "catalog removed": lambda root: (root / "MEMORY.md").unlink(),
    "catalog edited": lambda root: (root / "MEMORY.md").write_text("Mine."),
    "a crash in a commit": break_journal,
    "all removed": lambda root: root.rename(root.with_name("elsewhere")),
    "index removed": lambda root: shutil.rmtree(root.parent / "cache"),
    "index broken": lambda root: [path.write_bytes(b"x" * 999) for path in (root.parent / "cache").glob("*.sqlite")],
    "a reboot": lambda root: set_note(root, "boot"),
    "a file is so new that a second edit could leave its stamp": lambda root: set_note(root, "verified"),
    "the catalog could not be written": lambda root: set_note(root, "unpublished"),
    "another process wrote to the journal": lambda root: set_note(root, "journal"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_after_any_change_there_is_a_look_before_anything_is_listed(settings: Settings, what: str) -> None:
    look(settings)
    CHANGES[what](Path(settings.home, "user"))

    assert quick(settings) is None
    found = look(settings)
    assert quick(settings) in (found, None)


def test_tasks_checkouts_and_wrong_scopes_are_left_to_a_look(settings: Settings, tmp_path: Path) -> None:
    look(settings)
    with Layers.open(settings=settings, cwd=str(tmp_path)) as layers:
        project = Path(layers.project.root)

    assert quick(settings, "nonsense") is None
    assert quick(settings, "task/one") is None
    assert quick(settings._replace(task="one")) is None
    elsewhere = settings._replace(home=str(tmp_path / "other"), project=str(project))
    assert quick(elsewhere) is not None
    (project.parent / ".git").mkdir()
    assert quick(elsewhere) is None
    (project / "tasks").mkdir()
    assert quick(settings) is None


def test_a_listing_of_what_is_unchanged_loads_nothing_that_writes(settings: Settings, tmp_path: Path) -> None:
    look(settings)
    code = "import sys; from memsheaf.cli import main; code = main(['list']); print(code, *sys.modules)"
    environment = {"MEMSHEAF_HOME": settings.home, "PATH": os.environ["PATH"]}
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    *listed, loaded = found.stdout.splitlines()

    assert len(listed) == 4
    assert loaded.startswith("0 ")
    heavy = {
        "memsheaf.sheaf",
        "memsheaf.store.transaction",
        "memsheaf.memory",
        "json",
        "datetime",
        "threading",
        "typing",
    }
    assert not heavy & set(loaded.split())
