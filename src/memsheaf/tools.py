"""The tools a model may call: each is one function, its signature the schema, its docstring the prompt.

Answers are one line where one line is enough, and a failure is an answer that begins with `Error:` and says
what to do next; nothing is ever raised at a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from memsheaf.errors import (
    Changed,
    CreateOnly,
    Duplicate,
    Exists,
    ManyMatches,
    MemsheafError,
    NoMatch,
    NotFound,
    NotWorth,
    OutOfRange,
    PathRefused,
    SecretFound,
    TextRefused,
)
from memsheaf.flow.inject import NOTES
from memsheaf.flow.recall import LAYER_FILES
from memsheaf.flow.session import IGNORED, Session
from memsheaf.guard.names import CATALOG, fold
from memsheaf.guard.secrets import without_secrets
from memsheaf.guard.text import for_prompt, one_line
from memsheaf.index.table import Row
from memsheaf.memory import KINDS, Memory
from memsheaf.sheaf import Sheaf

ALIASES = {
    "memory_type": "type",
    "old_str": "old_text",
    "new_str": "new_text",
    "kind": "type",
}
RENAMED = {"memory_replace": "memory_update"}


class Desk:
    """What one conversation has open: its sheaf, and which version of each memory it has seen."""

    def __init__(self, sheaf: Sheaf, session: Session | None = None) -> None:
        self.sheaf = sheaf
        self.session = session
        self.seen: dict[str, str] = {}

    def saw(self, memory: Memory) -> Memory:
        """Note that the model knows this text."""
        self.seen[memory.path] = memory.version
        return memory


def memory_view(
    desk: Desk,
    target: Annotated[str, "index: the catalog. files: every file with its type and date. Or a type"] = "index",
    page: Annotated[int, "Page, from 1"] = 1,
) -> str:
    """Look at the catalog of what is remembered."""
    if page < 1:
        raise TextRefused(f"there is no page {page}; pages begin with 1")
    if target == "index" and page == 1:
        return desk.sheaf.catalog().text
    if target == "files":
        return _files(desk.sheaf.list(), page, "(no memory files yet)")
    if target != "index" and target not in KINDS and target != "other":
        raise TextRefused(f"{target!r} is no target; use index, files, {', '.join(KINDS)} or other")
    if target == "index":  # after the catalog, which shows the best, comes the list of all
        return desk.sheaf.page(page - 1).text
    return desk.sheaf.page(page, kind=target).text


def memory_read(desk: Desk, filename: Annotated[str, "As the catalog names it, such as user_prefers-tabs.md"]) -> str:
    """Read one memory in full."""
    if filename.casefold() == CATALOG.casefold():
        return desk.sheaf.catalog().text
    memory = desk.saw(desk.sheaf.read(filename))
    if memory.state == "held":
        return f"Error: '{memory.path}' cannot be shown: {memory.problem}."
    desk.sheaf.used(memory.path)
    if memory.problem:
        return f"({memory.path}: {memory.problem})\n{memory.text}"
    notes = desk.session.verdicts(memory) if desk.session else []
    said = "".join(f"({one_line(for_prompt(note), 300)})\n" for note in notes)
    return f"{memory.text.rstrip(chr(10))}\n\n{said}" if said else memory.text


def memory_write(
    desk: Desk,
    content: Annotated[str, "The fact, then **Why:** and **How to apply:**"],
    name: Annotated[str, "Short title, such as 'Prefers tabs'"] = "",
    description: Annotated[str, "One line that tells when this matters"] = "",
    type: Annotated[str, "user, feedback, project or reference"] = "",
    filename: Annotated[str, "Only to choose the file yourself; made from type and name otherwise"] = "",
) -> str:
    """Save one durable fact. Skip what the code or its history already says. An existing memory of that name or
    file is replaced, once you have read it."""
    if filename and not (name or description or type):
        return _write_free(desk, filename, content)
    try:
        memory = desk.sheaf.remember(name, description, type, content, path=filename)
    except Exists as error:
        expect = desk.seen.get(error.path)
        memory = desk.sheaf.remember(
            name, description, type, content, path=error.path, replace=True, expect=expect or "unread"
        )
    return f"Memory saved: {desk.saw(memory).path}{_advice(memory)}"


def memory_update(
    desk: Desk,
    filename: Annotated[str, "The memory to change"],
    old_text: Annotated[str, "The exact text to replace; it must occur once"],
    new_text: Annotated[str, "What to put in its place"],
    count: Annotated[int, "How often old_text occurs, when that is meant"] = 1,
) -> str:
    """Replace a piece of text in a memory."""
    memory = desk.saw(desk.sheaf.revise(filename, old_text, new_text, count=count))
    return f"Memory updated: {memory.path}"


def memory_insert(
    desk: Desk,
    filename: Annotated[str, "The memory to add to"],
    line: Annotated[int, "Insert after this line of the body; 0 is the start"],
    text: Annotated[str, "The text to insert"],
) -> str:
    """Insert text in a memory."""
    memory = desk.saw(desk.sheaf.insert(filename, line, text))
    return f"Memory updated: {memory.path}"


def memory_delete(desk: Desk, filename: Annotated[str, "The memory to remove"]) -> str:
    """Remove a memory that is wrong or no longer needed. A person can bring it back."""
    if filename.casefold() == CATALOG.casefold():
        return f"Error: {CATALOG} is the catalog: it is made from the memories and cannot be deleted."
    commit = desk.sheaf.forget(filename)
    return f"Memory deleted: {commit.revisions[0].path}"


def memory_list(
    desk: Desk,
    type: Annotated[str, "Only this type"] = "",
    page: Annotated[int, "Page, from 1"] = 1,
) -> str:
    """List all memory files."""
    rows = [row for row in desk.sheaf.list() if _is_of(row, type)] if type else desk.sheaf.list()
    return _files(rows, page, f"No memory files of type '{one_line(type, 20)}'." if type else "No memory files yet.")


def memory_search(
    desk: Desk,
    query: Annotated[str, "Words to look for"],
    limit: Annotated[int, "How many at most"] = 10,
) -> str:
    """Find memories by their words."""
    rows = desk.sheaf.search(query, limit=max(1, min(limit, 50)))
    return (
        "\n".join(map(_file, rows)) or f"Nothing found for '{one_line(query, 80)}'. Try other words, or memory_list."
    )


TOOLS: tuple[Callable[..., str], ...] = (
    memory_view, memory_read, memory_write, memory_update, memory_insert, memory_delete, memory_list, memory_search,
)  # fmt: skip
_NUMBER = re.compile(r"\s*-?[0-9]{1,9}\s*")
READING = frozenset({"memory_view", "memory_read", "memory_list", "memory_search"})


class Tools:
    """The tools, bound to one sheaf, for one conversation.

    With its `session`, no tool does anything in a turn in which the user asked to ignore memory, and what is read
    comes with the verdict on its citations, if the session knows the folder of the work.

    >>> Tools(sheaf).call("memory_read", {"filename": "user_prefers-tabs.md"})     # doctest: +SKIP
    """

    def __init__(self, sheaf: Sheaf, *, session: Session | None = None) -> None:
        self._desk = Desk(sheaf, session)
        self._session = session
        wanted = (tool for tool in TOOLS if not sheaf.read_only or tool.__name__ in READING)
        self._tools = {tool.__name__: tool for tool in wanted} if sheaf.tools else {}

    @property
    def names(self) -> tuple[str, ...]:
        """The tools on offer: none when they are switched off, the reading ones on a read-only sheaf."""
        return tuple(self._tools)

    def schemas(self) -> list[dict[str, Any]]:
        """Name, description and JSON schema of each tool."""
        return [schema(tool) for tool in self._tools.values()]

    def call(self, name: str, arguments: Mapping[str, object]) -> str:
        """Run a tool and give its answer; what goes wrong is an answer, too."""
        if self._session and self._session.ignoring:
            return f"Error: {IGNORED}; answer without it."
        name = RENAMED.get(str(name), str(name))
        tool = self._tools.get(name)
        if tool is None:
            said = without_secrets(one_line(name, 60))
            return f"Error: there is no tool '{said}'; there are: {', '.join(self._tools) or 'none'}."
        if not isinstance(arguments, Mapping):
            return f"Error: the arguments of {name} must be an object with {', '.join(_shape(tool)['properties'])}."
        try:
            given = _arguments(tool, arguments)
            if name not in READING:
                self._refuse_kept(str(given.get("filename", "")), given)
            return tool(self._desk, **given)
        except Changed as error:
            return f"Error: {self._shown_anew(error.path)}"
        except MemsheafError as error:
            return f"Error: {without_secrets(self._explained(error))}"

    def _refuse_kept(self, filename: str, given: Mapping[str, object]) -> None:
        """Raise TextRefused for what a layer keeps itself, and for notes that would be out of order."""
        sheaf = self._desk.sheaf
        if sheaf.scope.layer in ("task", "session") and fold(filename) in map(fold, LAYER_FILES):
            raise TextRefused(f"'{one_line(filename, 60)}' is kept by `memsheaf {sheaf.scope.layer}`, step by step")
        if fold(filename) != fold(NOTES):
            return
        from memsheaf.layers.tidy import problems

        content = given.get("content")
        if not isinstance(content, str):
            raise TextRefused(f"{NOTES} is short: read it, and write all of it with memory_write")
        if found := problems(content, sheaf.today):
            raise TextRefused(f"{NOTES} would be out of order: {found[0].what}; {found[0].advice}")

    def _explained(self, error: MemsheafError) -> str:
        """An error in the words a model can act on."""
        if isinstance(error, NotFound):
            return f"Memory file '{error.path}' not found. memory_list shows what exists."
        if isinstance(error, NoMatch):
            return f"String not found in '{error.path}'. Read it with memory_read and copy the text exactly."
        if isinstance(error, ManyMatches):
            lines = ", ".join(map(str, error.lines))
            if len(error.lines) == 1:
                return f"The string occurs once in '{error.path}', at line {lines}. Leave the count out."
            return f"Multiple occurrences found at lines {lines}. Provide more context, or say the count."
        if isinstance(error, OutOfRange):
            return f"Line {error.line} is beyond end of file ({error.lines} lines)."
        if isinstance(error, CreateOnly):
            how = "write a new file below facts/ with memory_write: the same name in its header, citations, a reason"
            return f"{error}. To correct it, {how}, and 'supersedes:' with '{error.path}'."
        if isinstance(error, Duplicate):
            return f"{error}. If this corrects it, change it with memory_update; else say how it differs."
        return f"{error}.{' ' + error.hint if isinstance(error, PathRefused | SecretFound | NotWorth) else ''}"

    def _shown_anew(self, path: str) -> str:
        """Say that a memory is not as the model last saw it, and show it, so that the next call can be right."""
        try:
            memory = self._desk.saw(self._desk.sheaf.read(path))
        except MemsheafError:
            return f"'{path}' is no longer there. memory_list shows what exists."
        return (
            f"'{path}' exists, and you have not seen its present text. It is below; call again to replace it, "
            f"or use memory_update to change a part.\n\n{memory.text}"
        )


def schema(tool: Callable[..., str]) -> dict[str, Any]:
    """Describe a tool as a JSON schema, from its signature and its docstring."""
    hints = get_type_hints(tool, include_extras=True)
    defaults = tool.__defaults__ or ()
    names = [name for name in hints if name not in ("desk", "return")]
    required = names[: len(names) - len(defaults)]
    return {
        "name": tool.__name__,
        "description": " ".join((tool.__doc__ or "").split()),
        "input_schema": {
            "type": "object",
            "properties": {name: _property(hints[name]) for name in names},
            "required": required,
            "additionalProperties": False,
        },
    }


@cache
def _shape(tool: Callable[..., str]) -> dict[str, Any]:
    """The arguments of a tool, worked out once."""
    shape: dict[str, Any] = schema(tool)["input_schema"]
    return shape


def _property(hint: object) -> dict[str, Any]:
    kind, said = get_args(hint) if get_origin(hint) is Annotated else (hint, "")
    return {"type": "integer" if kind is int else "string", "description": said}


def _arguments(tool: Callable[..., str], given: Mapping[str, object]) -> dict[str, object]:
    """The arguments a tool takes, from those a model gave: known names, right types, nothing missing."""
    shape = _shape(tool)
    known: dict[str, Any] = shape["properties"]
    arguments: dict[str, object] = {}
    for name, value in given.items():
        name = str(name)
        name = name if name in known else ALIASES.get(name, name)
        if name not in known:
            raise TextRefused(
                f"{tool.__name__} takes no argument '{one_line(name, 40)}'; it takes {', '.join(known)}"
            )
        if value is None:
            continue
        wanted = int if known[name]["type"] == "integer" else str
        if wanted is int and isinstance(value, str) and _NUMBER.fullmatch(value):
            value = int(value)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise TextRefused(f"{tool.__name__}: '{name}' must be {'a number' if wanted is int else 'a text'}")
        arguments[name] = value
    if missing := [name for name in shape["required"] if name not in arguments]:
        raise TextRefused(f"{tool.__name__} needs {', '.join(missing)}")
    return arguments


def _write_free(desk: Desk, filename: str, content: str) -> str:
    """Write a whole file: a memory when the content has a header, any text otherwise."""
    try:
        found = desk.sheaf.read(filename)
    except NotFound:
        found = None
    if found and desk.seen.get(found.path) != found.version:
        raise Changed(found.path)
    free = not content.removeprefix("\ufeff").startswith("---")
    memory = desk.sheaf.put(filename, content, expect=found.version if found else "", free=free)
    return f"Memory saved: {desk.saw(memory).path}"


def _advice(memory: Memory) -> str:
    if memory.kind in ("feedback", "project") and "**Why:**" not in memory.body:
        return " (add a line **Why:** and a line **How to apply:** so that edge cases can be judged)"
    return ""


def _files(rows: Sequence[Row], page: int, empty: str) -> str:
    if not rows:
        return empty
    size = 200
    shown = rows[(page - 1) * size : page * size] if page > 0 else []
    if not shown:
        return f"Error: there is no page {page}; there are {-(-len(rows) // size)}."
    more = f"\n(page {page} of {-(-len(rows) // size)})" if len(rows) > size else ""
    return "\n".join(map(_file, shown)) + more


def _is_of(row: Row, kind: str) -> bool:
    return row.kind == kind or (kind == "other" and row.kind not in KINDS)


def _file(row: Row) -> str:
    note = f"  (problem: {row.problem})" if row.problem else "  (unconfirmed)" if row.trust == "unconfirmed" else ""
    kind = one_line(row.kind, 20) or "free"
    return f"{row.path}  [{kind}]  {one_line(row.description, 160)}  (updated: {row.updated}){note}"
