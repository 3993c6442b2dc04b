"""The command line: `memsheaf COMMAND`. Each command parses, calls one method, and prints.

Deferred imports, to start quickly: each command and what it calls, so that `memsheaf list` loads nothing of `memsheaf
chat`; json, threads, subprocesses and close matches where a command needs them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from memsheaf import __version__
from memsheaf.cli.command import UnquotedText, Usage, load, parse, split_action, split_first
from memsheaf.cli.output import Console, Undelivered
from memsheaf.errors import MemsheafError
from memsheaf.guard import without_secrets

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
    words = list(sys.argv[1:] if argv is None else argv)
    out, err = stdout or sys.stdout or _open_null(), stderr or sys.stderr or _open_null()
    console = Console(stdin or sys.stdin, out, err, environment)
    console.json = "--json" in _before_end(words)
    try:
        try:
            code = _run(words, console, environment)
        except Usage as error:
            code = _fail(console, "Usage", str(error), _usage_hint(words))
        except MemsheafError as error:
            code = _fail(console, type(error).__name__, str(error), error.hint, getattr(error, "__notes__", ()))
        console.flush()
    except Undelivered as error:
        if str(error):
            console.note(f"memsheaf: {error}", style="red")
        with suppress(OSError, ValueError):  # so that the interpreter closes the stream without an error message
            os.dup2(os.open(os.devnull, os.O_WRONLY), console.stdout.fileno())
        code = FAILED
    except KeyboardInterrupt:
        console.note("memsheaf: interrupted")
        code = INTERRUPTED
    return code


def _run(words: list[str], console: Console, environment: Mapping[str, str]) -> int:
    name, rest = split_first(words)
    before_end = _before_end(rest)
    if not name and "--version" in before_end:
        return console.answer({"version": __version__}, f"memsheaf {__version__}")
    if not name:
        name, rest = "help", [word for word in rest if word != "-h"]
    elif "--help" in before_end or "-h" in before_end:
        command = load(name)
        action = [word for word in (split_first(rest)[0],) if word in command.actions]
        try:
            parse(command, rest)
        except UnquotedText:
            raise
        except Usage:  # a line that is wrong or unfinished gets the help that it asks for
            pass
        name, rest = "help", [name, *action, *["--json"] * console.json]
    command = load(name)
    siblings, is_alone = command.actions, not rest
    if siblings:
        action_name, rest = split_action(name, command, rest)
        command = siblings[action_name]
    from memsheaf.cli.call import Call

    call = Call(parse(command, rest, siblings), console, environment)
    assert command.run
    try:
        return command.run(call)
    finally:
        call.tell_news()
        if siblings and is_alone and console.stdout.isatty():
            console.note(f"actions: {', '.join(siblings)}; `memsheaf help {name}` has examples", style="dim")


def _fail(console: Console, kind: str, message: str, hint: str, notes: Sequence[str] = ()) -> int:
    """Report what went wrong: on stderr for people, and on stdout as JSON for a program that asked for it."""
    message, notes = without_secrets(message), [without_secrets(note) for note in notes]
    if console.json:
        error: dict[str, object] = {"kind": kind, "message": message, "hint": hint}
        console.answer({"error": error | ({"notes": notes} if notes else {})})
    console.note(f"memsheaf: {message}", style="red")
    for line in (*notes, hint):
        if line:
            console.note(line)
    return WRONG_USAGE if kind == "Usage" else FAILED


def _usage_hint(words: list[str]) -> str:
    from memsheaf.cli.reference import usage

    name, rest = split_first(words)
    try:
        command = load(name)
    except Usage:
        return "`memsheaf help` lists the commands."
    if command.actions:
        with suppress(Usage):  # then the group's own is shown
            action, _ = split_action(name, command, rest)
            name, command = f"{name} {action}", command.actions[action]
    return f"{usage(name, command)}\n`memsheaf help {name}` says more and has examples."


def _before_end(words: list[str]) -> list[str]:
    """The words that may be options: those before `--`."""
    return words[: words.index("--") if "--" in words else None]


def _open_null() -> TextIO:
    """What takes the place of a stream that the parent process has closed."""
    return open(os.devnull, "w", encoding="utf-8")
