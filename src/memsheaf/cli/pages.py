"""Help, completion for four shells and a man page, all from the commands themselves."""

from collections.abc import Iterator, Sequence
from textwrap import fill

from memsheaf.cli.commands import COMMANDS, GROUPS, find_command, load
from memsheaf.cli.output import Result
from memsheaf.cli.parser import EVERYWHERE, Argument, fill_text, make_parser, split_first

EVERYDAY = {
    "remember TEXT": "save a fact; type, name and scope are chosen for you",
    "recall MESSAGE": "what an agent would see with that message",
    "list": "what is remembered here: the project's and yours",
    "search WORDS": "find memories by words",
    "show MEMORY": "read one; its file, its name or a part of it",
    "edit MEMORY": "change one in your editor",
    "forget MEMORY": "delete one, or all with --all",
    "undo": "take the last change back, whatever it was",
    "log": "what changed, when and by whom",
    "review": "approve or reject what was learned",
    "web": "look at all of it in your browser",
    "chat": "talk with an agent that remembers",
    "install": "in Claude Code, Codex, Cursor and others",
}
"""What the first screen shows."""
THEMES = {
    "Look": "recall list search show scopes",
    "Save and change": "remember edit forget",
    "What happened": "log diff undo restore erase",
    "Learn": "learn review consolidate compact promote",
    "Check": "audit doctor",
    "Talk": "chat web",
    "Agents": "install uninstall on off mcp worker",
    "Set up": "config init trust export import completion demo",
}
EXIT_CODES = """\
exit codes:
  0    done
  1    refused or failed, and said why; for `doctor` an error was found, for
       `erase` a trace, for `import` and `export` something was left out, for
       `audit` an error or a warning was found, for `compact` it does not fit
  2    usage error; nothing was changed
  130  interrupted
"""
_FIRST_SCREEN = """\
usage: memsheaf COMMAND ...

Memory that AI agents keep as plain Markdown files, one per fact.

{everyday}

A memory belongs to a scope: `project` is the folder you are in, `user` is you,
in every project. Reading covers both; saving finds the right one.

`memsheaf help COMMAND` has examples; `memsheaf help --all` lists all commands.
"""


def explain(words: Sequence[str], width: int) -> Result:
    """Explain the command that the words name; without one, list those for every day, or all with --all.

    Raises Usage when there is no such command.
    """
    name, rest = split_first(words)
    if not name:
        text = list_everything(width)
        if "--all" not in words:
            text = _FIRST_SCREEN.format(everyday=_rows(EVERYDAY, width))
        names = list(COMMANDS)
    elif name in GROUPS and not split_first(rest)[0]:
        text, names = describe_group(name, width), [each for each in COMMANDS if COMMANDS[each] == name]
    else:
        names = [find_command(words)[0]]
        text = make_parser(load(names[0]), width=width).format_help()
    commands = [{"name": each, "summary": load(each).summary} for each in names]
    return Result(lambda: {"commands": commands, "text": text}, text.removesuffix("\n"))


def _rows(rows: dict[str, str], width: int) -> str:
    lines = [f"  {term:<18}{meaning}" for term, meaning in rows.items()]
    return "\n".join(fill(line, width, subsequent_indent=" " * 20, break_on_hyphens=False) for line in lines)


def describe_group(name: str, width: int = 79) -> str:
    """Return the help of a group of commands."""
    rows = {f"{name} {each}": load(f"{name} {each}").summary for each in GROUPS[name].split()}
    about, more = fill_text(_about(name).strip(), width), f"`memsheaf help {name} COMMAND` explains one."
    return f"usage: memsheaf {name} COMMAND ...\n\n{about}\n\ncommands:\n{_rows(rows, width)}\n\n{more}\n"


def _about(group: str) -> str:
    """Return what the module of a group says."""
    load(f"{group} {GROUPS[group].split()[0]}")
    return str(__import__(f"memsheaf.cli.{group}", fromlist=("x",)).__doc__)


def list_everything(width: int) -> str:
    """Return every command with its sentence, by theme."""
    parts = ["usage: memsheaf COMMAND ..."]
    for theme, names in THEMES.items():
        parts.append(f"{theme}:\n{_rows({name: load(name).summary for name in names.split()}, width)}")
    groups = {group: _about(group).partition("\n")[0] for group in GROUPS}
    parts.append(f"Groups of commands:\n{_rows(groups, width)}")
    return "\n\n".join([*parts, "`memsheaf help COMMAND` explains one and has examples.", EXIT_CODES])


_BASH = """\
_memsheaf() {
    local words="" line="${COMP_WORDS[1]} ${COMP_WORDS[2]}"
    case "$line" in
CASES
    esac
    [ "$COMP_CWORD" = 1 ] && words="FIRST"
    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
    return 0
}
complete -o default -F _memsheaf memsheaf"""
_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName memsheaf -ScriptBlock {
    param($word, $ast, $cursor)
    $known = @{
CASES
    }
    $typed = @($ast.CommandElements | Select-Object -Skip 1 | ForEach-Object { "$_" })
    $words = $known["$($typed[0]) $($typed[1])"]
    if (-not $words) { $words = $known["$($typed[0])"] }
    if (-not $words -or ($typed.Count -eq 1 -and $word)) { $words = $known[""] }
    $words -split " " | Where-Object { $_ -like "$word*" } | ForEach-Object {
        [System.Management.Automation.CompletionResult]::new($_)
    }
}"""


def following_words(name: str) -> list[str]:
    """Return the options and fixed values that may follow a command, or the commands of a group."""
    if name in GROUPS:
        return GROUPS[name].split()
    arguments: Sequence[Argument] = [*load(name).arguments, *EVERYWHERE]
    values = [choice for argument in arguments for choice in argument.choices]
    return [*values, *(argument.flags[-1] for argument in arguments if argument.flags)]


def completion_script(shell: str) -> str:
    """Return the script that completes commands, options and values in a shell."""
    words = {name: " ".join(following_words(name)) for name in (*COMMANDS, *GROUPS)}
    first = " ".join(dict.fromkeys(name.partition(" ")[0] for name in words))
    if shell == "powershell":
        lines = [f'        "{name}" = "{more}"' for name, more in {"": first, **words}.items()]
        return _POWERSHELL.replace("CASES", "\n".join(lines))
    if shell == "fish":
        return "\n".join(_fish(words, first))
    patterns = {f'"{name}"' if " " in name else f'"{name} "*': words[name] for name in words}
    cases = [f'        {pattern}) words="{more}" ;;' for pattern, more in patterns.items()]
    script = _BASH.replace("CASES", "\n".join(cases)).replace("FIRST", first)
    return f"autoload -U +X bashcompinit && bashcompinit\n{script}" if shell == "zsh" else script


def _fish(words: dict[str, str], first: str) -> Iterator[str]:
    yield f"complete -c memsheaf -n __fish_use_subcommand -f -a '{first}'"
    for name, more in words.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        yield f"complete -c memsheaf -n '{seen}' -a '{more}'"


def man_page() -> str:
    """Return the manual page, in the format of man."""
    lines = [
        '.TH MEMSHEAF 1 "" "" "User Commands"',
        ".SH NAME",
        r"memsheaf \- memory that AI agents keep as plain Markdown files",
        ".SH SYNOPSIS",
        r".B memsheaf",
        r"COMMAND ...",
        ".SH COMMANDS",
    ]
    for name in COMMANDS:
        command = load(name)
        lines += [f".SS {name}", *_roff(command.summary, command.details)]
        lines += [line for argument in command.arguments for line in _roff_argument(argument)]
        lines += [".PP", "Examples:", ".nf", *map(_escape, command.examples), ".fi"] if command.examples else []
    lines += [".SH OPTIONS", *(line for argument in EVERYWHERE for line in _roff_argument(argument))]
    lines += [".SH EXIT STATUS", ".nf", *map(_escape, EXIT_CODES.splitlines()[1:]), ".fi"]
    return "\n".join(lines)


def _roff_argument(argument: Argument) -> list[str]:
    shown = " ".join([", ".join(argument.flags), argument.value]).strip()
    return [".TP", f".B {_escape(shown)}", *_roff(argument.help)]


def _roff(*texts: str) -> list[str]:
    lines = [line for text in texts if text for line in [*text.split("\n"), ""]][:-1]
    return [_escape(line) if line else ".PP" for line in lines]


def _escape(line: str) -> str:
    line = line.replace("\\", "\\e").replace("-", r"\-")
    return rf"\&{line}" if line[:1] in (".", "'") else line
