"""What a command is: a function, what its line may hold, and a help made from both.

The help is laid out here rather than by argparse, so that it reads the same on every Python version and
costs nothing until someone asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from memsheaf.values import NamedTuple

# Known to type checkers under this name, so that starting a command does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call

_VERSION = re.compile(r"[0-9a-f]{4,64}")
_COLUMN = 24
_WIDTH = 100


class Usage(Exception):
    """The line was written wrongly; nothing was done."""


class Argument(NamedTuple):
    """One thing that may stand on a command's line.

    An option's `name` begins with `--`, and without `value` it is a switch. `complete` tells the shell what
    may stand there: `files` (memories), `scopes`, `tasks`, `sessions`, `commands`, `paths` (any file) or `folders`.
    `short` is another way to write an option, such as -p. An option with a `bare` value may stand without one, before
    another option or at the end, and means that.
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
    def shown(self) -> str:
        """How the argument is written in a usage line."""
        if not self.name.startswith("--"):
            return self.value
        value = f"[{self.value}]" if self.bare else self.value
        return f"{self.name} {value}" if value else self.name


class Command(NamedTuple):
    """A command: what it runs and what its line may hold. The docstring of `run` is its help.

    One that is not `scoped` works on the project's layers, whatever scope is usual.
    """

    run: Callable[[Call], int]
    arguments: tuple[Argument, ...]
    scoped: bool = True

    @property
    def summary(self) -> str:
        """The sentence that says what the command does."""
        return self._words().partition("\n")[0]

    @property
    def details(self) -> str:
        """What else there is to know, without the examples."""
        return self._words().partition("\n")[2].partition("examples:\n")[0].strip("\n")

    @property
    def examples(self) -> list[str]:
        """Lines that can be typed as they stand."""
        return [line.strip() for line in self._words().partition("examples:\n")[2].split("\n") if line.strip()]

    def _words(self) -> str:
        lines = (self.run.__doc__ or "").strip().split("\n")
        return "\n".join(line.removeprefix("    ") for line in lines)


def takes(*arguments: Argument, scoped: bool = True) -> Callable[[Callable[[Call], int]], Command]:
    """Make a function a command that takes these arguments."""
    return lambda run: Command(run, arguments, scoped)


def text(value: str) -> str:
    """Let a text through that is one: bytes that are not UTF-8 reach a program as half characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("it is not UTF-8 text") from None
    return value


def filled(value: str) -> str:
    """Let a text through that says something, so that an unset variable never means a default."""
    if not value.strip():
        raise ValueError("it is empty")
    return text(value)


def place(value: str) -> str:
    """Let the name of a file or folder of this machine through; its bytes are the machine's business."""
    if not value or "\0" in value:
        raise ValueError("it is empty, or holds a zero byte")
    return value


def version(value: str) -> str:
    """Let the beginning of a version or commit through, as `log` prints it.

    >>> version("98AF5CB2FC62")
    '98af5cb2fc62'
    """
    if not _VERSION.fullmatch(value.lower()):
        raise ValueError("give at least 4 of the digits that `memsheaf log` shows")
    return value.lower()


def whole(value: str) -> int:
    """Let a whole number through, 0 or more."""
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ValueError("it is not a whole number, 0 or more")
    return int(value)


def positive(value: str) -> int:
    """Let a whole number through, 1 or more."""
    if (number := whole(value)) == 0:
        raise ValueError("it must be 1 or more")
    return number


FILE = Argument("file", "the memory's file, as `memsheaf list` shows it", "FILE", required=True, complete="files")
ANYWAY = Argument("--anyway", "store it even if another memory says it already, or it seems to matter only now")
ALLOW_SECRET = Argument("--allow-secret", "store it even if a password, a key or a token is in it, in plain text")

TASK = Argument(
    "--task", "which task; else MEMSHEAF_TASK, else the only active one", "SLUG", convert=filled, complete="tasks"
)
SESSION = Argument(
    "--session",
    "which session; else MEMSHEAF_SESSION, else the only open one",
    "ID",
    convert=filled,
    complete="sessions",
)

EVERYWHERE = (
    Argument(
        "--scope",
        "whose memory: user, project, agent/NAME, task/SLUG, session/ID or team/NAME",
        "SCOPE",
        repeated=True,
        complete="scopes",
    ),
    Argument("--agent", "the same as --scope agent/NAME", "NAME", repeated=True),
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


def usage(name: str, command: Command) -> str:
    """How a command is written."""
    words = []
    for argument in command.arguments:
        shown = argument.shown + (" ..." if argument.repeated and not argument.name.startswith("--") else "")
        words.append(shown if argument.required else f"[{shown}]")
    return "\n".join(_wrapped(" ".join(["usage: memsheaf", name, *words]), "    "))


def help_text(name: str, command: Command, *, everywhere: bool = True) -> str:
    """All there is to know about a command, laid out for a terminal; with what every command takes, or not."""
    positional = [a for a in command.arguments if not a.name.startswith("--")]
    options = [a for a in command.arguments if a.name.startswith("--")]
    parts = [usage(name, command), command.summary, command.details]
    parts.append(_section("arguments:", positional))
    parts.append(_section("options:", options))
    taken = [one for one in EVERYWHERE if command.scoped or one.name not in ("--scope", "--agent")]
    parts.append(_section("every command takes:", taken if everywhere else ()))
    parts.append("\n".join(["examples:", *(f"  {line}" for line in command.examples)]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, arguments: list[Argument] | tuple[Argument, ...]) -> str:
    if not arguments:
        return ""
    lines = [title]
    for argument in arguments:
        start = f"  {argument.short}, {argument.shown}" if argument.short else f"  {argument.shown}"
        said = argument.help + (f": {', '.join(argument.choices)}" if argument.choices else "")
        first, *more = _wrapped(said, "", _WIDTH - _COLUMN)
        if len(start) > _COLUMN - 2:
            lines.append(start)
            start = ""
        lines.append(f"{start:<{_COLUMN}}{first}")
        lines += [" " * _COLUMN + line for line in more]
    return "\n".join(lines)


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
