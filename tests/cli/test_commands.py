"""What holds for every command, so that a new one cannot be half done."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.generate import reference
from memsheaf.cli.command import COMMANDS, THEMES, Command, load, parse, split_action, split_first

Run = Callable[..., tuple[int, str, str]]
STREAMING = ("chat",)
"""What prints a document a line, as things happen."""

DOCS = Path(__file__).parent.parent.parent / "docs" / "cli.md"

WORKING = """
chat -p 'What do you remember?'
mcp --print-config claude-code
install codex --dry-run
link claude-code --dry-run
unlink claude-code
plugin new
remember I prefer tabs
config set learning.policy suggest
add Fact Text. --description d --type user
update user_prefers-tabs.md --old tabs. --new spaces.
edit user_prefers-tabs.md
forget user_prefers-tabs.md
show user_prefers-tabs.md
search tabs
recall 'tabs or spaces?'
why 'tabs or spaces?'
cite in/cited.py:1
dream status
diary Shipped.
compact in/cited.py
session start
task start 'Feature X'
notes set --objective 'Ship it'
diff user_prefers-tabs.md
blame user_prefers-tabs.md
restore user_prefers-tabs.md VERSION
erase user_prefers-tabs.md --yes
export out.zip
import given
trust --yes
completion bash
help add
"""
"""Lines that work, of those commands that need more than their name."""


def test_a_command_says_what_it_does_with_an_example() -> None:
    for name in COMMANDS:
        command = load(name)
        assert command.examples, name
        for one in (command, *command.actions.values()):
            assert one.summary.endswith("."), (name, one.summary)
            assert len(one.summary) <= 90, (name, one.summary)
            assert all(argument.help for argument in one.arguments), name


def memsheaf_lines(command: Command) -> list[list[str]]:
    """The words behind `memsheaf` in each example."""
    lines = [line.rpartition("| ")[2] for line in command.examples]
    words = [shlex.split(line.replace("<(", "< ").replace(")", " ").partition(" > ")[0]) for line in lines]
    return [line[line.index("memsheaf") + 1 :] for line in words]


def test_each_example_can_be_typed_as_it_stands() -> None:
    for name in COMMANDS:
        for words in memsheaf_lines(load(name)):
            command, rest = split_first(words)
            assert command == name
            found = load(command)
            if found.actions:
                action, rest = split_action(command, found, rest)
                found = found.actions[action]
            parse(found, rest)


def test_each_command_answers_with_one_json_document(
    run: Run, environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = {words[0]: words[1:] for words in map(shlex.split, WORKING.strip().split("\n"))}
    add = ("add", "Prefers tabs", "Use tabs.", "--description", "Indentation", "--type", "user", "--scope", "project")
    environment["EDITOR"] = "true"
    for name in COMMANDS:
        if name in ("web", "worker", "team"):  # servers and a database: tests/web and tests/hub start them
            continue
        here = tmp_path / name
        for folder in (".git", ".memory", "in", "given"):
            (here / folder).mkdir(parents=True)
        (here / "in" / "cited.py").write_text("tabs = True\n")
        monkeypatch.chdir(here)
        environment["MEMSHEAF_PROJECT"] = str(tmp_path / "memories" / name)
        words = working.get(name, [])
        if name in ("undo", "redo") or "user_prefers-tabs.md" in words:
            version = json.loads(run(*add, "--json")[1])["version"]
            words = [word.replace("VERSION", version) for word in words]
        if name == "redo":
            run("undo")
        code, out, err = run(name, *words, "--json")

        assert code == 0, (name, err)
        documents = out.splitlines() if name in STREAMING else [out]
        assert documents, name
        assert all(isinstance(json.loads(document), dict) for document in documents), name
        assert out.isascii(), name


def test_every_command_stands_in_one_theme() -> None:
    assert sorted(name for names in THEMES.values() for name in names.split()) == sorted(COMMANDS)


def test_the_page_about_the_command_line_is_what_the_commands_say() -> None:
    assert DOCS.read_text(encoding="utf-8") == reference(), "run: make docs"


def test_help_is_the_same_however_it_is_asked_for(run: Run) -> None:
    for name in COMMANDS:
        asked = (["help", name], [name, "--help"], ["--help", name], [name, "x", "-h"])
        (text,) = {run(*words)[1] for words in asked}
        assert text.startswith(f"usage: memsheaf {name}")
        assert "--json" in text
        assert "examples:" in text
        assert max(map(len, text.partition("examples:")[0].splitlines())) <= 80


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
