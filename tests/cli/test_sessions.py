"""The notes of one conversation, at the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
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
    return str(asked("session", "start", "Move the login", "--id", "one")["id"])


def test_a_session_from_its_start_to_its_end(run: Run) -> None:
    code, out, err = run("session", "start", "Move the login")
    assert (code, err) == (0, "")
    began = re.fullmatch(r"Began session (\d{4}-\d\d-\d\d-[0-9a-f]{4}): Move the login\n", out)
    assert began
    assert run("session", "note", "read the code")[1].startswith("Noted under Worklog (")
    state = ("--section", "current", "--replace", "Phase 1; next: tests")
    assert run("session", "note", *state)[1].endswith(" of 2,000 tokens)\n")
    assert run("session", "note", "--section", "key", "-", stdin="Tests need Redis\n")[0] == 0

    shown = run("session", "show")[1]
    assert shown.startswith(f"Move the login ({began[1]}, since ")
    assert "## Current State\n_Where the work stands" in shown
    assert "\n\nPhase 1; next: tests\n\n## Files and Functions\n" in shown
    assert re.search(r"\n- \d\d:\d\d read the code\n$", shown)

    code, out, err = run("session", "end")
    assert (code, err) == (0, "")
    assert out == (
        f"Ended session {began[1]}: its notes are in the archive\n"
        f"  Undo with `memsheaf undo --scope session/{began[1]}`.\n"
        f"  1 item could be promoted: `memsheaf promote --session {began[1]}` offers it\n"
    )
    assert run("session", "list")[1] == "No session is open; `memsheaf session start` begins one.\n"
    assert ", ended)" in run("session", "show", "--session", began[1])[1]


def test_the_list_has_open_sessions_and_on_request_the_others(run: Run, asked: Callable[..., Any], one: str) -> None:
    asked("session", "start", "--id", "two")
    asked("session", "note", "x", "--session", "two")
    asked("session", "end", "--session", "two")

    assert [line.split()[0] for line in run("session", "list")[1].splitlines()] == ["ID", "one"]
    rows = [line.split() for line in run("session", "list", "--all")[1].splitlines()]
    assert rows[0] == ["ID", "STARTED", "CHANGED", "TOKENS", "STATE", "TITLE"]
    assert [(row[0], row[6]) for row in rows[1:]] == [("one", "blank"), ("two", "ended")]
    first, second = asked("session", "list", "--all")["sessions"]
    assert first["title"] == "Move the login"
    assert set(first) == {"id", "title", "started", "changed", "tokens", "blank", "open"}
    assert [(row["open"], row["blank"]) for row in (first, second)] == [(True, True), (False, False)]


def test_what_programs_get(asked: Callable[..., Any], one: str) -> None:
    noted = asked("session", "note", "Tests need Redis", "--section", "key")
    assert (noted["id"], noted["section"]) == ("one", "Key Results")
    assert noted["commit"] == asked("log", "--scope", "session/one")["commits"][0]["id"]
    shown = asked("session", "show")
    assert shown["sections"][3]["title"] == "Key Results"
    assert shown["sections"][3]["text"].endswith("\n\n- Tests need Redis")
    assert (shown["blank"], shown["open"]) == (False, True)
    ended = asked("session", "end")
    assert (ended["id"], ended["waiting"], ended["blank"]) == ("one", 1, False)


def test_the_session_is_named_chosen_by_the_environment_or_the_only_one(run: Run, one: str) -> None:
    code, out, err = run("session", "start", "--id", "two")
    assert code == 0
    assert err == "1 other session is open: name this one with --session, or in MEMSHEAF_SESSION\n"

    code, out, err = run("session", "note", "which?")
    assert (code, out) == (1, "")
    assert err == (
        "memsheaf: several could be meant: one, two; name one with --session NAME\n"
        "`memsheaf session list` shows them; MEMSHEAF_SESSION names one for every command.\n"
    )
    assert run("session", "note", "to two", more={"MEMSHEAF_SESSION": "two"})[0] == 0
    assert run("session", "note", "to one", "--session", "one", more={"MEMSHEAF_SESSION": "two"})[0] == 0
    assert "to one" in run("session", "show", "--session", "one")[1]
    assert "to two" in run("session", "show", "--session", "two")[1]


def test_show_and_end_take_the_name_as_it_comes(run: Run, asked: Callable[..., Any], one: str, tree: Tree) -> None:
    asked("session", "start", "--id", "two")

    assert asked("session", "show", "two")["id"] == "two"
    before = tree()
    for action in ("show", "end"):
        code, out, err = run("session", action, "two", "--session", "one")
        assert (code, out) == (2, "")
        assert err.startswith("memsheaf: the session is named twice\n")
        assert run("session", action, "../two")[0] == 1
        assert run("session", action, "three")[2].startswith("memsheaf: there is no session 'three'\n")
    assert tree() == before
    assert asked("session", "end", "two")["id"] == "two"
    assert [row["id"] for row in asked("session", "list")["sessions"]] == ["one"]


def test_what_is_refused_is_told_in_the_words_of_sessions(run: Run) -> None:
    assert run("session", "show")[2] == "memsheaf: no session is open\n`memsheaf session start` begins one.\n"
    assert run("session", "start", "--id", "one")[0] == 0
    for id, said in {"one": "memsheaf session show --session one", "a b": "--id"}.items():
        code, out, err = run("session", "start", "--id", id)
        assert (code, out) == (1, "")
        assert said in err
        assert "Scopes are" not in err
        assert "memsheaf update" not in err
    assert "Scopes are" not in run("session", "show", "--session", "a b")[2]
    secret = "ghp_" + "Zx81kQpL" * 4 + "aB3d"
    code, out, err = run("session", "note", f"the key is {secret}")
    assert (code, out) == (1, "")
    assert err.startswith("memsheaf: the note holds ")
    assert " line " not in err


def test_what_search_shows_of_a_session_is_what_it_is_about(run: Run, one: str) -> None:
    run("session", "note", "Tests need Redis", "--section", "key")

    assert run("search", "redis")[1].endswith(" (pinned) Move the login\n")
    assert run("search", "confirmed facts")[1] == ""


def test_help_shows_how_to_note_what_can_be_promoted_at_once(run: Run) -> None:
    shown = run("session", "--help")[1]

    assert "  Subject: fact, see FILE:LINE\n  Why: " in shown
    (example,) = re.findall(r"printf '(.*)' \|", shown)
    Path(".git").mkdir()
    Path("Makefile").write_text("\n" * 11 + "check:\n")
    run("session", "start", "--id", "one")
    assert run("session", "note", "--section", "key", "-", stdin=example.replace("\\n", "\n"))[0] == 0
    (item,) = json.loads(run("promote", "--json")[1])["items"]
    assert {step["verdict"] for step in item["steps"]} <= {"pass", "ask"}, item["steps"]


def test_on_a_terminal_one_is_asked_before_something_is_left_behind(run: Run, one: str, tree: Tree) -> None:
    for text in ("Tests need Redis", "The proxy listens on 8080"):
        run("session", "note", text, "--section", "key")
    before = tree()

    code, out, err = run("session", "end", screen=True, stdin="\n")
    assert (code, out) == (1, "")
    assert "2 items could be promoted: `memsheaf promote --session one` offers them\n" in err
    assert "Nothing was changed." in err
    assert tree() == before
    assert run("session", "end", screen=True, stdin="y\n")[0] == 0
    assert run("undo", "--scope", "session/one")[0] == 0
    code, _, err = run("session", "end", "--yes", screen=True)
    assert code == 0
    assert "[y/N]" not in err
    run("session", "start", "--id", "two")
    code, out, err = run("session", "end", screen=True)
    assert (code, err) == (0, ""), "nothing could be promoted"
    assert out.endswith("  nothing is waiting to be promoted; `memsheaf brief` says where the work stands\n")


def test_a_second_end_says_that_it_has_ended_and_undo_opens_it_again(run: Run, one: str) -> None:
    assert run("session", "end")[1].startswith("Ended session one: nothing had been noted\n")

    for words in (["end"], ["note", "x"], ["show"]):
        code, out, err = run("session", *words, "--session", "one")
        assert (code, out) == (1, "")
        assert err.startswith("memsheaf: the session 'one' has ended\nUndo with `memsheaf undo --scope session/one`")
    assert run("undo", "--scope", "session/one")[0] == 0
    assert run("session", "note", "again")[0] == 0


def test_templates_come_from_a_file_or_the_users_folder(run: Run, tmp_path: Path) -> None:
    Path("mine.md").write_text("# Mine\n\n## Done\n## To do\n")
    assert run("session", "start", "--id", "one", "--template", "mine.md")[0] == 0
    assert run("session", "note", "x", "--session", "one")[0] == 1
    assert run("session", "note", "x", "--session", "one", "--section", "to")[0] == 0
    assert "## To do\n- x\n" in run("session", "show", "--session", "one")[1]

    assert run("session", "start", "--id", "two", "--long")[0] == 0
    assert "## Codebase and System Documentation\n" in run("session", "show", "--session", "two")[1]
    (tmp_path / "home" / "session.md").write_text("## Own\n")
    assert run("session", "start", "--id", "three")[0] == 0
    assert run("session", "show", "--session", "three")[1].endswith("## Own\n")
