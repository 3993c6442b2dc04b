"""Numbers and tables, as results show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.measure import Sample


def numbers(sample: Sample) -> dict[str, float | int | None]:
    """The figures of a sample, for programs; all times in milliseconds."""
    return {
        "times": len(sample.cpu),
        "cpu_ms": rounded(sample.cpu_ms),
        "cpu_p95_ms": rounded(sample.cpu_p95_ms),
        "cpu_mean_ms": rounded(sample.cpu_mean_ms),
        "wall_ms": rounded(sample.wall_ms),
        "wall_p95_ms": rounded(sample.wall_p95_ms),
        "wall_mean_ms": rounded(sample.wall_mean_ms),
        "wall_worst_ms": rounded(sample.wall_worst_ms),
    }


def rounded(value: float | None) -> float | None:
    """Four digits: more would be noise."""
    return None if value is None else float(f"{value:.4g}")


def short(value: float) -> str:
    """A number for people."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """Rows as a table in Markdown; all but the first column are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
