"""Whatever dies, is cut, full or set back, on either side of a hub: what was acknowledged is there, on every machine.

A few strikes of each kind; `make hub` makes hundreds (`strikes.py`). Machines are real processes, PostgreSQL is a
server of its own with fsync on, and strace kills and fails machines at their system calls. Where it cannot trace,
these tests fail: not looking proves nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest

from hub import outages
from hub.crash_server import CrashServer
from hub.spaces import GitSpace, PostgresSpace
from hub.strikes import FULL
from hub.victims import Machines
from hub.works import Report, World, kill


@pytest.fixture(scope="module")
def server() -> Iterator[CrashServer]:
    # not below pytest's own folder: whoever starts pytest closes that to all others, and the server is another user
    with CrashServer(tempfile.mkdtemp(prefix="pg-crash-")) as server:
        yield server


@pytest.fixture
def place(tmp_path: object) -> str:
    return str(tmp_path)


def judge(*reports: Report, hits: int) -> None:
    print(*reports, sep="\n")
    assert [f"{report.kind}: {wrong}" for report in reports for wrong in report.wrong] == []
    assert sum(report.hit for report in reports) >= hits


def test_a_machine_killed_at_any_step_of_a_push_loses_nothing(server: CrashServer, place: str) -> None:
    with Machines() as machines:
        world = World(place, PostgresSpace(server))
        works = {"batch": 90, "push_edit": 250, "keep_both": 250, "erase": 300, "join": 250, "rejoin": 300}
        judge(*(kill(world, name, machines, every=every) for name, every in works.items()), hits=9)
        world.close()


def test_a_machine_killed_at_any_step_of_a_push_to_git_loses_nothing(place: str) -> None:
    with Machines() as machines:
        world = World(place, GitSpace(place))
        judge(kill(world, "update", machines, every=80), hits=2)
        world.close()


def test_a_machine_whose_disk_is_full_loses_nothing(server: CrashServer, place: str) -> None:
    with Machines() as machines:
        world = World(place, PostgresSpace(server))
        judge(*(kill(world, name, machines, every=8, fault=FULL) for name in ("batch", "push_edit")), hits=3)
        world.close()


def test_a_database_that_dies_while_machines_write_loses_nothing(server: CrashServer, place: str) -> None:
    for how in ("immediate", "all", "backend"):
        os.mkdir(os.path.join(place, how))
        judge(outages.strike_server(os.path.join(place, how), server, how, 1, clients=2), hits=1)


def test_a_connection_that_is_cut_in_the_middle_loses_nothing(server: CrashServer, place: str) -> None:
    network = outages.ProxyNetwork(server)
    with Machines() as machines:
        world = World(place, PostgresSpace(server))
        cuts = [outages.cut(world, network, name, moments=3, machines=machines) for name in ("batch", "keep_both")]
        judge(*cuts, outages.hamper(world, network, "update", machines), hits=10)
        world.close()
    network.close()


def test_a_connection_of_git_that_is_cut_in_the_middle_loses_nothing(place: str) -> None:
    network = outages.SshNetwork(place)
    with Machines() as machines:
        world = World(place, outages.SshSpace(place))
        judge(outages.cut(world, network, "update", moments=1, machines=machines), hits=1)
        world.close()
    network.close()


def test_a_hub_set_back_to_an_older_backup_is_noticed_and_loses_nothing(server: CrashServer, place: str) -> None:
    for name, restore in (
        ("postgres", lambda folder: outages.restore_postgres(folder, server)),
        ("git", outages.restore_git),
    ):
        os.mkdir(os.path.join(place, name))
        judge(restore(os.path.join(place, name)), hits=2)


def test_machines_that_write_at_once_lose_and_double_nothing(server: CrashServer, place: str) -> None:
    judge(outages.crowd(place, PostgresSpace(server), 3, 8, lambda: 0), hits=0)
