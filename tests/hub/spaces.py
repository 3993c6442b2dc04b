"""One namespace of a hub for tests: how each machine reaches it, and what it holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import psycopg

from hub.git_remotes import make_bare, open_git
from hub.postgres_server import Server, Team
from memsheaf.hub import Hub, HubSettings
from memsheaf.hub.postgres import PostgresHub
from memsheaf.store import ABSENT


class Space(Protocol):
    """A namespace of a hub."""

    def settings(self, number: int) -> HubSettings:
        """What the machine of this number keeps."""

    def connect(self, settings: HubSettings) -> Hub:
        """Open it for a machine."""

    def running(self) -> set[int]:
        """The processes that serve it now: they finish what a machine had sent when it was killed."""


class PostgresSpace:
    """A team on a server; each machine is another member's."""

    def __init__(self, server: Server) -> None:
        self.team = Team(server, f"t{os.urandom(5).hex()}")

    def settings(self, number: int) -> HubSettings:
        return self.team.settings(f"member{number}", f"m{number}")

    def connect(self, settings: HubSettings) -> Hub:
        return PostgresHub(settings)

    def running(self) -> set[int]:
        with psycopg.connect(self.team.server.url()) as connection:
            rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE datname = %s", [self.team.database])
            return {int(pid) for (pid,) in rows}


class GitSpace:
    """A bare repository; each machine has its copy beside it."""

    def __init__(self, place: str) -> None:
        self.bare = Path(place, "hub.git")
        make_bare(self.bare)

    def settings(self, number: int) -> HubSettings:
        return HubSettings(f"file://{self.bare}", "memsheaf/user", f"m{number}", f"machine {number}")

    def connect(self, settings: HubSettings) -> Hub:
        return open_git(self.bare, settings.machine)

    def running(self) -> set[int]:
        found, place = set(), os.fsencode(self.bare.parent)
        for name in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read()
                if place in words or (
                    b"git" in words and os.fsencode(os.readlink(f"/proc/{name}/cwd")).startswith(place)
                ):
                    found.add(int(name))
        return found


def files_of(hub: Hub) -> dict[str, bytes]:
    """What a hub gives to a machine that never pulled."""
    found = {}
    for one in hub.pull().commits:
        for step in one.commit.revisions:
            assert step.after != ABSENT
            assert step.new is not None
            assert step.path not in found
            found[step.path] = step.new
    return found


@contextmanager
def opened(space: Space, number: int = 9) -> Iterator[Hub]:
    """The hub, for a machine that is nobody's."""
    hub = space.connect(space.settings(number))
    try:
        yield hub
    finally:
        hub.close()
