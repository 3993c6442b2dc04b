"""What holds for every command, so that a new one cannot be half done."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.generate import DOCS, pages
from memsheaf.cli.commands import COMMANDS, GROUPS, find_command, load
from memsheaf.cli.pages import EVERYDAY, THEMES
from memsheaf.cli.parser import EVERYWHERE, Command, parse

Run = Callable[..., tuple[int, str, str]]
STREAMING = ("chat",)
"""What prints a document a line, as things happen."""

MAX_COMMANDS, MAX_ARGUMENTS = 60, 160

WORKING = """
chat -p 'What do you remember?'
mcp --print-config claude-code
install codex --dry-run
remember I prefer tabs
config learning.policy suggest
edit user_prefers-tabs.md --old tabs. --new spaces.
forget user_prefers-tabs.md
show user_prefers-tabs.md
search tabs
recall 'tabs or spaces?'
audit --cite in/cited.py:1
compact in/cited.py
diff user_prefers-tabs.md
restore user_prefers-tabs.md VERSION
erase user_prefers-tabs.md --yes
export out.zip
import given
trust --yes
completion bash
notes set --objective 'Ship it'
notes diary Shipped.
session start
session note -s session/one Noted.
session end -s session/one
task start 'Feature X'
task note -s task/one Noted.
task revise -s task/one --reason Because
task verify -s task/one login 'One can log in'
task phase -s task/one
task event -s task/one
task end -s task/one
"""
"""Lines that work, of those commands that need more than their name."""
SERVERS = ("web", "worker", "hub add", "hub remove")
"""Servers and hubs: tests/web and tests/hub start them."""


def test_there_are_few_commands_with_few_arguments() -> None:
    arguments = [argument for name in COMMANDS for argument in load(name).arguments]
    assert len(COMMANDS) <= MAX_COMMANDS
    assert len(arguments) <= MAX_ARGUMENTS


def test_a_command_says_what_it_does_with_an_example() -> None:
    for name in COMMANDS:
        command = load(name)
        assert command.examples, name
        assert command.summary.endswith("."), (name, command.summary)
        assert len(command.summary) <= 125, (name, command.summary)
        assert all(argument.help for argument in command.arguments), name


def test_the_help_of_a_command_names_each_parameter_and_nothing_else() -> None:
    for name in COMMANDS:
        command = load(name)
        parameters = set(command.run.__annotations__) - {"call", "return"}
        assert {argument.parameter for argument in command.arguments} == parameters, name


def memsheaf_lines(command: Command) -> list[list[str]]:
    """The words behind `memsheaf` in each example."""
    lines = [line.rpartition("| ")[2] for line in command.examples]
    cut = [line.replace("<(", "< ").replace(")", " ").partition(" > ")[0].partition(" < ")[0] for line in lines]
    words = [shlex.split(line if "memsheaf" in line else whole) for line, whole in zip(cut, lines, strict=True)]
    return [line[line.index("memsheaf") + 1 :] for line in words if "memsheaf" in line]


def test_each_example_can_be_typed_as_it_stands() -> None:
    for name in COMMANDS:
        for words in memsheaf_lines(load(name)):
            found, rest = find_command(words)
            assert found == name
            parse(load(found), [word.rstrip(")") for word in rest] if name == "completion" else rest)


def test_each_command_answers_with_one_json_document(
    run: Run, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = {}
    for line in WORKING.strip().split("\n"):
        name, _ = find_command(shlex.split(line))
        working[name] = shlex.split(line)[name.count(" ") + 1 :]
    tabs = ("remember", "Use tabs.", "--name", "Prefers tabs", "--description", "d", "-t", "user", "-s", "project")
    for name in COMMANDS:
        if name in SERVERS or name.startswith("team "):
            continue
        here = tmp_path / name.replace(" ", "-")
        for folder in (".git", ".memory", "in", "given"):
            (here / folder).mkdir(parents=True)
        (here / "in" / "cited.py").write_text("tabs = True\n")
        monkeypatch.chdir(here)
        environment["MEMSHEAF_PROJECT"] = str(tmp_path / "memories" / here.name)
        words = working.get(name, [])
        if "task/one" in words:
            run("task", "start", "One")
        if "session/one" in words:
            run("session", "start", "One", "-s", "session/one")
        if name == "undo" or "user_prefers-tabs.md" in words:
            version = json.loads(run(*tabs, "--json")[1])["memories"][0]["version"]
            words = [word.replace("VERSION", version) for word in words]
        code, out, err = run(*name.split(" "), *words, "--json")

        assert code == 0, (name, err)
        documents = out.splitlines() if name in STREAMING else [out]
        assert documents, name
        assert all(isinstance(json.loads(document), dict) for document in documents), name
        assert out.isascii(), name


def test_every_command_stands_in_one_theme_and_those_for_every_day_on_the_first_screen(run: Run) -> None:
    listed = [name for names in THEMES.values() for name in names.split()]
    assert sorted(listed) == sorted(name for name in COMMANDS if " " not in name)
    first_screen = run()[1]
    assert len(first_screen.splitlines()) <= 24
    assert all(name.partition(" ")[0] in COMMANDS for name in EVERYDAY)
    everything = run("help", "--all")[1]
    assert all(f"  {name} " in everything for name in [*listed, *GROUPS])


def test_the_pages_about_the_command_line_are_what_the_commands_say() -> None:
    made = dict(pages())
    assert {place: (DOCS / place).read_text(encoding="utf-8") for place in made} == made, "run: make docs"
    assert {f"cli/{path.name}" for path in (DOCS / "cli").iterdir()} == set(made) - {"cli.md"}


def test_help_is_the_same_however_it_is_asked_for(run: Run) -> None:
    for name in COMMANDS:
        words = name.split(" ")
        (text,) = {
            run(*asked)[1] for asked in (["help", *words], [*words, "--help"], ["--help", *words], [*words, "-h"])
        }
        assert text.startswith(f"usage: memsheaf {name}")
        assert "--json" in text
        assert "examples:" in text
        assert max(map(len, text.partition("examples:")[0].splitlines())) <= 80
    for group in GROUPS:
        assert run("help", group)[1] == run(group, "--help")[1]
        assert f"{group} {GROUPS[group].split()[-1]} " in run("help", group)[1]
    assert json.loads(run("help", "list", "--json")[1])["commands"] == [
        {"name": "list", "summary": "List every memory, newest first."}
    ]


def test_what_every_command_takes_is_in_no_command_again() -> None:
    common = {flag for argument in EVERYWHERE for flag in argument.flags}
    for name in COMMANDS:
        own = {flag for argument in load(name).arguments for flag in argument.flags}
        assert own & common <= {"--project"}, name


HEAVY_MODULES = {
    "numpy",
    "onnxruntime",
    "pydantic_ai",
    "starlette",
    "memsheaf.llm",
    "memsheaf.learn.learner",
    "memsheaf.web",
}


@pytest.mark.parametrize("line", [["--version"], ["list"], ["search", "tea"]])
def test_a_command_starts_without_what_only_other_commands_need(line: list[str], environment: dict[str, str]) -> None:
    program = f"import sys; from memsheaf.cli import main; main({line}); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True
    )

    assert not set(done.stdout.splitlines()[-1].split()) & HEAVY_MODULES
