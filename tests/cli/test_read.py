"""Commands that read, and what a message recalls."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]


def project(environment: dict[str, str]) -> Path:
    (root,) = Path(environment["MEMSHEAF_HOME"], "projects").iterdir()
    return root


def add(run: Run, name: str, description: str, kind: str = "user") -> None:
    assert run("add", name, f"About {name}.", "--description", description, "--type", kind)[0] == 0


def test_a_list_has_columns_that_line_up_and_is_narrowed(run: Run) -> None:
    add(run, "Tabs", "Indentation")
    about = ("--description", "日本語のメモ", "--type", "reference")
    assert run("add", "日本", "About 日本.", *about, "--scope", "project")[0] == 0

    first, second = run("list")[1].splitlines()
    assert first.startswith("reference_日本.md  reference  20")
    assert second.startswith("user:user_tabs.md  user       20")
    assert run("list", "--type", "reference", "--paths")[1] == "reference_日本.md\n"
    assert run("list", "--paths")[1] == "reference_日本.md\nuser:user_tabs.md\n"
    said = "no memories in project, user of type 'usr'; `memsheaf remember TEXT` saves one\n"
    assert run("list", "--type", "usr") == (0, "", said)


def test_a_file_with_a_problem_or_a_doubt_is_listed_with_it(run: Run, tabs: str, environment: dict[str, str]) -> None:
    (project(environment) / "broken.md").write_bytes(b"\xff\xfe")
    header = "name: H\ndescription: d\ntype: user\ntrust: unconfirmed"
    (project(environment) / "heard.md").write_text(f"---\n{header}\n---\nx\n")

    assert "problem: not UTF-8" in run("list")[1]
    assert run("list", "--unconfirmed")[1].startswith("heard.md")
    assert len(run("list", "--unconfirmed")[1].splitlines()) == 1


def test_a_search_finds_the_best_first_and_says_when_there_is_nothing(run: Run) -> None:
    add(run, "Release day", "When releases go out")
    add(run, "Tabs", "Not the day")

    assert run("search", "release", "day")[1].startswith("user:user_release-day.md")
    assert len(run("search", "day", "--limit", "1")[1].splitlines()) == 1
    for query in ("[a-z]*(((((a+)+)+)+)+)$", "--pre=/bin/sh", '"', "NEAR(", "name:x OR", "*", "ﷺ", "query", "text"):
        code, out, err = run("search", "--scope", "user", "--", query)
        assert (code, out) == (0, ""), query
        assert err == f"nothing found for {query!r} in user; `memsheaf list` shows all\n"


def test_the_catalog_is_shown_as_agents_see_it(run: Run) -> None:
    for number in range(3):
        add(run, f"Fact {number}", "d")

    assert run("catalog")[1].count("user_fact") == 3


def test_a_prompt_has_a_section_for_each_scope_and_none_of_the_tools_when_asked_so(run: Run, tabs: str) -> None:
    _, both, _ = run("prompt", "--scope", "user", "--scope", "project", "--agent", "writer")
    assert [scope in both for scope in ("`user`", "`project`", "`agent/writer`")] == [True] * 3
    assert tabs in both

    _, bare, _ = run("prompt", "--no-tools")
    assert "memory_write" in run("prompt")[1]
    assert "memory_write" not in bare
    assert tabs in bare


def test_raw_bytes_leave_as_they_are(run: Run, tabs: str, environment: dict[str, str]) -> None:
    data = b"---\r\nname: x\r\n---\r\n\x1b[31m\xff no newline"
    (project(environment) / "raw.md").write_bytes(data)

    done = subprocess.run(
        [sys.executable, "-m", "memsheaf", "show", "--raw", "raw.md"],
        env=environment,
        capture_output=True,
        check=True,
    )

    assert done.stdout == data


def test_a_folder_that_may_only_be_read_can_be_looked_at(run: Run, tabs: str, environment: dict[str, str]) -> None:
    root = project(environment)
    (root / "new.md").write_text("New.\n")
    root.chmod(0o500)
    try:
        codes = [run(*words)[0] for words in (["list"], ["show", tabs], ["log"], ["prompt"])]
    finally:
        root.chmod(0o700)

    assert codes == [0, 0, 0, 0]


def test_the_settings_decide_where_nothing_is_said(run: Run, tabs: str, environment: dict[str, str]) -> None:
    Path(environment["MEMSHEAF_HOME"], "config.toml").write_text('scope = "user"\n')
    assert run("list")[1] == ""
    assert tabs in run("list", "--scope", "project")[1]

    Path(environment["MEMSHEAF_HOME"], "config.toml").write_text("scop = 1\n")
    code, _, err = run("list")
    assert code == 0
    assert "config.toml, line 1: there is no setting scop; known are scope, " in err


def test_home_and_project_can_be_put_elsewhere_for_one_call(run: Run, tabs: str, tmp_path: Path) -> None:
    assert run("list", "--home", str(tmp_path / "other"))[1] == ""
    words = ("add", "name", "text", "--description", "x", "--type", "project")
    assert run("--project", str(tmp_path / "kept"), *words)[0] == 0
    assert (tmp_path / "kept" / "project_name.md").exists()
    assert run("show", tabs.upper().replace(".MD", ".md"))[0] == 0
    code, _, err = run("index", "--scope", "user", "--agent", "writer")
    assert (code, "one scope at a time" in err) == (2, True)


def test_a_removed_working_directory_is_an_error_with_words(run: Run, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    os.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    try:
        code, _, err = run("list")
    finally:
        os.chdir(tmp_path)

    assert code == 1
    assert "working directory" in err


def test_json_rows_have_the_same_keys_for_list_and_search(run: Run, tabs: str) -> None:
    listed = json.loads(run("list", "--json")[1])
    found = json.loads(run("search", "tabs", "--json")[1])

    assert listed == found
    assert listed["scopes"] == ["project", "user"]
    assert set(listed["memories"][0]) == {
        "scope", "path", "type", "name", "description", "updated", "state", "trust", "pinned", "size", "version",
        "problem"
    }  # fmt: skip


@pytest.fixture
def filled(run: Run) -> Run:
    for name, said, text in (
        ("CI/CD considerations", "How the deployment pipeline works", "Deploy with make ship."),
        ("PostgreSQL index tuning", "Database performance", "Use partial indexes."),
    ):
        assert run("add", name, "--scope", "user", "--type", "project", "--description", said, text)[0] == 0
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


def test_several_scopes_are_asked_the_nearest_first(filled: Run) -> None:
    about = ("--type", "project", "--description", "How the deployment pipeline works")
    filled("add", "CI/CD", "By hand.", "--agent", "ops", *about)

    _, out, _ = filled("recall", "--agent", "ops", "--scope", "user", "our deployment process?", "--json")

    found = json.loads(out)
    assert {(one["scope"], one["path"]) for one in found["memories"]} == {
        ("agent/ops", "agent/ops:project_ci-cd.md"),
        ("user", "project_ci-cd-considerations.md"),
    }
    assert found["bytes"] == len(found["text"].encode())
    assert (found["gate"], found["selector"]) == ("", "local")
    assert "candidates" not in found


def test_why_lists_every_candidate_and_counts_nothing(filled: Run, tmp_path: Path) -> None:
    about = ("--scope", "user", "--type", "project", "--description", "The deployment of old")
    filled("add", "Old deployment", "By ftp.", *about, "--expires", "2020-01-01")
    question = ("why", "--scope", "user", "what is our deployment process?")

    code, out, err = filled(*question)

    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert re.fullmatch(r"project_\S+\.md matters with \d+%, and \d+% are needed", lines.pop(0))
    assert lines[0] == "chosen by: local"
    assert lines[1] == "user: found by words"
    assert lines[2].split() == ["LIKELY", "NEAR", "COMMON", "SCOPE", "FILE", "WHY"]
    assert any(line.startswith("*") and "ci-cd" in line and line.endswith("recalled") for line in lines)
    assert any(line.endswith("expired on 2020-01-01") for line in lines)
    assert not (tmp_path / "home" / "user" / ".history" / "uses").exists()
    found = json.loads(filled(*question, "--json")[1])
    nothing = {"embedder": "", "done": 0, "total": 3, "running": False, "problem": ""}
    assert found["embedding"] == {"user": nothing}
    numbers = {"score", "likely", "common", "near"}
    assert set(found["candidates"][0]) == {"scope", "path", *numbers, "chosen", "why", "cut"}


def test_why_names_files_as_other_commands_read_them_and_the_gate(filled: Run) -> None:
    question = ("why", "what is our deployment process?")
    (path,) = {one["path"] for one in json.loads(filled(*question, "--json")[1])["candidates"] if one["chosen"]}

    assert path.startswith("user:")
    assert f" {path} " in filled(*question)[1]
    assert filled("show", path)[0] == 0
    for message, said in {"hello": "no memory shares a word", "tell me a joke": "no memory shares a word"}.items():
        assert said in filled("why", "--scope", "user", message)[1]


def test_why_says_whether_meaning_counted(filled: Run, environment: dict[str, str]) -> None:
    environment["MEMSHEAF_EMBEDDER"] = "auto"
    assert "\nuser: found by words and meaning\n" in filled("why", "--scope", "user", "shipping our software")[1]
    environment["MEMSHEAF_EMBEDDER"] = "nonsense"
    said = filled("why", "--scope", "user", "what is our deployment process?")[1]
    assert "\nuser: found by words, because the encoder failed: there is no encoder 'nonsense'" in said


def test_a_list_is_newest_first_over_all_scopes(run: Run) -> None:
    for name, kind in (("beta", "project"), ("Alpha", "user"), ("gamma", "project")):
        run("add", name, f"{name} is what we call the {name} machine.", "--description", name, "--type", kind)

    def names(*options: str) -> list[str]:
        return [row["name"] for row in json.loads(run("list", "--json", *options)[1])["memories"]]

    assert names() == ["gamma", "Alpha", "beta"]
    assert names("--type", "project") == ["gamma", "beta"]
    run("update", "beta", "--old", "machine", "--new", "host")
    assert names() == ["beta", "gamma", "Alpha"]


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
