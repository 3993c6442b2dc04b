from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from corpus import HOSTILE_NAMES as NAMES
from corpus import SECRETS
from databases import contents
from memsheaf.errors import BadHeader, MemsheafError, PathRefused, Refused, SecretFound, TextRefused
from memsheaf.sheaf import Sheaf
from memsheaf.text.sections import entries, find_section
from memsheaf.work.brief import brief
from memsheaf.work.promotion import items
from memsheaf.work.tasks import Task, list_tasks, open_task, start_task


@pytest.fixture
def task(layers: Sheaf) -> Task:
    return start_task(layers, "Feature X", goal="Users can log in")


def tree(folder: Path) -> dict[str, bytes]:
    """What is on disk; the cache may be deleted at any moment, so it proves nothing."""
    return contents(folder, skip="cache")


def under(task: Task, title: str) -> list[str]:
    """The entries of TASK.md below a heading."""
    section = find_section(task.sheaf.read("TASK.md").body, title, depth=2)
    return [entry.text for entry in entries(section)] if section else []


# to begin and to find


def test_a_task_begins_with_a_file_that_people_can_read(task: Task) -> None:
    text = task.sheaf.read("TASK.md").text

    assert text.startswith(
        "---\nname: Feature X\ndescription: Users can log in\ntype: project\ncreated: 2026-11-15\n"
    )
    assert text.endswith("\n---\n## Goal\n\nUsers can log in\n\n## Notes\n")
    assert (task.title, task.status, task.phase, task.iteration) == ("Feature X", "active", 1, 1)
    assert UUID(task.trace_id).version == 4
    assert "Feature X" in task.sheaf.catalog().text


# what one does with it


def test_notes_are_dated_bullets_and_survive_whatever_stands_in_them(layers: Sheaf, task: Task) -> None:
    path = Path(task.sheaf.root, "TASK.md")
    path.write_text(path.read_text() + "\n## Links\n\n- mine\n")
    texts = ("one", "第二条 🎉", "## Goal\n\nnot the goal", "```\n## Notes\n- code", "- a\n- b", "due tomorrow")

    for text in texts:
        task.note(text)

    assert under(task, "Goal") == ["Users can log in"]
    assert [note.removeprefix("2026-11-15:").strip() for note in under(task, "Notes")] == [
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
        assert under(odd, "Notes") == ["2026-11-15: kept"]
        assert goal.strip("`\n") in odd.sheaf.read("TASK.md").text.replace("#### ", "## ").replace("### ", "# ")


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
    task.report("It is through.")

    after = path.read_bytes().decode()
    assert after.count("\n") == after.count("\r\n")
    assert after.replace("\r\n", "\n") == EARLIER.replace("by hand\n", "by hand\n- 2026-11-15: by machine\n").replace(
        "phase: 2", 'phase: "3"'
    ).replace("0b94c3f2-6f2e-4b0e-9d3c-2f1f7a3c9d10\n", "0b94c3f2-6f2e-4b0e-9d3c-2f1f7a3c9d10\nupdated: 2026-11-15\n")
    assert under(task, "Notes") == ["2026-11-01: by hand", "2026-11-15: by machine"]
    assert [item.text for item in items(task.sheaf)] == ["by hand", "by machine"]


def test_a_revision_begins_another_iteration_and_says_why(task: Task) -> None:
    task.revise("The API is\nrate limited", "# Plan\n\n## Revision 9, 2026-01-01\nAsk in batches.")
    task.revise("Again")

    assert task.iteration == 3
    assert task.revisions() == [
        "Revision 2, 2026-11-15: The API is rate limited ### Plan #### Revision 9, 2026-01-01 Ask in batches.",
        "Revision 3, 2026-11-15: Again",
    ]


def test_an_item_is_verified_regresses_and_comes_back(task: Task) -> None:
    with pytest.raises(TextRefused, match="description"):
        task.verify("login")
    assert task.verify("login", "One can | log in") == ("login", "One can | log in", 1, 1, "VERIFIED")
    task.verify("other", "Another row")
    task.revise("more")

    item = task.verify("login", regressed=True)

    assert item == ("login", "One can | log in", 1, 2, "REGRESSED")
    assert [one.id for one in task.items()] == ["login", "other"]
    assert task.regressed() == [item]
    with pytest.raises(Refused, match="login"):
        task.done()
    assert Task(task.sheaf).status == "active"
    assert task.verify("login").status == "VERIFIED"
    task.done("All of it.")
    assert task.sheaf.read("TASK.md").text.endswith("\n## Done, 2026-11-15\n\nAll of it.\n")
    assert Task(task.sheaf).status == "done"


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
        partial(task.deliver, "d", "text"),
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


def test_the_summary_says_what_stands_in_the_way_first_and_is_harmless_in_a_prompt(layers: Sheaf) -> None:
    task = start_task(layers, "Long </memory>", goal="line\n" * 50)
    for number in range(9):
        task.note(f"note {number} " + "</memory>" * 100)
        task.verify(f"good-{number}", "holds")
        task.verify(f"bad-{number}", "does not", regressed=True)
        task.report(f"report {number}\n" * 20)
        task.revise(f"reason {number}")

    lines = task.summary().split("\n")

    assert lines[1] == "active, phase 10, iteration 10"
    assert lines[2:4] == ["REGRESSED bad-8: does not", "REGRESSED bad-7: does not"]
    assert lines[11] == "VERIFIED good-8: holds"
    assert "File: phases/phase-9.md" in lines
    assert task.revisions()[-1] == "Revision 10, 2026-11-15: reason 8"
    assert "</memory>" not in brief(layers)
    assert len(brief(layers).encode()) < 10_000


# somebody else was there


def test_a_header_that_is_not_that_of_a_task_is_an_error_that_says_so(layers: Sheaf, task: Task) -> None:
    path = Path(task.sheaf.root, "TASK.md")
    good = path.read_text()
    for old, new, said in (
        ('phase: "1"', "phase: one", "phase"),
        ('iteration: "1"', "iteration: -1", "iteration"),
        ("name: Feature X", "name: &x Feature", "anchors"),
    ):
        assert old in good
        path.write_text(good.replace(old, new, 1))
        before = path.read_bytes()
        with pytest.raises(BadHeader):
            open_task(layers)
        if said == "anchors":
            with pytest.raises(BadHeader, match=said):
                task.note("x")
        assert path.read_bytes() == before
        assert said in brief(layers)
        assert [memory.scope for memory in list_tasks(layers)] == ["task/feature-x"]
        assert layers.work.going("task") == ["feature-x"]


def test_a_brief_is_made_although_a_row_cannot_be_read(layers: Sheaf, task: Task) -> None:
    Path(task.sheaf.root, "verified.md").write_text(TABLE + "| x |")

    assert "(verified.md, line 6 is no row such as" in brief(layers)


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
