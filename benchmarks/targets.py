"""What was promised, and whether this run shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.http_load import CONNECTIONS
from benchmarks.measure import Sample
from benchmarks.served import BARE, FIRST, OURS, Served
from benchmarks.sizes import Figures

FASTER = {1_000: 25.0, 10_000: 250.0, 100_000: 4_000.0}
SAVE_CPU_MS = 3.0
SAVE_YARDSTICKS = 2.0
FLAT = 1.5  # the dearest size over the cheapest, from 1,000 up: below, the catalog is not yet full
START_CPU_MS = 1.5
SEARCH_CPU_MS = {10_000: 3.0, 100_000: 15.0}
HYBRID_CPU_MS = {10_000: 12.0, 100_000: 40.0}
IMPORT_CPU_MS = 25.0
COMMAND_PYTHONS = (1_000, 2.0)
RESIDENT_MB = (10_000, 60.0)
RESIDENT_HYBRID_MB = (10_000, 110.0)
BULK_PER_SECOND = (10_000, 8_000.0)
SERVER_BARES = 3.0
HTTP_PER_SECOND = 500.0  # of reads, searches and writes
HTTP_TAIL = 10.0
LIST_TOKENS = 1_000.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """One promise and one measurement; `measured` is None when this run cannot tell, and `why` says so."""

    promise: str
    bound: float
    measured: float | None
    unit: str
    at_least: bool = False
    why: str = ""

    @property
    def state(self) -> str:
        """`reached`, `missed` or `not measured`."""
        if self.measured is None:
            return "not measured"
        good = self.measured >= self.bound if self.at_least else self.measured <= self.bound
        return "reached" if good else "missed"

    @property
    def factor(self) -> float | None:
        """How many times better than promised; below 1 it is worse."""
        if not self.measured:
            return None
        return self.measured / self.bound if self.at_least else self.bound / self.measured


def judge(sizes: Sequence[Figures], imports: dict[str, Sample]) -> list[Verdict]:
    """Hold a run against every promise."""
    by_size = {found.size: found for found in sizes}
    return [
        *_savings(by_size),
        *_starts(sizes),
        *_searches(by_size),
        *_imports(imports),
        _at("`memsheaf list` against bare Python", COMMAND_PYTHONS, by_size, _command_pythons, "times"),
        _at("resident memory, words", RESIDENT_MB, by_size, lambda found: found.resident_mb, "MB"),
        _at("resident memory, hybrid", RESIDENT_HYBRID_MB, by_size, lambda found: found.resident_hybrid_mb, "MB"),
        _at(
            "bulk import (stretch)",
            BULK_PER_SECOND,
            by_size,
            lambda found: found.bulk_per_second,
            "/s",
            at_least=True,
        ),
    ]


def judge_servers(servers: Sequence[Served]) -> list[Verdict]:
    """Hold our server against the bare loop of the same run, and against what its list of tools may cost."""
    by_name = {found.server.name: found for found in servers}
    ours, bare = by_name[OURS], by_name[BARE]
    why = ours.why or bare.why

    def bares(what: str, sample: Callable[[Served], Sample]) -> Verdict:
        measured = None if why else sample(ours).cpu_ms / sample(bare).cpu_ms
        return Verdict(f"MCP server, launch to {what}, CPU", SERVER_BARES, measured, "bare loops", why=why)

    with_memories = f"with {ours.server.size:,} memories"
    loads = {load.connections: load for load in ours.http}
    few, many = loads.get(CONNECTIONS[0]), loads.get(CONNECTIONS[-1])
    why_not = why or ours.http_why
    return [
        bares("the first answered tools/list", lambda found: found.launch),
        bares("the first answered tools/list, 2026-07-28", lambda found: found.modern),
        *(
            bares(f"the first answered {kind}, {with_memories}", lambda found, kind=kind: found.first[kind])  # type: ignore[misc]
            for kind in FIRST
        ),
        Verdict("MCP server, tools/list", LIST_TOKENS, None if why else ours.list_tokens, "tokens", why=why),
        Verdict(
            "MCP server, errors over HTTP",
            0.0,
            float(sum(load.errors for load in ours.http)) if ours.http else None,
            "errors",
            why=why_not,
        ),
        Verdict(
            f"MCP server over HTTP, {CONNECTIONS[0]} connections",
            HTTP_PER_SECOND,
            few.per_second if few else None,
            "/s",
            at_least=True,
            why=why_not,
        ),
        Verdict(
            f"MCP server over HTTP, {CONNECTIONS[-1]} connections, p99 against p50",
            HTTP_TAIL,
            many.wall_p99_ms / many.wall_ms if many else None,
            "times",
            why=why_not,
        ),
    ]


def _savings(by_size: dict[int, Figures]) -> Iterator[Verdict]:
    for size, bound in FASTER.items():
        yield _at(
            "save, CPU against the documents' algorithm",
            (size, bound),
            by_size,
            lambda found: median(each.times_faster for each in found.rounds),
            "times faster",
            at_least=True,
        )
    for size, found in by_size.items():
        yield Verdict(f"save at {size:,}, CPU", SAVE_CPU_MS, found.ours["save"].cpu_ms, "ms")
    yield _flat([found for size, found in by_size.items() if size >= 1_000])
    for size, found in by_size.items():
        usual = median(each.median_ratio for each in found.rounds)
        mean = median(each.mean_ratio for each in found.rounds)
        yield Verdict(f"save at {size:,}, wall, median", SAVE_YARDSTICKS, usual, "yardsticks")
        yield Verdict(f"save at {size:,}, wall, mean with settling", SAVE_YARDSTICKS, mean, "yardsticks")


def _flat(sizes: list[Figures]) -> Verdict:
    costs = [found.ours["save"].cpu_ms for found in sizes]
    promise = "save is flat from 1,000 up, CPU, dearest size over cheapest"
    if len(costs) < 2:
        return Verdict(promise, FLAT, None, "times", why="it takes two sizes from 1,000 up")
    return Verdict(promise, FLAT, max(costs) / min(costs), "times")


def _starts(sizes: Sequence[Figures]) -> Iterator[Verdict]:
    for found in sizes:
        for kind in ("start", "start, newly opened"):
            what = kind.replace("start", "start context", 1)
            yield Verdict(
                f"{what}, nothing changed, at {found.size:,}, CPU",
                START_CPU_MS,
                found.ours[kind].cpu_ms,
                "ms",
            )


def _searches(by_size: dict[int, Figures]) -> Iterator[Verdict]:
    for size, bound in SEARCH_CPU_MS.items():
        yield _at(
            "search by words, best 5, CPU", (size, bound), by_size, lambda found: found.ours["search"].cpu_ms, "ms"
        )
    for size, bound in HYBRID_CPU_MS.items():
        yield _at(
            "search with vectors, best 5, CPU",
            (size, bound),
            by_size,
            lambda found: found.ours["search, hybrid"].cpu_ms,
            "ms",
        )


def _imports(imports: dict[str, Sample]) -> Iterator[Verdict]:
    bare = imports["pass"].cpu_ms
    for statement, sample in imports.items():
        if statement != "pass":
            yield Verdict(
                f"`{statement}` above bare Python, CPU", IMPORT_CPU_MS, max(0.0, sample.cpu_ms - bare), "ms"
            )


def _command_pythons(found: Figures) -> float | None:
    return found.command.cpu_ms / found.python.cpu_ms if found.command else None


def _at(
    promise: str,
    target: tuple[int, float],
    by_size: dict[int, Figures],
    value: Callable[[Figures], float | None],
    unit: str,
    *,
    at_least: bool = False,
) -> Verdict:
    """A promise made for one size."""
    size, bound = target
    promise = f"{promise}, at {size:,}"
    if size not in by_size:
        return Verdict(promise, bound, None, unit, at_least, "this size was not run")
    measured = value(by_size[size])
    return Verdict(promise, bound, measured, unit, at_least, "" if measured is not None else "see the notes")
