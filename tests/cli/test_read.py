from __future__ import annotations

import json
import os
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


def test_looking_at_a_scope_that_is_not_there_creates_nothing(run: Run, tree: Tree) -> None:
    before = tree()

    for words in (["list"], ["search", "x"], ["catalog"], ["prompt"], ["log"], ["scopes"], ["doctor"]):
        assert run(*words)[0] == 0
        assert tree() == before, words


def test_a_list_has_columns_that_line_up_whatever_the_script(run: Run) -> None:
    add(run, "Tabs", "Indentation")
    add(run, "日本", "日本語のメモ", "reference")

    _, out, _ = run("list")

    first, second = out.splitlines()
    assert first.startswith("reference_日本.md  reference  20")
    assert second.startswith("user:user_tabs.md  user       20")


def test_a_list_is_narrowed_by_type_and_to_file_names(run: Run) -> None:
    add(run, "Tabs", "Indentation")
    add(run, "Docs", "Where the docs are", "reference")

    assert run("list", "--type", "reference", "--paths")[1] == "reference_docs.md\n"
    assert run("list", "--paths")[1] == "reference_docs.md\nuser:user_tabs.md\n"
    assert run("list", "--type", "usr") == (0, "", "no memories in project, user of type 'usr'\n")


def test_a_file_that_cannot_be_used_is_listed_with_its_problem(
    run: Run, tabs: str, environment: dict[str, str]
) -> None:
    (project(environment) / "broken.md").write_bytes(b"\xff\xfe")

    assert "problem: not UTF-8" in run("list")[1]


def test_unconfirmed_memories_can_be_listed_alone(run: Run, tabs: str, environment: dict[str, str]) -> None:
    (project(environment) / "heard.md").write_text(
        "---\nname: H\ndescription: d\ntype: user\ntrust: unconfirmed\n---\nx\n"
    )

    assert run("list", "--unconfirmed")[1].startswith("heard.md")
    assert len(run("list", "--unconfirmed")[1].splitlines()) == 1


def test_a_search_finds_the_best_first_and_says_when_there_is_nothing(run: Run) -> None:
    add(run, "Release day", "When releases go out")
    add(run, "Tabs", "Not the day")

    assert run("search", "release", "day")[1].startswith("user:user_release-day.md")
    assert len(run("search", "day", "--limit", "1")[1].splitlines()) == 1
    assert run("search", "zebra")[:2] == (0, "")


@pytest.mark.parametrize("query", ["[a-z]*(((((a+)+)+)+)+)$", "--pre=/bin/sh", '"', "NEAR(", "name:x OR", "*", "ﷺ"])
def test_a_search_takes_every_word_as_a_word(run: Run, tabs: str, query: str) -> None:
    code, _, err = run("search", "--", query)

    assert code == 0
    assert "Traceback" not in err


def test_the_catalog_is_shown_whole_page_by_page(run: Run) -> None:
    for number in range(3):
        add(run, f"Fact {number}", "d")

    assert run("catalog")[1].count("user_fact") == 3
    assert run("catalog", "--page", "1")[1].startswith("# Memory, page 1 of 1")
    assert "(empty)" in run("catalog", "--type", "project")[1]


def test_a_prompt_has_a_section_for_each_scope_and_none_of_the_tools_when_asked_so(run: Run, tabs: str) -> None:
    _, both, _ = run("prompt", "--scope", "user", "--scope", "project", "--agent", "writer")
    assert [scope in both for scope in ("`user`", "`project`", "`agent/writer`")] == [True] * 3
    assert tabs in both

    _, bare, _ = run("prompt", "--no-tools")
    assert "memory_write" in run("prompt")[1]
    assert "memory_write" not in bare
    assert tabs in bare


def test_several_scopes_are_refused_where_one_is_meant(run: Run) -> None:
    code, _, err = run("doctor", "--scope", "user", "--agent", "writer")

    assert code == 2
    assert "one scope at a time" in err


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


def test_memories_can_be_named_in_another_case_as_some_file_systems_do(run: Run, tabs: str) -> None:
    assert run("show", tabs.upper().replace(".MD", ".md"))[0] == 0


def test_the_settings_decide_where_nothing_is_said(run: Run, tabs: str, environment: dict[str, str]) -> None:
    Path(environment["MEMSHEAF_HOME"], "config.toml").write_text('scope = "user"\n')
    assert run("list")[1] == ""
    assert tabs in run("list", "--scope", "project")[1]

    Path(environment["MEMSHEAF_HOME"], "config.toml").write_text("scop = 1\n")
    code, _, err = run("list")
    assert code == 1
    assert "unknown settings: scop" in err


def test_home_and_project_can_be_put_elsewhere_for_one_call(run: Run, tabs: str, tmp_path: Path) -> None:
    assert run("list", "--home", str(tmp_path / "other"))[1] == ""
    assert (
        run("--project", str(tmp_path / "kept"), "add", "X", "x", "--description", "x", "--type", "project")[0] == 0
    )
    assert (tmp_path / "kept" / "project_x.md").exists()


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
        "problem",
    }  # fmt: skip
