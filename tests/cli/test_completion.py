"""Completion in a real bash; the scripts of the other shells have the same words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from memsheaf.cli.commands import COMMANDS

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shell(environment: dict[str, str]) -> Callable[..., list[str]]:
    """What a real bash offers behind these words."""

    def shell(*words: str) -> list[str]:
        quoted = " ".join("'" + word + "'" for word in ("memsheaf", *words))
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


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("edit --o", "--old"),
        ("task st", "status start"),
        ("task start --g", "--goal"),
        ("remember --type fe", "feedback"),
        ("rememb", "remember"),
        ("completion ba", "bash"),
        ("nothing x", ""),
    ],
)
def test_commands_options_and_values_are_completed(shell: Callable[..., list[str]], line: str, offered: str) -> None:
    assert shell(*line.split(" ")) == offered.split()


def test_a_script_is_printed_for_each_shell_and_knows_every_command(run: Run) -> None:
    first_lines = {
        "bash": "_memsheaf() {",
        "zsh": "autoload",
        "fish": "complete -c memsheaf",
        "powershell": "Register-ArgumentCompleter",
    }
    for shell, first in first_lines.items():
        script = run("completion", shell)[1]
        assert script.startswith(first)
        words = set(re.findall(r"[a-z-]+", script))
        assert {word for name in COMMANDS for word in name.split(" ")} <= words


def test_the_manual_page_has_every_command_and_no_line_that_roff_would_take_for_its_own(run: Run) -> None:
    page = run("completion", "man")[1]
    for name in COMMANDS:
        assert f".SS {name}\n" in page
    requests = {line.split(" ")[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".nf", ".fi"}
