"""Commands that `memsheaf install` writes into settings, recognised by what they start.

A name is not enough: an entry called `memsheaf` may hold a URL or a program of the user's own, and a hook of theirs
may mention us. Ours start `memsheaf` itself, by whatever path an installation has had.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

NAME = "memsheaf"
IGNORE_FAILURE = " || exit 0"
HOME_VARIABLE = "MEMSHEAF_HOME="
_AS_MODULE = ["-P", "-m", NAME]


class OwnCommand(NamedTuple):
    """A command that starts memsheaf: the words of the program, its arguments, and the home it is given."""

    program: Sequence[str]
    arguments: Sequence[str]
    home: str = ""


def read_command(words: Sequence[Any], first: str) -> OwnCommand | None:
    """Return how `words` start memsheaf with the argument `first`, None if they start something else.

    >>> read_command(["env", "MEMSHEAF_HOME=/m", "/opt/bin/memsheaf", "mcp", "--read-only"], "mcp")
    OwnCommand(program=['/opt/bin/memsheaf'], arguments=['mcp', '--read-only'], home='/m')
    >>> read_command(["sh", "-c", "id", "mcp"], "mcp")
    """
    if not all(isinstance(word, str) for word in words):
        return None
    words = list(words)
    home = ""
    if words[:1] == ["env"]:
        del words[0]
    if words and words[0].startswith(HOME_VARIABLE):
        home = words.pop(0).removeprefix(HOME_VARIABLE)
    size = 4 if words[1:4] == _AS_MODULE else 1
    program, arguments = words[:size], words[size:]
    is_program = size == 4 or re.split(r"[\\/]", "".join(program))[-1] in (NAME, f"{NAME}.exe")
    return OwnCommand(program, arguments, home) if is_program and arguments[:1] == [first] else None


def entry_words(entry: Mapping[str, Any]) -> list[Any]:
    """Return the words with which an entry starts its server; none for a URL."""
    command, args = entry.get("command", []), entry.get("args", [])
    return [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [])]


def read_server(entry: object) -> OwnCommand | None:
    """Return how an entry starts our server, None if it does not."""
    return read_command(entry_words(entry), "mcp") if isinstance(entry, dict) else None


def read_hook(line: object) -> OwnCommand | None:
    """Return how the command of a hook starts ours, None for any other command.

    The line must be quoted exactly as `install` quotes it, since a shell runs what stands in double quotes.

    >>> read_hook("/opt/bin/memsheaf hook codex Stop || exit 0").arguments
    ['hook', 'codex', 'Stop']
    >>> read_hook("memsheaf hook codex Stop; id"), read_hook("notify 'memsheaf hook failed'")
    (None, None)
    >>> read_hook('MEMSHEAF_HOME="$(id)" memsheaf hook codex Stop')
    """
    if not isinstance(line, str):
        return None
    line = line.removesuffix(IGNORE_FAILURE)
    try:
        command = read_command(shlex.split(line), "hook")
    except ValueError:  # an open quote
        return None
    is_ours = command and len(command.arguments) == 3 and line == hook_line(command)
    return command if is_ours else None


def hook_line(command: OwnCommand) -> str:
    """Return the shell command for a hook."""
    home = f"{HOME_VARIABLE}{shlex.quote(command.home)} " if command.home else ""
    return home + shlex.join([*command.program, *command.arguments])


def is_own_hook(item: object) -> bool:
    """Return True for a hook that `install` writes: it runs `memsheaf hook`, or calls the tool of our server."""
    if not isinstance(item, dict):
        return False
    calls_tool = (item.get("server"), item.get("tool")) == (NAME, "memory_hook")
    return calls_tool or any(map(read_hook, item.values()))
