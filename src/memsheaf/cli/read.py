"""Commands that look at what is remembered."""

from __future__ import annotations

from collections.abc import Sequence

from memsheaf.cli.call import Call, pick, plural
from memsheaf.cli.command import FILE, SESSION, TASK, Argument, filled, positive, takes

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.index.database import Row
    from memsheaf.memory import Memory
    from memsheaf.work.layers import Layers

_ROW = ("path", "name", "description", "updated", "state", "trust", "pinned", "size", "version", "problem")
_MEMORY = (
    "path",
    "name",
    "description",
    "created",
    "updated",
    "expires",
    "source",
    "changed_by",
    "trust",
    "conversation",
    "reason",
    "citations",
    "supersedes",
    "pinned",
    "state",
    "problem",
    "warnings",
    "version",
    "body",
    "text",
)
TYPE = Argument(
    "--type",
    "only memories of this type: user, feedback, project, reference, or any other word",
    "TYPE",
    convert=filled,
)


@takes(
    TYPE,
    Argument("--unconfirmed", "only those that wait for a person to confirm them"),
    Argument("--paths", "print the file names alone"),
)
def list_(call: Call) -> int:
    """List every memory, scope by scope, in the order of the files.

    What is not the project's has its scope before its name, as in user:user_prefers-tabs.md; every command takes
    that name. --scope lists one scope alone. A file that cannot be used is listed with its problem.

    examples:
      memsheaf list
      memsheaf list --scope user --type feedback
      memsheaf list --json
    """
    with call.memory() as memory:
        rows = memory.list(kind=call.options.type or "", unconfirmed=call.options.unconfirmed)
        if call.options.paths and not call.console.json:
            return call.console.answer(None, [row.path for row in rows])
        notices = memory.notices()
        for said in notices if not call.console.json else ():
            call.console.note(said, style="yellow")
        nothing = "no memories in " + ", ".join(memory.scopes()) + _narrowed(call)
        return _print_rows(call, memory, rows, nothing, notices)


@takes(FILE, Argument("--raw", "print the file's exact bytes"))
def show(call: Call) -> int:
    """Show one memory as it is on disk.

    Characters that would drive the terminal or hide are spelt out, as <U+001B>. With --raw, and unless the
    output is a terminal, the bytes are those of the file.

    examples:
      memsheaf show user_prefers-tabs.md
      memsheaf show user_prefers-tabs.md --raw > copy.md
    """
    with call.memory() as layers:
        memory = layers.read(call.options.file)
        caveats = layers.caveats(memory)
    if call.console.json:
        return call.console.answer({"scope": _scope(memory.path, layers), **_memory_json(memory)})
    if call.options.raw:
        call.console.exact(memory.data)
        return 0
    for problem in filter(None, (memory.problem, *memory.warnings, *caveats)):
        call.console.note(f"{memory.path}: {problem}", style="yellow")
    return call.console.answer(None, [memory.text.removesuffix("\n")])


@takes(
    Argument("query", "words to look for; a memory needs to hold one of them", "WORD", required=True, repeated=True),
    Argument("--limit", "how many at most (10)", "N", default=10, convert=positive),
    TASK,
    SESSION,
)
def search(call: Call) -> int:
    """Find memories by words in their name, description or text.

    The best are shown, the nearest scope first: the task, the session, the project, the user. --scope looks in one
    scope alone.

    examples:
      memsheaf search release day
      memsheaf search --scope user indentation --limit 3
    """
    query = " ".join(call.options.query)
    with call.memory(task=call.options.task, session=call.options.session) as memory:
        for said in memory.unclear():
            call.console.note(said)
        rows = memory.search(query, limit=call.options.limit)
        return _print_rows(call, memory, rows, f"nothing found for {query!r} in " + ", ".join(memory.scopes()))


@takes(
    Argument("--page", "a page of the whole catalog, most important first", "N", convert=positive),
    Argument("--type", "only memories of this type; any word that is not a type means Other", "TYPE", convert=filled),
)
def catalog(call: Call) -> int:
    """Print the catalog that agents see: one line a memory, within its budget.

    The catalog holds what fits into a prompt. With --page it is shown whole, page by page.

    examples:
      memsheaf catalog
      memsheaf catalog --page 2 --type project
    """
    number, kind = call.options.page, call.options.type or ""
    with call.memory() as memory:
        page = memory.page(number or 1, kind=kind) if number or kind else memory.catalog()
        value = {"scopes": memory.scopes(), **pick(page, ("shown", "total", "text"))}
    return call.console.answer(value, [page.text.removesuffix("\n")])


@takes(
    Argument("--no-tools", "leave out how to use the memory tools, for an agent that has none"),
    Argument("--read-only", "with the tools that read alone, for a sub-agent that may only look"),
)
def prompt(call: Call) -> int:
    """Print the section for an agent's system prompt.

    It is the same text as long as no memory changed. It has the project and the user; --scope and --agent, which may
    be given several times, name others.

    examples:
      memsheaf prompt
      memsheaf prompt --scope user
      memsheaf prompt --agent researcher --no-tools
    """
    settings = call.settings()
    if call.options.no_tools:
        settings = settings._replace(tools=False)
    with call.memory(settings=settings, read_only=call.options.read_only) as memory:
        texts = memory.prompts()
    if call.console.json:
        return call.console.answer({"prompts": [{"scope": scope, "text": text} for scope, text in texts]})
    call.console.exact("\n".join(text for _, text in texts).encode())
    return 0


def _print_rows(call: Call, memory: Layers, rows: Sequence[Row], nothing: str, notices: Sequence[str] = ()) -> int:
    if call.console.json:
        memories = [{"scope": _scope(row.path, memory), **pick(row, _ROW), "type": row.kind} for row in rows]
        more = {"notices": list(notices)} if notices else {}
        return call.console.answer({"scopes": memory.scopes(), "memories": memories, **more})
    if not rows:
        call.console.note(nothing)
        return 0
    call.console.table(map(_cells, rows), ("bold", "cyan", "dim"))
    if call.console.stdout.isatty():
        call.console.note(plural(len(rows), "memory", "memories"), style="dim")
    return 0


def _scope(name: str, memory: Layers) -> str:
    return name.rpartition(":")[0] or memory.home


def _cells(row: Row) -> tuple[str, str, str, str]:
    marks = ["pinned"] * row.pinned + [row.trust] * (row.trust != "confirmed")
    said = f"problem: {row.problem}" if row.problem else row.description
    return row.path, row.kind or "-", row.updated, (f"({', '.join(marks)}) " if marks else "") + said


def _narrowed(call: Call) -> str:
    kind = f" of type {call.options.type!r}" if call.options.type else ""
    return f"{kind} that are unconfirmed" if call.options.unconfirmed else kind


def _memory_json(memory: Memory) -> dict[str, object]:
    return {**pick(memory, _MEMORY), "type": memory.kind}
