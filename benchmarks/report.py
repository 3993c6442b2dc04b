"""A run as a page for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.meaning import PATIENCE
from benchmarks.measure import Sample
from benchmarks.paper import numbers, rounded, short, table
from benchmarks.report_servers import served_json, served_tables
from benchmarks.served import Served
from benchmarks.sizes import Figures
from benchmarks.targets import Verdict

OPERATIONS = (
    "save", "read", "list", "catalog", "search", "start", "start, newly opened", "start, after a save",
    "search, hybrid", "recall", "recall, hybrid", "first recall, newly opened", "first search",
    "first search, hybrid", "first recall, a new process, words", "first recall, a new process, hybrid",
    "stat of all files", "search, after an edit of what it finds", "search, after a file was replaced",
    "bulk import",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one run found."""

    day: str
    machine: dict[str, str]
    sizes: tuple[Figures, ...]
    imports: dict[str, Sample]
    verdicts: tuple[Verdict, ...]
    servers: tuple[Served, ...] = ()


def as_json(report: Report) -> str:
    """The run for programs; all times in milliseconds."""
    shape = {
        "day": report.day,
        "machine": report.machine,
        "imports": {statement: numbers(sample) for statement, sample in report.imports.items()},
        "sizes": {str(found.size): _size(found) for found in report.sizes},
        "servers": {found.server.name: served_json(found) for found in report.servers},
        "verdicts": [
            {
                "promise": verdict.promise,
                "state": verdict.state,
                "measured": rounded(verdict.measured),
                "bound": verdict.bound,
                "unit": verdict.unit,
                "factor": rounded(verdict.factor),
                "why": verdict.why,
            }
            for verdict in report.verdicts
        ],
    }
    return json.dumps(shape, indent=1) + "\n"


def as_markdown(report: Report) -> str:
    """The run for people."""
    facts = "; ".join(f"{key} {value}" for key, value in report.machine.items())
    parts = [
        "# Benchmark results",
        f"{report.day}. {facts}.",
        "All of it from one run. CPU is the steadier figure; wall time on a shared disk is noisy. Absolute "
        "numbers do not carry over to another machine, ratios do better. The README beside this folder says "
        "what each row is.",
        "## Verdicts",
        _verdicts(report.verdicts),
        "## CPU milliseconds, median",
        _operations(report.sizes),
        "## Recall, by words and with vectors",
        _recalls(report),
        "## The first search after an edit by another program",
        _edits(report.sizes),
        "## Saves against the yardstick, wall time",
        _walls(report.sizes),
        "## Processes",
        _processes(report),
        "## MCP servers",
        served_tables(report.servers),
    ]
    if notes := [f"- {found.size:,}: {problem}" for found in report.sizes for problem in found.problems]:
        parts += ["## Notes", "\n".join(notes)]
    return "\n\n".join(parts) + "\n"


def verdict_lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """A line for each promise."""
    for verdict in verdicts:
        yield f"{verdict.state:12}  {verdict.promise}: {_said(verdict)}"


def _size(found: Figures) -> dict[str, object]:
    return {
        "memsheaf": {name: numbers(sample) for name, sample in found.ours.items()},
        "documents": {name: numbers(sample) for name, sample in found.documents.items()},
        "yardstick": numbers(found.yardstick),
        "rounds": [
            {
                "yardstick_ms": rounded(each.yardstick.wall_ms),
                "times_faster": rounded(each.times_faster),
                "median_ratio": rounded(each.median_ratio),
                "mean_ratio": rounded(each.mean_ratio),
            }
            for each in found.rounds
        ],
        "bulk_per_second": rounded(found.bulk_per_second),
        "resident_mb": rounded(found.resident_mb),
        "resident_hybrid_mb": rounded(found.resident_hybrid_mb),
        "embedded_per_second": rounded(found.embedded_per_second),
        "edit_unseen_s": rounded(found.unseen_s),
        "list_command": numbers(found.command) if found.command else None,
        "bare_python": numbers(found.python) if found.command else None,
        "problems": found.problems,
    }


def _said(verdict: Verdict) -> str:
    if verdict.measured is None:
        return verdict.why
    wanted = f"{'at least' if verdict.at_least else 'at most'} {verdict.bound:g}"
    text = f"{short(verdict.measured)} {verdict.unit}, wanted {wanted}"
    if verdict.state == "missed" and verdict.factor:
        text += f", short by a factor of {1 / verdict.factor:.2f}"
    return text


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    lines = ["| promise | verdict | measured |", "|---|---|---|"]
    return "\n".join(lines + [f"| {verdict.promise} | {verdict.state} | {_said(verdict)} |" for verdict in verdicts])


def _operations(sizes: Sequence[Figures]) -> str:
    def rows() -> Iterator[Sequence[str]]:
        for name in OPERATIONS:
            yield [name, *(short(found.ours[name].cpu_ms) for found in sizes)]
            if name in sizes[0].documents:
                yield ["documents' algorithm", *(short(found.documents[name].cpu_ms) for found in sizes)]
        yield ["yardstick", *(short(found.yardstick.cpu_ms) for found in sizes)]

    return table(["operation", *(f"{found.size:,}" for found in sizes)], rows())


def _recalls(report: Report) -> str:
    def rows() -> Iterator[Sequence[str]]:
        for found in report.sizes:
            words, both = found.ours["recall"], found.ours["recall, hybrid"]
            yield [
                f"{found.size:,}",
                f"{short(words.cpu_ms)}, {short(words.cpu_p95_ms)}",
                f"{short(both.cpu_ms)}, {short(both.cpu_p95_ms)}",
                f"{short(words.wall_ms)}, {short(words.wall_p95_ms)}",
                f"{short(both.wall_ms)}, {short(both.wall_p95_ms)}",
                f"{short(found.resident_mb)}, {short(found.resident_hybrid_mb)}",
                short(found.embedded_per_second),
            ]

    head = [
        "memories",
        "words, CPU ms: p50, p95",
        "hybrid, CPU ms",
        "words, wall ms: p50, p95",
        "hybrid, wall ms",
        "resident MB: words, hybrid",
        "vectors made, memories a second",
    ]
    return table(head, rows())


def _edits(sizes: Sequence[Figures]) -> str:
    def row(found: Figures) -> Sequence[str]:
        scan = found.ours["stat of all files"].cpu_ms
        return [
            f"{found.size:,}",
            short(scan),
            short(found.ours["search, after an edit of what it finds"].cpu_ms / scan),
            short(found.ours["search, after a file was replaced"].cpu_ms / scan),
            f"more than {PATIENCE:g}" if found.unseen_s is None else short(found.unseen_s),
        ]

    head = [
        "memories",
        "stat of all files, CPU ms",
        "search that finds the edited file, stats of all",
        "search after a file was replaced, stats of all",
        "seconds until an edit is seen that nothing points to",
    ]
    return table(head, map(row, sizes))


def _walls(sizes: Sequence[Figures]) -> str:
    def row(found: Figures) -> Sequence[str]:
        sticks = [each.yardstick.wall_ms for each in found.rounds]
        usual = [each.median_ratio for each in found.rounds]
        mean = [each.mean_ratio for each in found.rounds]
        worst = short(found.ours["save"].wall_worst_ms)
        return [f"{found.size:,}", _spread(sticks), _spread(usual), _spread(mean), worst]

    head = [
        "memories",
        "yardstick, ms",
        "save, yardsticks, median",
        "save, yardsticks, mean",
        "worst save, ms",
    ]
    return "Each is the middle of the rounds, with the lowest and the highest.\n\n" + table(head, map(row, sizes))


def _spread(values: Sequence[float]) -> str:
    return f"{short(median(values))} ({short(min(values))} to {short(max(values))})"


def _processes(report: Report) -> str:
    def rows() -> Iterator[Sequence[str]]:
        for found in report.sizes:
            command = short(found.command.cpu_ms / found.python.cpu_ms) if found.command else "not measured"
            yield [f"{found.size:,}", short(found.bulk_per_second), short(found.resident_mb), command]

    imports = ", ".join(f"`{statement}` {sample.cpu_ms:.1f} ms" for statement, sample in report.imports.items())
    head = [
        "memories",
        "bulk import, memories a second",
        "resident, MB",
        "`memsheaf list`, times bare Python, CPU",
    ]
    return f"A new interpreter, CPU: {imports}.\n\n{table(head, rows())}"
