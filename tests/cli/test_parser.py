"""How the words of a line become a command, its action and its options."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memsheaf.cli.command import Argument, Usage, group, parse, split_action, split_first, takes
from memsheaf.cli.reference import help_text

Run = Callable[..., tuple[int, str, str]]

RESUME = Argument("--resume", "r", "ID", bare="last")
PRINT = Argument("--print", "p", "TEXT", repeated=True, short="-p")


@takes(RESUME, PRINT, Argument("word", "w", "WORD"))
def bare(call: object) -> int:
    """Do nothing.

    examples:
      memsheaf nothing
    """
    return 0


things = group("Keep things.", default="list")


@things.action(Argument("words", "w", "WORDS", repeated=True))
def list_things(call: object) -> int:
    """List them."""
    return 0


@things.action(Argument("id", "i", "ID", required=True), Argument("--since", "s", "DAY"))
def show_things(call: object) -> int:
    """Show one."""
    return 0


def test_an_option_may_be_short_or_stand_alone() -> None:
    for words, resume, printed in (
        ([], None, None),
        (["--resume"], "last", None),
        (["--resume", "20261115"], "20261115", None),
        (["--resume=20261115"], "20261115", None),
        (["--resume", "-p", "x"], "last", ["x"]),
        (["--resume", "--json"], "last", None),
        (["-p", "x", "--print", "y"], None, ["x", "y"]),
        (["-p=x"], None, ["x"]),
        (["-p", "--resume"], None, ["--resume"]),
        (["-p", "-"], None, ["-"]),
    ):
        options = parse(bare, words)
        assert (options.resume, options.print) == (resume, printed), words
    assert parse(bare, ["--resume", "--", "-p"]).word == "-p"
    for words in (["-p"], ["-q", "x"], ["--resume", "a", "b", "c"], ["--print"]):
        with pytest.raises(Usage):
            parse(bare, words)


def test_help_shows_both_ways_to_write_an_option() -> None:
    text = help_text("nothing", bare)

    assert "-p, --print TEXT" in text
    assert "[--resume [ID]] [--print TEXT] [WORD]" in text


def test_the_action_is_the_first_word_that_is_no_option_nor_its_value() -> None:
    for words, action, rest in (
        ([], "list", []),
        (["show", "x"], "show", ["x"]),
        (["--scope", "show", "list"], "list", ["--scope", "show"]),
        (["--since", "list", "show", "x"], "show", ["--since", "list", "x"]),
        (["old", "shoes"], "list", ["old", "shoes"]),
        (["--", "show"], "list", ["--", "show"]),
        (["-", "show"], "list", ["-", "show"]),
        (["show", "x", "--since", "today"], "show", ["x", "--since", "today"]),
    ):
        assert split_action("things", things, words) == (action, rest), words
    assert split_first(["--scope", "user", "-", "list"]) == ("-", ["--scope", "user", "list"])


def test_a_group_names_the_action_that_was_meant(run: Run) -> None:
    for words, said in {
        ("session", "show", "--section", "key"): "there is no option --section here; it goes with note",
        ("session", "start", "--session", "x"): "there is no option --session here; it goes with note, show, end",
        ("task", "strat", "x"): "there is no action 'strat'; did you mean start?; `memsheaf task` has the actions",
        ("notes", "often"): "there is no action 'often'; `memsheaf notes` has",
        ("task", "note", "--gaol", "x"): "there is no option --gaol\nusage: memsheaf task note [TEXT] [--task SLUG]",
    }.items():
        code, out, err = run(*words)
        assert (code, out) == (2, ""), words
        assert err.startswith(f"memsheaf: {said}"), err


def test_help_explains_a_group_and_each_of_its_actions(run: Run) -> None:
    whole = run("help", "task")[1]
    assert whole.startswith("usage: memsheaf task [ACTION] ...\n")
    assert "\n  start                 Begin a task.\n" in whole

    one = run("help", "task", "start")[1]
    assert one.startswith("usage: memsheaf task start TITLE [--goal TEXT]")
    assert '\n  memsheaf task start "Feature X" --goal' in one
    assert "task done" not in one
    assert run("task", "start", "--help")[1] == run("task", "--help", "start")[1] == one
    assert run("help", "task", "strat")[0] == run("help", "list", "start")[0] == 2
    assert "This is the default." in run("help", "notes")[1]
