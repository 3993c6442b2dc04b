"""What a new user stumbled over: taking back, forgetting by words, importing elsewhere, narrow terminals."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import listing

Run = Callable[..., tuple[int, str, str]]
TWO_FACTS = "For all my projects I use pnpm, never npm. In this project the staging db is wiped every Sunday."


def paths(run: Run) -> list[str]:
    return listing(run).split()


def test_one_undo_takes_back_every_fact_of_one_command_and_shows_each_text(run: Run) -> None:
    run("remember", "Releases go out on Tuesdays")
    code, out, _ = run("remember", TWO_FACTS)
    assert (code, len(paths(run))) == (0, 3)
    assert out.endswith("Undo with `memsheaf undo`.\n")

    code, out, _ = run("undo")

    assert code == 0
    assert "- For all my projects I use pnpm, never npm." in out
    assert "- In this project the staging db is wiped every Sunday." in out
    assert paths(run) == ["project_releases-tuesdays.md"]


def test_one_undo_takes_back_facts_of_one_scope_too_and_none_of_the_command_before(run: Run) -> None:
    run("remember", "The port is 8080. The staging db is wiped every Sunday.")
    run("remember", "The port is 9090 now. Priya owns the billing service.")
    assert len(paths(run)) == 3

    assert run("undo")[0] == 0

    assert sorted(run("list")[1].split("The ")[1:]) == ["port is 8080.\n", "staging db is wiped every Sunday.\n"] or (
        "8080" in run("list")[1] and "Priya" not in run("list")[1]
    )
    assert run("undo")[0] == 0
    assert paths(run) == []


def test_redo_does_again_what_the_last_undos_took_back_one_after_the_other(run: Run) -> None:
    run("remember", "Releases go out on Tuesdays")
    run("remember", TWO_FACTS)
    there = sorted(paths(run))
    run("undo")
    run("undo")
    assert paths(run) == []

    code, out, _ = run("undo", "--redo")
    assert (code, "Releases go out on Tuesdays" in out) == (0, True)
    assert run("undo", "--redo")[0] == 0
    assert sorted(paths(run)) == there

    code, _, err = run("undo", "--redo")
    assert (code, "nothing is left to redo" in err) == (1, True)
    run("undo")
    assert len(paths(run)) == 1


def test_nothing_is_redone_once_something_else_was_saved(run: Run) -> None:
    run("remember", "Releases go out on Tuesdays")
    run("undo")
    run("remember", "Priya owns the billing service")

    assert run("undo", "--redo")[0] == 1
    assert paths(run) == ["project_priya-owns-billing-service.md"]


@pytest.fixture
def backup(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An archive of two scopes, the user's and that of a project in another folder; both are empty afterwards."""
    run("remember", TWO_FACTS)
    archive = str(tmp_path / "backup.zip")
    assert run("export", archive)[0] == 0
    run("undo")
    return archive


def test_an_import_says_where_each_scope_went_and_one_undo_reaches_another_project(
    run: Run, backup: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    code, out, _ = run("import", backup)

    assert code == 0
    assert "1 to the user" in out
    assert f"1 to the project {tmp_path / 'work'}" in out
    assert len(paths(run)) == 1
    assert run("undo")[0] == 0
    assert paths(run) == []
    monkeypatch.chdir(tmp_path / "work")
    assert paths(run) == []


def test_an_undo_that_reaches_another_project_names_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("remember", "We use pnpm here")
    assert run("edit", paths(run)[0], "--move", "user")[0] == 0
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    _, out, _ = run("undo")

    head, *lines = out.splitlines()
    assert re.fullmatch(r"Undone in work-\w+, user:", head)
    assert re.fullmatch(r"  \+ work-\w+:\w+_pnpm\.md", lines[0])
    assert paths(run) == []


def test_an_import_into_one_scope_says_which(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    text = "---\nname: Release day\ndescription: When\ntype: project\n---\nFridays.\n"
    (tmp_path / "notes" / "project_release-day.md").write_text(text)

    out = run("import", str(tmp_path / "notes"))[1]

    assert out == "1 added, 0 replaced, 0 unchanged, 0 refused\n  1 to the project\nUndo with `memsheaf undo`.\n"
    dry = run("import", str(tmp_path / "notes"), "--dry-run", "--scope", "user")[1]
    assert dry.startswith("1 to add, 0 to replace, 0 unchanged, 0 refused\n  1 to the user\n  + ")


def test_forget_shows_the_text_that_it_forgot_and_how_to_undo_it(run: Run) -> None:
    run("remember", "We deploy on Fridays")

    code, out, _ = run("forget", "deploy")

    assert code == 0
    assert out == "Forgot project_deploy-fridays.md\n  - We deploy on Fridays\nUndo with `memsheaf undo`.\n"


def test_the_log_shows_no_hash_of_what_was_learned_unless_asked(run: Run) -> None:
    assert run("learn", "-", stdin="User: Remember that we deploy on Fridays.\nAssistant: Noted.\n")[0] == 0

    short, full = run("log")[1], run("log", "--full")[1]

    assert "extraction  learn\n" in short
    assert "extraction  learn " in full


def test_facts_of_one_message_neither_replace_nor_doubt_each_other(run: Run) -> None:
    facts = ["Anna leads QA", "Carla leads design", "Bob leads ops", "Dora leads QA now"]

    _, out, err = run("remember", "\n".join(f"- {fact}" for fact in facts))

    assert out.count("Saved ") == len(facts)
    assert "outdated" not in err
    assert sorted(row["description"] for row in json.loads(run("list", "--json")[1])["memories"]) == sorted(facts)


def test_why_names_a_memory_as_it_is_shown(run: Run) -> None:
    run("remember", "I prefer pnpm")

    assert "user:user_pnpm.md matters with" in run("why", "which package manager, pnpm or npm?")[1].splitlines()[0]
