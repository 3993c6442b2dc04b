"""Git over a network that is cut, slow, silent or gone, and processes that are killed in the middle of a push."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hub.git_remotes import git, open_git
from hub.test_contract import commit, push, state
from hub.test_git import BRANCH, check_ids, start_writer
from memsheaf.errors import Changed, HubRefused, HubUnreachable
from memsheaf.hub.git import GitRemote

SSH_LIKE = Path(__file__).parent / "ssh_like.py"


class Network:
    """What stands for ssh, and what is wrong with it."""

    def __init__(self, bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bare = bare
        self._plan = bare.parent / "plan.json"
        self.plan()
        monkeypatch.setenv("SSH_LIKE", str(self._plan))
        monkeypatch.setenv("GIT_SSH_COMMAND", f"{sys.executable} -S {SSH_LIKE}")
        monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")

    def plan(self, **trouble: float) -> None:
        """Set what goes wrong from now on."""
        self._plan.write_text(json.dumps(trouble))

    def open(self, machine: str = "m1", timeout: float = 30.0) -> GitRemote:
        """A machine behind it."""
        return open_git(self.bare, machine, url=f"ssh://host{self.bare}", timeout=timeout)

    def passed(self) -> dict[str, int]:
        """The bytes that went through in the last connection."""
        lines = Path(f"{self._plan}.count").read_text().splitlines()
        found: dict[str, int] = json.loads(lines[-1])
        return found


@pytest.fixture
def network(bare: Path, monkeypatch: pytest.MonkeyPatch) -> Network:
    return Network(bare, monkeypatch)


@pytest.mark.parametrize("points", [4, pytest.param(60, marks=pytest.mark.long)], ids=["short", "long"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_a_push_that_is_cut_anywhere_is_made_once_when_it_is_pushed_again(
    network: Network, way: str, points: int
) -> None:
    hub = network.open()
    push(hub, "a.md", None, b"0")
    push(hub, "a.md", b"0", b"1")
    size, text, arrived = network.passed()[way], b"1", 0
    for number in range(points):
        made = commit(("a.md", text, str(number + 2).encode()))
        network.plan(**{way: size * (number + 1) // (points + 1)})
        with pytest.raises(HubUnreachable) as caught:
            hub.push(made)
        assert "\n" not in str(caught.value)
        network.plan()
        arrived += made.id in git(network.bare, "log", "-1", "--format=%B", BRANCH)
        if number % 2:  # another machine, or the same one that has lost its copy
            hub = network.open(f"m{number}")
        hub.push(made)
        text = str(number + 2).encode()
    ids = check_ids(network.bare, [])
    assert len(ids) == points + 2
    assert state(network.open("m2").pull()) == {"a.md": text}
    if points > 4 and way == "down":
        assert arrived, "some were cut between the decision and the answer"


def test_a_pull_that_is_cut_leaves_a_copy_that_goes_on(network: Network) -> None:
    push(network.open(), "a.md", None, os.urandom(20_000))
    push(network.open(), "b.md", None, b"b")
    hub = network.open("m2")
    for cut in (100, 1_000, 10_000):
        network.plan(down=cut)
        with pytest.raises(HubUnreachable):
            hub.pull()
    network.plan()
    assert set(state(hub.pull())) == {"a.md", "b.md"}


def test_a_remote_that_says_nothing_is_given_up_and_nothing_is_left_running(network: Network) -> None:
    push(network.open(), "a.md", None, b"1")
    network.plan(stall=1)
    impatient, hub = network.open(timeout=0.5), network.open()
    with pytest.raises(HubUnreachable, match="does not answer"):
        impatient.pull()
    with pytest.raises(HubUnreachable, match="does not answer"):
        push(impatient, "b.md", None, b"1")
    ends = time.monotonic() + 60
    while str(network.bare) in (running := running_programs()):
        assert time.monotonic() < ends, running
        time.sleep(0.05)
    network.plan(refuse=1)
    with pytest.raises(HubUnreachable, match="Connection refused"):
        hub.pull()
    network.plan()
    assert state(hub.pull()) == {"a.md": b"1"}


def running_programs() -> str:
    return subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.long
def test_a_slow_remote_that_sends_something_is_not_given_up(network: Network) -> None:
    for number in range(6):
        push(network.open(), f"{number}.md", None, os.urandom(900_000))
    network.plan(delay=0.1)
    hub, began = network.open("m2", timeout=3), time.monotonic()
    assert len(state(hub.pull())) == 6
    assert time.monotonic() - began > 6


def test_a_key_that_is_not_accepted_is_refused(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = network.bare.parent / "ssh"
    ssh.write_text("#!/bin/sh\necho 'git@host: Permission denied (publickey).' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    with pytest.raises(HubRefused, match=r"Permission denied \(publickey\)") as caught:
        network.open().pull()
    assert f"git ls-remote ssh://host{network.bare}" in caught.value.hint


def test_nobody_is_asked_for_a_password(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh = network.bare.parent / "ssh"
    ssh.write_text(
        "#!/bin/sh\n(true < /dev/tty) 2>/dev/null && echo 'asks at the terminal' >&2 && exit 255\n"
        'echo "asks $SSH_ASKPASS $SSH_ASKPASS_REQUIRE $GIT_ASKPASS ok" >&2\nexit 255\n'
    )
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(ssh))
    monkeypatch.setenv("SSH_ASKPASS", "xterm")
    monkeypatch.setenv("GIT_ASKPASS", "xterm")
    with pytest.raises(HubUnreachable, match="asks false never ok"):
        network.open().pull()


@pytest.mark.parametrize("strikes", [3, pytest.param(120, marks=pytest.mark.long)], ids=["short", "long"])
def test_what_was_acknowledged_survives_kills_at_any_moment(bare: Path, strikes: int) -> None:
    dice, acknowledged = random.Random(strikes), list[str]()
    for number in range(strikes):
        writer = start_writer(bare, f"p{number}", 50, "m")
        assert writer.stdout
        acknowledged += [writer.stdout.readline().strip()]  # it is at work
        time.sleep(dice.uniform(0, 0.15))
        if number % 3:
            os.kill(writer.pid, signal.SIGKILL)
        else:  # the git that it runs now
            children = Path(f"/proc/{writer.pid}/task/{writer.pid}/children").read_text().split()
            for child in children:
                os.kill(int(child), signal.SIGKILL)
            os.kill(writer.pid, signal.SIGKILL)
        acknowledged += writer.communicate()[0].split()
    ids = check_ids(bare, [one for one in acknowledged if len(one) == 12])
    print(f"{strikes} kills, {len(acknowledged)} acknowledged, {len(ids)} on the hub")
    hub = open_git(bare, "m")
    with pytest.raises(Changed):
        push(hub, "p0-0.md", None, b"other")
    push(hub, "p0-0.md", b"text", b"2")
