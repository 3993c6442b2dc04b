"""Hubs for tests: a real PostgreSQL server, git remotes, and namespaces of one's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hub.git_remotes import make_bare, open_git
from hub.postgres_server import Server, Team, shared_server
from memsheaf.hub import Hub
from memsheaf.hub.postgres import PostgresHub

OpenHub = Callable[..., Hub]
"""open_hub(machine="m1", member="ana"): the same namespace, once more."""

HUBS = ["postgres", "git"]


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all workers of the run."""
    own = tmp_path_factory.getbasetemp()
    with shared_server(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) as server:
        yield server


@pytest.fixture
def team(postgres: Server) -> Team:
    """A team of its own, without members as yet."""
    return Team(postgres, f"t{os.urandom(5).hex()}")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """An empty git remote."""
    make_bare(tmp_path / "hub.git")
    return tmp_path / "hub.git"


@pytest.fixture(params=HUBS)
def open_hub(request: pytest.FixtureRequest) -> Iterator[OpenHub]:
    """Open the same namespace as another machine would; all are closed in the end."""
    opened: list[Hub] = []
    place = request.getfixturevalue("team" if request.param == "postgres" else "bare")

    def open_hub(machine: str = "m1", member: str = "ana") -> Hub:
        if isinstance(place, Team):
            opened.append(PostgresHub(place.settings(member, machine)))
        else:
            opened.append(open_git(place, machine))
        return opened[-1]

    yield open_hub
    for hub in opened:
        hub.close()
