"""The command line: `memsheaf COMMAND`. Each command parses, calls one method, and prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from memsheaf.cli.command import Usage

# Known to type checkers under this name, so that starting does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from memsheaf.cli.output import Console

OK, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


def main(
    argv: Sequence[str] | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run one command and give its exit code. The streams are the process's own unless others are given."""
    from memsheaf.cli.output import Console, Undelivered

    words = list(sys.argv[1:] if argv is None else argv)
    told, noted = stdout or sys.stdout or _nowhere(), stderr or sys.stderr or _nowhere()
    console = Console(stdin or sys.stdin, told, noted, environment)
    console.json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        code = _answered(words, console, environment)
        console.flush()
    except Undelivered as error:
        if str(error):
            console.note(f"memsheaf: {error}", style="red")
        _silence(console)
        code = FAILED
    except KeyboardInterrupt:
        console.note("memsheaf: interrupted")
        code = INTERRUPTED
    return code


def _answered(words: list[str], console: Console, environment: Mapping[str, str]) -> int:
    """Run the command; what it refuses is told, what is a mistake of ours is left to show."""
    from memsheaf.errors import MemsheafError

    try:
        return _run(words, console, environment)
    except Usage as error:
        return _fail(console, "Usage", str(error), _usage_hint(words))
    except MemsheafError as error:
        return _fail(console, type(error).__name__, str(error), error.hint, getattr(error, "__notes__", ()))


def _run(words: list[str], console: Console, environment: Mapping[str, str]) -> int:
    from memsheaf.cli.parser import parse, split_command
    from memsheaf.cli.registry import load

    name, rest = split_command(words)
    before_end = rest[: rest.index("--") if "--" in rest else None]
    if "--version" in before_end and not name:
        return _version(console)
    if not name:
        name, rest = "help", [word for word in rest if word != "-h"]
    elif "--help" in before_end or "-h" in before_end:
        name, rest = "help", [name, *["--json"] * console.json]
    command = load(name)
    from memsheaf.cli.call import Call

    call = Call(parse(command, rest), console, environment)
    try:
        return command.run(call)
    finally:
        call.tell_news()


def _version(console: Console) -> int:
    from memsheaf import __version__

    return console.answer({"version": __version__}, [f"memsheaf {__version__}"])


def _fail(console: Console, kind: str, message: str, hint: str, notes: Sequence[str] = ()) -> int:
    """Tell what went wrong: on stderr for people, and on stdout as JSON for a program that asked so."""
    from memsheaf.guard.secrets import without_secrets

    message, notes = without_secrets(message), [without_secrets(note) for note in notes]
    if console.json:
        error: dict[str, object] = {"kind": kind, "message": message, "hint": hint}
        console.document({"error": error | ({"notes": list(notes)} if notes else {})})
    console.note(f"memsheaf: {message}", style="red")
    for line in (*notes, hint):
        if line:
            console.note(line)
    return WRONG_USAGE if kind == "Usage" else FAILED


def _usage_hint(words: list[str]) -> str:
    from memsheaf.cli.command import usage
    from memsheaf.cli.parser import split_command
    from memsheaf.cli.registry import COMMANDS, load

    name, _ = split_command(words)
    if name not in COMMANDS:
        return "`memsheaf help` lists the commands."
    return f"{usage(name, load(name))}\n`memsheaf help {name}` says more and has examples."


def _nowhere() -> TextIO:
    """What takes the place of a stream that whoever started this has closed."""
    return open(os.devnull, "w", encoding="utf-8")


def _silence(console: Console) -> None:
    """Let the interpreter close a stream that nobody reads without a word."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), console.stdout.fileno())
    except (OSError, ValueError):
        return
