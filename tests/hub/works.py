"""What one machine of a hub scope does while it is struck, and whether anything was lost by it.

After each fault the machine that was struck, one that was not and a fresh one sync: all have the same texts as the
hub, each that was acknowledged or that a person saved among them, once.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from hub.ledger import Ledger
from hub.spaces import Space, files_of
from hub.stations import Station
from hub.victims import Machines, Order, Outcome
from memsheaf.store import Change, version_of

CALL = re.compile(r"^(?:\d+ +)?(\w+)\(", re.MULTILINE)
TRACED = "trace=%file,%desc,%network,%process,sync"
NOT_AIMED_AT = {"mmap", "munmap", "execve", "exit", "exit_group", "getcwd", "getpid", "wait4", "waitid"}
WRITING = {
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "mkdirat",
    "mkdir",
    "ftruncate",
}
PATHS = ("a.md", "b.md", "sub/c.md")


@dataclass(slots=True)
class Report:
    """What came of one kind of fault."""

    kind: str
    aimed: int = 0
    hit: int = 0
    acknowledged: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.kind:28} aimed {self.aimed:4}  hit {self.hit:4}  acknowledged {self.acknowledged:4}  "
            f"wrong {len(self.wrong):3}  {self.seconds:6.1f} s"
        )


class World:
    """A hub, the machine that is struck, one that is not, and what must be found."""

    def __init__(self, place: str, space: Space) -> None:
        self.place = place
        self.space = space
        self.ledger = Ledger()
        self.numbers = iter(range(1 << 30))
        self.running: set[int] | None = None
        self.victim, self.other = self.join(0), self.join(1)
        for path in PATHS:
            self.save(self.other, {path: self.ledger.text(path)})
        self.victim.sync()

    def join(self, number: int, name: str = "") -> Station:
        """A machine; with a name, one whose folder is there already."""
        root = os.path.join(self.place, name or f"m{number}")
        station = Station(root, self.space.settings(number), self.space.connect)
        station.sync()
        return station

    def close(self) -> None:
        for station in (self.victim, self.other):
            station.close()

    def save(self, station: Station, texts: dict[str, bytes | None]) -> None:
        """Commit, without any fault."""
        files = station.files()
        changes = [Change(path, data, version_of(files.get(path))) for path, data in texts.items()]
        station.replica.commit(changes, by="agent")
        for path, data in texts.items():
            self.ledger.accept(files.get(path), data)

    def order(self, do: str, **more: object) -> Order:
        """What the struck machine is told to do."""
        station, self.running = self.victim, self.space.running()
        copy = os.path.join(self.place, f"copy-{station.settings.machine}")
        return Order(do, station.root, station.settings, copy, **more)  # type: ignore[arg-type]

    def tidy(self) -> None:
        """Leave the few memories that every piece of work begins with."""
        self.other.sync()
        files = self.other.files()
        wanted: dict[str, bytes | None] = {path: None for path in files if path not in PATHS}
        wanted |= {path: self.ledger.text(path) for path in PATHS if path not in files}
        if wanted:
            self.save(self.other, wanted)
        self.victim.sync()

    def settle(self) -> tuple[dict[str, bytes], list[str]]:
        """Reopen and sync all, and say what is there and where they differ."""
        deadline = time.monotonic() + 60
        while self.running is not None and self.space.running() - self.running:
            assert time.monotonic() < deadline, "the hub still works for a machine that is gone"
            time.sleep(0.01)
        self.running = None
        self.victim.open("refuse")
        self.victim.line.is_down = False
        for station in (self.victim, self.other, self.victim):
            station.sync()
        fresh = self.join(2, f"fresh{next(self.numbers)}")
        files, wrong = self.other.files(), []
        for name, station in (("the struck machine", self.victim), ("a fresh machine", fresh)):
            if station.files() != files:
                wrong.append(f"{name} has {sorted(station.files())}, the other {sorted(files)}")
            wrong += [f"{name}: {one}" for one in station.wrong()]
            if pending := station.replica.state().pending:
                wrong.append(f"{name} still waits for the hub with {pending}")
        if files_of(fresh.line.hub) != files:
            wrong.append("the hub has other texts than the machines")
        told = Counter(one.commit.id for one in fresh.line.hub.log(10_000))
        wrong += [f"the hub has commit {name} {times} times" for name, times in told.items() if times > 1]
        fresh.close()
        shutil.rmtree(fresh.root)
        shutil.rmtree(os.path.join(self.place, f"copy-{fresh.settings.machine}"), ignore_errors=True)
        return files, wrong

    def judge(self, steps: list[tuple[bytes | None, bytes | None]], *, is_sure: bool) -> list[str]:
        """Settle, and say what is wrong, after a change from each old to each new text that is done whole or not."""
        files, wrong = self.settle()
        found = set(files.values())
        is_done = all(new in found if new is not None else old not in found for old, new in steps)
        for old, new in steps:
            if is_sure or is_done:
                self.ledger.accept(old, new)
            else:
                self.ledger.refuse(new)
        wrong += self.ledger.wrong(files)
        self.ledger.settle(files)
        return wrong


# what the struck machine does: makes it ready, and gives the order and the steps from old texts to new ones

Steps = list[tuple[bytes | None, bytes | None]]


@dataclass(frozen=True, slots=True)
class Work:
    """An order; a change that is done whole or not at all, or that has to be done in the end because a person saved
    it (`is_sure`); and what must not be found anywhere once it is done."""

    order: Order
    steps: Steps
    is_sure: bool = False
    erased: bytes = b""


def _commit(world: World, texts: dict[str, bytes | None], **more: object) -> Work:
    files = world.victim.files()
    shown = {path: None if data is None else data.decode() for path, data in texts.items()}
    return Work(world.order("commit", texts=shown, **more), [(files.get(path), data) for path, data in texts.items()])


def create(world: World) -> Work:
    return _commit(world, {"new/one.md": world.ledger.text("new/one.md")})


def update(world: World) -> Work:
    return _commit(world, {"a.md": world.ledger.text("a.md")})


def remove(world: World) -> Work:
    return _commit(world, {"sub/c.md": None})


def batch(world: World) -> Work:
    return _commit(
        world, {"a.md": world.ledger.text("a.md"), "sub/c.md": None, "new/two.md": world.ledger.text("new/two.md")}
    )


def queue(world: World) -> Work:
    """A change while the hub does not answer, kept here."""
    world.victim.open("queue")
    return _commit(world, {"a.md": world.ledger.text("a.md"), "sub/c.md": None}, is_down=True)


def push_queued(world: World) -> Work:
    """What was queued goes to the hub."""
    station, text = world.victim, world.ledger.text("a.md")
    station.open("queue")
    station.line.is_down = True
    world.save(station, {"a.md": text, "sub/c.md": None})
    return Work(world.order("sync"), [])


def push_edit(world: World) -> Work:
    """What a person saved goes to the hub."""
    station, text = world.victim, world.ledger.text("a.md", "person")
    old = station.files()
    station.edit("a.md", text)
    station.edit("sub/c.md", None)
    return Work(world.order("sync"), [(old["a.md"], text), (old["sub/c.md"], None)], is_sure=True)


def keep_both(world: World) -> Work:
    """A person saved what another machine changed meanwhile."""
    work = push_edit(world)
    world.save(world.other, {"a.md": world.ledger.text("a.md", "other")})
    return work


def pull(world: World) -> Work:
    texts = {"a.md": world.ledger.text("a.md"), "sub/c.md": None, "new/one.md": world.ledger.text("new/one.md")}
    for path, text in texts.items():
        world.save(world.other, {path: text})
    return Work(world.order("sync"), [])


def undo(world: World) -> Work:
    old, new = world.victim.files()["a.md"], world.ledger.text("a.md")
    world.save(world.victim, {"a.md": new})
    return Work(world.order("undo"), [(new, old)])


def erase(world: World) -> Work:
    text = world.ledger.text("secret.md")
    world.save(world.victim, {"secret.md": text})
    world.other.sync()
    return Work(world.order("erase", path="secret.md"), [(text, None)], erased=text)


def join(world: World) -> Work:
    """A folder that has memories of its own meets the hub for the first time."""
    world.victim.close()
    texts = [world.ledger.text(path, "person") for path in ("a.md", "own.md")]
    root = os.path.join(world.place, f"joins{next(world.numbers)}")
    world.victim = Station(root, world.space.settings(0), world.space.connect)
    for path, text in zip(("a.md", "own.md"), texts, strict=True):
        world.victim.edit(path, text)
    return Work(world.order("sync"), [(None, text) for text in texts], is_sure=True)


def rejoin(world: World) -> Work:
    text = world.ledger.text("a.md", "person")
    old = world.victim.files()["a.md"]
    world.victim.edit("a.md", text)
    return Work(world.order("rejoin"), [(old, text)], is_sure=True)


WORKS: dict[str, Callable[[World], Work]] = {
    one.__name__: one
    for one in (
        create,
        update,
        remove,
        batch,
        queue,
        push_queued,
        push_edit,
        keep_both,
        pull,
        undo,
        erase,
        join,
        rejoin,
    )
}


def examine(world: World, work: Work, outcome: Outcome) -> Iterator[str]:
    """Say all that is wrong after a fault."""
    known = {"ok", "StoreFailed", "HubUnreachable", "HubRefused", "Busy", "Changed"}
    if not outcome.killed and not set(outcome.said) <= known:
        yield "it said " + " / ".join(outcome.said[-3:])
    yield from world.judge(work.steps, is_sure=work.is_sure or outcome.acknowledged)
    if work.erased:
        if work.order.path in world.victim.files():
            world.victim.replica.erase(work.order.path, by="user")
            world.ledger.forget([work.erased])
        world.settle()
        for station in (world.victim, world.other):
            yield from (f"the erased text is still in {place}" for place in _places(station.root, work.erased))


def _places(root: str, text: bytes) -> Iterator[str]:
    needle = text.rsplit(b"---\n", 1)[-1].strip()
    for folder, _, names in os.walk(root):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                if needle in file.read():
                    yield name


def kill(world: World, name: str, machines: Machines, *, every: int = 1, fault: str = "signal=KILL") -> Report:
    """Kill the machine at every system call of a piece of work, or let the disk fail."""
    report, began = Report(f"{'kill' if 'KILL' in fault else 'full'} {name}"), time.monotonic()
    log = os.path.join(world.place, "trace")
    world.tidy()
    work = WORKS[name](world)
    well = machines.trace(replace(work.order, stops=True), log, "-e", TRACED)
    report.wrong += [f"{name} without any fault: {one}" for one in examine(world, work, well)]
    if not well.acknowledged:
        report.wrong.append(f"{name} goes wrong without any fault: {well.said}")
    calls = Counter(CALL.findall(well.trace))
    aims = [
        (call, number)
        for call, count in sorted(calls.items())
        if (call not in NOT_AIMED_AT if "KILL" in fault else call in WRITING)
        for number in range(1, count + 1)
    ]
    for call, number in aims[len(name) % every :: every]:
        world.tidy()
        work = WORKS[name](world)
        options = ("-e", TRACED, "-e", f"inject={call}:{fault}:when={number}")
        outcome = machines.trace(replace(work.order, stops=True), log, *options)
        report.aimed += 1
        report.hit += outcome.killed or "(INJECTED)" in outcome.trace
        report.acknowledged += outcome.acknowledged
        report.wrong += [f"{name}, {call} {number}: {one}" for one in examine(world, work, outcome)]
    report.seconds = time.monotonic() - began
    return report
