"""From the words on a command's line to the values a command works with.

Small on purpose: the standard library's parser takes longer to load than most commands take to run.
"""

from __future__ import annotations

from collections.abc import Sequence

from memsheaf.cli.command import EVERYWHERE, Argument, Command, Usage, text

# Known to type checkers under this name, so that parsing does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_VALUED = frozenset(argument.name for argument in EVERYWHERE if argument.value)


class Options:
    """What stands on a line: an attribute for each argument, None or its default where nothing does."""

    def __init__(self, arguments: Sequence[Argument]) -> None:
        for argument in arguments:
            is_switch = argument.name.startswith("--") and not argument.value
            many = [] if argument.repeated and not argument.name.startswith("--") else argument.default
            setattr(self, _attribute(argument), False if is_switch else many)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no argument is called {name!r}")


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


def parse(command: Command, words: Sequence[str]) -> Options:
    """The values on the line, provided they make sense. Raises Usage."""
    arguments = (*command.arguments, *EVERYWHERE)
    named = {argument.name: argument for argument in arguments if argument.name.startswith("--")}
    options = Options(arguments)
    given, others = _sorted_out(words, named)
    for argument, value in given:
        name = _attribute(argument)
        if not argument.value:
            setattr(options, name, True)
        elif argument.repeated:
            setattr(options, name, [*(getattr(options, name) or ()), _converted(argument, value)])
        else:
            setattr(options, name, _converted(argument, value))
    _place(options, [argument for argument in arguments if not argument.name.startswith("--")], others)
    filled = {argument.name for argument, _ in given}
    if missing := [one.shown for one in named.values() if one.required and one.name not in filled]:
        raise Usage(f"{' and '.join(missing)} must be given")
    return options


def _sorted_out(words: Sequence[str], named: dict[str, Argument]) -> tuple[list[tuple[Argument, str]], list[str]]:
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
                raise Usage(f"there is no option {name}{_closest(name, named)}")
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
        name = _attribute(argument)
        if not left:
            if argument.required:
                raise Usage(f"{argument.value} is missing")
        elif argument.repeated:
            setattr(options, name, [_converted(argument, word) for word in left])
            left = []
        else:
            setattr(options, name, _converted(argument, left.pop(0)))
    if left:
        raise Usage(f"{left[0]!r} is one word too many; quote a text that has blanks")


def _converted(argument: Argument, value: str) -> object:
    what = argument.value if not argument.name.startswith("--") else argument.name
    try:
        converted = (argument.convert or text)(value)
    except ValueError as error:
        raise Usage(f"{what} {value!r}: {error}") from None
    if argument.choices and converted not in argument.choices:
        raise Usage(f"{what} {value!r} is none of {', '.join(argument.choices)}")
    return converted


def _attribute(argument: Argument) -> str:
    return argument.name.removeprefix("--").replace("-", "_")


def _closest(name: str, named: dict[str, Argument]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, named, 1)
    return f"; did you mean {found[0]}?" if found else ""


def _is_text(word: str) -> bool:
    """Whether a word that begins with a dash is a text: a bullet, a negative number, a sentence; no option is.

    >>> [_is_text(word) for word in ("- one", "-5", "--force is off", "-x", "--old=a b")]
    [True, True, True, False, False]
    """
    return " " in word.partition("=")[0] or (not word.startswith("--") and word[1:2].isdigit())
