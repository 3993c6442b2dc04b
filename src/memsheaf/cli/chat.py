"""Commands for the chat: an agent in the terminal, and the conversations that were kept."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from memsheaf.cli.call import Call, Result, local_minute, plural
from memsheaf.cli.output import Table
from memsheaf.cli.parser import AnyText, Usage, Words
from memsheaf.errors import Refused
from memsheaf.text.neutralize import one_line

if TYPE_CHECKING:
    from memsheaf.chat.conversations import Conversations
    from memsheaf.learn.conversation_file import ConversationLine

MAX_SHOWN_CHARS = 100  # of a tool's answer, and of what it was called with
MAX_LISTED = 50
Allowed = Annotated[Sequence[str], ("read", "write", "shell", "outside")]


def chat(
    call: Call,
    message: Words = (),
    *,
    print: Words = (),
    model: str = "",
    url: str = "",
    resume: AnyText = None,
    allow: Allowed = (),
    list: AnyText = None,
    remove: str = "",
) -> Result | int:
    """Talk with an agent that remembers; it reads and edits files, and runs commands.

    It asks before it writes a file or runs a command. With no model it still keeps, finds and forgets memories in
    plain language. Without -s it remembers for the project and the user; /help in the chat lists its commands.
    When standard input is no terminal, each line of it is a message. With --print or without a terminal nobody is
    asked: what --allow does not name is refused. --json prints one event a line, an error too. The exit code is 1
    when an answer failed. It takes pip install 'memsheaf[chat]'.

    What is said is kept, for you alone, outside of the memories: secrets are taken out, and so is a turn that you
    want off the record. It stays until --remove; `memsheaf erase` takes out of it what says the same as the erased
    memory. The beginning of an ID is enough, and `last` is the newest.

    arguments:
      MESSAGE: the first message; more can follow, unlike with --print
      -p, --print TEXT: answer this on standard output, and end; - is standard input; may be repeated
      --model NAME: who answers: provider:name; offline for nobody; else the one in the settings
      --url URL: where the model answers, if not at its provider's own address
      --resume [ID]: go on with a conversation, the newest if none is named
      --allow WHAT: allow this without asking; outside: beyond this folder, too; may be repeated
      --list [ID]: list the conversations that were kept, or print one
      --remove ID: remove a conversation for good

    examples:
      memsheaf chat
      memsheaf chat "What did we decide about the auth service?"
      memsheaf chat --model openai-compatible:qwen3 --url http://127.0.0.1:8080/v1
      memsheaf chat --resume
      memsheaf chat -p "What do you know about the auth service?"
      git diff | memsheaf chat -p "Review this:" -p - --json
      memsheaf chat -p "Run the tests and fix what fails" --allow shell --allow write
      memsheaf chat --list
    """
    if list is not None:
        return _show_conversation(_conversations(call), list) if list else _list_conversations(call)
    if remove:
        return _remove_conversation(call, remove)
    if url and not model:
        raise Usage("--url goes with --model")
    if print and message:
        raise Usage("give a message alone to begin a conversation, or with --print to have one answer")
    try:
        from memsheaf.cli.talk import run_chat
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("memsheaf"):
            raise
        missing = Refused(f"the chat needs the package {error.name.partition('.')[0]}, which is not installed")
        missing.hint = "Install it: pip install 'memsheaf[chat]'"
        raise missing from None
    return run_chat(call, message, print, model=model, url=url, resume=resume, allow=allow)


def _list_conversations(call: Call) -> Result:
    found = _conversations(call).list(limit=MAX_LISTED)
    rows = [(one.id, local_minute(one.last), f"{one.turns:,}", one.title) for one in found]
    nothing = f"no conversation of the scope {call.scope()} was kept"
    table = Table(rows, ("bold", "dim"), ("ID", "LAST", "TURNS", "TITLE"))
    return Result({"conversations": found}, table if rows else nothing)


def _show_conversation(kept: "Conversations", id: str) -> Result:
    from memsheaf.learn.conversation_file import message_record

    conversation = kept.open(id, reading=True)
    one, lines = conversation.summarize(), [*conversation.lines()]
    messages = [{**message_record(line.said), "at": line.at} for line in lines if line.said]
    return Result({**one._asdict(), "messages": messages}, [part for line in lines for part in _message_lines(line)])


def _remove_conversation(call: Call, id: str) -> Result:
    kept = _conversations(call)
    one = kept.open(id, reading=True).summarize()
    question = f"Remove {one.id} ({plural(one.turns, 'turn')}: {one.title}) for good?"
    call.confirm(question, without="nothing brings it back", left="Nothing was removed.")
    kept.remove(one.id)
    return Result({"removed": 1}, f"Removed {one.id}")


def _conversations(call: Call) -> "Conversations":
    from memsheaf.chat.conversations import Conversations

    return Conversations(call.state())


def _message_lines(line: "ConversationLine") -> Iterator[str]:
    """Yield a line of a conversation as people read it: who said what, and a line for each call of a tool."""
    if line.compacted is not None:
        yield "(the conversation was compacted here)"
    said = line.said
    if said is None:
        return
    if said.role == "tool":
        yield f"  {said.tool or 'tool'} answered: {one_line(said.text, MAX_SHOWN_CHARS)}"
        return
    if said.text.strip():
        yield ""
        yield f"{said.role}: {said.text.strip()}"
    for call in said.calls:
        yield f"  {call.tool} {one_line(call.arguments, MAX_SHOWN_CHARS)}"
