"""The short version of the fault runs; `make crash` has the long one."""

from __future__ import annotations

from pathlib import Path

from hosts.faults import run


def test_a_host_sees_no_failure_and_each_turn_is_kept_once(tmp_path: Path) -> None:
    count = run(tmp_path, 8, seed=3)
    assert sum(number for name, number in count.items() if name != "answered") > 2
