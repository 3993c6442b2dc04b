"""Commands for the chat: an agent in the terminal, and the conversations that were kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memsheaf.cli.call import Call, local_minute, plural
from memsheaf.cli.command import Argument, Usage, group, takes
from memsheaf.cli.output import Note, Table
from memsheaf.errors import Refused, hinted
from memsheaf.text.neutralize import one_line

if TYPE_CHECKING:
    from memsheaf.chat.conversations import Conversations, ConversationSummary
    from memsheaf.learn.conversation_file import ConversationLine

SHOWN = 100  # characters of a tool's answer, and of what it was called with


@takes(
    Argument("message", "the first message; more can follow, unlike with --print", "MESSAGE", repeated=True),
    Argument("--model", "who answers: provider:name; offline for nobody; else the one in the settings", "NAME"),
    Argument("--url", "where the model answers, if not at its provider's own address", "URL"),
    Argument("--resume", "go on with a conversation: the newest, or the one whose id begins so", "ID", bare="last"),
    Argument("--plan", "plan mode: nothing is written, and no command is run"),
    Argument(
        "--print", "answer this on standard output, and end; - is standard input", "TEXT", repeated=True, short="-p"
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
    when an answer failed. It takes pip install 'memsheaf[chat]'.

    examples:
      memsheaf chat
      memsheaf chat "What did we decide about the auth service?"
      memsheaf chat --model anthropic:claude-sonnet-4-5
      memsheaf chat --model openai-compatible:qwen3 --url http://127.0.0.1:8080/v1
      memsheaf chat --resume
      memsheaf chat --agent reviewer --plan
      memsheaf chat -p "What do you know about the auth service?"
      git diff | memsheaf chat -p "Review this:" -p - --json
      memsheaf chat -p "Run the tests and fix what fails" --allow shell --allow write
    """
    try:
        from memsheaf.cli.talk import run_chat
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("memsheaf"):
            raise
        missing = Refused(f"the chat needs the package {error.name.partition('.')[0]}, which is not installed")
        raise hinted(missing, "Install it: pip install 'memsheaf[chat]'") from None
    return run_chat(call)


conversations = group(
    """List the conversations that were kept, show one or remove it.

    `memsheaf chat` keeps what is said in it, for you alone, outside of the memories: secrets are taken out, and so is
    a turn that you want off the record. `memsheaf chat --resume ID` goes on with one. They stay until they are
    removed; `memsheaf erase` takes out of them what says the same as the erased memory.

    examples:
      memsheaf conversations
      memsheaf conversations show last
      memsheaf conversations show 20261115-2241 --json
      memsheaf conversations remove 20261115-2241-3f9a --yes
      memsheaf conversations remove --older-than 90
    """,
    default="list",
)

_ID = Argument("id", "which one; the beginning of its id is enough, `last` is the newest", "ID", required=True)


@conversations.action(Argument("--limit", "how many at most (50)", "N"))
def list_conversations(call: Call) -> int:
    """List conversations, the newest first."""
    limit = call.options.limit or 50
    found = _conversations(call).list(limit=limit + 1)
    more = len(found) > limit
    found = found[:limit]
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
    messages = [{**message_record(line.said), "at": line.at} for line in lines if line.said]
    return call.answer({**one._asdict(), "messages": messages}, map(_message_lines, lines))


@conversations.action(
    _ID._replace(required=False),
    Argument("--older-than", "those that nobody went on with for so many days", "DAYS"),
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
    return one.id, local_minute(one.last), f"{one.turns:,}", one.title
