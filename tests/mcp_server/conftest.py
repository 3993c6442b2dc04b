"""What tests of the server share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_server.mcp_peer import Place
from npm_packages import install_locked


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(scope="session")
def npm() -> Callable[[Path], Path]:
    """Install what a folder's lock file pins."""
    return install_locked
