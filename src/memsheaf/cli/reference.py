"""Help: of one command, of all, and docs/cli.md, which `python -m memsheaf.cli.reference` prints."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

from memsheaf import config
from memsheaf.cli.call import Call
from memsheaf.cli.command import EVERYWHERE, Argument, Command, Usage, takes
from memsheaf.cli.registry import COMMANDS, THEMES, load

EXIT_CODES = """\
exit codes:
  0    done
  1    refused or failed, and said why; for `doctor` an error was found, for `erase` a trace,
       for `import` and `export` something was left out, for `verify` a citation drifted or is missing,
       for `lint` and `notes check` there are findings, for `compact` it does not fit
  2    the line was written wrongly; nothing was done
  130  interrupted
"""
_COLUMN = 24
_WIDTH = 100


@takes(
    Argument("command", "the command to explain; without one, all are listed", "COMMAND", complete="commands"),
    Argument("action", "one of its actions, as in `help task start`", "ACTION"),
)
def help_(call: Call) -> int:
    """Explain a command, or list them all.

    examples:
      memsheaf help
      memsheaf help add
      memsheaf help task start
    """
    name, action = call.options.command, call.options.action
    if not name:
        commands, text = {each: load(each) for each in sorted(COMMANDS)}, overview()
    elif not action:
        commands = {name: load(name)}
        text = help_text(name, commands[name])
    else:
        parent = load(name)
        if action not in parent.actions:
            raise Usage(f"`memsheaf {name}` has no action {action!r}")
        title = f"{name} {action}"
        commands = {title: parent.actions[action]}
        text = help_text(title, commands[title], examples=examples_of(title, parent))
    value = {"commands": [{"name": each, "summary": one.summary} for each, one in commands.items()], "text": text}
    return call.answer(value, text.removesuffix("\n"))


def overview() -> str:
    """Every command with its sentence, by theme."""
    lines = ["usage: memsheaf COMMAND ...", "", "Memory that AI agents keep as plain files.", ""]
    for theme, names in THEMES.items():
        lines.append(f"{theme}:")
        lines += [f"  {name:<15}{load(name).summary}" for name in names]
        lines.append("")
    lines += ["`memsheaf help COMMAND` explains one and has examples; `memsheaf --version` prints the version.", ""]
    return "\n".join(lines) + "\n" + EXIT_CODES


def usage(name: str, command: Command) -> str:
    """How a command is written."""
    words = ["ACTION ..." if not command.default else "[ACTION] ..."] if command.actions else []
    for argument in command.arguments:
        shown = argument.shown + (" ..." if argument.repeated and not argument.is_option else "")
        words.append(shown if argument.required else f"[{shown}]")
    return "\n".join(_wrapped(" ".join(["usage: memsheaf", name, *words]), "    "))


def examples_of(title: str, parent: Command) -> list[str]:
    """The examples of a group that show one of its actions."""
    return [line for line in parent.examples if re.search(rf"memsheaf {title}\b", line)]


def help_text(name: str, command: Command, *, everywhere: bool = True, examples: Iterable[str] | None = None) -> str:
    """All there is to know about a command, laid out for a terminal; with what every command takes, or not."""
    shown = command.examples if examples is None else list(examples)
    taken = [one for one in EVERYWHERE if command.scoped or one.name not in ("--scope", "--agent")]
    arguments = command.arguments
    parts = [
        usage(name, command),
        command.summary,
        command.details,
        _section("actions:", _actions(command)),
        _section("arguments:", (_row(one) for one in arguments if not one.is_option)),
        _section("options:", (_row(one) for one in arguments if one.is_option)),
        _section("every command takes:", map(_row, taken if everywhere else ())),
        "\n".join(["examples:", *(f"  {line}" for line in shown)]) if shown else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _actions(command: Command) -> Iterator[tuple[str, str]]:
    for name, action in command.actions.items():
        yield name, action.summary + (" This is the default." if name == command.default else "")


def _row(argument: Argument) -> tuple[str, str]:
    said = argument.help + (f": {', '.join(argument.choices)}" if argument.choices else "")
    return f"{argument.short}, {argument.shown}" if argument.short else argument.shown, said


def _section(title: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [title]
    for term, said in rows:
        start = f"  {term}"
        first, *more = _wrapped(said, "", _WIDTH - _COLUMN)
        if len(start) > _COLUMN - 2:
            lines.append(start)
            start = ""
        lines.append(f"{start:<{_COLUMN}}{first}")
        lines += [" " * _COLUMN + line for line in more]
    return "\n".join(lines) if len(lines) > 1 else ""


def _wrapped(words: str, indent: str, width: int = _WIDTH) -> list[str]:
    lines, line = [], ""
    # an option and its value stay on one line
    for word in re.findall(r"\[[^\[\]]*(?:\[[^\[\]]*\])?\]|\S+", words):
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


_START = """\
# The command line

<!-- Made from the commands themselves by `python -m memsheaf.cli.reference`. -->

`memsheaf COMMAND` works on one scope: the one that `--scope` names, else the one in your settings, else the
project you are in. `memsheaf scopes` shows which there are and where they live. The commands of the layers (`brief`,
`session`, `task`, `notes`, `fact`, `promote`, `compact`) work on the project you are in. Some commands are groups of
actions, such as `memsheaf task start`; `memsheaf help task start` explains one.

```console
$ memsheaf add "Prefers tabs" "Use tabs, not spaces." --description "Indentation of code" --type user --scope user
Saved user_prefers-tabs.md
$ memsheaf search indentation --scope user --json
```

Answers go to standard output, everything else to standard error. With `--json` the answer is one JSON document
in ASCII; an error is `{"error": {"kind": ..., "message": ..., "hint": ...}}` on standard output, and still in
words on standard error. Colours appear on a terminal only, and not when `NO_COLOR` is set or `TERM` is `dumb`.
A text that begins with a dash can follow its option, `--old -x`; a file or word that does so follows `--`; a bullet
or a negative number, such as `"- one"`, stands for itself.
"""


def reference() -> str:
    """The whole page."""
    parts = [_START, _everywhere(), f"## Exit codes\n\n{_fenced(EXIT_CODES.partition(chr(10))[2])}", _settings()]
    for theme, names in THEMES.items():
        parts.append(f"## {theme}\n")
        for name in names:
            command = load(name)
            parts.append(f"### {name}\n\n{_fenced(help_text(name, command, everywhere=False))}")
            actions = [(f"{name} {action}", one) for action, one in command.actions.items() if one.arguments]
            parts += [_fenced(help_text(title, one, everywhere=False)) for title, one in actions]
    return "\n".join(parts)


def _everywhere() -> str:
    rows = [f"| `{argument.shown}` | {argument.help} |" for argument in EVERYWHERE]
    table = "\n".join(["| option | |", "|---|---|", *rows])
    return f"## What every command takes\n\nBefore or after its name.\n\n{table}\n"


def _settings() -> str:
    said, _, rest = (config.__doc__ or "").removeprefix("Settings: ").partition("\n\n")
    example, _, environment = rest.partition("\n\nEnvironment: ")
    lines = "\n".join(line.removeprefix("    ") for line in example.split("\n"))
    return f"## Settings\n\nThey come {said}\n\n```toml\n{lines}\n```\n\nEnvironment: {environment.strip()}\n"


def _fenced(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
