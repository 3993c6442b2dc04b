"""Run a chat on the command line: with a person at the terminal, or for the messages on standard input."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from itertools import chain

from memsheaf.chat.agent import Agent
from memsheaf.chat.conversations import InputHistory
from memsheaf.chat.events import Failed
from memsheaf.chat.permissions import Permission
from memsheaf.chat.repl import (
    MAX_LEARNING_SECONDS,
    PermissionPrompt,
    Repl,
    describe_greeting,
    take_turn,
    tell_learned,
)
from memsheaf.chat.screen import JsonScreen, Screen
from memsheaf.chat.slash import Commands
from memsheaf.cli import main
from memsheaf.cli.call import Call, here
from memsheaf.cli.chat_agent import open_agent
from memsheaf.cli.output import Console, Undelivered
from memsheaf.cli.parser import Usage
from memsheaf.errors import MemsheafError, TextRefused
from memsheaf.guard.secrets import without_secrets

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
            if message is None and not console.json and is_terminal:
                return _talk(call, agent, " ".join(words), shows_last=resume is not None)
            return _answer(call, agent, message, " ".join(words))
        finally:
            agent.close(wait=0.0)  # whoever wants to wait has done so
    except BrokenPipeError:
        raise Undelivered("") from None
    except MemsheafError as error:
        if not console.json:
            raise
        JsonScreen(console.stdout).draw(Failed(without_secrets(str(error)), error.hint))
        return 1


def _talk(call: Call, agent: Agent, first: str, *, shows_last: bool) -> int:
    """A chat with a person."""
    screen = Screen(call.console.stdout, call.console.stderr, is_live=True)
    agent.permission.ask = PermissionPrompt(screen)
    commands = _commands(call, agent, screen, [])
    counts = [(scope.name, len(scope.list())) for scope in agent.memory.layers.open_scopes()]
    for line in describe_greeting(agent, counts):
        screen.note(line)
    if shows_last:
        commands.show_last()
    history = InputHistory(agent.memory.layers.own.state)
    Repl(agent, screen, commands, history).run(first)
    return 0


def _answer(call: Call, agent: Agent, message: str | None, first: str) -> int:
    """Answer one message, or all on standard input, without questions to a person."""
    console = call.console
    screen = JsonScreen(console.stdout) if console.json else Screen(console.stdout, console.stderr)
    codes: list[int] = []
    commands = _commands(call, agent, screen, codes)
    lines = chain([first] if first else [], _lines(console)) if message is None else [message]
    for line in lines:
        then = commands.do(line)
        codes.append(int(then.failed))
        if then.leaves:
            break
        if then.message:
            wait = {} if message is None else {"wait": MAX_LEARNING_SECONDS}
            ended = take_turn(agent, screen, then.message, **wait)
            codes.append(int(ended is None))
            if ended and ended.interrupted:
                raise KeyboardInterrupt
    tell_learned(agent, screen, None, MAX_LEARNING_SECONDS)
    return max(codes, default=0)


def _commands(call: Call, agent: Agent, screen: Screen | JsonScreen, codes: list[int]) -> Commands:
    """Return the slash commands; those that run a command of the line add its exit code to `codes`."""

    def run(words: Sequence[str]) -> int:
        codes.append(_run(call, agent, screen, words))
        return codes[-1]

    layers = agent.memory.layers
    return Commands(agent, screen, run, files=lambda: [layers.label(row.ref) for row in layers.list()])


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
