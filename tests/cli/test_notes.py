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


def test_a_person_is_told_how_to_insist(run: Run, work: Path) -> None:
    said = "All tests run with make test from the root of the repository only."
    run("add", "Tests", said, "--description", "d", "--type", "project")
    line = ["fact", "add", "Test command", said, *ABOUT]

    code, _, err = run(*line)
    assert code == 1
    assert "--anyway" in err
    assert run(*line, "--anyway")[0] == 0
