"""Commands that look at what is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from memsheaf.cli.call import Call, pick, plural
from memsheaf.cli.command import FILE, LAYERS, SESSION, TASK, Argument, Usage, filled, positive, takes

# Known to type checkers under this name, so that a command imports only what it uses.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from memsheaf.index.table import Row
    from memsheaf.memory import Memory
    from memsheaf.sheaf import Sheaf

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
    """List every memory of a scope, in the order of the files.

    A file that cannot be used is listed with its problem.

    examples:
      memsheaf list
      memsheaf list --scope user --type feedback
      memsheaf list --json
    """
    with call.reading() as sheaf:
        rows = sheaf.list(kind=call.options.type or "", unconfirmed=call.options.unconfirmed)
        notices = [*filter(None, [call.unused_folder()]), *sheaf.notices()]
    if call.options.paths and not call.console.json:
        return call.console.answer(None, [row.path for row in rows])
    for said in notices if not call.console.json else ():
        call.console.note(said, style="yellow")
    return _print_rows(call, sheaf, rows, f"no memories in the scope {sheaf.scope}" + _narrowed(call), notices)


@takes(FILE, Argument("--raw", "print the file's exact bytes"))
def show(call: Call) -> int:
    """Show one memory as it is on disk.

    Characters that would drive the terminal or hide are spelt out, as <U+001B>. With --raw, and unless the
    output is a terminal, the bytes are those of the file.

    examples:
      memsheaf show user_prefers-tabs.md
      memsheaf show user_prefers-tabs.md --raw > copy.md
    """
    with call.reading() as sheaf:
        memory = sheaf.read(call.options.file)
        caveats = sheaf.caveats(memory)
    if call.console.json:
        return call.console.answer(_memory_json(memory))
    if call.options.raw:
        call.console.exact(memory.data)
        return 0
    for problem in filter(None, (memory.problem, *memory.warnings, *caveats)):
        call.console.note(f"{memory.path}: {problem}", style="yellow")
    return call.console.answer(None, [memory.text.removesuffix("\n")])


@takes(
    Argument("query", "words to look for; a memory needs to hold one of them", "WORD", required=True, repeated=True),
    Argument("--limit", "how many at most (10); with --layers, of each layer", "N", default=10, convert=positive),
    LAYERS,
    TASK,
    SESSION,
)
def search(call: Call) -> int:
    """Find memories by words in their name, description or text, best first.

    With --layers each line says which layer it came from.

    examples:
      memsheaf search release day
      memsheaf search --scope user indentation --limit 3
      memsheaf search --layers "test command"
    """
    query = " ".join(call.options.query)
    if call.options.layers:
        return _look_up(call, query)
    if call.options.task or call.options.session:
        raise Usage("--task and --session go with --layers")
    with call.reading() as sheaf:
        rows = sheaf.search(query, limit=call.options.limit)
    return _print_rows(call, sheaf, rows, f"nothing found for {query!r} in the scope {sheaf.scope}")


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
    with call.reading() as sheaf:
        page = sheaf.page(number or 1, kind=kind) if number or kind else sheaf.catalog()
    value = {"scope": str(sheaf.scope), **pick(page, ("shown", "total", "text"))}
    return call.console.answer(value, [page.text.removesuffix("\n")])


@takes(
    Argument("--no-tools", "leave out how to use the memory tools, for an agent that has none"),
    Argument("--read-only", "with the tools that read alone, for a sub-agent that may only look"),
)
def prompt(call: Call) -> int:
    """Print the section for an agent's system prompt.

    It is the same text as long as no memory changed. --scope and --agent may be given several times.

    examples:
      memsheaf prompt
      memsheaf prompt --scope user --scope project
      memsheaf prompt --agent researcher --no-tools
    """
    settings = call.settings()
    if call.options.no_tools:
        settings = settings._replace(tools=False)
    texts = []
    for scope in call.scopes():
        with call.reading(scope, settings, read_only=call.options.read_only) as sheaf:
            texts.append((str(sheaf.scope), sheaf.prompt()))
    if call.console.json:
        return call.console.answer({"prompts": [{"scope": scope, "text": text} for scope, text in texts]})
    call.console.exact("\n".join(text for _, text in texts).encode())
    return 0


def _print_rows(call: Call, sheaf: Sheaf, rows: Sequence[Row], nothing: str, notices: Sequence[str] = ()) -> int:
    if call.console.json:
        memories = [{**pick(row, _ROW), "type": row.kind} for row in rows]
        more = {"notices": list(notices)} if notices else {}
        return call.console.answer({"scope": str(sheaf.scope), "memories": memories, **more})
    if not rows:
        call.console.note(nothing)
        return 0
    call.console.table(_cells(rows), ("bold", "cyan", "dim"))
    if call.console.stdout.isatty():
        call.console.note(plural(len(rows), "memory", "memories"), style="dim")
    return 0


def _look_up(call: Call, query: str) -> int:
    with call.layers(task=call.options.task, session=call.options.session) as layers:
        for said in layers.unclear():
            call.console.note(said)
        found = layers.look_up(query, limit=call.options.limit)
        asked = layers.scopes()
    if call.console.json:
        rows = [
            {"layer": one.layer, "scope": one.scope, **pick(one.row, _ROW), "type": one.row.kind} for one in found
        ]
        return call.console.answer({"scopes": asked, "memories": rows})
    if not found:
        call.console.note(f"nothing found for {query!r} in {', '.join(asked)}")
    cells = zip([one.scope for one in found], _cells(one.row for one in found), strict=True)
    call.console.table([(scope, *row) for scope, row in cells], ("dim", "bold", "cyan", "dim"))
    return 0


def _cells(rows: Iterable[Row]) -> Iterator[tuple[str, str, str, str]]:
    for row in rows:
        marks = ["pinned"] * row.pinned + [row.trust] * (row.trust != "confirmed")
        said = f"problem: {row.problem}" if row.problem else row.description
        yield row.path, row.kind or "-", row.updated, (f"({', '.join(marks)}) " if marks else "") + said


def _narrowed(call: Call) -> str:
    kind = f" of type {call.options.type!r}" if call.options.type else ""
    return f"{kind} that are unconfirmed" if call.options.unconfirmed else kind


def _memory_json(memory: Memory) -> dict[str, object]:
    return {**pick(memory, _MEMORY), "type": memory.kind}
