"""How memory is to be used: checked before it is relied on, and not at all in a turn in which the user says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memsheaf import Message, Settings, Sheaf, Tools, Turn
from memsheaf.memory import Allow
from memsheaf.prompts import read_prompt
from memsheaf.recall.session import Session

ASKED = "Ignore memory for this one: how do we deploy the web shop?"


@pytest.fixture
def sheaf(settings: Settings) -> Iterator[Sheaf]:
    with Sheaf.open("user", settings=settings) as sheaf:
        sheaf.write("Deploy", "How we deploy the web shop", "project", "Deploy the web shop with `make ship`.")
        yield sheaf


@pytest.fixture
def session(sheaf: Sheaf) -> Session:
    return sheaf.session()


def everything(folder: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


def turn(text: str) -> Turn:
    return Turn("c1", (Message("user", text), Message("assistant", "Done.")))


# ignoring, for one turn


def test_in_a_turn_that_ignores_memory_nothing_is_read_injected_or_written(
    sheaf: Sheaf, session: Session, settings: Settings, tmp_path: Path
) -> None:
    tools = Tools(sheaf, session=session)
    assert "Deploy" in session.prompt()
    before = everything(str(tmp_path))

    recalled = session.recall(ASKED)

    assert (recalled.text, recalled.memories, session.prompt()) == ("", (), "")
    session.prefetch(ASKED)
    assert session.collect(wait=5.0) is None
    for name in tools.names:
        assert tools.call(name, {}) == ("Error: the user asked to ignore memory in this turn; answer without it.")
    assert tools.call("memory_write", {"filename": "x.md", "content": "kept"}).startswith("Error: the user asked")
    assert not session.learn(turn("Remember that I like tea."))
    assert everything(str(tmp_path)) == before


def test_a_turn_that_ignores_memory_is_not_learned_from_whoever_hands_it_in(sheaf: Sheaf, tmp_path: Path) -> None:
    before = everything(str(tmp_path))

    assert not sheaf.learn(turn(f"{ASKED} Remember that Quentin likes tea."))

    new = {path: data for path, data in everything(str(tmp_path)).items() if before.get(path) != data}
    assert not any(b"Quentin" in data for data in new.values())
    assert sheaf.distil().turns == 0


def test_the_next_turn_is_like_any_other(sheaf: Sheaf, session: Session) -> None:
    tools = Tools(sheaf, session=session)
    session.recall(ASKED)

    found = session.recall("how do we deploy the web shop?")

    assert [one.memory.name for one in found.memories] == ["Deploy"]
    assert "Deploy" in session.prompt()
    assert "make ship" in tools.call("memory_read", {"filename": "project_deploy.md"})
    assert session.learn(turn("Remember that I like tea."))


def test_a_program_can_ask_for_it_where_the_user_did_not_say_so(sheaf: Sheaf, session: Session) -> None:
    tools = Tools(sheaf, session=session)

    assert session.recall("how do we deploy the web shop?", ignore=True).text == ""

    assert session.prompt() == ""
    assert tools.call("memory_list", {}).startswith("Error: the user asked to ignore memory")
    assert not session.learn(turn("how do we deploy the web shop?"))


def test_two_conversations_do_not_ignore_for_each_other(sheaf: Sheaf) -> None:
    one, other = sheaf.session(), sheaf.session()

    one.recall(ASKED)

    assert one.prompt() == ""
    assert "Deploy" in other.prompt()


# verified before it is used


def test_what_a_tool_reads_comes_with_the_verdict_on_its_citations(sheaf: Sheaf, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "ship.py").write_text("def ship():\n    pass\n")
    path = sheaf.write("Ship", "How to ship", "project", "Orders ship at once.", citations=["ship.py"]).path
    tools = Tools(sheaf, session=sheaf.session(tree=str(tree)))

    assert "(citation verified: " in tools.call("memory_read", {"filename": path})
    (tree / "ship.py").unlink()
    assert "(citation missing: " in tools.call("memory_read", {"filename": path})
    assert Tools(sheaf).call("memory_read", {"filename": path}) == sheaf.read(path).text


@pytest.mark.parametrize("name", ["protocol", "reading", "passive"])
def test_every_prompt_says_to_check_first_and_to_ignore_memory_on_request(name: str) -> None:
    said = " ".join(read_prompt(name).split())

    assert "before you rely on it" in said
    assert "If the user asks you to ignore memory, act in that turn as if it were empty, and save nothing." in said


def test_a_turn_that_was_ignored_is_not_learned_when_it_is_handed_in_late(session: Session) -> None:
    session.recall("how do we deploy the web shop?", ignore=True)
    session.recall("and what else?")

    assert not session.learn(turn("how do we deploy the web shop?"))
    assert session.learn(turn("and what else? Remember that I like tea."))


# what a layer keeps itself


@pytest.mark.parametrize("name", ["TASK.md", "verified.md", "Verified.md", "revisions.md"])
def test_no_tool_changes_what_a_task_keeps_step_by_step(settings: Settings, tmp_path: Path, name: str) -> None:
    with Sheaf.open("task/x", settings=settings, cwd=str(tmp_path), by="agent") as sheaf:
        sheaf.put(name, "| login | x | 1 | 1 | REGRESSED |\n", free=True)
        tools = Tools(sheaf)
        for tool, more in (
            ("memory_delete", {}),
            ("memory_write", {"content": "gone"}),
            ("memory_update", {"old_text": "REGRESSED", "new_text": "VERIFIED"}),
            ("memory_insert", {"line": 0, "text": "x"}),
        ):
            answer = tools.call(tool, {"filename": name, **more})
            assert answer.startswith(f"Error: '{name}' is kept by `memsheaf task`"), (tool, answer)
        assert "REGRESSED" in tools.call("memory_read", {"filename": name})


def test_a_tool_writes_notes_only_in_order(sheaf: Sheaf) -> None:
    tools = Tools(sheaf)
    long = "# Notes\n\n" + "- iteration 3, verdict: fine\n" * 60

    assert tools.call("memory_write", {"filename": "NOTES.md", "content": long}).startswith(
        "Error: NOTES.md would be"
    )
    good = "# Notes\n\n## Active objective\nShip it\n"
    assert tools.call("memory_write", {"filename": "NOTES.md", "content": good}) == "Memory saved: NOTES.md"
    assert tools.call("memory_insert", {"filename": "NOTES.md", "line": 0, "text": "x"}).startswith(
        "Error: NOTES.md is"
    )
    assert sheaf.read("NOTES.md").text == good


def test_the_own_files_of_a_task_are_searched_and_not_recalled(settings: Settings, tmp_path: Path) -> None:
    with Sheaf.open("task/x", settings=settings, cwd=str(tmp_path)) as sheaf:
        for name in ("TASK.md", "session.md", "notes.md"):
            sheaf.put(name, f"The zebra service moves to Oslo, says {name}.\n", free=True, allow=Allow(anyway=True))

        assert {row.ref.path for row in sheaf.search("zebra service")} == {"TASK.md", "session.md", "notes.md"}
        assert [one.memory.path for one in sheaf.recall("where does the zebra service move?").memories] == [
            "notes.md"
        ]


def test_the_same_words_in_a_later_turn_are_learned_from(session: Session) -> None:
    session.recall("go on with it", ignore=True)
    assert not session.learn(turn("go on with it"))

    session.recall("go on with it")
    later = Turn("c1", (Message("user", "go on with it"), Message("user", "Remember that we ship on Fridays.")))

    assert session.learn(later)
