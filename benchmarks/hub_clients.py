"""Real hubs to measure, and client processes that write to one at the same time.

`python -m benchmarks.hub_clients` is a client: it reads what to do as a line of JSON, says that it is ready, waits
for a line, writes, and prints which commits were acknowledged.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from benchmarks.memories import memory
from memsheaf.hub import Hub, HubSettings
from memsheaf.hub.opening import open_hub
from memsheaf.hub.replica import Replica
from memsheaf.store import ABSENT, Change, Commit, Revision, version_of

if TYPE_CHECKING:
    from hub.postgres_server import Server

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WHEN = "2026-11-01T00:00:00Z"
BARE = "INSERT INTO bare (path, data) VALUES (%s, %s)"


@contextmanager
def postgres(folder: str) -> Iterator[Server]:
    """A PostgreSQL server that flushes what it commits, with the hub's schema and a bare table."""
    sys.path.append(os.path.join(ROOT, "tests"))
    from hub.postgres_server import Server

    server = Server(folder, quick=False)
    server.create()
    server.start()
    try:
        server.create_hub()
        create_bare(server)
        yield server
    finally:
        server.stop("immediate")


def create_bare(server: Server) -> None:
    """A table with one key, and no policies."""
    with psycopg.connect(server.url(database="hub"), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bare (path text PRIMARY KEY, data bytea NOT NULL)")
        connection.execute("GRANT ALL ON bare TO PUBLIC")


def commit_of(number: int) -> Commit:
    """The commit that saves the made-up memory of this number."""
    made = memory(number)
    data = made.text.encode()
    step = Revision(made.file, ABSENT, version_of(data), None, data)
    return Commit(os.urandom(6).hex(), WHEN, "user", "remember", (step,))


class HubMachine(NamedTuple):
    """A hub, and the folder in which machines that use it have theirs."""

    settings: HubSettings
    folder: str


def open_replica(settings: HubSettings, folder: str) -> Replica:
    """The replica of a machine, in step with the hub."""
    place = os.path.join(folder, settings.machine)
    replica = Replica(os.path.join(place, "files"), settings, open_hub(settings, folder=os.path.join(place, "git")))
    replica.sync()
    return replica


class Round(NamedTuple):
    """What several clients did at the same time: writes a second, and the ids of what was acknowledged."""

    rate: float
    ids: tuple[str, ...]


def write_together(
    kind: str, machines: Sequence[HubSettings], folder: str, first: int, writes: int, watch: Callable[[], None]
) -> Round:
    """Let one process a machine make so many writes each; `watch` is called over and over until they are done."""
    clients = []
    for number, settings in enumerate(machines):
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.hub_clients"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin
        task = {
            "kind": kind, "settings": settings._asdict(), "folder": folder,
            "first": first + number * writes, "writes": writes,
        }  # fmt: skip
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        clients.append(process)
    for process in clients:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    began = time.time()
    for process in clients:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    while any(process.poll() is None for process in clients):
        watch()
        time.sleep(0.02)
    done = [json.loads(process.communicate()[0]) for process in clients]
    ids = tuple(name for one in done for name in one["ids"])
    return Round(len(ids) / (max(one["ended"] for one in done) - began), ids)


def main() -> None:
    """Be a client."""
    task = json.loads(sys.stdin.readline())
    settings, numbers = HubSettings(**task["settings"]), range(task["first"], task["first"] + task["writes"])
    write, close = _WRITERS[task["kind"]](settings, task["folder"])
    commits = [commit_of(number) for number in numbers]
    print("ready", flush=True)
    sys.stdin.readline()
    ids = [write(one) for one in commits]
    ended = time.time()
    close()
    print(json.dumps({"ids": ids, "ended": ended}))


Writer = tuple[Callable[[Commit], str], Callable[[], Any]]


def insert_bare(settings: HubSettings, folder: str = "") -> Writer:
    """The yardstick: INSERT, COMMIT."""
    connection = psycopg.connect(settings.url)

    def write(commit: Commit) -> str:
        step = commit.revisions[0]
        connection.execute(BARE, [step.path, step.new])
        connection.commit()
        return commit.id

    return write, connection.close


def push(settings: HubSettings, folder: str) -> Writer:
    """A push of a commit."""
    hub: Hub = open_hub(settings, folder=os.path.join(folder, settings.machine, "pushes"))
    hub.pull("")

    def write(commit: Commit) -> str:
        hub.push(commit)
        return commit.id

    return write, hub.close


def commit(settings: HubSettings, folder: str) -> Writer:
    """A commit on a replica, which pushes it and places the file."""
    replica = open_replica(settings, folder)

    def write(commit: Commit) -> str:
        step = commit.revisions[0]
        return replica.commit([Change(step.path, step.new, ABSENT)], by="user", why=commit.why).id

    return write, replica.close


_WRITERS: dict[str, Callable[[HubSettings, str], Writer]] = {"insert": insert_bare, "push": push, "commit": commit}

if __name__ == "__main__":
    main()
