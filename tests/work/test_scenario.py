"""A piece of work from end to end: every step is a command that knows nothing but the files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from command_line import environment_in, run_command

Memsheaf = Callable[..., str]
CONVENTION = "API handlers answer every error with problem+json."


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "the app"
    (folder / "api").mkdir(parents=True)
    (folder / "api" / "handlers.py").write_text("def failed(error):\n    return problem_json(error)\n")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture
def memsheaf(tmp_path: Path, project: Path) -> Memsheaf:
    """Run a command, which opens everything anew; it must end as it should."""

    def memsheaf(*words: str, ends: int = 0) -> str:
        code, out, err = run_command(words, environment_in(tmp_path), folder=project)
        assert code == ends, f"{words}: {out}{err}"
        return out if ends == 0 else out + err

    return memsheaf


def asked(memsheaf: Memsheaf, *words: str) -> Any:
    return json.loads(memsheaf(*words, "--json"))


def test_a_task_of_six_phases_outlives_a_reset_and_leaves_a_fact(memsheaf: Memsheaf, tmp_path: Path) -> None:
    # the objective is set, the planner reads it, the task is created
    memsheaf("notes", "set", "--objective", "Ship feature X", "--phase", "1 of 6")
    assert "Ship feature X" in memsheaf("show", "--prompt")
    memsheaf("task", "start", "Feature X", "--goal", "Reports can be exported")
    session = asked(memsheaf, "session", "start", "Work on feature X")["id"]

    # phase 1 is completed, with items that were verified
    memsheaf("task", "verify", "csv", "A report comes out as CSV")
    memsheaf("task", "verify", "auth", "Only its owner can export a report")
    trace = asked(memsheaf, "task", "status")["trace_id"]
    memsheaf("task", "event", json.dumps(gate(trace)))
    memsheaf("task", "phase", "--report", "The export format is agreed: CSV first.")
    memsheaf("task", "phase", "--report", "The schema is migrated.")
    memsheaf("notes", "set", "--blocker", "The staging database is read-only")
    memsheaf("session", "note", "--section", "current", "--replace", "Phase 3; next: the handler")
    memsheaf("session", "note", "--section", "key", CONVENTION)
    memsheaf("session", "note", "--section", "key", "In phase 3 the export button stays hidden.")

    # the context is reset in phase 3 of 6: what is known comes from the layers alone
    told = memsheaf("notes")
    for line in (
        "Ship feature X",
        "The staging database is read-only",
        "active, phase 3, iteration 1",
        "VERIFIED csv: A report comes out as CSV",
        "File: phases/phase-2.md",
        "Phase 3; next: the handler",
    ):
        assert line in told
    state = asked(memsheaf, "task", "status")
    assert state["phase"] == 3
    assert [item["id"] for item in state["verified"]] == ["csv", "auth"]

    # an item that regressed blocks the end of the task
    memsheaf("task", "verify", "auth", "--regressed")
    assert "auth REGRESSED" in memsheaf("task", "end", ends=1)
    memsheaf("task", "verify", "auth")

    # the convention is promoted; a reader decides that what belongs to the task is not
    listed = asked(memsheaf, "promote", "-s", f"session/{session}")
    assert "Is it tied to one task? Then it stays there." in listed["questions"]
    items = {item["text"]: item for item in listed["items"]}
    found = items[CONVENTION]
    assert (found["recommend_promote"], found["proposed_classification"]) == ("defer", "project")
    assert "no citation" in memsheaf("promote", found["id"], "--name", "Errors of the API", ends=1)
    place = ("--cite", "api/handlers.py:1-2", "--reason", "Clients parse one format")
    memsheaf("promote", found["id"], "--name", "Errors of the API", *place)

    # the remaining phases, the end of the task, the session is cleared
    for phase in range(3, 7):
        memsheaf("task", "phase", "--report", f"Phase {phase} is through.")
    assert asked(memsheaf, "task", "end", "--summary", "Reports are exported.")["status"] == "done"
    memsheaf("session", "end")
    assert asked(memsheaf, "session", "show") == {"sessions": []}

    # a new conversation knows the fact, and that its citation holds
    later = asked(memsheaf, "recall", "what do API handlers answer to an error?")
    assert [(one["scope"], one["name"]) for one in later["memories"]] == [("project", "Errors of the API")]
    assert later["memories"][0]["notes"] == ["citation verified: api/handlers.py:1-2 is as it was cited."]
    layers = [one["scope"] for one in asked(memsheaf, "search", "problem+json errors")["memories"]]
    assert layers[0] == "project"


def gate(trace: str) -> dict[str, object]:
    payload = {
        "schema_version": "1.1.0",
        "agent": "orchestrator",
        "event_type": "PLAN_GATE",
        "workflow_state": "PLANNING",
        "phase_id": 1,
        "decision": "GO",
        "confidence": 0.9,
        "requires_human_approval": False,
        "reason": "the plan is complete",
        "next_action": "start phase 1",
        "trace_id": trace,
        "iteration_index": 0,
        "max_iterations": 3,
    }
    return {"agent": "orchestrator", "event_type": "gate_event", "payload": payload}


def test_a_fact_drifts_and_is_served_with_its_mark_until_it_is_superseded(memsheaf: Memsheaf, project: Path) -> None:
    cited = ("--cite", "api/handlers.py:1-2", "--reason", "Clients parse it", "-t", "project")
    old = asked(memsheaf, "remember", CONVENTION, "--name", "Errors of the API", *cited)["memories"][0]["path"]
    (project / "api" / "handlers.py").write_text("def failed(error):\n    return plain_text(error)\n")

    recalled = memsheaf("recall", "what do API handlers answer to an error?")
    assert "; citation drifted: " in recalled
    assert "candidate for a superseding fact" in memsheaf("audit", ends=1)

    new = asked(
        memsheaf, "remember", "API handlers answer every error with plain text.", "--replaces", old,
        "--reason", "problem+json was dropped", "--cite", "api/handlers.py:1-2",
    )["memories"][0]["path"]  # fmt: skip
    recalled = memsheaf("recall", "what do API handlers answer to an error?")
    assert "plain text" in recalled
    assert "problem+json." not in recalled
    assert "; citation verified: " in recalled
    assert [one["path"] for one in asked(memsheaf, "list")["memories"]] == [new]
    memsheaf("undo")
    assert [one["path"] for one in asked(memsheaf, "list")["memories"]] == [old]
