"""The command line: `memsheaf COMMAND`. A command is a function that returns its answer; `Console` prints it.

Deferred imports, to start quickly: each command and what it calls, so that `memsheaf list` loads nothing of `memsheaf
chat`; the help, and the sheaf, which a server need not load.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from memsheaf import __version__
from memsheaf.cli.commands import find_command, load
from memsheaf.cli.output import Console, Result, Undelivered
from memsheaf.cli.parser import Declined, UnquotedText, Usage, make_parser, parse, split_first
from memsheaf.errors import MemsheafError
from memsheaf.guard import without_secrets

WRONG_USAGE, INTERRUPTED = 2, 130


def main(
    argv: Sequence[str] | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    stdin: TextIO | None = None,
    stdout: TextIO | None = None,
    stderr: TextIO | None = None,
) -> int:
    """Run one command and return its exit code. The streams are the process's own unless others are given."""
    words = list(sys.argv[1:] if argv is None else argv)
    out, err = stdout or sys.stdout or _open_null(), stderr or sys.stderr or _open_null()
    console = Console(stdin or sys.stdin, out, err, environment)
    console.json = "--json" in _before_end(words)
    try:
        try:
            code = _run(words, console, environment)
        except Usage as error:
            code = _fail(console, "Usage", str(error), _usage_hint(words))
        except Declined as error:
            console.note(str(error))
            code = 1
        except MemsheafError as error:
            code = _fail(console, type(error).__name__, str(error), error.hint, getattr(error, "__notes__", ()))
        console.flush()
    except Undelivered as error:
        if str(error):
            console.note(f"memsheaf: {error}", style="red")
        with suppress(OSError, ValueError):  # so that the interpreter closes the stream without an error message
            os.dup2(os.open(os.devnull, os.O_WRONLY), console.stdout.fileno())
        code = 1
    except KeyboardInterrupt:
        console.note("memsheaf: interrupted")
        code = INTERRUPTED
    return code


def _run(words: list[str], console: Console, environment: Mapping[str, str]) -> int:
    first, rest = split_first(words)
    options = _before_end(rest)
    if not first and "--version" in options:
        return console.render(Result({"version": __version__}, f"memsheaf {__version__}"))
    if first == "hook":
        from memsheaf.hosts.hook import run

        return run(rest)
    if first in ("", "help") or {"-h", "--help"} & set(options):
        from memsheaf.cli.pages import explain

        if first != "help":
            _refuse_unquoted(words)
            rest = words
        return console.render(explain([word for word in rest if word not in ("-h", "--help")], console.width))
    name, rest = find_command(words)
    command = load(name)
    values = parse(command, rest)
    from memsheaf.cli.call import Call

    own = {argument.parameter for argument in command.arguments}
    call = Call(console, environment, **{key: values[key] for key in values if key not in (*own, "json", "help")})
    try:
        answer = command.run(call, **{key: values[key] for key in values if key in own})
        return answer if isinstance(answer, int) else console.render(answer)
    finally:
        call.tell_news()


def _refuse_unquoted(words: list[str]) -> None:
    """Raise UnquotedText for a text that asks for help in its middle; any other line gets the help."""
    try:
        name, rest = find_command(words)
        parse(load(name), rest)
    except UnquotedText:
        raise
    except Usage:
        pass


def _fail(console: Console, kind: str, message: str, hint: str, notes: Sequence[str] = ()) -> int:
    """Report what went wrong: on stderr for people, and on stdout as JSON for a program that asked for it."""
    message, notes = without_secrets(message), [without_secrets(note) for note in notes]
    if console.json:
        error: dict[str, object] = {"kind": kind, "message": message, "hint": hint}
        if notes:
            error["notes"] = notes
        console.render(Result({"error": error}))
    console.note(f"memsheaf: {message}", style="red")
    for line in (*notes, hint):
        if line:
            console.note(line)
    return WRONG_USAGE if kind == "Usage" else 1


def _usage_hint(words: list[str]) -> str:
    try:
        name, _ = find_command(words)
    except Usage:
        return "`memsheaf help --all` lists the commands."
    return f"{make_parser(load(name)).format_usage()}`memsheaf help {name}` says more and has examples."


def _before_end(words: list[str]) -> list[str]:
    """Return the words that may be options: those before `--`."""
    return words[: words.index("--") if "--" in words else None]


def _open_null() -> TextIO:
    """Open what takes the place of a stream that the parent process has closed."""
    return open(os.devnull, "w", encoding="utf-8")
