"""Promotion: what a session or a task found, the checklist, and the way up."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from corpus import SECRETS
from memsheaf.config import Settings
from memsheaf.errors import MemsheafError, NotFound, Refused, ScopeRefused
from memsheaf.memory import Memory
from memsheaf.sheaf import Sheaf
from memsheaf.work import sessions, tasks
from memsheaf.work.promotion import (
    UNDECIDED,
    Examination,
    PromotionChoice,
    PromotionItem,
    examine,
    items,
    promote,
    sources,
)
from memsheaf.worktree import WorkingTree

PUSH = "`make check` runs before each push"
FRIDAY = "Releases go out on Fridays"


@pytest.fixture
def layers(layers: Sheaf, work: Path) -> Sheaf:
    """A session and a task, in a working tree with two files that can be cited."""
    (work / "docs").mkdir()
    (work / "Makefile").write_text("check:\n\tpytest\n")
    (work / "docs" / "release.md").write_text("Fridays.\n")
    sessions.start_session(layers, "Work", id="s1")
    tasks.start_task(layers, "Feature X")
    return layers


@pytest.fixture
def tree(work: Path) -> Iterator[WorkingTree]:
    with WorkingTree(str(work)) as tree:
        yield tree


def noted(layers: Sheaf, text: str, section: str = "Key Results") -> PromotionItem:
    """The item that a note in the session makes."""
    sessions.open_session(layers, "s1").note(text, section=section)
    return items(layers.only("session/s1"))[-1 if section == "Key Results" else 0]


def complete(item: PromotionItem) -> PromotionItem:
    """The item with what a fact of the project needs."""
    return item._replace(subject="Test command", citations=("Makefile:2",), reason="CI runs the same")


def verdicts(found: Examination) -> dict[str, str]:
    return {step.name: step.verdict for step in found.steps}


def said_of(found: Examination, name: str) -> str:
    return next(step.said for step in found.steps if step.name == name)


def up(layers: Sheaf, item: PromotionItem, to: str = "project", choice: PromotionChoice = UNDECIDED) -> Memory:
    return promote(item, layers.only(item.scope), layers.only(to), choice=choice)


# what is offered


def test_the_key_notes_of_a_session_and_the_notes_of_a_task_are_offered(layers: Sheaf) -> None:
    session = sessions.open_session(layers, "s1")
    session.note("a key result", section="Key Results")
    session.note("an error", section="Errors")
    session.note("some work")
    session.note("where it stands", section="Current", replace=True)
    tasks.open_task(layers).note("what the task found")
    layers.only("task/feature-x").write("Redis", "Where sessions live", "project", "Sessions live in Redis.")
    tasks.open_task(layers).deliver("plan", "---\nname: n\ndescription: d\ntype: project\n---\nThe plan.\n")
    tasks.open_task(layers).report("The schema is there.")

    found = [(item.origin, item.text) for scope in sources(layers) for item in items(layers.only(scope))]

    assert found == [
        ("session/s1 session.md Errors & Corrections", "an error"),
        ("session/s1 session.md Key Results", "a key result"),
        ("task/feature-x TASK.md Notes", "what the task found"),
    ]


# the checklist


def test_what_is_about_the_person_goes_to_the_user_and_not_to_the_project(layers: Sheaf) -> None:
    item = noted(layers, "I prefer short answers")._replace(kind="user")

    found = examine(item, layers.only("project"))
    assert verdicts(found)["type"] == "stop"
    assert said_of(found, "type").endswith("--to user")
    assert examine(item, layers.only("user")).recommend == "yes"


def test_nothing_is_stopped_for_how_it_is_worded(layers: Sheaf) -> None:
    for text in (
        "Use the old endpoint for now",
        "PR #12 was merged in phase 2 of this task",
        "First stop the workers, then migrate, finally start them",
        "本任务暂时关闭登录校验。",
    ):
        assert examine(noted(layers, text), layers.only("user")).recommend == "yes"


def test_the_five_fields_have_to_be_complete_for_the_project(layers: Sheaf, tree: WorkingTree) -> None:
    bare = noted(layers, "Releases go out on Fridays")

    found = examine(bare, layers.only("project"))
    assert (verdicts(found)["five fields"], found.recommend) == ("ask", "defer")
    whole = bare._replace(subject="Releases", citations=("docs/release.md:1",), reason="customers ask")
    assert examine(whole, layers.only("project"), tree=tree).recommend == "yes"
    gone = whole._replace(citations=("docs/gone.md:1",))
    assert examine(gone, layers.only("project"), tree=tree).recommend == "defer"
    long = whole._replace(text="x" * 501)
    assert examine(long, layers.only("project"), tree=tree).recommend == "defer"
    with pytest.raises(Refused, match="five fields"):
        up(layers, bare, choice=PromotionChoice(anyway="I insist"))


# the way up


def test_a_note_becomes_a_fact_with_hashes_and_is_marked_where_it_was_noted(layers: Sheaf, tree: WorkingTree) -> None:
    sessions.open_session(layers, "s1").note(f"{PUSH}, and more", section="Worklog")
    item = noted(layers, PUSH)
    before = sessions.open_session(layers, "s1").memory.text

    memory = promote(complete(item), layers.only("session/s1"), layers.only("project"), tree=tree)

    assert (memory.path, memory.name) == ("facts/project_test-command.md", "Test command")
    assert memory.body == f"{PUSH}\n"
    assert memory.citations[0].startswith("Makefile:2@")
    assert memory.reason == "CI runs the same"
    after = before.replace(f"- {PUSH}\n", f"- {PUSH} (promoted: facts/project_test-command.md)\n")
    assert sessions.open_session(layers, "s1").memory.text == after
    assert items(layers.only("session/s1")) == []


def test_it_climbs_from_session_to_task_to_project(layers: Sheaf) -> None:
    assert up(layers, noted(layers, FRIDAY), "task/feature-x").path == "TASK.md"
    assert "(promoted: task/feature-x TASK.md)" in sessions.open_session(layers, "s1").body
    assert items(layers.only("session/s1")) == []

    (item,) = items(layers.only("task/feature-x"))
    assert item.text == FRIDAY
    fact = up(layers, complete(item)._replace(subject="Releases"))

    assert fact.path == "facts/project_releases.md"
    assert items(layers.only("task/feature-x")) == []


def test_both_sides_can_be_taken_back(layers: Sheaf) -> None:
    item = noted(layers, PUSH)
    up(layers, complete(item))

    layers.only("project").undo()
    layers.only("session/s1").undo()

    assert list(layers.only("project").list()) == []
    assert items(layers.only("session/s1")) == [item]


def test_what_is_there_already_is_skipped_and_what_is_on_the_same_is_asked_about(layers: Sheaf) -> None:
    item = complete(noted(layers, PUSH))
    up(layers, item)
    layers.only("session/s1").undo()  # as if a crash had come between the two

    found = examine(item, layers.only("project"))
    assert (verdicts(found)["duplicate"], found.recommend) == ("stop", "no")
    other = item._replace(text="`make test` runs before each push")
    found = examine(other, layers.only("project"))
    assert (verdicts(found)["duplicate"], found.recommend) == ("ask", "defer")
    assert said_of(found, "duplicate").startswith("facts/project_test-command.md is on the same")
    assert "-`make check` runs before each push" in found.diff

    corrected = up(layers, other, choice=PromotionChoice("facts/project_test-command.md"))

    assert corrected.supersedes == ("facts/project_test-command.md",)
    assert [row.path for row in layers.only("project").list()] == [corrected.path]


def test_several_who_promote_the_same_note_at_once_make_one_fact_and_one_mark(
    layers: Sheaf, settings: Settings, work: Path
) -> None:
    item = complete(noted(layers, PUSH))
    start = Barrier(3)

    def promote_it(_: int) -> str:
        with Sheaf.open(settings=settings, cwd=str(work), by="user") as own:
            source, target = own.only("session/s1"), own.only("project")
            start.wait(60)
            try:
                return promote(item, source, target).path
            except MemsheafError as error:
                return type(error).__name__

    with ThreadPoolExecutor(3) as pool:
        answers = set(pool.map(promote_it, range(3)))

    assert "facts/project_test-command.md" in answers
    assert answers <= {"facts/project_test-command.md", "Refused", "Duplicate", "Exists", "Changed"}
    assert [row.path for row in layers.only("project").list()] == ["facts/project_test-command.md"]
    assert sessions.open_session(layers, "s1").memory.text.count("(promoted:") == 1


# what may not move


def test_nothing_is_promoted_sideways_or_to_a_task_that_is_not_there(layers: Sheaf) -> None:
    item = noted(layers, FRIDAY)
    before = sessions.open_session(layers, "s1").memory.text

    with pytest.raises(NotFound, match="there is no task 'nothing'"):
        up(layers, item, "task/nothing")
    for to in ("session/s1", "agent/researcher"):
        with pytest.raises(ScopeRefused):
            up(layers, item, to)
    tasks.start_task(layers, "Feature Y")
    with pytest.raises(ScopeRefused):
        promote(item, layers.only("task/feature-x"), layers.only("task/feature-y"))
    with pytest.raises(ScopeRefused):
        promote(item, layers.only("project"), layers.only("user"))
    assert sessions.open_session(layers, "s1").memory.text == before
    assert not Path(layers.only("project").root, "tasks", "nothing").exists()


def test_only_a_person_who_says_so_gives_something_to_a_team(layers: Sheaf, settings: Settings, work: Path) -> None:
    item = noted(layers, FRIDAY)
    said_yes = PromotionChoice(confirmed=True)

    with pytest.raises(Refused, match="a person has to say --yes"):
        up(layers, item, "team/core")
    for by in ("agent", "extraction", "mcp"):
        with Sheaf.open(settings=settings, cwd=str(work), by=by) as machine, pytest.raises(Refused, match="person"):
            up(machine, item, "team/core", said_yes)
    assert not Path(settings.home, "team").exists()

    memory = up(layers, item, "team/core", said_yes)

    assert layers.only("team/core").read(memory.path).body == f"{FRIDAY}\n"
    assert f"(promoted: team/core {memory.path})" in sessions.open_session(layers, "s1").memory.text


def test_a_team_gets_nothing_about_a_person_and_feedback_only_as_a_convention(layers: Sheaf) -> None:
    yes = PromotionChoice(confirmed=True)

    with pytest.raises(Refused, match="stays private"):
        up(layers, noted(layers, "I prefer short answers")._replace(kind="user"), "team/core", yes)
    item = noted(layers, "Mock nothing in tests", "Errors")
    with pytest.raises(Refused, match="convention"):
        up(layers, item, "team/core", yes)
    assert up(layers, item, "team/core", yes._replace(anyway="all of us do")).type == "feedback"


def test_too_many_bytes_keep_a_note_from_a_team(layers: Sheaf) -> None:
    item = noted(layers, FRIDAY)._replace(text="word \n" * 42_000)

    with pytest.raises(Refused, match="250 KB"):
        up(layers, item, "team/core", PromotionChoice(confirmed=True))


def test_no_secret_reaches_the_disk_however_one_insists(layers: Sheaf) -> None:
    item = noted(layers, FRIDAY)
    insist = PromotionChoice(anyway="I insist", confirmed=True)
    for number, (text, secret) in enumerate(SECRETS[::3]):  # the gate itself is tested with all of them
        to = ("project", "user", "task/feature-x", "team/core")[number % 4]
        one = item._replace(subject="", text=text)
        assert secret not in str(examine(one, layers.only(to)).steps)
        with pytest.raises(Refused) as refused:
            up(layers, one, to, insist)
        assert secret not in str(refused.value)
    secret = "password: Corr3ct-H0rse-Fake"
    for one in (item._replace(subject=secret), item._replace(reason=secret), item._replace(citations=(secret,))):
        assert verdicts(examine(one, layers.only("user"), choice=insist))["content"] == "stop"
        with pytest.raises(Refused):
            up(layers, one, "user", insist)
    stored = on_disk(layers)
    assert [secret for secret in (secret, *(one for _, one in SECRETS)) if secret in stored] == []


def on_disk(layers: Sheaf) -> str:
    home = Path(layers.settings.home)
    return "\n".join(path.read_text(errors="replace") for path in home.rglob("*") if path.is_file())
