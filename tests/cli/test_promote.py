"""`memsheaf promote`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
FRIDAY = "Releases: they go out on Fridays, see docs.md:1"


@pytest.fixture(autouse=True)
def started(run: Run) -> None:
    """A session, a task, and files to cite."""
    Path("docs.md").write_text("Fridays.\n")
    Path("my dir").mkdir()
    Path("my dir/ä file.py").write_text("x = 1\n")
    Path(".git").mkdir()
    assert run("session", "start", "Work", "-s", "session/s1")[0] == 0
    assert run("task", "start", "Feature X")[0] == 0


def note(run: Run, text: str, section: str = "key") -> str:
    """Note something in the session; gives the id that it is promoted by."""
    code, _, err = run("session", "note", text, "--section", section, "-s", "session/s1")
    assert code == 0, err
    return next(str(one["id"]) for one in listed(run) if str(one["text"]) in text)


def listed(run: Run, *words: str) -> list[dict[str, object]]:
    code, out, err = run("promote", *words, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)["items"]
    assert isinstance(found, list)
    return found


def test_what_is_missing_is_named_and_with_it_the_note_becomes_a_fact(
    run: Run, tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = note(run, "They go out on Fridays. Always. Since long")
    before = tree()

    code, out, err = run("promote", item[:4], "--name", "Releases of ours", screen=True, stdin="y\n")

    assert code == 1
    assert "  ask   five fields" in out
    assert "no citation" in err
    assert tree() == before

    monkeypatch.chdir("my dir")  # a place is taken from where one stands
    words = ["--name", "Releases", "--cite", "ä file.py:1", "--reason", "asked"]
    code, out, err = run("promote", item, *words, "--json")

    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert (answer["evidence_pointer"], answer["promoted"]) == ("my dir/ä file.py:1", "facts/project_releases.md")
    shown = run("show", "facts/project_releases.md")[1]
    assert "reason: asked\n" in shown
    assert "  - my dir/ä file.py:1@" in shown
    assert "\nThey go out on Fridays." in shown
    assert "(promoted: facts/project_releases.md)" in run("session", "show", "-s", "session/s1")[1]
    assert listed(run) == []
    assert run("undo", answer["commit"])[0] == 0
    assert run("show", answer["promoted"])[0] == 1


def test_it_goes_to_a_task_as_a_note_or_to_the_user_as_an_ordinary_memory(run: Run) -> None:
    answers = note(run, "I prefer short answers")
    releases = note(run, "Releases go out on Fridays")

    assert "Promoted to user: user_short-answers.md\n" in run("promote", answers, "--to", "user")[1]
    code, out, _ = run("promote", releases, "--to", "task/feature-x")
    assert code == 0
    assert "Promoted to task/feature-x: TASK.md\n" in out
    (one,) = listed(run, "-s", "task/feature-x")
    assert one["text"] == "Releases go out on Fridays"


def test_to_a_team_it_goes_only_when_a_person_says_yes(run: Run, tree: Tree) -> None:
    item = note(run, FRIDAY)
    before = tree()

    for more in ([], ["--json"]):
        assert run("promote", item, "--to", "team/core", *more, stdin="y\n")[0] == 1
    assert tree() == before

    assert "Promoted to team/core: project_releases-" in run("promote", item, "--to", "team/core", "--yes")[1]
    other = note(run, "Mocks: mock nothing in tests", "err")
    assert run("promote", other, "--to", "team/core", "--yes")[0] == 1
    assert run("promote", other, "--to", "team/core", "--yes", "--anyway", "all of us do")[0] == 0


def test_a_secret_has_no_line(run: Run) -> None:
    item = note(run, FRIDAY)

    code, out, err = run("promote", item, "--reason", "password: Corr3ct-H0rse-Fake")

    assert code == 1
    assert "Corr3ct" not in out + err
    assert "content: it holds a password" in err
