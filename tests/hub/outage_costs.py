"""What a hub that is gone, or that hangs, costs whoever works meanwhile: `cd tests; python -m hub.outage_costs`."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hub.git_remotes import make_bare
from hub.machines import ScopeOnMachine
from hub.postgres_server import Team, shared_server
from memsheaf.hub import scopes as hub_scopes
from memsheaf.scope import Scope

MEMORY = {"description": "Which tea", "type": "user", "content": "They drink green tea in the morning, always."}
CASES = list(product(("git", "database"), ("queue", "refuse"), ("refused", "hangs")))
EVENT = {"session_id": "s1", "prompt": "Which tea do I drink in the morning?"}


class Outage:
    """A machine whose hub stopped to answer after it had joined."""

    def __init__(self, machine: ScopeOnMachine, port: int) -> None:
        self.machine = machine
        self._work = str(machine.folder / "work")
        machine.environment["XDG_RUNTIME_DIR"] = str(machine.folder)
        machine.join()
        machine.write("Coffee", "They drink no coffee after four.")
        place = "postgresql://ana:x@{}/hub" if isinstance(machine.place, Team) else "http://{}/hub.git"
        where = place.format(f"127.0.0.1:{port}")
        hub_scopes.configure(Scope.parse(machine.scope), machine.settings, self._work, url=where)
        self._state = machine.root / ".history" / "hub-state.json"

    def forget_outage(self) -> None:
        """Let nobody know that the hub did not answer a moment ago."""
        found = json.loads(self._state.read_text())
        self._state.write_text(json.dumps(found | {"down_at": 0.0}))

    def run(self, *words: str, event: str = "") -> str:
        """A command, or a hook."""
        self.forget_outage()
        line, given = [sys.executable, "-P", "-m", "memsheaf", *words], {**EVENT, "hook_event_name": event}
        streams: dict[str, Any] = {"input": json.dumps(given | {"cwd": self._work}), "text": True}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(line, **streams, **pipes, env=self.machine.environment, cwd=self._work, check=False)
        return str(done.stdout)


def measure(outage: Outage) -> dict[str, float]:
    """How many seconds each thing takes."""
    found: dict[str, float] = {}

    @contextmanager
    def timed(what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        found[what] = time.monotonic() - began

    hooks = ("start of a conversation", "SessionStart"), ("message", "UserPromptSubmit")
    for what, event in hooks:
        with timed(f"hook: {what}"):
            outage.run("hook", "claude-code", event, event=event)
    with timed("mcp: start"):
        outage.forget_outage()
        opened = outage.machine.serve_mcp()
        call = opened.__enter__()
    with timed("mcp: save"):
        call("memory_write", name="Tea", **MEMORY)
    with timed("mcp: search"):
        call("memory_search", query="coffee")
    with timed("mcp: second save"):
        call("memory_write", name="Milk", **{**MEMORY, "content": "They take milk with their coffee."})
    opened.__exit__(None, None, None)
    with timed("remember"):
        outage.run("remember", "They swim on Mondays, at seven.", "--name", "Swimming")
    with timed("recall"):
        outage.run("recall", "coffee")
    with timed("hub status"):
        outage.run("hub", "status")
    return found


def main() -> None:
    """Measure all, and print a table."""
    table: dict[str, dict[str, float]] = {}
    with TemporaryDirectory() as place, shared_server(Path(place)) as server:
        for number, (kind, offline, trouble) in enumerate(CASES):
            folder = Path(place, str(number))
            make_bare(folder / "hub.git")
            where = Team(server, f"costs{number}") if kind == "database" else folder / "hub.git"
            with closing(socket.create_server(("127.0.0.1", 0))) as silent:
                port = int(silent.getsockname()[1])
                if trouble == "refused":
                    silent.close()
                outage = Outage(ScopeOnMachine(folder, "user", where, offline=offline), port)
                table[f"{kind}, {offline}: {trouble}"] = measure(outage)
    print("\n| |", " | ".join(table), "|")
    for what in next(iter(table.values())):
        print(f"| {what} |", " | ".join(f"{found[what]:.1f}" for found in table.values()), "|")


if __name__ == "__main__":
    main()
