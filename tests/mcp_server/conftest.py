"""What tests of adapters share: an empty memory, packages of npm that are fetched once, a server over HTTP."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
OFFLINE = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH", "ERR_SOCKET_TIMEOUT")


class Served(NamedTuple):
    """A server over HTTP: where it is, and what opens it."""

    url: str
    token: str


@pytest.fixture(scope="session")
def serving() -> Callable[[Mapping[str, str]], AbstractContextManager[Served]]:
    """Start `memsheaf mcp --http` for the user's memories in an environment, and end it afterwards."""

    @contextmanager
    def served(environment: Mapping[str, str]) -> Iterator[Served]:
        words = [sys.executable, "-m", "memsheaf", "mcp", "--http", "--port", "0", "--scope", "user", "--json"]
        with subprocess.Popen(words, env=environment, cwd=environment["HOME"], stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            told = json.loads(server.stdout.readline())  # comes once it listens
            yield Served(told["url"], told["token"])
            server.terminate()
        assert server.returncode == 0

    return served


@pytest.fixture(scope="session")
def npm() -> Callable[[Path], Path]:
    """Install what a folder's lock file pins, once, and give the place where the folder's files stand beside it."""
    tools = [shutil.which(name) for name in ("node", "npm")]
    if None in tools:
        pytest.skip("node and npm are not installed")

    def installed(folder: Path) -> Path:
        pinned = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()[:12]
        place = ROOT / ".cache" / "node" / f"{folder.name}-{pinned}"
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            _fetch(folder, place)
        for script in folder.glob("*.mjs"):  # beside the packages, where node looks for them
            _place(script, place / script.name)
        return place

    return installed


def _fetch(folder: Path, place: Path) -> None:
    """Have npm install beside the place, and move it there whole; the loser of a race throws its own away."""
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        draft = Path(scratch) / "draft"
        shutil.copytree(folder, draft)
        words = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]
        result = subprocess.run(words, cwd=draft, capture_output=True, text=True, timeout=300, check=False)
        if result.returncode and any(sign in result.stderr for sign in OFFLINE):
            pytest.skip("npm can reach no registry, and nothing is in .cache/node")
        assert result.returncode == 0, result.stderr
        try:
            draft.rename(place)
        except OSError:
            assert place.exists()


def _place(source: Path, target: Path) -> None:
    """Copy a file in one step, since another test may be about to read it."""
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.copyfile(source, draft)
    draft.replace(target)
