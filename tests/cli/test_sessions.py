"""The notes of one conversation, at the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]


@pytest.fixture
def asked(run: Run) -> Callable[..., Any]:
    """Run a command that must go well, and give the document that it answers with."""

    def asked(*words: str, **options: Any) -> Any:
        code, out, err = run(*words, "--json", **options)
        assert code == 0, err
        return json.loads(out)

    return asked


@pytest.fixture
def one(asked: Callable[..., Any]) -> str:
    """A session that is open."""
    return str(asked("session", "start", "Move the login", "-s", "session/one")["id"])


def test_a_session_from_its_start_to_its_end(run: Run) -> None:
    code, out, err = run("session", "start", "Move the login")
    assert (code, err) == (0, "")
    began = re.fullmatch(r"Began session (\d{4}-\d\d-\d\d-[0-9a-f]{4}): Move the login\n", out)
    assert began
    assert run("session", "note", "read the code")[1].startswith("Noted under Worklog\n")
    state = ("--section", "current", "--replace", "Phase 1; next: tests")
    assert run("session", "note", *state)[1].startswith("Noted under Current State\n")
    assert run("session", "note", "--section", "key", "-", stdin="Tests need Redis\n")[0] == 0

    shown = run("session", "show")[1]
    assert shown.startswith(f"Move the login ({began[1]}, since ")
    assert "## Current State\n_Where the work stands" in shown
    assert "\n\nPhase 1; next: tests\n\n## Files and Functions\n" in shown
    assert re.search(r"\n- \d{4}-\d\d-\d\d \d\d:\d\d read the code\n$", shown)

    code, out, err = run("session", "end")
    assert (code, err) == (0, "")
    assert out == (
        f"Ended session {began[1]}: its notes are in the archive\n"
        f"  Undo with `memsheaf undo -s session/{began[1]}`.\n"
        f"  1 item could be promoted: `memsheaf promote -s session/{began[1]}` shows the checklist\n"
    )
    assert run("session", "show")[1] == "No session is open; `memsheaf session start` begins one.\n"
    assert ", ended)" in run("session", "show", "-s", f"session/{began[1]}")[1]


def test_on_a_terminal_one_is_asked_before_something_is_left_behind(run: Run, one: str, tree: Tree) -> None:
    for text in ("Tests need Redis", "The proxy listens on 8080"):
        run("session", "note", text, "--section", "key")
    before = tree()

    code, out, err = run("session", "end", screen=True, stdin="\n")
    assert (code, out) == (1, "")
    assert "2 items could be promoted: `memsheaf promote -s session/one` shows the checklist\n" in err
    assert "Nothing was changed." in err
    assert tree() == before
    assert run("session", "end", screen=True, stdin="y\n")[0] == 0
    assert run("undo", "--scope", "session/one")[0] == 0
    code, _, err = run("session", "end", "--yes", screen=True)
    assert code == 0
    assert "[y/N]" not in err
    run("session", "start", "-s", "session/two")
    code, out, err = run("session", "end", screen=True)
    assert (code, err) == (0, ""), "nothing could be promoted"
    assert out.endswith("  nothing is waiting to be promoted; `memsheaf notes` says where the work stands\n")


def test_a_second_end_says_how_undo_opens_it_again(run: Run, one: str) -> None:
    assert run("session", "end")[1].startswith("Ended session one: nothing had been noted\n")

    for words in (["end"], ["note", "x"], ["show"]):
        code, out, err = run("session", *words, "-s", "session/one")
        assert (code, out) == (1, "")
        assert err.startswith("memsheaf: there is no open session 'one'\n")
        assert "`memsheaf undo --scope session/one` opens one that has ended" in err
    assert run("undo", "--scope", "session/one")[0] == 0
    assert run("session", "note", "again")[0] == 0
