"""Commands that save, change, edit and forget memories, and those for their history."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import listing
from memsheaf.cli.call import local_minute

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
Editor = Callable[[str], dict[str, str]]
TABS = ("remember", "--name", "Prefers tabs", "--description", "Indentation of code", "--type", "user")


def shown(run: Run, file: str, *words: str) -> dict[str, object]:
    code, out, _ = run("show", file, "--json", *words)
    assert code == 0
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


def test_a_fact_that_is_added_is_shown_with_all_that_was_said(run: Run, tree: Tree) -> None:
    before = tree()
    code, _, err = run(*TABS, screen=True)
    assert (code, "there is no text" in err) == (2, True), "a terminal is not waited for"
    assert run(*TABS, stdin="x" * 2_000_000)[0] == 1
    assert run(*TABS, stdin="")[0] == 2
    assert tree() == before

    code, out, err = run(*TABS, "Use tabs.", "--cite", "a.py:1", "--cite", "b.py:2")
    assert (code, err) == (0, "")
    assert out.startswith("Saved user:user_prefers-tabs.md\n")
    memory = shown(run, "user:user_prefers-tabs.md")
    assert [memory[key] for key in ("name", "type", "body")] == ["Prefers tabs", "user", "Use tabs.\n"]
    assert memory["citations"] == ["a.py:1", "b.py:2"]
    assert (memory["pinned"], memory["source"]) == (False, "user")
    for words in (("-",), ()):
        assert run(*TABS, *words, "--replaces", "Prefers tabs", stdin=f"Use tabs.\n\n{words}.\n")[0] == 0
        assert shown(run, "user:user_prefers-tabs.md")["body"] == f"Use tabs.\n\n{words}.\n"


def test_a_second_memory_of_that_name_is_refused_until_replace_is_said(run: Run, tabs: str, tree: Tree) -> None:
    before = tree()

    code, _, err = run(*TABS, "Use spaces.")
    assert code == 1
    assert "exists already" in err
    assert tree() == before

    code, out, _ = run(*TABS, "Use spaces.", "--replaces", tabs)
    assert code == 0
    assert out.splitlines()[:3] == [f"Updated {tabs}", "  - Use tabs.", "  + Use spaces."]
    assert shown(run, tabs)["body"] == "Use spaces.\n"
    (memory,) = json.loads(run("--json", *TABS, "Use nothing.", "--replaces", tabs)[1])["memories"]
    assert memory["replaced"] == "Use spaces.\n"


def test_a_forgotten_memory_is_gone_and_the_answer_tells_how_to_get_it_back(run: Run, tabs: str) -> None:
    code, out, _ = run("forget", tabs)

    assert code == 0
    assert run("show", tabs)[0] == 1
    assert run(*out.partition("`")[2].partition("`")[0].split()[1:])[0] == 0
    assert run("show", tabs)[0] == 0


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    """An editor that does what the given Python code does to the file at `path`."""

    def editor(code: str) -> dict[str, str]:
        script = tmp_path / "editor.py"
        script.write_text(f"import sys, pathlib, subprocess\npath = pathlib.Path(sys.argv[1])\n{code}\n")
        return {"EDITOR": f"'{sys.executable}' -S -E '{script}'"}

    return editor


@pytest.fixture
def drafts(tmp_path: Path, environment: dict[str, str]) -> Path:
    """Where drafts are made."""
    folder = tmp_path / "drafts"
    folder.mkdir()
    environment["TMPDIR"] = str(folder)
    return folder


def kept(drafts: Path, err: str) -> bytes:
    (draft,) = drafts.rglob("*.md")
    assert str(draft) in err
    data = draft.read_bytes()
    draft.unlink()
    draft.parent.rmdir()
    return data


def test_what_the_editor_saves_is_stored_and_no_draft_is_left(
    run: Run, tabs: str, editor: Editor, drafts: Path, tmp_path: Path, tree: Tree
) -> None:
    seen = tmp_path / "mode"
    nothing = editor(f"pathlib.Path({str(seen)!r}).write_text(oct(path.parent.stat().st_mode & 0o077))")
    assert run("edit", tabs, more=nothing)[:2] == (0, f"{tabs} is unchanged\n")
    assert os.name != "posix" or seen.read_text() == "0o0", "others may read the draft"

    change = editor("path.write_text(path.read_text().replace('Use tabs', 'Use spaces'))")
    assert run("edit", tabs, more={"VISUAL": change["EDITOR"], "EDITOR": "false"})[:2] == (0, f"Updated {tabs}\n")
    assert "Use spaces." in run("show", tabs)[1]

    before = tree()
    for broken in ("/no/such/editor", "false", "unfinished 'quote"):
        code, _, err = run("edit", tabs, more={"EDITOR": broken})
        assert (code, "the editor" in err) == (1, True), broken
        assert tree() == before
    assert list(drafts.iterdir()) == []


def test_a_text_that_is_refused_changes_nothing_and_is_kept(
    run: Run, tabs: str, editor: Editor, drafts: Path, environment: dict[str, str]
) -> None:
    before = run("show", tabs)[1]
    for write, text in {
        "path.write_text('---\\nname: x\\n---\\nmy long work\\n')": b"my long work",
        "path.write_text('Only text.\\n')": b"Only text.\n",
        "path.write_bytes(path.read_bytes() + b'\\xff')": b"\xff",
    }.items():
        code, _, err = run("edit", tabs, more=editor(write))
        assert code == 1
        assert text in kept(drafts, err)
        assert run("show", tabs)[1] == before

    secret = "path.write_text(path.read_text() + 'password: Corr3ct-H0rse-Fake\\n'); "
    backup = "path.with_name('backup~').write_text(path.read_text())"
    code, _, err = run("edit", tabs, more=editor(secret + backup))
    assert code == 1
    assert b"Corr3ct" not in kept(drafts, err)
    assert list(drafts.rglob("*")) == []

    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    theirs = f"theirs = pathlib.Path({str(root / tabs)!r})\ntheirs.write_text(theirs.read_text() + 'Theirs.\\n')\n"
    code, _, err = run("edit", tabs, more=editor(f"{theirs}path.write_text(path.read_text() + 'Mine.\\n')"))
    assert code == 1
    assert b"Mine." in kept(drafts, err)
    assert "Theirs." in run("show", tabs)[1]


def versions(run: Run, file: str) -> list[str]:
    """The versions of a memory, newest first."""
    commits = json.loads(run("log", file, "--json")[1])["commits"]
    return [commit["changes"][0]["after"] for commit in commits]


def body(run: Run, file: str) -> str:
    return str(shown(run, file)["body"])


@pytest.fixture
def spaces(run: Run, tabs: str) -> str:
    """A memory with two versions."""
    run("edit", tabs, "--old", "tabs.", "--new", "spaces.")
    return tabs


def test_diff_and_blame_tell_what_changed_with_which_commit(run: Run, spaces: str) -> None:
    new, old = versions(run, spaces)
    assert {"-Use tabs.", "+Use spaces."} <= set(run("diff", spaces)[1].splitlines())
    assert {"-Use spaces.", "+Use tabs."} <= set(run("diff", spaces, new, old)[1].splitlines())
    assert {"-Use tabs.", "+Use spaces."} <= set(run("diff", spaces, old[:8])[1].splitlines())
    assert run("diff", spaces, new, new) == (0, "", "no difference\n")

    newest, first = (commit["id"] for commit in json.loads(run("log", "--json")[1])["commits"])
    lines = run("diff", spaces, "--blame")[1].splitlines()
    assert lines[0].startswith(first)
    assert lines[-1].startswith(newest)
    assert lines[-1].endswith("Use spaces.")


def test_undo_takes_back_the_last_commit_then_the_one_before(run: Run, spaces: str, tree: Tree) -> None:
    first = json.loads(run("log", "--json")[1])["commits"][-1]["id"]
    before = tree()
    assert run("undo", first)[0] == 1, "it changed since"
    assert tree() == before

    undone = json.loads(run("undo", "--json")[1])["id"]
    assert body(run, spaces) == "Use tabs.\n"
    assert run("undo", undone[:6])[0] == 0, "an undo is undone by its id"
    assert body(run, spaces) == "Use spaces.\n"
    assert run("undo", json.loads(run("log", "--json")[1])["commits"][0]["id"])[0] == 0
    assert run("undo")[0] == 0
    assert run("show", spaces)[0] == 1
    code, _, err = run("undo")
    assert (code, "nothing is left to undo" in err) == (1, True)


def test_undo_takes_back_the_latest_change_of_project_and_user_and_says_where(run: Run, spaces: str) -> None:
    run("remember", "Green tea.", "--name", "Tea", "--description", "Drink", "--type", "user", "--scope", "user")
    run("session", "start", "Move the login")

    done = json.loads(run("undo", "--json")[1])
    assert (done["scope"], done["changes"][0]["path"]) == ("user", "user:user_tea.md")
    code, out, _ = run("undo", done["id"])
    assert code == 0
    assert out.startswith(
        "Undone in user:\n  + user:user_tea.md\n    + Green tea.\nRedo with `memsheaf undo --redo`.\n"
    )
    assert run("undo", "--scope", "project")[1].startswith("Undone in project:\n")
    assert body(run, spaces) == "Use tabs.\n"
    assert run("undo", done["undoes"])[0] == 0, "by its id, in whichever scope it is"
    assert run("show", "user:user_tea.md")[0] == 1


def test_erasing_asks_a_person_and_leaves_no_trace_on_disk(run: Run, spaces: str, tree: Tree, tmp_path: Path) -> None:
    before = tree()
    for answer in ("", "n\n", "\n", "maybe\n"):
        code, _, err = run("erase", spaces, stdin=answer, screen=True)
        assert (code, "for good? [y/N]" in err) == (1, True), answer
    assert run("erase", spaces, stdin="y\n")[0] == 2, "nobody can be asked"
    assert tree() == before

    code, out, _ = run("erase", spaces, stdin="Y\n", screen=True)

    assert code == 0
    assert "no trace is left" in out
    assert "Erased user_prefers-tabs.md: 2 versions." in out
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"Use spaces" not in path.read_bytes(), path
    assert run("undo")[0] == 1


def test_erasing_names_the_traces_that_are_left_and_fails(run: Run, spaces: str, environment: dict[str, str]) -> None:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / "backup.txt").write_text("description: Indentation of code\n")

    code, out, _ = run("erase", spaces, "--yes")

    assert code == 1
    assert "Traces are left in:\n  backup.txt" in out


def test_the_log_is_in_local_time_and_has_ids_only_when_they_are_asked_for(run: Run) -> None:
    run("remember", "I prefer tabs.", "--name", "Prefers tabs", "--description", "Indentation", "--type", "user")
    run("edit", "Prefers tabs", "--move", "project")
    run("undo")
    commits = json.loads(run("log", "--json")[1])["commits"]

    plain, full = run("log")[1], run("log", "--full")[1]

    for commit in commits:
        assert commit["id"] not in plain
        assert commit["id"] in full
        assert local_minute(commit["at"]) in plain
    assert not re.search("[0-9a-f]{12}", plain)
    assert "  user  undo\n" in plain


def test_undo_shows_the_text_that_it_takes_back_and_the_command_that_redoes_it(run: Run, spaces: str) -> None:
    assert run("undo")[:2] == (
        0,
        f"Undone in project:\n  ~ {spaces}\n    - Use spaces.\n    + Use tabs.\nRedo with `memsheaf undo --redo`.\n",
    )
    assert run("undo", "--redo")[:2] == (
        0,
        f"Done again in project:\n  ~ {spaces}\n    - Use tabs.\n    + Use spaces.\nUndo with `memsheaf undo`.\n",
    )
    run(
        "remember",
        "-s",
        "agent/writer",
        "Short sentences.",
        "--name",
        "Style",
        "--description",
        "d",
        "--type",
        "feedback",
    )
    out = run("undo", "--agent", "writer")[1]
    assert "    - Short sentences.\n" in out
    assert out.endswith(" -s agent/writer`.\n")
    assert run(*out.rpartition("`memsheaf ")[2].partition("`")[0].split())[0] == 0
    assert run("show", "feedback_style.md", "--agent", "writer")[0] == 0


def test_an_undo_of_what_was_forgotten_in_two_scopes_is_redone_in_both(run: Run, tabs: str) -> None:
    run("remember", "I prefer pnpm")
    before = listing(run)
    run("forget", "--all", "--yes")

    redo = run("undo")[1].rpartition("`memsheaf ")[2].partition("`")[0].split()
    assert sorted(listing(run).split()) == sorted(before.split())
    assert run(*redo)[0] == 0
    assert listing(run) == ""


def test_edit_renames_pins_and_moves_and_one_undo_takes_a_move_back(run: Run) -> None:
    run("remember", "We use tabs here.", "--name", "Tabs", "--description", "indentation", "--type", "project")
    assert "Updated project_tabs.md" in run("edit", "project_tabs.md", "--rename", "Indent", "--pin", "on")[1]
    assert json.loads(run("show", "indent", "--json")[1])["pinned"]
    assert "remember Tabs" in run("log", "project_tabs.md")[1]
    assert run("edit", "indent", "--pin", "off", "--move", "user")[1].startswith("Moved user:project_tabs.md")
    assert not json.loads(run("show", "indent", "--json")[1])["pinned"]
    assert run("undo")[0] == 0
    assert listing(run).split() == ["project_tabs.md"]
