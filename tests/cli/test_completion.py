from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cases import each_case
from memsheaf.cli.command import COMMANDS
from memsheaf.cli.reference import SCRIPTS, candidates

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shell(environment: dict[str, str]) -> Callable[..., list[str]]:
    """What a real bash offers behind these words."""

    def shell(*words: str) -> list[str]:
        quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in ("memsheaf", *words))
        script = (
            f"source <(memsheaf completion bash) && COMP_WORDS=({quoted}) && COMP_CWORD={len(words)} && _memsheaf"
            ' && for word in "${COMPREPLY[@]}"; do printf "%s\\n" "$word"; done'
        )
        path = os.pathsep.join([os.path.dirname(sys.executable), environment["PATH"]])
        done = subprocess.run(
            ["bash", "-c", script], env={**environment, "PATH": path}, capture_output=True, check=True, text=True
        )
        return done.stdout.splitlines()

    return shell


def test_commands_options_values_scopes_and_files_are_completed(run: Run, tabs: str) -> None:
    run("add", "Mine", "x", "--description", "d", "--type", "project", "--agent", "writer")
    everywhere = "--scope --agent --home --project --json --help"

    for line, found in {
        "ca": "catalog",
        "update --": f"--old --new --count --allow-secret --anyway {everywhere}",
        "show ": tabs,
        "--agent writer show ": "project_mine.md",
        "show --scope agent/writer p": "project_mine.md",
        "list --scope a": "agent/writer",
        "list --scope = us": "user",
        "add x --type fe": "feedback",
        "completion ": "bash zsh fish",
        f"restore {tabs} ": "",
    }.items():
        assert run("complete", "--", *line.split(" "))[1].split() == found.split(), line


def test_a_hostile_file_name_is_never_run_by_the_shell(
    run: Run, tabs: str, shell: Callable[..., list[str]], environment: dict[str, str], tmp_path: Path
) -> None:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "$(touch pwned).md").write_text("x")
    (root / "a`touch pwned`;touch pwned.md").write_text("x")

    offered = shell("show", "")

    assert tabs in offered
    assert "\\$\\(touch\\ pwned\\).md" in offered
    assert not list(tmp_path.rglob("pwned"))


def test_completing_changes_nothing(
    run: Run, tabs: str, tree: Callable[[], dict[str, bytes]], environment: dict[str, str]
) -> None:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "new.md").write_text("x")
    before = tree()

    assert run("complete", "--", "show", "")[1].split() == ["new.md", tabs]
    assert run("complete", "--", "--agent", "nobody", "show", "")[1] == ""
    assert tree() == before


@each_case(
    "words, found",
    [
        ([], list(COMMANDS)),
        (["--sc"], ["--scope"]),
        (["--v"], ["--version"]),
        (["help", "un"], ["undo", "uninstall", "unlink"]),
        (["nothing", ""], []),
        (["import", ""], [":paths"]),
        (["list", "--home", "x"], [":folders"]),
        (["show", "--scope=user", "fi"], ["files --scope user"]),
        (["show", "fi"], ["files"]),
        (["show", "a.md", ""], []),
        (["list", "--scope=sc"], ["--scope=scopes --scope"]),
    ],
)
def test_what_may_stand_there_depends_on_the_words_before(words: list[str], found: list[str]) -> None:
    def ask(what: str, words: Sequence[str]) -> list[str]:
        return [" ".join((what, *words))]

    assert candidates(words, ask) == found


def test_each_script_asks_memsheaf_and_quotes_what_it_is_told() -> None:
    for shell, script in SCRIPTS.items():
        assert "memsheaf complete -- " in script, shell
        assert "eval" not in script
        assert "compgen -W" not in script  # it would expand what stands in a file name


def test_a_script_is_printed_for_each_shell(run: Run) -> None:
    for shell, first in (
        ("bash", "_memsheaf() {"),
        ("zsh", "#compdef memsheaf"),
        ("fish", "function __memsheaf_complete"),
    ):
        assert run("completion", shell)[1].startswith(first)
