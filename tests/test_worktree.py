"""A working tree on disk: what is listed and read of it, and what is not run."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from memsheaf.errors import Refused
from memsheaf.guard.citations import Citation, check
from memsheaf.guard.evidence import check_body
from memsheaf.scope import around
from memsheaf.worktree import WorkingTree
from trees import APP, Open, Write, git


def test_the_tree_is_the_checkout_around_and_else_the_folder(tmp_path: Path, root: Path) -> None:
    (root / "deep/er").mkdir(parents=True)
    assert around(str(root / "deep/er")) == str((root / "deep/er").resolve())

    git(root, "init", "-q")
    assert around(str(root / "deep/er")) == str(root.resolve())
    (root / "a").write_text("a")
    git(root, "add", "a")
    git(root, "commit", "-qm", "a")
    git(root, "worktree", "add", "-q", str(tmp_path / "second"))
    assert around(str(tmp_path / "second")) == str((tmp_path / "second").resolve())


def test_git_lists_what_is_in_the_folder_and_not_ignored(root: Path, write: Write, open_tree: Open) -> None:
    git(root, "init", "-q")
    for path in ("kept.py", "deleted.py", "built.py", "new.py", "node_modules/x.py", "ä/ö ü.py"):
        write(path)
    write(".gitignore", "built.py\n")
    (root / "link.py").symlink_to("kept.py")
    git(root, "add", "kept.py", "deleted.py", "link.py")
    (root / "deleted.py").unlink()

    assert open_tree().files() == [".gitignore", "kept.py", "new.py", "node_modules/x.py", "ä/ö ü.py"]
    assert check_body("built.py deleted.py", open_tree()) == ("deleted.py",)


def test_without_git_the_folder_is_walked_past_links_and_what_tools_made(
    root: Path, write: Write, open_tree: Open
) -> None:
    for path in ("a.py", "b/c.py", ".hidden/x.py", "node_modules/x.py", "b/__pycache__/x.py", ".env"):
        write(path)
    (root / "b/up").symlink_to(root)
    (root / "b/loop").symlink_to("loop")
    os.mkfifo(root / "pipe")

    assert open_tree().files() == [".env", "a.py", "b/c.py"]


@pytest.mark.parametrize("checkout", [True, False])
def test_a_name_that_cannot_be_cited_is_passed_over(
    root: Path, write: Write, open_tree: Open, checkout: bool
) -> None:
    if checkout:
        git(root, "init", "-q")
    write("good.py", "other = 1\n")
    for name in (b"a\nb.py", b"\xff.py", b"\x1b[31m.py", "\u202e.py".encode(), b'q"`.py', b"c:d.py", b"a\\b.py"):
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text(APP)

    assert open_tree().files() == ["good.py"]
    assert check(Citation("good.py", symbol="main"), open_tree()).state == "missing"


def spoilt(root: Path, mark: Path) -> None:
    """A repository that would run something, if it were asked in the usual way."""
    git(root, "init", "-q")
    script = root / "spy"
    script.write_text(f"#!/bin/sh\necho run >> '{mark}'\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "pager.grep", "core.sshCommand", "diff.external", "filter.x.clean",
                "core.alternateRefsCommand", "alias.grep", "alias.ls-files", "diff.y.textconv"):  # fmt: skip
        git(root, "config", key, str(script))
    git(root, "config", "core.hooksPath", str(root / "hooks"))
    (root / "hooks").mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
        (root / "hooks" / hook).symlink_to(script)
    (root / ".gitattributes").write_text("* filter=x diff=y\n")
    (root / "app.py").write_text(APP)


def test_nothing_of_a_repository_is_run(
    tmp_path: Path, root: Path, open_tree: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    spoilt(root, mark)
    assert "app.py" in git(root, "status", "--short")
    assert mark.exists(), "the trap does not work"
    mark.unlink()

    (root / "bin").mkdir()
    (root / "bin/git").symlink_to(root / "spy")
    (root / "git").symlink_to(root / "spy")
    paths = os.pathsep.join([str(root / "bin"), "", ".", "bin", os.environ["PATH"]])
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    (tmp_path / "elsewhere/bin").mkdir(parents=True)
    (tmp_path / "elsewhere/bin/git").symlink_to(root / "spy")
    for folder in (root, tmp_path / "elsewhere"):
        monkeypatch.chdir(folder)
        tree = open_tree(environment={"PATH": paths, "GIT_DIR": "/nowhere", "GIT_PAGER": str(root / "spy")})
        assert "app.py" in tree.files()
        assert tree.absent(["Server", "Client"]) == {"Client"}

    assert not mark.exists()
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


def test_the_settings_of_a_repository_do_not_change_the_answers(tmp_path: Path, root: Path, open_tree: Open) -> None:
    git(root, "init", "-q")
    (root / "app.py").write_text(APP)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.py").write_text("TOKEN = 1\n")
    for key, value in (
        ("grep.lineNumber", "true"),
        ("grep.column", "true"),
        ("grep.patternType", "perl"),
        ("color.ui", "always"),
        ("color.grep", "always"),
        ("core.quotePath", "true"),
        ("submodule.recurse", "true"),
        ("core.worktree", str(tmp_path / "outside")),
    ):
        git(root, "config", key, value)

    tree = open_tree()
    assert tree.files() == ["app.py"]
    assert tree.absent(["Server", "TOKEN"]) == {"TOKEN"}


def test_a_git_that_fails_or_hangs_is_done_without(tmp_path: Path, root: Path, write: Write, open_tree: Open) -> None:
    write("app.py")
    (root / ".git").write_text("gitdir: nowhere\n")
    for number, script in enumerate(("exit 3", "exec sleep 60", "kill -9 $$", "echo H garbage; exit 1")):
        program = tmp_path / f"bin{number}" / "git"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        tree = open_tree(environment={"PATH": f"{program.parent}:/usr/bin:/bin"})

        begin = time.monotonic()
        assert tree.files() == ["app.py"], script
        assert tree.absent(["Server", "Client"]) == {"Client"}, script
        assert time.monotonic() - begin < 45, script


def test_a_folder_inside_another_repository_with_a_broken_one_of_its_own_is_walked(
    root: Path, write: Write, open_tree: Open
) -> None:
    git(root, "init", "-q")
    write("outer.py")
    write("inner/app.py")
    git(root, "add", "outer.py")
    (root / ".git/info/exclude").write_text("app.py\n")
    (root / "inner/.git").mkdir()

    tree = open_tree(root / "inner")
    assert tree.files() == ["app.py"]
    assert tree.absent(["Server", "Client"]) == {"Client"}


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        WorkingTree(str(tmp_path / "nowhere"))


def test_a_hostile_path_is_neither_read_nor_there(root: Path, write: Write, open_tree: Open) -> None:
    git(root, "init", "-q")
    write("app.py")

    for path in ("", "..", "../here/app.py", "/etc/passwd", ".git/config", "a\0b", "\ud800", "x" * 9999):
        assert open_tree().lines(path) is None, path
        assert not open_tree().has(path), path
