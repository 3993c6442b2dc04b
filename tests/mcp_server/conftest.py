"""What tests of the server share: one that answers over HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from forks import Program
from mcp_server.mcp_peer import Place
from npm_packages import install_locked


class Served(NamedTuple):
    """A server over HTTP: where it is, and what opens it."""

    url: str
    token: str


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="session")
def serving() -> Callable[[Mapping[str, str]], AbstractContextManager[Served]]:
    """Start `memsheaf mcp --http` for the user's memories in an environment, and end it afterwards."""

    @contextmanager
    def served(environment: Mapping[str, str]) -> Iterator[Served]:
        words = [sys.executable, "-m", "memsheaf", "mcp", "--http", "--port", "0", "--scope", "user", "--json"]
        server = Program(words, env=environment, cwd=environment["HOME"])
        with server.stdout:
            told = json.loads(server.stdout.readline())  # comes once it listens
            yield Served(told["url"], told["token"])
            server.terminate()
            assert server.wait() == 0

    return served


@pytest.fixture(scope="session")
def npm() -> Callable[[Path], Path]:
    """Install what a folder's lock file pins."""
    return install_locked
