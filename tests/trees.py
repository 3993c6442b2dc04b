"""What tests of working trees share; their fixtures `root`, `write` and `open_tree` are in conftest.py."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from memsheaf.worktree import WorkingTree

APP = """\
import os

LIMIT = 3


class Server:
    port = 80

    def start(self):
        return os.getpid()


def main():
    Server().start()
"""

Write = Callable[..., None]
Open = Callable[..., WorkingTree]


def git(folder: Path, *words: str) -> str:
    """Run git as nobody in particular."""
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "protocol.file.allow=always"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run([*command, *words], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout
