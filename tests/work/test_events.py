from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from corpus import SECRETS, texts_that
from memsheaf.errors import PathRefused, SecretFound, TextRefused
from memsheaf.sheaf import Sheaf
from memsheaf.work.checks import examine
from memsheaf.work.tasks import Task, open_task, start_task


@pytest.fixture
def task(layers: Sheaf) -> Task:
    return start_task(layers, "Feature X")


def files(task: Task) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(task.sheaf.root, "observability").glob("*"))}


def discovery(**more: object) -> dict[str, object]:
    return {"event_type": "discovery", "payload": {}, **more}


def gate(task: Task, **more: object) -> dict[str, object]:
    payload: dict[str, object] = {
        "schema_version": "1.1.0",
        "agent": "Planner",
        "event_type": "PLAN_GATE",
        "workflow_state": "PLANNING",
        "phase_id": None,
        "decision": "GO",
        "confidence": 0.9,
        "requires_human_approval": False,
        "reason": "The plan is sound.",
        "next_action": "Begin phase 1.",
        "trace_id": task.trace_id,
        "iteration_index": 0,
        "max_iterations": 5,
        **more,
    }
    return {"event_type": "gate_event", "payload": {key: value for key, value in payload.items() if value != "LESS"}}


def numbered(task: Task) -> list[tuple[str, int]]:
    """Agent and number of each event, the newest first."""
    found = [json.loads(line) for line, _ in task.events()]
    return [(event["agent"], event["payload"]["number"]) for event in found]


# what a line is


def test_a_field_that_is_wrong_is_named_with_what_is_allowed(task: Task) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"event_type": "opinion"}, "event_type has to be one of delegation, gate_event"),
        ({"event_type": ["discovery"]}, "event_type"),
        ({"payload": []}, "payload has to be a JSON object"),
        ({"phase": True}, "phase has to be a whole number, 0 or more, or null"),
        ({"phase": 1.0}, "phase"),
        ({"phase": -1}, "phase"),
        ({"agent": ""}, "agent"),
        ({"agent": "../x"}, "agent"),
        ({"agent": 7}, "agent"),
        ({"ts": "2026-11-15T12:00:00Z"}, "ts has to be a time in UTC with milliseconds"),
        ({"ts": "2026-11-15T12:00:00.000+01:00"}, "ts"),
        ({"ts": "2026-13-15T12:00:00.000Z"}, "ts"),
        ({"ts": 1}, "ts"),
        ({"trace_id": "0b94c3f2-6f2e-4b0e-9d3c-2f1f7a3c9d10"}, "trace_id has to be the task's"),
        ({"trace_id": None}, "trace_id"),
        ({"level": "info"}, "level is no field of it; there are trace_id, ts, agent, phase, event_type, payload"),
    ]
    for wrong, said in cases:
        with pytest.raises(TextRefused) as caught:
            task.event(discovery(**wrong))
        assert said in str(caught.value)
    for missing in ("event_type", "payload"):
        event = discovery()
        del event[missing]
        with pytest.raises(TextRefused, match=f"{missing} is missing"):
            task.event(event)
    assert files(task) == {}


# as somebody types it


def test_no_text_breaks_its_line(task: Task) -> None:
    odd = ("a\u2028b", "a\u0085b", "a\x0bb", "a\nb", "a\u202eb", "👩\u200d💻")
    for text in odd:
        task.event(discovery(payload={text: text}))

    (data,) = files(task).values()
    assert len(data.decode().splitlines()) == len(odd)
    payloads = [event["payload"] for _, event in task.events() if event is not None]
    assert payloads == [{text: text} for text in odd[::-1]]


def test_no_secret_of_the_corpus_passes_wherever_it_stands(task: Task) -> None:
    for number, text in enumerate(text for text, _ in SECRETS):
        payload = ({"said": text}, {text: 1}, {"deep": [{"list": ["x", text]}]})[number % 3]
        with pytest.raises(SecretFound) as caught:
            task.event(discovery(payload=payload))
        assert text not in str(caught.value)
    with pytest.raises(SecretFound):
        task.event(discovery(payload={"password": "Corr3ct-H0rse-Fake"}))
    with pytest.raises(SecretFound):
        task.event(gate(task, reason="the password is Corr3ct-H0rse-Fake"))
    assert files(task) == {}
    for text in (text for text, _ in texts_that("pass")):
        task.event(discovery(payload={"said": text}))


# how they are kept


def test_a_link_is_not_followed(task: Task, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "feature-x.ndjson").write_text('{"private": 1}\n')
    Path(task.sheaf.root, "observability").symlink_to(tmp_path / "outside")

    with pytest.raises(PathRefused):
        task.event(discovery())
    assert list(task.events()) == []
    assert (tmp_path / "outside" / "feature-x.ndjson").read_text() == '{"private": 1}\n'


def test_several_at_once_lose_no_event(layers: Sheaf, task: Task, tmp_path: Path) -> None:
    def add_events(who: str) -> None:
        with Sheaf(layers.settings, str(tmp_path / "work"), by=who) as own:
            for number in range(12):
                open_task(own).event(discovery(payload={"number": number, "much": "x" * 1_500}))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(add_events, ("one", "two", "three")))

    found = numbered(task)
    assert sorted(found) == sorted((who, number) for who in ("one", "two", "three") for number in range(12))
    assert [number for who, number in found if who == "one"] == list(range(11, -1, -1))
    assert max(map(len, files(task).values())) <= 32_768


# beside memories


def test_events_are_no_memories_and_undo_takes_one_back(task: Task) -> None:
    task.event(discovery(payload={"number": 1}))
    task.event(discovery(payload={"number": 2}))
    before = [row.path for row in task.sheaf.list()]
    first, second = (commit.id for commit in list(task.sheaf.log(limit=2))[::-1])

    task.note("a slip")
    task.sheaf.undo()  # events are only added to, unless one is named
    assert "a slip" not in task.sheaf.read("TASK.md").text
    assert len(list(task.events())) == 2
    task.sheaf.undo(second)
    assert len(list(task.events())) == 1
    task.sheaf.undo(first)
    assert files(task) == {}
    undone = next(iter(task.sheaf.log())).id
    task.sheaf.undo(undone)  # brings the first line back
    assert len(list(task.events())) == 1

    assert [row.path for row in task.sheaf.list()] == before == ["TASK.md"]
    assert [match.row.path for match in task.sheaf.own.matches("discovery number")] == []
    assert "ndjson" not in task.sheaf.catalog().text
    assert {commit.by for commit in task.sheaf.log()} == {"user"}
    assert examine(task.sheaf) == []
    assert second != first
