"""Help and completion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from memsheaf.cli.call import Call
from memsheaf.cli.command import (
    COMMANDS,
    EVERYDAY,
    EVERYWHERE,
    THEMES,
    Argument,
    Command,
    Usage,
    all_arguments,
    load,
    takes,
)

EXIT_CODES = """\
exit codes:
  0    done
  1    refused or failed, and said why; for `doctor` an error was found, for
       `erase` a trace, for `import` and `export` something was left out, for
       `verify` a citation drifted or is missing, for `audit --check`
       a finding, for `compact` it does not fit
  2    usage error; nothing was changed
  130  interrupted
"""
_COLUMN = 24
_WIDTH = 79


@takes(
    Argument("command", "the command to explain; without one, those for every day are listed", "COMMAND"),
    Argument("action", "one of its actions, as in `help task start`", "ACTION"),
    Argument("--all", "list every command, by what it is for, and the exit codes"),
)
def help_(call: Call) -> int:
    """Explain a command, or list them.

    examples:
      memsheaf help
      memsheaf help --all
      memsheaf help add
      memsheaf help task start
    """
    name, action = call.options.command, call.options.action
    title, examples = name, None
    if action:
        title = f"{name} {action}"
        examples = [line for line in load(name).examples if re.search(rf"memsheaf {title}\b", line)]
        if action not in load(name).actions:
            raise Usage(f"`memsheaf {name}` has no action {action!r}")
    if name:
        command = load(name).actions[action] if action else load(name)
        text = help_text(title, command, examples=examples)
    else:
        text = overview() if call.options.all else first_screen()

    def as_json() -> dict[str, object]:
        shown = {title: command} if name else {each: load(each) for each in sorted(COMMANDS)}
        return {"commands": [{"name": each, "summary": one.summary} for each, one in shown.items()], "text": text}

    return call.answer(as_json, text.removesuffix("\n"))


def first_screen() -> str:
    """The commands for every day, in no more lines than a small terminal has."""
    shown = "\n".join(f"  {words:<17}{said}" for words, said in EVERYDAY.items())
    return f"""\
usage: memsheaf COMMAND ...

Memory that AI agents keep as plain Markdown files, one per fact.

{shown}

A memory belongs to a scope: `project` is the folder you are in, `user` is you,
in every project. Reading covers both; saving finds the right one.

`memsheaf help COMMAND` has examples; `memsheaf help --all` lists all commands.
"""


def overview() -> str:
    """Every command with its sentence, by theme."""
    lines = ["usage: memsheaf COMMAND ...", "", "Memory that AI agents keep as plain files.", ""]
    for theme, names in THEMES.items():
        lines.append(f"{theme}:")
        lines += [line for name in names.split() for line in _term(f"  {name}", load(name).summary, 17)]
        lines.append("")
    lines += ["`memsheaf help COMMAND` explains one and has examples.", ""]
    return "\n".join(lines) + "\n" + EXIT_CODES


def usage(name: str, command: Command) -> str:
    """How a command is written."""
    words = ["ACTION ..." if not command.default else "[ACTION] ..."] if command.actions else []
    for argument in command.arguments:
        shown = argument.shown + (" ..." if argument.repeated and not argument.is_option else "")
        words.append(shown if argument.required else f"[{shown}]")
    return "\n".join(_wrapped(" ".join(["usage: memsheaf", name, *words]), "    "))


def help_text(name: str, command: Command, *, everywhere: bool = True, examples: Iterable[str] | None = None) -> str:
    """All there is to know about a command, laid out for a terminal; with what every command takes, or not."""
    shown = command.examples if examples is None else list(examples)
    others = [one for one in all_arguments(command) if one in EVERYWHERE]
    taken = [one for one in others if command.scoped or one.name not in ("--scope", "--agent")]
    arguments = command.arguments
    default = {command.default: " This is the default."}
    actions = [(name, one.summary + default.get(name, "")) for name, one in command.actions.items()]
    parts = [
        usage(name, command),
        _reflowed(command.summary),
        "\n\n".join(_reflowed(part) for part in command.details.split("\n\n")),
        _section("actions:", actions),
        _section("arguments:", (_row(one) for one in arguments if not one.is_option)),
        _section("options:", (_row(one) for one in arguments if one.is_option)),
        _section("every command takes:", map(_row, taken if everywhere else ())),
        "\n".join(["examples:", *(f"  {line}" for line in shown)]) if shown else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _reflowed(paragraph: str) -> str:
    """A paragraph as wide as the page; one with indented lines stays as it is."""
    return paragraph if "\n " in paragraph or paragraph[:1] == " " else "\n".join(_wrapped(paragraph, ""))


def _row(argument: Argument) -> tuple[str, str]:
    said = argument.help + (f": {', '.join(argument.choices)}" if argument.choices else "")
    return f"{argument.short}, {argument.shown}" if argument.short else argument.shown, said


def _section(title: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [title]
    for term, said in rows:
        lines += _term(f"  {term}", said, _COLUMN)
    return "\n".join(lines) if len(lines) > 1 else ""


def _term(term: str, said: str, column: int) -> Iterator[str]:
    """A term, and what is said of it in a column of its own."""
    first, *more = _wrapped(said, "", _WIDTH - column)
    if len(term) > column - 2:
        yield term
        term = ""
    yield f"{term:<{column}}{first}"
    for line in more:
        yield " " * column + line


def _wrapped(words: str, indent: str, width: int = _WIDTH) -> list[str]:
    lines, line = [], ""
    # an option and its value stay on one line
    for word in re.findall(r"\[[^\[\]]*(?:\[[^\[\]]*\])?\]\S*|\S+", words):
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = indent + word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


BASH = r"""
_memsheaf() {
    local words=""
    case "${COMP_WORDS[1]}" in
CASES
    esac
    [ "$COMP_CWORD" = 1 ] && words="COMMANDS"
    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
    return 0
}
complete -o default -F _memsheaf memsheaf
"""
ZSH = "autoload -U +X bashcompinit && bashcompinit"
SHELLS = ("bash", "zsh", "fish")


@takes(Argument("shell", "which shell", "SHELL", required=True, choices=SHELLS))
def completion(call: Call) -> int:
    """Print a script that completes commands, actions and options in your shell.

    bash: put `source <(memsheaf completion bash)` into ~/.bashrc. zsh: put `source <(memsheaf completion zsh)`
    into ~/.zshrc, behind compinit. fish: save it as ~/.config/fish/completions/memsheaf.fish.

    examples:
      source <(memsheaf completion bash)
      memsheaf completion fish > ~/.config/fish/completions/memsheaf.fish
    """
    shell = call.options.shell
    words = {name: " ".join(following_words(name)) for name in COMMANDS}
    if shell == "fish":
        lines = [f"complete -c memsheaf -n __fish_use_subcommand -f -a '{' '.join(COMMANDS)}'"]
        lines += [
            f"complete -c memsheaf -n '__fish_seen_subcommand_from {name}' -a '{more}'"
            for name, more in words.items()
        ]
        script = "\n".join(lines)
    else:
        cases = "\n".join(f'        {name}) words="{more}" ;;' for name, more in words.items())
        script = BASH.strip("\n").replace("CASES", cases).replace("COMMANDS", " ".join(COMMANDS))
        script = f"{ZSH}\n{script}" if shell == "zsh" else script
    return call.answer({"shell": shell, "script": script + "\n"}, script)


def following_words(name: str) -> list[str]:
    """Return the actions, options and fixed values that may follow a command. Raises Usage when there is none."""
    command = load(name)
    arguments = [one for leaf in command.actions.values() or [command] for one in all_arguments(leaf)]
    values = [choice for one in arguments for choice in one.choices]
    return list(dict.fromkeys([*command.actions, *values, *(one.name for one in arguments if one.is_option)]))
