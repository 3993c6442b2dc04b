"""How the words of a line become a command, its action and its options."""

from __future__ import annotations

from collections.abc import Callable

from memsheaf.cli.command import Argument, takes

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


def test_an_option_inside_a_text_is_refused_because_the_text_would_lose_it(run: Run) -> None:
    for command, line, advice in (
        ("remember", "always pass --json to the CLI", "always pass --json to the CLI"),
        ("remember", "never use --pin in scripts", "never use --pin in scripts"),
        ("remember", "--scope user use --anyway only when asked --pin", "use --anyway only when asked"),
        ("remember", "pass --allow-secret to nobody", "pass --allow-secret to nobody"),
        ("remember", "set --scope user in docs", "set --scope user in docs"),
        ("remember", "set --scope=user in docs", "set --scope=user in docs"),
        ("remember", "run ls -h first", "run ls -h first"),
        ("remember", "run ls --help first", "run ls --help first"),
        ("remember", "run npm test -- --watch always", "run npm test -- --watch always"),
        ("remember", "run npm test -- slowly", "run npm test -- slowly"),
        ("remember", "git commit -m x is fine", "git commit -m x is fine"),
        ("remember", "never push --force", "never push --force"),
        ("remember", 'echo "$HOME" --json twice', 'echo \\"\\$HOME\\" --json twice'),
        ("search", "the --json switch", "the --json switch"),
        ("recall", "why is --json slow", "why is --json slow"),
        ("why", "is --json slow", "is --json slow"),
        ("chat", "what does --json do", "what does --json do"),
    ):
        code, out, err = run(command, *line.split(" "))

        assert code == 2, line
        assert f'quote the text: memsheaf {command} "{advice}"' in out + err, line
    assert run("list")[1] == ""


def test_what_a_command_takes_as_a_word_is_no_option_of_it(run: Run) -> None:
    for words in (["hub", "sync"], ["hub", "status"], ["hub", "remove", "user"]):
        code, _, err = run(*words, "--scope", "user")
        assert (code, "there is no option --scope" in err) == (2, True), words


def test_options_before_and_after_a_text_and_between_files_stay_options(run: Run) -> None:
    assert run("remember", "--scope", "user", "use", "tabs", "--json")[0] == 0
    assert run("remember", "--pin", "--", "always", "pass", "--json", "to", "it")[0] == 0

    listed = run("list", "--json")[1]
    assert "always pass --json to it" in listed
    assert "use tabs" in listed
    assert run("install", "codex", "--dry-run", "cursor")[0] == 0
    assert run("remember", "run", "ls", "-h")[1].startswith("usage: memsheaf remember")
