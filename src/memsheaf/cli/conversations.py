"""The command for conversations that were kept."""

from __future__ import annotations

from collections.abc import Iterator

from memsheaf.cli.call import here, plural
from memsheaf.cli.command import Argument, Usage, filled, positive, takes

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.chat.conversations import Conversations, Kept
    from memsheaf.cli.call import Call
    from memsheaf.learn.conversation_file import ConversationLine

ACTIONS = ("show", "export", "remove", "older_than")
SHOWN = 100  # characters of a tool's answer, and of what it was called with


@takes(
    Argument("words", "only those with a message that has all these words", "WORDS", repeated=True, convert=filled),
    Argument(
        "--show", "print one as text; the beginning of its id is enough, `last` is the newest", "ID", convert=filled
    ),
    Argument("--export", "print one as JSONL, a message a line", "ID", convert=filled),
    Argument("--remove", "remove one for good", "ID", convert=filled),
    Argument("--older-than", "remove those that nobody went on with for so many days", "DAYS", convert=positive),
    Argument("--yes", "do not ask before removing"),
    Argument("--limit", "how many at most (50, or 20 with WORDS)", "N", convert=positive),
)
def conversations(call: Call) -> int:
    """List the conversations that were kept, find one again, show or remove it.

    `memsheaf chat` keeps what is said in it, for you alone, outside of the memories: secrets are taken out, and so is
    a turn that you want off the record. `memsheaf chat --resume ID` goes on with one. They stay until they are
    removed; `memsheaf erase` takes out of them what says the same as the erased memory.

    examples:
      memsheaf conversations
      memsheaf conversations deploy staging
      memsheaf conversations --show last
      memsheaf conversations --export 20261115-2241 > conversation.jsonl
      memsheaf conversations --remove 20261115-2241-3f9a --yes
      memsheaf conversations --older-than 90
    """
    options = call.options
    chosen = [name for name in ACTIONS if getattr(options, name) is not None]
    if len(chosen) > 1 or (chosen and (options.words or options.limit)):
        shown = ", ".join(f"--{name.replace('_', '-')}" for name in ACTIONS)
        raise Usage(f"give words to look for, or one of {shown}, not both")
    if options.yes and chosen not in (["remove"], ["older_than"]):
        raise Usage("--yes goes with --remove and --older-than")
    kept = _kept(call)
    if options.show is not None:
        return _show(call, kept)
    if options.export is not None:
        return _export(call, kept)
    if chosen:
        return _remove(call, kept)
    return _search(call, kept) if options.words else _list(call, kept)


def _kept(call: Call) -> Conversations:
    from memsheaf.chat.conversations import Conversations
    from memsheaf.scope import Scope, resolve
    from memsheaf.store.state import State

    settings = call.settings()
    root = resolve(Scope.parse(call.scope()), settings.places(here()))
    return Conversations(State.of(root, settings.state))


def _list(call: Call, kept: Conversations) -> int:
    limit = call.options.limit or 50
    found = kept.list(limit=limit + 1)
    more, found = len(found) > limit, found[:limit]
    if call.console.json:
        return call.console.answer({"conversations": [one._asdict() for one in found], "more": more})
    if not found:
        call.console.say(f"no conversation of the scope {call.scope()} was kept")
        return 0
    call.console.table([("ID", "LAST", "TURNS", "TITLE"), *map(_cells, found)], ("bold", "dim"))
    if more:
        call.console.note("There are more: --limit lists so many.", style="dim")
    return 0


def _search(call: Call, kept: Conversations) -> int:
    query = " ".join(call.options.words)
    found = kept.search(query, limit=call.options.limit or 20)
    if call.console.json:
        return call.console.answer({"conversations": [{**one._asdict(), "lines": lines} for one, lines in found]})
    if not found:
        call.console.say(f"no kept conversation of the scope {call.scope()} has {query!r}")
        return 0
    for one, lines in found:
        call.console.say("  ".join(_cells(one)), style="bold")
        for line in lines:
            call.console.say(f"  {line}")
    return 0


def _show(call: Call, kept: Conversations) -> int:
    from memsheaf.learn.conversation_file import record

    conversation = kept.open(call.options.show, reading=True)
    one = conversation.kept()
    if call.console.json:
        messages = [{**record(line.said), "at": line.at} for line in conversation.lines() if line.said]
        return call.console.answer({**one._asdict(), "messages": messages})
    about = [one.id, _when(one.began), plural(one.turns, "turn"), one.model, one.scope]
    call.console.say(" · ".join(part for part in about if part), style="dim")
    for line in conversation.lines():
        call.console.answer(None, _told(line))
    return 0


def _export(call: Call, kept: Conversations) -> int:
    from memsheaf.learn.conversation_file import encoded

    conversation = kept.open(call.options.export, reading=True)
    if call.console.json:
        import json

        lines = [json.loads(encoded(line)) for line in conversation.lines()]
        return call.console.answer({"id": conversation.id, "lines": lines})
    for line in conversation.lines():
        call.console.exact(encoded(line))
    return 0


def _remove(call: Call, kept: Conversations) -> int:
    days, id = call.options.older_than, call.options.remove
    found = kept.older(days) if days else [kept.open(id, reading=True).kept()]
    if found and not call.options.yes:
        if not call.console.interactive:
            raise Usage("nothing brings them back; confirm it with --yes where nobody can be asked")
        if not call.console.confirm(_question(found, days)):
            call.console.note("Nothing was removed.")
            return 1
    if days:
        count = kept.prune(days)
    else:
        count = len(found)
        kept.remove(found[0].id)
    return call.console.answer({"removed": count}, [f"Removed {plural(count, 'conversation')}"])


def _question(found: list[Kept], days: int | None) -> str:
    if days:
        return f"Remove {plural(len(found), 'conversation')} that nobody went on with for {plural(days, 'day')}?"
    return f"Remove {found[0].id} ({plural(found[0].turns, 'turn')}: {found[0].title}) for good?"


def _told(line: ConversationLine) -> Iterator[str]:
    """A line of a conversation as people read it: who said what, and a line for each call of a tool."""
    from memsheaf.text.neutralize import one_line

    if line.compacted is not None:
        yield "(the conversation was made shorter here)"
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


def _cells(one: Kept) -> tuple[str, ...]:
    return one.id, _when(one.last), f"{one.turns:,}", one.title


def _when(at: str) -> str:
    """A time as people read it, still in UTC."""
    return f"{at[:10]} {at[11:16]}Z"
