"""Completion in a real bash; the scripts of the other shells have the same words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from memsheaf.cli.command import COMMANDS

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
        ("update --o", "--old"),
        ("task st", "start status"),
        ("add x --type fe", "feedback"),
        ("completion ba", "bash"),
        ("nothing x", ""),
    ],
)
def test_commands_actions_options_and_values_are_completed(
    shell: Callable[..., list[str]], line: str, offered: str
) -> None:
    assert shell(*line.split(" ")) == offered.split()


def test_a_script_is_printed_for_each_shell_and_knows_every_command(run: Run) -> None:
    for shell, first in (("bash", "_memsheaf() {"), ("zsh", "autoload"), ("fish", "complete -c memsheaf")):
        script = run("completion", shell)[1]
        assert script.startswith(first)
        assert set(COMMANDS) <= set(script.replace("'", " ").replace('"', " ").split())
