"""Completion in the shell. The scripts are small: they ask `memsheaf complete` what may stand there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from memsheaf.cli.call import Call, here
from memsheaf.cli.command import EVERYWHERE, Argument, Options, Usage, split_action, split_first, takes, text
from memsheaf.cli.registry import COMMANDS, load

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    Ask = Callable[[str, Options], Iterable[str]]

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
    found = candidates(call.options.words, lambda what, options: _ask(call, what, options))
    return call.answer({"candidates": found}, found)


def candidates(words: Sequence[str], ask: Ask) -> list[str]:
    """What may stand for the last of these words. `ask` knows the files and scopes there are.

    >>> candidates(["--scope", "user", "fo"], lambda what, options: [])
    ['forget']
    """
    *typed, current = _joined(words) or [""]
    name, rest = split_first(typed)
    actions: list[str] = []
    try:
        command = load(name) if name else None
        if command and command.actions:
            is_named = split_first(rest)[0] in command.actions
            actions = [] if is_named else list(command.actions)
            if is_named or command.default:
                action, rest = split_action(name, command, rest)
                command = command.actions[action]
        arguments = (*(command.arguments if command else ()), *EVERYWHERE)
    except Usage:
        return []
    valued = {a.name: a for a in arguments if a.is_option and a.value}
    if typed and typed[-1] in valued:
        found = _values(valued[typed[-1]], rest, ask)
    elif current.startswith("-"):
        found = [a.name for a in arguments if a.is_option] + ["--version"] * (not name)
    elif not name:
        found = list(COMMANDS)
    else:
        places = [a for a in arguments if not a.is_option]
        at = len(_positional(rest, set(valued)))
        found = _values(places[at], rest, ask) if at < len(places) else []
        found += actions if not at else []
    option, sign, _ = words[-1].partition("=") if words else ("", "", "")
    start = option + sign if option.startswith("--") and sign else ""  # the shell replaces the whole word
    return [word if word[:1] == ":" else start + word for word in found if word.startswith((current, ":"))]


def _joined(words: Sequence[str]) -> list[str]:
    """The words with `--scope=user` taken apart; some shells hand the `=` over as a word of its own."""
    out: list[str] = []
    for word in words:
        name, sign, value = word.partition("=")
        if name.startswith("--") and sign:
            out += [name, value]
        elif word == "=" and out and out[-1].startswith("--"):
            out.append("")
        elif out and out[-1] == "" and len(out) > 1 and out[-2].startswith("--"):
            out[-1] = word.replace("\\", "")
        else:
            out.append(word.replace("\\", ""))
    return out


def _positional(words: Sequence[str], valued: set[str]) -> list[str]:
    rest = iter(words)
    out = []
    for word in rest:
        if word in valued:
            next(rest, None)
        elif not word.startswith("-") or word == "-":
            out.append(word)
    return out


def _values(argument: Argument, words: Sequence[str], ask: Ask) -> list[str]:
    if argument.choices:
        return list(argument.choices)
    if argument.complete == "commands":
        return list(COMMANDS)
    if argument.complete in ("paths", "folders"):
        return [f":{argument.complete}"]
    return list(ask(argument.complete, _options(words))) if argument.complete else []


def _options(words: Sequence[str]) -> Options:
    """The options in the words so far that say which memory is meant."""
    options = Options(EVERYWHERE)
    for name, value in pairwise(words):
        if name in ("--scope", "--agent"):
            setattr(options, name[2:], [value])
        elif name in ("--home", "--project"):
            setattr(options, name[2:], value)
    return options


def _ask(call: Call, what: str, options: Options) -> Iterable[str]:
    asked = Call(options, call.console, call.environment)
    if what == "scopes":
        from memsheaf.cli.admin import known

        return [place.scope for place in known(asked.settings(), here()) if place.scope]
    if what in ("tasks", "sessions"):
        with asked.layers(read_only=True) as layers:
            return layers.names(what[:-1])
    with asked.memory(read_only=True) as memory:
        return [row.path for row in memory.list()]
