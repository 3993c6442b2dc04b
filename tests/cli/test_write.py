"""Commands that save, change and edit a memory."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
TABS = ("add", "Prefers tabs", "--description", "Indentation of code", "--type", "user")


def shown(run: Run, file: str) -> dict[str, object]:
    code, out, _ = run("show", file, "--json")
    assert code == 0
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


def test_a_fact_that_is_added_is_shown_with_all_that_was_said(run: Run) -> None:
    code, out, err = run(
        *TABS, "Use tabs.", "--pin", "--cite", "a.py:1", "--cite", "b.py:2", "--expires", "2027-01-01"
    )

    assert (code, out, err) == (
        0,
        "Saved user:user_prefers-tabs.md; `memsheaf undo --scope user` takes it back.\n",
        "",
    )
    memory = shown(run, "user:user_prefers-tabs.md")
    assert memory["name"] == "Prefers tabs"
    assert memory["type"] == "user"
    assert memory["body"] == "Use tabs.\n"
    assert memory["citations"] == ["a.py:1", "b.py:2"]
    assert (memory["pinned"], memory["expires"], memory["source"]) == (True, "2027-01-01", "user")


@pytest.mark.parametrize("words", [("-",), ("--content", "-"), ()])
def test_a_text_comes_from_standard_input(run: Run, words: tuple[str, ...]) -> None:
    code, _, _ = run(*TABS, *words, stdin="Use tabs.\n\nAlways.\n")

    assert code == 0
    assert shown(run, "user_prefers-tabs.md")["body"] == "Use tabs.\n\nAlways.\n"


def test_on_a_terminal_a_missing_text_is_asked_for_and_not_waited_for(run: Run, tree: Tree) -> None:
    before = tree()

    code, _, err = run(*TABS, screen=True)

    assert code == 2
    assert "there is no text" in err
    assert tree() == before


def test_options_stand_before_or_after_the_command_and_their_values_may_begin_with_a_dash(run: Run) -> None:
    run("--scope", "user", *TABS, "--content", "-x")
    code, _, _ = run("update", "user_prefers-tabs.md", "--old", "-x", "--new", "--json", "--scope=user")

    assert code == 0
    assert shown_in_user(run)["body"] == "--json\n"


def shown_in_user(run: Run) -> dict[str, object]:
    value = json.loads(run("--scope", "user", "--json", "show", "user_prefers-tabs.md")[1])
    assert isinstance(value, dict)
    return value


def test_a_second_memory_of_that_name_is_refused_until_replace_is_said(run: Run, tabs: str, tree: Tree) -> None:
    before = tree()

    code, _, err = run(*TABS, "Use spaces.")
    assert code == 1
    assert "exists already" in err
    assert tree() == before

    assert run(*TABS, "Use spaces.", "--replace")[0] == 0
    assert shown(run, tabs)["body"] == "Use spaces.\n"


def test_an_update_changes_the_one_place_it_names(run: Run, tabs: str) -> None:
    assert run("update", tabs, "--old", "Use tabs", "--new", "Use spaces")[:2] == (0, f"Updated {tabs}\n")
    assert shown(run, tabs)["body"] == "Use spaces.\n"


def test_an_update_of_several_places_names_their_lines_and_needs_their_count(run: Run, tabs: str) -> None:
    run("insert", tabs, "--line", "1", "--text", "Use tabs. Use tabs.")

    code, _, err = run("update", tabs, "--old", "Use tabs.", "--new", "x")
    assert code == 1
    assert "3 times" in err

    assert run("update", tabs, "--old", "Use tabs.", "--new", "x", "--count", "3")[0] == 0
    assert shown(run, tabs)["body"] == "x\nx x\n"


def test_lines_are_inserted_where_the_number_says(run: Run, tabs: str) -> None:
    run("insert", tabs, "--line", "0", "--text", "First.")
    run("insert", tabs, "--line", "2", stdin="Last.\n")

    assert shown(run, tabs)["body"] == "First.\nUse tabs.\nLast.\n"


def test_a_forgotten_memory_is_gone_and_the_answer_tells_how_to_get_it_back(run: Run, tabs: str) -> None:
    code, out, _ = run("forget", tabs, "--why", "moved to spaces")

    assert code == 0
    assert run("show", tabs)[0] == 1
    assert "moved to spaces" in run("log")[1]
    assert run(*out.partition("`")[2].partition("`")[0].split()[1:])[0] == 0
    assert run("show", tabs)[0] == 0


def test_a_memory_of_one_agent_is_not_seen_by_another(run: Run) -> None:
    run("--agent", "writer", *TABS, "Use tabs.")

    assert "user_prefers-tabs.md" in run("list", "--agent", "writer")[1]
    assert run("list", "--agent", "reader")[1] == ""
    assert run("list")[1] == ""


def test_standard_input_that_is_not_text_or_has_no_end_is_refused(run: Run, tree: Tree) -> None:
    before = tree()

    assert run(*TABS, stdin="x" * 2_000_000)[0] == 1
    assert run(*TABS, stdin="")[0] == 2
    assert tree() == before


@pytest.fixture
def editor(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """An editor that does what the given Python code does to the file at `path`."""

    def editor(code: str) -> dict[str, str]:
        script = tmp_path / "editor.py"
        script.write_text(f"import sys, pathlib, subprocess\npath = pathlib.Path(sys.argv[1])\n{code}\n")
        return {"EDITOR": f"'{sys.executable}' '{script}'"}

    return editor


@pytest.fixture(autouse=True)
def drafts(tmp_path: Path, environment: dict[str, str]) -> Path:
    """Where drafts are made."""
    folder = tmp_path / "drafts"
    folder.mkdir()
    environment["TMPDIR"] = str(folder)
    return folder


def kept(drafts: Path, err: str) -> str:
    (draft,) = drafts.rglob("*.md")
    assert str(draft) in err
    return draft.read_text()


def test_what_the_editor_saves_is_stored_and_no_draft_is_left(
    run: Run, tabs: str, editor: Callable[[str], dict[str, str]], drafts: Path
) -> None:
    change = editor("path.write_text(path.read_text().replace('Use tabs', 'Use spaces'))")

    assert run("edit", tabs, more=change)[:2] == (0, f"Updated {tabs}\n")
    assert "Use spaces." in run("show", tabs)[1]
    assert list(drafts.iterdir()) == []


def test_visual_comes_before_editor(run: Run, tabs: str, editor: Callable[[str], dict[str, str]]) -> None:
    visual = editor("path.write_text(path.read_text() + 'More.\\n')")["EDITOR"]

    assert run("edit", tabs, more={"VISUAL": visual, "EDITOR": "false"})[0] == 0
    assert run("show", tabs)[1].endswith("Use tabs.\nMore.\n")


def test_an_editor_that_changes_nothing_leaves_no_commit(
    run: Run, tabs: str, editor: Callable[[str], dict[str, str]], drafts: Path, tree: Tree
) -> None:
    nothing = editor("pass")
    before = tree()

    assert run("edit", tabs, more=nothing)[:2] == (0, f"{tabs} is as it was\n")
    assert tree() == before


def test_a_text_that_is_refused_changes_nothing_and_is_kept(
    run: Run, tabs: str, editor: Callable[[str], dict[str, str]], drafts: Path
) -> None:
    before = run("show", tabs)[1]

    code, _, err = run("edit", tabs, more=editor("path.write_text('---\\nname: x\\n---\\nmy long work\\n')"))

    assert code == 1
    assert "my long work" in kept(drafts, err)
    assert run("show", tabs)[1] == before


def test_a_memory_that_changed_meanwhile_wins_and_the_edit_is_kept(
    run: Run, tabs: str, editor: Callable[[str], dict[str, str]], drafts: Path, environment: dict[str, str]
) -> None:
    code = (
        f"subprocess.run([{sys.executable!r}, '-m', 'memsheaf', 'update', {tabs!r}, '--old', 'tabs.', "
        "'--new', 'theirs.'], check=True)\n"
        "path.write_text(path.read_text().replace('tabs.', 'mine.'))"
    )

    done, _, err = run("edit", tabs, more=editor(code))

    assert done == 1
    assert "Use mine." in kept(drafts, err)
    assert "Use theirs." in run("show", tabs)[1]


def test_bytes_that_are_not_text_are_refused_and_kept(
    run: Run, tabs: str, editor: Callable[[str], dict[str, str]], drafts: Path, tree: Tree
) -> None:
    code, _, err = run("edit", tabs, more=editor("path.write_bytes(path.read_bytes() + b'\\xff')"))

    assert code == 1
    assert "not UTF-8" in err
    (draft,) = drafts.rglob("*.md")
    assert draft.read_bytes().endswith(b"\xff")


@pytest.mark.parametrize("broken", ["/no/such/editor", "false", "unfinished 'quote"])
def test_an_editor_that_does_not_work_changes_nothing_and_leaves_nothing(
    run: Run, tabs: str, drafts: Path, tree: Tree, broken: str
) -> None:
    before = tree()

    code, _, err = run("edit", tabs, more={"EDITOR": broken})

    assert code == 1
    assert "the editor" in err
    assert tree() == before


def test_a_file_with_a_broken_header_can_be_mended_in_the_editor(
    run: Run, tabs: str, editor: Callable[[str], dict[str, str]], environment: dict[str, str]
) -> None:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "broken.md").write_text("---\nname: [unclosed\ndescription: x\ntype: user\n---\nText.\n")
    assert run("doctor")[0] == 1

    assert (
        run("edit", "broken.md", more=editor("path.write_text(path.read_text().replace('[unclosed', 'Mended'))"))[0]
        == 0
    )
    assert run("doctor")[0] == 0


def test_a_free_file_stays_free_and_may_become_a_memory(
    run: Run, tabs: str, editor: Callable[[str], dict[str, str]], environment: dict[str, str]
) -> None:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "NOTES.md").write_text("Nothing yet.\n")

    assert run("edit", "NOTES.md", more=editor("path.write_text('Something.\\n')"))[0] == 0
    assert run("show", "NOTES.md")[1] == "Something.\n"

    header = "---\\nname: Notes\\ndescription: x\\ntype: user\\n---\\n"
    assert run("edit", "NOTES.md", more=editor(f"path.write_text('{header}' + path.read_text())"))[0] == 0
    assert "NOTES.md" in run("list", "--type", "user")[1]


@pytest.mark.parametrize("name", ["CONTEXT.md", "NOTES.md"])
def test_what_stands_in_every_prompt_need_not_be_there_to_be_edited(
    run: Run, editor: Callable[[str], dict[str, str]], tree: Callable[[], dict[str, bytes]], name: str
) -> None:
    agent = ("--agent", "researcher")
    assert run("edit", name, *agent, more=editor("pass"))[:2] == (0, f"{name} is as it was\n")
    assert not [path for path in tree() if path.endswith(".md")]

    assert run("edit", name, *agent, more=editor("path.write_text('Look twice.\\n')"))[0] == 0

    assert "Look twice." in run("prompt", *agent)[1]
    assert run("edit", "other.md", *agent, more=editor("pass"))[0] == 1


def test_the_draft_can_be_read_by_its_owner_alone(
    run: Run, tabs: str, editor: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    seen = tmp_path / "mode"
    run("edit", tabs, more=editor(f"pathlib.Path({str(seen)!r}).write_text(oct(path.parent.stat().st_mode & 0o077))"))

    assert os.name != "posix" or seen.read_text() == "0o0"


def test_a_memory_does_not_lose_its_header_in_the_editor(
    run: Run, tabs: str, editor: Callable[[str], dict[str, str]], drafts: Path
) -> None:
    code, _, err = run("edit", tabs, more=editor("path.write_text('Only text.\\n')"))

    assert code == 1
    assert kept(drafts, err) == "Only text.\n"
    assert "Use tabs." in run("show", tabs)[1]
