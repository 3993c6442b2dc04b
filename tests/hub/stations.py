"""Machines of a hub inside the test's own process, and lines to the hub that break where they are told to."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

from memsheaf.errors import HubUnreachable
from memsheaf.hub import Erasure, Hub, HubSettings, Machine, Pulled
from memsheaf.hub.replica import Replica
from memsheaf.store import ABSENT, Commit, version_of


class Crash(BaseException):
    """As if the process had died here."""


class Line:
    """A real hub behind a plug. `out` is what is unplugged: `all`, or one method, or `after`: a push or an erasure
    arrives, and its answer is lost. `breaks` is a place where it breaks once.

    `meanwhile` happens on the way to the next push, `answer` is what becomes of what was pulled.
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.out = ""
        self.failures = 0
        self.breaks = ""
        self.pushes = 0
        self.pushed: list[Commit] = []
        self.meanwhile: Callable[[], object] | None = None
        self.answer: Callable[[Pulled], Pulled] | None = None

    @property
    def is_down(self) -> bool:
        return self.out == "all"

    @is_down.setter
    def is_down(self, is_down: bool) -> None:
        self.out = "all" if is_down else ""

    def _reach(self, *unplugged: str) -> None:
        if self.out in unplugged:
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

    def __getattr__(self, name: str) -> Any:
        if name not in ("close", "me", "notice"):
            self._reach(name, "all")
        return getattr(self.hub, name)

    def push(self, *commits: Commit) -> str:
        self.pushes += 1
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()
        self._reach("push", "all")
        self._break("before push")
        position = self.hub.push(*commits)
        self.pushed += commits
        self._break("after push")
        self._reach("after")
        return position

    def pull(self, cursor: str = "") -> Pulled:
        self._reach("pull", "all")
        self._break("before pull")
        pulled = self.hub.pull(cursor)
        self._break("after pull")
        return self.answer(pulled) if self.answer else pulled

    def erase(self, erasure: Erasure) -> None:
        self._reach("erase", "all")
        self.hub.erase(erasure)
        self._break("after erase")
        self._reach("after")

    def report(self, machine: Machine) -> None:
        self._reach("report", "all")
        self._break("before report")
        self.hub.report(machine)


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
