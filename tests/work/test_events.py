from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memsheaf import Settings
from memsheaf.doctor import examine
from memsheaf.errors import PathRefused, SecretFound, TextRefused
from memsheaf.work import events
from memsheaf.work.layers import Layers
from memsheaf.work.tasks import Task, start

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "corpora" / "secrets.json").read_text("utf-8")
)["cases"]
NOTER = """
import sys
from memsheaf import Settings
from memsheaf.work.layers import Layers
from memsheaf.work.tasks import of
home, cache, folder, who = sys.argv[1:]
with Layers(Settings(home, cache, embedder="none"), folder, by=who) as layers:
    task = of(layers)
    for number in range(40):
        task.event({"event_type": "discovery", "payload": {"number": number, "much": "x" * 1500}})
"""


@pytest.fixture
def layers(tmp_path: Path) -> Iterator[Layers]:
    (tmp_path / "work").mkdir()
    settings = Settings(home=str(tmp_path / "home"), cache=str(tmp_path / "cache"), embedder="none")
    with Layers(settings, str(tmp_path / "work"), by="user") as layers:
        yield layers


@pytest.fixture
def task(layers: Layers) -> Task:
    return start(layers, "Feature X", phases=6)


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
    found = [json.loads(line.text) for line in events.lines(task.sheaf)]
    return [(event["agent"], event["payload"]["number"]) for event in found]


# what a line is


def test_what_is_left_out_is_filled_in(task: Task) -> None:
    task.go_to(3)

    event = task.event(discovery(payload={"found": "两个缓存"}), clock=lambda: 1_794_744_000.5)

    assert list(event.items()) == [
        ("trace_id", task.trace_id),
        ("ts", "2026-11-15T12:00:00.500Z"),
        ("agent", "user"),
        ("phase", 3),
        ("event_type", "discovery"),
        ("payload", {"found": "两个缓存"}),
    ]
    (data,) = files(task).values()
    assert data == json.dumps(event, ensure_ascii=False).encode() + b"\n"


def test_what_is_given_is_kept(task: Task) -> None:
    given = {
        "trace_id": task.trace_id,
        "ts": "2026-11-14T23:59:59.999Z",
        "agent": "Code-Reviewer-2",
        "phase": None,
        "event_type": "verdict",
        "payload": {"deep": [{"a": [1, 2.5, None, True]}]},
    }

    assert task.event(given) == given


@pytest.mark.parametrize("kind", events.TYPES)
def test_every_type_but_a_gate_takes_any_object(task: Task, kind: str) -> None:
    if kind == "gate_event":
        with pytest.raises(TextRefused, match="payload"):
            task.event({"event_type": kind, "payload": {"any": 1}})
    else:
        assert task.event({"event_type": kind, "payload": {"any": 1}})["event_type"] == kind


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"event_type": "opinion"}, "event_type has to be one of delegation, gate_event"),
        ({"event_type": ["discovery"]}, "event_type"),
        ({"payload": []}, "payload has to be a JSON object"),
        ({"payload": "text"}, "payload"),
        ({"payload": None}, "payload"),
        ({"phase": True}, "phase has to be a whole number, 0 or more, or null"),
        ({"phase": 1.0}, "phase"),
        ({"phase": -1}, "phase"),
        ({"phase": "1"}, "phase"),
        ({"agent": ""}, "agent"),
        ({"agent": "../x"}, "agent"),
        ({"agent": "a b"}, "agent"),
        ({"agent": 7}, "agent"),
        ({"ts": "2026-11-15T12:00:00Z"}, "ts has to be a time in UTC with milliseconds"),
        ({"ts": "2026-11-15T12:00:00.000+01:00"}, "ts"),
        ({"ts": "2026-13-15T12:00:00.000Z"}, "ts"),
        ({"ts": 1}, "ts"),
        ({"trace_id": "0b94c3f2-6f2e-4b0e-9d3c-2f1f7a3c9d10"}, "trace_id has to be the task's"),
        ({"trace_id": None}, "trace_id"),
        ({"level": "info"}, "level is no field of it; there are trace_id, ts, agent, phase, event_type, payload"),
    ],
)
def test_a_field_that_is_wrong_is_named_with_what_is_allowed(task: Task, wrong: dict[str, object], said: str) -> None:
    with pytest.raises(TextRefused) as caught:
        task.event(discovery(**wrong))

    assert said in str(caught.value)
    assert files(task) == {}


@pytest.mark.parametrize("missing", ["event_type", "payload"])
def test_type_and_payload_have_to_be_there(task: Task, missing: str) -> None:
    event = discovery()
    del event[missing]

    with pytest.raises(TextRefused, match=f"{missing} is missing"):
        task.event(event)


# gates


def test_a_gate_event_has_exactly_the_fields_of_its_schema(task: Task) -> None:
    task.event(gate(task))
    task.event(gate(task, phase_id=1, confidence=0, iteration_index=7, max_iterations=1, decision="BLOCKED"))
    task.event(
        gate(
            task,
            confidence=1,
            safety_checks={"no secrets": True, "tests": False},
            verifier_statuses={"unit": "PASS", "load": "SKIPPED"},
            diagnosis_packet={"cause": "two caches"},
        )
    )

    for field in gate(task)["payload"]:  # type: ignore[attr-defined]
        with pytest.raises(TextRefused, match=rf"payload\.{field} is missing"):
            task.event(gate(task, **{field: "LESS"}))
    assert sum(1 for _ in events.lines(task.sheaf)) == 3


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("schema_version", ["1.0.0", 1.1, None]),
        ("agent", ["", "a/b", None]),
        ("event_type", ["GATE", "plan_gate", None, 1]),
        ("workflow_state", ["PLAN_REVIEW", "", None]),
        ("phase_id", [0, -1, True, 1.0, "1"]),
        ("decision", ["APPROVED", "go", None]),
        ("confidence", [-0.1, 1.1, True, False, "0.5", None, float("nan"), float("inf")]),
        ("requires_human_approval", [0, 1, "true", None]),
        ("reason", ["", "  ", None, 1]),
        ("next_action", ["", None, []]),
        ("trace_id", ["", None, "0b94c3f2-6f2e-4b0e-9d3c-2f1f7a3c9d10"]),
        ("iteration_index", [-1, True, 0.0, None]),
        ("max_iterations", [0, 6, True, 1.0, None]),
        ("safety_checks", [["tests"], {"tests": "yes"}, {"tests": 1}, None]),
        ("verifier_statuses", [{"unit": "OK"}, {"unit": True}, "PASS", None]),
        ("diagnosis_packet", ["text", [], None]),
        ("note", ["more"]),
    ],
)
def test_what_is_not_in_the_schema_is_refused(task: Task, field: str, values: list[object]) -> None:
    for value in values:
        with pytest.raises(TextRefused, match=rf"payload\.{field}"):
            task.event(gate(task, **{field: value}))
    assert files(task) == {}


# as somebody types it


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not JSON",
        "[]",
        '"text"',
        "null",
        "NaN",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1, "a": 2}',
        '{"b": {"a": 1, "a": 2}}',
        "{} {}",
        '{"a": ' + "9" * 5000 + "}",
        '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_json_that_is_no_event_or_ambiguous_is_refused(text: str) -> None:
    with pytest.raises(TextRefused):
        events.read_json(text)


@pytest.mark.parametrize(
    "payload",
    [
        {"n": float("nan")},
        {"n": 1e999},
        {"s": "half \ud800"},
        {"\udfff": 1},
        {"much": "x" * 16_384},
        {"viel": "ü" * 8_192},
        {"object": object()},
    ],
)
def test_a_payload_that_cannot_be_written_is_refused(task: Task, payload: dict[str, object]) -> None:
    with pytest.raises(TextRefused):
        task.event(discovery(payload=payload))
    assert files(task) == {}


def test_a_line_of_16_kib_is_the_longest(task: Task) -> None:
    short = len(json.dumps(task.event(discovery(payload={"x": ""})))) + 1

    task.event(discovery(payload={"x": "y" * (16_384 - short)}))

    with pytest.raises(TextRefused, match="16385 bytes"):
        task.event(discovery(payload={"x": "y" * (16_384 - short + 1)}))


@pytest.mark.parametrize("odd", ["a\u2028b", "a\u0085b", "a\x0bb", "a\nb", "a\u202eb", "👩\u200d💻"])
def test_no_text_breaks_its_line(task: Task, odd: str) -> None:
    task.event(discovery(payload={odd: odd}))

    (data,) = files(task).values()
    assert len(data.decode().splitlines()) == 1
    (line,) = events.lines(task.sheaf)
    assert line.event is not None
    assert line.event["payload"] == {odd: odd}


def test_no_secret_of_the_corpus_passes_wherever_it_stands(task: Task, tmp_path: Path) -> None:
    for text in ("".join(case["parts"]) for case in CASES if case["expect"] == "flag"):
        for payload in ({"said": text}, {text: 1}, {"deep": [{"list": ["x", text]}]}):
            with pytest.raises(SecretFound) as caught:
                task.event(discovery(payload=payload))
            assert text not in str(caught.value)
    with pytest.raises(SecretFound):
        task.event(discovery(payload={"password": "Corr3ct-H0rse-Fake"}))
    with pytest.raises(SecretFound):
        task.event(gate(task, reason="the password is Corr3ct-H0rse-Fake"))
    assert files(task) == {}


def test_what_only_looks_like_a_secret_passes(task: Task) -> None:
    harmless = ["".join(case["parts"]) for case in CASES if case["expect"] == "pass"]

    for text in harmless:
        task.event(discovery(payload={"said": text}))

    assert len(list(events.lines(task.sheaf))) == len(harmless)


# how they are kept


def test_a_line_that_an_editor_left_open_is_completed_and_not_joined(task: Task) -> None:
    task.event(discovery())
    path = Path(task.sheaf.root, "observability", "feature-x.ndjson")
    path.write_bytes(path.read_bytes() + b'{"by": "hand"}')

    task.event(discovery())

    assert [line.count(b"{") for line in path.read_bytes().split(b"\n")] == [2, 1, 2, 0]


def test_lines_that_are_no_events_are_shown_as_they_are(task: Task) -> None:
    task.event(discovery())
    path = Path(task.sheaf.root, "observability", "feature-x.ndjson")
    path.write_bytes(b"torn {\n\n[1]\n\xff\n" + path.read_bytes())

    found = list(events.lines(task.sheaf))

    assert [(line.number, line.event is None) for line in found] == [(5, False), (4, True), (3, True), (1, True)]
    assert found[-1].text == "torn {"


def test_a_long_log_goes_on_in_another_file(task: Task) -> None:
    for number in range(60):
        task.event(discovery(payload={"number": number, "much": "x" * 1_500}))

    found = files(task)
    assert list(found) == ["feature-x-2.ndjson", "feature-x-3.ndjson", "feature-x-4.ndjson", "feature-x.ndjson"]
    assert max(map(len, found.values())) <= 32_768
    assert [number for _, number in numbered(task)] == list(range(59, -1, -1))


def test_files_of_other_names_are_left_alone(task: Task) -> None:
    folder = Path(task.sheaf.root, "observability")
    folder.mkdir()
    for name in ("feature-x-1.ndjson", "feature-x-02.ndjson", "other.ndjson", "feature-x.txt", "feature-x-.ndjson"):
        (folder / name).write_text("{}\n")
    (folder / "feature-x-9.ndjson").write_text('{"last": true}\n')

    task.event(discovery())

    assert [line.path for line in events.lines(task.sheaf)] == ["observability/feature-x-9.ndjson"] * 2
    assert (folder / "other.ndjson").read_text() == "{}\n"


def test_a_full_file_with_the_last_possible_number_stops_nothing(task: Task) -> None:
    folder = Path(task.sheaf.root, "observability")
    folder.mkdir()
    (folder / "feature-x-999999999.ndjson").write_text("{}\n" * 11_000)

    for _ in range(2):
        task.event(discovery())

    assert [line.path for line in events.lines(task.sheaf)] == ["observability/feature-x.ndjson"] * 2


def test_a_link_is_not_followed(task: Task, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "feature-x.ndjson").write_text('{"private": 1}\n')
    Path(task.sheaf.root, "observability").symlink_to(tmp_path / "outside")

    with pytest.raises(PathRefused):
        task.event(discovery())
    assert list(events.lines(task.sheaf)) == []
    assert (tmp_path / "outside" / "feature-x.ndjson").read_text() == '{"private": 1}\n'


def test_two_processes_at_once_lose_no_event(layers: Layers, task: Task, tmp_path: Path) -> None:
    places = [layers.settings.home, layers.settings.cache, str(tmp_path / "work")]
    running = [subprocess.Popen([sys.executable, "-c", NOTER, *places, who]) for who in ("one", "two", "three")]

    assert [process.wait() for process in running] == [0, 0, 0]

    found = numbered(task)
    assert sorted(found) == sorted((who, number) for who in ("one", "two", "three") for number in range(40))
    assert [number for who, number in found if who == "one"] == list(range(39, -1, -1))
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
    assert len(list(events.lines(task.sheaf))) == 2
    task.sheaf.undo(second)
    assert len(list(events.lines(task.sheaf))) == 1
    task.sheaf.undo(first)
    assert files(task) == {}
    undone = next(iter(task.sheaf.log())).id
    task.sheaf.undo(undone)  # brings the first line back
    assert len(list(events.lines(task.sheaf))) == 1

    assert [row.path for row in task.sheaf.list()] == before == ["TASK.md"]
    assert [match.row.path for match in task.sheaf.matches("discovery number")] == []
    assert "ndjson" not in task.sheaf.catalog().text
    assert {commit.by for commit in task.sheaf.log()} == {"user"}
    assert examine(task.sheaf) == []
    assert second != first


def test_the_index_does_not_take_a_log_for_a_memory_in_the_process_that_undid(task: Task) -> None:
    task.event(discovery(payload={"number": 1}))
    commit = next(iter(task.sheaf.log()))
    task.sheaf.undo(commit.id)

    task.sheaf.undo(next(iter(task.sheaf.log())).id)

    assert task.sheaf.index.rows("path LIKE '%ndjson'") == []


def test_the_page_about_tasks_has_every_word_of_an_event() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "tasks.md").read_text("utf-8")

    words = [*events.TYPES, *events.GATES, *events.STATES, *events.DECISIONS, *events.VERIFIER_STATUSES]
    fields = ["trace_id", "ts", "agent", "phase", "payload", "safety_checks", "verifier_statuses", "diagnosis_packet"]
    for word in (*words, *fields, "phase_id", "iteration_index", "max_iterations", "requires_human_approval"):
        assert f"`{word}`" in page, word
    assert f'`"{events.SCHEMA_VERSION}"`' in page
    assert f"{events.LINE_LIMIT >> 10} KiB" in page
    assert f"{events.FILE_LIMIT >> 10} KiB" in page


def test_no_memory_can_be_written_where_events_are_kept(task: Task) -> None:
    with pytest.raises(PathRefused):
        task.sheaf.put("observability/feature-x.ndjson", "text", free=True)


def test_a_file_of_events_can_be_shown_exported_and_erased(task: Task, tmp_path: Path) -> None:
    task.event({"event_type": "discovery", "payload": {"found": "Quentin"}})
    path = f"observability/{task.slug}.ndjson"

    assert "Quentin" in task.sheaf.read(path).text
    assert task.sheaf.export(str(tmp_path / "out")).left_out == ()
    assert "Quentin" in (tmp_path / "out" / path).read_text()
    shutil.rmtree(tmp_path / "out")
    assert [commit.why for commit in task.sheaf.log(path)]
    assert task.sheaf.erase(path).gone
    assert not any(b"Quentin" in one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())
