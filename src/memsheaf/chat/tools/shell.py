"""Shell commands for a model: output in one text, and no process left when the command is over."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from memsheaf.llm.process_group import listen

MAX_OUTPUT_BYTES = 30_000  # bytes of a command's output that are kept: the first and the last
_KEY_ENDINGS = ("API_KEY", "APIKEY", "_TOKEN", "_SECRET", "_SECRET_KEY", "_ACCESS_KEY")
_KEY_NAMES = frozenset({"AWS_BEARER_TOKEN_BEDROCK", "TOKEN", "SECRET"})


class CommandResult(NamedTuple):
    """The output of a command and its exit code; `code` is None when its time was up."""

    text: str
    code: int | None


class OutputBuffer:
    """The first and the last part of what is printed, however much that is.

    >>> output = OutputBuffer(10)
    >>> for word in ("first ", "second ", "third"):
    ...     output.add(word.encode())
    >>> output.text()
    'first\\n[8 bytes left out]\\nthird'
    """

    def __init__(self, most: int = MAX_OUTPUT_BYTES) -> None:
        self._half = most // 2
        self._first = bytearray()
        self._last = bytearray()
        self._cut = 0

    def add(self, part: bytes) -> None:
        """Take what was printed next."""
        room = self._half - len(self._first)
        self._first += part[:room]
        self._last += part[room:]
        if (over := len(self._last) - self._half) > 0:
            self._cut += over
            del self._last[:over]

    def text(self) -> str:
        """Return all of it, with a word about what is left out; what is no UTF-8 is replaced."""
        first = bytes(self._first)
        last = bytes(self._last)
        if not self._cut:
            return (first + last).decode("utf-8", "replace")
        both = (half.decode("utf-8", "replace") for half in (first, last))
        return f"\n[{self._cut} bytes left out]\n".join(both)


def without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what looks like a key: a model reads what `env` prints.

    >>> without_keys({"PATH": "/bin", "OPENAI_API_KEY": "sk-…", "HF_TOKEN": "hf_…"})
    {'PATH': '/bin'}
    """
    return {
        name: value
        for name, value in environment.items()
        if not name.upper().endswith(_KEY_ENDINGS) and name.upper() not in _KEY_NAMES
    }


def run_command(command: str, *, folder: str, environment: Mapping[str, str], seconds: float) -> CommandResult:
    """Run a command in a folder, with nothing to read. When this returns, or is interrupted, nothing of it runs on.

    It and all it starts are in a session of their own, without a terminal, which is killed when it has ended or its
    time is up. The variables that look like keys are not passed on. That is no wall: a command has all the
    rights of the user, which is why the user is asked first.

    Raises:
        OSError: it could not be started.
    """
    output = OutputBuffer()
    shell = f'cmd /s /c "{command}"' if sys.platform == "win32" else ("/bin/sh", "-c", command)
    code: int | None = None
    with suppress(TimeoutError):
        code = listen(shell, output.add, folder=folder, environment=without_keys(environment), deadline=seconds)
    return CommandResult(output.text(), code)
