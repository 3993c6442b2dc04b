"""`memsheaf task`: a task lived through on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]


@pytest.fixture
def begun(run: Run) -> str:
    assert run("task", "start", "Feature X", "--goal", "Users can log in", "--phases", "6")[0] == 0
    return "feature-x"


def asked(run: Run, *words: str, **more: Any) -> Any:
    code, out, err = run("task", *words, "--json", **more)
    assert (code, err) == (0, ""), (words, err)
    return json.loads(out)


def without_commit(run: Run, *words: str) -> Any:
    """The answer to a step, whose commit is the last one."""
    answer = asked(run, *words)
    log = json.loads(run("log", "--scope", f"task/{answer['task']}", "--limit", "1", "--json")[1])
    assert answer.pop("commit") == log["commits"][0]["id"]
    return answer


def test_a_task_from_its_start_to_its_end(run: Run, begun: str) -> None:
    assert run("task", "note", "Sessions live in Redis.") == (0, "Noted in feature-x\n", "")
    assert run("task", "verify", "login", "One can log in")[1] == "login: VERIFIED in iteration 1\n"
    assert run("task", "phase", "--report", "-", stdin="# Schema\nis there\n")[1] == (
        "Wrote the report on phase 1: phases/phase-1.md\nfeature-x is in phase 2 of 6\n"
        "1 note could be promoted: `memsheaf promote --task feature-x` shows the checklist\n"
    )
    assert run("task", "revise", "--reason", "rate limits", "Ask in batches.")[1] == (
        "Revised feature-x: iteration 2 begins\n"
    )
    assert run("task", "verify", "login", "--regressed")[1] == (
        "login was VERIFIED and is now REGRESSED, in iteration 2\n"
        "REGRESSED: login; the task cannot be done before it is verified again\n"
    )
    code, out, err = run("task", "phase", "--report", "goes through")
    assert code == 0
    assert "REGRESSED: login" in out
    code, out, err = run("task", "done")
    assert (code, out) == (1, "")
    assert "login" in err
    assert "memsheaf task status" in err
    assert run("task", "verify", "login")[1] == "login was REGRESSED and is now VERIFIED, in iteration 2\n"
    assert run("task", "deliver", "design", "-", stdin="# Design\n")[1] == (
        "Delivered deliverables/design.md of feature-x\n"
    )
    assert run("task", "done", "--summary", "Users can log in.")[1] == (
        "Done: Feature X\n1 note could be promoted: `memsheaf promote --task feature-x` shows the checklist\n"
    )
    assert run("task", "list")[1] == "feature-x  done  phase 3  Feature X\n"
    assert "there is no active task" in run("task", "status")[2]
    assert run("task", "status", "--task", begun)[1].startswith(
        "Task feature-x: Feature X\ndone, phase 3 of 6, iteration 2\n"
    )


def test_each_answer_is_one_json_document(run: Run, begun: str) -> None:
    assert asked(run, "note", "x")["task"] == begun
    assert without_commit(run, "revise", "--reason", "why") == {"task": begun, "iteration": 2}
    assert without_commit(run, "verify", "login", "One can log in", "--regressed") == {
        "task": begun, "id": "login", "description": "One can log in", "first": 2, "last": 2, "status": "REGRESSED",
        "was": "", "changed": False, "regressed": ["login"]
    }  # fmt: skip
    assert asked(run, "verify", "login")["changed"] is True
    assert asked(run, "phase") == {
        "task": begun, "commit": "", "phase": 1, "phases": 6, "report": "", "regressed": [],
        "waiting": 0
    }  # fmt: skip
    assert without_commit(run, "phase", "3")["phase"] == 3
    assert asked(run, "phase", "1", "--report", "late")["phase"] == 3
    assert without_commit(run, "deliver", "d", "text")["path"] == "deliverables/d.md"
    assert asked(run, "event", '{"event_type": "verdict", "payload": {}}')["phase"] == 3
    assert asked(run, "event")["total"] == 1
    state = asked(run, "status")
    assert [state[key] for key in ("title", "goal", "phase", "phases", "events")] == [
        "Feature X", "Users can log in", 3, 6, 1
    ]  # fmt: skip
    assert [line.endswith(": late") for line in state["reports"]] == [True]
    assert [item["id"] for item in state["verified"]] == ["login"]
    assert asked(run, "list")["tasks"][0]["task"] == begun
    assert without_commit(run, "drop", "--reason", "no time")["status"] == "dropped"
    code, out, _ = run("task", "done", "--task", begun, "--json")
    assert code == 1
    assert json.loads(out)["error"]["kind"] == "Blocked"


def test_which_task_is_meant(run: Run, begun: str) -> None:
    run("task", "start", "Other", "--slug", "second")

    _, _, err = run("task", "status")
    assert "feature-x, second" in err
    assert "memsheaf task list" in err
    assert "agent/NAME" not in err
    assert asked(run, "status", "--task", "second")["title"] == "Other"
    assert asked(run, "status", more={"MEMSHEAF_TASK": "second"})["title"] == "Other"
    assert asked(run, "status", "--task", begun, more={"MEMSHEAF_TASK": "second"})["title"] == "Feature X"
    assert run("task", "status", more={"MEMSHEAF_TASK": "../x"})[0] == 1
    assert "--slug" in run("task", "start", "Feature x")[2]


def test_the_events_are_shown_newest_first_and_what_is_none_as_it_is(run: Run, begun: str) -> None:
    assert run("task", "event") == (0, "", "there are no events yet\n")
    for number in range(3):
        run("task", "event", "-", stdin=json.dumps({"event_type": "discovery", "payload": {"number": number}}))
    file = Path(asked(run, "start", "Other")["folder"]).parent / "feature-x" / "observability" / "feature-x.ndjson"
    file.write_text(file.read_text() + "by hand\x1b[31m\n")

    _, out, err = run("task", "event", "--limit", "3", "--task", begun)

    first, *others = out.splitlines()
    assert first == "this is no event: by hand<U+001B>[31m"
    assert [json.loads(line)["payload"]["number"] for line in others] == [2, 1]
    assert "4 events in all" in err
    assert asked(run, "event", "--limit", "1", "--task", begun)["events"] == [{"problem": "by hand\x1b[31m"}]


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


def test_a_table_that_cannot_be_read_is_named_and_a_broken_task_hides_no_other(
    run: Run, begun: str, tree: Tree
) -> None:
    other = Path(asked(run, "start", "Other")["folder"])
    run("task", "verify", "login", "d", "--task", "other")
    (other / "verified.md").write_text((other / "verified.md").read_text() + "| half | a row |\n")
    (other.parent / begun / "TASK.md").write_text("gone")

    for words in (["done"], ["phase", "--report", "x"], ["verify", "login"], ["status"]):
        before = tree()
        code, out, err = run("task", *words, "--task", "other")
        assert (code, out) == (1, "")
        assert "verified.md, line 6" in err
        assert "| login | One can log in | 1 | 3 | VERIFIED |" in err
        assert tree() == before
    assert run("task", "drop", "--reason", "x", "--task", "other")[0] == 0
    listed = asked(run, "list")["tasks"]
    assert [one["task"] for one in listed] == ["feature-x", "other"]
    assert "TASK.md" in listed[0]["problem"]
    assert "edit --scope task/feature-x" in run("task", "status", "--task", begun)[2]


def test_no_secret_passes_and_none_is_said_again(run: Run, begun: str, tree: Tree) -> None:
    before, secret = tree(), "Corr3ct-H0rse-Fake"
    told = f"the password is {secret}"

    for words in (
        ["start", told],
        ["start", "Other", "--goal", told],
        ["note", told],
        ["revise", "--reason", told],
        ["verify", "login", told],
        ["phase", "--report", told],
        ["deliver", "design", told],
        ["deliver", told, "text"],
        ["event", json.dumps({"event_type": "verdict", "payload": {"password": secret}})],
        ["event", json.dumps({"event_type": "verdict", "payload": {}, told: 1})],
        ["done", "--summary", told],
        ["drop", "--reason", told],
    ):
        code, out, err = run("task", *words)
        assert (code, out) == (1, ""), words
        assert secret not in err
        assert tree() == before, words


def test_the_end_of_a_task_names_the_others_and_leaves_the_notes_of_the_project_alone(run: Run, begun: str) -> None:
    run("notes", "set", "--objective", "Ship it", "--phase", "2 of 6")
    notes = run("notes")[1]
    code, _, err = run("task", "start", "Other")
    assert (code, err) == (0, "1 other task is active: name this one with --task, or in MEMSHEAF_TASK\n")

    run("task", "phase", "3", "--task", begun)

    assert run("task", "done", begun)[1].endswith("`memsheaf task list` shows 1 task that is still active\n")
    assert run("notes")[1] == notes


def test_what_was_decided_is_told_wherever_the_task_is(run: Run, begun: str) -> None:
    run("task", "revise", "--reason", "Anna approved it", "Use batches of 50.")

    for words in (["task", "status"], ["brief"]):
        assert "Anna approved it: Use batches of 50." in run(*words)[1]
    (revision,) = asked(run, "status")["revisions"]
    assert revision.startswith("Revision 2, ")


def test_the_slug_may_stand_behind_the_action(run: Run, begun: str) -> None:
    run("task", "start", "Other")

    assert asked(run, "status", begun) == asked(run, "status", "--task", begun)
    assert asked(run, "status", begun, "--task", "Feature-X")["task"] == begun
    code, _, err = run("task", "done", "other", "--task", begun)
    assert code == 2
    assert "--task" in err
    assert asked(run, "drop", "other", "--reason", "no time")["task"] == "other"
    assert asked(run, "done", begun)["task"] == begun
    assert asked(run, "status", begun, more={"MEMSHEAF_TASK": "other"})["task"] == begun
    assert "there is no task 'nobody'" in run("task", "status", "nobody")[2]
