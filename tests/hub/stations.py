"""Machines of a hub inside the test's own process, and lines to the hub that break where they are told to."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from memsheaf.errors import HubUnreachable
from memsheaf.hub import Erasure, Hub, HubCommit, HubMember, HubSettings, Machine, Pulled
from memsheaf.hub.replica import Replica
from memsheaf.store import ABSENT, Commit, version_of


class Crash(BaseException):
    """As if the process had died here."""


class Line:
    """A hub that breaks: `is_down`, or once at the place in `breaks`."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.is_down = False
        self.failures = 0
        self.breaks = ""
        self.pushed: list[Commit] = []

    def _reach(self) -> None:
        if self.is_down:
            self.failures += 1
            raise HubUnreachable("the test cut the network")

    def _break(self, place: str) -> None:
        if self.breaks == place:
            self.breaks = ""
            raise Crash
        if self.breaks == f"answer lost {place}":
            self.breaks = ""
            self.failures += 1
            raise HubUnreachable("the test lost the answer")

    @property
    def me(self) -> str:
        return self.hub.me

    @property
    def notice(self) -> str:
        return self.hub.notice

    def push(self, *commits: Commit) -> str:
        self._reach()
        self._break("before push")
        position = self.hub.push(*commits)
        self.pushed += commits
        self._break("after push")
        return position

    def pull(self, cursor: str = "") -> Pulled:
        self._reach()
        self._break("before pull")
        pulled = self.hub.pull(cursor)
        self._break("after pull")
        return pulled

    def erase(self, erasure: Erasure) -> None:
        self._reach()
        self.hub.erase(erasure)
        self._break("after erase")

    def report(self, machine: Machine) -> None:
        self._reach()
        self._break("before report")
        self.hub.report(machine)

    def wait(self, seconds: float) -> bool:
        return self.hub.wait(seconds)

    def lock(self, name: str, *, wait: float = 0.0) -> AbstractContextManager[object]:
        self._reach()
        return self.hub.lock(name, wait=wait)

    def users(self) -> tuple[Sequence[HubMember], Sequence[Machine]]:
        return self.hub.users()

    def log(self, limit: int = 50) -> Sequence[HubCommit]:
        return self.hub.log(limit)

    def close(self) -> None:
        self.hub.close()


class Station:
    """One machine: a folder, its replica, and the line to the hub."""

    def __init__(self, root: str, settings: HubSettings, connect: Callable[[HubSettings], Hub]) -> None:
        self.root = root
        self.settings = settings
        self.connect = connect
        self.edited: set[str] = set()
        self.line = Line(connect(settings))
        self.open()

    def open(self, offline: str = "") -> None:
        """Open the folder, as a new process does."""
        self.settings = self.settings._replace(offline=offline or self.settings.offline)
        self.replica = Replica(self.root, self.settings, self.line, patience=0)
        self.replica.recover()

    def close(self) -> None:
        self.replica.close()

    def files(self) -> dict[str, bytes]:
        """What is in the folder, but for the catalog."""
        found = {entry.path for entry in self.replica.scan() if entry.path and not entry.path.endswith("/")}
        return {path: self.replica.read(path).data for path in found - {"MEMORY.md"}}

    def edit(self, path: str, data: bytes | None) -> None:
        """Save or remove a file, as a person does."""
        place = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if data is None:
            os.unlink(place)
        else:
            with open(f"{place}.swp", "wb") as file:
                file.write(data)
            os.replace(f"{place}.swp", place)
        self.edited.add(path)

    def look(self) -> None:
        """Notice what a person did, as every question of a sheaf does."""
        self.replica.adopt(self.files())
        self.replica.adopt(None)
        self.edited.clear()

    def sync(self) -> None:
        """Notice, pull and push."""
        self.look()
        self.replica.sync()

    def wrong(self) -> list[str]:
        """What the journal says other than the files, which nobody edited."""
        files = self.files()
        heads: dict[str, str] = {}
        ids = Counter(commit.id for commit in self.replica.history())
        for commit in self.replica.history():
            for step in commit.revisions:
                heads.setdefault(step.path, step.after)
        now = {path: version_of(files.get(path)) for path in {*files, *heads} - self.edited}
        return [
            *(
                f"{path}: the journal does not end with the file"
                for path in now
                if heads.get(path, ABSENT) != now[path]
            ),
            *(f"commit {one} is told {times} times" for one, times in ids.items() if times > 1),
            *(f"the journal is damaged at {line}" for line in self.replica.damaged()),
        ]
