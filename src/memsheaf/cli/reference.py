"""Help and completion.

The completion scripts are small: they ask `memsheaf complete` what may stand there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from memsheaf.cli.call import Call, here
from memsheaf.cli.command import (
    COMMANDS,
    EVERYDAY,
    EVERYWHERE,
    THEMES,
    Argument,
    Command,
    Usage,
    all_arguments,
    empty_options,
    load,
    split_action,
    split_first,
    takes,
    text,
)

Ask = Callable[[str, Sequence[str]], Iterable[str]]

EXIT_CODES = """\
exit codes:
  0    done
  1    refused or failed, and said why; for `doctor` an error was found, for
       `erase` a trace, for `import` and `export` something was left out, for
       `verify` a citation drifted or is missing, for `lint` and `notes check`
       there are findings, for `compact` it does not fit
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
    local found
    COMPREPLY=()
    # names come from files: they are quoted, and never expanded
    while IFS= read -r found; do
        case $found in
            :paths) compopt -o default; return ;;
            :folders) compopt -o dirnames; return ;;
            *) printf -v found %q "$found"; COMPREPLY+=("$found") ;;
        esac
    done < <(memsheaf complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _memsheaf memsheaf
"""

ZSH = r"""
#compdef memsheaf
_memsheaf() {
    local -a found
    found=("${(@f)$(memsheaf complete -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    case "$found" in
        :paths) _files ;;
        :folders) _files -/ ;;
        ?*) compadd -a found ;;
    esac
}
if [[ "${funcstack[1]}" == _memsheaf ]]; then
    _memsheaf "$@"
else
    compdef _memsheaf memsheaf
fi
"""

FISH = r"""
function __memsheaf_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found (memsheaf complete -- $words[2..-1] "$current" 2>/dev/null)
    switch "$found"
        case :paths
            __fish_complete_path "$current"
        case :folders
            __fish_complete_directories "$current"
        case '*'
            printf '%s\n' $found
    end
end
complete -c memsheaf -f -a '(__memsheaf_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


@takes(Argument("shell", "which shell", "SHELL", required=True, choices=tuple(SCRIPTS)))
def completion(call: Call) -> int:
    """Print a script that completes commands, options, scopes and file names in your shell.

    bash: put `source <(memsheaf completion bash)` into ~/.bashrc. zsh: put `source <(memsheaf completion zsh)`
    into ~/.zshrc, behind compinit. fish: save it as ~/.config/fish/completions/memsheaf.fish.

    examples:
      source <(memsheaf completion bash)
      memsheaf completion fish > ~/.config/fish/completions/memsheaf.fish
    """
    shell = call.options.shell
    script = SCRIPTS[shell].strip("\n")
    return call.answer({"shell": shell, "script": script + "\n"}, script)


@takes(Argument("words", "the words so far, the unfinished one last", "WORD", repeated=True, convert=text))
def complete(call: Call) -> int:
    """Print what may stand where the last word is being typed.

    examples:
      memsheaf complete -- show user_
    """
    found = candidates(call.options.words, lambda what, words: _ask(call, what, words))
    return call.answer({"candidates": found}, found)


def candidates(words: Sequence[str], ask: Ask) -> list[str]:
    """What may stand for the last of these words. `ask` knows the files and scopes there are.

    >>> candidates(["--scope", "user", "fo"], lambda what, words: [])
    ['forget']
    """
    *typed, current = _apart(words) or [""]
    name, rest = split_first(typed)
    actions: Iterable[str] = ()
    command = None
    try:
        command = load(name) if name else None
        if command and command.actions:
            if split_first(rest)[0] not in command.actions:
                actions = command.actions
            if command.default or not actions:
                action, rest = split_action(name, command, rest)
                command = command.actions[action]
    except Usage:
        return []
    arguments = all_arguments(command) if command else EVERYWHERE
    valued = {one.name: one for one in arguments if one.is_option and one.value}
    if typed and typed[-1] in valued:
        found = _values(valued[typed[-1]], rest, ask)
    elif current.startswith("-"):
        found = [one.name for one in arguments if one.is_option] + ["--version"] * (not name)
    elif not name:
        found = list(COMMANDS)
    else:
        alone = [word for before, word in pairwise(["", *rest]) if before not in valued and word[:1] != "-"]
        places = [one for one in arguments if not one.is_option][len(alone) :]
        found = _values(places[0], rest, ask) if places else []
        found += actions if not alone else ()
    option, sign, _ = words[-1].partition("=") if words else ("", "", "")
    start = option + sign if option.startswith("--") and sign else ""  # the shell replaces the whole word
    return [word if word[:1] == ":" else start + word for word in found if word.startswith((current, ":"))]


def _apart(words: Sequence[str]) -> list[str]:
    """The words with `--scope=user` taken apart; some shells hand the `=` over as a word of its own."""
    out: list[str] = []
    for word in words:
        name, sign, value = word.replace("\\", "").partition("=")
        out += [name, value] if name.startswith("--") and sign else [name + sign + value] * (word != "=")
    return out + [""] * (list(words[-1:]) == ["="])


def _values(argument: Argument, words: Sequence[str], ask: Ask) -> list[str]:
    if argument.choices:
        return list(argument.choices)
    if argument.completed == "commands":
        return list(COMMANDS)
    if argument.completed in ("paths", "folders"):
        return [f":{argument.completed}"]
    return list(ask(argument.completed, words)) if argument.completed else []


def _ask(call: Call, what: str, words: Sequence[str]) -> Iterable[str]:
    """The names of that kind in the memory that the words say is meant."""
    options = empty_options(EVERYWHERE)
    for option, value in pairwise(words):
        if option in ("--scope", "--agent", "--home", "--project"):
            setattr(options, option[2:], value if option in ("--home", "--project") else [value])
    asked = Call(options, call.console, call.environment)
    if what == "scopes":
        from memsheaf.work.all_scopes import AllScopes, scope_name

        return list(filter(None, map(scope_name, AllScopes(asked.settings(), here(), read_only=True).list())))
    if what in ("tasks", "sessions"):
        with asked.layers(read_only=True) as layers:
            return layers.names(what[:-1])
    with asked.memory(read_only=True) as memory:
        return [row.path for row in memory.list()]
