"""A hub that hangs: who saves something waits for a moment, and what was saved is pushed later."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from hub.git_remotes import git
from hub.machines import ScopeOnMachine
from hub.postgres_server import Team
from hub.test_git_transport import Network, network
from memsheaf.errors import HubUnreachable, MemsheafError
from memsheaf.hub import scopes as hub_scopes
from memsheaf.scope import Scope

__all__ = ["network"]  # the fixture
LONG, SHORT = 60.0, 20.0
Hang = Callable[[str], ScopeOnMachine]


@pytest.fixture(params=["git", "postgres"])
def hang(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hang]:
    """A machine whose hub says nothing from now on, which would be waited for a minute."""
    place = request.getfixturevalue("bare" if request.param == "git" else "team")
    monkeypatch.setattr("memsheaf.hub.opening.SILENT_SECONDS", LONG)
    monkeypatch.setattr("memsheaf.hub.QUEUE_SECONDS", 0.5)
    monkeypatch.setattr("memsheaf.hub.REFUSE_SECONDS", 0.5)
    monkeypatch.setattr("memsheaf.hub.scopes.SILENT_SECONDS", 0.5)
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:

        def hang(offline: str) -> ScopeOnMachine:
            machine = ScopeOnMachine(tmp_path / "laptop", "user", place, offline=offline)
            machine.join()
            machine.write("Coffee", "They drink no coffee after four.")
            where = f"127.0.0.1:{silent.getsockname()[1]}/hub"
            url = f"postgresql://ana:x@{where}" if isinstance(place, Team) else f"http://{where}.git"
            hub_scopes.configure(Scope.parse("user"), machine.settings, str(machine.work), url=url)
            return machine

        yield hang


@pytest.mark.parametrize("offline", ["queue", "refuse"])
def test_a_change_waits_for_a_hub_that_hangs_only_for_a_moment(hang: Hang, offline: str) -> None:
    machine = hang(offline)
    began = time.monotonic()
    if offline == "queue":
        machine.write("Tea", "They drink green tea.")
    else:
        with pytest.raises(HubUnreachable, match="nothing was saved here"):
            machine.write("Tea", "They drink green tea.")
    assert "does not answer" in str(machine.json("hub", "status", "-s", "user", scoped=False)["scopes"])
    assert time.monotonic() - began < SHORT
    with machine.open() as sheaf:
        assert len(sheaf.list()) == (2 if offline == "queue" else 1)


def test_nor_for_another_process_that_still_waits_for_it(hang: Hang) -> None:
    machine = hang("queue")
    machine.write("Tea", "They drink green tea.")  # it is pending
    with machine.open() as sheaf:
        assert sheaf.own.replica
        sheaf.own.replica._change_state(lambda now: now._replace(down_at=0.0))

        def sync() -> None:
            with suppress(MemsheafError):
                machine.sync()

        thread = threading.Thread(target=sync, daemon=True)
        thread.start()
        while not (Path(sheaf.root) / ".history" / "lock-hub").exists():
            time.sleep(0.01)
        time.sleep(0.2)
        before = sheaf.own.replica.state().pending
        began = time.monotonic()
        sheaf.write("Milk", "About milk", "user", "They take milk with it, and no sugar.")
        assert time.monotonic() - began < SHORT
        assert thread.is_alive()
        assert len(sheaf.own.replica.state().pending) == len(before) + 1


def test_what_a_slow_remote_did_not_take_in_time_is_pushed_when_the_command_has_ended(
    network: Network, tmp_path: Path
) -> None:
    machine = ScopeOnMachine(tmp_path / "laptop", "user", network.bare)
    machine.environment |= {name: value for name, value in os.environ.items() if "SSH" in name}
    machine.join()
    address = f"ssh://host{network.bare}"
    hub_scopes.configure(Scope.parse("user"), machine.settings, str(tmp_path), url=address)
    network.plan(delay=1.0)
    line = [sys.executable, "-P", "-m", "memsheaf", "remember", "They drink green tea.", "--scope", "user"]
    done = subprocess.run(line, env=machine.environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "changes wait here" in done.stderr
    ends = time.monotonic() + 60
    while "green" not in git(network.bare, "log", "-p", "--all") and time.monotonic() < ends:
        time.sleep(0.2)
    assert "green" in git(network.bare, "log", "-p", "--all")
