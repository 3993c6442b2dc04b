"""What a command is, and how the words of a line become its options.

Read without argparse: the standard library's parser takes longer to load than most commands take to run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from memsheaf.values import NamedTuple

# Known to type checkers under this name, so that starting a command does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Run = Callable[[Any], int]  # of a Call

_VERSION = re.compile(r"[0-9a-f]{4,64}")


class Usage(Exception):
    """The line was written wrongly; nothing was done."""


class Argument(NamedTuple):
    """One thing that may stand on a command's line.

    An option's `name` begins with `--`, and without `value` it is a switch. `complete` tells the shell what
    may stand there: `files` (memories), `scopes`, `tasks`, `sessions`, `commands`, `paths` (any file) or `folders`.
    A value must not be empty unless `convert` says otherwise. `short` is another way to write an option, such as -p.
    An option with a `bare` value may stand without one, before another option or at the end, and means that.
    """

    name: str
    help: str
    value: str = ""
    required: bool = False
    repeated: bool = False
    choices: tuple[str, ...] = ()
    default: object = None
    convert: Callable[[str], object] | None = None
    complete: str = ""
    short: str = ""
    bare: str = ""

    @property
    def is_option(self) -> bool:
        """Whether it is written with its name."""
        return self.name.startswith("--")

    @property
    def attribute(self) -> str:
        """The name its value has among the options."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def shown(self) -> str:
        """How the argument is written in a usage line."""
        if not self.is_option:
            return self.value
        value = f"[{self.value}]" if self.bare else self.value
        return f"{self.name} {value}" if value else self.name


class Command(NamedTuple):
    """A command: its help, what it runs and what its line may hold; or a group of actions, such as `task start`.

    One that is not `scoped` works on the project's layers, whatever scope is usual. A group's line that names no
    action is one for the `default` action. `rewritten` has options that older versions took instead of an action.
    """

    help: str
    run: Run | None = None
    arguments: tuple[Argument, ...] = ()
    scoped: bool = True
    actions: dict[str, Command] = {}  # noqa: RUF012
    default: str = ""
    rewritten: Mapping[str, str] = {}

    def action(self, *arguments: Argument) -> Callable[[Run], Command]:
        """Add a function to the group as the action of its name."""

        def add(run: Run) -> Command:
            name = run.__name__.partition("_")[0]
            self.actions[name] = Command(_unindented(run.__doc__), run, arguments, self.scoped)
            return self.actions[name]

        return add

    @property
    def summary(self) -> str:
        """The sentence that says what the command does."""
        return self.help.partition("\n")[0]

    @property
    def details(self) -> str:
        """What else there is to know, without the examples."""
        return self.help.partition("\n")[2].partition("examples:\n")[0].strip("\n")

    @property
    def examples(self) -> list[str]:
        """Lines that can be typed as they stand."""
        return [line.strip() for line in self.help.partition("examples:\n")[2].split("\n") if line.strip()]


def takes(*arguments: Argument, scoped: bool = True) -> Callable[[Run], Command]:
    """Make a function a command that takes these arguments. Its docstring is the help."""
    return lambda run: Command(_unindented(run.__doc__), run, arguments, scoped)


def group(
    help: str, *, default: str = "", scoped: bool = True, rewritten: Mapping[str, str] | None = None
) -> Command:
    """Make a command of actions, which `Command.action` adds."""
    return Command(_unindented(help), scoped=scoped, actions={}, default=default, rewritten=rewritten or {})


def _unindented(text: str | None) -> str:
    return "\n".join(line.removeprefix("    ") for line in (text or "").strip().split("\n"))


# What a value must look like. Each raises ValueError.


def text(value: str) -> str:
    """Refuse bytes that are not UTF-8, which reach a program as half characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not UTF-8 text") from None
    return value


def non_empty(value: str) -> str:
    """Refuse an empty text, so that an unset variable never means a default."""
    if not value.strip():
        raise ValueError("it is empty")
    return text(value)


def place(value: str) -> str:
    """The name of a file or folder of this machine, in whatever encoding."""
    if not value or "\0" in value:
        raise ValueError("it is empty, or holds a zero byte")
    return value


def version(value: str) -> str:
    """The beginning of a version or commit, as `log` prints it.

    >>> version("98AF5CB2FC62")
    '98af5cb2fc62'
    """
    if not _VERSION.fullmatch(value.lower()):
        raise ValueError("give at least 4 of the digits that `memsheaf log` shows")
    return value.lower()


def whole(value: str) -> int:
    """A whole number, 0 or more."""
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ValueError("it is not a whole number, 0 or more")
    return int(value)


def positive(value: str) -> int:
    """A whole number, 1 or more."""
    if (number := whole(value)) == 0:
        raise ValueError("it must be 1 or more")
    return number


FILE = Argument(
    "file", "the memory's file, as `memsheaf list` shows it", "FILE", required=True, complete="files", convert=text
)
ANYWAY = Argument("--anyway", "store it even if another memory says it already, or it seems to matter only now")
ALLOW_SECRET = Argument("--allow-secret", "store it even if a password, a key or a token is in it, in plain text")
DRY_RUN = Argument("--dry-run", "show what would be done, and change nothing")
MODEL = Argument("--model", "ask this model instead of the one in the settings; none: rules alone", "NAME")
CONVERSATION = Argument(
    "source",
    "a conversation: Claude Code's JSONL, JSON messages or plain text; - is standard input",
    "FILE",
    convert=place,
    complete="paths",
)
TASK = Argument("--task", "which task; else MEMSHEAF_TASK, else the only active one", "SLUG", complete="tasks")
SESSION = Argument(
    "--session", "which session; else MEMSHEAF_SESSION, else the only open one", "ID", complete="sessions"
)

EVERYWHERE = (
    Argument(
        "--scope",
        "whose memory: user, project, agent/NAME, task/SLUG, session/ID or team/NAME",
        "SCOPE",
        repeated=True,
        complete="scopes",
        convert=text,
    ),
    Argument("--agent", "the same as --scope agent/NAME", "NAME", repeated=True, convert=text),
    Argument("--home", "where memories live, instead of ~/.memsheaf", "DIR", convert=place, complete="folders"),
    Argument(
        "--project",
        "where the project's memories live, instead of its usual place",
        "DIR",
        convert=place,
        complete="folders",
    ),
    Argument("--json", "print one JSON document, also for errors"),
    Argument("--help", "show this"),
)
"""What every command takes, before or after its name."""


class Options:
    """What stands on a line: an attribute for each argument, None or its default where nothing does."""

    def __init__(self, arguments: Iterable[Argument]) -> None:
        for argument in arguments:
            is_switch = argument.is_option and not argument.value
            many = [] if argument.repeated and not argument.is_option else argument.default
            setattr(self, argument.attribute, False if is_switch else many)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no argument is called {name!r}")


def split_first(words: Sequence[str], arguments: Iterable[Argument] = EVERYWHERE) -> tuple[str, list[str]]:
    """The first word that is no option nor its value ("" when there is none), and all other words.

    >>> split_first(["--scope", "user", "list", "--json"])
    ('list', ['--scope', 'user', '--json'])
    """
    valued = {argument.name for argument in arguments if argument.is_option and argument.value}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--") and not _is_text(words[at]):
        at += 2 if words[at] in valued else 1
    if at >= len(words) or words[at] == "--":
        return "", list(words)
    return words[at], [*words[:at], *words[at + 1 :]]


def split_action(name: str, command: Command, words: Sequence[str]) -> tuple[str, list[str]]:
    """The action of a group that a line is about, and its words. Raises Usage when there is no such action."""
    arguments = {one.name: one for action in command.actions.values() for one in action.arguments}
    known = (*arguments.values(), *EVERYWHERE)
    first, rest = split_first(words, known)
    if first not in command.actions:
        words = _rewrite_old_options(command, words)
        first, rest = split_first(words, known)
    if first in command.actions:
        return first, rest
    default = command.actions.get(command.default)
    if default and (not first or any(not one.is_option for one in default.arguments)):
        return command.default, list(words)
    has = f"`memsheaf {name}` has the actions {', '.join(command.actions)}"
    wrong = f"there is no action {first!r}{_closest(first, command.actions)}" if first else "ACTION is missing"
    raise Usage(f"{wrong}; {has}")


def _rewrite_old_options(command: Command, words: Sequence[str]) -> list[str]:
    """The words with an option of an older version, such as `--show ID`, in the action that took its place."""
    for at, word in enumerate(words[: words.index("--") if "--" in words else None]):
        option, sign, value = word.partition("=")
        if option in command.rewritten:
            action, *more = command.rewritten[option].split()
            return [action, *words[:at], *more, *([value] if sign else []), *words[at + 1 :]]
    return list(words)


def parse(command: Command, words: Sequence[str], siblings: Mapping[str, Command] | None = None) -> Options:
    """The values on the line, provided they make sense. Raises Usage, which names the sibling that has an option."""
    arguments = (*command.arguments, *EVERYWHERE)
    named = {argument.name: argument for argument in arguments if argument.is_option}
    options = Options(arguments)
    given, others = _sorted_out(words, named, siblings or {})
    for argument, value in given:
        name = argument.attribute
        if not argument.value:
            setattr(options, name, True)
        elif argument.repeated:
            setattr(options, name, [*(getattr(options, name) or ()), _converted(argument, value)])
        else:
            setattr(options, name, _converted(argument, value))
    _place(options, [argument for argument in arguments if not argument.is_option], others)
    present = {argument.name for argument, _ in given}
    if missing := [one.shown for one in named.values() if one.required and one.name not in present]:
        raise Usage(f"{' and '.join(missing)} must be given")
    return options


def _sorted_out(
    words: Sequence[str], named: Mapping[str, Argument], siblings: Mapping[str, Command]
) -> tuple[list[tuple[Argument, str]], list[str]]:
    """The options with their values, which may begin with a dash, and the words that stand alone."""
    given: list[tuple[Argument, str]] = []
    others: list[str] = []
    short = {argument.short: argument for argument in named.values() if argument.short}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            others += rest
            break
        if word.startswith("-") and word != "-" and not _is_text(word):
            name, has_value, value = word.partition("=")
            argument = named.get(name) or short.get(name)
            if argument is None:
                takers = [one for one, other in siblings.items() if name in [each.name for each in other.arguments]]
                hint = f"; it goes with {', '.join(takers)}" if takers else _closest(name, named)
                raise Usage(f"there is no option {name}{' here' if takers else ''}{hint}")
            if has_value and not argument.value:
                raise Usage(f"{name} takes no value")
            if argument.value and not has_value:
                value = _value(argument, rest)
            given.append((argument, value))
        else:
            others.append(word)
    return given, others


def _value(argument: Argument, rest: list[str]) -> str:
    """The word behind an option, taken from the rest; what it means when none stands there."""
    if argument.bare and (not rest or rest[0].startswith("-")):
        return argument.bare
    if not rest:
        raise Usage(f"{argument.name} needs a value")
    return rest.pop(0)


def _place(options: Options, arguments: Sequence[Argument], words: Sequence[str]) -> None:
    """Give the words that stand alone to the arguments that have no name, in order."""
    left = list(words)
    for argument in arguments:
        if not left:
            if argument.required:
                raise Usage(f"{argument.value} is missing")
        elif argument.repeated:
            setattr(options, argument.attribute, [_converted(argument, word) for word in left])
            left = []
        else:
            setattr(options, argument.attribute, _converted(argument, left.pop(0)))
    if left:
        raise Usage(f"{left[0][:80]!r} is one word too many; quote a text that has spaces")


def _converted(argument: Argument, value: str) -> object:
    what = argument.name if argument.is_option else argument.value
    try:
        converted = (argument.convert or non_empty)(value)
    except ValueError as error:
        raise Usage(f"{what} {value[:80]!r}: {error}") from None
    if argument.choices and converted not in argument.choices:
        raise Usage(f"{what} {value[:80]!r} is none of {', '.join(argument.choices)}")
    return converted


def _closest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, known, 1)
    return f"; did you mean {found[0]}?" if found else ""


def _is_text(word: str) -> bool:
    """Whether a word that begins with a dash is a text: a bullet, a negative number, a sentence; no option is.

    >>> [_is_text(word) for word in ("- one", "-5", "--force is off", "-x", "--old=a b")]
    [True, True, True, False, False]
    """
    return " " in word.partition("=")[0] or (not word.startswith("--") and word[1:2].isdigit())
