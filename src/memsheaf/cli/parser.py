"""From the words of a line to the arguments of a function, with argparse.

A command is a function. Its annotations say which values it takes; its docstring is its help. Parameters before the
`*` are words of the line, the others are options:

    def search(call: Call, words: Words, *, limit: Positive = 10) -> Result:
        '''Find memories by words.

        arguments:
          WORD: words to look for
          -n, --limit N: how many at most

        examples:
          memsheaf search release day
        '''
"""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from functools import partial
from textwrap import dedent, fill
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, NoReturn

from memsheaf.memory import KINDS


class Usage(Exception):
    """The line was written wrongly; nothing was done."""


class Declined(Exception):
    """A person was asked and said no; the message says what that means."""


class UnquotedText(Usage):
    """An option stands between two words of a text, where it would be missing from the text."""


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
    """Accept the name of a file or folder of this machine, in whatever encoding."""
    if not value or "\0" in value:
        raise ValueError("it is empty, or holds a zero byte")
    return value


def version(value: str) -> str:
    """Return the beginning of a version or commit, as `log` prints it.

    >>> version("98AF5CB2FC62")
    '98af5cb2fc62'
    """
    if not re.fullmatch(r"[0-9a-f]{4,64}", value.lower()):
        raise ValueError("give at least 4 of the digits that `memsheaf log --full` shows")
    return value.lower()


def day(value: str) -> str:
    """Return a day, as the log has it.

    >>> day("2026-11-15")
    '2026-11-15'
    """
    with suppress(ValueError):
        if date.fromisoformat(value).isoformat() == value:
            return value
    raise ValueError("give a day such as 2026-11-15")


def whole(value: str) -> int:
    """Return a whole number, 0 or more."""
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise ValueError("it is not a whole number, 0 or more")
    return int(value)


def positive(value: str) -> int:
    """Return a whole number, 1 or more."""
    if (number := whole(value)) == 0:
        raise ValueError("it must be 1 or more")
    return number


def port(value: str) -> int:
    """Return a port to listen on, 0 for a free one."""
    if (number := whole(value)) > 65_535:
        raise ValueError("it must be at most 65535")
    return number


# what a parameter may be, besides str and bool; a tuple lists the only values
Words = Annotated[Sequence[str], non_empty]
AnyText = Annotated[str | None, text]
Place = Annotated[str, place]
Version = Annotated[str, version]
Versions = Annotated[Sequence[str], version]
OnOff = Annotated[str, ("on", "off")]
Day = Annotated[str, day]
Whole = Annotated[int, whole]
Days = Annotated[int | None, whole]
Positive = Annotated[int, positive]
Port = Annotated[int | None, port]
Kind = Annotated[str, KINDS]


class Argument(NamedTuple):
    """One word or option that a line may hold, and the parameter that gets it. A switch has no `value`."""

    parameter: str
    help: str
    flags: tuple[str, ...]
    value: str
    convert: Callable[[str], object]
    choices: tuple[str, ...]
    is_list: bool
    is_required: bool
    has_bare: bool
    """Return True if the option may stand without its value."""

    @property
    def is_text(self) -> bool:
        """Return True for a text of several words."""
        return self.is_list and self.value in ("TEXT", "MESSAGE", "WORD") and not self.flags

    def converted(self, word: str) -> object:
        """Return the value of a word. Raises argparse.ArgumentTypeError."""
        try:
            value = self.convert(word)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{word[:80]!r}: {error}") from None
        if self.choices and value not in self.choices:
            raise argparse.ArgumentTypeError(f"{word[:80]!r} is none of {', '.join(self.choices)}")
        return value

    def add_to(self, target: argparse._ArgumentGroup, literal: Mapping[str, str]) -> None:
        """Add it to a parser; `literal` has words that stand for themselves, whatever they begin with."""
        more: dict[str, Any] = {"default": None}
        if self.flags:
            more["dest"] = self.parameter
        if not self.value:
            more["action"] = "store_true"
        else:
            more["metavar"] = self.value
            more["type"] = lambda word: self.converted(literal.get(word, word))
        if self.is_required and self.flags:
            more["required"] = True
        if self.has_bare:
            more["nargs"] = "?"
            more["const"] = ""
        elif not self.flags and self.is_list:
            more["nargs"] = "+" if self.is_required else "*"
        elif not self.flags and not self.is_required:
            more["nargs"] = "?"
        if self.flags and self.is_list:
            more["action"] = "append"
        choices = f": {', '.join(self.choices)}" if self.choices else ""
        help = f"{self.help}{choices}".replace("%", "%%")
        target.add_argument(*(self.flags or (self.parameter,)), help=help or argparse.SUPPRESS, **more)


class Command(NamedTuple):
    """A command: its name, such as `task start`, its function, and its help."""

    name: str
    run: Callable[..., Any]
    summary: str
    details: str
    arguments: Sequence[Argument]
    examples: Sequence[str]


_LISTED = re.compile(r"^  ((?:-\w, )?--[a-z-]+)?(?: ?(\[?)([A-Z]+|on.off)\]?)?: (.*(?:\n    .*)*)", re.MULTILINE)


def describe(name: str, run: Callable[..., Any]) -> Command:
    """Return the command that a function is."""
    summary, _, rest = (run.__doc__ or "").partition("\n")
    details, _, examples = dedent(rest).partition("examples:\n")
    details, _, listed = details.partition("arguments:\n")
    annotations = {key: kind for key, kind in run.__annotations__.items() if key not in ("call", "return")}
    defaults = run.__kwdefaults__ or {}
    words = [key for key in annotations if key in run.__code__.co_varnames[: run.__code__.co_argcount]]
    optional = words[len(words) - len(run.__defaults__ or ()) :] if run.__defaults__ else []
    given = iter(words)
    arguments = []
    for flags, bracket, value, help in _LISTED.findall(listed):
        key = flags.rpartition("--")[2].replace("-", "_") if flags else next(given)
        key = key if key in annotations else f"{key}_"
        kind, extra = annotations[key], non_empty
        if hasattr(kind, "__metadata__"):
            kind, (extra,) = kind.__origin__, kind.__metadata__
        is_required = key not in defaults if flags else key not in optional
        arguments.append(
            Argument(
                key,
                " ".join(help.split()),
                tuple(flags.split(", ")) if flags else (),
                value,
                non_empty if isinstance(extra, tuple) else extra,
                extra if isinstance(extra, tuple) else (),
                kind == Sequence[str],
                is_required and kind is not bool,
                bool(bracket),
            )
        )
    return Command(
        name,
        run,
        summary,
        details.strip("\n"),
        arguments,
        [line.strip() for line in examples.splitlines() if line.strip()],
    )


def common(
    call: object,
    *,
    scope: Words = (),
    home: Place = "",
    project: Place = "",
    json: bool = False,
    yes: bool = False,
    help: bool = False,
) -> None:
    """Take what every command takes.

    arguments:
      -s, --scope SCOPE: whose memory: user, project, agent/NAME, task/SLUG, session/ID or team/NAME
      --home DIR: where memories live, instead of ~/.memsheaf
      --project DIR: where the project's memories live, instead of its usual place
      --json: print one JSON document, also for errors
      -y, --yes: do not ask
      -h, --help: show this
    """


EVERYWHERE = describe("", common).arguments
LAYERS = ("agent", "team", "task", "session")
OTHER_SCOPES = [
    EVERYWHERE[0]._replace(parameter=layer, flags=(f"--{layer}",), help="", value="NAME") for layer in LAYERS
]
"""Other ways to write `--scope agent/NAME` and the like, which lines have that were printed for clients once."""
_VALUED = {flag for one in (*EVERYWHERE, *OTHER_SCOPES) if one.value for flag in one.flags}
_NOTHING: Mapping[str, str] = MappingProxyType({})


class CommandParser(argparse.ArgumentParser):
    """A parser that raises Usage and prints nothing."""

    def error(self, message: str) -> NoReturn:
        """Raise Usage, which names options but no words: one could be an address with a password."""
        rest = message.removeprefix("unrecognized arguments: ")
        options = [word.partition("=")[0] for word in rest.split(" ") if word.startswith("-")]
        if rest == message:
            raise Usage(message)
        raise Usage(
            f"there is no option {options[0]}"
            if options
            else "there is a word too many: quote a text, and name a scope with -s"
        )


def make_parser(
    command: Command, *, width: int = 80, usage: str | None = None, literal: Mapping[str, str] = _NOTHING
) -> CommandParser:
    """Return the parser of a command; without a `usage`, which takes longer, it can lay out its help."""
    parts = [fill_text(part, width) for part in (command.summary, command.details) if part and usage is None]
    parser = CommandParser(
        prog=f"memsheaf {command.name}",
        usage=usage,
        description="\n\n".join(parts),
        epilog="\n".join(["examples:", *(f"  {line}" for line in command.examples)]) if command.examples else None,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=width, max_help_position=26),
        add_help=False,
        allow_abbrev=False,
    )
    words, options = parser.add_argument_group("arguments"), parser.add_argument_group("options")
    for argument in command.arguments:
        argument.add_to(options if argument.flags else words, literal)
    if usage is None:
        parser.usage = parser.format_usage().removeprefix("usage: ").rstrip()
    own = {argument.parameter for argument in command.arguments}
    everywhere = parser.add_argument_group("every command takes")
    for argument in (*EVERYWHERE, *OTHER_SCOPES):
        if argument.parameter not in own:
            argument.add_to(everywhere, literal)
    return parser


def fill_text(text: str, width: int) -> str:
    """Lay paragraphs out in so many columns; one with indented lines stays as it is."""
    return "\n\n".join(part if "\n " in part else fill(part, width) for part in text.split("\n\n"))


def parse(command: Command, words: Sequence[str]) -> dict[str, Any]:
    """Return the values on the line by parameter.

    An option may stand before or after a text of several words, but not inside it: `remember always pass --json to
    it` would store a sentence without its `--json`. What follows `--` is taken as it stands.

    Raises:
        UnquotedText: an option stands inside a text.
        Usage: the line makes no sense.
    """
    end = words.index("--") if "--" in words else len(words)
    literal = {f"\0{number}": word for number, word in enumerate(words[end + 1 :])}
    text = next((argument for argument in command.arguments if argument.is_text), None)
    try:
        given = make_parser(command, usage="", literal=literal).parse_intermixed_args([*words[:end], *literal])
    except Usage as error:
        if text and str(error).startswith("there is ") and not words[0].startswith("-"):
            raise UnquotedText(_advise_quotes(command, words)) from None
        flags = [flag for argument in (*command.arguments, *EVERYWHERE) for flag in argument.flags]
        raise Usage(f"{error}{suggest(str(error).rpartition(' ')[2], flags)}") from None
    values = {key: value for key, value in vars(given).items() if value is not None}
    spoken = values.get(text.parameter, []) if text else []
    if not any([*words[at : at + len(spoken)]] == spoken for at in range(len(words) + 1)):
        raise UnquotedText(_advise_quotes(command, words))
    return values


def _advise_quotes(command: Command, words: Sequence[str]) -> str:
    """Return the line as it should be typed."""
    text = [*words]
    while text and text[0].startswith("--"):
        del text[: 2 if text[0] in _VALUED else 1]
    quoted = re.sub(r'(["$`\\])', r"\\\1", " ".join(text))
    return f'an option inside the text would be missing from it; quote the text: memsheaf {command.name} "{quoted}"'


def split_first(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the first word that is no option and not the value of a common one, and all other words.

    >>> split_first(["--scope", "user", "list", "--json"])
    ('list', ['--scope', 'user', '--json'])
    """
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-", "--"):
        at += 2 if words[at] in _VALUED else 1
    if at >= len(words) or words[at] == "--":
        return "", [*words]
    return words[at], [*words[:at], *words[at + 1 :]]


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a question about the name that was meant, "" when none is near."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1, cutoff=0.75)
    return f"; did you mean {near[0]}?" if near else ""
