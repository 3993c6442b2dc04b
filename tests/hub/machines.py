"""Machines of a person or of a team: each with a home of its own, on one hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from command_line import run_command
from hub.postgres_server import Team
from mcp_server.mcp_peer import Wire
from memsheaf import config
from memsheaf.hub import scopes as hub_scopes
from memsheaf.hub.replica import Replica
from memsheaf.hub.replica_state import Synced
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import synchronize


class ScopeOnMachine:
    """One machine with one scope on a hub: `place` is a team of a server, or a bare repository."""

    def __init__(
        self, folder: Path, scope: str, place: Team | Path, member: str = "ana", *, offline: str = ""
    ) -> None:
        self.folder, self.scope, self.member = folder, scope, member
        self.work = folder / "work"
        self.work.mkdir(parents=True, exist_ok=True)
        self.environment = {
            "MEMSHEAF_HOME": str(folder / "home"),
            "MEMSHEAF_EMBEDDER": "none",
            "HOME": str(folder),
            "PATH": os.environ["PATH"],
        }
        self.settings = config.load(self.environment)
        self.place, self._offline = place, offline

    def join(self) -> Synced:
        """Give the scope its hub."""
        is_team = isinstance(self.place, Team)
        return hub_scopes.attach(
            Scope.parse(self.scope),
            self.place.url(self.member) if isinstance(self.place, Team) else str(self.place),
            self.settings,
            str(self.work),
            namespace=self.place.namespace if isinstance(self.place, Team) else "",
            offline=self._offline or ("" if is_team else "queue"),
        )

    @contextmanager
    def open(self, *, by: str = "user", scope: str = "") -> Iterator[Sheaf]:
        """The scope, or another one of this machine."""
        work = str(self.work)
        with Sheaf.open(scope or self.scope, settings=self.settings, cwd=work, by=by) as sheaf:
            yield sheaf

    @property
    def root(self) -> Path:
        """The folder of the scope."""
        with self.open() as sheaf:
            return Path(sheaf.root)

    def rename_work(self, name: str) -> None:
        """Give the working directory another name."""
        self.work = self.work.rename(self.folder / name)

    def sync(self) -> Synced:
        """As `memsheaf hub sync`."""
        with self.open() as sheaf:
            return synchronize(sheaf.own)

    def write(self, name: str, body: str, *, by: str = "user") -> str:
        """Save a memory; gives its path."""
        with self.open(by=by) as sheaf:
            return sheaf.write(name, f"About {name.lower()}", "project", body).path

    def trust(self) -> dict[str, str]:
        """The trust of each memory, by path."""
        with self.open() as sheaf:
            return {row.path: row.trust for row in sheaf.list()}

    def run(self, *words: str, stdin: str = "", scoped: bool = True) -> tuple[int, str]:
        """Run a command about the scope; gives the exit code, and all that was said."""
        code, out, err = self.ask(*words, stdin=stdin, scoped=scoped)
        return code, out + err

    def ask(self, *words: str, stdin: str = "", scoped: bool = True) -> tuple[int, str, str]:
        """Run a command about the scope; gives the exit code, the answer and what was noted."""
        named = ("--scope", self.scope) if scoped else ()
        return run_command([*words, *named], self.environment, folder=self.work, stdin=stdin)

    @contextmanager
    def serve_mcp(self, *words: str) -> Iterator[Callable[..., str]]:
        """An MCP server, as a process; gives what calls a tool of it, and gives its answer."""
        line, pipe = [sys.executable, "-P", "-m", "memsheaf", "mcp", *words], subprocess.PIPE
        work = self.work
        with subprocess.Popen(line, stdin=pipe, stdout=pipe, env=self.environment, cwd=work) as server:
            wire = Wire(server.stdin, server.stdout)  # type: ignore[arg-type]
            wire.open()
            yield wire.text
            assert server.stdin
            server.stdin.close()

    def json(self, *words: str, scoped: bool = True) -> dict[str, Any]:
        """What a command answers as JSON."""
        code, said, _ = self.ask(*words, "--json", scoped=scoped)
        found: dict[str, Any] = json.loads(said)
        return found | {"code": code}

    def cut(self) -> None:
        """Let the hub be out of reach."""
        here = str(self.folder / "work")
        found = hub_scopes.configure(Scope.parse(self.scope), self.settings, here)
        self._url = found.url
        away = f"{self._url}-away" if isinstance(self.place, Path) else "postgresql://ana:x@127.0.0.1:1/hub"
        hub_scopes.configure(Scope.parse(self.scope), self.settings, here, url=away)

    def mend(self) -> None:
        """Let the hub be there again."""
        hub_scopes.configure(Scope.parse(self.scope), self.settings, str(self.folder / "work"), url=self._url)

    def files_with(self, text: str) -> list[str]:
        """The files of this machine that hold a text."""
        found = (path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink())
        return sorted(str(path.relative_to(self.folder)) for path in found if text.encode() in path.read_bytes())


def replica_of(sheaf: Sheaf) -> Replica:
    """The replica of a scope with a hub."""
    assert sheaf.own.replica is not None
    return sheaf.own.replica
