from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
MAKE = "all:\n\ttrue\ntest:\n\tpytest -q\n"
CITED = f"Makefile:3-4@{sha256(b'test:' + chr(10).encode() + chr(9).encode() + b'pytest -q').hexdigest()[:8]}"
ABOUT = ["--cite", "Makefile:3-4", "--reason", "asked often", "--type", "project"]
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
    assert run("notes", "set", "--prune")[:2] == (0, "There is nothing to move.\n")
    code, out, _ = run("notes", "set", "--objective", "Ship it", "--phase", "2 of 6")

    assert (code, out) == (0, "# Notes\n\n## Active objective\nShip it\n\n## Phase\n2 of 6\n")
    brief = run("notes")[1]
    assert brief == run("notes", "show")[1]
    assert brief.startswith("# Where the work stands\n\n## Active objective\nShip it\n\n## Phase\n2 of 6\n")
    shown = run("show", "--prompt")[1]
    assert "# Where the work stands\n\n" in shown
    assert "\n\n# Notes\n\n## Active objective\nShip it\n" in shown
    found = value(run, "notes")
    assert (found["path"], found["objective"], found["phase"]) == ("NOTES.md", "Ship it", "2 of 6")
    assert (found["blockers"], found["pending"], found["text"]) == ([], [], out)


# facts


def test_a_fact_is_stored_with_the_hash_of_its_place_and_can_be_verified(
    run: Run, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run("remember", "Tests run with make test.", "--name", "Test command", *ABOUT)
    assert (code, out.splitlines()[0], err) == (0, f"Saved {PATH}", "")

    shown = value(run, "show", PATH)
    assert (shown["name"], shown["citations"]) == ("Test command", [CITED])
    assert (shown["reason"], shown["type"], shown["supersedes"]) == ("asked often", "project", [])
    assert run("audit", PATH)[:2] == (0, f"verified  {PATH}  Makefile:3-4 is as it was cited.\n")
    (work / "Makefile").write_text("# new\n" + MAKE)
    (memory,) = value(run, "audit", PATH, code=1)["memories"]
    assert [(one["state"], one["place"]) for one in memory["citations"]] == [("drifted", "Makefile:4-5")]
    (work / "src").mkdir()
    monkeypatch.chdir(work / "src")
    about = (*ABOUT[2:], "--cite", "../Makefile:4")
    assert run("remember", "Make has a test target.", "--name", "Make", *about)[0] == 0


def test_a_fact_that_has_become_wrong_is_retired_by_its_successor(run: Run, work: Path) -> None:
    run("remember", "Tests run with make test.", "--name", "Test command", *ABOUT)
    words = ("Tests run with make check.", "--reason", "the target was renamed", "--replaces", PATH)

    code, out, err = run("remember", *words)

    assert (code, err) == (0, "")
    assert f"It supersedes {PATH}.\n" in out
    assert run("show", PATH)[0] == 1
    (row,) = value(run, "list")["memories"]
    assert (row["name"], row["type"]) == ("Test command", "project")
    assert value(run, "show", row["path"])["citations"] == [CITED]
    assert run("undo")[0] == 0
    assert run("show", PATH)[0] == 0


def test_a_person_is_told_how_to_insist(run: Run, work: Path) -> None:
    said = "All tests run with make test from the root of the repository only."
    run("remember", said, "--name", "Tests", "--description", "d", "--type", "project")
    line = ["remember", said, "--name", "Test command", *ABOUT]

    code, _, err = run(*line)
    assert code == 1
    assert "--anyway" in err
    assert run(*line, "--anyway")[0] == 0
