"""Load many namespaces into a real PostgreSQL with the real schema, measure, and work out what very many would take.

python -m benchmarks.scale                          # 2,000 namespaces of 50 memories; about five minutes
python -m benchmarks.scale --namespaces 40 --memories 5
python -m benchmarks.scale --agents 1000000 --out benchmarks/results/scale.md

The numbers are of this machine. What carries over is the arithmetic, and that the cost of a call does not grow with
the number of namespaces.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg.rows import TupleRow

from benchmarks.hub_clients import ROOT, commit_of, postgres
from benchmarks.machine import facts
from benchmarks.measure import measure
from benchmarks.memories import fill, query
from memsheaf.config import Settings
from memsheaf.hub import HubSettings
from memsheaf.hub.postgres import PostgresHub
from memsheaf.sheaf import Sheaf
from memsheaf.transfer import take_in

if TYPE_CHECKING:
    from hub.postgres_server import Server

TABLES = ("spaces", "members", "joined", "commits", "revisions", "texts", "documents")
EDGE = ("recall, none, CPU ms", "disk, none, KB", "recall, auto, CPU ms", "disk, auto, KB", "open, KB")
STAGES = (8, 4, 2, 1)  # which part of the namespaces is there when a call is measured
DAY = 86_400
TERABYTE = 1e12


class Plan(NamedTuple):
    """What is planned for. Assumptions are these; all else is measured."""

    agents: int = 100_000_000
    per_agent: int = 500
    versions: float = 1.5  # texts kept for each memory, retired ones included
    active: float = 0.1  # share of agents that are used on a day
    turns: float = 20.0  # of an active agent, a day
    sessions: float = 4.0
    writes: float = 2.0
    peak: float = 3.0  # times the mean
    disk: float = 2.0  # TB that one primary holds
    shortlist: int = 600  # tokens of a model that chooses from 20 memories
    catalog: int = 15_000  # tokens, if it chose from all


@dataclass
class Found:
    """What was measured."""

    namespaces: int
    memories: int  # in each
    stages: list[tuple[int, dict[str, float], dict[str, float]]] = field(default_factory=list)
    sizes: list[tuple[str, int, int, int]] = field(default_factory=list)  # table, rows, heap, indexes
    wal: float = 0.0
    rates: dict[str, float] = field(default_factory=dict)
    edge: dict[str, float] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the tables and the arithmetic."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description="Many namespaces.")
    parser.add_argument("--namespaces", type=int, default=2_000)
    parser.add_argument("--memories", type=int, default=50, help="in each namespace (default %(default)s)")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--probes", type=int, default=100, help="calls of each kind at each stage")
    parser.add_argument("--out", help="a file to write to")
    for name, value in Plan()._asdict().items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    given = parser.parse_args(arguments)
    plan = Plan(**{name: getattr(given, name) for name in Plan._fields})
    work = tempfile.mkdtemp(prefix="scale-")
    try:
        machine = facts(work)
        with postgres(os.path.join(work, "pg")) as server:
            found = simulate(server, given.namespaces, given.memories, given.clients, given.probes)
        found.edge = measure_edge(work, plan.per_agent)
    finally:
        shutil.rmtree(work)
    text = "\n".join(report(found, plan, machine, given.clients)) + "\n"
    print(text)
    if given.out:
        with open(given.out, "w", encoding="utf-8") as file:
            file.write(text)
    return 0


def simulate(
    server: Server, namespaces: int, memories: int, clients: int, probes: int, *, database: str = "hub"
) -> Found:
    """Load namespaces in stages, and measure what calls cost in each."""
    found = Found(namespaces, memories)
    with psycopg.connect(server.url(database=database), autocommit=True) as admin:
        admin.execute("CREATE ROLE server LOGIN PASSWORD 'x' IN ROLE memsheaf_service")
        url = server.url("server", "x", database)
        there, rates = 0, []
        for part in STAGES:
            upto = max(there + 1, namespaces // part)
            rates.append(_load(admin, url, there, upto, memories, clients))
            there = upto
            found.stages.append((there, *_probe(admin, url, there, memories, probes)))
        found.rates["pushes"] = rates[-1]
        for kind in ("pulls of nothing", "first pulls"):
            found.rates[kind] = _together(
                _ask_many, [(url, kind, there, probes * 4, seed) for seed in range(clients)]
            )
        before = _bytes_of_wal(admin)
        _load(admin, url, there, there + 1, memories, 1)
        found.wal = (_bytes_of_wal(admin) - before) / memories
        admin.execute("VACUUM ANALYZE")
        found.sizes = [(table, *_size(admin, table)) for table in TABLES]
    return found


def name_of(number: int) -> str:
    """The namespace of an agent."""
    return f"tenant-{number:07d}:agent/helper"


def hub_of(url: str, number: int, connection: psycopg.Connection[TupleRow]) -> PostgresHub:
    """The hub of a namespace as a server opens it: over a connection that it lends, for the agent's member."""

    def lend() -> AbstractContextManager[psycopg.Connection[TupleRow]]:
        return nullcontext(connection)

    settings = HubSettings(url, name_of(number), "machine", "machine")
    return PostgresHub(settings, member=f"tenant-{number:07d}.ana", connect=lend)


def _load(admin: psycopg.Connection[TupleRow], url: str, first: int, end: int, memories: int, clients: int) -> float:
    """Make namespaces and push every memory as a commit of its own; gives pushes a second."""
    with admin.transaction(), admin.cursor() as cursor:
        cursor.executemany(
            "SELECT set_config('memsheaf.member', %(login)s, true), "
            "memsheaf.create_space(%(team)s, %(login)s, 'ana'), memsheaf.join_space(%(space)s)",
            [
                {"login": f"tenant-{number:07d}.ana", "team": f"tenant-{number:07d}:team", "space": name_of(number)}
                for number in range(first, end)
            ],
        )
    step = -(-(end - first) // clients)
    tasks = [(url, start, min(end, start + step), memories) for start in range(first, end, step)]
    return _together(_push_all, tasks)


def _together(work: Callable[..., tuple[int, float, float]], tasks: Sequence[tuple[object, ...]]) -> float:
    """Calls a second when processes make them at the same time."""
    if len(tasks) == 1:
        done = [work(*tasks[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(len(tasks)) as pool:
            done = pool.starmap(work, tasks)
    return sum(count for count, _, _ in done) / (
        max(ended for *_, ended in done) - min(began for _, began, _ in done)
    )


def _push_all(url: str, first: int, end: int, memories: int) -> tuple[int, float, float]:
    made = [commit_of(number) for number in range(memories)]
    with psycopg.connect(url, autocommit=True) as connection:
        began = time.time()
        for number in range(first, end):
            hub = hub_of(url, number, connection)
            for one in made:
                hub.push(one._replace(id=os.urandom(6).hex()))
        return (end - first) * memories, began, time.time()


def _ask_many(url: str, kind: str, namespaces: int, times: int, seed: int) -> tuple[int, float, float]:
    chosen = random.Random(seed)
    with psycopg.connect(url, autocommit=True) as connection:
        hubs = [hub_of(url, chosen.randrange(namespaces), connection) for _ in range(min(20, times))]
        cursors = [hub.pull().cursor if kind != "first pulls" else "" for hub in hubs]
        began = time.time()
        for number in range(times):
            hubs[number % len(hubs)].pull(cursors[number % len(hubs)])
        return times, began, time.time()


def _probe(
    admin: psycopg.Connection[TupleRow], url: str, namespaces: int, memories: int, times: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds and blocks of a call of each kind, over namespaces chosen by chance."""
    chosen = random.Random(namespaces)
    wall: dict[str, list[float]] = {}
    blocks: dict[str, float] = {}
    kinds = ("SELECT 1", "a push", "nothing to pull", "one commit to pull", f"a first pull of {memories}")
    for kind in kinds:
        with psycopg.connect(url, autocommit=True) as connection:
            hubs = [hub_of(url, chosen.randrange(namespaces), connection) for _ in range(times)]
            cursors = [hub.pull().cursor if "pull" in kind and "first" not in kind else "" for hub in hubs]
            commits = [commit_of(1_000_000 + chosen.randrange(1 << 40)) for _ in hubs]
            for hub, commit in zip(hubs, commits, strict=True):
                assert hub.me == "ana"
                if kind == kinds[3]:
                    hub.push(commit)
            before = _blocks(connection)
            for hub, cursor, commit in zip(hubs, cursors, commits, strict=True):
                began = time.perf_counter()
                if kind == kinds[0]:
                    connection.execute("SELECT 1").fetchall()
                elif kind == kinds[1]:
                    hub.push(commit)
                else:
                    pulled = hub.pull(cursor)
                wall.setdefault(kind, []).append((time.perf_counter() - began) * 1000)
            blocks[kind] = (_blocks(connection) - before) / times
            assert "pull" not in kind or len(pulled.commits) >= {kinds[2]: 0, kinds[3]: 1}.get(kind, memories)
    return {kind: median(values) for kind, values in wall.items()}, blocks


def _blocks(connection: psycopg.Connection[TupleRow]) -> float:
    """The blocks that this connection has looked at, in memory or on disk."""
    connection.execute("SELECT pg_stat_force_next_flush()")
    connection.execute("SELECT 1")
    row = connection.execute(
        "SELECT sum(blks_hit + blks_read) FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    return float(row[0]) if row else 0.0


def _bytes_of_wal(admin: psycopg.Connection[TupleRow]) -> float:
    row = admin.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    return float(row[0]) if row else 0.0


def _size(admin: psycopg.Connection[TupleRow], table: str) -> tuple[int, int, int]:
    """Rows, and bytes of the rows and of the indexes, of a table and its partitions."""
    row = admin.execute(
        f"SELECT (SELECT count(*) FROM memsheaf.{table}), sum(pg_table_size(relid)), sum(pg_indexes_size(relid)) "
        "FROM (SELECT relid FROM pg_partition_tree(%s) UNION SELECT %s::regclass) t",
        [f"memsheaf.{table}", f"memsheaf.{table}"],
    ).fetchone()
    assert row
    return int(row[0]), int(row[1]), int(row[2])


# the edge: an ordinary folder with its index


def measure_edge(work: str, memories: int) -> dict[str, float]:
    """What the replica of one agent takes on a server: recall, disk, and memory of a process that has many open."""
    source = os.path.join(work, "source")
    fill(source, memories)
    found: dict[str, float] = {}
    for embedder in ("none", "auto"):
        root = os.path.join(work, embedder)
        settings = Settings(os.path.join(root, "home"), os.path.join(root, "cache"), embedder=embedder)
        with Sheaf.open("user", settings=settings) as sheaf:
            take_in(sheaf.own, source)
            for _ in _until_embedded(sheaf):
                time.sleep(0.1)
            times = measure(lambda number: sheaf.recall(query(number % memories)), 60)
            found[f"recall, {embedder}, CPU ms"] = times.cpu_ms
        found[f"disk, {embedder}, KB"] = _disk(root) / 1000
    found["open, KB"] = _resident(os.path.join(work, "none"), memories)
    return found


def _until_embedded(sheaf: Sheaf) -> Iterator[int]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        sheaf.own.matches("anything at all", limit=5)
        now = sheaf.own.index.embedding()
        if now.done >= now.total:
            return
        yield now.done


def _disk(folder: str) -> float:
    """Bytes on disk of all files below a folder."""
    return sum(
        os.lstat(os.path.join(place, name)).st_blocks * 512 for place, _, names in os.walk(folder) for name in names
    )


def _resident(root: str, memories: int, count: int = 20) -> float:
    """KB that a process grows by for each agent that it has open and has recalled for."""
    for number in range(count):
        shutil.copytree(root, f"{root}-{number}")
    code = (
        "import sys; from memsheaf.config import Settings; from memsheaf.sheaf import Sheaf\n"
        "from benchmarks.memories import query\n"
        "def resident():\n"
        "    with open('/proc/self/statm') as file: return int(file.read().split()[1]) * 4\n"
        "def used(root):\n"
        "    sheaf = Sheaf.open('user', settings=Settings(root + '/home', root + '/cache', embedder='none'))\n"
        f"    sheaf.recall(query({memories} // 2)); return sheaf\n"
        "kept = [used(root) for root in sys.argv[1:3]]; before = resident()\n"
        "kept += [used(root) for root in sys.argv[3:]]; print((resident() - before) / len(sys.argv[3:]))\n"
    )
    roots = [f"{root}-{number}" for number in range(count)]
    done = subprocess.run([sys.executable, "-c", code, *roots], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(done.stdout)


# telling


def report(found: Found, plan: Plan, machine: dict[str, str], clients: int) -> Iterator[str]:
    """The tables, and the arithmetic."""
    yield "# Many namespaces"
    yield ""
    yield (
        f"`python -m benchmarks.scale`: {found.namespaces:,} namespaces of {found.memories} memories in a real "
        f"PostgreSQL, each memory a commit, pushed by {clients} processes as servers do."
    )
    yield ""
    yield "; ".join(f"{key} {value}" for key, value in machine.items())
    yield from ("", "## What a call costs, by the number of namespaces", "")
    kinds = list(found.stages[0][1])
    titles = [f"{kind}, ms" for kind in kinds] + [f"{kind}, blocks" for kind in kinds[1:]]
    yield f"| namespaces | {' | '.join(titles)} |"
    yield f"|--:|{'--:|' * (2 * len(kinds) - 1)}"
    for there, wall, blocks in found.stages:
        cells = [f"{wall[kind]:.2f}" for kind in kinds] + [f"{blocks[kind]:.0f}" for kind in kinds[1:]]
        yield f"| {there:,} | {' | '.join(cells)} |"
    yield from ("", "## Bytes in PostgreSQL", "", "| table | rows | row | its indexes |", "|---|--:|--:|--:|")
    for table, rows, heap, indexes in found.sizes:
        yield f"| {table} | {rows:,} | {heap / max(1, rows):.0f} | {indexes / max(1, rows):.0f} |"
    rows = next(rows for table, rows, *_ in found.sizes if table == "commits")
    version = sum(_of(found, table) for table in ("commits", "revisions", "texts")) / rows
    place = _of(found, "documents") / rows
    yield ""
    yield f"A version of a memory takes {version:,.0f} bytes (its text is 600), its present place {place:,.0f} more."
    yield f"A push writes {found.wal:,.0f} bytes of WAL."
    yield from ("", f"## Rates, {clients} processes on the machine of the server", "", "| | a second |", "|---|--:|")
    yield from (f"| {kind} | {rate:,.0f} |" for kind, rate in found.rates.items())
    yield from ("", f"## The replica of an agent, {plan.per_agent} memories", "", "| | |", "|---|--:|")
    yield from (
        f"| {name.rpartition(', ')[0]} | {value:,.2f} {name.rpartition(', ')[2]} |"
        for name, value in found.edge.items()
    )
    yield from ("", f"## {plan.agents:,} agents × {plan.per_agent} memories", "")
    yield from arithmetic(found, plan, version, place)


def _of(found: Found, table: str) -> float:
    return next(float(heap + indexes) for name, _, heap, indexes in found.sizes if name == table)


def arithmetic(found: Found, plan: Plan, version: float, place: float) -> Iterator[str]:
    """Each line is a product of what was measured and what was assumed."""
    memories = plan.agents * plan.per_agent
    texts = memories * plan.versions
    stored = texts * version + memories * place
    shards = max(1, round(stored / TERABYTE / plan.disk))
    mean = plan.agents * plan.active / DAY
    writes, pulls, recalls = (mean * times for times in (plan.writes, plan.sessions, plan.turns))
    cpu = found.edge["recall, auto, CPU ms"] / 1000
    open_now = plan.agents * plan.active / 24
    yield "| | | |"
    yield "|---|---|--:|"
    rows = [
        ("memories", f"{plan.agents:,} × {plan.per_agent}", f"{memories / 1e9:,.1f} billion"),
        ("texts kept", f"× {plan.versions:g}", f"{texts / 1e9:,.1f} billion"),
        ("text", "× 600 bytes", f"{texts * 600 / TERABYTE:,.0f} TB"),
        ("tables and indexes", f"{version:,.0f} bytes a text, {place:,.0f} a memory", f"{stored / TERABYTE:,.0f} TB"),
        ("primaries, by disk", f"{plan.disk:g} TB each", f"{shards:,}"),
        ("rows of each", "in four tables", f"{(3 * texts + memories) / shards / 1e9:,.1f} billion"),
        ("agents active on a day", f"{plan.active:.0%}", f"{plan.agents * plan.active / 1e6:,.0f} million"),
        ("writes, mean", f"{plan.writes:g} a day each", f"{writes:,.0f} /s"),
        ("writes, peak", f"× {plan.peak:g}", f"{writes * plan.peak:,.0f} /s"),
        (
            "of one primary", f"{found.rates['pushes']:,.0f} /s measured here",
            f"{writes * plan.peak / shards:,.1f} /s",
        ),
        ("WAL, mean", f"{found.wal:,.0f} bytes a write", f"{writes * found.wal / 1e6:,.1f} MB/s"),
        ("looks for news, peak", f"{plan.sessions:g} sessions a day each", f"{pulls * plan.peak:,.0f} /s"),
        (
            "of one primary", f"{found.rates['pulls of nothing']:,.0f} /s measured here",
            f"{pulls * plan.peak / shards:,.1f} /s",
        ),
        ("recalls, peak", f"{plan.turns:g} turns a day each", f"{recalls * plan.peak:,.0f} /s"),
        ("cores for recall, at the edge", f"{cpu * 1000:.1f} ms CPU each", f"{recalls * plan.peak * cpu:,.0f}"),
        (
            "memory at the edge", f"a 24th of the active open, {found.edge['open, KB']:,.0f} KB each",
            f"{open_now * found.edge['open, KB'] / 1e9:,.2f} TB",
        ),
        (
            "disk at the edge", f"replicas of a day, {found.edge['disk, auto, KB'] / 1000:,.1f} MB each",
            f"{plan.agents * plan.active * found.edge['disk, auto, KB'] / 1e9:,.0f} TB",
        ),
        (
            "tokens of models a day, choosing from 20", f"{plan.shortlist} a turn",
            f"{mean * DAY * plan.turns * plan.shortlist / 1e9:,.0f} billion",
        ),
        (
            "the same, choosing from all", f"{plan.catalog:,} a turn",
            f"{mean * DAY * plan.turns * plan.catalog / 1e9:,.0f} billion",
        ),
    ]  # fmt: skip
    yield from (f"| {name} | {how} | {value} |" for name, how, value in rows)


if __name__ == "__main__":
    sys.exit(main())
