"""What tests of working trees share; their fixtures `root`, `write` and `open_tree` are in conftest.py."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def as_nobody(folder: Path) -> Iterator[None]:
    """Root may read everything: when root runs the tests, go on as a user who may not."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    for above in folder.parents:
        if above.is_relative_to(tempfile.gettempdir()):
            above.chmod(above.stat().st_mode | 0o011)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
