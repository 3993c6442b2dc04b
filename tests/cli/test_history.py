from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]


def versions(run: Run, file: str) -> list[str]:
    """The versions of a memory, newest first."""
    commits = json.loads(run("log", file, "--json")[1])["commits"]
    return [commit["changes"][0]["after"] for commit in commits]


def body(run: Run, file: str) -> str:
    return str(json.loads(run("show", file, "--json")[1])["body"])


@pytest.fixture
def spaces(run: Run, tabs: str) -> str:
    """A memory with two versions."""
    run("update", tabs, "--old", "tabs.", "--new", "spaces.")
    return tabs


def test_the_log_tells_who_did_what_newest_first(run: Run, spaces: str) -> None:
    code, out, _ = run("log")

    assert code == 0
    lines = out.splitlines()
    assert "user  update" in lines[0]
    assert lines[1].startswith(f"  ~ {spaces}  ")
    assert "remember Prefers tabs" in lines[2]
    assert lines[3].startswith(f"  + {spaces}  ")


def test_a_long_log_says_that_there_is_more(run: Run, spaces: str) -> None:
    _, out, err = run("log", "--limit", "1")
    assert len(out.splitlines()) == 2
    assert "--limit 0" in err
    assert json.loads(run("log", "--limit", "1", "--json")[1])["more"] is True

    _, out, err = run("log", "--limit", "0")
    assert len(out.splitlines()) == 4
    assert err == ""
    assert run("log", "--limit", "2")[2] == ""


def test_a_diff_shows_the_last_change_or_two_versions(run: Run, spaces: str) -> None:
    new, old = versions(run, spaces)

    assert {"-Use tabs.", "+Use spaces."} <= set(run("diff", spaces)[1].splitlines())
    assert {"-Use spaces.", "+Use tabs."} <= set(run("diff", spaces, new, old)[1].splitlines())
    assert {"-Use tabs.", "+Use spaces."} <= set(run("diff", spaces, old[:8])[1].splitlines())
    assert run("diff", spaces, new, new) == (0, "", "no difference\n")


def test_blame_names_the_commit_of_each_line(run: Run, spaces: str) -> None:
    newest, first = (commit["id"] for commit in json.loads(run("log", "--json")[1])["commits"])

    lines = run("blame", spaces)[1].splitlines()

    assert lines[0].startswith(first)
    assert lines[-1].startswith(newest)
    assert lines[-1].endswith("Use spaces.")


def test_undo_takes_back_the_last_commit_then_the_one_before(run: Run, spaces: str) -> None:
    assert run("undo")[0] == 0
    assert body(run, spaces) == "Use tabs.\n"
    assert run("undo")[0] == 0
    assert run("show", spaces)[0] == 1

    code, _, err = run("undo")
    assert code == 1
    assert "nothing is left to undo" in err


def test_undo_takes_back_the_latest_change_of_project_and_user_and_says_where(run: Run, spaces: str) -> None:
    run("add", "Tea", "Green tea.", "--description", "Drink", "--type", "user", "--scope", "user")
    run("session", "start", "Move the login")

    done = json.loads(run("undo", "--json")[1])
    assert (done["scope"], done["changes"][0]["path"]) == ("user", "user:user_tea.md")
    assert run("undo", done["id"])[:2] == (0, f"Undid {done['id']} in user:\n  + user:user_tea.md  {tea(run)}\n")
    assert run("undo", "--scope", "project")[1].startswith("Undid ")
    assert body(run, spaces) == "Use tabs.\n"
    assert run("undo", done["undoes"])[0] == 0, "by its id, in whichever scope it is"
    assert run("show", "user:user_tea.md")[0] == 1


def tea(run: Run) -> str:
    return str(json.loads(run("show", "user:user_tea.md", "--json")[1])["version"])[:12]


def test_an_undo_is_undone_by_its_id(run: Run, spaces: str) -> None:
    undone = json.loads(run("undo", "--json")[1])["id"]

    assert run("undo", undone[:6])[0] == 0
    assert body(run, spaces) == "Use spaces.\n"


def test_restore_brings_back_an_older_version(run: Run, spaces: str) -> None:
    old = versions(run, spaces)[1]

    assert run("restore", spaces, old[:12])[0] == 0
    assert body(run, spaces) == "Use tabs.\n"
    assert run("restore", spaces, old) == (0, f"{spaces} is at that version already\n", "")


def test_restore_brings_back_a_forgotten_memory(run: Run, spaces: str) -> None:
    old = versions(run, spaces)[1]
    run("forget", spaces)

    assert run("restore", spaces, old)[0] == 0
    assert body(run, spaces) == "Use tabs.\n"


def test_an_edit_made_with_another_program_is_in_the_log_and_can_be_undone(
    run: Run, tabs: str, environment: dict[str, str]
) -> None:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    (root / tabs).write_text((root / tabs).read_text().replace("tabs.", "outside."))

    log = run("log")[1]
    assert "  outside" in log
    code, _, err = run("undo")
    assert code == 1
    assert "undo that first, by its id" in err
    assert run("undo", log.split()[0])[0] == 0
    assert body(run, tabs) == "Use tabs.\n"


def test_erasing_leaves_no_trace_on_disk(run: Run, spaces: str, tree: Tree, tmp_path: Path) -> None:
    code, out, _ = run("erase", spaces, "--yes")

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


@pytest.mark.parametrize("answer", ["", "n\n", "\n", "maybe\n"])
def test_erasing_asks_a_person_and_takes_only_yes_for_yes(run: Run, spaces: str, tree: Tree, answer: str) -> None:
    before = tree()

    code, _, err = run("erase", spaces, stdin=answer, screen=True)

    assert code == 1
    assert "for good? [y/N]" in err
    assert tree() == before


def test_a_person_who_says_yes_gets_it_erased(run: Run, spaces: str) -> None:
    assert run("erase", spaces, stdin="Y\n", screen=True)[0] == 0
    assert run("show", spaces)[0] == 1


def test_erasing_is_refused_where_nobody_can_be_asked(run: Run, spaces: str, tree: Tree) -> None:
    before = tree()

    assert run("erase", spaces, stdin="y\n")[0] == 2
    assert tree() == before


def test_a_memory_that_changed_since_is_not_undone(run: Run, spaces: str, tree: Tree) -> None:
    first = json.loads(run("log", "--json")[1])["commits"][-1]["id"]
    before = tree()

    assert run("undo", first)[0] == 1
    assert tree() == before


def test_a_diff_of_a_new_memory_shows_all_of_it(run: Run, tabs: str) -> None:
    assert "+Use tabs." in run("diff", tabs)[1].splitlines()
