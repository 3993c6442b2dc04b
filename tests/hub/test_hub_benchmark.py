"""The benchmark of the hubs runs, at its smallest, and finds nothing lost."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hub.postgres_server import Server, Team

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.hub import Effort, Row, measure_git, measure_postgres
from benchmarks.hub_clients import create_bare
from benchmarks.memories import TEAM_KINDS, fill
from benchmarks.scale import EDGE, Plan, report, simulate

LEAST = Effort(size=12, times=2, clients=2, writes=2, rounds=1, notices=1)


@pytest.fixture
def source(tmp_path: Path) -> str:
    fill(str(tmp_path / "source"), LEAST.size, TEAM_KINDS)
    return str(tmp_path / "source")


def judged(rows: list[Row]) -> dict[str, str]:
    assert all(row.ours for row in rows)
    return {row.name: row.wanted for row in rows if row.wanted}


@pytest.mark.long
def test_postgresql_is_measured(team: Team, postgres: Server, tmp_path: Path, source: str) -> None:
    create_bare(postgres)
    fresh = Team(postgres, f"{team.name}2")
    joining = [fresh.settings(member, "m") for member in ("ana", "ben")]
    rows = list(measure_postgres(str(tmp_path), team.settings("ana", "m"), joining, source, LEAST))

    assert [row.ours for row in rows if "lost" in row.name] == ["0 lost, 0 doubled"]
    assert judged(rows) == {
        "push of one memory": "at most 4",
        "nothing to pull": "at most 2",
        "2 processes × 2 writes, pushes": "at least 0.33",
        "lost or doubled, of 8 acknowledged": "0",
        "from a commit until an idle listening replica has the file": "at most 2 s",
        "first replica of 12 memories": "at most 3",
        "recall among 12 that another member saved": "equal",
    }


@pytest.mark.long
def test_git_is_measured(tmp_path: Path, source: str) -> None:
    rows = list(measure_git(str(tmp_path), source, LEAST))

    assert [row.ours for row in rows if "lost" in row.name] == ["0 lost, 0 doubled"]
    assert set(judged(rows)) >= {"push of one memory", "first replica of 12 memories"}


def test_many_namespaces_are_measured_and_told(postgres: Server) -> None:
    postgres.create_hub("scaled")
    found = simulate(postgres, 8, 3, 1, 2, database="scaled")
    found.edge = dict.fromkeys(EDGE, 1.0)
    told = "\n".join(report(found, Plan(agents=1_000_000), {}, 1))

    assert [there for there, *_ in found.stages] == [1, 2, 4, 8]
    assert all(blocks["nothing to pull"] > 0 for _, _, blocks in found.stages)
    assert {table: rows for table, rows, *_ in found.sizes}["joined"] == 9
    assert "| memories | 1,000,000 × 500 | 0.5 billion |" in told
