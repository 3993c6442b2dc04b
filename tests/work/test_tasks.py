from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from corpus import HOSTILE_NAMES as NAMES
from corpus import SECRETS
from memsheaf.errors import BadHeader, MemsheafError, PathRefused, Refused, SecretFound, TextRefused
from memsheaf.sheaf import Sheaf
from memsheaf.work.brief import brief
from memsheaf.work.promotion import items
from memsheaf.work.tasks import Task, list_tasks, open_task, start_task


@pytest.fixture
def task(layers: Sheaf) -> Task:
    return start_task(layers, "Feature X", goal="Users can log in", phases=6)


def tree(folder: Path) -> dict[str, bytes]:
    """What is on disk; the cache may be deleted at any moment, so it proves nothing."""
    found = (path for path in folder.rglob("*") if path.is_file() and "cache" not in path.parts)
    return {str(path): path.read_bytes() for path in found}


# to begin and to find


def test_a_task_begins_with_a_file_that_people_can_read(task: Task) -> None:
    text, now = task.sheaf.read("TASK.md").text, task.now

    assert text.startswith(
        "---\nname: Feature X\ndescription: Users can log in\ntype: project\ncreated: 2026-11-15\n"
    )
    assert text.endswith("\n---\n## Goal\n\nUsers can log in\n\n## Notes\n")
    assert (now.title, now.goal, now.status, now.notes) == ("Feature X", "Users can log in", "active", [])
    assert (now.phase, now.phases, now.iteration) == (1, 6, 1)
    assert UUID(now.trace_id).version == 4
    assert "Feature X" in task.sheaf.catalog().text


# what one does with it


def test_notes_are_dated_bullets_and_survive_whatever_stands_in_them(layers: Sheaf, task: Task) -> None:
    path = Path(task.sheaf.root, "TASK.md")
    path.write_text(path.read_text() + "\n## Links\n\n- mine\n")
    texts = ("one", "第二条 🎉", "## Goal\n\nnot the goal", "```\n## Notes\n- code", "- a\n- b", "due tomorrow")

    for text in texts:
        task.note(text)

    assert task.now.goal == "Users can log in"
    assert [note.removeprefix("2026-11-15:").strip() for note in task.now.notes] == [
        "one",
        "第二条 🎉",
        "#### Goal\n\nnot the goal",
        "```\n## Notes\n- code\n```",
        "- a\n- b",
        "due tomorrow (2026-11-16)",
    ]
    assert path.read_text().endswith("(2026-11-16)\n\n## Links\n\n- mine\n")
    for number, goal in enumerate(("## Notes\n- mine", "```\nopen", "# Title\n\ntext", "多行\n\n目标")):
        odd = start_task(layers, f"Odd goal {number}", goal=goal)
        odd.note("kept")
        assert odd.now.notes == ["2026-11-15: kept"]
        assert odd.now.goal.replace("#### ", "## ").replace("### ", "# ").startswith(goal)


EARLIER = """---
name: Feature X
description: Users can log in
type: project
created: 2026-11-01
status: active  # mine
phase: 2
iteration: 1
trace_id: 0b94c3f2-6f2e-4b0e-9d3c-2f1f7a3c9d10
---
## Goal

Users can log in

## Notes

- 2026-11-01: by hand

## Log

- 2026-11-01: login is REGRESSED: One can log in

## Links

- a
"""


def test_a_file_of_an_earlier_version_is_appended_to_and_not_rewritten(task: Task) -> None:
    path = Path(task.sheaf.root, "TASK.md")
    path.write_bytes(EARLIER.replace("\n", "\r\n").encode())

    task.note("by machine")
    task.go_to(3)

    after = path.read_bytes().decode()
    assert after.count("\n") == after.count("\r\n")
    assert after.replace("\r\n", "\n") == EARLIER.replace("by hand\n", "by hand\n- 2026-11-15: by machine\n").replace(
        "phase: 2", 'phase: "3"'
    ).replace("0b94c3f2-6f2e-4b0e-9d3c-2f1f7a3c9d10\n", "0b94c3f2-6f2e-4b0e-9d3c-2f1f7a3c9d10\nupdated: 2026-11-15\n")
    assert task.now.notes == ["2026-11-01: by hand", "2026-11-15: by machine"]
    assert [item.text for item in items(task.sheaf)] == ["by hand", "by machine"]


def test_a_revision_begins_another_iteration_and_says_why(task: Task) -> None:
    task.revise("The API is\nrate limited", "# Plan\n\n## Revision 9, 2026-01-01\nAsk in batches.")
    task.revise("Again")

    assert task.now.iteration == 3
    assert task.revisions() == [
        "Revision 2, 2026-11-15: The API is rate limited: ### Plan: #### Revision 9, 2026-01-01 Ask in batches.",
        "Revision 3, 2026-11-15: Again",
    ]


def test_an_item_is_verified_regresses_and_comes_back(task: Task) -> None:
    with pytest.raises(TextRefused, match="description"):
        task.verify("login")
    assert task.verify("login", "One can | log in") == (("login", "One can | log in", 1, 1, "VERIFIED"), "")
    task.revise("more")
    assert task.verify("login")[1] == "VERIFIED"

    item, was = task.verify("login", regressed=True)

    assert (item.first, item.last, item.status, was) == (1, 2, "REGRESSED", "VERIFIED")
    assert task.regressed() == [item]
    with pytest.raises(Refused, match="login"):
        task.done()
    assert Task(task.sheaf).now.status == "active"
    assert task.verify("login")[1] == "REGRESSED"
    task.done("All of it.")
    assert task.sheaf.read("TASK.md").text.endswith("\n## Done, 2026-11-15\n\nAll of it.\n")
    assert task.now.notes == []


TABLE = """# Verified

| id | description | first | last | status |
|---|---|---|---|---|
| login | One can log in | 1 | 1 | VERIFIED |
"""


def test_a_row_that_cannot_be_read_blocks_instead_of_being_dropped(task: Task) -> None:
    path = Path(task.sheaf.root, "verified.md")
    for row in (
        "| x | d | 1 | 1 |", "| x | a | b | 1 | 1 | VERIFIED |", "| x | d | 1 | 1 | VERIFIED", "|",
        "x | d | 1 | 1 | VERIFIED |", "| x | d | 1 | 1 | verified |", "| x |  | 1 | 1 | VERIFIED |",
        "| | d | 1 | 1 | VERIFIED |", "| a b | d | 1 | 1 | VERIFIED |", "| x | d | 0 | 1 | VERIFIED |",
        "| x | d | 1 | ² | VERIFIED |", "| login | again | 1 | 1 | VERIFIED |",
    ):  # fmt: skip
        path.write_text(TABLE + row)
        for step in (task.done, task.items, partial(task.verify, "login"), task.summary):
            with pytest.raises(TextRefused, match=r"verified.md, line 6"):
                step()
    task.note("one can still note")


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


def test_the_brief_is_short_however_long_the_task_and_harmless_in_a_prompt(layers: Sheaf) -> None:
    task = start_task(layers, "Long </memory>", goal="line\n" * 50)
    for number in range(9):
        task.note(f"note {number} " + "</memory>" * 100)
        task.verify(f"good-{number}", "holds")
        task.verify(f"bad-{number}", "does not", regressed=True)
        task.report(f"report {number}\n" * 20)
        task.revise(f"reason {number}")
        task.deliver(f"d-{number}", "text")

    lines = task.summary()

    assert len(lines) <= 60
    assert "</memory>" not in brief(layers)
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
        ('iteration: "1"', "iteration: -1", "iteration"),
        ('phases: "6"', "phases: many", "phases"),
        ("name: Feature X", "name: &x Feature", "anchors"),
        ("---\nname", "name", "none"),
    ):
        assert old in good
        path.write_text(good.replace(old, new, 1))
        before = path.read_bytes()
        for step in (partial(open_task, layers), partial(task.note, "x")):
            with pytest.raises(BadHeader, match=said):
                step()
        assert path.read_bytes() == before
        ((_, state, problem),) = list_tasks(layers)
        assert state is None
        assert said in problem
        assert layers.work.going("task") == ["feature-x"]


# hostile words


def test_a_hostile_name_is_refused_or_becomes_one_harmless_label(layers: Sheaf, tmp_path: Path) -> None:
    for name in NAMES:
        if name and not name.isalnum():
            for step in (partial(open_task, layers, name), partial(start_task, layers, "Title", slug=name)):
                with pytest.raises(MemsheafError):
                    step()
    assert tree(tmp_path) == {}
    made = set()
    for name in NAMES[::3]:
        with suppress(MemsheafError):
            made.add(start_task(layers, name).slug)
    roots = [Path(layers.only("project").root, "tasks", slug) for slug in made]
    assert made
    assert all(any(Path(path).is_relative_to(root) for root in roots) for path in tree(tmp_path))


def test_no_secret_of_the_corpus_reaches_the_disk(layers: Sheaf, task: Task, tmp_path: Path) -> None:
    task.verify("login", "One can log in")
    before = tree(tmp_path)
    for text, _ in SECRETS[::9]:  # the gate itself is tested with all of them
        line = " ".join(text.split())
        steps: list[Callable[[], object]] = [
            partial(start_task, layers, line),
            partial(start_task, layers, "Title", goal=text),
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
        start_task(layers, "Title", slug="xoxb-1234567890-1234567890123-fakefakefakefakefakefake")
    assert tree(tmp_path) == before
