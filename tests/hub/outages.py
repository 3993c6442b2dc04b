"""What may happen to a hub and to the network before it: killed, cut, slow, full, set back to an older day."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from hub.crash_server import CrashServer
from hub.git_remotes import open_git
from hub.proxy import Proxy, Trouble
from hub.spaces import GitSpace, PostgresSpace, files_of, opened
from hub.stations import Station
from hub.victims import LOG, Machines, Order
from hub.works import WORKS, Report, World, examine
from memsheaf.errors import HubRestored, HubUnreachable
from memsheaf.hub import Hub, HubSettings
from memsheaf.store import ABSENT, Change

# many machines write at once, and the server is struck meanwhile


def crowd(
    place: str, space: PostgresSpace | GitSpace, clients: int, count: int, disturb: Callable[[], int]
) -> Report:
    """Let machines write at once until each was told `count` times that it is saved; then count."""
    report, began = Report(f"{clients} machines × {count} writes"), time.monotonic()
    with ExitStack() as stack:
        first = Station(os.path.join(place, "first"), space.settings(0), space.connect)
        stack.callback(first.close)
        first.sync()
        first.replica.commit([Change(LOG, b"begin\n", ABSENT)], by="agent")
        machines = stack.enter_context(Machines())
        orders = []
        for number in range(1, clients + 1):
            root = os.path.join(place, f"crowd{number}")
            settings = space.settings(number)
            copy = os.path.join(place, f"copy-{settings.machine}")
            machines.run(Order("sync", root, settings, copy))
            orders.append(Order("write", root, settings, copy, path=f"w{number}-", count=count))
        crowd = [machines.start(order) for order in orders]
        report.aimed = report.hit = disturb()
        outcomes = [machines.finish(child) for child in crowd]
        report.wrong += [f"a machine said {one.said[-3:]}" for one in outcomes if not one.acknowledged]
        marks = [mark for one in outcomes for mark in one.said if mark != "ok"]
        report.acknowledged = len(marks)
        first.sync()
        files = first.files()
        there = Counter(line for data in files.values() for line in data.decode().splitlines() if line != "begin")
        report.wrong += [f"lost: {mark}" for mark in marks if not there[mark]]
        report.wrong += [f"doubled: {mark}" for mark, times in there.items() if times > 1]
        report.wrong += [f"nobody's: {mark}" for mark in there.keys() - {*marks}]
        if len(marks) != clients * count:
            report.wrong.append(f"{len(marks)} acknowledged of {clients * count}")
        for number in range(1, clients + 1):
            station = Station(os.path.join(place, f"crowd{number}"), space.settings(number), space.connect)
            station.sync()
            if station.files() != files:
                report.wrong.append(f"machine {number} has other texts")
            report.wrong += station.wrong()
            station.close()
    report.seconds = time.monotonic() - began
    return report


def strike_server(place: str, server: CrashServer, how: str, times: int, clients: int = 4) -> Report:
    """Take the server down again and again while machines write."""

    def disturb() -> int:
        chance = random.Random(how)
        for _ in range(times):
            time.sleep(chance.uniform(0.0, 0.15))
            server.strike(how)
        return times

    report = crowd(place, PostgresSpace(server), clients, 3 * times, disturb)
    report.kind = f"server: {how}"
    return report


# the network before the hub


class Network:
    """A network to a hub: bytes that went through, and what is wrong with it."""

    def trouble(self, **what: float) -> None:
        """Let this be wrong from now on; nothing unless named."""

    def passed(self) -> tuple[int, int, int]:
        """Bytes that went to the hub and came from it, and connections that were cut, since the last time."""
        raise NotImplementedError

    def close(self) -> None:
        """Let all go the direct way again."""


class ProxyNetwork(Network):
    """A database behind a proxy."""

    def __init__(self, server: CrashServer) -> None:
        self.server = server
        self.proxy = Proxy(("127.0.0.1", server.port))
        server.through = self.proxy.port

    def close(self) -> None:
        self.server.through = 0
        self.proxy.close()

    def trouble(self, **what: float) -> None:
        self.proxy.trouble = Trouble(**what)  # type: ignore[arg-type]

    def passed(self) -> tuple[int, int, int]:
        passed, cuts = self.proxy.passed, self.proxy.cuts
        self.proxy.passed, self.proxy.cuts = {"up": 0, "down": 0}, 0
        return passed["up"], passed["down"], cuts


class SshNetwork(Network):
    """Git through `ssh_like.py`, for this process and its children."""

    def __init__(self, place: str) -> None:
        self.plan = os.path.join(place, "network.json")
        self.trouble()
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ssh_like.py")
        os.environ["SSH_LIKE"] = self.plan
        os.environ["GIT_SSH_COMMAND"] = f"{sys.executable} -ISE {script}"
        os.environ["GIT_SSH_VARIANT"] = "simple"

    def close(self) -> None:
        for name in ("SSH_LIKE", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT"):
            del os.environ[name]

    def trouble(self, **what: float) -> None:
        with open(f"{self.plan}.new", "w", encoding="utf-8") as file:
            json.dump(what, file)
        os.replace(f"{self.plan}.new", self.plan)

    def passed(self) -> tuple[int, int, int]:
        try:
            with open(f"{self.plan}.count", encoding="utf-8") as file:
                counts = [json.loads(line) for line in file]
            os.unlink(f"{self.plan}.count")
        except FileNotFoundError:
            return 0, 0, 0
        up, down = (max(one[way] for one in counts) for way in ("up", "down"))
        return up, down, sum(one["cuts"] for one in counts)


class SshSpace(GitSpace):
    """A bare repository behind `ssh_like.py`."""

    def settings(self, number: int) -> HubSettings:
        return super().settings(number)._replace(url=f"host:{self.bare}")

    def connect(self, settings: HubSettings) -> Hub:
        return open_git(self.bare, settings.machine, url=settings.url)


def cut(world: World, network: Network, name: str, *, moments: int, machines: Machines) -> Report:
    """Cut the connection after so many bytes of a piece of work, in either direction, spread over the exchange."""
    report, began = Report(f"cut {name}"), time.monotonic()
    world.tidy()
    work = WORKS[name](world)
    network.passed()
    well = machines.run(work.order)
    *total, _ = network.passed()
    report.wrong += [f"{name} without any fault: {one}" for one in examine(world, work, well)]
    for way, size in zip(("up", "down"), total, strict=True):
        for number in range(moments):
            world.tidy()
            work = WORKS[name](world)
            network.passed()
            network.trouble(**{way: size * number // moments})
            outcome = machines.run(work.order)
            network.trouble()
            report.aimed += 1
            report.hit += network.passed()[2] > 0
            report.acknowledged += outcome.acknowledged
            found = examine(world, work, outcome)
            report.wrong += [f"{name}, {way} after {size * number // moments} of {size}: {one}" for one in found]
    report.seconds = time.monotonic() - began
    return report


def hamper(world: World, network: Network, name: str, machines: Machines) -> Report:
    """Let the network be slow, silent, or refuse all: a change is saved, or whoever asked is told that it is not."""
    report, began = Report(f"slow, silent, gone {name}"), time.monotonic()
    for trouble, said in (
        ({"delay": 0.02}, "ok"),
        ({"stall": True}, "HubUnreachable"),
        ({"refuse": True}, "HubUnreachable"),
    ):
        world.tidy()
        work = WORKS[name](world)
        network.trouble(**trouble)
        outcome = machines.run(replace(work.order, timeout=1.0 if said != "ok" else 30.0))
        network.trouble()
        report.aimed += 1
        report.hit += 1
        report.acknowledged += outcome.acknowledged
        report.wrong += [f"{name}, {trouble}: {one}" for one in examine(world, work, outcome)]
        if outcome.said != (said,):
            report.wrong.append(f"{name}, {trouble}: it said {outcome.said}")
    report.seconds = time.monotonic() - began
    return report


# the disk of the hub


@contextmanager
def small_disk(folder: str, size: str) -> Iterator[Callable[[], None]]:
    """A file system of this size at a folder; gives a function that fills it, or makes room again."""
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", folder], check=True)
    filler = os.path.join(folder, "filler")

    def fill() -> None:
        if os.path.exists(filler):
            os.unlink(filler)
            return
        with open(filler, "wb", buffering=0) as file:
            for block in (1 << 16, 1 << 12):
                with suppress(OSError):
                    while True:
                        file.write(bytes(block))

    try:
        yield fill
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill_disk(world: World, fill: Callable[[], None], machines: Machines, begin: Callable[[], None]) -> Report:
    """Let the disk of the hub be full for a while: what it did not take is told, and nothing that it had is lost."""
    report, began = Report("the hub's disk full"), time.monotonic()
    for name in ("create", "update", "batch", "push_queued", "push_edit", "keep_both", "undo"):
        world.tidy()
        work = WORKS[name](world)
        large = "".join(f"{os.urandom(32).hex()}\n" for _ in range(6_000))  # more than is left anywhere
        order = work.order
        steps = work.steps
        if order.texts and (short := order.texts.get("a.md")):
            text = short + large
            order = replace(order, texts={**order.texts, "a.md": text})
            steps = [(old, text.encode() if new and text.startswith(new.decode()) else new) for old, new in steps]
        fill()
        outcome = machines.run(order)
        fill()
        begin()
        report.aimed += 1
        report.hit += not outcome.acknowledged
        report.acknowledged += outcome.acknowledged
        found = examine(world, replace(work, steps=steps), outcome)
        report.wrong += [f"{name}, {outcome.said}: {one}" for one in found]
    world.close()
    report.seconds = time.monotonic() - began
    return report


def fill_postgres(place: str, machines: Machines) -> Report:
    """The disk of a database."""
    with (
        small_disk(os.path.join(place, "small"), "160m") as fill,
        CrashServer(os.path.join(place, "small", "s")) as server,
    ):
        os.makedirs(os.path.join(place, "full"))
        world = World(os.path.join(place, "full"), PostgresSpace(server))
        return fill_disk(world, fill, machines, server.begin_if_down)


def fill_git(place: str, machines: Machines) -> Report:
    """The disk of a bare repository."""
    with small_disk(os.path.join(place, "small"), "4m") as fill:
        return fill_disk(World(place, GitSpace(os.path.join(place, "small"))), fill, machines, lambda: None)


# a backup of the hub


def restore(world: World, back_up: Callable[[], object], set_back: Callable[[], None]) -> Report:
    """Set the hub back: every machine is told, nothing is overwritten, and rejoining keeps all texts of both."""
    report, began = Report("the hub restored"), time.monotonic()
    world.tidy()
    back_up()
    old = world.other.files()
    world.save(world.other, {"a.md": world.ledger.text("a.md"), "later/one.md": world.ledger.text("later/one.md")})
    world.save(world.other, {"sub/c.md": None})
    world.victim.sync()
    world.save(world.victim, {"b.md": world.ledger.text("b.md")})
    edited = world.ledger.text("later/one.md", "person")
    world.ledger.accept(world.victim.files()["later/one.md"], edited)
    world.victim.edit("later/one.md", edited)
    world.other.sync()
    set_back()
    for station in (world.victim, world.other):
        before = station.files()
        report.aimed += 1
        for _ in range(2):
            try:
                station.sync()
                report.wrong.append("a machine was not told that the hub is older")
            except HubRestored:
                report.hit += 1
            except HubUnreachable:  # the connection from before
                continue
        if station.files() != before:
            report.wrong.append("files were changed")
    with opened(world.space) as hub:
        if files_of(hub) != old:
            report.wrong.append("what was restored was overwritten")
    world.ledger.doubt(*(text for text in old.values() if text in world.ledger.gone))  # it has what was removed since
    for station in (world.victim, world.other):
        station.look()
        world.ledger.doubt(*(world.ledger.gone & set(station.files().values())))  # both sides are kept, as at first
        station.replica.rejoin()
    report.wrong += world.judge([], is_sure=True)
    world.close()
    report.seconds = time.monotonic() - began
    return report


def restore_postgres(place: str, server: CrashServer) -> Report:
    """A copy of the files of the database."""
    world = World(place, PostgresSpace(server))
    name = f"backup{os.path.basename(place)}"
    return restore(world, lambda: server.back_up(name), lambda: server.restore(name))


def restore_git(place: str) -> Report:
    """A copy of the bare repository."""
    space = GitSpace(place)
    copy = f"{space.bare}.backup"

    def set_back() -> None:
        shutil.rmtree(space.bare)
        shutil.copytree(copy, space.bare)

    return restore(World(place, space), lambda: shutil.copytree(space.bare, copy), set_back)
