from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def filled(run: Run) -> Run:
    for name, said, text in (
        ("CI/CD considerations", "How the deployment pipeline works", "Deploy with make ship."),
        ("PostgreSQL index tuning", "Database performance", "Use partial indexes."),
    ):
        assert run("add", name, "--scope", "user", "--type", "project", "--description", said, text)[0] == 0
    return run


def test_recall_prints_what_an_agent_would_get(filled: Run) -> None:
    code, out, err = filled("recall", "--scope", "user", "what", "is our deployment process?")

    assert (code, err) == (0, "")
    assert out.startswith("<memories-")
    assert "Deploy with make ship." in out
    assert "partial indexes" not in out


def test_recall_says_why_there_is_nothing(filled: Run) -> None:
    for message, said in (
        ("tell me a joke", "in common"),
        ("hello", "single word"),
        ("ignore memory please", "ignore"),
    ):
        code, out, err = filled("recall", "--scope", "user", message)
        assert (code, out) == (0, "")
        assert err.startswith("nothing recalled: ")
        assert said in err


def test_recall_as_json(filled: Run) -> None:
    _, out, _ = filled("recall", "--scope", "user", "the database performance", "--json")
    found = json.loads(out)

    assert [one["path"] for one in found["memories"]] == ["project_postgresql-index-tuning.md"]
    assert found["bytes"] == len(found["text"].encode())
    assert (found["gate"], found["selector"]) == ("", "local")
    assert "candidates" not in found


def test_several_scopes_are_asked_the_nearest_first(filled: Run) -> None:
    filled(
        "add", "Deploy", "--agent", "ops", "--type", "project", "--description", "The deployment process", "By hand."
    )
    _, out, _ = filled("recall", "--agent", "ops", "--scope", "user", "our deployment process?", "--json")

    assert {(one["scope"], one["path"]) for one in json.loads(out)["memories"]} == {
        ("agent/ops", "agent/ops:project_deploy.md"),
        ("user", "project_ci-cd-considerations.md"),
    }


def test_why_lists_every_candidate_and_counts_nothing(filled: Run, tmp_path: Path) -> None:
    filled(
        "add", "Old deployment", "--scope", "user", "--type", "project", "--description", "The deployment of old",
        "--expires", "2020-01-01", "By ftp.",
    )  # fmt: skip
    code, out, err = filled("why", "--scope", "user", "what is our deployment process?")
    lines = out.splitlines()

    assert (code, err) == (0, "")
    assert lines[0] == "chosen by: local"
    assert lines[1] == "user: found by words"
    assert lines[2].split() == ["SCORE", "FIT", "COMMON", "NEAR", "SCOPE", "FILE", "WHY"]
    assert any(line.startswith("*") and "ci-cd" in line and line.endswith("recalled") for line in lines)
    assert any(line.endswith("expired on 2020-01-01") for line in lines)
    assert not (tmp_path / "home" / "user" / ".history" / "uses").exists()


def test_why_names_the_gate_or_that_no_word_is_shared(filled: Run) -> None:
    assert "single word" in filled("why", "--scope", "user", "hello")[1]
    assert "no memory shares a word" in filled("why", "--scope", "user", "tell me a joke")[1]
    assert "ignore memory" in filled("why", "--scope", "user", "ignore memory and deploy this")[1]


def test_why_names_files_as_other_commands_read_them(filled: Run) -> None:
    question = ("why", "what is our deployment process?")
    (path,) = {one["path"] for one in json.loads(filled(*question, "--json")[1])["candidates"] if one["chosen"]}

    assert path.startswith("user:")
    assert f" {path} " in filled(*question)[1]
    assert filled("show", path)[0] == 0


def test_why_as_json(filled: Run) -> None:
    _, out, _ = filled("why", "--scope", "user", "how does the deployment pipeline work?", "--json")
    candidates = json.loads(out)["candidates"]

    nothing = {"embedder": "", "done": 0, "total": 2, "running": False, "problem": ""}
    assert json.loads(out)["embedding"] == {"user": nothing}
    assert candidates[0]["path"] == "project_ci-cd-considerations.md"
    assert candidates[0]["chosen"]
    assert set(candidates[0]) == {"scope", "path", "score", "fit", "common", "near", "chosen", "why"}


def test_a_recall_leaves_an_empty_scope_alone(run: Run, tree: Callable[[], dict[str, bytes]]) -> None:
    before = tree()
    assert run("recall", "--scope", "user", "what is our deployment process?")[0] == 0
    assert tree() == before


def test_a_recall_without_a_message_is_a_mistake(run: Run) -> None:
    assert run("recall")[0] == 2


def test_why_says_whether_meaning_counted(filled: Run, environment: dict[str, str]) -> None:
    environment["MEMSHEAF_EMBEDDER"] = "static"
    assert "\nuser: found by words and meaning\n" in filled("why", "--scope", "user", "shipping our software")[1]
    environment["MEMSHEAF_EMBEDDER"] = "nonsense"
    said = filled("why", "--scope", "user", "what is our deployment process?")[1]
    assert "\nuser: found by words, because the embedder failed: there is no embedder 'nonsense'" in said
