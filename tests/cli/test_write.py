from __future__ import annotations

import json
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]
Tree = Callable[[], dict[str, bytes]]
TABS = ("add", "Prefers tabs", "--description", "Indentation of code", "--type", "user")


def shown(run: Run, file: str) -> dict[str, object]:
    code, out, _ = run("show", file, "--json")
    assert code == 0
    value = json.loads(out)
    assert isinstance(value, dict)
    return value


def test_a_fact_that_is_added_is_shown_with_all_that_was_said(run: Run) -> None:
    code, out, err = run(
        *TABS, "Use tabs.", "--pin", "--cite", "a.py:1", "--cite", "b.py:2", "--expires", "2027-01-01"
    )

    assert (code, out, err) == (
        0,
        "Saved user:user_prefers-tabs.md; `memsheaf undo --scope user` takes it back.\n",
        "",
    )
    memory = shown(run, "user:user_prefers-tabs.md")
    assert memory["name"] == "Prefers tabs"
    assert memory["type"] == "user"
    assert memory["body"] == "Use tabs.\n"
    assert memory["citations"] == ["a.py:1", "b.py:2"]
    assert (memory["pinned"], memory["expires"], memory["source"]) == (True, "2027-01-01", "user")


@pytest.mark.parametrize("words", [("-",), ("--content", "-"), ()])
def test_a_text_comes_from_standard_input(run: Run, words: tuple[str, ...]) -> None:
    code, _, _ = run(*TABS, *words, stdin="Use tabs.\n\nAlways.\n")

    assert code == 0
    assert shown(run, "user_prefers-tabs.md")["body"] == "Use tabs.\n\nAlways.\n"


def test_on_a_terminal_a_missing_text_is_asked_for_and_not_waited_for(run: Run, tree: Tree) -> None:
    before = tree()

    code, _, err = run(*TABS, screen=True)

    assert code == 2
    assert "there is no text" in err
    assert tree() == before


def test_options_stand_before_or_after_the_command_and_their_values_may_begin_with_a_dash(run: Run) -> None:
    run("--scope", "user", *TABS, "--content", "-x")
    code, _, _ = run("update", "user_prefers-tabs.md", "--old", "-x", "--new", "--json", "--scope=user")

    assert code == 0
    assert shown_in_user(run)["body"] == "--json\n"


def shown_in_user(run: Run) -> dict[str, object]:
    value = json.loads(run("--scope", "user", "--json", "show", "user_prefers-tabs.md")[1])
    assert isinstance(value, dict)
    return value


def test_a_second_memory_of_that_name_is_refused_until_replace_is_said(run: Run, tabs: str, tree: Tree) -> None:
    before = tree()

    code, _, err = run(*TABS, "Use spaces.")
    assert code == 1
    assert "exists already" in err
    assert tree() == before

    assert run(*TABS, "Use spaces.", "--replace")[0] == 0
    assert shown(run, tabs)["body"] == "Use spaces.\n"


def test_an_update_changes_the_one_place_it_names(run: Run, tabs: str) -> None:
    assert run("update", tabs, "--old", "Use tabs", "--new", "Use spaces")[:2] == (0, f"Updated {tabs}\n")
    assert shown(run, tabs)["body"] == "Use spaces.\n"


def test_an_update_of_several_places_names_their_lines_and_needs_their_count(run: Run, tabs: str) -> None:
    run("insert", tabs, "--line", "1", "--text", "Use tabs. Use tabs.")

    code, _, err = run("update", tabs, "--old", "Use tabs.", "--new", "x")
    assert code == 1
    assert "3 times" in err

    assert run("update", tabs, "--old", "Use tabs.", "--new", "x", "--count", "3")[0] == 0
    assert shown(run, tabs)["body"] == "x\nx x\n"


def test_lines_are_inserted_where_the_number_says(run: Run, tabs: str) -> None:
    run("insert", tabs, "--line", "0", "--text", "First.")
    run("insert", tabs, "--line", "2", stdin="Last.\n")

    assert shown(run, tabs)["body"] == "First.\nUse tabs.\nLast.\n"


def test_a_forgotten_memory_is_gone_and_the_answer_tells_how_to_get_it_back(run: Run, tabs: str) -> None:
    code, out, _ = run("forget", tabs, "--why", "moved to spaces")

    assert code == 0
    assert run("show", tabs)[0] == 1
    assert "moved to spaces" in run("log")[1]
    assert run(*out.partition("`")[2].partition("`")[0].split()[1:])[0] == 0
    assert run("show", tabs)[0] == 0


def test_a_memory_of_one_agent_is_not_seen_by_another(run: Run) -> None:
    run("--agent", "writer", *TABS, "Use tabs.")

    assert "user_prefers-tabs.md" in run("list", "--agent", "writer")[1]
    assert run("list", "--agent", "reader")[1] == ""
    assert run("list")[1] == ""


def test_standard_input_that_is_not_text_or_has_no_end_is_refused(run: Run, tree: Tree) -> None:
    before = tree()

    assert run(*TABS, stdin="x" * 2_000_000)[0] == 1
    assert run(*TABS, stdin="")[0] == 2
    assert tree() == before
