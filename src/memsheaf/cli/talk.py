"""Run a chat on the command line: with a person at the terminal, or for the messages on standard input."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from tempfile import TemporaryDirectory, TemporaryFile

from memsheaf.chat.agent import Agent
from memsheaf.chat.conversations import Conversations, InputHistory
from memsheaf.chat.permissions import Permission
from memsheaf.chat.terminal.repl import (
    LAST_WAIT,
    PermissionPrompt,
    PlainReader,
    Reader,
    Repl,
    TurnOutcome,
    read_keys,
    render_greeting,
    take_turn,
)
from memsheaf.chat.terminal.screen import JsonScreen, OutputClosed, Screen
from memsheaf.chat.terminal.slash import Commands
from memsheaf.chat.turn import Failed
from memsheaf.cli import main
from memsheaf.cli.call import Call, has_windows, here
from memsheaf.cli.chat_agent import open_agent
from memsheaf.cli.commands import COMMANDS, GROUPS
from memsheaf.cli.output import Console, Undelivered
from memsheaf.cli.pages import following_words
from memsheaf.cli.parser import Usage
from memsheaf.errors import MemsheafError, Refused, TextRefused
from memsheaf.guard.secrets import without_secrets
from memsheaf.web.links import open_link

_MESSAGE = 1 << 20  # bytes of one message
COST_DAYS = "30"
_OF_THE_PROJECT = ("notes", "task", "promote")
"""Commands that work on the project, whatever the chat is about."""


def run_chat(
    call: Call,
    words: Sequence[str],
    printed: Sequence[str],
    *,
    model: str,
    url: str,
    resume: str | None,
    allow: Sequence[str],
) -> int:
    """Talk with the person at the terminal, or answer what --print or standard input says; return the exit code."""
    console = call.console
    message = _message(call, printed) if printed else None
    is_terminal = console.stdin is not None and console.stdin.isatty() and console.stdout.isatty()
    try:
        agent = open_agent(
            call.settings(),
            cwd=here(),
            scopes=call.scopes(),
            model=model,
            url=url,
            resume=resume,
            permission=Permission(allow=allow),
            environment=call.environment,
        )
        try:
            with WebProcess(call) as web:
                if message is None and not console.json and is_terminal:
                    return _talk(call, agent, web, " ".join(words), shows_last=resume is not None)
                return _answer(call, agent, message, " ".join(words), web)
        finally:
            agent.close(wait=0.0)  # whoever wants to wait has done so
    except OutputClosed as error:
        raise Undelivered(str(error)) from None
    except MemsheafError as error:
        if not console.json:
            raise
        JsonScreen(console.stdout).draw(Failed(without_secrets(str(error)), error.hint))
        return 1


def _talk(call: Call, agent: Agent, web: WebProcess, first: str, *, shows_last: bool) -> int:
    """A chat with a person."""
    screen, stdin = _screen(call.console, live=True), call.console.stdin
    assert stdin is not None
    agent.permission.ask = PermissionPrompt(screen, lambda: read_keys(stdin))
    commands = _commands(call, agent, screen, web, [])
    repl = Repl(agent, screen, stdin, commands)
    counts = [(scope.name, len(scope.list())) for scope in agent.memory.layers.open_scopes()]
    for line in render_greeting(agent, counts):
        screen.note(line)
    if shows_last:
        commands.show_last()
    history = InputHistory(agent.memory.layers.own.state)
    repl.run(_reader(history, repl, call.environment), history, first=first)
    return 0


def _reader(history: InputHistory, repl: Repl, environment: Mapping[str, str]) -> Reader:
    """The best line editor there is here."""
    if environment.get("TERM", "dumb") != "dumb":
        with suppress(ImportError):
            from memsheaf.chat.terminal.full_reader import FullReader

            return FullReader(history, repl)
    return PlainReader(history, repl)


def _answer(call: Call, agent: Agent, message: str | None, first: str, web: WebProcess) -> int:
    """Result one message, or all on standard input, without questions to a person."""
    console = call.console
    screen = JsonScreen(console.stdout) if console.json else _screen(console, live=False)
    codes: list[int] = []
    commands = _commands(call, agent, screen, web, codes)
    code = 0
    if message is not None:
        then = commands.do(message)
        if not then.message:
            return int(then.failed or any(codes))
        return _code(take_turn(agent, screen, then.message, ignore=then.ignore, wait=LAST_WAIT))
    for line in chain([first] if first else [], _lines(console)):
        then = commands.do(line)
        if then.leave:
            break
        code = max(code, int(then.failed or any(codes)))
        if then.message:
            code = max(code, _code(take_turn(agent, screen, then.message, ignore=then.ignore)))
    screen.memory(None, agent.learned(LAST_WAIT))
    return code


def _code(took: TurnOutcome) -> int:
    if took.stopped:
        raise KeyboardInterrupt
    return int(took.failed)


def _commands(call: Call, agent: Agent, screen: Screen | JsonScreen, web: WebProcess, codes: list[int]) -> Commands:
    """Return the slash commands; those that run a command of the line add its exit code to `codes`."""

    def run(words: Sequence[str]) -> int:
        codes.append(_run(call, agent, screen, words))
        return codes[-1]

    return Commands(
        agent,
        screen,
        run,
        files=lambda: [agent.memory.layers.label(row.ref) for row in agent.memory.layers.list()],
        conversations=lambda: [kept.id for kept in Conversations(agent.memory.layers.own.state).list()],
        complete=_complete,
        web=web.open,
    )


def _complete(words: Sequence[str]) -> list[str]:
    known = words[0] in COMMANDS or words[0] in GROUPS
    return [word for word in following_words(words[0]) if word.startswith(words[-1])] if known else []


class WebProcess:
    """`memsheaf web` beside a chat: started when it is first asked for, ended with the chat."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._process: subprocess.Popen[bytes] | None = None
        self._folders = ExitStack()

    def open(self) -> str:
        """Start the page unless it runs, open the browser where a person sits at it, and return a link to it."""
        if self._call.console.interactive and has_windows(self._call.environment):
            open_link(self._new_link(), self._folders.enter_context(TemporaryDirectory(prefix="memsheaf-")))
        return self._new_link()

    def _new_link(self) -> str:
        """Return a link that lets one browser in, once. Raises Refused when the page does not start."""
        said = ""
        if self._process is None or self._process.poll() is not None:
            line = [sys.executable, "-P", "-m", "memsheaf", "web", "--json"]
            with TemporaryFile() as complaints:
                self._process = subprocess.Popen(
                    line,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                    env=self._call.variables(),
                    start_new_session=True,  # Ctrl-C is for the chat
                )
                assert self._process.stdout
                told = self._process.stdout.readline()  # comes once it listens; nothing when it ended
                complaints.seek(0)
                said = complaints.read().decode("utf-8", "replace").strip()
        else:
            assert self._process.stdin
            assert self._process.stdout
            self._process.stdin.write(b"\n")  # asks for another
            self._process.stdin.flush()
            told = self._process.stdout.readline()
        if not told:
            raise Refused(said or "the page did not start")
        return str(json.loads(told)["url"])

    def __enter__(self) -> WebProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._folders.close()
        if self._process is not None:
            with self._process:
                self._process.terminate()


def _run(call: Call, agent: Agent, screen: Screen | JsonScreen, words: Sequence[str]) -> int:
    """Run another command in this process, on the memory that the chat is about."""
    console = call.console
    name, *rest = words
    line = [name, *_scope_words(call, agent, words), *rest]
    if name == "dream":
        line = ["consolidate", "--if-due", *(["--apply"] if "run" in rest else [])]
    elif name == "cost":
        line = ["doctor", "--cost", rest[-1] if rest else COST_DAYS]
    elif name == "conversations":
        line = ["chat", "--list", *_scope_words(call, agent, words)]
    if isinstance(screen, Screen):
        stdin, stdout, stderr = console.stdin, console.stdout, console.stderr
        return main(line, environment=call.environment, stdin=stdin, stdout=stdout, stderr=stderr)
    out, err = io.StringIO(), io.StringIO()
    code = main(["--json", *line], environment=call.environment, stdout=out, stderr=err)
    value = {"event": "ran", "command": name, "code": code, "answer": json.loads(out.getvalue() or "null")}
    console.say(json.dumps(value))
    console.flush()
    return code


def _scope_words(call: Call, agent: Agent, words: Sequence[str]) -> list[str]:
    """Return which memory a command is about, as words for its line, unless it says so itself."""
    chosen = []
    for name, value in (("home", call.home), ("project", call.project)):
        if value:
            chosen += [f"--{name}", value]
    is_named = not agent.memory.layers.given or "--scope" in words or "-s" in words
    return chosen if is_named or words[0] in _OF_THE_PROJECT else [*chosen, "--scope", agent.scope]


def _screen(console: Console, *, live: bool) -> Screen:
    environment = console.environment
    is_terminal, is_dumb = console.stdout.isatty(), environment.get("TERM", "dumb") == "dumb"
    return Screen(
        console.stdout,
        console.stderr,
        live=live,
        colour=live and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb",
        width=lambda: _size(console).columns,
        wrapped=is_terminal,
        markdown=is_terminal and not is_dumb,
    )


def _size(console: Console) -> os.terminal_size:
    """How large the terminal is now."""
    try:
        size = os.get_terminal_size(console.stdout.fileno())
    except (OSError, ValueError):
        size = os.terminal_size((0, 0))
    return os.terminal_size((size.columns or 80, size.lines or 24))


def _message(call: Call, printed: Sequence[str]) -> str:
    parts = [call.console.read_all(most=_MESSAGE) if part == "-" else part for part in printed]
    text = "\n\n".join(part.strip("\n") for part in parts if part.strip())
    if not text:
        raise Usage("--print is given no text")
    return text


def _lines(console: Console) -> Iterator[str]:
    """The messages on standard input, one a line."""
    stdin = console.stdin
    if stdin is None:
        return
    source = getattr(stdin, "buffer", None)
    while data := source.readline(_MESSAGE) if source else stdin.readline(_MESSAGE).encode():
        if len(data) >= _MESSAGE:
            raise TextRefused(f"a line on standard input is longer than {_MESSAGE >> 20} MiB")
        if line := data.decode("utf-8", "replace").strip():
            yield line
