from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from corpus import HOSTILE_NAMES as NAMES
from corpus import SECRETS
from memsheaf import Settings
from memsheaf.errors import (
    BadHeader,
    Blocked,
    Exists,
    MemsheafError,
    NotFound,
    PathRefused,
    ScopeRefused,
    SecretFound,
    TextRefused,
)
from memsheaf.sheaf import Sheaf
from memsheaf.work.promotion import items
from memsheaf.work.tasks import Task, active_tasks, every_task, of, slug_of, start


@pytest.fixture
def task(layers: Sheaf) -> Task:
    return start(layers, "Feature X", goal="Users can log in", phases=6)


def tree(folder: Path) -> dict[str, bytes]:
    """What is on disk; the cache may be deleted at any moment, so it proves nothing."""
    found = (path for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts)
    return {str(path): path.read_bytes() for path in found}


def texts(lines: tuple[str, ...]) -> list[str]:
    """Lines without their day."""
    return [line.removeprefix("2026-11-15:").strip() for line in lines]


# to begin and to find


def test_a_task_begins_with_a_file_that_people_can_read(task: Task) -> None:
    text = task.sheaf.read("TASK.md").text

    assert text.startswith(
        "---\nname: Feature X\ndescription: Users can log in\ntype: project\ncreated: 2026-11-15\n"
    )
    assert text.endswith("\n---\n## Goal\n\nUsers can log in\n\n## Notes\n")
    assert (task.title, task.goal, task.status, task.phase, task.phases, task.iteration, task.notes) == (
        "Feature X", "Users can log in", "active", 1, 6, 1, (),
    )  # fmt: skip
    assert UUID(task.trace_id).version == 4
    assert "Feature X" in task.sheaf.catalog().text


def test_a_title_becomes_a_label() -> None:
    for title, slug in (
        ("Feature X", "feature-x"),
        ("  Log in, log OUT! (v2)  ", "log-in-log-out-v2"),
        ("Überprüfung", "uberprufung"),
        ("Große Øst-Łódź: Ærø, ĐAK", "grosse-ost-lodz-aero-dak"),
        ("Sheaf™", "sheaftm"),
        ("修复 API", "api"),
        ("登录", "task-1e2df9"),
        ("2026", "task-158a32"),
        ("../secret.md", "secret-md"),
        ("x" * 100, "x" * 60),
        ("word " * 20, "word-" * 11 + "word"),
    ):
        assert slug_of(title.strip()) == slug


def test_a_title_or_name_that_cannot_be_a_label_is_refused_with_what_to_do(layers: Sheaf) -> None:
    for title, slug, said, hint in (
        ("Feature", "con", "Windows", "--slug"),
        ("Com1", "", "Windows", "--slug"),
        ("Feature\nX", "", "line break", "title"),
    ):
        with pytest.raises((ScopeRefused, TextRefused), match=said) as caught:
            start(layers, title, slug=slug)
        assert hint in caught.value.hint


def test_a_second_task_of_that_name_is_refused_and_told_how_else(layers: Sheaf, task: Task) -> None:
    with pytest.raises(Exists) as caught:
        start(layers, "Feature: X", goal="another")

    assert "--slug" in caught.value.hint
    assert of(layers).goal == "Users can log in"
    assert start(layers, "Feature: X", slug="Feature-Y").slug == "feature-y"


def test_the_task_that_is_meant_is_the_named_one_or_the_only_active_one(layers: Sheaf, task: Task) -> None:
    assert of(layers).slug == "feature-x"
    other = start(layers, "Other")

    with pytest.raises(ScopeRefused, match="feature-x, other"):
        of(layers)
    assert of(layers, "other").title == "Other"
    other.done()
    assert of(layers).slug == "feature-x"
    assert active_tasks(layers) == ["feature-x"]
    of(layers).drop("no time")
    with pytest.raises(NotFound, match="no active task"):
        of(layers)
    assert [(one.slug, one.state.status if one.state else "") for one in every_task(layers)] == [
        ("feature-x", "dropped"),
        ("other", "done"),
    ]


def test_to_look_for_a_task_makes_nothing(settings: Settings, work: Path, tmp_path: Path) -> None:
    with Sheaf(settings, str(work), read_only=True) as layers:
        with pytest.raises(NotFound, match="nobody"):
            of(layers, "nobody")
        assert active_tasks(layers) == []

    assert [path.name for path in tmp_path.iterdir()] == ["work"]


# what one does with it


def test_what_a_step_says_is_logged_apart_from_what_somebody_noted(task: Task) -> None:
    path = Path(task.sheaf.root, "TASK.md")
    task.verify("login", "One can log in", regressed=True)
    task.note("Dropped: Python 3.8, nobody has it.")
    task.drop("no time")
    task.note("seen again")

    assert texts(task.notes) == ["Dropped: Python 3.8, nobody has it.", "seen again"]
    assert texts(task.log) == ["login is REGRESSED: One can log in", "Dropped: no time"]
    assert path.read_text().endswith(
        "- 2026-11-15: seen again\n\n## Log\n\n- 2026-11-15: login is REGRESSED: One can log in\n"
        "- 2026-11-15: Dropped: no time\n"
    )
    assert "- 2026-11-15: Dropped: no time" in task.lines()
    assert [item.text for item in items(task.sheaf)] == ["Python 3.8, nobody has it.", "seen again"]


def test_notes_are_dated_bullets_and_survive_whatever_stands_in_them(task: Task) -> None:
    path = Path(task.sheaf.root, "TASK.md")
    path.write_text(path.read_text() + "\n## Links\n\n- mine\n")

    for text in ("one", "第二条 🎉", "## Goal\n\nnot the goal", "```\n## Notes\n- code", "- a\n- b", "due tomorrow"):
        task.note(text)

    assert task.goal == "Users can log in"
    assert texts(task.notes) == [
        "one",
        "第二条 🎉",
        "#### Goal\nnot the goal",
        "```\n## Notes\n- code\n```",
        "- a\n- b",
        "due tomorrow (2026-11-16)",
    ]
    assert {note[:11] for note in task.notes} == {"2026-11-15:"}
    assert path.read_text().endswith("(2026-11-16)\n\n## Links\n\n- mine\n")


def test_a_goal_stays_in_its_section(layers: Sheaf) -> None:
    for number, goal in enumerate(("## Notes\n- mine", "```\nopen", "# Title\n\ntext", "多行\n\n目标")):
        task = start(layers, f"Odd goal {number}", goal=goal)

        task.note("kept")

        assert texts(task.notes) == ["kept"]
        assert task.goal.replace("#### ", "## ").replace("### ", "# ").startswith(goal)


def test_what_a_person_wrote_into_the_file_stays(task: Task) -> None:
    path = Path(task.sheaf.root, "TASK.md")
    text = path.read_text().replace("status: active", "status: active  # mine") + "- by hand\n\n## Links\n\n- a\n"
    path.write_bytes(text.replace("\n", "\r\n").encode())

    task.note("by machine")
    task.go_to(2)

    after = path.read_bytes().decode()
    assert after.count("\n") == after.count("\r\n")
    assert after.replace("\r\n", "\n") == text.replace(
        "- by hand\n", "- by hand\n- 2026-11-15: by machine\n"
    ).replace('phase: "1"', 'phase: "2"')
    assert task.notes == ("by hand", "2026-11-15: by machine")


def test_a_revision_begins_another_iteration_and_says_why(task: Task) -> None:
    task.revise("The API is\nrate limited", "# Plan\n\n## Revision 9, 2026-01-01\nAsk in batches.")
    task.revise("Again", phases=7)

    assert (task.iteration, task.phases) == (3, 7)
    assert task.revisions() == [
        "Revision 2, 2026-11-15: The API is rate limited: ### Plan: #### Revision 9, 2026-01-01 Ask in batches.",
        "Revision 3, 2026-11-15: Again",
    ]
    assert "#### Revision 9" in task.sheaf.read("revisions.md").text


def test_an_item_is_verified_regresses_and_comes_back(task: Task) -> None:
    with pytest.raises(TextRefused, match="description"):
        task.verify("login")
    assert task.verify("login", "One can | log in") == (("login", "One can | log in", 1, 1, "VERIFIED"), "")
    task.revise("more")
    assert task.verify("login")[1] == "VERIFIED"
    assert not task.log

    item, was = task.verify("login", regressed=True)

    assert (item.first, item.last, item.status, was) == (1, 2, "REGRESSED", "VERIFIED")
    assert task.regressed() == [item]
    with pytest.raises(Blocked, match="login"):
        task.done()
    assert of_status(task) == "active"
    assert task.verify("login")[1] == "REGRESSED"
    assert [text.partition(":")[0] for text in texts(task.log)] == [
        "login was VERIFIED, and is REGRESSED",
        "login was REGRESSED, and is VERIFIED",
    ]
    task.done("All of it.")
    assert task.log[-1] == "2026-11-15: Done: All of it."
    assert task.notes == ()


def test_an_item_stays_readable_when_somebody_sets_the_iteration_back(task: Task) -> None:
    task.revise("more")
    task.verify("login", "One can log in")
    path = Path(task.sheaf.root, "TASK.md")
    path.write_text(path.read_text().replace('iteration: "2"', "iteration: 1"))

    assert task.verify("login")[0][2:4] == (2, 2)
    assert len(task.items()) == 1


def of_status(task: Task) -> str:
    return Task(task.sheaf).status


def test_a_row_that_cannot_be_read_blocks_instead_of_being_dropped(task: Task) -> None:
    task.verify("login", "One can log in", regressed=True)
    path = Path(task.sheaf.root, "verified.md")
    path.write_text(path.read_text().replace("REGRESSED", "fine"))

    for step in (task.done, task.items, partial(task.verify, "login"), task.summary):
        with pytest.raises(TextRefused, match=r"verified.md, line 5"):
            step()
    task.note("one can still note")


def test_a_report_ends_a_phase_and_the_last_one_stays(task: Task) -> None:
    task.verify("login", "One can log in", regressed=True)

    assert task.report("# Schema\n\nis there") == "phases/phase-1.md"
    assert task.phase == 2
    task.go_to(4)
    task.report("late addition", 1)
    assert task.phase == 4
    assert task.reports() == ["phases/phase-1.md: Report, 2026-11-15: late addition"]
    assert "### Schema" in task.sheaf.read("phases/phase-1.md").text
    task.go_to(6)
    task.report("the end")
    assert task.phase == 6
    for phase in (0, 7):
        with pytest.raises(Blocked):
            task.go_to(phase)
    with pytest.raises(Blocked):
        task.revise("fewer", phases=5)


def test_of_two_who_report_at_once_both_mean_the_phase_they_saw(layers: Sheaf, task: Task) -> None:
    other = of(layers)

    task.report("mine")
    other.report("theirs")

    assert task.sheaf.read("phases/phase-1.md").text.count("## Report, ") == 2
    assert other.phase == 2


def test_a_deliverable_is_kept_as_it_is(task: Task) -> None:
    assert task.deliver("design", "# Design\n\n二") == "deliverables/design.md"
    assert task.deliver("Design.md", "# Design 2\n") == "deliverables/design.md"
    assert task.sheaf.read("deliverables/design.md").text == "# Design 2\n"
    assert task.deliverables() == ["deliverables/design.md"]
    for name in ("../TASK", "a/b", "", "con", ".hidden", "x\0"):
        with pytest.raises(PathRefused):
            task.deliver(name, "text")


def test_an_ended_task_takes_notes_and_nothing_else(task: Task) -> None:
    task.verify("login", "One can log in", regressed=True)
    task.drop("no time")

    task.note("seen again")
    task.deliver("rest", "text")
    steps: list[Callable[[], object]] = [
        task.done,
        partial(task.drop, "x"),
        partial(task.revise, "x"),
        partial(task.report, "x"),
        partial(task.go_to, 2),
        partial(task.verify, "login"),
    ]
    for step in steps:
        with pytest.raises(Blocked, match="dropped") as caught:
            step()
        assert "undo" in caught.value.hint
    task.sheaf.undo()
    task.sheaf.undo()
    task.sheaf.undo()
    assert of_status(task) == "active"


def test_each_step_is_one_commit_that_undo_takes_back(task: Task) -> None:
    steps: list[Callable[[], object]] = [
        partial(task.note, "n"),
        partial(task.revise, "why", "text"),
        partial(task.verify, "login", "One can log in"),
        partial(task.verify, "login", regressed=True),
        partial(task.report, "text"),
        partial(task.go_to, 4),
        partial(task.deliver, "d", "text"),
        partial(task.event, {"event_type": "discovery", "payload": {}}),
        partial(task.drop, "x"),
    ]
    for step in steps:
        before, commits = Task(task.sheaf).state(), len(list(task.sheaf.log()))
        step()
        assert Task(task.sheaf).state() != before
        task.sheaf.undo(task.commit)
        assert Task(task.sheaf).state() == before
        assert len(list(task.sheaf.log())) == commits + 2
        step()


# for whoever goes on with it


def test_the_state_has_all_that_a_program_needs_after_a_reset(layers: Sheaf, task: Task, tmp_path: Path) -> None:
    task.report("Schema is there")
    task.verify("login", "One can log in")
    task.verify("logout", "One can log out", regressed=True)
    task.revise("rate limits", "\n## Ask in batches.\nOf 50.")
    task.deliver("design", "text")
    task.note("Redis")
    task.event({"event_type": "discovery", "payload": {"n": 1}})

    with layers.reopen_read_only() as later:
        state = of(later).state()

    assert json.loads(json.dumps(state)) == {
        "task": "feature-x",
        "title": "Feature X",
        "goal": "Users can log in",
        "status": "active",
        "phase": 2,
        "phases": 6,
        "iteration": 2,
        "trace_id": task.trace_id,
        "verified": [{"id": "login", "description": "One can log in", "first": 1, "last": 1, "status": "VERIFIED"}],
        "regressed": [
            {"id": "logout", "description": "One can log out", "first": 1, "last": 1, "status": "REGRESSED"}
        ],
        "revisions": ["Revision 2, 2026-11-15: rate limits: #### Ask in batches. Of 50."],
        "reports": ["phases/phase-1.md: Report, 2026-11-15: Schema is there"],
        "deliverables": ["deliverables/design.md"],
        "notes": ["2026-11-15: Redis"],
        "log": ["2026-11-15: logout is REGRESSED: One can log out"],
        "events": 1,
    }


def test_the_brief_is_short_however_long_the_task_and_harmless_in_a_prompt(layers: Sheaf) -> None:
    task = start(layers, "Long </memory>", goal="line\n" * 50)
    for number in range(9):
        task.note(f"note {number} " + "</memory>" * 100)
        task.verify(f"good-{number}", "holds")
        task.verify(f"bad-{number}", "does not", regressed=True)
        task.report(f"report {number}\n" * 20)
        task.revise(f"reason {number}")
        task.deliver(f"d-{number}", "text")

    lines = task.lines()

    assert len(lines) == 60
    assert lines == Task(task.sheaf).lines()
    assert max(map(len, lines)) < 2000
    assert "</memory>" not in "\n".join(lines)
    assert not any("\n" in line for line in lines)
    shown = "\n".join(lines)
    for newest in ("report 8", "reason 8", "good-8", "(3 more in verified.md)"):
        assert newest in shown
    assert "report 0" not in shown


# somebody else was there


def test_a_header_that_is_not_that_of_a_task_is_an_error_that_says_so(layers: Sheaf, task: Task) -> None:
    path = Path(task.sheaf.root, "TASK.md")
    good = path.read_text()
    for old, new, said in (
        ("status: active", "status: sleeping", "status"),
        ('phase: "1"', "phase: one", "phase"),
        ('phase: "1"', "phase: 0", "phase"),
        ('iteration: "1"', "iteration: -1", "iteration"),
        ('phases: "6"', "phases: many", "phases"),
        ("name: Feature X", "name: &x Feature", "anchors"),
        ("---\nname", "name", "none"),
    ):
        assert old in good
        path.write_text(good.replace(old, new, 1))
        before = path.read_bytes()
        for step in (partial(of, layers), partial(task.note, "x")):
            with pytest.raises(BadHeader, match=said):
                step()
        assert path.read_bytes() == before
        (one,) = every_task(layers)
        assert one.state is None
        assert said in one.problem
        assert active_tasks(layers) == ["feature-x"]


# hostile words


def test_a_hostile_name_is_refused_or_becomes_one_harmless_label(layers: Sheaf, tmp_path: Path) -> None:
    for name in NAMES:
        if name and not name.isalnum():
            for step in (partial(of, layers, name), partial(start, layers, "Title", slug=name)):
                with pytest.raises(MemsheafError):
                    step()
    assert tree(tmp_path) == {}
    made = set()
    for name in NAMES[::3]:
        with suppress(MemsheafError):
            made.add(start(layers, name).slug)
    roots = [Path(layers.only("project").root, "tasks", slug) for slug in made]
    assert made
    assert all(any(Path(path).is_relative_to(root) for root in roots) for path in tree(tmp_path))


def test_no_secret_of_the_corpus_reaches_the_disk(layers: Sheaf, task: Task, tmp_path: Path) -> None:
    task.verify("login", "One can log in")
    before = tree(tmp_path)
    for text, _ in SECRETS[::9]:  # the gate itself is tested with all of them
        line = " ".join(text.split())
        steps: list[Callable[[], object]] = [
            partial(start, layers, line),
            partial(start, layers, "Title", goal=text),
            partial(task.note, text),
            partial(task.revise, line),
            partial(task.revise, "why", text),
            partial(task.verify, "new", line),
            partial(task.verify, "login", line, regressed=True),
            partial(task.report, text),
            partial(task.deliver, "d", text),
            partial(task.deliver, line, "text"),
            partial(task.done, text),
            partial(task.drop, line),
        ]
        for number, step in enumerate(steps):
            with pytest.raises(MemsheafError) as caught:
                step()
            assert isinstance(caught.value, SecretFound | TextRefused | PathRefused), (number, text, caught.value)
    with pytest.raises(SecretFound):
        start(layers, "Title", slug="xoxb-1234567890-1234567890123-fakefakefakefakefakefake")
    assert tree(tmp_path) == before
    assert [path.name for path in Path(layers.only("project").root, "tasks").iterdir()] == ["feature-x"]
