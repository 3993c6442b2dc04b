"""Commands that `memsheaf install` writes into settings, recognised by what they start.

A name is not enough: an entry called `memsheaf` may hold a URL or a program of the user's own, and a hook of theirs
may mention us. Ours start `memsheaf` itself, by whatever path an installation has had.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

NAME = "memsheaf"
IGNORE_FAILURE = " || exit 0"
HOME_VARIABLE = "MEMSHEAF_HOME="
_AS_MODULE = ["-P", "-m", NAME]


def read_command(words: Sequence[Any], first: str) -> list[str]:
    """Return the arguments with which `words` start memsheaf, from `first` on; none if they start something else.

    >>> read_command(["env", "MEMSHEAF_HOME=/m", "/opt/bin/memsheaf", "mcp", "--read-only"], "mcp")
    ['mcp', '--read-only']
    >>> read_command(["sh", "-c", "id", "mcp"], "mcp")
    []
    """
    if not all(isinstance(word, str) for word in words):
        return []
    words = list(words)
    if words[:1] == ["env"]:
        del words[0]
    if words and words[0].startswith(HOME_VARIABLE):
        del words[0]
    is_module = words[1:4] == _AS_MODULE
    name = re.split(r"[\\/]", "".join(words[:1]))[-1]
    arguments = words[4 if is_module else 1 :]
    return arguments if arguments[:1] == [first] and (is_module or name in (NAME, f"{NAME}.exe")) else []


def entry_words(entry: Mapping[str, Any]) -> list[Any]:
    """Return the words with which an entry starts its server; none for a URL."""
    command, args = entry.get("command", []), entry.get("args", [])
    return [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [])]


def read_server(entry: object) -> list[str]:
    """Return the arguments with which an entry starts our server, none if it does not."""
    return read_command(entry_words(entry), "mcp") if isinstance(entry, dict) else []


def is_own_line(line: object) -> bool:
    """Return True if the command of a hook starts ours.

    The line must be quoted exactly as `install` quotes it, since a shell runs what stands in double quotes.

    >>> is_own_line("/opt/bin/memsheaf hook codex Stop || exit 0")
    True
    >>> is_own_line("memsheaf hook codex Stop; id"), is_own_line("notify 'memsheaf hook failed'")
    (False, False)
    >>> is_own_line('MEMSHEAF_HOME="$(id)" memsheaf hook codex Stop')
    False
    """
    if not isinstance(line, str):
        return False
    line = line.removesuffix(IGNORE_FAILURE)
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote
        return False
    if len(read_command(words, "hook")) != 3:
        return False
    home = words.pop(0).removeprefix(HOME_VARIABLE) if words[0].startswith(HOME_VARIABLE) else ""
    return line == hook_line(words, home)


def hook_line(words: Sequence[str], home: str) -> str:
    """Return the shell command for a hook."""
    variable = f"{HOME_VARIABLE}{shlex.quote(home)} " if home else ""
    return variable + shlex.join(words)


def is_own_hook(item: object) -> bool:
    """Return True for a hook that `install` writes: it runs `memsheaf hook`, or calls the tool of our server."""
    if not isinstance(item, dict):
        return False
    calls_tool = (item.get("server"), item.get("tool")) == (NAME, "memory_hook")
    return calls_tool or any(map(is_own_line, item.values()))
