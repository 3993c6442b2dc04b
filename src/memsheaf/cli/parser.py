"""From the words on a command's line to the values a command works with."""

from __future__ import annotations

from argparse import ArgumentParser, HelpFormatter, Namespace
from collections.abc import Sequence

from memsheaf.cli.command import EVERYWHERE, Argument, Command, Usage, text

# Known to type checkers under this name, so that parsing does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_VALUED = frozenset(argument.name for argument in EVERYWHERE if argument.value)


def split_command(words: Sequence[str]) -> tuple[str, list[str]]:
    """The command's name ("" when there is none), and all other words; options may stand before the name.

    >>> split_command(["--scope", "user", "list", "--json"])
    ('list', ['--scope', 'user', '--json'])
    """
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _VALUED else 1
    if at >= len(words):
        return "", list(words)
    return words[at], [*words[:at], *words[at + 1 :]]


def parse(command: Command, words: Sequence[str]) -> Namespace:
    """The values on the line, provided they make sense. Raises Usage."""
    parser = _Parser(add_help=False, allow_abbrev=False, usage="", formatter_class=_narrow)
    for argument in (*command.arguments, *EVERYWHERE):
        _add(parser, argument)
    valued = {a.name for a in (*command.arguments, *EVERYWHERE) if a.value and a.name.startswith("-")}
    return parser.parse_args(_ordered(words, valued))


def _ordered(words: Sequence[str], valued: set[str]) -> list[str]:
    """Options first, each in one word with its value, so that a value may begin with a dash."""
    options: list[str] = []
    others: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            others += rest
        elif word in valued:
            value = next(rest, None)
            if value is None:
                raise Usage(f"{word} needs a value")
            options.append(f"{word}={value}")
        elif word.startswith("-") and word != "-" and not _is_text(word):
            options.append(word)
        else:
            others.append(word)
    guard = any(word.startswith("-") and word != "-" for word in others)
    return [*options, *["--"] * guard, *others]


def _is_text(word: str) -> bool:
    """Whether a word that begins with a dash is a text: a bullet, a negative number, a sentence; no option is.

    >>> [_is_text(word) for word in ("- one", "-5", "--force is off", "-x", "--old=a b")]
    [True, True, True, False, False]
    """
    return " " in word.partition("=")[0] or (not word.startswith("--") and word[1:2].isdigit())


def _narrow(prog: str) -> HelpFormatter:
    # with a width of its own it does not import shutil to ask the terminal
    return HelpFormatter(prog, width=80)


class _Parser(ArgumentParser):
    """Raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise Usage(message)


def _add(parser: ArgumentParser, argument: Argument) -> None:
    convert = _converter(argument)
    if not argument.name.startswith("--"):
        count = None if argument.required else "?"
        if argument.repeated:
            count = "+" if argument.required else "*"
        parser.add_argument(
            argument.name,
            nargs=count,
            type=convert,
            metavar=argument.value,
            default=argument.default,
            choices=argument.choices or None,
        )
    elif not argument.value:
        parser.add_argument(argument.name, action="store_true")
    else:
        parser.add_argument(
            argument.name,
            type=convert,
            required=argument.required,
            default=argument.default,
            action="append" if argument.repeated else "store",
            choices=argument.choices or None,
        )


def _converter(argument: Argument):  # type: ignore[no-untyped-def]
    from argparse import ArgumentTypeError

    def convert(value: str) -> object:
        try:
            return (argument.convert or text)(value)
        except ValueError as error:
            raise ArgumentTypeError(f"{value!r}: {error}") from None

    return convert
