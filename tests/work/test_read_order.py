"""In which order layers are asked, and what is said where it is not clear which one is meant."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from memsheaf import Message, Row, Settings, Sheaf, Turn
from memsheaf.errors import Changed, Ref
from memsheaf.sheaf import forget_together
from memsheaf.work import sessions, tasks
from memsheaf.work.brief import brief, compact
from memsheaf.work.notes import BLOCKERS, OBJECTIVE, set_notes

TEXT = "The zebra service runs in {}."


@pytest.fixture
def layers(layers: Sheaf) -> Sheaf:
    tasks.start_task(layers, "Feature X")
    sessions.start_session(layers, "Now", id="now")
    for scope in ("user", "project", "session/now", "task/feature-x"):
        layers.only(scope).write("Zebra", "Where the zebra service runs", "project", TEXT.format(scope))
    return layers


def test_a_search_asks_task_session_project_and_user_and_says_which(layers: Sheaf) -> None:
    found = layers.search("zebra service")

    assert [one.memory.name for one in found] == ["Zebra"] * 4
    assert [one.ref.scope for one in found] == layers.scopes()


def test_a_recall_over_all_layers_has_the_nearest_of_equals_first(layers: Sheaf) -> None:
    found = layers.session().recall("where does the zebra service run?")

    assert [one.scope for one in found.memories] == ["task/feature-x", "session/now", "project", "user"]


def test_what_a_conversation_teaches_goes_to_the_project(layers: Sheaf) -> None:
    session = layers.session()
    session.recall("where does the zebra service run?")

    assert session.learn(
        Turn("c", (Message("user", "Remember that we ship on Fridays."), Message("assistant", "Ok.")))
    )

    assert layers.only("project").distil().turns == 1
    assert layers.only("project").search("Fridays")
    assert not layers.only("task/feature-x").search("Fridays")


def test_the_prompt_of_the_layers_holds_no_notes_of_a_task_or_a_session(layers: Sheaf) -> None:
    prompt = layers.session().prompt()

    assert "scope\n`project`" in prompt or "`project`" in prompt
    assert "`user`" in prompt
    assert "Feature X" not in prompt
    assert "session.md" not in prompt


def test_the_brief_says_what_was_noted_and_leaves_out_the_rest_of_the_template(layers: Sheaf) -> None:
    assert "session/now" not in brief(layers)
    sessions.open_session(layers).note("Redis is needed", section="key")

    told = brief(layers)

    assert "# session/now: Now\n\n## Key Results\n- Redis is needed\n" in told
    assert "Files and Functions" not in told


def test_a_compacted_conversation_keeps_what_the_layers_say(layers: Sheaf) -> None:
    set_notes(layers.only("project"), {OBJECTIVE: "Ship it", BLOCKERS: "Staging is down"})
    task = tasks.open_task(layers)
    task.revise("Anna approved batches")
    talk = [Message("user", f"step {number} " + "x" * 4_000) for number in range(60)]

    done = compact(layers, talk, 20_000)

    assert done.fits
    for piece in ("Phase: 1", "Staging is down", "Anna approved batches", "Ship it", "task/feature-x", "session/now"):
        assert piece in done.text, piece


def select(sheaf: Sheaf, kinds: tuple[str, ...]) -> list[Row]:
    return [row for row in sheaf.list() if row.type in kinds]


def versions(rows: Sequence[Row]) -> list[tuple[Ref, str]]:
    return [(row.ref, row.version) for row in rows]


@pytest.fixture
def both(settings: Settings, work: Path) -> Iterator[Sheaf]:
    """Project and user, at a clock that goes on."""
    ticks = itertools.count(1_794_744_000.0)
    with Sheaf.open(settings=settings, cwd=str(work), by="user", clock=lambda: next(ticks)) as layers:
        layers.only("user").write("Tea", "Drinks", "user", "The user drinks green tea.")
        yield layers


def test_many_memories_are_forgotten_as_one_commit_a_scope_and_one_undo_brings_them_back(both: Sheaf) -> None:
    both.only("user").write("Tabs", "Indentation", "user", "The user indents with tabs.")
    both.only("project").write("Tea time", "Breaks", "feedback", "No meeting at tea time.")
    both.only("user").put("CONTEXT.md", "Be brief.", free=True)
    before = sorted(row.path for row in both.list())
    rows = select(both, ("feedback",))
    assert sorted(row.path for row in rows) == ["feedback_tea-time.md"]

    commits = forget_together(both, versions(select(both, ("user", "feedback"))), why="forget all about me")

    assert [len(one.revisions) for one in commits] == [1, 2]
    assert [str(one.ref) for one in both.list() if one.type != "project"] == ["user:CONTEXT.md"]
    undone = both.undo()
    assert {commit.scope for commit in undone} == {"project", "user"}
    assert sum(len(commit.revisions) for commit in undone) == 3
    assert sorted(row.path for row in both.list()) == before


def test_what_changed_since_it_was_selected_is_not_forgotten(both: Sheaf) -> None:
    tabs = both.only("user").write("Tabs", "Indentation", "user", "The user indents with tabs.")
    rows = select(both, ("user",))
    both.only("user").revise(tabs.path, "tabs", "spaces")

    with pytest.raises(Changed, match=r"user:user_tabs\.md"):
        forget_together(both, versions(rows))

    assert len(select(both, ("user",))) == 2


def test_one_undo_takes_back_no_other_commit_of_another_scope(both: Sheaf) -> None:
    both.only("project").write("Port", "Where it listens", "project", "The dev server listens on 3000.")
    forget_together(both, versions(select(both, ("user",))))

    assert [commit.scope for commit in both.undo()] == ["user"]
    assert both.read("project_port.md")
