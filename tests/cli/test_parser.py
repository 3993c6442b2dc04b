"""How the words of a line become the arguments of a command."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memsheaf.cli.commands import COMMANDS, GROUPS, RENAMED, find_command, load
from memsheaf.cli.parser import Usage, parse

Run = Callable[..., tuple[int, str, str]]


def test_a_group_names_the_command_that_was_meant(run: Run) -> None:
    for words, said in {
        ("task", "strat", "x"): "there is no command `task strat`; did you mean start?; `memsheaf task` has status",
        ("notes", "often"): "there is no command `notes often`; `memsheaf notes` has show, set, diary",
        ("task", "note", "--gaol", "x"): "there is no option --gaol",
        ("session", "start", "--section", "x"): "there is no option --section\n",
        ("list", "--typ", "user"): "there is no option --typ; did you mean --type?",
        ("hub", "sync", "user"): "there is a word too many: quote a text, and name a scope with -s",
    }.items():
        code, out, err = run(*words)
        assert (code, out) == (2, ""), words
        assert err.startswith(f"memsheaf: {said}"), err


def test_an_option_inside_a_text_is_refused_because_the_text_would_lose_it(run: Run) -> None:
    for command, line in (
        ("remember", "always pass --json to the CLI"),
        ("remember", "never use --anyway in scripts"),
        ("remember", "pass --allow-secret to nobody"),
        ("remember", "set --scope user in docs"),
        ("remember", "set --scope=user in docs"),
        ("remember", "set -s user in docs"),
        ("remember", "run ls -h first"),
        ("remember", "run ls --help first"),
        ("remember", "run npm test -- --watch always"),
        ("remember", "run npm test -- slowly"),
        ("remember", "git commit -m x is fine"),
        ("remember", "never push --force"),
        ("search", "the --json switch"),
        ("recall", "why is --json slow"),
        ("chat", "what does --json do"),
    ):
        code, out, err = run(command, *line.split(" "))

        assert code == 2, line
        assert f'quote the text: memsheaf {command} "{line}"' in out + err, line
    assert (
        'quote the text: memsheaf remember "echo \\"\\$HOME\\" --json twice"'
        in run("remember", "echo", '"$HOME"', "--json", "twice")[2]
    )
    assert run("list")[1] == ""


def test_options_before_and_after_a_text_and_between_files_stay_options(run: Run) -> None:
    assert run("remember", "--scope", "user", "use", "tabs", "--json")[0] == 0
    assert run("remember", "-t", "feedback", "--", "always", "pass", "--json", "to", "it")[0] == 0

    listed = run("list", "--json")[1]
    assert "always pass --json to it" in listed
    assert "use tabs" in listed
    assert run("install", "codex", "--dry-run", "cursor")[0] == 0
    assert run("remember", "run", "ls", "-h")[1].startswith("usage: memsheaf remember")


def test_a_word_that_begins_with_a_dash_stands_for_itself(run: Run) -> None:
    run("remember", "Use tabs.", "--name", "Tabs", "--description", "d", "-t", "project")
    assert run("edit", "project_tabs.md", "--old", "tabs", "--new", "- tabs")[0] == 0
    assert run("edit", "project_tabs.md", "--old=- tabs", "--new=-x")[0] == 0
    assert "Use -x." in run("show", "project_tabs.md")[1]
    assert run("remember", "-5 degrees is the limit of the probe")[0] == 0


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (["log", "-n", "5", "tabs.md"], {"limit": 5, "memory": "tabs.md"}),
        (["log", "tabs.md", "-n5"], {"limit": 5, "memory": "tabs.md"}),
        (["chat", "--resume"], {"resume": ""}),
        (["chat", "--resume", "2026", "-p", "a", "-p", "b"], {"resume": "2026", "print": ["a", "b"]}),
        (["-s", "user", "list", "-s", "team/a", "--json"], {"scope": ["user", "team/a"], "json": True}),
        (["--home", "x", "task", "note", "a b"], {"home": "x", "text": "a b"}),
        (["why", "how", "so?"], {"why": True, "message": ["how", "so?"]}),
    ],
)
def test_a_line_is_read_in_any_usual_order(line: list[str], values: dict[str, object]) -> None:
    name, rest = find_command(line)
    given = parse(load(name), rest)
    assert {key: given[key] for key in values} == values


def test_an_old_name_prints_the_new_command_and_does_nothing(run: Run) -> None:
    for old, new in RENAMED.items():
        code, out, err = run(*old.split(" "), "I prefer tabs")
        assert (code, out) == (2, ""), old
        assert f"memsheaf {new}" in err, old
    assert run("list")[1] == ""


def test_what_is_typed_instead_of_an_old_name_is_a_command() -> None:
    for new in RENAMED.values():
        words = new.split(" ")
        assert find_command(words)[0] in COMMANDS or words[0] in GROUPS, new


def test_a_value_that_makes_no_sense_is_refused_with_the_reason() -> None:
    for line, said in {
        "log -n few": "it is not a whole number",
        "search x -n 0": "it must be 1 or more",
        "web --port 70000": "it must be at most 65535",
        "undo xyz": "give at least 4 of the digits",
        "list -t ": "it is empty",
        "remember x -t opinion": "is none of user, feedback, project, reference",
        "notes diary --since today": "give a day such as",
    }.items():
        name, rest = find_command(line.split(" "))
        with pytest.raises(Usage, match=said):
            parse(load(name), rest)
