"""Commands that read: list, show, search, catalog, prompt, and what a message recalls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from memsheaf.cli.call import EMBEDDING, Call, here, pick, plural
from memsheaf.cli.command import FILE, Argument, takes
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.errors import NotFound, Ref
from memsheaf.index.browse import Filter
from memsheaf.memory import KINDS
from memsheaf.open_scope import list_page, prompt_sections
from memsheaf.scope import around
from memsheaf.sheaf import Sheaf, find_memory, list_notices
from memsheaf.text.neutralize import one_line

if TYPE_CHECKING:
    from memsheaf.index.database import Embedding, Row
    from memsheaf.recall.recall import Candidate, Recall

NONE: Mapping[Ref, str] = MappingProxyType({})
_NUMBERS = ("score", "likely", "common", "near")
CANDIDATES = 12  # that `why` lists for people
_ROW = (
    "scope",
    "name",
    "description",
    "updated",
    "state",
    "trust",
    "pinned",
    "size",
    "version",
    "problem",
    "warning",
)
_MEMORY = (
    "scope", "name", "description", "created", "updated", "expires", "source", "changed_by", "trust",
    "conversation", "reason", "citations", "supersedes", "pinned", "state", "problem", "version",
    "body", "text",
)  # fmt: skip
_MESSAGE = Argument("message", "what the user says; - reads standard input", "TEXT", required=True, repeated=True)


@takes(
    Argument("--type", "only memories of this type: user, feedback, project, reference, or any other word", "TYPE"),
    Argument("--unconfirmed", "only those that wait for a person to confirm them"),
    Argument("--paths", "print the file names alone"),
)
def list_(call: Call) -> int:
    """List every memory, newest first.

    On a terminal each fact stands above the name of its file, elsewhere each memory has one line. What is not the
    project's has its scope before its name, as in user:user_prefers-tabs.md; every command takes that name. --scope
    lists one scope alone. A file that cannot be used is listed with its problem.

    examples:
      memsheaf list
      memsheaf list --scope user --type feedback
      memsheaf list --json
    """
    options = call.options
    wanted = Filter(kind=options.type or "", trust="unconfirmed" if options.unconfirmed else "")
    with call.memory() as memory:
        rows = [row for _, row in list_page(memory.open_scopes(), wanted)[0]]
        notices = [] if options.paths and not call.console.json else list_notices(memory)
        narrowed = f" of type {options.type!r}" if options.type else ""
        if options.type not in (None, *KINDS):
            narrowed += f", which is none of {', '.join(KINDS)}"
        narrowed += " that are unconfirmed" if options.unconfirmed else ""
        nothing = f"no memories in {', '.join(memory.scopes())}{narrowed}; `memsheaf remember TEXT` saves one"
        unsent = _unsent(memory)
        named = {memory.label(ref): why for ref, why in unsent.items()}
        value = {key: said for key, said in (("notices", notices), ("unsent", named)) if said}
        paths = (memory.label(row.ref) for row in rows) if options.paths else None
        return call.answer(
            lambda: _rows_json(memory, rows) | value,
            paths or (_notes(memory), _rows_parts(call, rows, nothing, unsent)),
        )


def _notes(memory: Sheaf) -> list[Note]:
    return [Note(notice, "yellow") for notice in list_notices(memory)]


@takes(FILE, Argument("--raw", "print the file's exact bytes"))
def show(call: Call) -> int:
    """Show one memory as it is on disk, and when it was last recalled.

    Characters that would drive the terminal or hide are spelt out, as <U+001B>. With --raw, and unless the
    output is a terminal, the bytes are those of the file.

    examples:
      memsheaf show user_prefers-tabs.md
      memsheaf show user_prefers-tabs.md --raw > copy.md
    """
    with call.memory() as layers:
        try:
            memory = layers.read(find_memory(layers, call.options.file))
        except NotFound as error:
            error.hint = "; ".join(list_notices(layers)) or error.hint
            raise
        warnings = [*memory.warnings, *layers.open_scope(memory.scope).caveats(memory)]
        file = layers.label(memory.ref)
        unsent = _unsent(layers).get(memory.ref, "")
        recalls = layers.open_scope(memory.scope).recalled(memory.path)
    value = {"path": file, **pick(memory, _MEMORY), "warnings": warnings, "type": memory.type}
    value |= {"unsent": unsent} if unsent else {}
    value["recalled"] = [pick(one, ("at", "message")) for one in recalls]
    if call.options.raw:
        return call.answer(value, memory.data)
    problems = filter(None, (memory.problem, *warnings, unsent))
    noted = [Note(f"{file}: {problem}", "yellow") for problem in problems]
    found = Note(file) if file != call.options.file else None
    last = [Note(f"last recalled {one.at[:10]}, for: {one_line(one.message, 80)}") for one in recalls[:1]]
    return call.answer(value, found, noted, last, memory.text.removesuffix("\n"))


@takes(
    Argument("query", "words to look for; a memory needs to hold one of them", "WORD", required=True, repeated=True),
    Argument("--limit", "how many at most (10)", "N", default=10),
)
def search(call: Call) -> int:
    """Find memories by words in their name, description or text, or by what they mean.

    The best are shown, the nearest scope first: the task, the session, the project, the user. --scope looks in one
    scope alone. A memory that shares no word with the query must clearly mean the same; often nothing is found.

    examples:
      memsheaf search release day
      memsheaf search --scope user indentation --limit 3
    """
    query = " ".join(call.options.query)
    with _open_layers(call) as memory:
        rows = [hit.row for hit in memory.search(query, limit=call.options.limit)]
        nothing = f"nothing found for {query!r} in {', '.join(memory.scopes())}; `memsheaf list` shows all"
        noted = [] if rows else _notes(memory)
        return call.answer(_rows_json(memory, rows), noted, _rows_parts(call, rows, nothing))


@takes()
def catalog(call: Call) -> int:
    """Print the catalog that agents see: one line a memory, within its budget.

    It holds what fits into a prompt; `memsheaf list` shows all.

    examples:
      memsheaf catalog
    """
    with call.memory() as memory:
        page = memory.catalog()
        value = {"scopes": memory.scopes(), **pick(page, ("shown", "total", "text"))}
        return call.answer(value, _notes(memory), page.text.removesuffix("\n"))


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
        texts = prompt_sections(memory.open_scopes(lasting=True), memory.home)
    value = {"prompts": [{"scope": scope, "text": text} for scope, text in texts]}
    return call.answer(value, "\n".join(text for _, text in texts).encode())


@takes(_MESSAGE, Argument("--raw", "print the text that an agent gets, also on a terminal"))
def recall(call: Call) -> int:
    """Print the memories that matter for a message: what an agent gets beside it.

    At most five, whole or cut at 4,096 bytes. A terminal shows each text with its file, scope and age; in a pipe, and
    with --raw, it is the text that an agent gets. A single word is looked for as it is, which an agent's recall does
    not do. Nothing is printed when none matters; `memsheaf why` tells the reasons. The task, the session, the project
    and the user are asked, where there are any; with --scope and --agent, which may be given several times, only
    those, the nearest first.

    examples:
      memsheaf recall "how do we deploy?"
      memsheaf recall pnpm
      memsheaf recall --scope user "which indentation do I like?" --json
    """
    with _open_layers(call) as memory:
        message = call.given_text(" ".join(call.options.message))
        found = memory.session(tree=around(here())).recall(message, is_query=True)
        noted = [] if found.text else _notes(memory)
    why = found.gate or "no memory clearly fits"
    nothing = f"nothing recalled: {why}; `memsheaf search` looks for words, `memsheaf list` shows all"
    is_raw = call.options.raw or not call.console.stdout.isatty()
    shown = found.text.encode() if is_raw else _recalled_parts(found)
    return call.answer(_recall_json(found), noted, shown if found.text else Note(nothing, ""))


def _recalled_parts(found: Recall) -> Iterator[Part]:
    """What was recalled, for people."""
    for one in found.memories:
        yield one.text.strip()
        yield Styled(f"  {one.name}  {one.scope}  {one.when}", "dim")
        yield from (Styled(f"  {note}", "yellow") for note in one.notes)
    count = plural(len(found.memories), "memory", "memories")
    yield Note(f"{count}, {plural(found.size, 'byte')} added to the message; `memsheaf why` explains the choice")


@takes(_MESSAGE)
def why(call: Call) -> int:
    """Explain what `memsheaf recall` would bring for a message: candidates, scores, gates, cuts.

    LIKELY says how likely a memory matters for the message, from 0 to 1; from a threshold on the best few are
    recalled. It comes from NEAR, how near they are in meaning (a cosine, 0 without an encoder), and from COMMON, the
    telling words that both have. Among equals, one comes first that is pinned, in the nearest scope, changed or of
    use lately. Nothing is counted as used.

    examples:
      memsheaf why "how do we deploy?"
      memsheaf why --scope user "which indentation do I like?" --json
    """
    with _open_layers(call) as memory:
        found = memory.session(tree=around(here())).why(call.given_text(" ".join(call.options.message)))
        made = {} if found.gate else {scope.name: scope.index.embedding() for scope in memory.open_scopes()}
    value = {
        **_recall_json(found),
        "candidates": [_candidate_json(one, memory.home) for one in found.candidates],
        "embedding": {scope: pick(one, EMBEDDING) for scope, one in made.items()},
    }
    if found.gate:
        return call.answer(value, f"nothing was looked for: {found.gate}")
    head = ("", "LIKELY", "NEAR", "COMMON", "SCOPE", "FILE", "WHY")
    table = Table(_candidate_rows(found, memory.home), ("green", "", "", "", "dim", "bold"), head)
    nothing = "no memory shares a word with the message, or is near to it in meaning"
    more = len(found.candidates) - CANDIDATES
    return call.answer(
        value,
        Styled(found.decision or "a model failed to choose", "bold"),
        Styled(f"chosen by: {found.selector}", "dim"),
        (Styled(f"{scope}: {_describe_embedding(one)}", "dim") for scope, one in made.items()),
        table if found.candidates else nothing,
        Note(f"and {plural(more, 'other')} that scored less; --json has all", "") if more > 0 else None,
    )


def _unsent(memory: Sheaf) -> dict[Ref, str]:
    """The memories that a hub does not have as they are here, and why."""
    found = [(scope, scope.replica.unsent()) for scope in memory.open_scopes() if scope.replica]
    return {scope.ref(path): why for scope, paths in found for path, why in paths.items()}


def _rows_json(memory: Sheaf, rows: Sequence[Row]) -> dict[str, object]:
    memories = [{"path": memory.label(row.ref), **pick(row, _ROW), "type": row.type} for row in rows]
    return {"scopes": memory.scopes(), "memories": memories}


def _rows_parts(call: Call, rows: Sequence[Row], nothing: str, marks: Mapping[Ref, str] = NONE) -> Iterator[Part]:
    cells = [
        (call.label(row.ref), row.type or "-", row.updated, *_describe(row, marks.get(row.ref, ""))) for row in rows
    ]
    if rows and call.console.stdout.isatty():
        for path, _, updated, fact, mark in cells:
            yield fact
            yield Styled(f"  {path}  {updated}  {mark}".rstrip(), "dim")
        yield Note(plural(len(rows), "memory", "memories"))
    else:
        lines = ((*first, f"({mark}) {fact}" if mark else fact) for *first, fact, mark in cells)
        yield Table(lines, empty=nothing)


def _describe(row: Row, mark: str) -> tuple[str, str]:
    """Return the fact of a memory in one line, and what must be known about it."""
    fact = row.description
    if not fact.startswith(row.name.removesuffix("…")):  # then the description says when the fact matters
        fact = f"{row.name}: {fact}"
    marks = ["pinned"] * row.pinned + [row.trust.removeprefix("confirmed"), row.warning, mark]
    return f"problem: {row.problem}" if row.problem else fact, ", ".join(filter(None, marks))


def _describe_embedding(made: Embedding) -> str:
    """By what memories of a scope were found."""
    if made.problem:
        return f"found by words, because the encoder failed: {made.problem}"
    if not made.embedder:
        return "found by words"
    if made.done < made.total:
        share = f"{made.done:,} of {plural(made.total, 'memory', 'memories')} so far"
        return f"found by words, and by meaning where there are vectors: {share}; `memsheaf index` embeds the rest"
    return "found by words and meaning"


def _open_layers(call: Call) -> Sheaf:
    memory = call.memory()
    for said in memory.work.unclear():
        call.console.note(said)
    return memory


def _candidate_rows(found: Recall, home: str) -> Iterator[tuple[str, ...]]:
    cut = {(one.scope, one.memory.path) for one in found.memories if one.is_cut}
    for one in found.candidates[:CANDIDATES]:
        recalled = "recalled, cut to what there is room for" if (one.scope, one.row.path) in cut else "recalled"
        numbers = (f"{number:.2f}" for number in (one.likely, one.near, one.common))
        path = Ref(one.scope, one.row.path).label(home)
        yield "*" if one.chosen else "", *numbers, one.scope, path, one.why or recalled


def _recall_json(found: Recall) -> dict[str, object]:
    memories = [
        {
            "layer": one.scope.partition("/")[0],
            "scope": one.scope,
            "path": one.name,
            **pick(one.memory, ("name", "version", "type")),
            "saved": one.saved,
            "cut": one.is_cut,
            "notes": list(one.notes),
        }
        for one in found.memories
    ]
    value = pick(found, ("text", "gate", "decision", "selector", "query"))
    return {**value, "bytes": found.size, "memories": memories}


def _candidate_json(one: Candidate, home: str) -> dict[str, object]:
    numbers = {name: round(getattr(one, name), 4) for name in _NUMBERS}
    path = Ref(one.scope, one.row.path).label(home)
    return {"scope": one.scope, "path": path, **numbers, **pick(one, ("chosen", "why", "cut"))}
