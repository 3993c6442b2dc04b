"""The command that shows what waits to be learned from."""

from __future__ import annotations

import os

from memsheaf.cli.call import here, plural
from memsheaf.cli.command import Argument, Usage, place, takes
from memsheaf.errors import StoreFailed, TextRefused, hinted

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.cli.call import Call
    from memsheaf.learn.inbox import Inbox
    from memsheaf.recall.turns import Turn

LONGEST = 256 * 1024 * 1024


@takes(
    Argument(
        "--add",
        "put a transcript in: Claude Code's JSONL, messages in JSON, or plain text; - reads standard input",
        "FILE",
        convert=place,
        complete="paths",
    ),
    Argument("--clear", "drop what waits, unread"),
    Argument("--yes", "do not ask before dropping it"),
)
def inbox(call: Call) -> int:
    """Show the conversations that wait to be learned from.

    Turns come in when an agent hands them over, or with --add. Secrets are taken out before they are kept, and what
    was read before, in whichever conversation, is not taken in again. `memsheaf extract` learns from them, and then
    they are removed.

    examples:
      memsheaf inbox
      memsheaf inbox --add conversation.jsonl
      memsheaf inbox --clear --yes
    """
    options = call.options
    if options.add and options.clear:
        raise Usage("give --add or --clear, not both")
    if options.yes and not options.clear:
        raise Usage("--yes goes with --clear")
    found, root = _inbox(call)
    if options.add:
        return _add(call, found, root)
    if options.clear:
        return _clear(call, found)
    return _show(call, found)


def _inbox(call: Call) -> tuple[Inbox, str]:
    from memsheaf.learn.inbox import Inbox
    from memsheaf.scope import Scope, resolve
    from memsheaf.store.state import State

    settings = call.settings()
    root = resolve(Scope.parse(call.scope()), settings.places(here()))
    return Inbox(State.of(root, settings.state)), root


def _add(call: Call, inbox: Inbox, root: str) -> int:
    from memsheaf.learn.transcripts import read

    text, name = _transcript(call)
    transcript = read(text, conversation=name, folders=[root])
    if not transcript.turns:
        raise _refused(f"there is no message in {name!r}")
    with call.console.waiting("taking in"):
        added = inbox.extend(transcript)
    value = {"format": transcript.format, "turns": len(transcript.turns), "added": added}
    said = [f"Took in {added:,} of {plural(len(transcript.turns), 'turn')}"]
    if transcript.skipped:
        said.append(f"  left out {plural(transcript.skipped, 'line')} that cannot be understood")
    return call.console.answer({**value, "skipped": transcript.skipped}, said)


def _transcript(call: Call) -> tuple[str, str]:
    """The text that is to be taken in, and a name for the conversation in case it has none."""
    file = call.options.add
    if file == "-":
        return call.console.read_all(most=LONGEST), "standard input"
    try:
        with open(file, "rb") as source:
            data = source.read(LONGEST)
    except OSError as error:
        raise StoreFailed(f"{file!r} cannot be read: {error.strerror or error}") from None
    if len(data) >= LONGEST:
        raise _refused(f"{file!r} is longer than {LONGEST >> 20} MiB")
    if b"\0" in data[:4096]:
        raise _refused(f"{file!r} is not UTF-8 text")
    return data.decode("utf-8", "replace"), os.path.basename(file)


def _refused(why: str) -> TextRefused:
    hint = "Give a transcript: Claude Code's JSONL, messages in JSON, or plain text with User: and Assistant:."
    return hinted(TextRefused(f"{why}; nothing was taken in"), hint)


def _clear(call: Call, inbox: Inbox) -> int:
    waiting = inbox.left()
    if waiting and not call.options.yes:
        if not call.console.interactive:
            raise Usage("what waits would be lost; confirm it with --yes where nobody can be asked")
        if not call.console.confirm(f"Drop {plural(waiting, 'turn')} that nothing was learned from?"):
            call.console.note("Nothing was dropped.")
            return 1
    dropped = inbox.clear()
    return call.console.answer({"dropped": dropped}, [f"Dropped {plural(dropped, 'turn')}"])


def _show(call: Call, inbox: Inbox) -> int:
    turns = inbox.turns()
    conversations: dict[str, list[Turn]] = {}
    for turn in turns:
        conversations.setdefault(turn.conversation, []).append(turn)
    if call.console.json:
        listed = [_conversation_json(name, said) for name, said in conversations.items()]
        value = {"turns": len(turns), "conversations": listed, "learned": inbox.learned()}
        return call.console.answer(value)
    if not turns:
        call.console.say("nothing waits to be learned from")
        return 0
    call.console.table(
        [("CONVERSATION", "TURNS", "SINCE", "FIRST WORDS"), *map(_cells, conversations.values())],
        ("bold", "", "dim"),
    )
    call.console.say(f"{plural(len(turns), 'turn')} in {plural(len(conversations), 'conversation')}", style="dim")
    return 0


def _cells(turns: list[Turn]) -> tuple[str, ...]:
    name = turns[0].conversation or "(unnamed)"
    return (name if len(name) <= 40 else f"{name[:39]}…", f"{len(turns):,}", turns[0].at[:16], _first_words(turns))


def _first_words(turns: list[Turn]) -> str:
    from memsheaf.text.neutralize import one_line

    messages = [message for turn in turns for message in turn.messages]
    first = next((message for message in messages if message.role == "user"), messages[0])
    return one_line(first.text, 80)


def _conversation_json(name: str, turns: list[Turn]) -> dict[str, object]:
    size = sum(len(message.text.encode()) for turn in turns for message in turn.messages)
    return {
        "conversation": name,
        "turns": len(turns),
        "bytes": size,
        "since": turns[0].at,
        "first": _first_words(turns),
    }
