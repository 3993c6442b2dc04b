"""What was measured of MCP servers, as tables for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.measure import Sample
from benchmarks.paper import numbers, rounded, short, table
from benchmarks.served import BARE, FIRST, WARM, Served


def served_json(found: Served) -> dict[str, object]:
    """One server for programs; all times in milliseconds."""
    shape: dict[str, object] = {"version": found.server.version, "memories": found.server.size, "why": found.why}
    if found.why:
        return shape
    return shape | {
        "launch": numbers(found.launch),
        "launch_2026_07_28": numbers(found.modern) if found.modern.cpu else None,
        "first": {kind: numbers(sample) for kind, sample in found.first.items()},
        "warm": {kind: numbers(sample) for kind, sample in found.warm.items()},
        "resident_mb": rounded(found.resident_mb),
        "proportional_mb": rounded(found.proportional_mb),
        "list_bytes": found.list_bytes,
        "list_tokens": rounded(found.list_tokens),
        "http": [
            {
                "connections": load.connections,
                "requests": len(load.waited),
                "per_second": rounded(load.per_second),
                "cpu_ms": rounded(load.cpu_ms),
                "wall_ms": rounded(load.wall_ms),
                "wall_p99_ms": rounded(load.wall_p99_ms),
                "wall_worst_ms": rounded(load.wall_worst_ms),
                "errors": load.errors,
                "resident_mb": rounded(load.memory[0]),
                "proportional_mb": rounded(load.memory[1]),
            }
            for load in found.http
        ],
        "http_why": found.http_why,
    }


def served_tables(servers: Sequence[Served]) -> str:
    """All servers for people."""
    good = [found for found in servers if not found.why]
    notes = [f"- {_title(found)}: {found.server.note}." for found in good if found.server.note]
    notes += [f"- {found.server.name}: not measured: {found.why}." for found in servers if found.why]
    notes += [f"- {found.server.name} over HTTP: not measured: {found.http_why}." for found in good if found.http_why]
    parts = ["From the launch to the first answer:", _launches(good), "Calls of a warm server:", _calls(good)]
    parts += ["At rest:", _rests(good), "Over HTTP:", _loads(good), "\n".join(notes)]
    return "\n\n".join(filter(None, parts))


def _title(found: Served) -> str:
    return f"{found.server.name} {found.server.version}".strip()


def _size(found: Served) -> str:
    return f"{found.server.size:,}" if found.server.size else "–"


def _launches(servers: Sequence[Served]) -> str:
    bare = next((found.launch.cpu_ms for found in servers if found.server.name == BARE), None)

    def cpu(sample: Sample | None) -> str:
        return short(sample.cpu_ms) if sample and sample.cpu else "–"

    def rows() -> Iterator[Sequence[str]]:
        for found in servers:
            yield [
                _title(found),
                _size(found),
                cpu(found.launch),
                short(found.launch.wall_ms),
                short(found.launch.cpu_ms / bare) if bare else "–",
                cpu(found.modern),
                *(cpu(found.first.get(kind)) for kind in FIRST),
            ]

    head = ["server", "memories", "tools/list, CPU ms", "wall ms", "CPU, bare loops", "2026-07-28, CPU ms"]
    return table([*head, *(f"first {kind}, CPU ms" for kind in FIRST)], rows())


def _calls(servers: Sequence[Served]) -> str:
    def both(sample: Sample | None) -> Sequence[str]:
        if not sample:
            return ["–", "–"]
        return [
            f"{short(sample.cpu_ms)}, {short(sample.cpu_p95_ms)}",
            f"{short(sample.wall_ms)}, {short(sample.wall_p95_ms)}",
        ]

    def rows() -> Iterator[Sequence[str]]:
        for found in servers:
            if found.warm:
                yield [_title(found), _size(found), *(cell for kind in WARM for cell in both(found.warm.get(kind)))]

    head = [text for kind in WARM for text in (f"{kind}, CPU ms: p50, p95", f"{kind}, wall ms")]
    return table(["server", "memories", *head], rows())


def _rests(servers: Sequence[Served]) -> str:
    def row(found: Served) -> Sequence[str]:
        return [
            _title(found),
            f"{found.list_tokens:,.0f}",
            f"{short(found.resident_mb)}, {short(found.proportional_mb)}",
        ]

    return table(["server", "tools/list, tokens", "RSS, PSS, MB"], map(row, servers))


def _loads(servers: Sequence[Served]) -> str:
    def rows() -> Iterator[Sequence[str]]:
        for found in servers:
            for load in found.http:
                waits = [short(load.wall_ms), short(load.wall_p99_ms), short(load.wall_worst_ms)]
                each = [str(load.connections), short(load.per_second), short(load.cpu_ms), *waits, str(load.errors)]
                yield [_title(found), *each, ", ".join(map(short, load.memory))]

    head = ["server", "connections", "requests a second", "CPU ms each", "wall ms: p50", "p99", "worst", "errors"]
    return table([*head, "RSS, PSS, MB"], rows())
