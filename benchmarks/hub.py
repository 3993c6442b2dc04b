"""Measure what a hub costs, on PostgreSQL and on git, against the barest thing that does the same, in one run.

python -m benchmarks.hub                        # 10,000 memories, 16 clients; about five minutes
python -m benchmarks.hub --size 100 --times 5 --clients 2 --writes 5
python -m benchmarks.hub --out benchmarks/results/hub.md
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psycopg

from benchmarks.hub_clients import (
    HubMachine,
    Round,
    commit_of,
    insert_bare,
    open_replica,
    postgres,
    push,
    write_together,
)
from benchmarks.machine import IN_MEMORY, facts
from benchmarks.memories import TEAM_KINDS, fill, query
from memsheaf.config import Settings
from memsheaf.hub import HubSettings
from memsheaf.hub.opening import open_hub
from memsheaf.hub.scopes import attach
from memsheaf.scope import Scope
from memsheaf.sheaf import Sheaf
from memsheaf.store import ABSENT, Change, Commit
from memsheaf.store.folder import FolderStore
from memsheaf.transfer import take_in

SCOPE = Scope.parse("team/bench")
GIT = ("git", "-c", "user.name=Bench", "-c", "user.email=bench@example.com")


class Effort(NamedTuple):
    """How much is measured."""

    size: int = 10_000
    times: int = 200
    clients: int = 16
    writes: int = 250
    rounds: int = 3
    notices: int = 15


@dataclass
class Row:
    """One line of the table: what is measured, what it is held against, and the ratio or figure that was wanted."""

    name: str
    ours: str
    beside: str = ""
    ratio: str = ""
    wanted: str = ""


@dataclass
class Cases:
    """Things to do in turn, and the wall milliseconds that each took."""

    wall: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)

    def time(self, name: str, work: Callable[[], object]) -> None:
        """Do it once, on the clock."""
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        self.cpu.setdefault(name, []).append((time.process_time() - cpu) * 1000)
        self.wall.setdefault(name, []).append((time.perf_counter() - wall) * 1000)

    def row(self, title: str, ours: str, beside: str, wanted: str = "", unit: str = "ms") -> Row:
        """Medians, without the first tenth, which warms up."""
        mine, other = (self._median(name) for name in (ours, beside))
        scale = 1000 if unit == "s" else 1
        return Row(
            title,
            f"{mine / scale:.2f} {unit}",
            f"{beside}: {other / scale:.2f} {unit}",
            f"{mine / other:.2f}",
            wanted,
        )

    def _median(self, name: str) -> float:
        values = self.wall[name]
        return median(values[len(values) // 10 :])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub", description="What a hub costs.")
    for name, default in Effort()._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder", help="a folder on the disk to measure on (default: where temporary files are)")
    parser.add_argument("--out", help="a file to write the table to")
    given = vars(parser.parse_args(arguments))
    out, effort = given.pop("out"), Effort(**{name: given[name] for name in Effort._fields})
    work = tempfile.mkdtemp(prefix="hub-", dir=given["folder"])
    try:
        text = measure_hubs(work, effort)
    finally:
        shutil.rmtree(work)
    print(text)
    if out:
        with open(out, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


def measure_hubs(work: str, effort: Effort) -> str:
    """Both hubs, and the table."""
    machine = facts(work)
    machine["git"] = subprocess.check_output(["git", "version"], text=True).split()[2]
    source = os.path.join(work, "source")
    fill(source, effort.size, TEAM_KINDS)
    for path in Path(source).rglob("*.md"):  # a team takes nothing about one person
        path.write_bytes(path.read_bytes().replace(b"type: user\n", b"type: project\n"))
    with postgres(os.path.join(work, "pg")) as server, psycopg.connect(server.url()) as connection:
        machine["postgresql"] = str(connection.info.server_version // 10000)
        from hub.postgres_server import Team

        team, fresh = Team(server, "bench"), Team(server, "first")
        joining = [fresh.settings(member, "m") for member in ("ana", "ben")]
        database = list(measure_postgres(work, team.settings("ana", "m"), joining, source, effort))
    git = list(measure_git(work, source, effort))
    lines = ["# What a hub costs", ""]
    lines += [
        "`python -m benchmarks.hub`: PostgreSQL (flushes on, over a socket) and git (a bare repository over `file://`)",
        "on the same machine, each beside the barest thing that does the same, in turn; medians of wall time.",
        "",
        "; ".join(f"{key} {value}" for key, value in machine.items()),
    ]
    if machine["file system"] in IN_MEMORY:
        lines += ["", "The folder is in memory, where a flush costs nothing: these times mean nothing."]
    for title, rows in (("PostgreSQL", database), ("git", git)):
        lines += ["", f"## {title}", "", "| | ours | beside | ratio | wanted |", "|---|--:|--:|--:|--:|"]
        lines += [f"| {row.name} | {row.ours} | {row.beside} | {row.ratio} | {row.wanted} |" for row in rows]
    return "\n".join(lines) + "\n"


# PostgreSQL


def measure_postgres(
    work: str, settings: HubSettings, joining: Sequence[HubSettings], source: str, effort: Effort
) -> Iterator[Row]:
    """Every promise that was made for a database; `joining` are two members of an empty team."""
    machine = HubMachine(settings, os.path.join(work, "postgres"))
    cases = Cases()
    with _bare(settings.url) as (insert_at_once, select):
        (insert, close), (push_one, close_hub) = insert_bare(settings), push(settings, "")
        hub = open_hub(settings, folder="")
        replica = open_replica(settings._replace(machine="r"), machine.folder)
        folder = FolderStore(os.path.join(work, "folder"))
        for number in range(effort.times):
            commits = [commit_of(kind * 1_000_000 + number) for kind in range(1, 5)]
            cases.time("INSERT, COMMIT", partial(insert, commits[0]))
            cases.time("INSERT in autocommit", partial(insert_at_once, commits[1]))
            cases.time("push", partial(push_one, commits[2]))
            cases.time("commit", partial(_save, replica, commits[3]))
            cases.time("commit in a folder", partial(_save, folder, commits[3]))
        replica.sync()
        cursor = hub.pull().cursor
        for _ in range(effort.times):
            cases.time("SELECT 1", select)
            cases.time("pull", lambda: hub.pull(cursor))
            cases.time("sync", replica.sync)
        for done in (close, close_hub, hub.close, replica.close):
            done()
    yield cases.row("push of one memory", "push", "INSERT, COMMIT", "at most 4")
    yield cases.row("the same", "push", "INSERT in autocommit")
    yield cases.row("a whole commit on a replica", "commit", "INSERT, COMMIT")
    yield cases.row("the same", "commit", "commit in a folder")
    yield cases.row("nothing to pull", "pull", "SELECT 1", "at most 2")
    yield cases.row("a sync that brings nothing", "sync", "SELECT 1")
    yield from _writers(machine, settings, effort)
    small = open_hub(joining[0], folder="")
    for _ in range(effort.times):
        cases.time("first pull", small.pull)
    small.close()
    yield cases.row("first pull of an empty namespace, beside this large one", "first pull", "SELECT 1")
    yield _notice(machine, settings, effort, wanted="at most 2 s")
    yield from _first_replica(work, "first-postgres", joining, source, effort)


@contextmanager
def _bare(url: str) -> Iterator[tuple[Callable[[Commit], object], Callable[[], object]]]:
    """An INSERT and a SELECT 1, each one statement in autocommit."""
    with psycopg.connect(url, autocommit=True) as connection:

        def insert(commit: Commit) -> object:
            step = commit.revisions[0]
            return connection.execute("INSERT INTO bare (path, data) VALUES (%s, %s)", [step.path, step.new])

        yield insert, lambda: connection.execute("SELECT 1").fetchall()


def _writers(machine: HubMachine, settings: HubSettings, effort: Effort) -> Iterator[Row]:
    """Many processes write to one namespace: what is lost, what is there twice, and how fast it goes."""
    machines = [settings._replace(machine=f"w{number}") for number in range(effort.clients)]
    rounds: dict[str, list[Round]] = {"insert": [], "push": [], "commit": []}
    hub = open_hub(settings, folder="")
    cursor, seen = hub.pull().cursor, list[str]()

    def watch() -> None:
        nonlocal cursor
        pulled = hub.pull(cursor)
        cursor = pulled.cursor
        seen.extend(one.commit.id for one in pulled.commits)

    first = 10_000_000
    for _ in range(effort.rounds):
        for kind in rounds:
            done = write_together(kind, machines, machine.folder, first, effort.writes, watch)
            rounds[kind].append(done)
            first += effort.clients * effort.writes
    watch()
    ids = [name for kind in ("push", "commit") for done in rounds[kind] for name in done.ids]
    hub.close()
    lost, doubled = len({*ids} - {*seen}), len(seen) - len({*seen})
    rates = {kind: median(one.rate for one in done) for kind, done in rounds.items()}
    who = f"{effort.clients} processes × {effort.writes} writes"
    beside = f"INSERT, COMMIT: {rates['insert']:,.0f} /s"
    yield Row(
        f"{who}, pushes",
        f"{rates['push']:,.0f} /s",
        beside,
        f"{rates['push'] / rates['insert']:.2f}",
        "at least 0.33",
    )
    yield Row(
        f"{who}, whole commits on replicas", f"{rates['commit']:,.0f} /s", beside,
        f"{rates['commit'] / rates['insert']:.2f}",
    )  # fmt: skip
    yield Row(f"lost or doubled, of {len(ids):,} acknowledged", f"{lost} lost, {doubled} doubled", "", "", "0")


# git


def measure_git(work: str, source: str, effort: Effort) -> Iterator[Row]:
    """The same for git, as far as it makes sense; it is a hub for one person's machines, so with fewer writes."""
    bare, clone = os.path.join(work, "remote.git"), os.path.join(work, "clone")
    _git("init", "-q", "--bare", bare)
    _git("clone", "-q", bare, clone)
    settings = HubSettings(f"file://{bare}", "memsheaf/team/bench", "m", "m")
    machine = HubMachine(settings, os.path.join(work, "git"))
    cases = Cases()
    push_one, close = push(settings, os.path.join(machine.folder, "push"))
    hub = open_hub(settings, folder=os.path.join(machine.folder, "pull"))
    replica = open_replica(settings._replace(machine="r"), machine.folder)

    def commit_and_push(commit: Commit) -> None:
        step = commit.revisions[0]
        with open(os.path.join(clone, step.path), "wb") as file:
            file.write(step.new or b"")
        _git("-C", clone, "add", step.path)
        _git("-C", clone, "commit", "-q", "-m", commit.why)
        _git("-C", clone, "push", "-q", "origin", "HEAD:refs/heads/main")

    for number in range(max(3, effort.times // 5)):
        commits = [commit_of(kind * 1_000_000 + number) for kind in range(1, 4)]
        cases.time("git add, commit, push", partial(commit_and_push, commits[0]))
        cases.time("push", partial(push_one, commits[1]))
        cases.time("commit", partial(_save, replica, commits[2]))
    replica.sync()
    cursor = hub.pull().cursor
    for _ in range(max(3, effort.times // 5)):
        cases.time("git ls-remote", lambda: _git("-C", clone, "ls-remote", "-q", "origin", "HEAD"))
        cases.time("pull", lambda: hub.pull(cursor))
    close()
    replica.close()
    yield cases.row("push of one memory", "push", "git add, commit, push", "at most 4")
    yield cases.row("a whole commit on a replica", "commit", "git add, commit, push")
    yield cases.row("nothing to pull", "pull", "git ls-remote")
    few = effort._replace(clients=min(4, effort.clients), writes=min(25, effort.writes))
    machines = [settings._replace(machine=f"w{number}") for number in range(few.clients)]
    done = write_together("push", machines, machine.folder, 10_000_000, few.writes, lambda: None)
    pulled = hub.pull(cursor)
    seen = [one.commit.id for one in pulled.commits]
    hub.close()
    yield Row(f"{few.clients} processes × {few.writes} pushes", f"{done.rate:,.1f} /s")
    lost, doubled = len({*done.ids} - {*seen}), len(seen) - len({*seen})
    yield Row(f"lost or doubled, of {len(done.ids):,} acknowledged", f"{lost} lost, {doubled} doubled", "", "", "0")
    yield _notice(machine, settings, effort)
    fresh = settings._replace(namespace="memsheaf/team/first")
    yield from _first_replica(work, "first-git", [fresh, fresh], source, effort)


def _git(*words: str) -> None:
    subprocess.run([*GIT, *words], check=True, capture_output=True)


# both


def _save(store: FolderStore, commit: Commit) -> None:
    step = commit.revisions[0]
    store.commit([Change(step.path, step.new, ABSENT)], by="user", why=commit.why)


def _notice(machine: HubMachine, settings: HubSettings, effort: Effort, wanted: str = "") -> Row:
    """How long after a commit an idle replica that listens has the file."""
    writer = open_replica(settings._replace(machine="writes"), machine.folder)
    reader = open_replica(settings._replace(machine="listens"), machine.folder)
    is_over = threading.Event()

    def listen() -> None:
        while not is_over.is_set():
            if reader.hub.wait(2.0):
                reader.sync()

    listener = threading.Thread(target=listen)
    listener.start()
    waited = []
    try:
        for number in range(effort.notices):
            time.sleep(0.7 + number % 3 * 0.6)  # it is idle, and no beat is kept with its looks
            commit = commit_of(90_000_000 + number)
            path = os.path.join(reader.root, commit.revisions[0].path)
            _save(writer, commit)
            began = time.perf_counter()
            while not os.path.exists(path) and time.perf_counter() - began < 60:
                time.sleep(0.005)
            waited.append(time.perf_counter() - began)
    finally:
        is_over.set()
        listener.join()
        writer.close()
        reader.close()
    shown = f"{median(waited):.2f} s, at most {max(waited):.2f} s"
    return Row("from a commit until an idle listening replica has the file", shown, "", "", wanted)


def _first_replica(
    work: str, name: str, members: Sequence[HubSettings], source: str, effort: Effort
) -> Iterator[Row]:
    """A member brings their memories, another one joins; beside it an import of the same; recall on both."""
    homes = {who: _home(os.path.join(work, name, who)) for who in ("first", "second", "folder")}
    cases = Cases()
    with Sheaf.open(SCOPE, settings=homes["folder"]) as sheaf:
        cases.time("import", lambda: take_in(sheaf.own, source))
    with Sheaf.open(SCOPE, settings=homes["first"]) as sheaf:
        refused = take_in(sheaf.own, source).refused
    assert not refused, refused
    for what, home, settings in zip(("add", "join"), ("first", "second"), members, strict=True):
        begin = partial(attach, SCOPE, settings.url, homes[home], work, namespace=settings.namespace)
        cases.time(what, begin)
    with (
        Sheaf.open(SCOPE, settings=homes["second"]) as joined,
        Sheaf.open(SCOPE, settings=homes["folder"]) as plain,
    ):
        assert len(joined.list()) == len(plain.list()) == effort.size
        assert all(row.trust == "shared" for row in joined.list())
        for number in range(effort.times):
            message = query(number * 7 % effort.size)
            for what, sheaf in (("recall", joined), ("recall in a folder", plain)):
                cases.time(what, partial(sheaf.recall, message))
    yield cases.row(f"first replica of {effort.size:,} memories", "join", "import", "at most 3", unit="s")
    yield cases.row(f"a folder of {effort.size:,} memories is given the hub", "add", "import", unit="s")
    title = f"recall among {effort.size:,} that another member saved"
    yield cases.row(title, "recall", "recall in a folder", "equal")


def _home(folder: str) -> Settings:
    home, cache, state = (os.path.join(folder, part) for part in ("home", "cache", "state"))
    return Settings(home, cache, state=state, embedder="none")


if __name__ == "__main__":
    sys.exit(main())
