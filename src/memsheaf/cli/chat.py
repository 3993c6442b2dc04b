"""Commands for the chat: an agent in the terminal, and the conversations that were kept."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from memsheaf.cli.call import Call, here, plural
from memsheaf.cli.command import Argument, Usage, group, positive, takes, text
from memsheaf.cli.output import Note, Styled, Table
from memsheaf.errors import MemsheafError, TextRefused
from memsheaf.text.neutralize import one_line

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.chat.agent import Agent
    from memsheaf.chat.conversations import Conversations, ConversationSummary
    from memsheaf.chat.terminal.repl import TurnOutcome
    from memsheaf.chat.terminal.screen import JsonScreen, Screen
    from memsheaf.chat.terminal.slash import Commands
    from memsheaf.cli.output import Console
    from memsheaf.learn.conversation_file import ConversationLine

_MESSAGE = 1 << 20  # bytes of one message
SHOWN = 100  # characters of a tool's answer, and of what it was called with


@takes(
    Argument("--model", "who answers: provider:name; offline for nobody; else the one in the settings", "NAME"),
    Argument("--url", "where the model answers, if not at its provider's own address", "URL"),
    Argument("--resume", "go on with a conversation: the newest, or the one whose id begins so", "ID", bare="last"),
    Argument("--plan", "plan mode: nothing is written, and no command is run"),
    Argument(
        "--print",
        "answer this on standard output, and end; - is standard input",
        "TEXT",
        repeated=True,
        short="-p",
        convert=text,
    ),
    Argument(
        "--allow",
        "allow this without asking; outside: beyond this folder, too",
        "WHAT",
        repeated=True,
        choices=("read", "write", "shell", "outside"),
    ),
)
def chat(call: Call) -> int:
    """Talk with an agent that remembers; it reads and edits files, and runs commands.

    It asks before it writes a file or runs a command. With no model it still keeps, finds and forgets memories in
    plain language. Without --scope it remembers for the project and the user; /help in the chat lists its commands.
    When standard input is no terminal, each line of it is a message. With --print or without a terminal nobody is
    asked: what --allow does not name is refused. --json prints one event a line, an error too. The exit code is 1
    when an answer failed. Editing with completion and a status line takes pip install 'memsheaf[chat]'.

    examples:
      memsheaf chat
      memsheaf chat --model anthropic:claude-sonnet-4-5
      memsheaf chat --model openai-compatible:qwen3 --url http://127.0.0.1:8080/v1
      memsheaf chat --resume
      memsheaf chat --agent reviewer --plan
      memsheaf chat -p "What do you know about the auth service?"
      git diff | memsheaf chat -p "Review this:" -p - --json
      memsheaf chat -p "Run the tests and fix what fails" --allow shell --allow write
    """
    console, options = call.console, call.options
    if options.url and not options.model:
        raise Usage("--url goes with --model")
    message = _message(call) if options.print else None
    is_there = message is None and not console.json and _is_terminal(console)
    with _delivering():
        try:
            with _open_agent(call) as agent:
                return _talk(call, agent) if is_there else _answer(call, agent, message)
        except MemsheafError as error:
            if not console.json:
                raise
            return _failed(console, error)


@contextmanager
def _open_agent(call: Call) -> Iterator[Agent]:
    from memsheaf.chat.assembly import open_agent
    from memsheaf.chat.permissions import Permission

    options = call.options
    agent = open_agent(
        call.settings(),
        cwd=here(),
        scopes=call.scopes(),
        model=options.model or "",
        url=options.url or "",
        resume=options.resume,
        permission=Permission(allow=options.allow or (), planning=options.plan),
        environment=call.environment,
    )
    try:
        yield agent
    finally:
        agent.close(wait=0.0)  # whoever wants to wait has done so


def _talk(call: Call, agent: Agent) -> int:
    """A chat with a person."""
    from memsheaf.chat.conversations import InputHistory
    from memsheaf.chat.terminal.line_editor import open_reader
    from memsheaf.chat.terminal.repl import Repl, permission_prompt, render_greeting

    screen, stdin = _screen(call.console, live=True), call.console.stdin
    assert stdin is not None
    agent.permission.ask = permission_prompt(screen, stdin)
    repl = Repl(agent, screen, stdin)
    commands = _commands(call, agent, screen)
    for line in render_greeting(agent, _counts(agent)):
        screen.note(line)
    if call.options.resume:
        commands.show_last()
    repl.run(open_reader(InputHistory(agent.memory.home.state), repl, call.environment), commands)
    return 0


def _answer(call: Call, agent: Agent, message: str | None) -> int:
    """One message, or all that come on standard input; nobody is there to be asked."""
    from memsheaf.chat.terminal.repl import LAST_WAIT, take_turn
    from memsheaf.chat.terminal.screen import JsonScreen

    console = call.console
    screen = JsonScreen(console.stdout) if console.json else _screen(console, live=False)
    commands, code = _commands(call, agent, screen), 0
    if message is not None:
        then = commands.do(message)
        return (
            _code(take_turn(agent, screen, then.message, ignore=then.ignore, wait=LAST_WAIT)) if then.message else 0
        )
    for line in _lines(console):
        then = commands.do(line)
        if then.leave:
            break
        if then.message:
            code = max(code, _code(take_turn(agent, screen, then.message, ignore=then.ignore)))
    screen.memory(None, agent.learned(LAST_WAIT))
    return code


def _code(took: TurnOutcome) -> int:
    if took.stopped:
        raise KeyboardInterrupt
    return int(took.failed)


def _commands(call: Call, agent: Agent, screen: Screen | JsonScreen) -> Commands:
    from memsheaf.chat.terminal.slash import Commands

    def files() -> list[str]:
        return [row.path for row in agent.memory.layers.list()]

    def complete(words: Sequence[str]) -> list[str]:
        from memsheaf.cli.completion import candidates

        return [word for word in candidates(words, lambda what, options: ()) if not word.startswith(":")]

    def conversations() -> list[str]:
        from memsheaf.chat.conversations import Conversations

        return [kept.id for kept in Conversations(agent.memory.home.state).list()]

    return Commands(
        agent,
        screen,
        lambda words: _run(call, agent, words),
        files=files,
        conversations=conversations,
        complete=complete,
    )


def _run(call: Call, agent: Agent, words: Sequence[str]) -> int:
    """Run another command in this process, on the memory that the chat is about."""
    from memsheaf.cli import main

    console = call.console
    line = [words[0], *_scope_words(call, agent, words), *words[1:]]
    if not console.json:
        stdout, stderr = console.stdout, console.stderr
        return main(line, environment=call.environment, stdin=console.stdin, stdout=stdout, stderr=stderr)
    out, err = io.StringIO(), io.StringIO()
    code = main([line[0], "--json", *line[1:]], environment=call.environment, stdout=out, stderr=err)
    value = {"event": "ran", "command": words[0], "code": code, "answer": json.loads(out.getvalue() or "null")}
    console.say(json.dumps(value))
    console.flush()
    return code


def _scope_words(call: Call, agent: Agent, words: Sequence[str]) -> list[str]:
    """Which memory a command is about, as words for its line, unless it says so itself."""
    from memsheaf.cli.registry import load

    chosen = [
        word
        for name in ("home", "project")
        if (value := getattr(call.options, name))
        for word in (f"--{name}", value)
    ]
    try:
        is_scoped = load(words[0]).scoped
    except Usage:  # `main` says so
        is_scoped = False
    named = not agent.memory.layers.given or "--scope" in words or "--agent" in words
    return chosen if named or not is_scoped else [*chosen, "--scope", agent.scope]


def _screen(console: Console, *, live: bool) -> Screen:
    from memsheaf.chat.terminal.screen import Screen

    environment = console.environment
    plain = environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
    return Screen(console.stdout, console.stderr, live=live, colour=live and not plain, width=lambda: _width(console))


def _is_terminal(console: Console) -> bool:
    return console.stdin is not None and console.stdin.isatty() and console.stdout.isatty()


def _width(console: Console) -> int:
    """How wide the terminal is now."""
    try:
        return os.get_terminal_size(console.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _message(call: Call) -> str:
    parts = [call.console.read_all(most=_MESSAGE) if part == "-" else part for part in call.options.print]
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


def _counts(agent: Agent) -> list[tuple[str, int]]:
    return [(str(sheaf.scope), sheaf.part(limit=1)[1]) for sheaf in agent.memory.sheaves]


def _failed(console: Console, error: MemsheafError) -> int:
    from memsheaf.chat.events import Failed
    from memsheaf.chat.terminal.screen import JsonScreen
    from memsheaf.guard.secrets import without_secrets

    JsonScreen(console.stdout).draw(Failed(without_secrets(str(error)), error.hint))
    return 1


@contextmanager
def _delivering() -> Iterator[None]:
    """Tell output that nobody takes from all else that may fail."""
    from memsheaf.chat.terminal.screen import OutputClosed
    from memsheaf.cli.output import Undelivered

    try:
        yield
    except OutputClosed as error:
        raise Undelivered(str(error)) from None


conversations = group(
    """List the conversations that were kept, find one again, show or remove it.

    `memsheaf chat` keeps what is said in it, for you alone, outside of the memories: secrets are taken out, and so is
    a turn that you want off the record. `memsheaf chat --resume ID` goes on with one. They stay until they are
    removed; `memsheaf erase` takes out of them what says the same as the erased memory.

    examples:
      memsheaf conversations
      memsheaf conversations deploy staging
      memsheaf conversations show last
      memsheaf conversations export 20261115-2241 > conversation.jsonl
      memsheaf conversations remove 20261115-2241-3f9a --yes
      memsheaf conversations remove --older-than 90
    """,
    default="list",
    rewritten={"--show": "show", "--export": "export", "--remove": "remove", "--older-than": "remove --older-than"},
)

_ID = Argument("id", "which one; the beginning of its id is enough, `last` is the newest", "ID", required=True)


@conversations.action(
    Argument("words", "only those with a message that has all these words", "WORDS", repeated=True),
    Argument("--limit", "how many at most (50, or 20 with WORDS)", "N", convert=positive),
)
def list_conversations(call: Call) -> int:
    """List conversations, the newest first, or those that have some words."""
    kept, limit = _conversations(call), call.options.limit
    if call.options.words:
        query = " ".join(call.options.words)
        hits = kept.search(query, limit=limit or 20)
        return call.answer(
            {"conversations": [{**one._asdict(), "lines": lines} for one, lines in hits]},
            ((Styled("  ".join(_row(one)), "bold"), [f"  {line}" for line in lines]) for one, lines in hits),
            None if hits else f"no kept conversation of the scope {call.scope()} has {query!r}",
        )
    found = kept.list(limit=(limit or 50) + 1)
    more, found = len(found) > (limit or 50), found[: limit or 50]
    return call.answer(
        {"conversations": found, "more": more},
        Table(map(_row, found), ("bold", "dim"), ("ID", "LAST", "TURNS", "TITLE")),
        None if found else f"no conversation of the scope {call.scope()} was kept",
        Note("There are more: --limit lists so many.") if more else None,
    )


@conversations.action(_ID)
def show_conversation(call: Call) -> int:
    """Print one as text."""
    from memsheaf.learn.conversation_file import message_record

    conversation = _conversations(call).open(call.options.id, reading=True)
    one, lines = conversation.summarize(), list(conversation.lines())
    about = [one.id, _when(one.began), plural(one.turns, "turn"), one.model, one.scope]
    messages = [{**message_record(line.said), "at": line.at} for line in lines if line.said]
    return call.answer(
        {**one._asdict(), "messages": messages},
        Styled(" · ".join(part for part in about if part), "dim"),
        map(_message_lines, lines),
    )


@conversations.action(_ID)
def export_conversation(call: Call) -> int:
    """Print one as JSONL, a message a line."""
    from memsheaf.learn.conversation_file import encode_line

    conversation = _conversations(call).open(call.options.id, reading=True)
    lines = [encode_line(line) for line in conversation.lines()]
    return call.answer(lambda: {"id": conversation.id, "lines": map(json.loads, lines)}, lines)


@conversations.action(
    _ID._replace(required=False),
    Argument("--older-than", "those that nobody went on with for so many days", "DAYS", convert=positive),
    Argument("--yes", "do not ask before removing"),
)
def remove_conversations(call: Call) -> int:
    """Remove one for good, or all that are old."""
    kept, days, id = _conversations(call), call.options.older_than, call.options.id
    if bool(days) == bool(id):
        raise Usage("give an ID or --older-than DAYS")
    found = kept.older(days) if days else [kept.open(id, reading=True).summarize()]
    question = f"Remove {plural(len(found), 'conversation')} that nobody went on with for {plural(days or 0, 'day')}?"
    if not days:
        question = f"Remove {found[0].id} ({plural(found[0].turns, 'turn')}: {found[0].title}) for good?"
    if found and not call.confirm(question, without="nothing brings them back", left="Nothing was removed."):
        return 1
    if days:
        count = kept.prune(days)
    else:
        count = len(found)
        kept.remove(found[0].id)
    return call.answer({"removed": count}, f"Removed {plural(count, 'conversation')}")


def _conversations(call: Call) -> Conversations:
    from memsheaf.chat.conversations import Conversations

    return Conversations(call.state())


def _message_lines(line: ConversationLine) -> Iterator[str]:
    """A line of a conversation as people read it: who said what, and a line for each call of a tool."""
    if line.compacted is not None:
        yield "(the conversation was compacted here)"
    said = line.said
    if said is None:
        return
    if said.role == "tool":
        yield f"  {said.tool or 'tool'} answered: {one_line(said.text, SHOWN)}"
        return
    if said.text.strip():
        yield ""
        yield f"{said.role}: {said.text.strip()}"
    for call in said.calls:
        yield f"  {call.tool} {one_line(call.arguments, SHOWN)}"


def _row(one: ConversationSummary) -> tuple[str, ...]:
    return one.id, _when(one.last), f"{one.turns:,}", one.title


def _when(at: str) -> str:
    """A time as people read it, still in UTC."""
    return f"{at[:10]} {at[11:16]}Z"
