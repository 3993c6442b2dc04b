from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]

MAKE = "all:\n\ttrue\ntest:\n\tpytest -q\n"
CITED = f"Makefile:3-4@{sha256(b'test:' + chr(10).encode() + chr(9).encode() + b'pytest -q').hexdigest()[:8]}"
ABOUT = ["--cite", "Makefile:3-4", "--reason", "asked often", "--category", "project"]
PATH = "facts/project_test-command.md"


@pytest.fixture
def work(environment: dict[str, str]) -> Path:
    """A checkout with one file, and the working directory in it."""
    folder = Path.cwd()
    subprocess.run(["git", "init", "-q"], env=environment, check=True)
    (folder / "Makefile").write_text(MAKE)
    return folder


def root(environment: dict[str, str]) -> Path:
    (found,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    return found


def value(run: Run, *words: str, code: int = 0) -> dict[str, Any]:
    done = run(*words, "--json")
    assert done[0] == code, done
    found = json.loads(done[1])
    assert isinstance(found, dict)
    return found


# notes


def test_notes_are_set_shown_and_stand_in_the_prompt(run: Run) -> None:
    code, out, err = run("notes")
    assert (code, out, "notes set --objective" in err) == (0, "", True)
    assert run("notes", "prune")[:2] == (0, "There is nothing to move.\n")
    code, out, _ = run("notes", "set", "--objective", "Ship it", "--phase", "2 of 6")

    assert (code, out) == (0, "# Notes\n\n## Active objective\nShip it\n\n## Phase\n2 of 6\n")
    assert run("notes") == run("notes", "show") == (0, out, "")
    shown = run("prompt")[1]
    assert "# Where the work stands\n\n" in shown
    assert "\n\n# Notes\n\n## Active objective\nShip it\n" in shown
    found = value(run, "notes")
    assert (found["path"], found["objective"], found["phase"]) == ("NOTES.md", "Ship it", "2 of 6")
    assert (found["blockers"], found["pending"], found["text"]) == ([], [], out)


def test_a_blocker_and_what_is_pending_are_noted_and_done(run: Run, environment: dict[str, str]) -> None:
    run("notes", "block", "No key")
    run("notes", "block", "-", stdin="The proxy is slow\n")
    run("notes", "pending", "Which queue?")

    found = value(run, "notes")
    assert [text.partition(": ")[2] for text in found["blockers"]] == ["No key", "The proxy is slow"]
    assert len(found["pending"]) == 1
    assert run("notes", "done", "2")[1].endswith("The proxy is slow\n")
    assert value(run, "notes", "done", "queue")["pending"] == []
    archive = (root(environment) / "NOTES-archive.md").read_text()
    assert archive.index("proxy") < archive.index("queue")
    assert run("undo")[0] == 0
    assert value(run, "notes")["pending"] == found["pending"]


def test_what_would_break_the_style_is_refused_with_the_way_out(run: Run, tree: Tree) -> None:
    for text in ("a", "b", "c"):
        run("notes", "block", text)
    before = tree()

    code, out, err = run("notes", "block", "d")
    assert (code, out) == (1, "")
    assert "more than 3 bullets" in err
    assert "memsheaf notes done" in err
    assert value(run, "notes", "block", "iteration 4", code=1)["error"]
    assert "Say it in one short line" in run("notes", "block", "two\nlines")[2]
    assert tree() == before


def test_an_audit_tells_what_is_wrong_with_the_notes(run: Run, environment: dict[str, str], tree: Tree) -> None:
    run("notes", "set", "--phase", "1")
    (root(environment) / "NOTES.md").write_text("# Notes\n\n## Phase\nphase-2-review\n- it is DONE\n")
    before = tree()

    code, out, _ = run("audit", "--check")

    assert code == 1
    assert all(line.startswith("NOTES.md: notes: ") for line in out.splitlines())
    assert tree() == before


def test_pruning_shows_first_and_moves_with_apply(run: Run, environment: dict[str, str], tree: Tree) -> None:
    run("notes", "set", "--phase", "1")
    text = "# Notes\n\n## Phase\n1\n\n## Blockers\n- 2026-01-01: DONE the key\n- SUPERSEDED\n\n## Log\n- x\n"
    (root(environment) / "NOTES.md").write_text(text)
    before = tree()

    code, out, _ = run("notes", "prune")
    assert code == 0
    assert "With --apply, 2 pieces would be moved" in out
    assert "line 7: it is SUPERSEDED" in out
    assert tree() == before
    found = value(run, "notes", "prune", "--apply")
    assert found["applied"] is True
    assert found["moved"] == [
        {"heading": "Blockers", "text": "2026-01-01: DONE the key"},
        {"heading": "Log", "text": "x"},
    ]
    assert found["review"] == ["SUPERSEDED"]
    assert "SUPERSEDED [MANUAL REVIEW NEEDED]" in run("notes")[1]
    after = tree()
    assert run("notes", "prune", "--apply")[0] == 0
    assert {path: data for path, data in tree().items() if path.endswith(".md")} == {
        path: data for path, data in after.items() if path.endswith(".md")
    }


def test_an_objective_that_is_over_goes_to_the_archive(run: Run, environment: dict[str, str]) -> None:
    run("notes", "set", "--objective", "Ship it", "--phase", "2 of 6")

    found = value(run, "notes", "done", "objective")
    assert (found["done"], found["objective"], found["phase"]) == ("Ship it", "", "2 of 6")
    assert "Ship it" in (root(environment) / "NOTES-archive.md").read_text()
    assert run("undo")[0] == 0
    assert value(run, "notes")["objective"] == "Ship it"
    assert run("notes", "done", "phase")[:2] == (0, "Done: 2 of 6\n")
    assert run("notes", "done", "phase")[0] == 1


def test_each_change_of_the_notes_names_its_commit(run: Run) -> None:
    for words in (
        ["set", "--phase", "1"],
        ["block", "No key"],
        ["pending", "Which queue?"],
        ["done", "1"],
        ["done", "phase"],
    ):
        made = value(run, "notes", *words)["commit"]
        assert made == value(run, "log", "--limit", "1")["commits"][0]["id"]
    assert value(run, "notes", "pending", "Which queue?")["commit"] == ""
    assert value(run, "notes", "prune", "--apply")["commit"] == ""
    assert "commit" not in value(run, "notes")


# facts


def test_a_fact_is_stored_with_the_hash_of_its_place_and_can_be_verified(
    run: Run, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("fact", "add", "Test command", "Tests run with make test.", *ABOUT) == (0, f"Saved {PATH}\n", "")

    assert run("fact")[1] == f"{PATH}  Test command  Tests run with make test.\n"
    (listed,) = value(run, "fact", "list")["facts"]
    assert (listed["path"], listed["subject"], listed["citations"]) == (PATH, "Test command", [CITED])
    assert (listed["reason"], listed["category"], listed["supersedes"]) == ("asked often", "project", [])
    assert run("verify", PATH)[:2] == (0, f"verified  {PATH}  Makefile:3-4 is as it was cited.\n")
    (work / "Makefile").write_text("# new\n" + MAKE)
    (memory,) = value(run, "verify", PATH, code=1)["memories"]
    assert [(one["state"], one["place"]) for one in memory["citations"]] == [("drifted", "Makefile:4-5")]
    (work / "src").mkdir()
    monkeypatch.chdir(work / "src")
    assert run("fact", "add", "Make", "Make has a test target.", *ABOUT[2:], "--cite", "../Makefile:4")[0] == 0


def test_superseding_takes_over_what_is_not_given(run: Run, work: Path) -> None:
    run("fact", "add", "Test command", "Tests run with make test.", *ABOUT)

    said = run("fact", "supersede", "project_test-command.md", "Tests run with make check.", "--reason", "renamed")
    after = "facts/project_test-command-2.md"
    assert said == (0, f"Saved {after}, which supersedes {PATH}\n", "")
    (listed,) = value(run, "fact")["facts"]
    assert (listed["subject"], listed["category"], listed["citations"]) == ("Test command", "project", [CITED])
    assert (listed["reason"], listed["supersedes"]) == ("renamed", [PATH])
    last = value(run, "fact", "supersede", "Test command", "Tests run with nox.", "--reason", "r")
    assert last["supersedes"] == [after]
    assert last["commit"] == value(run, "log", "--limit", "1")["commits"][0]["id"]


def test_a_second_fact_is_refused_until_it_supersedes(run: Run, work: Path) -> None:
    run("fact", "add", "Test command", "Tests run with make test.", *ABOUT)
    again = ["fact", "add", "test command!", "Run nox for the tests.", *ABOUT]

    code, _, err = run(*again)
    assert code == 1
    assert f"memsheaf fact supersede {PATH}" in err
    assert run("update", PATH, "--old", "make", "--new", "nox", "--count", "2")[0] == 1, (
        "it is superseded, not edited"
    )
    assert run(*again, "--supersedes", PATH)[0] == 0


def test_all_that_is_missing_is_told_at_once(run: Run, work: Path, tree: Tree) -> None:
    before = tree()

    code, out, err = run("fact", "add", "Test command", "Is it make?", "--cite", "gone.py:3", "--anyway")
    assert (code, out) == (1, "")
    for word in ("gone.py", "no reason", "category"):
        assert word in err
    assert tree() == before


def test_a_person_is_told_how_to_insist(run: Run, work: Path) -> None:
    said = "All tests run with make test from the root of the repository only."
    run("add", "Tests", said, "--description", "d", "--type", "project")
    line = ["fact", "add", "Test command", said, *ABOUT]

    code, _, err = run(*line)
    assert code == 1
    assert "--anyway" in err
    assert run(*line, "--anyway")[0] == 0
