"""Commands that look at memories."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from memsheaf.cli.call import EMBEDDING, Call, Result, here, pick, plural
from memsheaf.cli.output import Note, Part, Styled, Table
from memsheaf.cli.parser import Positive, Words
from memsheaf.errors import NotFound, Ref
from memsheaf.index.browse import Filter
from memsheaf.memory import KINDS
from memsheaf.open_scope import list_page, prompt_sections
from memsheaf.scope import around
from memsheaf.sheaf import Sheaf, find_memory, list_notices
from memsheaf.text.neutralize import one_line

if TYPE_CHECKING:
    from memsheaf.index.database import Embedding, Row
    from memsheaf.recall.recall import Recall

MAX_CANDIDATES = 12  # for people
_ROW = (
    "scope",
    "name",
    "type",
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
    "scope", "name", "type", "description", "created", "updated", "expires", "source", "changed_by", "trust",
    "conversation", "reason", "citations", "supersedes", "pinned", "state", "problem", "version", "body", "text",
)  # fmt: skip
_CANDIDATE = ("scope", "likely", "common", "near", "score", "chosen", "why", "cut")


def list_(call: Call, *, type: str = "") -> Result:
    """List every memory, newest first.

    On a terminal each fact stands above the name of its file, elsewhere each memory has one line. What is not the
    project's has its scope before its name, as in user:user_prefers-tabs.md; every command takes that name. -s
    lists one scope alone. A file that cannot be used is listed with its problem.

    arguments:
      -t, --type TYPE: only memories of this type: user, feedback, project, reference, or any other word

    examples:
      memsheaf list
      memsheaf list -s user -t feedback
      memsheaf list --json
    """
    with call.memory() as memory:
        rows = [row for _, row in list_page(memory.open_scopes(), Filter(kind=type))[0]]
        notices, unsent = list_notices(memory), _unsent(memory)
        value = _rows_json(memory, rows)
        if notices:
            value["notices"] = notices
        if unsent:
            value["unsent"] = {memory.label(ref): why for ref, why in unsent.items()}
        narrowed = f" of type {type!r}" if type else ""
        if type not in ("", *KINDS):
            narrowed += f", which is none of {', '.join(KINDS)}"
        nothing = f"no memories in {', '.join(memory.scopes())}{narrowed}; `memsheaf remember TEXT` saves one"
        return Result(value, _notes(memory), list(_rows_parts(call, rows, nothing, unsent)))


def _notes(memory: Sheaf) -> list[Note]:
    return [Note(notice, "yellow") for notice in list_notices(memory)]


def show(call: Call, memory: str = "", *, prompt: bool = False) -> Result:
    """Show one memory as it is on disk, and when it was last recalled; without one, the catalog that agents see.

    Characters that would drive a terminal or hide are spelt out, as <U+001B>. The catalog holds what fits into a
    prompt, one line a memory. With --prompt it is the whole section for a system prompt, of the project and the user,
    or of the scopes that -s names.

    arguments:
      MEMORY: which memory: its file, its name, or a part of either
      --prompt: the section for an agent's system prompt

    examples:
      memsheaf show user_prefers-tabs.md
      memsheaf show
      memsheaf show --prompt -s agent/researcher
    """
    with call.memory() as sheaf:
        if prompt:
            texts = prompt_sections(sheaf.open_scopes(lasting=True), sheaf.home)
            value: dict[str, object] = {"prompts": [{"scope": scope, "text": text} for scope, text in texts]}
            return Result(value, "\n".join(text for _, text in texts).encode())
        if not memory:
            page = sheaf.catalog()
            value = {"scopes": sheaf.scopes(), **pick(page, ("shown", "total", "text"))}
            return Result(value, _notes(sheaf), page.text.removesuffix("\n"))
        try:
            found = sheaf.read(find_memory(sheaf, memory))
        except NotFound as error:
            error.hint = "; ".join(list_notices(sheaf)) or error.hint
            raise error from None
        scope = sheaf.open_scope(found.scope)
        warnings = [*found.warnings, *scope.caveats(found)]
        file, recalls = sheaf.label(found.ref), scope.recalled(found.path)
        unsent = _unsent(sheaf).get(found.ref, "")
    value = {"path": file, **pick(found, _MEMORY), "warnings": warnings}
    if unsent:
        value["unsent"] = unsent
    value["recalled"] = [pick(recall, ("at", "message")) for recall in recalls]
    return Result(
        value,
        Note(file) if file != memory else None,
        [Note(f"{file}: {problem}", "yellow") for problem in (found.problem, *warnings, unsent) if problem],
        [Note(f"last recalled {last.at[:10]}, for: {one_line(last.message, 80)}") for last in recalls[:1]],
        found.text.removesuffix("\n"),
    )


def search(call: Call, words: Words, *, limit: Positive = 10) -> Result:
    """Find memories by words in their name, description or text, or by what they mean.

    The best are shown, the nearest scope first: the task, the session, the project, the user. -s looks in one
    scope alone. A memory that shares no word with the query must clearly mean the same; often nothing is found.

    arguments:
      WORD: words to look for; a memory needs to hold one of them
      -n, --limit N: how many at most (10)

    examples:
      memsheaf search release day
      memsheaf search -s user indentation -n 3
    """
    query = " ".join(words)
    with _open_layers(call) as memory:
        rows = [hit.row for hit in memory.search(query, limit=limit)]
        nothing = f"nothing found for {query!r} in {', '.join(memory.scopes())}; `memsheaf list` shows all"
        notes = [] if rows else _notes(memory)
        return Result(_rows_json(memory, rows), notes, list(_rows_parts(call, rows, nothing, {})))


def recall(call: Call, message: Words, *, why: bool = False) -> Result:
    """Print the memories that matter for a message: what an agent gets beside it.

    At most five, whole or cut at 4,096 bytes. A terminal shows each text with its file, scope and age; in a pipe it
    is the text that an agent gets. A single word is looked for as it is, which an agent's recall does not do. The
    task, the session, the project and the user are asked, where there are any; with -s, which may be given several
    times, only those, the nearest first.

    With --why each candidate has a row. LIKELY says how likely a memory matters for the message, from 0 to 1; from a
    threshold on the best few are recalled. It comes from NEAR, how near they are in meaning (a cosine, 0 without an
    encoder), and from COMMON, the telling words that both have. Among equals, one comes first that is pinned, in the
    nearest scope, changed or of use lately. Nothing is counted as used.

    arguments:
      MESSAGE: what the user says; - reads standard input
      --why: explain the choice: candidates, scores, gates, cuts

    examples:
      memsheaf recall "how do we deploy?"
      memsheaf recall pnpm
      memsheaf recall --why -s user "which indentation do I like?"
    """
    with _open_layers(call) as memory:
        text = call.given_text(" ".join(message))
        session = memory.session(tree=around(here()))
        if why:
            return _explain(session.why(text), memory)
        found = session.recall(text, is_query=True)
        notes = [] if found.text else _notes(memory)
    reason = found.gate or "no memory clearly fits"
    if not found.text:
        nothing = f"nothing recalled: {reason}; `memsheaf search` looks for words, `memsheaf list` shows all"
        return Result(_recall_json(found), notes, Note(nothing, ""))
    is_for_people = call.console.stdout.isatty()
    return Result(_recall_json(found), list(_recalled_parts(found)) if is_for_people else found.text.encode())


def _recalled_parts(found: "Recall") -> Iterator[Part]:
    for memory in found.memories:
        yield memory.text.strip()
        yield Styled(f"  {memory.name}  {memory.scope}  {memory.when}", "dim")
        yield [Styled(f"  {note}", "yellow") for note in memory.notes]
    count = plural(len(found.memories), "memory", "memories")
    yield Note(f"{count}, {plural(found.size, 'byte')} added to the message; --why explains the choice")


def _explain(found: "Recall", memory: Sheaf) -> Result:
    """Return the candidates of a recall and why each was taken or left."""
    value = _recall_json(found)
    if found.gate:
        return Result({**value, "candidates": [], "embedding": {}}, f"nothing was looked for: {found.gate}")
    embeddings = {scope.name: scope.index.embedding() for scope in memory.open_scopes()}
    cut = {(one.scope, one.memory.path) for one in found.memories if one.is_cut}
    rows, candidates = [], []
    for candidate in found.candidates:
        label = Ref(candidate.scope, candidate.row.path).label(memory.home)
        recalled = (
            "recalled, cut to what there is room for" if (candidate.scope, candidate.row.path) in cut else "recalled"
        )
        numbers = (f"{candidate.likely:.2f}", f"{candidate.near:.2f}", f"{candidate.common:.2f}")
        rows.append(("*" if candidate.chosen else "", *numbers, candidate.scope, label, candidate.why or recalled))
        candidates.append({"path": label, **pick(candidate, _CANDIDATE)})
    value |= {"candidates": candidates, "embedding": {name: pick(one, EMBEDDING) for name, one in embeddings.items()}}
    head = ("", "LIKELY", "NEAR", "COMMON", "SCOPE", "FILE", "WHY")
    nothing = "no memory shares a word with the message, or is near to it in meaning"
    more = len(rows) - MAX_CANDIDATES
    return Result(
        value,
        Styled(found.decision or "a model failed to choose", "bold"),
        Styled(f"chosen by: {found.selector}", "dim"),
        [Styled(f"{name}: {describe_embedding(one)}", "dim") for name, one in embeddings.items()],
        Table(rows[:MAX_CANDIDATES], ("green", "", "", "", "dim", "bold"), head) if rows else nothing,
        Note(f"and {plural(more, 'other')} that scored less; --json has all", "") if more > 0 else None,
    )


def _unsent(memory: Sheaf) -> dict[Ref, str]:
    """Return the memories that a hub does not have as they are here, and why."""
    unsent = [(scope, scope.replica.unsent()) for scope in memory.open_scopes() if scope.replica]
    return {scope.ref(path): why for scope, paths in unsent for path, why in paths.items()}


def _rows_json(memory: Sheaf, rows: "Sequence[Row]") -> dict[str, object]:
    memories = [{"path": memory.label(row.ref), **pick(row, _ROW)} for row in rows]
    return {"scopes": memory.scopes(), "memories": memories}


def _rows_parts(call: Call, rows: "Sequence[Row]", nothing: str, marks: Mapping[Ref, str]) -> Iterator[Part]:
    cells = []
    is_for_people = rows and call.console.stdout.isatty()
    for row in rows:
        label, (fact, mark) = call.label(row.ref), _describe(row, marks.get(row.ref, ""))
        if is_for_people:
            yield fact
            yield Styled(f"  {label}  {row.updated}  {mark}".rstrip(), "dim")
        else:
            cells.append((label, row.type or "-", row.updated, f"({mark}) {fact}" if mark else fact))
    yield Note(plural(len(rows), "memory", "memories")) if is_for_people else Table(cells, empty=nothing)


def _describe(row: "Row", mark: str) -> tuple[str, str]:
    """Return the fact of a memory in one line, and what must be known about it."""
    fact = row.description
    if not fact.startswith(row.name.removesuffix("…")):  # then the description says when the fact matters
        fact = f"{row.name}: {fact}"
    marks = ["pinned"] * row.pinned + [row.trust.removeprefix("confirmed"), row.warning, mark]
    return f"problem: {row.problem}" if row.problem else fact, ", ".join(filter(None, marks))


def describe_embedding(made: "Embedding") -> str:
    """Say by what memories of a scope are found."""
    if made.problem:
        return f"found by words, because the encoder failed: {made.problem}"
    if not made.embedder:
        return "found by words"
    if made.done < made.total:
        share = f"{made.done:,} of {plural(made.total, 'memory', 'memories')} so far"
        return (
            f"found by words, and by meaning where there are vectors: {share}; `memsheaf doctor --fix` makes the rest"
        )
    return "found by words and meaning"


def _open_layers(call: Call) -> Sheaf:
    memory = call.memory()
    for line in memory.work.unclear():
        call.console.note(line)
    return memory


def _recall_json(found: "Recall") -> dict[str, object]:
    memories = [
        {
            "layer": memory.scope.partition("/")[0],
            **pick(memory, ("scope", "saved", "notes")),
            "path": memory.name,
            **pick(memory.memory, ("name", "version", "type")),
            "cut": memory.is_cut,
        }
        for memory in found.memories
    ]
    return {
        **pick(found, ("text", "gate", "decision", "selector", "query")),
        "bytes": found.size,
        "memories": memories,
    }
