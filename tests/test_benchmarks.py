from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memsheaf.memory import parse

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.long  # `make race`; mypy reads the benchmarks with every `make check`
OPERATIONS = {"save", "read", "list", "catalog", "search", "start"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.run", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)


def ask(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks")


@pytest.fixture(scope="module")
def finished(folder: Path) -> subprocess.CompletedProcess[str]:
    work, out = folder / "work", folder / "out"
    return run("--smoke", "--sizes", "12", "--folder", str(work), "--out", str(out), "--no-plot")


@pytest.fixture(scope="module")
def report(finished: subprocess.CompletedProcess[str], folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "results.json").read_text())
    return found


def test_every_size_is_measured_on_both_sides_and_against_the_yardstick(
    report: dict[str, Any],
) -> None:
    assert list(report["sizes"]) == ["12"]
    for found in report["sizes"].values():
        ours, theirs, bare = found["memsheaf"], found["documents"], found["yardstick"]
        assert set(ours) >= OPERATIONS == set(theirs)
        assert ours["save"]["times"] == bare["times"] == 64 * len(found["rounds"])
        assert set(found["rounds"][0]) == {"yardstick_ms", "times_faster", "median_ratio", "mean_ratio"}
        assert set(bare) == {
            "times", "cpu_ms", "cpu_p95_ms", "cpu_mean_ms", "wall_ms", "wall_p95_ms", "wall_mean_ms", "wall_worst_ms"
        }  # fmt: skip


def test_recall_is_measured_by_words_and_with_vectors(report: dict[str, Any], folder: Path) -> None:
    page = (folder / "out" / "results.md").read_text()

    assert "Vectors of the extra (minilm)" in page
    for found in report["sizes"].values():
        ours = found["memsheaf"]
        for words, hybrid in (
            ("recall", "recall, hybrid"),
            ("search", "search, hybrid"),
            ("first recall, a new process, words", "first recall, a new process, hybrid"),
        ):
            assert 0 < ours[words]["cpu_ms"] <= ours[words]["cpu_p95_ms"]
            assert 0 < ours[hybrid]["cpu_ms"] <= ours[hybrid]["cpu_p95_ms"]
        assert ours["recall"]["times"] == ours["recall, hybrid"]["times"] == 3
        assert found["resident_hybrid_mb"] > found["resident_mb"]  # numpy, at least
        assert found["embedded_per_second"] > 0


def test_an_edit_by_another_program_is_timed_and_was_found(report: dict[str, Any]) -> None:
    for found in report["sizes"].values():
        ours = found["memsheaf"]
        for kind in ("search, after an edit of what it finds", "search, after a file was replaced"):
            assert ours[kind]["times"] >= 3
            assert ours[kind]["cpu_ms"] > 0
        assert found["edit_unseen_s"] is not None


def test_hybrid_promises_are_judged(report: dict[str, Any]) -> None:
    promises = {verdict["promise"]: verdict["bound"] for verdict in report["verdicts"]}

    assert promises["search with vectors, best 5, CPU, at 10,000"] == 12
    assert promises["search with vectors, best 5, CPU, at 100,000"] == 40
    assert promises["resident memory, hybrid, at 10,000"] == 110


def test_every_promise_gets_a_verdict_on_paper_and_on_the_terminal(
    report: dict[str, Any], finished: subprocess.CompletedProcess[str], folder: Path
) -> None:
    page = (folder / "out" / "results.md").read_text()
    shown = finished.stdout.splitlines()

    assert len(shown) == len(report["verdicts"])
    for verdict, line in zip(report["verdicts"], shown, strict=True):
        assert verdict["state"] in ("reached", "missed", "not measured")
        assert line.startswith(verdict["state"])
        assert f"| {verdict['promise']} | {verdict['state']} |" in page


def test_a_size_that_was_not_run_is_not_judged(report: dict[str, Any]) -> None:
    unjudged = [v for v in report["verdicts"] if "at 100,000" in v["promise"]]

    assert unjudged
    assert {(v["state"], v["measured"], v["why"]) for v in unjudged} == {
        ("not measured", None, "this size was not run")
    }


def test_results_tell_the_machine_but_not_whose_it_is(report: dict[str, Any], folder: Path) -> None:
    written = "".join((folder / "out" / name).read_text() for name in ("results.md", "results.json"))

    assert set(report["machine"]) == {
        "code", "system", "processors", "load", "python", "sqlite", "file system"
    }  # fmt: skip
    assert str(folder) not in written
    assert str(ROOT) not in written
    assert os.uname().nodename not in report["machine"].values()


def test_the_working_folder_is_left_empty(finished: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert list((folder / "work").iterdir()) == []


def test_made_up_memories_are_sound_and_the_same_every_time() -> None:
    code = (
        "from benchmarks.memories import memory; "
        "print(*(memory(number).text for number in range(50)), sep='\\0', end='')"
    )
    texts = ask(code).split("\0")

    assert ask(code).split("\0") == texts
    assert len(set(texts)) == 50
    for text in texts:
        found = parse("x.md", text.encode())
        assert (found.state, found.known, found.trust) == ("ok", True, "confirmed")
        assert 590 <= len(text) <= 600


def test_a_promise_is_reached_at_its_bound_and_missed_beyond_it() -> None:
    code = (
        "from benchmarks.targets import Verdict; "
        "print(*(Verdict('p', 2.0, measured, 'ms', at_least).state for measured, at_least in "
        "((2.0, False), (2.1, False), (2.0, True), (1.9, True), (None, True))), sep=',')"
    )
    assert ask(code).strip() == "reached,missed,reached,missed,not measured"
