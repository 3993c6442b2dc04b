"""Commands that read, and what a message recalls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import listing

Run = Callable[..., tuple[int, str, str]]


def project(environment: dict[str, str]) -> Path:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    return root


def add(run: Run, name: str, description: str, kind: str = "user") -> None:
    assert run("remember", f"About {name}.", "--name", name, "--description", description, "--type", kind)[0] == 0


def test_a_list_has_columns_that_line_up_and_is_narrowed(run: Run) -> None:
    add(run, "Tabs", "Indentation")
    about = ("--description", "日本語のメモ", "--type", "reference")
    assert run("remember", "About 日本.", "--name", "日本", *about, "--scope", "project")[0] == 0

    first, second = run("list")[1].splitlines()
    assert first.startswith("reference_日本.md  reference  20")
    assert second.startswith("user:user_tabs.md  user       20")
    assert listing(run, "--type", "reference") == "reference_日本.md\n"
    assert listing(run) == "reference_日本.md\nuser:user_tabs.md\n"
    said = "no memories in project, user of type 'usr', which is none of user, feedback, project, reference; "
    said += "`memsheaf remember TEXT` saves one\n"
    assert run("list", "--type", "usr") == (0, "", said)


def test_a_file_with_a_problem_or_a_doubt_is_listed_with_it(run: Run, tabs: str, environment: dict[str, str]) -> None:
    (project(environment) / "broken.md").write_bytes(b"\xff\xfe")
    header = "name: H\ndescription: d\ntype: user\ntrust: unconfirmed"
    (project(environment) / "heard.md").write_text(f"---\n{header}\n---\nx\n")

    assert "problem: not UTF-8" in run("list")[1]
    assert "(unconfirmed) H: d" in run("list")[1]


def test_a_search_finds_the_best_first_and_says_when_there_is_nothing(run: Run) -> None:
    add(run, "Release day", "When releases go out")
    add(run, "Tabs", "Not the day")

    assert run("search", "release", "day")[1].startswith("user:user_release-day.md")
    assert len(run("search", "day", "--limit", "1")[1].splitlines()) == 1
    for query in ("[a-z]*(((((a+)+)+)+)+)$", "--pre=/bin/sh", '"', "NEAR(", "name:x OR", "*", "ﷺ", "query", "text"):
        code, out, err = run("search", "--scope", "user", "--", query)
        assert (code, out) == (0, ""), query
        assert err == f"nothing found for {query!r} in user; `memsheaf list` shows all\n"


def test_what_may_be_outdated_says_so_wherever_it_is_shown(run: Run) -> None:
    run("remember", "My manager is Ute")
    run("remember", "My manager is Kai")
    mark = "may be outdated: user:user_manager-kai.md is newer"

    for line in (("list",), ("search", "manager"), ("recall", "who is my manager?")):
        out = run(*line)[1]
        assert out.count(mark) == 1, line
        assert [mark in part for part in out.splitlines() if "manager is Ute" in part] == [True], line
    assert f"user:user_manager-ute.md: {mark}" in run("show", "user_manager-ute.md")[2]
    assert json.loads(run("show", "user_manager-ute.md", "--json")[1])["warnings"] == [mark]
    assert "- [My manager is Ute](user:user_manager-ute.md) (may be outdated)\n" in run("show")[1]
    listed = {row["name"]: row["warning"] for row in json.loads(run("list", "--json")[1])["memories"]}
    assert listed == {"My manager is Ute": mark, "My manager is Kai": ""}

    run("forget", "user_manager-kai.md")
    for line in (("list",), ("show",), ("show", "user_manager-ute.md")):
        assert "outdated" not in "".join(run(*line)[1:]), line


def test_a_folder_that_may_only_be_read_can_be_looked_at(run: Run, tabs: str, environment: dict[str, str]) -> None:
    root = project(environment)
    (root / "new.md").write_text("New.\n")
    root.chmod(0o500)
    try:
        codes = [run(*words)[0] for words in (["list"], ["show", tabs], ["log"], ["show", "--prompt"])]
    finally:
        root.chmod(0o700)

    assert codes == [0, 0, 0, 0]


@pytest.fixture
def filled(run: Run) -> Run:
    for name, said, text in (
        ("CI/CD considerations", "How the deployment pipeline works", "Deploy with make ship."),
        ("PostgreSQL index tuning", "Database performance", "Use partial indexes."),
    ):
        about = ("--scope", "user", "--name", name, "--type", "project", "--description", said)
        assert run("remember", *about, text)[0] == 0
    return run


def test_recall_prints_what_an_agent_would_get_or_why_there_is_nothing(filled: Run) -> None:
    code, out, err = filled("recall", "--scope", "user", "what", "is our deployment process?")

    assert (code, err) == (0, "")
    assert out.startswith("<memories-")
    assert "Deploy with make ship." in out
    assert "partial indexes" not in out
    for message, said in {
        "tell me a joke": "no memory clearly fits",
        "hello": "no memory clearly fits",
        "ignore memory": "ignore",
    }.items():
        code, out, err = filled("recall", "--scope", "user", message)
        assert (code, out) == (0, "")
        assert err.startswith("nothing recalled: ")
        assert said in err


@pytest.mark.parametrize("embedder", ["none", "auto"])
def test_a_search_that_finds_nothing_says_so_and_what_is_near_in_meaning_is_found(
    run: Run, environment: dict[str, str], embedder: str
) -> None:
    environment["MEMSHEAF_EMBEDDER"] = embedder
    for fact in ("I prefer pnpm", "We deploy on Fridays, after the standup", "Never add a dependency without asking"):
        assert run("remember", fact)[0] == 0

    for query in ("zzzz", "asdf", "flarb blorp", "football", "the weather in Rome", "Mozart"):
        code, out, err = run("search", query)
        assert (code, out) == (0, ""), query
        assert err == f"nothing found for {query!r} in project, user; `memsheaf list` shows all\n"
        assert json.loads(run("search", query, "--json")[1])["memories"] == []
    for query, found in {"pnpm": "pnpm", "depl": "deploy", "dependencies": "dependency"}.items():
        assert found in run("search", query)[1].splitlines()[0], query
    if embedder == "auto":
        assert "pnpm" in run("search", "package manager")[1], "no word is shared"
