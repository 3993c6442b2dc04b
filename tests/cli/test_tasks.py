"""`memsheaf task`: a task lived through on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]


@pytest.fixture
def begun(run: Run) -> str:
    assert run("task", "start", "Feature X", "--goal", "Users can log in")[0] == 0
    return "feature-x"


def asked(run: Run, *words: str, **more: Any) -> Any:
    code, out, err = run("task", *words, "--json", **more)
    assert (code, err) == (0, ""), (words, err)
    return json.loads(out)


def test_a_task_from_its_start_to_its_end(run: Run, begun: str) -> None:
    assert run("task", "note", "Sessions live in Redis.") == (0, "Noted in feature-x\n", "")
    assert run("task", "verify", "login", "One can log in")[1] == "login: VERIFIED in iteration 1\n"
    assert run("task", "phase", "--report", "-", stdin="# Schema\nis there\n")[1] == (
        "Wrote the report: phases/phase-1.md\nfeature-x is in phase 2\n"
        "1 note could be promoted: `memsheaf promote -s task/feature-x` shows the checklist\n"
    )
    assert run("task", "revise", "--reason", "rate limits", "Ask in batches.")[1] == (
        "Revised feature-x: iteration 2 begins\n"
    )
    assert run("task", "verify", "login", "--regressed")[1] == (
        "login: REGRESSED in iteration 2\nREGRESSED: login; the task cannot be done before it is verified again\n"
    )
    code, out, err = run("task", "phase", "--report", "goes through")
    assert code == 0
    assert "REGRESSED: login" in out
    code, out, err = run("task", "end")
    assert (code, out) == (1, "")
    assert "login" in err
    assert "memsheaf task status" in err
    assert run("task", "verify", "login")[1] == "login: VERIFIED in iteration 2\n"
    assert run("task", "note", "-", "--file", "design", stdin="# Design\n")[1] == (
        "Delivered deliverables/design.md of feature-x\n"
    )
    assert run("task", "end", "--summary", "Users can log in.")[1] == (
        "Done: Feature X\n1 note could be promoted: `memsheaf promote -s task/feature-x` shows the checklist\n"
    )
    assert run("task", "status", "--all")[1] == "feature-x  done  phase 3  Feature X\n"
    assert "there is no active task" in run("task", "note", "x")[2]
    assert run("task", "status", "-s", f"task/{begun}")[1].startswith(
        "Task feature-x: Feature X\ndone, phase 3, iteration 2\n"
    )


def test_undo_takes_back_a_step_and_an_event(run: Run, begun: str, tree: Tree) -> None:
    def kept() -> dict[str, bytes]:
        return {name: data for name, data in tree().items() if ".history" not in name and data}

    before = kept()
    for words in (["note", "x"], ["event", '{"event_type": "verdict", "payload": {}}'], ["verify", "a", "b"]):
        commit = asked(run, *words)["commit"]
        assert kept() != before
        named = [commit] * (words[0] == "event")  # events are only added to, unless one is named
        assert run("undo", *named, "--scope", "task/feature-x")[0] == 0
        assert kept() == before
        assert run("doctor", "--scope", "task/feature-x")[0] == 0
