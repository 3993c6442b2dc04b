"""The tools a model may call: each is one function, its signature the schema, its docstring the prompt.

Answers are one line where one line is enough, and a failure is an answer that begins with `Error:` and says
what to do next; nothing is ever raised at a model.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cache
from typing import Annotated, Any, NamedTuple, get_type_hints

from memsheaf.encode.judge import judge_sentence
from memsheaf.errors import (
    BadHeader,
    Changed,
    Duplicate,
    Exists,
    HubRefused,
    MemsheafError,
    NoMatch,
    NotFound,
    NotWorth,
    PathRefused,
    ReadOnly,
    Ref,
    SecretFound,
    StoreFailed,
    TextRefused,
)
from memsheaf.gates import LAYER_FILES
from memsheaf.guard import without_secrets
from memsheaf.guard.paths import CATALOG, fold
from memsheaf.index.browse import Filter
from memsheaf.index.database import Row
from memsheaf.learn.corrections import correct_written
from memsheaf.llm.json_answer import ANSWER_BYTES, read
from memsheaf.llm.model import Touched
from memsheaf.memory import KINDS, MAX_MEMORY_BYTES, STRICT, Allow, Memory, parse
from memsheaf.open_scope import list_page
from memsheaf.recall.inject import NOTES, text_for_model
from memsheaf.recall.recall import Recall
from memsheaf.recall.session import Session
from memsheaf.recall.turns import Proposal
from memsheaf.sheaf import Sheaf, list_notices
from memsheaf.text.neutralize import for_prompt, one_line
from memsheaf.text.sentences import make_description, make_name
from memsheaf.work.brief import brief
from memsheaf.work.notes import problems

RENAMED = {"memory_replace": "memory_update"}
ALIASES = {"memory_type": "type", "old_str": "old_text", "new_str": "new_text", "kind": "type"}
SHAPES = ("anthropic", "openai", "openai-responses", "mcp")
PAGE_ROWS = 200
MAX_PAGES = 1_000_000
MAX_REFUSED_CALLS = 100  # that were not worth keeping, and may be made once more
MAX_ERROR_CHARS = 2_000
MAX_NOTE_CHARS = 300
MAX_HITS = 50

AnyTool = Callable[..., object]
_HINTED = (HubRefused, PathRefused, ReadOnly, SecretFound, StoreFailed)
"""Errors whose hint a model can follow or pass on."""
_NUMBER = re.compile(r"\s*-?[0-9]{1,9}\s*")


class ToolAnswer(NamedTuple):
    """The answer of a tool: the `text` for a model, and whether it `failed`.

    `touched` is what it changed, or what stood in its way, as values: nobody has to read it out of the text.
    """

    text: str
    failed: bool = False
    touched: tuple[Touched, ...] = ()


class SeenVersions:
    """The memory of one conversation, and what of it has been seen: which version of each file, what was recalled.

    One that does not `remember` serves callers that cannot be told apart: what one has seen does not count as known
    to the next. With a `session`, its host recalls by itself, too.
    """

    def __init__(
        self, memory: Sheaf, *, session: Session | None = None, tree: str = "", remember: bool = True
    ) -> None:
        self.memory = memory
        self.remember = remember
        self._session = session
        self._recalling: Session | None = None
        self._tree = tree
        self.versions: dict[Ref, str] = {}
        self.allow = STRICT
        self._refused: deque[int] = deque(maxlen=MAX_REFUSED_CALLS)

    def saw(self, memory: Memory) -> Memory:
        """Note that the model knows this text."""
        if self.remember:
            self.versions[memory.ref] = memory.version
        return memory

    def recall(self, message: str) -> Recall:
        """Return what matters for a message, each memory once in a conversation."""
        return self._open_session().recall(message, is_new_turn=self._session is None)

    def verdicts(self, memory: Memory) -> Sequence[str]:
        """Return what the folder of the work says about a memory."""
        return self._open_session().verdicts(memory)

    def _open_session(self) -> Session:
        """Return the host's session, else one of our own, which those who cannot be told apart do not share."""
        if self._session:
            return self._session
        if self._recalling is None or not self.remember:
            self._recalling = self.memory.session(tree=self._tree)
        return self._recalling

    def insists(self, name: str, given: Mapping[str, object]) -> bool:
        """Return True if the same call was refused before as not worth keeping; a repeat means the caller insists.

        Also where nothing is remembered: the words count, whoever says them.
        """
        call = hash((name, repr(sorted(given.items()))))
        if call in self._refused:
            return True
        self._refused.append(call)
        return False

    def touch(self, action: str, ref: Ref) -> tuple[Touched, ...]:
        """Return what was done to a file, as an answer tells it."""
        return (Touched(action, ref.scope, self.memory.label(ref)),)

    def label(self, memory: Memory) -> str:
        """Return the name under which a memory is shown."""
        return self.memory.label(memory.ref)


def memory_view(
    seen: SeenVersions,
    target: Annotated[str, "index: the catalog. context: how a conversation begins. files: all. Or a type"] = "index",
    page: Annotated[int, "Page, from 1"] = 1,
) -> str:
    """Look at the catalog of what is remembered."""
    if page < 1:
        raise TextRefused(f"there is no page {page}; pages begin with 1")
    if target == "index" and page == 1:
        return seen.memory.catalog().text
    if target == "context":
        return seen.memory.prompt()
    if target == "files":
        return _with_notices(seen, _list_files(seen, "", page, "(no memory files yet)"))
    if target != "index" and target not in KINDS and target != "other":
        raise TextRefused(f"{target!r} is no target; use index, context, files, {', '.join(KINDS)} or other")
    if target == "index":  # after the catalog, which shows the best, comes the list of all
        return seen.memory.catalog(page - 1).text
    return seen.memory.catalog(page, type=target).text


def memory_read(seen: SeenVersions, filename: Annotated[str, "As the catalog names it: user_prefers-tabs.md"]) -> str:
    """Read one memory in full."""
    if filename == CATALOG:
        return seen.memory.catalog().text
    memory = seen.memory.read(filename)
    file = seen.label(memory)
    if memory.state == "held":
        raise TextRefused(f"'{file}' cannot be shown: {memory.problem}")
    seen.saw(memory)
    scope = seen.memory.open_scope(memory.scope)
    scope.count_use([memory.path])
    text = text_for_model(memory)
    notes = [*scope.caveats(memory)]
    if memory.problem:
        text = f"({file}: {memory.problem})\n{text}"
    else:
        notes += seen.verdicts(memory)
    if not notes:
        return text
    lines = "".join(f"({one_line(for_prompt(note), MAX_NOTE_CHARS)})\n" for note in notes)
    return text.rstrip("\n") + "\n\n" + lines


def memory_write(
    seen: SeenVersions,
    content: Annotated[str, "The fact, then **Why:** and **How to apply:**"],
    name: Annotated[str, "Its topic, as a title: 'Package manager'"] = "",
    description: Annotated[str, "The fact and its occasion: 'pnpm, never npm, to install packages'"] = "",
    type: Annotated[str, "user: about the person. feedback: how to work", KINDS] = "",
    filename: Annotated[str, "Only to choose the file yourself"] = "",
) -> ToolAnswer:
    """Save one durable fact. Skip what the code or its history already says. An existing one of that name or file is
    replaced once you have read it."""
    if filename and not (name or description or type):
        return _write_free(seen, filename, content)
    fields = _complete(name, description, type, content)
    words = fields.name, fields.description, fields.kind, fields.content
    old: Memory | None = None
    more: dict[str, Any] = {"path": filename}
    if not filename:
        old, more = correct_written(seen.memory, fields)
    try:
        memory = seen.memory.write(*words, **more, allow=seen.allow)
    except Exists as error:
        present = seen.memory.read(error.ref)
        if (present.description, present.body.strip()) == (fields.description.strip(), fields.content.strip()):
            answer = f"Memory unchanged: {seen.label(seen.saw(present))}"
            return ToolAnswer(answer, touched=seen.touch("same", present.ref))
        expect = seen.versions.get(error.ref, "unread")
        memory = seen.memory.write(*words, path=error.ref, replace=True, expect=expect, allow=seen.allow)
    answer = f"Memory saved: {seen.label(seen.saw(memory))}"
    if memory.type in ("feedback", "project") and "**Why:**" not in memory.body:
        answer += " (add a line **Why:** and a line **How to apply:** so that edge cases can be judged)"
    if old:
        text = one_line(for_prompt(old.body), MAX_NOTE_CHARS)
        answer += f"\nIt corrects {seen.label(old)}: {text}\nUndo with `memsheaf undo`."
    return ToolAnswer(answer, touched=seen.touch("saved", memory.ref))


def memory_update(
    seen: SeenVersions,
    filename: Annotated[str, "The memory to change"],
    old_text: Annotated[str, "The exact text to replace; it must occur once"],
    new_text: Annotated[str, "What to put there"],
    count: Annotated[int, "How often old_text occurs, if more"] = 1,
) -> ToolAnswer:
    """Replace a piece of text in a memory."""
    memory = seen.saw(seen.memory.revise(filename, old_text, new_text, count=count, allow=seen.allow))
    return ToolAnswer(f"Memory updated: {seen.label(memory)}", touched=seen.touch("updated", memory.ref))


def memory_insert(
    seen: SeenVersions,
    filename: Annotated[str, "The memory to add to"],
    line: Annotated[int, "After this line of the body; 0: at the start"],
    text: Annotated[str, "The text to insert"],
) -> ToolAnswer:
    """Insert text in a memory."""
    memory = seen.saw(seen.memory.insert(filename, line, text, allow=seen.allow))
    return ToolAnswer(f"Memory updated: {seen.label(memory)}", touched=seen.touch("updated", memory.ref))


def memory_delete(seen: SeenVersions, filename: Annotated[str, "The memory to remove"]) -> ToolAnswer:
    """Remove a memory that is wrong or no longer needed. A person can bring it back."""
    if filename == CATALOG:
        raise TextRefused(f"{CATALOG} is the catalog: it is made from the memories and cannot be deleted")
    try:
        commit = seen.memory.forget(filename)
    except NotFound as error:  # to delete one twice does not delete its namesake in another scope
        other = seen.memory.resolve(filename)
        if other == error.ref or other.scope == seen.memory.home:
            raise
        error.hint = f"Another scope has one of that name: '{seen.memory.label(other)}'."
        raise
    ref = Ref(commit.scope, commit.revisions[0].path)
    return ToolAnswer(f"Memory deleted: {seen.memory.label(ref)}", touched=seen.touch("deleted", ref))


def memory_list(
    seen: SeenVersions,
    type: Annotated[str, "Only this type", (*KINDS, "other")] = "",
    page: Annotated[int, "Page, from 1"] = 1,
) -> str:
    """List all memory files."""
    nothing = f"No memory files of type '{one_line(type, 20)}'." if type else "No memory files yet."
    return _with_notices(seen, _list_files(seen, type, page, nothing))


def memory_search(
    seen: SeenVersions, query: Annotated[str, "Words to look for"], limit: Annotated[int, "At most so many"] = 10
) -> str:
    """Find memories by their words and by what they mean."""
    hits = seen.memory.search(query, limit=max(1, min(limit, MAX_HITS)))
    nothing = f"Nothing found for '{one_line(query, 80)}'. Try other words, or memory_list."
    return "\n".join(_describe_file(seen, hit.row) for hit in hits) or _with_notices(seen, nothing)


def memory_recall(seen: SeenVersions, message: Annotated[str, "The user's words"]) -> str:
    """Recall what matters for a message, each memory once. Call it first, unless memories stand beside it already."""
    recall = seen.recall(message)
    why = recall.gate or "no memory clearly fits; memory_search finds more"
    return recall.text or _with_notices(seen, f"Nothing is recalled: {why}.")


def _with_notices(seen: SeenVersions, answer: str) -> str:
    """Return an answer with what is known to be missing, so that a model does not take it for absent."""
    return "\n".join([answer, *(f"({notice})" for notice in list_notices(seen.memory))])


def memory_brief(seen: SeenVersions) -> str:
    """Where the work stands: notes, task, session. For when the context was lost."""
    return brief(seen.memory) or "Nothing was noted: there are no notes, no task and no session."


Tool = Callable[..., str | ToolAnswer]
TOOLS: tuple[Tool, ...] = (
    *(memory_view, memory_read, memory_write, memory_update, memory_insert, memory_delete),
    *(memory_list, memory_search, memory_recall, memory_brief),
)
READING = frozenset({"memory_view", "memory_read", "memory_list", "memory_search", "memory_recall", "memory_brief"})


class Tools:
    """The tools, bound to a sheaf, for one conversation.

    They read every scope of the sheaf, and write where `choose_scope` says.

    Callers that nobody can tell apart share tools that do not `remember` what was read: these replace no memory as a
    whole, only parts. With its `session`, no tool does anything in a turn in which the user asked to ignore memory.
    With a session that knows the folder of the work, or with that folder as `tree`, what is read comes with the
    verdict on its citations.

    >>> Tools(sheaf).call("memory_read", {"filename": "user_prefers-tabs.md"})     # doctest: +SKIP
    """

    def __init__(
        self, memory: Sheaf, *, session: Session | None = None, tree: str = "", remember: bool = True
    ) -> None:
        self.seen = SeenVersions(memory, session=session, tree=tree, remember=remember)
        self._session = session
        wanted = (tool for tool in TOOLS if not memory.read_only or tool.__name__ in READING)
        self._tools = {tool.__name__: tool for tool in wanted} if memory.settings.tools else {}

    @property
    def names(self) -> tuple[str, ...]:
        """The tools on offer: none when they are switched off, the reading ones on a read-only sheaf."""
        return tuple(self._tools)

    def schemas(self, shape: str = "anthropic") -> list[dict[str, Any]]:
        """Name, description and JSON schema of each tool, as an API takes them.

        Its shape is "anthropic", "openai" (Chat Completions), "openai-responses" or "mcp"; ValueError for another.
        """
        if shape not in SHAPES:
            raise ValueError(f"tools have no shape {shape!r}; there are: {', '.join(SHAPES)}")
        return [_shape(shape, **schema(tool)) for tool in self._tools.values()]

    def call(self, name: str, arguments: Mapping[str, object] | str) -> str:
        """Run a tool and return its answer; an error is an answer, too. The arguments may be JSON."""
        return self.answer(name, arguments).text

    def answer(self, name: str, arguments: Mapping[str, object] | str) -> ToolAnswer:
        """Run a tool as `call` does; return the answer with what a program wants to know beside the text."""
        try:
            try:
                return self._answer(name, arguments)
            except Changed as error:
                return self._show_anew(error.ref)
            except ReadOnly as error:
                return self._propose(error)
        except MemsheafError as error:
            return self._explain(error)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, nothing is raised at a model
            return _fail(describe_failure(error))

    def _explain(self, error: MemsheafError) -> ToolAnswer:
        answer = _fail(explain_error(error, self.seen.memory.home))
        if isinstance(error, Duplicate):
            return answer._replace(touched=self.seen.touch("same", error.ref))
        if isinstance(error, NotFound):
            return answer._replace(text=_with_notices(self.seen, answer.text))
        return answer

    def _propose(self, error: ReadOnly) -> ToolAnswer:
        """Let a change that only a person may make wait for review."""
        scope, memory, was = error.scope, error.memory, error.was
        if not isinstance(memory, Memory):
            raise error
        proposal = Proposal(memory.name, memory.description, memory.type, memory.body.strip("\n"), scope=scope)
        if isinstance(was, Memory):
            proposal = proposal._replace(replaces=was.ref, version=was.version)
        name = self.seen.memory.only(scope).learning.propose(proposal, "an agent asks to save it")
        how = f"`memsheaf review --scope {scope}` shows it, and `--approve {name}` saves it"
        text = f"Not saved yet: {error}. It waits for review as {name}.\nTell the user: {how}."
        return ToolAnswer(text, touched=(Touched("proposed", scope, name),))

    def _answer(self, name: str, arguments: Mapping[str, object] | str) -> ToolAnswer:
        name = RENAMED.get(str(name), str(name))
        if self._session and (reason := self._session.refusal(name in READING)):
            return ToolAnswer(f"Error: {reason}", failed=True)
        tool = self._tools.get(name)
        if tool is None:
            return _fail(f"there is no tool '{one_line(name, 60)}'; there are: {', '.join(self._tools) or 'none'}.")
        offered = from_json(arguments) if isinstance(arguments, str) else arguments
        if not isinstance(offered, Mapping):
            takes = ", ".join(parameters(tool)["properties"])
            return _fail(f"the arguments of {name} must be an object with {takes}.")
        given = read_arguments(tool, offered)
        for key, value in given.items():  # before anything reads it
            if isinstance(value, str) and len(value) > MAX_MEMORY_BYTES:
                raise TextRefused(f"{name}: '{key}' is longer than {MAX_MEMORY_BYTES >> 10} KiB; shorten it")
        if name not in READING:
            self._refuse_layer_file(given)
        try:
            answer = tool(self.seen, **given)
        except NotWorth:
            if not self.seen.insists(name, given):
                raise
            insisting = copy(self.seen)  # other threads may use this one
            insisting.allow = Allow(anyway=True)
            answer = tool(insisting, **given)
        return answer if isinstance(answer, ToolAnswer) else ToolAnswer(answer)

    def _refuse_layer_file(self, given: Mapping[str, object]) -> None:
        """Raise TextRefused for a file that a layer writes itself, and for notes that would be out of order."""
        filename = str(given.get("filename", ""))
        if not filename:
            return
        ref = self.seen.memory.resolve(filename)
        layer = ref.scope.partition("/")[0]
        if layer in ("task", "session") and fold(ref.path) in map(fold, LAYER_FILES):
            raise TextRefused(f"'{one_line(filename, 60)}' is kept by `memsheaf {layer}`, step by step")
        if fold(ref.path) != fold(NOTES):
            return
        content = given.get("content")
        if not isinstance(content, str):
            raise TextRefused(f"{NOTES} is short: read it, and write all of it with memory_write")
        for problem in problems(content, self.seen.memory.today):
            raise TextRefused(f"{NOTES} would be out of order: {problem.what}; {problem.advice}")

    def _show_anew(self, ref: Ref) -> ToolAnswer:
        """Say that a memory is not as the model last saw it, and show it, so that the next call can be right."""
        path = self.seen.memory.label(ref)
        try:
            memory = self.seen.saw(self.seen.memory.read(ref))
        except MemsheafError:
            text = f"'{path}' is no longer there. memory_list shows what exists."
        else:
            if self.seen.remember:
                notice = "and you have not seen its present text. It is below; call again to replace it, or use "
                notice += "memory_update to change a part."
            else:
                notice = "with the text below; use memory_update to change a part, or memory_delete first to "
                notice += "replace all of it."
            text = f"'{path}' exists, {notice}\n\n{text_for_model(memory)}"
        return ToolAnswer(f"Error: {text}", failed=True, touched=self.seen.touch("exists", ref))


def _fail(reason: str) -> ToolAnswer:
    return ToolAnswer(f"Error: {without_secrets(shorten(reason))}", failed=True)


def shorten(text: str) -> str:
    """Return an error's text, cut in the middle if it repeats much of the input: the reason stands at the end."""
    if len(text) <= MAX_ERROR_CHARS:
        return text
    return f"{text[: MAX_ERROR_CHARS // 2]} … {text[-MAX_ERROR_CHARS // 2 :]}"


def _write_free(seen: SeenVersions, filename: str, content: str) -> ToolAnswer:
    """Write a whole file: a memory when the content has a header, any text otherwise."""
    where: Ref | str = filename
    expect = ""
    with suppress(NotFound):
        present = seen.memory.read(where)
        if present.state in ("bad", "held"):
            raise BadHeader(present.ref, present.problem)  # a machine neither rewrites nor removes it
        if seen.versions.get(present.ref) != present.version:
            raise Changed(present.ref)
        where, expect = seen.memory.resolve(filename), present.version
    memory = seen.memory.put(where, content, expect=expect, free=True, allow=seen.allow)
    return ToolAnswer(f"Memory saved: {seen.label(seen.saw(memory))}", touched=seen.touch("saved", memory.ref))


def _complete(name: str, description: str, kind: str, content: str) -> Proposal:
    """Return what is to be saved; what is left out comes from a header in the content, else from its first sentence.

    Raises TextRefused when there is no sentence to take it from.
    """
    header = parse("", content.encode("utf-8", "replace"))
    if header.state == "ok":
        name, description, kind = name or header.name, description or header.description, kind or header.type
        content = header.body
    description = description or make_description(content)
    if not re.search(r"\w", description):
        raise TextRefused("there is nothing to save: 'content' must say the fact in a sentence")
    return Proposal(name or make_name(content), description, kind or judge_sentence(description).kind, content)


def _list_files(seen: SeenVersions, kind: str, page: int, empty: str) -> str:
    offset = PAGE_ROWS * (page - 1) if 0 < page < MAX_PAGES else 0
    rows, total = list_page(seen.memory.open_scopes(), Filter(kind=kind), sort="path", limit=PAGE_ROWS, offset=offset)
    if not total:
        return empty
    pages = math.ceil(total / PAGE_ROWS)
    if not 0 < page <= pages:
        raise TextRefused(f"there is no page {page}; there are {pages}")
    lines = [_describe_file(seen, row) for _, row in rows]
    if pages > 1:
        lines.append(f"(page {page} of {pages})")
    return "\n".join(lines)


def _describe_file(seen: SeenVersions, row: Row) -> str:
    row = row.masked()
    note = ""
    if row.problem:
        note = f"  (problem: {row.problem})"
    elif row.trust != "confirmed" or row.warning:
        note = f"  ({row.warning or row.trust})"
    kind = one_line(row.type, 20) or "free"
    return f"{seen.memory.label(row.ref)}  [{kind}]  {one_line(row.description, 160)}  (updated: {row.updated}){note}"


def explain_error(error: MemsheafError, home: str) -> str:
    """Return an error in words that a model can act on; files of the `home` scope have bare names."""
    file = error.ref.label(home)
    text = error.message(home)
    if isinstance(error, NotFound):
        hint = "memory_list shows what exists." if error.hint == NotFound.hint else error.hint
        return f"Memory file '{file}' not found. {hint}"
    if isinstance(error, NoMatch):
        lines = ", ".join(map(str, error.lines))
        if not lines:
            return f"String not found in '{file}'. Read it with memory_read and copy the text exactly."
        if len(error.lines) == 1:
            return f"The string occurs once in '{file}', at line {lines}. Leave the count out."
        return f"Multiple occurrences found at lines {lines}. Provide more context, or say the count."
    if isinstance(error, ReadOnly) and file:  # a fact
        how = "write a new file below facts/ with memory_write: the same name in its header, citations, a reason"
        return f"{text}. To correct it, {how}, and 'supersedes:' with '{file}'."
    if isinstance(error, Duplicate):
        return f"{text}. If this corrects it, change it with memory_update; else say how it differs."
    if isinstance(error, NotWorth):
        return f"{text}. {error.hint} Call again with the same arguments to keep it all the same."
    return f"{text}. {error.hint}" if isinstance(error, _HINTED) else f"{text}."


def describe_failure(error: Exception) -> str:
    """Return the message to a model about an unexpected error.

    >>> describe_failure(OSError(28, "No space left on device"))
    'the memory could not be used: No space left on device (OSError); tell the user.'
    """
    reason = (error.strerror if isinstance(error, OSError) else "") or "an error of its own"
    return f"the memory could not be used: {reason} ({type(error).__name__}); tell the user."


def _shape(shape: str, name: str, description: str, input_schema: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a tool in the shape that an API takes."""
    if shape == "anthropic":
        return {"name": name, "description": description, "input_schema": input_schema}
    if shape == "mcp":
        return {"name": name, "description": description, "inputSchema": input_schema}
    function = {"name": name, "description": description, "parameters": input_schema}
    if shape == "openai":
        return {"type": "function", "function": function}
    return {"type": "function", **function, "strict": False}  # strict unless told otherwise: then nothing is optional


def schema(tool: AnyTool) -> dict[str, Any]:
    """Describe a tool as a JSON schema, from its signature and its docstring."""
    hints = get_type_hints(tool, include_extras=True)
    del hints["return"]
    names = list(hints)[1:]  # the first is the conversation's
    return {
        "name": tool.__name__,
        "description": " ".join((tool.__doc__ or "").split()),
        "input_schema": {
            "type": "object",
            "properties": {name: _property(hints[name]) for name in names},
            "required": names[: len(names) - len(tool.__defaults__ or ())],
            "additionalProperties": False,
        },
    }


@cache
def parameters(tool: AnyTool) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments, computed once."""
    shape: dict[str, Any] = schema(tool)["input_schema"]
    return shape


def _property(hint: Any) -> dict[str, Any]:
    """Describe an argument that is `Annotated[type, description]` or `Annotated[type, description, choices]`."""
    description, *choices = hint.__metadata__
    shape = {"type": "integer" if hint.__origin__ is int else "string", "description": description}
    return shape | ({"enum": list(choices[0])} if choices else {})


def from_json(text: str) -> object:
    """Return the object that a model wrote as JSON, {} if it wrote nothing, None for anything else."""
    if len(text) > ANSWER_BYTES:
        return None
    try:
        return read(text or "{}", {"type": "object"})
    except ValueError:
        return None


def read_arguments(tool: AnyTool, given: Mapping[str, object]) -> dict[str, object]:
    """Return the arguments of a tool from those a model gave. Raises TextRefused unless all names and types fit."""
    shape = parameters(tool)
    known: dict[str, Any] = shape["properties"]
    arguments: dict[str, object] = {}
    for key, value in given.items():
        name = str(key) if key in known else ALIASES.get(str(key), str(key))
        if name not in known:
            raise TextRefused(
                f"{tool.__name__} takes no argument '{one_line(name, 40)}'; it takes {', '.join(known)}"
            )
        if value is None:
            continue
        if known[name]["type"] == "string":
            if not isinstance(value, str):
                raise TextRefused(f"{tool.__name__}: '{name}' must be a text")
        else:
            if isinstance(value, str) and _NUMBER.fullmatch(value):
                value = int(value)
            if type(value) is not int:
                raise TextRefused(f"{tool.__name__}: '{name}' must be a number")
        arguments[name] = value
    if missing := [name for name in shape["required"] if name not in arguments]:
        raise TextRefused(f"{tool.__name__} needs {', '.join(missing)}")
    return arguments
